//! Congestion control: how many bytes may be in flight.
//!
//! A congestion control owns the policy (when the window grows, by how much it shrinks); the connection owns the mechanism (what is in
//! flight, what is lost, what is sent). They meet in [`Window`], which the control writes, and in [`AckSample`] and [`CongestionEvent`],
//! which the connection fills in. A control never sees a segment, never arms a timer and never learns the time but by argument.
//!
//! # Contract of the connection
//! - `init` once, when the handshake is done; `on_ack` for each acknowledgment that delivers something or that belongs to recovery, after
//!   loss detection and before anything is sent.
//! - [`CongestionEvent::Loss`] and [`CongestionEvent::Ecn`] at most once per window of data (RFC 5681 §4.3, RFC 3168 §6.1.2): after one,
//!   none of both until `snd_una` has passed the `snd_nxt` of that moment. The controls do not check it.
//! - Every `Loss` and `Ecn` is followed by one of `RecoveryDone`, `Undo` or `Timeout`.
//! - The control sets `cwnd_bytes` to its final value at once. While [`crate::prr::Prr`] is in charge (`AckSample::in_recovery`) the
//!   connection sends what PRR allows, and may write `cwnd_bytes = in flight + allowed` for display; `RecoveryDone` puts the value back.
//! - After `Timeout` the connection may always retransmit one segment, whatever is still in flight.
//!
//! # To add one
//! One file in `congestion/` with an `impl CongestionControl`, one row in [`CONTROLS`]. The trait suffices for rate-based controls too:
//! `AckSample` carries delivery rate, delivered bytes and round trips, and `pacing_rate_bytes_per_s` lets a control set the rate.

use crate::connection::Phase;
use std::fmt::Debug;
use weft_core::state::{Damage, Reader, Writer};
use weft_core::{Duration, Instant};
use weft_wire::tcp::Seq;

pub mod bbr;
pub mod cubic;
mod episode;
pub mod hystart;
pub mod reno;
pub mod usage;

pub use bbr::Bbr;
pub use cubic::Cubic;
pub use reno::Reno;

/// Largest congestion window, in bytes: what a window field with the largest scale can announce (RFC 7323 §2.3), so nothing larger is ever
/// usable.
pub const CWND_BYTES_MAX: u32 = 65_535 << 14;

/// Larger segments than this are counted as if they had this size, so that no arithmetic overflows. TCP has none above 64 KiB.
pub const SEGMENT_BYTES_MAX: u32 = 1 << 20;

/// Segments of the initial window (RFC 6928), as in Linux regardless of their size.
pub const INITIAL_WINDOW_SEGMENTS: u32 = 10;

/// One acknowledgment as a congestion control sees it.
#[derive(Clone, Debug, Default)]
pub struct AckSample {
    /// When it arrived.
    pub now: Instant,
    /// Bytes that `snd_una` moved over and that no SACK block had reported before. With `newly_sacked_bytes` this is what the ACK delivers.
    pub newly_acked_bytes: u32,
    /// Bytes above `snd_una` that this ACK reports by SACK for the first time.
    pub newly_sacked_bytes: u32,
    /// Bytes that loss detection declared lost on this ACK.
    pub newly_lost_bytes: u32,
    /// Round-trip time measured by this ACK; `None` when none is valid (Karn: only retransmitted data without timestamps).
    pub rtt: Option<Duration>,
    /// Smallest round-trip time of the filter's window; zero when there is none yet.
    pub min_rtt: Duration,
    /// Smoothed round-trip time; zero when there is none yet.
    pub srtt: Duration,
    /// Bytes in flight before this ACK.
    pub in_flight_bytes: u32,
    /// Bytes in flight after it.
    pub in_flight_after_bytes: u32,
    /// Where loss recovery stands after this ACK.
    pub phase: Phase,
    /// The congestion window, not the application or the peer's window, limited what was sent ([`usage::CwndUsage`]).
    pub cwnd_limited: bool,
    /// Bytes delivered since the connection began.
    pub delivered_bytes: u64,
    /// When that last grew.
    pub delivered_at: Instant,
    /// Bytes that were declared lost since the connection began, each as often as it was.
    pub lost_bytes: u64,
    /// Delivery rate measured by this ACK in bytes per second; 0 when there is none.
    pub delivery_rate_bytes_per_s: u64,
    /// Bytes that had been delivered when the segment was sent that the rate was measured with.
    pub prior_delivered_bytes: u64,
    /// The rate was limited by the application: that segment was sent while it had nothing more.
    pub sample_app_limited: bool,
    /// The ACK may have waited for the peer's delayed-ACK timer.
    pub maybe_delayed: bool,
    /// The rate that sizes frames, bytes per second.
    pub pacing_rate_bytes_per_s: u64,
    /// What is sent is spread by that rate.
    pub paced: bool,
    /// When pacing lets the next frame leave; in the past when it may now.
    pub next_departure: Instant,
    /// The ACK carried ECN-Echo.
    pub ece: bool,
    /// First ACK of a new round trip.
    pub round_start: bool,
    /// `snd_una` after this ACK.
    pub snd_una: Seq,
    /// `snd_nxt` after this ACK.
    pub snd_nxt: Seq,
    /// Fast recovery or an ECN reduction is under way, and PRR decides what is sent. False in recovery after a timeout, where slow start
    /// goes on.
    pub in_recovery: bool,
}

