//! ICMPv6 (RFC 4443): echo and errors; [`nd`] is neighbour discovery, [`mld`]
//! multicast listener discovery.
//!
//! ```text
//! 0      1      2          4                8
//! | type | code | checksum | per-type field | payload
//! ```
//!
//! A [`Message`] is the header; echo data, the quoted packet of an error, ND's
//! options and MLD's lists stay outside, behind [`Message::header_len`]. Bits that
//! a type leaves unused are ignored and sent as zero.

pub mod mld;
pub mod nd;

use core::net::Ipv6Addr;

use crate::bytes::{array_at, put, put_u16, put_u32, u16_at, u32_at};
use crate::checksum::pseudo_v6;
use crate::{Error, Protocol};

mod field {
    pub const TYPE: usize = 0;
    pub const CODE: usize = 1;
    pub const CHECKSUM: usize = 2;
    pub const REST: usize = 4;
    pub const IDENTIFIER: usize = 4;
    pub const SEQUENCE: usize = 6;
}

/// Length of the header of echoes and errors, in bytes.
pub const HEADER_LEN: usize = 8;
/// Where the checksum field is, in bytes from the start of the message.
pub const CHECKSUM_OFFSET: usize = field::CHECKSUM;

/// Message types (IANA "ICMPv6 type Numbers"). Below 128 they are errors.
pub mod kind {
    /// A packet could not be delivered.
    pub const DESTINATION_UNREACHABLE: u8 = 1;
    /// A packet exceeds the next MTU.
    pub const PACKET_TOO_BIG: u8 = 2;
    /// The hop limit or reassembly time ran out.
    pub const TIME_EXCEEDED: u8 = 3;
    /// A header field is wrong.
    pub const PARAMETER_PROBLEM: u8 = 4;
    /// Ping.
    pub const ECHO_REQUEST: u8 = 128;
    /// Answer to an echo request.
    pub const ECHO_REPLY: u8 = 129;
    /// MLD: who listens?
    pub const LISTENER_QUERY: u8 = 130;
    /// MLDv1: I do.
    pub const LISTENER_REPORT: u8 = 131;
    /// MLDv1: I no longer do.
    pub const LISTENER_DONE: u8 = 132;
    /// ND: which routers are there?
    pub const ROUTER_SOLICITATION: u8 = 133;
    /// ND: I am a router.
    pub const ROUTER_ADVERTISEMENT: u8 = 134;
    /// ND: who has this address?
    pub const NEIGHBOR_SOLICITATION: u8 = 135;
    /// ND: I have it.
    pub const NEIGHBOR_ADVERTISEMENT: u8 = 136;
    /// ND: there is a better first hop.
    pub const REDIRECT: u8 = 137;
    /// MLDv2 report.
    pub const LISTENER_REPORT_V2: u8 = 143;
}

/// Codes of destination unreachable (RFC 4443 §3.1).
pub mod unreachable {
    /// No route to the destination.
    pub const NO_ROUTE: u8 = 0;
    /// Administratively prohibited.
    pub const PROHIBITED: u8 = 1;
    /// Beyond the scope of the source address.
    pub const BEYOND_SCOPE: u8 = 2;
    /// The address does not answer.
    pub const ADDRESS: u8 = 3;
    /// Nobody listens on the port.
    pub const PORT: u8 = 4;
    /// The source address failed ingress or egress policy.
    pub const POLICY: u8 = 5;
    /// Reject route.
    pub const REJECT_ROUTE: u8 = 6;
}

