//! Every scheduler over pairs of wires, replaced while data flows, and what each of them is for.

use crate::support;

use support::common::pair::{Pair, Wire};
use support::common::pattern;
use support::*;
use weft_core::*;
use weft_mptcp::counters::Counter;
use weft_mptcp::scheduler::NAMES;

/// Two subflows, from both addresses of the client.
fn pair_with(seed: u64, scheduler: &str, wires: [Wire; 2]) -> Pair {
    let mut pair = two(seed, wires, &["10.0.1.1 subflow"], &[]);
    for node in &mut pair.nodes {
        node.tell("mptcp", "scheduler", scheduler.into()).unwrap();
    }
    pair
}

fn bad(wire: Wire) -> Wire {
    Wire { loss: 0.01, reorder: 0.02, late: Duration::from_millis(5), ..wire }
}

#[test]
fn all_of_them_over_all_kinds_of_wires() {
    let wires = [
        [slow(2_000_000, 10), slow(1_000_000, 30)],
        [slow(1_000_000, 5), slow(20_000_000, 200)],
        [bad(slow(5_000_000, 20)), slow(5_000_000, 20)],
        [bad(slow(2_000_000, 10)), bad(slow(300_000, 150))],
        [Wire { queue: 6_000, ..slow(4_000_000, 10) }, Wire { queue: 400_000, ..slow(1_000_000, 10) }],
    ];
    for scheduler in NAMES {
        for (number, wires) in wires.iter().enumerate() {
            let mut pair = pair_with(number as u64, scheduler, wires.clone());
            exchange(&mut pair);
            no_errors(&mut pair);
            let copies: u64 = pair.nodes.iter_mut().map(|node| counter(node, Counter::CopiesTx)).sum();
            assert_eq!(copies > 0, *scheduler == "redundant", "{scheduler} {number} {copies}");
        }
    }
}

#[test]
fn they_take_each_others_place_at_any_time() {
    for seed in 0..20 {
        let mut pair = pair_with(seed, "default", [bad(slow(2_000_000, 10)), bad(slow(1_000_000, 30))]);
        let mut rng = Rng::for_name(seed, "schedulers");
        exchange_and(&mut pair, |pair| {
            if rng.chance(0.05) {
                let node = &mut pair.nodes[usize::from(rng.chance(0.5))];
                node.tell("mptcp", "scheduler", NAMES[rng.below(NAMES.len() as u64) as usize].into()).unwrap();
            }
        });
        no_errors(&mut pair);
    }
}

/// The client sends so much when both subflows are there; how long that takes, until the server has the last byte.
fn sends(pair: &mut Pair) -> Duration {
    connect(pair);
    pair.run_for(Duration::from_secs(1));
    // The first data tells the client that the peer speaks it.
    pair.nodes[0].write(1, pattern(1));
    pair.run_for(Duration::from_secs(3));
    let (began, child) = (pair.now, pair.accepted().unwrap());
    pair.nodes[0].write(1, pattern(BYTES));
    let all = |pair: &mut Pair| pair.app(1, |app, _| app.flow(child).received.len() == BYTES + 1);
    assert!(pair.run(began + Duration::from_secs(100), all));
    pair.now - began
}

#[test]
fn one_that_takes_turns_halves_the_data() {
    let mut pair = pair_with(1, "round-robin", [slow(2_000_000, 10), slow(2_000_000, 10)]);
    sends(&mut pair);
    assert!((0.45..0.55).contains(&share(&pair, 0)), "{}", share(&pair, 0));
}

#[test]
fn the_shortest_round_trip_is_used_as_long_as_it_suffices() {
    let mut pair = pair_with(2, "lowest-rtt", [slow(50_000_000, 5), slow(50_000_000, 100)]);
    sends(&mut pair);
    assert!(share(&pair, 0) < 0.3, "{}", share(&pair, 0));
    // The same, from the other side of the order.
    let mut pair = pair_with(2, "lowest-rtt", [slow(50_000_000, 100), slow(50_000_000, 5)]);
    sends(&mut pair);
    assert!(share(&pair, 0) > 0.7, "{}", share(&pair, 0));
}

#[test]
fn a_backup_carries_when_the_first_is_cut() {
    let mut pair = pair_with(3, "backup", [slow(2_000_000, 10), slow(2_000_000, 10)]);
    exchange(&mut pair);
    assert!(share(&pair, 0) == 0.0 && share(&pair, 1) == 0.0);
    let mut pair = pair_with(3, "backup", [slow(2_000_000, 10), slow(2_000_000, 10)]);
    let cut = pair.now + Duration::from_millis(400);
    exchange_and(&mut pair, |pair| {
        if pair.now > cut && pair.filter.is_none() {
            pair.filter = Some(Box::new(|_, on_wire| [on_wire.src, on_wire.dst].iter().any(|end| end.to_string().starts_with("10.0.1"))));
        }
    });
    assert!(share(&pair, 0) > 0.1 && share(&pair, 1) > 0.1);
}

