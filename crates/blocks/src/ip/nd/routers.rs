//! Router discovery and stateless autoconfiguration of the host side: solicitations, advertisements, default routers, prefixes, addresses
//! (RFC 4861 §6.3, RFC 4862 §5.5, RFC 4191 §3).
//!
//! Routes and addresses are their owner's, which gives interfaces their link-local address and ends the lifetimes of addresses; what is kept
//! here is who told a route and until when. Default routes have metric 1024, 1023 with
//! high and 1025 with low preference; 16 is added while their router does not answer. On-link prefixes have metric 256
//! (Linux IP6_RT_PRIO_USER, IP6_RT_PRIO_ADDRCONF; the preference is an attribute of its own there).

use super::message::{ALL_ROUTERS, Received, interface_identifier, is_link_local, join, packet};
use super::{Nd, count};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};
use weft_core::table::{Address, AddressState, Family, LinkType, PROTOCOL_KERNEL, PROTOCOL_RA, Route, RouteKind, Which};
use weft_core::*;
use weft_wire::icmpv6::nd::{self, RouterFlags};
use weft_wire::ipv6;

/// RFC 4861 §10: RTR_SOLICITATION_INTERVAL.
const SOLICITATION_INTERVAL: Duration = Duration::from_secs(4);
/// The longest time between two solicitations that a router's word is taken for, ms.
const RETRANSMIT_MS_MAX: u32 = 10_000;
/// Most routers, and as many routes of theirs, that are remembered.
const ROUTERS_MAX: usize = 64;
/// Most on-link prefixes that are remembered.
const PREFIXES_MAX: usize = 256;
/// RFC 4862 §5.5.3: an unauthenticated advertisement does not shorten a valid lifetime below this.
const TWO_HOURS: Duration = Duration::from_secs(7200);
/// Linux IP6_RT_PRIO_USER, the metric of routes from advertisements.
const ROUTER_METRIC: u32 = 1024;
/// Added while a router does not answer: RFC 4861 §6.3.6 prefers routers that are reachable or may be.
const UNREACHABLE_METRIC: u32 = 16;
/// Linux IP6_RT_PRIO_ADDRCONF.
const PREFIX_METRIC: u32 = 256;

/// A route that a router told of: the default route, or one of RFC 4191.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct RouterRoute {
    interface: InterfaceIndex,
    router: Ipv6Addr,
    destination: Ipv6Addr,
    prefix_bits: u8,
    metric: u32,
    unreachable: bool,
    until: Option<Instant>,
}

impl RouterRoute {
    fn route(&self) -> Route {
        Route {
            destination: self.destination.into(),
            prefix_bits: self.prefix_bits,
            gateway: Some(self.router.into()),
            interface: self.interface,
            source: None,
            metric: self.metric + if self.unreachable { UNREACHABLE_METRIC } else { 0 },
            mtu: None,
            kind: RouteKind::Unicast,
            protocol: PROTOCOL_RA,
            ..Route::PLAIN
        }
    }
}

/// A prefix that a router says is on the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Prefix {
    interface: InterfaceIndex,
    prefix: Ipv6Addr,
    bits: u8,
    until: Option<Instant>,
}

impl Prefix {
    fn route(&self) -> Route {
        Route {
            destination: self.prefix.into(),
            prefix_bits: self.bits,
            gateway: None,
            interface: self.interface,
            source: None,
            metric: PREFIX_METRIC,
            mtu: None,
            kind: RouteKind::Unicast,
            protocol: PROTOCOL_KERNEL,
            ..Route::PLAIN
        }
    }
}

/// An interface on which routers are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Soliciting {
    interface: InterfaceIndex,
    left: u32,
    due: Instant,
}

/// What routers have told.
#[derive(Debug, Default)]
pub(super) struct Routers {
    routes: Vec<RouterRoute>,
    prefixes: Vec<Prefix>,
    soliciting: Vec<Soliciting>,
    /// Interfaces that are up and can have neighbours.
    pub(super) up: BTreeSet<InterfaceIndex>,
}

weft_core::fields!(struct RouterRoute { interface, router, destination, prefix_bits, metric, unreachable, until });
weft_core::fields!(struct Prefix { interface, prefix, bits, until });
weft_core::fields!(struct Soliciting { interface, left, due });
weft_core::fields!(struct Routers { routes, prefixes, soliciting, up });

