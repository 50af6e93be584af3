//! What holds for every control, and for the window itself.

use super::*;
use proptest::prelude::*;
use weft_core::state::State;

const MSS: u32 = 1_000;

/// Those for which losses decide; the others have tests of their own.
const LOSS_BASED: &[&str] = &["cubic", "reno"];

/// An ACK of `bytes` in order at `now`, for a sender that is limited by its window.
pub(super) fn ack(now: Instant, bytes: u32) -> AckSample {
    let rtt = Duration::from_millis(100);
    AckSample { now, newly_acked_bytes: bytes, rtt: Some(rtt), min_rtt: rtt, srtt: rtt, cwnd_limited: true, ..AckSample::default() }
}

/// A control that has just begun.
pub(super) fn begun(name: &str, mss: u32) -> (Box<dyn CongestionControl>, Window) {
    let mut control = by_name(name).expect("a listed name");
    let mut w = Window::new(mss);
    control.init(&mut w, Instant::ZERO);
    (control, w)
}

#[test]
fn names_and_constructors_are_the_same_list() {
    let listed: Vec<&str> = CONTROLS.iter().map(|(name, _)| *name).collect();
    assert_eq!(listed, NAMES);
    for name in NAMES {
        assert_eq!(by_name(name).map(|control| control.name()), Some(*name));
    }
    assert!(by_name("vegas").is_none());
    assert!(by_name("").is_none());
}

#[test]
fn initial_window_is_ten_segments_and_one_after_two_lost_syns() {
    assert_eq!(initial_window_bytes(1460, 0), 14_600);
    assert_eq!(initial_window_bytes(1460, 1), 14_600);
    assert_eq!(initial_window_bytes(1460, 2), 1460);
    assert_eq!(initial_window_bytes(536, 0), 5360);
    assert_eq!(initial_window_bytes(0, 0), 10);
    assert_eq!(initial_window_bytes(u32::MAX, 0), 10 * SEGMENT_BYTES_MAX);
}

#[test]
fn a_smaller_segment_size_keeps_the_number_of_segments() {
    let mut w = Window { mss: 1460, cwnd_bytes: 14_600, ssthresh_bytes: u32::MAX };
    w.set_mss(536);
    assert_eq!((w.mss, w.cwnd_bytes), (536, 5360));
    w.set_mss(1460);
    assert_eq!((w.mss, w.cwnd_bytes), (1460, 5360));
    w.cwnd_bytes = 1000;
    w.set_mss(9000);
    assert_eq!(w.cwnd_bytes, 9000, "at least one segment");
}

#[test]
fn slow_start_doubles_in_a_round_trip_and_stops_at_the_threshold() {
    for name in LOSS_BASED {
        let (mut control, mut w) = begun(name, MSS);
        assert_eq!((w.cwnd_bytes, w.ssthresh_bytes), (10 * MSS, u32::MAX), "{name}");
        for _ in 0..10 {
            control.on_ack(&ack(Instant::from_millis(100), MSS), &mut w);
        }
        assert_eq!(w.cwnd_bytes, 20 * MSS, "{name}");
        // A stretched ACK counts whole.
        control.on_ack(&ack(Instant::from_millis(200), 20 * MSS), &mut w);
        assert_eq!(w.cwnd_bytes, 40 * MSS, "{name}");
        w.ssthresh_bytes = 45 * MSS;
        control.on_ack(&ack(Instant::from_millis(300), 30 * MSS), &mut w);
        assert!((45 * MSS..=46 * MSS).contains(&w.cwnd_bytes), "{name}: {}", w.cwnd_bytes);
    }
}

#[test]
fn an_unused_window_does_not_grow() {
    for name in LOSS_BASED {
        let (mut control, mut w) = begun(name, MSS);
        let limited = AckSample { cwnd_limited: false, ..ack(Instant::from_millis(100), 10 * MSS) };
        control.on_ack(&limited, &mut w);
        assert_eq!(w.cwnd_bytes, 10 * MSS, "{name}: slow start");
        w.ssthresh_bytes = 5 * MSS;
        for _ in 0..100 {
            control.on_ack(&limited, &mut w);
        }
        assert_eq!(w.cwnd_bytes, 10 * MSS, "{name}: congestion avoidance");
    }
}

