//! tbf: a token bucket (net/sched/sch_tbf.c). Frames leave at `rate`, up to `burst_bytes` at once, behind a queue of `limit_bytes`.
//!
//! Tokens are time, as the kernel has them: the bucket holds what `burst_bytes` take at `rate`, and a frame takes as long out of it as its bytes take.

use super::{COUNTERS, Desk, Discipline, HANDLE, INPUTS, INTERFACE, OUTPUTS, make, sum};
use std::collections::VecDeque;
use weft_core::state::{Damage, Reader, Writer};
use weft_core::*;

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// What this kind declares.
pub static KIND: Kind = Kind {
    name: "tbf",
    summary: "tbf of tc: a token bucket for an interface",
    doc: "Lets the frames of one interface go at `rate`, up to `burst_bytes` of them at once when it was quiet before. Frames that \
          would make more than `limit_bytes` wait are dropped (queue-full), and so are those that the bucket can never hold. Frames of \
          other interfaces pass untouched; with interface 0 there are no others. A new rate or burst begins with a full bucket. Rate 0 \
          means no limit. What waits and what is left in the bucket is its state. Put in by `tc qdisc add dev IFACE root tbf rate \
          1mbit burst 10kb latency 50ms`, or by hand.\n\
          Example: insert tbf ether:lower interfaces:upper",
    inputs: INPUTS,
    outputs: OUTPUTS,
    parameters: &[
        INTERFACE,
        HANDLE,
        Parameter { name: "rate", value: ParameterType::Rate, default: "\"0bit\"", live: true, doc: "bits per second, 0: no limit" },
        Parameter { name: "burst_bytes", value: BYTES, default: "10000", live: true, doc: "what the bucket holds" },
        Parameter { name: "limit_bytes", value: BYTES, default: "100000", live: true, doc: "most bytes that wait" },
        Parameter {
            name: "overhead_bytes",
            value: ParameterType::Unsigned { min: 0, max: 65_535 },
            default: "0",
            live: true,
            doc: "bytes that each frame takes more",
        },
        Parameter {
            name: "frame_bytes_min",
            value: ParameterType::Unsigned { min: 0, max: 65_535 },
            default: "0",
            live: true,
            doc: "a shorter frame takes as much as one of so many bytes (mpu)",
        },
    ],
    counters: COUNTERS,
    asks: &[Table::Interfaces],
    state_version: 1,
    ..Kind::EMPTY
};

const BYTES: ParameterType = ParameterType::Unsigned { min: 0, max: u32::MAX as u64 };

/// How to make one.
pub const ROW: BlockRow = BlockRow { kind: &KIND, make: make::<Tbf> };

/// The discipline.
#[derive(Debug)]
pub(super) struct Tbf {
    rate: u64,
    burst_bytes: u64,
    limit_bytes: u64,
    overhead_bytes: u64,
    frame_bytes_min: u64,
    queue: VecDeque<Frame>,
    /// What is in the bucket, nanoseconds, and since when; none: it is full.
    bucket: Option<(u64, Instant)>,
}

impl Tbf {
    fn nanos(&self, bytes: u64) -> u64 {
        let scaled = u128::from(bytes) * 8 * NANOS_PER_SECOND / u128::from(self.rate.max(1));
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }
    /// psched_l2t_ns: "len += r->overhead; if (len < r->mpu) len = r->mpu;"
    fn taken(&self, bytes: u64) -> u64 {
        (bytes + self.overhead_bytes).max(self.frame_bytes_min)
    }
    fn price(&self, frame: &Frame) -> u64 {
        self.nanos(self.taken(frame.len() as u64))
    }
}

