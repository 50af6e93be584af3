//! BBR, version 1, as Linux has it (net/ipv4/tcp_bbr.c; Cardwell et al., "BBR: Congestion-Based Congestion Control", ACM Queue 14(5), 2016).
//!
//! It models the path by two numbers, the largest delivery rate of the last ten round trips and the smallest round-trip time of the last ten
//! seconds, and sends at that rate with about twice their product in flight. Losses as such mean nothing to it, but for two: in the first
//! round trip of a recovery it conserves packets, and what loses a fifth of the data at a constant rate for several round trips is taken for
//! a policer, whose rate is then kept.
//!
//! The parts: [`model`](self) of the path (this file), `policer` (long-term bandwidth), `filter` (maximum over round trips), `window` (what
//! may be in flight). Everything is in bytes and nanoseconds where Linux counts segments and microseconds; gains are in 1/256 as there.
//!
//! Pacing is a part of it: without it the probing makes no sense. Randomness is one draw for each cycle, from the seed the connection gives.

mod aggregation;
mod filter;
mod gain;
mod policer;
mod window;

use super::{AckSample, CongestionControl, CongestionEvent, Phase, Window, initial_window_bytes};
use aggregation::Aggregation;
use filter::MaxFilter;
use gain::UNIT;
use policer::Policer;
use weft_core::state::{Damage, Reader, Writer};
use weft_core::{Duration, Instant};

/// 2/ln 2: the least gain that doubles the rate in each round trip.
const HIGH_GAIN: u64 = UNIT * 2885 / 1000 + 1;
/// No gain is larger.
const GAIN_MAX: u64 = HIGH_GAIN;
/// Its inverse: what empties in a round trip the queue that startup built.
const DRAIN_GAIN: u64 = UNIT * 1000 / 2885;
/// In steady state twice the product of bandwidth and delay may be in flight, for delayed and stretched acknowledgments.
const CWND_GAIN: u64 = UNIT * 2;
/// Probe for more, drain what that queued, cruise: one entry a minimum round trip.
const CYCLE: [u64; 8] = [UNIT * 5 / 4, UNIT * 3 / 4, UNIT, UNIT, UNIT, UNIT, UNIT, UNIT];
/// A flow enters the cycle anywhere but in the draining entry: this many to choose from.
const CYCLE_CHOICES: u64 = 7;
/// Round trips for which a measured rate counts.
const RATE_ROUNDS: u64 = CYCLE.len() as u64 + 2;
/// The minimum round trip is measured anew after this time without a smaller one …
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
/// … with hardly anything in flight, for this long at least.
const PROBE_RTT_TIME: Duration = Duration::from_millis(200);
/// Segments then in flight, and the least window at any time.
const SEGMENTS_MIN: u64 = 4;
/// The pipe is full when the rate grew by less than a quarter …
const FULL_RATE_GROWTH: u64 = UNIT * 5 / 4;
/// … in three round trips.
const FULL_RATE_ROUNDS: u32 = 3;
/// The pace stays this much below the rate, so that no queue stands at the bottleneck.
const PACING_MARGIN_PERCENT: u64 = 1;
/// Round-trip time taken before there is one.
const NOMINAL_RTT: Duration = Duration::from_millis(1);
/// Below this rate (1.2 Mbit/s, with Linux's shift by three) frames are single segments.
const SINGLE_SEGMENT_RATE: u64 = 1_200_000 >> 3;

/// What BBR is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Mode {
    /// Doubling the rate in each round trip, until it grows no more.
    #[default]
    Startup = 0,
    /// Emptying the queue that this has built.
    Drain = 1,
    /// Steady state.
    ProbeBw = 2,
    /// Measuring the minimum round trip.
    ProbeRtt = 3,
}
weft_core::fields!(
    enum Mode {
        Startup = 0,
        Drain = 1,
        ProbeBw = 2,
        ProbeRtt = 3,
    }
);