impl Routers {
    /// When the next lifetime ends or solicitation is due.
    pub(super) fn due(&self) -> Option<Instant> {
        let routes = self.routes.iter().filter_map(|route| route.until);
        let prefixes = self.prefixes.iter().filter_map(|prefix| prefix.until);
        let soliciting = self.soliciting.iter().map(|soliciting| soliciting.due);
        routes.chain(prefixes).chain(soliciting).min()
    }

    /// Rows for people.
    pub(super) fn rows(&self, now: Instant) -> Value {
        let seconds = |until: Option<Instant>| until.map(|until| until.since(now).as_secs());
        let routes = self.routes.iter().map(|route| {
            serde_json::json!({
                "interface": route.interface.0, "router": route.router.to_string(), "answers": !route.unreachable,
                "destination": format!("{}/{}", route.destination, route.prefix_bits), "metric": route.route().metric, "seconds": seconds(route.until),
            })
        });
        let prefixes = self.prefixes.iter().map(|prefix| {
            serde_json::json!({"interface": prefix.interface.0, "prefix": format!("{}/{}", prefix.prefix, prefix.bits), "seconds": seconds(prefix.until)})
        });
        routes.chain(prefixes).collect()
    }

    /// Is it what routers can have told?
    pub(super) fn is_sound(&self) -> bool {
        let bits = self.routes.iter().map(|route| route.prefix_bits).chain(self.prefixes.iter().map(|prefix| prefix.bits));
        let metrics = self.routes.iter().all(|route| route.metric.abs_diff(ROUTER_METRIC) <= 1);
        let few = self.routes.len() <= ROUTERS_MAX && self.prefixes.len() <= PREFIXES_MAX;
        few && metrics && bits.max().is_none_or(|bits| bits <= 128) && self.soliciting.iter().all(|soliciting| soliciting.left > 0)
    }
}

/// A lifetime of the wire: all ones is for ever.
fn until(now: Instant, seconds: u32) -> Option<Instant> {
    (seconds != u32::MAX).then(|| now + Duration::from_secs(u64::from(seconds)))
}

/// The prefix with everything behind it zero.
fn network(prefix: Ipv6Addr, bits: u8) -> Ipv6Addr {
    let mask = u128::MAX.checked_shl(128 - u32::from(bits.min(128))).unwrap_or(0);
    Ipv6Addr::from_bits(prefix.to_bits() & mask)
}

impl Nd {
    /// Looks which interfaces have come up or gone down.
    pub(super) fn look_at_interfaces(&mut self, cx: &mut Context<'_>) {
        if !self.facts.refresh(cx) {
            return;
        }
        let Answer::Interfaces(rows) = cx.ask(Table::Interfaces, &Query::Interfaces(Which::All)) else { return };
        let now: BTreeSet<InterfaceIndex> = rows.iter().map(|row| row.interface.index).collect();
        let known: Vec<InterfaceIndex> = self.routers.up.union(&now).copied().collect();
        for interface in known {
            self.interface_changed(interface, cx);
        }
    }

    /// One interface came, went, or changed.
    pub(super) fn look_at_interface(&mut self, interface: InterfaceIndex, cx: &mut Context<'_>) {
        if self.facts.refresh_one(interface, cx) {
            self.interface_changed(interface, cx);
        }
    }

    fn interface_changed(&mut self, interface: InterfaceIndex, cx: &mut Context<'_>) {
        let (mut fits, mut carrier) = (false, false);
        if let Some(facts) = self.facts.get(interface, cx) {
            // RFC 8200 §5: below an MTU of 1280 there is no IPv6.
            fits = facts.up && facts.link == LinkType::Ethernet && facts.mtu as usize >= ipv6::MTU_MIN;
            carrier = facts.carrier;
        }
        if !fits && self.routers.up.remove(&interface) {
            self.interface_down(interface, cx);
        }
        // Linux addrconf_link_ready, IF_READY: it begins with the first carrier, and goes on without.
        if fits && carrier && self.routers.up.insert(interface) {
            self.detect_waiting(interface, cx);
            if self.own.link_local(interface).is_some() {
                self.link_local_usable(interface, cx);
            }
        }
    }

