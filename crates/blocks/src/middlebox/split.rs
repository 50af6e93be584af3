//! Cuts TCP segments into smaller ones, as network cards do with what a stack gives them in one piece.

use super::segment::{Segment, Step};
use std::any::Any;
use weft_core::offload::{CutChecksums, cut};
use weft_core::*;
use weft_wire::tcp::Flags;

const OUT: OutPort = OutPort(0);

/// What this kind declares.
pub static KIND: Kind = Kind {
    name: "split",
    summary: "cuts TCP segments into smaller ones, each with the options of the whole",
    doc: "Cuts the payload of each segment that has more than segment_bytes into pieces of that size. Each has the header of the whole, options included, as \
          network cards do it (TSO); PSH and FIN are on the last one, CWR on the first, and IPv4's identification counts up. Large frames are cut, too, where \
          their segments are larger. Segments with SYN or RST pass as they are, and so do those whose checksum is wrong. Stands in edges of Ethernet frames or \
          IP packets, IPv4 and IPv6. Drops nothing.\n\
          Example: insert split interfaces:upper ether:lower; set split.segment_bytes 500",
    inputs: &[Port::required("in", Carries::Any, "Ethernet frames or IP packets")],
    outputs: &[Port::required("out", Carries::Any, "the same, in smaller segments")],
    parameters: &[Parameter {
        name: "segment_bytes",
        value: ParameterType::Unsigned { min: 1, max: 65_535 },
        default: "1000",
        live: true,
        doc: "most payload of a segment",
    }],
    counters: &[
        Counter { name: "Passed", text: "segments passed on as they came" },
        Counter { name: "Cut", text: "segments that were cut" },
        Counter { name: "Pieces", text: "segments that were made of them" },
        Counter { name: "BadChecksum", text: "segments that were not cut, because their checksum was wrong" },
    ],
    ..Kind::EMPTY
};

/// How to make one.
pub const ROW: BlockRow =
    BlockRow { kind: &KIND, make: |config| Ok(Box::new(Split { segment_bytes: config.u64("segment_bytes"), counters: [0; 4] })) };

/// The block.
#[derive(Debug)]
pub struct Split {
    segment_bytes: u64,
    counters: [u64; 4],
}

impl Split {
    fn is_too_large(&self, frame: &Frame, segment: &Segment) -> bool {
        // A large frame is as many segments of that size.
        let bytes = frame.meta().gso.map_or(usize::MAX, |gso| usize::from(gso.segment_bytes)).min(segment.payload_bytes());
        bytes as u64 > self.segment_bytes && segment.step() == Step::Other && !segment.flags.contains(Flags::RST)
    }

    fn take(&mut self, mut frame: Frame, cx: &mut Context<'_>) {
        let Some(segment) = Segment::find(&mut frame) else { return cx.emit(OUT, frame) };
        let too_large = self.is_too_large(&frame, &segment);
        if !too_large || !offload::verify(&frame) {
            self.counters[if too_large { 3 } else { 0 }] += 1;
            return cx.emit(OUT, frame);
        }
        frame.truncate(segment.end);
        frame.meta_mut().gso = Some(Gso { segment_bytes: self.segment_bytes as u16, kind: GsoKind::Tcp });
        let mut pieces = Vec::new();
        cut(frame, CutChecksums::Partial, &mut pieces);
        self.counters[1] += 1;
        self.counters[2] += pieces.len() as u64;
        pieces.into_iter().for_each(|piece| cx.emit(OUT, piece));
    }
}

impl Block for Split {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn process(&mut self, _port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        for frame in vector.drain() {
            self.take(frame, cx);
        }
    }

    fn get(&self, name: &str, _now: Instant) -> Option<Value> {
        (name == "segment_bytes").then(|| self.segment_bytes.into())
    }

    fn set(&mut self, name: &str, value: Value, _cx: &mut Context<'_>) {
        if let ("segment_bytes", Some(bytes)) = (name, value.as_u64()) {
            self.segment_bytes = bytes;
        }
    }

    fn counters(&self) -> &[u64] {
        &self.counters
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Tcp, mptcp_options, read};
    use super::*;
    use crate::tool::testing::Bench;
    use weft_wire::tcp::Seq;

    #[test]
    fn pieces_have_the_options_of_the_whole_and_the_end_on_the_last() {
        let payload: Vec<u8> = (0..2500u32).map(|at| at as u8).collect();
        for gso in [None, Some(1400)] {
            let flags = Flags::ACK | Flags::PSH | Flags::FIN;
            for tcp in (Tcp { options: mptcp_options(), payload: payload.clone(), flags, gso, ..Tcp::default() }).everywhere() {
                let mut bench = Bench::new("split", &[]);
                bench.send(Instant::ZERO, [tcp.frame()]);
                let pieces: Vec<_> = bench.taken().into_iter().map(read).collect();
                let seen: Vec<_> = pieces.iter().map(|piece| (piece.header.seq, piece.payload.len(), piece.header.flags)).collect();
                assert_eq!(seen, [(Seq(1000), 1000, Flags::ACK), (Seq(2000), 1000, Flags::ACK), (Seq(3000), 500, flags)]);
                assert!(pieces.iter().all(|piece| piece.header.options == mptcp_options()));
                assert_eq!(pieces.iter().flat_map(|piece| piece.payload.clone()).collect::<Vec<_>>(), payload);
                assert_eq!(bench.counters(), [0, 1, 3, 0]);
            }
        }
    }

    #[test]
    fn what_is_small_padded_damaged_or_begins_a_connection_is_not_cut() {
        let mut bench = Bench::new("split", &[("segment_bytes", 40.into())]);
        let mut padded = Tcp { ethernet: true, payload: vec![1; 40], ..Tcp::default() }.frame();
        padded.append(vec![0; 20].into());
        let fast_open = Tcp { flags: Flags::SYN, payload: vec![1; 80], ..Tcp::default() }.frame();
        let mut damaged = Tcp { payload: vec![1; 80], ..Tcp::default() }.frame();
        damaged.head_mut()[37] ^= 1;
        damaged.meta_mut().checksum = Checksum::Unknown;
        bench.send(Instant::ZERO, [padded, fast_open, damaged, Frame::ingress(&[0x60; 50])]);
        assert_eq!((bench.taken().len(), bench.counters()), (4, &[2, 0, 0, 1][..]));
        let mut padded = Tcp { ethernet: true, payload: vec![1; 41], ..Tcp::default() }.frame();
        padded.append(vec![0; 20].into());
        bench.send(Instant::ZERO, [padded]);
        assert_eq!(bench.taken().into_iter().map(|frame| read(frame).payload.len()).collect::<Vec<_>>(), [40, 1]);
    }
}
