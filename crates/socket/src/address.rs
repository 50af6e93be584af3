//! `struct sockaddr` as bytes, and back.
//!
//! Lengths and families are checked where and how Linux checks them; which error a wrong one gives depends on the call, so the functions
//! here are named after the calls' rules. Those of AF_INET6 sockets look at more than the address, and are in `inet6`.
//!
//! Inside, an address is what goes on the wire: an IPv4-mapped one is `SocketAddr::V4` on an AF_INET6 socket too, a link-local one carries its
//! interface as scope, every other IPv6 address scope 0, and the flow label is kept elsewhere. So addresses compare as the kernel's do.

use crate::errno::Errno;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// No family: dissolves a connection.
pub const AF_UNSPEC: i32 = 0;
/// IPv4.
pub const AF_INET: i32 = 2;
/// IPv6.
pub const AF_INET6: i32 = 10;

/// Bytes of `struct sockaddr_in`.
pub const SOCKADDR_IN_BYTES: usize = 16;
/// Bytes of `struct sockaddr_in6`.
pub const SOCKADDR_IN6_BYTES: usize = 28;
/// Bytes of a `struct sockaddr_in6` without its scope (SIN6_LEN_RFC2133): no call asks for more.
pub const SOCKADDR_IN6_BYTES_MIN: usize = 24;
/// Bytes of `struct sockaddr_storage`: no call takes more.
pub const SOCKADDR_BYTES_MAX: usize = 128;

/// The bytes of a `struct sockaddr_in` (16; padding zero) or `struct sockaddr_in6` (28).
pub fn to_bytes(address: SocketAddr) -> Vec<u8> {
    match address {
        SocketAddr::V4(v4) => {
            let mut bytes = vec![0; SOCKADDR_IN_BYTES];
            bytes[..2].copy_from_slice(&(AF_INET as u16).to_ne_bytes());
            bytes[2..4].copy_from_slice(&v4.port().to_be_bytes());
            bytes[4..8].copy_from_slice(&v4.ip().octets());
            bytes
        }
        SocketAddr::V6(v6) => {
            let mut bytes = vec![0; SOCKADDR_IN6_BYTES];
            bytes[..2].copy_from_slice(&(AF_INET6 as u16).to_ne_bytes());
            bytes[2..4].copy_from_slice(&v6.port().to_be_bytes());
            bytes[4..8].copy_from_slice(&v6.flowinfo().to_be_bytes());
            bytes[8..24].copy_from_slice(&v6.ip().octets());
            bytes[24..28].copy_from_slice(&v6.scope_id().to_ne_bytes());
            bytes
        }
    }
}

/// The address as a socket of this family tells it: AF_INET6 sockets map IPv4 addresses (`::ffff:192.0.2.1`).
pub fn of_domain(domain: i32, address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) if domain == AF_INET6 => SocketAddrV6::new(v4.ip().to_ipv6_mapped(), v4.port(), 0, 0).into(),
        other => other,
    }
}

/// [`of_domain`] in bytes.
pub(crate) fn told(domain: i32, address: SocketAddr) -> Vec<u8> {
    to_bytes(of_domain(domain, address))
}

/// No address and no port of this family: `0.0.0.0:0` or `[::]:0`.
pub(crate) const fn unspecified(domain: i32) -> SocketAddr {
    SocketAddr::new(unspecified_ip(domain), 0)
}

/// `0.0.0.0` or `::`.
pub(crate) const fn unspecified_ip(domain: i32) -> IpAddr {
    if domain == AF_INET6 { IpAddr::V6(Ipv6Addr::UNSPECIFIED) } else { IpAddr::V4(Ipv4Addr::UNSPECIFIED) }
}

/// An address in the form in which sockets and transports compare them: with the interface as scope where it needs one.
pub fn scoped(ip: IpAddr, port: u16, interface: u32) -> SocketAddr {
    weft_core::scope::scoped(ip, port, weft_core::InterfaceIndex(interface))
}

/// The family field, if the address is long enough to have one. Longer than any address: EINVAL, as `move_addr_to_kernel` says.
pub(crate) fn family(bytes: &[u8]) -> Result<i32, Errno> {
    match bytes {
        _ if bytes.len() > SOCKADDR_BYTES_MAX => Err(Errno::EINVAL),
        [low, high, ..] => Ok(i32::from(u16::from_ne_bytes([*low, *high]))),
        _ => Err(Errno::EINVAL),
    }
}

pub(crate) fn inet_fields(bytes: &[u8]) -> Option<(u16, SocketAddr)> {
    let &[f0, f1, p0, p1, a, b, c, d, ..] = bytes else { return None };
    if bytes.len() < SOCKADDR_IN_BYTES || bytes.len() > SOCKADDR_BYTES_MAX {
        return None;
    }
    let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(a, b, c, d)), u16::from_be_bytes([p0, p1]));
    Some((u16::from_ne_bytes([f0, f1]), address))
}

