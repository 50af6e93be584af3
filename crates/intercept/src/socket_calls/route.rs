//! SIOCADDRT, SIOCDELRT: routes, as route(8) and older tools change them. They come to what RTM_NEWROUTE and RTM_DELROUTE do.

use crate::calls::Calls;
use crate::face::Stack;
use crate::memory::Memory;
use crate::netlink::Node;
use crate::sys::Errno;
use crate::tables;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weft_core::table::{AddressKind, Family};
use weft_core::{Answer, Query, Table};
use weft_netlink::PlainRoute;

pub(super) const SIOCADDRT: u32 = 0x890b;
pub(super) const SIOCDELRT: u32 = 0x890c;

/// `struct rtentry` of x86-64.
const RTENTRY_BYTES: usize = 120;
const GATEWAY_AT: usize = 24;
const MASK_AT: usize = 40;
const FLAGS_AT: usize = 56;
const METRIC_AT: usize = 80;
const DEVICE_AT: usize = 88;
/// `struct in6_rtmsg`.
const IN6_RTMSG_BYTES: usize = 80;
/// IFNAMSIZ
const NAME_BYTES: usize = 16;

const RTF_GATEWAY: u32 = 0x2;
const RTF_HOST: u32 = 0x4;
const RTF_MSS: u32 = 0x40;
const RTF_WINDOW: u32 = 0x80;
const RTF_IRTT: u32 = 0x100;
const RTF_REJECT: u32 = 0x200;
const RTN_UNICAST: u8 = 1;
const RTN_UNREACHABLE: u8 = 7;
const RTPROT_BOOT: u8 = 3;
const RT_SCOPE_UNIVERSE: u8 = 0;
const RT_SCOPE_LINK: u8 = 253;
const RT_SCOPE_HOST: u8 = 254;
const RT_SCOPE_NOWHERE: u8 = 255;
/// IP6_RT_PRIO_USER
const METRIC6_DEFAULT: u32 = 1024;

fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|rest| rest.first_chunk::<N>()).copied().unwrap_or([0; N])
}

/// `family`: that of the socket; None: it is not the node's. `manages`: may it change routes?
pub(super) fn answer(
    memory: &impl Memory,
    stack: &mut dyn Stack,
    request: u32,
    pointer: u64,
    family: Option<i32>,
    manages: bool,
) -> Result<(), Errno> {
    let adds = request == SIOCADDRT;
    let route = match family {
        Some(libc::AF_INET | libc::AF_PACKET) => {
            let mut rtentry = [0; RTENTRY_BYTES];
            memory.read(pointer, &mut rtentry)?;
            may(manages)?;
            of_v4(memory, stack, &rtentry, adds)?
        }
        Some(libc::AF_INET6) => {
            let mut in6_rtmsg = [0; IN6_RTMSG_BYTES];
            memory.read(pointer, &mut in6_rtmsg)?;
            may(manages)?;
            of_v6(&in6_rtmsg, adds)?
        }
        // sock_do_ioctl copies a `struct ifreq` before dev_ioctl says that it does not know these.
        _ => return memory.read(pointer, &mut [0; 40]).and(Err(Errno(libc::ENOTTY))),
    };
    // Who counts what is not there sees the errno.
    let node = &mut Node { stack, calls: &mut Calls::default() };
    let done = if adds { route.add(node) } else { route.delete(node) };
    done.map_err(|refusal| match refusal.errno {
        // fib6_del finds that it is the entry of nothing: "if (!fn || rt == net->ipv6.fib6_null_entry) return -ENOENT;"
        libc::ESRCH if is_nothing6(&route) => Errno(libc::ENOENT),
        errno => Errno(errno),
    })
}

/// Is it what fits the root of the table of IPv6, where there is no default route?
fn is_nothing6(route: &PlainRoute) -> bool {
    route.destination.is_ipv6() && route.prefix_bits == 0 && (route.gateway, route.interface, route.metric) == (None, None, 0)
}

fn may(manages: bool) -> Result<(), Errno> {
    if manages { Ok(()) } else { Err(Errno(libc::EPERM)) }
}

