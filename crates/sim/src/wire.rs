//! One direction of a wire: queue, serialisation, delay, and what goes wrong on the way. Belongs to the node that sends.
//!
//! What happens to a frame is decided when its serialisation begins: from then on it is known when it leaves and when, and whether, it arrives.
//! So it can be handed to the other end at once, and the time from its beginning to its earliest arrival is the *look-ahead* by which the two
//! ends may run apart.
//!
//! Serialisation is exact: a frame of `b` bytes takes `8 (b + overhead) / rate` seconds, and what is less than a nanosecond is carried over to the
//! next frame while the wire stays busy. Frames below [`FRAME_BYTES_MIN`] take as long as those (Ethernet pads them).
//!
//! Only additions, multiplications, divisions and square roots of floating-point numbers are used, which every machine rounds alike.

use crate::hash;
use crate::item::Item;
use crate::plan::{DirectionPlan, Jitter, Loss};
use crate::queue::{QueueCounters, WireQueue};
use crate::trace::Cursor;
use std::time::Duration;
use weft_core::{Checksum, Completion, Frame, Instant, Rng};

/// Shorter frames take as long as one of so many bytes (IEEE 802.3: 64 with the check sequence).
pub const FRAME_BYTES_MIN: u32 = 60;
/// Bytes of an Ethernet header, which an MTU does not count.
const ETHERNET_BYTES: u32 = 14;
/// The sum of twelve uniform numbers less 6 has variance 1 and lies within 6.
const NORMAL_TERMS: u32 = 12;
const NORMAL_BOUND: u32 = 6;
/// A Pareto jitter is at most so many times its mean.
const PARETO_BOUND: u32 = 20;

/// What happened on one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct WireCounters {
    /// Frames whose serialisation began.
    pub frames: u64,
    /// Their bytes, with Ethernet headers.
    pub bytes: u64,
    /// Frames that were lost on the way (`loss`).
    pub lost: u64,
    /// Frames of which a bit was flipped.
    pub corrupted: u64,
    /// Frames that arrived twice.
    pub duplicated: u64,
    /// Frames that were held back.
    pub reordered: u64,
    /// Frames that were larger than the MTU.
    pub too_large: u64,
    /// Frames that met a wire that was cut, or were on it then.
    pub cut: u64,
    /// Frames that found the queue full.
    pub queue_full: u64,
    /// Frames that the queue dropped before it was full.
    pub queue_early: u64,
    /// Frames that the queue marked (ECN).
    pub marked: u64,
}

/// What comes of a frame whose serialisation begins.
#[derive(Debug)]
pub(crate) struct Departure {
    /// Size and digest, for the record.
    pub bytes: u32,
    pub digest: u128,
    /// When and as what it arrives: 0 to 2 times.
    pub first: Option<(Instant, Item)>,
    pub second: Option<(Instant, Item)>,
}

/// One direction of a wire.
#[derive(Debug)]
pub(crate) struct Direction {
    plan: DirectionPlan,
    rng: Rng,
    queue: WireQueue,
    up: bool,
    /// The wire is busy until then …
    busy_until: Instant,
    /// … and so many (bits · 10⁹) / rate beyond it.
    carry: u64,
    /// How far its trace is used, where it has one.
    cursor: Cursor,
    /// Something has to happen at the end of this serialisation.
    departs: Option<Instant>,
    completion: Option<Completion>,
    last_arrival: Instant,
    in_bad_state: bool,
    /// Frames that began, for `Loss::Listed`.
    count: u64,
    counters: WireCounters,
}

impl Direction {
    pub fn new(plan: DirectionPlan, rng: Rng) -> Direction {
        Direction {
            queue: WireQueue::new(plan.queue),
            plan,
            rng,
            up: true,
            busy_until: Instant::ZERO,
            carry: 0,
            cursor: Cursor::default(),
            departs: None,
            completion: None,
            last_arrival: Instant::ZERO,
            in_bad_state: false,
            count: 0,
            counters: WireCounters::default(),
        }
    }

    /// The least time from the beginning of a serialisation to an arrival.
    pub fn look_ahead(plan: &DirectionPlan) -> Duration {
        let bound = match plan.jitter {
            Jitter::None | Jitter::Pareto(_) => Duration::ZERO,
            Jitter::Uniform(by) => by,
            Jitter::Normal(deviation) => deviation.saturating_mul(NORMAL_BOUND),
        };
        plan.delay.saturating_sub(bound) + serialisation(plan, FRAME_BYTES_MIN)
    }

    pub fn plan(&self) -> &DirectionPlan {
        &self.plan
    }

