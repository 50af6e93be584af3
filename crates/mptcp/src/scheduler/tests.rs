use super::*;
use weft_core::Duration;

/// A subflow with an empty window of ten segments.
fn path(rtt_ms: u64, queued_bytes: u64) -> View {
    View {
        rtt: Some(Duration::from_millis(rtt_ms)),
        rtt_variation: Duration::from_millis(rtt_ms / 4),
        pacing_rate_bytes_per_s: 14_000 * 1000 / rtt_ms,
        cwnd_bytes: 14_000,
        free_bytes: 14_000_u32.saturating_sub(queued_bytes as u32),
        queued_bytes,
        queued_memory_bytes: queued_bytes,
        credit_bytes: 100_000,
        mss_bytes: 1400,
        ..View::default()
    }
}

fn backup(path: View) -> View {
    View { backup: true, ..path }
}

fn asked(paths: &[(usize, View)]) -> Asked<'_> {
    Asked { paths, una: 0, next: 50_000, end: 1 << 20, more: false, edge: 1 << 20, again: false }
}

fn choose(name: &str, asked: &Asked<'_>, memory: &mut Memory) -> Option<Choice> {
    SCHEDULERS[by_name(name)].1.choose(asked, memory)
}

/// Whom a scheduler that remembers nothing chooses.
fn chosen(name: &str, paths: &[(usize, View)]) -> Option<usize> {
    choose(name, &asked(paths), &mut Memory::default()).map(|choice| choice.index)
}

#[test]
fn names_and_rows_are_the_same() {
    assert!(SCHEDULERS.iter().map(|(name, _)| *name).eq(NAMES.iter().copied()));
    assert_eq!((by_name("ecf"), by_name("none such")), (6, 0));
}

#[test]
fn backups_only_where_nothing_else_is() {
    for name in NAMES {
        assert_eq!(chosen(name, &[(0, path(100, 1000)), (1, backup(path(10, 0)))]), Some(0), "{name}");
        assert!(chosen(name, &[(4, backup(path(100, 1000))), (7, backup(path(10, 0)))]).is_some(), "{name}");
        assert_eq!(chosen(name, &[]), None, "{name}");
    }
}

#[test]
fn full_windows_are_waited_for() {
    let full = path(10, 14_000);
    for name in NAMES.iter().filter(|name| !["default", "backup"].contains(name)) {
        assert_eq!(chosen(name, &[(0, full), (1, full)]), None, "{name}");
    }
    // These two fill the send buffers of their subflows.
    let full = View { credit_bytes: 0, ..path(10, 14_000) };
    for name in ["default", "backup"] {
        assert_eq!(chosen(name, &[(0, full), (1, path(100, 14_000))]), None, "{name}");
    }
}

#[test]
fn linuxs_gives_it_to_whoever_is_done_first() {
    assert_eq!(chosen("default", &[(0, path(100, 1000)), (1, path(10, 1000))]), Some(1));
    assert_eq!(chosen("default", &[(0, path(100, 1000)), (1, path(10, 20_000))]), Some(0));
    // Memory counts, and not data.
    let in_flight = View { queued_memory_bytes: 2000, ..path(10, 1000) };
    assert_eq!(chosen("default", &[(0, in_flight), (1, path(10, 1500))]), Some(1));
    // And the rate that paces, as it was on the average when data was given: a slow one that has become fast is thought slow for a while.
    let mut memory = Memory::default();
    let slow = [(0, View { pacing_rate_bytes_per_s: 1000, ..path(10, 100_000) }), (1, path(10, 3000))];
    assert_eq!(choose("default", &asked(&slow), &mut memory).map(|choice| choice.index), Some(1));
    assert_eq!(choose("default", &asked(&[(0, path(10, 1000)), (1, path(10, 3000))]), &mut memory).map(|choice| choice.index), Some(1));
}

#[test]
fn the_shortest_round_trip_with_room() {
    assert_eq!(chosen("lowest-rtt", &[(0, path(100, 0)), (1, path(10, 1000))]), Some(1));
    assert_eq!(chosen("lowest-rtt", &[(0, path(100, 0)), (1, path(10, 14_000))]), Some(0));
    // Whole segments leave; and some may wait, but not alone.
    let bytes = |path| choose("lowest-rtt", &asked(&[(0, path)]), &mut Memory::default()).map(|choice| choice.bytes);
    assert_eq!(bytes(path(10, 13_999)), Some(1400));
    assert_eq!(bytes(View { ahead_segments: 4, ..path(10, 13_999) }), Some(5 * 1400));
    assert_eq!(bytes(View { ahead_segments: 4, ..path(10, 14_000) }), None);
}