    /// What was learnt on an interface is no longer true (Linux addrconf_ifdown); addresses are their owner's.
    fn interface_down(&mut self, interface: InterfaceIndex, cx: &mut Context<'_>) {
        self.routers.soliciting.retain(|soliciting| soliciting.interface != interface);
        self.resolver.times.remove(&interface);
        self.remove_routes(|route| route.interface == interface, cx);
        self.remove_prefixes(|prefix| prefix.interface == interface, cx);
        cx.tell(Table::Routes(Family::V6), Change::LinkParameters { interface, mtu: None, hop_limit: None });
    }

    /// RFC 4861 §6.3.7: routers are asked for once there is an address to ask from.
    pub(super) fn link_local_usable(&mut self, interface: InterfaceIndex, cx: &mut Context<'_>) {
        let known = self.routers.routes.iter().any(|route| route.interface == interface);
        let asked = self.routers.soliciting.iter().any(|soliciting| soliciting.interface == interface);
        // RFC 4862 §5: autoconfiguration is for hosts. Linux ipv6_accept_ra: with forwarding only where accept_ra is 2.
        if known || asked || !self.settings.accept_ra || self.is_router(interface, cx) || self.settings.router_solicitations == 0 {
            return;
        }
        // "a host SHOULD delay the transmission for a random amount of time between 0 and MAX_RTR_SOLICITATION_DELAY".
        let due = cx.now + self.settings.solicitation_delay.mul_f64(cx.rng.unit());
        self.routers.soliciting.push(Soliciting { interface, left: self.settings.router_solicitations, due });
    }

    /// Does what is due of routers, prefixes and addresses.
    pub(super) fn run_routers(&mut self, cx: &mut Context<'_>) {
        self.solicit_routers(cx);
        let now = cx.now;
        self.remove_routes(|route| route.until.is_some_and(|until| until <= now), cx);
        self.remove_prefixes(|prefix| prefix.until.is_some_and(|until| until <= now), cx);
    }

    fn remove_prefixes(&mut self, goes: impl Fn(&Prefix) -> bool, cx: &mut Context<'_>) {
        for prefix in self.routers.prefixes.extract_if(.., |prefix| goes(prefix)) {
            cx.tell(Table::Routes(Family::V6), Change::DeleteRoute(prefix.route()));
        }
    }

    fn solicit_routers(&mut self, cx: &mut Context<'_>) {
        let due: Vec<InterfaceIndex> =
            self.routers.soliciting.iter().filter(|soliciting| soliciting.due <= cx.now).map(|soliciting| soliciting.interface).collect();
        for interface in due {
            if let (Some(source), Some(mac)) = (self.own.link_local(interface), self.facts.get(interface, cx).map(|facts| facts.mac)) {
                let frame = packet(interface, source, ALL_ROUTERS, nd::Message::RouterSolicitation, &[nd::Opt::SourceAddress(mac)]);
                self.resolver.counters[count::OUT_ROUTER_SOLICITS] += 1;
                self.transmit(frame, cx);
            }
        }
        self.routers.soliciting.retain_mut(|soliciting| {
            if soliciting.due <= cx.now {
                soliciting.left -= 1;
                soliciting.due = cx.now + SOLICITATION_INTERVAL;
            }
            // RFC 4861 §6.3.7: after MAX_RTR_SOLICITATIONS without an answer there are no routers on the link.
            soliciting.left > 0
        });
    }

