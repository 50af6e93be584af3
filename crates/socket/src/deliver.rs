//! What comes in from the stream transport: data, room to send, and events.

use crate::errno::Errno;
use crate::face::Sockets;
use crate::holds;
use crate::ports::How;
use crate::socket::{Body, Phase, SocketId, Stream, TcpState};
use crate::streams::Flow;
use std::net::{IpAddr, SocketAddr};
use weft_core::{Context, FlowId, StreamCall, StreamError, StreamEvent, StreamMessage, StreamOption};

impl Sockets {
    /// A message from the stream transport.
    pub(crate) fn stream_message(&mut self, message: StreamMessage, cx: &mut Context<'_>) {
        match message {
            StreamMessage::Data { flow, bytes, flags } => {
                if let Some(s) = self.owner(flow) {
                    self.stream_data(s, bytes, flags.urgent, cx);
                } else if !self.streams.flows.contains_key(&flow) {
                    // A connection of the block whose place this one has taken.
                    self.call(flow, StreamCall::Abort, cx);
                }
            }
            StreamMessage::Credit { flow, bytes } => self.stream_credit(flow, bytes),
            StreamMessage::Short(short) => self.memory_is_short(short),
            StreamMessage::Event { flow, event } => self.stream_event(flow, *event, cx),
            // Only a refused opening matters: everything that Set can refuse was checked before it was sent.
            StreamMessage::Reply { flow, result: Err(error), .. } => self.refused(flow, error),
            StreamMessage::Reply { result: Ok(()), .. } | StreamMessage::Call { .. } => {}
        }
    }

    fn owner(&self, flow: FlowId) -> Option<SocketId> {
        self.streams.flows.get(&flow).and_then(|entry| entry.owner)
    }

    fn refused(&mut self, flow: FlowId, error: StreamError) {
        let opening = self
            .owner(flow)
            .and_then(|s| Some((s, self.registry.store.get(s)?.stream()?.state)))
            .filter(|(_, state)| matches!(state, TcpState::SynSent | TcpState::Listen));
        if let Some((s, _)) = opening {
            self.fail(s, error);
        }
    }

    fn stream_credit(&mut self, flow: FlowId, bytes: u32) {
        let Some(s) = self.owner(flow) else { return };
        let Some(stream) = self.registry.store.get_mut(s).and_then(|socket| socket.stream_mut()) else { return };
        let before = crate::readiness::is_writable(stream);
        let starved = stream.credit == 0 || std::mem::take(&mut stream.refused);
        stream.credit = stream.credit.saturating_add(bytes as usize);
        stream.capacity = stream.capacity.max(stream.credit);
        if starved || before != crate::readiness::is_writable(stream) {
            self.touch(s);
        }
    }

    /// TCP has as much memory as it may, or some again: then those who found none may go on.
    pub(crate) fn memory_is_short(&mut self, short: bool) {
        if short {
            self.count(crate::counters::STREAM_MEMORY_SHORT);
        }
        self.streams.short_of_memory = short;
        let refused = |(id, socket): (SocketId, &crate::socket::Socket)| socket.stream().is_some_and(|stream| stream.refused).then_some(id);
        let waiting: Vec<SocketId> = if short { Vec::new() } else { self.registry.store.iter().filter_map(refused).collect() };
        for s in waiting {
            if let Some(stream) = self.registry.store.get_mut(s).and_then(|socket| socket.stream_mut()) {
                stream.refused = false;
            }
            self.touch(s);
        }
    }

    fn stream_event(&mut self, flow: FlowId, event: StreamEvent, cx: &mut Context<'_>) {
        match event {
            StreamEvent::Accepted { child, local, remote } => return self.accepted(flow, child, local, remote, cx),
            StreamEvent::Released => return self.released(flow),
            StreamEvent::TimeWait => {
                if let Some(entry) = self.streams.flows.get_mut(&flow) {
                    entry.time_wait = Some(cx.now);
                    if let Some(hold) = entry.hold {
                        self.streams.ports.update(hold, |held| held.time_wait = Some(cx.now));
                    }
                }
            }
            _ => {}
        }
        let Some(s) = self.owner(flow) else { return };
        match event {
            StreamEvent::Established { local, remote } => self.established(s, local, remote, cx),
            StreamEvent::HalfClosed => self.half_closed(s),
            StreamEvent::Failed(error) => self.fail(s, error),
            StreamEvent::Soft(error) => self.soft_error(s, error),
            StreamEvent::Urgent { ahead } => self.stream_urgent(s, ahead),
            StreamEvent::TimeWait => self.done(s),
            StreamEvent::Began { syn, ip_options } => {
                if let Some(socket) = self.registry.store.get_mut(s) {
                    socket.options.ip_options =
                        weft_wire::ipv4::Prepared::new(&ip_options, |_| false).filter(|options| !options.is_empty());
                    if let Some(stream) = socket.stream_mut() {
                        stream.saved_syn = Some(syn).filter(|syn| !syn.is_empty());
                        stream.transport.ip_options = ip_options;
                    }
                }
            }
            StreamEvent::SendQueueEmpty | StreamEvent::Accepted { .. } | StreamEvent::Released => {}
        }
    }

