use super::*;

const MS: Duration = Duration::from_millis(1);
const DELAY_MIN: Duration = Duration::from_millis(80);
const SEGMENTS: u32 = 40;

/// Slow start, with acknowledgments a thousand bytes each.
#[derive(Default)]
struct Sender {
    hystart: Classic,
    acknowledged: u32,
    sent: u32,
}

impl Sender {
    /// One acknowledgment; `ends_round`: of all that was sent when the round began, and more.
    fn ack(&mut self, at: Instant, rtt: Duration, ends_round: bool) -> Option<Detected> {
        self.acknowledged = if ends_round { self.sent + 1 } else { self.acknowledged + 1 };
        self.sent = self.sent.max(self.acknowledged + if ends_round { 10_000 } else { 0 });
        let ack = AckSample { now: at, snd_una: Seq(self.acknowledged), snd_nxt: Seq(self.sent), ..AckSample::default() };
        self.hystart.on_ack(&ack, rtt, DELAY_MIN, SEGMENTS)
    }
}

fn at(micros: u64) -> Instant {
    Instant::from_nanos(micros * 1_000)
}

/// Acknowledgments at most 2 ms apart from the start of the round on, for more than half of the shortest round trip.
#[test]
fn a_train_of_half_a_round_trip_is_found() {
    for (gap_us, found_at) in [(1_000, Some(41_000)), (2_000, Some(42_000)), (2_001, None)] {
        let mut sender = Sender::default();
        assert_eq!(sender.ack(at(0), DELAY_MIN, true), None);
        let first = (1..200).map(|n| n * gap_us).find(|now| sender.ack(at(*now), DELAY_MIN, false).is_some());
        assert_eq!((first, sender.hystart.found()), (found_at, found_at.is_some()), "{gap_us} us apart");
    }
}

/// The next round's train begins anew.
#[test]
fn a_round_begins_with_what_goes_beyond_it() {
    let mut sender = Sender::default();
    for round in 0..10 {
        assert_eq!(sender.ack(at(round * 100_000), DELAY_MIN, true), None, "{round}");
        for n in 1..40 {
            assert_eq!(sender.ack(at(round * 100_000 + n * 1_000), DELAY_MIN, false), None, "{round}, {n}");
        }
    }
}

/// What is paced may be spread over half a round trip by the sender itself; large frames may wait a millisecond.
#[test]
fn pacing_and_large_frames_lengthen_the_train() {
    for (paced, rate, found_at) in [(false, 0, 41_000), (true, 0, 81_000), (false, 1_000_000, 41_000), (true, 1_000_000, 82_000)] {
        let mut hystart = Classic::default();
        let ack = |now: u64| AckSample {
            now: at(now),
            paced,
            pacing_rate_bytes_per_s: rate,
            snd_una: Seq(1),
            snd_nxt: Seq(9),
            ..AckSample::default()
        };
        let found = (0..200).map(|n| n * 1_000).find(|now| hystart.on_ack(&ack(*now), DELAY_MIN, DELAY_MIN, SEGMENTS).is_some());
        assert_eq!(found, Some(found_at), "paced {paced}, {rate} bytes a second");
    }
    assert_eq!(waiting(1_000_000_000), Duration::from_micros(260));
}

/// More than eight samples, the shortest of which is longer by an eighth, 4 ms at least and 16 at most.
#[test]
fn a_longer_round_trip_is_found_with_the_ninth_sample() {
    for (shortest, rise, found) in [(80, 10, false), (80, 11, true), (8, 4, false), (8, 5, true), (400, 16, false), (400, 17, true)] {
        let mut hystart = Classic::default();
        let (shortest, rtt) = (MS * shortest, MS * (shortest + rise));
        let mut ack = AckSample { snd_una: Seq(1), snd_nxt: Seq(9), ..AckSample::default() };
        for n in 1..=9 {
            ack.now = Instant::from_millis(n * 10);
            let said = hystart.on_ack(&ack, rtt, shortest, SEGMENTS);
            assert_eq!(said, (found && n == 9).then_some(Detected::Delay), "{shortest:?} + {rise} ms, sample {n}");
        }
    }
    // One short round trip among them is enough.
    let mut sender = Sender::default();
    for n in 0..30 {
        let rtt = if n == 3 { DELAY_MIN } else { DELAY_MIN * 2 };
        assert_eq!(sender.ack(Instant::from_millis(n * 10), rtt, n == 0), None);
    }
}

#[test]
fn small_windows_are_let_alone() {
    let ack = |n: u64| AckSample { now: Instant::from_millis(n), snd_una: Seq(1), snd_nxt: Seq(9), ..AckSample::default() };
    for (segments, found) in [(15, false), (16, true)] {
        let mut hystart = Classic::default();
        assert_eq!((0..100).any(|n| hystart.on_ack(&ack(n), DELAY_MIN * 2, DELAY_MIN, segments).is_some()), found, "{segments} segments");
    }
}

/// Slow start after a timeout is looked at again; its first round ends where sending stood, and no train reaches it.
#[test]
fn a_timeout_begins_anew() {
    let mut sender = Sender::default();
    let mut clock = (0..).map(|n| at(n * 1_000));
    sender.ack(at(0), DELAY_MIN, true);
    while sender.ack(clock.next().unwrap(), DELAY_MIN, false).is_none() {}
    assert!(sender.hystart.found());
    let now = Instant::from_millis(1_000);
    sender.hystart.timeout(now);
    assert!(!sender.hystart.found());
    for n in 0..100 {
        assert_eq!(sender.ack(now + MS * (100 + n), DELAY_MIN, false), None);
    }
    assert_eq!(sender.ack(now + MS * 200, DELAY_MIN, true), None);
    assert!((1..200).any(|n| sender.ack(now + MS * (200 + n), DELAY_MIN, false) == Some(Detected::Train)));
}

/// After it was found nothing is looked for.
#[test]
fn it_is_found_once() {
    let mut sender = Sender::default();
    let found = (0..1_000).filter(|n| sender.ack(at(n * 1_000), DELAY_MIN * 2, n % 200 == 0).is_some()).count();
    assert_eq!(found, 1);
}
