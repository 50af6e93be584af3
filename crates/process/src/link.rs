//! Netlink sockets of programs, with what waits there.

use std::collections::VecDeque;
use weft_intercept::face::Stack;
use weft_intercept::netlink::{PACKETS_BYTES_MAX, PACKETS_MAX, Ports, Sender, Socket, memory_of};
use weft_intercept::sys::Errno;

/// A netlink socket of a program.
#[derive(Debug)]
pub(super) struct Link {
    pub socket: Socket,
    /// What waits for the program, with who has sent it.
    packets: VecDeque<(Sender, Vec<u8>)>,
    /// The memory that it takes (sk_rmem_alloc).
    queued: usize,
    /// Packets of the kernel's had to be dropped, which the program has not heard of.
    pub lost: bool,
}

impl Link {
    pub fn new(kind: i32, protocol: i32, ports: &Ports, stack: &mut dyn Stack) -> Result<Link, Errno> {
        Ok(Link { socket: Socket::new(kind, protocol, ports, stack)?, packets: VecDeque::new(), queued: 0, lost: false })
    }

    /// What the kernel says, all of it or nothing.
    pub fn queue(&mut self, sender: Sender, packets: Vec<Vec<u8>>) {
        if self.packets.len() + packets.len() > PACKETS_MAX || self.queued > PACKETS_BYTES_MAX {
            self.lost = true;
            return;
        }
        packets.into_iter().for_each(|packet| self.put(sender, packet));
    }

    /// The next part of a dump comes, if one is under way and what waits takes no more than half of the buffer. True: it has.
    pub fn goes_on(&mut self) -> bool {
        let has_room = self.queued <= self.socket.options.receive_buffer() / 2;
        let part = if has_room { self.socket.session.next_part() } else { None };
        let came = part.is_some();
        part.into_iter().for_each(|part| self.put(Sender::default(), part));
        came
    }

    /// A program's packet. False: there is no room, and the sender waits; the receiver hears nothing of that.
    pub fn queue_of_program(&mut self, from: Sender, packet: &[u8]) -> bool {
        let has_room = self.socket.has_room(packet.len(), self.queued) && self.packets.len() < PACKETS_MAX;
        if has_room {
            self.put(from, packet.to_vec());
        }
        has_room
    }

    fn put(&mut self, from: Sender, packet: Vec<u8>) {
        if let Some(packet) = self.socket.options.filtered(packet) {
            self.queued += memory_of(packet.len());
            self.packets.push_back((from, packet));
        }
    }

    /// The next packet, with who has sent it.
    pub fn peek(&self) -> Option<&(Sender, Vec<u8>)> {
        self.packets.front()
    }

    /// Takes that.
    pub fn drop_first(&mut self) {
        if let Some((_, packet)) = self.packets.pop_front() {
            self.queued -= memory_of(packet.len());
        }
    }

    /// The memory that unread packets take.
    pub fn queued(&self) -> usize {
        self.queued
    }

    /// POLLIN, POLLOUT, POLLERR.
    pub fn readiness(&self) -> u32 {
        4 | u32::from(!self.packets.is_empty()) | if self.lost { 8 } else { 0 }
    }
}
