//! A listener, and the half-open connections that it has.

use super::kept::Kept;
use super::tables::Tuple;
use crate::connection::{Handshake, Path};
use crate::counters::Counter;
use crate::extension::Extension;
use crate::outbox::Outbox;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use weft_core::{Duration, FlowId, Instant, InterfaceIndex, StreamOptions, Value};
use weft_wire::tcp::Seq;

/// A connection that was reset before its handshake ended takes its place for so long (RFC 7413 §5.1; Linux).
const RESET_HOLD: Duration = Duration::from_secs(60);

/// A listening flow.
#[derive(Debug)]
pub(super) struct Listener {
    pub flow: FlowId,
    pub local: SocketAddr,
    pub dual_stack: bool,
    pub backlog: u32,
    pub options: StreamOptions,
    /// Connections that wait to be taken.
    pub waiting: u32,
    /// Half-open ones.
    pub half_open: u32,
    /// When it last had no room for one, or answered by cookie.
    pub overflowed_at: Option<Instant>,
    /// Connections that began by Fast Open and whose handshake has not ended, and when such were reset.
    pub early: u32,
    pub early_resets: VecDeque<Instant>,
    pub extension: Box<dyn Extension>,
}

impl Listener {
    pub(super) fn is_full(&self) -> bool {
        self.waiting > self.backlog
    }
    /// inet_csk_reqsk_queue_is_full, measured: backlog + 1 half-open connections.
    pub(super) fn has_no_room(&self, most: u32) -> bool {
        self.half_open > self.backlog || self.half_open >= most
    }
    /// How well it fits an address; `None`: not at all. The most specific wins (tcp_v4_lookup_listener's score).
    pub(super) fn score(&self, local: IpAddr, interface: InterfaceIndex) -> Option<u32> {
        let bound = self.options.interface;
        if bound != 0 && bound != interface.0 {
            return None;
        }
        let by_address = match self.local.ip() {
            ip if ip == local => 8,
            ip if !ip.is_unspecified() => return None,
            IpAddr::V4(_) if local.is_ipv4() => 4,
            IpAddr::V6(_) if local.is_ipv6() => 4,
            IpAddr::V6(_) if self.dual_stack => 2,
            _ => return None,
        };
        Some(by_address + u32::from(bound != 0))
    }
    pub(super) fn row(&self) -> Value {
        serde_json::json!({
            "flow": self.flow.0, "local": self.local.to_string(), "state": "LISTEN",
            "waiting": self.waiting, "backlog": self.backlog, "half_open": self.half_open,
        })
    }

    /// tcp_fastopen_queue_check.
    pub(super) fn takes_early(&mut self, all: bool, now: Instant, out: &mut Outbox) -> bool {
        let most = if all { self.options.fast_open_queue.max(self.backlog) } else { self.options.fast_open_queue };
        while self.early_resets.front().is_some_and(|at| now.since(*at) >= RESET_HOLD) {
            self.early_resets.pop_front();
        }
        if most == 0 {
            return false;
        }
        let full = self.early as usize + self.early_resets.len() >= most as usize;
        if full {
            out.counters.add(Counter::TCPFastOpenListenOverflow, 1);
        }
        !full
    }

    /// An early connection's handshake has ended, well or not.
    pub(super) fn early_ended(&mut self, reset: bool, now: Instant) {
        self.early = self.early.saturating_sub(1);
        if reset {
            // Never more than `takes_early` let in: each was an early one before.
            self.early_resets.push_back(now);
        }
    }
}

/// A half-open connection.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) tuple: Tuple,
    pub(super) listener: u64,
    pub(super) handshake: Handshake,
    pub(super) initial: Seq,
    pub(super) timestamp_offset: u32,
    pub(super) path: Path,
    pub(super) deadline: Instant,
    pub(super) timer: Instant,
    /// The final ACK has come, but the queue was full, or the program waits for data.
    pub(super) acknowledged: bool,
    pub(super) answered: Option<Instant>,
    /// Only where a listener accepts one.
    pub(super) extension: Option<Box<dyn Extension>>,
    pub(super) kept: Kept,
}

impl Request {
    pub(super) fn tuple(&self) -> Tuple {
        self.tuple
    }
    pub(super) fn timer(&self) -> Instant {
        self.timer
    }
    pub(super) fn row(&self) -> Value {
        serde_json::json!({
            "local": self.tuple.local.to_string(), "remote": self.tuple.remote.to_string(),
            "state": "SYN-RECV", "retransmits": self.handshake.retransmits,
        })
    }
    pub(super) fn timestamp(&self, now: Instant) -> u32 {
        (now.as_millis() as u32).wrapping_add(self.timestamp_offset)
    }
}
