//! Sockets that are none of ours: the program made them (AF_UNIX, AF_ALG), or got them from outside, by inheritance or over a unix socket.
//!
//! Those that could reach the host's network are refused here, whichever number they have: every call that names or needs a network address
//! is trapped, so nothing new goes out through them. What is not trapped (read, write, send, recv) works, so a shell whose standard input is a
//! connection of the host's goes on reading it.

use super::Supervisor;
use crate::call::Call;
use crate::sys::{self, Errno};
use std::collections::HashSet;
use std::os::fd::AsFd;

/// Most inode numbers that are remembered as harmless.
const HARMLESS_MAX: usize = 4096;

/// What is known of foreign sockets.
#[derive(Debug, Default)]
pub(super) struct Foreign {
    harmless: HashSet<u64>,
}

impl Supervisor {
    /// May the kernel do a call on this socket?
    ///
    /// # Errors
    /// EPERM: it belongs to the host's network.
    pub(super) fn check_foreign(&mut self, call: &Call, fd: i32, inode: u64) -> Result<(), Errno> {
        if self.foreign.harmless.contains(&inode) {
            return Ok(());
        }
        // Where it cannot be looked at, the program may not be looked into either: that was counted.
        let Ok(end) = self.borrow_at(call.tid, fd) else { return Ok(()) };
        if sys::inode(end.as_fd()) != Ok(inode) {
            return Ok(());
        }
        let domain = sys::get_option(end.as_fd(), libc::SOL_SOCKET, libc::SO_DOMAIN)
            .ok()
            .and_then(|(value, _)| value.get(..4).and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes));
        match domain {
            Some(libc::AF_UNIX | libc::AF_ALG) | None => {
                if self.foreign.harmless.len() >= HARMLESS_MAX {
                    self.foreign.harmless.clear();
                }
                self.foreign.harmless.insert(inode);
                Ok(())
            }
            Some(domain) => {
                self.calls.unsupported(format!("{} on a socket of the host's (family {domain})", call.row.name), Errno(libc::EPERM));
                Err(Errno(libc::EPERM))
            }
        }
    }
}
