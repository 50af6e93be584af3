//! Address resolution for IPv4 over Ethernet: ARP, with the neighbour states of Linux.
//!
//! Packets that IP has routed come in through `upper` with `meta.next_hop`; they leave through `lower` with `meta.dst_mac`. While an
//! address is being resolved they wait in a bounded queue at their neighbour; when nobody answers they leave through `failed` with the error
//! host unreachable. ARP packets come in and go out through `lower`.
//!
//! States (Linux `NUD_*`, net/core/neighbour.c): INCOMPLETE asks by broadcast, `retransmit_time` apart, `solicitations` times; REACHABLE
//! holds for a random time between 0.5 and 1.5 `reachable_time`; then the entry is STALE and still used: the first packet moves it to
//! DELAY, and after `delay_time` without a confirmation to PROBE, which asks by unicast. FAILED starts again with the next packet.
//! PERMANENT entries are set by `add` and never change.
//!
//! It refuses to learn from packets that are not for this node unless the entry exists already; to learn group addresses as link-layer
//! addresses; and to let a second answer replace a first one within `lock_time` (Linux `locktime`).
//!
//! Standards: RFC 826; RFC 1122 §2.3.2.1 and §2.3.2.2 (at least one packet is kept); RFC 5227 (§2.3 announcements by `announcements`,
//! probes are answered, conflicts counted and reported; addresses are not defended, as in Linux).

mod cache;

use crate::arguments::Arguments;
use crate::facts::{FactsCache, find_interface};
use cache::{Cache, Neighbour, Nud};
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use weft_core::table::{AddressKind, Family, LinkType};
use weft_core::*;
use weft_wire::arp::{self, Operation, Packet};
use weft_wire::ethernet::{EtherType, Mac};

const IN_UPPER: InPort = InPort(0);
const OUT_LOWER: OutPort = OutPort(0);
const OUT_FAILED: OutPort = OutPort(1);

/// Timer tokens from here on are announcements; below they are slots of the cache.
const TOKEN_ANNOUNCE: u64 = 1 << 32;
/// RFC 5227 §1.1: ANNOUNCE_INTERVAL, "time between Announcement packets".
const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(2);
/// Most addresses that are remembered as announced.
const ANNOUNCED_MAX: usize = 4096;

const fn time(name: &'static str, default: &'static str, doc: &'static str) -> Parameter {
    Parameter { name, value: ParameterType::Duration, default, live: true, doc }
}

const fn number(name: &'static str, min: u64, max: u64, default: &'static str, doc: &'static str) -> Parameter {
    Parameter { name, value: ParameterType::Unsigned { min, max }, default, live: true, doc }
}

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
        time("reachable_time", "\"30s\"", "mean time that a confirmed neighbour counts as reachable (Linux base_reachable_time)"),
        time("retransmit_time", "\"1s\"", "time between two requests (Linux retrans_time)"),
        time("delay_time", "\"5s\"", "time before a stale neighbour in use is probed (Linux delay_first_probe_time)"),
        time("stale_time", "\"60s\"", "unused entries older than this are collected (Linux gc_stale_time)"),
        time("lock_time", "\"1s\"", "a changed address is not changed again for this long (Linux locktime)"),
        number("solicitations", 1, 20, "3", "requests by broadcast before a neighbour has failed, and by unicast when probing"),
        number("pending_frames_max", 1, 10_000, "101", "packets that wait for one neighbour (Linux unres_qlen)"),
        number("pending_bytes_max", 1_500, 100_000_000, "212992", "bytes that wait for one neighbour (Linux unres_qlen_bytes)"),
        number("entries_max", 1, 1_000_000, "1024", "neighbours that are remembered (Linux gc_thresh3)"),
        number("collect_above", 0, 1_000_000, "128", "nothing is collected below this number of neighbours (Linux gc_thresh1)"),
        number(
            "announcements",
            0,
            10,
            "0",
            "gratuitous requests sent when an address is added (RFC 5227 2.3 says 2; Linux arp_notify says 0)",
        ),
    ],
    procedures: &[
        Named { name: "add", doc: "interface, address, mac: sets a permanent neighbour" },
        Named { name: "delete", doc: "interface, address: forgets a neighbour" },
        Named { name: "flush", doc: "interface?: forgets all neighbours but permanent ones" },
    ],
    alerts: &[Named { name: "conflict", doc: "interface, address, mac: another station uses one of this node's addresses" }],
    counters: &[
        Counter { name: "InRequests", text: "requests received" },
        Counter { name: "InReplies", text: "replies received" },
        Counter { name: "InErrors", text: "malformed ARP packets, or with impossible addresses" },
        Counter { name: "OutRequests", text: "requests sent" },
        Counter { name: "OutReplies", text: "replies sent" },
        Counter { name: "Lookups", text: "packets that were not for the neighbour of the packet before" },
        Counter { name: "Pended", text: "packets that had to wait for an address" },
        Counter { name: "PendingDropped", text: "waiting packets dropped because too many waited (Linux unres_discards)" },
        Counter { name: "Failed", text: "resolutions that nobody answered (Linux res_failed)" },
        Counter { name: "Conflicts", text: "packets from another station that claims one of our addresses" },
        Counter { name: "Collected", text: "entries collected to make room (Linux forced_gc_runs counts runs)" },
        Counter { name: "TableFull", text: "packets dropped because no entry could be collected (Linux table_fulls)" },
    ],
    owns: &[Table::Neighbours(Family::V4)],
    state_version: 1,
};

