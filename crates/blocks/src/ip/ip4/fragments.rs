//! Fragments: put together on the way in, made on the way out.

use super::options::keep_copied;
use super::*;
use crate::ip::reassembly::{Counts, Fragment, Inserted, Key, Limits};
use weft_core::offload::{self, CutChecksums};
use weft_wire::checksum;
use weft_wire::ipv4::{CHECKSUM_OFFSET, Ecn, HEADER_LEN, HEADER_LEN_MAX, Header};

/// Fragments carry their payload in units of this many bytes.
const UNIT_BYTES: usize = 8;
const TOTAL_LEN_AT: usize = 2;
const FRAGMENT_AT: usize = 6;
const TOS_AT: usize = 1;
const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;

/// RFC 791 §3.2: "the combination of the identification, source, destination, and protocol fields" tells fragments of one datagram, wherever they come in.
fn key_of(header: &Header) -> Key {
    Key {
        src: header.src.into(),
        dst: header.dst.into(),
        identification: header.identification.into(),
        protocol: header.protocol,
        interface: InterfaceIndex::NONE,
    }
}

/// Can fragments of such a packet wait here? The first has a header of so many bytes.
pub(super) fn could_wait(key: &Key, first: Option<(&Frame, usize)>) -> bool {
    let first_fits = |(frame, header_len): (&Frame, usize)| {
        let is_first = |header: &Header| header.is_fragment() && header.fragment_offset == 0 && key_of(header) == *key;
        Header::parse(frame.head()).is_ok_and(|(header, length)| length == header_len && is_first(&header))
    };
    let of_family =
        key.src.is_ipv4() && key.dst.is_ipv4() && key.identification <= u16::MAX.into() && key.interface == InterfaceIndex::NONE;
    of_family && first.is_none_or(first_fits)
}

/// Where the block counts what the reassembly does.
const COUNTS: [usize; 5] = [count::REASM_REQDS, count::REASM_OKS, count::REASM_FAILS, count::REASM_TIMEOUT, count::REASM_OVERLAPS];

