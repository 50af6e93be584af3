//! Listeners, half-open connections, and the step from one to a connection (RFC 9293 §3.10.7.2 and .4; bounds as in Linux).
//!
//! A half-open connection is a small record, not a connection. The accept queue takes `backlog + 1` connections (Linux's
//! sk_acceptq_is_full): when it is full, SYNs and final ACKs are dropped, and the SYN|ACK goes out again later.

use super::tables::{Kind, Tuple, token};
use super::{FlowOwner, Owner, Slot, TcpBlock, UPPER, ask_path};
use crate::connection::{Connection, Handshake, Offer, Path, Setup, syn_options};
use crate::counters::Counter;
use crate::extension::{Extension, Outgoing, Plain};
use crate::outbox::Env;
use std::net::{IpAddr, SocketAddr};
use weft_core::table::{AddressKind, Family};
use weft_core::{
    Answer, Context, Duration, FlowId, Frame, Instant, InterfaceIndex, Query, Reason, StreamEvent, StreamInfo, StreamMessage,
    StreamOptions, Table, Value,
};
use weft_wire::tcp::{Flags, Segment, Seq, Timestamps};

/// A listening flow.
#[derive(Debug)]
pub(super) struct Listener {
    pub flow: FlowId,
    pub local: SocketAddr,
    pub dual_stack: bool,
    pub backlog: u32,
    pub options: StreamOptions,
    /// Connections that wait to be taken.
    pub waiting: u32,
    /// Half-open ones.
    pub half_open: u32,
    pub extension: Box<dyn Extension>,
}

impl Listener {
    fn is_full(&self) -> bool {
        self.waiting > self.backlog
    }
    /// How well it fits an address; `None`: not at all. The most specific wins (tcp_v4_lookup_listener's score).
    fn score(&self, local: IpAddr, interface: InterfaceIndex) -> Option<u32> {
        let bound = self.options.interface;
        if bound != 0 && bound != interface.0 {
            return None;
        }
        let by_address = match self.local.ip() {
            ip if ip == local => 8,
            ip if !ip.is_unspecified() => return None,
            IpAddr::V4(_) if local.is_ipv4() => 4,
            IpAddr::V6(_) if local.is_ipv6() => 4,
            IpAddr::V6(_) if self.dual_stack => 2,
            _ => return None,
        };
        Some(by_address + u32::from(bound != 0))
    }
    pub(super) fn row(&self) -> Value {
        serde_json::json!({
            "flow": self.flow.0, "local": self.local.to_string(), "state": "LISTEN",
            "waiting": self.waiting, "backlog": self.backlog, "half_open": self.half_open,
        })
    }
}

/// A half-open connection.
#[derive(Debug)]
pub(super) struct Request {
    tuple: Tuple,
    listener: u64,
    handshake: Handshake,
    initial: Seq,
    timestamp_offset: u32,
    path: Path,
    deadline: Instant,
    timer: Instant,
    /// The final ACK has come, but the queue was full, or the program waits for data.
    acknowledged: bool,
    answered: Option<Instant>,
    /// Only where a listener accepts one.
    extension: Option<Box<dyn Extension>>,
}

impl Request {
    pub(super) fn row(&self) -> Value {
        serde_json::json!({
            "local": self.tuple.local.to_string(), "remote": self.tuple.remote.to_string(),
            "state": "SYN-RECV", "retransmits": self.handshake.retransmits,
        })
    }
    fn timestamp(&self, now: Instant) -> u32 {
        (now.as_millis() as u32).wrapping_add(self.timestamp_offset)
    }
}

/// How a wait grows with the repetitions of a SYN|ACK.
fn request_timeout(first: Duration, most: Duration, retransmits: u32) -> Duration {
    first.saturating_mul(1u32.checked_shl(retransmits).unwrap_or(u32::MAX)).min(most)
}

