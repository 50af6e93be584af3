//! Frames are built by etherparse and by hand, cut here, and put together again by an independent reader.

use super::*;
use crate::block::BlockId;
use crate::frame::Completion;
use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
use proptest::prelude::*;

/// One large frame, as a stack would send it.
#[derive(Clone, Debug)]
struct Large {
    v6: bool,
    vlan: bool,
    ethernet: bool,
    kind: GsoKind,
    segment_bytes: u16,
    payload: Vec<u8>,
    /// Where the payload is broken into slices, and how much of the frame lies in the head.
    breaks: Vec<usize>,
    head_bytes: usize,
    sequence: u32,
    fin: bool,
    partial: bool,
    options: bool,
    /// Positions in the metadata are filled in.
    positions: bool,
}

fn large() -> impl Strategy<Value = Large> {
    let shape = (any::<bool>(), any::<bool>(), any::<bool>(), prop_oneof![Just(GsoKind::Tcp), Just(GsoKind::Udp)]);
    let bytes =
        (1u16..3000, proptest::collection::vec(any::<u8>(), 1..20_000), proptest::collection::vec(0usize..20_000, 0..6), 0usize..300);
    let rest = (any::<u32>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (shape, bytes, rest).prop_map(|((v6, vlan, ethernet, kind), (segment_bytes, payload, breaks, head_bytes), rest)| Large {
        v6,
        vlan,
        ethernet,
        kind,
        segment_bytes,
        payload,
        breaks,
        head_bytes,
        sequence: rest.0,
        fin: rest.1,
        partial: rest.2,
        options: rest.3,
        positions: rest.4,
    })
}

impl Large {
    /// The whole as one packet with correct checksums, and the offsets of its IP and transport headers.
    fn bytes(&self) -> (Vec<u8>, usize, usize) {
        let mut bytes = Vec::new();
        macro_rules! finish {
            ($ip:expr) => {
                match self.kind {
                    GsoKind::Udp => $ip.udp(53, 4000).write(&mut bytes, &self.payload).unwrap(),
                    GsoKind::Tcp => {
                        let mut step = $ip.tcp(80, 4000, self.sequence, 1000).ack(77).psh().cwr();
                        if self.fin {
                            step = step.fin();
                        }
                        if self.options {
                            step = step.options_raw(&[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]).unwrap();
                        }
                        step.write(&mut bytes, &self.payload).unwrap();
                    }
                }
            };
        }
        macro_rules! network {
            ($link:expr) => {
                if self.v6 { finish!($link.ipv6([7; 16], [8; 16], 9)) } else { finish!($link.ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)) }
            };
        }
        let network = match (self.ethernet, self.vlan) {
            (false, _) => {
                if self.v6 {
                    finish!(PacketBuilder::ipv6([7; 16], [8; 16], 9))
                } else {
                    finish!(PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64))
                };
                0
            }
            (true, false) => {
                network!(PacketBuilder::ethernet2([2; 6], [4; 6]));
                14
            }
            (true, true) => {
                network!(PacketBuilder::ethernet2([2; 6], [4; 6]).single_vlan(etherparse::VlanId::try_new(5).unwrap()));
                18
            }
        };
        let transport = network + if self.v6 { 40 } else { 20 };
        (bytes, network, transport)
    }

    fn frame(&self) -> Frame {
        let (mut bytes, network, transport) = self.bytes();
        let offset = if self.kind == GsoKind::Tcp { 16 } else { 6 };
        if self.partial {
            let length = bytes.len() - transport;
            let found = layout(&bytes, bytes.len(), &Meta::default(), 32).unwrap();
            assert_eq!((found.network, found.transport, found.end), (network, transport, bytes.len()));
            put_u16(&mut bytes, transport + offset, found.pseudo(length).fold());
        }
        let mut frame = Frame::ingress(&bytes[..bytes.len().min(self.head_bytes)]);
        let mut breaks: Vec<usize> = self.breaks.iter().copied().filter(|at| (self.head_bytes..bytes.len()).contains(at)).collect();
        breaks.sort_unstable();
        breaks.push(bytes.len());
        let mut at = bytes.len().min(self.head_bytes);
        for end in breaks {
            frame.append(Bytes::copy_from_slice(&bytes[at..end]));
            at = end;
        }
        assert_eq!(frame.to_vec(), bytes);
        let position = frame.position();
        let meta = frame.meta_mut();
        meta.gso = Some(Gso { segment_bytes: self.segment_bytes, kind: self.kind });
        meta.checksum = if self.partial { Checksum::Partial { offset: offset as u16 } } else { Checksum::Valid };
        meta.completion = Some(completion());
        if self.positions {
            meta.network_at = position + network as u16;
            meta.transport_at = position + transport as u16;
        }
        frame
    }
}

