//! A netlink socket's own part of its stand-in.

use std::collections::{BTreeMap, VecDeque};
use weft_intercept::netlink::{Sender, Socket};

/// No stand-in has room for more packets: 2 MiB ([`crate::netlink::SEND_BUFFER_BYTES`], doubled) of the kernel's memory, of which the smallest takes 768.
const STAND_IN_PACKETS_MAX: usize = 4096;

/// A netlink socket of a program.
#[derive(Debug)]
pub struct Link {
    /// What it is, without what waits there.
    pub socket: Socket,
    /// The memory that packets take which have no room in the stand-in yet.
    pub held_back: usize,
    /// Packets of the node's had to be dropped, which the program has not heard of.
    pub lost: bool,
    /// Who waits to send to it, by stand-in, and how many bytes.
    pub senders: BTreeMap<usize, usize>,
    /// Who has sent the packets in the stand-in, and behind them those that have no room there yet, and how many bytes each has.
    pub beside: VecDeque<(Sender, usize)>,
    /// The thread that has written what waits to be sent on (`unsent`), as the host numbers it.
    pub unsent_writer: u32,
}

impl Link {
    /// A fresh one.
    pub fn new(socket: Socket) -> Link {
        Link { socket, held_back: 0, lost: false, senders: BTreeMap::new(), beside: VecDeque::new(), unsent_writer: 0 }
    }

    /// A packet of so many bytes comes behind `waiting` others that have no room in the stand-in yet.
    pub fn comes(&mut self, sender: Sender, bytes: usize, waiting: usize) {
        self.beside.push_back((sender, bytes));
        while self.beside.len() > waiting + 1 + STAND_IN_PACKETS_MAX {
            // A program that reads natively has taken it.
            self.beside.pop_front();
        }
    }

    /// Who has sent the packet that comes next. Of what belongs to the stand-in there are `readable` bytes yet, the rest was read natively; `waiting` packets have
    /// no room there.
    pub fn next_sender(&mut self, readable: usize, waiting: usize) -> Sender {
        next_sender(&mut self.beside, readable, waiting)
    }
}

fn next_sender(beside: &mut VecDeque<(Sender, usize)>, readable: usize, waiting: usize) -> Sender {
    let inside = beside.len().saturating_sub(waiting);
    let mut bytes: usize = beside.iter().take(inside).map(|(_, bytes)| bytes).sum();
    while bytes > readable {
        match beside.pop_front() {
            Some((_, gone)) => bytes -= gone,
            None => break,
        }
    }
    beside.front().map(|(sender, _)| *sender).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_follow_packets_that_the_program_took_by_itself() {
        let mut beside: VecDeque<(Sender, usize)> =
            [10, 20, 30, 40].map(|bytes| (Sender { number: bytes as u32, ..Sender::default() }, bytes)).into();
        let mut next = |readable, waiting| {
            let sender = next_sender(&mut beside, readable, waiting).number;
            (sender, beside.len())
        };
        assert_eq!(next(60, 1), (10, 4));
        assert_eq!(next(50, 1), (20, 3));
        assert_eq!(next(30, 1), (30, 2));
        // All of the stand-in was read; one has no room there yet.
        assert_eq!(next(0, 1), (40, 1));
        assert_eq!(next(0, 0), (0, 0));
    }
}
