//! What happens to a segment, in the order of RFC 9293 §3.10.7.4: sequence number, RST, SYN, ACK, URG, text, FIN; PAWS in front.

use super::deadlines::Timer;
use super::receiver::Place;
use super::{Connection, Finished, State};
use crate::counters::Counter;
use crate::extension::{Incoming, Verdict};
use crate::outbox::Env;
use crate::position::START;
use std::time::Duration;
use weft_core::{Frame, Reason, StreamError, StreamEvent};
use weft_wire::ipv4::Ecn;
use weft_wire::tcp::{Flags, Segment, Seq};

impl Connection {
    /// A segment of this connection. `frame` begins with the payload; its checksum was verified.
    pub fn on_segment(&mut self, env: &mut Env<'_>, segment: &Segment, frame: Frame) {
        self.totals.segments_in = self.totals.segments_in.wrapping_add(segments_in(&frame));
        self.send.marks.hops = frame.meta().ttl;
        if self.state == State::SynSent {
            return self.on_segment_syn_sent(env, segment, frame);
        }
        if self.repeats_syn(env, segment) {
            return;
        }
        if self.state == State::Closed {
            return env.refuse(Reason::TcpInvalidState);
        }
        if self.opening.agreed.ecn {
            self.receive.ecn_received(env, segment, Ecn::from_bits(frame.meta().tos), frame.is_empty());
        }
        let start = self.receive.space.position(self.receive.next, segment.seq);
        let taken = match self.is_predicted(segment, start, &frame) {
            true => self.take_predicted(env, segment, start, &frame),
            false => self.validate(env, segment, start, &frame) && self.take_ack(env, segment, start, &frame),
        };
        if taken {
            self.finish_segment(env, frame, start, segment);
        }
    }

    /// Header prediction: see [`Expected::is_met_by`](super::foresee::Expected::is_met_by).
    fn is_predicted(&self, segment: &Segment, start: u64, frame: &Frame) -> bool {
        self.state == State::Established && self.expected().is_met_by(segment, start, frame.len() as u64)
    }

    fn take_predicted(&mut self, env: &mut Env<'_>, segment: &Segment, start: u64, frame: &Frame) -> bool {
        let length = frame.len() as u32;
        if self.extension_verdict(env, segment, start, length) != Verdict::Continue {
            return false;
        }
        self.receive.note_timestamp(self.opening.agreed.timestamps, env.now, segment, start);
        env.count(if length == 0 { Counter::TCPHPAcks } else { Counter::TCPHPHits });
        self.acknowledge(env, segment, start, length)
    }

    pub(super) fn extension_verdict(&mut self, env: &mut Env<'_>, segment: &Segment, start: u64, length: u32) -> Verdict {
        // RFC 7323 §2.2: "The Window field in a segment where the SYN bit is set … MUST NOT be scaled."
        let scale = if segment.flags.contains(Flags::SYN) { 0 } else { self.send.scale };
        let window_bytes = u32::from(segment.window) << scale;
        let early_bytes = match segment.flags.contains(Flags::SYN) {
            true => self.send.space.position(self.send.una, segment.ack).saturating_sub(START + 1) as u32,
            false => 0,
        };
        let offset = start.saturating_sub(START + 1);
        let option_bytes = self.extension.option_bytes();
        let verdict = self.extension.on_segment(&Incoming { segment, offset, bytes: length, window_bytes, early_bytes });
        if self.extension.option_bytes() != option_bytes && self.state.is_synchronised() {
            self.update_mss(env);
        }
        // What it has read goes up before the data that it is about.
        self.pass_words_up(env);
        match verdict {
            Verdict::Reset => self.reset(env, StreamError::Reset),
            Verdict::FallBack => {
                self.fall_back(env);
                return Verdict::Continue;
            }
            Verdict::Continue | Verdict::Discard => {}
        }
        verdict
    }

