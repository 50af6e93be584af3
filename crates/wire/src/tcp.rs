//! TCP (RFC 9293): the header. Its payload stays outside.
//!
//! ```text
//! 0          2          4     8     12                  14       16         18
//! | src port | dst port | seq | ack | data offset,flags | window | checksum | urgent | options
//! ```
//!
//! Parts: [`Seq`] is sequence arithmetic, [`Options`] the options in Linux's
//! layout, [`mptcp`] the subtypes of
//! option 30.

pub mod mptcp;
mod options;
mod seq;

pub use options::{FastOpen, OPTIONS_LEN_MAX, Options, Others, SACK_BLOCKS_MAX, Timestamps, UserTimeout, kind};
pub use seq::Seq;

use crate::Error;
use crate::bytes::{put_u16, put_u32, u16_at, u32_at};

mod field {
    pub const SRC_PORT: usize = 0;
    pub const DST_PORT: usize = 2;
    pub const SEQ: usize = 4;
    pub const ACK: usize = 8;
    pub const OFFSET_FLAGS: usize = 12;
    pub const WINDOW: usize = 14;
    pub const CHECKSUM: usize = 16;
    pub const URGENT: usize = 18;
}

/// Length of a header without options, in bytes.
pub const HEADER_LEN: usize = 20;
/// Length of the longest header, in bytes.
pub const HEADER_LEN_MAX: usize = 60;
/// Where the checksum field is, in bytes from the start of the header.
pub const CHECKSUM_OFFSET: usize = field::CHECKSUM;

bitflags::bitflags! {
    /// The control bits.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct Flags: u16 {
        /// The sender has nothing more to send.
        const FIN = 0x001;
        /// Sequence numbers are synchronised.
        const SYN = 0x002;
        /// The connection is reset.
        const RST = 0x004;
        /// Hand it to the program now.
        const PSH = 0x008;
        /// The acknowledgment number counts.
        const ACK = 0x010;
        /// The urgent pointer counts.
        const URG = 0x020;
        /// ECN echo (RFC 3168).
        const ECE = 0x040;
        /// Congestion window reduced (RFC 3168).
        const CWR = 0x080;
        /// Accurate ECN (RFC 9768), once NS.
        const AE = 0x100;
    }
}

/// A TCP header.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Segment {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Number of the first byte, or of the SYN.
    pub seq: Seq,
    /// The next number expected, with [`Flags::ACK`].
    pub ack: Seq,
    /// Control bits.
    pub flags: Flags,
    /// The receive window as it is on the wire, not scaled.
    pub window: u16,
    /// Urgent pointer, with [`Flags::URG`].
    pub urgent: u16,
    /// Options.
    pub options: Options,
}

impl Segment {
    /// Reads a header; returns it and its length in bytes (the data offset).
    ///
    /// Options are read as Linux reads them: see [`Options::parse`]. The reserved
    /// bits are ignored. The checksum is not looked at.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::BadHeaderLength`] when the data offset is
    /// below 5.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<(Segment, usize), Error> {
        let h = bytes.first_chunk::<HEADER_LEN>().ok_or(Error::Truncated)?;
        let offset_flags = u16_at(h, field::OFFSET_FLAGS);
        let header_len = usize::from(offset_flags >> 12) * 4;
        if header_len < HEADER_LEN {
            return Err(Error::BadHeaderLength);
        }
        let options = bytes.get(HEADER_LEN..header_len).ok_or(Error::Truncated)?;
        let segment = Segment {
            src_port: u16_at(h, field::SRC_PORT),
            dst_port: u16_at(h, field::DST_PORT),
            seq: Seq(u32_at(h, field::SEQ)),
            ack: Seq(u32_at(h, field::ACK)),
            flags: Flags::from_bits_truncate(offset_flags),
            window: u16_at(h, field::WINDOW),
            urgent: u16_at(h, field::URGENT),
            options: Options::parse(options),
        };
        Ok((segment, header_len))
    }

    /// Length of this header in bytes: 20 to 60, a multiple of four.
    #[inline]
    pub fn header_len(&self) -> usize {
        HEADER_LEN + self.options.wire_len()
    }

    /// Sequence space taken by this segment with a payload of `payload_len` bytes:
    /// SYN and FIN count one each.
    #[inline]
    pub fn sequence_len(&self, payload_len: u32) -> u32 {
        let controls = (self.flags & (Flags::SYN | Flags::FIN)).bits().count_ones();
        payload_len.wrapping_add(controls)
    }

    /// Writes the header, its checksum field zero.
    ///
    /// # Panics
    /// When `bytes` is shorter than [`Segment::header_len`].
    #[inline]
    pub fn emit(&self, bytes: &mut [u8]) {
        let (bytes, options) = bytes.split_at_mut(HEADER_LEN);
        let header_len = HEADER_LEN + self.options.emit(options);
        put_u16(bytes, field::SRC_PORT, self.src_port);
        put_u16(bytes, field::DST_PORT, self.dst_port);
        put_u32(bytes, field::SEQ, self.seq.0);
        put_u32(bytes, field::ACK, self.ack.0);
        // The data offset counts words in the upper four bits.
        let offset = (header_len as u16 / 4) << 12;
        put_u16(bytes, field::OFFSET_FLAGS, offset | self.flags.bits() & 0x1ff);
        put_u16(bytes, field::WINDOW, self.window);
        put_u16(bytes, field::CHECKSUM, 0);
        put_u16(bytes, field::URGENT, self.urgent);
    }
}

