//! Routes with several next hops in a virtual world: many flows share two paths by their weights, each keeps to its own, and a run repeats.

use crate::support;

use support::figure;
use weft_sim::World;
use weft_sim::scenario::{Scenario, judge};

const FLOWS: usize = 60;
/// Wires 1 and 2 are the two paths between the routers.
const PATHS: [usize; 2] = [1, 2];

/// A client and a server, and between two routers two paths of which one is to get three times as many flows as the other.
fn world(policy: u8) -> String {
    let mut text = format!(
        r#"
seed = 11
duration = "20s"
[nodes.client]
addresses = {{ eth0 = "10.1.0.2/24" }}
routes = [{{ destination = "default", gateway = "10.1.0.1" }}]
[nodes.west]
forward = true
addresses = {{ eth0 = "10.1.0.1/24", eth1 = "10.8.0.1/24", eth2 = "10.9.0.1/24" }}
routes = [{{ destination = "10.2.0.0/16", nexthops = [{{ gateway = "10.8.0.2", weight = 3 }}, {{ gateway = "10.9.0.2", interface = "eth2" }}] }}]
sysctls = {{ "net.ipv4.fib_multipath_hash_policy" = {policy} }}
[nodes.east]
forward = true
addresses = {{ eth0 = "10.8.0.2/24", eth1 = "10.9.0.2/24", eth2 = "10.2.0.1/24" }}
routes = [{{ destination = "10.1.0.0/16", nexthops = [{{ gateway = "10.8.0.1", weight = 3 }}, {{ gateway = "10.9.0.1" }}] }}]
sysctls = {{ "net.ipv4.fib_multipath_hash_policy" = {policy} }}
[nodes.server]
addresses = {{ eth0 = "10.2.0.2/24" }}
routes = [{{ destination = "default", gateway = "10.2.0.1" }}]
[wires.near]
between = ["client:eth0", "west:eth0"]
delay = "1ms"
[wires.north]
between = ["west:eth1", "east:eth0"]
delay = "2ms"
[wires.south]
between = ["west:eth2", "east:eth1"]
delay = "7ms"
[wires.far]
between = ["east:eth2", "server:eth0"]
delay = "1ms"
"#
    );
    for flow in 0..FLOWS {
        let port = 5000 + flow;
        text += &format!(
            "[programs.sink{flow}]\nnode = \"server\"\nbuiltin = \"tcp-sink\"\nport = {port}\n\
             [programs.send{flow}]\nnode = \"client\"\nbuiltin = \"tcp-send\"\nto = \"10.2.0.2:{port}\"\nbytes = 40000\nstart = \"{}ms\"\n",
            100 + flow
        );
    }
    text
}

fn run(text: &str, threads: usize) -> World {
    let read = |_: &str| Err("no such file".to_owned());
    let scenario = Scenario::parse("hops.toml", text, &[], &read).unwrap_or_else(|error| panic!("{error}"));
    let mut world = World::new(scenario.plan.clone(), threads).unwrap();
    let end = world.run(&mut |_| true);
    let failed: Vec<String> = judge(&world, &end, &scenario.expectations).into_iter().filter_map(|verdict| verdict.failure).collect();
    assert_eq!(failed, [""; 0]);
    world
}

/// Frames that the two paths carried towards the server.
fn carried(world: &World) -> [u64; 2] {
    PATHS.map(|wire| world.wire(wire).unwrap()[0].frames)
}

#[test]
fn two_paths_share_many_flows_by_weight_and_the_hash_is_one_for_any_number_of_threads() {
    let text = world(1);
    let one = run(&text, 1);
    for flow in 0..FLOWS {
        assert_eq!(figure(&one, 2 * flow, "received_bytes"), 40_000, "flow {flow}");
    }
    let [north, south] = carried(&one);
    // Of 60 flows 45 are expected in the north; four standard deviations are 13.
    let share = north as f64 / (north + south) as f64;
    assert!((0.53..0.97).contains(&share), "north {north}, south {south}");
    assert!(south > 100, "both are used: {south}");
    // A flow that went both ways would be reordered by five milliseconds, and acknowledge so.
    assert_eq!(run(&text, 2).hash(), one.hash());
    assert_eq!(run(&text, 1).hash(), one.hash());
    // Another seed, another choice.
    let other = run(&text.replace("seed = 11", "seed = 12"), 1);
    assert_ne!(other.hash(), one.hash());
}

#[test]
fn by_addresses_alone_two_hosts_have_one_path() {
    let world = run(&world(0), 1);
    let [north, south] = carried(&world);
    // Neighbours are asked for on both.
    assert!(north.min(south) < 20 && north.max(south) > 1000, "north {north}, south {south}");
}

#[test]
fn flows_go_on_over_the_other_path_when_one_is_down() {
    let told = |node: &str, what: &str| format!("[[events]]\nat = \"150ms\"\nnode = \"{node}\"\ncontrol = [\"exec {what}\"]\n");
    let down = |node: &str, name: &str| {
        told(node, &format!("interfaces set name={name} up=false")) + &told(node, &format!("ip4 interface_set interface={name} up=false"))
    };
    let text = world(1) + &down("west", "eth1") + &down("east", "eth0");
    let (undisturbed, world) = (run(&self::world(1), 1), run(&text, 1));
    for flow in 0..FLOWS {
        assert_eq!(figure(&world, 2 * flow, "received_bytes"), 40_000, "flow {flow}");
    }
    // A flow is 28 segments towards the server, and half of them are not at their end by then.
    let ([_, before], [_, south]) = (carried(&undisturbed), carried(&world));
    assert!(south > before + 10 * 28, "{south} instead of {before}");
}
