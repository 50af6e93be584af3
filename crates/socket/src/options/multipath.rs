//! Options of sockets that were asked for with IPPROTO_MPTCP (linux/net/mptcp/sockopt.c): fewer than TCP has, and those of SOL_MPTCP.

use super::row::{Access, Applies::Stream, Get, OptionRow, Set, flag, row};
use crate::abi::*;
use crate::address;
use crate::errno::Errno;
use crate::socket::{Phase, Socket, TcpState};
use crate::streams::{multipath, told};
use std::net::SocketAddr;
use weft_core::multipath::{MPTCP_INFO_BYTES, MultipathInfo, SubflowInfo};
use weft_core::tcp_info::{self, TCP_INFO_BYTES};
use weft_core::{Answer, Context, FlowId, Query, Table};

/// TCP_CLOSE.
const CLOSE: u8 = 7;
const READ_ONLY: Set = Set::Never(Errno::ENOPROTOOPT);
/// Bytes of `struct mptcp_subflow_data`, `struct sockaddr_storage`, `struct mptcp_subflow_addrs`, `struct mptcp_subflow_info` and `struct mptcp_full_info`.
const SUBFLOW_DATA_BYTES: usize = 16;
const STORAGE_BYTES: usize = 128;
const ADDRS_BYTES: usize = 2 * STORAGE_BYTES;
const SUBFLOW_INFO_BYTES: usize = 8 + ADDRS_BYTES;
/// The part of `struct mptcp_full_info` before its `struct mptcp_info`.
pub const FULL_HEAD_BYTES: usize = 40;
pub const FULL_INFO_BYTES: usize = FULL_HEAD_BYTES + MPTCP_INFO_BYTES;

pub(super) const ROWS: &[OptionRow] = &[
    row(SOL_TCP, TCP_IS_MPTCP, "TCP_IS_MPTCP", Stream, READ_ONLY, Get::Int(|a| flag(is_multipath(a)?))),
    row(SOL_MPTCP, MPTCP_INFO, "MPTCP_INFO", Stream, READ_ONLY, Get::Bytes(|a, _| Ok(info(a)?.to_vec()))),
    row(SOL_MPTCP, MPTCP_TCPINFO, "MPTCP_TCPINFO", Stream, READ_ONLY, Get::Asked(tcp_infos)),
    row(SOL_MPTCP, MPTCP_SUBFLOW_ADDRS, "MPTCP_SUBFLOW_ADDRS", Stream, READ_ONLY, Get::Asked(addresses)),
    row(SOL_MPTCP, MPTCP_FULL_INFO, "MPTCP_FULL_INFO", Stream, READ_ONLY, Get::Asked(full)),
];

/// Has the socket become plain TCP? Then it has TCP's options (__mptcp_tcp_fallback).
fn has_fallen_back(socket: &Socket, cx: &Context<'_>) -> bool {
    let connected = |stream: &crate::socket::Stream| {
        stream.flow.is_some() && !matches!(stream.state, TcpState::Close | TcpState::Listen | TcpState::SynSent)
    };
    socket.stream().is_some_and(connected) && multipath(socket, cx).is_none_or(|info| info.fallen_back)
}

/// Is it a connection of Multipath TCP, or a socket that would become one (TCP_IS_MPTCP)?
fn is_multipath(a: &mut Access<'_, '_>) -> Result<bool, Errno> {
    let socket = a.sockets.get(a.id)?;
    Ok(if socket.protocol == IPPROTO_MPTCP {
        !has_fallen_back(socket, a.cx)
    } else {
        multipath(socket, a.cx).is_some_and(|info| !info.fallen_back)
    })
}

/// __mptcp_nmpc_sk: "if (!((1 << sk->sk_state) & (TCPF_CLOSE | TCPF_LISTEN))) return ERR_PTR(-EINVAL);"
fn before_connection(socket: &Socket) -> Result<(), Errno> {
    let early = socket.stream().is_some_and(|stream| {
        matches!(stream.state, TcpState::Listen) || stream.state == TcpState::Close && stream.phase == Phase::Unconnected
    });
    if early { Ok(()) } else { Err(Errno::EINVAL) }
}

