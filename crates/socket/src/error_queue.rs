//! The error queue of a socket: errors of the node itself, transmit times, completions, and reading all of it (`ip_local_error`, `ip_recv_error` and
//! their IPv6 kin). Errors that come in as ICMP messages are in `icmp_errors`. A stream has transmit times and completions alone.

use crate::abi::*;
use crate::address;
use crate::cmsg::{self, Ancillary};
use crate::counters;
use crate::errno::Errno;
use crate::memory::truesize;
use crate::options::Options;
use crate::poll::Poll;
use crate::received::Received;
use crate::registry::Registry;
use crate::socket::{QueuedError, SocketId};
use crate::streams;
use crate::transport_statistics;
use bytes::Bytes;
use std::net::SocketAddr;
use weft_core::{Context, Instant, Moment, Stamps, Tail};

/// Most entries of one socket's error queue: more than SO_RCVBUF has room for, unless that was raised.
const ERRORS_MAX: usize = 1024;
/// Most payload bytes that an entry quotes.
pub(crate) use weft_core::stream::QUOTED_BYTES_MAX;

/// `sock_queue_err_skb`: bounded by the receive buffer, and by number.
pub(crate) fn queue(sockets: &mut Registry, s: SocketId, entry: QueuedError) {
    let Some(socket) = sockets.store.get_mut(s) else { return };
    let (room, unread) = (socket.options.receive_buffer as usize, socket.waiting_bytes());
    let errors = socket.errors_mut();
    let waiting: usize = errors.iter().map(|entry| truesize(entry.data.len())).sum();
    let full = errors.len() >= ERRORS_MAX || unread + waiting + truesize(entry.data.len()) >= room;
    if !full {
        errors.push_back(entry);
    }
    sockets.count(if full { counters::ERRORS_LOST } else { counters::ERRORS_QUEUED });
    sockets.touch(s, Poll::ERR);
}

/// `ip_local_error`, `ipv6_local_error`: something went wrong here, before the packet left. Nothing becomes pending.
pub(crate) fn local(sockets: &mut Registry, s: SocketId, number: Errno, to: SocketAddr, info: u32, now: Instant) {
    let Some(socket) = sockets.store.get(s) else { return };
    if !socket.options.wants_errors(to.is_ipv6()) {
        return;
    }
    // "ip_local_error(sk, EMSGSIZE, fl4->daddr, inet->inet_dport, …)": the port of the peer, if there is one.
    let port = if to.is_ipv6() { to.port() } else { socket.remote.map_or(0, |remote| remote.port()) };
    let to = SocketAddr::new(to.ip(), port);
    queue(sockets, s, QueuedError { info, to: Some(to), ..notice(number, SO_EE_ORIGIN_LOCAL, now) });
}

/// `ipv6_local_rxpmtu`: what IPV6_DONTFRAG kept from being sent is told to who has IPV6_RECVPATHMTU set. The last one counts.
pub(crate) fn path_mtu(sockets: &mut Registry, s: SocketId, to: SocketAddr, mtu: u32) {
    let Some(socket) = sockets.store.get_mut(s) else { return };
    if to.is_ipv6() && socket.options.receive_path_mtu {
        socket.options.path_mtu_news = Some((SocketAddr::new(to.ip(), 0), mtu));
    }
}

/// Of which moments of what a stream sends the program wants to hear (`tcp_tx_timestamp`).
pub(crate) fn stamps(options: &Options, asked: &Ancillary) -> Stamps {
    let flags = transmit_flags(options, asked);
    Stamps {
        scheduled: flags & TIMESTAMPING_TX_SCHED != 0,
        left: flags & TIMESTAMPING_TX_SOFTWARE != 0,
        acknowledged: flags & TIMESTAMPING_TX_ACK != 0,
        quoted: options.timestamping & TIMESTAMPING_OPT_TSONLY == 0,
    }
}

/// The flags of SO_TIMESTAMPING for one send: "sockc->tsflags &= ~SOF_TIMESTAMPING_TX_RECORD_MASK; sockc->tsflags |= tsflags;"
fn transmit_flags(options: &Options, asked: &Ancillary) -> u32 {
    asked.timestamping.map_or(options.timestamping, |asked| options.timestamping & !TIMESTAMPING_TX_RECORDS | asked)
}

/// `__skb_tstamp_tx` of a stream: its byte `at` has come to a moment.
pub(crate) fn stamped(sockets: &mut Registry, s: SocketId, at: u64, moment: Moment, bytes: Bytes, cx: &Context<'_>) {
    let boot_time = sockets.limits.boot_time_nanos;
    let Some(socket) = sockets.store.get(s) else { return };
    let options = &socket.options;
    let (info, hops) = match moment {
        Moment::Left => (SCM_TSTAMP_SND, None),
        Moment::Scheduled => (SCM_TSTAMP_SCHED, None),
        Moment::Acknowledged { hops } => (SCM_TSTAMP_ACK, Some(hops)),
    };
    let alone = options.timestamping & TIMESTAMPING_OPT_TSONLY != 0;
    let statistics = alone && options.timestamping & TIMESTAMPING_OPT_STATS != 0;
    let data = match (statistics, alone) {
        (true, _) => {
            let departure = boot_time.saturating_add(cx.now.as_nanos());
            transport_statistics::statistics(&streams::info(socket, cx), departure, hops).into()
        }
        (false, true) => Bytes::new(),
        (false, false) => bytes,
    };
    // "if (sk_is_tcp(sk)) serr->ee.ee_data -= atomic_read(&sk->sk_tskey);"
    let numbered = options.timestamping & TIMESTAMPING_OPT_ID != 0;
    let value = if numbered { (at as u32).wrapping_sub(options.timestamp_key) } else { 0 };
    let entry = QueuedError { info, value, data, statistics, ..notice(Errno::ENOMSG, SO_EE_ORIGIN_TIMESTAMPING, cx.now) };
    queue(sockets, s, entry);
}

