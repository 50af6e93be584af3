//! A connection without a subflow.

use weft_core::{Instant, StreamError};

/// What it waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bare {
    /// How its last subflow ended: what the program hears if no other comes.
    pub error: StreamError,
    /// It ends then.
    pub until: Instant,
    /// Attempts so far, and when the next is due.
    pub tries: u32,
    pub again_at: Option<Instant>,
}
weft_core::fields!(struct Bare { error, until, tries, again_at });
