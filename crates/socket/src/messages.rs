//! Sockets whose messages have boundaries: UDP's, raw ones, and those of ICMP.

use crate::datagrams::Datagrams;
use crate::ping_socket::Pings;
use crate::raw_socket::RawSockets;

/// By what a packet finds them.
#[derive(Debug)]
pub(crate) struct Messages {
    pub datagrams: Datagrams,
    pub raw: RawSockets,
    pub pings: Pings,
}
