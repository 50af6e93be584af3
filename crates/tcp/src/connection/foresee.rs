//! What a connection will make of segments that have not come yet, where that is sure: the next data in order, and nothing special about it.
//!
//! For worlds in which it is known what will arrive.

use super::{Connection, State};
use crate::position::Space;
use weft_core::FlowId;
use weft_wire::tcp::{Flags, Segment};

/// What is next in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    /// RCV.NXT
    pub next: u64,
    /// Bytes that the window has room for.
    pub room: u64,
    /// With timestamps: the last.
    pub timestamp: Option<u32>,
}

impl Expected {
    /// Header prediction: is this the next data in order, or an acknowledgment, and nothing special about it?
    pub fn is_met_by(&self, segment: &Segment, start: u64, length: u64) -> bool {
        let plain = segment.flags & !Flags::PSH == Flags::ACK && start == self.next;
        if !plain || !segment.options.sack.is_empty() || segment.options.has_others() {
            return false;
        }
        let in_time = match (segment.options.timestamps, self.timestamp) {
            (Some(stamp), Some(last)) => stamp.value.wrapping_sub(last) as i32 >= 0,
            (None, agreed) => agreed.is_none(),
            (Some(_), None) => false,
        };
        in_time && length <= self.room
    }
}

/// A connection as it will be when segments have come of which [`Foresight::takes`] was asked.
#[derive(Clone, Debug)]
pub struct Foresight {
    flow: FlowId,
    receive: Space,
    send: Space,
    expected: Expected,
    /// SND.UNA and SND.NXT: what may be acknowledged.
    sent: (u64, u64),
    /// Least TTL and hop limit of what is taken.
    hop_limits: (u8, u8),
}

impl Foresight {
    /// The flow between sockets and the connection.
    pub fn flow(&self) -> FlowId {
        self.flow
    }

    /// A segment with so many bytes of payload, and this TTL or hop limit, comes next: will all of it, and nothing else, be handed to the socket at
    /// once? False: that is not sure, nor is anything after it.
    pub fn takes(&mut self, segment: &Segment, payload_bytes: u32, hop_limit: u8) -> bool {
        let start = self.receive.position(self.expected.next, segment.seq);
        let acknowledges = self.send.position(self.sent.0, segment.ack);
        let from_near = hop_limit >= self.hop_limits.0.max(self.hop_limits.1);
        if !from_near
            || acknowledges < self.sent.0
            || acknowledges > self.sent.1
            || !self.expected.is_met_by(segment, start, payload_bytes.into())
        {
            return false;
        }
        self.expected.next += u64::from(payload_bytes);
        self.expected.room -= u64::from(payload_bytes);
        self.expected.timestamp = segment.options.timestamps.map(|stamp| stamp.value);
        true
    }
}

impl Connection {
    pub(super) fn expected(&self) -> Expected {
        Expected {
            next: self.receive.next,
            room: self.receive.window_left().into(),
            timestamp: self.opening.agreed.timestamps.then_some(self.receive.timestamp),
        }
    }

    /// What it will do with what comes next. None: nothing is sure.
    pub(crate) fn foresight(&self) -> Option<Foresight> {
        let whole = self.receive.queue.is_empty() && self.receive.urgent.is_none() && !self.read_closed && !self.orphan && !self.failed;
        let sure = self.state == State::Established && whole && self.extension.is_plain() && self.options.filter.is_none();
        sure.then(|| Foresight {
            flow: self.flow,
            receive: self.receive.space,
            send: self.send.space,
            expected: self.expected(),
            sent: (self.send.una, self.send.next),
            hop_limits: (self.options.min_ttl, self.options.min_hop_count),
        })
    }
}
