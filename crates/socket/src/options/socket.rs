//! SOL_SOCKET (linux/net/core/sock.c: sk_setsockopt, sk_getsockopt).

use super::filter::{attach, detach};
use super::kept::{RECEIVE_BUFFER_LOCK, SEND_BUFFER_LOCK};
use super::row::{Access, Applies::Any, Get, OptionRow, Set, flag, row, seconds, within};
use crate::abi::*;
use crate::errno::Errno;
use crate::poll::Poll;
use crate::socket::Body;
use std::time::Duration;
use weft_core::table::Table;
use weft_core::{Answer, InterfaceIndex, Query, StreamOption};

/// SOCK_MIN_SNDBUF: two minimal buffers.
const SEND_BUFFER_MIN: u32 = 4608;
/// SOCK_MIN_RCVBUF.
const RECEIVE_BUFFER_MIN: u32 = 2304;
/// `tcp_rmem[2]`, as Linux has it.
const STREAM_BUFFER_MAX: i32 = 33_554_432;
/// Timeouts are kept in ticks of 4 ms (CONFIG_HZ=250) and rounded up.
const TICK_MICROS: u64 = 4000;
/// MAX_SCHEDULE_TIMEOUT / HZ, seconds.
const TIMEOUT_SECONDS_MAX: i64 = i64::MAX / 250;
const IFNAMSIZ: usize = 16;

const READ_ONLY: Set = Set::Never(Errno::ENOPROTOOPT);
const WRITE_ONLY: Get = Get::Never(Errno::ENOPROTOOPT);

/// A row of a flag that is kept in `$field`.
macro_rules! flag_row {
    ($name:ident, $field:ident) => {
        row(
            SOL_SOCKET,
            $name,
            stringify!($name),
            Any,
            Set::Int(|a, v| Ok(a.options()?.$field = v != 0)),
            Get::Int(|a| flag(a.options()?.$field)),
        )
    };
}

/// A row of a timeout, in the one layout that 64-bit Linux has for old and new.
macro_rules! timeout_row {
    ($name:ident, $field:ident) => {
        row(
            SOL_SOCKET,
            $name,
            stringify!($name),
            Any,
            Set::Bytes(|a, v| Ok(a.options()?.$field = timeval(v)?)),
            Get::Bytes(|a, _| Ok(timeval_bytes(a.options()?.$field))),
        )
    };
}

/// Credentials and rights travel over local sockets only.
const fn local_only(name: i32, label: &'static str) -> OptionRow {
    row(SOL_SOCKET, name, label, Any, Set::Never(Errno::EOPNOTSUPP), Get::Never(Errno::EOPNOTSUPP))
}

