//! Procedures and changes: addresses and routes come and go, with the errors of Linux.

use super::addresses::{is_link_local, mask, v6};
use super::interfaces::has_lifetime;
use super::*;
use crate::arguments::Arguments;
use crate::ip::hops;
use crate::ip::request::{self, Adding, AskedHop, Meant, Place};
use crate::ip::routes::{Bits as _, Refusal};
use crate::ip::rules::Packet;
use std::net::Ipv6Addr;
use weft_core::table::{AddressState, Hop, NO_PREFIX_ROUTE, PROTOCOL_KERNEL, RouteKind, RuleAction, TABLE_MAIN, Traffic};
use weft_wire::ipv6::MTU_MIN;

/// Metric of routes that somebody sets without one (Linux IP6_RT_PRIO_USER).
const METRIC_USER: u32 = 1024;
/// Metric of the routes that follow from addresses (Linux IP6_RT_PRIO_ADDRCONF).
const METRIC_PREFIX: u32 = 256;

/// Why a change of addresses or routes was refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TableError {
    /// The interface has the address.
    #[error("the interface has {0} already")]
    AddressExists(Ipv6Addr),
    /// No host can have the address.
    #[error("{0} cannot be a host's address")]
    AddressInvalid(Ipv6Addr),
    /// The link is too narrow.
    #[error("IPv6 needs an MTU of at least 1280, and the interface's is {0}")]
    MtuTooSmall(u32),
    /// The interface has no IPv6 (ip6_addr_add, addrconf_add_dev).
    #[error("IPv6 is disabled on this device")]
    Disabled,
    /// The next hop's interface has none (fib6_nh_init).
    #[error("IPv6 is disabled on nexthop device")]
    HopDisabled,
    /// The interface does not have it.
    #[error("the interface does not have {0}")]
    AddressAbsent(Ipv6Addr),
    /// Same destination, metric, gateway and interface.
    #[error("there is such a route to {0} with metric {1}")]
    RouteExists(String, u32),
    /// Nothing fits.
    #[error("no route to {0} fits")]
    RouteAbsent(String),
    /// Nothing to replace.
    #[error("there is no route to {0} to be changed")]
    RouteNotThere(String),
    /// Bits behind the prefix.
    #[error("{0} has bits set behind its prefix; {1} is the network")]
    RouteInvalid(String, Ipv6Addr),
    /// Nobody knows where the gateway is.
    #[error("the gateway {0} is on no network of an interface")]
    GatewayUnreachable(Ipv6Addr),
    /// A link-local gateway may be anywhere.
    #[error("the gateway {0} is link-local: say on which interface it is")]
    GatewayWithoutInterface(Ipv6Addr),
    /// The gateway is this node, or a group.
    #[error("{0} cannot be a gateway: it is this node's own address or a group's")]
    GatewayInvalid(Ipv6Addr),
    /// Neither says where to.
    #[error("a route needs an interface or a gateway")]
    NoInterface,
    /// Only what has a gateway can be one of several.
    #[error("of several next hops each needs a gateway")]
    HopWithoutGateway,
    /// The preferred source is not ours.
    #[error("the source {0} is none of this node's addresses")]
    SourceNotLocal(Ipv6Addr),
}

impl TableError {
    /// What kind of refusal it is.
    const fn kind(&self) -> ErrorKind {
        match self {
            TableError::AddressExists(_) | TableError::RouteExists(..) => ErrorKind::Exists,
            TableError::RouteNotThere(_) => ErrorKind::NotFound,
            TableError::RouteAbsent(_) => ErrorKind::NoMatch,
            TableError::NoInterface => ErrorKind::NoDevice,
            TableError::AddressInvalid(_)
            | TableError::MtuTooSmall(_)
            | TableError::RouteInvalid(..)
            | TableError::GatewayWithoutInterface(_)
            | TableError::GatewayInvalid(_)
            | TableError::HopWithoutGateway
            | TableError::SourceNotLocal(_) => ErrorKind::Invalid,
            TableError::Disabled | TableError::HopDisabled => ErrorKind::Denied,
            TableError::AddressAbsent(_) => ErrorKind::AddressNotAvailable,
            TableError::GatewayUnreachable(_) => ErrorKind::HostUnreachable,
        }
    }
}

