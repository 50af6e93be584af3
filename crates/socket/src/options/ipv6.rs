//! SOL_IPV6 (linux/net/ipv6/ipv6_sockglue.c: do_ipv6_setsockopt, do_ipv6_getsockopt), of AF_INET6 sockets.

use super::ip::{mtu, unicast_interface};
use super::row::{Access, Applies::Any, Get, OptionRow, Set, flag, row, within};
use crate::abi::*;
use crate::address::AF_INET;
use crate::errno::Errno;
use crate::socket::{Body, Socket};
use std::net::{IpAddr, Ipv6Addr};
use weft_core::StreamOption;
use weft_core::table::AddressKind;

/// Linux's default hop limit (net.ipv6.conf.all.hop_limit).
const HOP_LIMIT_DEFAULT: i32 = 64;
/// `struct in6_pktinfo` and `struct ipv6_mreq`: an address, an interface.
const PACKET_INFO_BYTES: usize = 20;
const ANYCAST_BYTES: usize = 20;
/// `struct ip6_mtuinfo`: a `struct sockaddr_in6` and a number.
const MTU_INFO_BYTES: usize = 32;
/// RFC 8200 §5: every link carries packets of this size.
const MTU_MIN: i32 = 1280;

/// A row of a flag that is kept in `$field`. Numbers are read as zero where fewer than four bytes are given, as the kernel does.
macro_rules! flag_row {
    ($name:ident, $field:ident, $set:ident) => {
        row(
            SOL_IPV6,
            $name,
            stringify!($name),
            Any,
            Set::$set(|a, v| Ok(a.options()?.$field = v != 0)),
            Get::Int(|a| flag(a.options()?.$field)),
        )
    };
}

pub(super) const ROWS: &[OptionRow] = &[
    row(SOL_IPV6, IPV6_ADDRFORM, "IPV6_ADDRFORM", Any, Set::Int(set_address_form), Get::Int(address_form)),
    row(
        SOL_IPV6,
        IPV6_UNICAST_HOPS,
        "IPV6_UNICAST_HOPS",
        Any,
        Set::Int(|a, v| {
            a.options()?.hop_limit = within(v, -1, 255)? as i16;
            a.of_family(true, StreamOption::Ttl(v.max(0) as u8))
        }),
        Get::Int(|a| {
            Ok(match a.options()?.hop_limit {
                -1 => HOP_LIMIT_DEFAULT,
                hops => i32::from(hops),
            })
        }),
    ),
    row(
        SOL_IPV6,
        IPV6_MTU_DISCOVER,
        "IPV6_MTU_DISCOVER",
        Any,
        Set::Int(set_mtu_discover),
        Get::Int(|a| Ok(i32::from(a.options()?.mtu_discover6))),
    ),
    row(
        SOL_IPV6,
        IPV6_MTU,
        "IPV6_MTU",
        Any,
        Set::Int(|a, v| {
            // "if (val && val < IPV6_MIN_MTU) return -EINVAL;"
            if v != 0 && v < MTU_MIN {
                return Err(Errno::EINVAL);
            }
            Ok(a.options()?.fragment_bytes = v as u32)
        }),
        // "case IPV6_MTU: val = 0; dst = __sk_dst_get(sk); if (dst) val = dst_mtu(dst); if (!val) return -ENOTCONN;"
        Get::Int(mtu),
    ),
    row(
        SOL_IPV6,
        IPV6_V6ONLY,
        "IPV6_V6ONLY",
        Any,
        Set::Int(|a, v| {
            // "if (optlen < sizeof(int) || inet_sk(sk)->inet_num) goto e_inval;"
            let socket = a.socket()?;
            if socket.number != 0 {
                return Err(Errno::EINVAL);
            }
            Ok(socket.options.v6_only = v != 0)
        }),
        Get::Int(|a| flag(a.options()?.v6_only)),
    ),
    flag_row!(IPV6_FLOWINFO_SEND, flow_info_send, Int),
    flag_row!(IPV6_DONTFRAG, dont_fragment, IntOrZero),
    row(SOL_IPV6, IPV6_TCLASS, "IPV6_TCLASS", Any, Set::Int(set_traffic_class), Get::Int(|a| Ok(i32::from(a.options()?.traffic_class)))),
    row(
        SOL_IPV6,
        IPV6_AUTOFLOWLABEL,
        "IPV6_AUTOFLOWLABEL",
        Any,
        // Kept: packets leave without a flow label here.
        Set::IntOrZero(|a, v| Ok(a.options()?.auto_flow_label = v != 0)),
        Get::Int(|a| flag(a.options()?.auto_flow_label)),
    ),
    row(
        SOL_IPV6,
        IPV6_ADDR_PREFERENCES,
        "IPV6_ADDR_PREFERENCES",
        Any,
        Set::Int(set_address_preferences),
        Get::Int(|a| Ok(preferences_shown(a.options()?.address_preferences))),
    ),
    row(
        SOL_IPV6,
        IPV6_MINHOPCOUNT,
        "IPV6_MINHOPCOUNT",
        Any,
        Set::Int(|a, v| {
            a.options()?.min_hop_count = within(v, 0, 255)? as u8;
            a.transport(StreamOption::MinHopCount(v as u8))
        }),
        Get::Int(|a| Ok(i32::from(a.options()?.min_hop_count))),
    ),
    // "we don't have a separate transparent bit for IPV6 we use the one in the IPv4 socket"
    flag_row!(IPV6_TRANSPARENT, transparent, Int),
    // "we also don't have a separate freebind bit for IPV6"
    flag_row!(IPV6_FREEBIND, freebind, Int),
    row(
        SOL_IPV6,
        IPV6_UNICAST_IF,
        "IPV6_UNICAST_IF",
        Any,
        Set::Bytes(|a, v| {
            let index = unicast_interface(a, v)?;
            Ok(a.options()?.unicast6_index = index)
        }),
        Get::Int(|a| Ok(a.options()?.unicast6_index.to_be() as i32)),
    ),
    row(SOL_IPV6, IPV6_PATHMTU, "IPV6_PATHMTU", Any, Set::Never(Errno::ENOPROTOOPT), Get::Bytes(path_mtu)),
    row(SOL_IPV6, IPV6_PKTINFO, "IPV6_PKTINFO", Any, Set::Bytes(set_packet_info), Get::Never(Errno::ENOPROTOOPT)),
    // There are no anycast addresses here (`lacking-options` of docs/compatibility.md).
    row(SOL_IPV6, IPV6_JOIN_ANYCAST, "IPV6_JOIN_ANYCAST", Any, Set::Bytes(join_anycast), Get::Never(Errno::ENOPROTOOPT)),
    row(
        SOL_IPV6,
        IPV6_LEAVE_ANYCAST,
        "IPV6_LEAVE_ANYCAST",
        Any,
        Set::Bytes(|_, v| Err(if v.len() < ANYCAST_BYTES { Errno::EINVAL } else { Errno::ENOENT })),
        Get::Never(Errno::ENOPROTOOPT),
    ),
    // Not made: packets on their way elsewhere are nobody's here (`lacking-options`). "case IPV6_ROUTER_ALERT: if (optlen < sizeof(int)) goto
    // e_inval;"
    row(SOL_IPV6, IPV6_ROUTER_ALERT, "IPV6_ROUTER_ALERT", Any, Set::Int(|_, _| Err(Errno::ENOPROTOOPT)), Get::Int(|_| Ok(0))),
    // Kept: it keeps router alerts of other network namespaces away.
    flag_row!(IPV6_ROUTER_ALERT_ISOLATE, router_alert_isolate, Int),
];