const IN_REQUESTS: usize = 0;
const IN_REPLIES: usize = 1;
const IN_ERRORS: usize = 2;
const OUT_REQUESTS: usize = 3;
const OUT_REPLIES: usize = 4;
const LOOKUPS: usize = 5;
const PENDED: usize = 6;
const PENDING_DROPPED: usize = 7;
const FAILED: usize = 8;
const CONFLICTS: usize = 9;
const COLLECTED: usize = 10;
const TABLE_FULL: usize = 11;

/// How to make one.
pub const ROW: BlockRow = BlockRow { kind: &KIND, make: |config| Ok(Box::new(Arp::new(config))) };

/// Parameters.
#[derive(Clone, Debug)]
struct Limits {
    reachable_time: Duration,
    retransmit_time: Duration,
    delay_time: Duration,
    stale_time: Duration,
    lock_time: Duration,
    solicitations: u32,
    pending_frames_max: usize,
    pending_bytes_max: usize,
    entries_max: usize,
    collect_above: usize,
    announcements: u32,
}

/// The block.
#[derive(Debug)]
pub struct Arp {
    name: String,
    limits: Limits,
    cache: Cache,
    facts: FactsCache,
    /// The neighbour of the last packet: most packets have the same.
    last: u32,
    announced: BTreeSet<(InterfaceIndex, Ipv4Addr)>,
    /// Announcements still to come.
    announcing: Vec<(InterfaceIndex, Ipv4Addr, u32)>,
    counters: [u64; 12],
}

#[derive(Serialize, Deserialize)]
struct Exported {
    neighbours: Vec<cache::ExportedNeighbour>,
    announced: Vec<(InterfaceIndex, Ipv4Addr)>,
}

impl Arp {
    /// An empty cache.
    pub fn new(config: &mut Config) -> Arp {
        let limits = Limits {
            reachable_time: config.duration("reachable_time"),
            retransmit_time: config.duration("retransmit_time"),
            delay_time: config.duration("delay_time"),
            stale_time: config.duration("stale_time"),
            lock_time: config.duration("lock_time"),
            solicitations: config.u64("solicitations") as u32,
            pending_frames_max: config.u64("pending_frames_max") as usize,
            pending_bytes_max: config.u64("pending_bytes_max") as usize,
            entries_max: config.u64("entries_max") as usize,
            collect_above: config.u64("collect_above") as usize,
            announcements: config.u64("announcements") as u32,
        };
        Arp {
            name: config.name.clone(),
            limits,
            cache: Cache::new(KeyedHasher::new(&mut config.rng)),
            facts: FactsCache::default(),
            last: 0,
            announced: BTreeSet::new(),
            announcing: Vec::new(),
            counters: [0; 12],
        }
    }

