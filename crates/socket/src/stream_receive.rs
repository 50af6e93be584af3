//! Receiving on stream sockets: `tcp_recvmsg_locked`, with the urgent byte (RFC 6093 as Linux reads it) and MSG_PEEK, MSG_TRUNC, MSG_WAITALL.

use crate::abi::*;
use crate::cmsg;
use crate::errno::Errno;
use crate::error_queue;
use crate::outputs::TCP;
use crate::poll::Poll;
use crate::received::Received;
use crate::registry::Registry;
use crate::socket::{Socket, SocketId, Stream, TcpState, Urgent, UrgentData};
use crate::streams::Streams;
use bytes::Bytes;
use weft_core::{Context, DataFlags, FlowId, Instant, StreamCall, StreamError, StreamMessage, Tail};

/// recvmsg(2): `tcp_recvmsg_locked`.
pub(crate) fn receive(sockets: &mut Registry, s: SocketId, length: usize, flags: i32, cx: &mut Context<'_>) -> Result<Received, Errno> {
    if flags & MSG_ERRQUEUE != 0 {
        // tcp_recvmsg: "if (unlikely(flags & MSG_ERRQUEUE)) return inet_recv_error(sk, msg, len, addr_len);"
        return error_queue::receive(sockets, s, length);
    }
    let socket = sockets.get_mut(s)?;
    let state = socket.stream().ok_or(Errno::ENOTCONN)?.state;
    if state == TcpState::Listen {
        return Err(Errno::ENOTCONN);
    }
    if flags & MSG_OOB != 0 {
        return receive_urgent(socket, length, flags);
    }
    let low_water = usize::try_from(socket.options.receive_low_water).unwrap_or(1).max(1);
    // A caller that waits for all gets at least what the buffer can hold at once; it calls again for the rest.
    let bound = (socket.options.receive_buffer as usize / 2).max(1);
    let target = if flags & MSG_WAITALL != 0 { length.min(bound) } else { length.min(low_water) };
    let before = socket.stream().map_or(0, |stream| stream.copied);
    let waits = flags & MSG_DONTWAIT == 0;
    let Some(stream) = socket.stream() else { return Err(Errno::ENOTCONN) };
    let ends = stream.done || socket.error.is_some() || socket.shutdown.receive || stream.state == TcpState::Close;
    let least = if stream.window_is_small { 1 } else { target.max(1) };
    if waits && !ends && (length > 0 || stream.unread() == 0) && readable_run(socket, stream) < least {
        return Err(Errno::EAGAIN);
    }
    let empty = stream.unread() == 0;
    let taken = take(socket, length, flags);
    let counted = taken.counted;
    let flow = socket.stream().and_then(|stream| stream.flow.or(stream.left));
    let after = socket.stream().map_or(0, |stream| stream.copied);
    // tcp_recvmsg_locked looks for data before it looks at the length: a read of nothing fails where nothing is there.
    if counted == 0 && (length > 0 || empty) {
        credit_back(flow, after - before, cx);
        return nothing_to_read(sockets, s);
    }
    credit_back(flow, after - before, cx);
    let boot_time = sockets.limits.boot_time_nanos;
    let socket = sockets.get(s)?;
    let mut control = taken.came.map_or_else(Vec::new, |at| cmsg::of_stream_time(socket, at, boot_time));
    control.extend(inquiry_message(socket));
    Ok(Received { data: taken.data, from: Vec::new(), flags: 0, control, datagram_bytes: counted })
}

/// Tells the transport how many bytes have left the receive buffer.
fn credit_back(flow: Option<FlowId>, bytes: u64, cx: &mut Context<'_>) {
    if let Some(flow) = flow
        && bytes > 0
    {
        cx.send(TCP, StreamMessage::Credit { flow, bytes: u32::try_from(bytes).unwrap_or(u32::MAX), enough: 0 });
    }
}

/// What nobody has read is thrown away: the transport need not count it any more.
pub(crate) fn forget_unread(sockets: &mut Registry, s: SocketId, cx: &mut Context<'_>) {
    let Some(stream) = sockets.store.get_mut(s).and_then(Socket::stream_mut) else { return };
    let (left, unread) = (stream.left.take(), stream.unread() as u64);
    credit_back(left, unread, cx);
}

