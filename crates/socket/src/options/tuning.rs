//! Options of SOL_SOCKET and SOL_TCP that tune or ask about things of which a program sees little (linux/net/core/sock.c, linux/net/ipv4/tcp.c):
//! busy polling, hashing, memory accounting, transmit times, repair. What is kept has no effect here that Linux's default set-up would show.

use super::kept::{RECEIVE_BUFFER_LOCK, SEND_BUFFER_LOCK};
use super::row::{Access, Applies::Any, Applies::Stream, Get, OptionRow, Set, flag, row, within};
use super::socket::{receive_buffer_shown, send_buffer_shown};
use crate::abi::*;
use crate::errno::Errno;
use crate::socket::{Body, TcpState};
use crate::streams::unsent;
use std::time::Duration;
use weft_core::StreamOption;

const READ_ONLY: Set = Set::Never(Errno::ENOPROTOOPT);
const WRITE_ONLY: Get = Get::Never(Errno::ENOPROTOOPT);

/// SOF_TXTIME_DEADLINE_MODE and SOF_TXTIME_REPORT_ERRORS.
const TXTIME_FLAGS: u32 = 3;
/// CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_TAI.
const TXTIME_CLOCKS: [i32; 3] = [0, 1, 11];

const REPAIR_WINDOW_BYTES: usize = 20;

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

/// An option of TCP_REPAIR, which is refused: it cannot be set, and reading it says that the socket is not under repair.
const fn repair(name: i32, label: &'static str) -> OptionRow {
    row(SOL_TCP, name, label, Stream, Set::Never(Errno::EPERM), Get::Never(Errno::EINVAL))
}

/// The kernel's tick (CONFIG_HZ=250), milliseconds.
const TICK_MS: u64 = 4;

pub(super) const SOCKET_ROWS: &[OptionRow] = &[
    row(
        SOL_SOCKET,
        SO_RCVMARK,
        "SO_RCVMARK",
        Any,
        Set::Int(|a, v| Ok(a.options()?.receive_mark = v != 0)),
        Get::Int(|a| flag(a.options()?.receive_mark)),
    ),
    flag_row!(SO_PREFER_BUSY_POLL, prefer_busy_poll),
    row(
        SOL_SOCKET,
        SO_BUSY_POLL_BUDGET,
        "SO_BUSY_POLL_BUDGET",
        Any,
        // "if (val < 0 || val > U16_MAX) return -EINVAL;"
        Set::Int(|_, v| within(v, 0, 0xffff).map(drop)),
        WRITE_ONLY,
    ),
    row(
        SOL_SOCKET,
        SO_NETNS_COOKIE,
        "SO_NETNS_COOKIE",
        Any,
        READ_ONLY,
        // "if (len != lv) return -EINVAL;" The node is the namespace; its cookie tells one from another.
        Get::Bytes(|a, length| if length == 8 { Ok(a.sockets.birth.max(1).to_ne_bytes().to_vec()) } else { Err(Errno::EINVAL) }),
    ),
    row(SOL_SOCKET, SO_BUF_LOCK, "SO_BUF_LOCK", Any, Set::Int(set_buffer_lock), Get::Int(|a| Ok(i32::from(a.options()?.buffers_locked)))),
    row(
        SOL_SOCKET,
        SO_RESERVE_MEM,
        "SO_RESERVE_MEM",
        Any,
        // As on a host without memory cgroups: "if (val < 0) ret = -EINVAL"; sock_reserve_memory: "if (!mem_cgroup_sockets_enabled …) return -EOPNOTSUPP;"
        Set::Int(|_, v| Err(if v < 0 { Errno::EINVAL } else { Errno::EOPNOTSUPP })),
        Get::Int(|_| Ok(0)),
    ),
    row(SOL_SOCKET, SO_TXREHASH, "SO_TXREHASH", Any, Set::Int(set_rehash), Get::Int(rehash)),
    row(SOL_SOCKET, SO_MEMINFO, "SO_MEMINFO", Any, READ_ONLY, Get::Bytes(memory)),
    row(
        SOL_SOCKET,
        SO_TXTIME,
        "SO_TXTIME",
        Any,
        Set::Bytes(set_transmit_time),
        Get::Bytes(|a, _| {
            let (clock, flags) = a.options()?.transmit_time;
            Ok([clock.to_ne_bytes(), flags.to_ne_bytes()].concat())
        }),
    ),
    row(SOL_SOCKET, SO_PEERPIDFD, "SO_PEERPIDFD", Any, READ_ONLY, Get::Never(Errno::ENODATA)),
    row(
        SOL_SOCKET,
        SO_DETACH_REUSEPORT_BPF,
        "SO_DETACH_REUSEPORT_BPF",
        Any,
        // reuseport_detach_prog: "if (!rcu_access_pointer(sk->sk_reuseport_cb)) return sk->sk_reuseport ? -ENOENT : -EINVAL;"
        Set::Int(|a, _| Err(if a.options()?.reuse_port { Errno::ENOENT } else { Errno::EINVAL })),
        WRITE_ONLY,
    ),
];

