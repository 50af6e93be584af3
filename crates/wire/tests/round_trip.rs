//! `parse(emit(x)) == x` for every format, for any `x` that can be written; and
//! `emit(parse(bytes))` is stable for any bytes, by the functions of the fuzzer.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use arrayvec::ArrayVec;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use weft_wire::ethernet::{EtherType, Mac, Vlan};
use weft_wire::icmpv6::{mld, nd};
use weft_wire::tcp::mptcp::{self, DataSeq, Join, Keys};
use weft_wire::tcp::{FastOpen, Flags, Options, Segment, Seq, Timestamps, UserTimeout};
use weft_wire::{Error, Protocol, arp, checksum, dhcp, ethernet, fuzzing, icmpv4, icmpv6, igmp, ipv4, ipv6, tcp, udp};

/// `emit` into a buffer of exactly `len` bytes that was not zero.
fn emitted(len: usize, emit: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut bytes = vec![0xa5; len];
    emit(&mut bytes);
    bytes
}

fn v4() -> impl Strategy<Value = Ipv4Addr> {
    any::<u32>().prop_map(Ipv4Addr::from_bits)
}

fn v6() -> impl Strategy<Value = Ipv6Addr> {
    any::<u128>().prop_map(Ipv6Addr::from_bits)
}

fn mac() -> impl Strategy<Value = Mac> {
    any::<[u8; 6]>().prop_map(Mac)
}

fn bytes_array<const N: usize>(len: std::ops::RangeInclusive<usize>) -> impl Strategy<Value = ArrayVec<u8, N>> {
    vec(any::<u8>(), len).prop_map(|bytes| bytes.into_iter().collect())
}

fn ipv4_header() -> impl Strategy<Value = ipv4::Header> {
    (
        (any::<u8>(), any::<u16>(), any::<u16>(), any::<bool>(), any::<bool>(), 0..=0x1fff_u16),
        (any::<u8>(), any::<u8>(), v4(), v4(), vec(any::<u8>(), 0..=40)),
    )
        .prop_map(|((tos, len, identification, df, mf, offset), (ttl, protocol, src, dst, raw))| {
            let options = ipv4::Options::from_bytes(&raw).expect("40 bytes at most");
            let header_len = (ipv4::HEADER_LEN + options.len()) as u16;
            ipv4::Header {
                tos,
                total_len: len.max(header_len),
                identification,
                dont_fragment: df,
                more_fragments: mf,
                fragment_offset: offset * 8,
                ttl,
                protocol: Protocol(protocol),
                src,
                dst,
                options,
            }
        })
}

fn data_seq() -> impl Strategy<Value = DataSeq> {
    prop_oneof![any::<u32>().prop_map(DataSeq::Short), any::<u64>().prop_map(DataSeq::Long)]
}

fn keys() -> impl Strategy<Value = Keys> {
    prop_oneof![
        Just(Keys::None),
        any::<u64>().prop_map(Keys::Sender),
        any::<(u64, u64)>().prop_map(|(sender, receiver)| Keys::Both { sender, receiver }),
        any::<(u64, u64, u16, Option<u16>)>()
            .prop_map(|(sender, receiver, data_len, checksum)| { Keys::WithData { sender, receiver, data_len, checksum } }),
    ]
}

fn join() -> impl Strategy<Value = Join> {
    prop_oneof![
        any::<(bool, u8, u32, u32)>().prop_map(|(backup, address_id, token, nonce)| Join::Syn { backup, address_id, token, nonce }),
        any::<(bool, u8, u64, u32)>().prop_map(|(backup, address_id, hmac, nonce)| Join::SynAck { backup, address_id, hmac, nonce }),
        any::<[u8; 20]>().prop_map(|hmac| Join::Ack { hmac }),
    ]
}

fn dss() -> impl Strategy<Value = mptcp::Dss> {
    let mapping = (data_seq(), any::<(u32, u16, Option<u16>)>()).prop_map(|(seq, (subflow_seq, len, checksum))| mptcp::Mapping {
        seq,
        subflow_seq,
        len,
        checksum,
    });
    (option::of(data_seq()), option::of(mapping), any::<bool>()).prop_map(|(ack, mapping, fin)| mptcp::Dss { ack, mapping, fin })
}

