//! Epolls of the kernel's that watch sockets of the node, too.
//!
//! The epoll holds an eventfd of ours, which is raised while one of its sockets may be ready; the program's side then collects their events. As in
//! the kernel (fs/eventpoll.c) there is a list of members that became ready; a level-triggered one goes back to its end until it is found to be
//! ready no more.

use super::super::Tree;
use super::super::guest::{Guest, Posted};
use super::super::ids::ThreadId;
use super::super::outside::Outside;
use crate::memory::Memory as _;
use crate::sys::{self, Errno};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use weft_loader::abi::{self, kind};

const POLLERR: u32 = 8;
const POLLHUP: u32 = 0x10;
const EXCLUSIVE: u32 = 1 << 28;
const WAKEUP: u32 = 1 << 29;
const ONE_SHOT: u32 = 1 << 30;
const EDGE: u32 = 1 << 31;
const PRIVATE_BITS: u32 = EXCLUSIVE | WAKEUP | ONE_SHOT | EDGE;
/// EPOLLEXCLUSIVE_OK_BITS: EPOLLIN, EPOLLOUT, EPOLLERR, EPOLLHUP, EPOLLWAKEUP, EPOLLET, EPOLLEXCLUSIVE.
const EXCLUSIVE_OK: u32 = 1 | 4 | POLLERR | POLLHUP | WAKEUP | EDGE | EXCLUSIVE;
/// Most members of an epoll.
const MEMBERS_MAX: usize = 65_536;
/// Bytes of `struct epoll_event`, which is packed.
const EVENT_BYTES: usize = 12;

#[derive(Debug)]
struct Member {
    events: u32,
    data: u64,
    queued: bool,
    /// A one-shot that has fired.
    spent: bool,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Poller {
    wake: OwnedFd,
    raised: bool,
    /// By inode and descriptor number.
    members: BTreeMap<(u64, i32), Member>,
    ready: VecDeque<(u64, i32)>,
    /// Who has used it and not closed it since.
    pids: BTreeSet<u32>,
}

impl Poller {
    pub fn new(wake: OwnedFd, pid: u32) -> Poller {
        Poller { wake, raised: false, members: BTreeMap::new(), ready: VecDeque::new(), pids: BTreeSet::from([pid]) }
    }
    /// A member may be ready: it shows this.
    fn shows(&mut self, key: (u64, i32), shown: u32) {
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
    fn forget(&mut self, inode: u64) {
        self.members.retain(|(member, _), _| *member != inode);
        self.ready.retain(|(member, _)| *member != inode);
        self.lower();
    }
    fn lower(&mut self) {
        if self.ready.is_empty() && self.raised {
            self.raised = false;
            sys::clear_event(self.wake.as_fd());
        }
    }
}

fn wanted(events: u32) -> u32 {
    events & !PRIVATE_BITS | POLLERR | POLLHUP
}

impl Tree {
    /// An object has changed: the epolls that watch it may have something to tell.
    pub(in super::super) fn raise_pollers(&mut self, inode: u64, outside: &mut dyn Outside) {
        let Some(real) = &self.real else { return };
        let Some(watchers) = real.watchers.get(&inode).cloned() else { return };
        let shown = self.object_readiness(0, inode, outside.stack(), 0);
        let Some(real) = &mut self.real else { return };
        for number in watchers {
            let Some(poller) = real.pollers.get_mut(&number) else { continue };
            let keys: Vec<_> = poller.members.range((inode, i32::MIN)..=(inode, i32::MAX)).map(|(key, _)| *key).collect();
            keys.into_iter().for_each(|key| poller.shows(key, shown));
        }
    }

    /// An object is gone.
    pub(in super::super) fn forget_in_pollers(&mut self, inode: u64) {
        let Some(real) = &mut self.real else { return };
        for number in real.watchers.remove(&inode).unwrap_or_default() {
            let Some(poller) = real.pollers.get_mut(&number) else { continue };
            poller.forget(inode);
            if poller.members.is_empty() && poller.pids.is_empty() {
                real.pollers.remove(&number);
            }
        }
    }

    /// A process has closed its last descriptor of an epoll. When no other has used it, it is gone: the kernel does not tell.
    pub(super) fn forget_poller(&mut self, number: u64, pid: u32) {
        let Some(real) = &mut self.real else { return };
        let Some(poller) = real.pollers.get_mut(&number) else { return };
        poller.pids.remove(&pid);
        if poller.pids.is_empty() {
            let inodes: BTreeSet<u64> = poller.members.keys().map(|(inode, _)| *inode).collect();
            real.pollers.remove(&number);
            for inode in inodes {
                if let Some(watchers) = real.watchers.get_mut(&inode) {
                    watchers.retain(|other| *other != number);
                }
            }
        }
    }

