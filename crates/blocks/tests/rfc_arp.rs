//! The link as the RFCs want it (826, 894, 1122 §2, 5227): frames in, frames out. `docs/rfc/` names these tests.

use crate::common;
use common::*;
use serde_json::json;
use std::net::Ipv4Addr;
use weft_core::table::Family;
use weft_core::*;
use weft_wire::arp::Operation;
use weft_wire::ethernet::{EtherType, Mac};
use weft_wire::{Protocol, ethernet as wire_ethernet};

const NEIGHBOURS: Table = Table::Neighbours(Family::V4);
const OTHER_MAC: Mac = Mac([2, 0, 0, 0, 0, 7]);
const OTHER_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);

fn mac_of(node: &mut Node, address: Ipv4Addr) -> Option<String> {
    let row = node.list(NEIGHBOURS).into_iter().find(|row| row["address"] == address.to_string())?;
    Some(row["mac"].as_str()?.to_owned())
}

/// A node that has learnt the peer's address from its request.
fn knows_peer() -> Node {
    let mut node = Node::new();
    node.receive(&arp_request(Mac::BROADCAST, (PEER_MAC, PEER_IP), OUR_IP));
    node.advance(Duration::from_secs(2));
    node
}

#[test]
fn packets_of_other_hardware_or_protocols_are_not_read() {
    let mut node = Node::new();
    let request = arp_request(Mac::BROADCAST, (PEER_MAC, PEER_IP), OUR_IP);
    // ar$hrd, ar$pro, ar$hln, ar$pln: every other value of each byte.
    for at in 14..20 {
        for value in (0..=255).filter(|value| *value != request[at]) {
            let mut other = request.clone();
            other[at] = value;
            assert!(node.receive(&other).is_empty());
        }
    }
    assert!(node.list(NEIGHBOURS).is_empty());
    assert_eq!(node.counter("arp", "InErrors"), 6 * 255);
    assert_eq!(node.receive(&request).len(), 1);
}

#[test]
fn a_pair_that_is_known_is_updated_by_any_packet_before_anything_else_is_looked_at() {
    // RFC 826: "Merge_flag := false; If the pair is already in my translation table, update".
    let to_us = arp_request(OUR_MAC, (OTHER_MAC, PEER_IP), OUR_IP);
    let to_another = arp_request(Mac::BROADCAST, (OTHER_MAC, PEER_IP), OTHER_IP);
    let reply = arp_reply((OTHER_MAC, PEER_IP), (OUR_MAC, OUR_IP));
    let announcement = arp_request(Mac::BROADCAST, (OTHER_MAC, PEER_IP), PEER_IP);
    for (packet, answers) in [(to_us, 1), (to_another, 0), (reply, 0), (announcement, 0)] {
        let mut node = knows_peer();
        assert_eq!(node.receive(&packet).len(), answers);
        assert_eq!(mac_of(&mut node, PEER_IP), Some(OTHER_MAC.to_string()));
        assert_eq!(parse_ip(&node.send(b"x", OUR_IP, 1, PEER_IP, 2)[0]).0.dst, OTHER_MAC);
    }
}

#[test]
fn a_new_pair_is_added_only_from_a_request_for_us() {
    let mut node = Node::new();
    for packet in [
        arp_request(Mac::BROADCAST, (PEER_MAC, PEER_IP), OTHER_IP),
        arp_request(Mac::BROADCAST, (PEER_MAC, PEER_IP), PEER_IP),
        // RFC 826 would add this one; Linux, and this node, believe no reply that nobody asked for.
        arp_reply((PEER_MAC, PEER_IP), (OUR_MAC, OUR_IP)),
    ] {
        assert!(node.receive(&packet).is_empty() && node.list(NEIGHBOURS).is_empty());
    }
    node.receive(&arp_request(Mac::BROADCAST, (PEER_MAC, PEER_IP), OUR_IP));
    assert_eq!(mac_of(&mut node, PEER_IP), Some(PEER_MAC.to_string()));
}

