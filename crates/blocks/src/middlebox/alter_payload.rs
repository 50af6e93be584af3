//! Replaces bytes in what TCP carries, as application layer gateways do, and from then on renumbers the connection.
//!
//! Each place that was changed is remembered with its original number. From these places follow the number of every byte behind the box and, the other way round,
//! what an acknowledgment acknowledges. Of a replaced string each byte has its own piece of the replacement, so that bytes that are sent again, cut in
//! another way, become the same bytes under the same numbers.

mod places;

use super::connections::{CONNECTIONS_MAX, Connections, DIRECTION, Direction, Found};
use super::options::change_sack;
use super::segment::{PACKET_BYTES_MAX, Segment, Step};
use crate::counted;
use crate::tool::cut::cut_all;
use places::{PLACES_MAX, STRING_BYTES_MAX, Way};
use std::any::Any;
use weft_core::offload::{CutChecksums, cut};
use weft_core::*;
use weft_wire::tcp::{Flags, HEADER_LEN};

const OUT: OutPort = OutPort(0);

/// What this kind declares.
pub static KIND: Kind = Kind {
    name: "alter_payload",
    summary: "replaces bytes in what TCP carries, and renumbers the connection from there on",
    doc: "Replaces each occurrence of `find` in the payload of a segment by `replace`, which may be longer or shorter. From there on sequence numbers of one \
          direction and acknowledgments and SACK's blocks of the other are adjusted, so it must see both: in a router interfaces:upper -> ether:lower. Bytes \
          that are sent again become the same bytes. A segment that became longer leaves in several. Not found is what lies across two segments, in a SYN, or in \
          bytes that come behind later ones. A connection has at most 64 places in flight for each direction; more are not replaced. ICMP errors stay as they \
          are. Large frames are cut first. A segment with a wrong checksum passes as it is. IPv4 and IPv6. Drops nothing. An edge that has it has no \
          shift_sequence and no inject_reset: each would see one direction as the other has made it. Its state is the connections: without them they break.\n\
          Example: insert alter_payload interfaces:upper ether:lower; set alter_payload.find 'EPSV'; set alter_payload.replace 'XXXX'",
    inputs: &[Port::required("in", Carries::Any, "Ethernet frames or IP packets, of both directions")],
    outputs: &[Port::required("out", Carries::Any, "the same, with other payload")],
    parameters: &[
        Parameter {
            name: "find",
            value: ParameterType::Text,
            default: "\"\"",
            live: true,
            doc: "bytes to look for: text, in which \\xHH is a byte and \\\\ a backslash; empty: nothing",
        },
        Parameter {
            name: "replace",
            value: ParameterType::Text,
            default: "\"-\"",
            live: true,
            doc: "bytes to put there, in the same form; one at least",
        },
        DIRECTION,
        CONNECTIONS_MAX,
    ],
    counters: &[
        Counter { name: "Passed", text: "segments passed on as they came" },
        Counter { name: "Altered", text: "segments with other payload" },
        Counter { name: "Renumbered", text: "segments with other numbers and their own payload" },
        Counter { name: "Replaced", text: "places that were replaced" },
        Counter { name: "NoPlace", text: "places that were not, and segments that began a connection and found the table full" },
        Counter { name: "BadChecksum", text: "segments that passed as they came, because their checksum was wrong" },
    ],
    state_version: 1,
    ..Kind::EMPTY
};

/// Most payload of a segment that is altered in one piece.
const SEGMENT_BYTES_MAX: usize = 16_000;
// With all places of a direction in it, it is a packet still.
const _: () = assert!(SEGMENT_BYTES_MAX + PLACES_MAX * STRING_BYTES_MAX + 200 < PACKET_BYTES_MAX);

/// How to make one.
pub const ROW: BlockRow = BlockRow {
    kind: &KIND,
    make: |config| {
        let read = |name: &str| unescape(name, &config.text(name)).map_err(|why| config.bad(name, why));
        Ok(Box::new(AlterPayload {
            name: config.name.clone(),
            texts: [config.text("find"), config.text("replace")],
            find: read("find")?,
            replace: read("replace")?,
            direction: Direction::read(&config.text(DIRECTION.name)),
            connections: Connections::new(config.u64(CONNECTIONS_MAX.name)),
            counters: [0; 6],
        }))
    },
};

/// Reads a string of bytes.
fn unescape(name: &str, text: &str) -> Result<Bytes, String> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        bytes.extend_from_slice(before.as_bytes());
        let digits = after
            .strip_prefix('x')
            .and_then(|digits| digits.get(..2))
            .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let hex = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        rest = match (hex, after.strip_prefix('\\')) {
            (Some(byte), _) => {
                bytes.push(byte);
                &after[3..]
            }
            (None, Some(after)) => {
                bytes.push(b'\\');
                after
            }
            (None, None) => return Err(format!("'\\{after}' is neither \\xHH nor \\\\")),
        };
    }
    bytes.extend_from_slice(rest.as_bytes());
    match bytes.len() {
        // What takes bytes away without any in their place could leave a segment of which nobody acknowledges anything.
        0 if name == "replace" => Err("there must be a byte at least".to_owned()),
        ..=STRING_BYTES_MAX => Ok(bytes.into()),
        more => Err(format!("{more} bytes are more than {STRING_BYTES_MAX}")),
    }
}

/// The block.
#[derive(Debug)]
pub struct AlterPayload {
    name: String,
    /// `find` and `replace` as they were written.
    texts: [String; 2],
    find: Bytes,
    replace: Bytes,
    direction: Direction,
    /// What each end sends.
    connections: Connections<(Way, Way)>,
    counters: [u64; 6],
}