fn mptcp_message() -> impl Strategy<Value = mptcp::Message> {
    let address = prop_oneof![v4().prop_map(IpAddr::V4), v6().prop_map(IpAddr::V6)];
    prop_oneof![
        (0..16_u8, any::<u8>(), keys()).prop_map(|(version, flags, keys)| {
            let flags = mptcp::CapableFlags::from_bits_retain(flags);
            mptcp::Message::Capable(mptcp::Capable { version, flags, keys })
        }),
        join().prop_map(mptcp::Message::Join),
        dss().prop_map(mptcp::Message::Dss),
        (any::<(u8, Option<u16>, Option<u64>)>(), address)
            .prop_map(|((address_id, port, hmac), address)| mptcp::Message::AddAddr(mptcp::AddAddr { address_id, address, port, hmac })),
        bytes_array(1..=mptcp::REMOVE_IDS_MAX).prop_map(|ids| mptcp::Message::RemoveAddr { ids }),
        any::<bool>().prop_map(|backup| mptcp::Message::Prio { backup }),
        any::<u64>().prop_map(|data_seq| mptcp::Message::Fail { data_seq }),
        any::<u64>().prop_map(|receiver_key| mptcp::Message::FastClose { receiver_key }),
        (0..16_u8, any::<u8>())
            .prop_map(|(flags, reason)| mptcp::Message::Reset { flags: mptcp::ResetFlags::from_bits_retain(flags), reason }),
    ]
}

/// Options, not all of which fit together.
fn tcp_options() -> impl Strategy<Value = Options> {
    let others = vec(
        prop_oneof![
            // Kinds without a field.
            (35..=253_u8, vec(any::<u8>(), 0..12)),
            (Just(tcp::kind::MD5), vec(any::<u8>(), 16..=16)),
            // A known kind with a length that is not its own.
            (Just(tcp::kind::MSS), vec(any::<u8>(), 3..6)),
            mptcp_message().prop_map(|message| (tcp::kind::MPTCP, message.to_data().to_vec())),
        ],
        0..3,
    );
    (
        (any::<Option<u16>>(), any::<Option<u8>>(), any::<bool>(), any::<Option<(u32, u32)>>()),
        vec(any::<(u32, u32)>(), 0..=4),
        option::of((bytes_array(0..=16), any::<bool>())),
        option::of((any::<bool>(), 0..0x8000_u16)),
        others,
    )
        .prop_map(|((mss, window_scale, sack_permitted, times), sack, fast_open, timeout, others)| {
            let mut options = Options {
                mss,
                window_scale,
                sack_permitted,
                timestamps: times.map(|(value, echo)| Timestamps { value, echo }),
                sack: sack.into_iter().map(|(start, end)| (Seq(start), Seq(end))).collect(),
                // Others are no cookies, and are not read as such.
                fast_open: fast_open
                    .filter(|(cookie, _)| cookie.is_empty() || cookie.len() >= 4 && cookie.len() % 2 == 0)
                    .map(|(cookie, experimental)| FastOpen { cookie, experimental }),
                user_timeout: timeout.map(|(minutes, value)| UserTimeout { minutes, value }),
                ..Options::default()
            };
            for (kind, data) in others {
                // Three of them may exceed the room; then the last is missing.
                let _ = options.push_other(kind, &data);
            }
            options
        })
}

fn segment() -> impl Strategy<Value = Segment> {
    (any::<(u16, u16, u32, u32, u16, u16)>(), 0..0x200_u16, tcp_options()).prop_map(
        |((src_port, dst_port, seq, ack, window, urgent), flags, options)| Segment {
            src_port,
            dst_port,
            seq: Seq(seq),
            ack: Seq(ack),
            flags: Flags::from_bits_retain(flags),
            window,
            urgent,
            options,
        },
    )
}

