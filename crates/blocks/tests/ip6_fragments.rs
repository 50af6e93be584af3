//! Fragments of IPv6, both ways (RFC 8200 §4.5, RFC 5722, RFC 6946).

use crate::graph6;
use graph6::*;
use std::net::Ipv6Addr;
use weft_core::*;
use weft_wire::Protocol;
use weft_wire::icmpv6::Message;
use weft_wire::ipv6::{Chain, Header};

/// The bytes `from..to` of a payload as a fragment from the peer; `before` stands in front of the fragment header, which `first` announces.
fn piece(whole: &[u8], from: usize, to: usize, identification: u32, (first, before): (Protocol, &[u8])) -> Vec<u8> {
    let more = u16::from(to < whole.len());
    let mut fragment = vec![17, 0];
    fragment.extend_from_slice(&(from as u16 | more).to_be_bytes());
    fragment.extend_from_slice(&identification.to_be_bytes());
    from_peer(header(PEER_IP, OUR_IP, first), &[before, &fragment, &whole[from..to]].concat())
}

const PLAIN: (Protocol, &[u8]) = (Protocol::FRAGMENT, &[]);

fn payload() -> Vec<u8> {
    (0..=255).cycle().take(3000).collect()
}

#[test]
fn a_packet_in_pieces_is_put_together_in_any_order() {
    let mut node = Node::new();
    let payload = payload();
    let whole = udp_segment(PEER_IP, OUR_IP, &payload);
    let cuts = [(0, 1000), (1000, 2000), (2000, whole.len())];
    for (number, order) in [[0, 1, 2], [2, 1, 0], [1, 2, 0]].into_iter().enumerate() {
        for at in order {
            let (from, to) = cuts[at];
            assert!(node.receive(&piece(&whole, from, to, number as u32, PLAIN)).is_empty());
        }
        let seen = node.seen("sockets");
        assert_eq!((seen.len(), seen[0].to_vec() == payload), (1, true), "{order:?}");
        // What is quoted is the whole packet with a header that says so.
        let mut quoted = seen[0].clone();
        let at = quoted.meta().network_at;
        quoted.rewind(at);
        let chain = Chain::parse(&quoted.to_vec()).unwrap();
        assert_eq!((chain.protocol, chain.offset, usize::from(chain.header.payload_len)), (Protocol::UDP, 40, whole.len()));
    }
    // Behind other headers, whose next header is put right.
    let before = (Protocol::HOP_BY_HOP, &[60, 0, 1, 4, 0, 0, 0, 0, 44, 0, 1, 4, 0, 0, 0, 0][..]);
    node.receive(&piece(&whole, 0, 1000, 9, before));
    node.receive(&piece(&whole, 1000, whole.len(), 9, PLAIN));
    let seen = node.seen("sockets").remove(0);
    let mut quoted = seen.clone();
    quoted.rewind(seen.meta().network_at);
    let chain = Chain::parse(&quoted.to_vec()).unwrap();
    assert_eq!((chain.protocol, chain.offset, usize::from(chain.header.payload_len)), (Protocol::UDP, 56, whole.len() + 16));
    assert_eq!((node.counter("ip6", "ReasmReqds"), node.counter("ip6", "ReasmOKs"), node.counter("ip6", "ReasmFails")), (11, 4, 0));
}

#[test]
fn overlaps_discard_the_packet_and_atomic_fragments_are_on_their_own() {
    let mut node = Node::new();
    let whole = udp_segment(PEER_IP, OUR_IP, &payload());
    node.receive(&piece(&whole, 0, 1000, 5, PLAIN));
    // RFC 6946: the same identification, and complete in itself.
    let atomic = udp_segment(PEER_IP, OUR_IP, b"atomic");
    node.receive(&piece(&atomic, 0, atomic.len(), 5, PLAIN));
    assert_eq!(node.seen("sockets")[0].to_vec(), b"atomic");
    node.receive(&piece(&whole, 992, 2000, 5, PLAIN));
    node.receive(&piece(&whole, 2000, whole.len(), 5, PLAIN));
    node.receive(&piece(&whole, 1000, 2000, 5, PLAIN));
    assert!(node.seen("sockets").is_empty(), "RFC 5722 §4: silently discarded");
    assert_eq!((node.counter("ip6", "ReasmOverlaps"), node.drops("ip6", Reason::FragmentOverlap)), (1, 1));
}

