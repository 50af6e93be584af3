//! The neighbour cache: entries in slots, found by interface and address; their states; collection of old ones.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use weft_core::{Duration, Frame, Instant, InterfaceIndex, KeyedHasher, Map, Value};
use weft_wire::ethernet::Mac;

/// Neighbour unreachability state, with Linux's names.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(in crate::ip) enum Nud {
    Incomplete,
    Reachable,
    Stale,
    Delay,
    Probe,
    Failed,
    Permanent,
}

impl Nud {
    pub(in crate::ip) const fn name(self) -> &'static str {
        match self {
            Nud::Incomplete => "INCOMPLETE",
            Nud::Reachable => "REACHABLE",
            Nud::Stale => "STALE",
            Nud::Delay => "DELAY",
            Nud::Probe => "PROBE",
            Nud::Failed => "FAILED",
            Nud::Permanent => "PERMANENT",
        }
    }
}

impl Nud {
    /// A state that somebody may set, by its name.
    pub(in crate::ip) fn named(name: &str) -> Option<Nud> {
        let settable = [Nud::Reachable, Nud::Stale, Nud::Delay, Nud::Probe, Nud::Failed, Nud::Permanent];
        settable.into_iter().find(|state| state.name().eq_ignore_ascii_case(name))
    }
}

/// Packets that wait for an address, oldest first.
#[derive(Debug, Default)]
pub(in crate::ip) struct Pending {
    frames: VecDeque<Frame>,
    bytes: usize,
}

impl Pending {
    pub(in crate::ip) fn push(&mut self, frame: Frame) {
        self.bytes += frame.len();
        self.frames.push_back(frame);
    }
    pub(in crate::ip) fn pop(&mut self) -> Option<Frame> {
        let frame = self.frames.pop_front()?;
        self.bytes -= frame.len();
        Some(frame)
    }
    /// Over a limit, and more than the latest packet is there to give up.
    pub(in crate::ip) fn exceeds(&self, frames_max: usize, bytes_max: usize) -> bool {
        self.frames.len() > 1 && (self.frames.len() > frames_max || self.bytes > bytes_max)
    }
    pub(in crate::ip) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }
}

impl IntoIterator for Pending {
    type Item = Frame;
    type IntoIter = std::collections::vec_deque::IntoIter<Frame>;
    fn into_iter(self) -> Self::IntoIter {
        self.frames.into_iter()
    }
}

/// One neighbour.
#[derive(Debug)]
pub(in crate::ip) struct Neighbour {
    pub interface: InterfaceIndex,
    pub address: IpAddr,
    pub mac: Mac,
    pub state: Nud,
    /// In state REACHABLE: until when.
    pub reachable_until: Instant,
    /// A packet was last sent to it.
    pub used: Instant,
    /// Address or state last changed by a packet.
    pub updated: Instant,
    /// Requests sent in the current attempt.
    pub probes: u32,
    /// Source address of the packet that started the attempt.
    pub source: IpAddr,
    /// It says that it is a router (neighbour discovery only).
    pub router: bool,
    pub pending: Pending,
}

impl Neighbour {
    /// In state FAILED, which the first packet moves on.
    pub(in crate::ip) fn new(interface: InterfaceIndex, address: IpAddr, now: Instant) -> Neighbour {
        Neighbour {
            interface,
            address,
            mac: Mac::ZERO,
            state: Nud::Failed,
            reachable_until: Instant::ZERO,
            used: now,
            updated: now,
            probes: 0,
            source: Ipv4Addr::UNSPECIFIED.into(),
            router: false,
            pending: Pending::default(),
        }
    }
    /// May a packet use its address without a change of state?
    #[inline]
    pub(in crate::ip) fn usable_at(&self, now: Instant) -> bool {
        match self.state {
            Nud::Reachable => now < self.reachable_until,
            Nud::Permanent | Nud::Delay | Nud::Probe => true,
            Nud::Incomplete | Nud::Stale | Nud::Failed => false,
        }
    }
    /// REACHABLE ends by itself.
    pub(in crate::ip) fn expire(&mut self, now: Instant) {
        self.state = self.state_at(now);
    }
    pub(in crate::ip) fn state_at(&self, now: Instant) -> Nud {
        match self.state {
            Nud::Reachable if now >= self.reachable_until => Nud::Stale,
            state => state,
        }
    }
    /// For people, and for `ip monitor neigh`.
    pub(in crate::ip) fn row(&self, now: Instant) -> Value {
        let mut row = serde_json::json!({
            "interface": self.interface.0,
            "address": self.address.to_string(),
            "mac": self.has_mac().then(|| self.mac.to_string()),
            "state": self.state_at(now).name(),
        });
        if self.router {
            row["router"] = true.into();
        }
        row
    }
    pub(in crate::ip) fn has_mac(&self) -> bool {
        !matches!(self.state, Nud::Incomplete | Nud::Failed)
    }
}

/// A neighbour as exported state: times relative to the export.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::ip) struct ExportedNeighbour {
    interface: InterfaceIndex,
    address: IpAddr,
    mac: [u8; 6],
    state: Nud,
    reachable_for: Duration,
    unused_for: Duration,
    router: bool,
}

