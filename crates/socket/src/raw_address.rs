//! Addresses as raw and ICMP sockets take them: the rules of `net/ipv4/raw.c`, `net/ipv6/raw.c` and `net/ipv4/ping.c`.

use crate::address::{AF_INET, AF_INET6, AF_UNSPEC, SOCKADDR_IN6_BYTES, family, for_bind, for_connect, inet_fields, inet6_fields};
use crate::errno::Errno;
use std::net::{SocketAddr, SocketAddrV6};
use weft_core::table::Family;

/// Family and address of a `struct sockaddr_in6`, whatever its family says. EINVAL when too short or impossibly long.
fn any_inet6(bytes: &[u8]) -> Result<(i32, SocketAddrV6), Errno> {
    let own = family(bytes)?;
    let mut fields = bytes.to_vec();
    if let Some(family) = fields.get_mut(..2) {
        family.copy_from_slice(&(AF_INET6 as u16).to_ne_bytes());
    }
    inet6_fields(&fields).map(|address| (own, address))
}

/// An address for bind(2) of a raw socket. `raw_bind` looks at the length only, `rawv6_bind` at the family too.
pub(crate) fn for_raw_bind(own: Family, bytes: &[u8]) -> Result<SocketAddr, Errno> {
    match own {
        Family::V4 => inet_fields(bytes).map(|(_, address)| address).ok_or(Errno::EINVAL),
        Family::V6 => {
            let (family, address) = any_inet6(bytes)?;
            // "if (addr->sin6_family != AF_INET6) return -EINVAL; … /* Raw sockets are IPv6 only */ if (addr_type == IPV6_ADDR_MAPPED)
            //  return -EADDRNOTAVAIL;"
            match (family, address.ip().to_ipv4_mapped()) {
                (AF_INET6, None) => Ok(SocketAddr::V6(address)),
                (AF_INET6, Some(_)) => Err(Errno::EADDRNOTAVAIL),
                _ => Err(Errno::EINVAL),
            }
        }
    }
}

/// An address for sendto(2) on a raw socket; over IPv6 the port is a protocol. A family of AF_UNSPEC passes.
pub(crate) fn for_raw_send(own: Family, bytes: &[u8]) -> Result<SocketAddr, Errno> {
    let (family, address) = match own {
        Family::V4 => inet_fields(bytes).map(|(family, address)| (i32::from(family), address)).ok_or(Errno::EINVAL)?,
        Family::V6 => any_inet6(bytes).map(|(family, address)| (family, SocketAddr::V6(address)))?,
    };
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
            let (family, address) = any_inet6(bytes)?;
            if family != AF_INET6 {
                return Err(Errno::EAFNOSUPPORT);
            }
            Ok(SocketAddr::V6(address))
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
