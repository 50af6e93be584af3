//! IPv6: header on and off, checks, addresses, routes, local delivery, forwarding.
//!
//! Received packets come in through `lower` (from the link, or the loopback), are checked as RFC 8200 and RFC 4291 want it, led through their
//! extension headers and delivered to `tcp`, `udp`, `icmp` or `other` by upper layer. Packets to send come in through `upper` with addresses in
//! the metadata; they are routed, given a header and leave through `lower` with `meta.next_hop`, or through `loopback` when they are for this
//! node. Packets that bring their own header come in through `packet`. What cannot be delivered, sent or forwarded leaves through `error` when
//! its sender is to hear of it, beginning with its IP header.
//!
//! It owns the tables of IPv6 addresses and routes and answers `Query::Route` and `Query::AddressKind`. Adding an address adds the route to its
//! prefix. Each Ethernet interface that is up has a link-local address, fe80:: with the EUI-64 of its MAC address (Linux addr_gen_mode 0).
//!
//! # Duplicate address detection
//!
//! Where the table of IPv6 neighbours has an owner, addresses of Ethernet interfaces start as `tentative`, which `table_changed` tells. The
//! owner finds them by `Query::List` and answers with `Change::AddAddress` and another state, when it is sure. Without an owner, or with
//! `dad = false`, they are `preferred` at once. A tentative or duplicated address is neither sent from nor received at (`AddressKind::Other`), but
//! its solicited-node group is listened to.
//!
//! It refuses: jumbograms (their option counts as unknown), routing headers that have segments left (type 0 among them, RFC 5095),
//! addresses on interfaces with an MTU below 1280, to look at another table before its own addresses, multicast routing,
//! to fragment what it forwards (RFC 8200 §4.5).
//!
//! Standards: RFC 8200, RFC 5722 and 6946 (fragments), RFC 4291, RFC 6724 §5 (source addresses), RFC 4007 (scopes), RFC 5095, RFC 6437 (flow labels), RFC 8201 (path MTU),
//! RFC 2464 §4 and 5 (interface identifiers). Parts: `addresses`, `select` (RFC 6724), `routes` (longest-prefix match), `hops` (of several, which), `rules` (in which table), `exceptions` (what
//! routers told about single destinations), `resolve` (which way), `ingress`, `extensions`, `fragments`, `egress`, `forward`, `interfaces` (link-local
//! addresses), `control` (procedures and changes).

mod addresses;
mod control;
mod disabled;
mod egress;
mod exceptions;
mod extensions;
mod forward;
mod fragments;
mod ingress;
mod interfaces;
mod resolve;
mod select;

use crate::facts::FactsCache;
use crate::ip::hops::Multipath;
use crate::ip::limit::{Limit, Taken};
use crate::ip::reassembly::Reassembly;
use crate::ip::routes::Tables;
use crate::ip::rules::Rules;
use addresses::Addresses;
use disabled::Disabled;
use exceptions::Exceptions;
use resolve::RouteCache;
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};
use weft_core::state::{Damage, Reader};
use weft_core::table::{Address, Family, Route, RouteRow};
use weft_core::*;
use weft_wire::Protocol;

const IN_LOWER: InPort = InPort(0);
const IN_UPPER: InPort = InPort(1);
const OUT_LOWER: OutPort = OutPort(0);
const OUT_LOOPBACK: OutPort = OutPort(1);
const OUT_TCP: OutPort = OutPort(2);
const OUT_UDP: OutPort = OutPort(3);
const OUT_ICMP: OutPort = OutPort(4);
const OUT_OTHER: OutPort = OutPort(5);
const OUT_RAW: OutPort = OutPort(6);
const OUT_ERROR: OutPort = OutPort(7);
const OUTPUTS: usize = 8;

const TIMER_LIFETIMES: u64 = 0;
const TIMER_EXCEPTIONS: u64 = 1;
const TIMER_REASSEMBLY: u64 = 2;

/// Most addresses of a node.
pub const ADDRESSES_MAX: usize = 16_384;
pub use crate::ip::routes::{ROUTES_MAX, TABLES_MAX};

