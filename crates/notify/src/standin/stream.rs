//! Stream stand-ins: the shapes of one, connecting, and what a shut down one keeps. What flows through them is [`super::stream_pump`]'s.

use crate::sys::{self, Errno};
use bytes::BytesMut;
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use weft_intercept::face::SocketId;

/// A stream socket's stand-in.
#[derive(Debug)]
pub struct Stream {
    /// The model's.
    pub socket: SocketId,
    /// Where in its life.
    pub phase: Phase,
}

/// The shapes of a stream stand-in.
#[derive(Debug)]
pub enum Phase {
    /// Unconnected.
    Fresh,
    /// Connected to us and full: this many bytes that mean nothing come first.
    Connecting {
        /// Bytes.
        filling: usize,
    },
    /// Data flows.
    Connected,
    /// Listening under this abstract name.
    Listening {
        /// `sockaddr_un`.
        name: Vec<u8>,
        /// Tokens that lie in its queue: with any it is readable, and each has told those who wait for edges.
        tokens: u32,
        /// Connections that were taken from the model for an accept that was then cancelled.
        returned: VecDeque<SocketId>,
    },
    /// The connection failed; our end is closed.
    Dead,
}

/// What a program has written lies in our end, and something that stays there for good, once it has shut down its writing side. A unix socket shows a
/// reset when its peer is closed with data unread, and nothing can be put in any more by then ([`Supervisor::reset`](crate::Supervisor)). Without
/// that a reset would look like the end of the data to a program that only reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Last {
    /// So many bytes of data, then one of ours, which stays.
    Marked(usize),
    /// So many bytes of data: there was no room for ours. The last one stays when it has been passed on.
    Kept(usize),
    /// Data with one byte of ours in it: another thread wrote at that very moment. Each message tells its writer; nothing stays.
    Mixed,
}

impl Last {
    /// Bytes of data that are still there.
    pub fn bytes(self, ours: BorrowedFd<'_>) -> usize {
        match self {
            Last::Marked(bytes) | Last::Kept(bytes) => bytes,
            Last::Mixed => sys::readable_bytes(ours).saturating_sub(1),
        }
    }

    /// Takes data out of our end; zero: it was the last. What is left is told by `self`.
    pub(super) fn take(&mut self, ours: BorrowedFd<'_>, buffer: &mut BytesMut, limit: usize) -> Result<usize, Errno> {
        match self {
            Last::Marked(0) | Last::Kept(0) => Ok(0),
            Last::Marked(left) => {
                let bytes = sys::receive_into(ours, buffer, limit.min(*left), 0)?;
                *left -= bytes;
                Ok(bytes)
            }
            Last::Kept(left @ 1) => {
                let bytes = sys::receive_into(ours, buffer, 1, libc::MSG_PEEK)?;
                *left -= bytes;
                Ok(bytes)
            }
            Last::Kept(left) => {
                let bytes = sys::receive_into(ours, buffer, limit.min(*left - 1), 0)?;
                *left -= bytes;
                Ok(bytes)
            }
            Last::Mixed => {
                let (bytes, writer) = sys::receive_from_writer(ours, buffer, limit)?;
                if writer != std::process::id() {
                    return Ok(bytes);
                }
                buffer.truncate(buffer.len() - bytes);
                sys::receive_from_writer(ours, buffer, limit).map(|(bytes, _)| bytes)
            }
        }
    }
}

/// shutdown(2) of the program's end, for writing (SHUT_WR) or both (SHUT_RDWR).
pub fn end_writing(theirs: BorrowedFd<'_>, ours: BorrowedFd<'_>, how: i32) -> Option<Last> {
    // From now on messages tell their writers, and those of two are never read as one.
    let _ = sys::set_option(ours, libc::SOL_SOCKET, libc::SO_PASSCRED, &1_i32.to_ne_bytes());
    let before = sys::readable_bytes(ours);
    let marked = sys::send_vectors(theirs, &[b"\0"], 0).is_ok();
    let _ = sys::shutdown(theirs, how);
    match (marked, sys::readable_bytes(ours)) {
        (true, after) if after == before + 1 => Some(Last::Marked(before)),
        (true, _) => Some(Last::Mixed),
        (false, 0) => None,
        (false, after) => Some(Last::Kept(after)),
    }
}

