//! Interfaces that come and go: link-local addresses for those that are up, and nothing left of those that are gone. And time that passes.

use super::addresses::{is_link_local, v6};
use super::*;
use std::net::Ipv6Addr;
use weft_core::table::{AddressState, LinkType, Which};
use weft_wire::ethernet::Mac;
use weft_wire::ipv6::MTU_MIN;

/// RFC 4862 §5.3: "a link-local address is formed by combining the well-known link-local prefix FE80::0 with an interface identifier"; RFC 2464
/// §4: that is the EUI-64 of the MAC address with the universal/local bit inverted. (Linux's default, addr_gen_mode 0; stable opaque ones,
/// RFC 7217, are its mode 2.)
pub(super) fn link_local_of(mac: Mac) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac.0;
    let identifier = u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f]);
    Ipv6Addr::from_bits(0xfe80 << 112 | u128::from(identifier))
}

/// Does anything become of it when time passes?
pub(super) const fn has_lifetime(address: &Address) -> bool {
    address.preferred_until.is_some() || address.valid_until.is_some()
}

impl Ip6 {
    /// Interfaces came, went, or changed.
    pub(super) fn interfaces_changed(&mut self, cx: &mut Context<'_>) {
        self.has_interfaces = self.facts.refresh(cx);
        self.changed();
        self.forget_gone(cx);
        for interface in self.interfaces(cx) {
            self.interface_changed(interface, cx);
        }
    }

    /// All that there are.
    pub(super) fn interfaces(&self, cx: &Context<'_>) -> Vec<InterfaceIndex> {
        match cx.ask(Table::Interfaces, &Query::Interfaces(Which::All)) {
            Answer::Interfaces(rows) => rows.iter().map(|row| row.interface.index).collect(),
            _ => Vec::new(),
        }
    }

    /// One interface came, went, or changed.
    pub(super) fn one_interface_changed(&mut self, interface: InterfaceIndex, cx: &mut Context<'_>) {
        self.has_interfaces = self.facts.refresh_one(interface, cx);
        self.changed();
        match self.facts.get(interface, cx) {
            Some(_) => self.interface_changed(interface, cx),
            None => self.forget_interfaces(&[interface], cx),
        }
    }

    fn interface_changed(&mut self, interface: InterfaceIndex, cx: &mut Context<'_>) {
        let Some(facts) = self.facts.get(interface, cx) else { return };
        let disabled = self.disabled.sees(interface);
        let serves = !disabled && facts.up && facts.link == LinkType::Ethernet && facts.mtu as usize >= MTU_MIN;
        let (own, carrier) = (link_local_of(facts.mac), facts.carrier);
        if disabled {
            self.awake.remove(&interface);
            self.delete_addresses(|address| address.interface == interface, cx);
        } else if !serves {
            // Linux addrconf_ifdown: what the node gave itself goes, and comes again. What somebody set stays here.
            if self.awake.remove(&interface) {
                self.delete_addresses(|address| address.interface == interface && address.dynamic, cx);
            }
        } else if carrier && self.awake.insert(interface) {
            // Linux addrconf_link_ready: nothing before the first carrier. One that goes then takes nothing along.
            if self.addresses.of(interface).any(|(ip, _)| is_link_local(ip)) {
                return;
            }
            let address =
                Address { state: self.first_state(interface, true, cx), dynamic: true, ..Address::permanent(interface, own.into(), 64) };
            self.add_address(address, cx);
        }
    }

    /// Addresses and routes of interfaces that are no more.
    fn forget_gone(&mut self, cx: &mut Context<'_>) {
        let mut named: Vec<InterfaceIndex> = self.addresses.iter().map(|address| address.interface).collect();
        named.extend(self.tables.interfaces());
        named.extend(self.awake.iter().chain(self.links.keys()).copied());
        named.sort_unstable();
        named.dedup();
        let gone: Vec<InterfaceIndex> = named.into_iter().filter(|interface| self.facts.get(*interface, cx).is_none()).collect();
        self.forget_interfaces(&gone, cx);
    }

    fn forget_interfaces(&mut self, gone: &[InterfaceIndex], cx: &mut Context<'_>) {
        if !self.has_interfaces || gone.is_empty() {
            return;
        }
        // Blackholes and the like name no interface.
        let goes = |interface: InterfaceIndex| interface != InterfaceIndex::NONE && gone.contains(&interface);
        self.awake.retain(|interface| !goes(*interface));
        self.disabled.forget(goes);
        self.links.retain(|interface, _| !goes(*interface));
        self.exceptions.forget_gateways(|_, interface| goes(interface));
        for address in self.addresses.remove_where(|address| goes(address.interface)) {
            self.tell_address("deleted", &address, cx);
        }
        self.remove_ways(|route| goes(route.interface), cx);
    }