/// UDP and TCP alone have IPV6_ADDRFORM.
fn has_address_form(socket: &Socket) -> bool {
    !matches!(socket.body, Body::Raw(_) | Body::Ping(_))
}

/// IPV6_ADDRFORM: a connected socket whose peer is an IPv4-mapped address becomes an AF_INET one.
fn set_address_form(a: &mut Access<'_, '_>, value: i32) -> Result<(), Errno> {
    if value != AF_INET {
        return Err(Errno::EINVAL);
    }
    let socket = a.socket()?;
    // "if (sk->sk_protocol == IPPROTO_UDP …) { … } else if (sk->sk_protocol == IPPROTO_TCP) { … } else { break; }" with retv = -ENOPROTOOPT.
    if !has_address_form(socket) {
        return Err(Errno::ENOPROTOOPT);
    }
    if socket.datagram().is_some_and(|datagram| datagram.corked.as_ref().is_some_and(|corked| corked.to.is_ipv6())) {
        return Err(Errno::EBUSY);
    }
    // "if (sk->sk_prot != &tcpv6_prot) { retv = -EBUSY; break; }"; then "if (sk->sk_state != TCP_ESTABLISHED) { retv = -ENOTCONN; break; }"
    let established = match socket.stream() {
        Some(stream) => stream.state == crate::socket::TcpState::Established,
        None => socket.remote.is_some(),
    };
    if !established {
        return Err(Errno::ENOTCONN);
    }
    if socket.options.v6_only || !socket.remote.is_some_and(|remote| remote.is_ipv4()) {
        return Err(Errno::EADDRNOTAVAIL);
    }
    Ok(socket.domain = AF_INET)
}

/// "if (sk->sk_protocol != IPPROTO_UDP && … != IPPROTO_TCP) return -ENOPROTOOPT; if (sk->sk_state != TCP_ESTABLISHED) return -ENOTCONN;
/// val = sk->sk_family;"
fn address_form(a: &mut Access<'_, '_>) -> Result<i32, Errno> {
    let socket = a.socket()?;
    if !has_address_form(socket) {
        return Err(Errno::ENOPROTOOPT);
    }
    let established = match socket.stream() {
        Some(stream) => stream.state == crate::socket::TcpState::Established,
        None => socket.remote.is_some(),
    };
    if established { Ok(socket.domain) } else { Err(Errno::ENOTCONN) }
}