/// BBR of one connection.
#[derive(Clone, Debug, Default)]
pub struct Bbr {
    mode: Mode,
    /// State of the generator that desynchronises flows.
    seed: u64,
    /// Acknowledgments have been seen.
    started: bool,
    /// A round-trip time is known, and the first pace was made of it.
    has_seen_rtt: bool,
    /// Bytes per second.
    pacing_rate: u64,
    pacing_gain: u64,
    cwnd_gain: u64,
    /// Largest delivery rate, bytes per second, by round trips.
    rate: MaxFilter,
    /// Smallest round-trip time; zero: none yet.
    min_rtt: Duration,
    min_rtt_at: Instant,
    /// Round trips counted, and the delivered bytes at which the present one ends.
    rounds: u64,
    round_end: u64,
    round_start: bool,
    /// Startup: the last rate that counted as growth, round trips without growth, and the verdict.
    full_rate: u64,
    full_rate_rounds: u32,
    full: bool,
    cycle_index: u8,
    cycle_at: Instant,
    probe_rtt_done_at: Option<Instant>,
    probe_rtt_round_done: bool,
    /// The connection had nothing in flight for want of data: no reason to measure the round trip by force.
    idle_restart: bool,
    /// The window to come back to after recovery or PROBE_RTT, bytes.
    prior_cwnd: u64,
    /// The connection's phase at the last acknowledgment.
    phase: Phase,
    packet_conservation: bool,
    policer: Policer,
    aggregation: Aggregation,
    /// What the last acknowledgment said, for events between two.
    last: Last,
}
weft_core::fields!(struct Bbr {
    mode, seed, started, has_seen_rtt, pacing_rate, pacing_gain, cwnd_gain, rate, min_rtt, min_rtt_at, rounds, round_end, round_start, full_rate,
    full_rate_rounds, full, cycle_index, cycle_at, probe_rtt_done_at, probe_rtt_round_done, idle_restart, prior_cwnd, phase, packet_conservation,
    policer, aggregation, last,
});

/// Totals as of the last acknowledgment.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    delivered: u64,
    delivered_at: Instant,
    lost: u64,
}
weft_core::fields!(struct Last { delivered, delivered_at, lost });

impl Bbr {
    /// A fresh instance.
    pub fn new() -> Bbr {
        Bbr { pacing_gain: HIGH_GAIN, cwnd_gain: HIGH_GAIN, ..Bbr::default() }
    }

    /// Bytes per second that the path carries: the policer's rate where there is one, else the largest measured.
    fn bandwidth(&self) -> u64 {
        self.policer.rate().unwrap_or(self.rate.get())
    }

