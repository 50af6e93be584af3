//! What AF_INET6 sockets do with addresses: bind(2), connect(2) and sendto(2) in the kernel's order of checks (linux/net/ipv6/af_inet6.c,
//! datagram.c, tcp_ipv6.c, udp.c). An IPv4-mapped address leaves here as an IPv4 one; what follows is the same for both families.

use crate::address::{self, AF_INET, AF_INET6, AF_UNSPEC, scoped};
use crate::errno::Errno;
use crate::holds;
use crate::poll::Poll;
use crate::ports::Ports;
use crate::registry::Registry;
use crate::socket::{Socket, SocketId, TcpState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use weft_core::scope::needs_scope;
use weft_core::table::AddressKind;
use weft_core::{Answer, Context, InterfaceIndex, Query, Table};

/// What bind(2) has to do once an address has passed.
#[derive(Debug, Clone, Copy)]
struct Binding {
    address: SocketAddr,
    /// SOCK_BINDADDR_LOCK.
    locks: bool,
    /// The socket talks IPv6 only from now on (`sk_ipv6only`): an IPv6 address can have no IPv4 peer.
    only_v6: bool,
}

/// bind(2) of a stream or datagram socket: `__inet_bind`, `__inet6_bind`.
pub(crate) fn bind(sockets: &mut Registry, ports: &mut Ports, s: SocketId, bytes: &[u8], cx: &mut Context<'_>) -> Result<(), Errno> {
    let domain = sockets.get(s)?.domain;
    let binding = if domain == AF_INET6 { bind_v6(sockets, ports, s, bytes, cx)? } else { bind_v4(sockets, s, bytes, cx)? };
    let address = binding.address;
    let ephemeral = sockets.limits.ephemeral;
    let socket = sockets.get_mut(s)?;
    let only_before = socket.options.v6_only;
    socket.options.v6_only |= binding.only_v6;
    let no_port = address.port() == 0 && socket.options.bind_address_no_port && socket.stream().is_some();
    if !no_port && let Err(error) = holds::take(socket, ports, address, ephemeral, cx.rng) {
        // __inet_bind: "inet->inet_saddr = inet->inet_rcv_saddr = 0; err = -EADDRINUSE;" and __inet6_bind's inet_reset_saddr.
        socket.options.v6_only = only_before;
        socket.reset_address();
        return Err(error);
    }
    socket.local = address;
    socket.local.set_port(socket.number);
    socket.address_locked = binding.locks;
    socket.port_locked = address.port() != 0;
    sockets.touch(s, Poll::NONE);
    Ok(())
}

/// `__inet_bind` up to the port.
fn bind_v4(sockets: &mut Registry, s: SocketId, bytes: &[u8], cx: &Context<'_>) -> Result<Binding, Errno> {
    let address = address::for_bind(bytes)?;
    check_local_v4(sockets, s, address.ip(), cx)?;
    check_bindable(sockets.get(s)?)?;
    Ok(Binding { address, locks: !address.ip().is_unspecified(), only_v6: false })
}

/// inet_addr_valid_or_nonlocal: IP_FREEBIND and IP_TRANSPARENT let any address pass.
fn check_local_v4(sockets: &mut Registry, s: SocketId, ip: IpAddr, cx: &Context<'_>) -> Result<(), Errno> {
    let freebind = sockets.get(s)?.options.binds_anywhere();
    match sockets.kinds.of(ip, cx) {
        AddressKind::Other if !freebind => Err(Errno::EADDRNOTAVAIL),
        _ => Ok(()),
    }
}

/// "Check these errors (active socket, double bind)": `if (sk->sk_state != TCP_CLOSE || inet->inet_num)`.
fn check_bindable(socket: &Socket) -> Result<(), Errno> {
    let closed = socket.stream().is_none_or(|stream| stream.state == TcpState::Close);
    let connected_datagram = socket.stream().is_none() && socket.remote.is_some();
    if !closed || connected_datagram || socket.number != 0 { Err(Errno::EINVAL) } else { Ok(()) }
}

/// `__inet6_bind` up to the port.
fn bind_v6(sockets: &mut Registry, ports: &mut Ports, s: SocketId, bytes: &[u8], cx: &Context<'_>) -> Result<Binding, Errno> {
    let address = address::inet6_fields(bytes)?;
    let (ip, port) = (*address.ip(), address.port());
    // "if ((addr_type & IPV6_ADDR_MULTICAST) && sk->sk_type == SOCK_STREAM) return -EINVAL;"
    if ip.is_multicast() && sockets.get(s)?.stream().is_some() {
        return Err(Errno::EINVAL);
    }
    check_bindable(sockets.get(s)?)?;
    if let Some(v4) = ip.to_ipv4_mapped() {
        // "Binding to v4-mapped address on a v6-only socket makes no sense"
        if sockets.get(s)?.options.v6_only {
            return Err(Errno::EINVAL);
        }
        check_interface(sockets.get(s)?, cx)?;
        check_local_v4(sockets, s, v4.into(), cx)?;
        return Ok(Binding { address: SocketAddr::new(v4.into(), port), locks: true, only_v6: false });
    }
    if ip.is_unspecified() {
        return Ok(Binding { address: SocketAddr::new(ip.into(), port), locks: false, only_v6: false });
    }
    if needs_scope(&ip) {
        if address.scope_id() != 0 {
            // It stays even when the rest fails.
            set_interface(sockets.get_mut(s)?, ports, address.scope_id(), cx);
        }
        // "Binding to link-local address requires an interface"
        if sockets.get(s)?.options.interface == 0 {
            return Err(Errno::EINVAL);
        }
    }
    let interface = check_interface(sockets.get(s)?, cx)?;
    if !ip.is_multicast() && !sockets.get(s)?.options.binds_anywhere() {
        // ipv6_chk_addr_and_flags
        if !sockets.kinds.is_own(ip, interface, cx) {
            return Err(Errno::EADDRNOTAVAIL);
        }
    }
    Ok(Binding { address: scoped(ip.into(), port, interface), locks: true, only_v6: true })
}

/// "if (sk->sk_bound_dev_if) { dev = dev_get_by_index_rcu(net, sk->sk_bound_dev_if); if (!dev) { err = -ENODEV;"
fn check_interface(socket: &Socket, cx: &Context<'_>) -> Result<u32, Errno> {
    let interface = socket.options.interface;
    if interface != 0 && matches!(cx.ask(Table::Interfaces, &Query::Interface(InterfaceIndex(interface))), Answer::None) {
        return Err(Errno::ENODEV);
    }
    Ok(interface)
}

/// Binds to an interface as SO_BINDTOIFINDEX does, without asking whether there is one.
fn set_interface(socket: &mut Socket, ports: &mut Ports, index: u32, cx: &Context<'_>) {
    let name = match cx.ask(Table::Interfaces, &Query::Interface(InterfaceIndex(index))) {
        Answer::Interface(interface) => interface.name,
        _ => String::new(),
    };
    (socket.options.interface, socket.options.interface_name) = (index, name);
    if let Some(stream) = socket.stream_mut() {
        stream.transport.interface = index;
    }
    holds::show(socket, ports);
}

/// connect(2)'s address of an AF_INET6 socket: `tcp_v6_connect` or `__ip6_datagram_connect` up to the route.
pub(crate) fn connect_v6(socket: &mut Socket, ports: &mut Ports, bytes: &[u8], cx: &Context<'_>) -> Result<SocketAddr, Errno> {
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
        take_scope(socket, ports, &ip, address.scope_id(), cx)?;
    }
    socket.options.flow_label = label;
    Ok(scoped(ip.into(), address.port(), socket.options.interface))
}

