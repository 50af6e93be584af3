//! ICMP datagram sockets: `net/ipv4/ping.c`, which serves both families.
//!
//! The port is the identifier of echo messages: bound by the program, or given out one after the other. Only echo requests can be sent; the
//! kernel fills in identifier and checksum, and gives the socket the replies with its identifier.

use crate::abi::*;
use crate::address::scoped;
use crate::cmsg::{self, Sender};
use crate::counters;
use crate::errno::Errno;
use crate::inet6;
use crate::outgoing;
use crate::outputs::{IP4, IP6};
use crate::poll::Poll;
use crate::raw_address;
use crate::receive_queue;
use crate::received::Received;
use crate::registry::Registry;
use crate::sending::Sending;
use crate::socket::SocketId;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use weft_core::scope::needs_scope;
use weft_core::table::{AddressKind, Family};
use weft_core::{Answer, Context, Frame, InterfaceIndex, Query, Reason, Rng, Table};
use weft_wire::Protocol;
use weft_wire::checksum::{Sum, pseudo_v6};

/// Bytes of an echo message before its data.
const HEADER_BYTES: usize = 8;

/// Types of messages, by family: echo request, echo reply, and RFC 8335's extended pair.
struct Types {
    echo: u8,
    reply: u8,
    extended_echo: u8,
    extended_reply: u8,
}

const TYPES_V4: Types = Types { echo: 8, reply: 0, extended_echo: 42, extended_reply: 43 };
const TYPES_V6: Types = Types { echo: 128, reply: 129, extended_echo: 160, extended_reply: 161 };

fn types(family: Family) -> &'static Types {
    match family {
        Family::V4 => &TYPES_V4,
        Family::V6 => &TYPES_V6,
    }
}

/// `ping_supported`.
pub(crate) fn supported(family: Family, kind: u8, code: u8) -> bool {
    let types = types(family);
    code == 0 && (kind == types.echo || kind == types.extended_echo)
}

/// ICMP datagram sockets by the identifiers of their messages.
#[derive(Debug)]
pub(crate) struct Pings {
    /// By family and identifier, oldest first.
    pub by_ident: BTreeMap<(Family, u16), Vec<SocketId>>,
    /// The identifier that was given out last.
    pub rover: u16,
}

impl Pings {
    pub(crate) fn new(rng: &mut Rng) -> Pings {
        Pings { by_ident: BTreeMap::new(), rover: rng.u32() as u16 }
    }

    /// `ping_bind`: EINVAL, EAFNOSUPPORT, EADDRNOTAVAIL, then EINVAL when bound already, then EADDRINUSE.
    pub(crate) fn bind(&mut self, sockets: &mut Registry, s: SocketId, address: &[u8], cx: &mut Context<'_>) -> Result<(), Errno> {
        let socket = sockets.get(s)?;
        let (family, freebind, bound) = (socket.family(), socket.options.binds_anywhere(), socket.number != 0);
        let wanted = raw_address::for_ping_bind(family, address)?;
        if let SocketAddr::V6(v6) = wanted {
            // "if ((addr_type != IPV6_ADDR_ANY && !(addr_type & IPV6_ADDR_UNICAST)) || (scoped && !addr->sin6_scope_id)) return -EINVAL;"
            if v6.ip().is_multicast() || v6.ip().to_ipv4_mapped().is_some() || needs_scope(v6.ip()) && v6.scope_id() == 0 {
                return Err(Errno::EINVAL);
            }
            // "if (addr->sin6_scope_id) { dev = dev_get_by_index_rcu(net, addr->sin6_scope_id); if (!dev) return -ENODEV; }"
            let scope = InterfaceIndex(v6.scope_id());
            if scope.0 != 0 && matches!(cx.ask(Table::Interfaces, &Query::Interface(scope)), Answer::None) {
                return Err(Errno::ENODEV);
            }
            inet6::take_scope_of(sockets.get_mut(s)?, v6, cx)?;
        }
        let here = match wanted {
            SocketAddr::V4(_) => matches!(sockets.kinds.of(wanted.ip(), cx), AddressKind::Local(_)),
            // "if (!dev && sk->sk_bound_dev_if) { dev = dev_get_by_index_rcu(net, sk->sk_bound_dev_if); …"
            SocketAddr::V6(v6) => {
                let bound = sockets.get(s)?.options.interface;
                sockets.kinds.is_own(*v6.ip(), if v6.scope_id() == 0 { bound } else { v6.scope_id() }, cx)
            }
        };
        // ping_check_bind_addr: "if (addr->sin_addr.s_addr == htonl(INADDR_ANY)) return 0; … RTN_MULTICAST || … RTN_BROADCAST": never.
        if !here && !wanted.ip().is_unspecified() && (!freebind || wanted.ip().is_multicast()) {
            return Err(Errno::EADDRNOTAVAIL);
        }
        if bound {
            return Err(Errno::EINVAL);
        }
        self.take(sockets, s, wanted.port()).map_err(|_| Errno::EADDRINUSE)?;
        let socket = sockets.get_mut(s)?;
        socket.local = scoped(wanted.ip(), socket.number, socket.options.interface);
        socket.address_locked = !wanted.ip().is_unspecified();
        socket.port_locked = wanted.port() != 0;
        socket.remote = None;
        sockets.touch(s, Poll::NONE);
        Ok(())
    }

