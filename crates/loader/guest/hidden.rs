//! Descriptors of ours that have no fixed number. Programs do not know of them.

use crate::abi;
use crate::arena::header;
use crate::calls::number as nr;
use crate::sys;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

/// Descriptors of ours beside those with fixed numbers: the eventfds of this process's threads.
static HIDDEN: [AtomicU64; 16] = [const { AtomicU64::new(0) }; 16];

/// Is it a descriptor that the program does not know of?
pub fn is_hidden(fd: i32) -> bool {
    let real = header().flags.load(Relaxed) & abi::STRICT != 0;
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
            sys::call(nr::CLOSE, &[fd]);
            bits &= bits - 1;
        }
    }
}
