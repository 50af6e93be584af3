//! Ends connections by resets that neither end has sent, as firewalls and worse do.

use super::connections::{CONNECTIONS_MAX, Connections};
use super::segment::{Segment, Step};
use crate::counted;
use std::any::Any;
use weft_core::*;
use weft_wire::tcp::{Flags, Seq};

const OUT: OutPort = OutPort(0);

/// What this kind declares.
pub static KIND: Kind = Kind {
    name: "inject_reset",
    summary: "ends TCP connections by resets that neither end has sent",
    doc: "Counts payload and segments of each connection, both directions together. With the segment that completes after_bytes or after_segments it sends, \
          once, a reset to one end or both: to whoever that segment is for with the number behind it (with drop_original its own), to its sender with the number \
          that it acknowledges. The reset to an end looks like the last frame that went there; where none was seen, like this one with ends exchanged. So it \
          must see both directions: in a router interfaces:upper -> ether:lower. A connection whose SYN was not seen has no opener, and is reset for both only. \
          One that has ended begins anew with a SYN. Large frames stay large, and are one segment. IPv4 and IPv6. An edge that has it has no shift_sequence and \
          no alter_payload: each would see one direction as the other has made it. Its state is the connections.\n\
          Example: insert inject_reset interfaces:upper ether:lower; set inject_reset.after_bytes 100000",
    inputs: &[Port::required("in", Carries::Any, "Ethernet frames or IP packets, of both directions")],
    outputs: &[Port::required("out", Carries::Any, "the same, and resets")],
    parameters: &[
        Parameter {
            name: "after_bytes",
            value: ParameterType::Unsigned { min: 0, max: u64::MAX },
            default: "0",
            live: true,
            doc: "payload of a connection after which it is reset; 0: payload does not count",
        },
        Parameter {
            name: "after_segments",
            value: ParameterType::Unsigned { min: 0, max: u64::MAX },
            default: "0",
            live: true,
            doc: "segments of a connection after which it is reset, the SYN among them; 0: segments do not count",
        },
        Parameter {
            name: "to",
            value: ParameterType::Choice(&["both", "opener", "listener"]),
            default: "\"both\"",
            live: true,
            doc: "who gets a reset: whoever sent the first SYN, the other end, or both",
        },
        Parameter {
            name: "drop_original",
            value: ParameterType::Bool,
            default: "false",
            live: true,
            doc: "the segment that completes the count is dropped (filtered)",
        },
        CONNECTIONS_MAX,
    ],
    counters: &[
        Counter { name: "Segments", text: "segments seen" },
        Counter { name: "Connections", text: "connections that were reset" },
        Counter { name: "Resets", text: "resets sent" },
        Counter { name: "NoPlace", text: "segments that were not counted, because the table of connections was full" },
    ],
    state_version: 1,
    ..Kind::EMPTY
};

/// How to make one.
pub const ROW: BlockRow = BlockRow {
    kind: &KIND,
    make: |config| {
        Ok(Box::new(InjectReset {
            after_bytes: config.u64("after_bytes"),
            after_segments: config.u64("after_segments"),
            to: To::read(&config.text("to")),
            drop_original: config.bool("drop_original"),
            connections: Connections::new(config.u64(CONNECTIONS_MAX.name)),
            counters: [0; 4],
        }))
    },
};

/// Who gets a reset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum To {
    Both,
    Opener,
    Listener,
}

impl To {
    fn read(word: &str) -> To {
        match word {
            "opener" => To::Opener,
            "listener" => To::Listener,
            _ => To::Both,
        }
    }

    fn word(self) -> &'static str {
        match self {
            To::Both => "both",
            To::Opener => "opener",
            To::Listener => "listener",
        }
    }

    /// Does an end get one? `opener`: it opened the connection, if anybody knows.
    fn has(self, opener: Option<bool>) -> bool {
        match self {
            To::Both => true,
            To::Opener => opener == Some(true),
            To::Listener => opener == Some(false),
        }
    }
}

/// What is counted of a connection.
#[derive(Debug, Default)]
struct Counted {
    bytes: u64,
    segments: u64,
    done: bool,
    /// The headers of the last frame from each end.
    last: (Option<Frame>, Option<Frame>),
}

weft_core::fields!(struct Counted { bytes, segments, done, last });

/// The block.
#[derive(Debug)]
pub struct InjectReset {
    after_bytes: u64,
    after_segments: u64,
    to: To,
    drop_original: bool,
    connections: Connections<Counted>,
    counters: [u64; 4],
}