impl From<TableError> for Refused {
    fn from(error: TableError) -> Refused {
        Refused::new(error.kind(), error.to_string())
    }
}

/// The route to the prefix of an address.
pub(super) fn prefix_route(interface: InterfaceIndex, ip: Ipv6Addr, bits: u8) -> Route {
    Route {
        destination: Ipv6Addr::from_bits(ip.to_bits() & mask(bits)).into(),
        prefix_bits: bits,
        gateway: None,
        interface,
        source: None,
        metric: METRIC_PREFIX,
        mtu: None,
        kind: RouteKind::Unicast,
        protocol: PROTOCOL_KERNEL,
        ..Route::PLAIN
    }
}

/// The routes that an address brings (addrconf_prefix_route): to its prefix, one of 128 bits too, and to its peer ("if (!ipv6_addr_any(&ifp->peer_addr))
/// addrconf_prefix_route(&ifp->peer_addr, 128, …)"); on `lo` as elsewhere.
pub(super) fn routes_of(address: &Address) -> Vec<Route> {
    let Some(ip) = v6(address) else { return Vec::new() };
    // What nd makes of a prefix says nothing of the link: on-link prefixes of advertisements are routes of their own (RFC 4861 §6.3.4).
    let has_prefix = !address.dynamic || is_link_local(ip);
    if address.flags & NO_PREFIX_ROUTE != 0 || !has_prefix {
        return Vec::new();
    }
    let mut routes = vec![prefix_route(address.interface, ip, address.prefix_bits)];
    if let Some(IpAddr::V6(peer)) = address.peer {
        routes.push(prefix_route(address.interface, peer, 128));
    }
    if address.metric != 0 {
        routes.iter_mut().for_each(|route| route.metric = address.metric);
    }
    routes
}

impl Ip6 {
    pub(super) fn address_add(&mut self, value: &Value, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        let block = self.name.clone();
        let known = [&["interface", "address", "prefix_bits", "peer", "dad"][..], &request::OF_ADDRESS].concat();
        let arguments = Arguments::new(&block, "address_add", value, &known)?;
        let interfaces = request::interfaces(&arguments, cx)?;
        let (ip, bits) = address_and_bits(&arguments)?;
        let peer = arguments.address_v6("peer")?.map(IpAddr::V6);
        let replace = arguments.bool("replace")?.unwrap_or(false);
        let detect = arguments.bool("dad")?.unwrap_or(true);
        if self.addresses.len() + interfaces.len() > ADDRESSES_MAX {
            return Err(ControlError::Limit { what: "addresses of one node".to_owned(), max: ADDRESSES_MAX as u64 });
        }
        let mut plan = Vec::with_capacity(interfaces.len());
        for interface in interfaces {
            let refused = |error: TableError| arguments.fail(Refused::from(error).and(&request::culprit(&arguments, interface, cx)));
            if ip.is_multicast() || ip.is_unspecified() || ip.to_ipv4_mapped().is_some() {
                return Err(refused(TableError::AddressInvalid(ip)));
            }
            if self.disabled.is(interface) {
                return Err(refused(TableError::Disabled));
            }
            if let Some(facts) = self.facts.get(interface, cx).filter(|facts| (facts.mtu as usize) < MTU_MIN) {
                return Err(refused(TableError::MtuTooSmall(facts.mtu)));
            }
            // The node's own link-local address becomes one that somebody set.
            let before = self.addresses.find(interface, ip);
            let same = |there: &Address| there.prefix_bits == bits && there.peer == peer;
            if before.is_some_and(|there| !(there.dynamic || replace && same(&there))) {
                return Err(refused(TableError::AddressExists(ip)));
            }
            let state = match before.filter(|_| replace) {
                Some(before) if before.state != AddressState::Deprecated => before.state,
                Some(_) => AddressState::Preferred,
                None => self.first_state(interface, detect, cx),
            };
            let plain = Address { state, peer, ..Address::permanent(interface, ip.into(), bits) };
            plan.push(request::complete_address(&arguments, plain, cx)?);
        }
        plan.into_iter().for_each(|address| self.add_address(address, cx));
        Ok(Value::Null)
    }

