//! Fragments: put together on the way in, made on the way out (RFC 8200 §4.5).

use super::egress::push_unfragmentable;
use super::extensions::Upper;
use super::*;
use crate::ip::reassembly::{Counts, Fragment, Inserted, Key, Limits, Whole};
use std::net::Ipv6Addr;
use weft_core::table::RouteAnswer;
use weft_wire::ipv4::Ecn;
use weft_wire::ipv6::extension::{Extension, FRAGMENT_LEN, Fragment as Place};
use weft_wire::ipv6::{Chain, HEADER_LEN, Header};

/// Fragments carry their payload in units of this many bytes.
const UNIT_BYTES: usize = 8;
const PAYLOAD_LEN_AT: usize = 4;
const PAYLOAD_BYTES_MAX: usize = 65_535;

/// The headers that a first fragment must hold whole, as Linux's ipv6frag_thdr_truncated has them.
const fn transport_len_min(protocol: Protocol) -> usize {
    match protocol {
        Protocol::TCP => weft_wire::tcp::HEADER_LEN,
        Protocol::UDP | Protocol::UDPLITE => weft_wire::udp::LEN,
        Protocol::ICMPV6 => weft_wire::icmpv6::HEADER_LEN,
        Protocol::NO_NEXT_HEADER => 0,
        _ => 1,
    }
}

/// Can fragments of such a packet wait here? The first has so many bytes in front of its payload, the fragment header among them.
pub(super) fn could_wait(key: &Key, first: Option<(&Frame, usize)>) -> bool {
    let first_fits = |(frame, header_len): (&Frame, usize)| {
        let head = frame.head();
        let Some(at) = header_len.checked_sub(FRAGMENT_LEN) else { return false };
        let Ok((header, _)) = Header::parse(head) else { return false };
        let (Some(upper), Some(bytes)) = (Upper::at(head, at), head.get(at..header_len)) else { return false };
        let identification = bytes.last_chunk().map(|bytes| u32::from_be_bytes(*bytes));
        let of_key = (IpAddr::from(header.src), IpAddr::from(header.dst), identification) == (key.src, key.dst, Some(key.identification));
        upper.protocol == Protocol::FRAGMENT && of_key
    };
    let of_family = key.src.is_ipv6() && key.dst.is_ipv6() && key.protocol == Protocol(0);
    of_family && first.is_none_or(first_fits)
}

/// Where the block counts what the reassembly does.
const COUNTS: [usize; 5] = [count::REASM_REQDS, count::REASM_OKS, count::REASM_FAILS, count::REASM_TIMEOUT, count::REASM_OVERLAPS];

impl Ip6 {
    /// Takes a fragment for this node; `upper` is at its fragment header, which is contiguous. `Ok`: the frame is the whole packet now, and `upper` at
    /// what followed the fragment header.
    pub(super) fn reassemble(&mut self, frame: &mut Frame, upper: &mut Upper, place: Place, cx: &mut Context<'_>) -> Result<(), Verdict> {
        let header_len = upper.offset + FRAGMENT_LEN;
        let length = frame.len().saturating_sub(header_len);
        // "If the length of a fragment, as derived from the fragment packet's Payload Length field, is not a multiple of 8 octets and the M flag
        // of that fragment packet is 1, then that fragment must be discarded and an ICMP Parameter Problem, Code 0, message should be sent to the
        // source of the fragment, pointing to the Payload Length field of the fragment packet."
        if place.more && !length.is_multiple_of(UNIT_BYTES) {
            self.counters[count::REASM_FAILS_HERE] += 1;
            return Err(self.problem(frame, PAYLOAD_LEN_AT));
        }
        // "If the length and offset of a fragment are such that the Payload Length of the packet reassembled from that fragment would exceed 65,535
        // octets, then that fragment must be discarded and an ICMP Parameter Problem, Code 0, message should be sent to the source of the fragment,
        // pointing to the Fragment Offset field of the fragment packet."
        if upper.offset - HEADER_LEN + usize::from(place.offset) + length > PAYLOAD_BYTES_MAX {
            self.counters[count::REASM_FAILS_HERE] += 1;
            return Err(self.problem(frame, upper.offset + 2));
        }
        // "If the first fragment does not include all headers through an Upper-Layer header, then that fragment should be discarded and an ICMP
        // Parameter Problem, Code 3, message should be sent to the source of the fragment", with a pointer of zero.
        if place.offset == 0 && !self.holds_all_headers(frame) {
            self.counters[count::REASM_FAILS_HERE] += 1;
            return Err(self.complain_of(frame, 0, Reason::FragmentInvalid));
        }
        if let Some(completion) = frame.take_completion() {
            cx.complete(completion);
        }
        let meta = frame.meta();
        // What means something on its link only is another packet on another link (Linux ip6frag: key.iif).
        let of_link = matches!(meta.dst, IpAddr::V6(dst) if dst.is_multicast() || super::addresses::is_link_local(dst));
        let key = Key {
            src: meta.src,
            dst: meta.dst,
            identification: place.identification,
            protocol: Protocol(0),
            interface: if of_link { meta.interface } else { InterfaceIndex::NONE },
        };
        let fragment =
            Fragment { offset: place.offset.into(), more: place.more, header_len, ecn: Ecn::from_bits(meta.tos), dont_fragment: false };
        let outcome = self.reassembly.insert(cx.now, key, fragment, frame);
        self.reassembly_changed(cx);
        match outcome {
            Inserted::Kept => Err(Verdict::Consumed),
            Inserted::Refused(refusal) => Err(Verdict::Drop(refusal.reason())),
            Inserted::Complete(whole) => self.mend(frame, upper, &whole),
        }
    }

