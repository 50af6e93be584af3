//! What was replaced in one direction of a connection, and which number is which on the other side of the box.

use crate::middlebox::segment::{Segment, Step};
use std::collections::VecDeque;
use weft_core::state::{Damage, Field, Reader, Writer};
use weft_core::{Bytes, Frame, Tail};
use weft_wire::tcp::Seq;

/// Places that are remembered: the oldest are forgotten when they are acknowledged and room is needed.
pub(super) const PLACES_MAX: usize = 64;
/// Most bytes of a string that is looked for, and of one that is put there.
pub(super) const STRING_BYTES_MAX: usize = 256;

/// Bytes that were replaced.
#[derive(Clone, Debug)]
struct Place {
    /// The original number of the first.
    at: Seq,
    /// How many there were: one at least.
    length: u32,
    /// What stands there now: a byte at least.
    new: Bytes,
}

impl Place {
    fn end(&self) -> Seq {
        Seq(self.at.0.wrapping_add(self.length))
    }

    fn new_length(&self) -> u32 {
        self.new.len() as u32
    }

    /// How many new bytes the first `old` of the original ones have become: each one byte as long as there are, the last one all that are left.
    fn becomes(&self, old: u32) -> u32 {
        if old >= self.length { self.new_length() } else { old.min(self.new_length()) }
    }

    /// What is to be added to the number behind the first `old` of its bytes.
    fn shift(&self, old: u32) -> u32 {
        self.becomes(old).wrapping_sub(old.min(self.length))
    }
}

weft_core::fields!(struct Place { at, length, new });

/// One direction of a connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Way {
    /// The number of the first byte that was seen; none before.
    first: Option<Seq>,
    /// The number behind the last one.
    next: Seq,
    /// The highest acknowledgment, in original numbers.
    acknowledged: Seq,
    /// What places that are forgotten have added to all numbers.
    base: u32,
    /// In the order of their numbers, apart from each other.
    places: VecDeque<Place>,
}

/// Whether an end of a SACK block is its first number or the one behind its last.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    First,
    Next,
}

impl Way {
    /// A segment with payload or SYN: the first tells where numbers begin, and so does a SYN with other numbers.
    pub fn begin(&mut self, segment: &Segment) {
        let first = segment.first_byte();
        if self.first.is_none() || segment.step() != Step::Other && self.first != Some(first) {
            *self = Way { first: Some(first), next: first, acknowledged: first, ..Way::default() };
        }
    }

    /// Are there places, or were there?
    pub fn is_altered(&self) -> bool {
        self.base != 0 || !self.places.is_empty()
    }

    /// The numbers of what was found in payload that was not seen before.
    pub fn search(&self, segment: &Segment, frame: &Frame, find: &[u8]) -> Vec<Seq> {
        let first = segment.first_byte();
        let seen = if self.next.gt(first) { self.next.since(first) as usize } else { 0 };
        // Later bytes have left under their numbers already.
        if segment.payload_bytes() < find.len() || seen >= segment.payload_bytes() {
            return Vec::new();
        }
        let payload = segment.payload(frame).concat();
        let (mut places, mut at) = (Vec::new(), seen);
        while let Some(found) = payload.get(at..).and_then(|rest| rest.windows(find.len()).position(|window| window == find)) {
            places.push(Seq(first.0.wrapping_add((at + found) as u32)));
            at += found + find.len();
        }
        places
    }

    /// Remembers that bytes are replaced at these numbers. Returns at how many there is room to do so.
    pub fn replace(&mut self, places: &[Seq], length: usize, new: &Bytes) -> u64 {
        for (count, at) in places.iter().enumerate() {
            if self.places.len() >= PLACES_MAX {
                let Some(oldest) = self.places.front().filter(|oldest| oldest.end().le(self.acknowledged)) else { return count as u64 };
                self.base = self.base.wrapping_add(oldest.shift(oldest.length));
                self.places.pop_front();
            }
            self.places.push_back(Place { at: *at, length: length as u32, new: new.clone() });
        }
        places.len() as u64
    }

