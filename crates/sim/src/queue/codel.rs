//! CoDel (RFC 8289): drops when even the shortest wait within an interval was too long, more often the longer that lasts.

use super::ecn;
use super::fifo::{Fifo, QueueCounters, Waiting};
use crate::item::Item;
use std::time::Duration;
use weft_core::Instant;

/// Fewer bytes than a full frame are no standing queue (RFC 8289 §5.5: "if there is less than one MTU's worth of data in the queue").
const MTU_BYTES: u64 = 1514;

#[derive(Clone, Debug)]
pub(super) struct CoDel {
    target: Duration,
    interval: Duration,
    ecn: bool,
    /// When the wait has been above the target for an interval.
    first_above: Option<Instant>,
    drop_next: Instant,
    count: u32,
    last_count: u32,
    dropping: bool,
}

impl CoDel {
    pub fn new(target: Duration, interval: Duration, ecn: bool) -> CoDel {
        CoDel { target, interval, ecn, first_above: None, drop_next: Instant::ZERO, count: 0, last_count: 0, dropping: false }
    }

    /// control_law: "return t + interval / sqrt(count)".
    fn control_law(&self, from: Instant) -> Instant {
        // Square roots are rounded alike everywhere.
        from + Duration::from_nanos((self.interval.as_nanos() as f64 / f64::from(self.count.max(1)).sqrt()) as u64)
    }

    /// dodequeue: the next frame, and whether it may be dropped.
    fn next(&mut self, now: Instant, fifo: &mut Fifo) -> Option<(Waiting, bool)> {
        let Some(waiting) = fifo.pop() else {
            self.first_above = None;
            return None;
        };
        if now - waiting.since < self.target || fifo.bytes() <= MTU_BYTES {
            self.first_above = None;
            return Some((waiting, false));
        }
        match self.first_above {
            None => {
                self.first_above = Some(now + self.interval);
                Some((waiting, false))
            }
            Some(at) => Some((waiting, now >= at)),
        }
    }

    /// Drops a frame, or marks it: then it is handed back to be sent.
    fn lose(&self, waiting: Waiting, counters: &mut QueueCounters, dropped: &mut Vec<Item>) -> Option<Waiting> {
        let mut waiting = waiting;
        if self.ecn && ecn::mark(&mut waiting.item) {
            counters.marked += 1;
            return Some(waiting);
        }
        counters.early += 1;
        dropped.push(waiting.item);
        None
    }

    pub fn pop(&mut self, now: Instant, fifo: &mut Fifo, counters: &mut QueueCounters, dropped: &mut Vec<Item>) -> Option<Item> {
        let Some((mut waiting, mut may_drop)) = self.next(now, fifo) else {
            self.dropping = false;
            return None;
        };
        if self.dropping {
            if !may_drop {
                self.dropping = false;
            }
            while self.dropping && now >= self.drop_next {
                self.count += 1;
                if let Some(marked) = self.lose(waiting, counters, dropped) {
                    self.drop_next = self.control_law(self.drop_next);
                    return Some(marked.item);
                }
                match self.next(now, fifo) {
                    None => {
                        self.dropping = false;
                        return None;
                    }
                    Some(next) => (waiting, may_drop) = next,
                }
                if may_drop {
                    self.drop_next = self.control_law(self.drop_next);
                } else {
                    self.dropping = false;
                }
            }
            return Some(waiting.item);
        }
        if !may_drop {
            return Some(waiting.item);
        }
        let kept = match self.lose(waiting, counters, dropped) {
            Some(marked) => Some(marked.item),
            None => self.next(now, fifo).map(|(next, _)| next.item),
        };
        self.dropping = true;
        // RFC 8289 §5.6: "if min went above target close to when it last went below, assume that the drop rate that controlled the queue
        // on the last cycle is a good starting point".
        let delta = self.count.saturating_sub(self.last_count);
        let recently = now < self.drop_next + self.interval.saturating_mul(16);
        self.count = if delta > 1 && recently { delta } else { 1 };
        self.last_count = self.count;
        self.drop_next = self.control_law(now);
        kept
    }
}
