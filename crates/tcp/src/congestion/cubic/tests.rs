use super::super::tests::{ack, begun};
use super::*;

const MSS: u32 = 1_000;
const RTT: Duration = Duration::from_millis(100);

fn loss(control: &mut dyn CongestionControl, now: Instant, w: &mut Window) {
    control.on_event(now, CongestionEvent::Loss, w.cwnd_bytes, w);
    control.on_event(now, CongestionEvent::RecoveryDone, w.cwnd_bytes, w);
}

fn value(control: &dyn CongestionControl, name: &str) -> u64 {
    control.info().into_iter().find(|(known, _)| *known == name).map_or_else(|| panic!("{name} is not shown"), |(_, value)| value)
}

#[test]
fn cube_root_is_the_floor() {
    for (value, root) in [(0, 0), (1, 1), (7, 1), (8, 2), (26, 2), (27, 3), (1_000_000, 100), (999_999, 99)] {
        assert_eq!(cube_root(value), root, "{value}");
    }
    for root in [1u64, 2, 3, 1_000, 123_456, 999_999_999, (1 << 42) - 1] {
        let cube = u128::from(root).pow(3);
        assert_eq!((cube_root(cube - 1), cube_root(cube), cube_root(cube + 1)), (root - 1, root, root));
    }
    assert_eq!(cube_root(u128::MAX), 6_981_463_658_331);
}

/// K and W(t) against the formulas of RFC 9438 §4.2 in floating point.
#[test]
fn plateau_and_curve_follow_the_formulas() {
    for w_max_segments in [10u32, 100, 1_000, 10_000, 700_000] {
        let origin = w_max_segments * MSS;
        let start = (u64::from(origin) * 7 / 10) as u32;
        let k_us = plateau_us(origin - start, MSS);
        let k = (f64::from(origin - start) / f64::from(MSS) / 0.4).cbrt();
        assert!((k_us as f64 / 1e6 - k).abs() < 2e-6, "{w_max_segments}: K {k_us} µs, {k} s");
        // At K = 0.3*W_max/0.4 cubed, W(0) is cwnd_epoch and W(K) is W_max.
        let segments = u64::from(w_max_segments);
        assert!(cubic_segments(0, k_us, segments).abs_diff((start / MSS).into()) <= 1 + segments / 100_000);
        assert_eq!(cubic_segments(k_us, k_us, segments), segments);
        for t in [0.1, 0.5 * k, 0.99 * k, 1.01 * k, 1.5 * k, 2.0 * k, 3.0 * k] {
            let t_us = (t * 1e6) as u64;
            let exact = (0.4 * (t_us as f64 / 1e6 - k_us as f64 / 1e6).powi(3) + f64::from(w_max_segments)).max(0.0);
            // Rounded towards the plateau.
            let distance = (f64::from(w_max_segments) - exact).abs() - cubic_segments(t_us, k_us, segments).abs_diff(segments) as f64;
            assert!((-exact * 1e-9..1.0 + exact * 1e-9).contains(&distance), "{w_max_segments} at {t}: {distance} of {exact}");
        }
    }
    // 100 segments, reduced to 70: K = cbrt(30 / 0.4) = 4.217163… s.
    assert_eq!(plateau_us(30_000, 1_000), 4_217_163);
    assert_eq!(plateau_us(30_000, 0), cube_root(30_000 * 10 * US3_PER_S3 / 4));
}

#[test]
fn a_reduction_multiplies_by_seven_tenths_but_two_segments_at_least() {
    for (cwnd, expected) in [(100, 70_000), (10, 7_000), (3, 2_000), (5, 3_000), (2, 2_000), (1, 2_000)] {
        let (mut cubic, mut w) = begun("cubic", MSS);
        w.set_cwnd(cwnd * u64::from(MSS));
        cubic.on_event(Instant::ZERO, CongestionEvent::Loss, 0, &mut w);
        assert_eq!((w.ssthresh_bytes, w.cwnd_bytes), (expected, expected), "{cwnd}");
    }
}

#[test]
fn fast_convergence_gives_up_more_when_the_last_plateau_was_not_reached() {
    let (mut cubic, mut w) = begun("cubic", MSS);
    w.set_cwnd(100 * u64::from(MSS));
    loss(&mut *cubic, Instant::ZERO, &mut w);
    assert_eq!(value(&*cubic, "w_max_bytes"), 100_000);
    // A second loss at 70: W_max = 70 * (1 + 0.7) / 2, whole segments.
    loss(&mut *cubic, Instant::from_millis(100), &mut w);
    assert_eq!((value(&*cubic, "w_max_bytes"), w.cwnd_bytes), (59_000, 49_000));
    // A third beyond the plateau remembers the window itself.
    w.set_cwnd(90 * u64::from(MSS));
    loss(&mut *cubic, Instant::from_millis(200), &mut w);
    assert_eq!(value(&*cubic, "w_max_bytes"), 90_000);
}

