//! Lets some frames be overtaken: a chosen frame is held until a number of later ones have passed, or a time has.

use crate::tool::cut::cut_all;
use std::any::Any;
use std::collections::VecDeque;
use weft_core::state::Damage;
use weft_core::*;

const OUT: OutPort = OutPort(0);

/// What this kind declares.
pub static KIND: Kind = Kind {
    name: "reorder",
    summary: "lets some frames be overtaken",
    doc: "With the given probability holds a frame back until `frames` later ones have passed, at most `time`. At most 64 are held; a \
          frame that finds no place passes as if it had not been chosen. The sender of a held frame hears at once that it has left, as \
          with netem. Large frames are cut first. Held frames are its state, which a successor takes over. Drops nothing.\n\
          Example: insert reorder interfaces:upper ether:lower; set reorder.probability 0.05",
    inputs: &[Port::required("in", Carries::Any, "any frames")],
    outputs: &[Port::required("out", Carries::Any, "the same frames in another order")],
    parameters: &[
        Parameter {
            name: "probability",
            value: ParameterType::Float { min: 0.0, max: 1.0 },
            default: "0.0",
            live: true,
            doc: "of holding a frame back",
        },
        Parameter {
            name: "frames",
            value: ParameterType::Unsigned { min: 1, max: 1000 },
            default: "5",
            live: true,
            doc: "later frames that overtake a held one",
        },
        Parameter {
            name: "time",
            value: ParameterType::Duration,
            default: "\"10ms\"",
            live: true,
            doc: "longest that a frame is held, if too few follow",
        },
    ],
    counters: &[
        Counter { name: "Passed", text: "frames passed on" },
        Counter { name: "Held", text: "frames held back" },
        Counter { name: "NoPlace", text: "chosen frames that passed at once, because so many were held already" },
    ],
    state_version: 1,
    ..Kind::EMPTY
};

/// Most frames that are held.
const HELD_MAX: usize = 64;

/// How to make one.
pub const ROW: BlockRow = BlockRow {
    kind: &KIND,
    make: |config| {
        Ok(Box::new(Reorder {
            probability: config.f64("probability"),
            frames: config.u64("frames"),
            time: config.duration("time"),
            rng: config.rng.clone(),
            held: VecDeque::new(),
            counters: [0; 3],
        }))
    },
};

/// A frame, how many later ones it still waits for, and until when.
#[derive(Debug)]
struct Held {
    frame: Frame,
    waits_for: u64,
    until: Instant,
}

weft_core::fields!(struct Held { frame, waits_for, until });

/// The block.
#[derive(Debug)]
pub struct Reorder {
    probability: f64,
    frames: u64,
    time: Duration,
    rng: Rng,
    held: VecDeque<Held>,
    counters: [u64; 3],
}

impl Reorder {
    fn take(&mut self, mut frame: Frame, cx: &mut Context<'_>) {
        if self.rng.chance(self.probability) {
            if self.held.len() < HELD_MAX {
                self.counters[1] += 1;
                // Later ones are to overtake it: whoever waits for frames to leave would not send them.
                frame.take_completion().into_iter().for_each(|completion| cx.complete(completion));
                return self.held.push_back(Held { frame, waits_for: self.frames, until: cx.now + self.time });
            }
            self.counters[2] += 1;
        }
        self.pass(frame, cx);
        for held in &mut self.held {
            held.waits_for = held.waits_for.saturating_sub(1);
        }
        self.release(cx, |held| held.waits_for == 0);
    }

    fn pass(&mut self, frame: Frame, cx: &mut Context<'_>) {
        self.counters[0] += 1;
        cx.emit(OUT, frame);
    }

    fn release(&mut self, cx: &mut Context<'_>, goes: impl Fn(&Held) -> bool) {
        while self.held.front().is_some_and(&goes) {
            if let Some(held) = self.held.pop_front() {
                self.pass(held.frame, cx);
            }
        }
    }

    fn set_timer(&self, cx: &mut Context<'_>) {
        match self.held.iter().map(|held| held.until).min() {
            Some(until) => cx.set_timer(0, until),
            None => cx.cancel_timer(0),
        }
    }
}

