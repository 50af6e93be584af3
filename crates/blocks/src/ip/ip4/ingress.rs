//! Received packets: checks, then delivery by protocol.

use super::options::{Found, Problem, Stamp, check, record};
use super::*;
use std::net::Ipv4Addr;
use weft_core::table::{AddressKind, RouteKind, Traffic};
use weft_wire::ipv4::{self, HEADER_LEN, Header};
use weft_wire::{Error, Protocol};

/// Places in the memory of accepted pairs; a power of two.
const ACCEPTED: usize = 64;

/// Pairs of addresses that were accepted for local delivery not long ago: (source, destination, interface, generation). Saves the
/// look-ups for all but the first packet of a conversation.
#[derive(Debug)]
pub(super) struct Accepted(Box<[(Ipv4Addr, Ipv4Addr, InterfaceIndex, u64); ACCEPTED]>);

impl Default for Accepted {
    fn default() -> Accepted {
        Accepted(Box::new([(Ipv4Addr::UNSPECIFIED, Ipv4Addr::UNSPECIFIED, InterfaceIndex::NONE, 0); ACCEPTED]))
    }
}

impl Accepted {
    #[inline]
    fn place(&mut self, src: Ipv4Addr) -> &mut (Ipv4Addr, Ipv4Addr, InterfaceIndex, u64) {
        let bits = src.to_bits();
        &mut self.0[(bits ^ bits >> 8 ^ bits >> 16) as usize % ACCEPTED]
    }
}

/// Where a packet's addresses lead it.
enum Destination {
    Here,
    /// To everyone on the link.
    Broadcast,
    Group,
    /// To one host that is not this.
    Elsewhere,
    /// To what cannot be sent on either: a group without members here, 0.0.0.0.
    Nowhere,
    /// The source is one that no host may have.
    Martian,
}

impl Ip4 {
    pub(super) fn receive(&mut self, frame: &mut Frame, cx: &mut Context<'_>) -> Verdict {
        self.counters[count::IN_RECEIVES] += 1;
        self.counters[count::IN_OCTETS] += frame.len() as u64;
        if frame.head().len() < HEADER_LEN {
            // Cannot fail: never more than the frame has.
            let _ = frame.pull_up(frame.len().min(HEADER_LEN));
        }
        if let Some(first) = frame.head().first().filter(|first| **first & 0xf > 5) {
            let _ = frame.pull_up(frame.len().min(usize::from(first & 0xf) * 4));
        }
        let (header, header_len) = match Header::parse(frame.head()) {
            Ok(parsed) => parsed,
            Err(error) => return self.bad_header(error),
        };
        // RFC 1122 §3.2.1.2: "A host MUST verify the IP header checksum on every received datagram and silently discard every datagram
        // that has a bad checksum." No offload says anything about this one.
        if !ipv4::verify_checksum(frame.head()) {
            return self.bad_header(Error::BadChecksum);
        }
        let Ok(packet_len) = header.check_total_len(frame.len()) else { return self.bad_header(Error::Truncated) };
        frame.truncate(packet_len);
        let network_at = frame.position();
        let meta = frame.meta_mut();
        meta.network_at = network_at;
        meta.src = header.src.into();
        meta.dst = header.dst.into();
        meta.protocol = header.protocol;
        meta.ttl = header.ttl;
        meta.tos = header.tos;
        meta.dont_fragment = header.dont_fragment;
        // Addresses first: what RFC 1122 §3.2.1.3 has discarded "silently" may have malformed options too. Linux looks at the source first,
        // but answers malformed options in packets for others (docs/linux-notes/ip.md).
        let here = match self.accept(frame.meta(), header.src, header.dst, cx) {
            Ok(here) => here,
            Err(verdict) => return verdict,
        };
        let options = match header.options.is_empty() {
            true => Found::default(),
            false => match self.check_options(frame, &header) {
                Ok(found) => found,
                Err(verdict) => return verdict,
            },
        };
        if !here {
            return self.forward(frame, &header, options, cx);
        }
        let header_len = match header.is_fragment() {
            false => header_len,
            true => match self.reassemble(frame, &header, cx) {
                Ok(header_len) => header_len,
                Err(verdict) => return verdict,
            },
        };
        if !header.options.is_empty() {
            self.record_arrival(frame, &header, header_len, cx.now);
        }
        self.deliver(frame, header.protocol, header_len, cx)
    }

