//! What sockets send whose messages have boundaries: the options and extension headers of a packet, its length, and for raw and ICMP sockets
//! the way up to the IP block (what `ip_append_data` and `ip_push_pending_frames` do for both).

use crate::abi::*;
use crate::cmsg::Ancillary;
use crate::counters;
use crate::errno::Errno;
use crate::error_queue;
use crate::memory::truesize;
use crate::poll::Poll;
use crate::registry::Registry;
use crate::routes;
use crate::socket::{Body, Socket, SocketId};
use bytes::Bytes;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use weft_core::attached::Part;
use weft_core::scope::needs_scope;
use weft_core::table::{AddressKind, Family, RouteAnswer, RouteKind, Traffic};
use weft_core::{Answer, Attached, Change, Completion, Context, Direction, Frame, InterfaceIndex, OutPort, Query, Table};
use weft_wire::Protocol;
use weft_wire::ipv4::Prepared;

/// Largest IPv4 packet, bytes (IP_MAX_MTU).
pub(crate) const PACKET_BYTES_MAX: usize = 65_535;
/// IPv4 header without options, bytes.
pub(crate) const HEADER_BYTES_V4: usize = 20;
/// IPv6 header, bytes.
pub(crate) const HEADER_BYTES_V6: usize = 40;

/// Where a payload goes, and what its socket and control messages ask for.
#[derive(Debug, Clone)]
pub(crate) struct Outgoing {
    pub to: IpAddr,
    /// None: the route's.
    pub source: Option<IpAddr>,
    pub route: RouteAnswer,
    pub ancillary: Ancillary,
    pub protocol: Protocol,
}

impl Outgoing {
    pub(crate) fn source(&self) -> IpAddr {
        self.source.unwrap_or(self.route.source)
    }
}

/// The way of a datagram: control messages come before SO_BINDTODEVICE, that before IP_MULTICAST_IF. EACCES for a broadcast without
/// SO_BROADCAST.
pub(crate) fn outgoing(
    sockets: &mut Registry,
    s: SocketId,
    to: IpAddr,
    ancillary: Ancillary,
    protocol: Protocol,
    cx: &Context<'_>,
) -> Result<Outgoing, Errno> {
    let socket = sockets.get(s)?;
    let own = socket.local.ip();
    // ipcm_init_sk: "ipcm->addr = inet->inet_saddr", which a PKTINFO message replaces, by nothing too.
    let given = ancillary.source.unwrap_or(own);
    let mut source = routes::source_for(given, to)?.filter(|address| !address.is_unspecified());
    let of_group = IpAddr::V4(socket.options.multicast_interface);
    if source.is_none() && to.is_ipv4() && to.is_multicast() && !of_group.is_unspecified() {
        // "if (!saddr) saddr = READ_ONCE(inet->mc_addr);"
        source = Some(of_group);
    }
    // A socket that is bound to a broadcast address has no source of its own (raw_bind: "inet->inet_saddr = 0;  /* Use device */").
    if let Some(address) = source
        && sockets.kinds.of(address, cx) == AddressKind::Broadcast
    {
        source = None;
    }
    let to = match to {
        // ":: means loopback (BSD'ism)"
        IpAddr::V6(to) if to.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        to => routes::destination(SocketAddr::new(to, 0), source.unwrap_or(own)).ip(),
    };
    let socket = sockets.get(s)?;
    // rawv6_sendmsg looks at IPV6_PKTINFO's interface nowhere.
    let interface = ancillary.interface.unwrap_or(if socket.raw().is_some() { socket.way_out_of_raw(to) } else { socket.way_out(to) });
    let traffic = Traffic { protocol: protocol.0, ..routes::traffic_of(sockets.get(s)?, 0, ancillary.mark) };
    let route = routes::through(first_hop(sockets.get(s)?, &ancillary, to), source, interface, traffic, cx)?;
    if sockets.kinds.of(to, cx) == AddressKind::Broadcast && !sockets.get(s)?.options.broadcast {
        return Err(Errno::EACCES);
    }
    let ancillary = Ancillary { interface: Some(interface).filter(|index| *index != 0), ..ancillary };
    Ok(Outgoing { to, source, route, ancillary, protocol })
}

/// The interface that a destination names: "if (… sin6->sin6_scope_id && __ipv6_addr_needs_scope_id(…)) fl6->flowi6_oif = sin6->sin6_scope_id;"
pub(crate) fn scope_of(to: SocketAddr) -> u32 {
    match to {
        SocketAddr::V6(v6) if needs_scope(v6.ip()) => v6.scope_id(),
        _ => 0,
    }
}

