//! How built-in programs get sockets, and give up.

use crate::actor::ActorContext;
use crate::report::{ProgramId, Status, Stream};
use std::net::{IpAddr, SocketAddr};
use weft_socket::address::{AF_INET, AF_INET6};
use weft_socket::{Errno, SocketId};

/// Why a program gave up: the call, and what it said.
pub(super) type Failure = (&'static str, Errno);

/// Ends a program with status 1 and says why.
pub(super) fn fail(cx: &mut dyn ActorContext, id: ProgramId, (call, errno): Failure) {
    let text = errno.text().unwrap_or("unknown error");
    cx.output(id, Stream::Error, format!("{call}: {text}\n").as_bytes());
    cx.ended(id, Status::Exited(1));
}

/// A socket of the family of `address`.
pub(super) fn open(cx: &mut dyn ActorContext, address: IpAddr, kind: i32, protocol: i32) -> Result<SocketId, Failure> {
    let domain = if address.is_ipv6() { AF_INET6 } else { AF_INET };
    cx.call(|sockets, cx| sockets.socket(domain, kind, protocol, cx)).unwrap_or(Err(Errno::ENETDOWN)).map_err(|errno| ("socket", errno))
}

/// A socket that hears both families on a port; only IPv4 where there is no IPv6.
pub(super) fn open_on(cx: &mut dyn ActorContext, port: u16, kind: i32) -> Result<SocketId, Failure> {
    let any = |v6: bool| -> IpAddr { if v6 { std::net::Ipv6Addr::UNSPECIFIED.into() } else { std::net::Ipv4Addr::UNSPECIFIED.into() } };
    let (socket, v6) = match open(cx, any(true), kind, 0) {
        Ok(socket) => (socket, true),
        Err(_) => (open(cx, any(false), kind, 0)?, false),
    };
    let address = weft_socket::address::to_bytes(SocketAddr::new(any(v6), port));
    cx.call(|sockets, cx| sockets.bind(socket, &address, cx)).unwrap_or(Err(Errno::ENETDOWN)).map_err(|errno| ("bind", errno))?;
    Ok(socket)
}
