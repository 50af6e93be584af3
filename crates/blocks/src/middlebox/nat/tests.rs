use super::*;
use crate::tool::testing::{Bench, ethernet};
use proptest::prelude::*;
use std::net::SocketAddrV4;
use weft_wire::tcp::{self, Flags};
use weft_wire::{Protocol, checksum, icmpv4, ipv4, udp};

const ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
const INSIDE: InterfaceIndex = InterfaceIndex(2);
const OUTSIDE: InterfaceIndex = InterfaceIndex(3);

fn bench(parameters: &[(&str, Value)]) -> Bench {
    let all: Vec<_> =
        [("outside", "eth1".into()), ("address", ADDRESS.to_string().into())].into_iter().chain(parameters.iter().cloned()).collect();
    let mut bench = Bench::with("nat", &all, crate::link::interfaces::ROW);
    for name in ["eth0", "eth1"] {
        let op =
            Op::Exec { target: Selector::parse("interfaces"), procedure: "add".to_owned(), arguments: serde_json::json!({"name": name}) };
        bench.engine.control(Instant::ZERO, &Message { serial: 9, op }).result.unwrap();
    }
    bench
}

fn end(text: &str) -> SocketAddrV4 {
    text.parse().unwrap()
}

fn header(protocol: Protocol, src: Ipv4Addr, dst: Ipv4Addr, bytes: usize) -> Vec<u8> {
    let total_len = (ipv4::HEADER_LEN + bytes) as u16;
    let mut out = vec![0; ipv4::HEADER_LEN];
    ipv4::Header { total_len, protocol, src, dst, ttl: 60, ..ipv4::Header::default() }.emit(&mut out);
    out
}

/// An IPv4 packet with its checksum.
fn packet(protocol: Protocol, from: SocketAddrV4, to: SocketAddrV4, transport: &[u8], checksum_at: usize) -> Vec<u8> {
    let mut transport = transport.to_vec();
    let pseudo = match protocol {
        Protocol::ICMP => checksum::Sum::new(),
        _ => checksum::pseudo_v4(*from.ip(), *to.ip(), protocol.0, transport.len() as u32),
    };
    let sum = pseudo.add_bytes(&transport).finish();
    transport[checksum_at..checksum_at + 2].copy_from_slice(&sum.to_be_bytes());
    [header(protocol, *from.ip(), *to.ip(), transport.len()), transport].concat()
}

fn datagram(from: &str, to: &str) -> Vec<u8> {
    let (from, to) = (end(from), end(to));
    let mut bytes = vec![7; udp::LEN + 5];
    udp::Header { src_port: from.port(), dst_port: to.port(), length: 13, checksum: 0 }.emit(&mut bytes);
    packet(Protocol::UDP, from, to, &bytes, udp::CHECKSUM_OFFSET)
}

fn segment(from: &str, to: &str, flags: Flags) -> Vec<u8> {
    let (from, to) = (end(from), end(to));
    let mut bytes = vec![0; tcp::HEADER_LEN];
    tcp::Segment { src_port: from.port(), dst_port: to.port(), flags, ..tcp::Segment::default() }.emit(&mut bytes);
    bytes.extend([3; 7]);
    packet(Protocol::TCP, from, to, &bytes, tcp::CHECKSUM_OFFSET)
}

fn icmp(from: &str, to: &str, kind: u8, rest: [u8; 4], data: &[u8]) -> Vec<u8> {
    let bytes = [&[kind, 1, 0, 0][..], &rest, data].concat();
    packet(Protocol::ICMP, SocketAddrV4::new(from.parse().unwrap(), 0), SocketAddrV4::new(to.parse().unwrap(), 0), &bytes, 2)
}

/// Sends a packet through one of both ways; what comes out of it.
fn pass(bench: &mut Bench, now: Instant, interface: InterfaceIndex, port: u8, packet: &[u8]) -> Option<Vec<u8>> {
    let mut frame = ethernet(0x0800, packet);
    frame.meta_mut().interface = interface;
    bench.engine.inject(now, bench.tool, InPort(port), [frame]);
    let frame = bench.taken().pop()?;
    assert!(offload::verify(&frame), "{frame:?}");
    Some(frame.to_vec().split_off(14))
}

fn leaves(bench: &mut Bench, secs: u64, packet: &[u8]) -> Option<Vec<u8>> {
    pass(bench, Instant::from_millis(secs * 1000), OUTSIDE, 1, packet)
}

