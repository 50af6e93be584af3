//! Why a world could not be brought up.

use std::io;
use weft_node::StackError;

/// Why a world could not be brought up.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// The stack file is wrong.
    #[error(transparent)]
    Stack(#[from] Box<StackError>),
    /// An interface cannot be opened.
    #[error("interface {interface}: {why}")]
    Interface {
        /// Its name.
        interface: String,
        /// Why, and what to do.
        why: String,
    },
    /// The name of an interface is taken on the host.
    #[error("interface {interface}: {why}")]
    Busy {
        /// Its name.
        interface: String,
        /// By whom, in a few words.
        what: String,
        /// By whom, and what to do.
        why: String,
    },
    /// The network of an interface's host side is on another interface of the host already.
    #[error("interface {interface}: {what}: {advice}")]
    Network {
        /// Its name.
        interface: String,
        /// Which network, and where it is.
        what: String,
        /// What to do.
        advice: &'static str,
    },
    /// An option of the command cannot be granted.
    #[error("{option}: {why}")]
    Option {
        /// Which.
        option: String,
        /// Why, and what to do.
        why: String,
    },
    /// The control socket cannot be made.
    #[error("control socket {path}: {why}")]
    Control {
        /// Its path.
        path: String,
        /// Why.
        why: io::Error,
    },
    /// The system refuses something basic.
    #[error("{what}: {why}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        why: io::Error,
    },
}

impl From<StackError> for WorldError {
    fn from(error: StackError) -> WorldError {
        WorldError::Stack(Box::new(error))
    }
}
