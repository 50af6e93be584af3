use super::*;
use crate::congestion::tests::{ack, begun};

/// Runs rounds over a path that holds 50 segments in 100 ms; what does not fit waits. Returns the window, in segments.
fn after_rounds(control: &mut dyn CongestionControl, w: &mut Window, rounds: u64) -> u32 {
    let base = 0.1;
    for round in 0..rounds {
        let queued = (f64::from(w.cwnd_bytes) / 1000.0 - 50.0).max(0.0);
        let rtt = Duration::from_secs_f64(base * (1.0 + queued / 50.0));
        for number in 0..10 {
            let sample = AckSample {
                rtt: Some(rtt),
                srtt: rtt,
                round_start: number == 0,
                ..ack(Instant::from_nanos(round * 100_000_000 + number), w.cwnd_bytes / 10)
            };
            control.on_ack(&sample, w);
        }
    }
    w.cwnd_bytes / 1000
}

#[test]
fn alone_it_keeps_ten_segments_in_the_queue() {
    let (mut control, mut w) = begun("wvegas", 1000);
    let segments = after_rounds(&mut *control, &mut w, 200);
    assert!((58..=62).contains(&segments), "{segments}");
}

#[test]
fn with_a_faster_sibling_it_keeps_its_share() {
    let (mut control, mut w) = begun("wvegas", 1000);
    control.learn_siblings(&[Sibling { cwnd_bytes: 150_000, rtt: Duration::from_millis(100), interval_bytes: 0 }]);
    let segments = after_rounds(&mut *control, &mut w, 200);
    assert!((51..=55).contains(&segments), "a quarter of ten: {segments}");
}

#[test]
fn a_loss_halves_it() {
    let (mut control, mut w) = begun("wvegas", 1000);
    let before = after_rounds(&mut *control, &mut w, 100);
    control.on_event(Instant::from_nanos(1 << 40), CongestionEvent::Loss, 0, &mut w);
    assert_eq!(w.cwnd_bytes / 1000, before / 2);
}
