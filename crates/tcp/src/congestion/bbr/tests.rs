//! The states, one acknowledgment a round trip: a path of 40 ms that carries what it is told to.

use super::super::tests::{exported, forged, imported};
use super::super::{CWND_BYTES_MAX, CongestionControl, CongestionEvent};
use super::*;
use proptest::prelude::*;

const MSS: u32 = 1_000;
const RTT: Duration = Duration::from_millis(40);
/// Bytes per second of the path.
const RATE: u64 = 5_000_000;
/// Bandwidth times delay.
const BDP: u64 = 200_000;

struct Path {
    bbr: Bbr,
    w: Window,
    now: Instant,
    delivered: u64,
    lost: u64,
    phase: Phase,
}

impl Path {
    fn new() -> Path {
        let mut bbr = Bbr::new();
        bbr.seed(1);
        let mut w = Window::new(MSS);
        let now = Instant::from_millis(1000);
        bbr.init(&mut w, now);
        Path { bbr, w, now, delivered: 0, lost: 0, phase: Phase::Open }
    }
    fn sample(&mut self, rate: u64, lost: u32, in_flight_after: u64) -> AckSample {
        let bytes = rate * RTT.as_millis() as u64 / 1000;
        let prior = self.delivered;
        self.now += RTT;
        self.delivered += bytes;
        self.lost += u64::from(lost);
        AckSample {
            now: self.now,
            newly_acked_bytes: bytes as u32,
            newly_lost_bytes: lost,
            rtt: Some(RTT),
            min_rtt: RTT,
            srtt: RTT,
            in_flight_bytes: (in_flight_after + bytes) as u32,
            in_flight_after_bytes: in_flight_after as u32,
            phase: self.phase,
            delivered_bytes: self.delivered,
            delivered_at: self.now,
            lost_bytes: self.lost,
            delivery_rate_bytes_per_s: rate,
            prior_delivered_bytes: prior,
            next_departure: self.now,
            ..AckSample::default()
        }
    }
    /// A round trip at a rate.
    fn round(&mut self, rate: u64, in_flight_after: u64) {
        let ack = self.sample(rate, 0, in_flight_after);
        self.bbr.on_ack(&ack, &mut self.w);
    }
    fn pace(&self) -> u64 {
        self.bbr.pacing_rate_bytes_per_s(&self.w, RTT).unwrap()
    }
    /// Startup, drain, and into the cycle.
    fn steady() -> Path {
        let mut path = Path::new();
        for _ in 0..4 {
            path.round(RATE, 2 * BDP);
        }
        assert_eq!(path.bbr.mode, Mode::Drain);
        path.round(RATE, BDP / 2);
        assert_eq!(path.bbr.mode, Mode::ProbeBw);
        path
    }
}

#[test]
fn the_first_pace_is_a_window_in_a_round_trip_at_the_high_gain() {
    let path = Path::new();
    // 10 segments in 40 ms are 250 kB/s; 739/256 of it less one percent.
    assert_eq!(path.pace(), 250_000 * 739 / 256 * 99 / 100);
    // Nothing measured: a millisecond.
    assert_eq!(path.bbr.pacing_rate_bytes_per_s(&path.w, Duration::ZERO), Some(10_000_000 * 739 / 256 * 99 / 100));
}

#[test]
fn startup_lasts_as_long_as_the_rate_grows_by_a_quarter_and_three_rounds_more() {
    let mut path = Path::new();
    let mut rate = 100_000;
    for _ in 0..12 {
        path.round(rate, BDP);
        assert_eq!(path.bbr.mode, Mode::Startup);
        assert_eq!(path.pace(), (rate * 739 / 256 * 99 / 100).max(path.pace()));
        rate = rate * 5 / 4 + 1;
    }
    let last = path.bbr.rate.get();
    for _ in 0..2 {
        path.round(last, 10 * BDP);
        assert_eq!(path.bbr.mode, Mode::Startup);
    }
    path.round(last, 10 * BDP);
    assert_eq!((path.bbr.mode, path.bbr.full), (Mode::Drain, true));
    assert_eq!(path.pace(), last * 88 / 256 * 99 / 100, "the queue is emptied as fast as it was built");
}

