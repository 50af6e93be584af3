//! Ending: FIN, reset, linger, TIME-WAIT, ICMP errors.

use super::deadlines::Timer;
use super::finished::{Finished, TimeWait};
use super::{Connection, State};
use crate::counters::Counter;
use crate::extension::Outgoing;
use crate::outbox::Env;
use weft_core::stream::SHORT_QUEUE_BYTES_MAX;
use weft_core::{Duration, Frame, IcmpErrorKind, StreamError, StreamEvent};
use weft_wire::tcp::{Flags, Segment, Seq, Timestamps};

impl Connection {
    /// shutdown(SHUT_WR): FIN follows what is queued.
    pub fn shutdown_write(&mut self, env: &mut Env<'_>) {
        if self.send.fin_wanted {
            return;
        }
        match self.state {
            State::Established => self.change_state(env, State::FinWait1),
            State::CloseWait => self.change_state(env, State::LastAck),
            // FIN goes out when the handshake is done.
            State::SynReceived => {}
            _ => return,
        }
        self.send.fin_wanted = true;
        self.transmit(env);
    }

    /// shutdown(SHUT_RD): what comes is acknowledged and thrown away.
    pub fn shutdown_read(&mut self) {
        self.read_closed = true;
        self.receive.taken = self.receive.delivered;
    }

    /// The program has let go of the socket.
    pub fn close(&mut self, env: &mut Env<'_>, unread: bool, linger: Option<Duration>) {
        self.orphan = true;
        match self.state {
            State::SynSent => return self.finish(env, Finished::Closed),
            State::Closed | State::TimeWait => return,
            _ => {}
        }
        let unread = unread || self.receive.taken < self.receive.delivered && !self.read_closed;
        if unread {
            // RFC 2525 §2.17: "TCP should send a RST … to indicate that data was lost".
            env.count(Counter::TCPAbortOnClose);
            return self.reset(env, StreamError::Reset);
        }
        if self.is_too_costly(env) {
            return self.reset_for_memory(env);
        }
        // __tcp_close: "else if (sock_flag(sk, SOCK_LINGER) && !sk->sk_lingertime) { /* Check zero linger _after_ checking for unread data. */
        // sk->sk_prot->disconnect(sk, 0);". With another time the caller waits, and the connection is that of any other close.
        if linger.is_some_and(|time| time.is_zero()) {
            return self.reset(env, StreamError::Reset);
        }
        if self.state == State::FinWait2 {
            if self.options.fin_wait_2 == Some(Duration::ZERO) {
                // "if (READ_ONCE(tp->linger2) < 0) { … tcp_send_active_reset(sk, …); __NET_INC_STATS(…, LINUX_MIB_TCPABORTONLINGER);"
                env.count(Counter::TCPAbortOnLinger);
                return self.reset(env, StreamError::Reset);
            }
            let timeout = self.options.fin_wait_2.unwrap_or(env.config.fin_timeout);
            self.timers.set(Timer::FinWait2, env.now + timeout);
        }
        self.shutdown_write(env);
    }

    /// tcp_out_of_memory: "if (sk->sk_wmem_queued > SOCK_MIN_SNDBUF && sk_memory_allocated(sk) > sk_prot_mem_limits(sk, 2)) return true;", of
    /// connections without a program (tcp_close, tcp_out_of_resources).
    pub(super) fn is_too_costly(&self, env: &Env<'_>) -> bool {
        self.orphan && self.send.queue.len() > u64::from(SHORT_QUEUE_BYTES_MAX) && env.out.memory.used() > env.config.memory[2]
    }

    /// "tcp_send_active_reset(sk, …); … __NET_INC_STATS(sock_net(sk), LINUX_MIB_TCPABORTONMEMORY);"
    pub(super) fn reset_for_memory(&mut self, env: &mut Env<'_>) {
        env.count(Counter::TCPAbortOnMemory);
        self.reset(env, StreamError::Reset);
    }

    /// Resets now.
    pub fn abort(&mut self, env: &mut Env<'_>) {
        self.orphan = true;
        if matches!(self.state, State::SynSent | State::Closed | State::TimeWait) {
            return self.finish(env, Finished::Closed);
        }
        self.reset(env, StreamError::Reset);
    }

    /// Sends RST and ends; the sockets hear of `error`, if they still listen.
    pub(super) fn reset(&mut self, env: &mut Env<'_>, error: StreamError) {
        if self.finished != Finished::No {
            return;
        }
        env.count(Counter::OutRsts);
        // RFC 9293 §3.10.5: "<SEQ=SND.NXT><CTL=RST>"; Linux adds ACK.
        let mut segment = Segment { flags: Flags::RST | Flags::ACK, ..self.header() };
        segment.seq = self.send.next_seq();
        segment.ack = self.receive.space.seq(self.receive.next);
        if self.opening.agreed.timestamps && self.state.is_synchronised() {
            // RFC 7323 §3.2: "TSopt MUST be sent in every non-<RST> segment", and "SHOULD be sent in a <RST> segment".
            segment.options.timestamps = Some(Timestamps { value: self.opening.timestamp(env.now), echo: self.receive.timestamp });
        }
        self.extension.write_options(Outgoing::Reset, &mut segment.options);
        self.emit(env, &segment, Frame::egress(), 0);
        self.extension.on_reset(None);
        self.fail(env, error);
    }

