//! Operations that blocks order ([`Context::order`](crate::Context::order)): what waits, what was carried out, and the bound of both.

use crate::block::BlockId;
use crate::control::{ControlError, Op, Value};
use crate::time::Instant;
use std::sync::atomic::{AtomicU32, Ordering};

/// Most orders that follow from one event, those that are given upon answers among them.
pub const ORDERS_MAX: u32 = 64;
/// Most orders that were carried out and wait to be fetched ([`Engine::take_obeyed`](crate::Engine::take_obeyed)); older ones are dropped and counted.
pub const OBEYED_MAX: usize = 1024;

/// An order that waits for everything to come to rest.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    /// Whose.
    pub block: BlockId,
    /// Comes back with the answer.
    pub serial: u64,
    /// What is to be done.
    pub op: Op,
}

/// An order that was carried out, or could not be.
#[derive(Clone, Debug, PartialEq)]
pub struct Obeyed {
    /// When.
    pub at: Instant,
    /// The name of the block that ordered it.
    pub block: String,
    /// What.
    pub op: Op,
    /// What the block was answered.
    pub result: Result<Value, ControlError>,
}

impl Obeyed {
    /// In words, with the answer: what a record of a run has of it.
    pub fn words(&self) -> String {
        let told = crate::command::write(&self.op).unwrap_or_else(|| format!("{:?}", self.op));
        let answer = self.result.as_ref().map_or_else(ToString::to_string, Value::to_string);
        format!("{} orders {told}\n{answer}", self.block)
    }
}

/// The places for orders. Several blocks may take them at once where each has a thread.
#[derive(Debug, Default)]
pub struct Places(AtomicU32);

impl Places {
    /// Takes one. False: there is none left.
    pub fn take(&self) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| (taken < ORDERS_MAX).then_some(taken + 1)).is_ok()
    }
    /// All are free again.
    pub fn free(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}
