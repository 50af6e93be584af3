//! Datagram stand-ins, of two kinds. SOCK_SEQPACKET keeps boundaries, empty datagrams and MSG_TRUNC, and reports the last close. SOCK_DGRAM does
//! not report it (so it is looked for, [`super::liveness`]), but can show an error: unix_dgram_disconnected() puts ECONNRESET on the peer of a
//! socket that leaves it with data unread, and connecting again by name mends the pair. So sockets whose programs wait for errors in poll have
//! that kind: raw and ICMP sockets (ping, traceroute) from the beginning, UDP sockets from setsockopt(IP_RECVERR) on.
//!
//! A packet in the stand-in has no source address: those lie beside it, in order. A program may take packets by `read`, which we do not
//! see; how many are gone is told by the bytes that are left (FIONREAD of a seqpacket socket is their sum).

use crate::sys::{self, Errno};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use weft_core::Tail;
use weft_intercept::face::SocketId;

/// Most datagrams that lie in a stand-in.
pub const PACKETS_MAX: usize = 256;
/// SO_SNDBUF of our end; the kernel doubles it. Room for [`PACKETS_MAX`] datagrams with the kernel's overhead: what finds none waits.
pub const SEND_BUFFER_BYTES: i32 = 256 * 1024;

/// A datagram socket's stand-in.
#[derive(Debug)]
pub struct Packets {
    /// The model's.
    pub socket: SocketId,
    /// What came with each packet in the stand-in, oldest first.
    pub beside: VecDeque<Beside>,
    /// Taken from the model, not yet fitted into the stand-in.
    pub waiting: Option<(Beside, Tail)>,
    /// It is a SOCK_DGRAM pair, which can show errors: the name of the program's end. Else SOCK_SEQPACKET.
    pub name: Option<Vec<u8>>,
    /// The program's end shows an error (poll says ERR), until something reads it.
    pub error_shown: bool,
    /// The pending error, taken from the model so that the data behind it can go on.
    pub error: Option<Errno>,
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
    /// Memory that the kernel counts for it; 0: not measured.
    pub memory: usize,
    /// There was no packet: an empty one was put in to wake a program whose socket has an error pending.
    pub wakes_for_error: bool,
}

/// A SOCK_DGRAM pair that can show errors: (the program's end, ours, the name of the program's end).
///
/// # Errors
/// Those of socketpair(2) and bind(2).
pub fn pair_with_errors() -> Result<(OwnedFd, OwnedFd, Vec<u8>), Errno> {
    let (theirs, ours) = sys::unix_pair(libc::SOCK_DGRAM)?;
    let name = sys::autobind(theirs.as_fd())?;
    Ok((theirs, ours, name))
}

/// Puts ECONNRESET on the program's end: poll says ERR. What the program wrote must have been taken before: it would be lost.
///
/// # Errors
/// When the program's end takes nothing (it is shut down) or is gone.
pub fn raise_error(theirs: BorrowedFd<'_>, ours: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    // unix_dgram_disconnected: "If one link of bidirectional dgram pipe is disconnected, we signal error. Messages are lost."
    sys::send_vectors(theirs, &[b"\0"], 0)?;
    sys::connect(ours, &(libc::AF_UNSPEC as libc::sa_family_t).to_ne_bytes())?;
    sys::connect(ours, name)
}

/// The least that a packet costs in the kernel's accounting (768 bytes measured for an empty one; a lower bound is safe).
const PACKET_MEMORY_MIN: usize = 512;

