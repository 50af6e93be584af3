//! The sending side's variables: data from sockets, kept until the peer has it at the connection's level.

use std::collections::VecDeque;
use weft_core::{Bytes, DataFlags, Instant};

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
}
weft_core::fields!(struct Sender {
    una, next, end, queue, start, flags, edge, buffer, granted, enough, end_wanted, end_said, end_heard, again_at, again,
});

impl Sender {
    /// Adds data.
    pub(super) fn push(&mut self, bytes: Bytes, flags: DataFlags) {
        self.end += bytes.len() as u64;
        self.flags = (flags.more, flags.record_end);
        if !bytes.is_empty() {
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

    /// Bytes that no subflow has yet.
    pub(super) fn unsent(&self) -> u64 {
        self.end - self.next
    }
}
