//! Every frame of the captures is read, written back byte for byte with checksums
//! computed anew, and compared with what etherparse sees in it.

mod support;

use std::collections::BTreeMap;
use std::net::IpAddr;

use etherparse::{LinkExtSlice, LinkSlice, NetSlice, SlicedPacket, TransportSlice};
use weft_wire::ethernet::EtherType;
use weft_wire::icmpv6::{mld, nd};
use weft_wire::tcp::mptcp;
use weft_wire::{Protocol, arp, checksum, ethernet, icmpv4, icmpv6, igmp, ipv4, ipv6, tcp, udp};

/// What was seen, by name; so that the test cannot pass for lack of frames.
type Seen = BTreeMap<String, usize>;

fn saw(seen: &mut Seen, what: impl Into<String>) {
    *seen.entry(what.into()).or_default() += 1;
}

/// Reads a frame layer by layer and writes each header into a copy whose header
/// bytes have been destroyed; returns the copy.
fn rewritten(frame: &[u8], seen: &mut Seen) -> Vec<u8> {
    let mut copy = frame.to_vec();
    let (header, len) = ethernet::Header::parse(frame).expect("Ethernet");
    copy[..len].fill(0xa5);
    header.emit(&mut copy);
    let rest = &mut copy[len..];
    match header.ether_type {
        EtherType::ARP => rewrite_arp(rest, seen),
        EtherType::IPV4 => rewrite_ipv4(rest, seen),
        EtherType::IPV6 => rewrite_ipv6(rest, seen),
        EtherType::VLAN => saw(seen, "second tag"),
        other => panic!("unexpected {other}"),
    }
    if header.vlan.is_some() {
        saw(seen, "tag");
    }
    copy
}

fn rewrite_arp(bytes: &mut [u8], seen: &mut Seen) {
    let packet = arp::Packet::parse(bytes).expect("ARP");
    saw(seen, format!("arp {:?}", packet.operation));
    bytes[..arp::LEN].fill(0xa5);
    packet.emit(bytes);
}

fn rewrite_ipv4(bytes: &mut [u8], seen: &mut Seen) {
    let (header, len) = ipv4::Header::parse(bytes).expect("IPv4");
    assert!(ipv4::verify_checksum(bytes));
    assert_eq!(header.check_total_len(bytes.len()), Ok(bytes.len()));
    for option in &header.options {
        match option.expect("an IPv4 option") {
            ipv4::Opt::Route { kind, .. } => saw(seen, format!("ipv4 route {kind}")),
            ipv4::Opt::Timestamp { .. } => saw(seen, "ipv4 timestamp"),
            ipv4::Opt::RouterAlert(value) => saw(seen, format!("ipv4 router alert {value}")),
            other => panic!("unexpected {other:?}"),
        }
    }
    bytes[..len].fill(0xa5);
    header.emit(bytes);
    if header.is_fragment() {
        // The transport checksum is over the whole datagram.
        saw(seen, "ipv4 fragment");
        return;
    }
    let addresses = (IpAddr::V4(header.src), IpAddr::V4(header.dst));
    rewrite_transport(header.protocol, addresses, &mut bytes[len..], seen);
}

fn rewrite_ipv6(bytes: &mut [u8], seen: &mut Seen) {
    let (header, len) = ipv6::Header::parse(bytes).expect("IPv6");
    assert_eq!(header.check_payload_len(bytes.len()), Ok(bytes.len()));
    let source = bytes[len..].to_vec();
    bytes[..len].fill(0xa5);
    header.emit(bytes);

    let mut extensions = ipv6::Extensions::new(header.next_header, &source);
    let mut at = len;
    while let Some(extension) = extensions.next() {
        let extension = extension.expect("an extension header");
        saw(seen, format!("ipv6 extension {}", extension.protocol()));
        let target = &mut bytes[at..at + extension.len()];
        target.fill(0xa5);
        assert_eq!(extension.emit(extensions.next_header(), target), Ok(()));
        at += extension.len();
        match extension {
            ipv6::Extension::HopByHop(options) | ipv6::Extension::DestinationOptions(options) => {
                for option in &options {
                    let (_, option) = option.expect("an IPv6 option");
                    saw(seen, format!("ipv6 option {option:?}"));
                }
            }
            ipv6::Extension::Fragment(fragment) if !fragment.is_atomic() => return,
            _ => {}
        }
    }
    assert_eq!(at - len, extensions.offset());
    let addresses = (IpAddr::V6(header.src), IpAddr::V6(header.dst));
    rewrite_transport(extensions.next_header(), addresses, &mut bytes[at..], seen);
}

