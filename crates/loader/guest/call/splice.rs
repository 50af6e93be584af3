//! splice(2) between a pipe and a socket of the node's. The pipe is the kernel's and the socket the controller's, so the bytes go through here: they are
//! looked at on one side, put into the other, and taken away as many as that has taken. Nothing is lost, whatever comes in between.

use crate::abi;
use crate::block::{PIECE_BYTES, Thread};
use crate::calls::{Splice, number as nr};
use crate::channel::real::{self, PollFd};
use crate::descriptor;
use crate::forward::{Answer, forward_words};
use crate::native::{self, Patience};
use crate::sys;

const SPLICE_F_NONBLOCK: usize = 2;
const SPLICE_F_MORE: usize = 4;
const SPLICE_F_ALL: usize = 15;
const MSG_PEEK: usize = 2;
const MSG_DONTWAIT: usize = 0x40;
const MSG_MORE: usize = 0x8000;
const POLLIN: u16 = 1;
const POLLOUT: u16 = 4;
const ESPIPE: isize = -29;
const ENOTSOCK: isize = -88;
/// A pipe that can be written takes so many without blocking.
const PIPE_BUF: usize = 4096;

/// splice(2) of which one side is a socket of the node's.
pub fn with_socket(t: &mut Thread, call: Splice) -> Answer {
    let (from, to) = (call.fd_in.0, call.fd_out.0);
    let into_pipe = descriptor::is_pipe(to);
    // __do_splice: "if (ipipe && off_in) return -ESPIPE; if (opipe && off_out) return -ESPIPE;"; do_splice: no file that has no places.
    let (pipes, sockets) = if into_pipe { (call.off_out.0, call.off_in.0) } else { (call.off_in.0, call.off_out.0) };
    if call.flags.0 & !SPLICE_F_ALL != 0 || !into_pipe && !descriptor::is_pipe(from) {
        return Err(sys::EINVAL);
    }
    if call.len.0 == 0 {
        return Ok(0);
    }
    if pipes != 0 {
        return Err(ESPIPE);
    }
    if sockets != 0 {
        return Err(sys::EINVAL);
    }
    let pipe = if into_pipe { to } else { from };
    let at_once = call.flags.0 & SPLICE_F_NONBLOCK != 0 || descriptor::flags(pipe) & descriptor::NONBLOCK != 0;
    if into_pipe { from_socket(t, from, to, call.len.0, at_once) } else { to_socket(t, from, to, call.len.0, call.flags.0, at_once) }
}

/// Waits until a pipe can be read or written: what it shows.
fn wait_at(t: &mut Thread, pipe: usize, events: u16, at_once: bool) -> Result<(), isize> {
    let mut patience = Patience::default();
    loop {
        let mut one = [PollFd { fd: pipe as i32, events, found: 0 }];
        if sys::call(nr::POLL, &[one.as_mut_ptr() as usize, 1, 0]) != 0 {
            return Ok(());
        }
        if at_once {
            return Err(sys::EAGAIN);
        }
        if !t.strict.on {
            patience.wait(t, pipe, nr::SPLICE, events == POLLOUT)?;
            continue;
        }
        let mask = t.strict.mask;
        if real::waiting(t, nr::PPOLL, &[one.as_mut_ptr() as usize, 1, 0, &raw const mask as usize, 8, 0]) < 0 {
            return Err(abi::RESTART as isize);
        }
    }
}

/// Reads or writes a pipe that would not block, and does not. In real time other threads run meanwhile, and would see O_NONBLOCK.
fn natively(t: &Thread, number: usize, pipe: usize, at: usize, bytes: usize) -> isize {
    if t.strict.on {
        return sys::call(number, &[pipe, at, bytes]);
    }
    let flags = descriptor::flags(pipe);
    descriptor::set_flags(pipe, flags | descriptor::NONBLOCK);
    let result = sys::call(number, &[pipe, at, bytes]);
    descriptor::set_flags(pipe, flags);
    crate::arena::touched();
    result
}

fn from_socket(t: &mut Thread, socket: usize, pipe: usize, length: usize, at_once: bool) -> Answer {
    let word = descriptor::word(t, socket);
    let at = t.piece();
    let most = if t.strict.on { PIPE_BUF } else { PIECE_BYTES };
    loop {
        // splice_file_to_pipe waits for room before it reads.
        wait_at(t, pipe, POLLOUT, at_once)?;
        let there = forward_words(t, nr::RECVFROM, &[socket, at, length.min(most), MSG_PEEK, 0, 0], word);
        if there <= 0 {
            return Err(if there == ENOTSOCK { sys::EINVAL } else { there });
        }
        let wrote = natively(t, nr::WRITE, pipe, at, there as usize);
        if wrote == sys::EAGAIN && !at_once {
            continue;
        }
        if wrote > 0 {
            forward_words(t, nr::RECVFROM, &[socket, at, wrote as usize, MSG_DONTWAIT, 0, 0], word);
        }
        return Ok(if t.strict.on { wrote } else { native::after(t, wrote, true) });
    }
}

fn to_socket(t: &mut Thread, pipe: usize, socket: usize, length: usize, flags: usize, at_once: bool) -> Answer {
    let word = descriptor::word(t, socket);
    let more = if flags & SPLICE_F_MORE != 0 { MSG_MORE } else { 0 };
    let at = t.piece();
    let mut done = 0;
    while done < length {
        // splice_from_pipe_next: who has moved something does not wait for more.
        if let Err(errno) = wait_at(t, pipe, POLLIN, at_once || done > 0) {
            return if done > 0 { Ok(done as isize) } else { Err(errno) };
        }
        let there = peeked(pipe, at, (length - done).min(PIECE_BYTES));
        if there <= 0 {
            return Ok(if done > 0 { done as isize } else { there });
        }
        let sent = forward_words(t, nr::SENDTO, &[socket, at, there as usize, more, 0, 0], word);
        if sent <= 0 {
            return Ok(if done > 0 { done as isize } else if sent == ENOTSOCK { sys::EINVAL } else { sent });
        }
        natively(t, nr::READ, pipe, at, sent as usize);
        done += sent as usize;
        if sent < there {
            break;
        }
    }
    Ok(done as isize)
}

/// Reads what a pipe has, and leaves it there.
fn peeked(pipe: usize, at: usize, bytes: usize) -> isize {
    const O_CLOEXEC_NONBLOCK: usize = 0o2_004_000;
    let mut ends = [0_i32; 2];
    let made = sys::call(nr::PIPE2, &[ends.as_mut_ptr() as usize, O_CLOEXEC_NONBLOCK]);
    if made < 0 {
        return made;
    }
    let [reads, writes] = ends.map(|end| end as usize);
    let mut there = sys::call(nr::TEE, &[pipe, writes, bytes, SPLICE_F_NONBLOCK]);
    if there > 0 {
        there = sys::call(nr::READ, &[reads, at, there as usize]);
    }
    sys::call(nr::CLOSE, &[reads]);
    sys::call(nr::CLOSE, &[writes]);
    there
}