    /// Takes the pace that belongs to a rate; in startup it never falls.
    fn set_pacing_rate(&mut self, rate: u64, gain: u64) {
        let rate = paced(rate, gain);
        if self.full || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    /// Round trips, the policer's and the maximum rate (bbr_update_bw).
    fn update_rate(&mut self, ack: &AckSample) {
        self.round_start = false;
        if !ack.has_rate() {
            return;
        }
        if ack.prior_delivered_bytes >= self.round_end {
            self.round_end = ack.delivered_bytes;
            self.rounds += 1;
            self.round_start = true;
            self.packet_conservation = false;
        }
        self.sample_policer(ack);
        // A rate that the program limited says nothing unless it is larger than what is known.
        if !ack.sample_app_limited || ack.delivery_rate_bytes_per_s >= self.rate.get() {
            self.rate.update(self.rounds, RATE_ROUNDS, ack.delivery_rate_bytes_per_s);
        }
    }

    fn sample_policer(&mut self, ack: &AckSample) {
        let in_cycle = self.mode == Mode::ProbeBw;
        match self.policer.on_ack(ack, self.round_start, in_cycle) {
            policer::PolicerVerdict::Nothing => {}
            policer::PolicerVerdict::Found => self.pacing_gain = UNIT,
            policer::PolicerVerdict::Expired => self.enter_probe_bw(ack.now),
        }
    }

    /// Is it time for the next entry of the cycle (bbr_is_next_cycle_phase)?
    fn cycle_is_over(&self, ack: &AckSample, mss: u64) -> bool {
        let full_length = ack.delivered_at.since(self.cycle_at) > self.min_rtt;
        if self.pacing_gain == UNIT {
            return full_length;
        }
        let in_flight = self.in_net_at_departure(u64::from(ack.in_flight_bytes), ack, mss);
        let rate = self.rate.get();
        if self.pacing_gain > UNIT {
            // Probing lasts until the queue stands, or the path shows that it has none.
            return full_length && (ack.newly_lost_bytes > 0 || in_flight >= self.inflight(rate, self.pacing_gain, mss));
        }
        // Draining ends early when nothing is left to drain.
        full_length || in_flight <= self.inflight(rate, UNIT, mss)
    }

    fn advance_cycle(&mut self, at: Instant) {
        self.cycle_index = (self.cycle_index + 1) % CYCLE.len() as u8;
        self.cycle_at = at;
    }

    fn update_cycle(&mut self, ack: &AckSample, mss: u64) {
        if self.mode == Mode::ProbeBw && self.cycle_is_over(ack, mss) {
            self.advance_cycle(ack.delivered_at);
        }
    }

    fn enter_probe_bw(&mut self, now: Instant) {
        self.mode = Mode::ProbeBw;
        self.cycle_index = (CYCLE.len() as u64 - 1 - self.draw(CYCLE_CHOICES)) as u8;
        self.advance_cycle(now);
    }

    /// A number below `bound`; SplitMix64 (Steele, Lea, Flood 2014).
    fn draw(&mut self, bound: u64) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.seed;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    /// Startup ends when three round trips brought less than a quarter more (bbr_check_full_bw_reached).
    fn check_full_pipe(&mut self, ack: &AckSample) {
        if self.full || !self.round_start || ack.sample_app_limited {
            return;
        }
        let rate = self.rate.get();
        if u128::from(rate) * u128::from(UNIT) >= u128::from(self.full_rate) * u128::from(FULL_RATE_GROWTH) {
            self.full_rate = rate;
            self.full_rate_rounds = 0;
            return;
        }
        self.full_rate_rounds += 1;
        self.full = self.full_rate_rounds >= FULL_RATE_ROUNDS;
    }

    fn check_drain(&mut self, ack: &AckSample, w: &mut Window) {
        let mss = u64::from(w.segment_bytes());
        if self.mode == Mode::Startup && self.full {
            self.mode = Mode::Drain;
            // For display: a loss-based control would go on from here.
            w.set_ssthresh(self.inflight(self.rate.get(), UNIT, mss));
        }
        if self.mode == Mode::Drain {
            let in_flight = self.in_net_at_departure(u64::from(ack.in_flight_after_bytes), ack, mss);
            if in_flight <= self.inflight(self.rate.get(), UNIT, mss) {
                self.enter_probe_bw(ack.delivered_at);
            }
        }
    }

    /// The minimum round trip, and PROBE_RTT when it is too old (bbr_update_min_rtt).
    fn update_min_rtt(&mut self, ack: &AckSample, w: &mut Window) {
        let expired = ack.now.since(self.min_rtt_at) > MIN_RTT_WINDOW;
        if let Some(rtt) = ack.rtt.filter(|rtt| self.min_rtt.is_zero() || *rtt < self.min_rtt || (expired && !ack.maybe_delayed)) {
            self.min_rtt = rtt;
            self.min_rtt_at = ack.now;
        }
        if expired && !self.idle_restart && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.save_cwnd(w);
            self.probe_rtt_done_at = None;
        }
        if self.mode == Mode::ProbeRtt {
            let few = u64::from(ack.in_flight_after_bytes) <= SEGMENTS_MIN * u64::from(w.segment_bytes());
            match self.probe_rtt_done_at {
                None if few => {
                    self.probe_rtt_done_at = Some(ack.now + PROBE_RTT_TIME);
                    self.probe_rtt_round_done = false;
                    self.round_end = ack.delivered_bytes;
                }
                None => {}
                Some(_) => {
                    self.probe_rtt_round_done |= self.round_start;
                    if self.probe_rtt_round_done {
                        self.end_probe_rtt(ack.now, w);
                    }
                }
            }
        }
        if ack.has_rate() {
            self.idle_restart = false;
        }
    }