fn rewrite_transport(protocol: Protocol, (src, dst): (IpAddr, IpAddr), bytes: &mut [u8], seen: &mut Seen) {
    let pseudo = match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => checksum::pseudo_v4(src, dst, protocol.0, bytes.len() as u32),
        (IpAddr::V6(src), IpAddr::V6(dst)) => checksum::pseudo_v6(src, dst, protocol.0, bytes.len() as u32),
        mixed => panic!("{mixed:?}"),
    };
    match protocol {
        Protocol::TCP => {
            rewrite_tcp(bytes, seen);
            let checksum = pseudo.add_bytes(bytes).finish();
            bytes[tcp::CHECKSUM_OFFSET..][..2].copy_from_slice(&checksum.to_be_bytes());
        }
        Protocol::UDP => {
            saw(seen, "udp");
            let (mut header, len) = udp::Header::parse(bytes).expect("UDP");
            assert_eq!(header.payload_len(bytes.len()), Ok(bytes.len() - len));
            header.checksum = 0;
            header.emit(bytes);
            header.checksum = pseudo.add_bytes(bytes).finish_udp();
            bytes[..len].fill(0xa5);
            header.emit(bytes);
        }
        Protocol::ICMP => {
            let (message, len) = icmpv4::Message::parse(bytes).expect("ICMP");
            assert!(icmpv4::verify_checksum(bytes));
            saw(seen, format!("icmpv4 {} {}", message.kind(), message.code()));
            bytes[..len].fill(0xa5);
            message.emit(bytes);
        }
        Protocol::IGMP => rewrite_igmp(bytes, seen),
        Protocol::ICMPV6 => {
            let (IpAddr::V6(src), IpAddr::V6(dst)) = (src, dst) else {
                panic!("ICMPv6 over IPv4");
            };
            let (message, len) = icmpv6::Message::parse(bytes).expect("ICMPv6");
            assert!(icmpv6::verify_checksum(src, dst, bytes));
            saw(seen, format!("icmpv6 {} {}", message.kind(), message.code()));
            bytes[..len].fill(0xa5);
            rewrite_icmpv6_lists(&message, &mut bytes[len..], seen);
            message.emit(src, dst, bytes);
        }
        other => panic!("unexpected {other}"),
    }
}

fn rewrite_tcp(bytes: &mut [u8], seen: &mut Seen) {
    let (segment, len) = tcp::Segment::parse(bytes).expect("TCP");
    assert_eq!(segment.header_len(), len);
    assert_eq!(tcp::Options::validate(&bytes[tcp::HEADER_LEN..len]), Ok(()));
    let options = &segment.options;
    saw(seen, format!("tcp {:?}", segment.flags));
    if !options.sack.is_empty() {
        saw(seen, format!("tcp sack {}", options.sack.len()));
    }
    if let Some(fast_open) = &options.fast_open {
        saw(seen, format!("tcp fast open {}", fast_open.cookie.len()));
    }
    for message in options.mptcp() {
        let message = message.expect("an MPTCP option");
        saw(seen, format!("mptcp {} {}", mptcp_name(&message), message.len()));
    }
    bytes[..len].fill(0xa5);
    segment.emit(bytes);
}

