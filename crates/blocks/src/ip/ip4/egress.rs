//! Packets to send: route, header, and the way out.

use super::resolve::RouteKey;
use super::*;
use std::net::Ipv4Addr;
use weft_core::table::{RouteAnswer, RouteKind};
use weft_wire::Protocol;
use weft_wire::checksum::Sum;
use weft_wire::ethernet::EtherType;
use weft_wire::ipv4::{HEADER_LEN, Header};

/// Largest packet, bytes.
const PACKET_BYTES_MAX: usize = 65_535;
/// RFC 1112 §6.1: "If the upper-layer protocol chooses not to specify a time-to-live, it should default to 1 for all multicast".
const MULTICAST_TTL: u8 = 1;

impl Ip4 {
    pub(super) fn send(&mut self, frame: &mut Frame, cx: &mut Context<'_>) -> Verdict {
        self.counters[count::OUT_REQUESTS] += 1;
        let meta = frame.meta();
        let (IpAddr::V4(source), IpAddr::V4(destination)) = (meta.src, meta.dst) else {
            self.counters[count::OUT_DISCARDS] += 1;
            return Verdict::Drop(Reason::BadPacket);
        };
        let key = RouteKey { destination, source, interface: meta.interface };
        frame.meta_mut().direction = Direction::Egress;
        let Some(answer) = self.route(&key, cx) else {
            self.counters[count::OUT_NO_ROUTES] += 1;
            return self.refuse(frame, source, IcmpErrorKind::NetUnreachable, Reason::NoRoute);
        };
        match answer.kind {
            RouteKind::Unicast | RouteKind::Local => {}
            RouteKind::Broadcast => self.counters[count::OUT_BCAST] += 1,
            RouteKind::Multicast => self.counters[count::OUT_MCAST] += 1,
            RouteKind::Blackhole => {
                self.counters[count::OUT_DISCARDS] += 1;
                return Verdict::Drop(Reason::NoRoute);
            }
            RouteKind::Unreachable => return self.refuse(frame, source, IcmpErrorKind::HostUnreachable, Reason::NoRoute),
            RouteKind::Prohibit => return self.refuse(frame, source, IcmpErrorKind::Prohibited, Reason::NoRoute),
        }
        let source = self.choose_source(frame, source, &answer);
        if let Some(verdict) = self.check_size(frame, source, &answer) {
            return verdict;
        }
        self.finish(frame, source, &answer, cx)
    }

    #[inline]
    fn route(&mut self, key: &RouteKey, cx: &Context<'_>) -> Option<RouteAnswer> {
        if let Some(answer) = self.cache.get(key, self.generation) {
            return Some(answer);
        }
        self.counters[count::ROUTE_CACHE_MISSES] += 1;
        let bound = Some(key.interface).filter(|interface| *interface != InterfaceIndex::NONE);
        if let Some(bound) = bound {
            self.facts.get(bound, cx);
        }
        let source = Some(key.source).filter(|source| !source.is_unspecified());
        let answer = self.resolve(key.destination, source, bound)?;
        self.cache.put(*key, answer);
        Some(answer)
    }

    /// The source address: the sender's, or the route's. An unfinished checksum gets the chosen one added, which was zero in it before.
    #[inline]
    fn choose_source(&self, frame: &mut Frame, source: Ipv4Addr, answer: &RouteAnswer) -> Ipv4Addr {
        let IpAddr::V4(chosen) = answer.source else { return source };
        if !source.is_unspecified() || chosen == source {
            return source;
        }
        if let Checksum::Partial { offset } = frame.meta().checksum {
            let at = usize::from(offset);
            if frame.pull_up(at + 2).is_ok()
                && let Some(field) = frame.head_mut().get_mut(at..at + 2)
            {
                let before = u16::from_be_bytes([field[0], field[1]]);
                let sum = Sum::from_folded(before).add_u32(chosen.to_bits()).fold();
                field.copy_from_slice(&sum.to_be_bytes());
            }
        }
        frame.meta_mut().src = chosen.into();
        chosen
    }

