//! Sending: the variables of RFC 9293, and what belongs to them.

use crate::position::Space;
use weft_core::Instant;

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
}
weft_core::fields!(struct Sender {
    space, una, next, window, window_max, window_seq, scale, peer_mss, urgent, small, fin_wanted, fin_sent, credit, buffer, more, pushed, tail, last_data, below,
    below_blocked,
});
