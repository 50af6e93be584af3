use super::super::tests::{ack, begun};
use super::*;

const MSS: u32 = 1_000;

/// One segment per window of acknowledged bytes, whatever the size of the ACKs.
#[test]
fn congestion_avoidance_adds_a_segment_per_window() {
    for ack_bytes in [1, 137, 1_000, 2_896, 10_000] {
        let (mut reno, mut w) = begun("reno", MSS);
        w.ssthresh_bytes = 10 * MSS;
        let mut acked: u64 = 0;
        // Ten to twenty segments: 10 + 11 + … + 19 windows of bytes.
        while w.cwnd_bytes < 20 * MSS {
            reno.on_ack(&ack(Instant::from_millis(1), ack_bytes), &mut w);
            acked += u64::from(ack_bytes);
        }
        let needed: u64 = (10..20).map(|segments| segments * u64::from(MSS)).sum();
        assert!(acked >= needed && acked < needed + u64::from(ack_bytes), "{ack_bytes}: {acked} for {needed}");
    }
}

#[test]
fn the_threshold_is_half_but_two_segments_at_least() {
    for (cwnd, expected) in [(100, 50_000), (5, 2_000), (4, 2_000), (3, 2_000), (1, 2_000)] {
        let (mut reno, mut w) = begun("reno", MSS);
        w.set_cwnd(cwnd * u64::from(MSS));
        reno.on_event(Instant::ZERO, CongestionEvent::Loss, 0, &mut w);
        assert_eq!((w.ssthresh_bytes, w.cwnd_bytes), (expected, expected), "{cwnd}");
    }
}

/// Bytes counted before a reduction do not make the reduced window grow.
#[test]
fn a_reduction_forgets_the_count() {
    let (mut reno, mut w) = begun("reno", MSS);
    w.ssthresh_bytes = 10 * MSS;
    reno.on_ack(&ack(Instant::ZERO, 9_999), &mut w);
    assert_eq!(reno.info(), [("acked_bytes", 9_999)]);
    reno.on_event(Instant::ZERO, CongestionEvent::Loss, 0, &mut w);
    reno.on_event(Instant::ZERO, CongestionEvent::RecoveryDone, 0, &mut w);
    reno.on_ack(&ack(Instant::ZERO, 4_999), &mut w);
    assert_eq!(w.cwnd_bytes, 5_000);
    reno.on_ack(&ack(Instant::ZERO, 1), &mut w);
    assert_eq!(w.cwnd_bytes, 6_000);
}
