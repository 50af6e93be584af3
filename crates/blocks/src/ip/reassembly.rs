//! Fragments in, whole packets out: the part that IPv4 and IPv6 share (RFC 791 §3.2, RFC 815, RFC 8200 §4.5).
//!
//! It is pure bookkeeping, driven by whoever owns the header format: [`Reassembly::insert`] takes a frame that begins with its IP header and
//! says what became of it, [`Reassembly::expire`] hands back what took too long. When the last hole is filled, the frame that filled it becomes
//! the whole packet: the first fragment's header as it came, with all payload behind it, in shared slices. Its caller puts the header right.
//!
//! Overlaps, as Linux has them since 4.19 for both families (net/ipv4/inet_fragment.c, inet_frag_queue_insert), measured in
//! docs/linux-notes/ip.md: a fragment that overlaps another discards the whole packet (RFC 5722 §4); one whose bytes are all there already is a
//! duplicate and ignored (RFC 5722, erratum 3089). "There already" means inside one run of fragments that came in order, the last of the
//! packet's so far; a duplicate's bytes are not compared.
//!
//! Limits: bytes for all packets (`memory_bytes_max`; above it fragments are refused, nothing is evicted, as Linux since 4.17), fragments of one
//! packet, fragments that a source sends between two of one packet (`distance_max`, Linux ipfrag_max_dist), and time from the first that came.
//! A limit on the number of packets follows from the bytes: each is charged for its bookkeeping.
//!
//! What waits is state: [`Reassembly::write`] and [`Reassembly::read`] carry it to a successor, each packet with its deadline, and fragments by reference.
//!
//! Tiny fragments (RFC 1858, RFC 3128) need no rule here: what looks into a packet looks at the whole of it, and an overlap cannot rewrite what
//! came first.

mod queue;

use queue::{Added, FragmentQueue};
use std::collections::BTreeMap;
use std::net::IpAddr;
use weft_core::state::{Damage, Reader, Writer};
use weft_core::{Duration, Frame, Instant, InterfaceIndex, KeyedHasher, Map, Reason};
use weft_wire::Protocol;
use weft_wire::ipv4::Ecn;

/// Bytes that a packet is charged for beside its fragments.
pub const PACKET_CHARGE_BYTES: usize = 1024;
/// Bytes that a fragment is charged for beside its payload: its slice, its place and, of the first, the frame that holds it.
pub const FRAGMENT_CHARGE_BYTES: usize = 512;

/// What the fragments of one packet have in common.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Key {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// Identification: 16 bits in IPv4, 32 in IPv6.
    pub identification: u32,
    /// Protocol of the payload: IPv4 has it in the key (RFC 791 §3.2), IPv6 has not ([`Protocol`]`(0)`).
    pub protocol: Protocol,
    /// Where the fragments come in, when the addresses mean something only there (IPv6 link-local and multicast), else none.
    pub interface: InterfaceIndex,
}

weft_core::fields!(struct Key { src, dst, identification, protocol, interface });

/// What a header says about the fragment behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fragment {
    /// Where its payload belongs in the packet's, bytes.
    pub offset: usize,
    /// It is not the last.
    pub more: bool,
    /// Bytes in front of its payload: the IP header, in IPv6 with everything up to the end of the fragment header.
    pub header_len: usize,
    /// Explicit congestion notification of its header.
    pub ecn: Ecn,
    /// It must not be fragmented further.
    pub dont_fragment: bool,
}

/// What became of a fragment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inserted {
    /// It waits for others.
    Kept,
    /// The frame is now the whole packet.
    Complete(Whole),
    /// It is not kept.
    Refused(Refusal),
}

/// What its header must say now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Whole {
    /// Bytes in front of the payload, as in the first fragment.
    pub header_len: usize,
    /// Some fragment carried a congestion mark: so does the packet (RFC 3168 §5.3).
    pub congestion_experienced: bool,
    /// The largest fragment must not be fragmented: the packet's sender looks for the path MTU with fragments.
    pub dont_fragment: bool,
}