/// What becomes of an option before its row is looked at. `Ok(true)`: nothing more happens.
pub(super) fn before_set(a: &mut Access<'_, '_>, level: i32, name: i32) -> Result<bool, Errno> {
    let socket = a.sockets.get(a.id)?;
    match level {
        SOL_SOCKET => match name {
            SO_REUSEPORT | SO_REUSEADDR | SO_BINDTODEVICE | SO_BINDTOIFINDEX => before_connection(socket).map(|()| false),
            SO_KEEPALIVE | SO_PRIORITY | SO_SNDBUF | SO_SNDBUFFORCE | SO_RCVBUF | SO_RCVBUFFORCE | SO_MARK | SO_INCOMING_CPU | SO_DEBUG
            | SO_TIMESTAMP_OLD | SO_TIMESTAMP_NEW | SO_TIMESTAMPNS_OLD | SO_TIMESTAMPNS_NEW | SO_TIMESTAMPING_OLD | SO_TIMESTAMPING_NEW
            | SO_LINGER | SO_RCVLOWAT | SO_RCVTIMEO_OLD | SO_RCVTIMEO_NEW | SO_SNDTIMEO_OLD | SO_SNDTIMEO_NEW | SO_BUSY_POLL
            | SO_PREFER_BUSY_POLL | SO_BUSY_POLL_BUDGET => Ok(false),
            // "return 0;"
            SO_NO_CHECK | SO_DONTROUTE | SO_BROADCAST | SO_BSDCOMPAT | SO_PASSCRED | SO_PASSPIDFD | SO_PASSSEC | SO_RXQ_OVFL
            | SO_WIFI_STATUS | SO_NOFCS | SO_SELECT_ERR_QUEUE => Ok(true),
            _ => Err(Errno::EOPNOTSUPP),
        },
        _ if !is_supported(level, name) => Err(Errno::ENOPROTOOPT),
        _ if has_fallen_back(socket, a.cx) => Ok(false),
        SOL_IP => match name {
            IP_FREEBIND | IP_TRANSPARENT | IP_BIND_ADDRESS_NO_PORT | IP_LOCAL_PORT_RANGE => before_connection(socket).map(|()| false),
            IP_TOS => Ok(false),
            _ => Err(Errno::EOPNOTSUPP),
        },
        SOL_IPV6 => match name {
            IPV6_V6ONLY | IPV6_TRANSPARENT | IPV6_FREEBIND => before_connection(socket).map(|()| false),
            _ => Err(Errno::EOPNOTSUPP),
        },
        _ => match name {
            TCP_INQ | TCP_CONGESTION | TCP_CORK | TCP_NODELAY | TCP_KEEPIDLE | TCP_KEEPINTVL | TCP_KEEPCNT | TCP_MAXSEG
            | TCP_NOTSENT_LOWAT => Ok(false),
            // "See tcp.c: TCP_DEFER_ACCEPT does not fail"
            TCP_DEFER_ACCEPT => Ok(before_connection(socket).is_err()),
            TCP_FASTOPEN | TCP_FASTOPEN_CONNECT | TCP_FASTOPEN_KEY | TCP_FASTOPEN_NO_COOKIE => before_connection(socket).map(|()| false),
            _ => Err(Errno::EOPNOTSUPP),
        },
    }
}

/// mptcp_supported_sockopt, as Linux 6.18 answers.
fn is_supported(level: i32, name: i32) -> bool {
    match level {
        SOL_IP => matches!(
            name,
            IP_FREEBIND
                | IP_TRANSPARENT
                | IP_BIND_ADDRESS_NO_PORT
                | IP_LOCAL_PORT_RANGE
                | IP_PKTINFO
                | IP_RECVTTL
                | IP_RECVTOS
                | IP_RECVOPTS
                | IP_RETOPTS
                | IP_PASSSEC
                | IP_RECVORIGDSTADDR
                | IP_CHECKSUM
                | IP_RECVFRAGSIZE
                | IP_TOS
                | IP_TTL
                | IP_MTU_DISCOVER
                | IP_RECVERR
                | IP_MINTTL
                | IP_RECVERR_RFC4884
        ),
        SOL_IPV6 => IPV6_NAMES.contains(&name),
        SOL_TCP => matches!(
            name,
            TCP_INQ
                | TCP_CONGESTION
                | TCP_CORK
                | TCP_NODELAY
                | TCP_KEEPIDLE
                | TCP_KEEPINTVL
                | TCP_KEEPCNT
                | TCP_MAXSEG
                | TCP_NOTSENT_LOWAT
                | TCP_DEFER_ACCEPT
                | TCP_FASTOPEN
                | TCP_FASTOPEN_CONNECT
                | TCP_FASTOPEN_KEY
                | TCP_FASTOPEN_NO_COOKIE
        ),
        _ => false,
    }
}

