//! Segments are built by etherparse, joined here, and cut again: what comes out is what went in.

use super::super::{CutChecksums, cut, verify};
use super::*;
use crate::frame::InterfaceIndex;
use etherparse::PacketBuilder;
use proptest::prelude::*;

/// One segment of a connection.
#[derive(Clone, Debug)]
struct Piece {
    flow: u16,
    sequence: u32,
    identification: u16,
    payload: Vec<u8>,
    acknowledgment: u32,
    window: u16,
    flags: u8,
    timestamp: u32,
    ttl: u8,
    v6: bool,
    spoiled: bool,
}

impl Piece {
    fn new(flow: u16, sequence: u32, identification: u16, payload_bytes: usize) -> Piece {
        let payload = (0..payload_bytes).map(|at| (sequence as usize + at) as u8).collect();
        let (acknowledgment, window, flags, timestamp, ttl) = (77, 500, TCP_ACK, 9, 64);
        Piece { flow, sequence, identification, payload, acknowledgment, window, flags, timestamp, ttl, v6: false, spoiled: false }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let link = PacketBuilder::ethernet2([2; 6], [4; 6]);
        let ip = match self.v6 {
            true => link.ipv6([1; 16], [2; 16], self.ttl),
            false => link.ip(etherparse::IpHeaders::Ipv4(
                etherparse::Ipv4Header {
                    identification: self.identification,
                    ..etherparse::Ipv4Header::new(0, self.ttl, etherparse::IpNumber::TCP, [1, 2, 3, 4], [5, 6, 7, 8]).unwrap()
                },
                Default::default(),
            )),
        };
        let mut tcp = ip.tcp(80 + self.flow, 4000, self.sequence, self.window).ack(self.acknowledgment);
        for (bit, set) in [(0x01, etherparse::PacketBuilderStep::fin as fn(_) -> _), (0x02, etherparse::PacketBuilderStep::syn)] {
            tcp = if self.flags & bit != 0 { set(tcp) } else { tcp };
        }
        for (bit, set) in [
            (0x04, etherparse::PacketBuilderStep::rst as fn(_) -> _),
            (TCP_PSH, etherparse::PacketBuilderStep::psh),
            (0x40, etherparse::PacketBuilderStep::ece),
            (TCP_CWR, etherparse::PacketBuilderStep::cwr),
        ] {
            tcp = if self.flags & bit != 0 { set(tcp) } else { tcp };
        }
        let options = [[1, 1, 8, 10].as_slice(), &self.timestamp.to_be_bytes(), &[0; 4]].concat();
        tcp.options_raw(&options).unwrap().write(&mut bytes, &self.payload).unwrap();
        if self.spoiled {
            *bytes.last_mut().unwrap() ^= 0x10;
        }
        bytes
    }

    /// With so many of the bytes in the head as `head_bytes` says.
    fn frame(&self, head_bytes: usize) -> Frame {
        let bytes = self.bytes();
        let (head, tail) = bytes.split_at(head_bytes.min(bytes.len()));
        let mut frame = Frame::ingress_parts(head, Bytes::copy_from_slice(tail));
        frame.meta_mut().interface = InterfaceIndex(3);
        frame
    }
}

fn flow_of(bytes: &[u8]) -> u16 {
    let transport = if bytes[14] >> 4 == 6 { 54 } else { 34 };
    u16::from_be_bytes([bytes[transport], bytes[transport + 1]]) | u16::from(bytes[14] >> 4) << 12
}

fn frames(pieces: &[Piece]) -> Vec<Frame> {
    pieces.iter().map(|piece| piece.frame(220)).collect()
}

/// Joins, and returns the payload bytes of each frame that is left.
fn joined(pieces: &[Piece]) -> Vec<usize> {
    let mut frames = frames(pieces);
    coalesce(&mut frames, 0);
    frames.iter().map(|frame| frame.len() - if frame.head()[14] >> 4 == 6 { 86 } else { 66 }).collect()
}

/// Consecutive segments of `each` bytes.
fn row(count: u32, each: u32) -> Vec<Piece> {
    (0..count).map(|n| Piece::new(1, 1000 + n * each, 50 + n as u16, each as usize)).collect()
}

