//! Forwarding: as Linux does (the kernel is the oracle, `linux/forward.py`), off unless it is switched on, and with large frames left whole.

use crate::common;
use common::*;
use serde_json::json;
use std::net::Ipv4Addr;
use weft_core::*;
use weft_wire::ethernet::{EtherType, Mac};
use weft_wire::{Protocol, ipv4};

const FAR_MAC: Mac = Mac([2, 0, 0, 0, 1, 2]);
const FAR_IP: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 2);

/// The router of the script.
fn router() -> Node {
    let mut node = Node::bare(Mode::Inline);
    for (name, mac, mtu, address) in
        [("eth0", "02:00:00:00:00:01", 1500, "10.0.0.1/24"), ("eth1", "02:00:00:00:01:01", 1400, "10.1.0.1/24")]
    {
        node.exec("interfaces", "add", json!({"name": name, "mac": mac, "mtu": mtu})).unwrap();
        node.exec("ip4", "address_add", json!({"interface": name, "address": address})).unwrap();
    }
    node.exec("ip4", "route_add", json!({"destination": "9.9.9.0/24", "gateway": "10.0.0.2"})).unwrap();
    node.exec("ip4", "route_add", json!({"destination": "172.16.0.0/12", "gateway": "10.1.0.2"})).unwrap();
    for (destination, kind) in [("198.51.100.0/24", "unreachable"), ("203.0.113.0/24", "prohibit"), ("192.88.99.0/24", "blackhole")] {
        node.exec("ip4", "route_add", json!({"destination": destination, "kind": kind})).unwrap();
    }
    for (interface, address, mac) in [("eth0", PEER_IP, PEER_MAC), ("eth1", FAR_IP, FAR_MAC)] {
        let arguments = json!({"interface": interface, "address": address.to_string(), "mac": mac.to_string()});
        node.exec("arp", "add", arguments).unwrap();
    }
    node.set("sockets", "listening", false.into());
    node.set("ip4", "forward", true.into());
    node
}

/// A frame comes in; what leaves through eth0, and through eth1.
fn through(node: &mut Node, frame: Frame) -> [Vec<Vec<u8>>; 2] {
    let mut frame = frame;
    frame.meta_mut().interface = ETH0;
    let interfaces = node.id("interfaces");
    node.engine.inject(node.now, interfaces, InPort(0), [frame]);
    node.settle();
    let (near, far): (Vec<_>, Vec<_>) = node.take(interfaces).into_iter().partition(|frame| frame.meta().interface == ETH0);
    [near, far].map(|frames| frames.iter().map(completed).collect())
}

/// Without what may differ: the router's own identifications, and its idea of the time.
fn normalised(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    if frame[12..14] != [8, 0] {
        return frame;
    }
    let (_, header, _) = parse_ip(&frame);
    if [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 1, 0, 1)].contains(&header.src) {
        frame[18..20].fill(0);
        frame[24..26].fill(0);
    }
    let options = header.options.as_bytes();
    if let [68, length, pointer, flags, ..] = options
        && *pointer > 5
        && flags >> 4 == 0
    {
        let times = if flags & 15 == 0 { 4 } else { 8 };
        assert_eq!(usize::from(*pointer), 5 + times, "one slot is filled");
        frame[34 + usize::from(*length) - 4..34 + usize::from(*length)].fill(0);
        frame[24..26].fill(0);
    }
    frame
}

/// Where weft deliberately does not do as Linux does, and why.
const DIFFERENT: &[(&str, &str)] = &[
    ("from the near network's broadcast", "RFC 1122 §3.2.1.3: a broadcast address MUST NOT be a source"),
    ("from 0.1.2.3", "RFC 1122 §3.2.1.3: network 0 MUST NOT be a source but of a host that initialises"),
    ("record route, two", "weft's errors carry no options; Linux's have the record route of the packet"),
];

