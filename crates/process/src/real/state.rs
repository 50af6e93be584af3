//! What a tree has in real time only.

use super::super::brought::Brought;
use super::super::ids::{ProcessId, ThreadId};
use super::super::object::Body;
use super::poller::Poller;
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use weft_intercept::sys::{self, Errno};

/// What a tree has in real time only.
#[derive(Debug)]
pub(crate) struct Real {
    /// Everything that the tree waits for.
    pub watch: OwnedFd,
    pub bell: OwnedFd,
    /// What wakes a parked thread.
    pub wakes: BTreeMap<ThreadId, OwnedFd>,
    /// What was made or accepted and has no descriptor yet.
    pub made: BTreeMap<ThreadId, Body>,
    /// By which way a thread gets a file that its call is answered with.
    pub passages: BTreeMap<ThreadId, OwnedFd>,
    /// What threads have brought for their calls.
    pub brought: BTreeMap<ThreadId, Brought>,
    pub pollers: BTreeMap<u64, Poller>,
    /// Those of them that no process is known to have, the oldest first.
    pub orphans: VecDeque<u64>,
    /// The epolls that watch an object.
    pub watchers: BTreeMap<u64, Vec<u64>>,
    /// [`Real::watch`] is readable.
    pub ready: bool,
    pub processes: ProcessId,
    /// No process is left.
    pub ended: bool,
}

impl Real {
    pub fn watch(&self, fd: BorrowedFd<'_>, token: u64, events: i32) -> Result<(), Errno> {
        let mut event = libc::epoll_event { events: events as u32, u64: token };
        // SAFETY: the kernel reads one epoll_event of ours.
        let added = unsafe { libc::epoll_ctl(self.watch.as_raw_fd(), libc::EPOLL_CTL_ADD, fd.as_raw_fd(), &raw mut event) };
        if added == 0 { Ok(()) } else { Err(sys::last()) }
    }
    /// What has a descriptor.
    pub fn is_made(&mut self, thread: ThreadId, body: Body) {
        self.made.insert(thread, body);
    }
}