/// `ip6_datagram_send_ctl`, of IPV6_PKTINFO. `way`: the interface that is settled before the message is looked at, 0: none.
pub(crate) fn check_packet_info(
    sockets: &mut Registry,
    s: SocketId,
    ancillary: &Ancillary,
    way: u32,
    cx: &mut Context<'_>,
) -> Result<(), Errno> {
    if !ancillary.packet_info {
        return Ok(());
    }
    let asked = ancillary.interface.unwrap_or(0);
    let source = if let Some(IpAddr::V6(source)) = ancillary.source { source } else { Ipv6Addr::UNSPECIFIED };
    // "if (src_idx) { if (fl6->flowi6_oif && src_idx != fl6->flowi6_oif && …) return -EINVAL; fl6->flowi6_oif = src_idx; }"
    if asked != 0 && way != 0 && asked != way {
        return Err(Errno::EINVAL);
    }
    // "if (fl6->flowi6_oif) { dev = …; if (!dev) return -ENODEV; } else if (addr_type & IPV6_ADDR_LINKLOCAL) return -EINVAL;"
    let interface = if asked == 0 { way } else { asked };
    if interface == 0 && needs_scope(&source) {
        return Err(Errno::EINVAL);
    }
    if interface != 0 && matches!(cx.ask(Table::Interfaces, &Query::Interface(InterfaceIndex(interface))), Answer::None) {
        return Err(Errno::ENODEV);
    }
    // "int strict = __ipv6_addr_src_scope(addr_type) <= IPV6_ADDR_SCOPE_LINKLOCAL; if (!ipv6_can_nonlocal_bind(…) && !ipv6_chk_addr_and_flags(net,
    // &src_info->ipi6_addr, dev, !strict, …)) err = -EINVAL;"
    let anywhere = source.is_unspecified() || sockets.get(s)?.options.binds_anywhere();
    if anywhere || sockets.kinds.is_own(source, interface, cx) { Ok(()) } else { Err(Errno::EINVAL) }
}

/// The options of a packet to this address: a control message's before the socket's.
pub(crate) fn ip_options(socket: &Socket, ancillary: &Ancillary, to: IpAddr) -> Option<Prepared> {
    ancillary.ip_options.or(socket.options.ip_options).filter(|options| to.is_ipv4() && !options.is_empty())
}

/// The extension headers of a packet to this address, likewise. ping_v6_sendmsg looks at those of messages alone.
pub(crate) fn attached<'a>(socket: &'a Socket, ancillary: &'a Ancillary, to: IpAddr) -> Option<&'a Attached> {
    let of_socket = || socket.options.attached.as_deref().filter(|_| !matches!(socket.body, Body::Ping(_)));
    ancillary.attached.as_deref().or_else(of_socket).filter(|attached| to.is_ipv6() && !attached.is_empty())
}

/// Bytes that both add to a packet's headers.
pub(crate) fn header_extras(socket: &Socket, ancillary: &Ancillary, to: IpAddr) -> usize {
    let options = ip_options(socket, ancillary, to).map_or(0, |options| options.len());
    options + attached(socket, ancillary, to).map_or(0, Attached::len)
}

/// The same as lengths are checked: __ip6_append_data has "exthdrlen = opt ? opt->opt_flen : 0; length += exthdrlen;" beside a headersize that
/// counts these bytes already.
pub(crate) fn counted_extras(socket: &Socket, ancillary: &Ancillary, to: IpAddr) -> usize {
    let again = attached(socket, ancillary, to).map_or(0, |attached| attached.get(Part::Destination).len());
    header_extras(socket, ancillary, to) + again
}

/// Where it is sent: "if (ipc.opt && ipc.opt->opt.srr) { if (!daddr) … faddr = ipc.opt->opt.faddr; connected = 0; }".
pub(crate) fn first_hop(socket: &Socket, ancillary: &Ancillary, to: IpAddr) -> IpAddr {
    match attached(socket, ancillary, to).and_then(Attached::first_hop) {
        Some(hop) => hop.into(),
        None => ip_options(socket, ancillary, to).and_then(|options| options.first_hop()).map_or(to, IpAddr::V4),
    }
}

