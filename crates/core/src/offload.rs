//! What network cards do for a stack, in software: completing checksums and cutting large frames (segmentation offload).
//!
//! A stack that leaves both to the last moment touches payload once, or never: a frame of 64 KiB crosses the graph as one pointer and a
//! kernel on the other side of a TAP device takes it as it is. Where a wire needs real frames, [`cut`] makes them without copying payload,
//! and where it brings them, [`coalesce`] makes one frame of many.
//!
//! # Contract
//!
//! * A frame here begins with its Ethernet header or its IP header. Where the headers are is taken from [`Meta::network_at`] and
//!   [`Meta::transport_at`](crate::Meta::transport_at) when they lie in the frame, and read from the bytes when not.
//! * [`cut`] takes frames between IP and a transport, too: on the way up their IP header was pulled and is still in front of them, on
//!   the way down there is none yet, and the metadata says what will be in it.
//! * Payload is summed where it lies and shared by the cut frames: nothing is joined or copied, but what happens to be in the head.
//! * Nothing panics on any bytes. A frame whose headers make no sense goes through unchanged: dropping is the protocol's decision.
//!
//! What it refuses to do: cut IPv6 packets with a routing header that still has segments left (their pseudo-header has another
//! destination), fragments, and tunnels from the outside (the inner packet is payload).

mod coalesce;

pub use coalesce::coalesce;

use crate::frame::{Checksum, Direction, Frame, Gso, GsoKind, HEAD_BYTES, Meta, Tail};
use bytes::Bytes;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weft_wire::Protocol;
use weft_wire::checksum::{self, Sum};
use weft_wire::ethernet::{self, EtherType};
use weft_wire::{ipv4, tcp, udp};

/// What [`cut`] does about transport checksums.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CutChecksums {
    /// Computes them: the frames are ready for a wire.
    Complete,
    /// Leaves them [`Checksum::Partial`], for a backend that computes them later (or trusts them).
    Partial,
}

const IPV6_HEADER_LEN: usize = 40;
/// Headers are looked for within this many bytes: every IPv4 packet, and IPv6 with the extension headers that occur.
const HEADERS_BYTES_MAX: usize = HEAD_BYTES;
/// A head of this size holds all headers that occur (Ethernet with a tag, 60 bytes of IPv4 and 60 of TCP are 138).
const HEADERS_BYTES_ENOUGH: usize = 192;
/// IPv6 extension headers read before giving up.
const EXTENSIONS_MAX: usize = 8;
const IPV4_TOTAL_LEN_AT: usize = 2;
const IPV4_IDENTIFICATION_AT: usize = 4;
const IPV6_PAYLOAD_LEN_AT: usize = 4;
const TCP_SEQ_AT: usize = 4;
const TCP_FLAGS_AT: usize = 13;
const TCP_FIN_PSH: u8 = 0x01 | 0x08;
const TCP_CWR: u8 = 0x80;
const UDP_LENGTH_AT: usize = 4;

/// Where the parts of a packet are, as offsets from the start of the frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Layout {
    network: usize,
    /// End of the IP header with its options or extension headers.
    transport: usize,
    /// End of the IP packet, behind which a frame is padded. May be more than the frame has: it is then truncated.
    end: usize,
    protocol: Protocol,
    addresses: Addresses,
    /// The transport header is not here, or only a part of the payload is.
    fragment: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Addresses {
    V4(Ipv4Addr, Ipv4Addr),
    V6(Ipv6Addr, Ipv6Addr),
}

impl Layout {
    fn is_v4(&self) -> bool {
        matches!(self.addresses, Addresses::V4(..))
    }
    /// The pseudo-header's sum for `length` bytes of transport header and payload.
    fn pseudo(&self, length: usize) -> Sum {
        match self.addresses {
            Addresses::V4(src, dst) => checksum::pseudo_v4(src, dst, self.protocol.0, length as u32),
            Addresses::V6(src, dst) => checksum::pseudo_v6(src, dst, self.protocol.0, length as u32),
        }
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(field) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        *field = value.to_be_bytes();
    }
}

/// The first bytes of a frame, contiguous: its head, or a copy in `room` when the head is short.
fn leading<'a>(frame: &'a Frame, room: &'a mut [u8; HEADERS_BYTES_MAX]) -> &'a [u8] {
    if frame.tail().is_empty() || frame.head().len() >= HEADERS_BYTES_ENOUGH {
        return frame.head();
    }
    let mut filled = 0;
    for chunk in frame.chunks() {
        let take = chunk.len().min(room.len() - filled);
        room[filled..filled + take].copy_from_slice(&chunk[..take]);
        filled += take;
    }
    &room[..filled]
}

