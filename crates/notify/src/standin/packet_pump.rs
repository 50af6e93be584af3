//! What flows through a datagram stand-in: from our end into the model, and back.

use super::buffer::ReadBuffer;
use super::packet::{Beside, PACKETS_MAX, Packets};
use super::stand_in::{Body, StandIn};
use crate::sys::{self, Errno, Packet};
use bytes::Bytes;
use std::os::fd::{AsFd, BorrowedFd};
use weft_core::Tail;
use weft_intercept::face::{Poll, SocketId, Stack};

/// Most bytes of datagrams that lie there: so many, of 1472 bytes, that the kernel's level for room
/// ([`SEND_BUFFER_BYTES`](super::packet::SEND_BUFFER_BYTES)) is below them, and a program that reads wakes us for dozens at once.
const PACKETS_UNREAD_BYTES_MAX: usize = 128 * 1024;
/// The largest datagram that a program can write.
const DATAGRAM_BYTES_MAX: usize = 65_536;

/// How what a program wrote natively is sent.
const FLAGS: i32 = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;

/// Moves what the program wrote into the model. True: the program's end is closed or shut down, and nothing is left in it.
pub fn pump_out(one: &mut StandIn, socket: SocketId, buffer: &mut ReadBuffer, late_refusals: &mut u64, stack: &mut dyn Stack) -> bool {
    let Some(ours) = &one.ours else { return false };
    loop {
        if let Some(unsent) = one.unsent.take() {
            // An error of an earlier datagram ends this call in Linux. Here the program was told already that this one is sent: send it,
            // and leave it to the answer to bring the error again.
            let earlier = stack.pending_error(socket);
            let mut sent = stack.send(socket, unsent.clone(), FLAGS, None, &[]);
            if sent.is_err() && sent.err() == earlier {
                sent = stack.send(socket, unsent.clone(), FLAGS, None, &[]);
            }
            match sent {
                Ok(_) => {}
                Err(Errno(libc::EAGAIN)) => {
                    one.unsent = Some(unsent);
                    return false;
                }
                // UDP loses datagrams; the counter tells why.
                Err(_) => *late_refusals += 1,
            }
        }
        if !one.readable || stack.send_room(socket) == 0 {
            return false;
        }
        let buffer = buffer.room(DATAGRAM_BYTES_MAX);
        match sys::receive_packet(ours.as_fd(), buffer) {
            Ok(Packet::Bytes(bytes, _)) if bytes > DATAGRAM_BYTES_MAX => {
                buffer.clear();
                *late_refusals += 1;
            }
            Ok(Packet::Bytes(..)) => one.unsent = Some(buffer.split().freeze()),
            Err(Errno(libc::EAGAIN)) => {
                one.readable = false;
                return false;
            }
            Ok(Packet::End) | Err(_) => return true,
        }
    }
}

/// Moves datagrams from the model into the stand-in. True: the program's end is gone.
pub fn pump_in(one: &mut StandIn, stack: &mut dyn Stack) -> bool {
    let (Some(ours), Body::Packet(packets)) = (&one.ours, &mut one.body) else { return false };
    // After shutdown(SHUT_RD) the stand-in takes nothing more; trapped reads find the rest in the model.
    if one.shut_read {
        return false;
    }
    let mut gone = false;
    packets.forget_measured(sys::unread_memory(ours.as_fd()));
    if packets.forget_freed(sys::unread_memory(ours.as_fd())) {
        // The program took what woke it by itself: it has been told, as well as a native read can.
        let _ = stack.get_option(packets.socket, libc::SOL_SOCKET, libc::SO_ERROR, 4);
    }
    one.unread = packets.beside.iter().map(|beside| beside.bytes).sum();
    while one.writable && packets.beside.len() < PACKETS_MAX && one.unread < PACKETS_UNREAD_BYTES_MAX {
        let (mut beside, data) = match packets.waiting.take() {
            Some(waiting) => waiting,
            None => match next(ours.as_fd(), packets, stack) {
                Next::Datagram(beside, data) => (beside, data),
                Next::Nothing => break,
            },
        };
        let chunks: Vec<&[u8]> = data.iter().map(AsRef::as_ref).collect();
        let before = if packets.name.is_some() { sys::unread_memory(ours.as_fd()) } else { 0 };
        match sys::send_vectors(ours.as_fd(), &chunks, 0) {
            Ok(_) => {
                one.unread += beside.bytes;
                if packets.name.is_some() {
                    beside.memory = packets.measured(beside.bytes, sys::unread_memory(ours.as_fd()).saturating_sub(before));
                }
                packets.beside.push_back(beside);
            }
            Err(Errno(libc::EAGAIN)) => {
                packets.waiting = Some((beside, data));
                one.writable = false;
            }
            Err(errno) => {
                // unix_dgram_sendmsg: ECONNREFUSED when the peer is dead.
                gone = errno == Errno(libc::ECONNREFUSED);
                break;
            }
        }
    }
    let full = !one.writable || packets.beside.len() >= PACKETS_MAX || one.unread >= PACKETS_UNREAD_BYTES_MAX;
    // In a stand-in that cannot show an error, what stands for it waits until the data there is read.
    one.wants_room = full || packets.name.is_none() && stack.readiness(packets.socket).contains(Poll::ERR);
    gone
}

/// What the model has for a datagram socket's program.
enum Next {
    Datagram(Beside, Tail),
    /// It has nothing, or an error comes first.
    Nothing,
}

fn next(ours: BorrowedFd<'_>, packets: &mut Packets, stack: &mut dyn Stack) -> Next {
    let ready = stack.readiness(packets.socket);
    if ready.contains(Poll::ERR) && packets.name.is_none() {
        // The error stays in the model for the next trapped call, and an empty packet says so; see docs/compatibility.md.
        if packets.beside.is_empty() && sys::send_vectors(ours, &[b""], 0).is_ok() {
            packets.beside.push_back(Beside { wakes_for_error: true, ..Beside::default() });
        }
        return Next::Nothing;
    }
    if !ready.contains(Poll::IN) {
        return Next::Nothing;
    }
    if let Some(errno) = stack.pending_error(packets.socket) {
        // Receiving would be told the error. It is kept for the program; the data need not wait for that.
        let _ = stack.get_option(packets.socket, libc::SOL_SOCKET, libc::SO_ERROR, 4);
        packets.error = Some(errno);
    }
    let Ok(received) = stack.receive(packets.socket, DATAGRAM_BYTES_MAX, libc::MSG_DONTWAIT) else { return Next::Nothing };
    let beside = Beside {
        bytes: received.data.iter().map(Bytes::len).sum(),
        memory: 0,
        from: received.from,
        control: received.control,
        flags: received.flags,
        wakes_for_error: false,
    };
    Next::Datagram(beside, received.data)
}
