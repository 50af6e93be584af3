//! Calls on epolls of the kernel's that watch sockets of the node.

use super::super::caller::{Caller, Posted};
use super::super::ids::ThreadId;
use super::super::interests::{EDGE, EXCLUSIVE, ONE_SHOT, WAKEUP, asks_for_room};
use super::super::object::Body;
use super::super::outside::Outside;
use super::super::tree::Tree;
use super::poller::{Member, POLLERR, POLLHUP, Poller, wanted};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;
use weft_intercept::face::Poll;
use weft_intercept::memory::Memory as _;
use weft_intercept::sys::Errno;
use weft_loader::abi::{self, kind};

/// EPOLLEXCLUSIVE_OK_BITS: EPOLLIN, EPOLLOUT, EPOLLERR, EPOLLHUP, EPOLLWAKEUP, EPOLLET, EPOLLEXCLUSIVE.
const EXCLUSIVE_OK: u32 = 1 | 4 | POLLERR | POLLHUP | WAKEUP | EDGE | EXCLUSIVE;
/// Most members of an epoll.
const MEMBERS_MAX: usize = 65_536;
/// Most epolls with sockets in them that no process is known to have; the oldest goes.
const ORPHANS_MAX: usize = 256;
/// Bytes of `struct epoll_event`, which is packed.
const EVENT_BYTES: usize = 12;