/// Reads the headers. `len` is the whole frame's length; `bytes` are its first bytes.
fn layout(bytes: &[u8], len: usize, meta: &Meta, position: u16) -> Option<Layout> {
    if meta.network_at >= position && meta.network_at != 0 {
        return network_layout(bytes, usize::from(meta.network_at - position), len);
    }
    // An address 45:... is a group's and 6x:... is rare as a destination, but both exist: Ethernet is tried first, and must be consistent.
    let under_ethernet = ethernet::Header::parse(bytes).ok().and_then(|(header, at)| {
        let version = bytes.get(at)? >> 4;
        let plausible = matches!((header.ether_type, version), (EtherType::IPV4, 4) | (EtherType::IPV6, 6));
        plausible.then(|| network_layout(bytes, at, len)).flatten().filter(|layout| layout.end <= len)
    });
    under_ethernet.or_else(|| network_layout(bytes, 0, len))
}

fn network_layout(bytes: &[u8], at: usize, len: usize) -> Option<Layout> {
    match bytes.get(at)? >> 4 {
        4 => {
            let (header, header_len) = ipv4::Header::parse(bytes.get(at..)?).ok()?;
            Some(Layout {
                network: at,
                transport: at + header_len,
                end: at + usize::from(header.total_len),
                protocol: header.protocol,
                addresses: Addresses::V4(header.src, header.dst),
                fragment: header.more_fragments || header.fragment_offset != 0,
            })
        }
        6 => network_layout_v6(bytes, at, len),
        _ => None,
    }
}

fn network_layout_v6(bytes: &[u8], at: usize, len: usize) -> Option<Layout> {
    let header = bytes.get(at..)?.first_chunk::<IPV6_HEADER_LEN>()?;
    let payload_len = usize::from(u16_at(header, IPV6_PAYLOAD_LEN_AT)?);
    let src: [u8; 16] = *header[8..].first_chunk()?;
    let dst: [u8; 16] = *header[24..].first_chunk()?;
    let mut protocol = Protocol(header[6]);
    let mut transport = at + IPV6_HEADER_LEN;
    for _ in 0..EXTENSIONS_MAX {
        match protocol {
            Protocol::HOP_BY_HOP | Protocol::DESTINATION_OPTIONS | Protocol::ROUTING => {
                let [next, length, _, segments_left] = *bytes.get(transport..)?.first_chunk()?;
                if protocol == Protocol::ROUTING && segments_left != 0 {
                    return None;
                }
                protocol = Protocol(next);
                transport += (usize::from(length) + 1) * 8;
            }
            _ => break,
        }
    }
    Some(Layout {
        network: at,
        transport,
        // RFC 2675 §3: "The Payload Length field in the IPv6 header must be set to zero in every packet that carries the Jumbo Payload
        // option"; Linux's BIG TCP does so too.
        end: if payload_len == 0 { len } else { at + IPV6_HEADER_LEN + payload_len },
        protocol,
        addresses: Addresses::V6(src.into(), dst.into()),
        fragment: protocol == Protocol::FRAGMENT,
    })
}

/// Where the headers of a packet are, as offsets from the start of its frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Headers {
    /// The IP header.
    pub network: usize,
    /// The transport header, behind IP options and extension headers.
    pub transport: usize,
    /// IPv6; otherwise IPv4.
    pub ipv6: bool,
    /// What the transport header is.
    pub protocol: Protocol,
}

/// Finds the headers of an IP packet with a whole transport header in front; `None` for fragments and all else.
pub fn headers(frame: &Frame) -> Option<Headers> {
    let mut room = [0; HEADERS_BYTES_MAX];
    let found = layout(leading(frame, &mut room), frame.len(), frame.meta(), frame.position())?;
    let Layout { network, transport, protocol, .. } = found;
    (!found.fragment).then_some(Headers { network, transport, ipv6: !found.is_v4(), protocol })
}

/// Adds the bytes from `from` up to `to` to a sum, wherever they lie.
fn sum_range(mut sum: Sum, frame: &Frame, from: usize, to: usize) -> Sum {
    let mut at = 0;
    for chunk in frame.chunks() {
        let start = from.saturating_sub(at).min(chunk.len());
        let end = to.saturating_sub(at).min(chunk.len());
        if start < end {
            sum = sum.add_bytes(&chunk[start..end]);
        }
        at += chunk.len();
        if at >= to {
            break;
        }
    }
    sum
}

