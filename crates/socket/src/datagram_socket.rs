//! Datagram sockets: `udp_sendmsg`, `udp_recvmsg`, connecting and dissolving.

use crate::abi::*;
use crate::address;
use crate::cmsg::{self, Ancillary, Sender};
use crate::errno::Errno;
use crate::face::{Received, Sockets, UDP};
use crate::socket::{Corked, SocketId, UNSPECIFIED};
use bytes::Bytes;
use std::net::{IpAddr, SocketAddr};
use weft_core::table::{AddressKind, Family, RouteAnswer};
use weft_core::{Completion, Context, Direction, Frame, InterfaceIndex, Tail};
use weft_wire::Protocol;

/// Largest payload: 65535 less the headers of IPv4 and UDP.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 65535 - 20 - 8;
/// Most segments of one UDP_SEGMENT send (UDP_MAX_SEGMENTS).
const SEGMENTS_MAX: usize = 128;

/// What a datagram of this many payload bytes counts against a buffer: the kernel's allocation (a power of two above 512, then pages) with
/// its headers and `struct skb_shared_info`, plus `struct sk_buff`.
pub(crate) fn truesize(payload_bytes: usize) -> usize {
    const HEADERS_AND_SHARED_INFO: usize = 16 + 20 + 8 + 320;
    const SK_BUFF: usize = 256;
    let data = payload_bytes + HEADERS_AND_SHARED_INFO;
    let data = if data <= 8192 { data.next_power_of_two().max(512) } else { data.div_ceil(4096) * 4096 };
    data + SK_BUFF
}

impl Sockets {
    /// `__ip4_datagram_connect` and `__udp_disconnect`.
    pub(crate) fn connect_datagram(&mut self, s: SocketId, family: i32, address: &[u8], cx: &mut Context<'_>) -> Result<(), Errno> {
        if family == address::AF_UNSPEC {
            return self.disconnect_datagram(s, cx);
        }
        self.autobind(s, cx)?;
        let to = address::for_connect(address)?;
        let own = self.get(s)?.local.ip();
        let to = Self::destination(to, own);
        let source = Some(own).filter(|ip| !ip.is_unspecified() && !ip.is_multicast());
        let route = self.route(s, to.ip(), source, cx)?;
        if self.address_kind(to.ip(), cx) == AddressKind::Broadcast && !self.get(s)?.options.broadcast {
            return Err(Errno::EACCES);
        }
        let socket = self.get_mut(s)?;
        if own.is_unspecified() {
            socket.local.set_ip(route.source);
        }
        socket.remote = Some(to);
        let (hold, address) = (socket.hold, socket.local.ip());
        if let Some(hold) = hold {
            self.udp_ports.update(hold, |held| held.address = address);
        }
        self.touch(s);
        Ok(())
    }

    /// "1003.1g - break association."
    fn disconnect_datagram(&mut self, s: SocketId, cx: &mut Context<'_>) -> Result<(), Errno> {
        let socket = self.get_mut(s)?;
        socket.remote = None;
        if !socket.address_locked {
            socket.local.set_ip(UNSPECIFIED.ip());
        }
        let (hold, address, locked) = (socket.hold, socket.local.ip(), socket.port_locked);
        if !locked {
            match self.get(s)?.body {
                // "sk->sk_prot->unhash(sk);": a raw socket that is dissolved hears nothing any more.
                crate::socket::Body::Raw(_) => self.unhash_raw(s, cx),
                _ => self.release_port(s),
            }
            self.get_mut(s)?.local.set_port(0);
        } else if let Some(hold) = hold {
            self.udp_ports.update(hold, |held| held.address = address);
        }
        self.touch(s);
        Ok(())
    }

