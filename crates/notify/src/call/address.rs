//! bind(2), getsockname(2), getpeername(2).

use super::trapped_socket::TrappedSocket;
use crate::netlink;
use crate::standin::Body;
use crate::sys::Errno;
use weft_intercept::face::{SocketId, Stack};

/// Binds the model's socket.
pub(super) fn bind(c: &mut TrappedSocket<'_, '_>, address: &[u8]) -> Result<(), Errno> {
    let Some(one) = c.s.stand_ins.get_mut(c.key) else { return Err(Errno(libc::EBADF)) };
    if matches!(one.body, Body::Netlink(_)) {
        let process = c.s.process_number(c.key, c.call.tid, c.turn);
        return c.s.session(c.key)?.bind(address, process).map_err(Errno);
    }
    let socket = one.socket().ok_or(Errno(libc::EINVAL))?;
    match c.turn.stack.bind(socket, address) {
        Err(Errno(libc::EADDRINUSE)) => {
            // The port may be held by a socket whose last close nobody reported, or nobody has read yet.
            c.s.let_go_of_closed(c.key, c.turn);
            c.turn.stack.bind(socket, address)
        }
        other => other,
    }
}

/// Its own address.
pub(super) fn local(c: &mut TrappedSocket<'_, '_>) -> Result<Vec<u8>, Errno> {
    if matches!(c.s.stand_ins.get(c.key).map(|one| &one.body), Some(Body::Netlink(_))) {
        // What was written natively binds it.
        c.s.refresh(c.key);
        c.s.pump(c.key, false, c.turn);
    }
    name_of(c, |one, stack| stack.local_address(one), |state| state.name())
}

/// That of its peer.
pub(super) fn peer(c: &mut TrappedSocket<'_, '_>) -> Result<Vec<u8>, Errno> {
    name_of(c, |one, stack| stack.peer_address(one), |state| state.peer_name())
}

fn name_of(
    c: &mut TrappedSocket<'_, '_>,
    of_socket: impl FnOnce(SocketId, &mut dyn Stack) -> Result<Vec<u8>, Errno>,
    of_netlink: impl FnOnce(&netlink::Session) -> Vec<u8>,
) -> Result<Vec<u8>, Errno> {
    match c.s.stand_ins.get_mut(c.key).map(|one| &mut one.body) {
        Some(Body::Netlink(state)) => Ok(of_netlink(&state.socket.session)),
        Some(Body::Stream(stream)) => of_socket(stream.socket, c.turn.stack),
        Some(Body::Packet(packets)) => of_socket(packets.socket, c.turn.stack),
        None => Err(Errno(libc::EBADF)),
    }
}
