//! Received packets: checks, the chain of headers, then delivery by upper layer.

use super::addresses::is_link_local;
use super::extensions::Upper;
use super::*;
use std::net::Ipv6Addr;
use weft_core::table::AddressKind;
use weft_wire::Error;
use weft_wire::ipv6::{HEADER_LEN, Header};

/// Places in the memory of accepted pairs; a power of two.
const ACCEPTED_BITS: u32 = 6;

type Pair = (Ipv6Addr, Ipv6Addr, InterfaceIndex, u64);

/// Pairs of addresses that were accepted for local delivery not long ago: (source, destination, interface, generation). Saves the
/// look-ups for all but the first packet of a conversation.
#[derive(Debug)]
pub(super) struct Accepted {
    key: u64,
    pairs: Box<[Pair; 1 << ACCEPTED_BITS]>,
}

impl Accepted {
    pub(super) fn new(rng: &mut Rng) -> Accepted {
        let none = (Ipv6Addr::UNSPECIFIED, Ipv6Addr::UNSPECIFIED, InterfaceIndex::NONE, 0);
        Accepted { key: rng.u64(), pairs: Box::new([none; 1 << ACCEPTED_BITS]) }
    }

    #[inline]
    fn place(&mut self, src: Ipv6Addr) -> &mut Pair {
        &mut self.pairs[(super::resolve::mix(self.key, src) >> (64 - ACCEPTED_BITS)) as usize]
    }
}

/// Where a packet's addresses lead it.
#[derive(PartialEq, Eq, Debug)]
enum Destination {
    Here,
    Group,
    Elsewhere,
    /// A source or destination that such a packet cannot have.
    Martian,
}

impl Ip6 {
    pub(super) fn receive(&mut self, frame: &mut Frame, cx: &mut Context<'_>) -> Verdict {
        self.counters[count::IN_RECEIVES] += 1;
        self.counters[count::IN_OCTETS] += frame.len() as u64;
        if self.disabled.is(frame.meta().interface) {
            // ip6_rcv_core, SKB_DROP_REASON_IPV6DISABLED
            self.counters[count::DISABLED] += 1;
            return Verdict::Drop(Reason::Ipv6Disabled);
        }
        if frame.head().len() < HEADER_LEN {
            // Cannot fail: never more than the frame has.
            let _ = frame.pull_up(frame.len().min(HEADER_LEN));
        }
        let header = match Header::parse(frame.head()) {
            Ok((header, _)) => header,
            Err(error) => return self.bad_header(error),
        };
        let Ok(packet_len) = header.check_payload_len(frame.len()) else { return self.bad_header(Error::Truncated) };
        frame.truncate(packet_len);
        let network_at = frame.position();
        let meta = frame.meta_mut();
        meta.network_at = network_at;
        meta.src = header.src.into();
        meta.dst = header.dst.into();
        meta.protocol = header.next_header;
        meta.ttl = header.hop_limit;
        meta.tos = header.traffic_class;
        // RFC 8200 §5: nobody but the source fragments.
        meta.dont_fragment = true;
        let interface = meta.interface;
        let destination = self.accept(interface, header.src, header.dst, cx);
        if destination == Destination::Martian {
            self.counters[count::IN_HDR_ERRORS] += 1;
            return Verdict::Drop(Reason::MartianSource);
        }
        let mut upper = Upper::new(&header);
        // RFC 8200 §4.3: the hop-by-hop options are for every node on the way that is told to look at them; Linux looks in any case, and
        // before it knows whose the packet is.
        if header.next_header == Protocol::HOP_BY_HOP
            && let Err(verdict) = self.hop_by_hop(frame, &mut upper)
        {
            return verdict;
        }
        match destination {
            Destination::Here => {}
            Destination::Group => self.counters[count::IN_MCAST] += 1,
            _ if self.forwards && !header.dst.is_multicast() => return self.forward(frame, &header, cx),
            _ => {
                self.counters[count::IN_ADDR_ERRORS] += 1;
                return Verdict::Drop(Reason::NotForUs);
            }
        }
        if weft_wire::ipv6::chain::is_walked(upper.protocol)
            && let Err(verdict) = self.walk(frame, &mut upper, cx)
        {
            return verdict;
        }
        self.deliver(frame, upper, cx)
    }

    pub(super) fn bad_header(&mut self, error: Error) -> Verdict {
        let (counter, reason) = match error {
            Error::Truncated => (count::IN_TRUNCATED, Reason::Truncated),
            Error::BadVersion => (count::IN_HDR_ERRORS, Reason::BadVersion),
            Error::BadOptionLength => (count::IN_HDR_ERRORS, Reason::BadOption),
            _ => (count::IN_HDR_ERRORS, Reason::BadHeaderLength),
        };
        self.counters[counter] += 1;
        Verdict::Drop(reason)
    }

