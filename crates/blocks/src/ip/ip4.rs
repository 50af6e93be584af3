//! IPv4: header on and off, checks, addresses, routes, local delivery, forwarding, fragments, path MTU.
//!
//! Received packets come in through `lower` (from the link, or the loopback), are checked in the order of RFC 1122 §3.2.1, put together if they
//! are fragments, and delivered to `tcp`, `udp`, `icmp`, `igmp` or `other` by protocol, with a copy to `raw` when somebody wants their protocol
//! so. Packets to send come in through `upper` with addresses in the metadata; they are routed, given a header and leave through `lower` with
//! `meta.next_hop`, in fragments if need be, or through `loopback` when they are for this node. `packet` takes packets that have their header
//! already (IP_HDRINCL). What cannot be delivered or sent leaves through `error` when its sender is to hear of it, beginning with its IP header.
//!
//! With `forward`, packets for others are sent on: one hop less, options filled in, ICMP errors to their senders. Large frames (GSO) and unfinished
//! checksums pass as they are and are cut and completed by the backend that needs it.
//!
//! It owns the tables of IPv4 addresses and routes and answers `Query::Route` and `Query::AddressKind`. Local and broadcast destinations
//! follow from the addresses; adding an address adds the route to its network. What routers tell of single destinations (path MTU, redirects)
//! is kept beside the routes, bounded and for a while.
//!
//! It refuses: packets for others unless it forwards (not-for-us), source routes, sources that no host may have (martian-source), groups that
//! nobody here is in, and to look at another table before its own addresses.
//!
//! Standards: RFC 791, RFC 815, RFC 1122 §3.2.1 and §3.3, RFC 1191, RFC 1812 §5, RFC 3021 (31-bit prefixes), RFC 3168 §5.3, RFC 6864
//! (identification).
//! Parts: `kind` (declarations), `addresses`, `routes` (longest-prefix match), `hops` (of several, which), `rules` (in which table), `resolve` (which way), `paths` (what routers told), `ingress`,
//! `fragments`, `options`, `forward`, `egress`, `control` (procedures), `change` (what other blocks ask for).

mod addresses;
mod change;
mod control;
mod egress;
mod forward;
mod fragments;
mod identification;
mod ingress;
mod kind;
mod options;
mod paths;
mod resolve;

use crate::facts::FactsCache;
use crate::ip::hops::Multipath;
use crate::ip::reassembly::Reassembly;
use crate::ip::redirects::Redirects;
use crate::ip::routes::Tables;
use crate::ip::rules::Rules;
use addresses::Addresses;
use identification::Identification;
pub use kind::KIND;
use kind::count;
pub use paths::PATHS_MAX;
use paths::Paths;
use resolve::RouteCache;
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::net::{IpAddr, Ipv4Addr};
use weft_core::state::{Damage, Reader};
use weft_core::table::{Address, Family, Route, RouteRow};
use weft_core::*;

const IN_LOWER: InPort = InPort(0);
const IN_PACKET: InPort = InPort(2);
const OUT_LOWER: OutPort = OutPort(0);
const OUT_LOOPBACK: OutPort = OutPort(1);
const OUT_TCP: OutPort = OutPort(2);
const OUT_UDP: OutPort = OutPort(3);
const OUT_ICMP: OutPort = OutPort(4);
const OUT_IGMP: OutPort = OutPort(5);
const OUT_OTHER: OutPort = OutPort(6);
const OUT_RAW: OutPort = OutPort(7);
const OUT_ERROR: OutPort = OutPort(8);
const OUTPUTS: usize = 9;

/// Fragments that wait too long.
const TIMER_REASSEMBLY: u64 = 0;
/// What routers told and is to be forgotten.
const TIMER_PATHS: u64 = 1;
/// Addresses that are deprecated or removed.
const TIMER_LIFETIMES: u64 = 2;

/// Most addresses of a node.
pub const ADDRESSES_MAX: usize = 16_384;
/// Version of the state that knew neither rules nor whom redirects were sent to.
const STATE_WITHOUT_RULES: u32 = 4;
/// Version of the state whose routes had one next hop each.
const STATE_WITHOUT_HOPS: u32 = 5;
pub use crate::ip::hops::HOPS_MAX;
pub use crate::ip::routes::{ROUTES_MAX, TABLES_MAX};
pub use crate::ip::rules::RULES_MAX;

