//! netem: delay, jitter, loss, duplicates, damage, another order and a rate for one interface (net/sched/sch_netem.c), in the kernel's order: a frame is
//! copied, lost, damaged, and then held until its time.
//!
//! Randomness is this block's own stream; each chance is drawn only where it is above zero, as in the kernel. No correlation between draws, no tables of
//! distributions, no slots: jitter is uniform.

use super::{COUNTERS, Desk, Discipline, HANDLE, INPUTS, INTERFACE, OUTPUTS, make, sum};
use crate::tool::corrupt::flip;
use crate::tool::gilbert::Chain;
use std::collections::BTreeMap;
use weft_core::state::{Damage, Reader, Writer};
use weft_core::*;

const CHANCE: ParameterType = ParameterType::Float { min: 0.0, max: 1.0 };
const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// What this kind declares.
pub static KIND: Kind = Kind {
    name: "netem",
    summary: "netem of tc: what networks do to the frames of an interface",
    doc: "Of the frames of one interface, or of all (0): copies some (a copy is not copied again), loses some (each for itself, or in \
          bursts with `loss_model` gilbert: p, r, loss_good and loss_bad as in the block gilbert), flips a bit of some, and holds each \
          for delay ± jitter (uniform; frames may overtake each other by jitter). With `reorder` a frame in so many goes at once \
          instead, one in `gap` at most. With `rate` frames take their time one behind the other. More than `limit` are not held: what \
          comes then is dropped (queue-full). With delay, jitter or rate the sender hears at once that a frame has left, as in Linux. \
          Frames of other interfaces pass untouched; with interface 0 there are no others. What waits, the state of randomness and of \
          the chain are its state. Put in by `tc qdisc add dev IFACE root netem delay 20ms`, or by hand.\n\
          Example: insert netem ether:lower interfaces:upper; set netem.delay 20ms",
    inputs: INPUTS,
    outputs: OUTPUTS,
    parameters: &[
        INTERFACE,
        HANDLE,
        Parameter {
            name: "limit",
            value: ParameterType::Unsigned { min: 0, max: 10_000_000 },
            default: "1000",
            live: true,
            doc: "most frames that are held",
        },
        Parameter { name: "delay", value: ParameterType::Duration, default: "\"0ns\"", live: true, doc: "how long a frame is held" },
        Parameter {
            name: "jitter",
            value: ParameterType::Duration,
            default: "\"0ns\"",
            live: true,
            doc: "most that a frame is held longer or shorter; below zero counts as zero",
        },
        Parameter { name: "loss", value: CHANCE, default: "0.0", live: true, doc: "of losing a frame, with loss_model random" },
        Parameter {
            name: "loss_model",
            value: ParameterType::Choice(&["random", "gilbert"]),
            default: "\"random\"",
            live: true,
            doc: "each frame for itself, or in bursts",
        },
        Parameter { name: "p", value: CHANCE, default: "0.0", live: true, doc: "of going from good to bad, a frame" },
        Parameter { name: "r", value: CHANCE, default: "1.0", live: true, doc: "of going from bad to good, a frame" },
        Parameter { name: "loss_good", value: CHANCE, default: "0.0", live: true, doc: "of losing a frame in the good state" },
        Parameter { name: "loss_bad", value: CHANCE, default: "1.0", live: true, doc: "of losing a frame in the bad state" },
        Parameter { name: "duplicate", value: CHANCE, default: "0.0", live: true, doc: "of sending a frame twice" },
        Parameter { name: "corrupt", value: CHANCE, default: "0.0", live: true, doc: "of flipping a bit of a frame" },
        Parameter { name: "reorder", value: CHANCE, default: "0.0", live: true, doc: "of sending a frame at once" },
        Parameter {
            name: "gap",
            value: ParameterType::Unsigned { min: 0, max: u32::MAX as u64 },
            default: "0",
            live: true,
            doc: "so many frames apart are those that go at once; 0: none do",
        },
        Parameter { name: "rate", value: ParameterType::Rate, default: "\"0bit\"", live: true, doc: "bits per second, 0: no limit" },
        Parameter {
            name: "overhead_bytes",
            value: ParameterType::Unsigned { min: 0, max: 65_535 },
            default: "0",
            live: true,
            doc: "bytes that each frame takes more, at `rate`",
        },
    ],
    counters: COUNTERS,
    asks: &[Table::Interfaces],
    state_version: 1,
    ..Kind::EMPTY
};

/// How to make one.
pub const ROW: BlockRow = BlockRow { kind: &KIND, make: make::<Netem> };

