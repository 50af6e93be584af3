//! What raw and ICMP sockets send, up to the IP block: what `ip_append_data` and `ip_push_pending_frames` do for both.

use crate::abi::*;
use crate::cmsg::Ancillary;
use crate::datagram_socket::truesize;
use crate::errno::Errno;
use crate::face::Sockets;
use crate::socket::SocketId;
use std::net::{IpAddr, SocketAddr};
use weft_core::table::{AddressKind, Family, RouteAnswer, RouteKind};
use weft_core::{Answer, Completion, Context, Direction, Frame, InterfaceIndex, OutPort, Query, Table};
use weft_wire::Protocol;

/// Largest IPv4 packet, bytes (IP_MAX_MTU).
pub(crate) const PACKET_BYTES_MAX: usize = 65_535;
/// IPv4 header without options, bytes.
pub(crate) const HEADER_BYTES_V4: usize = 20;
/// IPv6 header, bytes.
pub(crate) const HEADER_BYTES_V6: usize = 40;

/// Where a payload goes, and what its socket and control messages ask for.
#[derive(Debug, Clone, Copy)]
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
    /// The path's MTU as sockets see it, bytes.
    pub(crate) fn mtu(&self) -> usize {
        (self.route.mtu as usize).min(PACKET_BYTES_MAX)
    }
}

impl Sockets {
    /// The way of a datagram: control messages come before SO_BINDTODEVICE, that before IP_MULTICAST_IF. EACCES for a broadcast without
    /// SO_BROADCAST.
    pub(crate) fn outgoing(
        &mut self,
        s: SocketId,
        to: IpAddr,
        ancillary: Ancillary,
        protocol: Protocol,
        cx: &Context<'_>,
    ) -> Result<Outgoing, Errno> {
        let socket = self.get(s)?;
        let own = socket.local.ip();
        // ipcm_init_sk: "ipcm->addr = inet->inet_saddr", which a PKTINFO message replaces, by nothing too.
        let given = ancillary.source.unwrap_or(own);
        let usable = !given.is_unspecified() && !given.is_multicast() && Family::of(given) == Family::of(to);
        let of_group = socket.options.multicast_interface;
        let multicast_index = if to.is_ipv6() { socket.options.multicast_index6() } else { socket.options.multicast_index };
        let bound = socket.options.interface;
        // "if (!saddr) saddr = READ_ONCE(inet->mc_addr);"
        let of_group = Some(IpAddr::V4(of_group)).filter(|address| to.is_ipv4() && to.is_multicast() && !address.is_unspecified());
        let source = if usable { Some(given) } else { of_group };
        let source = match source {
            Some(address) if self.address_kind(address, cx) == AddressKind::Broadcast => None,
            other => other,
        };
        let to = Self::destination(SocketAddr::new(to, 0), source.unwrap_or(own)).ip();
        let asked = ancillary.interface.filter(|index| *index != 0);
        let bound = Some(bound).filter(|index| *index != 0);
        let group = Some(multicast_index).filter(|index| to.is_multicast() && *index != 0);
        let interface = asked.or(bound).or(group).map(InterfaceIndex);
        // ip_route_output_key_hash_rcu: "dev_out = dev_get_by_index_rcu(net, fl4->flowi4_oif); rth = ERR_PTR(-ENODEV); if (!dev_out) goto out;"
        if let Some(index) = interface
            && matches!(cx.ask(Table::Interfaces, &Query::Interface(index)), Answer::None)
        {
            return Err(Errno::ENODEV);
        }
        let route = cx.route(&Query::Route { destination: to, source, interface }, Family::of(to)).ok_or(Errno::ENETUNREACH)?;
        match route.kind {
            RouteKind::Unicast | RouteKind::Local | RouteKind::Broadcast | RouteKind::Multicast => {}
            RouteKind::Blackhole => return Err(Errno::EINVAL),
            RouteKind::Unreachable => return Err(Errno::EHOSTUNREACH),
            RouteKind::Prohibit => return Err(Errno::EACCES),
        }
        if self.address_kind(to, cx) == AddressKind::Broadcast && !self.get(s)?.options.broadcast {
            return Err(Errno::EACCES);
        }
        let ancillary = Ancillary { interface: interface.map(|index| index.0), ..ancillary };
        Ok(Outgoing { to, source, route, ancillary, protocol })
    }

