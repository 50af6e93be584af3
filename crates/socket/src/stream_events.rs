//! What comes in from the stream transport: data, room to send, and events.

use crate::abi::THE_PROCESSOR;
use crate::error_queue;
use crate::listener;
use crate::poll::Poll;
use crate::readiness;
use crate::registry::Registry;
use crate::socket::{Shutdown, SocketId, TcpState};
use crate::stream_receive;
use crate::streams::Streams;
use std::net::SocketAddr;
use weft_core::{Context, FlowId, StreamCall, StreamError, StreamEvent, StreamMessage};
use weft_wire::ipv4::Prepared;

/// A message from the stream transport.
pub(crate) fn message(streams: &mut Streams, sockets: &mut Registry, message: StreamMessage, cx: &mut Context<'_>) {
    match message {
        StreamMessage::Data { flow, bytes, flags, mapping: _ } => {
            if let Some(s) = streams.owner(flow) {
                comes_in(sockets, s);
                stream_receive::data(streams, sockets, s, bytes, flags, cx);
            } else if !streams.flows.contains_key(&flow) {
                // A connection of the block whose place this one has taken.
                streams.call(flow, StreamCall::Abort, cx);
            }
        }
        StreamMessage::Credit { flow, bytes, enough } => credit(streams, sockets, flow, bytes, enough),
        StreamMessage::Short(short) => streams.memory_is_short(sockets, short),
        StreamMessage::Event { flow, event } => flow_event(streams, sockets, flow, *event, cx),
        // Only a refused opening matters: everything that Set can refuse was checked before it was sent.
        StreamMessage::Reply { flow, result: Err(error), .. } => refused(streams, sockets, flow, error),
        // Words and room are for whoever gives a connection an extension, which sockets do not.
        StreamMessage::Reply { result: Ok(()), .. }
        | StreamMessage::Call { .. }
        | StreamMessage::Word { .. }
        | StreamMessage::Room { .. }
        | StreamMessage::Advice { .. } => {}
    }
}

/// The transport refused to open.
fn refused(streams: &mut Streams, sockets: &mut Registry, flow: FlowId, error: StreamError) {
    let opening = streams
        .owner(flow)
        .and_then(|s| Some((s, sockets.store.get(s)?.stream()?.state)))
        .filter(|(_, state)| matches!(state, TcpState::SynSent | TcpState::Listen));
    if let Some((s, _)) = opening {
        streams.fail(sockets, s, error);
    }
}

/// tcp_v4_rcv: "sk_incoming_cpu_update(sk);", of whatever came in.
fn comes_in(sockets: &mut Registry, s: SocketId) {
    if let Some(socket) = sockets.store.get_mut(s) {
        socket.options.incoming_cpu = THE_PROCESSOR;
    }
}

/// There is room to send again.
fn credit(streams: &Streams, sockets: &mut Registry, flow: FlowId, bytes: u32, enough: u32) {
    let Some(s) = streams.owner(flow) else { return };
    comes_in(sockets, s);
    let Some(stream) = sockets.store.get_mut(s).and_then(|socket| socket.stream_mut()) else { return };
    let before = readiness::is_writable(stream);
    let starved = stream.credit == 0 || std::mem::take(&mut stream.refused);
    stream.credit = stream.credit.saturating_add(bytes as usize);
    stream.capacity = stream.capacity.max(stream.credit);
    stream.enough = enough as usize;
    let is_writable = readiness::is_writable(stream);
    if starved || before != is_writable {
        sockets.touch(s, if is_writable { Poll::WAKES_WRITERS } else { Poll::NONE });
    }
}