pub(super) const ROWS: &[OptionRow] = &[
    local_only(SO_PASSCRED, "SO_PASSCRED"),
    local_only(SO_PASSSEC, "SO_PASSSEC"),
    local_only(SO_PASSPIDFD, "SO_PASSPIDFD"),
    local_only(SO_PASSRIGHTS, "SO_PASSRIGHTS"),
    flag_row!(SO_DEBUG, debug),
    row(
        SOL_SOCKET,
        SO_REUSEADDR,
        "SO_REUSEADDR",
        Any,
        Set::Int(|a, v| {
            a.options()?.reuse_address = v != 0;
            a.update_hold()
        }),
        Get::Int(|a| flag(a.options()?.reuse_address)),
    ),
    row(SOL_SOCKET, SO_TYPE, "SO_TYPE", Any, READ_ONLY, Get::Int(|a| Ok(a.socket()?.kind))),
    row(SOL_SOCKET, SO_ERROR, "SO_ERROR", Any, READ_ONLY, Get::Int(take_error)),
    flag_row!(SO_DONTROUTE, dont_route),
    flag_row!(SO_BROADCAST, broadcast),
    row(
        SOL_SOCKET,
        SO_SNDBUF,
        "SO_SNDBUF",
        Any,
        Set::Int(|a, v| {
            let bound = a.sockets.limits.send_buffer.max;
            send_buffer(a, (v as u32).min(bound))
        }),
        Get::Int(send_buffer_shown),
    ),
    row(
        SOL_SOCKET,
        SO_RCVBUF,
        "SO_RCVBUF",
        Any,
        Set::Int(|a, v| {
            let bound = a.sockets.limits.receive_buffer.max;
            receive_buffer(a, (v as u32).min(bound))
        }),
        Get::Int(receive_buffer_shown),
    ),
    row(
        SOL_SOCKET,
        SO_KEEPALIVE,
        "SO_KEEPALIVE",
        Any,
        Set::Int(|a, v| {
            a.options()?.keepalive = v != 0;
            a.transport(StreamOption::Keepalive(v != 0))
        }),
        Get::Int(|a| flag(a.options()?.keepalive)),
    ),
    row(
        SOL_SOCKET,
        SO_OOBINLINE,
        "SO_OOBINLINE",
        Any,
        Set::Int(|a, v| {
            a.options()?.urgent_inline = v != 0;
            a.transport(StreamOption::UrgentInline(v != 0))
        }),
        Get::Int(|a| flag(a.options()?.urgent_inline)),
    ),
    // UDP checksums are always sent: the value is kept, as Linux keeps it on hardware that sums anyway.
    flag_row!(SO_NO_CHECK, no_check),
    row(
        SOL_SOCKET,
        SO_PRIORITY,
        "SO_PRIORITY",
        Any,
        Set::Int(|a, v| Ok(a.options()?.priority = v)),
        Get::Int(|a| Ok(a.options()?.priority)),
    ),
    row(
        SOL_SOCKET,
        SO_LINGER,
        "SO_LINGER",
        Any,
        Set::Bytes(set_linger),
        Get::Bytes(|a, _| {
            let options = a.options()?;
            Ok([i32::from(options.linger.is_some()), options.linger_seconds].iter().flat_map(|part| part.to_ne_bytes()).collect())
        }),
    ),
    // "case SO_BSDCOMPAT: break;" in both directions.
    row(SOL_SOCKET, SO_BSDCOMPAT, "SO_BSDCOMPAT", Any, Set::Int(|_, _| Ok(())), Get::Int(|_| Ok(0))),
    row(
        SOL_SOCKET,
        SO_REUSEPORT,
        "SO_REUSEPORT",
        Any,
        Set::Int(|a, v| {
            a.options()?.reuse_port = v != 0;
            a.update_hold()
        }),
        Get::Int(|a| flag(a.options()?.reuse_port)),
    ),
    // No peer process is known over IP: struct ucred { 0, -1, -1 }.
    row(
        SOL_SOCKET,
        SO_PEERCRED,
        "SO_PEERCRED",
        Any,
        READ_ONLY,
        Get::Bytes(|_, _| Ok([0i32, -1, -1].iter().flat_map(|part| part.to_ne_bytes()).collect())),
    ),
    row(SOL_SOCKET, SO_RCVLOWAT, "SO_RCVLOWAT", Any, Set::Int(set_low_water), Get::Int(|a| Ok(a.options()?.receive_low_water))),
    row(SOL_SOCKET, SO_SNDLOWAT, "SO_SNDLOWAT", Any, READ_ONLY, Get::Int(|_| Ok(1))),
    timeout_row!(SO_RCVTIMEO_OLD, receive_timeout),
    timeout_row!(SO_SNDTIMEO_OLD, send_timeout),
    timeout_row!(SO_RCVTIMEO_NEW, receive_timeout),
    timeout_row!(SO_SNDTIMEO_NEW, send_timeout),
    row(SOL_SOCKET, SO_BINDTODEVICE, "SO_BINDTODEVICE", Any, Set::Bytes(bind_to_device), Get::Bytes(bound_device)),
    // In and out as an array of `struct sock_filter`: adapters follow the pointer of `struct sock_fprog`, and count blocks for getsockopt(2).
    row(
        SOL_SOCKET,
        SO_ATTACH_FILTER,
        "SO_ATTACH_FILTER",
        Any,
        Set::Bytes(attach),
        Get::Bytes(|a, _| Ok(a.options()?.filter.as_ref().map_or_else(Vec::new, |filter| filter.to_bytes()))),
    ),
    row(SOL_SOCKET, SO_ATTACH_BPF, "SO_ATTACH_BPF", Any, Set::Never(Errno::ENOPROTOOPT), WRITE_ONLY),
    row(SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, "SO_ATTACH_REUSEPORT_CBPF", Any, Set::Never(Errno::ENOPROTOOPT), WRITE_ONLY),
    row(SOL_SOCKET, SO_ATTACH_REUSEPORT_EBPF, "SO_ATTACH_REUSEPORT_EBPF", Any, Set::Never(Errno::ENOPROTOOPT), WRITE_ONLY),
    row(SOL_SOCKET, SO_DETACH_FILTER, "SO_DETACH_FILTER", Any, Set::Int(|a, _| detach(a)), WRITE_ONLY),
    row(
        SOL_SOCKET,
        SO_PEERNAME,
        "SO_PEERNAME",
        Any,
        READ_ONLY,
        Get::Bytes(|a, length| {
            let bytes = a.socket()?.peer_address()?;
            if bytes.len() < length { Err(Errno::EINVAL) } else { Ok(bytes) }
        }),
    ),
    row(
        SOL_SOCKET,
        SO_TIMESTAMP_OLD,
        "SO_TIMESTAMP",
        Any,
        Set::Int(|a, v| set_timestamps(a, SO_TIMESTAMP_OLD, v)),
        Get::Int(|a| timestamps(a, SO_TIMESTAMP_OLD)),
    ),
    row(
        SOL_SOCKET,
        SO_TIMESTAMPNS_OLD,
        "SO_TIMESTAMPNS",
        Any,
        Set::Int(|a, v| set_timestamps(a, SO_TIMESTAMPNS_OLD, v)),
        Get::Int(|a| timestamps(a, SO_TIMESTAMPNS_OLD)),
    ),
    row(
        SOL_SOCKET,
        SO_TIMESTAMP_NEW,
        "SO_TIMESTAMP_NEW",
        Any,
        Set::Int(|a, v| set_timestamps(a, SO_TIMESTAMP_NEW, v)),
        Get::Int(|a| timestamps(a, SO_TIMESTAMP_NEW)),
    ),
    row(
        SOL_SOCKET,
        SO_TIMESTAMPNS_NEW,
        "SO_TIMESTAMPNS_NEW",
        Any,
        Set::Int(|a, v| set_timestamps(a, SO_TIMESTAMPNS_NEW, v)),
        Get::Int(|a| timestamps(a, SO_TIMESTAMPNS_NEW)),
    ),
    row(SOL_SOCKET, SO_ACCEPTCONN, "SO_ACCEPTCONN", Any, READ_ONLY, Get::Int(|a| flag(a.socket()?.is_listening()))),
    row(SOL_SOCKET, SO_SNDBUFFORCE, "SO_SNDBUFFORCE", Any, Set::Int(|a, v| send_buffer(a, v.max(0) as u32)), WRITE_ONLY),
    row(SOL_SOCKET, SO_RCVBUFFORCE, "SO_RCVBUFFORCE", Any, Set::Int(|a, v| receive_buffer(a, v.max(0) as u32)), WRITE_ONLY),
    row(
        SOL_SOCKET,
        SO_MARK,
        "SO_MARK",
        Any,
        Set::Int(|a, v| {
            a.options()?.mark = v as u32;
            a.transport(StreamOption::Mark(v as u32))
        }),
        Get::Int(|a| Ok(a.options()?.mark as i32)),
    ),
    row(SOL_SOCKET, SO_PROTOCOL, "SO_PROTOCOL", Any, READ_ONLY, Get::Int(|a| Ok(a.socket()?.protocol))),
    row(SOL_SOCKET, SO_DOMAIN, "SO_DOMAIN", Any, READ_ONLY, Get::Int(|a| Ok(a.socket()?.domain))),
    flag_row!(SO_RXQ_OVFL, receive_overflow),
    // Kept: no interface is a wireless one.
    flag_row!(SO_WIFI_STATUS, wifi_status),
    flag_row!(SO_NOFCS, no_check_sequence),
    row(
        SOL_SOCKET,
        SO_PEEK_OFF,
        "SO_PEEK_OFF",
        Any,
        // "if (sock->ops->set_peek_off) ret = …; else ret = -EOPNOTSUPP": inet_sockraw_ops has none.
        Set::Int(|a, v| match a.socket()?.body {
            Body::Raw(_) | Body::Ping(_) | Body::Packet(_) => Err(Errno::EOPNOTSUPP),
            _ => Ok(a.options()?.peek_offset = v),
        }),
        Get::Int(|a| match a.socket()?.body {
            Body::Raw(_) | Body::Ping(_) | Body::Packet(_) => Err(Errno::EOPNOTSUPP),
            _ => Ok(a.options()?.peek_offset),
        }),
    ),
    row(
        SOL_SOCKET,
        SO_LOCK_FILTER,
        "SO_LOCK_FILTER",
        Any,
        // "if (sock_flag(sk, SOCK_FILTER_LOCKED) && !valbool) ret = -EPERM;"
        Set::Int(|a, v| match a.options()?.filter_locked {
            true if v == 0 => Err(Errno::EPERM),
            _ => Ok(a.options()?.filter_locked = v != 0),
        }),
        Get::Int(|a| flag(a.options()?.filter_locked)),
    ),
    flag_row!(SO_SELECT_ERR_QUEUE, select_error_queue),
    // Kept: nothing here sleeps in a device queue.
    row(
        SOL_SOCKET,
        SO_BUSY_POLL,
        "SO_BUSY_POLL",
        Any,
        Set::Int(|a, v| Ok(a.options()?.busy_poll = within(v, 0, i32::MAX)?)),
        Get::Int(|a| Ok(a.options()?.busy_poll)),
    ),
    row(
        SOL_SOCKET,
        SO_MAX_PACING_RATE,
        "SO_MAX_PACING_RATE",
        Any,
        Set::Bytes(set_pacing),
        Get::Bytes(|a, length| {
            let rate = a.options()?.pacing_rate_max;
            let short = u32::try_from(rate).unwrap_or(u32::MAX);
            Ok(if length >= 8 { rate.to_ne_bytes().to_vec() } else { short.to_ne_bytes().to_vec() })
        }),
    ),
    row(SOL_SOCKET, SO_BPF_EXTENSIONS, "SO_BPF_EXTENSIONS", Any, READ_ONLY, Get::Int(|_| Ok(64))),
    row(
        SOL_SOCKET,
        SO_INCOMING_CPU,
        "SO_INCOMING_CPU",
        Any,
        Set::Int(|a, v| Ok(a.options()?.incoming_cpu = v)),
        Get::Int(|a| Ok(a.options()?.incoming_cpu)),
    ),
    row(SOL_SOCKET, SO_CNX_ADVICE, "SO_CNX_ADVICE", Any, Set::Int(|_, _| Ok(())), WRITE_ONLY),
    row(SOL_SOCKET, SO_INCOMING_NAPI_ID, "SO_INCOMING_NAPI_ID", Any, READ_ONLY, Get::Int(|_| Ok(0))),
    row(
        SOL_SOCKET,
        SO_COOKIE,
        "SO_COOKIE",
        Any,
        READ_ONLY,
        Get::Bytes(|a, length| {
            // "if (len < lv) return -EINVAL;"
            if length < 8 { Err(Errno::EINVAL) } else { Ok(a.socket()?.cookie.to_ne_bytes().to_vec()) }
        }),
    ),
    row(SOL_SOCKET, SO_PEERGROUPS, "SO_PEERGROUPS", Any, READ_ONLY, Get::Never(Errno::ENODATA)),
    // Bytes are copied once, as without it, and the completion says so (SO_EE_CODE_ZEROCOPY_COPIED).
    row(
        SOL_SOCKET,
        SO_ZEROCOPY,
        "SO_ZEROCOPY",
        Any,
        // "if (!(sk_is_tcp(sk) || (sk->sk_type == SOCK_DGRAM && sk->sk_protocol == IPPROTO_UDP))) ret = -EOPNOTSUPP;"
        Set::Int(|a, v| {
            let socket = a.socket()?;
            let copies = match socket.body {
                Body::Stream(_) => true,
                Body::Datagram(_) => socket.protocol == IPPROTO_UDP,
                _ => false,
            };
            if !copies {
                return Err(Errno::EOPNOTSUPP);
            }
            a.options()?.zerocopy = within(v, 0, 1)? == 1;
            Ok(())
        }),
        Get::Int(|a| flag(a.options()?.zerocopy)),
    ),
    row(
        SOL_SOCKET,
        SO_BINDTOIFINDEX,
        "SO_BINDTOIFINDEX",
        Any,
        Set::Int(|a, v| {
            // The kernel takes any number; a route through it is then not found.
            let index = within(v, 0, i32::MAX)? as u32;
            let name = interface(a, &Query::Interface(InterfaceIndex(index))).map_or_else(|_| String::new(), |(_, name)| name);
            bind_interface(a, index, name)
        }),
        Get::Int(|a| Ok(a.options()?.interface as i32)),
    ),
];

