//! Loss recovery: what is known of the present episode.

use super::rack::Rack;
use crate::congestion::Phase;
use crate::position::START;
use crate::prr::Prr;
use crate::rtt::{RtoBounds, RttEstimator};
use weft_core::Instant;

/// Loss recovery.
#[derive(Debug)]
pub(super) struct Recovery {
    pub phase: Phase,
    /// Recovery ends when this is acknowledged.
    pub high: u64,
    /// Duplicate acknowledgments without SACK, as bytes that left (Linux's "reno sacks").
    pub duplicate_acks: u32,
    /// Undo is possible down to this position.
    pub undo_marker: Option<u64>,
    /// Retransmissions that no DSACK has explained yet; `None` before the first.
    pub undo_retransmissions: Option<u32>,
    /// Timestamp clock at the first retransmission of this episode.
    pub retransmit_stamp: Option<Instant>,
    /// F-RTO is watching.
    pub frto: bool,
    /// Tail loss probe: ends when this is acknowledged.
    pub tlp_high: Option<u64>,
    /// The probe was a retransmission.
    pub tlp_retransmitted: bool,
    /// Bytes that PRR allows.
    pub prr_allowed: u32,
    /// RACK.
    pub rack: Rack,
    /// Segments by which order may differ.
    pub reordering: u32,
    /// Reordering was seen so many times.
    pub reordering_seen: u32,
    /// Consecutive retransmission timeouts.
    pub timeouts: u32,
    /// When the first of them sent something again (retrans_stamp).
    pub timeouts_since: Option<Instant>,
    pub prr: Prr,
    pub rtt: RttEstimator,
}

impl Recovery {
    /// Nothing is lost. `reordering`: segments by which order may differ, to begin with.
    pub(super) fn new(bounds: RtoBounds, reordering: u32) -> Recovery {
        Recovery {
            phase: Phase::Open,
            high: START,
            duplicate_acks: 0,
            undo_marker: None,
            undo_retransmissions: None,
            retransmit_stamp: None,
            frto: false,
            tlp_high: None,
            tlp_retransmitted: false,
            prr_allowed: 0,
            rack: Rack::default(),
            reordering,
            reordering_seen: 0,
            timeouts: 0,
            timeouts_since: None,
            prr: Prr::new(),
            rtt: RttEstimator::new(bounds),
        }
    }
}
