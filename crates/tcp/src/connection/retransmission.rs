//! When what was sent is sent again: the retransmission timeout (RFC 6298) and the tail loss probe (RFC 8985 §7).

use super::ack::Ack;
use super::bounds::rto_bounds;
use super::deadlines::Timer;
use super::recovery::{Lent, Recovery};
use crate::congestion::{CongestionEvent, Phase};
use crate::counters::Counter;
use crate::outbox::Env;
use weft_core::{Duration, StreamOptions};

impl Recovery {
    /// RFC 6298 §5.1 to §5.3, and RFC 8985 §7.2: the probe timer instead, where it is due first.
    pub(super) fn arm_retransmission(&mut self, lent: &mut Lent<'_>, env: &mut Env<'_>, progress: bool) {
        // §5.2: "When all outstanding data has been acknowledged, turn off the retransmission timer."
        if lent.send.outstanding.is_empty() {
            lent.timers.cancel(Timer::Retransmit);
            lent.timers.cancel(Timer::Probe);
            lent.timers.cancel(Timer::Reorder);
            return;
        }
        let rto = self.clamp_to_user_timeout(lent.options, env, self.rtt.rto());
        // §5.3: "When an ACK is received that acknowledges new data, restart the retransmission timer so that it will expire after RTO seconds".
        if progress {
            lent.timers.set(Timer::Retransmit, env.now + rto);
        } else {
            // §5.1: "Every time a packet containing data is sent …, if the timer is not running, start it running".
            lent.timers.set_if_unset(Timer::Retransmit, env.now + rto);
        }
        self.arm_tail_probe(lent, env);
    }

    /// RFC 8985 §7.2: TLP_schedule_loss_probe().
    fn arm_tail_probe(&mut self, lent: &mut Lent<'_>, env: &mut Env<'_>) {
        let wanted = env.config.tail_loss_probe
            && lent.opening.agreed.sack
            && !lent.opening.fast_open.early
            && matches!(self.phase, Phase::Open | Phase::Cwr)
            && lent.send.outstanding.sacked == 0
            && self.tlp_high.is_none();
        if !wanted {
            return lent.timers.cancel(Timer::Probe);
        }
        // "If SRTT is available: PTO = 2*SRTT; if FlightSize is one segment: PTO += TLP.max_ack_delay; else PTO = 1 s". Linux: + 2 ms.
        let timeout = match self.rtt.srtt() {
            Some(srtt) if lent.send.outstanding.len() == 1 => srtt * 2 + rto_bounds(env.config, lent.options).min,
            Some(srtt) => srtt * 2 + Duration::from_millis(2),
            None => env.config.rto_initial,
        };
        let at = env.now + timeout;
        // "If Now() + PTO > TCP_RTO_expiration(): PTO = TCP_RTO_expiration() - Now()": the timeout comes after the probe.
        lent.timers.set(Timer::Probe, at.min(lent.timers.at(Timer::Retransmit)));
    }

    /// RFC 8985 §7.4: detecting losses that the probe repaired.
    pub(super) fn take_tail_probe_ack(&mut self, lent: &mut Lent<'_>, env: &mut Env<'_>, ack: &Ack) {
        let Some(high) = self.tlp_high else { return };
        if lent.send.una < high {
            return;
        }
        if !self.tlp_retransmitted || ack.duplicate {
            self.tlp_high = None;
        } else if lent.send.una > high {
            // At exactly the probe's end it cannot be told which transmission was acknowledged. Beyond it: "the original was lost and the
            // probe has repaired it: congestion control must hear of it".
            self.tlp_high = None;
            env.count(Counter::TCPLossProbeRecovery);
            if self.phase < Phase::Cwr {
                let now = env.now;
                lent.control.on_event(now, CongestionEvent::Loss, ack.prior_in_flight);
                lent.control.on_event(now, CongestionEvent::RecoveryDone, lent.send.in_flight());
            }
        } else if ack.is_duplicate() && ack.sacked == 0 {
            self.tlp_high = None;
        }
    }

    pub(super) fn clamp_to_user_timeout(&self, options: &StreamOptions, env: &Env<'_>, rto: Duration) -> Duration {
        match (options.user_timeout.filter(|timeout| !timeout.is_zero()), self.timeouts_since) {
            (Some(timeout), Some(since)) => {
                let left = timeout.saturating_sub(env.now - since);
                rto.min(left.max(Duration::from_millis(1)))
            }
            _ => rto,
        }
    }

    /// Has nothing been answered for the time that so many retransmissions take (retransmits_timed_out)?
    pub(super) fn silent_for(&self, options: &StreamOptions, env: &Env<'_>, retries: u32) -> bool {
        let since = self.timeouts_since.unwrap_or(env.now);
        env.now - since >= model_timeout(retries, env.config.rto_min, rto_bounds(env.config, options).max)
    }
}

/// tcp_model_timeout: the time until the retransmission after `retries` is due, with doubling up to `max`.
pub(super) fn model_timeout(retries: u32, first: Duration, max: Duration) -> Duration {
    let doublings = (max.as_nanos() / first.as_nanos().max(1)).max(1).ilog2();
    if retries <= doublings { first * ((2u32 << retries) - 1) } else { first * ((2u32 << doublings) - 1) + max * (retries - doublings) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fifteen_retries_take_as_long_as_in_linux() {
        // Documentation/networking/ip-sysctl.rst, tcp_retries2: "924.6 seconds".
        let time = model_timeout(15, Duration::from_millis(200), Duration::from_secs(120));
        assert_eq!(time, Duration::from_millis(924_600));
    }
}
