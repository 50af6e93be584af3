//! Built-in programs as data: which there are, and their parameters. [`crate::program`] plays them.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

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
}

/// As the scenario writes it: its name, and keys with their values.
impl fmt::Display for Builtin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Builtin::Ping { to, count, interval, bytes } => {
                write!(f, "ping to={to} count={count} interval={interval:?} bytes={bytes}")
            }
            Builtin::UdpCbr { to, rate, bytes, count } => write!(f, "udp-cbr to={to} rate={rate}bit bytes={bytes} count={count}"),
            Builtin::UdpSink { port } => write!(f, "udp-sink port={port}"),
            Builtin::TcpSend { to, bytes, duration } => {
                write!(f, "tcp-send to={to}")?;
                bytes.map_or(Ok(()), |bytes| write!(f, " bytes={bytes}"))?;
                duration.map_or(Ok(()), |duration| write!(f, " duration={duration:?}"))
            }
            Builtin::TcpSink { port } => write!(f, "tcp-sink port={port}"),
            Builtin::Echo { port } => write!(f, "echo port={port}"),
        }
    }
}