    /// RFC 4861 §6.3.4: an advertisement of a router came in. False: it is not listened to.
    pub(super) fn router_advertised(&mut self, received: &Received<'_>, cx: &mut Context<'_>) -> bool {
        let nd::Message::RouterAdvertisement { hop_limit, flags, lifetime_s, reachable_ms, retransmit_ms } = received.message else {
            return false;
        };
        let Received { interface, from, .. } = *received;
        if !self.settings.accept_ra || self.is_router(interface, cx) || self.own.get(interface, from).is_some() {
            return false;
        }
        // §6.3.7: an advertisement with a lifetime ends the search.
        if lifetime_s > 0 {
            self.routers.soliciting.retain(|soliciting| soliciting.interface != interface);
        }
        if let Some(mac) = received.options.source {
            self.learn_from_option(interface, from, mac, Some(true), cx);
        }
        let default = RouterRoute {
            interface,
            router: from,
            destination: Ipv6Addr::UNSPECIFIED,
            prefix_bits: 0,
            metric: metric(preference_of(flags)),
            unreachable: false,
            until: until(cx.now, u32::from(lifetime_s)),
        };
        self.set_route(default, lifetime_s > 0 && self.settings.accept_default_router, cx);
        let times = self.resolver.times.entry(interface).or_default();
        let millis = |told: u32, before: Option<Duration>| if told == 0 { before } else { Some(Duration::from_millis(u64::from(told))) };
        // "the host SHOULD set … if the received value is non-zero"; Linux refuses what is longer than an hour.
        times.reachable = millis(if reachable_ms <= 3_600_000 { reachable_ms } else { 0 }, times.reachable);
        // Linux takes this one up to 49 days: a single false advertisement would end address resolution, and the check for duplicates, for as long.
        let retransmit_ms = if retransmit_ms <= RETRANSMIT_MS_MAX { retransmit_ms } else { 0 };
        times.retransmit = millis(retransmit_ms, times.retransmit).map(|time| time.max(Duration::from_millis(8)));
        let hop_limit = (hop_limit > 0).then_some(hop_limit);
        let mut mtu = None;
        for option in nd::options(received.option_bytes).flatten() {
            match option {
                nd::Opt::Prefix { prefix_len, flags, valid_s, preferred_s, prefix } => {
                    self.prefix_told(interface, prefix, prefix_len, flags, valid_s, preferred_s, cx);
                }
                nd::Opt::Mtu(told) => mtu = Some(told),
                nd::Opt::Route { prefix_len, preference, lifetime_s, prefix } => {
                    self.route_told(received, prefix_len, preference, lifetime_s, prefix, cx);
                }
                _ => {}
            }
        }
        self.link_told(interface, mtu, hop_limit, cx);
        true
    }

    /// RFC 4861 §6.3.4: an MTU from 1280 up to the interface's own is taken; so is a hop limit that is not zero.
    fn link_told(&mut self, interface: InterfaceIndex, mtu: Option<u32>, hop_limit: Option<u8>, cx: &mut Context<'_>) {
        let Some(own) = self.facts.get(interface, cx).map(|facts| facts.mtu) else { return };
        let mtu = mtu.filter(|mtu| *mtu as usize >= ipv6::MTU_MIN && *mtu <= own);
        if mtu.is_some() || hop_limit.is_some() {
            cx.tell(Table::Routes(Family::V6), Change::LinkParameters { interface, mtu, hop_limit });
        }
    }

    /// Adds, renews or removes a route of a router.
    fn set_route(&mut self, told: RouterRoute, wanted: bool, cx: &mut Context<'_>) {
        let same = |route: &RouterRoute| {
            (route.interface, route.router, route.destination, route.prefix_bits)
                == (told.interface, told.router, told.destination, told.prefix_bits)
        };
        let at = self.routers.routes.iter().position(same);
        if !wanted {
            return self.remove_routes(same, cx);
        }
        let Some(at) = at else {
            if self.routers.routes.len() >= ROUTERS_MAX {
                self.resolver.counters[count::REFUSED] += 1;
                return;
            }
            self.routers.routes.push(told);
            return cx.tell(Table::Routes(Family::V6), Change::AddRoute(told.route()));
        };
        let route = &mut self.routers.routes[at];
        let before = route.route();
        // A router that advertises lives, but whether it can be reached is for neighbour unreachability detection to say.
        (route.metric, route.until) = (told.metric, told.until);
        let now = route.route();
        if before != now {
            cx.tell(Table::Routes(Family::V6), Change::DeleteRoute(before));
            cx.tell(Table::Routes(Family::V6), Change::AddRoute(now));
        }
    }

    fn remove_routes(&mut self, goes: impl Fn(&RouterRoute) -> bool, cx: &mut Context<'_>) {
        for route in self.routers.routes.extract_if(.., |route| goes(route)) {
            cx.tell(Table::Routes(Family::V6), Change::DeleteRoute(route.route()));
        }
    }

    /// RFC 4861 §7.2.5: it no longer says that it is a router.
    pub(super) fn router_is_host(&mut self, interface: InterfaceIndex, router: Ipv6Addr, cx: &mut Context<'_>) {
        self.remove_routes(|route| route.interface == interface && route.router == router, cx);
    }