#[test]
fn a_rate_that_the_program_limits_neither_ends_startup_nor_lowers_the_maximum() {
    let mut path = Path::new();
    path.round(RATE, BDP);
    for _ in 0..30 {
        let ack = AckSample { sample_app_limited: true, ..path.sample(RATE / 10, 0, MSS.into()) };
        path.bbr.on_ack(&ack, &mut path.w);
    }
    assert_eq!((path.bbr.mode, path.bbr.rate.get()), (Mode::Startup, RATE));
    // A larger one counts.
    let ack = AckSample { sample_app_limited: true, ..path.sample(RATE * 2, 0, MSS.into()) };
    path.bbr.on_ack(&ack, &mut path.w);
    assert_eq!(path.bbr.rate.get(), RATE * 2);
}

#[test]
fn the_cycle_probes_drains_and_cruises_around_the_rate() {
    let mut path = Path::steady();
    let mut gains = Vec::new();
    for _ in 0..24 {
        // Enough in flight to have probed, little enough to have drained.
        let in_flight = if path.bbr.pacing_gain > UNIT { 2 * BDP } else { BDP / 2 };
        path.now += Duration::from_millis(1);
        path.round(RATE, in_flight);
        assert_eq!(path.bbr.mode, Mode::ProbeBw);
        assert_eq!(path.pace(), RATE * path.bbr.pacing_gain / 256 * 99 / 100);
        gains.push(path.bbr.pacing_gain);
    }
    let probe = gains.iter().position(|gain| *gain == 320).unwrap();
    assert_eq!(gains[probe..probe + 8], [320, 192, 256, 256, 256, 256, 256, 256]);
    assert_eq!(gains[probe + 8..probe + 10], [320, 192]);
    // Twice the product, three frames of a millisecond, an even number of segments (and two more while it probes),
    let frame = RATE * 99 / 100 * path.bbr.pacing_gain / 256 / 1024 / u64::from(MSS);
    // and the aggregation that one acknowledgment a round trip is.
    let segments = (2 * BDP + path.bbr.aggregation.extra_bytes()) / u64::from(MSS) + 3 * frame;
    assert!((segments..=segments + 8).contains(&u64::from(path.w.cwnd_bytes / MSS)), "{} and {segments}", path.w.cwnd_bytes / MSS);
}

#[test]
fn probing_waits_until_the_queue_stands_or_something_is_lost() {
    let mut path = Path::steady();
    while path.bbr.pacing_gain != 320 {
        path.now += Duration::from_millis(1);
        path.round(RATE, BDP / 2);
    }
    for _ in 0..5 {
        path.now += Duration::from_millis(1);
        let ack = AckSample { in_flight_bytes: BDP as u32, ..path.sample(RATE, 0, BDP / 2) };
        path.bbr.on_ack(&ack, &mut path.w);
        assert_eq!(path.bbr.pacing_gain, 320);
    }
    let ack = AckSample { in_flight_bytes: BDP as u32, ..path.sample(RATE, MSS, BDP / 2) };
    path.bbr.on_ack(&ack, &mut path.w);
    assert_eq!(path.bbr.pacing_gain, 192);
}

#[test]
fn a_lower_rate_is_believed_after_ten_rounds() {
    let mut path = Path::steady();
    for round in 0..10 {
        path.now += Duration::from_millis(1);
        path.round(RATE / 2, BDP / 2);
        assert_eq!(path.bbr.rate.get(), RATE, "round {round}");
    }
    path.round(RATE / 2, BDP / 2);
    assert_eq!(path.bbr.rate.get(), RATE / 2);
}