/// How to make one.
pub const ROW: BlockRow = BlockRow {
    kind: &KIND,
    make: |config| {
        check_names(&config.name, "forward_from", &config.value("forward_from"))?;
        Ok(Box::new(Ip4::new(config)))
    },
};

/// An address that says something.
fn known(source: Option<IpAddr>) -> Option<Ipv4Addr> {
    match source {
        Some(IpAddr::V4(source)) if !source.is_unspecified() => Some(source),
        _ => None,
    }
}

/// The words of a list.
fn names(list: &Value) -> Vec<Box<str>> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(Into::into).collect()
}

/// `forward_from` is a list of words.
fn check_names(block: &str, name: &str, value: &Value) -> Result<(), ControlError> {
    match value.as_array().filter(|_| name == "forward_from").and_then(|list| list.iter().find(|entry| !entry.is_string())) {
        None => Ok(()),
        Some(other) => Err(ControlError::BadValue {
            block: block.to_owned(),
            parameter: name.to_owned(),
            why: format!("{other} is no interface's name: write it as [\"eth0\"]"),
        }),
    }
}

/// The block.
#[derive(Debug)]
pub struct Ip4 {
    name: String,
    default_ttl: u8,
    addresses: Addresses,
    tables: Tables<u32>,
    facts: FactsCache,
    /// The graph has an owner of interfaces; without one, all interfaces count as up with an MTU of 1500.
    has_interfaces: bool,
    /// Changes with every change of addresses, routes or interfaces.
    generation: u64,
    cache: RouteCache,
    accepted: ingress::Accepted,
    identification: Identification,
    reassembly: Reassembly,
    /// For when its timer is set.
    reassembly_timer: Option<Instant>,
    paths: Paths,
    path_mtu_min: u32,
    path_mtu_expires: Duration,
    redirect_expires: Duration,
    accept_redirects: bool,
    send_redirects: bool,
    redirects: Redirects,
    promote_secondaries: bool,
    rp_filter: u64,
    forward: bool,
    /// Interfaces whose packets are sent on; none: all.
    forward_from: Vec<Box<str>>,
    forward_cache: RouteCache,
    /// Nanoseconds since 1970; 0: not known.
    boot_time: u64,
    /// Protocols of which somebody wants every packet.
    raw_wanted: Box<[bool; 256]>,
    bound: [bool; OUTPUTS],
    counters: [u64; count::ALL],
    /// Its predecessor's timer is to be set.
    resumed: bool,
}

#[derive(Serialize, Deserialize)]
struct Exported<R> {
    addresses: Vec<Address>,
    routes: Vec<R>,
    /// Protocols that are wanted raw.
    wanted_raw: Vec<u8>,
}

/// What state is read into before any of it is believed.
type Parts = (Exported<RouteRow>, Tables<u32>, Identification, Paths, Reassembly, Redirects);

impl Ip4 {
    /// A block with 127.0.0.1/8 on `lo` and no routes.
    pub fn new(config: &mut Config) -> Ip4 {
        let mut block = Ip4::bare(config);
        // Behind all that draws from the node's randomness: what blocks drew before there were next hops stays what it was.
        block.tables.multipath = Multipath::new(config);
        block.facts.ignores_linkdown = config.bool("ignore_linkdown");
        block
    }

