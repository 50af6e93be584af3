//! Addresses as raw and ICMP sockets take them: the rules of `net/ipv4/raw.c`, `net/ipv6/raw.c` and `net/ipv4/ping.c`.

use crate::address::{AF_INET, AF_INET6, AF_UNSPEC, SOCKADDR_BYTES_MAX, family, for_bind, for_connect, inet_fields};
use crate::errno::Errno;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use weft_core::table::Family;

/// `struct sockaddr_in6` without its scope, as old programs pass it (SIN6_LEN_RFC2133).
const SOCKADDR_IN6_BYTES_OLD: usize = 24;
/// Bytes of `struct sockaddr_in6`.
const SOCKADDR_IN6_BYTES: usize = 28;

/// Family and address of a `struct sockaddr_in6`; without the scope where it is not there.
fn inet6_fields(bytes: &[u8]) -> Option<(i32, SocketAddrV6)> {
    if bytes.len() < SOCKADDR_IN6_BYTES_OLD || bytes.len() > SOCKADDR_BYTES_MAX {
        return None;
    }
    let word = |at: usize| bytes.get(at..at + 4).and_then(|word| <[u8; 4]>::try_from(word).ok());
    let octets: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
    let port = u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]);
    let scope = word(SOCKADDR_IN6_BYTES_OLD).map_or(0, u32::from_ne_bytes);
    let address = SocketAddrV6::new(Ipv6Addr::from(octets), port, u32::from_be_bytes(word(4)?), scope);
    Some((family(bytes).ok()?, address))
}

/// An address for bind(2) of a raw socket. `raw_bind` looks at the length only, `rawv6_bind` at the family too.
pub(crate) fn for_raw_bind(own: Family, bytes: &[u8]) -> Result<IpAddr, Errno> {
    match own {
        Family::V4 => inet_fields(bytes).map(|(_, address)| address.ip()).ok_or(Errno::EINVAL),
        Family::V6 => {
            let (family, address) = inet6_fields(bytes).ok_or(Errno::EINVAL)?;
            // "if (addr->sin6_family != AF_INET6) return -EINVAL; … /* Raw sockets are IPv6 only */ if (addr_type == IPV6_ADDR_MAPPED)
            //  return -EADDRNOTAVAIL;"
            match (family, address.ip().to_ipv4_mapped()) {
                (AF_INET6, None) => Ok(IpAddr::V6(*address.ip())),
                (AF_INET6, Some(_)) => Err(Errno::EADDRNOTAVAIL),
                _ => Err(Errno::EINVAL),
            }
        }
    }
}

/// An address for sendto(2) on a raw socket; over IPv6 the port is a protocol. A family of AF_UNSPEC passes.
pub(crate) fn for_raw_send(own: Family, bytes: &[u8]) -> Result<SocketAddr, Errno> {
    let (family, address) = match own {
        Family::V4 => inet_fields(bytes).map(|(family, address)| (i32::from(family), address)),
        Family::V6 => inet6_fields(bytes).map(|(family, address)| (family, SocketAddr::V6(address))),
    }
    .ok_or(Errno::EINVAL)?;
    let right = if own == Family::V4 { AF_INET } else { AF_INET6 };
    if family == right || family == AF_UNSPEC { Ok(address) } else { Err(Errno::EAFNOSUPPORT) }
}

/// An address for bind(2) of an ICMP datagram socket (`ping_check_bind_addr`).
pub(crate) fn for_ping_bind(own: Family, bytes: &[u8]) -> Result<SocketAddr, Errno> {
    match own {
        Family::V4 => for_bind(bytes),
        Family::V6 => {
            // "if (addr_len < sizeof(*addr)) return -EINVAL; if (addr->sin6_family != AF_INET6) return -EAFNOSUPPORT;"
            if bytes.len() < SOCKADDR_IN6_BYTES {
                return Err(Errno::EINVAL);
            }
            let (family, address) = inet6_fields(bytes).ok_or(Errno::EINVAL)?;
            if family == AF_INET6 { Ok(SocketAddr::V6(address)) } else { Err(Errno::EAFNOSUPPORT) }
        }
    }
}

/// An address for sendto(2) on an ICMP datagram socket; the port does not matter.
pub(crate) fn for_ping_send(own: Family, bytes: &[u8]) -> Result<SocketAddr, Errno> {
    match own {
        Family::V4 => for_connect(bytes),
        Family::V6 => for_ping_bind(own, bytes),
    }
}
