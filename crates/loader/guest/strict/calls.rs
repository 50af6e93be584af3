//! Calls in real time that are not the kernel's alone. None: the kernel is to answer.

use super::descriptors::{drop_made, hand};
use super::thread as strict_thread;
use crate::abi::kind;
use crate::block::Thread;
use crate::call::descriptors::{copied, is_of_descriptor};
use crate::call::positions::{RWF_NOWAIT, RWF_SUPPORTED, WHERE_IT_STANDS, as_recvmsg, as_sendmsg, moves_nothing};
use crate::call::{data, files};
use crate::calls::*;
use crate::descriptor;
use crate::forward::{Answer, forward, kernel as by_kernel, unsupported};
use crate::proc;
use crate::sys;

const AF_UNIX: i32 = 1;
const AF_ALG: i32 = 38;

fn kind_of(t: &mut Thread, fd: Fd) -> u64 {
    let word = descriptor::word(t, fd.0);
    descriptor::kind_of(word)
}

/// Calls on sockets, and reading and writing.
fn on<C: Call>(t: &mut Thread, call: &C, fd: Fd) -> Option<Answer> {
    let word = descriptor::word(t, fd.0);
    match descriptor::kind_of(word) {
        kind::VIRTUAL => Some(Ok(forward(t, call, word))),
        kind::NONE => Some(Err(sys::EBADF)),
        _ => None,
    }
}