#[test]
fn a_row_of_segments_becomes_one_frame_as_a_device_would_hand_it_over() {
    for v6 in [false, true] {
        let mut pieces = row(5, 1448);
        pieces.push(Piece { flags: TCP_ACK | TCP_PSH, ..Piece::new(1, 1000 + 5 * 1448, 55, 100) });
        pieces.iter_mut().for_each(|piece| piece.v6 = v6);
        let mut frames = frames(&pieces);
        assert_eq!(coalesce(&mut frames, 0), 5);
        let [frame] = frames.as_slice() else { panic!("{} frames", frames.len()) };
        let transport = if v6 { 54 } else { 34 };
        assert_eq!(frame.len(), transport + 32 + 5 * 1448 + 100);
        assert_eq!(frame.meta().gso, Some(Gso { segment_bytes: 1448, kind: GsoKind::Tcp }));
        assert_eq!(frame.meta().checksum, Checksum::Partial { offset: 16 });
        assert_eq!(frame.meta().transport_at, frame.position() + transport as u16);
        assert_eq!(frame.head()[transport + TCP_FLAGS_AT], TCP_ACK | TCP_PSH);
        assert!(verify(frame), "lengths and the header's checksum");
        let payload: Vec<u8> = pieces.iter().flat_map(|piece| piece.payload.clone()).collect();
        assert_eq!(frame.to_vec()[transport + 32..], payload);
    }
}

#[test]
fn what_differs_is_not_joined() {
    type Change = fn(&mut Piece);
    let differing: [(&str, Change); 12] = [
        ("acknowledgment", |piece| piece.acknowledgment += 1),
        ("window", |piece| piece.window += 1),
        ("timestamp", |piece| piece.timestamp += 1),
        ("TTL", |piece| piece.ttl -= 1),
        ("identification", |piece| piece.identification += 1),
        ("a gap", |piece| piece.sequence += 1),
        ("a retransmission", |piece| piece.sequence -= 10),
        ("connection", |piece| piece.flow += 1),
        ("SYN", |piece| piece.flags |= 0x02),
        ("RST", |piece| piece.flags |= 0x04),
        ("ECE", |piece| piece.flags |= 0x40),
        ("CWR", |piece| piece.flags |= TCP_CWR),
    ];
    assert_eq!(joined(&row(2, 10)), [20]);
    for (what, change) in differing {
        let mut pieces = row(2, 10);
        change(&mut pieces[1]);
        assert_eq!(joined(&pieces), [10, 10], "{what}");
    }
    let mut longer = row(2, 10);
    longer[1].payload.push(1);
    assert_eq!(joined(&longer), [10, 11]);
}

#[test]
fn a_short_segment_psh_and_fin_end_a_frame() {
    let mut short = row(4, 10);
    short[1].payload.pop();
    short[2].sequence -= 1;
    short[3].sequence -= 1;
    assert_eq!(joined(&short), [19, 20]);
    for flag in [TCP_PSH, TCP_FIN] {
        let mut pieces = row(4, 10);
        pieces[1].flags |= flag;
        assert_eq!(joined(&pieces), [20, 20]);
        pieces[0].flags |= flag;
        assert_eq!(joined(&pieces), [10, 10, 20]);
    }
}

#[test]
fn cwr_begins_a_frame() {
    let mut pieces = row(3, 10);
    pieces[0].flags |= TCP_CWR;
    assert_eq!(joined(&pieces), [30]);
}

#[test]
fn a_spoiled_segment_stays_alone_and_spoils_nothing() {
    let mut pieces = row(5, 10);
    pieces[2].spoiled = true;
    let mut frames = frames(&pieces);
    assert_eq!(coalesce(&mut frames, 0), 2);
    assert_eq!(frames.iter().map(|frame| (frame.len() - 66, verify(frame))).collect::<Vec<_>>(), [(20, true), (10, false), (20, true)]);
    assert_eq!(frames[1].meta().checksum, Checksum::Unknown);
}

#[test]
fn an_acknowledgment_between_is_not_overtaken() {
    let mut pieces = row(4, 10);
    pieces.insert(2, Piece { acknowledgment: 99, ..Piece::new(1, 1020, 60, 0) });
    assert_eq!(joined(&pieces), [20, 0, 20]);
    // Another connection's may be.
    pieces[2].flow = 2;
    assert_eq!(joined(&pieces), [40, 0]);
}

#[test]
fn no_frame_grows_beyond_an_ip_packet() {
    let sizes = joined(&row(100, 1448));
    assert_eq!(sizes, [45 * 1448, 45 * 1448, 10 * 1448]);
    const { assert!(45 * 1448 + 52 <= PACKET_BYTES_MAX && 46 * 1448 + 52 > PACKET_BYTES_MAX) };
}

