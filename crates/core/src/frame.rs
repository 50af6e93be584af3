//! One buffer on its way through the graph, passed by reference.
//!
//! A [`Frame`] is a pointer to a *head* of contiguous bytes (headers; small frames whole), a *tail* of shared slices that nobody copies
//! (payload), and typed metadata. Headers are pushed and pulled by moving the head's start; pulled bytes stay in front of it, so an ICMP
//! error can quote them. A frame moves between blocks as one pointer.

use crate::time::Instant;
use bytes::{Bytes, BytesMut};
use smallvec::SmallVec;
use std::net::{IpAddr, Ipv4Addr};
use weft_wire::Protocol;
use weft_wire::ethernet::{EtherType, Mac};

/// Bytes of head that a frame holds without another allocation.
pub const HEAD_BYTES: usize = 256;
/// Free bytes in front of a frame that a program's data starts: room for Ethernet with a tag (18), IP (60) and TCP (60).
pub const HEADROOM_EGRESS: usize = 160;
/// Free bytes in front of a received frame: room to encapsulate it once more.
pub const HEADROOM_INGRESS: usize = 32;
/// How many bytes of a received frame fit in the head.
pub const HEAD_BYTES_INGRESS: usize = HEAD_BYTES - HEADROOM_INGRESS;

/// Which way a frame travels.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Direction {
    /// From an interface to programs.
    #[default]
    Ingress,
    /// From programs to an interface.
    Egress,
}

/// The number of an interface in its node; 0 means none, 1 is the loopback interface.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct InterfaceIndex(pub u32);

impl InterfaceIndex {
    /// No interface.
    pub const NONE: InterfaceIndex = InterfaceIndex(0);
    /// `lo`.
    pub const LOOPBACK: InterfaceIndex = InterfaceIndex(1);
}

/// What is known about the transport checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Checksum {
    /// Nothing: whoever cares verifies it.
    #[default]
    Unknown,
    /// Verified, or made by a sender whose memory we trust (virtio `DATA_VALID`, loopback).
    Valid,
    /// The field holds the folded pseudo-header sum; whoever puts the frame on a wire adds the sum of the bytes from `start`
    /// and stores the complement at `start + offset`. `start` counts from the first byte of the transport header (Linux
    /// CHECKSUM_PARTIAL; the position of the transport header is [`Meta::transport_at`]).
    Partial {
        /// Offset of the checksum field in the transport header, bytes.
        offset: u16,
    },
    /// On datagram ports, of UDP-Lite: from the first byte of the transport header on it covers so many bytes, and not all. What is sent may say 0: all.
    Covers(u16),
    /// On datagram ports: the datagram has none, or is to have none.
    Absent,
}

/// How a frame that is larger than the wire's MTU is to be cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gso {
    /// Payload bytes of each cut segment but the last.
    pub segment_bytes: u16,
    /// TCP or UDP.
    pub kind: GsoKind,
}

/// What the segments of a large frame are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GsoKind {
    /// TCP: sequence numbers advance, FIN and PSH only on the last, CWR only on the first.
    Tcp,
    /// UDP datagrams (UDP_SEGMENT).
    Udp,
}

/// Whom to tell when the frame has left or was dropped (transmit completion; bounds a sender's bytes below, TSQ).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The block that wants to know (`Context::me`).
    pub block: crate::BlockId,
    /// Its own token, for example a connection.
    pub token: u64,
    /// Bytes to give back.
    pub bytes: u32,
}

/// An ICMP error about a packet, without the packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IcmpError {
    /// What the error says.
    pub kind: IcmpErrorKind,
    /// Who says so.
    pub from: IpAddr,
}

