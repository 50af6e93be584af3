//! A wire's rate: each frame takes exactly as long as its bits take, one after the other, behind a queue that drops at its tail.
//!
//! No bucket and no burst: a frame leaves at the end of its serialisation, to the nanosecond (what is left of a division is carried on).
//! Large frames are cut first, so that each segment takes its own time and headers count.
//!
//! Frames that wait when the block is replaced are its successor's to send, at the same times; when it is deleted they are lost.

use crate::tool::cut::cut_all;
use std::any::Any;
use std::collections::VecDeque;
use weft_core::state::Damage;
use weft_core::*;

const OUT: OutPort = OutPort(0);
const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// What this kind declares.
pub static KIND: Kind = Kind {
    name: "rate",
    summary: "a wire's rate: exact serialisation time for each frame",
    doc: "Passes frames on one after the other, each when its bits (with overhead_bytes, for example 24 for Ethernet's preamble, \
          checksum and gap) have been sent at `rate`. A frame that would make more than queue_bytes_max wait is dropped (queue-full); \
          the frame being sent does not count. Rate 0 means no limit. Large frames are cut first. Its state is what it sends and what \
          waits: a successor goes on with both.\n\
          Example: insert rate ether:lower interfaces:upper; set rate.rate 100mbit",
    inputs: &[Port::required("in", Carries::Any, "any frames")],
    outputs: &[Port::required("out", Carries::Any, "the same frames, spaced")],
    parameters: &[
        Parameter { name: "rate", value: ParameterType::Rate, default: "\"0bit\"", live: true, doc: "bits per second, 0: no limit" },
        Parameter {
            name: "overhead_bytes",
            value: ParameterType::Unsigned { min: 0, max: 1000 },
            default: "0",
            live: true,
            doc: "bytes that each frame takes more on the wire than it has here",
        },
        Parameter {
            name: "queue_bytes_max",
            value: ParameterType::Unsigned { min: 0, max: 10_000_000_000 },
            default: "1000000",
            live: true,
            doc: "most bytes that wait behind the frame that is being sent",
        },
    ],
    counters: &[
        Counter { name: "Passed", text: "frames passed on" },
        Counter { name: "PassedBytes", text: "their bytes, overhead not counted" },
        Counter { name: "Dropped", text: "frames that found the queue full" },
        Counter { name: "QueuedBytesMax", text: "most bytes that waited at a time" },
    ],
    state_version: 1,
    ..Kind::EMPTY
};

/// How to make one.
pub const ROW: BlockRow = BlockRow {
    kind: &KIND,
    make: |config| {
        Ok(Box::new(Rate {
            rate: config.u64("rate"),
            overhead_bytes: config.u64("overhead_bytes"),
            queue_bytes_max: config.u64("queue_bytes_max"),
            sending: None,
            queue: VecDeque::new(),
            queue_bytes: 0,
            carry: 0,
            counters: [0; 4],
        }))
    },
};

/// The block.
#[derive(Debug)]
pub struct Rate {
    rate: u64,
    overhead_bytes: u64,
    queue_bytes_max: u64,
    /// The frame on the wire, and when its last bit has left.
    sending: Option<(Frame, Instant)>,
    queue: VecDeque<Frame>,
    queue_bytes: u64,
    /// What was left of the last division, in bit-nanoseconds per second: below `rate`.
    carry: u128,
    counters: [u64; 4],
}

impl Rate {
    /// How long a frame takes.
    fn duration(&mut self, frame: &Frame) -> Duration {
        let bits = u128::from(frame.len() as u64 + self.overhead_bytes) * 8;
        let rate = u128::from(self.rate.max(1));
        let scaled = bits * NANOS_PER_SECOND + self.carry;
        self.carry = scaled % rate;
        Duration::from_nanos(u64::try_from(scaled / rate).unwrap_or(u64::MAX))
    }

    fn take(&mut self, frame: Frame, cx: &mut Context<'_>) {
        if self.rate == 0 && self.sending.is_none() {
            return self.pass(frame, cx);
        }
        if self.sending.is_none() {
            self.carry = 0;
            return self.begin(frame, cx.now, cx);
        }
        let bytes = frame.len() as u64;
        if self.queue_bytes + bytes > self.queue_bytes_max {
            self.counters[2] += 1;
            return cx.drop(frame, Reason::QueueFull);
        }
        self.queue_bytes += bytes;
        self.counters[3] = self.counters[3].max(self.queue_bytes);
        self.queue.push_back(frame);
    }

    fn begin(&mut self, frame: Frame, at: Instant, cx: &mut Context<'_>) {
        let end = at + self.duration(&frame);
        self.sending = Some((frame, end));
        cx.set_timer(0, end);
    }

    fn pass(&mut self, frame: Frame, cx: &mut Context<'_>) {
        self.counters[0] += 1;
        self.counters[1] += frame.len() as u64;
        cx.emit(OUT, frame);
    }
}

impl Block for Rate {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn process(&mut self, _port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        let frames = cut_all(vector).unwrap_or_else(|| vector.drain().collect());
        for frame in frames {
            self.take(frame, cx);
        }
    }

    fn timer(&mut self, _token: u64, cx: &mut Context<'_>) {
        // A late timer must not slow the wire down: the next frame begins where the last one ended, not now.
        while let Some((frame, end)) = self.sending.take() {
            if end > cx.now {
                self.sending = Some((frame, end));
                return cx.set_timer(0, end);
            }
            self.pass(frame, cx);
            let Some(next) = self.queue.pop_front() else { return };
            self.queue_bytes -= next.len() as u64;
            if self.rate == 0 {
                self.sending = Some((next, end));
            } else {
                self.begin(next, end, cx);
            }
        }
    }

