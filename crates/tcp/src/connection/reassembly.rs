//! Data that arrived ahead of a gap.

use super::ranges::Ranges;
use std::collections::BTreeMap;
use weft_core::frame::Tail;
use weft_core::{Bytes, Frame};

/// What an entry costs beside its bytes: keeps a peer that sends single bytes from making us keep a thousand times as much.
const ENTRY_BYTES: u64 = 320;

/// The reassembly queue: disjoint pieces by their position.
#[derive(Debug, Default)]
pub(crate) struct Reassembly {
    pieces: BTreeMap<u64, (Bytes, u64)>,
    pub(crate) ranges: Ranges,
    bytes: u64,
    /// Position of the FIN, if it has come.
    pub(crate) fin: Option<u64>,
}

impl Reassembly {
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.fin.is_none()
    }
    /// Payload bytes held.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
    /// Memory held, by estimate.
    pub(crate) fn cost(&self) -> u64 {
        self.bytes + (self.pieces.len() as u64 + u64::from(self.fin.is_some())) * ENTRY_BYTES
    }
    /// A FIN behind `at`, which counts as one number (RFC 9293 §3.4). Returns the range that it belongs to now.
    pub(crate) fn keep_fin(&mut self, at: u64) -> (u64, u64) {
        self.fin = Some(at);
        self.ranges.add(at, at + 1)
    }
    /// What of `start..end` is there already: the first stretch of it.
    pub(crate) fn known(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        self.ranges.overlap(start, end)
    }
    /// Keeps what of a frame is not there yet. Returns the range that it belongs to now.
    pub(crate) fn insert(&mut self, start: u64, frame: &Frame) -> (u64, u64) {
        let end = start + frame.len() as u64;
        let mut at = start;
        while let Some((from, to)) = self.ranges.gap(at, end) {
            let mut position = from;
            for slice in frame.slices((from - start) as usize, (to - from) as usize) {
                let next = position + slice.len() as u64;
                self.bytes += slice.len() as u64;
                self.pieces.insert(position, (slice, next));
                position = next;
            }
            at = to;
        }
        self.ranges.add(start, end)
    }
    /// Takes out everything that follows `next` without a gap. Pieces that lie before it are cut or thrown away.
    pub(crate) fn take(&mut self, next: &mut u64) -> Tail {
        let mut out = Tail::new();
        while let Some(entry) = self.pieces.first_entry() {
            if *entry.key() > *next {
                break;
            }
            let start = *entry.key();
            let (mut bytes, end) = entry.remove();
            self.bytes -= bytes.len() as u64;
            if end <= *next {
                continue;
            }
            let known = (*next - start) as usize;
            out.push(bytes.split_off(known));
            *next = end;
        }
        self.ranges.remove_until(*next);
        // tcp_ofo_queue drops what was passed: data came behind it, against the rules.
        self.fin = self.fin.filter(|at| at >= next);
        out
    }
    /// What there is, by position.
    pub(super) fn pieces(&self) -> &BTreeMap<u64, (Bytes, u64)> {
        &self.pieces
    }
    /// Puts a piece behind the others. False: it overlaps the last.
    pub(super) fn restore(&mut self, start: u64, bytes: Bytes) -> bool {
        let end = start + bytes.len() as u64;
        if self.pieces.last_key_value().is_some_and(|(_, (_, last))| *last > start) {
            return false;
        }
        self.bytes += bytes.len() as u64;
        self.pieces.insert(start, (bytes, end));
        self.ranges.add(start, end);
        true
    }
    /// Throws the last range away: memory is needed for what comes first (tcp_prune_ofo_queue).
    pub(crate) fn clear(&mut self) {
        *self = Reassembly::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_order_of_overlapping_pieces_gives_the_stream() {
        let stream: Vec<u8> = (0..5000u32).map(|at| (at % 251) as u8).collect();
        for seed in 0..20 {
            let mut rng = weft_core::Rng::for_name(seed, "reassembly");
            let mut queue = Reassembly::default();
            let (mut next, mut out) = (0u64, Vec::new());
            while out.len() < stream.len() {
                let start = (rng.below(stream.len() as u64)) as usize;
                let end = (start + 1 + rng.below(400) as usize).min(stream.len());
                let start = (start as u64).max(next) as usize;
                if start < end {
                    queue.insert(start as u64, &Frame::ingress(&stream[start..end]));
                }
                out.extend(queue.take(&mut next).concat());
                assert_eq!(next as usize, out.len());
            }
            assert_eq!(out, stream);
            assert_eq!((queue.bytes(), queue.ranges.is_empty()), (0, true));
        }
    }
}
