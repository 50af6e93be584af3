//! splice(2) between a pipe and a socket of the node's. The pipe is the kernel's and the socket the controller's, so the bytes go through here.
//!
//! Out of a socket they are taken, no more than the pipe has room for, and then put into it. Out of a pipe they are looked at, sent, and taken away
//! as many as the socket has taken: what it refuses stays. As the kernel's pipes have a mutex, one thread of a process at a time works on an end of
//! a pipe. Plain reads and writes of that pipe, and other processes that have it, do not wait for it (`splice-beside` of docs/compatibility.md).

use crate::abi;
use crate::block::{PIECE_BYTES, Thread};
use crate::calls::{Sendfile, Splice, number as nr};
use crate::channel::real::{self, PollFd};
use crate::descriptor;
use crate::forward::{Answer, forward_words};
use crate::native::{self, Patience};
use crate::sys;
use crate::turns::SPLICES;

pub(super) const SPLICE_F_NONBLOCK: usize = 2;
const SPLICE_F_MORE: usize = 4;
pub(super) const SPLICE_F_ALL: usize = 15;
const MSG_MORE: usize = 0x8000;
const POLLIN: u16 = 1;
const POLLOUT: u16 = 4;
const POLLERR: u16 = 8;
const O_ACCMODE: usize = 3;
const O_RDONLY: usize = 0;
const O_WRONLY: usize = 1;
const O_APPEND: usize = 0o2000;
const O_PATH: usize = 0o10_000_000;
const F_GETFL: usize = 3;
const F_GETPIPE_SZ: usize = 1032;
const FIONREAD: usize = 0x541b;
const ESPIPE: isize = -29;
const ENOTSOCK: isize = -88;
/// A pipe that can be written takes so many without blocking.
const PIPE_BUF: usize = 4096;

/// The flags of a descriptor's file, or EBADF.
fn file_flags(fd: usize) -> Result<usize, isize> {
    let flags = sys::call(nr::FCNTL, &[fd, F_GETFL]);
    if flags < 0 || flags as usize & O_PATH != 0 { Err(sys::EBADF) } else { Ok(flags as usize) }
}

fn can_be_read(flags: usize) -> bool {
    flags & O_ACCMODE != O_WRONLY
}
pub(super) fn can_be_written(flags: usize) -> bool {
    flags & O_ACCMODE != O_RDONLY
}

/// splice(2) of which one side is a socket of the node's, as fs/splice.c looks at what it is given.
pub fn with_socket(t: &mut Thread, call: Splice) -> Answer {
    let (from, to, length, flags) = (call.fd_in.0, call.fd_out.0, call.len.0, call.flags.0 as u32 as usize);
    // "if (unlikely(!len)) return 0; if (unlikely(flags & ~SPLICE_F_ALL)) return -EINVAL;", then EBADF of both descriptors.
    if length == 0 {
        return Ok(0);
    }
    if flags & !SPLICE_F_ALL != 0 {
        return Err(sys::EINVAL);
    }
    let (of_from, of_to) = (file_flags(from)?, file_flags(to)?);
    let (out_of_pipe, into_pipe) = (descriptor::is_pipe(from), descriptor::is_pipe(to));
    // __do_splice: "if (ipipe && off_in) return -ESPIPE; if (opipe && off_out) return -ESPIPE; if (off_out) { if (copy_from_user(…)) return -EFAULT;"
    if out_of_pipe && call.off_in.0 != 0 || into_pipe && call.off_out.0 != 0 {
        return Err(ESPIPE);
    }
    for offset in [call.off_out.0, call.off_in.0] {
        if offset != 0 {
            sys::read_u64(offset)?;
        }
    }
    // do_splice: "if (unlikely(!(in->f_mode & FMODE_READ) || !(out->f_mode & FMODE_WRITE))) return -EBADF;"
    if !can_be_read(of_from) || !can_be_written(of_to) {
        return Err(sys::EBADF);
    }
    // Nothing but pipes and sockets meets here. "if (!(out->f_mode & FMODE_PWRITE)) return -EINVAL;", rw_verify_area: "if (unlikely((ssize_t) count
    // < 0))"
    if out_of_pipe == into_pipe || call.off_in.0 != 0 || call.off_out.0 != 0 || (length as isize) < 0 {
        return Err(sys::EINVAL);
    }
    // "if (unlikely(out->f_flags & O_APPEND)) return -EINVAL;"
    if out_of_pipe && of_to & O_APPEND != 0 {
        return Err(sys::EINVAL);
    }
    let of_pipe = if into_pipe { of_to } else { of_from };
    let at_once = flags & SPLICE_F_NONBLOCK != 0 || of_pipe & descriptor::NONBLOCK as usize != 0;
    if into_pipe { from_socket(t, from, to, length, at_once) } else { to_socket(t, from, to, length, flags, at_once) }
}