impl Discipline for Tbf {
    fn kind() -> &'static Kind {
        &KIND
    }
    fn new(config: &Config) -> Tbf {
        Tbf {
            rate: config.u64("rate"),
            burst_bytes: config.u64("burst_bytes"),
            limit_bytes: config.u64("limit_bytes"),
            overhead_bytes: config.u64("overhead_bytes"),
            frame_bytes_min: config.u64("frame_bytes_min"),
            queue: VecDeque::new(),
            bucket: None,
        }
    }

    fn take(&mut self, frame: Frame, desk: &mut Desk, cx: &mut Context<'_>) {
        let bytes = frame.len() as u64;
        // tbf_enqueue: "if (qdisc_pkt_len(skb) > q->max_size)"; and there is no bucket without a rate.
        let never = self.rate > 0 && bytes > self.burst_bytes;
        if never || desk.queued_bytes() + bytes > self.limit_bytes {
            return desk.drop(frame, Reason::QueueFull, cx);
        }
        desk.wait(&frame);
        self.queue.push_back(frame);
        // The kernel dequeues after each frame: so many leave at once that there is room for the next.
        self.timer(desk, cx);
    }

    fn timer(&mut self, desk: &mut Desk, cx: &mut Context<'_>) {
        self.run(desk, cx);
        desk.counters[3] += u64::from(!self.queue.is_empty());
    }

    fn run(&mut self, desk: &mut Desk, cx: &mut Context<'_>) {
        // tbf_change: "buffer = psched_l2t_ns(&rate, max_size);"
        let full = self.nanos(self.taken(self.burst_bytes));
        while let Some(frame) = self.queue.front() {
            // "toks = min_t(s64, now - q->t_c, q->buffer); toks += q->tokens; if (toks > q->buffer) toks = q->buffer;"
            let there = match self.bucket {
                Some((tokens, since)) => tokens.saturating_add(cx.now.since(since).as_nanos() as u64).min(full),
                None => full,
            };
            // A frame that a smaller bucket than it came for cannot hold goes when that is full.
            let price = if self.rate == 0 { 0 } else { self.price(frame).min(full) };
            if there < price {
                return cx.set_timer(0, cx.now + Duration::from_nanos(price - there));
            }
            self.bucket = Some((there - price, cx.now));
            if let Some(frame) = self.queue.pop_front() {
                desk.waited(&frame);
                desk.send(frame, cx);
            }
        }
        cx.cancel_timer(0);
    }

    fn empty(&mut self) -> Vec<Frame> {
        self.queue.drain(..).collect()
    }

    fn get(&self, name: &str) -> Option<Value> {
        Some(match name {
            "rate" => self.rate.into(),
            "burst_bytes" => self.burst_bytes.into(),
            "limit_bytes" => self.limit_bytes.into(),
            "overhead_bytes" => self.overhead_bytes.into(),
            "frame_bytes_min" => self.frame_bytes_min.into(),
            _ => return None,
        })
    }

    fn set(&mut self, name: &str, value: &Value) {
        let Some(number) = value.as_u64() else { return };
        match name {
            // tbf_change: "q->tokens = q->buffer;"
            "rate" => (self.rate, self.bucket) = (number, None),
            "burst_bytes" => (self.burst_bytes, self.bucket) = (number, None),
            "limit_bytes" => self.limit_bytes = number,
            "overhead_bytes" => self.overhead_bytes = number,
            "frame_bytes_min" => self.frame_bytes_min = number,
            _ => {}
        }
    }

    fn export(&self, out: &mut Writer) {
        out.put(&self.queue);
        out.put(&self.bucket);
    }

    fn import(&mut self, from: &mut Reader<'_>) -> Result<(u64, u64), Damage> {
        (self.queue, self.bucket) = (from.take()?, from.take()?);
        Ok(sum(self.queue.iter()))
    }
}

#[cfg(test)]
mod tests {
    use crate::tool::testing::{Bench, successors_go_on};
    use weft_core::*;

    fn frames(count: usize, bytes: usize) -> Vec<Frame> {
        (0..count).map(|_| Frame::ingress(&vec![0; bytes])).collect()
    }

    /// When the frames leave, microseconds.
    fn departures(bench: &mut Bench) -> Vec<u64> {
        bench.left().into_iter().map(|(at, _)| at).collect()
    }

