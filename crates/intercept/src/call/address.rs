//! bind(2), getsockname(2), getpeername(2).

use super::trapped::{Call, Outcome};
use crate::memory::Memory as _;
use crate::netlink;
use crate::standin::Body;
use crate::supervisor::{Supervisor, Turn};
use crate::sys::Errno;

/// `bind(fd, address, length)`
pub(super) fn bind(s: &mut Supervisor, turn: &mut Turn<'_>, call: &Call) -> Result<Outcome, Errno> {
    let Some(key) = s.find(call, call.argument(0))? else { return Ok(Outcome::Continue) };
    let address = call.read_address(call.argument(1), call.int(2))?;
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
pub(super) fn getsockname(s: &mut Supervisor, turn: &mut Turn<'_>, call: &Call) -> Result<Outcome, Errno> {
    name(s, call, |one, turn_stack| turn_stack.local_address(one), |state, tid| state.name(tid), turn)
}

/// `getpeername(fd, address, length pointer)`
pub(super) fn getpeername(s: &mut Supervisor, turn: &mut Turn<'_>, call: &Call) -> Result<Outcome, Errno> {
    name(s, call, |one, turn_stack| turn_stack.peer_address(one), |_, _| netlink::KERNEL_NAME.to_vec(), turn)
}

fn name(
    s: &mut Supervisor,
    call: &Call,
    of_socket: impl FnOnce(crate::SocketId, &mut dyn crate::Stack) -> Result<Vec<u8>, Errno>,
    of_netlink: impl FnOnce(&mut netlink::Session, u32) -> Vec<u8>,
    turn: &mut Turn<'_>,
) -> Result<Outcome, Errno> {
    let Some(key) = s.find(call, call.argument(0))? else { return Ok(Outcome::Continue) };
    let Some(one) = s.stand_ins.get_mut(key) else { return Err(Errno(libc::EBADF)) };
    let address = match &mut one.body {
        Body::Netlink(state) => of_netlink(state, call.tid),
        body => match body {
            Body::Stream(stream) => of_socket(stream.socket, turn.stack)?,
            Body::Packet(packets) => of_socket(packets.socket, turn.stack)?,
            Body::Netlink(_) => return Err(Errno(libc::EINVAL)),
        },
    };
    call.write_address(&address, call.argument(1), call.argument(2))?;
    Ok(Outcome::Done(0))
}