/// Acknowledges a window per round trip, a segment at a time and evenly spaced; returns the window after each.
fn rounds(control: &mut dyn CongestionControl, mut now: Instant, rtt: Duration, count: usize, w: &mut Window) -> Vec<u32> {
    let mut windows = Vec::new();
    for _ in 0..count {
        let segments = w.cwnd_bytes / w.mss;
        let gap = rtt / segments;
        for _ in 0..segments {
            now += gap;
            let sample = AckSample { rtt: Some(rtt), min_rtt: rtt, srtt: rtt, ..ack(now, w.mss) };
            control.on_ack(&sample, w);
        }
        windows.push(w.cwnd_bytes);
    }
    windows
}

/// After a loss at 1000 segments the window of each round trip is W(t) within two segments, through the concave and the convex region.
#[test]
fn the_window_follows_the_curve() {
    let (mut cubic, mut w) = begun("cubic", MSS);
    w.set_cwnd(1_000 * u64::from(MSS));
    let start = Instant::from_millis(1_000);
    loss(&mut *cubic, start, &mut w);
    let k = (300.0f64 / 0.4).cbrt();
    for (round, cwnd) in rounds(&mut *cubic, start, RTT, 150, &mut w).into_iter().enumerate() {
        let t = 0.1 * (round + 1) as f64;
        let exact = 0.4 * (t - k).powi(3) + 1_000.0;
        let segments = f64::from(cwnd) / f64::from(MSS);
        // Within what the curve moves in one round trip and a segment for whole steps.
        let slack = 1.5 + 0.4 * ((t + 0.1 - k).powi(3) - (t - k).powi(3));
        assert!((segments - exact).abs() < slack, "round {round}, {t:.1} s: {segments} segments, W = {exact:.1}, slack {slack:.2}");
    }
    assert!(w.cwnd_bytes > 1_050 * MSS, "beyond the plateau after 15 s: {}", w.cwnd_bytes);
}

/// The window of Linux 6.18's cubic after one loss at 320 segments on a path of 100 ms (docs/linux-notes/congestion.md): seconds since the
/// end of recovery, segments.
const LINUX_TRACE: [(f64, f64); 20] = [
    (0.73, 257.0),
    (1.47, 280.0),
    (2.21, 296.0),
    (2.95, 307.0),
    (3.74, 315.0),
    (4.79, 320.0),
    (7.51, 321.0),
    (8.28, 324.0),
    (9.06, 330.0),
    (9.76, 338.0),
    (10.49, 352.0),
    (11.22, 371.0),
    (11.95, 396.0),
    (12.67, 429.0),
    (13.40, 470.0),
    (14.11, 518.0),
    (14.85, 578.0),
    (15.58, 651.0),
    (16.31, 735.0),
    (17.02, 827.0),
];

/// The same loss on the same path gives the kernel's window, within 2 %.
#[test]
fn the_window_is_the_kernels() {
    let rtt = Duration::from_millis(104);
    let (mut cubic, mut w) = begun("cubic", 1_448);
    w.set_cwnd(320 * 1_448);
    let start = Instant::from_millis(837);
    loss(&mut *cubic, start, &mut w);
    assert_eq!(w.ssthresh_bytes, 224 * 1_448);
    let windows = rounds(&mut *cubic, start, rtt, 170, &mut w);
    for (seconds, kernel) in LINUX_TRACE {
        let round = seconds / rtt.as_secs_f64();
        let (before, after) = (f64::from(windows[round as usize - 1]), f64::from(windows[round as usize]));
        let ours = (before + (after - before) * round.fract()) / 1_448.0;
        assert!((ours / kernel - 1.0).abs() < 0.02, "{seconds} s: {ours:.1} segments, Linux {kernel}");
    }
}

/// Where Reno is faster its estimate is followed, at 8/15 of a segment per round trip.
#[test]
fn the_reno_friendly_region_grows_with_alpha() {
    let rtt = Duration::from_millis(10);
    let (mut cubic, mut w) = begun("cubic", MSS);
    w.set_cwnd(50 * u64::from(MSS));
    loss(&mut *cubic, Instant::ZERO, &mut w);
    let windows = rounds(&mut *cubic, Instant::ZERO, rtt, 100, &mut w);
    for round in [34, 56, 100] {
        let grown = f64::from(windows[round - 1]) / f64::from(MSS) - 35.0;
        let line = 8.0 / 15.0 * round as f64;
        assert!((grown - line).abs() < 2.0, "round {round}: {grown} segments, Reno's estimate {line:.1}");
    }
}