fn mptcp_name(message: &mptcp::Message) -> &'static str {
    match message {
        mptcp::Message::Capable(_) => "capable",
        mptcp::Message::Join(_) => "join",
        mptcp::Message::Dss(_) => "dss",
        mptcp::Message::AddAddr(add) if add.is_echo() => "echo",
        mptcp::Message::AddAddr(_) => "add",
        mptcp::Message::RemoveAddr { .. } => "remove",
        mptcp::Message::Prio { .. } => "prio",
        mptcp::Message::Fail { .. } => "fail",
        mptcp::Message::FastClose { .. } => "fastclose",
        mptcp::Message::Reset { .. } => "reset",
    }
}

fn rewrite_igmp(bytes: &mut [u8], seen: &mut Seen) {
    let (message, len) = igmp::Message::parse(bytes).expect("IGMP");
    assert!(igmp::verify_checksum(bytes));
    let (head, lists) = bytes.split_at_mut(len);
    head.fill(0xa5);
    match message {
        igmp::Message::ReportV3 { records } => {
            let source = lists.to_vec();
            lists.fill(0xa5);
            let mut at = 0;
            for record in igmp::records(&source, records) {
                let record = record.expect("a record");
                saw(seen, format!("igmp record {:?} {}", record.kind, record.sources.len()));
                assert_eq!(record.emit(&mut lists[at..]), Ok(()));
                at += record.len();
            }
            assert_eq!(at, source.len());
        }
        igmp::Message::Query { v3: Some(query), .. } => {
            let sources = igmp::sources(lists, query.sources).expect("sources");
            saw(seen, format!("igmp query sources {}", sources.len()));
        }
        _ => assert!(lists.is_empty()),
    }
    saw(seen, format!("igmp {:#x} {len}", message.kind()));
    message.emit(bytes);
}

fn rewrite_icmpv6_lists(message: &icmpv6::Message, bytes: &mut [u8], seen: &mut Seen) {
    let source = bytes.to_vec();
    let mut at = 0;
    match message {
        icmpv6::Message::Nd(_) => {
            bytes.fill(0xa5);
            for option in nd::options(&source) {
                let option = option.expect("an ND option");
                saw(seen, format!("nd option {}", option.kind()));
                assert!(!matches!(option, nd::Opt::Other { .. }), "{option:?}");
                assert_eq!(option.emit(&mut bytes[at..]), Ok(()));
                at += option.len();
            }
        }
        icmpv6::Message::Mld(mld::Message::ReportV2 { records }) => {
            bytes.fill(0xa5);
            for record in mld::records(&source, *records) {
                let record = record.expect("a record");
                saw(seen, format!("mld record {:?} {}", record.kind, record.sources.len()));
                assert_eq!(record.emit(&mut bytes[at..]), Ok(()));
                at += record.len();
            }
        }
        _ => return,
    }
    assert_eq!(at, source.len());
}

#[test]
fn every_frame_is_written_back_byte_for_byte() {
    let mut seen = Seen::new();
    for frame in support::all_frames() {
        let copy = rewritten(&frame.bytes, &mut seen);
        assert_eq!(copy, frame.bytes, "{}", frame.name);
    }
    for what in EXPECTED {
        assert!(seen.contains_key(*what), "no {what} in the captures, but {seen:#?}");
    }
}

