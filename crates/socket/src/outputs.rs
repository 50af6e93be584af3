//! The block's outputs, in the order in which its kind declares them.

use weft_core::OutPort;

/// Output to the stream transport.
pub(crate) const TCP: OutPort = OutPort(0);
/// Output to the datagram transport.
pub(crate) const UDP: OutPort = OutPort(1);
/// Output for IPv4 datagrams that nobody wants.
pub(crate) const UNREACHABLE: OutPort = OutPort(2);
/// Output for IPv6 datagrams that nobody wants.
pub(crate) const UNREACHABLE6: OutPort = OutPort(3);
/// Outputs for what raw and ICMP sockets send.
pub(crate) const IP4: OutPort = OutPort(4);
/// The same over IPv6.
pub(crate) const IP6: OutPort = OutPort(5);
/// Output for whole IPv4 packets.
pub(crate) const PACKET: OutPort = OutPort(6);
/// Output for whole IPv6 packets.
pub(crate) const PACKET6: OutPort = OutPort(7);
/// Output for what packet sockets send, from the link header on.
pub(crate) const FRAMES: OutPort = OutPort(8);
