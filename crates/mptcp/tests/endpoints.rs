//! Endpoints that come, change and go while connections run (`ip mptcp endpoint`).

use crate::support;

use serde_json::{Value, json};
use std::time::Duration;
use support::common::Node;
use support::common::pair::Pair;
use support::{counter, exchange_and, slow, two};
use weft_core::{Answer, ControlError, Message, Op, Query, Selector};
use weft_mptcp::counters::Counter;

fn exec(node: &mut Node, procedure: &str, arguments: Value) -> Result<Value, ControlError> {
    let op = Op::Exec { target: Selector::Name("mptcp".to_owned()), procedure: procedure.to_owned(), arguments };
    node.engine.control(node.now, &Message { serial: 9, op }).result
}

fn endpoints(node: &mut Node) -> Vec<(u8, String, u32)> {
    let id = node.engine.graph().find("mptcp").unwrap();
    match node.engine.graph().block(id).unwrap().query(&Query::Multipath, node.now) {
        Answer::Multipath(told) => told.endpoints.iter().map(|one| (one.id, one.address.to_string(), one.flags)).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn they_are_added_changed_and_taken_away_by_procedures() {
    let mut pair = two(1, [slow(2_000_000, 10), slow(2_000_000, 10)], &[], &[]);
    let node = &mut pair.nodes[0];
    assert_eq!(exec(node, "endpoint_add", json!({"address": "10.0.1.1", "subflow": true})).unwrap()["mptcp"], json!({"id": 1}));
    exec(node, "endpoint_add", json!({"address": "10.0.9.1", "id": 7, "signal": true})).unwrap();
    assert_eq!(
        exec(node, "endpoint_add", json!({"address": "10.0.9.2"})).unwrap()["mptcp"],
        json!({"id": 8}),
        "numbers go on from the highest"
    );
    for (arguments, errno) in [
        (json!({"address": "10.0.1.1"}), 17),
        (json!({"address": "10.0.9.3", "id": 7}), 16),
        (json!({"address": "ten"}), 22),
        (json!({"address": "10.0.9.3", "signal": true, "fullmesh": true}), 22),
        (json!({"address": "10.0.9.3", "id": 256}), 22),
    ] {
        assert_eq!(exec(node, "endpoint_add", arguments.clone()).unwrap_err().kind().errno(), errno, "{arguments}");
    }
    exec(node, "endpoint_change", json!({"id": 1, "backup": true})).unwrap();
    assert_eq!(endpoints(node), [(1, "10.0.1.1".to_owned(), 6), (7, "10.0.9.1".to_owned(), 1), (8, "10.0.9.2".to_owned(), 0)]);
    exec(node, "endpoint_delete", json!({"id": 7})).unwrap();
    assert_eq!(exec(node, "endpoint_delete", json!({"id": 7})).unwrap_err().kind().errno(), 2);
    assert_eq!(exec(node, "limits_set", json!({"subflows": 9})).unwrap_err().kind().errno(), 22);
    exec(node, "limits_set", json!({"subflows": 3})).unwrap();
    exec(node, "endpoint_delete", json!({"id": 8})).unwrap();
    let replace = Op::Replace { name: "mptcp".to_owned(), kind: "mptcp".to_owned(), parameters: Default::default(), drop_state: false };
    node.engine.control(node.now, &Message { serial: 1, op: replace }).result.unwrap();
    let next = exec(node, "endpoint_add", json!({"address": "10.0.9.4"})).unwrap();
    assert_eq!(next["mptcp"], json!({"id": 8}), "a successor goes on where its predecessor was");
    exec(node, "endpoints_flush", json!({})).unwrap();
    assert_eq!(endpoints(node), []);
}

#[test]
fn peers_hear_of_one_that_becomes_a_backup_and_of_one_that_goes() {
    let mut pair = two(2, [slow(2_000_000, 10), slow(2_000_000, 10)], &["10.0.1.1 subflow"], &[]);
    let (changes, goes) = (pair.now + Duration::from_millis(300), pair.now + Duration::from_millis(600));
    let mut done = 0;
    exchange_and(&mut pair, |pair: &mut Pair| {
        if done == 0 && pair.now > changes {
            exec(&mut pair.nodes[0], "endpoint_change", json!({"id": 1, "backup": true})).unwrap();
            done = 1;
        } else if done == 1 && pair.now > goes {
            exec(&mut pair.nodes[0], "endpoint_delete", json!({"id": 1})).unwrap();
            done = 2;
        }
    });
    assert_eq!(done, 2);
    for (node, wanted) in [(0, [Counter::MPPrioTx, Counter::RmAddrTx]), (1, [Counter::MPPrioRx, Counter::RmAddr])] {
        let counted = wanted.map(|one| counter(&mut pair.nodes[node], one));
        assert_eq!(counted, [1, 1], "{node} {wanted:?}");
    }
}
