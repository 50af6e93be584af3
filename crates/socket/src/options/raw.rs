//! SOL_RAW and SOL_ICMPV6 (linux/net/ipv4/raw.c: do_raw_setsockopt; linux/net/ipv6/raw.c: rawv6_setsockopt).

use super::row::{Access, Applies::Raw, Get, OptionRow, Set, flag, row};
use crate::abi::*;
use crate::address::AF_INET6;
use crate::errno::Errno;

/// Bytes of `struct icmp_filter` and `struct icmp6_filter`.
const ICMP_FILTER_BYTES: usize = 4;
const ICMP6_FILTER_BYTES: usize = 32;

pub(super) const ROWS: &[OptionRow] = &[
    row(
        SOL_RAW,
        ICMP_FILTER,
        "ICMP_FILTER",
        Raw,
        Set::Bytes(|a, value| {
            // do_rawv6_setsockopt: "if (optlen < sizeof(int)) return -EINVAL;" stands before the names that it knows.
            if a.socket()?.domain == AF_INET6 {
                int(value)?;
            }
            of_protocol(a, false, IPPROTO_ICMP)?;
            set_filter(a, value, ICMP_FILTER_BYTES)
        }),
        Get::Bytes(|a, length| {
            of_protocol(a, false, IPPROTO_ICMP)?;
            filter(a, length, ICMP_FILTER_BYTES)
        }),
    ),
    row(
        SOL_ICMPV6,
        ICMPV6_FILTER,
        "ICMPV6_FILTER",
        Raw,
        Set::Bytes(|a, value| {
            of_protocol(a, true, IPPROTO_ICMPV6)?;
            set_filter(a, value, ICMP6_FILTER_BYTES)
        }),
        Get::Bytes(|a, length| {
            of_protocol(a, true, IPPROTO_ICMPV6)?;
            filter(a, length, ICMP6_FILTER_BYTES)
        }),
    ),
    row(SOL_RAW, IPV6_CHECKSUM, "IPV6_CHECKSUM (SOL_RAW)", Raw, Set::Bytes(|a, value| set_checksum(a, value, SOL_RAW)), Get::Int(checksum)),
    row(SOL_IPV6, IPV6_CHECKSUM, "IPV6_CHECKSUM", Raw, Set::Bytes(|a, value| set_checksum(a, value, SOL_IPV6)), Get::Int(checksum)),
    row(SOL_IPV6, IPV6_HDRINCL, "IPV6_HDRINCL", Raw, Set::Bytes(set_header_included), Get::Int(header_included)),
    row(SOL_RAW, IPV6_HDRINCL, "IPV6_HDRINCL (SOL_RAW)", Raw, Set::Bytes(set_header_included), Get::Int(header_included)),
];

/// "if (inet_sk(sk)->inet_num != IPPROTO_ICMP) return -EOPNOTSUPP;", and no such option in the other family.
fn of_protocol(a: &mut Access<'_, '_>, v6: bool, protocol: i32) -> Result<(), Errno> {
    let socket = a.socket()?;
    match (socket.domain == AF_INET6) == v6 {
        true if socket.protocol == protocol => Ok(()),
        true => Err(Errno::EOPNOTSUPP),
        false => Err(Errno::ENOPROTOOPT),
    }
}

/// "if (optlen > sizeof(struct icmp_filter)) optlen = sizeof(struct icmp_filter);": fewer bytes change the first ones only.
fn set_filter(a: &mut Access<'_, '_>, value: &[u8], bytes: usize) -> Result<(), Errno> {
    let raw = a.socket()?.raw_mut().ok_or(Errno::ENOPROTOOPT)?;
    let mut all: Vec<u8> = raw.filter.iter().flat_map(|word| word.to_ne_bytes()).collect();
    for (place, byte) in all.iter_mut().zip(value.iter().take(bytes)) {
        *place = *byte;
    }
    for (word, four) in raw.filter.iter_mut().zip(all.as_chunks::<4>().0) {
        *word = u32::from_ne_bytes(*four);
    }
    Ok(())
}

fn filter(a: &mut Access<'_, '_>, length: usize, bytes: usize) -> Result<Vec<u8>, Errno> {
    let raw = a.socket()?.raw().ok_or(Errno::ENOPROTOOPT)?;
    Ok(raw.filter.iter().flat_map(|word| word.to_ne_bytes()).take(length.min(bytes)).collect())
}

fn int(value: &[u8]) -> Result<i32, Errno> {
    value.first_chunk::<4>().map(|bytes| i32::from_ne_bytes(*bytes)).ok_or(Errno::EINVAL)
}

fn only_v6(a: &mut Access<'_, '_>) -> Result<(), Errno> {
    if a.socket()?.domain == AF_INET6 { Ok(()) } else { Err(Errno::ENOPROTOOPT) }
}

/// IPV6_CHECKSUM, at SOL_RAW and SOL_IPV6 (do_rawv6_setsockopt).
fn set_checksum(a: &mut Access<'_, '_>, value: &[u8], level: i32) -> Result<(), Errno> {
    only_v6(a)?;
    let value = int(value)?;
    let icmp = a.socket()?.protocol == IPPROTO_ICMPV6;
    // "RFC3542 tells that IPV6_CHECKSUM socket option in the IPPROTO_IPV6 level is not allowed on ICMPv6 sockets."
    // "You may get strange result with a positive odd offset; RFC2292bis agrees with me."
    if icmp && level == SOL_IPV6 || value > 0 && value & 1 == 1 {
        return Err(Errno::EINVAL);
    }
    let raw = a.socket()?.raw_mut().ok_or(Errno::ENOPROTOOPT)?;
    raw.checksum_at = u32::try_from(value).ok();
    Ok(())
}

fn checksum(a: &mut Access<'_, '_>) -> Result<i32, Errno> {
    only_v6(a)?;
    Ok(a.socket()?.raw().ok_or(Errno::ENOPROTOOPT)?.checksum_at.map_or(-1, |at| at as i32))
}

/// IPV6_HDRINCL, at SOL_RAW and SOL_IPV6.
fn set_header_included(a: &mut Access<'_, '_>, value: &[u8]) -> Result<(), Errno> {
    only_v6(a)?;
    let value = int(value)?;
    Ok(a.socket()?.raw_mut().ok_or(Errno::EINVAL)?.header_included = value != 0)
}

fn header_included(a: &mut Access<'_, '_>) -> Result<i32, Errno> {
    only_v6(a)?;
    flag(a.socket()?.raw().is_some_and(|raw| raw.header_included))
}
