//! What a fuzzer runs, and `cargo test` with the corpus: reads bytes as a format
//! and asserts that what was read survives being written and read again. Not part
//! of the interface.
//!
//! A target never asserts that bytes are accepted, only what follows if they are.

use core::fmt::Debug;
use core::net::Ipv6Addr;

use crate::ipv6::extension;
use crate::tcp::mptcp;
use crate::{Error, Protocol, arp, checksum, dhcp, ethernet, icmpv4, icmpv6, igmp, ipv4, ipv6, tcp, udp};

/// A target: panics where the formats contradict themselves.
pub type Target = fn(&[u8]);

/// All targets by the name of their corpus.
pub const TARGETS: &[(&str, Target)] = &[
    ("arp", arp),
    ("checksum", checksum),
    ("dhcp", dhcp),
    ("ethernet", ethernet),
    ("frame", frame),
    ("icmpv4", icmpv4),
    ("icmpv6", icmpv6),
    ("igmp", igmp),
    ("ipv4", ipv4),
    ("ipv6", ipv6),
    ("mptcp", mptcp),
    ("tcp", tcp),
    ("udp", udp),
];

/// Writes `value` into exactly `len` bytes that were not zero before.
fn emitted(len: usize, emit: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut bytes = vec![0xa5; len];
    emit(&mut bytes);
    bytes
}

fn same<T: PartialEq + Debug>(again: Result<T, Error>, value: T) {
    assert_eq!(again, Ok(value));
}

/// A whole frame, all the way down.
pub fn frame(bytes: &[u8]) {
    ethernet(bytes);
    let Ok((header, len)) = ethernet::Header::parse(bytes) else {
        return;
    };
    let payload = &bytes[len..];
    match header.ether_type {
        ethernet::EtherType::ARP => arp(payload),
        ethernet::EtherType::IPV4 => ipv4(payload),
        ethernet::EtherType::IPV6 => ipv6(payload),
        _ => {}
    }
}

/// An Ethernet header.
pub fn ethernet(bytes: &[u8]) {
    if let Ok((header, len)) = ethernet::Header::parse(bytes) {
        assert_eq!(header.len(), len);
        let again = emitted(len, |b| header.emit(b));
        assert_eq!(again, bytes[..len]);
        same(ethernet::Header::parse(&again), (header, len));
        // What people read can be read back.
        same(header.dst.to_string().parse(), header.dst);
        assert_eq!(header.dst.is_broadcast(), header.dst.to_string() == "ff:ff:ff:ff:ff:ff");
        assert_eq!(format!("{:?}", header.ether_type), format!("EtherType({})", header.ether_type));
    }
    // Nor does text that is no address do harm.
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(20)]);
    if let Ok(mac) = text.parse::<ethernet::Mac>() {
        assert_eq!(mac.to_string(), text.to_ascii_lowercase());
    }
}

/// An ARP packet.
pub fn arp(bytes: &[u8]) {
    if let Ok(packet) = arp::Packet::parse(bytes) {
        let again = emitted(arp::LEN, |b| packet.emit(b));
        assert_eq!(again, bytes[..arp::LEN]);
        same(arp::Packet::parse(&again), packet);
    }
}

/// An IPv4 packet and what it holds.
pub fn ipv4(bytes: &[u8]) {
    let Ok((header, len)) = ipv4::Header::parse(bytes) else {
        assert!(bytes.len() < ipv4::HEADER_LEN || !is_sound_ipv4(bytes));
        return;
    };
    assert_eq!(header.header_len(), len);
    let again = emitted(len, |b| header.emit(b));
    assert!(ipv4::verify_checksum(&again));
    same(ipv4::Header::parse(&again), (header.clone(), len));
    assert_eq!(usize::from(header.total_len), len + header.payload_len());
    assert_eq!(header.tos, header.dscp() << 2 | header.ecn() as u8);
    assert_eq!(header.protocol.name().map_or(header.protocol.0.to_string(), str::to_owned), header.protocol.to_string());
    // An option takes two bytes at least.
    assert!(header.options.iter().count() <= ipv4::OPTIONS_LEN_MAX / 2);
    if header.fragment_offset == 0
        && let Ok(packet_len) = header.check_total_len(bytes.len())
    {
        transport(header.protocol, &bytes[len..packet_len]);
    }
}

/// Version, header length and total length are right.
fn is_sound_ipv4(bytes: &[u8]) -> bool {
    let header_len = usize::from(bytes[0] & 0xf) * 4;
    let total_len = usize::from(u16::from_be_bytes([bytes[2], bytes[3]]));
    bytes[0] >> 4 == 4 && (20..=bytes.len()).contains(&header_len) && total_len >= header_len
}

