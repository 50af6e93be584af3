//! Errors and the packets that they quote.

use std::net::{IpAddr, Ipv6Addr};
use weft_core::*;
use weft_wire::Protocol;
use weft_wire::checksum;
use weft_wire::icmpv6::{self, Message, kind, unreachable};
use weft_wire::ipv6::extension::{Unknown, option_kind};
use weft_wire::ipv6::{self, Chain, Extension, Extensions};

/// RFC 4443 §2.4 (c): "Every ICMPv6 error message (type < 128) MUST include as much of the IPv6 offending (invoking) packet … as possible without
/// making the error message packet exceed the minimum IPv6 MTU": less IP and ICMP header.
const QUOTE_BYTES_MAX: usize = ipv6::MTU_MIN - ipv6::HEADER_LEN - icmpv6::HEADER_LEN;
/// Bytes of a packet that are read to find its upper layer.
const HEADERS_BYTES_MAX: usize = QUOTE_BYTES_MAX;

/// Reads the headers that the frame begins with and fills the metadata from them.
pub(super) fn read_quote(frame: &mut Frame) -> Option<Chain> {
    let _ = frame.pull_up(frame.len().min(ipv6::HEADER_LEN + 8));
    let chain = match Chain::parse(frame.head()) {
        Ok(chain) => chain,
        // Long headers are rare: only then are they made contiguous.
        Err(_) => {
            let _ = frame.pull_up(frame.len().min(HEADERS_BYTES_MAX));
            Chain::parse(frame.head()).ok()?
        }
    };
    let network_at = frame.position();
    let meta = frame.meta_mut();
    meta.network_at = network_at;
    meta.transport_at = network_at + chain.offset as u16;
    meta.src = chain.header.src.into();
    meta.dst = chain.header.dst.into();
    meta.protocol = chain.protocol;
    Some(chain)
}

/// RFC 4443 §2.4 (e): an error "MUST NOT be originated as a result of receiving" the following.
pub(super) fn forbidden(frame: &Frame, chain: &Chain, message: &Message) -> bool {
    // "An ICMPv6 error message", "An ICMPv6 redirect message". Linux (is_ineligible): also when the type cannot be read, but of a fragment.
    let icmp_error = chain.protocol == Protocol::ICMPV6 && chain.has_upper_layer() && {
        let kind = frame.slices(chain.offset, 1).first().and_then(|bytes| bytes.first().copied());
        kind.map_or(chain.fragment.is_none(), |kind| kind < 128 || kind == kind::REDIRECT)
    };
    // "A packet destined to an IPv6 multicast address", "sent as a link-layer multicast" or "broadcast", with two exceptions: "the Packet Too Big
    // Message", and "the Parameter Problem Message, Code 2 … reporting an unrecognized IPv6 option … that has the Option Type highest-order two
    // bits set to 10".
    let excepted = matches!(message, Message::PacketTooBig { .. } | Message::ParameterProblem { code: 2, .. });
    let many = chain.header.dst.is_multicast() || frame.meta().dst_mac.is_multicast();
    // "A packet whose source address does not uniquely identify a single node".
    let source = chain.header.src;
    let no_node = source.is_unspecified() || source.is_multicast();
    // A later fragment is none of these (RFC 8200 §4.5 has errors about them).
    icmp_error || (many && !excepted) || no_node
}

/// The message that says so.
pub(super) fn message_for(error: IcmpErrorKind, frame: &mut Frame, chain: &Chain) -> Message {
    let unreachable = |code| Message::DestinationUnreachable { code };
    match error {
        IcmpErrorKind::NetUnreachable => unreachable(unreachable::NO_ROUTE),
        IcmpErrorKind::Prohibited => unreachable(unreachable::PROHIBITED),
        IcmpErrorKind::HostUnreachable if strays(chain) => unreachable(unreachable::BEYOND_SCOPE),
        // A redirect is no error of IPv6's: nd sends them.
        IcmpErrorKind::HostUnreachable | IcmpErrorKind::Redirect { .. } => unreachable(unreachable::ADDRESS),
        IcmpErrorKind::PortUnreachable => unreachable(unreachable::PORT),
        IcmpErrorKind::TooBig { mtu } => Message::PacketTooBig { mtu },
        IcmpErrorKind::TtlExceeded => Message::TimeExceeded { code: 0 },
        IcmpErrorKind::ReassemblyTimeout => Message::TimeExceeded { code: 1 },
        IcmpErrorKind::ProtocolUnreachable => Message::ParameterProblem { code: 1, pointer: chain.announced_at as u32 },
        IcmpErrorKind::SourceRouteFailed => Message::ParameterProblem { code: 0, pointer: chain.announced_at as u32 },
        IcmpErrorKind::ParameterProblem { pointer } => {
            let _ = frame.pull_up(frame.len().min(HEADERS_BYTES_MAX));
            let code = match pointer {
                // Nothing complains about the version: this is RFC 7112's "IPv6 First Fragment has incomplete IPv6 Header Chain".
                0 if chain.fragment.is_some() => 3,
                _ if is_at_option(frame.head(), pointer as usize) => 2,
                _ => 0,
            };
            Message::ParameterProblem { code, pointer }
        }
    }
}

