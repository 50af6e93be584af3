//! IPv4: header on and off, checks, addresses, routes, local delivery.
//!
//! Received packets come in through `lower` (from the link, or the loopback), are checked in the order of RFC 1122 §3.2.1, and delivered
//! to `tcp`, `udp`, `icmp` or `other` by protocol. Packets to send come in through `upper` with addresses in the metadata; they are routed,
//! given a header and leave through `lower` with `meta.next_hop`, or through `loopback` when they are for this node. What cannot be
//! delivered or sent leaves through `error` when its sender is to hear of it, beginning with its IP header.
//!
//! It owns the tables of IPv4 addresses and routes and answers `Query::Route` and `Query::AddressKind`. Local and broadcast destinations
//! follow from the addresses; adding an address adds the route to its network.
//!
//! It refuses: packets for others (it does not forward: not-for-us), fragments (no reassembly: fragment; a packet to send that is larger
//! than the MTU: too-big), source routes, sources that no host may have (martian-source), and routing by policy: one table, the longest
//! prefix, then the lowest metric.
//!
//! Standards: RFC 791, RFC 1122 §3.2.1 and §3.3, RFC 6864 (identification), RFC 3021 (31-bit prefixes), RFC 1812 §5.3.7 (martians).
//! Parts: `addresses`, `routes` (longest-prefix match), `resolve` (which way), `ingress`, `egress`, `control` (procedures).

mod addresses;
mod control;
mod egress;
mod identification;
mod ingress;
mod resolve;
mod routes;

use crate::facts::FactsCache;
use addresses::Addresses;
use identification::Identification;
use resolve::RouteCache;
use routes::Routes;
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::net::IpAddr;
use weft_core::table::{Address, Family, Route};
use weft_core::*;

const IN_LOWER: InPort = InPort(0);
const OUT_LOWER: OutPort = OutPort(0);
const OUT_LOOPBACK: OutPort = OutPort(1);
const OUT_TCP: OutPort = OutPort(2);
const OUT_UDP: OutPort = OutPort(3);
const OUT_ICMP: OutPort = OutPort(4);
const OUT_OTHER: OutPort = OutPort(5);
const OUT_ERROR: OutPort = OutPort(6);
const OUTPUTS: usize = 7;

/// Most addresses of a node.
pub const ADDRESSES_MAX: usize = 16_384;
/// Most routes of a node.
pub const ROUTES_MAX: usize = 2_000_000;