    /// What the wire is from now on. What has begun goes on as it was.
    pub fn become_other(&mut self, now: Instant, plan: DirectionPlan, dropped: &mut Vec<Item>) {
        if plan.queue != self.plan.queue {
            self.queue.become_other(now, plan.queue, &mut self.rng, dropped);
        }
        if plan.rate != self.plan.rate {
            self.carry = 0;
        }
        if plan.trace != self.plan.trace {
            self.cursor = Cursor::default();
        }
        self.plan = plan;
    }

    /// Does it carry frames?
    pub fn is_up(&self) -> bool {
        self.up
    }

    /// Cuts or joins the wire. What waits for a wire that is cut is lost.
    pub fn set_up(&mut self, up: bool, dropped: &mut Vec<Item>) {
        self.up = up;
        if !up {
            let before = dropped.len();
            self.queue.clear(dropped);
            self.counters.cut += (dropped.len() - before) as u64;
        }
    }

    /// A frame comes. True: the caller begins its serialisation with [`Direction::begin`]; the frame then is handed back. Otherwise it waits, or is among `dropped`.
    pub fn offer(&mut self, now: Instant, item: Item, dropped: &mut Vec<Item>) -> Option<Item> {
        if !self.up {
            self.counters.cut += 1;
            dropped.push(item);
            return None;
        }
        if self.plan.mtu.is_some_and(|mtu| item.bytes > mtu.saturating_add(ETHERNET_BYTES)) {
            self.counters.too_large += 1;
            dropped.push(item);
            return None;
        }
        if self.departs.is_none() && self.busy_until <= now {
            return Some(item);
        }
        self.queue.push(now, item, &mut self.rng, dropped);
        if self.departs.is_none() && !self.queue.is_empty() {
            self.departs = Some(self.busy_until);
        }
        None
    }

    /// When something has to be done about this wire.
    pub fn next(&self) -> Option<Instant> {
        self.departs
    }

    /// A serialisation ends: whom to tell, and what follows.
    pub fn depart(&mut self, now: Instant, dropped: &mut Vec<Item>) -> (Option<Completion>, Option<Item>) {
        self.departs = None;
        (self.completion.take(), self.queue.pop(now, dropped))
    }

    /// A serialisation begins, and with it everything that will happen to the frame is decided.
    pub fn begin(&mut self, now: Instant, mut item: Item, room: &mut Vec<u8>) -> Departure {
        self.count += 1;
        self.counters.frames += 1;
        self.counters.bytes += u64::from(item.bytes);
        let leaves = self.serialise(now, item.bytes);
        self.completion = item.frame.take_completion();
        if self.completion.is_some() || !self.queue.is_empty() {
            self.departs = Some(leaves);
        }
        let mut departure = Departure { bytes: item.bytes, digest: item.digest, first: None, second: None };
        if self.is_lost() {
            self.counters.lost += 1;
            return departure;
        }
        if self.draw(self.plan.corrupt) {
            self.counters.corrupted += 1;
            item = self.flip_a_bit(&item.frame, room);
        }
        let copy = self.draw(self.plan.duplicate);
        let arrives = self.arrival(leaves);
        if copy {
            self.counters.duplicated += 1;
            departure.second = Some((arrives, item.clone()));
        }
        departure.first = Some((arrives, item));
        departure
    }

    fn serialise(&mut self, now: Instant, bytes: u32) -> Instant {
        if let Some(trace) = &self.plan.trace {
            self.busy_until = self.cursor.leave(trace, now, bytes);
            return self.busy_until;
        }
        let Some(rate) = self.plan.rate else {
            self.busy_until = now;
            return now;
        };
        if now > self.busy_until {
            self.carry = 0;
        }
        let bits = bits_on_wire(&self.plan, bytes) * 1_000_000_000 + self.carry;
        self.carry = bits % rate;
        self.busy_until = now + Duration::from_nanos(bits / rate);
        self.busy_until
    }

    fn arrival(&mut self, leaves: Instant) -> Instant {
        let delay = self.plan.delay;
        let delay = match self.plan.jitter {
            Jitter::None => delay,
            Jitter::Uniform(by) => {
                let span = nanos(by).saturating_mul(2).saturating_add(1);
                (delay + Duration::from_nanos(self.rng.below(span))).saturating_sub(by)
            }
            Jitter::Normal(deviation) => {
                let sum: f64 = (0..NORMAL_TERMS).map(|_| self.rng.unit()).sum();
                let bound = deviation.saturating_mul(NORMAL_BOUND);
                (delay + Duration::from_nanos((sum * nanos(deviation) as f64) as u64)).saturating_sub(bound)
            }
            Jitter::Pareto(mean) => {
                // Lomax with shape 2: (1 / sqrt(u) - 1) has mean 1.
                let u = 1.0 - self.rng.unit();
                let times = (1.0 / u.sqrt() - 1.0).min(f64::from(PARETO_BOUND));
                delay + Duration::from_nanos((times * nanos(mean) as f64) as u64)
            }
        };
        if self.draw(self.plan.reorder) {
            self.counters.reordered += 1;
            return leaves + delay + self.plan.reorder_by;
        }
        self.last_arrival = self.last_arrival.max(leaves + delay);
        self.last_arrival
    }