/// Why a fragment was not kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// All its bytes are there already. What is there stays.
    Duplicate,
    /// It overlaps another: the whole packet is discarded.
    Overlap,
    /// It ends behind the last fragment, or is a second last one that ends elsewhere, or holds no bytes: the whole packet is discarded.
    Contradiction,
    /// The packet would be larger than a packet can be: the whole packet is discarded.
    TooLong,
    /// Fragments that know of congestion notification and such that do not (RFC 3168 §5.3): the whole packet is discarded.
    EcnMixed,
    /// The packet has too many fragments: the whole packet is discarded.
    TooMany,
    /// There is no memory for it. What is there stays.
    NoMemory,
}

impl Refusal {
    /// Under which reason the fragment's drop is counted.
    pub const fn reason(self) -> Reason {
        match self {
            Refusal::Duplicate => Reason::FragmentDuplicate,
            Refusal::Overlap => Reason::FragmentOverlap,
            Refusal::Contradiction | Refusal::TooLong | Refusal::EcnMixed => Reason::FragmentInvalid,
            Refusal::TooMany | Refusal::NoMemory => Reason::FragmentLimit,
        }
    }
}

/// Bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes for all packets together, with the charges above.
    pub memory_bytes_max: usize,
    /// Fragments of one packet.
    pub fragments_max: usize,
    /// A whole packet with the headers of its first fragment, bytes.
    pub packet_bytes_max: usize,
    /// Fragments that a source may send between two of one packet before the earlier ones are given up; none: any number.
    pub distance_max: Option<u32>,
    /// From a packet's first fragment that came to giving it up.
    pub timeout: Duration,
}

impl Limits {
    /// Linux's defaults for IPv4: ipfrag_high_thresh, ipfrag_max_dist and ipfrag_time. The largest payload behind the shortest header, cut for the
    /// smallest link (RFC 791 §3.2: 68 bytes, 48 of payload), comes in 1365 fragments.
    pub const V4: Limits = Limits {
        memory_bytes_max: 4 << 20,
        fragments_max: 1365,
        packet_bytes_max: 65_535,
        distance_max: Some(64),
        timeout: Duration::from_secs(30),
    };
    /// Linux's defaults for IPv6: ip6frag_high_thresh and ip6frag_time. RFC 8200 §4.5: "If insufficient fragments are received to complete
    /// reassembly of a packet within 60 seconds of the reception of the first-arriving fragment of that packet, reassembly of that packet must be
    /// abandoned". A packet is its header and 65,535 bytes, beside the fragment header that goes.
    pub const V6: Limits = Limits { packet_bytes_max: 40 + 65_535 + 8, distance_max: None, timeout: Duration::from_secs(60), ..Limits::V4 };
}

/// Counters, with Linux's meanings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Fragments received (ReasmReqds).
    pub requested: u64,
    /// Packets put together (ReasmOKs).
    pub completed: u64,
    /// Packets given up and fragments refused, but duplicates (ReasmFails).
    pub failed: u64,
    /// Packets given up because they took too long; also in `failed` (ReasmTimeout).
    pub timed_out: u64,
    /// Packets discarded because fragments overlap; also in `failed` (ReasmOverlaps).
    pub overlaps: u64,
}

impl Counts {
    /// As the blocks have them: in the order of the fields.
    pub fn of([requested, completed, failed, timed_out, overlaps]: [u64; 5]) -> Counts {
        Counts { requested, completed, failed, timed_out, overlaps }
    }
    /// In the order of the fields.
    pub fn values(&self) -> [u64; 5] {
        [self.requested, self.completed, self.failed, self.timed_out, self.overlaps]
    }
}

/// A packet that took too long.
#[derive(Debug)]
pub struct Expired {
    /// Which.
    pub key: Key,
    /// Its first fragment (offset 0), whole, if that came: what an ICMP "time exceeded" with code 1 is about.
    pub first: Option<Frame>,
}

/// How many fragments a source has sent, for as long as packets of it wait.
#[derive(Debug, Default)]
struct Source {
    fragments: u32,
    packets: usize,
}

/// All packets of which fragments wait.
#[derive(Debug)]
pub struct Reassembly {
    limits: Limits,
    queues: Map<Key, FragmentQueue>,
    /// In the order in which they will be given up; the number tells queues of one instant apart.
    deadlines: BTreeMap<(Instant, u64), Key>,
    serial: u64,
    sources: Map<IpAddr, Source>,
    memory_bytes: usize,
    counts: Counts,
}

