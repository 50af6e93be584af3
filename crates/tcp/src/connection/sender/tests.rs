use super::*;
use bytes::Bytes;

const MSS: u32 = 1000;

/// A sender whose SYN is acknowledged, whose peer takes `window` bytes, and that holds `bytes`.
fn sender(window: u32, bytes: usize) -> Sender {
    let mut send = Sender::new(Seq(7), 1 << 20, MSS, Instant::ZERO);
    (send.una, send.window, send.window_max) = (START + 1, window, window);
    send.queue.push(Bytes::from(vec![0; bytes]), 0, false);
    send.pushed = send.queue.end();
    send
}

fn announcement(seq: u32, ack: u32, window: u16) -> Segment {
    Segment { seq: Seq(seq), ack: Seq(ack), window, flags: Flags::ACK, ..Segment::default() }
}

#[test]
fn what_leaves_is_one_entry_a_segment_and_fin_is_a_number_of_the_last() {
    let mut send = sender(10_000, 2500);
    assert_eq!(send.note_new(Instant::ZERO, 2500, true, 9), 3);
    let entries: Vec<_> = send.outstanding.iter().map(|sent| (sent.start - START, sent.len, sent.fin, sent.pushed)).collect();
    assert_eq!(entries, [(1, 1000, false, false), (1001, 1000, false, false), (2001, 501, true, true)]);
    assert_eq!((send.unsent(), send.in_flight(), send.next_seq()), (0, 2501, Seq(7 + 2502)));
    assert!(!send.fin_due());
}

#[test]
fn the_windows_of_old_segments_say_nothing() {
    let mut send = sender(4000, 0);
    send.scale = 1;
    let una = send.una;
    assert_eq!(send.take_window(&announcement(0, 8, 3000), una + 10, una), (true, true), "scaled, and larger than all before");
    assert_eq!(send.take_window(&announcement(0, 8, 1000), una + 9, una), (false, false), "SND.WL1 is beyond it");
    assert_eq!(send.take_window(&announcement(0, 8, 2000), una + 10, una), (false, false), "of the same segment only a larger one");
    assert_eq!(send.take_window(&announcement(0, 9, 2000), una + 10, una + 1), (true, false), "it acknowledges something");
    assert_eq!((send.window, send.window_max), (4000, 6000));
}

#[test]
fn a_piece_of_a_segment_waits_while_a_small_one_is_out() {
    let mut send = sender(10_000, 3000);
    send.note_new(Instant::ZERO, 1000, false, 0);
    assert!(!send.waits_as_small(), "only full ones are out (Minshall)");
    send.note_new(Instant::ZERO, 500, false, 0);
    assert!(send.waits_as_small());
}

#[test]
fn the_next_segment_fits_whole_or_not_at_all() {
    let mut send = sender(1500, 3000);
    assert!(send.next_fits());
    send.note_new(Instant::ZERO, 1000, false, 0);
    assert_eq!((send.window_room(), send.next_fits()), (500, false));
}

#[test]
fn the_urgent_pointer_reaches_from_every_segment_before_the_mark() {
    let mut send = sender(10_000, 3000);
    send.urgent = START + 1 + 2000;
    assert_eq!(send.urgent_pointer(START + 1), Some(2000));
    assert_eq!(send.urgent_pointer(START + 2000), Some(1));
    assert_eq!(send.urgent_pointer(START + 2001), None);
    send.una = send.urgent;
    assert!(!send.is_urgent());
}

#[test]
fn a_write_fills_the_buffer_that_was_begun_and_goes_on_while_there_is_memory() {
    let (mut send, goal) = (sender(0, 0), 65_000);
    send.buffer = 3 * goal;
    let all = send.write_room(u32::MAX, 0);
    assert!(all >= 2 * u64::from(goal) && all.is_multiple_of(u64::from(goal)), "whole buffers: {all}");
    send.queue.push(Bytes::from(vec![0; 1000]), 0, false);
    send.note_written(1000, 0);
    assert_eq!(send.write_room(1, 0), u64::from(goal) - 1000, "above the low water mark the last buffer is filled, and no more");
}
