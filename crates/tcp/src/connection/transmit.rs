//! Sending: what may go out now (congestion window, PRR, peer's window, pacing, bytes below), in what pieces (segmentation, Nagle, cork,
//! silly windows, large frames), and the frames themselves.

use super::bounds::TIMESTAMPS_BYTES;
use super::deadlines::Timer;
use super::finished::Finished;
use super::headers::{Headers, prepared, write_header};
use super::outstanding::Sent;
use super::totals::Limit;
use super::{Connection, Phase, State};
use crate::congestion::CongestionEvent;
use crate::congestion::usage::Flight;
use crate::counters::Counter;
use crate::extension::{FrameRoom, Outgoing};
use crate::outbox::Env;
use crate::pacing;
use crate::position::START;
use weft_core::{Completion, Duration, Frame, Gso, GsoKind, Instant};
use weft_wire::tcp::{Flags, SACK_BLOCKS_MAX, Segment, Timestamps};

/// Largest payload of one frame, bytes: IP's total length less the largest headers.
const FRAME_PAYLOAD_MAX: u32 = 65_535 - 60 - 60;

/// Bytes that a mapping is told to be for at most: what 16 bits count.
const AHEAD_MAX: u32 = 65_535;

impl Connection {
    /// Ports, and nothing else.
    pub(super) fn header(&self) -> Segment {
        Segment { src_port: self.local.port(), dst_port: self.remote.port(), ..Segment::default() }
    }

    /// Gives out a segment whose payload is in `frame` already.
    pub(super) fn emit(&mut self, env: &mut Env<'_>, segment: &Segment, mut frame: Frame, ecn: u8) {
        let to = Headers {
            local: self.local,
            remote: self.remote,
            tos: (self.options.tos & !3) | ecn,
            ttl: self.options.ttl,
            mark: self.options.mark,
            interface: self.path.interface,
            dont_fragment: self.options.mtu_discover != 0,
            ip_options: prepared(&self.options),
            attached: self.options.attached.clone(),
        };
        let payload = frame.len() as u32;
        let segments = frame.meta().gso.map_or(1, |gso| payload.div_ceil(u32::from(gso.segment_bytes).max(1)));
        write_header(&mut frame, segment, &to);
        if payload > 0 {
            let bytes = frame.len() as u32;
            frame.meta_mut().completion = Some(Completion { block: env.out.block, token: self.token, bytes });
            self.send.below += u64::from(bytes);
        }
        env.out.counters.add(Counter::OutSegs, u64::from(segments));
        self.totals.segments_out = self.totals.segments_out.wrapping_add(segments);
        env.out.frames.push(frame);
    }

    /// A header with everything that an established connection's segments carry. An acknowledgment is always a part of it.
    fn full_header(&mut self, env: &mut Env<'_>, position: u64, kind: Outgoing) -> Segment {
        let mut segment = self.header();
        segment.seq = self.send.space.seq(position);
        segment.ack = self.receive.space.seq(self.receive.next);
        segment.flags = Flags::ACK;
        if self.opening.agreed.timestamps {
            segment.options.timestamps = Some(Timestamps { value: self.opening.timestamp(env.now), echo: self.receive.timestamp });
        }
        self.extension.write_options(kind, &mut segment.options);
        if self.opening.agreed.sack && self.receive.has_sack_blocks() {
            // What is left has room for blocks, as in tcp_established_options.
            let room = 40usize.saturating_sub(segment.options.wire_len() + 4) / 8;
            let blocks = &mut segment.options.sack;
            self.receive.sack_blocks(room.min(SACK_BLOCKS_MAX), |start, end| {
                let _ = blocks.try_push((start, end));
            });
        }
        segment.window = self.receive.announce_window(env, self.opening.agreed.scaling, &*self.extension);
        self.acknowledgment_sent(env);
        segment
    }

    /// Whatever was to be acknowledged now is.
    fn acknowledgment_sent(&mut self, env: &mut Env<'_>) {
        let unanswered = self.is_unanswered();
        self.receive.acknowledgment_sent(env.config, unanswered);
        self.timers.cancel(Timer::DelayedAck);
        self.compressed_acks_sent(env);
    }