    /// It is over, without a word to the peer.
    pub(super) fn fail(&mut self, env: &mut Env<'_>, error: StreamError) {
        if self.finished != Finished::No {
            return;
        }
        if matches!(self.state, State::Established | State::CloseWait) {
            env.count(Counter::EstabResets);
        }
        if !self.orphan && !self.failed {
            self.failed = true;
            self.event(env, StreamEvent::Failed(error));
        }
        self.finish(env, Finished::Closed);
    }

    /// Every change of state goes through here: CurrEstab counts ESTABLISHED and CLOSE-WAIT (RFC 4022 tcpCurrEstab).
    pub(super) fn change_state(&mut self, env: &mut Env<'_>, state: State) {
        match (self.state.can_send(), state.can_send()) {
            (false, true) => env.out.counters.add(Counter::CurrEstab, 1),
            (true, false) => env.out.counters.subtract(Counter::CurrEstab, 1),
            _ => {}
        }
        self.state = state;
    }

    pub(super) fn finish(&mut self, env: &mut Env<'_>, how: Finished) {
        if self.finished == Finished::No {
            self.finished = how;
            self.change_state(env, if how == Finished::Closed { State::Closed } else { State::TimeWait });
            self.send.queue.clear();
            self.timers.cancel_all();
        }
    }

    /// RFC 9293 §3.6.1: both FINs are acknowledged.
    pub(super) fn enter_time_wait(&mut self, env: &mut Env<'_>) {
        let record = TimeWait {
            send_next: self.send.next_seq(),
            receive_next: self.receive.space.seq(self.receive.next),
            window: (self.receive.window >> self.receive.scale).min(u32::from(u16::MAX)) as u16,
            window_bytes: self.receive.window,
            timestamp: self.opening.agreed.timestamps.then_some(self.receive.timestamp),
            timestamp_at: self.receive.timestamp_at,
            timestamp_offset: self.opening.timestamp_offset,
            tos: self.options.tos & !3,
            ttl: self.options.ttl,
            mark: self.options.mark,
        };
        self.finish(env, Finished::TimeWait(record));
    }

    /// tcp_fin_timeout: the peer never closed its side.
    pub(super) fn on_fin_wait_2_timer(&mut self, env: &mut Env<'_>) {
        if self.state == State::FinWait2 && self.orphan {
            self.finish(env, Finished::Closed);
        }
    }

    /// An ICMP error about a segment of this connection whose sequence number was `seq` (RFC 5927 §4: it must be of data in flight). `routeless`: the node
    /// itself says so, as it has no route for the segment. Then it tries again, even while it connects (__tcp_retransmit_skb: "return -EHOSTUNREACH; /*
    /// Routing failure or similar. */", after inet_sk_rebuild_header has set sk_err_soft).
    pub fn on_icmp(&mut self, env: &mut Env<'_>, kind: IcmpErrorKind, seq: Seq, routeless: bool) {
        let at = self.send.space.position(self.send.una, seq);
        if at < self.send.una || at >= self.send.next.max(self.send.una + 1) {
            return env.count(Counter::OutOfWindowIcmps);
        }
        if let IcmpErrorKind::TooBig { mtu } = kind {
            return self.on_too_big(env, mtu);
        }
        let Some(error) = stream_error(kind) else { return };
        // RFC 9293 §3.9.2.2: "Destination Unreachable -- codes 0, 1, 5 … MUST NOT abort the connection"; codes 2 to 4 "SHOULD abort". Linux
        // aborts only before the connection is established, as RFC 5461 §4.1 reports of most stacks.
        if !routeless && matches!(self.state, State::SynSent | State::SynReceived) && is_hard(kind, self.state) {
            env.count(Counter::AttemptFails);
            return self.fail(env, error);
        }
        self.soft_error = Some(error);
        self.event(env, StreamEvent::Soft(error));
    }
}

/// Linux's icmp_err_convert: which errors end a connection that is being opened.
fn is_hard(kind: IcmpErrorKind, _state: State) -> bool {
    !matches!(
        kind,
        IcmpErrorKind::TtlExceeded | IcmpErrorKind::ReassemblyTimeout | IcmpErrorKind::TooBig { .. } | IcmpErrorKind::Redirect { .. }
    )
}

fn stream_error(kind: IcmpErrorKind) -> Option<StreamError> {
    Some(match kind {
        IcmpErrorKind::NetUnreachable => StreamError::NetUnreachable,
        IcmpErrorKind::HostUnreachable | IcmpErrorKind::TtlExceeded => StreamError::HostUnreachable,
        IcmpErrorKind::ProtocolUnreachable => StreamError::ProtocolUnreachable,
        IcmpErrorKind::PortUnreachable => StreamError::Refused,
        IcmpErrorKind::SourceRouteFailed | IcmpErrorKind::Prohibited => StreamError::HostUnreachable,
        IcmpErrorKind::ParameterProblem { .. } => StreamError::Invalid,
        IcmpErrorKind::TooBig { .. } | IcmpErrorKind::ReassemblyTimeout | IcmpErrorKind::Redirect { .. } => return None,
    })
}