/// What this kind declares.
pub static KIND: Kind = Kind {
    name: "ip4",
    summary: "IPv4: header on and off, checks, addresses, routes, local delivery",
    doc: "Checks received packets (every reason for a drop has a name), delivers those for this node by protocol, routes and frames packets \
          to send. Owns addresses and routes. Does not forward, reassemble or fragment: packets for others are dropped (not-for-us), \
          fragments too (fragment), and packets larger than the MTU are refused (too-big, with an error to the sender when they must not be \
          fragmented). Source-routed packets are dropped, as Linux does by default. Identification: 0 for packets that must not be \
          fragmented (RFC 6864), else a counter per destination.\n\
          Standards: RFC 791, RFC 1122 3.2.1 and 3.3, RFC 3021, RFC 6864, RFC 1812 5.3.7.\n\
          Example: bind ip4:lower arp:upper",
    inputs: &[
        Port::required("lower", Carries::Link, "received packets, from a link or the loopback"),
        Port::required("upper", Carries::Transport, "segments and datagrams to send"),
    ],
    outputs: &[
        Port::required("lower", Carries::Link, "packets to send, with next_hop and interface"),
        Port::optional("loopback", Carries::Link, "packets to this node's own addresses"),
        Port::optional("tcp", Carries::Transport, "received segments of protocol 6"),
        Port::optional("udp", Carries::Transport, "received datagrams of protocol 17"),
        Port::optional("icmp", Carries::Transport, "received messages of protocol 1"),
        Port::optional("other", Carries::Transport, "received payloads of other protocols, and of those above without an edge"),
        Port::optional("error", Carries::Error, "packets whose sender must be told why they failed"),
    ],
    parameters: &[Parameter {
        name: "default_ttl",
        value: ParameterType::Unsigned { min: 1, max: 255 },
        default: "64",
        live: true,
        doc: "time to live of packets whose sender does not say (Linux ip_default_ttl)",
    }],
    procedures: &[
        Named {
            name: "address_add",
            doc: "interface, address (with /bits, 32 without): gives an interface an address, and the route to its network",
        },
        Named { name: "address_delete", doc: "interface, address: takes it away, with the routes that need it" },
        Named {
            name: "route_add",
            doc: "destination (prefix or default), gateway?, interface?, source?, metric? (0), mtu?, kind? (unicast, blackhole, unreachable, \
                  prohibit): adds a route; the interface may be left out when the gateway is on a network of one",
        },
        Named { name: "route_delete", doc: "destination, gateway?, interface?, metric?, kind?: removes the first route that fits" },
    ],
    alerts: &[
        Named { name: "address", doc: "event (added, deleted), interface, address, prefix_bits: an address changed" },
        Named { name: "route", doc: "event (added, deleted) and the route's row: a route changed" },
    ],
    counters: &[
        Counter { name: "InReceives", text: "packets received" },
        Counter { name: "InHdrErrors", text: "received packets with a bad header" },
        Counter { name: "InAddrErrors", text: "received packets whose destination is not ours, or whose source cannot be" },
        Counter { name: "InUnknownProtos", text: "received packets of a protocol that nobody takes" },
        Counter { name: "InDelivers", text: "packets delivered to a transport" },
        Counter { name: "InTruncatedPkts", text: "received packets with fewer bytes than their header says" },
        Counter { name: "InCsumErrors", text: "received packets whose header checksum is wrong" },
        Counter { name: "InMcastPkts", text: "received multicast packets" },
        Counter { name: "InBcastPkts", text: "received broadcast packets" },
        Counter { name: "InOctets", text: "bytes received, from the IP header on" },
        Counter { name: "ReasmFails", text: "fragments dropped because nothing reassembles them" },
        Counter { name: "OutRequests", text: "packets that transports asked to send" },
        Counter { name: "OutNoRoutes", text: "packets without a route" },
        Counter { name: "OutDiscards", text: "packets refused for another reason" },
        Counter { name: "FragFails", text: "packets larger than the MTU" },
        Counter { name: "OutMcastPkts", text: "multicast packets sent" },
        Counter { name: "OutBcastPkts", text: "broadcast packets sent" },
        Counter { name: "OutOctets", text: "bytes sent, from the IP header on" },
        Counter { name: "RouteCacheMisses", text: "packets sent whose route was not in the route cache" },
    ],
    owns: &[Table::Addresses(Family::V4), Table::Routes(Family::V4)],
    state_version: 1,
};

/// Positions in [`KIND`]'s counters.
mod count {
    pub const IN_RECEIVES: usize = 0;
    pub const IN_HDR_ERRORS: usize = 1;
    pub const IN_ADDR_ERRORS: usize = 2;
    pub const IN_UNKNOWN_PROTOS: usize = 3;
    pub const IN_DELIVERS: usize = 4;
    pub const IN_TRUNCATED: usize = 5;
    pub const IN_CSUM_ERRORS: usize = 6;
    pub const IN_MCAST: usize = 7;
    pub const IN_BCAST: usize = 8;
    pub const IN_OCTETS: usize = 9;
    pub const REASM_FAILS: usize = 10;
    pub const OUT_REQUESTS: usize = 11;
    pub const OUT_NO_ROUTES: usize = 12;
    pub const OUT_DISCARDS: usize = 13;
    pub const FRAG_FAILS: usize = 14;
    pub const OUT_MCAST: usize = 15;
    pub const OUT_BCAST: usize = 16;
    pub const OUT_OCTETS: usize = 17;
    pub const ROUTE_CACHE_MISSES: usize = 18;
    pub const ALL: usize = 19;
}

/// How to make one.
pub const ROW: BlockRow = BlockRow { kind: &KIND, make: |config| Ok(Box::new(Ip4::new(config))) };

/// The block.
#[derive(Debug)]
pub struct Ip4 {
    name: String,
    default_ttl: u8,
    addresses: Addresses,
    routes: Routes,
    facts: FactsCache,
    /// The graph has an owner of interfaces; without one, all interfaces count as up with an MTU of 1500.
    has_interfaces: bool,
    /// Changes with every change of addresses, routes or interfaces.
    generation: u64,
    cache: RouteCache,
    accepted: ingress::Accepted,
    identification: Identification,
    bound: [bool; OUTPUTS],
    counters: [u64; count::ALL],
}

