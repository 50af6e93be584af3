//! pidfds of the threads whose descriptors are borrowed.

use crate::sys::{self, Errno};
use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};

/// pidfds kept open.
const PIDFDS_MAX: usize = 256;

/// pidfds, by thread.
#[derive(Debug, Default)]
pub(super) struct Pidfds(HashMap<u32, OwnedFd>);

impl Pidfds {
    /// Closes them.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Shrinks the table to what it holds.
    pub fn give_back_memory(&mut self) {
        self.0.shrink_to_fit();
    }

    /// Borrows a descriptor of a thread.
    ///
    /// # Errors
    /// ESRCH: there is no such thread. Others are those of pidfd_open(2) and pidfd_getfd(2).
    pub fn borrow(&mut self, tid: u32, fd: i32) -> Result<OwnedFd, Errno> {
        for fresh in [false, true] {
            if fresh || !self.0.contains_key(&tid) {
                if self.0.len() >= PIDFDS_MAX {
                    self.0.clear();
                }
                self.0.insert(tid, sys::pidfd_open(tid)?);
            }
            match self.0.get(&tid).map(|pidfd| sys::pidfd_getfd(pidfd.as_fd(), fd)) {
                // A pidfd means one thread for ever, so a number that was given out again is noticed here.
                Some(Err(Errno(libc::ESRCH))) => {
                    self.0.remove(&tid);
                }
                Some(other) => return other,
                None => {}
            }
        }
        Err(Errno(libc::ESRCH))
    }
}