/// Turns [`Checksum::Partial`] into real bytes; other frames stay as they are. Afterwards the checksum is [`Checksum::Valid`].
///
/// A frame that is too short for its own checksum field, or whose transport header cannot be found, becomes [`Checksum::Unknown`]:
/// its receiver will refuse it.
pub fn complete_checksum(frame: &mut Frame) {
    let Checksum::Partial { offset } = frame.meta().checksum else { return };
    frame.meta_mut().checksum = Checksum::Unknown;
    let position = frame.position();
    let transport = match frame.meta().transport_at {
        at if at != 0 && at >= position => usize::from(at - position),
        _ => {
            let mut room = [0; HEADERS_BYTES_MAX];
            let Some(found) = layout(leading(frame, &mut room), frame.len(), frame.meta(), position) else { return };
            found.transport
        }
    };
    let field = transport + usize::from(offset);
    if frame.pull_up(field + 2).is_err() {
        return;
    }
    // The field holds the pseudo-header's sum and so is part of what is added up (Linux: skb_checksum_help).
    let sum = sum_range(Sum::new(), frame, transport, frame.len());
    let value = if usize::from(offset) == udp::CHECKSUM_OFFSET { sum.finish_udp() } else { sum.finish() };
    put_u16(frame.head_mut(), field, value);
    frame.meta_mut().checksum = Checksum::Valid;
}

/// Whether the checksums in the bytes are right: the IPv4 header's, and those of TCP, UDP, ICMP and ICMPv6.
///
/// True for what has none: other protocols, fragments, UDP over IPv4 with a checksum of zero, and frames that are not IP. A
/// [`Checksum::Partial`] is not looked at (there is nothing to verify yet); [`Checksum::Valid`] is not believed.
/// False for an IP packet that is shorter than it says.
pub fn verify(frame: &Frame) -> bool {
    let mut room = [0; HEADERS_BYTES_MAX];
    let bytes = leading(frame, &mut room);
    let Some(found) = layout(bytes, frame.len(), frame.meta(), frame.position()) else { return true };
    if found.end > frame.len() || found.transport > found.end {
        return false;
    }
    if found.is_v4() && sum_range(Sum::new(), frame, found.network, found.transport).fold() != 0xffff {
        return false;
    }
    if found.fragment || matches!(frame.meta().checksum, Checksum::Partial { .. }) {
        return true;
    }
    let length = found.end - found.transport;
    let pseudo = match found.protocol {
        Protocol::UDP if found.is_v4() && u16_at(bytes, found.transport + udp::CHECKSUM_OFFSET) == Some(0) => return true,
        Protocol::TCP | Protocol::UDP | Protocol::ICMPV6 => found.pseudo(length),
        Protocol::ICMP => Sum::new(),
        _ => return true,
    };
    sum_range(pseudo, frame, found.transport, found.end).fold() == 0xffff
}

/// Whether a backend that takes large frames of up to `gso_bytes_max` (0: none) must get this one in pieces.
///
/// Not a question of the MTU: a frame of several UDP datagrams has to be cut even when all of them together would fit, and a TCP segment
/// larger than `segment_bytes` would exceed what the peer's MSS allows.
pub fn needs_cut(frame: &Frame, gso_bytes_max: usize) -> bool {
    frame.meta().gso.is_some() && frame.len() > gso_bytes_max
}

/// Cuts a large frame into those that [`Gso`] describes and appends them to `out`; any other frame is appended as it is.
///
/// Each has a copy of the headers, with lengths, IPv4 identification and header checksum, TCP sequence number and flags, and the transport
/// checksum put right, and shares the payload. Metadata is copied, without `gso`; the completion stays on the last one only, so
/// that it is reported once, when everything has left.
pub fn cut(frame: Frame, checksums: CutChecksums, out: &mut impl Extend<Frame>) {
    let mut frame = frame;
    let before = frame.position();
    let pulled = pulled_network(&frame).filter(|_| frame.meta().gso.is_some());
    pulled.into_iter().for_each(|at| frame.rewind(at));
    match prepare(&mut frame) {
        Some(plan) => {
            let pulled = pulled.map_or(0, |at| usize::from(before - at));
            cut_by(&frame, CutPlan { pulled, ..plan }, checksums, out);
        }
        None => {
            if pulled.is_some() {
                frame.rewind(before);
            }
            frame.meta_mut().gso = None;
            if checksums == CutChecksums::Complete {
                complete_checksum(&mut frame);
            }
            out.extend(Some(frame));
        }
    }
}

