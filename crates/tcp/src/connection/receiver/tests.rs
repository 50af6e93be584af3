use super::*;
use crate::counters::Counter;
use crate::outbox::{Env, Outbox};
use weft_wire::ipv4::Ecn;
use weft_wire::tcp::{Flags, Options, Segment, Timestamps};

const MSS: u32 = 1000;

/// A receiver that has taken the peer's SYN and announced `window`, and what its methods are lent.
fn receiver(window: u32) -> (Receiver, Config, Outbox) {
    let config = Config::default();
    let mut receive = Receiver::new(&config, &StreamOptions::default(), MSS);
    receive.begin(Seq(100), window, 0, Some(50), Instant::ZERO);
    (receive, config, Outbox::default())
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn stamped(value: u32) -> Segment {
    let options = Options { timestamps: Some(Timestamps { value, echo: 0 }), ..Options::default() };
    Segment { options, flags: Flags::ACK, ..Segment::default() }
}

#[test]
fn acceptable_is_what_ends_behind_the_last_acknowledgment_and_begins_in_the_window() {
    let (receive, ..) = receiver(1000);
    let next = receive.next;
    let place = |start, end| receive.place(start, end, false, 0);
    assert_eq!((place(next, next + 10), place(next + 1000, next + 1010)), (Place::Within, Place::Within));
    assert_eq!((place(next - 5, next), place(next - 5, next - 1)), (Place::Within, Place::Before));
    assert_eq!(place(next + 1001, next + 1002), Place::Beyond);
}

#[test]
fn what_ends_behind_the_window_is_taken_while_nothing_waits_to_be_read() {
    let (receive, ..) = receiver(1000);
    let next = receive.next;
    assert_eq!(receive.place(next, next + 1001, false, 0), Place::Within);
    assert_eq!(receive.place(next, next + 1001, false, 1), Place::Beyond);
    assert_eq!(receive.place(next, next + 1001, true, 1), Place::Within);
    assert_eq!(receive.place(next, next + 1002, true, 1), Place::Beyond);
}

#[test]
fn old_timestamps_are_refused_until_they_say_nothing_any_more() {
    let (mut receive, ..) = receiver(1000);
    let next = receive.next;
    assert!(receive.is_old_by_timestamp(true, at(1), &stamped(49)) && !receive.is_old_by_timestamp(true, at(1), &stamped(50)));
    assert!(!receive.is_old_by_timestamp(false, at(1), &stamped(49)), "nothing was agreed on");
    assert!(!receive.is_old_by_timestamp(true, at(25 * 24 * 3_600_000), &stamped(49)));
    receive.note_timestamp(true, at(1), &stamped(70), next + 1);
    assert_eq!(receive.timestamp, 50, "ahead of the last acknowledgment");
    receive.note_timestamp(true, at(1), &stamped(60), next);
    assert_eq!((receive.timestamp, receive.timestamp_at), (60, at(1)));
}

#[test]
fn a_window_that_was_promised_does_not_shrink() {
    let (mut receive, config, mut out) = receiver(4000);
    let mut env = Env { now: at(0), config: &config, out: &mut out };
    receive.delivered = u64::from(receive.buffer);
    receive.next += 1000;
    assert_eq!(receive.select_window(), 0, "the program takes nothing");
    assert_eq!(receive.announce_window(&mut env, false, &crate::extension::Plain), 3000);
    receive.next += 3000;
    assert_eq!(receive.announce_window(&mut env, false, &crate::extension::Plain), 0);
    assert_eq!(out.counters.get(Counter::TCPToZeroWindowAdv), 1);
}

#[test]
fn what_came_twice_is_reported_once_and_first() {
    let (mut receive, config, mut out) = receiver(10_000);
    let mut env = Env { now: at(0), config: &config, out: &mut out };
    let next = receive.next;
    let range = receive.queue.insert(next + 2000, &Frame::ingress(&[0; 500]));
    receive.remember_range(range);
    receive.note_duplicate(&mut env, true, next - 100, next, Counter::TCPDSACKOldSent);
    let mut blocks = Vec::new();
    let begin = receive.space.seq(next);
    receive.sack_blocks(4, |from, to| blocks.push((from - begin, to - begin)));
    assert_eq!(blocks, [(-100, 0), (2000, 2500)]);
    blocks.clear();
    receive.sack_blocks(4, |from, to| blocks.push((from - begin, to - begin)));
    assert_eq!(blocks, [(2000, 2500)]);
    assert!(receive.ack.now);
}

#[test]
fn a_mark_of_congestion_is_echoed_until_the_peer_says_cwr() {
    let (mut receive, config, mut out) = receiver(10_000);
    let mut env = Env { now: at(0), config: &config, out: &mut out };
    let cwr = Segment { flags: Flags::ACK | Flags::CWR, ..Segment::default() };
    receive.ecn_received(&mut env, &stamped(1), Ecn::CongestionExperienced, false);
    receive.ecn_received(&mut env, &cwr, Ecn::Capable0, true);
    assert!(receive.ecn_echo, "a pure acknowledgment says nothing of data");
    receive.ecn_received(&mut env, &cwr, Ecn::Capable0, false);
    assert_eq!((receive.ecn_echo, receive.ecn_seen), (false, true));
    assert_eq!(out.counters.get(Counter::InCEPkts), 1);
}

#[test]
fn the_buffer_follows_what_the_program_takes_in_a_round_trip() {
    let (mut receive, config, mut out) = receiver(10_000);
    let options = StreamOptions::default();
    receive.start_tuning(at(0), MSS);
    receive.rtt = Some(Duration::from_millis(10));
    let buffer = receive.buffer;
    (receive.delivered, receive.taken) = (1_000_000, 1_000_000);
    receive.tune_buffer(&options, true, &mut Env { now: at(9), config: &config, out: &mut out });
    assert_eq!(receive.buffer, buffer, "no round trip is over");
    receive.tune_buffer(&options, true, &mut Env { now: at(10), config: &config, out: &mut out });
    assert!(receive.buffer > buffer);
    assert_eq!(receive.clamp, receive.buffer / 2);
}
