//! Local ports and the ends of connections: taking a port, connecting, dissolving, and what Linux's `tcp_done` does.

use crate::errno::Errno;
use crate::face::Sockets;
use crate::holds;
use crate::inet6;
use crate::outgoing;
use crate::outputs::TCP;
use crate::ports::{Hold, How};
use crate::routes;
use crate::socket::{Phase, Shutdown, SocketId, Stream, TcpState};
use crate::streams::Flow;
use std::net::SocketAddr;
use weft_core::table::AddressKind;
use weft_core::{Context, FlowId, StreamCall};

impl Sockets {
    /// Gives the port up.
    pub(crate) fn release_port(&mut self, s: SocketId) {
        let Some(socket) = self.registry.store.get_mut(s) else { return };
        socket.number = 0;
        if let Some(hold) = socket.hold.take() {
            self.streams.ports.release(hold);
        }
    }

    /// `tcp_v4_connect`: chooses address and port and starts. Leaves the socket as it was on error.
    pub(crate) fn start_connect(&mut self, s: SocketId, to: SocketAddr, cx: &mut Context<'_>) -> Result<(), Errno> {
        let asks = self.get(s)?.stream().is_some_and(|stream| stream.fast_open_connect);
        let (local, to, mtu) = self.prepare_connect(s, to, cx)?;
        if asks && self.can_defer(s, local, to, mtu, cx) {
            if let Some(stream) = self.get_mut(s)?.stream_mut() {
                stream.deferred = true;
            }
            return Ok(());
        }
        self.begin_flow(s, local, to, mtu, asks.then(bytes::Bytes::new), cx).map(|_| ())
    }

    /// The same with data for the SYN (Fast Open), of which it returns how much was taken.
    pub(crate) fn start_connect_with(
        &mut self,
        s: SocketId,
        to: SocketAddr,
        first: Option<bytes::Bytes>,
        cx: &mut Context<'_>,
    ) -> Result<usize, Errno> {
        let (local, to, mtu) = self.prepare_connect(s, to, cx)?;
        self.begin_flow(s, local, to, mtu, first, cx)
    }

    /// Both addresses of the connection, which the socket has from now on, and the path's MTU.
    fn prepare_connect(&mut self, s: SocketId, to: SocketAddr, cx: &mut Context<'_>) -> Result<(SocketAddr, SocketAddr, u32), Errno> {
        // Nobody would ever answer.
        if !cx.is_bound(TCP) {
            return Err(Errno::ENETDOWN);
        }
        let (own, interface) = (self.get(s)?.local.ip(), self.get(s)?.options.interface);
        let to = routes::destination(to, own);
        let source = routes::source_for(own, to.ip())?;
        let traffic = routes::traffic_of(self.get(s)?, to.port(), None);
        let route = routes::through(outgoing::first_hop(self.get(s)?, &Default::default(), to.ip()), source, interface, traffic, cx)?;
        // "if (rt->rt_flags & (RTCF_MULTICAST | RTCF_BROADCAST)) { ip_rt_put(rt); return -ENETUNREACH; }"
        if matches!(self.address_kind(to.ip(), cx), AddressKind::Broadcast | AddressKind::Multicast) {
            return Err(Errno::ENETUNREACH);
        }
        let address = source.unwrap_or(route.source);
        let range = holds::range_of(self.get(s)?, self.registry.limits.ephemeral);
        let mut hold = holds::of(self.get(s)?, address, How::Connect);
        hold.remote = Some(to);
        let socket = self.get(s)?;
        match socket.hold {
            None => {
                let (id, port) = self.streams.ports.connect(hold, range, cx.now, cx.rng)?;
                let socket = self.get_mut(s)?;
                socket.hold = Some(id);
                socket.number = port;
            }
            Some(id) => {
                if !self.streams.ports.connection_free(socket.number, &hold, id) {
                    return Err(Errno::EADDRNOTAVAIL);
                }
                self.streams.ports.update(id, |held| (held.address, held.remote) = (address, Some(to)));
            }
        }
        let socket = self.get_mut(s)?;
        socket.local = crate::address::scoped(address, socket.number, socket.options.interface);
        socket.remote = Some(to);
        // tcp_connect_init: "WRITE_ONCE(sk->sk_err, 0); sock_reset_flag(sk, SOCK_DONE);"
        socket.error = None;
        let local = socket.local;
        let Some(stream) = socket.stream_mut() else { return Err(Errno::EINVAL) };
        stream.state = TcpState::SynSent;
        stream.done = false;
        (stream.credit, stream.capacity) = (0, 0);
        socket.match_family(to.ip());
        self.count(crate::counters::CONNECTS);
        Ok((local, to, route.mtu))
    }

