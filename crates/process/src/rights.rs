//! Descriptors that go along with a message on a unix socket (SCM_RIGHTS).

use std::io::IoSlice;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use weft_intercept::sys::{self, Errno};

/// Sends bytes and up to eight descriptors.
pub(super) fn send(socket: BorrowedFd<'_>, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let vector = IoSlice::new(bytes);
    let mut control = [0_u64; 8];
    let payload = size_of_val(descriptors).min(32);
    // SAFETY: an all-zero msghdr is valid; the control buffer has room for a header and eight descriptors, and is aligned.
    let sent = unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = (&raw const vector).cast_mut().cast();
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(payload as u32) as usize;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(payload as u32) as usize;
        for (index, fd) in descriptors.iter().take(8).enumerate() {
            libc::CMSG_DATA(header).cast::<i32>().add(index).write_unaligned(fd.as_raw_fd());
        }
        libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL)
    };
    if sent < 0 { Err(sys::last()) } else { Ok(()) }
}
