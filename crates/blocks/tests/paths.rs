//! What routers tell of single destinations: path MTUs (RFC 1191) and redirects (RFC 1122 §3.2.2.2), as Linux believes them.

use crate::common;
use common::*;
use serde_json::json;
use std::net::Ipv4Addr;
use weft_core::*;
use weft_wire::icmpv4::Message;
use weft_wire::{Protocol, ipv4};

const GATEWAY_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 254);
const BETTER_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 77);
const FAR: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

/// Another block asks for a change.
fn tell(node: &mut Node, table: Table, change: Change) {
    let (now, id) = (node.now, node.id("sockets"));
    node.engine.with(now, id, |_, cx| cx.tell(table, change));
}

fn answer(node: &Node, dst: Ipv4Addr) -> table::RouteAnswer {
    let query = Query::Route { destination: dst.into(), source: None, interface: None, traffic: weft_core::table::Traffic::default() };
    match node.engine.graph().block(node.id("ip4")).unwrap().query(&query, node.now) {
        Answer::Route(answer) => answer,
        other => panic!("{other:?}"),
    }
}

fn mtu(node: &Node, dst: Ipv4Addr) -> u32 {
    answer(node, dst).mtu
}

fn hop(node: &Node, dst: Ipv4Addr) -> Ipv4Addr {
    match answer(node, dst).next_hop {
        std::net::IpAddr::V4(hop) => hop,
        other => panic!("{other}"),
    }
}

/// A packet of ours to `dst`, with this total length in its header (the quote is short).
fn quote(dst: Ipv4Addr, protocol: Protocol, total_len: u16) -> Vec<u8> {
    let mut bytes = vec![0; ipv4::HEADER_LEN];
    ipv4::Header { total_len, dont_fragment: true, ..header(OUR_IP, dst, protocol) }.emit(&mut bytes);
    bytes.extend([3, 232, 0, 53, 0, 9, 0, 0]);
    bytes
}

fn told(node: &mut Node, from: Ipv4Addr, message: Message, quoted: &[u8]) {
    let error = icmp(message, quoted);
    assert!(node.receive(&from_peer(header(from, OUR_IP, Protocol::ICMP), &error)).is_empty());
}

fn too_big(node: &mut Node, dst: Ipv4Addr, mtu: u16) {
    told(node, GATEWAY_IP, Message::DestinationUnreachable { code: 4, mtu }, &quote(dst, Protocol::UDP, 1500));
}

#[test]
fn a_path_mtu_is_remembered_for_its_destination_and_for_ten_minutes() {
    let mut node = Node::with_peer();
    too_big(&mut node, FAR, 1400);
    assert_eq!((mtu(&node, FAR), mtu(&node, Ipv4Addr::new(192, 0, 2, 2)), mtu(&node, PEER_IP)), (1400, 1500, 1500));
    node.advance(Duration::from_secs(300));
    too_big(&mut node, FAR, 1450);
    assert_eq!(mtu(&node, FAR), 1400, "it is not raised by such a message");
    too_big(&mut node, FAR, 1300);
    assert_eq!(mtu(&node, FAR), 1300);
    node.advance(Duration::from_secs(599));
    assert_eq!(mtu(&node, FAR), 1300);
    node.advance(Duration::from_secs(2));
    assert_eq!(mtu(&node, FAR), 1500);
    assert_eq!((node.counter("ip4", "PathMtus"), node.counter("ip4", "PathsRefused")), (2, 1));
}

#[test]
fn packets_follow_the_path_mtu() {
    let mut node = Node::with_peer();
    let far = json!({"interface": "eth0", "address": GATEWAY_IP.to_string(), "mac": PEER_MAC.to_string()});
    node.exec("arp", "add", far).unwrap();
    let send = |node: &mut Node, dont_fragment: bool| {
        let mut frame = datagram(&[0; 1380], OUR_IP, 1000, FAR, 53);
        frame.meta_mut().dont_fragment = dont_fragment;
        node.send_frame(frame).len()
    };
    assert_eq!((send(&mut node, true), send(&mut node, false)), (1, 1));
    too_big(&mut node, FAR, 1400);
    node.seen("sockets");
    assert_eq!((send(&mut node, true), send(&mut node, false)), (0, 2), "refused, and fragmented");
    assert_eq!(node.seen("sockets")[0].meta().error.unwrap().kind, IcmpErrorKind::TooBig { mtu: 1400 });
    // Below path_mtu_min a router is not believed; packets of that size are sent so that they can be fragmented on the way.
    too_big(&mut node, FAR, 300);
    assert_eq!(mtu(&node, FAR), 552);
    let mut frame = datagram(&[0; 500], OUR_IP, 1000, FAR, 53);
    frame.meta_mut().dont_fragment = true;
    assert!(!parse_ip(&node.send_frame(frame)[0]).1.dont_fragment);
    assert_eq!(send(&mut node, true), 3);
    assert_eq!(node.exec("ip4", "paths", json!({})).unwrap()[0]["mtu"], 552);
    node.exec("ip4", "paths_flush", json!({})).unwrap();
    assert_eq!((mtu(&node, FAR), send(&mut node, true)), (1500, 1));
}