/// SO_ERROR: "v.val = -sock_error(sk); if (v.val == 0) v.val = xchg(&sk->sk_err_soft, 0);"
fn take_error(a: &mut Access<'_, '_>) -> Result<i32, Errno> {
    let socket = a.socket()?;
    let hard = socket.take_error();
    let taken = match hard {
        Some(error) => Some(error),
        None => socket.stream_mut().and_then(|stream| stream.soft_error.take()),
    };
    let id = a.id;
    if taken.is_some() {
        a.sockets.touch(id, Poll::NONE);
    }
    Ok(taken.map_or(0, |error| error.0))
}

fn send_buffer(a: &mut Access<'_, '_>, bytes: u32) -> Result<(), Errno> {
    // "WRITE_ONCE(sk->sk_sndbuf, max_t(int, val * 2, SOCK_MIN_SNDBUF));"
    let doubled = bytes.min(i32::MAX as u32 / 2).saturating_mul(2).max(SEND_BUFFER_MIN);
    a.options()?.send_buffer = doubled;
    a.options()?.buffers_locked |= SEND_BUFFER_LOCK;
    // Writable means that a third of the buffer is free: of this one, though more was let in before.
    if let Some(stream) = a.sockets.get_mut(a.id)?.stream_mut() {
        stream.capacity = stream.capacity.min(doubled as usize);
    }
    a.transport(StreamOption::SendBuffer(Some(doubled)))
}