    /// A packet to send. `None`: the frame must be kept (or was lost), and the caller takes it out.
    fn resolve(&mut self, frame: &mut Frame, cx: &mut Context<'_>) -> Resolved {
        let meta = frame.meta();
        let IpAddr::V4(address) = meta.next_hop.unwrap_or(meta.dst) else { return Resolved::Verdict(Verdict::Drop(Reason::BadPacket)) };
        let interface = meta.interface;
        if let Some(neighbour) = self.cache.get_mut(self.last)
            && neighbour.address == address
            && neighbour.interface == interface
            && neighbour.usable_at(cx.now)
        {
            neighbour.used = cx.now;
            frame.meta_mut().dst_mac = neighbour.mac;
            return Resolved::Verdict(Verdict::Forward(OUT_LOWER));
        }
        self.counters[LOOKUPS] += 1;
        // RFC 1112 §6.4 for groups; RFC 1122 §2.3.2: broadcasts need no resolution.
        let by_rule = match address {
            address if address.is_broadcast() => Some(Mac::BROADCAST),
            address if address.is_multicast() => Some(Mac::from_multicast_v4(address)),
            _ => None,
        };
        let Some(facts) = self.facts.get(interface, cx) else { return Resolved::Verdict(Verdict::Drop(Reason::UnknownInterface)) };
        if facts.link != LinkType::Ethernet {
            return Resolved::Verdict(Verdict::Forward(OUT_LOWER));
        }
        if let Some(mac) = by_rule {
            frame.meta_mut().dst_mac = mac;
            return Resolved::Verdict(Verdict::Forward(OUT_LOWER));
        }
        self.resolve_neighbour(interface, address, frame, cx)
    }

    fn resolve_neighbour(&mut self, interface: InterfaceIndex, address: Ipv4Addr, frame: &mut Frame, cx: &mut Context<'_>) -> Resolved {
        let slot = match self.cache.find(interface, address) {
            Some(slot) => slot,
            None => match self.insert(interface, address, cx) {
                Some(slot) => slot,
                None => return Resolved::Verdict(Verdict::Drop(Reason::TableFull)),
            },
        };
        self.last = slot;
        let delay = cx.now + self.limits.delay_time;
        let source = frame.meta().src;
        let Some(neighbour) = self.cache.get_mut(slot) else { return Resolved::Verdict(Verdict::Drop(Reason::TableFull)) };
        neighbour.used = cx.now;
        neighbour.expire(cx.now);
        match neighbour.state {
            Nud::Reachable | Nud::Permanent | Nud::Delay | Nud::Probe => {}
            Nud::Stale => {
                neighbour.state = Nud::Delay;
                neighbour.source = source;
                cx.set_timer(u64::from(slot), delay);
            }
            Nud::Incomplete => return Resolved::Wait(slot),
            Nud::Failed => {
                neighbour.state = Nud::Incomplete;
                neighbour.source = source;
                neighbour.probes = 0;
                self.solicit(slot, cx);
                return Resolved::Wait(slot);
            }
        }
        let mac = neighbour.mac;
        frame.meta_mut().dst_mac = mac;
        Resolved::Verdict(Verdict::Forward(OUT_LOWER))
    }

    /// A new entry in state FAILED, which the first packet moves on.
    fn insert(&mut self, interface: InterfaceIndex, address: Ipv4Addr, cx: &mut Context<'_>) -> Option<u32> {
        let full = self.cache.len() >= self.limits.entries_max;
        if full || self.cache.len() >= self.limits.collect_above {
            let collected = self.cache.collect(cx.now, self.limits.stale_time, full);
            self.counters[COLLECTED] += collected.len() as u64;
            for slot in collected {
                cx.cancel_timer(u64::from(slot));
            }
        }
        if self.cache.len() >= self.limits.entries_max {
            self.counters[TABLE_FULL] += 1;
            return None;
        }
        Some(self.cache.insert(Neighbour::new(interface, address, cx.now)))
    }

