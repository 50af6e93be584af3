//! A TCP segment where it lies in a frame: found, read, and changed so that its checksum stays as right, or as wrong, as it was.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use weft_core::{Checksum, Frame, Tail, Vector, Verdict, offload};
use weft_wire::checksum::{self, Sum};
use weft_wire::tcp::{self, Flags, Seq};
use weft_wire::{Protocol, ipv4, ipv6};

/// Most bytes of an IP packet.
pub(super) const PACKET_BYTES_MAX: usize = 65_535;
const IPV4_TOTAL_LEN_AT: usize = 2;
const IPV4_SRC_AT: usize = 12;
const IPV6_PAYLOAD_LEN_AT: usize = 4;
const IPV6_SRC_AT: usize = 8;
const SEQ_AT: usize = 4;
const ACK_AT: usize = 8;
const OFFSET_AT: usize = 12;
const FLAGS_AT: usize = 13;
const WINDOW_AT: usize = 14;

/// Which step of a connection a segment is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    Syn,
    SynAck,
    Other,
}

/// Where the parts of a segment are, as offsets from the start of its frame, and what its header says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Segment {
    pub network: usize,
    pub transport: usize,
    /// End of the TCP header.
    pub payload: usize,
    /// End of the IP packet; a frame may be padded behind.
    pub end: usize,
    pub source: SocketAddr,
    pub destination: SocketAddr,
    pub seq: Seq,
    pub ack: Seq,
    pub flags: Flags,
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(super) fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
    put(bytes, at, value.to_be_bytes());
}

pub(super) fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    put(bytes, at, value.to_be_bytes());
}

fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    if let Some(field) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        *field = value;
    }
}

/// The checksum in a field after bytes that it covers changed from those of one sum to those of another.
pub(super) fn updated(field: u16, before: Sum, after: Sum) -> u16 {
    // RFC 1624 §3, eqn 3: "HC' = ~(~HC + ~m + m')"
    Sum::from_folded(!field).add_u16(!before.fold()).add_u16(after.fold()).finish()
}

/// Shows each segment of a vector to `see`, which may change it and says what becomes of it; all else leaves through the first output.
pub(super) fn each(vector: &mut Vector, mut see: impl FnMut(&mut Frame, &Segment) -> Verdict) {
    vector.each(|frame| match Segment::find(frame) {
        Some(segment) => see(frame, &segment),
        None => Verdict::Forward(weft_core::OutPort(0)),
    });
}

impl Segment {
    /// Finds it, and makes its headers contiguous. `None`: something else, a fragment, or lengths that contradict each other.
    pub fn find(frame: &mut Frame) -> Option<Segment> {
        // On an edge of transport segments there is no IP header to read.
        let transport_at = frame.meta().transport_at;
        if transport_at != 0 && transport_at == frame.position() {
            return None;
        }
        let headers = offload::headers(frame).filter(|headers| headers.protocol == Protocol::TCP)?;
        let (network, transport) = (headers.network, headers.transport);
        frame.pull_up(transport + tcp::HEADER_LEN).ok()?;
        let payload = transport + usize::from(frame.head().get(transport + OFFSET_AT)? >> 4) * 4;
        frame.pull_up(payload).ok()?;
        let head = frame.head();
        let (end, source, destination) = match headers.ipv6 {
            false => {
                let address = |at: usize| Some(Ipv4Addr::from_bits(u32_at(head, network + at)?));
                let end = network + usize::from(u16_at(head, network + IPV4_TOTAL_LEN_AT)?);
                (end, address(IPV4_SRC_AT)?.into(), address(IPV4_SRC_AT + 4)?.into())
            }
            true => {
                let address = |at: usize| Some(Ipv6Addr::from(*head.get(network + at..)?.first_chunk::<16>()?));
                let end = match u16_at(head, network + IPV6_PAYLOAD_LEN_AT)? {
                    // RFC 2675 §3: a jumbogram; Linux's BIG TCP is one, too.
                    0 => frame.len(),
                    length => network + ipv6::HEADER_LEN + usize::from(length),
                };
                (end, address(IPV6_SRC_AT)?.into(), address(IPV6_SRC_AT + 16)?.into())
            }
        };
        if payload < transport + tcp::HEADER_LEN || end < payload || end > frame.len() {
            return None;
        }
        Some(Segment {
            network,
            transport,
            payload,
            end,
            source: SocketAddr::new(source, u16_at(head, transport)?),
            destination: SocketAddr::new(destination, u16_at(head, transport + 2)?),
            seq: Seq(u32_at(head, transport + SEQ_AT)?),
            ack: Seq(u32_at(head, transport + ACK_AT)?),
            flags: Flags::from_bits_truncate(u16::from(*head.get(transport + FLAGS_AT)?)),
        })
    }

    pub fn payload_bytes(&self) -> usize {
        self.end - self.payload
    }

    /// The number behind it.
    pub fn next(&self) -> Seq {
        let controls = (self.flags & (Flags::SYN | Flags::FIN)).bits().count_ones();
        Seq(self.seq.0.wrapping_add(self.payload_bytes() as u32).wrapping_add(controls))
    }

    /// The number of its first byte of payload: a SYN comes before.
    pub fn first_byte(&self) -> Seq {
        Seq(self.seq.0.wrapping_add(u32::from(self.flags.contains(Flags::SYN))))
    }

    pub fn step(&self) -> Step {
        match (self.flags.contains(Flags::SYN), self.flags.contains(Flags::ACK)) {
            (true, false) => Step::Syn,
            (true, true) => Step::SynAck,
            (false, _) => Step::Other,
        }
    }

