//! Futexes: who waits at which word. The words themselves are compared and changed inside the programs, where nobody else runs meanwhile; but for those of
//! locks that are handed over, see [`super::futex_pi`].

use super::caller::Caller;
use super::futexes::{Key, Kind, OWNER_DIED, Waiter, Word};
use super::ids::ThreadId;
use super::mapping;
use super::outcome::{Asked, Outcome};
use super::outside::Outside;
use super::state::{State, Wait};
use super::timers::Deadline;
use super::tree::Tree;
use smallvec::{SmallVec, smallvec};
use std::sync::atomic::Ordering::Relaxed;
use weft_intercept::memory::Memory as _;
use weft_intercept::sys::Errno;
use weft_loader::abi;
use weft_loader::calls;

const FUTEX_WAIT: i32 = 0;
const FUTEX_WAKE: i32 = 1;
const FUTEX_REQUEUE: i32 = 3;
const FUTEX_CMP_REQUEUE: i32 = 4;
pub(super) const FUTEX_LOCK_PI: i32 = 6;
const FUTEX_UNLOCK_PI: i32 = 7;
pub(super) const FUTEX_TRYLOCK_PI: i32 = 8;
const FUTEX_WAIT_BITSET: i32 = 9;
const FUTEX_WAKE_BITSET: i32 = 10;
const FUTEX_WAIT_REQUEUE_PI: i32 = 11;
const FUTEX_CMP_REQUEUE_PI: i32 = 12;
const FUTEX_LOCK_PI2: i32 = 13;
const FUTEX_PRIVATE_FLAG: i32 = 128;
const FUTEX_CLOCK_REALTIME: i32 = 256;
/// struct futex_waitv { u64 val; u64 uaddr; u32 flags; u32 reserved; }
const WAITER_BYTES: usize = 24;
/// FUTEX_WAITV_MAX
const WAITERS_MAX: usize = 128;

impl Tree {
    /// futex(2), as far as the program's side sends it here.
    pub(super) fn futex(&mut self, asked: &Asked<'_>, call: calls::Futex, _: &mut dyn Outside) -> Result<Outcome, Errno> {
        let Asked { thread, caller, .. } = *asked;
        let operation = call.op.0 as i32 & 0x7f;
        let private = call.op.0 as i32 & FUTEX_PRIVATE_FLAG != 0;
        let key = self.futex_key(thread, call.uaddr.0 as u64, private)?;
        let bits = if matches!(operation, FUTEX_WAIT_BITSET | FUTEX_WAKE_BITSET) { call.val3.get() } else { u32::MAX };
        match operation {
            FUTEX_LOCK_PI | FUTEX_LOCK_PI2 | FUTEX_TRYLOCK_PI => self.lock_pi(thread, &call, caller, key),
            FUTEX_UNLOCK_PI => self.unlock_pi(thread, &call, key),
            FUTEX_WAIT_REQUEUE_PI => self.wait_requeue_pi(thread, &call, caller, key),
            FUTEX_CMP_REQUEUE_PI => self.cmp_requeue_pi(thread, &call, key),
            FUTEX_WAKE | FUTEX_WAKE_BITSET => Ok(Outcome::Done(self.futex_wake(key, call.val.get(), bits))),
            FUTEX_REQUEUE | FUTEX_CMP_REQUEUE => {
                let target = self.futex_key(thread, call.uaddr2.0 as u64, private)?;
                let woken = if call.val.get() == 0 { 0 } else { self.futex_wake(key, call.val.get(), u32::MAX) };
                let moved =
                    if woken < 0 { 0 } else { self.futex_requeue(key, target, call.utime.0 as i32, (thread, call.uaddr2.0 as u64)) };
                Ok(Outcome::Done(if moved < 0 { moved } else { woken + moved }))
            }
            _ => self.futex_wait(thread, &call, caller, key, bits),
        }
    }

