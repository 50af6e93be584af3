//! SOL_IP (linux/net/ipv4/ip_sockglue.c: do_ip_setsockopt, do_ip_getsockopt).

use super::row::{Access, Applies::Any, Applies::Stream, Get, OptionRow, Set, flag, row, within};
use crate::abi::*;
use crate::cmsg;
use crate::errno::Errno;
use crate::routes;
use std::net::{IpAddr, Ipv4Addr};
use weft_core::table::{AddressKind, Family, Table};
use weft_core::{Answer, InterfaceIndex, Query, StreamOption};
use weft_wire::ipv4::Prepared;

/// Linux's default TTL (net.ipv4.ip_default_ttl).
const TTL_DEFAULT: i32 = 64;

/// A row of a flag that is kept in `$field`.
macro_rules! flag_row {
    ($name:ident, $field:ident) => {
        flag_row!($name, $field, IntOrByte)
    };
    ($name:ident, $field:ident, $set:ident) => {
        row(
            SOL_IP,
            $name,
            stringify!($name),
            Any,
            Set::$set(|a, v| Ok(a.options()?.$field = v != 0)),
            Get::IntOrByte(|a| flag(a.options()?.$field)),
        )
    };
}

pub(super) const ROWS: &[OptionRow] = &[
    row(SOL_IP, IP_TOS, "IP_TOS", Any, Set::IntOrByte(set_tos), Get::IntOrByte(|a| Ok(i32::from(a.options()?.tos)))),
    row(
        SOL_IP,
        IP_TTL,
        "IP_TTL",
        Any,
        Set::IntOrByte(|a, v| {
            // "if (val != -1 && (val < 1 || val > 255)) goto e_inval;" and -1: the default again
            let ttl = if v == -1 { 0 } else { within(v, 1, 255)? as u8 };
            a.options()?.ttl = ttl;
            a.of_family(false, StreamOption::Ttl(ttl))
        }),
        Get::IntOrByte(|a| {
            Ok(match a.options()?.ttl {
                0 => TTL_DEFAULT,
                ttl => i32::from(ttl),
            })
        }),
    ),
    // Only raw sockets have it; setting it on others: "if (sk->sk_type != SOCK_RAW) return -ENOPROTOOPT;"
    row(
        SOL_IP,
        IP_HDRINCL,
        "IP_HDRINCL",
        Any,
        Set::IntOrByte(|a, v| Ok(a.socket()?.raw_mut().ok_or(Errno::ENOPROTOOPT)?.header_included = v != 0)),
        Get::IntOrByte(|a| flag(a.socket()?.raw().is_some_and(|raw| raw.header_included))),
    ),
    // It keeps netfilter from reassembling what is sent, and there is none: kept. "if (sk->sk_type != SOCK_RAW) return -ENOPROTOOPT;"
    row(
        SOL_IP,
        IP_NODEFRAG,
        "IP_NODEFRAG",
        Any,
        Set::IntOrByte(|a, v| Ok(a.socket()?.raw_mut().ok_or(Errno::ENOPROTOOPT)?.no_defragmentation = v != 0)),
        Get::IntOrByte(|a| flag(a.socket()?.raw().is_some_and(|raw| raw.no_defragmentation))),
    ),
    row(
        SOL_IP,
        IP_OPTIONS,
        "IP_OPTIONS",
        Any,
        Set::Bytes(set_ip_options),
        Get::Bytes(|a, length| {
            let mut given = a.options()?.ip_options.map_or_else(Vec::new, |options| options.given().to_vec());
            given.truncate(length);
            Ok(given)
        }),
    ),
    // Of raw sockets it is not made: packets on their way elsewhere are nobody's here. ip_ra_control: "if (sk->sk_type != SOCK_RAW ||
    // inet_sk(sk)->inet_num == IPPROTO_RAW) return -EINVAL;"
    row(
        SOL_IP,
        IP_ROUTER_ALERT,
        "IP_ROUTER_ALERT",
        Any,
        Set::IntOrByte(|a, _| {
            let socket = a.socket()?;
            Err(if socket.raw().is_some() && socket.protocol != IPPROTO_RAW { Errno::ENOPROTOOPT } else { Errno::EINVAL })
        }),
        Get::IntOrByte(|_| Ok(0)),
    ),
    flag_row!(IP_RECVOPTS, receive_options),
    flag_row!(IP_RETOPTS, return_options),
    // Kept. Nobody labels packets (IP_PASSSEC), and IP_CHECKSUM tells of sums that a device has made of the whole packet, which none does.
    flag_row!(IP_PASSSEC, pass_security),
    flag_row!(IP_CHECKSUM, receive_checksum),
    // "case IP_RECVFRAGSIZE: if (sk->sk_type != SOCK_RAW && sk->sk_type != SOCK_DGRAM) goto e_inval;" Of others it is not made.
    row(
        SOL_IP,
        IP_RECVFRAGSIZE,
        "IP_RECVFRAGSIZE",
        Any,
        Set::IntOrByte(|a, _| Err(if a.stream().is_ok() { Errno::EINVAL } else { Errno::ENOPROTOOPT })),
        Get::IntOrByte(|_| Ok(0)),
    ),
    row(SOL_IP, IP_PKTOPTIONS, "IP_PKTOPTIONS", Stream, Set::Never(Errno::ENOPROTOOPT), Get::Bytes(packet_options)),
    // "case IP_PROTOCOL: val = inet_sk(sk)->inet_num": of a raw socket its protocol, of others the port.
    row(SOL_IP, IP_PROTOCOL, "IP_PROTOCOL", Any, Set::Never(Errno::ENOPROTOOPT), Get::IntOrByte(|a| Ok(i32::from(a.socket()?.number)))),
    flag_row!(IP_PKTINFO, packet_info),
    row(
        SOL_IP,
        IP_MTU_DISCOVER,
        "IP_MTU_DISCOVER",
        Any,
        Set::IntOrByte(|a, v| {
            let how = within(v, IP_PMTUDISC_DONT, IP_PMTUDISC_OMIT)? as u8;
            a.options()?.mtu_discover = how;
            a.of_family(false, StreamOption::MtuDiscover(how))
        }),
        Get::IntOrByte(|a| Ok(i32::from(a.options()?.mtu_discover))),
    ),
    row(
        SOL_IP,
        IP_RECVERR,
        "IP_RECVERR",
        Any,
        Set::IntOrByte(|a, v| {
            a.options()?.receive_errors = v != 0;
            // "if (!val) skb_errqueue_purge(&sk->sk_error_queue);"
            if v == 0 {
                super::control::purge(a)?;
            }
            Ok(())
        }),
        Get::IntOrByte(|a| flag(a.options()?.receive_errors)),
    ),
    flag_row!(IP_RECVTTL, receive_ttl),
    flag_row!(IP_RECVTOS, receive_tos),
    row(SOL_IP, IP_MTU, "IP_MTU", Any, Set::Never(Errno::ENOPROTOOPT), Get::IntOrByte(mtu)),
    // "case IP_FREEBIND: if (optlen < 1) return -EINVAL;", and so of those whose one byte is looked at.
    flag_row!(IP_FREEBIND, freebind, IntOrOneByte),
    // Programs have all rights over their node. It lets a socket bind to any address, and send from there.
    flag_row!(IP_TRANSPARENT, transparent, IntOrOneByte),
    flag_row!(IP_RECVORIGDSTADDR, receive_original_destination),
    row(
        SOL_IP,
        IP_MINTTL,
        "IP_MINTTL",
        Any,
        Set::IntOrOneByte(|a, v| {
            // Streams drop what comes from farther; Linux's datagram sockets only keep the value.
            a.options()?.min_ttl = within(v, 0, 255)? as u8;
            a.transport(StreamOption::MinTtl(v as u8))
        }),
        Get::IntOrByte(|a| Ok(i32::from(a.options()?.min_ttl))),
    ),
    flag_row!(IP_BIND_ADDRESS_NO_PORT, bind_address_no_port),
    row(
        SOL_IP,
        IP_MULTICAST_IF,
        "IP_MULTICAST_IF",
        Any,
        Set::Bytes(set_multicast_interface),
        Get::Bytes(|a, _| Ok(a.options()?.multicast_interface.octets().to_vec())),
    ),
    row(
        SOL_IP,
        IP_MULTICAST_TTL,
        "IP_MULTICAST_TTL",
        Any,
        Set::IntOrOneByte(|a, v| {
            // "if (sk->sk_type == SOCK_STREAM) goto e_inval; … if (val == -1) val = 1; if (val < 0 || val > 255) goto e_inval;"
            not_stream(a)?;
            let ttl = within(if v == -1 { 1 } else { v }, 0, 255)?;
            Ok(a.options()?.multicast_ttl = ttl as u8)
        }),
        Get::IntOrByte(|a| Ok(i32::from(a.options()?.multicast_ttl))),
    ),
    flag_row!(IP_MULTICAST_LOOP, multicast_loop, IntOrOneByte),
    row(
        SOL_IP,
        IP_MULTICAST_ALL,
        "IP_MULTICAST_ALL",
        Any,
        Set::IntOrOneByte(|a, v| Ok(a.options()?.multicast_all = within(v, 0, 1)? == 1)),
        Get::IntOrByte(|a| flag(a.options()?.multicast_all)),
    ),
    row(
        SOL_IP,
        IP_UNICAST_IF,
        "IP_UNICAST_IF",
        Any,
        Set::Bytes(|a, v| {
            let index = unicast_interface(a, v)?;
            Ok(a.options()?.unicast_index = index)
        }),
        Get::IntOrByte(|a| Ok(a.options()?.unicast_index.to_be() as i32)),
    ),
    row(
        SOL_IP,
        IP_LOCAL_PORT_RANGE,
        "IP_LOCAL_PORT_RANGE",
        Any,
        Set::Bytes(set_port_range),
        Get::IntOrByte(|a| {
            let (low, high) = a.options()?.port_range;
            Ok(i32::from(high) << 16 | i32::from(low))
        }),
    ),
];

