//! UDP and UDP-Lite: header and checksum on and off.
//!
//! Received datagrams come in through `lower`, are checked and go up as payload with ports in the metadata. Payload to send comes in
//! through `upper` and leaves for IPv4 or IPv6 by the family of its destination, its checksum left partial: whoever puts the frame on a
//! wire completes it, so payload is not read here. Large frames (`meta.gso`) go down whole; one that comes back over the loopback is cut
//! into its datagrams here. Errors about datagrams that this node sent come in through `error` and go up with ports in the metadata.
//!
//! UDP-Lite (`meta.protocol`) is the same, but that its header says how much the checksum covers: what a socket asks for, and what came, is in
//! `meta.checksum` (`Covers`). Such checksums are made here, as no edge knows how.
//!
//! It refuses datagrams whose length or coverage field lies (truncated, bad-total-length), whose checksum is wrong, and payloads that no IP packet
//! could carry. One without a checksum over IPv6 goes up as such (`Absent`): few sockets take it (RFC 8200 §8.1). It knows no sockets: datagrams that
//! have none are answered by `sockets`.
//!
//! Standards: RFC 768; RFC 3828; RFC 1122 §4.1; RFC 8200 §8.1.

use std::any::Any;
use std::net::IpAddr;
use weft_core::*;
use weft_wire::checksum::{Sum, pseudo_v4, pseudo_v6};
use weft_wire::ipv6::{Chain, MTU_MIN};
use weft_wire::udp::{CHECKSUM_OFFSET, Header, LEN};
use weft_wire::{Error, Protocol, ipv4};

const IN_LOWER: InPort = InPort(0);
const IN_UPPER: InPort = InPort(1);
const OUT_IP4: OutPort = OutPort(0);
const OUT_IP6: OutPort = OutPort(1);
const OUT_UPPER: OutPort = OutPort(2);
const OUT_ERROR: OutPort = OutPort(3);

/// Largest UDP datagram with header, bytes: over IPv4 it must leave room for the IP header.
const DATAGRAM_BYTES_MAX_V4: usize = 65_535 - ipv4::HEADER_LEN;
const DATAGRAM_BYTES_MAX_V6: usize = 65_535;

/// What this kind declares.
pub static KIND: Kind = Kind {
    name: "udp",
    summary: "UDP and UDP-Lite header and checksum on and off",
    doc: "Checks received datagrams and passes their payload up with ports in the metadata; gives payload to send a header with a partial \
          checksum. Large frames go down whole, and are cut into datagrams when they come in over the loopback. Passes errors about this \
          node's datagrams on to sockets.\n\
          Standards: RFC 768, RFC 3828, RFC 1122 4.1, RFC 8200 8.1.\n\
          Example: bind udp:ip4 ip4:upper",
    inputs: &[
        Port::required("lower", Carries::Transport, "received datagrams"),
        Port::optional("upper", Carries::Datagram, "payload to send, with addresses and ports"),
        Port::optional("error", Carries::Error, "datagrams of this node that an error is about"),
    ],
    outputs: &[
        Port::required("ip4", Carries::Transport, "datagrams to IPv4 destinations"),
        Port::optional("ip6", Carries::Transport, "datagrams to IPv6 destinations"),
        Port::optional("upper", Carries::Datagram, "received payload"),
        Port::optional("error", Carries::Error, "datagrams that an error is about, with ports"),
    ],
    counters: &[
        Counter { name: "InDatagrams", text: "datagrams passed up" },
        Counter { name: "NoPorts", text: "datagrams without a block above to take them; sockets counts those without a socket" },
        Counter { name: "InErrors", text: "datagrams dropped for their length or checksum" },
        Counter { name: "OutDatagrams", text: "datagrams sent; each of a large frame counts" },
        Counter { name: "InCsumErrors", text: "datagrams with a wrong checksum" },
        Counter { name: "OutErrors", text: "payloads that could not be sent" },
        Counter { name: "InIcmpErrors", text: "errors about sent datagrams passed up" },
        Counter { name: "UdpLiteInDatagrams", text: "UDP-Lite datagrams passed up" },
        Counter { name: "UdpLiteInErrors", text: "UDP-Lite datagrams dropped for their coverage or checksum" },
        Counter { name: "UdpLiteInCsumErrors", text: "UDP-Lite datagrams with a wrong checksum or coverage, or without a checksum" },
        Counter { name: "UdpLiteOutDatagrams", text: "UDP-Lite datagrams sent" },
    ],
    state_version: 1,
    ..Kind::EMPTY
};

