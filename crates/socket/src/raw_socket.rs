//! Raw sockets: `net/ipv4/raw.c` and `net/ipv6/raw.c`.
//!
//! A raw socket is found by protocol, bound address, peer and interface; every one that fits gets a copy. Over IPv4 it reads packets from
//! the IP header on, over IPv6 from the transport header on. The port that getsockname shows is the protocol, as in Linux.

use crate::abi::*;
use crate::address::scoped;
use crate::cmsg::{self, Sender};
use crate::counters;
use crate::errno::Errno;
use crate::error_queue;
use crate::inet6;
use crate::outgoing::{self, HEADER_BYTES_V4, HEADER_BYTES_V6, Outgoing, PACKET_BYTES_MAX};
use crate::outputs::{IP4, IP6, PACKET, PACKET6};
use crate::poll::Poll;
use crate::raw_address;
use crate::receive_queue;
use crate::registry::Registry;
use crate::sending::Sending;
use crate::socket::{Corked, Raw, Socket, SocketId};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use weft_core::table::{AddressKind, Family};
use weft_core::{Change, Checksum, Context, Frame, Reason, Table};
use weft_wire::Protocol;
use weft_wire::checksum::{Sum, pseudo_v6};

/// Offset of the checksum in an ICMPv6 message, which the kernel always fills in (rawv6_init_sk).
const ICMPV6_CHECKSUM_AT: u16 = 2;

impl Raw {
    /// As `inet_create` and `rawv6_init_sk` leave it.
    pub(crate) fn of(protocol: i32) -> Raw {
        Raw { header_included: protocol == IPPROTO_RAW, ..Raw::default() }
    }
}

/// Raw sockets by what they hear.
#[derive(Debug, Default)]
pub(crate) struct RawSockets {
    /// By family and protocol, oldest first.
    pub by_protocol: BTreeMap<(Family, u16), Vec<SocketId>>,
}

impl RawSockets {
    /// "inet->inet_num = protocol; … inet->inet_sport = htons(inet->inet_num); sk->sk_prot->hash(sk);"
    pub(crate) fn open(&mut self, sockets: &mut Registry, s: SocketId, cx: &mut Context<'_>) {
        let Some(socket) = sockets.store.get_mut(s) else { return };
        let number = socket.protocol as u16;
        socket.number = number;
        socket.local.set_port(number);
        let family = socket.family();
        if let Some(raw) = socket.raw_mut()
            && family == Family::V6
            && number == IPPROTO_ICMPV6 as u16
        {
            raw.checksum_at = Some(ICMPV6_CHECKSUM_AT.into());
        }
        let all = self.by_protocol.entry((family, number)).or_default();
        all.push(s);
        if all.len() == 1 {
            want(family, number, true, cx);
        }
    }

    /// `raw_unhash_sk`: it receives nothing from now on.
    pub(crate) fn unhash(&mut self, sockets: &Registry, s: SocketId, cx: &mut Context<'_>) {
        let Some(socket) = sockets.store.get(s) else { return };
        let key = (socket.family(), socket.protocol as u16);
        let Some(all) = self.by_protocol.get_mut(&key) else { return };
        all.retain(|other| *other != s);
        if all.is_empty() {
            self.by_protocol.remove(&key);
            want(key.0, key.1, false, cx);
        }
    }

    /// Tells the IP blocks, which may be new, what raw sockets want.
    pub(crate) fn tell(&self, cx: &mut Context<'_>) {
        for (family, number) in self.by_protocol.keys() {
            want(*family, *number, true, cx);
        }
    }

