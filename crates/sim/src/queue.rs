//! Queues in front of wires: what waits while the wire is busy, and who is dropped.
//!
//! A discipline sees each frame twice: when it comes ([`WireQueue::push`]) and when the wire is free ([`WireQueue::pop`]). Dropped frames are handed back,
//! so that their senders learn that they left. Where a discipline marks (ECN, RFC 3168), a frame that is not ECN-capable is dropped.

mod codel;
mod ecn;
mod fifo;
mod pie;
mod red;

pub use fifo::QueueCounters;

use crate::item::Item;
use crate::plan::{Discipline, QueuePlan};
use codel::CoDel;
use ecn::mark;
use fifo::{Fifo, Waiting};
use pie::Pie;
use red::Red;
use std::collections::VecDeque;
use weft_core::{Instant, Rng};

/// What a discipline remembers.
#[derive(Debug)]
enum State {
    DropTail,
    Red(Red),
    CoDel(CoDel),
    FqCoDel(Box<Flows>),
    Pie(Pie),
}

/// A queue.
#[derive(Debug)]
pub(crate) struct WireQueue {
    plan: QueuePlan,
    state: State,
    /// All that waits, but for FQ-CoDel, which has a queue a flow.
    fifo: Fifo,
    frames: usize,
    bytes: u64,
    counters: QueueCounters,
}

impl WireQueue {
    pub fn new(plan: QueuePlan) -> WireQueue {
        WireQueue { plan, state: state(&plan), fifo: Fifo::default(), frames: 0, bytes: 0, counters: QueueCounters::default() }
    }

    /// Becomes another; what waits goes over as far as it fits, the rest is handed back.
    pub fn become_other(&mut self, now: Instant, plan: QueuePlan, rng: &mut Rng, dropped: &mut Vec<Item>) {
        let mut waiting = Vec::new();
        self.clear(&mut waiting);
        (self.plan, self.state) = (plan, state(&plan));
        waiting.into_iter().for_each(|item| self.push(now, item, rng, dropped));
    }

    fn is_full(&self, item: &Item) -> bool {
        self.frames as u64 >= u64::from(self.plan.packets_max) || self.bytes + u64::from(item.bytes) > self.plan.bytes_max
    }

    /// A frame comes.
    pub fn push(&mut self, now: Instant, mut item: Item, rng: &mut Rng, dropped: &mut Vec<Item>) {
        if let State::FqCoDel(flows) = &mut self.state {
            // RFC 8290 §4.1.2: the fattest flow loses, not the one that comes.
            self.frames += 1;
            self.bytes += u64::from(item.bytes);
            flows.push(now, item);
            while self.frames as u64 > u64::from(self.plan.packets_max) || self.bytes > self.plan.bytes_max {
                let Some(lost) = flows.drop_fattest() else { return };
                self.frames -= 1;
                self.bytes -= u64::from(lost.bytes);
                self.counters.full += 1;
                dropped.push(lost);
            }
            return;
        }
        if self.is_full(&item) {
            self.counters.full += 1;
            return dropped.push(item);
        }
        let (early, may_mark) = match (&mut self.state, self.plan.discipline) {
            (State::Red(red), Discipline::Red { ecn, .. }) => (red.drops(now, self.bytes, rng), ecn),
            (State::Pie(pie), Discipline::Pie { ecn, .. }) => (pie.drops(now, self.bytes, item.bytes, rng), ecn && pie.may_mark()),
            _ => (false, false),
        };
        if early {
            if may_mark && mark(&mut item) {
                self.counters.marked += 1;
            } else {
                self.counters.early += 1;
                return dropped.push(item);
            }
        }
        self.frames += 1;
        self.bytes += u64::from(item.bytes);
        self.fifo.push(Waiting { item, since: now });
    }

    /// The wire is free: who is next?
    pub fn pop(&mut self, now: Instant, dropped: &mut Vec<Item>) -> Option<Item> {
        let before = dropped.len();
        let item = match &mut self.state {
            State::DropTail | State::Red(_) => self.fifo.pop().map(|waiting| waiting.item),
            State::Pie(pie) => self.fifo.pop().map(|waiting| {
                pie.left(now, now - waiting.since, self.fifo.bytes());
                waiting.item
            }),
            State::CoDel(codel) => codel.pop(now, &mut self.fifo, &mut self.counters, dropped),
            State::FqCoDel(flows) => flows.pop(now, &mut self.counters, dropped),
        };
        for lost in dropped.iter().skip(before).chain(&item) {
            self.frames = self.frames.saturating_sub(1);
            self.bytes = self.bytes.saturating_sub(u64::from(lost.bytes));
        }
        item
    }

