//! Procedures: addresses and routes come and go, with the errors of Linux (the errno's name begins the text).

use super::addresses::{base, mask, same_prefix, v4};
use super::*;
use crate::arguments::Arguments;
use crate::facts::find_interface;
use crate::ip::request::{self, Adding};
use crate::ip::routes::Refusal;
use crate::ip::rules::Packet;
use std::net::Ipv4Addr;
use weft_core::table::{AddressState, NO_PREFIX_ROUTE, PROTOCOL_KERNEL, RouteKind, SCOPE_LINK, TABLE_MAIN};

/// Why a change of addresses or routes was refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TableError {
    /// The interface has the address.
    #[error("EEXIST: the interface has {0} already")]
    AddressExists(Ipv4Addr),
    /// No host can have the address.
    #[error("EINVAL: {0} cannot be a host's address")]
    AddressInvalid(Ipv4Addr),
    /// The interface does not have it.
    #[error("EADDRNOTAVAIL: the interface does not have {0}")]
    AddressAbsent(Ipv4Addr),
    /// Same destination and metric.
    #[error("EEXIST: there is a route to {0} with metric {1}")]
    RouteExists(String, u32),
    /// Nothing fits.
    #[error("ESRCH: no route to {0} fits")]
    RouteAbsent(String),
    /// Nothing to replace.
    #[error("ENOENT: there is no route to {0} to be changed")]
    RouteNotThere(String),
    /// Bits behind the prefix.
    #[error("EINVAL: {0} has bits set behind its prefix; {1} is the network")]
    RouteInvalid(String, Ipv4Addr),
    /// Nobody knows where the gateway is.
    #[error("ENETUNREACH: the gateway {0} is on no network of an interface")]
    GatewayUnreachable(Ipv4Addr),
    /// The gateway is this node.
    #[error("EINVAL: the gateway {0} is this node's own address")]
    GatewayLocal(Ipv4Addr),
    /// Neither says where to.
    #[error("ENODEV: a route needs an interface or a gateway")]
    NoInterface,
    /// The preferred source is not ours.
    #[error("EINVAL: the source {0} is none of this node's addresses")]
    SourceNotLocal(Ipv4Addr),
}

impl Ip4 {
    pub(super) fn address_add(&mut self, value: &Value, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        let block = self.name.clone();
        let known = [&["interface", "address", "prefix_bits", "peer"][..], &request::OF_ADDRESS].concat();
        let arguments = Arguments::new(&block, "address_add", value, &known)?;
        let interfaces = request::interfaces(&arguments, cx)?;
        let (ip, bits) = address_and_bits(&arguments)?;
        let peer = arguments.address("peer")?.map(IpAddr::V4);
        let broadcast = match arguments.text("broadcast")? {
            Some("none") => None,
            Some(_) => arguments.address("broadcast")?,
            None => (bits < 31 && peer.is_none()).then(|| Ipv4Addr::from_bits(ip.to_bits() | !mask(bits))),
        };
        let replace = arguments.bool("replace")?.unwrap_or(false);
        if self.addresses.len() + interfaces.len() > ADDRESSES_MAX {
            return Err(ControlError::Limit { what: "addresses of one node".to_owned(), max: ADDRESSES_MAX as u64 });
        }
        let mut plan = Vec::with_capacity(interfaces.len());
        for interface in interfaces {
            let plain = Address { peer, broadcast, ..Address::permanent(interface, ip.into(), bits) };
            let address = request::complete_address(&arguments, plain, cx)?;
            let refused = |error: TableError| arguments.fail(error.to_string() + &request::culprit(&arguments, interface, cx));
            self.check_address(&address, ip, replace).map_err(refused)?;
            // inet_rtm_newaddr: of one that is there lifetimes and metric become others; set_ifa_lifetime.
            plan.push(match self.addresses.find(interface, ip) {
                Some(there) => Address {
                    valid_until: address.valid_until,
                    preferred_until: address.preferred_until,
                    metric: address.metric,
                    state: AddressState::Preferred,
                    ..there
                },
                None => address,
            });
        }
        for address in plan {
            // Checked just now.
            let _ = self.put_address(address, ip, cx);
        }
        Ok(Value::Null)
    }

