//! The receive queue of a socket whose messages have boundaries: what is put there of a packet, and how it is read.

use crate::abi::*;
use crate::address::{self, scoped};
use crate::address_kinds::AddressKinds;
use crate::cmsg;
use crate::counters;
use crate::errno::Errno;
use crate::error_queue;
use crate::filter;
use crate::link_address;
use crate::memory::truesize;
use crate::options::Options;
use crate::poll::Poll;
use crate::received::Received;
use crate::registry::Registry;
use crate::socket::{Body, Joined, Seen, Socket, SocketId, Waiting};
use bytes::Bytes;
use std::net::IpAddr;
use weft_core::table::{AddressKind, Family, Traffic};
use weft_core::{Context, Frame, Instant, InterfaceIndex, Query, Reason, Tail};
use weft_wire::Protocol;

/// What control messages tell of a received packet; `own` and `to_port` are not in its metadata.
pub(crate) fn seen(frame: &Frame, own: IpAddr, to_port: Option<u16>) -> Seen {
    let meta = frame.meta();
    Seen {
        to: meta.dst,
        own,
        to_port,
        interface: meta.interface.0,
        ttl: meta.ttl,
        tos: meta.tos,
        headers: received_headers(frame),
        flow_info: flow_info(frame),
        mark: meta.mark,
    }
}

/// `ip6_flowinfo`: "*(__be32 *)hdr & IPV6_FLOWINFO_MASK".
fn flow_info(frame: &Frame) -> u32 {
    let at = frame.meta().network_at;
    if at == 0 || frame.meta().dst.is_ipv4() {
        return 0;
    }
    let header = if frame.position() == at { frame.head() } else { frame.pulled(at) };
    header.first_chunk::<4>().map_or(0, |word| u32::from_be_bytes(*word) & 0x0fff_ffff)
}

/// The options of a received packet's IPv4 header, or its extension headers. A raw socket's packet begins with that header, others have it
/// behind them.
fn received_headers(frame: &Frame) -> Option<Box<[u8]>> {
    let network_at = frame.meta().network_at;
    if network_at == 0 {
        return None;
    }
    if frame.meta().dst.is_ipv6() {
        let (fixed, extensions) = frame.pulled(network_at).split_at_checked(weft_wire::ipv6::HEADER_LEN)?;
        let first = fixed[6];
        let any = matches!(Protocol(first), Protocol::HOP_BY_HOP | Protocol::ROUTING | Protocol::DESTINATION_OPTIONS);
        return any.then(|| [&[first], extensions].concat().into());
    }
    let header = if frame.position() == network_at { frame.head() } else { frame.pulled(network_at) };
    let length = usize::from(header.first()? & 0xf) * 4;
    header.get(weft_wire::ipv4::HEADER_LEN..length).filter(|options| !options.is_empty()).map(Into::into)
}

/// `fib_compute_spec_dst`: the own address that would be used towards the sender of what came to a group or broadcast.
pub(crate) fn own_address(kinds: &mut AddressKinds, to: IpAddr, from: IpAddr, interface: u32, cx: &Context<'_>) -> IpAddr {
    if !matches!(kinds.of(to, cx), AddressKind::Broadcast | AddressKind::Multicast) {
        return to;
    }
    let way = match from {
        // "if (!ipv4_is_zeronet(ip_hdr(skb)->saddr)) … else scope = RT_SCOPE_LINK; return inet_select_addr(dev, ip_hdr(skb)->saddr, scope);"
        IpAddr::V4(v4) if v4.octets()[0] == 0 => Query::Route {
            destination: to,
            source: None,
            interface: Some(InterfaceIndex(interface)).filter(|_| interface != 0),
            traffic: Traffic::default(),
        },
        _ => Query::Route { destination: from, source: None, interface: None, traffic: Traffic::default() },
    };
    cx.route(&way, Family::of(from)).map_or(to, |route| route.source)
}

/// `sock_queue_rcv_skb`: "if (atomic_read(&sk->sk_rmem_alloc) >= READ_ONCE(sk->sk_rcvbuf)) { sk_drops_inc(sk); …". Counts it.
pub(crate) fn is_full(sockets: &mut Registry, s: SocketId) -> bool {
    let Some(socket) = sockets.store.get_mut(s) else { return true };
    let room = socket.options.receive_buffer as usize;
    let Some(queue) = socket.datagram_mut() else { return true };
    let (full, node_full) = (queue.queued_truesize >= room, sockets.waiting_bytes >= sockets.limits.datagram_bytes_max);
    if full || node_full {
        queue.dropped = queue.dropped.saturating_add(1);
        sockets.count(if full { counters::RECEIVE_BUFFER_ERRORS } else { counters::MEMORY_ERRORS });
    }
    full || node_full
}