    /// An acknowledgment alone.
    pub(super) fn send_ack(&mut self, env: &mut Env<'_>) {
        let mut segment = self.full_header(env, self.send.next, Outgoing::Ack);
        let (flags, ecn) = self.ecn_flags(false);
        segment.flags |= flags;
        self.emit(env, &segment, Frame::egress(), ecn);
    }

    /// A segment below SND.NXT that makes the peer answer: keepalive (RFC 9293 §3.8.4) and window probe.
    pub(super) fn send_reminder(&mut self, env: &mut Env<'_>) {
        let mut segment = self.full_header(env, self.send.una.saturating_sub(1), Outgoing::Ack);
        if let Some(pointer) = self.send.urgent_pointer(self.send.una) {
            segment.flags |= Flags::URG;
            segment.urgent = pointer;
        }
        self.emit(env, &segment, Frame::egress(), 0);
    }

    /// Bytes that congestion control lets out now.
    pub(super) fn send_room(&self) -> u32 {
        self.recovery.send_room(&self.send, &self.control)
    }

    /// The rate that paces this connection and sizes its frames, bytes per second, and whether somebody asked for it.
    pub(super) fn rate(&self) -> (u64, bool) {
        self.control.rate(self.send.in_flight(), self.recovery.rtt.srtt(), self.options.pacing_rate_max)
    }

    /// The largest frame. What the way cannot take whole is cut here, into what would have left a device that cuts (sk_can_gso: "GSO is always
    /// possible, in software").
    fn gso_bytes(&self) -> u32 {
        if self.takes_whole(2 * self.send.mss) { self.path.gso_max_bytes.min(FRAME_PAYLOAD_MAX) } else { FRAME_PAYLOAD_MAX }
    }

    fn takes_whole(&self, payload: u32) -> bool {
        payload <= self.path.gso_max_bytes
    }

    /// Bytes of one frame.
    fn burst_bytes(&self, rate: u64) -> u32 {
        self.control.burst_bytes(rate, self.send.mss, self.gso_bytes(), self.recovery.rtt.min_rtt())
    }

    /// Bytes that may wait below (TSQ).
    pub(super) fn below_limit(&self, env: &Env<'_>) -> u64 {
        let (rate, _) = self.rate();
        u64::from(pacing::queued_below_bytes(rate, self.burst_bytes(rate), env.config.tsq_bytes))
    }

    /// Sends what may be sent: lost segments, then new data, then FIN.
    pub(super) fn transmit(&mut self, env: &mut Env<'_>) {
        if !(self.state.is_synchronised() || self.is_early()) || matches!(self.state, State::TimeWait) || self.finished != Finished::No {
            return;
        }
        if self.send.outstanding.is_empty() && self.send.unsent() == 0 && !self.send.fin_due() {
            return self.note_limit(env.now, false);
        }
        self.restart_after_idle(env);
        self.forget_old_mtu(env);
        let (rate, wanted) = self.rate();
        let paced = wanted || env.config.pacing;
        let burst = self.burst_bytes(rate);
        let below_max = u64::from(pacing::queued_below_bytes(rate, burst, env.config.tsq_bytes));
        let (mut stopped_by_cwnd, next) = (false, self.send.next);
        loop {
            if paced && !self.control.pacer.ready(env.now) {
                self.timers.set_earlier(Timer::Pacing, self.control.pacer.next_send_at());
                break;
            }
            if self.send.below >= below_max {
                // Never with nothing below: a completion has to come. Linux looks at the window first.
                let (room, window, unsent) = (self.send_room(), self.send.window_room(), self.send.unsent());
                stopped_by_cwnd |= unsent > 0 && room < window && self.waits_for_larger_frame(env.now, room, burst, unsent);
                self.send.below_blocked = true;
                env.count(Counter::TCPTSQBlocked);
                break;
            }
            let sent = match self.retransmit_next(env) {
                Some(sent) => sent,
                None => match self.send_mtu_probe(env).or_else(|| self.send_next(env, burst, &mut stopped_by_cwnd)) {
                    Some(sent) => sent,
                    None => break,
                },
            };
            let segments = sent.div_ceil(self.send.mss.max(1)).max(1);
            self.control.pacer.sent(env.now, sent, segments, if paced { rate } else { pacing::RATE_UNLIMITED });
        }
        // tcp_write_xmit: "tcp_packets_in_flight(tp) >= tcp_snd_cwnd(tp)", whatever else has stopped it.
        stopped_by_cwnd |= self.send_room() < self.send.mss;
        self.after_transmit(env, stopped_by_cwnd, self.send.next > next);
    }