    /// Adds an address, with the route to its prefix, or changes what is known of it.
    pub(super) fn add_address(&mut self, address: Address, cx: &mut Context<'_>) {
        self.add_address_with(address, routes_of(&address), cx);
    }

    /// `lo` has ::1 whenever it comes up, without a route to its prefix (Linux init_loopback, add_addr).
    fn add_localhost(&mut self, cx: &mut Context<'_>) {
        self.add_address_with(Address::permanent(InterfaceIndex::LOOPBACK, Ipv6Addr::LOCALHOST.into(), 128), Vec::new(), cx);
    }

    fn add_address_with(&mut self, address: Address, routes: Vec<Route>, cx: &mut Context<'_>) {
        let Ok(before) = self.addresses.put(address) else { return };
        self.facts.get(address.interface, cx);
        self.changed();
        let up = self.facts.peek(address.interface).is_none_or(|facts| facts.up);
        if up {
            // addrconf_notify: "rt6_sync_up(dev, RTNH_F_DEAD);"
            self.tables.mark(address.interface, false);
        }
        for route in routes.into_iter().filter(|_| before.is_none() && up) {
            if self.tables.main.insert(route).is_ok() {
                self.tell_route("added", &route.into(), cx);
            }
        }
        if has_lifetime(&address) || before.as_ref().is_some_and(has_lifetime) {
            self.schedule_lifetimes(cx);
        }
        if before != Some(address) {
            self.tell_address(if before.is_some() { "changed" } else { "added" }, &address, cx);
        }
    }

    pub(super) fn address_delete(&mut self, value: &Value, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        let block = self.name.clone();
        let arguments = Arguments::new(&block, "address_delete", value, &["interface", "address", "prefix_bits"])?;
        let interfaces = request::interfaces(&arguments, cx)?;
        let (ip, _) = address_and_bits(&arguments)?;
        if let Some(without) = interfaces.iter().find(|interface| self.addresses.find(**interface, ip).is_none()) {
            let culprit = request::culprit(&arguments, *without, cx);
            return Err(arguments.fail(Refused::from(TableError::AddressAbsent(ip)).and(&culprit)));
        }
        interfaces.into_iter().for_each(|interface| self.delete_address(interface, ip, cx));
        Ok(Value::Null)
    }

    /// An administrator puts an interface up or down (Linux addrconf_ifdown): down, its routes go, and its addresses. Up, `lo` gets its own again (init_loopback).
    pub(super) fn interface_set(&mut self, value: &Value, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        let block = self.name.clone();
        let arguments = Arguments::new(&block, "interface_set", value, &["interface", "up"])?;
        let up = arguments.bool("up")?.ok_or_else(|| arguments.fail("up is missing"))?;
        let interfaces = request::interfaces(&arguments, cx)?;
        if up && interfaces.contains(&InterfaceIndex::LOOPBACK) && !self.disabled.is(InterfaceIndex::LOOPBACK) {
            self.add_localhost(cx);
        }
        for interface in interfaces {
            self.take_down(interface, !up, cx);
        }
        Ok(Value::Null)
    }

    /// Addresses and routes of an interface go, or may come.
    fn take_down(&mut self, interface: InterfaceIndex, down: bool, cx: &mut Context<'_>) {
        self.tables.mark(interface, down);
        if down {
            self.delete_addresses(|address| address.interface == interface, cx);
            self.remove_routes(|row| hops::is_lost(row, interface), cx);
        }
        self.changed();
    }

