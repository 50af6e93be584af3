//! Routes with several next hops: which of them a packet takes, and what becomes of them when interfaces come and go.
//!
//! A flow takes one hop by a hash of what tells it from others, in shares as the weights say (Linux fib_select_multipath, fib6_select_path). The hash is keyed by
//! the node's randomness, so that nobody outside aims and a virtual world repeats; it is the same in both directions. A flow stays as long as the hops do.
//! Hops that are dead are passed over; a route without a live one is as if it were not there.

use crate::facts::FactsCache;
use crate::ip::routes::Bits;
use crate::ip::rules::Packet;
use serde_json::json;
use std::hash::{BuildHasher, Hash, Hasher};
use std::net::IpAddr;
use std::ops::Deref;
use weft_core::state::{Damage, Reader};
use weft_core::table::{Family, Flow, Hop, PROTOCOL_RA, Route, RouteKind, RouteRow, TABLE_MAIN};
use weft_core::{Config, Frame, InterfaceIndex, KeyedHasher, Value};
use weft_wire::Protocol;

/// Most next hops of one route: rtnh_hops has eight bits for the weight of each, and nobody has more ways out.
pub const HOPS_MAX: usize = 256;
/// Largest weight of a hop: rtnh_hops is one less.
pub(in crate::ip) const WEIGHT_MAX: u32 = 256;
/// The hash has so many bits (Linux fib_multipath_hash: "return mhash >> 1").
const HASH_BITS: u32 = 31;
/// Bytes of an ICMP header before the packet that an error is about.
const ICMP_BYTES: usize = 8;
/// Bytes of that packet that are looked at: an IPv6 header.
const ABOUT_BYTES_MAX: usize = 40;

/// The route that a packet follows: of several next hops, with the one that it takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::ip) struct Found<'a> {
    route: &'a Route,
    hops: &'a [Hop],
}

impl<'a> Found<'a> {
    /// A route that leads one way.
    pub fn alone(route: &'a Route) -> Found<'a> {
        Found { route, hops: &[] }
    }
    /// It was chosen by the flow: another packet to the same place may take another.
    pub fn several(&self) -> bool {
        !self.hops.is_empty()
    }
    /// With all hops.
    pub fn row(&self) -> RouteRow {
        RouteRow { route: *self.route, hops: self.hops.into() }
    }
}

impl Deref for Found<'_> {
    type Target = Route;
    #[inline]
    fn deref(&self) -> &Route {
        self.route
    }
}

/// By what hops are chosen.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::ip) struct Multipath {
    pub hasher: KeyedHasher,
    /// Ports count too, and of ICMP errors their own addresses (fib_multipath_hash_policy 1: "Layer 4").
    pub by_ports: bool,
}

impl Multipath {
    /// As configured. It draws from the node's randomness.
    pub fn new(config: &mut Config) -> Multipath {
        Multipath { hasher: KeyedHasher::new(&mut config.rng), by_ports: config.u64("multipath_hash_policy") == 1 }
    }

    /// With the key of a predecessor, if that had one: its state is newer than `without`. Flows stay on their hops.
    pub fn read(self, from: &mut Reader<'_>, without: u32) -> Result<Multipath, Damage> {
        if from.version() <= without { Ok(self) } else { Ok(Multipath { hasher: from.take()?, ..self }) }
    }

    /// The hop of a row that a packet takes. `suits`: would a packet that leaves so have the source that this one has?
    #[inline(never)]
    pub fn choose<'a, B: Bits>(
        &self,
        row: &'a RouteRow,
        packet: &Packet<B>,
        facts: &FactsCache,
        suits: &dyn Fn(&Route) -> bool,
    ) -> Option<Found<'a>> {
        let alive = || row.hops.iter().filter(|hop| !hop.dead && facts.leads(hop.route.interface));
        let fits = |hop: &&Hop| packet.bound.is_none_or(|bound| bound == hop.route.interface);
        let found = |hop: &'a Hop| Found { route: &hop.route, hops: &row.hops };
        // fib_select_path: "if (fl4->flowi4_oif …) goto check_saddr;", which leaves the first that fits.
        if packet.bound.is_some() && B::FAMILY == Family::V4 {
            return alive().find(fits).map(found);
        }
        let total: u64 = alive().map(|hop| u64::from(hop.weight)).sum();
        let hash = self.hash(packet);
        let own = packet.source != B::ZERO && packet.traffic.input == InterfaceIndex::NONE;
        let (mut best, mut weight) = (None, 0);
        for hop in alive() {
            weight += u64::from(hop.weight);
            // fib_rebalance: "upper_bound = DIV_ROUND_CLOSEST_ULL((u64)w << 31, total) - 1;"
            let below = ((weight << HASH_BITS) + total / 2) / total;
            // fib_select_multipath: "if (saddr && nexthop_nh->nh_saddr == saddr) nh_score += 2; if (hash <= nh_upper_bound) nh_score++;"
            let score = u8::from(hash < below) + if own && suits(&hop.route) { 2 } else { 0 };
            if best.is_none_or(|(of, _)| of < score) {
                best = Some((score, hop));
            }
            if score == 3 || score == 1 && !own {
                break;
            }
        }
        // fib6_select_path: "if (rt6_score_route(nh, …, oif, strict) < 0) break;", which leaves the first that fits.
        best.map(|(_, hop)| hop).filter(fits).or_else(|| alive().find(fits)).map(found)
    }

    /// Linux fib_multipath_hash, rt6_multipath_hash; __flow_hash_consistentify makes both directions one.
    fn hash<B: Bits>(&self, packet: &Packet<B>) -> u64 {
        let traffic = &packet.traffic;
        let mut hasher = self.hasher.build_hasher();
        if self.by_ports {
            ordered(packet.source, packet.destination).hash(&mut hasher);
            ordered(traffic.ports.0, traffic.ports.1).hash(&mut hasher);
            traffic.protocol.hash(&mut hasher);
        } else {
            let whole = |flow: Flow| Some((B::of(flow.source)?, B::of(flow.destination)?, flow.label, flow.protocol));
            let own = (packet.source, packet.destination, traffic.label, traffic.protocol);
            let (source, destination, label, protocol) = traffic.about.and_then(whole).unwrap_or(own);
            ordered(source, destination).hash(&mut hasher);
            if B::FAMILY == Family::V6 {
                (label, protocol).hash(&mut hasher);
            }
        }
        hasher.finish() >> (u64::BITS - HASH_BITS)
    }
}

