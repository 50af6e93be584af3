//! Reading and writing at a place: pread, preadv2 and their kind, whatever the descriptor is; and randomness by other ways than read(2).

use crate::abi::{self, kind};
use crate::channel::post;
use crate::descriptor;
use crate::dispatch::{self, Answer};
use crate::local;
use crate::native;
use crate::sheet;
use crate::sys;
use crate::thread::Thread;
use crate::x86_64::numbers as nr;

pub const ESPIPE: isize = -29;
/// fs/read_write.c: "if (unlikely(flags & ~RWF_SUPPORTED)) return -EOPNOTSUPP;" HIPRI, DSYNC, SYNC, NOWAIT, APPEND, NOAPPEND, ATOMIC, DONTCACHE.
pub const RWF_SUPPORTED: usize = 0xff;
pub const RWF_NOWAIT: usize = 8;
const RWF_NOAPPEND: usize = 0x20;
const MSG_DONTWAIT: usize = 0x40;
/// Most that one transfer moves.
const PIECE_BYTES: usize = 4096;
const VECTORS_MAX: usize = 1024;

/// pread64, pwrite64, preadv, pwritev, preadv2, pwritev2
pub fn call(t: &mut Thread, number: usize, a: &[usize; 6]) -> Answer {
    let word = descriptor::word(t, a[0]);
    match descriptor::kind_of(word) {
        kind::NONE => Err(sys::EBADF),
        kind::FILE => Ok(in_file(t, number, a)),
        what => {
            let second = matches!(number, nr::PREADV2 | nr::PWRITEV2);
            let flags = if second { a[5] } else { 0 };
            // "If offset is -1, the current file offset is used", as by readv and writev.
            if second && a[3] == usize::MAX {
                return at_end(t, number, a, word, flags);
            }
            if (a[3] as isize) < 0 {
                return Err(sys::EINVAL);
            }
            match (what, number) {
                (kind::RANDOM, nr::PREAD64) => local::getrandom(t, a[1], a[2]),
                (kind::RANDOM, nr::PREADV | nr::PREADV2) => random_vectors(t, a[1], a[2]),
                // Of these only the node's settings have places.
                (kind::VIRTUAL, nr::PREAD64 | nr::PWRITE64) => Ok(dispatch::forward(t, number, a, word)),
                (kind::VIRTUAL, _) => Err(ESPIPE),
                // Some have no place and read all the same (eventfd).
                _ => Ok(native::blocking(t, number, a, matches!(number, nr::PWRITE64 | nr::PWRITEV | nr::PWRITEV2))),
            }
        }
    }
}

/// The same in a file.
fn in_file(t: &mut Thread, number: usize, a: &[usize; 6]) -> isize {
    let mut arguments = *a;
    if number == nr::PWRITEV2 && a[5] & RWF_NOAPPEND != 0 && sheet::is(a[0]) {
        arguments[5] &= !RWF_NOAPPEND;
    }
    let result = sys::call(number, &arguments);
    if matches!(number, nr::PWRITE64 | nr::PWRITEV | nr::PWRITEV2) && result > 0 {
        local::count_written(t, result as usize);
    }
    result
}

/// preadv2 and pwritev2 of a socket that are not to wait, as a call on sockets: which, and its arguments. `message` is room for its struct msghdr.
pub fn as_message(number: usize, a: &[usize; 6], message: &mut [usize; 7]) -> (usize, [usize; 6]) {
    *message = [0, 0, a[1], a[2], 0, 0, 0];
    let number = if number == nr::PWRITEV2 { nr::SENDMSG } else { nr::RECVMSG };
    (number, [a[0], message.as_ptr() as usize, MSG_DONTWAIT, 0, 0, 0])
}

