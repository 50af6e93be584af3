//! Which way a packet goes: what Linux's `ip_route_output_key_hash_rcu` does, and a small cache of its answers.

use super::Ip4;
use crate::ip::hops::Found;
use crate::ip::rules::Packet;
use std::net::{IpAddr, Ipv4Addr};
use weft_core::table::{Address, AddressState, Route, RouteAnswer, RouteKind, Traffic};
use weft_core::{Context, Instant, InterfaceIndex, Rng};

/// Largest IPv4 packet, bytes (Linux IP_MAX_MTU).
const PACKET_BYTES_MAX: u32 = 65_535;
/// For interfaces that nobody knows anything about.
const MTU_DEFAULT: u32 = 1500;

impl Ip4 {
    /// How to reach `destination`; `None`: not at all (Linux ENETUNREACH, and EINVAL for addresses that cannot be sent from or to).
    pub(super) fn resolve(
        &self,
        destination: Ipv4Addr,
        source: Option<Ipv4Addr>,
        bound: Option<InterfaceIndex>,
        traffic: Traffic,
    ) -> Option<RouteAnswer> {
        // RFC 1122 §3.2.1.3: "When a host sends any datagram, the IP source address MUST be one of its own IP addresses (but not a broadcast
        // or multicast address)." Linux: "if (!__ip_dev_find(net, fl4->saddr, false)) goto out".
        if source.is_some_and(|source| self.addresses.owners(source).is_empty()) {
            return None;
        }
        // "if (!fl4->daddr) { fl4->daddr = fl4->saddr; if (!fl4->daddr) fl4->daddr = fl4->saddr = htonl(INADDR_LOOPBACK); …
        // dev_out = net->loopback_dev; … res->type = RTN_LOCAL"
        if destination.is_unspecified() {
            let chosen =
                bound.filter(|bound| *bound != InterfaceIndex::LOOPBACK).and_then(|bound| self.addresses.source_for(bound, destination));
            let own = source.or(chosen).unwrap_or(Ipv4Addr::LOCALHOST);
            return Some(self.answer(RouteKind::Local, InterfaceIndex::LOOPBACK, own, own, None));
        }
        let fits = |owners: &[InterfaceIndex]| match bound {
            None => owners.first().copied(),
            Some(bound) => owners.iter().copied().find(|owner| *owner == bound),
        };
        let owners = self.addresses.owners(destination);
        // What is bound to lo reaches every own address. (Linux calls that a unicast route out of lo, which comes to the same.)
        if let Some(owner) = fits(owners).or_else(|| owners.first().copied().filter(|_| bound == Some(InterfaceIndex::LOOPBACK))) {
            let own = match bound {
                Some(InterfaceIndex::LOOPBACK) if owner != InterfaceIndex::LOOPBACK => {
                    self.addresses.source_for(InterfaceIndex::LOOPBACK, destination)
                }
                _ => None,
            };
            // A route of kind local that somebody has set may say which source.
            let routed =
                || self.tables.inside(destination.to_bits()).filter(|route| self.addresses.is_routed_by(destination, route.prefix_bits));
            let said = || match routed()?.source {
                Some(IpAddr::V4(source)) => Some(source),
                _ => None,
            };
            let own = own.or_else(said).unwrap_or_else(|| self.addresses.primary_of(owner, destination));
            return Some(self.answer(RouteKind::Local, InterfaceIndex::LOOPBACK, source.unwrap_or(own), destination, None));
        }
        let answer = self.resolve_outward(destination, source, bound, traffic)?;
        // Linux __mkroute_output: "if (ipv4_is_loopback(fl4->saddr) && !(dev_out->flags & IFF_LOOPBACK)) return ERR_PTR(-EINVAL)"
        let sends = !matches!(answer.kind, RouteKind::Blackhole | RouteKind::Unreachable | RouteKind::Prohibit);
        let inside = answer.interface == InterfaceIndex::LOOPBACK;
        (inside || !sends || !source.is_some_and(|source| source.is_loopback())).then_some(answer)
    }

