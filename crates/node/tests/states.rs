//! State that earlier builds wrote, as files: every later build reads it. What a kind writes in a new form gets a new version and a new file beside the
//! old one; a build that does not read an old one any more says so by taking the file away.
//!
//! `WEFT_SNAPSHOT=write cargo test -p weft-node --test states` writes the files that are missing.

mod common;

use common::{AF_INET, AF_INET6, Fate, Pair, SOCK_DGRAM, SOCK_STREAM, address, address6, is_last_fragment};
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;
use weft_core::control::{Message, Op};
use weft_core::{Bytes, Instant, Rng, Selector, State, Value, command, parameter};
use weft_node::block_table;

/// Kinds that are in the folder, each from a node in the midst of things.
const KINDS: [&str; 21] = [
    "arp",
    "delay",
    "ether",
    "fifo",
    "gilbert",
    "icmp4",
    "icmp6",
    "igmp",
    "interfaces",
    "ip4",
    "ip6",
    "mld",
    "nd",
    "netem",
    "rate",
    "reorder",
    "sockets",
    "tbf",
    "tcp",
    "trigger",
    "udp",
];
/// Files were written at this time of their nodes.
const AT: Instant = Instant::from_millis(60_000);

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/states"))
}

/// A node with connections, datagrams, packets that wait and fragments of others, and tools that hold frames.
fn busy() -> Pair {
    let mut pair =
        Pair::new(0, "").with_wire(Duration::from_millis(300), |_, frame| if is_last_fragment(frame) { Fate::Lose } else { Fate::Pass });
    for line in [
        "add d delay delay=1s jitter=10ms",
        "insert d ether:lower interfaces:upper",
        "add r rate rate=100kbit",
        "insert r ether:lower d",
        "add o reorder probability=0.2 time=1s",
        "insert o ether:lower r",
        "add g gilbert p=0.1 r=0.9 loss_bad=0.1",
        "insert g ether:lower o",
        "add n netem interface=2 delay=100ms jitter=10ms duplicate=0.1 rate=16kbit",
        "insert n ether:lower g",
        "add t tbf interface=2 rate=8kbit burst_bytes=3000",
        "insert t ether:lower n",
        "add f fifo interface=2",
        "insert f ether:lower t",
        "add x trigger frames=7 'orders=set o.time 1s; set o.time 1s'",
        "insert x ether:lower f",
    ] {
        let op = command::parse(line).unwrap().unwrap();
        pair.nodes[0].control(Instant::from_millis(1), &Message { serial: 1, op }).result.unwrap();
    }
    for (kind, to) in [("ip4", "10.99.0.0/16"), ("ip6", "fd99::/16")] {
        let arguments = json!({"to": to, "iif": "eth9", "fwmark": 7, "ipproto": 17, "dport": "53-54", "table": 100});
        let op = Op::Exec { target: Selector::parse(kind), procedure: "rule_add".to_owned(), arguments };
        pair.nodes[0].control(Instant::from_millis(1), &Message { serial: 1, op }).result.unwrap();
    }
    for (kind, to, hops) in [("ip4", "10.98.0.0/16", ["10.0.0.98", "10.0.0.97"]), ("ip6", "fd98::/16", ["fd77::98", "fd77::97"])] {
        let hops = json!([{"gateway": hops[0], "weight": 3}, {"gateway": hops[1]}]);
        let arguments = json!({"destination": to, "nexthops": hops, "table": 100});
        let op = Op::Exec { target: Selector::parse(kind), procedure: "route_add".to_owned(), arguments };
        pair.nodes[0].control(Instant::from_millis(1), &Message { serial: 1, op }).result.unwrap();
    }
    let udp = pair.call(0, |sockets, cx| sockets.socket(AF_INET, SOCK_DGRAM, 0, cx)).unwrap();
    pair.call(0, |sockets, cx| sockets.set_option(udp, 0, 35, &[224, 0, 0, 99, 10, 0, 0, 1], cx)).unwrap();
    let listener = pair.call(1, |sockets, cx| sockets.socket(AF_INET, SOCK_STREAM, 0, cx)).unwrap();
    pair.call(1, |sockets, cx| sockets.bind(listener, &address(2, 80), cx)).unwrap();
    pair.call(1, |sockets, cx| sockets.listen(listener, 5, cx)).unwrap();
    let client = pair.call(0, |sockets, cx| sockets.socket(AF_INET, SOCK_STREAM, 0, cx)).unwrap();
    let _ = pair.call(0, |sockets, cx| sockets.connect(client, &address(2, 80), cx));
    pair.pass(Duration::from_millis(50_000));
    for (family, to) in [(AF_INET, address(1, 9)), (AF_INET6, address6("fd77::1".parse().unwrap(), 9, 0))] {
        let sender = pair.call(1, |sockets, cx| sockets.socket(family, SOCK_DGRAM, 0, cx)).unwrap();
        pair.call(1, |sockets, cx| sockets.send(sender, Bytes::from(vec![5; 4000]), 0, Some(&to), &[], cx)).unwrap();
    }
    pair.pass(Duration::from_millis(9_000));
    for kind in ["ip4", "ip6"] {
        let name = "memory".to_owned();
        let op = Op::Exec { target: Selector::parse(kind), procedure: name, arguments: Value::Null };
        let held = pair.nodes[0].control(pair.now, &Message { serial: 1, op }).result.unwrap();
        assert_eq!(held[kind]["fragment_packets"], 1, "fragments wait at {kind}");
    }
    let data = Bytes::from(vec![7; 5000]);
    pair.call(0, |sockets, cx| sockets.send(client, data, 0, None, &[], cx)).unwrap();
    for host in [2, 77] {
        let _ = pair.call(0, |sockets, cx| sockets.send(udp, Bytes::from_static(b"datagram"), 0, Some(&address(host, 9)), &[], cx));
    }
    let rest = AT.since(pair.now);
    pair.pass(rest);
    pair
}

fn name_of(state: &State) -> String {
    format!("{}-{}.state", state.kind, state.version)
}

fn write_missing() {
    let mut pair = busy();
    let names = pair.nodes[0].snapshot(AT, weft_core::TimeKind::Virtual).unwrap().blocks;
    for (_, state) in names.iter().filter(|(_, state)| KINDS.contains(&&*state.kind)) {
        let path = folder().join(name_of(state));
        if !path.exists() {
            std::fs::create_dir_all(folder()).unwrap();
            std::fs::write(path, state.to_bytes()).unwrap();
        }
    }
}

#[test]
fn state_of_earlier_builds_is_read() {
    if std::env::var("WEFT_SNAPSHOT").is_ok_and(|value| value == "write") {
        write_missing();
    }
    let mut read = Vec::new();
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let state = State::from_bytes(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(path.file_name().unwrap().to_str(), Some(&*name_of(&state)));
        let table = block_table();
        let row = table.get(&state.kind).unwrap();
        let mut config = parameter::complete(&state.kind, row.kind, &Default::default(), Rng::for_name(1, "states")).unwrap();
        let mut block = (row.make)(&mut config).unwrap();
        block.import(&state, AT).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        if state.version == row.kind.state_version {
            assert!(block.export(AT).unwrap() == state, "{} is another after it was read", path.display());
            read.push(state.kind);
        }
    }
    read.sort();
    assert_eq!(read, KINDS, "a kind whose state has a new version needs a new file: see the top of this test");
}
