//! Stream stand-ins: the pump between our end and the model, connecting, ending and resetting.

use super::buffer::ReadBuffer;
use super::{StandIn, UNREAD_BYTES_MAX, UNREAD_GROWS_AFTER, send_buffer_bytes};
use crate::face::{Poll, SocketId, SocketState, Stack};
use crate::sys::{self, Errno};
use bytes::{Buf, Bytes, BytesMut};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};

/// Most bytes read from a stand-in at once.
const READ_BYTES_MAX: usize = 256 * 1024;
/// Least room to read into.
const READ_ROOM_MIN: usize = 64 * 1024;
/// Largest message written into a stand-in: the kernel makes one buffer of it, which is freed when the program has read it entirely.
pub const WRITE_BYTES_MAX: usize = 32 * 1024;
/// Messages written with one system call.
const WRITE_MESSAGES_MAX: usize = 4;

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
        /// A token lies in its queue: it is readable.
        token: bool,
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
    fn take(&mut self, ours: BorrowedFd<'_>, buffer: &mut BytesMut, limit: usize) -> Result<usize, Errno> {
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

/// How pumping the program's data ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Out {
    /// Nothing more now.
    Open,
    /// The program has shut down its side or closed.
    End,
    /// The program has closed and left unread data behind.
    Reset,
}

/// How pumping the model's data ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum In {
    /// Nothing more now.
    Open,
    /// The connection failed, and all data that came before is delivered.
    Failed,
    /// The program's end is gone.
    Gone,
}

/// Moves what the program wrote into the model, as far as the model has room.
pub fn pump_out(one: &mut StandIn, socket: SocketId, filling: &mut usize, buffer: &mut ReadBuffer, stack: &mut dyn Stack) -> Out {
    let Some(ours) = &one.ours else { return Out::Open };
    if one.write_ended {
        return Out::End;
    }
    loop {
        if let Some(unsent) = one.unsent.take() {
            one.unsent = send(socket, unsent, stack);
            if one.unsent.is_some() {
                return Out::Open;
            }
        }
        if !one.readable {
            return Out::Open;
        }
        let room = if *filling > 0 { *filling } else { stack.send_room(socket) };
        if room == 0 {
            return Out::Open;
        }
        let buffer = buffer.room(READ_ROOM_MIN);
        let asked = room.min(READ_BYTES_MAX).min(buffer.capacity());
        let taken = match &mut one.last {
            Some(last) if *filling == 0 => last.take(ours.as_fd(), buffer, asked),
            _ => sys::receive_into(ours.as_fd(), buffer, asked, 0),
        };
        match taken {
            Ok(0) => return Out::End,
            Ok(bytes) if *filling > 0 => {
                *filling -= bytes.min(*filling);
                buffer.clear();
            }
            Ok(bytes) => {
                one.written += bytes as u64;
                // Less than asked for: nothing was left, and what comes later is told (an edge). The end of the stream, too, is told, but
                // perhaps together with these bytes.
                one.readable = bytes == asked || one.ends || one.last.is_some();
                one.unsent = Some(buffer.split().freeze());
            }
            Err(Errno(libc::EAGAIN)) => {
                one.readable = false;
                return Out::Open;
            }
            Err(_) => return Out::Reset,
        }
    }
}

/// Gives bytes to the model; what it does not take comes back. Bytes for a connection that has failed are lost with it, as in TCP.
fn send(socket: SocketId, mut bytes: Bytes, stack: &mut dyn Stack) -> Option<Bytes> {
    match stack.send(socket, bytes.clone(), libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT, None, &[]) {
        Ok(sent) => {
            bytes.advance(sent.min(bytes.len()));
            (!bytes.is_empty()).then_some(bytes)
        }
        // The latter: the first write of a deferred Fast Open began to connect and could take nothing along.
        Err(Errno(libc::EAGAIN | libc::EINPROGRESS)) => Some(bytes),
        Err(_) => None,
    }
}

/// Moves what the model received into the stand-in, at most [`StandIn::unread_max`] bytes ahead of the program.
pub fn pump_in(one: &mut StandIn, socket: SocketId, stack: &mut dyn Stack) -> In {
    one.wants_room = false;
    let Some(ours) = &one.ours else { return In::Open };
    loop {
        // What comes after shutdown(SHUT_RD) stays in the model: the stand-in takes no more, and a trapped read finds it there.
        if one.read_ended || one.shut_read {
            return if failed(socket, stack) { In::Failed } else { In::Open };
        }
        let before = one.unread;
        if let Err(gone) = write_leftover(ours.as_fd(), &mut one.leftover, &mut one.writable, &mut one.unread) {
            return gone;
        }
        one.after_mark += one.unread - before;
        if !one.leftover.is_empty() {
            one.wants_room = true;
            return In::Open;
        }
        if pass_urgent(ours.as_fd(), socket, stack) {
            one.after_mark = 0;
        }
        let ready = stack.receive_ready(socket);
        if ready == 0 {
            if failed(socket, stack) {
                return In::Failed;
            }
            if !stack.readiness(socket).contains(Poll::RDHUP) {
                return In::Open;
            }
            // FIN: all data before it is in the stand-in. IN and RDHUP at the program's end, and then a read of zero.
            let _ = sys::shutdown(ours.as_fd(), libc::SHUT_WR);
            one.read_ended = true;
            continue;
        }
        let room = room(ours.as_fd(), &mut one.unread, &mut one.unread_max, &mut one.taken);
        if room == 0 {
            one.wants_room = true;
            return In::Open;
        }
        match stack.receive(socket, room, libc::MSG_DONTWAIT) {
            Ok(received) if received.data.iter().all(Bytes::is_empty) => return In::Open,
            Ok(received) => one.leftover.extend(received.data),
            Err(_) => return In::Open,
        }
    }
}