/// A frame's headers alone, of which nobody need be told.
fn headers_of(frame: &Frame, segment: &Segment) -> Frame {
    let mut headers = frame.clone();
    headers.truncate(segment.payload);
    let meta = headers.meta_mut();
    (meta.completion, meta.gso) = (None, None);
    segment.seal(&mut headers);
    headers
}

impl InjectReset {
    /// Looks at a segment. With one that completes the count go these resets.
    fn see(&mut self, frame: &Frame, segment: &Segment, now: Instant) -> Option<Vec<Frame>> {
        self.counters[0] += 1;
        let Some(found) = self.connections.follow(now, segment, || Some(Counted::default())) else {
            self.counters[3] += 1;
            return None;
        };
        let counted = found.rest;
        if segment.step() == Step::Syn && counted.done {
            *counted = Counted::default();
        }
        let (own, other) = if found.side == 0 { (&mut counted.last.0, &counted.last.1) } else { (&mut counted.last.1, &counted.last.0) };
        let headers = headers_of(frame, segment);
        *own = Some(headers.clone());
        counted.bytes = counted.bytes.saturating_add(segment.payload_bytes() as u64);
        counted.segments += 1;
        counted.done |= segment.flags.contains(Flags::RST);
        let by_bytes = self.after_bytes > 0 && counted.bytes >= self.after_bytes;
        let by_segments = self.after_segments > 0 && counted.segments >= self.after_segments;
        let [to_sender, to_receiver] = [found.by_opener, found.by_opener.map(|by_opener| !by_opener)].map(|opener| self.to.has(opener));
        if counted.done || !(by_bytes || by_segments) || !(to_sender || to_receiver) {
            return None;
        }
        counted.done = true;
        let mut resets = Vec::new();
        if to_sender {
            let seen = other.clone().and_then(|mut frame| Segment::find(&mut frame).map(|place| (frame, place)));
            let (back, place) = seen.unwrap_or_else(|| segment.exchanged(headers.clone()));
            // A SYN acknowledges nothing. RFC 9293 §3.10.7.3 lets its sender believe a reset by the acknowledgment alone.
            let seq = if segment.flags.contains(Flags::ACK) { segment.ack } else { Seq(0) };
            resets.push(place.reset(back, seq, segment.next(), Flags::ACK));
        }
        if to_receiver {
            let seq = if self.drop_original { segment.seq } else { segment.next() };
            resets.push(segment.reset(headers, seq, segment.ack, segment.flags & Flags::ACK));
        }
        self.counters[1] += 1;
        self.counters[2] += resets.len() as u64;
        Some(resets)
    }
}

impl Block for InjectReset {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn process(&mut self, _port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        for mut frame in vector.drain() {
            let resets = Segment::find(&mut frame).and_then(|segment| self.see(&frame, &segment, cx.now));
            match self.drop_original && resets.is_some() {
                true => cx.drop(frame, Reason::Filtered),
                false => cx.emit(OUT, frame),
            }
            resets.into_iter().flatten().for_each(|reset| cx.emit(OUT, reset));
        }
    }

    fn get(&self, name: &str, _now: Instant) -> Option<Value> {
        Some(match name {
            "after_bytes" => self.after_bytes.into(),
            "after_segments" => self.after_segments.into(),
            "to" => self.to.word().into(),
            "drop_original" => self.drop_original.into(),
            "connections_max" => self.connections.most().into(),
            "connections" => self.connections.len().into(),
            _ => return None,
        })
    }