    /// futex_waitv(2): the program's side has looked at the words.
    pub(super) fn futex_waitv(&mut self, asked: &Asked<'_>, call: calls::FutexWaitv, _: &mut dyn Outside) -> Result<Outcome, Errno> {
        let Asked { thread, caller, .. } = *asked;
        if self.tasks.threads.get(&thread).is_some_and(|one| one.held) {
            return Err(Errno(libc::ETIMEDOUT));
        }
        let deadline = match call.timeout.0 {
            0 => None,
            at => Some(self.deadline(call.clockid.get(), caller.read_timespec(at as u64)?, true)?),
        };
        if deadline.is_some_and(|deadline| deadline.at <= self.clock) {
            return Err(Errno(libc::ETIMEDOUT));
        }
        let mut waiters = vec![0; WAITER_BYTES * (call.nr_futexes.get() as usize).min(WAITERS_MAX)];
        caller.read(call.waiters.0 as u64, &mut waiters)?;
        let (mut futexes, mut words) = (SmallVec::new(), Vec::new());
        for waiter in waiters.chunks_exact(WAITER_BYTES) {
            let word = |at: usize| waiter.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_ne_bytes);
            futexes.push(self.futex_key(thread, word(8), word(16) as i32 & FUTEX_PRIVATE_FLAG != 0)?);
            words.push(Word { thread, address: word(8), value: word(0) as u32 });
        }
        for (index, (key, word)) in futexes.iter().zip(words).enumerate() {
            let waiter = Waiter { index: index as u32, word: Some(word), ..Waiter::new(thread, u32::MAX, Kind::Plain) };
            self.enter_futex(*key, waiter);
        }
        Ok(Outcome::Wait(Wait { futexes, deadline, ..Wait::default() }))
    }

    fn futex_wait(&mut self, thread: ThreadId, call: &calls::Futex, caller: &Caller<'_>, key: Key, bits: u32) -> Result<Outcome, Errno> {
        let one = self.tasks.threads.get(&thread).ok_or(Errno(libc::ESRCH))?;
        if one.held {
            // It was neither woken nor interrupted: its time is up.
            return Err(Errno(libc::ETIMEDOUT));
        }
        let deadline = self.futex_deadline(call, caller)?;
        if !matches!(call.op.0 as i32 & 0x7f, FUTEX_WAIT | FUTEX_WAIT_BITSET) {
            return Err(Errno(libc::ENOSYS));
        }
        if deadline.is_some_and(|deadline| deadline.at <= self.clock) {
            return Err(Errno(libc::ETIMEDOUT));
        }
        let word = Some(Word { thread, address: call.uaddr.0 as u64, value: call.val.get() as u32 });
        self.enter_futex(key, Waiter { word, ..Waiter::new(thread, bits, Kind::Plain) });
        // With a time limit FUTEX_WAIT is restarted by restart_syscall, with the time that is left; here the program sees EINTR.
        let interrupted = if deadline.is_some() { abi::RESTART_NO_HANDLER } else { abi::RESTART };
        Ok(Outcome::Wait(Wait { futexes: smallvec![key], deadline, interrupted, ..Wait::default() }))
    }

    /// Until when a call waits. None: for ever.
    pub(super) fn futex_deadline(&self, call: &calls::Futex, caller: &Caller<'_>) -> Result<Option<Deadline>, Errno> {
        let operation = call.op.0 as i32 & 0x7f;
        if call.utime.0 == 0 || operation == FUTEX_TRYLOCK_PI {
            return Ok(None);
        }
        let value = caller.read_timespec(call.utime.0 as u64)?;
        // FUTEX_WAIT: how long; the others: until when. LOCK_PI's time is always of CLOCK_REALTIME.
        let realtime = call.op.0 as i32 & FUTEX_CLOCK_REALTIME != 0 || operation == FUTEX_LOCK_PI;
        let clock = if realtime { libc::CLOCK_REALTIME } else { libc::CLOCK_MONOTONIC };
        self.deadline(clock, value, operation != FUTEX_WAIT).map(Some)
    }

    /// Somebody waits there from now on.
    pub(super) fn enter_futex(&mut self, key: Key, waiter: Waiter) {
        self.futexes.enter(key, waiter);
        self.arena.header().futex_waiters.fetch_add(1, Relaxed);
    }

    /// The first who waits there, taken out of the queue; it is still in its wait.
    pub(super) fn take_first(&mut self, key: Key) -> Option<Waiter> {
        let first = self.futexes.take_first(key)?;
        self.arena.header().futex_waiters.fetch_sub(1, Relaxed);
        if let Some(wait) = self.tasks.wait_of(first.thread) {
            wait.no_longer_at(key);
        }
        Some(first)
    }

    /// Wakes up to `count` in order of their coming. -EINVAL: among them is one who waits for a lock that is handed over.
    pub(super) fn futex_wake(&mut self, key: Key, count: i32, bits: u32) -> i64 {
        let (woken, refused) = self.futexes.take(key, count, bits);
        self.arena.header().futex_waiters.fetch_sub(woken.len() as u32, Relaxed);
        for Waiter { thread, index, .. } in &woken {
            if let Some(wait) = self.tasks.wait_of(*thread) {
                wait.no_longer_at(key);
            }
            self.answer(*thread, i64::from(*index));
            self.make_runnable(*thread);
        }
        if refused { -i64::from(libc::EINVAL) } else { woken.len() as i64 }
    }

    /// Threads have ended, and which locks they held could not be asked any more. The kernel has marked those with FUTEX_OWNER_DIED, and at each handle_futex_death (of
    /// kernel/futex/core.c) wakes one; also at the lock that a thread was about to give back, which is 0 by then.
    pub(super) fn wake_for_the_dead(&mut self) {
        // Not in the order of the keys, which hold numbers of the host's.
        let mut marked: Vec<(u64, Key)> = self
            .futexes
            .shared()
            .filter(|(_, queue)| queue.iter().any(|waiter| self.waits_for_the_dead(waiter)))
            .map(|(key, queue)| (self.first_since(queue.front()), key))
            .collect();
        marked.sort_unstable();
        for (_, key) in marked {
            self.futex_wake(key, 1, u32::MAX);
        }
    }

    /// Whether the word is no longer what a thread waits with, and that because the lock's owner is gone. Who waits for what cannot be read looks again.
    fn waits_for_the_dead(&self, waiter: &Waiter) -> bool {
        waiter.word.is_none_or(|Word { thread, address, value }| {
            self.read_word(thread, address).map_or(true, |word| word != value && (word == 0 || word & OWNER_DIED != 0))
        })
    }

    /// Since when the first of a queue waits, also when it was stopped meanwhile.
    pub(super) fn first_since(&self, first: Option<&Waiter>) -> u64 {
        let state = first.and_then(|waiter| self.tasks.threads.get(&waiter.thread)).map(|one| &one.state);
        let inner = match state {
            Some(State::Stopped(inner)) => Some(&**inner),
            state => state,
        };
        match inner {
            Some(State::Waiting(wait)) => wait.since,
            _ => u64::MAX,
        }
    }

    /// `at`: where whoever asks has the word to which they are led.
    fn futex_requeue(&mut self, from: Key, to: Key, count: i32, at: (ThreadId, u64)) -> i64 {
        let (thread, address) = at;
        let word = self.read_word(thread, address).ok().map(|value| Word { thread, address, value });
        let (moved, refused) = self.futexes.requeue(from, to, count, word);
        for waiter in &moved {
            if let Some(wait) = self.tasks.wait_of(waiter.thread) {
                wait.no_longer_at(from);
                wait.futexes.push(to);
            }
        }
        if refused { -i64::from(libc::EINVAL) } else { moved.len() as i64 }
    }

    /// A thread waits there no longer.
    pub(super) fn leave_futex(&mut self, thread: ThreadId, key: Key) {
        if let Some(gone) = self.futexes.leave(thread, key) {
            self.arena.header().futex_waiters.fetch_sub(gone as u32, Relaxed);
            self.futexes.look_at_owner(key);
        }
    }

    /// Which word an address means.
    pub(super) fn futex_key(&self, thread: ThreadId, address: u64, private: bool) -> Result<Key, Errno> {
        let process =
            self.tasks.threads.get(&thread).and_then(|thread| self.tasks.processes.get(&thread.process)).ok_or(Errno(libc::ESRCH))?;
        self.key_of(process.outer, address, private)
    }

    /// The same, of a process by its number outside.
    pub(super) fn key_of(&self, outer: u32, address: u64, private: bool) -> Result<Key, Errno> {
        if !address.is_multiple_of(4) {
            return Err(Errno(libc::EINVAL));
        }
        let own = Key::Private(outer, address);
        if private {
            return Ok(own);
        }
        Ok(mapping::shared(outer, address).map_or(own, |at| Key::Shared(at.device, at.inode, at.offset)))
    }
}
