//! What a program wants to hear with its messages: control messages of IPv6, error queues, times (SOL_IPV6, SOL_IP, SOL_SOCKET).

use super::row::{Access, Applies::Any, Get, OptionRow, Set, flag, row, within};
use crate::abi::*;
use crate::errno::Errno;
use crate::socket::TcpState;
use weft_core::StreamOption;
use weft_core::attached::{Part, is_routing_allowed};

/// A row of a flag at SOL_IPV6 that is kept in `$field`: an `int`, fewer bytes are EINVAL.
macro_rules! flag_row {
    ($name:ident, $field:ident) => {
        row(
            SOL_IPV6,
            $name,
            stringify!($name),
            Any,
            Set::Bytes(|a, v| Ok(a.options()?.$field = int(v)? != 0)),
            Get::Int(|a| flag(a.options()?.$field)),
        )
    };
}

/// A row of an extension header that goes with every packet.
macro_rules! attached_row {
    ($name:ident, $part:ident) => {
        row(
            SOL_IPV6,
            $name,
            stringify!($name),
            Any,
            Set::Bytes(|a, v| attach(a, Part::$part, v)),
            Get::Bytes(|a, length| {
                let mut header = a.options()?.attached.as_ref().map_or_else(Vec::new, |attached| attached.get(Part::$part).to_vec());
                header.truncate(length);
                Ok(header)
            }),
        )
    };
}

pub(super) const ROWS: &[OptionRow] = &[
    flag_row!(IPV6_RECVPKTINFO, packet_info6),
    flag_row!(IPV6_2292PKTINFO, packet_info_2292),
    flag_row!(IPV6_RECVHOPLIMIT, receive_hop_limit),
    flag_row!(IPV6_2292HOPLIMIT, receive_hop_limit_2292),
    flag_row!(IPV6_RECVTCLASS, receive_traffic_class),
    flag_row!(IPV6_FLOWINFO, receive_flow_info),
    flag_row!(IPV6_RECVPATHMTU, receive_path_mtu),
    flag_row!(IPV6_RECVHOPOPTS, receive_hop_options),
    flag_row!(IPV6_RECVRTHDR, receive_routing),
    flag_row!(IPV6_RECVDSTOPTS, receive_destination_options),
    flag_row!(IPV6_2292HOPOPTS, receive_hop_options_2292),
    flag_row!(IPV6_2292RTHDR, receive_routing_2292),
    flag_row!(IPV6_2292DSTOPTS, receive_destination_options_2292),
    attached_row!(IPV6_HOPOPTS, HopByHop),
    attached_row!(IPV6_RTHDRDSTOPTS, BeforeRouting),
    attached_row!(IPV6_RTHDR, Routing),
    attached_row!(IPV6_DSTOPTS, Destination),
    flag_row!(IPV6_RECVORIGDSTADDR, receive_original_destination6),
    row(
        SOL_IPV6,
        IPV6_RECVERR,
        "IPV6_RECVERR",
        Any,
        Set::Bytes(|a, v| {
            let on = int(v)? != 0;
            a.options()?.receive_errors6 = on;
            // "if (!val) skb_errqueue_purge(&sk->sk_error_queue);"
            if !on {
                purge(a)?;
            }
            Ok(())
        }),
        Get::Int(|a| flag(a.options()?.receive_errors6)),
    ),
    // Extensions of RFC 4884 are not looked for in what is quoted: `ee_data` stays as it is without them.
    row(
        SOL_IPV6,
        IPV6_RECVERR_RFC4884,
        "IPV6_RECVERR_RFC4884",
        Any,
        Set::Bytes(|a, v| Ok(a.options()?.receive_errors6_extended = within(int(v)?, 0, 1)? == 1)),
        Get::Int(|a| flag(a.options()?.receive_errors6_extended)),
    ),
    row(
        SOL_IP,
        IP_RECVERR_RFC4884,
        "IP_RECVERR_RFC4884",
        Any,
        Set::IntOrByte(|a, v| Ok(a.options()?.receive_errors_extended = within(v, 0, 1)? == 1)),
        Get::IntOrByte(|a| flag(a.options()?.receive_errors_extended)),
    ),
    // struct so_timestamping { int flags; int bind_phc; }
    row(
        SOL_SOCKET,
        SO_TIMESTAMPING_OLD,
        "SO_TIMESTAMPING",
        Any,
        Set::Int(|a, v| set_timestamping(a, v as u32, false)),
        Get::Bytes(|a, _| timestamping(a, false)),
    ),
    row(
        SOL_SOCKET,
        SO_TIMESTAMPING_NEW,
        "SO_TIMESTAMPING_NEW",
        Any,
        Set::Int(|a, v| set_timestamping(a, v as u32, true)),
        Get::Bytes(|a, _| timestamping(a, true)),
    ),
];

