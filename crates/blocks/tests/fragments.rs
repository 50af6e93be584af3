//! Fragments, both ways: put together as Linux does (the kernel is the oracle, `linux/fragments.py`), and made of what does not fit.

use crate::common;
use common::*;
use serde_json::json;
use std::net::Ipv4Addr;
use weft_core::*;
use weft_wire::ethernet::EtherType;
use weft_wire::{Protocol, ipv4};

/// The frame without identification, and without the header checksum over it.
fn normalised(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    if frame[12..14] == [8, 0] {
        parse_ip(&frame);
        frame[18..20].fill(0);
        frame[24..26].fill(0);
    }
    frame
}

/// Cases in which weft is deliberately otherwise, and why.
const DIFFERENT: &[(&str, &str)] =
    &[("beyond 65535", "no packet can have such a fragment: it is refused at once. Linux keeps it until its time is over")];

#[test]
fn weft_puts_fragments_together_as_linux_does() {
    let golden: Value = serde_json::from_str(include_str!("linux/fragments.json")).unwrap();
    let cases = golden["cases"].as_array().unwrap();
    assert!(cases.len() > 60);
    let mut answered = 0;
    let mut wrong = Vec::new();
    for case in cases {
        let name = case["name"].as_str().unwrap();
        let frames =
            |key: &str| -> Vec<Vec<u8>> { case[key].as_array().unwrap().iter().map(|frame| hex(frame.as_str().unwrap())).collect() };
        let expected = |key: &str| -> Vec<Vec<u8>> { frames(key).iter().map(|frame| normalised(frame)).collect() };
        let mut node = Node::with_peer();
        let third = json!({"interface": "eth0", "address": "10.0.0.3", "mac": PEER_MAC.to_string()});
        node.exec("arp", "add", third).unwrap();
        node.set("sockets", "listening", false.into());
        node.set("ip4", "fragment_timeout", json!("1s"));
        node.set("icmp4", "target_interval", json!("0ns"));
        node.set("icmp4", "messages_burst", 10_000.into());
        let replies: Vec<_> = frames("sent").iter().flat_map(|frame| node.receive(frame)).map(|frame| normalised(&frame)).collect();
        let late: Vec<_> = node.advance(Duration::from_millis(1300)).iter().map(|frame| normalised(frame)).collect();
        // Packets that were given up at one instant: Linux's timers have no order.
        let sorted = |mut frames: Vec<Vec<u8>>| {
            frames.sort();
            frames
        };
        let (late, expected_late) = (sorted(late), sorted(expected("late")));
        answered += replies.len() + late.len();
        let mut differs = (replies, late) != (expected("replies"), expected_late);
        for (counter, value) in case["counters"].as_object().unwrap() {
            differs |= node.counter("ip4", counter) != value.as_u64().unwrap();
        }
        match DIFFERENT.iter().find(|(of, _)| *of == name) {
            Some((_, why)) => assert!(differs, "{name} is no difference any more: {why}"),
            None if differs => wrong.push(name),
            None => {}
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(answered > 30, "Linux answered {answered}");
}

/// What arrives when these packets come in at another node of weft, as the payload of its sockets.
fn put_together(frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut peer = Node::bare(Mode::Inline);
    peer.exec("interfaces", "add", json!({"name": "eth0", "mac": PEER_MAC.to_string()})).unwrap();
    peer.exec("ip4", "address_add", json!({"interface": "eth0", "address": "10.0.0.2/24"})).unwrap();
    for frame in frames {
        peer.receive(frame);
    }
    assert!(peer.all_drops().is_empty(), "{:?}", peer.all_drops());
    peer.seen("sockets").iter().map(Frame::to_vec).collect()
}

#[test]
fn the_largest_datagram_travels_in_fragments() {
    let payload: Vec<u8> = (0..65_507u32).map(|at| (at * 7 / 3) as u8).collect();
    for mtu in [1500, 576, 68, 9000] {
        let mut node = Node::with_peer();
        node.exec("interfaces", "set", json!({"name": "eth0", "mtu": mtu})).unwrap();
        let frames = node.send(&payload, OUR_IP, 1000, PEER_IP, 2000);
        let headers: Vec<_> = frames.iter().map(|frame| parse_ip(frame).1).collect();
        let room = (mtu - 20) / 8 * 8;
        assert_eq!(headers.len(), (65_515usize).div_ceil(room));
        for (at, header) in headers.iter().enumerate() {
            assert_eq!((usize::from(header.fragment_offset), header.more_fragments), (at * room, at + 1 < headers.len()));
            assert_eq!((header.identification, header.dont_fragment), (headers[0].identification, false));
            assert!(usize::from(header.total_len) <= mtu);
        }
        assert_eq!((node.counter("ip4", "FragOKs"), node.counter("ip4", "FragCreates")), (1, headers.len() as u64));
        assert_eq!(put_together(&frames), std::slice::from_ref(&payload), "the checksum over all of it was right, too");
    }
}

#[test]
fn what_must_not_be_fragmented_is_refused_and_its_sender_told() {
    let mut node = Node::with_peer();
    let mut frame = datagram(&[0; 1473], OUR_IP, 1000, PEER_IP, 53);
    frame.meta_mut().dont_fragment = true;
    assert!(node.send_frame(frame).is_empty());
    assert_eq!(node.seen("sockets").remove(0).meta().error.unwrap().kind, IcmpErrorKind::TooBig { mtu: 1500 });
    assert_eq!((node.counter("ip4", "FragFails"), node.counter("ip4", "FragCreates")), (1, 0));
}

#[test]
fn broadcasts_are_fragmented_too_and_heard_whole_at_home() {
    let mut node = Node::with_peer();
    let frames = node.send(&[7; 3000], Ipv4Addr::UNSPECIFIED, 7, BROADCAST_IP, 8);
    assert_eq!(frames.len(), 3);
    assert_eq!(node.seen("sockets").remove(0).len(), 3000);
}

#[test]
fn fragments_of_a_packet_that_took_too_long_are_told_about_once() {
    let mut node = Node::with_peer();
    let udp = udp_segment(PEER_IP, 1, OUR_IP, 2, &[5; 100]);
    let header = ipv4::Header { more_fragments: true, identification: 9, ..header(PEER_IP, OUR_IP, Protocol::UDP) };
    assert!(node.receive(&from_peer(header, &udp[..64])).is_empty());
    assert!(node.advance(Duration::from_millis(29_900)).is_empty());
    let told = node.advance(Duration::from_millis(200));
    let (_, ip, message) = parse_ip(&told[0]);
    assert_eq!((told.len(), ip.dst, message[0], message[1]), (1, PEER_IP, 11, 1));
    assert_eq!(message[28..], udp[..64], "as much as there is");
    assert_eq!(node.all_drops(), ["icmp4 reassembly-timeout 1"]);
    assert_eq!((node.counter("ip4", "ReasmTimeout"), node.counter("ip4", "ReasmFails")), (1, 1));
    assert_eq!(node.engine.next_timer().filter(|at| *at < node.now + Duration::from_secs(60)), None, "nothing waits any more");
}

#[test]
fn memory_for_fragments_is_bounded_and_refusals_are_counted() {
    let mut node = Node::with_peer();
    node.set("ip4", "fragment_memory_bytes", 50_000.into());
    for identification in 0..100 {
        let header = ipv4::Header { more_fragments: true, identification, ..header(PEER_IP, OUR_IP, Protocol::UDP) };
        node.receive(&from_peer(header, &[0; 1000]));
    }
    let refused = node.drops("ip4", Reason::FragmentLimit);
    assert!((50..90).contains(&refused), "{refused}");
    assert_eq!(node.counter("ip4", "ReasmFails"), refused);
    // 0: none is put together at all.
    node.set("ip4", "fragment_memory_bytes", 0.into());
    node.receive(&from_peer(ipv4::Header { more_fragments: true, ..header(PEER_IP, OUR_IP, Protocol::UDP) }, &[0; 8]));
    assert_eq!(node.drops("ip4", Reason::FragmentLimit), refused + 1);
}

#[test]
fn fragments_for_others_are_not_kept() {
    let mut node = Node::with_peer();
    let header = ipv4::Header { more_fragments: true, ..header(PEER_IP, Ipv4Addr::new(10, 0, 0, 9), Protocol::UDP) };
    node.receive(&ethernet(OUR_MAC, PEER_MAC, EtherType::IPV4, &ip_packet(header, &[0; 8])));
    assert_eq!((node.counter("ip4", "ReasmReqds"), node.all_drops()), (0, vec!["ip4 not-for-us 1".to_owned()]));
}

/// The state of ip4 goes through bytes, as in a file, and on to a new block.
fn replace_ip4(node: &mut Node) {
    let export = |node: &Node| node.engine.graph().block(node.id("ip4")).unwrap().export(node.now).unwrap();
    let (before, memory) = (export(node), node.exec("ip4", "memory", json!(null)).unwrap());
    let op = Op::Replace { name: "ip4".to_owned(), kind: "ip4".to_owned(), parameters: Default::default(), drop_state: false };
    node.control(op).unwrap();
    assert!(export(node) == before && State::from_bytes(&before.to_bytes()).unwrap() == before);
    assert_eq!(node.exec("ip4", "memory", json!(null)).unwrap(), memory);
}

#[test]
fn fragments_that_wait_go_with_the_block_to_its_successor() {
    let mut node = Node::with_peer();
    let payload: Vec<u8> = (0..3000u32).map(|at| (at * 7 / 3) as u8).collect();
    let udp = udp_segment(PEER_IP, 1, OUR_IP, 2, &payload);
    let piece = |node: &mut Node, identification: u16, from: usize, to: usize| {
        let header = ipv4::Header {
            more_fragments: to < udp.len(),
            fragment_offset: from as u16,
            identification,
            ..header(PEER_IP, OUR_IP, Protocol::UDP)
        };
        node.receive(&from_peer(header, &udp[from..to]))
    };
    piece(&mut node, 1, 2000, udp.len());
    piece(&mut node, 1, 0, 1000);
    piece(&mut node, 2, 0, 1000);
    node.advance(Duration::from_secs(20));
    piece(&mut node, 2, 1000, 1496);
    replace_ip4(&mut node);
    assert_eq!(node.exec("ip4", "memory", json!(null)).unwrap()["fragment_packets"], 2);
    assert_eq!((node.counter("ip4", "ReasmReqds"), node.all_drops()), (4, vec![]), "nothing is given up by the block before");
    piece(&mut node, 1, 1000, 2000);
    let seen = node.seen("sockets");
    assert_eq!((seen.len(), seen[0].to_vec() == payload), (1, true));
    replace_ip4(&mut node);
    assert!(node.advance(Duration::from_millis(9_999)).is_empty(), "the time is that of the first fragment");
    let told = node.advance(Duration::from_millis(1));
    let (_, ip, message) = parse_ip(&told[0]);
    assert_eq!((told.len(), ip.dst, message[0], message[1]), (1, PEER_IP, 11, 1));
    let counts = ["ReasmReqds", "ReasmOKs", "ReasmFails", "ReasmTimeout"].map(|name| node.counter("ip4", name));
    assert_eq!(counts, [5, 1, 1, 1], "they go on from what the blocks before had counted");
    let memory = node.exec("ip4", "memory", json!(null)).unwrap();
    assert_eq!((&memory["fragment_bytes"], &memory["fragment_packets"]), (&json!(0), &json!(0)));
}