    /// It answered a solicitation.
    pub(super) fn router_answers(&mut self, interface: InterfaceIndex, router: Ipv6Addr, cx: &mut Context<'_>) {
        self.set_unreachable(interface, router, false, cx);
    }

    /// Resolution or probing of a neighbour has failed.
    pub(super) fn router_fails(&mut self, interface: InterfaceIndex, router: Ipv6Addr, cx: &mut Context<'_>) {
        self.set_unreachable(interface, router, true, cx);
    }

    fn set_unreachable(&mut self, interface: InterfaceIndex, router: Ipv6Addr, unreachable: bool, cx: &mut Context<'_>) {
        for route in &mut self.routers.routes {
            if route.interface != interface || route.router != router || route.unreachable == unreachable {
                continue;
            }
            cx.tell(Table::Routes(Family::V6), Change::DeleteRoute(route.route()));
            route.unreachable = unreachable;
            cx.tell(Table::Routes(Family::V6), Change::AddRoute(route.route()));
        }
    }

    /// RFC 4191 §2.3: a route through the router, if it is no longer than what is accepted (Linux accept_ra_rt_info_max_plen).
    fn route_told(&mut self, received: &Received<'_>, bits: u8, preference: u8, lifetime_s: u32, prefix: &[u8], cx: &mut Context<'_>) {
        if bits > 128 || usize::from(bits.div_ceil(8)) > prefix.len() || bits > self.settings.route_information_bits_max {
            return;
        }
        let mut octets = [0; 16];
        for (octet, told) in octets.iter_mut().zip(prefix) {
            *octet = *told;
        }
        // "If the Reserved (10) value is received, the Route Information Option MUST be ignored."
        if preference == 2 || (bits == 0 && !self.settings.accept_default_router) {
            return;
        }
        let route = RouterRoute {
            interface: received.interface,
            router: received.from,
            destination: network(octets.into(), bits),
            prefix_bits: bits,
            metric: metric(preference),
            unreachable: false,
            until: until(cx.now, lifetime_s),
        };
        self.set_route(route, lifetime_s > 0, cx);
    }

    /// RFC 4861 §6.3.4 and RFC 4862 §5.5.3: a prefix of the link.
    #[expect(clippy::too_many_arguments, reason = "the fields of the option")]
    fn prefix_told(
        &mut self,
        interface: InterfaceIndex,
        prefix: Ipv6Addr,
        bits: u8,
        flags: nd::PrefixFlags,
        valid_s: u32,
        preferred_s: u32,
        cx: &mut Context<'_>,
    ) {
        // "If the prefix is the link-local prefix, silently ignore the Prefix Information option." "If the preferred lifetime is greater
        // than the valid lifetime, silently ignore the Prefix Information option." The latter holds for addresses only, but Linux ignores
        // all of it.
        if bits > 128 || prefix.is_multicast() || is_link_local(prefix) || preferred_s > valid_s {
            return;
        }
        let prefix = network(prefix, bits);
        if flags.contains(nd::PrefixFlags::ON_LINK) {
            self.set_prefix(Prefix { interface, prefix, bits, until: until(cx.now, valid_s) }, valid_s > 0, cx);
        }
        if flags.contains(nd::PrefixFlags::AUTONOMOUS) && self.settings.autoconfigure {
            self.set_address(interface, prefix, bits, valid_s, preferred_s, cx);
        }
    }

    fn set_prefix(&mut self, told: Prefix, wanted: bool, cx: &mut Context<'_>) {
        let same = |prefix: &Prefix| (prefix.interface, prefix.prefix, prefix.bits) == (told.interface, told.prefix, told.bits);
        let at = self.routers.prefixes.iter().position(same);
        match (at, wanted) {
            (Some(at), true) => self.routers.prefixes[at].until = told.until,
            (Some(at), false) => {
                self.routers.prefixes.swap_remove(at);
                cx.tell(Table::Routes(Family::V6), Change::DeleteRoute(told.route()));
            }
            (None, false) => {}
            (None, true) => {
                // The network of an address that somebody set is on-link already, and does not end when a router says so.
                let set = self.own.of(told.interface).any(|address| match address.address {
                    IpAddr::V6(ip) => !address.dynamic && address.prefix_bits == told.bits && network(ip, told.bits) == told.prefix,
                    IpAddr::V4(_) => false,
                });
                if set {
                    return;
                }
                if self.routers.prefixes.len() >= PREFIXES_MAX {
                    self.resolver.counters[count::REFUSED] += 1;
                    return;
                }
                self.routers.prefixes.push(told);
                cx.tell(Table::Routes(Family::V6), Change::AddRoute(told.route()));
            }
        }
    }

