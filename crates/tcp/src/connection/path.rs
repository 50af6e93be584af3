//! The way to the peer.

use std::net::IpAddr;
use weft_core::InterfaceIndex;

/// What is known of the way to the peer: the answer of the routes, kept until the tables change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Path {
    /// Largest IP packet, bytes.
    pub mtu: u32,
    /// Largest payload of a frame that may be handed down whole, bytes; 0: one segment each.
    pub gso_max_bytes: u32,
    /// Interface that the socket is bound to; [`InterfaceIndex::NONE`]: routed by destination.
    pub interface: InterfaceIndex,
    /// The neighbour that packets are handed to and the interface it is on; none for what does not leave the node.
    pub neighbour: Option<(InterfaceIndex, IpAddr)>,
    /// The block's count of changes to the tables when this was asked for.
    pub epoch: u64,
}
weft_core::fields!(struct Path { mtu, gso_max_bytes, interface, neighbour, epoch });
