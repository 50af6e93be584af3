//! What AF_INET6 sockets do with addresses: bind(2), connect(2) and sendto(2) in the kernel's order of checks (linux/net/ipv6/af_inet6.c,
//! datagram.c, tcp_ipv6.c, udp.c). An IPv4-mapped address leaves here as an IPv4 one; what follows is the same for both families.

use crate::address::{self, AF_INET, AF_INET6, AF_UNSPEC, scoped};
use crate::errno::Errno;
use crate::face::Sockets;
use crate::socket::{SocketId, TcpState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use weft_core::scope::needs_scope;
use weft_core::table::AddressKind;
use weft_core::{Answer, Context, InterfaceIndex, Query, Table};

/// What bind(2) has to do once an address has passed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Binding {
    pub address: SocketAddr,
    /// SOCK_BINDADDR_LOCK.
    pub locks: bool,
    /// The socket talks IPv6 only from now on (`sk_ipv6only`): an IPv6 address can have no IPv4 peer.
    pub only_v6: bool,
}

impl Sockets {
    /// `__inet_bind` up to the port.
    pub(crate) fn bind_v4(&mut self, s: SocketId, bytes: &[u8], cx: &Context<'_>) -> Result<Binding, Errno> {
        let address = address::for_bind(bytes)?;
        self.check_local_v4(s, address.ip(), cx)?;
        self.check_bindable(s)?;
        Ok(Binding { address, locks: !address.ip().is_unspecified(), only_v6: false })
    }

    /// inet_addr_valid_or_nonlocal: IP_FREEBIND and IP_TRANSPARENT let any address pass.
    fn check_local_v4(&mut self, s: SocketId, ip: IpAddr, cx: &Context<'_>) -> Result<(), Errno> {
        let freebind = self.get(s)?.options.freebind;
        match self.address_kind(ip, cx) {
            AddressKind::Other if !freebind => Err(Errno::EADDRNOTAVAIL),
            _ => Ok(()),
        }
    }

    /// "Check these errors (active socket, double bind)": `if (sk->sk_state != TCP_CLOSE || inet->inet_num)`.
    fn check_bindable(&self, s: SocketId) -> Result<(), Errno> {
        let socket = self.get(s)?;
        let closed = socket.stream().is_none_or(|stream| stream.state == TcpState::Close);
        let connected_datagram = socket.stream().is_none() && socket.remote.is_some();
        if !closed || connected_datagram || socket.number != 0 { Err(Errno::EINVAL) } else { Ok(()) }
    }

    /// `__inet6_bind` up to the port.
    pub(crate) fn bind_v6(&mut self, s: SocketId, bytes: &[u8], cx: &Context<'_>) -> Result<Binding, Errno> {
        let address = address::inet6_fields(bytes)?;
        let (ip, port) = (*address.ip(), address.port());
        // "if ((addr_type & IPV6_ADDR_MULTICAST) && sk->sk_type == SOCK_STREAM) return -EINVAL;"
        if ip.is_multicast() && self.get(s)?.stream().is_some() {
            return Err(Errno::EINVAL);
        }
        self.check_bindable(s)?;
        if let Some(v4) = ip.to_ipv4_mapped() {
            // "Binding to v4-mapped address on a v6-only socket makes no sense"
            if self.get(s)?.options.v6_only {
                return Err(Errno::EINVAL);
            }
            self.check_interface(s, cx)?;
            self.check_local_v4(s, v4.into(), cx)?;
            return Ok(Binding { address: SocketAddr::new(v4.into(), port), locks: true, only_v6: false });
        }
        if ip.is_unspecified() {
            return Ok(Binding { address: SocketAddr::new(ip.into(), port), locks: false, only_v6: false });
        }
        if needs_scope(&ip) {
            if address.scope_id() != 0 {
                // It stays even when the rest fails.
                self.set_interface(s, address.scope_id(), cx)?;
            }
            // "Binding to link-local address requires an interface"
            if self.get(s)?.options.interface == 0 {
                return Err(Errno::EINVAL);
            }
        }
        let interface = self.check_interface(s, cx)?;
        if !ip.is_multicast() && !self.get(s)?.options.freebind {
            // ipv6_chk_addr_and_flags: an address of link or host scope must be on the socket's interface.
            match self.address_kind(ip.into(), cx) {
                AddressKind::Local(InterfaceIndex(at)) if interface == 0 || at == interface || !(needs_scope(&ip) || ip.is_loopback()) => {}
                _ => return Err(Errno::EADDRNOTAVAIL),
            }
        }
        Ok(Binding { address: scoped(ip.into(), port, interface), locks: true, only_v6: true })
    }

    /// "if (sk->sk_bound_dev_if) { dev = dev_get_by_index_rcu(net, sk->sk_bound_dev_if); if (!dev) { err = -ENODEV;"
    fn check_interface(&self, s: SocketId, cx: &Context<'_>) -> Result<u32, Errno> {
        let interface = self.get(s)?.options.interface;
        if interface != 0 && matches!(cx.ask(Table::Interfaces, &Query::Interface(InterfaceIndex(interface))), Answer::None) {
            return Err(Errno::ENODEV);
        }
        Ok(interface)
    }

    /// Binds to an interface as SO_BINDTOIFINDEX does, without asking whether there is one.
    fn set_interface(&mut self, s: SocketId, index: u32, cx: &Context<'_>) -> Result<(), Errno> {
        let name = match cx.ask(Table::Interfaces, &Query::Interface(InterfaceIndex(index))) {
            Answer::Interface(interface) => interface.name,
            _ => String::new(),
        };
        let socket = self.get_mut(s)?;
        (socket.options.interface, socket.options.interface_name) = (index, name);
        if let Some(stream) = socket.stream_mut() {
            stream.transport.interface = index;
        }
        self.show_hold(s);
        Ok(())
    }