    /// Switches IPv6 off on interfaces, or on again; says whether it is off on all of them.
    pub(super) fn interface_disable(&mut self, value: &Value, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        let block = self.name.clone();
        let arguments = Arguments::new(&block, "interface_disable", value, &["interface", "disable"])?;
        let disable = arguments.bool("disable")?;
        let interfaces = request::interfaces(&arguments, cx)?;
        for interface in disable.iter().flat_map(|_| &interfaces) {
            self.disable_one(*interface, disable == Some(true), cx);
        }
        Ok(interfaces.iter().all(|interface| self.disabled.is(*interface)).into())
    }

    /// Linux addrconf_disable_ipv6: as if the interface went down, or came up, for IPv6 alone.
    pub(super) fn disable_one(&mut self, interface: InterfaceIndex, disable: bool, cx: &mut Context<'_>) {
        if !self.disabled.set(interface, disable) {
            return;
        }
        let up = self.facts.get(interface, cx).is_none_or(|facts| facts.up);
        if !disable && up && interface == InterfaceIndex::LOOPBACK {
            self.add_localhost(cx);
        }
        self.take_down(interface, disable || !up, cx);
        self.one_interface_changed(interface, cx);
    }

    /// Linux addrconf_disable_change: on every interface, and on those that come.
    pub(super) fn disable_all(&mut self, disable: bool, cx: &mut Context<'_>) {
        (self.disabled.all, self.disabled.new) = (disable, disable);
        for interface in self.interfaces(cx) {
            self.disable_one(interface, disable, cx);
        }
    }

    /// Removes routes from every table.
    pub(super) fn remove_routes(&mut self, goes: impl Fn(&RouteRow) -> bool, cx: &mut Context<'_>) {
        // fib6_ifdown: siblings go one by one.
        for route in self.tables.remove_where(goes).iter().flat_map(RouteRow::each) {
            self.tell_route("deleted", &(*route).into(), cx);
        }
    }

    /// The same by hop: of a route with several, the others stay.
    pub(super) fn remove_ways(&mut self, goes: impl Fn(&Route) -> bool, cx: &mut Context<'_>) {
        for route in self.tables.remove_hops(&goes) {
            self.tell_route("deleted", &route.into(), cx);
        }
        self.remove_routes(|row| row.each().all(&goes), cx);
    }

    /// A route for each member of the group that is named, of metrics that follow each other; or one.
    pub(super) fn route_add(&mut self, value: &Value, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        let Some(each) = request::of_members(&self.name, "route_add", value, cx)? else { return self.add_one_route(value, cx) };
        for (at, (name, one)) in each.iter().enumerate() {
            let Err(error) = self.add_one_route(one, cx) else { continue };
            for (_, done) in each.iter().take(at) {
                // It was added a moment ago.
                let _ = self.route_delete(&request::without_place(done), cx);
            }
            return Err(request::of_member(error, name));
        }
        Ok(Value::Null)
    }