fn icmpv4_message() -> impl Strategy<Value = icmpv4::Message> {
    use icmpv4::{Message, Timestamps};
    let times = any::<(u16, u16, u32, u32, u32)>().prop_map(|(identifier, sequence, originate, receive, transmit)| Timestamps {
        identifier,
        sequence,
        originate,
        receive,
        transmit,
    });
    prop_oneof![
        any::<(u16, u16)>().prop_map(|(identifier, sequence)| Message::EchoRequest { identifier, sequence }),
        any::<(u16, u16)>().prop_map(|(identifier, sequence)| Message::EchoReply { identifier, sequence }),
        any::<(u8, u16)>().prop_map(|(code, mtu)| Message::DestinationUnreachable { code, mtu }),
        any::<u8>().prop_map(|code| Message::TimeExceeded { code }),
        any::<(u8, u8)>().prop_map(|(code, pointer)| Message::ParameterProblem { code, pointer }),
        (any::<u8>(), v4()).prop_map(|(code, gateway)| Message::Redirect { code, gateway }),
        times.clone().prop_map(Message::TimestampRequest),
        times.prop_map(Message::TimestampReply),
        (15..=255_u8, any::<u8>(), any::<[u8; 4]>()).prop_map(|(kind, code, rest)| Message::Other { kind, code, rest }),
    ]
}

fn nd_message() -> impl Strategy<Value = nd::Message> {
    use nd::Message;
    prop_oneof![
        Just(Message::RouterSolicitation),
        any::<(u8, u8, u16, u32, u32)>().prop_map(|(hop_limit, flags, lifetime_s, reachable_ms, retransmit_ms)| {
            Message::RouterAdvertisement {
                hop_limit,
                flags: nd::RouterFlags::from_bits_retain(flags),
                lifetime_s,
                reachable_ms,
                retransmit_ms,
            }
        }),
        v6().prop_map(|target| Message::NeighborSolicitation { target }),
        (0..8_u8, v6())
            .prop_map(|(flags, target)| Message::NeighborAdvertisement { flags: nd::NeighborFlags::from_bits_retain(flags << 5), target }),
        (v6(), v6()).prop_map(|(target, destination)| Message::Redirect { target, destination }),
    ]
}

fn mld_message() -> impl Strategy<Value = mld::Message> {
    use mld::{Message, QueryV2};
    let v2 = (any::<bool>(), 0..8_u8, any::<u8>(), any::<u16>()).prop_map(|(suppress, robustness, interval_code, sources)| QueryV2 {
        suppress,
        robustness,
        interval_code,
        sources,
    });
    prop_oneof![
        (any::<u16>(), v6(), option::of(v2)).prop_map(|(max_response_code, group, v2)| { Message::Query { max_response_code, group, v2 } }),
        v6().prop_map(|group| Message::Report { group }),
        v6().prop_map(|group| Message::Done { group }),
        any::<u16>().prop_map(|records| Message::ReportV2 { records }),
    ]
}

fn icmpv6_message() -> impl Strategy<Value = icmpv6::Message> {
    use icmpv6::Message;
    prop_oneof![
        any::<(u16, u16)>().prop_map(|(identifier, sequence)| Message::EchoRequest { identifier, sequence }),
        any::<(u16, u16)>().prop_map(|(identifier, sequence)| Message::EchoReply { identifier, sequence }),
        any::<u8>().prop_map(|code| Message::DestinationUnreachable { code }),
        any::<u32>().prop_map(|mtu| Message::PacketTooBig { mtu }),
        any::<u8>().prop_map(|code| Message::TimeExceeded { code }),
        any::<(u8, u32)>().prop_map(|(code, pointer)| Message::ParameterProblem { code, pointer }),
        nd_message().prop_map(Message::Nd),
        mld_message().prop_map(Message::Mld),
        (144..=255_u8, any::<u8>(), any::<[u8; 4]>()).prop_map(|(kind, code, rest)| Message::Other { kind, code, rest }),
    ]
}