    /// A destination writes itself into routes and timestamps that are recorded, as routers do (Linux __ip_options_compile); the header's checksum,
    /// which nobody reads any more, stays as it came.
    fn record_arrival(&mut self, frame: &mut Frame, header: &Header, header_len: usize, now: Instant) {
        let own = match self.addresses.kind(header.dst) {
            AddressKind::Local(_) => header.dst,
            // fib_compute_spec_dst
            _ => match self.resolve(header.src, None, None, Traffic::default()).map(|way| way.source) {
                Some(IpAddr::V4(own)) => own,
                _ => return,
            },
        };
        let stamp = Stamp { onward: own, back: own, time: self.milliseconds_since_midnight(now) };
        let Some(options) = frame.head_mut().get_mut(HEADER_LEN..header_len) else { return };
        if let Ok(found) = check(options) {
            record(options, found, stamp, |asked| !self.addresses.owners(asked).is_empty());
        }
    }

    fn bad_header(&mut self, error: Error) -> Verdict {
        let reason = match error {
            Error::Truncated => Reason::Truncated,
            Error::BadVersion => Reason::BadVersion,
            Error::BadHeaderLength => Reason::BadHeaderLength,
            Error::BadTotalLength => Reason::BadTotalLength,
            Error::BadChecksum => Reason::BadChecksum,
            _ => Reason::BadPacket,
        };
        let counter = match error {
            Error::Truncated => count::IN_TRUNCATED,
            Error::BadChecksum => count::IN_CSUM_ERRORS,
            _ => count::IN_HDR_ERRORS,
        };
        self.counters[counter] += 1;
        if counter == count::IN_CSUM_ERRORS {
            self.counters[count::IN_HDR_ERRORS] += 1;
        }
        Verdict::Drop(reason)
    }

    fn check_options(&mut self, frame: &mut Frame, header: &Header) -> Result<Found, Verdict> {
        check(header.options.as_bytes()).map_err(|problem| {
            self.counters[count::IN_HDR_ERRORS] += 1;
            match problem {
                Problem::SourceRoute => Verdict::Drop(Reason::BadOption),
                Problem::Malformed(at) => {
                    // RFC 1122 §3.2.2.5: "A host SHOULD generate Parameter Problem messages."
                    let kind = IcmpErrorKind::ParameterProblem { pointer: (HEADER_LEN + at) as u32 };
                    self.complain(frame, kind, header.dst.into(), Reason::BadOption)
                }
            }
        })
    }

    /// Is a packet with these addresses for this node (true), or for another to whom it is sent on (false)?
    #[inline]
    fn accept(&mut self, meta: &Meta, src: Ipv4Addr, dst: Ipv4Addr, cx: &Context<'_>) -> Result<bool, Verdict> {
        let (interface, generation) = (meta.interface, self.generation);
        if *self.accepted.place(src) == (src, dst, interface, generation) {
            return Ok(true);
        }
        if self.forward {
            // So that `forwards` knows its name.
            self.facts.get(interface, cx);
        }
        let destination = self.destination(interface, src, dst, cx);
        let taken = match destination {
            Destination::Here | Destination::Broadcast | Destination::Group => true,
            Destination::Elsewhere => self.forwards(interface),
            Destination::Nowhere | Destination::Martian => false,
        };
        if taken && !self.comes_the_right_way(interface, src, dst, meta.tos) {
            self.counters[count::REVERSE_PATH] += 1;
            return Err(Verdict::Drop(Reason::ReversePath));
        }
        let verdict = match destination {
            Destination::Here => {
                *self.accepted.place(src) = (src, dst, interface, generation);
                return Ok(true);
            }
            Destination::Broadcast => {
                self.counters[count::IN_BCAST] += 1;
                return Ok(true);
            }
            Destination::Group => {
                self.counters[count::IN_MCAST] += 1;
                return Ok(true);
            }
            // RFC 1812 §5.3.4: "A router MUST NOT forward any packet that the router received as a Link Layer broadcast".
            Destination::Elsewhere if self.forwards(interface) && !meta.dst_mac.is_multicast() => return Ok(false),
            Destination::Elsewhere | Destination::Nowhere => Verdict::Drop(Reason::NotForUs),
            Destination::Martian => Verdict::Drop(Reason::MartianSource),
        };
        self.counters[count::IN_ADDR_ERRORS] += 1;
        Err(verdict)
    }

