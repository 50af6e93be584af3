//! Joining consecutive TCP segments into one large frame: the opposite of [`cut`](super::cut), and what Linux calls GRO
//! (net/core/gro.c, net/ipv4/tcp_offload.c).
//!
//! Forty segments that climb the stack as one frame cost one walk through the graph, one search for their connection and one
//! acknowledgment.
//!
//! # Contract
//!
//! * Joined is only what [`cut`](super::cut) would make of the joined frame again, byte for byte: the same Ethernet and IP addresses, TTL,
//!   TOS and DF; identifications (IPv4) that count up by one; the same ports, acknowledgment, window, flags and options (timestamps among
//!   them); consecutive sequence numbers; payloads of one length, of which only the last may be shorter; PSH and FIN only on the last, CWR
//!   only on the first. This is stricter than Linux, which also joins packets whose identification stays the same under DF.
//! * Checksums are verified before, so that an error in one segment spoils only that one.
//! * Frames of one connection keep their order. Those of several connections may overtake each other, within the batch.
//! * Nothing is held back: what a call is given leaves with it.
//!
//! It leaves alone: everything but TCP; segments without payload, with SYN, RST or URG; IPv4 options, IPv6 extension headers,
//! fragments, VLAN tags, padded frames, frames whose headers are not contiguous, and frames that are large already.

use super::{IPV4_IDENTIFICATION_AT, IPV4_TOTAL_LEN_AT, IPV6_HEADER_LEN, IPV6_PAYLOAD_LEN_AT, TCP_CWR, TCP_FLAGS_AT, TCP_SEQ_AT};
use super::{put_u16, sum_range, u16_at};
use crate::frame::{Checksum, Frame, Gso, GsoKind};
use bytes::Bytes;
use smallvec::SmallVec;
use std::net::{Ipv4Addr, Ipv6Addr};
use weft_wire::checksum::{self, Sum};
use weft_wire::ethernet::{self, EtherType};
use weft_wire::{Protocol, ipv4, tcp};

/// Connections whose segments are joined at a time (Linux: eight for each of eight buckets).
const RUNS_MAX: usize = 8;
/// The largest IP packet.
const PACKET_BYTES_MAX: usize = 65_535;
const IPV4_HEADER_LEN: usize = 20;
const TCP_FIN: u8 = 0x01;
const TCP_PSH: u8 = 0x08;
const TCP_ACK: u8 = 0x10;
/// FIN, PSH, ACK, ECE, CWR: what segments that can be joined may have.
const TCP_JOINABLE: u8 = TCP_FIN | TCP_PSH | TCP_ACK | 0x40 | TCP_CWR;

/// What a frame is to us.
enum Found {
    /// Not TCP.
    Other,
    /// TCP in a form that is not understood here: perhaps of a connection that something is being joined of.
    Odd,
    Tcp(Segment),
}

/// Where the parts of a plain TCP segment are, as offsets from the start of the frame.
#[derive(Clone, Copy)]
struct Segment {
    network: usize,
    transport: usize,
    header_bytes: usize,
    payload_bytes: usize,
    v6: bool,
    /// It has payload, and no flag that must be seen alone.
    joinable: bool,
}

/// A frame that others are being added to.
struct Run {
    /// Its place among the frames.
    at: usize,
    segment: Segment,
    segment_bytes: usize,
    packet_bytes: usize,
    count: u16,
    next_sequence: u32,
    /// Flags that the last segment adds.
    last_flags: u8,
    /// Nothing fits behind what it has.
    closed: bool,
}

/// Joins what can be joined among the frames from `from` on; the frames before are left alone. Returns how many frames are fewer now.
pub fn coalesce(frames: &mut Vec<Frame>, from: usize) -> usize {
    let mut runs: SmallVec<[Run; RUNS_MAX]> = SmallVec::new();
    let mut kept = from;
    for at in from..frames.len() {
        let (before, rest) = frames.split_at_mut(at);
        let Some(frame) = rest.first_mut() else { break };
        if !join(before, &mut runs, kept, frame) {
            frames.swap(kept, at);
            kept += 1;
        }
    }
    for run in &runs {
        seal(frames, run);
    }
    let joined = frames.len() - kept;
    frames.truncate(kept);
    joined
}

/// Adds a frame to the run it continues (true), or opens one with it at `place`, or neither.
fn join(before: &mut [Frame], runs: &mut SmallVec<[Run; RUNS_MAX]>, place: usize, frame: &mut Frame) -> bool {
    let segment = match find(frame) {
        Found::Other => return false,
        Found::Odd => {
            runs.drain(..).for_each(|run| seal(before, &run));
            return false;
        }
        Found::Tcp(segment) => segment,
    };
    let valid = segment.joinable && is_verified(frame, &segment);
    let of = runs.iter().position(|run| before.get(run.at).is_some_and(|first| is_same_flow(first, &run.segment, frame, &segment)));
    if let Some(at) = of {
        let run = &mut runs[at];
        if let Some(first) = before.get_mut(run.at).filter(|first| valid && run.continues(first, frame, &segment)) {
            run.append(first, frame, &segment);
            return true;
        }
        // Whatever it is, nothing of its connection may be put in front of it.
        seal(before, &runs.swap_remove(at));
    }
    if valid && frame.head().get(segment.transport + TCP_FLAGS_AT).is_some_and(|flags| flags & (TCP_FIN | TCP_PSH) == 0) {
        if runs.len() == RUNS_MAX {
            seal(before, &runs.remove(0));
        }
        runs.push(Run::new(place, frame, segment));
    }
    false
}