    /// Both the time and a round trip have passed.
    fn end_probe_rtt(&mut self, now: Instant, w: &mut Window) {
        if self.probe_rtt_done_at.is_none_or(|done| now <= done) {
            return;
        }
        self.min_rtt_at = now;
        w.set_cwnd(u64::from(w.cwnd_bytes).max(self.prior_cwnd));
        if self.full {
            self.enter_probe_bw(now);
        } else {
            self.mode = Mode::Startup;
        }
    }

    fn update_gains(&mut self) {
        (self.pacing_gain, self.cwnd_gain) = match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeBw if self.policer.rate().is_some() => (UNIT, CWND_GAIN),
            Mode::ProbeBw => (CYCLE[usize::from(self.cycle_index) % CYCLE.len()], CWND_GAIN),
            Mode::ProbeRtt => (UNIT, UNIT),
        };
    }

    /// The first acknowledgment: what a connection that was under another control knows already is taken over.
    fn start(&mut self, ack: &AckSample) {
        if !self.started {
            self.started = true;
            self.round_end = ack.delivered_bytes.saturating_sub(ack.newly_delivered_bytes().into());
            self.min_rtt = ack.min_rtt;
            self.min_rtt_at = ack.now;
            self.aggregation.restart(ack.now);
            self.policer.reset(ack);
        }
        self.last = Last { delivered: ack.delivered_bytes, delivered_at: ack.delivered_at, lost: ack.lost_bytes };
    }

    /// A timeout is the end of a round trip, and perhaps of a path that is no more (bbr_set_state).
    fn on_timeout(&mut self, now: Instant, in_flight_bytes: u32, w: &mut Window) {
        self.save_cwnd(w);
        self.phase = Phase::Loss;
        self.full_rate = 0;
        self.round_start = true;
        let lost = AckSample {
            now,
            newly_lost_bytes: in_flight_bytes.max(1),
            delivered_bytes: self.last.delivered,
            delivered_at: self.last.delivered_at,
            lost_bytes: self.last.lost + u64::from(in_flight_bytes),
            ..AckSample::default()
        };
        self.sample_policer(&lost);
        w.set_cwnd(0);
    }

    /// The first segment after a pause in which the program had nothing to send (bbr_cwnd_event).
    fn on_restart(&mut self, now: Instant, w: &mut Window) {
        self.idle_restart = true;
        self.aggregation.restart(now);
        match self.mode {
            // Not faster than what is known: the queue is empty, and shall stay so.
            Mode::ProbeBw => self.set_pacing_rate(self.bandwidth(), UNIT),
            Mode::ProbeRtt => self.end_probe_rtt(now, w),
            Mode::Startup | Mode::Drain => {}
        }
    }
}

