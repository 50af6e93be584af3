//! What a program could do with a socket without asking the model: for hosts that answer calls from a copy of its state and make them good later.

use crate::abi::{IP_PMTUDISC_WANT, TIMESTAMPING_TX_RECORDS};
use crate::address;
use crate::face::Sockets;
use crate::inet6;
use crate::poll::Poll;
use crate::socket::{Body, Datagram, Socket, SocketId, Stream, TcpState};
use weft_core::table::AddressKind;
use weft_core::{Context, FlowId, Tail};

/// What is sure about a socket, as long as nothing reaches the node and none of its timers is due.
#[derive(Debug)]
pub struct Preview<'a> {
    /// A stream; otherwise a UDP socket.
    pub stream: bool,
    /// What poll(2) says.
    pub readiness: Poll,
    /// Nothing but a full buffer keeps `send` from taking what it was given before, to the same peer.
    pub sends: bool,
    /// It has a peer of its own.
    pub connected: bool,
    /// How much `send` takes: bytes of a stream, else bytes of memory (see `truesize` of the kernel).
    pub room: usize,
    /// `receive` does nothing but hand out what is in `waiting`; in vain when that is empty.
    pub receives: bool,
    /// What would be received, oldest first.
    pub waiting: Waiting<'a>,
}

/// The datagrams of a [`Preview`], or the bytes of a stream.
#[derive(Debug)]
pub struct Waiting<'a> {
    datagram: Option<&'a Datagram>,
    stream: Option<&'a Stream>,
    domain: i32,
}

impl<'a> Waiting<'a> {
    /// The sender's `sockaddr`, the data, and its bytes, of each.
    pub fn iter(&self) -> impl Iterator<Item = (Vec<u8>, &'a Tail, usize)> {
        let domain = self.domain;
        let queue = self.datagram.map(|datagram| datagram.queue.iter());
        queue.into_iter().flatten().map(move |waiting| (address::told(domain, waiting.from), &waiting.data, waiting.bytes))
    }
    /// The bytes of a stream that nobody has read, as they lie.
    pub fn pieces(&self) -> impl Iterator<Item = &'a [u8]> {
        self.stream.into_iter().flat_map(|stream| stream.queue.pieces())
    }
}

impl Sockets {
    /// What is sure about a TCP or UDP socket. None: little is.
    pub fn preview(&self, s: SocketId) -> Option<Preview<'_>> {
        let socket = self.registry.store.get(s)?;
        let readiness = crate::readiness::of(socket);
        let unusual = socket.error.is_some() || socket.shutdown.send || socket.shutdown.receive;
        if unusual || readiness.contains(Poll::ERR) || readiness.contains(Poll::HUP) || readiness.contains(Poll::PRI) {
            return None;
        }
        let (connected, room) = (socket.remote.is_some(), self.send_room(s));
        match &socket.body {
            Body::Stream(stream) if stream.state == TcpState::Established && !stream.deferred && !stream.done => {
                let waiting = Waiting { datagram: None, stream: Some(stream), domain: socket.domain };
                // Nothing but one byte makes it readable, and all bytes are alike.
                let receives = stream.urgent.is_none() && socket.options.receive_low_water <= 1;
                Some(Preview { stream: true, readiness, sends: !is_timed(socket), connected, room, receives, waiting })
            }
            Body::Datagram(datagram) if datagram.errors.is_empty() => {
                let waiting = Waiting { datagram: Some(datagram), stream: None, domain: socket.domain };
                let receives = socket.options.peek_offset < 0;
                Some(Preview { stream: false, readiness, sends: sends_plainly(socket, datagram), connected, room, receives, waiting })
            }
            _ => None,
        }
    }

    /// The socket of a flow, where whoever waits there for data does so for as long as it takes.
    pub fn reader(&self, flow: FlowId) -> Option<SocketId> {
        let owner = self.streams.flows.get(&flow)?.owner?;
        self.registry.store.get(owner).filter(|socket| socket.options.receive_timeout.is_none()).map(|_| owner)
    }

    /// Is the peer, or the address that is given, one host's, and not this node's own? What is sent there comes to nobody here.
    pub fn is_elsewhere(&mut self, s: SocketId, to: Option<&[u8]>, cx: &mut Context<'_>) -> bool {
        let Some(socket) = self.registry.store.get(s) else { return false };
        let to = match to {
            Some(bytes) if socket.is_v6() => inet6::send_to_v6(socket, bytes).ok().flatten(),
            Some(bytes) => address::for_send(bytes).ok(),
            None => socket.remote,
        };
        to.is_some_and(|to| !to.ip().is_loopback() && self.registry.kinds.of(to.ip(), cx) == AddressKind::Other)
    }
}

/// Nothing is held back, cut, or refused for the path's MTU.
fn sends_plainly(socket: &Socket, datagram: &Datagram) -> bool {
    let options = &socket.options;
    let whole =
        i32::from(options.mtu_discover) > IP_PMTUDISC_WANT || i32::from(options.mtu_discover6) > IP_PMTUDISC_WANT || options.dont_fragment;
    !is_timed(socket) && datagram.corked.is_none() && !options.udp_cork && options.udp_segment == 0 && !whole
}

/// What is sent is told of in the error queue, which poll shows.
fn is_timed(socket: &Socket) -> bool {
    socket.options.timestamping & TIMESTAMPING_TX_RECORDS != 0
}
