//! IPv4 (RFC 791), with options.
//!
//! ```text
//! 0          1     2           4    6                 8     9          10         12    16    20
//! | ver, ihl | tos | total len | id | flags, fragment | ttl | protocol | checksum | src | dst | options
//! ```
//!
//! The reserved flag (bit 0) is ignored in parsing, as Linux does, and sent as zero.

mod prepared;

pub use prepared::Prepared;

use core::net::Ipv4Addr;

use arrayvec::ArrayVec;

use crate::bytes::{array_at, put, put_u16, u16_at};
use crate::checksum;
use crate::{Error, Protocol};

mod field {
    pub const VERSION_IHL: usize = 0;
    pub const TOS: usize = 1;
    pub const TOTAL_LEN: usize = 2;
    pub const IDENTIFICATION: usize = 4;
    pub const FRAGMENT: usize = 6;
    pub const TTL: usize = 8;
    pub const PROTOCOL: usize = 9;
    pub const CHECKSUM: usize = 10;
    pub const SRC: usize = 12;
    pub const DST: usize = 16;
}

/// Length of a header without options, in bytes.
pub const HEADER_LEN: usize = 20;
/// Length of the longest header, in bytes.
pub const HEADER_LEN_MAX: usize = 60;
/// Room for options, in bytes.
pub const OPTIONS_LEN_MAX: usize = HEADER_LEN_MAX - HEADER_LEN;
/// Every network carries datagrams of this size (RFC 791 §3.2), in bytes.
pub const MTU_MIN: usize = 68;
/// Where the checksum field is, in bytes from the start of the header.
pub const CHECKSUM_OFFSET: usize = field::CHECKSUM;

const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const FRAGMENT_OFFSET_MASK: u16 = 0x1fff;

/// Explicit congestion notification (RFC 3168 §5), the lower two bits of `tos`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Ecn {
    /// 00: the sender does not react to marks.
    #[default]
    NotCapable,
    /// 01: capable, and in RFC 9331 low latency.
    Capable1,
    /// 10: capable.
    Capable0,
    /// 11: a router has marked it.
    CongestionExperienced,
}

impl Ecn {
    /// From the lower two bits of a tos or traffic class.
    #[inline]
    pub const fn from_bits(bits: u8) -> Ecn {
        match bits & 3 {
            0 => Ecn::NotCapable,
            1 => Ecn::Capable1,
            2 => Ecn::Capable0,
            _ => Ecn::CongestionExperienced,
        }
    }

    /// The two bits.
    #[inline]
    pub const fn bits(self) -> u8 {
        self as u8
    }
}

/// An IPv4 header.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Header {
    /// DSCP and ECN.
    pub tos: u8,
    /// Header and payload, in bytes.
    pub total_len: u16,
    /// Groups fragments.
    pub identification: u16,
    /// Routers must not fragment it.
    pub dont_fragment: bool,
    /// It is not the last fragment.
    pub more_fragments: bool,
    /// Where the payload belongs in the datagram, in bytes: a multiple of 8 up to
    /// 65528. Other values are rounded down when emitted.
    pub fragment_offset: u16,
    /// Hops left.
    pub ttl: u8,
    /// What the payload is.
    pub protocol: Protocol,
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// Options, as bytes.
    pub options: Options,
}

impl Default for Header {
    /// A header of 20 bytes, unspecified addresses and a TTL of 64.
    fn default() -> Header {
        Header {
            tos: 0,
            total_len: HEADER_LEN as u16,
            identification: 0,
            dont_fragment: false,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 64,
            protocol: Protocol(0),
            src: Ipv4Addr::UNSPECIFIED,
            dst: Ipv4Addr::UNSPECIFIED,
            options: Options::default(),
        }
    }
}

