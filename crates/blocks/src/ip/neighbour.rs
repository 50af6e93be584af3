//! What address resolution by ARP and by neighbour discovery share: the neighbour cache, Linux's states and their timers
//! (`NUD_*`, net/core/neighbour.c), the queue of waiting packets, the bounds.
//!
//! A [`Resolver`] knows no packet format. It says when to ask ([`Solicitation`]) and is told what was learnt; its block builds and
//! reads the packets.
//!
//! States: INCOMPLETE asks everybody, `retransmit_time` apart, `solicitations` times; REACHABLE holds for a random time between 0.5 and
//! 1.5 `reachable_time`; then the entry is STALE and still used: the first packet moves it to DELAY, and after `delay_time` without a
//! confirmation to PROBE, which asks the neighbour alone. FAILED starts again with the next packet. PERMANENT entries are set by
//! procedure and never change.

pub(super) mod cache;

use crate::arguments::Arguments;
use crate::facts::find_interface;
use cache::{Cache, Neighbour, Nud};
use std::collections::BTreeMap;
use std::net::IpAddr;
use weft_core::state::{Damage, Reader, Writer};
use weft_core::*;
use weft_wire::ethernet::Mac;

pub(super) const OUT_LOWER: OutPort = OutPort(0);
pub(super) const OUT_FAILED: OutPort = OutPort(1);

/// Timer tokens from here on are the block's; below they are slots of the cache.
pub(super) const TOKEN_OF_BLOCK: u64 = 1 << 32;

const fn time(name: &'static str, default: &'static str, doc: &'static str) -> Parameter {
    Parameter { name, value: ParameterType::Duration, default, live: true, doc }
}

const fn number(name: &'static str, min: u64, max: u64, default: &'static str, doc: &'static str) -> Parameter {
    Parameter { name, value: ParameterType::Unsigned { min, max }, default, live: true, doc }
}

/// Parameters of every resolving block.
pub(super) mod parameter {
    use super::{Parameter, number, time};
    pub const REACHABLE_TIME: Parameter =
        time("reachable_time", "\"30s\"", "mean time that a confirmed neighbour counts as reachable (Linux base_reachable_time)");
    pub const RETRANSMIT_TIME: Parameter = time("retransmit_time", "\"1s\"", "time between two requests (Linux retrans_time)");
    pub const DELAY_TIME: Parameter =
        time("delay_time", "\"5s\"", "time before a stale neighbour in use is probed (Linux delay_first_probe_time)");
    pub const STALE_TIME: Parameter = time("stale_time", "\"60s\"", "unused entries older than this are collected (Linux gc_stale_time)");
    pub const SOLICITATIONS: Parameter = number(
        "solicitations",
        1,
        20,
        "3",
        "requests to everybody before a neighbour has failed, and to it alone when probing (Linux mcast_solicit, ucast_solicit)",
    );
    pub const PENDING_FRAMES_MAX: Parameter =
        number("pending_frames_max", 1, 10_000, "101", "packets that wait for one neighbour (Linux unres_qlen)");
    pub const PENDING_BYTES_MAX: Parameter =
        number("pending_bytes_max", 1_500, 100_000_000, "212992", "bytes that wait for one neighbour (Linux unres_qlen_bytes)");
    pub const ENTRIES_MAX: Parameter = number("entries_max", 1, 1_000_000, "1024", "neighbours that are remembered (Linux gc_thresh3)");
    pub const COLLECT_ABOVE: Parameter =
        number("collect_above", 0, 1_000_000, "128", "nothing is collected below this number of neighbours (Linux gc_thresh1)");
}

/// Counters of every resolving block, which come first in its own.
pub(super) mod count {
    use super::Counter;
    pub const LOOKUPS: usize = 0;
    pub const PENDED: usize = 1;
    pub const PENDING_DROPPED: usize = 2;
    pub const FAILED: usize = 3;
    pub const COLLECTED: usize = 4;
    pub const TABLE_FULL: usize = 5;
    /// Those of the block from here on.
    pub const BLOCK: usize = 6;

    pub const ROWS: [Counter; BLOCK] = [
        Counter { name: "Lookups", text: "packets that were not for the neighbour of the packet before" },
        Counter { name: "Pended", text: "packets that had to wait for an address" },
        Counter { name: "PendingDropped", text: "waiting packets dropped because too many waited (Linux unres_discards)" },
        Counter { name: "Failed", text: "resolutions that nobody answered (Linux res_failed)" },
        Counter { name: "Collected", text: "entries collected to make room (Linux forced_gc_runs counts runs)" },
        Counter { name: "TableFull", text: "packets dropped because no entry could be collected (Linux table_fulls)" },
    ];
}

