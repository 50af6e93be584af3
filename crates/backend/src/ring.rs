//! The receive ring of a packet socket: small frames without a system call each (Documentation/networking/packet_mmap.rst, TPACKET_V2).
//!
//! The kernel writes frames into slots of memory that both share. A frame that does not fit a slot is queued at the socket as without a ring
//! (PACKET_COPY_THRESH) and its slot only says so: large frames are then read with one copy, where out of a ring they would take two.
//!
//! Why not TPACKET_V3: it hands over blocks of frames, and a block that is not full only after a millisecond; each answer to a lone frame would
//! be that late (measured: docs/linux-notes/packet-ring.md).

use crate::scatter::{HEAD_READ_BYTES, TAG_BYTES, frame_with_tag};
use crate::sys;
use std::io;
use std::mem::{offset_of, size_of};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use weft_core::vnet;
use weft_core::{Bytes, Frame};

/// An Ethernet frame of 1500 bytes fits with everything the kernel puts before it.
const SLOT_BYTES: usize = 2048;
const SLOTS: usize = 4096;
/// The kernel allocates it in pieces of this size.
const BLOCK_BYTES: usize = 64 << 10;
const RING_BYTES: usize = SLOT_BYTES * SLOTS;

/// What the next slot holds.
pub(crate) enum Slot {
    /// Nothing yet.
    Empty,
    /// A frame.
    Frame(Frame),
    /// A frame that did not fit: it waits at the socket.
    AtSocket,
    /// A frame that did not fit, and the socket had no room for it either.
    Lost,
}

pub(crate) struct Ring {
    memory: sys::Mapping,
    next: usize,
}

/// Gives the socket a ring; before it is bound.
pub(crate) fn prepare(fd: BorrowedFd<'_>) -> io::Result<()> {
    const TPACKET_V2: i32 = 1;
    let request = libc::tpacket_req {
        tp_block_size: BLOCK_BYTES as u32,
        tp_block_nr: (RING_BYTES / BLOCK_BYTES) as u32,
        tp_frame_size: SLOT_BYTES as u32,
        tp_frame_nr: SLOTS as u32,
    };
    sys::set_option(fd, libc::SOL_PACKET, libc::PACKET_VERSION, &TPACKET_V2)?;
    sys::set_option(fd, libc::SOL_PACKET, libc::PACKET_COPY_THRESH, &1i32)?;
    sys::set_option(fd, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)
}

impl Ring {
    /// The ring of a socket that [`prepare`] gave one, of which nothing has been taken.
    pub(crate) fn of(fd: BorrowedFd<'_>) -> io::Result<Ring> {
        Ok(Ring { memory: sys::Mapping::new(fd, RING_BYTES)?, next: 0 })
    }

    /// Takes what the next slot holds, and gives the slot back.
    pub(crate) fn take(&mut self) -> Slot {
        let start = self.next * SLOT_BYTES;
        let status_at = start + offset_of!(libc::tpacket2_hdr, tp_status);
        let status = self.memory.word(status_at).load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return Slot::Empty;
        }
        let slot =
            if status & libc::TP_STATUS_COPY != 0 { Slot::AtSocket } else { self.read(start, status).map_or(Slot::Lost, Slot::Frame) };
        self.memory.word(status_at).store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % SLOTS;
        slot
    }

    /// Copies a frame out of its slot. `None`: not all of it is there.
    fn read(&self, start: usize, status: u32) -> Option<Frame> {
        let mut bytes = [0; size_of::<libc::tpacket2_hdr>()];
        self.memory.read(start, &mut bytes);
        let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let half = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        let (length, kept) =
            (word(offset_of!(libc::tpacket2_hdr, tp_len)) as usize, word(offset_of!(libc::tpacket2_hdr, tp_snaplen)) as usize);
        let at = usize::from(half(offset_of!(libc::tpacket2_hdr, tp_mac)));
        if kept < length || at < vnet::HEADER_BYTES || at + length > SLOT_BYTES {
            return None;
        }
        let mut header: vnet::Header = [0; vnet::HEADER_BYTES];
        self.memory.read(start + at - vnet::HEADER_BYTES, &mut header);
        let mut head = [0; TAG_BYTES + HEAD_READ_BYTES];
        let in_head = length.min(HEAD_READ_BYTES);
        self.memory.read(start + at, &mut head[TAG_BYTES..TAG_BYTES + in_head]);
        let rest = match length - in_head {
            0 => Bytes::new(),
            more => {
                let mut rest = vec![0; more];
                self.memory.read(start + at + in_head, &mut rest);
                Bytes::from(rest)
            }
        };
        let tag = (status & libc::TP_STATUS_VLAN_VALID != 0).then(|| {
            let known = status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
            let tpid = if known { half(offset_of!(libc::tpacket2_hdr, tp_vlan_tpid)) } else { libc::ETH_P_8021Q as u16 };
            let ([a, b], [c, d]) = (tpid.to_be_bytes(), half(offset_of!(libc::tpacket2_hdr, tp_vlan_tci)).to_be_bytes());
            [a, b, c, d]
        });
        Some(frame_with_tag(&header, &mut head, in_head, tag, rest))
    }
}

