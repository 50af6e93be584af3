//! The fragments of one packet, as runs of bytes without holes.

use super::{FRAGMENT_CHARGE_BYTES, Fragment, Limits, PACKET_CHARGE_BYTES, Refusal, Whole};
use std::collections::BTreeMap;
use weft_core::state::{Damage, Reader, Writer};
use weft_core::{Bytes, Checksum, Frame, Instant};
use weft_wire::ipv4::Ecn;

/// Longer slices are copied when they are kept: a backend shares large blocks out in pieces, and a few bytes held for half a minute must not
/// keep a block of many. Fragments of ordinary links are shorter.
const SHARED_BYTES_MAX: usize = 2048;
/// A packet in more slices than this is joined into one: whoever writes slices out may take a thousand at most (IOV_MAX).
const SLICES_MAX: usize = 128;
/// All fragments but the last have a multiple of so many bytes.
const UNIT_BYTES: usize = 8;

/// Bytes without a hole. The payload of the fragment at offset 0 is in the frame that brought it.
#[derive(Debug)]
struct Run {
    end: usize,
    slices: Vec<Bytes>,
}

/// What became of a fragment.
pub(super) enum Added {
    Kept,
    /// Nothing is missing any more.
    Complete,
    Refused(Refusal),
}

/// The fragments of one packet.
#[derive(Debug)]
pub(super) struct FragmentQueue {
    /// When it is given up, and its number among those of that instant.
    pub deadline: (Instant, u64),
    /// How many fragments the source had sent when the last of this packet came.
    pub source_fragments: u32,
    /// The fragment at offset 0, and the length of its header.
    first: Option<(Frame, usize)>,
    /// By where they start.
    runs: BTreeMap<usize, Run>,
    /// The furthest end that is known, and whether it is the packet's.
    end: usize,
    last_in: bool,
    /// Payload bytes that are there.
    bytes: usize,
    fragments: usize,
    /// Bit n: a fragment had the codepoint n.
    codepoints: u8,
    /// Length of the largest fragment, and of the largest that must not be fragmented.
    largest: usize,
    largest_unfragmentable: usize,
}

impl FragmentQueue {
    pub(super) fn new(deadline: (Instant, u64), source_fragments: u32) -> FragmentQueue {
        FragmentQueue {
            deadline,
            source_fragments,
            first: None,
            runs: BTreeMap::new(),
            end: 0,
            last_in: false,
            bytes: 0,
            fragments: 0,
            codepoints: 0,
            largest: 0,
            largest_unfragmentable: 0,
        }
    }

    /// No fragment came yet.
    pub(super) fn is_empty(&self) -> bool {
        self.fragments == 0
    }

    /// What it costs, bytes.
    pub(super) fn charge(&self) -> usize {
        PACKET_CHARGE_BYTES + self.bytes + self.fragments * FRAGMENT_CHARGE_BYTES
    }

    /// In the order of Linux's ip_frag_queue. Nothing changes unless the fragment is kept.
    pub(super) fn add(&mut self, fragment: &Fragment, frame: &mut Frame, limits: &Limits) -> Added {
        let mut length = frame.len().saturating_sub(fragment.header_len);
        if fragment.more {
            // All fragments but the last are multiples of eight: the rest cannot be followed by anything (Linux: "end &= ~7").
            length &= !7;
        }
        let end = fragment.offset + length;
        let contradicts = if fragment.more { self.last_in && end > self.end } else { end < self.end || (self.last_in && end != self.end) };
        if contradicts || length == 0 {
            return Added::Refused(Refusal::Contradiction);
        }
        if fragment.header_len + end > limits.packet_bytes_max {
            return Added::Refused(Refusal::TooLong);
        }
        let appends = match self.place(fragment.offset, end) {
            Ok(appends) => appends,
            Err(refusal) => return Added::Refused(refusal),
        };
        if self.fragments >= limits.fragments_max {
            return Added::Refused(Refusal::TooMany);
        }
        self.codepoints |= 1 << fragment.ecn.bits();
        self.largest = self.largest.max(fragment.header_len + length);
        if fragment.dont_fragment {
            self.largest_unfragmentable = self.largest_unfragmentable.max(fragment.header_len + length);
        }
        self.end = self.end.max(end);
        self.last_in |= !fragment.more;
        self.bytes += length;
        self.fragments += 1;
        self.keep(fragment, length, frame, appends);
        if self.last_in && self.bytes == self.end { Added::Complete } else { Added::Kept }
    }

