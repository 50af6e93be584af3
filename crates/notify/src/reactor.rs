//! The event loop belongs to the host; this is what the supervisor asks of it.

use crate::sys::Errno;
use std::os::fd::{AsRawFd, BorrowedFd};

/// What to wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interest {
    /// Something to read.
    pub readable: bool,
    /// Room to write.
    pub writable: bool,
    /// Tell of changes only (EPOLLET); otherwise as long as it holds.
    pub edge: bool,
}

/// What a descriptor is ready for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Readiness {
    /// Something to read, or the other end has shut down its side.
    pub readable: bool,
    /// The other end has shut down its side.
    pub ended: bool,
    /// Room to write.
    pub writable: bool,
    /// Both sides are shut down, or the other end is gone.
    pub hang_up: bool,
    /// An error is pending.
    pub error: bool,
}

impl Readiness {
    /// From epoll's bits.
    pub fn from_epoll(events: u32) -> Readiness {
        let any = |bits: i32| events & bits as u32 != 0;
        Readiness {
            readable: any(libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLPRI),
            ended: any(libc::EPOLLRDHUP),
            writable: any(libc::EPOLLOUT),
            hang_up: any(libc::EPOLLHUP),
            error: any(libc::EPOLLERR),
        }
    }
}

/// Registers descriptors with the host's event loop. Tokens come back in `Supervisor::on_event`.
pub trait Reactor {
    /// Starts watching.
    ///
    /// # Errors
    /// Those of epoll_ctl(2).
    fn add(&mut self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> Result<(), Errno>;
    /// Watches for something else.
    ///
    /// # Errors
    /// Those of epoll_ctl(2).
    fn modify(&mut self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> Result<(), Errno>;
    /// Stops watching.
    ///
    /// # Errors
    /// Those of epoll_ctl(2).
    fn remove(&mut self, fd: BorrowedFd<'_>) -> Result<(), Errno>;
}

/// An epoll instance is a reactor; the host waits on it.
#[derive(Debug)]
pub struct Epoll<'a>(pub BorrowedFd<'a>);

impl Epoll<'_> {
    fn control(&self, operation: i32, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> Result<(), Errno> {
        let mut events = libc::EPOLLRDHUP as u32;
        for (wanted, bit) in [(interest.readable, libc::EPOLLIN), (interest.writable, libc::EPOLLOUT), (interest.edge, libc::EPOLLET)] {
            if wanted {
                events |= bit as u32;
            }
        }
        let mut event = libc::epoll_event { events, u64: token };
        // SAFETY: the kernel reads one epoll_event of ours.
        if unsafe { libc::epoll_ctl(self.0.as_raw_fd(), operation, fd.as_raw_fd(), &raw mut event) } == 0 {
            Ok(())
        } else {
            Err(crate::sys::last())
        }
    }
}

impl Reactor for Epoll<'_> {
    fn add(&mut self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> Result<(), Errno> {
        self.control(libc::EPOLL_CTL_ADD, fd, token, interest)
    }
    fn modify(&mut self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> Result<(), Errno> {
        self.control(libc::EPOLL_CTL_MOD, fd, token, interest)
    }
    fn remove(&mut self, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        self.control(libc::EPOLL_CTL_DEL, fd, 0, Interest { readable: false, writable: false, edge: false })
    }
}
