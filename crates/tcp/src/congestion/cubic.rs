//! CUBIC (RFC 9438), with Linux's choices where the RFC leaves one.
//!
//! After a reduction the window follows `W(t) = C*(t-K)^3 + W_max`: fast towards the window of the last loss, flat around it, and fast
//! again beyond. Where a Reno flow would be faster (short round trips, small windows), its estimate is followed.
//!
//! # Arithmetic
//! Integers only, so that every machine computes the same. Windows are bytes; time is microseconds. `K` is the integer cube root of an
//! exact u128, so at most 1 µs below the true value. `W(t)`, thresholds and plateaus are whole segments, as in Linux: with windows of a few segments, which
//! loss makes, fractions would be another control. (Linux: 1/1024 s; its `K` is off by up to 0.2 %.) `beta` is 7/10 (Linux: 717/1024), `C` 4/10 (Linux:
//! 410/1024), `alpha` 8/15.
//!
//! # Growth in steps
//! In congestion avoidance the window grows by whole segments, as in Linux, so that the sender never has a fraction of one to spend.

use super::episode::Episode;
use super::hystart::{self, Classic, Detected, HystartPlusPlus, Kind};
use super::{AckSample, CWND_BYTES_MAX, CongestionControl, CongestionEvent, SEGMENT_BYTES_MAX, Window, initial_window_bytes};
use weft_core::state::{Damage, Reader, Writer};
use weft_core::{Duration, Instant};

/// RFC 9438 §4.6: "The parameter beta_cubic SHOULD be set to 0.7".
const BETA: (u64, u64) = (7, 10);
/// RFC 9438 §5: "C SHOULD be set to 0.4", in segments per second cubed.
const C: (u128, u128) = (4, 10);
/// RFC 9438 §4.3: "alpha_cubic = 3 * (1 - beta_cubic) / (1 + beta_cubic)", 9/17 for 0.7; Linux's beta_scale makes it 8/15.
const ALPHA: (u64, u64) = (8, 15);
/// Cubed microseconds in a cubed second.
const US3_PER_S3: u128 = 1_000_000_000_000_000_000;
/// Distances from the plateau are cut to this (9 hours), so that the cube times segment size fits; the window is at its bounds long before.
const DISTANCE_US_MAX: u64 = 1 << 35;
/// Linux's clock here: a jiffy with HZ=250.
const JIFFY_NANOS: u64 = 4_000_000;
/// While the window stays the same, growth is evaluated anew only after more than this: HZ/32. RFC 9438 looks at every ACK; a flow on weft is to take no more than
/// one on Linux (at 50 Mbit/s, 10 ms and 0.3 % loss it would take 6 % more).
const SAME_WINDOW_JIFFIES: u64 = 7;
/// Without a known plateau the window grows by 1/20 per round trip at least (Linux): after the end of slow start without a loss, and after
/// a timeout.
const UNKNOWN_PLATEAU_DIVISOR: u64 = 20;
/// "Discard delay samples right after fast recovery" (cubictcp_acked).
const UNSAMPLED: Duration = Duration::from_secs(1);

/// A stretch of congestion avoidance: RFC 9438's `t_epoch` and what is fixed with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Epoch {
    /// Start, moved forward by the time in which the program did not use the window.
    start: Instant,
    /// Time from the start to the plateau, in microseconds.
    k_us: u64,
    /// Window of the plateau: `W_max`, or the window at the start when that is larger.
    origin_bytes: u32,
    /// The window of a Reno flow: `W_est`.
    reno_bytes: u64,
    /// Bytes acknowledged towards its next segment.
    reno_acked_bytes: u64,
    /// Acknowledged bytes per segment of growth, from the last evaluation.
    bytes_per_step: u64,
    /// When that was.
    evaluated_at: Instant,
    /// And with which window.
    evaluated_cwnd_bytes: u32,
    /// The window that the last ACK left. A smaller one later means that it was cut elsewhere (idle, unused), and that this stage is over.
    cwnd_bytes: u32,
}
weft_core::fields!(struct Epoch { start, k_us, origin_bytes, reno_bytes, reno_acked_bytes, bytes_per_step, evaluated_at, evaluated_cwnd_bytes, cwnd_bytes });