pub(super) const TCP_ROWS: &[OptionRow] = &[
    row(
        SOL_TCP,
        TCP_THIN_LINEAR_TIMEOUTS,
        "TCP_THIN_LINEAR_TIMEOUTS",
        Stream,
        // Kept: a thin stream backs off like any other here.
        Set::Int(|a, v| Ok(a.options()?.thin_timeouts = within(v, 0, 1)? == 1)),
        Get::Int(|a| flag(a.options()?.thin_timeouts)),
    ),
    // "case TCP_THIN_DUPACK: if (val < 0 || val > 1) err = -EINVAL; break;" and reads 0: Linux has no such thing any more.
    row(SOL_TCP, TCP_THIN_DUPACK, "TCP_THIN_DUPACK", Stream, Set::Int(|_, v| within(v, 0, 1).map(drop)), Get::Int(|_| Ok(0))),
    repair(TCP_REPAIR_QUEUE, "TCP_REPAIR_QUEUE"),
    row(
        SOL_TCP,
        TCP_QUEUE_SEQ,
        "TCP_QUEUE_SEQ",
        Stream,
        // "if (sk->sk_state != TCP_CLOSE) { err = -EPERM; } else if … else err = -EINVAL;"
        Set::Int(|a, _| Err(if a.stream()?.state == TcpState::Close { Errno::EINVAL } else { Errno::EPERM })),
        Get::Never(Errno::EINVAL),
    ),
    // "if (!tp->repair) err = -EINVAL;"
    row(SOL_TCP, TCP_REPAIR_OPTIONS, "TCP_REPAIR_OPTIONS", Stream, Set::Never(Errno::EINVAL), WRITE_ONLY),
    // do_tcp_getsockopt: "if (len != sizeof(opt)) return -EINVAL; if (!tp->repair) return -EPERM;", of a `struct tcp_repair_window`.
    row(
        SOL_TCP,
        TCP_REPAIR_WINDOW,
        "TCP_REPAIR_WINDOW",
        Stream,
        Set::Int(|_, _| Err(Errno::EPERM)),
        Get::Bytes(|_, length| Err(if length == REPAIR_WINDOW_BYTES { Errno::EPERM } else { Errno::EINVAL })),
    ),
    row(
        SOL_TCP,
        TCP_TIMESTAMP,
        "TCP_TIMESTAMP",
        Stream,
        Set::Never(Errno::EPERM),
        // "val = tcp_clock_ts(tp->tcp_usec_ts) + tp->tsoffset;": the connection's own offset is not told here.
        Get::Int(|a| Ok(a.cx.now.as_millis() as i32)),
    ),
    row(SOL_TCP, TCP_SAVED_SYN, "TCP_SAVED_SYN", Stream, READ_ONLY, Get::Bytes(saved_syn)),
    // tcp_zerocopy_receive: "vma = find_tcp_vma(current->mm, address, …); if (!vma) return -EINVAL;" No socket here can be mapped.
    row(SOL_TCP, TCP_ZEROCOPY_RECEIVE, "TCP_ZEROCOPY_RECEIVE", Stream, READ_ONLY, Get::Never(Errno::EINVAL)),
    row(
        SOL_TCP,
        TCP_TX_DELAY,
        "TCP_TX_DELAY",
        Stream,
        // Microseconds, "if (val < 0 || val >= (1U << (31 - 3))) err = -EINVAL;". Kept: without the fq queueing discipline Linux delays nothing.
        Set::Int(|a, v| Ok(a.options()?.transmit_delay_us = within(v, 0, (1 << 28) - 1)?)),
        Get::Int(|a| Ok(a.options()?.transmit_delay_us)),
    ),
    row(
        SOL_TCP,
        TCP_RTO_MAX_MS,
        "TCP_RTO_MAX_MS",
        Stream,
        // "if (val < MSEC_PER_SEC || val > TCP_RTO_MAX_SEC * MSEC_PER_SEC) return -EINVAL;"
        Set::Int(|a, v| {
            let ticks = u64::from(within(v, 1000, 120_000)?.unsigned_abs()).div_ceil(TICK_MS);
            a.transport(StreamOption::RtoMax(Some(Duration::from_millis(ticks * TICK_MS))))
        }),
        Get::Int(|a| Ok(a.stream()?.transport.rto_max.map_or(120_000, |time| time.as_millis() as i32))),
    ),
    row(
        SOL_TCP,
        TCP_RTO_MIN_US,
        "TCP_RTO_MIN_US",
        Stream,
        // "int rto_min = usecs_to_jiffies(val); if (rto_min > TCP_RTO_MIN || rto_min < TCP_TIMEOUT_MIN) return -EINVAL;", and of the next TCP_DELACK_MAX.
        Set::Int(|a, v| {
            let time = in_ticks(v)?;
            a.transport(StreamOption::RtoMin(Some(time)))
        }),
        Get::Int(|a| Ok(a.stream()?.transport.rto_min.map_or(200_000, |time| time.as_micros() as i32))),
    ),
    row(
        SOL_TCP,
        TCP_DELACK_MAX_US,
        "TCP_DELACK_MAX_US",
        Stream,
        Set::Int(|a, v| {
            let time = in_ticks(v)?;
            a.transport(StreamOption::DelayedAckMax(Some(time)))
        }),
        Get::Int(|a| Ok(a.stream()?.transport.delayed_ack_max.map_or(200_000, |time| time.as_micros() as i32))),
    ),
];

