//! Sending: the variables of RFC 9293, what was handed down and what was sent, and the window of the peer.
//!
//! It knows what may be sent by the peer and by the program, and what becomes of what is; how much the network takes is [`Control`](super::control)'s
//! and [`Recovery`](super::recovery)'s to say. Its methods for the write queue stand in `write_queue.rs`.

use super::bounds::SCALE_MAX;
use super::delivery::Delivery;
use super::marks::Marks;
use super::outstanding::{Outstanding, Sent};
use super::send_queue::SendQueue;
use crate::position::{START, Space};
use weft_core::Instant;
use weft_wire::tcp::{Flags, Segment, Seq};

/// Sender's variables of RFC 9293 §3.3.1 and what belongs to them.
#[derive(Debug)]
pub(super) struct Sender {
    pub space: Space,
    /// SND.UNA
    pub una: u64,
    /// SND.NXT
    pub next: u64,
    /// SND.WND, bytes, scaled.
    pub window: u32,
    /// Largest window the peer ever announced (RFC 9293 §3.8.6.2.1, Max(SND.WND)).
    pub window_max: u32,
    /// SND.WL1, position.
    pub window_seq: u64,
    /// Shift of the peer's window.
    pub scale: u8,
    /// MSS that the peer announced.
    pub peer_mss: u32,
    /// SND.UP: position after the urgent byte.
    pub urgent: u64,
    /// Position after the last partial segment (Minshall's variant of Nagle).
    pub small: u64,
    /// FIN is to follow the queue.
    pub fin_wanted: bool,
    /// FIN has a number.
    pub fin_sent: bool,
    /// Bytes that the sockets may still hand down.
    pub credit: u64,
    /// Send buffer, bytes.
    pub buffer: u32,
    /// The write that is being dealt with said that more follows.
    pub more: bool,
    /// Where the last write ended that did not say so (pushed_seq).
    pub pushed: u64,
    /// Where the buffer begins that writes are put into (the last skb of the write queue).
    pub tail: u64,
    /// Last transmission of data.
    pub last_data: Instant,
    /// Bytes below that did not leave yet.
    pub below: u64,
    /// Waits for them.
    pub below_blocked: bool,
    /// What was handed down and is not acknowledged.
    pub queue: SendQueue,
    /// What was sent and is not acknowledged.
    pub outstanding: Outstanding,
    /// What programs have marked in it.
    pub marks: Marks,
    /// Payload bytes of a full segment without SACK blocks.
    pub mss: u32,
    pub delivery: Delivery,
    /// Probes of the window that were not answered, and since when it is probed.
    pub probes_unanswered: u32,
    pub probing_since: Option<Instant>,
    /// The program has filled a buffer above this one, and waits for room.
    pub writer_waits: bool,
}

impl Sender {
    /// Nothing was sent but the SYN.
    pub(super) fn new(initial: Seq, buffer: u32, mss: u32, now: Instant) -> Sender {
        Sender {
            space: Space { initial },
            una: START,
            next: START + 1,
            window: 0,
            window_max: 0,
            window_seq: START,
            scale: 0,
            peer_mss: 0,
            urgent: START,
            small: START,
            fin_wanted: false,
            fin_sent: false,
            credit: 0,
            buffer,
            more: false,
            pushed: START,
            tail: START,
            last_data: now,
            below: 0,
            below_blocked: false,
            queue: SendQueue::new(START + 1),
            outstanding: Outstanding::default(),
            marks: Marks::default(),
            mss,
            delivery: Delivery::default(),
            probes_unanswered: 0,
            probing_since: None,
            writer_waits: false,
        }
    }

    /// The program has filled the buffer (SOCK_NOSPACE).
    pub(super) fn waits_for_room(&self) -> bool {
        self.credit == 0 || self.writer_waits
    }

    /// Bytes that the peer's window still takes.
    pub(super) fn window_room(&self) -> u32 {
        (self.una + u64::from(self.window)).saturating_sub(self.next) as u32
    }

    /// Does the next unsent segment fit the peer's window?
    pub(super) fn next_fits(&self) -> bool {
        let unsent = self.queue.end().saturating_sub(self.next).min(u64::from(self.mss)) as u32;
        let unsent = self.marks.within_record(self.next, unsent);
        self.window_room() >= unsent.max(u32::from(self.fin_wanted && !self.fin_sent && unsent == 0))
    }

    pub(super) fn unsent(&self) -> u64 {
        self.queue.end().saturating_sub(self.next)
    }

    /// What is measured until everything in flight is delivered is no rate of the path.
    pub(super) fn note_app_limited(&mut self) {
        self.delivery.app_limited = (self.delivery.bytes + u64::from(self.outstanding.in_flight())).max(1);
    }

    /// FIN is wanted and not sent.
    pub(super) fn fin_due(&self) -> bool {
        self.fin_wanted && !self.fin_sent
    }

    /// How many of these bytes may share a segment: one mapping, and one record (MSG_EOR). And the mapping.
    pub(super) fn mapped(&mut self, position: u64, length: u32) -> (u32, u64) {
        let (mapped, mapping) = self.queue.mapped(position, length);
        (self.marks.within_record(position, mapped), mapping)
    }

    /// Does a record end behind the next `length` bytes?
    pub(super) fn ends_record(&self, length: u32) -> bool {
        self.marks.within_record(self.next, length + 1) == length
    }

    /// tcp_urg_mode: urgent data is not acknowledged yet.
    pub(super) fn is_urgent(&self) -> bool {
        self.urgent > self.una
    }