const IN_DATAGRAMS: usize = 0;
const NO_PORTS: usize = 1;
const IN_ERRORS: usize = 2;
const OUT_DATAGRAMS: usize = 3;
const IN_CSUM_ERRORS: usize = 4;
const OUT_ERRORS: usize = 5;
const IN_ICMP_ERRORS: usize = 6;
const LITE_IN_DATAGRAMS: usize = 7;
const LITE_IN_ERRORS: usize = 8;
const LITE_IN_CSUM_ERRORS: usize = 9;
const LITE_OUT_DATAGRAMS: usize = 10;

/// How to make one.
pub const ROW: BlockRow = BlockRow { kind: &KIND, make: |_| Ok(Box::new(Udp::default())) };

/// The block.
#[derive(Debug, Default)]
pub struct Udp {
    bound: [bool; 4],
    counters: [u64; 11],
}

impl Udp {
    fn receive(&mut self, frame: &mut Frame, cx: &mut Context<'_>) -> Verdict {
        if frame.meta().protocol == Protocol::UDPLITE {
            return self.receive_lite(frame);
        }
        let _ = frame.pull_up(frame.len().min(LEN));
        let Ok((header, header_len)) = Header::parse(frame.head()) else {
            self.counters[IN_ERRORS] += 1;
            return Verdict::Drop(Reason::Truncated);
        };
        let payload_len = match header.payload_len(frame.len()) {
            Ok(payload_len) => payload_len,
            Err(_) => {
                self.counters[IN_ERRORS] += 1;
                return Verdict::Drop(if usize::from(header.length) < LEN { Reason::BadTotalLength } else { Reason::Truncated });
            }
        };
        // The IP packet may be longer than the datagram (Linux udp_rcv: pskb_trim_rcsum); the checksum covers the datagram.
        frame.truncate(LEN + payload_len);
        if !checksum_holds(frame, &header) {
            self.counters[IN_ERRORS] += 1;
            self.counters[IN_CSUM_ERRORS] += 1;
            return Verdict::Drop(Reason::BadChecksum);
        }
        if !self.is_bound(OUT_UPPER) {
            self.counters[NO_PORTS] += 1;
            return Verdict::Drop(Reason::NoPort);
        }
        if frame.pull(header_len).is_err() {
            return Verdict::Drop(Reason::Truncated);
        }
        let meta = frame.meta_mut();
        meta.src_port = header.src_port;
        meta.dst_port = header.dst_port;
        meta.protocol = Protocol::UDP;
        let absent = header.checksum == 0 && meta.src.is_ipv6() && !matches!(meta.checksum, Checksum::Partial { .. });
        meta.checksum = if absent { Checksum::Absent } else { Checksum::Valid };
        if let Some(gso) = meta.gso.take() {
            self.cut(frame, usize::from(gso.segment_bytes).max(1), cx);
        }
        self.counters[IN_DATAGRAMS] += 1;
        Verdict::Forward(OUT_UPPER)
    }

