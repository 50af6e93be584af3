//! Memory that all connections of a node hold together (net.ipv4.tcp_mem; Linux's `tcp_memory_allocated` and `__sk_mem_raise_allocated`).
//!
//! Counted are received bytes that no program has taken, what waits out of order with its cost, and send queues. Three bounds: below the
//! lowest nothing happens; from the middle one until the lowest is reached again the node is *under pressure*: windows and buffers stop
//! growing; above the highest data is dropped and acknowledged with a closed window, and sockets take no more than
//! [`weft_core::stream::SHORT_QUEUE_BYTES_MAX`] each. A connection whose receive queue is empty is always given its next segment, so that
//! every program goes on.

use crate::config::Config;
use crate::counters::{Counter, Counters};
use weft_core::{Instant, StreamMessage};

/// The node's account.
#[derive(Debug, Default)]
pub struct Memory {
    used: u64,
    /// Under pressure, since when.
    pressure: Option<Instant>,
    /// The highest bound was passed, and the middle one not reached since.
    short: bool,
    /// Connections that share it (tcp_sockets_allocated).
    pub(crate) connections: u64,
}
weft_core::fields!(struct Memory { used, pressure, short, connections });

impl Memory {
    /// Bytes held.
    pub fn used(&self) -> u64 {
        self.used
    }
    /// Do windows and buffers stay as they are (tcp_under_memory_pressure)?
    pub fn is_under_pressure(&self) -> bool {
        self.pressure.is_some()
    }
    /// Do sockets take next to nothing?
    pub fn is_short(&self) -> bool {
        self.short
    }
    /// May send buffers grow? tcp_should_expand_sndbuf: "If we are under soft global TCP memory pressure, do not expand."
    pub fn may_grow(&self, config: &Config) -> bool {
        !self.is_under_pressure() && self.used < config.memory[0]
    }

    /// Somebody held `old` bytes and holds `new` now. Returns what the sockets are to be told.
    #[must_use]
    pub(crate) fn update(&mut self, now: Instant, old: u64, new: u64, config: &Config, counters: &mut Counters) -> Option<StreamMessage> {
        self.used = (self.used + new).saturating_sub(old);
        let [low, pressure, most] = config.memory;
        if self.used > pressure && self.pressure.is_none() {
            self.pressure = Some(now);
            counters.add(Counter::TCPMemoryPressures, 1);
        } else if self.used <= low
            && let Some(since) = self.pressure.take()
        {
            counters.add(Counter::TCPMemoryPressuresChrono, (now - since).as_millis() as u64);
        }
        let short = self.used > if self.short { pressure } else { most };
        if short == self.short {
            return None;
        }
        self.short = short;
        Some(StreamMessage::Short(short))
    }

    /// May a connection that holds `own` bytes, `unread` of them received, keep `more` of what arrived (`__sk_mem_raise_allocated`)?
    pub(crate) fn admits(&self, config: &Config, own: u64, unread: u64, more: u64) -> bool {
        let [low, pressure, most] = config.memory;
        let after = self.used + more;
        if after <= low {
            return true;
        }
        if after > most {
            return false;
        }
        // "Guarantee minimum buffer size under pressure"; "if (!sk_under_global_memory_pressure(sk)) return 1;"
        if unread < u64::from(config.receive_buffer[0]) || !self.is_under_pressure() && after <= pressure {
            return true;
        }
        // "Try to be fair among all the sockets under global pressure by allowing the ones that below average usage to raise."
        most > self.connections.max(1).saturating_mul(own + more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        Config { memory: [30_000, 40_000, 60_000], ..Config::default() }
    }

    #[test]
    fn pressure_begins_above_the_middle_bound_and_ends_at_the_lowest() {
        let (config, mut counters, mut memory) = (config(), Counters::default(), Memory::default());
        let at = |millis| Instant::ZERO + weft_core::Duration::from_millis(millis);
        let mut set = |memory: &mut Memory, to: u64, millis| memory.update(at(millis), memory.used(), to, &config, &mut counters);
        assert!(set(&mut memory, 40_000, 0).is_none() && !memory.is_under_pressure());
        assert!(set(&mut memory, 40_001, 5).is_none() && memory.is_under_pressure());
        assert!(matches!(set(&mut memory, 60_001, 6), Some(StreamMessage::Short(true))));
        assert!(set(&mut memory, 50_000, 7).is_none() && memory.is_short());
        assert!(matches!(set(&mut memory, 40_000, 8), Some(StreamMessage::Short(false))));
        assert!(set(&mut memory, 30_001, 9).is_none() && memory.is_under_pressure());
        assert!(set(&mut memory, 30_000, 25).is_none() && !memory.is_under_pressure());
        assert_eq!((counters.get(Counter::TCPMemoryPressures), counters.get(Counter::TCPMemoryPressuresChrono)), (1, 20));
    }

    #[test]
    fn who_holds_less_than_the_average_goes_on_under_pressure_and_nobody_above_the_bound() {
        let (config, mut counters) = (config(), Counters::default());
        let mut memory = Memory { connections: 4, ..Memory::default() };
        let _ = memory.update(Instant::ZERO, 0, 45_000, &config, &mut counters);
        assert!(memory.admits(&config, 10_000, 10_000, 4_000), "14,000 is below a fourth of 60,000");
        assert!(!memory.admits(&config, 14_000, 14_000, 4_000));
        assert!(memory.admits(&config, 14_000, 4_095, 4_000), "the least receive buffer");
        assert!(!memory.admits(&config, 0, 0, 15_001));
        let _ = memory.update(Instant::ZERO, 45_000, 20_000, &config, &mut counters);
        assert!(memory.admits(&config, 20_000, 20_000, 10_000));
    }
}
