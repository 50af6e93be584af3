//! Somebody works on the nodes while they are attacked: looks at everything, turns every knob, adds and deletes, replaces blocks as they run.

use super::world::World;
use serde_json::{Value, json};
use weft_core::table::Family;
use weft_core::{Op, Rng, Selector, Show, Table};

const BLOCKS: &[&str] =
    &["loopback", "loopback6", "ip4", "ip6", "arp", "nd", "icmp4", "icmp6", "igmp", "mld", "tcp", "udp", "ether", "interfaces"];

/// One piece of work.
pub fn work(world: &mut World, rng: &mut Rng) {
    let side = rng.below(2) as usize;
    match rng.below(10) {
        0 => look(world, side),
        1 => knobs(world, side, rng),
        2 => replace(world, side, rng),
        3 => addresses(world, side, rng),
        4 => routes(world, side, rng),
        5 => neighbours(world, side, rng),
        6 => paths(world, side, rng),
        7 => rules(world, side, rng),
        8 => hops(world, side, rng),
        _ => interface(world, side, rng),
    }
}

fn look(world: &mut World, side: usize) {
    for table in [Table::Interfaces, Table::Sockets, Table::Flows] {
        world.rows(side, table);
    }
    for family in [Family::V4, Family::V6] {
        for table in [Table::Addresses(family), Table::Routes(family), Table::Neighbours(family), Table::Groups(family)] {
            world.rows(side, table);
        }
    }
    for show in [Show::Blocks, Show::Edges, Show::Counters, Show::Drops] {
        world.control(side, Op::Show(show)).expect("a node shows what it is");
    }
    world.control(side, Op::Get { target: Selector::parse("*"), name: None }).ok();
    world.control(side, Op::Get { target: Selector::parse("nd"), name: Some("routers".to_owned()) }).expect("the routers that are known");
}

/// Every parameter of a block is set to what it is; some to what is refused.
fn knobs(world: &mut World, side: usize, rng: &mut Rng) {
    let block = BLOCKS[rng.below(BLOCKS.len() as u64) as usize];
    let target = Selector::Name(block.to_owned());
    let Ok(all) = world.control(side, Op::Get { target: target.clone(), name: None }) else { return };
    let rows = all.get(block).and_then(Value::as_object).cloned().unwrap_or_default();
    for (name, value) in rows {
        world.control(side, Op::Set { target: target.clone(), name: name.clone(), value }).ok();
        if rng.chance(0.2) {
            world.control(side, Op::Set { target: target.clone(), name, value: json!("no such value") }).ok();
        }
    }
}

/// A block is replaced by a new one that takes its state over.
fn replace(world: &mut World, side: usize, rng: &mut Rng) {
    let name = BLOCKS[rng.below(BLOCKS.len() as u64) as usize].to_owned();
    let op = Op::Replace {
        kind: name.trim_end_matches("back6").to_owned() + if name == "loopback6" { "back" } else { "" },
        name,
        parameters: Default::default(),
        drop_state: false,
    };
    match world.control(side, op) {
        Ok(_) => {}
        // Connections are not handed over yet.
        Err(error) => assert!(error.contains("cannot export its state"), "a block is not replaced: {error}"),
    }
}

fn addresses(world: &mut World, side: usize, rng: &mut Rng) {
    // Each node its own: with an address that both have, neither can be reached from it.
    let last = 100 + 10 * side as u64 + rng.below(4);
    for (block, address) in [("ip4", format!("10.0.0.{last}/24")), ("ip6", format!("fd77::{last}/64"))] {
        let arguments = json!({"interface": "eth0", "address": address});
        world.exec(side, block, "address_add", arguments.clone()).ok();
        world.exec(side, block, if rng.chance(0.5) { "address_delete" } else { "address_add" }, arguments).ok();
        world.exec(side, block, "address_add", json!({"interface": "eth9", "address": "nonsense"})).unwrap_err();
    }
}

fn routes(world: &mut World, side: usize, rng: &mut Rng) {
    let kind = ["unicast", "blackhole", "unreachable", "prohibit", "throw"][rng.below(5) as usize];
    let host = 3 + rng.below(3);
    for (block, destination, gateway) in [
        ("ip4", format!("198.51.{host}.0/24"), format!("10.0.0.{host}")),
        ("ip6", format!("2001:db8:{host}::/48"), format!("fd77::{host}")),
    ] {
        let arguments = match kind {
            "unicast" => json!({"destination": destination, "gateway": gateway, "metric": 7, "mtu": 1300}),
            _ => json!({"destination": destination, "kind": kind}),
        };
        world.exec(side, block, "route_add", arguments.clone()).ok();
        world.talk(side, block == "ip6", host as u8);
        if rng.chance(0.7) {
            world.exec(side, block, "route_delete", json!({"destination": destination})).ok();
        }
        world.exec(side, block, "route_add", json!({"destination": destination, "gateway": "198.18.0.1"})).unwrap_err();
    }
}

