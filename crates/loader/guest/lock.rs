//! Locks of what all threads of a process share. In virtual time nobody needs one: one thread of a node runs at a time.

use crate::calls::number as nr;
use crate::sys;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// A lock for a few instructions. Only in handlers, where no signal can come between.
pub struct Lock(AtomicU32);

impl Lock {
    pub const fn new() -> Lock {
        Lock(AtomicU32::new(0))
    }
    pub fn with<R>(&self, f: impl FnOnce() -> R) -> R {
        while self.0.compare_exchange_weak(0, 1, Acquire, Relaxed).is_err() {
            sys::call(nr::SCHED_YIELD, &[]);
        }
        let result = f();
        self.0.store(0, Release);
        result
    }
    /// After fork(2): whoever held it is not there.
    pub fn reset(&self) {
        self.0.store(0, Relaxed);
    }
}

/// The program's break.
pub static BREAK: Lock = Lock::new();
/// Dispositions of signals.
pub static ACTIONS: Lock = Lock::new();
