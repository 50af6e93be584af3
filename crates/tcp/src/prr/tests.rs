//! Traces of RFC 6937 §3.1 and properties. A segment is 1000 bytes.

use super::*;
use proptest::prelude::*;

const MSS: u32 = 1_000;

/// A recovery as the connection runs it: what is in flight, and what PRR let out on each ACK (in segments).
struct Recovery {
    prr: Prr,
    in_flight: u32,
    sent: Vec<u32>,
}

impl Recovery {
    fn enter(flight: u32, ssthresh: u32) -> Recovery {
        let mut prr = Prr::new();
        prr.enter(flight * MSS, ssthresh * MSS, MSS);
        Recovery { prr, in_flight: flight * MSS, sent: Vec::new() }
    }

    /// An ACK that delivers and loses so many segments; everything that is allowed is sent, in whole segments.
    fn ack(&mut self, delivered: u32, lost: u32, una_advanced: bool) -> u32 {
        self.in_flight -= (delivered + lost) * MSS;
        let allowed = self.prr.on_ack(delivered * MSS, lost * MSS, self.in_flight, una_advanced) / MSS;
        self.prr.sent(allowed * MSS);
        self.in_flight += allowed * MSS;
        self.sent.push(allowed);
        allowed
    }
}

/// RFC 6937 §3.1, first example: 20 segments, the first one lost, ssthresh 10 (a Reno-style halving). The ACKs of 2 to 20 arrive one by
/// one; PRR sends on every other one, and ends with ten in flight.
#[test]
fn one_loss_of_twenty_sends_on_every_second_ack() {
    let mut recovery = Recovery::enter(20, 10);
    // Three duplicate ACKs were SACKed before recovery is certain; the first ACK of the recovery finds segment 1 lost.
    recovery.ack(1, 1, false);
    for _ in 0..18 {
        recovery.ack(1, 0, false);
    }
    // One out for two in, until ten are in flight after the 17th ACK; from there on one out for one in holds the ten.
    assert_eq!(recovery.sent, [1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 0, 1, 1]);
    assert_eq!(recovery.in_flight, 10 * MSS);
    assert_eq!(recovery.prr.progress_bytes(), (19_000, 10_000));
    // The cumulative ACK of the retransmission finds the flight at its goal.
    recovery.ack(1, 0, true);
    assert_eq!(recovery.in_flight, 10 * MSS);
}

/// RFC 6937 §3.1, second example: 20 segments, 1 to 15 lost. The flight falls below ssthresh at once; the reduction bound sends one segment
/// per segment delivered (conservative) while losses are found, and one more (slow start) when the ACK is safe.
#[test]
fn heavy_loss_conserves_packets_and_then_slow_starts() {
    let mut recovery = Recovery::enter(20, 10);
    assert_eq!(recovery.ack(1, 15, false), 1, "the forced retransmission, to five in flight");
    assert_eq!(recovery.ack(1, 0, false), 1);
    assert_eq!(recovery.ack(1, 0, false), 1);
    assert_eq!(recovery.ack(1, 0, false), 1);
    assert_eq!(recovery.in_flight, 5 * MSS);
    // The retransmissions arrive, snd_una moves, nothing more is lost: two for one, up to ssthresh.
    for _ in 0..5 {
        assert_eq!(recovery.ack(1, 0, true), 2);
    }
    assert_eq!(recovery.in_flight, 10 * MSS);
    assert_eq!(recovery.ack(1, 0, true), 1, "at ssthresh one in, one out");
}

/// An ACK that advances but reports another loss is not safe.
#[test]
fn a_further_loss_makes_an_ack_unsafe() {
    let enter = || {
        let mut recovery = Recovery::enter(20, 10);
        recovery.ack(1, 12, false);
        recovery
    };
    assert_eq!(enter().ack(1, 0, true), 2);
    assert_eq!(enter().ack(1, 1, true), 1);
    assert_eq!(enter().ack(1, 0, false), 1);
}

/// The first ACK of a recovery always lets the retransmission out, however little is delivered.
#[test]
fn the_first_retransmission_is_never_held_back() {
    let mut prr = Prr::new();
    prr.enter(100 * MSS, 70 * MSS, MSS);
    assert_eq!(prr.on_ack(0, MSS, 99 * MSS, false), MSS);
    prr.sent(MSS);
    assert_eq!(prr.on_ack(0, 0, 99 * MSS, false), 0);
}

/// Cubic's 0.7: seven out for ten in, in every prefix.
#[test]
fn the_reduction_is_proportional_all_along() {
    let mut recovery = Recovery::enter(100, 70);
    recovery.ack(1, 1, false);
    for acks in 2..=99u32 {
        recovery.ack(1, 0, false);
        if recovery.in_flight <= 70 * MSS {
            continue;
        }
        let sent: u32 = recovery.sent.iter().sum();
        assert!(sent.abs_diff((acks * 7).div_ceil(10)) <= 1, "{sent} sent for {acks} delivered");
    }
    assert_eq!(recovery.in_flight, 70 * MSS);
}

#[test]
fn outside_recovery_it_allows_nothing_and_counts_nothing() {
    let mut prr = Prr::new();
    prr.sent(MSS);
    assert_eq!((prr.on_ack(MSS, 0, MSS, true), prr.is_active(), prr), (0, false, Prr::new()));
    prr.enter(10 * MSS, 5 * MSS, MSS);
    assert!(prr.is_active());
    prr.exit();
    assert_eq!(prr, Prr::new());
}

proptest! {
    /// RFC 6937 §3: "the total amount of data sent during recovery" never exceeds the share while the flight is above ssthresh, and the
    /// bound never lets the flight rise above ssthresh (but for the one forced segment).
    #[test]
    fn the_flight_never_rises_above_the_goal(flight in 2u32..500, goal_percent in 1u32..100, acks in prop::collection::vec((1u32..4, 0u32..3, any::<bool>()), 1..300)) {
        let goal = (flight * goal_percent / 100).max(2).min(flight);
        let mut recovery = Recovery::enter(flight, goal);
        for (delivered, lost, una_advanced) in acks {
            let room = recovery.in_flight / MSS;
            let delivered = delivered.min(room);
            let lost = lost.min(room - delivered);
            let first = recovery.prr.progress_bytes().1 == 0;
            let above = recovery.in_flight.max(goal * MSS);
            recovery.ack(delivered, lost, una_advanced);
            let forced = if first { MSS } else { 0 };
            prop_assert!(recovery.in_flight <= above + forced);
            let (delivered, out) = recovery.prr.progress_bytes();
            // At most a segment per ACK beyond what was delivered: slow start.
            prop_assert!(out <= 2 * delivered + u64::from(MSS));
        }
    }

    #[test]
    fn extreme_numbers_do_no_harm(flight in any::<u32>(), goal in any::<u32>(), mss in any::<u32>(), acks in prop::collection::vec((any::<u32>(), any::<u32>(), any::<u32>(), any::<bool>()), 1..50)) {
        let mut prr = Prr::new();
        prr.enter(flight, goal, mss);
        for (delivered, lost, in_flight, advanced) in acks {
            let allowed = prr.on_ack(delivered, lost, in_flight, advanced);
            prr.sent(allowed);
        }
    }
}
