//! Words at which threads wait, and who waits there.

use super::ids::ThreadId;
use std::collections::{BTreeMap, VecDeque};

/// FUTEX_WAITERS: somebody waits for the lock.
pub(super) const WAITERS: u32 = 0x8000_0000;
/// FUTEX_TID_MASK: who has it.
pub(super) const TID: u32 = 0x3fff_ffff;
/// FUTEX_OWNER_DIED: who had the lock has ended with it.
pub(super) const OWNER_DIED: u32 = 0x4000_0000;

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
    pub thread: ThreadId,
    pub bits: u32,
    pub kind: Kind,
    /// Which of the words for which it waits this is; what it returns when it is woken here.
    pub index: u32,
    /// What it waits for to change. None: that could not be read.
    pub word: Option<Word>,
}

/// A word, and what it was.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word {
    /// In whose memory it lies at `address`: the waiter's, or that of whoever has led it there.
    pub thread: ThreadId,
    pub address: u64,
    pub value: u32,
}

impl Waiter {
    pub fn new(thread: ThreadId, bits: u32, kind: Kind) -> Waiter {
        Waiter { thread, bits, kind, index: 0, word: None }
    }
}

/// For what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// FUTEX_WAIT.
    Plain,
    /// A lock, at this address of its own, that its owner hands over: FUTEX_LOCK_PI.
    Lock(u64),
    /// FUTEX_WAIT_REQUEUE_PI: to be led to this lock, at this address of its own.
    Requeue(Key, u64),
}

/// All of them of a node.
#[derive(Debug, Default)]
pub(super) struct Futexes {
    /// In order of coming. None of them is empty.
    queues: BTreeMap<Key, VecDeque<Waiter>>,
    /// Who has a lock for which somebody waits (PI), by the number of the thread.
    owners: BTreeMap<Key, u32>,
}

impl Futexes {
    /// Somebody waits there from now on.
    pub fn enter(&mut self, key: Key, waiter: Waiter) {
        self.queues.entry(key).or_default().push_back(waiter);
    }
    /// Who waits there first.
    pub fn first(&self, key: Key) -> Option<&Waiter> {
        self.queues.get(&key).and_then(|queue| queue.front())
    }
    /// The same, taken out of the queue.
    pub fn take_first(&mut self, key: Key) -> Option<Waiter> {
        let queue = self.queues.get_mut(&key)?;
        let first = queue.pop_front();
        self.drop_if_empty(key);
        first
    }
    /// Takes up to `count` out of a queue whose bits are among these, in order of their coming.
    /// True: it ended at one who waits for a lock that is handed over.
    pub fn take(&mut self, key: Key, count: i32, bits: u32) -> (Vec<Waiter>, bool) {
        let mut taken = Vec::new();
        let mut refused = false;
        if let Some(queue) = self.queues.get_mut(&key) {
            let mut kept = VecDeque::new();
            while let Some(waiter) = queue.pop_front() {
                // "if (++ret >= nr_wake) break;": at least one, even for a count of 0.
                let more = !refused && (taken.len() as i64) < i64::from(count.max(1));
                // "if (this->pi_state || this->rt_waiter) { ret = -EINVAL; break; }"
                refused |= more && waiter.kind != Kind::Plain;
                if more && !refused && waiter.bits & bits != 0 {
                    taken.push(waiter);
                } else {
                    kept.push_back(waiter);
                }
            }
            *queue = kept;
            self.drop_if_empty(key);
        }
        (taken, refused)
    }
    /// Leads up to `count` from one queue to another. True: it ended at one who waits for a lock that is handed over.
    pub fn requeue(&mut self, from: Key, to: Key, count: i32, word: Option<Word>) -> (Vec<Waiter>, bool) {
        let Some(queue) = self.queues.get_mut(&from) else { return (Vec::new(), false) };
        let count = queue.len().min(usize::try_from(count).unwrap_or(0));
        // Those who wait for a lock that is handed over are led to it by FUTEX_CMP_REQUEUE_PI only.
        let plain = queue.iter().take(count).take_while(|waiter| waiter.kind == Kind::Plain).count();
        let moved: Vec<Waiter> = queue.drain(..plain).collect();
        self.drop_if_empty(from);
        if !moved.is_empty() {
            self.queues.entry(to).or_default().extend(moved.iter().map(|waiter| Waiter { word, ..*waiter }));
        }
        (moved, plain < count)
    }
    /// A thread waits there no longer. How many places it had; none: nobody waits there.
    pub fn leave(&mut self, thread: ThreadId, key: Key) -> Option<usize> {
        let queue = self.queues.get_mut(&key)?;
        let before = queue.len();
        queue.retain(|waiter| waiter.thread != thread);
        let gone = before - queue.len();
        self.drop_if_empty(key);
        Some(gone)
    }
    /// Words that processes share, and who waits at each.
    pub fn shared(&self) -> impl Iterator<Item = (Key, &VecDeque<Waiter>)> {
        self.queues.iter().filter(|(key, _)| matches!(key, Key::Shared(..))).map(|(key, queue)| (*key, queue))
    }
    /// Who has the lock for which a thread waits.
    pub fn owner_for(&self, thread: ThreadId) -> Option<u32> {
        let waits = |queue: &VecDeque<Waiter>| queue.iter().any(|waiter| waiter.thread == thread && matches!(waiter.kind, Kind::Lock(_)));
        let (key, _) = self.queues.iter().find(|(_, queue)| waits(queue))?;
        self.owner(*key)
    }
    fn drop_if_empty(&mut self, key: Key) {
        if self.queues.get(&key).is_some_and(VecDeque::is_empty) {
            self.queues.remove(&key);
        }
    }

    /// Who has a lock for which somebody waits.
    pub fn owner(&self, key: Key) -> Option<u32> {
        self.owners.get(&key).copied()
    }
    pub fn set_owner(&mut self, key: Key, tid: u32) {
        self.owners.insert(key, tid);
    }
    /// Somebody waits there no longer: without anybody it is not known who has the lock.
    pub fn look_at_owner(&mut self, key: Key) {
        if !matches!(self.first(key).map(|waiter| waiter.kind), Some(Kind::Lock(_))) {
            self.owners.remove(&key);
        }
    }
    /// The locks that a thread has for which somebody waits, and who does so first.
    pub fn owned_by(&self, tid: u32) -> impl Iterator<Item = (Key, Option<&Waiter>)> {
        let its = self.owners.iter().filter(move |(_, owner)| **owner == tid);
        its.map(|(key, _)| (*key, self.first(*key)))
    }
}
