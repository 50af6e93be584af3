//! Receiving: data of subflows, put into order, and what the peer is told of it.

use super::{Connection, Stage};
use crate::counters::Counter;
use crate::out::Out;
use weft_core::{Bytes, DataFlags, StreamEvent, StreamMessage};

impl Connection {
    /// Data of a subflow, in its order.
    pub(crate) fn data_up(&mut self, index: usize, bytes: Bytes, flags: DataFlags, mapping: u64, out: &mut Out<'_, '_>) {
        if self.fallen_back {
            return out.up(StreamMessage::Data { flow: self.flow, bytes, flags, mapping: 0 });
        }
        let length = bytes.len() as u64;
        let at = self.paths[index].received.wrapping_add(mapping);
        self.paths[index].received += length;
        if let Some(bytes) = self.receive.take(at, bytes, out) {
            self.deliver(bytes, flags, out);
            while let Some(bytes) = self.receive.next_waiting() {
                out.count(Counter::OFOMerge);
                self.deliver(bytes, flags, out);
            }
            self.reach_end(out);
        }
        let now = self.receive.ended;
        self.have(index, now, out);
        // The subflow's own buffer is free again: what waits is the connection's.
        let flow = self.paths[index].flow;
        out.down(StreamMessage::Credit { flow, bytes: u32::try_from(length).unwrap_or(u32::MAX), enough: 0 });
        self.end_if_over(out);
    }

    fn deliver(&mut self, bytes: Bytes, flags: DataFlags, out: &mut Out<'_, '_>) {
        if self.receive.refuses || self.closed {
            self.receive.taken += bytes.len() as u64;
            self.receive.open();
            return;
        }
        out.up(StreamMessage::Data { flow: self.flow, bytes, flags, mapping: 0 });
    }

    /// The program has taken bytes.
    pub(crate) fn taken(&mut self, bytes: u32, out: &mut Out<'_, '_>) {
        if self.fallen_back {
            return out.down(StreamMessage::Credit { flow: self.flow, bytes, enough: 0 });
        }
        self.receive.taken = (self.receive.taken + u64::from(bytes)).min(self.receive.next);
        if !self.receive.open() || self.stage != Stage::Open {
            return;
        }
        for index in 0..self.paths.len() {
            if self.paths[index].may_send() {
                self.have(index, false, out);
                // tcp looks whether its window has become much larger than the peer knows.
                out.down(StreamMessage::Credit { flow: self.paths[index].flow, bytes: 0, enough: 0 });
            }
        }
    }

    /// The peer says where its stream ends.
    pub(super) fn peer_ends(&mut self, index: usize, distance: u64, out: &mut Out<'_, '_>) {
        if self.receive.ended {
            // It has not heard that this was heard.
            return self.have(index, true, out);
        }
        // A stream ends once; what came before its end is here.
        if self.receive.end.is_some_and(|known| known != distance) || distance < self.receive.next {
            return out.count(Counter::BadOptions);
        }
        self.receive.end = Some(distance);
        self.reach_end(out);
        if self.receive.ended {
            self.have(index, true, out);
            self.end_if_over(out);
        }
    }

    fn reach_end(&mut self, out: &mut Out<'_, '_>) {
        if self.receive.end == Some(self.receive.next) && !self.receive.ended {
            self.receive.ended = true;
            out.event(self.flow, StreamEvent::HalfClosed);
        }
    }
}
