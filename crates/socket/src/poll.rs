//! Readiness masks as poll(2) and epoll(7) report them.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};
use weft_core::state::{Damage, Field, Reader, Writer};

/// A set of poll events (linux/include/uapi/asm-generic/poll.h).
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Poll(pub u32);

impl Poll {
    /// Something can be read: data, a connection, end of stream or an error.
    pub const IN: Poll = Poll(0x001);
    /// Urgent data.
    pub const PRI: Poll = Poll(0x002);
    /// Writing would not block.
    pub const OUT: Poll = Poll(0x004);
    /// A pending error.
    pub const ERR: Poll = Poll(0x008);
    /// Both directions are over, or it was never connected.
    pub const HUP: Poll = Poll(0x010);
    /// Normal data (always with IN).
    pub const RDNORM: Poll = Poll(0x040);
    /// Normal data may be written (always with OUT).
    pub const WRNORM: Poll = Poll(0x100);
    /// Set with OUT on datagram sockets.
    pub const WRBAND: Poll = Poll(0x200);
    /// The peer, or shutdown(SHUT_RD), ended the reading side.
    pub const RDHUP: Poll = Poll(0x2000);

    /// Nothing.
    pub const NONE: Poll = Poll(0);
    /// Whatever one waits for: a wake-up without a key (sk_state_change).
    pub const ALL: Poll = Poll(u32::MAX);
    /// The key with which sock_def_readable wakes: EPOLLIN | EPOLLPRI | EPOLLRDNORM | EPOLLRDBAND.
    pub const WAKES_READERS: Poll = Poll(0x001 | 0x002 | 0x040 | 0x080);
    /// The key with which sock_def_write_space wakes: EPOLLOUT | EPOLLWRNORM | EPOLLWRBAND.
    pub(crate) const WAKES_WRITERS: Poll = Poll(0x004 | 0x100 | 0x200);

    pub(crate) const READABLE: Poll = Poll(Poll::IN.0 | Poll::RDNORM.0);
    pub(crate) const WRITABLE: Poll = Poll(Poll::OUT.0 | Poll::WRNORM.0);

    /// Are all of `other`'s events in here?
    pub const fn contains(self, other: Poll) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Poll {
    type Output = Poll;
    fn bitor(self, other: Poll) -> Poll {
        Poll(self.0 | other.0)
    }
}

impl Field for Poll {
    fn write(&self, out: &mut Writer) {
        out.put(&self.0);
    }
    fn read(from: &mut Reader<'_>) -> Result<Poll, Damage> {
        from.take().map(Poll)
    }
}

impl BitOrAssign for Poll {
    fn bitor_assign(&mut self, other: Poll) {
        self.0 |= other.0;
    }
}

impl fmt::Debug for Poll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [(u32, &str); 9] = [
            (0x001, "IN"),
            (0x002, "PRI"),
            (0x004, "OUT"),
            (0x008, "ERR"),
            (0x010, "HUP"),
            (0x040, "RDNORM"),
            (0x100, "WRNORM"),
            (0x200, "WRBAND"),
            (0x2000, "RDHUP"),
        ];
        let names: Vec<&str> = NAMES.iter().filter(|(bit, _)| self.0 & bit != 0).map(|(_, name)| *name).collect();
        f.write_str(if names.is_empty() { "0".to_owned() } else { names.join("|") }.as_str())
    }
}