/// Meanings shared by ICMPv4 and ICMPv6, so that transports need one reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IcmpErrorKind {
    /// No route to the network.
    NetUnreachable,
    /// Host unreachable (and the other codes that Linux treats so).
    HostUnreachable,
    /// The protocol is not served.
    ProtocolUnreachable,
    /// No socket on the port.
    PortUnreachable,
    /// Fragmentation needed; the next hop's MTU in bytes (0: an old router that does not say).
    TooBig {
        /// Next-hop MTU, bytes.
        mtu: u32,
    },
    /// Source route failed.
    SourceRouteFailed,
    /// Administratively prohibited.
    Prohibited,
    /// Time to live ran out.
    TtlExceeded,
    /// Reassembly took too long.
    ReassemblyTimeout,
    /// The header has an error at this byte.
    ParameterProblem {
        /// Offset of the offending byte.
        pointer: u32,
    },
    /// There is a better first hop (to be told of a packet that was sent on; never told of one's own).
    Redirect {
        /// The better first hop.
        gateway: IpAddr,
    },
}

/// Typed metadata. Each layer fills the part it owns on the way up, and reads the part above wrote on the way down.
#[derive(Clone, Debug)]
pub struct Meta {
    /// Ingress or egress.
    pub direction: Direction,
    /// Ingress: where it came in. Egress: where it goes out ([`InterfaceIndex::NONE`] until routed).
    pub interface: InterfaceIndex,
    /// When the backend received it; [`Instant::ZERO`] for what this node made.
    pub received: Instant,
    /// EtherType of the payload of the link layer.
    pub ether_type: EtherType,
    /// Link-layer source.
    pub src_mac: Mac,
    /// Link-layer destination.
    pub dst_mac: Mac,
    /// IP source (unspecified: the IP block chooses).
    pub src: IpAddr,
    /// IP destination.
    pub dst: IpAddr,
    /// The neighbour that the packet goes to, once routed.
    pub next_hop: Option<IpAddr>,
    /// IP protocol of the payload.
    pub protocol: Protocol,
    /// Time to live or hop limit; egress 0 means the node's default.
    pub ttl: u8,
    /// DSCP and ECN.
    pub tos: u8,
    /// The packet must not be fragmented on the way.
    pub dont_fragment: bool,
    /// Source port, where the transport has ports.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Where the IP header lies, as an absolute position in the head ([`Frame::position`]); 0: not known.
    pub network_at: u16,
    /// Where the transport header lies, likewise.
    pub transport_at: u16,
    /// State of the transport checksum.
    pub checksum: Checksum,
    /// Present when the frame holds several segments.
    pub gso: Option<Gso>,
    /// Egress to a group: this node's own listeners do not hear it (IP_MULTICAST_LOOP switched off).
    pub no_loop: bool,
    /// Egress over IPv4: options for the header.
    pub ip_options: Option<Box<weft_wire::ipv4::Prepared>>,
    /// Egress over IPv6: extension headers to put in front of the transport's.
    pub attached: Option<Box<crate::Attached>>,
    /// Firewall mark (SO_MARK).
    pub mark: u32,
    /// Whom to tell when it has left.
    pub completion: Option<Completion>,
    /// On error ports: what went wrong with the quoted packet.
    pub error: Option<IcmpError>,
}

impl Default for Meta {
    fn default() -> Meta {
        Meta {
            direction: Direction::Ingress,
            interface: InterfaceIndex::NONE,
            received: Instant::ZERO,
            ether_type: EtherType(0),
            src_mac: Mac([0; 6]),
            dst_mac: Mac([0; 6]),
            src: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            dst: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            next_hop: None,
            protocol: Protocol(0),
            ttl: 0,
            tos: 0,
            dont_fragment: false,
            src_port: 0,
            dst_port: 0,
            network_at: 0,
            transport_at: 0,
            checksum: Checksum::Unknown,
            gso: None,
            no_loop: false,
            ip_options: None,
            attached: None,
            mark: 0,
            completion: None,
            error: None,
        }
    }
}

/// The shared slices behind a head.
pub type Tail = SmallVec<[Bytes; 2]>;

#[derive(Clone, Debug)]
struct Inner {
    meta: Meta,
    /// Position of the first byte in `head`.
    start: usize,
    /// Bytes before `start` are room, or headers already pulled.
    head: SmallVec<[u8; HEAD_BYTES]>,
    tail: Tail,
    tail_bytes: usize,
}

