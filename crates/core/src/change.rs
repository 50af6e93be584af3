//! What blocks ask the owner of a table to change.
//!
//! A [`Change`] is a message without an answer: `Context::tell` hands it to the owner after the running call, in the engine's order. An owner that
//! cannot do it counts that (a full table), and lives on. Questions, which change nothing, are [`Query`](crate::Query).

use crate::frame::InterfaceIndex;
use crate::table::{Address, Route};
use std::net::IpAddr;
use weft_wire::Protocol;

/// The holder of the node's own memberships in [`Change::Group`] (solicited-node groups); those of sockets are others.
pub const HOLDER_NODE: u64 = u64::MAX;

/// A request to the owner of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// Adds an address, or renews its lifetimes and state (owner of `Addresses`).
    AddAddress(Address),
    /// Removes an address (owner of `Addresses`).
    DeleteAddress {
        /// Whose.
        interface: InterfaceIndex,
        /// Which.
        address: IpAddr,
    },
    /// Adds a route, or replaces the one with the same destination, metric and gateway (owner of `Routes`).
    AddRoute(Route),
    /// Removes the route with this destination, metric and gateway (owner of `Routes`).
    DeleteRoute(Route),
    /// A router told that packets to this destination must not be larger (owner of `Routes`; RFC 1191, RFC 8201).
    PathMtu {
        /// Where the packet went.
        destination: IpAddr,
        /// Largest IP packet, bytes, as the router told; the owner applies its floor.
        mtu: u32,
    },
    /// A router told of a better first hop (owner of `Routes`; RFC 1122 §3.2.2.2, RFC 4861 §8).
    Redirect {
        /// Where the packet went.
        destination: IpAddr,
        /// The better first hop.
        gateway: IpAddr,
        /// Where it was told.
        interface: InterfaceIndex,
        /// Who told it.
        from: IpAddr,
    },
    /// A packet was sent on to the link that it came from: its source may be told of a better first hop (owner of `Neighbours(V6)`; RFC 4861 §8.2).
    SendRedirect {
        /// The link.
        interface: InterfaceIndex,
        /// Who sent it.
        source: IpAddr,
        /// The better first hop: a router, or the destination itself.
        target: IpAddr,
        /// Where it went.
        destination: IpAddr,
        /// Its beginning, from the IP header on.
        packet: Vec<u8>,
    },
    /// Packets of this protocol are wanted as they come in, beside their way to the transport, at the output `raw` (owner of `Addresses`).
    WantRaw {
        /// Which protocol; a tap for every protocol is wanted one by one.
        protocol: Protocol,
        /// From now on, or no longer.
        wanted: bool,
    },
    /// Frames of all interfaces are wanted as they come in and go out, beside their way, at the output `taps` (owner of `Interfaces`).
    WantFrames {
        /// From now on, or no longer.
        wanted: bool,
    },
    /// What one holder wants to receive of a multicast group (owner of `Groups`); the owner joins all holders' wishes (RFC 3376 §3.2, RFC 3810 §4.2).
    Group {
        /// On which interface.
        interface: InterfaceIndex,
        /// Which group.
        group: IpAddr,
        /// Who: a number that the asking block gives out, one a socket; [`HOLDER_NODE`] is the node itself.
        holder: u64,
        /// What; `None`: nothing any more.
        filter: Option<SourceFilter>,
    },
    /// A router told what packets to an interface's link should be like (owner of `Routes`; RFC 4861 §6.3.4). `None`: as the interface has it.
    LinkParameters {
        /// Which interface.
        interface: InterfaceIndex,
        /// Largest IP packet, bytes; never above the interface's own.
        mtu: Option<u32>,
        /// Hop limit of packets that ask for none.
        hop_limit: Option<u8>,
    },
    /// The neighbour answers: a transport made progress through it (owner of `Neighbours`; RFC 4861 §7.3.1).
    Confirm {
        /// Where.
        interface: InterfaceIndex,
        /// Which neighbour.
        neighbour: IpAddr,
    },
    /// It failed while it was asked, which has no way out for what it has to say of that: it may say so now (owner of `Schedulers`).
    TellFailure,
}

/// Which sources of a group are wanted (RFC 3376 §2).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SourceFilter {
    /// Only these.
    Include(Vec<IpAddr>),
    /// All but these; none listed: the whole group (IP_ADD_MEMBERSHIP).
    Exclude(Vec<IpAddr>),
}
