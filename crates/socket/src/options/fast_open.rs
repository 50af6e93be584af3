//! Fast Open at SOL_TCP (linux/net/ipv4/tcp.c: do_tcp_setsockopt, do_tcp_getsockopt). What it does to sends is in `crate::fast_open`.

use super::row::{Access, Applies::Stream, Get, OptionRow, Set, row, within};
use crate::abi::{SOL_TCP, TCP_CC_INFO, TCP_FASTOPEN, TCP_FASTOPEN_CONNECT, TCP_FASTOPEN_KEY, TCP_FASTOPEN_NO_COOKIE};
use crate::errno::Errno;
use crate::fast_open::is_allowed;
use crate::socket::TcpState;
use weft_core::StreamOption;

/// Lengths of TCP_FASTOPEN_KEY: one key, or two.
const KEY_BYTES: [usize; 2] = [16, 32];

/// The options stand while the socket is neither connected nor connecting.
fn idle(a: &mut Access<'_, '_>) -> Result<(), Errno> {
    let idle = matches!(a.stream()?.state, TcpState::Close | TcpState::Listen);
    if idle { Ok(()) } else { Err(Errno::EINVAL) }
}

/// "case TCP_FASTOPEN: if (val >= 0 && ((1 << sk->sk_state) & (TCPF_CLOSE | TCPF_LISTEN))) … else err = -EINVAL;", at most somaxconn.
fn set_queue(a: &mut Access<'_, '_>, value: i32) -> Result<(), Errno> {
    let value = u32::try_from(value).map_err(|_| Errno::EINVAL)?;
    idle(a)?;
    let most = a.sockets.limits.backlog_max;
    a.transport(StreamOption::FastOpenQueue(value.min(most)))
}

/// "if (val > 1 || val < 0) err = -EINVAL; else if (… & TFO_CLIENT_ENABLE) { if (sk->sk_state == TCP_CLOSE) … else err = -EINVAL; } else -EOPNOTSUPP".
fn set_connect(a: &mut Access<'_, '_>, value: i32) -> Result<(), Errno> {
    within(value, 0, 1)?;
    if !is_allowed(a.cx) {
        return Err(Errno::EOPNOTSUPP);
    }
    let stream = a.stream()?;
    if stream.state != TcpState::Close {
        return Err(Errno::EINVAL);
    }
    stream.fast_open_connect = value == 1;
    Ok(())
}

fn set_no_cookie(a: &mut Access<'_, '_>, value: i32) -> Result<(), Errno> {
    within(value, 0, 1)?;
    idle(a)?;
    a.transport(StreamOption::FastOpenNoCookie(value == 1))
}

/// do_tcp_setsockopt: "if (optlen != TCP_FASTOPEN_KEY_LENGTH && optlen != TCP_FASTOPEN_KEY_BUF_LENGTH) return -EINVAL;"
fn set_key(a: &mut Access<'_, '_>, value: &[u8]) -> Result<(), Errno> {
    if !KEY_BYTES.contains(&value.len()) {
        return Err(Errno::EINVAL);
    }
    a.transport(StreamOption::FastOpenKey(value.to_vec()))
}

fn cc_info(a: &mut Access<'_, '_>, length: usize) -> Result<Vec<u8>, Errno> {
    let info = a.flow_info()?;
    let mut bytes: Vec<u8> = info.cc_info.iter().flat_map(|word| word.to_ne_bytes()).collect();
    bytes.truncate(length);
    Ok(bytes)
}

pub(super) const ROWS: &[OptionRow] = &[
    row(SOL_TCP, TCP_FASTOPEN, "TCP_FASTOPEN", Stream, Set::Int(set_queue), Get::Int(|a| Ok(a.stream()?.transport.fast_open_queue as i32))),
    row(
        SOL_TCP,
        TCP_FASTOPEN_CONNECT,
        "TCP_FASTOPEN_CONNECT",
        Stream,
        Set::Int(set_connect),
        Get::Int(|a| Ok(i32::from(a.stream()?.fast_open_connect))),
    ),
    row(
        SOL_TCP,
        TCP_FASTOPEN_KEY,
        "TCP_FASTOPEN_KEY",
        Stream,
        Set::Bytes(set_key),
        Get::Bytes(|a, length| {
            let mut key = a.stream()?.transport.fast_open_key.clone();
            key.truncate(length);
            Ok(key)
        }),
    ),
    row(
        SOL_TCP,
        TCP_FASTOPEN_NO_COOKIE,
        "TCP_FASTOPEN_NO_COOKIE",
        Stream,
        Set::Int(set_no_cookie),
        Get::Int(|a| Ok(i32::from(a.stream()?.transport.fast_open_no_cookie))),
    ),
    row(SOL_TCP, TCP_CC_INFO, "TCP_CC_INFO", Stream, Set::Never(Errno::ENOPROTOOPT), Get::Bytes(cc_info)),
];
