//! Listeners, half-open connections, and the step from one to a connection (RFC 9293 §3.10.7.2 and .4; bounds as in Linux).
//!
//! A half-open connection is a small record, not a connection. The accept queue takes `backlog + 1` connections (Linux's
//! sk_acceptq_is_full): when it is full, SYNs and final ACKs are dropped, and the SYN|ACK goes out again later. As many may be half open; beyond
//! that SYNs are answered by cookies (`cookies`), of which nothing is kept.

use super::cookies::{self, Agreement};
use super::ingress::bare;
use super::kept::Kept;
use super::listener::{Listener, Request};
use super::tables::{Kind, Tuple, token};
use super::{FlowOwner, Owner, Slot, TcpBlock, UPPER, ask_path};
use crate::connection::{Connection, Handshake, Headers, Offer, Path, Setup, accept_early, syn_options};
use crate::counters::Counter;
use crate::extension::{self, Extension, Offered, Outgoing, Plain};
use crate::outbox::Env;
use weft_core::table::{AddressKind, Family};
use weft_core::{
    Answer, Context, Duration, FlowId, Frame, Instant, InterfaceIndex, Query, Reason, StreamEvent, StreamInfo, StreamMessage,
    StreamOptions, Table,
};
use weft_wire::tcp::{FastOpen, Flags, Segment, Seq, Timestamps};

/// The SYN|ACK of a handshake.
fn syn_ack(tuple: &Tuple, handshake: &Handshake, initial: Seq, stamp: u32) -> Segment {
    let offer = Offer {
        mss: handshake.announced_mss,
        sack: handshake.sack,
        timestamps: handshake.timestamp.map(|echo| Timestamps { value: stamp, echo }),
        scale: handshake.peer_scale.map(|_| handshake.scale),
    };
    let flags = Flags::SYN | Flags::ACK | if handshake.ecn { Flags::ECE } else { Flags::empty() };
    Segment {
        src_port: tuple.local.port(),
        dst_port: tuple.remote.port(),
        seq: initial,
        ack: handshake.peer_initial + 1,
        flags,
        window: handshake.window.min(u32::from(u16::MAX)) as u16,
        options: syn_options(&offer),
        ..Segment::default()
    }
}

