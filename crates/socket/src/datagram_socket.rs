//! What datagram sockets send: `udp_sendmsg`, `udpv6_sendmsg`.

use crate::abi::*;
use crate::address;
use crate::cmsg::{self, Ancillary, Sender};
use crate::counters;
use crate::datagrams::Datagrams;
use crate::errno::Errno;
use crate::error_queue;
use crate::inet6;
use crate::memory::truesize;
use crate::outgoing;
use crate::outputs::UDP;
use crate::registry::Registry;
use crate::routes;
use crate::sending::Sending;
use crate::socket::{Corked, SEGMENTS_MAX, Socket, SocketId};
use bytes::Bytes;
use std::net::{IpAddr, SocketAddr};
use weft_core::table::{AddressKind, Family, RouteAnswer};
use weft_core::{Checksum, Completion, Context, Direction, Frame, Gso, GsoKind, InterfaceIndex};
use weft_wire::Protocol;

/// Largest payload: 65535 less the headers of IPv4 and UDP.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 65535 - 20 - 8;
/// The same over IPv6, whose length field does not count the IP header.
const PAYLOAD_BYTES_MAX_V6: usize = 65535 - 8;

/// sendmsg(2), `udp_sendmsg`.
pub(crate) fn send(
    datagrams: &mut Datagrams,
    sockets: &mut Registry,
    s: SocketId,
    sending: Sending<'_>,
    cx: &mut Context<'_>,
) -> Result<usize, Errno> {
    let Sending { data, flags, to, control } = sending;
    // inet_send_prepare
    datagrams.autobind(sockets, s, cx)?;
    let socket = sockets.get(s)?;
    // udp_sendmsg: "if (len > 0xFFFF) return -EMSGSIZE; … if (msg->msg_flags & MSG_OOB) return -EOPNOTSUPP;" and only then where it goes. udpv6_sendmsg asks
    // neither, and hands IPv4's on when it knows that.
    let of_ipv4 = |data: &Bytes| match () {
        () if data.len() > 0xffff => Err(Errno::EMSGSIZE),
        () if flags & MSG_OOB != 0 => Err(Errno::EOPNOTSUPP),
        () => Ok(()),
    };
    if !socket.is_v6() {
        of_ipv4(&data)?;
    }
    let corked = socket.datagram().and_then(|datagram| datagram.corked.as_ref().map(|corked| (corked.to, corked.source)));
    let to = match to {
        Some(bytes) if socket.is_v6() => inet6::send_to_v6(socket, bytes)?,
        Some(bytes) if corked.is_none() => Some(address::for_send(bytes)?),
        _ => None,
    };
    let to = match (corked, to, socket.remote) {
        (Some((to, _)), _, _) | (None, Some(to), _) | (None, None, Some(to)) => to,
        (None, None, None) => return Err(Errno::EDESTADDRREQ),
    };
    // udpv6_sendmsg hands IPv4's an address even to a connected peer, and that one may not have port 0.
    if socket.is_v6() && to.is_ipv4() && to.port() == 0 {
        return Err(Errno::EINVAL);
    }
    if to.is_ipv4() {
        of_ipv4(&data)?;
    }
    if let Some((to, source)) = corked {
        return send_routed(sockets, s, data, flags, to, source, Ancillary::default(), cx);
    }
    let ancillary = cmsg::for_sending(control, Sender::Udp, socket, Family::of(to.ip()))?;
    if to.is_ipv6() {
        // "if (!fl6->flowi6_oif) fl6->flowi6_oif = READ_ONCE(sk->sk_bound_dev_if); if (!fl6->flowi6_oif) fl6->flowi6_oif =
        // np->sticky_pktinfo.ipi6_ifindex;"
        let way = [outgoing::scope_of(to), socket.options.interface, socket.options.sticky6_index];
        let way = way.into_iter().find(|index| *index != 0).unwrap_or(0);
        outgoing::check_packet_info(sockets, s, &ancillary, way, cx)?;
    }
    let socket = sockets.get(s)?;
    let own = socket.local.ip();
    let mut source = match ancillary.source {
        Some(source) => Some(source).filter(|source| !source.is_unspecified()),
        None => routes::source_for(own, to.ip())?,
    };
    let of_group = IpAddr::V4(socket.options.multicast_interface);
    if to.is_ipv4() && to.ip().is_multicast() && source.is_none() && !of_group.is_unspecified() {
        // "if (!saddr) saddr = READ_ONCE(inet->mc_addr);"
        source = Some(of_group);
    }
    let to = routes::destination(to, source.unwrap_or(address::unspecified_ip(address::AF_INET)));
    send_routed(sockets, s, data, flags, to, source, ancillary, cx)
}

