//! Received packets: checks, then delivery by protocol.

use super::*;
use std::net::Ipv4Addr;
use weft_core::table::AddressKind;
use weft_wire::ipv4::{self, HEADER_LEN, Header, Opt, kind};
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
    Elsewhere,
    /// The source is one that no host may have.
    Martian,
}

impl Ip4 {
    pub(super) fn receive(&mut self, frame: &mut Frame) -> Verdict {
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
        if let Err(verdict) = self.accept(frame.meta().interface, header.src, header.dst) {
            return verdict;
        }
        if !header.options.is_empty()
            && let Err(verdict) = self.check_options(frame, &header)
        {
            return verdict;
        }
        if header.is_fragment() {
            self.counters[count::REASM_FAILS] += 1;
            return Verdict::Drop(Reason::FragmentUnsupported);
        }
        self.deliver(frame, header.protocol, header_len)
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

    fn check_options(&mut self, frame: &mut Frame, header: &Header) -> Result<(), Verdict> {
        for option in &header.options {
            match option {
                // Linux ip_rcv_options with accept_source_route 0: dropped without a word.
                Ok(Opt::Route { kind: kind::LOOSE_SOURCE_ROUTE | kind::STRICT_SOURCE_ROUTE, .. }) => {
                    self.counters[count::IN_HDR_ERRORS] += 1;
                    return Err(Verdict::Drop(Reason::BadOption));
                }
                Ok(_) => {}
                Err(_) => {
                    self.counters[count::IN_HDR_ERRORS] += 1;
                    // RFC 1122 §3.2.2.5: "A host SHOULD generate Parameter Problem messages."
                    let pointer = HEADER_LEN as u32 + bad_option_offset(header.options.as_bytes()) as u32;
                    let kind = IcmpErrorKind::ParameterProblem { pointer };
                    return Err(self.complain(frame, kind, header.dst.into(), Reason::BadOption));
                }
            }
        }
        Ok(())
    }

    /// Is a packet with these addresses for this node?
    #[inline]
    fn accept(&mut self, interface: InterfaceIndex, src: Ipv4Addr, dst: Ipv4Addr) -> Result<(), Verdict> {
        let generation = self.generation;
        if *self.accepted.place(src) == (src, dst, interface, generation) {
            return Ok(());
        }
        let verdict = match self.destination(interface, src, dst) {
            Destination::Here => {
                *self.accepted.place(src) = (src, dst, interface, generation);
                return Ok(());
            }
            Destination::Broadcast => {
                self.counters[count::IN_BCAST] += 1;
                return Ok(());
            }
            Destination::Group => {
                self.counters[count::IN_MCAST] += 1;
                return Ok(());
            }
            Destination::Elsewhere => Verdict::Drop(Reason::NotForUs),
            Destination::Martian => Verdict::Drop(Reason::MartianSource),
        };
        self.counters[count::IN_ADDR_ERRORS] += 1;
        Err(verdict)
    }

    /// In the order of Linux's ip_route_input_slow.
    fn destination(&self, interface: InterfaceIndex, src: Ipv4Addr, dst: Ipv4Addr) -> Destination {
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
            // RFC 1112 §7.2: every host is in 224.0.0.1. Other groups need a membership, and there is no IGMP here.
            AddressKind::Multicast if inside || dst == Ipv4Addr::new(224, 0, 0, 1) => Destination::Group,
            AddressKind::Multicast | AddressKind::Other | AddressKind::Unspecified => Destination::Elsewhere,
        }
    }

    fn deliver(&mut self, frame: &mut Frame, protocol: Protocol, header_len: usize) -> Verdict {
        let port = match protocol {
            Protocol::TCP => OUT_TCP,
            Protocol::UDP => OUT_UDP,
            Protocol::ICMP => OUT_ICMP,
            _ => OUT_OTHER,
        };
        let port = if self.is_bound(port) { port } else { OUT_OTHER };
        if !self.is_bound(port) {
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
        Verdict::Forward(port)
    }
}

/// Where in the options the first malformed one is.
fn bad_option_offset(options: &[u8]) -> usize {
    let mut at = 0;
    loop {
        match options.get(at..) {
            None | Some([] | [kind::END, ..]) => return at.min(options.len()),
            Some([kind::NOP, ..]) => at += 1,
            Some([_, len, ..]) if *len >= 2 && options.len() - at >= usize::from(*len) => at += usize::from(*len),
            // Linux ip_options_compile points to the option, not to its length.
            Some(_) => return at,
        }
    }
}