impl AlterPayload {
    fn take(&mut self, mut frame: Frame, cx: &mut Context<'_>) {
        let Some(segment) = Segment::find(&mut frame) else { return cx.emit(OUT, frame) };
        if segment.payload_bytes() > SEGMENT_BYTES_MAX && segment.step() == Step::Other && offload::verify(&frame) {
            frame.truncate(segment.end);
            return pieces(frame, SEGMENT_BYTES_MAX).into_iter().for_each(|piece| self.take(piece, cx));
        }
        let begins = segment.payload_bytes() > 0 || segment.step() != Step::Other;
        let Some(Found { side, by_opener, rest: ways }) = self.connections.follow(cx.now, &segment, || begins.then(Default::default))
        else {
            self.counters[0] += 1;
            self.counters[4] += u64::from(begins);
            return cx.emit(OUT, frame);
        };
        let (first, second) = ways;
        let (own, other) = if side == 0 { (first, second) } else { (second, first) };
        if begins {
            own.begin(&segment);
        }
        let mut valid = None;
        let mut is_valid = |frame: &Frame| *valid.get_or_insert_with(|| offload::verify(frame));
        if segment.step() == Step::Other && !self.find.is_empty() && self.direction.has(by_opener) {
            let places = own.search(&segment, &frame, &self.find);
            if !places.is_empty() && is_valid(&frame) {
                let replaced = own.replace(&places, self.find.len(), &self.replace);
                self.counters[3] += replaced;
                self.counters[4] += places.len() as u64 - replaced;
            }
        }
        let payload = own.altered(&segment, &frame);
        if payload.is_some() && !is_valid(&frame) {
            self.counters[5] += 1;
            return cx.emit(OUT, frame);
        }
        own.sent(&segment);
        let (seq, mut ack) = (own.number(segment.seq), segment.ack);
        if segment.flags.contains(Flags::ACK) {
            ack = other.acknowledged(segment.ack);
        }
        let renumbered = other.is_altered() || (seq, ack) != (segment.seq, segment.ack);
        if renumbered {
            segment.set_numbers(&mut frame, seq, ack);
            segment
                .change_header(&mut frame, |header| change_sack(&mut header[HEADER_LEN..], |seq| other.first(seq), |seq| other.next(seq)));
        }
        self.counters[if payload.is_some() { 1 } else { usize::from(renumbered) * 2 }] += 1;
        match payload {
            Some(payload) => give(frame, &segment, payload, cx),
            None => cx.emit(OUT, frame),
        }
    }
}

/// Gives out a segment with another payload; in several, if that has become longer.
fn give(mut frame: Frame, segment: &Segment, payload: Tail, cx: &mut Context<'_>) {
    let longer = payload.iter().map(Bytes::len).sum::<usize>() > segment.payload_bytes();
    segment.set_payload(&mut frame, payload);
    if !longer {
        return cx.emit(OUT, frame);
    }
    pieces(frame, segment.payload_bytes()).into_iter().for_each(|piece| cx.emit(OUT, piece));
}

/// Cuts a segment.
fn pieces(mut frame: Frame, segment_bytes: usize) -> Vec<Frame> {
    frame.meta_mut().gso = Some(Gso { segment_bytes: segment_bytes as u16, kind: GsoKind::Tcp });
    let mut pieces = Vec::new();
    cut(frame, CutChecksums::Partial, &mut pieces);
    pieces
}

impl Block for AlterPayload {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn process(&mut self, _port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        let frames = cut_all(vector).unwrap_or_else(|| vector.drain().collect());
        for frame in frames {
            self.take(frame, cx);
        }
    }

    fn get(&self, name: &str, _now: Instant) -> Option<Value> {
        Some(match name {
            "find" => self.texts[0].clone().into(),
            "replace" => self.texts[1].clone().into(),
            "direction" => self.direction.word().into(),
            "connections_max" => self.connections.most().into(),
            "connections" => self.connections.len().into(),
            _ => return None,
        })
    }

    fn check(&self, name: &str, value: &Value) -> Result<(), ControlError> {
        let bad = |why| ControlError::BadValue { block: self.name.clone(), parameter: name.to_owned(), why };
        match (name, value.as_str()) {
            ("find" | "replace", Some(text)) => unescape(name, text).map(|_| ()).map_err(bad),
            _ => Ok(()),
        }
    }

    fn set(&mut self, name: &str, value: Value, _cx: &mut Context<'_>) {
        match (name, value.as_str(), value.as_u64()) {
            ("find", Some(text), _) => (self.texts[0], self.find) = (text.to_owned(), unescape(name, text).unwrap_or_default()),
            // It was checked: there is a byte at least.
            ("replace", Some(text), _) => {
                if let Ok(bytes) = unescape(name, text) {
                    (self.texts[1], self.replace) = (text.to_owned(), bytes);
                }
            }
            ("direction", Some(word), _) => self.direction = Direction::read(word),
            ("connections_max", _, Some(most)) => self.connections.set_most(most),
            _ => {}
        }
    }

    fn counters(&self) -> &[u64] {
        &self.counters
    }

    fn export(&self, now: Instant) -> Result<State, StateError> {
        Ok(counted::export_with(&KIND, &self.counters, now, |out| self.connections.export(out)))
    }

    fn import(&mut self, state: &State, now: Instant) -> Result<(), StateError> {
        let most = self.connections.most();
        (self.connections, self.counters) = counted::import_with(&KIND, state, now, |from| Connections::import(most, from))?;
        Ok(())
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests;
