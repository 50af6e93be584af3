//! How many bytes of a value setsockopt(2) looks at: what lies behind them may be memory that is not there.

use super::multipath::FULL_HEAD_BYTES;
use super::row::{OptionRow, Set};
use super::{find, of_udp, tables};
use crate::abi::*;
use crate::packet_ring::REQUEST_BYTES;
use crate::packet_ring::REQUEST3_BYTES;
use crate::socket::{Body, Socket};

/// IFNAMSIZ - 1, TCP_CA_NAME_MAX - 1, TCP_ULP_NAME_MAX - 1
const NAME_BYTES: usize = 15;
/// Bytes of `struct icmp_filter` and `struct icmp6_filter`.
const ICMP_FILTER_BYTES: usize = 4;
const ICMP6_FILTER_BYTES: usize = 32;
/// Bytes of `struct group_req`, `struct group_source_req` and GROUP_FILTER_SIZE(0).
const GROUP_BYTES: usize = 136;
const GROUP_SOURCE_BYTES: usize = 264;
const GROUP_FILTER_BYTES: usize = 144;
/// Bytes of `struct ip_mreq`, `struct ip_mreqn` (and `struct ip_mreq_source`), IP_MSFILTER_SIZE(0).
const MREQ_BYTES: usize = 8;
const MREQN_BYTES: usize = 12;
const MSFILTER_BYTES: usize = 16;
/// Bytes of `struct packet_mreq`, and of the longest.
const PACKET_MREQ_BYTES: usize = 16;
const PACKET_MREQ_BYTES_MAX: usize = 40;
/// Bytes of `struct in6_pktinfo` and `struct ipv6_mreq`.
const IN6_BYTES: usize = 20;
/// MAX_IPOPTLEN
const IP_OPTIONS_BYTES: usize = 40;
/// "optlen & 0x7 || optlen > 8 * 255": an extension header.
const EXTENSION_BYTES_MAX: usize = 8 * 255;

/// Of a value that is shorter than its struct, an `int`; the rest of it is not looked at.
fn int(length: usize) -> usize {
    if length >= 4 { 4 } else { 0 }
}
/// A struct where there is room for one, else what there is for others.
fn from(bytes: usize, length: usize, otherwise: usize) -> usize {
    if length >= bytes { bytes } else { otherwise }
}
/// A value of exactly this length.
fn exactly(bytes: usize, length: usize, otherwise: usize) -> usize {
    if length == bytes { bytes } else { otherwise }
}

/// How many bytes getsockopt(2) reads in the place for a value for which there are so many, of an option that is asked for a part of what it has. None: it
/// reads nothing.
pub fn bytes_asked(level: i32, name: i32, length: i32) -> Option<usize> {
    let bytes = match (level, name) {
        (SOL_IP, IP_MSFILTER) => MSFILTER_BYTES,
        (SOL_IP | SOL_IPV6, MCAST_MSFILTER) => GROUP_FILTER_BYTES,
        // "if (len > sizeof(int)) len = sizeof(int); if (len < sizeof(int)) return -EINVAL;"
        (SOL_PACKET, PACKET_HDRLEN) => 4,
        // mptcp_get_subflow_data; what lies between its struct and the elements stays as it is.
        (SOL_MPTCP, MPTCP_TCPINFO | MPTCP_SUBFLOW_ADDRS) => usize::try_from(length).unwrap_or(0),
        (SOL_MPTCP, MPTCP_FULL_INFO) => FULL_HEAD_BYTES,
        _ => return None,
    };
    Some(if usize::try_from(length).is_ok_and(|length| length >= bytes) { bytes } else { 0 })
}

/// Of a value of this length.
pub(crate) fn bytes_read(socket: &Socket, level: i32, name: i32, length: usize) -> usize {
    let level = of_udp(socket, level);
    let row = find(socket, level, name);
    if row.is_none() && tables(socket, level).is_none() {
        return 0;
    }
    match level {
        SOL_SOCKET => of_socket(name, length),
        SOL_IP => of_ip(socket, name, length, row),
        SOL_IPV6 => of_ipv6(socket, name, length),
        SOL_TCP => match name {
            TCP_CONGESTION | TCP_ULP => length.min(NAME_BYTES),
            // "if (optlen != TCP_FASTOPEN_KEY_LENGTH && optlen != TCP_FASTOPEN_KEY_BUF_LENGTH) return -EINVAL;" before the `int`.
            TCP_FASTOPEN_KEY if matches!(length, 16 | 32) => length,
            TCP_FASTOPEN_KEY => 0,
            _ => int(length),
        },
        // do_rawv6_setsockopt reads an `int` first, raw_setsockopt what it needs.
        SOL_RAW if socket.is_v6() => int(length),
        // "if (inet_sk(sk)->inet_num != IPPROTO_ICMP) return -EOPNOTSUPP;" before it does.
        SOL_RAW if name == ICMP_FILTER && socket.protocol == IPPROTO_ICMP => length.min(ICMP_FILTER_BYTES),
        SOL_ICMPV6 if row.is_some() && socket.protocol == IPPROTO_ICMPV6 => length.min(ICMP6_FILTER_BYTES),
        SOL_RAW | SOL_ICMPV6 => 0,
        // "struct packet_mreq_max mreq; int len = optlen; if (len < sizeof(struct packet_mreq)) return -EINVAL; if (len > sizeof(mreq)) …"
        SOL_PACKET if matches!(name, PACKET_ADD_MEMBERSHIP | PACKET_DROP_MEMBERSHIP) => {
            if length < PACKET_MREQ_BYTES {
                0
            } else {
                length.min(PACKET_MREQ_BYTES_MAX)
            }
        }
        // "if (optlen < len) ret = -EINVAL;", by the version that the socket has.
        SOL_PACKET if matches!(name, PACKET_RX_RING | PACKET_TX_RING) => {
            let bytes = socket.packet().map_or(REQUEST_BYTES, |packet| packet.rings.version.request_bytes());
            from(bytes.min(REQUEST3_BYTES), length, 0)
        }
        SOL_PACKET if name == PACKET_FANOUT => exactly(8, length, exactly(4, length, 0)),
        // `struct sock_fprog`
        SOL_PACKET if name == PACKET_FANOUT_DATA => exactly(16, length, 0),
        SOL_PACKET if row.is_some_and(|row| matches!(row.set, Set::OneInt(_))) => exactly(4, length, 0),
        _ => int(length),
    }
}