/// What is put back when a reduction was spurious. RFC 9438 §4.9.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Before {
    epoch: Option<Epoch>,
    w_max_bytes: u32,
}
weft_core::fields!(struct Before { epoch, w_max_bytes });

/// CUBIC of one connection.
#[derive(Clone, Debug, Default)]
pub struct Cubic {
    episode: Episode,
    /// Which of the two ends slow start.
    kind: Kind,
    hystart: Classic,
    hystart_plus_plus: HystartPlusPlus,
    epoch: Option<Epoch>,
    /// RFC 9438's `W_max`, whole segments; 0: unknown.
    w_max_bytes: u32,
    /// Bytes acknowledged since the last step of growth.
    acked_bytes: u64,
    /// Smallest round-trip time since the start or the last timeout; zero: none.
    delay_min: Duration,
    /// What the last ACK ended slow start by.
    detected: Option<Detected>,
    /// The last ACK or pause, to leave out time in which the window was not used.
    last_at: Instant,
    before: Before,
}
weft_core::fields!(struct Cubic { episode, kind, hystart, hystart_plus_plus, epoch, w_max_bytes, acked_bytes, delay_min, detected, last_at, before });

impl Cubic {
    /// A fresh instance.
    pub fn new() -> Cubic {
        Cubic::default()
    }

    /// The plateau and the time to it, with `cwnd` at the start of congestion avoidance.
    ///
    /// RFC 9438 §4.2: "K = cubic_root((W_max - cwnd_epoch) / C)"; §4.2 and §4.8 have K = 0 and W_max = cwnd when there is no larger
    /// `W_max`.
    fn begin_epoch(&mut self, now: Instant, w: &Window) -> Epoch {
        let origin_bytes = self.w_max_bytes.max(w.cwnd_bytes);
        self.acked_bytes = 0;
        Epoch {
            start: now,
            k_us: plateau_us(origin_bytes - w.cwnd_bytes, w.segment_bytes()),
            origin_bytes,
            // RFC 9438 §4.3: "W_est is set equal to cwnd_epoch at the start of the congestion avoidance stage."
            reno_bytes: w.cwnd_bytes.into(),
            reno_acked_bytes: 0,
            bytes_per_step: u64::MAX,
            evaluated_at: Instant::ZERO,
            evaluated_cwnd_bytes: 0,
            cwnd_bytes: w.cwnd_bytes,
        }
    }

    fn avoid_congestion(&mut self, ack: &AckSample, acked_bytes: u32, w: &mut Window) {
        let (mut epoch, fresh) = match self.epoch {
            Some(epoch) if w.cwnd_bytes >= epoch.cwnd_bytes => (epoch, false),
            _ => (self.begin_epoch(ack.now, w), true),
        };
        let mss = u64::from(w.segment_bytes());
        let cwnd = u64::from(w.cwnd_bytes);
        epoch.reno_acked_bytes = epoch.reno_acked_bytes.saturating_add(acked_bytes.into());
        // Linux bictcp_update: "if (ca->last_cwnd == cwnd && (s32)(tcp_jiffies32 - ca->last_time) <= HZ / 32) return;".
        let passed = jiffies(ack.now).saturating_sub(jiffies(epoch.evaluated_at));
        if fresh || w.cwnd_bytes != epoch.evaluated_cwnd_bytes || passed > SAME_WINDOW_JIFFIES {
            // "The CUBIC function can update ca->cnt at most once per jiffy." Reno's part can only quicken the growth within one.
            if fresh || passed > 0 {
                epoch.bytes_per_step = self.bytes_per_step(&epoch, ack.now, w);
                (epoch.evaluated_at, epoch.evaluated_cwnd_bytes) = (ack.now, w.cwnd_bytes);
            }
            let reno_step = advance_reno(&mut epoch, cwnd, mss);
            epoch.bytes_per_step = epoch.bytes_per_step.min(reno_step);
        }
        // RFC 9438 §4.2: "target = 1.5 * cwnd if W_cubic(t + RTT) > 1.5 * cwnd": never more than a segment per two acknowledged.
        let step_bytes = epoch.bytes_per_step.max(2 * mss);
        // What was counted towards a longer step is worth one at most (as Linux).
        self.acked_bytes = self.acked_bytes.min(step_bytes).saturating_add(acked_bytes.into());
        let steps = self.acked_bytes / step_bytes;
        self.acked_bytes %= step_bytes;
        w.set_cwnd(cwnd.saturating_add(steps.saturating_mul(mss)));
        epoch.cwnd_bytes = w.cwnd_bytes;
        self.epoch = Some(epoch);
    }