fn completion() -> Completion {
    Completion { block: BlockId(4), token: 9, bytes: 3 }
}

fn parse(bytes: &[u8], ethernet: bool) -> SlicedPacket<'_> {
    if ethernet { SlicedPacket::from_ethernet(bytes).unwrap() } else { SlicedPacket::from_ip(bytes).unwrap() }
}

/// Checks every field of a cut frame against the original and returns its payload.
fn check_piece(piece: &[u8], index: usize, count: usize, large: &Large) -> Vec<u8> {
    let packet = parse(piece, large.ethernet);
    match packet.net.as_ref().unwrap() {
        NetSlice::Ipv4(ip) => {
            assert_eq!(ip.header().to_header().calc_header_checksum(), ip.header().header_checksum());
            assert_eq!(usize::from(ip.header().identification()), index);
            assert_eq!(usize::from(ip.header().total_len()), piece.len() - layout_of(piece, large).0);
        }
        NetSlice::Ipv6(ip) => assert_eq!(usize::from(ip.header().payload_length()), piece.len() - layout_of(piece, large).1),
        NetSlice::Arp(_) => unreachable!("no ARP was built"),
    }
    match packet.transport.as_ref().unwrap() {
        TransportSlice::Tcp(tcp) => {
            let header = tcp.to_header();
            let sum = match packet.net.as_ref().unwrap() {
                NetSlice::Ipv4(ip) => header.calc_checksum_ipv4(&ip.header().to_header(), tcp.payload()).unwrap(),
                NetSlice::Ipv6(ip) => header.calc_checksum_ipv6(&ip.header().to_header(), tcp.payload()).unwrap(),
                NetSlice::Arp(_) => unreachable!("no ARP was built"),
            };
            assert_eq!(header.checksum, sum);
            let last = index + 1 == count;
            assert_eq!(header.sequence_number, large.sequence.wrapping_add((index * usize::from(large.segment_bytes)) as u32));
            assert_eq!((header.psh, header.fin, header.cwr), (last, last && large.fin, index == 0));
            assert_eq!((header.acknowledgment_number, header.window_size), (77, 1000));
            tcp.payload().to_vec()
        }
        TransportSlice::Udp(udp) => {
            let header = udp.to_header();
            let sum = match packet.net.as_ref().unwrap() {
                NetSlice::Ipv4(ip) => header.calc_checksum_ipv4(&ip.header().to_header(), udp.payload()).unwrap(),
                NetSlice::Ipv6(ip) => header.calc_checksum_ipv6(&ip.header().to_header(), udp.payload()).unwrap(),
                NetSlice::Arp(_) => unreachable!("no ARP was built"),
            };
            assert_eq!(header.checksum, sum);
            assert_eq!(usize::from(header.length), 8 + udp.payload().len());
            udp.payload().to_vec()
        }
        _ => unreachable!("only TCP and UDP were built"),
    }
}

fn layout_of(bytes: &[u8], large: &Large) -> (usize, usize) {
    let network = if !large.ethernet {
        0
    } else if u16_at(bytes, 12) == Some(0x8100) {
        18
    } else {
        14
    };
    (network, network + 40)
}

