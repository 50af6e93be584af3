//! Waiting for descriptors: a thin layer over epoll. One per world; everything that waits registers here.

use crate::spin::Spin;
use rustix::event::{Timespec, epoll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::io;
use std::time::{Duration, Instant};

/// Most events taken in one turn.
const EVENTS_MAX: usize = 256;

/// What a descriptor is ready for, or is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Interest {
    /// Readable (or closed by the peer).
    pub read: bool,
    /// Writable.
    pub write: bool,
}

impl Interest {
    /// Wait until readable.
    pub const READ: Interest = Interest { read: true, write: false };
    /// Wait until readable or writable.
    pub const BOTH: Interest = Interest { read: true, write: true };
}

/// A set of descriptors to wait for, each with a token.
pub struct Reactor {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

impl std::fmt::Debug for Reactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reactor").field("epoll", &self.epoll).finish_non_exhaustive()
    }
}

impl Reactor {
    /// An empty set.
    pub fn new() -> io::Result<Reactor> {
        Ok(Reactor { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?, events: Vec::with_capacity(EVENTS_MAX) })
    }

    fn flags(interest: Interest) -> epoll::EventFlags {
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::IN | epoll::EventFlags::RDHUP, interest.read);
        flags.set(epoll::EventFlags::OUT, interest.write);
        flags
    }

    /// Starts waiting.
    pub fn add(&self, fd: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, epoll::EventData::new_u64(token), Reactor::flags(interest))?)
    }
    /// Changes what is waited for.
    pub fn modify(&self, fd: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, fd, epoll::EventData::new_u64(token), Reactor::flags(interest))?)
    }
    /// Stops waiting.
    pub fn remove(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, fd)?)
    }
    /// The epoll descriptor, for parts that register on their own.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// As [`Reactor::wait`], but may look again for a while before it sleeps, as `spin` says.
    pub fn wait_spinning(&mut self, timeout: Duration, spin: &mut Spin, ready: &mut Vec<(u64, u32)>) -> io::Result<()> {
        if timeout.is_zero() {
            return self.wait(Some(timeout), ready);
        }
        let start = Instant::now();
        let limit = spin.limit().min(timeout);
        if !limit.is_zero() {
            while start.elapsed() < limit {
                self.wait(Some(Duration::ZERO), ready)?;
                if !ready.is_empty() {
                    spin.found();
                    return Ok(());
                }
            }
            spin.failed();
        }
        self.wait(Some(timeout.saturating_sub(limit)), ready)?;
        spin.slept(start.elapsed());
        Ok(())
    }

    /// Waits at most `timeout` (none: for ever); gives token and raw epoll flags of each ready descriptor.
    pub fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<(u64, u32)>) -> io::Result<()> {
        let timeout = timeout.map(|span| Timespec { tv_sec: span.as_secs() as i64, tv_nsec: i64::from(span.subsec_nanos()) });
        self.events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), timeout.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        // Copied out field by field: the kernel's struct is packed.
        ready.extend(self.events.iter().map(|event| ({ event.data }.u64(), { event.flags }.bits())));
        Ok(())
    }
}