impl TcpBlock {
    pub(super) fn find_listener(&self, tuple: &Tuple, interface: InterfaceIndex) -> Option<u64> {
        let on_port = self.listening.get(&tuple.local.port())?;
        let scored = |key: &u64| Some((self.listeners.get(*key)?.score(tuple.local.ip(), interface)?, *key));
        let best = on_port.iter().filter_map(scored).map(|(score, _)| score).max()?;
        let equal = on_port.iter().filter_map(scored).filter(|(score, _)| *score == best);
        let count = equal.clone().count();
        let mut equal = equal;
        equal.nth(self.secrets.choose(tuple, count)).map(|(_, key)| key)
    }

    /// RFC 9293 §3.10.7.2: LISTEN.
    pub(super) fn on_listener_segment(
        &mut self,
        listener: u64,
        tuple: &Tuple,
        segment: &Segment,
        frame: Frame,
        initial: Option<Seq>,
        cx: &mut Context<'_>,
    ) {
        // "An incoming RST segment should be ignored"; "Any acknowledgment is bad if it arrives on a connection still in the LISTEN state."
        if segment.flags.contains(Flags::RST) {
            return cx.drop(frame, Reason::TcpInvalidState);
        }
        if segment.flags.contains(Flags::ACK) {
            self.reset_in_answer(tuple, segment, frame.len() as u32, cx);
            return cx.drop(frame, Reason::NoConnection);
        }
        if !segment.flags.contains(Flags::SYN) || segment.flags.contains(Flags::FIN) {
            return cx.drop(frame, Reason::TcpInvalidState);
        }
        // RFC 9293 §3.9.2.3: SYNs to broadcast addresses are silently discarded.
        let kind = cx.ask(Table::Addresses(Family::of(tuple.local.ip())), &Query::AddressKind(tuple.local.ip()));
        if matches!(kind, Answer::AddressKind(AddressKind::Broadcast | AddressKind::Multicast)) {
            return cx.drop(frame, Reason::MartianSource);
        }
        let Some(found) = self.listeners.get(listener) else { return cx.drop(frame, Reason::NoPort) };
        if found.is_full() {
            self.out.counters.add(Counter::ListenOverflows, 1);
            self.out.counters.add(Counter::ListenDrops, 1);
            return cx.drop(frame, Reason::ListenOverflow);
        }
        if found.half_open >= self.settings.syn_backlog {
            self.out.counters.add(Counter::TCPReqQFullDrop, 1);
            self.out.counters.add(Counter::ListenDrops, 1);
            return cx.drop(frame, Reason::SynQueueFull);
        }
        let bound = InterfaceIndex(found.options.interface);
        let Ok(path) = ask_path(tuple, bound, self.epoch, cx) else {
            self.out.counters.add(Counter::ListenDrops, 1);
            return cx.drop(frame, Reason::NoRoute);
        };
        self.add_request(listener, tuple, segment, path, initial, cx);
    }

    fn add_request(&mut self, listener: u64, tuple: &Tuple, segment: &Segment, path: Path, initial: Option<Seq>, cx: &mut Context<'_>) {
        let settings = &self.settings;
        let Some(found) = self.listeners.get_mut(listener) else { return };
        let options = &segment.options;
        let scaling = settings.window_scaling && options.window_scale.is_some();
        let announced_mss = crate::connection::announced(settings, &found.options, &path, tuple.remote);
        let timestamp = options.timestamps.filter(|_| settings.timestamps).map(|stamp| stamp.value);
        // Whole segments as they will come: with timestamps (tcp_openreq_init_rwin).
        let each = announced_mss.saturating_sub(if timestamp.is_some() { 12 } else { 0 });
        // RFC 3168 §6.1.1: an ECN-setup SYN has both flags; it must not be marked itself.
        let asks_ecn = segment.flags.contains(Flags::ECE | Flags::CWR);
        let handshake = Handshake {
            peer_initial: segment.seq,
            peer_mss: options.mss.unwrap_or(0),
            peer_scale: options.window_scale.filter(|_| scaling).map(|shift| shift.min(14)),
            scale: if scaling { crate::connection::shift(settings, &found.options) } else { 0 },
            window: crate::connection::first_window(settings, &found.options, each),
            sack: settings.sack && options.sack_permitted,
            timestamp,
            ecn: settings.ecn > 0 && asks_ecn,
            announced_mss,
            sent_at: cx.now,
            retransmits: 0,
        };
        found.half_open += 1;
        let extension = if options.has_others() { found.extension.accept(segment) } else { None };
        let timeout = request_timeout(settings.rto_initial, settings.rto_max, 0);
        let request = Request {
            tuple: *tuple,
            listener,
            handshake,
            initial: initial.unwrap_or_else(|| self.secrets.sequence(tuple, cx.now)),
            timestamp_offset: self.secrets.timestamp_offset(tuple),
            path,
            deadline: cx.now + timeout,
            timer: cx.now + timeout,
            acknowledged: false,
            answered: None,
            extension,
        };
        let key = self.requests.insert(request);
        self.tuples.insert(*tuple, Owner::Request(key));
        cx.set_timer(token(Kind::Request, key), cx.now + timeout);
        self.send_syn_ack(key, cx);
    }

