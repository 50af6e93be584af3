//! Epolls of the kernel's that watch sockets of the node, too.
//!
//! The epoll holds an eventfd of ours, which is raised while one of its sockets may be ready; the program's side then collects their events. As in
//! the kernel (fs/eventpoll.c) there is a list of members that became ready; a level-triggered one goes back to its end until it is found to be
//! ready no more.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::{AsFd as _, OwnedFd};
use weft_intercept::sys;

use super::super::interests::{EDGE, PRIVATE_BITS};

pub(super) const POLLERR: u32 = 8;
pub(super) const POLLHUP: u32 = 0x10;

#[derive(Debug)]
pub(crate) struct Member {
    pub events: u32,
    pub data: u64,
    pub queued: bool,
    /// A one-shot that has fired.
    pub spent: bool,
    /// What it showed when its events were last collected.
    pub seen: u32,
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
    /// A member's object has changed: it shows this, and Linux would wake those who wait for it with this key.
    pub fn woken(&mut self, key: (u64, i32), shown: u32, wakes: u32, nested: bool) {
        let Some(member) = self.members.get_mut(&key) else { return };
        let wanted = wanted(member.events);
        let concerns = wakes & wanted != 0 && !member.spent;
        // An edge is a wake-up that concerns it, not whatever it shows: see `Member::tells` of the node's epolls.
        if concerns || member.events & EDGE == 0 || shown & wanted & !member.seen != 0 {
            let told = self.shows(key, shown, nested);
            if concerns && nested && self.raised && !told {
                sys::raise_event(self.wake.as_fd());
            }
        } else {
            member.seen = shown;
        }
    }

    /// A member may be ready: it shows this. `nested`: perhaps another epoll watches this one, which is woken as often as this one is
    /// (ep_poll_callback: "if (waitqueue_active(&ep->poll_wait)) pwake++;"). True: the epoll was woken.
    pub fn shows(&mut self, key: (u64, i32), shown: u32, nested: bool) -> bool {
        let Some(member) = self.members.get_mut(&key) else { return false };
        if member.queued || member.spent || shown & wanted(member.events) == 0 {
            return false;
        }
        member.queued = true;
        self.ready.push_back(key);
        let wakes = !self.raised || nested;
        if wakes {
            sys::raise_event(self.wake.as_fd());
        }
        self.raised = true;
        wakes
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
