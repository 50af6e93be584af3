//! Which way a packet goes: what Linux's `ip6_route_output_flags` does, and a small cache of its answers.

use super::Ip6;
use super::addresses::{is_link_local, is_of_link};
use crate::ip::hops::Found;
use crate::ip::rules::Packet;
use std::net::{IpAddr, Ipv6Addr};
use weft_core::table::{Route, RouteAnswer, RouteKind, Traffic};
use weft_core::{Context, Instant, InterfaceIndex, Rng};

/// Largest IPv6 packet without a jumbo payload, bytes.
const PACKET_BYTES_MAX: u32 = 65_535 + weft_wire::ipv6::HEADER_LEN as u32;
/// For interfaces that nobody knows anything about.
const MTU_DEFAULT: u32 = 1500;

/// Routes that refuse.
pub(super) const fn refuses(kind: RouteKind) -> bool {
    matches!(kind, RouteKind::Blackhole | RouteKind::Unreachable | RouteKind::Prohibit)
}

impl Ip6 {
    /// How to reach `destination`; `None`: not at all.
    pub(super) fn resolve(
        &self,
        destination: Ipv6Addr,
        source: Option<Ipv6Addr>,
        bound: Option<InterfaceIndex>,
        traffic: Traffic,
        now: Instant,
    ) -> Option<RouteAnswer> {
        // RFC 4291 §2.7: "Multicast addresses must not be used as source addresses in IPv6 packets"; and others' are not ours to use. A
        // tentative address is no one's yet.
        if source.is_some_and(|source| self.addresses.owners(source).is_empty() && self.tables.inside(source.to_bits()).is_none()) {
            return None;
        }
        // Linux tcp_v6_connect and its like: "connect() to INADDR_ANY means loopback (BSD'ism)."
        if destination.is_unspecified() {
            let own = source.unwrap_or(Ipv6Addr::LOCALHOST);
            return Some(self.answer(RouteKind::Local, InterfaceIndex::LOOPBACK, own, own, None));
        }
        if destination.is_multicast() {
            return self.resolve_group(destination, source, bound, traffic);
        }
        let owners = self.addresses.owners(destination);
        let fits = match bound {
            None => !owners.is_empty(),
            // Linux ip6_pol_route with RT6_LOOKUP_F_IFACE: a link-local address is on its own link only.
            Some(InterfaceIndex::LOOPBACK) if !is_link_local(destination) => !owners.is_empty(),
            Some(bound) => owners.contains(&bound),
        };
        if fits {
            return Some(self.answer(RouteKind::Local, InterfaceIndex::LOOPBACK, source.unwrap_or(destination), destination, None));
        }
        // Routes of kind local that somebody has set: the source is chosen as of any other route.
        if let Some(route) = self.tables.inside(destination.to_bits()).filter(|route| bound.is_none_or(|bound| bound == route.interface)) {
            return Some(self.along(destination, source, &route, now));
        }
        let answer = self.resolve_outward(destination, source, bound, traffic, now)?;
        let outside = answer.interface != InterfaceIndex::LOOPBACK && !refuses(answer.kind);
        // RFC 4291 §2.5.3: the loopback address "must not be used as the source address in IPv6 packets that are sent outside of a single
        // node"; "Any packet … with a destination address of loopback must never be sent outside of a single node".
        let loops = destination.is_loopback() || source.is_some_and(|source| source.is_loopback());
        // RFC 4007 §9: a link-local source stays on its link.
        let strays = source.is_some_and(|source| is_link_local(source) && !self.addresses.owners(source).contains(&answer.interface));
        (!outside || !(loops || strays)).then_some(answer)
    }

