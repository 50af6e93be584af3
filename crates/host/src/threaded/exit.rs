//! Where things leave the threads: frames, alerts, failures; and the descriptor that wakes whoever waits for them.

use super::lock::lock;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::collections::VecDeque;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use weft_core::engine::{ALERTS_MAX, Alert, Outgoing};
use weft_core::order::Order;

/// Most frames that wait to be fetched; more are dropped and counted where they left the graph.
pub const OUTGOING_FRAMES_MAX: usize = 65_536;

#[derive(Debug, Default)]
struct State {
    frames: Vec<Outgoing>,
    alerts: VecDeque<Alert>,
    alerts_lost: u64,
    /// As many as there are places for.
    orders: Vec<Order>,
    failure: Option<String>,
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct Exit {
    state: Mutex<State>,
    /// There are frames: asked often, so without the lock.
    any: AtomicBool,
    wake: OwnedFd,
    /// The descriptor is readable already.
    woken: AtomicBool,
}

impl Exit {
    pub fn new() -> io::Result<Exit> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Exit { state: Mutex::default(), any: AtomicBool::new(false), wake, woken: AtomicBool::new(false) })
    }

    /// Takes frames and alerts. What it has no room for stays in `frames`.
    pub fn put(&self, frames: &mut Vec<Outgoing>, alerts: &mut Vec<Alert>) {
        let mut state = lock(&self.state);
        let room = OUTGOING_FRAMES_MAX.saturating_sub(state.frames.len()).min(frames.len());
        state.frames.extend(frames.drain(..room));
        for alert in alerts.drain(..) {
            if state.alerts.len() == ALERTS_MAX {
                state.alerts.pop_front();
                state.alerts_lost += 1;
            }
            state.alerts.push_back(alert);
        }
        self.any.store(!state.frames.is_empty(), Ordering::Release);
        drop(state);
        self.wake();
    }

    /// Takes orders of blocks, for which they had places.
    pub fn order(&self, orders: &mut Vec<Order>) {
        lock(&self.state).orders.append(orders);
        self.wake();
    }
    pub fn has_orders(&self) -> bool {
        !lock(&self.state).orders.is_empty()
    }
    pub fn take_orders(&self) -> Vec<Order> {
        std::mem::take(&mut lock(&self.state).orders)
    }

    /// Something has gone wrong for good; the first to say so is heard.
    pub fn fail(&self, why: String) {
        lock(&self.state).failure.get_or_insert(why);
        self.wake();
    }

    /// Makes the descriptor readable.
    pub fn wake(&self) {
        if !self.woken.swap(true, Ordering::AcqRel) {
            // It cannot be full, as it is written to once between two reads.
            let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        }
    }

    /// The descriptor is not readable any more; called before looking at what there is.
    pub fn awake(&self) {
        // Also when `woken` is not set yet: who sets it writes afterwards, and may have been overtaken the last time.
        let _ = rustix::io::read(&self.wake, &mut [0u8; 8]);
        self.woken.swap(false, Ordering::AcqRel);
    }

    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
    pub fn has_frames(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }
    pub fn take_frames(&self) -> Vec<Outgoing> {
        if !self.has_frames() {
            return Vec::new();
        }
        let mut state = lock(&self.state);
        self.any.store(false, Ordering::Release);
        std::mem::take(&mut state.frames)
    }
    pub fn take_alerts(&self) -> Vec<Alert> {
        lock(&self.state).alerts.drain(..).collect()
    }
    pub fn alerts_lost(&self) -> u64 {
        lock(&self.state).alerts_lost
    }
    pub fn failure(&self) -> Option<String> {
        lock(&self.state).failure.clone()
    }
}
