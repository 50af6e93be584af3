//! The receiving side's variables: what has come, in order and not.

use crate::counters::Counter;
use crate::out::Out;
use std::collections::BTreeMap;
use weft_core::{Bytes, Duration, Instant};

/// Room for what the peer may send more in a round trip: "16 * tp->advmss".
const TUNE_BYTES: u64 = 16 * 1460;

/// What a program is thought to take in the first round trip: an initial window ("TCP_INIT_CWND * TCP_MSS_DEFAULT" of mptcp_rcv_space_init, of our size).
const INITIAL_SPACE_BYTES: u64 = 10 * 1460;

/// What may be out of order before anything is known of the subflows' buffers, bytes.
const BUFFER_MIN: u64 = 1 << 16;

/// A subflow's window never shrinks, and is rounded up to its scale where it would (tcp_select_window): the peer may send so much more.
const ROUNDING_BYTES: u64 = (1 << 14) - 1;

/// What a piece that waits is taken to cost, however short it is; and pieces that may always wait.
const PIECE_BYTES: u64 = 256;
const PIECES_MIN: u64 = 64;

/// Variables of the receiving side. Distances.
#[derive(Debug, Default)]
pub struct Receiver {
    /// The next that sockets get.
    pub next: u64,
    /// The program has taken everything before this.
    pub taken: u64,
    /// The peer may send up to here.
    pub edge: u64,
    /// The window that the connection began with, and by how much the data of the subflow that carried most has opened it, bytes.
    pub first: u64,
    pub opened: u64,
    /// Bytes that may wait here or at the program, and what they may become.
    pub buffer: u64,
    pub buffer_max: u64,
    /// What the program had taken, and when: a round trip ago.
    pub mark: Option<(Instant, u64)>,
    /// What it took in the round trip in which it took most.
    pub space: u64,
    /// Out of order, by where it begins; no two overlap.
    waiting: BTreeMap<u64, Bytes>,
    /// Where the peer's stream ends, and that this has been reached.
    pub end: Option<u64>,
    pub ended: bool,
    /// The program reads no more.
    pub refuses: bool,
}
weft_core::fields!(struct Receiver { next, taken, edge, first, opened, buffer, buffer_max, mark, space, waiting, end, ended, refuses });

impl Receiver {
    /// DATA_ACK: DATA_FIN counts one.
    pub(super) fn acknowledges(&self) -> u64 {
        self.next + u64::from(self.ended)
    }

    /// A subflow says how large windows are and may become. Returns whether the connection's has opened.
    pub(super) fn widen(&mut self, buffer: u64, buffer_max: u64) -> bool {
        self.buffer_max = self.buffer_max.max(buffer_max);
        // The first subflow's at first (Linux: mptcp_rcv_space_init).
        if self.buffer == 0 {
            self.buffer = buffer;
            self.first = buffer;
        }
        self.open()
    }

    /// Dynamic right-sizing, as tcp does it for one connection (mptcp_rcv_space_adjust): once a round trip of the slowest subflow, the buffer becomes twice
    /// what the program took in it, and more while that grows.
    /// Returns whether it has grown.
    pub(super) fn tune(&mut self, now: Instant, rtt: Duration) -> bool {
        let (at, taken_then) = *self.mark.get_or_insert((now, 0));
        if now - at < rtt {
            return false;
        }
        let taken = self.taken - taken_then;
        self.mark = Some((now, self.taken));
        if taken <= self.space {
            return false;
        }
        let before = self.space.max(INITIAL_SPACE_BYTES);
        self.space = taken;
        let wanted = 2 * taken + TUNE_BYTES;
        let growing = 2 * (u128::from(wanted) * u128::from(taken.saturating_sub(before)) / u128::from(before));
        let wanted = wanted.saturating_add(u64::try_from(growing).unwrap_or(u64::MAX));
        let buffer = self.buffer.max(wanted.min(self.buffer_max));
        std::mem::replace(&mut self.buffer, buffer) != buffer
    }

    /// The window opens with the data that comes, as a subflow's does (tcp_grow_window); the peer hears of that which has opened most (mptcp_set_rwin).
    pub(super) fn grow(&mut self, opened: &mut u64, length: u64, mss: u64) {
        if 2 * length >= mss {
            *opened = (*opened + 2 * length.max(mss)).min(self.buffer.saturating_sub(self.first));
            self.opened = self.opened.max(*opened);
        }
    }

    pub(super) fn open(&mut self) -> bool {
        let window = self.next + self.first + self.opened;
        let edge = self.edge.max((self.taken + self.buffer).min(window));
        std::mem::replace(&mut self.edge, edge) != edge
    }

    /// Takes a piece; gives back what of it is next.
    pub(super) fn take(&mut self, mut at: u64, mut bytes: Bytes, out: &mut Out<'_, '_>) -> Option<Bytes> {
        let Some(end) = at.checked_add(bytes.len() as u64) else {
            out.count(Counter::NoDSSInWindow);
            return None;
        };
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
        // The window of a subflow on which nothing comes does not shrink while the others carry data: with a later DATA_ACK it promises as much as it did
        // with an earlier one, which was the buffer at most. Linux takes what it has promised, too (msk->rcv_wnd_sent). No two pieces that wait overlap:
        // there is never more of them than this, and not so many that holding them costs far more.
        let edge = (self.edge.max(self.next + self.buffer) + ROUNDING_BYTES).max(self.next + BUFFER_MIN);
        if end > edge || self.waiting.len() as u64 >= PIECES_MIN + (edge - self.next) / PIECE_BYTES {
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
            self.waiting.insert(at, piece);
            at += gap;
        }
    }

    /// What waited and is next now.
    pub(super) fn next_waiting(&mut self) -> Option<Bytes> {
        loop {
            let entry = self.waiting.first_entry().filter(|entry| *entry.key() <= self.next)?;
            let (at, mut bytes) = entry.remove_entry();
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
