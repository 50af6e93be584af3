//! The node's tables as messages of rtnetlink(7).

use crate::call::interface;
use crate::tables::{InterfaceRow, NeighbourRow, RouteRow};
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage, AddressScope};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkLayerType, LinkMessage, State};
use netlink_packet_route::neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteProtocol, RouteScope, RouteType};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weft_core::table::{Address, AddressState, LinkType, RouteKind};

pub(super) fn link(row: &InterfaceRow) -> RouteNetlinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = row.index;
    message.header.link_layer_type = LinkLayerType::from(interface::hardware_type(row.link));
    message.header.flags = LinkFlags::from_bits_retain(interface::flags(row));
    message.attributes = vec![
        LinkAttribute::IfName(row.name.clone()),
        LinkAttribute::TxQueueLen(1000),
        LinkAttribute::OperState(match (row.up, row.link) {
            (true, LinkType::Loopback) => State::Unknown,
            (true, _) => State::Up,
            (false, _) => State::Down,
        }),
        LinkAttribute::Mtu(row.mtu),
        LinkAttribute::Group(row.group),
        LinkAttribute::Qdisc("noqueue".to_owned()),
        LinkAttribute::Address(row.mac.to_vec()),
        LinkAttribute::Broadcast(if row.link == LinkType::Loopback { vec![0; 6] } else { vec![0xff; 6] }),
    ];
    RouteNetlinkMessage::NewLink(message)
}

pub(super) fn address(row: &Address, interfaces: &[InterfaceRow]) -> Option<RouteNetlinkMessage> {
    let interface = interfaces.iter().find(|interface| interface.index == row.interface.0)?;
    let loopback = interface.link == LinkType::Loopback;
    let mut message = AddressMessage::default();
    message.header.prefix_len = row.prefix_bits;
    message.header.flags = if row.dynamic { AddressHeaderFlags::empty() } else { AddressHeaderFlags::Permanent };
    message.header.flags |= match row.state {
        AddressState::Preferred => AddressHeaderFlags::empty(),
        AddressState::Deprecated => AddressHeaderFlags::Deprecated,
        AddressState::Tentative => AddressHeaderFlags::Tentative,
        // The kernel leaves IFA_F_TENTATIVE on an address that turned out to be another's.
        AddressState::Duplicated => AddressHeaderFlags::Tentative | AddressHeaderFlags::Dadfailed,
    };
    message.header.index = row.interface.0;
    message.attributes = vec![AddressAttribute::Address(row.address)];
    match row.address {
        IpAddr::V4(ip) => {
            message.header.family = AddressFamily::Inet;
            message.header.scope = if loopback { AddressScope::Host } else { AddressScope::Universe };
            message.attributes.push(AddressAttribute::Local(ip.into()));
            if !loopback && row.prefix_bits < 31 {
                let host = u32::MAX.checked_shr(u32::from(row.prefix_bits)).unwrap_or(0);
                message.attributes.push(AddressAttribute::Broadcast(Ipv4Addr::from(u32::from(ip) | host)));
            }
            message.attributes.push(AddressAttribute::Label(interface.name.clone()));
        }
        // inet6_fill_ifaddr: IFA_LOCAL only where there is a peer; no broadcast, no label.
        IpAddr::V6(ip) => {
            message.header.family = AddressFamily::Inet6;
            message.header.scope = scope(ip);
        }
    }
    Some(RouteNetlinkMessage::NewAddress(message))
}

/// rt_scope(ipv6_addr_scope).
fn scope(ip: Ipv6Addr) -> AddressScope {
    if ip.is_loopback() {
        AddressScope::Host
    } else if ip.is_unicast_link_local() {
        AddressScope::Link
    } else {
        AddressScope::Universe
    }
}

/// A row of a dump, or the answer to "how to reach `destination`".
pub(super) fn route(row: &RouteRow, destination: Option<IpAddr>) -> RouteNetlinkMessage {
    let mut message = RouteMessage::default();
    let table = if row.local_table { libc::RT_TABLE_LOCAL } else { libc::RT_TABLE_MAIN };
    let v6 = row.destination.0.is_ipv6();
    message.header.address_family = if v6 { AddressFamily::Inet6 } else { AddressFamily::Inet };
    message.header.table = table;
    message.header.protocol = if row.local_table { RouteProtocol::Kernel } else { RouteProtocol::Static };
    message.header.scope = match (row.local_table, row.gateway) {
        // rt6_fill_node: "rtm->rtm_scope = RT_SCOPE_UNIVERSE;"
        _ if v6 => RouteScope::Universe,
        (true, _) => RouteScope::Host,
        (false, Some(_)) => RouteScope::Universe,
        (false, None) => RouteScope::Link,
    };
    message.header.kind = match row.kind {
        RouteKind::Unicast => RouteType::Unicast,
        RouteKind::Local => RouteType::Local,
        RouteKind::Broadcast => RouteType::Broadcast,
        RouteKind::Multicast => RouteType::Multicast,
        RouteKind::Blackhole => RouteType::BlackHole,
        RouteKind::Unreachable => RouteType::Unreachable,
        RouteKind::Prohibit => RouteType::Prohibit,
    };
    let (prefix, bits) = destination.map_or(row.destination, |destination| (destination, if v6 { 128 } else { 32 }));
    message.header.destination_prefix_length = bits;
    let attributes = &mut message.attributes;
    attributes.push(RouteAttribute::Table(u32::from(table)));
    if bits > 0 {
        attributes.push(RouteAttribute::Destination(route_address(prefix)));
    }
    if row.metric > 0 || v6 {
        attributes.push(RouteAttribute::Priority(row.metric));
    }
    if let Some(source) = row.source {
        attributes.push(RouteAttribute::PrefSource(route_address(source)));
    }
    if let Some(gateway) = row.gateway {
        attributes.push(RouteAttribute::Gateway(route_address(gateway)));
    }
    attributes.push(RouteAttribute::Oif(row.interface));
    RouteNetlinkMessage::NewRoute(message)
}

fn route_address(address: IpAddr) -> RouteAddress {
    match address {
        IpAddr::V4(address) => RouteAddress::Inet(address),
        IpAddr::V6(address) => RouteAddress::Inet6(address),
    }
}

pub(super) fn neighbour(row: &NeighbourRow) -> RouteNetlinkMessage {
    let mut message = NeighbourMessage::default();
    message.header.family = if row.address.is_ipv6() { AddressFamily::Inet6 } else { AddressFamily::Inet };
    message.header.ifindex = row.interface;
    message.header.kind = RouteType::Unicast;
    message.header.state = match row.state.as_str() {
        "INCOMPLETE" => NeighbourState::Incomplete,
        "REACHABLE" => NeighbourState::Reachable,
        "STALE" => NeighbourState::Stale,
        "DELAY" => NeighbourState::Delay,
        "PROBE" => NeighbourState::Probe,
        "FAILED" => NeighbourState::Failed,
        "PERMANENT" => NeighbourState::Permanent,
        _ => NeighbourState::None,
    };
    message.attributes.push(NeighbourAttribute::Destination(match row.address {
        IpAddr::V4(ip) => NeighbourAddress::Inet(ip),
        IpAddr::V6(ip) => NeighbourAddress::Inet6(ip),
    }));
    if row.router {
        message.header.flags = NeighbourFlags::Router;
    }
    if let Some(mac) = row.mac {
        message.attributes.push(NeighbourAttribute::LinkLayerAddress(mac.to_vec()));
    }
    RouteNetlinkMessage::NewNeighbour(message)
}