/// The two files of a sendfile(2): their flags, and where the first is read.
pub(super) struct Ends {
    of_from: usize,
    of_to: usize,
    pub began: usize,
}

/// do_sendfile, as far as it looks at what it is given.
pub(super) fn ends_of_sendfile(call: &Sendfile) -> Result<Ends, isize> {
    const SEEK_CUR: usize = 1;
    let (from, to, offset) = (call.in_fd.0, call.out_fd.0, call.offset.0);
    let place = if offset == 0 { None } else { Some(sys::read_u64(offset)? as usize) };
    // "if (!(fd_file(in)->f_mode & FMODE_READ)) return -EBADF; … if (!(fd_file(in)->f_mode & FMODE_PREAD)) return -ESPIPE;" An eventfd has no places,
    // though lseek(2) gives one (noop_llseek).
    let of_from = file_flags(from)?;
    if !can_be_read(of_from) {
        return Err(sys::EBADF);
    }
    let stands = sys::call(nr::LSEEK, &[from, 0, SEEK_CUR]);
    let mut nothing = [0_u8];
    if place.is_some() && (stands == ESPIPE || sys::call(nr::PREAD64, &[from, nothing.as_mut_ptr() as usize, 0, 0]) == ESPIPE) {
        return Err(ESPIPE);
    }
    let began = place.unwrap_or(stands.max(0) as usize);
    // rw_verify_area: "if (unlikely((ssize_t) count < 0)) return -EINVAL; … if (unlikely(pos < 0)) { if (!unsigned_offsets(file)) return -EINVAL;"
    if (call.count.0 as isize) < 0 || (began as isize) < 0 {
        return Err(sys::EINVAL);
    }
    let of_to = file_flags(to)?;
    if !can_be_written(of_to) {
        return Err(sys::EBADF);
    }
    Ok(Ends { of_from, of_to, began })
}

/// sendfile(2) of which one side is a socket of the node's, and the other no file that has places.
pub fn sendfile(t: &mut Thread, call: Sendfile) -> Answer {
    let (from, to, count) = (call.in_fd.0, call.out_fd.0, call.count.0);
    let Ends { of_from, of_to, .. } = ends_of_sendfile(&call)?;
    // "if (!opipe) { … } else { if (fd_file(out)->f_flags & O_NONBLOCK) fl |= SPLICE_F_NONBLOCK; retval = splice_file_to_pipe(…); }";
    // splice_direct_to_actor: "if (unlikely(!(in->f_mode & FMODE_LSEEK))) return -EINVAL;"
    if !descriptor::is_pipe(to) {
        // Of nothing there is nothing to do, for files that can give nothing, too.
        return if count == 0 && !descriptor::is_socket(from) && !descriptor::is_pipe(from) { Ok(0) } else { Err(sys::EINVAL) };
    }
    from_socket(t, from, to, count, (of_from | of_to) & descriptor::NONBLOCK as usize != 0)
}

