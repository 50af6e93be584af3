use super::*;
use proptest::prelude::*;

const MS: Duration = Duration::from_millis(1);

/// An estimator without a floor: RFC 6298 itself, but for Linux's round trips.
fn unbounded() -> RttEstimator {
    RttEstimator::new(RtoBounds { min: Duration::ZERO, ..RtoBounds::default() })
}

/// Feeds samples in ms, each in a round trip of its own.
fn feed(estimator: &mut RttEstimator, samples_ms: &[u64]) {
    for (n, sample) in samples_ms.iter().enumerate() {
        let n = u32::try_from(n).unwrap_or(u32::MAX);
        estimator.on_sample(
            Instant::from_millis(u64::from(n) * 100),
            MS * u32::try_from(*sample).unwrap_or(u32::MAX),
            Seq(n * 2),
            Seq(n * 2 + 1),
            false,
        );
    }
}

#[test]
fn before_a_sample_the_timeout_is_a_second() {
    let mut estimator = RttEstimator::default();
    assert_eq!((estimator.rto(), estimator.srtt(), estimator.min_rtt(), estimator.latest()), (RTO_INITIAL, None, None, None));
    estimator.back_off();
    assert_eq!(estimator.rto(), Duration::from_secs(2), "§2.1: the backing off still applies");
}

/// §2.2 with R = 100 ms: SRTT 100, RTTVAR 50, RTO 100 + 4 * 50.
#[test]
fn first_sample() {
    let mut estimator = unbounded();
    feed(&mut estimator, &[100]);
    assert_eq!((estimator.srtt(), estimator.mean_deviation(), estimator.rto()), (Some(100 * MS), 50 * MS, 300 * MS));
}

/// §2.3 with R' = 140 ms after that: RTTVAR 3/4 * 50 + 1/4 * 40 = 47.5, SRTT 7/8 * 100 + 1/8 * 140 = 105.
#[test]
fn second_sample() {
    let mut estimator = unbounded();
    feed(&mut estimator, &[100, 140]);
    assert_eq!((estimator.srtt(), estimator.mean_deviation()), (Some(105 * MS), MS * 475 / 10));
    // Linux: RTTVAR is the largest of the first round trip, and sinks by a quarter of the distance at the end of each one after it.
    assert_eq!(estimator.rto(), 305 * MS);
    estimator.on_sample(Instant::ZERO, 105 * MS, Seq(100), Seq(101), false);
    // 3/4 * 47.5 = 35.625; 50 - (50 - 35.625) / 4.
    assert_eq!((estimator.mean_deviation(), estimator.rttvar()), (Duration::from_nanos(35_625_000), Duration::from_nanos(46_406_250)));
}

/// A sample above the mean raises RTTVAR at once: 100, 100, 500 ms.
#[test]
fn a_late_sample_raises_the_timeout_at_once() {
    let mut estimator = unbounded();
    feed(&mut estimator, &[100, 100]);
    // |100 - 100| = 0: 37.5 smoothed per sample, and still 50 over the first round trip.
    assert_eq!((estimator.mean_deviation(), estimator.rttvar()), (Duration::from_micros(37_500), 50 * MS));
    feed(&mut estimator, &[500]);
    // 3/4 * 37.5 + 1/4 * 400 = 128.125.
    assert_eq!((estimator.srtt(), estimator.mean_deviation()), (Some(150 * MS), Duration::from_micros(128_125)));
    assert_eq!(estimator.rto(), Duration::from_micros(150_000 + 4 * 128_125));
}

/// A sample far below the mean hardly raises the deviation: an eighth of what RFC 6298 adds.
#[test]
fn an_early_sample_hardly_raises_the_timeout() {
    let mut estimator = unbounded();
    feed(&mut estimator, &[1_000; 100]);
    let before = estimator.mean_deviation();
    assert!(before < MS, "{before:?}");
    feed(&mut estimator, &[200]);
    assert_eq!(estimator.srtt(), Some(900 * MS));
    // RFC: 1/4 * 800 = 200 ms.
    assert!(estimator.mean_deviation() > 24 * MS && estimator.mean_deviation() < 26 * MS, "{:?}", estimator.mean_deviation());
}

/// Linux 6.18 (HZ 250) after one sample of 101.659 ms, then on a steady path: `tcpi_rto` 308 and 304 ms, which is ours rounded up to its
/// jiffies of 4 ms.
#[test]
fn the_timeout_is_the_kernels() {
    let jiffies = |rto: Duration| rto.as_micros().div_ceil(4_000) * 4_000;
    let mut estimator = RttEstimator::default();
    estimator.on_sample(Instant::ZERO, Duration::from_micros(101_659), Seq(1), Seq(1), false);
    assert_eq!((jiffies(estimator.rto()), estimator.mean_deviation()), (308_000, Duration::from_nanos(50_829_500)));
    let mut estimator = RttEstimator::default();
    feed(&mut estimator, &[103; 200]);
    assert_eq!(jiffies(estimator.rto()), 304_000);
}

/// However steady the path, the timeout stays 200 ms above SRTT; with any samples it is never below.
#[test]
fn the_floor_is_on_the_deviation() {
    let mut estimator = RttEstimator::default();
    feed(&mut estimator, &[10; 200]);
    assert_eq!(estimator.rto(), 210 * MS);
    let mut estimator = RttEstimator::default();
    feed(&mut estimator, &[1_000; 200]);
    assert_eq!(estimator.rto(), 1_200 * MS);
}

