//! Locks that are handed over (PI): FUTEX_LOCK_PI, LOCK_PI2, TRYLOCK_PI, UNLOCK_PI, WAIT_REQUEUE_PI, CMP_REQUEUE_PI (kernel/futex/pi.c, requeue.c).
//!
//! The word holds the owner's number, FUTEX_WAITERS once somebody has waited, and FUTEX_OWNER_DIED. As long as nobody waits the program's side changes it;
//! otherwise it is changed here, in the program's memory and at once, since whoever is given the lock may run before the one who gave it goes on. Order is
//! that of waiting: there is one processor, and all programs have the same priority.

use super::caller::Caller;
use super::futex::FUTEX_TRYLOCK_PI;
use super::futexes::{Key, Kind, OWNER_DIED, TID, WAITERS, Waiter};
use super::ids::ThreadId;
use super::outcome::Outcome;
use super::state::Wait;
use super::tree::Tree;
use smallvec::smallvec;
use weft_intercept::sys::{self, Errno};
use weft_loader::abi;
use weft_loader::calls;

const FUTEX_PRIVATE_FLAG: i32 = 128;
/// Process 1 of a node owns nothing, but is there.
const INIT: u32 = 1;

impl Tree {
    /// FUTEX_LOCK_PI, FUTEX_LOCK_PI2, FUTEX_TRYLOCK_PI: futex_lock_pi.
    pub(super) fn lock_pi(&mut self, thread: ThreadId, call: &calls::Futex, caller: &Caller<'_>, key: Key) -> Result<Outcome, Errno> {
        let one = self.tasks.threads.get(&thread).ok_or(Errno(libc::ESRCH))?;
        if one.held {
            return Err(Errno(libc::ETIMEDOUT));
        }
        let (tid, address) = (one.tid, call.uaddr.0 as u64);
        let deadline = self.futex_deadline(call, caller)?;
        let Some(owner) = self.take_lock(thread, key, address, tid, false)? else { return Ok(Outcome::Done(0)) };
        if call.op.0 as i32 & 0x7f == FUTEX_TRYLOCK_PI {
            return Err(Errno(libc::EAGAIN));
        }
        if self.waits_for_owner(owner, tid) {
            return Err(Errno(libc::EDEADLK));
        }
        if deadline.is_some_and(|deadline| deadline.at <= self.clock) {
            return Err(Errno(libc::ETIMEDOUT));
        }
        self.futexes.set_owner(key, owner);
        self.enter_futex(key, Waiter::new(thread, u32::MAX, Kind::Lock(address)));
        // "return ret != -EINTR ? ret : -ERESTARTNOINTR;"
        Ok(Outcome::Wait(Wait { futexes: smallvec![key], deadline, interrupted: abi::RESTART_ALWAYS, ..Wait::default() }))
    }

    /// FUTEX_UNLOCK_PI: futex_unlock_pi.
    pub(super) fn unlock_pi(&mut self, thread: ThreadId, call: &calls::Futex, key: Key) -> Result<Outcome, Errno> {
        let tid = self.tasks.threads.get(&thread).map_or(0, |one| one.tid);
        let address = call.uaddr.0 as u64;
        // "We release only a lock we actually own".
        if self.read_word(thread, address)? & TID != tid {
            return Err(Errno(libc::EPERM));
        }
        match self.first_kind(key) {
            None => self.write_word(thread, address, 0)?,
            Some(Kind::Lock(_)) if self.futexes.owner(key) == Some(tid) => self.hand_over(key, 0),
            // "If current does not own the pi_state then the futex is inconsistent and user space fiddled with the futex value."
            Some(_) => return Err(Errno(libc::EINVAL)),
        }
        Ok(Outcome::Done(0))
    }