    /// RFC 5681 §4.1, RFC 9438 §5.7: a pause makes the window stale.
    fn restart_after_idle(&mut self, env: &mut Env<'_>) {
        if !self.send.outstanding.is_empty() || self.send.unsent() == 0 {
            return;
        }
        let idle = env.now - self.send.last_data;
        if env.config.slow_start_after_idle && self.send.delivery.bytes > 0 && idle > self.recovery.rtt.rto() {
            self.control.on_event(env.now, CongestionEvent::Idle(idle), 0);
        }
    }

    /// Accounts for what keeps the connection from sending (tcp_chrono).
    fn note_limit(&mut self, now: Instant, stopped_by_cwnd: bool) {
        let limit = match self.send.unsent() {
            0 if self.send.waits_for_room() && !self.send.outstanding.is_empty() => Some(Limit::Buffer),
            0 => None,
            _ if !stopped_by_cwnd && !self.send.next_fits() => Some(Limit::Window),
            _ => None,
        };
        self.totals.limit(now, limit);
    }

    fn after_transmit(&mut self, env: &mut Env<'_>, stopped_by_cwnd: bool, sent: bool) {
        self.note_limit(env.now, stopped_by_cwnd);
        let in_flight = self.send.in_flight();
        let flight = Flight { in_flight_bytes: in_flight, snd_una: self.send.una_seq(), snd_nxt: self.send.next_seq(), stopped_by_cwnd };
        let decays = env.config.slow_start_after_idle && !self.control.algorithm.owns_recovery();
        let decay_after = decays.then(|| self.recovery.rtt.rto());
        let waits_for_room = self.send.waits_for_room();
        // tcp_write_xmit: "if (likely(sent_pkts || is_cwnd_limited)) tcp_cwnd_validate(sk, is_cwnd_limited)".
        if sent || stopped_by_cwnd {
            self.control.usage.on_transmit(
                env.now,
                &mut self.control.window,
                &flight,
                decay_after,
                self.recovery.phase == Phase::Open && !waits_for_room,
            );
        }
        if self.send.outstanding.is_empty() && (self.send.unsent() > 0 || self.send.fin_due()) {
            if self.send.next_fits() {
                if self.send.more || self.options.cork {
                    // tcp_check_probe_timer: "if (!tp->packets_out && !inet_csk(sk)->icsk_pending)", with tcp_probe0_base.
                    self.timers.set_if_unset(Timer::Cork, env.now + self.recovery.rtt.rto().max(env.config.rto_min));
                }
            } else {
                self.arm_persist(env);
            }
        }
    }

    /// Retransmits one lost segment, if there is one and there is room.
    fn retransmit_next(&mut self, env: &mut Env<'_>) -> Option<u32> {
        // F-RTO tries new data first.
        if self.recovery.phase == Phase::Loss && self.recovery.frto {
            return None;
        }
        let sent = *self.send.outstanding.next_lost()?;
        // What the peer has taken out of its window waits, but for the first segment: it probes (RFC 9293 §3.8.6).
        if sent.start >= self.send.una + u64::from(self.send.window) && sent.start != self.send.una {
            return None;
        }
        let room = self.send_room();
        // RFC 6937 §3 / RFC 9937: the first retransmission of a recovery is never held back.
        if room < sent.len.min(self.send.mss) {
            return None;
        }
        let counter = if self.recovery.phase == Phase::Recovery { Counter::TCPFastRetrans } else { Counter::TCPSlowStartRetrans };
        env.count(counter);
        self.retransmit(env, &sent);
        Some(sent.len)
    }

