//! What a program's descriptor can be that the kernel knows nothing of: a socket, an epoll, a timer, a set of signals.
//!
//! The program holds one end of a socket pair, whose inode number tells which object it is, however often it is duplicated, inherited or
//! passed on. The controller holds the other end; it hangs up when the last of the program's is closed.

use super::interests::Interests;
use super::link::Link;
use super::timers::Timer;
use crate::face::SocketId;
use crate::sys;
use std::os::fd::{AsFd as _, OwnedFd};

/// Most objects of a node; more are ENFILE.
pub(super) const OBJECTS_MAX: usize = 65_536;

/// An object.
#[derive(Debug)]
pub(super) struct Object {
    /// Our end.
    ours: OwnedFd,
    pub body: Body,
    /// Epolls that watch it.
    pub watchers: Vec<u64>,
}

impl Object {
    /// The last descriptor of it that a program had is closed.
    pub fn has_hung_up(&self) -> bool {
        sys::poll_now(self.ours.as_fd(), libc::POLLIN) & (libc::POLLHUP | libc::POLLRDHUP) != 0
    }
    pub fn new(ours: OwnedFd, body: Body) -> Object {
        Object { ours, body, watchers: Vec::new() }
    }
}

/// What it is.
#[derive(Debug)]
pub(super) enum Body {
    Socket(SocketId),
    Epoll(Interests),
    Timer(TimerFile),
    /// The signals that it reads.
    Signals(u64),
    /// AF_NETLINK.
    Link(Link),
    /// A file below /proc/sys/net that was opened for writing.
    Setting {
        /// Its path below that.
        name: String,
        /// Bytes that were read or written already.
        position: usize,
    },
}

/// A timerfd.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimerFile {
    pub clock: i32,
    pub timer: Timer,
    pub expirations: u64,
}