impl Packets {
    /// Those of a socket of the model's, with nothing in the stand-in. `name`: see the field.
    pub fn new(socket: SocketId, name: Option<Vec<u8>>) -> Packets {
        Packets { socket, beside: VecDeque::new(), waiting: None, name, error_shown: false, error: None }
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
    /// The memory of a packet that was just put in. A program that reads at that moment makes the measure too small; then it is that of
    /// another packet of the same size.
    pub(super) fn measured(&self, bytes: usize, memory: usize) -> usize {
        let known = self.beside.iter().filter(|beside| beside.bytes == bytes).map(|beside| beside.memory).max().unwrap_or(0);
        memory.max(known).max(bytes + PACKET_MEMORY_MIN)
    }
    /// Forgets what belonged to packets of a SOCK_DGRAM stand-in that the program has taken by itself, given the memory that those left take.
    /// (FIONREAD of such a socket is the first packet's size and tells nothing of the others.)
    pub fn forget_measured(&mut self, memory: usize) {
        let mut known: usize = self.beside.iter().map(|beside| beside.memory).sum();
        while self.name.is_some() && known > memory {
            match self.beside.pop_front() {
                Some(gone) => known -= gone.memory,
                None => break,
            }
        }
    }
    /// Forgets what belonged to packets that the program has taken by itself. `theirs` and `ours` are the stand-in's two ends.
    pub fn forget_read(&mut self, theirs: BorrowedFd<'_>, ours: Option<BorrowedFd<'_>>) {
        match (&self.name, ours) {
            (Some(_), Some(ours)) => self.forget_measured(sys::unread_memory(ours)),
            (Some(_), None) => {}
            (None, _) => self.forget_taken(sys::readable_bytes(theirs)),
        }
    }
    /// The same for a SOCK_SEQPACKET stand-in. `left` is FIONREAD of the program's end.
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
    use bytes::BytesMut;

    fn beside(port: u8, bytes: usize) -> Beside {
        Beside { from: vec![port], bytes, ..Beside::default() }
    }

    #[test]
    fn an_error_shows_in_poll_while_data_flows_both_ways() {
        let (theirs, ours, name) = pair_with_errors().unwrap();
        let (theirs, ours) = (theirs.as_fd(), ours.as_fd());
        sys::send_vectors(ours, &[b"before"], 0).unwrap();
        assert_eq!(sys::poll_now(theirs, libc::POLLIN) & libc::POLLERR, 0);
        raise_error(theirs, ours, &name).unwrap();
        assert_eq!(sys::poll_now(theirs, libc::POLLIN), libc::POLLIN | libc::POLLERR);
        sys::send_vectors(ours, &[b"after"], 0).unwrap();
        let mut data = BytesMut::with_capacity(100);
        assert_eq!(sys::receive_into(theirs, &mut data, 100, 0), Err(Errno(libc::ECONNRESET)), "a native read is told, once");
        assert_eq!(sys::poll_now(theirs, libc::POLLIN), libc::POLLIN);
        for expected in [6, 5] {
            assert_eq!(sys::receive_into(theirs, &mut data, 100, 0), Ok(expected));
        }
        sys::send_vectors(theirs, &[b"back"], 0).unwrap();
        assert_eq!(sys::receive_into(ours, &mut data, 50, 0), Ok(4), "the marker is gone and the pair is whole");
        raise_error(theirs, ours, &name).unwrap();
        assert!(sys::get_option(theirs, libc::SOL_SOCKET, libc::SO_ERROR).is_ok());
        assert_eq!(sys::poll_now(theirs, libc::POLLIN), 0, "SO_ERROR clears it");
    }

    #[test]
    fn packets_that_are_left_are_known_by_their_memory() {
        let (theirs, ours, name) = pair_with_errors().unwrap();
        let mut packets = Packets::new(SocketId::from_number(0), Some(name));
        for (port, bytes) in [(1, 64), (2, 64), (3, 1000), (4, 0)] {
            let before = sys::unread_memory(ours.as_fd());
            sys::send_vectors(ours.as_fd(), &[&vec![0; bytes]], 0).unwrap();
            let memory = packets.measured(bytes, sys::unread_memory(ours.as_fd()) - before);
            packets.beside.push_back(Beside { memory, ..beside(port, bytes) });
        }
        let mut data = BytesMut::with_capacity(2000);
        for left in [[1, 2, 3, 4].as_slice(), &[2, 3, 4], &[3, 4], &[4], &[]] {
            packets.forget_read(theirs.as_fd(), Some(ours.as_fd()));
            assert_eq!(packets.beside.iter().map(|beside| beside.from[0]).collect::<Vec<_>>(), left);
            let _ = sys::receive_into(theirs.as_fd(), &mut data, 100, 0);
        }
    }

    #[test]
    fn sources_follow_packets_that_the_program_took_by_itself() {
        let mut packets = Packets::new(SocketId::from_number(0), None);
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
