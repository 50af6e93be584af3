//! Epolls of the kernel's that watch sockets of the node, too.
//!
//! The epoll holds an eventfd of ours, which is raised while one of its sockets may be ready; the program's side then collects their events. As in
//! the kernel (fs/eventpoll.c) there is a list of members that became ready; a level-triggered one goes back to its end until it is found to be
//! ready no more.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::{AsFd as _, OwnedFd};
use weft_intercept::sys;

pub(super) const POLLERR: u32 = 8;
pub(super) const POLLHUP: u32 = 0x10;
pub(super) const EXCLUSIVE: u32 = 1 << 28;
pub(super) const WAKEUP: u32 = 1 << 29;
pub(super) const ONE_SHOT: u32 = 1 << 30;
pub(super) const EDGE: u32 = 1 << 31;
const PRIVATE_BITS: u32 = EXCLUSIVE | WAKEUP | ONE_SHOT | EDGE;

#[derive(Debug)]
pub(crate) struct Member {
    pub events: u32,
    pub data: u64,
    pub queued: bool,
    /// A one-shot that has fired.
    pub spent: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Poller {
    pub wake: OwnedFd,
    pub raised: bool,
    /// By inode and descriptor number.
    pub members: BTreeMap<(u64, i32), Member>,
    pub ready: VecDeque<(u64, i32)>,
    /// Who has used it and not closed it since.
    pub pids: BTreeSet<u32>,
}

impl Poller {
    pub fn new(wake: OwnedFd, pid: u32) -> Poller {
        Poller { wake, raised: false, members: BTreeMap::new(), ready: VecDeque::new(), pids: BTreeSet::from([pid]) }
    }
    /// A member may be ready: it shows this.
    pub fn shows(&mut self, key: (u64, i32), shown: u32) {
        let Some(member) = self.members.get_mut(&key) else { return };
        if !member.queued && !member.spent && shown & wanted(member.events) != 0 {
            member.queued = true;
            self.ready.push_back(key);
            if !self.raised {
                self.raised = true;
                sys::raise_event(self.wake.as_fd());
            }
        }
    }
    pub fn forget(&mut self, inode: u64) {
        self.members.retain(|(member, _), _| *member != inode);
        self.ready.retain(|(member, _)| *member != inode);
        self.lower();
    }
    pub fn lower(&mut self) {
        if self.ready.is_empty() && self.raised {
            self.raised = false;
            sys::clear_event(self.wake.as_fd());
        }
    }
}

pub(super) fn wanted(events: u32) -> u32 {
    events & !PRIVATE_BITS | POLLERR | POLLHUP
}
