//! Taking an acknowledgment (Linux's tcp_ack, in its order): acceptability, window, SACK, what leaves the retransmission queue, RTT, loss
//! detection, congestion control, timers.

use super::ack::Ack;
use super::deadlines::Timer;
use super::outstanding::Sent;
use super::{Connection, Phase};
use crate::congestion::AckSample;
use crate::congestion::hystart::Detected;
use crate::counters::Counter;
use crate::outbox::Env;
use crate::position::START;
use weft_core::{Duration, Instant, Reason};
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
        self.measure_receiver_rtt(env.now, segment.options.timestamps.map(|stamp| stamp.echo), length);
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
        self.take_sacks(env, segment, ack_at, &mut ack);
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

    /// RFC 2018, RFC 2883: the SACK blocks.
    fn take_sacks(&mut self, env: &mut Env<'_>, segment: &Segment, ack_at: u64, ack: &mut Ack) {
        if !self.opening.agreed.sack || segment.options.sack.is_empty() {
            return;
        }
        let space = self.send.space;
        let (una, next) = (self.send.una, self.send.next);
        let blocks = segment.options.sack.iter().map(|(start, end)| (space.position(una, *start), space.position(una, *end)));
        let mut first: Option<(u64, u64)> = None;
        for (index, (start, end)) in blocks.enumerate() {
            if start >= end || end > next {
                continue;
            }
            if index == 0 {
                first = Some((start, end));
                // RFC 2883 §4: below the cumulative acknowledgment it is a DSACK.
                if start < ack_at {
                    self.take_duplicate(env, start, end, false, ack);
                    continue;
                }
            }
            // Within the second block, too.
            if let (1, Some((from, to))) = (index, first)
                && from >= start
                && to <= end
                && from >= ack_at
            {
                self.take_duplicate(env, from, to, true, ack);
            }
            if end <= ack_at {
                continue;
            }
            self.take_block(env.now, start.max(ack_at), end, ack);
        }
    }

    fn take_duplicate(&mut self, env: &mut Env<'_>, start: u64, end: u64, out_of_order: bool, ack: &mut Ack) {
        // tcp_is_sackblock_valid: only of data that we did send twice, not longer ago than the largest window.
        if start + u64::from(self.send.window_max) < self.send.una {
            return;
        }
        env.count(if out_of_order { Counter::TCPDSACKOfoRecv } else { Counter::TCPDSACKRecv });
        let segments = ((end - start) as u32).div_ceil(self.send.mss.max(1)).max(1);
        self.totals.dsack_duplicates = self.totals.dsack_duplicates.wrapping_add(segments);
        // More duplicates than retransmissions: the network makes them, and they say nothing of ours (tcp_dsack_seen).
        if self.totals.dsack_duplicates > self.totals.retransmitted {
            return;
        }
        ack.duplicate = true;
        self.recovery.rack.duplicate = true;
        if let Some(marker) = self.recovery.undo_marker
            && end > marker
        {
            self.recovery.undo_retransmissions = self.recovery.undo_retransmissions.map(|left| left.saturating_sub(segments));
        }
    }

    fn take_block(&mut self, now: Instant, start: u64, end: u64, ack: &mut Ack) {
        let min_rtt = self.recovery.rtt.min_rtt();
        let (rack, high) = (&mut self.recovery.rack, self.recovery.high);
        self.send.outstanding.sack(start, end, |sent: &Sent| {
            ack.sacked = ack.sacked.saturating_add(sent.len);
            ack.segments += 1;
            ack.rate.note(sent);
            rack.update(now, sent, min_rtt);
            if sent.ever_retransmitted {
                return;
            }
            if sent.start < ack.prior_highest {
                ack.reordered_from = Some(ack.reordered_from.map_or(sent.start, |from| from.min(sent.start)));
            }
            if sent.end() <= high {
                ack.original_sacked = true;
            }
            ack.original = true;
            ack.first_sacked = ack.first_sacked.or(Some(sent.sent_at));
            ack.last_sacked = Some(sent.sent_at);
        });
    }

    /// SND.UNA moves on: segments leave the retransmission queue, bytes the send queue.
    fn release_acknowledged(&mut self, env: &mut Env<'_>, ack_at: u64, ack: &mut Ack) {
        let now = env.now;
        let min_rtt = self.recovery.rtt.min_rtt();
        let highest = ack.prior_highest;
        let high = self.recovery.high;
        let before = self.send.outstanding.bytes - self.send.outstanding.sacked_bytes;
        let rack = &mut self.recovery.rack;
        let (mss, mut full) = (self.send.mss, false);
        self.send.outstanding.acknowledge(ack_at, |sent| {
            full |= sent.payload() >= mss && !sent.ever_retransmitted;
            if sent.ever_retransmitted {
                ack.retransmitted = true;
            } else {
                if !sent.sacked {
                    ack.original = true;
                    if sent.start < highest {
                        ack.reordered_from = Some(ack.reordered_from.map_or(sent.start, |from| from.min(sent.start)));
                    }
                    if sent.end() <= high {
                        ack.original_sacked = true;
                    }
                }
                ack.first_sent = ack.first_sent.or(Some(sent.sent_at));
                ack.last_sent = Some(sent.sent_at);
            }
            if !sent.sacked {
                ack.segments += 1;
                ack.rate.note(sent);
                rack.update(now, sent, min_rtt);
            }
        });
        let after = self.send.outstanding.bytes - self.send.outstanding.sacked_bytes;
        ack.acked = (before - after) as u32;
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
            self.totals.busy += now - since;
        }
        self.send.urgent = self.send.urgent.max(ack_at);
        self.return_credit(env);
    }

    /// Everything that follows from what was delivered.
    fn after_ack(&mut self, env: &mut Env<'_>, segment: &Segment, ack: &mut Ack) {
        let rtt = self.sample_rtt(env.now, segment, ack);
        if ack.advanced {
            self.recovery.timeouts = 0;
            self.recovery.timeouts_since = None;
            self.soft_error = None;
            // Karn: without a sample the timeout stays backed off; but when the peer reports a duplicate, only its acknowledgment was lost.
            if ack.duplicate {
                self.recovery.rtt.reset_backoff();
            }
        }
        self.check_reordering(env, ack);
        self.take_tail_probe_ack(env, ack);
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

    /// RFC 6298 §3: "RTT samples MUST NOT be made using segments that were retransmitted", but by timestamps (RFC 7323 §4.1).
    fn sample_rtt(&mut self, now: Instant, segment: &Segment, ack: &Ack) -> Option<Duration> {
        let floor = Duration::from_micros(1);
        let acked = ack.first_sent.filter(|_| !ack.retransmitted).map(|at| (now - at).max(floor));
        let last = ack.last_sent.filter(|_| !ack.retransmitted).map(|at| (now - at).max(floor));
        let sacked = ack.first_sacked.map(|at| (now - at).max(floor));
        let stamped = || {
            // A duplicate does not move the peer's TS.Recent (RFC 7323 §4.3 takes acceptable segments only): its echo is as old as the loss of
            // the acknowledgment, and would make the timeout grow with every lost acknowledgment.
            let stamp = segment.options.timestamps.filter(|_| self.opening.agreed.timestamps && ack.advanced && !ack.duplicate)?;
            let millis = self.opening.timestamp(now).wrapping_sub(stamp.echo);
            (stamp.echo != 0 && self.opening.echo_is_plausible(now, stamp.echo)).then(|| Duration::from_millis(u64::from(millis.max(1))))
        };
        let sample = acked.or(sacked).or_else(stamped)?;
        let (una, next) = (self.send.una_seq(), self.send.next_seq());
        let delayed = self.may_be_delayed(ack);
        self.recovery.rtt.on_sample(now, sample, una, next, delayed);
        // tcp_clean_rtx_queue: `ca_rtt_us` is of what was sent last, and of what was reported before what was acknowledged.
        let latest = ack.last_sacked.map(|at| (now - at).max(floor)).or(last).unwrap_or(sample);
        self.recovery.rtt.on_delay(now, latest, delayed);
        Some(latest)
    }

    /// One segment that was no full one: the peer may have waited for more (FLAG_ACK_MAYBE_DELAYED).
    fn may_be_delayed(&self, ack: &Ack) -> bool {
        ack.segments == 1 && ack.sacked == 0 && ack.acked < self.send.mss && !ack.retransmitted
    }

    /// tcp_check_sack_reordering: something arrived that was sent before what arrived earlier.
    fn check_reordering(&mut self, env: &mut Env<'_>, ack: &Ack) {
        let (Some(from), Some(highest)) = (ack.reordered_from, self.send.outstanding.highest_sacked().or(Some(self.send.una))) else {
            return;
        };
        if highest <= from {
            return;
        }
        let segments = ((highest - from) as u32).div_ceil(self.send.mss.max(1));
        self.recovery.reordering = self.recovery.reordering.max(segments.min(300));
        self.recovery.reordering_seen += 1;
        env.count(Counter::TCPSACKReorder);
    }

    fn control_congestion(&mut self, env: &mut Env<'_>, ack: &Ack, rtt: Option<Duration>, rate: u64, round_start: bool) {
        let reducing = self.recovery.prr.is_active();
        if reducing {
            let delivered = ack.acked.saturating_add(ack.sacked);
            if delivered > 0 {
                self.recovery.prr_allowed = self.recovery.prr.on_ack(delivered, ack.lost, self.send.in_flight(), ack.advanced);
            } else {
                // tcp_cwnd_reduction does nothing then: the window stays, and what is lost is not in flight any more.
                self.recovery.prr_allowed = self.recovery.prr_allowed.saturating_add(ack.lost);
            }
        }
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
            maybe_delayed: self.may_be_delayed(ack),
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
