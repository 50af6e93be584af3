//! Reading and writing where a descriptor stands, and moving data inside the kernel.

use crate::abi::kind;
use crate::ahead;
use crate::arena::touched;
use crate::block::{PIECE_BYTES, Thread};
use crate::calls::{Call, CopyFileRange, Fd, InBytes, Read, Readv, Sendfile, Size, Splice, Tee, Vmsplice, Write, Writev};
use crate::descriptor;
use crate::forward::{Answer, Answered, forward, kernel};
use crate::native;
use crate::output_file;
use crate::random;
use crate::scrub;
use crate::sys;
use crate::terminal;
use crate::trace;

/// read(2)
pub fn read(t: &mut Thread, call: Read) -> Answer {
    let word = descriptor::word(t, call.fd.0);
    match descriptor::kind_of(word) {
        kind::VIRTUAL => Ok(of_socket(t, &call, word)),
        kind::RANDOM => random::give(t, call.buf.0, call.count.0),
        _ => {
            let result = of_kernel(t, &call, word);
            descriptor::taken(t, call.fd.0, word, result);
            if result > 0 && scrub::tells_of_files(word) {
                scrub::inotify(call.buf.0, result as usize)?;
            }
            Ok(result)
        }
    }
}

/// readv(2)
pub fn readv(t: &mut Thread, call: Readv) -> Answer {
    let word = descriptor::word(t, call.fd.0);
    match descriptor::kind_of(word) {
        kind::VIRTUAL => Ok(of_socket(t, &call, word)),
        kind::RANDOM => random::give_vectors(t, call.vec.0, call.vlen.0),
        _ => {
            let result = of_kernel(t, &call, word);
            descriptor::taken(t, call.fd.0, word, result);
            if result > 0 && scrub::tells_of_files(word) {
                // The first buffer, if it holds it all.
                let (base, bytes) = (sys::read_u64(call.vec.0)? as usize, sys::read_u64(call.vec.0 + 8)? as usize);
                scrub::inotify(base, (result as usize).min(bytes))?;
            }
            Ok(result)
        }
    }
}

/// write(2)
pub fn write(t: &mut Thread, call: Write) -> Answer {
    let word = descriptor::word(t, call.fd.0);
    if descriptor::kind_of(word) == kind::VIRTUAL {
        return Ok(of_socket(t, &call, word));
    }
    let result = of_kernel(t, &call, word);
    count(t, word, result);
    if result > 0 {
        trace::fold_bytes(call.buf.0, result as usize);
    }
    Ok(result)
}

/// writev(2)
pub fn writev(t: &mut Thread, call: Writev) -> Answer {
    let word = descriptor::word(t, call.fd.0);
    if descriptor::kind_of(word) == kind::VIRTUAL {
        return Ok(of_socket(t, &call, word));
    }
    let result = of_kernel(t, &call, word);
    count(t, word, result);
    Ok(result)
}

/// The controller's, unless it can be answered ahead of it.
pub fn of_socket<C: Call>(t: &mut Thread, call: &C, word: u64) -> isize {
    ahead::socket(t, C::NUMBER, &call.words(), word).unwrap_or_else(|| forward(t, call, word))
}

/// The kernel's, which does not wait in there.
fn of_kernel<C: Call>(t: &mut Thread, call: &C, word: u64) -> isize {
    match descriptor::kind_of(word) {
        kind::NATIVE => terminal::data(t, C::NUMBER, &call.words(), word),
        kind::NONE => sys::EBADF,
        _ => kernel(call),
    }
}

fn count(t: &mut Thread, word: u64, result: isize) {
    if descriptor::kind_of(word) == kind::FILE && result > 0 {
        trace::count_written(t, result as usize);
    }
}

fn kind_of(t: &mut Thread, fd: Fd) -> u64 {
    let word = descriptor::word(t, fd.0);
    descriptor::kind_of(word)
}

/// sendfile(2)
pub fn sendfile(t: &mut Thread, call: Sendfile) -> Answer {
    let (from, to) = (kind_of(t, call.in_fd), kind_of(t, call.out_fd));
    // The kernel has none to a file that is appended to.
    if from == kind::FILE && (to == kind::VIRTUAL || output_file::is(call.out_fd.0)) {
        return send_file(t, call);
    }
    if from == kind::RANDOM {
        return send_random(t, call);
    }
    if from == kind::VIRTUAL || to == kind::VIRTUAL {
        return super::splice::sendfile(t, call);
    }
    Ok(native::between(t, Sendfile::NUMBER, &call.words()))
}

/// sendfile(2) from a file to a socket, or to standard output: read here, sent as write(2) sends.
pub fn send_file(t: &mut Thread, call: Sendfile) -> Answer {
    use crate::calls::number as nr;
    const SEEK_SET: usize = 0;
    let (from, offset, count) = (call.in_fd.0, call.offset.0, call.count.0);
    let word = descriptor::word(t, call.out_fd.0);
    let began = super::splice::ends_of_sendfile(&call)?.began;
    let gives = gives(from);
    if count > 0 && gives == Gives::Nothing {
        return Err(sys::EINVAL);
    }
    let piece = t.piece();
    let mut done = 0;
    let mut last = 0;
    while done < count {
        let wanted = (count - done).min(PIECE_BYTES);
        let read = sys::call(nr::PREAD64, &[from, piece, wanted, began + done]);
        let one = Write { fd: call.out_fd, buf: InBytes(piece), count: Size(read as usize) };
        last = match descriptor::kind_of(word) {
            _ if read <= 0 => read,
            kind::VIRTUAL => forward(t, &one, word),
            _ => write(t, one).word(),
        };
        if last <= 0 {
            break;
        }
        done += last as usize;
        // splice_to_socket asks the socket until all is sent, or it fails: an error that ended a send is told and forgotten here.
        if last < read && t.goes_to_a_handler() {
            break;
        }
    }
    if done == 0 {
        return Ok(last);
    }
    if gives == Gives::WithoutPlaces {
        return Ok(done as isize);
    }
    if offset != 0 {
        sys::write_u64(offset, (began + done) as u64)?;
    } else {
        sys::call(nr::LSEEK, &[from, began + done, SEEK_SET]);
    }
    Ok(done as isize)
}

