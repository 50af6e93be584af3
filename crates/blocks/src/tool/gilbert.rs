//! Loses frames in bursts: the Gilbert–Elliott model, a Markov chain with a good and a bad state (E. N. Gilbert, "Capacity of a burst-noise
//! channel", 1960; E. O. Elliott, "Estimates of error rates for codes on burst-noise channels", 1963). netem's `loss gemodel` has the same
//! four parameters.

use crate::tool::cut::cut_all;
use std::any::Any;
use weft_core::*;

const PROBABILITY: ParameterType = ParameterType::Float { min: 0.0, max: 1.0 };

/// What this kind declares.
pub static KIND: Kind = Kind {
    name: "gilbert",
    summary: "loses frames in bursts (Gilbert-Elliott)",
    doc: "Before each frame the state changes: good to bad with probability p, bad to good with probability r. Then the frame is lost with \
          probability loss_good or loss_bad of the state. The share of time in the bad state is p / (p + r), its mean length 1 / r \
          frames. Large frames are cut first. Lost frames are counted (reason impaired) and completed.\n\
          Example: insert gilbert interfaces:upper ether:lower; set gilbert.p 0.01",
    inputs: &[Port::required("in", Carries::Any, "any frames")],
    outputs: &[Port::required("out", Carries::Any, "those that are not lost")],
    parameters: &[
        Parameter { name: "p", value: PROBABILITY, default: "0.0", live: true, doc: "of going from good to bad, a frame" },
        Parameter { name: "r", value: PROBABILITY, default: "1.0", live: true, doc: "of going from bad to good, a frame" },
        Parameter { name: "loss_good", value: PROBABILITY, default: "0.0", live: true, doc: "of losing a frame in the good state" },
        Parameter { name: "loss_bad", value: PROBABILITY, default: "1.0", live: true, doc: "of losing a frame in the bad state" },
    ],
    counters: &[
        Counter { name: "Passed", text: "frames passed on" },
        Counter { name: "Lost", text: "frames lost" },
        Counter { name: "Bursts", text: "times the state became bad" },
    ],
    state_version: 1,
    ..Kind::EMPTY
};

/// How to make one.
pub const ROW: BlockRow =
    BlockRow { kind: &KIND, make: |config| Ok(Box::new(Gilbert { chain: Chain::new(config), rng: config.rng.clone(), counters: [0; 3] })) };

/// The chain, and what it loses in which state: the block's, and that of the queue `netem`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chain {
    /// Of going from good to bad, a frame.
    pub p: f64,
    /// Of going from bad to good, a frame.
    pub r: f64,
    /// Of losing a frame in the good state.
    pub loss_good: f64,
    /// Of losing a frame in the bad state.
    pub loss_bad: f64,
    /// Which state it is in.
    pub bad: bool,
}

impl Chain {
    pub fn new(config: &Config) -> Chain {
        let of = |name| config.f64(name);
        Chain { p: of("p"), r: of("r"), loss_good: of("loss_good"), loss_bad: of("loss_bad"), bad: false }
    }

    /// Goes on by one frame: is that lost, and has the state become bad before it?
    pub fn draw(&mut self, rng: &mut Rng) -> (bool, bool) {
        let changes = rng.chance(if self.bad { self.r } else { self.p });
        self.bad ^= changes;
        (rng.chance(if self.bad { self.loss_bad } else { self.loss_good }), changes && self.bad)
    }

    pub fn get(&self, name: &str) -> Option<Value> {
        Some(match name {
            "p" => self.p.into(),
            "r" => self.r.into(),
            "loss_good" => self.loss_good.into(),
            "loss_bad" => self.loss_bad.into(),
            _ => return None,
        })
    }

    pub fn set(&mut self, name: &str, value: f64) {
        match name {
            "p" => self.p = value,
            "r" => self.r = value,
            "loss_good" => self.loss_good = value,
            "loss_bad" => self.loss_bad = value,
            _ => {}
        }
    }
}

/// The block.
#[derive(Debug)]
pub struct Gilbert {
    chain: Chain,
    rng: Rng,
    counters: [u64; 3],
}

impl Gilbert {
    fn draw(&mut self) -> Verdict {
        let (lost, burst) = self.chain.draw(&mut self.rng);
        self.counters[2] += u64::from(burst);
        self.counters[usize::from(lost)] += 1;
        if lost { Verdict::Drop(Reason::Impaired) } else { Verdict::Forward(OutPort(0)) }
    }
}

impl Block for Gilbert {
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
        if name == "bad" { Some(self.chain.bad.into()) } else { self.chain.get(name) }
    }

    fn set(&mut self, name: &str, value: Value, _cx: &mut Context<'_>) {
        if let Some(value) = value.as_f64() {
            self.chain.set(name, value);
        }
    }

    fn counters(&self) -> &[u64] {
        &self.counters
    }

    fn export(&self, now: Instant) -> Result<State, StateError> {
        Ok(State::written(&KIND, now, |out| {
            out.put(&self.chain.bad);
            out.put(&self.rng);
            out.put(&self.counters);
        }))
    }

    fn import(&mut self, state: &State, now: Instant) -> Result<(), StateError> {
        (self.chain.bad, self.rng, self.counters) = state.taken(&KIND, now, |from| Ok((from.take()?, from.take()?, from.take()?)))?;
        Ok(())
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::testing::{Bench, large_udp};

    #[test]
    fn losses_come_in_bursts_of_the_expected_length_and_share() {
        let mut bench = Bench::new("gilbert", &[("p", 0.02.into()), ("r", 0.25.into())]);
        let sent = 50_000u32;
        bench.send(Instant::ZERO, (0..sent).map(|n| Frame::ingress(&n.to_be_bytes())));
        let passed = bench.taken().len() as u64;
        let [counted, lost, bursts] = bench.counters() else { panic!() };
        assert_eq!((*counted, *lost), (passed, u64::from(sent) - passed));
        let (share, length) = (*lost as f64 / f64::from(sent), *lost as f64 / *bursts as f64);
        assert!((0.065..0.083).contains(&share), "p / (p + r) is 0.074: {share}");
        assert!((3.6..4.4).contains(&length), "1 / r is 4: {length}");
        assert_eq!(bench.drops(Reason::Impaired), *lost);
    }

    #[test]
    fn each_state_has_its_own_loss_and_segments_are_lost_one_by_one() {
        let mut bench = Bench::new("gilbert", &[("loss_good", 0.5.into())]);
        bench.send(Instant::ZERO, [large_udp(40, 100)]);
        assert!((5..35).contains(&bench.taken().len()), "never bad: half is lost");
        for (name, value) in [("p", "1"), ("r", "0"), ("loss_bad", "0")] {
            bench.set(name, value).unwrap();
        }
        bench.send(Instant::ZERO, [large_udp(40, 100)]);
        assert_eq!(bench.taken().len(), 40, "always bad, which loses nothing now");
        assert_eq!(bench.get("bad"), Value::Bool(true));
    }

    #[test]
    fn a_successor_goes_on_where_the_block_was() {
        crate::tool::testing::successors_go_on("gilbert", &[("p", 0.3.into()), ("r", 0.3.into())]);
    }
}