#[test]
fn a_router_that_says_nothing_gets_the_next_plateau() {
    for (total_len, expected) in [(1500, 1492), (1492, 1006), (1006, 552), (9000, 1500), (8166, 1500)] {
        let mut node = Node::with_peer();
        told(&mut node, GATEWAY_IP, Message::DestinationUnreachable { code: 4, mtu: 0 }, &quote(FAR, Protocol::UDP, total_len));
        assert_eq!(mtu(&node, FAR), expected, "{total_len}");
    }
}

#[test]
fn forged_messages_are_not_believed() {
    let mut node = Node::with_peer();
    // About TCP, TCP decides: it knows what is on its way.
    told(&mut node, GATEWAY_IP, Message::DestinationUnreachable { code: 4, mtu: 1300 }, &quote(FAR, Protocol::TCP, 1500));
    assert_eq!((mtu(&node, FAR), node.seen("tcp").len()), (1500, 1));
    // About a packet that is not from us.
    let mut bytes = vec![0; ipv4::HEADER_LEN];
    ipv4::Header { total_len: 1500, ..header(PEER_IP, FAR, Protocol::UDP) }.emit(&mut bytes);
    bytes.extend([0; 8]);
    told(&mut node, GATEWAY_IP, Message::DestinationUnreachable { code: 4, mtu: 1300 }, &bytes);
    // To ourselves, and where there is no route.
    too_big(&mut node, OUR_IP, 1300);
    node.exec("ip4", "route_delete", json!({"destination": "default"})).unwrap();
    too_big(&mut node, FAR, 1300);
    assert_eq!((node.counter("ip4", "PathMtus"), node.counter("ip4", "PathsRefused")), (0, 2));
}

#[test]
fn the_memory_of_paths_is_bounded() {
    let mut node = Node::with_peer();
    let max = weft_blocks::ip::ip4::PATHS_MAX as u32;
    for number in 0..max + 10 {
        too_big(&mut node, Ipv4Addr::from_bits(0xc633_0000 + number), 1400);
        node.now += Duration::from_micros(1);
    }
    assert_eq!(node.exec("ip4", "paths", json!({})).unwrap().as_array().unwrap().len(), max as usize);
    assert_eq!(node.counter("ip4", "PathsEvicted"), 10);
    assert_eq!((mtu(&node, Ipv4Addr::from_bits(0xc633_0000)), mtu(&node, Ipv4Addr::from_bits(0xc633_0000 + max))), (1500, 1400));
}

#[test]
fn tcp_can_tell_of_a_path_too() {
    let mut node = Node::with_peer();
    tell(&mut node, Table::Routes(table::Family::V4), Change::PathMtu { destination: FAR.into(), mtu: 1333 });
    assert_eq!(mtu(&node, FAR), 1333);
}

fn redirect(node: &mut Node, from: Ipv4Addr, gateway: Ipv4Addr) {
    told(node, from, Message::Redirect { code: 1, gateway }, &quote(FAR, Protocol::UDP, 100));
}

#[test]
fn a_redirect_of_the_gateway_is_followed_for_five_minutes() {
    let mut node = Node::with_peer();
    redirect(&mut node, GATEWAY_IP, BETTER_IP);
    assert_eq!((hop(&node, FAR), hop(&node, Ipv4Addr::new(192, 0, 2, 2))), (BETTER_IP, GATEWAY_IP));
    // Now that one is the gateway, and may say otherwise.
    redirect(&mut node, GATEWAY_IP, PEER_IP);
    assert_eq!(hop(&node, FAR), BETTER_IP);
    redirect(&mut node, BETTER_IP, PEER_IP);
    assert_eq!(hop(&node, FAR), PEER_IP);
    assert_eq!((node.counter("ip4", "Redirects"), node.counter("ip4", "PathsRefused")), (2, 1));
    node.advance(Duration::from_secs(301));
    assert_eq!(hop(&node, FAR), GATEWAY_IP);
}