/// rtentry_to_fib_config (net/ipv4/fib_frontend.c).
fn of_v4(memory: &impl Memory, stack: &mut dyn Stack, rtentry: &[u8; RTENTRY_BYTES], adds: bool) -> Result<PlainRoute, Errno> {
    let family = |at: usize| i32::from(u16::from_ne_bytes(field(rtentry, at)));
    let address = |at: usize| Ipv4Addr::from(field::<4>(rtentry, at + 4));
    let long = |at: usize| u64::from_ne_bytes(field(rtentry, at));
    let flags = u32::from(u16::from_ne_bytes(field(rtentry, FLAGS_AT)));
    if family(8) != libc::AF_INET {
        return Err(Errno(libc::EAFNOSUPPORT));
    }
    let destination = address(8);
    let mut prefix_bits = 32;
    if flags & RTF_HOST == 0 {
        let mask = u32::from(address(MASK_AT));
        if family(MASK_AT) != libc::AF_INET && (mask != 0 || family(MASK_AT) != 0) {
            return Err(Errno(libc::EAFNOSUPPORT));
        }
        prefix_bits = mask.leading_ones() as u8;
        // bad_mask
        let contiguous = mask.checked_shl(u32::from(prefix_bits)).unwrap_or(0) == 0;
        if !contiguous || u32::from(destination) & !mask != 0 {
            return Err(Errno(libc::EINVAL));
        }
    }
    let metric = i16::from_ne_bytes(field(rtentry, METRIC_AT));
    let mut route = PlainRoute {
        destination: destination.into(),
        prefix_bits,
        kind: RTN_UNREACHABLE,
        scope: RT_SCOPE_HOST,
        protocol: if adds { RTPROT_BOOT } else { 0 },
        gateway: None,
        interface: None,
        source: None,
        metric: if metric == 0 { 0 } else { (i32::from(metric) - 1) as u32 },
    };
    if flags & RTF_REJECT != 0 {
        return Ok(route);
    }
    (route.kind, route.scope) = (RTN_UNICAST, RT_SCOPE_NOWHERE);
    if long(DEVICE_AT) != 0 {
        (route.interface, route.source) = device(memory, stack, long(DEVICE_AT))?;
    }
    let gateway = address(GATEWAY_AT);
    if family(GATEWAY_AT) == libc::AF_INET && !gateway.is_unspecified() {
        route.gateway = Some(gateway.into());
        let of_node = stack.ask(Table::Addresses(Family::V4), &Query::AddressKind(gateway.into()));
        let is_unicast = matches!(of_node, Answer::AddressKind(AddressKind::Other));
        if flags & RTF_GATEWAY != 0 && is_unicast {
            route.scope = RT_SCOPE_UNIVERSE;
        }
    }
    if !adds {
        return Ok(route);
    }
    if flags & RTF_GATEWAY != 0 && route.gateway.is_none() {
        return Err(Errno(libc::EINVAL));
    }
    if route.scope == RT_SCOPE_NOWHERE {
        route.scope = RT_SCOPE_LINK;
    }
    // Metrics of routes that weft does not have: a limit to segments that are announced, a window, a first round trip.
    if flags & (RTF_MSS | RTF_WINDOW | RTF_IRTT) != 0 {
        return Err(Errno(libc::EOPNOTSUPP));
    }
    Ok(route)
}

/// The interface by its name in a program's memory; that of an alias ("eth0:1") comes with its address.
fn device(memory: &impl Memory, stack: &mut dyn Stack, pointer: u64) -> Result<(Option<u32>, Option<IpAddr>), Errno> {
    let mut name = [0; NAME_BYTES];
    memory.read(pointer, &mut name[..NAME_BYTES - 1])?;
    let label = name.split(|byte| *byte == 0).next().unwrap_or_default();
    let own = label.split(|byte| *byte == b':').next().unwrap_or_default();
    let interface = tables::interfaces(stack).into_iter().find(|one| one.name.as_bytes() == own).ok_or(Errno(libc::ENODEV))?;
    if own == label {
        return Ok((Some(interface.index), None));
    }
    let of_label = tables::addresses(stack, Family::V4)
        .into_iter()
        .find(|one| one.interface.0 == interface.index && one.label.text().is_some_and(|text| text.as_bytes() == label));
    Ok((Some(interface.index), Some(of_label.ok_or(Errno(libc::ENODEV))?.address)))
}

/// rtmsg_to_fib6_config (net/ipv6/route.c).
fn of_v6(in6_rtmsg: &[u8; IN6_RTMSG_BYTES], adds: bool) -> Result<PlainRoute, Errno> {
    let address = |at: usize| Ipv6Addr::from(field::<16>(in6_rtmsg, at));
    let short = |at: usize| u16::from_ne_bytes(field(in6_rtmsg, at));
    let word = |at: usize| u32::from_ne_bytes(field(in6_rtmsg, at));
    let (flags, interface, metric, bits) = (word(72), word(76), word(56), short(52));
    if bits > 128 || short(54) > 128 {
        return Err(Errno(libc::EINVAL));
    }
    // Of a source there are routes with CONFIG_IPV6_SUBTREES alone.
    if short(54) != 0 {
        return Err(Errno(libc::EINVAL));
    }
    Ok(PlainRoute {
        destination: address(0).into(),
        prefix_bits: bits as u8,
        kind: if flags & RTF_REJECT != 0 { RTN_UNREACHABLE } else { u8::from(adds) * RTN_UNICAST },
        scope: RT_SCOPE_UNIVERSE,
        protocol: if adds { RTPROT_BOOT } else { 0 },
        gateway: (flags & RTF_GATEWAY != 0).then(|| address(32).into()),
        interface: (interface != 0).then_some(interface),
        source: None,
        metric: if metric == 0 && adds { METRIC6_DEFAULT } else { metric },
    })
}
