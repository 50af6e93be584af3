//! What is different in real time (`weft run --strict`): every thread runs at once, and nearly all calls are the kernel's. Sockets are the controller's.

use super::PATH_BYTES;

/// Tells the controller over [`super::DESCRIPTOR_CONTROL`]; a descriptor comes along, and the kernel adds who it is.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct Told {
    /// [`JOIN`] and others.
    pub what: u32,
    /// The channel of the thread that tells, where it has one.
    pub channel: u32,
    /// What the descriptor is.
    pub number: u64,
    /// The thread's number, for [`JOIN`].
    pub tid: u64,
}
/// A thread wants a channel; the descriptor is the eventfd that wakes it, and gets the answer: the channel and one, or [`NO_CHANNEL`]. `number`: 1 when
/// this is a new image of its process.
pub const JOIN: u32 = 1;
/// The answer to [`JOIN`] when there is none.
pub const NO_CHANNEL: u64 = 1 << 32;
/// A socket that was made or accepted has a descriptor: the controller's end of the pair comes along; `number` is the other's inode.
pub const OBJECT: u32 = 2;
/// An epoll of the kernel's is to watch sockets of the node; the descriptor is the eventfd by which it learns that one is ready.
pub const EPOLL: u32 = 3;
/// The next call of the thread is answered with a file, which comes by this socket.
pub const PASSAGE: u32 = 4;

/// Call: what was made or accepted cannot get a descriptor.
pub const DROPPED: u64 = 0x1030;
/// Call: the thread ends, or gives its channel back.
pub const LEAVE: u64 = 0x1031;
/// Call: which sockets that an epoll watches are ready: (events, room); `descriptor` is the epoll.
pub const COLLECT: u64 = 0x1032;
/// Call: the last descriptor of an epoll in this process is closed; `descriptor` is the epoll.
pub const FORGET: u64 = 0x1033;
/// Call: a descriptor of a socket is about to be closed, by a call that may have to wait then; `descriptor` is the socket.
pub const CLOSING: u64 = 0x1035;

/// The events of the controller's eventfd in an epoll carry this, and the number of the epoll below it.
pub const EPOLL_DATA: u64 = 0x7765_6674_0000_0000;
/// The part that is the number.
pub const EPOLL_NUMBER: u64 = 0xffff_ffff;

/// What an image that is about to run has to know; a memory file at [`super::DESCRIPTOR_NEXT`].
#[repr(C)]
pub struct Next {
    /// [`NEXT_MAGIC`]
    pub magic: u64,
    /// 0: the program's arguments are the loader's; it is looked at, and executed properly. 1: all is decided.
    pub decided: u64,
    /// Blocked signals.
    pub mask: u64,
    /// The process had channels before.
    pub joined: u64,
    /// What to load, with a zero at the end.
    pub target: [u8; PATH_BYTES],
    /// What it was called by.
    pub name: [u8; PATH_BYTES],
    /// /proc/self/exe
    pub executable: [u8; PATH_BYTES],
}
/// `Next::magic`
pub const NEXT_MAGIC: u64 = 0x7765_6674_6e65_7874;