    /// RFC 7112 §5: a first fragment has the whole header chain.
    fn holds_all_headers(&self, frame: &mut Frame) -> bool {
        let _ = frame.pull_up(frame.len().min(weft_wire::ipv6::MTU_MIN));
        Chain::parse(frame.head()).is_ok_and(|chain| chain.offset + transport_len_min(chain.protocol) <= frame.len())
    }

    /// Takes the fragment header out of the packet that was put together, and puts its IPv6 header right.
    fn mend(&mut self, frame: &mut Frame, upper: &mut Upper, whole: &Whole) -> Result<(), Verdict> {
        let bad = Err(Verdict::Drop(Reason::FragmentInvalid));
        let at = whole.header_len - FRAGMENT_LEN;
        if frame.pull_up(whole.header_len).is_err() {
            return bad;
        }
        let bytes = frame.head_mut();
        let next = Protocol(bytes[at]);
        let Some(reached) = Upper::at(bytes, at) else { return bad };
        bytes[reached.announced_at] = next.0;
        bytes.copy_within(..at, FRAGMENT_LEN);
        // Cannot fail: they were there.
        let _ = frame.pull(FRAGMENT_LEN);
        let payload_len = (frame.len() - HEADER_LEN).min(PAYLOAD_BYTES_MAX) as u16;
        let network_at = frame.position();
        let bytes = frame.head_mut();
        bytes[PAYLOAD_LEN_AT..PAYLOAD_LEN_AT + 2].copy_from_slice(&payload_len.to_be_bytes());
        if whole.congestion_experienced {
            bytes[1] |= Ecn::CongestionExperienced.bits() << 4;
        }
        let tos = bytes[0] << 4 | bytes[1] >> 4;
        let meta = frame.meta_mut();
        meta.network_at = network_at;
        meta.tos = tos;
        *upper = Upper { protocol: next, ..reached };
        Ok(())
    }

    /// Keeps counters and the timer in step with the reassembly.
    pub(super) fn reassembly_changed(&mut self, cx: &mut Context<'_>) {
        COUNTS.into_iter().zip(self.reassembly.counts().values()).for_each(|(at, count)| self.counters[at] = count);
        let next = self.reassembly.next_deadline();
        if next == self.reassembly_timer {
            return;
        }
        self.reassembly_timer = next;
        match next {
            Some(at) => cx.set_timer(TIMER_REASSEMBLY, at),
            None => cx.cancel_timer(TIMER_REASSEMBLY),
        }
    }

    /// What waited at a predecessor, and what it had counted.
    pub(super) fn take_over_fragments(&mut self, mut reassembly: Reassembly) {
        reassembly.set_counts(Counts::of(COUNTS.map(|at| self.counters[at])));
        (self.reassembly, self.reassembly_timer) = (reassembly, None);
    }