/// Parameters.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    pub reachable_time: Duration,
    pub retransmit_time: Duration,
    delay_time: Duration,
    stale_time: Duration,
    solicitations: u32,
    pending_frames_max: usize,
    pending_bytes_max: usize,
    pub entries_max: usize,
    collect_above: usize,
}

impl Limits {
    fn new(config: &Config) -> Limits {
        Limits {
            reachable_time: config.duration("reachable_time"),
            retransmit_time: config.duration("retransmit_time"),
            delay_time: config.duration("delay_time"),
            stale_time: config.duration("stale_time"),
            solicitations: config.u64("solicitations") as u32,
            pending_frames_max: config.u64("pending_frames_max") as usize,
            pending_bytes_max: config.u64("pending_bytes_max") as usize,
            entries_max: config.u64("entries_max") as usize,
            collect_above: config.u64("collect_above") as usize,
        }
    }

    /// A parameter by name, if it is one of these.
    pub(super) fn get(&self, name: &str) -> Option<Value> {
        let nanos = |span: Duration| Some(Value::from(span.as_nanos() as u64));
        match name {
            "reachable_time" => nanos(self.reachable_time),
            "retransmit_time" => nanos(self.retransmit_time),
            "delay_time" => nanos(self.delay_time),
            "stale_time" => nanos(self.stale_time),
            "solicitations" => Some(self.solicitations.into()),
            "pending_frames_max" => Some(self.pending_frames_max.into()),
            "pending_bytes_max" => Some(self.pending_bytes_max.into()),
            "entries_max" => Some(self.entries_max.into()),
            "collect_above" => Some(self.collect_above.into()),
            _ => None,
        }
    }

    /// Sets a parameter by name; others are not touched.
    pub(super) fn set(&mut self, name: &str, value: u64) {
        let span = Duration::from_nanos(value);
        match name {
            "reachable_time" => self.reachable_time = span,
            "retransmit_time" => self.retransmit_time = span,
            "delay_time" => self.delay_time = span,
            "stale_time" => self.stale_time = span,
            "solicitations" => self.solicitations = value as u32,
            "pending_frames_max" => self.pending_frames_max = value as usize,
            "pending_bytes_max" => self.pending_bytes_max = value as usize,
            "entries_max" => self.entries_max = value as usize,
            "collect_above" => self.collect_above = value as usize,
            _ => {}
        }
    }
}

/// What becomes of a packet to a neighbour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// It goes to this address.
    Send(Mac),
    /// It waits at this entry.
    Wait(u32),
    /// It waits at this entry, and the block asks for its address ([`Resolver::solicitation`]).
    Ask(u32),
    /// There is no room for another entry.
    Full,
}

/// The block is to ask for an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Solicitation {
    pub interface: InterfaceIndex,
    pub target: IpAddr,
    /// Source address of the packet for whose sake this is; any that is not the node's: none.
    pub source: IpAddr,
    /// The neighbour alone is asked; otherwise everybody.
    pub only: Option<Mac>,
}

/// What a router said about an interface's link, which wins over the parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct LinkTimes {
    pub reachable: Option<Duration>,
    pub retransmit: Option<Duration>,
}

weft_core::fields!(struct LinkTimes { reachable, retransmit });

/// What [`Resolver::read`] read.
pub(super) struct ReadResolver {
    cache: Cache,
    times: BTreeMap<InterfaceIndex, LinkTimes>,
    counters: Box<[u64]>,
    last: u32,
}

/// The neighbour cache with its states and queues.
#[derive(Debug)]
pub(super) struct Resolver {
    pub limits: Limits,
    pub cache: Cache,
    pub times: BTreeMap<InterfaceIndex, LinkTimes>,
    /// The block's counters, those of [`count`] first.
    pub counters: Box<[u64]>,
    /// The neighbour of the last packet: most packets have the same.
    last: u32,
}

impl Resolver {
    /// An empty cache, for a block with this many counters.
    pub(super) fn new(config: &mut Config, counters: usize) -> Resolver {
        Resolver {
            limits: Limits::new(config),
            cache: Cache::new(KeyedHasher::new(&mut config.rng)),
            times: BTreeMap::new(),
            counters: vec![0; counters].into_boxed_slice(),
            last: 0,
        }
    }

