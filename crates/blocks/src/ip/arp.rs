//! Address resolution for IPv4 over Ethernet: ARP, with the neighbour states of Linux.
//!
//! Packets that IP has routed come in through `upper` with `meta.next_hop`; they leave through `lower` with `meta.dst_mac`. While an
//! address is being resolved they wait in a bounded queue at their neighbour; when nobody answers they leave through `failed` with the error
//! host unreachable. ARP packets come in and go out through `lower`.
//!
//! The states of neighbours, their timers and queues are those of [`neighbour`]: INCOMPLETE asks by broadcast, PROBE by
//! unicast. A transport's progress confirms a neighbour (`Change::Confirm`).
//!
//! It refuses to learn from packets that are not for this node unless the entry exists already; to learn group addresses as link-layer
//! addresses; and to let a second answer replace a first one within `lock_time` (Linux `locktime`).
//!
//! Standards: RFC 826; RFC 1122 §2.3.2.1 and §2.3.2.2 (at least one packet is kept); RFC 5227 (§2.3 announcements by `announcements`,
//! probes are answered, conflicts counted and reported; addresses are not defended, as in Linux).

use super::neighbour::cache::Nud;
use super::neighbour::{self, OUT_LOWER, Resolver, Solicitation, Step, TOKEN_OF_BLOCK, parameter, sort};
use crate::arguments::Arguments;
use crate::facts::FactsCache;
use std::any::Any;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use weft_core::state::Damage;
use weft_core::table::{AddressKind, Family, LinkType};
use weft_core::*;
use weft_wire::arp::{self, Operation, Packet};
use weft_wire::ethernet::{EtherType, Mac};

const IN_UPPER: InPort = InPort(0);

const TOKEN_ANNOUNCE: u64 = TOKEN_OF_BLOCK;
/// RFC 5227 §1.1: ANNOUNCE_INTERVAL, "time between Announcement packets".
const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(2);
/// Most addresses that are remembered as announced.
const ANNOUNCED_MAX: usize = 4096;

/// What this kind declares.
pub static KIND: Kind = Kind {
    name: "arp",
    summary: "resolves IPv4 next hops to Ethernet addresses (ARP)",
    doc: "Gives each routed packet the link-layer address of its next hop: broadcast and multicast by rule, others by ARP with Linux's \
          neighbour states. Packets wait while an address is resolved (at most pending_frames_max and pending_bytes_max a neighbour, the \
          oldest go first: neighbour-pending-full) and leave through `failed` as host unreachable when nobody answers. Answers requests for \
          this node's addresses on any interface (Linux arp_ignore 0). Learns from requests for this node, and from other packets only \
          what it knows already. The cache is bounded by entries_max; old unused entries go first.\n\
          Standards: RFC 826; RFC 1122 2.3.2; RFC 5227 in part (announcements optional, conflicts reported, addresses not defended).\n\
          Example: bind ip4:lower arp:upper",
    inputs: &[
        Port::required("upper", Carries::Link, "IPv4 packets routed to meta.next_hop"),
        Port::required("lower", Carries::Link, "received ARP packets"),
    ],
    outputs: &[
        Port::required("lower", Carries::Link, "packets with dst_mac, and ARP packets"),
        Port::optional("failed", Carries::Error, "packets whose next hop did not answer"),
    ],
    parameters: &[
        parameter::REACHABLE_TIME,
        parameter::RETRANSMIT_TIME,
        parameter::DELAY_TIME,
        parameter::STALE_TIME,
        parameter::SOLICITATIONS,
        parameter::PENDING_FRAMES_MAX,
        parameter::PENDING_BYTES_MAX,
        parameter::ENTRIES_MAX,
        parameter::COLLECT_ABOVE,
        Parameter {
            name: "lock_time",
            value: ParameterType::Duration,
            default: "\"1s\"",
            live: true,
            doc: "a changed address is not changed again for this long (Linux locktime)",
        },
        Parameter {
            name: "announcements",
            value: ParameterType::Unsigned { min: 0, max: 10 },
            default: "0",
            live: true,
            doc: "gratuitous requests sent when an address is added (RFC 5227 2.3 says 2; Linux arp_notify says 0)",
        },
    ],
    procedures: &[
        Named {
            name: "add",
            doc: "interface, address, mac?, state? (PERMANENT), router?, mode? (new, change): sets a neighbour, for ever unless the state is another",
        },
        Named { name: "delete", doc: "interface, address: forgets a neighbour" },
        Named { name: "flush", doc: "interface?: forgets all neighbours but permanent ones" },
    ],
    alerts: &[
        Named { name: "conflict", doc: "interface, address, mac: another station uses one of this node's addresses" },
        neighbour::NEIGHBOUR_ALERT,
    ],
    counters: &[
        neighbour::count::ROWS[0],
        neighbour::count::ROWS[1],
        neighbour::count::ROWS[2],
        neighbour::count::ROWS[3],
        neighbour::count::ROWS[4],
        neighbour::count::ROWS[5],
        Counter { name: "InRequests", text: "requests received" },
        Counter { name: "InReplies", text: "replies received" },
        Counter { name: "InErrors", text: "malformed ARP packets, or with impossible addresses" },
        Counter { name: "OutRequests", text: "requests sent" },
        Counter { name: "OutReplies", text: "replies sent" },
        Counter { name: "Conflicts", text: "packets from another station that claims one of our addresses" },
    ],
    owns: &[Table::Neighbours(Family::V4)],
    asks: &[Table::Interfaces, Table::Addresses(Family::V4), Table::Routes(Family::V4)],
    state_version: 3,
    ..Kind::EMPTY
};

