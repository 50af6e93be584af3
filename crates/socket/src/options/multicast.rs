//! Groups and their sources, at SOL_IP and SOL_IPV6: IP_ADD_MEMBERSHIP and its kin, MCAST_*, IP_MSFILTER, IPV6_MULTICAST_*
//! (linux/net/ipv4/ip_sockglue.c, linux/net/ipv6/ipv6_sockglue.c).

use super::row::{Access, Applies::Any, Get, OptionRow, Set, flag, row, within};
use crate::abi::*;
use crate::address::{AF_INET, AF_INET6, to_bytes};
use crate::errno::Errno;
use crate::membership::Membership;
use crate::multicast::{GroupRequest, SOURCES_MAX, SOURCES_MAX_V6, interface_of};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use weft_core::table::Table;
use weft_core::{Answer, InterfaceIndex, Query};

/// `struct sockaddr_storage`.
const STORAGE_BYTES: usize = 128;
/// `struct group_req`, `struct group_source_req`, `struct group_filter` without sources.
const GROUP_REQUEST_BYTES: usize = 8 + STORAGE_BYTES;
const SOURCE_REQUEST_BYTES: usize = GROUP_REQUEST_BYTES + STORAGE_BYTES;
const GROUP_FILTER_BYTES: usize = GROUP_REQUEST_BYTES + 8;
/// `struct ip_mreq_source`, and `struct ip_msfilter` without sources.
const MREQ_SOURCE_BYTES: usize = 12;
const MSFILTER_BYTES: usize = 16;
/// net.core.optmem_max
const VALUE_BYTES_MAX: usize = 131_072;

const WRITE_ONLY: Get = Get::Never(Errno::ENOPROTOOPT);

/// A row that is only set, from bytes.
macro_rules! set_row {
    ($level:ident, $name:ident, $set:expr) => {
        row($level, $name, stringify!($name), Any, Set::Bytes($set), WRITE_ONLY)
    };
    ($level:ident, $name:ident, $label:literal, $set:expr) => {
        row($level, $name, $label, Any, Set::Bytes($set), WRITE_ONLY)
    };
}