/// What the captures must hold for the test above to mean something.
const EXPECTED: &[&str] = &[
    "arp Request",
    "arp Reply",
    "icmpv4 0 0",
    "icmpv4 11 0",
    "icmpv4 13 0",
    "icmpv4 14 0",
    "icmpv4 3 1",
    "icmpv4 3 3",
    "icmpv4 3 4",
    "icmpv4 5 1",
    "icmpv4 8 0",
    "icmpv6 1 0",
    "icmpv6 1 4",
    "icmpv6 128 0",
    "icmpv6 129 0",
    "icmpv6 130 0",
    "icmpv6 131 0",
    "icmpv6 132 0",
    "icmpv6 133 0",
    "icmpv6 134 0",
    "icmpv6 135 0",
    "icmpv6 136 0",
    "icmpv6 143 0",
    "icmpv6 2 0",
    "icmpv6 3 0",
    "icmpv6 4 2",
    "igmp 0x11 12",
    "igmp 0x11 8",
    "igmp 0x12 8",
    "igmp 0x16 8",
    "igmp 0x17 8",
    "igmp 0x22 8",
    "igmp query sources 1",
    "igmp record Allow 2",
    "igmp record ToExclude 0",
    "ipv4 fragment",
    "ipv4 route 7",
    "ipv4 router alert 0",
    "ipv4 timestamp",
    "ipv6 extension hopopt",
    "ipv6 extension ipv6-frag",
    "ipv6 extension ipv6-opts",
    "ipv6 option RouterAlert(0)",
    "mld record Allow 1",
    "mld record ToExclude 0",
    "mptcp add 16",
    "mptcp add 18",
    "mptcp add 28",
    "mptcp capable 12",
    "mptcp capable 20",
    "mptcp capable 4",
    "mptcp dss 12",
    "mptcp dss 22",
    "mptcp dss 24",
    "mptcp dss 26",
    "mptcp dss 28",
    "mptcp dss 8",
    "mptcp echo 10",
    "mptcp echo 20",
    "mptcp echo 8",
    "mptcp fastclose 12",
    "mptcp join 12",
    "mptcp join 16",
    "mptcp join 24",
    "mptcp prio 3",
    "mptcp remove 4",
    "mptcp reset 4",
    "nd option 1",
    "nd option 2",
    "nd option 25",
    "nd option 3",
    "nd option 5",
    "nd option 14",
    "second tag",
    "tag",
    "tcp fast open 0",
    "tcp fast open 8",
    "tcp sack 1",
    "tcp sack 2",
    "tcp sack 3",
    "udp",
];

#[test]
fn etherparse_sees_the_same() {
    let mut compared = 0;
    for frame in support::all_frames() {
        let theirs = SlicedPacket::from_ethernet(&frame.bytes).unwrap_or_else(|error| panic!("{}: {error}", frame.name));
        let (header, mut at) = ethernet::Header::parse(&frame.bytes).expect("Ethernet");
        compare_ethernet(&header, &theirs);
        if header.ether_type == EtherType::VLAN {
            // It reads on behind the second tag.
            continue;
        }
        let mut protocol = None;
        match theirs.net.as_ref() {
            Some(NetSlice::Arp(slice)) => compare_arp(&frame.bytes[at..], slice),
            Some(NetSlice::Ipv4(slice)) => {
                let (header, len) = ipv4::Header::parse(&frame.bytes[at..]).expect("IPv4");
                compare_ipv4(&header, &slice.header());
                at += len;
                protocol = (!header.is_fragment()).then_some(header.protocol);
            }
            Some(NetSlice::Ipv6(slice)) => {
                let (header, len) = ipv6::Header::parse(&frame.bytes[at..]).expect("IPv6");
                compare_ipv6(&header, &slice.header());
                at += len;
                let mut extensions = ipv6::Extensions::new(header.next_header, &frame.bytes[at..]);
                let headers: Vec<_> = extensions.by_ref().map(|e| e.expect("an extension")).collect();
                assert_eq!(extensions.offset(), slice.extensions().slice().len());
                assert_eq!(extensions.next_header().0, slice.payload().ip_number.0);
                at += extensions.offset();
                let fragment = headers.iter().any(|h| matches!(h, ipv6::Extension::Fragment(f) if !f.is_atomic()));
                assert_eq!(fragment, slice.is_payload_fragmented());
                protocol = (!fragment).then_some(extensions.next_header());
            }
            None => panic!("{}: nothing behind Ethernet", frame.name),
        }
        assert_eq!(protocol.is_some(), theirs.transport.is_some(), "{}", frame.name);
        if let Some(transport) = &theirs.transport {
            compare_transport(&frame.bytes[at..], transport, &frame.name);
            compared += 1;
        }
    }
    assert!(compared > 200, "only {compared} transport headers");
}