    /// PAWS, sequence number, RST and SYN. False: the segment has been dealt with.
    fn validate(&mut self, env: &mut Env<'_>, segment: &Segment, start: u64, frame: &Frame) -> bool {
        let length = segment.sequence_len(frame.len() as u32);
        let end = start + u64::from(length);
        let is_reset = segment.flags.contains(Flags::RST);
        // RFC 7323 §5.3 R1: "If … SEG.TSval < TS.Recent … and if the RST bit is not set, then treat the arriving segment as not acceptable:
        // Send an acknowledgment in reply".
        if self.receive.is_old_by_timestamp(self.opening.agreed.timestamps, env.now, segment) && !is_reset {
            env.count(Counter::PAWSEstab);
            env.refuse(Reason::TcpPaws);
            self.answer_unacceptable(env, start, end, frame.is_empty(), Counter::TCPACKSkippedPAWS);
            return false;
        }
        let place = self.receive.place(start, end, segment.flags.contains(Flags::FIN), self.unread());
        if place != Place::Within {
            env.refuse(Reason::TcpUnacceptable);
            // RFC 9293 §3.10.7.4: "If an incoming segment is not acceptable, an acknowledgment should be sent in reply (unless the RST bit is
            // set …)". RFC 5961 §4.2: a SYN gets a challenge ACK wherever it lies.
            if is_reset {
            } else if segment.flags.contains(Flags::SYN) && !self.is_simultaneous_answer(segment, start) {
                env.count(Counter::TCPSYNChallenge);
                self.challenge(env);
            } else {
                if place == Place::Beyond {
                    env.count(Counter::BeyondWindow);
                }
                self.answer_unacceptable(
                    env,
                    start,
                    end,
                    frame.is_empty() && !segment.flags.contains(Flags::FIN),
                    Counter::TCPACKSkippedSeq,
                );
            }
            return false;
        }
        if is_reset {
            self.on_reset(env, segment, start);
            return false;
        }
        if segment.flags.contains(Flags::SYN) && !self.is_simultaneous_answer(segment, start) {
            // RFC 5961 §4.2: "If the SYN bit is set, irrespective of the sequence number, TCP MUST send an ACK (also referred to as challenge
            // ACK) to the remote peer".
            env.count(Counter::TCPSYNChallenge);
            env.refuse(Reason::TcpInvalidState);
            self.challenge(env);
            return false;
        }
        match self.extension_verdict(env, segment, start, frame.len() as u32) {
            Verdict::Continue => {}
            _ => return false,
        }
        self.receive.note_timestamp(self.opening.agreed.timestamps, env.now, segment, start);
        true
    }

    /// The SYN|ACK of the other side of a simultaneous open.
    fn is_simultaneous_answer(&self, segment: &Segment, start: u64) -> bool {
        self.state == State::SynReceived && segment.flags.contains(Flags::ACK) && start + 1 == self.receive.next
    }

    /// RFC 5961 §3.2.
    fn on_reset(&mut self, env: &mut Env<'_>, segment: &Segment, start: u64) {
        // "If the RST bit is set and the sequence number exactly matches the next expected sequence number (RCV.NXT), then TCP MUST reset the
        // connection." Linux also takes one at the right edge of what was sacked: the peer's idea of RCV.NXT.
        let beyond_sack = self.receive.highest_out_of_order().is_some_and(|end| end == start);
        if start == self.receive.next || beyond_sack {
            return self.peer_reset(env, segment);
        }
        // "If the RST bit is set and the sequence number does not exactly match the next expected sequence value, yet is within the current
        // receive window, TCP MUST send an acknowledgment (challenge ACK)."
        env.refuse(Reason::TcpUnacceptable);
        self.challenge(env);
    }

    fn peer_reset(&mut self, env: &mut Env<'_>, segment: &Segment) {
        self.extension.on_reset(Some(segment));
        if self.state != State::SynReceived {
            // Why it fails is known before it has failed.
            self.pass_words_up(env);
        }
        self.opening.fast_open.reset = self.is_early();
        let error = match self.state {
            State::SynReceived if !self.opening.fast_open.early => StreamError::Refused,
            State::CloseWait => StreamError::BrokenPipe,
            _ => StreamError::Reset,
        };
        if self.state == State::SynReceived {
            env.count(Counter::AttemptFails);
        }
        self.fail(env, error);
    }

