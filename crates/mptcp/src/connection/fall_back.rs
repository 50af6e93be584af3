//! A connection that has become plain TCP: its flow goes on, and only what tcp has had no room for is left here.

use super::{Connection, Stage};
use crate::counters::Counter;
use crate::out::Out;
use crate::word::{Down, Why};
use weft_core::{CallId, DataFlags, StreamCall, StreamEvent, StreamMessage};
use weft_wire::tcp::mptcp::reset_reason;

impl Connection {
    /// The one subflow has become plain TCP.
    pub(super) fn fell_back(&mut self, out: &mut Out<'_, '_>) {
        if std::mem::replace(&mut self.fallen_back, true) {
            return;
        }
        if self.stage == Stage::Open {
            out.counters.less(Counter::MPCurrEstab);
        }
        (self.send.again_at, self.gives_up_at) = (None, None);
        // Those that were about to join have nothing to join any more.
        for path in self.paths.iter_mut().skip(1).filter(|path| !path.closed && !path.released) {
            path.closed = true;
            out.word(path.flow, &Down::Reset(Why::Reason { transient: false, reason: reset_reason::MPTCP }));
            out.call(path.flow, StreamCall::Abort);
        }
        let flow = self.flow;
        if self.send.end_wanted {
            self.waiting.push((CallId(crate::out::OWN_CALL), StreamCall::ShutdownWrite));
        }
        if self.closed && self.stage != Stage::Opening {
            self.waiting.push((CallId(crate::out::OWN_CALL), StreamCall::Close { unread: false, linger: None }));
        }
        if self.receive.refuses {
            out.call(flow, StreamCall::ShutdownRead);
        }
        // What waited for the rest of its mapping comes as it is.
        for bytes in std::mem::take(&mut self.paths[0].held) {
            out.up(StreamMessage::Data { flow, bytes, flags: DataFlags::default(), mapping: 0 });
        }
        self.push_plain(out);
    }

    /// MP_FAIL: the peer has found that a box on the way changes the data (RFC 8684 §3.7).
    pub(super) fn failed_at_peer(&mut self, index: usize, out: &mut Out<'_, '_>) {
        // A peer that has other subflows resets this one, and its reset says so: to it this is the only one. A join may have been answered meanwhile, but
        // nothing has gone over it, and it ends now.
        if self.firm || index != 0 {
            return self.drop_path(index, reset_reason::MIDDLEBOX, out);
        }
        out.count(Counter::DSSCorruptionFallback);
        out.word(self.flow, &Down::Infinite);
        self.fell_back(out);
    }

    /// Does tcp have room for everything that sockets may still send?
    pub(super) fn is_level(&self) -> bool {
        let may_come = self.send.granted.saturating_sub(self.send.end);
        self.send.unsent() == 0 && self.waiting.is_empty() && self.paths[0].credit == may_come
    }

    /// Sockets get what tcp gives beyond what they have; and calls that waited for data go down behind it.
    pub(super) fn level(&mut self, out: &mut Out<'_, '_>) {
        if self.send.unsent() > 0 {
            return;
        }
        for (id, op) in std::mem::take(&mut self.waiting) {
            out.down(StreamMessage::Call { id, flow: self.flow, op: Box::new(op) });
        }
        let may_come = self.send.granted.saturating_sub(self.send.end);
        let more = self.paths[0].credit.saturating_sub(may_come);
        if more > 0 {
            let bytes = u32::try_from(more).unwrap_or(u32::MAX);
            self.send.granted += u64::from(bytes);
            out.up(StreamMessage::Credit { flow: self.flow, bytes, enough: self.send.enough });
        }
    }

    pub(super) fn pass_event(&mut self, index: usize, event: StreamEvent, out: &mut Out<'_, '_>) {
        if matches!(event, StreamEvent::Released) {
            self.paths[index].released = true;
        }
        // Of the others sockets have never heard.
        if self.paths[index].flow == self.flow {
            out.event(self.flow, event);
        }
    }

    pub(super) fn pass_call(&mut self, id: CallId, op: StreamCall, out: &mut Out<'_, '_>) {
        let waits = self.send.unsent() > 0
            && match &op {
                StreamCall::ShutdownWrite => true,
                StreamCall::Close { unread, linger } => !unread && *linger != Some(weft_core::Duration::ZERO),
                _ => false,
            };
        if waits {
            self.waiting.push((id, op));
        } else {
            out.down(StreamMessage::Call { id, flow: self.flow, op: Box::new(op) });
        }
    }
}