    fn established(&mut self, s: SocketId, local: SocketAddr, remote: SocketAddr, cx: &mut Context<'_>) {
        let Some(socket) = self.registry.store.get_mut(s) else { return };
        (socket.local, socket.remote) = (local, Some(remote));
        if let Some(stream) = socket.stream_mut() {
            stream.state = TcpState::Established;
        }
        // tcp_rcv_state_process, SYN_RECV (here: a socket that connected to itself): "if (sk->sk_shutdown & SEND_SHUTDOWN)
        // tcp_shutdown(sk, SEND_SHUTDOWN);"
        if local == remote && self.registry.store.get(s).is_some_and(|socket| socket.shutdown.send) {
            let write = crate::socket::Shutdown { receive: false, send: true };
            self.shutdown_flow(s, write, TcpState::Established, cx);
        }
        self.touch(s);
    }

    /// `inet_csk_complete_hashdance`: a connection is ready to be accepted. It inherits its listener's options.
    fn accepted(&mut self, flow: FlowId, child: FlowId, local: SocketAddr, remote: SocketAddr, cx: &mut Context<'_>) {
        // A new block below begins to count anew: who still waits for the old one's connection of this number waits in vain.
        if let Some(old) = self.owner(child) {
            self.fail(old, StreamError::Reset);
            self.released(child);
        }
        let listener = self.owner(flow);
        let room = self.registry.store.len() < self.registry.limits.sockets_max;
        let parent = listener.and_then(|s| self.registry.store.get(s)).filter(|socket| socket.is_listening());
        let (Some(listener), Some(parent), true) = (listener, parent, room) else {
            if !self.streams.flows.contains_key(&flow) {
                self.call(flow, StreamCall::Close { unread: false, linger: None }, cx);
            }
            self.streams.flows.insert(child, Flow { owner: None, hold: None, local, remote: Some(remote), time_wait: None });
            self.call(child, StreamCall::Abort, cx);
            self.call(flow, StreamCall::Took { connections: 1 }, cx);
            self.count(crate::counters::SOCKETS_FULL);
            return;
        };
        let mut stream = Stream::new();
        if let Some(of_parent) = parent.stream() {
            stream.transport = of_parent.transport.clone();
        }
        (stream.state, stream.phase, stream.flow, stream.parent) = (TcpState::Established, Phase::Connected, Some(child), Some(listener));
        let (domain, kind, protocol, options) = (parent.domain, parent.kind, parent.protocol, parent.options.clone());
        let address_locked = parent.address_locked;
        let shutdown = parent.shutdown;
        // sk_clone: "newsk->sk_priority = 0;"
        let options = crate::options::Options { priority: 0, memberships: Vec::new(), ip_options: None, ..options };
        let owner = parent.owner;
        let mut socket = self.registry.fresh(domain, kind, protocol, options, Body::Stream(stream));
        socket.owner = owner;
        (socket.local, socket.remote, socket.number) = (local, Some(remote), local.port());
        // inet_reqsk_alloc: "ireq->ir_iif = … if (ipv6_addr_type(&ireq->ir_v6_rmt_addr) & IPV6_ADDR_LINKLOCAL)"; the child is bound to it.
        if let SocketAddr::V6(v6) = remote
            && v6.scope_id() != 0
        {
            socket.options.interface = v6.scope_id();
        }
        self.dress(child, &mut socket, remote.ip(), cx);
        // sk_clone: "newsk->sk_userlocks = sk->sk_userlocks & ~SOCK_BINDPORT_LOCK"
        (socket.address_locked, socket.shutdown) = (address_locked, shutdown);
        let id = self.registry.store.insert(socket);
        self.streams.flows.insert(child, Flow { owner: Some(id), hold: None, local, remote: Some(remote), time_wait: None });
        if let Ok(hold) = self.get(id).map(|socket| holds::of(socket, local.ip(), How::Bind)) {
            let hold = self.streams.ports.hold(local.port(), hold);
            if let Some(socket) = self.registry.store.get_mut(id) {
                socket.hold = Some(hold);
            }
        }
        if let Some(stream) = self.registry.store.get_mut(listener).and_then(|socket| socket.stream_mut()) {
            stream.accept_queue.push_back(id);
        }
        self.count(crate::counters::PASSIVE_OPENS);
        // A listener that was shut down for writing before it listened bears connections that are: tcp_rcv_state_process, SYN_RECV.
        if shutdown.send {
            self.shutdown_flow(id, shutdown, TcpState::Established, cx);
        }
        self.touch(listener);
    }