impl Header {
    /// Reads a header; returns it and its length in bytes. It needs only the
    /// header's bytes (an ICMP error quotes no more): compare with the packet by
    /// [`Header::check_total_len`]. The checksum is [`verify_checksum`]'s.
    ///
    /// # Errors
    /// [`Error::Truncated`], [`Error::BadVersion`], [`Error::BadHeaderLength`],
    /// [`Error::BadTotalLength`] when the total length is below the header's.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<(Header, usize), Error> {
        let h = bytes.first_chunk::<HEADER_LEN>().ok_or(Error::Truncated)?;
        let header_len = checked_header_len(h[field::VERSION_IHL])?;
        let options = match header_len {
            HEADER_LEN => Options::default(),
            _ => Options::from_wire(bytes.get(HEADER_LEN..header_len).ok_or(Error::Truncated)?),
        };
        let total_len = u16_at(h, field::TOTAL_LEN);
        if usize::from(total_len) < header_len {
            return Err(Error::BadTotalLength);
        }
        let fragment = u16_at(h, field::FRAGMENT);
        let header = Header {
            tos: h[field::TOS],
            total_len,
            identification: u16_at(h, field::IDENTIFICATION),
            dont_fragment: fragment & DONT_FRAGMENT != 0,
            more_fragments: fragment & MORE_FRAGMENTS != 0,
            fragment_offset: (fragment & FRAGMENT_OFFSET_MASK) << 3,
            ttl: h[field::TTL],
            protocol: Protocol(h[field::PROTOCOL]),
            src: array_at::<4, HEADER_LEN>(h, field::SRC).into(),
            dst: array_at::<4, HEADER_LEN>(h, field::DST).into(),
            options,
        };
        Ok((header, header_len))
    }

    /// Whether the packet's bytes hold what the header promises; returns the
    /// packet's length, behind which a frame may be padded.
    ///
    /// # Errors
    /// [`Error::Truncated`] when `total_len` is above `packet_len` (bytes).
    #[inline]
    pub const fn check_total_len(&self, packet_len: usize) -> Result<usize, Error> {
        if self.total_len as usize > packet_len {
            return Err(Error::Truncated);
        }
        Ok(self.total_len as usize)
    }

    /// Length of this header in bytes: 20 to 60.
    #[inline]
    pub fn header_len(&self) -> usize {
        HEADER_LEN + self.options.len()
    }

    /// Length of the payload in bytes.
    #[inline]
    pub fn payload_len(&self) -> usize {
        usize::from(self.total_len).saturating_sub(self.header_len())
    }

    /// Differentiated services code point (RFC 2474), 0 to 63.
    #[inline]
    pub const fn dscp(&self) -> u8 {
        self.tos >> 2
    }

    /// Explicit congestion notification.
    #[inline]
    pub const fn ecn(&self) -> Ecn {
        Ecn::from_bits(self.tos)
    }

    /// It is a part of a datagram.
    #[inline]
    pub const fn is_fragment(&self) -> bool {
        self.more_fragments || self.fragment_offset != 0
    }

    /// Writes the header with its checksum.
    ///
    /// # Panics
    /// When `bytes` is shorter than [`Header::header_len`].
    #[inline]
    pub fn emit(&self, bytes: &mut [u8]) {
        let header_len = self.header_len();
        let bytes = &mut bytes[..header_len];
        bytes[field::VERSION_IHL] = 0x40 | (header_len / 4) as u8;
        bytes[field::TOS] = self.tos;
        put_u16(bytes, field::TOTAL_LEN, self.total_len);
        put_u16(bytes, field::IDENTIFICATION, self.identification);
        let mut fragment = self.fragment_offset >> 3;
        if self.dont_fragment {
            fragment |= DONT_FRAGMENT;
        }
        if self.more_fragments {
            fragment |= MORE_FRAGMENTS;
        }
        put_u16(bytes, field::FRAGMENT, fragment);
        bytes[field::TTL] = self.ttl;
        bytes[field::PROTOCOL] = self.protocol.0;
        put_u16(bytes, field::CHECKSUM, 0);
        put(bytes, field::SRC, &self.src.octets());
        put(bytes, field::DST, &self.dst.octets());
        put(bytes, HEADER_LEN, self.options.as_bytes());
        // RFC 791 §3.1: "the 16 bit one's complement of the one's complement sum of
        // all 16 bit words in the header"
        let checksum = checksum::of(bytes);
        put_u16(bytes, field::CHECKSUM, checksum);
    }
}

/// Version and header length from the first byte.
#[inline]
fn checked_header_len(version_ihl: u8) -> Result<usize, Error> {
    if version_ihl >> 4 != 4 {
        return Err(Error::BadVersion);
    }
    match usize::from(version_ihl & 0xf) * 4 {
        len if len < HEADER_LEN => Err(Error::BadHeaderLength),
        len => Ok(len),
    }
}

/// Whether the checksum of the header at the start of `bytes` matches. False also
/// for bytes that are no header.
#[inline]
pub fn verify_checksum(bytes: &[u8]) -> bool {
    let Some(header_len) = bytes.first().and_then(|first| checked_header_len(*first).ok()) else {
        return false;
    };
    bytes.get(..header_len).is_some_and(|header| checksum::of(header) == 0)
}

/// The options of a header as bytes, padded to a multiple of four.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Options {
    bytes: ArrayVec<u8, OPTIONS_LEN_MAX>,
}