    /// In the order of Linux's ip_route_input_slow.
    fn destination(&self, interface: InterfaceIndex, src: Ipv4Addr, dst: Ipv4Addr, cx: &Context<'_>) -> Destination {
        let inside = interface == InterfaceIndex::LOOPBACK;
        // RFC 1122 §3.2.1.3: "a host MUST silently discard an incoming datagram containing an IP source address that is invalid by the
        // rules of this section."
        if src.is_multicast() || src.is_broadcast() {
            return Destination::Martian;
        }
        // RFC 1122 §3.2.1.3 (g): loopback addresses "MUST NOT appear outside a host".
        if !inside && (src.is_loopback() || dst.is_loopback()) {
            return Destination::Martian;
        }
        // 0.0.0.0 may be a source only "as part of an initialization procedure", to a broadcast or group.
        let to_all = dst.is_broadcast() || !self.addresses.broadcast_on(dst).is_empty();
        if src.octets()[0] == 0 && !(src.is_unspecified() && (to_all || dst.is_multicast())) {
            return Destination::Martian;
        }
        match self.addresses.kind(src) {
            // Linux fib_validate_source with accept_local 0.
            AddressKind::Local(_) if !inside => return Destination::Martian,
            // RFC 1122 §3.2.1.3 (d) and (e), directed broadcasts: "MUST NOT be used as a source address." Linux agrees with rp_filter only.
            AddressKind::Broadcast => return Destination::Martian,
            _ => {}
        }
        match self.addresses.kind(dst) {
            AddressKind::Local(_) => Destination::Here,
            AddressKind::Broadcast => Destination::Broadcast,
            AddressKind::Multicast if inside || self.wants_group(interface, dst, src, cx) => Destination::Group,
            AddressKind::Multicast | AddressKind::Unspecified => Destination::Nowhere,
            AddressKind::Other => Destination::Elsewhere,
        }
    }

    /// RFC 3704 §2.2 and §2.3 (Linux __fib_validate_source): would an answer leave where the packet came in? With 2 it is enough that it would leave.
    fn comes_the_right_way(&self, interface: InterfaceIndex, src: Ipv4Addr, dst: Ipv4Addr, tos: u8) -> bool {
        // ip_route_input_slow: "if (!ipv4_is_zeronet(saddr))".
        if self.rp_filter == 0 || interface == InterfaceIndex::LOOPBACK || src.octets()[0] == 0 {
            return true;
        }
        let back = self.followed(src, Some(dst), None, Traffic { tos, ..Traffic::default() });
        let Some(back) = back.filter(|route| route.kind == RouteKind::Unicast) else { return false };
        // fib_info_nh_uses_dev: any of its next hops.
        let same = back.row().each().any(|route| route.interface == interface);
        // "if (no_addr) goto last_resort;"
        same || (self.rp_filter == 2 && self.addresses.of_interface(interface).next().is_some())
    }

    /// Is anybody here in this group? RFC 1112 §7.2: every host is in 224.0.0.1; the owner of Groups knows of others.
    pub(super) fn wants_group(&self, interface: InterfaceIndex, group: Ipv4Addr, source: Ipv4Addr, cx: &Context<'_>) -> bool {
        let query = || Query::Wanted { interface, group: group.into(), source: source.into() };
        group == Ipv4Addr::new(224, 0, 0, 1) || matches!(cx.ask(Table::Groups(Family::V4), &query()), Answer::Wanted(true))
    }

    /// Gives a whole packet, which begins with its header, to its transport, and a copy to raw sockets.
    pub(super) fn deliver(&mut self, frame: &mut Frame, protocol: Protocol, header_len: usize, cx: &mut Context<'_>) -> Verdict {
        let port = match protocol {
            Protocol::TCP => OUT_TCP,
            Protocol::UDP | Protocol::UDPLITE => OUT_UDP,
            Protocol::ICMP => OUT_ICMP,
            Protocol::IGMP => OUT_IGMP,
            _ => OUT_OTHER,
        };
        let port = if self.is_bound(port) { port } else { OUT_OTHER };
        let served = self.is_bound(port);
        let raw = self.raw_wanted[usize::from(protocol.0)] && self.is_bound(OUT_RAW);
        if !served && !raw {
            self.counters[count::IN_UNKNOWN_PROTOS] += 1;
            // RFC 1122 §3.2.2.1: "A host SHOULD generate Destination Unreachable messages with code: 2 (Protocol Unreachable), when the
            // designated transport protocol is not supported."
            let from = frame.meta().dst;
            return self.complain(frame, IcmpErrorKind::ProtocolUnreachable, from, Reason::UnknownProtocol);
        }
        if frame.pull(header_len).is_err() {
            return self.bad_header(Error::Truncated);
        }
        frame.meta_mut().transport_at = frame.position();
        self.counters[count::IN_DELIVERS] += 1;
        if raw {
            self.counters[count::RAW_COPIES] += 1;
            if !served {
                return Verdict::Forward(OUT_RAW);
            }
            let mut copy = frame.clone();
            copy.take_completion();
            cx.emit(OUT_RAW, copy);
        }
        Verdict::Forward(port)
    }
}