#[test]
fn a_reply_has_the_fields_swapped_and_goes_to_the_one_who_asked_on_the_same_link() {
    let mut node = Node::new();
    let eth1 = Mac([2, 0, 0, 0, 0, 3]);
    node.exec("interfaces", "add", json!({"name": "eth1", "mac": eth1.to_string()})).unwrap();
    node.exec("ip4", "address_add", json!({"interface": "eth1", "address": "198.51.100.5/30"})).unwrap();
    // Asked on either link for an address of the first: the hardware address is that of the link asked on (Linux arp_ignore 0).
    for (interface, own) in [(ETH0, OUR_MAC), (InterfaceIndex(3), eth1)] {
        let mut frame = Frame::ingress(&arp_request(Mac::BROADCAST, (PEER_MAC, PEER_IP), OUR_IP));
        frame.meta_mut().interface = interface;
        let out = node.receive_frame(frame);
        let (ether, reply) = parse_arp(&out[0]);
        assert_eq!((out.len(), ether.dst, ether.src, reply.operation), (1, PEER_MAC, own, Operation::Reply));
        assert_eq!((reply.sender_mac, reply.sender_ip, reply.target_mac, reply.target_ip), (own, OUR_IP, PEER_MAC, PEER_IP));
    }
}

#[test]
fn requests_for_one_address_are_never_closer_than_a_second() {
    // RFC 1122 §2.3.2.1: "The recommended maximum rate is 1 per second per destination."
    let mut node = Node::new();
    let mut times = Vec::new();
    for _ in 0..400 {
        times.extend(node.send(b"x", OUR_IP, 1, PEER_IP, 2).iter().map(|_| node.now));
        let before = node.now;
        let out = node.advance(Duration::from_millis(50));
        assert!(out.len() <= 1);
        times.extend(out.iter().map(|_| before + Duration::from_millis(50)));
    }
    assert_eq!(times.len(), 21, "at second 0, 1, … 20");
    // The time of those that a timer sent is known to 50 ms.
    assert!(times.windows(2).all(|pair| pair[1].since(pair[0]) >= Duration::from_millis(950)), "{times:?}");
}

#[test]
fn an_entry_that_is_no_longer_true_is_flushed_by_unicast_poll() {
    // RFC 1122 §2.3.2.1 (2): "Actively poll the remote host by periodically sending a point-to-point ARP Request to it".
    let mut node = Node::new();
    node.send(b"x", OUR_IP, 1, PEER_IP, 2);
    node.receive(&arp_reply((PEER_MAC, PEER_IP), (OUR_MAC, OUR_IP)));
    // The peer is now another machine; a program goes on sending, ten times a second.
    let mut requests = Vec::new();
    let mut reached = None;
    for tenth in 0..1200 {
        let mut out = node.send(b"x", OUR_IP, 1, PEER_IP, 2);
        out.extend(node.advance(Duration::from_millis(100)));
        for frame in out {
            match wire_ethernet::Header::parse(&frame).unwrap().0 {
                header if header.ether_type == EtherType::ARP => requests.push(header.dst),
                header if header.dst == OTHER_MAC => reached = reached.or(Some(tenth)),
                header => assert_eq!(header.dst, PEER_MAC),
            }
        }
        if requests.last() == Some(&Mac::BROADCAST) {
            node.receive(&arp_reply((OTHER_MAC, PEER_IP), (OUR_MAC, OUR_IP)));
            reached = reached.or(Some(tenth));
            break;
        }
    }
    assert_eq!(requests, [PEER_MAC, PEER_MAC, PEER_MAC, Mac::BROADCAST]);
    // At most 1.5 × 30 s reachable, 5 s of delay, three polls a second apart.
    assert!(reached.unwrap() <= 540, "{reached:?}");
    assert_eq!(mac_of(&mut node, PEER_IP), Some(OTHER_MAC.to_string()));
}

#[test]
fn the_latest_packet_is_kept_while_an_address_is_asked_for() {
    let mut node = Node::new();
    node.set("arp", "pending_frames_max", 1.into());
    for payload in [b"one", b"two", b"six"] {
        node.send(payload, OUR_IP, 1, PEER_IP, 2);
    }
    assert!(node.seen("sockets").is_empty(), "to have no entry is no error");
    let out = node.receive(&arp_reply((PEER_MAC, PEER_IP), (OUR_MAC, OUR_IP)));
    assert_eq!(out.iter().map(|frame| parse_ip(frame).2[8..].to_vec()).collect::<Vec<_>>(), [b"six"]);
}

#[test]
fn a_probe_for_our_address_is_answered_and_its_sender_not_learnt() {
    let mut node = Node::new();
    let out = node.receive(&arp_request(Mac::BROADCAST, (PEER_MAC, Ipv4Addr::UNSPECIFIED), OUR_IP));
    let (ether, reply) = parse_arp(&out[0]);
    assert_eq!((ether.dst, reply.operation, reply.sender_ip, reply.sender_mac), (PEER_MAC, Operation::Reply, OUR_IP, OUR_MAC));
    assert!(node.list(NEIGHBOURS).is_empty());
    assert_eq!(node.counter("arp", "Conflicts"), 0, "a probe is no claim");
}