/// The pace for a rate with a gain, less the margin.
fn paced(rate: u64, gain: u64) -> u64 {
    let rate = u128::from(rate) * u128::from(gain) / u128::from(UNIT) * u128::from(100 - PACING_MARGIN_PERCENT) / 100;
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// A window in a round-trip time, at the gain of startup: the pace before a rate was measured.
fn first_pace(w: &Window, srtt: Duration) -> u64 {
    let rtt = if srtt.is_zero() { NOMINAL_RTT } else { srtt };
    let rate = u128::from(w.cwnd_bytes) * 1_000_000_000 / rtt.as_nanos().max(1);
    paced(u64::try_from(rate).unwrap_or(u64::MAX), HIGH_GAIN)
}

impl CongestionControl for Bbr {
    fn name(&self) -> &'static str {
        "bbr"
    }

    fn init(&mut self, w: &mut Window, now: Instant) {
        *self = Bbr { seed: self.seed, min_rtt_at: now, ..Bbr::new() };
        w.ssthresh_bytes = u32::MAX;
        w.set_cwnd(u64::from(initial_window_bytes(w.mss, 0)));
    }

    fn seed(&mut self, seed: u64) {
        self.seed = seed;
    }

    /// bbr_init: "bbr->min_rtt_us = tcp_min_rtt(tp);"
    fn learn_min_rtt(&mut self, min_rtt: Duration) {
        self.min_rtt = min_rtt;
    }

    fn on_ack(&mut self, ack: &AckSample, w: &mut Window) {
        let mss = u64::from(w.segment_bytes());
        self.start(ack);
        self.update_rate(ack);
        self.aggregation.on_ack(ack, self.bandwidth(), self.round_start, w.cwnd_bytes);
        self.update_cycle(ack, mss);
        self.check_full_pipe(ack);
        self.check_drain(ack, w);
        self.update_min_rtt(ack, w);
        self.update_gains();
        if !self.has_seen_rtt && !ack.srtt.is_zero() {
            self.has_seen_rtt = true;
            self.pacing_rate = first_pace(w, ack.srtt);
        }
        self.set_pacing_rate(self.bandwidth(), self.pacing_gain);
        self.set_cwnd(ack, w);
    }

    fn on_event(&mut self, now: Instant, event: CongestionEvent, in_flight_bytes: u32, w: &mut Window) {
        match event {
            // Linux asks for a threshold there; BBR has none, and remembers the window.
            CongestionEvent::Loss | CongestionEvent::Ecn => self.save_cwnd(w),
            CongestionEvent::Timeout => self.on_timeout(now, in_flight_bytes, w),
            CongestionEvent::Undo => {
                // Nothing was reduced; but what looked like a full pipe or a policer may have been the mistake.
                self.full_rate = 0;
                self.full_rate_rounds = 0;
                self.policer.forget(self.last.delivered, self.last.delivered_at, self.last.lost);
            }
            CongestionEvent::Restart { app_limited: true } => self.on_restart(now, w),
            CongestionEvent::Restart { .. } | CongestionEvent::Idle(_) | CongestionEvent::RecoveryDone => {}
        }
    }

    fn pacing_rate_bytes_per_s(&self, w: &Window, srtt: Duration) -> Option<u64> {
        Some(if self.has_seen_rtt { self.pacing_rate.max(1) } else { first_pace(w, srtt).max(1) })
    }

    fn owns_recovery(&self) -> bool {
        true
    }

    fn limits_itself(&self) -> bool {
        self.mode == Mode::ProbeRtt
    }

    fn frame_segments_min(&self, rate_bytes_per_s: u64) -> u32 {
        if rate_bytes_per_s < SINGLE_SEGMENT_RATE { 1 } else { crate::pacing::FRAME_SEGMENTS_MIN }
    }

    /// `struct tcp_bbr_info` (include/uapi/linux/inet_diag.h): bandwidth in two halves, minimum RTT in µs, both gains in 1/256.
    fn cc_info(&self) -> Vec<u32> {
        let bandwidth = self.bandwidth();
        let min_rtt = u32::try_from(self.min_rtt.as_micros()).ok().filter(|us| *us > 0).unwrap_or(u32::MAX);
        vec![bandwidth as u32, (bandwidth >> 32) as u32, min_rtt, self.pacing_gain as u32, self.cwnd_gain as u32]
    }

    fn info(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("mode", self.mode as u64),
            ("bandwidth_bytes_per_s", self.bandwidth()),
            ("min_rtt_us", u64::try_from(self.min_rtt.as_micros()).unwrap_or(u64::MAX)),
            ("pacing_rate_bytes_per_s", self.pacing_rate),
            ("pacing_gain_256th", self.pacing_gain),
            ("cwnd_gain_256th", self.cwnd_gain),
            ("rounds", self.rounds),
            ("full", self.full.into()),
            ("cycle_index", self.cycle_index.into()),
            ("policer", self.policer.rate().is_some().into()),
            ("extra_acked_bytes", self.aggregation.extra_bytes()),
        ]
    }

    fn export(&self, out: &mut Writer) {
        out.put(self);
    }

    fn import(&mut self, from: &mut Reader<'_>) -> Result<(), Damage> {
        let read: Bbr = from.take()?;
        if usize::from(read.cycle_index) >= CYCLE.len()
            || read.pacing_gain > GAIN_MAX
            || read.cwnd_gain > GAIN_MAX
            || !read.rate.is_of(read.rounds)
        {
            return Err(Damage::new("BBR has no such phase, gain or rate"));
        }
        *self = read;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
