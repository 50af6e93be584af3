//! Ethernet II (IEEE 802.3 with a type field) and one 802.1Q tag.
//!
//! ```text
//! 0        6        12     14
//! | dst    | src    | type |                        untagged
//! | dst    | src    | 8100 | PCP DEI VID | type |   tagged: 18 bytes
//! ```
//!
//! A second tag (802.1ad) is left to the reader: `ether_type` is then
//! [`EtherType::VLAN`] and the tag is the payload. A type field below 0x600 is a
//! length (802.3 with LLC): see [`EtherType::is_length`].

use core::fmt;
use core::str::FromStr;

use crate::Error;
use crate::bytes::{array_at, put, put_u16, u16_at};

mod field {
    pub const DST: usize = 0;
    pub const SRC: usize = 6;
    pub const TYPE: usize = 12;
    pub const TAG: usize = 14;
    pub const TAGGED_TYPE: usize = 16;
}

/// Length of an untagged header in bytes.
pub const HEADER_LEN: usize = 14;
/// Length of a header with one 802.1Q tag, in bytes.
pub const TAGGED_HEADER_LEN: usize = 18;

/// An Ethernet address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// All ones.
    pub const BROADCAST: Mac = Mac([0xff; 6]);
    /// All zeroes: no address.
    pub const ZERO: Mac = Mac([0; 6]);

    /// The group bit is set (also for broadcast).
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// All ones.
    pub const fn is_broadcast(self) -> bool {
        matches!(self.0, [0xff, 0xff, 0xff, 0xff, 0xff, 0xff])
    }

    /// A station can have it: not a group address and not zero.
    pub const fn is_unicast(self) -> bool {
        !self.is_multicast() && !matches!(self.0, [0, 0, 0, 0, 0, 0])
    }

    /// The group address of an IPv4 multicast address.
    pub const fn from_multicast_v4(group: core::net::Ipv4Addr) -> Mac {
        // RFC 1112 §6.4: "placing the low-order 23-bits of the IP address into the
        // low-order 23 bits of the Ethernet multicast address 01-00-5E-00-00-00"
        let [_, b, c, d] = group.octets();
        Mac([0x01, 0x00, 0x5e, b & 0x7f, c, d])
    }

    /// The group address of an IPv6 multicast address.
    pub const fn from_multicast_v6(group: core::net::Ipv6Addr) -> Mac {
        // RFC 2464 §7: "the Ethernet multicast address whose first two octets are
        // the value 3333 hexadecimal and whose last four octets are the last four
        // octets of DST"
        let [.., a, b, c, d] = group.octets();
        Mac([0x33, 0x33, a, b, c, d])
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Mac {
    type Err = Error;

    /// Reads six pairs of hexadecimal digits with colons between them.
    fn from_str(text: &str) -> Result<Mac, Error> {
        let mut octets = [0; 6];
        let mut parts = text.split(':');
        for octet in &mut octets {
            let part = parts.next().ok_or(Error::BadMacText)?;
            if part.len() != 2 || !part.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(Error::BadMacText);
            }
            *octet = u8::from_str_radix(part, 16).map_err(|_| Error::BadMacText)?;
        }
        match parts.next() {
            None => Ok(Mac(octets)),
            Some(_) => Err(Error::BadMacText),
        }
    }
}

/// What an Ethernet payload is. Numbers: IANA "IEEE 802 Numbers".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4 (RFC 894).
    pub const IPV4: EtherType = EtherType(0x0800);
    /// ARP (RFC 826).
    pub const ARP: EtherType = EtherType(0x0806);
    /// An 802.1Q tag.
    pub const VLAN: EtherType = EtherType(0x8100);
    /// IPv6 (RFC 2464).
    pub const IPV6: EtherType = EtherType(0x86dd);
    /// An 802.1ad service tag.
    pub const SERVICE_VLAN: EtherType = EtherType(0x88a8);

    /// The field is the payload's length (IEEE 802.3), not a type.
    pub const fn is_length(self) -> bool {
        self.0 < 0x600
    }
}

impl fmt::Display for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            EtherType::IPV4 => f.write_str("ipv4"),
            EtherType::ARP => f.write_str("arp"),
            EtherType::VLAN => f.write_str("vlan"),
            EtherType::IPV6 => f.write_str("ipv6"),
            EtherType(number) => write!(f, "0x{number:04x}"),
        }
    }
}

impl fmt::Debug for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EtherType({self})")
    }
}

/// The contents of an 802.1Q tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Vlan {
    /// Priority code point, 0 to 7. Larger values are cut to three bits.
    pub priority: u8,
    /// Drop eligible indicator.
    pub drop_eligible: bool,
    /// VLAN identifier, 0 to 4095. Larger values are cut to twelve bits.
    pub id: u16,
}

impl Vlan {
    /// The tag control information as it is on the wire.
    pub const fn to_tci(self) -> u16 {
        (self.priority as u16 & 7) << 13 | (self.drop_eligible as u16) << 12 | self.id & 0xfff
    }

    /// From the tag control information.
    pub const fn from_tci(tci: u16) -> Vlan {
        Vlan { priority: (tci >> 13) as u8, drop_eligible: tci & 0x1000 != 0, id: tci & 0xfff }
    }
}