#[test]
fn weft_forwards_as_linux_does() {
    let golden: Value = serde_json::from_str(include_str!("linux/forward.json")).unwrap();
    let cases = golden["cases"].as_array().unwrap();
    assert!(cases.len() > 60);
    let (mut forwarded, mut told, mut wrong) = (0, 0, Vec::new());
    for case in cases {
        let name = case["name"].as_str().unwrap();
        let expected = |key: &str| -> Vec<Vec<u8>> {
            case[key].as_array().unwrap().iter().map(|frame| normalised(&hex(frame.as_str().unwrap()))).collect()
        };
        let expected = [expected("near"), expected("far")];
        let mut router = router();
        if let Some(mode) = name.strip_prefix("rp_filter ").and_then(|rest| rest.get(..1)) {
            router.set("ip4", "rp_filter", mode.parse::<u64>().unwrap().into());
        }
        let ours = through(&mut router, Frame::ingress(&hex(case["sent"].as_str().unwrap())));
        let ours = ours.map(|frames| frames.iter().map(|frame| normalised(frame)).collect::<Vec<_>>());
        forwarded += ours[1].len();
        told += ours[0].len();
        match DIFFERENT.iter().find(|(of, _)| *of == name) {
            Some((_, why)) => assert_ne!(ours, expected, "{name} is no difference any more: {why}"),
            None if ours != expected => wrong.push(format!("{name}\n  weft  {ours:02x?}\n  linux {expected:02x?}")),
            None => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(forwarded > 25 && told > 15, "{forwarded} forwarded, {told} errors");
}

fn to_far(payload: &[u8]) -> Vec<u8> {
    let packet = ip_packet(header(PEER_IP, FAR_IP, Protocol::UDP), &udp_segment(PEER_IP, 1, FAR_IP, 2, payload));
    ethernet(OUR_MAC, PEER_MAC, EtherType::IPV4, &packet)
}

#[test]
fn nothing_is_forwarded_unless_it_is_switched_on_and_from_where() {
    let mut node = router();
    assert_eq!(through(&mut node, Frame::ingress(&to_far(b"x")))[1].len(), 1);
    node.set("ip4", "forward_from", json!(["eth1"]));
    assert_eq!(through(&mut node, Frame::ingress(&to_far(b"x"))).concat().len(), 0);
    node.set("ip4", "forward_from", json!(["eth1", "eth0"]));
    assert_eq!(through(&mut node, Frame::ingress(&to_far(b"x")))[1].len(), 1);
    node.set("ip4", "forward", false.into());
    assert_eq!(through(&mut node, Frame::ingress(&to_far(b"x"))).concat().len(), 0);
    assert_eq!((node.drops("ip4", Reason::NotForUs), node.counter("ip4", "ForwDatagrams"), node.counter("ip4", "InAddrErrors")), (2, 2, 2));
    let op = Op::Set { target: Selector::parse("ip4"), name: "forward_from".to_owned(), value: json!([7]) };
    assert!(node.control(op).unwrap_err().to_string().contains("write it as [\"eth0\"]"));
}

#[test]
fn a_large_frame_stays_whole_with_its_unfinished_checksum_and_is_cut_to_what_fits() {
    for (segment_bytes, whole, dont_fragment) in [(1372, true, true), (1373, false, false), (1373, false, true)] {
        let mut node = router();
        let payload: Vec<u8> = (0..5000u32).map(|at| (at * 7 / 3) as u8).collect();
        let mut sender = Node::bare(Mode::Inline);
        sender.exec("interfaces", "add", json!({"name": "eth0", "mac": PEER_MAC.to_string(), "gso_max_bytes": 65_536})).unwrap();
        sender.exec("ip4", "address_add", json!({"interface": "eth0", "address": "10.0.0.2/24"})).unwrap();
        sender.exec("ip4", "route_add", json!({"destination": "default", "gateway": "10.0.0.1"})).unwrap();
        sender.exec("arp", "add", json!({"interface": "eth0", "address": "10.0.0.1", "mac": OUR_MAC.to_string()})).unwrap();
        let mut large = datagram(&payload, Ipv4Addr::UNSPECIFIED, 1, FAR_IP, 2);
        large.meta_mut().gso = Some(Gso { segment_bytes, kind: GsoKind::Udp });
        large.meta_mut().dont_fragment = dont_fragment;
        let (sockets, interfaces) = (sender.id("sockets"), sender.id("interfaces"));
        sender.engine.inject(sender.now, sockets, InPort(2), [large]);
        let mut large = sender.take(interfaces).remove(0);
        assert!(matches!(large.meta().checksum, Checksum::Partial { .. }));
        large.meta_mut().interface = ETH0;
        let interfaces = node.id("interfaces");
        node.engine.inject(node.now, interfaces, InPort(0), [large]);
        let out = node.take(interfaces);
        if !whole && dont_fragment {
            let (_, ip, message) = parse_ip(&completed(&out[0]));
            assert_eq!((out.len(), ip.dst, &message[..8]), (1, PEER_IP, &[3, 4, message[2], message[3], 0, 0, 5, 120][..]));
            continue;
        }
        if whole {
            assert_eq!((out.len(), out[0].meta().gso.is_some()), (1, true));
            assert!(matches!(out[0].meta().checksum, Checksum::Partial { .. }));
        } else {
            assert_eq!(out.len(), 4 + 3, "four packets, the first three in two fragments each");
        }
        let mut packets = Vec::new();
        out.into_iter().for_each(|frame| offload::cut(frame, offload::CutChecksums::Complete, &mut packets));
        let mut far = Node::bare(Mode::Inline);
        far.exec("interfaces", "add", json!({"name": "eth0", "mac": FAR_MAC.to_string()})).unwrap();
        far.exec("ip4", "address_add", json!({"interface": "eth0", "address": "10.1.0.2/24"})).unwrap();
        for packet in &packets {
            assert!(packet.len() <= 1414 && parse_ip(&packet.to_vec()).1.ttl == 63);
            far.receive(&packet.to_vec());
        }
        let arrived: Vec<u8> = far.seen("sockets").iter().flat_map(Frame::to_vec).collect();
        assert_eq!(arrived, payload);
    }
}

#[test]
fn a_host_that_does_not_answer_is_told_to_the_sender_as_unreachable() {
    let mut node = router();
    let packet = ip_packet(header(PEER_IP, Ipv4Addr::new(10, 1, 0, 77), Protocol::UDP), &[0; 16]);
    let [_, asked] = through(&mut node, Frame::ingress(&ethernet(OUR_MAC, PEER_MAC, EtherType::IPV4, &packet)));
    assert_eq!(parse_arp(&asked[0]).1.target_ip, Ipv4Addr::new(10, 1, 0, 77));
    let later = node.advance(Duration::from_secs(5));
    let (_, ip, message) = parse_ip(later.last().unwrap());
    assert_eq!((ip.src, ip.dst, &message[..2]), (OUR_IP, PEER_IP, &[3, 1][..]));
}

#[test]
fn a_router_also_puts_together_what_is_for_itself_only() {
    let mut node = router();
    let udp = udp_segment(PEER_IP, 1, FAR_IP, 2, &[5; 100]);
    let one = ipv4::Header { more_fragments: true, identification: 9, ..header(PEER_IP, FAR_IP, Protocol::UDP) };
    let [_, far] = through(&mut node, Frame::ingress(&ethernet(OUR_MAC, PEER_MAC, EtherType::IPV4, &ip_packet(one, &udp[..64]))));
    assert_eq!((far.len(), node.counter("ip4", "ReasmReqds")), (1, 0), "fragments are sent on one by one");
}