    /// Is a packet with these addresses for this node?
    #[inline]
    fn accept(&mut self, interface: InterfaceIndex, src: Ipv6Addr, dst: Ipv6Addr, cx: &Context<'_>) -> Destination {
        let generation = self.generation;
        if *self.accepted.place(src) == (src, dst, interface, generation) {
            return Destination::Here;
        }
        let destination = self.destination(interface, src, dst, cx);
        if destination == Destination::Here {
            *self.accepted.place(src) = (src, dst, interface, generation);
        }
        destination
    }

    /// As Linux's ip6_rcv_core and the table "local".
    fn destination(&self, interface: InterfaceIndex, src: Ipv6Addr, dst: Ipv6Addr, cx: &Context<'_>) -> Destination {
        let inside = interface == InterfaceIndex::LOOPBACK;
        // RFC 4291 §2.7: "Multicast addresses must not be used as source addresses in IPv6 packets". And an IPv4-mapped source would be taken
        // for an IPv4 peer (Linux: "if (ipv6_addr_v4mapped(&hdr->saddr)) goto err").
        if src.is_multicast() || src.to_ipv4_mapped().is_some() {
            return Destination::Martian;
        }
        // RFC 4291 §2.5.3: "A packet received on an interface with a destination address of loopback must be dropped."
        if !inside && (src.is_loopback() || dst.is_loopback()) {
            return Destination::Martian;
        }
        if dst.is_multicast() {
            return match dst.octets()[1] & 0xf {
                // RFC 4291 §2.7: "Nodes must not originate a packet to a multicast address whose scope field contains the reserved value 0; if
                // such a packet is received, it must be silently dropped."
                0 => Destination::Martian,
                // RFC 4291 §2.7, erratum 3480: "Packets with interface-local scope received from another node must be discarded."
                1 if !inside => Destination::Martian,
                // What comes back from the loopback was found wanted when it was sent.
                _ if inside || self.is_wanted(interface, dst, src, cx) => Destination::Group,
                _ => Destination::Elsewhere,
            };
        }
        match self.addresses.kind(dst) {
            // RFC 4007 §4: a link-local address is another one on another link.
            AddressKind::Local(_) if !inside && is_link_local(dst) && !self.addresses.owners(dst).contains(&interface) => {
                Destination::Elsewhere
            }
            AddressKind::Local(_) => Destination::Here,
            // ip6_input_finish has it, whatever has the address: a route of kind local leads here.
            _ if self.tables.inside(dst.to_bits()).is_some() => Destination::Here,
            _ => Destination::Elsewhere,
        }
    }

    /// Does an interface listen to a group, for the node's own sake or for a socket's?
    pub(super) fn is_wanted(&self, interface: InterfaceIndex, group: Ipv6Addr, source: Ipv6Addr, cx: &Context<'_>) -> bool {
        let query = Query::Wanted { interface, group: group.into(), source: source.into() };
        self.addresses.hears(interface, group) || matches!(cx.ask(Table::Groups(Family::V6), &query), Answer::Wanted(true))
    }

    pub(super) fn deliver(&mut self, frame: &mut Frame, upper: Upper, cx: &mut Context<'_>) -> Verdict {
        let port = match upper.protocol {
            Protocol::TCP => OUT_TCP,
            Protocol::UDP | Protocol::UDPLITE => OUT_UDP,
            Protocol::ICMPV6 => OUT_ICMP,
            // RFC 8200 §4.7: "The value 59 in the Next Header field … indicates that there is nothing following that header."
            Protocol::NO_NEXT_HEADER => return Verdict::Consumed,
            _ => OUT_OTHER,
        };
        let port = if self.is_bound(port) { port } else { OUT_OTHER };
        let raw = self.wants_raw(upper.protocol) && self.is_bound(OUT_RAW);
        if !raw && !self.is_bound(port) {
            self.counters[count::IN_UNKNOWN_PROTOS] += 1;
            // RFC 8200 §4: "it should discard the packet and send an ICMP Parameter Problem message to the source of the packet, with an ICMP
            // Code value of 1 ("unrecognized Next Header type encountered")"; icmp6 makes that of it.
            let from = frame.meta().dst;
            return self.complain(frame, IcmpErrorKind::ProtocolUnreachable, from, Reason::UnknownProtocol);
        }
        if frame.pull(upper.offset).is_err() {
            return self.bad_header(Error::Truncated);
        }
        let transport_at = frame.position();
        let meta = frame.meta_mut();
        meta.transport_at = transport_at;
        meta.protocol = upper.protocol;
        self.counters[count::IN_DELIVERS] += 1;
        if !raw {
            return Verdict::Forward(port);
        }
        if !self.is_bound(port) {
            return Verdict::Forward(OUT_RAW);
        }
        let copy = frame.clone();
        cx.emit(OUT_RAW, copy);
        Verdict::Forward(port)
    }
}