fn compare_ethernet(ours: &ethernet::Header, theirs: &SlicedPacket<'_>) {
    let Some(LinkSlice::Ethernet2(link)) = &theirs.link else {
        panic!("no Ethernet header");
    };
    assert_eq!((ours.dst.0, ours.src.0), (link.destination(), link.source()));
    let tag = theirs.link_exts.iter().find_map(|extension| match extension {
        LinkExtSlice::Vlan(tag) => Some(tag),
        _ => None,
    });
    match (ours.vlan, tag) {
        (None, None) => assert_eq!(ours.ether_type.0, link.ether_type().0),
        (Some(ours_tag), Some(tag)) => {
            assert_eq!(link.ether_type().0, EtherType::VLAN.0);
            assert_eq!(ours_tag.priority, tag.priority_code_point().value());
            assert_eq!(ours_tag.drop_eligible, tag.drop_eligible_indicator());
            assert_eq!(ours_tag.id, tag.vlan_identifier().value());
            assert_eq!(ours.ether_type.0, tag.ether_type().0);
        }
        other => panic!("{other:?}"),
    }
}

fn compare_arp(bytes: &[u8], theirs: &etherparse::ArpPacketSlice<'_>) {
    let ours = arp::Packet::parse(bytes).expect("ARP");
    assert_eq!(u16::from(ours.operation), theirs.operation().0);
    assert_eq!(ours.sender_mac.0, theirs.sender_hw_addr());
    assert_eq!(ours.target_mac.0, theirs.target_hw_addr());
    assert_eq!(ours.sender_ip.octets(), theirs.sender_protocol_addr());
    assert_eq!(ours.target_ip.octets(), theirs.target_protocol_addr());
}

fn compare_ipv4(ours: &ipv4::Header, theirs: &etherparse::Ipv4HeaderSlice<'_>) {
    assert_eq!(ours.header_len(), usize::from(theirs.ihl()) * 4);
    assert_eq!(ours.dscp(), theirs.dcp().value());
    assert_eq!(ours.ecn().bits(), theirs.ecn().value());
    assert_eq!(ours.total_len, theirs.total_len());
    assert_eq!(ours.identification, theirs.identification());
    assert_eq!(ours.dont_fragment, theirs.dont_fragment());
    assert_eq!(ours.more_fragments, theirs.more_fragments());
    assert_eq!(ours.fragment_offset / 8, theirs.fragments_offset().value());
    assert_eq!(ours.ttl, theirs.ttl());
    assert_eq!(ours.protocol.0, theirs.protocol().0);
    assert_eq!((ours.src, ours.dst), (theirs.source_addr(), theirs.destination_addr()));
    assert_eq!(ours.options.as_bytes(), theirs.options());
}

fn compare_ipv6(ours: &ipv6::Header, theirs: &etherparse::Ipv6HeaderSlice<'_>) {
    assert_eq!(ours.traffic_class, theirs.traffic_class());
    assert_eq!(ours.flow_label, theirs.flow_label().value());
    assert_eq!(ours.payload_len, theirs.payload_length());
    assert_eq!(ours.next_header.0, theirs.next_header().0);
    assert_eq!(ours.hop_limit, theirs.hop_limit());
    assert_eq!((ours.src, ours.dst), (theirs.source_addr(), theirs.destination_addr()));
}

