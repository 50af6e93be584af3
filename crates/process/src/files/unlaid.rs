//! Folders of the host's over which nothing of a node's is laid yet, and which are next.

use super::places::{DEVICE_LINKS, NEW};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weft_loader::abi;

/// Folders of the host's that get an overlay when a program wants to write there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unlaid {
    /// These are tried first.
    pub late: Vec<OsString>,
    /// What is at the top, where that is everybody's: a node's own is made next.
    pub whole: Option<Arc<Top>>,
    pub closed: Vec<OsString>,
}

/// What is laid next.
pub(crate) enum Next {
    Layers(Vec<OsString>),
    Whole(Arc<Top>),
}

impl Unlaid {
    /// `Header::closed`.
    pub fn told(&self) -> u32 {
        match (self.late.is_empty() && self.whole.is_none(), self.closed.is_empty()) {
            (false, _) => abi::UNLAID_LATE,
            (true, false) => abi::UNLAID,
            (true, true) => 0,
        }
    }

    pub fn next(&mut self) -> Next {
        match self.whole.take_if(|_| self.late.is_empty()) {
            Some(top) => Next::Whole(top),
            None => Next::Layers(std::mem::take(if self.late.is_empty() { &mut self.closed } else { &mut self.late })),
        }
    }
}

/// What lies at the top, besides what is new.
#[derive(Clone, Debug, Default)]
pub(crate) struct Top {
    pub folders: Vec<OsString>,
    /// Those of them on which something is mounted.
    pub mounted: Vec<OsString>,
    pub links: Vec<(OsString, PathBuf)>,
}

impl Top {
    /// Paths of what there is of it, from `/`, which is one itself.
    pub fn names(&self) -> impl Iterator<Item = PathBuf> {
        let new = NEW.iter().map(|(name, _)| PathBuf::from(name));
        let links = self.links.iter().map(|(name, _)| PathBuf::from(name));
        let devices = DEVICE_LINKS.iter().map(|(name, _)| Path::new("dev").join(name));
        [PathBuf::new()].into_iter().chain(new).chain(self.folders.iter().map(PathBuf::from)).chain(links).chain(devices)
    }
}