    /// epoll_ctl(2) of a socket: argument 4 is what it is.
    pub(super) fn control_poller(
        &mut self,
        number: u64,
        pid: u32,
        thread: ThreadId,
        posted: &Posted,
        guest: &Guest<'_>,
        outside: &mut dyn Outside,
    ) -> Result<i64, Errno> {
        let (operation, fd, watched) = (posted.int(1), posted.int(2), posted.arguments[4]);
        let inode = watched & abi::INODE;
        let mut event = [0; EVENT_BYTES];
        if operation != libc::EPOLL_CTL_DEL {
            guest.read(posted.arguments[3], &mut event)?;
        }
        if watched >> 56 != kind::VIRTUAL || !self.objects.contains_key(&inode) {
            return Err(Errno(libc::EBADF));
        }
        let events = u32::from_ne_bytes([event[0], event[1], event[2], event[3]]);
        let data = event[4..].iter().rev().fold(0, |data, byte| data << 8 | u64::from(*byte));
        let key = (inode, fd);
        let real = self.real.as_mut().ok_or(Errno(libc::EINVAL))?;
        let poller = real.pollers.get_mut(&number).ok_or(Errno(libc::EINVAL))?;
        poller.pids.insert(pid);
        // do_epoll_ctl: "epoll adds to the wakeup queue at EPOLL_CTL_ADD time only, so EPOLLEXCLUSIVE is not allowed for a EPOLL_CTL_MOD operation."
        let exclusive = events & EXCLUSIVE != 0;
        if exclusive && (operation == libc::EPOLL_CTL_MOD || operation == libc::EPOLL_CTL_ADD && events & !EXCLUSIVE_OK != 0) {
            return Err(Errno(libc::EINVAL));
        }
        match operation {
            libc::EPOLL_CTL_ADD => {
                if poller.members.contains_key(&key) {
                    return Err(Errno(libc::EEXIST));
                }
                if poller.members.len() >= MEMBERS_MAX {
                    return Err(Errno(libc::ENOSPC));
                }
                poller.members.insert(key, Member { events, data, queued: false, spent: false });
                let watchers = real.watchers.entry(inode).or_default();
                if !watchers.contains(&number) {
                    watchers.push(number);
                }
            }
            libc::EPOLL_CTL_MOD => {
                let member = poller.members.get_mut(&key).ok_or(Errno(libc::ENOENT))?;
                if member.events & EXCLUSIVE != 0 {
                    return Err(Errno(libc::EINVAL));
                }
                (member.events, member.data, member.spent) = (events, data, false);
            }
            libc::EPOLL_CTL_DEL => {
                poller.members.remove(&key).ok_or(Errno(libc::ENOENT))?;
                poller.ready.retain(|other| *other != key);
                poller.lower();
            }
            _ => return Err(Errno(libc::EINVAL)),
        }
        if operation != libc::EPOLL_CTL_DEL {
            let shown = self.object_readiness(thread, inode, outside.stack(), 0);
            if let Some(poller) = self.real.as_mut().and_then(|real| real.pollers.get_mut(&number)) {
                poller.shows(key, shown);
            }
        }
        Ok(0)
    }

    /// The events of an epoll's sockets: (where to, room).
    pub(super) fn collect(
        &mut self,
        number: u64,
        pid: u32,
        thread: ThreadId,
        posted: &Posted,
        guest: &Guest<'_>,
        outside: &mut dyn Outside,
    ) -> Result<i64, Errno> {
        let room = posted.arguments[1] as usize;
        let Some(poller) = self.real.as_mut().and_then(|real| real.pollers.get_mut(&number)) else { return Ok(0) };
        poller.pids.insert(pid);
        let mut bytes = Vec::new();
        let turns = poller.ready.len();
        for _ in 0..turns {
            if bytes.len() / EVENT_BYTES >= room {
                break;
            }
            let Some(poller) = self.real.as_mut().and_then(|real| real.pollers.get_mut(&number)) else { break };
            let Some(key) = poller.ready.pop_front() else { break };
            let shown = self.object_readiness(thread, key.0, outside.stack(), 0);
            let Some(poller) = self.real.as_mut().and_then(|real| real.pollers.get_mut(&number)) else { break };
            let Some(member) = poller.members.get_mut(&key) else { continue };
            let found = shown & wanted(member.events);
            member.queued = false;
            if found == 0 || member.spent {
                continue;
            }
            bytes.extend(found.to_ne_bytes());
            bytes.extend(member.data.to_ne_bytes());
            if member.events & ONE_SHOT != 0 {
                member.spent = true;
            } else if member.events & EDGE == 0 {
                member.queued = true;
                poller.ready.push_back(key);
            }
        }
        if let Some(poller) = self.real.as_mut().and_then(|real| real.pollers.get_mut(&number)) {
            poller.lower();
        }
        guest.write(posted.arguments[0], &bytes)?;
        Ok((bytes.len() / EVENT_BYTES) as i64)
    }
}
