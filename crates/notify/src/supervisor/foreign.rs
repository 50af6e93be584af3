//! Sockets that are none of ours: the program made them (AF_UNIX, AF_ALG), or got them from outside, by inheritance or over a unix socket.
//!
//! Those that could reach the host's network are refused here, whichever number they have: every call that names or needs a network address
//! is trapped, so nothing new goes out through them. What is not trapped (read, write, send, recv) works, so a shell whose standard input is a
//! connection of the host's goes on reading it.
//!
//! What cannot be looked at is refused. The kernel does the calls that pass, after the look: a program that exchanges its own descriptors at
//! that moment, from another thread, can have the call done on a socket of the host's that it was given (docs/compatibility.md).

use super::pidfds::Pidfds;
use crate::call::Call;
use crate::sys::{self, Errno};
use std::collections::HashSet;
use std::os::fd::AsFd;
use weft_intercept::calls::Calls;

/// Most inode numbers that are remembered as harmless.
const HARMLESS_MAX: usize = 4096;

/// What is known of foreign sockets.
#[derive(Debug, Default)]
pub(super) struct Foreign {
    harmless: HashSet<u64>,
}

impl Foreign {
    /// May the kernel do a call on this socket?
    ///
    /// # Errors
    /// EPERM: it belongs to the host's network, or it cannot be looked at.
    pub fn check(&mut self, call: &Call, fd: i32, inode: u64, pidfds: &mut Pidfds, calls: &mut Calls) -> Result<(), Errno> {
        if self.harmless.contains(&inode) {
            return Ok(());
        }
        let end = match pidfds.borrow(call.tid, fd) {
            Ok(end) => end,
            Err(Errno(libc::EMFILE | libc::ENFILE)) => {
                calls.out_of_descriptors += 1;
                return Err(Errno(libc::ENFILE));
            }
            Err(errno @ Errno(libc::EBADF | libc::ESRCH)) => return Err(errno),
            Err(_) => {
                calls.not_permitted += 1;
                return Err(Errno(libc::EPERM));
            }
        };
        if sys::inode(end.as_fd()) != Ok(inode) {
            // Another thread has exchanged it meanwhile: as if it had been closed before the call.
            return Err(Errno(libc::EBADF));
        }
        let domain = sys::get_option(end.as_fd(), libc::SOL_SOCKET, libc::SO_DOMAIN)
            .ok()
            .and_then(|(value, _)| value.get(..4).and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes));
        match domain {
            Some(libc::AF_UNIX | libc::AF_ALG) => {
                if self.harmless.len() >= HARMLESS_MAX {
                    self.harmless.clear();
                }
                self.harmless.insert(inode);
                Ok(())
            }
            other => {
                let family = other.unwrap_or_default();
                calls.unsupported(format!("{} on a socket of the host's (family {family})", call.row.name), Errno(libc::EPERM));
                Err(Errno(libc::EPERM))
            }
        }
    }
}