#[test]
fn more_connections_than_are_followed_keep_all_their_bytes() {
    let mut pieces = Vec::new();
    for round in 0..3 {
        pieces.extend((0..RUNS_MAX as u16 + 3).map(|flow| Piece::new(flow, 1000 + round * 10, round as u16, 10)));
    }
    assert_eq!(joined(&pieces).iter().sum::<usize>(), pieces.len() * 10);
}

#[test]
fn frames_that_came_before_are_left_alone() {
    let mut frames = frames(&row(4, 10));
    assert_eq!(coalesce(&mut frames, 2), 1);
    assert_eq!(frames.iter().map(|frame| frame.len() - 66).collect::<Vec<_>>(), [10, 10, 20]);
}

/// Mostly a row of segments, with something odd here and there.
fn traffic() -> impl Strategy<Value = Vec<Piece>> {
    let change = prop_oneof![12 => Just(0u8), 1 => 1u8..12];
    proptest::collection::vec((0u16..3, change, prop_oneof![6 => Just(100usize), 1 => 0usize..140]), 1..80).prop_map(|steps| {
        let mut next = [(1000u32, 1u16); 3];
        steps
            .into_iter()
            .map(|(flow, change, bytes)| {
                let (sequence, identification) = &mut next[usize::from(flow)];
                let mut piece = Piece::new(flow, *sequence, *identification, bytes);
                match change {
                    1 => piece.flags |= TCP_PSH,
                    2 => piece.flags |= TCP_FIN,
                    3 => piece.flags |= TCP_CWR,
                    4 => piece.flags |= 0x40,
                    5 => piece.flags |= 0x02,
                    6 => piece.timestamp += 1,
                    7 => piece.spoiled = !piece.payload.is_empty(),
                    8 => piece.sequence += 7,
                    9 => piece.identification += 9,
                    10 => piece.acknowledgment += 4,
                    11 => piece.window += 4,
                    _ => {}
                }
                piece.v6 = flow == 2;
                *sequence = sequence.wrapping_add(bytes as u32);
                *identification = identification.wrapping_add(1);
                piece
            })
            .collect()
    })
}

proptest! {
    /// Joined and cut again, each connection's frames are what they were, in their order, to the byte.
    #[test]
    fn cutting_undoes_joining(pieces in traffic(), head_bytes in 90usize..256) {
        let mut frames: Vec<Frame> = pieces.iter().map(|piece| piece.frame(head_bytes)).collect();
        let before: Vec<Vec<u8>> = frames.iter().map(Frame::to_vec).collect();
        let count = frames.len();
        let fewer = coalesce(&mut frames, 0);
        prop_assert_eq!(frames.len() + fewer, count);
        let mut after = Vec::new();
        for frame in frames {
            prop_assert!(frame.meta().gso.is_none() || verify(&frame));
            cut(frame, CutChecksums::Complete, &mut after);
        }
        let after: Vec<Vec<u8>> = after.iter().map(Frame::to_vec).collect();
        let flows: std::collections::BTreeSet<u16> = before.iter().map(|bytes| flow_of(bytes)).collect();
        for flow in flows {
            let of = |all: &[Vec<u8>]| all.iter().filter(|bytes| flow_of(bytes) == flow).cloned().collect::<Vec<_>>();
            prop_assert_eq!(of(&before), of(&after));
        }
    }

    #[test]
    fn any_bytes_are_survived(all in proptest::collection::vec((proptest::collection::vec(any::<u8>(), 0..200), 0usize..100, any::<u16>()), 1..6)) {
        let mut frames: Vec<Frame> = all.iter().map(|(bytes, head_bytes, network_at)| {
            let mut bytes = bytes.clone();
            if let Some(field) = bytes.get_mut(12..15) {
                field.copy_from_slice(&[8, 0, 0x45]);
            }
            if let Some(protocol) = bytes.get_mut(23) {
                *protocol = 6;
            }
            let (head, tail) = bytes.split_at((*head_bytes).min(bytes.len()));
            let mut frame = Frame::ingress_parts(head, Bytes::copy_from_slice(tail));
            frame.meta_mut().network_at = if network_at & 1 == 0 { 0 } else { network_at >> 6 };
            frame
        }).collect();
        let bytes: usize = frames.iter().map(Frame::len).sum();
        coalesce(&mut frames, 0);
        prop_assert!(frames.iter().map(Frame::len).sum::<usize>() <= bytes);
    }
}
