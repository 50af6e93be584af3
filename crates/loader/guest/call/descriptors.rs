//! What is done with descriptors themselves: fcntl, ioctl, locks, copies, close.

use crate::abi::{self, kind};
use crate::arena::is_own_machine;
use crate::block::Thread;
use crate::calls::{Call, Close, CloseRange, Dup, Dup2, Dup3, Fcntl, Fd, Flock, Ioctl, Pipe, Pipe2, Signalfd, Signalfd4, requests};
use crate::channel::post;
use crate::descriptor;
use crate::forward::{Answer, forward, kernel, unsupported};
use crate::layer;
use crate::locks;
use crate::output_file;
use crate::scrub;
use crate::sys;
use crate::terminal;
use core::sync::atomic::Ordering::Relaxed;

/// dup(2)
pub fn dup(t: &mut Thread, call: Dup) -> isize {
    copied(t, &call, call.fildes)
}

/// A call that makes a copy of a descriptor.
pub fn copied<C: Call>(t: &mut Thread, call: &C, fd: Fd) -> isize {
    let word = descriptor::word(t, fd.0);
    let result = kernel(call);
    if result >= 0 {
        descriptor::remember(t, result as usize, word);
    }
    result
}

/// dup2(2)
pub fn dup2(t: &mut Thread, call: Dup2) -> isize {
    copied_onto(t, &call, call.oldfd, call.newfd)
}

/// dup3(2)
pub fn dup3(t: &mut Thread, call: Dup3) -> isize {
    copied_onto(t, &call, call.oldfd, call.newfd)
}

/// What was there before is closed.
fn copied_onto<C: Call>(t: &mut Thread, call: &C, old: Fd, new: Fd) -> isize {
    let (old, new) = (old.index(), new.index());
    let (from, was) = (descriptor::word(t, old), if old == new { 0 } else { descriptor::word(t, new) });
    let going = descriptor::closing(t, new, was);
    let result = kernel(call);
    if result >= 0 && old != new {
        descriptor::remember(t, new, from);
        descriptor::gone(t, going);
    } else {
        descriptor::stays(t, going);
    }
    result
}

/// close(2)
pub fn close(t: &mut Thread, call: Close) -> isize {
    descriptor::close(t, call.fd.index())
}

/// close_range(2), around our own.
pub fn close_range(t: &mut Thread, call: CloseRange) -> isize {
    const UNSHARE: usize = 2;
    const CLOEXEC: usize = 4;
    let (first, last, flags) = (call.fd.get() as usize, call.max_fd.get() as usize, call.flags.0);
    if flags & !(UNSHARE | CLOEXEC) != 0 || first > last {
        return sys::EINVAL;
    }
    if flags & UNSHARE != 0
        && let Err(errno) = descriptor::separate(t)
    {
        return errno;
    }
    let close = |first: usize, last: usize| sys::call(CloseRange::NUMBER, &[first, last, flags]);
    let (low, high) = (abi::DESCRIPTOR_LOADER as usize, abi::DESCRIPTOR_CONTROL as usize);
    if flags & CLOEXEC == 0 {
        descriptor::forget_range(t, first, last);
    }
    let mut result = 0;
    if first < low {
        result = close(first, last.min(low - 1));
    }
    if result == 0 && last > high {
        result = close(first.max(high + 1), last);
    }
    if flags & CLOEXEC == 0 {
        descriptor::look_for_closed(t);
    }
    result
}

/// flock(2)
pub fn flock(t: &mut Thread, call: Flock) -> isize {
    layer::before_lock(t, call.fd.0);
    locks::flock(t, call.fd.0, call.cmd.get() as u32 as usize)
}

/// fcntl(2)
pub fn fcntl(t: &mut Thread, call: Fcntl) -> Answer {
    const F_DUPFD: usize = 0;
    const F_SETFL: usize = 4;
    const F_GETLK: usize = 5;
    const F_SETLK: usize = 6;
    const F_SETLKW: usize = 7;
    const F_SETSIG: usize = 10;
    const F_OFD_GETLK: usize = 36;
    const F_OFD_SETLK: usize = 37;
    const F_OFD_SETLKW: usize = 38;
    const F_SETLEASE: usize = 1024;
    const F_NOTIFY: usize = 1026;
    const F_DUPFD_CLOEXEC: usize = 1030;
    const O_ASYNC: usize = 0o20000;
    let (fd, what, argument) = (call.fd.0, call.cmd.get() as u32 as usize, call.arg.0);
    let refused = |t: &mut Thread| unsupported(t, Fcntl::NUMBER, what, sys::EINVAL);
    match what {
        F_SETFL => {
            let word = descriptor::word(t, fd);
            descriptor::flags_changed(word);
            if descriptor::kind_of(word) == kind::FILE && output_file::is(fd) {
                return Ok(output_file::set_flags(fd, argument));
            }
            // Signals of the kernel's would come at no virtual time.
            if argument & O_ASYNC != 0 && !descriptor::is_socket(fd) { refused(t) } else { Ok(settled(&call)) }
        }
        F_DUPFD | F_DUPFD_CLOEXEC => Ok(copied(t, &call, call.fd)),
        F_NOTIFY => refused(t),
        F_SETSIG if argument != 0 => refused(t),
        // An open(2) elsewhere would wait in the kernel for the holder of the lease, whom only a signal of the kernel's tells.
        F_SETLEASE => refused(t),
        F_SETLKW => Ok(locks::lock(t, fd, argument, || sys::call(Fcntl::NUMBER, &[fd, F_SETLK, argument]))),
        F_OFD_SETLKW => Ok(locks::lock(t, fd, 0, || sys::call(Fcntl::NUMBER, &[fd, F_OFD_SETLK, argument]))),
        F_GETLK | F_OFD_GETLK => Ok(locks::look(fd, what, argument)),
        _ => Ok(settled(&call)),
    }
}

