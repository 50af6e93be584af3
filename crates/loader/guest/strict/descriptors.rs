//! Descriptors of the controller's sockets, which are made here: an end of a pair whose other end the controller has.

use crate::abi::{self, kind, strict};
use crate::block::{FILES, Thread};
use crate::calls::Call;
use crate::calls::number as nr;
use crate::channel::post;
use crate::channel::real::{join, tell};
use crate::descriptor;
use crate::forward::{forward, receive_from};
use crate::hidden::is_hidden;
use crate::sys;

const F_SETFD: usize = 2;

/// What the controller has just made or accepted gets no descriptor.
pub fn drop_made(t: &mut Thread) {
    post(t, strict::DROPPED, &[]);
}

/// Makes the descriptor of what the controller has just made or accepted. `flags`: SOCK_CLOEXEC, SOCK_NONBLOCK.
pub fn hand(t: &mut Thread, flags: usize) -> isize {
    const SOCK_CLOEXEC: usize = 0x8_0000;
    const SOCK_NONBLOCK: usize = 0x800;
    const AF_UNIX: usize = 1;
    const SOCK_STREAM: usize = 1;
    let mut pair = [-1_i32; 2];
    let kind = SOCK_STREAM | SOCK_CLOEXEC | flags & SOCK_NONBLOCK;
    let made = sys::call(nr::SOCKETPAIR, &[AF_UNIX, kind, 0, pair.as_mut_ptr() as usize]);
    if made < 0 {
        drop_made(t);
        return made;
    }
    let (theirs, ours) = (pair[0] as usize, pair[1] as usize);
    let inode = descriptor::inode(theirs);
    let told = tell(t, strict::OBJECT, inode, ours);
    sys::call(nr::CLOSE, &[ours]);
    if told < 0 {
        sys::call(nr::CLOSE, &[theirs]);
        drop_made(t);
        return told;
    }
    if flags & SOCK_CLOEXEC == 0 {
        sys::call(nr::FCNTL, &[theirs, F_SETFD, 0]);
    }
    descriptor::remember(t, theirs, kind::VIRTUAL << 56 | inode);
    theirs as isize
}

/// Makes a call whose result is a file of the controller's, which comes by a pair of sockets made for it. Its descriptor, or an errno.
pub fn receive_handed<C: Call>(t: &mut Thread, call: &C, word: u64) -> isize {
    const AF_UNIX: usize = 1;
    const STREAM: usize = 1 | 0x8_0000;
    if let Err(errno) = join(t, false) {
        return errno;
    }
    let mut pair = [-1_i32; 2];
    let made = sys::call(nr::SOCKETPAIR, &[AF_UNIX, STREAM, 0, pair.as_mut_ptr() as usize]);
    if made < 0 {
        return made;
    }
    let (ours, theirs) = (pair[0] as usize, pair[1] as usize);
    let told = tell(t, strict::PASSAGE, 0, theirs);
    sys::call(nr::CLOSE, &[theirs]);
    let result = if told < 0 { told } else { forward(t, call, word) };
    // The controller has sent it, if at all, before it answered.
    let file = if result < 0 { result } else { receive_from(ours, result as i64) };
    sys::call(nr::CLOSE, &[ours]);
    if result >= 0 && file < 0 { sys::EMFILE } else { file }
}

/// close_range(2), around what is ours.
pub fn close_range(t: &mut Thread, first: usize, last: usize, flags: usize) -> isize {
    const UNSHARE: usize = 2;
    const CLOEXEC: usize = 4;
    if flags & UNSHARE != 0
        && let Err(errno) = descriptor::separate(t)
    {
        return errno;
    }
    if flags & CLOEXEC == 0 {
        descriptor::forget_range(t, first, last);
    }
    let mut from = first;
    // Every number that can be one of ours.
    for fd in first..=last.min(FILES.max(abi::DESCRIPTOR_CONTROL as usize)) {
        if is_hidden(fd as i32) {
            if from < fd {
                let result = sys::call(nr::CLOSE_RANGE, &[from, fd - 1, flags]);
                if result < 0 {
                    return result;
                }
            }
            from = fd + 1;
        }
    }
    let result = if from <= last { sys::call(nr::CLOSE_RANGE, &[from, last, flags]) } else { 0 };
    if result >= 0 && flags & CLOEXEC == 0 {
        descriptor::closed(t, kind::VIRTUAL << 56);
    }
    result
}
