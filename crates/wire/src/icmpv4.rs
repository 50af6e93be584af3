//! ICMP for IPv4 (RFC 792, RFC 1191).
//!
//! ```text
//! 0      1      2          4                8
//! | type | code | checksum | per-type field | payload
//! ```
//!
//! A [`Message`] is the header; echo data and the quoted packet of an error stay
//! outside, behind [`Message::header_len`]. Bits that a type leaves unused are
//! ignored and sent as zero, so an RFC 4884 length is not kept.

use core::net::Ipv4Addr;

use crate::Error;
use crate::bytes::{array_at, put, put_u16, put_u32, u16_at, u32_at};
use crate::checksum;

mod field {
    pub const TYPE: usize = 0;
    pub const CODE: usize = 1;
    pub const CHECKSUM: usize = 2;
    pub const REST: usize = 4;
    pub const IDENTIFIER: usize = 4;
    pub const POINTER: usize = 4;
    pub const SEQUENCE: usize = 6;
    pub const MTU: usize = 6;
    pub const ORIGINATE: usize = 8;
    pub const RECEIVE: usize = 12;
    pub const TRANSMIT: usize = 16;
}

/// Length of the header in bytes, of all but timestamp messages.
pub const HEADER_LEN: usize = 8;
/// Length of a timestamp message, in bytes.
pub const TIMESTAMP_LEN: usize = 20;
/// Where the checksum field is, in bytes from the start of the message.
pub const CHECKSUM_OFFSET: usize = field::CHECKSUM;

/// Message types (IANA "ICMP Type Numbers").
pub mod kind {
    /// Answer to an echo request.
    pub const ECHO_REPLY: u8 = 0;
    /// A packet could not be delivered.
    pub const DESTINATION_UNREACHABLE: u8 = 3;
    /// There is a better first hop.
    pub const REDIRECT: u8 = 5;
    /// Ping.
    pub const ECHO_REQUEST: u8 = 8;
    /// The hop limit or reassembly time ran out.
    pub const TIME_EXCEEDED: u8 = 11;
    /// A header field is wrong.
    pub const PARAMETER_PROBLEM: u8 = 12;
    /// What time is it?
    pub const TIMESTAMP_REQUEST: u8 = 13;
    /// The time.
    pub const TIMESTAMP_REPLY: u8 = 14;
}

/// Codes of destination unreachable (RFC 792, RFC 1122 §3.2.2.1, RFC 1812 §5.2.7.1).
pub mod unreachable {
    /// No route to the network.
    pub const NETWORK: u8 = 0;
    /// The host does not answer.
    pub const HOST: u8 = 1;
    /// The host does not speak the protocol.
    pub const PROTOCOL: u8 = 2;
    /// Nobody listens on the port.
    pub const PORT: u8 = 3;
    /// Too large, and "don't fragment" is set; carries the next hop's MTU.
    pub const FRAGMENTATION_NEEDED: u8 = 4;
    /// The source route cannot be followed.
    pub const SOURCE_ROUTE_FAILED: u8 = 5;
    /// Destination network unknown.
    pub const NETWORK_UNKNOWN: u8 = 6;
    /// Destination host unknown.
    pub const HOST_UNKNOWN: u8 = 7;
    /// Source host isolated.
    pub const HOST_ISOLATED: u8 = 8;
    /// Network administratively prohibited.
    pub const NETWORK_PROHIBITED: u8 = 9;
    /// Host administratively prohibited.
    pub const HOST_PROHIBITED: u8 = 10;
    /// Network unreachable for the type of service.
    pub const NETWORK_TOS: u8 = 11;
    /// Host unreachable for the type of service.
    pub const HOST_TOS: u8 = 12;
    /// Filtered.
    pub const ADMINISTRATIVELY_PROHIBITED: u8 = 13;
}