/// What this kind declares.
pub static KIND: Kind = Kind {
    name: "ip6",
    summary: "IPv6: header on and off, checks, addresses, routes, local delivery, forwarding",
    doc: "Checks received packets (every reason for a drop has a name), walks through their extension headers, delivers those for this node by \
          upper layer, routes and frames packets to send, forwards if told to. Owns addresses and routes, with the rules that say in which table of routes to look. Chooses source addresses by RFC 6724, \
          puts fragments together and sends in \
          fragments what its sender lets be fragmented, writes a flow label for each flow (a keyed hash of addresses, protocol and ports, as Linux auto_flowlabels), learns path MTUs and \
          redirects. Every Ethernet interface gets its link-local address when it comes up (EUI-64). Jumbograms and routing headers with \
          segments left are refused.\n\
          Standards: RFC 8200, RFC 5722, RFC 6946, RFC 4291, RFC 6724, RFC 4007, RFC 5095, RFC 6437, RFC 8201.\n\
          Example: bind ip6:lower nd:upper",
    inputs: &[
        Port::required("lower", Carries::Link, "received packets, from a link or the loopback"),
        Port::required("upper", Carries::Transport, "segments and datagrams to send"),
        Port::optional("packet", Carries::Link, "whole packets to send, with their IP header"),
    ],
    outputs: &[
        Port::required("lower", Carries::Link, "packets to send, with next_hop and interface"),
        Port::optional("loopback", Carries::Link, "packets to this node's own addresses"),
        Port::optional("tcp", Carries::Transport, "received segments of protocol 6"),
        Port::optional("udp", Carries::Transport, "received datagrams of protocol 17"),
        Port::optional("icmp", Carries::Transport, "received messages of protocol 58"),
        Port::optional("other", Carries::Transport, "received payloads of other protocols, and of those above without an edge"),
        Port::optional("raw", Carries::Transport, "copies of received payloads whose protocol somebody wants raw"),
        Port::optional("error", Carries::Error, "packets whose sender must be told why they failed"),
    ],
    parameters: &[
        Parameter {
            name: "default_hop_limit",
            value: ParameterType::Unsigned { min: 1, max: 255 },
            default: "64",
            live: true,
            doc: "hop limit of packets whose sender does not say (Linux net.ipv6.conf.default.hop_limit)",
        },
        Parameter {
            name: "forward",
            value: ParameterType::Bool,
            default: "false",
            live: true,
            doc: "forward packets for others (Linux net.ipv6.conf.all.forwarding)",
        },
        Parameter {
            name: "disable",
            value: ParameterType::Bool,
            default: "false",
            live: true,
            doc: "no IPv6 on any interface, and on none that comes: their addresses and routes go; set to false, link-local addresses and ::1 come back \
                  (Linux net.ipv6.conf.all.disable_ipv6)",
        },
        Parameter {
            name: "disable_new",
            value: ParameterType::Bool,
            default: "false",
            live: true,
            doc: "no IPv6 on interfaces that come from now on (Linux net.ipv6.conf.default.disable_ipv6)",
        },
        Parameter {
            name: "ignore_linkdown",
            value: ParameterType::Bool,
            default: "false",
            live: true,
            doc: "routes through interfaces without carrier are passed over (Linux net.ipv6.conf.all.ignore_routes_with_linkdown)",
        },
        Parameter {
            name: "multipath_hash_policy",
            value: ParameterType::Unsigned { min: 0, max: 1 },
            default: "0",
            live: true,
            doc: "what a flow is, which takes one of a route's several next hops: 0: addresses, flow label and protocol, of an ICMP error those of the packet \
                  that it is about; 1: addresses, protocol and ports (Linux net.ipv6.fib_multipath_hash_policy)",
        },
        Parameter {
            name: "fragment_memory_bytes",
            value: ParameterType::Unsigned { min: 0, max: 1 << 32 },
            default: "4194304",
            live: true,
            doc: "memory for fragments that wait for others; 0: none is put together (Linux net.ipv6.ip6frag_high_thresh)",
        },
        Parameter {
            name: "fragment_timeout",
            value: ParameterType::Duration,
            default: "\"60s\"",
            live: true,
            doc: "how long a packet's fragments wait for the rest, from the first that came (Linux net.ipv6.ip6frag_time)",
        },
    ],
    procedures: &[
        Named {
            name: "address_add",
            doc: "interface (or group:NUMBER: every member, or none), address (with /bits, 128 without), dad? (true: detect duplicates first, \
                  where a neighbours' block is there), peer?, flags?, metric?, valid_lft?, preferred_lft? (seconds), replace? (false): gives \
                  an interface an address, and the route to its prefix",
        },
        Named { name: "address_delete", doc: "interface (or group:NUMBER), address: takes it away, with the routes that need it" },
        Named {
            name: "interface_set",
            doc: "interface (or group:NUMBER), up: an administrator put it up or down: down, its routes and addresses go",
        },
        Named {
            name: "interface_disable",
            doc: "interface (or group:NUMBER), disable? (true or false; left out, nothing changes): no IPv6 on these interfaces, or again \
                  (Linux net.ipv6.conf.NAME.disable_ipv6); answers whether it is disabled on all of them",
        },
        Named {
            name: "route_add",
            doc: "destination (prefix or default), gateway?, interface? (or group:NUMBER: one for each member, of metrics that follow), source?, metric? (1024, also for 0), mtu?, kind? (unicast, local, blackhole, \
                  unreachable, prohibit, throw), onlink?, nexthops? (in place of gateway, interface and onlink, a list of up to 256 such as [{\"gateway\": \"fd00::2\", \
                  \"interface\": \"eth0\", \"weight\": 2, \"onlink\": false}]: flows take them in shares of their weights, 1 to 256), table? (254; rules say which one is looked at), protocol?, place? (alone, last, first, \
                  replace, change; last and first: a further gateway becomes a further next hop): adds a route; the interface may be left out when the gateway is no link-local address",
        },
        Named {
            name: "route_delete",
            doc: "destination, gateway?, interface?, source?, metric?, kind?, table?, protocol?, nexthops?: removes the first route that fits; with gateway or nexthops, \
                  of several next hops those alone",
        },
        Named {
            name: "rule_add",
            doc: "priority? (one less than the second rule's), not?, from?, to? (prefixes), iif? (lo: packets of this node), oif? (what their sender is \
                  bound to), fwmark?, fwmask?, tos?, ipproto? (a number), sport?, dport? (first-last), action? (table, goto, nop, blackhole, unreachable, \
                  prohibit), table? (254), target? (of goto), suppress_prefixlength?, suppress_ifgroup?, protocol?, alone? (refuse one that is there): \
                  adds a rule that says which table is looked at for which packets",
        },
        Named { name: "rule_delete", doc: "what rule_add takes: removes the first rule that fits what is said" },
        Named { name: "rules", doc: "the rules in their order" },
        Named {
            name: "memory",
            doc: "what is held for strangers: bytes and packets of fragments that wait for others, destinations of which routers told something",
        },
    ],
    alerts: &[
        Named { name: "address", doc: "event (added, changed, deleted) and the address's row: an address changed" },
        Named { name: "route", doc: "event (added, deleted) and the route's row: a route changed" },
        Named { name: "rule", doc: "event (added, deleted), v6 and the rule's row: a rule changed" },
    ],
    counters: &[
        Counter { name: "InReceives", text: "packets received" },
        Counter { name: "InHdrErrors", text: "received packets with a bad header, or addresses that cannot be" },
        Counter { name: "InTooBigErrors", text: "packets to forward that are larger than the next link's MTU" },
        Counter { name: "InNoRoutes", text: "packets to forward without a route" },
        Counter { name: "InAddrErrors", text: "received packets whose destination is not ours" },
        Counter { name: "InUnknownProtos", text: "received packets of a protocol that nobody takes" },
        Counter { name: "InTruncatedPkts", text: "received packets with fewer bytes than their header says" },
        Counter { name: "InDelivers", text: "packets delivered to a transport" },
        Counter { name: "InMcastPkts", text: "received multicast packets" },
        Counter { name: "InOctets", text: "bytes received, from the IP header on" },
        Counter { name: "OutForwDatagrams", text: "packets forwarded" },
        Counter { name: "OutRequests", text: "packets that transports asked to send" },
        Counter { name: "OutNoRoutes", text: "packets without a route" },
        Counter { name: "OutDiscards", text: "packets refused for another reason" },
        Counter { name: "OutMcastPkts", text: "multicast packets sent" },
        Counter { name: "OutOctets", text: "bytes sent, from the IP header on" },
        Counter { name: "ReasmReqds", text: "fragments received" },
        Counter { name: "ReasmOKs", text: "packets put together" },
        Counter { name: "ReasmFails", text: "packets given up, and fragments refused, but duplicates" },
        Counter {
            name: "ReasmFailsHeader",
            text: "fragments refused for their header alone: length, offset, or headers that are not all in the first",
        },
        Counter { name: "ReasmTimeout", text: "packets given up because fragments were missing for too long" },
        Counter { name: "ReasmOverlaps", text: "packets given up because fragments overlap" },
        Counter { name: "FragOKs", text: "packets sent in fragments" },
        Counter { name: "FragFails", text: "packets larger than the MTU that must not be fragmented" },
        Counter { name: "FragCreates", text: "fragments sent" },
        Counter { name: "RouteCacheMisses", text: "packets sent whose route was not in the route cache" },
        Counter { name: "ExceptionsFull", text: "path MTUs and redirects that pushed out another, the table being full" },
        Counter {
            name: "ChangesRefused",
            text: "addresses and routes of other blocks that were not taken: the table was full, or they make no sense",
        },
        Counter { name: "RulesRefused", text: "rules that were not taken because there were as many as a node may have" },
        Counter {
            name: "RoutesRefused",
            text: "routes that were not taken because there were as many as a node may have, or next hops as a route may",
        },
        Counter { name: "InDisabled", text: "packets received on, and sent to, interfaces on which IPv6 is disabled" },
    ],
    owns: &[Table::Addresses(Family::V6), Table::Routes(Family::V6)],
    asks: &[Table::Interfaces, Table::Groups(Family::V6)],
    state_version: 7,
    ..Kind::EMPTY
};