    fn wait(&mut self, slot: u32, frame: Frame, cx: &mut Context<'_>) {
        self.counters[PENDED] += 1;
        let Some(neighbour) = self.cache.get_mut(slot) else { return cx.drop(frame, Reason::NeighbourFailed) };
        neighbour.pending.push(frame);
        // RFC 1122 §2.3.2.2: "The link layer SHOULD save (rather than discard) at least one (the latest) packet of each set of packets
        // destined to the same unresolved IP address".
        while neighbour.pending.exceeds(self.limits.pending_frames_max, self.limits.pending_bytes_max) {
            let Some(oldest) = neighbour.pending.pop() else { break };
            self.counters[PENDING_DROPPED] += 1;
            cx.drop(oldest, Reason::NeighbourPendingFull);
        }
    }

    /// Sends the next request for a neighbour that is INCOMPLETE (broadcast) or in PROBE (unicast), or gives up.
    fn solicit(&mut self, slot: u32, cx: &mut Context<'_>) {
        let Some(neighbour) = self.cache.get_mut(slot) else { return };
        if neighbour.probes >= self.limits.solicitations {
            return self.fail(slot, cx);
        }
        neighbour.probes += 1;
        let (interface, target_ip, wanted) = (neighbour.interface, neighbour.address, neighbour.source);
        let to = if neighbour.state == Nud::Probe { neighbour.mac } else { Mac::BROADCAST };
        cx.set_timer(u64::from(slot), cx.now + self.limits.retransmit_time);
        let Some(sender_mac) = self.facts.get(interface, cx).map(|facts| facts.mac) else { return };
        let sender_ip = source_for(wanted, interface, target_ip, cx);
        self.counters[OUT_REQUESTS] += 1;
        let packet = Packet { operation: Operation::Request, sender_mac, sender_ip, target_mac: Mac::ZERO, target_ip };
        send(packet, interface, to, cx);
    }

    /// Nobody answered: waiting packets go to whoever tells their senders.
    fn fail(&mut self, slot: u32, cx: &mut Context<'_>) {
        self.counters[FAILED] += 1;
        let Some(neighbour) = self.cache.get_mut(slot) else { return };
        neighbour.state = Nud::Failed;
        neighbour.probes = 0;
        neighbour.updated = cx.now;
        for mut frame in std::mem::take(&mut neighbour.pending) {
            if cx.is_bound(OUT_FAILED) {
                let from = frame.meta().src;
                frame.meta_mut().error = Some(IcmpError { kind: IcmpErrorKind::HostUnreachable, from });
                cx.emit(OUT_FAILED, frame);
            } else {
                cx.drop(frame, Reason::NeighbourFailed);
            }
        }
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
                self.counters[IN_ERRORS] += 1;
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
            self.counters[IN_ERRORS] += 1;
            return Verdict::Drop(Reason::BadPacket);
        }
        self.counters[operation] += 1;
        let to_us = matches!(address_kind(packet.target_ip, cx), AddressKind::Local(_));
        if packet.sender_mac != own {
            self.detect_conflict(&packet, interface, cx);
            self.learn(&packet, interface, to_us, frame.meta().dst_mac == own, cx);
        }
        // RFC 826: "Am I the target protocol address?" … "Is the opcode ares_op$REQUEST?" … "Swap hardware and protocol fields,
        // putting the local hardware and protocol addresses in the sender fields." RFC 5227 probes have sender address 0 and are answered.
        if to_us && operation == IN_REQUESTS && packet.sender_mac != own && packet.sender_ip != packet.target_ip {
            self.counters[OUT_REPLIES] += 1;
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
        self.counters[CONFLICTS] += 1;
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
        let slot = match self.cache.find(interface, packet.sender_ip) {
            Some(slot) => slot,
            None if to_us && request => match self.insert(interface, packet.sender_ip, cx) {
                Some(slot) => slot,
                None => return,
            },
            None => return,
        };
        let Some(neighbour) = self.cache.get_mut(slot) else { return };
        neighbour.expire(cx.now);
        if neighbour.state == Nud::Permanent {
            return;
        }
        let known = neighbour.has_mac();
        // Linux arp_process: "If several different ARP replies follows back-to-back, use the FIRST one."
        if known && neighbour.mac != packet.sender_mac && cx.now < neighbour.updated + self.limits.lock_time {
            return;
        }
        // "Broadcast replies and request packets do not assert neighbour reachability."
        let confirmed = !request && unicast;
        if !confirmed && known && neighbour.mac == packet.sender_mac {
            return;
        }
        let random = cx.rng.unit();
        neighbour.mac = packet.sender_mac;
        neighbour.updated = cx.now;
        neighbour.probes = 0;
        neighbour.state = if confirmed { Nud::Reachable } else { Nud::Stale };
        // RFC 4861 §6.3.2, which Linux follows for ARP too: "a uniformly distributed random value between MIN_RANDOM_FACTOR (.5) and
        // MAX_RANDOM_FACTOR (1.5) times BaseReachableTime".
        neighbour.reachable_until = cx.now + self.limits.reachable_time.mul_f64(0.5 + random);
        cx.cancel_timer(u64::from(slot));
        let mac = neighbour.mac;
        let waiting = std::mem::take(&mut neighbour.pending);
        if !confirmed && !waiting.is_empty() {
            neighbour.state = Nud::Delay;
            cx.set_timer(u64::from(slot), cx.now + self.limits.delay_time);
        }
        for mut frame in waiting {
            frame.meta_mut().dst_mac = mac;
            cx.emit(OUT_LOWER, frame);
        }
    }

