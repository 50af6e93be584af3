//! The queue in front of a block: bounded for frames, which are refused when it is full, and watched for everything else.

use super::lock::lock;
use crate::clock::Clock;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use weft_core::Instant;
use weft_core::engine::{QUEUE_FRAMES_MAX, Work};

/// From so many pieces of work other than frames in one queue on, nothing new is let into the graph.
pub const MESSAGES_HIGH: usize = 65_536;

#[derive(Debug, Default)]
struct State {
    work: VecDeque<Work>,
    /// Frames in `work`.
    frames: usize,
    /// Frames that found it full.
    refused: u64,
    /// The thread waits, or is about to.
    sleeping: bool,
    stop: bool,
    /// When the block's first timer is due.
    wake_at: Option<Instant>,
}

impl State {
    fn is_high(&self) -> bool {
        self.work.len() > MESSAGES_HIGH
    }
}

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    state: Mutex<State>,
    ready: Condvar,
}

impl Inbox {
    /// Brings work. Frames that find the queue full come back, and are counted. `pressure` counts the queues that are too long.
    pub fn push(&self, work: Work, pressure: &AtomicUsize) -> Option<Work> {
        let frames = work.frames();
        let mut state = lock(&self.state);
        if frames > 0 && state.frames + frames > QUEUE_FRAMES_MAX {
            state.refused += frames as u64;
            return Some(work);
        }
        state.frames += frames;
        let was_high = state.is_high();
        state.work.push_back(work);
        if !was_high && state.is_high() {
            pressure.fetch_add(1, Ordering::Relaxed);
        }
        let wake = std::mem::replace(&mut state.sleeping, false);
        drop(state);
        if wake {
            self.ready.notify_one();
        }
        None
    }

    /// Counts frames that were not let in.
    pub fn refuse(&self, frames: u64) {
        lock(&self.state).refused += frames;
    }
    /// Frames refused since the last call.
    pub fn take_refused(&self) -> u64 {
        std::mem::take(&mut lock(&self.state).refused)
    }

    /// Takes everything out, in order.
    pub fn take(&self, into: &mut VecDeque<Work>, pressure: &AtomicUsize) {
        let mut state = lock(&self.state);
        if state.is_high() {
            pressure.fetch_sub(1, Ordering::Relaxed);
        }
        state.frames = 0;
        match into.is_empty() {
            true => std::mem::swap(into, &mut state.work),
            false => into.append(&mut state.work),
        }
    }

    /// Says when the block's first timer is due, after the block has run.
    pub fn set_wake(&self, at: Option<Instant>) {
        let mut state = lock(&self.state);
        let sooner = at.is_some_and(|at| state.wake_at.is_none_or(|old| at < old));
        state.wake_at = at;
        if sooner && state.sleeping {
            state.sleeping = false;
            drop(state);
            self.ready.notify_one();
        }
    }

    /// Waits for work or a timer. False: it is over.
    pub fn wait(&self, clock: &Clock) -> bool {
        let mut state = lock(&self.state);
        loop {
            if state.stop {
                return false;
            }
            let left = state.wake_at.map(|at| at.since(clock.now()));
            if !state.work.is_empty() || left.is_some_and(|left| left.is_zero()) {
                state.sleeping = false;
                return true;
            }
            state.sleeping = true;
            state = match left {
                Some(left) => self.ready.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
                None => self.ready.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Ends the thread that waits, now or the next time.
    pub fn stop(&self) {
        lock(&self.state).stop = true;
        self.ready.notify_all();
    }
}
