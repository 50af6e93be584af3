//! Sends some frames twice, at random, as a wire or a careless network does.

use crate::tool::cut::cut_all;
use std::any::Any;
use weft_core::*;

/// What this kind declares.
pub static KIND: Kind = Kind {
    name: "duplicate",
    summary: "sends some frames twice",
    doc: "Passes every frame on, and with the given probability a copy right behind it. The copy has no completion: its sender sent it \
          once. Large frames are cut first. Drops nothing.\n\
          Example: insert duplicate interfaces:upper ether:lower; set duplicate.probability 0.01",
    inputs: &[Port::required("in", Carries::Any, "any frames")],
    outputs: &[Port::required("out", Carries::Any, "the same frames, some of them twice")],
    parameters: &[Parameter {
        name: "probability",
        value: ParameterType::Float { min: 0.0, max: 1.0 },
        default: "0.0",
        live: true,
        doc: "of sending a frame twice",
    }],
    counters: &[Counter { name: "Passed", text: "frames passed on" }, Counter { name: "Copied", text: "copies made" }],
    ..Kind::EMPTY
};

/// How to make one.
pub const ROW: BlockRow = BlockRow {
    kind: &KIND,
    make: |config| Ok(Box::new(Duplicate { probability: config.f64("probability"), rng: config.rng.clone(), counters: [0; 2] })),
};

/// The block.
#[derive(Debug)]
pub struct Duplicate {
    probability: f64,
    rng: Rng,
    counters: [u64; 2],
}

impl Block for Duplicate {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn process(&mut self, _port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        let frames = cut_all(vector).unwrap_or_else(|| vector.drain().collect());
        for frame in frames {
            self.counters[0] += 1;
            let copy = self.rng.chance(self.probability).then(|| {
                let mut copy = frame.clone();
                copy.meta_mut().completion = None;
                copy
            });
            cx.emit(OutPort(0), frame);
            if let Some(copy) = copy {
                self.counters[1] += 1;
                cx.emit(OutPort(0), copy);
            }
        }
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
    use crate::tool::testing::Bench;

    #[test]
    fn copies_follow_their_frames_and_have_no_completion() {
        let mut bench = Bench::new("duplicate", &[("probability", 0.3.into())]);
        let completed = |n: u32| {
            let mut frame = Frame::ingress(&n.to_be_bytes());
            frame.meta_mut().completion = Some(Completion { block: BlockId(0), token: u64::from(n), bytes: 1 });
            frame
        };
        bench.send(Instant::ZERO, (0..1000).map(completed));
        let out: Vec<(u32, bool)> = bench
            .taken()
            .iter()
            .map(|frame| (u32::from_be_bytes(frame.head()[..4].try_into().unwrap()), frame.meta().completion.is_some()))
            .collect();
        let copies = out.iter().filter(|(_, completes)| !completes).count();
        assert!((250..350).contains(&copies), "{copies}");
        assert_eq!(bench.counters(), [1000, copies as u64]);
        assert!(out.windows(2).all(|pair| pair[1].1 || pair[0] == (pair[1].0, true)), "a copy comes right behind its frame");
        let originals: Vec<u32> = out.iter().filter(|(_, completes)| *completes).map(|(n, _)| *n).collect();
        assert_eq!(originals, (0..1000).collect::<Vec<u32>>());
    }
}