    /// `raw_v4_input`, `ipv6_raw_deliver`: a packet of a protocol that some raw socket wants. It begins with the transport header, the IP
    /// header lies at `network_at`.
    pub(crate) fn input(&self, sockets: &mut Registry, mut frame: Frame, cx: &mut Context<'_>) {
        sockets.count(counters::RAW_IN_PACKETS);
        let meta = frame.meta();
        let (family, number) = (Family::of(meta.dst), u16::from(meta.protocol.0));
        let (to, from, interface) = (meta.dst, meta.src, meta.interface.0);
        let Some(all) = self.by_protocol.get(&(family, number)) else { return cx.drop(frame, Reason::NoPort) };
        let wanting: Vec<SocketId> = all.iter().copied().filter(|s| wants(sockets, *s, to, from, interface, family)).collect();
        if wanting.is_empty() {
            return cx.drop(frame, Reason::NoPort);
        }
        let sound = family == Family::V4 || ipv6_checksum_holds(&frame);
        let head = frame.slices(0, 4).concat();
        let icmp = matches!((family, i32::from(number)), (Family::V4, IPPROTO_ICMP) | (Family::V6, IPPROTO_ICMPV6));
        let own = receive_queue::own_address(&mut sockets.kinds, to, from, interface, cx);
        if let Some(completion) = frame.take_completion() {
            cx.complete(completion);
        }
        for s in wanting {
            if receive_queue::is_full(sockets, s) {
                cx.count_drop(Reason::SocketBufferFull);
            } else if !sound && checks(sockets, s) {
                // rawv6_rcv_skb: "if ((raw6_sk(sk)->checksum || …) && skb_checksum_complete(skb)) { sk_drops_inc(sk); …"
                if let Some(queue) = sockets.store.get_mut(s).and_then(Socket::datagram_mut) {
                    queue.dropped = queue.dropped.saturating_add(1);
                }
                cx.count_drop(Reason::BadChecksum);
            } else if !icmp || !filtered(sockets, s, head.first().copied()) {
                enqueue(sockets, s, frame.clone(), own, &head, cx);
            }
        }
    }
}

/// `raw_bind`: EINVAL when connected or too short, EADDRNOTAVAIL. The family is not looked at, and it may be bound again.
pub(crate) fn bind(sockets: &mut Registry, s: SocketId, address: &[u8], cx: &mut Context<'_>) -> Result<(), Errno> {
    let socket = sockets.get(s)?;
    let (connected, freebind) = (socket.remote.is_some(), socket.options.binds_anywhere());
    let address = raw_address::for_raw_bind(socket.family(), address)?;
    if connected {
        return Err(Errno::EINVAL);
    }
    if let SocketAddr::V6(v6) = address {
        inet6::take_scope_of(sockets.get_mut(s)?, v6, cx)?;
    }
    let interface = sockets.get(s)?.options.interface;
    let here = match address.ip() {
        ip @ IpAddr::V4(_) => !matches!(sockets.kinds.of(ip, cx), AddressKind::Other),
        // "if (!(addr_type & IPV6_ADDR_MULTICAST) && !ipv6_can_nonlocal_bind(…)) { if (!ipv6_chk_addr(…)) goto out_unlock; }"
        IpAddr::V6(ip) => ip.is_unspecified() || ip.is_multicast() || sockets.kinds.is_own(ip, interface, cx),
    };
    if !here && !freebind {
        return Err(Errno::EADDRNOTAVAIL);
    }
    let socket = sockets.get_mut(s)?;
    let (port, interface) = (socket.local.port(), socket.options.interface);
    socket.local = scoped(address.ip(), port, interface);
    sockets.touch(s, Poll::NONE);
    Ok(())
}

