//! SOL_UDP (linux/net/ipv4/udp.c: udp_lib_setsockopt, udp_lib_getsockopt).

use super::row::{Access, Applies::Datagram, Get, OptionRow, Set, flag, row, within};
use crate::abi::*;
use crate::datagram_socket;
use crate::errno::Errno;

pub(super) const ROWS: &[OptionRow] = &[
    row(
        SOL_UDP,
        UDP_CORK,
        "UDP_CORK",
        Datagram,
        Set::Int(|a, v| {
            a.options()?.udp_cork = v != 0;
            if v == 0 { datagram_socket::uncork(a.sockets, a.id, a.cx) } else { Ok(()) }
        }),
        Get::Int(|a| flag(a.options()?.udp_cork)),
    ),
    // Encapsulation (IPsec, L2TP) is not done here.
    row(
        SOL_UDP,
        UDP_ENCAP,
        "UDP_ENCAP",
        Datagram,
        Set::Int(|_, v| if v == 0 { Ok(()) } else { Err(Errno::ENOPROTOOPT) }),
        Get::Int(|_| Ok(0)),
    ),
    row(
        SOL_UDP,
        UDP_NO_CHECK6_TX,
        "UDP_NO_CHECK6_TX",
        Datagram,
        Set::Int(|a, v| Ok(a.options()?.no_check6_sent = v != 0)),
        Get::Int(|a| flag(a.options()?.no_check6_sent)),
    ),
    row(
        SOL_UDP,
        UDP_NO_CHECK6_RX,
        "UDP_NO_CHECK6_RX",
        Datagram,
        Set::Int(|a, v| Ok(a.options()?.no_check6_received = v != 0)),
        Get::Int(|a| flag(a.options()?.no_check6_received)),
    ),
    row(
        SOL_UDP,
        UDP_SEGMENT,
        "UDP_SEGMENT",
        Datagram,
        Set::Int(|a, v| Ok(a.options()?.udp_segment = within(v, 0, 0xffff)? as u16)),
        Get::Int(|a| Ok(i32::from(a.options()?.udp_segment))),
    ),
    row(
        SOL_UDP,
        UDPLITE_SEND_CSCOV,
        "UDPLITE_SEND_CSCOV",
        Datagram,
        Set::Int(|a, v| Ok(a.options()?.coverage_sent = Some(coverage(a, v)?))),
        Get::Int(|a| Ok(i32::from(a.options()?.coverage_sent.unwrap_or(0)))),
    ),
    row(
        SOL_UDP,
        UDPLITE_RECV_CSCOV,
        "UDPLITE_RECV_CSCOV",
        Datagram,
        Set::Int(|a, v| Ok(a.options()?.coverage_received = Some(coverage(a, v)?))),
        Get::Int(|a| Ok(i32::from(a.options()?.coverage_received.unwrap_or(0)))),
    ),
    // What comes in together (one vector, one flow) is read together.
    row(
        SOL_UDP,
        UDP_GRO,
        "UDP_GRO",
        Datagram,
        Set::Int(|a, v| Ok(a.options()?.udp_gro = v != 0)),
        Get::Int(|a| flag(a.options()?.udp_gro)),
    ),
];

/// "if (!is_udplite) return -ENOPROTOOPT; if (val != 0 && val < 8) val = 8; else if (val > USHRT_MAX) val = USHRT_MAX;"
fn coverage(a: &mut Access<'_, '_>, value: i32) -> Result<u16, Errno> {
    match value {
        _ if a.socket()?.protocol != IPPROTO_UDPLITE => Err(Errno::ENOPROTOOPT),
        0 => Ok(0),
        _ => Ok(value.clamp(8, i32::from(u16::MAX)) as u16),
    }
}