const IPV6_NAMES: &[i32] = &[
    IPV6_V6ONLY,
    IPV6_RECVPKTINFO,
    IPV6_2292PKTINFO,
    IPV6_RECVHOPLIMIT,
    IPV6_2292HOPLIMIT,
    IPV6_RECVRTHDR,
    IPV6_2292RTHDR,
    IPV6_RECVHOPOPTS,
    IPV6_2292HOPOPTS,
    IPV6_RECVDSTOPTS,
    IPV6_2292DSTOPTS,
    IPV6_RECVTCLASS,
    IPV6_FLOWINFO,
    IPV6_RECVPATHMTU,
    IPV6_RECVORIGDSTADDR,
    IPV6_RECVFRAGSIZE,
    IPV6_TCLASS,
    IPV6_TRANSPARENT,
    IPV6_FREEBIND,
    IPV6_PKTINFO,
    IPV6_2292PKTOPTIONS,
    IPV6_UNICAST_HOPS,
    IPV6_MTU_DISCOVER,
    IPV6_MTU,
    IPV6_RECVERR,
    IPV6_FLOWINFO_SEND,
    IPV6_FLOWLABEL_MGR,
    IPV6_MINHOPCOUNT,
    IPV6_DONTFRAG,
    IPV6_AUTOFLOWLABEL,
    IPV6_RECVERR_RFC4884,
];

/// getsockopt(2) of an option that is read otherwise than TCP's, or not at all; None: as TCP's. `row`: the option's, whoever has it.
pub(super) fn get(
    a: &mut Access<'_, '_>,
    (level, name): (i32, i32),
    length: i32,
    row: Option<&OptionRow>,
) -> Option<Result<Vec<u8>, Errno>> {
    match before_get(a, level, name) {
        Ok(Reads::AsRow) => None,
        Ok(Reads::IntOrByte) => Some(int_or_byte(a, length, row)),
        // sk_getsockopt: "if (len < 0) return -EINVAL;"
        Ok(Reads::Never(_)) if level == SOL_SOCKET && length < 0 => Some(Err(Errno::EINVAL)),
        Ok(Reads::Never(error)) | Err(error) => Some(Err(error)),
    }
}

/// mptcp_put_int_option: "if (len < 0) return -EINVAL; if (len < sizeof(int) && len > 0 && val >= 0 && val <= 255)".
fn int_or_byte(a: &mut Access<'_, '_>, length: i32, row: Option<&OptionRow>) -> Result<Vec<u8>, Errno> {
    let length = usize::try_from(length).map_err(|_| Errno::EINVAL)?;
    let value = match row.ok_or(Errno::EOPNOTSUPP)?.get {
        Get::Int(get) | Get::IntOrByte(get) => get(a)?,
        Get::Bytes(get) => {
            let bytes = get(a, 4)?;
            bytes.first_chunk::<4>().map_or(0, |bytes| i32::from_ne_bytes(*bytes))
        }
        Get::Asked(_) => return Err(Errno::EOPNOTSUPP),
        Get::Never(error) => return Err(error),
    };
    let mut bytes = value.to_ne_bytes().to_vec();
    bytes.truncate(if (1..4).contains(&length) && (0..=255).contains(&value) { 1 } else { length });
    Ok(bytes)
}

/// How an option of such a socket is read.
enum Reads {
    /// As TCP's.
    AsRow,
    /// As an `int`, one byte of it where fewer than four are asked for and it fits (mptcp_put_int_option).
    IntOrByte,
    /// It is not.
    Never(Errno),
}

