//! Readiness as `tcp_poll`, `inet_csk_listen_poll` and `udp_poll` compute it.

use crate::poll::Poll;
use crate::socket::{Body, Datagram, Socket, Stream, TcpState, UrgentData};

/// The mask of a socket.
pub(crate) fn of(socket: &Socket) -> Poll {
    match &socket.body {
        Body::Stream(stream) => of_stream(socket, stream),
        Body::Datagram(datagram) | Body::Ping(datagram) => of_datagram(socket, datagram),
        Body::Raw(raw) => of_datagram(socket, &raw.queue),
        Body::Packet(packet) => of_datagram(socket, &packet.queue) | packet.rings.readiness(),
    }
}

fn of_stream(socket: &Socket, stream: &Stream) -> Poll {
    if stream.state == TcpState::Listen {
        return if stream.accept_queue.is_empty() { Poll::NONE } else { Poll::READABLE };
    }
    let mut mask = Poll::NONE;
    // tcp_poll: "if (shutdown == SHUTDOWN_MASK || state == TCP_CLOSE) mask |= EPOLLHUP;"
    if socket.shutdown.is_both() || stream.state == TcpState::Close {
        mask |= Poll::HUP;
    }
    if socket.shutdown.receive {
        mask |= Poll::READABLE | Poll::RDHUP;
    }
    // tcp_poll: "Active TCP fastopen socket with defer_connect Return EPOLLOUT so application can call write()".
    if stream.deferred {
        mask |= Poll::WRITABLE;
    }
    if stream.state != TcpState::SynSent {
        if stream.unread() >= wanted(socket, stream) || stream.window_is_small {
            mask |= Poll::READABLE;
        }
        if socket.shutdown.send || is_writable(stream) {
            mask |= Poll::WRITABLE;
        }
        if stream.urgent.is_some_and(|urgent| matches!(urgent.data, UrgentData::Valid(_))) {
            mask |= Poll::PRI;
        }
    }
    // tcp_poll: "if (READ_ONCE(sk->sk_err) || !skb_queue_empty_lockless(&sk->sk_error_queue)) mask |= EPOLLERR;"
    if socket.error.is_some() || !stream.errors.is_empty() {
        mask |= Poll::ERR;
    }
    mask
}

/// Bytes that make a stream readable: SO_RCVLOWAT, and one more while the urgent byte is next, because it is skipped.
fn wanted(socket: &Socket, stream: &Stream) -> usize {
    let at_mark = stream.urgent.is_some_and(|urgent| urgent.at == stream.copied) && !socket.options.urgent_inline;
    usize::try_from(socket.options.receive_low_water).unwrap_or(1).max(1) + usize::from(at_mark)
}

/// `__sk_stream_is_writeable`: "sk_stream_wspace(sk) >= sk_stream_min_wspace(sk) && __sk_stream_memory_free(sk, wake)", that is, a third of the buffer is
/// free, and half of what may wait unsent (TCP_NOTSENT_LOWAT).
/// A socket that was never connected has its whole buffer free.
pub(crate) fn is_writable(stream: &Stream) -> bool {
    match stream.state {
        TcpState::Close => true,
        _ => {
            !stream.refused
                && stream.credit > 0
                && stream.credit >= (stream.capacity / 3).min(stream.transport.unsent_low_water as usize / 2).min(stream.enough)
        }
    }
}

fn of_datagram(socket: &Socket, datagram: &Datagram) -> Poll {
    let mut mask = Poll::NONE;
    if socket.error.is_some() || !datagram.errors.is_empty() {
        mask |= Poll::ERR;
        if socket.options.select_error_queue && !datagram.errors.is_empty() {
            mask |= Poll::PRI;
        }
    }
    if socket.shutdown.receive {
        mask |= Poll::READABLE | Poll::RDHUP;
    }
    if socket.shutdown.is_both() {
        mask |= Poll::HUP;
    }
    if !datagram.queue.is_empty() {
        mask |= Poll::READABLE;
    }
    // sock_writeable: "refcount_read(&sk->sk_wmem_alloc) < (READ_ONCE(sk->sk_sndbuf) >> 1)"
    if datagram.sending < socket.options.send_buffer as usize / 2 {
        mask |= Poll::WRITABLE | Poll::WRBAND;
    }
    mask
}