    /// A group is on the link of an interface: the one that the sender is bound to, or that has its source address, or that a route leads to,
    /// or the first that has addresses (Linux: the first of the routes to ff00::/8, which every interface has).
    fn resolve_group(
        &self,
        group: Ipv6Addr,
        source: Option<Ipv6Addr>,
        bound: Option<InterfaceIndex>,
        traffic: Traffic,
    ) -> Option<RouteAnswer> {
        let of_source = || match source.map(|source| self.addresses.owners(source)) {
            Some([only]) => Some(*only),
            _ => None,
        };
        let leads = |route: &Found<'_>| route.prefix_bits >= 8 && !refuses(route.kind);
        let routed = || self.followed(group, source, None, traffic).filter(leads).map(|route| route.interface);
        let first = || {
            let outside = self.addresses.iter().map(|address| address.interface).filter(|interface| *interface != InterfaceIndex::LOOPBACK);
            outside.into_iter().find(|interface| self.facts.is_up(*interface))
        };
        // RFC 4291 §2.7: "Interface-Local scope spans only a single interface on a node and is useful only for loopback transmission of
        // multicast."
        let inside = || (group.octets()[1] & 0xf == 1 && first().is_some()).then_some(InterfaceIndex::LOOPBACK);
        // Linux addrconf gives every interface its route to ff00::/8 but `lo`: there groups are out of reach (twins `loopback6`), unless
        // somebody adds one.
        let leads_inside = || {
            let route = self.lookup(group, Some(InterfaceIndex::LOOPBACK));
            route.is_some_and(|route| route.prefix_bits >= 8 && !refuses(route.kind))
        };
        let chosen = bound.or_else(of_source).filter(|interface| *interface != InterfaceIndex::LOOPBACK || leads_inside());
        if bound.is_some() && chosen.is_none() {
            return None;
        }
        let interface = chosen.or_else(inside).or_else(routed).or_else(first).filter(|interface| self.facts.is_up(*interface))?;
        let chosen = source.or_else(|| self.addresses.source_for(interface, group)).unwrap_or(Ipv6Addr::UNSPECIFIED);
        Some(self.answer(RouteKind::Multicast, interface, chosen, group, None))
    }

    fn resolve_outward(
        &self,
        destination: Ipv6Addr,
        source: Option<Ipv6Addr>,
        bound: Option<InterfaceIndex>,
        traffic: Traffic,
        now: Instant,
    ) -> Option<RouteAnswer> {
        // The source says on which link a link-local destination is, if nothing else does.
        let link = || source.filter(|_| is_of_link(destination)).filter(|source| is_link_local(*source));
        let bound = bound.or_else(|| link().and_then(|source| self.addresses.owners(source).first().copied()));
        let route = self.followed(destination, source, bound, traffic)?;
        Some(RouteAnswer { several: route.several(), ..self.along(destination, source, &route, now) })
    }

    /// The way to a destination along a route.
    fn along(&self, destination: Ipv6Addr, source: Option<Ipv6Addr>, route: &Route, now: Instant) -> RouteAnswer {
        let (mut interface, mut next_hop) = match route.gateway {
            Some(IpAddr::V6(gateway)) => (route.interface, gateway),
            _ => (route.interface, destination),
        };
        if let Some((better, through)) = self.exceptions.gateway(destination).filter(|(_, through)| *through == interface) {
            (interface, next_hop) = (through, better);
        }
        let preferred = match (source, route.source) {
            (Some(source), _) => Some(source),
            (None, Some(IpAddr::V6(preferred))) if !self.addresses.owners(preferred).is_empty() => Some(preferred),
            _ => self.addresses.source_for(interface, destination),
        };
        let mtu = [route.mtu, self.exceptions.mtu(destination, now)].into_iter().flatten().min();
        self.answer(route.kind, interface, preferred.unwrap_or(Ipv6Addr::UNSPECIFIED), next_hop, mtu)
    }

    /// Which way a packet goes that came in, and whose source is another's.
    pub(super) fn resolve_received(
        &self,
        destination: Ipv6Addr,
        source: Option<Ipv6Addr>,
        traffic: Traffic,
        now: Instant,
    ) -> Option<RouteAnswer> {
        if !self.addresses.owners(destination).is_empty() {
            return Some(self.answer(RouteKind::Local, InterfaceIndex::LOOPBACK, destination, destination, None));
        }
        if let Some(route) = self.tables.inside(destination.to_bits()) {
            return Some(self.along(destination, None, &route, now));
        }
        let route = self.followed(destination, source, None, traffic)?;
        Some(RouteAnswer { several: route.several(), ..self.along(destination, None, &route, now) })
    }