impl Ip4 {
    /// Takes a fragment for this node. `Ok`: the frame is the whole packet now, with a header of so many bytes.
    pub(super) fn reassemble(&mut self, frame: &mut Frame, header: &Header, cx: &mut Context<'_>) -> Result<usize, Verdict> {
        if let Some(completion) = frame.take_completion() {
            cx.complete(completion);
        }
        let fragment = Fragment {
            offset: header.fragment_offset.into(),
            more: header.more_fragments,
            header_len: header.header_len(),
            ecn: header.ecn(),
            dont_fragment: header.dont_fragment,
        };
        let outcome = self.reassembly.insert(cx.now, key_of(header), fragment, frame);
        self.reassembly_changed(cx);
        let whole = match outcome {
            Inserted::Kept => return Err(Verdict::Consumed),
            Inserted::Refused(refusal) => return Err(Verdict::Drop(refusal.reason())),
            Inserted::Complete(whole) => whole,
        };
        let total_len = frame.len() as u16;
        let ecn = if whole.congestion_experienced { Ecn::CongestionExperienced.bits() } else { 0 };
        let Some(bytes) = frame.head_mut().get_mut(..whole.header_len) else { return Err(Verdict::Drop(Reason::BadPacket)) };
        bytes[TOS_AT] |= ecn;
        let tos = bytes[TOS_AT];
        put_u16(bytes, TOTAL_LEN_AT, total_len);
        put_u16(bytes, FRAGMENT_AT, if whole.dont_fragment { DONT_FRAGMENT } else { 0 });
        renew_checksum(bytes);
        let meta = frame.meta_mut();
        meta.tos = tos;
        meta.dont_fragment = whole.dont_fragment;
        Ok(whole.header_len)
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
            // RFC 1122 §3.3.2: "if this timeout expires, the partially-reassembled datagram MUST be discarded and an ICMP Time Exceeded message
            // sent to the source host (if fragment zero has been received)."
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
    pub(super) fn reassembly_limits(memory_bytes: u64, timeout: Duration, distance_max: u64) -> Limits {
        Limits { memory_bytes_max: memory_bytes as usize, timeout, distance_max: Some(distance_max as u32), ..Limits::V4 }
    }

    /// Sends a packet, which begins with its header and is routed, in fragments of at most `mtu` bytes. A large frame is cut first.
    pub(super) fn send_fragments(&mut self, frame: &mut Frame, mtu: usize, cx: &mut Context<'_>) -> Verdict {
        let mut completion = frame.take_completion();
        let mut packets = Vec::new();
        offload::cut(std::mem::replace(frame, Frame::ingress(&[])), CutChecksums::Complete, &mut packets);
        let mut pieces = Vec::new();
        for packet in packets {
            let before = pieces.len();
            if packet.len() <= mtu {
                pieces.push(packet);
            } else if fragment(packet, mtu, &mut pieces) {
                self.counters[count::FRAG_OKS] += 1;
                self.counters[count::FRAG_CREATES] += (pieces.len() - before) as u64;
            } else {
                self.counters[count::FRAG_FAILS] += 1;
                cx.count_drop(Reason::TooBig);
            }
        }
        match pieces.last_mut() {
            Some(last) => last.meta_mut().completion = completion.take(),
            None => completion.take().into_iter().for_each(|completion| cx.complete(completion)),
        }
        for piece in pieces {
            self.counters[count::OUT_OCTETS] += piece.len() as u64;
            cx.emit(OUT_LOWER, piece);
        }
        Verdict::Consumed
    }
}

/// Cuts a packet with a completed checksum, which begins with its header, into fragments (RFC 791 §3.2). False: it cannot be cut so small, or
/// is none.
fn fragment(packet: Frame, mtu: usize, out: &mut Vec<Frame>) -> bool {
    let mut packet = packet;
    let _ = packet.pull_up(packet.len().min(HEADER_LEN_MAX));
    let Ok((header, header_len)) = Header::parse(packet.head()) else { return false };
    let Some(room) = mtu.checked_sub(header_len).map(|room| room / UNIT_BYTES * UNIT_BYTES).filter(|room| *room > 0) else { return false };
    let payload_bytes = packet.len() - header_len;
    let mut bytes = packet.head()[..header_len].to_vec();
    let mut at = 0;
    while at < payload_bytes {
        let length = room.min(payload_bytes - at);
        // A fragment that is cut once more stays in the middle if it was (RFC 791 §3.2: "the more-fragments flag … carries the same value").
        let more = at + length < payload_bytes || header.more_fragments;
        let offset = usize::from(header.fragment_offset) + at;
        put_u16(&mut bytes, TOTAL_LEN_AT, (header_len + length) as u16);
        put_u16(&mut bytes, FRAGMENT_AT, (offset / UNIT_BYTES) as u16 | if more { MORE_FRAGMENTS } else { 0 });
        renew_checksum(&mut bytes);
        let mut piece = Frame::ingress(&bytes);
        let position = piece.position();
        *piece.meta_mut() = packet.meta().clone();
        let meta = piece.meta_mut();
        meta.network_at = position;
        meta.transport_at = if offset == 0 { position + header_len as u16 } else { 0 };
        packet.slices(header_len + at, length).into_iter().for_each(|slice| piece.append(slice));
        out.push(piece);
        at += length;
        keep_copied(&mut bytes[HEADER_LEN..]);
    }
    true
}

pub(super) fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(field) = bytes.get_mut(at..at + 2) {
        field.copy_from_slice(&value.to_be_bytes());
    }
}

/// Computes a header's checksum anew.
pub(super) fn renew_checksum(header: &mut [u8]) {
    put_u16(header, CHECKSUM_OFFSET, 0);
    let sum = checksum::of(header);
    put_u16(header, CHECKSUM_OFFSET, sum);
}
