//! A call as its handler gets it, and what it comes to.

use super::caller::{Caller, Posted};
use super::ids::ThreadId;
use super::state::Wait;

/// What a call comes to, other than an errno.
#[derive(Debug)]
pub(super) enum Outcome {
    /// Returns this.
    Done(i64),
    /// A descriptor is on its way; its number is the result.
    Descriptor {
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
