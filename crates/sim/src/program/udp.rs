//! `udp-cbr` and `udp-sink`: datagrams at a constant rate, and who counts them.
//!
//! A datagram begins with its number (u64, big-endian, from 0) and the time at which it was sent (u64, nanoseconds); the rest is zero.

use super::open::{Failure, fail, open, open_on};
use crate::actor::{Actor, ActorContext, Next};
use crate::figures::{GOODPUT, bits_per_second, millis, seconds};
use crate::report::{ProgramId, Status};
use bytes::Bytes;
use std::net::SocketAddr;
use std::time::Duration;
use weft_core::Instant;
use weft_socket::abi::SOCK_DGRAM;
use weft_socket::{Errno, SocketId};

/// Bytes of number and time.
const HEADER_BYTES: usize = 16;

pub(super) struct Cbr {
    id: ProgramId,
    to: SocketAddr,
    rate: u64,
    bytes: u32,
    count: u64,
    socket: Option<SocketId>,
    begun: Instant,
    number: u64,
    refused: u64,
}

impl Cbr {
    pub fn new(id: ProgramId, to: SocketAddr, rate: u64, bytes: u32, count: u64) -> Cbr {
        Cbr { id, to, rate: rate.max(1), bytes, count, socket: None, begun: Instant::ZERO, number: 0, refused: 0 }
    }

    fn open(&mut self, cx: &mut dyn ActorContext) -> Result<SocketId, Failure> {
        if let Some(socket) = self.socket {
            return Ok(socket);
        }
        let socket = open(cx, self.to.ip(), SOCK_DGRAM, 0)?;
        let address = weft_socket::address::to_bytes(self.to);
        let connected = cx.call(|sockets, cx| sockets.connect(socket, &address, cx)).unwrap_or(Err(Errno::ENETDOWN));
        connected.map_err(|errno| ("connect", errno))?;
        (self.socket, self.begun) = (Some(socket), cx.now());
        Ok(socket)
    }

    /// Datagram n is due n times its bits divided by the rate after the first, rounded down.
    fn due(&self) -> Instant {
        let bits = u128::from(self.bytes) * 8 * u128::from(self.number);
        self.begun + Duration::from_nanos(u64::try_from(bits * 1_000_000_000 / u128::from(self.rate)).unwrap_or(u64::MAX))
    }

    fn send(&mut self, socket: SocketId, cx: &mut dyn ActorContext) {
        let mut data = vec![0; (self.bytes as usize).max(HEADER_BYTES)];
        data[..8].copy_from_slice(&self.number.to_be_bytes());
        data[8..16].copy_from_slice(&cx.now().as_nanos().to_be_bytes());
        let data = Bytes::from(data);
        if cx.call(|sockets, cx| sockets.send(socket, data, 0, None, &[], cx)).is_none_or(|sent| sent.is_err()) {
            self.refused += 1;
        }
        self.number += 1;
    }

    fn report(&mut self, cx: &mut dyn ActorContext) {
        let taken = self.number - self.refused;
        let bytes = taken * u64::from(self.bytes);
        cx.line(
            self.id,
            &format!("sent {taken} datagrams, {bytes} bytes, in {}; {} refused", seconds(cx.now() - self.begun), self.refused),
        );
        cx.figure(self.id, "sent", taken);
        cx.figure(self.id, "refused", self.refused);
    }
}

impl Actor for Cbr {
    fn run(&mut self, cx: &mut dyn ActorContext, _grant: Instant) -> Next {
        let socket = match self.open(cx) {
            Ok(socket) => socket,
            Err(failure) => {
                fail(cx, self.id, failure);
                return Next::ENDED;
            }
        };
        while self.number < self.count {
            let at = self.due();
            if at >= cx.grant() {
                return Next::at(at);
            }
            cx.advance(at);
            self.send(socket, cx);
        }
        self.report(cx);
        cx.call(|sockets, cx| sockets.close(socket, cx));
        cx.ended(self.id, Status::Exited(0));
        Next::ENDED
    }

    fn sockets_changed(&mut self, _changed: &[SocketId]) {}

    fn stop(&mut self, _program: ProgramId) {
        self.count = self.number;
    }

    fn finish(&mut self, cx: &mut dyn ActorContext) {
        self.report(cx);
    }

    fn waits(&self) -> Vec<(ProgramId, String)> {
        vec![(self.id, format!("for the time of datagram {}", self.number))]
    }
}

