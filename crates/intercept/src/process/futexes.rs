//! Words at which threads wait, and who waits there.

use super::ids::ThreadId;

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
}

impl Waiter {
    pub fn new(thread: ThreadId, bits: u32, kind: Kind) -> Waiter {
        Waiter { thread, bits, kind, index: 0 }
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