fn dhcp_header() -> impl Strategy<Value = dhcp::Header> {
    let numbers = (any::<[u8; 3]>(), 0..=16_u8, any::<u32>(), any::<u16>(), any::<u16>());
    (numbers, [v4(), v4(), v4(), v4()], any::<[u8; 16]>()).prop_map(
        |(([op, hardware_type, hops], hardware_len, xid, secs, flags), [client, yours, next_server, relay], hardware)| dhcp::Header {
            op,
            hardware_type,
            hardware_len,
            hops,
            xid,
            secs,
            flags,
            client,
            yours,
            next_server,
            relay,
            hardware,
        },
    )
}

fn igmp_message() -> impl Strategy<Value = igmp::Message> {
    use igmp::{Message, QueryV3};
    let v3 = (any::<bool>(), 0..8_u8, any::<u8>(), any::<u16>()).prop_map(|(suppress, robustness, interval_code, sources)| QueryV3 {
        suppress,
        robustness,
        interval_code,
        sources,
    });
    prop_oneof![
        (any::<u8>(), v4(), option::of(v3)).prop_map(|(max_response_code, group, v3)| { Message::Query { max_response_code, group, v3 } }),
        v4().prop_map(|group| Message::ReportV1 { group }),
        v4().prop_map(|group| Message::ReportV2 { group }),
        v4().prop_map(|group| Message::Leave { group }),
        any::<u16>().prop_map(|records| Message::ReportV3 { records }),
        (0x23..=255_u8, any::<u8>(), any::<[u8; 4]>()).prop_map(|(kind, code, rest)| Message::Other { kind, code, rest }),
    ]
}

