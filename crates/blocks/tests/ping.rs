//! The default graph answers.

use crate::common;
use common::*;
use std::net::Ipv4Addr;
use weft_core::*;
use weft_wire::Protocol;
use weft_wire::ethernet::EtherType;

#[test]
fn a_ping_is_answered_byte_for_byte() {
    for mode in [Mode::Inline, Mode::Queued] {
        let mut node = Node::with_mode(mode);
        node.receive(&arp_request(OUR_MAC, (PEER_MAC, PEER_IP), OUR_IP));
        // -> 10.0.0.2 > 10.0.0.1: ICMP echo request, id 1, seq 1, 8 bytes "abcdefgh"; padded by 10 bytes of Ethernet.
        let request = hex("020000000001 020000000002 0800 4500 0024 1c46 4000 40 01 0a91 0a000002 0a000001
                           0800 6668 0001 0001 6162636465666768 00000000000000000000");
        // <- the reply: type 0, checksum higher by 0x0800, identification any (not DF)
        let out = node.receive(&request);
        let (ether, ip, payload) = parse_ip(&out[0]);
        assert_eq!((out.len(), ether.dst, ether.src), (1, PEER_MAC, OUR_MAC));
        assert_eq!((ip.src, ip.dst, ip.ttl, ip.dont_fragment), (OUR_IP, PEER_IP, 64, false));
        assert_eq!(payload, hex("0000 6e68 0001 0001 6162636465666768"));
        assert_eq!(node.counter("icmp4", "OutEchoReps"), 1);
    }
}

#[test]
fn the_payload_of_a_large_ping_is_answered_by_reference() {
    let mut node = Node::with_peer();
    let packet = from_peer(header(PEER_IP, OUR_IP, Protocol::ICMP), &ping(PEER_IP, OUR_IP, &[7; 1400])[20..]);
    let mut frame = Frame::ingress(&packet);
    frame.meta_mut().interface = ETH0;
    let address = frame.tail()[0].as_ptr();
    let interfaces = node.id("interfaces");
    node.engine.inject(node.now, interfaces, InPort(0), [frame]);
    let reply = &node.take(interfaces)[0];
    assert_eq!(reply.tail()[0].as_ptr(), address);
    assert_eq!(parse_ip(&completed(reply)).2.len(), 1408);
}

#[test]
fn pings_to_broadcast_and_with_bad_checksums_are_not_answered() {
    let mut node = Node::with_peer();
    let to = |dst: Ipv4Addr| ethernet(weft_wire::ethernet::Mac::BROADCAST, PEER_MAC, EtherType::IPV4, &ping(PEER_IP, dst, b"hello"));
    assert!(node.receive(&to(BROADCAST_IP)).is_empty() && node.receive(&to(Ipv4Addr::new(224, 0, 0, 1))).is_empty());
    assert_eq!(node.counter("icmp4", "InIgnored"), 2);
    let mut bad = from_peer(header(PEER_IP, OUR_IP, Protocol::ICMP), &ping(PEER_IP, OUR_IP, b"hello")[20..]);
    *bad.last_mut().unwrap() ^= 1;
    assert!(node.receive(&bad).is_empty());
    assert_eq!((node.counter("icmp4", "InCsumErrors"), node.drops("icmp4", Reason::BadChecksum)), (1, 1));
    node.set("icmp4", "echo", false.into());
    assert!(node.receive(&to(OUR_IP)).is_empty());
}

#[test]
fn interfaces_that_are_down_or_unknown_drop() {
    let mut node = Node::with_peer();
    let request = from_peer(header(PEER_IP, OUR_IP, Protocol::ICMP), &ping(PEER_IP, OUR_IP, b"hello")[20..]);
    assert_eq!(node.receive(&request).len(), 1);
    node.exec("interfaces", "set", serde_json::json!({"name": "eth0", "up": false})).unwrap();
    assert!(node.receive(&request).is_empty());
    assert_eq!(node.drops("interfaces", Reason::InterfaceDown), 1);
    let mut stray = Frame::ingress(&request);
    stray.meta_mut().interface = InterfaceIndex(99);
    assert!(node.receive_frame(stray).is_empty());
    assert_eq!(node.drops("interfaces", Reason::UnknownInterface), 1);
    let row = &node.list(Table::Interfaces)[1];
    assert_eq!(
        (&row["name"], &row["rx_packets"], &row["rx_dropped"], &row["tx_packets"]),
        (&"eth0".into(), &1.into(), &1.into(), &1.into())
    );
}

#[test]
fn priority_tags_are_taken_off_and_other_frames_have_their_reasons() {
    let mut node = Node::with_peer();
    let packet = ping(PEER_IP, OUR_IP, b"hello");
    let tagged = |id: u16| {
        let mut bytes = vec![0; 18];
        let vlan = Some(weft_wire::ethernet::Vlan { priority: 5, drop_eligible: false, id });
        weft_wire::ethernet::Header { dst: OUR_MAC, src: PEER_MAC, vlan, ether_type: EtherType::IPV4 }.emit(&mut bytes);
        [bytes, packet.clone()].concat()
    };
    assert_eq!(node.receive(&tagged(0)).len(), 1);
    assert!(node.receive(&tagged(7)).is_empty());
    assert!(node.receive(&ethernet(OUR_MAC, PEER_MAC, EtherType(0x88cc), &[0; 50])).is_empty());
    assert!(node.receive(&ethernet(OUR_MAC, PEER_MAC, EtherType(50), &[0; 50])).is_empty());
    assert!(node.receive(&ethernet(PEER_MAC, OUR_MAC, EtherType::IPV4, &packet)).is_empty());
    assert!(node.receive(&[1, 2, 3]).is_empty());
    assert_eq!(node.all_drops(), ["ether truncated 1", "ether other-host 1", "ether unknown-ether-type 3"]);
}

#[test]
fn raw_interfaces_carry_packets_without_a_header_and_without_arp() {
    let mut node = Node::bare(Mode::Inline);
    node.exec("interfaces", "add", serde_json::json!({"name": "tun0", "link": "raw"})).unwrap();
    node.exec("ip4", "address_add", serde_json::json!({"interface": "tun0", "address": "10.0.0.1/24"})).unwrap();
    let out = node.receive(&ping(PEER_IP, OUR_IP, b"hello"));
    assert_eq!((out.len(), out[0][0], out[0][20]), (1, 0x45, 0));
    assert!(node.receive(&[0xf0, 1, 2]).is_empty() && node.receive(&[]).is_empty());
    assert_eq!(node.all_drops(), ["ether truncated 1", "ether bad-version 1"]);
}