    /// How many bytes have to be acknowledged for a segment of growth, so that the window is at `W(t + RTT)` one round trip from now.
    ///
    /// RFC 9438 §4.4 and §4.5: "cwnd MUST be incremented by (target - cwnd) / cwnd for each received new ACK". In whole segments, as Linux: below the plateau
    /// that rounds the target up, and a window of a few segments grows by one a round trip where a fraction would take three.
    fn bytes_per_step(&self, epoch: &Epoch, now: Instant, w: &Window) -> u64 {
        let mss = u64::from(w.segment_bytes());
        let cwnd = u64::from(w.cwnd_bytes) / mss;
        // The smallest RTT rather than the smoothed one, as Linux: the queue's share would make the flow more aggressive the longer it is.
        let t = now.since(epoch.start).saturating_add(self.delay_min);
        let t_us = u64::try_from(t.as_micros()).unwrap_or(u64::MAX);
        let target = cubic_segments(t_us, epoch.k_us, u64::from(epoch.origin_bytes) / mss);
        let per_step = match target.saturating_sub(cwnd) {
            // RFC 9438 §4.2: "target = cwnd if W_cubic(t + RTT) < cwnd"; Linux still creeps, by a segment in a hundred round trips.
            0 => cwnd.saturating_mul(100),
            ahead => cwnd / ahead,
        };
        let per_step = if self.w_max_bytes == 0 { per_step.min(UNKNOWN_PLATEAU_DIVISOR) } else { per_step };
        per_step.saturating_mul(mss)
    }

    /// RFC 9438 §4.6: "ssthresh = flight_size * beta_cubic", with `cwnd` in place of the flight, as Linux and as §4.6 allows, since the
    /// window does not grow beyond what is used.
    fn reduce(&mut self, w: &mut Window) {
        self.before = Before { epoch: self.epoch.take(), w_max_bytes: self.w_max_bytes };
        // RFC 9438 §4.7: W_max becomes "cwnd * (1 + beta_cubic) / 2 if cwnd < W_max and fast convergence enabled, further reduce W_max".
        self.w_max_bytes = if w.cwnd_bytes < self.w_max_bytes {
            w.whole(u64::from(w.cwnd_bytes) * (BETA.1 + BETA.0) / (2 * BETA.1))
        } else {
            w.cwnd_bytes
        };
        self.acked_bytes = 0;
        self.hystart_plus_plus.congestion();
        // "ssthresh = max(ssthresh, 2)": in set_ssthresh.
        w.set_ssthresh(u64::from(w.cwnd_bytes) * BETA.0 / BETA.1);
    }

    fn timeout(&mut self, now: Instant, w: &mut Window) {
        if self.episode.timeout(w) {
            self.reduce(w);
        }
        self.hystart.timeout(now);
        self.hystart_plus_plus.congestion();
        // RFC 9438 §4.8: "During the first congestion avoidance stage after a timeout, CUBIC increases its congestion window size using
        // Figure 1, where t is the elapsed time since the beginning of the current congestion avoidance stage, K is set to 0, and W_max is
        // set to the congestion window size at the beginning of the current congestion avoidance stage."
        self.epoch = None;
        self.w_max_bytes = 0;
        self.acked_bytes = 0;
        self.delay_min = Duration::ZERO;
        w.set_cwnd(w.segment_bytes().into());
    }

    fn undo(&mut self, now: Instant, w: &mut Window) {
        if self.episode.undo(w) {
            let Before { epoch, w_max_bytes } = self.before;
            (self.epoch, self.w_max_bytes) = (epoch, w_max_bytes);
            self.acked_bytes = 0;
        }
        self.last_at = now;
    }

    /// What an acknowledgment says of the delay, whatever else it says (cubictcp_acked).
    fn sample_delay(&mut self, ack: &AckSample, w: &mut Window) {
        let young = self.epoch.is_some_and(|epoch| ack.now.since(epoch.start) < UNSAMPLED);
        let Some(rtt) = ack.rtt.filter(|_| !young) else { return };
        self.delay_min = if self.delay_min.is_zero() { rtt } else { self.delay_min.min(rtt) };
        if self.kind == Kind::Classic && w.in_slow_start() {
            let segments = w.cwnd_bytes / w.segment_bytes();
            self.detected = self.hystart.on_ack(ack, rtt, self.delay_min, segments);
            if self.detected.is_some() {
                w.set_ssthresh(w.cwnd_bytes.into());
            }
        }
    }

