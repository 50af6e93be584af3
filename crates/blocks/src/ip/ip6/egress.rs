//! Packets to send: route, header, and the way out.

use super::resolve::RouteKey;
use super::*;
use crate::ip::rules::traffic_of;
use std::hash::{BuildHasher, Hasher};
use std::net::{Ipv4Addr, Ipv6Addr};
use weft_core::table::{RouteAnswer, RouteKind, Traffic};
use weft_wire::checksum::Sum;
use weft_wire::ethernet::EtherType;
use weft_wire::ipv6::{HEADER_LEN, Header};

/// Largest payload of an IPv6 packet, bytes.
const PAYLOAD_BYTES_MAX: usize = 65_535;
/// Linux IPV6_DEFAULT_MCASTHOPS.
const MULTICAST_HOP_LIMIT: u8 = 1;
const IPPROTO_RAW: u8 = 255;

/// An address as IPv6; metadata that nobody filled in hold the unspecified one of IPv4.
fn as_v6(address: IpAddr) -> Option<Ipv6Addr> {
    match address {
        IpAddr::V6(ip) => Some(ip),
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Some(Ipv6Addr::UNSPECIFIED),
        IpAddr::V4(_) => None,
    }
}

impl Ip6 {
    pub(super) fn send(&mut self, frame: &mut Frame, cx: &mut Context<'_>) -> Verdict {
        self.counters[count::OUT_REQUESTS] += 1;
        let meta = frame.meta();
        let (Some(source), IpAddr::V6(destination)) = (as_v6(meta.src), meta.dst) else {
            self.counters[count::OUT_DISCARDS] += 1;
            return Verdict::Drop(Reason::BadPacket);
        };
        let destination = meta.attached.as_ref().and_then(|attached| attached.first_hop()).unwrap_or(destination);
        let key = RouteKey { destination, source, interface: meta.interface };
        frame.meta_mut().direction = Direction::Egress;
        let answer = match self.way(frame, &key, || traffic_of(frame), cx) {
            Ok(answer) => answer,
            Err((kind, reason)) => return self.refuse(frame, source, kind, reason),
        };
        let source = choose_source(frame, source, &answer);
        if let Some(verdict) = self.check_size(frame, source, &answer, cx) {
            return verdict;
        }
        self.finish(frame, source, &answer, cx)
    }

    /// The route of a packet, or what its sender is to hear.
    fn way(
        &mut self,
        frame: &Frame,
        key: &RouteKey,
        traffic: impl FnOnce() -> Traffic,
        cx: &Context<'_>,
    ) -> Result<RouteAnswer, (Option<IcmpErrorKind>, Reason)> {
        let Some(answer) = self.route(key, traffic, cx) else {
            self.counters[count::OUT_NO_ROUTES] += 1;
            return Err((Some(IcmpErrorKind::NetUnreachable), Reason::NoRoute));
        };
        let refusal = match answer.kind {
            // RFC 4291 §2.5.2: the unspecified address "must never be assigned to any node"; as a source it is for those without an address,
            // who send nothing but what nd sends.
            RouteKind::Unicast | RouteKind::Local | RouteKind::Broadcast => return Ok(answer),
            RouteKind::Multicast => {
                self.counters[count::OUT_MCAST] +=
                    frame.meta().gso.map_or(1, |gso| frame.len().div_ceil(gso.segment_bytes.max(1).into())) as u64;
                return Ok(answer);
            }
            RouteKind::Blackhole => None,
            RouteKind::Unreachable => Some(IcmpErrorKind::HostUnreachable),
            RouteKind::Prohibit => Some(IcmpErrorKind::Prohibited),
            // No look-up ends there.
            RouteKind::Throw => Some(IcmpErrorKind::NetUnreachable),
        };
        self.counters[count::OUT_DISCARDS] += 1;
        Err((refusal, Reason::NoRoute))
    }

    /// Does it fit the route? Large frames need only fit packet by packet; what may be fragmented is.
    fn check_size(&mut self, frame: &mut Frame, source: Ipv6Addr, answer: &RouteAnswer, cx: &mut Context<'_>) -> Option<Verdict> {
        let headers = HEADER_LEN + frame.meta().attached.as_ref().map_or(0, |attached| attached.len());
        let packet = match frame.meta().gso {
            None => headers + frame.len(),
            Some(gso) => headers + transport_header_len(frame) + usize::from(gso.segment_bytes),
        };
        let payload = frame.len() + headers - HEADER_LEN;
        if payload <= PAYLOAD_BYTES_MAX && packet <= answer.mtu as usize {
            return None;
        }
        if payload > PAYLOAD_BYTES_MAX {
            self.counters[count::OUT_DISCARDS] += 1;
            return Some(Verdict::Drop(Reason::TooBig));
        }
        let meta = frame.meta();
        if meta.gso.is_none() && !meta.dont_fragment && meta.protocol != Protocol::TCP {
            return Some(self.send_fragments(frame, source, answer, cx));
        }
        self.counters[count::FRAG_FAILS] += 1;
        Some(self.refuse(frame, source, Some(IcmpErrorKind::TooBig { mtu: answer.mtu }), Reason::TooBig))
    }