    /// Nothing waits.
    pub fn is_empty(&self) -> bool {
        self.frames == 0
    }
    /// Frames that wait.
    pub fn len(&self) -> usize {
        self.frames
    }
    /// Bytes that wait.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
    pub fn counters(&self) -> QueueCounters {
        self.counters
    }
    /// Everything that waits, taken out.
    pub fn clear(&mut self, dropped: &mut Vec<Item>) {
        (self.frames, self.bytes) = (0, 0);
        dropped.extend(std::mem::take(&mut self.fifo).into_items());
        if let State::FqCoDel(flows) = &mut self.state {
            flows.clear(dropped);
        }
    }
}

fn state(plan: &QueuePlan) -> State {
    match plan.discipline {
        Discipline::DropTail => State::DropTail,
        Discipline::Red { min, max, probability, .. } => State::Red(Red::new(min, max, probability)),
        Discipline::CoDel { target, interval, ecn } => State::CoDel(CoDel::new(target, interval, ecn)),
        Discipline::Pie { target, update, .. } => State::Pie(Pie::new(target, update)),
        Discipline::FqCoDel { target, interval, ecn, flows, quantum } => {
            State::FqCoDel(Box::new(Flows::new(CoDel::new(target, interval, ecn), flows, quantum)))
        }
    }
}

/// One flow of FQ-CoDel.
#[derive(Debug)]
struct Flow {
    fifo: Fifo,
    codel: CoDel,
    deficit: i64,
    listed: bool,
}

/// FQ-CoDel (RFC 8290): a CoDel queue a flow, served round robin by bytes, new flows first.
#[derive(Debug)]
struct Flows {
    fresh: CoDel,
    quantum: i64,
    flows: Vec<Flow>,
    new: VecDeque<usize>,
    old: VecDeque<usize>,
}

impl Flows {
    fn new(fresh: CoDel, count: u32, quantum: u32) -> Flows {
        let count = count.clamp(1, 65_536) as usize;
        let flows = (0..count).map(|_| Flow { fifo: Fifo::default(), codel: fresh.clone(), deficit: 0, listed: false }).collect();
        Flows { fresh, quantum: i64::from(quantum.max(1)), flows, new: VecDeque::new(), old: VecDeque::new() }
    }

    fn push(&mut self, now: Instant, item: Item) {
        let index = (ecn::flow_hash(&item) % self.flows.len() as u64) as usize;
        let quantum = self.quantum;
        let Some(flow) = self.flows.get_mut(index) else { return };
        flow.fifo.push(Waiting { item, since: now });
        if !flow.listed {
            (flow.listed, flow.deficit) = (true, quantum);
            self.new.push_back(index);
        }
    }

    fn drop_fattest(&mut self) -> Option<Item> {
        let fattest = self.flows.iter_mut().enumerate().max_by_key(|(index, flow)| (flow.fifo.bytes(), usize::MAX - index))?.1;
        // "it drops a packet from the head of that queue" (RFC 8290 §4.1.2 speaks of the head, as Linux does).
        fattest.fifo.pop().map(|waiting| waiting.item)
    }

    fn pop(&mut self, now: Instant, counters: &mut QueueCounters, dropped: &mut Vec<Item>) -> Option<Item> {
        loop {
            let from_new = !self.new.is_empty();
            let list = if from_new { &mut self.new } else { &mut self.old };
            let index = *list.front()?;
            let flow = self.flows.get_mut(index)?;
            if flow.deficit <= 0 {
                flow.deficit += self.quantum;
                list.pop_front();
                self.old.push_back(index);
                continue;
            }
            match flow.codel.pop(now, &mut flow.fifo, counters, dropped) {
                Some(item) => {
                    flow.deficit -= i64::from(item.bytes);
                    return Some(item);
                }
                None => {
                    list.pop_front();
                    // RFC 8290 §4.2: a new flow that is empty becomes an old one, so that it cannot come back as a new one at once.
                    if from_new && !self.old.is_empty() {
                        self.old.push_back(index);
                    } else {
                        flow.listed = false;
                    }
                }
            }
        }
    }

    fn clear(&mut self, dropped: &mut Vec<Item>) {
        for flow in &mut self.flows {
            dropped.extend(std::mem::take(&mut flow.fifo).into_items());
            (flow.codel, flow.deficit, flow.listed) = (self.fresh.clone(), 0, false);
        }
        self.new.clear();
        self.old.clear();
    }
}

#[cfg(test)]
mod tests;
