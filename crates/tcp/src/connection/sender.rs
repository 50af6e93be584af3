//! Sending: the variables of RFC 9293, and what belongs to them.

use super::delivery::Delivery;
use super::marks::Marks;
use super::outstanding::Outstanding;
use super::send_queue::SendQueue;
use crate::position::{START, Space};
use weft_core::Instant;
use weft_wire::tcp::Seq;

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
        }
    }
}