/// Looks at the headers.
fn find(frame: &Frame) -> Found {
    let (meta, head) = (frame.meta(), frame.head());
    let network = match meta.network_at {
        0 => match u16_at(head, 12).map(EtherType) {
            Some(EtherType::IPV4 | EtherType::IPV6) => ethernet::HEADER_LEN,
            Some(EtherType::ARP) | None => return Found::Other,
            Some(_) => return Found::Odd,
        },
        at if at >= frame.position() => usize::from(at - frame.position()),
        _ => return Found::Odd,
    };
    let Some((&first, protocol)) = head.get(network).zip(protocol(head, network)) else { return Found::Odd };
    if matches!(Protocol(protocol), Protocol::UDP | Protocol::ICMP | Protocol::ICMPV6) {
        return Found::Other;
    }
    if Protocol(protocol) != Protocol::TCP || meta.gso.is_some() {
        return Found::Odd;
    }
    let (transport, packet_bytes) = match first {
        // Version 4 without options; not a fragment ("more fragments" and the offset, below the bit of DF).
        0x45 if u16_at(head, network + 6).is_some_and(|field| field & 0xbfff == 0) => {
            (network + IPV4_HEADER_LEN, usize::from(u16_at(head, network + IPV4_TOTAL_LEN_AT).unwrap_or(0)))
        }
        0x60..=0x6f => (network + IPV6_HEADER_LEN, IPV6_HEADER_LEN + usize::from(u16_at(head, network + IPV6_PAYLOAD_LEN_AT).unwrap_or(0))),
        _ => return Found::Odd,
    };
    let Some((&offset, &flags)) = head.get(transport + TCP_FLAGS_AT - 1).zip(head.get(transport + TCP_FLAGS_AT)) else { return Found::Odd };
    let tcp_bytes = usize::from(offset >> 4) * 4;
    let header_bytes = transport + tcp_bytes;
    if tcp_bytes < tcp::HEADER_LEN || head.len() < header_bytes {
        return Found::Odd;
    }
    let payload_bytes = frame.len() - header_bytes;
    // Padding would become payload. A pure acknowledgment often has some; it is not joined anyway.
    let whole = network + packet_bytes == frame.len();
    let joinable = whole && payload_bytes > 0 && flags & TCP_ACK != 0 && flags & !TCP_JOINABLE == 0;
    Found::Tcp(Segment { network, transport, header_bytes, payload_bytes, v6: first >> 4 == 6, joinable })
}

/// The protocol field of an IPv4 or IPv6 header.
fn protocol(head: &[u8], network: usize) -> Option<u8> {
    head.get(network + if head.get(network)? >> 4 == 6 { 6 } else { 9 }).copied()
}

/// Addresses and ports of both sides, which lie next to each other, and below them the same kind of frame.
fn is_same_flow(first: &Frame, run: &Segment, frame: &Frame, segment: &Segment) -> bool {
    let from = |of: &Segment| of.network + if of.v6 { 8 } else { 12 };
    (run.network, run.transport) == (segment.network, segment.transport)
        && first.meta().interface == frame.meta().interface
        && first.head().get(from(run)..run.transport + 4) == frame.head().get(from(segment)..segment.transport + 4)
}

/// The pseudo-header's sum for the segment with `length` bytes of TCP header and payload.
fn pseudo(head: &[u8], segment: &Segment, length: usize) -> Sum {
    let bytes = head.get(segment.network..segment.transport).unwrap_or_default();
    if segment.v6 {
        let at = |at: usize| Ipv6Addr::from(bytes.get(at..).and_then(|rest| rest.first_chunk::<16>()).copied().unwrap_or_default());
        return checksum::pseudo_v6(at(8), at(24), Protocol::TCP.0, length as u32);
    }
    let at = |at: usize| Ipv4Addr::from(bytes.get(at..).and_then(|rest| rest.first_chunk::<4>()).copied().unwrap_or_default());
    checksum::pseudo_v4(at(12), at(16), Protocol::TCP.0, length as u32)
}

/// Whether both checksums are right. What was found of TCP's is kept in the metadata: nobody need sum it again.
fn is_verified(frame: &mut Frame, segment: &Segment) -> bool {
    if !segment.v6 && frame.head().get(segment.network..segment.transport).is_none_or(|header| checksum::of(header) != 0) {
        return false;
    }
    match frame.meta().checksum {
        Checksum::Valid => true,
        Checksum::Partial { offset } => {
            usize::from(offset) == tcp::CHECKSUM_OFFSET
                && usize::from(frame.meta().transport_at) == usize::from(frame.position()) + segment.transport
        }
        Checksum::Covers(_) | Checksum::Absent => false,
        Checksum::Unknown => {
            let sum = pseudo(frame.head(), segment, frame.len() - segment.transport);
            let valid = sum_range(sum, frame, segment.transport, frame.len()).fold() == 0xffff;
            if valid {
                frame.meta_mut().checksum = Checksum::Valid;
            }
            valid
        }
    }
}