#[allow(clippy::too_many_arguments)] // the kernel's own list: what udp_sendmsg has worked out by now
fn send_routed(
    sockets: &mut Registry,
    s: SocketId,
    data: Bytes,
    flags: i32,
    to: SocketAddr,
    source: Option<IpAddr>,
    ancillary: Ancillary,
    cx: &mut Context<'_>,
) -> Result<usize, Errno> {
    let interface = outgoing_interface(sockets.get(s)?, to, &ancillary);
    let traffic = routes::traffic_of(sockets.get(s)?, to.port(), ancillary.mark);
    let route = routes::through(outgoing::first_hop(sockets.get(s)?, &ancillary, to.ip()), source, interface, traffic, cx)?;
    if sockets.kinds.of(to.ip(), cx) == AddressKind::Broadcast && !sockets.get(s)?.options.broadcast {
        return Err(Errno::EACCES);
    }
    outgoing::confirm(flags, &route, cx);
    let bound = largest_payload(sockets.get(s)?, to, &route, &ancillary, cx);
    let socket = sockets.get_mut(s)?;
    let more = flags & MSG_MORE != 0 || socket.options.udp_cork;
    let room = socket.options.send_buffer as usize;
    let Some(datagram) = socket.datagram_mut() else { return Err(Errno::EINVAL) };
    let already = datagram.corked.as_ref().map_or(0, |corked| corked.data.len());
    let total = already + data.len();
    if total > bound {
        let socket = sockets.get(s)?;
        // "mtu = cork->gso_size ? IP_MAX_MTU : cork->fragsize;", and IP6_MAX_MTU.
        let mtu = match (ancillary.segment_bytes.unwrap_or(socket.options.udp_segment), to) {
            (0, _) => outgoing::path_mtu(socket, to, &route, cx),
            (_, SocketAddr::V4(_)) => outgoing::PACKET_BYTES_MAX,
            (_, SocketAddr::V6(_)) => outgoing::PACKET_BYTES_MAX + outgoing::HEADER_BYTES_V6,
        };
        let told = outgoing::told_mtu(socket, &ancillary, to.ip(), mtu);
        if outgoing::may_not_be_cut(socket, &ancillary, to.ip()) {
            error_queue::path_mtu(sockets, s, to, told);
        }
        error_queue::local(sockets, s, Errno::EMSGSIZE, to, told, cx.now);
        return Err(Errno::EMSGSIZE);
    }
    // sock_alloc_send_pskb: "err = sock_error(sk); if (err != 0) goto failure; err = -EPIPE; if (sk->sk_shutdown & SEND_SHUTDOWN) …
    //  if (sk_wmem_alloc_get(sk) < READ_ONCE(sk->sk_sndbuf)) break;"
    // What is appended to a corked datagram needs no new buffer, so none of this is asked.
    let full = datagram.sending >= room;
    if already == 0 {
        if let Some(error) = socket.take_error() {
            return Err(error);
        }
        if socket.shutdown.send {
            return Err(Errno::EPIPE);
        }
        if full {
            return Err(Errno::EAGAIN);
        }
    }
    let sent = data.len();
    let Some(datagram) = socket.datagram_mut() else { return Err(Errno::EINVAL) };
    if flags & MSG_UNREADABLE != 0 {
        // Only now the bytes are copied (ip_generic_getfrag). udp_sendmsg: "err = ip_append_data(…); if (err) udp_flush_pending_frames(sk);"
        datagram.corked = None;
        return Err(Errno::EFAULT);
    }
    if more || already > 0 {
        let corked = datagram.corked.get_or_insert_with(|| Corked { to, source, data: Vec::new() });
        corked.data.extend_from_slice(&data);
        if more {
            return Ok(sent);
        }
    }
    let data = datagram.corked.take().map_or(data, |corked| Bytes::from(corked.data));
    transmit(sockets, s, data, to, source, route, ancillary, cx)?;
    Ok(sent)
}