fn compare_transport(bytes: &[u8], theirs: &TransportSlice<'_>, name: &str) {
    match theirs {
        TransportSlice::Tcp(theirs) => {
            let (ours, len) = tcp::Segment::parse(bytes).expect("TCP");
            assert_eq!(&bytes[len..], theirs.payload(), "{name}");
            compare_tcp(&ours, theirs);
        }
        TransportSlice::Udp(theirs) => {
            let (ours, len) = udp::Header::parse(bytes).expect("UDP");
            let ours = (ours.src_port, ours.dst_port, ours.length, ours.checksum, &bytes[len..]);
            let theirs = (theirs.source_port(), theirs.destination_port(), theirs.length(), theirs.checksum(), theirs.payload());
            assert_eq!(ours, theirs, "{name}");
        }
        TransportSlice::Icmpv4(theirs) => {
            let (ours, len) = icmpv4::Message::parse(bytes).expect("ICMP");
            assert_eq!((ours.kind(), ours.code()), (theirs.type_u8(), theirs.code_u8()));
            assert_eq!(len, theirs.header_len(), "{name}");
            compare_icmpv4(&ours, &theirs.icmp_type());
        }
        TransportSlice::Icmpv6(theirs) => {
            let (ours, _) = icmpv6::Message::parse(bytes).expect("ICMPv6");
            assert_eq!((ours.kind(), ours.code()), (theirs.type_u8(), theirs.code_u8()));
            compare_icmpv6(&ours, theirs);
        }
        TransportSlice::Igmp(theirs) => {
            let (ours, len) = igmp::Message::parse(bytes).expect("IGMP");
            assert_eq!((ours.kind(), len), (theirs.type_u8(), theirs.header_len()), "{name}");
        }
    }
}

fn compare_tcp(ours: &tcp::Segment, theirs: &etherparse::TcpSlice<'_>) {
    use etherparse::TcpOptionElement;
    assert_eq!(ours.src_port, theirs.source_port());
    assert_eq!(ours.dst_port, theirs.destination_port());
    assert_eq!(ours.seq.0, theirs.sequence_number());
    assert_eq!(ours.ack.0, theirs.acknowledgment_number());
    assert_eq!(ours.window, theirs.window_size());
    assert_eq!(ours.urgent, theirs.urgent_pointer());
    let mut flags = tcp::Flags::empty();
    flags.set(tcp::Flags::FIN, theirs.fin());
    flags.set(tcp::Flags::SYN, theirs.syn());
    flags.set(tcp::Flags::RST, theirs.rst());
    flags.set(tcp::Flags::PSH, theirs.psh());
    flags.set(tcp::Flags::ACK, theirs.ack());
    flags.set(tcp::Flags::URG, theirs.urg());
    flags.set(tcp::Flags::ECE, theirs.ece());
    flags.set(tcp::Flags::CWR, theirs.cwr());
    flags.set(tcp::Flags::AE, theirs.ns());
    assert_eq!(ours.flags, flags);
    // It stops at an option it does not know: MPTCP and Fast Open come last.
    let mut options = tcp::Options::default();
    for element in theirs.options_iterator().map_while(Result::ok) {
        match element {
            TcpOptionElement::Noop => {}
            TcpOptionElement::MaximumSegmentSize(mss) => options.mss = Some(mss),
            TcpOptionElement::WindowScale(shift) => options.window_scale = Some(shift),
            TcpOptionElement::SelectiveAcknowledgementPermitted => options.sack_permitted = true,
            TcpOptionElement::SelectiveAcknowledgement(first, more) => {
                let blocks = core::iter::once(first).chain(more.into_iter().flatten());
                options.sack = blocks.map(|(start, end)| (tcp::Seq(start), tcp::Seq(end))).collect();
            }
            TcpOptionElement::Timestamp(value, echo) => {
                options.timestamps = Some(tcp::Timestamps { value, echo });
            }
        }
    }
    let ours = &ours.options;
    assert_eq!(
        (ours.mss, ours.window_scale, ours.sack_permitted, ours.timestamps, &ours.sack),
        (options.mss, options.window_scale, options.sack_permitted, options.timestamps, &options.sack)
    );
}

