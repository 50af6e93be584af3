//! One stand-in: its ends, what it stands for, and how far either side has come.

use super::link::Link;
use super::moments::Moments;
use super::packet::Packets;
use super::stream::{Last, Stream};
use crate::sys;
use bytes::Bytes;
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use weft_intercept::face::SocketId;

/// Bytes that we let lie unread in a stand-in at first. They still count as the program's receive buffer, so that the advertised window
/// does not grow by more than this.
pub const UNREAD_BYTES_FIRST: usize = 64 * 1024;

/// The same for a stand-in whose program reads much: it is doubled up to here whenever the program has taken [`UNREAD_GROWS_AFTER`] times as
/// much, so that programs in bulk transfer sleep rarely and those that do not read hold no more than at first. Beyond this the data
/// leaves the caches between our write and the program's read.
pub const UNREAD_BYTES_MAX: usize = 512 * 1024;

/// See [`UNREAD_BYTES_MAX`].
pub const UNREAD_GROWS_AFTER: usize = 4;

/// SO_SNDBUF for an end in which so many bytes may lie unread. The kernel doubles the value, and reports room below a quarter of that: when
/// half is read, so that the program finds data while we write more, and does not wake us for every piece. The rest is for the kernel's
/// overhead: one of two messages of [`super::stream_pump::WRITE_BYTES_MAX`] must be below it.
pub const fn send_buffer_bytes(unread_max: usize) -> i32 {
    (unread_max + 16 * 1024) as i32
}

/// SO_SNDBUF that the program's end gets when the program has written [`BULK_BYTES`]: the kernel wakes a writer when three quarters
/// of it (doubled) are read, and what the default lets lie there is read before a sleeping writer runs.
pub const BULK_SEND_BUFFER_BYTES: i32 = 512 * 1024;

/// A program that wrote this many bytes to a stream is in bulk transfer.
pub const BULK_BYTES: u64 = 1024 * 1024;

/// One stand-in.
#[derive(Debug)]
pub struct StandIn {
    /// Distinguishes tokens of this one from those of an earlier one in the same slot.
    pub generation: u16,
    /// Inode number of the program's end.
    pub inode: u64,
    /// What it stands for.
    pub body: Body,
    /// Our end, if it has one.
    pub ours: Option<OwnedFd>,
    /// Our end may have something to read; cleared by EAGAIN.
    pub readable: bool,
    /// epoll has told that what there is to read ends: it is to be read to its end.
    pub ends: bool,
    /// Our end may take more; cleared by EAGAIN.
    pub writable: bool,
    /// There is something for the program that waits for room.
    pub wants_room: bool,
    /// Our end's registration includes EPOLLOUT. Only while needed: the kernel reports room whenever the program reads, and each report wakes us.
    pub watches_room: bool,
    /// The thread and descriptor that last used it: where to borrow the program's end.
    pub place: (u32, i32),
    /// The program did shutdown(SHUT_RD).
    pub shut_read: bool,
    /// The program did shutdown(SHUT_WR).
    pub shut_write: bool,
    /// The end of what the program writes was passed on.
    pub write_ended: bool,
    /// The end of what the program reads was passed on.
    pub read_ended: bool,
    /// Upper bound of what lies in the stand-in unread by the program, bytes.
    pub unread: usize,
    /// Most bytes that may lie there unread now.
    pub unread_max: usize,
    /// Bytes that the program has taken since `unread_max` was set.
    pub taken: usize,
    /// Bytes that the program has written to a stream.
    pub written: u64,
    /// It has written [`BULK_BYTES`], and its end was given a larger send buffer.
    pub bulk: bool,
    /// Taken from the model, not yet fitted into the stand-in.
    pub leftover: VecDeque<Bytes>,
    /// Taken from the stand-in, not yet fitted into the model.
    pub unsent: Option<Bytes>,
    /// The program has shut down the writing side of a stream: what lies in our end since.
    pub last: Option<Last>,
    /// Calls that wait for something here.
    pub held: Vec<u64>,
    /// Whether its last close must be looked for.
    pub watched: bool,
    /// The program wants to be told what is left with each read (TCP_INQ), which a native one cannot do.
    pub inquiry: bool,
    /// It has wanted that once.
    pub inquired: bool,
    /// It wants, or has wanted, to be told when what it reads came (SO_TIMESTAMP and its kind), which a native read cannot do either.
    pub timed: bool,
    /// When what lies in the stand-in came.
    pub moments: Moments,
    /// The connection failed, and the program's end shows that: ECONNRESET, until something reads it.
    pub reset_shown: bool,
    /// Bytes written into the stand-in after the urgent one.
    pub after_mark: usize,
}

/// What a stand-in stands for.
#[derive(Debug)]
pub enum Body {
    /// SOCK_STREAM.
    Stream(Stream),
    /// SOCK_DGRAM.
    Packet(Packets),
    /// AF_NETLINK.
    Netlink(Box<Link>),
}

impl StandIn {
    /// A stand-in with nothing in it.
    pub fn new(inode: u64, body: Body, ours: Option<OwnedFd>) -> StandIn {
        StandIn {
            generation: 0,
            inode,
            body,
            readable: ours.is_some(),
            ends: false,
            writable: ours.is_some(),
            ours,
            wants_room: false,
            watches_room: false,
            place: (0, -1),
            shut_read: false,
            shut_write: false,
            write_ended: false,
            read_ended: false,
            unread: 0,
            unread_max: UNREAD_BYTES_FIRST,
            taken: 0,
            written: 0,
            bulk: false,
            leftover: VecDeque::new(),
            unsent: None,
            last: None,
            held: Vec::new(),
            watched: false,
            inquiry: false,
            inquired: false,
            timed: false,
            moments: Moments::default(),
            reset_shown: false,
            after_mark: 0,
        }
    }

    /// The model's socket; netlink has none.
    pub fn socket(&self) -> Option<SocketId> {
        match &self.body {
            Body::Stream(stream) => Some(stream.socket),
            Body::Packet(packets) => Some(packets.socket),
            Body::Netlink(_) => None,
        }
    }

    /// Bytes that a stream's program has written and that lie in our end.
    pub fn unread_bytes(&self) -> usize {
        match (self.last, &self.ours) {
            (Some(last), Some(ours)) => last.bytes(ours.as_fd()),
            (None, Some(ours)) => sys::readable_bytes(ours.as_fd()),
            (_, None) => 0,
        }
    }

    /// Can "both sides are over" mean something else than that the program is gone? Only when it shut its writing side, and the other
    /// side is over too.
    pub fn hang_up_is_ambiguous(&self) -> bool {
        self.shut_write && (self.read_ended || self.shut_read)
    }
}