/// Puts a message into the receive queue of a raw or ICMP socket that has room. sock_queue_rcv_skb_reason: "err = sk_filter(sk, skb);"
pub(crate) fn enqueue(sockets: &mut Registry, s: SocketId, mut frame: Frame, own: IpAddr, to_port: Option<u16>, cx: &mut Context<'_>) {
    let Some(socket) = sockets.store.get_mut(s) else { return };
    if !filter::passes(socket.options.filter.as_ref(), &mut frame, 0, 1) {
        return cx.drop(frame, Reason::Filtered);
    }
    let tells_dropped = socket.options.receive_overflow;
    let Some(queue) = socket.datagram_mut() else { return };
    let now = cx.now;
    let meta = frame.meta();
    let bytes = frame.len();
    let waiting = Waiting {
        bytes,
        truesize: truesize(bytes.saturating_sub(28)),
        from: scoped(meta.src, 0, meta.interface.0),
        seen: seen(&frame, own, to_port),
        received: if meta.received == Instant::ZERO { now } else { meta.received },
        joined: Joined::default(),
        dropped: if tells_dropped { queue.dropped } else { 0 },
        data: frame.into_payload(),
        link: None,
    };
    queue.queued_truesize += waiting.truesize;
    sockets.waiting_bytes += waiting.truesize;
    queue.queue.push_back(waiting);
    sockets.touch(s, Poll::WAKES_READERS);
}

/// `skb_queue_purge`: nothing waits any more.
pub(crate) fn purge(sockets: &mut Registry, s: SocketId) {
    let Some(queue) = sockets.store.get_mut(s).and_then(Socket::datagram_mut) else { return };
    queue.queue.clear();
    let freed = std::mem::take(&mut queue.queued_truesize);
    sockets.waiting_bytes = sockets.waiting_bytes.saturating_sub(freed);
    sockets.touch(s, Poll::NONE);
}

/// recvmsg(2): `udp_recvmsg` and `raw_recvmsg`, or with MSG_ERRQUEUE an entry of the error queue.
pub(crate) fn receive(sockets: &mut Registry, s: SocketId, length: usize, flags: i32) -> Result<Received, Errno> {
    if flags & MSG_ERRQUEUE != 0 {
        return error_queue::receive(sockets, s, length);
    }
    let boot_time = sockets.limits.boot_time_nanos;
    let socket = sockets.get_mut(s)?;
    // udpv6_recvmsg, rawv6_recvmsg: "if (np->rxopt.bits.rxpmtu && READ_ONCE(np->rxpmtu)) return ipv6_recv_rxpmtu(sk, msg, len, addr_len);", which
    // ping_recvmsg does not have.
    if socket.options.receive_path_mtu
        && !matches!(socket.body, Body::Ping(_))
        && let Some((to, mtu)) = socket.options.path_mtu_news.take()
    {
        return Ok(Received { control: cmsg::of_path_mtu(to, mtu), ..Received::default() });
    }
    // __skb_recv_udp: "error = sock_error(sk); if (error) break; error = -EAGAIN; …"
    if let Some(error) = socket.take_error() {
        return Err(error);
    }
    let peek = flags & MSG_PEEK != 0;
    let first = socket.datagram().and_then(|datagram| datagram.queue.front()).map_or(0, |waiting| waiting.truesize);
    sockets.waiting_bytes = sockets.waiting_bytes.saturating_sub(if peek { 0 } else { first });
    let socket = sockets.get_mut(s)?;
    let domain = socket.domain;
    let receive_over = socket.shutdown.receive;
    let (mut offset, at) = peek_position(socket, peek);
    let Some(datagram) = socket.datagram_mut() else { return Err(Errno::EINVAL) };
    let waiting = if peek { datagram.queue.get(at).cloned() } else { datagram.queue.pop_front() };
    let Some(waiting) = waiting else {
        let blocks = flags & MSG_DONTWAIT == 0;
        // __skb_wait_for_more_packets: "Socket shut down?": only a caller that would wait sees the end.
        return if receive_over && blocks { Ok(Received::default()) } else { Err(Errno::EAGAIN) };
    };
    if !peek {
        datagram.queued_truesize = datagram.queued_truesize.saturating_sub(waiting.truesize);
    }
    // ping_recvmsg has sock_recv_timestamp only, no sock_recv_drops.
    let dropped = if matches!(socket.body, Body::Ping(_)) { 0 } else { waiting.dropped };
    // packet_rcv_vnet: "if (*len < vnet_hdr_sz) return -EINVAL; *len -= vnet_hdr_sz;", and what was taken is gone.
    let offload_bytes = socket.packet().map_or(0, |packet| usize::from(packet.offload_bytes));
    let length = length.checked_sub(offload_bytes).ok_or(Errno::EINVAL)?;
    offset = offset.min(waiting.bytes);
    let available = waiting.bytes - offset;
    let copied = length.min(available);
    let mut control = cmsg::of_received(socket, &waiting, boot_time, dropped);
    let from = match (socket.packet(), &waiting.link) {
        (Some(packet), Some(link)) => {
            let (from, auxiliary) = link_address::received(packet, link, waiting.bytes);
            control.extend(auxiliary);
            from
        }
        _ => address::told(domain, waiting.from),
    };
    let mut data = cut(&waiting.data, offset, copied);
    if offload_bytes > 0 {
        data.insert(0, offload(&waiting, offload_bytes));
    }
    let out =
        Received { data, from, flags: if length < available { MSG_TRUNC } else { 0 }, control, datagram_bytes: available + offload_bytes };
    keep_stamp(&mut socket.options, boot_time.saturating_add(waiting.received.as_nanos()));
    // udp_recvmsg: "err = copied; if (flags & MSG_TRUNC) err = ulen; … skb_consume_udp(sk, skb, peeking ? -err : err);"
    move_peek_offset(socket, peek, copied, if flags & MSG_TRUNC != 0 { waiting.bytes } else { copied });
    if !peek {
        sockets.touch(s, Poll::NONE);
    }
    Ok(out)
}