/// What a socket takes for the path's MTU. ip_sk_use_pmtu: "inet->pmtudisc < IP_PMTUDISC_PROBE", else the device's; and IPV6_MTU. ipv4_mtu: "mtu =
/// min(mtu, IP_MAX_MTU)".
pub(crate) fn path_mtu(socket: &Socket, to: SocketAddr, route: &RouteAnswer, cx: &Context<'_>) -> usize {
    let options = &socket.options;
    let discover = if to.is_ipv6() { options.mtu_discover6 } else { options.mtu_discover };
    let of_device = || match cx.ask(Table::Interfaces, &Query::Interface(route.interface)) {
        Answer::Interface(interface) => interface.mtu,
        _ => route.mtu,
    };
    let of_path = if to.is_ipv6() { route.mtu } else { route.mtu.min(PACKET_BYTES_MAX as u32) };
    let mtu = if i32::from(discover) >= IP_PMTUDISC_PROBE { of_device() } else { of_path };
    // ip6_setup_cork: "frag_size = READ_ONCE(np->frag_size); if (frag_size && frag_size < mtu) mtu = frag_size;"
    let bound = if to.is_ipv6() && options.fragment_bytes != 0 { options.fragment_bytes } else { u32::MAX };
    mtu.min(bound) as usize
}

/// What is told of this MTU to who sends more. __ip_append_data: "mtu - (opt ? opt->optlen : 0)"; __ip6_append_data: "pmtu = max_t(int, mtu -
/// headersize + sizeof(struct ipv6hdr), sizeof(struct ipv6hdr));".
pub(crate) fn told_mtu(socket: &Socket, ancillary: &Ancillary, to: IpAddr, mtu: usize) -> u32 {
    let left = mtu.saturating_sub(header_extras(socket, ancillary, to));
    if to.is_ipv6() { left.max(HEADER_BYTES_V6) as u32 } else { left as u32 }
}

/// Does IPV6_DONTFRAG keep this from being cut? "ipc6->dontfrag && (sk->sk_protocol == IPPROTO_UDP || sk->sk_protocol == IPPROTO_ICMPV6 ||
/// sk->sk_protocol == IPPROTO_RAW)".
pub(crate) fn may_not_be_cut(socket: &Socket, ancillary: &Ancillary, to: IpAddr) -> bool {
    let asked = ancillary.dont_fragment.unwrap_or(socket.options.dont_fragment);
    asked && to.is_ipv6() && (socket.raw().is_none() || matches!(socket.protocol, IPPROTO_UDP | IPPROTO_ICMPV6 | IPPROTO_RAW))
}

/// MSG_CONFIRM: the program heard from the peer (`dst_confirm_neigh`; RFC 4861 §7.3.1).
pub(crate) fn confirm(flags: i32, route: &RouteAnswer, cx: &mut Context<'_>) {
    if flags & MSG_CONFIRM != 0 && route.kind == RouteKind::Unicast {
        let change = Change::Confirm { interface: route.interface, neighbour: route.next_hop };
        cx.tell(Table::Neighbours(Family::of(route.next_hop)), change);
    }
}

/// `sock_alloc_send_pskb`: "err = sock_error(sk); … err = -EPIPE; if (sk->sk_shutdown & SEND_SHUTDOWN) … if (sk_wmem_alloc_get(sk) <
/// READ_ONCE(sk->sk_sndbuf)) break;"
pub(crate) fn admit(sockets: &mut Registry, s: SocketId) -> Result<(), Errno> {
    let socket = sockets.get_mut(s)?;
    if let Some(error) = socket.take_error() {
        sockets.touch(s, Poll::NONE);
        return Err(error);
    }
    if socket.shutdown.send {
        return Err(Errno::EPIPE);
    }
    let room = socket.options.send_buffer as usize;
    if socket.datagram().is_some_and(|datagram| datagram.sending >= room) { Err(Errno::EAGAIN) } else { Ok(()) }
}

