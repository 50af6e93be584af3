//! Connections whose paths are the business of a program (path_manager = userspace): nothing opens by itself, and each order is done once.

use crate::support;

use serde_json::{Value, json};
use support::common::Node;
use support::common::pair::Pair;
use support::*;
use weft_core::*;
use weft_mptcp::counters::Counter;

const SIGNAL: u32 = 1;
const BACKUP: u32 = 4;

/// Over two wires, with endpoints that would be used if the kernel's rules held.
fn managed(seed: u64) -> Pair {
    let mut pair = two(seed, [slow(2_000_000, 10), slow(1_000_000, 30)], &["10.0.1.1 subflow"], &["10.0.1.2 signal"]);
    for (node, mine) in pair.nodes.iter_mut().zip([["10.0.0.1", "10.0.1.1"], ["10.0.0.2", "10.0.1.2"]]) {
        node.exec_below("addresses", mine.to_vec());
        node.tell("mptcp", "path_manager", "userspace".into()).unwrap();
    }
    connect(&mut pair);
    pair.run_for(Duration::from_millis(300));
    pair.nodes[0].write(1, common::pattern(10_000));
    pair.run_for(Duration::from_millis(300));
    pair
}

fn token(node: &mut Node) -> u64 {
    connections(node)[0]["token"].as_u64().unwrap()
}

/// An address that the connection knows: identifier, address, flags.
type Known = (u64, String, u64);

/// An order about the only connection, and what it comes to: addresses that are known then.
fn order(pair: &mut Pair, node: usize, procedure: &str, mut arguments: Value) -> Result<Vec<Known>, (i32, String)> {
    let node = &mut pair.nodes[node];
    if arguments.get("token").is_none() {
        arguments["token"] = token(node).into();
    }
    let op = Op::Exec { target: Selector::Name("mptcp".to_owned()), procedure: procedure.to_owned(), arguments };
    let answer = node.engine.control(node.now, &Message { serial: 9, op }).result.map_err(|error| match &error {
        ControlError::ExecFailed { why, .. } => (error.kind().errno(), why.text.clone()),
        other => (0, other.to_string()),
    })?;
    let entry = |one: &Value| (one["id"].as_u64().unwrap(), one["address"].as_str().unwrap().to_owned(), one["flags"].as_u64().unwrap());
    let known = answer["mptcp"].as_array().unwrap().iter().map(entry).collect();
    pair.run_for(Duration::from_millis(300));
    Ok(known)
}

fn paths(node: &mut Node) -> Vec<(String, u64, String)> {
    let row = |path: &Value| {
        (path["local"].as_str().unwrap().to_owned(), path["local_id"].as_u64().unwrap(), path["use"].as_str().unwrap().to_owned())
    };
    connections(node)[0]["paths"].as_array().unwrap().iter().map(row).collect()
}

#[test]
fn a_program_announces_opens_changes_and_ends_and_nothing_else_happens() {
    let mut pair = managed(1);
    for node in &mut pair.nodes {
        assert_eq!(paths(node).len(), 1);
        assert_eq!([Counter::MPJoinSynTx, Counter::AddAddrTx].map(|one| counter(node, one)), [0, 0]);
    }
    let announced = order(&mut pair, 1, "path_announce", json!({"address": "10.0.1.2", "id": 3, "flags": SIGNAL})).unwrap();
    assert_eq!(announced, [(3, "10.0.1.2".to_owned(), 1)]);
    assert_eq!([Counter::AddAddr, Counter::EchoAddTx, Counter::MPJoinSynTx].map(|one| counter(&mut pair.nodes[0], one)), [1, 1, 0]);
    let made = json!({"address": "10.0.1.1", "id": 5, "flags": BACKUP, "remote": "10.0.1.2:80", "remote_id": 3});
    assert_eq!(order(&mut pair, 0, "path_create", made).unwrap(), [(5, "10.0.1.1".to_owned(), 6)]);
    let (local, id, used) = paths(&mut pair.nodes[0])[1].clone();
    assert_eq!((id, used.as_str()), (5, "backup"));
    assert_eq!(paths(&mut pair.nodes[1])[1].1, 3, "the identifier that was announced");
    let ends = json!({"local": local, "remote": "10.0.1.2:0", "backup": false});
    order(&mut pair, 0, "path_change", ends).unwrap();
    assert_eq!([0, 1].map(|node| paths(&mut pair.nodes[node])[1].2.clone()), ["active", "active"]);
    let ends = json!({"local": local, "remote": "10.0.1.2:80"});
    assert_eq!(order(&mut pair, 0, "path_destroy", ends.clone()).unwrap(), []);
    assert_eq!(order(&mut pair, 0, "path_destroy", ends), Err((3, "subflow not found".to_owned())));
    pair.run_for(Duration::from_secs(1));
    assert!(paths(&mut pair.nodes[1]).iter().skip(1).all(|path| path.2 == "ends"));
    assert_eq!(order(&mut pair, 1, "path_remove", json!({"id": 3})).unwrap(), []);
    assert_eq!(counter(&mut pair.nodes[0], Counter::RmAddr), 1);
}

