//! What addresses are to this node.

use std::net::IpAddr;
use weft_core::table::{AddressKind, Family};
use weft_core::{Answer, Context, Query, Table};

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

    /// The addresses have changed.
    pub(crate) fn forget(&mut self) {
        self.last = None;
    }
}
