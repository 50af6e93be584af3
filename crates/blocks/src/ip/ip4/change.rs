//! What other blocks ask for ([`Change`]): addresses and routes, what routers told, raw copies.

use super::*;
use crate::ip::routes::Refusal;

impl Ip4 {
    /// Does what was asked; what cannot be done is counted.
    pub(super) fn apply(&mut self, table: Table, change: Change, cx: &mut Context<'_>) {
        let ours = matches!(table, Table::Addresses(Family::V4) | Table::Routes(Family::V4));
        let done = ours
            && match change {
                Change::AddAddress(address) => self.renew_address(address, cx),
                Change::DeleteAddress { interface, address: IpAddr::V4(ip) } => self.delete_address(interface, ip, cx).is_ok(),
                Change::AddRoute(route) => self.renew_route(route, cx),
                Change::DeleteRoute(route) => self.drop_route(&route, cx),
                Change::PathMtu { destination: IpAddr::V4(destination), mtu } => {
                    self.learn_mtu(destination, mtu, cx);
                    true
                }
                Change::Redirect {
                    destination: IpAddr::V4(destination),
                    gateway: IpAddr::V4(gateway),
                    interface,
                    from: IpAddr::V4(from),
                } => {
                    self.redirect(destination, gateway, interface, from, cx);
                    true
                }
                Change::WantRaw { protocol, wanted } => {
                    self.raw_wanted[usize::from(protocol.0)] = wanted;
                    true
                }
                _ => false,
            };
        self.counters[count::CHANGES_REFUSED] += u64::from(!done);
    }

    /// Adds an address, or gives the one that is there its new state and lifetimes.
    fn renew_address(&mut self, address: Address, cx: &mut Context<'_>) -> bool {
        let IpAddr::V4(ip) = address.address else { return false };
        if self.addresses.renew(address) {
            self.changed();
            if super::control::has_lifetime(&address) {
                self.schedule_lifetimes(cx);
            }
            self.tell_address("added", &address, cx);
            return true;
        }
        self.addresses.len() < ADDRESSES_MAX && self.add_address(address, ip, cx).is_ok()
    }

    /// Adds a route, or replaces the one with the same destination, metric and gateway.
    fn renew_route(&mut self, route: Route, cx: &mut Context<'_>) -> bool {
        let IpAddr::V4(destination) = route.destination else { return false };
        let same = |other: &RouteRow| other.hops.is_empty() && other.route.metric == route.metric && other.route.gateway == route.gateway;
        let old = self.tables.main.remove(destination.to_bits(), route.prefix_bits, same);
        if old == Some(route.into()) {
            return self.tables.main.insert(route).is_ok();
        }
        let outcome = if self.tables.main.ways() < ROUTES_MAX { self.tables.main.insert(route) } else { Err(Refusal::Exists) };
        if let Some(old) = old {
            self.tell_route("deleted", &old, cx);
        }
        self.changed();
        if outcome.is_ok() {
            self.facts.get(route.interface, cx);
            self.tell_route("added", &route.into(), cx);
        }
        outcome.is_ok()
    }

    fn drop_route(&mut self, route: &Route, cx: &mut Context<'_>) -> bool {
        let IpAddr::V4(destination) = route.destination else { return false };
        let of = |route: &Route| (route.metric, route.gateway, route.interface);
        let same = |other: &RouteRow| other.hops.is_empty() && of(&other.route) == of(route);
        let Some(gone) = self.tables.main.remove(destination.to_bits(), route.prefix_bits, same) else { return false };
        self.changed();
        self.tell_route("deleted", &gone, cx);
        true
    }
}