/// All neighbours.
#[derive(Debug)]
pub(in crate::ip) struct Cache {
    slots: Vec<Option<Neighbour>>,
    free: Vec<u32>,
    by_address: Map<(InterfaceIndex, IpAddr), u32>,
    collected_at: Option<Instant>,
}

/// Linux neigh_alloc collects at most this often while there is room.
const COLLECT_INTERVAL: Duration = Duration::from_secs(5);

impl Cache {
    pub(in crate::ip) fn new(hasher: KeyedHasher) -> Cache {
        Cache { slots: Vec::new(), free: Vec::new(), by_address: Map::with_hasher(hasher), collected_at: None }
    }
    pub(in crate::ip) fn len(&self) -> usize {
        self.by_address.len()
    }
    pub(in crate::ip) fn find(&self, interface: InterfaceIndex, address: IpAddr) -> Option<u32> {
        self.by_address.get(&(interface, address)).copied()
    }
    #[inline]
    pub(in crate::ip) fn get_mut(&mut self, slot: u32) -> Option<&mut Neighbour> {
        self.slots.get_mut(slot as usize).and_then(Option::as_mut)
    }
    pub(in crate::ip) fn insert(&mut self, neighbour: Neighbour) -> u32 {
        let slot = self.free.pop().unwrap_or(self.slots.len() as u32);
        if self.slots.len() <= slot as usize {
            self.slots.resize_with(slot as usize + 1, || None);
        }
        self.by_address.insert((neighbour.interface, neighbour.address), slot);
        self.slots[slot as usize] = Some(neighbour);
        slot
    }
    pub(in crate::ip) fn remove(&mut self, slot: u32) -> Option<Neighbour> {
        let neighbour = self.slots.get_mut(slot as usize).and_then(Option::take)?;
        self.by_address.swap_remove(&(neighbour.interface, neighbour.address));
        self.free.push(slot);
        Some(neighbour)
    }
    /// All packets that wait, out of their neighbours.
    pub(in crate::ip) fn give_up(&mut self) -> Vec<Frame> {
        self.slots.iter_mut().flatten().flat_map(|neighbour| std::mem::take(&mut neighbour.pending)).collect()
    }
    pub(in crate::ip) fn slots_where(&self, fits: impl Fn(&Neighbour) -> bool) -> Vec<u32> {
        let entries = self.slots.iter().enumerate();
        entries.filter(|(_, entry)| entry.as_ref().is_some_and(&fits)).map(|(slot, _)| slot as u32).collect()
    }
    /// The interfaces that have neighbours.
    pub(in crate::ip) fn interfaces(&self) -> BTreeSet<InterfaceIndex> {
        self.by_address.keys().map(|(interface, _)| *interface).collect()
    }

    /// Takes out unused entries older than `stale_time`; when the cache is full, at least the least recently used one. Permanent
    /// entries and those with waiting packets stay.
    pub(in crate::ip) fn collect(&mut self, now: Instant, stale_time: Duration, full: bool) -> Vec<(u32, Neighbour)> {
        if !full && self.collected_at.is_some_and(|at| now < at + COLLECT_INTERVAL) {
            return Vec::new();
        }
        self.collected_at = Some(now);
        let free = |entry: &Neighbour| entry.state != Nud::Permanent && entry.pending.is_empty();
        let mut old = self.slots_where(|entry| free(entry) && now >= entry.used.max(entry.updated) + stale_time);
        if full && old.is_empty() {
            let candidates = self.slots.iter().enumerate().filter_map(|(slot, entry)| Some((slot, entry.as_ref()?)));
            let oldest = candidates.filter(|(_, entry)| free(entry)).min_by_key(|(_, entry)| entry.used.max(entry.updated));
            old.extend(oldest.map(|(slot, _)| slot as u32));
        }
        old.into_iter().filter_map(|slot| Some((slot, self.remove(slot)?))).collect()
    }

    pub(in crate::ip) fn rows(&self, now: Instant) -> Vec<Value> {
        let mut entries: Vec<&Neighbour> = self.slots.iter().flatten().collect();
        entries.sort_by_key(|entry| (entry.interface, entry.address));
        entries.into_iter().map(|entry| entry.row(now)).collect()
    }

    pub(in crate::ip) fn export(&self, now: Instant) -> Vec<ExportedNeighbour> {
        let kept = self.slots.iter().flatten().filter(|entry| entry.has_mac());
        kept.map(|entry| ExportedNeighbour {
            interface: entry.interface,
            address: entry.address,
            mac: entry.mac.0,
            state: entry.state_at(now),
            reachable_for: entry.reachable_until.since(now),
            unused_for: now.since(entry.used),
            router: entry.router,
        })
        .collect()
    }

    /// What was DELAY or PROBE starts again as STALE.
    pub(in crate::ip) fn import(&mut self, neighbours: Vec<ExportedNeighbour>, now: Instant) {
        for read in neighbours {
            let mut neighbour = Neighbour::new(read.interface, read.address, now);
            neighbour.mac = Mac(read.mac);
            neighbour.state = match read.state {
                Nud::Delay | Nud::Probe => Nud::Stale,
                state => state,
            };
            neighbour.reachable_until = now + read.reachable_for;
            neighbour.used = now - read.unused_for;
            neighbour.router = read.router;
            self.insert(neighbour);
        }
    }
}
