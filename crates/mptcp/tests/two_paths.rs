//! Connections over two paths: joins from both sides, cuts, addresses that come and go, and blocks that are replaced meanwhile.

use crate::support;

use support::common::pair::Wire;
use support::common::pattern;
use support::*;
use weft_core::*;
use weft_mptcp::counters::Counter;
use weft_wire::tcp::Flags;
use weft_wire::tcp::mptcp::{Join, Message as Option30};

#[test]
fn an_endpoint_joins_and_both_wires_carry_data_both_ways() {
    let mut pair = two(1, [slow(2_000_000, 10), slow(1_000_000, 30)], &["10.0.1.1 subflow"], &[]);
    exchange(&mut pair);
    no_errors(&mut pair);
    let log = pair.log.as_ref().unwrap();
    let joins: Vec<Join> = log
        .iter()
        .flat_map(|(_, _, on_wire)| options(on_wire))
        .filter_map(|option| match option {
            Option30::Join(join) => Some(join),
            _ => None,
        })
        .collect();
    assert!(matches!(joins[..3], [Join::Syn { .. }, Join::SynAck { .. }, Join::Ack { .. }]), "{joins:?}");
    for from in 0..2 {
        let share = share(&pair, from);
        assert!((0.1..0.6).contains(&share), "{from}: {share}");
    }
    let [client, server] = &mut pair.nodes;
    assert_eq!(counter(client, Counter::MPJoinSynAckRx), 1);
    assert_eq!(counter(server, Counter::MPJoinAckRx), 1);
    assert_eq!((population(client), population(server)), (0, 0));
}

#[test]
fn an_address_that_is_announced_is_joined() {
    let mut pair = two(2, [slow(2_000_000, 10), slow(1_000_000, 30)], &[], &["10.0.1.2 signal id 9"]);
    exchange(&mut pair);
    no_errors(&mut pair);
    let [client, server] = &mut pair.nodes;
    for (node, wanted) in [(client, [Counter::AddAddr, Counter::EchoAddTx]), (server, [Counter::AddAddrTx, Counter::EchoAdd])] {
        wanted.iter().for_each(|one| assert_eq!(counter(node, *one), 1, "{one:?}"));
    }
    assert!(share(&pair, 0) > 0.1 && share(&pair, 1) > 0.1);
}

#[test]
fn more_subflows_from_other_ports_of_the_same_address() {
    for (wanted, limit, joins) in [(1, 8, 0), (2, 8, 1), (4, 8, 3), (9, 5, 5)] {
        let mut pair = two(wanted, [slow(2_000_000, 10), slow(1_000_000, 30)], &["10.0.1.1 subflow"], &["10.0.1.2 signal"]);
        for node in &mut pair.nodes {
            node.tell("mptcp", "path_manager", "ndiffports".into()).unwrap();
            node.tell("mptcp", "ndiffports", wanted.into()).unwrap();
            node.tell("mptcp", "subflows", limit.into()).unwrap();
        }
        exchange(&mut pair);
        no_errors(&mut pair);
        let [client, server] = &mut pair.nodes;
        assert_eq!((counter(client, Counter::MPJoinSynTx), counter(server, Counter::MPJoinAckRx)), (joins, joins), "{wanted}");
        // Nothing goes by the endpoints, and the server, which has not opened the connection, opens nothing.
        assert_eq!((counter(server, Counter::MPJoinSynTx), counter(server, Counter::AddAddrTx)), (0, 0));
        let log = pair.log.as_ref().unwrap();
        let ports: std::collections::BTreeSet<u16> =
            log.iter().filter(|(_, side, _)| *side == 0).map(|(_, _, on_wire)| on_wire.src.port()).collect();
        let all =
            |address: &str| log.iter().filter(|(_, side, _)| *side == 0).all(|(_, _, on_wire)| on_wire.src.ip().to_string() == address);
        assert!(ports.len() as u64 == joins + 1 && all("10.0.0.1"), "{ports:?}");
    }
}

#[test]
fn limits_hold() {
    let mut pair = two(3, [slow(2_000_000, 10), slow(1_000_000, 30)], &["10.0.1.1 subflow"], &[]);
    pair.nodes[1].tell("mptcp", "subflows", 0.into()).unwrap();
    exchange(&mut pair);
    assert_eq!(counter(&mut pair.nodes[1], Counter::MPJoinRejected), 1);
    let mut pair = two(3, [slow(2_000_000, 10), slow(1_000_000, 30)], &[], &["10.0.1.2 signal"]);
    pair.nodes[0].tell("mptcp", "add_addr_accepted", 0.into()).unwrap();
    exchange(&mut pair);
    assert_eq!(counter(&mut pair.nodes[0], Counter::AddAddrDrop), 1);
    assert_eq!(share(&pair, 0), 0.0);
}