    /// Sends a segment of the retransmission queue again.
    pub(super) fn retransmit(&mut self, env: &mut Env<'_>, sent: &Sent) {
        self.path_mtu.forget_probe(sent.start);
        self.send_segment(env, sent.start, sent.payload(), sent.fin, sent.mapping, Some(sent.pushed));
        let now = env.now;
        self.send.note_again(now, sent.start);
        self.recovery.sent_again(now, sent.len);
        self.totals.bytes_retransmitted += u64::from(sent.payload());
        self.totals.retransmitted = self.totals.retransmitted.wrapping_add(1);
        env.count(Counter::RetransSegs);
        let at = env.now + self.recovery.rtt.rto();
        if sent.start == self.send.una {
            // It is the first one's turn again to be waited for (tcp_xmit_retransmit_queue).
            self.timers.set(Timer::Retransmit, at);
        } else {
            self.timers.set_if_unset(Timer::Retransmit, at);
        }
    }

    /// Sends the next piece of new data, as large as everything allows.
    fn send_next(&mut self, env: &mut Env<'_>, burst: u32, stopped_by_cwnd: &mut bool) -> Option<u32> {
        let unsent = self.send.unsent();
        if unsent == 0 {
            return self.send_fin_alone(env);
        }
        let mss = self.send.mss;
        let window = self.send.window_room();
        let first = self.send.marks.within_record(self.send.next, unsent.min(u64::from(mss)) as u32);
        // RFC 9293 §3.8.6.2.1: a piece of a segment because the window is small is not sent until the override timeout.
        if window < first {
            return None;
        }
        let room = self.send_room();
        if room < first {
            *stopped_by_cwnd = true;
            return None;
        }
        let in_record = self.send.marks.within_record(self.send.next, u32::try_from(unsent).unwrap_or(u32::MAX));
        if self.waits_for_larger_frame(env.now, room.min(window), burst, in_record.into()) {
            *stopped_by_cwnd |= room < window;
            return None;
        }
        let mut length = unsent.min(u64::from(room.min(window).min(self.send.frame_bytes_max(burst, room)))) as u32;
        let (mapped, mapping) = self.send.mapped(self.send.next, length);
        let bounded_by_mapping = mapped < length;
        length = mapped;
        if let Some(frame) = self.extension.frame(self.send.next - (START + 1)) {
            return Some(self.send_by_frame(env, frame, length, mapping)).filter(|sent| *sent > 0);
        }
        if length > mss && !length.is_multiple_of(mss) {
            // tcp_mss_split_point: what is left of a segment goes along where the data or the peer's window ends, "if Nagle rules allow us to include
            // this last segment in this skb".
            let ends = u64::from(length) == unsent || length == window || bounded_by_mapping && self.send.ends_record(length);
            if !ends || !bounded_by_mapping && self.holds_back() {
                length -= length % mss;
            }
        }
        let last = u64::from(length) == unsent;
        if length < mss && !bounded_by_mapping && last && self.holds_back() {
            return None;
        }
        let fin = last && self.send.fin_due() && self.send.window_room() > length;
        self.send_new(env, length, fin, mapping);
        Some(length)
    }

    /// What of the next so many bytes of new data one frame has room for, if its extension cuts frames.
    pub(super) fn within_frame(&self, length: u32) -> u32 {
        let Some(frame) = self.extension.frame(self.send.next - (START + 1)) else { return length };
        let segment = if frame.option_bytes > 0 { self.send.mss.saturating_sub(frame.option_bytes).max(1) } else { u32::MAX };
        u64::from(length.min(segment)).min(frame.bytes) as u32
    }

    /// Sends the next piece of new data in a frame that its extension has cut. Nothing: the piece waits for more.
    fn send_by_frame(&mut self, env: &mut Env<'_>, frame: FrameRoom, mapped: u32, mapping: u64) -> u32 {
        let mss = self.send.mss;
        let full = if frame.option_bytes > 0 { mss.saturating_sub(frame.option_bytes).max(1) } else { mss };
        let mut length = self.within_frame(mapped);
        let last = u64::from(length) == self.send.unsent();
        if length > full && !length.is_multiple_of(full) && !last && u64::from(length) != frame.bytes {
            length -= length % full;
        }
        if length < full && last && self.holds_back() {
            return 0;
        }
        let fin = last && self.send.fin_due() && self.send.window_room() > length;
        let small = self.send.small;
        self.send_new(env, length, fin, mapping);
        if length.is_multiple_of(full) {
            // It was as large as it may be.
            self.send.small = small;
        }
        length
    }