    /// RFC 9438 §4.2: "The elapsed time t in Figure 1 MUST NOT include periods during which cwnd has not been updated due to
    /// application-limited behavior".
    fn leave_out(&mut self, pause: Duration, now: Instant) {
        if let Some(epoch) = &mut self.epoch {
            epoch.start = (epoch.start + pause).min(now);
        }
    }
}

impl CongestionControl for Cubic {
    fn name(&self) -> &'static str {
        "cubic"
    }

    fn init(&mut self, w: &mut Window, now: Instant) {
        *self = Cubic { last_at: now, kind: self.kind, ..Cubic::new() };
        w.ssthresh_bytes = u32::MAX;
        w.set_cwnd(u64::from(initial_window_bytes(w.mss, 0)));
    }

    fn on_ack(&mut self, ack: &AckSample, w: &mut Window) {
        self.episode.on_ack(ack);
        let passed = ack.now.since(self.last_at);
        self.last_at = ack.now;
        self.detected = None;
        self.sample_delay(ack, w);
        if ack.in_recovery || ack.newly_acked_bytes == 0 {
            return;
        }
        if !ack.cwnd_limited {
            // RFC 9438 §5.8: "CUBIC does not increase its congestion window if a flow is application limited."
            self.leave_out(passed, ack.now);
            return;
        }
        let mut acked_bytes = ack.newly_delivered_bytes();
        if w.in_slow_start() {
            // RFC 9406 §4.3: "An implementation SHOULD use HyStart++ only for the initial slow start (when the ssthresh is at its initial
            // value of arbitrarily high per [RFC5681]) and fall back to using standard slow start for the remainder of the connection
            // lifetime."
            if w.ssthresh_bytes == u32::MAX && self.kind == Kind::PlusPlus {
                acked_bytes = self.hystart_plus_plus.on_ack(ack);
                if self.hystart_plus_plus.phase() == hystart::Phase::Done {
                    w.slow_start(acked_bytes);
                    w.set_ssthresh(w.cwnd_bytes.into());
                    self.detected = Some(Detected::Delay);
                    return;
                }
            }
            acked_bytes = w.slow_start(acked_bytes);
        }
        if acked_bytes > 0 && !w.in_slow_start() {
            self.avoid_congestion(ack, acked_bytes, w);
        }
    }

    fn on_event(&mut self, now: Instant, event: CongestionEvent, _in_flight_bytes: u32, w: &mut Window) {
        match event {
            CongestionEvent::Loss => {
                self.episode.loss(w);
                self.reduce(w);
                w.set_cwnd(w.ssthresh_bytes.into());
            }
            // RFC 9438 §4.6: ECN-Echo is a congestion event like a loss; the same factor is used.
            CongestionEvent::Ecn => {
                self.episode.ecn();
                self.reduce(w);
                w.set_cwnd(w.ssthresh_bytes.into());
            }
            CongestionEvent::Timeout => self.timeout(now, w),
            CongestionEvent::Restart { .. } => {}
            CongestionEvent::Idle(idle) => {
                self.leave_out(now.since(self.last_at).min(idle), now);
                self.last_at = now;
                self.episode.idle(idle, w);
            }
            CongestionEvent::Undo => self.undo(now, w),
            CongestionEvent::RecoveryDone => self.episode.done(w),
        }
    }

    fn set_hystart(&mut self, kind: Kind) {
        self.kind = kind;
    }

    fn detected(&self) -> Option<Detected> {
        self.detected
    }

    fn pacing_rate_bytes_per_s(&self, _w: &Window, _srtt: Duration) -> Option<u64> {
        None
    }

    fn info(&self) -> Vec<(&'static str, u64)> {
        let mut rows = vec![
            ("w_max_bytes", self.w_max_bytes.into()),
            ("delay_min_us", u64::try_from(self.delay_min.as_micros()).unwrap_or(u64::MAX)),
            ("hystart_phase", self.hystart_plus_plus.phase() as u64),
            ("hystart_found", self.hystart.found().into()),
        ];
        if let Some(epoch) = &self.epoch {
            rows.extend([("k_us", epoch.k_us), ("origin_bytes", epoch.origin_bytes.into()), ("reno_bytes", epoch.reno_bytes)]);
        }
        rows
    }

    fn export(&self, out: &mut Writer) {
        out.put(self);
    }

    fn import(&mut self, from: &mut Reader<'_>) -> Result<(), Damage> {
        let read: Cubic = from.take()?;
        let epochs = [read.epoch, read.before.epoch];
        let windows = epochs.into_iter().flatten().flat_map(|epoch| [epoch.origin_bytes, epoch.evaluated_cwnd_bytes, epoch.cwnd_bytes]);
        let most = windows.chain([read.w_max_bytes, read.before.w_max_bytes]).max();
        let reno = epochs.into_iter().flatten().map(|epoch| epoch.reno_bytes).max();
        if most > Some(CWND_BYTES_MAX) || reno > Some(CWND_BYTES_MAX.into()) {
            return Err(Damage::new("a window of CUBIC is larger than any can be"));
        }
        *self = read;
        Ok(())
    }
}