impl Block for Reorder {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn process(&mut self, _port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        let frames = cut_all(vector).unwrap_or_else(|| vector.drain().collect());
        for frame in frames {
            self.take(frame, cx);
        }
        self.set_timer(cx);
    }

    fn timer(&mut self, _token: u64, cx: &mut Context<'_>) {
        let now = cx.now;
        self.release(cx, |held| held.until <= now);
        self.set_timer(cx);
    }

    fn get(&self, name: &str, _now: Instant) -> Option<Value> {
        Some(match name {
            "probability" => self.probability.into(),
            "frames" => self.frames.into(),
            "time" => (self.time.as_nanos() as u64).into(),
            "held_frames" => self.held.len().into(),
            _ => return None,
        })
    }

    fn set(&mut self, name: &str, value: Value, _cx: &mut Context<'_>) {
        match (name, value.as_f64(), value.as_u64()) {
            ("probability", Some(probability), _) => self.probability = probability,
            ("frames", _, Some(frames)) => self.frames = frames,
            ("time", _, Some(nanos)) => self.time = Duration::from_nanos(nanos),
            _ => {}
        }
    }

    fn counters(&self) -> &[u64] {
        &self.counters
    }

    fn export(&self, now: Instant) -> Result<State, StateError> {
        Ok(State::written(&KIND, now, |out| {
            out.put(&self.rng);
            out.put(&self.held);
            out.put(&self.counters);
        }))
    }

    fn import(&mut self, state: &State, now: Instant) -> Result<(), StateError> {
        let (rng, held, counters) = state.taken(&KIND, now, |from| Ok((from.take()?, from.take::<VecDeque<Held>>()?, from.take()?)))?;
        if held.len() > HELD_MAX {
            return Err(Damage::new("more frames than are held").of(KIND.name));
        }
        (self.rng, self.held, self.counters) = (rng, held, counters);
        Ok(())
    }

    fn started(&mut self, cx: &mut Context<'_>) {
        self.set_timer(cx);
    }

    fn give_up(&mut self) -> Vec<Frame> {
        self.held.drain(..).map(|held| held.frame).collect()
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::testing::Bench;

    fn numbers(bench: &mut Bench) -> Vec<u32> {
        bench.taken().iter().map(|frame| u32::from_be_bytes(frame.head()[..4].try_into().unwrap())).collect()
    }

    #[test]
    fn held_frames_are_overtaken_by_as_many_as_said_and_none_is_lost() {
        let mut bench = Bench::new("reorder", &[("probability", 0.05.into()), ("frames", 3.into())]);
        bench.send(Instant::ZERO, (0..2000u32).map(|n| Frame::ingress(&n.to_be_bytes())));
        bench.engine.run(Instant::from_millis(10));
        let out = numbers(&mut bench);
        let mut sorted = out.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..2000).collect::<Vec<u32>>());
        let late = out.windows(2).filter(|pair| pair[1] < pair[0]).count() as u64;
        assert!((60..140).contains(&late), "{late}");
        assert_eq!(bench.counters()[0], 2000);
        let overtaken = |n: u32| out.iter().take_while(|other| **other != n).filter(|other| **other > n).count();
        // Every late one was overtaken by three that passed; held ones released at the same moment may go before it too.
        assert!((0..2000).filter(|n| overtaken(*n) > 0).all(|n| (3..=6).contains(&overtaken(n))));
    }

    #[test]
    fn a_frame_that_nobody_follows_leaves_in_time_and_few_are_held() {
        let mut bench = Bench::new("reorder", &[("probability", 1.0.into())]);
        bench.send(Instant::ZERO, (0..100u32).map(|n| Frame::ingress(&n.to_be_bytes())));
        let at_once = numbers(&mut bench).len();
        let [_, held, no_place] = *bench.counters() else { panic!() };
        assert_eq!((held + no_place, at_once as u64 >= no_place), (100, true));
        assert!(no_place > 0, "the table is bounded");
        bench.engine.run(Instant::from_millis(10));
        assert_eq!((at_once + numbers(&mut bench).len(), bench.get("held_frames")), (100, 0.into()));
    }

    #[test]
    fn a_successor_goes_on_where_the_block_was() {
        crate::tool::testing::successors_go_on("reorder", &[("probability", 0.3.into())]);
    }
}