/// What sendfile(2) gets of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gives {
    Bytes,
    /// A device has no places: those that are asked for are left as they are.
    WithoutPlaces,
    /// do_splice_read: "if (unlikely(!in->f_op->splice_read)) return warn_unsupported(in, "read");", which is EINVAL, of folders and /dev/null.
    Nothing,
}

fn gives(fd: usize) -> Gives {
    const S_IFMT: u32 = 0o170_000;
    const S_IFDIR: u32 = 0o040_000;
    const S_IFCHR: u32 = 0o020_000;
    /// Major 1, minor 3.
    const NULL: u64 = 0x103;
    let mut stat = [0_u64; 18];
    let found = sys::call(crate::calls::number::FSTAT, &[fd, stat.as_mut_ptr() as usize]);
    // struct stat: st_mode at 24, st_rdev at 40.
    match (stat[3] as u32 & S_IFMT, stat[5]) {
        _ if found != 0 => Gives::Bytes,
        (S_IFDIR, _) | (S_IFCHR, NULL) => Gives::Nothing,
        (S_IFCHR, _) => Gives::WithoutPlaces,
        _ => Gives::Bytes,
    }
}

/// sendfile(2) from /dev/random and /dev/urandom.
fn send_random(t: &mut Thread, call: Sendfile) -> Answer {
    /// MAX_RW_COUNT
    const BYTES_MAX: usize = 0x7fff_f000;
    const PIECE_BYTES: usize = 4096;
    super::splice::ends_of_sendfile(&call)?;
    let mut done = 0;
    while done < call.count.0.min(BYTES_MAX) {
        let mut piece = [0_u8; PIECE_BYTES];
        let count = (call.count.0 - done).min(PIECE_BYTES);
        random::bytes(t, &mut piece[..count]);
        let wrote = write(t, Write { fd: call.out_fd, buf: InBytes(piece.as_ptr() as usize), count: Size(count) }).word();
        if wrote <= 0 {
            return Ok(if done > 0 { done as isize } else { wrote });
        }
        done += wrote as usize;
        if (wrote as usize) < count {
            break;
        }
    }
    Ok(done as isize)
}

/// splice(2)
pub fn splice(t: &mut Thread, call: Splice) -> Answer {
    let (from, to) = (kind_of(t, call.fd_in), kind_of(t, call.fd_out));
    if from == kind::RANDOM {
        return splice_random(t, call);
    }
    if from == kind::VIRTUAL || to == kind::VIRTUAL {
        return super::splice::with_socket(t, call);
    }
    Ok(native::between(t, Splice::NUMBER, &call.words()))
}

/// splice(2) from /dev/random and /dev/urandom.
fn splice_random(t: &mut Thread, call: Splice) -> Answer {
    use super::splice::{SPLICE_F_ALL, SPLICE_F_NONBLOCK, can_be_written};
    use crate::abi;
    use crate::calls::number as nr;
    use crate::channel::post;
    const PIECE_BYTES: usize = 4096;
    let to = call.fd_out.0;
    let flags = descriptor::flags(to);
    // Something else than a pipe, a place in it, or the wrong end: the kernel knows the errno, and moves nothing.
    if call.off_out.0 != 0 || !descriptor::is_pipe(to) || !can_be_written(flags as usize) || call.flags.0 & !SPLICE_F_ALL != 0 {
        return Ok(kernel(&call));
    }
    let count = call.len.0.min(PIECE_BYTES);
    let mut piece = [0_u8; PIECE_BYTES];
    random::bytes(t, &mut piece[..count]);
    loop {
        descriptor::set_flags(to, flags | descriptor::NONBLOCK);
        let wrote = sys::call(nr::WRITE, &[to, piece.as_ptr() as usize, count]);
        descriptor::set_flags(to, flags);
        if wrote != sys::EAGAIN || flags & descriptor::NONBLOCK != 0 || call.flags.0 & SPLICE_F_NONBLOCK != 0 {
            touched();
            return Ok(native::after(t, wrote, true));
        }
        if post(t, abi::BLOCKED, &[to as u64, 4, Splice::NUMBER as u64]) < 0 {
            return Ok(abi::RESTART as isize);
        }
    }
}

/// tee(2)
pub fn tee(t: &mut Thread, call: Tee) -> Answer {
    if kind_of(t, call.fdin) == kind::VIRTUAL || kind_of(t, call.fdout) == kind::VIRTUAL {
        // It has none with a socket, either, and knows the errno.
        return Ok(kernel(&call));
    }
    Ok(native::between(t, Tee::NUMBER, &call.words()))
}

/// vmsplice(2)
pub fn vmsplice(t: &mut Thread, call: Vmsplice) -> isize {
    native::between(t, Vmsplice::NUMBER, &call.words())
}

/// copy_file_range(2)
pub fn copy_file_range(_: &mut Thread, call: CopyFileRange) -> isize {
    let result = kernel(&call);
    touched();
    result
}