    /// May an address be added, or (with `replace`) changed?
    fn check_address(&self, address: &Address, ip: Ipv4Addr, replace: bool) -> Result<(), TableError> {
        if ip.is_multicast() || ip.is_broadcast() || ip.is_unspecified() {
            return Err(TableError::AddressInvalid(ip));
        }
        let same = |there: Address| there.prefix_bits == address.prefix_bits && there.peer == address.peer;
        match self.addresses.find(address.interface, ip) {
            Some(there) if !replace || !same(there) => Err(TableError::AddressExists(ip)),
            _ => Ok(()),
        }
    }

    /// Adds an address, or changes what is known of the one that is there.
    pub(super) fn put_address(&mut self, address: Address, ip: Ipv4Addr, cx: &mut Context<'_>) -> Result<(), TableError> {
        let before = self.addresses.find(address.interface, ip);
        if self.addresses.renew(address) {
            self.changed();
            if before.is_some_and(|before| has_lifetime(&before)) || has_lifetime(&address) {
                self.schedule_lifetimes(cx);
            }
            if before != Some(address) {
                self.tell_address("changed", &address, cx);
            }
            return Ok(());
        }
        self.add_address(address, ip, cx)
    }

    /// Adds an address, which is `ip`, and the route to its network.
    pub(super) fn add_address(&mut self, address: Address, ip: Ipv4Addr, cx: &mut Context<'_>) -> Result<(), TableError> {
        if ip.is_multicast() || ip.is_broadcast() || ip.is_unspecified() {
            return Err(TableError::AddressInvalid(ip));
        }
        if !self.addresses.add(address) {
            return Err(TableError::AddressExists(ip));
        }
        self.facts.get(address.interface, cx);
        self.add_network_route(&address, cx);
        self.changed();
        if has_lifetime(&address) {
            self.schedule_lifetimes(cx);
        }
        self.tell_address("added", &address, cx);
        Ok(())
    }

    /// Linux fib_add_ifaddr: the route to the network of an address, unless an address of the interface made it already.
    pub(super) fn add_network_route(&mut self, address: &Address, cx: &mut Context<'_>) {
        let Some((ip, bits)) = v4(address) else { return };
        let no_network = bits == 32 && address.peer.is_none();
        let down = self.facts.peek(address.interface).is_some_and(|facts| !facts.up);
        if no_network || down || address.interface == InterfaceIndex::LOOPBACK || address.flags & NO_PREFIX_ROUTE != 0 {
            return;
        }
        let route = Route {
            destination: Ipv4Addr::from_bits(base(address, ip).to_bits() & mask(bits)).into(),
            prefix_bits: bits,
            interface: address.interface,
            source: Some(ip.into()),
            metric: address.metric,
            protocol: PROTOCOL_KERNEL,
            scope: SCOPE_LINK,
            ..Route::PLAIN
        };
        let twin = self.tables.main.of_prefix(&route).any(|other| other.interface == address.interface && other.gateway.is_none());
        if twin {
            return;
        }
        // The same network on two interfaces: the first keeps its metric, the next gets the lowest that is free above. They lie in order.
        let taken: Vec<u32> = self.tables.main.of_prefix(&route).map(|other| other.metric).collect();
        let metric = (address.metric..=u32::MAX).find(|metric| !taken.contains(metric)).unwrap_or(address.metric);
        let candidate = Route { metric, ..route };
        if self.tables.main.insert(candidate).is_ok() {
            self.tell_route("added", &candidate, cx);
        }
    }