/// mptcp_getsockopt; sk_getsockopt where it looks at what kind of socket it is.
fn before_get(a: &mut Access<'_, '_>, level: i32, name: i32) -> Result<Reads, Errno> {
    let socket = a.sockets.get(a.id)?;
    if level == SOL_SOCKET {
        // "if (!sk_is_tcp(sk)) return -EOPNOTSUPP;", and no set_peek_off.
        return Ok(if matches!(name, SO_TXREHASH | SO_PEEK_OFF) { Reads::Never(Errno::EOPNOTSUPP) } else { Reads::AsRow });
    }
    if has_fallen_back(socket, a.cx) {
        // tcp_getsockopt leads to ip_getsockopt, and that to "if (level != SOL_IP) return -EOPNOTSUPP;", ipv6_getsockopt to -ENOPROTOOPT.
        let error = if socket.is_v6() { Errno::ENOPROTOOPT } else { Errno::EOPNOTSUPP };
        return Ok(if level == SOL_MPTCP { Reads::Never(error) } else { Reads::AsRow });
    }
    Ok(match (level, name) {
        (SOL_TCP, TCP_INQ | TCP_CORK | TCP_NODELAY | TCP_KEEPIDLE | TCP_KEEPINTVL | TCP_KEEPCNT | TCP_NOTSENT_LOWAT | TCP_IS_MPTCP)
        | (SOL_IPV6, IPV6_V6ONLY | IPV6_TRANSPARENT | IPV6_FREEBIND)
        | (SOL_IP, IP_TOS | IP_FREEBIND | IP_TRANSPARENT | IP_BIND_ADDRESS_NO_PORT | IP_LOCAL_PORT_RANGE) => Reads::IntOrByte,
        (
            SOL_TCP,
            TCP_ULP
            | TCP_CONGESTION
            | TCP_INFO
            | TCP_CC_INFO
            | TCP_DEFER_ACCEPT
            | TCP_FASTOPEN
            | TCP_FASTOPEN_CONNECT
            | TCP_FASTOPEN_KEY
            | TCP_FASTOPEN_NO_COOKIE
            | TCP_MAXSEG,
        ) => Reads::AsRow,
        (SOL_MPTCP, MPTCP_INFO | MPTCP_TCPINFO | MPTCP_SUBFLOW_ADDRS | MPTCP_FULL_INFO) => Reads::AsRow,
        _ => Reads::Never(Errno::EOPNOTSUPP),
    })
}

