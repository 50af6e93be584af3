//! Urgent data as RFC 6093 leaves it: a mark in the stream that the sockets are told of; the data stays in line.

use super::Connection;
use crate::counters::Counter;
use crate::outbox::Env;
use weft_core::StreamEvent;
use weft_wire::tcp::{Flags, Segment};

impl Connection {
    /// RFC 9293 §3.10.7.4, sixth: "If the URG bit is set, RCV.UP <- max(RCV.UP,SEG.UP), and signal the user that the remote side has urgent
    /// data if the urgent pointer (RCV.UP) is in advance of the data consumed."
    pub(super) fn take_urgent(&mut self, env: &mut Env<'_>, segment: &Segment, start: u64) {
        if !segment.flags.contains(Flags::URG) || self.state.peer_closed() || segment.urgent == 0 {
            return;
        }
        // RFC 6093 §4: what is sent in practice points behind the urgent byte.
        let at = start + u64::from(segment.urgent) - 1;
        if at < self.receive.next || self.receive.urgent.is_some_and(|known| at <= known) {
            return;
        }
        env.count(Counter::TCPUrgentReceived);
        self.receive.urgent = Some(at);
        let ahead = (at - self.receive.next) as u32;
        self.event(env, StreamEvent::Urgent { ahead });
    }
}