fn sequence(head: &[u8], segment: &Segment) -> u32 {
    head.get(segment.transport + TCP_SEQ_AT..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

impl Run {
    fn new(at: usize, frame: &Frame, segment: Segment) -> Run {
        Run {
            at,
            segment,
            segment_bytes: segment.payload_bytes,
            packet_bytes: frame.len() - segment.network,
            count: 1,
            next_sequence: sequence(frame.head(), &segment).wrapping_add(segment.payload_bytes as u32),
            last_flags: 0,
            closed: false,
        }
    }

    /// Whether the frame, of the same connection and verified, is the next segment after what has been joined.
    fn continues(&self, first: &Frame, frame: &Frame, segment: &Segment) -> bool {
        let (ours, theirs) = (first.head(), frame.head());
        let (network, transport) = (segment.network, segment.transport);
        let same = |from: usize, to: usize| ours.get(from..to).is_some_and(|bytes| theirs.get(from..to) == Some(bytes));
        let flags = |head: &[u8]| head.get(transport + TCP_FLAGS_AT).copied().unwrap_or(0);
        let ip_is_same = if segment.v6 {
            // All but the payload's length.
            same(0, network + IPV6_PAYLOAD_LEN_AT) && same(network + 6, transport)
        } else {
            // All but total length, identification and checksum.
            let identification = |head: &[u8]| u16_at(head, network + IPV4_IDENTIFICATION_AT).unwrap_or(0);
            same(0, network + IPV4_TOTAL_LEN_AT)
                && same(network + 6, network + ipv4::CHECKSUM_OFFSET)
                && same(network + 12, transport)
                && identification(theirs) == identification(ours).wrapping_add(self.count)
        };
        !self.closed
            && self.segment.header_bytes == segment.header_bytes
            && segment.payload_bytes <= self.segment_bytes
            && self.packet_bytes + segment.payload_bytes <= PACKET_BYTES_MAX
            && sequence(theirs, segment) == self.next_sequence
            && ip_is_same
            // Acknowledgment, header length; window; urgent pointer and options.
            && same(transport + 8, transport + TCP_FLAGS_AT)
            && same(transport + 14, transport + tcp::CHECKSUM_OFFSET)
            && same(transport + 18, segment.header_bytes)
            && flags(theirs) & TCP_CWR == 0
            && (flags(ours) ^ flags(theirs)) & !(TCP_FIN | TCP_PSH | TCP_CWR) == 0
    }

    fn append(&mut self, first: &mut Frame, frame: &mut Frame, segment: &Segment) {
        let flags = frame.head().get(segment.transport + TCP_FLAGS_AT).copied().unwrap_or(0);
        if let Some(rest) = frame.head().get(segment.header_bytes..) {
            first.append(Bytes::copy_from_slice(rest));
        }
        for slice in frame.take_tail() {
            first.append(slice);
        }
        self.count += 1;
        self.packet_bytes += segment.payload_bytes;
        self.next_sequence = self.next_sequence.wrapping_add(segment.payload_bytes as u32);
        self.last_flags = flags & (TCP_FIN | TCP_PSH);
        self.closed = self.last_flags != 0 || segment.payload_bytes < self.segment_bytes;
    }
}

/// Puts the headers of a run right. The checksum becomes one that is not computed yet, as in a large frame that a device hands over.
fn seal(frames: &mut [Frame], run: &Run) {
    let Some(frame) = frames.get_mut(run.at).filter(|_| run.count > 1) else { return };
    let Segment { network, transport, v6, .. } = run.segment;
    let length = frame.len() - transport;
    let pseudo = pseudo(frame.head(), &run.segment, length).fold();
    let position = frame.position();
    let head = frame.head_mut();
    if v6 {
        put_u16(head, network + IPV6_PAYLOAD_LEN_AT, (run.packet_bytes - IPV6_HEADER_LEN) as u16);
    } else if let Some(header) = head.get_mut(network..transport) {
        put_u16(header, IPV4_TOTAL_LEN_AT, run.packet_bytes as u16);
        put_u16(header, ipv4::CHECKSUM_OFFSET, 0);
        put_u16(header, ipv4::CHECKSUM_OFFSET, checksum::of(header));
    }
    if let Some(flags) = head.get_mut(transport + TCP_FLAGS_AT) {
        *flags |= run.last_flags;
    }
    put_u16(head, transport + tcp::CHECKSUM_OFFSET, pseudo);
    let meta = frame.meta_mut();
    meta.checksum = Checksum::Partial { offset: tcp::CHECKSUM_OFFSET as u16 };
    meta.transport_at = position + transport as u16;
    meta.gso = Some(Gso { segment_bytes: run.segment_bytes as u16, kind: GsoKind::Tcp });
}

#[cfg(test)]
mod tests;
