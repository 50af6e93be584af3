//! What flows through a stream stand-in: from our end into the model, and back.

use super::buffer::ReadBuffer;
use super::stand_in::{StandIn, UNREAD_BYTES_MAX, UNREAD_GROWS_AFTER, send_buffer_bytes};
use crate::sys::{self, Errno};
use bytes::{Buf, Bytes};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use weft_intercept::face::{Poll, SocketId, SocketState, Stack};

/// Most bytes read from a stand-in at once.
const READ_BYTES_MAX: usize = 256 * 1024;
/// Least room to read into.
const READ_ROOM_MIN: usize = 64 * 1024;
/// Largest message written into a stand-in: the kernel makes one buffer of it, which is freed when the program has read it entirely.
pub const WRITE_BYTES_MAX: usize = 32 * 1024;
/// Messages written with one system call.
const WRITE_MESSAGES_MAX: usize = 4;

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
            one.moments.came(1, &[]);
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
            Ok(received) => {
                one.moments.came(received.len(), &received.control);
                one.leftover.extend(received.data);
            }
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