    fn add_one_route(&mut self, value: &Value, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        let block = self.name.clone();
        let known = [&["destination", "gateway", "interface", "source", "metric", "mtu", "kind"][..], &request::OF_ROUTE].concat();
        let arguments = Arguments::new(&block, "route_add", value, &known)?;
        let refused = |error: TableError| arguments.fail(error);
        let (destination, bits) = arguments.prefix_v6("destination")?.ok_or_else(|| arguments.fail("destination is missing"))?;
        let text = arguments.required("destination")?;
        let kind = request::route_kind(&arguments)?.unwrap_or(RouteKind::Unicast);
        let mut adding = Adding::read(&arguments)?;
        let (asked, listed) = request::next_hops::<u128>(&arguments, kind, cx)?;
        if listed && asked.iter().any(|hop| hop.gateway.is_none()) {
            return Err(refused(TableError::HopWithoutGateway));
        }
        let table = arguments.number("table", 1, u32::MAX)?.unwrap_or(TABLE_MAIN);
        asked.iter().try_for_each(|hop| request::local_route(&arguments, kind, table, hop))?;
        self.tables.begin(table);
        // ip6_route_check_nh: FIB_LOOKUP_IGNORE_LINKSTATE
        let ignores = std::mem::take(&mut self.facts.ignores_linkdown);
        let ways: Result<Vec<InterfaceIndex>, TableError> = asked.iter().map(|hop| self.route_interface(hop, kind, table)).collect();
        self.facts.ignores_linkdown = ignores;
        let ways = ways.map_err(refused)?;
        if ways.iter().any(|interface| self.disabled.is(*interface)) {
            return Err(refused(TableError::HopDisabled));
        }
        let source = arguments.address_v6("source")?;
        if let Some(source) = source.filter(|source| !self.addresses.iter().any(|own| own.address == IpAddr::V6(*source))) {
            return Err(refused(TableError::SourceNotLocal(source)));
        }
        let route = Route {
            destination: destination.into(),
            prefix_bits: bits,
            source: source.map(IpAddr::V6),
            metric: arguments.number("metric", 0, u32::MAX)?.filter(|metric| *metric != 0).unwrap_or(METRIC_USER),
            mtu: arguments.number("mtu", MTU_MIN as u32, 65_575)?,
            kind,
            ..Route::PLAIN
        };
        let route = request::complete_route(&arguments, route, 0)?;
        let hops: Vec<Hop> = asked.iter().zip(&ways).map(|(hop, interface)| hop.of(route, *interface)).collect();
        let twice = hops.iter().enumerate().any(|(at, hop)| hops[..at].iter().any(|other| u128::is_same(&other.route, &hop.route)));
        let refuse = |error: Refusal| match error {
            // ip6_route_info_append: of one list, too.
            Refusal::Exists => refused(TableError::RouteExists(text.to_owned(), route.metric)),
            Refusal::Invalid => refused(TableError::RouteInvalid(text.to_owned(), Ipv6Addr::from_bits(destination.to_bits() & mask(bits)))),
            Refusal::Absent => refused(TableError::RouteNotThere(text.to_owned())),
            Refusal::TooManyHops => ControlError::Limit { what: "next hops of one route".to_owned(), max: HOPS_MAX as u64 },
        };
        let row = RouteRow::with(hops).filter(|_| !twice).ok_or_else(|| refuse(Refusal::Exists))?;
        self.tables.room(route.table, asked.len())?;
        let joins = matches!(adding.place, Some(Place::Last | Place::First)) && !adding.replace && hops::may_join(&row);
        let whole = if joins { self.tables.join(&row).map_err(refuse)? } else { None };
        let (before, told) = match whole {
            // ip6_route_mpath_notify: what was appended as a list is told from its first hop on, anything else from the new one on.
            Some(whole) if listed && adding.place == Some(Place::Last) => (None, whole),
            Some(mut whole) => {
                whole.hops.rotate_right(asked.len());
                (None, whole)
            }
            None => {
                if joins {
                    // Beside what leads there without a gateway.
                    adding.place = Some(Place::Last);
                }
                (self.tables.put(row.clone(), adding).map_err(refuse)?, row)
            }
        };
        for interface in ways {
            self.facts.get(interface, cx);
        }
        self.changed();
        if let Some(before) = before {
            self.tell_route("replaced", &before, cx);
        }
        self.tell_route("added", &told, cx);
        Ok(Value::Null)
    }