/// The discipline.
#[derive(Debug)]
pub(super) struct Netem {
    limit: u64,
    delay: Duration,
    jitter: Duration,
    loss: f64,
    bursts: bool,
    chain: Chain,
    duplicate: f64,
    corrupt: f64,
    reorder: f64,
    gap: u64,
    rate: u64,
    overhead_bytes: u64,
    rng: Rng,
    /// By time and, at one time, by arrival.
    queue: BTreeMap<(Instant, u64), Frame>,
    number: u64,
    /// Frames since the last that went at once.
    counted: u64,
}

impl Netem {
    /// "if (q->loss && q->loss >= get_crandom(…))": what cannot happen is not drawn.
    fn happens(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.rng.chance(probability)
    }

    fn is_lost(&mut self) -> bool {
        if self.bursts { self.chain.draw(&mut self.rng).0 } else { self.happens(self.loss) }
    }

    /// tabledist without a table: "((rnd % (2 * (u32)sigma)) + mu) - sigma"
    fn hold(&mut self) -> Duration {
        let (delay, jitter) = (self.delay.as_nanos() as u64, self.jitter.as_nanos() as u64);
        match jitter {
            0 => self.delay,
            jitter => Duration::from_nanos(delay.saturating_add(self.rng.below(jitter.saturating_mul(2))).saturating_sub(jitter)),
        }
    }

    /// When a frame that is held may go.
    fn due(&mut self, frame: &Frame, now: Instant) -> Instant {
        let hold = self.hold();
        if self.rate == 0 {
            return now + hold;
        }
        // "Last packet in queue is reference point (now), calculate this time bonus in delay."
        let scaled = u128::from(frame.len() as u64 + self.overhead_bytes) * 8 * NANOS_PER_SECOND / u128::from(self.rate);
        let time = Duration::from_nanos(u64::try_from(scaled).unwrap_or(u64::MAX));
        match self.queue.last_key_value() {
            Some(((last, _), _)) => *last + hold.saturating_sub(last.since(now)) + time,
            None => now + hold + time,
        }
    }

    fn enqueue(&mut self, mut frame: Frame, original: bool, desk: &mut Desk, cx: &mut Context<'_>) {
        let copied = original && self.happens(self.duplicate);
        let lost = self.is_lost();
        if lost && !copied {
            return desk.drop(frame, Reason::Impaired, cx);
        }
        // skb_orphan_partial: who waits for frames to leave does not wait for the network that this stands for.
        let orphans = !self.delay.is_zero() || !self.jitter.is_zero() || self.rate > 0;
        if let Some(completion) = if orphans { frame.take_completion() } else { None } {
            cx.complete(completion);
        }
        let copy = (copied && !lost).then(|| {
            let mut copy = frame.clone();
            copy.meta_mut().completion = None;
            copy
        });
        if !frame.is_empty() && self.happens(self.corrupt) {
            flip(&mut frame, &mut self.rng);
        }
        if desk.queued_frames() >= self.limit {
            desk.drop(frame, Reason::QueueFull, cx);
        } else if self.gap == 0 || self.counted + 1 < self.gap || !self.happens(self.reorder) {
            self.counted += 1;
            let due = self.due(&frame, cx.now);
            self.number += 1;
            desk.wait(&frame);
            self.queue.insert((due, self.number), frame);
            self.run(desk, cx);
        } else {
            self.counted = 0;
            desk.counters[4] += 1;
            desk.send(frame, cx);
        }
        if let Some(copy) = copy {
            self.enqueue(copy, false, desk, cx);
        }
    }
}