/// `raw_sendmsg`, `rawv6_sendmsg`.
pub(crate) fn send(sockets: &mut Registry, s: SocketId, sending: Sending<'_>, cx: &mut Context<'_>) -> Result<usize, Errno> {
    let Sending { data, flags, to, control } = sending;
    let socket = sockets.get(s)?;
    let family = socket.family();
    let raw = socket.raw().ok_or(Errno::EINVAL)?;
    let (header_included, protocol) = (raw.header_included, socket.protocol);
    // "err = -EMSGSIZE; if (len > 0xFFFF) goto out;"; over IPv6 only INT_MAX is looked at here.
    if data.len() > 0xffff && family == Family::V4 {
        return Err(Errno::EMSGSIZE);
    }
    if flags & MSG_OOB != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let (to, protocol) = match (to, socket.remote) {
        // raw_sendmsg: "if (msg->msg_namelen) { … } else { err = -EDESTADDRREQ; if (sk->sk_state != TCP_ESTABLISHED) goto out;"; rawv6_sendmsg
        // asks for a pointer.
        (Some(bytes), _) if family == Family::V6 || !bytes.is_empty() => {
            let to = raw_address::for_raw_send(family, bytes)?;
            (to, protocol_of(family, protocol, to.port())?)
        }
        (_, Some(remote)) => (remote, protocol),
        (_, None) => return Err(Errno::EDESTADDRREQ),
    };
    // rawv6_sendmsg looks a mapped address up among IPv6's routes, and finds none.
    if family == Family::V6 && to.is_ipv4() {
        return Err(Errno::ENETUNREACH);
    }
    let mut ancillary = cmsg::for_sending(control, Sender::Raw, socket, family)?;
    let scope = outgoing::scope_of(to);
    if family == Family::V6 {
        // "if (fl6.flowi6_oif == 0) fl6.flowi6_oif = READ_ONCE(sk->sk_bound_dev_if);"
        let way = if scope == 0 { socket.options.interface } else { scope };
        outgoing::check_packet_info(sockets, s, &ancillary, way, cx)?;
    }
    if ancillary.interface.is_none() && scope != 0 {
        ancillary.interface = Some(scope);
    }
    let icmp = matches!((family, protocol), (Family::V4, IPPROTO_ICMP) | (Family::V6, IPPROTO_ICMPV6));
    // raw_probe_proto_opt: "rfv->hlen = 2; err = memcpy_from_msg(rfv->hdr.c, rfv->msg, rfv->hlen);", which fails as EFAULT.
    if !header_included && icmp && (data.len() < 2 || flags & MSG_UNREADABLE != 0) {
        return Err(Errno::EFAULT);
    }
    let protocol = Protocol(u8::try_from(protocol).unwrap_or(IPPROTO_RAW as u8));
    let out = outgoing::outgoing(sockets, s, to.ip(), ancillary, protocol, cx)?;
    outgoing::confirm(flags, &out.route, cx);
    if header_included {
        // "Linux does not mangle headers on raw sockets, so that IP options + IP_HDRINCL is non-sense."
        if outgoing::ip_options(sockets.get(s)?, &out.ancillary, out.to).is_some() {
            return Err(Errno::EINVAL);
        }
        return send_header_included(sockets, s, data, flags, &out, cx);
    }
    append(sockets, s, data, flags, out, cx)
}

/// `ip_append_data`: with MSG_MORE, pieces become one packet.
fn append(sockets: &mut Registry, s: SocketId, data: Bytes, flags: i32, out: Outgoing, cx: &mut Context<'_>) -> Result<usize, Errno> {
    let more = flags & MSG_MORE != 0;
    let corked = sockets.get(s)?.datagram().and_then(|queue| queue.corked.as_ref()).map_or(0, |corked| corked.data.len());
    outgoing::check_length(sockets, s, corked + data.len(), &out, cx)?;
    // __ip_append_data, without a transport header of the kernel's: "if (refcount_read(&sk->sk_wmem_alloc) + wmem_alloc_delta <=
    // 2 * sk->sk_sndbuf) skb = alloc_skb(…); if (unlikely(!skb)) err = -ENOBUFS;". Neither errors nor shutdown are looked at.
    let socket = sockets.get(s)?;
    let room = (socket.options.send_buffer as usize).saturating_mul(2);
    if corked == 0 && socket.datagram().is_some_and(|queue| queue.sending > room) {
        return Err(Errno::ENOBUFS);
    }
    let sent = data.len();
    let Some(queue) = sockets.get_mut(s)?.datagram_mut() else { return Err(Errno::EINVAL) };
    if flags & MSG_UNREADABLE != 0 {
        // "err = ip_append_data(…); if (err) ip_flush_pending_frames(sk);"
        queue.corked = None;
        return Err(Errno::EFAULT);
    }
    let (data, out) = if more || queue.corked.is_some() {
        let first = queue.corked.get_or_insert_with(|| Corked { to: SocketAddr::new(out.to, 0), source: out.source, data: Vec::new() });
        first.data.extend_from_slice(&data);
        if more {
            return Ok(sent);
        }
        // Addresses of the first piece count.
        let whole = queue.corked.take().map_or_else(Vec::new, |corked| corked.data);
        (Bytes::from(whole), out)
    } else {
        (data, out)
    };
    push(sockets, s, data, &out, cx)?;
    Ok(sent)
}