/// IP_PKTOPTIONS: "if (inet_test_bit(PKTINFO, sk)) { info.ipi_addr.s_addr = READ_ONCE(inet->inet_rcv_saddr); info.ipi_spec_dst.s_addr = …;
/// info.ipi_ifindex = READ_ONCE(inet->mc_index); … } if (inet_test_bit(TTL, sk)) { int hlim = READ_ONCE(inet->mc_ttl); … }". The type of service
/// that came last is not kept.
fn packet_options(a: &mut Access<'_, '_>, length: usize) -> Result<Vec<u8>, Errno> {
    let socket = a.socket()?;
    let options = &socket.options;
    let own = match socket.local.ip() {
        IpAddr::V4(own) => own.octets(),
        IpAddr::V6(_) => [0; 4],
    };
    let mut messages = Vec::new();
    if options.packet_info {
        messages.push((IP_PKTINFO, [options.multicast_index.to_ne_bytes(), own, own].concat()));
    }
    if options.receive_ttl {
        messages.push((IP_TTL, i32::from(options.multicast_ttl).to_ne_bytes().to_vec()));
    }
    if options.receive_tos {
        messages.push((IP_TOS, 0_i32.to_ne_bytes().to_vec()));
    }
    let mut told: Vec<u8> = messages.iter().flat_map(|(kind, data)| cmsg::message(SOL_IP, *kind, data)).collect();
    told.truncate(length);
    Ok(told)
}

