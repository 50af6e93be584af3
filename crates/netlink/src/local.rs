//! The kernel's table "local": what follows from addresses, in the order of its dumps. And prefixes as numbers.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weft_core::InterfaceIndex;
use weft_core::table::{
    Address, AddressState, InterfaceRow, LinkType, PROTOCOL_KERNEL, Route, RouteKind, SCOPE_HOST, SCOPE_LINK, TABLE_LOCAL,
};

/// An address's bits.
pub(crate) fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}

/// Bits of an address of this family.
pub(crate) fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The network of an address, as a number.
pub(crate) fn masked(address: IpAddr, bits: u8) -> u128 {
    let rest = u32::from(width(address).saturating_sub(bits));
    number(address).checked_shr(rest).and_then(|high| high.checked_shl(rest)).unwrap_or(0)
}

/// The network of an address.
pub(crate) fn network(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(_) => Ipv4Addr::from(masked(address, bits) as u32).into(),
        IpAddr::V6(_) => Ipv6Addr::from(masked(address, bits)).into(),
    }
}

/// Does a prefix hold an address?
pub(crate) fn covers(prefix: IpAddr, bits: u8, address: IpAddr) -> bool {
    prefix.is_ipv4() == address.is_ipv4() && masked(prefix, bits) == masked(address, bits)
}

/// The order of the kernel's dumps. IPv4 (fib_trie): by address, of one address the longest prefix first. IPv6 (fib6_walk): what is in a prefix before the
/// prefix itself.
pub(crate) fn dump_order(a: &Route, b: &Route) -> Ordering {
    let length = || b.prefix_bits.cmp(&a.prefix_bits);
    if a.destination.is_ipv4() {
        return a.destination.cmp(&b.destination).then_with(length);
    }
    let shorter = a.prefix_bits.min(b.prefix_bits);
    if masked(a.destination, shorter) == masked(b.destination, shorter) { length() } else { a.destination.cmp(&b.destination) }
}

/// What follows from the addresses of interfaces. Of one that is down IPv4 keeps what is local (fib_add_ifaddr, fib_sync_down_dev), IPv6 nothing.
/// `unready`: those on which IPv6 has not begun (addrconf_add_dev).
pub(crate) fn routes(addresses: &[Address], interfaces: &[InterfaceRow], unready: &BTreeSet<InterfaceIndex>) -> Vec<Route> {
    let mut routes = Vec::new();
    let v6 = addresses.first().is_some_and(|address| address.address.is_ipv6());
    for row in interfaces.iter().filter(|row| row.interface.up || !v6) {
        let here = addresses.iter().filter(|address| address.interface == row.interface.index);
        let plain = Route { interface: row.interface.index, protocol: PROTOCOL_KERNEL, table: TABLE_LOCAL, ..Route::PLAIN };
        if v6 {
            let usable = here.filter(|address| matches!(address.state, AddressState::Preferred | AddressState::Deprecated));
            let own = |address: &Address| Route { destination: address.address, prefix_bits: 128, kind: RouteKind::Local, ..plain };
            routes.extend(usable.map(own));
            if row.interface.link == LinkType::Ethernet && !unready.contains(&row.interface.index) {
                let all = Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0).into();
                routes.push(Route { destination: all, prefix_bits: 8, kind: RouteKind::Multicast, metric: 256, ..plain });
            }
            continue;
        }
        for (address, _) in crate::address::in_order(here.copied().collect()) {
            of_v4(&address, addresses, plain, row.interface.up, &mut routes);
        }
    }
    routes.sort_by(|a, b| dump_order(a, b).then(a.interface.cmp(&b.interface)));
    routes.dedup();
    routes
}

/// fib_add_ifaddr.
fn of_v4(address: &Address, all: &[Address], plain: Route, up: bool, routes: &mut Vec<Route>) {
    let heads = |other: &&Address| {
        other.interface == address.interface
            && other.prefix_bits == address.prefix_bits
            && masked(other.on_link(), other.prefix_bits) == masked(address.on_link(), address.prefix_bits)
    };
    let source = all.iter().find(heads).map(|head| head.address);
    let local = Route { kind: RouteKind::Local, scope: SCOPE_HOST, source, ..plain };
    routes.push(Route { destination: address.address, prefix_bits: 32, ..local });
    let base = address.on_link();
    // "(dev->flags & IFF_LOOPBACK) ? RTN_LOCAL : RTN_UNICAST"
    if plain.interface == InterfaceIndex::LOOPBACK && address.prefix_bits < 32 {
        routes.push(Route { destination: network(base, address.prefix_bits), prefix_bits: address.prefix_bits, ..local });
    }
    if address.prefix_bits < 31 && up {
        let highest = masked(base, address.prefix_bits) as u32 | u32::MAX.checked_shr(address.prefix_bits.into()).unwrap_or(0);
        let broadcast = Route { kind: RouteKind::Broadcast, scope: SCOPE_LINK, source, ..plain };
        routes.push(Route { destination: Ipv4Addr::from(highest).into(), prefix_bits: 32, ..broadcast });
    }
}