fn int(value: &[u8]) -> Result<i32, Errno> {
    value.first_chunk::<4>().map(|bytes| i32::from_ne_bytes(*bytes)).ok_or(Errno::EINVAL)
}

/// Empties the error queue; what is pending stays so.
pub(super) fn purge(a: &mut Access<'_, '_>) -> Result<(), Errno> {
    a.socket()?.errors_mut().clear();
    Ok(())
}

/// `sock_set_timestamping`. What is wrong with OPT_ID is found before what is wrong with OPT_STATS, and may have changed a key.
fn set_timestamping(a: &mut Access<'_, '_>, flags: u32, new: bool) -> Result<(), Errno> {
    if !is_timestamping(flags) {
        return Err(Errno::EINVAL);
    }
    let begins = flags & TIMESTAMPING_OPT_ID != 0 && a.options()?.timestamping & TIMESTAMPING_OPT_ID == 0;
    let key = if begins { first_key(a, flags)? } else { a.options()?.timestamp_key };
    // No interface has a clock of its own: sock_timestamping_bind_phc.
    if flags & TIMESTAMPING_BIND_PHC != 0 {
        return Err(if a.options()?.interface == 0 { Errno::EOPNOTSUPP } else { Errno::EINVAL });
    }
    let options = a.options()?;
    (options.timestamp_key, options.timestamping, options.timestamping_new) = (key, flags, new);
    Ok(())
}

/// What numbers begin with. Of a stream they count its bytes: "if ((1 << sk->sk_state) & (TCPF_CLOSE | TCPF_LISTEN)) return -EINVAL; if (val &
/// SOF_TIMESTAMPING_OPT_ID_TCP) atomic_set(&sk->sk_tskey, tcp_sk(sk)->write_seq); else atomic_set(&sk->sk_tskey, tcp_sk(sk)->snd_una);"
fn first_key(a: &mut Access<'_, '_>, flags: u32) -> Result<u32, Errno> {
    let Ok(stream) = a.stream() else { return Ok(0) };
    let (state, written) = (stream.state, stream.written as u32);
    match state {
        TcpState::Close | TcpState::Listen => Err(Errno::EINVAL),
        _ if flags & TIMESTAMPING_OPT_ID_TCP != 0 => Ok(written),
        // The SYN counts one, and is not acknowledged.
        TcpState::SynSent => Ok(u32::MAX),
        _ => Ok(written.wrapping_sub(a.flow_info()?.send_queue_bytes)),
    }
}

/// Are these flags of SO_TIMESTAMPING? SOF_TIMESTAMPING_MASK; `sock_set_timestamping`: "if (val &
/// SOF_TIMESTAMPING_OPT_ID_TCP && !(val & SOF_TIMESTAMPING_OPT_ID)) return -EINVAL;"; likewise OPT_STATS without OPT_TSONLY.
pub fn is_timestamping(flags: u32) -> bool {
    let unknown = flags & !0x7_ffff != 0;
    let lonely_id = flags & TIMESTAMPING_OPT_ID_TCP != 0 && flags & TIMESTAMPING_OPT_ID == 0;
    let lonely_stats = flags & TIMESTAMPING_OPT_STATS != 0 && flags & TIMESTAMPING_OPT_TSONLY == 0;
    !unknown && !lonely_id && !lonely_stats
}

/// "if (optname == SO_TIMESTAMPING_OLD || sock_flag(sk, SOCK_TSTAMP_NEW))", else zeros.
fn timestamping(a: &mut Access<'_, '_>, new: bool) -> Result<Vec<u8>, Errno> {
    let options = a.options()?;
    let flags = if !new || options.timestamping_new { options.timestamping } else { 0 };
    let mut value = flags.to_ne_bytes().to_vec();
    value.resize(8, 0);
    Ok(value)
}

/// `ipv6_set_opt_hdr`: "remove any sticky options header with a zero option length, per RFC3542."; "if (optlen < sizeof(struct ipv6_opt_hdr) ||
/// optlen & 0x7 || optlen > 8 * 255) goto sticky_done;" Programs have all rights over their node.
fn attach(a: &mut Access<'_, '_>, part: Part, value: &[u8]) -> Result<(), Errno> {
    let odd = value.len() < 2 || !value.len().is_multiple_of(8) || value.len() > 8 * 255;
    if !value.is_empty() && (odd || part == Part::Routing && !is_routing_allowed(value)) {
        return Err(Errno::EINVAL);
    }
    let mut attached = a.options()?.attached.clone().unwrap_or_default();
    if !attached.set(part, value) {
        return Err(Errno::EINVAL);
    }
    let attached = Some(attached).filter(|attached| !attached.is_empty());
    a.options()?.attached.clone_from(&attached);
    a.of_family(true, StreamOption::Attached(attached))
}
