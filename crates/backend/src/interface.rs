//! What is behind an interface, whichever kind it is: [`Backend`], what it can do, and how it is opened.

use crate::link_type::LinkType;
use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use weft_core::offload::{self, CutChecksums};
use weft_core::{Completion, Frame, GsoKind, Instant, InterfaceIndex};
use weft_wire::ethernet::Mac;

/// Frames that wait in one direction of a link in memory unless the options say otherwise.
pub(crate) const QUEUE_FRAMES_MAX: usize = 1024;

/// One interface's other side.
pub trait Backend: Send {
    /// What the device is called: `weft0`.
    fn name(&self) -> &str;

    /// Appends up to `limit` received frames and returns how many. Never blocks: 0 means that there is nothing now.
    ///
    /// A frame begins with the header of [`Features::link`]; its metadata has interface, time, checksum state and `gso`.
    ///
    /// # Errors
    /// The device is gone (its interface was deleted) or broken; opening it again may help.
    fn receive(&mut self, now: Instant, frames: &mut Vec<Frame>, limit: usize) -> io::Result<usize>;

    /// Takes frames from the front until the device is full, and returns how many it took; the rest stays.
    ///
    /// The completion of every frame that was taken is pushed to `done`. A frame that the device cannot take as it is, is cut and completed
    /// first, in place in the queue; pieces count as frames.
    ///
    /// # Errors
    /// The device is gone or broken. What concerns one frame only loses that frame, and is counted in [`Backend::drops`].
    fn transmit(&mut self, now: Instant, frames: &mut VecDeque<Frame>, done: &mut Vec<Completion>) -> io::Result<usize>;

    /// To wait on: readable when [`Backend::receive`] has something, writable when [`Backend::transmit`] takes frames again.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// What it can do.
    fn features(&self) -> Features;

    /// Frames lost here since it was opened, by cause.
    fn drops(&mut self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// When [`Backend::receive`] should be called even if the descriptor stays silent (a wrapper holds frames back).
    fn next_timer(&self) -> Option<Instant> {
        None
    }

    /// Gives back memory that a burst of frames needed: for quiet times.
    fn give_back_memory(&mut self) {}
}

impl<B: Backend + ?Sized> Backend for Box<B> {
    fn name(&self) -> &str {
        (**self).name()
    }
    fn receive(&mut self, now: Instant, frames: &mut Vec<Frame>, limit: usize) -> io::Result<usize> {
        (**self).receive(now, frames, limit)
    }
    fn transmit(&mut self, now: Instant, frames: &mut VecDeque<Frame>, done: &mut Vec<Completion>) -> io::Result<usize> {
        (**self).transmit(now, frames, done)
    }
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        (**self).descriptor()
    }
    fn features(&self) -> Features {
        (**self).features()
    }
    fn drops(&mut self) -> Vec<(&'static str, u64)> {
        (**self).drops()
    }
    fn next_timer(&self) -> Option<Instant> {
        (**self).next_timer()
    }
    fn give_back_memory(&mut self) {
        (**self).give_back_memory();
    }
}

/// What a backend can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Features {
    /// The largest frame of several segments that is taken whole, bytes with all headers; 0: none.
    pub gso_bytes_max: usize,
    /// Frames of several UDP datagrams are taken whole, too.
    pub gso_udp: bool,
    /// Frames with [`weft_core::Checksum::Partial`] are taken as they are.
    pub checksum_offload: bool,
    /// What frames begin with.
    pub link: LinkType,
    /// The largest IP packet, bytes.
    pub mtu: u32,
    /// The Ethernet address for the node's side of the link.
    pub mac: Mac,
}

impl Features {
    /// Whether this frame is taken without being cut.
    pub fn takes_whole(&self, frame: &Frame) -> bool {
        let limit = match frame.meta().gso {
            Some(gso) if gso.kind == GsoKind::Udp && !self.gso_udp => 0,
            _ => self.gso_bytes_max,
        };
        !offload::needs_cut(frame, limit)
    }

    /// Cuts the frame at the front of a queue, or completes its checksum, if these features demand it.
    pub fn prepare_front(&self, frames: &mut VecDeque<Frame>) {
        let Some(front) = frames.front_mut() else { return };
        if !self.takes_whole(front) {
            let Some(large) = frames.pop_front() else { return };
            let checksums = if self.checksum_offload { CutChecksums::Partial } else { CutChecksums::Complete };
            let mut pieces = Vec::new();
            offload::cut(large, checksums, &mut pieces);
            for piece in pieces.into_iter().rev() {
                frames.push_front(piece);
            }
        } else if !self.checksum_offload {
            offload::complete_checksum(front);
        }
    }
}

/// An address with the length of its network's prefix, bits.
pub type Prefix = (IpAddr, u8);

/// How to open a backend. Each scheme says which of these it uses.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// The number that received frames carry.
    pub interface: InterfaceIndex,
    /// The largest IP packet, bytes; `None`: what the device says, or 1500.
    pub mtu: Option<u32>,
    /// The node's Ethernet address; `None`: made up from the device's.
    pub mac: Option<Mac>,
    /// Let large frames and unfinished checksums through.
    pub offload: bool,
    /// `packet`: also receive frames for other stations (a device that filters by address).
    pub promiscuous: bool,
    /// `tap`, `tun`: give the kernel's side these addresses and put it up; `None`: leave it as it is.
    pub host_addresses: Option<Vec<Prefix>>,
    /// `memory`: frames that wait in one direction before more are dropped.
    pub queue_frames_max: usize,
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions {
            interface: InterfaceIndex(2),
            mtu: None,
            mac: None,
            offload: true,
            promiscuous: false,
            host_addresses: None,
            queue_frames_max: QUEUE_FRAMES_MAX,
        }
    }
}