/// On a short path growth goes by Linux's clock: it stands still for up to 32 ms, then makes up for it and may run ahead within a jiffy.
#[test]
fn on_a_short_path_growth_goes_by_linuxs_clock() {
    let rtt = Duration::from_millis(1);
    let (mut cubic, mut w) = begun("cubic", MSS);
    w.set_cwnd(100 * u64::from(MSS));
    loss(&mut *cubic, Instant::from_millis(1), &mut w);
    let windows = rounds(&mut *cubic, Instant::from_millis(1), rtt, 100, &mut w);
    let still = windows.windows(2).filter(|pair| pair[0] == pair[1]).count();
    assert!(still > 70, "{still} of 99 round trips without growth: {windows:?}");
    let grown = (windows[99] - windows[0]) / MSS;
    assert!((30..110).contains(&grown), "{grown} segments in 100 round trips");
}

/// Never more than one segment for two acknowledged.
#[test]
fn growth_is_at_most_half_of_what_is_acknowledged() {
    let (mut cubic, mut w) = begun("cubic", MSS);
    w.set_cwnd(1_000 * u64::from(MSS));
    loss(&mut *cubic, Instant::ZERO, &mut w);
    cubic.on_ack(&ack(Instant::from_millis(1), MSS), &mut w);
    let before = w.cwnd_bytes;
    // A minute later the curve is far above; the flow was limited by the window all along.
    cubic.on_ack(&ack(Instant::from_millis(60_000), MSS), &mut w);
    for _ in 0..99 {
        cubic.on_ack(&ack(Instant::from_millis(60_002), MSS), &mut w);
    }
    let grown = (w.cwnd_bytes - before) / MSS;
    assert!((48..=50).contains(&grown), "{grown} segments for 100 acknowledged");
}

/// Time without use of the window does not count: neither a pause nor a time of small sending.
#[test]
fn unused_time_is_left_out_of_the_curve() {
    for pause in ["none", "idle", "unused"] {
        let (mut cubic, mut w) = begun("cubic", MSS);
        w.set_cwnd(1_000 * u64::from(MSS));
        loss(&mut *cubic, Instant::ZERO, &mut w);
        rounds(&mut *cubic, Instant::ZERO, RTT, 10, &mut w);
        let mut now = Instant::from_millis(1_000);
        match pause {
            "idle" => {
                now += Duration::from_millis(250);
                cubic.on_event(now, CongestionEvent::Idle(Duration::from_millis(250)), 0, &mut w);
            }
            "unused" => {
                for _ in 0..100 {
                    now += Duration::from_millis(100);
                    cubic.on_ack(&AckSample { cwnd_limited: false, ..ack(now, MSS) }, &mut w);
                }
            }
            _ => {}
        }
        let windows = rounds(&mut *cubic, now, RTT, 20, &mut w);
        let last = windows.last().copied().unwrap_or_default() / MSS;
        // W(3 s) with K = 9.086 s: 1000 - 0.4 * 6.086^3 = 909.8.
        assert!(last.abs_diff(910) <= 4, "{pause}: {last}");
    }
}

/// A window cut by a long pause begins a new stage: it climbs to the old plateau on the curve, without a jump.
#[test]
fn a_cut_window_begins_a_new_stage() {
    let (mut cubic, mut w) = begun("cubic", MSS);
    w.set_cwnd(1_000 * u64::from(MSS));
    loss(&mut *cubic, Instant::ZERO, &mut w);
    rounds(&mut *cubic, Instant::ZERO, RTT, 40, &mut w);
    let now = Instant::from_millis(64_000);
    cubic.on_event(now, CongestionEvent::Idle(Duration::from_secs(60)), 0, &mut w);
    assert_eq!(w.cwnd_bytes, 10 * MSS);
    let threshold = w.ssthresh_bytes;
    let mut previous = w.cwnd_bytes;
    for cwnd in rounds(&mut *cubic, now, RTT, 30, &mut w) {
        assert!(cwnd <= previous * 2, "{previous} to {cwnd}");
        previous = cwnd;
    }
    assert!(previous > threshold && previous < 1_000 * MSS, "{previous}");
}

