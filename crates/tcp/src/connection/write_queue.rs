//! The buffers of the write queue, as Linux cuts it: how much a program may write now, and where its records end.

use super::sender::Sender;
use crate::counters::{Counter, Counters};
use weft_core::DataFlags;

/// sk_gso_max_size of a device without a limit of its own, less 1 and MAX_TCP_HEADER.
const BUFFER_BYTES_MAX: u32 = 65_536 - 1 - 320;
/// What a buffer of the write queue costs beside its bytes (truesize of an skb without data), bytes.
const BUFFER_OVERHEAD: u64 = 1280;
/// TCP_MSS_DEFAULT
const MSS_DEFAULT: u32 = 536;

impl Sender {
    /// Bytes that one buffer of the write queue takes (tcp_send_mss, tcp_xmit_size_goal).
    pub(super) fn write_goal(&self) -> u64 {
        let largest = self.window_max;
        let half = if largest > MSS_DEFAULT { largest / 2 } else { largest };
        let most = if half > 0 { BUFFER_BYTES_MAX.min(half) } else { BUFFER_BYTES_MAX };
        let mss = self.mss.max(1);
        u64::from((most - most % mss).max(mss))
    }

    /// How much of the last buffer is filled with what was not sent.
    pub(super) fn tail_bytes(&self) -> u64 {
        self.queue.end() - self.tail.max(self.next).min(self.queue.end())
    }

    /// A write has added `length` bytes, of which both windows let out `leaves_at_once`: in which buffer does the queue end?
    pub(super) fn note_written(&mut self, length: u64, leaves_at_once: u64) {
        let goal = self.write_goal();
        if self.unsent() == length {
            self.tail = self.next;
        }
        // What leaves on the way makes room in the buffer that it leaves.
        let leaves = leaves_at_once.min(goal);
        while self.tail_bytes() > goal + leaves {
            self.tail = self.tail.max(self.next) + goal;
        }
    }

    /// What one write may add now (tcp_sendmsg_locked). A buffer that was begun is filled; "if (!sk_stream_memory_free(sk)) goto wait_for_space;" is
    /// asked before a new one is begun, only.
    pub(super) fn write_room(&self, low_water: u32, leaves_at_once: u64) -> u64 {
        let goal = self.write_goal();
        let (unsent, low_water) = (self.unsent(), u64::from(low_water));
        let mut room = if unsent == 0 { 0 } else { goal.saturating_sub(self.tail_bytes()) };
        // SKB_TRUESIZE: what each costs beside its bytes. What was sent lies in buffers of about two segments.
        let mut used = self.queue.len() + room + BUFFER_OVERHEAD * (self.outstanding.len() as u64 / 2 + self.unsent().div_ceil(goal));
        while used < u64::from(self.buffer) && unsent + room < low_water {
            room += goal;
            used += goal + BUFFER_OVERHEAD;
        }
        if room > 0 {
            // What the write lets out on its way makes room in the last one.
            room += leaves_at_once.min(unsent + room).min(goal);
        }
        room
    }

    /// How much more than what is unsent may be written: none while there is so much; less than a segment is not worth the while.
    pub(super) fn allowed_unsent(&self, low_water: u32) -> u64 {
        match u64::from(low_water).saturating_sub(self.unsent() + self.credit) {
            0 => 0,
            some => some.max(u64::from(self.mss)),
        }
    }

    /// What is in the last buffer of the write queue, if a record ends there, gets no more (tcp_skb_can_collapse_to). Before a write is queued.
    pub(super) fn close_record(&mut self) {
        if self.marks.ends_at(self.queue.end()) {
            self.tail = self.queue.end();
        }
    }

    /// A write has been queued: it may end a record, and its last byte may be waited for (tcp_tx_timestamp).
    pub(super) fn mark(&mut self, counters: &mut Counters, flags: DataFlags) {
        let end = self.queue.end();
        let buffer = self.tail.max(self.next);
        if flags.stamps.any() && !self.marks.stamp(end.saturating_sub(1), buffer, flags.stamps) {
            counters.add(Counter::TCPStampsLost, 1);
        }
        if flags.record_end && !self.marks.end_record(end, flags.more) {
            counters.add(Counter::TCPRecordEndsLost, 1);
        }
    }
}
