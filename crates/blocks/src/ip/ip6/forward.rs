//! Packets for others, where the node is told to forward (Linux ip6_forward).

use super::addresses::is_link_local;
use super::resolve::{RouteKey, refuses};
use super::*;
use crate::ip::hops;
use crate::ip::rules::{four_at, ports_of};
use std::net::Ipv6Addr;
use weft_core::table::{RouteKind, Traffic};
use weft_wire::ipv6::Header;

/// Where the hop limit stands in the header.
const HOP_LIMIT_AT: usize = 7;

/// No redirect quotes more: it fits the least MTU.
const REDIRECTED_BYTES_MAX: usize = weft_wire::ipv6::MTU_MIN;

impl Ip6 {
    /// RFC 4861 §8.2: "A router SHOULD send a redirect message … whenever it forwards a packet that is not explicitly addressed to itself (i.e., a
    /// packet that is not source routed through the router) in which: the Source Address field of the packet identifies a neighbor, and the router
    /// determines … that a better first-hop node resides on the same link as the sending node". nd knows the rest and sends it.
    fn redirect(&mut self, frame: &Frame, header: &Header, next_hop: IpAddr, cx: &mut Context<'_>) {
        let IpAddr::V6(target) = next_hop else { return };
        let interface = frame.meta().interface;
        // Linux ndisc_send_redirect: "target address is not link-local unicast", "destination is not a neighbour".
        let source = self.lookup(header.src, Some(interface)).filter(|route| route.gateway.is_none() && route.kind == RouteKind::Unicast);
        let sound = (target == header.dst || is_link_local(target)) && (is_link_local(header.src) || source.is_some());
        // "Limit redirects both by destination (here) and by source (inside ndisc_send_redirect)": here by both.
        let [by_source, by_destination] = &mut self.redirects;
        if sound && by_destination.take(header.dst.into(), cx.now).is_ok() && by_source.take(header.src.into(), cx.now).is_ok() {
            let packet = frame.slices(0, frame.len().min(REDIRECTED_BYTES_MAX)).concat();
            let (source, destination) = (header.src.into(), header.dst.into());
            cx.tell(Table::Neighbours(Family::V6), Change::SendRedirect { interface, source, target: next_hop, destination, packet });
        }
    }

    /// The frame begins with its IPv6 header, which was checked.
    pub(super) fn forward(&mut self, frame: &mut Frame, header: &Header, cx: &mut Context<'_>) -> Verdict {
        // A packet that the whole link got is forwarded by none of its nodes. RFC 4291 §2.5.2: "An IPv6 packet with a source address of
        // unspecified must never be forwarded by an IPv6 router."
        let to_all = frame.meta().dst_mac.is_multicast();
        if to_all || header.src.is_unspecified() || is_link_local(header.dst) {
            self.counters[count::IN_ADDR_ERRORS] += 1;
            return Verdict::Drop(Reason::NotForUs);
        }
        let unspecified = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
        // RFC 8200 §3: "When forwarding, the packet is discarded if Hop Limit was zero when received or is decremented to zero."
        if header.hop_limit <= 1 {
            self.counters[count::IN_HDR_ERRORS] += 1;
            return self.complain(frame, IcmpErrorKind::TtlExceeded, unspecified, Reason::TtlExceeded);
        }
        let key = RouteKey { destination: header.dst, source: Ipv6Addr::UNSPECIFIED, interface: InterfaceIndex::NONE };
        let usual = if self.tables.rules.are_usual() { Some(self.route(&key, Traffic::default, cx)) } else { None };
        let answer = match usual {
            Some(answer) if answer.is_none_or(|answer| !answer.several) => answer,
            // What is sent from here goes by other rules: nothing of the cache fits both. Of several next hops the packet's own flow chooses.
            _ => self.resolve_received(header.dst, Some(header.src), received_traffic(frame, header), cx.now),
        };
        let Some(answer) = answer.filter(|answer| answer.kind == RouteKind::Unicast || refuses(answer.kind)) else {
            self.counters[count::IN_NO_ROUTES] += 1;
            return self.complain(frame, IcmpErrorKind::NetUnreachable, unspecified, Reason::NoRoute);
        };
        match answer.kind {
            // Linux: no route to destination, code 0, for a route that is unreachable too.
            RouteKind::Unreachable => return self.complain(frame, IcmpErrorKind::NetUnreachable, unspecified, Reason::NoRoute),
            RouteKind::Prohibit => return self.complain(frame, IcmpErrorKind::Prohibited, unspecified, Reason::NoRoute),
            RouteKind::Blackhole => return Verdict::Drop(Reason::NoRoute),
            _ => {}
        }
        // RFC 4291 §2.5.6: "Routers must not forward any packets with Link-Local source or destination addresses to other links." icmp6 makes
        // "beyond scope of source address" of it.
        if is_link_local(header.src) && frame.meta().interface != answer.interface {
            self.counters[count::IN_ADDR_ERRORS] += 1;
            return self.complain(frame, IcmpErrorKind::HostUnreachable, unspecified, Reason::NotForUs);
        }
        if frame.meta().interface == answer.interface {
            self.redirect(frame, header, answer.next_hop, cx);
        }
        let packet = packet_bytes(frame);
        if packet > answer.mtu as usize {
            self.counters[count::IN_TOO_BIG] += 1;
            return self.complain(frame, IcmpErrorKind::TooBig { mtu: answer.mtu }, unspecified, Reason::TooBig);
        }
        if let Some(hop_limit) = frame.head_mut().get_mut(HOP_LIMIT_AT) {
            *hop_limit -= 1;
        }
        let meta = frame.meta_mut();
        meta.interface = answer.interface;
        meta.next_hop = Some(answer.next_hop);
        meta.ttl = header.hop_limit - 1;
        self.counters[count::OUT_FORWARDED] += 1;
        Verdict::Forward(OUT_LOWER)
    }
}

/// What rules may look at of a packet for others.
fn received_traffic(frame: &Frame, header: &Header) -> Traffic {
    let meta = frame.meta();
    let (protocol, at) =
        offload::headers(frame).map_or((header.next_header.0, weft_wire::ipv6::HEADER_LEN), |found| (found.protocol.0, found.transport));
    let ports = ports_of(protocol, four_at(frame, at).as_ref());
    let (label, about) = (header.flow_label, hops::about(frame, at, protocol));
    Traffic { input: meta.interface, mark: meta.mark, tos: header.traffic_class, protocol, ports, label, about }
}

/// Bytes of the packet, or of the packets that a large frame will be cut into on its way out.
fn packet_bytes(frame: &Frame) -> usize {
    let Some(gso) = frame.meta().gso else { return frame.len() };
    let Some(headers) = offload::headers(frame) else { return frame.len() };
    let transport_len = match headers.protocol {
        Protocol::TCP => frame.slices(headers.transport + 12, 1).first().map_or(0, |byte| usize::from(byte[0] >> 4) * 4),
        _ => weft_wire::udp::LEN,
    };
    frame.len().min(headers.transport + transport_len + usize::from(gso.segment_bytes))
}