/// `ip_push_pending_frames`, `rawv6_push_pending_frames`.
fn push(sockets: &mut Registry, s: SocketId, data: Bytes, out: &Outgoing, cx: &mut Context<'_>) -> Result<(), Errno> {
    let mut frame = Frame::egress();
    let at = sockets.get(s)?.raw().and_then(|raw| raw.checksum_at).map(|at| at as usize);
    let port = match (out.to, out.source()) {
        (IpAddr::V6(to), IpAddr::V6(from)) => {
            if let Some(at) = at {
                // "if (offset >= total_len - 1) { err = -EINVAL; ip6_flush_pending_frames(sk); goto out; }"
                if at + 1 >= data.len() {
                    return Err(Errno::EINVAL);
                }
                let mut bytes = data.to_vec();
                // "in case cksum was not initialized": what the program left in the field does not count.
                if let Some(field) = bytes.get_mut(at..at + 2) {
                    field.fill(0);
                }
                let sum = pseudo_v6(from, to, out.protocol.0, bytes.len() as u32).add_bytes(&bytes);
                let sum = if out.protocol == Protocol::UDP { sum.finish_udp() } else { sum.finish() };
                if let Some(field) = bytes.get_mut(at..at + 2) {
                    field.copy_from_slice(&sum.to_be_bytes());
                }
                frame.append(Bytes::from(bytes));
            } else {
                frame.append(data);
            }
            IP6
        }
        _ => {
            frame.append(data);
            IP4
        }
    };
    outgoing::emit(sockets, s, frame, out, port, cx);
    Ok(())
}

/// `raw_send_hdrinc`, `rawv6_send_hdrinc`: the program's own IP header; length, checksum, identification and source are filled in.
fn send_header_included(
    sockets: &mut Registry,
    s: SocketId,
    data: Bytes,
    flags: i32,
    out: &Outgoing,
    cx: &mut Context<'_>,
) -> Result<usize, Errno> {
    let port = sockets.get(s)?.remote.map_or(0, |remote| remote.port());
    // "if (length > rt->dst.dev->mtu) { ip_local_error(sk, EMSGSIZE, fl4->daddr, inet->inet_dport, rt->dst.dev->mtu); return -EMSGSIZE; }"
    let too_long = data.len() > (out.route.mtu as usize).min(PACKET_BYTES_MAX + 1);
    if too_long {
        error_queue::local(sockets, s, Errno::EMSGSIZE, SocketAddr::new(out.to, port), out.route.mtu, cx.now);
        return Err(Errno::EMSGSIZE);
    }
    let least = if out.to.is_ipv6() { HEADER_BYTES_V6 } else { HEADER_BYTES_V4 };
    if data.len() < least {
        return Err(Errno::EINVAL);
    }
    outgoing::admit(sockets, s)?;
    if flags & MSG_UNREADABLE != 0 {
        return Err(Errno::EFAULT);
    }
    let length = data.len();
    let mut frame = Frame::egress();
    if out.to.is_ipv6() {
        frame.append(data);
        outgoing::emit(sockets, s, frame, out, PACKET6, cx);
        return Ok(length);
    }
    let mut header = data.to_vec();
    let header_bytes = usize::from(header.first().copied().unwrap_or(0) & 0xf) * 4;
    if !(HEADER_BYTES_V4..=length).contains(&header_bytes) {
        return Err(Errno::EINVAL);
    }
    complete_header(&mut header, header_bytes, out, cx);
    let protocol = header.get(9).copied().unwrap_or(0);
    frame.append(Bytes::from(header));
    let out = Outgoing { protocol: Protocol(protocol), ..out.clone() };
    outgoing::emit(sockets, s, frame, &out, PACKET, cx);
    Ok(length)
}

/// `raw_v4_match`, `raw_v6_match`, and the group's source filter.
fn wants(sockets: &Registry, s: SocketId, to: IpAddr, from: IpAddr, interface: u32, family: Family) -> bool {
    let Some(socket) = sockets.store.get(s) else { return false };
    let peer = socket.remote.is_none_or(|remote| remote.ip() == from);
    let bound = socket.options.interface == 0 || interface == 0 || socket.options.interface == interface;
    let here = socket.local.ip().is_unspecified() || socket.local.ip() == to;
    let allowed = socket.options.hears(to, from, interface);
    match family {
        Family::V4 => peer && bound && here && allowed,
        Family::V6 => peer && bound && (here || to.is_multicast() && allowed),
    }
}

