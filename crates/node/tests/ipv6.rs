//! Two whole nodes that speak IPv6: neighbours are discovered, programs of both sides exchange streams and datagrams.

use crate::common;
use common::*;
use serde_json::{Value, json};
use std::net::Ipv6Addr;
use std::time::Duration;
use weft_core::table::Family;
use weft_core::{Bytes, Message, Op, Selector, Table};
use weft_socket::{Errno, SocketId};
use weft_wire::ethernet::EtherType;
use weft_wire::ipv6::Chain;

const SERVER: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 2);
const SERVER_LINK: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0xff, 0xfe00, 2);

fn rows(pair: &mut Pair, side: usize, table: Table) -> Vec<Value> {
    let now = pair.now;
    let reply = pair.nodes[side].control(now, &Message { serial: 1, op: Op::List(table) });
    reply.result.unwrap().as_array().unwrap().clone()
}

fn counter(pair: &Pair, side: usize, block: &str, name: &str) -> u64 {
    let graph = pair.nodes[side].engine().graph();
    let id = graph.find(block).unwrap();
    let at = graph.kind(id).unwrap().counters.iter().position(|row| row.name == name).unwrap();
    graph.block(id).unwrap().counters()[at]
}

fn udp(pair: &mut Pair, side: usize, bound: &[u8]) -> SocketId {
    pair.call(side, |sockets, cx| {
        let socket = sockets.socket(AF_INET6, SOCK_DGRAM, 0, cx)?;
        sockets.bind(socket, bound, cx).map(|()| socket)
    })
    .unwrap()
}

fn take(pair: &mut Pair, side: usize, socket: SocketId) -> Option<(Vec<u8>, Vec<u8>)> {
    match pair.call(side, |sockets, cx| sockets.receive(socket, 1 << 16, 0, cx)) {
        Ok(got) => Some((got.data.concat(), got.from)),
        Err(Errno::EAGAIN) => None,
        Err(error) => panic!("{error:?}"),
    }
}

#[test]
fn a_megabyte_goes_over_ipv6_in_large_and_in_small_frames() {
    for gso_max_bytes in [0, 65_535] {
        let mut pair = Pair::new(gso_max_bytes, "");
        let ends = pair.connect_to(AF_INET6, &address6(SERVER, 80, 0));
        let pattern = Bytes::from((0..=250u8).cycle().take(100_000).collect::<Vec<_>>());
        let mut got = Vec::new();
        pair.transfer(ends, &pattern, 1_000_000, |bytes| got.extend_from_slice(bytes));
        assert!(got == pattern.repeat(10), "every byte, GSO {gso_max_bytes}");
        assert!(counter(&pair, 1, "ip6", "InDelivers") > 20 && counter(&pair, 1, "ip4", "InReceives") == 0, "over IPv6 alone");
    }
}

#[test]
fn segments_fit_a_link_of_1500_bytes_with_forty_of_header() {
    let (sender, seen) = std::sync::mpsc::channel();
    let mut pair = Pair::new(0, "").with_wire(Duration::ZERO, move |_, frame| {
        if frame.meta().ether_type == EtherType::IPV6 {
            sender.send(frame.len()).unwrap();
        }
        Fate::Pass
    });
    let ends = pair.connect_to(AF_INET6, &address6(SERVER, 80, 0));
    pair.transfer(ends, &Bytes::from(vec![7; 100_000]), 100_000, |_| {});
    assert_eq!(seen.try_iter().max(), Some(14 + 1500), "full ones, and none larger");
}

#[test]
fn datagrams_reach_global_and_link_local_addresses_and_groups() {
    let mut pair = Pair::new(0, "");
    // Link-local addresses are tentative until nobody has claimed them.
    pair.pass(Duration::from_secs(3));
    let server = udp(&mut pair, 1, &address6(Ipv6Addr::UNSPECIFIED, 7000, 0));
    let client = udp(&mut pair, 0, &address6(Ipv6Addr::UNSPECIFIED, 7001, 0));
    for (to, scope) in [(SERVER, 0), (SERVER_LINK, 2), ("ff02::1".parse().unwrap(), 2)] {
        let name = address6(to, 7000, scope);
        let sent = pair.call(0, |sockets, cx| sockets.send(client, Bytes::from_static(b"hello"), 0, Some(&name), &[], cx));
        assert_eq!(sent, Ok(5), "to {to}");
        let (data, from) = take(&mut pair, 1, server).unwrap_or_else(|| panic!("nothing reached {to}"));
        assert_eq!(data, b"hello");
        let back = pair.call(1, |sockets, cx| sockets.send(server, Bytes::from_static(b"and back"), 0, Some(&from), &[], cx));
        assert_eq!(back, Ok(8), "from {to}");
        assert_eq!(take(&mut pair, 0, client).map(|(data, _)| data), Some(b"and back".to_vec()), "answer from {to}");
    }
}