pub(super) const ROWS: &[OptionRow] = &[
    set_row!(SOL_IP, IP_ADD_MEMBERSHIP, |a, v| membership(a, v, true)),
    set_row!(SOL_IP, IP_DROP_MEMBERSHIP, |a, v| membership(a, v, false)),
    set_row!(SOL_IP, IP_BLOCK_SOURCE, |a, v| mreq_source(a, v, Source::Block)),
    set_row!(SOL_IP, IP_UNBLOCK_SOURCE, |a, v| mreq_source(a, v, Source::Unblock)),
    set_row!(SOL_IP, IP_ADD_SOURCE_MEMBERSHIP, |a, v| mreq_source(a, v, Source::Join)),
    set_row!(SOL_IP, IP_DROP_SOURCE_MEMBERSHIP, |a, v| mreq_source(a, v, Source::Leave)),
    row(SOL_IP, IP_MSFILTER, "IP_MSFILTER", Any, Set::Bytes(msfilter), Get::Asked(read_msfilter)),
    set_row!(SOL_IP, MCAST_JOIN_GROUP, |a, v| group(a, v, false, true)),
    set_row!(SOL_IP, MCAST_LEAVE_GROUP, |a, v| group(a, v, false, false)),
    set_row!(SOL_IP, MCAST_BLOCK_SOURCE, |a, v| group_source(a, v, false, Source::Block)),
    set_row!(SOL_IP, MCAST_UNBLOCK_SOURCE, |a, v| group_source(a, v, false, Source::Unblock)),
    set_row!(SOL_IP, MCAST_JOIN_SOURCE_GROUP, |a, v| group_source(a, v, false, Source::Join)),
    set_row!(SOL_IP, MCAST_LEAVE_SOURCE_GROUP, |a, v| group_source(a, v, false, Source::Leave)),
    row(
        SOL_IP,
        MCAST_MSFILTER,
        "MCAST_MSFILTER",
        Any,
        Set::Bytes(|a, v| group_filter(a, v, false)),
        Get::Asked(|a, v, length| read_group_filter(a, v, length, false)),
    ),
    set_row!(SOL_IPV6, IPV6_ADD_MEMBERSHIP, |a, v| membership6(a, v, true)),
    set_row!(SOL_IPV6, IPV6_DROP_MEMBERSHIP, |a, v| membership6(a, v, false)),
    set_row!(SOL_IPV6, MCAST_JOIN_GROUP, "MCAST_JOIN_GROUP (IPv6)", |a, v| group(a, v, true, true)),
    set_row!(SOL_IPV6, MCAST_LEAVE_GROUP, "MCAST_LEAVE_GROUP (IPv6)", |a, v| group(a, v, true, false)),
    set_row!(SOL_IPV6, MCAST_BLOCK_SOURCE, "MCAST_BLOCK_SOURCE (IPv6)", |a, v| group_source(a, v, true, Source::Block)),
    set_row!(SOL_IPV6, MCAST_UNBLOCK_SOURCE, "MCAST_UNBLOCK_SOURCE (IPv6)", |a, v| group_source(a, v, true, Source::Unblock)),
    set_row!(SOL_IPV6, MCAST_JOIN_SOURCE_GROUP, "MCAST_JOIN_SOURCE_GROUP (IPv6)", |a, v| group_source(a, v, true, Source::Join)),
    set_row!(SOL_IPV6, MCAST_LEAVE_SOURCE_GROUP, "MCAST_LEAVE_SOURCE_GROUP (IPv6)", |a, v| group_source(a, v, true, Source::Leave)),
    row(
        SOL_IPV6,
        MCAST_MSFILTER,
        "MCAST_MSFILTER (IPv6)",
        Any,
        Set::Bytes(|a, v| group_filter(a, v, true)),
        Get::Asked(|a, v, length| read_group_filter(a, v, length, true)),
    ),
    row(
        SOL_IPV6,
        IPV6_MULTICAST_IF,
        "IPV6_MULTICAST_IF",
        Any,
        Set::Bytes(set_interface6),
        Get::Int(|a| Ok(a.options()?.multicast6_index as i32)),
    ),
    row(
        SOL_IPV6,
        IPV6_MULTICAST_HOPS,
        "IPV6_MULTICAST_HOPS",
        Any,
        Set::Bytes(set_hops),
        Get::Int(|a| Ok(i32::from(a.options()?.multicast6_hops))),
    ),
    row(
        SOL_IPV6,
        IPV6_MULTICAST_LOOP,
        "IPV6_MULTICAST_LOOP",
        Any,
        // "if (val != valbool) goto e_inval;"
        Set::Int(|a, v| Ok(a.options()?.multicast6_loop = within(v, 0, 1)? == 1)),
        Get::Int(|a| flag(a.options()?.multicast6_loop)),
    ),
    row(
        SOL_IPV6,
        IPV6_MULTICAST_ALL,
        "IPV6_MULTICAST_ALL",
        Any,
        Set::Int(|a, v| Ok(a.options()?.multicast6_all = v != 0)),
        Get::Int(|a| flag(a.options()?.multicast6_all)),
    ),
];

/// What a request about a source is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Block,
    Unblock,
    Join,
    Leave,
}

fn int(value: &[u8]) -> Result<i32, Errno> {
    value.first_chunk::<4>().map(|bytes| i32::from_ne_bytes(*bytes)).ok_or(Errno::EINVAL)
}

fn word(value: &[u8], at: usize) -> Option<[u8; 4]> {
    value.get(at..at + 4)?.try_into().ok()
}

fn v4(value: &[u8], at: usize) -> Option<Ipv4Addr> {
    word(value, at).map(Ipv4Addr::from)
}

/// "if (inet_test_bit(IS_ICSK, sk)) break;" with err = -EPROTO.
fn no_stream(a: &mut Access<'_, '_>) -> Result<(), Errno> {
    if a.stream().is_ok() { Err(Errno::EPROTO) } else { Ok(()) }
}

/// struct ip_mreq (group, interface address) or struct ip_mreqn (group, address, interface number).
fn membership(a: &mut Access<'_, '_>, value: &[u8], join: bool) -> Result<(), Errno> {
    no_stream(a)?;
    let (group, address) = v4(value, 0).zip(v4(value, 4)).ok_or(Errno::EINVAL)?;
    let interface = word(value, 8).map_or(0, u32::from_ne_bytes);
    let request = GroupRequest { group: group.into(), address, interface };
    if join { a.groups.join(a.sockets, a.id, request, true, a.cx).map(drop) } else { a.groups.leave(a.sockets, a.id, request, a.cx) }
}

