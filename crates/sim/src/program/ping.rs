//! `ping`: ICMP echo requests through an ICMP datagram socket, with round-trip times to the nanosecond.

use super::open::{Failure, fail, open};
use crate::actor::{Actor, ActorContext, Next};
use crate::figures::millis;
use crate::report::{ProgramId, Status};
use bytes::Bytes;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use weft_core::Instant;
use weft_socket::abi::{IPPROTO_ICMP, IPPROTO_ICMPV6, SOCK_DGRAM};
use weft_socket::{Errno, SocketId};

/// How long it waits for the last replies.
const WAIT: Duration = Duration::from_secs(10);
const ECHO_V4: u8 = 8;
const ECHO_V6: u8 = 128;

pub(super) struct Ping {
    id: ProgramId,
    to: IpAddr,
    count: u64,
    interval: Duration,
    bytes: u32,
    socket: Option<SocketId>,
    /// Requests so far.
    requests: u64,
    /// When the last request of a sequence number was sent, which has 16 bits; none: answered.
    sent: Vec<Option<Instant>>,
    last: Option<Instant>,
    begun: Option<Instant>,
    received: u64,
    spans: Option<(Duration, Duration, Duration)>,
    stop: bool,
}

impl Ping {
    pub fn new(id: ProgramId, to: IpAddr, count: u64, interval: Duration, bytes: u32) -> Ping {
        let (socket, sent) = (None, Vec::new());
        Ping { id, to, count, interval, bytes, socket, requests: 0, sent, last: None, begun: None, received: 0, spans: None, stop: false }
    }

    fn socket(&mut self, cx: &mut dyn ActorContext) -> Result<SocketId, Failure> {
        if let Some(socket) = self.socket {
            return Ok(socket);
        }
        let protocol = if self.to.is_ipv6() { IPPROTO_ICMPV6 } else { IPPROTO_ICMP };
        let socket = open(cx, self.to, SOCK_DGRAM, protocol)?;
        self.socket = Some(socket);
        self.begun = Some(cx.now());
        Ok(socket)
    }

    /// When the next request is due; none: all are sent.
    fn next_request(&self) -> Option<Instant> {
        let begun = self.begun.filter(|_| self.requests < self.count && !self.stop)?;
        Some(begun + self.span_of(self.requests))
    }

    /// How long so many requests take.
    fn span_of(&self, requests: u64) -> Duration {
        let nanos = self.interval.as_nanos().saturating_mul(u128::from(requests));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn request(&mut self, socket: SocketId, cx: &mut dyn ActorContext) {
        self.requests += 1;
        let number = self.requests;
        let sequence = number as u16;
        let kind = if self.to.is_ipv6() { ECHO_V6 } else { ECHO_V4 };
        let mut message = vec![kind, 0, 0, 0, 0, 0];
        message.extend(sequence.to_be_bytes());
        message.extend((0..self.bytes).map(|byte| byte as u8));
        let address = weft_socket::address::to_bytes(SocketAddr::new(self.to, 0));
        self.last = Some(cx.now());
        let at = usize::from(sequence);
        self.sent.resize(self.sent.len().max(at + 1), None);
        if let Some(sent) = self.sent.get_mut(at) {
            *sent = self.last;
        }
        let message = Bytes::from(message);
        if let Some(Err(errno)) = cx.call(|sockets, cx| sockets.send(socket, message, 0, Some(&address), &[], cx)) {
            let text = errno.text().unwrap_or("unknown error");
            cx.line(self.id, &format!("request {number}: {text}"));
        }
    }

    fn replies(&mut self, socket: SocketId, cx: &mut dyn ActorContext) {
        loop {
            match cx.call(|sockets, cx| sockets.receive(socket, 65_536, 0, cx)) {
                Some(Ok(received)) => {
                    let message = received.data.concat();
                    let Some(number) = message.get(6..8).and_then(|field| field.first_chunk()).map(|field| u16::from_be_bytes(*field))
                    else {
                        continue;
                    };
                    let sent = self.sent.get_mut(usize::from(number)).and_then(Option::take);
                    let line = match sent {
                        None => format!("{} bytes from {}: seq={number} (copy)", message.len(), self.to),
                        Some(sent) => {
                            let span = cx.now() - sent;
                            self.received += 1;
                            let (min, max, sum) = self.spans.unwrap_or((span, span, Duration::ZERO));
                            self.spans = Some((min.min(span), max.max(span), sum + span));
                            format!("{} bytes from {}: seq={number} time={}", message.len(), self.to, millis(span))
                        }
                    };
                    cx.line(self.id, &line);
                }
                Some(Err(Errno::EAGAIN)) | None => return,
                Some(Err(errno)) => {
                    cx.line(self.id, &format!("from {}: {}", self.to, errno.text().unwrap_or("unknown error")));
                }
            }
        }
    }

    fn report(&mut self, cx: &mut dyn ActorContext) {
        let sent = self.requests;
        cx.line(self.id, &format!("{sent} requests, {} replies", self.received));
        cx.figure(self.id, "requests", sent);
        cx.figure(self.id, "replies", self.received);
        if let Some((min, max, sum)) = self.spans {
            let mean = sum / u32::try_from(self.received).unwrap_or(1).max(1);
            cx.line(self.id, &format!("time min {} mean {} max {}", millis(min), millis(mean), millis(max)));
            cx.figure(self.id, "rtt_min_ns", min.as_nanos() as u64);
            cx.figure(self.id, "rtt_mean_ns", mean.as_nanos() as u64);
            cx.figure(self.id, "rtt_max_ns", max.as_nanos() as u64);
        }
    }
}

impl Actor for Ping {
    fn run(&mut self, cx: &mut dyn ActorContext, grant: Instant) -> Next {
        let socket = match self.socket(cx) {
            Ok(socket) => socket,
            Err(failure) => {
                fail(cx, self.id, failure);
                return Next::ENDED;
            }
        };
        self.replies(socket, cx);
        while let Some(at) = self.next_request() {
            if at >= cx.grant().min(grant) {
                return Next::at(at);
            }
            cx.advance(at);
            self.request(socket, cx);
            self.replies(socket, cx);
        }
        let until = self.begun.unwrap_or_default() + self.span_of(self.requests.saturating_sub(1)) + WAIT;
        let complete = self.received == self.requests;
        if !complete && !self.stop && (cx.now() < until || self.last == Some(cx.now())) {
            return Next::at(until);
        }
        self.report(cx);
        cx.call(|sockets, cx| sockets.close(socket, cx));
        cx.ended(self.id, Status::Exited(i32::from(self.received == 0)));
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
        vec![(self.id, format!("for echo replies from {} ({} of {})", self.to, self.received, self.requests))]
    }
}