    /// `tcp_connect`: the SYN leaves, with what it can carry of `first`.
    pub(crate) fn begin_flow(
        &mut self,
        s: SocketId,
        local: SocketAddr,
        to: SocketAddr,
        mtu: u32,
        first: Option<bytes::Bytes>,
        cx: &mut Context<'_>,
    ) -> Result<usize, Errno> {
        let flow = self.new_flow();
        let socket = self.get_mut(s)?;
        if let Some(stream) = socket.stream_mut() {
            (stream.flow, stream.deferred) = (Some(flow), false);
        }
        let options = socket.stream().map(|stream| stream.transport.clone()).unwrap_or_default();
        self.streams.flows.insert(flow, Flow { owner: Some(s), hold: None, local, remote: Some(to), time_wait: None });
        Ok(self.open_flow(flow, local, to, options, first, mtu, cx))
    }

    /// A number for a new flow. Numbers that are not used up are no loss.
    pub(crate) fn new_flow(&mut self) -> FlowId {
        let flow = FlowId(self.streams.next_flow);
        self.streams.next_flow += 1;
        flow
    }

    /// Lets go of the flow: whatever it still does concerns nobody. `keep_port`: the flow holds the port until it is released.
    pub(crate) fn abandon_flow(&mut self, s: SocketId, keep_port: bool) -> Option<FlowId> {
        let socket = self.registry.store.get_mut(s)?;
        let flow = socket.stream_mut()?.flow.take()?;
        let hold = if keep_port { socket.hold.take() } else { None };
        let unused = match self.streams.flows.get_mut(&flow) {
            Some(entry) => {
                entry.owner = None;
                // In TIME-WAIT it has a hold already (see `done`).
                if entry.hold.is_none() { std::mem::replace(&mut entry.hold, hold) } else { hold }
            }
            None => hold,
        };
        if let Some(hold) = unused {
            self.streams.ports.release(hold);
        }
        Some(flow)
    }

    /// `tcp_set_state(sk, TCP_CLOSE)`: "if (inet_csk(sk)->icsk_bind_hash && !(sk->sk_userlocks & SOCK_BINDPORT_LOCK)) inet_put_port(sk);"
    pub(crate) fn enter_close(&mut self, s: SocketId) {
        let Some(socket) = self.registry.store.get_mut(s) else { return };
        if let Some(stream) = socket.stream_mut() {
            stream.state = TcpState::Close;
        }
        let (locked, hold) = (socket.port_locked, socket.hold);
        if !locked {
            self.release_port(s);
        } else if let Some(hold) = hold {
            self.streams.ports.update(hold, |held| {
                held.listening = false;
                held.remote = None;
            });
        }
    }

    /// `tcp_done`: the connection is over for the program. While the flow lives on in TIME-WAIT it holds the port in the socket's place.
    pub(crate) fn done(&mut self, s: SocketId) {
        let flow = self.registry.store.get(s).and_then(|socket| socket.stream()?.flow);
        if let Some(socket) = self.registry.store.get(s).filter(|socket| socket.hold.is_some())
            && let Some(entry) = flow.and_then(|flow| self.streams.flows.get_mut(&flow)).filter(|entry| entry.hold.is_none())
        {
            // The flow's own hold; the socket keeps its hold if the program bound it, as the kernel's two owners of one bind bucket do.
            let twin = Hold {
                address: entry.local.ip(),
                v6_only: socket.options.v6_only,
                owner: socket.owner,
                interface: socket.options.interface,
                reuse_address: socket.options.reuse_address,
                reuse_port: socket.options.reuse_port,
                listening: false,
                remote: entry.remote,
                how: if socket.port_locked { How::Bind } else { How::Connect },
                time_wait: entry.time_wait,
            };
            entry.hold = Some(self.streams.ports.hold(entry.local.port(), twin));
        }
        self.enter_close(s);
        if let Some(socket) = self.registry.store.get_mut(s) {
            socket.shutdown = Shutdown::BOTH;
        }
        self.touch(s);
    }