fn arrives(bench: &mut Bench, secs: u64, packet: &[u8]) -> Option<Vec<u8>> {
    pass(bench, Instant::from_millis(secs * 1000), OUTSIDE, 0, packet)
}

/// Both ends of a packet with ports.
fn ends(packet: &[u8]) -> (String, String) {
    let (header, length) = ipv4::Header::parse(packet).unwrap();
    let port = |at: usize| u16::from_be_bytes([packet[length + at], packet[length + at + 1]]);
    (SocketAddrV4::new(header.src, port(0)).to_string(), SocketAddrV4::new(header.dst, port(2)).to_string())
}

#[test]
fn hosts_share_the_address_and_answers_find_them() {
    let mut bench = bench(&[]);
    let (resolver, other) = ("192.0.2.9:53", "192.0.2.10:53");
    let first = leaves(&mut bench, 0, &datagram("10.0.0.1:5000", resolver)).unwrap();
    assert_eq!(ends(&first), ("198.51.100.1:5000".into(), resolver.into()), "its own port");
    let second = ends(&leaves(&mut bench, 0, &datagram("10.0.0.2:5000", resolver)).unwrap()).0;
    let port = end(&second).port();
    assert!(port >= 49_152, "{second}");
    assert_eq!(ends(&leaves(&mut bench, 1, &datagram("10.0.0.2:5000", resolver)).unwrap()).0, second, "the same as before");
    assert_eq!(ends(&leaves(&mut bench, 1, &datagram("10.0.0.2:5000", other)).unwrap()).0, "198.51.100.1:5000", "free towards another");
    bench.replace("nat");
    let answer = arrives(&mut bench, 2, &datagram(resolver, &second)).unwrap();
    assert_eq!(ends(&answer), (resolver.into(), "10.0.0.2:5000".into()));
    assert_eq!(ends(&arrives(&mut bench, 2, &datagram(resolver, "198.51.100.1:5000")).unwrap()).1, "10.0.0.1:5000");
    assert_eq!(arrives(&mut bench, 2, &datagram("192.0.2.11:53", &second)), None, "nobody asked there");
    assert_eq!(arrives(&mut bench, 2, &datagram(resolver, "10.0.0.1:5000")), None, "nor may anybody know the hosts");
    assert_eq!((bench.drops(Reason::Filtered), bench.get("mappings")), (2, 3.into()));
    assert_eq!(bench.counters(), [0, 4, 2, 0, 3, 2, 0, 0]);
}

#[test]
fn a_mapping_stays_as_long_as_its_kind() {
    let mut bench = bench(&[]);
    let (host, server, shared) = ("10.0.0.1:5000", "192.0.2.9:80", "198.51.100.1:5000");
    leaves(&mut bench, 0, &datagram(host, server)).unwrap();
    assert!(arrives(&mut bench, 299, &datagram(server, shared)).is_some());
    assert!(arrives(&mut bench, 598, &datagram(server, shared)).is_some(), "kept by what arrived");
    assert!(arrives(&mut bench, 898, &datagram(server, shared)).is_none());
    // A connection that begins, is there, and has ended.
    leaves(&mut bench, 1000, &segment(host, server, Flags::SYN)).unwrap();
    assert!(arrives(&mut bench, 1239, &segment(server, shared, Flags::SYN | Flags::ACK)).is_some());
    leaves(&mut bench, 1240, &segment(host, server, Flags::ACK)).unwrap();
    assert!(arrives(&mut bench, 1240 + 7439, &segment(server, shared, Flags::ACK | Flags::FIN)).is_some());
    assert!(arrives(&mut bench, 9000, &segment(server, shared, Flags::ACK)).is_some(), "closed on one side");
    leaves(&mut bench, 9001, &segment(host, server, Flags::ACK | Flags::FIN)).unwrap();
    assert!(arrives(&mut bench, 9240, &segment(server, shared, Flags::ACK)).is_some());
    assert!(arrives(&mut bench, 9480, &segment(server, shared, Flags::ACK)).is_none());
    assert_eq!(bench.counters()[4], 2);
}

