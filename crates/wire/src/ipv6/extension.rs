//! IPv6 extension headers (RFC 8200 §4): hop-by-hop and destination options,
//! routing, fragment; authentication (RFC 4302) is recognised and skipped.
//!
//! ```text
//! 0             1                2
//! | next header | length / 8 - 1 | data up to a multiple of 8
//! ```
//!
//! [`Extensions`] walks the chain up to the upper layer, ESP, a later fragment or
//! "no next header". Order and number are not judged: RFC 8200 §4.1: "IPv6 nodes
//! must accept and attempt to process extension headers in any order".

use crate::bytes::{put, put_u16, put_u32, u16_at, u32_at};
use crate::{Error, Protocol};

/// Length of a fragment header in bytes.
pub const FRAGMENT_LEN: usize = 8;
/// Length of the longest other extension header in bytes.
pub const LEN_MAX: usize = 8 + 255 * 8;
/// Headers walked at most. Linux limits options, not headers; a chain of more
/// than this is nobody's traffic.
pub const EXTENSIONS_MAX: usize = 16;

/// Protocol numbers of headers that are skipped.
const MOBILITY: Protocol = Protocol(135);
const HOST_IDENTITY: Protocol = Protocol(139);
const SHIM6: Protocol = Protocol(140);

/// One extension header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Extension<'a> {
    /// Options for every node on the way.
    HopByHop(Options<'a>),
    /// Options for the destination.
    DestinationOptions(Options<'a>),
    /// Nodes to visit.
    Routing(Routing<'a>),
    /// A part of a packet.
    Fragment(Fragment),
    /// Any other header that can be skipped, authentication among them.
    Other {
        /// Which.
        protocol: Protocol,
        /// Everything behind the length byte.
        data: &'a [u8],
    },
}

/// Options as bytes, padding included.
///
/// From the wire their length is 6 modulo 8. Other lengths are filled up with
/// padding when emitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Options<'a>(pub &'a [u8]);

/// A routing header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Routing<'a> {
    /// Type: 2 is mobile IPv6, 3 RPL, 4 segment routing; 0 is forbidden (RFC 5095).
    pub kind: u8,
    /// Nodes still to be visited.
    pub segments_left: u8,
    /// The type's data. From the wire its length is 4 modulo 8; other lengths are
    /// filled up with zeroes when emitted.
    pub data: &'a [u8],
}

/// A fragment header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Fragment {
    /// Where the fragment belongs in the packet's fragmentable part, in bytes: a
    /// multiple of 8 up to 65528. Other values are rounded down when emitted.
    pub offset: u16,
    /// It is not the last.
    pub more: bool,
    /// Groups fragments.
    pub identification: u32,
}

impl Fragment {
    /// RFC 6946: a fragment header on a whole packet.
    pub const fn is_atomic(&self) -> bool {
        self.offset == 0 && !self.more
    }
}

