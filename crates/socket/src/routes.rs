//! Ways to a destination, as one socket may use them.

use crate::abi::{IPPROTO_MPTCP, IPPROTO_TCP};
use crate::errno::Errno;
use crate::socket::Socket;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use weft_core::table::{AddressState, Family, RouteAnswer, RouteKind, Traffic};
use weft_core::{Answer, Context, InterfaceIndex, Query, Table};

/// Asks for the way to `to` as this socket may use it; errors as `ip_route_output_flow` and `__mkroute_output` give them.
pub(crate) fn route(socket: &Socket, to: SocketAddr, source: Option<IpAddr>, cx: &Context<'_>) -> Result<RouteAnswer, Errno> {
    through(to.ip(), source, socket.way_out(to.ip()), traffic_of(socket, to.port(), None), cx)
}

/// The same through an interface that is already chosen; 0: any.
pub(crate) fn through(
    to: IpAddr,
    source: Option<IpAddr>,
    interface: u32,
    traffic: Traffic,
    cx: &Context<'_>,
) -> Result<RouteAnswer, Errno> {
    let interface = (interface != 0).then_some(InterfaceIndex(interface));
    // ip_route_output_key_hash_rcu: "dev_out = dev_get_by_index_rcu(net, fl4->flowi4_oif); rth = ERR_PTR(-ENODEV); if (!dev_out) goto out;"
    // IPv6 looks for routes through it, and finds none.
    if let Some(interface) = interface
        && matches!(cx.ask(Table::Interfaces, &Query::Interface(interface)), Answer::None)
    {
        return Err(if to.is_ipv4() { Errno::ENODEV } else { Errno::ENETUNREACH });
    }
    let query = Query::Route { destination: to, source, interface, traffic };
    let answer = cx.route(&query, Family::of(to)).ok_or_else(|| no_route(to, source, cx))?;
    match answer.kind {
        RouteKind::Unicast | RouteKind::Local | RouteKind::Broadcast | RouteKind::Multicast => Ok(answer),
        RouteKind::Blackhole => Err(Errno::EINVAL),
        RouteKind::Unreachable => Err(Errno::EHOSTUNREACH),
        RouteKind::Prohibit => Err(Errno::EACCES),
        // No look-up ends there.
        RouteKind::Throw => Err(Errno::ENETUNREACH),
    }
}

/// Why there is no way. ip6_dst_lookup_tail looks for a source before it looks at what the route is: a node without any address has none.
fn no_route(to: IpAddr, source: Option<IpAddr>, cx: &Context<'_>) -> Errno {
    let usable = |state| matches!(state, AddressState::Preferred | AddressState::Deprecated);
    let without_source = || match cx.ask(Table::Addresses(Family::V6), &Query::Addresses) {
        Answer::Addresses(rows) => !rows.iter().any(|row| usable(row.state)),
        _ => false,
    };
    let nowhere = to.is_ipv6() && source.is_none_or(|source| source.is_unspecified()) && without_source();
    if nowhere { Errno::EADDRNOTAVAIL } else { Errno::ENETUNREACH }
}

/// An unspecified destination means this host: the own address, or 127.0.0.1 (`ip_route_output_key_hash_rcu`).
pub(crate) fn destination(to: SocketAddr, own: IpAddr) -> SocketAddr {
    match to.ip() {
        ip if !ip.is_unspecified() => to,
        _ if !own.is_unspecified() => SocketAddr::new(own, to.port()),
        _ => SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), to.port()),
    }
}

/// The own address that may be the source of what goes to `to`. EAFNOSUPPORT: an IPv4 address cannot talk to an IPv6 one
/// (`ip6_dst_lookup_tail`).
pub(crate) fn source_for(own: IpAddr, to: IpAddr) -> Result<Option<IpAddr>, Errno> {
    match (own, to) {
        (IpAddr::V4(_), IpAddr::V6(_)) => Err(Errno::EAFNOSUPPORT),
        (IpAddr::V6(_), IpAddr::V4(_)) => Ok(None),
        _ => Ok(Some(own).filter(|ip| !ip.is_unspecified() && !ip.is_multicast())),
    }
}

/// What rules may look at of what a socket sends to a port.
pub(crate) fn traffic_of(socket: &Socket, to: u16, mark: Option<u32>) -> Traffic {
    let options = &socket.options;
    Traffic {
        input: InterfaceIndex::NONE,
        mark: mark.unwrap_or(options.mark),
        tos: options.traffic_class_of(socket.is_v6()),
        // Subflows are TCP's.
        protocol: u8::try_from(if socket.protocol == IPPROTO_MPTCP { IPPROTO_TCP } else { socket.protocol }).unwrap_or(0),
        ports: (socket.local.port(), to),
        ..Traffic::default()
    }
}