    fn send_syn_ack(&mut self, key: u64, cx: &mut Context<'_>) {
        let Some(request) = self.requests.get_mut(key) else { return };
        let Some(listener) = self.listeners.get(request.listener) else { return };
        let handshake = &request.handshake;
        let value = (cx.now.as_millis() as u32).wrapping_add(request.timestamp_offset);
        let offer = Offer {
            mss: handshake.announced_mss,
            sack: handshake.sack,
            timestamps: handshake.timestamp.map(|echo| Timestamps { value, echo }),
            scale: handshake.peer_scale.map(|_| handshake.scale),
        };
        let mut flags = Flags::SYN | Flags::ACK;
        if handshake.ecn {
            flags |= Flags::ECE;
        }
        let mut segment = Segment {
            src_port: request.tuple.local.port(),
            dst_port: request.tuple.remote.port(),
            seq: request.initial,
            ack: handshake.peer_initial + 1,
            flags,
            window: handshake.window.min(u32::from(u16::MAX)) as u16,
            options: syn_options(&offer),
            ..Segment::default()
        };
        if let Some(extension) = &mut request.extension {
            extension.write_options(Outgoing::SynAck, &mut segment.options);
        }
        let (tuple, interface) = (request.tuple, request.path.interface);
        let (tos, ttl, mark) = (listener.options.tos & !3, listener.options.ttl, listener.options.mark);
        self.emit_bare(&tuple, &segment, tos, ttl, mark, interface);
        self.flush(cx);
    }

    pub(super) fn on_request_timer(&mut self, key: u64, cx: &mut Context<'_>) {
        let settings = &self.settings;
        let Some(request) = self.requests.get_mut(key) else { return };
        request.timer = Instant::FAR_FUTURE;
        let waits_for_data =
            request.acknowledged && self.listeners.get(request.listener).is_some_and(|listener| !listener.options.defer_accept.is_zero());
        let gives_up = match waits_for_data {
            // TCP_DEFER_ACCEPT: after its time the final ACK counts, so the SYN|ACK asks for it again.
            true => request.handshake.retransmits > settings.synack_retries + 1,
            false => request.handshake.retransmits >= settings.synack_retries,
        };
        if gives_up {
            self.out.counters.add(Counter::AttemptFails, 1);
            self.remove_request(key, cx);
            return;
        }
        request.handshake.retransmits += 1;
        let timeout = request_timeout(settings.rto_initial, settings.rto_max, request.handshake.retransmits);
        request.deadline = cx.now + timeout;
        request.timer = request.deadline;
        cx.set_timer(token(Kind::Request, key), request.deadline);
        self.out.counters.add(Counter::TCPSynRetrans, 1);
        self.out.counters.add(Counter::RetransSegs, 1);
        self.send_syn_ack(key, cx);
    }

    fn remove_request(&mut self, key: u64, cx: &mut Context<'_>) -> Option<Request> {
        let request = self.requests.remove(key)?;
        self.tuples.swap_remove(&request.tuple);
        if let Some(listener) = self.listeners.get_mut(request.listener) {
            listener.half_open -= 1;
        }
        if request.timer != Instant::FAR_FUTURE {
            cx.cancel_timer(token(Kind::Request, key));
        }
        Some(request)
    }

