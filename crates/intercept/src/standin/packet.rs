//! Datagram stand-ins. SOCK_SEQPACKET keeps boundaries, empty datagrams and MSG_TRUNC, and reports the last close (SOCK_DGRAM does not).
//!
//! A packet in the stand-in has no source address: those lie beside it, in order. A program may take packets by `read`, which we do not
//! see; how many are gone is told by the bytes that are left (FIONREAD of a seqpacket socket is their sum).

use super::StandIn;
use super::buffer::ReadBuffer;
use crate::face::{Poll, SocketId, Stack};
use crate::sys::{self, Errno, Packet};
use bytes::Bytes;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use weft_core::Tail;

/// Most datagrams that lie in a stand-in.
pub const PACKETS_MAX: usize = 256;
/// Most bytes of datagrams that lie there: so many, of 1472 bytes, that the kernel's level for room ([`SEND_BUFFER_BYTES`]) is below them, and a
/// program that reads wakes us for dozens at once.
const PACKETS_UNREAD_BYTES_MAX: usize = 128 * 1024;
/// SO_SNDBUF of our end; the kernel doubles it. Room for [`PACKETS_MAX`] datagrams with the kernel's overhead: what finds none waits.
pub const SEND_BUFFER_BYTES: i32 = 256 * 1024;
/// The largest datagram that a program can write.
const DATAGRAM_BYTES_MAX: usize = 65_536;

/// How what a program wrote natively is sent.
const FLAGS: i32 = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;

/// A datagram socket's stand-in.
#[derive(Debug)]
pub struct Packets {
    /// The model's.
    pub socket: SocketId,
    /// What came with each packet in the stand-in, oldest first.
    pub beside: VecDeque<Beside>,
    /// Taken from the model, not yet fitted into the stand-in.
    pub waiting: Option<(Beside, Tail)>,
}

/// What belongs to a packet and does not fit into the stand-in.
#[derive(Debug, Clone, Default)]
pub struct Beside {
    /// `sockaddr` of the sender.
    pub from: Vec<u8>,
    /// Control messages.
    pub control: Vec<u8>,
    /// msg_flags.
    pub flags: i32,
    /// Bytes of the packet.
    pub bytes: usize,
    /// There was no packet: an empty one was put in to wake a program whose socket has an error pending.
    pub wakes_for_error: bool,
}

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
            Ok(Packet::Bytes(bytes)) if bytes > DATAGRAM_BYTES_MAX => {
                buffer.clear();
                *late_refusals += 1;
            }
            Ok(Packet::Bytes(_)) => one.unsent = Some(buffer.split().freeze()),
            Err(Errno(libc::EAGAIN)) => {
                one.readable = false;
                return false;
            }
            Ok(Packet::End) | Err(_) => return true,
        }
    }
}

/// Moves datagrams from the model into the stand-in. Returns whether any came.
pub fn pump_in(one: &mut StandIn, stack: &mut dyn Stack) -> bool {
    let (Some(ours), super::Body::Packet(packets)) = (&one.ours, &mut one.body) else { return false };
    // After shutdown(SHUT_RD) the stand-in takes nothing more; trapped reads find the rest in the model.
    if one.shut_read {
        return false;
    }
    let mut moved = false;
    if packets.forget_freed(sys::unread_memory(ours.as_fd())) {
        // The program took what woke it by itself: it has been told, as well as a native read can.
        let _ = stack.get_option(packets.socket, libc::SOL_SOCKET, libc::SO_ERROR, 4);
    }
    one.unread = packets.beside.iter().map(|beside| beside.bytes).sum();
    while one.writable && packets.beside.len() < PACKETS_MAX && one.unread < PACKETS_UNREAD_BYTES_MAX {
        let (beside, data) = match packets.waiting.take() {
            Some(waiting) => waiting,
            None => match next(ours.as_fd(), packets, stack) {
                Next::Datagram(beside, data) => (beside, data),
                Next::Woken => {
                    moved = true;
                    break;
                }
                Next::Nothing => break,
            },
        };
        let chunks: Vec<&[u8]> = data.iter().map(AsRef::as_ref).collect();
        match sys::send_vectors(ours.as_fd(), &chunks, 0) {
            Ok(_) => {
                one.unread += beside.bytes;
                packets.beside.push_back(beside);
                moved = true;
            }
            Err(Errno(libc::EAGAIN)) => {
                packets.waiting = Some((beside, data));
                one.writable = false;
            }
            Err(_) => break,
        }
    }
    let full = !one.writable || packets.beside.len() >= PACKETS_MAX || one.unread >= PACKETS_UNREAD_BYTES_MAX;
    // An error waits until what lies in the stand-in is read.
    one.wants_room = full || stack.readiness(packets.socket).contains(Poll::ERR);
    moved
}

