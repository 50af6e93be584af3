use super::*;
use proptest::prelude::*;

const MSS: u32 = 1_000;
const SECOND: Duration = Duration::from_secs(1);

fn window(cwnd: u32, ssthresh: u32) -> Window {
    Window { mss: MSS, cwnd_bytes: cwnd * MSS, ssthresh_bytes: ssthresh.saturating_mul(MSS) }
}

#[test]
fn the_rate_is_twice_the_window_per_rtt_in_slow_start_and_six_fifths_after() {
    let srtt = Duration::from_millis(100);
    assert_eq!(default_rate_bytes_per_s(&window(10, u32::MAX), 0, srtt, RATE_UNLIMITED), 200_000);
    assert_eq!(default_rate_bytes_per_s(&window(49, 100), 0, srtt, RATE_UNLIMITED), 980_000);
    // From half of the threshold on.
    assert_eq!(default_rate_bytes_per_s(&window(50, 100), 0, srtt, RATE_UNLIMITED), 600_000);
    assert_eq!(default_rate_bytes_per_s(&window(100, 100), 0, srtt, RATE_UNLIMITED), 1_200_000);
    assert_eq!(default_rate_bytes_per_s(&window(50, 100), 80 * MSS, srtt, RATE_UNLIMITED), 960_000, "more in flight than the window");
    assert_eq!(default_rate_bytes_per_s(&window(100, 100), 0, srtt, 50_000), 50_000, "SO_MAX_PACING_RATE");
    assert_eq!(default_rate_bytes_per_s(&window(100, 100), 0, Duration::ZERO, 50_000), 50_000, "no RTT yet");
    assert_eq!(default_rate_bytes_per_s(&window(1, 1), 0, Duration::MAX, RATE_UNLIMITED), 1, "never zero, which means unpaced");
}

/// `tcpi_pacing_rate` of Linux 6.18 for (cwnd, ssthresh) in segments of 1448 bytes and an SRTT in µs: the same but for the digits of the
/// SRTT that are not shown.
#[test]
fn the_rate_is_the_kernels() {
    for (cwnd, ssthresh, srtt_us, kernel) in [
        (10, u32::MAX, 101_659, 284_873),
        (20, u32::MAX, 101_809, 568_908),
        (40, u32::MAX, 109_306, 1_059_775),
        (227, 224, 103_550, 3_809_123),
        (232, 224, 104_764, 3_847_917),
        (237, 224, 106_029, 3_883_939),
        (136, 135, 101_574, 2_326_502),
    ] {
        let w = Window { mss: 1_448, cwnd_bytes: cwnd * 1_448, ssthresh_bytes: u32::saturating_mul(ssthresh, 1_448) };
        // The kernel divides by eight times the SRTT, of which only whole microseconds are shown.
        let ours = default_rate_bytes_per_s(&w, 0, Duration::from_micros(srtt_us), RATE_UNLIMITED);
        assert!(ours.abs_diff(kernel) * 50_000 < kernel, "{cwnd}: {ours}, Linux {kernel}");
    }
}

#[test]
fn frames_hold_a_millisecond_of_the_rate_in_whole_segments() {
    let far = Duration::from_millis(100);
    for (rate, bytes) in
        [(0, 2 * MSS), (1 << 20, 2 * MSS), (10 << 20, 10 * MSS), (30 << 20, 30 * MSS), (1 << 30, 65 * MSS), (u64::MAX, 65 * MSS)]
    {
        assert_eq!(frame_bytes(rate, MSS, FRAME_SEGMENTS_MIN, 65_536, far), bytes, "{rate}");
    }
    // On a short path frames are large at any rate: everything below 512 µs, half of it from there on.
    assert_eq!(frame_bytes(1, MSS, FRAME_SEGMENTS_MIN, 65_536, Duration::from_micros(100)), 65 * MSS);
    assert_eq!(frame_bytes(1, MSS, FRAME_SEGMENTS_MIN, 65_536, Duration::from_micros(600)), 32 * MSS);
    assert_eq!(frame_bytes(1, MSS, FRAME_SEGMENTS_MIN, 65_536, Duration::ZERO), 2 * MSS, "unknown: long");
    // Where nothing large can be sent, a frame is a segment.
    assert_eq!(frame_bytes(u64::MAX, MSS, FRAME_SEGMENTS_MIN, 0, far), MSS);
    assert_eq!(frame_bytes(u64::MAX, 0, FRAME_SEGMENTS_MIN, 10, far), 10);
}

#[test]
fn at_most_two_frames_or_a_millisecond_wait_below() {
    assert_eq!(queued_below_bytes(0, 65_000, 1 << 20), 130_000);
    assert_eq!(queued_below_bytes(1 << 30, 65_000, 4 << 20), 1 << 20);
    assert_eq!(queued_below_bytes(u64::MAX, 65_000, 1 << 20), 1 << 20);
}