    /// Has a new address to be proven unique first? Where somebody does that, and on links where there can be others.
    pub(super) fn first_state(&mut self, interface: InterfaceIndex, detect: bool, cx: &Context<'_>) -> AddressState {
        let on_ethernet = self.facts.get(interface, cx).is_some_and(|facts| facts.link == LinkType::Ethernet);
        let neighbours = Table::Neighbours(Family::V6);
        let detected = detect && on_ethernet && cx.has_owner(neighbours);
        if detected { AddressState::Tentative } else { AddressState::Preferred }
    }

    /// Sets the timer to when the next address is deprecated or removed.
    pub(super) fn schedule_lifetimes(&self, cx: &mut Context<'_>) {
        let preferred = |address: &Address| address.preferred_until.filter(|_| address.state == AddressState::Preferred);
        let next = self.addresses.iter().flat_map(|address| [preferred(address), address.valid_until]).flatten().min();
        match next {
            Some(at) => cx.set_timer(TIMER_LIFETIMES, at),
            None => cx.cancel_timer(TIMER_LIFETIMES),
        }
    }

    /// RFC 4862 §5.5.4: "A preferred address becomes deprecated when its preferred lifetime expires. … An address (and its association with an
    /// interface) becomes invalid when its valid lifetime expires."
    pub(super) fn lifetimes_passed(&mut self, cx: &mut Context<'_>) {
        let now = cx.now;
        self.delete_addresses(|address| address.valid_until.is_some_and(|until| until <= now), cx);
        let late =
            |address: &&Address| address.state == AddressState::Preferred && address.preferred_until.is_some_and(|until| until <= now);
        let aged: Vec<Address> = self.addresses.iter().filter(late).copied().collect();
        for address in aged {
            self.add_address(Address { state: AddressState::Deprecated, ..address }, cx);
        }
        self.schedule_lifetimes(cx);
    }

    /// Sets the timer to when the next path MTU is forgotten.
    pub(super) fn schedule_exceptions(&self, cx: &mut Context<'_>) {
        match self.exceptions.next() {
            Some(at) => cx.set_timer(TIMER_EXCEPTIONS, at),
            None => cx.cancel_timer(TIMER_EXCEPTIONS),
        }
    }

    pub(super) fn exceptions_passed(&mut self, cx: &mut Context<'_>) {
        self.exceptions.expire(cx.now);
        // Whoever has cached a path's MTU asks again.
        self.changed();
        cx.table_changed(Table::Routes(Family::V6));
        self.schedule_exceptions(cx);
    }

    /// Takes addresses away, with the routes that need them.
    pub(super) fn delete_addresses(&mut self, goes: impl Fn(&Address) -> bool, cx: &mut Context<'_>) {
        let gone = self.addresses.remove_where(goes);
        self.addresses_gone(&gone, cx);
    }

    /// The same for one.
    pub(super) fn delete_address(&mut self, interface: InterfaceIndex, ip: Ipv6Addr, cx: &mut Context<'_>) {
        let gone: Vec<Address> = self.addresses.remove(interface, ip).into_iter().collect();
        self.addresses_gone(&gone, cx);
    }

    fn addresses_gone(&mut self, gone: &[Address], cx: &mut Context<'_>) {
        for address in gone {
            self.changed();
            self.drop_prefix_route(address, cx);
            self.tell_address("deleted", address, cx);
        }
        if gone.iter().any(has_lifetime) {
            self.schedule_lifetimes(cx);
        }
    }

    /// The route to the prefix of an address that is gone goes with the last address in it; routes that prefer it as source go too.
    fn drop_prefix_route(&mut self, address: &Address, cx: &mut Context<'_>) {
        let Some(ip) = v6(address) else { return };
        let same = |a: &Route, b: &Route| {
            (a.destination, a.prefix_bits) == (b.destination, b.prefix_bits) && <u128 as crate::ip::routes::Bits>::is_same(a, b)
        };
        // What was made of a prefix brought no route to it, and takes none with it.
        let mut brought = super::control::routes_of(address);
        for (_, heir) in self.addresses.of(address.interface) {
            let of_heir = super::control::routes_of(heir);
            brought.retain(|route| !of_heir.iter().any(|other| same(route, other)));
        }
        let still_local = !self.addresses.owners(ip).is_empty();
        self.remove_ways(|route| brought.iter().any(|gone| same(route, gone)) || (route.source == Some(ip.into()) && !still_local), cx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interface_identifier_of_rfc_2464() {
        // §4: "an Ethernet interface whose built-in address is … 34-56-78-9A-BC-DE would be … 36-56-78-FF-FE-9A-BC-DE."
        let mac = Mac([0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde]);
        assert_eq!(link_local_of(mac), "fe80::3656:78ff:fe9a:bcde".parse::<Ipv6Addr>().unwrap());
    }
}