#[test]
fn each_in_turn() {
    let mut memory = Memory::default();
    let paths = [(0, path(100, 0)), (2, path(10, 0)), (3, path(10, 14_000)), (5, path(10, 0))];
    let turns: Vec<usize> = (0..7).filter_map(|_| choose("round-robin", &asked(&paths), &mut memory)).map(|choice| choice.index).collect();
    assert_eq!(turns, [0, 2, 5, 0, 2, 5, 0]);
}

#[test]
fn copies_begin_with_what_the_peer_lacks() {
    let ahead = View { next: 50_000, ..path(10, 14_000) };
    let behind = View { next: 10_000, ..path(100, 0) };
    let mut memory = Memory::default();
    let question = Asked { una: 20_000, ..asked(&[]) };
    let choice = choose("redundant", &Asked { paths: &[(0, ahead), (1, behind)], ..question }, &mut memory);
    assert_eq!(choice.map(|choice| (choice.index, choice.from)), Some((1, 20_000)));
    // New data goes first.
    let ahead = View { queued_bytes: 0, free_bytes: 14_000, ..ahead };
    let choice = choose("redundant", &Asked { paths: &[(0, ahead), (1, behind)], ..question }, &mut memory);
    assert_eq!(choice.map(|choice| (choice.index, choice.from)), Some((0, 50_000)));
    // Everything is there twice.
    let all = View { next: 50_000, ..behind };
    let choice = choose("redundant", &Asked { paths: &[(0, ahead), (1, all)], end: 50_000, ..question }, &mut memory);
    assert_eq!(choice, None);
}

#[test]
fn the_first_is_the_one_that_carries() {
    assert_eq!(chosen("backup", &[(0, path(100, 14_000)), (1, path(10, 0))]), Some(0));
    assert_eq!(chosen("backup", &[(1, path(10, 0))]), Some(1));
}

#[test]
fn a_slow_subflow_may_not_take_the_window_that_a_fast_one_needs() {
    // In one round trip of the slow one the fast one sends some 200 kB.
    let paths = [(0, path(10, 14_000)), (1, path(100, 0))];
    for (window, wanted) in [(100_000, None), (1_000_000, Some(1))] {
        let question = Asked { edge: 50_000 + window, ..asked(&paths) };
        assert_eq!(choose("blest", &question, &mut Memory::default()).map(|choice| choice.index), wanted, "{window}");
    }
    // A window that was exhausted makes it more careful, one that was not less.
    let mut memory = Memory::default();
    let mut look = |question: Asked<'_>| {
        choose("blest", &question, &mut memory);
        memory.0[0]
    };
    let free = Asked { edge: 1 << 30, ..asked(&paths) };
    assert_eq!(look(free), 1200);
    assert_eq!(look(Asked { una: 50_000, next: 60_000, ..free }), 1190);
    assert_eq!(look(Asked { una: 50_000, next: 60_000, edge: 60_000, ..free }), 1190);
    assert_eq!(look(Asked { una: 60_001, next: 70_000, ..free }), 1200);
    for distance in 1..100 {
        look(Asked { una: 70_000 * distance, next: 70_000 * distance, ..free });
    }
    assert_eq!(memory.0[0], LAMBDA_LEAST);
}

/// Of [`blest`].
const LAMBDA_LEAST: u64 = 1000;

#[test]
fn what_is_left_waits_for_the_fast_one_if_that_is_sooner() {
    let paths = [(0, path(10, 14_000)), (1, path(100, 0))];
    let mut memory = Memory::default();
    // 14 kB are done by the fast one in two of its round trips.
    let mut left = |bytes: u64| choose("ecf", &Asked { end: 50_000 + bytes, ..asked(&paths) }, &mut memory).map(|choice| choice.index);
    assert_eq!(left(14_000), None);
    // Ten windows take it longer than one round trip of the slow one; but who waits goes on waiting for a while.
    assert_eq!(left(150_000), None);
    assert_eq!(left(1_000_000), Some(1));
    assert_eq!(left(165_000), Some(1));
    // What is left is not known.
    let endless = Asked { end: 64_000, more: true, ..asked(&paths) };
    assert_eq!(choose("ecf", &endless, &mut Memory::default()).map(|choice| choice.index), Some(1));
}

#[test]
fn the_last_part_of_a_window_takes_the_slow_one_a_round_trip_all_the_same() {
    // A wire with twice the rate of the other, and queues of as many packets in both: 2 Mbit/s and 1 Mbit/s, say.
    let paths = [(0, path(200, 14_000)), (1, View { rtt_variation: Duration::from_millis(20), ..path(380, 12_600) })];
    let left =
        |bytes: u64| choose("ecf", &Asked { end: 50_000 + bytes, ..asked(&paths) }, &mut Memory::default()).map(|choice| choice.index);
    // The fast one is done with it after 240 ms or 300, the slow one after 380.
    assert_eq!((left(2_800), left(7_000)), (None, None));
    // Two windows more take it 600 ms.
    assert_eq!(left(28_000), Some(1));
}
