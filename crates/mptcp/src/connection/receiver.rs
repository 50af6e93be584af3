//! The receiving side's variables: what has come, in order and not.

use crate::counters::Counter;
use crate::out::Out;
use std::collections::BTreeMap;
use weft_core::Bytes;

/// What may be out of order before anything is known of the subflows' buffers, bytes.
const BUFFER_MIN: u64 = 1 << 16;

/// Variables of the receiving side. Distances.
#[derive(Debug, Default)]
pub struct Receiver {
    /// The next that sockets get.
    pub next: u64,
    /// The program has taken everything before this.
    pub taken: u64,
    /// The peer may send up to here.
    pub edge: u64,
    /// Bytes that may wait here or at the program.
    pub buffer: u64,
    /// Out of order, by where it begins; no two overlap.
    waiting: BTreeMap<u64, Bytes>,
    waiting_bytes: u64,
    /// Where the peer's stream ends, and that this has been reached.
    pub end: Option<u64>,
    pub ended: bool,
    /// The program reads no more.
    pub refuses: bool,
}
weft_core::fields!(struct Receiver { next, taken, edge, buffer, waiting, waiting_bytes, end, ended, refuses });

impl Receiver {
    /// DATA_ACK: DATA_FIN counts one.
    pub(super) fn acknowledges(&self) -> u64 {
        self.next + u64::from(self.ended)
    }

    /// The buffer is as large as the subflows' together. Returns whether the window has opened.
    pub(super) fn widen(&mut self, buffer: u64) -> bool {
        self.buffer = self.buffer.max(buffer);
        self.open()
    }

    pub(super) fn open(&mut self) -> bool {
        let edge = self.edge.max(self.taken + self.buffer);
        std::mem::replace(&mut self.edge, edge) != edge
    }

    /// Takes a piece; gives back what of it is next.
    pub(super) fn take(&mut self, mut at: u64, mut bytes: Bytes, out: &mut Out<'_, '_>) -> Option<Bytes> {
        let end = at.checked_add(bytes.len() as u64)?;
        if self.ended || end <= self.next {
            out.count(Counter::DuplicateData);
            return None;
        }
        if at < self.next {
            out.count(Counter::DuplicateData);
            bytes = bytes.split_off((self.next - at) as usize);
            at = self.next;
        }
        if at == self.next {
            self.next = end;
            return Some(bytes);
        }
        let room = self.buffer.max(BUFFER_MIN);
        if end > self.edge.max(self.next + BUFFER_MIN) || self.waiting_bytes + bytes.len() as u64 > room {
            out.count(Counter::NoDSSInWindow);
            return None;
        }
        self.keep(at, bytes, out);
        None
    }

    /// Keeps what is out of order: those parts of it that are not here.
    fn keep(&mut self, mut at: u64, mut bytes: Bytes, out: &mut Out<'_, '_>) {
        let newest = self.waiting.last_key_value().is_none_or(|(start, held)| start + held.len() as u64 <= at);
        out.count(if newest { Counter::OFOQueueTail } else { Counter::OFOQueue });
        while !bytes.is_empty() {
            let before = self.waiting.range(..=at).next_back().map(|(start, held)| start + held.len() as u64).filter(|end| *end > at);
            if let Some(known) = before {
                out.count(Counter::DuplicateData);
                let skip = (known - at).min(bytes.len() as u64);
                bytes = bytes.split_off(skip as usize);
                at += skip;
                continue;
            }
            let gap = self.waiting.range(at..).next().map_or(bytes.len() as u64, |(start, _)| start - at).min(bytes.len() as u64);
            let piece = bytes.split_to(gap as usize);
            self.waiting_bytes += gap;
            self.waiting.insert(at, piece);
            at += gap;
        }
    }

    /// What waited and is next now.
    pub(super) fn next_waiting(&mut self) -> Option<Bytes> {
        loop {
            let entry = self.waiting.first_entry().filter(|entry| *entry.key() <= self.next)?;
            let (at, mut bytes) = entry.remove_entry();
            self.waiting_bytes -= bytes.len() as u64;
            // What came in order may have reached into it.
            let known = self.next - at;
            if known < bytes.len() as u64 {
                let bytes = bytes.split_off(known as usize);
                self.next += bytes.len() as u64;
                return Some(bytes);
            }
        }
    }

    pub(super) fn has_gap(&self) -> bool {
        !self.waiting.is_empty()
    }
}
