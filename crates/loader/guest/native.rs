//! Reading and writing descriptors of the kernel's that may block. They never block here: each attempt is made with O_NONBLOCK, and a
//! thread that has to wait tells the controller, which lets it try again when something may have changed.

use crate::abi;
use crate::channel::{header, post};
use crate::descriptor;
use crate::sys;
use crate::thread::Thread;
use crate::x86_64::numbers as nr;
use core::sync::atomic::Ordering::Relaxed;

const POLLIN: u64 = 1;
const POLLOUT: u64 = 4;

/// Something that others may wait for has been done with a descriptor of the kernel's.
pub fn touched() {
    header().activity.fetch_add(1, Relaxed);
}

/// A call that blocks in the kernel, as attempts that do not. `writes`: it writes.
pub fn blocking(t: &mut Thread, number: usize, a: &[usize; 6], writes: bool) -> isize {
    let fd = a[0];
    let flags = descriptor::flags(fd);
    if flags & descriptor::NONBLOCK != 0 {
        let result = sys::call(number, a);
        touched();
        return after(t, result, writes);
    }
    let mut done = 0_isize;
    let mut arguments = *a;
    let mut until = None;
    loop {
        descriptor::set_flags(fd, flags | descriptor::NONBLOCK);
        let result = sys::call(number, &arguments);
        descriptor::set_flags(fd, flags);
        if result != sys::EAGAIN {
            touched();
        }
        match result {
            sys::EAGAIN => {}
            // A blocking write writes everything.
            count if count > 0 && number == nr::WRITE && (count as usize) < arguments[2] => {
                done += count;
                arguments[1] += count as usize;
                arguments[2] -= count as usize;
                continue;
            }
            count if count > 0 && number == nr::WRITEV => return rest_of_vectors(t, a, count),
            failed if failed < 0 && done > 0 => {
                after(t, failed, writes);
                return done;
            }
            other => return after(t, other + if other > 0 { done } else { 0 }, writes),
        }
        match wait(t, fd, number, writes, &mut until) {
            0 => {}
            _ if done > 0 => return done,
            ended => return ended,
        }
    }
}

/// Waits until it may be worth another attempt: 0. Else what the call comes to: a signal, or the time limit of a socket (SO_RCVTIMEO, SO_SNDTIMEO) is over.
/// `until`: what is known of that.
fn wait(t: &mut Thread, fd: usize, number: usize, writes: bool, until: &mut Option<u64>) -> isize {
    let until = *until.get_or_insert_with(|| limit(fd, writes));
    match post(t, abi::BLOCKED, &[fd as u64, if writes { POLLOUT } else { POLLIN }, number as u64, until]) {
        0 => 0,
        1 => sys::EAGAIN,
        _ => abi::RESTART as isize,
    }
}

/// When the time limit of a socket will be over, by the node's clock; 0: it has none.
fn limit(fd: usize, writes: bool) -> u64 {
    const SOL_SOCKET: usize = 1;
    const SO_RCVTIMEO: usize = 20;
    const SO_SNDTIMEO: usize = 21;
    let mut limit = [0_u64; 2];
    let mut length = size_of_val(&limit) as u32;
    let option = if writes { SO_SNDTIMEO } else { SO_RCVTIMEO };
    let arguments = [fd, SOL_SOCKET, option, limit.as_mut_ptr() as usize, core::ptr::from_mut(&mut length) as usize];
    // ENOTSOCK: no limit.
    if sys::call(nr::GETSOCKOPT, &arguments) < 0 || limit == [0; 2] {
        return 0;
    }
    let nanos = limit[0].saturating_mul(1_000_000_000).saturating_add(limit[1].saturating_mul(1000));
    header().now.load(Relaxed).saturating_add(nanos)
}

fn after(t: &mut Thread, result: isize, writes: bool) -> isize {
    if result == sys::EPIPE && writes {
        post(t, abi::BROKEN_PIPE, &[]);
    }
    result
}

/// A gathered write that came to a stop in the middle goes on buffer by buffer.
fn rest_of_vectors(t: &mut Thread, a: &[usize; 6], count: isize) -> isize {
    let mut skip = count as usize;
    let mut done = count;
    for index in 0..a[2] {
        let (Ok(base), Ok(bytes)) = (sys::read_u64(a[1] + 16 * index), sys::read_u64(a[1] + 16 * index + 8)) else { return done };
        let bytes = bytes as usize;
        if skip >= bytes {
            skip -= bytes;
            continue;
        }
        let wrote = blocking(t, nr::WRITE, &[a[0], base as usize + skip, bytes - skip, 0, 0, 0], true);
        skip = 0;
        if wrote < 0 {
            return done;
        }
        done += wrote;
    }
    done
}

const MSG_DONTWAIT: usize = 0x40;
const MSG_NOSIGNAL: usize = 0x4000;

/// sendto, recvfrom, sendmsg, recvmsg of AF_UNIX sockets. `flags`: which argument.
pub fn message(t: &mut Thread, number: usize, a: &[usize; 6], flags: usize, writes: bool) -> isize {
    let nonblocking = a[flags] & MSG_DONTWAIT != 0 || descriptor::flags(a[0]) & descriptor::NONBLOCK != 0;
    let mut arguments = *a;
    arguments[flags] |= MSG_DONTWAIT;
    let mut until = None;
    loop {
        let result = sys::call(number, &arguments);
        if result != sys::EAGAIN {
            touched();
            plain_control(number, a, result);
            return if a[flags] & MSG_NOSIGNAL == 0 { after(t, result, writes) } else { result };
        }
        if nonblocking {
            return result;
        }
        match wait(t, a[0], number, writes, &mut until) {
            0 => {}
            ended => return ended,
        }
    }
}

/// What came with a message may say when.
fn plain_control(number: usize, a: &[usize; 6], result: isize) {
    // struct mmsghdr: a msghdr of 56 bytes and a length.
    let count = match number {
        nr::RECVMSG if result >= 0 => 1,
        nr::RECVMMSG => result.max(0) as usize,
        _ => 0,
    };
    for index in 0..count {
        // Whoever gave a bad address was told so by the kernel.
        let _ = crate::plain::control(a[1] + 64 * index);
    }
}

/// connect, accept and accept4 of AF_UNIX sockets.
pub fn connection(t: &mut Thread, number: usize, a: &[usize; 6]) -> isize {
    let result = blocking(t, number, a, number == nr::CONNECT);
    if result >= 0 && number != nr::CONNECT {
        // The accepted one inherits nothing of the listener's flags on Linux; O_NONBLOCK was set on the listener only.
        descriptor::forget(t, result as usize);
    }
    result
}

/// flock(2) and the waiting locks of fcntl(2): tried, and tried again when something has changed.
pub fn lock(t: &mut Thread, attempt: impl Fn() -> isize) -> isize {
    loop {
        let result = attempt();
        if result != sys::EAGAIN && result != sys::EACCES {
            touched();
            return result;
        }
        if post(t, abi::BLOCKED, &[u64::MAX, 0, nr::FLOCK as u64]) < 0 {
            return abi::RESTART as isize;
        }
    }
}
