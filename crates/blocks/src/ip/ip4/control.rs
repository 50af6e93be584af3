//! Procedures: addresses and routes come and go, with the errors of Linux.

use super::addresses::{base, mask, v4};
use super::*;
use crate::arguments::Arguments;
use crate::ip::hops;
use crate::ip::request::{self, Adding, AskedHop, Meant};
use crate::ip::routes::Refusal;
use crate::ip::rules::Packet;
use std::net::Ipv4Addr;
use weft_core::table::{AddressState, NO_PREFIX_ROUTE, PROTOCOL_KERNEL, RouteKind, SCOPE_LINK, TABLE_LOCAL, TABLE_MAIN};

/// Why a change of addresses or routes was refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TableError {
    /// The interface has the address.
    #[error("the interface has {0} already")]
    AddressExists(Ipv4Addr),
    /// No host can have the address.
    #[error("{0} cannot be a host's address")]
    AddressInvalid(Ipv4Addr),
    /// The interface does not have it.
    #[error("the interface does not have {0}")]
    AddressAbsent(Ipv4Addr),
    /// Same destination and metric.
    #[error("there is a route to {0} with metric {1}")]
    RouteExists(String, u32),
    /// Nothing fits.
    #[error("no route to {0} fits")]
    RouteAbsent(String),
    /// Nothing to replace.
    #[error("there is no route to {0} to be changed")]
    RouteNotThere(String),
    /// Bits behind the prefix.
    #[error("{0} has bits set behind its prefix; {1} is the network")]
    RouteInvalid(String, Ipv4Addr),
    /// Nobody knows where the gateway is.
    #[error("the gateway {0} is on no network of an interface")]
    GatewayUnreachable(Ipv4Addr),
    /// The gateway is this node.
    #[error("the gateway {0} is this node's own address")]
    GatewayLocal(Ipv4Addr),
    /// The gateway is everybody on a network.
    #[error("the gateway {0} is a network's broadcast address")]
    GatewayBroadcast(Ipv4Addr),
    /// Neither says where to.
    #[error("a route needs an interface or a gateway")]
    NoInterface,
    /// The preferred source is not ours.
    #[error("the source {0} is none of this node's addresses")]
    SourceNotLocal(Ipv4Addr),
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
            | TableError::RouteInvalid(..)
            | TableError::GatewayLocal(_)
            | TableError::GatewayBroadcast(_)
            | TableError::SourceNotLocal(_) => ErrorKind::Invalid,
            TableError::AddressAbsent(_) => ErrorKind::AddressNotAvailable,
            TableError::GatewayUnreachable(_) => ErrorKind::NetworkUnreachable,
        }
    }
}

impl From<TableError> for Refused {
    fn from(error: TableError) -> Refused {
        Refused::new(error.kind(), error.to_string())
    }
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
            let refused = |error: TableError| arguments.fail(Refused::from(error).and(&request::culprit(&arguments, interface, cx)));
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
        if self.facts.get(address.interface, cx).is_none_or(|facts| facts.up) {
            // fib_inetaddr_event: "fib_sync_up(dev, RTNH_F_DEAD);"
            self.tables.mark(address.interface, false);
        }
        // __inet_insert_ifa: "rtmsg_ifa(RTM_NEWADDR, ifa, …)", then its notifiers, which make the routes.
        self.tell_address("added", &address, cx);
        self.add_network_route(&address, cx);
        self.changed();
        if has_lifetime(&address) {
            self.schedule_lifetimes(cx);
        }
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
        let twin =
            self.tables.main.of_prefix(&route).any(|other| other.route.interface == address.interface && other.route.gateway.is_none());
        if twin {
            return;
        }
        // The same network on two interfaces: the first keeps its metric, the next gets the lowest that is free above. They lie in order.
        let taken: Vec<u32> = self.tables.main.of_prefix(&route).map(|other| other.route.metric).collect();
        let metric = (address.metric..=u32::MAX).find(|metric| !taken.contains(metric)).unwrap_or(address.metric);
        let candidate = Route { metric, ..route };
        if self.tables.main.insert(candidate).is_ok() {
            self.tell_route("added", &candidate.into(), cx);
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
        for interface in interfaces {
            let _ = self.delete_address(interface, ip, cx);
        }
        Ok(Value::Null)
    }

    /// Takes an address away, with the routes that need it. With a network's first address all others of it go, too, unless `promote_secondaries` makes
    /// the next one the first.
    pub(super) fn delete_address(&mut self, interface: InterfaceIndex, ip: Ipv4Addr, cx: &mut Context<'_>) -> Result<(), TableError> {
        let Some(address) = self.addresses.find(interface, ip) else { return Err(TableError::AddressAbsent(ip)) };
        if !self.promote_secondaries && !self.addresses.is_secondary(&address) {
            // __inet_del_ifa: "Deleting primary ifaddr forces deletion all secondaries unless alias promotion is set": they go before it.
            let others: Vec<Ipv4Addr> = self.addresses.of_network(&address).skip(1).filter_map(v4).map(|(ip, _)| ip).collect();
            for other in others {
                self.delete_one(interface, other, cx)?;
            }
        }
        self.delete_one(interface, ip, cx)
    }