/// How a frame will be cut.
struct CutPlan {
    layout: Layout,
    kind: GsoKind,
    segment_bytes: usize,
    /// Bytes of all headers.
    header_bytes: usize,
    /// UDP over IPv4 without a checksum.
    unchecked: bool,
    /// There is no IP header yet: the sum of what of the pseudo-header is the same for all pieces, which is everything but the length.
    bare: Option<u16>,
    /// So much of each piece was pulled before.
    pulled: usize,
}

/// Is it on its way up, behind an IP header that was pulled? Where that is.
fn pulled_network(frame: &Frame) -> Option<u16> {
    let (meta, position) = (frame.meta(), frame.position());
    (meta.network_at != 0 && meta.network_at < position && meta.transport_at == position).then_some(meta.network_at)
}

/// Is it on its way down, without an IP header? The transport header is what it begins with then.
fn is_bare(meta: &Meta, position: u16, protocol: Protocol) -> bool {
    meta.direction == Direction::Egress && meta.network_at == 0 && meta.transport_at == position && meta.protocol == protocol
}

/// Makes the headers contiguous and plans. `None`: there is nothing to cut, or it cannot be understood.
fn prepare(frame: &mut Frame) -> Option<CutPlan> {
    let Gso { segment_bytes, kind } = frame.meta().gso?;
    let (protocol, header_len_min) = match kind {
        GsoKind::Tcp => (Protocol::TCP, tcp::HEADER_LEN),
        GsoKind::Udp => (Protocol::UDP, udp::LEN),
    };
    let is_bare = is_bare(frame.meta(), frame.position(), protocol);
    let found = if is_bare {
        let addresses = match (frame.meta().src, frame.meta().dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => Addresses::V4(src, dst),
            (IpAddr::V6(src), IpAddr::V6(dst)) => Addresses::V6(src, dst),
            _ => return None,
        };
        Layout { network: 0, transport: 0, end: frame.len(), protocol, addresses, fragment: false }
    } else {
        let mut room = [0; HEADERS_BYTES_MAX];
        layout(leading(frame, &mut room), frame.len(), frame.meta(), frame.position())?
    };
    if found.protocol != protocol || found.fragment || segment_bytes == 0 {
        return None;
    }
    frame.pull_up(found.transport + header_len_min).ok()?;
    let transport_len = match kind {
        GsoKind::Tcp => usize::from(frame.head().get(found.transport + 12)? >> 4) * 4,
        GsoKind::Udp => udp::LEN,
    };
    let header_bytes = found.transport + transport_len;
    frame.pull_up(header_bytes).ok()?;
    let segment_bytes = usize::from(segment_bytes);
    if transport_len < header_len_min || frame.len() <= header_bytes + segment_bytes {
        return None;
    }
    let bare = match frame.meta().checksum {
        Checksum::Partial { offset } if is_bare => {
            let sum = u16_at(frame.head(), usize::from(offset))?;
            // In ones' complement the complement is what takes away.
            Some(Sum::from_folded(sum).add_u32(!(frame.len() as u32)).fold())
        }
        _ if is_bare => Some(0),
        _ => None,
    };
    // RFC 768: what has no checksum has zero in its place, over IPv6 only where a program asks for it.
    let unchecked = kind == GsoKind::Udp
        && (found.is_v4() || is_bare)
        && !matches!(frame.meta().checksum, Checksum::Partial { .. })
        && u16_at(frame.head(), found.transport + udp::CHECKSUM_OFFSET) == Some(0);
    Some(CutPlan { layout: found, kind, segment_bytes, header_bytes, unchecked, bare, pulled: 0 })
}

/// Takes payload off a row of slices, sharing it.
struct Payload {
    slices: Tail,
    slice: usize,
    at: usize,
}

impl Payload {
    /// Appends up to `bytes` to `frame`; returns how many, and their sum when asked.
    fn take(&mut self, mut bytes: usize, frame: &mut Frame) {
        while let Some(slice) = self.slices.get(self.slice).filter(|_| bytes > 0) {
            let part: Bytes = slice.slice(self.at..slice.len().min(self.at + bytes));
            bytes -= part.len();
            self.at += part.len();
            if self.at == slice.len() {
                self.slice += 1;
                self.at = 0;
            }
            frame.append(part);
        }
    }
}