const IN_REQUESTS: usize = neighbour::count::BLOCK;
const IN_REPLIES: usize = IN_REQUESTS + 1;
const IN_ERRORS: usize = IN_REQUESTS + 2;
const OUT_REQUESTS: usize = IN_REQUESTS + 3;
const OUT_REPLIES: usize = IN_REQUESTS + 4;
const CONFLICTS: usize = IN_REQUESTS + 5;
const COUNTERS: usize = IN_REQUESTS + 6;

/// How to make one.
pub const ROW: BlockRow = BlockRow { kind: &KIND, make: |config| Ok(Box::new(Arp::new(config))) };

/// The block.
#[derive(Debug)]
pub struct Arp {
    name: String,
    lock_time: Duration,
    announcements: u32,
    resolver: Resolver,
    facts: FactsCache,
    announced: BTreeSet<(InterfaceIndex, Ipv4Addr)>,
    /// Announcements still to come.
    announcing: Vec<(InterfaceIndex, Ipv4Addr, u32)>,
    /// When the next of them is due.
    announce_at: Instant,
    /// State was taken over: timers are still to be set.
    resumed: bool,
}

impl Arp {
    /// An empty cache.
    pub fn new(config: &mut Config) -> Arp {
        Arp {
            name: config.name.clone(),
            lock_time: config.duration("lock_time"),
            announcements: config.u64("announcements") as u32,
            resolver: Resolver::new(config, COUNTERS),
            facts: FactsCache::default(),
            announced: BTreeSet::new(),
            announcing: Vec::new(),
            announce_at: Instant::FAR_FUTURE,
            resumed: false,
        }
    }