    pub(super) fn address_delete(&mut self, value: &Value, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        let block = self.name.clone();
        let arguments = Arguments::new(&block, "address_delete", value, &["interface", "address", "prefix_bits"])?;
        let interfaces = request::interfaces(&arguments, cx)?;
        let (ip, _) = address_and_bits(&arguments)?;
        if let Some(without) = interfaces.iter().find(|interface| self.addresses.find(**interface, ip).is_none()) {
            let culprit = request::culprit(&arguments, *without, cx);
            return Err(arguments.fail(TableError::AddressAbsent(ip).to_string() + &culprit));
        }
        for interface in interfaces {
            let _ = self.delete_address(interface, ip, cx);
        }
        Ok(Value::Null)
    }

    /// Takes an address away, with the routes that need it.
    pub(super) fn delete_address(&mut self, interface: InterfaceIndex, ip: Ipv4Addr, cx: &mut Context<'_>) -> Result<(), TableError> {
        let Some(address) = self.addresses.remove(interface, ip) else { return Err(TableError::AddressAbsent(ip)) };
        let last = self.addresses.of(interface).next().is_none();
        // Linux fib_del_ifaddr and fib_sync_down_addr: routes that prefer the address go; with the last address all of the interface.
        let still_local = !self.addresses.owners(ip).is_empty();
        let goes = |route: &Route| {
            let on_it = route.interface == interface;
            (route.source == Some(ip.into()) && (on_it || !still_local)) || (last && on_it && route.interface != InterfaceIndex::NONE)
        };
        self.remove_routes(goes, cx);
        let network = base(&address, ip);
        let heir = self.addresses.of_interface(interface).find(|other| {
            let own = v4(other).map(|(own, _)| base(other, own));
            other.prefix_bits == address.prefix_bits && own.is_some_and(|own| same_prefix(own, network, address.prefix_bits))
        });
        if let Some(heir) = heir.copied() {
            self.add_network_route(&heir, cx);
        }
        self.changed();
        if has_lifetime(&address) {
            self.schedule_lifetimes(cx);
        }
        self.tell_address("deleted", &address, cx);
        Ok(())
    }

    /// Removes routes from every table.
    pub(super) fn remove_routes(&mut self, goes: impl Fn(&Route) -> bool, cx: &mut Context<'_>) {
        for route in self.tables.remove_where(goes) {
            self.tell_route("deleted", &route, cx);
        }
    }

    /// An administrator puts an interface up or down (Linux fib_disable_ip, fib_inetaddr_event): its routes go; those of its addresses come again.
    pub(super) fn interface_set(&mut self, value: &Value, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        let block = self.name.clone();
        let arguments = Arguments::new(&block, "interface_set", value, &["interface", "up"])?;
        let up = arguments.bool("up")?.ok_or_else(|| arguments.fail("up is missing"))?;
        let interfaces = request::interfaces(&arguments, cx)?;
        for interface in interfaces {
            self.facts.get(interface, cx);
            if !up {
                self.remove_routes(|route| route.interface == interface && interface != InterfaceIndex::NONE, cx);
                continue;
            }
            let addresses: Vec<Address> = self.addresses.of_interface(interface).copied().collect();
            addresses.iter().for_each(|address| self.add_network_route(address, cx));
        }
        self.changed();
        Ok(Value::Null)
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
        let refused = |error: TableError| arguments.fail(error.to_string());
        let (destination, bits) = arguments.prefix("destination")?.ok_or_else(|| arguments.fail("destination is missing"))?;
        let text = arguments.required("destination")?;
        let kind = request::route_kind(&arguments)?.unwrap_or(RouteKind::Unicast);
        let gateway = arguments.address("gateway")?;
        let onlink = arguments.bool("onlink")?.unwrap_or(false);
        let interface = self.route_interface(&arguments, kind, gateway, onlink, cx)?;
        let source = arguments.address("source")?;
        if let Some(source) = source.filter(|source| self.addresses.owners(*source).is_empty()) {
            return Err(refused(TableError::SourceNotLocal(source)));
        }
        let route = Route {
            destination: destination.into(),
            prefix_bits: bits,
            gateway: gateway.map(IpAddr::V4),
            interface,
            source: source.map(IpAddr::V4),
            metric: arguments.number("metric", 0, u32::MAX)?.unwrap_or(0),
            mtu: arguments.number("mtu", 68, 65_535)?,
            kind,
            ..Route::PLAIN
        };
        let scope = if gateway.is_some() || kind != RouteKind::Unicast { 0 } else { SCOPE_LINK };
        let route = request::complete_route(&arguments, route, scope)?;
        let adding = Adding::read(&arguments)?;
        self.tables.room(route.table)?;
        let before = self.tables.put(route, adding).map_err(|error| match error {
            Refusal::Exists => refused(TableError::RouteExists(text.to_owned(), route.metric)),
            Refusal::Invalid => refused(TableError::RouteInvalid(text.to_owned(), Ipv4Addr::from_bits(destination.to_bits() & mask(bits)))),
            Refusal::Absent => refused(TableError::RouteNotThere(text.to_owned())),
        })?;
        self.facts.get(interface, cx);
        self.changed();
        if let Some(before) = before {
            self.tell_route("replaced", &before, cx);
        }
        self.tell_route("added", &route, cx);
        Ok(Value::Null)
    }