#[test]
fn recovery_neither_grows_nor_keeps_what_prr_wrote() {
    for name in LOSS_BASED {
        let (mut control, mut w) = begun(name, MSS);
        w.set_cwnd(100 * u64::from(MSS));
        control.on_event(Instant::from_millis(1), CongestionEvent::Loss, 100 * MSS, &mut w);
        let goal = w.ssthresh_bytes;
        assert_eq!(goal, if *name == "reno" { 50 * MSS } else { 70 * MSS });
        assert_eq!(w.cwnd_bytes, goal, "{name}");
        control.on_ack(&AckSample { in_recovery: true, ..ack(Instant::from_millis(2), 10 * MSS) }, &mut w);
        assert_eq!(w.cwnd_bytes, goal, "{name}");
        w.cwnd_bytes = 30 * MSS;
        control.on_event(Instant::from_millis(3), CongestionEvent::RecoveryDone, 30 * MSS, &mut w);
        assert_eq!((w.cwnd_bytes, w.ssthresh_bytes), (goal, goal), "{name}");
    }
}

#[test]
fn timeouts_of_one_segment_reduce_the_threshold_once() {
    for name in LOSS_BASED {
        let (mut control, mut w) = begun(name, MSS);
        w.set_cwnd(100 * u64::from(MSS));
        control.on_event(Instant::from_millis(300), CongestionEvent::Timeout, 0, &mut w);
        let goal = w.ssthresh_bytes;
        assert_eq!(w.cwnd_bytes, MSS, "{name}");
        assert_eq!(goal, if *name == "reno" { 50 * MSS } else { 70 * MSS });
        control.on_event(Instant::from_millis(900), CongestionEvent::Timeout, 0, &mut w);
        assert_eq!((w.cwnd_bytes, w.ssthresh_bytes), (MSS, goal), "{name}: the same segment again");
        // Progress by slow start, then another segment: a new reduction.
        for at in 1000..1019 {
            control.on_ack(&ack(Instant::from_millis(at), MSS), &mut w);
        }
        assert_eq!(w.cwnd_bytes, 20 * MSS, "{name}");
        control.on_event(Instant::from_millis(2000), CongestionEvent::Timeout, 0, &mut w);
        assert_eq!((w.cwnd_bytes, w.ssthresh_bytes), (MSS, if *name == "reno" { 10 * MSS } else { 14 * MSS }), "{name}");
        // The end of a recovery after a timeout leaves slow start where it is.
        control.on_event(Instant::from_millis(2100), CongestionEvent::RecoveryDone, 0, &mut w);
        assert_eq!(w.cwnd_bytes, MSS, "{name}");
    }
}

#[test]
fn a_timeout_inside_fast_recovery_keeps_its_threshold() {
    for name in LOSS_BASED {
        let (mut control, mut w) = begun(name, MSS);
        w.set_cwnd(100 * u64::from(MSS));
        control.on_event(Instant::from_millis(1), CongestionEvent::Loss, 0, &mut w);
        let goal = w.ssthresh_bytes;
        control.on_event(Instant::from_millis(300), CongestionEvent::Timeout, 0, &mut w);
        assert_eq!((w.cwnd_bytes, w.ssthresh_bytes), (MSS, goal), "{name}");
    }
}

#[test]
fn undo_restores_the_larger_values_and_only_once() {
    for name in LOSS_BASED {
        for event in [CongestionEvent::Loss, CongestionEvent::Timeout] {
            let (mut control, mut w) = begun(name, MSS);
            w.set_cwnd(100 * u64::from(MSS));
            w.ssthresh_bytes = 80 * MSS;
            control.on_event(Instant::from_millis(1), event, 0, &mut w);
            control.on_event(Instant::from_millis(2), CongestionEvent::Undo, 0, &mut w);
            assert_eq!((w.cwnd_bytes, w.ssthresh_bytes), (100 * MSS, 80 * MSS), "{name} {event:?}");
            w.set_cwnd(40 * u64::from(MSS));
            control.on_event(Instant::from_millis(3), CongestionEvent::Undo, 0, &mut w);
            assert_eq!(w.cwnd_bytes, 40 * MSS, "{name} {event:?}: nothing left to undo");
        }
    }
}

