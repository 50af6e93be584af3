//! A send ring: the program marks frames, and a call of send(2) sends those that are marked (`tpacket_snd`).

use super::arrival::status;
use super::memory::Area;
use super::request::{Layout, Version};
use crate::abi::*;
use crate::errno::Errno;
use bytes::Bytes;

/// A send ring.
#[derive(Debug)]
pub(crate) struct Transmit {
    pub area: Area,
    layout: Layout,
    version: Version,
    /// The frame that is sent next.
    head: u32,
    /// Bytes of frames that a call has sent which waits for room for the rest.
    pub sent: usize,
}

/// What there is to send.
#[derive(Debug)]
pub(crate) enum Next {
    /// Nothing, or nothing more.
    None,
    /// This, from where the kind of socket begins.
    Frame(Bytes),
    /// Something that cannot be sent.
    Bad(Errno),
}

/// What is done with a frame that cannot be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It is left out (PACKET_LOSS).
    LeftOut,
    /// It stays, and says so.
    Told,
}

impl Transmit {
    pub fn new(layout: Layout, version: Version) -> Transmit {
        Transmit { area: Area::new(layout.bytes()), layout, version, head: 0, sent: 0 }
    }

    /// How many frames there are.
    pub fn frames(&self) -> u32 {
        self.layout.frames
    }

    /// `packet_poll`: "if (packet_current_frame(po, &po->tx_ring, TP_STATUS_AVAILABLE)) mask |= EPOLLOUT | EPOLLWRNORM;"
    pub fn is_writable(&self) -> bool {
        status(&self.area, self.at(), self.version) == TP_STATUS_AVAILABLE
    }

    fn at(&self) -> u64 {
        self.layout.frame_at(self.head)
    }

    /// Bytes before the data of a frame: "off = po->tp_hdrlen - sizeof(struct sockaddr_ll);"
    fn data_at(&self) -> u32 {
        self.version.header_bytes()
    }

    /// The next frame that is marked (`tpacket_parse_header`). `most`: bytes that its interface takes.
    pub fn next(&self, most: usize, cooked: bool, has_offsets: bool) -> Next {
        let at = self.at();
        if status(&self.area, at, self.version) != TP_STATUS_SEND_REQUEST {
            return Next::None;
        }
        let length = match self.version {
            Version::V1 => self.area.word(at + 8),
            Version::V2 => self.area.word(at + 4),
            // "if (ph.h3->tp_next_offset != 0) { pr_warn_once("variable sized slot not supported"); return -EINVAL; }"
            Version::V3 if self.area.word(at) != 0 => return Next::Bad(Errno::EINVAL),
            Version::V3 => self.area.word(at + 16),
        };
        // An `int`: what is below zero is an error of that number there.
        let Ok(signed) = i32::try_from(length) else { return Next::Bad(Errno::EINVAL) };
        let room = (self.layout.frame_bytes - self.data_at().min(self.layout.frame_bytes)) as usize;
        if signed as usize > room.min(most) {
            return Next::Bad(Errno::EMSGSIZE);
        }
        let from = if has_offsets {
            let field = match self.version {
                Version::V1 => 16,
                Version::V2 => 12,
                Version::V3 => 24,
            };
            let offset = u32::from(u16::from_ne_bytes(self.area.read(at + field + if cooked { 2 } else { 0 })));
            // "if (unlikely((off < off_min) || (off_max < off))) return -EINVAL;"
            if offset < self.data_at() || offset > self.layout.frame_bytes - length {
                return Next::Bad(Errno::EINVAL);
            }
            offset
        } else {
            self.data_at()
        };
        let mut data = vec![0; length as usize];
        self.area.read_into(at + u64::from(from), &mut data);
        Next::Frame(data.into())
    }

    fn set_status(&mut self, status: u32) {
        let at = self.at();
        match self.version {
            Version::V1 => {
                self.area.write(at + 4, &[0; 4]);
                self.area.publish(at, status);
            }
            Version::V2 => self.area.publish(at, status),
            Version::V3 => self.area.publish(at + 20, status),
        }
    }

    /// The frame was taken: its place is the program's again.
    pub fn taken(&mut self) {
        self.set_status(TP_STATUS_AVAILABLE);
        self.head = self.layout.behind(self.head);
    }

    /// It cannot be sent.
    pub fn refuse(&mut self, leaves_out: bool) -> Refusal {
        if leaves_out {
            self.taken();
            return Refusal::LeftOut;
        }
        self.set_status(TP_STATUS_WRONG_FORMAT);
        Refusal::Told
    }
}