/// sk_setsockopt, which reads an `int` before it looks at the name.
fn of_socket(name: i32, length: usize) -> usize {
    match name {
        SO_BINDTODEVICE => length.min(NAME_BYTES),
        // `struct linger`; "sizeof(ulval) != sizeof(val) && optlen >= sizeof(ulval)"
        SO_LINGER | SO_MAX_PACING_RATE => from(8, length, int(length)),
        // `struct timeval`
        SO_RCVTIMEO_OLD | SO_SNDTIMEO_OLD | SO_RCVTIMEO_NEW | SO_SNDTIMEO_NEW => from(16, length, int(length)),
        // "if (optlen == sizeof(timestamping))"; "if (optlen != sizeof(struct sock_txtime))"
        SO_TIMESTAMPING_OLD | SO_TIMESTAMPING_NEW | SO_TXTIME => exactly(8, length, int(length)),
        // `struct sock_fprog`
        SO_ATTACH_FILTER => exactly(16, length, int(length)),
        _ => int(length),
    }
}

/// do_ip_setsockopt, which reads an `int` or a byte of the options that have one.
fn of_ip(socket: &Socket, name: i32, length: usize, row: Option<&OptionRow>) -> usize {
    let mreq = || from(MREQN_BYTES, length, from(MREQ_BYTES, length, 0));
    match name {
        // ip_options_get: "if (optlen > MAX_IPOPTLEN) goto e_inval" before it reads.
        IP_OPTIONS if length > IP_OPTIONS_BYTES => 0,
        IP_OPTIONS => length,
        // "if (inet_test_bit(IS_ICSK, sk)) goto e_inval;"
        IP_MULTICAST_IF | IP_ADD_MEMBERSHIP | IP_DROP_MEMBERSHIP if matches!(socket.body, Body::Stream(_)) => 0,
        IP_MULTICAST_IF if length < MREQ_BYTES => int(length),
        IP_MULTICAST_IF | IP_ADD_MEMBERSHIP | IP_DROP_MEMBERSHIP => mreq(),
        IP_BLOCK_SOURCE | IP_UNBLOCK_SOURCE | IP_ADD_SOURCE_MEMBERSHIP | IP_DROP_SOURCE_MEMBERSHIP => exactly(MREQN_BYTES, length, 0),
        IP_MSFILTER if length >= MSFILTER_BYTES => length,
        MCAST_JOIN_GROUP | MCAST_LEAVE_GROUP => from(GROUP_BYTES, length, 0),
        MCAST_BLOCK_SOURCE | MCAST_UNBLOCK_SOURCE | MCAST_JOIN_SOURCE_GROUP | MCAST_LEAVE_SOURCE_GROUP => {
            exactly(GROUP_SOURCE_BYTES, length, 0)
        }
        MCAST_MSFILTER if length >= GROUP_FILTER_BYTES => length,
        IP_MSFILTER | MCAST_MSFILTER => 0,
        // What cannot be set.
        _ if row.is_none_or(|row| matches!(row.set, Set::Never(_))) => 0,
        _ => {
            if length >= 4 {
                4
            } else {
                length.min(1)
            }
        }
    }
}

/// do_ipv6_setsockopt, which reads an `int` before it looks at the name.
fn of_ipv6(socket: &Socket, name: i32, length: usize) -> usize {
    match name {
        IPV6_ADD_MEMBERSHIP | IPV6_DROP_MEMBERSHIP if matches!(socket.body, Body::Stream(_)) => int(length),
        IPV6_PKTINFO | IPV6_ADD_MEMBERSHIP | IPV6_DROP_MEMBERSHIP | IPV6_JOIN_ANYCAST | IPV6_LEAVE_ANYCAST => {
            from(IN6_BYTES, length, int(length))
        }
        IPV6_HOPOPTS | IPV6_RTHDRDSTOPTS | IPV6_RTHDR | IPV6_DSTOPTS if length.is_multiple_of(8) && length <= EXTENSION_BYTES_MAX => length,
        MCAST_JOIN_GROUP | MCAST_LEAVE_GROUP => from(GROUP_BYTES, length, int(length)),
        MCAST_BLOCK_SOURCE | MCAST_UNBLOCK_SOURCE | MCAST_JOIN_SOURCE_GROUP | MCAST_LEAVE_SOURCE_GROUP => {
            from(GROUP_SOURCE_BYTES, length, int(length))
        }
        MCAST_MSFILTER if length >= GROUP_FILTER_BYTES => length,
        _ => int(length),
    }
}
