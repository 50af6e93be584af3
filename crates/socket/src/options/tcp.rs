//! SOL_TCP (linux/net/ipv4/tcp.c: do_tcp_setsockopt, do_tcp_getsockopt).

use super::row::{Access, Applies::Stream, Get, OptionRow, Set, flag, row, seconds, within};
use crate::abi::*;
use crate::errno::Errno;
use crate::socket::TcpState;
use std::time::Duration;
use weft_core::{Answer, Query, StreamOption, Table};

/// TCP_MSS_DEFAULT: what TCP_MAXSEG says before there is a connection.
const MSS_DEFAULT: i32 = 536;
const TCP_MIN_MSS: i32 = 88;
const MAX_TCP_WINDOW: i32 = 32767;
/// TCP_FIN_TIMEOUT (net.ipv4.tcp_fin_timeout), seconds.
const FIN_TIMEOUT_SECONDS: i32 = 60;
/// TCP_FIN_TIMEOUT_MAX, seconds.
const FIN_TIMEOUT_SECONDS_MAX: i32 = 120;
const NAME_BYTES: usize = 16;

/// An option that a program can neither set nor read here.
const fn refused(name: i32, label: &'static str, error: Errno) -> OptionRow {
    row(SOL_TCP, name, label, Stream, Set::Never(error), Get::Never(error))
}

