//! Holds frames back: a constant delay, with jitter if wanted, through a bounded queue.
//!
//! Jitter is uniform in ±`jitter` around `delay`. Frames keep their order (a frame leaves no earlier than the one before it) unless
//! `reorder` allows otherwise. Changes of delay and jitter count for frames that come in afterwards.
//!
//! Large frames are held whole while there is no jitter, and cut first when there is. Frames that wait when the block is replaced leave its
//! successor at the time that they would have left; when it is deleted they are lost.

use crate::tool::cut::cut_all;
use std::any::Any;
use std::collections::BTreeMap;
use weft_core::state::Damage;
use weft_core::*;

const OUT: OutPort = OutPort(0);

/// What this kind declares.
pub static KIND: Kind = Kind {
    name: "delay",
    summary: "holds frames back: delay and jitter",
    doc: "Passes each frame on after delay ± jitter (uniform), in order unless reorder is set. Frames beyond queue_frames_max or \
          queue_bytes_max are dropped (queue-full). The sender hears at once that a held frame has left, as with netem. Large frames \
          are cut first when there is jitter. Its state is what waits: a successor passes it on at the same times.\n\
          Example: insert delay interfaces:upper ether:lower; set delay.delay 20ms",
    inputs: &[Port::required("in", Carries::Any, "any frames")],
    outputs: &[Port::required("out", Carries::Any, "the same frames, later")],
    parameters: &[
        Parameter { name: "delay", value: ParameterType::Duration, default: "\"0ns\"", live: true, doc: "how long a frame is held" },
        Parameter {
            name: "jitter",
            value: ParameterType::Duration,
            default: "\"0ns\"",
            live: true,
            doc: "most that a frame is held longer or shorter; below zero counts as zero",
        },
        Parameter { name: "reorder", value: ParameterType::Bool, default: "false", live: true, doc: "frames may overtake each other" },
        Parameter {
            name: "queue_frames_max",
            value: ParameterType::Unsigned { min: 1, max: 10_000_000 },
            default: "10000",
            live: true,
            doc: "most frames that are held",
        },
        Parameter {
            name: "queue_bytes_max",
            value: ParameterType::Unsigned { min: 1, max: 10_000_000_000 },
            default: "100000000",
            live: true,
            doc: "most bytes that are held",
        },
    ],
    counters: &[
        Counter { name: "Passed", text: "frames passed on" },
        Counter { name: "Dropped", text: "frames that found the queue full" },
        Counter { name: "QueuedFramesMax", text: "most frames that were held at a time" },
    ],
    state_version: 1,
    ..Kind::EMPTY
};

/// How to make one.
pub const ROW: BlockRow = BlockRow {
    kind: &KIND,
    make: |config| {
        Ok(Box::new(Delay {
            delay: config.duration("delay"),
            jitter: config.duration("jitter"),
            reorder: config.bool("reorder"),
            queue_frames_max: config.u64("queue_frames_max"),
            queue_bytes_max: config.u64("queue_bytes_max"),
            rng: config.rng.clone(),
            queue: BTreeMap::new(),
            bytes: 0,
            number: 0,
            last: Instant::ZERO,
            counters: [0; 3],
        }))
    },
};

/// The block.
#[derive(Debug)]
pub struct Delay {
    delay: Duration,
    jitter: Duration,
    reorder: bool,
    queue_frames_max: u64,
    queue_bytes_max: u64,
    rng: Rng,
    /// By time and, at one time, by arrival.
    queue: BTreeMap<(Instant, u64), Frame>,
    bytes: u64,
    number: u64,
    /// When the last frame that came in will leave.
    last: Instant,
    counters: [u64; 3],
}

impl Delay {
    fn due(&mut self, now: Instant) -> Instant {
        let jitter = self.jitter.as_nanos() as u64;
        let held = match jitter {
            0 => self.delay,
            jitter => {
                let offset = self.rng.below(jitter.saturating_mul(2).saturating_add(1));
                (self.delay + Duration::from_nanos(offset)).saturating_sub(self.jitter)
            }
        };
        let due = now + held;
        self.last = if self.reorder { due } else { due.max(self.last) };
        self.last
    }