fn compare_icmpv4(ours: &icmpv4::Message, theirs: &etherparse::Icmpv4Type) {
    use etherparse::{Icmpv4Type, icmpv4::DestUnreachableHeader, icmpv4::RedirectHeader};
    match (ours, theirs) {
        (icmpv4::Message::EchoRequest { identifier, sequence }, Icmpv4Type::EchoRequest(echo))
        | (icmpv4::Message::EchoReply { identifier, sequence }, Icmpv4Type::EchoReply(echo)) => {
            assert_eq!((*identifier, *sequence), (echo.id, echo.seq));
        }
        (icmpv4::Message::DestinationUnreachable { mtu, .. }, Icmpv4Type::DestinationUnreachable(header)) => {
            if let DestUnreachableHeader::FragmentationNeeded { next_hop_mtu } = header {
                assert_eq!(mtu, next_hop_mtu);
            }
        }
        (icmpv4::Message::Redirect { gateway, .. }, Icmpv4Type::Redirect(RedirectHeader { gateway_internet_address, .. })) => {
            assert_eq!(gateway.octets(), *gateway_internet_address)
        }
        (icmpv4::Message::TimestampRequest(ours), Icmpv4Type::TimestampRequest(theirs))
        | (icmpv4::Message::TimestampReply(ours), Icmpv4Type::TimestampReply(theirs)) => {
            assert_eq!((ours.identifier, ours.sequence), (theirs.id, theirs.seq));
            assert_eq!(ours.originate, theirs.originate_timestamp);
            assert_eq!(ours.receive, theirs.receive_timestamp);
            assert_eq!(ours.transmit, theirs.transmit_timestamp);
        }
        (icmpv4::Message::TimeExceeded { .. }, Icmpv4Type::TimeExceeded(_)) => {}
        other => panic!("{other:?}"),
    }
}

fn compare_icmpv6(ours: &icmpv6::Message, theirs: &etherparse::Icmpv6Slice<'_>) {
    use etherparse::Icmpv6Type;
    match (ours, theirs.icmp_type()) {
        (icmpv6::Message::EchoRequest { identifier, sequence }, Icmpv6Type::EchoRequest(echo))
        | (icmpv6::Message::EchoReply { identifier, sequence }, Icmpv6Type::EchoReply(echo)) => {
            assert_eq!((*identifier, *sequence), (echo.id, echo.seq));
        }
        (icmpv6::Message::PacketTooBig { mtu }, Icmpv6Type::PacketTooBig { mtu: theirs }) => {
            assert_eq!(*mtu, theirs);
        }
        (
            icmpv6::Message::ParameterProblem { pointer, .. },
            Icmpv6Type::ParameterProblem(theirs),
        ) => assert_eq!(*pointer, theirs.pointer),
        (
            icmpv6::Message::Nd(nd::Message::RouterAdvertisement {
                hop_limit,
                flags,
                lifetime_s,
                ..
            }),
            Icmpv6Type::RouterAdvertisement(theirs),
        ) => {
            assert_eq!(*hop_limit, theirs.cur_hop_limit);
            assert_eq!(flags.contains(nd::RouterFlags::MANAGED), theirs.managed_address_config);
            assert_eq!(flags.contains(nd::RouterFlags::OTHER), theirs.other_config);
            assert_eq!(*lifetime_s, theirs.router_lifetime);
        }
        (
            icmpv6::Message::Nd(nd::Message::NeighborAdvertisement { flags, .. }),
            Icmpv6Type::NeighborAdvertisement(theirs),
        ) => {
            assert_eq!(flags.contains(nd::NeighborFlags::ROUTER), theirs.router);
            assert_eq!(flags.contains(nd::NeighborFlags::SOLICITED), theirs.solicited);
            assert_eq!(flags.contains(nd::NeighborFlags::OVERRIDE), theirs.r#override);
        }
        (icmpv6::Message::Nd(nd::Message::NeighborSolicitation { .. }), theirs) => {
            assert_eq!(theirs, Icmpv6Type::NeighborSolicitation);
        }
        (icmpv6::Message::Nd(nd::Message::RouterSolicitation), theirs) => {
            assert_eq!(theirs, Icmpv6Type::RouterSolicitation);
        }
        (icmpv6::Message::DestinationUnreachable { .. }, Icmpv6Type::DestinationUnreachable(_))
        | (icmpv6::Message::TimeExceeded { .. }, Icmpv6Type::TimeExceeded(_))
        // It has no MLD.
        | (icmpv6::Message::Mld(_), Icmpv6Type::Unknown { .. }) => {}
        other => panic!("{other:?}"),
    }
}