    fn get(&self, name: &str, _now: Instant) -> Option<Value> {
        match name {
            "rate" => Some(self.rate.into()),
            "overhead_bytes" => Some(self.overhead_bytes.into()),
            "queue_bytes_max" => Some(self.queue_bytes_max.into()),
            "queued_frames" => Some(self.queue.len().into()),
            "queued_bytes" => Some(self.queue_bytes.into()),
            _ => None,
        }
    }

    fn set(&mut self, name: &str, value: Value, _cx: &mut Context<'_>) {
        let Some(number) = value.as_u64() else { return };
        match name {
            // The frame that is being sent keeps its time.
            "rate" => (self.rate, self.carry) = (number, 0),
            "overhead_bytes" => self.overhead_bytes = number,
            "queue_bytes_max" => self.queue_bytes_max = number,
            _ => {}
        }
    }

    fn counters(&self) -> &[u64] {
        &self.counters
    }

    fn export(&self, now: Instant) -> Result<State, StateError> {
        Ok(State::written(&KIND, now, |out| {
            out.put(&self.sending);
            out.put(&self.queue);
            out.put(&((self.carry >> 64) as u64, self.carry as u64));
            out.put(&self.counters);
        }))
    }

    fn import(&mut self, state: &State, now: Instant) -> Result<(), StateError> {
        let (sending, queue, (high, low), counters) = state.taken(&KIND, now, |from| {
            Ok((from.take::<Option<(Frame, Instant)>>()?, from.take::<VecDeque<Frame>>()?, from.take::<(u64, u64)>()?, from.take()?))
        })?;
        if sending.is_none() && !queue.is_empty() {
            return Err(Damage::new("frames that wait for nothing").of(KIND.name));
        }
        self.queue_bytes = queue.iter().map(|frame| frame.len() as u64).sum();
        // What is left over of a division by another rate is none of this one's.
        self.carry = (u128::from(high) << 64 | u128::from(low)) % u128::from(self.rate.max(1));
        (self.sending, self.queue, self.counters) = (sending, queue, counters);
        Ok(())
    }

    fn started(&mut self, cx: &mut Context<'_>) {
        if let Some((_, end)) = &self.sending {
            cx.set_timer(0, *end);
        }
    }

    fn give_up(&mut self) -> Vec<Frame> {
        self.sending.take().map(|(frame, _)| frame).into_iter().chain(self.queue.drain(..)).collect()
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::testing::{Bench, large_udp};

    fn departures(bench: &mut Bench) -> Vec<u64> {
        let mut left = vec![bench.engine.now().as_nanos(); bench.taken().len()];
        while let Some(next) = bench.engine.next_timer() {
            bench.engine.run(next);
            left.extend(bench.taken().iter().map(|_| next.as_nanos()));
        }
        left
    }

    #[test]
    fn frames_leave_at_the_end_of_their_serialisation_without_drift() {
        // 1250 bytes at 10 Mbit/s are 1 ms; at 3 bit/ns… a rate that does not divide: 7 Mbit/s.
        let mut bench = Bench::new("rate", &[("rate", "10mbit".into())]);
        bench.send(Instant::ZERO, (0..3).map(|_| Frame::ingress(&[0; 1250])));
        assert_eq!(departures(&mut bench), [1_000_000, 2_000_000, 3_000_000]);
        let mut bench = Bench::new("rate", &[("rate", "7mbit".into()), ("overhead_bytes", 24.into())]);
        bench.send(Instant::ZERO, (0..700).map(|_| Frame::ingress(&[0; 976])));
        let exact: Vec<u64> = (1..=700u64).map(|n| n * 8000 * 1000 / 7).collect();
        assert_eq!(departures(&mut bench), exact);
    }

    #[test]
    fn a_late_timer_does_not_slow_the_wire() {
        let mut bench = Bench::new("rate", &[("rate", "10mbit".into())]);
        bench.send(Instant::ZERO, (0..4).map(|_| Frame::ingress(&[0; 1250])));
        bench.engine.run(Instant::from_micros(2500));
        assert_eq!(bench.taken().len(), 2);
        assert_eq!(bench.engine.next_timer(), Some(Instant::from_millis(3)));
    }

    #[test]
    fn the_tail_is_dropped_and_large_frames_count_their_headers() {
        let mut bench = Bench::new("rate", &[("rate", "10mbit".into()), ("queue_bytes_max", 2500.into())]);
        bench.send(Instant::ZERO, (0..5).map(|_| Frame::ingress(&[0; 1250])));
        assert_eq!((bench.counters()[2], bench.counters()[3]), (2, 2500));
        assert_eq!(departures(&mut bench).len(), 3);
        bench.send(Instant::from_millis(10), [large_udp(2, 1222)]);
        assert_eq!(departures(&mut bench), [11_000_000, 12_000_000], "1222 bytes and 28 of headers each");
    }

    #[test]
    fn without_a_limit_frames_pass_at_once_and_a_new_rate_counts_for_the_next() {
        let mut bench = Bench::new("rate", &[]);
        bench.send(Instant::ZERO, [Frame::ingress(&[0; 1250])]);
        assert_eq!(bench.taken().len(), 1);
        bench.set("rate", "10mbit").unwrap();
        bench.send(Instant::ZERO, (0..3).map(|_| Frame::ingress(&[0; 1250])));
        bench.set("rate", "0bit").unwrap();
        assert_eq!(departures(&mut bench), [1_000_000; 3]);
    }

    #[test]
    fn a_successor_goes_on_where_the_block_was() {
        crate::tool::testing::successors_go_on("rate", &[("rate", "1mbit".into())]);
    }
}