/// An Ethernet header.
///
/// With `vlan: None`, an `ether_type` of [`EtherType::VLAN`] cannot be read back:
/// what follows it would be read as the tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Header {
    /// Destination address.
    pub dst: Mac,
    /// Source address.
    pub src: Mac,
    /// The (outer) 802.1Q tag.
    pub vlan: Option<Vlan>,
    /// What the payload is; for tagged frames the type after the tag.
    pub ether_type: EtherType,
}

impl Header {
    /// Reads a header; returns it and its length in bytes.
    ///
    /// # Errors
    /// [`Error::Truncated`] below 14 bytes, or 18 with a tag.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<(Header, usize), Error> {
        let h = bytes.first_chunk::<HEADER_LEN>().ok_or(Error::Truncated)?;
        let mut header = Header {
            dst: Mac(array_at(h, field::DST)),
            src: Mac(array_at(h, field::SRC)),
            vlan: None,
            ether_type: EtherType(u16_at(h, field::TYPE)),
        };
        if header.ether_type != EtherType::VLAN {
            return Ok((header, HEADER_LEN));
        }
        let h = bytes.first_chunk::<TAGGED_HEADER_LEN>().ok_or(Error::Truncated)?;
        header.vlan = Some(Vlan::from_tci(u16_at(h, field::TAG)));
        header.ether_type = EtherType(u16_at(h, field::TAGGED_TYPE));
        Ok((header, TAGGED_HEADER_LEN))
    }

    /// Length of this header in bytes: 14, or 18 with a tag.
    #[inline]
    #[allow(clippy::len_without_is_empty, reason = "a header is never empty")]
    pub const fn len(&self) -> usize {
        match self.vlan {
            None => HEADER_LEN,
            Some(_) => TAGGED_HEADER_LEN,
        }
    }

    /// Writes the header to the start of `bytes`.
    ///
    /// # Panics
    /// When `bytes` is shorter than [`Header::len`].
    #[inline]
    pub fn emit(&self, bytes: &mut [u8]) {
        let bytes = &mut bytes[..self.len()];
        put(bytes, field::DST, &self.dst.0);
        put(bytes, field::SRC, &self.src.0);
        match self.vlan {
            None => put_u16(bytes, field::TYPE, self.ether_type.0),
            Some(vlan) => {
                put_u16(bytes, field::TYPE, EtherType::VLAN.0);
                put_u16(bytes, field::TAG, vlan.to_tci());
                put_u16(bytes, field::TAGGED_TYPE, self.ether_type.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DST: Mac = Mac([2, 0, 0, 0, 0, 1]);
    const SRC: Mac = Mac([2, 0, 0, 0, 0, 10]);

    #[test]
    fn untagged() {
        let bytes = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 10, 0x86, 0xdd];
        let header = Header { dst: DST, src: SRC, vlan: None, ether_type: EtherType::IPV6 };
        assert_eq!(Header::parse(&bytes), Ok((header, HEADER_LEN)));
        let mut out = [0xa5; HEADER_LEN];
        header.emit(&mut out);
        assert_eq!(out, bytes);
        assert_eq!(Header::parse(&bytes[..13]), Err(Error::Truncated));
    }

    #[test]
    fn tagged() {
        let bytes = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 10, 0x81, 0x00, 0xb0, 0x2a, 0x08, 0x06];
        let vlan = Vlan { priority: 5, drop_eligible: true, id: 42 };
        let header = Header { dst: DST, src: SRC, vlan: Some(vlan), ether_type: EtherType::ARP };
        assert_eq!(Header::parse(&bytes), Ok((header, TAGGED_HEADER_LEN)));
        let mut out = [0xa5; TAGGED_HEADER_LEN];
        header.emit(&mut out);
        assert_eq!(out, bytes);
        assert_eq!(Header::parse(&bytes[..17]), Err(Error::Truncated));
    }

    #[test]
    fn addresses_as_text() {
        assert_eq!(SRC.to_string(), "02:00:00:00:00:0a");
        assert_eq!("FF:ff:ff:ff:ff:ff".parse(), Ok(Mac::BROADCAST));
        for bad in ["", "02:00:00:00:00", "02:00:00:00:00:0a:01", "2:0:0:0:0:a", "+2:00:00:00:00:0a", "02-00-00-00-00-0a"] {
            assert_eq!(bad.parse::<Mac>(), Err(Error::BadMacText), "{bad}");
        }
    }

    #[test]
    fn kinds_of_addresses() {
        assert!(Mac::BROADCAST.is_broadcast() && Mac::BROADCAST.is_multicast());
        assert!(SRC.is_unicast() && !SRC.is_multicast() && !SRC.is_broadcast());
        assert!(!Mac::ZERO.is_unicast() && !Mac::BROADCAST.is_unicast());
        let group = Mac::from_multicast_v4([239, 129, 2, 3].into());
        assert_eq!(group, Mac([0x01, 0x00, 0x5e, 0x01, 2, 3]));
        let group = Mac::from_multicast_v6("ff02::1:ff00:a".parse().expect("an address"));
        assert_eq!(group, Mac([0x33, 0x33, 0xff, 0, 0, 10]));
        assert!(group.is_multicast() && !group.is_broadcast());
    }

    #[test]
    fn length_fields_are_not_types() {
        assert!(EtherType(1500).is_length() && EtherType(0x5ff).is_length());
        assert!(!EtherType(0x600).is_length() && !EtherType::IPV4.is_length());
    }
}