/// "if (optlen > 40) goto e_inval; err = ip_options_get(sock_net(sk), &opt, optval, optlen);" Programs have all rights over their node.
fn set_ip_options(a: &mut Access<'_, '_>, value: &[u8]) -> Result<(), Errno> {
    let is_own = |address: Ipv4Addr| {
        let kind = a.cx.ask(Table::Addresses(Family::V4), &Query::AddressKind(address.into()));
        matches!(kind, Answer::AddressKind(AddressKind::Local(_)))
    };
    let prepared = Prepared::new(value, is_own).ok_or(Errno::EINVAL)?;
    a.options()?.ip_options = Some(prepared).filter(|prepared| !prepared.is_empty());
    a.of_family(false, StreamOption::IpOptions(prepared.given().to_vec()))
}

/// rt_tos2priority: TC_PRIO_BESTEFFORT, _BULK, _INTERACTIVE and _INTERACTIVE_BULK by the two upper bits of the old type of service.
fn priority_of(tos: u8) -> i32 {
    match tos & 0x18 {
        0x00 => 0,
        0x08 => 2,
        0x10 => 6,
        _ => 4,
    }
}

fn set_tos(a: &mut Access<'_, '_>, value: i32) -> Result<(), Errno> {
    // __ip_sock_set_tos: "if (sk->sk_type == SOCK_STREAM) { val &= ~INET_ECN_MASK; val |= inet_sk(sk)->tos & INET_ECN_MASK; }"
    let old = a.options()?.tos;
    let tos = if a.stream().is_ok() { (value as u8 & !3) | (old & 3) } else { value as u8 };
    if tos != old {
        a.options()?.priority = priority_of(tos);
    }
    a.options()?.tos = tos;
    a.of_family(false, StreamOption::Tos(tos))
}

