//! Loss recovery: what is known of the present episode, and of round trips.
//!
//! Recovery marks and arms; it sends nothing. What a call needs of the other parts of a connection it is lent ([`Lent`]). Its methods stand in
//! `sacks.rs` (what an acknowledgment says), `loss.rs` (RACK), `phases.rs` (Open, Disorder, CWR, Recovery, Loss), `undo.rs` and
//! `retransmission.rs` (timers).

use super::control::Control;
use super::deadlines::Deadlines;
use super::opening::Opening;
use super::path_mtu::PathMtu;
use super::rack::Rack;
use super::sender::Sender;
use super::totals::Totals;
use crate::congestion::Phase;
use crate::position::START;
use crate::prr::Prr;
use crate::rtt::{RtoBounds, RttEstimator};
use weft_core::{Instant, StreamOptions};

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

    /// Bytes that congestion control lets out now.
    pub(super) fn send_room(&self, send: &Sender, control: &Control) -> u32 {
        // One segment may always be out (RFC 5681 §3.1: "LW = 1*SMSS"), in a reduction too: with nothing out no acknowledgment comes that would
        // allow more (Linux tcp_cwnd_reduction counts in segments, so that what was delivered last allows one).
        if self.prr.is_active() {
            let least = if send.outstanding.is_empty() { send.mss } else { 0 };
            return self.prr_allowed.max(least);
        }
        control.window.cwnd_bytes.max(send.mss).saturating_sub(send.in_flight())
    }

    /// `numbers` were sent, new or again.
    pub(super) fn sent(&mut self, numbers: u32) {
        self.prr_allowed = self.prr_allowed.saturating_sub(numbers);
        self.prr.sent(numbers);
    }

    /// A segment of `numbers` was sent again.
    pub(super) fn sent_again(&mut self, now: Instant, numbers: u32) {
        self.retransmit_stamp = self.retransmit_stamp.or(Some(now));
        self.undo_retransmissions = Some(self.undo_retransmissions.unwrap_or(0) + 1);
        self.sent(numbers);
    }

    /// SND.UNA has moved: what was waited for has come.
    pub(super) fn timeouts_are_over(&mut self) {
        self.timeouts = 0;
        self.timeouts_since = None;
    }
}

/// What a connection lends its recovery for one call.
pub(super) struct Lent<'a> {
    pub send: &'a mut Sender,
    pub control: &'a mut Control,
    pub opening: &'a Opening,
    pub path_mtu: &'a mut PathMtu,
    pub timers: &'a mut Deadlines,
    pub totals: &'a mut Totals,
    pub options: &'a StreamOptions,
    /// TSecr of the segment that is being dealt with; 0: none.
    pub last_echo: u32,
}

#[cfg(test)]
mod tests;
