//! Taking an acknowledgment (Linux's tcp_ack, in its order): acceptability, window, SACK, what leaves the retransmission queue, RTT, loss
//! detection, congestion control, timers.

use super::ack::Ack;
use super::deadlines::Timer;
use super::{Connection, Phase};
use crate::congestion::AckSample;
use crate::congestion::hystart::Detected;
use crate::counters::Counter;
use crate::outbox::Env;
use crate::position::START;
use weft_core::{Duration, Reason};
use weft_wire::tcp::{Flags, Segment};

impl Connection {
    /// Takes the acknowledgment of a segment. False: the segment must be dropped.
    pub(super) fn acknowledge(&mut self, env: &mut Env<'_>, segment: &Segment, start: u64, length: u32) -> bool {
        let prior_una = self.send.una;
        let ack_at = self.send.space.position(prior_una, segment.ack);
        // RFC 9293 §3.10.7.4: "If the ACK acks something not yet sent (SEG.ACK > SND.NXT), then send an ACK, drop the segment, and return."
        if ack_at > self.send.next {
            env.refuse(Reason::TcpOldAck);
            self.challenge(env);
            return false;
        }
        // RFC 5961 §5.2: "(SND.UNA - MAX.SND.WND) <= SEG.ACK <= SND.NXT … All incoming segments whose ACK value doesn't satisfy the above
        // condition MUST be discarded and an ACK sent back."
        if ack_at < prior_una && ack_at + u64::from(self.send.window_max) < prior_una {
            env.refuse(Reason::TcpOldAck);
            self.challenge(env);
            return false;
        }
        let mut ack = Ack {
            prior_una,
            // tcp_ack: "prior_fack = tcp_is_sack(tp) ? tcp_highest_sack_seq(tp) : tp->snd_una;", before its own blocks are looked at: one that
            // was delayed acknowledges what arrived before a hole together with what arrived behind it, and nothing was reordered.
            prior_highest: self.send.outstanding.highest_sacked().unwrap_or(prior_una),
            prior_in_flight: self.send.in_flight(),
            advanced: ack_at > prior_una,
            has_data: length > 0,
            ece: self.opening.agreed.ecn && segment.flags.contains(Flags::ECE),
            ..Ack::default()
        };
        self.totals.last_ack_in = env.now;
        self.keepalive_unanswered = 0;
        self.receive.last_echo_seen = segment.options.timestamps.map_or(0, |stamp| stamp.echo);
        self.receive.measure_rtt(&self.opening, env.now, segment.options.timestamps.map(|stamp| stamp.echo), length);
        if ack_at >= prior_una {
            let (moved, largest) = self.send.take_window(segment, start, ack_at);
            ack.window_moved = moved;
            if largest {
                self.update_mss(env);
            }
            self.send.probes_unanswered = 0;
            // tcp_ack_probe: "Was it a usable window open?" An answer to a probe is none, so TCP_USER_TIMEOUT goes on counting.
            let next = self.send.queue.end().saturating_sub(self.send.next).min(u64::from(self.send.mss));
            if u64::from(self.send.window_room()) >= next {
                self.send.probing_since = None;
            }
        }
        if length == 0 {
            env.count(Counter::TCPPureAcks);
        }
        self.recovery.rack.advanced = false;
        let (recovery, mut lent) = self.parts();
        recovery.take_sacks(&mut lent, env, segment, ack_at, &mut ack);
        if ack_at == prior_una && self.send.outstanding.is_empty() {
            if ack.duplicate {
                // The retransmission of what is long acknowledged was spurious: perhaps the reduction, too.
                self.on_dubious_ack(env, &mut ack);
            }
            self.after_empty_ack(env, ack.window_moved);
            return true;
        }
        // tcp_ack: "if ((flag & FLAG_FORWARD_PROGRESS) || …) sk_dst_confirm(sk);", which is FLAG_ACKED and FLAG_DATA_SACKED.
        self.progress |= ack.advanced || ack.sacked > 0;
        if ack.advanced {
            self.release_acknowledged(env, ack_at, &mut ack);
        } else if ack_at < prior_una && ack.sacked == 0 {
            // Old and without news.
            return true;
        }
        self.after_ack(env, segment, &mut ack);
        true
    }

    /// Nothing is outstanding: the acknowledgment is a window update, an answer to a probe, or noise.
    fn after_empty_ack(&mut self, env: &mut Env<'_>, window_moved: bool) {
        if window_moved || self.timers.is_set(Timer::Persist) {
            if self.send.next_fits() {
                self.timers.cancel(Timer::Persist);
                self.recovery.rtt.reset_backoff();
            } else {
                self.arm_persist(env);
            }
        }
    }

    /// SND.UNA moves on: segments leave the retransmission queue, bytes the send queue.
    fn release_acknowledged(&mut self, env: &mut Env<'_>, ack_at: u64, ack: &mut Ack) {
        let full = self.recovery.release(&mut self.send, env.now, ack_at, ack);
        self.send.una = ack_at;
        self.extension.on_acknowledged(ack_at.saturating_sub(START + 1));
        self.judge_black_hole(env, full);
        self.take_mtu_probe_ack(env);
        self.stamp_acknowledged(env, ack_at);
        let released = self.send.queue.release(ack_at);
        self.totals.bytes_acked += u64::from(released);
        if self.send.outstanding.is_empty()
            && let Some(since) = self.totals.busy_since.take()
        {
            self.totals.busy += env.now - since;
        }
        self.send.urgent = self.send.urgent.max(ack_at);
        self.return_credit(env);
    }