/// The status word of a slot is shared with the kernel.
const _: () = assert!(size_of::<AtomicU32>() == 4 && SLOT_BYTES.is_multiple_of(16) && offset_of!(libc::tpacket2_hdr, tp_status) == 0);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link_type::LinkType;
    use crate::samples::{self, Sample};
    use rustix::fs::MemfdFlags;
    use std::os::fd::{AsFd, OwnedFd};

    /// Where the kernel begins a frame in its slot.
    const FRAME_AT: usize = 96;
    const TAG: [u8; 4] = [0x81, 0, 0x60, 9];

    /// Memory that we fill as the kernel fills a ring.
    fn ring() -> (Ring, OwnedFd) {
        let memory = rustix::fs::memfd_create("ring", MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&memory, RING_BYTES as u64).unwrap();
        (Ring::of(memory.as_fd()).unwrap(), memory)
    }

    fn fill(memory: &OwnedFd, slot: usize, sample: &Sample, tag: Option<[u8; 4]>) {
        let mut bytes = vec![0; FRAME_AT];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        let length = (sample.bytes.len() as u32).to_ne_bytes();
        let tagged = tag.map_or(0, |_| libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_VLAN_TPID_VALID);
        put(offset_of!(libc::tpacket2_hdr, tp_status), &(libc::TP_STATUS_USER | tagged).to_ne_bytes());
        put(offset_of!(libc::tpacket2_hdr, tp_len), &length);
        put(offset_of!(libc::tpacket2_hdr, tp_snaplen), &length);
        put(offset_of!(libc::tpacket2_hdr, tp_mac), &(FRAME_AT as u16).to_ne_bytes());
        if let Some([a, b, c, d]) = tag {
            put(offset_of!(libc::tpacket2_hdr, tp_vlan_tpid), &u16::from_be_bytes([a, b]).to_ne_bytes());
            put(offset_of!(libc::tpacket2_hdr, tp_vlan_tci), &u16::from_be_bytes([c, d]).to_ne_bytes());
        }
        put(FRAME_AT - vnet::HEADER_BYTES, &sample.header);
        bytes.extend(&sample.bytes);
        assert_eq!(rustix::io::pwrite(memory, &bytes, (slot * SLOT_BYTES) as u64).unwrap(), bytes.len());
    }

    #[test]
    fn any_frame_of_a_ring_after_any_other_with_its_tag_and_without() {
        for link in [LinkType::Ethernet, LinkType::Ip] {
            let (mut ring, memory) = ring();
            let tags: &[_] = if link == LinkType::Ethernet { &[None, Some(TAG)] } else { &[None] };
            let all = samples::all(link);
            let fits = |sample: &&Sample| sample.bytes.len() + FRAME_AT <= SLOT_BYTES && sample.bytes.len() >= 14;
            for sample in all.iter().filter(fits) {
                for tag in tags {
                    fill(&memory, ring.next, sample, *tag);
                    let Slot::Frame(frame) = ring.take() else { panic!("{} is not in its slot", sample.name) };
                    match tag {
                        None => sample.assert_is(&frame, "another"),
                        Some(tag) => sample.tagged(*tag).assert_is(&frame, "another"),
                    }
                }
            }
            assert!(matches!(ring.take(), Slot::Empty));
        }
    }
}