/// `struct ip6_mtuinfo`, whose address is not filled in: "if (len < sizeof(mtuinfo)) return -EINVAL; … if (!mtuinfo.ip6m_mtu) return -ENOTCONN;"
fn path_mtu(a: &mut Access<'_, '_>, length: usize) -> Result<Vec<u8>, Errno> {
    if length < MTU_INFO_BYTES {
        return Err(Errno::EINVAL);
    }
    let mut info = vec![0; MTU_INFO_BYTES - 4];
    info.extend(mtu(a)?.to_ne_bytes());
    Ok(info)
}

/// The sticky form of RFC 3542 §6.1: "if (optlen < sizeof(struct in6_pktinfo)) goto e_inval; … if (!sk_dev_equal_l3scope(sk, pkt.ipi6_ifindex))
/// goto e_inval;" The kernel keeps the address too, and chooses no source by it.
fn set_packet_info(a: &mut Access<'_, '_>, value: &[u8]) -> Result<(), Errno> {
    let index = value.get(16..PACKET_INFO_BYTES).and_then(|bytes| bytes.try_into().ok()).map(u32::from_ne_bytes).ok_or(Errno::EINVAL)?;
    let bound = a.options()?.interface;
    if bound != 0 && index != bound {
        return Err(Errno::EINVAL);
    }
    Ok(a.options()?.sticky6_index = index)
}

/// `ipv6_sock_ac_join`: "if (ipv6_addr_is_multicast(addr)) return -EINVAL; … if (ipv6_chk_addr_and_flags(net, addr, …)) return -EINVAL;", then an
/// interface that there is not, and what no interface has a prefix for, which Linux would join otherwise.
fn join_anycast(a: &mut Access<'_, '_>, value: &[u8]) -> Result<(), Errno> {
    let (octets, rest) = value.split_first_chunk::<16>().ok_or(Errno::EINVAL)?;
    let index = rest.first_chunk::<4>().map(|bytes| u32::from_ne_bytes(*bytes)).ok_or(Errno::EINVAL)?;
    let address = Ipv6Addr::from(*octets);
    let own = matches!(a.sockets.kinds.of(IpAddr::V6(address), a.cx), AddressKind::Local(_));
    if address.is_multicast() || own {
        return Err(Errno::EINVAL);
    }
    Err(if index != 0 && !a.is_interface(index) { Errno::ENODEV } else { Errno::EADDRNOTAVAIL })
}

fn set_mtu_discover(a: &mut Access<'_, '_>, value: i32) -> Result<(), Errno> {
    let how = within(value, IP_PMTUDISC_DONT, IP_PMTUDISC_OMIT)? as u8;
    a.options()?.mtu_discover6 = how;
    a.of_family(true, StreamOption::MtuDiscover(how))
}

fn set_traffic_class(a: &mut Access<'_, '_>, value: i32) -> Result<(), Errno> {
    // "RFC 3542, 6.5: default traffic class of 0x0": -1; and of a stream "val &= ~INET_ECN_MASK; val |= np->tclass & INET_ECN_MASK;"
    let class = within(value, -1, 0xff)?.max(0) as u8;
    let old = a.options()?.traffic_class;
    let class = if a.stream().is_ok() { (class & !3) | (old & 3) } else { class };
    a.options()?.traffic_class = class;
    a.of_family(true, StreamOption::Tos(class))
}

const PREFER_SRC_TMP: i32 = 0x0001;
const PREFER_SRC_PUBLIC: i32 = 0x0002;
const PREFER_SRC_COA: i32 = 0x0004;
const PREFER_SRC_PUBTMP_DEFAULT: i32 = 0x0100;
const PREFER_SRC_HOME: i32 = 0x0400;
const PREFER_SRC_CGA: i32 = 0x0008;
const PREFER_SRC_NONCGA: i32 = 0x0800;

/// `ip6_sock_set_addr_preferences`: of each pair at most one. Kept; addresses are chosen by the route (RFC 6724's other rules).
fn set_address_preferences(a: &mut Access<'_, '_>, value: i32) -> Result<(), Errno> {
    let one_of = |bits: i32| value & bits == 0 || (value & bits).count_ones() == 1;
    let pairs = [
        PREFER_SRC_PUBLIC | PREFER_SRC_TMP | PREFER_SRC_PUBTMP_DEFAULT,
        PREFER_SRC_HOME | PREFER_SRC_COA,
        PREFER_SRC_CGA | PREFER_SRC_NONCGA,
    ];
    if !pairs.into_iter().all(one_of) {
        return Err(Errno::EINVAL);
    }
    Ok(a.options()?.address_preferences = (value & (PREFER_SRC_PUBLIC | PREFER_SRC_TMP | PREFER_SRC_COA)) as u8)
}

/// What getsockopt makes of the three bits that are kept.
fn preferences_shown(kept: u8) -> i32 {
    let kept = i32::from(kept);
    let of_pair = match kept & (PREFER_SRC_TMP | PREFER_SRC_PUBLIC) {
        0 => PREFER_SRC_PUBTMP_DEFAULT,
        chosen => chosen,
    };
    of_pair | if kept & PREFER_SRC_COA != 0 { PREFER_SRC_COA } else { PREFER_SRC_HOME }
}
