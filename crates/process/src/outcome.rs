//! A call as its handler gets it, and what it comes to.

use super::caller::{Caller, Posted};
use super::ids::ThreadId;
use super::state::Wait;
use std::os::fd::OwnedFd;

/// What a call comes to, other than an errno.
#[derive(Debug)]
pub(super) enum Outcome {
    /// Returns this.
    Done(i64),
    /// This file becomes a descriptor of the program, whose number is the result.
    Descriptor {
        /// What is handed over.
        file: OwnedFd,
        /// What it is to the program's side: kind and inode.
        word: u64,
        /// O_CLOEXEC.
        close_on_exec: bool,
    },
    /// The thread waits; the call is tried again when that ends.
    Wait(Wait),
    /// The answer is in the channel already.
    Prepared,
    /// There is nobody to answer.
    Gone,
}

/// A call of a program as its handler gets it, beside its arguments.
pub(super) struct Asked<'a> {
    /// Whose call it is.
    pub thread: ThreadId,
    /// What descriptor argument 0 is, and the words.
    pub posted: &'a Posted,
    /// The memory of its program.
    pub caller: &'a Caller<'a>,
}
