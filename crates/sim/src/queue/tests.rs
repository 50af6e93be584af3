//! Disciplines under a load of twice what the wire carries.

use super::*;
use crate::hash;
use std::time::Duration;
use weft_core::Frame;

/// A UDP packet of 1000 bytes from a port; ECN-capable or not.
fn item(port: u16, capable: bool) -> Item {
    let mut bytes = vec![0u8; 1000];
    bytes[12..14].copy_from_slice(&[8, 0]);
    let packet = &mut bytes[14..];
    packet[0] = 0x45;
    packet[1] = if capable { 2 } else { 0 };
    packet[2..4].copy_from_slice(&986u16.to_be_bytes());
    (packet[8], packet[9]) = (64, 17);
    packet[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    let sum = weft_wire::checksum::of(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet[20..22].copy_from_slice(&port.to_be_bytes());
    let frame = Frame::ingress(&bytes);
    Item { digest: hash::of_frame(&frame, &mut Vec::new()), bytes: 1000, frame }
}

struct LoadResult {
    sent: usize,
    by_port: std::collections::BTreeMap<u16, usize>,
    marked: usize,
    counters: QueueCounters,
    longest: usize,
}

/// Port 1 sends a frame every 0.5 ms and port 2 every 10 ms, for 10 s; the wire takes one every millisecond.
fn load(discipline: Discipline, capable: bool) -> LoadResult {
    let mut queue = WireQueue::new(QueuePlan { packets_max: 1000, discipline, ..QueuePlan::default() });
    let (mut rng, mut dropped) = (Rng::for_name(1, "queue"), Vec::new());
    let mut outcome = LoadResult { sent: 0, by_port: Default::default(), marked: 0, counters: QueueCounters::default(), longest: 0 };
    for half_millis in 0..20_000u64 {
        let now = Instant::from_micros(half_millis * 500);
        queue.push(now, item(1, capable), &mut rng, &mut dropped);
        if half_millis % 20 == 0 {
            queue.push(now, item(2, capable), &mut rng, &mut dropped);
        }
        if half_millis % 2 == 0
            && let Some(item) = queue.pop(now, &mut dropped)
        {
            outcome.sent += 1;
            let bytes = item.frame.to_vec();
            *outcome.by_port.entry(u16::from_be_bytes([bytes[34], bytes[35]])).or_default() += 1;
            outcome.marked += usize::from(bytes[15] & 3 == 3);
            assert_eq!(weft_wire::checksum::of(&bytes[14..34]), 0, "the header's checksum");
            assert_eq!(item.digest, hash::of_frame(&item.frame, &mut Vec::new()));
        }
        outcome.longest = if half_millis > 10_000 { outcome.longest.max(queue.len()) } else { 0 };
    }
    let waiting = queue.len();
    assert_eq!(queue.bytes(), waiting as u64 * 1000);
    outcome.counters = queue.counters();
    assert_eq!(outcome.sent + dropped.len() + waiting, 21_000, "every frame is somewhere");
    assert_eq!(dropped.len() as u64, outcome.counters.full + outcome.counters.early);
    outcome
}

const TARGET: Duration = Duration::from_millis(5);
const INTERVAL: Duration = Duration::from_millis(100);

#[test]
fn drop_tail_fills_up() {
    let outcome = load(Discipline::DropTail, false);
    assert!(outcome.counters.full > 9000 && outcome.counters.early == 0 && outcome.longest >= 999);
}

#[test]
fn red_keeps_the_average_between_its_thresholds() {
    let red = |ecn| Discipline::Red { min: 50_000, max: 150_000, probability: 0.1, ecn };
    let outcome = load(red(false), false);
    assert!(outcome.counters.early > 8000 && outcome.longest < 330, "{} {:?}", outcome.longest, outcome.counters);
    assert!(load(red(true), true).counters.marked > 1000);
}

#[test]
fn codel_drops_more_and_more_often_and_marks_who_can_be_marked() {
    let codel = |ecn| Discipline::CoDel { target: TARGET, interval: INTERVAL, ecn };
    let outcome = load(codel(false), false);
    // It is no policer: without a sender that listens, it takes seconds.
    assert!(outcome.counters.early > 1000 && outcome.sent == 10_000, "{:?}", outcome.counters);
    let marked = load(codel(true), true);
    assert!(marked.counters.marked > 0 && marked.counters.early == 0 && marked.marked as u64 <= marked.counters.marked);
    assert_eq!(load(codel(true), false).counters.marked, 0);
}

#[test]
fn fq_codel_keeps_the_thin_flow_whole() {
    let fq = Discipline::FqCoDel { target: TARGET, interval: INTERVAL, ecn: false, flows: 1024, quantum: 1514 };
    assert!(load(fq, false).by_port[&2] >= 998);
    assert!(load(Discipline::DropTail, false).by_port[&2] < 900);
}

#[test]
fn pie_holds_the_delay_near_its_target() {
    let pie = |ecn| Discipline::Pie { target: Duration::from_millis(15), update: Duration::from_millis(15), ecn };
    let outcome = load(pie(false), false);
    assert!(outcome.counters.early > 8000 && outcome.longest < 100, "{} {:?}", outcome.longest, outcome.counters);
    assert!(load(pie(true), true).counters.marked > 0);
}

#[test]
fn a_queue_that_becomes_another_keeps_what_fits() {
    let mut queue = WireQueue::new(QueuePlan::default());
    let (mut rng, mut dropped) = (Rng::for_name(1, "queue"), Vec::new());
    (0..10).for_each(|port| queue.push(Instant::ZERO, item(port, false), &mut rng, &mut dropped));
    let plan = QueuePlan { packets_max: 4, ..QueuePlan::default() };
    queue.become_other(Instant::ZERO, plan, &mut rng, &mut dropped);
    assert_eq!((queue.len(), dropped.len()), (4, 6));
}
