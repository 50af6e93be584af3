//! The error queue of a socket whose messages have boundaries: errors of the node itself, transmit times, completions, and reading all of it
//! (`ip_local_error`, `ip_recv_error` and their IPv6 kin). Errors that come in as ICMP messages are in `icmp_errors`.

use crate::abi::*;
use crate::address;
use crate::cmsg::{self, Ancillary};
use crate::counters;
use crate::errno::Errno;
use crate::memory::truesize;
use crate::received::Received;
use crate::registry::Registry;
use crate::socket::{QueuedError, SocketId};
use bytes::Bytes;
use std::net::SocketAddr;
use weft_core::{Instant, Tail};

/// Most entries of one socket's error queue.
const ERRORS_MAX: usize = 64;
/// Most payload bytes that an entry quotes.
pub(crate) const QUOTED_BYTES_MAX: usize = 1232;

/// `sock_queue_err_skb`: bounded by the receive buffer, and by number.
pub(crate) fn queue(sockets: &mut Registry, s: SocketId, entry: QueuedError) {
    let Some(socket) = sockets.store.get_mut(s) else { return };
    let room = socket.options.receive_buffer as usize;
    let Some(queue) = socket.message_queue_mut() else { return };
    let waiting: usize = queue.errors.iter().map(|entry| truesize(entry.data.len())).sum();
    let full = queue.errors.len() >= ERRORS_MAX || queue.queued_truesize + waiting + truesize(entry.data.len()) >= room;
    if !full {
        queue.errors.push_back(entry);
    }
    sockets.count(if full { counters::ERRORS_LOST } else { counters::ERRORS_QUEUED });
    sockets.touch(s);
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

/// `skb_tstamp_tx`: what was sent has been queued and has left, as far as the node can see. `asked` is SO_TIMESTAMPING of the send.
pub(crate) fn record_transmit(sockets: &mut Registry, s: SocketId, asked: &Ancillary, data: &Bytes, now: Instant) {
    let Some(socket) = sockets.store.get_mut(s) else { return };
    let options = &mut socket.options;
    let flags = asked.timestamping.map_or(options.timestamping, |asked| options.timestamping & !TIMESTAMPING_TX_RECORDS | asked);
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
    let last = socket.message_queue_mut().and_then(|queue| queue.errors.back_mut());
    if let Some(last) = last.filter(|last| last.origin == SO_EE_ORIGIN_ZEROCOPY && last.value.wrapping_add(1) == number) {
        last.value = number;
        return sockets.touch(s);
    }
    let entry = notice(Errno(0), SO_EE_ORIGIN_ZEROCOPY, now);
    queue(sockets, s, QueuedError { code: SO_EE_CODE_ZEROCOPY_COPIED, info: number, value: number, ..entry });
}

/// `ip_recv_error`, `ipv6_recv_error`: the oldest entry of the error queue.
pub(crate) fn receive(sockets: &mut Registry, s: SocketId, length: usize) -> Result<Received, Errno> {
    let boot_time = sockets.limits.boot_time_nanos;
    let socket = sockets.get_mut(s)?;
    let queue = socket.message_queue_mut().ok_or(Errno::EAGAIN)?;
    let entry = queue.errors.pop_front().ok_or(Errno::EAGAIN)?;
    let next = queue.errors.front().filter(|next| is_icmp(next)).map(|next| next.errno);
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
    sockets.touch(s);
    Ok(out)
}

/// An entry without address and data.
fn notice(errno: Errno, origin: u8, at: Instant) -> QueuedError {
    QueuedError { errno, origin, kind: 0, code: 0, info: 0, value: 0, offender: None, to: None, data: Bytes::new(), seen: None, at }
}

fn is_icmp(entry: &QueuedError) -> bool {
    matches!(entry.origin, SO_EE_ORIGIN_ICMP | SO_EE_ORIGIN_ICMP6)
}