/// What a read gives when no byte is there, in tcp_recvmsg_locked's order.
fn nothing_to_read(sockets: &mut Registry, s: SocketId) -> Result<Received, Errno> {
    let socket = sockets.get_mut(s)?;
    let Some(stream) = socket.stream() else { return Err(Errno::ENOTCONN) };
    // "if (sock_flag(sk, SOCK_DONE)) break; if (sk->sk_err) { copied = sock_error(sk); break; } if (sk->sk_shutdown & RCV_SHUTDOWN) break;
    //  if (sk->sk_state == TCP_CLOSE) { copied = -ENOTCONN; break; } if (!timeo) { copied = -EAGAIN; break; }"
    let (done, state) = (stream.done, stream.state);
    if done {
        return Ok(Received::default());
    }
    if let Some(error) = socket.take_error() {
        return Err(error);
    }
    if socket.shutdown.receive {
        return Ok(Received::default());
    }
    Err(if state == TcpState::Close { Errno::ENOTCONN } else { Errno::EAGAIN })
}

/// SIOCINQ: what FIONREAD says.
pub(crate) fn inquire(socket: &Socket) -> usize {
    let Some(stream) = socket.stream() else { return 0 };
    if stream.state == TcpState::SynSent {
        return 0;
    }
    match stream.urgent {
        Some(urgent) if !socket.options.urgent_inline && urgent.at >= stream.copied && urgent.at < stream.arrived => {
            (urgent.at - stream.copied) as usize
        }
        _ => stream.unread(),
    }
}

/// TCP_INQ: a control message with the bytes that are left to read.
fn inquiry_message(socket: &Socket) -> Vec<u8> {
    if !socket.options.tcp_inq {
        return Vec::new();
    }
    cmsg::message(SOL_TCP, TCP_INQ, &(inquire(socket) as i32).to_ne_bytes())
}

/// Bytes came in from the transport.
pub(crate) fn data(streams: &mut Streams, sockets: &mut Registry, s: SocketId, bytes: Bytes, flags: DataFlags, cx: &mut Context<'_>) {
    let Some(socket) = sockets.store.get_mut(s) else { return };
    let (receive_over, keeps_what_comes) = (socket.shutdown.receive, socket.protocol == IPPROTO_MPTCP);
    let Some(stream) = socket.stream_mut() else { return };
    // tcp_rcv_state_process, FIN_WAIT: "RFC 793 says to queue data in these states, RFC 1122 says we MUST send a reset. BSD 4.4 also
    // does reset.", when the program has shut down both directions. Multipath TCP queues it: its subflows are not shut down so.
    if receive_over && stream.state == TcpState::FinWait && !keeps_what_comes {
        if let Some(flow) = stream.flow {
            streams.call(flow, StreamCall::Abort, cx);
        }
        return streams.fail(sockets, s, StreamError::Reset);
    }
    if flags.urgent && !bytes.is_empty() {
        announce(stream, stream.arrived + bytes.len() as u64 - 1);
    }
    stream.arrived += bytes.len() as u64;
    stream.window_is_small = flags.window_is_small;
    stream.times.came(stream.arrived, cx.now);
    stream.queue.push(bytes);
    settle_urgent(stream);
    sockets.touch(s, Poll::WAKES_READERS);
}

/// `tcp_check_urg`: the peer announced an urgent byte.
pub(crate) fn urgent(sockets: &mut Registry, s: SocketId, ahead: u32) {
    let Some(socket) = sockets.store.get_mut(s) else { return };
    let inline = socket.options.urgent_inline;
    let Some(stream) = socket.stream_mut() else { return };
    let at = stream.arrived + u64::from(ahead);
    // "if (tp->urg_seq == tp->copied_seq && tp->urg_data && !sock_flag(sk, SOCK_URGINLINE) && tp->copied_seq != tp->rcv_nxt) …
    //  tp->copied_seq++": an older urgent byte that nobody has passed yet is lost from the stream.
    let passed = stream.urgent.is_some_and(|old| old.at == stream.copied) && !inline && stream.copied != stream.arrived;
    if passed {
        drop_front(stream, 1);
    }
    announce(stream, at);
    sockets.touch(s, Poll::WAKES_READERS);
}

fn announce(stream: &mut Stream, at: u64) {
    // "Ignore urgent data that we've already seen and read", and the same pointer again.
    if at < stream.copied || stream.urgent.is_some_and(|old| old.at >= at && old.data != UrgentData::NotYet) {
        return;
    }
    stream.urgent = Some(Urgent { at, data: UrgentData::NotYet });
    settle_urgent(stream);
}

/// Finds the urgent byte once it has arrived.
fn settle_urgent(stream: &mut Stream) {
    let Some(Urgent { at, data: UrgentData::NotYet }) = stream.urgent else { return };
    if at < stream.copied || at >= stream.arrived {
        return;
    }
    if let Some(byte) = stream.queue.byte_at((at - stream.copied) as usize) {
        stream.urgent = Some(Urgent { at, data: UrgentData::Valid(byte) });
    }
}