pub(super) const ROWS: &[OptionRow] = &[
    row(
        SOL_TCP,
        TCP_NODELAY,
        "TCP_NODELAY",
        Stream,
        Set::Int(|a, v| a.transport(StreamOption::Nodelay(v != 0))),
        Get::Int(|a| flag(a.stream()?.transport.nodelay)),
    ),
    row(
        SOL_TCP,
        TCP_MAXSEG,
        "TCP_MAXSEG",
        Stream,
        Set::Int(|a, v| {
            // "Values greater than interface MTU won't take effect. … if (val && (val < TCP_MIN_MSS || val > MAX_TCP_WINDOW)) return -EINVAL;"
            if v != 0 {
                within(v, TCP_MIN_MSS, MAX_TCP_WINDOW)?;
            }
            a.transport(StreamOption::MssMax(v as u32))
        }),
        Get::Int(maxseg),
    ),
    row(
        SOL_TCP,
        TCP_CORK,
        "TCP_CORK",
        Stream,
        Set::Int(|a, v| a.transport(StreamOption::Cork(v != 0))),
        Get::Int(|a| flag(a.stream()?.transport.cork)),
    ),
    row(
        SOL_TCP,
        TCP_KEEPIDLE,
        "TCP_KEEPIDLE",
        Stream,
        Set::Int(|a, v| {
            let idle = seconds(within(v, 1, 32767)?);
            a.transport(StreamOption::KeepaliveIdle(Some(idle)))
        }),
        Get::Int(|a| Ok(a.stream()?.transport.keepalive_idle.map_or(7200, |idle| idle.as_secs() as i32))),
    ),
    row(
        SOL_TCP,
        TCP_KEEPINTVL,
        "TCP_KEEPINTVL",
        Stream,
        Set::Int(|a, v| {
            let interval = seconds(within(v, 1, 32767)?);
            a.transport(StreamOption::KeepaliveInterval(Some(interval)))
        }),
        Get::Int(|a| Ok(a.stream()?.transport.keepalive_interval.map_or(75, |interval| interval.as_secs() as i32))),
    ),
    row(
        SOL_TCP,
        TCP_KEEPCNT,
        "TCP_KEEPCNT",
        Stream,
        Set::Int(|a, v| {
            let probes = within(v, 1, 127)? as u32;
            a.transport(StreamOption::KeepaliveProbes(Some(probes)))
        }),
        Get::Int(|a| Ok(a.stream()?.transport.keepalive_probes.map_or(9, |probes| probes as i32))),
    ),
    row(
        SOL_TCP,
        TCP_SYNCNT,
        "TCP_SYNCNT",
        Stream,
        Set::Int(|a, v| {
            let retries = within(v, 1, 127)? as u32;
            a.transport(StreamOption::SynRetries(Some(retries)))
        }),
        Get::Int(|a| Ok(a.stream()?.transport.syn_retries.map_or(6, |retries| retries as i32))),
    ),
    row(
        SOL_TCP,
        TCP_LINGER2,
        "TCP_LINGER2",
        Stream,
        Set::Int(set_linger2),
        Get::Int(|a| {
            Ok(match a.stream()?.transport.fin_wait_2 {
                None => FIN_TIMEOUT_SECONDS,
                Some(Duration::ZERO) => -1,
                Some(time) => time.as_secs() as i32,
            })
        }),
    ),
    row(
        SOL_TCP,
        TCP_DEFER_ACCEPT,
        "TCP_DEFER_ACCEPT",
        Stream,
        Set::Int(|a, v| {
            // "Translate value in seconds to number of retransmits", and back: the value comes out rounded up to 1, 3, 7, 15 … seconds.
            a.transport(StreamOption::DeferAccept(Duration::from_secs(retransmit_seconds(v))))
        }),
        Get::Int(|a| Ok(a.stream()?.transport.defer_accept.as_secs() as i32)),
    ),
    row(SOL_TCP, TCP_WINDOW_CLAMP, "TCP_WINDOW_CLAMP", Stream, Set::Int(set_window_clamp), Get::Int(window_clamp)),
    row(
        SOL_TCP,
        TCP_INFO,
        "TCP_INFO",
        Stream,
        Set::Never(Errno::ENOPROTOOPT),
        Get::Bytes(|a, length| {
            let info = a.flow_info()?;
            Ok(weft_core::tcp_info::to_bytes(&info, length))
        }),
    ),
    row(
        SOL_TCP,
        TCP_QUICKACK,
        "TCP_QUICKACK",
        Stream,
        Set::Int(|a, v| a.transport(StreamOption::Quickack(Some(v != 0)))),
        Get::Int(|a| flag(a.stream()?.transport.quickack != Some(false))),
    ),
    row(SOL_TCP, TCP_CONGESTION, "TCP_CONGESTION", Stream, Set::Bytes(set_congestion), Get::Bytes(congestion)),
    // Keyed segments (RFC 2385, RFC 5925) are not made: refused as by a kernel built without them.
    refused(TCP_MD5SIG, "TCP_MD5SIG", Errno::ENOPROTOOPT),
    row(SOL_TCP, TCP_AO_REPAIR, "TCP_AO_REPAIR", Stream, Set::Int(|a, _| Err(repair_of_keys(a)?)), Get::Int(|a| Err(repair_of_keys(a)?))),
    row(
        SOL_TCP,
        TCP_USER_TIMEOUT,
        "TCP_USER_TIMEOUT",
        Stream,
        Set::Int(|a, v| {
            // "if (val < 0) return -EINVAL;" milliseconds, 0: off
            let millis = within(v, 0, i32::MAX)?;
            a.transport(StreamOption::UserTimeout((millis > 0).then(|| Duration::from_millis(millis.unsigned_abs().into()))))
        }),
        Get::Int(|a| Ok(a.stream()?.transport.user_timeout.map_or(0, |timeout| timeout.as_millis() as i32))),
    ),
    row(SOL_TCP, TCP_REPAIR, "TCP_REPAIR", Stream, Set::Never(Errno::EPERM), Get::Int(|_| Ok(0))),
    row(
        SOL_TCP,
        TCP_NOTSENT_LOWAT,
        "TCP_NOTSENT_LOWAT",
        Stream,
        Set::Int(|a, v| {
            // 0: the node's default, which is "off".
            a.options()?.unsent_low_water = v;
            a.transport(StreamOption::UnsentLowWater(if v == 0 { u32::MAX } else { v as u32 }))
        }),
        Get::Int(|a| Ok(a.options()?.unsent_low_water)),
    ),
    row(
        SOL_TCP,
        TCP_SAVE_SYN,
        "TCP_SAVE_SYN",
        Stream,
        // "0: disable, 1: enable, 2: start from ether_header": "if (val < 0 || val > 2) err = -EINVAL;"
        Set::Int(|a, v| {
            let how = within(v, 0, 2)? as u8;
            a.transport(StreamOption::SaveSyn(how))
        }),
        Get::Int(|a| Ok(i32::from(a.stream()?.transport.save_syn))),
    ),
    // No upper-layer protocol (kernel TLS) is built in: tcp_set_ulp gives ENOENT for a name it cannot find.
    row(
        SOL_TCP,
        TCP_ULP,
        "TCP_ULP",
        Stream,
        Set::Bytes(|_, v| Err(if v.is_empty() { Errno::EINVAL } else { Errno::ENOENT })),
        // The name in 16 bytes (TCP_ULP_NAME_MAX); subflows of a socket of IPPROTO_MPTCP have one.
        Get::Bytes(|a, _| Ok(if a.socket()?.protocol == IPPROTO_MPTCP { b"mptcp\0\0\0\0\0\0\0\0\0\0\0".to_vec() } else { Vec::new() })),
    ),
    row(
        SOL_TCP,
        TCP_INQ,
        "TCP_INQ",
        Stream,
        Set::Int(|a, v| Ok(a.options()?.tcp_inq = within(v, 0, 1)? == 1)),
        Get::Int(|a| flag(a.options()?.tcp_inq)),
    ),
];