    /// Looks which of the node's addresses are new, and announces those.
    fn look_at_addresses(&mut self, cx: &mut Context<'_>) {
        let Answer::List(rows) = cx.ask(Table::Addresses(Family::V4), &Query::List(Table::Addresses(Family::V4))) else { return };
        let address_of = |row: &Value| -> Option<(InterfaceIndex, Ipv4Addr)> {
            let interface = u32::try_from(row.get("interface")?.as_u64()?).ok()?;
            Some((InterfaceIndex(interface), row.get("address")?.as_str()?.parse().ok()?))
        };
        let now: BTreeSet<_> =
            rows.iter().filter_map(address_of).filter(|(_, address)| !address.is_loopback()).take(ANNOUNCED_MAX).collect();
        let fresh: Vec<_> = now.difference(&self.announced).copied().collect();
        self.announced = now;
        if self.limits.announcements == 0 || fresh.is_empty() {
            return;
        }
        self.announcing.extend(fresh.into_iter().map(|(interface, address)| (interface, address, self.limits.announcements)));
        cx.set_timer(TOKEN_ANNOUNCE, cx.now);
    }

    /// RFC 5227 §2.3: "An ARP Announcement is identical to the ARP Probe described above, except that now the sender and target IP
    /// addresses are both set to the host's newly selected IPv4 address."
    fn announce(&mut self, cx: &mut Context<'_>) {
        let due = std::mem::take(&mut self.announcing);
        for (interface, address, left) in due {
            let Some(facts) = self.facts.get(interface, cx).filter(|facts| facts.link == LinkType::Ethernet) else { continue };
            let sender_mac = facts.mac;
            self.counters[OUT_REQUESTS] += 1;
            let packet =
                Packet { operation: Operation::Request, sender_mac, sender_ip: address, target_mac: Mac::ZERO, target_ip: address };
            send(packet, interface, Mac::BROADCAST, cx);
            if left > 1 {
                self.announcing.push((interface, address, left - 1));
            }
        }
        if !self.announcing.is_empty() {
            cx.set_timer(TOKEN_ANNOUNCE, cx.now + ANNOUNCE_INTERVAL);
        }
    }

    fn forget(&mut self, slot: u32, cx: &mut Context<'_>) {
        cx.cancel_timer(u64::from(slot));
        for frame in self.cache.remove(slot).map(|neighbour| neighbour.pending).into_iter().flatten() {
            cx.drop(frame, Reason::NeighbourFailed);
        }
    }