/// struct ipv6_mreq: group, interface number.
fn membership6(a: &mut Access<'_, '_>, value: &[u8], join: bool) -> Result<(), Errno> {
    let (group, rest) = value.split_first_chunk::<16>().ok_or(Errno::EINVAL)?;
    let interface = u32::from_ne_bytes(word(rest, 0).ok_or(Errno::EINVAL)?);
    no_stream(a)?;
    let request = GroupRequest { group: Ipv6Addr::from(*group).into(), address: Ipv4Addr::UNSPECIFIED, interface };
    if join { a.groups.join(a.sockets, a.id, request, true, a.cx).map(drop) } else { a.groups.leave(a.sockets, a.id, request, a.cx) }
}

/// struct ip_mreq_source: group, interface address, source.
fn mreq_source(a: &mut Access<'_, '_>, value: &[u8], what: Source) -> Result<(), Errno> {
    if value.len() != MREQ_SOURCE_BYTES {
        return Err(Errno::EINVAL);
    }
    let (Some(group), Some(address), Some(source)) = (v4(value, 0), v4(value, 4), v4(value, 8)) else { return Err(Errno::EINVAL) };
    change_source(a, GroupRequest { group: group.into(), address, interface: 0 }, source.into(), what)
}

/// What IP_*_SOURCE* and MCAST_*_SOURCE* come to. To join with a source is to join the group with none, then to add the source.
fn change_source(a: &mut Access<'_, '_>, mut request: GroupRequest, source: IpAddr, what: Source) -> Result<(), Errno> {
    if what == Source::Join {
        // "prior join w/ different source is ok"
        match a.groups.join(a.sockets, a.id, request, false, a.cx) {
            Ok(interface) if request.address.is_unspecified() => request.interface = interface,
            Ok(_) | Err(Errno::EADDRINUSE) => {}
            Err(error) => return Err(error),
        }
    }
    let exclude = matches!(what, Source::Block | Source::Unblock);
    let add = matches!(what, Source::Block | Source::Join);
    a.groups.change_source(a.sockets, a.id, request, source, exclude, add, a.cx)
}

/// The address in a `struct sockaddr_in6`.
fn v6_at(value: &[u8], at: usize) -> Option<IpAddr> {
    Some(Ipv6Addr::from(*value.get(at + 8..at + 24)?.first_chunk::<16>()?).into())
}

/// The address in a `struct sockaddr_storage` of this family. The error is the caller's.
fn storage(value: &[u8], at: usize, v6: bool) -> Option<IpAddr> {
    let family = i32::from(u16::from_ne_bytes(value.get(at..at + 2)?.try_into().ok()?));
    match v6 {
        false if family == AF_INET => v4(value, at + 4).map(IpAddr::V4),
        true if family == AF_INET6 => v6_at(value, at),
        _ => None,
    }
}

fn request_of(value: &[u8], group: IpAddr) -> GroupRequest {
    GroupRequest { group, address: Ipv4Addr::UNSPECIFIED, interface: word(value, 0).map_or(0, u32::from_ne_bytes) }
}

/// struct group_req: interface number, group.
fn group(a: &mut Access<'_, '_>, value: &[u8], v6: bool, join: bool) -> Result<(), Errno> {
    if value.len() < GROUP_REQUEST_BYTES {
        return Err(Errno::EINVAL);
    }
    // ip_mcast_join_leave: "if (psin->sin_family != AF_INET) return -EINVAL;", ipv6_mcast_join_leave: "-EADDRNOTAVAIL".
    let group = storage(value, 8, v6).ok_or(if v6 { Errno::EADDRNOTAVAIL } else { Errno::EINVAL })?;
    let request = request_of(value, group);
    if join { a.groups.join(a.sockets, a.id, request, true, a.cx).map(drop) } else { a.groups.leave(a.sockets, a.id, request, a.cx) }
}