    /// Where the bytes `start..end` go: behind the last run (true), or into a run of their own.
    fn place(&self, start: usize, end: usize) -> Result<bool, Refusal> {
        let Some((_, last)) = self.runs.last_key_value() else { return Ok(false) };
        // "This is the common case: skb goes to the end."
        if end > last.end {
            return if start < last.end { Err(Refusal::Overlap) } else { Ok(start == last.end) };
        }
        // The run at or before the start, or else the one behind it: one of them is touched if any is.
        let before = self.runs.range(..=start).next_back().filter(|(_, run)| run.end > start);
        let behind = || self.runs.range(start..end).next();
        match before.or_else(behind) {
            None => Ok(false),
            Some((run_start, run)) if *run_start <= start && end <= run.end => Err(Refusal::Duplicate),
            Some(_) => Err(Refusal::Overlap),
        }
    }

    fn keep(&mut self, fragment: &Fragment, length: usize, frame: &mut Frame, appends: bool) {
        let slices: Vec<Bytes> = match fragment.offset {
            0 => {
                frame.truncate(fragment.header_len + length);
                let meta = frame.meta().clone();
                let mut kept = std::mem::replace(frame, Frame::ingress(&[]));
                // Whoever completes the packet with this very fragment still asks when it came.
                *frame.meta_mut() = meta;
                unshare(&mut kept, fragment.header_len);
                self.first = Some((kept, fragment.header_len));
                Vec::new()
            }
            _ => frame.slices(fragment.header_len, length).into_iter().map(owned).collect(),
        };
        let end = fragment.offset + length;
        if appends && let Some(mut last) = self.runs.last_entry() {
            let run = last.get_mut();
            run.end = end;
            run.slices.extend(slices);
        } else {
            self.runs.insert(fragment.offset, Run { end, slices });
        }
    }

    /// The fragment at offset 0, and the length of its header.
    pub(super) fn first(&self) -> Option<(&Frame, usize)> {
        self.first.as_ref().map(|(frame, header_len)| (frame, *header_len))
    }

    /// As state: what cannot be computed from the rest. The source has sent `distance` fragments since the last of this packet.
    pub(super) fn write(&self, distance: u32, out: &mut Writer) {
        out.put(&self.deadline.0);
        out.put(&distance);
        out.put(&self.first);
        out.number(self.runs.len() as u64);
        for (start, run) in &self.runs {
            out.put(start);
            out.put(&run.slices);
        }
        out.put(&self.last_in);
        out.put(&self.fragments);
        out.put(&self.codepoints);
        out.put(&self.largest);
        out.put(&self.largest_unfragmentable);
    }

    /// What [`FragmentQueue::write`] wrote, of a source that counts from zero again; `serial` is its number among those of its deadline.
    pub(super) fn read(from: &mut Reader<'_>, serial: u64, limits: &Limits) -> Result<FragmentQueue, Damage> {
        let (deadline, distance): (Instant, u32) = (from.take()?, from.take()?);
        let mut queue = FragmentQueue::new((deadline, serial), 0u32.wrapping_sub(distance));
        queue.first = from.take()?;
        if queue.first().is_some_and(|(frame, header_len)| frame.len() <= header_len || frame.meta().completion.is_some()) {
            return Err(Damage::new("a first fragment that cannot be"));
        }
        for _ in 0..from.count(limits.fragments_max)? {
            queue.read_run(from, limits)?;
        }
        (queue.last_in, queue.fragments, queue.codepoints) = (from.take()?, from.take()?, from.take()?);
        (queue.largest, queue.largest_unfragmentable) = (from.take()?, from.take()?);
        let fragments_max = limits.fragments_max.min(queue.bytes.div_ceil(UNIT_BYTES));
        let ends = queue.last_in || queue.end.is_multiple_of(UNIT_BYTES);
        let is_whole = queue.last_in && queue.bytes == queue.end;
        let counts =
            !queue.is_empty() && (queue.runs.len()..=fragments_max).contains(&queue.fragments) && (1..1 << 4).contains(&queue.codepoints);
        let sizes = queue.largest <= limits.packet_bytes_max && queue.largest_unfragmentable <= queue.largest;
        match ends && !is_whole && counts && sizes && queue.first.is_some() == queue.runs.contains_key(&0) {
            true => Ok(queue),
            false => Err(Damage::new("a packet's fragments contradict what is noted of them")),
        }
    }