/// The same packet on its way up, its IP header pulled; and on its way down, before it has one.
fn between(large: &Large, down: bool) -> Frame {
    let mut frame = large.frame();
    let (_, network, transport) = large.bytes();
    frame.pull(transport).unwrap();
    let at = frame.position();
    frame.meta_mut().transport_at = at;
    frame.meta_mut().network_at = at - (transport - network) as u16;
    if !down {
        return frame;
    }
    let mut bare = Frame::egress();
    bare.extend(frame.head());
    frame.tail().iter().for_each(|slice| bare.append(slice.clone()));
    let at = bare.position();
    let address = |v4: [u8; 4], v6: u8| if large.v6 { IpAddr::from([v6; 16]) } else { IpAddr::from(v4) };
    let protocol = if large.kind == GsoKind::Tcp { Protocol::TCP } else { Protocol::UDP };
    let (src, dst) = (address([10, 0, 0, 1], 7), address([10, 0, 0, 2], 8));
    *bare.meta_mut() = Meta { direction: Direction::Egress, network_at: 0, transport_at: at, src, dst, protocol, ..frame.meta().clone() };
    bare
}

proptest! {
    #[test]
    fn frames_between_ip_and_transports_are_cut_as_those_of_a_wire(large in large()) {
        // What is on its way down has its checksum before it.
        let large = Large { partial: true, ..large };
        let (_, network, transport) = large.bytes();
        for checksums in [CutChecksums::Complete, CutChecksums::Partial] {
            let (mut wire, mut up, mut down) = (Vec::new(), Vec::new(), Vec::new());
            cut(large.frame(), checksums, &mut wire);
            cut(between(&large, false), checksums, &mut up);
            cut(between(&large, true), checksums, &mut down);
            prop_assert_eq!((up.len(), down.len()), (wire.len(), wire.len()));
            for (wire, (mut up, down)) in wire.iter().zip(up.into_iter().zip(down)) {
                let wanted = wire.to_vec();
                prop_assert_eq!(&up.to_vec(), &wanted[transport..]);
                prop_assert_eq!(&down.to_vec(), &wanted[transport..]);
                for piece in [&up, &down] {
                    prop_assert!(piece.meta().gso.is_none() && piece.meta().transport_at == piece.position());
                    prop_assert_eq!(&piece.meta().completion, &wire.meta().completion);
                    prop_assert_eq!(piece.meta().checksum, wire.meta().checksum);
                }
                prop_assert_eq!(down.meta().network_at, 0);
                up.rewind(up.meta().network_at);
                prop_assert_eq!(&up.to_vec(), &wanted[network..]);
            }
        }
    }

    #[test]
    fn cut_frames_are_whole_packets_and_hold_the_original_bytes(large in large()) {
        for checksums in [CutChecksums::Complete, CutChecksums::Partial] {
            let mut pieces = Vec::new();
            cut(large.frame(), checksums, &mut pieces);
            let count = large.payload.len().div_ceil(usize::from(large.segment_bytes));
            prop_assert_eq!(pieces.len(), count);
            let mut joined = Vec::new();
            for (index, mut piece) in pieces.into_iter().enumerate() {
                prop_assert!(piece.meta().gso.is_none());
                prop_assert_eq!(piece.meta().completion, (index + 1 == count).then(completion));
                if count > 1 {
                    prop_assert_eq!(matches!(piece.meta().checksum, Checksum::Partial { .. }), checksums == CutChecksums::Partial);
                }
                complete_checksum(&mut piece);
                prop_assert!(verify(&piece));
                let payload = check_piece(&piece.to_vec(), index, count, &large);
                prop_assert!(index + 1 == count || payload.len() == usize::from(large.segment_bytes));
                joined.extend_from_slice(&payload);
            }
            prop_assert_eq!(&joined, &large.payload);
        }
    }

    #[test]
    fn a_completed_checksum_is_the_one_that_was_there(large in large()) {
        let mut frame = large.frame();
        complete_checksum(&mut frame);
        prop_assert_eq!(frame.meta().checksum, Checksum::Valid);
        prop_assert_eq!(frame.to_vec(), large.bytes().0);
        prop_assert!(verify(&frame));
    }

    #[test]
    fn a_changed_bit_is_found(large in large(), at in any::<usize>(), bit in 0u8..8) {
        let (mut bytes, _, transport) = large.bytes();
        let at = transport + at % (bytes.len() - transport);
        // A zero checksum under UDP over IPv4 means "none".
        let checksum = transport + 6;
        prop_assume!(large.v6 || large.kind == GsoKind::Tcp || !(checksum..checksum + 2).contains(&at));
        bytes[at] ^= 1u8 << bit;
        prop_assert!(!verify(&Frame::ingress(&bytes)));
    }

    #[test]
    fn any_bytes_are_survived(mut bytes in proptest::collection::vec(any::<u8>(), 0..300), first in any::<u8>(), offset in any::<u16>(),
                              network_at in 0u16..400, transport_at in 0u16..400, segment_bytes in any::<u16>(), split in 0usize..300) {
        if let Some(byte) = bytes.first_mut() {
            *byte = first;
        }
        let split = split.min(bytes.len());
        let mut frame = Frame::ingress_parts(&bytes[..split], Bytes::copy_from_slice(&bytes[split..]));
        let meta = frame.meta_mut();
        meta.checksum = Checksum::Partial { offset };
        meta.gso = Some(Gso { segment_bytes, kind: if first & 1 == 0 { GsoKind::Tcp } else { GsoKind::Udp } });
        (meta.network_at, meta.transport_at) = (network_at, transport_at);
        verify(&frame);
        let mut out = Vec::new();
        cut(frame.clone(), CutChecksums::Complete, &mut out);
        prop_assert!(!out.is_empty());
        complete_checksum(&mut frame);
        prop_assert_eq!(frame.len(), bytes.len());
    }
}