    /// Holds a frame, or gives it back: it need not wait.
    fn take(&mut self, mut frame: Frame, cx: &mut Context<'_>) -> Option<Frame> {
        let due = self.due(cx.now);
        if due <= cx.now && self.queue.is_empty() {
            self.counters[0] += 1;
            return Some(frame);
        }
        let bytes = frame.len() as u64;
        if self.queue.len() as u64 >= self.queue_frames_max || self.bytes + bytes > self.queue_bytes_max {
            self.counters[1] += 1;
            cx.drop(frame, Reason::QueueFull);
            return None;
        }
        // skb_orphan_partial of netem: who waits for frames to leave does not wait for the way that this stands for.
        frame.take_completion().into_iter().for_each(|completion| cx.complete(completion));
        self.bytes += bytes;
        self.number += 1;
        self.queue.insert((due, self.number), frame);
        self.counters[2] = self.counters[2].max(self.queue.len() as u64);
        None
    }

    fn set_timer(&self, cx: &mut Context<'_>) {
        if let Some(((due, _), _)) = self.queue.first_key_value() {
            cx.set_timer(0, *due);
        }
    }
}

impl Block for Delay {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn process(&mut self, _port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        let cut = if self.jitter.is_zero() { None } else { cut_all(vector) };
        let frames = cut.unwrap_or_else(|| vector.drain().collect());
        for frame in frames {
            if let Some(frame) = self.take(frame, cx) {
                cx.emit(OUT, frame);
            }
        }
        self.set_timer(cx);
    }

    fn timer(&mut self, _token: u64, cx: &mut Context<'_>) {
        while let Some(entry) = self.queue.first_entry() {
            if entry.key().0 > cx.now {
                break;
            }
            let frame = entry.remove();
            self.bytes -= frame.len() as u64;
            self.counters[0] += 1;
            cx.emit(OUT, frame);
        }
        self.set_timer(cx);
    }

    fn get(&self, name: &str, _now: Instant) -> Option<Value> {
        match name {
            "delay" => Some((self.delay.as_nanos() as u64).into()),
            "jitter" => Some((self.jitter.as_nanos() as u64).into()),
            "reorder" => Some(self.reorder.into()),
            "queue_frames_max" => Some(self.queue_frames_max.into()),
            "queue_bytes_max" => Some(self.queue_bytes_max.into()),
            "queued_frames" => Some(self.queue.len().into()),
            "queued_bytes" => Some(self.bytes.into()),
            _ => None,
        }
    }

    fn set(&mut self, name: &str, value: Value, _cx: &mut Context<'_>) {
        match (name, value.as_u64(), value.as_bool()) {
            ("delay", Some(nanos), _) => self.delay = Duration::from_nanos(nanos),
            ("jitter", Some(nanos), _) => self.jitter = Duration::from_nanos(nanos),
            ("reorder", _, Some(reorder)) => self.reorder = reorder,
            ("queue_frames_max", Some(frames), _) => self.queue_frames_max = frames,
            ("queue_bytes_max", Some(bytes), _) => self.queue_bytes_max = bytes,
            _ => {}
        }
    }

    fn counters(&self) -> &[u64] {
        &self.counters
    }

    fn export(&self, now: Instant) -> Result<State, StateError> {
        Ok(State::written(&KIND, now, |out| {
            out.put(&self.rng);
            out.put(&self.queue);
            out.put(&self.number);
            out.put(&self.last);
            out.put(&self.counters);
        }))
    }

    fn import(&mut self, state: &State, now: Instant) -> Result<(), StateError> {
        let (rng, queue, number, last, counters) = state.taken(&KIND, now, |from| {
            Ok((from.take()?, from.take::<BTreeMap<(Instant, u64), Frame>>()?, from.take()?, from.take()?, from.take()?))
        })?;
        if queue.keys().any(|(_, of)| *of > number) {
            return Err(Damage::new("a frame that has not come yet").of(KIND.name));
        }
        self.bytes = queue.values().map(|frame| frame.len() as u64).sum();
        (self.rng, self.queue, self.number, self.last, self.counters) = (rng, queue, number, last, counters);
        Ok(())
    }