/// What PACKET_VNET_HDR puts before a frame.
fn offload(waiting: &Waiting, bytes: usize) -> Bytes {
    let header = waiting.link.as_ref().and_then(|link| link.offload).unwrap_or_default();
    let mut out = header.to_vec();
    out.resize(bytes, 0);
    out.into()
}

/// sock_recv_cmsgs: "if (READ_ONCE(sk->sk_flags) & FLAGS_RECV_CMSGS || … & TSFLAGS_ANY) __sock_recv_cmsgs(…); else if (sock_flag(sk, SOCK_TIMESTAMP))
/// sock_write_timestamp(sk, skb->tstamp); else if (sock_read_timestamp(sk) == SK_DEFAULT_STAMP) sock_write_timestamp(sk, 0);"
fn keep_stamp(options: &mut Options, received: u64) {
    let told = options.timestamps.is_some() || options.timestamping & (TIMESTAMPING_SOFTWARE | TIMESTAMPING_RAW_HARDWARE) != 0;
    if options.stamps && !told {
        options.stamp = Some(received);
    } else if !told && options.stamp.is_none() {
        options.stamp = Some(0);
    }
}

/// `sock_gettstamp`: "if (ts.tv_sec == -1) return -ENOENT; if (ts.tv_sec == 0) { ktime_t kt = ktime_get_real(); sock_write_timestamp(sk, kt); … }".
pub(crate) fn stamp(options: &mut Options, now: u64) -> Result<u64, Errno> {
    options.stamps = true;
    let stamp = match options.stamp.ok_or(Errno::ENOENT)? {
        0 => now,
        stamp => stamp,
    };
    options.stamp = Some(stamp);
    Ok(stamp)
}

/// SO_PEEK_OFF: which datagram a peek looks at, and from which byte.
fn peek_position(socket: &Socket, peek: bool) -> (usize, usize) {
    let Some(datagram) = socket.datagram() else { return (0, 0) };
    let mut offset = match socket.options.peek_offset {
        from @ 0.. if peek => from as usize,
        _ => return (0, 0),
    };
    // __skb_try_recv_from_queue: "if (offset >= skb->len && (offset || skb->peeked)) { offset -= skb->len; continue; }"
    for (at, waiting) in datagram.queue.iter().enumerate() {
        if offset < waiting.bytes || offset == 0 {
            return (offset, at);
        }
        offset -= waiting.bytes;
    }
    (offset, datagram.queue.len())
}

fn move_peek_offset(socket: &mut Socket, peek: bool, copied: usize, told: usize) {
    let offset = socket.options.peek_offset;
    if offset < 0 {
        return;
    }
    let step = |bytes: usize| i32::try_from(bytes).unwrap_or(i32::MAX);
    socket.options.peek_offset = if peek { offset.saturating_add(step(copied)) } else { offset.saturating_sub(step(told)).max(0) };
}

fn cut(data: &Tail, offset: usize, bytes: usize) -> Tail {
    let mut out = Tail::new();
    let (mut skip, mut left) = (offset, bytes);
    for piece in data {
        if left == 0 {
            break;
        }
        if skip >= piece.len() {
            skip -= piece.len();
            continue;
        }
        let part = piece.slice(skip..piece.len().min(skip + left));
        skip = 0;
        left -= part.len();
        out.push(part);
    }
    out
}