    /// RFC 4862 §5.5.3: makes an address of the prefix, or renews the lifetimes of those that were made of it.
    fn set_address(&mut self, interface: InterfaceIndex, prefix: Ipv6Addr, bits: u8, valid_s: u32, preferred_s: u32, cx: &mut Context<'_>) {
        let (preferred_until, told_until) = (until(cx.now, preferred_s), until(cx.now, valid_s));
        let is_made = |address: &&Address| match address.address {
            IpAddr::V6(ip) => address.dynamic && !is_link_local(ip) && address.prefix_bits == bits && network(ip, bits) == prefix,
            IpAddr::V4(_) => false,
        };
        let made: Vec<Address> = self.own.of(interface).filter(is_made).copied().collect();
        for address in &made {
            let valid_until = renewed(address.valid_until, told_until, cx.now);
            let state = match address.state {
                AddressState::Preferred | AddressState::Deprecated if preferred_s == 0 => AddressState::Deprecated,
                AddressState::Preferred | AddressState::Deprecated => AddressState::Preferred,
                state => state,
            };
            // "Note that the preferred lifetime of the corresponding address is always reset to the Preferred Lifetime in the received Prefix
            // Information option".
            let change = Change::AddAddress(Address { state, preferred_until, valid_until, ..*address });
            cx.tell(Table::Addresses(Family::V6), change);
        }
        // "If the sum of the prefix length and interface identifier length does not equal 128 bits, the Prefix Information option MUST be
        // ignored." Identifiers have 64 bits here.
        if !made.is_empty() || valid_s == 0 || bits != 64 {
            return;
        }
        let Some(mac) = self.facts.get(interface, cx).map(|facts| facts.mac) else { return };
        let ip = join(prefix, interface_identifier(mac));
        if self.own.get(interface, ip).is_some() {
            return;
        }
        let is_automatic = |address: &&Address| match address.address {
            IpAddr::V6(ip) => address.dynamic && !is_link_local(ip),
            IpAddr::V4(_) => false,
        };
        let of_interface = self.own.of(interface).filter(is_automatic).count();
        if of_interface >= self.settings.addresses_max {
            self.resolver.counters[count::REFUSED] += 1;
            return;
        }
        let address = Address {
            state: AddressState::Tentative,
            dynamic: true,
            preferred_until,
            valid_until: told_until,
            ..Address::permanent(interface, ip.into(), bits)
        };
        cx.tell(Table::Addresses(Family::V6), Change::AddAddress(address));
    }
}

/// RFC 4862 §5.5.3 e: the end of an address's valid lifetime, now `old`, after an advertisement said `told`.
fn renewed(old: Option<Instant>, told: Option<Instant>, now: Instant) -> Option<Instant> {
    // "1. If the received Valid Lifetime is greater than 2 hours or greater than RemainingLifetime, set the valid lifetime of the corresponding
    // address to the advertised Valid Lifetime."
    if told.is_none_or(|told| told.since(now) > TWO_HOURS || old.is_some_and(|old| told > old)) {
        return told;
    }
    // "2. If RemainingLifetime is less than or equal to 2 hours, ignore the Prefix Information option with regards to the valid lifetime",
    // "3. Otherwise, reset the valid lifetime of the corresponding address to 2 hours."
    if old.is_some_and(|old| old.since(now) <= TWO_HOURS) { old } else { Some(now + TWO_HOURS) }
}

/// The preference of a router, two bits, two's complement; RFC 4191 §2.2: the reserved value counts as medium.
const fn preference_of(flags: RouterFlags) -> u8 {
    flags.bits() >> 3 & 3
}

/// Lower is better.
const fn metric(preference: u8) -> u32 {
    match preference {
        1 => ROUTER_METRIC - 1,
        3 => ROUTER_METRIC + 1,
        _ => ROUTER_METRIC,
    }
}