    fn delete_one(&mut self, interface: InterfaceIndex, ip: Ipv4Addr, cx: &mut Context<'_>) -> Result<(), TableError> {
        let Some(address) = self.addresses.find(interface, ip) else { return Err(TableError::AddressAbsent(ip)) };
        let secondary = self.addresses.is_secondary(&address);
        self.addresses.remove(interface, ip);
        // "rtmsg_ifa(RTM_DELADDR, ifa1, …); blocking_notifier_call_chain(&inetaddr_chain, NETDEV_DOWN, ifa1);" and, of the one that is promoted,
        // "rtmsg_ifa(RTM_NEWADDR, promote, …); blocking_notifier_call_chain(&inetaddr_chain, NETDEV_UP, promote);".
        self.tell_gone(&address, secondary, cx);
        let last = self.addresses.of(interface).next().is_none();
        // Linux fib_del_ifaddr and fib_sync_down_addr: routes that prefer the address go; with the last address all of the interface.
        let still_local = !self.addresses.owners(ip).is_empty();
        if last {
            self.tables.mark(interface, true);
        }
        let goes = |row: &RouteRow| {
            let on_it = row.route.interface == interface;
            (row.route.source == Some(ip.into()) && (on_it || !still_local)) || (last && hops::is_lost(row, interface))
        };
        self.remove_routes(goes, cx);
        let heir = self.addresses.of_network(&address).next().copied().filter(|_| !secondary);
        if let Some(heir) = heir {
            self.tell_address("changed", &heir, cx);
            self.add_network_route(&heir, cx);
        }
        self.changed();
        if has_lifetime(&address) {
            self.schedule_lifetimes(cx);
        }
        Ok(())
    }

    /// Removes routes from every table.
    pub(super) fn remove_routes(&mut self, goes: impl Fn(&RouteRow) -> bool, cx: &mut Context<'_>) {
        for route in self.tables.remove_where(goes) {
            self.route_changed(&route, false);
            self.tell_route("deleted", &route, cx);
        }
    }

