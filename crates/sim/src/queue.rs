//! Queues in front of wires: what waits while the wire is busy, and who is dropped.
//!
//! A discipline sees each frame twice: when it comes ([`Queue::push`]) and when the wire is free ([`Queue::pop`]). Dropped frames are handed back,
//! so that their senders learn that they left.

use crate::plan::{Discipline, QueuePlan};
use crate::wire::Item;
use std::collections::VecDeque;
use weft_core::{Instant, Rng};

/// A frame that waits.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub item: Item,
}

/// Why and how often a queue dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QueueCounters {
    /// It was full.
    pub full: u64,
    /// The discipline chose so.
    pub early: u64,
    /// Marked with congestion experienced instead.
    pub marked: u64,
}

/// A queue.
#[derive(Debug)]
pub(crate) struct Queue {
    plan: QueuePlan,
    frames: VecDeque<Waiting>,
    bytes: u64,
    counters: QueueCounters,
}

impl Queue {
    pub fn new(plan: QueuePlan) -> Queue {
        Queue { plan, frames: VecDeque::new(), bytes: 0, counters: QueueCounters::default() }
    }

    /// Becomes another; what waits goes over as far as it fits, the rest is handed back.
    pub fn become_other(&mut self, plan: QueuePlan, dropped: &mut Vec<Item>) {
        self.plan = plan;
        while self.frames.len() as u64 > u64::from(plan.packets_max) || self.bytes > plan.bytes_max {
            let Some(last) = self.frames.pop_back() else { break };
            self.bytes -= u64::from(last.item.bytes);
            self.counters.full += 1;
            dropped.push(last.item);
        }
    }

    /// A frame comes.
    pub fn push(&mut self, now: Instant, item: Item, _rng: &mut Rng, dropped: &mut Vec<Item>) {
        let Discipline::DropTail = self.plan.discipline else { return dropped.push(item) };
        let bytes = u64::from(item.bytes);
        if self.frames.len() as u64 >= u64::from(self.plan.packets_max) || self.bytes + bytes > self.plan.bytes_max {
            self.counters.full += 1;
            dropped.push(item);
            return;
        }
        self.bytes += bytes;
        let _ = now;
        self.frames.push_back(Waiting { item });
    }

    /// The wire is free: who is next?
    pub fn pop(&mut self, _now: Instant, _dropped: &mut Vec<Item>) -> Option<Item> {
        let waiting = self.frames.pop_front()?;
        self.bytes -= u64::from(waiting.item.bytes);
        Some(waiting.item)
    }

    /// Nothing waits.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }
    /// Frames that wait.
    pub fn len(&self) -> usize {
        self.frames.len()
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
        self.bytes = 0;
        dropped.extend(self.frames.drain(..).map(|waiting| waiting.item));
    }
}