/// "If interface is set while binding, indices must coincide"; "Connect to link-local address requires an interface".
fn take_scope(socket: &mut Socket, ports: &mut Ports, ip: &Ipv6Addr, scope: u32, cx: &Context<'_>) -> Result<(), Errno> {
    let bound = socket.options.interface;
    if scope != 0 {
        if bound != 0 && bound != scope {
            return Err(Errno::EINVAL);
        }
        set_interface(socket, ports, scope, cx);
    }
    let of_groups = socket.options.multicast6_index;
    if socket.options.interface == 0 && ip.is_multicast() && of_groups != 0 {
        set_interface(socket, ports, of_groups, cx);
    }
    if socket.options.interface == 0 { Err(Errno::EINVAL) } else { Ok(()) }
}

/// sendto(2)'s address of an AF_INET6 datagram socket, `udpv6_sendmsg`; none: AF_UNSPEC, which stands for no address at all.
pub(crate) fn send_to_v6(socket: &Socket, bytes: &[u8]) -> Result<Option<SocketAddr>, Errno> {
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

/// An address of a link binds to the link: the scope given, or the one that the socket is bound to. EINVAL without either, ENODEV.
pub(crate) fn take_scope_of(socket: &mut Socket, address: SocketAddrV6, cx: &Context<'_>) -> Result<(), Errno> {
    let mut interface = socket.options.interface;
    if needs_scope(address.ip()) {
        if address.scope_id() != 0 {
            interface = address.scope_id();
        }
        // "Binding to link-local address requires an interface"
        if interface == 0 {
            return Err(Errno::EINVAL);
        }
    }
    if interface == 0 {
        return Ok(());
    }
    match cx.ask(Table::Interfaces, &Query::Interface(InterfaceIndex(interface))) {
        Answer::Interface(found) => {
            let options = &mut socket.options;
            (options.interface, options.interface_name) = (interface, found.name);
            Ok(())
        }
        _ => Err(Errno::ENODEV),
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
