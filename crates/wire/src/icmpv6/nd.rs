//! Neighbour discovery (RFC 4861): five messages, and their options.
//!
//! ```text
//! option: 0      1            2
//!         | type | length / 8 | data
//! ```
//!
//! A message's options follow its header: [`options`] reads them. Known options:
//! RFC 4861 §4.6, route information (RFC 4191), DNS (RFC 8106), nonce (RFC 3971).

use core::net::Ipv6Addr;

use super::kind;
use crate::Error;
use crate::bytes::{array_at, put, put_u16, put_u32, u16_at, u32_at};
use crate::ethernet::Mac;

mod field {
    pub const HOP_LIMIT: usize = 4;
    pub const FLAGS: usize = 5;
    pub const LIFETIME: usize = 6;
    pub const REACHABLE: usize = 8;
    pub const RETRANSMIT: usize = 12;
    pub const NEIGHBOR_FLAGS: usize = 4;
    pub const TARGET: usize = 8;
    pub const DESTINATION: usize = 24;
}

/// RFC 4861 §6.1, §7.1: "The IP Hop Limit field has a value of 255, i.e., the
/// packet could not possibly have been forwarded by a router."
pub const HOP_LIMIT: u8 = 255;

const SOLICITATION_LEN: usize = 8;
const ADVERTISEMENT_LEN: usize = 16;
const NEIGHBOR_LEN: usize = 24;
const REDIRECT_LEN: usize = 40;

bitflags::bitflags! {
    /// Flags of a router advertisement (RFC 4861 §4.2, RFC 6275, RFC 4191).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct RouterFlags: u8 {
        /// M: addresses come from DHCPv6.
        const MANAGED = 0x80;
        /// O: other configuration comes from DHCPv6.
        const OTHER = 0x40;
        /// H: home agent.
        const HOME_AGENT = 0x20;
        /// The upper bit of the preference, two's complement: low if alone with
        /// the lower one.
        const PREFERENCE_HIGH_BIT = 0x10;
        /// The lower bit of the preference.
        const PREFERENCE_LOW_BIT = 0x08;
        /// P: neighbour discovery proxy.
        const PROXY = 0x04;
        const _ = !0;
    }

    /// Flags of a neighbour advertisement (RFC 4861 §4.4).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct NeighborFlags: u8 {
        /// R: the sender is a router.
        const ROUTER = 0x80;
        /// S: an answer to a solicitation.
        const SOLICITED = 0x40;
        /// O: replaces what is cached.
        const OVERRIDE = 0x20;
    }

    /// Flags of a prefix (RFC 4861 §4.6.2).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct PrefixFlags: u8 {
        /// L: addresses of the prefix are on the same network.
        const ON_LINK = 0x80;
        /// A: addresses may be made of it (RFC 4862).
        const AUTONOMOUS = 0x40;
        const _ = !0;
    }
}

/// A message without its options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Message {
    /// Which routers are there?
    RouterSolicitation,
    /// I am a router.
    RouterAdvertisement {
        /// Hop limit for outgoing packets; zero: unspecified.
        hop_limit: u8,
        /// Flags.
        flags: RouterFlags,
        /// How long it is a default router, in seconds; zero: it is not.
        lifetime_s: u16,
        /// How long a neighbour counts as reachable, in milliseconds; zero:
        /// unspecified.
        reachable_ms: u32,
        /// Time between solicitations, in milliseconds; zero: unspecified.
        retransmit_ms: u32,
    },
    /// Who has this address?
    NeighborSolicitation {
        /// The address.
        target: Ipv6Addr,
    },
    /// I have it.
    NeighborAdvertisement {
        /// Flags.
        flags: NeighborFlags,
        /// The address.
        target: Ipv6Addr,
    },
    /// There is a better first hop.
    Redirect {
        /// The better first hop; the destination itself if it is a neighbour.
        target: Ipv6Addr,
        /// For this destination.
        destination: Ipv6Addr,
    },
}

