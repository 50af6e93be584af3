//! ARP in the default graph.

use crate::common;
use common::*;
use std::net::Ipv4Addr;
use weft_core::table::Family;
use weft_core::*;
use weft_wire::arp::Operation;
use weft_wire::ethernet::Mac;

const NEIGHBOURS: Table = Table::Neighbours(Family::V4);

#[test]
fn a_request_for_our_address_is_answered() {
    let mut node = Node::new();
    // -> who has 10.0.0.1, tell 10.0.0.2; captured with tcpdump's field order, padded to 60 bytes.
    let request = hex("ffffffffffff 020000000002 0806 0001 0800 06 04 0001 020000000002 0a000002 000000000000 0a000001
                       000000000000000000000000000000000000");
    // <- 10.0.0.1 is at 02:00:00:00:00:01
    let reply = hex("020000000002 020000000001 0806 0001 0800 06 04 0002 020000000001 0a000001 020000000002 0a000002");
    assert_eq!(node.receive(&request), [reply]);
    assert_eq!(node.receive(&arp_request(Mac::BROADCAST, (PEER_MAC, PEER_IP), Ipv4Addr::new(10, 0, 0, 9))), [[0u8; 0]; 0]);
    assert_eq!(node.counter("arp", "OutReplies"), 1);
    let rows = node.list(NEIGHBOURS);
    assert_eq!((rows.len(), &rows[0]["state"]), (1, &"STALE".into()), "learnt from the request for us");
}

#[test]
fn a_packet_waits_for_the_answer_and_the_entry_grows_old() {
    let mut node = Node::new();
    let out = node.send(b"one", Ipv4Addr::UNSPECIFIED, 1000, PEER_IP, 53);
    let (ether, request) = parse_arp(&out[0]);
    assert_eq!((ether.dst, request.operation, request.target_ip), (Mac::BROADCAST, Operation::Request, PEER_IP));
    assert_eq!((request.sender_ip, request.sender_mac), (OUR_IP, OUR_MAC));
    assert!(node.send(b"two", Ipv4Addr::UNSPECIFIED, 1000, PEER_IP, 53).is_empty(), "one request is under way");
    assert_eq!(node.list(NEIGHBOURS)[0]["state"], "INCOMPLETE");
    // <- the answer: both packets go, in order
    let out = node.receive(&arp_reply((PEER_MAC, PEER_IP), (OUR_MAC, OUR_IP)));
    assert_eq!(out.iter().map(|frame| parse_ip(frame).2[8..].to_vec()).collect::<Vec<_>>(), [b"one", b"two"]);
    assert_eq!(parse_ip(&out[0]).0.dst, PEER_MAC);
    assert_eq!(node.list(NEIGHBOURS)[0]["state"], "REACHABLE");
    // REACHABLE lasts at most 1.5 × 30 s; then the first packet moves it to DELAY, and after 5 s it is probed by unicast.
    assert!(node.advance(Duration::from_secs(46)).is_empty());
    assert_eq!(node.list(NEIGHBOURS)[0]["state"], "STALE");
    assert_eq!(node.send(b"three", OUR_IP, 1000, PEER_IP, 53).len(), 1, "a stale address is used");
    assert_eq!(node.list(NEIGHBOURS)[0]["state"], "DELAY");
    let probes = node.advance(Duration::from_millis(5_500));
    assert_eq!(node.list(NEIGHBOURS)[0]["state"], "PROBE");
    let (ether, probe) = parse_arp(&probes[0]);
    assert_eq!((probes.len(), ether.dst, probe.target_ip), (1, PEER_MAC, PEER_IP));
    node.receive(&arp_reply((PEER_MAC, PEER_IP), (OUR_MAC, OUR_IP)));
    assert_eq!(node.list(NEIGHBOURS)[0]["state"], "REACHABLE");
    assert!(node.advance(Duration::from_secs(10)).is_empty(), "no more probes");
}

#[test]
fn three_requests_a_second_apart_then_the_program_hears_of_it() {
    let mut node = Node::new();
    let mut times = Vec::new();
    times.extend(node.send(b"lost", Ipv4Addr::UNSPECIFIED, 1000, PEER_IP, 53).iter().map(|_| 0));
    for second in 1..=4 {
        times.extend(node.advance(Duration::from_secs(1)).iter().map(|_| second));
    }
    assert_eq!(times, [0, 1, 2]);
    assert_eq!(node.list(NEIGHBOURS)[0]["state"], "FAILED");
    let errors = node.seen("sockets");
    let meta = errors[0].meta();
    assert_eq!((errors.len(), meta.error.unwrap().kind), (1, IcmpErrorKind::HostUnreachable));
    assert_eq!((meta.src_port, meta.dst_port, meta.dst), (1000, 53, PEER_IP.into()));
    assert_eq!(node.send(b"again", Ipv4Addr::UNSPECIFIED, 1000, PEER_IP, 53).len(), 1, "the next packet starts a new attempt");
}

#[test]
fn the_queue_of_a_neighbour_is_bounded_and_the_latest_stay() {
    let mut node = Node::new();
    node.set("arp", "pending_frames_max", 3.into());
    for number in 0..5u8 {
        node.send(&[number], OUR_IP, 1, PEER_IP, 2);
    }
    assert_eq!(node.drops("arp", Reason::NeighbourPendingFull), 2);
    let out = node.receive(&arp_reply((PEER_MAC, PEER_IP), (OUR_MAC, OUR_IP)));
    assert_eq!(out.iter().map(|frame| parse_ip(frame).2[8]).collect::<Vec<_>>(), [2, 3, 4]);
}

#[test]
fn nothing_is_learnt_from_packets_for_others_or_replies_nobody_asked_for() {
    let mut node = Node::new();
    node.receive(&arp_request(Mac::BROADCAST, (PEER_MAC, PEER_IP), Ipv4Addr::new(10, 0, 0, 9)));
    node.receive(&arp_reply((PEER_MAC, PEER_IP), (OUR_MAC, OUR_IP)));
    assert!(node.list(NEIGHBOURS).is_empty());
    // An entry that exists is updated (RFC 826's merge flag), but not twice within lock_time.
    node.receive(&arp_request(Mac::BROADCAST, (PEER_MAC, PEER_IP), OUR_IP));
    let (other, third) = (Mac([2, 0, 0, 0, 0, 7]), Mac([2, 0, 0, 0, 0, 8]));
    node.advance(Duration::from_millis(1500));
    node.receive(&arp_request(Mac::BROADCAST, (other, PEER_IP), Ipv4Addr::new(10, 0, 0, 9)));
    node.receive(&arp_request(Mac::BROADCAST, (third, PEER_IP), Ipv4Addr::new(10, 0, 0, 9)));
    assert_eq!(node.list(NEIGHBOURS)[0]["mac"], other.to_string());
}

#[test]
fn probes_are_answered_conflicts_reported_and_impossible_packets_counted() {
    let mut node = Node::new();
    let probe = arp_request(Mac::BROADCAST, (PEER_MAC, Ipv4Addr::UNSPECIFIED), OUR_IP);
    assert_eq!(parse_arp(&node.receive(&probe)[0]).1.target_ip, Ipv4Addr::UNSPECIFIED);
    // Another station says that it is 10.0.0.1.
    node.receive(&arp_request(Mac::BROADCAST, (PEER_MAC, OUR_IP), OUR_IP));
    let alerts = node.engine.take_alerts();
    let conflict = alerts.iter().find(|alert| alert.name == "conflict").unwrap();
    assert_eq!((&conflict.value["address"], &conflict.value["mac"]), (&"10.0.0.1".into(), &PEER_MAC.to_string().into()));
    assert_eq!(node.counter("arp", "Conflicts"), 1);
    // Another interface of ours on the same network is no other station, once arp knows it.
    let second = Mac([2, 0, 0, 0, 0, 0x77]);
    node.exec("interfaces", "add", serde_json::json!({"name": "eth1", "mac": second.to_string()})).unwrap();
    node.exec("arp", "add", serde_json::json!({"interface": "eth1", "address": "10.3.0.1", "mac": "02:00:00:00:00:78"})).unwrap();
    node.exec("interfaces", "set", serde_json::json!({"name": "eth1", "group": 1})).unwrap();
    node.receive(&arp_request(Mac::BROADCAST, (second, OUR_IP), OUR_IP));
    assert_eq!(node.counter("arp", "Conflicts"), 1);
    node.exec("arp", "delete", serde_json::json!({"interface": "eth1", "address": "10.3.0.1"})).unwrap();
    for bad in [
        arp_request(Mac::BROADCAST, (Mac([3, 0, 0, 0, 0, 1]), PEER_IP), OUR_IP),
        arp_request(Mac::BROADCAST, (PEER_MAC, Ipv4Addr::new(224, 0, 0, 1)), OUR_IP),
        arp_request(Mac::BROADCAST, (PEER_MAC, PEER_IP), Ipv4Addr::LOCALHOST),
        ethernet(OUR_MAC, PEER_MAC, weft_wire::ethernet::EtherType::ARP, &[0; 10]),
    ] {
        assert!(node.receive(&bad).is_empty());
    }
    assert_eq!(node.counter("arp", "InErrors"), 4);
    assert!(node.list(NEIGHBOURS).is_empty());
}

#[test]
fn permanent_entries_are_used_at_once_and_never_change() {
    let mut node = Node::with_peer();
    node.receive(&arp_request(Mac::BROADCAST, (Mac([2, 9, 9, 9, 9, 9]), PEER_IP), OUR_IP));
    assert_eq!(parse_ip(&node.send(b"x", OUR_IP, 1, PEER_IP, 2)[0]).0.dst, PEER_MAC);
    assert_eq!(node.list(NEIGHBOURS)[0]["state"], "PERMANENT");
    node.exec("arp", "delete", serde_json::json!({"interface": 2, "address": "10.0.0.2"})).unwrap();
    let error = node.exec("arp", "delete", serde_json::json!({"interface": 2, "address": "10.0.0.2"})).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(error.to_string(), "arp delete: ENOENT: 10.0.0.2 is no neighbour on that interface");
    parse_arp(&node.send(b"x", OUR_IP, 1, PEER_IP, 2)[0]);
}

#[test]
fn the_cache_is_bounded_and_old_entries_make_room() {
    let mut node = Node::new();
    node.set("arp", "entries_max", 8.into());
    for host in 2..40u8 {
        let ip = Ipv4Addr::new(10, 0, 0, host);
        node.receive(&arp_request(Mac::BROADCAST, (Mac([2, 0, 0, 0, 1, host]), ip), OUR_IP));
        node.advance(Duration::from_millis(10));
    }
    let rows = node.list(NEIGHBOURS);
    assert_eq!(rows.len(), 8);
    assert_eq!((&rows[0]["address"], &rows[7]["address"]), (&"10.0.0.32".into(), &"10.0.0.39".into()), "the latest stay");
    assert_eq!(node.counter("arp", "Collected"), 30);
}

#[test]
fn new_addresses_are_announced_twice_when_told_so() {
    let mut node = Node::new();
    node.set("arp", "announcements", 2.into());
    node.exec("ip4", "address_add", serde_json::json!({"interface": "eth0", "address": "10.0.0.77/24"})).unwrap();
    let mut sent = node.advance(Duration::from_millis(1));
    sent.extend(node.advance(Duration::from_secs(10)));
    let own = Ipv4Addr::new(10, 0, 0, 77);
    let all: Vec<_> = sent.iter().map(|frame| parse_arp(frame).1).map(|packet| (packet.sender_ip, packet.target_ip)).collect();
    assert_eq!(all, [(own, own); 2]);
}

#[test]
fn groups_need_no_resolution_and_state_moves_to_a_new_block() {
    let mut node = Node::with_peer();
    let group = node.send(b"x", OUR_IP, 1, Ipv4Addr::new(224, 1, 2, 3), 2);
    let (ether, ip, _) = parse_ip(&group[0]);
    assert_eq!((ether.dst, ip.ttl), (Mac([1, 0, 0x5e, 1, 2, 3]), 1));
    let all = node.send(b"x", OUR_IP, 1, BROADCAST_IP, 2);
    assert_eq!(parse_ip(&all[0]).0.dst, Mac::BROADCAST);
    let replace = Op::Replace { name: "arp".to_owned(), kind: "arp".to_owned(), parameters: Default::default(), drop_state: false };
    node.control(replace).unwrap();
    assert_eq!(parse_ip(&node.send(b"x", OUR_IP, 1, PEER_IP, 2)[0]).0.dst, PEER_MAC);
}