#[test]
fn echoes_are_told_apart_by_their_identifiers() {
    let mut bench = bench(&[]);
    let echo = |from: &str, kind, to: &str| icmp(from, to, kind, [0x12, 0x34, 0, 1], b"ping");
    let (request, reply) = (icmpv4::kind::ECHO_REQUEST, icmpv4::kind::ECHO_REPLY);
    let first = leaves(&mut bench, 0, &echo("10.0.0.1", request, "192.0.2.9")).unwrap();
    assert_eq!((&first[12..16], &first[24..26]), (&ADDRESS.octets()[..], &[0x12, 0x34][..]));
    let second = leaves(&mut bench, 0, &echo("10.0.0.2", request, "192.0.2.9")).unwrap();
    assert_ne!(second[24..26], [0x12, 0x34]);
    let answer = icmp("192.0.2.9", "198.51.100.1", reply, [second[24], second[25], 0, 1], b"ping");
    let answer = arrives(&mut bench, 59, &answer).unwrap();
    assert_eq!((&answer[16..20], &answer[24..26]), (&[10, 0, 0, 2][..], &[0x12, 0x34][..]));
    assert!(arrives(&mut bench, 60, &echo("192.0.2.9", reply, "198.51.100.1")).is_none(), "after its time");
    assert!(arrives(&mut bench, 60, &echo("192.0.2.9", request, "198.51.100.1")).is_none(), "and nobody may ask");
}

/// Is a quoted packet right in itself? A quote of 8 bytes behind the header has no whole segment.
fn is_right(quote: &[u8]) -> bool {
    ipv4::verify_checksum(quote) && (quote.len() < 33 || offload::verify(&Frame::ingress(quote)))
}

#[test]
fn errors_quote_what_their_receiver_knows() {
    let mut bench = bench(&[]);
    let (host, server, shared) = ("10.0.0.1:5000", "192.0.2.9:80", "198.51.100.1:5000");
    let unreachable = icmpv4::kind::DESTINATION_UNREACHABLE;
    for make in [|from: &str, to: &str| datagram(from, to), |from: &str, to: &str| segment(from, to, Flags::ACK)] {
        let left = leaves(&mut bench, 0, &make(host, server)).unwrap();
        for quoted in [28, left.len()] {
            // A router beyond says that the datagram did not arrive.
            let error = arrives(&mut bench, 1, &icmp("203.0.113.5", "198.51.100.1", unreachable, [0; 4], &left[..quoted])).unwrap();
            assert_eq!(error[16..20], [10, 0, 0, 1]);
            assert!(is_right(&error[28..]) && error[28..] == make(host, server)[..quoted]);
            // The host says that it does not want the answer.
            let answer = arrives(&mut bench, 2, &make(server, shared)).unwrap();
            let error = leaves(&mut bench, 2, &icmp("10.0.0.1", "192.0.2.9", unreachable, [0; 4], &answer[..quoted])).unwrap();
            assert_eq!(error[12..16], ADDRESS.octets());
            assert!(is_right(&error[28..]) && error[28..] == make(server, shared)[..quoted]);
        }
    }
    assert_eq!(bench.counters()[3], 8);
    // About what nobody sent, about a part of a packet, and with less than a header.
    let other = datagram("198.51.100.1:6000", server);
    let mut part = datagram(shared, server);
    part[7] = 1;
    for quote in [&other[..], &part, &part[..19], &datagram(shared, server)[..27]] {
        assert!(arrives(&mut bench, 3, &icmp("203.0.113.5", "198.51.100.1", unreachable, [0; 4], quote)).is_none());
    }
}

#[test]
fn checksums_that_are_missing_or_not_computed_yet_stay_so() {
    let mut bench = bench(&[]);
    let mut without = datagram("10.0.0.1:5000", "192.0.2.9:53");
    without[26..28].fill(0);
    assert_eq!(leaves(&mut bench, 0, &without).unwrap()[26..28], [0, 0]);
    let large = crate::middlebox::testing::Tcp { ethernet: true, payload: vec![5; 3000], gso: Some(1000), ..Default::default() };
    let mut frame = large.frame();
    frame.meta_mut().interface = OUTSIDE;
    bench.engine.inject(Instant::ZERO, bench.tool, InPort(1), [frame]);
    let frame = bench.taken().pop().unwrap();
    assert!(frame.meta().gso.is_some() && matches!(frame.meta().checksum, Checksum::Partial { .. }));
    let read = crate::middlebox::testing::read(frame);
    assert_eq!((read.source.to_string(), read.payload), ("198.51.100.1:40000".into(), large.payload));
}