    /// Writes neighbours with what waits for them, times and counters.
    pub(super) fn export(&self, out: &mut Writer) {
        let Resolver { limits: _, cache, times, counters, last } = self;
        out.put(cache.entries());
        out.put(cache.free());
        out.put(&cache.collected_at());
        out.put(times);
        out.put(&counters.to_vec());
        out.put(last);
    }

    /// Reads what [`Resolver::export`] wrote, into nothing yet.
    pub(super) fn read(&self, from: &mut Reader<'_>) -> Result<ReadResolver, Damage> {
        let (entries, free, collected_at) = (from.take()?, from.take()?, from.take()?);
        let cache = self.cache.of_parts(entries, free, collected_at)?;
        let (times, counters, last): (_, Vec<u64>, u32) = (from.take()?, from.take()?, from.take()?);
        match cache.len() > self.limits.entries_max || counters.len() != self.counters.len() {
            true => Err(Damage::new("more neighbours than entries_max, or other counters")),
            false => Ok(ReadResolver { cache, times, counters: counters.into_boxed_slice(), last }),
        }
    }

    /// Goes on with what was read.
    pub(super) fn take_over(&mut self, read: ReadResolver) {
        (self.cache, self.times, self.counters, self.last) = (read.cache, read.times, read.counters, read.last);
    }

    /// Sets the timers of neighbours that were taken over.
    pub(super) fn resume(&mut self, cx: &mut Context<'_>) {
        for (slot, due) in self.cache.due() {
            cx.set_timer(u64::from(slot), due);
        }
    }

    /// The address for a packet to the neighbour of the packet before it, if that may be used without a change of state.
    #[inline]
    pub(super) fn same_as_last(&mut self, interface: InterfaceIndex, address: IpAddr, now: Instant) -> Option<Mac> {
        let neighbour = self.cache.get_mut(self.last)?;
        if neighbour.address != address || neighbour.interface != interface || !neighbour.usable_at(now) {
            return None;
        }
        neighbour.used = now;
        Some(neighbour.mac)
    }

    /// What becomes of a packet from `source` to this neighbour.
    pub(super) fn resolve(&mut self, interface: InterfaceIndex, address: IpAddr, source: IpAddr, cx: &mut Context<'_>) -> Step {
        let Some(slot) = self.find_or_insert(interface, address, cx) else { return Step::Full };
        self.last = slot;
        let delay = cx.now + self.limits.delay_time;
        let Some(neighbour) = self.cache.get_mut(slot) else { return Step::Full };
        neighbour.used = cx.now;
        neighbour.expire(cx.now);
        match neighbour.state {
            Nud::Reachable | Nud::Permanent | Nud::Delay | Nud::Probe => {}
            Nud::Stale => {
                neighbour.state = Nud::Delay;
                neighbour.source = source;
                neighbour.arm(slot, delay, cx);
            }
            Nud::Incomplete => return Step::Wait(slot),
            Nud::Failed => {
                neighbour.state = Nud::Incomplete;
                neighbour.source = source;
                neighbour.probes = 0;
                return Step::Ask(slot);
            }
        }
        Step::Send(neighbour.mac)
    }

    /// The entry of a neighbour; a new one is in state FAILED, which the first packet moves on. `None`: no room.
    pub(super) fn find_or_insert(&mut self, interface: InterfaceIndex, address: IpAddr, cx: &mut Context<'_>) -> Option<u32> {
        if let Some(slot) = self.cache.find(interface, address) {
            return Some(slot);
        }
        let full = self.cache.len() >= self.limits.entries_max;
        if full || self.cache.len() >= self.limits.collect_above {
            let collected = self.cache.collect(cx.now, self.limits.stale_time, full);
            self.counters[count::COLLECTED] += collected.len() as u64;
            for (slot, neighbour) in collected {
                cx.cancel_timer(u64::from(slot));
                tell(&neighbour, "deleted", cx);
            }
        }
        if self.cache.len() >= self.limits.entries_max {
            self.counters[count::TABLE_FULL] += 1;
            return None;
        }
        Some(self.cache.insert(Neighbour::new(interface, address, cx.now)))
    }

