//! Compresses what leaves and restores what comes in, on an edge of Ethernet frames (zstd, RFC 8878).
//!
//! Each frame is compressed by itself, so that one that is lost takes no other with it. What would not become smaller leaves as it is. zstd's own library does
//! the work: what it writes follows from the bytes and the level alone.

use super::envelope::{self, ENVELOPE_LEN, Envelope};
use std::any::Any;
use weft_core::*;
use weft_wire::ethernet::HEADER_LEN;
use zstd::bulk::{Compressor, Decompressor};

/// In [`Envelope::kind`].
const IN_ENVELOPES: u8 = 1;
/// Largest payload of a frame that is believed: a small frame may claim to hold gigabytes.
const PAYLOAD_BYTES_MAX: usize = 65_535;
/// Smaller payloads are not tried.
const PAYLOAD_BYTES_MIN: usize = 64;
const OUT: OutPort = OutPort(0);

/// What this kind declares.
pub static KIND: Kind = Kind {
    name: "compress",
    summary: "compresses Ethernet frames that leave and restores those that come in (zstd)",
    doc: "Goes into edges of Ethernet frames. A frame that leaves is compressed by itself and gets EtherType 0x88b5 (IEEE 802, local experiments); one that does \
          not become smaller leaves as it is. A frame that comes in is restored if it is compressed, and else passes as it is. So both ends of a wire are \
          switched one after the other, without a frame lost: first the blocks for what comes in, at both ends, then those for what leaves; the other way \
          round to end it. What says it is compressed and cannot be restored, or would have more than 65535 bytes, is dropped (bad-packet). Large frames are \
          cut, and their checksums made, before.\n\
          Standards: RFC 8878.\n\
          Example: insert unpack interfaces:upper ether:lower; insert pack ether:lower interfaces:upper",
    inputs: &[Port::required("in", Carries::Ethernet, "frames in one direction or both")],
    outputs: &[Port::required("out", Carries::Ethernet, "compressed, or restored")],
    parameters: &[Parameter {
        name: "level",
        value: ParameterType::Unsigned { min: 1, max: 19 },
        default: "3",
        live: true,
        doc: "how hard it tries: 1 is fastest, 19 smallest",
    }],
    counters: &[
        Counter { name: "Compressed", text: "frames that left smaller" },
        Counter { name: "CompressedBytes", text: "their payload as it left" },
        Counter { name: "CompressedFromBytes", text: "their payload before" },
        Counter { name: "Incompressible", text: "frames that left as they were" },
        Counter { name: "Restored", text: "frames that came compressed" },
        Counter { name: "Plain", text: "frames that came as they are" },
        Counter { name: "Damaged", text: "frames that could not be restored" },
    ],
    ..Kind::EMPTY
};

/// How to make one.
pub const ROW: BlockRow = BlockRow {
    kind: &KIND,
    make: |config| {
        let level = config.u64("level");
        let failed = |error: std::io::Error| config.bad("level", error.to_string());
        let compressor = compressor(level).map_err(failed)?;
        let decompressor = Decompressor::new().map_err(failed)?;
        Ok(Box::new(Compress { level, compressor, decompressor, counters: [0; 7] }))
    },
};

fn compressor(level: u64) -> std::io::Result<Compressor<'static>> {
    Compressor::new(i32::try_from(level).unwrap_or(1))
}

/// The block.
struct Compress {
    level: u64,
    compressor: Compressor<'static>,
    decompressor: Decompressor<'static>,
    counters: [u64; 7],
}

impl Compress {
    fn compress(&mut self, mut frame: Frame) -> Frame {
        let smaller =
            envelope::payload(&mut frame).filter(|(_, payload)| payload.len() >= PAYLOAD_BYTES_MIN).and_then(|(inner, payload)| {
                let packed = self.compressor.compress(&payload).ok().filter(|packed| packed.len() + ENVELOPE_LEN < payload.len())?;
                Some((inner, packed, payload.len()))
            });
        let Some((inner, packed, before)) = smaller else {
            self.counters[3] += 1;
            return frame;
        };
        self.counters[0] += 1;
        self.counters[1] += (packed.len() + ENVELOPE_LEN) as u64;
        self.counters[2] += before as u64;
        envelope::wrapped(&mut frame, Envelope { kind: IN_ENVELOPES, flags: 0, inner }, packed, true)
    }

