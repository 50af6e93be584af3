//! What two stacks can be compared by: packets of TCP, UDP and echoes of ICMP, without what is drawn by chance.

use std::net::{IpAddr, SocketAddr};
use weft_core::Frame;
use weft_wire::ethernet::{self, EtherType};
use weft_wire::tcp::Segment;
use weft_wire::{Protocol, icmpv4, icmpv6, ipv4, ipv6, udp};

/// So many bytes of a frame are read: all headers that there can be.
const READ_BYTES: usize = 256;
/// The two low bits of the traffic class (RFC 3168).
const ECN: u8 = 3;

/// A packet between two ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Packet {
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub ecn: u8,
    pub content: Content,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Content {
    /// A segment and how many bytes of data it has.
    Tcp(Box<Segment>, u32),
    /// Bytes.
    Udp(u32),
    /// A request or its reply, its number and bytes. The ports of its ends are its identifier.
    Echo { reply: bool, number: u16, bytes: u32 },
}

impl Packet {
    /// None: something else (neighbours, groups, fragments, errors), which two stacks may do at other times.
    pub fn of(frame: &Frame) -> Option<Packet> {
        let mut room = [0; READ_BYTES];
        let mut filled = 0;
        for chunk in frame.chunks() {
            let take = chunk.len().min(READ_BYTES - filled);
            room.get_mut(filled..filled + take)?.copy_from_slice(chunk.get(..take)?);
            filled += take;
        }
        let bytes = room.get(..filled)?;
        let (header, at) = ethernet::Header::parse(bytes).ok()?;
        let packet = bytes.get(at..)?;
        match header.ether_type {
            EtherType::IPV4 => {
                let (ip, header) = ipv4::Header::parse(packet).ok()?;
                let whole = !ip.more_fragments && ip.fragment_offset == 0;
                let length = u32::try_from(ip.payload_len()).ok()?;
                whole.then(|| transport(ip.protocol, ip.src.into(), ip.dst.into(), ip.tos & ECN, packet.get(header..)?, length))?
            }
            EtherType::IPV6 => {
                let (ip, header) = ipv6::Header::parse(packet).ok()?;
                let class = ip.traffic_class & ECN;
                transport(ip.next_header, ip.src.into(), ip.dst.into(), class, packet.get(header..)?, ip.payload_len.into())
            }
            _ => None,
        }
    }
}

fn transport(protocol: Protocol, from: IpAddr, to: IpAddr, ecn: u8, bytes: &[u8], length: u32) -> Option<Packet> {
    let packet =
        |ports: (u16, u16), content| Some(Packet { from: SocketAddr::new(from, ports.0), to: SocketAddr::new(to, ports.1), ecn, content });
    let echo = |reply, identifier: u16, number, header: usize| {
        packet((identifier, identifier), Content::Echo { reply, number, bytes: length.saturating_sub(header as u32) })
    };
    match protocol {
        Protocol::TCP => {
            let (segment, header) = Segment::parse(bytes).ok()?;
            let data = length.checked_sub(header as u32)?;
            packet((segment.src_port, segment.dst_port), Content::Tcp(Box::new(segment), data))
        }
        Protocol::UDP => {
            let (header, _) = udp::Header::parse(bytes).ok()?;
            packet((header.src_port, header.dst_port), Content::Udp(length.checked_sub(udp::LEN as u32)?))
        }
        Protocol::ICMP => match icmpv4::Message::parse(bytes).ok()? {
            (icmpv4::Message::EchoRequest { identifier, sequence }, header) => echo(false, identifier, sequence, header),
            (icmpv4::Message::EchoReply { identifier, sequence }, header) => echo(true, identifier, sequence, header),
            _ => None,
        },
        Protocol::ICMPV6 => match icmpv6::Message::parse(bytes).ok()? {
            (icmpv6::Message::EchoRequest { identifier, sequence }, header) => echo(false, identifier, sequence, header),
            (icmpv6::Message::EchoReply { identifier, sequence }, header) => echo(true, identifier, sequence, header),
            _ => None,
        },
        _ => None,
    }
}