/// struct group_source_req: interface number, group, source.
fn group_source(a: &mut Access<'_, '_>, value: &[u8], v6: bool, what: Source) -> Result<(), Errno> {
    // do_mcast_group_source: "if (optlen != sizeof(struct group_source_req)) return -EINVAL;", of IPv6 "if (optlen < …)".
    if value.len() < SOURCE_REQUEST_BYTES || !v6 && value.len() > SOURCE_REQUEST_BYTES {
        return Err(Errno::EINVAL);
    }
    let both = storage(value, 8, v6).zip(storage(value, GROUP_REQUEST_BYTES, v6));
    let (group, source) = both.ok_or(Errno::EADDRNOTAVAIL)?;
    change_source(a, request_of(value, group), source, what)
}

/// MCAST_EXCLUDE and MCAST_INCLUDE.
fn is_exclude(mode: u32) -> Result<bool, Errno> {
    match mode {
        0 => Ok(true),
        1 => Ok(false),
        _ => Err(Errno::EINVAL),
    }
}

/// struct ip_msfilter: group, interface address, mode, number of sources, sources.
fn msfilter(a: &mut Access<'_, '_>, value: &[u8]) -> Result<(), Errno> {
    if value.len() < MSFILTER_BYTES {
        return Err(Errno::EINVAL);
    }
    if value.len() > VALUE_BYTES_MAX {
        return Err(Errno::ENOBUFS);
    }
    let number = |at: usize| word(value, at).map_or(0, u32::from_ne_bytes);
    let (Some(group), Some(address), mode, count) = (v4(value, 0), v4(value, 4), number(8), number(12) as usize) else {
        return Err(Errno::EINVAL);
    };
    if count > SOURCES_MAX {
        return Err(Errno::ENOBUFS);
    }
    if MSFILTER_BYTES + count * 4 > value.len() {
        return Err(Errno::EINVAL);
    }
    let sources = (0..count).filter_map(|at| v4(value, MSFILTER_BYTES + at * 4)).map(IpAddr::V4).collect();
    if !group.is_multicast() {
        return Err(Errno::EINVAL);
    }
    let request = GroupRequest { group: group.into(), address, interface: 0 };
    a.groups.set_sources(a.sockets, a.id, request, is_exclude(mode)?, sources, a.cx)
}

/// struct group_filter: interface number, group, mode, number of sources, sources.
fn group_filter(a: &mut Access<'_, '_>, value: &[u8], v6: bool) -> Result<(), Errno> {
    if value.len() < GROUP_FILTER_BYTES {
        return Err(Errno::EINVAL);
    }
    if value.len() > VALUE_BYTES_MAX {
        return Err(Errno::ENOBUFS);
    }
    let number = |at: usize| word(value, at).map_or(0, u32::from_ne_bytes);
    let (mode, count) = (number(GROUP_REQUEST_BYTES), number(GROUP_REQUEST_BYTES + 4) as usize);
    if count > if v6 { SOURCES_MAX_V6 } else { SOURCES_MAX } {
        return Err(Errno::ENOBUFS);
    }
    if GROUP_FILTER_BYTES + count * STORAGE_BYTES > value.len() {
        return Err(Errno::EINVAL);
    }
    let wrong_family = if v6 { Errno::EINVAL } else { Errno::EADDRNOTAVAIL };
    let group = storage(value, 8, v6).ok_or(wrong_family)?;
    let at = |index: usize| GROUP_FILTER_BYTES + index * STORAGE_BYTES;
    // ip6_mc_msfilter does not look at the families of the sources.
    let sources: Option<Vec<IpAddr>> =
        (0..count).map(|index| if v6 { v6_at(value, at(index)) } else { storage(value, at(index), false) }).collect();
    let sources = sources.ok_or(wrong_family)?;
    if !group.is_multicast() {
        return Err(Errno::EINVAL);
    }
    a.groups.set_sources(a.sockets, a.id, request_of(value, group), is_exclude(mode)?, sources, a.cx)
}

/// What a filter is told as: MCAST_EXCLUDE or MCAST_INCLUDE, how many sources it has, and as many of them as there is room for.
fn told(entry: &Membership, room: u32) -> (u32, u32, impl Iterator<Item = IpAddr>) {
    let sources = entry.sources.as_deref().unwrap_or_default();
    (u32::from(!entry.exclude), sources.len() as u32, sources.iter().copied().take(room as usize))
}

