//! Netlink sockets of programs.

use std::collections::VecDeque;
use weft_intercept::netlink::{PACKETS_MAX, Session};
use weft_intercept::sys::Errno;

/// A netlink socket of a program.
#[derive(Debug)]
pub(super) struct Link {
    pub state: Session,
    pub packets: VecDeque<Vec<u8>>,
    /// Packets had to be dropped, which the program has not heard of.
    pub lost: bool,
}

impl Link {
    pub fn new(kind: i32, protocol: i32) -> Result<Link, Errno> {
        Ok(Link { state: Session::new(kind, protocol).map_err(Errno)?, packets: VecDeque::new(), lost: false })
    }
    pub fn queue(&mut self, packet: Vec<u8>) {
        if self.packets.len() < PACKETS_MAX {
            self.packets.push_back(packet);
        } else {
            self.lost = true;
        }
    }
    /// POLLIN, POLLOUT, POLLERR.
    pub fn readiness(&self) -> u32 {
        4 | u32::from(!self.packets.is_empty()) | if self.lost { 8 } else { 0 }
    }
}
