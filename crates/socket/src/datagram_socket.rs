//! Datagram sockets: `udp_sendmsg`, `udp_recvmsg`, connecting and dissolving.

use crate::abi::*;
use crate::address;
use crate::cmsg::{self, Ancillary, Sender};
use crate::errno::Errno;
use crate::error_queue;
use crate::face::Sockets;
use crate::inet6;
use crate::memory::truesize;
use crate::outgoing;
use crate::outputs::UDP;
use crate::routes;
use crate::socket::{Corked, SocketId};
use bytes::Bytes;
use std::net::{IpAddr, SocketAddr};
use weft_core::table::{AddressKind, Family, RouteAnswer};
use weft_core::{Completion, Context, Direction, Frame, Gso, GsoKind, InterfaceIndex};
use weft_wire::Protocol;

/// Largest payload: 65535 less the headers of IPv4 and UDP.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 65535 - 20 - 8;
/// The same over IPv6, whose length field does not count the IP header.
const PAYLOAD_BYTES_MAX_V6: usize = 65535 - 8;
/// Most segments of one UDP_SEGMENT send (UDP_MAX_SEGMENTS).
pub(crate) const SEGMENTS_MAX: usize = 128;

impl Sockets {
    /// `__ip4_datagram_connect` and `__udp_disconnect`.
    pub(crate) fn connect_datagram(&mut self, s: SocketId, family: i32, address: &[u8], cx: &mut Context<'_>) -> Result<(), Errno> {
        if family == address::AF_UNSPEC {
            return self.disconnect_datagram(s, cx);
        }
        self.autobind(s, cx)?;
        let to = if self.get(s)?.is_v6() {
            inet6::connect_v6(self.registry.get_mut(s)?, &mut self.messages.datagrams.ports, address, cx)?
        } else {
            address::for_connect(address)?
        };
        let own = self.get(s)?.local.ip();
        let to = routes::destination(to, own);
        let source = routes::source_for(own, to.ip())?;
        let route = routes::route(self.get(s)?, to, source, cx)?;
        if self.address_kind(to.ip(), cx) == AddressKind::Broadcast && !self.get(s)?.options.broadcast {
            return Err(Errno::EACCES);
        }
        let socket = self.get_mut(s)?;
        if own.is_unspecified() {
            // A route to an own address goes through `lo`, whatever link it is on.
            let link = if socket.options.interface == 0 { route.interface.0 } else { socket.options.interface };
            socket.local = address::scoped(route.source, socket.local.port(), link);
        }
        socket.remote = Some(to);
        let (hold, address) = (socket.hold, socket.local.ip());
        if let Some(hold) = hold {
            self.messages.datagrams.ports.update(hold, |held| held.address = address);
        }
        self.rehash(s, own, address);
        self.touch(s);
        Ok(())
    }

    /// `udp_lib_rehash`: a socket whose address changed is the newest of those that share it.
    fn rehash(&mut self, s: SocketId, before: IpAddr, now: IpAddr) {
        let number = self.registry.store.get(s).map_or(0, |socket| socket.number);
        if before != now
            && let Some(receivers) = self.messages.datagrams.receivers.get_mut(&number)
        {
            receivers.retain(|other| *other != s);
            receivers.push(s);
        }
    }