/// The contents of timestamp messages; times in milliseconds since midnight UT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Timestamps {
    /// Matches replies to requests.
    pub identifier: u16,
    /// Matches replies to requests.
    pub sequence: u16,
    /// When the requester sent it.
    pub originate: u32,
    /// When the replier got it.
    pub receive: u32,
    /// When the replier sent it.
    pub transmit: u32,
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
        /// With code 4, the next hop's MTU in bytes (RFC 1191 §4), zero if unknown.
        mtu: u16,
    },
    /// A packet's time ran out; its beginning is the payload.
    TimeExceeded {
        /// 0: hops, 1: reassembly.
        code: u8,
    },
    /// A packet's header is wrong; its beginning is the payload.
    ParameterProblem {
        /// 0: see the pointer, 1: an option is missing, 2: bad length.
        code: u8,
        /// The wrong byte, counted from the start of the quoted packet.
        pointer: u8,
    },
    /// Use another gateway; the beginning of the packet is the payload.
    Redirect {
        /// 0: for the network, 1: for the host, 2, 3: and type of service.
        code: u8,
        /// The better gateway.
        gateway: Ipv4Addr,
    },
    /// What time is it?
    TimestampRequest(Timestamps),
    /// The time.
    TimestampReply(Timestamps),
    /// Any other message. With the type of one of the above and code 0 it is read
    /// back as that.
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
    /// Reads a header; returns it and its length in bytes. The checksum is
    /// [`verify_checksum`]'s.
    ///
    /// # Errors
    /// [`Error::Truncated`].
    pub fn parse(bytes: &[u8]) -> Result<(Message, usize), Error> {
        let h = bytes.first_chunk::<HEADER_LEN>().ok_or(Error::Truncated)?;
        let (kind, code) = (h[field::TYPE], h[field::CODE]);
        let identifier = u16_at(h, field::IDENTIFIER);
        let sequence = u16_at(h, field::SEQUENCE);
        let message = match (kind, code) {
            (kind::ECHO_REQUEST, 0) => Message::EchoRequest { identifier, sequence },
            (kind::ECHO_REPLY, 0) => Message::EchoReply { identifier, sequence },
            (kind::DESTINATION_UNREACHABLE, code) => Message::DestinationUnreachable { code, mtu: u16_at(h, field::MTU) },
            (kind::TIME_EXCEEDED, code) => Message::TimeExceeded { code },
            (kind::PARAMETER_PROBLEM, code) => Message::ParameterProblem { code, pointer: h[field::POINTER] },
            (kind::REDIRECT, code) => {
                let gateway = u32_at(h, field::REST);
                Message::Redirect { code, gateway: Ipv4Addr::from_bits(gateway) }
            }
            (kind::TIMESTAMP_REQUEST, 0) => Message::TimestampRequest(Timestamps::parse(bytes)?),
            (kind::TIMESTAMP_REPLY, 0) => Message::TimestampReply(Timestamps::parse(bytes)?),
            _ => Message::Other { kind, code, rest: array_at(h, field::REST) },
        };
        Ok((message, message.header_len()))
    }

    /// Length of the header in bytes: 8, of timestamps 20.
    pub const fn header_len(&self) -> usize {
        match self {
            Message::TimestampRequest(_) | Message::TimestampReply(_) => TIMESTAMP_LEN,
            _ => HEADER_LEN,
        }
    }

    /// The type field.
    pub const fn kind(&self) -> u8 {
        match self {
            Message::EchoRequest { .. } => kind::ECHO_REQUEST,
            Message::EchoReply { .. } => kind::ECHO_REPLY,
            Message::DestinationUnreachable { .. } => kind::DESTINATION_UNREACHABLE,
            Message::TimeExceeded { .. } => kind::TIME_EXCEEDED,
            Message::ParameterProblem { .. } => kind::PARAMETER_PROBLEM,
            Message::Redirect { .. } => kind::REDIRECT,
            Message::TimestampRequest(_) => kind::TIMESTAMP_REQUEST,
            Message::TimestampReply(_) => kind::TIMESTAMP_REPLY,
            Message::Other { kind, .. } => *kind,
        }
    }

    /// The code field.
    pub const fn code(&self) -> u8 {
        match self {
            Message::DestinationUnreachable { code, .. }
            | Message::TimeExceeded { code }
            | Message::ParameterProblem { code, .. }
            | Message::Redirect { code, .. }
            | Message::Other { code, .. } => *code,
            _ => 0,
        }
    }

    /// It reports an error about a packet, which is its payload.
    ///
    /// RFC 1122 §3.2.2: "An ICMP error message MUST NOT be sent as the result of
    /// receiving: an ICMP error message".
    pub const fn is_error(&self) -> bool {
        // Source quench (4) is an error too, and obsolete (RFC 6633).
        matches!(self.kind(), 3 | 4 | 5 | 11 | 12)
    }

    /// Writes the header with a zero checksum.
    ///
    /// # Panics
    /// When `bytes` is shorter than [`Message::header_len`].
    pub fn emit_header(&self, bytes: &mut [u8]) {
        let bytes = &mut bytes[..self.header_len()];
        bytes[field::TYPE] = self.kind();
        bytes[field::CODE] = self.code();
        put_u16(bytes, field::CHECKSUM, 0);
        put_u32(bytes, field::REST, 0);
        match *self {
            Message::EchoRequest { identifier, sequence } | Message::EchoReply { identifier, sequence } => {
                put_u16(bytes, field::IDENTIFIER, identifier);
                put_u16(bytes, field::SEQUENCE, sequence);
            }
            Message::DestinationUnreachable { mtu, .. } => put_u16(bytes, field::MTU, mtu),
            Message::TimeExceeded { .. } => {}
            Message::ParameterProblem { pointer, .. } => bytes[field::POINTER] = pointer,
            Message::Redirect { gateway, .. } => put(bytes, field::REST, &gateway.octets()),
            Message::TimestampRequest(times) | Message::TimestampReply(times) => times.emit(bytes),
            Message::Other { rest, .. } => put(bytes, field::REST, &rest),
        }
    }

    /// Writes the header to the start of `bytes`, whose rest is the payload
    /// already in place, and the checksum over all of it.
    ///
    /// # Panics
    /// When `bytes` is shorter than [`Message::header_len`].
    pub fn emit(&self, bytes: &mut [u8]) {
        self.emit_header(bytes);
        // RFC 792: "the 16-bit ones's complement of the one's complement sum of the
        // ICMP message starting with the ICMP Type"
        let checksum = checksum::of(bytes);
        put_u16(bytes, field::CHECKSUM, checksum);
    }
}