impl Options {
    /// Options from bytes; zeroes (end of list) fill the last word.
    ///
    /// # Errors
    /// [`Error::NoRoom`] above 40 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Options, Error> {
        if bytes.len() > OPTIONS_LEN_MAX {
            return Err(Error::NoRoom);
        }
        Ok(Options::from_wire(bytes))
    }

    /// At most 40 bytes, by the header length's range or the caller's check.
    fn from_wire(wire: &[u8]) -> Options {
        let mut bytes: ArrayVec<u8, OPTIONS_LEN_MAX> = wire.iter().copied().take(OPTIONS_LEN_MAX).collect();
        while bytes.len() % 4 != 0 {
            // 40 is a multiple of four, so the padding has room.
            bytes.push(0);
        }
        Options { bytes }
    }

    /// The bytes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Length in bytes, a multiple of four.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// There are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Reads the options one after the other, up to the end of the list or an
    /// error; no-operation options are left out.
    pub fn iter(&self) -> OptionsIter<'_> {
        OptionsIter { rest: &self.bytes }
    }
}

impl<'a> IntoIterator for &'a Options {
    type Item = Result<Opt<'a>, Error>;
    type IntoIter = OptionsIter<'a>;

    fn into_iter(self) -> OptionsIter<'a> {
        self.iter()
    }
}

/// One option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Opt<'a> {
    /// Record route (7), loose (131) or strict (137) source route: `data` holds
    /// addresses, `pointer` (from 4, in bytes of the option, counting from 1) the
    /// next slot.
    Route {
        /// The option's type: [`kind::RECORD_ROUTE`] or one of the source routes.
        kind: u8,
        /// The next slot.
        pointer: u8,
        /// The slots.
        data: &'a [u8],
    },
    /// Internet timestamp (68).
    Timestamp {
        /// The next slot, counting from 1, from 5.
        pointer: u8,
        /// Hosts that found no slot, 0 to 15.
        overflow: u8,
        /// 0: timestamps, 1: with addresses, 3: addresses prespecified.
        flag: u8,
        /// The slots.
        data: &'a [u8],
    },
    /// Router alert (148, RFC 2113); zero: every router shall look at it.
    RouterAlert(u16),
    /// Any other option, its data without type and length.
    Other {
        /// The option's type.
        kind: u8,
        /// Its data.
        data: &'a [u8],
    },
}

/// Option types (IANA "IP Option Numbers").
pub mod kind {
    /// End of the list; one byte.
    pub const END: u8 = 0;
    /// No operation; one byte.
    pub const NOP: u8 = 1;
    /// Record route.
    pub const RECORD_ROUTE: u8 = 7;
    /// Internet timestamp.
    pub const TIMESTAMP: u8 = 68;
    /// Loose source route.
    pub const LOOSE_SOURCE_ROUTE: u8 = 131;
    /// Strict source route.
    pub const STRICT_SOURCE_ROUTE: u8 = 137;
    /// Router alert.
    pub const ROUTER_ALERT: u8 = 148;

    /// RFC 791 §3.1, the copied flag: "indicates that this option is copied into
    /// all fragments on fragmentation".
    pub const fn is_copied(kind: u8) -> bool {
        kind & 0x80 != 0
    }
}

/// Iterator over [`Options`].
#[derive(Debug, Clone)]
pub struct OptionsIter<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for OptionsIter<'a> {
    type Item = Result<Opt<'a>, Error>;

    fn next(&mut self) -> Option<Result<Opt<'a>, Error>> {
        loop {
            match self.rest {
                [] | [kind::END, ..] => return None,
                [kind::NOP, rest @ ..] => self.rest = rest,
                [kind, len, ..] => {
                    let option = self.rest.get(2..usize::from(*len));
                    let Some(data) = option else {
                        self.rest = &[];
                        return Some(Err(Error::BadOptionLength));
                    };
                    self.rest = &self.rest[usize::from(*len)..];
                    return Some(Ok(Opt::from_parts(*kind, data)));
                }
                [_] => {
                    self.rest = &[];
                    return Some(Err(Error::BadOptionLength));
                }
            }
        }
    }
}

