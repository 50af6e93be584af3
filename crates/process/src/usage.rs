//! What programs have used.

use std::time::Duration;
use weft_core::Instant;

/// What a program and all that it has started have used, in virtual time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// CPU time: what calls cost, and looking at the clock.
    pub cpu: Duration,
    /// Calls that have returned.
    pub calls: u64,
    /// What they have moved through sockets; none: they had no socket of the internet's families.
    pub traffic: Option<Traffic>,
}

/// Payload that a program and all that it has started have moved through sockets of the internet's families.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// Bytes that their sockets took from them to be sent.
    pub sent_bytes: u64,
    /// Bytes that their sockets gave to them.
    pub received_bytes: u64,
    /// When they got the first and the last of these.
    pub received: Option<(Instant, Instant)>,
}