impl AckSample {
    /// Bytes that this ACK reports as received, each counted once.
    pub fn newly_delivered_bytes(&self) -> u32 {
        self.newly_acked_bytes.saturating_add(self.newly_sacked_bytes)
    }

    /// Whether the delivery rate could be measured.
    pub fn has_rate(&self) -> bool {
        self.delivery_rate_bytes_per_s > 0
    }
}

/// The window that a congestion control steers. All sizes are payload bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// Sender's maximum segment size, without options that every segment carries. Written by the connection; the control reads
    /// [`Window::segment_bytes`].
    pub mss: u32,
    /// Congestion window.
    pub cwnd_bytes: u32,
    /// Slow start threshold; `u32::MAX`: none yet.
    pub ssthresh_bytes: u32,
}
weft_core::fields!(struct Window { mss, cwnd_bytes, ssthresh_bytes });

impl Window {
    /// A window of nothing yet, for `init`.
    pub fn new(mss: u32) -> Window {
        Window { mss, cwnd_bytes: 0, ssthresh_bytes: u32::MAX }
    }
    /// The segment size, between 1 and [`SEGMENT_BYTES_MAX`].
    pub fn segment_bytes(&self) -> u32 {
        self.mss.clamp(1, SEGMENT_BYTES_MAX)
    }
    /// The path takes smaller segments than was thought.
    ///
    /// RFC 5681 §3.1: "Specifically, cwnd SHOULD be reduced by the ratio of the old segment size to the new segment size." A larger size
    /// leaves the window as it is.
    pub fn set_mss(&mut self, mss: u32) {
        let old = self.segment_bytes();
        self.mss = mss;
        let new = self.segment_bytes();
        if new < old {
            self.set_cwnd(u64::from(self.cwnd_bytes) * u64::from(new) / u64::from(old));
        }
        self.set_cwnd(self.cwnd_bytes.into());
    }
    /// RFC 5681 §3.1: "The slow start algorithm is used when cwnd < ssthresh, while the congestion avoidance algorithm is used when cwnd >
    /// ssthresh."
    pub fn in_slow_start(&self) -> bool {
        self.cwnd_bytes < self.ssthresh_bytes
    }
    /// Sets the window inside its bounds: one segment and [`CWND_BYTES_MAX`].
    pub fn set_cwnd(&mut self, bytes: u64) {
        let floor = self.segment_bytes();
        self.cwnd_bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(CWND_BYTES_MAX).max(floor);
    }
    /// Slow start by `acked_bytes`, up to the threshold; returns the bytes that were not needed to reach it.
    ///
    /// RFC 5681 §3.1 limits growth to one segment per ACK and RFC 3465 to two; Linux counts every delivered byte (a GRO'd ACK stands for
    /// many), and so does this.
    pub(crate) fn slow_start(&mut self, acked_bytes: u32) -> u32 {
        let wanted = self.cwnd_bytes.saturating_add(acked_bytes).min(CWND_BYTES_MAX);
        let reached = wanted.min(self.ssthresh_bytes).max(self.cwnd_bytes);
        let used = reached - self.cwnd_bytes;
        self.set_cwnd(u64::from(reached));
        acked_bytes.saturating_sub(used)
    }
    /// RFC 5681 §3.1 eq. 4's floor for the threshold: `2*SMSS`. Whole segments, as Linux counts: a window of two and a half lets out two like one of two, and
    /// takes half as many acknowledgments more to grow.
    pub(crate) fn set_ssthresh(&mut self, bytes: u64) {
        let floor = self.segment_bytes().saturating_mul(2);
        self.ssthresh_bytes = self.whole(bytes).max(floor);
    }
    /// The whole segments of so many bytes, as bytes.
    pub(crate) fn whole(&self, bytes: u64) -> u32 {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(CWND_BYTES_MAX);
        bytes - bytes % self.segment_bytes()
    }
    /// A half and a quarter of the window, each in whole segments (tcp_current_ssthresh).
    pub(crate) fn three_quarters(&self) -> u32 {
        self.whole(u64::from(self.cwnd_bytes >> 1)) + self.whole(u64::from(self.cwnd_bytes >> 2))
    }
}

/// Something other than an ordinary ACK that a congestion control has to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CongestionEvent {
    /// Loss detection found a loss and fast recovery begins. At most once per window of data.
    Loss,
    /// The retransmission timer expired.
    Timeout,
    /// ECN-Echo arrived. At most once per window of data (RFC 3168 §6.1.2).
    Ecn,
    /// A segment is about to be sent after nothing was in flight for this long. Reported for a pause of any length; the control does the restart of
    /// RFC 5681 §4.1 itself (halving per RTO, as Linux), so the connection leaves the window alone. With `tcp_slow_start_after_idle` off the
    /// connection reports no pause.
    Idle(Duration),
    /// A segment is about to be sent while nothing is in flight (Linux's CA_EVENT_TX_START); after [`CongestionEvent::Idle`] where both apply.
    Restart {
        /// The program had nothing to send before.
        app_limited: bool,
    },
    /// The last reduction was spurious (Eifel, F-RTO, DSACK).
    Undo,
    /// Everything that was outstanding when recovery began is acknowledged.
    RecoveryDone,
}