    /// The same of those that go with their interface (Linux fib_table_flush): no listener of netlink is told.
    pub(super) fn flush_routes(&mut self, goes: impl Fn(&RouteRow) -> bool, cx: &mut Context<'_>) {
        for route in self.tables.remove_where(goes) {
            self.route_changed(&route, false);
            cx.table_changed(Table::Routes(Family::V4));
            let mut alert = hops::alert("deleted", &route, &self.facts);
            alert["flushed"] = true.into();
            cx.alert("route", alert);
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
            self.tables.mark(interface, !up);
            if !up {
                // fib_sync_down_dev: "nexthop_nh->fib_nh_scope != scope", of RT_SCOPE_NOWHERE, which is that of local routes: they stay.
                self.flush_routes(|row| row.route.kind != RouteKind::Local && hops::is_lost(row, interface), cx);
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
        let refused = |error: TableError| arguments.fail(error);
        let (destination, bits) = arguments.prefix("destination")?.ok_or_else(|| arguments.fail("destination is missing"))?;
        let text = arguments.required("destination")?;
        let kind = request::route_kind(&arguments)?.unwrap_or(RouteKind::Unicast);
        let adding = Adding::read(&arguments)?;
        let (asked, listed) = request::next_hops::<u32>(&arguments, kind, cx)?;
        let table = arguments.number("table", 1, u32::MAX)?.unwrap_or(TABLE_MAIN);
        asked.iter().try_for_each(|hop| request::local_route(&arguments, kind, table, hop))?;
        self.tables.begin(table);
        // fib_check_nh_v4_gw: FIB_LOOKUP_IGNORE_LINKSTATE
        let ignores = std::mem::take(&mut self.facts.ignores_linkdown);
        let ways: Result<Vec<InterfaceIndex>, TableError> = asked.iter().map(|hop| self.route_interface(hop, kind, table)).collect();
        self.facts.ignores_linkdown = ignores;
        let ways = ways.map_err(refused)?;
        let source = arguments.address("source")?;
        if let Some(source) = source.filter(|source| self.addresses.owners(*source).is_empty()) {
            return Err(refused(TableError::SourceNotLocal(source)));
        }
        let route = Route {
            destination: destination.into(),
            prefix_bits: bits,
            source: source.map(IpAddr::V4),
            metric: arguments.number("metric", 0, u32::MAX)?.unwrap_or(0),
            mtu: arguments.number("mtu", 68, 65_535)?,
            kind,
            ..Route::PLAIN
        };
        let on_link = !listed && asked.iter().all(|hop| hop.gateway.is_none()) && kind == RouteKind::Unicast;
        let route = request::complete_route(&arguments, route, if on_link { SCOPE_LINK } else { 0 })?;
        let hops = asked.iter().zip(&ways).map(|(hop, interface)| hop.of(route, *interface)).collect();
        let row = RouteRow::with(hops).ok_or_else(|| refused(TableError::NoInterface))?;
        self.tables.room(route.table, asked.len())?;
        let before = self.tables.put(row.clone(), adding).map_err(|error| match error {
            Refusal::Exists | Refusal::TooManyHops => refused(TableError::RouteExists(text.to_owned(), route.metric)),
            Refusal::Invalid => refused(TableError::RouteInvalid(text.to_owned(), Ipv4Addr::from_bits(destination.to_bits() & mask(bits)))),
            Refusal::Absent => refused(TableError::RouteNotThere(text.to_owned())),
        })?;
        for interface in ways {
            self.facts.get(interface, cx);
        }
        self.route_changed(&row, true);
        self.changed();
        if let Some(before) = before {
            self.route_changed(&before, false);
            self.tell_route("replaced", &before, cx);
        }
        self.tell_route("added", &row, cx);
        Ok(Value::Null)
    }

    /// Where a next hop leaves: as said, or where the gateway is (Linux fib_check_nh).
    fn route_interface(&self, hop: &AskedHop, kind: RouteKind, table: u32) -> Result<InterfaceIndex, TableError> {
        if !matches!(kind, RouteKind::Unicast | RouteKind::Local) {
            return Ok(InterfaceIndex::NONE);
        }
        let Some(IpAddr::V4(gateway)) = hop.gateway else { return hop.interface.ok_or(TableError::NoInterface) };
        if !self.addresses.owners(gateway).is_empty() {
            return Err(TableError::GatewayLocal(gateway));
        }
        // fib_check_nh_v4_gw: "if (addr_type != RTN_UNICAST) … Nexthop has invalid gateway"
        if gateway.is_broadcast() || !self.addresses.broadcast_on(gateway).is_empty() {
            return Err(TableError::GatewayBroadcast(gateway));
        }
        if hop.onlink {
            // "dev = dev_get_by_index(net, nh->fib_nh_oif); if (!dev) … Nexthop device required for onlink"
            return hop.interface.ok_or(TableError::NoInterface);
        }
        // fib_check_nh_v4_gw: in the table that the route goes to, then as packets do.
        let here = self.tables.lookup_in(table, &Packet::to(gateway.to_bits(), hop.interface), &self.facts);
        let found = here.or_else(|| self.lookup(gateway, hop.interface));
        let found = found.filter(|route| route.gateway.is_none() && route.kind == RouteKind::Unicast);
        found.map(|route| route.interface).ok_or(TableError::GatewayUnreachable(gateway))
    }

    pub(super) fn route_delete(&mut self, value: &Value, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        let block = self.name.clone();
        let arguments = Arguments::new(&block, "route_delete", value, &request::OF_DELETE)?;
        let scope = arguments.number("scope", 0, 255)?.map(|number| number as u8);
        let table = arguments.number("table", 1, u32::MAX)?.unwrap_or(TABLE_MAIN);
        let (destination, bits) = arguments.prefix("destination")?.ok_or_else(|| arguments.fail("destination is missing"))?;
        let meant = Meant::read::<u32>(&arguments, arguments.address("source")?.map(IpAddr::V4), cx)?;
        let fits = |row: &RouteRow| meant.fits_whole(row) && scope.is_none_or(|scope| row.route.scope == scope);
        let Some(row) = self.tables.remove(table, destination.to_bits(), bits, fits) else {
            return Err(arguments.fail(TableError::RouteAbsent(arguments.required("destination")?.to_owned())));
        };
        self.route_changed(&row, false);
        self.changed();
        self.tell_route("deleted", &row, cx);
        Ok(Value::Null)
    }

    /// A route is there, or gone: one of kind local makes a network the node's.
    fn route_changed(&mut self, row: &RouteRow, there: bool) {
        if let (RouteKind::Local, TABLE_LOCAL, IpAddr::V4(network)) = (row.route.kind, row.route.table, row.route.destination) {
            self.addresses.route(row.route.prefix_bits, network.to_bits(), there);
        }
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

    /// The same of an address that is gone. `secondary`: another had its network.
    pub(super) fn tell_gone(&self, address: &Address, secondary: bool, cx: &mut Context<'_>) {
        cx.row_changed(Table::Addresses(Family::V4), Row::Address(address.interface, address.address));
        let mut row = self.address_row(address);
        (row["event"], row["row"], row["secondary"]) = ("deleted".into(), serde_json::json!(address), secondary.into());
        cx.alert("address", row);
    }

    pub(super) fn tell_route(&self, event: &str, row: &RouteRow, cx: &mut Context<'_>) {
        cx.table_changed(Table::Routes(Family::V4));
        cx.alert("route", hops::alert(event, row, &self.facts));
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

    fn interface_name(&self, interface: InterfaceIndex) -> Option<&str> {
        self.facts.name(interface)
    }

    pub(super) fn address_rows(&self) -> Vec<Value> {
        self.addresses.iter().map(|address| self.address_row(address)).collect()
    }

    /// Routes, then what follows from addresses, which Linux has in its table "local".
    pub(super) fn route_rows(&self) -> Vec<Value> {
        let mut rows: Vec<Value> = self.tables.all().iter().map(|row| hops::row_of(row, &self.facts)).collect();
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