    pub(crate) fn send_datagram(
        &mut self,
        s: SocketId,
        data: Bytes,
        flags: i32,
        to: Option<&[u8]>,
        control: &[u8],
        cx: &mut Context<'_>,
    ) -> Result<usize, Errno> {
        // inet_send_prepare
        self.autobind(s, cx)?;
        // udp_sendmsg: "if (len > 0xFFFF) return -EMSGSIZE; … if (msg->msg_flags & MSG_OOB) return -EOPNOTSUPP;"
        if data.len() > 0xffff {
            return Err(Errno::EMSGSIZE);
        }
        if flags & MSG_OOB != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        let socket = self.get(s)?;
        let corked = socket.datagram().and_then(|datagram| datagram.corked.as_ref().map(|corked| (corked.to, corked.source)));
        if let Some((to, source)) = corked {
            return self.send_routed(s, data, flags, to, source, Ancillary::default(), cx);
        }
        let to = match (to, socket.remote) {
            (Some(bytes), _) => address::for_send(bytes)?,
            (None, Some(remote)) => remote,
            (None, None) => return Err(Errno::EDESTADDRREQ),
        };
        let ancillary = cmsg::for_sending(control, Sender::Udp, Family::V4)?;
        let own = socket.local.ip();
        let mut source = ancillary.source.or(Some(own)).filter(|ip| !ip.is_unspecified() && !ip.is_multicast());
        let of_group = IpAddr::V4(socket.options.multicast_interface);
        if to.ip().is_multicast() && source.is_none() && !of_group.is_unspecified() {
            // "if (!saddr) saddr = READ_ONCE(inet->mc_addr);"
            source = Some(of_group);
        }
        let to = Self::destination(to, source.unwrap_or(UNSPECIFIED.ip()));
        self.send_routed(s, data, flags, to, source, ancillary, cx)
    }