/// Fills the way from the program's end to us, so that nothing is ready there. Returns how many bytes that took.
pub fn fill(program_end: BorrowedFd<'_>) -> usize {
    static NOTHING: [u8; 64 * 1024] = [0; 64 * 1024];
    let mut filled = 0;
    // Large messages first, then small ones: EAGAIN to one byte means that poll(2) says nothing and write(2) blocks.
    for size in [NOTHING.len(), 1] {
        while let Ok(sent) = sys::send_vectors(program_end, &[&NOTHING[..size]], 0) {
            filled += sent;
        }
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::standin::buffer::ReadBuffer;
    use std::os::fd::AsFd;

    #[test]
    fn a_filled_stand_in_is_ready_for_nothing_and_for_writing_once_it_is_emptied() {
        let (theirs, ours) = sys::unix_pair(libc::SOCK_STREAM).unwrap();
        let filled = fill(theirs.as_fd());
        assert_eq!(sys::poll_now(theirs.as_fd(), libc::POLLIN | libc::POLLOUT), 0);
        assert_eq!(sys::send_vectors(theirs.as_fd(), &[b"x"], 0), Err(Errno(libc::EAGAIN)));
        let mut buffer = ReadBuffer::default();
        let mut left = filled;
        while left > 0 {
            let buffer = buffer.room(64 * 1024);
            left -= sys::receive_into(ours.as_fd(), buffer, left, 0).unwrap();
            buffer.clear();
        }
        assert_eq!(sys::poll_now(theirs.as_fd(), libc::POLLIN | libc::POLLOUT), libc::POLLOUT);
    }

    #[test]
    fn closing_with_unread_data_resets_and_a_byte_put_in_makes_sure_that_there_is_some() {
        let (theirs, ours) = sys::unix_pair(libc::SOCK_STREAM).unwrap();
        sys::send_vectors(ours.as_fd(), &[b"before"], 0).unwrap();
        sys::send_vectors(theirs.as_fd(), &[b"x"], 0).unwrap();
        drop(ours);
        let mut buffer = BytesMut::with_capacity(100);
        assert_eq!(sys::receive_into(theirs.as_fd(), &mut buffer, 100, 0), Ok(6), "queued data first");
        assert_eq!(sys::receive_into(theirs.as_fd(), &mut buffer, 100, 0), Err(Errno(libc::ECONNRESET)));
        assert_eq!(sys::receive_into(theirs.as_fd(), &mut buffer, 100, 0), Ok(0), "and then the end, as in TCP");
    }

    /// All that `last` gives, until it says that nothing is left.
    fn all(last: &mut Last, ours: BorrowedFd<'_>, limit: usize) -> Vec<u8> {
        let (mut all, mut buffer) = (Vec::new(), BytesMut::with_capacity(1 << 20));
        while last.take(ours, &mut buffer, limit).unwrap() > 0 {
            all.extend_from_slice(&buffer);
            buffer.clear();
        }
        all
    }

    fn is_reset(theirs: BorrowedFd<'_>) -> bool {
        sys::receive_into(theirs, &mut BytesMut::with_capacity(1), 1, 0) == Err(Errno(libc::ECONNRESET))
    }

    #[test]
    fn a_stream_that_was_shut_down_for_writing_can_be_reset() {
        for limit in [1, 3, 100] {
            let (theirs, ours) = sys::unix_pair(libc::SOCK_STREAM).unwrap();
            sys::send_vectors(theirs.as_fd(), &[b"request"], 0).unwrap();
            let mut last = end_writing(theirs.as_fd(), ours.as_fd(), libc::SHUT_WR).unwrap();
            assert_eq!((last, last.bytes(ours.as_fd())), (Last::Marked(7), 7));
            assert_eq!(all(&mut last, ours.as_fd(), limit), b"request");
            assert_eq!((last.bytes(ours.as_fd()), sys::send_vectors(theirs.as_fd(), &[b"x"], 0)), (0, Err(Errno(libc::EPIPE))));
            drop(ours);
            assert!(is_reset(theirs.as_fd()));
        }
    }

    #[test]
    fn a_full_stream_keeps_its_last_byte() {
        let (theirs, ours) = sys::unix_pair(libc::SOCK_STREAM).unwrap();
        sys::set_nonblocking(theirs.as_fd()).unwrap();
        let mut sent = 0;
        while let Ok(bytes) = sys::send_vectors(theirs.as_fd(), &[&[7; 4096]], 0) {
            sent += bytes;
        }
        while sys::send_vectors(theirs.as_fd(), &[b"7"], 0).is_ok() {
            sent += 1;
        }
        let mut last = end_writing(theirs.as_fd(), ours.as_fd(), libc::SHUT_WR).unwrap();
        assert_eq!(last, Last::Kept(sent));
        assert_eq!(all(&mut last, ours.as_fd(), 60_000).len(), sent);
        drop(ours);
        assert!(is_reset(theirs.as_fd()));
    }

    #[test]
    fn what_another_wrote_at_that_moment_is_told_from_our_byte() {
        let (theirs, ours) = sys::unix_pair(libc::SOCK_STREAM).unwrap();
        sys::set_option(ours.as_fd(), libc::SOL_SOCKET, libc::SO_PASSCRED, &1_i32.to_ne_bytes()).unwrap();
        let write = |text: &str| {
            let mut command = std::process::Command::new("printf");
            assert!(command.arg(text).stdout(theirs.try_clone().unwrap()).status().unwrap().success());
        };
        write("before");
        sys::send_vectors(theirs.as_fd(), &[b"\0"], 0).unwrap();
        write("after");
        sys::shutdown(theirs.as_fd(), libc::SHUT_WR).unwrap();
        let mut last = Last::Mixed;
        assert_eq!(last.bytes(ours.as_fd()), 11);
        assert_eq!(all(&mut last, ours.as_fd(), 4), b"beforeafter");
    }
}