/// Most payload bytes of one packet: the MTU where it may not be fragmented, else what the length field can say. EMSGSIZE beyond, which
/// the error queue tells too.
pub(crate) fn check_length(sockets: &mut Registry, s: SocketId, bytes: usize, out: &Outgoing, cx: &Context<'_>) -> Result<(), Errno> {
    let v6 = out.to.is_ipv6();
    let socket = sockets.get(s)?;
    let options = &socket.options;
    let extras = counted_extras(socket, &out.ancillary, out.to);
    let header = extras + if v6 { HEADER_BYTES_V6 } else { HEADER_BYTES_V4 };
    let whole = match i32::from(options.discover(v6)) {
        IP_PMTUDISC_DO | IP_PMTUDISC_PROBE | IP_PMTUDISC_INTERFACE => true,
        _ => may_not_be_cut(socket, &out.ancillary, out.to),
    };
    let to = SocketAddr::new(out.to, 0);
    let mtu = path_mtu(socket, to, &out.route, cx);
    let most = PACKET_BYTES_MAX - if v6 { extras } else { header };
    if bytes <= if whole { mtu.saturating_sub(header).min(most) } else { most } {
        return Ok(());
    }
    let told = told_mtu(socket, &out.ancillary, out.to, mtu);
    if may_not_be_cut(socket, &out.ancillary, out.to) {
        error_queue::path_mtu(sockets, s, to, told);
    }
    error_queue::local(sockets, s, Errno::EMSGSIZE, to, told, cx.now);
    Err(Errno::EMSGSIZE)
}

/// Gives a frame its metadata and sends it down. The frame begins with the transport header (or, for `packet`, with the IP header).
pub(crate) fn emit(sockets: &mut Registry, s: SocketId, mut frame: Frame, out: &Outgoing, port: OutPort, cx: &mut Context<'_>) {
    let Some(socket) = sockets.store.get_mut(s) else { return };
    let extras = header_extras(socket, &out.ancillary, out.to);
    let ip_options = ip_options(socket, &out.ancillary, out.to);
    let attached = attached(socket, &out.ancillary, out.to).cloned().map(Box::new);
    let uncut = may_not_be_cut(socket, &out.ancillary, out.to);
    let options = &socket.options;
    let timed = options.timestamping | out.ancillary.timestamping.unwrap_or(0) != 0;
    let bytes = truesize(frame.len());
    let v6 = out.to.is_ipv6();
    let header = extras + if v6 { HEADER_BYTES_V6 } else { HEADER_BYTES_V4 };
    let fits = frame.len() + header <= out.route.mtu as usize;
    let at = frame.position();
    let meta = frame.meta_mut();
    meta.direction = Direction::Egress;
    (meta.src, meta.dst, meta.protocol) = (out.source(), out.to, out.protocol);
    meta.ttl = out.ancillary.ttl.unwrap_or_else(|| options.hop_limit(out.to));
    meta.tos = out.ancillary.tos.unwrap_or_else(|| options.traffic_class_of(v6));
    meta.mark = out.ancillary.mark.unwrap_or(options.mark);
    meta.interface = InterfaceIndex(out.ancillary.interface.unwrap_or(0));
    meta.dont_fragment = match i32::from(options.discover(v6)) {
        IP_PMTUDISC_DO | IP_PMTUDISC_PROBE => true,
        IP_PMTUDISC_WANT => fits && !v6,
        _ => false,
    };
    if uncut {
        meta.dont_fragment = true;
    }
    (meta.ip_options, meta.attached) = (ip_options.map(Box::new), attached);
    meta.no_loop = out.to.is_multicast() && !options.multicast_loops(v6);
    meta.transport_at = at;
    meta.completion = Some(Completion { block: cx.me(), token: s.number(), bytes: bytes as u32 });
    if let Some(datagram) = socket.datagram_mut() {
        datagram.sending += bytes;
    }
    sockets.count(counters::RAW_OUT_PACKETS);
    if timed {
        let data = Bytes::from(frame.to_vec());
        error_queue::record_transmit(sockets, s, &out.ancillary, &data, cx.now);
    }
    cx.emit(port, frame);
}

/// A datagram has left (or was dropped): there is room again.
pub(crate) fn left(sockets: &mut Registry, token: u64, bytes: u32) {
    let s = SocketId::from_number(token);
    let Some(socket) = sockets.store.get_mut(s) else { return };
    let room = socket.options.send_buffer as usize;
    let Some(datagram) = socket.datagram_mut() else { return };
    let was_writable = datagram.sending < room / 2;
    datagram.sending = datagram.sending.saturating_sub(bytes as usize);
    // sock_wfree: "sk->sk_write_space(sk);", which wakes whenever sock_writeable() says yes. Only those notice it who wait for edges.
    if datagram.sending < room / 2 && (!was_writable || datagram.tells_room) {
        sockets.touch(s, Poll::WAKES_WRITERS);
    }
}