    /// FUTEX_WAIT_REQUEUE_PI: futex_wait_requeue_pi.
    pub(super) fn wait_requeue_pi(
        &mut self,
        thread: ThreadId,
        call: &calls::Futex,
        caller: &Caller<'_>,
        key: Key,
    ) -> Result<Outcome, Errno> {
        if self.tasks.threads.get(&thread).is_some_and(|one| one.held) {
            return Err(Errno(libc::ETIMEDOUT));
        }
        let deadline = self.futex_deadline(call, caller)?;
        let (address, lock) = (call.uaddr.0 as u64, call.uaddr2.0 as u64);
        if address == lock {
            return Err(Errno(libc::EINVAL));
        }
        let lock_key = self.futex_key(thread, lock, call.op.0 as i32 & FUTEX_PRIVATE_FLAG != 0)?;
        if self.read_word(thread, address)? != call.val.get() as u32 {
            return Err(Errno(libc::EAGAIN));
        }
        if lock_key == key {
            return Err(Errno(libc::EINVAL));
        }
        if deadline.is_some_and(|deadline| deadline.at <= self.clock) {
            return Err(Errno(libc::ETIMEDOUT));
        }
        self.enter_futex(key, Waiter::new(thread, u32::MAX, Kind::Requeue(lock_key, lock)));
        // handle_early_requeue_pi_wakeup: "else if (signal_pending(current)) ret = -ERESTARTNOINTR;"
        Ok(Outcome::Wait(Wait { futexes: smallvec![key], deadline, interrupted: abi::RESTART_ALWAYS, ..Wait::default() }))
    }

    /// FUTEX_CMP_REQUEUE_PI: futex_requeue with requeue_pi.
    pub(super) fn cmp_requeue_pi(&mut self, thread: ThreadId, call: &calls::Futex, key: Key) -> Result<Outcome, Errno> {
        let (wakes, moves) = (call.val.get(), call.utime.0 as i32);
        let (address, lock) = (call.uaddr.0 as u64, call.uaddr2.0 as u64);
        // "All REQUEUE_PI users, e.g. pthread_cond_signal() and pthread_cond_broadcast() must use nr_wake=1."
        if moves < 0 || wakes != 1 || address == lock {
            return Err(Errno(libc::EINVAL));
        }
        let lock_key = self.futex_key(thread, lock, call.op.0 as i32 & FUTEX_PRIVATE_FLAG != 0)?;
        if key == lock_key {
            return Err(Errno(libc::EINVAL));
        }
        if self.read_word(thread, address)? != call.val3.get() {
            return Err(Errno(libc::EAGAIN));
        }
        self.read_word(thread, lock)?;
        let Some(first) = self.first_to(key, lock_key)? else { return Ok(Outcome::Done(0)) };
        let mut done = 0;
        // futex_proxy_trylock_atomic: the first gets the lock, if nobody has it.
        let tid = self.tasks.threads.get(&first).map_or(0, |one| one.tid);
        let owner = match self.take_lock(thread, lock_key, lock, tid, moves != 0)? {
            Some(owner) => owner,
            None => {
                self.take_first(key);
                self.answer(first, 0);
                self.make_runnable(first);
                done = 1;
                tid
            }
        };
        // "if (task_count - nr_wake >= nr_requeue) break;"
        while done - 1 < i64::from(moves) {
            let Some(next) = self.first_to(key, lock_key)? else { break };
            self.lead(next, key, lock_key, owner)?;
            done += 1;
        }
        Ok(Outcome::Done(done))
    }

    /// Who waits at a word first, all of whom must want to be led to this lock.
    fn first_to(&self, key: Key, lock: Key) -> Result<Option<ThreadId>, Errno> {
        match self.futexes.first(key) {
            None => Ok(None),
            Some(Waiter { thread, kind: Kind::Requeue(to, _), .. }) if *to == lock => Ok(Some(*thread)),
            Some(_) => Err(Errno(libc::EINVAL)),
        }
    }

    /// The first who waits at a word waits for a lock from now on.
    fn lead(&mut self, thread: ThreadId, key: Key, lock: Key, owner: u32) -> Result<(), Errno> {
        let tid = self.tasks.threads.get(&thread).map_or(0, |one| one.tid);
        if tid == owner || self.waits_for_owner(owner, tid) {
            return Err(Errno(libc::EDEADLK));
        }
        let Some(Waiter { kind: Kind::Requeue(_, address), .. }) = self.take_first(key) else { return Err(Errno(libc::EINVAL)) };
        self.futexes.set_owner(lock, owner);
        self.enter_futex(lock, Waiter::new(thread, u32::MAX, Kind::Lock(address)));
        if let Some(wait) = self.tasks.wait_of(thread) {
            wait.futexes.push(lock);
            // "We've already been requeued, but cannot restart by calling futex_lock_pi() directly."
            wait.interrupted = -i64::from(libc::EAGAIN);
        }
        Ok(())
    }