#[test]
fn a_backup_carries_nothing_until_the_other_is_cut() {
    let mut pair = two(4, [slow(2_000_000, 10), slow(2_000_000, 10)], &["10.0.1.1 subflow backup"], &[]);
    exchange(&mut pair);
    no_errors(&mut pair);
    assert!(share(&pair, 0) == 0.0 && share(&pair, 1) == 0.0, "{} {}", share(&pair, 0), share(&pair, 1));
    let mut pair = two(4, [slow(2_000_000, 10), slow(2_000_000, 10)], &["10.0.1.1 subflow backup"], &[]);
    let cut = pair.now + Duration::from_millis(400);
    exchange_and(&mut pair, |pair| {
        if pair.now > cut && pair.filter.is_none() {
            pair.filter =
                Some(Box::new(|_, on_wire| on_wire.src.to_string().starts_with("10.0.1") || on_wire.dst.to_string().starts_with("10.0.1")));
        }
    });
    assert!(share(&pair, 0) > 0.1 && share(&pair, 1) > 0.1);
}

#[test]
fn a_subflow_is_left_after_as_many_timeouts_as_are_set() {
    let left_after = |timeouts: u64| {
        let mut pair = two(4, [slow(2_000_000, 10), slow(2_000_000, 10)], &["10.0.1.1 subflow"], &[]);
        for node in &mut pair.nodes {
            node.tell("mptcp", "stale_timeouts", timeouts.into()).unwrap();
        }
        let (cut, mut left) = (pair.now + Duration::from_millis(300), None);
        exchange_and(&mut pair, |pair| {
            if pair.now > cut && pair.filter.is_none() {
                let second =
                    |on_wire: &support::common::OnWire| [on_wire.src, on_wire.dst].iter().any(|end| end.to_string().starts_with("10.0.1."));
                pair.filter = Some(Box::new(move |_, on_wire| !second(on_wire)));
            }
            if left.is_none() && counter(&mut pair.nodes[0], Counter::SubflowStale) > 0 {
                left = Some(pair.now - cut);
            }
        });
        left
    };
    let [never, once, twice] = [0, 1, 2].map(left_after);
    assert!(never.is_none() && twice.unwrap() > 2 * once.unwrap(), "{never:?} {once:?} {twice:?}");
}

#[test]
fn either_wire_may_be_cut_and_restored_at_any_time() {
    for seed in 0..200 {
        let bad = |wire: Wire| Wire { loss: 0.01, reorder: 0.02, late: Duration::from_millis(5), ..wire };
        let mut pair = two(seed, [bad(slow(2_000_000, 10)), bad(slow(1_000_000, 30))], &["10.0.1.1 subflow"], &["10.0.1.2 signal"]);
        let mut rng = Rng::for_name(seed, "cuts");
        let (victim, from) = (rng.chance(0.5), pair.now + Duration::from_millis(100 + rng.below(900)));
        let until = from + Duration::from_millis(500 + rng.below(4000));
        exchange_and(&mut pair, |pair| {
            let cut = (from..until).contains(&pair.now);
            let second =
                |on_wire: &support::common::OnWire| [on_wire.src, on_wire.dst].iter().any(|end| end.to_string().starts_with("10.0.1."));
            pair.filter = cut.then(|| Box::new(move |_: usize, on_wire: &support::common::OnWire| second(on_wire) != victim) as _);
        });
        no_errors(&mut pair);
    }
}

#[test]
fn successors_of_tcp_and_of_the_block_go_on_to_the_bit() {
    for seed in 0..6 {
        let run = |replaced: bool| {
            let bad = |wire: Wire| Wire { loss: 0.01, reorder: 0.02, late: Duration::from_millis(5), ..wire };
            let mut pair = two(seed, [bad(slow(2_000_000, 10)), bad(slow(1_000_000, 30))], &["10.0.1.1 subflow"], &["10.0.1.2 signal"]);
            let mut rng = Rng::for_name(seed, "replacements");
            exchange_and(&mut pair, |pair| {
                let node = &mut pair.nodes[usize::from(rng.chance(0.5))];
                match rng.below(12) {
                    0 if replaced => replace(node, "tcp"),
                    1 if replaced => replace(node, "mptcp"),
                    2 if replaced => through_bytes(node),
                    _ => {}
                }
            });
            let log = pair.log.take().unwrap();
            log.into_iter().map(|(at, from, on_wire)| (at, from, on_wire.bytes)).collect::<Vec<_>>()
        };
        let (still, replaced) = (run(false), run(true));
        for (at, (one, other)) in still.iter().zip(&replaced).enumerate() {
            assert!(one == other, "seed {seed}: segment {at} of {} is another", still.len());
        }
        assert_eq!(still.len(), replaced.len());
    }
}