impl Message {
    /// Reads the header; `bytes` start with the type, which is one of ND's.
    pub(super) fn parse(bytes: &[u8]) -> Result<Message, Error> {
        match bytes.first() {
            Some(&kind::ROUTER_SOLICITATION) => Ok(Message::RouterSolicitation),
            Some(&kind::ROUTER_ADVERTISEMENT) => {
                let m = bytes.first_chunk::<ADVERTISEMENT_LEN>().ok_or(Error::Truncated)?;
                Ok(Message::RouterAdvertisement {
                    hop_limit: m[field::HOP_LIMIT],
                    flags: RouterFlags::from_bits_retain(m[field::FLAGS]),
                    lifetime_s: u16_at(m, field::LIFETIME),
                    reachable_ms: u32_at(m, field::REACHABLE),
                    retransmit_ms: u32_at(m, field::RETRANSMIT),
                })
            }
            Some(&kind::NEIGHBOR_SOLICITATION) => Ok(Message::NeighborSolicitation { target: parse_target(bytes)? }),
            Some(&kind::NEIGHBOR_ADVERTISEMENT) => Ok(Message::NeighborAdvertisement {
                target: parse_target(bytes)?,
                flags: NeighborFlags::from_bits_truncate(bytes[field::NEIGHBOR_FLAGS]),
            }),
            Some(&kind::REDIRECT) => {
                let m = bytes.first_chunk::<REDIRECT_LEN>().ok_or(Error::Truncated)?;
                Ok(Message::Redirect {
                    target: array_at::<16, REDIRECT_LEN>(m, field::TARGET).into(),
                    destination: array_at::<16, REDIRECT_LEN>(m, field::DESTINATION).into(),
                })
            }
            _ => Err(Error::UnknownType),
        }
    }

    /// Length of the header in bytes; options follow it.
    pub const fn header_len(&self) -> usize {
        match self {
            Message::RouterSolicitation => SOLICITATION_LEN,
            Message::RouterAdvertisement { .. } => ADVERTISEMENT_LEN,
            Message::NeighborSolicitation { .. } | Message::NeighborAdvertisement { .. } => NEIGHBOR_LEN,
            Message::Redirect { .. } => REDIRECT_LEN,
        }
    }

    /// The ICMPv6 type.
    pub const fn kind(&self) -> u8 {
        match self {
            Message::RouterSolicitation => kind::ROUTER_SOLICITATION,
            Message::RouterAdvertisement { .. } => kind::ROUTER_ADVERTISEMENT,
            Message::NeighborSolicitation { .. } => kind::NEIGHBOR_SOLICITATION,
            Message::NeighborAdvertisement { .. } => kind::NEIGHBOR_ADVERTISEMENT,
            Message::Redirect { .. } => kind::REDIRECT,
        }
    }

    /// Writes what follows type, code and checksum into zeroed bytes.
    pub(super) fn emit_body(&self, bytes: &mut [u8]) {
        match self {
            Message::RouterSolicitation => {}
            Message::RouterAdvertisement { hop_limit, flags, lifetime_s, reachable_ms, retransmit_ms } => {
                bytes[field::HOP_LIMIT] = *hop_limit;
                bytes[field::FLAGS] = flags.bits();
                put_u16(bytes, field::LIFETIME, *lifetime_s);
                put_u32(bytes, field::REACHABLE, *reachable_ms);
                put_u32(bytes, field::RETRANSMIT, *retransmit_ms);
            }
            Message::NeighborSolicitation { target } => {
                put(bytes, field::TARGET, &target.octets());
            }
            Message::NeighborAdvertisement { flags, target } => {
                bytes[field::NEIGHBOR_FLAGS] = flags.bits();
                put(bytes, field::TARGET, &target.octets());
            }
            Message::Redirect { target, destination } => {
                put(bytes, field::TARGET, &target.octets());
                put(bytes, field::DESTINATION, &destination.octets());
            }
        }
    }
}

fn parse_target(bytes: &[u8]) -> Result<Ipv6Addr, Error> {
    let m = bytes.first_chunk::<NEIGHBOR_LEN>().ok_or(Error::Truncated)?;
    Ok(array_at::<16, NEIGHBOR_LEN>(m, field::TARGET).into())
}

/// Option types (IANA "IPv6 Neighbor Discovery Option Formats").
pub mod option_kind {
    /// Source link-layer address.
    pub const SOURCE_ADDRESS: u8 = 1;
    /// Target link-layer address.
    pub const TARGET_ADDRESS: u8 = 2;
    /// Prefix information.
    pub const PREFIX: u8 = 3;
    /// Redirected header.
    pub const REDIRECTED: u8 = 4;
    /// MTU.
    pub const MTU: u8 = 5;
    /// Nonce (RFC 3971).
    pub const NONCE: u8 = 14;
    /// Route information (RFC 4191).
    pub const ROUTE: u8 = 24;
    /// Recursive DNS servers (RFC 8106).
    pub const DNS_SERVERS: u8 = 25;
    /// DNS search list (RFC 8106).
    pub const DNS_SEARCH: u8 = 31;
}

