//! RACK (RFC 8985): a segment is lost when one sent sufficiently later was delivered.

use super::outstanding::Sent;
use weft_core::{Duration, Instant};

/// RFC 8985 §6.2 step 4: "RACK.reo_wnd_persist … 16".
const REORDER_PERSIST: u8 = 16;

/// RACK's per-connection variables (RFC 8985 §5.3).
#[derive(Debug)]
pub(super) struct Rack {
    /// Of the segment sent last among those delivered: RACK.xmit_ts and RACK.end_seq.
    pub newest: (Instant, u64),
    /// RACK.rtt
    pub rtt: Duration,
    /// Something newer was delivered by the acknowledgment being processed.
    pub advanced: bool,
    /// RACK.reo_wnd_mult
    window_steps: u32,
    /// RACK.reo_wnd_persist
    persist: u8,
    /// A DSACK was seen in this round.
    pub duplicate: bool,
    /// Delivered bytes as the window was last widened.
    last_delivered: u64,
}
weft_core::fields!(struct Rack { newest, rtt, advanced, window_steps, persist, duplicate, last_delivered });

impl Default for Rack {
    fn default() -> Rack {
        Rack {
            newest: (Instant::ZERO, 0),
            rtt: Duration::ZERO,
            advanced: false,
            window_steps: 1,
            persist: 0,
            duplicate: false,
            last_delivered: 0,
        }
    }
}

impl Rack {
    /// RFC 8985 §6.2 step 2: RACK_update().
    pub(super) fn update(&mut self, now: Instant, sent: &Sent, min_rtt: Option<Duration>) {
        let rtt = now - sent.sent_at;
        // "If the RTT is less than RACK.min_RTT, ignore: the ACK is of the first transmission."
        if sent.ever_retransmitted && min_rtt.is_some_and(|min| rtt < min) {
            return;
        }
        self.rtt = rtt;
        self.advanced = true;
        self.newest = self.newest.max((sent.sent_at, sent.end()));
    }

    /// RFC 8985 §6.2 step 4, DSACK: "RACK.reo_wnd_mult + 1" once a round trip.
    pub(super) fn adapt(&mut self, prior_delivered: u64, delivered: u64) {
        if prior_delivered < self.last_delivered {
            self.duplicate = false;
        }
        if self.duplicate {
            self.duplicate = false;
            self.window_steps = (self.window_steps + 1).min(255);
            self.last_delivered = delivered;
            self.persist = REORDER_PERSIST;
        } else if self.persist == 0 {
            self.window_steps = 1;
        }
    }

    /// RACK.reo_wnd where order differs: quarters of the least round trip, a smoothed one at most.
    pub(super) fn window(&self, min_rtt: Option<Duration>, srtt: Option<Duration>) -> Duration {
        let quarters = min_rtt.unwrap_or_default() / 4 * self.window_steps;
        quarters.min(srtt.unwrap_or(quarters))
    }

    /// A recovery has ended.
    pub(super) fn recovery_ended(&mut self) {
        self.persist = self.persist.saturating_sub(1);
    }
}