/// Microseconds as whole ticks (usecs_to_jiffies): two at least, and 200 ms at most; else EINVAL.
fn in_ticks(value: i32) -> Result<Duration, Errno> {
    let micros = u64::try_from(value).map_err(|_| Errno::EINVAL)?;
    let ticks = micros.div_ceil(TICK_MS * 1000);
    if (2..=200 / TICK_MS).contains(&ticks) { Ok(Duration::from_millis(ticks * TICK_MS)) } else { Err(Errno::EINVAL) }
}

/// "if (val & ~SOCK_BUF_LOCK_MASK) { ret = -EINVAL; break; } sk->sk_userlocks = val | (sk->sk_userlocks & ~SOCK_BUF_LOCK_MASK);": a stream's buffer
/// that is not locked grows by itself.
fn set_buffer_lock(a: &mut Access<'_, '_>, value: i32) -> Result<(), Errno> {
    let locks = within(value, 0, i32::from(SEND_BUFFER_LOCK | RECEIVE_BUFFER_LOCK))? as u8;
    let options = a.options()?;
    let before = std::mem::replace(&mut options.buffers_locked, locks);
    let (send, receive) = (options.send_buffer, options.receive_buffer);
    let locked = |bit: u8, bytes: u32| (locks & bit != 0).then_some(bytes);
    if (before ^ locks) & SEND_BUFFER_LOCK != 0 {
        a.transport(StreamOption::SendBuffer(locked(SEND_BUFFER_LOCK, send)))?;
    }
    if (before ^ locks) & RECEIVE_BUFFER_LOCK != 0 {
        a.transport(StreamOption::ReceiveBuffer(locked(RECEIVE_BUFFER_LOCK, receive)))?;
    }
    Ok(())
}

