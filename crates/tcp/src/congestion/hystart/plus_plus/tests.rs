use super::*;

/// A sender in slow start: rounds of ACKs with given round-trip times.
struct Sender {
    hystart: HystartPlusPlus,
    una: u32,
    nxt: u32,
}

impl Sender {
    fn new() -> Sender {
        Sender { hystart: HystartPlusPlus::new(), una: 0, nxt: 10_000 }
    }

    /// One round of `count` ACKs of 1000 bytes, all with this round-trip time; the last one ends it. Returns by how much the window may
    /// grow.
    fn round(&mut self, count: u32, rtt_ms: u64) -> u32 {
        let end = self.nxt;
        let next = end + 10_000;
        (1..=count)
            .map(|n| {
                self.una = if n == count { end } else { self.una + 1 };
                self.nxt = next;
                let sample = AckSample {
                    newly_acked_bytes: 1_000,
                    rtt: Some(Duration::from_millis(rtt_ms)),
                    snd_una: Seq(self.una),
                    snd_nxt: Seq(self.nxt),
                    ..AckSample::default()
                };
                if self.hystart.window_end.is_none() {
                    self.hystart.window_end = Some(Seq(end));
                }
                self.hystart.on_ack(&sample)
            })
            .sum()
    }
}

#[test]
fn steady_round_trips_stay_in_slow_start() {
    let mut sender = Sender::new();
    for _ in 0..100 {
        assert_eq!(sender.round(10, 100), 10_000);
        assert_eq!(sender.hystart.phase(), Phase::SlowStart);
    }
}

/// The threshold is an eighth of the round-trip time, between 4 and 16 ms.
#[test]
fn the_threshold_is_clamped() {
    for (last, below, at) in [(8, 11, 12), (80, 89, 90), (400, 415, 416), (1, 4, 5)] {
        let mut sender = Sender::new();
        sender.round(10, last);
        sender.round(10, below);
        assert_eq!(sender.hystart.phase(), Phase::SlowStart, "{last} -> {below} ms");
        let mut sender = Sender::new();
        sender.round(10, last);
        sender.round(10, at);
        assert_eq!(sender.hystart.phase(), Phase::Conservative, "{last} -> {at} ms");
    }
}

#[test]
fn seven_samples_decide_nothing() {
    let mut sender = Sender::new();
    sender.round(10, 50);
    sender.round(7, 200);
    assert_eq!(sender.hystart.phase(), Phase::SlowStart);
    let mut sender = Sender::new();
    sender.round(10, 50);
    sender.round(8, 200);
    assert_eq!(sender.hystart.phase(), Phase::Conservative);
}

/// Five rounds of conservative growth, the one in which it began counted, then the end.
#[test]
fn conservative_slow_start_lasts_five_rounds() {
    let mut sender = Sender::new();
    sender.round(20, 50);
    // The eighth sample decides; the growth of the ACKs after it is a quarter.
    assert_eq!(sender.round(20, 100), 8_000 + 12 * 250);
    for round in 2..=4 {
        assert_eq!(sender.round(20, 100), 5_000, "round {round}");
        assert_eq!(sender.hystart.phase(), Phase::Conservative, "round {round}");
    }
    assert_eq!(sender.round(20, 100), 5_000);
    assert_eq!(sender.hystart.phase(), Phase::Done);
    assert_eq!(sender.round(1, 100), 1_000, "no longer its business");
}

#[test]
fn a_round_trip_below_the_baseline_resumes_slow_start() {
    let mut sender = Sender::new();
    sender.round(10, 50);
    sender.round(10, 100);
    assert_eq!(sender.hystart.phase(), Phase::Conservative);
    sender.round(10, 100);
    assert_eq!(sender.hystart.phase(), Phase::Conservative, "equal to the baseline is not below");
    sender.round(10, 99);
    assert_eq!(sender.hystart.phase(), Phase::SlowStart);
    // And it may begin again, with five fresh rounds.
    sender.round(10, 150);
    assert_eq!((sender.hystart.phase(), sender.hystart.css_rounds), (Phase::Conservative, 1));
}

/// The quarter is exact over many small ACKs.
#[test]
fn no_byte_is_lost_in_the_division() {
    let mut hystart = HystartPlusPlus { phase: Phase::Conservative, ..HystartPlusPlus::new() };
    let one = AckSample { newly_acked_bytes: 1, snd_nxt: Seq(1 << 20), ..AckSample::default() };
    assert_eq!((0..999).map(|_| hystart.on_ack(&one)).sum::<u32>(), 249);
}

#[test]
fn congestion_ends_it_for_good() {
    let mut sender = Sender::new();
    sender.hystart.congestion();
    sender.round(10, 50);
    sender.round(10, 500);
    assert_eq!(sender.hystart.phase(), Phase::Done);
}

/// Rounds are bounded by sequence numbers, around the wrap too.
#[test]
fn rounds_go_around_the_sequence_wrap() {
    let mut sender = Sender { hystart: HystartPlusPlus::new(), una: u32::MAX - 5_000, nxt: u32::MAX - 4_000 };
    let end = Seq(sender.nxt);
    let at = |una: Seq, nxt: Seq| AckSample {
        newly_acked_bytes: 1,
        rtt: Some(Duration::from_millis(10)),
        snd_una: una,
        snd_nxt: nxt,
        ..AckSample::default()
    };
    sender.hystart.on_ack(&at(Seq(sender.una), end));
    sender.hystart.on_ack(&at(end, end + 10_000));
    assert_eq!((sender.hystart.rtt_samples, sender.hystart.window_end), (0, Some(end + 10_000)));
    sender.hystart.on_ack(&at(end + 9_999, end + 20_000));
    assert_eq!(sender.hystart.rtt_samples, 1);
    sender.hystart.on_ack(&at(end + 10_000, end + 20_000));
    assert_eq!((sender.hystart.rtt_samples, sender.hystart.window_end), (0, Some(end + 20_000)));
}