fn ordered<T: Ord>(a: T, b: T) -> (T, T) {
    if a <= b { (a, b) } else { (b, a) }
}

/// Of an ICMP error that stands `at` bytes into a frame, what the packet is that it is about (Linux ip_multipath_l3_keys, ip6_multipath_l3_keys).
pub(in crate::ip) fn about(frame: &Frame, at: usize, protocol: u8) -> Option<Flow> {
    let v6 = match Protocol(protocol) {
        Protocol::ICMP => false,
        Protocol::ICMPV6 => true,
        _ => return None,
    };
    let mut bytes = [0; ICMP_BYTES + ABOUT_BYTES_MAX];
    let mut len = 0;
    // Without a copy of more than is looked at: this is on the way of each such packet.
    for (place, byte) in bytes.iter_mut().zip(frame.chunks().flatten().skip(at)) {
        *place = *byte;
        len += 1;
    }
    let (kind, inner) = (bytes[0], bytes.get(ICMP_BYTES..len)?);
    if v6 {
        // icmpv6_is_err: destination unreachable, too big, time exceeded, parameter problem.
        let (header, _) = weft_wire::ipv6::Header::parse(inner).ok().filter(|_| (1..=4).contains(&kind))?;
        let (source, destination) = (header.src.into(), header.dst.into());
        return Some(Flow { source, destination, label: header.flow_label, protocol: header.next_header.0 });
    }
    // icmp_is_err: destination unreachable, source quench, redirect, time exceeded, parameter problem.
    let address = |at: usize| inner.get(at..at + 4).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok()).map(IpAddr::from);
    let (source, destination) = (address(12)?, address(16)?);
    matches!(kind, 3 | 4 | 5 | 11 | 12).then_some(Flow { source, destination, label: 0, protocol: inner[9] })
}

/// rt6_qualify_for_ecmp: may a route of IPv6 become one with several next hops? Those that routers told stay what they are.
pub(in crate::ip) fn may_join(row: &RouteRow) -> bool {
    row.route.gateway.is_some() && row.route.protocol != PROTOCOL_RA
}

/// fib_sync_down_dev: does a route lead nowhere when this interface is down? Dead hops were marked.
pub(in crate::ip) fn is_lost(row: &RouteRow, interface: InterfaceIndex) -> bool {
    let alone = row.hops.is_empty() && row.route.interface == interface && interface != InterfaceIndex::NONE;
    alone || !row.hops.is_empty() && row.hops.iter().all(|hop| hop.dead)
}

/// What can be wrong with a route that somebody else wrote.
pub(in crate::ip) fn check(row: &RouteRow) -> Result<(), Damage> {
    let of = |route: &Route| (route.destination, route.prefix_bits, route.metric, route.table);
    let sound = |hop: &Hop| of(&hop.route) == of(&row.route) && (1..=WEIGHT_MAX).contains(&u32::from(hop.weight));
    let several = match &*row.hops {
        [] => true,
        [_] => false,
        hops => hops.len() <= HOPS_MAX && hops[0].route == row.route && hops.iter().all(sound),
    };
    if several { Ok(()) } else { Err(Damage::new("next hops that a route cannot have")) }
}

/// A route's row for people.
pub(in crate::ip) fn row_of(row: &RouteRow, facts: &FactsCache) -> Value {
    let name = |interface: InterfaceIndex| facts.name(interface);
    let text = |address: Option<IpAddr>| address.map(|address| address.to_string());
    let route = &row.route;
    let mut shown = json!({
        "table": if route.table == TABLE_MAIN { "main".to_owned() } else { route.table.to_string() },
        "kind": route.kind,
        "destination": super::request::prefix_text(route.destination, route.prefix_bits),
        "gateway": text(route.gateway),
        "interface": route.interface.0,
        "interface_name": name(route.interface),
        "source": text(route.source),
        "metric": route.metric,
        "mtu": route.mtu,
    });
    if !row.hops.is_empty() {
        let one = |hop: &Hop| {
            json!({
                "gateway": text(hop.route.gateway),
                "interface": hop.route.interface.0,
                "interface_name": name(hop.route.interface),
                "weight": hop.weight,
                "onlink": hop.route.onlink,
                "dead": hop.dead,
                "linkdown": facts.is_linkdown(hop.route.interface),
            })
        };
        shown["nexthops"] = row.hops.iter().map(one).collect();
    }
    shown
}

/// A route that came or went, for who subscribes.
pub(in crate::ip) fn alert(event: &str, row: &RouteRow, facts: &FactsCache) -> Value {
    let mut alert = row_of(row, facts);
    alert["event"] = event.into();
    alert["v6"] = row.route.destination.is_ipv6().into();
    alert["protocol"] = row.route.protocol.into();
    alert["scope"] = row.route.scope.into();
    alert["onlink"] = row.route.onlink.into();
    alert["linkdown"] = (row.route.kind != RouteKind::Local && facts.is_linkdown(row.route.interface)).into();
    alert["ignores_linkdown"] = facts.ignores_linkdown.into();
    alert
}
