//! Turns: what one thread of a process at a time may work on. Whoever has one may wait in a call meanwhile, so that virtual time needs it, too.

use crate::abi;
use crate::arena::touched;
use crate::block::{BLOCKS, Thread};
use crate::calls::number as nr;
use crate::channel::post;
use crate::lock::Lock;
use crate::sys;
use core::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicU32, AtomicU64};

/// Who works on what: each thread has at most one thing that no other thread may have meanwhile. Its holder may wait, in a call of the
/// controller's, too.
pub struct Turns {
    lock: Lock,
    /// By the index of a thread's block; 0: nothing.
    held: [AtomicU64; BLOCKS],
    changes: AtomicU32,
    waiting: AtomicU32,
}

impl Turns {
    const fn new() -> Turns {
        Turns { lock: Lock::new(), held: [const { AtomicU64::new(0) }; BLOCKS], changes: AtomicU32::new(0), waiting: AtomicU32::new(0) }
    }

    fn take(&self, index: usize, key: u64) -> bool {
        self.lock.with(|| {
            let free = self.held.iter().all(|held| held.load(Relaxed) != key);
            if free {
                self.held[index % BLOCKS].store(key, Relaxed);
            }
            free
        })
    }

    fn give_back(&self, t: &Thread) {
        self.held[t.index % BLOCKS].store(0, Release);
        if !t.strict.on {
            return touched();
        }
        self.changes.fetch_add(1, SeqCst);
        if self.waiting.load(SeqCst) != 0 {
            // FUTEX_WAKE
            sys::call(nr::FUTEX, &[self.changes.as_ptr() as usize, 1, i32::MAX as usize]);
        }
    }

    /// Does something with what this key stands for, which is not 0, as soon as no other thread does. In real time no signal ends that wait (as of
    /// a lock of the kernel's); in virtual time one does, and the call is to be made again.
    pub fn with<R>(&self, t: &mut Thread, key: u64, number: usize, f: impl FnOnce(&mut Thread) -> Result<R, isize>) -> Result<R, isize> {
        loop {
            let seen = self.changes.load(SeqCst);
            if self.take(t.index, key) {
                break;
            }
            if t.strict.on {
                self.waiting.fetch_add(1, SeqCst);
                // FUTEX_WAIT
                sys::call(nr::FUTEX, &[self.changes.as_ptr() as usize, 0, seen as usize, 0]);
                self.waiting.fetch_sub(1, SeqCst);
            } else if post(t, abi::BLOCKED, &[u64::MAX, 0, number as u64]) < 0 {
                return Err(abi::RESTART as isize);
            }
        }
        let result = f(t);
        self.give_back(t);
        result
    }

    /// A new thread has this block.
    pub fn forget(&self, index: usize) {
        self.held[index % BLOCKS].store(0, Release);
    }
    /// After fork(2): whoever held something is not there.
    pub fn reset(&self) {
        self.lock.reset();
        self.held.iter().for_each(|held| held.store(0, Relaxed));
        self.waiting.store(0, Relaxed);
    }
}

/// Ends of pipes that splice(2) works on.
pub static SPLICES: Turns = Turns::new();