/// The least that a packet costs in the kernel's accounting (768 bytes measured for an empty one; a lower bound is safe).
const PACKET_MEMORY_MIN: usize = 512;

/// What the model has for a datagram socket's program.
enum Next {
    Datagram(Beside, Tail),
    /// An error is pending, and an empty packet was put in to say so.
    Woken,
    Nothing,
}

fn next(ours: BorrowedFd<'_>, packets: &mut Packets, stack: &mut dyn Stack) -> Next {
    let ready = stack.readiness(packets.socket);
    if ready.contains(Poll::ERR) {
        // The error, or the queue of errors, stays in the model for the next trapped call; see docs/compatibility.md.
        if packets.beside.is_empty() && sys::send_vectors(ours, &[b""], 0).is_ok() {
            packets.beside.push_back(Beside { wakes_for_error: true, ..Beside::default() });
            return Next::Woken;
        }
        return Next::Nothing;
    }
    if !ready.contains(Poll::IN) {
        return Next::Nothing;
    }
    let Ok(received) = stack.receive(packets.socket, DATAGRAM_BYTES_MAX, libc::MSG_DONTWAIT) else { return Next::Nothing };
    let beside = Beside {
        bytes: received.data.iter().map(Bytes::len).sum(),
        from: received.from,
        control: received.control,
        flags: received.flags,
        wakes_for_error: false,
    };
    Next::Datagram(beside, received.data)
}

impl Packets {
    /// Those of a socket of the model's, with nothing in the stand-in.
    pub fn new(socket: SocketId) -> Packets {
        Packets { socket, beside: VecDeque::new(), waiting: None }
    }
    /// Forgets what belonged to packets that must be gone, given the memory that those in the stand-in take (SIOCOUTQ of our end). Returns
    /// whether one of them was there for an error.
    pub fn forget_freed(&mut self, memory: usize) -> bool {
        let mut told = false;
        let mut bytes: usize = self.beside.iter().map(|beside| beside.bytes).sum();
        while bytes > memory || self.beside.len() > memory / PACKET_MEMORY_MIN {
            match self.beside.pop_front() {
                Some(gone) => {
                    bytes -= gone.bytes;
                    told |= gone.wakes_for_error;
                }
                None => break,
            }
        }
        told
    }
    /// Forgets what belonged to packets that the program has taken by itself. `left` is FIONREAD of the program's end.
    pub fn forget_taken(&mut self, left: usize) {
        let mut bytes: usize = self.beside.iter().map(|beside| beside.bytes).sum();
        while bytes > left {
            match self.beside.pop_front() {
                Some(gone) => bytes -= gone.bytes,
                None => break,
            }
        }
    }
    /// What belonged to a packet of this many bytes, which has just been taken.
    pub fn take(&mut self, bytes: usize) -> Option<Beside> {
        while let Some(beside) = self.beside.pop_front() {
            if beside.bytes == bytes {
                return Some(beside);
            }
        }
        None
    }
    /// What belongs to the packet that comes next.
    pub fn peek(&self, bytes: usize) -> Option<&Beside> {
        self.beside.iter().find(|beside| beside.bytes == bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beside(port: u8, bytes: usize) -> Beside {
        Beside { from: vec![port], bytes, ..Beside::default() }
    }

    #[test]
    fn sources_follow_packets_that_the_program_took_by_itself() {
        let mut packets = Packets::new(SocketId::from_number(0));
        packets.beside = [beside(1, 10), beside(2, 20), beside(3, 30)].into();
        packets.forget_taken(60);
        assert_eq!(packets.beside.len(), 3);
        packets.forget_taken(50);
        assert_eq!(packets.take(20).unwrap().from, [2]);
        assert_eq!(packets.peek(30).unwrap().from, [3]);
        packets.forget_taken(0);
        assert!(packets.take(30).is_none());
    }
}