/// When the urgent byte comes next, it goes into the stand-in as such: MSG_OOB, the mark, POLLPRI and SIGURG work there as in TCP. Returns
/// whether it did.
fn pass_urgent(ours: BorrowedFd<'_>, socket: SocketId, stack: &mut dyn Stack) -> bool {
    const SIOCATMARK: u64 = 0x8905;
    if !stack.readiness(socket).contains(Poll::PRI)
        || stack.ioctl(socket, SIOCATMARK, &[]).is_ok_and(|mark| mark.iter().all(|byte| *byte == 0))
    {
        return false;
    }
    let mut received = stack.receive(socket, 1, libc::MSG_OOB | libc::MSG_DONTWAIT);
    if received.is_err() {
        // SO_OOBINLINE: it is to be read in its place, and the stand-in has that option too.
        received = stack.receive(socket, 1, libc::MSG_DONTWAIT);
    }
    let Ok(received) = received else { return false };
    let Some(byte) = received.data.iter().find(|bytes| !bytes.is_empty()) else { return false };
    // Without room the mark is lost and the byte with it, as when a second urgent byte overtakes the first.
    sys::send_vectors(ours, &[&byte[..1]], libc::MSG_OOB).is_ok()
}

/// The connection is over by an error that the program has not been told.
fn failed(socket: SocketId, stack: &mut dyn Stack) -> bool {
    stack.state(socket) == Some(SocketState::Failed) && stack.pending_error(socket).is_some()
}

/// How many more bytes may lie in the stand-in. SIOCOUTQ counts more than the bytes (the kernel's true size, and whole messages until their
/// last byte is read), so the smaller of the two is still an upper bound of what is unread.
fn room(ours: BorrowedFd<'_>, unread: &mut usize, unread_max: &mut usize, taken: &mut usize) -> usize {
    // A few bytes of room are not worth a message: wait for more.
    let worth = *unread_max / 4;
    if unread_max.saturating_sub(*unread) < worth {
        let left = sys::unread_memory(ours).min(*unread);
        *taken += *unread - left;
        *unread = left;
        if *taken >= UNREAD_GROWS_AFTER * *unread_max && *unread_max < UNREAD_BYTES_MAX {
            *taken = 0;
            *unread_max = (*unread_max * 2).min(UNREAD_BYTES_MAX);
            sys::set_send_buffer(ours, send_buffer_bytes(*unread_max));
        }
    }
    let room = unread_max.saturating_sub(*unread);
    if room < worth && *unread > 0 { 0 } else { room }
}

fn write_leftover(ours: BorrowedFd<'_>, leftover: &mut VecDeque<Bytes>, writable: &mut bool, unread: &mut usize) -> Result<(), In> {
    while !leftover.is_empty() && *writable {
        let mut chunks: smallvec::SmallVec<[&[u8]; 16]> = smallvec::SmallVec::new();
        let mut total = 0;
        for bytes in leftover.iter() {
            let take = bytes.len().min(WRITE_MESSAGES_MAX * WRITE_BYTES_MAX - total);
            chunks.push(&bytes[..take]);
            total += take;
            if total == WRITE_MESSAGES_MAX * WRITE_BYTES_MAX || chunks.len() == 64 {
                break;
            }
        }
        let sent = sys::send_vectors(ours, &chunks, 0);
        drop(chunks);
        match sent {
            Ok(sent) => {
                *unread += sent;
                consume(leftover, sent);
            }
            Err(Errno(libc::EAGAIN)) => *writable = false,
            // The program has closed, or shut down its reading side: TCP throws such data away too.
            Err(Errno(libc::EPIPE)) => {
                leftover.clear();
                return Ok(());
            }
            Err(_) => return Err(In::Gone),
        }
    }
    Ok(())
}

fn consume(queue: &mut VecDeque<Bytes>, mut bytes: usize) {
    while let Some(first) = queue.front_mut() {
        if first.len() > bytes {
            first.advance(bytes);
            return;
        }
        bytes -= first.len();
        queue.pop_front();
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

    #[test]
    fn a_filled_stand_in_is_ready_for_nothing_and_for_writing_once_it_is_emptied() {
        let (theirs, ours) = sys::unix_pair(libc::SOCK_STREAM).unwrap();
        let filled = fill(theirs.as_fd());
        assert_eq!(sys::poll_now(theirs.as_fd(), libc::POLLIN | libc::POLLOUT), 0);
        assert_eq!(sys::send_vectors(theirs.as_fd(), &[b"x"], 0), Err(Errno(libc::EAGAIN)));
        let mut buffer = ReadBuffer::default();
        let mut left = filled;
        while left > 0 {
            let buffer = buffer.room(READ_ROOM_MIN);
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
