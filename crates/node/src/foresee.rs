//! What frames that have not come yet will bring to a socket, where that is sure: bytes of a TCP stream, in order, with nothing special about them.
//!
//! For worlds in which it is known what will arrive: a program may then be told before the node has seen it. What is looked at is what the blocks on
//! the way of such a frame look at; whatever they might do otherwise ends what can be foreseen.

use crate::Node;
use std::any::Any;
use std::net::{IpAddr, SocketAddr};
use weft_core::table::AddressKind;
use weft_core::{Answer, Block, BlockId, Checksum, Frame, Instant, InterfaceIndex, Query};
use weft_socket::{SocketId, Sockets};
use weft_tcp::{Foresight, TcpBlock};
use weft_wire::ethernet::{self, EtherType};
use weft_wire::tcp::Segment;
use weft_wire::{Protocol, ipv4, ipv6};

/// The blocks that such a frame passes, with the ports between them.
const WAY: [[(&str, &str, &str, &str); 4]; 2] = [
    [
        ("interfaces", "upper", "ether", "lower"),
        ("ether", "ip4", "ip4", "lower"),
        ("ip4", "tcp", "tcp", "lower"),
        ("tcp", "upper", "sockets", "tcp"),
    ],
    [
        ("interfaces", "upper", "ether", "lower"),
        ("ether", "ip6", "ip6", "lower"),
        ("ip6", "tcp", "tcp", "lower"),
        ("tcp", "upper", "sockets", "tcp"),
    ],
];

/// What a frame brings, and where its bytes are.
#[derive(Clone, Copy, Debug)]
pub struct Coming<'f> {
    frame: &'f Frame,
    payload_at: usize,
    payload_bytes: usize,
}

impl<'f> Coming<'f> {
    /// The bytes, as they lie.
    pub fn pieces(&self) -> impl Iterator<Item = &'f [u8]> {
        let (mut skip, mut left) = (self.payload_at, self.payload_bytes);
        self.frame.chunks().filter_map(move |chunk| {
            let from = skip.min(chunk.len());
            let piece = &chunk[from..chunk.len().min(from + left)];
            (skip, left) = (skip - from, left - piece.len());
            Some(piece).filter(|piece| !piece.is_empty())
        })
    }
}

/// The headers of a segment.
struct Seen {
    local: IpAddr,
    remote: IpAddr,
    hop_limit: u8,
    segment: Segment,
    payload_at: usize,
    payload_bytes: usize,
}

impl Seen {
    fn addresses(&self) -> (SocketAddr, SocketAddr) {
        (SocketAddr::new(self.local, self.segment.dst_port), SocketAddr::new(self.remote, self.segment.src_port))
    }

    /// A plain TCP segment for this link-layer address, whose headers lie in one piece. None: it is something else.
    fn of(frame: &Frame, mac: [u8; 6]) -> Option<Seen> {
        let bytes = frame.head();
        let (link, network_at) = ethernet::Header::parse(bytes).ok()?;
        let whole = frame.meta().checksum == Checksum::Valid && frame.meta().gso.is_none();
        if !whole || link.vlan.is_some() || link.dst.0 != mac {
            return None;
        }
        let packet = &bytes[network_at..];
        let packet_bytes = frame.len() - network_at;
        let (local, remote, hop_limit, header_bytes, end) = match link.ether_type {
            EtherType::IPV4 => {
                let (header, length) = ipv4::Header::parse(packet).ok()?;
                let plain =
                    length == ipv4::HEADER_LEN && !header.more_fragments && header.fragment_offset == 0 && header.protocol == Protocol::TCP;
                let sound = plain && ipv4::verify_checksum(&packet[..length]);
                let end = header.check_total_len(packet_bytes).ok().filter(|_| sound)?;
                (header.dst.into(), header.src.into(), header.ttl, length, end)
            }
            EtherType::IPV6 => {
                let (header, length) = ipv6::Header::parse(packet).ok()?;
                let plain =
                    header.next_header == Protocol::TCP && !header.dst.is_unicast_link_local() && !header.src.is_unicast_link_local();
                let end = header.check_payload_len(packet_bytes).ok().filter(|_| plain)?;
                (IpAddr::from(header.dst), header.src.into(), header.hop_limit, length, end)
            }
            _ => return None,
        };
        let (segment, segment_header_bytes) = Segment::parse(packet.get(header_bytes..)?).ok()?;
        let payload_bytes = end.checked_sub(header_bytes + segment_header_bytes)?;
        Some(Seen { local, remote, hop_limit, segment, payload_at: network_at + header_bytes + segment_header_bytes, payload_bytes })
    }
}