/// SO_SNDBUF; one that nobody has set shows the size to which the transport has let it grow (`tcp_sndbuf_expand`), or whoever stands before that.
pub(super) fn send_buffer_shown(a: &mut Access<'_, '_>) -> Result<i32, Errno> {
    let socket = a.socket()?;
    let set = socket.options.send_buffer as usize;
    let shown = match socket.stream().filter(|stream| stream.transport.send_buffer.is_none()).map(|stream| stream.capacity) {
        Some(granted) => set.max(granted).max(a.flow_info()?.send_buffer_bytes as usize),
        None => set,
    };
    Ok(i32::try_from(shown).unwrap_or(i32::MAX))
}

/// TCP's may have grown (`tcp_rcv_space_adjust`).
pub(super) fn receive_buffer_shown(a: &mut Access<'_, '_>) -> Result<i32, Errno> {
    let grown = a.flow_info()?.receive_buffer_bytes;
    Ok(i32::try_from(grown.max(a.options()?.receive_buffer)).unwrap_or(i32::MAX))
}

fn receive_buffer(a: &mut Access<'_, '_>, bytes: u32) -> Result<(), Errno> {
    // "We double it on the way in to account for "struct sk_buff" etc. overhead."
    let doubled = bytes.min(i32::MAX as u32 / 2).saturating_mul(2).max(RECEIVE_BUFFER_MIN);
    a.options()?.receive_buffer = doubled;
    a.options()?.buffers_locked |= RECEIVE_BUFFER_LOCK;
    a.transport(StreamOption::ReceiveBuffer(Some(doubled)))
}

