//! Futexes: who waits at which word. The words themselves are compared and changed inside the programs, where nobody else runs meanwhile.

use super::answer::Outcome;
use super::guest::{Guest, Posted};
use super::{ThreadId, Tree, Wait};
use crate::memory::Memory as _;
use crate::sys::Errno;
use std::sync::atomic::Ordering::Relaxed;
use weft_loader::abi;

const FUTEX_WAIT: i32 = 0;
const FUTEX_WAKE: i32 = 1;
const FUTEX_REQUEUE: i32 = 3;
const FUTEX_CMP_REQUEUE: i32 = 4;
const FUTEX_LOCK_PI: i32 = 6;
const FUTEX_WAIT_BITSET: i32 = 9;
const FUTEX_WAKE_BITSET: i32 = 10;
const FUTEX_LOCK_PI2: i32 = 13;
const FUTEX_PRIVATE_FLAG: i32 = 128;
const FUTEX_CLOCK_REALTIME: i32 = 256;

/// Which word: of a memory by its address, or of a shared file by its place in it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Key {
    /// Address space (number outside of the process that made it) and address.
    Private(u32, u64),
    /// Device, inode, offset.
    Shared(u64, u64, u64),
}

/// Who waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter {
    thread: ThreadId,
    bits: u32,
}

impl Tree {
    /// futex(2), as far as the program's side sends it here.
    pub(super) fn futex(&mut self, thread: ThreadId, posted: &Posted, guest: &Guest<'_>) -> Result<Outcome, Errno> {
        let operation = posted.int(1) & 0x7f;
        let private = posted.int(1) & FUTEX_PRIVATE_FLAG != 0;
        let key = self.futex_key(thread, posted.arguments[0], private)?;
        let bits = if matches!(operation, FUTEX_WAIT_BITSET | FUTEX_WAKE_BITSET) { posted.arguments[5] as u32 } else { u32::MAX };
        if bits == 0 {
            return Err(Errno(libc::EINVAL));
        }
        match operation {
            FUTEX_WAKE | FUTEX_WAKE_BITSET => Ok(Outcome::Done(self.futex_wake(key, posted.arguments[2] as i32, bits))),
            FUTEX_REQUEUE | FUTEX_CMP_REQUEUE => {
                let target = self.futex_key(thread, posted.arguments[4], private)?;
                let woken = self.futex_wake(key, posted.int(2), u32::MAX);
                let moved = self.futex_requeue(key, target, posted.int(3));
                Ok(Outcome::Done(if operation == FUTEX_REQUEUE { woken } else { woken + moved }))
            }
            _ => self.futex_wait(thread, posted, guest, operation, key, bits),
        }
    }

    fn futex_wait(
        &mut self,
        thread: ThreadId,
        posted: &Posted,
        guest: &Guest<'_>,
        operation: i32,
        key: Key,
        bits: u32,
    ) -> Result<Outcome, Errno> {
        let one = self.threads.get(&thread).ok_or(Errno(libc::ESRCH))?;
        if one.held {
            // It was neither woken nor interrupted: its time is up.
            return Err(Errno(libc::ETIMEDOUT));
        }
        let deadline = if posted.arguments[3] == 0 {
            None
        } else {
            let value = guest.read_timespec(posted.arguments[3])?;
            // FUTEX_WAIT: how long; the others: until when. LOCK_PI's time is always of CLOCK_REALTIME.
            let realtime = posted.int(1) & FUTEX_CLOCK_REALTIME != 0 || operation == FUTEX_LOCK_PI;
            let clock = if realtime { libc::CLOCK_REALTIME } else { libc::CLOCK_MONOTONIC };
            let absolute = matches!(operation, FUTEX_WAIT_BITSET | FUTEX_LOCK_PI | FUTEX_LOCK_PI2);
            Some(self.at_clock(clock, value, absolute)?)
        };
        if !matches!(operation, FUTEX_WAIT | FUTEX_WAIT_BITSET | FUTEX_LOCK_PI | FUTEX_LOCK_PI2) {
            return Err(Errno(libc::ENOSYS));
        }
        if deadline.is_some_and(|deadline| deadline <= self.clock) {
            return Err(Errno(libc::ETIMEDOUT));
        }
        self.futexes.entry(key).or_default().push_back(Waiter { thread, bits });
        self.arena.header().futex_waiters.fetch_add(1, Relaxed);
        // With a time limit FUTEX_WAIT is restarted by restart_syscall, with the time that is left; here the program sees EINTR.
        let interrupted = if deadline.is_some() { abi::RESTART_NO_HANDLER } else { abi::RESTART };
        Ok(Outcome::Wait(Wait { futex: Some(key), deadline, interrupted, ..Wait::default() }))
    }