/// The membership that a filter is read of. "must have a prior join": -EADDRNOTAVAIL.
fn membership_of(a: &mut Access<'_, '_>, group: IpAddr, interface: u32) -> Result<Membership, Errno> {
    let fits = |entry: &&Membership| entry.group == group && entry.interface == interface;
    a.options()?.memberships.iter().find(fits).cloned().ok_or(Errno::EADDRNOTAVAIL)
}

/// `ip_mc_msfget`: of a struct ip_msfilter that says which group, where, and for how many sources there is room, whatever the length.
fn read_msfilter(a: &mut Access<'_, '_>, asked: &[u8], length: usize) -> Result<Vec<u8>, Errno> {
    if length < MSFILTER_BYTES {
        return Err(Errno::EINVAL);
    }
    let (head, room) = asked.get(..MSFILTER_BYTES).zip(word(asked, 12)).ok_or(Errno::EFAULT)?;
    let (group, address) = v4(head, 0).zip(v4(head, 4)).ok_or(Errno::EFAULT)?;
    if !group.is_multicast() {
        return Err(Errno::EINVAL);
    }
    let request = GroupRequest { group: group.into(), address, interface: 0 };
    let interface = interface_of(&mut a.sockets.kinds, &request, a.cx)?;
    let entry = membership_of(a, group.into(), interface)?;
    let (mode, count, sources) = told(&entry, u32::from_ne_bytes(room));
    let mut value = [&head[..8], &mode.to_ne_bytes(), &count.to_ne_bytes()].concat();
    for source in sources {
        if let IpAddr::V4(source) = source {
            value.extend(source.octets());
        }
    }
    Ok(value)
}

/// `ip_mc_gsfget`, `ip6_mc_msfget`: the same of a struct group_filter.
fn read_group_filter(a: &mut Access<'_, '_>, asked: &[u8], length: usize, v6: bool) -> Result<Vec<u8>, Errno> {
    if length < GROUP_FILTER_BYTES {
        return Err(Errno::EINVAL);
    }
    let number = |at: usize| word(asked, at).map(u32::from_ne_bytes);
    let (head, (interface, room)) =
        asked.get(..GROUP_REQUEST_BYTES).zip(number(0).zip(number(GROUP_REQUEST_BYTES + 4))).ok_or(Errno::EFAULT)?;
    let group = storage(head, 8, v6).ok_or(if v6 { Errno::EADDRNOTAVAIL } else { Errno::EINVAL })?;
    if !group.is_multicast() {
        return Err(Errno::EINVAL);
    }
    let entry = membership_of(a, group, interface)?;
    let (mode, count, sources) = told(&entry, room);
    let mut value = [head, &mode.to_ne_bytes(), &count.to_ne_bytes()].concat();
    for source in sources {
        let mut storage = to_bytes(SocketAddr::new(source, 0));
        storage.resize(STORAGE_BYTES, 0);
        value.extend(storage);
    }
    Ok(value)
}

/// IPV6_MULTICAST_IF: "if (sk->sk_type == SOCK_STREAM) return -ENOPROTOOPT; … if (val) { … -ENODEV … if (sk->sk_bound_dev_if &&
/// sk->sk_bound_dev_if != val) -EINVAL }".
fn set_interface6(a: &mut Access<'_, '_>, value: &[u8]) -> Result<(), Errno> {
    if a.stream().is_ok() {
        return Err(Errno::ENOPROTOOPT);
    }
    let index = int(value)? as u32;
    if index != 0 {
        if matches!(a.cx.ask(Table::Interfaces, &Query::Interface(InterfaceIndex(index))), Answer::None) {
            return Err(Errno::ENODEV);
        }
        if !matches!(a.options()?.interface, 0) && a.options()?.interface != index {
            return Err(Errno::EINVAL);
        }
    }
    Ok(a.options()?.multicast6_index = index)
}

/// IPV6_MULTICAST_HOPS: -1 is the default of 1.
fn set_hops(a: &mut Access<'_, '_>, value: &[u8]) -> Result<(), Errno> {
    if a.stream().is_ok() {
        return Err(Errno::ENOPROTOOPT);
    }
    let hops = match within(int(value)?, -1, 255)? {
        -1 => 1,
        hops => hops as u8,
    };
    Ok(a.options()?.multicast6_hops = hops)
}
