//! `tcp-send` and `tcp-sink`: bytes over TCP as fast as it goes, and who takes them.

use super::open::{Failure, fail, open, open_on};
use crate::actor::{Actor, ActorContext, Next};
use crate::figures::{GOODPUT, bits_per_second, seconds};
use crate::report::{ProgramId, Status};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;
use weft_core::Instant;
use weft_socket::abi::{SHUT_WR, SOCK_STREAM};
use weft_socket::{Errno, Poll, SocketId};

/// Bytes that one call sends at most, and takes at most.
const CHUNK_BYTES: usize = 256 << 10;
const BACKLOG: i32 = 4096;

pub(super) struct Send {
    id: ProgramId,
    to: SocketAddr,
    bytes: Option<u64>,
    duration: Option<Duration>,
    socket: Option<SocketId>,
    connected: bool,
    begun: Instant,
    sent: u64,
    shut: bool,
    stop: bool,
    data: Bytes,
    changed: bool,
}

impl Send {
    pub fn new(id: ProgramId, to: SocketAddr, bytes: Option<u64>, duration: Option<Duration>) -> Send {
        let data = Bytes::from(vec![0; CHUNK_BYTES]);
        let socket = None;
        Send {
            id,
            to,
            bytes,
            duration,
            socket,
            connected: false,
            begun: Instant::ZERO,
            sent: 0,
            shut: false,
            stop: false,
            data,
            changed: true,
        }
    }

    fn socket(&mut self, cx: &mut dyn ActorContext) -> Result<SocketId, Failure> {
        if let Some(socket) = self.socket {
            return Ok(socket);
        }
        let socket = open(cx, self.to.ip(), SOCK_STREAM, 0)?;
        (self.socket, self.begun) = (Some(socket), cx.now());
        Ok(socket)
    }

    /// When it stops sending; none: when all is sent.
    fn deadline(&self) -> Option<Instant> {
        if self.stop { Some(Instant::ZERO) } else { self.duration.map(|duration| self.begun + duration) }
    }

    /// True: everything is acknowledged and the other end has closed, too.
    fn go_on(&mut self, cx: &mut dyn ActorContext) -> Result<bool, Failure> {
        let socket = self.socket(cx)?;
        if !self.connected {
            let address = weft_socket::address::to_bytes(self.to);
            match cx.call(|sockets, cx| sockets.connect(socket, &address, cx)).unwrap_or(Err(Errno::ENETDOWN)) {
                Ok(()) | Err(Errno::EISCONN) => self.connected = true,
                Err(Errno::EINPROGRESS | Errno::EALREADY) => return Ok(false),
                Err(errno) => return Err(("connect", errno)),
            }
        }
        while !self.shut {
            let left = self.bytes.map_or(u64::MAX, |bytes| bytes.saturating_sub(self.sent));
            if left == 0 || self.deadline().is_some_and(|at| at <= cx.now()) {
                self.shut = true;
                cx.call(|sockets, cx| sockets.shutdown(socket, SHUT_WR, cx));
                break;
            }
            let data = self.data.slice(..self.data.len().min(usize::try_from(left).unwrap_or(usize::MAX)));
            match cx.call(|sockets, cx| sockets.send(socket, data, 0, None, &[], cx)).unwrap_or(Err(Errno::ENETDOWN)) {
                Ok(taken) => self.sent += taken as u64,
                Err(Errno::EAGAIN) => return Ok(false),
                Err(errno) => return Err(("send", errno)),
            }
        }
        match cx.call(|sockets, cx| sockets.receive(socket, CHUNK_BYTES, 0, cx)).unwrap_or(Err(Errno::ENETDOWN)) {
            Ok(received) => Ok(received.datagram_bytes == 0 && received.is_empty()),
            Err(Errno::EAGAIN) => Ok(false),
            Err(errno) => Err(("receive", errno)),
        }
    }

    fn report(&mut self, cx: &mut dyn ActorContext) {
        let rate = bits_per_second(self.sent, self.begun, cx.now()).unwrap_or(0);
        cx.line(self.id, &format!("sent {} bytes in {}, {rate} bit/s", self.sent, seconds(cx.now() - self.begun)));
        cx.figure(self.id, "sent_bytes", self.sent);
        cx.figure(self.id, "duration_ns", (cx.now() - self.begun).as_nanos() as u64);
    }
}

impl Actor for Send {
    fn run(&mut self, cx: &mut dyn ActorContext, _grant: Instant) -> Next {
        let due = self.deadline().is_some_and(|at| at <= cx.now() && !self.shut);
        if !std::mem::take(&mut self.changed) && !due {
            return self.deadline().filter(|_| !self.shut).map_or(Next::WAIT, Next::at);
        }
        match self.go_on(cx) {
            Ok(false) => self.deadline().filter(|_| !self.shut).map_or(Next::WAIT, Next::at),
            Ok(true) => {
                self.report(cx);
                if let Some(socket) = self.socket {
                    cx.call(|sockets, cx| sockets.close(socket, cx));
                }
                cx.ended(self.id, Status::Exited(0));
                Next::ENDED
            }
            Err(failure) => {
                if let Some(socket) = self.socket {
                    cx.call(|sockets, cx| sockets.close(socket, cx));
                }
                fail(cx, self.id, failure);
                Next::ENDED
            }
        }
    }

    fn sockets_changed(&mut self, changed: &[SocketId]) {
        self.changed |= self.socket.is_some_and(|socket| changed.contains(&socket));
    }

    fn stop(&mut self, _program: ProgramId) {
        self.stop = true;
        self.changed = true;
    }

    fn finish(&mut self, cx: &mut dyn ActorContext) {
        self.report(cx);
    }