    #[test]
    fn a_burst_leaves_at_once_and_the_rest_at_the_rate() {
        // 1000 bytes are 8 ms at 1 Mbit/s.
        let parameters = [("rate", "1mbit".into()), ("burst_bytes", 3000.into()), ("limit_bytes", 3000.into())];
        let mut bench = Bench::new("tbf", &parameters);
        bench.send(Instant::ZERO, frames(8, 1000));
        assert_eq!(bench.counters()[5..], [3, 3000]);
        assert_eq!(departures(&mut bench), [0, 0, 0, 8000, 16000, 24000]);
        let counted = bench.counters();
        assert_eq!((&counted[..3], &counted[4..]), (&[6, 6000, 2][..], &[0, 0, 0][..]));
        // 12 ms later the bucket has 1500 bytes again.
        bench.send(Instant::from_millis(36), frames(2, 1000));
        assert_eq!(departures(&mut bench), [36_000, 40_000]);
    }

    #[test]
    fn what_the_bucket_never_holds_is_dropped_and_a_new_rate_begins_with_a_full_one() {
        let mut bench = Bench::new("tbf", &[("rate", "1mbit".into()), ("burst_bytes", 1000.into()), ("overhead_bytes", 250.into())]);
        bench.send(Instant::ZERO, frames(1, 1001));
        bench.send(Instant::ZERO, frames(3, 500));
        assert_eq!((bench.counters()[0], bench.drops(Reason::QueueFull)), (1, 1));
        bench.set("rate", "2mbit").unwrap();
        // A full bucket of 1000 bytes and 250, of which 750 go; the next 750 want 250 more: 1 ms.
        assert_eq!(departures(&mut bench), [0, 0, 1000]);
    }

    #[test]
    fn shorter_frames_cost_as_much_as_the_shortest() {
        let mut bench = Bench::new("tbf", &[("rate", "1mbit".into()), ("burst_bytes", 1000.into()), ("frame_bytes_min", 1000.into())]);
        bench.send(Instant::ZERO, frames(3, 60));
        assert_eq!(departures(&mut bench), [0, 8000, 16000]);
    }

    #[test]
    fn a_successor_goes_on_where_the_block_was() {
        successors_go_on("tbf", &[("rate", "200kbit".into()), ("burst_bytes", 300.into()), ("limit_bytes", 900.into())]);
    }

    #[test]
    fn what_waits_when_it_is_deleted_is_completed() {
        let mut bench = Bench::new("tbf", &[("rate", "1kbit".into()), ("burst_bytes", 100.into())]);
        bench.send(Instant::ZERO, frames(3, 100));
        let op = Op::Delete { name: "tool".to_owned() };
        bench.engine.control(Instant::ZERO, &Message { serial: 1, op }).result.unwrap();
        let gone = bench.engine.graph().generations().find(|generation| &*generation.block == "tool").unwrap();
        assert_eq!(gone.drops, [(Reason::BlockGone, 2)], "dropped, and not in silence");
    }

    #[test]
    fn a_change_of_several_parameters_fills_the_bucket_once_and_keeps_the_order() {
        let parameters = [("rate", "1mbit".into()), ("burst_bytes", 1000.into()), ("limit_bytes", 100_000.into())];
        let mut bench = Bench::new("tbf", &parameters);
        let numbered: Vec<Frame> = (0..40_u8).map(|number| Frame::ingress(&[number; 1000])).collect();
        bench.send(Instant::ZERO, numbered);
        let set = |name: &str, value: Value| Op::Set { target: Selector::Name("tool".to_owned()), name: name.to_owned(), value };
        let both = Op::All(vec![set("rate", "2mbit".into()), set("burst_bytes", 5000.into())]);
        bench.engine.control(Instant::from_millis(1), &Message { serial: 1, op: both }).result.unwrap();
        let left = bench.left();
        let early = left.iter().filter(|(at, _)| *at <= 1000).count();
        assert_eq!(early, 6, "one at the beginning, and one bucket of five: {left:?}");
        let numbers: Vec<u8> = left.iter().map(|(_, number)| *number).collect();
        assert_eq!(numbers, (0..40).collect::<Vec<u8>>());
    }
}