/// One buffer with metadata: a pointer, cheap to move. `clone` copies the head (headers) and shares the tail.
#[derive(Clone, Debug)]
pub struct Frame(Box<Inner>);

/// A frame has fewer bytes than were asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the frame has only {has} bytes, {needed} needed")]
pub struct TooShort {
    /// Bytes that the frame has.
    pub has: usize,
    /// Bytes that were needed.
    pub needed: usize,
}

impl Frame {
    fn with_headroom(headroom: usize) -> Frame {
        let mut head = SmallVec::new();
        head.resize(headroom, 0);
        Frame(Box::new(Inner { meta: Meta::default(), start: headroom, head, tail: Tail::new(), tail_bytes: 0 }))
    }

    /// An empty frame for a program's data, with room in front for every header.
    pub fn egress() -> Frame {
        let mut frame = Frame::with_headroom(HEADROOM_EGRESS);
        frame.0.meta.direction = Direction::Egress;
        frame
    }

    /// A received frame: copies what fits into the head, and the rest, if any, into one shared slice.
    pub fn ingress(bytes: &[u8]) -> Frame {
        let (head, tail) = bytes.split_at(bytes.len().min(HEAD_BYTES_INGRESS));
        let mut frame = Frame::with_headroom(HEADROOM_INGRESS);
        frame.0.head.extend_from_slice(head);
        if !tail.is_empty() {
            frame.append(Bytes::copy_from_slice(tail));
        }
        frame
    }

    /// A received frame whose first bytes were read apart from the rest, which is shared and not copied.
    pub fn ingress_parts(head: &[u8], tail: Bytes) -> Frame {
        let mut frame = Frame::with_headroom(HEADROOM_INGRESS);
        frame.0.head.extend_from_slice(head);
        frame.append(tail);
        frame
    }