    /// Where a next hop leaves: as said, or where the gateway is (Linux ip6_route_check_nh).
    fn route_interface(&self, hop: &AskedHop, kind: RouteKind, table: u32) -> Result<InterfaceIndex, TableError> {
        if !matches!(kind, RouteKind::Unicast | RouteKind::Local) {
            return Ok(InterfaceIndex::NONE);
        }
        let Some(IpAddr::V6(gateway)) = hop.gateway else { return hop.interface.ok_or(TableError::NoInterface) };
        if gateway.is_multicast() || self.addresses.iter().any(|own| own.address == IpAddr::V6(gateway)) {
            return Err(TableError::GatewayInvalid(gateway));
        }
        if is_link_local(gateway) || hop.onlink {
            return hop.interface.ok_or(TableError::GatewayWithoutInterface(gateway));
        }
        // ip6_route_check_nh: in the table that the route goes to, then as packets do.
        let here = self.tables.lookup_in(table, &Packet::to(gateway.to_bits(), hop.interface), &self.facts);
        let found = here.or_else(|| self.lookup(gateway, hop.interface));
        let found = found.filter(|route| route.gateway.is_none() && route.kind == RouteKind::Unicast);
        found.map(|route| route.interface).ok_or(TableError::GatewayUnreachable(gateway))
    }

    pub(super) fn route_delete(&mut self, value: &Value, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        let block = self.name.clone();
        let arguments = Arguments::new(&block, "route_delete", value, &request::OF_DELETE)?;
        let table = arguments.number("table", 1, u32::MAX)?.unwrap_or(TABLE_MAIN);
        let (destination, bits) = arguments.prefix_v6("destination")?.ok_or_else(|| arguments.fail("destination is missing"))?;
        let meant = Meant::read::<u128>(&arguments, arguments.address_v6("source")?.map(IpAddr::V6), cx)?;
        let destination = destination.to_bits();
        let by_hop: Vec<Meant> = match &meant.several {
            // ip6_route_multipath_del: each by itself, and an error if one was not there.
            Some(asked) => asked.iter().map(|hop| meant.by(hop)).collect(),
            None if meant.by_gateway() => vec![meant.by_itself()],
            None => Vec::new(),
        };
        let mut absent = false;
        for one in &by_hop {
            match self.tables.remove_hop(table, destination, bits, |route| one.fits(route)) {
                Some(gone) => self.route_gone(&gone.into(), cx),
                None => absent = true,
            }
        }
        if by_hop.is_empty() {
            match self.tables.remove(table, destination, bits, |row| row.each().any(|route| meant.fits(route))) {
                Some(gone) => self.route_gone(&gone, cx),
                None => absent = true,
            }
        }
        match absent {
            true => Err(arguments.fail(TableError::RouteAbsent(arguments.required("destination")?.to_owned()))),
            false => Ok(Value::Null),
        }
    }

    fn route_gone(&mut self, row: &RouteRow, cx: &mut Context<'_>) {
        self.changed();
        // Redirects were told by the gateway of such a route.
        self.exceptions.forget_gateways(|_, interface| row.each().any(|route| interface == route.interface));
        self.tell_route("deleted", row, cx);
    }

    /// What other blocks tell: nd of addresses, routes and redirects, icmp6 of path MTUs, sockets of raw ones.
    pub(super) fn take_change(&mut self, change: Change, cx: &mut Context<'_>) {
        let taken = match change {
            Change::AddAddress(address) => self.take_address(address, cx),
            Change::DeleteAddress { interface, address: IpAddr::V6(ip) } => {
                self.delete_address(interface, ip, cx);
                true
            }
            Change::AddRoute(route) => self.take_route(route, cx),
            Change::DeleteRoute(route) => {
                let IpAddr::V6(destination) = route.destination else { return };
                let same = |other: &RouteRow| other.hops.is_empty() && u128::is_same(&other.route, &route);
                if let Some(gone) = self.tables.main.remove(destination.to_bits(), route.prefix_bits, same) {
                    self.route_gone(&gone, cx);
                }
                true
            }
            Change::PathMtu { destination: IpAddr::V6(destination), mtu } => self.take_path_mtu(destination, mtu, cx),
            Change::Redirect { destination: IpAddr::V6(destination), gateway: IpAddr::V6(gateway), interface, from: IpAddr::V6(from) } => {
                self.take_redirect(destination, gateway, interface, from, cx)
            }
            Change::LinkParameters { interface, mtu, hop_limit } => {
                // RFC 4861 §6.3.4: "if the value … is less than the minimum link MTU" it is not taken.
                let link = Link { mtu: mtu.filter(|mtu| *mtu as usize >= MTU_MIN), hop_limit: hop_limit.filter(|hops| *hops != 0) };
                if self.facts.get(interface, cx).is_some() && self.links.insert(interface, link) != Some(link) {
                    self.changed();
                    cx.table_changed(Table::Routes(Family::V6));
                }
                true
            }
            Change::WantRaw { protocol, wanted } => {
                let bit = 1 << (protocol.0 & 63);
                let place = &mut self.wanted_raw[usize::from(protocol.0 >> 6)];
                *place = if wanted { *place | bit } else { *place & !bit };
                true
            }
            _ => false,
        };
        self.counters[count::CHANGES_REFUSED] += u64::from(!taken);
    }