/// Positions in [`KIND`]'s counters.
mod count {
    pub const IN_RECEIVES: usize = 0;
    pub const IN_HDR_ERRORS: usize = 1;
    pub const IN_TOO_BIG: usize = 2;
    pub const IN_NO_ROUTES: usize = 3;
    pub const IN_ADDR_ERRORS: usize = 4;
    pub const IN_UNKNOWN_PROTOS: usize = 5;
    pub const IN_TRUNCATED: usize = 6;
    pub const IN_DELIVERS: usize = 7;
    pub const IN_MCAST: usize = 8;
    pub const IN_OCTETS: usize = 9;
    pub const OUT_FORWARDED: usize = 10;
    pub const OUT_REQUESTS: usize = 11;
    pub const OUT_NO_ROUTES: usize = 12;
    pub const OUT_DISCARDS: usize = 13;
    pub const OUT_MCAST: usize = 14;
    pub const OUT_OCTETS: usize = 15;
    pub const REASM_REQDS: usize = 16;
    pub const REASM_OKS: usize = 17;
    pub const REASM_FAILS: usize = 18;
    pub const REASM_FAILS_HERE: usize = 19;
    pub const REASM_TIMEOUT: usize = 20;
    pub const REASM_OVERLAPS: usize = 21;
    pub const FRAG_OKS: usize = 22;
    pub const FRAG_FAILS: usize = 23;
    pub const FRAG_CREATES: usize = 24;
    pub const ROUTE_CACHE_MISSES: usize = 25;
    pub const EXCEPTIONS_FULL: usize = 26;
    pub const CHANGES_REFUSED: usize = 27;
    pub const RULES_REFUSED: usize = 28;
    pub const ROUTES_REFUSED: usize = 29;
    pub const DISABLED: usize = 30;
    pub const ALL: usize = 31;
}