#[test]
fn ecn_reduces_like_a_loss_and_is_never_undone() {
    for name in LOSS_BASED {
        let (mut control, mut w) = begun(name, MSS);
        w.set_cwnd(100 * u64::from(MSS));
        control.on_event(Instant::from_millis(1), CongestionEvent::Ecn, 0, &mut w);
        let reduced = w;
        control.on_event(Instant::from_millis(2), CongestionEvent::Undo, 0, &mut w);
        assert_eq!(w, reduced, "{name}");
        assert!(reduced.cwnd_bytes < 100 * MSS, "{name}");
    }
}

/// A pause of n RTOs (300 ms here) halves the window n times, down to the initial window, and remembers three quarters of it.
#[test]
fn idle_halves_the_window_per_timeout_down_to_the_restart_window() {
    for name in LOSS_BASED {
        for (pause_ms, expected) in [(50, 80), (299, 80), (301, 40), (599, 40), (601, 20), (901, 10), (60_000, 10)] {
            let (mut control, mut w) = begun(name, MSS);
            w.ssthresh_bytes = 70 * MSS;
            w.set_cwnd(80 * u64::from(MSS));
            control.on_ack(&AckSample { cwnd_limited: false, ..ack(Instant::from_millis(100), MSS) }, &mut w);
            let now = Instant::from_millis(100 + pause_ms);
            control.on_event(now, CongestionEvent::Idle(Duration::from_millis(pause_ms)), 0, &mut w);
            assert_eq!(w.cwnd_bytes, expected * MSS, "{name}: {pause_ms} ms");
            assert_eq!(w.ssthresh_bytes, 70 * MSS, "{name}: three quarters of 80 are less than 70");
        }
        let (mut control, mut w) = begun(name, MSS);
        w.set_cwnd(4 * u64::from(MSS));
        control.on_event(Instant::from_millis(60_000), CongestionEvent::Idle(Duration::from_secs(60)), 0, &mut w);
        assert_eq!((w.cwnd_bytes, w.ssthresh_bytes), (4 * MSS, u32::MAX), "{name}: RW = min(IW, cwnd); no threshold appears from nothing");
    }
}

/// Linux 6.18: 1254 segments of 1448 bytes, a pause of more than five and less than six RTOs of 312 ms: 39 segments, threshold 940.
#[test]
fn idle_gives_the_kernels_window() {
    for name in LOSS_BASED {
        let (mut control, mut w) = begun(name, 1_448);
        w.ssthresh_bytes = 864 * 1_448;
        w.set_cwnd(1_254 * 1_448);
        let srtt = Duration::from_millis(112);
        control.on_ack(&AckSample { cwnd_limited: false, srtt, ..ack(Instant::from_millis(1), 1_448) }, &mut w);
        control.on_event(Instant::from_millis(1_701), CongestionEvent::Idle(Duration::from_millis(1_700)), 0, &mut w);
        assert_eq!((w.cwnd_bytes / 1_448, w.ssthresh_bytes / 1_448), (39, 940), "{name}");
    }
}

/// A control's state as a block would export it.
pub(super) fn exported(control: &dyn CongestionControl, now: Instant) -> State {
    let mut out = Writer::new(now);
    control.export(&mut out);
    out.finish("control", 1)
}

/// And take it over.
pub(super) fn imported(control: &mut dyn CongestionControl, state: &State, now: Instant) -> Result<(), Damage> {
    let mut from = Reader::new(state, "control", 1, now).expect("a good checksum");
    control.import(&mut from)?;
    from.finish()
}

