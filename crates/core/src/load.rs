//! Kinds of block that are not built in: somebody above reads a file and says what is in it.
//!
//! This crate opens no files. A [`Loader`] is given to a [`crate::BlockTable`] by the world that has files, and `load FILE` asks it.

use crate::block::{Block, Config, Kind};
use crate::control::ControlError;
use std::fmt;
use std::sync::Arc;

/// Most kinds that a node has loaded at a time.
pub const LOADED_MAX: usize = 64;

/// Reads kinds of block from files.
pub trait Loader: fmt::Debug + Send + Sync {
    /// Says what kind of block is in a file. The same content gives the same kind again.
    ///
    /// # Errors
    /// Why it is none, for a person: without the file's name.
    fn load(&self, file: &str) -> Result<Loaded, String>;
}

/// Makes a block of a loaded kind.
pub type Make = dyn Fn(&mut Config) -> Result<Box<dyn Block>, ControlError> + Send + Sync;

/// A kind of block that came from a file.
#[derive(Clone)]
pub struct Loaded {
    /// What it declares. Its version is another whenever the file's content is.
    pub kind: &'static Kind,
    /// Its constructor. Errors name the parameter.
    pub make: Arc<Make>,
}

impl fmt::Debug for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Loaded({} {})", self.kind.name, self.kind.version)
    }
}