/// Through which interface a datagram leaves: what its control messages say, the scope of its destination, what the socket says.
fn outgoing_interface(socket: &Socket, to: SocketAddr, ancillary: &Ancillary) -> u32 {
    let scope = match to {
        SocketAddr::V6(v6) => v6.scope_id(),
        SocketAddr::V4(_) => 0,
    };
    match (ancillary.interface, scope) {
        (Some(interface), _) => interface,
        (None, 0) => socket.way_out(to.ip()),
        (None, scope) => scope,
    }
}

/// Most payload bytes of a datagram. ip_append_data: "maxnonfragsize = ip_sk_ignore_df(sk) ? IP_MAX_MTU : mtu;", and ip6_append_data.
fn largest_payload(socket: &Socket, to: SocketAddr, route: &RouteAnswer, ancillary: &Ancillary, cx: &Context<'_>) -> usize {
    let options = &socket.options;
    let extras = outgoing::counted_extras(socket, ancillary, to.ip());
    let (discover, headers, most) = match to {
        SocketAddr::V4(_) => (options.mtu_discover, 28 + extras, PAYLOAD_BYTES_MAX - extras),
        SocketAddr::V6(_) => (options.mtu_discover6, 48 + extras, PAYLOAD_BYTES_MAX_V6 - extras),
    };
    let mtu = outgoing::path_mtu(socket, to, route, cx);
    let whole = match i32::from(discover) {
        IP_PMTUDISC_DO | IP_PMTUDISC_PROBE | IP_PMTUDISC_INTERFACE => true,
        // ip6_append_data: "if (cork->length + length > mtu - headersize && ipc6->dontfrag …) goto emsgsize;"
        _ => to.is_ipv6() && ancillary.dont_fragment.unwrap_or(options.dont_fragment),
    };
    // "mtu = cork->gso_size ? IP_MAX_MTU : cork->fragsize;": of a datagram that is cut, the segments count.
    let segmented = ancillary.segment_bytes.unwrap_or(options.udp_segment) != 0;
    if whole && !segmented { mtu.saturating_sub(headers).min(most) } else { most }
}

/// Pushes out what UDP_CORK held back.
pub(crate) fn uncork(sockets: &mut Registry, s: SocketId, cx: &mut Context<'_>) -> Result<(), Errno> {
    let Some(corked) = sockets.get_mut(s)?.datagram_mut().and_then(|datagram| datagram.corked.take()) else { return Ok(()) };
    let route = routes::route(sockets.get(s)?, corked.to, corked.source, cx)?;
    transmit(sockets, s, Bytes::from(corked.data), corked.to, corked.source, route, Ancillary::default(), cx)
}

#[allow(clippy::too_many_arguments)] // as above
fn transmit(
    sockets: &mut Registry,
    s: SocketId,
    data: Bytes,
    to: SocketAddr,
    source: Option<IpAddr>,
    route: RouteAnswer,
    ancillary: Ancillary,
    cx: &mut Context<'_>,
) -> Result<(), Errno> {
    let segment = usize::from(ancillary.segment_bytes.unwrap_or(sockets.get(s)?.options.udp_segment));
    if segment != 0 {
        // udp_send_skb, udp_v6_send_skb: "if (hlen + min(datalen, cork->gso_size) > cork->fragsize) … -EMSGSIZE; if (datalen >
        // cork->gso_size * UDP_MAX_SEGMENTS) … -EINVAL; if (sk->sk_no_check_tx) … -EINVAL;"
        let socket = sockets.get(s)?;
        let headers = outgoing::header_extras(socket, &ancillary, to.ip()) + if to.is_ipv6() { 48 } else { 28 };
        if headers + segment.min(data.len()) > outgoing::path_mtu(socket, to, &route, cx) {
            return Err(Errno::EMSGSIZE);
        }
        let options = &socket.options;
        let unchecked = if to.is_ipv6() { options.no_check6_sent } else { options.no_check };
        if data.len() > segment * SEGMENTS_MAX || unchecked {
            return Err(Errno::EINVAL);
        }
        // "if (is_udplite || dst_xfrm(skb_dst(skb))) { kfree_skb(skb); return -EIO; }"
        if socket.protocol == IPPROTO_UDPLITE {
            return Err(Errno::EIO);
        }
    }
    emit(sockets, s, data, to, source, route, ancillary, segment, cx);
    Ok(())
}

