use super::*;
use crate::congestion::tests::{ack, begun};

const MSS: f64 = 1000.0;

fn member(cwnd: f64, rtt_ms: f64) -> Member {
    Member { cwnd, rtt: rtt_ms / 1000.0, interval: 0.0 }
}

/// By how many segments all windows of a group grow in a second, if all of them are used up.
fn growth_a_second<P: Policy>(group: &[Member]) -> f64 {
    let own = |index: usize| {
        let mut group = group.to_vec();
        group.swap(0, index);
        let acked = group[0].rate();
        P::growth(&group, acked, MSS).min(acked * MSS / group[0].cwnd) / MSS
    };
    (0..group.len()).map(own).sum()
}

#[test]
fn equal_paths_grow_together_as_one_tcp_does() {
    // One TCP: a segment a round trip of 100 ms.
    let group = [member(20_000.0, 100.0), member(20_000.0, 100.0)];
    assert!((growth_a_second::<Lia>(&group) - 5.0).abs() < 1e-9, "half of it: each has half of the rate, alpha is 1/2");
    assert!((growth_a_second::<Olia>(&group) - 5.0).abs() < 1e-9);
    assert!((growth_a_second::<Balia>(&group) - 5.0).abs() < 1e-9);
}

#[test]
fn lia_is_rfc_6356s() {
    // Windows of 10 and 30 segments, round trips of 50 and 150 ms: rates are the same. alpha = 40 * max(10/2500, 30/22500) / (10/50 + 30/150)^2 = 1.
    let group = [member(10_000.0, 50.0), member(30_000.0, 150.0)];
    let growth = Lia::growth(&group, 1000.0, MSS);
    assert!((growth - 1.0 * 1000.0 * MSS / 40_000.0).abs() < 1e-9, "{growth}");
}

#[test]
fn olia_moves_windows_to_the_path_that_would_carry_more() {
    let best = Member { interval: 1e6, ..member(10_000.0, 100.0) };
    let widest = Member { interval: 1e5, ..member(40_000.0, 100.0) };
    assert_eq!(Olia::alpha(&[best, widest]), 0.5);
    assert_eq!(Olia::alpha(&[widest, best]), -0.5);
    // The best is the widest: nothing moves.
    let both = Member { interval: 1e6, ..widest };
    let other = Member { interval: 1e5, ..best };
    assert_eq!((Olia::alpha(&[both, other]), Olia::alpha(&[other, both])), (0.0, 0.0));
    // A third one, neither best nor widest, stays out.
    let third = Member { interval: 1e4, ..best };
    assert_eq!(Olia::alpha(&[third, best, widest]), 0.0);
    assert!((Olia::alpha(&[best, widest, third]) - 1.0 / 3.0).abs() < 1e-12);
    // 30/50^2 - 1/2/30 < 0: a window that is too large shrinks.
    let best = Member { cwnd: 20_000.0, ..best };
    assert!(Olia::growth(&[Member { cwnd: 30_000.0, ..widest }, best], 1000.0, MSS) < 0.0);
}

#[test]
fn balia_loses_more_where_it_is_slow() {
    let (fast, slow) = (member(40_000.0, 100.0), member(10_000.0, 100.0));
    assert_eq!(Balia::kept(&[fast, slow]), 0.5);
    assert_eq!(Balia::kept(&[slow, fast]), 0.25, "min(alpha, 1.5)");
    // x_r / rtt_r / (sum x)^2 * (1 + alpha)/2 * (4 + alpha)/5, alpha = 4.
    let growth = Balia::growth(&[slow, fast], 1000.0, MSS);
    let wanted = 1000.0 * MSS * (100_000.0 / 0.1 / (500_000.0 * 500_000.0)) * 2.5 * 1.6;
    assert!((growth - wanted).abs() < 1e-9, "{growth} {wanted}");
}

#[test]
fn without_siblings_they_are_reno() {
    let (mut reno, mut of_reno) = begun("reno", 1000);
    of_reno.ssthresh_bytes = 20_000;
    for name in ["lia", "olia", "balia"] {
        let (mut control, mut w) = begun(name, 1000);
        w.ssthresh_bytes = 20_000;
        let mut of_reno = of_reno;
        for step in 0..400_u64 {
            let now = Instant::from_nanos(step * 10_000_000);
            for (control, w) in [(&mut control, &mut w), (&mut reno, &mut of_reno)] {
                if step % 90 == 89 {
                    control.on_event(now, CongestionEvent::Loss, 0, w);
                    control.on_event(now, CongestionEvent::RecoveryDone, 0, w);
                }
                control.on_ack(&ack(now, 1000), w);
            }
            let apart = i64::from(w.cwnd_bytes) - i64::from(of_reno.cwnd_bytes);
            assert!(apart.abs() <= 1000, "{name} {step}: {} {}", w.cwnd_bytes, of_reno.cwnd_bytes);
        }
        reno.init(&mut Window::new(1000), Instant::ZERO);
    }
}

#[test]
fn any_siblings_leave_the_window_within_its_bounds() {
    let strange = [
        Sibling::default(),
        Sibling { cwnd_bytes: u32::MAX, rtt: Duration::from_nanos(1), interval_bytes: u64::MAX },
        Sibling { cwnd_bytes: 0, rtt: Duration::MAX, interval_bytes: 0 },
        Sibling { cwnd_bytes: 1000, rtt: Duration::from_secs(100), interval_bytes: 5 },
    ];
    for name in ["lia", "olia", "balia", "wvegas"] {
        for bits in 0..16_usize {
            let (mut control, mut w) = begun(name, 1000);
            let siblings: Vec<Sibling> = (0..4).filter(|bit| bits >> bit & 1 == 1).map(|bit| strange[bit]).collect();
            control.learn_siblings(&siblings);
            w.ssthresh_bytes = 8000;
            for step in 0..300_u64 {
                let now = Instant::from_nanos(step * 10_000_000);
                control.on_ack(&AckSample { round_start: step % 5 == 0, ..ack(now, 1000) }, &mut w);
                if step % 50 == 49 {
                    control.on_event(now, CongestionEvent::Loss, 0, &mut w);
                    control.on_event(now, CongestionEvent::RecoveryDone, 0, &mut w);
                }
                assert!((1000..=320_000).contains(&w.cwnd_bytes), "{name} {siblings:?} {}", w.cwnd_bytes);
            }
        }
    }
}
