//! Connections of streams: connecting, and dissolving.

use crate::address;
use crate::counters;
use crate::errno::Errno;
use crate::fast_open;
use crate::holds;
use crate::inet6;
use crate::listener;
use crate::outgoing;
use crate::outputs::TCP;
use crate::poll::Poll;
use crate::ports::How;
use crate::registry::Registry;
use crate::routes;
use crate::socket::{Phase, Shutdown, SocketId, Stream, TcpState};
use crate::stream_receive;
use crate::streams::{Ends, Flow, Streams, set_phase};
use bytes::Bytes;
use std::net::SocketAddr;
use weft_core::table::AddressKind;
use weft_core::{Context, StreamCall};

/// `tcp_v4_connect`: chooses address and port and starts. Leaves the socket as it was on error.
fn start(streams: &mut Streams, sockets: &mut Registry, s: SocketId, to: SocketAddr, cx: &mut Context<'_>) -> Result<(), Errno> {
    let asks = sockets.get(s)?.stream().is_some_and(|stream| stream.fast_open_connect);
    let ends = prepare(streams, sockets, s, to, cx)?;
    if asks && fast_open::can_defer(sockets.get(s)?, ends, cx) {
        if let Some(stream) = sockets.get_mut(s)?.stream_mut() {
            stream.deferred = true;
        }
        return Ok(());
    }
    begin(streams, sockets, s, ends, asks.then(Bytes::new), cx).map(|_| ())
}

/// The same with data for the SYN (Fast Open), of which it returns how much was taken.
pub(crate) fn start_with(
    streams: &mut Streams,
    sockets: &mut Registry,
    s: SocketId,
    to: SocketAddr,
    first: Option<Bytes>,
    cx: &mut Context<'_>,
) -> Result<usize, Errno> {
    let ends = prepare(streams, sockets, s, to, cx)?;
    begin(streams, sockets, s, ends, first, cx)
}

/// Both addresses of the connection, which the socket has from now on, and the path's MTU.
fn prepare(streams: &mut Streams, sockets: &mut Registry, s: SocketId, to: SocketAddr, cx: &mut Context<'_>) -> Result<Ends, Errno> {
    // Nobody would ever answer.
    if !cx.is_bound(TCP) {
        return Err(Errno::ENETDOWN);
    }
    let (own, interface) = (sockets.get(s)?.local.ip(), sockets.get(s)?.options.interface);
    let to = routes::destination(to, own);
    let source = routes::source_for(own, to.ip())?;
    let traffic = routes::traffic_of(sockets.get(s)?, to.port(), None);
    let route = routes::through(outgoing::first_hop(sockets.get(s)?, &Default::default(), to.ip()), source, interface, traffic, cx)?;
    // "if (rt->rt_flags & (RTCF_MULTICAST | RTCF_BROADCAST)) { ip_rt_put(rt); return -ENETUNREACH; }"
    if matches!(sockets.kinds.of(to.ip(), cx), AddressKind::Broadcast | AddressKind::Multicast) {
        return Err(Errno::ENETUNREACH);
    }
    let address = source.unwrap_or(route.source);
    let range = holds::range_of(sockets.get(s)?, sockets.limits.ephemeral);
    let mut hold = holds::of(sockets.get(s)?, address, How::Connect);
    hold.remote = Some(to);
    let socket = sockets.get(s)?;
    match socket.hold {
        None => {
            let (id, port) = streams.ports.connect(hold, range, sockets.limits.reuse, cx.now, cx.rng)?;
            let socket = sockets.get_mut(s)?;
            socket.hold = Some(id);
            socket.number = port;
        }
        Some(id) => {
            if !streams.ports.connection_free(socket.number, &hold, id) {
                return Err(Errno::EADDRNOTAVAIL);
            }
            streams.ports.update(id, |held| (held.address, held.remote) = (address, Some(to)));
        }
    }
    let socket = sockets.get_mut(s)?;
    socket.local = address::scoped(address, socket.number, socket.options.interface);
    socket.remote = Some(to);
    // tcp_connect_init: "WRITE_ONCE(sk->sk_err, 0); sock_reset_flag(sk, SOCK_DONE);"
    socket.error = None;
    let local = socket.local;
    let Some(stream) = socket.stream_mut() else { return Err(Errno::EINVAL) };
    stream.state = TcpState::SynSent;
    stream.done = false;
    (stream.credit, stream.capacity) = (0, 0);
    socket.match_family(to.ip());
    sockets.count(counters::CONNECTS);
    Ok(Ends { local, remote: to, mtu: route.mtu })
}