    /// RFC 3828: the datagram ends where its packet does, and the checksum may cover a part of it (udplite_checksum_init).
    fn receive_lite(&mut self, frame: &mut Frame) -> Verdict {
        let _ = frame.pull_up(frame.len().min(LEN));
        let Ok((header, header_len)) = Header::parse(frame.head()) else {
            self.counters[LITE_IN_ERRORS] += 1;
            return Verdict::Drop(Reason::Truncated);
        };
        // "UDP-Lite (like IPv6) mandates checksums, hence packets with a zero checksum field are illegal."
        let covered = header.coverage(frame.len()).ok().filter(|_| header.checksum != 0);
        let holds = covered.is_some_and(|covered| lite_sum(frame, covered).is_some_and(|sum| sum.fold() == 0xffff));
        let Some(covered) = covered.filter(|_| holds) else {
            self.counters[LITE_IN_ERRORS] += 1;
            self.counters[LITE_IN_CSUM_ERRORS] += 1;
            return Verdict::Drop(Reason::BadChecksum);
        };
        let whole = covered == frame.len();
        if !self.is_bound(OUT_UPPER) {
            return Verdict::Drop(Reason::NoPort);
        }
        if frame.pull(header_len).is_err() {
            return Verdict::Drop(Reason::Truncated);
        }
        let meta = frame.meta_mut();
        (meta.src_port, meta.dst_port) = (header.src_port, header.dst_port);
        meta.checksum = if whole { Checksum::Valid } else { Checksum::Covers(covered as u16) };
        self.counters[LITE_IN_DATAGRAMS] += 1;
        Verdict::Forward(OUT_UPPER)
    }

    /// The header of UDP-Lite in front of a payload: udplite_csum.
    fn finish_lite(&mut self, frame: &mut Frame, asked: Checksum, port: OutPort) -> Verdict {
        let length = LEN + frame.len();
        // "if (pcslen < len) { if (0 < pcslen) len = pcslen; udp_hdr(skb)->len = htons(pcslen); }"
        let (field, covered) = match asked {
            Checksum::Covers(0) => (0, length),
            Checksum::Covers(asked) if usize::from(asked) < length => (asked.max(LEN as u16), usize::from(asked).max(LEN)),
            _ => (length as u16, length),
        };
        let meta = frame.meta_mut();
        (meta.gso, meta.checksum) = (None, Checksum::Unknown);
        let mut header = Header { src_port: meta.src_port, dst_port: meta.dst_port, length: field, checksum: 0 };
        header.emit(frame.push(LEN));
        let Some(sum) = lite_sum(frame, covered) else {
            self.counters[OUT_ERRORS] += 1;
            return Verdict::Drop(Reason::BadPacket);
        };
        header.checksum = sum.finish_udp();
        header.emit(&mut frame.head_mut()[..LEN]);
        frame.meta_mut().transport_at = frame.position();
        self.counters[LITE_OUT_DATAGRAMS] += 1;
        Verdict::Forward(port)
    }

    /// A large frame that was never cut, because it stayed in the node: all datagrams but the last are emitted, the last remains.
    fn cut(&mut self, frame: &mut Frame, segment_bytes: usize, cx: &mut Context<'_>) {
        let total = frame.len();
        if total <= segment_bytes {
            return;
        }
        let last_at = (total - 1) / segment_bytes * segment_bytes;
        for offset in (0..last_at).step_by(segment_bytes) {
            let mut part = Frame::ingress(&[]);
            for slice in frame.slices(offset, segment_bytes) {
                part.append(slice);
            }
            *part.meta_mut() = Meta { completion: None, network_at: 0, transport_at: 0, ..frame.meta().clone() };
            self.counters[IN_DATAGRAMS] += 1;
            cx.emit(OUT_UPPER, part);
        }
        // The last stays behind the headers of the whole, so that it can be quoted.
        let rest = frame.slices(last_at, total - last_at);
        frame.truncate(0);
        for slice in rest {
            frame.append(slice);
        }
    }

