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

use std::fmt::Debug;
use weft_core::state::{Damage, Reader, Writer};
use weft_core::{Duration, Instant, Sibling};
use weft_wire::tcp::Seq;

pub mod bbr;
pub mod coupled;
pub mod cubic;
mod episode;
pub mod hystart;
mod phase;
pub mod reno;
pub mod usage;
mod window;
pub mod wvegas;

pub use bbr::Bbr;
pub use coupled::{Balia, Coupled, Lia, Olia};
pub use cubic::Cubic;
pub use phase::Phase;
pub use reno::Reno;
pub use window::{CWND_BYTES_MAX, INITIAL_WINDOW_SEGMENTS, SEGMENT_BYTES_MAX, Window, initial_window_bytes};
pub use wvegas::WVegas;

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

impl CongestionEvent {
    /// It says that the path is congested.
    pub fn is_congestion(self) -> bool {
        matches!(self, CongestionEvent::Loss | CongestionEvent::Ecn | CongestionEvent::Timeout)
    }
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
    /// Its window depends on those of others: it is to be told of them.
    fn is_coupled(&self) -> bool {
        false
    }
    /// The other connections of its group, as they are now.
    fn learn_siblings(&mut self, siblings: &[Sibling]) {
        let _ = siblings;
    }
    /// [`weft_core::Room::interval_bytes`].
    fn loss_interval_bytes(&self) -> u64 {
        0
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
pub const CONTROLS: &[(&str, Constructor)] = &[
    ("cubic", || Box::new(Cubic::new())),
    ("reno", || Box::new(Reno::new())),
    ("bbr", || Box::new(Bbr::new())),
    ("lia", || Box::new(Coupled::<Lia>::new())),
    ("olia", || Box::new(Coupled::<Olia>::new())),
    ("balia", || Box::new(Coupled::<Balia>::new())),
    ("wvegas", || Box::new(WVegas::new())),
];

/// Names for `TCP_CONGESTION` and `tcp_available_congestion_control`, the default first.
pub const NAMES: &[&str] = &["cubic", "reno", "bbr", "lia", "olia", "balia", "wvegas"];

/// A new instance of the control with this name.
pub fn by_name(name: &str) -> Option<Box<dyn CongestionControl>> {
    CONTROLS.iter().find(|(known, _)| *known == name).map(|(_, new)| new())
}

#[cfg(test)]
mod tests;