    /// The best route that leaves through `bound` (any, if none) and an interface that is up.
    pub(super) fn lookup(&self, destination: Ipv6Addr, bound: Option<InterfaceIndex>) -> Option<Found<'_>> {
        self.followed(destination, None, bound, Traffic::default())
    }

    /// The same for a packet of which more is known.
    #[inline]
    pub(super) fn followed(
        &self,
        destination: Ipv6Addr,
        source: Option<Ipv6Addr>,
        bound: Option<InterfaceIndex>,
        traffic: Traffic,
    ) -> Option<Found<'_>> {
        let packet = Packet { source: source.map_or(0, Ipv6Addr::to_bits), destination: destination.to_bits(), bound, traffic };
        // Linux sockets keep the way with which they chose their source (sk_dst_cache). Here the source says which interface that was.
        let suits = |route: &Route| source.is_some_and(|source| self.addresses.owners(source).contains(&route.interface));
        self.tables.lookup(&packet, &self.facts, &suits)
    }

    fn answer(&self, kind: RouteKind, interface: InterfaceIndex, source: Ipv6Addr, next_hop: Ipv6Addr, mtu: Option<u32>) -> RouteAnswer {
        let facts = self.facts.peek(interface);
        let interface_mtu = match (facts, interface) {
            (Some(facts), _) => facts.mtu,
            (None, InterfaceIndex::LOOPBACK) => PACKET_BYTES_MAX,
            (None, _) => MTU_DEFAULT,
        };
        let told = self.links.get(&interface).and_then(|link| link.mtu).unwrap_or(u32::MAX);
        RouteAnswer {
            kind,
            interface,
            source: source.into(),
            next_hop: next_hop.into(),
            mtu: interface_mtu.min(told).min(mtu.unwrap_or(u32::MAX)).min(PACKET_BYTES_MAX),
            gso_max_bytes: facts.map_or(0, |facts| facts.gso_max_bytes),
            several: false,
            generation: self.generation,
        }
    }

    /// As [`Ip6::resolve`], from the cache if it is there.
    #[inline]
    pub(super) fn route(&mut self, key: &RouteKey, traffic: impl FnOnce() -> Traffic, cx: &Context<'_>) -> Option<RouteAnswer> {
        if let Some(answer) = self.cache.get(key, self.generation) {
            return Some(answer);
        }
        self.counters[super::count::ROUTE_CACHE_MISSES] += 1;
        let bound = Some(key.interface).filter(|interface| *interface != InterfaceIndex::NONE);
        if let Some(bound) = bound {
            self.facts.get(bound, cx);
        }
        let source = Some(key.source).filter(|source| !source.is_unspecified());
        let answer = self.resolve(key.destination, source, bound, traffic(), cx.now)?;
        if !answer.several && !self.tables.rules.look_inside() {
            self.cache.put(*key, answer);
        }
        Some(answer)
    }
}

/// What the cache is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RouteKey {
    pub destination: Ipv6Addr,
    /// Unspecified: chosen by the route.
    pub source: Ipv6Addr,
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

/// Mixes an address into a hash: two multiplications that the key makes unpredictable.
#[inline]
pub(super) fn mix(hash: u64, address: Ipv6Addr) -> u64 {
    let bits = address.to_bits();
    let high = (hash ^ (bits >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (high.rotate_left(29) ^ bits as u64).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

impl RouteCache {
    pub(super) fn new(rng: &mut Rng) -> RouteCache {
        RouteCache { key: rng.u64() | 1, entries: Vec::new() }
    }

    #[inline]
    fn place(&self, key: &RouteKey) -> usize {
        let mixed = mix(mix(self.key, key.destination).rotate_left(31), key.source) ^ u64::from(key.interface.0);
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
