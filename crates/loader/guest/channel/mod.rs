//! The way to the controller and back.

mod copies;
pub mod real;

pub use copies::{Copies, apply_writes};

use crate::abi;
use crate::arena::header;
use crate::block::Thread;
use crate::calls::number as nr;
use crate::frames::die_of;
use crate::sys;
use crate::x86_64::gate;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

/// Posts a call and sleeps until the answer is there. What the controller wants copied is copied.
pub fn post(t: &mut Thread, number: u64, arguments: &[u64]) -> i64 {
    if let Err(errno) = own(t) {
        return errno as i64;
    }
    let c = t.channel;
    for copy in &c.copies {
        copy.address.store(0, Relaxed);
    }
    exchange(t, number, arguments)
}

/// Sees to it that the channel is this thread's own: in real time a new thread has its maker's, who uses it, until it wants one.
pub fn own(t: &mut Thread) -> Result<(), isize> {
    if t.strict.on { real::join(t, false) } else { Ok(()) }
}

/// As [`post`], with what lies in the channel's buffer and its list of copies.
pub fn exchange(t: &mut Thread, number: u64, arguments: &[u64]) -> i64 {
    if t.strict.on {
        return real::exchange(t, number, arguments);
    }
    let c = t.channel;
    c.number.store(number, Relaxed);
    for (at, word) in c.arguments.iter().enumerate() {
        word.store(arguments.get(at).copied().unwrap_or(0), Relaxed);
    }
    c.word.store(abi::POSTED, Release);
    let header = header();
    let controller = &header.controller;
    controller.fetch_add(1, SeqCst);
    // Who sleeps says so first, and then looks at the word once more (the kernel does): nobody is missed.
    if header.controller_sleeps.load(SeqCst) != 0 {
        // FUTEX_WAKE
        sys::call(nr::FUTEX, &[controller.as_ptr() as usize, 1, 1, 0, 0, 0]);
    }
    while c.word.load(Acquire) == abi::POSTED {
        c.sleeps.store(1, SeqCst);
        // FUTEX_WAIT
        sys::call(nr::FUTEX, &[c.word.as_ptr() as usize, 0, abi::POSTED as usize, 0, 0, 0]);
    }
    c.sleeps.store(0, Relaxed);
    c.word.store(abi::RUNNING, Relaxed);
    gate::runs(t);
    let mut result = c.result.load(Relaxed);
    match c.answer.load(Relaxed) {
        abi::DIE => die_of(result as usize),
        abi::RETURN => {
            if !apply_writes(c) {
                result = sys::EFAULT as i64;
            }
        }
        _ => {}
    }
    result
}

/// A new process makes itself known: the kernel adds its number outside the namespace to what comes through the socket.
pub fn announce() {
    let byte = [2_u8];
    sys::call(nr::WRITE, &[abi::DESCRIPTOR_CONTROL as usize, byte.as_ptr() as usize, 1]);
}
