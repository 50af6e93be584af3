//! Receiving: data of subflows, put into order, and what the peer is told of it.

use super::{Connection, Stage};
use crate::counters::Counter;
use crate::out::Out;
use crate::subflow::is_right;
use crate::word::{Down, Say};
use weft_core::{Advice, Bytes, DataFlags, StreamEvent, StreamMessage};
use weft_wire::tcp::mptcp::reset_reason;

impl Connection {
    /// Data of a subflow, in its order.
    pub(crate) fn data_up(&mut self, index: usize, bytes: Bytes, flags: DataFlags, mapping: u64, out: &mut Out<'_, '_>) {
        if self.fallen_back {
            if self.paths[index].flow == self.flow {
                out.up(StreamMessage::Data { flow: self.flow, bytes, flags, mapping: 0 });
            }
            return;
        }
        let length = bytes.len() as u64;
        out.uses(self.paths[index].local.ip(), length);
        self.wakes(out);
        let at = self.paths[index].received.wrapping_add(mapping);
        let path = &mut self.paths[index];
        path.received += length;
        self.receive.grow(&mut path.opened_bytes, length, path.room.mss_bytes.into());
        if self.checksum {
            self.check(index, at, bytes, flags, out);
        } else {
            self.put(at, bytes, flags, out);
        }
        let now = self.receive.ended;
        self.receive.open();
        self.have(index, now, out);
        // The subflow's own buffer is free again: what waits is the connection's.
        let flow = self.paths[index].flow;
        out.down(StreamMessage::Credit { flow, bytes: u32::try_from(length).unwrap_or(u32::MAX), enough: 0 });
        self.end_if_over(out);
    }

    /// Data takes its place.
    fn put(&mut self, at: u64, bytes: Bytes, flags: DataFlags, out: &mut Out<'_, '_>) {
        let Some(bytes) = self.receive.take(at, bytes, out) else { return };
        self.deliver(bytes, flags, out);
        while let Some(bytes) = self.receive.next_waiting() {
            out.count(Counter::OFOMerge);
            self.deliver(bytes, flags, out);
        }
        self.reach_end(out);
    }

    /// Data waits until all of its mapping is here, and its checksum is right (RFC 8684 §3.3.1).
    fn check(&mut self, index: usize, at: u64, bytes: Bytes, flags: DataFlags, out: &mut Out<'_, '_>) {
        let path = &mut self.paths[index];
        let first_at = at.wrapping_sub(path.held.iter().map(|bytes| bytes.len() as u64).sum());
        path.held.push_back(bytes);
        let held: u64 = path.held.iter().map(|bytes| bytes.len() as u64).sum();
        let first = path.received - held;
        while path.summed.front().is_some_and(|(offset, bytes, _)| offset + u64::from(*bytes) <= first) {
            path.summed.pop_front();
        }
        let Some((offset, bytes, sum)) = path.summed.front().copied().filter(|(offset, ..)| *offset <= first) else {
            // Nobody has said what it comes to: the extension falls back for data without a mapping, or resets.
            let held = std::mem::take(&mut path.held);
            let mut at = first_at;
            for bytes in held {
                let length = bytes.len() as u64;
                self.put(at, bytes, flags, out);
                at = at.wrapping_add(length);
            }
            return;
        };
        // A part that was here before the block was is not summed again: the whole of it is wanted.
        if first + held < offset + u64::from(bytes) {
            return;
        }
        let held = std::mem::take(&mut path.held);
        path.summed.pop_front();
        let data = held.iter().fold(weft_wire::checksum::Sum::default(), |sum, bytes| sum.add_bytes(bytes)).fold();
        let seq = self.remote.map_or(0_u64, |remote| self.early.remote_first(remote)).wrapping_add(first_at);
        let early = if self.paths[index].joined { 0 } else { self.early.received };
        let subflow_seq = (offset as u32).wrapping_add(1).wrapping_sub(early);
        if offset == first && !is_right(seq, subflow_seq, bytes as u16, data, sum) {
            out.count(Counter::DataCsumErr);
            if self.checksum_is_wrong(index, first_at, out) {
                return;
            }
        }
        let mut at = first_at;
        for bytes in held {
            let length = bytes.len() as u64;
            self.put(at, bytes, flags, out);
            at = at.wrapping_add(length);
        }
    }

    /// A box on the way changes the data. With one subflow the connection becomes plain TCP, and the program gets what has come; with several the subflow
    /// goes, and the data comes again by another. Returns whether the data is dropped.
    fn checksum_is_wrong(&mut self, index: usize, at: u64, out: &mut Out<'_, '_>) -> bool {
        out.word(self.paths[index].flow, &Down::Say(Say::Fail(at)));
        let alone = self.paths.iter().filter(|path| !path.released && !path.closed).count() <= 1 && !self.firm;
        if alone {
            out.count(Counter::DSSCorruptionFallback);
            return false;
        }
        out.count(Counter::DSSCorruptionReset);
        self.drop_path(index, reset_reason::MIDDLEBOX, out);
        true
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
        let rtt = self.paths.iter().filter(|path| path.may_send()).filter_map(|path| path.room.receive_rtt.or(path.room.rtt)).max();
        if self.receive.tune(out.now(), rtt.unwrap_or_default()) {
            let window = u32::try_from(self.receive.buffer).unwrap_or(u32::MAX);
            for path in self.paths.iter().filter(|path| path.may_send()) {
                out.down(StreamMessage::Advice { flow: path.flow, advice: Box::new(Advice::ReceiveWindow(window)) });
            }
        }
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