    fn bare(config: &mut Config) -> Ip4 {
        let limits = Ip4::reassembly_limits(
            config.u64("fragment_memory_bytes"),
            config.duration("fragment_timeout"),
            config.u64("fragment_distance_max"),
        );
        Ip4 {
            name: config.name.clone(),
            default_ttl: config.u64("default_ttl") as u8,
            addresses: Addresses::new(KeyedHasher::new(&mut config.rng)),
            tables: Tables::default(),
            facts: FactsCache::default(),
            has_interfaces: false,
            generation: 1,
            cache: RouteCache::new(&mut config.rng),
            accepted: ingress::Accepted::default(),
            identification: Identification::new(&mut config.rng),
            reassembly: Reassembly::new(limits, KeyedHasher::new(&mut config.rng)),
            reassembly_timer: None,
            paths: Paths::new(KeyedHasher::new(&mut config.rng)),
            path_mtu_min: config.u64("path_mtu_min") as u32,
            path_mtu_expires: config.duration("path_mtu_expires"),
            redirect_expires: config.duration("redirect_expires"),
            accept_redirects: config.bool("accept_redirects"),
            send_redirects: config.bool("send_redirects"),
            redirects: Redirects::new(KeyedHasher::new(&mut config.rng)),
            promote_secondaries: config.bool("promote_secondaries"),
            rp_filter: config.u64("rp_filter"),
            forward: config.bool("forward"),
            forward_from: names(&config.value("forward_from")),
            forward_cache: RouteCache::new(&mut config.rng),
            boot_time: config.u64("boot_time"),
            raw_wanted: Box::new([false; 256]),
            bound: [false; OUTPUTS],
            counters: [0; count::ALL],
            resumed: false,
        }
    }

    fn is_bound(&self, port: OutPort) -> bool {
        self.bound[usize::from(port.0)]
    }

    fn read(&self, from: &mut Reader<'_>) -> Result<Parts, Damage> {
        let mut read: Exported<RouteRow> = match from.version() <= STATE_WITHOUT_HOPS {
            false => from.serialised()?,
            true => {
                let Exported { addresses, routes, wanted_raw } = from.serialised::<Exported<Route>>()?;
                Exported { addresses, routes: routes.into_iter().map(RouteRow::from).collect(), wanted_raw }
            }
        };
        if read.addresses.len() > ADDRESSES_MAX {
            return Err(Damage::new("more addresses than a node may have"));
        }
        let mut tables = Tables::with(std::mem::take(&mut read.routes), Rules::read(from, STATE_WITHOUT_RULES)?)?;
        tables.multipath = self.tables.multipath.read(from, STATE_WITHOUT_HOPS)?;
        let (identification, paths) = (from.take()?, self.paths.read(from)?);
        let reassembly = self.reassembly.read(from, fragments::could_wait)?;
        Ok((read, tables, identification, paths, reassembly, self.redirects.read(from, STATE_WITHOUT_RULES)?))
    }

    /// Everything cached about addresses, routes and interfaces is stale from here on.
    fn changed(&mut self) {
        self.generation += 1;
    }

    /// Sends a packet, which begins with its IP header, to whoever tells its sender; drops it when there is nobody.
    fn complain(&self, frame: &mut Frame, kind: IcmpErrorKind, from: IpAddr, reason: Reason) -> Verdict {
        if !self.is_bound(OUT_ERROR) {
            return Verdict::Drop(reason);
        }
        frame.meta_mut().error = Some(IcmpError { kind, from });
        Verdict::Forward(OUT_ERROR)
    }
}

impl Block for Ip4 {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn process(&mut self, port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        match port {
            IN_LOWER => vector.each(|frame| self.receive(frame, cx)),
            IN_PACKET => vector.each(|frame| self.send_packet(frame, cx)),
            _ => vector.each(|frame| self.send(frame, cx)),
        }
    }

    fn started(&mut self, cx: &mut Context<'_>) {
        self.schedule_lifetimes(cx);
        for (port, bound) in self.bound.iter_mut().enumerate() {
            *bound = cx.is_bound(OutPort(port as u8));
        }
        self.interfaces_changed(cx);
        if std::mem::take(&mut self.resumed) {
            self.paths.resume(cx);
            self.reassembly_changed(cx);
        }
    }

    fn table_changed(&mut self, table: Table, cx: &mut Context<'_>) {
        if table == Table::Interfaces {
            self.interfaces_changed(cx);
        }
    }

    fn row_changed(&mut self, _table: Table, row: Row, cx: &mut Context<'_>) {
        if let Row::Interface(interface) = row {
            self.interface_changed(interface, cx);
        }
    }

    fn timer(&mut self, token: u64, cx: &mut Context<'_>) {
        match token {
            TIMER_REASSEMBLY => self.expire_fragments(cx),
            TIMER_LIFETIMES => self.lifetimes_passed(cx),
            _ => self.expire_paths(cx),
        }
    }