    fn started(&mut self, cx: &mut Context<'_>) {
        self.set_timer(cx);
    }

    fn give_up(&mut self) -> Vec<Frame> {
        std::mem::take(&mut self.queue).into_values().collect()
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::testing::Bench;

    fn numbered(n: u8) -> Frame {
        Frame::ingress(&[n; 100])
    }

    #[test]
    fn frames_leave_after_the_delay_and_changes_count_for_later_ones() {
        let mut bench = Bench::new("delay", &[("delay", "20ms".into())]);
        bench.send(Instant::ZERO, [numbered(1), numbered(2)]);
        bench.send(Instant::from_millis(5), [numbered(3)]);
        bench.set("delay", "1ms").unwrap();
        bench.send(Instant::from_millis(6), [numbered(4)]);
        assert_eq!(bench.left(), [(20_000, 1), (20_000, 2), (25_000, 3), (25_000, 4)], "4 does not overtake 3");
        bench.send(Instant::from_millis(30), [numbered(5)]);
        assert_eq!(bench.left(), [(31_000, 5)]);
    }

    #[test]
    fn jitter_stays_within_its_bounds_and_reorders_only_when_allowed() {
        for reorder in [false, true] {
            let mut bench = Bench::new("delay", &[("delay", "10ms".into()), ("jitter", "4ms".into()), ("reorder", reorder.into())]);
            let mut left = Vec::new();
            for n in 0..200u8 {
                let now = u64::from(n) * 100;
                while bench.engine.next_timer().is_some_and(|next| next.as_micros() <= now) {
                    let next = bench.engine.next_timer().unwrap();
                    bench.engine.run(next);
                    left.extend(bench.taken().iter().map(|frame| (next.as_micros(), frame.head()[0])));
                }
                bench.send(Instant::from_micros(now), [numbered(n)]);
            }
            left.extend(bench.left());
            for (at, n) in &left {
                let held = at - u64::from(*n) * 100;
                assert!((5_999..=14_000).contains(&held) || (!reorder && held >= 5_999), "{n} was held {held} us");
            }
            let all: Vec<u8> = left.iter().map(|(_, n)| *n).collect();
            let mut sorted = all.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..200).collect::<Vec<u8>>());
            assert_eq!(all != sorted, reorder);
        }
    }

    #[test]
    fn the_sender_does_not_wait_for_the_way() {
        use crate::tool::testing::completes_at_once;
        assert!(completes_at_once("delay", &[("delay", "1ms".into())]));
        assert!(!completes_at_once("delay", &[]));
        // A rate is a bottleneck: what waits in front of it is the sender's (Linux's tbf).
        assert!(!completes_at_once("rate", &[("rate", "1mbit".into())]));
        assert!(completes_at_once("reorder", &[("probability", 1.0.into())]));
        assert!(!completes_at_once("reorder", &[]));
    }

    #[test]
    fn the_queue_is_bounded_in_frames_and_bytes() {
        let mut bench = Bench::new("delay", &[("delay", "1s".into()), ("queue_frames_max", 3.into())]);
        bench.send(Instant::ZERO, (0..5).map(numbered));
        assert_eq!((bench.counters()[1], bench.drops(Reason::QueueFull)), (2, 2));
        bench.set("queue_bytes_max", "250").unwrap();
        assert_eq!(bench.left().len(), 3);
        bench.send(Instant::from_millis(2000), (0..5).map(numbered));
        assert_eq!(bench.left().len(), 2);
    }

    #[test]
    fn a_successor_passes_what_waits_at_the_same_times() {
        let mut bench = Bench::new("delay", &[("delay", "20ms".into()), ("jitter", "5ms".into())]);
        let mut other = Bench::new("delay", &[("delay", "20ms".into()), ("jitter", "5ms".into())]);
        for at in [0, 3, 7] {
            for bench in [&mut bench, &mut other] {
                bench.send(Instant::from_millis(at), [numbered(at as u8), numbered(100)]);
            }
            bench.replace("delay");
        }
        assert_eq!(bench.left(), other.left());
        assert_eq!(bench.counters(), other.counters());
    }
}
