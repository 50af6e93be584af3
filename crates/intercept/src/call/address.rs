//! bind(2), getsockname(2), getpeername(2).

use super::trapped::{Call, Outcome};
use crate::face::{SocketId, Stack};
use crate::memory::Memory as _;
use crate::netlink;
use crate::standin::Body;
use crate::supervisor::{Supervisor, Turn};
use crate::sys::Errno;
use weft_loader::calls::kernel::{SockAddr, SockLen};
use weft_loader::calls::{self, Fd, InOut, Out};

/// `bind(fd, address, length)`
pub(super) fn bind(s: &mut Supervisor, turn: &mut Turn<'_>, call: &Call, asked: calls::Bind) -> Result<Outcome, Errno> {
    let Some(key) = s.find(call, asked.fd.get())? else { return Ok(Outcome::Continue) };
    let address = call.read_address(asked.addr.0 as u64, asked.addrlen.get())?;
    let Some(one) = s.stand_ins.get_mut(key) else { return Err(Errno(libc::EBADF)) };
    if let Body::Netlink(state) = &mut one.body {
        return state.bind(&address).map(|()| Outcome::DoneWithEffect(0)).map_err(Errno);
    }
    let socket = one.socket().ok_or(Errno(libc::EINVAL))?;
    match turn.stack.bind(socket, &address) {
        Ok(()) => Ok(Outcome::DoneWithEffect(0)),
        Err(Errno(libc::EADDRINUSE)) => {
            // The port may be held by a socket whose last close nobody reported.
            s.look_for_closed(turn);
            turn.stack.bind(socket, &address).map(|()| Outcome::DoneWithEffect(0))
        }
        Err(errno) => Err(errno),
    }
}

/// `getsockname(fd, address, length pointer)`
pub(super) fn getsockname(s: &mut Supervisor, turn: &mut Turn<'_>, call: &Call, asked: calls::Getsockname) -> Result<Outcome, Errno> {
    let calls::Getsockname { fd, addr, addrlen } = asked;
    let address = name_of(s, turn, call, fd, |one, stack| stack.local_address(one), |state, tid| state.name(tid))?;
    tell(call, address, addr, addrlen)
}

/// `getpeername(fd, address, length pointer)`
pub(super) fn getpeername(s: &mut Supervisor, turn: &mut Turn<'_>, call: &Call, asked: calls::Getpeername) -> Result<Outcome, Errno> {
    let calls::Getpeername { fd, addr, addrlen } = asked;
    let address = name_of(s, turn, call, fd, |one, stack| stack.peer_address(one), |_, _| netlink::KERNEL_NAME.to_vec())?;
    tell(call, address, addr, addrlen)
}

/// The address of a socket; none when the descriptor is something else.
fn name_of(
    s: &mut Supervisor,
    turn: &mut Turn<'_>,
    call: &Call,
    fd: Fd,
    of_socket: impl FnOnce(SocketId, &mut dyn Stack) -> Result<Vec<u8>, Errno>,
    of_netlink: impl FnOnce(&mut netlink::Session, u32) -> Vec<u8>,
) -> Result<Option<Vec<u8>>, Errno> {
    let Some(key) = s.find(call, fd.get())? else { return Ok(None) };
    let Some(one) = s.stand_ins.get_mut(key) else { return Err(Errno(libc::EBADF)) };
    let address = match &mut one.body {
        Body::Netlink(state) => of_netlink(state, call.tid),
        body => match body {
            Body::Stream(stream) => of_socket(stream.socket, turn.stack)?,
            Body::Packet(packets) => of_socket(packets.socket, turn.stack)?,
            Body::Netlink(_) => return Err(Errno(libc::EINVAL)),
        },
    };
    Ok(Some(address))
}

fn tell(call: &Call, address: Option<Vec<u8>>, at: Out<SockAddr>, length_at: InOut<SockLen>) -> Result<Outcome, Errno> {
    let Some(address) = address else { return Ok(Outcome::Continue) };
    call.write_address(&address, at.0 as u64, length_at.0 as u64)?;
    Ok(Outcome::Done(0))
}
