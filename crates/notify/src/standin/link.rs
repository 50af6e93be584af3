//! A netlink socket's own part of its stand-in.

use std::collections::BTreeMap;
use weft_intercept::netlink::Socket;

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
}

impl Link {
    /// A fresh one.
    pub fn new(socket: Socket) -> Link {
        Link { socket, held_back: 0, lost: false, senders: BTreeMap::new() }
    }
}
