//! What is kept of a connection in TIME-WAIT.

use super::tables::Tuple;
use weft_core::{FlowId, Instant, Value};

/// A connection in TIME-WAIT.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) tuple: Tuple,
    pub(super) flow: FlowId,
    pub(super) wait: crate::connection::TimeWait,
    pub(super) until: Instant,
    pub(super) answered: Option<Instant>,
}

impl Record {
    pub(super) fn tuple(&self) -> Tuple {
        self.tuple
    }
    pub(super) fn flow(&self) -> FlowId {
        self.flow
    }
    pub(super) fn row(&self, now: Instant) -> Value {
        serde_json::json!({
            "flow": self.flow.0, "local": self.tuple.local.to_string(), "remote": self.tuple.remote.to_string(),
            "state": "TIME-WAIT", "remaining_ms": (self.until - now).as_millis() as u64,
        })
    }
}
