//! Timers of all blocks of a node, in one order: time, then block, then token.

use crate::block::BlockId;
use crate::time::Instant;
use std::collections::{BTreeMap, BTreeSet};

/// Timers by (block, token). Setting one that runs moves it.
#[derive(Debug, Default)]
pub struct Timers {
    due: BTreeSet<(Instant, BlockId, u64)>,
    set: BTreeMap<(BlockId, u64), Instant>,
}

impl Timers {
    /// Sets or moves a timer.
    pub fn set(&mut self, block: BlockId, token: u64, at: Instant) {
        match self.set.insert((block, token), at) {
            Some(old) if old == at => return,
            Some(old) => {
                self.due.remove(&(old, block, token));
            }
            None => {}
        }
        self.due.insert((at, block, token));
    }
    /// Takes a timer back.
    pub fn cancel(&mut self, block: BlockId, token: u64) {
        if let Some(at) = self.set.remove(&(block, token)) {
            self.due.remove(&(at, block, token));
        }
    }
    /// Takes back all timers of a block.
    pub fn cancel_all(&mut self, block: BlockId) {
        let count = self.set.range((block, 0)..=(block, u64::MAX)).count();
        self.forget_all(block, count);
    }
    /// Takes back all timers of a block and returns them, by token.
    pub fn take_all(&mut self, block: BlockId) -> Vec<(u64, Instant)> {
        let timers: Vec<(u64, Instant)> = self.set.range((block, 0)..=(block, u64::MAX)).map(|((_, token), at)| (*token, *at)).collect();
        self.forget_all(block, timers.len());
        timers
    }
    /// `count`: so many timers the block has.
    fn forget_all(&mut self, block: BlockId, count: usize) {
        // To build both anew is cheaper than to look up much of them.
        if count > self.set.len() / 16 {
            self.set = std::mem::take(&mut self.set).into_iter().filter(|((of, _), _)| *of != block).collect();
            self.due = std::mem::take(&mut self.due).into_iter().filter(|(_, of, _)| *of != block).collect();
        } else {
            let tokens: Vec<u64> = self.set.range((block, 0)..=(block, u64::MAX)).map(|((_, token), _)| *token).collect();
            tokens.into_iter().for_each(|token| self.cancel(block, token));
        }
    }
    /// When the first is due.
    pub fn next(&self) -> Option<Instant> {
        self.due.first().map(|(at, _, _)| *at)
    }
    /// Takes out the first that is due by `now`.
    pub fn pop(&mut self, now: Instant) -> Option<(BlockId, u64)> {
        let (at, block, token) = *self.due.first()?;
        if at > now {
            return None;
        }
        self.due.pop_first();
        self.set.remove(&(block, token));
        Some((block, token))
    }
    /// How many are set.
    pub fn len(&self) -> usize {
        self.set.len()
    }
    /// None is set.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_fire_in_order_once_and_can_be_moved() {
        let (a, b) = (BlockId(0), BlockId(1));
        let mut timers = Timers::default();
        timers.set(b, 1, Instant::from_millis(5));
        timers.set(a, 2, Instant::from_millis(5));
        timers.set(a, 1, Instant::from_millis(9));
        timers.set(a, 1, Instant::from_millis(1));
        timers.set(b, 9, Instant::from_millis(2));
        timers.cancel(b, 9);
        assert_eq!(timers.pop(Instant::ZERO), None);
        assert_eq!(timers.next(), Some(Instant::from_millis(1)));
        let order: Vec<_> = std::iter::from_fn(|| timers.pop(Instant::from_millis(10))).collect();
        assert_eq!(order, [(a, 1), (a, 2), (b, 1)]);
        timers.set(a, 1, Instant::ZERO);
        timers.set(b, 1, Instant::ZERO);
        timers.cancel_all(a);
        assert_eq!((timers.len(), timers.is_empty()), (1, false));
    }
}