    /// An acknowledgment that is not just progress.
    fn on_dubious_ack(&mut self, env: &mut Env<'_>, ack: &mut Ack) {
        let (recovery, mut lent) = self.parts();
        if recovery.on_dubious_ack(&mut lent, env, ack) {
            self.transmit(env);
        }
    }

    /// Everything that follows from what was delivered.
    fn after_ack(&mut self, env: &mut Env<'_>, segment: &Segment, ack: &mut Ack) {
        let rtt = self.recovery.sample_rtt(&self.send, &self.opening, env.now, segment, ack);
        if ack.advanced {
            self.recovery.timeouts_are_over();
            self.soft_error = None;
            // Karn: without a sample the timeout stays backed off; but when the peer reports a duplicate, only its acknowledgment was lost.
            if ack.duplicate {
                self.recovery.rtt.reset_backoff();
            }
        }
        let (recovery, mut lent) = self.parts();
        recovery.check_reordering(lent.send, env, ack);
        recovery.take_tail_probe_ack(&mut lent, env, ack);
        let delivered = u64::from(ack.acked) + u64::from(ack.sacked);
        env.out.counters.add(Counter::TCPDelivered, u64::from(ack.segments));
        self.send.delivery.segments = self.send.delivery.segments.wrapping_add(ack.segments);
        if ack.ece {
            self.totals.delivered_ce = self.totals.delivered_ce.wrapping_add(ack.segments);
            env.out.counters.add(Counter::TCPDeliveredCE, u64::from(ack.segments));
        }
        self.recovery.rack.adapt(ack.rate.prior_delivered, self.send.delivery.bytes);
        let min_rtt = self.recovery.rtt.min_rtt().unwrap_or_default();
        let (rate, round_start) = self.send.delivery.on_ack(env.now, delivered, min_rtt, &ack.rate);
        let trouble = self.send.outstanding.sacked > 0 || self.send.outstanding.lost > 0 || self.send.outstanding.duplicate_bytes > 0;
        if self.recovery.phase != Phase::Open || ack.is_duplicate() || ack.duplicate || ack.ece || trouble {
            self.on_dubious_ack(env, ack);
        } else {
            self.recovery.retransmit_stamp = None;
            self.timers.cancel(Timer::Reorder);
        }
        self.control_congestion(env, ack, rtt, rate, round_start);
        if ack.advanced || ack.sacked > 0 || ack.lost > 0 {
            // tcp_clean_rtx_queue: a SACK restarts the timer only when it is of data sent before the first segment's last transmission;
            // "otherwise the timeout may continue to extend in loss recovery".
            let older = matches!((ack.last_sacked, self.send.outstanding.front()), (Some(sacked), Some(first)) if sacked < first.sent_at);
            self.arm_retransmission(env, ack.advanced || older);
        }
    }

    fn control_congestion(&mut self, env: &mut Env<'_>, ack: &Ack, rtt: Option<Duration>, rate: u64, round_start: bool) {
        let reducing = self.recovery.allow(&self.send, ack);
        if ack.acked == 0 && ack.sacked == 0 && ack.lost == 0 {
            return;
        }
        let (pacing_rate_bytes_per_s, paced) = self.rate();
        let sample = AckSample {
            now: env.now,
            newly_acked_bytes: ack.acked,
            newly_sacked_bytes: ack.sacked,
            newly_lost_bytes: ack.lost,
            rtt,
            min_rtt: self.recovery.rtt.min_rtt().unwrap_or_default(),
            srtt: self.recovery.rtt.srtt().unwrap_or_default(),
            in_flight_bytes: ack.prior_in_flight,
            in_flight_after_bytes: self.send.in_flight(),
            phase: self.recovery.phase,
            cwnd_limited: self.control.usage.is_cwnd_limited(&self.control.window),
            delivered_bytes: self.send.delivery.bytes,
            delivered_at: self.send.delivery.at,
            lost_bytes: self.send.outstanding.lost_ever,
            delivery_rate_bytes_per_s: rate,
            prior_delivered_bytes: ack.rate.prior_delivered,
            sample_app_limited: ack.rate.app_limited,
            maybe_delayed: ack.may_be_delayed(self.send.mss),
            pacing_rate_bytes_per_s,
            paced: paced || env.config.pacing,
            next_departure: self.control.pacer.next_send_at(),
            ece: ack.ece,
            round_start,
            snd_una: self.send.una_seq(),
            snd_nxt: self.send.next_seq(),
            in_recovery: reducing,
        };
        if self.control.on_ack(&sample) {
            self.count_hystart(env);
        }
        if self.control.algorithm.limits_itself() {
            self.send.note_app_limited();
        }
    }

    /// Slow start ended by itself: how, and with which window.
    fn count_hystart(&self, env: &mut Env<'_>) {
        let (times, windows) = match self.control.algorithm.detected() {
            Some(Detected::Train) => (Counter::TCPHystartTrainDetect, Counter::TCPHystartTrainCwnd),
            Some(Detected::Delay) => (Counter::TCPHystartDelayDetect, Counter::TCPHystartDelayCwnd),
            None => return,
        };
        env.count(times);
        env.out.counters.add(windows, u64::from(self.control.window.cwnd_bytes / self.send.mss.max(1)));
    }
}
