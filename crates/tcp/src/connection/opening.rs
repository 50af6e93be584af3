//! Opening: SYN and SYN|ACK, and what both sides agreed on.

use super::fast_open::FastOpen;
use weft_core::Instant;

/// What the handshake agreed on.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Agreed {
    pub sack: bool,
    pub timestamps: bool,
    pub scaling: bool,
    pub ecn: bool,
}
weft_core::fields!(struct Agreed { sack, timestamps, scaling, ecn });

/// What belongs to the handshake.
#[derive(Debug)]
pub(super) struct Opening {
    pub agreed: Agreed,
    /// Added to the clock in timestamps.
    pub timestamp_offset: u32,
    /// When our SYN or SYN|ACK was sent.
    pub sent_at: Instant,
    /// That is known, so that the handshake gives a round-trip time.
    pub measured: bool,
    /// How often it was sent again.
    pub retransmitted: u32,
    pub fast_open: FastOpen,
    /// Our SYN asked for ECN.
    pub ecn_asked: bool,
}

impl Opening {
    /// Nothing is agreed on.
    pub(super) fn new(timestamp_offset: u32, now: Instant) -> Opening {
        Opening {
            agreed: Agreed::default(),
            timestamp_offset,
            sent_at: now,
            measured: true,
            retransmitted: 0,
            fast_open: FastOpen::default(),
            ecn_asked: false,
        }
    }
}
