//! What a call on a socket needs of its adapter.

use super::message::{Message, Taken};
use crate::face::SocketId;
use crate::memory::Memory;
use crate::sys::Errno;
use std::time::Duration;

/// Which of a socket's limits of time a call that waits has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// SO_RCVTIMEO
    Receive,
    /// SO_SNDTIMEO
    Send,
}

/// The socket that a call is about, of a program that waits for its answer.
///
/// A call that waits is made again from its beginning when something has changed. So a method that fails with EAGAIN or
/// [`LATER`](crate::memory::LATER) has changed nothing.
pub trait Carrier {
    /// What a call comes to, other than an errno.
    type Outcome;

    /// The memory of the program.
    fn memory(&self) -> &impl Memory;

    /// The call returns this, and can be made again without harm if the program misses the answer.
    fn told(&self, value: i64) -> Self::Outcome;
    /// The call returns this, and has changed something.
    fn done(&self, value: i64) -> Self::Outcome;
    /// The host's kernel answers, of what it has at this descriptor. A stand-in (notify) keeps its own time limits, for example; elsewhere there is
    /// nothing that the kernel could answer with.
    fn natively(&self) -> Result<Self::Outcome, Errno> {
        Err(Errno(libc::EOPNOTSUPP))
    }
    /// Waits for the socket; or fails with `otherwise`, if the descriptor or the call's MSG_ flags say not to wait, or the time is up.
    fn wait(&mut self, limit: Limit, flags: i32, otherwise: i32) -> Result<Self::Outcome, Errno>;
    /// Has this very call waited before?
    fn has_waited(&self) -> bool;

    /// bind(2)
    fn bind(&mut self, address: &[u8]) -> Result<(), Errno>;
    /// listen(2)
    fn listen(&mut self, backlog: i32) -> Result<(), Errno>;
    /// shutdown(2)
    fn shutdown(&mut self, how: i32) -> Result<(), Errno>;
    /// getsockname(2)
    fn local_address(&mut self) -> Result<Vec<u8>, Errno>;
    /// getpeername(2)
    fn peer_address(&mut self) -> Result<Vec<u8>, Errno>;
    /// connect(2); EINPROGRESS and EALREADY while it lasts.
    fn connect(&mut self, address: &[u8]) -> Result<(), Errno>;

    /// Takes a connection out of a listener's queue.
    fn accept(&mut self) -> Result<SocketId, Errno>;
    /// Whose it is.
    fn accepted_address(&mut self, child: SocketId) -> Result<Vec<u8>, Errno>;
    /// Its address cannot be told: closes it (do_accept: "goto out_fd").
    fn give_up(&mut self, child: SocketId);
    /// Makes it a descriptor of the program, with the flags of accept4(2).
    fn hand_over(&mut self, child: SocketId, flags: i32) -> Result<Self::Outcome, Errno>;

    /// getsockopt(2), with the length that the program says: below zero, too. `asked`: what the program has in the place for the value, where the option
    /// looks at it. None: [`Carrier::natively`].
    fn get_option(&mut self, level: i32, name: i32, asked: &[u8], length: i32) -> Result<Option<Vec<u8>>, Errno>;
    /// setsockopt(2). False: [`Carrier::natively`].
    fn set_option(&mut self, level: i32, name: i32, value: &[u8]) -> Result<bool, Errno>;
    /// How many bytes of an option's value of this length are looked at.
    fn option_bytes(&mut self, level: i32, name: i32, length: usize) -> usize;
    /// The value of a request about this socket: FIONREAD, …. None: [`Carrier::natively`].
    fn ioctl(&mut self, request: u32) -> Result<Option<Vec<u8>>, Errno>;
    /// A request about interfaces, whatever socket it comes through.
    fn about_interfaces(&mut self, request: u32, pointer: u64) -> Result<(), Errno>;

    /// Sends a message, or a piece of a stream. Data that was written natively goes first where there is a stand-in.
    fn send(&mut self, message: &Message, name: Option<&[u8]>, control: &[u8], flags: i32) -> Result<usize, Errno>;
    /// Takes a message, or a piece of a stream.
    fn take(&mut self, bytes: u64, flags: i32) -> Result<Taken, Errno>;
    /// Is it a stream?
    fn is_stream(&mut self) -> bool;

    /// Does a call with these flags send until everything is sent? A stand-in's stream is written natively; what is trapped sends what there is
    /// room for.
    fn sends_all(&mut self, flags: i32) -> bool {
        let _ = flags;
        false
    }
    /// How many bytes has a call with these flags and so much room to receive before it returns (MSG_WAITALL, SO_RCVLOWAT)? 0 or 1: what there is. A
    /// stand-in's stream is read natively.
    fn receives_at_least(&mut self, room: u64, flags: i32) -> u64 {
        let _ = (room, flags);
        0
    }
    /// Does such a call end with what it has? Nothing more comes, an error waits for the next call, or an urgent byte is next.
    fn ends_here(&mut self) -> bool {
        true
    }
    /// So many bytes this call has sent or received before it waited; of several messages, of the one that it goes on with.
    fn moved_before(&self) -> u64 {
        0
    }
    /// This call has moved so many, and goes on behind them.
    fn has_moved(&mut self, bytes: u64) {
        let _ = bytes;
    }
    /// The program has got it: for who counts.
    fn has_received(&mut self, taken: &Taken, flags: i32) {
        let _ = (taken, flags);
    }
    /// Sending has failed for good. A stand-in that shows an error natively must not show it again.
    fn send_failed(&mut self, errno: Errno) {
        let _ = errno;
    }
    /// SIGPIPE for the thread.
    fn broken_pipe(&mut self);

    /// Does recvmmsg wait for each of its messages, and not for the first alone?
    fn waits_between(&self) -> bool {
        false
    }
    /// How long this call has waited so far.
    fn waited(&self) -> Duration {
        Duration::ZERO
    }
    /// Messages that are done, of a call that has several.
    fn messages_done(&self) -> u64;
    /// One is, so that a call that waits goes on behind it, and nothing of the next is sent.
    ///
    /// # Errors
    /// What the call comes to instead, when what it has written cannot be written.
    fn message_is_done(&mut self, index: u64) -> Result<(), Result<i64, Errno>>;
    /// Is there an error that the next receive would be told?
    fn error_waits(&mut self) -> bool;

    /// Somebody has asked for what is not supported.
    fn unsupported(&mut self, request: String, errno: Errno);
}