/// A pacer past its unpaced start, whose last frame left at time zero.
fn started() -> Pacer {
    let mut pacer = Pacer::new();
    pacer.sent(Instant::ZERO, 0, UNPACED_SEGMENTS, 0);
    pacer
}

#[test]
fn a_frame_takes_its_serialisation_time() {
    let mut pacer = started();
    assert!(pacer.ready(Instant::ZERO));
    pacer.sent(Instant::ZERO, 10_000, 10, 1_000_000);
    assert_eq!(pacer.next_send_at(), Instant::from_millis(10));
    assert!(!pacer.ready(Instant::from_nanos(9_999_999)) && pacer.ready(Instant::from_millis(10)));
}

#[test]
fn lateness_is_given_back_up_to_half_a_frame() {
    let mut pacer = started();
    pacer.sent(Instant::ZERO, 10_000, 10, 1_000_000);
    // 2 ms late: the next one is due 8 ms later, on the old schedule.
    pacer.sent(Instant::from_millis(12), 10_000, 10, 1_000_000);
    assert_eq!(pacer.next_send_at(), Instant::from_millis(20));
    // A second late: half a frame.
    pacer.sent(Instant::from_millis(1_020), 10_000, 10, 1_000_000);
    assert_eq!(pacer.next_send_at(), Instant::from_millis(1_025));
}

#[test]
fn the_first_segments_and_unpaced_rates_leave_at_once() {
    let mut pacer = Pacer::new();
    pacer.sent(Instant::from_millis(1), 10_000, UNPACED_SEGMENTS, 1_000);
    assert!(pacer.ready(Instant::from_millis(1)), "the initial window");
    pacer.sent(Instant::from_millis(1), 10_000, 10, 1_000);
    assert!(!pacer.ready(Instant::from_millis(1)));
    for rate in [0, RATE_UNLIMITED] {
        let mut pacer = started();
        pacer.sent(Instant::from_millis(1), u32::MAX, 10, rate);
        assert!(pacer.ready(Instant::from_millis(1)));
    }
}

/// A sender that always has data and whose timer is late by up to a millisecond keeps the rate.
#[test]
fn the_average_rate_is_the_wanted_one() {
    let mut pacer = started();
    let (mut sent, mut now, mut late_us) = (0u64, Instant::ZERO, 0);
    while now < Instant::ZERO + 10 * SECOND {
        pacer.sent(now, 20_000, 20, 5_000_000);
        sent += 20_000;
        late_us = (late_us + 377) % 1_000;
        now = pacer.next_send_at() + Duration::from_micros(late_us);
    }
    assert!((49_900_000..=50_100_000).contains(&sent), "{sent} bytes in ten seconds");
}

proptest! {
    /// Whatever the rates and times, over a run of frames the sender is never faster than twice the rate, and time never goes back.
    #[test]
    fn never_faster_than_twice_the_rate(rate in 1_000u64..10_000_000_000, frames in prop::collection::vec((1u32..65_536, 0u64..50_000_000), 2..100)) {
        let mut pacer = started();
        let mut now = Instant::ZERO;
        let (mut bytes, mut nanos) = (0u128, 0u128);
        for (size, late_ns) in frames {
            now = now.max(pacer.next_send_at()) + Duration::from_nanos(late_ns);
            let due = pacer.next_send_at();
            pacer.sent(now, size, 1, rate);
            prop_assert!(pacer.next_send_at() >= due && pacer.next_send_at() >= now);
            bytes += u128::from(size);
            nanos += pacer.next_send_at().since(now).as_nanos() + 1;
        }
        prop_assert!(2 * nanos * u128::from(rate) + u128::from(rate) >= bytes * 1_000_000_000);
    }

    #[test]
    fn extreme_numbers_do_no_harm(rate in any::<u64>(), mss in any::<u32>(), gso in any::<u32>(), ns in any::<u64>(), bytes in any::<u32>(), cwnd in any::<u32>(), ssthresh in any::<u32>()) {
        let time = Duration::from_nanos(ns);
        let w = Window { mss, cwnd_bytes: cwnd, ssthresh_bytes: ssthresh };
        let _ = default_rate_bytes_per_s(&w, bytes, time, rate);
        let frame = frame_bytes(rate, mss, FRAME_SEGMENTS_MIN, gso, time);
        prop_assert!(frame >= 1 && (frame <= gso || frame == mss.max(1)));
        let _ = queued_below_bytes(rate, frame, bytes);
        let mut pacer = started();
        pacer.sent(Instant::from_nanos(ns), bytes, mss, rate);
        prop_assert!(pacer.next_send_at() >= Instant::from_nanos(ns));
    }
}
