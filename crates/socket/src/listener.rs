//! Listening sockets: listen(2), accept(2), connections that become ready for it, and the end of listening.

use crate::abi::{IPPROTO_MPTCP, IPPROTO_TCP, THE_PROCESSOR};
use crate::counters;
use crate::errno::Errno;
use crate::holds;
use crate::options::Options;
use crate::outputs::TCP;
use crate::poll::Poll;
use crate::ports::How;
use crate::registry::Registry;
use crate::socket::{Body, Phase, Socket, SocketId, Stream, TcpState};
use crate::stream_receive;
use crate::streams::{Flow, Streams};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use weft_core::{Answer, CallId, Context, FlowId, Query, StreamCall, StreamError, StreamMessage, StreamOption, Table};

/// listen(2): `__inet_listen_sk`.
pub(crate) fn listen(streams: &mut Streams, sockets: &mut Registry, s: SocketId, backlog: i32, cx: &mut Context<'_>) -> Result<(), Errno> {
    let stream = sockets.get(s)?.stream().ok_or(Errno::EOPNOTSUPP)?;
    // __inet_listen_sk: "if (sock->state != SS_UNCONNECTED …) return -EINVAL; if (!((1 << old_state) & (TCPF_CLOSE | TCPF_LISTEN))) …"
    if stream.phase != Phase::Unconnected || !matches!(stream.state, TcpState::Close | TcpState::Listen) {
        return Err(Errno::EINVAL);
    }
    // __sys_listen: "if ((unsigned int)backlog > somaxconn) backlog = somaxconn;"
    let backlog = (backlog as u32).min(sockets.limits.backlog_max);
    let again = stream.state == TcpState::Listen;
    if !again {
        check_listen(streams, sockets, s, cx)?;
    }
    let fresh = streams.new_flow();
    let socket = sockets.get_mut(s)?;
    let local = socket.local;
    let Some(stream) = socket.stream_mut() else { return Err(Errno::EOPNOTSUPP) };
    stream.backlog = backlog;
    stream.state = TcpState::Listen;
    let flow = match stream.flow {
        Some(flow) if again => flow,
        _ => {
            stream.flow = Some(fresh);
            fresh
        }
    };
    if flow == fresh {
        streams.flows.insert(flow, Flow { owner: Some(s), hold: None, local, remote: None, time_wait: None });
    }
    if let Some(call) = listen_call(sockets.get(s)?) {
        streams.call(flow, call, cx);
    }
    sockets.touch(s, Poll::NONE);
    Ok(())
}

/// `inet_csk_listen_start`: the port is asked for once more, now as a listener.
fn check_listen(streams: &mut Streams, sockets: &mut Registry, s: SocketId, cx: &mut Context<'_>) -> Result<(), Errno> {
    if sockets.get(s)?.number == 0 {
        let ephemeral = sockets.limits.ephemeral;
        let socket = sockets.get_mut(s)?;
        let address = SocketAddr::new(socket.local.ip(), 0);
        holds::take(socket, &mut streams.ports, address, ephemeral, cx.rng)?;
        socket.local.set_port(socket.number);
    }
    let socket = sockets.get(s)?;
    let mut hold = holds::of(socket, socket.local.ip(), How::Bind);
    hold.listening = true;
    let id = socket.hold.ok_or(Errno::EADDRINUSE)?;
    streams.ports.check(id, &hold)?;
    streams.ports.update(id, |held| *held = hold);
    Ok(())
}

/// What the transport is told of a listener.
fn listen_call(socket: &Socket) -> Option<StreamCall> {
    let stream = socket.stream()?;
    // `::` serves IPv4 as well, unless the program said otherwise.
    let dual_stack = socket.local.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) && !socket.options.v6_only;
    // The transport lets one more wait, as sk_acceptq_is_full does.
    Some(StreamCall::Listen {
        local: socket.local,
        dual_stack,
        backlog: stream.backlog,
        options: stream.transport.clone(),
        extension: None,
    })
}

/// The transport hears of every listener once more: it may have begun after them, or somebody stands in front of it who has not heard of them. To those
/// whom it knows that is listen(2) again.
pub(crate) fn tell_all(sockets: &Registry, cx: &mut Context<'_>) {
    if !cx.has_owner(Table::Flows) || !cx.is_bound(TCP) {
        return;
    }
    let listening = sockets.store.iter().filter(|(_, socket)| socket.is_listening());
    let calls: Vec<(FlowId, StreamCall)> =
        listening.filter_map(|(_, socket)| Some((socket.stream()?.flow?, listen_call(socket)?))).collect();
    for (flow, call) in calls {
        // Its answer is not waited for, and it has no number of its own: nothing here has changed by it.
        cx.send(TCP, StreamMessage::Call { id: CallId(0), flow, op: Box::new(call) });
    }
}

/// accept(2) without the descriptor: `inet_csk_accept`.
pub(crate) fn accept(streams: &mut Streams, sockets: &mut Registry, s: SocketId, cx: &mut Context<'_>) -> Result<SocketId, Errno> {
    let stream = sockets.get_mut(s)?.stream_mut().ok_or(Errno::EOPNOTSUPP)?;
    if stream.state != TcpState::Listen {
        return Err(Errno::EINVAL);
    }
    let child = stream.accept_queue.pop_front().ok_or(Errno::EAGAIN)?;
    let flow = stream.flow;
    if let Some(stream) = sockets.store.get_mut(child).and_then(|socket| socket.stream_mut()) {
        stream.parent = None;
        stream.phase = Phase::Connected;
    }
    if let Some(flow) = flow {
        streams.call(flow, StreamCall::Took { connections: 1 }, cx);
    }
    sockets.count(counters::ACCEPTS);
    sockets.touch(s, Poll::NONE);
    sockets.touch(child, Poll::NONE);
    Ok(child)
}