    /// What becomes of a packet to send; an error names the neighbour at which it waits.
    fn resolve(&mut self, frame: &mut Frame, cx: &mut Context<'_>) -> Result<Verdict, u32> {
        let meta = frame.meta();
        let next_hop = meta.next_hop.unwrap_or(meta.dst);
        let (interface, source) = (meta.interface, meta.src);
        let IpAddr::V4(address) = next_hop else { return Ok(Verdict::Drop(Reason::BadPacket)) };
        if let Some(mac) = self.resolver.same_as_last(interface, next_hop, cx.now) {
            frame.meta_mut().dst_mac = mac;
            return Ok(Verdict::Forward(OUT_LOWER));
        }
        self.resolver.counters[neighbour::count::LOOKUPS] += 1;
        // RFC 1112 §6.4 for groups; RFC 1122 §2.3.2: broadcasts need no resolution.
        let by_rule = match address {
            address if address.is_broadcast() => Some(Mac::BROADCAST),
            address if address.is_multicast() => Some(Mac::from_multicast_v4(address)),
            _ => None,
        };
        let Some(facts) = self.facts.get(interface, cx) else { return Ok(Verdict::Drop(Reason::UnknownInterface)) };
        if facts.link != LinkType::Ethernet {
            return Ok(Verdict::Forward(OUT_LOWER));
        }
        let step = by_rule.map_or_else(|| self.resolver.resolve(interface, next_hop, source, cx), Step::Send);
        match step {
            Step::Send(mac) => {
                frame.meta_mut().dst_mac = mac;
                Ok(Verdict::Forward(OUT_LOWER))
            }
            Step::Full => Ok(Verdict::Drop(Reason::TableFull)),
            Step::Wait(slot) => Err(slot),
            Step::Ask(slot) => {
                if let Some(solicitation) = self.resolver.solicitation(slot, cx) {
                    self.solicit(solicitation, cx);
                }
                Err(slot)
            }
        }
    }

    fn solicit(&mut self, solicitation: Solicitation, cx: &mut Context<'_>) {
        let Solicitation { interface, target: IpAddr::V4(target_ip), source, only } = solicitation else { return };
        let Some(sender_mac) = self.facts.get(interface, cx).map(|facts| facts.mac) else { return };
        let sender_ip = source_for(source, interface, target_ip, cx);
        self.resolver.counters[OUT_REQUESTS] += 1;
        let packet = Packet { operation: Operation::Request, sender_mac, sender_ip, target_mac: Mac::ZERO, target_ip };
        send(packet, interface, only.unwrap_or(Mac::BROADCAST), cx);
    }

    /// A received ARP packet.
    fn receive(&mut self, frame: &mut Frame, cx: &mut Context<'_>) -> Verdict {
        let _ = frame.pull_up(frame.len().min(arp::LEN));
        let interface = frame.meta().interface;
        let Some((own, link)) = self.facts.get(interface, cx).map(|facts| (facts.mac, facts.link)) else {
            return Verdict::Drop(Reason::UnknownInterface);
        };
        let packet = match Packet::parse(frame.head()) {
            Ok(packet) => packet,
            Err(error) => {
                self.resolver.counters[IN_ERRORS] += 1;
                return Verdict::Drop(if error == weft_wire::Error::Truncated { Reason::Truncated } else { Reason::BadPacket });
            }
        };
        // Linux arp_process: "Check for bad requests for 127.x.x.x and requests for multicast addresses."
        let bad_target = packet.target_ip.is_multicast() || packet.target_ip.is_loopback();
        let bad_sender = packet.sender_ip.is_multicast() || packet.sender_ip.is_loopback() || packet.sender_ip.is_broadcast();
        let operation = match packet.operation {
            Operation::Request => IN_REQUESTS,
            Operation::Reply => IN_REPLIES,
            Operation::Other(_) => IN_ERRORS,
        };
        if operation == IN_ERRORS || bad_target || bad_sender || !packet.sender_mac.is_unicast() || link != LinkType::Ethernet {
            self.resolver.counters[IN_ERRORS] += 1;
            return Verdict::Drop(Reason::BadPacket);
        }
        self.resolver.counters[operation] += 1;
        let to_us = matches!(address_kind(packet.target_ip, cx), AddressKind::Local(_));
        if packet.sender_mac != own {
            self.detect_conflict(&packet, interface, cx);
            self.learn(&packet, interface, to_us, frame.meta().dst_mac == own, cx);
        }
        // RFC 826: "Am I the target protocol address?" … "Is the opcode ares_op$REQUEST?" … "Swap hardware and protocol fields,
        // putting the local hardware and protocol addresses in the sender fields." RFC 5227 probes have sender address 0 and are answered.
        if to_us && operation == IN_REQUESTS && packet.sender_mac != own && packet.sender_ip != packet.target_ip {
            self.resolver.counters[OUT_REPLIES] += 1;
            let reply = Packet {
                operation: Operation::Reply,
                sender_mac: own,
                sender_ip: packet.target_ip,
                target_mac: packet.sender_mac,
                target_ip: packet.sender_ip,
            };
            send(reply, interface, packet.sender_mac, cx);
        }
        Verdict::Consumed
    }