    fn take_address(&mut self, address: Address, cx: &mut Context<'_>) -> bool {
        let Some(ip) = v6(&address).filter(|ip| !ip.is_multicast() && !ip.is_unspecified() && !ip.is_loopback()) else { return false };
        let known = self.addresses.find(address.interface, ip);
        if known.is_none() && (self.addresses.len() >= ADDRESSES_MAX || self.facts.get(address.interface, cx).is_none()) {
            return false;
        }
        if address.prefix_bits > 128 || self.disabled.is(address.interface) {
            return false;
        }
        self.add_address(address, cx);
        true
    }

    fn take_route(&mut self, route: Route, cx: &mut Context<'_>) -> bool {
        let IpAddr::V6(destination) = route.destination else { return false };
        if self.disabled.is(route.interface) {
            return false;
        }
        // One with the same destination, metric and gateway is replaced.
        let same = |other: &RouteRow| other.hops.is_empty() && u128::is_same(&other.route, &route);
        let before = self.tables.main.remove(destination.to_bits(), route.prefix_bits, same);
        if self.tables.main.ways() >= ROUTES_MAX || self.tables.main.insert(route).is_err() {
            return false;
        }
        if before == Some(route.into()) {
            return true;
        }
        self.facts.get(route.interface, cx);
        self.changed();
        self.tell_route("added", &route.into(), cx);
        true
    }

    /// RFC 8201 §4: "If a node receives a Packet Too Big message reporting a next-hop MTU that is less than the IPv6 minimum link MTU, it must
    /// discard it." And "A node must not increase its estimate of the Path MTU in response to the contents of a Packet Too Big message."
    fn take_path_mtu(&mut self, destination: Ipv6Addr, mtu: u32, cx: &mut Context<'_>) -> bool {
        let known = self.resolve(destination, None, None, Traffic::default(), cx.now);
        if (mtu as usize) < MTU_MIN || known.is_none_or(|known| mtu >= known.mtu || known.kind != RouteKind::Unicast) {
            return false;
        }
        self.counters[count::EXCEPTIONS_FULL] += u64::from(self.exceptions.set_mtu(destination, mtu, cx.now));
        self.changed();
        self.schedule_exceptions(cx);
        true
    }

    /// RFC 4861 §8.1: "The IP source address of the Redirect is the same as the current first-hop router for the specified ICMP Destination
    /// Address." §8.3: "If the Target and Destination Addresses are the same, the host MUST treat the Target as on-link."
    fn take_redirect(&mut self, destination: Ipv6Addr, gateway: Ipv6Addr, on: InterfaceIndex, from: Ipv6Addr, cx: &Context<'_>) -> bool {
        let current = self.resolve(destination, None, Some(on), Traffic::default(), cx.now);
        let told_by_router = current
            .is_some_and(|answer| answer.kind == RouteKind::Unicast && answer.interface == on && answer.next_hop == IpAddr::V6(from));
        // RFC 4861 §8.1: the target is a router's link-local address, or the destination itself.
        if self.forwards || !told_by_router || destination.is_multicast() || !(is_link_local(gateway) || gateway == destination) {
            return false;
        }
        self.counters[count::EXCEPTIONS_FULL] += u64::from(self.exceptions.set_gateway(destination, gateway, on));
        self.changed();
        true
    }