/// Linux ip6_forward, ndisc_send_redirect: "inet_peer_xrlim_allow(peer, 1*HZ)".
const REDIRECT_INTERVAL: Duration = Duration::from_secs(1);

/// How to make one.
pub const ROW: BlockRow = BlockRow { kind: &KIND, make: |config| Ok(Box::new(Ip6::new(config))) };

/// Version of the state that knew no rules.
const STATE_WITHOUT_RULES: u32 = 4;
/// Version of the state whose routes had one next hop each.
const STATE_WITHOUT_HOPS: u32 = 5;
/// Version of the state of nodes that had IPv6 on every interface.
const STATE_WITHOUT_DISABLED: u32 = 6;
pub use crate::ip::hops::HOPS_MAX;

/// An address that says something.
fn known(source: Option<IpAddr>) -> Option<Ipv6Addr> {
    match source {
        Some(IpAddr::V6(source)) if !source.is_unspecified() => Some(source),
        _ => None,
    }
}

/// The block.
#[derive(Debug)]
pub struct Ip6 {
    name: String,
    default_hop_limit: u8,
    forwards: bool,
    /// Redirects, by who is told and by where to.
    redirects: [Limit; 2],
    addresses: Addresses,
    tables: Tables<u128>,
    exceptions: Exceptions,
    reassembly: Reassembly,
    /// What the timer is set to.
    reassembly_timer: Option<Instant>,
    facts: FactsCache,
    /// The graph has an owner of interfaces; without one, all interfaces count as up with an MTU of 1500.
    has_interfaces: bool,
    /// Ethernet interfaces that are up and have had their link-local address.
    awake: BTreeSet<InterfaceIndex>,
    disabled: Disabled,
    /// What routers told of links.
    links: BTreeMap<InterfaceIndex, Link>,
    /// Changes with every change of addresses, routes or interfaces.
    generation: u64,
    cache: RouteCache,
    accepted: ingress::Accepted,
    flow_hasher: KeyedHasher,
    /// Bit n: protocol n is wanted raw.
    wanted_raw: [u64; 4],
    bound: [bool; OUTPUTS],
    counters: [u64; count::ALL],
}

