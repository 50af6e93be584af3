//! What is left of a connection that has ended.

use weft_core::Instant;
use weft_wire::tcp::Seq;

/// What is left of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finished {
    /// It lives.
    No,
    /// Nothing is left.
    Closed,
    /// TIME-WAIT: the block keeps a record.
    TimeWait(TimeWait),
}

/// What TIME-WAIT has to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeWait {
    /// SND.NXT
    pub send_next: Seq,
    /// RCV.NXT
    pub receive_next: Seq,
    /// Window announced last, as on the wire.
    pub window: u16,
    /// The same in bytes.
    pub window_bytes: u32,
    /// TS.Recent, when timestamps are in use.
    pub timestamp: Option<u32>,
    /// When it was heard.
    pub timestamp_at: Instant,
    /// Offset of our timestamps.
    pub timestamp_offset: u32,
    /// DSCP of answers.
    pub tos: u8,
    /// TTL of answers.
    pub ttl: u8,
    /// SO_MARK.
    pub mark: u32,
}
