//! What comes over the control socket: a few words, a descriptor, and the number of who sent them.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use weft_intercept::sys;
use weft_loader::abi::strict::Told;

/// The next one. `Ok(None)`: there is none now. `Err`: nobody is left who could tell anything.
#[allow(clippy::type_complexity)] // a tuple of its three parts
pub(super) fn receive(control: BorrowedFd<'_>) -> Result<Option<(Told, Option<OwnedFd>, u32)>, ()> {
    let mut told = Told::default();
    let mut vector = libc::iovec { iov_base: (&raw mut told).cast(), iov_len: size_of::<Told>() };
    let mut buffer = [0_u64; 16];
    let (mut fd, mut pid) = (None, 0);
    // SAFETY: an all-zero msghdr is valid; it is then pointed at buffers of ours, and the kernel's messages are read within what it says they take. Any
    // bytes are a Told.
    let received = unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut vector;
        message.msg_iovlen = 1;
        message.msg_control = buffer.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&buffer);
        let received = libc::recvmsg(control.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT);
        let mut one = if received < 0 { std::ptr::null_mut() } else { libc::CMSG_FIRSTHDR(&raw const message) };
        while !one.is_null() {
            match (*one).cmsg_type {
                libc::SCM_CREDENTIALS => pid = libc::CMSG_DATA(one).cast::<libc::ucred>().read_unaligned().pid as u32,
                libc::SCM_RIGHTS => fd = Some(OwnedFd::from_raw_fd(libc::CMSG_DATA(one).cast::<i32>().read_unaligned())),
                _ => {}
            }
            one = libc::CMSG_NXTHDR(&raw const message, one);
        }
        received
    };
    match received {
        0 => Err(()),
        // What no thread of ours has sent: a byte of another life.
        bytes if bytes > 0 => Ok(Some((told, fd, pid))),
        _ if sys::last().0 == libc::EAGAIN => Ok(None),
        _ if sys::last().0 == libc::EINTR => receive(control),
        _ => Err(()),
    }
}