fn set_linger(a: &mut Access<'_, '_>, value: &[u8]) -> Result<(), Errno> {
    let &[o0, o1, o2, o3, t0, t1, t2, t3, ..] = value else { return Err(Errno::EINVAL) };
    let on = i32::from_ne_bytes([o0, o1, o2, o3]) != 0;
    let time = i32::from_ne_bytes([t0, t1, t2, t3]);
    let options = a.options()?;
    if on {
        // A negative time is the longest there is, and l_linger shows the low half of it.
        options.linger_seconds = if time < 0 { TIMEOUT_SECONDS_MAX as i32 } else { time };
        options.linger = Some(if time < 0 { Duration::from_secs(TIMEOUT_SECONDS_MAX.unsigned_abs()) } else { seconds(time) });
    } else {
        options.linger = None;
    }
    Ok(())
}

/// tcp_set_rcvlowat: "cap = sk->sk_userlocks & SOCK_RCVBUF_LOCK ? sk->sk_rcvbuf >> 1 : tcp_rmem[2] >> 1; val = min(val, cap);", and a buffer that nobody
/// has fixed gets room for it.
fn set_low_water(a: &mut Access<'_, '_>, value: i32) -> Result<(), Errno> {
    let value = if value < 0 { i32::MAX } else { value };
    let socket = a.socket()?;
    if socket.stream().is_none() {
        socket.options.receive_low_water = value.max(1);
        return Ok(());
    }
    let fixed = socket.options.buffers_locked & RECEIVE_BUFFER_LOCK != 0;
    let cap = if fixed { socket.options.receive_buffer as i32 / 2 } else { STREAM_BUFFER_MAX / 2 };
    let low_water = value.min(cap).max(1);
    socket.options.receive_low_water = low_water;
    if !fixed {
        socket.options.receive_buffer = socket.options.receive_buffer.max(2 * low_water as u32);
    }
    a.transport(StreamOption::ReceiveLowWater(low_water as u32))
}

