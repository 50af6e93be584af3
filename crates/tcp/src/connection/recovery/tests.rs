use super::super::ack::Ack;
use super::super::deadlines::Timer;
use super::*;
use crate::Config;
use crate::congestion::Phase;
use crate::counters::Counter;
use crate::outbox::{Env, Outbox};
use bytes::Bytes;
use weft_core::Duration;
use weft_wire::tcp::{Options, Segment, Seq};

const MSS: u32 = 1000;

/// A recovery with what it is lent: ten segments are out, one a millisecond, and the window has room for twenty.
struct Rig {
    recovery: Recovery,
    send: Sender,
    control: Control,
    opening: Opening,
    path_mtu: PathMtu,
    timers: Deadlines,
    totals: Totals,
    options: StreamOptions,
    config: Config,
    out: Outbox,
    now: Instant,
}

impl Rig {
    fn new() -> Rig {
        let (config, options, now) = (Config::default(), StreamOptions::default(), Instant::ZERO + Duration::from_secs(1));
        let mut rig = Rig {
            recovery: Recovery::new(super::super::bounds::rto_bounds(&config, &options), config.reordering),
            send: Sender::new(Seq(7), 1 << 20, MSS, now),
            control: Control::new(&config, &options, 1, MSS, now),
            opening: Opening::new(0, now),
            path_mtu: PathMtu::default(),
            timers: Deadlines::default(),
            totals: Totals::default(),
            options,
            config,
            out: Outbox::default(),
            now,
        };
        rig.opening.agreed.sack = true;
        rig.send.una = START + 1;
        (rig.send.window, rig.send.window_max) = (1 << 20, 1 << 20);
        rig.control.window.cwnd_bytes = 20 * MSS;
        rig.recovery.rtt.on_sample(now, Duration::from_millis(100), rig.send.una_seq(), rig.send.next_seq(), false);
        rig.send.queue.push(Bytes::from(vec![0; 20 * MSS as usize]), 0, false);
        for _ in 0..10 {
            rig.send.note_new(rig.now, MSS, false, 0);
            rig.now += Duration::from_millis(1);
        }
        rig.now += Duration::from_millis(100);
        rig
    }

    fn call<R>(&mut self, f: impl FnOnce(&mut Recovery, &mut Lent<'_>, &mut Env<'_>) -> R) -> R {
        let mut lent = Lent {
            send: &mut self.send,
            control: &mut self.control,
            opening: &self.opening,
            path_mtu: &mut self.path_mtu,
            timers: &mut self.timers,
            totals: &mut self.totals,
            options: &self.options,
            last_echo: 0,
        };
        f(&mut self.recovery, &mut lent, &mut Env { now: self.now, config: &self.config, out: &mut self.out })
    }

    /// An acknowledgment of the first `segments` with SACK blocks, as a connection takes it.
    fn acknowledge(&mut self, segments: u64, blocks: &[(u64, u64)]) -> Ack {
        let position = |segment: u64| START + 1 + segment * u64::from(MSS);
        let seq = |segment: u64| self.send.space.seq(position(segment));
        let sack = blocks.iter().map(|(from, to)| (seq(*from), seq(*to))).collect();
        let segment = Segment { ack: seq(segments), options: Options { sack, ..Options::default() }, ..Segment::default() };
        let (una, ack_at, now) = (self.send.una, position(segments), self.now);
        let mut ack = Ack {
            prior_una: una,
            prior_highest: self.send.outstanding.highest_sacked().unwrap_or(una),
            prior_in_flight: self.send.in_flight(),
            advanced: ack_at > una,
            ..Ack::default()
        };
        self.recovery.rack.advanced = false;
        self.call(|recovery, lent, env| {
            recovery.take_sacks(lent, env, &segment, ack_at, &mut ack);
            if ack.advanced {
                recovery.release(lent.send, now, ack_at, &mut ack);
                lent.send.una = ack_at;
                recovery.timeouts_are_over();
            }
            recovery.sample_rtt(lent.send, lent.opening, now, &segment, &ack);
            assert!(!recovery.on_dubious_ack(lent, env, &mut ack));
            recovery.allow(lent.send, &ack);
        });
        ack
    }