/// What the block holds becomes bytes, and these a block that holds the same.
fn through_bytes(node: &mut support::common::Node) {
    let now = node.now;
    let id = node.engine.graph().find("mptcp").unwrap();
    let state = node.engine.graph().block(id).unwrap().export(now).unwrap();
    let read = State::from_bytes(&state.to_bytes()).unwrap();
    node.engine.with(now, id, |block, _| block.import(&read, now).unwrap()).unwrap();
    // It begins as one that has taken another's place: with its timers.
    node.engine.with(now, id, |block, cx| block.started(cx)).unwrap();
    assert!(node.engine.graph().block(id).unwrap().export(now).unwrap() == state);
}

#[test]
fn a_program_that_leaves_data_unread_resets_all_subflows() {
    let mut pair = two(9, [slow(2_000_000, 10), slow(1_000_000, 30)], &["10.0.1.1 subflow"], &[]);
    connect(&mut pair);
    pair.run_for(Duration::from_millis(500));
    pair.nodes[0].write(1, pattern(50_000));
    pair.run_for(Duration::from_millis(500));
    let child = pair.accepted().unwrap();
    assert_eq!(connections(&mut pair.nodes[0])[0]["paths"].as_array().unwrap().len(), 2);
    pair.nodes[1].call(child.0, StreamCall::Close { unread: true, linger: None });
    pair.run_for(Duration::from_secs(1));
    let events = pair.nodes[0].events(1);
    assert!(events.contains(&"failed reset".to_owned()) && events.last() == Some(&"released".to_owned()), "{events:?}");
    let [client, server] = &mut pair.nodes;
    assert_eq!((counter(server, Counter::MPFastcloseTx), counter(client, Counter::MPFastcloseRx) > 0), (2, true));
    assert_eq!((population(client), population(server)), (0, 0));
    assert_eq!(pair.nodes.each_mut().map(|node| node.population()), [(0, 0, 0); 2]);
}

/// The client has these addresses from now on.
fn addresses(pair: &mut support::common::pair::Pair, addresses: &[&str]) {
    pair.nodes[0].exec_below("addresses", addresses.to_vec());
}

#[test]
fn an_address_that_goes_and_comes_back_carries_again() {
    for first in [true, false] {
        let mut pair = two(11, [slow(2_000_000, 10), slow(2_000_000, 10)], &["10.0.1.1 subflow"], &[]);
        addresses(&mut pair, &["10.0.0.1", "10.0.1.1"]);
        let start = pair.now;
        let left = if first { ["10.0.1.1"] } else { ["10.0.0.1"] };
        let mut step = 0;
        exchange_and(&mut pair, |pair| {
            let at = pair.now - start;
            if step == 0 && at > Duration::from_millis(200) {
                addresses(pair, &left);
                step = 1;
            } else if step == 1 && at > Duration::from_millis(300) {
                addresses(pair, &["10.0.0.1", "10.0.1.1"]);
                step = 2;
            }
        });
        no_errors(&mut pair);
        let [client, server] = &mut pair.nodes;
        assert_eq!((counter(client, Counter::MPJoinSynTx), counter(server, Counter::MPJoinAckRx)), (2, 2), "{first}");
        assert_eq!(counter(client, Counter::LastSubflowGone), 0);
    }
}

/// Of a node that nobody has named endpoints of: nothing leaves from an address while its interface is down, though the peer's other
/// address is free; when it is back, its path carries.
#[test]
fn nothing_is_opened_from_an_address_whose_interface_is_down() {
    for (first, manager) in [(true, "all"), (false, "all"), (true, "ndiffports")] {
        let mut pair = two(12, [slow(2_000_000, 10), slow(2_000_000, 10)], &[], &[]);
        let own = ["10.0.0.1", "10.0.1.1"];
        addresses(&mut pair, &own);
        pair.nodes[1].exec_below("addresses", ["10.0.0.2", "10.0.1.2"].to_vec());
        for node in &mut pair.nodes {
            node.tell("mptcp", "path_manager", manager.into()).unwrap();
        }
        let (left, gone) = if first { (own[1], own[0]) } else { (own[0], own[1]) };
        connect(&mut pair);
        pair.run_for(Duration::from_millis(500));
        pair.nodes[0].write(1, pattern(2_000_000));
        pair.run_for(Duration::from_millis(500));
        addresses(&mut pair, &[left]);
        // What comes to an address that is gone is reset; of what leaves from it by itself there is SYN, and data.
        let from_gone = |pair: &mut support::common::pair::Pair, span| {
            let before = pair.log.as_ref().unwrap().len();
            pair.run_for(span);
            let sent = &pair.log.as_ref().unwrap()[before..];
            let from = sent.iter().filter(|(_, side, on_wire)| *side == 0 && on_wire.src.ip().to_string() == gone);
            from.filter(|(_, _, on_wire)| on_wire.segment.flags.contains(Flags::SYN) || !on_wire.payload.is_empty()).count()
        };
        assert_eq!(from_gone(&mut pair, Duration::from_millis(1500)), 0, "{first} {manager}");
        addresses(&mut pair, &own);
        if manager == "all" {
            let carried = from_gone(&mut pair, Duration::from_secs(2));
            assert!(carried > 10, "{first}: {carried}");
        }
    }
}