/// Inside a round trip RTTVAR does not sink, so a train of equal samples cannot wipe out what one late ACK has shown.
#[test]
fn a_train_of_samples_counts_once_per_round_trip() {
    let mut estimator = unbounded();
    feed(&mut estimator, &[100, 300]);
    let raised = estimator.rttvar();
    let srtt = estimator.srtt();
    // Round end is 3 now; none of these passes it.
    for _ in 0..50 {
        estimator.on_sample(Instant::from_millis(500), 100 * MS, Seq(3), Seq(10), false);
    }
    assert_eq!(estimator.rttvar(), raised);
    assert!(estimator.srtt() < srtt);
    estimator.on_sample(Instant::from_millis(500), 100 * MS, Seq(4), Seq(10), false);
    assert!(estimator.rttvar() <= raised);
}

#[test]
fn backoff_doubles_to_the_maximum_and_ends_with_a_sample_or_progress() {
    let mut estimator = RttEstimator::default();
    feed(&mut estimator, &[100; 100]);
    let base = estimator.rto();
    for doublings in 1..=40u32 {
        estimator.back_off();
        let expected = if doublings < 20 { (base * (1 << doublings)).min(RTO_MAX) } else { RTO_MAX };
        assert_eq!(estimator.rto(), expected, "{doublings}");
    }
    assert_eq!(estimator.base_rto(), base);
    estimator.reset_backoff();
    assert_eq!(estimator.rto(), base);
    estimator.back_off();
    feed(&mut estimator, &[100]);
    assert_eq!(estimator.backoffs(), 0);
}

#[test]
fn a_lost_syn_makes_the_first_data_timeout_three_seconds() {
    let mut estimator = RttEstimator::default();
    estimator.back_off();
    estimator.handshake_without_sample();
    assert_eq!(estimator.rto(), RTO_AFTER_LOST_SYN);
    feed(&mut estimator, &[100]);
    assert_eq!(estimator.rto(), 300 * MS);
}

#[test]
fn the_minimum_forgets_after_five_minutes() {
    let mut estimator = RttEstimator::default();
    let at = |estimator: &mut RttEstimator, seconds: u64, ms: u32, delayed: bool| {
        estimator.on_sample(Instant::from_millis(seconds * 1000), MS * ms, Seq(0), Seq(0), delayed);
        estimator.min_rtt()
    };
    assert_eq!(at(&mut estimator, 0, 50, false), Some(50 * MS));
    assert_eq!(at(&mut estimator, 10, 40, false), Some(40 * MS));
    for second in 11..310 {
        assert_eq!(at(&mut estimator, second, 60, false), Some(40 * MS), "{second} s");
    }
    assert_eq!(at(&mut estimator, 311, 60, false), Some(60 * MS));
    assert_eq!(at(&mut estimator, 312, 30, false), Some(30 * MS), "a smaller one counts at once");
    // A sample that may hold the peer's delay does not raise it, even after the window.
    assert_eq!(at(&mut estimator, 1_000, 70, true), Some(30 * MS));
    assert_eq!(at(&mut estimator, 1_001, 70, false), Some(70 * MS));
}

/// The smallest sample of the last 300 s.
fn exact_minimum(samples: &[(u64, u64)], now_ms: u64) -> u64 {
    samples.iter().filter(|(at, _)| now_ms - at <= 300_000).map(|(_, value)| *value).min().unwrap_or(u64::MAX)
}

proptest! {
    /// The minimum is one of the samples, is never above the newest, and never below the exact minimum of the window.
    #[test]
    fn the_minimum_is_a_real_sample(steps in prop::collection::vec((0u64..100_000, 1u64..1_000_000), 1..200)) {
        let mut filter = MinFilter::default();
        let mut seen = Vec::new();
        let mut now_ms = 0;
        for (wait_ms, value) in steps {
            now_ms += wait_ms;
            seen.push((now_ms, value));
            filter.update(Instant::from_millis(now_ms), value);
            let minimum = filter.get().unwrap_or(0);
            prop_assert!(minimum <= value);
            prop_assert!(minimum >= exact_minimum(&seen, now_ms), "older than the window");
            prop_assert!(seen.iter().any(|(_, value)| *value == minimum));
        }
    }

    /// Any sequence of samples and expiries keeps the timeout between SRTT + floor and the maximum.
    #[test]
    fn the_timeout_stays_inside_its_bounds(steps in prop::collection::vec((any::<u64>(), any::<u32>(), any::<u32>(), any::<bool>()), 1..200)) {
        let mut estimator = RttEstimator::default();
        for (rtt_ns, una, nxt, delayed) in steps {
            estimator.on_sample(Instant::from_nanos(rtt_ns), Duration::from_nanos(rtt_ns), Seq(una), Seq(nxt), delayed);
            let srtt = estimator.srtt().unwrap_or_default();
            prop_assert!(estimator.rto() <= RTO_MAX);
            prop_assert!(estimator.rto() >= (srtt + RTO_MIN).min(RTO_MAX));
            estimator.back_off();
            prop_assert!(estimator.rto() <= RTO_MAX);
        }
    }

    /// A constant path is learnt exactly.
    #[test]
    fn a_constant_round_trip_converges(ms in 1u64..10_000) {
        let mut estimator = RttEstimator::default();
        feed(&mut estimator, &vec![ms; 300]);
        prop_assert_eq!(estimator.srtt(), Some(Duration::from_millis(ms)));
        prop_assert_eq!(estimator.rto(), Duration::from_millis(ms) + RTO_MIN);
    }
}
