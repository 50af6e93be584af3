//! Reading and writing descriptors of the kernel's that may block. They never block here: each attempt is made with O_NONBLOCK, and a
//! thread that has to wait tells the controller, which lets it try again when something may have changed.

use crate::abi;
use crate::arena::header;
use crate::arena::{monotonic, touched};
use crate::block::Thread;
use crate::calls::number as nr;
use crate::channel::post;
use crate::channel::real::PollFd;
use crate::descriptor;
use crate::sys;
use core::sync::atomic::Ordering::Relaxed;

pub const SIGPIPE: u64 = 13;
pub const SOL_SOCKET: usize = 1;
const SO_ERROR: usize = 4;
const SO_RCVTIMEO: usize = 20;
const SO_SNDTIMEO: usize = 21;
const POLLIN: u64 = 1;
const POLLOUT: u64 = 4;
const POLLRDHUP: u16 = 0x2000;

/// An option of a socket: its first eight bytes. None: it has none, or is no socket.
pub fn option(fd: usize, name: usize) -> Option<[u64; 2]> {
    let mut value = [0_u64; 2];
    let mut length = 16_u32;
    let found = sys::call(nr::GETSOCKOPT, &[fd, SOL_SOCKET, name, value.as_mut_ptr() as usize, &raw mut length as usize]);
    (found == 0).then_some(value)
}

/// How long a call on a descriptor of the kernel's waits at most. Looked up when it has to wait for the first time.
#[derive(Default)]
pub struct Patience {
    /// By CLOCK_MONOTONIC; 0: for ever.
    until: Option<u64>,
}

impl Patience {
    /// Waits until something may have changed. The errno to return: the time is over, or a signal came.
    pub fn wait(&mut self, t: &mut Thread, fd: usize, number: usize, writes: bool) -> Result<(), isize> {
        let now = monotonic();
        let until = *self.until.get_or_insert_with(|| {
            // struct timeval; all zero: none.
            match option(fd, if writes { SO_SNDTIMEO } else { SO_RCVTIMEO }) {
                Some([0, 0]) | None => 0,
                Some([seconds, micros]) => now.saturating_add(seconds.saturating_mul(1_000_000_000)).saturating_add(micros * 1000).max(1),
            }
        });
        if until != 0 && monotonic() >= until {
            return Err(sys::EAGAIN);
        }
        if post(t, abi::BLOCKED, &[fd as u64, if writes { POLLOUT } else { POLLIN }, number as u64, until]) < 0 {
            // net/core/sock.c, sock_intr_errno: "return timeo == MAX_SCHEDULE_TIMEOUT ? -ERESTARTSYS : -EINTR;"
            return Err(if until == 0 { abi::RESTART as isize } else { sys::EINTR });
        }
        // sock_alloc_send_pskb looks at the socket's error when it has waited; a new call would find first that the other end is closed, which is EPIPE.
        match if writes { option(fd, SO_ERROR).map_or(0, |error| error[0] as i32) } else { 0 } {
            0 => Ok(()),
            error => Err(-error as isize),
        }
    }
}

/// Is a socket shut for reading, so that a call that receives there does not wait? Only one that may wait is told so: __unix_dgram_recvmsg leaves EAGAIN as it
/// is where it does not call __skb_wait_for_more_packets ("Socket shut down? if (sk->sk_shutdown & RCV_SHUTDOWN) goto out_noerr;"), and so does unix_accept.
pub fn is_shut(fd: usize) -> bool {
    let mut one = [PollFd { fd: fd as i32, events: POLLRDHUP, found: 0 }];
    sys::call(nr::POLL, &[one.as_mut_ptr() as usize, 1, 0]) > 0 && one[0].found & POLLRDHUP != 0
}