    /// "1003.1g - break association."
    fn disconnect_datagram(&mut self, s: SocketId, cx: &mut Context<'_>) -> Result<(), Errno> {
        let socket = self.get_mut(s)?;
        let before = socket.local.ip();
        socket.remote = None;
        // __udp_disconnect: "sk->sk_bound_dev_if = 0;"
        (socket.options.interface, socket.options.interface_name) = (0, String::new());
        if !socket.address_locked {
            socket.reset_address();
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
            self.messages.datagrams.ports.update(hold, |held| held.address = address);
            self.rehash(s, before, address);
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
        let socket = self.get(s)?;
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
        // udp_sendmsg: "if (len > 0xFFFF) return -EMSGSIZE; … if (msg->msg_flags & MSG_OOB) return -EOPNOTSUPP;" udpv6_sendmsg asks neither.
        if to.is_ipv4() && data.len() > 0xffff {
            return Err(Errno::EMSGSIZE);
        }
        if to.is_ipv4() && flags & MSG_OOB != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        if let Some((to, source)) = corked {
            return self.send_routed(s, data, flags, to, source, Ancillary::default(), cx);
        }
        let ancillary = cmsg::for_sending(control, Sender::Udp, socket, Family::of(to.ip()))?;
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
        let interface = self.outgoing_interface(s, to, &ancillary)?;
        let traffic = routes::traffic_of(self.get(s)?, to.port(), ancillary.mark);
        let route = routes::through(outgoing::first_hop(self.get(s)?, &ancillary, to.ip()), source, interface, traffic, cx)?;
        if self.address_kind(to.ip(), cx) == AddressKind::Broadcast && !self.get(s)?.options.broadcast {
            return Err(Errno::EACCES);
        }
        outgoing::confirm(flags, &route, cx);
        let bound = self.largest_payload(s, to, &route, &ancillary, cx)?;
        let socket = self.get_mut(s)?;
        let more = flags & MSG_MORE != 0 || socket.options.udp_cork;
        let room = socket.options.send_buffer as usize;
        let Some(datagram) = socket.datagram_mut() else { return Err(Errno::EINVAL) };
        let already = datagram.corked.as_ref().map_or(0, |corked| corked.data.len());
        let total = already + data.len();
        if total > bound {
            error_queue::local(&mut self.registry, s, Errno::EMSGSIZE, to, route.mtu.min(0xffff), cx.now);
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

    /// Through which interface a datagram leaves: what its control messages say, the scope of its destination, what the socket says.
    fn outgoing_interface(&self, s: SocketId, to: SocketAddr, ancillary: &Ancillary) -> Result<u32, Errno> {
        let scope = match to {
            SocketAddr::V6(v6) => v6.scope_id(),
            SocketAddr::V4(_) => 0,
        };
        let socket = self.get(s)?;
        Ok(match (ancillary.interface, scope) {
            (Some(interface), _) => interface,
            (None, 0) => socket.way_out(to.ip()),
            (None, scope) => scope,
        })
    }

    /// Most payload bytes of a datagram. ip_append_data: "maxnonfragsize = ip_sk_ignore_df(sk) ? IP_MAX_MTU : mtu;", and ip6_append_data.
    fn largest_payload(
        &self,
        s: SocketId,
        to: SocketAddr,
        route: &RouteAnswer,
        ancillary: &Ancillary,
        cx: &Context<'_>,
    ) -> Result<usize, Errno> {
        let socket = self.get(s)?;
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
        Ok(if whole && !segmented { mtu.saturating_sub(headers).min(most) } else { most })
    }

    /// Pushes out what UDP_CORK held back.
    pub(crate) fn uncork(&mut self, s: SocketId, cx: &mut Context<'_>) -> Result<(), Errno> {
        let Some(corked) = self.get_mut(s)?.datagram_mut().and_then(|datagram| datagram.corked.take()) else { return Ok(()) };
        let route = routes::route(self.get(s)?, corked.to, corked.source, cx)?;
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
        if segment != 0 {
            // udp_send_skb, udp_v6_send_skb: "if (hlen + min(datalen, cork->gso_size) > cork->fragsize) … -EMSGSIZE; if (datalen >
            // cork->gso_size * UDP_MAX_SEGMENTS) … -EINVAL; if (sk->sk_no_check_tx) … -EINVAL;"
            let socket = self.get(s)?;
            let headers = outgoing::header_extras(socket, &ancillary, to.ip()) + if to.is_ipv6() { 48 } else { 28 };
            if headers + segment.min(data.len()) > outgoing::path_mtu(socket, to, &route, cx) {
                return Err(Errno::EMSGSIZE);
            }
            let options = &socket.options;
            if data.len() > segment * SEGMENTS_MAX || (to.is_ipv4() && options.no_check) {
                return Err(Errno::EINVAL);
            }
        }
        self.emit_datagram(s, data, to, source, route, ancillary, segment, cx);
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
        segment: usize,
        cx: &mut Context<'_>,
    ) {
        let interface = self.outgoing_interface(s, to, &ancillary).unwrap_or(0);
        let Some(socket) = self.registry.store.get_mut(s) else { return };
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
        meta.protocol = Protocol::UDP;
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
        self.count(crate::counters::DATAGRAMS_OUT);
        if let Some(data) = timed {
            error_queue::record_transmit(&mut self.registry, s, ancillary.timestamping, &data, cx.now);
        }
        cx.emit(UDP, frame);
    }

    pub(crate) fn close_datagram(&mut self, s: SocketId) {
        self.remove(s);
    }
}