#[test]
fn redirects_that_linux_refuses_are_refused() {
    for gateway in [
        GATEWAY_IP,
        OUR_IP,
        BROADCAST_IP,
        Ipv4Addr::BROADCAST,
        Ipv4Addr::new(224, 0, 0, 1),
        Ipv4Addr::new(0, 0, 0, 9),
        Ipv4Addr::new(10, 0, 1, 7),
        Ipv4Addr::LOCALHOST,
    ] {
        let mut node = Node::with_peer();
        redirect(&mut node, GATEWAY_IP, gateway);
        assert_eq!((hop(&node, FAR), node.counter("ip4", "PathsRefused")), (GATEWAY_IP, 1), "to {gateway}");
    }
    // From another than the gateway; where the operator does not want it; on a router; for a destination on the link.
    let mut node = Node::with_peer();
    redirect(&mut node, PEER_IP, BETTER_IP);
    node.set("ip4", "accept_redirects", false.into());
    redirect(&mut node, GATEWAY_IP, BETTER_IP);
    node.set("ip4", "accept_redirects", true.into());
    node.set("ip4", "forward", true.into());
    redirect(&mut node, GATEWAY_IP, BETTER_IP);
    assert_eq!((hop(&node, FAR), node.counter("ip4", "PathsRefused")), (GATEWAY_IP, 3));
    node.set("ip4", "forward", false.into());
    told(&mut node, GATEWAY_IP, Message::Redirect { code: 1, gateway: BETTER_IP }, &quote(PEER_IP, Protocol::UDP, 100));
    told(&mut node, GATEWAY_IP, Message::Redirect { code: 4, gateway: BETTER_IP }, &quote(FAR, Protocol::UDP, 100));
    assert_eq!((hop(&node, PEER_IP), hop(&node, FAR), node.counter("icmp4", "InRedirects")), (PEER_IP, GATEWAY_IP, 5));
}

/// RFC 1122 §3.2.2.2: "if the source of the Redirect is not the current first-hop gateway for the specified destination" – the gateway of a route is on
/// the interface of that route, though another one reaches the same network.
#[test]
fn a_redirect_through_another_interface_is_refused() {
    let mut node = Node::with_peer();
    node.exec("interfaces", "add", json!({"name": "eth1", "mac": "02:00:00:00:00:77"})).unwrap();
    node.exec("ip4", "address_add", json!({"interface": "eth1", "address": "10.0.0.78/24"})).unwrap();
    for (interface, wanted) in [(InterfaceIndex(3), (GATEWAY_IP, 0, 1)), (ETH0, (BETTER_IP, 1, 1))] {
        let (destination, gateway, from) = (FAR.into(), BETTER_IP.into(), GATEWAY_IP.into());
        tell(&mut node, Table::Routes(table::Family::V4), Change::Redirect { destination, gateway, interface, from });
        assert_eq!((hop(&node, FAR), node.counter("ip4", "Redirects"), node.counter("ip4", "PathsRefused")), wanted);
    }
}

#[test]
fn another_route_makes_a_redirect_void() {
    let mut node = Node::with_peer();
    redirect(&mut node, GATEWAY_IP, BETTER_IP);
    node.exec("ip4", "route_add", json!({"destination": "192.0.2.0/24", "gateway": "10.0.0.3"})).unwrap();
    assert_eq!(hop(&node, FAR), Ipv4Addr::new(10, 0, 0, 3));
}

#[test]
fn other_blocks_can_change_addresses_and_routes() {
    let mut node = Node::with_peer();
    let addresses = Table::Addresses(table::Family::V4);
    let routes = Table::Routes(table::Family::V4);
    let own: Ipv4Addr = Ipv4Addr::new(10, 5, 0, 1);
    let address = table::Address::permanent(ETH0, own.into(), 24);
    tell(&mut node, addresses, Change::AddAddress(address));
    assert_eq!(hop(&node, Ipv4Addr::new(10, 5, 0, 9)), Ipv4Addr::new(10, 5, 0, 9));
    // Once more: it is renewed.
    tell(&mut node, addresses, Change::AddAddress(table::Address { dynamic: true, ..address }));
    let route = table::Route {
        destination: Ipv4Addr::new(198, 51, 100, 0).into(),
        prefix_bits: 24,
        gateway: Some(Ipv4Addr::new(10, 5, 0, 2).into()),
        interface: ETH0,
        source: None,
        metric: 5,
        mtu: None,
        kind: table::RouteKind::Unicast,
        ..table::Route::PLAIN
    };
    let there = Ipv4Addr::new(198, 51, 100, 1);
    tell(&mut node, routes, Change::AddRoute(route));
    tell(&mut node, routes, Change::AddRoute(table::Route { mtu: Some(1400), ..route }));
    assert_eq!((hop(&node, there), mtu(&node, there)), (Ipv4Addr::new(10, 5, 0, 2), 1400));
    assert_eq!(node.counter("ip4", "ChangesRefused"), 0);
    // Same destination and metric, another gateway: Linux too has one route for both.
    tell(&mut node, routes, Change::AddRoute(table::Route { gateway: Some(PEER_IP.into()), ..route }));
    assert_eq!(node.counter("ip4", "ChangesRefused"), 1);
    tell(&mut node, routes, Change::DeleteRoute(route));
    assert_eq!(hop(&node, there), GATEWAY_IP);
    tell(&mut node, addresses, Change::DeleteAddress { interface: ETH0, address: own.into() });
    tell(&mut node, addresses, Change::DeleteAddress { interface: ETH0, address: own.into() });
    assert_eq!((hop(&node, Ipv4Addr::new(10, 5, 0, 9)), node.counter("ip4", "ChangesRefused")), (GATEWAY_IP, 2));
}
