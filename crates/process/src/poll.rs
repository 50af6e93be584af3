//! poll, select and epoll. The program's side looks at descriptors of the kernel's and posts what it found; here the others are looked at,
//! and the waiting is done.

use super::caller::{Caller, Posted};
use super::ids::ThreadId;
use super::interests::{EDGE, EXCLUSIVE, Interests, Key, Member, ONE_SHOT, WAKEUP, Watched, asks_for_room};
use super::object::Body;
use super::outcome::{Asked, Outcome};
use super::outside::Outside;
use super::state::{State, Wait};
use super::timers::Deadline;
use super::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use weft_intercept::face::{Poll, Stack};
use weft_intercept::memory::Memory as _;
use weft_intercept::sys::Errno;
use weft_loader::abi::{self, ENTRIES_MAX, Entry, kind};
use weft_loader::calls;

const POLLERR: u32 = 8;
const POLLHUP: u32 = 0x10;
const POLLNVAL: u32 = 0x20;
/// EPOLLEXCLUSIVE_OK_BITS: EPOLLIN, EPOLLOUT, EPOLLERR, EPOLLHUP, EPOLLWAKEUP, EPOLLET, EPOLLEXCLUSIVE.
const EXCLUSIVE_OK: u32 = 1 | 4 | POLLERR | POLLHUP | WAKEUP | EDGE | EXCLUSIVE;
/// Most members of an epoll.
const MEMBERS_MAX: usize = 16_384;
/// Bytes of `struct epoll_event`, which is packed.
const EVENT_BYTES: usize = 12;
/// Epolls in epolls (EP_MAX_NESTS).
const NESTS_MAX: usize = 4;

fn kind_of(word: u64) -> u64 {
    word >> 56 & 0x7f
}

impl Tree {
    /// What an object shows.
    pub(super) fn object_readiness(&self, thread: ThreadId, inode: u64, stack: &mut dyn Stack, depth: usize) -> u32 {
        match self.objects.body(inode) {
            Some(Body::Socket(socket)) => stack.readiness(*socket).0,
            Some(Body::Timer(file)) => u32::from(file.expirations > 0),
            Some(Body::Signals(mask)) => u32::from(self.tasks.pending_of(thread) & mask != 0),
            Some(Body::Link(link)) => link.readiness(),
            Some(Body::Epoll(interests)) if depth < NESTS_MAX => {
                let ready = interests.candidates().any(|(key, member)| {
                    let shown = match kind_of(key.1) {
                        _ if member.spent => 0,
                        kind::VIRTUAL => self.object_readiness(thread, key.1 & abi::INODE, stack, depth + 1),
                        _ => member.native,
                    };
                    self.tells(interests, key, &member, shown) != 0
                });
                u32::from(ready)
            }
            // POLLIN, POLLOUT: files never wait.
            Some(Body::Setting { .. }) => 5,
            Some(Body::Epoll(_)) => 0,
            None => POLLNVAL,
        }
    }

    /// What an epoll has to tell of a member that shows this.
    fn tells(&self, interests: &Interests, key: Key, member: &Member, shown: u32) -> u32 {
        let how = interests.how(key);
        let activity = self.arena.header().activity.load(Relaxed);
        let counts = match how {
            Watched::Native => true,
            Watched::Other => member.events & EDGE != 0 && self.has_ready_natives(key.1 & abi::INODE, 0),
            Watched::Socket => false,
        };
        member.tells(shown, how, counts.then_some(activity))
    }

    /// Is one of the kernel's descriptors ready that this epoll watches, or one in it?
    fn has_ready_natives(&self, inode: u64, depth: usize) -> bool {
        let Some(Body::Epoll(interests)) = self.objects.body(inode) else { return false };
        let ready = |(key, member): (Key, Member)| self.tells(interests, key, &member, member.native) != 0;
        interests.natives().any(ready) || depth < NESTS_MAX && interests.others().any(|(_, inner)| self.has_ready_natives(inner, depth + 1))
    }

    /// What a wait for an object has to watch.
    fn watch(&self, inode: u64, wait: &mut Wait) {
        match self.objects.body(inode) {
            Some(Body::Socket(socket)) => wait.sockets.push(*socket),
            Some(Body::Signals(mask)) => wait.signals |= mask,
            _ => wait.objects.push(inode),
        }
    }