/// What a pipe shows of these events, POLLERR and POLLHUP.
fn shown(pipe: usize, events: u16) -> u16 {
    let mut one = [PollFd { fd: pipe as i32, events, found: 0 }];
    if sys::call(nr::POLL, &[one.as_mut_ptr() as usize, 1, 0]) > 0 { one[0].found } else { 0 }
}

/// Waits until a pipe can be read or written.
fn wait_at(t: &mut Thread, pipe: usize, events: u16, at_once: bool) -> Result<(), isize> {
    let mut patience = Patience::default();
    while shown(pipe, events) == 0 {
        if at_once {
            return Err(sys::EAGAIN);
        }
        if !t.strict.on {
            patience.wait(t, pipe, nr::SPLICE, events == POLLOUT)?;
            continue;
        }
        let mask = t.strict.mask;
        let mut one = [PollFd { fd: pipe as i32, events, found: 0 }];
        if real::waiting(t, nr::PPOLL, &[one.as_mut_ptr() as usize, 1, 0, &raw const mask as usize, 8, 0]) < 0 {
            return Err(abi::RESTART as isize);
        }
    }
    Ok(())
}

/// Reads or writes a pipe, and never blocks.
fn natively(t: &Thread, number: usize, pipe: usize, at: usize, bytes: usize) -> isize {
    if t.strict.on {
        return really(number, pipe, at, bytes);
    }
    let flags = descriptor::flags(pipe);
    descriptor::set_flags(pipe, flags | descriptor::NONBLOCK);
    let result = sys::call(number, &[pipe, at, bytes]);
    descriptor::set_flags(pipe, flags);
    crate::arena::touched();
    result
}

/// In real time other threads run meanwhile, and would see O_NONBLOCK.
fn really(number: usize, pipe: usize, at: usize, bytes: usize) -> isize {
    const RWF_NOWAIT: usize = 8;
    const WHERE_IT_STANDS: usize = usize::MAX;
    let vector = [at, bytes];
    let (vectored, events) = if number == nr::READ { (nr::PREADV2, POLLIN) } else { (nr::PWRITEV2, POLLOUT) };
    let result = sys::call(vectored, &[pipe, vector.as_ptr() as usize, 1, WHERE_IT_STANDS, 0, RWF_NOWAIT]);
    if result != sys::EOPNOTSUPP {
        return result;
    }
    // A pipe before Linux 6.4, or one that has a name.
    if shown(pipe, events) == 0 {
        return sys::EAGAIN;
    }
    sys::call(number, &[pipe, at, if number == nr::READ { bytes } else { bytes.min(PIPE_BUF) }])
}

/// An end of a pipe, as [`SPLICES`] knows it: not 0.
fn end_of(pipe: usize, writes: bool) -> u64 {
    descriptor::inode(pipe) << 1 | u64::from(writes) | 1 << 63
}

/// How many bytes a pipe that can be written takes at once.
fn room(pipe: usize) -> usize {
    let mut there = 0_i32;
    let bytes = sys::call(nr::FCNTL, &[pipe, F_GETPIPE_SZ]);
    let is_empty = sys::call(nr::IOCTL, &[pipe, FIONREAD, &raw mut there as usize]) == 0 && there == 0;
    if is_empty { PIECE_BYTES.min(bytes.max(0) as usize).max(PIPE_BUF) } else { PIPE_BUF }
}