impl Reassembly {
    /// Nothing waits yet.
    pub fn new(limits: Limits, hasher: KeyedHasher) -> Reassembly {
        Reassembly {
            limits,
            queues: Map::with_hasher(hasher),
            deadlines: BTreeMap::new(),
            serial: 0,
            sources: Map::with_hasher(hasher),
            memory_bytes: 0,
            counts: Counts::default(),
        }
    }

    /// The bounds.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }
    /// Other bounds from now on; what waits keeps the deadline that it has.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }
    /// What happened so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }
    /// What a predecessor has counted: it goes on from there.
    pub fn set_counts(&mut self, counts: Counts) {
        self.counts = counts;
    }
    /// Bytes in use, with the charges.
    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }
    /// Packets of which fragments wait.
    pub fn len(&self) -> usize {
        self.queues.len()
    }
    /// Nothing waits.
    pub fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }
    /// When [`Reassembly::expire`] has something next.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first_key_value().map(|((at, _), _)| *at)
    }

    /// Takes a fragment. `frame` begins with its IP header, is cut to the packet's length, and carries no completion. It is empty afterwards
    /// when it was kept and the whole packet when the outcome says so; a refused one stays as it was, unless the packet was whole before it was
    /// refused ([`Refusal::EcnMixed`], [`Refusal::TooLong`]).
    ///
    /// The metadata of a whole packet are the first fragment's, `received` is the last's; the checksum is [`weft_core::Checksum::Unknown`].
    pub fn insert(&mut self, now: Instant, key: Key, fragment: Fragment, frame: &mut Frame) -> Inserted {
        self.counts.requested += 1;
        // Linux inet_frag_find: "if (!fqdir->high_thresh || frag_mem_limit(fqdir) > fqdir->high_thresh) return NULL;"
        if self.memory_bytes > self.limits.memory_bytes_max || self.limits.memory_bytes_max == 0 {
            return self.refuse(None, Refusal::NoMemory);
        }
        self.open(now, &key);
        self.check_distance(now, &key);
        let limits = self.limits;
        let Some(queue) = self.queues.get_mut(&key) else { return Inserted::Kept };
        let before = queue.charge();
        let added = queue.add(&fragment, frame, &limits);
        self.memory_bytes += queue.charge() - before;
        match added {
            Added::Kept => Inserted::Kept,
            Added::Complete => self.complete(&key, frame),
            Added::Refused(refusal) => self.refuse(Some(&key), refusal),
        }
    }

    /// The packet that next took too long by `now`, if any.
    pub fn expire(&mut self, now: Instant) -> Option<Expired> {
        let (_, key) = self.deadlines.first_key_value().filter(|((at, _), _)| *at <= now)?;
        let key = *key;
        let queue = self.close(&key)?;
        self.counts.failed += 1;
        self.counts.timed_out += 1;
        Some(Expired { key, first: queue.into_first() })
    }

    /// Everything that waits, in the order in which it will be given up. Bounds and counters are not in it.
    pub fn write(&self, out: &mut Writer) {
        out.number(self.deadlines.len() as u64);
        for key in self.deadlines.values() {
            let Some(queue) = self.queues.get(key) else { continue };
            out.put(key);
            // Of a source only the distance counts.
            let sent = self.sources.get(&key.src).map_or(queue.source_fragments, |source| source.fragments);
            queue.write(sent.wrapping_sub(queue.source_fragments), out);
        }
    }

    /// What a predecessor wrote, under the bounds and the hash key of this one. `could_wait` says whether packets of this key can be there, with this
    /// first fragment (which begins with its header) and so many bytes in front of its payload.
    ///
    /// # Errors
    /// What no fragments lead to, or more than the bounds allow.
    pub fn read(&self, from: &mut Reader<'_>, could_wait: impl Fn(&Key, Option<(&Frame, usize)>) -> bool) -> Result<Reassembly, Damage> {
        let mut read = Reassembly::new(self.limits, *self.queues.hasher());
        // A fragment is taken as long as no more than the bound is in use: the last one may go beyond it.
        let memory_bytes_max = self.limits.memory_bytes_max + PACKET_CHARGE_BYTES + FRAGMENT_CHARGE_BYTES + self.limits.packet_bytes_max;
        for _ in 0..from.count(memory_bytes_max / PACKET_CHARGE_BYTES)? {
            let key: Key = from.take()?;
            read.serial += 1;
            let queue = FragmentQueue::read(from, read.serial, &self.limits)?;
            if !could_wait(&key, queue.first()) {
                return Err(Damage::new("fragments of a packet that cannot be here"));
            }
            if read.deadlines.last_key_value().is_some_and(|(last, _)| last.0 > queue.deadline.0) {
                return Err(Damage::new("packets in fragments are out of order"));
            }
            read.memory_bytes += queue.charge();
            if read.memory_bytes > memory_bytes_max {
                let max = self.limits.memory_bytes_max;
                return Err(Damage::new(format_args!(
                    "more fragments wait than fragment_memory_bytes = {max} allows: raise it, or drop the state"
                )));
            }
            read.deadlines.insert(queue.deadline, key);
            read.sources.entry(key.src).or_default().packets += 1;
            if read.queues.insert(key, queue).is_some() {
                return Err(Damage::new("a packet in fragments is there twice"));
            }
        }
        Ok(read)
    }

    /// A queue for the packet, if it has none.
    fn open(&mut self, now: Instant, key: &Key) {
        if self.queues.contains_key(key) {
            return;
        }
        let deadline = self.schedule(now, key);
        let fragments = {
            let source = self.sources.entry(key.src).or_default();
            source.packets += 1;
            source.fragments
        };
        let queue = FragmentQueue::new(deadline, fragments);
        self.memory_bytes += queue.charge();
        self.queues.insert(*key, queue);
    }

    fn schedule(&mut self, now: Instant, key: &Key) -> (Instant, u64) {
        self.serial += 1;
        let deadline = (now + self.limits.timeout, self.serial);
        self.deadlines.insert(deadline, *key);
        deadline
    }

    fn close(&mut self, key: &Key) -> Option<FragmentQueue> {
        let queue = self.queues.swap_remove(key)?;
        self.deadlines.remove(&queue.deadline);
        self.memory_bytes -= queue.charge();
        if let Some(source) = self.sources.get_mut(&key.src) {
            source.packets -= 1;
            if source.packets == 0 {
                self.sources.swap_remove(&key.src);
            }
        }
        Some(queue)
    }

    /// Linux ip_frag_too_far: when the source sent many fragments since the packet's last one, identifications may have wrapped around, and
    /// what waits is not of the same packet. It starts again (ip_frag_reinit).
    fn check_distance(&mut self, now: Instant, key: &Key) {
        let Some(source) = self.sources.get_mut(&key.src) else { return };
        source.fragments = source.fragments.wrapping_add(1);
        let fragments = source.fragments;
        let Some(queue) = self.queues.get_mut(key) else { return };
        let distance = fragments.wrapping_sub(std::mem::replace(&mut queue.source_fragments, fragments));
        if queue.is_empty() || self.limits.distance_max.is_none_or(|max| max == 0 || distance <= max) {
            return;
        }
        self.counts.failed += 1;
        let (old, charge) = (queue.deadline, queue.charge());
        self.deadlines.remove(&old);
        let deadline = self.schedule(now, key);
        let fresh = FragmentQueue::new(deadline, fragments);
        self.memory_bytes = self.memory_bytes - charge + fresh.charge();
        self.queues.insert(*key, fresh);
    }

    fn complete(&mut self, key: &Key, frame: &mut Frame) -> Inserted {
        let received = frame.meta().received;
        let Some(queue) = self.close(key) else { return Inserted::Kept };
        match queue.into_whole(&self.limits) {
            Ok((packet, whole)) => {
                *frame = packet;
                frame.meta_mut().received = received;
                self.counts.completed += 1;
                Inserted::Complete(whole)
            }
            Err(refusal) => self.refuse(None, refusal),
        }
    }

    /// Counts, and discards the packet where the refusal says so.
    fn refuse(&mut self, key: Option<&Key>, refusal: Refusal) -> Inserted {
        if refusal != Refusal::Duplicate {
            self.counts.failed += 1;
            self.counts.overlaps += u64::from(refusal == Refusal::Overlap);
            key.and_then(|key| self.close(key));
        }
        Inserted::Refused(refusal)
    }
}

#[cfg(test)]
mod tests;