#[test]
fn a_conflict_is_reported_and_neither_learnt_nor_answered() {
    let mut node = Node::new();
    let claims = [
        arp_request(Mac::BROADCAST, (PEER_MAC, OUR_IP), OUR_IP),
        arp_request(Mac::BROADCAST, (PEER_MAC, OUR_IP), OTHER_IP),
        arp_reply((PEER_MAC, OUR_IP), (OUR_MAC, OUR_IP)),
    ];
    for claim in &claims {
        // RFC 5227 §2.4 (b) and (c) would have the address defended by an announcement; Linux does not.
        assert!(node.receive(claim).is_empty());
    }
    let alerts = node.engine.take_alerts();
    assert_eq!(alerts.iter().filter(|alert| alert.name == "conflict").count(), claims.len());
    assert!(node.list(NEIGHBOURS).is_empty());
    assert_eq!(parse_arp(&node.send(b"x", OUR_IP, 1, PEER_IP, 2)[0]).1.sender_ip, OUR_IP, "the address stays in use");
    // Our own announcement, reflected by the link, is none.
    node.receive(&arp_request(Mac::BROADCAST, (OUR_MAC, OUR_IP), OUR_IP));
    assert_eq!(node.counter("arp", "Conflicts"), 3);
}

#[test]
fn an_address_is_used_without_a_probe_and_announced_when_told_so() {
    let add = |node: &mut Node| {
        node.exec("ip4", "address_add", json!({"interface": "eth0", "address": "10.0.0.77/24"})).unwrap();
        node.settle();
        node.wire()
    };
    let mut node = Node::new();
    assert!(add(&mut node).is_empty() && node.advance(Duration::from_secs(20)).is_empty(), "as Linux with arp_notify 0");
    let mut node = Node::new();
    node.set("arp", "announcements", 2.into());
    let own = Ipv4Addr::new(10, 0, 0, 77);
    let announcement = arp_request(Mac::BROADCAST, (OUR_MAC, own), own);
    assert_eq!(add(&mut node), std::slice::from_ref(&announcement));
    assert!(node.advance(Duration::from_millis(1999)).is_empty());
    assert_eq!(node.advance(Duration::from_millis(1)), [announcement]);
    assert!(node.advance(Duration::from_secs(20)).is_empty());
}

#[test]
fn frames_are_of_ethernet_ii_and_packets_up_to_1500_bytes() {
    let mut node = Node::with_peer();
    let frame = node.send(&[7; 1472], OUR_IP, 1, PEER_IP, 2).remove(0);
    assert_eq!((frame.len(), &frame[..14]), (1514, &[PEER_MAC.0, OUR_MAC.0].concat().into_iter().chain([8, 0]).collect::<Vec<u8>>()[..]));
    assert!(node.send(&[7; 1473], OUR_IP, 1, PEER_IP, 2).iter().all(|frame| frame.len() <= 1514));
    // The shortest are left to the device to pad.
    assert_eq!(node.send(&[], OUR_IP, 1, PEER_IP, 2)[0].len(), 42);
}

#[test]
fn padding_is_no_part_of_a_packet() {
    let mut node = Node::with_peer();
    for padding in [0, 1, 17, 18, 400] {
        let segment = udp_segment(PEER_IP, 1, OUR_IP, 2, b"x");
        let mut frame = from_peer(header(PEER_IP, OUR_IP, Protocol::UDP), &segment);
        frame.extend(vec![0xee; padding]);
        node.receive(&frame);
        let mut frame = from_peer(header(PEER_IP, OUR_IP, Protocol::ICMP), &ping(PEER_IP, OUR_IP, b"x")[20..]);
        frame.extend(vec![0xee; padding]);
        assert_eq!(node.receive(&frame)[0].len(), 14 + 20 + 8 + 1);
        assert_eq!(node.seen("sockets")[0].to_vec(), b"x");
    }
}

#[test]
fn frames_of_ieee_802_3_and_trailers_are_not_taken() {
    let mut node = Node::with_peer();
    // RFC 1042: length, LLC AA-AA-03, OUI 0, EtherType.
    let packet = ping(PEER_IP, OUR_IP, b"hello");
    let snap = [&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0][..], &packet].concat();
    assert!(node.receive(&ethernet(OUR_MAC, PEER_MAC, EtherType(snap.len() as u16), &snap)).is_empty());
    // RFC 893 trailers have EtherTypes 0x1001 to 0x100f.
    assert!(node.receive(&ethernet(OUR_MAC, PEER_MAC, EtherType(0x1001), &packet)).is_empty());
    assert_eq!(node.all_drops(), ["ether unknown-ether-type 2"]);
}