#[test]
fn one_that_waits_is_sooner_done_over_unlike_wires() {
    // The slow wire takes longer for one segment than the fast one for all of the data.
    let wires = || [slow(10_000_000, 5), slow(200_000, 400)];
    let of = |scheduler: &str| {
        let mut pair = pair_with(4, scheduler, wires());
        pair.nodes[0].tell("mptcp", "opportunistic", false.into()).unwrap();
        sends(&mut pair)
    };
    let (turns, ecf) = (of("round-robin"), of("ecf"));
    assert!(ecf * 4 < turns * 3, "ecf {ecf:?}, round-robin {turns:?}");
}

#[test]
fn copies_hide_the_loss_of_one_wire() {
    let lossy = Wire { loss: 0.3, ..slow(5_000_000, 20) };
    let of = |scheduler: &str| sends(&mut pair_with(5, scheduler, [lossy.clone(), slow(5_000_000, 20)]));
    let (redundant, turns) = (of("redundant"), of("round-robin"));
    assert!(redundant * 2 < turns, "redundant {redundant:?}, round-robin {turns:?}");
}

#[test]
fn data_that_holds_up_the_window_goes_by_the_faster_wire_too() {
    let of = |opportunistic: bool| {
        let mut pair = pair_with(6, "round-robin", [slow(10_000_000, 5), slow(200_000, 400)]);
        pair.nodes[0].tell("mptcp", "opportunistic", opportunistic.into()).unwrap();
        let took = sends(&mut pair);
        let [helped, penalised] = [Counter::OpportunisticTx, Counter::Penalised].map(|one| counter(&mut pair.nodes[0], one));
        assert!((helped > 0) == opportunistic && (penalised > 0) == opportunistic, "{helped} {penalised}");
        let rows = connections(&mut pair.nodes[0]);
        let again: u64 = rows[0]["paths"].as_array().unwrap().iter().map(|path| path["sent_again_bytes"].as_u64().unwrap()).sum();
        assert_eq!(again > 0, opportunistic);
        took
    };
    let (with, without) = (of(true), of(false));
    assert!(with * 2 < without, "{with:?} {without:?}");
}

#[test]
fn the_last_data_goes_by_a_faster_wire_too_if_that_is_sooner() {
    let of = |opportunistic: bool, wires: [Wire; 2]| {
        let mut pair = pair_with(7, "round-robin", wires);
        connect(&mut pair);
        pair.nodes[0].tell("mptcp", "opportunistic", opportunistic.into()).unwrap();
        pair.run_for(Duration::from_secs(1));
        pair.nodes[0].write(1, pattern(40_000));
        pair.run_for(Duration::from_secs(4));
        let (began, child) = (pair.now, pair.accepted().unwrap());
        // It fits into the send buffer: the program waits for nothing.
        pair.nodes[0].write(1, pattern(60_000));
        let all = |pair: &mut Pair| pair.app(1, |app, _| app.flow(child).received.len() == 100_000);
        assert!(pair.run(began + Duration::from_secs(100), all));
        assert_eq!(counter(&mut pair.nodes[0], Counter::Penalised), 0);
        (pair.now - began, counter(&mut pair.nodes[0], Counter::OpportunisticTx))
    };
    let unlike = || [slow(10_000_000, 5), slow(500_000, 200)];
    let ((with, copies), (without, none)) = (of(true, unlike()), of(false, unlike()));
    assert!(with * 2 < without && copies > 0 && none == 0, "{with:?} {without:?} {copies} {none}");
    // Nobody is later for it.
    let equal = || [slow(2_000_000, 20), slow(2_000_000, 20)];
    let ((with, _), (without, _)) = (of(true, equal()), of(false, equal()));
    assert!(with <= without, "{with:?} {without:?}");
}

#[test]
fn the_send_buffer_follows_the_longest_path_but_for_linuxs_scheduler() {
    let of = |scheduler: &str| {
        let mut pair = pair_with(8, scheduler, [slow(20_000_000, 5), slow(20_000_000, 300)]);
        connect(&mut pair);
        pair.run_for(Duration::from_secs(1));
        pair.nodes[0].write(1, pattern(3_000_000));
        pair.run_for(Duration::from_secs(3));
        pair.app(0, |app, _| app.flow(FlowId(1)).peak_credit)
    };
    let (wide, linux) = (of("lowest-rtt"), of("default"));
    assert!(wide > 2 * linux, "{wide} {linux}");
}

/// The connection's buffer is full, and the subflow's is not: SOCK_NOSPACE is the connection's (`tcp_cwnd_application_limited`).
#[test]
fn subflows_know_that_the_program_waits_for_room() {
    let of = |filled: bool| {
        let mut pair = pair_with(9, "default", [slow(20_000_000, 5), slow(300_000, 100)]);
        pair.nodes[1].listen(1, "0.0.0.0:80", 16, StreamOptions::default());
        pair.nodes[0].connect(1, "10.0.0.1:1234", "10.0.0.2:80", StreamOptions { send_buffer: Some(60_000), ..StreamOptions::default() });
        pair.run_for(Duration::from_secs(1));
        pair.nodes[0].write(1, pattern(1));
        pair.run_for(Duration::from_secs(2));
        pair.nodes[0].write(1, pattern(if filled { 200_000 } else { 30_000 }));
        pair.run_for(Duration::from_secs(8));
        pair.nodes[0].info(1).sndbuf_limited_us
    };
    assert!(of(true) > 0);
    assert_eq!(of(false), 0);
}
