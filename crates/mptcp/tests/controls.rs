//! Congestion controls of subflows: each over two wires, replaced while data flows, and what coupled ones hear of each other.

use crate::support;

use support::*;
use weft_core::*;
use weft_mptcp::counters::Counter;

/// Subflows' controls, as tcp knows them.
fn controls(node: &mut support::common::Node) -> Vec<String> {
    let rows = connections(node);
    let flows = rows.iter().flat_map(|row| row["paths"].as_array().unwrap()).filter_map(|path| path["flow"].as_u64());
    let tcp = node.engine.graph().block(node.engine.graph().find("tcp").unwrap()).unwrap();
    let infos = flows.map(|flow| tcp.query(&Query::FlowInfo(FlowId(flow)), node.now));
    infos
        .filter_map(|answer| match answer {
            Answer::FlowInfo(info) => Some(info.congestion.to_string()),
            _ => None,
        })
        .collect()
}

fn set_all(pair: &mut support::common::pair::Pair, name: &str) {
    for node in &mut pair.nodes {
        node.tell("mptcp", "congestion", name.into()).unwrap();
    }
}

#[test]
fn each_of_them_over_two_wires() {
    for (seed, name) in weft_tcp::congestion::NAMES.iter().enumerate() {
        let mut pair = two(seed as u64, [slow(2_000_000, 10), slow(1_000_000, 30)], &["10.0.1.1 subflow"], &[]);
        set_all(&mut pair, name);
        let mut seen = Vec::new();
        exchange_and(&mut pair, |pair| {
            for node in &mut pair.nodes {
                let controls = controls(node);
                if controls.len() == 2 {
                    seen = controls;
                    assert!(seen.iter().all(|control| control == name), "{name} {seen:?}");
                }
            }
        });
        assert_eq!(seen.len(), 2);
        no_errors(&mut pair);
        for from in 0..2 {
            assert!((0.05..0.7).contains(&share(&pair, from)), "{name} {}", share(&pair, from));
        }
    }
}

#[test]
fn they_take_each_others_place_at_any_time() {
    let names = weft_tcp::congestion::NAMES;
    for seed in 0..20 {
        let bad = |wire: support::common::pair::Wire| support::common::pair::Wire { loss: 0.01, ..wire };
        let mut pair = two(seed, [bad(slow(2_000_000, 10)), bad(slow(1_000_000, 30))], &["10.0.1.1 subflow"], &[]);
        let mut rng = Rng::for_name(seed, "controls");
        exchange_and(&mut pair, |pair| {
            if rng.chance(0.05) {
                set_all(pair, names[rng.below(names.len() as u64) as usize]);
            }
        });
        no_errors(&mut pair);
        assert!(pair.nodes.iter_mut().all(|node| counter(node, Counter::MPCurrEstab) == 0));
    }
}

#[test]
fn what_a_program_has_chosen_stays() {
    let mut pair = two(1, [slow(2_000_000, 10), slow(1_000_000, 30)], &["10.0.1.1 subflow"], &[]);
    set_all(&mut pair, "lia");
    pair.nodes[1].listen(1, "0.0.0.0:80", 16, StreamOptions::default());
    let options = StreamOptions { congestion: Some("reno".to_owned()), ..StreamOptions::default() };
    pair.nodes[0].connect(1, "10.0.0.1:1234", "10.0.0.2:80", options);
    pair.nodes[0].write(1, support::common::pattern(1000));
    pair.run_for(Duration::from_secs(1));
    assert_eq!(controls(&mut pair.nodes[0]), ["reno", "reno"]);
    assert_eq!(controls(&mut pair.nodes[1]), ["lia", "lia"]);
    set_all(&mut pair, "olia");
    pair.run_for(Duration::from_secs(1));
    assert_eq!(controls(&mut pair.nodes[0]), ["reno", "reno"]);
    assert_eq!(controls(&mut pair.nodes[1]), ["olia", "olia"]);
}
