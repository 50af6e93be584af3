//! Addresses that mean something only together with an interface.
//!
//! Wherever blocks exchange a `SocketAddr` (stream calls and events, the tuples of a transport), such an address carries its interface's number
//! as scope; every other IPv6 address has scope 0, and the flow label is always 0. So addresses can be compared as they are.

use crate::context::Context;
use crate::frame::InterfaceIndex;
use crate::table::{AddressKind, Answer, Family, Query, Table};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Does this address need an interface (Linux `__ipv6_addr_needs_scope_id`): link-local unicast, and groups of interface-local and link-local
/// scope (RFC 4007 §4, RFC 4291 §2.7)?
pub const fn needs_scope(address: &Ipv6Addr) -> bool {
    let [first, second, ..] = address.octets();
    address.is_unicast_link_local() || (first == 0xff && matches!(second & 0x0f, 1 | 2))
}

/// An address in the form in which it is compared.
pub const fn scoped(ip: IpAddr, port: u16, interface: InterfaceIndex) -> SocketAddr {
    match ip {
        IpAddr::V4(_) => SocketAddr::new(ip, port),
        IpAddr::V6(v6) => SocketAddr::V6(SocketAddrV6::new(v6, port, 0, if needs_scope(&v6) { interface.0 } else { 0 })),
    }
}

/// The interface that an address names; `NONE` for all that mean the same everywhere.
pub const fn interface_of(address: SocketAddr) -> InterfaceIndex {
    match address {
        SocketAddr::V6(v6) => InterfaceIndex(v6.scope_id()),
        SocketAddr::V4(_) => InterfaceIndex::NONE,
    }
}

/// Where a packet came in, as its addresses see it: what a node sends to a link-local address of its own comes back through `lo`, but belongs to
/// the link. `own` is this node's address: the destination of what came in, the source of what an error is about.
pub fn link_of(interface: InterfaceIndex, own: IpAddr, cx: &Context<'_>) -> InterfaceIndex {
    match own {
        IpAddr::V6(v6) if v6.is_unicast_link_local() && interface == InterfaceIndex::LOOPBACK => {
            match cx.ask(Table::Addresses(Family::V6), &Query::AddressKind(own)) {
                Answer::AddressKind(AddressKind::Local(link)) => link,
                _ => interface,
            }
        }
        _ => interface,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_a_link_have_a_scope() {
        let scope = |text: &str| interface_of(scoped(text.parse().unwrap(), 1, InterfaceIndex(5))).0;
        let scopes: Vec<u32> = ["fe80::1", "ff02::1", "ff01::1", "ff05::1", "2001:db8::1", "::1", "10.0.0.1"].map(scope).to_vec();
        assert_eq!(scopes, [5, 5, 5, 0, 0, 0, 0]);
    }
}
