use super::*;

const MSS: u32 = 1_000;
const RTO: Duration = Duration::from_millis(300);

fn window(cwnd: u32, ssthresh: u32) -> Window {
    Window { mss: MSS, cwnd_bytes: cwnd * MSS, ssthresh_bytes: ssthresh.saturating_mul(MSS) }
}

fn flight(segments: u32, una: u32, stopped_by_cwnd: bool) -> Flight {
    Flight { in_flight_bytes: segments * MSS, snd_una: Seq(una * MSS), snd_nxt: Seq((una + segments) * MSS), stopped_by_cwnd }
}

#[test]
fn a_full_window_counts_for_the_whole_window_of_data() {
    let mut w = window(20, 10);
    let mut usage = CwndUsage::new(Instant::ZERO);
    usage.on_transmit(Instant::ZERO, &mut w, &flight(20, 0, true), None, true);
    assert!(usage.is_cwnd_limited(&w));
    // Half of it is acknowledged and less is sent: still inside the window that was full.
    usage.on_transmit(Instant::ZERO, &mut w, &Flight { snd_nxt: Seq(20 * MSS), ..flight(10, 10, false) }, None, true);
    assert!(usage.is_cwnd_limited(&w));
    // Everything of that window is acknowledged.
    usage.on_transmit(Instant::ZERO, &mut w, &flight(5, 20, false), None, true);
    assert!(!usage.is_cwnd_limited(&w));
}

#[test]
fn in_slow_start_more_than_half_of_the_window_is_enough() {
    for (segments, limited) in [(10, false), (11, true)] {
        let mut w = window(20, 100);
        let mut usage = CwndUsage::new(Instant::ZERO);
        usage.on_transmit(Instant::ZERO, &mut w, &flight(segments, 0, false), None, true);
        assert_eq!(usage.is_cwnd_limited(&w), limited, "{segments} of 20 in slow start");
        w.ssthresh_bytes = 20 * MSS;
        assert!(!usage.is_cwnd_limited(&w), "congestion avoidance wants a full window");
    }
}

#[test]
fn a_window_unused_for_a_timeout_meets_its_use_half_way() {
    let mut w = window(100, 50);
    let mut usage = CwndUsage::new(Instant::ZERO);
    usage.on_transmit(Instant::from_millis(10), &mut w, &flight(20, 0, false), Some(RTO), true);
    assert_eq!(w.cwnd_bytes, 100 * MSS, "not yet");
    usage.on_transmit(Instant::from_millis(299), &mut w, &flight(30, 20, false), Some(RTO), true);
    assert_eq!(w.cwnd_bytes, 100 * MSS, "not yet");
    usage.on_transmit(Instant::from_millis(300), &mut w, &flight(10, 50, false), Some(RTO), true);
    assert_eq!((w.cwnd_bytes, w.ssthresh_bytes), (65 * MSS, 75 * MSS), "half way to the 30 that were used; three quarters remembered");
    // Now less than the initial window is used, which counts as the initial window.
    usage.on_transmit(Instant::from_millis(600), &mut w, &flight(1, 60, false), Some(RTO), true);
    assert_eq!((w.cwnd_bytes, w.ssthresh_bytes), (37_000, 75 * MSS));
    usage.on_transmit(Instant::from_millis(5_000), &mut w, &flight(1, 61, false), None, true);
    assert_eq!(w.cwnd_bytes, 37_000, "switched off");
}

#[test]
fn a_window_is_left_alone_while_the_program_waits_for_room_and_looked_at_an_rto_later() {
    let mut w = window(100, 50);
    let mut usage = CwndUsage::new(Instant::ZERO);
    usage.on_transmit(Instant::from_millis(300), &mut w, &flight(20, 0, false), Some(RTO), false);
    usage.on_transmit(Instant::from_millis(599), &mut w, &flight(20, 20, false), Some(RTO), true);
    assert_eq!(w.cwnd_bytes, 100 * MSS, "the RTO counts from when it was looked at");
    usage.on_transmit(Instant::from_millis(600), &mut w, &flight(20, 40, false), Some(RTO), true);
    assert_eq!(w.cwnd_bytes, 60 * MSS);
}

#[test]
fn a_full_window_restarts_the_clock() {
    let mut w = window(100, 50);
    let mut usage = CwndUsage::new(Instant::ZERO);
    usage.on_transmit(Instant::from_millis(250), &mut w, &flight(100, 0, true), Some(RTO), true);
    usage.on_transmit(Instant::from_millis(500), &mut w, &flight(20, 100, false), Some(RTO), true);
    assert_eq!(w.cwnd_bytes, 100 * MSS);
    usage.on_transmit(Instant::from_millis(550), &mut w, &flight(20, 120, false), Some(RTO), true);
    assert_eq!(w.cwnd_bytes, 60 * MSS);
}
