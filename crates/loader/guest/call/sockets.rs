//! Calls on sockets: the controller's, or the kernel's (AF_UNIX).

use crate::abi::kind;
use crate::block::Thread;
use crate::call::data;
use crate::calls::*;
use crate::descriptor;
use crate::forward::{Answer, forward, kernel as by_kernel};
use crate::sys;
use crate::unix;

const AF_UNIX: i32 = 1;

/// socket(2)
pub fn socket(t: &mut Thread, call: Socket) -> isize {
    if call.family.get() == AF_UNIX { by_kernel(&call) } else { forward(t, &call, 0) }
}

/// A call on a socket.
fn on<C: Call>(t: &mut Thread, call: &C, fd: Fd) -> Answer {
    let word = descriptor::word(t, fd.0);
    match descriptor::kind_of(word) {
        kind::NONE => Err(sys::EBADF),
        kind::VIRTUAL => Ok(data::of_socket(t, call, word)),
        kind::NATIVE => Ok(unix::call(t, C::NUMBER, &call.words())),
        _ => Ok(by_kernel(call)),
    }
}

macro_rules! on_sockets {
    ($($name:ident $call:ident $page:literal;)*) => { $(
        #[doc = $page]
        pub fn $name(t: &mut Thread, call: $call) -> Answer {
            on(t, &call, call.fd)
        }
    )* };
}

on_sockets! {
    bind Bind "bind(2)";
    connect Connect "connect(2)";
    getpeername Getpeername "getpeername(2)";
    getsockname Getsockname "getsockname(2)";
    getsockopt Getsockopt "getsockopt(2)";
    listen Listen "listen(2)";
    recvfrom Recvfrom "recvfrom(2)";
    recvmmsg Recvmmsg "recvmmsg(2)";
    recvmsg Recvmsg "recvmsg(2)";
    sendto Sendto "sendto(2)";
    setsockopt Setsockopt "setsockopt(2)";
    shutdown Shutdown "shutdown(2)";
}

/// accept(2)
pub fn accept(t: &mut Thread, call: Accept) -> Answer {
    accepted(t, &call, call.fd)
}

/// accept4(2)
pub fn accept4(t: &mut Thread, call: Accept4) -> Answer {
    accepted(t, &call, call.fd)
}

fn accepted<C: Call>(t: &mut Thread, call: &C, fd: Fd) -> Answer {
    if descriptor::kind_of(descriptor::word(t, fd.0)) == kind::VIRTUAL {
        descriptor::has_room::<1>()?;
    }
    on(t, call, fd)
}

/// sendmsg(2)
pub fn sendmsg(t: &mut Thread, call: Sendmsg) -> Answer {
    let word = descriptor::word(t, call.fd.0);
    if descriptor::kind_of(word) == kind::NATIVE && descriptor::hands_on_ours(call.msg.0) {
        return Err(sys::EBADF);
    }
    on(t, &call, call.fd)
}

/// sendmmsg(2)
pub fn sendmmsg(t: &mut Thread, call: Sendmmsg) -> Answer {
    const MANY_MAX: usize = 1024;
    /// A struct msghdr of 56 bytes and a length.
    const MMSGHDR_BYTES: usize = 64;
    let word = descriptor::word(t, call.fd.0);
    let hands_on = |index: usize| descriptor::hands_on_ours(call.mmsg.0 + MMSGHDR_BYTES * index);
    if descriptor::kind_of(word) == kind::NATIVE && (0..call.vlen.0.min(MANY_MAX)).any(hands_on) {
        return Err(sys::EBADF);
    }
    on(t, &call, call.fd)
}