/// The same state with other bytes here and there, and a checksum that fits.
pub(super) fn forged(state: &State, changes: &[(u16, u8)]) -> State {
    // The count of buffers, none, and the checksum are behind it.
    let mut body = state.bytes[..state.bytes.len() - 9].to_vec();
    for (at, byte) in changes {
        let at = usize::from(*at) % body.len();
        body[at] = *byte;
    }
    let mut out = Writer::new(Instant::ZERO);
    body.into_iter().for_each(|byte| out.byte(byte));
    out.finish(&state.kind, state.version)
}

#[test]
fn exported_state_goes_on_where_it_stopped_on_another_clock() {
    for name in LOSS_BASED {
        let (mut old, mut w) = begun(name, MSS);
        w.set_cwnd(100 * u64::from(MSS));
        old.on_event(Instant::from_millis(1), CongestionEvent::Loss, 0, &mut w);
        old.on_event(Instant::from_millis(50), CongestionEvent::RecoveryDone, 0, &mut w);
        for at in 100..1000 {
            old.on_ack(&ack(Instant::from_millis(at), MSS), &mut w);
        }
        let mut new = by_name(name).expect("a listed name");
        let shift = Duration::from_secs(1_000_000);
        let now = Instant::from_millis(1000);
        let state = exported(&*old, now);
        imported(&mut *new, &state, now + shift).expect("good state");
        assert_eq!(exported(&*new, now + shift), state, "{name}");
        let (mut w_old, mut w_new) = (w, w);
        for at in 1000..4000 {
            let now = Instant::from_millis(at);
            old.on_ack(&ack(now, MSS), &mut w_old);
            new.on_ack(&ack(now + shift, MSS), &mut w_new);
            assert_eq!(w_old, w_new, "{name} at {at} ms");
        }
        assert!(w_old.cwnd_bytes > w.cwnd_bytes, "{name}");
        let mut untouched = by_name(name).expect("a listed name");
        let fresh = exported(&*untouched, now);
        let mut nothing = Writer::new(now);
        nothing.byte(3);
        imported(&mut *untouched, &nothing.finish("control", 1), now).expect_err("too short");
        assert_eq!(exported(&*untouched, now), fresh, "{name}: as before");
    }
}

