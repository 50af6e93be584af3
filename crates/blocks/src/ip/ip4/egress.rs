//! Packets to send: route, header, and the way out.

use super::resolve::RouteKey;
use super::*;
use crate::ip::rules::traffic_of;
use std::net::Ipv4Addr;
use weft_core::table::{RouteAnswer, RouteKind, Traffic};
use weft_wire::Protocol;
use weft_wire::checksum::Sum;
use weft_wire::ethernet::EtherType;
use weft_wire::ipv4::{HEADER_LEN, HEADER_LEN_MAX, Header, Options};

/// Largest packet, bytes.
const PACKET_BYTES_MAX: usize = 65_535;
/// RFC 1112 §6.1: "If the upper-layer protocol chooses not to specify a time-to-live, it should default to 1 for all multicast".
const MULTICAST_TTL: u8 = 1;
const IPPROTO_RAW: u8 = 255;

impl Ip4 {
    pub(super) fn send(&mut self, frame: &mut Frame, cx: &mut Context<'_>) -> Verdict {
        self.counters[count::OUT_REQUESTS] += 1;
        let meta = frame.meta();
        let (IpAddr::V4(source), IpAddr::V4(destination)) = (meta.src, meta.dst) else {
            self.counters[count::OUT_DISCARDS] += 1;
            return Verdict::Drop(Reason::BadPacket);
        };
        // RFC 1122 §3.2.1.8 (c): a source-routed packet goes to the first of its hops, and to its destination in the end.
        let destination = meta.ip_options.as_ref().and_then(|options| options.first_hop()).unwrap_or(destination);
        let key = RouteKey { destination, source, interface: meta.interface };
        frame.meta_mut().direction = Direction::Egress;
        let Some(answer) = self.route(&key, || traffic_of(frame), cx) else {
            self.counters[count::OUT_NO_ROUTES] += 1;
            return self.refuse(frame, source, IcmpErrorKind::NetUnreachable, Reason::NoRoute, cx.now);
        };
        match answer.kind {
            RouteKind::Unicast | RouteKind::Local => {}
            RouteKind::Broadcast => self.counters[count::OUT_BCAST] += 1,
            RouteKind::Multicast => self.counters[count::OUT_MCAST] += 1,
            RouteKind::Blackhole => {
                self.counters[count::OUT_DISCARDS] += 1;
                return Verdict::Drop(Reason::NoRoute);
            }
            RouteKind::Unreachable => return self.refuse(frame, source, IcmpErrorKind::HostUnreachable, Reason::NoRoute, cx.now),
            RouteKind::Prohibit => return self.refuse(frame, source, IcmpErrorKind::Prohibited, Reason::NoRoute, cx.now),
            // No look-up ends there.
            RouteKind::Throw => return self.refuse(frame, source, IcmpErrorKind::NetUnreachable, Reason::NoRoute, cx.now),
        }
        let source = self.choose_source(frame, source, &answer);
        if self.paths.mtu(destination).is_some_and(|path| path.fragments) {
            // Linux ip_dont_fragment: not on a path whose MTU is locked.
            frame.meta_mut().dont_fragment = false;
        }
        match self.check_size(frame, source, &answer, cx.now) {
            Err(verdict) => verdict,
            Ok(fits) => self.finish(frame, source, &answer, fits, cx),
        }
    }