    /// It leaves.
    pub fn sent(&mut self, segment: &Segment) {
        if self.first.is_some() {
            self.next = self.next.max(Seq(segment.first_byte().0.wrapping_add(segment.payload_bytes() as u32)));
        }
    }

    /// The payload of a segment as it is to be; `None`: no place is in it.
    pub fn altered(&self, segment: &Segment, frame: &Frame) -> Option<Tail> {
        let first = segment.first_byte();
        let end = Seq(first.0.wrapping_add(segment.payload_bytes() as u32));
        let (mut at, mut out, mut altered) = (first, Tail::new(), false);
        let original = |from: Seq, to: Seq| frame.slices(segment.payload + from.since(first) as usize, to.since(from) as usize);
        for place in self.places.iter().filter(|place| place.end().gt(first) && place.at.lt(end)) {
            if place.at.gt(at) {
                out.extend(original(at, place.at));
            }
            let from = at.max(place.at);
            at = place.end().min(end);
            let [from, to] = [from, at].map(|seq| place.becomes(seq.since(place.at)) as usize);
            out.push(place.new.slice(from..to));
            altered = true;
        }
        if end.gt(at) {
            out.extend(original(at, end));
        }
        altered.then_some(out)
    }

    /// The number behind the box of an original one.
    pub fn number(&self, seq: Seq) -> Seq {
        let shift = |place: &Place| if seq.gt(place.at) { place.shift(seq.since(place.at)) } else { 0 };
        Seq(self.places.iter().fold(seq.0.wrapping_add(self.base), |number, place| number.wrapping_add(shift(place))))
    }

    /// The original number of an acknowledgment, which is remembered.
    pub fn acknowledged(&mut self, ack: Seq) -> Seq {
        let original = self.next(ack);
        // One of bytes that were never sent frees no place.
        if self.first.is_some() && original.le(self.next) {
            self.acknowledged = self.acknowledged.max(original);
        }
        original
    }

    /// The original number of the first byte of a SACK block: of a byte that came whole.
    pub fn first(&self, seq: Seq) -> Seq {
        self.original(seq, End::First)
    }

    /// The original number behind the last byte that came whole.
    pub fn next(&self, seq: Seq) -> Seq {
        self.original(seq, End::Next)
    }

    fn original(&self, number: Seq, end: End) -> Seq {
        let mut shift = self.base;
        for place in &self.places {
            let start = Seq(place.at.0.wrapping_add(shift));
            if number.le(start) {
                break;
            }
            let into = number.since(start);
            if into < place.new_length() {
                let most = place.length - u32::from(end == End::Next);
                return Seq(place.at.0.wrapping_add(into.min(most)));
            }
            shift = shift.wrapping_add(place.shift(place.length));
        }
        Seq(number.0.wrapping_sub(shift))
    }
}

impl Field for Way {
    fn write(&self, out: &mut Writer) {
        let Way { first, next, acknowledged, base, places } = self;
        out.put(first);
        out.put(next);
        out.put(acknowledged);
        out.put(base);
        out.put(places);
    }
    fn read(from: &mut Reader<'_>) -> Result<Way, Damage> {
        let way = Way {
            first: from.take()?,
            next: from.take()?,
            acknowledged: from.take()?,
            base: from.take()?,
            places: from.take::<VecDeque<Place>>()?,
        };
        let apart = way.places.iter().zip(way.places.iter().skip(1)).all(|(one, next)| one.end().le(next.at));
        let sound =
            |place: &Place| (1..=STRING_BYTES_MAX as u32).contains(&place.length) && (1..=STRING_BYTES_MAX).contains(&place.new.len());
        if way.places.len() > PLACES_MAX || !apart || !way.places.iter().all(sound) {
            return Err(Damage::new("places that cannot have been replaced"));
        }
        Ok(way)
    }
}