/// A message's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Message {
    /// Ping; the payload is echoed.
    EchoRequest {
        /// Usually the program.
        identifier: u16,
        /// Counts requests.
        sequence: u16,
    },
    /// The answer, with the request's payload.
    EchoReply {
        /// As in the request.
        identifier: u16,
        /// As in the request.
        sequence: u16,
    },
    /// A packet could not be delivered; its beginning is the payload.
    DestinationUnreachable {
        /// See [`mod@unreachable`].
        code: u8,
    },
    /// A packet does not fit; its beginning is the payload.
    PacketTooBig {
        /// The next hop's MTU in bytes.
        mtu: u32,
    },
    /// A packet's time ran out; its beginning is the payload.
    TimeExceeded {
        /// 0: hops, 1: reassembly.
        code: u8,
    },
    /// A packet's header is wrong; its beginning is the payload.
    ParameterProblem {
        /// 0: bad field, 1: unknown next header, 2: unknown option.
        code: u8,
        /// The wrong byte, counted from the start of the quoted packet.
        pointer: u32,
    },
    /// Neighbour discovery.
    Nd(nd::Message),
    /// Multicast listener discovery.
    Mld(mld::Message),
    /// Any other message. With a type and code of the above it is read back as
    /// that.
    Other {
        /// The type.
        kind: u8,
        /// The code.
        code: u8,
        /// Bytes 4 to 7.
        rest: [u8; 4],
    },
}

impl Message {
    /// Reads the header of a whole message (MLD tells its versions apart by the
    /// message's length); returns it and its length in bytes. The checksum is
    /// [`verify_checksum`]'s.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::BadLength`] for an MLD query whose length is
    /// that of no version.
    pub fn parse(bytes: &[u8]) -> Result<(Message, usize), Error> {
        let h = bytes.first_chunk::<HEADER_LEN>().ok_or(Error::Truncated)?;
        let (kind, code) = (h[field::TYPE], h[field::CODE]);
        let identifier = u16_at(h, field::IDENTIFIER);
        let sequence = u16_at(h, field::SEQUENCE);
        let message = match (kind, code) {
            (kind::ECHO_REQUEST, 0) => Message::EchoRequest { identifier, sequence },
            (kind::ECHO_REPLY, 0) => Message::EchoReply { identifier, sequence },
            (kind::DESTINATION_UNREACHABLE, code) => Message::DestinationUnreachable { code },
            // RFC 4443 §3.2: the code is "set to 0 (zero) by the originator and
            // ignored by the receiver".
            (kind::PACKET_TOO_BIG, _) => Message::PacketTooBig { mtu: u32_at(h, field::REST) },
            (kind::TIME_EXCEEDED, code) => Message::TimeExceeded { code },
            (kind::PARAMETER_PROBLEM, code) => Message::ParameterProblem { code, pointer: u32_at(h, field::REST) },
            // RFC 4861 §6.1, §7.1: "ICMP Code is 0", or the message is discarded.
            (kind::ROUTER_SOLICITATION..=kind::REDIRECT, 0) => Message::Nd(nd::Message::parse(bytes)?),
            // RFC 3810 §5.1.1: the code is "ignored by receivers".
            (kind::LISTENER_QUERY..=kind::LISTENER_DONE | kind::LISTENER_REPORT_V2, _) => Message::Mld(mld::Message::parse(bytes)?),
            _ => Message::Other { kind, code, rest: array_at(h, field::REST) },
        };
        Ok((message, message.header_len()))
    }

    /// Length of the header in bytes.
    pub const fn header_len(&self) -> usize {
        match self {
            Message::Nd(message) => message.header_len(),
            Message::Mld(message) => message.header_len(),
            _ => HEADER_LEN,
        }
    }

    /// The type field.
    pub const fn kind(&self) -> u8 {
        match self {
            Message::EchoRequest { .. } => kind::ECHO_REQUEST,
            Message::EchoReply { .. } => kind::ECHO_REPLY,
            Message::DestinationUnreachable { .. } => kind::DESTINATION_UNREACHABLE,
            Message::PacketTooBig { .. } => kind::PACKET_TOO_BIG,
            Message::TimeExceeded { .. } => kind::TIME_EXCEEDED,
            Message::ParameterProblem { .. } => kind::PARAMETER_PROBLEM,
            Message::Nd(message) => message.kind(),
            Message::Mld(message) => message.kind(),
            Message::Other { kind, .. } => *kind,
        }
    }

    /// The code field.
    pub const fn code(&self) -> u8 {
        match self {
            Message::DestinationUnreachable { code }
            | Message::TimeExceeded { code }
            | Message::ParameterProblem { code, .. }
            | Message::Other { code, .. } => *code,
            _ => 0,
        }
    }