/// A link-local source, and a destination that is not on its link.
fn strays(chain: &Chain) -> bool {
    let is_link_local = |ip: Ipv6Addr| ip.segments()[0] & 0xffc0 == 0xfe80;
    is_link_local(chain.header.src) && !is_link_local(chain.header.dst)
}

/// Does this byte of a packet begin an option that has to be reported if nobody knows it?
fn is_at_option(bytes: &[u8], pointer: usize) -> bool {
    let Ok((header, header_len)) = ipv6::Header::parse(bytes) else { return false };
    let mut walk = Extensions::new(header.next_header, &bytes[header_len..]);
    loop {
        let at = header_len + walk.offset();
        match walk.next() {
            Some(Ok(Extension::HopByHop(options) | Extension::DestinationOptions(options))) => {
                let found = options.iter().flatten().any(|(offset, _)| at + offset == pointer);
                if found {
                    let kind = bytes.get(pointer).copied().unwrap_or(option_kind::PAD_1);
                    return matches!(Unknown::of(kind), Unknown::Report | Unknown::ReportUnlessMulticast);
                }
            }
            Some(Ok(_)) => {}
            _ => return false,
        }
    }
}

/// What a received error says about the packet it quotes: the table at the top of the block's file.
pub(super) fn meaning(message: u8, code: u8, rest: u32) -> Option<IcmpErrorKind> {
    Some(match (message, code) {
        (kind::DESTINATION_UNREACHABLE, unreachable::NO_ROUTE) => IcmpErrorKind::NetUnreachable,
        (kind::DESTINATION_UNREACHABLE, unreachable::BEYOND_SCOPE | unreachable::ADDRESS) => IcmpErrorKind::HostUnreachable,
        (kind::DESTINATION_UNREACHABLE, unreachable::PORT) => IcmpErrorKind::PortUnreachable,
        (kind::DESTINATION_UNREACHABLE, unreachable::PROHIBITED | unreachable::POLICY | unreachable::REJECT_ROUTE) => {
            IcmpErrorKind::Prohibited
        }
        (kind::PACKET_TOO_BIG, _) => IcmpErrorKind::TooBig { mtu: rest },
        (kind::TIME_EXCEEDED, 0) => IcmpErrorKind::TtlExceeded,
        (kind::TIME_EXCEEDED, 1) => IcmpErrorKind::ReassemblyTimeout,
        (kind::PARAMETER_PROBLEM, _) => IcmpErrorKind::ParameterProblem { pointer: rest },
        _ => return None,
    })
}

/// Under which reason a packet is counted that ends in an error.
pub(super) const fn reason_of(kind: IcmpErrorKind) -> Reason {
    match kind {
        IcmpErrorKind::NetUnreachable => Reason::NoRoute,
        IcmpErrorKind::HostUnreachable => Reason::NeighbourFailed,
        IcmpErrorKind::ProtocolUnreachable => Reason::UnknownProtocol,
        IcmpErrorKind::PortUnreachable => Reason::NoPort,
        IcmpErrorKind::TooBig { .. } => Reason::TooBig,
        IcmpErrorKind::SourceRouteFailed | IcmpErrorKind::ParameterProblem { .. } => Reason::BadOption,
        IcmpErrorKind::Prohibited => Reason::Filtered,
        IcmpErrorKind::TtlExceeded => Reason::TtlExceeded,
        IcmpErrorKind::ReassemblyTimeout => Reason::ReassemblyTimeout,
        IcmpErrorKind::Redirect { .. } => Reason::NotForUs,
    }
}

/// The error message, with as much of the packet as may be quoted; the quoted payload is shared, not copied. `own`: the packet was sent to an
/// address of this node.
pub(super) fn make_error(offender: &Frame, chain: &Chain, message: &Message, own: bool) -> Frame {
    let mut frame = Frame::egress();
    for slice in offender.slices(0, QUOTE_BYTES_MAX) {
        frame.append(slice);
    }
    message.emit_header(frame.push(icmpv6::HEADER_LEN));
    // RFC 4443 §2.2: "If the message is a response to a message sent to one of the node's unicast addresses, the Source Address of the reply
    // MUST be that same address"; otherwise IP chooses, and adds it to the sum.
    let source = if own { chain.header.dst } else { Ipv6Addr::UNSPECIFIED };
    let sum = checksum::pseudo_v6(source, chain.header.src, Protocol::ICMPV6.0, frame.len() as u32).fold();
    if let Some(field) = frame.head_mut().get_mut(icmpv6::CHECKSUM_OFFSET..icmpv6::CHECKSUM_OFFSET + 2) {
        field.copy_from_slice(&sum.to_be_bytes());
    }
    let interface = super::answer_interface(offender.meta().interface, chain.header.src, chain.header.dst);
    let meta = frame.meta_mut();
    meta.checksum = Checksum::Partial { offset: icmpv6::CHECKSUM_OFFSET as u16 };
    meta.src = IpAddr::V6(source);
    meta.dst = chain.header.src.into();
    meta.protocol = Protocol::ICMPV6;
    meta.interface = interface;
    frame
}