    /// Tells the local sender why its packet was not sent. The packet goes to it with the header that it would have had.
    fn refuse(&mut self, frame: &mut Frame, source: Ipv6Addr, kind: Option<IcmpErrorKind>, reason: Reason) -> Verdict {
        let Some(kind) = kind.filter(|_| self.is_bound(OUT_ERROR)) else { return Verdict::Drop(reason) };
        self.push_header(frame, source);
        self.complain(frame, kind, source.into(), reason)
    }

    fn finish(&mut self, frame: &mut Frame, source: Ipv6Addr, answer: &RouteAnswer, cx: &mut Context<'_>) -> Verdict {
        self.set_hop_limit(frame, answer);
        self.push_header(frame, source);
        self.leave(frame, source, answer, cx)
    }

    pub(super) fn set_hop_limit(&self, frame: &mut Frame, answer: &RouteAnswer) {
        let meta = frame.meta_mut();
        if meta.ttl == 0 {
            // RFC 4861 §6.3.2: CurHopLimit, "The default hop limit to be used when sending IP packets", which routers may tell.
            let told = || self.links.get(&answer.interface).and_then(|link| link.hop_limit);
            meta.ttl = if answer.kind == RouteKind::Multicast { MULTICAST_HOP_LIMIT } else { told().unwrap_or(self.default_hop_limit) };
        }
    }

