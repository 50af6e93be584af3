//! What a connection is given for one call, and what it gives out.

use crate::config::Config;
use crate::counters::{Counter, Counters};
use crate::memory::Memory;
use weft_core::{BlockId, Duration, Frame, Instant, Reason, StreamMessage};

/// What a connection gives out: frames for the IP layer, messages for the upper side, reasons of drops, counts.
#[derive(Debug)]
pub struct Outbox {
    /// Segments, in order.
    pub frames: Vec<Frame>,
    /// Data, credit and events, in order.
    pub messages: Vec<StreamMessage>,
    /// Segments that were refused.
    pub drops: Vec<Reason>,
    /// Counters of the node.
    pub counters: Counters,
    /// Limits answers to segments that look like attacks (RFC 5961 §7), node-wide.
    pub challenge: RateLimit,
    /// Memory of all connections.
    pub memory: Memory,
    /// The block that transmit completions go to.
    pub block: BlockId,
}

impl Default for Outbox {
    fn default() -> Outbox {
        Outbox {
            frames: Vec::new(),
            messages: Vec::new(),
            drops: Vec::new(),
            counters: Counters::default(),
            challenge: RateLimit::default(),
            memory: Memory::default(),
            block: BlockId(0),
        }
    }
}

/// Time, settings and the way out, lent to a connection for one call.
#[derive(Debug)]
pub struct Env<'a> {
    /// The node's time.
    pub now: Instant,
    /// The node's settings.
    pub config: &'a Config,
    /// The way out.
    pub out: &'a mut Outbox,
}

impl Env<'_> {
    /// Counts one.
    #[inline]
    pub fn count(&mut self, counter: Counter) {
        self.out.counters.add(counter, 1);
    }
    /// Notes that a segment was refused.
    pub fn refuse(&mut self, reason: Reason) {
        self.out.drops.push(reason);
    }
}

/// So many a second, counted in whole seconds as Linux counts challenge ACKs.
#[derive(Debug, Clone, Copy, Default)]
pub struct RateLimit {
    since: Instant,
    used: u32,
}
weft_core::fields!(struct RateLimit { since, used });

impl RateLimit {
    /// Takes one, if there is one left.
    pub fn take(&mut self, now: Instant, per_second: u32) -> bool {
        if now - self.since >= Duration::from_secs(1) {
            *self = RateLimit { since: now, used: 0 };
        }
        self.used = self.used.saturating_add(1);
        self.used <= per_second
    }
}
