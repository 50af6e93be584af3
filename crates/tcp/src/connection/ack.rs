//! What one acknowledgment brings.

use super::delivery::RateSample;
use weft_core::Instant;

/// What one acknowledgment brought.
#[derive(Debug, Default)]
pub(super) struct Ack {
    /// SND.UNA before it.
    pub prior_una: u64,
    /// End of the highest segment that was SACKed before this acknowledgment; SND.UNA without one.
    pub prior_highest: u64,
    /// Pipe before it, bytes.
    pub prior_in_flight: u32,
    pub advanced: bool,
    /// Numbers that SND.UNA moved over and no SACK had reported, and newly sacked ones.
    pub acked: u32,
    pub sacked: u32,
    pub lost: u32,
    /// Segments delivered.
    pub segments: u32,
    /// It carries data, or moves the window: no duplicate (RFC 5681 §2).
    pub has_data: bool,
    pub window_moved: bool,
    /// Data that was never retransmitted was acknowledged or sacked.
    pub original: bool,
    /// … sacked, below SND.HIGH of F-RTO.
    pub original_sacked: bool,
    /// Retransmitted data was acknowledged.
    pub retransmitted: bool,
    /// DSACK: RFC 2883 §4.
    pub duplicate: bool,
    pub ece: bool,
    /// Lowest never-retransmitted segment that was delivered below the highest sacked: reordering.
    pub reordered_from: Option<u64>,
    pub first_sent: Option<Instant>,
    pub last_sent: Option<Instant>,
    pub first_sacked: Option<Instant>,
    pub last_sacked: Option<Instant>,
    pub rate: RateSample,
}

impl Ack {
    /// RFC 5681 §2: neither data nor progress nor a window update.
    pub(super) fn is_duplicate(&self) -> bool {
        !self.has_data && !self.window_moved && !self.advanced
    }

    /// One segment that was no full one: the peer may have waited for more (FLAG_ACK_MAYBE_DELAYED).
    pub(super) fn may_be_delayed(&self, mss: u32) -> bool {
        self.segments == 1 && self.sacked == 0 && self.acked < mss && !self.retransmitted
    }
}
