//! The kernel is the oracle: routes, source addresses and kinds as `ip route get` gave them in the network of `linux/routes.py`.

use crate::common;
use common::*;
use serde_json::json;
use weft_core::table::RouteKind;
use weft_core::*;

const OWN: &[&str] = &["10.0.0.1", "10.0.0.5", "192.168.7.1", "172.31.0.2", "10.7.7.7"];

/// The network of the script.
fn network(golden: &Value) -> Node {
    let mut node = Node::bare(Mode::Inline);
    for name in ["eth0", "eth1"] {
        node.exec("interfaces", "add", json!({"name": name})).unwrap();
    }
    for address in golden["addresses"].as_array().unwrap() {
        node.exec("ip4", "address_add", json!({"interface": address[0], "address": address[1]})).unwrap();
    }
    for route in golden["routes"].as_array().unwrap() {
        node.exec("ip4", "route_add", route.clone()).unwrap();
    }
    node
}

/// What weft answers, in the words of the script.
fn ask(node: &Node, question: &Value) -> String {
    let address = |name: &str| question[name].as_str().map(|text| text.parse().unwrap());
    let interface = question["interface"].as_str().map(|name| match name {
        "lo" => InterfaceIndex::LOOPBACK,
        "eth0" => InterfaceIndex(2),
        _ => InterfaceIndex(3),
    });
    let destination = address("destination").unwrap();
    let query = Query::Route { destination, source: address("source"), interface, traffic: weft_core::table::Traffic::default() };
    let Answer::Route(answer) = node.engine.graph().block(node.id("ip4")).unwrap().query(&query, node.now) else {
        return "refused".to_owned();
    };
    let kind = match answer.kind {
        RouteKind::Unicast => "unicast",
        RouteKind::Local => "local",
        RouteKind::Broadcast => "broadcast",
        RouteKind::Multicast => "multicast",
        RouteKind::Blackhole => return "refused".to_owned(),
        RouteKind::Unreachable => return "No route to host".to_owned(),
        RouteKind::Prohibit => return "Permission denied".to_owned(),
        RouteKind::Throw => panic!("no look-up ends there"),
    };
    let dev = ["?", "lo", "eth0", "eth1"][answer.interface.0 as usize];
    let gateway = if answer.next_hop == destination || destination.is_unspecified() { "-".to_owned() } else { answer.next_hop.to_string() };
    format!("{kind} dev {dev} via {gateway} src {}", answer.source)
}

fn linux(row: &Value) -> String {
    let text = |name: &str| row[name].as_str().unwrap_or("-");
    match row["error"].as_str() {
        Some("Invalid argument" | "Network is unreachable") => "refused".to_owned(),
        Some(other) => other.to_owned(),
        // A unicast route out of lo to an own address: weft calls it local.
        None if text("dev") == "lo" && OWN.contains(&text("destination")) => format!("local dev lo via - src {}", text("src")),
        None => format!("{} dev {} via {} src {}", text("kind"), text("dev"), text("gateway"), text("src")),
    }
}

#[test]
fn routes_are_those_of_linux() {
    let golden: Value = serde_json::from_str(include_str!("linux/routes.json")).unwrap();
    let node = network(&golden);
    let rows = golden["answers"].as_array().unwrap();
    let question = |row: &Value| format!("{} from {} oif {}", row["destination"], row["source"], row["interface"]);
    let differ: Vec<String> = rows
        .iter()
        .map(|row| (question(row), linux(row), ask(&node, row)))
        .filter(|(_, theirs, ours)| theirs != ours)
        .map(|(question, theirs, ours)| format!("{question}: {theirs} / {ours}"))
        .collect();
    assert!(differ.is_empty(), "{} of {} differ (Linux / weft):\n{}", differ.len(), rows.len(), differ.join("\n"));
}