    /// Is it better to wait for the next acknowledgment and send a larger frame then (tcp_tso_should_defer)? Never for long: something is out
    /// for at least half of a round trip, so its acknowledgment is due.
    fn waits_for_larger_frame(&self, now: Instant, limit: u32, burst: u32, unsent: u64) -> bool {
        let Some(first) = self.send.outstanding.front() else { return false };
        let large = self.gso_bytes() >= 2 * self.send.mss && self.recovery.phase < Phase::Recovery;
        if !large || limit >= burst || u64::from(limit) >= unsent || now - self.send.last_data > Duration::from_millis(1) {
            return false;
        }
        // tcp_tso_win_divisor: a third of the window is worth a frame.
        let worth = self.send.window.min(self.control.window.cwnd_bytes) / 3;
        limit < worth && now - first.sent_at >= self.recovery.rtt.srtt().unwrap_or_default() / 2
    }

    /// Nagle (RFC 9293 §3.7.4) in Minshall's variant as Linux has it, cork, and MSG_MORE.
    fn holds_back(&self) -> bool {
        // tcp_nagle_test: "Don't use the nagle rule for urgent data (or for the final FIN)."
        if self.send.fin_due() || self.send.is_urgent() {
            return false;
        }
        if self.options.cork || self.send.more {
            return !self.timers.cork_has_fired();
        }
        !self.options.nodelay && self.send.waits_as_small()
    }

    fn send_fin_alone(&mut self, env: &mut Env<'_>) -> Option<u32> {
        // FIN needs no room in the congestion window (tcp_cwnd_test), but in the peer's (SND.WND counts it).
        if !self.send.fin_due()
            || (self.send.window_room() == 0 && !self.send.outstanding.is_empty())
            || (self.send.window_room() == 0 && self.send.window == 0)
        {
            return None;
        }
        self.send_new(env, 0, true, 0);
        Some(1)
    }

    /// Sends new bytes as one segment, whatever the segment size: a probe.
    pub(super) fn send_whole(&mut self, env: &mut Env<'_>, length: u32, mapping: u64) {
        let mss = std::mem::replace(&mut self.send.mss, length);
        self.send_new(env, length, false, mapping);
        self.send.mss = mss;
    }

    /// Sends new numbers and puts them into the retransmission queue, one entry a segment.
    pub(super) fn send_new(&mut self, env: &mut Env<'_>, length: u32, fin: bool, mapping: u64) {
        let start = self.send.next;
        if self.send.in_flight() == 0 {
            let app_limited = self.send.delivery.app_limited > 0;
            self.control.on_event(env.now, CongestionEvent::Restart { app_limited }, 0);
        }
        self.send_segment(env, start, length, fin, mapping, None);
        if self.send.outstanding.is_empty() {
            self.totals.busy_since = Some(env.now);
        }
        let segments = self.send.note_new(env.now, length, fin, mapping);
        env.out.counters.add(Counter::TCPOrigDataSent, u64::from(segments));
        self.totals.bytes_sent += u64::from(length);
        self.recovery.sent(length + u32::from(fin));
        // An answer to data that came lately: the connection is interactive (tcp_event_data_sent).
        if self.receive.ack.last_data.is_some_and(|at| env.now - at < self.receive.ack.timeout) {
            self.receive.ack.interactive = true;
        }
        self.timers.cancel(Timer::Persist);
        self.timers.cancel(Timer::Cork);
        self.arm_retransmission(env, false);
    }