macro_rules! on_sockets {
    ($($name:ident $call:ident $page:literal;)*) => { $(
        #[doc = $page]
        pub fn $name(t: &mut Thread, call: $call) -> Option<Answer> {
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
    read Read "read(2)";
    readv Readv "readv(2)";
    recvfrom Recvfrom "recvfrom(2)";
    recvmmsg Recvmmsg "recvmmsg(2)";
    recvmsg Recvmsg "recvmsg(2)";
    sendmmsg Sendmmsg "sendmmsg(2)";
    sendmsg Sendmsg "sendmsg(2)";
    sendto Sendto "sendto(2)";
    setsockopt Setsockopt "setsockopt(2)";
    shutdown Shutdown "shutdown(2)";
    write Write "write(2)";
    writev Writev "writev(2)";
}

/// socket(2)
pub fn socket(t: &mut Thread, call: Socket) -> Option<Answer> {
    if matches!(call.family.get(), AF_UNIX | AF_ALG) {
        return None;
    }
    let made = forward(t, &call, 0);
    Some(Ok(if made < 0 { made } else { hand(t, call.kind.0) }))
}

/// accept(2)
pub fn accept(t: &mut Thread, call: Accept) -> Option<Answer> {
    accepting(t, &call, call.fd, 0)
}

/// accept4(2)
pub fn accept4(t: &mut Thread, call: Accept4) -> Option<Answer> {
    accepting(t, &call, call.fd, call.flags.0)
}

fn accepting<C: Call>(t: &mut Thread, call: &C, fd: Fd, flags: usize) -> Option<Answer> {
    let word = descriptor::word(t, fd.0);
    match descriptor::kind_of(word) {
        kind::VIRTUAL => {}
        kind::NONE => return Some(Err(sys::EBADF)),
        _ => return None,
    }
    // The end of a pair, whose other end is the controller's.
    if let Err(errno) = descriptor::has_room::<2>() {
        return Some(Err(errno));
    }
    let taken = forward(t, call, word);
    if taken == sys::EFAULT {
        // Its address could not be written: the kernel closes what was accepted.
        drop_made(t);
    }
    Some(Ok(if taken < 0 { taken } else { hand(t, flags) }))
}

/// close(2)
pub fn close(t: &mut Thread, call: Close) -> Option<Answer> {
    let fd = call.fd.index();
    match descriptor::kind_of(descriptor::word(t, fd)) {
        kind::VIRTUAL | kind::EPOLL | kind::NONE => Some(Ok(descriptor::close(t, fd))),
        _ => {
            descriptor::forget(t, fd);
            None
        }
    }
}

/// close_range(2), around what is ours.
pub fn close_range(t: &mut Thread, call: CloseRange) -> isize {
    const UNSHARE: usize = 2;
    const CLOEXEC: usize = 4;
    let (first, last, flags) = (call.fd.get() as usize, call.max_fd.get() as usize, call.flags.0);
    if flags & !(UNSHARE | CLOEXEC) != 0 || first > last {
        return sys::EINVAL;
    }
    super::descriptors::close_range(t, first, last, flags)
}

/// preadv2(2) where the descriptor stands: on a socket readv, or what does not wait.
pub fn preadv2(t: &mut Thread, call: Preadv2) -> Option<Answer> {
    // What the kernel says of the placeholder's place and of flags holds for a socket, too.
    if call.pos_l.get() != WHERE_IT_STANDS || call.flags.0 & !RWF_SUPPORTED != 0 {
        return None;
    }
    if call.flags.0 & RWF_NOWAIT == 0 || moves_nothing(call.vec, call.vlen) {
        return on(t, &Readv { fd: call.fd, vec: call.vec, vlen: call.vlen }, call.fd);
    }
    let mut message = [0; 7];
    on(t, &as_recvmsg(call.fd, call.vec, call.vlen, &mut message), call.fd)
}

/// pwritev2(2), likewise.
pub fn pwritev2(t: &mut Thread, call: Pwritev2) -> Option<Answer> {
    if call.pos_l.get() != WHERE_IT_STANDS || call.flags.0 & !RWF_SUPPORTED != 0 {
        return None;
    }
    if call.flags.0 & RWF_NOWAIT == 0 || moves_nothing(call.vec, call.vlen) {
        return on(t, &Writev { fd: call.fd, vec: call.vec, vlen: call.vlen }, call.fd);
    }
    let mut message = [0; 7];
    on(t, &as_sendmsg(call.fd, call.vec, call.vlen, &mut message), call.fd)
}

/// fcntl(2)
pub fn fcntl(t: &mut Thread, call: Fcntl) -> Option<Answer> {
    const F_DUPFD: i32 = 0;
    const F_DUPFD_CLOEXEC: i32 = 1030;
    matches!(call.cmd.get(), F_DUPFD | F_DUPFD_CLOEXEC).then(|| Ok(copied(t, &call, call.fd)))
}

/// ioctl(2)
pub fn ioctl(t: &mut Thread, call: Ioctl) -> Option<Answer> {
    let what = call.cmd.0 as u32 as usize;
    let request = call.cmd.get() as u32;
    if requests::makes_interfaces(request) {
        // They would be the host's, whatever the descriptor.
        return Some(unsupported(t, Ioctl::NUMBER, what, sys::EPERM));
    }
    let interfaces = requests::is_about_interfaces(request);
    let word = descriptor::word(t, call.fd.0);
    let ours = descriptor::kind_of(word) == kind::VIRTUAL || interfaces && descriptor::is_socket(call.fd.0);
    // The owner of a socket's file is the kernel's affair, as by fcntl(2).
    (ours && !is_of_descriptor(what) && !requests::is_about_owner(request)).then(|| Ok(forward(t, &call, word)))
}

/// sendfile(2)
pub fn sendfile(t: &mut Thread, call: Sendfile) -> Option<Answer> {
    let (to, from) = (kind_of(t, call.out_fd), kind_of(t, call.in_fd));
    if to == kind::VIRTUAL && matches!(from, kind::FILE | kind::RANDOM) {
        return Some(data::send_file(t, call));
    }
    [to, from].contains(&kind::VIRTUAL).then(|| crate::call::splice::sendfile(t, call))
}

/// splice(2)
pub fn splice(t: &mut Thread, call: Splice) -> Option<Answer> {
    let kinds = [kind_of(t, call.fd_in), kind_of(t, call.fd_out)];
    kinds.contains(&kind::VIRTUAL).then(|| crate::call::splice::with_socket(t, call))
}

/// open(2)
pub fn open(t: &mut Thread, call: Open) -> Option<Answer> {
    let filename = files::path_of(t, call.filename);
    (filename != call.filename).then(|| Ok(by_kernel(&Open { filename, ..call })))
}

/// openat(2)
pub fn openat(t: &mut Thread, call: Openat) -> Option<Answer> {
    let filename = files::path_of(t, call.filename);
    (filename != call.filename).then(|| Ok(by_kernel(&Openat { filename, ..call })))
}

/// openat2(2)
pub fn openat2(t: &mut Thread, call: Openat2) -> Option<Answer> {
    let filename = files::path_of(t, call.filename);
    (filename != call.filename).then(|| Ok(by_kernel(&Openat2 { filename, ..call })))
}

/// readlink(2)
pub fn readlink(t: &mut Thread, call: Readlink) -> Option<Answer> {
    proc::whose_executable(t, call.path.0).is_some().then(|| files::readlink(t, call))
}

/// readlinkat(2)
pub fn readlinkat(t: &mut Thread, call: Readlinkat) -> Option<Answer> {
    proc::whose_executable(t, call.pathname.0).is_some().then(|| files::readlinkat(t, call))
}

/// prctl(2): what is here is a thread's own way into the loader.
pub fn prctl(t: &mut Thread, call: Prctl) -> Option<Answer> {
    const PR_SET_SECCOMP: usize = 22;
    const PR_SET_SYSCALL_USER_DISPATCH: usize = 59;
    let what = call.option.0;
    matches!(what, PR_SET_SECCOMP | PR_SET_SYSCALL_USER_DISPATCH).then(|| unsupported(t, Prctl::NUMBER, what, sys::EINVAL))
}

/// arch_prctl(2): what is here is a thread's own way back.
pub fn arch_prctl(t: &mut Thread, call: ArchPrctl) -> Option<Answer> {
    const ARCH_SET_GS: usize = 0x1001;
    const ARCH_GET_GS: usize = 0x1004;
    let what = call.option.0;
    matches!(what, ARCH_SET_GS | ARCH_GET_GS).then(|| unsupported(t, ArchPrctl::NUMBER, what, sys::EPERM))
}

/// exit(2)
pub fn exit(t: &mut Thread, call: Exit) -> isize {
    strict_thread::exit(t, call.error_code.0)
}