    /// Metadata.
    pub fn meta(&self) -> &Meta {
        &self.0.meta
    }
    /// Metadata, to change.
    pub fn meta_mut(&mut self) -> &mut Meta {
        &mut self.0.meta
    }
    /// Bytes from the current start to the end.
    pub fn len(&self) -> usize {
        self.0.head.len() - self.0.start + self.0.tail_bytes
    }
    /// Bytes in front of the frame that were pulled, from this position on: headers, such as the one at [`Meta::network_at`].
    pub fn pulled(&self, from: u16) -> &[u8] {
        self.0.head.get(usize::from(from)..self.0.start).unwrap_or_default()
    }
    /// No bytes at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The contiguous bytes at the start. May be fewer than the frame has: see [`Frame::pull_up`].
    pub fn head(&self) -> &[u8] {
        &self.0.head[self.0.start..]
    }
    /// The contiguous bytes at the start, to edit in place.
    pub fn head_mut(&mut self) -> &mut [u8] {
        let start = self.0.start;
        &mut self.0.head[start..]
    }
    /// The shared slices behind the head.
    pub fn tail(&self) -> &Tail {
        &self.0.tail
    }
    /// All bytes in order, as slices.
    pub fn chunks(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::once(self.head()).chain(self.0.tail.iter().map(|bytes| bytes.as_ref())).filter(|bytes| !bytes.is_empty())
    }
    /// All bytes in one vector (a copy: for captures, tests and quotes).
    pub fn to_vec(&self) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.len());
        for chunk in self.chunks() {
            all.extend_from_slice(chunk);
        }
        all
    }

    /// Absolute position of the current start, for [`Meta::network_at`] and [`Meta::transport_at`].
    pub fn position(&self) -> u16 {
        self.0.start as u16
    }
    /// All of the head, what was pulled and the room in front too, and where the frame begins in it: for state.
    pub(crate) fn whole_head(&self) -> (usize, &[u8]) {
        (self.0.start, &self.0.head)
    }
    /// A frame of the parts of another one. `start` lies in the head.
    pub(crate) fn of_parts(meta: Meta, start: usize, head: &[u8], tail: Tail) -> Frame {
        let tail_bytes = tail.iter().map(Bytes::len).sum();
        Frame(Box::new(Inner { meta, start, head: SmallVec::from_slice(head), tail, tail_bytes }))
    }
    /// Moves the start back (or on) to a position taken earlier: un-pulls headers. A position beyond the head is ignored.
    pub fn rewind(&mut self, position: u16) {
        if usize::from(position) <= self.0.head.len() {
            self.0.start = usize::from(position);
        }
    }

    /// Makes the first `bytes` contiguous. Only frames with unusually long headers copy here.
    pub fn pull_up(&mut self, bytes: usize) -> Result<(), TooShort> {
        let has = self.len();
        if bytes > has {
            return Err(TooShort { has, needed: bytes });
        }
        let inner = &mut *self.0;
        while inner.head.len() - inner.start < bytes {
            let missing = bytes - (inner.head.len() - inner.start);
            let take = missing.min(inner.tail[0].len());
            let moved = inner.tail[0].split_to(take);
            inner.head.extend_from_slice(&moved);
            inner.tail_bytes -= take;
            if inner.tail[0].is_empty() {
                inner.tail.remove(0);
            }
        }
        Ok(())
    }

    /// Takes `bytes` of header off the front (they stay in the head, see [`Frame::rewind`]).
    pub fn pull(&mut self, bytes: usize) -> Result<(), TooShort> {
        self.pull_up(bytes)?;
        self.0.start += bytes;
        Ok(())
    }

    /// Puts `bytes` of header in front and returns all of it to be filled. Allocates only when the headroom is used up.
    pub fn push(&mut self, bytes: usize) -> &mut [u8] {
        let inner = &mut *self.0;
        if inner.start < bytes {
            let more = bytes - inner.start + HEADROOM_INGRESS;
            inner.head.insert_many(0, std::iter::repeat_n(0u8, more));
            inner.start += more;
            for at in [&mut inner.meta.network_at, &mut inner.meta.transport_at] {
                *at = if *at == 0 { 0 } else { at.saturating_add(more as u16) };
            }
        }
        inner.start -= bytes;
        let start = inner.start;
        &mut inner.head[start..start + bytes]
    }

    /// Copies bytes to the end of the head. Only for frames without a tail; otherwise they become a shared slice.
    pub fn extend(&mut self, bytes: &[u8]) {
        if self.0.tail.is_empty() && self.0.head.len() + bytes.len() <= HEAD_BYTES {
            self.0.head.extend_from_slice(bytes);
        } else if !bytes.is_empty() {
            self.append(Bytes::copy_from_slice(bytes));
        }
    }

    /// Appends a shared slice. Nothing is copied.
    pub fn append(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.0.tail_bytes += bytes.len();
            self.0.tail.push(bytes);
        }
    }

    /// Takes the shared slices behind the head away; the head stays.
    pub fn take_tail(&mut self) -> Tail {
        self.0.tail_bytes = 0;
        std::mem::take(&mut self.0.tail)
    }

    /// Cuts the frame to `bytes` (Ethernet padding). Longer than the frame: no change.
    pub fn truncate(&mut self, bytes: usize) {
        let inner = &mut *self.0;
        let head = inner.head.len() - inner.start;
        if bytes <= head {
            inner.head.truncate(inner.start + bytes);
            inner.tail.clear();
            inner.tail_bytes = 0;
            return;
        }
        let mut left = bytes - head;
        inner.tail.retain(|slice| {
            slice.truncate(left);
            left -= slice.len();
            !slice.is_empty()
        });
        inner.tail_bytes = inner.tail.iter().map(Bytes::len).sum();
    }

    /// The bytes from `offset`, at most `bytes` of them, as shared slices; bytes in the head are copied (once), the tail is shared.
    pub fn slices(&self, offset: usize, bytes: usize) -> Tail {
        let mut out = Tail::new();
        let (mut skip, mut left) = (offset, bytes);
        let head = self.head();
        if skip < head.len() {
            let part = &head[skip..head.len().min(skip.saturating_add(left))];
            if !part.is_empty() {
                left -= part.len();
                out.push(Bytes::copy_from_slice(part));
            }
            skip = 0;
        } else {
            skip -= head.len();
        }
        for slice in &self.0.tail {
            if left == 0 {
                break;
            }
            if skip >= slice.len() {
                skip -= slice.len();
                continue;
            }
            let part = slice.slice(skip..slice.len().min(skip.saturating_add(left)));
            left -= part.len();
            skip = 0;
            out.push(part);
        }
        out
    }

    /// Gives up the frame for its bytes: what remains in the head is copied into one slice, the tail is handed over.
    pub fn into_payload(mut self) -> Tail {
        let Inner { head, start, tail, .. } = &mut *self.0;
        let (head, tail) = (&head[*start..], std::mem::take(tail));
        if head.is_empty() {
            return tail;
        }
        let mut out = Tail::new();
        if let [only] = &tail[..]
            && only.len() <= HEAD_BYTES * 4
        {
            // Two small pieces cost more to carry than to join.
            let mut joined = BytesMut::with_capacity(head.len() + only.len());
            joined.extend_from_slice(head);
            joined.extend_from_slice(only);
            out.push(joined.freeze());
            return out;
        }
        out.push(Bytes::copy_from_slice(head));
        out.extend(tail);
        out
    }

    /// The completion, taken out: whoever takes it must report it through `Context::complete`.
    pub fn take_completion(&mut self) -> Option<Completion> {
        self.0.meta.completion.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_pushed_and_pulled_without_touching_the_payload() {
        let payload = Bytes::from(vec![7u8; 1000]);
        let address = payload.as_ptr();
        let mut frame = Frame::egress();
        frame.append(payload);
        frame.push(20).fill(1);
        frame.push(14).fill(2);
        assert_eq!(frame.len(), 1034);
        assert_eq!(frame.head()[..15], [[2u8; 14].as_slice(), &[1]].concat());
        frame.pull(34).unwrap();
        assert_eq!(frame.into_payload()[0].as_ptr(), address);
    }

    #[test]
    fn pulled_headers_can_be_quoted() {
        let mut frame = Frame::ingress(&[1, 2, 3, 4]);
        let at = frame.position();
        frame.pull(3).unwrap();
        assert_eq!(frame.head(), [4]);
        frame.rewind(at);
        assert_eq!(frame.head(), [1, 2, 3, 4]);
    }

    #[test]
    fn pull_up_moves_bytes_from_several_slices_and_refuses_more_than_there_is() {
        let mut frame = Frame::ingress_parts(&[0, 1], Bytes::from_static(&[2, 3]));
        frame.append(Bytes::from_static(&[4, 5]));
        frame.pull_up(5).unwrap();
        assert_eq!(frame.head(), [0, 1, 2, 3, 4]);
        assert_eq!(frame.to_vec(), [0, 1, 2, 3, 4, 5]);
        assert_eq!(frame.pull_up(7), Err(TooShort { has: 6, needed: 7 }));
    }

    #[test]
    fn truncate_and_slices_agree_with_a_plain_vector() {
        let all: Vec<u8> = (0..=255).cycle().take(900).collect();
        for cut in [0, 1, 10, 223, 224, 225, 500, 899, 900, 1000] {
            let mut frame = Frame::ingress_parts(&all[..10], Bytes::copy_from_slice(&all[10..500]));
            frame.append(Bytes::copy_from_slice(&all[500..]));
            for (offset, bytes) in [(0, 5), (5, 100), (10, 10), (300, 400), (890, 100), (2000, 1)] {
                let expected: Vec<u8> = all.iter().skip(offset).take(bytes).copied().collect();
                assert_eq!(frame.slices(offset, bytes).concat(), expected);
            }
            frame.truncate(cut);
            assert_eq!(frame.to_vec(), all[..cut.min(900)]);
            assert_eq!(frame.len(), cut.min(900));
        }
    }

    #[test]
    fn a_used_up_headroom_grows_and_positions_follow() {
        let mut frame = Frame::ingress(&[9; 4]);
        frame.meta_mut().network_at = frame.position();
        for _ in 0..10 {
            frame.push(30).fill(3);
        }
        let at = frame.meta().network_at;
        frame.rewind(at);
        assert_eq!(frame.head(), [9; 4]);
    }
}