    /// Where the route leaves: as said, or where the gateway is (Linux fib_check_nh).
    fn route_interface(
        &self,
        arguments: &Arguments<'_>,
        kind: RouteKind,
        gateway: Option<Ipv4Addr>,
        onlink: bool,
        cx: &Context<'_>,
    ) -> Result<InterfaceIndex, ControlError> {
        let refused = |error: TableError| arguments.fail(error.to_string());
        let said = arguments.value("interface").map(|value| find_interface(value, cx)).transpose().map_err(|why| arguments.fail(why))?;
        if kind != RouteKind::Unicast {
            return Ok(InterfaceIndex::NONE);
        }
        let Some(gateway) = gateway else { return said.ok_or_else(|| refused(TableError::NoInterface)) };
        if !self.addresses.owners(gateway).is_empty() {
            return Err(refused(TableError::GatewayLocal(gateway)));
        }
        if onlink {
            // "dev = dev_get_by_index(net, nh->fib_nh_oif); if (!dev) … Nexthop device required for onlink"
            return said.ok_or_else(|| refused(TableError::NoInterface));
        }
        // fib_check_nh_v4_gw: in the table that the route goes to, then as packets do.
        let table = arguments.number("table", 1, u32::MAX)?.unwrap_or(TABLE_MAIN);
        let here = self.tables.lookup_in(table, &Packet::to(gateway.to_bits(), said), &self.facts);
        let found = here.or_else(|| self.lookup(gateway, said)).filter(|route| route.gateway.is_none() && route.kind == RouteKind::Unicast);
        found.map(|route| route.interface).ok_or_else(|| refused(TableError::GatewayUnreachable(gateway)))
    }

    pub(super) fn route_delete(&mut self, value: &Value, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        const KNOWN: &[&str] = &["destination", "gateway", "interface", "source", "metric", "mtu", "kind", "table", "protocol", "scope"];
        let block = self.name.clone();
        let arguments = Arguments::new(&block, "route_delete", value, KNOWN)?;
        let scope = arguments.number("scope", 0, 255)?.map(|number| number as u8);
        let table = arguments.number("table", 1, u32::MAX)?.unwrap_or(TABLE_MAIN);
        let (destination, bits) = arguments.prefix("destination")?.ok_or_else(|| arguments.fail("destination is missing"))?;
        let [gateway, source] = [arguments.address("gateway")?, arguments.address("source")?].map(|ip| ip.map(IpAddr::V4));
        let meant = request::meant(&arguments, gateway, source, cx)?;
        let fits = |route: &Route| meant(route) && scope.is_none_or(|scope| route.scope == scope);
        let Some(route) = self.tables.remove(table, destination.to_bits(), bits, fits) else {
            return Err(arguments.fail(TableError::RouteAbsent(arguments.required("destination")?.to_owned()).to_string()));
        };
        self.changed();
        self.tell_route("deleted", &route, cx);
        Ok(Value::Null)
    }