    fn add(&mut self, value: &Value, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        let block = self.name.clone();
        let arguments = Arguments::new(&block, "add", value, &["interface", "address", "mac"])?;
        let (interface, address) = self.target(&arguments, cx)?;
        let mac = arguments.mac("mac")?.ok_or_else(|| arguments.fail("mac is missing"))?;
        let slot = self.cache.find(interface, address).or_else(|| self.insert(interface, address, cx));
        let Some(neighbour) = slot.and_then(|slot| self.cache.get_mut(slot)) else {
            return Err(ControlError::Limit { what: "neighbours".to_owned(), max: self.limits.entries_max as u64 });
        };
        neighbour.mac = mac;
        neighbour.state = Nud::Permanent;
        neighbour.updated = cx.now;
        for mut frame in std::mem::take(&mut neighbour.pending) {
            frame.meta_mut().dst_mac = mac;
            cx.emit(OUT_LOWER, frame);
        }
        cx.cancel_timer(u64::from(slot.unwrap_or(0)));
        Ok(Value::Null)
    }

    fn delete(&mut self, value: &Value, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        let block = self.name.clone();
        let arguments = Arguments::new(&block, "delete", value, &["interface", "address"])?;
        let (interface, address) = self.target(&arguments, cx)?;
        let Some(slot) = self.cache.find(interface, address) else {
            return Err(arguments.fail(format!("ENOENT: {address} is no neighbour on that interface")));
        };
        self.forget(slot, cx);
        Ok(Value::Null)
    }

    fn flush(&mut self, value: &Value, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        let block = self.name.clone();
        let arguments = Arguments::new(&block, "flush", value, &["interface"])?;
        let only = arguments.value("interface").map(|value| find_interface(value, cx)).transpose().map_err(|why| arguments.fail(why))?;
        let fits = |neighbour: &Neighbour| neighbour.state != Nud::Permanent && only.is_none_or(|only| neighbour.interface == only);
        for slot in self.cache.slots_where(fits) {
            self.forget(slot, cx);
        }
        Ok(Value::Null)
    }

    fn target(&self, arguments: &Arguments<'_>, cx: &Context<'_>) -> Result<(InterfaceIndex, Ipv4Addr), ControlError> {
        let interface = arguments.value("interface").ok_or_else(|| arguments.fail("interface is missing"))?;
        let interface = find_interface(interface, cx).map_err(|why| arguments.fail(why))?;
        let address = arguments.address("address")?.ok_or_else(|| arguments.fail("address is missing"))?;
        Ok((interface, address))
    }
}