    fn waits(&self) -> Vec<(ProgramId, String)> {
        let what = match (self.connected, self.shut) {
            (false, _) => "for a connection to",
            (true, false) => "for room to send to",
            (true, true) => "for the end of the connection from",
        };
        vec![(self.id, format!("{what} {}", self.to))]
    }
}

#[derive(Debug)]
struct Incoming {
    peer: Option<SocketAddr>,
    begun: Instant,
    bytes: u64,
}

pub(super) struct Sink {
    id: ProgramId,
    port: u16,
    listener: Option<SocketId>,
    connections: BTreeMap<SocketId, Incoming>,
    changed: Vec<SocketId>,
    total: u64,
    accepted: u64,
    first: Instant,
    last: Instant,
    stop: bool,
}

impl Sink {
    pub fn new(id: ProgramId, port: u16) -> Sink {
        let (first, last) = (Instant::ZERO, Instant::ZERO);
        let (connections, changed) = (BTreeMap::new(), Vec::new());
        Sink { id, port, listener: None, connections, changed, total: 0, accepted: 0, first, last, stop: false }
    }

    fn listen(&mut self, cx: &mut dyn ActorContext) -> Result<SocketId, Failure> {
        if let Some(listener) = self.listener {
            return Ok(listener);
        }
        let listener = open_on(cx, self.port, SOCK_STREAM)?;
        let result = cx.call(|sockets, cx| sockets.listen(listener, BACKLOG, cx)).unwrap_or(Err(Errno::ENETDOWN));
        result.map_err(|errno| ("listen", errno))?;
        self.listener = Some(listener);
        self.changed.push(listener);
        Ok(listener)
    }

    fn accept(&mut self, listener: SocketId, cx: &mut dyn ActorContext) {
        while let Some(Ok(socket)) = cx.call(|sockets, cx| sockets.accept(listener, cx)) {
            let peer = cx.call(|sockets, _| sockets.accepted_address(socket).ok()).flatten();
            let peer = peer.and_then(|bytes| weft_socket::address::parse(&bytes));
            if self.accepted == 0 {
                self.first = cx.now();
            }
            self.accepted += 1;
            self.connections.insert(socket, Incoming { peer, begun: cx.now(), bytes: 0 });
            self.take(socket, cx);
        }
    }

    fn take(&mut self, socket: SocketId, cx: &mut dyn ActorContext) {
        loop {
            let received = cx.call(|sockets, cx| sockets.receive(socket, CHUNK_BYTES, 0, cx)).unwrap_or(Err(Errno::ENETDOWN));
            let how = match received {
                Ok(received) if !received.is_empty() => {
                    let bytes = received.len() as u64;
                    self.total += bytes;
                    self.last = cx.now();
                    if let Some(connection) = self.connections.get_mut(&socket) {
                        connection.bytes += bytes;
                    }
                    // Whatever came is taken: there is no more unless the socket says so.
                    if cx.call(|sockets, _| sockets.readiness(socket).contains(Poll::IN)).unwrap_or(false) {
                        continue;
                    }
                    return;
                }
                Ok(_) => "closed".to_owned(),
                Err(Errno::EAGAIN) => return,
                Err(errno) => errno.text().unwrap_or("unknown error").to_owned(),
            };
            cx.call(|sockets, cx| sockets.close(socket, cx));
            let Some(connection) = self.connections.remove(&socket) else { return };
            let rate = bits_per_second(connection.bytes, connection.begun, cx.now()).unwrap_or(0);
            let peer = connection.peer.map_or("?".to_owned(), |peer| peer.to_string());
            let span = seconds(cx.now() - connection.begun);
            cx.line(self.id, &format!("received {} bytes from {peer} in {span}, {rate} bit/s: {how}", connection.bytes));
            return;
        }
    }

    fn report(&mut self, cx: &mut dyn ActorContext) {
        let open = self.connections.len();
        cx.line(self.id, &format!("received {} bytes in all over {} connections, {open} still open", self.total, self.accepted));
        cx.figure(self.id, "received_bytes", self.total);
        cx.figure(self.id, "connections", self.accepted);
        if let Some(goodput) = bits_per_second(self.total, self.first, self.last).filter(|_| self.total > 0) {
            cx.figure(self.id, GOODPUT, goodput);
        }
    }
}

impl Actor for Sink {
    fn run(&mut self, cx: &mut dyn ActorContext, _grant: Instant) -> Next {
        let listener = match self.listen(cx) {
            Ok(listener) => listener,
            Err(failure) => {
                fail(cx, self.id, failure);
                return Next::ENDED;
            }
        };
        let changed = std::mem::take(&mut self.changed);
        for socket in &changed {
            if *socket == listener {
                self.accept(listener, cx);
            } else if self.connections.contains_key(socket) {
                self.take(*socket, cx);
            }
        }
        if !self.stop {
            return Next::WAIT;
        }
        self.report(cx);
        let open: Vec<SocketId> = self.connections.keys().copied().chain([listener]).collect();
        for socket in open {
            cx.call(|sockets, cx| sockets.close(socket, cx));
        }
        cx.ended(self.id, Status::Exited(0));
        Next::ENDED
    }

    fn sockets_changed(&mut self, changed: &[SocketId]) {
        self.changed.extend_from_slice(changed);
    }

    fn stop(&mut self, _program: ProgramId) {
        self.stop = true;
    }

    fn finish(&mut self, cx: &mut dyn ActorContext) {
        self.report(cx);
    }

    fn waits(&self) -> Vec<(ProgramId, String)> {
        let what = match self.connections.len() {
            0 => format!("for connections on port {}", self.port),
            open => format!("for data of {open} connections on port {}", self.port),
        };
        vec![(self.id, what)]
    }
}
