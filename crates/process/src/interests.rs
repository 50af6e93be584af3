//! What epolls watch.

use std::collections::BTreeMap;
use weft_loader::abi::kind;

/// What an epoll watches: by descriptor number and what it was.
#[derive(Debug, Default)]
pub(super) struct Interests {
    pub members: BTreeMap<(i32, u64), Member>,
    /// Order in which members are reported: the last one reported is last next time.
    pub turn: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub events: u32,
    pub data: u64,
    /// Something has happened since it was last reported. With EPOLLEXCLUSIVE: this epoll was the one to be told, and it has been ready ever since.
    pub fresh: bool,
    /// A one-shot that has fired.
    pub spent: bool,
    /// When it was last reported.
    pub turn: u64,
    /// What a descriptor of the kernel's showed when it was last looked at.
    pub native: u32,
    /// What a descriptor of the kernel's showed when it was last reported, and the count of activity then.
    pub shown: u32,
    pub activity: u64,
}

impl Interests {
    /// The object is gone.
    pub fn forget(&mut self, inode: u64) {
        self.members.retain(|(_, word), _| *word != kind::VIRTUAL << 56 | inode);
    }
}