/// A call that blocks in the kernel, as attempts that do not. `writes`: it writes.
pub fn blocking(t: &mut Thread, number: usize, a: &[usize; 6], writes: bool) -> isize {
    let fd = a[0];
    let flags = descriptor::flags(fd);
    let look = |t: &mut Thread| {
        if !writes && header().terminals.load(Relaxed) != 0 {
            let word = descriptor::word(t, fd);
            crate::terminals::look(fd, word);
        }
    };
    if flags & descriptor::NONBLOCK != 0 {
        look(t);
        let result = sys::call(number, a);
        touched();
        return after(t, result, writes);
    }
    let mut done = 0_isize;
    let mut arguments = *a;
    let mut patience = Patience::default();
    loop {
        look(t);
        descriptor::set_flags(fd, flags | descriptor::NONBLOCK);
        let mut result = sys::call(number, &arguments);
        descriptor::set_flags(fd, flags);
        if result == sys::EAGAIN && !writes && is_shut(fd) {
            result = sys::call(number, &arguments);
        }
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
        if let Err(errno) = patience.wait(t, fd, number, writes) {
            return if done > 0 { done } else { errno };
        }
    }
}

/// Which argument of a call that moves data inside the kernel is the other descriptor, beside the first; None: there is none.
fn other_at(number: usize) -> Option<usize> {
    match number {
        nr::SPLICE => Some(2),
        nr::VMSPLICE => None,
        // tee(2), sendfile(2)
        _ => Some(1),
    }
}

/// splice, tee, vmsplice and sendfile between descriptors of the kernel's, neither of which blocks.
pub fn between(t: &mut Thread, number: usize, a: &[usize; 6]) -> isize {
    const SPLICE_F_NONBLOCK: usize = 2;
    // Which argument the flags are.
    let flags_at = match number {
        nr::SPLICE => Some(5),
        nr::TEE | nr::VMSPLICE => Some(3),
        _ => None,
    };
    let other = other_at(number).map(|at| a[at]);
    let mut arguments = *a;
    let mut impatient = false;
    if let Some(at) = flags_at {
        impatient = a[at] & SPLICE_F_NONBLOCK != 0;
        arguments[at] |= SPLICE_F_NONBLOCK;
    }
    let ends = [Some(a[0]), other.filter(|fd| *fd != a[0])];
    let before = ends.map(|fd| fd.map_or(0, descriptor::flags));
    impatient |= before.iter().any(|flags| flags & descriptor::NONBLOCK != 0);
    let mut done = 0;
    loop {
        for (fd, flags) in ends.into_iter().zip(before) {
            if let Some(fd) = fd {
                descriptor::set_flags(fd, flags | descriptor::NONBLOCK);
            }
        }
        let result = sys::call(number, &arguments);
        for (fd, flags) in ends.into_iter().zip(before) {
            if let Some(fd) = fd {
                descriptor::set_flags(fd, flags);
            }
        }
        if result != sys::EAGAIN {
            touched();
        }
        if result > 0 && number == nr::SENDFILE && (result as usize) < arguments[3] && !impatient && descriptor::is_socket(a[0]) {
            // sendfile(2) that may wait sends everything there is; into a pipe, only what fits.
            done += result;
            arguments[3] -= result as usize;
            continue;
        }
        if result != sys::EAGAIN || impatient {
            return if done > 0 { done + result.max(0) } else { after(t, result, true) };
        }
        if post(t, abi::BLOCKED, &[u64::MAX, 0, number as u64]) < 0 {
            return if done > 0 { done } else { abi::RESTART as isize };
        }
    }
}

pub fn after(t: &mut Thread, result: isize, writes: bool) -> isize {
    if result == sys::EPIPE && writes {
        post(t, abi::RAISED, &[SIGPIPE]);
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

/// connect, accept and accept4 of AF_UNIX sockets.
pub fn connection(t: &mut Thread, number: usize, a: &[usize; 6]) -> isize {
    let result = blocking(t, number, a, number == nr::CONNECT);
    if result >= 0 && number != nr::CONNECT {
        // The accepted one inherits nothing of the listener's flags on Linux; O_NONBLOCK was set on the listener only.
        descriptor::forget(t, result as usize);
    }
    result
}
