//! Packets for others, sent on: what Linux's ip_forward does, in its order.

use super::egress::transport_header_len;
use super::fragments::renew_checksum;
use super::options::{Found, Stamp, record};
use super::resolve::RouteKey;
use super::*;
use crate::ip::hops;
use crate::ip::rules::{four_at, ports_of};
use std::net::Ipv4Addr;
use weft_core::table::{RouteAnswer, RouteKind, Traffic};
use weft_wire::checksum;
use weft_wire::ethernet::EtherType;
use weft_wire::ipv4::{CHECKSUM_OFFSET, HEADER_LEN, Header};

const TTL_AT: usize = 8;
/// A day, milliseconds.
const DAY_MILLIS: u64 = 86_400_000;
/// RFC 791 §3.1: "any time may be inserted as a timestamp provided the high order bit of the timestamp field is set to one to indicate the use of a
/// non-standard value."
const NON_STANDARD_TIME: u32 = 0x8000_0000;

impl Ip4 {
    /// Does this node send on what comes in there?
    pub(super) fn forwards(&self, interface: InterfaceIndex) -> bool {
        self.forward
            && (self.forward_from.is_empty()
                || self.facts.peek(interface).is_some_and(|facts| self.forward_from.iter().any(|name| **name == *facts.name)))
    }

    /// Sends on a packet for others, which begins with its header; addresses and options are checked.
    pub(super) fn forward(&mut self, frame: &mut Frame, header: &Header, options: Found, cx: &mut Context<'_>) -> Verdict {
        let unknown = Ipv4Addr::UNSPECIFIED.into();
        let key = RouteKey { destination: header.dst, source: header.src, interface: frame.meta().interface };
        let Some(answer) = self.forward_route(&key, || received_traffic(frame, header), cx) else {
            self.counters[count::IN_NO_ROUTES] += 1;
            return self.complain(frame, IcmpErrorKind::NetUnreachable, unknown, Reason::NoRoute);
        };
        match answer.kind {
            RouteKind::Blackhole => return Verdict::Drop(Reason::NoRoute),
            RouteKind::Unreachable => return self.complain(frame, IcmpErrorKind::HostUnreachable, unknown, Reason::NoRoute),
            RouteKind::Prohibit => return self.complain(frame, IcmpErrorKind::Prohibited, unknown, Reason::NoRoute),
            _ => {}
        }
        // RFC 1812 §5.3.1: "If the TTL is reduced to zero (or less), the packet MUST be discarded, and … the router MUST send an ICMP Time
        // Exceeded message, Code 0".
        if header.ttl <= 1 {
            self.counters[count::IN_HDR_ERRORS] += 1;
            return self.complain(frame, IcmpErrorKind::TtlExceeded, unknown, Reason::TtlExceeded);
        }
        self.counters[count::FORWARDED] += 1;
        let header_len = header.header_len();
        let packet = match frame.meta().gso {
            None => frame.len(),
            Some(gso) => header_len + transport_header_len(frame, header_len) + usize::from(gso.segment_bytes),
        };
        let fits = packet <= answer.mtu as usize;
        if !fits && header.dont_fragment {
            self.counters[count::FRAG_FAILS] += 1;
            return self.complain(frame, IcmpErrorKind::TooBig { mtu: answer.mtu }, unknown, Reason::TooBig);
        }
        self.rewrite(frame, header, options, &answer, cx.now);
        if answer.interface == frame.meta().interface {
            self.tell_redirect(frame, header, &answer, cx);
        }
        let meta = frame.meta_mut();
        meta.ether_type = EtherType::IPV4;
        meta.interface = answer.interface;
        meta.next_hop = Some(answer.next_hop);
        if !fits {
            return self.send_fragments(frame, answer.mtu as usize, cx);
        }
        self.counters[count::OUT_OCTETS] += frame.len() as u64;
        Verdict::Forward(OUT_LOWER)
    }

    /// RFC 1812 §5.2.7.2: a redirect only where "The packet is being forwarded out the same physical interface that it was received from" and "The
    /// IP source address in the packet is on the same Logical IP (sub)network as the next-hop IP address". Linux's shared_media, which is on, asks in
    /// place of the latter whether the source is on the link. (Source routes are not forwarded at all.)
    fn tell_redirect(&mut self, frame: &Frame, header: &Header, answer: &RouteAnswer, cx: &mut Context<'_>) {
        let from = frame.meta().interface;
        if !self.send_redirects || !self.is_bound(OUT_ERROR) || frame.meta().dst_mac.is_multicast() {
            return;
        }
        let on_link = self.lookup(header.src, Some(from)).is_some_and(|route| route.gateway.is_none() && route.kind == RouteKind::Unicast);
        if !on_link || !self.redirects.take(header.src.into(), cx.now) {
            return;
        }
        self.counters[count::OUT_REDIRECTS] += 1;
        let mut copy = frame.clone();
        let meta = copy.meta_mut();
        meta.error = Some(IcmpError { kind: IcmpErrorKind::Redirect { gateway: answer.next_hop }, from: Ipv4Addr::UNSPECIFIED.into() });
        (meta.completion, meta.gso) = (None, None);
        cx.emit(OUT_ERROR, copy);
    }