/// `inet_csk_complete_hashdance`: a connection is ready to be accepted. It inherits its listener's options.
pub(crate) fn accepted(
    streams: &mut Streams,
    sockets: &mut Registry,
    flow: FlowId,
    child: FlowId,
    local: SocketAddr,
    remote: SocketAddr,
    cx: &mut Context<'_>,
) {
    // A new block below begins to count anew: who still waits for the old one's connection of this number waits in vain.
    if let Some(old) = streams.owner(child) {
        streams.fail(sockets, old, StreamError::Reset);
        streams.released(sockets, child);
    }
    let listener = streams.owner(flow);
    let room = sockets.store.len() < sockets.limits.sockets_max;
    let parent = listener.and_then(|s| sockets.store.get(s)).filter(|socket| socket.is_listening());
    let (Some(listener), Some(parent), true) = (listener, parent, room) else {
        if !streams.flows.contains_key(&flow) {
            streams.call(flow, StreamCall::Close { unread: false, linger: None }, cx);
        }
        streams.flows.insert(child, Flow { owner: None, hold: None, local, remote: Some(remote), time_wait: None });
        streams.call(child, StreamCall::Abort, cx);
        streams.call(flow, StreamCall::Took { connections: 1 }, cx);
        sockets.count(counters::SOCKETS_FULL);
        return;
    };
    let mut stream = Stream::new();
    if let Some(of_parent) = parent.stream() {
        stream.transport = of_parent.transport.clone();
    }
    (stream.state, stream.phase, stream.flow, stream.parent) = (TcpState::Established, Phase::Connected, Some(child), Some(listener));
    let (domain, kind, options) = (parent.domain, parent.kind, parent.options.clone());
    // mptcp_stream_accept: "we are being invoked after accepting a non-mp-capable flow: sk is a tcp_sk, not an mptcp one."
    let plain = || !matches!(cx.ask(Table::Multipath, &Query::Connection(child)), Answer::Connection(_));
    let protocol = if parent.protocol == IPPROTO_MPTCP && plain() { IPPROTO_TCP } else { parent.protocol };
    let address_locked = parent.address_locked;
    let shutdown = parent.shutdown;
    // sk_clone: "newsk->sk_priority = 0; newsk->sk_incoming_cpu = raw_smp_processor_id();"
    let options =
        Options { priority: 0, incoming_cpu: THE_PROCESSOR, zerocopy_key: 0, memberships: Vec::new(), ip_options: None, ..options };
    let owner = parent.owner;
    let mut socket = sockets.fresh(domain, kind, protocol, options, Body::Stream(stream));
    socket.owner = owner;
    (socket.local, socket.remote, socket.number) = (local, Some(remote), local.port());
    // inet_reqsk_alloc: "ireq->ir_iif = … if (ipv6_addr_type(&ireq->ir_v6_rmt_addr) & IPV6_ADDR_LINKLOCAL)"; the child is bound to it.
    if let SocketAddr::V6(v6) = remote
        && v6.scope_id() != 0
    {
        socket.options.interface = v6.scope_id();
    }
    dress(streams, child, &mut socket, remote.ip(), cx);
    // sk_clone: "newsk->sk_userlocks = sk->sk_userlocks & ~SOCK_BINDPORT_LOCK"
    (socket.address_locked, socket.shutdown) = (address_locked, shutdown);
    let id = sockets.store.insert(socket);
    streams.flows.insert(child, Flow { owner: Some(id), hold: None, local, remote: Some(remote), time_wait: None });
    if let Ok(hold) = sockets.get(id).map(|socket| holds::of(socket, local.ip(), How::Bind)) {
        let hold = streams.ports.hold(local.port(), hold);
        if let Some(socket) = sockets.store.get_mut(id) {
            socket.hold = Some(hold);
        }
    }
    if let Some(stream) = sockets.store.get_mut(listener).and_then(|socket| socket.stream_mut()) {
        stream.accept_queue.push_back(id);
    }
    sockets.count(counters::PASSIVE_OPENS);
    // A listener that was shut down for writing before it listened bears connections that are: tcp_rcv_state_process, SYN_RECV.
    if shutdown.send {
        streams.shut_down(sockets, id, shutdown, TcpState::Established, cx);
    }
    sockets.touch(listener, Poll::WAKES_READERS);
}

/// The listener's options came with the child; which of the two families' (IP_TTL or IPV6_UNICAST_HOPS …) count, its peer decides.
fn dress(streams: &mut Streams, child: FlowId, socket: &mut Socket, peer: IpAddr, cx: &mut Context<'_>) {
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
        streams.call(child, StreamCall::Set(option), cx);
    }
}

/// `inet_csk_listen_stop`: ends the listener; connections that nobody accepted are reset.
pub(crate) fn stop(streams: &mut Streams, sockets: &mut Registry, s: SocketId, cx: &mut Context<'_>) {
    let Some(stream) = sockets.store.get_mut(s).and_then(|socket| socket.stream_mut()) else { return };
    let waiting = std::mem::take(&mut stream.accept_queue);
    if let Some(flow) = streams.abandon(sockets, s, false) {
        streams.call(flow, StreamCall::Close { unread: false, linger: None }, cx);
    }
    for child in waiting {
        stream_receive::forget_unread(sockets, child, cx);
        if let Some(flow) = streams.abandon(sockets, child, true) {
            streams.call(flow, StreamCall::Abort, cx);
        }
        streams.remove(sockets, child);
    }
}