    /// Did the program end a write here, without saying that more follows (tcp_mark_push)?
    pub(super) fn is_pushed(&self, end: u64) -> bool {
        end == self.queue.end() && end == self.pushed || self.marks.is_written_end(end)
    }

    /// The urgent pointer for a segment that begins at `start`, if it is to have one (tcp_transmit_skb).
    pub(super) fn urgent_pointer(&self, start: u64) -> Option<u16> {
        if self.urgent <= start.max(self.una) {
            return None;
        }
        let distance = self.urgent - start;
        Some(u16::try_from(distance).unwrap_or(u16::MAX))
    }

    /// tcp_rate_check_app_limited, as the program writes: it had left the connection without work, though there was room to send.
    pub(super) fn check_app_limited(&mut self, cwnd_bytes: u32) {
        let in_flight = self.outstanding.in_flight();
        let idle = self.unsent() < u64::from(self.mss) && self.below == 0 && in_flight < cwnd_bytes;
        if idle && self.outstanding.lost <= self.outstanding.retransmitted {
            self.note_app_limited();
        }
    }

    /// RFC 6675 §4, "pipe", bytes.
    pub(super) fn in_flight(&self) -> u32 {
        self.outstanding.in_flight()
    }

    /// SND.UNA as it is on the wire.
    pub(super) fn una_seq(&self) -> Seq {
        self.space.seq(self.una)
    }

    /// SND.NXT as it is on the wire.
    pub(super) fn next_seq(&self) -> Seq {
        self.space.seq(self.next)
    }

    /// `length` new bytes leave, and FIN with them or not: one entry a segment in the retransmission queue. Returns how many.
    #[inline]
    pub(super) fn note_new(&mut self, now: Instant, length: u32, fin: bool, mapping: u64) -> u32 {
        let start = self.next;
        if self.outstanding.is_empty() {
            self.delivery.first_sent_at = now;
            self.delivery.at = now;
        }
        let mut left = length + u32::from(fin);
        let (mut at, mut segments) = (start, 0);
        while left > 0 {
            // FIN makes the last one longer than a segment by one.
            let len = if fin && left == self.mss + 1 { left } else { left.min(self.mss) };
            left -= len;
            self.outstanding.push(Sent {
                start: at,
                len,
                sacked: false,
                lost: false,
                retransmitted: false,
                ever_retransmitted: false,
                fin: fin && left == 0,
                pushed: left == 0 && self.is_pushed(start + u64::from(length)),
                sent_at: now,
                mapping,
                delivered: self.delivery.bytes,
                delivered_at: self.delivery.at,
                first_sent_at: self.delivery.first_sent_at,
                app_limited: self.delivery.app_limited > 0,
            });
            at += u64::from(len);
            segments += 1;
        }
        self.next = at;
        self.fin_sent |= fin;
        self.last_data = now;
        if !length.is_multiple_of(self.mss.max(1)) {
            self.small = self.next;
        }
        segments
    }

    /// The segment that begins at `start` leaves again.
    pub(super) fn note_again(&mut self, now: Instant, start: u64) {
        let delivery = &self.delivery;
        let (bytes, at, first, app_limited) = (delivery.bytes, delivery.at, delivery.first_sent_at, delivery.app_limited > 0);
        self.outstanding.retransmit(start, |entry| {
            entry.sent_at = now;
            entry.delivered = bytes;
            entry.delivered_at = at;
            entry.first_sent_at = first;
            entry.app_limited = app_limited;
        });
    }

    /// RFC 9293 §3.10.7.4: "If SND.WL1 < SEG.SEQ or (SND.WL1 = SEG.SEQ and SND.WL2 =< SEG.ACK), set SND.WND <- SEG.WND". Returns whether that is another
    /// window, and whether it is larger than all before.
    pub(super) fn take_window(&mut self, segment: &Segment, start: u64, ack_at: u64) -> (bool, bool) {
        let scale = if segment.flags.contains(Flags::SYN) { 0 } else { self.scale.min(SCALE_MAX) };
        let window = u32::from(segment.window) << scale;
        let newer = ack_at > self.una || start > self.window_seq || (start == self.window_seq && (window > self.window || window == 0));
        if !newer {
            return (false, false);
        }
        self.window_seq = start;
        if window == self.window {
            return (false, false);
        }
        self.window = window;
        let largest = window > self.window_max;
        self.window_max = self.window_max.max(window);
        (true, largest)
    }

    /// Nagle (RFC 9293 §3.7.4) in Minshall's variant as Linux has it: is a piece of a segment to wait?
    pub(super) fn waits_as_small(&self) -> bool {
        // "If there is unacknowledged data (i.e., SND.NXT > SND.UNA), then the sending TCP endpoint buffers all user data … until the
        // outstanding data has been acknowledged or until the TCP endpoint can send a full-sized segment": here, while a *small* one is out.
        !self.outstanding.is_empty() && self.small > self.una
    }

    /// The largest frame of new data now, with `room` left by congestion control.
    pub(super) fn frame_bytes_max(&self, burst: u32, room: u32) -> u32 {
        let mss = self.mss.max(1);
        // tcp_write_xmit: "if (tso_segs > 1 && !tcp_urg_mode(tp)) limit = tcp_mss_split_point(…)".
        if self.is_urgent() {
            return mss;
        }
        // tcp_cwnd_test: "For better scheduling, ensure we have at least 2 GSO packets in flight."
        let half = self.in_flight().saturating_add(room) / mss / 2;
        burst.min(half.saturating_mul(mss)).max(mss)
    }
}

#[cfg(test)]
mod tests;