#[test]
fn what_is_missing_too_long_is_reported() {
    let mut node = Node::new();
    let whole = udp_segment(PEER_IP, OUR_IP, &payload());
    let first = piece(&whole, 0, 1000, 5, PLAIN);
    node.receive(&first);
    node.receive(&piece(&whole, 1000, 2000, 6, PLAIN));
    assert!(node.advance(Duration::from_millis(59_999)).is_empty());
    let out = node.advance(Duration::from_millis(1));
    let (ip6, message, quoted) = parse_icmp(&out[0]);
    assert_eq!((ip6.dst, message), (PEER_IP, Message::TimeExceeded { code: 1 }));
    assert_eq!(quoted, first[14..], "the first fragment is quoted");
    assert_eq!((out.len(), node.counter("ip6", "ReasmTimeout")), (1, 2), "the packet whose first fragment never came is not");
    assert_eq!(
        node.control(Op::Get { target: Selector::parse("ip6"), name: Some("fragments_memory_used_bytes".into()) }).unwrap()["ip6"],
        0
    );
}

#[test]
fn fragments_that_wait_go_with_the_block_to_its_successor() {
    let mut node = Node::new();
    let payload = payload();
    let whole = udp_segment(PEER_IP, OUR_IP, &payload);
    let memory = |node: &mut Node| {
        let op = Op::Get { target: Selector::parse("ip6"), name: Some("fragments_memory_used_bytes".into()) };
        node.control(op).unwrap()["ip6"].as_u64().unwrap()
    };
    let replace = |node: &mut Node| {
        let export = |node: &Node| node.engine.graph().block(node.id("ip6")).unwrap().export(node.now).unwrap();
        let (before, used) = (export(node), memory(node));
        let op = Op::Replace { name: "ip6".to_owned(), kind: "ip6".to_owned(), parameters: Default::default(), drop_state: false };
        node.control(op).unwrap();
        assert!(export(node) == before && State::from_bytes(&before.to_bytes()).unwrap() == before);
        assert_eq!(memory(node), used);
    };
    let before = (Protocol::HOP_BY_HOP, &[44, 0, 1, 4, 0, 0, 0, 0][..]);
    node.receive(&piece(&whole, 2000, whole.len(), 1, PLAIN));
    node.receive(&piece(&whole, 0, 1000, 1, before));
    let first = piece(&whole, 0, 1000, 2, PLAIN);
    node.receive(&first);
    node.advance(Duration::from_secs(40));
    node.receive(&piece(&whole, 2000, 2800, 2, PLAIN));
    replace(&mut node);
    assert_eq!((memory(&mut node), node.counter("ip6", "ReasmReqds")), (2 * 1024 + 4 * 512 + 1000 + 1008 + 1000 + 800, 4));
    node.receive(&piece(&whole, 1000, 2000, 1, PLAIN));
    let seen = node.seen("sockets");
    assert_eq!((seen.len(), seen[0].to_vec() == payload), (1, true));
    replace(&mut node);
    assert!(node.advance(Duration::from_millis(19_999)).is_empty(), "the time is that of the first fragment");
    let out = node.advance(Duration::from_millis(1));
    let (_, message, quoted) = parse_icmp(&out[0]);
    assert_eq!((out.len(), message, quoted == first[14..]), (1, Message::TimeExceeded { code: 1 }, true));
    let counts = ["ReasmReqds", "ReasmOKs", "ReasmFails", "ReasmTimeout"].map(|name| node.counter("ip6", name));
    assert_eq!((counts, memory(&mut node)), ([5, 1, 1, 1], 0), "they go on from what the blocks before had counted");
}

