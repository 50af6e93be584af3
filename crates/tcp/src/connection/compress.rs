//! Acknowledgments of out-of-order data, several in one: what Linux calls SACK compression (`__tcp_ack_snd_check`, `tcp_compressed_ack_kick`).
//!
//! The first three duplicates after RCV.NXT has moved leave at once: a sender without RACK counts them (RFC 5681 §3.2). What arrives behind them
//! is acknowledged together, after a twentieth of the round trip, 1 ms at most. A gap that is filled ends the waiting.

use super::Connection;
use super::deadlines::Timer;
use crate::counters::Counter;
use crate::outbox::Env;
use weft_core::Duration;

/// How much later than asked the kernel lets the timer fire (net.ipv4.tcp_comp_sack_slack_ns). Here it always does: in the kernel it fires
/// with the next interrupt, which is the next segment.
const SLACK: Duration = Duration::from_micros(100);

impl Connection {
    /// There is out-of-order data, and nothing else demands an acknowledgment now.
    pub(super) fn acknowledge_or_compress(&mut self, env: &mut Env<'_>) {
        let most = env.config.compressed_acks_max;
        if !self.opening.agreed.sack || !self.receive.compression.takes(self.receive.next, most) {
            return self.send_ack(env);
        }
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
        if self.receive.compression.let_one_go() {
            self.send_ack(env);
        }
    }

    /// Whatever waited is acknowledged by what leaves now.
    pub(super) fn compressed_acks_sent(&mut self, env: &mut Env<'_>) {
        self.timers.cancel(Timer::CompressedAck);
        let waiting = self.receive.compression.let_all_go();
        if waiting > 0 {
            env.out.counters.add(Counter::TCPAckCompressed, u64::from(waiting));
        }
    }
}