    fn restore(&mut self, mut frame: Frame) -> Result<Frame, Frame> {
        let Some(Envelope { inner, .. }) = Envelope::of(&mut frame).filter(|envelope| envelope.kind == IN_ENVELOPES) else {
            self.counters[5] += 1;
            return Ok(frame);
        };
        let packed = frame.to_vec().split_off(HEADER_LEN + ENVELOPE_LEN);
        match self.decompressor.decompress(&packed, PAYLOAD_BYTES_MAX) {
            Ok(payload) if !payload.is_empty() => {
                self.counters[4] += 1;
                Ok(envelope::with_content(&mut frame, inner, &[], payload, true))
            }
            _ => {
                self.counters[6] += 1;
                Err(frame)
            }
        }
    }
}

impl Block for Compress {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn process(&mut self, _port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        for frame in envelope::ready(vector) {
            let done = match frame.meta().direction {
                Direction::Egress => Ok(self.compress(frame)),
                Direction::Ingress => self.restore(frame),
            };
            match done {
                Ok(frame) => cx.emit(OUT, frame),
                Err(frame) => cx.drop(frame, Reason::BadPacket),
            }
        }
    }

    fn get(&self, name: &str, _now: Instant) -> Option<Value> {
        (name == "level").then(|| self.level.into())
    }

    fn set(&mut self, name: &str, value: Value, _cx: &mut Context<'_>) {
        if let ("level", Some(level)) = (name, value.as_u64())
            && let Ok(compressor) = compressor(level)
        {
            (self.level, self.compressor) = (level, compressor);
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
    use super::*;
    use crate::tool::testing::{Bench, ethernet};

    #[test]
    fn what_leaves_comes_in_as_it_was() {
        let (mut pack, mut unpack) = (Bench::new("compress", &[]), Bench::new("compress", &[]));
        let frames = [ethernet(0x0800, &[7; 1500]), ethernet(0x86dd, &(0..200).map(|n| n as u8 / 9).collect::<Vec<u8>>())];
        let small = [ethernet(0x0800, &[1, 2, 3]), ethernet(0x0800, &xorshift(1400))];
        pack.send(Instant::ZERO, frames.iter().chain(&small).cloned());
        let packed = pack.taken();
        assert!(packed[0].len() < 60 && packed[1].len() < frames[1].len(), "{} and {} bytes", packed[0].len(), packed[1].len());
        assert_eq!(packed[0].head()[12..18], [0x88, 0xb5, 1, 0, 8, 0]);
        assert_eq!(packed[2..].iter().map(Frame::to_vec).collect::<Vec<_>>(), small.iter().map(Frame::to_vec).collect::<Vec<_>>());
        unpack.send(Instant::ZERO, packed.iter().map(|frame| Frame::ingress(&frame.to_vec())));
        let restored: Vec<Vec<u8>> = unpack.taken().iter().map(Frame::to_vec).collect();
        assert_eq!(restored, frames.iter().chain(&small).map(Frame::to_vec).collect::<Vec<_>>());
        assert_eq!((pack.counters()[0], pack.counters()[3], unpack.counters()[4], unpack.counters()[5]), (2, 2, 2, 2));
    }

    /// Bytes in which zstd finds nothing.
    fn xorshift(count: usize) -> Vec<u8> {
        let mut state = 88_172_645_463_325_252u64;
        let next = |_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        };
        (0..count).map(next).collect()
    }

    #[test]
    fn damage_and_bombs_are_dropped() {
        let mut unpack = Bench::new("compress", &[]);
        let bomb = zstd::bulk::compress(&vec![0; 100_000], 3).unwrap();
        for content in [&b"no zstd at all"[..], &bomb, &[]] {
            let mut bytes = ethernet(0x88b5, &[1, 0, 8, 0]).to_vec();
            bytes.extend_from_slice(content);
            unpack.send(Instant::ZERO, [Frame::ingress(&bytes)]);
        }
        assert_eq!((unpack.taken().len(), unpack.drops(Reason::BadPacket), unpack.counters()[6]), (0, 3, 3));
        unpack.send(Instant::ZERO, [Frame::ingress(&[1, 2]), Frame::ingress(&ethernet(0x88b5, &[9, 0, 8, 0]).to_vec())]);
        assert_eq!(unpack.taken().len(), 2, "what is not its own passes");
    }
}