    /// connect(2)'s address of an AF_INET6 socket: `tcp_v6_connect` or `__ip6_datagram_connect` up to the route.
    pub(crate) fn connect_v6(&mut self, s: SocketId, bytes: &[u8], cx: &Context<'_>) -> Result<SocketAddr, Errno> {
        let socket = self.get(s)?;
        let (datagram, only_v6, own) = (socket.stream().is_none(), socket.options.v6_only, socket.local.ip());
        // __ip6_datagram_connect: "if (usin->sin6_family == AF_INET) { if (ipv6_only_sock(sk)) return -EAFNOSUPPORT;"
        if datagram && address::family(bytes)? == AF_INET {
            if only_v6 {
                return Err(Errno::EAFNOSUPPORT);
            }
            return address::for_connect(bytes);
        }
        let address = address::inet6_fields(bytes)?;
        let label = if socket.options.flow_info_send { address.flowinfo() & FLOW_INFO_MASK } else { 0 };
        let ip = loopback_for_unspecified(*address.ip(), own);
        if let Some(v4) = ip.to_ipv4_mapped() {
            if only_v6 {
                return Err(Errno::ENETUNREACH);
            }
            return Ok(SocketAddr::new(v4.into(), address.port()));
        }
        if !datagram && ip.is_multicast() {
            return Err(Errno::ENETUNREACH);
        }
        if needs_scope(&ip) {
            self.take_scope(s, &ip, address.scope_id(), cx)?;
        }
        let socket = self.get_mut(s)?;
        socket.options.flow_label = label;
        Ok(scoped(ip.into(), address.port(), socket.options.interface))
    }

    /// "If interface is set while binding, indices must coincide"; "Connect to link-local address requires an interface".
    fn take_scope(&mut self, s: SocketId, ip: &Ipv6Addr, scope: u32, cx: &Context<'_>) -> Result<(), Errno> {
        let bound = self.get(s)?.options.interface;
        if scope != 0 {
            if bound != 0 && bound != scope {
                return Err(Errno::EINVAL);
            }
            self.set_interface(s, scope, cx)?;
        }
        let of_groups = self.get(s)?.options.multicast6_index;
        if self.get(s)?.options.interface == 0 && ip.is_multicast() && of_groups != 0 {
            self.set_interface(s, of_groups, cx)?;
        }
        if self.get(s)?.options.interface == 0 { Err(Errno::EINVAL) } else { Ok(()) }
    }

    /// sendto(2)'s address of an AF_INET6 datagram socket, `udpv6_sendmsg`; none: AF_UNSPEC, which stands for no address at all.
    pub(crate) fn send_to_v6(&self, s: SocketId, bytes: &[u8]) -> Result<Option<SocketAddr>, Errno> {
        let socket = self.get(s)?;
        let only_v6 = |address: SocketAddr| if socket.options.v6_only { Err(Errno::ENETUNREACH) } else { Ok(Some(address)) };
        match address::family(bytes)? {
            AF_INET => {
                if socket.options.v6_only {
                    return Err(Errno::ENETUNREACH);
                }
                address::for_send(bytes).and_then(only_v6)
            }
            AF_INET6 => {
                let address = address::inet6_fields(bytes)?;
                let ip = match address.ip() {
                    ip if ip.is_unspecified() && socket.local.ip().is_ipv4() => Ipv4Addr::LOCALHOST.to_ipv6_mapped(),
                    ip => *ip,
                };
                let mapped = ip.to_ipv4_mapped();
                if mapped.is_some() && socket.options.v6_only {
                    return Err(Errno::ENETUNREACH);
                }
                if address.port() == 0 {
                    return Err(Errno::EINVAL);
                }
                if let Some(v4) = mapped {
                    return Ok(Some(SocketAddr::new(v4.into(), address.port())));
                }
                // ":: means loopback (BSD'ism)"
                let ip = loopback_for_unspecified(ip, IpAddr::V6(Ipv6Addr::UNSPECIFIED));
                let scope = if needs_scope(&ip) { address.scope_id() } else { 0 };
                Ok(Some(SocketAddrV6::new(ip, address.port(), 0, scope).into()))
            }
            AF_UNSPEC => Ok(None),
            _ => Err(Errno::EINVAL),
        }
    }
}

/// IPV6_FLOWINFO_MASK: traffic class and flow label.
const FLOW_INFO_MASK: u32 = 0x0fff_ffff;

/// "connect() to INADDR_ANY means loopback (BSD'ism)": of IPv4, for a socket that is bound to an IPv4 address.
fn loopback_for_unspecified(ip: Ipv6Addr, own: IpAddr) -> Ipv6Addr {
    match (ip.is_unspecified(), own) {
        (false, _) => ip,
        (true, IpAddr::V4(_)) => Ipv4Addr::LOCALHOST.to_ipv6_mapped(),
        (true, IpAddr::V6(_)) => Ipv6Addr::LOCALHOST,
    }
}

/// The own address that may be the source of what goes to `to`. EAFNOSUPPORT: an IPv4 address cannot talk to an IPv6 one
/// (`ip6_dst_lookup_tail`).
pub(crate) fn source_for(own: IpAddr, to: IpAddr) -> Result<Option<IpAddr>, Errno> {
    match (own, to) {
        (IpAddr::V4(_), IpAddr::V6(_)) => Err(Errno::EAFNOSUPPORT),
        (IpAddr::V6(_), IpAddr::V4(_)) => Ok(None),
        _ => Ok(Some(own).filter(|ip| !ip.is_unspecified() && !ip.is_multicast())),
    }
}