/// The `struct timeval` of such a limit (`sock_get_timeout`).
pub fn timeval_bytes(limit: Option<Duration>) -> Vec<u8> {
    let limit = limit.unwrap_or_default();
    [limit.as_secs(), u64::from(limit.subsec_micros())].iter().flat_map(|part| part.to_ne_bytes()).collect()
}

/// SO_RCVTIMEO and SO_SNDTIMEO, by `sock_set_timeout`: negative seconds mean "do not wait" (zero here), zero "for ever" (none).
///
/// # Errors
/// EDOM for impossible microseconds; EINVAL for what is no `struct timeval`.
pub fn timeval(value: &[u8]) -> Result<Option<Duration>, Errno> {
    let &[s0, s1, s2, s3, s4, s5, s6, s7, u0, u1, u2, u3, u4, u5, u6, u7, ..] = value else { return Err(Errno::EINVAL) };
    let seconds = i64::from_ne_bytes([s0, s1, s2, s3, s4, s5, s6, s7]);
    let micros = i64::from_ne_bytes([u0, u1, u2, u3, u4, u5, u6, u7]);
    if !(0..1_000_000).contains(&micros) {
        return Err(Errno::EDOM);
    }
    if seconds < 0 {
        return Ok(Some(Duration::ZERO));
    }
    if (seconds, micros) == (0, 0) {
        return Ok(None);
    }
    // "if (tv.tv_sec < (MAX_SCHEDULE_TIMEOUT / HZ - 1))", else no timeout at all.
    if seconds >= TIMEOUT_SECONDS_MAX - 1 {
        return Ok(None);
    }
    let whole = Duration::from_secs(seconds.unsigned_abs());
    Ok(Some(whole + Duration::from_micros(micros.unsigned_abs().div_ceil(TICK_MICROS) * TICK_MICROS)))
}