fn from_socket(t: &mut Thread, socket: usize, pipe: usize, length: usize, at_once: bool) -> Answer {
    let word = descriptor::word(t, socket);
    let at = t.piece();
    loop {
        // wait_for_space: "if (unlikely(!pipe->readers)) { send_sig(SIGPIPE, current, 0); return -EPIPE; } if (!pipe_full(…)) return 0;"
        wait_at(t, pipe, POLLOUT, at_once)?;
        if shown(pipe, POLLOUT) & POLLERR != 0 {
            return broken_pipe(t);
        }
        if length == 0 {
            return Ok(0);
        }
        let moved = SPLICES.with(t, end_of(pipe, true), nr::SPLICE, |t| {
            // Another thread may have filled it.
            if shown(pipe, POLLOUT) & (POLLOUT | POLLERR) != POLLOUT {
                return Ok(None);
            }
            let got = forward_words(t, nr::RECVFROM, &[socket, at, length.min(room(pipe)), 0, 0, 0], word);
            if got > 0 {
                put(t, pipe, at, got as usize);
            }
            Ok(Some(if got == ENOTSOCK { sys::EINVAL } else { got }))
        })?;
        if let Some(moved) = moved {
            return Ok(moved);
        }
    }
}

/// splice and sendfile into a pipe that nobody reads.
fn broken_pipe(t: &mut Thread) -> Answer {
    if t.strict.on {
        real::raise(native::SIGPIPE as usize);
        return Err(sys::EPIPE);
    }
    Err(native::after(t, sys::EPIPE, true))
}

/// Puts what a socket has given into a pipe that had room for it a moment ago. Who has written into it since makes this wait, whatever signal
/// comes: the socket does not take the bytes back. Where the last reader has gone since they go where they would have gone with the pipe.
fn put(t: &mut Thread, pipe: usize, mut at: usize, mut bytes: usize) {
    while bytes > 0 && shown(pipe, POLLOUT) & POLLERR == 0 {
        let wrote = natively(t, nr::WRITE, pipe, at, bytes);
        match wrote {
            sys::EAGAIN if t.strict.on => {
                let mut one = [PollFd { fd: pipe as i32, events: POLLOUT, found: 0 }];
                sys::call(nr::POLL, &[one.as_mut_ptr() as usize, 1, usize::MAX]);
            }
            sys::EAGAIN => drop(crate::channel::post(t, abi::BLOCKED, &[pipe as u64, POLLOUT.into(), nr::SPLICE as u64, 0])),
            1.. => (at, bytes) = (at + wrote as usize, bytes - wrote as usize),
            _ => return,
        }
    }
}

fn to_socket(t: &mut Thread, pipe: usize, socket: usize, length: usize, flags: usize, at_once: bool) -> Answer {
    let word = descriptor::word(t, socket);
    let more = if flags & SPLICE_F_MORE != 0 { MSG_MORE } else { 0 };
    let at = t.piece();
    let mut done = 0;
    while done < length {
        // splice_from_pipe_next: who has moved something does not wait for more.
        let moved = wait_at(t, pipe, POLLIN, at_once || done > 0).and_then(|()| {
            // "pipe_lock(pipe); … ret = sock_sendmsg(sock, &msg);": others wait until the socket has taken it.
            SPLICES.with(t, end_of(pipe, false), nr::SPLICE, |t| {
                let there = peeked(pipe, at, (length - done).min(PIECE_BYTES));
                if there <= 0 {
                    return Ok((there, there));
                }
                let sent = forward_words(t, nr::SENDTO, &[socket, at, there as usize, more, 0, 0], word);
                if sent > 0 {
                    natively(t, nr::READ, pipe, at, sent as usize);
                }
                Ok((sent, there))
            })
        });
        let (sent, there) = match moved {
            // Another thread has taken it.
            Ok((sys::EAGAIN, sys::EAGAIN)) if !at_once && done == 0 => continue,
            Ok(moved) => moved,
            Err(errno) => (errno, errno),
        };
        if sent <= 0 {
            return Ok(if done > 0 {
                done as isize
            } else if sent == ENOTSOCK {
                sys::EINVAL
            } else {
                sent
            });
        }
        done += sent as usize;
        // splice_to_socket asks the socket until all is sent, or it fails.
        if sent < there && t.goes_to_a_handler() {
            break;
        }
    }
    Ok(done as isize)
}

/// Reads what a pipe has, and leaves it there. It takes two free numbers (`splice-numbers` of docs/compatibility.md).
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
