//! Loses frames at random, each for itself (Bernoulli), from a random stream of its own: the same seed loses the same frames.
//!
//! A large frame is cut first, so that every segment is lost for itself, as on a wire; also between IP and a transport.

use crate::tool::cut::cut_all;
use std::any::Any;
use weft_core::*;

/// What this kind declares.
pub static KIND: Kind = Kind {
    name: "loss",
    summary: "loses frames at random",
    doc: "Drops each frame with the given probability (reason impaired) and passes the others on. Draws from a random stream of its \
          own, one number a frame, also while probability is 0. Large frames are cut first. Completions of lost frames are reported: \
          for their sender they have left.\n\
          Example: insert loss interfaces:upper ether:lower; set loss.probability 0.01",
    inputs: &[Port::required("in", Carries::Any, "any frames")],
    outputs: &[Port::required("out", Carries::Any, "those that are not lost")],
    parameters: &[Parameter {
        name: "probability",
        value: ParameterType::Float { min: 0.0, max: 1.0 },
        default: "0.0",
        live: true,
        doc: "of losing a frame",
    }],
    counters: &[Counter { name: "Passed", text: "frames passed on" }, Counter { name: "Lost", text: "frames lost" }],
    ..Kind::EMPTY
};

/// How to make one.
pub const ROW: BlockRow = BlockRow {
    kind: &KIND,
    make: |config| Ok(Box::new(Loss { probability: config.f64("probability"), rng: config.rng.clone(), counters: [0; 2] })),
};

/// The block.
#[derive(Debug)]
pub struct Loss {
    probability: f64,
    rng: Rng,
    counters: [u64; 2],
}

impl Loss {
    fn draw(&mut self) -> Verdict {
        let lost = self.rng.chance(self.probability);
        self.counters[usize::from(lost)] += 1;
        if lost { Verdict::Drop(Reason::Impaired) } else { Verdict::Forward(OutPort(0)) }
    }
}

impl Block for Loss {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn process(&mut self, _port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        let Some(frames) = cut_all(vector) else { return vector.each(|_| self.draw()) };
        for frame in frames {
            match self.draw() {
                Verdict::Forward(port) => cx.emit(port, frame),
                _ => cx.drop(frame, Reason::Impaired),
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
    use crate::tool::testing::{Bench, large_udp};

    fn run(probability: f64) -> Vec<u8> {
        let mut bench = Bench::new("loss", &[("probability", probability.into())]);
        bench.send(Instant::ZERO, (0..1000).map(|n| Frame::ingress(&[(n % 251) as u8])));
        let passed: Vec<u8> = bench.taken().iter().map(|frame| frame.head()[0]).collect();
        assert_eq!(bench.counters(), [passed.len() as u64, 1000 - passed.len() as u64]);
        assert_eq!(bench.drops(Reason::Impaired), 1000 - passed.len() as u64);
        passed
    }

    #[test]
    fn it_loses_its_share_and_the_same_frames_every_time() {
        assert_eq!((run(0.0).len(), run(1.0).len()), (1000, 0));
        let passed = run(0.3);
        assert!((650..750).contains(&passed.len()), "{}", passed.len());
        assert_eq!(passed, run(0.3));
    }

    #[test]
    fn segments_of_a_large_frame_are_lost_one_by_one() {
        let mut bench = Bench::new("loss", &[("probability", 0.5.into())]);
        bench.send(Instant::ZERO, [large_udp(40, 100)]);
        let passed = bench.taken();
        assert!((5..35).contains(&passed.len()), "{}", passed.len());
        assert!(passed.iter().all(|frame| frame.len() == 128 && frame.meta().gso.is_none()));
        bench.set("probability", "0").unwrap();
        bench.send(Instant::ZERO, [large_udp(40, 100)]);
        assert_eq!(bench.taken().len(), 40);
    }
}
