//! Frames that wait, in order, and what became of those that did not.

use crate::item::Item;
use std::collections::VecDeque;
use weft_core::Instant;

/// A frame that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub item: Item,
    pub since: Instant,
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

/// Frames in order, with their bytes.
#[derive(Debug, Default)]
pub(super) struct Fifo {
    frames: VecDeque<Waiting>,
    bytes: u64,
}

impl Fifo {
    pub fn push(&mut self, waiting: Waiting) {
        self.bytes += u64::from(waiting.item.bytes);
        self.frames.push_back(waiting);
    }

    pub fn pop(&mut self) -> Option<Waiting> {
        let waiting = self.frames.pop_front()?;
        self.bytes -= u64::from(waiting.item.bytes);
        Some(waiting)
    }

    /// Bytes that wait.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Everything that waits, in order.
    pub fn into_items(self) -> impl Iterator<Item = Item> {
        self.frames.into_iter().map(|waiting| waiting.item)
    }
}
