//! Fast Open (RFC 7413): data on the SYN, and a connection that works before the handshake has ended.
//!
//! The block keeps the cookies of both sides ([`crate::block`]); a connection is told what to send, and tells what it learned.

use super::deadlines::Timer;
use super::fast_open::{FastOpen, Learned, Start};
use super::{Connection, Handshake, Setup, State};
use crate::counters::Counter;
use crate::outbox::Env;
use crate::position::START;
use weft_core::Frame;
use weft_wire::tcp::{self, Flags, Segment};

impl Connection {
    /// Opens actively with data (RFC 7413 §4.2.1). `start.data` is queued whole, what does not go with the SYN follows it.
    pub fn connect_with(env: &mut Env<'_>, setup: Setup, start: Start) -> Connection {
        let mut connection = Connection::new(env, setup, State::SynSent);
        let held = start.data.len() as u64;
        connection.send.queue.push(start.data, 0, false);
        connection.send.note_written(held, connection.leaves_at_once());
        connection.send.pushed = connection.send.queue.end();
        connection.opening.fast_open = FastOpen::opens(start.option, start.in_syn, held);
        connection.begin_connecting(env);
        connection
    }

    /// The payload of the first SYN.
    pub(super) fn syn_frame(&mut self) -> Frame {
        let mut frame = Frame::egress();
        if self.state == State::SynSent
            && self.opening.retransmitted == 0
            && self.opening.fast_open.has_syn_data()
            && !self.opening.fast_open.bare
        {
            self.send.queue.append_to(&mut frame, START + 1, self.opening.fast_open.in_syn);
            self.send.next = START + 1 + u64::from(self.opening.fast_open.in_syn);
            self.totals.bytes_sent += u64::from(self.opening.fast_open.in_syn);
            self.totals.data_segments_out = self.totals.data_segments_out.wrapping_add(1);
        }
        frame
    }

    /// A router says that the SYN was too long (tcp_simple_retransmit, "if (tp->syn_data && sk->sk_state == TCP_SYN_SENT)").
    pub(super) fn resend_bare_syn(&mut self, env: &mut Env<'_>) {
        self.opening.fast_open.bare = true;
        // RFC 6298 §3: which of them is answered nobody knows.
        self.opening.measured = false;
        env.count(Counter::TCPSynRetrans);
        env.count(Counter::RetransSegs);
        self.totals.retransmitted = self.totals.retransmitted.wrapping_add(1);
        self.send_syn(env);
    }

    /// The SYN|ACK acknowledges up to `ack`: the SYN, and of its data all, some or nothing. What is left is sent again, as new.
    /// RFC 7413 §4.2.2 leaves it to the client how: with the acknowledgment that ends the handshake.
    pub(super) fn take_syn_ack(&mut self, env: &mut Env<'_>, segment: &Segment, ack: u64) {
        let accepted = ack.saturating_sub(START + 1);
        self.send.una = ack;
        self.send.next = ack;
        self.totals.bytes_acked += u64::from(self.send.queue.release(ack));
        let again = self.opening.retransmitted > 0;
        if let Some(taken) = self.opening.fast_open.learn(segment, accepted, again) {
            env.count(if taken { Counter::TCPFastOpenActive } else { Counter::TCPFastOpenActiveFail });
        }
    }

    /// What the answer to the SYN has taught, once.
    pub fn take_learned(&mut self) -> Option<Learned> {
        self.opening.fast_open.take_learned()
    }

    /// Data flows although the handshake has not ended.
    pub fn is_early(&self) -> bool {
        self.opening.fast_open.early && self.state == State::SynReceived
    }

    /// It was reset before the handshake ended.
    pub fn was_reset_early(&self) -> bool {
        self.opening.fast_open.reset
    }

    /// A passive connection whose SYN brought a valid cookie (tcp_fastopen_create_child): it takes the SYN's data and may answer at once.
    pub fn begin_early(&mut self, env: &mut Env<'_>, syn: &Segment, frame: Frame, option: Option<tcp::FastOpen>) {
        // tcp_fastopen_add_skb: "tp->syn_data_acked = 1;"
        self.opening.fast_open = FastOpen::accepts(option, !frame.is_empty());
        self.send.una = START + 1;
        self.send.window = u32::from(syn.window);
        self.send.window_max = self.send.window;
        self.begin_transfer(env);
        self.grant_credit(env);
        if !frame.is_empty() {
            let start = self.receive.next;
            self.take_text(env, syn, start, frame);
        }
        self.send_syn(env);
        self.receive.last_ack_sent = self.receive.next;
        self.receive.ack.wanted = false;
        self.receive.ack.now = false;
        let rto = self.recovery.rtt.rto();
        self.timers.set(Timer::Retransmit, env.now + rto);
    }

    /// A SYN that is repeated while the connection is early gets its SYN|ACK again (tcp_check_req). True: it was one.
    pub(super) fn repeats_syn(&mut self, env: &mut Env<'_>, segment: &Segment) -> bool {
        let plain = segment.flags & (Flags::SYN | Flags::ACK | Flags::RST) == Flags::SYN;
        if !self.is_early() || !plain || segment.seq != self.receive.space.initial {
            return false;
        }
        if self.last_unacceptable.is_none_or(|at| env.now - at >= env.config.invalid_ratelimit) {
            self.last_unacceptable = Some(env.now);
            self.opening.retransmitted += 1;
            self.send_syn(env);
        }
        true
    }

    /// The acknowledgment that ends the handshake of an early connection. False: it is none.
    pub(super) fn end_early(&mut self, env: &mut Env<'_>, segment: &Segment) -> bool {
        let ack = self.send.space.position(self.send.una, segment.ack);
        if ack < self.send.una || ack > self.send.next {
            env.refuse(weft_core::Reason::TcpOldAck);
            self.send_reset_for(env, segment.ack);
            return false;
        }
        self.opening.fast_open.early = false;
        self.timers.cancel(Timer::Retransmit);
        self.recovery.rtt.reset_backoff();
        self.send.window = u32::from(segment.window) << self.send.scale;
        self.send.window_max = self.send.window_max.max(self.send.window);
        self.change_state(env, State::Established);
        self.update_mss(env);
        self.first_sample(env, segment);
        if self.send.fin_wanted {
            self.change_state(env, State::FinWait1);
        }
        self.arm_retransmission(env, true);
        self.arm_keepalive(env);
        true
    }
}

/// A passive connection, before it is told of its SYN: see [`Connection::begin_early`].
pub(crate) fn accept_early(env: &mut Env<'_>, setup: Setup, handshake: Handshake) -> Connection {
    let mut connection = Connection::accept(env, setup, handshake);
    connection.opening.fast_open.early = true;
    connection
}