/// An IPv6 packet and what it holds.
pub fn ipv6(bytes: &[u8]) {
    let Ok((header, len)) = ipv6::Header::parse(bytes) else {
        return;
    };
    let again = emitted(len, |b| header.emit(b));
    assert_eq!(again, bytes[..len]);
    same(ipv6::Header::parse(&again), (header, len));
    assert_eq!(header.header_len(), len);
    assert_eq!(header.traffic_class, header.dscp() << 2 | header.ecn() as u8);

    let mut extensions = ipv6::Extensions::new(header.next_header, &bytes[len..]);
    loop {
        let (before, protocol) = (extensions.offset(), extensions.next_header());
        match extensions.next() {
            Some(Ok(header)) => {
                assert_eq!(header.protocol(), protocol);
                assert_eq!(extensions.offset() - before, header.len());
                extension(&header, extensions.next_header());
            }
            Some(Err(_)) => {
                assert!(extensions.next().is_none());
                return;
            }
            None => break,
        }
    }
    assert_eq!(extensions.rest(), &bytes[len + extensions.offset()..]);
    transport(extensions.next_header(), extensions.rest());
}

fn extension(header: &ipv6::Extension<'_>, next: Protocol) {
    let mut again = vec![0xa5; header.len()];
    assert_eq!(header.emit(next, &mut again), Ok(()));
    let mut reader = ipv6::Extensions::new(header.protocol(), &again);
    assert_eq!(reader.next(), Some(Ok(*header)));
    assert_eq!(reader.next_header(), next);
    if let extension::Extension::HopByHop(options) | extension::Extension::DestinationOptions(options) = header {
        for (offset, _) in options.iter().map_while(Result::ok) {
            assert!(offset < header.len());
        }
    }
}

fn transport(protocol: Protocol, bytes: &[u8]) {
    match protocol {
        Protocol::ICMP => icmpv4(bytes),
        Protocol::IGMP => igmp(bytes),
        Protocol::TCP => tcp(bytes),
        Protocol::UDP => udp(bytes),
        Protocol::ICMPV6 => icmpv6(bytes),
        _ => {}
    }
}

/// An ICMPv4 message.
pub fn icmpv4(bytes: &[u8]) {
    if let Ok((message, len)) = icmpv4::Message::parse(bytes) {
        assert_eq!(message.header_len(), len);
        let mut again = bytes.to_vec();
        message.emit(&mut again);
        assert!(icmpv4::verify_checksum(&again));
        assert_eq!(again[len..], bytes[len..]);
        same(icmpv4::Message::parse(&again), (message, len));
    }
}

/// An ICMPv6 message with ND's options and MLD's lists.
pub fn icmpv6(bytes: &[u8]) {
    let Ok((message, len)) = icmpv6::Message::parse(bytes) else {
        return;
    };
    assert_eq!(message.header_len(), len);
    let (src, dst) = (Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED);
    let mut again = bytes.to_vec();
    message.emit(src, dst, &mut again);
    assert!(icmpv6::verify_checksum(src, dst, &again));
    same(icmpv6::Message::parse(&again), (message, len));
    let rest = &bytes[len..];
    match message {
        icmpv6::Message::Nd(_) => {
            for option in icmpv6::nd::options(rest).map_while(Result::ok) {
                let mut again = vec![0xa5; option.len()];
                assert_eq!(option.emit(&mut again), Ok(()));
                assert_eq!(icmpv6::nd::options(&again).next(), Some(Ok(option)));
            }
        }
        icmpv6::Message::Mld(icmpv6::mld::Message::ReportV2 { records }) => {
            for record in icmpv6::mld::records(rest, records).map_while(Result::ok) {
                let mut again = vec![0xa5; record.len()];
                assert_eq!(record.emit(&mut again), Ok(()));
                same(icmpv6::mld::Record::parse(&again), (record, again.len()));
            }
        }
        icmpv6::Message::Mld(icmpv6::mld::Message::Query { v2: Some(query), .. }) => {
            if let Ok(sources) = icmpv6::mld::sources(rest, query.sources) {
                assert_eq!(sources.iter().count(), usize::from(query.sources));
            }
        }
        _ => {}
    }
}

/// An IGMP message with its lists.
pub fn igmp(bytes: &[u8]) {
    let Ok((message, len)) = igmp::Message::parse(bytes) else {
        return;
    };
    assert_eq!(message.header_len(), len);
    let mut again = bytes.to_vec();
    message.emit(&mut again);
    assert!(igmp::verify_checksum(&again));
    same(igmp::Message::parse(&again), (message, len));
    let rest = &bytes[len..];
    match message {
        igmp::Message::ReportV3 { records } => {
            for record in igmp::records(rest, records).map_while(Result::ok) {
                let mut again = vec![0xa5; record.len()];
                assert_eq!(record.emit(&mut again), Ok(()));
                same(igmp::Record::parse(&again), (record, again.len()));
            }
        }
        igmp::Message::Query { v3: Some(query), .. } => {
            if let Ok(sources) = igmp::sources(rest, query.sources) {
                assert_eq!(sources.iter().count(), usize::from(query.sources));
            }
        }
        _ => {}
    }
}