#[test]
fn a_large_datagram_comes_whole_and_a_closed_port_refuses() {
    let mut pair = Pair::new(0, "");
    let server = udp(&mut pair, 1, &address6(Ipv6Addr::UNSPECIFIED, 7000, 0));
    let client = udp(&mut pair, 0, &address6(Ipv6Addr::UNSPECIFIED, 7001, 0));
    let large: Vec<u8> = (0..=255).cycle().take(9000).collect();
    let data = Bytes::from(large.clone());
    pair.call(0, |sockets, cx| sockets.send(client, data, 0, Some(&address6(SERVER, 7000, 0)), &[], cx)).unwrap();
    assert_eq!(take(&mut pair, 1, server).map(|(data, _)| data == large), Some(true));
    assert_eq!((counter(&pair, 0, "ip6", "FragCreates"), counter(&pair, 1, "ip6", "ReasmOKs")), (7, 1));
    pair.call(0, |sockets, cx| {
        sockets.connect(client, &address6(SERVER, 9, 0), cx).unwrap();
        sockets.send(client, Bytes::from_static(b"x"), 0, None, &[], cx).unwrap();
    });
    let refused = pair.call(0, |sockets, cx| sockets.receive(client, 10, 0, cx).map(|_| ()));
    assert_eq!(refused, Err(Errno::ECONNREFUSED));
}

#[test]
fn duplicates_are_detected_where_the_file_says_so() {
    let mut pair = Pair::new(0, "");
    let states = |pair: &mut Pair, side| {
        let rows = rows(pair, side, Table::Addresses(Family::V6));
        let of_eth0 = rows.iter().filter(|row| row["interface_name"] == "eth0");
        of_eth0.map(|row| row["state"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(states(&mut pair, 0), ["tentative", "preferred"], "the node's own, and the stack file's");
    let now = pair.now;
    let arguments = json!({"interface": "eth0", "address": "fd77::2/64"});
    let op = Op::Exec { target: Selector::parse("ip6"), procedure: "address_add".into(), arguments };
    pair.nodes[0].control(now, &Message { serial: 2, op }).result.unwrap();
    assert_eq!(states(&mut pair, 0)[2], "tentative");
    pair.pass(Duration::from_secs(3));
    assert_eq!(states(&mut pair, 0), ["preferred", "preferred", "duplicated"], "the other node has that one");
}

#[test]
fn one_flow_has_one_label() {
    let (sender, seen) = std::sync::mpsc::channel();
    let mut pair = Pair::new(0, "").with_wire(Duration::ZERO, move |side, frame| {
        let bytes = frame.to_vec();
        if side == 0 && frame.meta().ether_type == EtherType::IPV6 {
            let chain = Chain::parse(&bytes[14..]).unwrap();
            sender.send((chain.protocol, chain.header.flow_label)).unwrap();
        }
        Fate::Pass
    });
    let ends = pair.connect_to(AF_INET6, &address6(SERVER, 80, 0));
    pair.transfer(ends, &Bytes::from(vec![7; 100_000]), 100_000, |_| {});
    let mut labels: Vec<u32> =
        seen.try_iter().filter(|(protocol, _)| *protocol == weft_wire::Protocol::TCP).map(|(_, label)| label).collect();
    assert!(labels.len() > 20);
    labels.dedup();
    assert!(labels.len() == 1 && labels[0] != 0, "{labels:x?}");
}

#[test]
fn packets_fit_the_mtu_of_their_route() {
    let routes = "[[route]]\ndestination = \"10.0.0.2/32\"\ninterface = \"eth0\"\nmtu = 1300\n\
                  [[route]]\ndestination = \"fd77::2/128\"\ninterface = \"eth0\"\nmtu = 1400\n";
    for (family, to, mtu) in [(AF_INET, address(2, 80), 1300), (AF_INET6, address6(SERVER, 80, 0), 1400)] {
        let (sender, seen) = std::sync::mpsc::channel();
        let mut pair = Pair::new(65_535, routes).with_wire(Duration::ZERO, move |side, frame| {
            if side == 0 {
                sender.send((frame.len(), frame.meta().gso)).unwrap();
            }
            Fate::Pass
        });
        let ends = pair.connect_to(family, &to);
        pair.transfer(ends, &Bytes::from(vec![7; 100_000]), 100_000, |_| {});
        let (large, small): (Vec<_>, Vec<_>) = seen.try_iter().partition(|(_, gso)| gso.is_some());
        // What large frames are cut into: IP and TCP headers, and 12 bytes for timestamps, make it whole.
        let headers = if family == AF_INET { 52 } else { 72 };
        assert!(!large.is_empty() && large.iter().all(|(_, gso)| gso.map(|gso| usize::from(gso.segment_bytes)) == Some(mtu - headers)));
        assert!(small.iter().all(|(length, _)| *length <= 14 + mtu), "{small:?}");
        // A datagram socket is told the same.
        let socket = pair.call(0, |sockets, cx| sockets.socket(family, SOCK_DGRAM, 0, cx)).unwrap();
        pair.call(0, |sockets, cx| {
            sockets.connect(socket, &to, cx).unwrap();
            let (level, name) = if family == AF_INET { (0, 14) } else { (41, 24) };
            assert_eq!(sockets.get_option(socket, level, name, 4, cx).unwrap(), (mtu as i32).to_ne_bytes(), "IP_MTU, IPV6_MTU");
        });
    }
}