    fn change(&mut self, table: Table, change: Change, cx: &mut Context<'_>) {
        self.apply(table, change, cx);
    }

    fn query(&self, query: &Query, _now: Instant) -> Answer {
        match query {
            Query::Route { source: Some(IpAddr::V6(_)), .. } => Answer::None,
            Query::Route { destination: IpAddr::V4(destination), source, interface, traffic } => {
                let (source, interface) = (known(*source), interface.filter(|interface| *interface != InterfaceIndex::NONE));
                let way = match traffic.input {
                    InterfaceIndex::NONE => self.resolve(*destination, source, interface, *traffic),
                    _ => self.resolve_received(*destination, source, *traffic),
                };
                way.map_or(Answer::None, Answer::Route)
            }
            Query::RouteFollowed { destination: IpAddr::V4(destination), source, interface, traffic } => {
                let interface = interface.filter(|interface| *interface != InterfaceIndex::NONE);
                Answer::Routes(
                    self.followed(*destination, known(*source), interface, *traffic).map(|route| route.row()).into_iter().collect(),
                )
            }
            Query::Rules => Answer::Rules(self.tables.rules.rows()),
            Query::Forwards(interface) => Answer::Forwards(self.forwards(*interface)),
            Query::AddressKind(IpAddr::V4(address)) => Answer::AddressKind(self.addresses.kind(*address)),
            Query::Address(interface, IpAddr::V4(ip)) => Answer::Addresses(self.addresses.find(*interface, *ip).into_iter().collect()),
            Query::AddressesOf(interface) => Answer::Addresses(self.addresses.of_interface(*interface).copied().collect()),
            Query::Addresses => Answer::Addresses(self.addresses.iter().copied().collect()),
            Query::Routes => Answer::Routes(self.tables.all()),
            Query::HasTable(table) => Answer::HasTable(self.tables.has(*table)),
            Query::IgnoresLinkdown => Answer::Wanted(self.facts.ignores_linkdown),
            Query::List(Table::Addresses(Family::V4)) => Answer::List(self.address_rows()),
            Query::List(Table::Routes(Family::V4)) => Answer::List(self.route_rows()),
            _ => Answer::None,
        }
    }

    fn get(&self, name: &str, _now: Instant) -> Option<Value> {
        let nanos = |span: Duration| Value::from(span.as_nanos() as u64);
        let limits = self.reassembly.limits();
        Some(match name {
            "default_ttl" => self.default_ttl.into(),
            "forward" => self.forward.into(),
            "forward_from" => self.forward_from.iter().map(|name| Value::from(&**name)).collect(),
            "multipath_hash_policy" => u64::from(self.tables.multipath.by_ports).into(),
            "accept_redirects" => self.accept_redirects.into(),
            "send_redirects" => self.send_redirects.into(),
            "promote_secondaries" => self.promote_secondaries.into(),
            "ignore_linkdown" => self.facts.ignores_linkdown.into(),
            "rp_filter" => self.rp_filter.into(),
            "fragment_memory_bytes" => limits.memory_bytes_max.into(),
            "fragment_timeout" => nanos(limits.timeout),
            "fragment_distance_max" => limits.distance_max.unwrap_or(0).into(),
            "path_mtu_min" => self.path_mtu_min.into(),
            "path_mtu_expires" => nanos(self.path_mtu_expires),
            "redirect_expires" => nanos(self.redirect_expires),
            "boot_time" => self.boot_time.into(),
            "fragments_memory_used_bytes" => self.reassembly.memory_bytes().into(),
            _ => return None,
        })
    }

    fn check(&self, name: &str, value: &Value) -> Result<(), ControlError> {
        check_names(&self.name, name, value)
    }

