//! State that earlier builds wrote, as files: every later build reads it. What a kind writes in a new form gets a new version and a new file beside the
//! old one; a build that does not read an old one any more says so by taking the file away.
//!
//! `WEFT_SNAPSHOT=write cargo test -p weft-node --test all states` writes the files that are missing.

use crate::common;

use common::{AF_INET, AF_INET6, Fate, Pair, SOCK_DGRAM, SOCK_STREAM, address, address6, is_last_fragment};
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;
use weft_core::control::{Message, Op};
use weft_core::{Bytes, Instant, Rng, Selector, State, Value, command, parameter};
use weft_node::block_table;

/// Kinds that are in the folder, each from a node in the midst of things.
const KINDS: [&str; 29] = [
    "alter_payload",
    "arp",
    "coalesce",
    "delay",
    "dhcp",
    "drop_options",
    "ether",
    "fifo",
    "gilbert",
    "icmp4",
    "icmp6",
    "igmp",
    "inject_reset",
    "interfaces",
    "ip4",
    "ip6",
    "mld",
    "nat",
    "nd",
    "netem",
    "rate",
    "reorder",
    "shift_sequence",
    "sockets",
    "strip_options",
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

/// Two nodes between which middleboxes stand: at the first one that leaves its address, at the second these kinds, where frames come in.
fn boxed(kinds: &[&str]) -> Pair {
    let mut pair = Pair::new(0, "");
    let mut carry_out = |node: usize, lines: &[String]| {
        let op = Op::All(lines.iter().map(|line| command::parse(line).unwrap().unwrap()).collect());
        pair.nodes[node].control(Instant::from_millis(1), &Message { serial: 1, op }).result.unwrap();
    };
    let nat = ["add n nat outside=eth0 address=10.0.0.1", "insert n:from_wire interfaces ether", "insert n:from_node ether interfaces"];
    carry_out(0, &nat.map(str::to_owned));
    let mut next = "ether:lower".to_owned();
    for kind in kinds {
        let name = kind.split_once(' ').map_or(*kind, |(name, _)| name);
        carry_out(1, &[format!("add {name} {kind}"), format!("insert {name} interfaces:upper {next}")]);
        next = format!("{name}:in");
    }
    pair
}

/// The states of middleboxes with a connection in their tables.
fn states_of_boxes() -> Vec<State> {
    let several: &[&str] = &[
        "alter_payload find=you 'replace=the other end'",
        "inject_reset after_bytes=100000",
        "drop_options options=254 direction=from_opener",
        "strip_options options=mptcp direction=from_opener",
    ];
    let mut pairs = [several, &["coalesce time=600s"]].map(|kinds| {
        let mut pair = boxed(kinds);
        let (client, _) = pair.connect();
        pair.call(0, |sockets, cx| sockets.send(client, Bytes::from_static(b"how are you"), 0, None, &[], cx)).unwrap();
        pair
    });
    // Where only one direction gets other numbers nothing comes but a SYN.
    let mut alone = boxed(&["shift_sequence"]);
    let socket = alone.call(0, |sockets, cx| sockets.socket(AF_INET, SOCK_STREAM, 0, cx)).unwrap();
    let _ = alone.call(0, |sockets, cx| sockets.connect(socket, &address(2, 80), cx));
    let mut states = Vec::new();
    for pair in pairs.iter_mut().chain([&mut alone]) {
        let rest = AT.since(pair.now);
        pair.pass(rest);
        for node in &mut pair.nodes {
            states.extend(node.snapshot(AT, weft_core::TimeKind::Virtual).unwrap().blocks.into_iter().map(|(_, state)| state));
        }
    }
    states
}

fn name_of(state: &State) -> String {
    format!("{}-{}.state", state.kind, state.version)
}

fn write_missing() {
    let mut pair = busy();
    let busy = pair.nodes[0].snapshot(AT, weft_core::TimeKind::Virtual).unwrap().blocks;
    let leased = crate::leases::leased(AT).snapshot(AT, weft_core::TimeKind::Virtual).unwrap().blocks;
    let others = leased.into_iter().filter(|(name, _)| name == "dhcp");
    let states: Vec<State> = busy.into_iter().chain(others).map(|(_, state)| state).chain(states_of_boxes()).collect();
    for state in states.iter().filter(|state| KINDS.contains(&&*state.kind)) {
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
