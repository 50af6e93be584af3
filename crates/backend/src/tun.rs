//! `tun:NAME`: a device of the kernel whose frames are IP packets without a link-layer header (Documentation/networking/tuntap.rst).
//!
//! As [`crate::tap`], with the same offloads in both directions, but without Ethernet: no ARP and no neighbour discovery, one packet's version
//! field says whether it is IPv4 or IPv6. The kernel routes to it as to a point-to-point link.
//!
//! It refuses frames that are no IP packet: the kernel drops what it cannot read the version of.

use crate::device::Device;
use crate::error::OpenError;
use crate::interface::{Backend, Features, OpenOptions};
use crate::link_type::LinkType;
use crate::tap;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use weft_core::{Completion, Frame, Instant};

/// A TUN device.
pub struct Tun {
    device: Device,
}

impl Tun {
    /// Opens or makes the device `name`; empty: the kernel chooses (`tun0`).
    ///
    /// Uses `interface`, `mtu`, `offload` and `host_addresses` of the options.
    ///
    /// # Errors
    /// `/dev/net/tun` is missing, privileges are, or the name is taken.
    pub fn open(name: &str, options: &OpenOptions) -> Result<Tun, OpenError> {
        Ok(Tun { device: tap::attach(name, options, LinkType::Ip)? })
    }
}

impl Backend for Tun {
    fn name(&self) -> &str {
        &self.device.name
    }
    fn receive(&mut self, now: Instant, frames: &mut Vec<Frame>, limit: usize) -> io::Result<usize> {
        self.device.receive(now, frames, limit)
    }
    fn transmit(&mut self, _now: Instant, frames: &mut VecDeque<Frame>, done: &mut Vec<Completion>) -> io::Result<usize> {
        self.device.transmit(frames, done)
    }
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.device.fd.as_fd())
    }
    fn features(&self) -> Features {
        self.device.features
    }
    fn drops(&mut self) -> Vec<(&'static str, u64)> {
        self.device.drops.rows()
    }
    fn give_back_memory(&mut self) {
        self.device.blocks.give_back_memory();
    }
}