#[test]
fn every_ten_seconds_the_minimum_is_measured_with_four_segments_in_flight() {
    let mut path = Path::steady();
    let began = path.bbr.min_rtt_at;
    let longer = |path: &mut Path, in_flight| {
        let ack = AckSample { rtt: Some(RTT * 2), ..path.sample(RATE, 0, in_flight) };
        path.bbr.on_ack(&ack, &mut path.w);
    };
    while path.bbr.mode == Mode::ProbeBw {
        longer(&mut path, BDP);
    }
    assert_eq!(path.bbr.mode, Mode::ProbeRtt);
    assert!((Duration::from_secs(10)..Duration::from_millis(10_100)).contains(&path.now.since(began)));
    assert_eq!(path.w.cwnd_bytes, 4 * MSS);
    assert!(path.bbr.limits_itself());
    assert_eq!(path.bbr.min_rtt, RTT * 2, "the old minimum is forgotten");
    // The time runs from when so little is in flight.
    longer(&mut path, BDP);
    let low = path.now + RTT;
    while path.bbr.mode == Mode::ProbeRtt {
        longer(&mut path, 4 * u64::from(MSS));
        assert!(path.now.since(low) <= Duration::from_millis(300));
    }
    assert!(path.now.since(low) > Duration::from_millis(200));
    assert_eq!(path.bbr.mode, Mode::ProbeBw);
    assert!(u64::from(path.w.cwnd_bytes) >= BDP, "the window is back: {}", path.w.cwnd_bytes);
}

#[test]
fn a_recovery_begins_with_a_round_of_conservation_and_ends_with_the_old_window() {
    let mut path = Path::steady();
    path.round(RATE, BDP / 2);
    let before = path.w.cwnd_bytes;
    path.bbr.on_event(path.now, CongestionEvent::Loss, 0, &mut path.w);
    path.phase = Phase::Recovery;
    let ack = AckSample { newly_acked_bytes: 2 * MSS, ..path.sample(RATE, 3 * MSS, 50_000) };
    path.bbr.on_ack(&ack, &mut path.w);
    assert_eq!(path.w.cwnd_bytes, 50_000 + 2 * MSS, "in flight, and what was delivered");
    // The same round trip: still conserved, and losses count.
    let ack = AckSample { newly_acked_bytes: MSS, prior_delivered_bytes: 0, ..path.sample(RATE, MSS, 49_000) };
    path.bbr.on_ack(&ack, &mut path.w);
    assert_eq!(path.w.cwnd_bytes, 51_000);
    path.phase = Phase::Open;
    let ack = AckSample { newly_acked_bytes: MSS, ..path.sample(RATE, 0, 50_000) };
    path.bbr.on_ack(&ack, &mut path.w);
    assert!(path.w.cwnd_bytes >= before.min(path.w.cwnd_bytes) && path.w.cwnd_bytes > 200_000, "{}", path.w.cwnd_bytes);
}

#[test]
fn a_timeout_leaves_one_segment_and_the_model() {
    let mut path = Path::steady();
    path.bbr.on_event(path.now, CongestionEvent::Timeout, 100_000, &mut path.w);
    assert_eq!((path.w.cwnd_bytes, path.bbr.rate.get()), (MSS, RATE));
    path.phase = Phase::Loss;
    let ack = AckSample { newly_acked_bytes: MSS, ..path.sample(RATE, 0, 0) };
    path.bbr.on_ack(&ack, &mut path.w);
    assert!(path.w.cwnd_bytes >= 4 * MSS);
    path.phase = Phase::Open;
    let ack = AckSample { newly_acked_bytes: MSS, ..path.sample(RATE, 0, 0) };
    path.bbr.on_ack(&ack, &mut path.w);
    assert!(path.w.cwnd_bytes > 200_000, "the window from before: {}", path.w.cwnd_bytes);
}

