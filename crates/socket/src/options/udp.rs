//! SOL_UDP (linux/net/ipv4/udp.c: udp_lib_setsockopt, udp_lib_getsockopt).

use super::row::{Applies::Datagram, Get, OptionRow, Set, flag, row, within};
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
        // A checksum is always sent.
        Set::Int(|_, v| if v == 0 { Ok(()) } else { Err(Errno::ENOPROTOOPT) }),
        Get::Int(|_| Ok(0)),
    ),
    // Datagrams without a checksum are dropped below (RFC 8200 §8.1), so that a socket cannot have them.
    row(
        SOL_UDP,
        UDP_NO_CHECK6_RX,
        "UDP_NO_CHECK6_RX",
        Datagram,
        Set::Int(|_, v| if v == 0 { Ok(()) } else { Err(Errno::ENOPROTOOPT) }),
        Get::Int(|_| Ok(0)),
    ),
    row(
        SOL_UDP,
        UDP_SEGMENT,
        "UDP_SEGMENT",
        Datagram,
        Set::Int(|a, v| Ok(a.options()?.udp_segment = within(v, 0, 0xffff)? as u16)),
        Get::Int(|a| Ok(i32::from(a.options()?.udp_segment))),
    ),
    // UDP-Lite's alone; udp_lib_getsockopt knows them of every socket, and they are 0 there.
    row(SOL_UDP, UDPLITE_SEND_CSCOV, "UDPLITE_SEND_CSCOV", Datagram, Set::Never(Errno::ENOPROTOOPT), Get::Int(|_| Ok(0))),
    row(SOL_UDP, UDPLITE_RECV_CSCOV, "UDPLITE_RECV_CSCOV", Datagram, Set::Never(Errno::ENOPROTOOPT), Get::Int(|_| Ok(0))),
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
