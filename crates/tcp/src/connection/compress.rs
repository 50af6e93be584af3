//! Acknowledgments of out-of-order data, several in one: what Linux calls SACK compression (`__tcp_ack_snd_check`, `tcp_compressed_ack_kick`).
//!
//! The first three duplicates after RCV.NXT has moved leave at once: a sender without RACK counts them (RFC 5681 §3.2). What arrives behind them
//! is acknowledged together, after a twentieth of the round trip, 1 ms at most. A gap that is filled ends the waiting.

use super::Connection;
use super::deadlines::Timer;
use crate::counters::Counter;
use crate::outbox::Env;
use weft_core::Duration;

/// Duplicates that are not compressed (TCP_FASTRETRANS_THRESH).
const DUPLICATES_AT_ONCE: u32 = 3;
/// How much later than asked the kernel lets the timer fire (net.ipv4.tcp_comp_sack_slack_ns). Here it always does: in the kernel it fires
/// with the next interrupt, which is the next segment.
const SLACK: Duration = Duration::from_micros(100);

impl Connection {
    /// There is out-of-order data, and nothing else demands an acknowledgment now.
    pub(super) fn acknowledge_or_compress(&mut self, env: &mut Env<'_>) {
        let compression = &mut self.receive.compression;
        if !self.opening.agreed.sack || compression.waiting >= env.config.compressed_acks_max {
            return self.send_ack(env);
        }
        if compression.next != self.receive.next {
            compression.next = self.receive.next;
            compression.at_once = 0;
        }
        if compression.at_once < DUPLICATES_AT_ONCE {
            compression.at_once += 1;
            return self.send_ack(env);
        }
        compression.waiting += 1;
        // "5 % of rtt, but no more than tcp_comp_sack_delay_ns", of the smaller of the two estimates.
        let sent = self.recovery.rtt.srtt();
        let round_trip = match (self.receive.rtt, sent) {
            (Some(received), Some(sent)) => received.min(sent),
            (one, other) => one.or(other).unwrap_or_default(),
        };
        let delay = (round_trip / 20).min(env.config.compressed_ack_delay_max);
        self.timers.set_if_unset(Timer::CompressedAck, env.now + delay + SLACK);
    }

    /// What waits leaves before more is reported (tcp_sack_compress_send_ack).
    pub(super) fn send_compressed_now(&mut self, env: &mut Env<'_>) {
        self.timers.cancel(Timer::CompressedAck);
        self.on_compressed_ack(env);
    }

    pub(super) fn on_compressed_ack(&mut self, env: &mut Env<'_>) {
        if self.receive.compression.waiting > 0 {
            // One is sent after all.
            self.receive.compression.waiting -= 1;
            self.send_ack(env);
        }
    }

    /// Whatever waited is acknowledged by what leaves now.
    pub(super) fn compressed_acks_sent(&mut self, env: &mut Env<'_>) {
        self.timers.cancel(Timer::CompressedAck);
        let waiting = std::mem::take(&mut self.receive.compression.waiting);
        if waiting > 0 {
            env.out.counters.add(Counter::TCPAckCompressed, u64::from(waiting));
        }
    }
}