#[allow(clippy::too_many_arguments)] // as above
fn emit(
    sockets: &mut Registry,
    s: SocketId,
    data: Bytes,
    to: SocketAddr,
    source: Option<IpAddr>,
    route: RouteAnswer,
    ancillary: Ancillary,
    segment: usize,
    cx: &mut Context<'_>,
) {
    let Some(socket) = sockets.store.get_mut(s) else { return };
    let interface = outgoing_interface(socket, to, &ancillary);
    let extras = outgoing::header_extras(socket, &ancillary, to.ip());
    let ip_options = outgoing::ip_options(socket, &ancillary, to.ip());
    let attached = outgoing::attached(socket, &ancillary, to.ip()).cloned().map(Box::new);
    let (options, port, v6) = (&socket.options, socket.number, to.is_ipv6());
    let bytes = truesize(data.len());
    let mut frame = Frame::egress();
    let meta = frame.meta_mut();
    meta.direction = Direction::Egress;
    meta.src = source.unwrap_or(route.source);
    meta.dst = to.ip();
    (meta.src_port, meta.dst_port) = (port, to.port());
    meta.protocol = Protocol(socket.protocol as u8);
    meta.checksum = match (meta.protocol, options.coverage_sent) {
        (Protocol::UDPLITE, Some(covered)) => Checksum::Covers(covered),
        // udp_v6_send_skb: "else if (udp_get_no_check6_tx(sk)) { skb->ip_summed = CHECKSUM_NONE; goto send; }"; of IPv4 sk_no_check_tx.
        (Protocol::UDP, _) if if v6 { options.no_check6_sent } else { options.no_check } => Checksum::Absent,
        _ => Checksum::Unknown,
    };
    let (hops, of_groups, tos, discover) = match v6 {
        false => (options.ttl, options.multicast_ttl, options.tos, options.mtu_discover),
        true => (options.hop_limit.max(0) as u8, options.multicast6_hops, options.traffic_class, options.mtu_discover6),
    };
    meta.ttl = ancillary.ttl.unwrap_or(if to.ip().is_multicast() { of_groups } else { hops });
    meta.tos = ancillary.tos.unwrap_or(tos);
    meta.mark = ancillary.mark.unwrap_or(options.mark);
    meta.interface = InterfaceIndex(interface);
    // ip_dont_fragment: DO always, WANT as long as the datagram fits the path; PROBE too, which only keeps from lowering the path's MTU.
    meta.dont_fragment = match i32::from(discover) {
        IP_PMTUDISC_DO | IP_PMTUDISC_PROBE => true,
        _ if v6 => ancillary.dont_fragment.unwrap_or(options.dont_fragment),
        IP_PMTUDISC_WANT => data.len() + 28 + extras <= route.mtu as usize || segment != 0,
        _ => false,
    };
    if segment != 0 && data.len() > segment {
        meta.gso = Some(Gso { segment_bytes: segment as u16, kind: GsoKind::Udp });
    }
    (meta.ip_options, meta.attached) = (ip_options.map(Box::new), attached);
    meta.no_loop = to.ip().is_multicast() && !options.multicast_loops(v6);
    let timed = (options.timestamping | ancillary.timestamping.unwrap_or(0) != 0).then(|| data.clone());
    meta.completion = Some(Completion { block: cx.me(), token: s.number(), bytes: bytes as u32 });
    frame.append(data);
    if let Some(datagram) = socket.datagram_mut() {
        datagram.sending += bytes;
    }
    let lite = sockets.store.get(s).is_some_and(|socket| socket.protocol == IPPROTO_UDPLITE);
    sockets.count(if lite { counters::LITE_OUT } else { counters::DATAGRAMS_OUT });
    if let Some(data) = timed {
        error_queue::record_transmit(sockets, s, &ancillary, &data, cx.now);
    }
    cx.emit(UDP, frame);
}