fn checks(sockets: &Registry, s: SocketId) -> bool {
    sockets.store.get(s).and_then(Socket::raw).is_some_and(|raw| raw.checksum_at.is_some())
}

/// `icmp_filter`, `icmpv6_filter`: a message without a type is kept away too.
fn filtered(sockets: &Registry, s: SocketId, kind: Option<u8>) -> bool {
    let Some(socket) = sockets.store.get(s) else { return true };
    let (Some(raw), Some(kind)) = (socket.raw(), kind) else { return true };
    let (word, bit) = (usize::from(kind >> 5), kind & 31);
    // ICMP_FILTER knows the first 32 types only.
    let word = if word > 0 && !socket.is_v6() { return false } else { word };
    raw.filter.get(word).is_some_and(|bits| bits >> bit & 1 == 1)
}

fn enqueue(sockets: &mut Registry, s: SocketId, mut frame: Frame, own: IpAddr, head: &[u8], cx: &mut Context<'_>) {
    let at = frame.meta().network_at;
    if frame.meta().dst.is_ipv4() && at != 0 {
        frame.rewind(at);
    }
    let port = head.first_chunk::<4>().map(|port| u16::from_be_bytes([port[2], port[3]]));
    receive_queue::enqueue(sockets, s, frame, own, port, cx);
}

fn want(family: Family, number: u16, wanted: bool, cx: &mut Context<'_>) {
    // Numbers above 255 (MPTCP's) are no IP protocols: such a socket never hears anything.
    let Ok(number) = u8::try_from(number) else { return };
    cx.tell(Table::Addresses(family), Change::WantRaw { protocol: Protocol(number), wanted });
}

/// rawv6_sendmsg: "port is the proto value [0..255] carried in nexthdr"; raw_sendmsg does not look at it.
fn protocol_of(family: Family, protocol: i32, port: u16) -> Result<i32, Errno> {
    let port = i32::from(port);
    match family {
        Family::V4 => Ok(protocol),
        Family::V6 if port == 0 => Ok(protocol),
        Family::V6 if port != protocol && protocol != IPPROTO_RAW || port > 255 => Err(Errno::EINVAL),
        Family::V6 => Ok(port),
    }
}

/// "if (!iph->saddr) iph->saddr = fl4->saddr; iph->check = 0; iph->tot_len = htons(length); if (!iph->id) ip_select_ident(net, skb, NULL);
/// iph->check = ip_fast_csum((unsigned char *)iph, iph->ihl);"
fn complete_header(packet: &mut [u8], header_bytes: usize, out: &Outgoing, cx: &mut Context<'_>) {
    let length = packet.len() as u16;
    let Some(header) = packet.get_mut(..header_bytes).filter(|header| header.len() >= HEADER_BYTES_V4) else { return };
    if header[12..16] == [0; 4]
        && let IpAddr::V4(source) = out.source()
    {
        header[12..16].copy_from_slice(&source.octets());
    }
    header[2..4].copy_from_slice(&length.to_be_bytes());
    if header[4..6] == [0; 2] {
        header[4..6].copy_from_slice(&(cx.rng.u32() as u16).max(1).to_be_bytes());
    }
    header[10..12].fill(0);
    let sum = Sum::new().add_bytes(header).finish();
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}

fn ipv6_checksum_holds(frame: &Frame) -> bool {
    // What the loopback calls valid was never looked at, and a raw socket may have written anything.
    if matches!(frame.meta().checksum, Checksum::Partial { .. }) {
        return true;
    }
    let (IpAddr::V6(from), IpAddr::V6(to)) = (frame.meta().src, frame.meta().dst) else { return true };
    let sum = pseudo_v6(from, to, frame.meta().protocol.0, frame.len() as u32);
    frame.chunks().fold(sum, Sum::add_bytes).fold() == 0xffff
}