/// What a router told of a link (RFC 4861 §6.3.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Link {
    /// Largest IP packet, bytes.
    mtu: Option<u32>,
    hop_limit: Option<u8>,
}

weft_core::fields!(struct Link { mtu, hop_limit });

/// What state is read into: the tables, and what was learned.
type Parts = (Exported<RouteRow>, Tables<u128>, Told, Reassembly, Option<[Taken; 2]>, Option<Disabled>);
type Told = (BTreeSet<InterfaceIndex>, BTreeMap<InterfaceIndex, Link>, KeyedHasher, Exceptions);

#[derive(Serialize, Deserialize)]
struct Exported<R> {
    addresses: Vec<Address>,
    routes: Vec<R>,
    /// Protocols that are wanted raw.
    wanted_raw: Vec<u8>,
}

impl Ip6 {
    /// A block with ::1/128 on `lo` and no routes.
    pub fn new(config: &mut Config) -> Ip6 {
        let mut block = Ip6::bare(config);
        // Behind all that draws from the node's randomness: what blocks drew before there were next hops stays what it was.
        block.tables.multipath = Multipath::new(config);
        block.facts.ignores_linkdown = config.bool("ignore_linkdown");
        block
    }

    fn bare(config: &mut Config) -> Ip6 {
        let limits = Ip6::reassembly_limits(config.u64("fragment_memory_bytes"), config.duration("fragment_timeout"));
        Ip6 {
            name: config.name.clone(),
            default_hop_limit: config.u64("default_hop_limit") as u8,
            forwards: config.bool("forward"),
            disabled: Disabled::new(config.bool("disable"), config.bool("disable_new")),
            redirects: [(), ()].map(|()| Limit::new(0, 0, REDIRECT_INTERVAL, KeyedHasher::new(&mut config.rng))),
            addresses: Addresses::new(KeyedHasher::new(&mut config.rng)),
            tables: Tables::default(),
            exceptions: Exceptions::new(KeyedHasher::new(&mut config.rng)),
            reassembly: Reassembly::new(limits, KeyedHasher::new(&mut config.rng)),
            reassembly_timer: None,
            facts: FactsCache::default(),
            has_interfaces: false,
            awake: BTreeSet::new(),
            links: BTreeMap::new(),
            generation: 1,
            cache: RouteCache::new(&mut config.rng),
            accepted: ingress::Accepted::new(&mut config.rng),
            flow_hasher: KeyedHasher::new(&mut config.rng),
            wanted_raw: [0; 4],
            bound: [false; OUTPUTS],
            counters: [0; count::ALL],
        }
    }