    /// `inet_autobind`: an identifier for a socket that sends or connects without one. EAGAIN when there is none.
    pub(crate) fn autobind(&mut self, sockets: &mut Registry, s: SocketId) -> Result<(), Errno> {
        if sockets.get(s)?.number != 0 {
            return Ok(());
        }
        self.take(sockets, s, 0).map_err(|_| Errno::EAGAIN)?;
        let socket = sockets.get_mut(s)?;
        socket.local.set_port(socket.number);
        Ok(())
    }

    /// `ping_get_port`: this identifier, or for 0 the next one that nobody has. SO_REUSEADDR on both sides shares one.
    fn take(&mut self, sockets: &mut Registry, s: SocketId, wanted: u16) -> Result<(), Errno> {
        let socket = sockets.get(s)?;
        let (family, reuse) = (socket.family(), socket.options.reuse_address);
        let ident = if wanted == 0 {
            let start = self.rover;
            let free = |ident: &u16| {
                *ident != 0 && !self.by_ident.contains_key(&(Family::V4, *ident)) && !self.by_ident.contains_key(&(Family::V6, *ident))
            };
            let found = (1..=u16::MAX).map(|step| start.wrapping_add(step)).find(free).ok_or(Errno::EADDRINUSE)?;
            self.rover = found;
            found
        } else {
            // The table is one for both families.
            let mut others = [Family::V4, Family::V6].into_iter().filter_map(|family| self.by_ident.get(&(family, wanted))).flatten();
            let taken = others.any(|other| !reuse || !sockets.store.get(*other).is_some_and(|other| other.options.reuse_address));
            if taken {
                return Err(Errno::EADDRINUSE);
            }
            wanted
        };
        self.by_ident.entry((family, ident)).or_default().push(s);
        sockets.get_mut(s)?.number = ident;
        Ok(())
    }

    /// `ping_unhash`: gives the identifier up.
    pub(crate) fn release(&mut self, sockets: &mut Registry, s: SocketId) {
        let Some(socket) = sockets.store.get_mut(s) else { return };
        let key = (socket.family(), std::mem::take(&mut socket.number));
        let Some(all) = self.by_ident.get_mut(&key) else { return };
        all.retain(|other| *other != s);
        if all.is_empty() {
            self.by_ident.remove(&key);
        }
    }