    /// The listener's options came with the child; which of the two families' (IP_TTL or IPV6_UNICAST_HOPS …) count, its peer decides.
    fn dress(&mut self, child: FlowId, socket: &mut crate::socket::Socket, peer: IpAddr, cx: &mut Context<'_>) {
        let Some(before) = socket.stream().map(|stream| (stream.transport.ttl, stream.transport.tos, stream.transport.mtu_discover)) else {
            return;
        };
        socket.match_family(peer);
        let Some(stream) = socket.stream() else { return };
        let (ttl, tos, discover) = (stream.transport.ttl, stream.transport.tos, stream.transport.mtu_discover);
        let changed = [
            (ttl != before.0).then_some(StreamOption::Ttl(ttl)),
            (tos != before.1).then_some(StreamOption::Tos(tos)),
            (discover != before.2).then_some(StreamOption::MtuDiscover(discover)),
        ];
        for option in changed.into_iter().flatten() {
            self.call(child, StreamCall::Set(option), cx);
        }
    }

    /// `tcp_fin`.
    fn half_closed(&mut self, s: SocketId) {
        let Some(socket) = self.registry.store.get_mut(s) else { return };
        socket.shutdown.receive = true;
        if let Some(stream) = socket.stream_mut() {
            stream.done = true;
            stream.state = match stream.state {
                TcpState::Established => TcpState::CloseWait,
                TcpState::FinWait => TcpState::Closing,
                other => other,
            };
        }
        self.touch(s);
    }

    /// `tcp_reset` and `tcp_write_err`: the error is told once, received data stays to be read.
    pub(crate) fn fail(&mut self, s: SocketId, error: StreamError) {
        let Some(socket) = self.registry.store.get_mut(s) else { return };
        let Some(stream) = socket.stream_mut() else { return };
        let soft = stream.soft_error.take();
        if stream.state == TcpState::Close {
            return;
        }
        // tcp_write_err: "WRITE_ONCE(sk->sk_err, READ_ONCE(sk->sk_err_soft) ? : ETIMEDOUT);"
        let error = match (error, soft) {
            (StreamError::TimedOut, Some(soft)) => soft,
            _ => Errno::from(error),
        };
        self.fail_with(s, error);
    }

    /// `tcp_done_with_error`.
    pub(crate) fn fail_with(&mut self, s: SocketId, error: Errno) {
        let Some(socket) = self.registry.store.get_mut(s) else { return };
        socket.error = Some(error);
        self.count(crate::counters::CONNECTIONS_FAILED);
        self.done(s);
    }

    /// `tcp_v4_err`: with IP_RECVERR the program hears of it at once, otherwise if the connection fails later.
    fn soft_error(&mut self, s: SocketId, error: StreamError) {
        let Some(socket) = self.registry.store.get_mut(s) else { return };
        if socket.options.wants_errors(socket.remote.is_some_and(|remote| remote.is_ipv6())) {
            socket.error = Some(error.into());
            self.touch(s);
        } else if let Some(stream) = socket.stream_mut() {
            stream.soft_error = Some(error.into());
        }
    }

    pub(crate) fn released(&mut self, flow: FlowId) {
        if let Some(s) = self.owner(flow)
            && let Some(stream) = self.registry.store.get_mut(s).and_then(|socket| socket.stream_mut())
        {
            stream.flow = None;
            stream.left = Some(flow).filter(|_| stream.unread() > 0);
            let over = !matches!(stream.state, TcpState::Close);
            if over {
                self.done(s);
            }
        }
        if let Some(hold) = self.streams.flows.swap_remove(&flow).and_then(|entry| entry.hold) {
            self.streams.ports.release(hold);
        }
    }
}
