//! A socket's life, as adapters mirror it.

use crate::socket::{Phase, Socket, TcpState};

/// A socket's life in the words of adapters that mirror it on a descriptor of their own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SocketState {
    /// Neither bound nor connected.
    Fresh,
    /// Bound, not connected.
    Bound,
    /// Listening.
    Listening,
    /// A connection attempt is under way.
    Connecting,
    /// Connected; for datagram sockets: has a peer.
    Connected,
    /// The peer has sent FIN.
    PeerClosed,
    /// The connection failed or was reset, or has ended in both directions.
    Failed,
}

/// Where a socket is in its life.
pub(crate) fn of(socket: &Socket) -> SocketState {
    let unconnected = if socket.number == 0 { SocketState::Fresh } else { SocketState::Bound };
    match socket.stream() {
        None if socket.remote.is_some() => SocketState::Connected,
        None => unconnected,
        Some(stream) => match stream.state {
            TcpState::Listen => SocketState::Listening,
            // What is written to it is sent, with the SYN.
            TcpState::SynSent if stream.deferred => SocketState::Connected,
            TcpState::SynSent => SocketState::Connecting,
            TcpState::Established | TcpState::FinWait => SocketState::Connected,
            TcpState::CloseWait | TcpState::Closing => SocketState::PeerClosed,
            TcpState::Close if socket.shutdown.is_both() || stream.phase != Phase::Unconnected => SocketState::Failed,
            TcpState::Close => unconnected,
        },
    }
}