    /// The frame of a data segment, new or (`again`: whether it carried PSH) once more.
    fn send_segment(&mut self, env: &mut Env<'_>, start: u64, length: u32, fin: bool, mapping: u64, again: Option<bool>) {
        let kind = self.outgoing(start, length, mapping, again.is_none());
        let mut segment = self.full_header(env, start, kind);
        let (flags, ecn) = self.ecn_flags(again.is_none() && length > 0);
        segment.flags |= flags;
        // RFC 9293 §3.9.1: PSH where a write ends and nothing follows. Linux has it at the end of every large frame, too ("tcp_skb_pcount(skb) > 1"
        // in __tcp_transmit_skb, so that the receiver's GRO hands it on), and its receivers acknowledge at once what a program has read up to a PSH.
        let pushed = again.unwrap_or_else(|| self.send.is_pushed(start + u64::from(length)));
        if length > 0 && (pushed || length > self.send.mss) {
            segment.flags |= Flags::PSH;
        }
        if fin {
            segment.flags |= Flags::FIN;
        }
        if let Some(pointer) = self.send.urgent_pointer(start) {
            segment.flags |= Flags::URG;
            segment.urgent = pointer;
        }
        // SACK blocks take room that a full segment does not have: then it is cut, too.
        let options = segment.options.wire_len() as u32;
        let usual = u32::from(self.opening.agreed.timestamps) * TIMESTAMPS_BYTES + self.extension.option_bytes();
        let each = self.send.mss.saturating_sub(options.saturating_sub(usual)).max(1);
        if length > 0 {
            let segments = length.div_ceil(each);
            self.totals.data_segments_out = self.totals.data_segments_out.wrapping_add(segments);
        }
        // The largest frame counts timestamps, and no more: a longer header makes it an IP packet that there cannot be.
        if length > each && !self.takes_whole(length + options.saturating_sub(TIMESTAMPS_BYTES)) {
            self.emit_in_pieces(env, &segment, start, length, each, ecn);
        } else {
            let mut frame = Frame::egress();
            self.send.queue.append_to(&mut frame, start, length);
            if length > each {
                frame.meta_mut().gso = Some(Gso { segment_bytes: each.min(u32::from(u16::MAX)) as u16, kind: GsoKind::Tcp });
            }
            self.emit(env, &segment, frame, ecn);
        }
        self.stamp_sent(env, start, length);
    }

    /// Data as its extension sees it.
    fn outgoing(&mut self, start: u64, length: u32, mapping: u64, new: bool) -> Outgoing {
        let sum = if self.extension.wants_sum() { self.send.queue.sum(start, length) } else { 0 };
        let ahead = if new && length > 0 && !self.extension.is_plain() { self.mapped_ahead(start, length) } else { length };
        Outgoing::Data { mapping, offset: start - (START + 1), bytes: length, ahead, sum }
    }

    /// Bytes from a piece on that have its mapping: it, and whole segments behind it, or all that there is.
    fn mapped_ahead(&mut self, start: u64, length: u32) -> u32 {
        let unsent = u32::try_from(self.send.unsent()).unwrap_or(u32::MAX).max(length).min(AHEAD_MAX);
        if unsent <= length {
            return length;
        }
        let (mapped, _) = self.send.mapped(start, unsent);
        let all = u64::from(mapped) == self.send.unsent();
        if all { mapped.max(length) } else { length + mapped.saturating_sub(length) / self.send.mss.max(1) * self.send.mss }
    }

    /// A large frame as the segments that it stands for (tcp_gso_segment): FIN and PSH are the last one's, CWR is the first one's.
    fn emit_in_pieces(&mut self, env: &mut Env<'_>, whole: &Segment, start: u64, length: u32, each: u32, ecn: u8) {
        for at in (0..length).step_by(each.max(1) as usize) {
            let bytes = each.min(length - at);
            let urgent = self.send.urgent_pointer(start + u64::from(at));
            let mut segment = Segment { seq: whole.seq + at, urgent: urgent.unwrap_or(0), ..whole.clone() };
            segment.flags.set(Flags::URG, urgent.is_some());
            if at > 0 {
                segment.flags &= !Flags::CWR;
            }
            if at + bytes < length {
                segment.flags &= !(Flags::FIN | Flags::PSH);
            }
            let mut frame = Frame::egress();
            self.send.queue.append_to(&mut frame, start + u64::from(at), bytes);
            self.emit(env, &segment, frame, ecn);
        }
    }
}