    /// Which way a packet goes that came in, and whose source is another's (Linux ip_route_input_slow).
    pub(super) fn resolve_received(&self, destination: Ipv4Addr, source: Option<Ipv4Addr>, traffic: Traffic) -> Option<RouteAnswer> {
        let local = !self.addresses.owners(destination).is_empty();
        let kind = if local { RouteKind::Local } else { RouteKind::Broadcast };
        if local || destination.is_broadcast() || !self.addresses.broadcast_on(destination).is_empty() {
            return Some(self.answer(kind, InterfaceIndex::LOOPBACK, destination, destination, None));
        }
        if !self.forwards(traffic.input) {
            return None;
        }
        self.followed(destination, source, None, traffic)
            .map(|route| RouteAnswer { several: route.several(), ..self.onward(destination, &route) })
    }

    /// As [`Ip4::resolve`], for a destination that is not this node's own.
    fn resolve_outward(
        &self,
        destination: Ipv4Addr,
        source: Option<Ipv4Addr>,
        bound: Option<InterfaceIndex>,
        traffic: Traffic,
    ) -> Option<RouteAnswer> {
        let networks = self.addresses.broadcast_on(destination);
        let network = networks.iter().copied().find(|owner| bound.is_none_or(|bound| bound == *owner));
        if let Some(interface) = network.filter(|interface| self.facts.is_up(*interface)) {
            let source = source.or_else(|| self.addresses.source_to_broadcast(interface, destination));
            return Some(self.on_link(RouteKind::Broadcast, interface, source, destination, None));
        }
        let kind = match destination {
            destination if destination.is_broadcast() => RouteKind::Broadcast,
            destination if destination.is_multicast() => RouteKind::Multicast,
            _ => return self.resolve_unicast(destination, source, bound, traffic),
        };
        // Linux: a multicast or limited broadcast packet without interface leaves through the one that has its source address,
        // else where a route to it leads.
        let by_source = source.and_then(|source| self.addresses.owners(source).first().copied());
        let interface = bound.or(by_source).or_else(|| self.followed(destination, source, None, traffic).map(|route| route.interface));
        interface.filter(|interface| self.facts.is_up(*interface)).map(|interface| self.on_link(kind, interface, source, destination, None))
    }

    fn resolve_unicast(
        &self,
        destination: Ipv4Addr,
        source: Option<Ipv4Addr>,
        bound: Option<InterfaceIndex>,
        traffic: Traffic,
    ) -> Option<RouteAnswer> {
        // A route that refuses ends the search, but whoever is bound to an interface is then taken to know better.
        let refuses = |route: &Route| matches!(route.kind, RouteKind::Blackhole | RouteKind::Unreachable | RouteKind::Prohibit);
        let Some(route) = self.followed(destination, source, bound, traffic).filter(|route| bound.is_none() || !refuses(route)) else {
            // "Apparently, routing tables are wrong. Assume, that the destination is on link." — only for a bound interface.
            let interface = bound.filter(|interface| self.facts.is_up(*interface))?;
            return Some(self.on_link(RouteKind::Unicast, interface, source, destination, None));
        };
        let next_hop = match route.gateway {
            Some(IpAddr::V4(gateway)) => gateway,
            _ => destination,
        };
        let preferred = match (source, route.source) {
            (Some(source), _) => Some(source),
            (None, Some(IpAddr::V4(preferred))) => Some(preferred),
            _ => self.addresses.source_for(route.interface, next_hop),
        };
        let source = preferred.unwrap_or(Ipv4Addr::UNSPECIFIED);
        let next_hop = match route.gateway {
            Some(_) => self.paths.gateway(destination, next_hop, route.interface),
            None => next_hop,
        };
        let learned = self.paths.mtu(destination).map(|path| path.mtu);
        let mtu = [learned, route.mtu].into_iter().flatten().min();
        Some(RouteAnswer { several: route.several(), ..self.answer(route.kind, route.interface, source, next_hop, mtu) })
    }