    /// A segment for a half-open connection (tcp_check_req).
    pub(super) fn on_request_segment(&mut self, key: u64, segment: &Segment, frame: Frame, cx: &mut Context<'_>) {
        let Some(request) = self.requests.get_mut(key) else { return cx.drop(frame, Reason::NoConnection) };
        let tuple = request.tuple;
        let next = request.handshake.peer_initial + 1;
        let flags = segment.flags;
        // A SYN that is the one we know: "the peer has not got our SYN|ACK".
        if flags & (Flags::SYN | Flags::ACK | Flags::RST) == Flags::SYN && segment.seq == request.handshake.peer_initial {
            let soon = request.answered.is_some_and(|at| cx.now - at < self.settings.invalid_ratelimit);
            // RFC 7323 §4.3: at the window's left edge, so its timestamp is the recent one.
            if let (Some(stamp), Some(recent)) = (segment.options.timestamps, &mut request.handshake.timestamp) {
                *recent = stamp.value;
            }
            if !soon {
                request.answered = Some(cx.now);
                request.handshake.retransmits += 1;
                self.send_syn_ack(key, cx);
            }
            return;
        }
        let old = matches!((segment.options.timestamps, request.handshake.timestamp),
            (Some(stamp), Some(recent)) if (stamp.value.wrapping_sub(recent) as i32) < 0);
        let in_window = segment.seq.in_window(next, request.handshake.window.max(1));
        if old || !in_window {
            if old {
                self.out.counters.add(Counter::PAWSActive, 1);
            }
            if !flags.contains(Flags::RST) {
                self.challenge_request(key, cx);
            }
            return cx.drop(frame, if old { Reason::TcpPaws } else { Reason::TcpUnacceptable });
        }
        if flags.contains(Flags::RST) {
            // RFC 5961 §3.2, as for connections.
            if segment.seq == next {
                self.out.counters.add(Counter::AttemptFails, 1);
                self.remove_request(key, cx);
            } else {
                self.challenge_request(key, cx);
            }
            return;
        }
        if flags.contains(Flags::SYN) {
            self.challenge_request(key, cx);
            return cx.drop(frame, Reason::TcpInvalidState);
        }
        if !flags.contains(Flags::ACK) {
            return cx.drop(frame, Reason::TcpInvalidState);
        }
        if segment.ack != request.initial + 1 {
            // RFC 9293 §3.10.7.4: "form a reset segment <SEQ=SEG.ACK><CTL=RST> and send it."
            self.reset_in_answer(&tuple, segment, frame.len() as u32, cx);
            return cx.drop(frame, Reason::TcpOldAck);
        }
        if let (Some(stamp), Some(_)) = (segment.options.timestamps, request.handshake.timestamp)
            && segment.seq == next
        {
            request.handshake.timestamp = Some(stamp.value);
        }
        self.promote(key, segment, frame, cx);
    }

    fn challenge_request(&mut self, key: u64, cx: &mut Context<'_>) {
        let limit = self.settings.challenge_ack_limit;
        let Some(request) = self.requests.get_mut(key) else { return };
        let soon = request.answered.is_some_and(|at| cx.now - at < self.settings.invalid_ratelimit);
        if soon || !self.out.challenge.take(cx.now, limit) {
            return;
        }
        request.answered = Some(cx.now);
        let mut ack = Segment {
            src_port: request.tuple.local.port(),
            dst_port: request.tuple.remote.port(),
            seq: request.initial + 1,
            ack: request.handshake.peer_initial + 1,
            flags: Flags::ACK,
            window: (request.handshake.window >> request.handshake.scale) as u16,
            ..Segment::default()
        };
        if let Some(echo) = request.handshake.timestamp {
            ack.options.timestamps = Some(Timestamps { value: request.timestamp(cx.now), echo });
        }
        let tuple = request.tuple;
        self.out.counters.add(Counter::TCPChallengeACK, 1);
        self.emit_bare(&tuple, &ack, 0, 0, 0, InterfaceIndex::NONE);
        self.flush(cx);
    }

