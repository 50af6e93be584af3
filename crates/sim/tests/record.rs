//! The record of a run comes to its hash, and the first difference of two is named.

use crate::support;

use std::path::Path;
use std::time::Duration;
use support::*;
use weft_sim::World;
use weft_sim::plan::{Loss, Plan};
use weft_sim::program::Builtin;
use weft_sim::record::{Comparison, Difference, RecordError, compare, rehash};

fn plan(delay_ns: u64) -> Plan {
    let send = Builtin::TcpSend { to: "10.0.0.2:5001".parse().unwrap(), bytes: Some(200_000), duration: None };
    let ping = Builtin::Ping { to: "10.0.0.2".parse().unwrap(), count: 3, interval: Duration::from_secs(1), bytes: 56 };
    let programs =
        vec![program("sink", 1, 0, Builtin::TcpSink { port: 5001 }), program("send", 0, 10, send), program("ping", 0, 500, ping)];
    let mut plan = pair(gigabit(Duration::from_millis(1)), programs, 60_000);
    plan.wires[0].directions[0].loss = Loss::Bernoulli(0.01);
    plan.wires[0].directions[1].delay += Duration::from_nanos(delay_ns);
    plan
}

fn record(dir: &Path, plan: Plan, threads: usize) -> World {
    let mut world = World::new(plan, threads).unwrap();
    world.record(dir).unwrap();
    world.run(&mut |_| true);
    world.finish_record(dir).unwrap();
    world
}

fn difference(first: &Path, second: &Path) -> Difference {
    match compare(first, second).unwrap() {
        Comparison::Differ(difference) => *difference,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_record_comes_to_the_hash_of_its_run_and_changes_nothing() {
    let (one, two) = (Folder::new("hash-1"), Folder::new("hash-2"));
    let world = record(&one.0, plan(0), 1);
    let found = rehash(&one.0).unwrap();
    assert_eq!(found.hash, world.hash());
    assert!(found.events > 300, "{}", found.events);
    for (number, (name, hash)) in found.nodes.iter().enumerate() {
        assert_eq!((name, *hash), (&world.plan().nodes[number].name, world.node_hash(number)));
    }
    assert_eq!(run(plan(0), 1).0.hash(), world.hash(), "without a record");
    record(&two.0, plan(0), 2);
    assert_eq!(compare(&one.0, &two.0).unwrap(), Comparison::Same { events: found.events });
}

#[test]
fn a_nanosecond_of_one_delay_is_named_where_it_is_first_seen() {
    let (one, two) = (Folder::new("delay-1"), Folder::new("delay-2"));
    record(&one.0, plan(0), 1);
    record(&two.0, plan(1), 1);
    let found = difference(&one.0, &two.0);
    // The first frame of b is a report of the groups that it listens to (90 bytes), as it boots.
    assert_eq!((found.at_ns, found.node.as_str(), found.place.as_str()), (1_000_720, "a", "interface eth0"), "{found:?}");
    assert_eq!(found.what, "the same, 1 ns later");
    assert_eq!(difference(&two.0, &one.0).what, "the same, 1 ns earlier");
    assert!(found.equal_before >= 1, "a has sent its own");
}

#[test]
fn a_bit_of_one_payload_is_named_and_changes_the_hash() {
    let (one, two) = (Folder::new("bit-1"), Folder::new("bit-2"));
    let hash = record(&one.0, plan(0), 1).hash();
    record(&two.0, plan(0), 1);
    let file = two.0.join("record/b.events");
    let mut bytes = std::fs::read(&file).unwrap();
    // The first frame of a whole segment that arrived: after tag, time, interface and direction comes its length.
    let length = 1514u32.to_le_bytes();
    let at = (14..bytes.len()).find(|at| bytes[*at..].starts_with(&length) && bytes[at - 1] == 0 && bytes[at - 14] == 1).unwrap();
    let frame_at = u64::from_le_bytes(bytes[at - 13..at - 5].try_into().unwrap());
    bytes[at + 4 + 700] ^= 0x10;
    std::fs::write(&file, &bytes).unwrap();
    let found = difference(&one.0, &two.0);
    assert_eq!((found.at_ns, found.node.as_str(), found.place.as_str()), (frame_at, "b", "interface eth0"));
    assert!(found.what.starts_with("byte 700 is 0x"), "{found:?}");
    assert!(found.first.is_some_and(|text| text.ends_with("a frame of 1514 bytes arrived")));
    assert_ne!(rehash(&two.0).unwrap().hash, hash);
}

#[test]
fn what_one_run_lacks_is_named() {
    let (one, two, three) = (Folder::new("lacks-1"), Folder::new("lacks-2"), Folder::new("lacks-3"));
    record(&one.0, plan(0), 1);
    let mut shorter = plan(0);
    shorter.programs.pop();
    record(&two.0, shorter, 1);
    let found = difference(&one.0, &two.0);
    // The request of the ping, at 500 ms: the address is known from the transfer.
    assert_eq!((found.at_ns, found.node.as_str(), found.place.as_str()), (500_000_000, "a", "interface eth0"), "{found:?}");
    let mut renamed = plan(0);
    renamed.nodes[1].name = "c".to_owned();
    record(&three.0, renamed, 1);
    let nodes = Comparison::Nodes { first: vec!["b".to_owned()], second: vec!["c".to_owned()] };
    assert_eq!(compare(&one.0, &three.0).unwrap(), nodes);
}

#[test]
fn what_is_no_whole_record_is_refused() {
    let folder = Folder::new("none");
    let error = rehash(&folder.0).unwrap_err();
    assert!(matches!(error, RecordError::None(_)) && error.to_string().contains("--record full"), "{error}");
    // One that was not finished.
    World::new(plan(0), 1).unwrap().record(&folder.0).unwrap();
    assert!(matches!(rehash(&folder.0), Err(RecordError::None(_))));
    record(&folder.0, plan(0), 1);
    let file = folder.0.join("record/a.events");
    let whole = std::fs::read(&file).unwrap();
    for (damaged, what) in [
        (whole[..whole.len() - 3].to_vec(), "the file ends within an event"),
        ([&whole[..], &[9; 20]].concat(), "no such event"),
        (b"weft record 9\n".to_vec(), "no record of this version"),
        ([&whole[..14], &[1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 255, 255, 255, 255]].concat(), "the file ends within"),
    ] {
        std::fs::write(&file, damaged).unwrap();
        let error = rehash(&folder.0).unwrap_err().to_string();
        assert!(error.contains(what) && error.contains("a.events") && error.contains("help: "), "{error}");
    }
}
