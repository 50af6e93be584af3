//! Calls on stream sockets that end things: shutdown, close; and ioctl.

use crate::abi::{FIONREAD, SIOCATMARK, SIOCOUTQ, SIOCOUTQNSD};
use crate::connection;
use crate::errno::Errno;
use crate::listener;
use crate::poll::Poll;
use crate::registry::Registry;
use crate::socket::{Phase, Shutdown, Socket, SocketId, TcpState};
use crate::stream_receive;
use crate::streams::{Streams, info, set_phase};
use weft_core::{Context, StreamCall};

/// `inet_shutdown` and `tcp_shutdown`.
pub(crate) fn shutdown(
    streams: &mut Streams,
    sockets: &mut Registry,
    s: SocketId,
    how: Shutdown,
    cx: &mut Context<'_>,
) -> Result<(), Errno> {
    let stream = sockets.get(s)?.stream().ok_or(Errno::EINVAL)?;
    let state = stream.state;
    if stream.phase == Phase::Connecting {
        let early = matches!(state, TcpState::SynSent | TcpState::Close);
        set_phase(sockets, s, if early { Phase::Disconnecting } else { Phase::Connected });
    }
    let result = match state {
        TcpState::Listen if !how.receive => Ok(()),
        TcpState::Listen | TcpState::SynSent => {
            connection::disconnect(streams, sockets, s, cx);
            set_phase(sockets, s, Phase::Unconnected);
            Ok(())
        }
        _ => {
            let socket = sockets.get_mut(s)?;
            let before = socket.shutdown;
            socket.shutdown = Shutdown { receive: before.receive | how.receive, send: before.send | how.send };
            streams.shut_down(sockets, s, how, state, cx);
            if state == TcpState::Close { Err(Errno::ENOTCONN) } else { Ok(()) }
        }
    };
    sockets.touch(s, Poll::ALL);
    result
}

/// `tcp_ioctl`.
pub(crate) fn ioctl(socket: &Socket, request: u64, cx: &Context<'_>) -> Result<usize, Errno> {
    let Some(stream) = socket.stream() else { return Err(Errno::ENOTTY) };
    let listening = stream.state == TcpState::Listen;
    match request {
        FIONREAD if listening => Err(Errno::EINVAL),
        FIONREAD => Ok(stream_receive::inquire(socket)),
        SIOCATMARK => Ok(usize::from(stream.urgent.is_some_and(|urgent| urgent.at == stream.copied))),
        SIOCOUTQ | SIOCOUTQNSD if listening => Err(Errno::EINVAL),
        SIOCOUTQ => Ok(info(socket, cx).send_queue_bytes as usize),
        SIOCOUTQNSD => Ok(info(socket, cx).notsent_bytes as usize),
        _ => Err(Errno::ENOTTY),
    }
}

/// `__tcp_close`.
pub(crate) fn close(streams: &mut Streams, sockets: &mut Registry, s: SocketId, cx: &mut Context<'_>) {
    let Some(socket) = sockets.store.get(s) else { return };
    let linger = socket.options.linger;
    let Some(stream) = socket.stream() else { return };
    let unread = stream.unread() > 0;
    let state = stream.state;
    stream_receive::forget_unread(sockets, s, cx);
    match state {
        TcpState::Listen => listener::stop(streams, sockets, s, cx),
        TcpState::Close => {
            // Nothing is left but, perhaps, TIME-WAIT, which has a hold of its own.
            streams.abandon(sockets, s, false);
        }
        _ => {
            if let Some(flow) = streams.abandon(sockets, s, true) {
                streams.call(flow, StreamCall::Close { unread, linger }, cx);
            }
        }
    }
    streams.remove(sockets, s);
}