    #[inline]
    fn route(&mut self, key: &RouteKey, traffic: impl FnOnce() -> Traffic, cx: &Context<'_>) -> Option<RouteAnswer> {
        if let Some(answer) = self.cache.get(key, self.generation) {
            return Some(answer);
        }
        self.counters[count::ROUTE_CACHE_MISSES] += 1;
        let bound = Some(key.interface).filter(|interface| *interface != InterfaceIndex::NONE);
        if let Some(bound) = bound {
            self.facts.get(bound, cx);
        }
        let source = Some(key.source).filter(|source| !source.is_unspecified());
        let answer = self.resolve(key.destination, source, bound, traffic())?;
        if !answer.several && !self.tables.rules.look_inside() {
            self.cache.put(*key, answer);
        }
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

    /// Does it fit the route? Large frames need only fit packet by packet. `Ok(false)`: it does not, and may be fragmented.
    fn check_size(&mut self, frame: &mut Frame, source: Ipv4Addr, answer: &RouteAnswer, now: Instant) -> Result<bool, Verdict> {
        let header_len = HEADER_LEN + frame.meta().ip_options.as_ref().map_or(0, |options| options.len());
        let total = header_len + frame.len();
        let packet = match frame.meta().gso {
            None => total,
            Some(gso) => header_len + transport_header_len(frame, 0) + usize::from(gso.segment_bytes),
        };
        if total > PACKET_BYTES_MAX {
            self.counters[count::FRAG_FAILS] += 1;
            self.counters[count::OUT_DISCARDS] += 1;
            return Err(Verdict::Drop(Reason::TooBig));
        }
        let fits = packet <= answer.mtu as usize;
        if !fits && frame.meta().dont_fragment {
            self.counters[count::FRAG_FAILS] += 1;
            return Err(self.refuse(frame, source, IcmpErrorKind::TooBig { mtu: answer.mtu }, Reason::TooBig, now));
        }
        Ok(fits)
    }

    /// Tells the local sender why its packet was not sent. The packet goes to it with the header that it would have had.
    fn refuse(&mut self, frame: &mut Frame, source: Ipv4Addr, kind: IcmpErrorKind, reason: Reason, now: Instant) -> Verdict {
        if !self.is_bound(OUT_ERROR) {
            return Verdict::Drop(reason);
        }
        self.push_header(frame, source, 0, now);
        self.complain(frame, kind, source.into(), reason)
    }

    fn finish(&mut self, frame: &mut Frame, source: Ipv4Addr, answer: &RouteAnswer, fits: bool, cx: &mut Context<'_>) -> Verdict {
        let meta = frame.meta_mut();
        if meta.ttl == 0 {
            meta.ttl = if answer.kind == RouteKind::Multicast { MULTICAST_TTL } else { self.default_ttl };
        }
        // RFC 6864 §4: 0 for atomic packets; a large frame takes one value for each packet it will become.
        let identification = match (meta.dont_fragment, meta.dst) {
            (false, IpAddr::V4(destination)) => {
                let protocol = meta.protocol.0;
                let packets = frame.meta().gso.map_or(1, |gso| frame.len().div_ceil(usize::from(gso.segment_bytes).max(1)) as u16);
                self.identification.take(source, destination, protocol, packets)
            }
            _ => 0,
        };
        self.push_header(frame, source, identification, cx.now);
        self.leave(frame, answer, fits, cx)
    }

    /// The way out of a packet with its header.
    fn leave(&mut self, frame: &mut Frame, answer: &RouteAnswer, fits: bool, cx: &mut Context<'_>) -> Verdict {
        let meta = frame.meta_mut();
        meta.ether_type = EtherType::IPV4;
        meta.interface = answer.interface;
        meta.next_hop = Some(answer.next_hop);
        let inside = answer.interface == InterfaceIndex::LOOPBACK;
        let looped = self.is_bound(OUT_LOOPBACK);
        match answer.kind {
            RouteKind::Local if !looped => return Verdict::Drop(Reason::NotBound),
            // A broadcast on `lo` (127.255.255.255), and a group reached through it, is heard here and goes nowhere else.
            RouteKind::Local => return self.loop_back(frame),
            RouteKind::Broadcast | RouteKind::Multicast if inside && looped => return self.loop_back(frame),
            RouteKind::Broadcast => {
                // Subnet broadcasts need no resolution, and arp cannot know that they are broadcasts.
                frame.meta_mut().next_hop = Some(Ipv4Addr::BROADCAST.into());
                if looped {
                    // Linux ip_mc_output: the sender's own sockets hear a broadcast too.
                    let mut copy = frame.clone();
                    copy.take_completion();
                    cx.emit(OUT_LOOPBACK, copy);
                }
            }
            RouteKind::Multicast if !frame.meta().no_loop => self.hear_own(frame, answer.interface, cx),
            _ => {}
        }
        if !fits {
            return self.send_fragments(frame, answer.mtu as usize, cx);
        }
        self.counters[count::OUT_OCTETS] += frame.len() as u64;
        Verdict::Forward(OUT_LOWER)
    }

    fn loop_back(&mut self, frame: &Frame) -> Verdict {
        self.counters[count::OUT_OCTETS] += frame.len() as u64;
        Verdict::Forward(OUT_LOOPBACK)
    }

    /// Linux __mkroute_output and ip_mc_output: who is in the group on the interface through which a packet to it leaves hears the packet, as if it
    /// had come in there.
    fn hear_own(&mut self, frame: &Frame, interface: InterfaceIndex, cx: &mut Context<'_>) {
        let (IpAddr::V4(src), IpAddr::V4(dst)) = (frame.meta().src, frame.meta().dst) else { return };
        let protocol = frame.meta().protocol;
        if !self.wants_group(interface, dst, src, cx) || protocol == Protocol::IGMP {
            return;
        }
        let mut copy = frame.clone();
        copy.take_completion();
        copy.meta_mut().direction = Direction::Ingress;
        if copy.meta().checksum == Checksum::Unknown {
            copy.meta_mut().checksum = Checksum::Valid;
        }
        let header_len = usize::from(frame.meta().transport_at - frame.meta().network_at);
        if let Verdict::Forward(port) = self.deliver(&mut copy, protocol, header_len, cx)
            && port != OUT_ERROR
        {
            cx.emit(port, copy);
        }
    }

    /// A packet that its sender made with its header (IP_HDRINCL); `meta.dst` says where it is to go.
    ///
    /// Linux raw_send_hdrinc: "iph->check = 0; iph->tot_len = htons(length); if (!iph->id) ip_select_ident(…)", and the source if it is zero.
    pub(super) fn send_packet(&mut self, frame: &mut Frame, cx: &mut Context<'_>) -> Verdict {
        self.counters[count::OUT_REQUESTS] += 1;
        let _ = frame.pull_up(frame.len().min(HEADER_LEN_MAX));
        let parsed = fill_length(frame).and_then(|()| Header::parse(frame.head()).ok());
        let (Some((mut header, _)), IpAddr::V4(destination)) = (parsed, frame.meta().dst) else {
            self.counters[count::OUT_DISCARDS] += 1;
            return Verdict::Drop(Reason::BadPacket);
        };
        // The header's source need not be ours, and does not choose the way.
        let key = RouteKey { destination, source: Ipv4Addr::UNSPECIFIED, interface: frame.meta().interface };
        let meta = frame.meta_mut();
        (meta.direction, meta.protocol, meta.ttl, meta.tos) = (Direction::Egress, header.protocol, header.ttl, header.tos);
        meta.dont_fragment = header.dont_fragment;
        // Linux raw_sendmsg: the protocol is IPPROTO_RAW, and there are no ports.
        let traffic = Traffic { mark: frame.meta().mark, tos: header.tos, protocol: IPPROTO_RAW, ..Traffic::default() };
        let Some(answer) = self.route(&key, || traffic, cx) else {
            self.counters[count::OUT_NO_ROUTES] += 1;
            return self.complain(frame, IcmpErrorKind::NetUnreachable, header.src.into(), Reason::NoRoute);
        };
        let refusal = match answer.kind {
            RouteKind::Blackhole => return Verdict::Drop(Reason::NoRoute),
            RouteKind::Unreachable => Some(IcmpErrorKind::HostUnreachable),
            RouteKind::Prohibit => Some(IcmpErrorKind::Prohibited),
            _ => None,
        };
        if let Some(kind) = refusal {
            return self.complain(frame, kind, header.src.into(), Reason::NoRoute);
        }
        if let (true, IpAddr::V4(chosen)) = (header.src.is_unspecified(), answer.source) {
            header.src = chosen;
        }
        if header.identification == 0 && !header.dont_fragment {
            header.identification = self.identification.take(header.src, header.dst, header.protocol.0, 1);
        }
        header.emit(&mut frame.head_mut()[..header.header_len()]);
        let network_at = frame.position();
        let meta = frame.meta_mut();
        (meta.src, meta.dst) = (header.src.into(), header.dst.into());
        meta.network_at = network_at;
        meta.transport_at = network_at + header.header_len() as u16;
        // "if (length > rt->dst.dev->mtu) { ip_local_error(sk, EMSGSIZE, …)": such packets are never fragmented.
        if frame.len() > answer.mtu as usize {
            self.counters[count::FRAG_FAILS] += 1;
            return self.complain(frame, IcmpErrorKind::TooBig { mtu: answer.mtu }, header.src.into(), Reason::TooBig);
        }
        match answer.kind {
            RouteKind::Broadcast => self.counters[count::OUT_BCAST] += 1,
            RouteKind::Multicast => self.counters[count::OUT_MCAST] += 1,
            _ => {}
        }
        self.leave(frame, &answer, true, cx)
    }

    #[inline]
    fn push_header(&self, frame: &mut Frame, source: Ipv4Addr, identification: u16, now: Instant) {
        let prepared = frame.meta_mut().ip_options.take();
        let meta = frame.meta();
        let IpAddr::V4(dst) = meta.dst else { return };
        let mut header = Header {
            tos: meta.tos,
            identification,
            dont_fragment: meta.dont_fragment,
            ttl: meta.ttl.max(1),
            protocol: meta.protocol,
            src: source,
            dst,
            ..Header::default()
        };
        if let Some(prepared) = prepared {
            // At most 40 bytes, by their type.
            header.options = Options::from_bytes(&prepared.write(source, dst, self.milliseconds_since_midnight(now))).unwrap_or_default();
            header.dst = prepared.first_hop().unwrap_or(dst);
        }
        let header_len = header.header_len();
        header.total_len = (header_len + frame.len()).min(PACKET_BYTES_MAX) as u16;
        header.emit(frame.push(header_len));
        let network_at = frame.position();
        let meta = frame.meta_mut();
        meta.network_at = network_at;
        meta.transport_at = network_at + header_len as u16;
    }
}

/// The total length is what there is. `None`: more than a packet can be, or no whole header.
fn fill_length(frame: &mut Frame) -> Option<()> {
    let length = u16::try_from(frame.len()).ok()?;
    frame.head_mut().get_mut(2..4)?.copy_from_slice(&length.to_be_bytes());
    Some(())
}

/// Bytes of the transport header of a large frame, which begins `at` bytes into it.
pub(super) fn transport_header_len(frame: &Frame, at: usize) -> usize {
    match (frame.meta().protocol, frame.head().get(at + 12)) {
        (Protocol::TCP, Some(offset)) => usize::from(offset >> 4) * 4,
        (Protocol::TCP, None) => weft_wire::tcp::HEADER_LEN,
        _ => weft_wire::udp::LEN,
    }
}
