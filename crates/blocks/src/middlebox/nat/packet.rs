//! An IPv4 packet as the translator reads and rewrites it, and the packet that an ICMP error quotes.

use crate::middlebox::segment::{put_u16, put_u32, u16_at, updated};
use std::net::{Ipv4Addr, SocketAddr};
use weft_core::table::LinkType;
use weft_core::{Checksum, Frame};
use weft_wire::checksum::Sum;
use weft_wire::ethernet::{self, EtherType};
use weft_wire::tcp::{self, Flags};
use weft_wire::{Protocol, icmpv4, ipv4, udp};

const SRC_AT: usize = 12;
const DST_AT: usize = 16;
const TCP_FLAGS_AT: usize = 13;
const ICMP_IDENTIFIER_AT: usize = 4;

/// What a frame is to the translator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Found {
    /// ARP, IPv6 and the like.
    NotIpv4,
    /// Its lengths contradict each other.
    Malformed,
    Packet(Packet),
}

/// Where the parts of a packet are, as offsets from the start of its frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Packet {
    network: usize,
    transport: usize,
    end: usize,
    pub protocol: Protocol,
    pub src: Ipv4Addr,
    pub dst: Ipv4Addr,
    pub fragment: bool,
    /// An error quotes it: what is not there of it was cut off.
    quoted: bool,
}

/// Both ends of what a packet belongs to. Of an echo the local port is its identifier, and the remote one 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Flow {
    pub protocol: u8,
    pub local: SocketAddr,
    pub remote: SocketAddr,
}

/// Which address of a packet is that of the translator's side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Local {
    Source,
    Destination,
}

impl Local {
    /// Of a packet that an error quotes: it went the other way.
    pub fn quoted(self) -> Local {
        match self {
            Local::Source => Local::Destination,
            Local::Destination => Local::Source,
        }
    }
}

/// Reads a frame's headers, and makes contiguous what may be rewritten.
pub(super) fn find(frame: &mut Frame, link: LinkType) -> Found {
    let network = match link {
        LinkType::Ethernet => {
            let _ = frame.pull_up((ethernet::HEADER_LEN + 4).min(frame.len()));
            match ethernet::Header::parse(frame.head()) {
                Ok((header, length)) if header.ether_type == EtherType::IPV4 => length,
                _ => return Found::NotIpv4,
            }
        }
        LinkType::Raw | LinkType::Loopback => {
            let _ = frame.pull_up(1.min(frame.len()));
            match frame.head().first().map(|byte| byte >> 4) {
                Some(4) => 0,
                _ => return Found::NotIpv4,
            }
        }
    };
    let _ = frame.pull_up((network + ipv4::HEADER_LEN_MAX + tcp::HEADER_LEN).min(frame.len()));
    let Ok((header, length)) = ipv4::Header::parse(frame.head().get(network..).unwrap_or_default()) else { return Found::Malformed };
    match header.check_total_len(frame.len() - network) {
        Ok(total) => Found::Packet(Packet::new(&header, network, length, network + total, false)),
        Err(_) => Found::Malformed,
    }
}

impl Packet {
    fn new(header: &ipv4::Header, network: usize, length: usize, end: usize, quoted: bool) -> Packet {
        let (protocol, src, dst, fragment) = (header.protocol, header.src, header.dst, header.is_fragment());
        Packet { network, transport: network + length, end, protocol, src, dst, fragment, quoted }
    }

    /// The field at an offset of its transport header, if that is there.
    fn field(&self, head: &[u8], at: usize) -> Option<u16> {
        (self.transport + at + 2 <= self.end).then(|| u16_at(head, self.transport + at)).flatten()
    }

    /// Type of an ICMP message.
    fn icmp_type(&self, head: &[u8]) -> Option<u8> {
        (self.protocol == Protocol::ICMP).then(|| self.field(head, 0)).flatten().map(|field| field.to_be_bytes()[0])
    }

    /// What it belongs to; `None`: it has neither ports nor an identifier.
    pub fn flow(&self, head: &[u8], local: Local) -> Option<Flow> {
        let echo = match local {
            Local::Source => icmpv4::kind::ECHO_REQUEST,
            Local::Destination => icmpv4::kind::ECHO_REPLY,
        };
        let (from, to) = match self.protocol {
            Protocol::TCP if !self.quoted => {
                self.field(head, tcp::HEADER_LEN - 2)?;
                (self.field(head, 0)?, self.field(head, 2)?)
            }
            Protocol::TCP | Protocol::UDP => {
                self.field(head, udp::LEN - 2)?;
                (self.field(head, 0)?, self.field(head, 2)?)
            }
            Protocol::ICMP if self.icmp_type(head)? == echo => {
                let identifier = self.field(head, ICMP_IDENTIFIER_AT)?;
                if local == Local::Source { (identifier, 0) } else { (0, identifier) }
            }
            _ => return None,
        };
        let ends = [(self.src, from).into(), (self.dst, to).into()];
        let [local, remote] = if local == Local::Source { ends } else { [ends[1], ends[0]] };
        Some(Flow { protocol: self.protocol.0, local, remote })
    }