/// "if (!sk_is_tcp(sk)) return -EOPNOTSUPP; if (val < -1 || val > 1) return -EINVAL; if ((u8)val == SOCK_TXREHASH_DEFAULT) val = …;"
fn set_rehash(a: &mut Access<'_, '_>, value: i32) -> Result<(), Errno> {
    a.stream().map_err(|_| Errno::EOPNOTSUPP)?;
    Ok(a.options()?.rehash = within(value, -1, 1)? != 0)
}

fn rehash(a: &mut Access<'_, '_>) -> Result<i32, Errno> {
    a.stream().map_err(|_| Errno::EOPNOTSUPP)?;
    flag(a.options()?.rehash)
}

/// `sk_get_meminfo`: nine words, as many as asked for.
fn memory(a: &mut Access<'_, '_>, _: usize) -> Result<Vec<u8>, Errno> {
    let unacknowledged = unsent(a.sockets.get(a.id)?, a.cx).0 as usize;
    let (receive_buffer, send_buffer) = (receive_buffer_shown(a)? as u32, send_buffer_shown(a)? as u32);
    let socket = a.socket()?;
    let (received, sending, dropped) = match &socket.body {
        Body::Stream(stream) => (stream.unread(), unacknowledged, 0),
        _ => socket.datagram().map_or((0, 0, 0), |datagram| (datagram.queued_truesize, datagram.sending, datagram.dropped)),
    };
    let word = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
    // rmem_alloc, rcvbuf, wmem_alloc, sndbuf, fwd_alloc, wmem_queued, optmem, backlog, drops
    let streams = socket.stream().is_some();
    let (on_the_way, queued) = if streams { (0, word(sending)) } else { (word(sending), 0) };
    let words = [word(received), receive_buffer, on_the_way, send_buffer, 0, queued, 0, 0, dropped];
    Ok(words.iter().flat_map(|word| word.to_ne_bytes()).collect())
}

/// `struct sock_txtime { clockid_t clockid; __u32 flags; }`, "if (optlen != sizeof(struct sock_txtime)) … -EINVAL; else if (sk_txtime.flags &
/// ~SOF_TXTIME_FLAGS_MASK) … -EINVAL". Datagrams leave at once, as through a queueing discipline that knows no times.
fn set_transmit_time(a: &mut Access<'_, '_>, value: &[u8]) -> Result<(), Errno> {
    let &[c0, c1, c2, c3, f0, f1, f2, f3] = value else { return Err(Errno::EINVAL) };
    let (clock, flags) = (i32::from_ne_bytes([c0, c1, c2, c3]), u32::from_ne_bytes([f0, f1, f2, f3]));
    if flags & !TXTIME_FLAGS != 0 || !TXTIME_CLOCKS.contains(&clock) {
        return Err(Errno::EINVAL);
    }
    let options = a.options()?;
    Ok((options.transmit_time, options.transmit_time_on) = ((clock, flags), true))
}

/// "if (len < tcp_saved_syn_len(saved_syn)) … return -EINVAL; … tcp_saved_syn_free(tp);": it is told once.
fn saved_syn(a: &mut Access<'_, '_>, length: usize) -> Result<Vec<u8>, Errno> {
    let stream = a.stream()?;
    if stream.saved_syn.as_ref().is_some_and(|syn| length < syn.len()) {
        return Err(Errno::EINVAL);
    }
    Ok(stream.saved_syn.take().map_or_else(Vec::new, |syn| syn.to_vec()))
}