/// `tcp_recv_urg`.
fn receive_urgent(socket: &mut Socket, length: usize, flags: i32) -> Result<Received, Errno> {
    let (inline, receive_over) = (socket.options.urgent_inline, socket.shutdown.receive);
    let Some(stream) = socket.stream_mut() else { return Err(Errno::EINVAL) };
    let Some(urgent) = stream.urgent.filter(|urgent| !inline && urgent.data != UrgentData::Read) else { return Err(Errno::EINVAL) };
    if stream.state == TcpState::Close && !stream.done {
        return Err(Errno::ENOTCONN);
    }
    if let UrgentData::Valid(byte) = urgent.data {
        if flags & MSG_PEEK == 0 {
            stream.urgent = Some(Urgent { data: UrgentData::Read, ..urgent });
        }
        if length == 0 {
            return Ok(Received { flags: MSG_OOB | MSG_TRUNC, ..Received::default() });
        }
        let data = if flags & MSG_TRUNC != 0 { Tail::new() } else { Tail::from_iter([Bytes::copy_from_slice(&[byte])]) };
        return Ok(Received { data, flags: MSG_OOB, datagram_bytes: 1, ..Received::default() });
    }
    // "Fixed the recv(..., MSG_OOB) behaviour. BSD docs and the available implementations agree in this case: this call should never block"
    if stream.state == TcpState::Close || receive_over { Ok(Received::default()) } else { Err(Errno::EAGAIN) }
}

/// Bytes that one read could take now: up to the urgent mark, and without the urgent byte itself.
fn readable_run(socket: &Socket, stream: &Stream) -> usize {
    let unread = stream.unread();
    match stream.urgent {
        Some(urgent) if urgent.at >= stream.copied && urgent.at < stream.arrived => {
            let before = (urgent.at - stream.copied) as usize;
            match before {
                0 if socket.options.urgent_inline => unread,
                0 => unread - 1,
                _ => usize::MAX,
            }
        }
        _ => unread,
    }
}

struct Taken {
    data: Tail,
    counted: usize,
    /// When the last byte of it came.
    came: Option<Instant>,
}

/// Takes (or with MSG_PEEK looks at) up to `length` bytes, stopping at the urgent mark, skipping the urgent byte unless it is inline.
fn take(socket: &mut Socket, length: usize, flags: i32) -> Taken {
    let inline = socket.options.urgent_inline;
    let peek = flags & MSG_PEEK != 0;
    let mut offset = match (peek, socket.options.peek_offset) {
        (true, from @ 0..) => from as usize,
        _ => 0,
    };
    let mut taken = Taken { data: Tail::new(), counted: 0, came: None };
    let Some(stream) = socket.stream_mut() else { return taken };
    let unread = stream.unread();
    while taken.counted < length && offset < unread {
        let mut run = (length - taken.counted).min(unread - offset);
        if let Some(urgent) = stream.urgent
            && urgent.at >= stream.copied + offset as u64
        {
            let before = urgent.at - (stream.copied + offset as u64);
            // "Are we at urgent data? Stop if we have read anything or have SIGURG pending."
            if before == 0 && taken.counted > 0 {
                break;
            }
            if before == 0 && !inline {
                offset += 1;
                continue;
            }
            if before > 0 {
                run = run.min(usize::try_from(before).unwrap_or(usize::MAX));
            }
        }
        stream.queue.copy_to(offset, run, &mut taken.data);
        taken.counted += run;
        offset += run;
    }
    if taken.counted > 0 {
        taken.came = stream.times.of(stream.copied + offset as u64);
    }
    if !peek {
        drop_front(stream, offset);
    } else if socket.options.peek_offset >= 0 {
        socket.options.peek_offset = i32::try_from(offset).unwrap_or(i32::MAX);
    }
    if !peek && socket.options.peek_offset > 0 {
        // sk_peek_offset_bwd
        socket.options.peek_offset = socket.options.peek_offset.saturating_sub(i32::try_from(offset).unwrap_or(i32::MAX)).max(0);
    }
    if flags & MSG_TRUNC != 0 {
        // tcp(7): with MSG_TRUNC the bytes are counted and thrown away.
        taken.data.clear();
    }
    taken
}

fn drop_front(stream: &mut Stream, bytes: usize) {
    stream.copied += bytes as u64;
    stream.window_is_small &= bytes == 0;
    stream.queue.drop_front(bytes);
    stream.times.forget_before(stream.copied);
    // "if (unlikely(tp->urg_data) && after(tp->copied_seq, tp->urg_seq)) WRITE_ONCE(tp->urg_data, 0);"
    if stream.urgent.is_some_and(|urgent| stream.copied > urgent.at) {
        stream.urgent = None;
    }
}