/// A socket, and what comes to it.
struct Reader {
    interface: InterfaceIndex,
    mac: [u8; 6],
    addresses: (SocketAddr, SocketAddr),
    socket: SocketId,
    foresight: Foresight,
}

impl Reader {
    /// What the next frame brings. None: that is not sure.
    fn brings<'f>(&mut self, frame: &'f Frame) -> Option<Coming<'f>> {
        let seen = Seen::of(frame, self.mac).filter(|seen| seen.addresses() == self.addresses)?;
        let Seen { hop_limit, segment, payload_at, payload_bytes, .. } = seen;
        self.foresight.takes(&segment, payload_bytes as u32, hop_limit).then_some(Coming { frame, payload_at, payload_bytes })
    }
}

impl Node {
    /// Looks at frames that will arrive, in this order, before anything else happens to the node, and says what they bring to the one socket that the
    /// first of them is for: `take` gets each that has payload, and says whether to go on. Returns when the first comes about which nothing is sure, or
    /// that was not taken; none: there is no such frame.
    pub fn foresee<'f>(
        &self,
        now: Instant,
        frames: impl Iterator<Item = (Instant, InterfaceIndex, &'f Frame)>,
        mut take: impl FnMut(SocketId, Instant, Coming<'f>) -> bool,
    ) -> Option<Instant> {
        let mut frames = frames.peekable();
        let (at, interface, first) = frames.peek()?;
        let Some(mut reader) = self.reader(*interface, first, now).filter(|_| !self.engine().is_paused()) else { return Some(*at) };
        for (at, interface, frame) in frames {
            match reader.brings(frame).filter(|_| interface == reader.interface) {
                Some(coming) if coming.payload_bytes == 0 || take(reader.socket, at, coming) => {}
                _ => return Some(at),
            }
        }
        None
    }

    fn mac_of(&self, interface: InterfaceIndex, now: Instant) -> Option<[u8; 6]> {
        let interfaces = self.block_named("interfaces")?.1;
        match interfaces.query(&Query::Interface(interface), now) {
            Answer::Interface(interface) if interface.up && interface.link == weft_core::table::LinkType::Ethernet => Some(interface.mac),
            _ => None,
        }
    }

    /// Whom a frame is for, if what is like it comes there on the usual way.
    fn reader(&self, interface: InterfaceIndex, frame: &Frame, now: Instant) -> Option<Reader> {
        let mac = self.mac_of(interface, now)?;
        let (local, remote) = Seen::of(frame, mac)?.addresses();
        let way = &WAY[usize::from(local.is_ipv6())];
        if !way.iter().all(|(from, output, to, input)| self.is_edge((from, output), (to, input))) {
            return None;
        }
        let network = self.block_named(if local.is_ipv6() { "ip6" } else { "ip4" })?.1;
        if !matches!(network.query(&Query::AddressKind(local.ip()), now), Answer::AddressKind(AddressKind::Local(_))) {
            return None;
        }
        let (tcp, sockets): (&dyn Any, &dyn Any) = (self.block_named("tcp")?.1, self.block_named("sockets")?.1);
        let foresight = tcp.downcast_ref::<TcpBlock>()?.foresight(local, remote)?;
        let socket = sockets.downcast_ref::<Sockets>()?.reader(foresight.flow())?;
        Some(Reader { interface, mac, addresses: (local, remote), socket, foresight })
    }

    /// A block of the kind of this name, and with it.
    fn block_named(&self, name: &str) -> Option<(BlockId, &dyn Block)> {
        let graph = self.engine().graph();
        let id = graph.find(name)?;
        graph.kind(id).filter(|kind| kind.name == name)?;
        Some((id, graph.block(id)?))
    }

    fn is_edge(&self, from: (&str, &str), to: (&str, &str)) -> bool {
        let graph = self.engine().graph();
        let ends = || {
            let (source, target) = (self.block_named(from.0)?, self.block_named(to.0)?);
            let edge = graph.edge(source.0, source.1.kind().output(from.1)?)?;
            Some(edge == (target.0, target.1.kind().input(to.1)?))
        };
        ends().unwrap_or(false)
    }
}