    fn set(&mut self, name: &str, value: Value, cx: &mut Context<'_>) {
        let number = value.as_u64().unwrap_or(0);
        let limits = self.reassembly.limits();
        let (memory, timeout, distance) = (limits.memory_bytes_max as u64, limits.timeout, limits.distance_max.unwrap_or(0).into());
        match name {
            "default_ttl" => self.default_ttl = number as u8,
            "forward" => self.forward = value.as_bool().unwrap_or(false),
            "forward_from" => self.forward_from = names(&value),
            "send_redirects" => self.send_redirects = value.as_bool().unwrap_or(true),
            "promote_secondaries" => self.promote_secondaries = value.as_bool().unwrap_or(false),
            "rp_filter" => self.rp_filter = number,
            "ignore_linkdown" => {
                self.facts.ignores_linkdown = value.as_bool().unwrap_or(false);
                cx.table_changed(Table::Routes(Family::V4));
            }
            "accept_redirects" => self.accept_redirects = value.as_bool().unwrap_or(true),
            "fragment_memory_bytes" => self.reassembly.set_limits(Ip4::reassembly_limits(number, timeout, distance)),
            "fragment_timeout" => self.reassembly.set_limits(Ip4::reassembly_limits(memory, Duration::from_nanos(number), distance)),
            "fragment_distance_max" => self.reassembly.set_limits(Ip4::reassembly_limits(memory, timeout, number)),
            "path_mtu_min" => self.path_mtu_min = number as u32,
            "path_mtu_expires" => self.path_mtu_expires = Duration::from_nanos(number),
            "redirect_expires" => self.redirect_expires = Duration::from_nanos(number),
            "boot_time" => self.boot_time = number,
            "multipath_hash_policy" => self.tables.multipath.by_ports = number == 1,
            _ => {}
        }
        self.changed();
    }

    fn exec(&mut self, procedure: &str, arguments: &Value, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        match procedure {
            "address_add" => self.address_add(arguments, cx),
            "address_delete" => self.address_delete(arguments, cx),
            "interface_set" => self.interface_set(arguments, cx),
            "route_add" => self.route_add(arguments, cx).inspect_err(|error| {
                self.counters[count::ROUTES_REFUSED] += u64::from(matches!(error, ControlError::Limit { .. }));
            }),
            "route_delete" => self.route_delete(arguments, cx),
            "rule_add" | "rule_delete" => self.rule_change(procedure, arguments, cx),
            "rules" => Ok(serde_json::json!(self.tables.rules.rows())),
            "memory" => {
                let held = (self.reassembly.memory_bytes(), self.reassembly.len(), self.paths.len());
                Ok(serde_json::json!({"fragment_bytes": held.0, "fragment_packets": held.1, "paths": held.2}))
            }
            "paths" => Ok(self.path_rows(cx.now)),
            "paths_flush" => {
                self.flush_paths(cx);
                Ok(Value::Null)
            }
            _ => Err(self.kind().no_procedure(&self.name, procedure)),
        }
    }

    fn counters(&self) -> &[u64] {
        &self.counters
    }

    fn export(&self, now: Instant) -> Result<State, StateError> {
        let wanted_raw = (0..=u8::MAX).filter(|number| self.raw_wanted[usize::from(*number)]).collect();
        Ok(crate::counted::export_with(&KIND, &self.counters, now, |out| {
            out.serialised(&Exported { addresses: self.addresses.iter().copied().collect(), routes: self.tables.all(), wanted_raw });
            out.serialised(&self.tables.rules.all());
            // Flows keep to their hops.
            out.put(&self.tables.multipath.hasher);
            out.put(&self.identification);
            self.paths.write(out);
            self.reassembly.write(out);
            self.redirects.write(out);
        }))
    }

    fn import(&mut self, state: &State, now: Instant) -> Result<(), StateError> {
        let ((read, tables, identification, paths, reassembly, redirects), counters) =
            crate::counted::import_since(&KIND, STATE_WITHOUT_RULES, state, now, |from| self.read(from))?;
        if !self.addresses.replace(read.addresses) {
            return Err(Damage::new("an address twice, or of another family").of(KIND.name));
        }
        self.tables = tables;
        self.tables.insides().for_each(|(bits, network)| self.addresses.route(bits, network, true));
        (self.identification, self.paths, self.redirects, self.counters) = (identification, paths, redirects, counters);
        self.take_over_fragments(reassembly);
        *self.raw_wanted = [false; 256];
        read.wanted_raw.iter().for_each(|number| self.raw_wanted[usize::from(*number)] = true);
        self.changed();
        self.resumed = true;
        Ok(())
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