    /// `sock_alloc_send_pskb`: "err = sock_error(sk); … err = -EPIPE; if (sk->sk_shutdown & SEND_SHUTDOWN) … if (sk_wmem_alloc_get(sk) <
    /// READ_ONCE(sk->sk_sndbuf)) break;"
    pub(crate) fn admit(&mut self, s: SocketId) -> Result<(), Errno> {
        let socket = self.get_mut(s)?;
        if let Some(error) = socket.take_error() {
            self.touch(s);
            return Err(error);
        }
        if socket.shutdown.send {
            return Err(Errno::EPIPE);
        }
        let room = socket.options.send_buffer as usize;
        if socket.datagram().is_some_and(|datagram| datagram.sending >= room) { Err(Errno::EAGAIN) } else { Ok(()) }
    }

    /// Most payload bytes of one packet: the MTU with IP_PMTUDISC_DO and PROBE, else what the length field can say.
    pub(crate) fn payload_max(&self, s: SocketId, out: &Outgoing) -> usize {
        let discover = self.get(s).map_or(0, |socket| i32::from(socket.options.discover(out.to.is_ipv6())));
        let header = if out.to.is_ipv6() { HEADER_BYTES_V6 } else { HEADER_BYTES_V4 };
        let whole = if out.to.is_ipv6() { PACKET_BYTES_MAX + HEADER_BYTES_V6 } else { PACKET_BYTES_MAX };
        let bound = if matches!(discover, IP_PMTUDISC_DO | IP_PMTUDISC_PROBE) { out.mtu() } else { whole };
        bound.saturating_sub(header)
    }

    /// Gives a frame its metadata and sends it down. The frame begins with the transport header (or, for `packet`, with the IP header).
    pub(crate) fn emit(&mut self, s: SocketId, mut frame: Frame, out: &Outgoing, port: OutPort, cx: &mut Context<'_>) {
        let Some(socket) = self.store.get_mut(s) else { return };
        let options = &socket.options;
        let bytes = truesize(frame.len());
        let v6 = out.to.is_ipv6();
        let header = if v6 { HEADER_BYTES_V6 } else { HEADER_BYTES_V4 };
        let fits = frame.len() + header <= out.route.mtu as usize;
        let at = frame.position();
        let meta = frame.meta_mut();
        meta.direction = Direction::Egress;
        (meta.src, meta.dst, meta.protocol) = (out.source(), out.to, out.protocol);
        meta.ttl = out.ancillary.ttl.unwrap_or_else(|| options.hop_limit(out.to));
        meta.tos = out.ancillary.tos.unwrap_or_else(|| options.traffic_class(v6));
        meta.mark = out.ancillary.mark.unwrap_or(options.mark);
        meta.interface = InterfaceIndex(out.ancillary.interface.unwrap_or(0));
        meta.dont_fragment = match i32::from(options.discover(v6)) {
            IP_PMTUDISC_DO | IP_PMTUDISC_PROBE => true,
            IP_PMTUDISC_WANT => fits && !v6,
            _ => false,
        };
        if out.ancillary.dont_fragment == Some(true) {
            meta.dont_fragment = true;
        }
        meta.transport_at = at;
        meta.completion = Some(Completion { block: cx.me(), token: s.number(), bytes: bytes as u32 });
        if let Some(datagram) = socket.datagram_mut() {
            datagram.sending += bytes;
        }
        self.count(crate::block::RAW_OUT_PACKETS);
        cx.emit(port, frame);
    }
}