    pub(super) fn rule_change(&mut self, procedure: &str, value: &Value, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        self.tables.rules.change(&self.name, procedure, value, cx).inspect_err(|error| {
            self.counters[count::RULES_REFUSED] += u64::from(matches!(error, ControlError::Limit { .. }));
        })?;
        self.changed();
        Ok(Value::Null)
    }

    pub(super) fn tell_address(&self, event: &str, address: &Address, cx: &mut Context<'_>) {
        cx.row_changed(Table::Addresses(Family::V4), Row::Address(address.interface, address.address));
        let mut row = self.address_row(address);
        row["event"] = event.into();
        cx.alert("address", row);
    }

    pub(super) fn tell_route(&self, event: &str, route: &Route, cx: &mut Context<'_>) {
        cx.table_changed(Table::Routes(Family::V4));
        let mut row = self.route_row(route);
        row["event"] = event.into();
        row["v6"] = route.destination.is_ipv6().into();
        row["protocol"] = route.protocol.into();
        row["scope"] = route.scope.into();
        row["onlink"] = route.onlink.into();
        cx.alert("route", row);
    }

    fn address_row(&self, address: &Address) -> Value {
        let mut row = serde_json::json!({
            "interface": address.interface.0,
            "interface_name": self.interface_name(address.interface),
            "address": address.address.to_string(),
            "prefix_bits": address.prefix_bits,
        });
        if let Some(peer) = address.peer {
            row["peer"] = peer.to_string().into();
        }
        row
    }

    fn route_row(&self, route: &Route) -> Value {
        serde_json::json!({
            "table": if route.table == TABLE_MAIN { "main".to_owned() } else { route.table.to_string() },
            "kind": route.kind,
            "destination": request::prefix_text(route.destination, route.prefix_bits),
            "gateway": route.gateway.map(|gateway| gateway.to_string()),
            "interface": route.interface.0,
            "interface_name": self.interface_name(route.interface),
            "source": route.source.map(|source| source.to_string()),
            "metric": route.metric,
            "mtu": route.mtu,
        })
    }

    fn interface_name(&self, interface: InterfaceIndex) -> Option<&str> {
        self.facts.peek(interface).map(|facts| &*facts.name)
    }

    pub(super) fn address_rows(&self) -> Vec<Value> {
        self.addresses.iter().map(|address| self.address_row(address)).collect()
    }

    /// Routes, then what follows from addresses, which Linux has in its table "local".
    pub(super) fn route_rows(&self) -> Vec<Value> {
        let mut rows: Vec<Value> = self.tables.all().iter().map(|route| self.route_row(route)).collect();
        for address in self.addresses.iter() {
            let IpAddr::V4(ip) = address.address else { continue };
            let mut local = |kind: &str, destination: String| {
                rows.push(serde_json::json!({
                    "table": "local", "kind": kind, "destination": destination, "gateway": null, "interface": address.interface.0,
                    "interface_name": self.interface_name(address.interface), "source": ip.to_string(), "metric": 0, "mtu": null,
                }));
            };
            local("local", ip.to_string());
            let highest = Ipv4Addr::from_bits(base(address, ip).to_bits() | !mask(address.prefix_bits));
            if self.addresses.broadcast_on(highest).contains(&address.interface) && address.prefix_bits < 31 {
                local("broadcast", highest.to_string());
            }
        }
        rows
    }
}

/// Does anything become of it when time passes?
pub(super) const fn has_lifetime(address: &Address) -> bool {
    address.preferred_until.is_some() || address.valid_until.is_some()
}

fn address_and_bits(arguments: &Arguments<'_>) -> Result<(Ipv4Addr, u8), ControlError> {
    let (ip, bits) = arguments.prefix("address")?.ok_or_else(|| arguments.fail("address is missing"))?;
    let bits = arguments.number("prefix_bits", 0, 32)?.map_or(bits, |bits| bits as u8);
    Ok((ip, bits))
}