    /// The descriptors of the kernel's that an epoll watches, and those that epolls in it do.
    fn natives_of(&self, inode: u64, depth: usize, into: &mut Vec<Entry>) {
        let Some(Body::Epoll(interests)) = self.objects.body(inode) else { return };
        for ((fd, descriptor), member) in interests.natives().filter(|(_, member)| !member.spent) {
            into.push(Entry { fd, events: member.asked(), found: 0, reserved: 0, descriptor });
        }
        for (key, inner) in interests.others() {
            if depth < NESTS_MAX && interests.get(key).is_some_and(|member| !member.spent) {
                self.natives_of(inner, depth + 1, into);
            }
        }
    }

    /// The program's side has looked at them. True: one of the epoll's own or of one in it shows something that it did not show before.
    fn looked_at(&mut self, inode: u64, depth: usize, found: &BTreeMap<(i32, u64), u32>) -> bool {
        let Some(Body::Epoll(interests)) = self.objects.body_mut(inode) else { return false };
        let mut changed = false;
        let inner: Vec<(Key, u64)> = interests.others().collect();
        let natives: Vec<Key> = interests.natives().map(|(key, _)| key).collect();
        for key in natives {
            if let (Some(found), Some(member)) = (found.get(&key), interests.get_mut(key)) {
                // While it is on the list (of the ready ones), more of it is no news to who watches the epoll.
                changed |= *found != 0 && (member.native == 0 || member.events & EDGE != 0 && found & !member.native != 0);
                member.native = *found;
            }
        }
        for (key, inner) in inner {
            if depth < NESTS_MAX
                && self.looked_at(inner, depth + 1, found)
                && let Some(Body::Epoll(interests)) = self.objects.body_mut(inode)
            {
                interests.get_mut(key).into_iter().for_each(|member| member.fresh = true);
                changed = true;
            }
        }
        changed
    }

    /// What the program's side has found, by descriptor.
    fn found(&self, thread: ThreadId, from: usize, count: usize) -> BTreeMap<(i32, u64), u32> {
        let entries = self.entries(thread, count.min(ENTRIES_MAX)).into_iter().skip(from);
        entries.map(|entry| ((entry.fd, entry.descriptor), entry.found)).collect()
    }

    /// poll, ppoll, select, pselect6: (entries, timed, nanoseconds, first, entries looked at with those of epolls behind them).
    pub(super) fn poll(&mut self, thread: ThreadId, posted: &Posted, outside: &mut dyn Outside) -> Result<Outcome, Errno> {
        let count = (posted.arguments[0] as usize).min(ENTRIES_MAX);
        let mut entries = self.entries(thread, count);
        let epolls: Vec<u64> =
            entries.iter().filter(|entry| kind_of(entry.descriptor) == kind::VIRTUAL).map(|entry| entry.descriptor & abi::INODE).collect();
        let mut natives = Vec::new();
        epolls.iter().for_each(|inode| self.natives_of(*inode, 0, &mut natives));
        let looked = posted.arguments[4] as usize;
        if !natives.is_empty() {
            let held = self.tasks.threads.get(&thread).is_some_and(|one| one.held);
            if looked <= count && !held {
                let asked = natives.len().min(ENTRIES_MAX - count);
                natives.truncate(asked);
                self.put_entries(thread, &[entries, natives].concat());
                let channel = self.arena.channel(thread);
                channel.answer.store(abi::PROBE, Relaxed);
                channel.result.store((count + asked) as i64, Relaxed);
                return Ok(Outcome::Prepared);
            }
            let found = self.found(thread, count, looked);
            for inode in epolls {
                self.looked_at(inode, 0, &found);
            }
        }
        let mut wait = Wait { interrupted: abi::RESTART_NO_HANDLER, native: !natives.is_empty(), ..Wait::default() };
        let mut ready = 0;
        for entry in &mut entries {
            if entry.fd < 0 {
                continue;
            }
            match kind_of(entry.descriptor) {
                kind::VIRTUAL => {
                    let inode = entry.descriptor & abi::INODE;
                    let shown = self.object_readiness(thread, inode, outside.stack(), 0);
                    entry.found = entry.told(shown);
                    self.watch(inode, &mut wait);
                }
                kind::NONE => entry.found = POLLNVAL,
                _ => wait.native = true,
            }
            ready += i64::from(entry.found != 0);
        }
        let deadline = self.poll_deadline(thread, posted.arguments[1] != 0, posted.arguments[2]);
        let one = self.tasks.threads.get(&thread).ok_or(Errno(libc::ESRCH))?;
        if ready > 0 || one.expired || deadline.is_some_and(|deadline| deadline.at <= self.clock) {
            self.put_entries(thread, &entries);
            return Ok(Outcome::Done(ready));
        }
        wait.deadline = deadline;
        Ok(Outcome::Wait(wait))
    }