impl Extension<'_> {
    /// The number that announces this header.
    pub const fn protocol(&self) -> Protocol {
        match self {
            Extension::HopByHop(_) => Protocol::HOP_BY_HOP,
            Extension::DestinationOptions(_) => Protocol::DESTINATION_OPTIONS,
            Extension::Routing(_) => Protocol::ROUTING,
            Extension::Fragment(_) => Protocol::FRAGMENT,
            Extension::Other { protocol, .. } => *protocol,
        }
    }

    /// Length on the wire in bytes: a multiple of 8 (of 4 for authentication).
    pub const fn len(&self) -> usize {
        match self {
            Extension::HopByHop(options) | Extension::DestinationOptions(options) => (2 + options.0.len()).next_multiple_of(8),
            Extension::Routing(routing) => (4 + routing.data.len()).next_multiple_of(8),
            Extension::Fragment(_) => FRAGMENT_LEN,
            Extension::Other { protocol: Protocol::AH, data } => (2 + data.len()).next_multiple_of(4),
            Extension::Other { data, .. } => (2 + data.len()).next_multiple_of(8),
        }
    }

    /// Never: a header has bytes.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Writes the header, announcing `next_header`.
    ///
    /// # Errors
    /// [`Error::NoRoom`] when it is longer than its length field can say (2048
    /// bytes); nothing is written.
    ///
    /// # Panics
    /// When `bytes` is shorter than [`Extension::len`].
    pub fn emit(&self, next_header: Protocol, bytes: &mut [u8]) -> Result<(), Error> {
        let len = self.len();
        let units = match self {
            Extension::Fragment(_) => 0,
            Extension::Other { protocol: Protocol::AH, .. } => (len / 4).saturating_sub(2),
            _ => len / 8 - 1,
        };
        let units = u8::try_from(units).map_err(|_| Error::NoRoom)?;
        let bytes = &mut bytes[..len];
        bytes[0] = next_header.0;
        bytes[1] = units;
        match self {
            Extension::HopByHop(options) | Extension::DestinationOptions(options) => {
                put(bytes, 2, options.0);
                pad(&mut bytes[2 + options.0.len()..]);
            }
            Extension::Routing(routing) => {
                bytes[2] = routing.kind;
                bytes[3] = routing.segments_left;
                put(bytes, 4, routing.data);
                bytes[4 + routing.data.len()..].fill(0);
            }
            Extension::Fragment(fragment) => {
                put_u16(bytes, 2, fragment.offset & !7 | u16::from(fragment.more));
                put_u32(bytes, 4, fragment.identification);
            }
            Extension::Other { data, .. } => {
                put(bytes, 2, data);
                bytes[2 + data.len()..].fill(0);
            }
        }
        Ok(())
    }
}

/// Fills with Pad1 or PadN (RFC 8200 §4.2); at most seven bytes.
fn pad(bytes: &mut [u8]) {
    bytes.fill(0);
    if let [kind, len, rest @ ..] = bytes {
        *kind = option_kind::PAD_N;
        *len = rest.len() as u8;
    }
}

/// Walks the extension headers of a packet.
#[derive(Debug, Clone)]
pub struct Extensions<'a> {
    rest: &'a [u8],
    next: Protocol,
    offset: usize,
    count: usize,
    done: bool,
}

impl<'a> Extensions<'a> {
    /// The headers in `bytes`, what follows the fixed header; `first` is the fixed
    /// header's `next_header`.
    #[inline]
    pub fn new(first: Protocol, bytes: &'a [u8]) -> Extensions<'a> {
        Extensions { rest: bytes, next: first, offset: 0, count: 0, done: false }
    }

    /// After the last header: what the rest is. After an error: what could not be
    /// read.
    #[inline]
    pub fn next_header(&self) -> Protocol {
        self.next
    }

    /// Bytes taken by the headers read so far.
    #[inline]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// What follows the headers read so far.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    fn read(&mut self) -> Result<Extension<'a>, Error> {
        self.count += 1;
        if self.count > EXTENSIONS_MAX {
            return Err(Error::BadHeaderLength);
        }
        let h = self.rest.first_chunk::<8>().ok_or(Error::Truncated)?;
        let len = match self.next {
            Protocol::FRAGMENT => FRAGMENT_LEN,
            // RFC 4302 §2.2: "the length of AH in 32-bit words (4-byte units), minus '2'"
            Protocol::AH => (usize::from(h[1]) + 2) * 4,
            _ => (usize::from(h[1]) + 1) * 8,
        };
        let header = self.rest.get(..len).ok_or(Error::Truncated)?;
        let data = &header[2..];
        let extension = match self.next {
            Protocol::HOP_BY_HOP => Extension::HopByHop(Options(data)),
            Protocol::DESTINATION_OPTIONS => Extension::DestinationOptions(Options(data)),
            Protocol::ROUTING => Extension::Routing(Routing { kind: h[2], segments_left: h[3], data: &header[4..] }),
            Protocol::FRAGMENT => {
                let offset = u16_at(h, 2);
                Extension::Fragment(Fragment { offset: offset & !7, more: offset & 1 != 0, identification: u32_at(h, 4) })
            }
            protocol => Extension::Other { protocol, data },
        };
        self.rest = &self.rest[len..];
        self.offset += len;
        self.next = Protocol(h[0]);
        // What follows in a later fragment is the middle of something.
        self.done = matches!(extension, Extension::Fragment(Fragment { offset: 1.., .. }));
        Ok(extension)
    }
}

