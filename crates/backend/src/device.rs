//! What TAP devices and packet sockets have in common: a descriptor that is read and written a frame at a time, each behind a virtio header.

use crate::interface::Features;
use crate::link_type::LinkType;
use crate::ring::{Ring, Slot};
use crate::scatter::{Blocks, Source};
use crate::sys;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use weft_core::vnet;
use weft_core::{Bytes, Completion, Frame, Instant, InterfaceIndex};
use weft_wire::ethernet::EtherType;

/// Parts of a frame that one system call takes (UIO_MAXIOV is 1024); a frame of more slices is joined.
const SLICES_MAX: usize = 1000;

pub(crate) struct Device {
    pub(crate) fd: OwnedFd,
    pub(crate) source: Source,
    pub(crate) name: String,
    pub(crate) interface: InterfaceIndex,
    pub(crate) features: Features,
    pub(crate) blocks: Blocks,
    /// A packet socket's ring, where small frames come.
    pub(crate) ring: Option<Ring>,
    pub(crate) drops: Drops,
    /// The interface of a packet socket has gone down; perhaps it was deleted.
    pub(crate) down: bool,
    /// A packet socket without link-layer header: the interface's number, which every frame that is sent must name.
    pub(crate) headerless: Option<i32>,
}

/// Frames lost on the way out, by cause.
#[derive(Default)]
pub(crate) struct Drops {
    /// EIO (TAP), ENETDOWN (packet): the kernel's side is not up.
    down: u64,
    /// EMSGSIZE: larger than the device's MTU.
    too_large: u64,
    /// EINVAL: the kernel does not believe the virtio header.
    refused: u64,
    /// ENOBUFS, ENOMEM: a full queue below the socket, or no memory.
    no_room: u64,
    /// On the way in: too large for a slot of the ring, and no room for it at the socket.
    no_slot: u64,
}

impl Drops {
    /// Counts an error that concerns one frame; `false`: it concerns the device.
    fn count(&mut self, error: &io::Error) -> bool {
        let counter = match error.raw_os_error() {
            Some(libc::EIO | libc::ENETDOWN) => &mut self.down,
            Some(libc::EMSGSIZE) => &mut self.too_large,
            Some(libc::EINVAL) => &mut self.refused,
            Some(libc::ENOBUFS | libc::ENOMEM) => &mut self.no_room,
            _ => return false,
        };
        *counter += 1;
        true
    }

    pub(crate) fn rows(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("the kernel's side is down", self.down),
            ("larger than the device's MTU", self.too_large),
            ("the kernel refused the frame's headers", self.refused),
            ("the kernel's queue is full", self.no_room),
            ("no room at the socket for a large frame", self.no_slot),
        ]
    }
}

impl Device {
    pub(crate) fn new(fd: OwnedFd, source: Source, name: &str, interface: InterfaceIndex, features: Features) -> Device {
        let (blocks, drops) = (Blocks::new(features.link), Drops::default());
        Device { fd, source, name: name.to_string(), interface, features, blocks, ring: None, drops, down: false, headerless: None }
    }

    pub(crate) fn receive(&mut self, now: Instant, frames: &mut Vec<Frame>, limit: usize) -> io::Result<usize> {
        let mut count = 0;
        while count < limit {
            match self.read(count > 0) {
                Ok(mut frame) => {
                    let position = frame.position();
                    let meta = frame.meta_mut();
                    if self.features.link == LinkType::Ip {
                        // Nobody need guess what the frame begins with.
                        meta.network_at = position;
                    }
                    meta.interface = self.interface;
                    meta.received = now;
                    frames.push(frame);
                    count += 1;
                }
                // A packet socket says so once when its interface goes down, before what it still holds; it goes on when the interface is up.
                Err(error) if error.raw_os_error() == Some(libc::ENETDOWN) => self.down = true,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if self.down && count == 0 && sys::packet_interface_is_gone(self.fd.as_fd())? {
                        return Err(io::Error::from_raw_os_error(libc::ENODEV));
                    }
                    return Ok(count);
                }
                Err(_) if count > 0 => return Ok(count),
                Err(error) => return Err(error),
            }
        }
        Ok(count)
    }

    /// One frame, out of the ring if there is one. An empty ring is asked for the socket's error unless it gave something (`more`): an error
    /// that is there wakes us again.
    fn read(&mut self, more: bool) -> io::Result<Frame> {
        let Some(ring) = &mut self.ring else { return self.blocks.read(self.fd.as_fd(), self.source) };
        loop {
            match ring.take() {
                Slot::Frame(frame) => return Ok(frame),
                Slot::AtSocket => match self.blocks.read(self.fd.as_fd(), self.source) {
                    // It was announced and is not there: the socket lost it.
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.drops.no_slot += 1,
                    result => return result,
                },
                Slot::Lost => self.drops.no_slot += 1,
                Slot::Empty if more => return Err(io::ErrorKind::WouldBlock.into()),
                Slot::Empty => {
                    sys::take_error(self.fd.as_fd())?;
                    return Err(io::ErrorKind::WouldBlock.into());
                }
            }
        }
    }

    pub(crate) fn transmit(&mut self, frames: &mut VecDeque<Frame>, done: &mut Vec<Completion>) -> io::Result<usize> {
        let mut taken = 0;
        loop {
            self.features.prepare_front(frames);
            let Some(frame) = frames.front() else { return Ok(taken) };
            match write(self.fd.as_fd(), frame, self.source, self.headerless) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(taken),
                Err(error) if self.drops.count(&error) => {}
                Err(_) if taken > 0 => return Ok(taken),
                Err(error) => return Err(error),
            }
            if let Some(mut frame) = frames.pop_front() {
                done.extend(frame.take_completion());
                taken += 1;
            }
        }
    }
}

/// Writes one frame with its virtio header, where the device has one, from where its bytes lie.
fn write(fd: BorrowedFd<'_>, frame: &Frame, source: Source, headerless: Option<i32>) -> io::Result<()> {
    let header = vnet::encode(frame);
    let joined: Bytes;
    let mut parts: SmallVec<[IoSlice<'_>; 24]> = SmallVec::new();
    if source != Source::Bare {
        parts.push(IoSlice::new(&header));
    }
    if frame.tail().len() < SLICES_MAX {
        parts.extend(frame.chunks().map(IoSlice::new));
    } else {
        joined = Bytes::from(frame.to_vec());
        parts.push(IoSlice::new(&joined));
    }
    if let Some(index) = headerless {
        let version = frame.chunks().find_map(|chunk| chunk.first()).map_or(0, |byte| byte >> 4);
        let ether_type = if version == 6 { EtherType::IPV6 } else { EtherType::IPV4 };
        return sys::packet_send(fd, &parts, index, ether_type.0);
    }
    loop {
        match rustix::io::writev(fd, &parts) {
            Err(rustix::io::Errno::INTR) => {}
            result => return result.map(drop).map_err(io::Error::from),
        }
    }
}