    fn poll_deadline(&self, thread: ThreadId, timed: bool, nanos: u64) -> Option<Deadline> {
        match self.tasks.threads.get(&thread).and_then(|one| one.deadline) {
            Some(deadline) => Some(deadline),
            None => timed.then(|| self.after(Duration::from_nanos(nanos))),
        }
    }

    fn entries(&self, thread: ThreadId, count: usize) -> Vec<Entry> {
        let mut bytes = vec![0; count * size_of::<Entry>()];
        let channel = self.arena.channel(thread);
        match self.shows.entries {
            Some(at) => channel.log.get(at, &mut bytes),
            None => channel.data.get(0, &mut bytes),
        };
        let parse = |one: &[u8]| {
            let int = |at: usize| one.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_ne_bytes);
            let descriptor = u64::from(int(16)) | u64::from(int(20)) << 32;
            Entry { fd: int(0) as i32, events: int(4), found: int(8), reserved: 0, descriptor }
        };
        bytes.chunks_exact(size_of::<Entry>()).map(parse).collect()
    }

    fn put_entries(&self, thread: ThreadId, entries: &[Entry]) {
        if self.shows.entries.is_some() {
            return;
        }
        let mut bytes = Vec::with_capacity(size_of_val(entries));
        for entry in entries {
            bytes.extend(entry.fd.to_ne_bytes());
            bytes.extend(entry.events.to_ne_bytes());
            bytes.extend(entry.found.to_ne_bytes());
            bytes.extend(0_u32.to_ne_bytes());
            bytes.extend(entry.descriptor.to_ne_bytes());
        }
        self.arena.channel(thread).data.put(0, &bytes);
    }

    /// epoll_ctl(2): argument 4 is what the watched descriptor is.
    pub(super) fn epoll_ctl(&mut self, asked: &Asked<'_>, call: calls::EpollCtl, outside: &mut dyn Outside) -> Result<Outcome, Errno> {
        let Asked { thread, posted, caller, .. } = *asked;
        let (inode, operation, fd, watched) = (posted.inode(), call.op.get(), call.fd.get(), posted.arguments[4]);
        if watched == posted.descriptor & !abi::NONBLOCKING {
            return Err(Errno(libc::EINVAL));
        }
        // ep_insert: "if (!file_can_poll(tf.file)) return -EPERM;"
        if matches!(kind_of(watched), kind::FILE) {
            return Err(Errno(libc::EPERM));
        }
        let mut event = [0; EVENT_BYTES];
        if operation != libc::EPOLL_CTL_DEL {
            caller.read(call.event.0 as u64, &mut event)?;
        }
        let events = u32::from_ne_bytes([event[0], event[1], event[2], event[3]]);
        let data = event[4..].iter().rev().fold(0, |data, byte| data << 8 | u64::from(*byte));
        let key = (fd, watched);
        let activity = 0;
        if operation == libc::EPOLL_CTL_ADD && self.makes_a_loop(inode, watched) {
            return Err(Errno(libc::ELOOP));
        }
        let how = match (kind_of(watched), self.objects.body(watched & abi::INODE)) {
            (kind::VIRTUAL, Some(Body::Socket(_))) => Watched::Socket,
            (kind::VIRTUAL, _) => Watched::Other,
            _ => Watched::Native,
        };
        let shown =
            if how == Watched::Native { None } else { Some(self.object_readiness(thread, watched & abi::INODE, outside.stack(), 0)) };
        let Some(Body::Epoll(interests)) = self.objects.body(inode) else {
            return Err(Errno(libc::EINVAL));
        };
        // ep_modify: "if (ep_item_poll(epi, &pt, 1)) { … if (!ep_is_linked(epi)) { list_add_tail(&epi->rdllink, &ep->rdllist);"
        let was_told = interests.get(key).is_some_and(|member| self.tells(interests, key, member, shown.unwrap_or(member.native)) != 0);
        let Some(Body::Epoll(interests)) = self.objects.body_mut(inode) else {
            return Err(Errno(libc::EINVAL));
        };
        // do_epoll_ctl: "epoll adds to the wakeup queue at EPOLL_CTL_ADD time only, so EPOLLEXCLUSIVE is not allowed for a EPOLL_CTL_MOD operation."
        let exclusive = events & EXCLUSIVE != 0;
        let was = interests.get(key).is_some_and(|member| member.events & EXCLUSIVE != 0);
        if exclusive && (operation == libc::EPOLL_CTL_MOD || operation == libc::EPOLL_CTL_ADD && events & !EXCLUSIVE_OK != 0)
            || was && operation == libc::EPOLL_CTL_MOD
        {
            return Err(Errno(libc::EINVAL));
        }
        // What it showed is still known: a change of what is asked for is no news of it.
        let native = interests.get(key).map_or(0, |member| member.native);
        let member = Member { events, data, fresh: true, spent: false, turn: interests.turn, native, shown: 0, activity };
        match operation {
            libc::EPOLL_CTL_ADD if interests.get(key).is_some() => return Err(Errno(libc::EEXIST)),
            libc::EPOLL_CTL_ADD if interests.len() >= MEMBERS_MAX => return Err(Errno(libc::ENOSPC)),
            libc::EPOLL_CTL_ADD => {
                interests.insert(key, member, how);
                if kind_of(watched) == kind::VIRTUAL
                    && let Some(object) = self.objects.get_mut(watched & abi::INODE)
                    && !object.watchers.contains(&inode)
                {
                    object.watchers.push(inode);
                    if let (Body::Socket(socket), [_]) = (&object.body, &object.watchers[..]) {
                        // What was before does not concern the first one that watches it.
                        outside.stack().take_wakes(*socket);
                    }
                }
            }
            libc::EPOLL_CTL_MOD | libc::EPOLL_CTL_DEL if interests.get(key).is_none() => return Err(Errno(libc::ENOENT)),
            libc::EPOLL_CTL_MOD => interests.insert(key, member, how),
            libc::EPOLL_CTL_DEL => {
                interests.remove(key);
            }
            _ => return Err(Errno(libc::EINVAL)),
        }
        if asks_for_room(events)
            && let Some(Body::Socket(socket)) = self.objects.body(watched & abi::INODE).filter(|_| how == Watched::Socket)
        {
            outside.stack().tell_room(*socket);
        }
        let is_ready = member.asked() & shown.unwrap_or(0) != 0;
        if operation != libc::EPOLL_CTL_DEL && is_ready && !was_told {
            self.objects.note_change(inode, Poll::IN);
        } else {
            // Another thread may be waiting there, for one of the kernel's.
            self.objects.note_look(inode);
        }
        Ok(Outcome::Done(0))
    }

    /// fs/eventpoll.c, ep_loop_check: "the epoll file descriptor being added creates a cycle" of epolls, or chains of more than EP_MAX_NESTS.
    fn makes_a_loop(&self, epoll: u64, watched: u64) -> bool {
        const NESTS_MAX: usize = 4;
        let below = watched & abi::INODE;
        let is_epoll = |inode| matches!(self.objects.body(inode), Some(Body::Epoll(_)));
        if kind_of(watched) != kind::VIRTUAL || !is_epoll(below) {
            return false;
        }
        let down = |inode: u64| -> Vec<u64> {
            let Some(Body::Epoll(interests)) = self.objects.body(inode) else { return Vec::new() };
            interests.others().map(|(_, inode)| inode).filter(|inode| is_epoll(*inode)).collect()
        };
        let up = |inode: u64| -> Vec<u64> {
            let watchers = self.objects.get(inode).map_or(&[][..], |object| &object.watchers);
            watchers.iter().copied().filter(|watcher| down(*watcher).contains(&inode)).collect()
        };
        // How many epolls lie one behind the other in a direction; `None`: the way leads to `epoll`.
        let levels = |from: u64, next: &dyn Fn(u64) -> Vec<u64>| -> Option<usize> {
            let mut level = BTreeSet::from([from]);
            for count in 0..=NESTS_MAX {
                if count > 0 && level.contains(&epoll) {
                    return None;
                }
                level = level.into_iter().flat_map(next).collect();
                if level.is_empty() {
                    return Some(count);
                }
            }
            Some(NESTS_MAX + 1)
        };
        levels(below, &down).is_none_or(|lower| lower + levels(epoll, &up).unwrap_or(0) + 1 > NESTS_MAX)
    }

    /// epoll_wait(2): (epoll, events, room and timed, nanoseconds, first, entries looked at).
    pub(super) fn epoll_wait(
        &mut self,
        thread: ThreadId,
        posted: &Posted,
        caller: &Caller<'_>,
        outside: &mut dyn Outside,
    ) -> Result<Outcome, Errno> {
        let inode = posted.inode();
        let room = (posted.arguments[2] as u32 as usize).min(4096);
        let timed = posted.arguments[2] >> 32 != 0;
        let looked = posted.arguments[5] as usize;
        let Some(Body::Epoll(interests)) = self.objects.body(inode) else { return Err(Errno(libc::EINVAL)) };
        let members: Vec<(Key, Member)> = interests.candidates().collect();
        let mut natives = Vec::new();
        self.natives_of(inode, 0, &mut natives);
        let natives = !natives.is_empty();
        let held = self.tasks.threads.get(&thread).is_some_and(|one| one.held);
        if natives && looked == 0 && !held {
            self.prepare_probe(thread);
            return Ok(Outcome::Prepared);
        }
        let found = self.found(thread, 0, looked);
        self.looked_at(inode, 0, &found);
        let activity = self.arena.header().activity.load(Relaxed);
        let mut ready = Vec::new();
        let mut quiet = Vec::new();
        for (key, member) in members {
            let virtual_one = kind_of(key.1) == kind::VIRTUAL;
            let shown = if virtual_one {
                self.object_readiness(thread, key.1 & abi::INODE, outside.stack(), 0)
            } else {
                found.get(&key).copied().unwrap_or(0)
            };
            if shown & POLLNVAL != 0 {
                self.forget_member(inode, key);
                continue;
            }
            let Some(Body::Epoll(interests)) = self.objects.body(inode) else { break };
            let told = self.tells(interests, key, &member, shown);
            if told != 0 {
                ready.push((member.turn, key, told, shown, member.data));
            } else if virtual_one {
                quiet.push((key, shown));
            }
        }
        if let Some(Body::Epoll(interests)) = self.objects.body_mut(inode) {
            for (key, shown) in quiet {
                interests.get_mut(key).into_iter().for_each(|member| member.was_quiet(shown));
                interests.rests(key);
            }
        }
        debug_assert!(self.rest_is_quiet(thread, inode, outside.stack()));
        ready.sort_unstable();
        ready.truncate(room);
        let deadline = self.poll_deadline(thread, timed, posted.arguments[3]);
        let one = self.tasks.threads.get(&thread).ok_or(Errno(libc::ESRCH))?;
        if ready.is_empty() && !one.expired && deadline.is_none_or(|deadline| deadline.at > self.clock) {
            let mut wait =
                Wait { native: natives, deadline, objects: vec![inode], interrupted: -i64::from(libc::EINTR), ..Wait::default() };
            self.watch_members(inode, &mut wait, 0);
            return Ok(Outcome::Wait(wait));
        }
        let mut bytes = Vec::with_capacity(ready.len() * EVENT_BYTES);
        for (_, key, wanted, shown, data) in &ready {
            bytes.extend(wanted.to_ne_bytes());
            bytes.extend(data.to_ne_bytes());
            self.reported(inode, *key, *shown, activity);
        }
        caller.write(posted.arguments[1], &bytes)?;
        Ok(Outcome::Done(ready.len() as i64))
    }

    /// Is none of the sockets ready that nobody looks at? For tests: what changes and does not tell is found here.
    fn rest_is_quiet(&self, thread: ThreadId, inode: u64, stack: &mut dyn Stack) -> bool {
        const LOOKED_AT_MAX: usize = 64;
        let Some(Body::Epoll(interests)) = self.objects.body(inode) else { return true };
        interests.resting().take(LOOKED_AT_MAX).all(|(key, member)| {
            let told = member.spent || member.events & (EDGE | EXCLUSIVE) != 0;
            let shown = self.object_readiness(thread, key.1 & abi::INODE, stack, 0);
            told || shown & member.asked() == 0
        })
    }

    fn forget_member(&mut self, inode: u64, key: (i32, u64)) {
        if let Some(Body::Epoll(interests)) = self.objects.body_mut(inode) {
            interests.remove(key);
        }
    }

    fn reported(&mut self, inode: u64, key: (i32, u64), shown: u32, activity: u64) {
        let Some(Body::Epoll(interests)) = self.objects.body_mut(inode) else { return };
        interests.turn += 1;
        let turn = interests.turn;
        if let Some(member) = interests.get_mut(key) {
            member.turn = turn;
            // ep_send_events: what is not edge-triggered stays on the list.
            member.fresh = member.events & (EXCLUSIVE | EDGE) == EXCLUSIVE;
            member.shown = shown;
            member.activity = activity;
            member.spent = member.events & ONE_SHOT != 0;
            if member.spent || member.events & EDGE != 0 {
                interests.rests(key);
            }
        }
    }

    /// A wait at an epoll ends when a member of it, or of one inside, changes. Sockets tell the epolls that watch them.
    fn watch_members(&self, inode: u64, wait: &mut Wait, depth: usize) {
        let Some(Body::Epoll(interests)) = self.objects.body(inode) else { return };
        for (_, member) in interests.others() {
            self.watch(member, wait);
            if depth < NESTS_MAX {
                self.watch_members(member, wait, depth + 1);
            }
        }
    }

    /// Asks the program's side to look at an epoll's descriptors of the kernel's.
    pub(super) fn prepare_probe(&mut self, thread: ThreadId) {
        let arena = std::sync::Arc::clone(&self.arena);
        let channel = arena.channel(thread);
        let inode = channel.descriptor.load(Relaxed) & abi::INODE;
        let mut entries = Vec::new();
        self.natives_of(inode, 0, &mut entries);
        if entries.len() > ENTRIES_MAX {
            tracing::warn!(node = %self.config.name, "an epoll watches {} descriptors of the kernel's; only {ENTRIES_MAX} are looked at", entries.len());
            self.calls
                .unsupported("epoll_wait (descriptors of the kernel's beyond those that are looked at)".to_owned(), Errno(libc::ENOSPC));
            entries.truncate(ENTRIES_MAX);
        }
        self.put_entries(thread, &entries);
        channel.answer.store(abi::PROBE, Relaxed);
        channel.result.store(entries.len() as i64, Relaxed);
    }

    /// Is an object in an epoll?
    pub(super) fn is_watched(&self, inode: u64) -> bool {
        self.objects.get(inode).is_some_and(|object| !object.watchers.is_empty())
            || self.real.as_ref().is_some_and(|real| real.watchers.contains_key(&inode))
    }

    /// An object has changed, and Linux would wake with this key who waits for it: edges for the epolls that watch it. Their inodes are added.
    pub(super) fn note_edges(&mut self, inode: u64, wakes: Poll, objects: &mut BTreeSet<u64>) {
        self.wake_watchers(inode, wakes, objects, &mut BTreeSet::new());
    }

    fn wake_watchers(&mut self, inode: u64, wakes: Poll, objects: &mut BTreeSet<u64>, woken: &mut BTreeSet<u64>) {
        let watchers = self.objects.get(inode).map(|object| object.watchers.clone()).unwrap_or_default();
        // __wake_up_common: of those that want it for themselves one is told, the first at which somebody waits; those before it, at which nobody does, as well.
        let mut given = false;
        for watcher in watchers {
            let Some(Body::Epoll(interests)) = self.objects.body_mut(watcher) else { continue };
            let (mut any, mut told, mut exclusively) = (false, false, false);
            interests.changed(inode, |member| {
                any = true;
                if member.hears(wakes.0) && !(given && member.events & EXCLUSIVE != 0) {
                    member.fresh = true;
                    (told, exclusively) = (true, exclusively || member.events & EXCLUSIVE != 0);
                }
            });
            let waits =
                || self.tasks.threads.values().any(|one| matches!(&one.state, State::Waiting(wait) if wait.objects.contains(&watcher)));
            given |= exclusively && waits();
            // Who waits there looks again in any case; an epoll wakes others with EPOLLIN (ep_poll_safewake).
            if any {
                objects.insert(watcher);
            }
            if told && woken.insert(watcher) {
                self.wake_watchers(watcher, Poll::IN, objects, woken);
            }
        }
    }
}

const _: () = assert!(Poll::ERR.0 == POLLERR && Poll::HUP.0 == POLLHUP);