/// The path MTU of a connected socket; ENOTCONN otherwise.
pub(super) fn mtu(a: &mut Access<'_, '_>) -> Result<i32, Errno> {
    let socket = a.socket()?;
    let own = socket.local.ip();
    let remote = socket.remote.ok_or(Errno::ENOTCONN)?;
    let source = routes::source_for(own, remote.ip()).map_err(|_| Errno::ENOTCONN)?;
    let route = routes::route(a.sockets.get(a.id)?, remote, source, a.cx).map_err(|_| Errno::ENOTCONN)?;
    // dst_mtu() of IPv4 never exceeds IP_MAX_MTU, whatever the device says.
    let most = if remote.is_ipv4() { 0xffff } else { i32::MAX };
    Ok(i32::try_from(route.mtu).unwrap_or(i32::MAX).min(most))
}

fn not_stream(a: &mut Access<'_, '_>) -> Result<(), Errno> {
    if a.stream().is_ok() { Err(Errno::EINVAL) } else { Ok(()) }
}

/// struct in_addr, struct ip_mreq (group, interface address) or struct ip_mreqn (group, address, interface number).
fn group_request(value: &[u8]) -> Option<(Ipv4Addr, Ipv4Addr, u32)> {
    let address = |at: usize| value.get(at..at + 4).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok()).map(Ipv4Addr::from);
    let index = value.get(8..12).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok()).map_or(0, u32::from_ne_bytes);
    Some((address(0)?, address(4)?, index))
}

fn set_multicast_interface(a: &mut Access<'_, '_>, value: &[u8]) -> Result<(), Errno> {
    not_stream(a)?;
    let (address, index) = match (group_request(value), <[u8; 4]>::try_from(value.get(..4).unwrap_or_default())) {
        (Some((_, address, index)), _) => (address, index),
        (None, Ok(octets)) => (Ipv4Addr::from(octets), 0),
        (None, Err(_)) => return Err(Errno::EINVAL),
    };
    // "if (!mreq.imr_ifindex) { if (mreq.imr_address.s_addr == htonl(INADDR_ANY)) { mc_index = 0; mc_addr = 0; err = 0; break; }
    //  dev = ip_dev_find(sock_net(sk), mreq.imr_address.s_addr); … } else dev = dev_get_by_index(…); err = -EADDRNOTAVAIL; if (!dev) break;"
    let index = match (index, a.sockets.kinds.of(IpAddr::V4(address), a.cx)) {
        (1.., _) => match a.cx.ask(Table::Interfaces, &Query::Interface(InterfaceIndex(index))) {
            Answer::Interface(_) => index,
            _ => return Err(Errno::EADDRNOTAVAIL),
        },
        (0, _) if address.is_unspecified() => 0,
        (0, AddressKind::Local(InterfaceIndex(interface))) => interface,
        _ => return Err(Errno::EADDRNOTAVAIL),
    };
    let options = a.options()?;
    (options.multicast_interface, options.multicast_index) = (address, index);
    Ok(())
}

/// IP_UNICAST_IF and IPV6_UNICAST_IF: "if (optlen != sizeof(int)) goto e_inval; ifindex = (__force int)ntohl((__force __be32)val);", 0 takes it
/// back; "err = -EADDRNOTAVAIL; if (!dev) break; … err = -EINVAL; if (sk->sk_bound_dev_if && midx != sk->sk_bound_dev_if) break;"
pub(super) fn unicast_interface(a: &mut Access<'_, '_>, value: &[u8]) -> Result<u32, Errno> {
    let index = u32::from_be_bytes(value.try_into().map_err(|_| Errno::EINVAL)?);
    if index == 0 {
        return Ok(0);
    }
    if !a.is_interface(index) {
        return Err(Errno::EADDRNOTAVAIL);
    }
    if a.options()?.interface != 0 { Err(Errno::EINVAL) } else { Ok(index) }
}

fn set_port_range(a: &mut Access<'_, '_>, value: &[u8]) -> Result<(), Errno> {
    // "if (optlen != sizeof(u32)) goto e_inval; … const u16 lo = val; const u16 hi = val >> 16; if (lo != 0 && hi != 0 && lo > hi) goto e_inval;"
    let range = u32::from_ne_bytes(value.try_into().map_err(|_| Errno::EINVAL)?);
    let (low, high) = (range as u16, (range >> 16) as u16);
    if low != 0 && high != 0 && low > high {
        return Err(Errno::EINVAL);
    }
    a.options()?.port_range = (low, high);
    Ok(())
}