/// tcp_can_repair_sock: "… && (sk->sk_state != TCP_LISTEN)", which comes before whether there are keyed segments at all.
fn repair_of_keys(a: &mut Access<'_, '_>) -> Result<Errno, Errno> {
    Ok(if a.stream()?.state == TcpState::Listen { Errno::EPERM } else { Errno::ENOPROTOOPT })
}

/// "val = tp->mss_cache; if (tp->rx_opt.user_mss && ((1 << sk->sk_state) & (TCPF_CLOSE | TCPF_LISTEN))) val = tp->rx_opt.user_mss;"
fn maxseg(a: &mut Access<'_, '_>) -> Result<i32, Errno> {
    let stream = a.stream()?;
    let (user, idle) = (stream.transport.mss_max, matches!(stream.state, TcpState::Close | TcpState::Listen));
    if idle && user != 0 {
        return Ok(user as i32);
    }
    let info = a.flow_info()?;
    Ok(if idle || info.snd_mss == 0 { MSS_DEFAULT } else { info.snd_mss as i32 })
}

fn set_linger2(a: &mut Access<'_, '_>, value: i32) -> Result<(), Errno> {
    // "if (val < 0) WRITE_ONCE(tp->linger2, -1); else if (val > TCP_FIN_TIMEOUT_MAX / HZ) … TCP_FIN_TIMEOUT_MAX; else … val * HZ"; 0 is the default
    let time = match value {
        ..0 => Some(Duration::ZERO),
        0 => None,
        _ => Some(seconds(value.min(FIN_TIMEOUT_SECONDS_MAX))),
    };
    a.transport(StreamOption::FinWait2(time))
}

/// `secs_to_retrans` and `retrans_to_secs` with a first timeout of 1 s and a largest of 120 s.
fn retransmit_seconds(seconds: i32) -> u64 {
    let Ok(seconds) = u64::try_from(seconds) else { return 0 };
    if seconds == 0 {
        return 0;
    }
    let (mut period, mut timeout) = (1u64, 1u64);
    for _ in 1..255 {
        if seconds <= period {
            break;
        }
        timeout = (timeout * 2).min(120);
        period += timeout;
    }
    period
}

fn set_window_clamp(a: &mut Access<'_, '_>, value: i32) -> Result<(), Errno> {
    // tcp_set_window_clamp: "if (!val) { if (sk->sk_state != TCP_CLOSE) return -EINVAL; … 0 } else { … max(SOCK_MIN_RCVBUF / 2, val) }"
    let closed = a.stream()?.state == TcpState::Close;
    let clamp = match value {
        0 if !closed => return Err(Errno::EINVAL),
        0 => 0,
        _ => value.max(1152) as u32,
    };
    a.transport(StreamOption::WindowClamp(clamp))
}

/// Of a connection: as it stands, by its receive buffer.
fn window_clamp(a: &mut Access<'_, '_>) -> Result<i32, Errno> {
    let set = a.stream()?.transport.window_clamp;
    let known = a.flow_info()?.window_clamp;
    Ok(i32::try_from(if known > 0 { known } else { set }).unwrap_or(i32::MAX))
}

fn names(a: &Access<'_, '_>) -> Vec<String> {
    match a.cx.ask(Table::Flows, &Query::CongestionControls) {
        Answer::CongestionControls(names) => names,
        _ => Vec::new(),
    }
}

/// "if (optlen < 1) return -EINVAL; val = strncpy_from_sockptr(name, optval, min_t(long, TCP_CA_NAME_MAX-1, optlen));"
fn set_congestion(a: &mut Access<'_, '_>, value: &[u8]) -> Result<(), Errno> {
    if value.is_empty() {
        return Err(Errno::EINVAL);
    }
    let value = &value[..value.len().min(NAME_BYTES - 1)];
    let name = String::from_utf8_lossy(value.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned();
    if !names(a).contains(&name) {
        return Err(Errno::ENOENT);
    }
    a.transport(StreamOption::Congestion(Some(name)))
}

/// "len = min_t(unsigned int, len, TCP_CA_NAME_MAX);": the name in 16 bytes.
fn congestion(a: &mut Access<'_, '_>, _: usize) -> Result<Vec<u8>, Errno> {
    let name = match a.stream()?.transport.congestion.clone() {
        Some(name) => name,
        None => names(a).into_iter().next().unwrap_or_default(),
    };
    let mut bytes = name.into_bytes();
    bytes.resize(NAME_BYTES, 0);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deferred_accepts_are_rounded_to_whole_retransmissions() {
        let rounded: Vec<u64> = [-1, 0, 1, 2, 3, 4, 10, 100].into_iter().map(retransmit_seconds).collect();
        assert_eq!(rounded, [0, 0, 1, 3, 3, 7, 15, 127]);
    }
}