    fn send(&mut self, frame: &mut Frame) -> Verdict {
        let (port, largest) = match frame.meta().dst {
            IpAddr::V4(_) => (OUT_IP4, DATAGRAM_BYTES_MAX_V4),
            IpAddr::V6(_) => (OUT_IP6, DATAGRAM_BYTES_MAX_V6),
        };
        let (payload, length) = (frame.len(), LEN + frame.len());
        if length > largest {
            self.counters[OUT_ERRORS] += 1;
            return Verdict::Drop(Reason::TooBig);
        }
        // An unspecified source counts as zero; IP adds the one that it chooses.
        if frame.meta().src.is_unspecified() {
            frame.meta_mut().src = match port {
                OUT_IP4 => std::net::Ipv4Addr::UNSPECIFIED.into(),
                _ => std::net::Ipv6Addr::UNSPECIFIED.into(),
            };
        }
        if frame.meta().protocol == Protocol::UDPLITE {
            let asked = frame.meta().checksum;
            frame.meta_mut().direction = Direction::Egress;
            return self.finish_lite(frame, asked, port);
        }
        let Some(sum) = pseudo_header(frame.meta(), length as u32) else {
            self.counters[OUT_ERRORS] += 1;
            return Verdict::Drop(Reason::BadPacket);
        };
        let meta = frame.meta_mut();
        meta.direction = Direction::Egress;
        meta.protocol = Protocol::UDP;
        // RFC 768: "An all zero transmitted checksum value means that the transmitter generated no checksum".
        let absent = meta.checksum == Checksum::Absent;
        meta.checksum = if absent { Checksum::Unknown } else { Checksum::Partial { offset: CHECKSUM_OFFSET as u16 } };
        let datagrams = match &mut meta.gso {
            Some(gso) if payload > usize::from(gso.segment_bytes) => payload.div_ceil(usize::from(gso.segment_bytes).max(1)),
            gso => {
                *gso = None;
                1
            }
        };
        let header = Header {
            src_port: meta.src_port,
            dst_port: meta.dst_port,
            length: length as u16,
            checksum: if absent { 0 } else { sum.fold() },
        };
        header.emit(frame.push(LEN));
        frame.meta_mut().transport_at = frame.position();
        self.counters[OUT_DATAGRAMS] += datagrams as u64;
        Verdict::Forward(port)
    }

    /// An error about a datagram that this node sent: the frame begins with its IP header.
    fn pass_error(&mut self, frame: &mut Frame) -> Verdict {
        let (src, dst, header_len, protocol) = match read_quote(frame) {
            Ok(read) => read,
            Err(reason) => return Verdict::Drop(reason),
        };
        let Some(Ok((udp, _))) = frame.head().get(header_len..).map(Header::parse) else { return Verdict::Drop(Reason::Truncated) };
        let network_at = frame.position();
        let meta = frame.meta_mut();
        meta.network_at = network_at;
        meta.transport_at = network_at + header_len as u16;
        meta.src = src;
        meta.dst = dst;
        meta.protocol = protocol;
        meta.src_port = udp.src_port;
        meta.dst_port = udp.dst_port;
        self.counters[IN_ICMP_ERRORS] += 1;
        if self.is_bound(OUT_ERROR) { Verdict::Forward(OUT_ERROR) } else { Verdict::Consumed }
    }

    fn is_bound(&self, port: OutPort) -> bool {
        self.bound[usize::from(port.0)]
    }
}

/// Does the checksum of a datagram hold, which begins with its header? Whoever has a whole one in hand asks.
pub(crate) fn checksum_holds(frame: &Frame, header: &Header) -> bool {
    match (frame.meta().checksum, header.checksum, frame.meta().src) {
        (Checksum::Valid | Checksum::Partial { .. }, _, _) => true,
        // RFC 768: "An all zero transmitted checksum value means that the transmitter generated no checksum".
        // Over IPv6 it goes up as one without: RFC 8200 §8.1: "the default behavior … IPv6 receivers must discard UDP packets containing a zero
        // checksum", which is a socket's to say (UDP_NO_CHECK6_RX).
        (Checksum::Unknown | Checksum::Covers(_) | Checksum::Absent, 0, _) => true,
        (Checksum::Unknown | Checksum::Covers(_) | Checksum::Absent, _, _) => match pseudo_header(frame.meta(), frame.len() as u32) {
            Some(sum) => frame.chunks().fold(sum, Sum::add_bytes).fold() == 0xffff,
            None => false,
        },
    }
}