    /// Keeps a packet at its neighbour.
    pub(super) fn wait(&mut self, slot: u32, frame: Frame, cx: &mut Context<'_>) {
        self.counters[count::PENDED] += 1;
        let Some(neighbour) = self.cache.get_mut(slot) else { return cx.drop(frame, Reason::NeighbourFailed) };
        neighbour.pending.push(frame);
        // RFC 1122 §2.3.2.2: "The link layer SHOULD save (rather than discard) at least one (the latest) packet of each set of packets
        // destined to the same unresolved IP address".
        while neighbour.pending.exceeds(self.limits.pending_frames_max, self.limits.pending_bytes_max) {
            let Some(oldest) = neighbour.pending.pop() else { break };
            self.counters[count::PENDING_DROPPED] += 1;
            cx.drop(oldest, Reason::NeighbourPendingFull);
        }
    }

    /// The next request for a neighbour that is INCOMPLETE (everybody) or in PROBE (it alone). `None`: it was asked often enough and has
    /// failed; waiting packets are gone to whoever tells their senders.
    pub(super) fn solicitation(&mut self, slot: u32, cx: &mut Context<'_>) -> Option<Solicitation> {
        let neighbour = self.cache.get_mut(slot)?;
        if neighbour.probes >= self.limits.solicitations {
            self.fail(slot, cx);
            return None;
        }
        neighbour.probes += 1;
        let (interface, target, source) = (neighbour.interface, neighbour.address, neighbour.source);
        let only = (neighbour.state == Nud::Probe).then_some(neighbour.mac);
        let again = cx.now + self.retransmit_time(interface);
        if let Some(neighbour) = self.cache.get_mut(slot) {
            neighbour.arm(slot, again, cx);
        }
        Some(Solicitation { interface, target, source, only })
    }

    /// The timer of an entry is due.
    pub(super) fn timer(&mut self, slot: u32, cx: &mut Context<'_>) -> Option<Solicitation> {
        let neighbour = self.cache.get_mut(slot)?;
        neighbour.due = Instant::FAR_FUTURE;
        match neighbour.state {
            Nud::Delay => {
                neighbour.state = Nud::Probe;
                neighbour.probes = 0;
                tell(neighbour, "set", cx);
                self.solicitation(slot, cx)
            }
            Nud::Incomplete | Nud::Probe => self.solicitation(slot, cx),
            Nud::Reachable | Nud::Stale | Nud::Failed | Nud::Permanent => None,
        }
    }

