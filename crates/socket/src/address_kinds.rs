//! What addresses are to this node.

use std::net::{IpAddr, Ipv6Addr};
use weft_core::table::{AddressKind, AddressState, Family};
use weft_core::{Answer, Context, InterfaceIndex, Query, Table};

/// Asks the owner of the addresses, and remembers its last answer.
#[derive(Debug, Default)]
pub(crate) struct AddressKinds {
    last: Option<(IpAddr, AddressKind)>,
}

impl AddressKinds {
    /// What an address is to this node; without an owner of addresses, only the obvious.
    pub(crate) fn of(&mut self, address: IpAddr, cx: &Context<'_>) -> AddressKind {
        if let Some((known, kind)) = self.last
            && known == address
        {
            return kind;
        }
        let kind = match cx.ask(Table::Addresses(Family::of(address)), &Query::AddressKind(address)) {
            Answer::AddressKind(kind) => kind,
            _ if address.is_unspecified() => AddressKind::Unspecified,
            _ if address.is_multicast() => AddressKind::Multicast,
            _ => AddressKind::Other,
        };
        self.last = Some((address, kind));
        kind
    }

    /// `ipv6_chk_addr`: is it an address of the node's? One of link or host scope must be on this interface (0: on any).
    pub(crate) fn is_own(&mut self, address: Ipv6Addr, interface: u32, cx: &Context<'_>) -> bool {
        let of_link = address.is_unicast_link_local() || address.is_loopback();
        match self.of(address.into(), cx) {
            AddressKind::Local(InterfaceIndex(at)) if interface == 0 || at == interface || !of_link => true,
            // More interfaces than that one may have it.
            AddressKind::Local(_) => {
                let there = cx.ask(Table::Addresses(Family::V6), &Query::Address(InterfaceIndex(interface), address.into()));
                let usable = |state| matches!(state, AddressState::Preferred | AddressState::Deprecated);
                matches!(there, Answer::Addresses(list) if list.iter().any(|one| usable(one.state)))
            }
            _ => false,
        }
    }

    /// The addresses have changed.
    pub(crate) fn forget(&mut self) {
        self.last = None;
    }
}