impl Discipline for Netem {
    fn kind() -> &'static Kind {
        &KIND
    }

    fn new(config: &Config) -> Netem {
        Netem {
            limit: config.u64("limit"),
            delay: config.duration("delay"),
            jitter: config.duration("jitter"),
            loss: config.f64("loss"),
            bursts: config.text("loss_model") == "gilbert",
            chain: Chain::new(config),
            duplicate: config.f64("duplicate"),
            corrupt: config.f64("corrupt"),
            reorder: config.f64("reorder"),
            gap: config.u64("gap"),
            rate: config.u64("rate"),
            overhead_bytes: config.u64("overhead_bytes"),
            rng: config.rng.clone(),
            queue: BTreeMap::new(),
            number: 0,
            counted: 0,
        }
    }

    fn take(&mut self, frame: Frame, desk: &mut Desk, cx: &mut Context<'_>) {
        self.enqueue(frame, true, desk, cx);
    }

    fn run(&mut self, desk: &mut Desk, cx: &mut Context<'_>) {
        while let Some(entry) = self.queue.first_entry() {
            if entry.key().0 > cx.now {
                return cx.set_timer(0, entry.key().0);
            }
            let frame = entry.remove();
            desk.waited(&frame);
            desk.send(frame, cx);
        }
        cx.cancel_timer(0);
    }

    fn empty(&mut self) -> Vec<Frame> {
        std::mem::take(&mut self.queue).into_values().collect()
    }

    fn get(&self, name: &str) -> Option<Value> {
        Some(match name {
            "limit" => self.limit.into(),
            "delay" => (self.delay.as_nanos() as u64).into(),
            "jitter" => (self.jitter.as_nanos() as u64).into(),
            "loss" => self.loss.into(),
            "loss_model" => if self.bursts { "gilbert" } else { "random" }.into(),
            "duplicate" => self.duplicate.into(),
            "corrupt" => self.corrupt.into(),
            "reorder" => self.reorder.into(),
            "gap" => self.gap.into(),
            "rate" => self.rate.into(),
            "overhead_bytes" => self.overhead_bytes.into(),
            name => return self.chain.get(name),
        })
    }

    fn set(&mut self, name: &str, value: &Value) {
        let (number, chance) = (value.as_u64().unwrap_or(0), value.as_f64().unwrap_or(0.0));
        match name {
            "limit" => self.limit = number,
            "delay" => self.delay = Duration::from_nanos(number),
            "jitter" => self.jitter = Duration::from_nanos(number),
            "loss" => self.loss = chance,
            "loss_model" => self.bursts = value.as_str() == Some("gilbert"),
            "duplicate" => self.duplicate = chance,
            "corrupt" => self.corrupt = chance,
            "reorder" => self.reorder = chance,
            // netem_change: "q->counter = 0;"
            "gap" => (self.gap, self.counted) = (number, 0),
            "rate" => self.rate = number,
            "overhead_bytes" => self.overhead_bytes = number,
            name => self.chain.set(name, chance),
        }
    }

    fn export(&self, out: &mut Writer) {
        out.put(&self.queue);
        out.put(&self.rng);
        out.put(&(self.number, self.counted));
        out.put(&self.chain.bad);
    }

    fn import(&mut self, from: &mut Reader<'_>) -> Result<(u64, u64), Damage> {
        (self.queue, self.rng, (self.number, self.counted), self.chain.bad) = (from.take()?, from.take()?, from.take()?, from.take()?);
        if self.queue.keys().any(|(_, of)| *of > self.number) {
            return Err(Damage::new("a frame that has not come yet"));
        }
        Ok(sum(self.queue.values()))
    }
}

#[cfg(test)]
mod tests {
    use crate::tool::testing::{Bench, completes_at_once, successors_go_on};
    use std::collections::BTreeMap;
    use weft_core::*;

    /// Frames with a number, each of 100 bytes, at one moment.
    fn send(bench: &mut Bench, at_ms: u64, numbers: std::ops::Range<u8>) {
        bench.send(Instant::from_millis(at_ms), numbers.map(|number| Frame::ingress(&[number; 100])));
    }

    #[test]
    fn frames_are_held_as_long_as_said_and_no_more_than_said() {
        let mut bench = Bench::new("netem", &[("delay", "20ms".into()), ("limit", 3.into())]);
        send(&mut bench, 0, 0..5);
        assert_eq!(bench.counters()[5..], [3, 300]);
        assert_eq!(bench.left(), [(20_000, 0), (20_000, 1), (20_000, 2)]);
        assert_eq!((bench.counters()[..3].to_vec(), bench.drops(Reason::QueueFull)), (vec![3, 300, 2], 2));
        bench.set("delay", "1ms").unwrap();
        send(&mut bench, 100, 7..8);
        assert_eq!(bench.left(), [(101_000, 7)]);
    }

    #[test]
    fn with_a_rate_frames_take_their_time_one_behind_the_other() {
        // 100 bytes are 8 ms at 100 kbit/s; the delay is that of the way, not of each frame.
        let mut bench = Bench::new("netem", &[("delay", "3ms".into()), ("rate", "100kbit".into())]);
        send(&mut bench, 0, 0..3);
        assert_eq!(bench.left(), [(11_000, 0), (19_000, 1), (27_000, 2)]);
    }

    #[test]
    fn one_in_so_many_goes_at_once() {
        let mut bench = Bench::new("netem", &[("delay", "5ms".into()), ("gap", 3.into()), ("reorder", 1.0.into())]);
        send(&mut bench, 0, 0..7);
        let order: Vec<u8> = bench.left().iter().map(|(_, number)| *number).collect();
        assert_eq!(order, [2, 5, 0, 1, 3, 4, 6]);
        assert_eq!(bench.counters()[4], 2);
    }