/// A congestion control algorithm, one instance per connection.
pub trait CongestionControl: Send + Debug {
    /// Its name, as `TCP_CONGESTION` spells it.
    fn name(&self) -> &'static str;
    /// Sets the initial window and the threshold to "none". `w.mss` is valid.
    fn init(&mut self, w: &mut Window, now: Instant);
    /// An acknowledgment arrived.
    fn on_ack(&mut self, ack: &AckSample, w: &mut Window);
    /// Something else happened; `in_flight_bytes` are outstanding, not counting what is known to be lost.
    fn on_event(&mut self, now: Instant, event: CongestionEvent, in_flight_bytes: u32, w: &mut Window);
    /// The rate the control wants to send at, in bytes per second. `None`: it has no rate of its own; sending is clocked by ACKs, and
    /// [`crate::pacing::default_rate_bytes_per_s`] is used where a rate is needed.
    fn pacing_rate_bytes_per_s(&self, w: &Window, srtt: Duration) -> Option<u64>;
    /// A random number of this connection's own, before `init`: for controls that must not act in step with others.
    fn seed(&mut self, seed: u64) {
        let _ = seed;
    }
    /// How slow start is left, before `init`: for controls that use HyStart.
    fn set_hystart(&mut self, kind: hystart::Kind) {
        let _ = kind;
    }
    /// By what the last ACK ended slow start.
    fn detected(&self) -> Option<hystart::Detected> {
        None
    }
    /// The smallest round-trip time that the connection has measured by now, after `init`: for controls that go by it.
    fn learn_min_rtt(&mut self, min_rtt: Duration) {
        let _ = min_rtt;
    }
    /// The control itself decides what may be in flight during recovery: PRR stays out, and an unused window is not cut (Linux: controls with
    /// `cong_control`).
    fn owns_recovery(&self) -> bool {
        false
    }
    /// The control holds sending back on purpose, so that what is delivered says nothing of the path's rate.
    fn limits_itself(&self) -> bool {
        false
    }
    /// Segments of a large frame at least, at this rate.
    fn frame_segments_min(&self, rate_bytes_per_s: u64) -> u32 {
        let _ = rate_bytes_per_s;
        crate::pacing::FRAME_SEGMENTS_MIN
    }
    /// What `TCP_CC_INFO` gives: the words of the control's part of `union tcp_cc_info` (include/uapi/linux/inet_diag.h); empty: nothing.
    fn cc_info(&self) -> Vec<u32> {
        Vec::new()
    }
    /// Internal values for display, with their units in the names.
    fn info(&self) -> Vec<(&'static str, u64)>;
    /// The whole state, to go on in another instance of the same algorithm as if nothing had happened.
    fn export(&self, out: &mut Writer);
    /// Takes over exported state.
    ///
    /// # Errors
    /// What does not follow the schema; the control is as before.
    fn import(&mut self, from: &mut Reader<'_>) -> Result<(), Damage>;
}

type Constructor = fn() -> Box<dyn CongestionControl>;

/// Every congestion control: name and constructor, the default first.
pub const CONTROLS: &[(&str, Constructor)] =
    &[("cubic", || Box::new(Cubic::new())), ("reno", || Box::new(Reno::new())), ("bbr", || Box::new(Bbr::new()))];

/// Names for `TCP_CONGESTION` and `tcp_available_congestion_control`, the default first.
pub const NAMES: &[&str] = &["cubic", "reno", "bbr"];

/// A new instance of the control with this name.
pub fn by_name(name: &str) -> Option<Box<dyn CongestionControl>> {
    CONTROLS.iter().find(|(known, _)| *known == name).map(|(_, new)| new())
}

/// Initial window in bytes.
///
/// RFC 6928 §2 has `min (10*MSS, max (2*MSS, 14600))`; Linux sends ten segments of any size, and so does this (equal up to an MSS of 1460).
/// `handshake_retransmits`: how often SYN or SYN-ACK was sent again. RFC 5681 §3.1: "if the SYN or SYN/ACK is lost, the initial window used
/// by a sender after a correctly transmitted SYN MUST be one segment consisting of at most SMSS bytes."; RFC 6928 §2: "it is RECOMMENDED
/// that implementations refrain from resetting the initial window to 1 segment, unless there have been more than one SYN or SYN/ACK
/// retransmissions". Linux does so.
pub fn initial_window_bytes(mss: u32, handshake_retransmits: u32) -> u32 {
    let mss = mss.clamp(1, SEGMENT_BYTES_MAX);
    if handshake_retransmits > 1 { mss } else { mss * INITIAL_WINDOW_SEGMENTS }
}

#[cfg(test)]
mod tests;
