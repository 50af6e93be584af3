//! The neighbour cache: entries in slots, found by interface and address; their states; collection of old ones.

use std::collections::{BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use weft_core::state::{Damage, Field, Reader, Writer};
use weft_core::{Context, Duration, Frame, Instant, InterfaceIndex, KeyedHasher, Map, Value};
use weft_wire::ethernet::Mac;

/// Neighbour unreachability state, with Linux's names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
    /// When its timer is due; never: it has none.
    pub due: Instant,
}

weft_core::fields!(
    enum Nud {
        Incomplete = 0,
        Reachable = 1,
        Stale = 2,
        Delay = 3,
        Probe = 4,
        Failed = 5,
        Permanent = 6,
    }
);
weft_core::fields!(struct Neighbour { interface, address, mac, state, reachable_until, used, updated, probes, source, router, pending, due });

impl Field for Pending {
    fn write(&self, out: &mut Writer) {
        out.put(&self.frames);
    }
    fn read(from: &mut Reader<'_>) -> Result<Pending, Damage> {
        let frames: VecDeque<Frame> = from.take()?;
        Ok(Pending { bytes: frames.iter().map(Frame::len).sum(), frames })
    }
}

impl Neighbour {
    /// Sets the timer of the slot that it is in.
    pub(in crate::ip) fn arm(&mut self, slot: u32, at: Instant, cx: &mut Context<'_>) {
        self.due = at;
        cx.set_timer(u64::from(slot), at);
    }
    /// Takes it back.
    pub(in crate::ip) fn disarm(&mut self, slot: u32, cx: &mut Context<'_>) {
        self.due = Instant::FAR_FUTURE;
        cx.cancel_timer(u64::from(slot));
    }
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
            due: Instant::FAR_FUTURE,
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
        let age = |then: Instant| now.since(then).as_millis() as u64;
        // That it was never confirmed is not kept; what was learnt as STALE was not.
        let unconfirmed = match self.state {
            Nud::Incomplete | Nud::Stale | Nud::Failed => NEVER_CONFIRMED,
            Nud::Reachable | Nud::Delay | Nud::Probe | Nud::Permanent => Duration::ZERO,
        };
        let mut row = serde_json::json!({
            "interface": self.interface.0,
            "address": self.address.to_string(),
            "mac": self.has_mac().then(|| self.mac.to_string()),
            "state": self.state_at(now).name(),
            "used_ms": age(self.used),
            "confirmed_ms": age(self.updated) + unconfirmed.as_millis() as u64,
            "updated_ms": age(self.updated),
            "probes": self.probes,
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

/// All neighbours.
#[derive(Debug)]
pub(in crate::ip) struct Cache {
    slots: Vec<Option<Neighbour>>,
    free: Vec<u32>,
    by_address: Map<(InterfaceIndex, IpAddr), u32>,
    collected_at: Option<Instant>,
}

/// How long ago what was never confirmed counts as confirmed. Linux ___neigh_create: "n->confirmed = jiffies - (NEIGH_VAR(n->parms, BASE_REACHABLE_TIME) << 1);"
const NEVER_CONFIRMED: Duration = Duration::from_secs(60);

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

    /// What stands in each slot, for state.
    pub(in crate::ip) fn entries(&self) -> &Vec<Option<Neighbour>> {
        &self.slots
    }
    /// Slots that are free, the next last.
    pub(in crate::ip) fn free(&self) -> &Vec<u32> {
        &self.free
    }
    pub(in crate::ip) fn collected_at(&self) -> Option<Instant> {
        self.collected_at
    }
    /// A cache of such parts, which finds its neighbours as this one does.
    pub(in crate::ip) fn of_parts(
        &self,
        slots: Vec<Option<Neighbour>>,
        free: Vec<u32>,
        collected_at: Option<Instant>,
    ) -> Result<Cache, Damage> {
        let mut by_address = Map::with_hasher(*self.by_address.hasher());
        for (slot, neighbour) in slots.iter().enumerate().filter_map(|(slot, entry)| Some((slot, entry.as_ref()?))) {
            if by_address.insert((neighbour.interface, neighbour.address), slot as u32).is_some() {
                return Err(Damage::new("a neighbour is there twice"));
            }
        }
        let unused: BTreeSet<u32> = slots.iter().enumerate().filter(|(_, entry)| entry.is_none()).map(|(slot, _)| slot as u32).collect();
        match free.len() == unused.len() && free.iter().copied().collect::<BTreeSet<u32>>() == unused {
            true => Ok(Cache { slots, free, by_address, collected_at }),
            false => Err(Damage::new("a slot that is free is none")),
        }
    }
    /// Slots with a timer, and when it is due.
    pub(in crate::ip) fn due(&self) -> Vec<(u32, Instant)> {
        let entries = self.slots.iter().enumerate().filter_map(|(slot, entry)| Some((slot as u32, entry.as_ref()?.due)));
        entries.filter(|(_, due)| *due != Instant::FAR_FUTURE).collect()
    }
}