#[test]
fn payload_is_shared_and_not_copied() {
    let payload = Bytes::from(vec![3u8; 4000]);
    let mut frame = Frame::egress();
    let builder = PacketBuilder::ipv4([1, 2, 3, 4], [5, 6, 7, 8], 9).udp(1, 2);
    let mut bytes = Vec::new();
    builder.write(&mut bytes, &payload).unwrap();
    frame.push(28).copy_from_slice(&bytes[..28]);
    frame.append(payload.clone());
    frame.meta_mut().gso = Some(Gso { segment_bytes: 1400, kind: GsoKind::Udp });
    let mut out = Vec::new();
    cut(frame, CutChecksums::Complete, &mut out);
    assert_eq!(out.len(), 3);
    for (index, piece) in out.iter().enumerate() {
        assert_eq!(piece.tail()[0].as_ptr(), payload[index * 1400..].as_ptr());
    }
}

#[test]
fn a_frame_of_one_segment_and_a_foreign_protocol_go_through_whole() {
    let mut bytes = Vec::new();
    PacketBuilder::ipv4([1, 2, 3, 4], [5, 6, 7, 8], 9).icmpv4_echo_request(1, 2).write(&mut bytes, &[1; 3000]).unwrap();
    let mut frame = Frame::ingress(&bytes);
    frame.meta_mut().gso = Some(Gso { segment_bytes: 100, kind: GsoKind::Tcp });
    assert!(needs_cut(&frame, 0) && needs_cut(&frame, 1500) && !needs_cut(&frame, 65_550));
    let mut out = Vec::new();
    cut(frame, CutChecksums::Complete, &mut out);
    assert_eq!(out.len(), 1);
    assert_eq!((out[0].to_vec(), out[0].meta().gso), (bytes, None));
    assert!(!needs_cut(&out[0], 0));
}

#[test]
fn udp_without_a_checksum_stays_without() {
    let mut bytes = Vec::new();
    PacketBuilder::ipv4([1, 2, 3, 4], [5, 6, 7, 8], 9).udp(1, 2).write(&mut bytes, &[1; 3000]).unwrap();
    bytes[26..28].fill(0);
    let mut frame = Frame::ingress(&bytes);
    frame.meta_mut().gso = Some(Gso { segment_bytes: 1000, kind: GsoKind::Udp });
    let mut out = Vec::new();
    cut(frame, CutChecksums::Complete, &mut out);
    assert_eq!(out.len(), 3);
    assert!(out.iter().all(|piece| piece.head()[26..28] == [0, 0] && verify(piece)));
}