    /// RFC 9293 §3.10.7.4, fifth: the ACK field. False: the segment has been dealt with.
    fn take_ack(&mut self, env: &mut Env<'_>, segment: &Segment, start: u64, frame: &Frame) -> bool {
        if !segment.flags.contains(Flags::ACK) {
            env.refuse(Reason::TcpInvalidState);
            return false;
        }
        if self.state == State::SynReceived && !self.complete_handshake(env, segment) {
            return false;
        }
        if !self.acknowledge(env, segment, start, frame.len() as u32) {
            return false;
        }
        if self.send.fin_sent && self.send.una == self.send.next && matches!(self.state, State::FinWait1 | State::Closing | State::LastAck)
        {
            self.fin_acknowledged(env, segment.ack);
        }
        self.finished == Finished::No
    }

    /// SYN-RECEIVED: is it the ACK of our SYN?
    fn complete_handshake(&mut self, env: &mut Env<'_>, segment: &Segment) -> bool {
        if self.opening.fast_open.early {
            return self.end_early(env, segment);
        }
        let ack = self.send.space.position(self.send.una, segment.ack);
        // "If SND.UNA < SEG.ACK =< SND.NXT, then enter ESTABLISHED state"; else "form a reset segment <SEQ=SEG.ACK><CTL=RST>".
        if ack <= self.send.una || ack > self.send.next {
            env.refuse(Reason::TcpOldAck);
            self.send_reset_for(env, segment.ack);
            return false;
        }
        let active = self.flow.0 & weft_core::FlowId::ACCEPTED == 0;
        let scale = if segment.flags.contains(Flags::SYN) { 0 } else { self.send.scale };
        self.send.window = u32::from(segment.window) << scale;
        self.send.window_max = self.send.window_max.max(self.send.window);
        self.open(env, segment, active);
        if self.send.fin_wanted {
            self.change_state(env, State::FinWait1);
        }
        true
    }

    /// Text, URG, FIN, and then what the segment allows to be sent.
    fn finish_segment(&mut self, env: &mut Env<'_>, frame: Frame, start: u64, segment: &Segment) {
        if segment.flags.contains(Flags::SYN) && start < self.receive.next {
            // The SYN|ACK of a simultaneous open: its number is known already (tcp_data_queue).
            self.receive.note_duplicate(env, self.opening.agreed.sack, start, start + 1, Counter::TCPDSACKOldSent);
        }
        self.take_urgent(env, segment, start);
        if !frame.is_empty() || segment.flags.contains(Flags::FIN) {
            let start = if segment.flags.contains(Flags::SYN) { start + 1 } else { start };
            self.take_text(env, segment, start, frame);
        }
        if self.finished != Finished::No {
            return;
        }
        self.transmit(env);
        if self.low_water(env.config) != u32::MAX {
            // tcp_data_snd_check: tcp_check_space comes after what could be sent was.
            self.return_credit(env);
        }
        self.acknowledge_if_due(env);
    }

    /// RFC 9293 §3.10.7.4, seventh and eighth: the segment text and FIN.
    pub(super) fn take_text(&mut self, env: &mut Env<'_>, segment: &Segment, start: u64, frame: Frame) {
        let length = frame.len() as u64;
        if self.state.peer_closed() {
            // "This should not occur since a FIN has been received from the remote side. Ignore the segment text." Linux acknowledges.
            let end = start + u64::from(segment.sequence_len(length as u32));
            if start < self.receive.next {
                self.receive.note_duplicate(env, self.opening.agreed.sack, start, end.min(self.receive.next), Counter::TCPDSACKOldSent);
            } else if end > self.receive.next {
                self.receive.ack.now = true;
            }
            return;
        }
        if length > 0 {
            self.totals.data_segments_in = self.totals.data_segments_in.wrapping_add(segments_in(&frame));
            if self.orphan && start + length > self.receive.next {
                // RFC 9293 §3.6.1: "if … data is received … after CLOSE is called, its TCP … SHOULD send a RST to show that data was lost."
                // tcp_rcv_state_process: "return SKB_DROP_REASON_TCP_ABORT_ON_DATA", whose answer is that to a segment of no connection.
                return self.abort_on_data(env, segment.ack);
            }
        }
        self.receive_text(env, start, frame, segment.flags);
        if self.receive.fin_taken {
            self.on_fin(env);
        }
    }