    pub(super) fn rule_change(&mut self, procedure: &str, value: &Value, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        self.tables.rules.change(&self.name, procedure, value, cx).inspect_err(|error| {
            self.counters[count::RULES_REFUSED] += u64::from(matches!(error, ControlError::Limit { .. }));
        })?;
        if procedure == "rule_add" {
            // fib6_rule_configure: "if (fib6_new_table(net, rule->table) == NULL) …", which fib4_rule_configure does not.
            for rule in self.tables.rules.all() {
                if let RuleAction::Table(table) = rule.action {
                    self.tables.begin(table);
                }
            }
        }
        self.changed();
        Ok(Value::Null)
    }

    pub(super) fn tell_address(&self, event: &str, address: &Address, cx: &mut Context<'_>) {
        cx.row_changed(Table::Addresses(Family::V6), Row::Address(address.interface, address.address));
        let mut row = self.address_row(address);
        row["event"] = event.into();
        if event == "deleted" {
            row["row"] = serde_json::json!(address);
        }
        // addrconf_add_linklocal, addrconf_prefix_rcv_add_addr: told when it is known to be the node's alone.
        if event == "added" && address.dynamic && address.state == AddressState::Tentative {
            row["early"] = true.into();
        }
        cx.alert("address", row);
    }

    pub(super) fn tell_route(&self, event: &str, row: &RouteRow, cx: &mut Context<'_>) {
        cx.table_changed(Table::Routes(Family::V6));
        cx.alert("route", hops::alert(event, row, &self.facts));
    }

    fn address_row(&self, address: &Address) -> Value {
        serde_json::json!({
            "interface": address.interface.0,
            "interface_name": self.interface_name(address.interface),
            "address": address.address.to_string(),
            "prefix_bits": address.prefix_bits,
            "state": address.state,
            "dynamic": address.dynamic,
            "preferred_until": address.preferred_until,
            "valid_until": address.valid_until,
        })
    }

    fn interface_name(&self, interface: InterfaceIndex) -> Option<&str> {
        self.facts.name(interface)
    }

    pub(super) fn address_rows(&self) -> Vec<Value> {
        self.addresses.iter().map(|address| self.address_row(address)).collect()
    }

    /// Routes, then what follows from addresses, which Linux has in its table "local".
    pub(super) fn route_rows(&self) -> Vec<Value> {
        let mut rows: Vec<Value> = self.tables.all().iter().map(|row| hops::row_of(row, &self.facts)).collect();
        let mut local = |kind: &str, destination: String, interface: InterfaceIndex, metric: u32| {
            rows.push(serde_json::json!({
                "table": "local", "kind": kind, "destination": destination, "gateway": null, "interface": interface.0,
                "interface_name": self.interface_name(interface), "source": null, "metric": metric, "mtu": null,
            }));
        };
        for address in self.addresses.iter().filter(|address| super::addresses::is_usable(address.state)) {
            local("local", address.address.to_string(), address.interface, 0);
        }
        for interface in &self.awake {
            local("multicast", "ff00::/8".to_owned(), *interface, METRIC_PREFIX);
        }
        rows
    }
}

fn address_and_bits(arguments: &Arguments<'_>) -> Result<(Ipv6Addr, u8), ControlError> {
    let (ip, bits) = arguments.prefix_v6("address")?.ok_or_else(|| arguments.fail("address is missing"))?;
    let bits = arguments.number("prefix_bits", 0, 128)?.map_or(bits, |bits| bits as u8);
    Ok((ip, bits))
}