impl<'a> Opt<'a> {
    fn from_parts(kind: u8, data: &'a [u8]) -> Opt<'a> {
        match (kind, data) {
            (kind::RECORD_ROUTE | kind::LOOSE_SOURCE_ROUTE | kind::STRICT_SOURCE_ROUTE, &[pointer, ref data @ ..]) => {
                Opt::Route { kind, pointer, data }
            }
            (kind::TIMESTAMP, &[pointer, overflow_flag, ref data @ ..]) => {
                Opt::Timestamp { pointer, overflow: overflow_flag >> 4, flag: overflow_flag & 0xf, data }
            }
            (kind::ROUTER_ALERT, &[high, low]) => Opt::RouterAlert(u16::from_be_bytes([high, low])),
            _ => Opt::Other { kind, data },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From arp-icmpv4.pcap: an echo request with a record route option.
    const RECORD_ROUTE: [u8; 36] = [
        0x49, 0x00, 0x00, 0x31, 0xbf, 0xcb, 0x40, 0x00, 0x40, 0x01, 0x46, 0xd3, 0x0a, 0x00, 0x01, 0x0a, 0x0a, 0x00, 0x02, 0x0a, 0x07, 0x0f,
        0x08, 0x0a, 0x00, 0x01, 0x0a, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    ];

    fn header() -> Header {
        Header {
            total_len: 49,
            identification: 0xbfcb,
            dont_fragment: true,
            protocol: Protocol::ICMP,
            src: Ipv4Addr::new(10, 0, 1, 10),
            dst: Ipv4Addr::new(10, 0, 2, 10),
            options: Options::from_bytes(&RECORD_ROUTE[20..]).expect("16 bytes"),
            ..Header::default()
        }
    }

    #[test]
    fn a_header_of_linux_with_options() {
        assert_eq!(Header::parse(&RECORD_ROUTE), Ok((header(), 36)));
        assert!(verify_checksum(&RECORD_ROUTE));
        let mut out = [0xa5; 36];
        header().emit(&mut out);
        assert_eq!(out, RECORD_ROUTE);
        let options: Vec<_> = header()
            .options
            .iter()
            .map(|o| {
                o.map(|o| match o {
                    Opt::Route { kind, pointer, data } => (kind, pointer, data.len()),
                    other => panic!("{other:?}"),
                })
            })
            .collect();
        assert_eq!(options, [Ok((kind::RECORD_ROUTE, 8, 12))]);
    }

    #[test]
    fn what_is_wrong_has_a_name() {
        let broken = |at: usize, value: u8| {
            let mut bytes = RECORD_ROUTE;
            bytes[at] = value;
            Header::parse(&bytes).map(|_| ())
        };
        assert_eq!(broken(0, 0x69), Err(Error::BadVersion));
        assert_eq!(broken(0, 0x44), Err(Error::BadHeaderLength));
        assert_eq!(broken(0, 0x4a), Err(Error::Truncated));
        assert_eq!(broken(3, 35), Err(Error::BadTotalLength));
        assert_eq!(broken(3, 36), Ok(()));
        assert_eq!(Header::parse(&RECORD_ROUTE[..19]), Err(Error::Truncated));
        assert_eq!(header().check_total_len(48), Err(Error::Truncated));
        assert_eq!(header().check_total_len(60), Ok(49));
        for at in 0..36 {
            let mut bytes = RECORD_ROUTE;
            bytes[at] ^= 0x10;
            assert!(!verify_checksum(&bytes), "byte {at}");
        }
    }

    #[test]
    fn fragments() {
        let header = Header { more_fragments: true, fragment_offset: 1480, ..Header::default() };
        let mut out = [0; 20];
        header.emit(&mut out);
        assert_eq!(out[6..8], [0x20, 185]);
        assert!(header.is_fragment() && !Header::default().is_fragment());
        assert_eq!(Header::parse(&out), Ok((header, 20)));
    }

    #[test]
    fn options_end_at_an_error() {
        let options = |bytes: &[u8]| -> Vec<Result<u8, Error>> {
            let options = Options::from_bytes(bytes).expect("40 bytes at most");
            options
                .iter()
                .map(|o| {
                    o.map(|o| match o {
                        Opt::Other { kind, .. } => kind,
                        Opt::RouterAlert(_) => kind::ROUTER_ALERT,
                        other => panic!("{other:?}"),
                    })
                })
                .collect()
        };
        assert_eq!(options(&[1, 1, 148, 4, 0, 0, 130, 2, 0, 130, 2]), [Ok(148), Ok(130)]);
        assert_eq!(options(&[130, 2, 130, 1]), [Ok(130), Err(Error::BadOptionLength)]);
        assert_eq!(options(&[130, 2, 1, 130]), [Ok(130), Err(Error::BadOptionLength)]);
        assert_eq!(options(&[130, 5, 0, 0]), [Err(Error::BadOptionLength)]);
        assert_eq!(Options::from_bytes(&[0; 41]), Err(Error::NoRoom));
        assert_eq!(Options::from_bytes(&[130, 3, 9]).map(|o| o.len()), Ok(4));
    }

    #[test]
    fn dscp_and_ecn() {
        let header = Header { tos: 0xbb, ..Header::default() };
        assert_eq!((header.dscp(), header.ecn()), (46, Ecn::CongestionExperienced));
        for bits in 0..4 {
            assert_eq!(Ecn::from_bits(bits).bits(), bits);
        }
    }
}