/// The fields of a `struct sockaddr_in6`; one of 24 to 27 bytes has no scope. EINVAL when shorter or impossibly long, EAFNOSUPPORT of another
/// family.
pub(crate) fn inet6_fields(bytes: &[u8]) -> Result<SocketAddrV6, Errno> {
    if !(SOCKADDR_IN6_BYTES_MIN..=SOCKADDR_BYTES_MAX).contains(&bytes.len()) {
        return Err(Errno::EINVAL);
    }
    let field = |at: usize| bytes.get(at..at + 4).and_then(|field| <[u8; 4]>::try_from(field).ok());
    let ip = bytes.get(8..24).and_then(|ip| <[u8; 16]>::try_from(ip).ok());
    let (Some([f0, f1, p0, p1]), Some(flow), Some(ip)) = (field(0), field(4), ip) else { return Err(Errno::EINVAL) };
    if i32::from(u16::from_ne_bytes([f0, f1])) != AF_INET6 {
        return Err(Errno::EAFNOSUPPORT);
    }
    let scope = if bytes.len() >= SOCKADDR_IN6_BYTES { field(24).map_or(0, u32::from_ne_bytes) } else { 0 };
    Ok(SocketAddrV6::new(Ipv6Addr::from(ip), u16::from_be_bytes([p0, p1]), u32::from_be_bytes(flow), scope))
}

/// An address for bind(2). `__inet_bind`: AF_UNSPEC passes with INADDR_ANY, as old programs do.
pub(crate) fn for_bind(bytes: &[u8]) -> Result<SocketAddr, Errno> {
    let (family, address) = inet_fields(bytes).ok_or(Errno::EINVAL)?;
    match i32::from(family) {
        AF_INET => Ok(address),
        AF_UNSPEC if address.ip().is_unspecified() => Ok(address),
        _ => Err(Errno::EAFNOSUPPORT),
    }
}

/// An address for connect(2), AF_UNSPEC already dealt with.
pub(crate) fn for_connect(bytes: &[u8]) -> Result<SocketAddr, Errno> {
    let (family, address) = inet_fields(bytes).ok_or(Errno::EINVAL)?;
    if i32::from(family) == AF_INET { Ok(address) } else { Err(Errno::EAFNOSUPPORT) }
}

/// An address for sendto(2) on a datagram socket. `udp_sendmsg`: AF_UNSPEC passes as AF_INET; port 0 is EINVAL.
pub(crate) fn for_send(bytes: &[u8]) -> Result<SocketAddr, Errno> {
    let (family, address) = inet_fields(bytes).ok_or(Errno::EINVAL)?;
    if !matches!(i32::from(family), AF_INET | AF_UNSPEC) {
        return Err(Errno::EAFNOSUPPORT);
    }
    if address.port() == 0 { Err(Errno::EINVAL) } else { Ok(address) }
}

/// Reads the address that a call returned, for adapters and tests.
pub fn parse(bytes: &[u8]) -> Option<SocketAddr> {
    if let Ok(v6) = inet6_fields(bytes) {
        return Some(SocketAddr::V6(v6));
    }
    inet_fields(bytes).filter(|(family, _)| i32::from(*family) == AF_INET).map(|(_, address)| address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_survives_the_way_there_and_back() {
        let address: SocketAddr = "192.0.2.7:4660".parse().unwrap();
        let bytes = to_bytes(address);
        assert_eq!(bytes, [2, 0, 0x12, 0x34, 192, 0, 2, 7, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!((parse(&bytes), for_bind(&bytes)), (Some(address), Ok(address)));
        let address: SocketAddr = SocketAddrV6::new("fe80::1".parse().unwrap(), 4660, 0x12345, 7).into();
        assert_eq!(parse(&to_bytes(address)), Some(address));
    }

    #[test]
    fn an_ipv6_socket_tells_ipv4_addresses_mapped() {
        let address: SocketAddr = "192.0.2.7:80".parse().unwrap();
        assert_eq!(of_domain(AF_INET6, address), "[::ffff:192.0.2.7]:80".parse().unwrap());
        assert_eq!(of_domain(AF_INET, address), address);
        assert_eq!(of_domain(AF_INET6, unspecified(AF_INET6)), "[::]:0".parse().unwrap());
    }

    #[test]
    fn lengths_and_families_are_refused_as_linux_does() {
        let mut bytes = to_bytes("127.0.0.1:80".parse().unwrap());
        assert_eq!(for_bind(&bytes[..15]), Err(Errno::EINVAL));
        assert_eq!(for_connect(&bytes[..15]), Err(Errno::EINVAL));
        assert_eq!(family(&bytes[..1]), Err(Errno::EINVAL));
        assert_eq!(family(&[0; 129]), Err(Errno::EINVAL));
        bytes[0] = 0;
        assert_eq!(for_bind(&bytes), Err(Errno::EAFNOSUPPORT));
        assert_eq!(for_connect(&bytes), Err(Errno::EAFNOSUPPORT));
        assert_eq!(for_send(&bytes).map(|address| address.port()), Ok(80));
        bytes[0] = 10;
        assert_eq!(for_send(&bytes), Err(Errno::EAFNOSUPPORT));
        bytes[..4].copy_from_slice(&[2, 0, 0, 0]);
        assert_eq!(for_send(&bytes), Err(Errno::EINVAL));
    }

    #[test]
    fn an_ipv6_address_needs_24_bytes_and_has_a_scope_from_28_on() {
        let bytes = to_bytes(SocketAddrV6::new("fe80::1".parse().unwrap(), 80, 0, 7).into());
        let scope = |length: usize| inet6_fields(&bytes[..length]).map(|address| address.scope_id());
        assert_eq!((scope(23), scope(24), scope(27), scope(28)), (Err(Errno::EINVAL), Ok(0), Ok(0), Ok(7)));
        assert_eq!(inet6_fields(&[0; 28]), Err(Errno::EAFNOSUPPORT));
    }
}