#[test]
fn two_lossy_intervals_at_one_rate_are_a_policer_whose_rate_is_kept_for_48_rounds() {
    let mut path = Path::steady();
    let limit = RATE / 2;
    let mut rounds = 0;
    while path.bbr.policer.rate().is_none() {
        // More than a fifth is lost.
        let ack = path.sample(limit, (limit / 25 / 3) as u32, BDP / 2);
        path.bbr.on_ack(&ack, &mut path.w);
        rounds += 1;
        assert!(rounds < 20, "no policer was found");
    }
    assert!(rounds >= 8, "two intervals of four round trips: {rounds}");
    let found = path.bbr.policer.rate().unwrap();
    assert!(found.abs_diff(limit) < limit / 20, "{found}");
    assert_eq!(path.bbr.bandwidth(), found);
    for _ in 0..47 {
        path.now += Duration::from_millis(1);
        path.round(limit, BDP / 2);
        assert_eq!(path.bbr.policer.rate(), Some(found));
        assert_eq!(path.pace(), found * 99 / 100, "no probing beyond it");
    }
    path.round(limit, BDP / 2);
    assert_eq!(path.bbr.policer.rate(), None);
}

#[test]
fn fewer_losses_or_other_rates_are_no_policer() {
    for (share, growth) in [(10, 100), (3, 130)] {
        let mut path = Path::steady();
        let mut rate = RATE / 2;
        for round in 0..60 {
            rate = if round % 4 == 0 { rate * growth / 100 } else { rate };
            let ack = path.sample(rate, (rate / 25 / share) as u32, BDP / 2);
            path.bbr.on_ack(&ack, &mut path.w);
            assert_eq!(path.bbr.policer.rate(), None, "a loss of 1/{share}, round {round}");
        }
    }
}

#[test]
fn after_a_pause_it_goes_on_at_the_rate_and_does_not_measure_the_minimum_by_force() {
    let mut path = Path::steady();
    while path.bbr.pacing_gain != 320 {
        path.now += Duration::from_millis(1);
        path.round(RATE, BDP / 2);
    }
    path.now += Duration::from_secs(30);
    path.bbr.on_event(path.now, CongestionEvent::Restart { app_limited: true }, 0, &mut path.w);
    assert_eq!(path.pace(), RATE * 99 / 100);
    path.round(RATE, 0);
    assert_eq!(path.bbr.mode, Mode::ProbeBw);
}

#[test]
fn acknowledgments_in_bursts_widen_the_window() {
    // Each round trip in twenty acknowledgments: evenly, or in its last two milliseconds.
    let window = |spacing: Duration| {
        let mut path = Path::steady();
        // What startup saw at once is explained by the time.
        path.now += RTT * 3;
        for _ in 0..40 {
            path.now += RTT - spacing * 20;
            for _ in 0..20 {
                path.now += spacing;
                let whole = path.sample(RATE / 20, 0, BDP / 2);
                path.now = path.now - RTT;
                let (delivered_at, prior) = (path.now, path.delivered.saturating_sub(BDP));
                let ack = AckSample { now: path.now, delivered_at, delivery_rate_bytes_per_s: RATE, prior_delivered_bytes: prior, ..whole };
                path.bbr.on_ack(&ack, &mut path.w);
            }
        }
        (path.w.cwnd_bytes, path.bbr.aggregation.extra_bytes())
    };
    let (even, little) = window(Duration::from_millis(2));
    let (bursts, much) = window(Duration::from_micros(100));
    assert!(little < 40_000 && much > 150_000, "{little} and {much} bytes more than expected");
    assert!(bursts > even + 100_000, "{bursts} and {even}");
}

#[test]
fn flows_enter_the_cycle_at_different_places_and_never_in_the_draining_one() {
    let mut seen = [0; 8];
    for seed in 0..200 {
        let mut bbr = Bbr::new();
        bbr.seed(seed);
        bbr.enter_probe_bw(Instant::ZERO);
        seen[usize::from(bbr.cycle_index)] += 1;
    }
    assert_eq!(seen[1], 0);
    assert!(seen.iter().enumerate().all(|(index, count)| index == 1 || *count > 10), "{seen:?}");
}