fn set_timestamps(a: &mut Access<'_, '_>, name: i32, value: i32) -> Result<(), Errno> {
    let nanos = matches!(name, SO_TIMESTAMPNS_OLD | SO_TIMESTAMPNS_NEW);
    let options = a.options()?;
    options.timestamps = (value != 0).then_some(nanos);
    // __sock_set_timestamps: "if (val) { sock_valbool_flag(sk, SOCK_TSTAMP_NEW, new); …"
    if value != 0 {
        options.timestamping_new = matches!(name, SO_TIMESTAMP_NEW | SO_TIMESTAMPNS_NEW);
    }
    Ok(())
}

fn timestamps(a: &mut Access<'_, '_>, name: i32) -> Result<i32, Errno> {
    let options = a.options()?;
    // "case SO_TIMESTAMP_NEW: v.val = sock_flag(sk, SOCK_RCVTSTAMP) && sock_flag(sk, SOCK_TSTAMP_NEW);", of SO_TIMESTAMPNS_NEW, too.
    flag(
        options
            .timestamps
            .is_some_and(|nanos| options.timestamps_name(nanos) == name || name == SO_TIMESTAMP_NEW && options.timestamping_new),
    )
}

fn set_pacing(a: &mut Access<'_, '_>, value: &[u8]) -> Result<(), Errno> {
    // "if (optlen == sizeof(ulval) …) … else ulval = (val == ~0U) ? ~0UL : (unsigned int)val"
    let rate = match (<[u8; 8]>::try_from(value), value.first_chunk::<4>()) {
        (Ok(long), _) => u64::from_ne_bytes(long),
        (_, Some(int)) => match u32::from_ne_bytes(*int) {
            u32::MAX => u64::MAX,
            rate => u64::from(rate),
        },
        _ => return Err(Errno::EINVAL),
    };
    a.options()?.pacing_rate_max = rate;
    a.transport(StreamOption::PacingRateMax(rate))
}

fn interface(a: &Access<'_, '_>, query: &Query) -> Result<(u32, String), Errno> {
    match a.cx.ask(Table::Interfaces, query) {
        Answer::Interface(interface) => Ok((interface.index.0, interface.name)),
        _ => Err(Errno::ENODEV),
    }
}

fn bind_interface(a: &mut Access<'_, '_>, index: u32, name: String) -> Result<(), Errno> {
    let options = a.options()?;
    (options.interface, options.interface_name) = (index, name);
    a.update_hold()?;
    a.transport(StreamOption::Interface(index))
}

/// `sock_setbindtodevice`: "If optlen == 0 or devname[0] == '\0', then unbind".
fn bind_to_device(a: &mut Access<'_, '_>, value: &[u8]) -> Result<(), Errno> {
    let value = &value[..value.len().min(IFNAMSIZ - 1)];
    let name = String::from_utf8_lossy(value.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned();
    if name.is_empty() {
        return bind_interface(a, 0, name);
    }
    let (index, name) = interface(a, &Query::InterfaceNamed(name))?;
    bind_interface(a, index, name)
}

/// `sock_getbindtodevice`: nothing when unbound; "if (len < IFNAMSIZ) ret = -EINVAL".
fn bound_device(a: &mut Access<'_, '_>, length: usize) -> Result<Vec<u8>, Errno> {
    let options = a.options()?;
    if options.interface == 0 {
        return Ok(Vec::new());
    }
    if length < IFNAMSIZ {
        return Err(Errno::EINVAL);
    }
    let mut name = options.interface_name.clone().into_bytes();
    name.push(0);
    Ok(name)
}