/// A UDP header.
pub fn udp(bytes: &[u8]) {
    if let Ok((header, len)) = udp::Header::parse(bytes) {
        let again = emitted(len, |b| header.emit(b));
        assert_eq!(again, bytes[..len]);
        if let Ok(payload_len) = header.payload_len(bytes.len()) {
            assert!(len + payload_len <= bytes.len());
        }
        same(udp::Header::parse(&again), (header, len));
    }
}

/// A DHCP message with its options.
pub fn dhcp(bytes: &[u8]) {
    let Ok((header, len)) = dhcp::Header::parse(bytes) else {
        return;
    };
    let again = emitted(len, |b| header.emit(b));
    same(dhcp::Header::parse(&again), (header, len));
    let Ok(options) = dhcp::Options::parse(bytes) else {
        return;
    };
    // Every option again, each in one piece: whoever reads them finds the same values.
    let mut again = [again, vec![0xa5; bytes.len()]].concat();
    let mut writer = dhcp::Writer::new(&mut again[len..]);
    let mut room = vec![0; bytes.len()];
    let mut codes: Vec<u8> = options.iter().map(|(code, _)| code).filter(|code| *code != dhcp::code::OVERLOAD).collect();
    codes.sort_unstable();
    codes.dedup();
    for code in &codes {
        if let Ok(Some(value)) = options.value(*code, &mut room) {
            assert_eq!(writer.put(*code, value), Ok(()), "what fitted into a message fits again");
            dhcp_value(value);
        }
    }
    let written = len + writer.end();
    let (mut before, mut after) = (vec![0; bytes.len()], vec![0; bytes.len()]);
    let read = dhcp::Options::parse(&again[..written]);
    for code in codes {
        let found = read.as_ref().map(|read| read.value(code, &mut after));
        assert_eq!(found, Ok(options.value(code, &mut before)));
    }
}

/// A value read as each of the lists that there are.
fn dhcp_value(value: &[u8]) {
    if let Ok(addresses) = dhcp::addresses(value) {
        assert_eq!(addresses.len() * 4, value.len());
    }
    for route in dhcp::routes(value).map_while(Result::ok) {
        let again = emitted(route.len(), |b| route.emit(b));
        same(dhcp::Route::parse(&again), (route, again.len()));
    }
}

/// A TCP header with its options.
pub fn tcp(bytes: &[u8]) {
    let Ok((segment, len)) = tcp::Segment::parse(bytes) else {
        return;
    };
    assert!((tcp::HEADER_LEN..=tcp::HEADER_LEN_MAX).contains(&len));
    // Whatever fitted into a header fits again.
    assert!(segment.options.fits());
    let again_len = segment.header_len();
    let again = emitted(again_len, |b| segment.emit(b));
    assert_eq!(tcp::Options::validate(&again[tcp::HEADER_LEN..]), Ok(()));
    same(tcp::Segment::parse(&again), (segment.clone(), again_len));
    // Of two numbers one is the later, wherever they wrap; none when they are half of the space apart.
    let (seq, ack) = (segment.seq, segment.ack);
    if seq.since(ack) != 1 << 31 {
        assert_eq!((seq.max(ack), seq.min(ack)), if seq.gt(ack) { (seq, ack) } else { (ack, seq) });
    }
    for (kind, data) in segment.options.others() {
        if kind == tcp::kind::MPTCP {
            mptcp(data);
        }
    }
    assert!(segment.options.mptcp().count() <= segment.options.others().count());
}

/// The data of an MPTCP option.
pub fn mptcp(bytes: &[u8]) {
    if let Ok(message) = mptcp::Message::parse(bytes) {
        let again = message.to_data();
        assert_eq!(again.len(), bytes.len());
        assert_eq!(message.len(), bytes.len() + 2);
        same(mptcp::Message::parse(&again), message);
    }
}

/// Sums in parts, and updates; the first byte says where to cut.
pub fn checksum(bytes: &[u8]) {
    let Some((cut, bytes)) = bytes.split_first() else {
        return;
    };
    let plain = plain_sum(bytes);
    let cut = usize::from(*cut) % (bytes.len() + 1);
    let (first, second) = bytes.split_at(cut);
    let sum = checksum::Sum::new().add_bytes(first).add_bytes(second);
    assert_eq!(sum.fold(), plain);
    assert_eq!(checksum::of(bytes), !plain);
    let Some((&[a, b, c, d], rest)) = bytes.split_first_chunk() else {
        return;
    };
    let word = u16::from_be_bytes([a, b]);
    let changed = checksum::Sum::new().add_u16(word).add_u16(0x1234).add_bytes(rest);
    let before = u16::from_be_bytes([c, d]);
    let updated = checksum::update_u16(!plain, before, 0x1234);
    // RFC 1624 §3: the two zeroes of ones' complement are the same number.
    assert_eq!(updated % 0xffff, changed.finish() % 0xffff);
}

/// RFC 1071 §4.1, word by word.
fn plain_sum(bytes: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for pair in bytes.chunks(2) {
        let low = pair.get(1).copied().unwrap_or(0);
        sum += u32::from(u16::from_be_bytes([pair[0], low]));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
