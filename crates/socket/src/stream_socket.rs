//! Calls on stream sockets that end things: shutdown, close; and ioctl.

use crate::abi::{FIONREAD, IPPROTO_MPTCP, SIOCATMARK, SIOCOUTQ, SIOCOUTQNSD};
use crate::connection;
use crate::errno::Errno;
use crate::listener;
use crate::poll::Poll;
use crate::registry::Registry;
use crate::socket::{Phase, Shutdown, Socket, SocketId, TcpState};
use crate::stream_receive;
use crate::streams::{Streams, set_phase, unsent};
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

fn within(bytes: usize) -> i32 {
    i32::try_from(bytes).unwrap_or(i32::MAX)
}

/// `tcp_ioctl`.
pub(crate) fn ioctl(socket: &Socket, request: u64, cx: &Context<'_>) -> Result<i32, Errno> {
    let Some(stream) = socket.stream() else { return Err(Errno::ENOTTY) };
    let listening = stream.state == TcpState::Listen;
    match request {
        // mptcp_ioctl: "default: return -ENOIOCTLCMD;"
        SIOCATMARK if socket.protocol == IPPROTO_MPTCP => Err(Errno::ENOTTY),
        // mptcp_ioctl: "*karg = mptcp_ioctl_outq(msk, READ_ONCE(msk->snd_una));", of which listeners get -EINVAL as a number.
        SIOCOUTQ | SIOCOUTQNSD if listening && socket.protocol == IPPROTO_MPTCP => Ok(-Errno::EINVAL.0),
        FIONREAD if listening => Err(Errno::EINVAL),
        // mptcp_inq_hint: "if (sk->sk_state == TCP_CLOSE || (sk->sk_shutdown & RCV_SHUTDOWN)) return 1;"
        FIONREAD if socket.protocol == IPPROTO_MPTCP && stream.unread() == 0 => {
            Ok((stream.state == TcpState::Close || socket.shutdown.receive).into())
        }
        FIONREAD => Ok(within(stream_receive::inquire(socket))),
        SIOCATMARK => Ok(stream.urgent.is_some_and(|urgent| urgent.at == stream.copied).into()),
        SIOCOUTQ | SIOCOUTQNSD if listening => Err(Errno::EINVAL),
        SIOCOUTQ => Ok(within(unsent(socket, cx).0 as usize)),
        SIOCOUTQNSD => Ok(within(unsent(socket, cx).1 as usize)),
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