    /// What a predecessor wrote, checked; nothing is taken over yet.
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
        let awake: Vec<InterfaceIndex> = from.take()?;
        let told = (awake.into_iter().collect(), from.take()?, from.take()?, self.exceptions.read(from)?);
        let reassembly = self.reassembly.read(from, fragments::could_wait)?;
        let redirects = if from.version() <= STATE_WITHOUT_RULES { None } else { Some([from.take()?, from.take()?]) };
        let disabled = if from.version() <= STATE_WITHOUT_DISABLED { None } else { Some(from.take()?) };
        Ok((read, tables, told, reassembly, redirects, disabled))
    }

    #[inline]
    fn is_bound(&self, port: OutPort) -> bool {
        self.bound[usize::from(port.0)]
    }

    #[inline]
    fn wants_raw(&self, protocol: Protocol) -> bool {
        self.wanted_raw[usize::from(protocol.0 >> 6)] & 1 << (protocol.0 & 63) != 0
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

impl Block for Ip6 {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn process(&mut self, port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        match port {
            IN_LOWER => vector.each(|frame| self.receive(frame, cx)),
            IN_UPPER => vector.each(|frame| self.send(frame, cx)),
            _ => vector.each(|frame| self.send_packet(frame, cx)),
        }
    }

    fn started(&mut self, cx: &mut Context<'_>) {
        for (port, bound) in self.bound.iter_mut().enumerate() {
            *bound = cx.is_bound(OutPort(port as u8));
        }
        self.interfaces_changed(cx);
        self.schedule_lifetimes(cx);
        self.schedule_exceptions(cx);
        self.reassembly_changed(cx);
    }

    fn table_changed(&mut self, table: Table, cx: &mut Context<'_>) {
        if table == Table::Interfaces {
            self.interfaces_changed(cx);
        }
    }

    fn row_changed(&mut self, _table: Table, row: Row, cx: &mut Context<'_>) {
        if let Row::Interface(interface) = row {
            self.one_interface_changed(interface, cx);
        }
    }

    fn timer(&mut self, token: u64, cx: &mut Context<'_>) {
        match token {
            TIMER_LIFETIMES => self.lifetimes_passed(cx),
            TIMER_REASSEMBLY => self.expire_fragments(cx),
            _ => self.exceptions_passed(cx),
        }
    }

    fn change(&mut self, table: Table, change: Change, cx: &mut Context<'_>) {
        if matches!(table, Table::Addresses(Family::V6) | Table::Routes(Family::V6)) {
            self.take_change(change, cx);
        }
    }

    fn query(&self, query: &Query, now: Instant) -> Answer {
        match query {
            Query::Route { source: Some(IpAddr::V4(source)), .. } if !source.is_unspecified() => Answer::None,
            Query::Route { destination: IpAddr::V6(destination), source, interface, traffic } => {
                let (source, interface) = (known(*source), interface.filter(|interface| *interface != InterfaceIndex::NONE));
                let way = match traffic.input {
                    InterfaceIndex::NONE => self.resolve(*destination, source, interface, *traffic, now),
                    _ => self.resolve_received(*destination, source, *traffic, now),
                };
                way.map_or(Answer::None, Answer::Route)
            }
            Query::RouteFollowed { destination: IpAddr::V6(destination), source, interface, traffic } => {
                let interface = interface.filter(|interface| *interface != InterfaceIndex::NONE);
                Answer::Routes(
                    self.followed(*destination, known(*source), interface, *traffic).map(|route| route.row()).into_iter().collect(),
                )
            }
            Query::Rules => Answer::Rules(self.tables.rules.rows()),
            Query::Forwards(_) => Answer::Forwards(self.forwards),
            Query::AddressKind(IpAddr::V6(address)) => Answer::AddressKind(self.addresses.kind(*address)),
            Query::Address(interface, IpAddr::V6(ip)) => Answer::Addresses(self.addresses.find(*interface, *ip).into_iter().collect()),
            Query::AddressesOf(interface) => Answer::Addresses(self.addresses.of_interface(*interface).copied().collect()),
            Query::Addresses => Answer::Addresses(self.addresses.iter().copied().collect()),
            Query::Routes => Answer::Routes(self.tables.all()),
            Query::HasTable(table) => Answer::HasTable(self.tables.has(*table)),
            Query::IsReady(interface) => Answer::Wanted(self.awake.contains(interface)),
            Query::IgnoresLinkdown => Answer::Wanted(self.facts.ignores_linkdown),
            Query::List(Table::Addresses(Family::V6)) => Answer::List(self.address_rows()),
            Query::List(Table::Routes(Family::V6)) => Answer::List(self.route_rows()),
            _ => Answer::None,
        }
    }

    fn get(&self, name: &str, _now: Instant) -> Option<Value> {
        match name {
            "default_hop_limit" => Some(self.default_hop_limit.into()),
            "forward" => Some(self.forwards.into()),
            "disable" => Some(self.disabled.all.into()),
            "disable_new" => Some(self.disabled.new.into()),
            "ignore_linkdown" => Some(self.facts.ignores_linkdown.into()),
            "multipath_hash_policy" => Some(u64::from(self.tables.multipath.by_ports).into()),
            "fragment_memory_bytes" => Some(self.reassembly.limits().memory_bytes_max.into()),
            "fragment_timeout" => Some((self.reassembly.limits().timeout.as_nanos() as u64).into()),
            "fragments_memory_used_bytes" => Some(self.reassembly.memory_bytes().into()),
            _ => None,
        }
    }

    fn set(&mut self, name: &str, value: Value, cx: &mut Context<'_>) {
        match (name, value.as_u64(), value.as_bool()) {
            ("default_hop_limit", Some(hops), _) => self.default_hop_limit = hops as u8,
            ("multipath_hash_policy", Some(policy), _) => self.tables.multipath.by_ports = policy == 1,
            ("fragment_memory_bytes", Some(bytes), _) => {
                let timeout = self.reassembly.limits().timeout;
                self.reassembly.set_limits(Ip6::reassembly_limits(bytes, timeout));
            }
            ("fragment_timeout", Some(nanos), _) => {
                let bytes = self.reassembly.limits().memory_bytes_max as u64;
                self.reassembly.set_limits(Ip6::reassembly_limits(bytes, Duration::from_nanos(nanos)));
            }
            ("disable", _, Some(disable)) => self.disable_all(disable, cx),
            ("disable_new", _, Some(disable)) => self.disabled.new = disable,
            ("ignore_linkdown", _, Some(ignores)) => {
                self.facts.ignores_linkdown = ignores;
                self.changed();
                cx.table_changed(Table::Routes(Family::V6));
            }
            ("forward", _, Some(forwards)) => {
                self.forwards = forwards;
                self.changed();
            }
            _ => {}
        }
    }

    fn exec(&mut self, procedure: &str, arguments: &Value, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        match procedure {
            "address_add" => self.address_add(arguments, cx),
            "address_delete" => self.address_delete(arguments, cx),
            "interface_set" => self.interface_set(arguments, cx),
            "interface_disable" => self.interface_disable(arguments, cx),
            "route_add" => self.route_add(arguments, cx).inspect_err(|error| {
                self.counters[count::ROUTES_REFUSED] += u64::from(matches!(error, ControlError::Limit { .. }));
            }),
            "route_delete" => self.route_delete(arguments, cx),
            "rule_add" | "rule_delete" => self.rule_change(procedure, arguments, cx),
            "rules" => Ok(serde_json::json!(self.tables.rules.rows())),
            "memory" => {
                let held = (self.reassembly.memory_bytes(), self.reassembly.len(), self.exceptions.len());
                Ok(serde_json::json!({"fragment_bytes": held.0, "fragment_packets": held.1, "paths": held.2}))
            }
            _ => Err(self.kind().no_procedure(&self.name, procedure)),
        }
    }

    fn counters(&self) -> &[u64] {
        &self.counters
    }

    fn export(&self, now: Instant) -> Result<State, StateError> {
        Ok(crate::counted::export_with(&KIND, &self.counters, now, |out| {
            out.serialised(&Exported {
                addresses: self.addresses.iter().copied().collect(),
                routes: self.tables.all(),
                wanted_raw: (0..=u8::MAX).filter(|number| self.wants_raw(Protocol(*number))).collect(),
            });
            out.serialised(&self.tables.rules.all());
            // Flows keep to their hops.
            out.put(&self.tables.multipath.hasher);
            out.put(&self.awake.iter().copied().collect::<Vec<_>>());
            out.put(&self.links);
            // One flow keeps its label.
            out.put(&self.flow_hasher);
            self.exceptions.write(out);
            self.reassembly.write(out);
            self.redirects.iter().for_each(|limit| limit.write(out));
            out.put(&self.disabled);
        }))
    }

    fn import(&mut self, state: &State, now: Instant) -> Result<(), StateError> {
        let ((read, tables, told, reassembly, redirects, disabled), counters) =
            crate::counted::import_since(&KIND, STATE_WITHOUT_RULES, state, now, |from| self.read(from))?;
        if !self.addresses.replace(read.addresses) {
            return Err(Damage::new("an address twice, or of another family").of(KIND.name));
        }
        self.tables = tables;
        (self.awake, self.links, self.flow_hasher, self.exceptions) = told;
        for (limit, taken) in self.redirects.iter_mut().zip(redirects.into_iter().flatten()) {
            limit.resume(taken);
        }
        if let Some(disabled) = disabled {
            self.disabled = disabled;
        }
        self.counters = counters;
        self.take_over_fragments(reassembly);
        self.wanted_raw = [0; 4];
        read.wanted_raw.iter().for_each(|number| self.wanted_raw[usize::from(number >> 6)] |= 1 << (number & 63));
        self.changed();
        Ok(())
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