/// One option. Lifetimes are in seconds, all ones being forever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Opt<'a> {
    /// The sender's Ethernet address.
    SourceAddress(Mac),
    /// The target's Ethernet address.
    TargetAddress(Mac),
    /// A prefix of the network.
    Prefix {
        /// Length of the prefix in bits.
        prefix_len: u8,
        /// Flags.
        flags: PrefixFlags,
        /// How long it is on-link and its addresses valid.
        valid_s: u32,
        /// How long its addresses are preferred.
        preferred_s: u32,
        /// The prefix.
        prefix: Ipv6Addr,
    },
    /// The packet that a redirect is about, its beginning: a multiple of 8 bytes.
    Redirected(&'a [u8]),
    /// The network's MTU in bytes.
    Mtu(u32),
    /// Tells one's own solicitations from another's (RFC 7527): 6 bytes, and
    /// multiples of 8 more.
    Nonce(&'a [u8]),
    /// A route through the router.
    Route {
        /// Length of the prefix in bits.
        prefix_len: u8,
        /// Preference, two bits, two's complement: 1 high, 0 medium, 3 low.
        preference: u8,
        /// How long.
        lifetime_s: u32,
        /// The first 0, 8 or 16 bytes of the prefix.
        prefix: &'a [u8],
    },
    /// Recursive DNS servers.
    DnsServers {
        /// How long.
        lifetime_s: u32,
        /// Addresses of 16 bytes each, one at least.
        servers: &'a [u8],
    },
    /// DNS search list.
    DnsSearch {
        /// How long.
        lifetime_s: u32,
        /// Domain names in DNS encoding, padded with zeroes to a multiple of 8.
        names: &'a [u8],
    },
    /// Any other: 6 bytes, and multiples of 8 more.
    Other {
        /// The type.
        kind: u8,
        /// The data without type and length.
        data: &'a [u8],
    },
}

/// Reads the options behind a message's header.
pub fn options(bytes: &[u8]) -> OptionsIter<'_> {
    OptionsIter { rest: bytes }
}

/// Iterator over options.
#[derive(Debug, Clone)]
pub struct OptionsIter<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for OptionsIter<'a> {
    type Item = Result<Opt<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let (kind, units) = match *self.rest {
            [] => return None,
            [kind, units, ..] => (kind, usize::from(units)),
            [_] => (0, 0),
        };
        // RFC 4861 §4.6: "The value 0 is invalid. Nodes MUST silently discard an ND
        // packet that contains an option with length zero."
        let Some(data) = self.rest.get(2..units * 8) else {
            self.rest = &[];
            return Some(Err(Error::BadOptionLength));
        };
        self.rest = &self.rest[units * 8..];
        Some(Ok(Opt::from_parts(kind, data)))
    }
}