    /// `ping_v4_sendmsg`, `ping_v6_sendmsg`.
    pub(crate) fn send(&mut self, sockets: &mut Registry, s: SocketId, sending: Sending<'_>, cx: &mut Context<'_>) -> Result<usize, Errno> {
        let Sending { data, flags, to, control } = sending;
        // inet_send_prepare
        self.autobind(sockets, s)?;
        let socket = sockets.get(s)?;
        let (family, remote) = (socket.family(), socket.remote);
        // ping_common_sendmsg
        if data.len() > 0xffff {
            return Err(Errno::EMSGSIZE);
        }
        let &[kind, code, _, _, _, _, sequence_high, sequence_low, ..] = data.as_ref() else { return Err(Errno::EINVAL) };
        if flags & MSG_OOB != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        // "if (memcpy_from_msg(user_icmph, msg, icmph_len)) return -EFAULT;"
        if flags & MSG_UNREADABLE != 0 {
            return Err(Errno::EFAULT);
        }
        if !supported(family, kind, code) {
            return Err(Errno::EINVAL);
        }
        let to = match (to, remote) {
            (Some(bytes), _) => raw_address::for_ping_send(family, bytes)?,
            (None, Some(remote)) => remote,
            (None, None) => return Err(Errno::EDESTADDRREQ),
        };
        let mut ancillary = cmsg::for_sending(control, Sender::Ping, sockets.get(s)?, family)?;
        let scope = outgoing::scope_of(to);
        if family == Family::V6 {
            // "if (!oif && ipv6_addr_is_multicast(daddr)) oif = READ_ONCE(np->mcast_oif); else if (!oif) oif = READ_ONCE(np->ucast_oif);"
            let socket = sockets.get(s)?;
            let (way, bound) = (if scope == 0 { socket.way_out(to.ip()) } else { scope }, socket.options.interface);
            // "if ((__ipv6_addr_needs_scope_id(addr_type) && !oif) || (addr_type & IPV6_ADDR_MAPPED) || (oif && READ_ONCE(sk->sk_bound_dev_if) &&
            // oif != READ_ONCE(sk->sk_bound_dev_if) && …)) return -EINVAL;"
            let unscoped = way == 0 && matches!(to, SocketAddr::V6(v6) if needs_scope(v6.ip()));
            let mapped = matches!(to, SocketAddr::V6(v6) if v6.ip().to_ipv4_mapped().is_some());
            if unscoped || mapped || way != 0 && bound != 0 && way != bound {
                return Err(Errno::EINVAL);
            }
            outgoing::check_packet_info(sockets, s, &ancillary, way, cx)?;
        }
        if ancillary.interface.is_none() && scope != 0 {
            ancillary.interface = Some(scope);
        }
        let protocol = if family == Family::V6 { Protocol(IPPROTO_ICMPV6 as u8) } else { Protocol::ICMP };
        let out = outgoing::outgoing(sockets, s, to.ip(), ancillary, protocol, cx)?;
        outgoing::confirm(flags, &out.route, cx);
        outgoing::check_length(sockets, s, data.len(), &out, cx)?;
        outgoing::admit(sockets, s)?;
        let ident = sockets.get(s)?.number.to_be_bytes();
        let mut header = [kind, code, 0, 0, ident[0], ident[1], sequence_high, sequence_low];
        let payload = data.slice(HEADER_BYTES..);
        let pseudo = match (out.source(), out.to) {
            (IpAddr::V6(from), IpAddr::V6(to)) => pseudo_v6(from, to, protocol.0, data.len() as u32),
            _ => Sum::new(),
        };
        let sum = pseudo.add_bytes(&header).add_bytes(&payload).finish();
        header[2..4].copy_from_slice(&sum.to_be_bytes());
        let mut frame = Frame::egress();
        frame.append(payload);
        frame.push(HEADER_BYTES).copy_from_slice(&header);
        outgoing::emit(sockets, s, frame, &out, if family == Family::V6 { IP6 } else { IP4 }, cx);
        Ok(data.len())
    }

    /// `ping_rcv`: an ICMP message came in whose checksum holds. Echo replies go to the socket with their identifier.
    pub(crate) fn input(&self, sockets: &mut Registry, mut frame: Frame, cx: &mut Context<'_>) {
        sockets.count(counters::ICMP_IN_MESSAGES);
        let meta = frame.meta();
        let (family, to, interface) = (Family::of(meta.dst), meta.dst, meta.interface.0);
        let head = frame.slices(0, HEADER_BYTES).concat();
        let &[kind, _, c0, c1, high, low, ..] = head.as_slice() else { return cx.drop(frame, Reason::Truncated) };
        let types = types(family);
        if kind != types.reply && kind != types.extended_reply {
            // Not for sockets of this kind: raw sockets get theirs from IP.
            return end(frame, cx);
        }
        let found = self.find(sockets, family, u16::from_be_bytes([high, low]), to, interface);
        let Some(s) = found else { return cx.drop(frame, Reason::NoPort) };
        if receive_queue::is_full(sockets, s) {
            return cx.drop(frame, Reason::SocketBufferFull);
        }
        if let Some(completion) = frame.take_completion() {
            cx.complete(completion);
        }
        // No ipv4_pktinfo_prepare: ipi_spec_dst stays empty.
        let own = if family == Family::V4 { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { to };
        receive_queue::enqueue(sockets, s, frame, own, Some(u16::from_be_bytes([c0, c1])), cx);
    }

    /// `ping_lookup`: by identifier, bound address and interface; the peer of a connected socket is not looked at. The newest wins.
    pub(crate) fn find(&self, sockets: &Registry, family: Family, ident: u16, own: IpAddr, interface: u32) -> Option<SocketId> {
        self.by_ident.get(&(family, ident))?.iter().rev().copied().find(|s| {
            let Some(socket) = sockets.store.get(*s) else { return false };
            let here = socket.local.ip().is_unspecified() || socket.local.ip() == own;
            here && (socket.options.interface == 0 || socket.options.interface == interface)
        })
    }
}

/// `ping_recvmsg`: as other datagrams, but MSG_TRUNC does not tell the whole length, and SO_RXQ_OVFL tells nothing.
pub(crate) fn receive(sockets: &mut Registry, s: SocketId, length: usize, flags: i32) -> Result<Received, Errno> {
    let mut received = receive_queue::receive(sockets, s, length, flags)?;
    received.datagram_bytes = received.len();
    Ok(received)
}

/// A frame that came to its end as it should.
pub(crate) fn end(mut frame: Frame, cx: &mut Context<'_>) {
    if let Some(completion) = frame.take_completion() {
        cx.complete(completion);
    }
}
