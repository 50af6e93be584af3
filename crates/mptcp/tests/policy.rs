//! The policy for unlike interfaces: preference, standby, idle connections, quotas, and handover without a gap.

use crate::support;

use support::common::pair::{Pair, Wire};
use support::common::pattern;
use support::*;
use weft_core::*;
use weft_mptcp::counters::Counter;

const WIFI: &str = "10.0.0.1";
const LTE: &str = "10.0.1.1";

/// The client has wlan0 with the first address, and wwan0 (of group 7) with the second.
fn phone(seed: u64, settings: &[(&str, Value)]) -> Pair {
    let wire = |delay| Wire { rate: 5_000_000, delay: Duration::from_millis(delay), queue: 60_000, ..Wire::default() };
    let mut pair = two(seed, [wire(10), wire(40)], &["10.0.0.1 subflow", "10.0.1.1 subflow"], &[]);
    have(&mut pair, &[WIFI, LTE]);
    for (name, value) in settings {
        pair.nodes[0].tell("mptcp", name, value.clone()).unwrap();
    }
    pair
}

fn have(pair: &mut Pair, addresses: &[&str]) {
    pair.nodes[0].exec_below("addresses", addresses.to_vec());
}

fn list(words: &[&str]) -> Value {
    words.to_vec().into()
}

/// Local addresses of the client's subflows that do not end, with a star where it is a backup.
fn subflows(pair: &mut Pair) -> Vec<String> {
    let rows = connections(&mut pair.nodes[0]);
    let paths = rows.iter().flat_map(|row| row["paths"].as_array().unwrap().clone());
    let shown = paths.filter(|path| path["ends"] == false).map(|path| {
        let local = path["local"].as_str().unwrap();
        format!("{}{}", local.split(':').next().unwrap(), if path["backup"] == true { "*" } else { "" })
    });
    let mut shown: Vec<String> = shown.collect();
    shown.sort();
    shown
}

/// An open connection over which a little has gone.
fn open(pair: &mut Pair) {
    connect(pair);
    pair.run_for(Duration::from_millis(500));
    pair.nodes[0].write(1, pattern(1000));
    pair.run_for(Duration::from_millis(500));
}

/// When the server has had so many bytes, waiting a while for them.
fn arrives(pair: &mut Pair, bytes: usize) -> Duration {
    let (began, child) = (pair.now, pair.accepted().unwrap());
    assert!(pair.run(began + Duration::from_secs(60), |pair| pair.app(1, |app, _| app.flow(child).received.len() >= bytes)));
    pair.now - began
}

fn no_fall_back(pair: &mut Pair) {
    for node in &mut pair.nodes {
        for one in
            [Counter::MPCapableFallbackACK, Counter::DSSNotMatching, Counter::NoDSSInWindow, Counter::BadOptions, Counter::WordsUnread]
        {
            assert_eq!(counter(node, one), 0, "{one:?} {:?}", counters(node));
        }
    }
}

#[test]
fn the_preferred_interface_carries_and_the_other_stands_by() {
    for (prefer, wanted) in [(["wlan*", "wwan*"], ["10.0.0.1", "10.0.1.1*"]), (["group:7", "wlan0"], ["10.0.0.1*", "10.0.1.1"])] {
        let mut pair = phone(1, &[("prefer", list(&prefer))]);
        open(&mut pair);
        assert_eq!(subflows(&mut pair), wanted);
        pair.nodes[0].write(1, pattern(100_000));
        arrives(&mut pair, 101_000);
        let share = share(&pair, 0);
        assert!(if wanted[0] == WIFI { share < 0.01 } else { share > 0.9 }, "{prefer:?} {share}");
    }
}

#[test]
fn none_stands_by_where_none_is_to() {
    let mut pair = phone(2, &[("prefer", list(&["wlan*"])), ("standby", "never".into())]);
    open(&mut pair);
    assert_eq!(subflows(&mut pair), [WIFI]);
    // The preferred interface goes: another is opened; it comes back: that one goes.
    have(&mut pair, &[LTE]);
    pair.nodes[0].write(1, pattern(50_000));
    arrives(&mut pair, 51_000);
    assert_eq!(subflows(&mut pair), [LTE]);
    have(&mut pair, &[WIFI, LTE]);
    pair.run_for(Duration::from_secs(1));
    assert_eq!(subflows(&mut pair), [WIFI]);
    assert_eq!(counter(&mut pair.nodes[0], Counter::StandbyClosed), 1);
    no_fall_back(&mut pair);
}