    /// The peer's FIN is next in order and was taken.
    fn on_fin(&mut self, env: &mut Env<'_>) {
        match self.state {
            State::SynReceived | State::Established => {
                // tcp_fin: "inet_csk_schedule_ack(sk); … inet_csk_enter_pingpong_mode(sk);": the program is likely to answer by its own FIN. Where no
                // data has come the delay is nothing, yet.
                self.receive.ack.wanted = true;
                self.receive.ack.interactive = true;
                self.receive.ack.now |= self.receive.ack.last_data.is_none();
                self.change_state(env, State::CloseWait);
                self.event(env, StreamEvent::HalfClosed);
            }
            // Simultaneous close: our FIN is not acknowledged yet.
            State::FinWait1 => {
                self.receive.ack.now = true;
                self.change_state(env, State::Closing);
                self.event(env, StreamEvent::HalfClosed);
            }
            State::FinWait2 => {
                self.event(env, StreamEvent::HalfClosed);
                self.send_ack(env);
                self.enter_time_wait(env);
            }
            _ => {}
        }
    }

    /// An acknowledgment in answer to an unacceptable segment, with DSACK where it repeats data, within the rate limit.
    fn answer_unacceptable(&mut self, env: &mut Env<'_>, start: u64, end: u64, pure: bool, skipped: Counter) {
        if start < self.receive.next && end <= self.receive.next && !pure {
            self.receive.note_duplicate(env, self.opening.agreed.sack, start, end, Counter::TCPDSACKOldSent);
        }
        // tcp_oow_rate_limited: only segments without data are limited.
        let limited = pure && self.last_unacceptable.is_some_and(|at| env.now - at < env.config.invalid_ratelimit);
        if limited {
            return env.count(skipped);
        }
        if pure {
            self.last_unacceptable = Some(env.now);
        }
        self.send_ack(env);
    }

    /// RFC 5961 §7: challenge ACKs are limited, per connection and for the node.
    pub(super) fn challenge(&mut self, env: &mut Env<'_>) {
        let soon = self.last_unacceptable.is_some_and(|at| env.now - at < env.config.invalid_ratelimit);
        if soon || !env.out.challenge.take(env.now, env.config.challenge_ack_limit) {
            return env.count(Counter::TCPACKSkippedChallenge);
        }
        self.last_unacceptable = Some(env.now);
        env.count(Counter::TCPChallengeACK);
        self.send_ack(env);
    }

    /// What came finds no program any more.
    fn abort_on_data(&mut self, env: &mut Env<'_>, ack: Seq) {
        env.count(Counter::TCPAbortOnData);
        self.send_reset_for(env, ack);
        self.extension.on_reset(None);
        self.fail(env, StreamError::Reset);
    }

    /// `<SEQ=SEG.ACK><CTL=RST>`, without a change of this connection.
    pub(super) fn send_reset_for(&mut self, env: &mut Env<'_>, seq: Seq) {
        env.count(Counter::OutRsts);
        let segment = Segment { seq, flags: Flags::RST, ..self.header() };
        self.emit(env, &segment, Frame::egress(), 0);
    }

    /// Everything we sent is acknowledged, the FIN too.
    fn fin_acknowledged(&mut self, env: &mut Env<'_>, ack: Seq) {
        self.event(env, StreamEvent::SendQueueEmpty);
        match self.state {
            State::FinWait1 => {
                self.change_state(env, State::FinWait2);
                if self.orphan {
                    if self.options.fin_wait_2 == Some(Duration::ZERO) {
                        // tcp_rcv_state_process: "if (READ_ONCE(tp->linger2) < 0) { tcp_done(sk); … TCPABORTONDATA); return
                        // SKB_DROP_REASON_TCP_ABORT_ON_DATA; }", whose answer is that to a segment of no connection.
                        return self.abort_on_data(env, ack);
                    }
                    let timeout = self.options.fin_wait_2.unwrap_or(env.config.fin_timeout);
                    self.timers.set(Timer::FinWait2, env.now + timeout);
                }
            }
            State::Closing => self.enter_time_wait(env),
            State::LastAck => self.finish(env, Finished::Closed),
            _ => {}
        }
    }
}

/// How many segments came as this frame (tcp_segs_in: gso_segs).
fn segments_in(frame: &Frame) -> u32 {
    frame.meta().gso.map_or(1, |gso| (frame.len() as u32).div_ceil(u32::from(gso.segment_bytes).max(1)).max(1))
}