/// preadv2 and pwritev2 where the descriptor stands.
fn at_end(t: &mut Thread, number: usize, a: &[usize; 6], word: u64, flags: usize) -> Answer {
    let writes = number == nr::PWRITEV2;
    if flags & !RWF_SUPPORTED != 0 {
        return Err(sys::EOPNOTSUPP);
    }
    if flags & RWF_NOWAIT != 0 {
        return match descriptor::kind_of(word) {
            kind::VIRTUAL => {
                let mut message = [0; 7];
                let (number, one) = as_message(number, a, &mut message);
                Ok(dispatch::forward(t, number, &one, word))
            }
            kind::RANDOM if !writes => random_vectors(t, a[1], a[2]),
            _ => {
                let result = sys::call(number, a);
                native::touched();
                Ok(native::after(t, result, writes))
            }
        };
    }
    dispatch::data(t, if writes { nr::WRITEV } else { nr::READV }, &[a[0], a[1], a[2], 0, 0, 0])
}

/// Random bytes into a list of buffers.
pub fn random_vectors(t: &mut Thread, vectors: usize, count: usize) -> Answer {
    if count > VECTORS_MAX {
        return Err(sys::EINVAL);
    }
    let mut done = 0;
    for index in 0..count {
        let (base, bytes) = (sys::read_u64(vectors + 16 * index)? as usize, sys::read_u64(vectors + 16 * index + 8)? as usize);
        if (bytes as isize) < 0 {
            return Err(sys::EINVAL);
        }
        match local::getrandom(t, base, bytes) {
            Ok(count) => done += count,
            Err(errno) if done == 0 => return Err(errno),
            Err(_) => break,
        }
    }
    Ok(done)
}

/// sendfile(2) and splice(2) from /dev/random and /dev/urandom.
pub fn send_random(t: &mut Thread, number: usize, a: &[usize; 6]) -> Answer {
    const SPLICE_F_NONBLOCK: usize = 2;
    /// MAX_RW_COUNT
    const BYTES_MAX: usize = 0x7fff_f000;
    if number == nr::SENDFILE {
        if descriptor::word(t, a[0]) == 0 {
            return Err(sys::EBADF);
        }
        let mut done = 0;
        while done < a[3].min(BYTES_MAX) {
            let mut piece = [0_u8; PIECE_BYTES];
            let count = (a[3] - done).min(PIECE_BYTES);
            local::random_bytes(t, &mut piece[..count]);
            let wrote = match dispatch::data(t, nr::WRITE, &[a[0], piece.as_ptr() as usize, count, 0, 0, 0]) {
                Ok(wrote) | Err(wrote) => wrote,
            };
            if wrote <= 0 {
                return Ok(if done > 0 { done as isize } else { wrote });
            }
            done += wrote as usize;
            if (wrote as usize) < count {
                break;
            }
        }
        if a[2] != 0 {
            sys::write_u64(a[2], sys::read_u64(a[2])?.wrapping_add(done as u64))?;
        }
        return Ok(done as isize);
    }
    // Something else than a pipe, or a place in it: the kernel knows the errno, and moves nothing.
    if a[3] != 0 || !descriptor::is_pipe(a[2]) {
        return Ok(sys::call(number, &[a[0], a[1], a[2], a[3], 0, a[5]]));
    }
    let count = a[4].min(PIECE_BYTES);
    let mut piece = [0_u8; PIECE_BYTES];
    local::random_bytes(t, &mut piece[..count]);
    let flags = descriptor::flags(a[2]);
    loop {
        descriptor::set_flags(a[2], flags | descriptor::NONBLOCK);
        let wrote = sys::call(nr::WRITE, &[a[2], piece.as_ptr() as usize, count]);
        descriptor::set_flags(a[2], flags);
        if wrote != sys::EAGAIN || flags & descriptor::NONBLOCK != 0 || a[5] & SPLICE_F_NONBLOCK != 0 {
            native::touched();
            return Ok(native::after(t, wrote, true));
        }
        if post(t, abi::BLOCKED, &[a[2] as u64, 4, number as u64]) < 0 {
            return Ok(abi::RESTART as isize);
        }
    }
}