    /// RFC 5227 §2.4: a conflict is "any received ARP packet … where the 'sender IP address' is (one of) the host's own IP address(es) …
    /// but the 'sender hardware address' does not match any of the host's own interface addresses".
    fn detect_conflict(&mut self, packet: &Packet, interface: InterfaceIndex, cx: &mut Context<'_>) {
        if packet.sender_ip.is_unspecified() || !matches!(address_kind(packet.sender_ip, cx), AddressKind::Local(_)) {
            return;
        }
        // Two interfaces on one network hear each other.
        if self.facts.is_own(packet.sender_mac) {
            return;
        }
        self.resolver.counters[CONFLICTS] += 1;
        let fields = serde_json::json!({
            "interface": interface.0, "address": packet.sender_ip.to_string(), "mac": packet.sender_mac.to_string(),
        });
        cx.alert("conflict", fields);
    }

    fn learn(&mut self, packet: &Packet, interface: InterfaceIndex, to_us: bool, unicast: bool, cx: &mut Context<'_>) {
        if packet.sender_ip.is_unspecified() || matches!(address_kind(packet.sender_ip, cx), AddressKind::Local(_)) {
            return;
        }
        let request = packet.operation == Operation::Request;
        // RFC 826: "If the pair <protocol type, sender protocol address> is already in my translation table, update the sender hardware
        // address field" and only then, if for us and new, add it. Linux adds from requests only: a reply nobody asked for is not learnt.
        let sender = packet.sender_ip.into();
        let slot = match self.resolver.cache.find(interface, sender) {
            None if to_us && request => self.resolver.find_or_insert(interface, sender, cx),
            found => found,
        };
        let Some((slot, neighbour)) = slot.and_then(|slot| Some((slot, self.resolver.cache.get_mut(slot)?))) else { return };
        neighbour.expire(cx.now);
        if neighbour.state == Nud::Permanent {
            return;
        }
        let known = neighbour.has_mac();
        // Linux arp_process: "If several different ARP replies follows back-to-back, use the FIRST one."
        if known && neighbour.mac != packet.sender_mac && cx.now < neighbour.updated + self.lock_time {
            return;
        }
        // "Broadcast replies and request packets do not assert neighbour reachability."
        let confirmed = !request && unicast;
        if !confirmed && known && neighbour.mac == packet.sender_mac {
            return;
        }
        self.resolver.learn(slot, packet.sender_mac, confirmed, cx);
    }

    /// Looks which of the node's addresses are new, and announces those.
    fn look_at_addresses(&mut self, cx: &mut Context<'_>) {
        let Answer::Addresses(list) = cx.ask(Table::Addresses(Family::V4), &Query::Addresses) else { return };
        let own = |address: &weft_core::table::Address| match address.address {
            IpAddr::V4(ip) if !ip.is_loopback() => Some((address.interface, ip)),
            _ => None,
        };
        let now: BTreeSet<_> = list.iter().filter_map(own).take(ANNOUNCED_MAX).collect();
        let fresh: Vec<_> = now.difference(&self.announced).copied().collect();
        self.announced = now;
        self.begin_announcing(fresh, cx);
    }

    /// The same for one address that came or went.
    fn look_at_address(&mut self, (interface, ip): (InterfaceIndex, Ipv4Addr), cx: &mut Context<'_>) {
        let Answer::Addresses(list) = cx.ask(Table::Addresses(Family::V4), &Query::Address(interface, ip.into())) else { return };
        if list.is_empty() {
            self.announced.remove(&(interface, ip));
        } else if !ip.is_loopback() && self.announced.len() < ANNOUNCED_MAX && self.announced.insert((interface, ip)) {
            self.begin_announcing(vec![(interface, ip)], cx);
        }
    }

