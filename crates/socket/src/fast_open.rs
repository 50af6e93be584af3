//! Fast Open on sockets (RFC 7413; net/ipv4/tcp.c `tcp_sendmsg_fastopen`): a send that connects.
//!
//! MSG_FASTOPEN sends with the SYN what a cookie allows and says how much that was; without a cookie the SYN asks for one, and the caller is told
//! `EINPROGRESS`, as on Linux. With TCP_FASTOPEN_CONNECT connect(2) does the same: where the SYN can carry data, it waits for the first write, else it
//! leaves at once and asks for a cookie.

use crate::errno::Errno;
use crate::face::Sockets;
use crate::inet6;
use crate::routes;
use crate::socket::{Phase, SocketId, TcpState};
use bytes::Bytes;
use std::net::{IpAddr, SocketAddr};
use weft_core::{Answer, Context, FlowId, Query, StreamCall, StreamOptions, Table};

impl Sockets {
    /// Bytes that a SYN could carry. `None`: clients may not use Fast Open.
    pub(crate) fn fast_open_room(&self, local: IpAddr, remote: IpAddr, no_cookie: bool, mtu: u32, cx: &Context<'_>) -> Option<u32> {
        match cx.ask(Table::Flows, &Query::FastOpen { local, remote, no_cookie, mtu }) {
            Answer::FastOpen(room) => room,
            _ => None,
        }
    }

    /// send(2) with MSG_FASTOPEN. `Ok(None)`: the connection was established before, and the data goes the usual way.
    pub(crate) fn send_fast_open(
        &mut self,
        s: SocketId,
        data: &Bytes,
        to: Option<&[u8]>,
        cx: &mut Context<'_>,
    ) -> Result<Option<usize>, Errno> {
        let address = to.unwrap_or_default();
        // "if (!(… & TFO_CLIENT_ENABLE) || (uaddr && … uaddr->sa_family == AF_UNSPEC)) return -EOPNOTSUPP;"
        let any = IpAddr::from([0, 0, 0, 0]);
        if self.fast_open_room(any, any, false, 0, cx).is_none() || crate::address::family(address) == Ok(crate::address::AF_UNSPEC) {
            return Err(Errno::EOPNOTSUPP);
        }
        let stream = self.get(s)?.stream().ok_or(Errno::EPIPE)?;
        if stream.deferred {
            return self.send_deferred(s, data, cx).map(Some);
        }
        if (stream.phase, stream.state) != (Phase::Unconnected, TcpState::Close) {
            let family = crate::address::family(address).unwrap_or(crate::address::AF_INET);
            return self.connect_stream(s, family, address, cx).map(|()| None);
        }
        let to = if self.get(s)?.is_v6() {
            inet6::connect_v6(self.registry.get_mut(s)?, &mut self.streams.ports, address, cx)?
        } else {
            crate::address::for_connect(address)?
        };
        let taken = self.start_connect_with(s, to, Some(data.clone()), cx)?;
        self.set_phase(s, Phase::Connecting);
        self.touch(s);
        if taken == 0 { Err(Errno::EINPROGRESS) } else { Ok(Some(taken)) }
    }

    /// `tcp_fastopen_defer_connect`: "if (tcp_fastopen_cookie_check(sk, &mss, &cookie)) { inet_set_bit(DEFER_CONNECT, sk); return true; }"
    pub(crate) fn can_defer(&self, s: SocketId, local: SocketAddr, to: SocketAddr, mtu: u32, cx: &Context<'_>) -> bool {
        let no_cookie = self.get(s).is_ok_and(|socket| socket.stream().is_some_and(|stream| stream.transport.fast_open_no_cookie));
        self.fast_open_room(local.ip(), to.ip(), no_cookie, mtu, cx).is_some_and(|room| room > 0)
    }

    /// The first write to a connection that waited for it: EINPROGRESS when the SYN can carry nothing after all.
    pub(crate) fn send_deferred(&mut self, s: SocketId, data: &Bytes, cx: &mut Context<'_>) -> Result<usize, Errno> {
        let socket = self.get(s)?;
        let (local, to, interface) = (socket.local, socket.remote.ok_or(Errno::EPIPE)?, socket.options.interface);
        let traffic = routes::traffic_of(socket, to.port(), None);
        // "if (err) { tcp_set_state(sk, TCP_CLOSE); inet->inet_dport = 0; sk->sk_route_caps = 0; }"
        let route = match routes::through(to.ip(), Some(local.ip()), interface, traffic, cx) {
            Ok(route) => route,
            Err(error) => {
                self.enter_close(s);
                return Err(error);
            }
        };
        let taken = self.begin_flow(s, local, to, route.mtu, Some(data.clone()), cx)?;
        self.touch(s);
        if taken == 0 { Err(Errno::EINPROGRESS) } else { Ok(taken) }
    }

    /// Opens a flow, with data where `first` is given. Returns how much of it goes along.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn open_flow(
        &mut self,
        flow: FlowId,
        local: SocketAddr,
        remote: SocketAddr,
        options: Box<StreamOptions>,
        first: Option<Bytes>,
        mtu: u32,
        cx: &mut Context<'_>,
    ) -> usize {
        let Some(data) = first else {
            self.call(flow, StreamCall::Connect { local, remote, options }, cx);
            return 0;
        };
        let room = self.fast_open_room(local.ip(), remote.ip(), options.fast_open_no_cookie, mtu, cx).unwrap_or(0);
        let data = data.slice(..data.len().min(room as usize));
        let taken = data.len();
        self.call(flow, StreamCall::ConnectWith { local, remote, options, data }, cx);
        taken
    }
}