/// What becomes of a packet to send.
enum Resolved {
    Verdict(Verdict),
    /// It waits at this neighbour.
    Wait(u32),
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
    let query = Query::Route { destination: target.into(), source: None, interface: Some(interface) };
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
        let mut waiting: Vec<(usize, u32)> = Vec::new();
        let mut index = 0;
        vector.each(|frame| {
            index += 1;
            match self.resolve(frame, cx) {
                Resolved::Verdict(verdict) => verdict,
                Resolved::Wait(slot) => {
                    // Taken out below; `each` lends the frame only. No frame of this vector was taken before, so positions are indices.
                    waiting.push((index - 1, slot));
                    Verdict::Consumed
                }
            }
        });
        for (index, slot) in waiting {
            if let Some(frame) = vector.take(index) {
                self.wait(slot, frame, cx);
            }
        }
    }

    fn timer(&mut self, token: u64, cx: &mut Context<'_>) {
        if token >= TOKEN_ANNOUNCE {
            return self.announce(cx);
        }
        let slot = token as u32;
        let Some(neighbour) = self.cache.get_mut(slot) else { return };
        match neighbour.state {
            Nud::Delay => {
                neighbour.state = Nud::Probe;
                neighbour.probes = 0;
                self.solicit(slot, cx);
            }
            Nud::Incomplete | Nud::Probe => self.solicit(slot, cx),
            Nud::Reachable | Nud::Stale | Nud::Failed | Nud::Permanent => {}
        }
    }

    fn started(&mut self, cx: &mut Context<'_>) {
        self.facts.refresh(cx);
    }

    fn table_changed(&mut self, table: Table, cx: &mut Context<'_>) {
        match table {
            Table::Interfaces => {
                if !self.facts.refresh(cx) {
                    return;
                }
                for interface in self.cache.interfaces() {
                    self.facts.get(interface, cx);
                }
                let facts = &self.facts;
                let gone = self.cache.slots_where(|neighbour| facts.peek(neighbour.interface).is_none_or(|facts| !facts.up));
                for slot in gone {
                    self.forget(slot, cx);
                }
            }
            Table::Addresses(Family::V4) => self.look_at_addresses(cx),
            _ => {}
        }
    }

    fn query(&self, query: &Query, now: Instant) -> Answer {
        match query {
            Query::List(Table::Neighbours(Family::V4)) => Answer::List(self.cache.rows(now)),
            _ => Answer::None,
        }
    }

    fn get(&self, name: &str, _now: Instant) -> Option<Value> {
        let nanos = |span: Duration| Some(Value::from(span.as_nanos() as u64));
        match name {
            "reachable_time" => nanos(self.limits.reachable_time),
            "retransmit_time" => nanos(self.limits.retransmit_time),
            "delay_time" => nanos(self.limits.delay_time),
            "stale_time" => nanos(self.limits.stale_time),
            "lock_time" => nanos(self.limits.lock_time),
            "solicitations" => Some(self.limits.solicitations.into()),
            "pending_frames_max" => Some(self.limits.pending_frames_max.into()),
            "pending_bytes_max" => Some(self.limits.pending_bytes_max.into()),
            "entries_max" => Some(self.limits.entries_max.into()),
            "collect_above" => Some(self.limits.collect_above.into()),
            "announcements" => Some(self.limits.announcements.into()),
            _ => None,
        }
    }

    fn set(&mut self, name: &str, value: Value, _cx: &mut Context<'_>) {
        let Some(number) = value.as_u64() else { return };
        let span = Duration::from_nanos(number);
        match name {
            "reachable_time" => self.limits.reachable_time = span,
            "retransmit_time" => self.limits.retransmit_time = span,
            "delay_time" => self.limits.delay_time = span,
            "stale_time" => self.limits.stale_time = span,
            "lock_time" => self.limits.lock_time = span,
            "solicitations" => self.limits.solicitations = number as u32,
            "pending_frames_max" => self.limits.pending_frames_max = number as usize,
            "pending_bytes_max" => self.limits.pending_bytes_max = number as usize,
            "entries_max" => self.limits.entries_max = number as usize,
            "collect_above" => self.limits.collect_above = number as usize,
            "announcements" => self.limits.announcements = number as u32,
            _ => {}
        }
    }

    fn exec(&mut self, procedure: &str, arguments: &Value, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        match procedure {
            "add" => self.add(arguments, cx),
            "delete" => self.delete(arguments, cx),
            "flush" => self.flush(arguments, cx),
            _ => Err(ControlError::NoProcedure { block: self.name.clone(), procedure: procedure.to_owned() }),
        }
    }

    fn counters(&self) -> &[u64] {
        &self.counters
    }

    fn export(&self, now: Instant) -> Result<State, StateError> {
        let announced = self.announced.iter().copied().collect();
        State::write(KIND.name, KIND.state_version, &Exported { neighbours: self.cache.export(now), announced })
    }

    fn import(&mut self, state: &State, now: Instant) -> Result<(), StateError> {
        let read: Exported = state.read(KIND.name, KIND.state_version)?;
        if read.neighbours.len() > self.limits.entries_max || read.announced.len() > ANNOUNCED_MAX {
            return Err(StateError::Damaged { kind: KIND.name.to_owned(), why: "more neighbours than entries_max".to_owned() });
        }
        self.cache.import(read.neighbours, now);
        self.announced = read.announced.into_iter().collect();
        Ok(())
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
