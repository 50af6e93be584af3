//! Flips one bit of some frames, at random, as a bad wire or memory does.

use crate::tool::cut::cut_all;
use std::any::Any;
use weft_core::*;

/// What this kind declares.
pub static KIND: Kind = Kind {
    name: "corrupt",
    summary: "flips a bit of some frames",
    doc: "With the given probability flips one bit of a frame, anywhere from its first byte here to its last. What is known of its checksum is \
          forgotten; one that is not computed yet is completed first, so that receivers can notice. Large frames are cut first. Drops \
          nothing.\nExample: insert corrupt interfaces:upper ether:lower; set corrupt.probability 0.001",
    inputs: &[Port::required("in", Carries::Any, "any frames")],
    outputs: &[Port::required("out", Carries::Any, "the same frames, some of them damaged")],
    parameters: &[Parameter {
        name: "probability",
        value: ParameterType::Float { min: 0.0, max: 1.0 },
        default: "0.0",
        live: true,
        doc: "of damaging a frame",
    }],
    counters: &[Counter { name: "Passed", text: "frames passed on" }, Counter { name: "Corrupted", text: "frames with a bit flipped" }],
    ..Kind::EMPTY
};

/// How to make one.
pub const ROW: BlockRow = BlockRow {
    kind: &KIND,
    make: |config| Ok(Box::new(Corrupt { probability: config.f64("probability"), rng: config.rng.clone(), counters: [0; 2] })),
};

/// The block.
#[derive(Debug)]
pub struct Corrupt {
    probability: f64,
    rng: Rng,
    counters: [u64; 2],
}

impl Corrupt {
    fn damage(&mut self, frame: &mut Frame) {
        self.counters[0] += 1;
        if frame.is_empty() || !self.rng.chance(self.probability) {
            return;
        }
        self.counters[1] += 1;
        flip(frame, &mut self.rng);
    }
}

/// Flips a bit of a frame that is not empty.
pub(crate) fn flip(frame: &mut Frame, rng: &mut Rng) {
    offload::complete_checksum(frame);
    frame.meta_mut().checksum = Checksum::Unknown;
    let bit = rng.below(frame.len() as u64 * 8);
    let (byte, mask) = ((bit / 8) as usize, 1u8 << (bit % 8));
    // Cannot fail: the byte is within the frame. The tail is shared with others, so what is damaged becomes this frame's own.
    let _ = frame.pull_up(byte + 1);
    if let Some(place) = frame.head_mut().get_mut(byte) {
        *place ^= mask;
    }
}

impl Block for Corrupt {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn process(&mut self, _port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        if let Some(frames) = cut_all(vector) {
            for mut frame in frames {
                self.damage(&mut frame);
                cx.emit(OutPort(0), frame);
            }
            return;
        }
        vector.each(|frame| {
            self.damage(frame);
            Verdict::Forward(OutPort(0))
        });
    }

    fn get(&self, name: &str, _now: Instant) -> Option<Value> {
        (name == "probability").then(|| self.probability.into())
    }

    fn set(&mut self, name: &str, value: Value, _cx: &mut Context<'_>) {
        if let ("probability", Some(probability)) = (name, value.as_f64()) {
            self.probability = probability;
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
    use crate::tool::testing::{Bench, large_udp};
    use weft_wire::{checksum, ipv4, udp};

    #[test]
    fn exactly_one_bit_changes_and_shared_bytes_of_others_stay_as_they_are() {
        let mut bench = Bench::new("corrupt", &[("probability", 1.0.into())]);
        let original: Vec<u8> = (0..2000u32).map(|n| n as u8).collect();
        let sent: Vec<Frame> = (0..200).map(|_| Frame::ingress(&original)).collect();
        let twins = sent.clone();
        bench.send(Instant::ZERO, sent);
        let flipped = |frame: &Frame| frame.to_vec().iter().zip(&original).map(|(a, b)| (a ^ b).count_ones()).sum::<u32>();
        assert!(bench.taken().iter().all(|frame| flipped(frame) == 1));
        assert!(twins.iter().all(|frame| flipped(frame) == 0));
        assert_eq!(bench.counters(), [200, 200]);
    }

    #[test]
    fn a_checksum_that_was_not_computed_yet_shows_the_damage() {
        let mut bench = Bench::new("corrupt", &[("probability", 1.0.into())]);
        bench.send(Instant::ZERO, [large_udp(50, 700)]);
        for frame in bench.taken() {
            assert_eq!(frame.meta().checksum, Checksum::Unknown);
            let bytes = frame.to_vec();
            let (src, dst) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
            let header_damaged = !ipv4::verify_checksum(&bytes);
            let segment = &bytes[ipv4::HEADER_LEN..];
            let pseudo = checksum::pseudo_v4(src, dst, weft_wire::Protocol::UDP.0, segment.len() as u32);
            let segment_damaged = pseudo.add_bytes(segment).fold() != 0xffff;
            assert!(header_damaged || segment_damaged, "{:02x?}", &bytes[..ipv4::HEADER_LEN + udp::LEN]);
        }
    }
}