    /// Gives up what took too long.
    pub(super) fn expire_fragments(&mut self, cx: &mut Context<'_>) {
        self.reassembly_timer = None;
        while let Some(expired) = self.reassembly.expire(cx.now) {
            // "If the first fragment (i.e., the one with a Fragment Offset of zero) has been received, an ICMP Time Exceeded -- Fragment Reassembly
            // Time Exceeded message should be sent to the source of that fragment."
            let Some(mut first) = expired.first.filter(|_| self.is_bound(OUT_ERROR)) else {
                cx.count_drop(Reason::ReassemblyTimeout);
                continue;
            };
            first.meta_mut().error = Some(IcmpError { kind: IcmpErrorKind::ReassemblyTimeout, from: expired.key.dst });
            cx.emit(OUT_ERROR, first);
        }
        self.reassembly_changed(cx);
    }

    /// The bounds that the parameters set.
    pub(super) fn reassembly_limits(memory_bytes: u64, timeout: Duration) -> Limits {
        Limits { memory_bytes_max: memory_bytes as usize, timeout, ..Limits::V6 }
    }

    /// Sends a packet, which begins with its transport header, in fragments that fit its route.
    pub(super) fn send_fragments(&mut self, frame: &mut Frame, source: Ipv6Addr, answer: &RouteAnswer, cx: &mut Context<'_>) -> Verdict {
        let attached = frame.meta_mut().attached.take().unwrap_or_default();
        let before = attached.unfragmentable_len();
        let room = (answer.mtu as usize).saturating_sub(HEADER_LEN + before + FRAGMENT_LEN) / UNIT_BYTES * UNIT_BYTES;
        let IpAddr::V6(dst) = frame.meta().dst else { return Verdict::Drop(Reason::BadPacket) };
        if room == 0 {
            self.counters[count::FRAG_FAILS] += 1;
            return Verdict::Drop(Reason::TooBig);
        }
        let transport_at = frame.position();
        frame.meta_mut().transport_at = transport_at;
        offload::complete_checksum(frame);
        self.set_hop_limit(frame, answer);
        let mut completion = frame.take_completion();
        let flow_label = self.flow_label(frame, source);
        // Linux ipv6_select_ident: at random, so that nobody can count them (RFC 7739).
        let identification = cx.rng.u32();
        let (tail, fragmented) = attached.fragmentable_bytes(frame.meta().protocol);
        frame.push(tail.len()).copy_from_slice(&tail);
        let total = frame.len();
        for offset in (0..total).step_by(room) {
            let bytes = room.min(total - offset);
            let more = offset + bytes < total;
            let mut piece = Frame::egress();
            for slice in frame.slices(offset, bytes) {
                piece.append(slice);
            }
            *piece.meta_mut() = Meta { completion: None, checksum: Checksum::Valid, gso: None, ..frame.meta().clone() };
            let place = Place { offset: offset as u16, more, identification };
            // Cannot fail: a fragment header has one length.
            let _ = Extension::Fragment(place).emit(fragmented, piece.push(FRAGMENT_LEN));
            let next_header = push_unfragmentable(&mut piece, &attached, dst, Protocol::FRAGMENT);
            let meta = frame.meta();
            let header = Header {
                traffic_class: meta.tos,
                flow_label,
                payload_len: piece.len() as u16,
                next_header,
                hop_limit: meta.ttl,
                src: source,
                dst: attached.first_hop().unwrap_or(dst),
            };
            header.emit(piece.push(HEADER_LEN));
            let network_at = piece.position();
            let meta = piece.meta_mut();
            meta.network_at = network_at;
            meta.transport_at = network_at + (HEADER_LEN + before + FRAGMENT_LEN) as u16;
            if !more {
                meta.completion = completion.take();
            }
            self.counters[count::FRAG_CREATES] += 1;
            match self.leave(&mut piece, source, answer, cx) {
                Verdict::Forward(port) => cx.emit(port, piece),
                Verdict::Drop(reason) => cx.drop(piece, reason),
                Verdict::Consumed => {}
            }
        }
        self.counters[count::FRAG_OKS] += 1;
        Verdict::Consumed
    }
}