/// `tcp_connect`: the SYN leaves, with what it can carry of `first`.
pub(crate) fn begin(
    streams: &mut Streams,
    sockets: &mut Registry,
    s: SocketId,
    ends: Ends,
    first: Option<Bytes>,
    cx: &mut Context<'_>,
) -> Result<usize, Errno> {
    let flow = streams.new_flow();
    let socket = sockets.get_mut(s)?;
    if let Some(stream) = socket.stream_mut() {
        (stream.flow, stream.deferred) = (Some(flow), false);
    }
    let options = socket.stream().map(|stream| stream.transport.clone()).unwrap_or_default();
    let entry = Flow { owner: Some(s), hold: None, local: ends.local, remote: Some(ends.remote), time_wait: None };
    streams.flows.insert(flow, entry);
    let taken = fast_open::open(streams, flow, ends, options, first, cx);
    if let Some(stream) = sockets.get_mut(s)?.stream_mut() {
        stream.written = taken as u64;
    }
    Ok(taken)
}

/// `tcp_disconnect`: connect(AF_UNSPEC), a failed connect that is tried again, shutdown of a listener.
pub(crate) fn disconnect(streams: &mut Streams, sockets: &mut Registry, s: SocketId, cx: &mut Context<'_>) {
    let Some(state) = sockets.store.get(s).and_then(|socket| Some(socket.stream()?.state)) else { return };
    stream_receive::forget_unread(sockets, s, cx);
    match state {
        TcpState::Close => {}
        TcpState::Listen => listener::stop(streams, sockets, s, cx),
        _ => {
            if let Some(flow) = streams.abandon(sockets, s, false) {
                streams.call(flow, StreamCall::Abort, cx);
            }
        }
    }
    if state != TcpState::Close {
        streams.enter_close(sockets, s);
    } else {
        streams.abandon(sockets, s, false);
    }
    let Some(socket) = sockets.store.get_mut(s) else { return };
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
        let errors = std::mem::take(&mut stream.errors);
        *stream = Stream { transport, backlog, phase: stream.phase, errors, ..Stream::new() };
    }
    if let Some(hold) = hold {
        streams.ports.update(hold, |held| (held.address, held.remote) = (address, None));
    }
    sockets.touch(s, Poll::ALL);
}

/// connect(2) on a stream socket: `__inet_stream_connect`, in its order.
pub(crate) fn connect(
    streams: &mut Streams,
    sockets: &mut Registry,
    s: SocketId,
    family: i32,
    address: &[u8],
    cx: &mut Context<'_>,
) -> Result<(), Errno> {
    if family == address::AF_UNSPEC {
        disconnect(streams, sockets, s, cx);
        set_phase(sockets, s, Phase::Unconnected);
        return Ok(());
    }
    let stream = sockets.get(s)?.stream().ok_or(Errno::EINVAL)?;
    match (stream.phase, stream.state) {
        (Phase::Connected, _) => Err(Errno::EISCONN),
        (Phase::Disconnecting, _) => Err(Errno::EINVAL),
        // "if (inet_test_bit(DEFER_CONNECT, sk)) err = is_sendmsg ? -EINPROGRESS : -EISCONN; else err = -EALREADY;"
        (Phase::Connecting, TcpState::SynSent) => Err(if stream.deferred { Errno::EISCONN } else { Errno::EALREADY }),
        (Phase::Connecting, TcpState::Close) => {
            // "sock_error: err = sock_error(sk) ? : -ECONNABORTED; sock->state = SS_UNCONNECTED; if (sk->sk_prot->disconnect(sk, flags)) …"
            let error = sockets.get_mut(s)?.take_error().unwrap_or(Errno::ECONNABORTED);
            disconnect(streams, sockets, s, cx);
            set_phase(sockets, s, Phase::Unconnected);
            Err(error)
        }
        (Phase::Connecting, _) => {
            set_phase(sockets, s, Phase::Connected);
            Ok(())
        }
        (Phase::Unconnected, TcpState::Close) => {
            let to = if sockets.get(s)?.is_v6() {
                inet6::connect_v6(sockets.get_mut(s)?, &mut streams.ports, address, cx)?
            } else {
                address::for_connect(address)?
            };
            start(streams, sockets, s, to, cx)?;
            set_phase(sockets, s, Phase::Connecting);
            sockets.touch(s, Poll::NONE);
            // "if (!err && inet_test_bit(DEFER_CONNECT, sk)) goto out;"
            if sockets.get(s)?.stream().is_some_and(|stream| stream.deferred) { Ok(()) } else { Err(Errno::EINPROGRESS) }
        }
        (Phase::Unconnected, _) => Err(Errno::EISCONN),
    }
}
