//! Whether the congestion window is what limits sending, and what becomes of a window that is not used (RFC 2861, RFC 7661, as Linux).
//!
//! The connection reports each time it has sent what it could ([`CwndUsage::on_transmit`]) and asks [`CwndUsage::is_cwnd_limited`] for
//! `AckSample::cwnd_limited`.

use super::{Window, initial_window_bytes};
use serde::{Deserialize, Serialize};
use weft_core::{Duration, Instant};
use weft_wire::tcp::Seq;

/// Use of the window over one flight. All sizes are payload bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CwndUsage {
    /// Sending was limited by cwnd at the highest flight of the present window of data.
    limited: bool,
    /// Highest flight of the present window of data.
    flight_bytes_max: u32,
    /// The window of data ends when `snd_una` reaches this.
    window_end: u32,
    /// Highest flight since the window was last used up.
    used_bytes: u32,
    /// When the window was last used up, or last cut.
    full_at: Instant,
}
weft_core::fields!(struct CwndUsage { limited, flight_bytes_max, window_end, used_bytes, full_at });

/// What is out after a burst of sending.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flight {
    /// Bytes in flight.
    pub in_flight_bytes: u32,
    /// Oldest unacknowledged number.
    pub snd_una: Seq,
    /// Next new number.
    pub snd_nxt: Seq,
    /// The window has no room for a full segment.
    pub stopped_by_cwnd: bool,
}

impl CwndUsage {
    /// Nothing sent yet; the clock starts at `now`.
    pub fn new(now: Instant) -> CwndUsage {
        CwndUsage { full_at: now, ..CwndUsage::default() }
    }

    /// Whether the window may grow on the strength of what was sent lately.
    ///
    /// RFC 7661 in Linux's form: in slow start it is enough that half of the window was in use, because pacing and large frames rarely let
    /// it fill up; in congestion avoidance it has to have been the limit.
    pub fn is_cwnd_limited(&self, w: &Window) -> bool {
        self.limited || (w.in_slow_start() && u64::from(w.cwnd_bytes) < 2 * u64::from(self.flight_bytes_max))
    }

    /// The connection has sent what it could at `now`.
    ///
    /// `decay_after`: look after that long, one RTO, at a window that was not used up. `None` where Linux does not: with `tcp_slow_start_after_idle` off, and with a
    /// control that recovers by itself. `cuts`: and cut it. Linux leaves it alone in recovery and while the program waits for buffer space
    /// (tcp_cwnd_application_limited: `icsk_ca_state == TCP_CA_Open && !test_bit(SOCK_NOSPACE, …)`), and looks an RTO later again.
    pub fn on_transmit(&mut self, now: Instant, w: &mut Window, flight: &Flight, decay_after: Option<Duration>, cuts: bool) {
        let Flight { in_flight_bytes, snd_una, snd_nxt, stopped_by_cwnd } = *flight;
        let new_window = snd_una.ge(Seq(self.window_end));
        if new_window || stopped_by_cwnd || (!self.limited && in_flight_bytes > self.flight_bytes_max) {
            self.limited = stopped_by_cwnd;
            self.flight_bytes_max = in_flight_bytes;
            self.window_end = snd_nxt.0;
        }
        if self.is_cwnd_limited(w) {
            self.used_bytes = 0;
            self.full_at = now;
            return;
        }
        self.used_bytes = self.used_bytes.max(in_flight_bytes);
        if decay_after.is_some_and(|rto| now.since(self.full_at) >= rto) {
            if cuts {
                self.cut(w);
            }
            self.full_at = now;
        }
    }

    /// RFC 2861 §3: half way from the window to what was used of it, with three quarters of the old window remembered as threshold.
    fn cut(&mut self, w: &mut Window) {
        let used_bytes = self.used_bytes.max(initial_window_bytes(w.mss, 0));
        if used_bytes < w.cwnd_bytes {
            if w.ssthresh_bytes != u32::MAX {
                w.ssthresh_bytes = w.ssthresh_bytes.max(w.three_quarters());
            }
            w.set_cwnd(w.whole((u64::from(w.cwnd_bytes) + u64::from(used_bytes)) / 2).into());
        }
        self.used_bytes = 0;
    }
}

#[cfg(test)]
mod tests;