    /// The final ACK: the half-open connection becomes one.
    fn promote(&mut self, key: u64, segment: &Segment, frame: Frame, cx: &mut Context<'_>) {
        let Some(request) = self.requests.get_mut(key) else { return };
        let Some(listener) = self.listeners.get(request.listener) else { return };
        let defer = listener.options.defer_accept;
        let bare = frame.is_empty() && !segment.flags.contains(Flags::FIN);
        if bare && !defer.is_zero() && cx.now - request.handshake.sent_at < defer {
            request.acknowledged = true;
            self.out.counters.add(Counter::TCPDeferAcceptDrop, 1);
            return;
        }
        if listener.is_full() || self.connections.len() >= self.settings.connections_max as usize {
            request.acknowledged = true;
            self.out.counters.add(Counter::ListenOverflows, 1);
            self.out.counters.add(Counter::ListenDrops, 1);
            return cx.drop(frame, Reason::ListenOverflow);
        }
        let Some(request) = self.remove_request(key, cx) else { return };
        let Some(listener) = self.listeners.get_mut(request.listener) else { return };
        listener.waiting += 1;
        let options = listener.options.clone();
        let parent = listener.flow;
        self.next_flow += 1;
        let flow = FlowId(FlowId::ACCEPTED | self.next_flow);
        let connection_key = self.connections.next_key();
        let setup = Setup {
            flow,
            token: connection_key,
            local: request.tuple.local,
            remote: request.tuple.remote,
            options,
            path: request.path,
            initial: request.initial,
            timestamp_offset: request.timestamp_offset,
            extension: request.extension.unwrap_or_else(|| Box::new(Plain)),
        };
        self.out.counters.add(Counter::PassiveOpens, 1);
        let mut env = Env { now: cx.now, config: &self.settings, out: &mut self.out };
        let connection = Connection::accept(&mut env, setup, request.handshake);
        self.connections.insert(Box::new(Slot { connection, timer: Instant::FAR_FUTURE }));
        self.tuples.insert(request.tuple, Owner::Connection(connection_key));
        self.flows.insert(flow, FlowOwner::Connection(connection_key));
        let event = StreamEvent::Accepted { child: flow, local: request.tuple.local, remote: request.tuple.remote };
        self.out.messages.push(StreamMessage::Event { flow: parent, event });
        self.with_connection(connection_key, cx, |connection, env| connection.on_segment(env, segment, frame));
    }

    /// An ICMP error about a SYN|ACK: Linux lets the request go (tcp_req_err).
    pub(super) fn on_request_error(&mut self, key: u64, seq: Seq, cx: &mut Context<'_>) {
        if self.requests.get(key).is_some_and(|request| request.initial == seq) {
            self.out.counters.add(Counter::ListenDrops, 1);
            self.remove_request(key, cx);
        }
    }

    /// The sockets close a listener: half-open connections go with it. Those it has given up to the sockets are theirs.
    pub(super) fn close_listener(&mut self, key: u64, cx: &mut Context<'_>) {
        let Some(listener) = self.listeners.remove(key) else { return };
        if let Some(on_port) = self.listening.get_mut(&listener.local.port()) {
            on_port.retain(|other| *other != key);
            if on_port.is_empty() {
                self.listening.remove(&listener.local.port());
            }
        }
        let orphans: Vec<u64> = self.requests.iter().filter(|(_, request)| request.listener == key).map(|(request, _)| request).collect();
        for request in orphans {
            self.remove_request(request, cx);
        }
        self.flows.swap_remove(&listener.flow);
        cx.send(UPPER, StreamMessage::Event { flow: listener.flow, event: StreamEvent::Released });
    }

    /// TCP_INFO of a listener: tcpi_unacked is the accept queue, tcpi_sacked the backlog (tcp_get_info).
    pub(super) fn listener_info(&self, key: u64) -> Answer {
        let Some(listener) = self.listeners.get(key) else { return Answer::None };
        let congestion = listener.options.congestion.clone().unwrap_or_else(|| self.settings.congestion.clone());
        Answer::FlowInfo(Box::new(StreamInfo {
            state: crate::connection::State::Listen as u8,
            unacked: listener.waiting,
            sacked: listener.backlog,
            congestion,
            ..StreamInfo::default()
        }))
    }
}