/// What is known of a connection as it begins.
pub(super) struct Opening {
    pub tuple: Tuple,
    pub listener: u64,
    pub handshake: Handshake,
    pub initial: Seq,
    pub timestamp_offset: u32,
    pub path: Path,
    pub extension: Option<Box<dyn Extension>>,
    pub kept: Kept,
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
            if let Some(opening) = self.take_cookie(listener, tuple, segment, &frame, cx) {
                return self.establish(opening, segment, frame, cx);
            }
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
        let no_room = found.has_no_room(self.settings.syn_backlog);
        // tcp_conn_request: a SYN that takes over a TIME-WAIT has its number already.
        let by_cookie = self.settings.syncookies > 0 && initial.is_none() && (no_room || self.settings.syncookies == 2);
        if no_room && !by_cookie {
            self.out.counters.add(Counter::TCPReqQFullDrop, 1);
            self.out.counters.add(Counter::ListenDrops, 1);
            return cx.drop(frame, Reason::SynQueueFull);
        }
        let bound = InterfaceIndex(found.options.interface);
        let Ok(path) = ask_path(tuple, None, bound, &found.options, self.epoch, cx) else {
            self.out.counters.add(Counter::ListenDrops, 1);
            return cx.drop(frame, Reason::NoRoute);
        };
        let kept = Kept::of(&frame, found.options.save_syn);
        if by_cookie {
            return self.answer_by_cookie(listener, tuple, segment, path, &kept, cx);
        }
        let verdict = self.try_fast_open(listener, tuple, segment, !frame.is_empty(), cx.now);
        match verdict.early && self.connections.len() < self.settings.connections_max as usize {
            true => self.begin_early(listener, tuple, segment, frame, path, (initial, verdict.option, kept), cx),
            false => self.add_request(listener, tuple, segment, path, (initial, verdict.option, kept), cx),
        }
    }

    /// A SYN with a valid cookie: the connection is there, the sockets may accept it.
    #[allow(clippy::too_many_arguments)]
    fn begin_early(
        &mut self,
        key: u64,
        tuple: &Tuple,
        segment: &Segment,
        frame: Frame,
        path: Path,
        (initial, option, kept): (Option<Seq>, Option<FastOpen>, Kept),
        cx: &mut Context<'_>,
    ) {
        let window = self.listeners.get(key).map_or(0, |listener| self.agree(listener, tuple, segment, &path, cx.now).window);
        let Some(extension) = self.offer(key, tuple, segment, (false, (frame.len() as u32).min(window)), cx) else { return };
        let Some(listener) = self.listeners.get(key) else { return };
        let opening = Opening {
            tuple: *tuple,
            listener: key,
            handshake: self.agree(listener, tuple, segment, &path, cx.now),
            initial: initial.unwrap_or_else(|| self.secrets.sequence(tuple, cx.now)),
            timestamp_offset: self.secrets.timestamp_offset(tuple),
            path,
            extension,
            kept,
        };
        let Some(connection) = self.begin_accepted(opening, accept_early, cx.now) else { return };
        if let (Some(slot), Some(listener)) = (self.connections.get_mut(connection), self.listeners.get_mut(key)) {
            slot.early_of = Some(key);
            listener.early += 1;
        }
        self.out.counters.add(Counter::TCPFastOpenPassive, 1);
        self.with_connection(connection, cx, |connection, env| connection.begin_early(env, segment, frame, option));
    }

    /// What a SYN asks for and this node gives.
    fn agree(&self, listener: &Listener, tuple: &Tuple, segment: &Segment, path: &Path, now: Instant) -> Handshake {
        let settings = &self.settings;
        let options = &segment.options;
        let scaling = settings.window_scaling && options.window_scale.is_some();
        let announced_mss = crate::connection::announced(settings, &listener.options, path.mtu, tuple.remote);
        let timestamp = options.timestamps.filter(|_| settings.timestamps).map(|stamp| stamp.value);
        // Whole segments as they will come: with timestamps (tcp_openreq_init_rwin).
        let each = announced_mss.saturating_sub(if timestamp.is_some() { 12 } else { 0 });
        // RFC 3168 §6.1.1: an ECN-setup SYN has both flags; it must not be marked itself.
        let asks_ecn = segment.flags.contains(Flags::ECE | Flags::CWR);
        Handshake {
            peer_initial: segment.seq,
            peer_mss: options.mss.unwrap_or(0),
            peer_scale: options.window_scale.filter(|_| scaling).map(|shift| shift.min(14)),
            scale: if scaling { crate::connection::shift(settings, &listener.options) } else { 0 },
            window: crate::connection::first_window(settings, &listener.options, each),
            sack: settings.sack && options.sack_permitted,
            timestamp,
            ecn: settings.ecn > 0 && asks_ecn,
            announced_mss,
            sent_at: now,
            measured: true,
            retransmits: 0,
        }
    }

    fn add_request(
        &mut self,
        listener: u64,
        tuple: &Tuple,
        segment: &Segment,
        path: Path,
        (initial, fast_open, kept): (Option<Seq>, Option<FastOpen>, Kept),
        cx: &mut Context<'_>,
    ) {
        let Some(found) = self.listeners.get(listener) else { return };
        let handshake = self.agree(found, tuple, segment, &path, cx.now);
        let Some(extension) = self.offer(listener, tuple, segment, (false, 0), cx) else { return };
        let settings = &self.settings;
        let Some(found) = self.listeners.get_mut(listener) else { return };
        found.half_open += 1;
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
            kept,
        };
        let key = self.requests.insert(request);
        self.tuples.insert(*tuple, Owner::Request(key));
        cx.set_timer(token(Kind::Request, key), cx.now + timeout);
        self.send_syn_ack(key, fast_open, cx);
    }

    /// The extension of a connection that begins with this SYN, if the listener's gives it one. None: it refuses the connection, which is reset.
    fn offer(
        &mut self,
        key: u64,
        tuple: &Tuple,
        syn: &Segment,
        (by_cookie, early_bytes): (bool, u32),
        cx: &mut Context<'_>,
    ) -> Option<Option<Box<dyn Extension>>> {
        let Some(listener) = self.listeners.get_mut(key).filter(|listener| !listener.extension.is_plain()) else { return Some(None) };
        let (local, remote, now) = (tuple.local, tuple.remote, cx.now);
        let made = listener.extension.accept(&mut Offered { syn, by_cookie, early_bytes, local, remote, now, rng: &mut self.rng });
        let flow = listener.flow;
        while let Some(bytes) = listener.extension.take_word() {
            cx.send(UPPER, StreamMessage::Word { flow, bytes });
        }
        match made {
            extension::Offer::Plain => Some(None),
            extension::Offer::With(extension) => Some(Some(extension)),
            extension::Offer::Refuse(options) => {
                self.reset_with(tuple, syn, 0, options, cx);
                None
            }
        }
    }

    /// `fast_open` goes with the first one only, as in Linux.
    fn send_syn_ack(&mut self, key: u64, fast_open: Option<FastOpen>, cx: &mut Context<'_>) {
        let Some(request) = self.requests.get_mut(key) else { return };
        let Some(listener) = self.listeners.get(request.listener) else { return };
        let mut segment = syn_ack(&request.tuple, &request.handshake, request.initial, request.timestamp(cx.now));
        segment.options.fast_open = fast_open;
        if let Some(extension) = &mut request.extension {
            extension.write_options(Outgoing::SynAck, &mut segment.options);
        }
        let options = &listener.options;
        let to = Headers {
            tos: options.tos & !3,
            ttl: options.ttl,
            mark: options.mark,
            interface: request.path.interface,
            ip_options: request.kept.prepared(),
            attached: options.attached.clone(),
            ..bare(&request.tuple)
        };
        self.emit_bare(&segment, &to);
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
        self.send_syn_ack(key, None, cx);
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
                self.send_syn_ack(key, None, cx);
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
            // tcp_synack_window: "min(req->rsk_rcv_wnd, 65535U)".
            window: (request.handshake.window.min(u16::MAX.into()) >> request.handshake.scale) as u16,
            ..Segment::default()
        };
        if let Some(echo) = request.handshake.timestamp {
            ack.options.timestamps = Some(Timestamps { value: request.timestamp(cx.now), echo });
        }
        let tuple = request.tuple;
        self.out.counters.add(Counter::TCPChallengeACK, 1);
        self.emit_bare(&ack, &bare(&tuple));
        self.flush(cx);
    }

    /// The options of the listener that a half-open connection belongs to.
    pub(super) fn options_of_request(&self, key: u64) -> Option<&StreamOptions> {
        let request = self.requests.get(key)?;
        self.listeners.get(request.listener).map(|listener| &listener.options)
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
        let Some(Request { tuple, listener, handshake, initial, timestamp_offset, path, extension, kept, .. }) =
            self.remove_request(key, cx)
        else {
            return;
        };
        let opening = Opening { tuple, listener, handshake, initial, timestamp_offset, path, extension, kept };
        self.establish(opening, segment, frame, cx);
    }

    /// The connection of a handshake that is done but for the segment that ends it, which is given to the connection.
    fn establish(&mut self, opening: Opening, segment: &Segment, frame: Frame, cx: &mut Context<'_>) {
        let full = self.listeners.get(opening.listener).is_none_or(Listener::is_full);
        if full || self.connections.len() >= self.settings.connections_max as usize {
            self.out.counters.add(Counter::ListenOverflows, 1);
            self.out.counters.add(Counter::ListenDrops, 1);
            return cx.drop(frame, Reason::ListenOverflow);
        }
        let Some(key) = self.begin_accepted(opening, Connection::accept, cx.now) else { return };
        self.with_connection(key, cx, |connection, env| connection.on_segment(env, segment, frame));
    }

    /// A connection for the sockets to accept.
    pub(super) fn begin_accepted(
        &mut self,
        opening: Opening,
        make: impl FnOnce(&mut Env<'_>, Setup, Handshake) -> Connection,
        now: Instant,
    ) -> Option<u64> {
        let Opening { tuple, listener, handshake, initial, timestamp_offset, path, extension, kept } = opening;
        let listener = self.listeners.get_mut(listener)?;
        listener.waiting += 1;
        // inet_csk_clone_lock, tcp_v4_syn_recv_sock: "newinet->inet_opt = … ireq_opt": the answer to the SYN's, not the listener's own.
        let options = StreamOptions { ip_options: kept.ip_options.clone(), ..listener.options.clone() };
        let parent = listener.flow;
        self.next_flow += 1;
        let flow = FlowId(FlowId::ACCEPTED | self.next_flow);
        let connection_key = self.connections.next_key();
        let extended = extension.is_some();
        let setup = Setup {
            flow,
            token: connection_key,
            local: tuple.local,
            remote: tuple.remote,
            options,
            path,
            initial,
            timestamp_offset,
            extension: extension.unwrap_or_else(|| Box::new(Plain)),
            control_seed: self.rng.u64(),
        };
        self.out.counters.add(Counter::PassiveOpens, 1);
        let mut env = Env { now, config: &self.settings, out: &mut self.out };
        let connection = make(&mut env, setup, handshake);
        self.connections.insert(Box::new(Slot::new(connection)));
        self.tuples.insert(tuple, Owner::Connection(connection_key));
        self.flows.insert(flow, FlowOwner::Connection(connection_key));
        let event = StreamEvent::Accepted { child: flow, local: tuple.local, remote: tuple.remote, extended };
        self.out.messages.push(StreamMessage::Event { flow: parent, event: Box::new(event) });
        if !kept.is_empty() {
            let event = StreamEvent::Began { syn: kept.syn, ip_options: kept.ip_options };
            self.out.messages.push(StreamMessage::Event { flow, event: Box::new(event) });
        }
        if let Some(slot) = self.connections.get_mut(connection_key) {
            // Whoever is between learns at once that it has an extension.
            slot.connection.pass_words_up(&mut Env { now, config: &self.settings, out: &mut self.out });
        }
        Some(connection_key)
    }

    /// Answers a SYN and forgets it (tcp_conn_request with `want_cookie`).
    fn answer_by_cookie(&mut self, key: u64, tuple: &Tuple, segment: &Segment, path: Path, kept: &Kept, cx: &mut Context<'_>) {
        let Some(listener) = self.listeners.get(key) else { return };
        let mut handshake = self.agree(listener, tuple, segment, &path, cx.now);
        if handshake.timestamp.is_none() {
            // "if (want_cookie && !tmp_opt.saw_tstamp) tcp_clear_options(&tmp_opt);": there is nowhere to keep them.
            (handshake.peer_scale, handshake.scale, handshake.sack, handshake.ecn) = (None, 0, false, false);
        }
        let (initial, _) = self.secrets.cookies.make(tuple, segment.seq, handshake.peer_mss, cx.now);
        let agreement = Agreement { scale: handshake.peer_scale, sack: handshake.sack, ecn: handshake.ecn };
        let clock = cookies::stamp(cx.now.as_millis() as u32, agreement);
        let mut answer = syn_ack(tuple, &handshake, initial, clock.wrapping_add(self.secrets.timestamp_offset(tuple)));
        let Some(extension) = self.offer(key, tuple, segment, (true, 0), cx) else { return };
        if let Some(mut extension) = extension {
            extension.write_options(Outgoing::SynAck, &mut answer.options);
        }
        let Some(listener) = self.listeners.get(key) else { return };
        let (tos, ttl, mark) = (listener.options.tos & !3, listener.options.ttl, listener.options.mark);
        let to = Headers {
            tos,
            ttl,
            mark,
            interface: path.interface,
            ip_options: kept.prepared(),
            attached: listener.options.attached.clone(),
            ..bare(tuple)
        };
        if let Some(listener) = self.listeners.get_mut(key) {
            let counter = if listener.has_no_room(self.settings.syn_backlog) { Some(Counter::TCPReqQFullDoCookies) } else { None };
            listener.overflowed_at = Some(cx.now);
            counter.into_iter().for_each(|counter| self.out.counters.add(counter, 1));
        }
        self.out.counters.add(Counter::SyncookiesSent, 1);
        self.emit_bare(&answer, &to);
        self.flush(cx);
    }

    /// An acknowledgment to a listener: of a SYN|ACK that was a cookie (cookie_v4_check)?
    fn take_cookie(&mut self, key: u64, tuple: &Tuple, segment: &Segment, frame: &Frame, cx: &mut Context<'_>) -> Option<Opening> {
        let listener = self.listeners.get(key)?;
        let recent = listener.overflowed_at.is_some_and(|at| cx.now.since(at) <= cookies::VALID);
        if self.settings.syncookies == 0 || !recent || segment.flags.contains(Flags::SYN) {
            return None;
        }
        let (peer_initial, initial) = (segment.seq - 1u32, segment.ack - 1u32);
        let Some(peer_mss) = self.secrets.cookies.check(tuple, initial, peer_initial, cx.now) else {
            self.out.counters.add(Counter::SyncookiesFailed, 1);
            return None;
        };
        self.out.counters.add(Counter::SyncookiesRecv, 1);
        let path = ask_path(tuple, None, InterfaceIndex(listener.options.interface), &listener.options, self.epoch, cx).ok()?;
        // As the SYN said it, which is gone.
        let mut said = Segment { seq: peer_initial, ..Segment::default() };
        said.options.mss = Some(peer_mss);
        said.options.timestamps = segment.options.timestamps;
        let mut handshake = self.agree(listener, tuple, &said, &path, cx.now);
        let timestamp_offset = self.secrets.timestamp_offset(tuple);
        // Without timestamps nothing tells when the SYN came.
        handshake.measured = false;
        if let Some(stamp) = segment.options.timestamps.filter(|_| handshake.timestamp.is_some()) {
            let clock = stamp.echo.wrapping_sub(timestamp_offset);
            let agreement = cookies::agreement(clock);
            handshake.sack = agreement.sack && self.settings.sack;
            handshake.ecn = agreement.ecn && self.settings.ecn > 0;
            handshake.peer_scale = agreement.scale.filter(|_| self.settings.window_scaling);
            if handshake.peer_scale.is_some() {
                handshake.scale = crate::connection::shift(&self.settings, &listener.options);
            }
            let age = Duration::from_millis(u64::from((cx.now.as_millis() as u32).wrapping_sub(clock)));
            if age <= 2 * cookies::VALID {
                (handshake.sent_at, handshake.measured) = (cx.now - age, true);
            }
        }
        // cookie_v4_check: "ireq->ireq_opt = tcp_v4_save_options(sock_net(sk), skb)", here of the final ACK.
        let kept = Kept::of(frame, 0);
        let extension = self.offer(key, tuple, segment, (true, 0), cx)?;
        Some(Opening { tuple: *tuple, listener: key, handshake, initial, timestamp_offset, path, extension, kept })
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
        self.tell_released(listener.flow, cx);
    }

    /// TCP_INFO of a listener: tcpi_unacked is the accept queue, tcpi_sacked the backlog (tcp_get_info).
    pub(super) fn listener_info(&self, key: u64) -> Answer {
        let Some(listener) = self.listeners.get(key) else { return Answer::None };
        let congestion = listener.options.congestion.clone().unwrap_or_else(|| self.settings.congestion.clone());
        Answer::FlowInfo(Box::new(StreamInfo {
            state: crate::connection::State::Listen as u8,
            unacked: listener.waiting,
            sacked: listener.backlog,
            // tcp_init_sock: TCP_INIT_CWND, sysctl_tcp_reordering.
            snd_cwnd: 10,
            reordering: 3,
            congestion,
            ..StreamInfo::default()
        }))
    }
}