    fn fail(&mut self, slot: u32, cx: &mut Context<'_>) {
        self.counters[count::FAILED] += 1;
        let Some(neighbour) = self.cache.get_mut(slot) else { return };
        neighbour.state = Nud::Failed;
        neighbour.probes = 0;
        neighbour.updated = cx.now;
        tell(neighbour, "set", cx);
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

    /// A packet told a neighbour's address, or confirmed it (`reachable`). What waits for it leaves.
    pub(super) fn learn(&mut self, slot: u32, mac: Mac, reachable: bool, cx: &mut Context<'_>) {
        let Some(interface) = self.cache.get_mut(slot).filter(|neighbour| neighbour.state != Nud::Permanent).map(|found| found.interface)
        else {
            return;
        };
        let reachable_until = self.reachable_until(interface, cx);
        let Some(neighbour) = self.cache.get_mut(slot) else { return };
        let before = (neighbour.state_at(cx.now), neighbour.mac);
        neighbour.mac = mac;
        neighbour.updated = cx.now;
        neighbour.probes = 0;
        neighbour.state = if reachable { Nud::Reachable } else { Nud::Stale };
        neighbour.reachable_until = reachable_until;
        if before != (neighbour.state, mac) {
            tell(neighbour, "set", cx);
        }
        neighbour.disarm(slot, cx);
        let waiting = std::mem::take(&mut neighbour.pending);
        if !reachable && !waiting.is_empty() {
            neighbour.state = Nud::Delay;
            neighbour.arm(slot, cx.now + self.limits.delay_time, cx);
        }
        for mut frame in waiting {
            frame.meta_mut().dst_mac = mac;
            cx.emit(OUT_LOWER, frame);
        }
    }

    /// A transport made progress through a neighbour.
    pub(super) fn confirm(&mut self, interface: InterfaceIndex, address: IpAddr, cx: &mut Context<'_>) {
        let Some(slot) = self.cache.find(interface, address) else { return };
        let Some(neighbour) = self.cache.get_mut(slot) else { return };
        // RFC 4861 §7.3.1: "If a node receives … upper-layer … confirmation": only an entry whose address is known can be confirmed.
        if !neighbour.has_mac() || neighbour.state == Nud::Permanent {
            return;
        }
        let busy = matches!(neighbour.state, Nud::Delay | Nud::Probe);
        // Confirmations come with every acknowledgment: while the last one holds for long enough, another changes nothing.
        if neighbour.state == Nud::Reachable && neighbour.reachable_until > cx.now + self.limits.delay_time {
            return;
        }
        let reachable_until = self.reachable_until(interface, cx);
        let Some(neighbour) = self.cache.get_mut(slot) else { return };
        let before = neighbour.state_at(cx.now);
        neighbour.state = Nud::Reachable;
        neighbour.reachable_until = reachable_until;
        neighbour.probes = 0;
        if before != Nud::Reachable {
            tell(neighbour, "set", cx);
        }
        if busy {
            neighbour.disarm(slot, cx);
        }
    }

    /// RFC 4861 §6.3.2, which Linux follows for ARP too: "a uniformly distributed random value between MIN_RANDOM_FACTOR and
    /// MAX_RANDOM_FACTOR times BaseReachableTime milliseconds"; the factors are 0.5 and 1.5 (§10).
    fn reachable_until(&self, interface: InterfaceIndex, cx: &mut Context<'_>) -> Instant {
        let told = self.times.get(&interface).and_then(|times| times.reachable);
        cx.now + told.unwrap_or(self.limits.reachable_time).mul_f64(0.5 + cx.rng.unit())
    }

    /// Time between two requests on an interface.
    pub(super) fn retransmit_time(&self, interface: InterfaceIndex) -> Duration {
        let told = self.times.get(&interface).and_then(|times| times.retransmit);
        told.unwrap_or(self.limits.retransmit_time)
    }

    /// Forgets a neighbour that somebody deletes. Linux's neigh_delete makes it FAILED first, and tells of that.
    fn give_up(&mut self, slot: u32, cx: &mut Context<'_>) {
        let Some(neighbour) = self.cache.get_mut(slot) else { return };
        if neighbour.has_mac() {
            neighbour.state = Nud::Failed;
            tell(neighbour, "set", cx);
        }
        self.forget(slot, cx);
    }

    /// Forgets a neighbour and what waits for it.
    pub(super) fn forget(&mut self, slot: u32, cx: &mut Context<'_>) {
        cx.cancel_timer(u64::from(slot));
        let Some(neighbour) = self.cache.remove(slot) else { return };
        tell(&neighbour, "deleted", cx);
        for frame in neighbour.pending {
            cx.drop(frame, Reason::NeighbourFailed);
        }
    }

    /// Forgets the neighbours of interfaces that are down or gone.
    pub(super) fn forget_interfaces(&mut self, is_down: impl Fn(InterfaceIndex) -> bool, cx: &mut Context<'_>) {
        for slot in self.cache.slots_where(|neighbour| is_down(neighbour.interface)) {
            self.forget(slot, cx);
        }
    }

    /// Forgets what was learnt on interfaces that have lost their carrier (Linux neigh_carrier_down); what somebody has set stays.
    pub(super) fn forget_learnt(&mut self, is_dark: impl Fn(InterfaceIndex) -> bool, cx: &mut Context<'_>) {
        for slot in self.cache.slots_where(|neighbour| neighbour.state != Nud::Permanent && is_dark(neighbour.interface)) {
            self.forget(slot, cx);
        }
    }

    /// The procedure `add`: a neighbour that somebody knows, for ever unless another state is said.
    pub(super) fn add(&mut self, block: &str, value: &Value, parse: ParseAddress, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        let arguments = Arguments::new(block, "add", value, &["interface", "address", "mac", "state", "router", "mode"])?;
        let (interface, address) = target(&arguments, parse, cx)?;
        let state = match arguments.text("state")? {
            None => Nud::Permanent,
            Some(name) => {
                Nud::named(name).ok_or_else(|| arguments.fail(Refused::invalid(format!("state: '{name}' is none that can be set"))))?
            }
        };
        let mac = arguments.mac("mac")?;
        let needs_mac = !matches!(state, Nud::Incomplete | Nud::Failed);
        let known = self.cache.find(interface, address);
        match arguments.text("mode")? {
            Some("new") if known.is_some() => return Err(arguments.fail(Refused::exists(format!("{address} is a neighbour already")))),
            Some("change") if known.is_none() => {
                return Err(arguments.fail(Refused::not_found(format!("{address} is no neighbour on that interface"))));
            }
            _ => {}
        }
        let has_mac = known.and_then(|slot| self.cache.get_mut(slot)).is_some_and(|neighbour| neighbour.has_mac());
        if mac.is_none() && needs_mac && !has_mac {
            return Err(arguments.fail(Refused::invalid("mac is missing")));
        }
        let slot = self.find_or_insert(interface, address, cx);
        let reachable_until = self.reachable_until(interface, cx);
        let Some(neighbour) = slot.and_then(|slot| self.cache.get_mut(slot)) else {
            return Err(ControlError::Limit { what: "neighbours".to_owned(), max: self.limits.entries_max as u64 });
        };
        let before = (known.is_some(), neighbour.state_at(cx.now), neighbour.mac);
        neighbour.mac = mac.unwrap_or(neighbour.mac);
        neighbour.state = state;
        neighbour.router = arguments.bool("router")?.unwrap_or(neighbour.router);
        neighbour.updated = cx.now;
        neighbour.reachable_until = reachable_until;
        if before != (true, state, neighbour.mac) {
            tell(neighbour, "set", cx);
        }
        neighbour.disarm(slot.unwrap_or(0), cx);
        let mac = neighbour.mac;
        let waiting = if needs_mac { std::mem::take(&mut neighbour.pending) } else { cache::Pending::default() };
        for mut frame in waiting {
            frame.meta_mut().dst_mac = mac;
            cx.emit(OUT_LOWER, frame);
        }
        Ok(Value::Null)
    }

    /// The procedure `delete`.
    pub(super) fn delete(&mut self, block: &str, value: &Value, parse: ParseAddress, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        let arguments = Arguments::new(block, "delete", value, &["interface", "address"])?;
        let (interface, address) = target(&arguments, parse, cx)?;
        let Some(slot) = self.cache.find(interface, address) else {
            return Err(arguments.fail(Refused::not_found(format!("{address} is no neighbour on that interface"))));
        };
        self.give_up(slot, cx);
        Ok(Value::Null)
    }

    /// The procedure `flush`.
    pub(super) fn flush(&mut self, block: &str, value: &Value, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        let arguments = Arguments::new(block, "flush", value, &["interface"])?;
        let only = arguments.value("interface").map(|value| find_interface(value, cx)).transpose().map_err(|why| arguments.fail(why))?;
        let fits = |neighbour: &Neighbour| neighbour.state != Nud::Permanent && only.is_none_or(|only| neighbour.interface == only);
        for slot in self.cache.slots_where(fits) {
            self.give_up(slot, cx);
        }
        Ok(Value::Null)
    }
}

/// What listeners hear of neighbours, where Linux's neigh_update_notify tells: not of INCOMPLETE and DELAY. That REACHABLE has run out nobody notices
/// before a packet needs it.
pub(super) const NEIGHBOUR_ALERT: Named =
    Named { name: "neighbour", doc: "event (set, deleted), interface, address, mac, state: a neighbour has come, is another, or has gone" };

fn tell(neighbour: &Neighbour, event: &str, cx: &mut Context<'_>) {
    let mut value = neighbour.row(cx.now);
    value["event"] = event.into();
    cx.alert(NEIGHBOUR_ALERT.name, value);
}

/// Reads the argument of this name as an address of the block's family.
pub(super) type ParseAddress = fn(&Arguments<'_>, &str) -> Result<Option<IpAddr>, ControlError>;

fn target(arguments: &Arguments<'_>, parse: ParseAddress, cx: &Context<'_>) -> Result<(InterfaceIndex, IpAddr), ControlError> {
    let interface = arguments.value("interface").ok_or_else(|| arguments.fail("interface is missing"))?;
    let interface = find_interface(interface, cx).map_err(|why| arguments.fail(why))?;
    let address = parse(arguments, "address")?.ok_or_else(|| arguments.fail("address is missing"))?;
    Ok((interface, address))
}

/// Forwards, drops or keeps each packet of a vector by what `step` says of it.
pub(super) fn sort(vector: &mut Vector, mut step: impl FnMut(&mut Frame) -> Result<Verdict, u32>) -> Vec<(u32, Frame)> {
    // Almost always empty: allocates only when a packet must wait.
    let mut waiting: Vec<(usize, u32)> = Vec::new();
    let mut index = 0;
    vector.each(|frame| {
        index += 1;
        step(frame).unwrap_or_else(|slot| {
            // Taken out below; `each` lends the frame only. No frame of this vector was taken before, so positions are indices.
            waiting.push((index - 1, slot));
            Verdict::Consumed
        })
    });
    waiting.into_iter().filter_map(|(index, slot)| Some((slot, vector.take(index)?))).collect()
}