    /// Does it fit the route? Large frames need only fit packet by packet.
    fn check_size(&mut self, frame: &mut Frame, source: Ipv4Addr, answer: &RouteAnswer) -> Option<Verdict> {
        let total = HEADER_LEN + frame.len();
        let packet = match frame.meta().gso {
            None => total,
            Some(gso) => HEADER_LEN + transport_header_len(frame) + usize::from(gso.segment_bytes),
        };
        if total <= PACKET_BYTES_MAX && packet <= answer.mtu as usize {
            return None;
        }
        self.counters[count::FRAG_FAILS] += 1;
        if !frame.meta().dont_fragment || total > PACKET_BYTES_MAX {
            self.counters[count::OUT_DISCARDS] += 1;
            return Some(Verdict::Drop(Reason::TooBig));
        }
        Some(self.refuse(frame, source, IcmpErrorKind::TooBig { mtu: answer.mtu }, Reason::TooBig))
    }

    /// Tells the local sender why its packet was not sent. The packet goes to it with the header that it would have had.
    fn refuse(&mut self, frame: &mut Frame, source: Ipv4Addr, kind: IcmpErrorKind, reason: Reason) -> Verdict {
        if !self.is_bound(OUT_ERROR) {
            return Verdict::Drop(reason);
        }
        self.push_header(frame, source, 0);
        self.complain(frame, kind, source.into(), reason)
    }

    fn finish(&mut self, frame: &mut Frame, source: Ipv4Addr, answer: &RouteAnswer, cx: &mut Context<'_>) -> Verdict {
        let meta = frame.meta_mut();
        if meta.ttl == 0 {
            meta.ttl = if answer.kind == RouteKind::Multicast { MULTICAST_TTL } else { self.default_ttl };
        }
        meta.ether_type = EtherType::IPV4;
        meta.interface = answer.interface;
        meta.next_hop = Some(answer.next_hop);
        // RFC 6864 §4: 0 for atomic packets; a large frame takes one value for each packet it will become.
        let identification = match (meta.dont_fragment, meta.dst) {
            (false, IpAddr::V4(destination)) => {
                let protocol = meta.protocol.0;
                let packets = frame.meta().gso.map_or(1, |gso| frame.len().div_ceil(usize::from(gso.segment_bytes).max(1)) as u16);
                self.identification.take(source, destination, protocol, packets)
            }
            _ => 0,
        };
        self.push_header(frame, source, identification);
        self.counters[count::OUT_OCTETS] += frame.len() as u64;
        match answer.kind {
            RouteKind::Local if self.is_bound(OUT_LOOPBACK) => Verdict::Forward(OUT_LOOPBACK),
            RouteKind::Local => Verdict::Drop(Reason::NotBound),
            // A broadcast on `lo` (127.255.255.255), and a group reached through it, is heard here and goes nowhere else.
            RouteKind::Broadcast | RouteKind::Multicast if answer.interface == InterfaceIndex::LOOPBACK && self.is_bound(OUT_LOOPBACK) => {
                Verdict::Forward(OUT_LOOPBACK)
            }
            RouteKind::Broadcast => {
                // Subnet broadcasts need no resolution, and arp cannot know that they are broadcasts.
                frame.meta_mut().next_hop = Some(Ipv4Addr::BROADCAST.into());
                if self.is_bound(OUT_LOOPBACK) {
                    // Linux ip_mc_output: the sender's own sockets hear a broadcast too.
                    let mut copy = frame.clone();
                    copy.take_completion();
                    cx.emit(OUT_LOOPBACK, copy);
                }
                Verdict::Forward(OUT_LOWER)
            }
            _ => Verdict::Forward(OUT_LOWER),
        }
    }

    #[inline]
    fn push_header(&self, frame: &mut Frame, source: Ipv4Addr, identification: u16) {
        let meta = frame.meta();
        let IpAddr::V4(dst) = meta.dst else { return };
        let header = Header {
            tos: meta.tos,
            total_len: (HEADER_LEN + frame.len()).min(PACKET_BYTES_MAX) as u16,
            identification,
            dont_fragment: meta.dont_fragment,
            ttl: meta.ttl.max(1),
            protocol: meta.protocol,
            src: source,
            dst,
            ..Header::default()
        };
        header.emit(frame.push(HEADER_LEN));
        let network_at = frame.position();
        let meta = frame.meta_mut();
        meta.network_at = network_at;
        meta.transport_at = network_at + HEADER_LEN as u16;
    }
}

/// Bytes of the transport header of a large frame.
fn transport_header_len(frame: &Frame) -> usize {
    match (frame.meta().protocol, frame.head().get(12)) {
        (Protocol::TCP, Some(offset)) => usize::from(offset >> 4) * 4,
        (Protocol::TCP, None) => weft_wire::tcp::HEADER_LEN,
        _ => weft_wire::udp::LEN,
    }
}