proptest! {
    #[test]
    fn ethernet_headers(
        dst in mac(),
        src in mac(),
        vlan in option::of((0..8_u8, any::<bool>(), 0..0x1000_u16)),
        ether_type in any::<u16>(),
    ) {
        let vlan = vlan.map(|(priority, drop_eligible, id)| Vlan { priority, drop_eligible, id });
        let header = ethernet::Header { dst, src, vlan, ether_type: EtherType(ether_type) };
        prop_assume!(vlan.is_some() || header.ether_type != EtherType::VLAN);
        let bytes = emitted(header.len(), |b| header.emit(b));
        prop_assert_eq!(ethernet::Header::parse(&bytes), Ok((header, bytes.len())));
        prop_assert_eq!(
            ethernet::Header::parse(&bytes[..bytes.len() - 1]),
            Err(Error::Truncated)
        );
        prop_assert_eq!(src.to_string().parse(), Ok(src));
    }

    #[test]
    fn arp_packets(
        operation in any::<u16>(),
        (sender_mac, target_mac) in (mac(), mac()),
        (sender_ip, target_ip) in (v4(), v4()),
    ) {
        let operation = operation.into();
        let packet = arp::Packet { operation, sender_mac, sender_ip, target_mac, target_ip };
        let bytes = emitted(arp::LEN, |b| packet.emit(b));
        prop_assert_eq!(arp::Packet::parse(&bytes), Ok(packet));
    }

    #[test]
    fn ipv4_headers(header in ipv4_header()) {
        let bytes = emitted(header.header_len(), |b| header.emit(b));
        prop_assert!(ipv4::verify_checksum(&bytes));
        prop_assert_eq!(ipv4::Header::parse(&bytes), Ok((header.clone(), bytes.len())));
        let theirs = etherparse::Ipv4HeaderSlice::from_slice(&bytes).expect("etherparse");
        prop_assert_eq!(header.options.as_bytes(), theirs.options());
        prop_assert_eq!(theirs.header_checksum(), theirs.to_header().calc_header_checksum());
    }

    #[test]
    fn ipv6_headers(
        (traffic_class, flow_label, payload_len) in (any::<u8>(), 0..0x10_0000_u32, any::<u16>()),
        (next_header, hop_limit) in any::<(u8, u8)>(),
        (src, dst) in (v6(), v6()),
    ) {
        let header = ipv6::Header {
            traffic_class,
            flow_label,
            payload_len,
            next_header: Protocol(next_header),
            hop_limit,
            src,
            dst,
        };
        let bytes = emitted(ipv6::HEADER_LEN, |b| header.emit(b));
        prop_assert_eq!(ipv6::Header::parse(&bytes), Ok((header, bytes.len())));
        let theirs = etherparse::Ipv6HeaderSlice::from_slice(&bytes).expect("etherparse");
        prop_assert_eq!(theirs.flow_label().value(), flow_label);
        prop_assert_eq!(theirs.traffic_class(), traffic_class);
    }

    #[test]
    fn ipv6_extension_chains(
        options in vec(any::<u8>(), 0..40),
        routing in (any::<(u8, u8)>(), vec(any::<u8>(), 0..40)),
        fragment in (0..0x2000_u16, any::<bool>(), any::<u32>()),
        last in 61..=130_u8,
    ) {
        use ipv6::Extension;
        use ipv6::extension::{Options, Routing};
        let ((kind, segments_left), data) = routing;
        // From the wire the data fills the header.
        let options = &options[..options.len() / 8 * 8];
        let options: Vec<u8> = [&[1, 4, 0, 0, 0, 0], options].concat();
        let data: Vec<u8> = [&[0; 4], &data[..data.len() / 8 * 8]].concat();
        let (offset, more, identification) = fragment;
        let chain = [
            Extension::HopByHop(Options(&options)),
            Extension::Routing(Routing { kind, segments_left, data: &data }),
            Extension::DestinationOptions(Options(&options)),
            Extension::Fragment(ipv6::Fragment { offset: offset * 8, more, identification }),
        ];
        let mut bytes = Vec::new();
        for (index, extension) in chain.iter().enumerate() {
            let next = chain.get(index + 1).map_or(Protocol(last), |next| next.protocol());
            let at = bytes.len();
            bytes.resize(at + extension.len(), 0xa5);
            prop_assert_eq!(extension.emit(next, &mut bytes[at..]), Ok(()));
        }
        bytes.extend(b"payload");
        let mut extensions = ipv6::Extensions::new(Protocol::HOP_BY_HOP, &bytes);
        for extension in chain {
            prop_assert_eq!(extensions.next(), Some(Ok(extension)));
        }
        prop_assert_eq!(extensions.next(), None);
        prop_assert_eq!(extensions.next_header(), Protocol(last));
        prop_assert_eq!(extensions.rest(), b"payload");
    }

    #[test]
    fn udp_headers((src_port, dst_port, length, checksum) in any::<(u16, u16, u16, u16)>()) {
        let header = udp::Header { src_port, dst_port, length, checksum };
        let bytes = emitted(udp::LEN, |b| header.emit(b));
        prop_assert_eq!(udp::Header::parse(&bytes), Ok((header, udp::LEN)));
    }

    #[test]
    fn icmpv4_messages(message in icmpv4_message(), payload in vec(any::<u8>(), 0..50)) {
        let len = message.header_len();
        let mut bytes = [vec![0xa5; len], payload.clone()].concat();
        message.emit(&mut bytes);
        prop_assert!(icmpv4::verify_checksum(&bytes));
        prop_assert_eq!(icmpv4::Message::parse(&bytes), Ok((message, len)));
        prop_assert_eq!(&bytes[len..], &payload);
    }

    #[test]
    fn icmpv6_messages(
        message in icmpv6_message(),
        payload in vec(any::<u8>(), 0..50),
        (src, dst) in (v6(), v6()),
    ) {
        let len = message.header_len();
        // Version 1 of an MLD query is recognised by its length.
        let query_v1 =
            matches!(message, icmpv6::Message::Mld(mld::Message::Query { v2: None, .. }));
        let payload = if query_v1 { vec![] } else { payload };
        let mut bytes = [vec![0xa5; len], payload.clone()].concat();
        message.emit(src, dst, &mut bytes);
        prop_assert!(icmpv6::verify_checksum(src, dst, &bytes));
        prop_assert_eq!(icmpv6::Message::parse(&bytes), Ok((message, len)));
        prop_assert_eq!(&bytes[len..], &payload);
        let theirs = etherparse::Icmpv6Slice::from_slice(&bytes).expect("etherparse");
        prop_assert!(theirs.is_checksum_valid(src.octets(), dst.octets()));
    }

    #[test]
    fn dhcp_messages(header in dhcp_header(), options in vec((1..=254_u8, vec(any::<u8>(), 0..300)), 0..5)) {
        // What stands under one code is one value, and 52 says where the others are.
        let options: std::collections::BTreeMap<u8, Vec<u8>> =
            options.into_iter().filter(|(code, _)| *code != dhcp::code::OVERLOAD).collect();
        let mut bytes = emitted(2000, |b| header.emit(b));
        let mut writer = dhcp::Writer::new(&mut bytes[dhcp::HEADER_LEN..]);
        for (code, value) in &options {
            prop_assert_eq!(writer.put(*code, value), Ok(()));
        }
        writer.end();
        prop_assert_eq!(dhcp::Header::parse(&bytes), Ok((header, dhcp::HEADER_LEN)));
        let read = dhcp::Options::parse(&bytes).expect("sound options");
        let mut room = [0; 300];
        for (code, value) in &options {
            prop_assert_eq!(read.value(*code, &mut room), Ok(Some(&value[..])));
        }
        prop_assert_eq!(read.iter().count(), options.values().map(|value| value.len().div_ceil(255).max(1)).sum::<usize>());
    }

    #[test]
    fn dhcp_routes(destination in v4(), prefix_bits in 0..=32_u8, router in v4()) {
        let mask = u32::MAX.checked_shl(32 - u32::from(prefix_bits)).unwrap_or(0);
        let route = dhcp::Route { destination: Ipv4Addr::from_bits(destination.to_bits() & mask), prefix_bits, router };
        let bytes = emitted(route.len(), |b| route.emit(b));
        prop_assert_eq!(dhcp::Route::parse(&bytes), Ok((route, bytes.len())));
    }

    #[test]
    fn igmp_messages(message in igmp_message(), payload in vec(any::<u8>(), 0..50)) {
        let len = message.header_len();
        let payload = match message {
            igmp::Message::Query { v3: None, .. } => vec![],
            _ => payload,
        };
        let mut bytes = [vec![0xa5; len], payload.clone()].concat();
        message.emit(&mut bytes);
        prop_assert!(igmp::verify_checksum(&bytes));
        prop_assert_eq!(igmp::Message::parse(&bytes), Ok((message, len)));
        prop_assert_eq!(&bytes[len..], &payload);
    }

    #[test]
    fn multicast_records(
        kind in any::<u8>(),
        (group4, group6) in (v4(), v6()),
        words in vec(any::<[u8; 16]>(), 0..5),
        auxiliary in vec(any::<[u8; 4]>(), 0..3),
    ) {
        let (words, auxiliary) = (words.as_flattened(), auxiliary.as_flattened());
        let record = igmp::Record {
            kind: kind.into(),
            group: group4,
            sources: igmp::Sources::from_bytes(words),
            auxiliary,
        };
        let mut bytes = vec![0xa5; record.len()];
        prop_assert_eq!(record.emit(&mut bytes), Ok(()));
        prop_assert_eq!(igmp::Record::parse(&bytes), Ok((record, bytes.len())));
        let record = mld::Record {
            kind: kind.into(),
            group: group6,
            sources: mld::Sources::from_bytes(words),
            auxiliary,
        };
        let mut bytes = vec![0xa5; record.len()];
        prop_assert_eq!(record.emit(&mut bytes), Ok(()));
        prop_assert_eq!(mld::Record::parse(&bytes), Ok((record, bytes.len())));
    }

    #[test]
    fn tcp_segments(segment in segment()) {
        let len = segment.header_len();
        prop_assert!(len <= tcp::HEADER_LEN_MAX);
        let bytes = emitted(len, |b| segment.emit(b));
        let (again, again_len) = Segment::parse(&bytes).expect("what was written");
        prop_assert_eq!(again_len, len);
        if segment.options.fits() {
            prop_assert_eq!(&again, &segment);
        } else {
            // Something was left out; what is left is a segment still.
            prop_assert_ne!(&again, &segment);
            prop_assert!(again.options.fits());
        }
        prop_assert_eq!(Options::validate(&bytes[tcp::HEADER_LEN..]), Ok(()));
        let theirs = etherparse::TcpSlice::from_slice(&bytes).expect("etherparse");
        prop_assert_eq!(theirs.sequence_number(), segment.seq.0);
        prop_assert_eq!(usize::from(theirs.data_offset()) * 4, len);
    }

    #[test]
    fn mptcp_messages(message in mptcp_message()) {
        let data = message.to_data();
        prop_assert_eq!(mptcp::Message::parse(&data), Ok(message.clone()));
        let mut options = Options::default();
        prop_assert_eq!(options.push_mptcp(&message), Ok(()));
        prop_assert_eq!(options.mptcp().collect::<Vec<_>>(), [Ok(message)]);
    }

    #[test]
    fn sums_do_not_depend_on_the_cuts(
        bytes in vec(any::<u8>(), 0..700),
        cuts in vec(any::<prop::sample::Index>(), 0..5),
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let sum = cuts
            .windows(2)
            .fold(checksum::Sum::new(), |sum, cut| sum.add_bytes(&bytes[cut[0]..cut[1]]));
        prop_assert_eq!(sum.finish(), checksum::of(&bytes));
        let theirs = etherparse::checksum::Sum16BitWords::new().add_slice(&bytes);
        prop_assert_eq!(checksum::of(&bytes), theirs.ones_complement().to_be());
    }

    #[test]
    fn updates_are_what_a_new_sum_is(
        mut bytes in vec(any::<u8>(), 12..80),
        (at, new16, new32) in any::<(prop::sample::Index, u16, u32)>(),
    ) {
        // A packet whose checksum field is in front.
        bytes[..2].fill(0);
        let at = 2 + at.index((bytes.len() - 6) / 2) * 2;
        let old = checksum::of(&bytes);
        let old32 = u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);

        let mut changed = bytes.clone();
        changed[at..at + 4].copy_from_slice(&new32.to_be_bytes());
        // Zero and all ones are the same number in ones' complement.
        let updated = checksum::update_u32(old, old32, new32);
        prop_assert_eq!(updated % 0xffff, checksum::of(&changed) % 0xffff);
        changed[..2].copy_from_slice(&updated.to_be_bytes());
        prop_assert_eq!(checksum::Sum::new().add_bytes(&changed).fold() % 0xffff, 0);

        let mut changed = bytes.clone();
        changed[at..at + 2].copy_from_slice(&new16.to_be_bytes());
        let updated = checksum::update_u16(old, (old32 >> 16) as u16, new16);
        prop_assert_eq!(updated % 0xffff, checksum::of(&changed) % 0xffff);
    }

    #[test]
    fn fields_and_bytes_sum_alike((a, b, c) in any::<(u16, u32, u8)>(), odd in any::<bool>()) {
        let prefix: &[u8] = if odd { &[c] } else { &[] };
        let bytes = [prefix, &a.to_be_bytes(), &b.to_be_bytes()].concat();
        let sum = checksum::Sum::new().add_bytes(prefix).add_u16(a).add_u32(b);
        prop_assert_eq!(sum.finish(), checksum::of(&bytes));
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in vec(any::<u8>(), 0..120)) {
        for (_, target) in fuzzing::TARGETS {
            target(&bytes);
        }
    }

    #[test]
    fn any_options_are_read_without_a_panic(
        options in vec(prop_oneof![0..9_u8, 28..35_u8, any::<u8>()], 0..=40),
        mut head in any::<[u8; 20]>(),
    ) {
        head[12] = ((20 + options.len()).div_ceil(4) << 4) as u8;
        fuzzing::tcp(&[&head[..], &options, &[0; 3]].concat());
        head[0] = 0x40 | (head[12] >> 4);
        fuzzing::ipv4(&[&head[..], &options, &[0; 3]].concat());
    }
}
