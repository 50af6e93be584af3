//! Sending on stream sockets: `tcp_sendmsg_locked`, and sends that connect (RFC 7413; `tcp_sendmsg_fastopen`).

use crate::abi::{MSG_EOR, MSG_FASTOPEN, MSG_MORE, MSG_NOT_LAST, MSG_OOB, MSG_ZEROCOPY};
use crate::address;
use crate::cmsg;
use crate::connection;
use crate::errno::Errno;
use crate::error_queue;
use crate::fast_open;
use crate::inet6;
use crate::outputs::TCP;
use crate::poll::Poll;
use crate::registry::Registry;
use crate::routes;
use crate::sending::Sending;
use crate::socket::{Phase, Socket, SocketId, TcpState};
use crate::streams::{Ends, Streams, info, set_phase};
use bytes::Bytes;
use weft_core::stream::SHORT_QUEUE_BYTES_MAX;
use weft_core::{Context, DataFlags, Stamps, StreamMessage};

/// `tcp_sendmsg_locked`, with the order of its checks.
pub(crate) fn send(
    streams: &mut Streams,
    sockets: &mut Registry,
    s: SocketId,
    sending: Sending<'_>,
    cx: &mut Context<'_>,
) -> Result<usize, Errno> {
    let Sending { data, flags, to, control } = sending;
    if flags & MSG_FASTOPEN != 0
        && let Some(taken) = send_fast_open(streams, sockets, s, &data, to, cx)?
    {
        return Ok(taken);
    }
    if sockets.get(s)?.stream().is_some_and(|stream| stream.deferred) {
        return send_deferred(streams, sockets, s, &data, cx);
    }
    let socket = sockets.get_mut(s)?;
    let Some(stream) = socket.stream() else { return Err(Errno::EPIPE) };
    let open = matches!(stream.state, TcpState::Established | TcpState::CloseWait);
    if !open {
        // sk_stream_wait_connect
        if let Some(error) = socket.take_error() {
            return Err(error);
        }
        let connecting = socket.stream().is_some_and(|stream| stream.state == TcpState::SynSent);
        return Err(if connecting { Errno::EAGAIN } else { Errno::EPIPE });
    }
    let asked = cmsg::for_stream(control, socket)?;
    if socket.error.is_some() || socket.shutdown.send {
        return Err(socket.take_error().unwrap_or(Errno::EPIPE));
    }
    if data.is_empty() {
        return Ok(0);
    }
    let Some(stream) = socket.stream() else { return Err(Errno::EPIPE) };
    let (Some(flow), credit) = (stream.flow, stream.credit) else { return Err(Errno::EPIPE) };
    // A write that is larger than what is free may still end in a buffer that has been begun (tcp_sendmsg_locked).
    let room =
        if data.len() > credit { usize::try_from(info(socket, cx).write_room_bytes).unwrap_or(usize::MAX).max(credit) } else { credit };
    let taken = data.len().min(room).min(room_while_short(streams, socket, cx));
    let whole = taken == data.len();
    let last = flags & MSG_NOT_LAST == 0;
    let stamps = if last { error_queue::stamps(&socket.options, &asked) } else { Stamps::default() };
    let Some(stream) = sockets.get_mut(s)?.stream_mut() else { return Err(Errno::EPIPE) };
    if taken == 0 {
        stream.refused = credit > 0;
        return Err(Errno::EAGAIN);
    }
    stream.credit = stream.credit.saturating_sub(taken);
    stream.written += taken as u64;
    let asks = |flag: i32| flags & flag != 0 && whole && last;
    // "if (!msg_data_left(msg)) { if (unlikely(flags & MSG_EOR)) TCP_SKB_CB(skb)->eor = 1; goto out; }"
    let of_data = DataFlags {
        more: flags & MSG_MORE != 0 && whole,
        urgent: asks(MSG_OOB),
        record_end: asks(MSG_EOR),
        stamps,
        ..DataFlags::default()
    };
    cx.send(TCP, StreamMessage::Data { flow, bytes: data.slice(..taken), flags: of_data, mapping: 0 });
    if flags & MSG_ZEROCOPY != 0 && last {
        error_queue::zerocopy_done(sockets, s, cx.now);
    }
    Ok(taken)
}

/// What may be added to a stream's send queue as far as the memory of all streams is concerned (sk_stream_alloc_skb).
fn room_while_short(streams: &Streams, socket: &Socket, cx: &Context<'_>) -> usize {
    match streams.short_of_memory {
        false => usize::MAX,
        true => SHORT_QUEUE_BYTES_MAX.saturating_sub(info(socket, cx).send_queue_bytes) as usize,
    }
}

/// send(2) with MSG_FASTOPEN. `Ok(None)`: the connection was established before, and the data goes the usual way.
fn send_fast_open(
    streams: &mut Streams,
    sockets: &mut Registry,
    s: SocketId,
    data: &Bytes,
    to: Option<&[u8]>,
    cx: &mut Context<'_>,
) -> Result<Option<usize>, Errno> {
    let address = to.unwrap_or_default();
    // "if (!(… & TFO_CLIENT_ENABLE) || (uaddr && … uaddr->sa_family == AF_UNSPEC)) return -EOPNOTSUPP;"
    if !fast_open::is_allowed(cx) || address::family(address) == Ok(address::AF_UNSPEC) {
        return Err(Errno::EOPNOTSUPP);
    }
    let stream = sockets.get(s)?.stream().ok_or(Errno::EPIPE)?;
    if stream.deferred {
        return send_deferred(streams, sockets, s, data, cx).map(Some);
    }
    if (stream.phase, stream.state) != (Phase::Unconnected, TcpState::Close) {
        let family = address::family(address).unwrap_or(address::AF_INET);
        return connection::connect(streams, sockets, s, family, address, cx).map(|()| None);
    }
    let to = if sockets.get(s)?.is_v6() {
        inet6::connect_v6(sockets.get_mut(s)?, &mut streams.ports, address, cx)?
    } else {
        address::for_connect(address)?
    };
    let taken = connection::start_with(streams, sockets, s, to, Some(data.clone()), cx)?;
    set_phase(sockets, s, Phase::Connecting);
    sockets.touch(s, Poll::NONE);
    if taken == 0 { Err(Errno::EINPROGRESS) } else { Ok(Some(taken)) }
}

/// The first write to a connection that waited for it: EINPROGRESS when the SYN can carry nothing after all.
fn send_deferred(streams: &mut Streams, sockets: &mut Registry, s: SocketId, data: &Bytes, cx: &mut Context<'_>) -> Result<usize, Errno> {
    let socket = sockets.get(s)?;
    let (local, remote, interface) = (socket.local, socket.remote.ok_or(Errno::EPIPE)?, socket.options.interface);
    let traffic = routes::traffic_of(socket, remote.port(), None);
    // "if (err) { tcp_set_state(sk, TCP_CLOSE); inet->inet_dport = 0; sk->sk_route_caps = 0; }"
    let route = match routes::through(remote.ip(), Some(local.ip()), interface, traffic, cx) {
        Ok(route) => route,
        Err(error) => {
            streams.enter_close(sockets, s);
            return Err(error);
        }
    };
    let taken = connection::begin(streams, sockets, s, Ends { local, remote, mtu: route.mtu }, Some(data.clone()), cx)?;
    sockets.touch(s, Poll::NONE);
    if taken == 0 { Err(Errno::EINPROGRESS) } else { Ok(taken) }
}
