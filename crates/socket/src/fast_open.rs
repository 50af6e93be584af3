//! Fast Open on sockets (RFC 7413; net/ipv4/tcp.c `tcp_sendmsg_fastopen`): a send that connects, and the options.
//!
//! MSG_FASTOPEN sends with the SYN what a cookie allows and says how much that was; without a cookie the SYN asks for one, and the caller is told
//! `EINPROGRESS`, as on Linux. With TCP_FASTOPEN_CONNECT connect(2) does the same: where the SYN can carry data, it waits for the first write, else it
//! leaves at once and asks for a cookie.

use crate::abi::{SOL_TCP, TCP_CC_INFO, TCP_FASTOPEN, TCP_FASTOPEN_CONNECT, TCP_FASTOPEN_KEY, TCP_FASTOPEN_NO_COOKIE};
use crate::connection::traffic_of;
use crate::errno::Errno;
use crate::face::Sockets;
use crate::options::{Access, Applies::Stream, Get, OptionRow, Set, row, within};
use crate::socket::{Phase, SocketId, TcpState};
use bytes::Bytes;
use std::net::{IpAddr, SocketAddr};
use weft_core::{Answer, Context, FlowId, Query, StreamCall, StreamOption, StreamOptions, Table};

/// Lengths of TCP_FASTOPEN_KEY: one key, or two.
const KEY_BYTES: [usize; 2] = [16, 32];

impl Sockets {
    /// Bytes that a SYN could carry. `None`: clients may not use Fast Open.
    fn fast_open_room(&self, local: IpAddr, remote: IpAddr, no_cookie: bool, mtu: u32, cx: &Context<'_>) -> Option<u32> {
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
        let to = if self.get(s)?.is_v6() { self.connect_v6(s, address, cx)? } else { crate::address::for_connect(address)? };
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
        let traffic = traffic_of(socket, to.port(), None);
        // "if (err) { tcp_set_state(sk, TCP_CLOSE); inet->inet_dport = 0; sk->sk_route_caps = 0; }"
        let route = match self.route_through(to.ip(), Some(local.ip()), interface, traffic, cx) {
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

/// The options stand while the socket is neither connected nor connecting.
fn idle(a: &mut Access<'_, '_>) -> Result<(), Errno> {
    let idle = matches!(a.stream()?.state, TcpState::Close | TcpState::Listen);
    if idle { Ok(()) } else { Err(Errno::EINVAL) }
}

/// "case TCP_FASTOPEN: if (val >= 0 && ((1 << sk->sk_state) & (TCPF_CLOSE | TCPF_LISTEN))) … else err = -EINVAL;", at most somaxconn.
fn set_queue(a: &mut Access<'_, '_>, value: i32) -> Result<(), Errno> {
    let value = u32::try_from(value).map_err(|_| Errno::EINVAL)?;
    idle(a)?;
    let most = a.sockets.limits.backlog_max;
    a.transport(StreamOption::FastOpenQueue(value.min(most)))
}

/// "if (val > 1 || val < 0) err = -EINVAL; else if (… & TFO_CLIENT_ENABLE) { if (sk->sk_state == TCP_CLOSE) … else err = -EINVAL; } else -EOPNOTSUPP".
fn set_connect(a: &mut Access<'_, '_>, value: i32) -> Result<(), Errno> {
    within(value, 0, 1)?;
    let any = IpAddr::from([0, 0, 0, 0]);
    if a.sockets.fast_open_room(any, any, false, 0, a.cx).is_none() {
        return Err(Errno::EOPNOTSUPP);
    }
    let stream = a.stream()?;
    if stream.state != TcpState::Close {
        return Err(Errno::EINVAL);
    }
    stream.fast_open_connect = value == 1;
    Ok(())
}

fn set_no_cookie(a: &mut Access<'_, '_>, value: i32) -> Result<(), Errno> {
    within(value, 0, 1)?;
    idle(a)?;
    a.transport(StreamOption::FastOpenNoCookie(value == 1))
}

/// do_tcp_setsockopt: "if (optlen != TCP_FASTOPEN_KEY_LENGTH && optlen != TCP_FASTOPEN_KEY_BUF_LENGTH) return -EINVAL;"
fn set_key(a: &mut Access<'_, '_>, value: &[u8]) -> Result<(), Errno> {
    if !KEY_BYTES.contains(&value.len()) {
        return Err(Errno::EINVAL);
    }
    a.transport(StreamOption::FastOpenKey(value.to_vec()))
}

fn cc_info(a: &mut Access<'_, '_>, length: usize) -> Result<Vec<u8>, Errno> {
    let info = a.sockets.flow_info(a.id, a.cx);
    let mut bytes: Vec<u8> = info.cc_info.iter().flat_map(|word| word.to_ne_bytes()).collect();
    bytes.truncate(length);
    Ok(bytes)
}

pub(crate) const ROWS: &[OptionRow] = &[
    row(SOL_TCP, TCP_FASTOPEN, "TCP_FASTOPEN", Stream, Set::Int(set_queue), Get::Int(|a| Ok(a.stream()?.transport.fast_open_queue as i32))),
    row(
        SOL_TCP,
        TCP_FASTOPEN_CONNECT,
        "TCP_FASTOPEN_CONNECT",
        Stream,
        Set::Int(set_connect),
        Get::Int(|a| Ok(i32::from(a.stream()?.fast_open_connect))),
    ),
    row(
        SOL_TCP,
        TCP_FASTOPEN_KEY,
        "TCP_FASTOPEN_KEY",
        Stream,
        Set::Bytes(set_key),
        Get::Bytes(|a, length| {
            let mut key = a.stream()?.transport.fast_open_key.clone();
            key.truncate(length);
            Ok(key)
        }),
    ),
    row(
        SOL_TCP,
        TCP_FASTOPEN_NO_COOKIE,
        "TCP_FASTOPEN_NO_COOKIE",
        Stream,
        Set::Int(set_no_cookie),
        Get::Int(|a| Ok(i32::from(a.stream()?.transport.fast_open_no_cookie))),
    ),
    row(SOL_TCP, TCP_CC_INFO, "TCP_CC_INFO", Stream, Set::Never(Errno::ENOPROTOOPT), Get::Bytes(cc_info)),
];
