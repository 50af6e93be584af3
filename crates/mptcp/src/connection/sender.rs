//! The sending side's variables: data from sockets, kept until the peer has it at the connection's level.

use std::collections::VecDeque;
use weft_core::{Bytes, DataFlags, FlowId, Instant};

/// Variables of the sending side. Distances.
#[derive(Debug, Default)]
pub struct Sender {
    /// Everything before this is acknowledged.
    pub una: u64,
    /// Handed to subflows up to here.
    pub next: u64,
    /// What sockets have handed down ends here.
    pub end: u64,
    /// The data, from `start` on, at or before `una`.
    queue: VecDeque<Bytes>,
    start: u64,
    /// Of the last piece.
    pub flags: (bool, bool),
    /// The peer takes data up to here.
    pub edge: u64,
    /// Bytes that may be unacknowledged, and how much credit sockets have had.
    pub buffer: u64,
    pub granted: u64,
    /// As tcp said it last ([`weft_core::StreamMessage::Credit`]).
    pub enough: u32,
    /// No more will follow; the peer is being told; it has heard.
    pub end_wanted: bool,
    pub end_said: bool,
    pub end_heard: bool,
    /// When the end is said again, and how often it was.
    pub again_at: Option<Instant>,
    pub again: u32,
    /// Data that is to go again: from, to, and the subflow that had it. In order, and no two overlap.
    pub lost: VecDeque<(u64, u64, Option<FlowId>)>,
    /// What held up the window went by a faster subflow, too, up to here.
    pub helped: u64,
    /// Since when nothing is left to be handed down, though the program may write more.
    pub quiet_since: Option<Instant>,
    /// When nothing will have been acknowledged for long, and how often that was so.
    pub stalled_at: Option<Instant>,
    pub stalls: u32,
    /// What the peer may have thrown away ends here.
    pub repairs_to: u64,
}
weft_core::fields!(struct Sender {
    una, next, end, queue, start, flags, edge, buffer, granted, enough, end_wanted, end_said, end_heard, again_at, again, lost, helped, quiet_since, stalled_at, stalls, repairs_to,
});

impl Sender {
    /// Adds data.
    pub(super) fn push(&mut self, bytes: Bytes, flags: DataFlags) {
        self.end += bytes.len() as u64;
        self.flags = (flags.more, flags.record_end);
        if !bytes.is_empty() {
            self.quiet_since = None;
            self.queue.push_back(bytes);
        }
    }

    /// The slices of some bytes from `from` on.
    pub(super) fn slices(&self, from: u64, bytes: u64) -> Vec<Bytes> {
        let (mut at, until) = (self.start, from + bytes);
        let mut out = Vec::new();
        for chunk in &self.queue {
            let end = at + chunk.len() as u64;
            if end > from && at < until {
                out.push(chunk.slice((from.saturating_sub(at)) as usize..(until.min(end) - at) as usize));
            }
            if end >= until {
                break;
            }
            at = end;
        }
        out
    }

    /// Lets go of what is before `una`.
    pub(super) fn release(&mut self) {
        while let Some(chunk) = self.queue.front() {
            let end = self.start + chunk.len() as u64;
            if end > self.una {
                break;
            }
            self.start = end;
            self.queue.pop_front();
        }
    }

    /// Data is to go again. What is to go again already stays as it is.
    pub(super) fn lose(&mut self, start: u64, end: u64, holder: Option<FlowId>) {
        let mut at = start;
        let mut place = self.lost.iter().position(|(_, until, _)| *until > start).unwrap_or(self.lost.len());
        while at < end {
            let next = self.lost.get(place).copied();
            let until = next.map_or(end, |(known, _, _)| known.clamp(at, end));
            if at < until {
                self.lost.insert(place, (at, until, holder));
                place += 1;
            }
            at = match next {
                Some((_, known_end, _)) => known_end.max(until),
                None => end,
            };
            place += 1;
        }
    }

    /// The next that is to go again.
    pub(super) fn first_lost(&mut self) -> Option<(u64, u64, Option<FlowId>)> {
        while let Some((start, end, holder)) = self.lost.front().copied() {
            if end > self.una {
                return Some((start.max(self.una), end, holder));
            }
            self.lost.pop_front();
        }
        None
    }

    /// It has gone, up to here.
    pub(super) fn found(&mut self, until: u64) {
        if let Some(front) = self.lost.front_mut() {
            front.0 = until;
            if front.0 >= front.1 {
                self.lost.pop_front();
            }
        }
    }

    /// Bytes that no subflow has yet.
    pub(super) fn unsent(&self) -> u64 {
        self.end - self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_again_goes_once() {
        let mut send = Sender { next: 100, end: 100, ..Sender::default() };
        send.lose(20, 40, None);
        send.lose(60, 70, None);
        send.lose(10, 80, Some(FlowId(1)));
        send.lose(0, 100, Some(FlowId(2)));
        let one = Some(FlowId(1));
        let two = Some(FlowId(2));
        assert_eq!(send.lost, [(0, 10, two), (10, 20, one), (20, 40, None), (40, 60, one), (60, 70, None), (70, 80, one), (80, 100, two)]);
        send.una = 30;
        assert_eq!(send.first_lost(), Some((30, 40, None)));
        send.found(35);
        assert_eq!(send.first_lost(), Some((35, 40, None)));
        send.found(40);
        assert_eq!(send.first_lost(), Some((40, 60, one)));
    }
}
