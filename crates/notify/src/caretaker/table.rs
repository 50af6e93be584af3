//! weft's table of descriptors, which is the caretaker's alone when weft is no more.

use crate::sys;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

/// Why a socket stays open for a while.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Use {
    /// Its other end is, or may be, a program's.
    End,
    /// nftables' rules live as long as it.
    Rules,
    /// A program's calls wait there.
    Listener,
}

/// What is still open.
#[derive(Debug, Default)]
pub(super) struct Kept {
    pub ends: Vec<RawFd>,
    pub rules: Vec<RawFd>,
    pub listeners: Vec<RawFd>,
}

/// Closes everything but what [`Use`] names.
pub(super) fn close_ways_out() -> Kept {
    // Who reads what weft printed need not wait for the rest; and looking through the table takes a descriptor, of which there may be none left.
    close(&[0, 1, 2]);
    let mut kept = Kept::default();
    let mut closed = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten() {
        let Some(fd) = entry.file_name().to_str().and_then(|name| name.parse::<RawFd>().ok()) else { continue };
        let target = std::fs::read_link(entry.path()).map(|target| target.to_string_lossy().into_owned()).unwrap_or_default();
        match use_of(fd, &target) {
            Some(Use::End) => kept.ends.push(fd),
            Some(Use::Rules) => kept.rules.push(fd),
            Some(Use::Listener) => kept.listeners.push(fd),
            None => closed.push(fd),
        }
    }
    close(&closed);
    kept
}

/// Closes descriptors by number.
pub(super) fn close(fds: &[RawFd]) {
    for fd in fds {
        // SAFETY: weft, whose they were, is no more; nothing of this process uses them. (The one through which the table was read is closed already.)
        unsafe { libc::close(*fd) };
    }
}

fn use_of(fd: RawFd, target: &str) -> Option<Use> {
    if target == "anon_inode:seccomp notify" {
        return Some(Use::Listener);
    }
    if !target.starts_with("socket:") {
        return None;
    }
    // SAFETY: it is open, and only this thread could close it.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    let domain = sys::int_option(fd, libc::SO_DOMAIN)?;
    match domain {
        libc::AF_UNIX if sys::int_option(fd, libc::SO_ACCEPTCONN) != Some(1) && !has_path(fd) => Some(Use::End),
        libc::AF_NETLINK if sys::int_option(fd, libc::SO_PROTOCOL) == Some(libc::NETLINK_NETFILTER) => Some(Use::Rules),
        libc::AF_INET | libc::AF_INET6 => {
            // A published connection. Whoever is at its other end must not take its end for that of the data (struct linger: on, no time).
            let linger = [1_i32.to_ne_bytes(), 0_i32.to_ne_bytes()].concat();
            let _ = sys::set_option(fd, libc::SOL_SOCKET, libc::SO_LINGER, &linger);
            None
        }
        _ => None,
    }
}

/// Is it a connection to the control socket? Those have a name in the file system.
fn has_path(fd: BorrowedFd<'_>) -> bool {
    let mut name = [0_u8; 128];
    let mut length = name.len() as libc::socklen_t;
    // SAFETY: `name` and `length` are ours and describe each other.
    let result = unsafe { libc::getsockname(fd.as_fd().as_raw_fd(), name.as_mut_ptr().cast(), &raw mut length) };
    // The family, then the name; that of an abstract one begins with a zero.
    result == 0 && length > 2 && name[2] != 0
}