    fn begin_announcing(&mut self, fresh: Vec<(InterfaceIndex, Ipv4Addr)>, cx: &mut Context<'_>) {
        if self.announcements == 0 || fresh.is_empty() {
            return;
        }
        self.announcing.extend(fresh.into_iter().map(|(interface, address)| (interface, address, self.announcements)));
        self.announce_at = cx.now;
        cx.set_timer(TOKEN_ANNOUNCE, self.announce_at);
    }

    /// RFC 5227 §2.3: "An ARP Announcement is identical to the ARP Probe described above, except that now the sender and target IP
    /// addresses are both set to the host's newly selected IPv4 address."
    fn announce(&mut self, cx: &mut Context<'_>) {
        self.announce_at = Instant::FAR_FUTURE;
        let due = std::mem::take(&mut self.announcing);
        for (interface, address, left) in due {
            let Some(facts) = self.facts.get(interface, cx).filter(|facts| facts.link == LinkType::Ethernet) else { continue };
            let sender_mac = facts.mac;
            self.resolver.counters[OUT_REQUESTS] += 1;
            let packet =
                Packet { operation: Operation::Request, sender_mac, sender_ip: address, target_mac: Mac::ZERO, target_ip: address };
            send(packet, interface, Mac::BROADCAST, cx);
            if left > 1 {
                self.announcing.push((interface, address, left - 1));
            }
        }
        if !self.announcing.is_empty() {
            self.announce_at = cx.now + ANNOUNCE_INTERVAL;
            cx.set_timer(TOKEN_ANNOUNCE, self.announce_at);
        }
    }
}

fn parse_address(arguments: &Arguments<'_>, name: &str) -> Result<Option<IpAddr>, ControlError> {
    Ok(arguments.address(name)?.map(IpAddr::V4))
}

fn address_kind(address: Ipv4Addr, cx: &Context<'_>) -> AddressKind {
    match cx.ask(Table::Addresses(Family::V4), &Query::AddressKind(address.into())) {
        Answer::AddressKind(kind) => kind,
        _ => AddressKind::Other,
    }
}

/// Linux arp_solicit with arp_announce 0: the packet's source when it is ours, else the one that routing would choose.
fn source_for(wanted: IpAddr, interface: InterfaceIndex, target: Ipv4Addr, cx: &Context<'_>) -> Ipv4Addr {
    if let IpAddr::V4(source) = wanted
        && !source.is_unspecified()
        && matches!(address_kind(source, cx), AddressKind::Local(_))
    {
        return source;
    }
    let query = Query::Route {
        destination: target.into(),
        source: None,
        interface: Some(interface),
        traffic: weft_core::table::Traffic::default(),
    };
    match cx.route(&query, Family::V4).map(|answer| answer.source) {
        Some(IpAddr::V4(source)) => source,
        _ => Ipv4Addr::UNSPECIFIED,
    }
}

fn send(packet: Packet, interface: InterfaceIndex, to: Mac, cx: &mut Context<'_>) {
    let mut frame = Frame::egress();
    let mut bytes = [0; arp::LEN];
    packet.emit(&mut bytes);
    frame.extend(&bytes);
    let meta = frame.meta_mut();
    meta.interface = interface;
    meta.ether_type = EtherType::ARP;
    meta.dst_mac = to;
    cx.emit(OUT_LOWER, frame);
}

impl Block for Arp {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn process(&mut self, port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        if port != IN_UPPER {
            return vector.each(|frame| self.receive(frame, cx));
        }
        for (slot, frame) in sort(vector, |frame| self.resolve(frame, cx)) {
            self.resolver.wait(slot, frame, cx);
        }
    }

    fn timer(&mut self, token: u64, cx: &mut Context<'_>) {
        if token == TOKEN_ANNOUNCE {
            return self.announce(cx);
        }
        if let Some(solicitation) = self.resolver.timer(token as u32, cx) {
            self.solicit(solicitation, cx);
        }
    }

    fn change(&mut self, _table: Table, change: Change, cx: &mut Context<'_>) {
        if let Change::Confirm { interface, neighbour } = change {
            self.resolver.confirm(interface, neighbour, cx);
        }
    }