    /// The best route that leaves through `bound` (any, if none) and an interface that is up.
    pub(super) fn lookup(&self, destination: Ipv4Addr, bound: Option<InterfaceIndex>) -> Option<Found<'_>> {
        self.followed(destination, None, bound, Traffic::default())
    }

    /// The same for a packet of which more is known.
    #[inline]
    pub(super) fn followed(
        &self,
        destination: Ipv4Addr,
        source: Option<Ipv4Addr>,
        bound: Option<InterfaceIndex>,
        traffic: Traffic,
    ) -> Option<Found<'_>> {
        let packet = Packet { source: source.map_or(0, Ipv4Addr::to_bits), destination: destination.to_bits(), bound, traffic };
        // fib_info_update_nhc_saddr: what the source of packets were that leave by a hop.
        let suits = |route: &Route| {
            let IpAddr::V4(towards) = route.gateway.unwrap_or(route.destination) else { return false };
            source.is_some() && self.addresses.source_for(route.interface, towards) == source
        };
        self.tables.lookup(&packet, &self.facts, &suits)
    }

    fn on_link(
        &self,
        kind: RouteKind,
        interface: InterfaceIndex,
        source: Option<Ipv4Addr>,
        destination: Ipv4Addr,
        mtu: Option<u32>,
    ) -> RouteAnswer {
        let source = source.or_else(|| self.addresses.source_for(interface, destination)).unwrap_or(Ipv4Addr::UNSPECIFIED);
        self.answer(kind, interface, source, destination, mtu)
    }

    pub(super) fn answer(
        &self,
        kind: RouteKind,
        interface: InterfaceIndex,
        source: Ipv4Addr,
        next_hop: Ipv4Addr,
        mtu: Option<u32>,
    ) -> RouteAnswer {
        let facts = self.facts.peek(interface);
        let interface_mtu = match (facts, interface) {
            (Some(facts), _) => facts.mtu,
            (None, InterfaceIndex::LOOPBACK) => PACKET_BYTES_MAX,
            (None, _) => MTU_DEFAULT,
        };
        RouteAnswer {
            kind,
            interface,
            source: source.into(),
            next_hop: next_hop.into(),
            mtu: interface_mtu.min(mtu.unwrap_or(u32::MAX)).min(PACKET_BYTES_MAX),
            gso_max_bytes: facts.map_or(0, |facts| facts.gso_max_bytes),
            several: false,
            generation: self.generation,
        }
    }

    /// Asks about the interfaces that addresses and routes name; those that are gone take theirs with them.
    pub(super) fn interfaces_changed(&mut self, cx: &mut Context<'_>) {
        self.has_interfaces = self.facts.refresh(cx);
        self.tables.rules.attach(cx);
        self.changed();
        let mut named: Vec<InterfaceIndex> = self.addresses.iter().map(|address| address.interface).collect();
        named.extend(self.tables.interfaces());
        named.sort_unstable();
        named.dedup();
        let gone: Vec<InterfaceIndex> = named.into_iter().filter(|interface| self.facts.get(*interface, cx).is_none()).collect();
        self.forget_interfaces(&gone, cx);
    }

    /// One interface came, went, or changed.
    pub(super) fn interface_changed(&mut self, interface: InterfaceIndex, cx: &mut Context<'_>) {
        let was_down = self.facts.peek(interface).is_some_and(|facts| !facts.up);
        self.has_interfaces = self.facts.refresh_one(interface, cx);
        self.tables.rules.attach(cx);
        self.changed();
        let up = self.facts.get(interface, cx).map(|facts| facts.up);
        if up.is_none() {
            self.forget_interfaces(&[interface], cx);
        }
        if was_down && up == Some(true) {
            self.tables.mark(interface, false);
            let addresses: Vec<Address> = self.addresses.of_interface(interface).copied().collect();
            addresses.iter().for_each(|address| self.add_network_route(address, cx));
        }
    }

    /// Takes away the addresses and routes of interfaces that are no more.
    fn forget_interfaces(&mut self, gone: &[InterfaceIndex], cx: &mut Context<'_>) {
        if !self.has_interfaces || gone.is_empty() {
            return;
        }
        // Blackholes and the like name no interface.
        let goes = |interface: InterfaceIndex| interface != InterfaceIndex::NONE && gone.contains(&interface);
        // inetdev_destroy: one after the other as they are listed, and "if (in_dev->dead) goto no_promotions;".
        let mut list: Vec<(Address, bool)> = self
            .addresses
            .iter()
            .filter(|address| goes(address.interface))
            .map(|address| (*address, self.addresses.is_secondary(address)))
            .collect();
        list.sort_by_key(|(address, secondary)| (address.interface, *secondary, std::cmp::Reverse(address.scope)));
        self.addresses.remove_where(|address| goes(address.interface));
        for (address, secondary) in list {
            self.tell_gone(&address, secondary, cx);
        }
        // fib_sync_down_dev: "if (event == NETDEV_UNREGISTER && nexthop_nh->fib_nh_dev == dev) { dead = fi->fib_nhs; break; }"
        self.flush_routes(|row| row.each().any(|route| goes(route.interface)), cx);
    }

    /// Sets the timer to when the next address is deprecated or removed.
    pub(super) fn schedule_lifetimes(&self, cx: &mut Context<'_>) {
        let preferred = |address: &Address| address.preferred_until.filter(|_| address.state == AddressState::Preferred);
        // Almost always there is none: nobody sorts for it.
        let next = self.addresses.iter().flat_map(|address| [preferred(address), address.valid_until]).flatten().min();
        match next {
            Some(at) => cx.set_timer(super::TIMER_LIFETIMES, at),
            None => cx.cancel_timer(super::TIMER_LIFETIMES),
        }
    }

    /// Linux check_lifetime: what is no longer valid goes, what is no longer preferred is deprecated.
    pub(super) fn lifetimes_passed(&mut self, cx: &mut Context<'_>) {
        let now = cx.now;
        let past = |until: Option<Instant>| until.is_some_and(|until| until <= now);
        let all: Vec<Address> = self.addresses.iter().filter(|one| past(one.valid_until) || past(one.preferred_until)).copied().collect();
        for address in all {
            let IpAddr::V4(ip) = address.address else { continue };
            if past(address.valid_until) {
                let _ = self.delete_address(address.interface, ip, cx);
            } else if address.state == AddressState::Preferred {
                let aged = Address { state: AddressState::Deprecated, ..address };
                self.addresses.renew(aged);
                self.changed();
                self.tell_address("changed", &aged, cx);
            }
        }
        self.schedule_lifetimes(cx);
    }
}