    /// Sends a packet with its header on its way.
    pub(super) fn leave(&mut self, frame: &mut Frame, source: Ipv6Addr, answer: &RouteAnswer, cx: &mut Context<'_>) -> Verdict {
        if self.disabled.is(answer.interface) {
            // ip6_output drops in silence.
            self.counters[count::DISABLED] += 1;
            return Verdict::Drop(Reason::Ipv6Disabled);
        }
        self.counters[count::OUT_OCTETS] += frame.len() as u64;
        let meta = frame.meta_mut();
        meta.ether_type = EtherType::IPV6;
        meta.interface = answer.interface;
        meta.next_hop = Some(answer.next_hop);
        let IpAddr::V6(destination) = meta.dst else { return Verdict::Drop(Reason::BadPacket) };
        let loops = self.is_bound(OUT_LOOPBACK);
        match answer.kind {
            RouteKind::Local if loops => Verdict::Forward(OUT_LOOPBACK),
            RouteKind::Local => Verdict::Drop(Reason::NotBound),
            // A group on `lo`, or of this interface alone, is heard here and goes nowhere else.
            RouteKind::Multicast if answer.interface == InterfaceIndex::LOOPBACK || destination.octets()[1] & 0xf <= 1 => match loops {
                true => Verdict::Forward(OUT_LOOPBACK),
                false => Verdict::Drop(Reason::NotBound),
            },
            RouteKind::Multicast => {
                // Linux ip6_finish_output2: the node's own listeners hear it too.
                if loops && !frame.meta().no_loop && self.is_wanted(answer.interface, destination, source, cx) {
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
    fn push_header(&self, frame: &mut Frame, source: Ipv6Addr) {
        let flow_label = self.flow_label(frame, source);
        let IpAddr::V6(dst) = frame.meta().dst else { return };
        let (next_header, dst, attached_len) = match frame.meta_mut().attached.take() {
            None => (frame.meta().protocol, dst, 0),
            Some(attached) => {
                let (tail, next) = attached.fragmentable_bytes(frame.meta().protocol);
                frame.push(tail.len()).copy_from_slice(&tail);
                let next = push_unfragmentable(frame, &attached, dst, next);
                (next, attached.first_hop().unwrap_or(dst), attached.len())
            }
        };
        let meta = frame.meta();
        let header = Header {
            traffic_class: meta.tos,
            flow_label,
            payload_len: frame.len().min(PAYLOAD_BYTES_MAX) as u16,
            next_header,
            hop_limit: meta.ttl.max(1),
            src: source,
            dst,
        };
        header.emit(frame.push(HEADER_LEN));
        let network_at = frame.position();
        let meta = frame.meta_mut();
        meta.network_at = network_at;
        meta.transport_at = network_at + (HEADER_LEN + attached_len) as u16;
    }

    /// RFC 6437 §3: "It is therefore RECOMMENDED that source hosts support the flow label by setting the Flow Label field for all packets of a
    /// given flow to the same value chosen from an approximation to a discrete uniform distribution." As Linux's auto_flowlabels: a keyed hash.
    #[inline]
    pub(super) fn flow_label(&self, frame: &Frame, source: Ipv6Addr) -> u32 {
        let meta = frame.meta();
        let IpAddr::V6(destination) = meta.dst else { return 0 };
        let ports = match (meta.protocol, frame.head().first_chunk::<4>()) {
            (Protocol::TCP | Protocol::UDP | Protocol::UDPLITE, Some(ports)) => u32::from_be_bytes(*ports),
            _ => 0,
        };
        let mut hasher = self.flow_hasher.build_hasher();
        hasher.write_u128(source.to_bits());
        hasher.write_u128(destination.to_bits());
        hasher.write_u64(u64::from(ports) << 8 | u64::from(meta.protocol.0));
        // Zero says that there is no label.
        (hasher.finish() as u32 & 0xf_ffff).max(1)
    }

    /// A packet that brings its header (IPV6_HDRINCL): it is sent as it is, if there is a way.
    pub(super) fn send_packet(&mut self, frame: &mut Frame, cx: &mut Context<'_>) -> Verdict {
        self.counters[count::OUT_REQUESTS] += 1;
        let _ = frame.pull_up(frame.len().min(HEADER_LEN));
        let Ok((header, header_len)) = Header::parse(frame.head()) else {
            self.counters[count::OUT_DISCARDS] += 1;
            return Verdict::Drop(Reason::BadPacket);
        };
        let network_at = frame.position();
        let meta = frame.meta_mut();
        meta.direction = Direction::Egress;
        meta.network_at = network_at;
        meta.transport_at = network_at + header_len as u16;
        (meta.src, meta.dst, meta.protocol) = (header.src.into(), header.dst.into(), header.next_header);
        (meta.ttl, meta.tos) = (header.hop_limit, header.traffic_class);
        // Whose the source is does not matter (Linux rawv6_send_hdrinc).
        let own = Some(header.src).filter(|source| !self.addresses.owners(*source).is_empty()).unwrap_or(Ipv6Addr::UNSPECIFIED);
        let key = RouteKey { destination: header.dst, source: own, interface: meta.interface };
        let traffic = Traffic { mark: meta.mark, tos: header.traffic_class, protocol: IPPROTO_RAW, ..Traffic::default() };
        let answer = match self.way(frame, &key, || traffic, cx) {
            Ok(answer) => answer,
            Err((None, reason)) => return Verdict::Drop(reason),
            Err((Some(kind), reason)) => return self.complain(frame, kind, header.src.into(), reason),
        };
        if frame.len() > answer.mtu as usize {
            self.counters[count::FRAG_FAILS] += 1;
            return self.complain(frame, IcmpErrorKind::TooBig { mtu: answer.mtu }, header.src.into(), Reason::TooBig);
        }
        self.leave(frame, header.src, &answer, cx)
    }
}

/// Puts the headers in front that every fragment has; what the IPv6 header's next header is then.
pub(super) fn push_unfragmentable(frame: &mut Frame, attached: &Attached, to: Ipv6Addr, next: Protocol) -> Protocol {
    let (bytes, next) = attached.unfragmentable_bytes(to, next);
    frame.push(bytes.len()).copy_from_slice(&bytes);
    next
}

/// The source address: the sender's, or the route's. An unfinished checksum gets the chosen one added, which was zero in it before.
#[inline]
fn choose_source(frame: &mut Frame, source: Ipv6Addr, answer: &RouteAnswer) -> Ipv6Addr {
    let IpAddr::V6(chosen) = answer.source else { return source };
    if !source.is_unspecified() || chosen == source {
        return source;
    }
    if let Checksum::Partial { offset } = frame.meta().checksum {
        let at = usize::from(offset);
        if frame.pull_up(at + 2).is_ok()
            && let Some(field) = frame.head_mut().get_mut(at..at + 2)
        {
            let before = u16::from_be_bytes([field[0], field[1]]);
            let sum = Sum::from_folded(before).add_bytes(&chosen.octets()).fold();
            field.copy_from_slice(&sum.to_be_bytes());
        }
    }
    frame.meta_mut().src = chosen.into();
    chosen
}

/// Bytes of the transport header of a large frame.
pub(super) fn transport_header_len(frame: &Frame) -> usize {
    match (frame.meta().protocol, frame.head().get(12)) {
        (Protocol::TCP, Some(offset)) => usize::from(offset >> 4) * 4,
        (Protocol::TCP, None) => weft_wire::tcp::HEADER_LEN,
        _ => weft_wire::udp::LEN,
    }
}