/// Whether the checksum over a whole message matches.
pub fn verify_checksum(message: &[u8]) -> bool {
    message.len() >= HEADER_LEN && checksum::of(message) == 0
}

impl Timestamps {
    fn parse(bytes: &[u8]) -> Result<Timestamps, Error> {
        let m = bytes.first_chunk::<TIMESTAMP_LEN>().ok_or(Error::Truncated)?;
        Ok(Timestamps {
            identifier: u16_at(m, field::IDENTIFIER),
            sequence: u16_at(m, field::SEQUENCE),
            originate: u32_at(m, field::ORIGINATE),
            receive: u32_at(m, field::RECEIVE),
            transmit: u32_at(m, field::TRANSMIT),
        })
    }

    fn emit(&self, bytes: &mut [u8]) {
        put_u16(bytes, field::IDENTIFIER, self.identifier);
        put_u16(bytes, field::SEQUENCE, self.sequence);
        put_u32(bytes, field::ORIGINATE, self.originate);
        put_u32(bytes, field::RECEIVE, self.receive);
        put_u32(bytes, field::TRANSMIT, self.transmit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragmentation_needed() {
        // The header from arp-icmpv4.pcap, with an empty quotation.
        let mut out = [0xa5; HEADER_LEN];
        let message = Message::DestinationUnreachable { code: unreachable::FRAGMENTATION_NEEDED, mtu: 1280 };
        message.emit(&mut out);
        assert_eq!(out, [3, 4, 0xf7, 0xfb, 0, 0, 5, 0]);
        assert_eq!(Message::parse(&out), Ok((message, HEADER_LEN)));
        assert!(verify_checksum(&out) && message.is_error());
        assert_eq!(Message::parse(&out[..7]), Err(Error::Truncated));
    }

    #[test]
    fn a_timestamp_reply_of_linux() {
        let bytes: [u8; TIMESTAMP_LEN] =
            [0x0e, 0x00, 0x19, 0xaf, 0x00, 0x4d, 0x00, 0x03, 0x00, 0x00, 0x03, 0xe8, 0x05, 0x0a, 0x65, 0x02, 0x05, 0x0a, 0x65, 0x02];
        let message = Message::TimestampReply(Timestamps {
            identifier: 77,
            sequence: 3,
            originate: 1000,
            receive: 0x050a_6502,
            transmit: 0x050a_6502,
        });
        assert!(verify_checksum(&bytes) && !message.is_error());
        assert_eq!(Message::parse(&bytes), Ok((message, TIMESTAMP_LEN)));
        let mut out = [0xa5; TIMESTAMP_LEN];
        message.emit(&mut out);
        assert_eq!(out, bytes);
        assert_eq!(Message::parse(&bytes[..19]), Err(Error::Truncated));
    }

    #[test]
    fn errors_are_those_of_rfc_1122() {
        let errors: Vec<u8> = (0..=u8::MAX).filter(|kind| Message::Other { kind: *kind, code: 0, rest: [0; 4] }.is_error()).collect();
        assert_eq!(errors, [3, 4, 5, 11, 12]);
    }
}
