//! In real time (`weft run --strict`): sockets are the controller's, everything else is the kernel's, and every thread runs when it likes.
//!
//! A call that is the kernel's is made in the program's own context: the handler lets the program go on at an instruction of the loader's
//! ([`entry::native`]), with the program's registers, stack and blocked signals. So the kernel itself decides what a signal does to it, whether it is
//! restarted, and what it returns. A call about a socket is posted; the controller answers at once, or says that it waits. Then the thread waits
//! in ppoll(2) for its eventfd (and, in poll and select, for the kernel's descriptors beside), with the program's signals open.
//!
//! Signals are delivered by the kernel to [`signal::on_signal`], which builds the frame for the program where the program wants it: on its stack or
//! its own alternate one (ours is in use for the handler of calls). One that comes while a handler of ours waits is kept until the call ends.
//!
//! [`entry::native`]: crate::x86_64::entry::native

pub mod call;
pub mod calls;
pub mod dispatch;
pub mod image;
pub mod memory;
pub mod poll;
pub mod signal;
pub mod thread;

use crate::abi;
use crate::x86_64::context::Info;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicU64};

/// What a thread has in real time only.
pub struct Own {
    /// In real time.
    pub on: bool,
    /// It has a channel of its own.
    pub joined: bool,
    /// It is the child of vfork: memory is its maker's, descriptors are its own.
    pub borrowed: bool,
    /// Its eventfd; -1: none.
    pub wake: i32,
    /// It waits in a call of ours, with the program's signals open.
    pub waits: bool,
    /// A signal that came then; 0: none.
    pub deferred: usize,
    pub info: Info,
    /// What is blocked while its call waits.
    pub mask: u64,
    /// What the program believes to have blocked, of what is never blocked: calls come by SIGSYS, and our copying needs faults.
    pub pretended: u64,
}

impl Default for Own {
    fn default() -> Own {
        let info = Info { signal: 0, errno: 0, code: 0, padding: 0, address: 0, number: 0, arch: 0, rest: [0; 12] };
        Own { on: false, joined: false, borrowed: false, wake: -1, waits: false, deferred: 0, info, mask: 0, pretended: 0 }
    }
}

/// Descriptors of ours beside those with fixed numbers: the eventfds of this process's threads.
static HIDDEN: [AtomicU64; 16] = [const { AtomicU64::new(0) }; 16];

/// Is it a descriptor that the program does not know of?
pub fn is_hidden(fd: i32) -> bool {
    let real = crate::channel::header().flags.load(Relaxed) & abi::STRICT != 0;
    real && ((abi::DESCRIPTOR_NEXT..=abi::DESCRIPTOR_CONTROL).contains(&fd)
        || (0..1024).contains(&fd) && HIDDEN[fd as usize / 64].load(Relaxed) & 1 << (fd % 64) != 0)
}

pub fn hide(fd: i32) {
    if (0..1024).contains(&fd) {
        HIDDEN[fd as usize / 64].fetch_or(1 << (fd % 64), Relaxed);
    }
}
pub fn unhide(fd: i32) {
    if (0..1024).contains(&fd) {
        HIDDEN[fd as usize / 64].fetch_and(!(1 << (fd % 64)), Relaxed);
    }
}
/// After fork(2): what was the other threads' is closed.
pub fn close_hidden() {
    for (index, word) in HIDDEN.iter().enumerate() {
        let mut bits = word.swap(0, Relaxed);
        while bits != 0 {
            let fd = 64 * index + bits.trailing_zeros() as usize;
            crate::sys::call(crate::calls::number::CLOSE, &[fd]);
            bits &= bits - 1;
        }
    }
}

/// A lock for a few instructions. Only in handlers, where no signal can come between.
pub struct Lock(AtomicU32);

impl Lock {
    pub const fn new() -> Lock {
        Lock(AtomicU32::new(0))
    }
    pub fn with<R>(&self, f: impl FnOnce() -> R) -> R {
        use core::sync::atomic::Ordering::{Acquire, Release};
        while self.0.compare_exchange_weak(0, 1, Acquire, Relaxed).is_err() {
            crate::sys::call(crate::calls::number::SCHED_YIELD, &[]);
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