/// The sum over what a checksum of UDP-Lite covers. RFC 3828 §3.1: "the Length field from the IP header" stands in the pseudo-header.
fn lite_sum(frame: &Frame, covered: usize) -> Option<Sum> {
    let (protocol, length) = (Protocol::UDPLITE.0, frame.len() as u32);
    let pseudo = match (frame.meta().src, frame.meta().dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => pseudo_v4(src, dst, protocol, length),
        (IpAddr::V6(src), IpAddr::V6(dst)) => pseudo_v6(src, dst, protocol, length),
        _ => return None,
    };
    Some(frame.slices(0, covered).iter().fold(pseudo, |sum, slice| sum.add_bytes(slice)))
}

/// Addresses of a quoted packet, where its UDP header begins, and whose it is; as much is contiguous then.
fn read_quote(frame: &mut Frame) -> Result<(IpAddr, IpAddr, usize, Protocol), Reason> {
    let _ = frame.pull_up(frame.len().min(ipv4::HEADER_LEN_MAX + LEN));
    if frame.head().first().is_some_and(|byte| byte >> 4 == 6) {
        // Long chains of extension headers are rare: only then are they made contiguous.
        if Chain::parse(frame.head()).is_err() {
            let _ = frame.pull_up(frame.len().min(MTU_MIN));
        }
        let chain = Chain::parse(frame.head()).map_err(|_| Reason::BadPacket)?;
        if !matches!(chain.protocol, Protocol::UDP | Protocol::UDPLITE) || !chain.has_upper_layer() {
            return Err(Reason::BadPacket);
        }
        let _ = frame.pull_up(frame.len().min(chain.offset + LEN));
        return Ok((chain.header.src.into(), chain.header.dst.into(), chain.offset, chain.protocol));
    }
    match ipv4::Header::parse(frame.head()) {
        Ok((header, header_len)) => Ok((header.src.into(), header.dst.into(), header_len, header.protocol)),
        Err(Error::BadVersion) => Err(Reason::BadVersion),
        Err(_) => Err(Reason::BadPacket),
    }
}

fn pseudo_header(meta: &Meta, length: u32) -> Option<Sum> {
    match (meta.src, meta.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => Some(pseudo_v4(src, dst, Protocol::UDP.0, length)),
        (IpAddr::V6(src), IpAddr::V6(dst)) => Some(pseudo_v6(src, dst, Protocol::UDP.0, length)),
        _ => None,
    }
}

impl Block for Udp {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn process(&mut self, port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        match port {
            // Datagrams that are cut out are emitted, and emitted frames precede forwarded ones: to keep the order, emit all.
            IN_LOWER if vector.iter().any(|(_, frame)| frame.meta().gso.is_some()) => {
                for mut frame in vector.drain() {
                    match self.receive(&mut frame, cx) {
                        Verdict::Forward(port) => cx.emit(port, frame),
                        Verdict::Drop(reason) => cx.drop(frame, reason),
                        Verdict::Consumed => {}
                    }
                }
            }
            IN_LOWER => vector.each(|frame| self.receive(frame, cx)),
            IN_UPPER => vector.each(|frame| self.send(frame)),
            _ => vector.each(|frame| self.pass_error(frame)),
        }
    }

    fn started(&mut self, cx: &mut Context<'_>) {
        for (port, bound) in self.bound.iter_mut().enumerate() {
            *bound = cx.is_bound(OutPort(port as u8));
        }
    }

    fn counters(&self) -> &[u64] {
        &self.counters
    }

    fn export(&self, now: Instant) -> Result<State, StateError> {
        Ok(crate::counted::export(&KIND, &self.counters, now))
    }

    fn import(&mut self, state: &State, now: Instant) -> Result<(), StateError> {
        self.counters = crate::counted::import(&KIND, state, now)?;
        Ok(())
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