    fn started(&mut self, cx: &mut Context<'_>) {
        self.facts.refresh(cx);
        if std::mem::take(&mut self.resumed) {
            self.resolver.resume(cx);
            if self.announce_at != Instant::FAR_FUTURE {
                cx.set_timer(TOKEN_ANNOUNCE, self.announce_at);
            }
        }
    }

    fn table_changed(&mut self, table: Table, cx: &mut Context<'_>) {
        match table {
            Table::Interfaces => {
                if !self.facts.refresh(cx) {
                    return;
                }
                for interface in self.resolver.cache.interfaces() {
                    self.facts.get(interface, cx);
                }
                let facts = &self.facts;
                self.resolver.forget_interfaces(|interface| facts.peek(interface).is_none_or(|facts| !facts.up), cx);
                self.resolver.forget_learnt(|interface| facts.peek(interface).is_some_and(|facts| !facts.carrier), cx);
            }
            Table::Addresses(Family::V4) => self.look_at_addresses(cx),
            _ => {}
        }
    }

    fn row_changed(&mut self, table: Table, row: Row, cx: &mut Context<'_>) {
        match (table, row) {
            (_, Row::Interface(interface)) => {
                let known = self.facts.refresh_one(interface, cx);
                match self.facts.get(interface, cx) {
                    Some(facts) if facts.up && facts.carrier => {}
                    Some(facts) if facts.up => self.resolver.forget_learnt(|other| other == interface, cx),
                    _ if known => self.resolver.forget_interfaces(|other| other == interface, cx),
                    _ => {}
                }
            }
            (Table::Addresses(Family::V4), Row::Address(interface, IpAddr::V4(ip))) => self.look_at_address((interface, ip), cx),
            _ => {}
        }
    }

    fn query(&self, query: &Query, now: Instant) -> Answer {
        match query {
            Query::List(Table::Neighbours(Family::V4)) => Answer::List(self.resolver.cache.rows(now)),
            _ => Answer::None,
        }
    }

    fn get(&self, name: &str, _now: Instant) -> Option<Value> {
        match name {
            "lock_time" => Some(Value::from(self.lock_time.as_nanos() as u64)),
            "announcements" => Some(self.announcements.into()),
            _ => self.resolver.limits.get(name),
        }
    }

    fn set(&mut self, name: &str, value: Value, _cx: &mut Context<'_>) {
        let Some(number) = value.as_u64() else { return };
        match name {
            "lock_time" => self.lock_time = Duration::from_nanos(number),
            "announcements" => self.announcements = number as u32,
            _ => self.resolver.limits.set(name, number),
        }
    }

    fn exec(&mut self, procedure: &str, arguments: &Value, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        match procedure {
            "add" => self.resolver.add(&self.name, arguments, parse_address, cx),
            "delete" => self.resolver.delete(&self.name, arguments, parse_address, cx),
            "flush" => self.resolver.flush(&self.name, arguments, cx),
            _ => Err(self.kind().no_procedure(&self.name, procedure)),
        }
    }

    fn counters(&self) -> &[u64] {
        &self.resolver.counters
    }

    fn export(&self, now: Instant) -> Result<State, StateError> {
        let Arp { name: _, lock_time: _, announcements: _, facts: _, resumed: _, resolver, announced, announcing, announce_at } = self;
        Ok(State::written(&KIND, now, |out| {
            resolver.export(out);
            out.put(announced);
            out.put(announcing);
            out.put(announce_at);
        }))
    }

    fn import(&mut self, state: &State, now: Instant) -> Result<(), StateError> {
        let (resolver, announced, announcing, announce_at) = state
            .taken(&KIND, now, |from| Ok((self.resolver.read(from)?, from.take::<BTreeSet<_>>()?, from.take::<Vec<_>>()?, from.take()?)))?;
        if announced.len() > ANNOUNCED_MAX || announcing.len() > ANNOUNCED_MAX {
            return Err(Damage::new("more announcements than can be").of(KIND.name));
        }
        self.resolver.take_over(resolver);
        (self.announced, self.announcing, self.announce_at, self.resumed) = (announced, announcing, announce_at, true);
        Ok(())
    }

    fn give_up(&mut self) -> Vec<Frame> {
        self.resolver.cache.give_up()
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