    /// It reports an error about a packet, which is its payload.
    ///
    /// RFC 4443 §2.1: "Error messages are identified as such by a zero in the
    /// high-order bit of their message Type field values."
    pub const fn is_error(&self) -> bool {
        self.kind() < 128
    }

    /// Writes the header with a zero checksum.
    ///
    /// # Panics
    /// When `bytes` is shorter than [`Message::header_len`].
    pub fn emit_header(&self, bytes: &mut [u8]) {
        let bytes = &mut bytes[..self.header_len()];
        bytes.fill(0);
        bytes[field::TYPE] = self.kind();
        bytes[field::CODE] = self.code();
        match self {
            Message::EchoRequest { identifier, sequence } | Message::EchoReply { identifier, sequence } => {
                put_u16(bytes, field::IDENTIFIER, *identifier);
                put_u16(bytes, field::SEQUENCE, *sequence);
            }
            Message::DestinationUnreachable { .. } | Message::TimeExceeded { .. } => {}
            Message::PacketTooBig { mtu } => put_u32(bytes, field::REST, *mtu),
            Message::ParameterProblem { pointer, .. } => put_u32(bytes, field::REST, *pointer),
            Message::Nd(message) => message.emit_body(bytes),
            Message::Mld(message) => message.emit_body(bytes),
            Message::Other { rest, .. } => put(bytes, field::REST, rest),
        }
    }

    /// Writes the header to the start of `bytes`, whose rest is the payload
    /// already in place, and the checksum over all of it and the addresses.
    ///
    /// # Panics
    /// When `bytes` is shorter than [`Message::header_len`].
    pub fn emit(&self, src: Ipv6Addr, dst: Ipv6Addr, bytes: &mut [u8]) {
        self.emit_header(bytes);
        put_u16(bytes, field::CHECKSUM, sum(src, dst, bytes).finish());
    }
}

/// Whether the checksum over a whole message and its packet's addresses matches.
pub fn verify_checksum(src: Ipv6Addr, dst: Ipv6Addr, message: &[u8]) -> bool {
    message.len() >= HEADER_LEN && sum(src, dst, message).finish() == 0
}

/// RFC 4443 §2.3: "the entire ICMPv6 message, starting with the ICMPv6 message
/// type field, and prepended with a 'pseudo-header' of IPv6 header fields".
fn sum(src: Ipv6Addr, dst: Ipv6Addr, message: &[u8]) -> crate::checksum::Sum {
    pseudo_v6(src, dst, Protocol::ICMPV6.0, message.len() as u32).add_bytes(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_too_big() {
        let message = Message::PacketTooBig { mtu: 1280 };
        let mut out = [0xa5; HEADER_LEN];
        message.emit_header(&mut out);
        assert_eq!(out, [2, 0, 0, 0, 0, 0, 5, 0]);
        assert_eq!(Message::parse(&out), Ok((message, HEADER_LEN)));
        assert!(message.is_error());
        assert!(!Message::EchoRequest { identifier: 1, sequence: 2 }.is_error());
        assert_eq!(Message::parse(&out[..7]), Err(Error::Truncated));
    }

    #[test]
    fn the_checksum_covers_the_addresses() {
        let (src, dst) = (Ipv6Addr::LOCALHOST, Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 9));
        let mut out = *b"........hello";
        Message::EchoRequest { identifier: 78, sequence: 1 }.emit(src, dst, &mut out);
        assert!(verify_checksum(src, dst, &out));
        assert!(!verify_checksum(src, src, &out));
        assert!(!verify_checksum(src, dst, &out[..12]));
        assert_eq!(&out[8..], b"hello");
    }

    #[test]
    fn a_neighbor_message_with_a_code_is_none() {
        let mut bytes = [0; 24];
        bytes[0] = kind::NEIGHBOR_SOLICITATION;
        assert!(matches!(Message::parse(&bytes), Ok((Message::Nd(_), 24))));
        bytes[1] = 1;
        assert!(matches!(Message::parse(&bytes), Ok((Message::Other { code: 1, .. }, 8))));
    }
}