/// What the cache is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RouteKey {
    pub destination: Ipv4Addr,
    /// Unspecified: chosen by the route.
    pub source: Ipv4Addr,
    /// 0: any.
    pub interface: InterfaceIndex,
}

const CACHE_ENTRIES_BITS: u32 = 8;

/// Answers for the last destinations: one place for each hash, so the bound needs no bookkeeping, and the key keeps a peer from aiming.
#[derive(Debug)]
pub(super) struct RouteCache {
    key: u64,
    /// None before the first answer: a node that sends nothing needs no cache.
    entries: Vec<Option<(RouteKey, RouteAnswer)>>,
}

impl RouteCache {
    pub(super) fn new(rng: &mut Rng) -> RouteCache {
        RouteCache { key: rng.u64() | 1, entries: Vec::new() }
    }

    #[inline]
    fn place(&self, key: &RouteKey) -> usize {
        let packed = u64::from(key.destination.to_bits()) << 32 | u64::from(key.source.to_bits() ^ key.interface.0.rotate_left(16));
        let mixed = (packed ^ self.key).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ self.key.rotate_left(32);
        (mixed.wrapping_mul(self.key) >> (64 - CACHE_ENTRIES_BITS)) as usize
    }

    #[inline]
    pub(super) fn get(&self, key: &RouteKey, generation: u64) -> Option<RouteAnswer> {
        match self.entries.get(self.place(key)) {
            Some(Some((of, answer))) if of == key && answer.generation == generation => Some(*answer),
            _ => None,
        }
    }

    pub(super) fn put(&mut self, key: RouteKey, answer: RouteAnswer) {
        if self.entries.is_empty() {
            self.entries = vec![None; 1 << CACHE_ENTRIES_BITS];
        }
        let place = self.place(&key);
        self.entries[place] = Some((key, answer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_differ_in_one_thing_lie_in_different_places() {
        let cache = RouteCache::new(&mut Rng::for_name(1, "cache"));
        let key = |destination: u32, source: u32, interface: u32| RouteKey {
            destination: destination.into(),
            source: source.into(),
            interface: InterfaceIndex(interface),
        };
        let places = |key: &dyn Fn(u32) -> RouteKey| {
            let found: std::collections::BTreeSet<usize> = (1..=64).map(|number| cache.place(&key(number))).collect();
            assert!(found.iter().all(|place| *place < 1 << CACHE_ENTRIES_BITS));
            found.len()
        };
        // Of 64 balls in 256 places about 57 lie alone or first.
        assert!(places(&|number| key(0x0a00_0000 + number, 0x0a4d_0002, 2)) > 40);
        assert!(places(&|number| key(0x0a00_0001, 0x0a4d_0000 + number, 0)) > 40);
        assert!(places(&|number| key(0x0a00_0001, 0, number)) > 40);
    }
}
