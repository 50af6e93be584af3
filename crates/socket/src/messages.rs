//! Sockets whose messages have boundaries: UDP's, raw ones, and those of ICMP. What finds them, and what they share: connecting, dissolving,
//! closing.

use crate::abi::IPPROTO_UDPLITE;
use crate::address;
use crate::datagrams::Datagrams;
use crate::errno::Errno;
use crate::inet6;
use crate::packet_socket::PacketSockets;
use crate::ping_socket::Pings;
use crate::poll::Poll;
use crate::raw_socket::RawSockets;
use crate::registry::Registry;
use crate::routes;
use crate::socket::{Body, SocketId};
use weft_core::Context;
use weft_core::table::AddressKind;

/// By what a packet finds them.
#[derive(Debug)]
pub(crate) struct Messages {
    pub datagrams: Datagrams,
    pub raw: RawSockets,
    pub pings: Pings,
    /// UDP-Lite's: ports of its own.
    pub lite: Datagrams,
    pub packets: PacketSockets,
}

impl Messages {
    /// UDP's side, or UDP-Lite's, by the protocol of a socket.
    pub(crate) fn of_protocol(&mut self, protocol: i32) -> &mut Datagrams {
        if protocol == IPPROTO_UDPLITE { &mut self.lite } else { &mut self.datagrams }
    }

    /// The same of a socket.
    pub(crate) fn of(&mut self, sockets: &Registry, s: SocketId) -> &mut Datagrams {
        self.of_protocol(sockets.store.get(s).map_or(0, |socket| socket.protocol))
    }

    /// `__ip4_datagram_connect` and `__udp_disconnect`.
    pub(crate) fn connect(
        &mut self,
        sockets: &mut Registry,
        s: SocketId,
        family: i32,
        address: &[u8],
        cx: &mut Context<'_>,
    ) -> Result<(), Errno> {
        if family == address::AF_UNSPEC {
            return self.dissolve(sockets, s, cx);
        }
        self.autobind(sockets, s, cx)?;
        let ports = &mut self.of(sockets, s).ports;
        let to = if sockets.get(s)?.is_v6() {
            inet6::connect_v6(sockets.get_mut(s)?, ports, address, cx)?
        } else {
            address::for_connect(address)?
        };
        let own = sockets.get(s)?.local.ip();
        let to = routes::destination(to, own);
        let source = routes::source_for(own, to.ip())?;
        let route = routes::route(sockets.get(s)?, to, source, cx)?;
        if sockets.kinds.of(to.ip(), cx) == AddressKind::Broadcast && !sockets.get(s)?.options.broadcast {
            return Err(Errno::EACCES);
        }
        let socket = sockets.get_mut(s)?;
        if own.is_unspecified() {
            // A route to an own address goes through `lo`, whatever link it is on.
            let link = if socket.options.interface == 0 { route.interface.0 } else { socket.options.interface };
            socket.local = address::scoped(route.source, socket.local.port(), link);
        }
        socket.remote = Some(to);
        let (hold, address) = (socket.hold, socket.local.ip());
        if let Some(hold) = hold {
            self.of(sockets, s).ports.update(hold, |held| held.address = address);
        }
        self.of(sockets, s).rehash(sockets, s, own, address);
        sockets.touch(s, Poll::NONE);
        Ok(())
    }

    /// "1003.1g - break association."
    fn dissolve(&mut self, sockets: &mut Registry, s: SocketId, cx: &mut Context<'_>) -> Result<(), Errno> {
        let socket = sockets.get_mut(s)?;
        let before = socket.local.ip();
        socket.remote = None;
        // __udp_disconnect: "sk->sk_bound_dev_if = 0;"
        (socket.options.interface, socket.options.interface_name) = (0, String::new());
        if !socket.address_locked {
            socket.reset_address();
        }
        let (hold, address, locked) = (socket.hold, socket.local.ip(), socket.port_locked);
        if !locked {
            match sockets.get(s)?.body {
                // "sk->sk_prot->unhash(sk);": a raw socket that is dissolved hears nothing any more.
                Body::Raw(_) => self.raw.unhash(sockets, s, cx),
                _ => self.release(sockets, s),
            }
            sockets.get_mut(s)?.local.set_port(0);
        } else if let Some(hold) = hold {
            self.of(sockets, s).ports.update(hold, |held| held.address = address);
            self.of(sockets, s).rehash(sockets, s, before, address);
        }
        sockets.touch(s, Poll::NONE);
        Ok(())
    }

    /// `inet_autobind`: a port or identifier for a socket that connects without one. EAGAIN when there is none.
    fn autobind(&mut self, sockets: &mut Registry, s: SocketId, cx: &mut Context<'_>) -> Result<(), Errno> {
        match sockets.get(s)?.body {
            Body::Ping(_) => self.pings.autobind(sockets, s),
            _ => self.of(sockets, s).autobind(sockets, s, cx),
        }
    }

    /// Gives port or identifier up.
    fn release(&mut self, sockets: &mut Registry, s: SocketId) {
        match sockets.get(s).map(|socket| &socket.body) {
            Ok(Body::Ping(_)) => self.pings.release(sockets, s),
            _ => self.of(sockets, s).release(sockets, s),
        }
    }

    /// close(2): nothing finds the socket any more.
    pub(crate) fn close(&mut self, sockets: &mut Registry, s: SocketId, cx: &mut Context<'_>) {
        match sockets.get(s).map(|socket| &socket.body) {
            Ok(Body::Raw(_)) => self.raw.unhash(sockets, s, cx),
            Ok(Body::Packet(_)) => self.packets.close(sockets, s, cx),
            _ => self.release(sockets, s),
        }
        sockets.remove(s);
    }
}
