//! Fast Open on sockets (RFC 7413; net/ipv4/tcp.c `tcp_sendmsg_fastopen`): what a SYN may carry. Sends that connect are in `stream_send`.
//!
//! MSG_FASTOPEN sends with the SYN what a cookie allows and says how much that was; without a cookie the SYN asks for one, and the caller is told
//! `EINPROGRESS`, as on Linux. With TCP_FASTOPEN_CONNECT connect(2) does the same: where the SYN can carry data, it waits for the first write, else it
//! leaves at once and asks for a cookie.

use crate::socket::Socket;
use crate::streams::{Ends, Streams};
use bytes::Bytes;
use std::net::SocketAddr;
use weft_core::{Answer, Context, FlowId, Query, StreamCall, StreamOptions, Table};

/// Bytes that a SYN could carry. `None`: clients may not use Fast Open.
fn room(ends: Ends, no_cookie: bool, cx: &Context<'_>) -> Option<u32> {
    let Ends { local, remote, mtu } = ends;
    match cx.ask(Table::Flows, &Query::FastOpen { local: local.ip(), remote: remote.ip(), no_cookie, mtu }) {
        Answer::FastOpen(room) => room,
        _ => None,
    }
}

/// TFO_CLIENT_ENABLE: may clients use Fast Open at all?
pub(crate) fn is_allowed(cx: &Context<'_>) -> bool {
    let any = SocketAddr::from(([0, 0, 0, 0], 0));
    room(Ends { local: any, remote: any, mtu: 0 }, false, cx).is_some()
}

/// `tcp_fastopen_defer_connect`: "if (tcp_fastopen_cookie_check(sk, &mss, &cookie)) { inet_set_bit(DEFER_CONNECT, sk); return true; }"
pub(crate) fn can_defer(socket: &Socket, ends: Ends, cx: &Context<'_>) -> bool {
    let no_cookie = socket.stream().is_some_and(|stream| stream.transport.fast_open_no_cookie);
    room(ends, no_cookie, cx).is_some_and(|room| room > 0)
}

/// Opens a flow, with data where `first` is given. Returns how much of it goes along.
pub(crate) fn open(
    streams: &mut Streams,
    flow: FlowId,
    ends: Ends,
    options: Box<StreamOptions>,
    first: Option<Bytes>,
    cx: &mut Context<'_>,
) -> usize {
    let Ends { local, remote, .. } = ends;
    let Some(data) = first else {
        streams.call(flow, StreamCall::Connect { local, remote, options, extension: None }, cx);
        return 0;
    };
    let room = room(ends, options.fast_open_no_cookie, cx).unwrap_or(0);
    let data = data.slice(..data.len().min(room as usize));
    let taken = data.len();
    streams.call(flow, StreamCall::ConnectWith { local, remote, options, data, extension: None }, cx);
    taken
}