/// What an ICMP error tells of a segment: RFC 792: "Internet Header + 64 bits of
/// Original Data Datagram".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Quoted {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Sequence number, by which the segment can be told from a forged one.
    pub seq: Seq,
}

impl Quoted {
    /// Reads the first 8 bytes of a header.
    ///
    /// # Errors
    /// [`Error::Truncated`].
    pub fn parse(bytes: &[u8]) -> Result<Quoted, Error> {
        let h = bytes.first_chunk::<8>().ok_or(Error::Truncated)?;
        Ok(Quoted { src_port: u16_at(h, field::SRC_PORT), dst_port: u16_at(h, field::DST_PORT), seq: Seq(u32_at(h, field::SEQ)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_of_linux_with_sack() {
        // From tcp-sack.pcap, its checksum field zeroed.
        let bytes: [u8; 52] = [
            0x13, 0x88, 0xa1, 0xf8, 0x02, 0xea, 0x9b, 0xbc, 0xe3, 0x57, 0x83, 0x45, 0xd0, 0x10, 0x00, 0x40, 0x00, 0x00, 0x00, 0x00, 0x01,
            0x01, 0x08, 0x0a, 0xe6, 0x09, 0x97, 0x5b, 0xf1, 0x16, 0xb1, 0x00, 0x01, 0x01, 0x05, 0x12, 0xe3, 0x57, 0x8e, 0xb5, 0xe3, 0x57,
            0x90, 0x9d, 0xe3, 0x57, 0x85, 0x2d, 0xe3, 0x57, 0x8c, 0xcd,
        ];
        let segment = Segment {
            src_port: 5000,
            dst_port: 41464,
            seq: Seq(0x02ea_9bbc),
            ack: Seq(0xe357_8345),
            flags: Flags::ACK,
            window: 64,
            urgent: 0,
            options: Options {
                timestamps: Some(Timestamps { value: 0xe609_975b, echo: 0xf116_b100 }),
                sack: [(Seq(0xe357_8eb5), Seq(0xe357_909d)), (Seq(0xe357_852d), Seq(0xe357_8ccd))].into_iter().collect(),
                ..Options::default()
            },
        };
        assert_eq!(Segment::parse(&bytes), Ok((segment.clone(), 52)));
        assert_eq!(segment.header_len(), 52);
        let mut out = [0xa5; 52];
        segment.emit(&mut out);
        assert_eq!(out, bytes);
        let quoted = Quoted { src_port: 5000, dst_port: 41464, seq: segment.seq };
        assert_eq!(Quoted::parse(&bytes[..8]), Ok(quoted));
        assert_eq!(Quoted::parse(&bytes[..7]), Err(Error::Truncated));
        for len in [0, 19, 20, 51] {
            assert_eq!(Segment::parse(&bytes[..len]), Err(Error::Truncated));
        }
        let mut bytes = bytes;
        bytes[12] = 0x40;
        assert_eq!(Segment::parse(&bytes), Err(Error::BadHeaderLength));
    }

    #[test]
    fn flags_are_where_they_belong() {
        let mut out = [0; HEADER_LEN];
        let names = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR", "AE"];
        for (bit, name) in names.into_iter().enumerate() {
            let flags = Flags::from_name(name).expect("a flag");
            Segment { flags, ..Segment::default() }.emit(&mut out);
            assert_eq!(u16::from_be_bytes([out[12], out[13]]), 0x5000 | 1 << bit, "{name}");
            assert_eq!(Segment::parse(&out).map(|(segment, _)| segment.flags), Ok(flags));
        }
        // The reserved bits are ignored.
        out[12] |= 0x0e;
        assert_eq!(Segment::parse(&out).map(|(segment, _)| segment.flags), Ok(Flags::AE));
    }

    #[test]
    fn syn_and_fin_take_sequence_space() {
        let segment = |flags| Segment { flags, ..Segment::default() };
        assert_eq!(segment(Flags::ACK).sequence_len(5), 5);
        assert_eq!(segment(Flags::SYN | Flags::ACK).sequence_len(0), 1);
        assert_eq!(segment(Flags::FIN).sequence_len(7), 8);
    }

    #[test]
    fn a_segment_is_cheap_to_move() {
        assert!(size_of::<Segment>() <= 200, "{} bytes", size_of::<Segment>());
    }
}