pub(super) struct Sink {
    id: ProgramId,
    port: u16,
    socket: Option<SocketId>,
    received: u64,
    bytes: u64,
    /// One more than the highest number seen.
    expected: u64,
    late: u64,
    first: Instant,
    last: Instant,
    delays: Option<(Duration, Duration)>,
    delay_sum: u128,
    stop: bool,
}

impl Sink {
    pub fn new(id: ProgramId, port: u16) -> Sink {
        Sink {
            id,
            port,
            socket: None,
            received: 0,
            bytes: 0,
            expected: 0,
            late: 0,
            first: Instant::ZERO,
            last: Instant::ZERO,
            delays: None,
            delay_sum: 0,
            stop: false,
        }
    }

    fn take(&mut self, data: &[u8], bytes: usize, now: Instant) {
        if self.received == 0 {
            self.first = now;
        }
        self.last = now;
        self.received += 1;
        self.bytes += bytes as u64;
        let field = |at: usize| data.get(at..at + 8).and_then(|field| field.first_chunk()).map(|field| u64::from_be_bytes(*field));
        let (Some(number), Some(sent)) = (field(0), field(8)) else { return };
        if number < self.expected {
            self.late += 1;
        }
        self.expected = self.expected.max(number.saturating_add(1));
        let delay = now - Instant::from_nanos(sent);
        self.delay_sum += delay.as_nanos();
        let (min, max) = self.delays.unwrap_or((delay, delay));
        self.delays = Some((min.min(delay), max.max(delay)));
    }

    fn report(&mut self, cx: &mut dyn ActorContext) {
        let missing = self.expected.saturating_sub(self.received);
        let line = format!("received {} datagrams, {} bytes; {missing} missing, {} out of order", self.received, self.bytes, self.late);
        cx.line(self.id, &line);
        cx.figure(self.id, "received", self.received);
        cx.figure(self.id, "missing", missing);
        cx.figure(self.id, "out_of_order", self.late);
        if let Some(goodput) = bits_per_second(self.bytes, self.first, self.last) {
            cx.figure(self.id, GOODPUT, goodput);
        }
        if self.received > 0 {
            cx.figure(self.id, "first_ns", self.first.as_nanos());
            cx.figure(self.id, "last_ns", self.last.as_nanos());
        }
        if let Some((min, max)) = self.delays {
            let mean = Duration::from_nanos((self.delay_sum / u128::from(self.received.max(1))) as u64);
            cx.line(self.id, &format!("delay min {} mean {} max {}", millis(min), millis(mean), millis(max)));
            cx.figure(self.id, "delay_min_ns", min.as_nanos() as u64);
            cx.figure(self.id, "delay_mean_ns", mean.as_nanos() as u64);
            cx.figure(self.id, "delay_max_ns", max.as_nanos() as u64);
        }
    }
}

impl Actor for Sink {
    fn run(&mut self, cx: &mut dyn ActorContext, _grant: Instant) -> Next {
        let socket = match self.socket {
            Some(socket) => socket,
            None => match open_on(cx, self.port, SOCK_DGRAM) {
                Ok(socket) => *self.socket.insert(socket),
                Err(failure) => {
                    fail(cx, self.id, failure);
                    return Next::ENDED;
                }
            },
        };
        while let Some(Ok(received)) = cx.call(|sockets, cx| sockets.receive(socket, 65_536, 0, cx)) {
            let mut head = [0; HEADER_BYTES];
            let mut filled = 0;
            for part in &received.data {
                let take = part.len().min(head.len() - filled);
                head[filled..filled + take].copy_from_slice(&part[..take]);
                filled += take;
            }
            self.take(&head[..filled], received.len(), cx.now());
        }
        if !self.stop {
            return Next::WAIT;
        }
        self.report(cx);
        cx.call(|sockets, cx| sockets.close(socket, cx));
        cx.ended(self.id, Status::Exited(0));
        Next::ENDED
    }

    fn sockets_changed(&mut self, _changed: &[SocketId]) {}

    fn stop(&mut self, _program: ProgramId) {
        self.stop = true;
    }

    fn finish(&mut self, cx: &mut dyn ActorContext) {
        self.report(cx);
    }

    fn waits(&self) -> Vec<(ProgramId, String)> {
        vec![(self.id, format!("for datagrams on port {}", self.port))]
    }
}
