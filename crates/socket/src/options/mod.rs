//! Socket options: one table row each, by level. What has no row gives ENOPROTOOPT, never silence.
//!
//! Rows name how a value is read (its length rules are the level's) and how it is written. An option that weft does not act on is either a
//! row that says so in its comment and keeps the value (where Linux's effect cannot be seen by a program), or a refusal.

// One-line rows: an assignment inside Ok() says "set it and succeed".
#![allow(clippy::unit_arg)]

mod control;
mod fast_open;
mod filter;
mod ip;
mod ipv6;
mod kept;
mod multicast;
mod multipath;
mod packet;
mod raw;
mod reads;
mod row;
mod socket;
mod tcp;
mod tuning;
mod udp;

use crate::abi::*;
use crate::errno::Errno;
use crate::poll::Poll;
use crate::socket::{Body, Socket};
use row::{Get, Set};

pub use control::is_timestamping;
pub(crate) use kept::{Options, TCP_RECEIVE_BUFFER, TCP_SEND_BUFFER};
pub use multipath::{Elsewhere, split_full};
pub use packet::refused as refused_of_packets;
pub use reads::bytes_asked;
pub(crate) use reads::bytes_read;
pub(crate) use row::Access;
pub use row::{Applies, OptionRow};
pub use socket::{timeval, timeval_bytes};

/// All rows of all levels.
pub fn rows() -> impl Iterator<Item = &'static OptionRow> {
    socket::ROWS
        .iter()
        .chain(tuning::SOCKET_ROWS)
        .chain(ip::ROWS)
        .chain(ipv6::ROWS)
        .chain(tuning::TCP_ROWS)
        .chain(tcp::ROWS)
        .chain(udp::ROWS)
        .chain(raw::ROWS)
        .chain(fast_open::ROWS)
        .chain(multicast::ROWS)
        .chain(control::ROWS)
        .chain(multipath::ROWS)
        .chain(packet::ROWS)
}

/// The rows of a level, as far as this socket has it.
fn tables(socket: &Socket, level: i32) -> Option<[&'static [OptionRow]; 2]> {
    match (level, &socket.body) {
        (SOL_SOCKET, _) => Some([socket::ROWS, tuning::SOCKET_ROWS]),
        // packet_setsockopt, packet_getsockopt: "if (level != SOL_PACKET) return -ENOPROTOOPT;"
        (SOL_PACKET, Body::Packet(_)) => Some([packet::ROWS, &[]]),
        (_, Body::Packet(_)) => None,
        // ipv6_setsockopt: "if (level == SOL_IP && sk->sk_type != SOCK_RAW) return ip_setsockopt(…); if (level != SOL_IPV6) return -ENOPROTOOPT;"
        (SOL_IP, Body::Raw(_)) if socket.is_v6() => None,
        (SOL_IP, _) => Some([ip::ROWS, &[]]),
        (SOL_IPV6, _) if socket.is_v6() => Some([ipv6::ROWS, &[]]),
        (SOL_TCP, Body::Stream(_)) => Some([tcp::ROWS, tuning::TCP_ROWS]),
        (SOL_MPTCP, Body::Stream(_)) if socket.protocol == IPPROTO_MPTCP => Some([&[], &[]]),
        (SOL_UDP, Body::Datagram(_)) => Some([udp::ROWS, &[]]),
        (SOL_ICMPV6, Body::Raw(_)) if !socket.is_v6() => None,
        (SOL_RAW | SOL_ICMPV6, Body::Raw(_)) => Some([raw::ROWS, &[]]),
        _ => None,
    }
}

fn find(socket: &Socket, level: i32, name: i32) -> Option<&'static OptionRow> {
    let applies = |row: &&OptionRow| match row.applies {
        Applies::Any => true,
        Applies::Stream => matches!(socket.body, Body::Stream(_)),
        Applies::Datagram => matches!(socket.body, Body::Datagram(_)),
        Applies::Raw => matches!(socket.body, Body::Raw(_)),
        Applies::Packet => matches!(socket.body, Body::Packet(_)),
    };
    tables(socket, level)?
        .into_iter()
        .flatten()
        .chain(raw::ROWS)
        .chain(fast_open::ROWS)
        .chain(multicast::ROWS)
        .chain(control::ROWS)
        .chain(multipath::ROWS)
        .find(|row| (row.level, row.name) == (level, name) && applies(row))
}

/// udp_setsockopt, udp_getsockopt: "if (level == SOL_UDP || level == SOL_UDPLITE …) return udp_lib_setsockopt(…);"
fn of_udp(socket: &Socket, level: i32) -> i32 {
    if level == SOL_UDPLITE && matches!(socket.body, Body::Datagram(_)) { SOL_UDP } else { level }
}

/// What an option comes to that the socket has not. rawv6_setsockopt, of SOL_ICMPV6: "if (inet_sk(sk)->inet_num != IPPROTO_ICMPV6) return
/// -EOPNOTSUPP;".
fn unknown(socket: &Socket, level: i32) -> Errno {
    let other = level == SOL_ICMPV6 && socket.is_v6() && socket.raw().is_some() && socket.protocol != IPPROTO_ICMPV6;
    if other { Errno::EOPNOTSUPP } else { Errno::ENOPROTOOPT }
}