impl Tree {
    /// An object has changed: the epolls that watch it may have something to tell. `wakes`: the key with which Linux would wake them.
    pub(in super::super) fn raise_pollers(&mut self, inode: u64, wakes: Poll, outside: &mut dyn Outside) {
        let Some(real) = &self.real else { return };
        let Some(watchers) = real.watchers.get(&inode).cloned() else { return };
        let shown = self.object_readiness(0, inode, outside.stack(), 0);
        let nested = self.arena.header().nested.load(Relaxed) != 0;
        let Some(real) = &mut self.real else { return };
        for number in watchers {
            let Some(poller) = real.pollers.get_mut(&number) else { continue };
            let keys: Vec<_> = poller.members.range((inode, i32::MIN)..=(inode, i32::MAX)).map(|(key, _)| *key).collect();
            keys.into_iter().for_each(|key| poller.woken(key, shown, wakes.0, nested));
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
                real.orphans.retain(|other| *other != number);
            }
        }
    }

    /// A process has closed its last descriptor of an epoll. Another may have one that it has not used yet, or one is on its way there over a unix
    /// socket: the kernel does not tell.
    pub(super) fn forget_poller(&mut self, number: u64, pid: u32) {
        let Some(real) = &mut self.real else { return };
        let Some(poller) = real.pollers.get_mut(&number) else { return };
        if !poller.pids.remove(&pid) || !poller.pids.is_empty() {
            return;
        }
        if poller.members.is_empty() {
            real.pollers.remove(&number);
            return;
        }
        real.orphans.push_back(number);
        if real.orphans.len() > ORPHANS_MAX {
            self.drop_orphan();
        }
    }

    /// A process is gone, and with it its descriptors.
    pub(super) fn forget_pollers_of(&mut self, pid: u32) {
        let Some(real) = &self.real else { return };
        let its: Vec<u64> = real.pollers.iter().filter(|(_, poller)| poller.pids.contains(&pid)).map(|(number, _)| *number).collect();
        its.into_iter().for_each(|number| self.forget_poller(number, pid));
    }

    /// The oldest of too many epolls that no process is known to have goes.
    fn drop_orphan(&mut self) {
        let Some(real) = &mut self.real else { return };
        let Some(number) = real.orphans.pop_front() else { return };
        if real.pollers.get(&number).is_none_or(|poller| !poller.pids.is_empty()) {
            return;
        }
        let poller = real.pollers.remove(&number);
        let inodes: BTreeSet<u64> = poller.into_iter().flat_map(|poller| poller.members.into_keys()).map(|(inode, _)| inode).collect();
        for inode in inodes {
            if let Some(watchers) = real.watchers.get_mut(&inode) {
                watchers.retain(|other| *other != number);
            }
        }
        self.calls.unsupported(format!("more than {ORPHANS_MAX} epolls with sockets that no process has used"), Errno(libc::ENFILE));
    }

    /// An epoll that this process uses.
    fn used_poller(&mut self, number: u64, pid: u32) -> Option<&mut Poller> {
        let real = self.real.as_mut()?;
        let poller = real.pollers.get_mut(&number)?;
        if poller.pids.is_empty() {
            real.orphans.retain(|other| *other != number);
        }
        poller.pids.insert(pid);
        Some(poller)
    }

    /// epoll_ctl(2) of a socket: argument 4 is what it is.
    pub(super) fn control_poller(
        &mut self,
        number: u64,
        pid: u32,
        thread: ThreadId,
        posted: &Posted,
        caller: &Caller<'_>,
        outside: &mut dyn Outside,
    ) -> Result<i64, Errno> {
        let (operation, fd, watched) = (posted.int(1), posted.int(2), posted.arguments[4]);
        let inode = watched & abi::INODE;
        let mut event = [0; EVENT_BYTES];
        if operation != libc::EPOLL_CTL_DEL {
            caller.read(posted.arguments[3], &mut event)?;
        }
        if watched >> 56 != kind::VIRTUAL || !self.objects.has(inode) {
            return Err(Errno(libc::EBADF));
        }
        let events = u32::from_ne_bytes([event[0], event[1], event[2], event[3]]);
        let data = event[4..].iter().rev().fold(0, |data, byte| data << 8 | u64::from(*byte));
        let key = (inode, fd);
        let poller = self.used_poller(number, pid).ok_or(Errno(libc::EINVAL))?;
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
                poller.members.insert(key, Member { events, data, queued: false, spent: false, seen: 0 });
                if let Some(real) = &mut self.real {
                    let watchers = real.watchers.entry(inode).or_default();
                    if let (true, Some(Body::Socket(socket))) = (watchers.is_empty(), self.objects.body(inode)) {
                        // What was before does not concern the first one that watches it.
                        outside.stack().take_wakes(*socket);
                    }
                    if !watchers.contains(&number) {
                        watchers.push(number);
                    }
                }
            }
            libc::EPOLL_CTL_MOD => {
                let member = poller.members.get_mut(&key).ok_or(Errno(libc::ENOENT))?;
                if member.events & EXCLUSIVE != 0 {
                    return Err(Errno(libc::EINVAL));
                }
                (member.events, member.data, member.spent, member.seen) = (events, data, false, 0);
            }
            libc::EPOLL_CTL_DEL => {
                poller.members.remove(&key).ok_or(Errno(libc::ENOENT))?;
                poller.ready.retain(|other| *other != key);
                poller.lower();
            }
            _ => return Err(Errno(libc::EINVAL)),
        }
        if operation != libc::EPOLL_CTL_DEL {
            if let (true, Some(Body::Socket(socket))) = (asks_for_room(events), self.objects.body(inode)) {
                outside.stack().tell_room(*socket);
            }
            let shown = self.object_readiness(thread, inode, outside.stack(), 0);
            let nested = self.arena.header().nested.load(Relaxed) != 0;
            if let Some(poller) = self.real.as_mut().and_then(|real| real.pollers.get_mut(&number)) {
                poller.shows(key, shown, nested);
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
        caller: &Caller<'_>,
        outside: &mut dyn Outside,
    ) -> Result<i64, Errno> {
        let room = posted.arguments[1] as usize;
        let Some(poller) = self.used_poller(number, pid) else { return Ok(0) };
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
            member.seen = shown;
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
        caller.write(posted.arguments[0], &bytes)?;
        Ok((bytes.len() / EVENT_BYTES) as i64)
    }
}