    fn draw(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.rng.chance(probability)
    }

    fn is_lost(&mut self) -> bool {
        match &self.plan.loss {
            Loss::None => false,
            Loss::Bernoulli(probability) => {
                let probability = *probability;
                self.draw(probability)
            }
            Loss::Gilbert { to_bad, to_good, loss_good, loss_bad } => {
                let (turn, good, bad) = (if self.in_bad_state { *to_good } else { *to_bad }, *loss_good, *loss_bad);
                if self.rng.chance(turn) {
                    self.in_bad_state = !self.in_bad_state;
                }
                let probability = if self.in_bad_state { bad } else { good };
                self.rng.chance(probability)
            }
            Loss::Listed(numbers) => numbers.binary_search(&self.count).is_ok(),
        }
    }

    fn flip_a_bit(&mut self, frame: &Frame, room: &mut Vec<u8>) -> Item {
        let mut bytes = frame.to_vec();
        let bit = self.rng.below(bytes.len() as u64 * 8);
        if let Some(byte) = bytes.get_mut((bit / 8) as usize) {
            *byte ^= 1 << (bit % 8);
        }
        let mut frame = Frame::ingress(&bytes);
        frame.meta_mut().checksum = Checksum::Unknown;
        Item { digest: hash::of_frame(&frame, room), bytes: bytes.len() as u32, frame }
    }

    /// Frames that were on the wire when it was cut.
    pub fn count_cut(&mut self, frames: u64) {
        self.counters.cut += frames;
    }

    /// Frames and bytes that wait.
    pub fn backlog(&self) -> (usize, u64) {
        (self.queue.len(), self.queue.bytes())
    }