    /// One hop less, and what options ask for. The transport's bytes and the state of its checksum stay as they are.
    fn rewrite(&self, frame: &mut Frame, header: &Header, options: Found, answer: &RouteAnswer, now: Instant) {
        let header_len = header.header_len();
        let Some(bytes) = frame.head_mut().get_mut(..header_len) else { return };
        // RFC 1812 §4.2.2.5, RFC 1624: the checksum follows the one field that changes.
        let before = u16::from_be_bytes([bytes[TTL_AT], bytes[TTL_AT + 1]]);
        bytes[TTL_AT] = header.ttl - 1;
        let after = u16::from_be_bytes([bytes[TTL_AT], bytes[TTL_AT + 1]]);
        let sum = u16::from_be_bytes([bytes[CHECKSUM_OFFSET], bytes[CHECKSUM_OFFSET + 1]]);
        bytes[CHECKSUM_OFFSET..CHECKSUM_OFFSET + 2].copy_from_slice(&checksum::update_u16(sum, before, after).to_be_bytes());
        if header_len > HEADER_LEN
            && let IpAddr::V4(onward) = answer.source
        {
            // Linux fib_compute_spec_dst: the source of what would go back.
            let back = match self.resolve(header.src, None, None, Traffic::default()).map(|way| way.source) {
                Some(IpAddr::V4(back)) => back,
                _ => onward,
            };
            let stamp = Stamp { onward, back, time: self.milliseconds_since_midnight(now) };
            record(&mut bytes[HEADER_LEN..], options, stamp, |asked| !self.addresses.owners(asked).is_empty());
            renew_checksum(bytes);
        }
        frame.meta_mut().ttl = header.ttl - 1;
    }

    /// RFC 791 §3.1: "a right-justified, 32-bit timestamp in milliseconds since midnight UT", or, as nobody told, since the node's boot.
    pub(super) fn milliseconds_since_midnight(&self, now: Instant) -> u32 {
        match self.boot_time {
            0 => now.as_millis() as u32 | NON_STANDARD_TIME,
            boot => ((boot / 1_000_000 + now.as_millis()) % DAY_MILLIS) as u32,
        }
    }

    #[inline]
    fn forward_route(&mut self, key: &RouteKey, traffic: impl FnOnce() -> Traffic, cx: &Context<'_>) -> Option<RouteAnswer> {
        if let Some(answer) = self.forward_cache.get(key, self.generation) {
            return Some(answer);
        }
        let found = self.followed(key.destination, Some(key.source), None, traffic())?;
        let (route, several) = (*found, found.several());
        if route.kind == RouteKind::Unicast {
            self.facts.get(route.interface, cx);
        }
        let answer = self.onward(key.destination, &route);
        if !several && !self.tables.rules.look_inside() {
            self.forward_cache.put(*key, answer);
        }
        Some(answer)
    }

    /// How a packet for others goes on that follows a route.
    pub(super) fn onward(&self, destination: Ipv4Addr, route: &Route) -> RouteAnswer {
        let next_hop = match route.gateway {
            Some(IpAddr::V4(gateway)) => gateway,
            _ => destination,
        };
        // What options record (Linux ip_rt_get_source).
        let own = match route.source {
            Some(IpAddr::V4(preferred)) => Some(preferred),
            _ => self.addresses.source_for(route.interface, next_hop),
        };
        // Linux ip_dst_mtu_maybe_forward with ip_forward_use_pmtu 0: what routers told about paths is for this node's own packets.
        self.answer(route.kind, route.interface, own.unwrap_or(Ipv4Addr::UNSPECIFIED), next_hop, route.mtu)
    }
}

/// What rules may look at of a packet for others. Linux fib4_rules_early_flow_dissect: fragments have no ports, the first neither.
fn received_traffic(frame: &Frame, header: &Header) -> Traffic {
    let fragment = header.more_fragments || header.fragment_offset != 0;
    let above = four_at(frame, header.header_len()).filter(|_| !fragment);
    let (protocol, meta) = (header.protocol.0, frame.meta());
    let about = if fragment { None } else { hops::about(frame, header.header_len(), protocol) };
    let ports = ports_of(protocol, above.as_ref());
    Traffic { input: meta.interface, mark: meta.mark, tos: header.tos, protocol, ports, label: 0, about }
}
