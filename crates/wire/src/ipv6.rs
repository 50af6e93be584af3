//! IPv6 (RFC 8200): the fixed header. [`extension`] has the headers behind it.
//!
//! ```text
//! 0                            4             6             7           8     24    40
//! | version, class, flow label | payload len | next header | hop limit | src | dst |
//! ```

pub mod chain;
pub mod extension;

pub use chain::Chain;
pub use extension::{Extension, Extensions, Fragment};

use core::net::Ipv6Addr;

use crate::bytes::{array_at, put, put_u16, put_u32, u16_at, u32_at};
use crate::ipv4::Ecn;
use crate::{Error, Protocol};

mod field {
    pub const VERSION_CLASS_FLOW: usize = 0;
    pub const PAYLOAD_LEN: usize = 4;
    pub const NEXT_HEADER: usize = 6;
    pub const HOP_LIMIT: usize = 7;
    pub const SRC: usize = 8;
    pub const DST: usize = 24;
}

/// Length of the fixed header in bytes.
pub const HEADER_LEN: usize = 40;
/// RFC 8200 §5: "IPv6 requires that every link in the Internet have an MTU of 1280
/// octets or greater". Bytes.
pub const MTU_MIN: usize = 1280;

const FLOW_LABEL_MASK: u32 = 0xf_ffff;

/// An IPv6 header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Header {
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// Flow label, 20 bits (RFC 6437). Larger values are cut.
    pub flow_label: u32,
    /// Everything behind this header, in bytes. Zero in a jumbogram.
    pub payload_len: u16,
    /// What follows: an extension header or the payload.
    pub next_header: Protocol,
    /// Hops left.
    pub hop_limit: u8,
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
}

impl Default for Header {
    /// No payload, unspecified addresses and a hop limit of 64.
    fn default() -> Header {
        Header {
            traffic_class: 0,
            flow_label: 0,
            payload_len: 0,
            next_header: Protocol::NO_NEXT_HEADER,
            hop_limit: 64,
            src: Ipv6Addr::UNSPECIFIED,
            dst: Ipv6Addr::UNSPECIFIED,
        }
    }
}

impl Header {
    /// Reads the fixed header; returns it and its length (40 bytes). It needs no
    /// payload: compare with the packet by [`Header::check_payload_len`].
    ///
    /// # Errors
    /// [`Error::Truncated`], [`Error::BadVersion`].
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<(Header, usize), Error> {
        let h = bytes.first_chunk::<HEADER_LEN>().ok_or(Error::Truncated)?;
        let first = u32_at(h, field::VERSION_CLASS_FLOW);
        if first >> 28 != 6 {
            return Err(Error::BadVersion);
        }
        let header = Header {
            traffic_class: (first >> 20) as u8,
            flow_label: first & FLOW_LABEL_MASK,
            payload_len: u16_at(h, field::PAYLOAD_LEN),
            next_header: Protocol(h[field::NEXT_HEADER]),
            hop_limit: h[field::HOP_LIMIT],
            src: array_at::<16, HEADER_LEN>(h, field::SRC).into(),
            dst: array_at::<16, HEADER_LEN>(h, field::DST).into(),
        };
        Ok((header, HEADER_LEN))
    }

    /// Whether the packet's bytes hold what the header promises; returns the
    /// packet's length with this header, behind which a frame may be padded.
    ///
    /// # Errors
    /// [`Error::Truncated`] when header and payload exceed `packet_len` (bytes).
    #[inline]
    pub const fn check_payload_len(&self, packet_len: usize) -> Result<usize, Error> {
        let len = HEADER_LEN + self.payload_len as usize;
        if len > packet_len {
            return Err(Error::Truncated);
        }
        Ok(len)
    }

    /// Length of this header in bytes: 40.
    #[inline]
    pub const fn header_len(&self) -> usize {
        HEADER_LEN
    }

    /// Differentiated services code point (RFC 2474), 0 to 63.
    #[inline]
    pub const fn dscp(&self) -> u8 {
        self.traffic_class >> 2
    }

    /// Explicit congestion notification.
    #[inline]
    pub const fn ecn(&self) -> Ecn {
        Ecn::from_bits(self.traffic_class)
    }

    /// Writes the header.
    ///
    /// # Panics
    /// When `bytes` is shorter than [`HEADER_LEN`].
    #[inline]
    pub fn emit(&self, bytes: &mut [u8]) {
        let bytes = &mut bytes[..HEADER_LEN];
        let first = 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label & FLOW_LABEL_MASK;
        put_u32(bytes, field::VERSION_CLASS_FLOW, first);
        put_u16(bytes, field::PAYLOAD_LEN, self.payload_len);
        bytes[field::NEXT_HEADER] = self.next_header.0;
        bytes[field::HOP_LIMIT] = self.hop_limit;
        put(bytes, field::SRC, &self.src.octets());
        put(bytes, field::DST, &self.dst.octets());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_of_linux() {
        // From nd-mld.pcap: the router advertisement.
        let bytes: [u8; HEADER_LEN] = [
            0x60, 0x05, 0xae, 0x3d, 0x00, 0x58, 0x3a, 0xff, 0xfe, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xff, 0xfe,
            0x00, 0x00, 0x01, 0xff, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01,
        ];
        let header = Header {
            traffic_class: 0,
            flow_label: 0x5ae3d,
            payload_len: 88,
            next_header: Protocol::ICMPV6,
            hop_limit: 255,
            src: "fe80::ff:fe00:1".parse().expect("an address"),
            dst: "ff02::1".parse().expect("an address"),
        };
        assert_eq!(Header::parse(&bytes), Ok((header, HEADER_LEN)));
        let mut out = [0xa5; HEADER_LEN];
        header.emit(&mut out);
        assert_eq!(out, bytes);
        assert_eq!(header.check_payload_len(128), Ok(128));
        assert_eq!(header.check_payload_len(127), Err(Error::Truncated));
        assert_eq!(Header::parse(&bytes[..39]), Err(Error::Truncated));
        let mut bytes = bytes;
        bytes[0] = 0x45;
        assert_eq!(Header::parse(&bytes), Err(Error::BadVersion));
    }

    #[test]
    fn class_and_label_share_a_word() {
        let header = Header { traffic_class: 0xb9, flow_label: 0xfedcb, ..Header::default() };
        let mut out = [0; HEADER_LEN];
        header.emit(&mut out);
        assert_eq!(out[..4], [0x6b, 0x9f, 0xed, 0xcb]);
        assert_eq!((header.dscp(), header.ecn()), (46, Ecn::Capable1));
        assert_eq!(Header::parse(&out), Ok((header, HEADER_LEN)));
    }
}