    #[allow(clippy::too_many_arguments)] // the kernel's own list: what udp_sendmsg has worked out by now
    fn send_routed(
        &mut self,
        s: SocketId,
        data: Bytes,
        flags: i32,
        to: SocketAddr,
        source: Option<IpAddr>,
        ancillary: Ancillary,
        cx: &mut Context<'_>,
    ) -> Result<usize, Errno> {
        let route = self.route(s, to.ip(), source, cx)?;
        if self.address_kind(to.ip(), cx) == AddressKind::Broadcast && !self.get(s)?.options.broadcast {
            return Err(Errno::EACCES);
        }
        let socket = self.get_mut(s)?;
        let more = flags & MSG_MORE != 0 || socket.options.udp_cork;
        let (room, discover) = (socket.options.send_buffer as usize, i32::from(socket.options.mtu_discover));
        let Some(datagram) = socket.datagram_mut() else { return Err(Errno::EINVAL) };
        let already = datagram.corked.as_ref().map_or(0, |corked| corked.data.len());
        let total = already + data.len();
        // ip_append_data: "if (cork->length + length > maxnonfragsize - fragheaderlen) { ip_local_error(sk, EMSGSIZE, …); return -EMSGSIZE; }"
        let bound = match discover {
            IP_PMTUDISC_DO | IP_PMTUDISC_PROBE => (route.mtu as usize).saturating_sub(28).min(PAYLOAD_BYTES_MAX),
            _ => PAYLOAD_BYTES_MAX,
        };
        if total > bound {
            self.local_error(s, Errno::EMSGSIZE, to, route.mtu.min(0xffff), cx.now);
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
        if more || already > 0 {
            let corked = datagram.corked.get_or_insert_with(|| Corked { to, source, data: Vec::new() });
            corked.data.extend_from_slice(&data);
            if more {
                return Ok(sent);
            }
        }
        let data = datagram.corked.take().map_or(data, |corked| Bytes::from(corked.data));
        self.transmit(s, data, to, source, route, ancillary, cx)?;
        Ok(sent)
    }

    /// Pushes out what UDP_CORK held back.
    pub(crate) fn uncork(&mut self, s: SocketId, cx: &mut Context<'_>) -> Result<(), Errno> {
        let Some(corked) = self.get_mut(s)?.datagram_mut().and_then(|datagram| datagram.corked.take()) else { return Ok(()) };
        let route = self.route(s, corked.to.ip(), corked.source, cx)?;
        self.transmit(s, Bytes::from(corked.data), corked.to, corked.source, route, Ancillary::default(), cx)
    }

    #[allow(clippy::too_many_arguments)] // as above
    fn transmit(
        &mut self,
        s: SocketId,
        data: Bytes,
        to: SocketAddr,
        source: Option<IpAddr>,
        route: RouteAnswer,
        ancillary: Ancillary,
        cx: &mut Context<'_>,
    ) -> Result<(), Errno> {
        let segment = usize::from(ancillary.segment_bytes.unwrap_or(self.get(s)?.options.udp_segment));
        if segment == 0 || data.len() <= segment {
            self.emit_datagram(s, data, to, source, route, ancillary, cx);
            return Ok(());
        }
        // udp_send_skb: a segment must fit the path, and there may be UDP_MAX_SEGMENTS of them; both EINVAL.
        if segment + 28 > route.mtu as usize || data.len() > segment * SEGMENTS_MAX {
            return Err(Errno::EINVAL);
        }
        let mut rest = data;
        while !rest.is_empty() {
            let piece = rest.split_to(rest.len().min(segment));
            self.emit_datagram(s, piece, to, source, route, ancillary, cx);
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments)] // as above
    fn emit_datagram(
        &mut self,
        s: SocketId,
        data: Bytes,
        to: SocketAddr,
        source: Option<IpAddr>,
        route: RouteAnswer,
        ancillary: Ancillary,
        cx: &mut Context<'_>,
    ) {
        let Some(socket) = self.store.get_mut(s) else { return };
        let (options, port) = (&socket.options, socket.number);
        let bytes = truesize(data.len());
        let mut frame = Frame::egress();
        let meta = frame.meta_mut();
        meta.direction = Direction::Egress;
        meta.src = source.unwrap_or(route.source);
        meta.dst = to.ip();
        (meta.src_port, meta.dst_port) = (port, to.port());
        meta.protocol = Protocol::UDP;
        meta.ttl = ancillary.ttl.unwrap_or(if to.ip().is_multicast() { options.multicast_ttl } else { options.ttl });
        meta.tos = ancillary.tos.unwrap_or(options.tos);
        meta.mark = ancillary.mark.unwrap_or(options.mark);
        let multicast = if to.ip().is_multicast() { options.multicast_index } else { 0 };
        let bound = if options.interface != 0 { options.interface } else { multicast };
        let interface = ancillary.interface.unwrap_or(bound);
        meta.interface = InterfaceIndex(interface);
        // ip_dont_fragment: DO and PROBE always, WANT as long as the datagram fits the path.
        meta.dont_fragment = match i32::from(options.mtu_discover) {
            IP_PMTUDISC_DO | IP_PMTUDISC_PROBE => true,
            IP_PMTUDISC_WANT => data.len() + 28 <= route.mtu as usize,
            _ => false,
        };
        meta.completion = Some(Completion { block: cx.me(), token: s.number(), bytes: bytes as u32 });
        frame.append(data);
        if let Some(datagram) = socket.datagram_mut() {
            datagram.sending += bytes;
        }
        self.count(crate::block::DATAGRAMS_OUT);
        cx.emit(UDP, frame);
    }

    /// A datagram has left (or was dropped): there is room again.
    pub(crate) fn datagram_left(&mut self, token: u64, bytes: u32) {
        let s = SocketId { slot: token as u32, generation: (token >> 32) as u32 };
        let Some(socket) = self.store.get_mut(s) else { return };
        let room = socket.options.send_buffer as usize;
        let Some(datagram) = socket.datagram_mut() else { return };
        let was_writable = datagram.sending < room / 2;
        datagram.sending = datagram.sending.saturating_sub(bytes as usize);
        if !was_writable && datagram.sending < room / 2 {
            self.touch(s);
        }
    }

    pub(crate) fn receive_datagram(&mut self, s: SocketId, length: usize, flags: i32) -> Result<Received, Errno> {
        if flags & MSG_ERRQUEUE != 0 {
            return self.receive_error(s, length);
        }
        let boot_time = self.limits.boot_time_nanos;
        let socket = self.get_mut(s)?;
        // __skb_recv_udp: "error = sock_error(sk); if (error) break; error = -EAGAIN; …"
        if let Some(error) = socket.take_error() {
            return Err(error);
        }
        let peek = flags & MSG_PEEK != 0;
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
        let dropped = datagram.dropped;
        let dropped = if matches!(socket.body, crate::socket::Body::Ping(_)) { 0 } else { dropped };
        offset = offset.min(waiting.bytes);
        let available = waiting.bytes - offset;
        let copied = length.min(available);
        let out = Received {
            data: cut(&waiting.data, offset, copied),
            from: address::to_bytes(waiting.from),
            flags: if length < available { MSG_TRUNC } else { 0 },
            control: cmsg::of_received(socket, &waiting, boot_time, dropped),
            datagram_bytes: available,
        };
        move_peek_offset(socket, peek, copied, waiting.bytes);
        if !peek {
            self.touch(s);
        }
        Ok(out)
    }

    pub(crate) fn close_datagram(&mut self, s: SocketId) {
        self.remove(s);
    }
}

/// SO_PEEK_OFF: which datagram a peek looks at, and from which byte.
fn peek_position(socket: &crate::socket::Socket, peek: bool) -> (usize, usize) {
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

fn move_peek_offset(socket: &mut crate::socket::Socket, peek: bool, copied: usize, whole: usize) {
    let offset = socket.options.peek_offset;
    if offset < 0 {
        return;
    }
    let step = |bytes: usize| i32::try_from(bytes).unwrap_or(i32::MAX);
    socket.options.peek_offset = if peek { offset.saturating_add(step(copied)) } else { offset.saturating_sub(step(whole)).max(0) };
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