    /// Its options as they are.
    pub fn options<'a>(&self, frame: &'a Frame) -> &'a [u8] {
        frame.head().get(self.transport + tcp::HEADER_LEN..self.payload).unwrap_or_default()
    }

    /// Changes fields of the TCP header, but for its length and its checksum, which follows.
    pub fn change_header(&self, frame: &mut Frame, change: impl FnOnce(&mut [u8])) {
        let computed = !matches!(frame.meta().checksum, Checksum::Partial { .. });
        let Some(header) = frame.head_mut().get_mut(self.transport..self.payload) else { return };
        let before = Sum::new().add_bytes(header);
        change(header);
        let after = Sum::new().add_bytes(header);
        if computed {
            let field = u16_at(header, tcp::CHECKSUM_OFFSET).unwrap_or(0);
            put_u16(header, tcp::CHECKSUM_OFFSET, updated(field, before, after));
        }
    }

    /// The same of its numbers; the acknowledgment counts only with its flag.
    pub fn set_numbers(&self, frame: &mut Frame, seq: Seq, ack: Seq) {
        self.change_header(frame, |header| {
            put_u32(header, SEQ_AT, seq.0);
            if self.flags.contains(Flags::ACK) {
                put_u32(header, ACK_AT, ack.0);
            }
        });
    }

    /// Takes the acknowledgment, the window, PSH and FIN of a later segment.
    pub fn take_news(&self, frame: &mut Frame, later: &Segment, of: &Frame) {
        let window = u16_at(of.head(), later.transport + WINDOW_AT).unwrap_or(0);
        let ends = later.flags & (Flags::PSH | Flags::FIN);
        self.change_header(frame, |header| {
            put_u32(header, ACK_AT, later.ack.0);
            put_u16(header, WINDOW_AT, window);
            header[FLAGS_AT] |= ends.bits() as u8;
        });
    }

    /// Its payload, shared.
    pub fn payload(&self, frame: &Frame) -> Tail {
        frame.slices(self.payload, self.payload_bytes())
    }

    /// Gives it another payload. Lengths follow, and the checksum is one that is not computed yet: see that it was right before.
    pub fn set_payload(&self, frame: &mut Frame, payload: Tail) {
        frame.truncate(self.payload);
        payload.into_iter().for_each(|slice| frame.append(slice));
        self.seal(frame);
    }

    /// Sets lengths and checksums by what the frame has now.
    pub fn seal(&self, frame: &mut Frame) {
        let (position, packet_bytes) = (frame.position(), frame.len() - self.network);
        let length = frame.len() - self.transport;
        let pseudo = self.pseudo(length);
        let head = frame.head_mut();
        if self.source.is_ipv4() {
            if let Some(header) = head.get_mut(self.network..self.transport) {
                put_u16(header, IPV4_TOTAL_LEN_AT, packet_bytes as u16);
                put_u16(header, ipv4::CHECKSUM_OFFSET, 0);
                put_u16(header, ipv4::CHECKSUM_OFFSET, checksum::of(header));
            }
        } else {
            let payload_bytes = u16::try_from(packet_bytes - ipv6::HEADER_LEN).unwrap_or(0);
            put_u16(head, self.network + IPV6_PAYLOAD_LEN_AT, payload_bytes);
        }
        put_u16(head, self.transport + tcp::CHECKSUM_OFFSET, pseudo.fold());
        let meta = frame.meta_mut();
        meta.network_at = position + self.network as u16;
        meta.transport_at = position + self.transport as u16;
        meta.checksum = Checksum::Partial { offset: tcp::CHECKSUM_OFFSET as u16 };
    }

    /// A reset under its addresses and ports, of a frame with its headers.
    pub fn reset(&self, mut frame: Frame, seq: Seq, ack: Seq, flags: Flags) -> Frame {
        frame.truncate(self.transport + tcp::HEADER_LEN);
        let ports = tcp::Segment { src_port: self.source.port(), dst_port: self.destination.port(), ..tcp::Segment::default() };
        if let Some(header) = frame.head_mut().get_mut(self.transport..self.transport + tcp::HEADER_LEN) {
            let ack = if flags.contains(Flags::ACK) { ack } else { Seq(0) };
            tcp::Segment { seq, ack, flags: flags | Flags::RST, ..ports }.emit(header);
        }
        self.seal(&mut frame);
        frame
    }

    /// A frame with its headers, and what lies where, with both ends exchanged.
    pub fn exchanged(&self, mut frame: Frame) -> (Frame, Segment) {
        let (at, length) = if self.source.is_ipv4() { (IPV4_SRC_AT, 4) } else { (IPV6_SRC_AT, 16) };
        let head = frame.head_mut();
        for (at, length) in [(self.network + at, length), (self.transport, 2)] {
            if let Some((first, second)) = head.get_mut(at..at + 2 * length).map(|both| both.split_at_mut(length)) {
                first.swap_with_slice(second);
            }
        }
        (frame, Segment { source: self.destination, destination: self.source, ..*self })
    }

    /// The pseudo-header's sum for so many bytes of TCP.
    fn pseudo(&self, length: usize) -> Sum {
        match (self.source, self.destination) {
            (SocketAddr::V4(src), SocketAddr::V4(dst)) => checksum::pseudo_v4(*src.ip(), *dst.ip(), Protocol::TCP.0, length as u32),
            (SocketAddr::V6(src), SocketAddr::V6(dst)) => checksum::pseudo_v6(*src.ip(), *dst.ip(), Protocol::TCP.0, length as u32),
            _ => Sum::new(),
        }
    }
}
