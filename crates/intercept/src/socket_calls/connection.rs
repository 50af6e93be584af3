//! bind(2), listen(2), connect(2), accept(2), accept4(2), shutdown(2), getsockname(2), getpeername(2).

use super::carrier::{Carrier, Limit};
use crate::memory::Memory as _;
use crate::sys::Errno;
use weft_loader::calls::kernel::{SockAddr, SockLen};
use weft_loader::calls::{self, InOut, NewFlags, Out};

/// bind(2)
pub fn bind<C: Carrier>(c: &mut C, asked: calls::Bind) -> Result<C::Outcome, Errno> {
    let address = c.memory().read_address(asked.addr.0 as u64, asked.addrlen.get())?;
    c.bind(&address).map(|()| c.done(0))
}

/// listen(2)
pub fn listen<C: Carrier>(c: &mut C, asked: calls::Listen) -> Result<C::Outcome, Errno> {
    c.listen(asked.backlog.get()).map(|()| c.done(0))
}

/// shutdown(2)
pub fn shutdown<C: Carrier>(c: &mut C, asked: calls::Shutdown) -> Result<C::Outcome, Errno> {
    c.shutdown(asked.how.get()).map(|()| c.done(0))
}

/// getsockname(2)
pub fn getsockname<C: Carrier>(c: &mut C, asked: calls::Getsockname) -> Result<C::Outcome, Errno> {
    let address = c.local_address()?;
    tell(c, &address, asked.addr, asked.addrlen)
}

/// getpeername(2)
pub fn getpeername<C: Carrier>(c: &mut C, asked: calls::Getpeername) -> Result<C::Outcome, Errno> {
    let address = c.peer_address()?;
    tell(c, &address, asked.addr, asked.addrlen)
}

fn tell<C: Carrier>(c: &C, address: &[u8], at: Out<SockAddr>, length_at: InOut<SockLen>) -> Result<C::Outcome, Errno> {
    c.memory().write_address(address, at.0 as u64, length_at.0 as u64)?;
    Ok(c.told(0))
}

/// connect(2)
pub fn connect<C: Carrier>(c: &mut C, asked: calls::Connect) -> Result<C::Outcome, Errno> {
    let address = c.memory().read_address(asked.addr.0 as u64, asked.addrlen.get())?;
    match c.connect(&address) {
        Ok(()) => Ok(c.done(0)),
        Err(errno @ Errno(libc::EINPROGRESS | libc::EALREADY)) => {
            // inet_stream_connect: a second connect of a blocking socket waits too; the limit is SO_SNDTIMEO, and then EINPROGRESS.
            let otherwise = if c.has_waited() { libc::EINPROGRESS } else { errno.0 };
            c.wait(Limit::Send, 0, otherwise)
        }
        // A call that waited hears the outcome once: connected.
        Err(Errno(libc::EISCONN)) if c.has_waited() => Ok(c.done(0)),
        Err(errno) => Err(errno),
    }
}

/// accept(2)
pub fn accept<C: Carrier>(c: &mut C, asked: calls::Accept) -> Result<C::Outcome, Errno> {
    let calls::Accept { fd, addr, addrlen } = asked;
    accept4(c, calls::Accept4 { fd, addr, addrlen, flags: NewFlags(0) })
}

/// accept4(2)
pub fn accept4<C: Carrier>(c: &mut C, asked: calls::Accept4) -> Result<C::Outcome, Errno> {
    let flags = asked.flags.get() as i32;
    if flags & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) != 0 {
        return Err(Errno(libc::EINVAL));
    }
    if asked.addr.0 != 0 {
        c.memory().read_ahead(asked.addrlen.0 as u64)?;
    }
    let child = match c.accept() {
        Ok(child) => child,
        Err(Errno(libc::EAGAIN)) => return c.wait(Limit::Receive, 0, libc::EAGAIN),
        Err(errno) => return Err(errno),
    };
    if asked.addr.0 != 0 {
        let address = c.accepted_address(child);
        let told = address.and_then(|address| c.memory().write_address(&address, asked.addr.0 as u64, asked.addrlen.0 as u64));
        if let Err(errno) = told {
            c.give_up(child);
            return Err(errno);
        }
    }
    c.hand_over(child, flags)
}