#[test]
fn one_whose_wire_is_cut_is_left_for_another() {
    let mut pair = phone(3, &[("prefer", list(&["wlan*"])), ("standby", "never".into())]);
    open(&mut pair);
    let on_second =
        |_: usize, on_wire: &support::common::OnWire| [on_wire.src, on_wire.dst].iter().any(|end| end.to_string().starts_with(LTE));
    pair.filter = Some(Box::new(on_second));
    pair.nodes[0].write(1, pattern(50_000));
    let took = arrives(&mut pair, 51_000);
    assert!(took < Duration::from_secs(2), "{took:?}");
    pair.filter = None;
    pair.run_for(Duration::from_secs(5));
    assert_eq!(subflows(&mut pair), [WIFI]);
}

#[test]
fn a_handover_leaves_no_gap() {
    let mut pair = phone(4, &[("prefer", list(&["wlan*", "wwan*"])), ("standby", "never".into())]);
    open(&mut pair);
    let child = pair.accepted().unwrap();
    // 40 kB a second, and the order changes in the middle.
    let (mut latest, mut gap, mut known) = (pair.now, Duration::ZERO, 0);
    for tick in 0..200 {
        if tick == 100 {
            pair.nodes[0].tell("mptcp", "prefer", list(&["wwan*", "wlan*"])).unwrap();
        }
        pair.nodes[0].write(1, pattern(400));
        let until = pair.now + Duration::from_millis(10);
        pair.run(until, |pair| {
            let had = pair.app(1, |app, _| app.flow(child).received.len());
            if had > known {
                (gap, latest, known) = (gap.max(pair.now - latest), pair.now, had);
            }
            false
        });
        pair.run_for(until - pair.now);
    }
    assert_eq!(subflows(&mut pair), [LTE]);
    // No more than what the path is longer by.
    assert!(gap <= Duration::from_millis(10 + 30 + 5), "{gap:?}");
    no_fall_back(&mut pair);
}

#[test]
fn an_idle_connection_has_nothing_that_stands_by() {
    let mut pair = phone(5, &[("prefer", list(&["wlan*"])), ("standby", "active".into()), ("idle_after", "5s".into())]);
    open(&mut pair);
    assert_eq!(subflows(&mut pair), [WIFI, "10.0.1.1*"]);
    pair.run_for(Duration::from_millis(4_300));
    assert_eq!(subflows(&mut pair), [WIFI, "10.0.1.1*"]);
    pair.run_for(Duration::from_secs(1));
    assert_eq!(subflows(&mut pair), [WIFI]);
    let quiet = pair.log.as_ref().unwrap().len();
    pair.run_for(Duration::from_secs(600));
    assert_eq!(pair.log.as_ref().unwrap().len(), quiet, "nothing is said by an idle connection");
    pair.nodes[0].write(1, pattern(1000));
    pair.run_for(Duration::from_secs(1));
    assert_eq!(subflows(&mut pair), [WIFI, "10.0.1.1*"]);
}

#[test]
fn a_quota_is_not_exceeded_by_more_than_what_was_on_the_way() {
    let mut pair = phone(6, &[("quota", list(&["group:7 100kB"]))]);
    open(&mut pair);
    pair.nodes[0].write(1, pattern(1_000_000));
    arrives(&mut pair, 1_001_000);
    let carried = share(&pair, 0) * 1_001_000.0;
    assert!((30_000.0..150_000.0).contains(&carried), "{carried}");
    assert_eq!(counter(&mut pair.nodes[0], Counter::QuotasUsedUp), 1);
    assert_eq!(subflows(&mut pair), [WIFI]);
    // What is set anew counts anew.
    pair.nodes[0].tell("mptcp", "quota", list(&["group:7 1GB"])).unwrap();
    pair.run_for(Duration::from_secs(1));
    assert_eq!(subflows(&mut pair), [WIFI, LTE]);
    no_fall_back(&mut pair);
}

#[test]
fn what_makes_no_sense_changes_nothing() {
    let mut pair = phone(7, &[("prefer", list(&["wlan*"]))]);
    for (name, wrong) in
        [("prefer", list(&["a*b"])), ("prefer", list(&["x", "x"])), ("quota", list(&["wwan0"])), ("quota", list(&["wwan0 -1"]))]
    {
        assert!(pair.nodes[0].tell("mptcp", name, wrong).is_err(), "{name}");
    }
    open(&mut pair);
    assert_eq!(subflows(&mut pair), [WIFI, "10.0.1.1*"]);
}