    pub fn counters(&self) -> WireCounters {
        let QueueCounters { full, early, marked } = self.queue.counters();
        WireCounters { queue_full: full, queue_early: early, marked, ..self.counters }
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

fn bits_on_wire(plan: &DirectionPlan, bytes: u32) -> u64 {
    (u64::from(bytes.max(FRAME_BYTES_MIN)) + u64::from(plan.overhead)) * 8
}

/// How long a frame of so many bytes takes, rounded down to nanoseconds.
pub(crate) fn serialisation(plan: &DirectionPlan, bytes: u32) -> Duration {
    plan.rate.map_or(Duration::ZERO, |rate| Duration::from_nanos(bits_on_wire(plan, bytes) * 1_000_000_000 / rate))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::QueuePlan;

    fn item(bytes: u32) -> Item {
        let frame = Frame::ingress(&vec![7; bytes as usize]);
        Item { digest: hash::of_frame(&frame, &mut Vec::new()), bytes, frame }
    }

    fn direction(plan: DirectionPlan) -> Direction {
        Direction::new(plan, Rng::for_name(1, "wire/test/0"))
    }

    /// Sends `count` frames of `bytes` back to back and returns when they arrive.
    fn arrivals(direction: &mut Direction, count: usize, bytes: u32) -> Vec<u64> {
        let (mut now, mut out, mut dropped, mut room) = (Instant::ZERO, Vec::new(), Vec::new(), Vec::new());
        for _ in 0..count {
            if let Some(item) = direction.offer(now, item(bytes), &mut dropped) {
                out.push(direction.begin(now, item, &mut room));
            }
        }
        while let Some(at) = direction.next() {
            now = at;
            if let (_, Some(next)) = direction.depart(now, &mut dropped) {
                out.push(direction.begin(now, next, &mut room));
            }
        }
        assert!(dropped.is_empty());
        out.into_iter().flat_map(|departure| [departure.first, departure.second]).flatten().map(|(at, _)| at.as_nanos()).collect()
    }

    #[test]
    fn serialisation_carries_what_is_less_than_a_nanosecond() {
        // 100 bytes at 3 bit/ns: 266.67 ns each.
        let mut wire = direction(DirectionPlan { rate: Some(3_000_000_000), delay: Duration::from_nanos(10), ..DirectionPlan::default() });
        assert_eq!(arrivals(&mut wire, 6, 100), [276, 543, 810, 1076, 1343, 1610]);
        // A pause begins anew.
        let later = Instant::from_micros(100);
        let frame = wire.offer(later, item(100), &mut Vec::new()).unwrap();
        assert_eq!(wire.begin(later, frame, &mut Vec::new()).first.unwrap().0.as_nanos(), 100_276);
    }

    #[test]
    fn no_frame_arrives_before_the_look_ahead_is_over() {
        for jitter in [
            Jitter::None,
            Jitter::Uniform(Duration::from_micros(3)),
            Jitter::Normal(Duration::from_micros(1)),
            Jitter::Pareto(Duration::from_micros(5)),
        ] {
            let plan = DirectionPlan { rate: Some(7_777_777_777), delay: Duration::from_micros(8), jitter, ..DirectionPlan::default() };
            let least = Direction::look_ahead(&plan).as_nanos() as u64;
            let mut wire = direction(plan);
            let (mut now, mut spread) = (Instant::ZERO, std::collections::BTreeSet::new());
            for _ in 0..2000 {
                now += Duration::from_micros(200);
                let frame = wire.offer(now, item(42), &mut Vec::new()).unwrap();
                let (at, _) = wire.begin(now, frame, &mut Vec::new()).first.unwrap();
                assert!((at - now).as_nanos() as u64 >= least, "{jitter:?}");
                spread.insert((at - now).as_nanos());
            }
            assert_eq!(spread.len() > 1, jitter != Jitter::None, "{jitter:?}");
        }
    }

    #[test]
    fn loss_is_as_likely_as_it_says_and_listed_frames_are_the_listed_ones() {
        let lost = |loss: Loss| {
            let queue = QueuePlan { packets_max: 100_000, ..QueuePlan::default() };
            let mut wire = direction(DirectionPlan { loss, queue, rate: Some(1_000_000_000), ..DirectionPlan::default() });
            arrivals(&mut wire, 20_000, 100);
            wire.counters().lost
        };
        assert_eq!(lost(Loss::Listed(vec![1, 5, 19_999, 20_001])), 3);
        assert!((1800..2200).contains(&lost(Loss::Bernoulli(0.1))));
        // Bad for 10 frames on average, good for 90: a tenth of half.
        let gilbert = Loss::Gilbert { to_bad: 1.0 / 90.0, to_good: 0.1, loss_good: 0.0, loss_bad: 0.5 };
        assert!((800..1200).contains(&lost(gilbert)));
    }

    #[test]
    fn copies_bits_and_order_go_wrong_only_when_told() {
        let plan = DirectionPlan { rate: Some(1_000_000_000), delay: Duration::from_micros(1), ..DirectionPlan::default() };
        let mut wire = direction(DirectionPlan { duplicate: 1.0, ..plan.clone() });
        assert_eq!(arrivals(&mut wire, 1, 125), [2000, 2000]);
        let mut wire = direction(DirectionPlan { corrupt: 1.0, ..plan.clone() });
        let frame = wire.offer(Instant::ZERO, item(300), &mut Vec::new()).unwrap();
        let departure = wire.begin(Instant::ZERO, frame, &mut Vec::new());
        let (_, got) = departure.first.unwrap();
        let wrong: u32 = got.frame.to_vec().iter().map(|byte| (byte ^ 7).count_ones()).sum();
        assert!(wrong == 1 && got.digest != departure.digest);
        let mut wire = direction(DirectionPlan { reorder: 0.3, ..plan.clone() });
        assert!(!arrivals(&mut wire, 100, 125).is_sorted());
        let mut wire = direction(DirectionPlan { jitter: Jitter::Uniform(Duration::from_nanos(900)), ..plan });
        assert!(arrivals(&mut wire, 100, 125).is_sorted());
    }

    #[test]
    fn a_full_queue_an_mtu_and_a_cut_wire_drop_and_count() {
        let queue = QueuePlan { packets_max: 3, ..QueuePlan::default() };
        let plan = DirectionPlan { rate: Some(1_000_000), mtu: Some(1500), queue, ..DirectionPlan::default() };
        let mut wire = direction(plan);
        let (mut dropped, mut begun) = (Vec::new(), 0);
        for _ in 0..6 {
            if let Some(item) = wire.offer(Instant::ZERO, item(1514), &mut dropped) {
                wire.begin(Instant::ZERO, item, &mut Vec::new());
                begun += 1;
            }
        }
        assert_eq!((begun, wire.backlog(), dropped.len(), wire.counters().queue_full), (1, (3, 3 * 1514), 2, 2));
        assert!(wire.offer(Instant::ZERO, item(1515), &mut dropped).is_none());
        wire.set_up(false, &mut dropped);
        assert!(wire.offer(Instant::ZERO, item(100), &mut dropped).is_none());
        let counters = wire.counters();
        assert_eq!((counters.too_large, counters.cut, dropped.len()), (1, 4, 7));
    }
}