impl<'a> Iterator for Extensions<'a> {
    type Item = Result<Extension<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done || !is_extension(self.next) {
            return None;
        }
        let extension = self.read();
        self.done |= extension.is_err();
        Some(extension)
    }
}

/// Whether the number is one of a header that [`Extensions`] walks over.
#[inline]
pub const fn is_extension(protocol: Protocol) -> bool {
    matches!(
        protocol,
        Protocol::HOP_BY_HOP
            | Protocol::ROUTING
            | Protocol::FRAGMENT
            | Protocol::AH
            | Protocol::DESTINATION_OPTIONS
            | MOBILITY
            | HOST_IDENTITY
            | SHIM6
    )
}

/// Option types (IANA "Destination Options and Hop-by-Hop Options").
pub mod option_kind {
    /// One byte of padding.
    pub const PAD_1: u8 = 0;
    /// Padding of two bytes and more.
    pub const PAD_N: u8 = 1;
    /// Router alert (RFC 2711).
    pub const ROUTER_ALERT: u8 = 5;
    /// Jumbo payload (RFC 2675).
    pub const JUMBO: u8 = 0xc2;
}

/// One option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Opt<'a> {
    /// Routers shall look at it; 0 is MLD.
    RouterAlert(u16),
    /// Length of the payload in bytes, above 65535.
    Jumbo(u32),
    /// Any other.
    Other {
        /// The type.
        kind: u8,
        /// The data without type and length.
        data: &'a [u8],
    },
}

/// What to do with an option one does not know: the type's upper two bits
/// (RFC 8200 §4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unknown {
    /// 00: "skip over this option and continue processing the header".
    Skip,
    /// 01: "discard the packet".
    Discard,
    /// 10: "discard the packet and … send an ICMP Parameter Problem, Code 2".
    Report,
    /// 11: as 10, "only if the packet's Destination Address was not a multicast
    /// address".
    ReportUnlessMulticast,
}

impl Unknown {
    /// By an option's type.
    pub const fn of(kind: u8) -> Unknown {
        match kind >> 6 {
            0 => Unknown::Skip,
            1 => Unknown::Discard,
            2 => Unknown::Report,
            _ => Unknown::ReportUnlessMulticast,
        }
    }
}

impl<'a> Options<'a> {
    /// The options without padding, each with its offset from the start of the
    /// extension header in bytes (for the pointer of a parameter problem).
    pub fn iter(&self) -> OptionsIter<'a> {
        OptionsIter { rest: self.0, offset: 2 }
    }
}

impl<'a> IntoIterator for &Options<'a> {
    type Item = Result<(usize, Opt<'a>), Error>;
    type IntoIter = OptionsIter<'a>;

    fn into_iter(self) -> OptionsIter<'a> {
        self.iter()
    }
}

/// Iterator over [`Options`].
#[derive(Debug, Clone)]
pub struct OptionsIter<'a> {
    rest: &'a [u8],
    offset: usize,
}

impl<'a> Iterator for OptionsIter<'a> {
    type Item = Result<(usize, Opt<'a>), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (kind, len) = match *self.rest {
                [] => return None,
                [option_kind::PAD_1, ref rest @ ..] => {
                    self.rest = rest;
                    self.offset += 1;
                    continue;
                }
                [kind, len, ..] => (kind, usize::from(len) + 2),
                [_] => return self.fail(),
            };
            let Some(data) = self.rest.get(2..len) else {
                return self.fail();
            };
            let offset = self.offset;
            self.rest = &self.rest[len..];
            self.offset += len;
            let option = match (kind, data) {
                (option_kind::PAD_N, _) => continue,
                (option_kind::ROUTER_ALERT, &[a, b]) => Opt::RouterAlert(u16::from_be_bytes([a, b])),
                (option_kind::JUMBO, &[a, b, c, d]) => Opt::Jumbo(u32::from_be_bytes([a, b, c, d])),
                _ => Opt::Other { kind, data },
            };
            return Some(Ok((offset, option)));
        }
    }
}