    /// The flags of a TCP segment.
    pub fn tcp_flags(&self, head: &[u8]) -> Flags {
        let flags = (self.protocol == Protocol::TCP).then(|| self.field(head, TCP_FLAGS_AT - 1)).flatten();
        Flags::from_bits_truncate(flags.unwrap_or(0) & 0x1ff)
    }

    /// The packet that an ICMP error is about.
    pub fn quote(&self, frame: &mut Frame) -> Option<Packet> {
        let kind = self.icmp_type(frame.head())?;
        if !matches!(kind, icmpv4::kind::DESTINATION_UNREACHABLE | icmpv4::kind::TIME_EXCEEDED | icmpv4::kind::PARAMETER_PROBLEM) {
            return None;
        }
        let network = self.transport + icmpv4::HEADER_LEN;
        frame.pull_up((network + ipv4::HEADER_LEN_MAX + tcp::HEADER_LEN).min(self.end)).ok()?;
        let (header, length) = ipv4::Header::parse(frame.head().get(network..self.end.min(frame.head().len()))?).ok()?;
        let end = self.end.min(network + usize::from(header.total_len));
        (header.fragment_offset == 0).then(|| Packet::new(&header, network, length, end, true))
    }

    /// Gives it another local address and port.
    pub fn rewrite(&self, frame: &mut Frame, local: Local, flow: &Flow, to: SocketAddr) {
        let (SocketAddr::V4(old), SocketAddr::V4(new)) = (flow.local, to) else { return };
        self.rewrite_address(frame, local, *new.ip());
        let field = match (self.protocol, local) {
            (Protocol::ICMP, _) => ICMP_IDENTIFIER_AT,
            (_, Local::Source) => 0,
            (_, Local::Destination) => 2,
        };
        let checksum = match self.protocol {
            Protocol::TCP => tcp::CHECKSUM_OFFSET,
            Protocol::UDP => udp::CHECKSUM_OFFSET,
            _ => icmpv4::CHECKSUM_OFFSET,
        };
        let partial = !self.quoted && matches!(frame.meta().checksum, Checksum::Partial { .. });
        let head = frame.head_mut();
        put_u16(head, self.transport + field, new.port());
        // A quote may end before it.
        let Some(sum) = self.field(head, checksum) else { return };
        let addresses = [old.ip(), new.ip()].map(|ip| Sum::new().add_u32(if self.protocol == Protocol::ICMP { 0 } else { ip.to_bits() }));
        let [before, after] = [addresses[0].add_u16(old.port()), addresses[1].add_u16(new.port())];
        let sum = match (partial, self.protocol) {
            // The field holds the pseudo-header's sum, in which there is no port.
            (true, _) => Sum::from_folded(sum).add_u16(!addresses[0].fold()).add_u16(addresses[1].fold()).fold(),
            // RFC 768: "An all zero transmitted checksum value means that the transmitter generated no checksum".
            (false, Protocol::UDP) if sum == 0 => 0,
            (false, Protocol::UDP) => match updated(sum, before, after) {
                0 => 0xffff,
                sum => sum,
            },
            (false, _) => updated(sum, before, after),
        };
        put_u16(head, self.transport + checksum, sum);
    }

    /// Gives it another local address, where nothing but the IP header depends on it.
    pub fn rewrite_address(&self, frame: &mut Frame, local: Local, to: Ipv4Addr) {
        let (old, at) = if local == Local::Source { (self.src, SRC_AT) } else { (self.dst, DST_AT) };
        let head = frame.head_mut();
        put_u32(head, self.network + at, to.to_bits());
        let at = self.network + ipv4::CHECKSUM_OFFSET;
        let sum = u16_at(head, at).unwrap_or(0);
        put_u16(head, at, updated(sum, Sum::new().add_u32(old.to_bits()), Sum::new().add_u32(to.to_bits())));
    }

    /// Rewrites the packet that this error quotes; the error's own checksum follows.
    pub fn rewrite_quote(&self, frame: &mut Frame, quote: &Packet, local: Local, flow: &Flow, to: SocketAddr) {
        let from = self.transport + icmpv4::HEADER_LEN;
        let until = frame.head().len().min(self.end).min(quote.transport + tcp::HEADER_LEN);
        let sum = |frame: &Frame| Sum::new().add_bytes(frame.head().get(from..until).unwrap_or_default());
        let before = sum(frame);
        quote.rewrite(frame, local, flow, to);
        let after = sum(frame);
        let (at, head) = (self.transport + icmpv4::CHECKSUM_OFFSET, frame.head_mut());
        let field = u16_at(head, at).unwrap_or(0);
        put_u16(head, at, updated(field, before, after));
    }
}
