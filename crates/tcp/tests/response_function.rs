//! The average window of a control on a path that loses every `1/p`-th segment, an eighth more or less, against the response functions of the literature.
//!
//! The path has a fixed round-trip time and no queue. The sender always has data, every segment is acknowledged on its own, and a loss is
//! repaired in the round trip in which it is found, during which the window does not grow. That is the deterministic model of RFC 9438 §5
//! and of Mathis et al. (1997); what is measured is what the control makes of it, event by event. Gaps that are all alike would not do: windows are whole
//! segments, CUBIC stays on a plateau while it is less than a segment from it, and then every plateau within a sixth of the model's lasts for ever.

use std::collections::VecDeque;
use weft_core::{Duration, Instant};
use weft_tcp::congestion::{AckSample, CongestionEvent, Window, by_name};
use weft_wire::tcp::Seq;

const MSS: u32 = 1_460;

/// A segment on its way: when its ACK (or the news of its loss) is back, and whether it was lost.
struct InFlight {
    back_at: Instant,
    lost: bool,
}

/// Segments from one loss to the next: an eighth more or less than the period (splitmix64 of its number).
fn gap(number: u64, loss_period: u64) -> u64 {
    let mut word = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let fraction = (word >> 40) as f64 / f64::from(1 << 24);
    (loss_period as f64 * (0.875 + 0.25 * fraction)) as u64
}

/// Mean window in segments over `segments` segments sent, after a warm-up of a third.
fn average_window(name: &str, rtt: Duration, loss_period: u64, segments: u64) -> f64 {
    let mut control = by_name(name).expect("a known control");
    let mut w = Window::new(MSS);
    let mut now = Instant::from_millis(1);
    control.init(&mut w, now);
    let mut flight: VecDeque<InFlight> = VecDeque::new();
    let (mut sent, mut acked) = (0u64, 0u64);
    let (mut losses, mut next_loss) = (0u64, loss_period);
    // Recovery lasts until what was out at its beginning is back.
    let mut recover_until: Option<u64> = None;
    let (mut window_seconds, mut seconds) = (0.0f64, 0.0f64);
    while sent < segments {
        // Everything the window allows leaves in equal distances over the round trip (the ACK clock does that in steady state).
        while flight.len() < (w.cwnd_bytes / MSS) as usize {
            sent += 1;
            let earliest = flight.back().map_or(now, |last| last.back_at - rtt);
            let spacing = rtt / (w.cwnd_bytes / MSS).max(1);
            let leaves = now.max(earliest + if flight.is_empty() { Duration::ZERO } else { spacing / 2 });
            let lost = sent >= next_loss;
            if lost {
                losses += 1;
                next_loss += gap(losses, loss_period);
            }
            flight.push_back(InFlight { back_at: leaves + rtt, lost });
        }
        let Some(segment) = flight.pop_front() else { break };
        let step = segment.back_at.since(now);
        if sent > segments / 3 {
            window_seconds += f64::from(w.cwnd_bytes) / f64::from(MSS) * step.as_secs_f64();
            seconds += step.as_secs_f64();
        }
        now = now.max(segment.back_at);
        acked += 1;
        if recover_until.is_some_and(|end| acked >= end) {
            recover_until = None;
            control.on_event(now, CongestionEvent::RecoveryDone, w.cwnd_bytes, &mut w);
        }
        if segment.lost && recover_until.is_none() {
            control.on_event(now, CongestionEvent::Loss, w.cwnd_bytes, &mut w);
            recover_until = Some(acked + flight.len() as u64);
            continue;
        }
        let sequence = |count: u64| Seq((count as u32).wrapping_mul(MSS));
        let ack = AckSample {
            now,
            newly_acked_bytes: MSS,
            rtt: Some(rtt),
            min_rtt: rtt,
            srtt: rtt,
            cwnd_limited: true,
            snd_una: sequence(acked),
            snd_nxt: sequence(sent),
            in_recovery: recover_until.is_some(),
            ..AckSample::default()
        };
        control.on_ack(&ack, &mut w);
    }
    window_seconds / seconds
}

/// Asserts that the average is within `tolerance` (a fraction) of the expected one, and a segment and a half: the formulas know neither
/// whole segments nor the round trip of each recovery in which nothing grows, which is what counts in a window of a dozen.
fn check(name: &str, rtt_ms: u64, loss_period: u64, expected: f64, tolerance: f64) {
    let segments = (loss_period * 60).max(200_000);
    let average = average_window(name, Duration::from_millis(rtt_ms), loss_period, segments);
    let error = average / expected - 1.0;
    println!("{name}, {rtt_ms} ms, p = 1/{loss_period}: {average:.1} segments, {expected:.1} expected ({:+.1} %)", error * 100.0);
    assert!(
        (average - expected).abs() <= tolerance * expected + 1.5,
        "{name}, {rtt_ms} ms, p = 1/{loss_period}: {average:.1} segments instead of {expected:.1} ({:+.1} %)",
        error * 100.0
    );
}

/// Mathis et al. 1997: the average of a saw-tooth between W/2 and W that loses one segment in `1/p` is `sqrt(3/2) / sqrt(p)`.
#[test]
fn reno_follows_the_inverse_square_root() {
    for loss_period in [100, 1_000, 10_000, 100_000] {
        for rtt_ms in [10, 100] {
            let expected = (1.5 * loss_period as f64).sqrt();
            check("reno", rtt_ms, loss_period, expected, 0.05);
        }
    }
}

/// RFC 9438 §5.1, figure 6: `AVG_W_cubic = 1.054 * RTT^0.75 / p^0.75` where the curve is faster than Reno.
#[test]
fn cubic_follows_its_response_function_on_long_paths() {
    for (rtt_ms, loss_period) in [(100, 10_000), (100, 100_000), (200, 10_000), (200, 100_000)] {
        let expected = 1.054 * (rtt_ms as f64 / 1e3).powf(0.75) * (loss_period as f64).powf(0.75);
        check("cubic", rtt_ms, loss_period, expected, 0.08);
    }
}

/// RFC 9438 §4.3: where Reno is faster, cubic has Reno's average window (figure 3 with alpha 9/17 and beta 0.7).
#[test]
fn cubic_has_renos_average_on_short_paths() {
    for (rtt_ms, loss_period) in [(40, 1_000), (40, 10_000), (100, 100)] {
        let expected = (1.5 * loss_period as f64).sqrt();
        check("cubic", rtt_ms, loss_period, expected, 0.05);
    }
    // While the window is what it was Linux looks again only after 31 ms, here 31 round trips, and what it has found until then goes on: a large window grows
    // faster than Reno's for it. (A small one grows slower: 8.8 segments instead of 12.2 at 10 ms and a loss in 100.)
    check("cubic", 1, 100_000, (1.5 * 100_000.0_f64).sqrt(), 0.10);
}