impl<'a> OptionsIter<'a> {
    fn fail(&mut self) -> Option<Result<(usize, Opt<'a>), Error>> {
        self.rest = &[];
        Some(Err(Error::BadOptionLength))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hop_by_hop_of_mld() {
        // From nd-mld.pcap: router alert and padding in front of ICMPv6.
        let bytes = [58, 0, 5, 2, 0, 0, 1, 0, 143];
        let mut extensions = Extensions::new(Protocol::HOP_BY_HOP, &bytes);
        let Some(Ok(Extension::HopByHop(options))) = extensions.next() else {
            panic!("no hop-by-hop header");
        };
        let read: Vec<_> = options.iter().collect();
        assert_eq!(read, [Ok((2, Opt::RouterAlert(0)))]);
        assert_eq!(extensions.next(), None);
        assert_eq!((extensions.next_header(), extensions.offset()), (Protocol::ICMPV6, 8));
        assert_eq!(extensions.rest(), [143]);
        // Built from the option alone, padding is added.
        let mut out = [0xa5; 8];
        let built = Extension::HopByHop(Options(&[5, 2, 0, 0]));
        assert_eq!(built.emit(Protocol::ICMPV6, &mut out), Ok(()));
        assert_eq!(out, bytes[..8]);
    }

    #[test]
    fn a_later_fragment_ends_the_chain() {
        let bytes = [60, 0, 0x05, 0x49, 0xde, 0xad, 0xbe, 0xef, 1, 2, 3, 4, 5, 6, 7, 8];
        let mut extensions = Extensions::new(Protocol::FRAGMENT, &bytes);
        let fragment = Fragment { offset: 1352, more: true, identification: 0xdead_beef };
        assert_eq!(extensions.next(), Some(Ok(Extension::Fragment(fragment))));
        assert_eq!(extensions.next(), None);
        assert_eq!(extensions.next_header(), Protocol::DESTINATION_OPTIONS);
    }

    #[test]
    fn authentication_counts_words_of_four() {
        // RFC 4302 §2.2: an ICV of 96 bits makes a length field of 4, 24 bytes.
        let mut bytes = [0; 24];
        bytes[..2].copy_from_slice(&[6, 4]);
        let mut extensions = Extensions::new(Protocol::AH, &bytes);
        let extension = extensions.next().expect("a header").expect("a sound one");
        assert_eq!((extension.len(), extensions.offset()), (24, 24));
        let mut out = [0xa5; 24];
        assert_eq!(extension.emit(Protocol::TCP, &mut out), Ok(()));
        assert_eq!(out, bytes);
    }

    #[test]
    fn chains_are_finite_and_stop_at_errors() {
        let mut endless = [60, 0, 0, 0, 0, 0, 0, 0].repeat(EXTENSIONS_MAX + 1);
        let results: Vec<_> = Extensions::new(Protocol::DESTINATION_OPTIONS, &endless).collect();
        assert_eq!(results.len(), EXTENSIONS_MAX + 1);
        assert_eq!(results[EXTENSIONS_MAX], Err(Error::BadHeaderLength));
        endless.truncate(12);
        let results: Vec<_> = Extensions::new(Protocol::DESTINATION_OPTIONS, &endless).collect();
        assert_eq!((results.len(), results[1]), (2, Err(Error::Truncated)));
    }

    #[test]
    fn options_say_what_to_do_if_unknown() {
        assert_eq!(Unknown::of(option_kind::ROUTER_ALERT), Unknown::Skip);
        assert_eq!(Unknown::of(0x5e), Unknown::Discard);
        assert_eq!(Unknown::of(0x9e), Unknown::Report);
        assert_eq!(Unknown::of(option_kind::JUMBO), Unknown::ReportUnlessMulticast);
        let options = Options(&[0, 0x9e, 1, 7, 0xc2, 4, 0, 1, 0, 0, 9, 3]);
        let read: Vec<_> = options.iter().collect();
        assert_eq!(read, [Ok((3, Opt::Other { kind: 0x9e, data: &[7] })), Ok((6, Opt::Jumbo(65536))), Err(Error::BadOptionLength),]);
    }
}