/// `skb_tstamp_tx`: what was sent has been queued and has left, as far as the node can see. `asked` is SO_TIMESTAMPING of the send.
pub(crate) fn record_transmit(sockets: &mut Registry, s: SocketId, asked: &Ancillary, data: &Bytes, now: Instant) {
    let Some(socket) = sockets.store.get_mut(s) else { return };
    let options = &mut socket.options;
    let flags = transmit_flags(options, asked);
    if flags & (TIMESTAMPING_TX_SOFTWARE | TIMESTAMPING_TX_SCHED) == 0 {
        return;
    }
    let mut value = 0_u32;
    if flags & TIMESTAMPING_OPT_ID != 0 {
        // "if (ipc->sockc.tsflags & SOCKCM_FLAG_TS_OPT_ID) … ts_opt_id; else cork->ts_opt_id = atomic_inc_return(&sk->sk_tskey) - 1;"
        value = asked.timestamp_key.unwrap_or(options.timestamp_key);
        if asked.timestamp_key.is_none() {
            options.timestamp_key = value.wrapping_add(1);
        }
    }
    let data = if flags & TIMESTAMPING_OPT_TSONLY != 0 { Bytes::new() } else { data.slice(..data.len().min(QUOTED_BYTES_MAX)) };
    for (bit, info) in [(TIMESTAMPING_TX_SCHED, SCM_TSTAMP_SCHED), (TIMESTAMPING_TX_SOFTWARE, SCM_TSTAMP_SND)] {
        if flags & bit != 0 {
            let entry = QueuedError { info, value, data: data.clone(), ..notice(Errno::ENOMSG, SO_EE_ORIGIN_TIMESTAMPING, now) };
            queue(sockets, s, entry);
        }
    }
}

/// `__msg_zerocopy_callback`: the bytes of a MSG_ZEROCOPY send were copied. Numbers that follow each other share an entry.
pub(crate) fn zerocopy_done(sockets: &mut Registry, s: SocketId, now: Instant) {
    let Some(socket) = sockets.store.get_mut(s).filter(|socket| socket.options.zerocopy) else { return };
    let number = socket.options.zerocopy_key;
    socket.options.zerocopy_key = number.wrapping_add(1);
    let last = socket.errors_mut().back_mut();
    if let Some(last) = last.filter(|last| last.origin == SO_EE_ORIGIN_ZEROCOPY && last.value.wrapping_add(1) == number) {
        last.value = number;
        return sockets.touch(s, Poll::ERR);
    }
    let entry = notice(Errno(0), SO_EE_ORIGIN_ZEROCOPY, now);
    queue(sockets, s, QueuedError { code: SO_EE_CODE_ZEROCOPY_COPIED, info: number, value: number, ..entry });
}

/// `ip_recv_error`, `ipv6_recv_error`: the oldest entry of the error queue.
pub(crate) fn receive(sockets: &mut Registry, s: SocketId, length: usize) -> Result<Received, Errno> {
    let boot_time = sockets.limits.boot_time_nanos;
    let socket = sockets.get_mut(s)?;
    let errors = socket.errors_mut();
    let entry = errors.pop_front().ok_or(Errno::EAGAIN)?;
    let next = errors.front().filter(|next| is_icmp(next)).map(|next| next.errno);
    // sock_dequeue_err_skb: "if (icmp_next) sk->sk_err = SKB_EXT_ERR(skb_next)->ee.ee_errno; … if (is_icmp_err_skb(skb) && !icmp_next)
    // sk->sk_err = 0;"
    if next.is_some() || is_icmp(&entry) {
        socket.error = next;
    }
    let copied = entry.data.len().min(length);
    let truncated = if copied < entry.data.len() { MSG_TRUNC } else { 0 };
    let out = Received {
        data: Tail::from_iter([entry.data.slice(..copied)]),
        from: entry.to.map_or_else(Vec::new, |to| address::told(socket.domain, to)),
        flags: MSG_ERRQUEUE | truncated,
        control: cmsg::of_error(socket, &entry, boot_time),
        datagram_bytes: copied,
    };
    sockets.touch(s, if next.is_some() { Poll::ERR } else { Poll::NONE });
    Ok(out)
}

/// An entry without address and data.
fn notice(errno: Errno, origin: u8, at: Instant) -> QueuedError {
    let data = Bytes::new();
    QueuedError { errno, origin, kind: 0, code: 0, info: 0, value: 0, offender: None, to: None, data, seen: None, at, statistics: false }
}

fn is_icmp(entry: &QueuedError) -> bool {
    matches!(entry.origin, SO_EE_ORIGIN_ICMP | SO_EE_ORIGIN_ICMP6)
}