#[test]
fn bad_fragments_are_reported_or_dropped() {
    let mut node = Node::new();
    let whole = udp_segment(PEER_IP, OUR_IP, &payload());
    let problem = |out: Vec<Vec<u8>>| parse_icmp(&out[0]).1;
    let odd = node.receive(&piece(&whole, 0, 1001, 1, PLAIN));
    assert_eq!(problem(odd), Message::ParameterProblem { code: 0, pointer: 4 });
    let mut beyond = piece(&whole, 1000, 2000, 2, PLAIN);
    beyond[14 + 42..14 + 44].copy_from_slice(&0xfff9u16.to_be_bytes());
    let beyond = node.receive(&beyond);
    assert_eq!(problem(beyond), Message::ParameterProblem { code: 0, pointer: 42 });
    // RFC 7112: headers that go on in the second fragment.
    let split = [&[17, 9, 1, 4, 0, 0, 0, 0][..], &[0; 80]].concat();
    let mut short = vec![60, 0, 0, 1, 0, 0, 0, 7];
    short.extend_from_slice(&split[..16]);
    assert!(node.receive(&from_peer(header(PEER_IP, OUR_IP, Protocol::FRAGMENT), &short)).is_empty());
    let cut = [&[17, 0, 0, 1, 0, 0, 0, 7][..], &[]].concat();
    let out = node.receive(&from_peer(header(PEER_IP, OUR_IP, Protocol::FRAGMENT), &cut));
    assert_eq!(problem(out), Message::ParameterProblem { code: 3, pointer: 0 });
    assert_eq!(node.counter("ip6", "ReasmFailsHeader"), 4);
    // No memory for any.
    node.set("ip6", "fragment_memory_bytes", 0.into());
    node.receive(&piece(&whole, 0, 1000, 8, PLAIN));
    assert_eq!(node.drops("ip6", Reason::FragmentLimit), 1);
    assert!(node.seen("sockets").is_empty());
}

#[test]
fn congestion_marks_of_fragments_mark_the_packet() {
    let mut node = Node::new();
    let whole = udp_segment(PEER_IP, OUR_IP, &payload());
    for (from, to, class) in [(0, 1000, 2), (1000, whole.len(), 3)] {
        let mut frame = piece(&whole, from, to, 5, PLAIN);
        frame[15] |= class << 4;
        node.receive(&frame);
    }
    assert_eq!(node.seen("sockets")[0].meta().tos & 3, 3);
}

#[test]
fn what_may_be_fragmented_is_and_comes_out_whole() {
    let mut node = Node::new();
    node.tell(Change::PathMtu { destination: PEER_IP.into(), mtu: 1300 });
    let payload = payload();
    let out = node.send(&payload, Ipv6Addr::UNSPECIFIED, PEER_IP);
    assert_eq!(out.len(), 3);
    let mut labels = Vec::new();
    for (number, frame) in out.iter().enumerate() {
        let (_, ip6, _) = parse(frame);
        let chain = Chain::parse(&frame[14..]).unwrap();
        let place = chain.fragment.unwrap();
        // RFC 8200 §4.5: "each, except possibly the last … being an integer multiple of 8 octets long".
        assert_eq!((usize::from(place.offset), place.more, chain.protocol), (number * 1248, number < 2, Protocol::UDP));
        assert!(frame.len() - 14 <= 1300);
        labels.push((ip6.flow_label, place.identification, ip6.hop_limit, ip6.src));
    }
    labels.dedup();
    assert_eq!(labels.len(), 1, "all alike");
    assert_eq!((node.counter("ip6", "FragOKs"), node.counter("ip6", "FragCreates")), (1, 3));
    // Another node, which has the peer's addresses, puts them together; the checksum is right.
    let mut peer = Node::bare(false);
    peer.exec("interfaces", "add", serde_json::json!({"name": "eth0", "mac": "02:00:00:00:00:02"})).unwrap();
    peer.exec("ip6", "address_add", serde_json::json!({"interface": "eth0", "address": "fd77::2/64"})).unwrap();
    out.iter().for_each(|frame| drop(peer.receive(frame)));
    assert_eq!(peer.seen("sockets")[0].to_vec(), payload);
    // Others of other packets.
    let again = node.send(&payload, Ipv6Addr::UNSPECIFIED, PEER_IP);
    assert_ne!(Chain::parse(&again[0][14..]).unwrap().fragment.unwrap().identification, labels[0].1);
}

#[test]
fn a_router_passes_fragments_on_as_they_are() {
    let mut node = Node::router();
    let there = ip("fd88::5");
    let fragment = [&[17, 0, 0, 1, 0, 0, 0, 7][..], &[0; 64]].concat();
    let out = node.receive(&from_peer(Header { hop_limit: 9, ..header(PEER_IP, there, Protocol::FRAGMENT) }, &fragment));
    assert_eq!(parse(&out[0]).2, fragment);
    assert_eq!(node.counter("ip6", "ReasmReqds"), 0);
}