#[test]
fn a_connection_outlives_its_last_subflow() {
    let mut gone = 0;
    for seed in 0..60 {
        let mut rng = Rng::for_name(seed, "addresses");
        let endpoints: &[&str] = if rng.chance(0.5) { &["10.0.1.1 subflow"] } else { &[] };
        let mut pair = two(seed, [slow(2_000_000, 10), slow(2_000_000, 10)], endpoints, &[]);
        addresses(&mut pair, &["10.0.0.1", "10.0.1.1"]);
        let start = pair.now;
        let first = Duration::from_millis(100 + rng.below(150));
        let away = first + Duration::from_millis(rng.below(100));
        let back = away + Duration::from_millis(rng.below(20_000));
        let comes = if endpoints.is_empty() || rng.chance(0.5) { "10.0.0.1" } else { "10.0.1.1" };
        let mut step = 0;
        exchange_and(&mut pair, |pair| {
            let at = pair.now - start;
            let steps: [(Duration, &[&str]); 3] = [(first, &["10.0.1.1"]), (away, &[]), (back, &[comes])];
            while step < 3 && at >= steps[step].0 {
                addresses(pair, steps[step].1);
                step += 1;
            }
        });
        no_errors(&mut pair);
        let [gone_here, again] = [Counter::LastSubflowGone, Counter::SubflowAgain].map(|one| counter(&mut pair.nodes[0], one));
        assert_eq!(gone_here, again);
        gone += gone_here;
    }
    assert!(gone > 20, "{gone}");
}

#[test]
fn without_another_subflow_it_fails_when_its_time_is_over() {
    let mut pair = two(12, [slow(2_000_000, 10), slow(2_000_000, 10)], &[], &[]);
    for node in &mut pair.nodes {
        node.tell("mptcp", "close_timeout", "7s".into()).unwrap();
    }
    addresses(&mut pair, &["10.0.0.1"]);
    connect(&mut pair);
    pair.nodes[0].write(1, pattern(10_000));
    pair.run_for(Duration::from_secs(1));
    addresses(&mut pair, &[]);
    let failed = |pair: &mut support::common::pair::Pair| {
        pair.app(0, |app, _| app.flow(FLOW).events.iter().any(|event| event.starts_with("failed")))
    };
    pair.run_for(Duration::from_millis(6_900));
    assert!(!failed(&mut pair));
    pair.run_for(Duration::from_millis(200));
    assert!(failed(&mut pair));
    assert_eq!(pair.nodes.each_mut().map(population), [0, 0]);
    assert_eq!(pair.nodes.each_mut().map(|node| node.population()), [(0, 0, 0); 2]);
}

#[test]
fn the_receive_buffer_is_as_large_as_those_of_the_subflows_together() {
    let window_of_one = 16_384;
    let largest = |second: bool| {
        let endpoints: &[&str] = if second { &["10.0.1.1 subflow"] } else { &[] };
        let mut pair = two(3, [slow(8_000_000, 10), slow(4_000_000, 40)], endpoints, &[]);
        for node in &mut pair.nodes {
            node.tell("mptcp", "path_manager", "kernel".into()).unwrap();
            node.tell("tcp", "rmem_default", (2 * window_of_one).into()).unwrap();
            node.tell("tcp", "rmem_max", (2 * window_of_one).into()).unwrap();
        }
        exchange(&mut pair);
        no_errors(&mut pair);
        let of_server = || pair.log.iter().flatten().filter(|(_, from, _)| *from == 1).map(|(_, _, on_wire)| &on_wire.segment);
        let scale = of_server().find_map(|segment| segment.options.window_scale).unwrap();
        of_server()
            .filter(|segment| segment.options.window_scale.is_none())
            .map(|segment| i32::from(segment.window) << scale)
            .max()
            .unwrap()
    };
    let (one, two) = (largest(false), largest(true));
    assert!((window_of_one - 1500..=window_of_one + 1500).contains(&one), "{one}");
    assert!(two > window_of_one * 3 / 2 && two <= 2 * window_of_one + 1500, "{two}");
}
