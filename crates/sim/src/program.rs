//! Built-in traffic: programs that weft plays itself, one actor each. They cost no virtual time: what they do, they do at the instant at which they
//! may.

mod echo;
mod ping;
mod tcp;
mod udp;

use crate::actor::{Actor, ActorContext};
use crate::report::{ProgramId, Status, Stream};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use weft_core::Instant;
use weft_intercept::process::Traffic;
use weft_socket::address::{AF_INET, AF_INET6};
use weft_socket::{Errno, SocketId};

/// What unmodified programs with sockets are told by: `received_bytes`, `sent_bytes`, and [`GOODPUT`] where some time passed between two bytes.
pub(crate) fn figures_of(traffic: Traffic) -> impl Iterator<Item = (&'static str, u64)> {
    let Traffic { sent_bytes, received_bytes, received } = traffic;
    let goodput = received.and_then(|(first, last)| bits_per_second(received_bytes, first, last));
    [("sent_bytes", sent_bytes), ("received_bytes", received_bytes)].into_iter().chain(goodput.map(|goodput| (GOODPUT, goodput)))
}

/// A built-in program and its parameters.
#[derive(Clone, PartialEq, Debug)]
pub enum Builtin {
    /// Sends ICMP echo requests; ends with status 0 when a reply came.
    Ping {
        /// To whom.
        to: IpAddr,
        /// How many.
        count: u64,
        /// Time between two.
        interval: Duration,
        /// Bytes of data in each.
        bytes: u32,
    },
    /// Sends UDP datagrams at a constant rate.
    UdpCbr {
        /// To whom.
        to: SocketAddr,
        /// Payload bits per second.
        rate: u64,
        /// Bytes of each, at least 16.
        bytes: u32,
        /// How many.
        count: u64,
    },
    /// Counts the datagrams of `UdpCbr`.
    UdpSink {
        /// Own port.
        port: u16,
    },
    /// Sends bytes over a TCP connection, as fast as it goes.
    TcpSend {
        /// To whom.
        to: SocketAddr,
        /// How many; none: until the time is over.
        bytes: Option<u64>,
        /// For how long; none: until all are sent.
        duration: Option<Duration>,
    },
    /// Takes TCP connections and counts what comes.
    TcpSink {
        /// Own port.
        port: u16,
    },
    /// Sends back what comes over TCP and UDP.
    Echo {
        /// Own port.
        port: u16,
    },
}

impl Builtin {
    /// Does it wait for others, and never end by itself?
    pub fn is_server(&self) -> bool {
        matches!(self, Builtin::UdpSink { .. } | Builtin::TcpSink { .. } | Builtin::Echo { .. })
    }

    /// Does it say how fast it received?
    pub fn has_goodput(&self) -> bool {
        matches!(self, Builtin::UdpSink { .. } | Builtin::TcpSink { .. })
    }

    /// The program, ready to run.
    pub fn actor(&self, id: ProgramId) -> Box<dyn Actor> {
        match self.clone() {
            Builtin::Ping { to, count, interval, bytes } => Box::new(ping::Ping::new(id, to, count, interval, bytes)),
            Builtin::UdpCbr { to, rate, bytes, count } => Box::new(udp::Cbr::new(id, to, rate, bytes, count)),
            Builtin::UdpSink { port } => Box::new(udp::Sink::new(id, port)),
            Builtin::TcpSend { to, bytes, duration } => Box::new(tcp::Send::new(id, to, bytes, duration)),
            Builtin::TcpSink { port } => Box::new(tcp::Sink::new(id, port)),
            Builtin::Echo { port } => Box::new(echo::Echo::new(id, port)),
        }
    }
}

/// Why a program gave up: the call, and what it said.
type Failure = (&'static str, Errno);

/// Ends a program with status 1 and says why.
fn fail(cx: &mut dyn ActorContext, id: ProgramId, (call, errno): Failure) {
    let text = errno.text().unwrap_or("unknown error");
    cx.output(id, Stream::Error, format!("{call}: {text}\n").as_bytes());
    cx.ended(id, Status::Exited(1));
}

/// A socket of the family of `address`.
fn open(cx: &mut dyn ActorContext, address: IpAddr, kind: i32, protocol: i32) -> Result<SocketId, Failure> {
    let domain = if address.is_ipv6() { AF_INET6 } else { AF_INET };
    cx.call(|sockets, cx| sockets.socket(domain, kind, protocol, cx)).unwrap_or(Err(Errno::ENETDOWN)).map_err(|errno| ("socket", errno))
}

/// A socket that hears both families on a port; only IPv4 where there is no IPv6.
fn open_on(cx: &mut dyn ActorContext, port: u16, kind: i32) -> Result<SocketId, Failure> {
    let any = |v6: bool| -> IpAddr { if v6 { std::net::Ipv6Addr::UNSPECIFIED.into() } else { std::net::Ipv4Addr::UNSPECIFIED.into() } };
    let (socket, v6) = match open(cx, any(true), kind, 0) {
        Ok(socket) => (socket, true),
        Err(_) => (open(cx, any(false), kind, 0)?, false),
    };
    let address = weft_socket::address::to_bytes(SocketAddr::new(any(v6), port));
    cx.call(|sockets, cx| sockets.bind(socket, &address, cx)).unwrap_or(Err(Errno::ENETDOWN)).map_err(|errno| ("bind", errno))?;
    Ok(socket)
}

/// Bits per second, rounded down. None: no time has passed, so nobody can say.
pub(crate) fn bits_per_second(bytes: u64, from: Instant, to: Instant) -> Option<u64> {
    let nanos = to.since(from).as_nanos();
    (u128::from(bytes) * 8_000_000_000).checked_div(nanos).map(|rate| u64::try_from(rate).unwrap_or(u64::MAX))
}

/// The figure of what a program received, over the time between its first and its last byte.
pub(crate) const GOODPUT: &str = "goodput_bits_per_second";

/// `12.345678901 s`
fn seconds(span: Duration) -> String {
    format!("{}.{:09} s", span.as_secs(), span.subsec_nanos())
}

/// `12.345678 ms`
fn millis(span: Duration) -> String {
    format!("{}.{:06} ms", span.as_millis(), span.as_nanos() % 1_000_000)
}