impl<'a> Opt<'a> {
    /// `data` is 6 bytes, or multiples of 8 more. An option of a known type whose
    /// length is not its own is an unknown one.
    fn from_parts(kind: u8, data: &'a [u8]) -> Opt<'a> {
        let other = Opt::Other { kind, data };
        match kind {
            option_kind::SOURCE_ADDRESS | option_kind::TARGET_ADDRESS => match <[u8; 6]>::try_from(data) {
                Ok(mac) if kind == option_kind::SOURCE_ADDRESS => Opt::SourceAddress(Mac(mac)),
                Ok(mac) => Opt::TargetAddress(Mac(mac)),
                Err(_) => other,
            },
            option_kind::PREFIX => match <&[u8; 30]>::try_from(data) {
                Ok(d) => Opt::Prefix {
                    prefix_len: d[0],
                    flags: PrefixFlags::from_bits_retain(d[1]),
                    valid_s: u32_at(d, 2),
                    preferred_s: u32_at(d, 6),
                    prefix: array_at::<16, 30>(d, 14).into(),
                },
                Err(_) => other,
            },
            option_kind::NONCE => Opt::Nonce(data),
            _ => match data.split_first_chunk::<6>() {
                Some((head, tail)) => Opt::with_head(kind, head, tail).unwrap_or(other),
                None => other,
            },
        }
    }

    fn with_head(kind: u8, head: &[u8; 6], tail: &'a [u8]) -> Option<Opt<'a>> {
        let lifetime_s = u32_at(head, 2);
        match kind {
            option_kind::MTU if tail.is_empty() => Some(Opt::Mtu(lifetime_s)),
            option_kind::REDIRECTED => Some(Opt::Redirected(tail)),
            option_kind::ROUTE if tail.len() <= 16 => {
                Some(Opt::Route { prefix_len: head[0], preference: head[1] >> 3 & 3, lifetime_s, prefix: tail })
            }
            option_kind::DNS_SERVERS if !tail.is_empty() && tail.as_chunks::<16>().1.is_empty() => {
                Some(Opt::DnsServers { lifetime_s, servers: tail })
            }
            option_kind::DNS_SEARCH if !tail.is_empty() => Some(Opt::DnsSearch { lifetime_s, names: tail }),
            _ => None,
        }
    }

    /// The option's type.
    pub const fn kind(&self) -> u8 {
        match self {
            Opt::SourceAddress(_) => option_kind::SOURCE_ADDRESS,
            Opt::TargetAddress(_) => option_kind::TARGET_ADDRESS,
            Opt::Prefix { .. } => option_kind::PREFIX,
            Opt::Redirected(_) => option_kind::REDIRECTED,
            Opt::Mtu(_) => option_kind::MTU,
            Opt::Nonce(_) => option_kind::NONCE,
            Opt::Route { .. } => option_kind::ROUTE,
            Opt::DnsServers { .. } => option_kind::DNS_SERVERS,
            Opt::DnsSearch { .. } => option_kind::DNS_SEARCH,
            Opt::Other { kind, .. } => *kind,
        }
    }

    /// Length on the wire in bytes, a multiple of 8.
    pub const fn len(&self) -> usize {
        let len = match self {
            Opt::SourceAddress(_) | Opt::TargetAddress(_) | Opt::Mtu(_) => 8,
            Opt::Prefix { .. } => 32,
            Opt::Redirected(tail)
            | Opt::Route { prefix: tail, .. }
            | Opt::DnsServers { servers: tail, .. }
            | Opt::DnsSearch { names: tail, .. } => 8 + tail.len(),
            Opt::Nonce(data) | Opt::Other { data, .. } => 2 + data.len(),
        };
        len.next_multiple_of(8)
    }

    /// Never: an option has bytes.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Writes the option, filled up with zeroes.
    ///
    /// # Errors
    /// [`Error::NoRoom`] above 2040 bytes; nothing is written.
    ///
    /// # Panics
    /// When `bytes` is shorter than [`Opt::len`].
    pub fn emit(&self, bytes: &mut [u8]) -> Result<(), Error> {
        let len = self.len();
        let units = u8::try_from(len / 8).map_err(|_| Error::NoRoom)?;
        let bytes = &mut bytes[..len];
        bytes.fill(0);
        bytes[0] = self.kind();
        bytes[1] = units;
        match self {
            Opt::SourceAddress(mac) | Opt::TargetAddress(mac) => put(bytes, 2, &mac.0),
            Opt::Prefix { prefix_len, flags, valid_s, preferred_s, prefix } => {
                bytes[2] = *prefix_len;
                bytes[3] = flags.bits();
                put_u32(bytes, 4, *valid_s);
                put_u32(bytes, 8, *preferred_s);
                put(bytes, 16, &prefix.octets());
            }
            Opt::Redirected(packet) => put(bytes, 8, packet),
            Opt::Mtu(mtu) => put_u32(bytes, 4, *mtu),
            Opt::Route { prefix_len, preference, lifetime_s, prefix } => {
                bytes[2] = *prefix_len;
                bytes[3] = (preference & 3) << 3;
                put_u32(bytes, 4, *lifetime_s);
                put(bytes, 8, prefix);
            }
            Opt::DnsServers { lifetime_s, servers: tail } | Opt::DnsSearch { lifetime_s, names: tail } => {
                put_u32(bytes, 4, *lifetime_s);
                put(bytes, 8, tail);
            }
            Opt::Nonce(data) | Opt::Other { data, .. } => put(bytes, 2, data),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::icmpv6;

    fn address(text: &str) -> Ipv6Addr {
        text.parse().expect("an address")
    }

    #[test]
    fn an_advertisement_of_linux() {
        // From ipv6.pcap.
        let bytes: [u8; 32] = [
            0x88, 0x00, 0x9c, 0x8a, 0xe0, 0x00, 0x00, 0x00, 0xfd, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x01, 0x02, 0x01, 0x02, 0x00, 0x00, 0x00, 0x00, 0x01,
        ];
        let message = icmpv6::Message::Nd(Message::NeighborAdvertisement { flags: NeighborFlags::all(), target: address("fd00:1::1") });
        let (src, dst) = (address("fd00:1::1"), address("fd00:1::10"));
        assert!(icmpv6::verify_checksum(src, dst, &bytes));
        assert_eq!(icmpv6::Message::parse(&bytes), Ok((message, 24)));
        let mac = Opt::TargetAddress(Mac([2, 0, 0, 0, 0, 1]));
        assert_eq!(options(&bytes[24..]).collect::<Vec<_>>(), [Ok(mac)]);
        let mut out = [0xa5; 32];
        assert_eq!(mac.emit(&mut out[24..]), Ok(()));
        message.emit(src, dst, &mut out);
        assert_eq!(out, bytes);
    }

    #[test]
    fn the_options_of_a_router() {
        let prefix = address("fd00:9::");
        let dns = address("fd00:1::53").octets();
        let written = [
            Opt::Prefix {
                prefix_len: 64,
                flags: PrefixFlags::ON_LINK | PrefixFlags::AUTONOMOUS,
                valid_s: 86400,
                preferred_s: 14400,
                prefix,
            },
            Opt::SourceAddress(Mac([2, 0, 0, 0, 0, 1])),
            Opt::Mtu(1400),
            Opt::DnsServers { lifetime_s: 600, servers: &dns },
        ];
        // From nd-mld.pcap: the router advertisement.
        let bytes: [u8; 72] = [
            0x03, 0x04, 0x40, 0xc0, 0x00, 0x01, 0x51, 0x80, 0x00, 0x00, 0x38, 0x40, 0x00, 0x00, 0x00, 0x00, 0xfd, 0x00, 0x00, 0x09, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x01, 0x02, 0x00, 0x00, 0x00, 0x00, 0x01, 0x05, 0x01,
            0x00, 0x00, 0x00, 0x00, 0x05, 0x78, 0x19, 0x03, 0x00, 0x00, 0x00, 0x00, 0x02, 0x58, 0xfd, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x53,
        ];
        assert_eq!(options(&bytes).map_while(Result::ok).collect::<Vec<_>>(), written);
        let mut out = [0xa5; 72];
        let mut at = 0;
        for option in written {
            assert_eq!(option.emit(&mut out[at..]), Ok(()));
            at += option.len();
        }
        assert_eq!(out, bytes);
    }

    #[test]
    fn other_options_and_their_limits() {
        let long = [7; 2046];
        for (option, len) in [
            (Opt::Redirected(&[1; 16]), 24),
            (Opt::Nonce(&[2; 6]), 8),
            (Opt::Route { prefix_len: 48, preference: 3, lifetime_s: 9, prefix: &[3; 8] }, 16),
            (Opt::DnsSearch { lifetime_s: 9, names: &[0; 8] }, 16),
            (Opt::Other { kind: 200, data: &long[..2038] }, 2040),
            // A known type with a length that is not its own.
            (Opt::Other { kind: option_kind::PREFIX, data: &[0; 6] }, 8),
        ] {
            let mut out = vec![0xa5; len];
            assert_eq!((option.len(), option.emit(&mut out)), (len, Ok(())));
            assert_eq!(options(&out).collect::<Vec<_>>(), [Ok(option)]);
        }
        let mut out = [0; 2048];
        let too_long = Opt::Other { kind: 200, data: &long };
        assert_eq!(too_long.emit(&mut out), Err(Error::NoRoom));
        for broken in [&[1, 0, 0, 0, 0, 0, 0, 0][..], &[1, 2, 0, 0, 0, 0, 0, 0], &[1]] {
            let read: Vec<_> = options(broken).collect();
            assert_eq!(read, [Err(Error::BadOptionLength)]);
        }
    }
}