    fn set(&mut self, name: &str, value: Value, _cx: &mut Context<'_>) {
        match (name, value.as_u64(), value.as_str(), value.as_bool()) {
            ("after_bytes", Some(bytes), ..) => self.after_bytes = bytes,
            ("after_segments", Some(segments), ..) => self.after_segments = segments,
            ("to", _, Some(word), _) => self.to = To::read(word),
            ("drop_original", _, _, Some(dropped)) => self.drop_original = dropped,
            ("connections_max", Some(most), ..) => self.connections.set_most(most),
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
mod tests {
    use super::super::testing::{Read, Tcp, read};
    use super::*;
    use crate::tool::testing::Bench;

    fn pass(bench: &mut Bench, tcp: &Tcp) -> Vec<Read> {
        bench.send(Instant::ZERO, [tcp.frame()]);
        bench.taken().into_iter().map(read).collect()
    }

    /// Who a reset is for, its numbers and flags.
    fn resets(seen: &[Read]) -> Vec<(u16, u32, u32, Flags)> {
        let resets = seen.iter().filter(|read| read.header.flags.contains(Flags::RST));
        resets.map(|read| (read.header.dst_port, read.header.seq.0, read.header.ack.0, read.header.flags)).collect()
    }

    const RESET: Flags = Flags::RST.union(Flags::ACK);

    #[test]
    fn with_the_byte_that_completes_the_count_both_ends_are_reset_once() {
        for shape in Tcp::default().everywhere() {
            let mut bench = Bench::new("inject_reset", &[("after_bytes", 1000.into())]);
            pass(&mut bench, &Tcp { flags: Flags::SYN, ack: 0, ..shape.clone() });
            pass(&mut bench, &Tcp { flags: Flags::SYN | Flags::ACK, seq: 5000, ack: 1001, ..shape.clone() }.back());
            pass(&mut bench, &Tcp { seq: 5001, ack: 1001, payload: vec![1; 400], ..shape.clone() }.back());
            bench.replace("inject_reset");
            let data = Tcp { seq: 1001, ack: 5401, payload: vec![2; 600], gso: Some(100), ..shape.clone() };
            let seen = pass(&mut bench, &data);
            assert_eq!((seen.len(), seen[0].payload.len()), (3, 600), "behind the segment itself");
            assert_eq!(resets(&seen), [(40_000, 5401, 1601, RESET), (80, 1601, 5401, RESET)]);
            assert!(seen[1..].iter().all(|read| read.payload.is_empty() && read.options.is_empty()));
            assert_eq!(pass(&mut bench, &data).len(), 1, "only once");
            assert_eq!(bench.counters(), [5, 1, 2, 0]);
            pass(&mut bench, &Tcp { flags: Flags::SYN, payload: vec![], gso: None, ..data.clone() });
            assert_eq!(pass(&mut bench, &Tcp { payload: vec![1; 1000], ..data }).len(), 3, "begun anew");
        }
    }

    #[test]
    fn the_reset_to_an_end_comes_as_frames_to_it_do() {
        let mut bench = Bench::new("inject_reset", &[("after_segments", 3.into()), ("to", "opener".into())]);
        let shape = Tcp { ethernet: true, ..Tcp::default() };
        pass(&mut bench, &Tcp { flags: Flags::SYN, ..shape.clone() });
        let mut back = Tcp { flags: Flags::SYN | Flags::ACK, ..shape.clone() }.back().frame();
        back.meta_mut().interface = InterfaceIndex(3);
        bench.send(Instant::ZERO, [back]);
        bench.taken();
        bench.send(Instant::ZERO, [shape.frame()]);
        let [_, reset] = <[_; 2]>::try_from(bench.taken()).unwrap();
        assert_eq!((reset.meta().interface, &reset.head()[..12]), (InterfaceIndex(3), &[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..]));
        assert_eq!(resets(&[read(reset)]), [(40_000, 5000, 1000, RESET)]);
    }

    #[test]
    fn the_first_segment_can_be_answered_and_dropped() {
        for (to, expected) in [("opener", (40_000, 0, 1001, RESET)), ("listener", (80, 1000, 0, Flags::RST))] {
            for shape in Tcp::default().everywhere() {
                let parameters = [("after_segments", 1.into()), ("drop_original", true.into()), ("to", to.into())];
                let mut bench = Bench::new("inject_reset", &parameters);
                let seen = pass(&mut bench, &Tcp { flags: Flags::SYN, ack: 0, ..shape.clone() });
                assert_eq!((seen.len(), resets(&seen)), (1, vec![expected]));
                assert_eq!(bench.drops(Reason::Filtered), 1);
            }
        }
    }

    #[test]
    fn without_a_count_or_an_opener_nothing_is_reset_and_the_table_is_bounded() {
        let mut bench = Bench::new("inject_reset", &[("connections_max", 1.into())]);
        assert_eq!(pass(&mut bench, &Tcp::default()).len(), 1);
        bench.set("after_segments", "1").unwrap();
        bench.set("to", "listener").unwrap();
        assert_eq!(pass(&mut bench, &Tcp::default()).len(), 1, "its SYN was not seen");
        assert_eq!(pass(&mut bench, &Tcp { src_port: 9, ..Tcp::default() }).len(), 1);
        bench.send(Instant::ZERO, [Frame::ingress(&[0x45; 60]), Frame::ingress(&[])]);
        assert_eq!((bench.taken().len(), bench.counters()), (2, &[3, 0, 0, 1][..]));
        bench.set("to", "both").unwrap();
        assert_eq!(pass(&mut bench, &Tcp::default()).len(), 3);
    }
}