#[test]
fn after_a_timeout_the_plateau_is_unknown() {
    let (mut cubic, mut w) = begun("cubic", MSS);
    w.set_cwnd(100 * u64::from(MSS));
    cubic.on_event(Instant::ZERO, CongestionEvent::Timeout, 0, &mut w);
    assert_eq!((value(&*cubic, "w_max_bytes"), w.ssthresh_bytes, w.cwnd_bytes), (0, 70_000, 1_000));
    let windows = rounds(&mut *cubic, Instant::ZERO, RTT, 12, &mut w);
    // Slow start: 2, 4, 8, … 64, then 70 and on by 5 % per round trip; K = 0 from the window at the start of congestion avoidance.
    assert_eq!(windows[..6], [2_000, 4_000, 8_000, 16_000, 32_000, 64_000]);
    assert_eq!(value(&*cubic, "k_us"), 0);
    assert!((70_000..=74_000).contains(&windows[6]), "{}", windows[6]);
    for pair in windows[6..].windows(2) {
        assert!(pair[1] >= pair[0] + pair[0] / 25 && pair[1] <= pair[0] + pair[0] / 15, "{pair:?}");
    }
}

/// A spurious loss leaves no trace in the curve.
#[test]
fn undo_restores_the_curve() {
    let run = |spurious: bool| {
        let (mut cubic, mut w) = begun("cubic", MSS);
        w.set_cwnd(1_000 * u64::from(MSS));
        loss(&mut *cubic, Instant::ZERO, &mut w);
        rounds(&mut *cubic, Instant::ZERO, RTT, 20, &mut w);
        if spurious {
            cubic.on_event(Instant::from_millis(2_000), CongestionEvent::Loss, 0, &mut w);
            cubic.on_event(Instant::from_millis(2_000), CongestionEvent::Undo, 0, &mut w);
        }
        (value(&*cubic, "w_max_bytes"), value(&*cubic, "k_us"), rounds(&mut *cubic, Instant::from_millis(2_000), RTT, 20, &mut w))
    };
    let (with, without) = (run(true), run(false));
    assert_eq!((with.0, with.1), (without.0, without.1));
    let last = |windows: &[u32]| windows.last().copied().unwrap_or_default();
    assert!(last(&with.2).abs_diff(last(&without.2)) <= 2 * MSS, "{} {}", last(&with.2), last(&without.2));
}

/// A rising round-trip time ends the first slow start without a loss; the threshold is the window of that moment.
#[test]
fn a_rising_round_trip_time_ends_slow_start() {
    // Linux's ends with the first train of half a round trip, in the round of 80 segments. HyStart++ has four doublings to 160, then five rounds by a quarter
    // at most: far below the 10 * 2^9 of plain slow start.
    for (kind, thresholds) in [(Kind::Classic, 80..161), (Kind::PlusPlus, 100..1_000), (Kind::Off, u32::MAX / MSS..u32::MAX)] {
        let w = slow_start_with(kind);
        assert!(thresholds.contains(&(w.ssthresh_bytes / MSS)), "{kind:?}: {}", w.ssthresh_bytes);
        assert_eq!(w.in_slow_start(), kind == Kind::Off);
    }
}

/// Twelve rounds in which the queue builds up from the fourth on: 20 ms a round.
fn slow_start_with(kind: Kind) -> Window {
    let (mut cubic, mut w) = (Cubic::new(), Window::new(MSS));
    cubic.set_hystart(kind);
    cubic.init(&mut w, Instant::ZERO);
    let (mut now, mut sent, mut acked) = (Instant::ZERO, 10u32, 0u32);
    for round in 0..12u64 {
        if !w.in_slow_start() {
            break;
        }
        let rtt = RTT + Duration::from_millis(20 * round.saturating_sub(3));
        let in_round = sent - acked;
        for _ in 0..in_round {
            now += rtt / in_round;
            acked += 1;
            let sample = AckSample {
                rtt: Some(rtt),
                snd_una: weft_wire::tcp::Seq(acked * MSS),
                snd_nxt: weft_wire::tcp::Seq(sent * MSS),
                ..ack(now, MSS)
            };
            cubic.on_ack(&sample, &mut w);
            sent = acked + w.cwnd_bytes / MSS;
        }
    }
    w
}

#[test]
fn the_curve_survives_extreme_numbers() {
    for (t, k, origin) in [(u64::MAX, 0, u64::MAX), (0, u64::MAX, u64::MAX), (u64::MAX, u64::MAX, 0), (0, 0, 0)] {
        assert!(cubic_segments(t, k, origin) <= CWND_BYTES_MAX.into());
    }
    assert!(plateau_us(u32::MAX, 0) < 1 << 43);
}