    fn count(&self, counter: Counter) -> u64 {
        self.out.counters.get(counter)
    }
}

#[test]
fn three_segments_that_arrived_behind_a_hole_begin_a_recovery_that_ends_when_all_is_acknowledged() {
    let mut rig = Rig::new();
    rig.acknowledge(0, &[(1, 3)]);
    assert_eq!((rig.recovery.phase, rig.send.outstanding.lost), (Phase::Disorder, 0), "two may be out of order");
    let before = rig.control.window.cwnd_bytes;
    rig.acknowledge(0, &[(1, 4)]);
    assert_eq!((rig.recovery.phase, rig.send.outstanding.lost), (Phase::Recovery, 1));
    assert_eq!(rig.send.outstanding.next_lost().map(|sent| sent.start), Some(START + 1));
    assert!(rig.control.window.ssthresh_bytes < before);
    assert!(rig.recovery.send_room(&rig.send, &rig.control) >= MSS, "the first retransmission leaves at once");
    let again = rig.send.una;
    rig.send.note_again(rig.now, again);
    rig.recovery.sent_again(rig.now, MSS);
    rig.now += Duration::from_millis(100);
    rig.acknowledge(10, &[]);
    assert_eq!((rig.recovery.phase, rig.send.outstanding.len()), (Phase::Open, 0));
    assert_eq!((rig.count(Counter::TCPSackRecovery), rig.count(Counter::TCPFullUndo)), (1, 0));
}

#[test]
fn a_recovery_is_undone_when_every_retransmission_was_a_duplicate() {
    let mut rig = Rig::new();
    let before = rig.control.window.cwnd_bytes;
    rig.acknowledge(0, &[(1, 4)]);
    let again = rig.send.una;
    rig.send.note_again(rig.now, again);
    rig.recovery.sent_again(rig.now, MSS);
    rig.totals.retransmitted = 1;
    rig.now += Duration::from_millis(10);
    rig.acknowledge(4, &[(0, 1)]);
    assert_eq!((rig.recovery.phase, rig.count(Counter::TCPDSACKUndo)), (Phase::Open, 1));
    assert_eq!(rig.control.window.cwnd_bytes, before);
}

#[test]
fn after_a_timeout_all_is_lost_that_is_not_young_and_one_segment_may_leave() {
    let mut rig = Rig::new();
    rig.now += Duration::from_millis(300);
    rig.call(Recovery::enter_loss);
    assert_eq!((rig.recovery.phase, rig.send.outstanding.lost), (Phase::Loss, 10));
    assert_eq!(rig.control.window.cwnd_bytes, MSS);
    assert_eq!(rig.recovery.send_room(&rig.send, &rig.control), MSS);
    assert!(rig.recovery.frto, "nothing had been sent again: new data may show that it was spurious");
}

#[test]
fn a_probe_comes_before_the_timeout_and_neither_when_nothing_is_out() {
    let mut rig = Rig::new();
    rig.call(|recovery, lent, env| recovery.arm_retransmission(lent, env, true));
    let (probe, timeout) = (rig.timers.at(Timer::Probe), rig.timers.at(Timer::Retransmit));
    assert_eq!((probe - rig.now, timeout - rig.now), (Duration::from_millis(202), rig.recovery.rtt.rto()));
    rig.send.outstanding.acknowledge(START + 1 + 10 * u64::from(MSS), |_| {});
    rig.call(|recovery, lent, env| recovery.arm_retransmission(lent, env, true));
    assert!(!rig.timers.is_set(Timer::Probe) && !rig.timers.is_set(Timer::Retransmit));
}

#[test]
fn marks_of_congestion_reduce_the_window_once_and_ask_for_cwr() {
    let mut rig = Rig::new();
    let in_flight = rig.send.in_flight();
    rig.call(|recovery, lent, env| recovery.enter_reduction(lent, env, in_flight));
    let reduced = rig.control.window.ssthresh_bytes;
    rig.control.cwr_due = false;
    rig.call(|recovery, lent, env| recovery.enter_reduction(lent, env, in_flight));
    assert_eq!((rig.recovery.phase, rig.control.window.ssthresh_bytes, rig.control.cwr_due), (Phase::Cwr, reduced, false));
    assert!(reduced < 20 * MSS);
}