/// Whole jiffies since boot.
fn jiffies(at: Instant) -> u64 {
    at.as_nanos() / JIFFY_NANOS
}

/// RFC 9438 §4.3: "W_est = W_est + alpha_cubic * segments_acked / cwnd", in whole segments as Linux. Returns the bytes to be acknowledged for
/// a segment of growth at which the window follows the estimate within a round trip; `u64::MAX` while the estimate is not ahead.
///
/// "Once W_est has grown to reach the cwnd at the time of most recently setting ssthresh -- that is, W_est >= cwnd_prior -- the sender SHOULD
/// set alpha_cubic to 1": deliberately not; Linux keeps 0.53, and a flow on weft is to take no more than one on Linux.
fn advance_reno(epoch: &mut Epoch, cwnd: u64, mss: u64) -> u64 {
    // "delta = (cwnd * beta_scale) >> 3; while (ca->ack_cnt > delta)": more than that, not as much.
    let acked_per_segment = (cwnd / mss * ALPHA.1 / ALPHA.0 * mss).max(1);
    let grown = epoch.reno_acked_bytes.saturating_sub(1) / acked_per_segment;
    epoch.reno_acked_bytes -= grown * acked_per_segment;
    epoch.reno_bytes = epoch.reno_bytes.saturating_add(grown.saturating_mul(mss)).min(CWND_BYTES_MAX.into());
    match epoch.reno_bytes.saturating_sub(cwnd) / mss {
        0 => u64::MAX,
        ahead => cwnd / mss / ahead * mss,
    }
}

/// RFC 9438 §4.2: "K = cubic_root((W_max - cwnd_epoch) / C)", in microseconds, for a distance in bytes. Rounded down.
fn plateau_us(distance_bytes: u32, mss: u32) -> u64 {
    let cubed = u128::from(distance_bytes) * C.1 * US3_PER_S3 / (C.0 * u128::from(mss.clamp(1, SEGMENT_BYTES_MAX)));
    cube_root(cubed)
}

/// RFC 9438 §4.2: "W_cubic(t) = C * (t - K)^3 + W_max", in segments; the cube's part is rounded down on both sides of the plateau, as Linux.
fn cubic_segments(t_us: u64, k_us: u64, origin_segments: u64) -> u64 {
    let distance = u128::from(t_us.abs_diff(k_us).min(DISTANCE_US_MAX));
    let cube = distance * distance * distance * C.0;
    let delta = u64::try_from(cube / (C.1 * US3_PER_S3)).unwrap_or(u64::MAX);
    let value = if t_us < k_us { origin_segments.saturating_sub(delta) } else { origin_segments.saturating_add(delta) };
    value.min(CWND_BYTES_MAX.into())
}

/// The largest number whose cube is at most `value`, bit by bit from the top: 43 bits suffice for 128.
fn cube_root(value: u128) -> u64 {
    let mut root: u128 = 0;
    for bit in (0..43).rev() {
        let candidate = root | (1 << bit);
        if candidate.checked_pow(3).is_some_and(|cube| cube <= value) {
            root = candidate;
        }
    }
    root as u64
}

#[cfg(test)]
mod tests;