#[test]
fn what_is_wrong_is_refused_in_linuxs_words() {
    let mut pair = managed(2);
    let to = |address: &str, more: Value| {
        let mut arguments = json!({"address": address, "id": 4, "remote": "10.0.1.2:80"});
        more.as_object().unwrap().iter().for_each(|(name, value)| arguments[name] = value.clone());
        arguments
    };
    order(&mut pair, 0, "path_announce", json!({"address": "10.0.1.1", "id": 5, "flags": SIGNAL})).unwrap();
    let cases = [
        ("path_addresses", json!({"token": 1}), 22, "invalid token"),
        ("path_announce", json!({"address": "10.0.1.1", "flags": SIGNAL}), 22, "invalid addr id"),
        ("path_announce", json!({"address": "10.0.1.1", "id": 9}), 22, "invalid addr flags"),
        ("path_announce", json!({"address": "10.0.1.1", "id": 9, "flags": SIGNAL}), 22, "did not match address and id"),
        ("path_announce", json!({"address": "10.0.9.1", "id": 5, "flags": SIGNAL}), 22, "did not match address and id"),
        ("path_remove", json!({"id": 99}), 22, "address with id 99 not found"),
        ("path_create", to("10.0.1.1", json!({})), 22, "did not match address and id"),
        ("path_create", to("10.0.7.1", json!({"flags": SIGNAL})), 22, "invalid addr flags"),
        ("path_create", to("fd00::1", json!({})), 22, "families mismatch"),
        ("path_create", to("10.0.1.1", json!({"id": 5, "interface": 99})), 19, "connect error: -19"),
        ("path_change", json!({"local": "10.0.1.1:1", "remote": "10.0.1.2:80"}), 22, "subflow not found"),
    ];
    for (procedure, arguments, errno, text) in cases {
        let result = order(&mut pair, 0, procedure, arguments.clone());
        assert_eq!(result, Err((errno, text.to_owned())), "{procedure} {arguments}");
    }
    pair.nodes[0].tell("mptcp", "path_manager", "kernel".into()).unwrap();
    assert!(order(&mut pair, 0, "path_addresses", json!({})).is_ok(), "a connection stays what it was");
    pair.nodes[0].connect(2, "10.0.0.1:1235", "10.0.0.2:80", StreamOptions::default());
    pair.run_for(Duration::from_millis(300));
    let other = connections(&mut pair.nodes[0])[1]["token"].clone();
    assert_eq!(order(&mut pair, 0, "path_addresses", json!({"token": other})), Err((22, "userspace PM not selected".to_owned())));
}

#[test]
fn what_it_knows_survives_as_bytes_and_its_last_subflow_may_go() {
    let mut pair = managed(3);
    order(&mut pair, 0, "path_create", json!({"address": "10.0.1.1", "id": 5, "remote": "10.0.0.2:80"})).unwrap();
    order(&mut pair, 0, "path_announce", json!({"address": "10.0.8.1", "id": 6, "flags": SIGNAL})).unwrap();
    replace(&mut pair.nodes[0], "mptcp");
    let wanted = [(5, "10.0.1.1".to_owned(), 2), (6, "10.0.8.1".to_owned(), 1)];
    assert_eq!(order(&mut pair, 0, "path_addresses", json!({})).unwrap(), wanted);
    let node = &mut pair.nodes[0];
    let (now, id) = (node.now, node.engine.graph().find("mptcp").unwrap());
    let state = node.engine.graph().block(id).unwrap().export(now).unwrap();
    node.engine.with(now, id, |block, _| block.import(&State::from_bytes(&state.to_bytes()).unwrap(), now).unwrap()).unwrap();
    node.engine.with(now, id, |block, cx| block.started(cx)).unwrap();
    assert_eq!(order(&mut pair, 0, "path_addresses", json!({})).unwrap(), wanted);
    // The first subflow goes: data goes by the other.
    let [first, _] = &paths(&mut pair.nodes[0])[..] else { panic!("two subflows") };
    let ends = json!({"local": first.0, "remote": "10.0.0.2:80"});
    order(&mut pair, 0, "path_destroy", ends).unwrap();
    pair.nodes[0].write(1, common::pattern(20_000));
    pair.run_for(Duration::from_secs(2));
    let child = pair.accepted().unwrap();
    assert_eq!(pair.app(1, |app, _| app.flow(child).received.len()), 30_000);
}

#[test]
fn what_is_announced_has_a_bound() {
    let mut pair = managed(7);
    let mut announced = 0;
    // An address that goes with its subflow leaves what was said of it.
    for port in 1..1200 {
        let entry = json!({ "id": 1, "address": "10.0.1.1", "port": port, "flags": SIGNAL });
        match order(&mut pair, 0, "path_announce", entry) {
            Ok(_) => announced += 1,
            Err((28, why)) => {
                assert_eq!((announced, why.as_str()), (255, "a connection announces 255 addresses: take some back"));
                return;
            }
            Err(_) => {
                let to = json!({ "id": 2, "address": "10.0.1.1", "remote": "10.0.0.2:80", "flags": 0 });
                order(&mut pair, 0, "path_create", to).unwrap_or_default();
                let path = paths(&mut pair.nodes[0]).into_iter().find(|(local, ..)| local.starts_with("10.0.1.1:"));
                let Some((local, ..)) = path else { continue };
                order(&mut pair, 0, "path_destroy", json!({ "local": local, "remote": "10.0.0.2:80" })).unwrap_or_default();
            }
        }
    }
    panic!("{announced} announced without a bound");
}