    /// `tcp_disconnect`: connect(AF_UNSPEC), a failed connect that is tried again, shutdown of a listener.
    pub(crate) fn disconnect(&mut self, s: SocketId, cx: &mut Context<'_>) {
        let Some(state) = self.registry.store.get(s).and_then(|socket| Some(socket.stream()?.state)) else { return };
        self.forget_unread(s, cx);
        match state {
            TcpState::Close => {}
            TcpState::Listen => self.stop_listening(s, cx),
            _ => {
                if let Some(flow) = self.abandon_flow(s, false) {
                    self.call(flow, StreamCall::Abort, cx);
                }
            }
        }
        if state != TcpState::Close {
            self.enter_close(s);
        } else {
            self.abandon_flow(s, false);
        }
        let Some(socket) = self.registry.store.get_mut(s) else { return };
        // "else if (old_state == TCP_SYN_SENT) WRITE_ONCE(sk->sk_err, ECONNRESET);", and for what needs a reset.
        if matches!(state, TcpState::SynSent | TcpState::Established | TcpState::FinWait | TcpState::CloseWait) {
            socket.error = Some(Errno::ECONNRESET);
        }
        socket.remote = None;
        if !socket.address_locked {
            socket.reset_address();
        }
        socket.shutdown = Shutdown::default();
        let (hold, address) = (socket.hold, socket.local.ip());
        if let Some(stream) = socket.stream_mut() {
            let (transport, backlog) = (std::mem::take(&mut stream.transport), stream.backlog);
            *stream = Stream { transport, backlog, phase: stream.phase, ..Stream::new() };
        }
        if let Some(hold) = hold {
            self.streams.ports.update(hold, |held| (held.address, held.remote) = (address, None));
        }
        self.touch(s);
    }

    /// connect(2) on a stream socket: `__inet_stream_connect`, in its order.
    pub(crate) fn connect_stream(&mut self, s: SocketId, family: i32, address: &[u8], cx: &mut Context<'_>) -> Result<(), Errno> {
        if family == crate::address::AF_UNSPEC {
            self.disconnect(s, cx);
            self.set_phase(s, Phase::Unconnected);
            return Ok(());
        }
        let stream = self.get(s)?.stream().ok_or(Errno::EINVAL)?;
        match (stream.phase, stream.state) {
            (Phase::Connected, _) => Err(Errno::EISCONN),
            (Phase::Disconnecting, _) => Err(Errno::EINVAL),
            // "if (inet_test_bit(DEFER_CONNECT, sk)) err = is_sendmsg ? -EINPROGRESS : -EISCONN; else err = -EALREADY;"
            (Phase::Connecting, TcpState::SynSent) => Err(if stream.deferred { Errno::EISCONN } else { Errno::EALREADY }),
            (Phase::Connecting, TcpState::Close) => {
                // "sock_error: err = sock_error(sk) ? : -ECONNABORTED; sock->state = SS_UNCONNECTED; if (sk->sk_prot->disconnect(sk, flags)) …"
                let error = self.get_mut(s)?.take_error().unwrap_or(Errno::ECONNABORTED);
                self.disconnect(s, cx);
                self.set_phase(s, Phase::Unconnected);
                Err(error)
            }
            (Phase::Connecting, _) => {
                self.set_phase(s, Phase::Connected);
                Ok(())
            }
            (Phase::Unconnected, TcpState::Close) => {
                let to = if self.get(s)?.is_v6() {
                    inet6::connect_v6(self.registry.get_mut(s)?, &mut self.streams.ports, address, cx)?
                } else {
                    crate::address::for_connect(address)?
                };
                self.start_connect(s, to, cx)?;
                self.set_phase(s, Phase::Connecting);
                self.touch(s);
                // "if (!err && inet_test_bit(DEFER_CONNECT, sk)) goto out;"
                if self.get(s)?.stream().is_some_and(|stream| stream.deferred) { Ok(()) } else { Err(Errno::EINPROGRESS) }
            }
            (Phase::Unconnected, _) => Err(Errno::EISCONN),
        }
    }

    pub(crate) fn set_phase(&mut self, s: SocketId, phase: Phase) {
        if let Some(stream) = self.registry.store.get_mut(s).and_then(|socket| socket.stream_mut()) {
            stream.phase = phase;
        }
    }
}