    #[test]
    fn losses_copies_and_damage_come_in_their_shares() {
        let shares = [("loss", 0.3), ("duplicate", 0.3), ("corrupt", 0.3)];
        for (name, share) in shares {
            let mut bench = Bench::new("netem", &[(name, share.into())]);
            for _ in 0..10 {
                send(&mut bench, 0, 0..200);
            }
            let out = bench.taken();
            let damaged = out.iter().filter(|frame| frame.head()[..99].iter().any(|byte| *byte != frame.head()[99])).count();
            let expected = match name {
                "loss" => 1300..1500,
                "duplicate" => 2500..2700,
                _ => 2000..2001,
            };
            assert!(expected.contains(&out.len()), "{name}: {}", out.len());
            assert_eq!((500..700).contains(&damaged), name == "corrupt", "{name}: {damaged}");
            assert_eq!(bench.drops(Reason::Impaired), bench.counters()[2]);
        }
    }

    #[test]
    fn bursts_of_losses_are_as_long_as_expected() {
        let mut bench = Bench::new("netem", &[("loss_model", "gilbert".into()), ("p", 0.02.into()), ("r", 0.25.into())]);
        for _ in 0..100 {
            send(&mut bench, 0, 0..200);
        }
        let share = bench.counters()[2] as f64 / 20_000.0;
        assert!((0.06..0.09).contains(&share), "p / (p + r) is 0.074: {share}");
    }

    #[test]
    fn jitter_stays_within_its_bounds() {
        let mut bench = Bench::new("netem", &[("delay", "10ms".into()), ("jitter", "4ms".into())]);
        send(&mut bench, 0, 0..200);
        let times: Vec<u64> = bench.left().iter().map(|(at, _)| *at).collect();
        assert!(times.len() == 200 && times.iter().all(|at| (6_000..=14_000).contains(at)), "{times:?}");
        assert!(times.first() < times.last());
    }

    #[test]
    fn frames_of_its_interface_are_held_and_without_one_those_of_all() {
        for (own, held) in [(0, [true, true, true]), (3, [false, true, false])] {
            for kind in ["netem", "tbf", "fifo"] {
                let parameters: &[(&str, Value)] = if kind == "netem" { &[("delay", "1s".into())] } else { &[] };
                let parameters: Vec<(&str, Value)> = parameters.iter().cloned().chain([("interface", own.into())]).collect();
                let mut bench = Bench::new(kind, &parameters);
                for (interface, is_held) in [2, 3, 4].into_iter().zip(held) {
                    let before = bench.counters()[0] + bench.counters()[5];
                    let mut frame = Frame::ingress(&[0; 60]);
                    frame.meta_mut().interface = InterfaceIndex(interface);
                    bench.send(Instant::ZERO, [frame]);
                    let seen = bench.counters()[0] + bench.counters()[5] + bench.counters()[2] > before;
                    assert_eq!(seen, is_held, "{kind} of {own}: {interface}");
                }
            }
        }
    }

    #[test]
    fn the_sender_does_not_wait_for_the_way() {
        let completed = |parameters: &[(&str, Value)]| completes_at_once("netem", parameters);
        assert!(completed(&[("delay", "1ms".into())]) && completed(&[("rate", "1mbit".into())]));
        assert!(!completed(&[]));
    }

    #[test]
    fn state_with_a_frame_that_has_not_come_yet_is_refused() {
        let mut bench = Bench::new("netem", &[("delay", "1ms".into())]);
        let now = bench.engine.now();
        let state = |of: u64| {
            State::written(&super::KIND, now, |out| {
                out.put(&[0_u64; 7]);
                out.put(&BTreeMap::from([((now, of), Frame::ingress(&[0; 60]))]));
                out.put(&Rng::for_name(1, "netem"));
                out.put(&(1_u64, 0_u64));
                out.put(&false);
            })
        };
        let block = bench.engine.block(bench.tool).unwrap();
        block.import(&state(1), now).unwrap();
        assert!(block.import(&state(2), now).unwrap_err().to_string().contains("has not come yet"));
    }

    #[test]
    fn a_successor_goes_on_where_the_block_was() {
        successors_go_on("netem", &[("delay", "7ms".into()), ("jitter", "3ms".into()), ("loss", 0.2.into()), ("duplicate", 0.2.into())]);
    }
}