#[test]
fn tcp_cc_info_is_the_struct_of_inet_diag() {
    let mut path = Path::steady();
    path.bbr.rate = MaxFilter::default();
    path.bbr.rate.update(0, RATE_ROUNDS, 5_000_000_000);
    assert_eq!(path.bbr.cc_info(), [705_032_704, 1, 40_000, 256, 512]);
    assert_eq!(Bbr::new().cc_info()[2], u32::MAX, "no round trip yet");
}

#[test]
fn a_model_that_was_handed_over_goes_on() {
    let path = Path::steady();
    let mut new = Bbr::new();
    let now = Instant::from_millis(99_000);
    let state = exported(&path.bbr, now);
    imported(&mut new, &state, now).unwrap();
    assert_eq!((new.mode, new.rate.get(), new.min_rtt), (Mode::ProbeBw, RATE, RTT));
    assert_eq!(exported(&new, now), state);
}

proptest! {
    /// No sequence of events panics, overflows or leaves the window's bounds; a pace is always given.
    #[test]
    fn nothing_that_happens_breaks_it(
        mss in prop_oneof![Just(0u32), 1u32..10_000, any::<u32>()],
        garbage in prop::collection::vec(any::<(u16, u8)>(), 1..9),
        import in any::<bool>(),
        steps in prop::collection::vec((0u8..9, any::<u32>(), any::<u64>(), 0u64..1_000_000_000, 0u8..5), 1..100),
    ) {
        let mut bbr = Bbr::new();
        let mut w = Window::new(mss);
        bbr.init(&mut w, Instant::ZERO);
        if import {
            let _ = imported(&mut bbr, &forged(&exported(&Path::steady().bbr, Instant::ZERO), &garbage), Instant::ZERO);
        }
        let mut now = Instant::ZERO;
        let phases = [Phase::Open, Phase::Disorder, Phase::Cwr, Phase::Recovery, Phase::Loss];
        let mut delivered = 0u64;
        for (kind, bytes, rate, wait, phase) in steps {
            now += Duration::from_nanos(wait);
            let event = match kind {
                0 => Some(CongestionEvent::Loss),
                1 => Some(CongestionEvent::Timeout),
                2 => Some(CongestionEvent::Undo),
                3 => Some(CongestionEvent::Restart { app_limited: bytes % 2 == 0 }),
                _ => None,
            };
            match event {
                Some(event) => bbr.on_event(now, event, bytes, &mut w),
                None => {
                    let prior = delivered;
                    delivered += u64::from(bytes);
                    let ack = AckSample {
                        now,
                        newly_acked_bytes: bytes,
                        newly_lost_bytes: (rate >> 40) as u32,
                        rtt: Some(Duration::from_nanos(rate >> 8)),
                        srtt: Duration::from_nanos(wait),
                        in_flight_bytes: (rate >> 32) as u32,
                        in_flight_after_bytes: (rate >> 33) as u32,
                        phase: phases[usize::from(phase)],
                        delivered_bytes: delivered,
                        delivered_at: now,
                        lost_bytes: rate,
                        delivery_rate_bytes_per_s: if kind == 4 { 0 } else { rate },
                        prior_delivered_bytes: prior,
                        next_departure: now + Duration::from_nanos(wait),
                        ..AckSample::default()
                    };
                    bbr.on_ack(&ack, &mut w);
                }
            }
            prop_assert!(w.cwnd_bytes >= w.segment_bytes() && w.cwnd_bytes <= CWND_BYTES_MAX);
            prop_assert!(bbr.pacing_rate_bytes_per_s(&w, Duration::ZERO).is_some_and(|rate| rate > 0));
            let _ = (bbr.info(), bbr.cc_info(), exported(&bbr, now));
        }
    }
}