#[test]
fn places_and_ports_are_bounded() {
    let mut full = bench(&[("mappings_max", 1.into())]);
    assert!(leaves(&mut full, 0, &datagram("10.0.0.1:5000", "192.0.2.9:53")).is_some());
    assert!(leaves(&mut full, 299, &datagram("10.0.0.1:5001", "192.0.2.9:53")).is_none());
    assert_eq!((full.drops(Reason::TableFull), full.counters()[NO_PLACE]), (1, 1));
    assert!(leaves(&mut full, 300, &datagram("10.0.0.1:5001", "192.0.2.9:53")).is_some(), "the first one's time is over");
    let mut few = bench(&[("port_min", 60_000.into()), ("port_max", 60_001.into())]);
    let left = |bench: &mut Bench, host: u8| leaves(bench, 0, &datagram(&format!("10.0.0.{host}:60000"), "192.0.2.9:53"));
    let ports = [1, 2, 3].map(|host| left(&mut few, host).map(|packet| ends(&packet).0));
    assert_eq!(ports, [Some("198.51.100.1:60000".into()), Some("198.51.100.1:60001".into()), None]);
    few.set("address", "198.51.100.2").unwrap();
    assert_eq!(few.get("mappings"), 0, "of another address");
    assert!(few.set("address", "198.51.100").unwrap_err().to_string().contains("is no IPv4 address"));
}

#[test]
fn what_is_not_its_affair_passes_and_what_it_cannot_do_does_not() {
    let mut bench = bench(&[]);
    let inside = datagram("10.0.0.1:5000", "192.0.2.9:53");
    for port in [0, 1] {
        assert_eq!(pass(&mut bench, Instant::ZERO, INSIDE, port, &inside).as_ref(), Some(&inside), "of another interface");
    }
    let group = datagram("10.0.0.1:5000", "224.0.0.251:5353");
    assert_eq!((leaves(&mut bench, 0, &group), arrives(&mut bench, 0, &group)), (Some(group.clone()), Some(group)));
    let mut six = ethernet(0x86dd, &[0x60; 50]);
    six.meta_mut().interface = OUTSIDE;
    bench.engine.inject(Instant::ZERO, bench.tool, InPort(0), [six]);
    assert_eq!(bench.taken().len(), 1);
    let tunnel = |src: &str| [header(Protocol::GRE, src.parse().unwrap(), Ipv4Addr::new(192, 0, 2, 9), 8), vec![0; 8]].concat();
    assert!(leaves(&mut bench, 0, &tunnel("198.51.100.1")).is_some(), "the node's own");
    assert_eq!(bench.counters(), [6, 0, 0, 0, 0, 0, 0, 0]);
    let mut fragment = inside.clone();
    fragment[6] = 0x20;
    let mut longer = inside.clone();
    longer[3] += 1;
    for (at, packet) in [tunnel("10.0.0.1"), fragment, longer].iter().enumerate() {
        assert_eq!((leaves(&mut bench, 0, packet), bench.counters()[UNSUPPORTED]), (None, at as u64 + 1));
    }
    bench.set("outside", "").unwrap();
    assert_eq!(leaves(&mut bench, 0, &inside), Some(inside));
}

proptest! {
    /// Packets of any bytes harm nobody.
    #[test]
    fn no_bytes_make_it_panic(
        changes in proptest::collection::vec((0usize..80, any::<u8>()), 0..6),
        cut in 0usize..80,
        arriving in any::<bool>(),
        which in 0usize..4,
    ) {
        let mut bench = bench(&[]);
        let left = segment("10.0.0.1:5000", "192.0.2.9:53", Flags::SYN);
        let error = icmp("192.0.2.9", "198.51.100.1", 3, [0; 4], &leaves(&mut bench, 0, &left).unwrap());
        let mut packet = [left, error, datagram("192.0.2.9:53", "198.51.100.1:5000"), vec![0x45; 70]][which].clone();
        for (at, byte) in changes {
            if let Some(place) = packet.get_mut(at) {
                *place = byte;
            }
        }
        packet.truncate(cut.max(1));
        let mut frame = ethernet(0x0800, &packet);
        frame.meta_mut().interface = OUTSIDE;
        bench.engine.inject(Instant::ZERO, bench.tool, InPort(u8::from(!arriving)), [frame]);
    }
}
