//! Data that goes again, over another subflow: what was on one that is gone, or whose tcp has heard nothing for a retransmission timeout.

use super::{Connection, Stage};
use crate::counters::Counter;
use crate::out::Out;
use crate::word::Why;
use weft_core::Duration;

/// How long nothing may be acknowledged at the connection's level before the oldest data goes again: at least this, or so many round trips.
const STALLED_MIN: Duration = Duration::from_secs(1);
const STALLED_ROUND_TRIPS: u32 = 4;
const STALLED_MAX: Duration = Duration::from_secs(60);
/// So often, while no subflow's acknowledgments say anything of the connection's data: then all of its ways take that out.
const STALLS_SILENT: u32 = 3;
/// Of it so much at a time, bytes.
const STALLED_BYTES: u64 = 1 << 16;

impl Connection {
    /// What a subflow has and the peer has not acknowledged is to go over others.
    pub(super) fn reinject(&mut self, index: usize) {
        let (una, path) = (self.send.una, &self.paths[index]);
        for (start, end) in path.maps.iter().copied().filter(|(_, end)| *end > una) {
            self.send.lose(start.max(una), end, Some(path.flow));
        }
    }

    /// Looks whether a subflow's tcp waits in vain, or no longer does.
    pub(super) fn watch(&mut self, index: usize, out: &mut Out<'_, '_>) {
        let path = &self.paths[index];
        let limit = out.settings.stale_timeouts;
        let waits = limit > 0 && path.room.timeouts >= limit;
        if waits == path.suspect {
            return;
        }
        let others = self.paths.iter().enumerate().any(|(at, path)| at != index && path.may_send() && !path.suspect);
        if !waits {
            self.paths[index].suspect = false;
            out.count(Counter::SubflowRecover);
            return self.follow_policy(out);
        }
        // With preferences one may be opened.
        if others || !out.settings.prefer.is_empty() {
            self.paths[index].suspect = true;
            out.count(Counter::SubflowStale);
            self.reinject(index);
            // A less preferred one takes its place.
            self.follow_policy(out);
            self.open_others(out);
        }
    }

    /// The wait for an acknowledgment of the connection's level begins anew.
    pub(super) fn wait_for_ack(&mut self, progress: bool, out: &Out<'_, '_>) {
        if progress {
            self.send.stalls = 0;
        }
        let waits = self.stage == Stage::Open && !self.fallen_back && self.send.una < self.send.next;
        if !waits {
            self.send.stalled_at = None;
        } else if progress || self.send.stalled_at.is_none() {
            let rtt = self.paths.iter().filter_map(|path| path.room.rtt).max().unwrap_or_default();
            let wait = STALLED_MIN.max(rtt * STALLED_ROUND_TRIPS);
            self.send.stalled_at = Some(out.now() + wait.saturating_mul(1 << self.send.stalls.min(10)).min(STALLED_MAX));
        }
    }

    /// What the peer has thrown away is rarely one piece: where it was, each acknowledgment shows the next, and that goes again at once.
    pub(super) fn repair(&mut self) {
        let una = self.send.una;
        if self.send.repairs_to <= una || self.send.first_lost().is_some() {
            return;
        }
        let mut holders = self.paths.iter().filter_map(|path| path.has_delivered(una)).peekable();
        if holders.peek().is_some() && holders.all(|delivered| delivered) {
            self.send.lose(una, self.send.repairs_to.min(una + STALLED_BYTES), None);
        }
    }

    /// Nothing was acknowledged for long. A subflow's tcp repairs what it loses; what the peer's connection has thrown away only this repairs.
    pub(super) fn stalled(&mut self, out: &mut Out<'_, '_>) {
        self.send.stalls += 1;
        self.send.stalled_at = None;
        let mut may_send = self.paths.iter().filter(|path| path.may_send()).peekable();
        if self.send.stalls >= STALLS_SILENT && may_send.peek().is_some() && may_send.all(|path| path.silent) {
            // Of several subflows none can become plain TCP any more, and nothing will ever be acknowledged (RFC 8684 §3.7).
            out.count(Counter::AllSilent);
            return self.break_off(Why::FastClose, out);
        }
        let tcp_waits = self.paths.iter().any(|path| path.may_send() && path.room.acknowledged_bytes < path.sent);
        // A tcp that has not delivered yet goes on trying, unless another subflow is idle.
        let idle = self.paths.iter().any(|path| path.may_send() && path.room.acknowledged_bytes >= path.sent);
        if !tcp_waits || idle {
            // A subflow whose stream has something twice is no TCP connection any more.
            self.make_firm(out);
            let (una, next) = (self.send.una, self.send.next);
            let holder = self.paths.iter().find(|path| path.maps.iter().any(|(start, end)| (*start..*end).contains(&una)));
            let holder = holder.filter(|path| path.room.acknowledged_bytes < path.sent).map(|path| path.flow);
            self.send.lose(una, next.min(una + STALLED_BYTES), holder);
            self.send.repairs_to = next;
        }
        self.wait_for_ack(false, out);
        self.push(out);
    }
}