#[derive(Serialize, Deserialize)]
struct Exported {
    addresses: Vec<Address>,
    routes: Vec<Route>,
}

impl Ip4 {
    /// A block with 127.0.0.1/8 on `lo` and no routes.
    pub fn new(config: &mut Config) -> Ip4 {
        Ip4 {
            name: config.name.clone(),
            default_ttl: config.u64("default_ttl") as u8,
            addresses: Addresses::new(KeyedHasher::new(&mut config.rng)),
            routes: Routes::default(),
            facts: FactsCache::default(),
            has_interfaces: false,
            generation: 1,
            cache: RouteCache::new(&mut config.rng),
            accepted: ingress::Accepted::default(),
            identification: Identification::new(&mut config.rng),
            bound: [false; OUTPUTS],
            counters: [0; count::ALL],
        }
    }

    fn is_bound(&self, port: OutPort) -> bool {
        self.bound[usize::from(port.0)]
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
            IN_LOWER => vector.each(|frame| self.receive(frame)),
            _ => vector.each(|frame| self.send(frame, cx)),
        }
    }

    fn started(&mut self, cx: &mut Context<'_>) {
        for (port, bound) in self.bound.iter_mut().enumerate() {
            *bound = cx.is_bound(OutPort(port as u8));
        }
        self.interfaces_changed(cx);
    }

    fn table_changed(&mut self, table: Table, cx: &mut Context<'_>) {
        if table == Table::Interfaces {
            self.interfaces_changed(cx);
        }
    }

    fn query(&self, query: &Query, _now: Instant) -> Answer {
        match query {
            Query::Route { destination: IpAddr::V4(destination), source, interface } => {
                let source = match source {
                    Some(IpAddr::V4(source)) if !source.is_unspecified() => Some(*source),
                    Some(IpAddr::V6(_)) => return Answer::None,
                    _ => None,
                };
                let interface = interface.filter(|interface| *interface != InterfaceIndex::NONE);
                self.resolve(*destination, source, interface).map_or(Answer::None, Answer::Route)
            }
            Query::AddressKind(IpAddr::V4(address)) => Answer::AddressKind(self.addresses.kind(*address)),
            Query::Addresses => Answer::Addresses(self.addresses.iter().copied().collect()),
            Query::List(Table::Addresses(Family::V4)) => Answer::List(self.address_rows()),
            Query::List(Table::Routes(Family::V4)) => Answer::List(self.route_rows()),
            _ => Answer::None,
        }
    }

    fn get(&self, name: &str, _now: Instant) -> Option<Value> {
        (name == "default_ttl").then(|| self.default_ttl.into())
    }

    fn set(&mut self, name: &str, value: Value, _cx: &mut Context<'_>) {
        if let ("default_ttl", Some(ttl)) = (name, value.as_u64()) {
            self.default_ttl = ttl as u8;
        }
    }

    fn exec(&mut self, procedure: &str, arguments: &Value, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        match procedure {
            "address_add" => self.address_add(arguments, cx),
            "address_delete" => self.address_delete(arguments, cx),
            "route_add" => self.route_add(arguments, cx),
            "route_delete" => self.route_delete(arguments, cx),
            _ => Err(ControlError::NoProcedure { block: self.name.clone(), procedure: procedure.to_owned() }),
        }
    }

    fn counters(&self) -> &[u64] {
        &self.counters
    }

    fn export(&self, _now: Instant) -> Result<State, StateError> {
        let exported = Exported { addresses: self.addresses.iter().copied().collect(), routes: self.routes.sorted() };
        State::write(KIND.name, KIND.state_version, &exported)
    }

    fn import(&mut self, state: &State, _now: Instant) -> Result<(), StateError> {
        let read: Exported = state.read(KIND.name, KIND.state_version)?;
        let damaged = |why: &str| StateError::Damaged { kind: KIND.name.to_owned(), why: why.to_owned() };
        if read.addresses.len() > ADDRESSES_MAX || read.routes.len() > ROUTES_MAX {
            return Err(damaged("more addresses or routes than a node may have"));
        }
        let mut routes = Routes::default();
        if !read.routes.into_iter().all(|route| routes.insert(route).is_ok()) {
            return Err(damaged("a route twice, or of another family"));
        }
        if !self.addresses.replace(read.addresses) {
            return Err(damaged("an address twice, or of another family"));
        }
        self.routes = routes;
        self.changed();
        Ok(())
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