/// setsockopt(2).
pub(crate) fn set(access: &mut Access<'_, '_>, level: i32, name: i32, value: &[u8]) -> Result<(), Errno> {
    let socket = access.socket()?;
    let level = of_udp(socket, level);
    if socket.protocol == IPPROTO_MPTCP && multipath::before_set(access, level, name)? {
        return Ok(());
    }
    let socket = access.socket()?;
    let row = find(socket, level, name);
    let integer = value.first_chunk::<4>().map(|bytes| i32::from_ne_bytes(*bytes));
    // sk_setsockopt, do_tcp_setsockopt, udp_lib_setsockopt: "if (optlen < sizeof(int)) return -EINVAL;" stands before the switch by name.
    let length_first = match (level, &socket.body) {
        (SOL_SOCKET, _) | (SOL_TCP, Body::Stream(_)) | (SOL_UDP, Body::Datagram(_)) => true,
        // do_rawv6_setsockopt
        (SOL_RAW, Body::Raw(_)) => socket.is_v6(),
        _ => false,
    };
    if length_first && integer.is_none() && !matches!(row, Some(OptionRow { set: Set::Bytes(_), .. })) {
        return Err(Errno::EINVAL);
    }
    let row = row.ok_or(unknown(access.socket()?, level))?;
    match row.set {
        Set::Int(set) => set(access, integer.ok_or(Errno::EINVAL)?)?,
        // packet_setsockopt: "if (optlen != sizeof(val)) return -EINVAL;"
        Set::OneInt(set) => set(access, integer.filter(|_| value.len() == 4).ok_or(Errno::EINVAL)?)?,
        // do_ip_setsockopt: "if (optlen >= sizeof(int)) … else if (optlen >= sizeof(char)) … val = (int) ucval;", and 0 for nothing.
        Set::IntOrByte(set) => set(access, integer.unwrap_or_else(|| value.first().copied().map_or(0, i32::from)))?,
        Set::IntOrOneByte(set) => {
            let byte = value.first().copied().map(i32::from);
            set(access, integer.or(byte).ok_or(Errno::EINVAL)?)?;
        }
        Set::IntOrZero(set) => set(access, integer.unwrap_or(0))?,
        Set::Bytes(set) => set(access, value)?,
        Set::Never(error) => return Err(error),
    }
    access.options()?.set.add(row.label);
    let wakes = wakes(access.socket()?, level, name);
    access.sockets.touch(access.id, wakes);
    Ok(())
}

/// Whom an option wakes that is set: tcp_set_rcvlowat has "tcp_data_ready(sk);", SO_SNDBUF and TCP_NOTSENT_LOWAT "sk->sk_write_space(sk);".
fn wakes(socket: &Socket, level: i32, name: i32) -> Poll {
    match (level, name) {
        (SOL_SOCKET, SO_RCVLOWAT) if socket.stream().is_some() => Poll::WAKES_READERS,
        (SOL_SOCKET, SO_SNDBUF | SO_SNDBUFFORCE) | (SOL_TCP, TCP_NOTSENT_LOWAT) => Poll::WAKES_WRITERS,
        _ => Poll::NONE,
    }
}

/// getsockopt(2), of a length below zero, too. `asked`: what the program has in the place for the value, of an option that looks at it.
pub(crate) fn get(access: &mut Access<'_, '_>, level: i32, name: i32, asked: &[u8], length: i32) -> Result<Vec<u8>, Errno> {
    let socket = access.socket()?;
    let level = of_udp(socket, level);
    if socket.protocol == IPPROTO_MPTCP
        && let Some(told) = multipath::get(access, (level, name), length, rows().find(|row| (row.level, row.name) == (level, name)))
    {
        return told;
    }
    let socket = access.socket()?;
    // ip_getsockopt: "if (level != SOL_IP) return -EOPNOTSUPP;", where ip_setsockopt says ENOPROTOOPT, and ipv6_getsockopt too.
    let of_level = tables(socket, level).is_some();
    let unknown = if socket.is_v6() || socket.packet().is_some() || of_level { unknown(socket, level) } else { Errno::EOPNOTSUPP };
    let row = find(socket, level, name);
    let told = length;
    let length = match usize::try_from(length) {
        Ok(length) => length,
        // do_ipv6_getsockopt, do_rawv6_getsockopt: "len = min_t(unsigned int, sizeof(int), len);"
        // mptcp_getsockopt_info too.
        Err(_) if (level, name) == (SOL_MPTCP, MPTCP_INFO) => usize::MAX,
        Err(_) if level == SOL_IPV6 || level == SOL_RAW && socket.is_v6() => usize::MAX,
        // sk_getsockopt, do_ip_getsockopt, do_tcp_getsockopt, udp_lib_getsockopt: "if (len < 0) return -EINVAL;" before they look at the name;
        // raw_geticmpfilter behind it.
        Err(_) if of_level && !matches!(level, SOL_RAW | SOL_ICMPV6) => return Err(Errno::EINVAL),
        Err(_) => match row.map(|row| row.get) {
            Some(Get::Bytes(get)) => return get(access, 0).and(Err(Errno::EINVAL)),
            _ => return Err(unknown),
        },
    };
    let row = row.ok_or(unknown)?;
    let mut value = match row.get {
        Get::Int(get) => get(access)?.to_ne_bytes().to_vec(),
        Get::IntOrByte(get) => match get(access)? {
            // do_ip_getsockopt: "if (len < sizeof(int) && len > 0 && val >= 0 && val <= 255) { unsigned char ucval = (unsigned char)val; len = 1;"
            small @ 0..=255 if (1..4).contains(&length) => vec![small as u8],
            number => number.to_ne_bytes().to_vec(),
        },
        Get::Bytes(get) => get(access, length)?,
        // ipv6_get_msfilter: "if (len < size0) return -EINVAL;", of an `int`.
        Get::Asked(get) => return get(access, asked, usize::try_from(told).unwrap_or(0)),
        Get::Never(error) => return Err(error),
    };
    value.truncate(length);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_has_one_row() {
        for row in rows() {
            let same = rows().filter(|other| (other.level, other.name) == (row.level, row.name)).count();
            assert_eq!(same, 1, "{row:?}");
        }
        assert!(rows().count() > 90);
    }
}