fn cut_by(frame: &Frame, plan: CutPlan, checksums: CutChecksums, out: &mut impl Extend<Frame>) {
    let headers = &frame.head()[..plan.header_bytes];
    let mut payload = Payload { slices: frame.slices(plan.header_bytes, frame.len()), slice: 0, at: 0 };
    let payload_bytes = frame.len() - plan.header_bytes;
    let count = payload_bytes.div_ceil(plan.segment_bytes);
    let mut meta = frame.meta().clone();
    meta.gso = None;
    let completion = meta.completion.take();
    for index in 0..count {
        let offset = index * plan.segment_bytes;
        let bytes = plan.segment_bytes.min(payload_bytes - offset);
        let mut piece = if plan.bare.is_some() { Frame::egress() } else { Frame::ingress(&[]) };
        piece.extend(headers);
        // Headers beyond what a head holds come as a slice.
        let contiguous = piece.pull_up(plan.header_bytes);
        debug_assert!(contiguous.is_ok());
        let position = piece.position();
        *piece.meta_mut() = meta.clone();
        piece.meta_mut().network_at = if plan.bare.is_some() { 0 } else { position + plan.layout.network as u16 };
        piece.meta_mut().transport_at = position + plan.layout.transport as u16;
        if index + 1 == count {
            piece.meta_mut().completion = completion;
        }
        fix_network(piece.head_mut(), &plan, index, bytes);
        fix_transport(piece.head_mut(), &plan, offset, bytes, index + 1 == count);
        payload.take(bytes, &mut piece);
        fix_checksum(&mut piece, &plan, checksums);
        // All headers are in the head: there is as much.
        let pulled = piece.pull(plan.pulled);
        debug_assert!(pulled.is_ok());
        out.extend(Some(piece));
    }
}

fn fix_network(head: &mut [u8], plan: &CutPlan, index: usize, payload_bytes: usize) {
    let Layout { network, transport, .. } = plan.layout;
    if plan.bare.is_some() {
        return;
    }
    let packet_bytes = plan.header_bytes - network + payload_bytes;
    if plan.layout.is_v4() {
        let header = &mut head[network..transport];
        put_u16(header, IPV4_TOTAL_LEN_AT, packet_bytes as u16);
        // Linux counts up for TCP and UDP alike (inet_gso_segment), also under DF.
        let identification = u16_at(header, IPV4_IDENTIFICATION_AT).unwrap_or(0).wrapping_add(index as u16);
        put_u16(header, IPV4_IDENTIFICATION_AT, identification);
        put_u16(header, ipv4::CHECKSUM_OFFSET, 0);
        put_u16(header, ipv4::CHECKSUM_OFFSET, checksum::of(header));
    } else {
        put_u16(head, network + IPV6_PAYLOAD_LEN_AT, (packet_bytes - IPV6_HEADER_LEN) as u16);
    }
}

fn fix_transport(head: &mut [u8], plan: &CutPlan, offset: usize, payload_bytes: usize, last: bool) {
    let header = &mut head[plan.layout.transport..];
    match plan.kind {
        GsoKind::Udp => put_u16(header, UDP_LENGTH_AT, (udp::LEN + payload_bytes) as u16),
        GsoKind::Tcp => {
            if let Some(field) = header.get_mut(TCP_SEQ_AT..).and_then(|rest| rest.first_chunk_mut()) {
                *field = u32::from_be_bytes(*field).wrapping_add(offset as u32).to_be_bytes();
            }
            if let Some(flags) = header.get_mut(TCP_FLAGS_AT) {
                if !last {
                    *flags &= !TCP_FIN_PSH;
                }
                // RFC 3168 §6.1.2: "The CWR bit ... SHOULD be set ... in the first new data packet sent after the window reduction".
                if offset != 0 {
                    *flags &= !TCP_CWR;
                }
            }
        }
    }
}

fn fix_checksum(piece: &mut Frame, plan: &CutPlan, checksums: CutChecksums) {
    if plan.unchecked {
        return;
    }
    let offset = match plan.kind {
        GsoKind::Tcp => tcp::CHECKSUM_OFFSET,
        GsoKind::Udp => udp::CHECKSUM_OFFSET,
    };
    let transport = plan.layout.transport;
    let pseudo = match plan.bare {
        None => plan.layout.pseudo(piece.len() - transport),
        Some(sum) => Sum::from_folded(sum).add_u32(piece.len() as u32),
    };
    let pseudo = pseudo.fold();
    put_u16(piece.head_mut(), transport + offset, pseudo);
    piece.meta_mut().checksum = Checksum::Partial { offset: offset as u16 };
    if checksums == CutChecksums::Complete {
        complete_checksum(piece);
    }
}

#[cfg(test)]
mod tests;