    /// futex_lock_pi_atomic: takes a lock for the thread with this number, or says who has it, and sets FUTEX_WAITERS. `thread`'s memory has the word.
    fn take_lock(&mut self, thread: ThreadId, key: Key, address: u64, tid: u32, waiters: bool) -> Result<Option<u32>, Errno> {
        let word = self.read_word(thread, address)?;
        if word & TID == tid {
            return Err(Errno(libc::EDEADLK));
        }
        if let Some(kind) = self.first_kind(key) {
            // attach_to_pi_state: the word must say what is known.
            let owner = self.futexes.owner(key).filter(|_| matches!(kind, Kind::Lock(_))).ok_or(Errno(libc::EINVAL))?;
            let dead = word & TID == 0 && word & OWNER_DIED != 0;
            return if word & TID == owner || dead { Ok(Some(owner)) } else { Err(Errno(libc::EINVAL)) };
        }
        if word & TID == 0 {
            self.write_word(thread, address, word & OWNER_DIED | tid | if waiters { WAITERS } else { 0 })?;
            return Ok(None);
        }
        self.write_word(thread, address, word | WAITERS)?;
        let owner = word & TID;
        let there = owner == INIT || self.tasks.threads.values().any(|one| one.tid == owner);
        if there { Ok(Some(owner)) } else { Err(Errno(libc::ESRCH)) }
    }

    /// Does `owner` wait, by way of other locks perhaps, for one that `tid` has? rt_mutex_adjust_prio_chain finds that out.
    fn waits_for_owner(&self, owner: u32, tid: u32) -> bool {
        let mut at = owner;
        for _ in 0..self.tasks.threads.len() {
            let Some(thread) = self.tasks.threads.iter().find(|(_, one)| one.tid == at).map(|(thread, _)| *thread) else { return false };
            let Some(next) = self.futexes.owner_for(thread) else { return false };
            at = next;
            if at == tid {
                return true;
            }
        }
        false
    }

    /// The lock belongs to the first who waits for it: wake_futex_pi. `more`: other bits of its word.
    fn hand_over(&mut self, key: Key, more: u32) {
        let Some(Waiter { thread, kind: Kind::Lock(address), .. }) = self.take_first(key) else { return };
        let tid = self.tasks.threads.get(&thread).map_or(0, |one| one.tid);
        // Whose memory is gone is about to be gone, too; then the next one gets it.
        let _ = self.write_word(thread, address, WAITERS | more | tid);
        self.futexes.set_owner(key, tid);
        self.futexes.look_at_owner(key);
        self.answer(thread, 0);
        self.make_runnable(thread);
    }

    /// A thread is gone: exit_pi_state_list. Its locks go on to those who wait for them.
    pub(super) fn owner_died(&mut self, tid: u32) {
        // Not in the order of the keys, which hold numbers of the host's.
        let mut its: Vec<(u64, Key)> = self.futexes.owned_by(tid).map(|(key, first)| (self.first_since(first), key)).collect();
        its.sort_unstable();
        for (_, key) in its {
            self.hand_over(key, OWNER_DIED);
        }
    }

    fn first_kind(&self, key: Key) -> Option<Kind> {
        self.futexes.first(key).map(|waiter| waiter.kind)
    }

    fn outer_of(&self, thread: ThreadId) -> Result<u32, Errno> {
        let process = self.tasks.threads.get(&thread).and_then(|one| self.tasks.processes.get(&one.process));
        // Of one that has ended, the number may be somebody else's.
        process.filter(|process| process.status.is_none()).map(|process| process.outer).ok_or(Errno(libc::ESRCH))
    }

    pub(super) fn read_word(&self, thread: ThreadId, address: u64) -> Result<u32, Errno> {
        let mut bytes = [0; 4];
        sys::read_memory(self.outer_of(thread)?, address, &mut bytes)?;
        Ok(u32::from_ne_bytes(bytes))
    }

    fn write_word(&self, thread: ThreadId, address: u64, word: u32) -> Result<(), Errno> {
        sys::write_memory(self.outer_of(thread)?, address, &word.to_ne_bytes())
    }
}