/// `struct mptcp_info`.
fn info(a: &mut Access<'_, '_>) -> Result<[u8; MPTCP_INFO_BYTES], Errno> {
    let socket = a.sockets.get(a.id)?;
    // mptcp_diag_fill_info: "if (inet_sk_state_load(sk) == TCP_LISTEN) return;"
    if socket.is_listening() {
        return Ok([0; MPTCP_INFO_BYTES]);
    }
    let found = multipath(socket, a.cx);
    let fresh = || match a.cx.ask(Table::Multipath, &Query::Multipath) {
        Answer::Multipath(node) => MultipathInfo { limits: node.limits, ..MultipathInfo::default() },
        _ => MultipathInfo::default(),
    };
    let mut last = [u32::MAX; 3];
    for subflow in found.iter().flat_map(|info| &info.subflows) {
        let info = told(FlowId(subflow.flow), a.cx);
        let of = info.map_or(last, |info| [info.last_data_sent_ms, info.last_data_recv_ms, info.last_ack_recv_ms]);
        last = [0, 1, 2].map(|at| last[at].min(of[at]));
    }
    let last = last.map(|ms| if ms == u32::MAX { 0 } else { ms });
    Ok(found.map_or_else(|| fresh().to_bytes(last), |info| info.to_bytes(last)))
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

/// What a program says of the room that it has for something of each subflow, and what it gets.
struct Room {
    /// Bytes of its head.
    head: usize,
    /// Of one element.
    each: usize,
    /// For all of them.
    bytes: usize,
}

/// mptcp_get_subflow_data.
fn room(asked: &[u8], length: usize, kernel_bytes: usize) -> Result<Room, Errno> {
    if length < SUBFLOW_DATA_BYTES || i32::try_from(length).is_err() {
        return Err(Errno::EINVAL);
    }
    if asked.len() < SUBFLOW_DATA_BYTES {
        return Err(Errno::EFAULT);
    }
    let (head, each) = (word(asked, 0) as usize, word(asked, 12) as usize);
    let wrong = head > i32::MAX as usize || each > i32::MAX as usize || head < SUBFLOW_DATA_BYTES || head > length;
    if wrong || word(asked, 4) != 0 || word(asked, 8) != 0 {
        return Err(Errno::EINVAL);
    }
    Ok(Room { head, each: each.min(kernel_bytes), bytes: length - head })
}

/// mptcp_put_subflow_data, behind it as many elements as there is room for. What lies between is the program's, as it was.
fn put(asked: &[u8], room: &Room, kernel_bytes: usize, elements: Vec<Vec<u8>>) -> Vec<u8> {
    let words = [room.head, elements.len(), kernel_bytes, room.each].map(|word| u32::try_from(word).unwrap_or(u32::MAX));
    let mut out: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let fit = room.bytes.checked_div(room.each).unwrap_or(0).min(elements.len());
    if fit > 0 {
        out.extend(asked.get(SUBFLOW_DATA_BYTES..room.head).unwrap_or_default());
        out.resize(room.head, 0);
        elements.iter().take(fit).for_each(|element| out.extend(&element[..room.each]));
    }
    out
}

/// A subflow as programs are told of it.
struct Told {
    id: u32,
    /// `struct tcp_info`.
    info: Vec<u8>,
    /// mptcp_get_sub_addrs: two `struct sockaddr_storage`.
    addrs: Vec<u8>,
}

/// The subflows; before there is a connection the one that will begin it, which has been there since the socket was bound (__mptcp_nmpc_sk).
fn subflows(a: &Access<'_, '_>) -> Result<Vec<Told>, Errno> {
    let socket = a.sockets.get(a.id)?;
    // The first has the connection's family; one that joined has its addresses'.
    let shown = |end: SocketAddr, joined: bool| if joined { address::to_bytes(end) } else { address::told(socket.domain, end) };
    let storage = |end: SocketAddr, joined: bool| {
        let mut bytes = shown(end, joined);
        bytes.resize(STORAGE_BYTES, 0);
        bytes
    };
    let addrs = |local: SocketAddr, remote: SocketAddr, joined: bool| [storage(local, joined), storage(remote, joined)].concat();
    if let Some(connection) = multipath(socket, a.cx) {
        let tell = |subflow: &SubflowInfo| {
            let mut info = told(FlowId(subflow.flow), a.cx).unwrap_or_default();
            // tcp_time_wait leaves the socket itself to tcp_done.
            if subflow.waits || subflow.gone {
                info.state = CLOSE;
            }
            let addrs = addrs(subflow.local, subflow.remote, subflow.joined);
            Told { id: subflow.id, info: tcp_info::to_bytes(&info, TCP_INFO_BYTES), addrs }
        };
        return Ok(connection.listed().map(tell).collect());
    }
    if socket.number == 0 {
        return Ok(Vec::new());
    }
    let remote = socket.remote.unwrap_or_else(|| address::unspecified(socket.domain));
    let first = Told { id: 1, info: tcp_info::to_bytes(&a.flow_info()?, TCP_INFO_BYTES), addrs: addrs(socket.local, remote, false) };
    Ok(vec![first])
}

/// mptcp_getsockopt_tcpinfo.
fn tcp_infos(a: &mut Access<'_, '_>, asked: &[u8], length: usize) -> Result<Vec<u8>, Errno> {
    let room = room(asked, length, TCP_INFO_BYTES)?;
    let all = subflows(a)?.into_iter().map(|subflow| subflow.info).collect();
    Ok(put(asked, &room, TCP_INFO_BYTES, all))
}

/// mptcp_getsockopt_subflow_addrs.
fn addresses(a: &mut Access<'_, '_>, asked: &[u8], length: usize) -> Result<Vec<u8>, Errno> {
    let room = room(asked, length, ADDRS_BYTES)?;
    let all = subflows(a)?.into_iter().map(|subflow| subflow.addrs).collect();
    Ok(put(asked, &room, ADDRS_BYTES, all))
}

/// mptcp_getsockopt_full_info. What belongs to the two places that the program names comes behind the struct: see [`split_full`].
fn full(a: &mut Access<'_, '_>, asked: &[u8], length: usize) -> Result<Vec<u8>, Errno> {
    // mptcp_get_full_info: "if (len < MIN_FULL_INFO_OPTLEN_SIZE) return -EINVAL;"
    if length < FULL_HEAD_BYTES || i32::try_from(length).is_err() {
        return Err(Errno::EINVAL);
    }
    if asked.len() < FULL_HEAD_BYTES {
        return Err(Errno::EFAULT);
    }
    let (tcp_user, subflow_user, most) = (word(asked, 4) as usize, word(asked, 12) as usize, word(asked, 20) as usize);
    // "if (full_info.size_tcpinfo_kernel || full_info.size_sfinfo_kernel || full_info.num_subflows) return -EINVAL;"
    if word(asked, 0) != 0 || word(asked, 8) != 0 || word(asked, 16) != 0 {
        return Err(Errno::EINVAL);
    }
    let (bytes, all) = (info(a)?, subflows(a)?);
    let (tcp_user, subflow_user) = (tcp_user.min(TCP_INFO_BYTES), subflow_user.min(SUBFLOW_INFO_BYTES));
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let head = [TCP_INFO_BYTES, tcp_user, SUBFLOW_INFO_BYTES, subflow_user, all.len(), most].map(number);
    let mut out: Vec<u8> = head.iter().flat_map(|word| word.to_ne_bytes()).collect();
    out.extend(&asked[24..FULL_HEAD_BYTES]);
    out.extend(bytes);
    out.truncate(length.min(FULL_INFO_BYTES));
    for subflow in all.iter().take(most) {
        let mut bytes = [subflow.id.to_ne_bytes().as_slice(), &[0; 4], &subflow.addrs].concat();
        bytes.truncate(subflow_user);
        out.extend(bytes);
    }
    for subflow in all.iter().take(most) {
        out.extend(&subflow.info[..tcp_user.min(subflow.info.len())]);
    }
    Ok(out)
}

/// Places in a program's memory, and what belongs there.
pub type Elsewhere = Vec<(u64, Vec<u8>)>;

/// The value of MPTCP_FULL_INFO taken apart: what belongs where the program asked for it, and what belongs to the two places that it named. Of a value for which it
/// had `length` bytes.
pub fn split_full(value: &[u8], length: usize) -> (Vec<u8>, Elsewhere) {
    let own = length.min(FULL_INFO_BYTES).min(value.len());
    let (struct_bytes, rest) = value.split_at(own);
    let place = |at: usize| u64::from(word(value, at)) | u64::from(word(value, at + 4)) << 32;
    let count = word(value, 16).min(word(value, 20)) as usize;
    let first = count.saturating_mul(word(value, 12) as usize).min(rest.len());
    let (subflows, tcp) = rest.split_at(first);
    let all = [(place(24), subflows.to_vec()), (place(32), tcp.to_vec())];
    (struct_bytes.to_vec(), all.into_iter().filter(|(_, bytes)| !bytes.is_empty()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(head: u32, each: u32) -> Vec<u8> {
        [head, 0, 0, each].iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn elements_are_cut_to_what_the_program_has_room_for() {
        let room = room(&asked(16, 3), 16 + 7, 8).unwrap();
        let value = put(&asked(16, 3), &room, 8, vec![vec![1; 8], vec![2; 8], vec![3; 8]]);
        assert_eq!((word(&value, 4), word(&value, 8), word(&value, 12)), (3, 8, 3));
        assert_eq!(value[16..], [1, 1, 1, 2, 2, 2]);
        for (head, length) in [(15, 40), (41, 40), (16, 15), (u32::MAX, 40)] {
            assert_eq!(super::room(&asked(head, 3), length, 8).err(), Some(Errno::EINVAL), "{head} of {length}");
        }
        assert_eq!(super::room(&[], 40, 8).err(), Some(Errno::EFAULT));
    }

    #[test]
    fn what_a_program_wants_elsewhere_is_told_apart() {
        let mut value = vec![0; FULL_INFO_BYTES];
        for (at, word) in [(4, 1_u32), (12, 2), (16, 2), (20, 5), (24, 100), (32, 200)] {
            value[at..at + 4].copy_from_slice(&word.to_ne_bytes());
        }
        value.extend([1, 1, 2, 2, 7, 8]);
        let (own, elsewhere) = split_full(&value, FULL_INFO_BYTES);
        assert_eq!((own.len(), elsewhere), (FULL_INFO_BYTES, vec![(100, vec![1, 1, 2, 2]), (200, vec![7, 8])]));
        assert_eq!(split_full(&[], 10).1, Vec::new());
    }
}