/// Anything that can happen to a control, with extreme numbers among it.
#[derive(Clone, Debug)]
enum Step {
    Ack { wait_ns: u64, acked: u32, sacked: u32, rtt_ns: u64, limited: bool, in_recovery: bool },
    Event(CongestionEvent),
    Mss(u32),
    CutTo(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = prop_oneof![4 => 0u32..100_000, 1 => any::<u32>()];
    let nanos = prop_oneof![4 => 0u64..1_000_000_000, 1 => any::<u64>()];
    prop_oneof![
        6 => (nanos.clone(), bytes.clone(), bytes.clone(), nanos.clone(), any::<bool>(), any::<bool>()).prop_map(
            |(wait_ns, acked, sacked, rtt_ns, limited, in_recovery)| Step::Ack { wait_ns, acked, sacked, rtt_ns, limited, in_recovery }
        ),
        2 => prop_oneof![
            Just(CongestionEvent::Loss),
            Just(CongestionEvent::Timeout),
            Just(CongestionEvent::Ecn),
            Just(CongestionEvent::Undo),
            Just(CongestionEvent::RecoveryDone),
            nanos.prop_map(|ns| CongestionEvent::Idle(Duration::from_nanos(ns))),
        ]
        .prop_map(Step::Event),
        1 => prop_oneof![1u32..10_000, any::<u32>()].prop_map(Step::Mss),
        1 => bytes.prop_map(Step::CutTo),
    ]
}

proptest! {
    /// No sequence of events panics, overflows, or leaves the window outside one segment and the maximum.
    #[test]
    fn the_window_stays_inside_its_bounds(which in 0..LOSS_BASED.len(), mss in prop_oneof![Just(0u32), 1u32..10_000, any::<u32>()], steps in prop::collection::vec(step(), 1..200)) {
        let (mut control, mut w) = begun(LOSS_BASED[which], mss);
        let mut now = Instant::ZERO;
        for step in steps {
            match step {
                Step::Ack { wait_ns, acked, sacked, rtt_ns, limited, in_recovery } => {
                    now += Duration::from_nanos(wait_ns);
                    let rtt = Duration::from_nanos(rtt_ns);
                    let before = w;
                    let sample = AckSample { now, newly_acked_bytes: acked, newly_sacked_bytes: sacked, rtt: Some(rtt), srtt: rtt, cwnd_limited: limited, in_recovery, ..AckSample::default() };
                    control.on_ack(&sample, &mut w);
                    prop_assert!(w.cwnd_bytes >= before.cwnd_bytes, "an ACK never shrinks the window");
                    if before.in_slow_start() && before.cwnd_bytes >= before.segment_bytes() {
                        let most = u64::from(before.cwnd_bytes) + u64::from(sample.newly_delivered_bytes()) + u64::from(before.segment_bytes());
                        prop_assert!(u64::from(w.cwnd_bytes) <= most, "slow start adds what was delivered, and at most a segment of congestion avoidance");
                    }
                    prop_assert!(w.cwnd_bytes >= w.segment_bytes().min(before.cwnd_bytes));
                }
                Step::Event(event) => {
                    control.on_event(now, event, w.cwnd_bytes, &mut w);
                    prop_assert!(w.cwnd_bytes >= w.segment_bytes(), "{event:?}");
                    prop_assert!(w.cwnd_bytes <= CWND_BYTES_MAX, "{event:?}");
                    if matches!(event, CongestionEvent::Loss | CongestionEvent::Ecn) {
                        prop_assert!(w.ssthresh_bytes >= w.segment_bytes().saturating_mul(2), "RFC 5681's floor of two segments");
                    }
                }
                Step::Mss(mss) => w.set_mss(mss),
                Step::CutTo(bytes) => w.set_cwnd(bytes.into()),
            }
            let _ = (control.info(), control.pacing_rate_bytes_per_s(&w, Duration::ZERO));
            let state = exported(&*control, now);
            let mut twin = by_name(LOSS_BASED[which]).expect("a listed name");
            imported(&mut *twin, &state, now).expect("its own state");
            prop_assert_eq!(exported(&*twin, now), state);
        }
    }

    /// Imported garbage cannot make a control panic or leave the bounds.
    #[test]
    fn imported_garbage_is_harmless(which in 0..LOSS_BASED.len(), changes in prop::collection::vec(any::<(u16, u8)>(), 1..9), waits in prop::collection::vec(any::<u32>(), 20)) {
        let (mut control, mut w) = begun(LOSS_BASED[which], MSS);
        control.on_event(Instant::from_millis(1), CongestionEvent::Loss, 0, &mut w);
        control.on_event(Instant::from_millis(50), CongestionEvent::RecoveryDone, 0, &mut w);
        (100..200).for_each(|at| control.on_ack(&ack(Instant::from_millis(at), MSS), &mut w));
        let state = exported(&*control, Instant::from_millis(200));
        for many in [1, changes.len()] {
            let _ = imported(&mut *control, &forged(&state, &changes[..many]), Instant::ZERO);
            w.ssthresh_bytes = 20 * MSS;
            let mut now = Instant::ZERO;
            for wait in &waits {
                now += Duration::from_nanos((*wait).into());
                control.on_ack(&ack(now, 10 * MSS), &mut w);
                prop_assert!((MSS..=CWND_BYTES_MAX).contains(&w.cwnd_bytes));
            }
            control.on_event(now, CongestionEvent::Idle(Duration::from_secs(1)), 0, &mut w);
            control.on_event(now, CongestionEvent::Loss, 0, &mut w);
            control.on_event(now, CongestionEvent::Undo, 0, &mut w);
            prop_assert!((MSS..=CWND_BYTES_MAX).contains(&w.cwnd_bytes));
        }
    }
}