/// The kernel's, after which others may find something changed.
fn settled(call: &Fcntl) -> isize {
    let result = kernel(call);
    crate::arena::touched();
    result
}

/// Requests of ioctl(2) that are the descriptor's own: FIONBIO, FIOASYNC, FIOCLEX, FIONCLEX.
pub fn is_of_descriptor(request: usize) -> bool {
    matches!(request, FIONBIO | FIOASYNC | 0x5451 | 0x5450)
}
const FIONBIO: usize = 0x5421;
const FIOASYNC: usize = 0x5452;

/// ioctl(2)
pub fn ioctl(t: &mut Thread, call: Ioctl) -> Answer {
    const NS_GET_OWNER_UID: usize = 0xb704;
    let (fd, what) = (call.fd.0, call.cmd.0 as u32 as usize);
    let word = descriptor::word(t, fd);
    if what == FIONBIO {
        descriptor::flags_changed(word);
    }
    let kind = descriptor::kind_of(word);
    let interfaces = requests::is_about_interfaces(what as u32) && kind == kind::NATIVE && descriptor::is_socket(fd);
    if word == 0 {
        Err(sys::EBADF)
    } else if scrub::hides(what) && matches!(kind, kind::FILE | kind::NATIVE) {
        Err(sys::ENOTTY)
    } else if what == NS_GET_OWNER_UID && is_own_machine() && kind == kind::FILE {
        // All namespaces that can be seen are root's.
        match kernel(&call) {
            0 => sys::write_u32(call.arg.0, 0).map(|()| 0),
            failed => Ok(failed),
        }
    } else if kind == kind::VIRTUAL && requests::is_about_owner(what as u32) {
        // The owner is the file's, which the kernel has; of what the controller has, sockets alone know of it.
        match forward(t, &call, word) {
            0 => Ok(kernel(&call)),
            failed => Ok(failed),
        }
    } else if !is_of_descriptor(what) && (kind == kind::VIRTUAL || interfaces) {
        Ok(forward(t, &call, word))
    } else if kind == kind::NATIVE && word & (abi::MASTER | abi::SLAVE) != 0 && word & abi::INOTIFY == 0 {
        Ok(terminal::control(t, &call.words(), word))
    } else if what == FIOASYNC && sys::read_u32(call.arg.0) != Ok(0) && !descriptor::is_socket(fd) {
        unsupported(t, Ioctl::NUMBER, what, sys::EINVAL)
    } else {
        Ok(kernel(&call))
    }
}

/// signalfd(2)
pub fn signalfd(t: &mut Thread, call: Signalfd) -> isize {
    let word = if call.ufd.get() == -1 { 0 } else { descriptor::word(t, call.ufd.0) };
    forward(t, &call, word)
}

/// signalfd4(2)
pub fn signalfd4(t: &mut Thread, call: Signalfd4) -> isize {
    let word = if call.ufd.get() == -1 { 0 } else { descriptor::word(t, call.ufd.0) };
    forward(t, &call, word)
}

/// pipe(2)
pub fn pipe(t: &mut Thread, call: Pipe) -> isize {
    make_pipe(t, &call, call.fildes.0)
}

/// pipe2(2)
pub fn pipe2(t: &mut Thread, call: Pipe2) -> isize {
    make_pipe(t, &call, call.fildes.0)
}

/// The kernel gives less room, or none, when the user whom all nodes are has many pipes on the host (pipe(7), pipe-user-pages-soft and -hard), which is told.
fn make_pipe<C: Call>(t: &mut Thread, call: &C, pair: usize) -> isize {
    const F_SETPIPE_SZ: usize = 1031;
    const F_GETPIPE_SZ: usize = 1032;
    const BYTES: isize = 65_536;
    const ENFILE: isize = -23;
    let result = kernel(call);
    let is_short = || {
        let fd = sys::read_u32(pair).unwrap_or(0) as usize;
        sys::call(Fcntl::NUMBER, &[fd, F_GETPIPE_SZ]) < BYTES && sys::call(Fcntl::NUMBER, &[fd, F_SETPIPE_SZ, BYTES as usize]) < BYTES
    };
    if is_own_machine() && (result == ENFILE || result == 0 && is_short()) {
        post(t, abi::HOST_LIMIT, &[abi::HOST_LIMIT_PIPE]);
    }
    result
}
