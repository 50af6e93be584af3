//! Reading and writing at a place: pread, preadv2 and their kind, whatever the descriptor is.

use crate::abi::kind;
use crate::arena::touched;
use crate::block::Thread;
use crate::call::data;
use crate::calls::{
    Argument as _, Call, Fd, MsgFlags, In, InOut, Pread64, Preadv, Preadv2, Pwrite64, Pwritev, Pwritev2, Readv, Recvmsg, Sendmsg, Size,
    Writev, kernel::IoVecs,
};
use crate::descriptor;
use crate::forward::{Answer, forward, kernel};
use crate::native;
use crate::output_file;
use crate::random;
use crate::sys::{self, VECTORS_MAX};
use crate::trace;

pub const ESPIPE: isize = -29;
/// fs/read_write.c: "if (unlikely(flags & ~RWF_SUPPORTED)) return -EOPNOTSUPP;" HIPRI, DSYNC, SYNC, NOWAIT, APPEND, NOAPPEND, ATOMIC, DONTCACHE.
pub const RWF_SUPPORTED: usize = 0xff;
pub const RWF_NOWAIT: usize = 8;
const RWF_NOAPPEND: usize = 0x20;
const MSG_DONTWAIT: usize = 0x40;
/// "If offset is -1, the current file offset is used", as by readv and writev.
pub const WHERE_IT_STANDS: isize = -1;

/// What of these calls has in common. `random`: what /dev/random has for it.
fn at_place<C: Call>(
    t: &mut Thread,
    call: &C,
    fd: Fd,
    place: isize,
    writes: bool,
    of_settings: bool,
    random: impl FnOnce(&mut Thread) -> Option<Answer>,
) -> Answer {
    let word = descriptor::word(t, fd.0);
    match descriptor::kind_of(word) {
        kind::NONE => Err(sys::EBADF),
        kind::FILE => Ok(in_file(t, call, writes)),
        _ if place < 0 => Err(sys::EINVAL),
        kind::RANDOM => match random(t) {
            Some(answer) => answer,
            None => Ok(native::blocking(t, C::NUMBER, &call.words(), writes)),
        },
        // Of these only the node's settings have places.
        kind::VIRTUAL if of_settings => Ok(forward(t, call, word)),
        kind::VIRTUAL => Err(ESPIPE),
        // Some have no place and read all the same (eventfd).
        _ => Ok(native::blocking(t, C::NUMBER, &call.words(), writes)),
    }
}

/// The same in a file.
fn in_file<C: Call>(t: &mut Thread, call: &C, writes: bool) -> isize {
    let result = kernel(call);
    if writes && result > 0 {
        trace::count_written(t, result as usize);
    }
    result
}

/// pread64(2)
pub fn pread64(t: &mut Thread, call: Pread64) -> Answer {
    at_place(t, &call, call.fd, call.pos.get(), false, true, |t| Some(random::give(t, call.buf.0, call.count.0)))
}

/// pwrite64(2)
pub fn pwrite64(t: &mut Thread, call: Pwrite64) -> Answer {
    at_place(t, &call, call.fd, call.pos.get(), true, true, |_| None)
}

/// preadv(2)
pub fn preadv(t: &mut Thread, call: Preadv) -> Answer {
    at_place(t, &call, call.fd, call.pos_l.get(), false, false, |t| Some(random::give_vectors(t, call.vec.0, call.vlen.0)))
}

/// pwritev(2)
pub fn pwritev(t: &mut Thread, call: Pwritev) -> Answer {
    at_place(t, &call, call.fd, call.pos_l.get(), true, false, |_| None)
}

/// preadv2(2)
pub fn preadv2(t: &mut Thread, call: Preadv2) -> Answer {
    let word = descriptor::word(t, call.fd.0);
    if call.pos_l.get() != WHERE_IT_STANDS || matches!(descriptor::kind_of(word), kind::NONE | kind::FILE) {
        return at_place(t, &call, call.fd, call.pos_l.get(), false, false, |t| Some(random::give_vectors(t, call.vec.0, call.vlen.0)));
    }
    if call.flags.0 & !RWF_SUPPORTED != 0 {
        return Err(sys::EOPNOTSUPP);
    }
    if call.flags.0 & RWF_NOWAIT == 0 || moves_nothing(call.vec, call.vlen) {
        return data::readv(t, Readv { fd: call.fd, vec: call.vec, vlen: call.vlen });
    }
    match descriptor::kind_of(word) {
        kind::VIRTUAL => {
            let mut message = [0; 7];
            let call = as_recvmsg(call.fd, call.vec, call.vlen, &mut message);
            Ok(forward(t, &call, word))
        }
        kind::RANDOM => random::give_vectors(t, call.vec.0, call.vlen.0),
        _ => {
            let result = kernel(&call);
            touched();
            Ok(native::after(t, result, false))
        }
    }
}

/// pwritev2(2)
pub fn pwritev2(t: &mut Thread, call: Pwritev2) -> Answer {
    let word = descriptor::word(t, call.fd.0);
    let what = descriptor::kind_of(word);
    if what == kind::FILE {
        let mut flags = call.flags;
        if flags.0 & RWF_NOAPPEND != 0 && output_file::is(call.fd.0) {
            flags.0 &= !RWF_NOAPPEND;
        }
        return Ok(in_file(t, &Pwritev2 { flags, ..call }, true));
    }
    if call.pos_l.get() != WHERE_IT_STANDS || what == kind::NONE {
        return at_place(t, &call, call.fd, call.pos_l.get(), true, false, |_| None);
    }
    if call.flags.0 & !RWF_SUPPORTED != 0 {
        return Err(sys::EOPNOTSUPP);
    }
    if call.flags.0 & RWF_NOWAIT == 0 || moves_nothing(call.vec, call.vlen) {
        return data::writev(t, Writev { fd: call.fd, vec: call.vec, vlen: call.vlen });
    }
    if what == kind::VIRTUAL {
        let mut message = [0; 7];
        let call = as_sendmsg(call.fd, call.vec, call.vlen, &mut message);
        return Ok(forward(t, &call, word));
    }
    let result = kernel(&call);
    touched();
    Ok(native::after(t, result, true))
}

/// Is there nothing to read or write, or are there too many buffers? Then the file is not asked (vfs_readv, vfs_writev: "if (!tot_len) goto out;"), while a
/// message of nothing is one, and of too many has another errno.
pub fn moves_nothing(vec: In<IoVecs>, vlen: Size) -> bool {
    vlen.0 > VECTORS_MAX || (0..vlen.0).all(|index| sys::read_u64(vec.0.wrapping_add(16 * index + 8)) == Ok(0))
}

/// preadv2 of a socket that is not to wait, as a call on sockets. `message` is room for its struct msghdr.
pub fn as_recvmsg(fd: Fd, vec: In<IoVecs>, vlen: Size, message: &mut [usize; 7]) -> Recvmsg {
    *message = [0, 0, vec.0, vlen.0, 0, 0, 0];
    Recvmsg { fd, msg: InOut::of(message.as_ptr() as usize), flags: MsgFlags(MSG_DONTWAIT) }
}

/// pwritev2, likewise.
pub fn as_sendmsg(fd: Fd, vec: In<IoVecs>, vlen: Size, message: &mut [usize; 7]) -> Sendmsg {
    *message = [0, 0, vec.0, vlen.0, 0, 0, 0];
    Sendmsg { fd, msg: In::of(message.as_ptr() as usize), flags: MsgFlags(MSG_DONTWAIT) }
}