/// Rules of every kind, by which packets go meanwhile; those that refuse are about networks that nobody uses.
fn rules(world: &mut World, side: usize, rng: &mut Rng) {
    let host = 3 + rng.below(3);
    for (block, unused, own) in [("ip4", "203.0.113.0/24", "10.0.0.0/8"), ("ip6", "2001:db8:ffff::/48", "fd77::/16")] {
        let all = [
            json!({"from": own, "table": 100}),
            json!({"to": own, "oif": "eth0", "not": true, "action": "nop"}),
            json!({"fwmark": 7, "fwmask": 255, "table": 100}),
            json!({"ipproto": 17, "sport": "1-65534", "dport": 53, "table": 100}),
            json!({"iif": "eth0", "tos": 16, "action": "table"}),
            json!({"priority": 100, "action": "goto", "target": 32766, "ipproto": 6}),
            json!({"priority": 101, "action": "goto", "target": 102}),
            json!({"table": 254, "suppress_prefixlength": 0, "suppress_ifgroup": 9}),
            json!({"to": unused, "action": "blackhole"}),
            json!({"to": unused, "action": "prohibit"}),
            json!({"from": unused, "action": "unreachable"}),
        ];
        let rule = &all[rng.below(all.len() as u64) as usize];
        world.exec(side, block, "rule_add", rule.clone()).ok();
        let mut again = rule.clone();
        again["alone"] = true.into();
        world.exec(side, block, "rule_add", again).ok();
        world.talk(side, block == "ip6", host as u8);
        world.exec(side, block, "rules", json!({})).expect("the rules");
        if rng.chance(0.9) {
            while world.exec(side, block, "rule_delete", rule.clone()).is_ok() {}
        }
        for wrong in [
            json!({"action": "goto"}),
            json!({"action": "goto", "target": 1, "priority": 2}),
            json!({"action": "fly"}),
            json!({"tos": 3}),
            json!({"from": "nonsense"}),
            json!({"iif": "an-interface-of-too-long-a-name"}),
            json!({"sport": "9-8"}),
        ] {
            world.exec(side, block, "rule_add", wrong).unwrap_err();
        }
    }
}

/// Several ways to one place, of which some come and go; one is on the second node's other interface, which goes down meanwhile.
fn hops(world: &mut World, side: usize, rng: &mut Rng) {
    let host = 3 + rng.below(3);
    let (other, policy) = (if side == 1 { "eth1" } else { "eth0" }, rng.below(2));
    let ways = [
        ("ip4", format!("198.51.{host}.0/24"), ["10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.1.9"]),
        ("ip6", format!("2001:db8:{host}::/48"), ["fd77::3", "fd77::4", "fd77::5", "fd78::9"]),
    ];
    for (block, destination, [first, second, third, beyond]) in ways {
        let target = Selector::Name(block.to_owned());
        world.control(side, Op::Set { target, name: "multipath_hash_policy".to_owned(), value: policy.into() }).expect("a policy");
        let several = json!([
            {"gateway": first, "interface": "eth0", "weight": 1 + rng.below(200)},
            {"gateway": second},
            {"gateway": beyond, "interface": other, "onlink": true},
        ]);
        let place = ["alone", "last", "first", "replace", "change"][rng.below(5) as usize];
        let all = json!({"destination": destination, "nexthops": several, "metric": 9, "place": place});
        world.exec(side, block, "route_add", all.clone()).ok();
        world.exec(side, block, "route_add", all).ok();
        world.exec(side, block, "route_add", json!({"destination": destination, "gateway": third, "metric": 9, "place": "last"})).ok();
        world.talk(side, block == "ip6", host as u8);
        interface(world, side, rng);
        world.rows(side, Table::Routes(if block == "ip4" { Family::V4 } else { Family::V6 }));
        world.talk(side, block == "ip6", host as u8);
        let gone = json!({"destination": destination, "gateway": ([first, second, third][rng.below(3) as usize]), "metric": 9});
        world.exec(side, block, "route_delete", gone).ok();
        world.talk(side, block == "ip6", host as u8);
        while rng.chance(0.9) && world.exec(side, block, "route_delete", json!({"destination": destination, "metric": 9})).is_ok() {}
        for wrong in [
            json!(7),
            json!([7]),
            json!([{"weight": 0}]),
            json!([{"weight": 257}]),
            json!([{"gateway": "nonsense"}]),
            json!([{"interface": "eth9"}]),
        ] {
            world.exec(side, block, "route_add", json!({"destination": destination, "nexthops": wrong})).unwrap_err();
        }
    }
}

fn neighbours(world: &mut World, side: usize, rng: &mut Rng) {
    let last = 200 + rng.below(4);
    for (block, address) in [("arp", format!("10.0.0.{last}")), ("nd", format!("fd77::{last}"))] {
        world.exec(side, block, "add", json!({"interface": "eth0", "address": address, "mac": "02:00:00:00:02:01"})).expect("a neighbour");
        world.exec(side, block, "delete", json!({"interface": "eth0", "address": address})).ok();
        world.exec(side, block, "flush", json!({})).ok();
    }
}

fn paths(world: &mut World, side: usize, rng: &mut Rng) {
    world.exec(side, "ip4", "paths", json!({})).expect("what routers told");
    if rng.chance(0.3) {
        world.exec(side, "ip4", "paths_flush", json!({})).expect("it is forgotten");
    }
}

/// The second node's other interface goes down and comes back.
fn interface(world: &mut World, side: usize, rng: &mut Rng) {
    let name = if side == 1 { "eth1" } else { "lo" };
    for up in [false, true] {
        world.exec(side, "interfaces", "set", json!({"name": name, "up": up})).ok();
        world.pass(weft_core::Duration::from_millis(rng.below(50)));
    }
    put_back(world);
}

/// What an interface that went down took with it is there again.
pub fn put_back(world: &mut World) {
    for (block, address, neighbour) in [("arp", "ip4", "10.0.1.9"), ("nd", "ip6", "fd78::9")] {
        let own = if address == "ip4" { "10.0.1.2/24" } else { "fd78::2/64" };
        world.exec(1, address, "address_add", json!({"interface": "eth1", "address": own})).ok();
        world.exec(1, block, "add", json!({"interface": "eth1", "address": neighbour, "mac": "02:00:00:00:01:09"})).ok();
    }
    for (block, gateway) in [("ip4", "10.0.0.2"), ("ip6", "fd77::2")] {
        world.exec(0, block, "route_add", json!({"destination": "default", "gateway": gateway})).ok();
    }
}