/// Something happened to a flow.
fn flow_event(streams: &mut Streams, sockets: &mut Registry, flow: FlowId, event: StreamEvent, cx: &mut Context<'_>) {
    match event {
        StreamEvent::Accepted { child, local, remote, extended } => {
            if extended {
                // Whoever gave the listener an extension does not stand there any more.
                streams.call(child, StreamCall::Plain, cx);
            }
            return listener::accepted(streams, sockets, flow, child, local, remote, cx);
        }
        StreamEvent::Released => return streams.released(sockets, flow),
        StreamEvent::TimeWait => {
            if let Some(entry) = streams.flows.get_mut(&flow) {
                entry.time_wait = Some(cx.now);
                if let Some(hold) = entry.hold {
                    streams.ports.update(hold, |held| held.time_wait = Some(cx.now));
                }
            }
        }
        _ => {}
    }
    let Some(s) = streams.owner(flow) else { return };
    let came = matches!(
        event,
        StreamEvent::Established { .. } | StreamEvent::HalfClosed | StreamEvent::Failed(StreamError::Reset | StreamError::Refused)
    );
    if came {
        comes_in(sockets, s);
    }
    match event {
        StreamEvent::Established { local, remote } => established(streams, sockets, s, local, remote, cx),
        StreamEvent::HalfClosed => half_closed(sockets, s),
        StreamEvent::Failed(error) => streams.fail(sockets, s, error),
        StreamEvent::Soft(error) => soft_error(sockets, s, error),
        StreamEvent::Urgent { ahead } => stream_receive::urgent(sockets, s, ahead),
        StreamEvent::TimeWait => streams.done(sockets, s),
        StreamEvent::Began { syn, ip_options } => {
            if let Some(socket) = sockets.store.get_mut(s) {
                socket.options.ip_options = Prepared::new(&ip_options, |_| false).filter(|options| !options.is_empty());
                if let Some(stream) = socket.stream_mut() {
                    stream.saved_syn = Some(syn).filter(|syn| !syn.is_empty());
                    stream.transport.ip_options = ip_options;
                }
            }
        }
        // tcp_rcv_state_process: "if (!sock_flag(sk, SOCK_DEAD)) { /* Wake up lingering close() */ sk->sk_state_change(sk);"
        StreamEvent::SendQueueEmpty => sockets.touch(s, Poll::ALL),
        StreamEvent::Stamped { at, moment, bytes } => error_queue::stamped(sockets, s, at, moment, bytes, cx),
        StreamEvent::Accepted { .. } | StreamEvent::Released => {}
    }
}

/// `tcp_finish_connect`.
fn established(streams: &mut Streams, sockets: &mut Registry, s: SocketId, local: SocketAddr, remote: SocketAddr, cx: &mut Context<'_>) {
    let Some(socket) = sockets.store.get_mut(s) else { return };
    (socket.local, socket.remote) = (local, Some(remote));
    if let Some(stream) = socket.stream_mut() {
        stream.state = TcpState::Established;
    }
    // tcp_rcv_state_process, SYN_RECV (here: a socket that connected to itself): "if (sk->sk_shutdown & SEND_SHUTDOWN)
    // tcp_shutdown(sk, SEND_SHUTDOWN);"
    if local == remote && sockets.store.get(s).is_some_and(|socket| socket.shutdown.send) {
        let write = Shutdown { receive: false, send: true };
        streams.shut_down(sockets, s, write, TcpState::Established, cx);
    }
    sockets.touch(s, Poll::ALL);
}

/// `tcp_fin`.
fn half_closed(sockets: &mut Registry, s: SocketId) {
    let Some(socket) = sockets.store.get_mut(s) else { return };
    socket.shutdown.receive = true;
    if let Some(stream) = socket.stream_mut() {
        stream.done = true;
        stream.state = match stream.state {
            TcpState::Established => TcpState::CloseWait,
            TcpState::FinWait => TcpState::Closing,
            other => other,
        };
    }
    sockets.touch(s, Poll::ALL);
}

/// `tcp_v4_err`: with IP_RECVERR the program hears of it at once, otherwise if the connection fails later.
fn soft_error(sockets: &mut Registry, s: SocketId, error: StreamError) {
    let Some(socket) = sockets.store.get_mut(s) else { return };
    if socket.options.wants_errors(socket.remote.is_some_and(|remote| remote.is_ipv6())) {
        socket.error = Some(error.into());
        sockets.touch(s, Poll::ERR);
    } else if let Some(stream) = socket.stream_mut() {
        stream.soft_error = Some(error.into());
    }
}
