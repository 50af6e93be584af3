//! Whatever comes in: no panic, every frame is accounted for, and the node answers a ping afterwards.

use crate::common;
use common::*;
use proptest::prelude::*;
use weft_core::*;
use weft_wire::Protocol;
use weft_wire::ethernet::{EtherType, Mac};
use weft_wire::icmpv4::Message;

/// Well-formed frames of every kind that the graph knows, to be spoiled.
fn seeds() -> Vec<Vec<u8>> {
    let udp = udp_segment(PEER_IP, 1000, OUR_IP, 53, b"hello");
    let own = ip_packet(header(OUR_IP, PEER_IP, Protocol::UDP), &udp_segment(OUR_IP, 53, PEER_IP, 1000, b"hello"));
    let options = weft_wire::ipv4::Options::from_bytes(&[7, 7, 4, 0, 0, 0, 0, 148, 4, 0, 0]).unwrap();
    vec![
        arp_request(Mac::BROADCAST, (PEER_MAC, PEER_IP), OUR_IP),
        arp_reply((PEER_MAC, PEER_IP), (OUR_MAC, OUR_IP)),
        from_peer(header(PEER_IP, OUR_IP, Protocol::UDP), &udp),
        from_peer(weft_wire::ipv4::Header { options, ..header(PEER_IP, OUR_IP, Protocol::UDP) }, &udp),
        from_peer(header(PEER_IP, OUR_IP, Protocol::ICMP), &ping(PEER_IP, OUR_IP, &[3; 300])[20..]),
        from_peer(header(PEER_IP, OUR_IP, Protocol::ICMP), &icmp(Message::DestinationUnreachable { code: 3, mtu: 0 }, &own)),
        from_peer(header(PEER_IP, OUR_IP, Protocol::GRE), &[1; 40]),
        from_peer(weft_wire::ipv4::Header { more_fragments: true, ..header(PEER_IP, OUR_IP, Protocol::UDP) }, &udp[..8]),
        from_peer(weft_wire::ipv4::Header { fragment_offset: 8, ..header(PEER_IP, OUR_IP, Protocol::UDP) }, &udp[8..]),
        from_peer(header(PEER_IP, std::net::Ipv4Addr::new(192, 0, 2, 1), Protocol::UDP), &[7; 1400]),
        from_peer(header(PEER_IP, OUR_IP, Protocol::ICMP), &icmp(Message::DestinationUnreachable { code: 4, mtu: 600 }, &own)),
        from_peer(header(PEER_IP, OUR_IP, Protocol::ICMP), &icmp(Message::Redirect { code: 1, gateway: PEER_IP }, &own)),
        ethernet(OUR_MAC, PEER_MAC, EtherType::VLAN, &[0, 0, 8, 0, 0x45]),
    ]
}

fn still_answers(node: &mut Node) {
    node.exec("arp", "add", serde_json::json!({"interface": "eth0", "address": "10.0.0.2", "mac": PEER_MAC.to_string()})).unwrap();
    // Packets that waited for the peer go now.
    node.wire();
    let request = from_peer(header(PEER_IP, OUR_IP, Protocol::ICMP), &ping(PEER_IP, OUR_IP, b"still there?")[20..]);
    assert_eq!(node.receive(&request).len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn spoiled_frames(
        spoiled in proptest::collection::vec(
            (any::<prop::sample::Index>(), proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
             any::<Option<prop::sample::Index>>(), any::<prop::sample::Index>(), any::<bool>(), any::<bool>()),
            1..20),
        listening in any::<bool>(),
    ) {
        let mut node = Node::new();
        node.set("sockets", "listening", listening.into());
        node.set("ip4", "forward", (!listening).into());
        let seeds = seeds();
        for (seed, changes, cut, split, trusted, gso) in spoiled {
            let mut bytes = seed.get(&seeds).clone();
            for (at, value) in changes {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len()));
            }
            // The head may end anywhere: headers then lie across pieces.
            let at = split.index(bytes.len() + 1);
            let mut frame = Frame::ingress_parts(&bytes[..at], Bytes::copy_from_slice(&bytes[at..]));
            frame.meta_mut().interface = ETH0;
            if trusted {
                frame.meta_mut().checksum = Checksum::Partial { offset: u16::from(bytes.first().copied().unwrap_or(0)) * 257 };
            }
            if gso {
                let segment_bytes = u16::from(bytes.last().copied().unwrap_or(0));
                frame.meta_mut().gso = Some(Gso { segment_bytes, kind: GsoKind::Udp });
            }
            node.receive_frame(frame);
            node.advance(Duration::from_millis(700));
        }
        still_answers(&mut node);
    }

    #[test]
    fn random_bytes(
        packets in proptest::collection::vec((0u8..8, proptest::collection::vec(any::<u8>(), 0..120)), 1..20),
    ) {
        let mut node = Node::new();
        for (port, bytes) in packets {
            let blocks = ["interfaces", "ether", "arp", "ip4", "icmp4", "udp", "icmp4", "udp"];
            let inputs = [0, 0, 1, 0, 0, 0, 1, 2];
            let mut frame = Frame::ingress(&bytes);
            frame.meta_mut().interface = ETH0;
            frame.meta_mut().error = Some(IcmpError { kind: IcmpErrorKind::HostUnreachable, from: PEER_IP.into() });
            if bytes.len() % 2 == 1 {
                frame.meta_mut().direction = Direction::Egress;
            }
            let id = node.id(blocks[usize::from(port)]);
            node.engine.inject(node.now, id, InPort(inputs[usize::from(port)]), [frame]);
            node.settle();
        }
        still_answers(&mut node);
    }
}
