//! What a node's programs are to see as files.

use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;

/// What a node's programs see as files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// The folder that is `/`; none: the host's files. It is never changed.
    pub root: Option<PathBuf>,
    /// The node's own.
    pub own: Vec<OwnFile>,
    /// Those that other nodes have, too: each node has them for itself, but they are written once. Its own go before.
    pub common: Arc<[OwnFile]>,
    /// Folders of the host, which nobody changes.
    pub mounts: Vec<Mount>,
}

/// A folder of the host's in a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Absolute, on the host.
    pub from: PathBuf,
    /// Absolute, inside the node.
    pub to: PathBuf,
    /// The node's programs may write there: into a layer of the node's own. It is at the top level then.
    pub writable: bool,
}

/// A file of a node's own, over what is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnFile {
    /// Absolute, inside the node.
    pub path: PathBuf,
    /// What is in it.
    pub contents: Arc<[u8]>,
    /// May it be executed?
    pub executable: bool,
}

/// What of a node's files lies in its layer, on its disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnDisk<'a> {
    /// It stays when the node ends.
    pub kept: bool,
    /// The layer, if it is there already.
    pub before: Option<BorrowedFd<'a>>,
}