    /// Wakes up to `count` in order of their coming.
    pub(super) fn futex_wake(&mut self, key: Key, count: i32, bits: u32) -> i64 {
        let mut woken = Vec::new();
        if let Some(queue) = self.futexes.get_mut(&key) {
            let mut kept = std::collections::VecDeque::new();
            while let Some(waiter) = queue.pop_front() {
                // "if (++ret >= nr_wake) break;": at least one, even for a count of 0.
                if waiter.bits & bits != 0 && (woken.len() as i64) < i64::from(count.max(1)) {
                    woken.push(waiter.thread);
                } else {
                    kept.push_back(waiter);
                }
            }
            *queue = kept;
            if queue.is_empty() {
                self.futexes.remove(&key);
            }
        }
        self.arena.header().futex_waiters.fetch_sub(woken.len() as u32, Relaxed);
        for thread in &woken {
            if let Some(super::State::Waiting(wait)) = self.threads.get_mut(thread).map(|one| &mut one.state) {
                wait.futex = None;
            }
            self.answer(*thread, 0);
            self.make_runnable(*thread);
        }
        woken.len() as i64
    }

    /// Threads have ended that could not say which locks they held. The kernel has marked those (FUTEX_OWNER_DIED, set_robust_list(2)); whoever waits at a
    /// word that processes share looks at it again, as after any wake-up.
    pub(super) fn wake_for_the_dead(&mut self) {
        let since = |waiter: &Waiter| match self.threads.get(&waiter.thread).map(|one| &one.state) {
            Some(super::State::Waiting(wait)) => wait.since,
            _ => u64::MAX,
        };
        let first = |queue: &std::collections::VecDeque<Waiter>| queue.front().map_or(u64::MAX, since);
        let shared = self.futexes.iter().filter(|(key, _)| matches!(key, Key::Shared(..)));
        // Not in the order of the keys, which hold numbers of the host's.
        let mut shared: Vec<(u64, Key)> = shared.map(|(key, queue)| (first(queue), *key)).collect();
        shared.sort_unstable();
        for (_, key) in shared {
            self.futex_wake(key, i32::MAX, u32::MAX);
        }
    }

    fn futex_requeue(&mut self, from: Key, to: Key, count: i32) -> i64 {
        let Some(mut queue) = self.futexes.remove(&from) else { return 0 };
        let moved: Vec<Waiter> = queue.drain(..queue.len().min(usize::try_from(count).unwrap_or(0))).collect();
        if !queue.is_empty() {
            self.futexes.insert(from, queue);
        }
        for waiter in &moved {
            if let Some(super::State::Waiting(wait)) = self.threads.get_mut(&waiter.thread).map(|one| &mut one.state) {
                wait.futex = Some(to);
            }
        }
        let count = moved.len() as i64;
        if !moved.is_empty() {
            self.futexes.entry(to).or_default().extend(moved);
        }
        count
    }

    /// A thread waits there no longer.
    pub(super) fn leave_futex(&mut self, thread: ThreadId, key: Key) {
        if let Some(queue) = self.futexes.get_mut(&key) {
            let before = queue.len();
            queue.retain(|waiter| waiter.thread != thread);
            let gone = before - queue.len();
            if queue.is_empty() {
                self.futexes.remove(&key);
            }
            self.arena.header().futex_waiters.fetch_sub(gone as u32, Relaxed);
        }
    }

    /// Which word an address means.
    pub(super) fn futex_key(&self, thread: ThreadId, address: u64, private: bool) -> Result<Key, Errno> {
        if !address.is_multiple_of(4) {
            return Err(Errno(libc::EINVAL));
        }
        let process = self.threads.get(&thread).and_then(|thread| self.processes.get(&thread.process)).ok_or(Errno(libc::ESRCH))?;
        let own = Key::Private(process.outer, address);
        if private {
            return Ok(own);
        }
        Ok(shared_mapping(process.outer, address).unwrap_or(own))
    }
}

/// The file behind an address, if it is mapped shared: from /proc/PID/maps, for example
/// `7f00aa000000-7f00aa001000 rw-s 00000000 00:01 2050 /dev/zero (deleted)`.
fn shared_mapping(outer: u32, address: u64) -> Option<Key> {
    let maps = std::fs::read_to_string(format!("/proc/{outer}/maps")).ok()?;
    for line in maps.lines() {
        let mut words = line.split_ascii_whitespace();
        let (range, rights) = (words.next()?, words.next()?);
        let (start, end) = range.split_once('-')?;
        let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
        if !(start..end).contains(&address) {
            continue;
        }
        if !rights.ends_with('s') {
            return None;
        }
        let offset = u64::from_str_radix(words.next()?, 16).ok()?;
        let (major, minor) = words.next()?.split_once(':')?;
        let device = u64::from_str_radix(major, 16).ok()? << 32 | u64::from_str_radix(minor, 16).ok()?;
        return Some(Key::Shared(device, words.next()?.parse().ok()?, offset + address - start));
    }
    None
}