    /// The next run of [`FragmentQueue::read`].
    fn read_run(&mut self, from: &mut Reader<'_>, limits: &Limits) -> Result<(), Damage> {
        let (start, slices): (usize, Vec<Bytes>) = (from.take()?, from.take()?);
        let in_front = self.first().filter(|_| start == 0).map_or(0, |(frame, header_len)| frame.len() - header_len);
        let bytes = in_front + slices.iter().map(Bytes::len).sum::<usize>();
        let fits = start <= limits.packet_bytes_max && bytes <= limits.packet_bytes_max - start;
        let follows = start >= self.end && start.is_multiple_of(UNIT_BYTES) && self.end.is_multiple_of(UNIT_BYTES);
        if !fits || !follows || bytes == 0 || slices.iter().any(Bytes::is_empty) || self.runs.contains_key(&start) {
            return Err(Damage::new("fragments of a packet where none can be"));
        }
        self.end = start + bytes;
        self.bytes += bytes;
        self.runs.insert(start, Run { end: self.end, slices });
        Ok(())
    }

    /// The fragment at offset 0.
    pub(super) fn into_first(self) -> Option<Frame> {
        self.first.map(|(frame, _)| frame)
    }

    /// The whole packet, once nothing is missing.
    pub(super) fn into_whole(self, limits: &Limits) -> Result<(Frame, Whole), Refusal> {
        let congestion_experienced = congestion_experienced(self.codepoints).ok_or(Refusal::EcnMixed)?;
        let Some((mut frame, header_len)) = self.first else { return Err(Refusal::Contradiction) };
        // The first fragment's header counts, which may be longer than that of others: options are not all copied.
        if header_len + self.end > limits.packet_bytes_max {
            return Err(Refusal::TooLong);
        }
        let slices: Vec<Bytes> = self.runs.into_values().flat_map(|run| run.slices).collect();
        if slices.len() > SLICES_MAX {
            frame.append(slices.concat().into());
        } else {
            slices.into_iter().for_each(|slice| frame.append(slice));
        }
        let meta = frame.meta_mut();
        meta.checksum = Checksum::Unknown;
        meta.gso = None;
        // Linux ip_frag_reasm: the packet carries the bit when its largest fragment did, "to avoid sending tiny DF-fragments in case skb was
        // built from one very small df-fragment and one large non-df frag".
        let dont_fragment = self.largest_unfragmentable == self.largest;
        Ok((frame, Whole { header_len, congestion_experienced, dont_fragment }))
    }
}

/// RFC 3168 §5.3: "if any fragment of an IP packet to be reassembled has the CE codepoint set, then one of two actions MUST be taken: Set the CE
/// codepoint on the reassembled packet. However, this MUST NOT occur if any of the other fragments contributing to this reassembly carries the
/// Not-ECT codepoint." `None`: discarded; Linux (ip_frag_ecn_table) does so whenever Not-ECT meets another.
fn congestion_experienced(codepoints: u8) -> Option<bool> {
    let not_capable = 1 << Ecn::NotCapable.bits();
    let experienced = codepoints & 1 << Ecn::CongestionExperienced.bits() != 0;
    (codepoints & not_capable == 0 || codepoints == not_capable).then_some(experienced)
}

/// The slice, or a copy that keeps nothing else alive.
fn owned(slice: Bytes) -> Bytes {
    if slice.len() > SHARED_BYTES_MAX { Bytes::copy_from_slice(&slice) } else { slice }
}

/// The same for a whole frame: its payload behind the header.
fn unshare(frame: &mut Frame, header_len: usize) {
    if frame.tail().iter().any(|slice| slice.len() > SHARED_BYTES_MAX) {
        let payload = frame.slices(header_len, frame.len());
        frame.truncate(header_len);
        payload.into_iter().map(owned).for_each(|slice| frame.append(slice));
    }
}
