//! Procedures: addresses and routes come and go, with the errors of Linux (the errno's name begins the text).

use super::addresses::{mask, same_prefix};
use super::routes::InsertError;
use super::*;
use crate::arguments::Arguments;
use crate::facts::find_interface;
use std::net::Ipv4Addr;
use weft_core::table::RouteKind;

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
        let arguments = Arguments::new(&block, "address_add", value, &["interface", "address", "prefix_bits"])?;
        let (interface, ip, bits) = interface_and_address(&arguments, cx)?;
        let refused = |error: TableError| arguments.fail(error.to_string());
        if self.addresses.len() >= ADDRESSES_MAX {
            return Err(ControlError::Limit { what: "addresses of one node".to_owned(), max: ADDRESSES_MAX as u64 });
        }
        self.add_address(Address::permanent(interface, ip.into(), bits), ip, cx).map_err(refused)?;
        Ok(Value::Null)
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
        self.add_network_route(address.interface, ip, address.prefix_bits, cx);
        self.changed();
        self.tell_address("added", &address, cx);
        Ok(())
    }

    /// Linux fib_add_ifaddr: the route to the network of an address, unless an address of the interface made it already.
    fn add_network_route(&mut self, interface: InterfaceIndex, ip: Ipv4Addr, bits: u8, cx: &mut Context<'_>) {
        if bits == 32 || interface == InterfaceIndex::LOOPBACK {
            return;
        }
        let route = Route {
            destination: Ipv4Addr::from_bits(ip.to_bits() & mask(bits)).into(),
            prefix_bits: bits,
            gateway: None,
            interface,
            source: Some(ip.into()),
            metric: 0,
            mtu: None,
            kind: RouteKind::Unicast,
        };
        let twin = self.routes.of_prefix(&route).any(|other| other.interface == interface && other.gateway.is_none());
        if twin {
            return;
        }
        // The same network on two interfaces: the first keeps metric 0, the next gets the lowest that is free. They lie in order.
        let metric = self.routes.of_prefix(&route).zip(0..).take_while(|(other, metric)| other.metric == *metric).count() as u32;
        let candidate = Route { metric, ..route };
        if self.routes.insert(candidate).is_ok() {
            self.tell_route("added", &candidate, cx);
        }
    }

    pub(super) fn address_delete(&mut self, value: &Value, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        let block = self.name.clone();
        let arguments = Arguments::new(&block, "address_delete", value, &["interface", "address", "prefix_bits"])?;
        let (interface, ip, _) = interface_and_address(&arguments, cx)?;
        self.delete_address(interface, ip, cx).map_err(|error| arguments.fail(error.to_string()))?;
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
        for route in self.routes.remove_where(goes) {
            self.tell_route("deleted", &route, cx);
        }
        let heir = self.addresses.of(interface).find(|(other, bits)| *bits == address.prefix_bits && same_prefix(*other, ip, *bits));
        if let Some((heir, bits)) = heir {
            self.add_network_route(interface, heir, bits, cx);
        }
        self.changed();
        self.tell_address("deleted", &address, cx);
        Ok(())
    }

    pub(super) fn route_add(&mut self, value: &Value, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        const KNOWN: &[&str] = &["destination", "gateway", "interface", "source", "metric", "mtu", "kind"];
        let block = self.name.clone();
        let arguments = Arguments::new(&block, "route_add", value, KNOWN)?;
        let refused = |error: TableError| arguments.fail(error.to_string());
        let (destination, bits) = arguments.prefix("destination")?.ok_or_else(|| arguments.fail("destination is missing"))?;
        let text = arguments.required("destination")?;
        let kind = route_kind(&arguments)?.unwrap_or(RouteKind::Unicast);
        let gateway = arguments.address("gateway")?;
        let interface = self.route_interface(&arguments, kind, gateway, cx)?;
        let source = arguments.address("source")?;
        if let Some(source) = source.filter(|source| self.addresses.owners(*source).is_empty()) {
            return Err(refused(TableError::SourceNotLocal(source)));
        }
        if self.routes.len() >= ROUTES_MAX {
            return Err(ControlError::Limit { what: "routes of one node".to_owned(), max: ROUTES_MAX as u64 });
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
        };
        self.routes.insert(route).map_err(|error| match error {
            InsertError::Exists => refused(TableError::RouteExists(text.to_owned(), route.metric)),
            InsertError::Invalid => {
                refused(TableError::RouteInvalid(text.to_owned(), Ipv4Addr::from_bits(destination.to_bits() & mask(bits))))
            }
        })?;
        self.facts.get(interface, cx);
        self.changed();
        self.tell_route("added", &route, cx);
        Ok(Value::Null)
    }

    /// Where the route leaves: as said, or where the gateway is (Linux fib_check_nh).
    fn route_interface(
        &self,
        arguments: &Arguments<'_>,
        kind: RouteKind,
        gateway: Option<Ipv4Addr>,
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
        let found = self.lookup(gateway, said).filter(|route| route.gateway.is_none() && route.kind == RouteKind::Unicast);
        found.map(|route| route.interface).ok_or_else(|| refused(TableError::GatewayUnreachable(gateway)))
    }

    pub(super) fn route_delete(&mut self, value: &Value, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        const KNOWN: &[&str] = &["destination", "gateway", "interface", "source", "metric", "mtu", "kind"];
        let block = self.name.clone();
        let arguments = Arguments::new(&block, "route_delete", value, KNOWN)?;
        let (destination, bits) = arguments.prefix("destination")?.ok_or_else(|| arguments.fail("destination is missing"))?;
        let gateway = arguments.address("gateway")?.map(IpAddr::V4);
        let interface =
            arguments.value("interface").map(|value| find_interface(value, cx)).transpose().map_err(|why| arguments.fail(why))?;
        let metric = arguments.number("metric", 0, u32::MAX)?;
        let kind = route_kind(&arguments)?;
        let fits = |route: &Route| {
            (gateway.is_none() || route.gateway == gateway)
                && interface.is_none_or(|interface| route.interface == interface)
                && metric.is_none_or(|metric| route.metric == metric)
                && kind.is_none_or(|kind| route.kind == kind)
        };
        let Some(route) = self.routes.remove(destination, bits, fits) else {
            return Err(arguments.fail(TableError::RouteAbsent(arguments.required("destination")?.to_owned()).to_string()));
        };
        self.changed();
        self.tell_route("deleted", &route, cx);
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
        cx.alert("route", row);
    }

    fn address_row(&self, address: &Address) -> Value {
        serde_json::json!({
            "interface": address.interface.0,
            "interface_name": self.interface_name(address.interface),
            "address": address.address.to_string(),
            "prefix_bits": address.prefix_bits,
        })
    }

    fn route_row(&self, route: &Route) -> Value {
        let destination = match route.prefix_bits {
            0 => "default".to_owned(),
            32 => route.destination.to_string(),
            bits => format!("{}/{bits}", route.destination),
        };
        serde_json::json!({
            "table": "main",
            "kind": route.kind,
            "destination": destination,
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
        let mut rows: Vec<Value> = self.routes.sorted().iter().map(|route| self.route_row(route)).collect();
        for address in self.addresses.iter() {
            let IpAddr::V4(ip) = address.address else { continue };
            let mut local = |kind: &str, destination: String| {
                rows.push(serde_json::json!({
                    "table": "local", "kind": kind, "destination": destination, "gateway": null, "interface": address.interface.0,
                    "interface_name": self.interface_name(address.interface), "source": ip.to_string(), "metric": 0, "mtu": null,
                }));
            };
            local("local", ip.to_string());
            let highest = Ipv4Addr::from_bits(ip.to_bits() | !mask(address.prefix_bits));
            if self.addresses.broadcast_on(highest).contains(&address.interface) && address.prefix_bits < 31 {
                local("broadcast", highest.to_string());
            }
        }
        rows
    }
}

fn interface_and_address(arguments: &Arguments<'_>, cx: &Context<'_>) -> Result<(InterfaceIndex, Ipv4Addr, u8), ControlError> {
    let interface = arguments.value("interface").ok_or_else(|| arguments.fail("interface is missing"))?;
    let interface = find_interface(interface, cx).map_err(|why| arguments.fail(why))?;
    let (ip, bits) = arguments.prefix("address")?.ok_or_else(|| arguments.fail("address is missing"))?;
    let bits = arguments.number("prefix_bits", 0, 32)?.map_or(bits, |bits| bits as u8);
    Ok((interface, ip, bits))
}

fn route_kind(arguments: &Arguments<'_>) -> Result<Option<RouteKind>, ControlError> {
    Ok(Some(match arguments.text("kind")? {
        None => return Ok(None),
        Some("unicast") => RouteKind::Unicast,
        Some("blackhole") => RouteKind::Blackhole,
        Some("unreachable") => RouteKind::Unreachable,
        Some("prohibit") => RouteKind::Prohibit,
        Some(other) => return Err(arguments.fail(format!("kind: '{other}' is none of: unicast, blackhole, unreachable, prohibit"))),
    }))
}
