//! Rings of packet sockets (PACKET_RX_RING, PACKET_TX_RING): frames in memory that socket and program share, as `net/packet/af_packet.c` lays
//! them out.
//!
//! A ring is the socket's alone until a program maps it ([`crate::Sockets::map_ring`]): then its bytes lie in memory that the adapter brings. All
//! that programs may write is read with care and never relied on.

mod arrival;
mod blocks;
mod frames;
mod hash;
mod memory;
mod request;
mod transmit;

use crate::errno::Errno;
use crate::poll::Poll;
pub(crate) use arrival::{Arrival, Clock, Put};
use blocks::Blocks;
use frames::Frames;
pub(crate) use hash::of as flow_number;
use memory::Area;
pub use memory::RingMemory;
use request::Layout;
pub(crate) use request::{REQUEST_BYTES, REQUEST3_BYTES, Request, Version};
use std::sync::Arc;
use std::time::Duration;
pub(crate) use transmit::{Next, Refusal, Transmit};
use weft_core::Instant;
use weft_core::state::{Damage, Field, Reader, Writer};

/// DEFAULT_PRB_RETIRE_TOV
const RETIRE_DEFAULT: Duration = Duration::from_millis(8);
/// What a veth says of itself, in Mbit/s.
const SPEED_MBITS: u32 = 10_000;

/// How much room there is for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    None,
    Low,
    Normal,
}

#[derive(Debug)]
enum Receive {
    Frames(Frames),
    Blocks(Blocks),
}

impl Receive {
    fn area(&self) -> &Area {
        match self {
            Receive::Frames(frames) => &frames.area,
            Receive::Blocks(blocks) => &blocks.area,
        }
    }
    fn area_mut(&mut self) -> &mut Area {
        match self {
            Receive::Frames(frames) => &mut frames.area,
            Receive::Blocks(blocks) => &mut blocks.area,
        }
    }
}

/// The rings of a packet socket, and the options about them.
#[derive(Debug, Default)]
pub(crate) struct Rings {
    /// PACKET_VERSION.
    pub version: Version,
    /// PACKET_RESERVE.
    pub reserve: u32,
    /// PACKET_LOSS: a send ring leaves out what cannot be sent.
    pub leaves_out: bool,
    /// PACKET_COPY_THRESH.
    pub copy_threshold: i32,
    /// PACKET_TX_HAS_OFF.
    pub has_offsets: bool,
    receive: Option<Receive>,
    transmit: Option<Transmit>,
    /// When the timer of its block goes off.
    timer: Option<Instant>,
}

impl Field for Rings {
    fn write(&self, out: &mut Writer) {
        // A block that has rings is not exported: see `Sockets::has_rings`.
        let Rings { version, reserve, leaves_out, copy_threshold, has_offsets, receive: _, transmit: _, timer: _ } = self;
        out.put(version);
        out.put(reserve);
        out.put(leaves_out);
        out.put(copy_threshold);
        out.put(has_offsets);
    }
    fn read(from: &mut Reader<'_>) -> Result<Rings, Damage> {
        let (version, reserve, leaves_out) = (from.take()?, from.take()?, from.take()?);
        let (copy_threshold, has_offsets) = (from.take()?, from.take()?);
        Ok(Rings { version, reserve, leaves_out, copy_threshold, has_offsets, receive: None, transmit: None, timer: None })
    }
}

impl Rings {
    pub fn exist(&self) -> bool {
        self.receives() || self.sends()
    }
    pub fn receives(&self) -> bool {
        self.receive.is_some()
    }
    pub fn sends(&self) -> bool {
        self.transmit.is_some()
    }
    /// "if (po->rx_ring.pg_vec || po->tx_ring.pg_vec) { ret = -EBUSY;"
    pub fn check_unset(&self) -> Result<(), Errno> {
        if self.exist() { Err(Errno::EBUSY) } else { Ok(()) }
    }

    fn areas(&mut self) -> impl Iterator<Item = &mut Area> {
        self.receive.iter_mut().map(Receive::area_mut).chain(self.transmit.iter_mut().map(|ring| &mut ring.area))
    }

    /// What programs have mapped.
    pub fn memory(&self) -> Option<&Arc<dyn RingMemory>> {
        let receive = self.receive.as_ref().and_then(|ring| ring.area().memory());
        receive.or_else(|| self.transmit.as_ref().and_then(|ring| ring.area.memory()))
    }

    /// `packet_set_ring`. `timed`: the speed of its interface is known.
    pub fn set(&mut self, sends: bool, request: &Request, timed: bool, clock: Clock) -> Result<(), Errno> {
        if self.memory().is_some_and(|memory| !memory.is_left()) {
            return Err(Errno::EBUSY);
        }
        self.areas().for_each(Area::take_back);
        if request.blocks == 0 {
            if request.frames != 0 {
                return Err(Errno::EINVAL);
            }
            match sends {
                true => self.transmit = None,
                false => self.receive = None,
            }
            return Ok(());
        }
        if if sends { self.sends() } else { self.receives() } {
            return Err(Errno::EBUSY);
        }
        let layout = Layout::of(request, self.version, self.reserve, sends)?;
        if sends {
            self.transmit = Some(Transmit::new(layout, self.version));
        } else if self.version == Version::V3 {
            let retire =
                if request.retire_ms != 0 { Duration::from_millis(request.retire_ms.into()) } else { retire(request.block_bytes, timed) };
            self.receive = Some(Receive::Blocks(Blocks::new(layout, request, retire, clock)));
        } else {
            self.receive = Some(Receive::Frames(Frames::new(layout, self.version)));
        }
        Ok(())
    }

    /// Bytes of all rings; `packet_mmap`: "if (expected_size == 0) goto out; size = vma->vm_end - vma->vm_start; if (size != expected_size) goto out;"
    pub fn bytes(&self) -> u64 {
        self.receive.as_ref().map_or(0, |ring| ring.area().len()) + self.transmit.as_ref().map_or(0, |ring| ring.area.len())
    }

    /// The memory for programs: that which is there, or one that is made now.
    pub fn map(
        &mut self,
        make: &mut dyn FnMut(u64) -> Result<Arc<dyn RingMemory>, Errno>,
        clock: Clock,
    ) -> Result<Arc<dyn RingMemory>, Errno> {
        if let Some(memory) = self.memory() {
            return Ok(Arc::clone(memory));
        }
        let memory = make(self.bytes())?;
        let mut from = 0;
        for area in self.areas() {
            area.share(&memory, from);
            from += area.len();
        }
        if let Some(Receive::Blocks(blocks)) = &mut self.receive {
            blocks.tell_opening(clock);
        }
        Ok(memory)
    }

    /// `tpacket_rcv`. None: there is no ring.
    pub fn put(&mut self, arrival: &Arrival<'_>, copies: bool) -> Option<Put> {
        Some(match self.receive.as_mut()? {
            Receive::Frames(frames) => frames.put(arrival, copies && self.copy_threshold != 0),
            Receive::Blocks(blocks) => blocks.put(arrival),
        })
    }

    /// `__packet_rcv_has_room`. None: there is no ring.
    pub fn room(&self) -> Option<Room> {
        let (far, near) = match self.receive.as_ref()? {
            Receive::Frames(frames) => (frames.has_room(frames.layout.frames >> 2), frames.has_room(0)),
            Receive::Blocks(blocks) => (blocks.has_room(blocks.layout.blocks >> 2), blocks.has_room(0)),
        };
        Some(if far {
            Room::Normal
        } else if near {
            Room::Low
        } else {
            Room::None
        })
    }

    /// The timer of a block, if it is to be set or taken back: when [`Rings::expire`] is due.
    pub fn timer(&mut self, now: Instant) -> Option<Option<Instant>> {
        let due = match &self.receive {
            Some(Receive::Blocks(blocks)) => blocks.due(now),
            _ => None,
        };
        (std::mem::replace(&mut self.timer, due) != due).then_some(due)
    }

    /// The timer of a block has gone off. True: who waits is woken.
    pub fn expire(&mut self, losing: bool, clock: Clock) -> bool {
        self.timer = None;
        match &mut self.receive {
            Some(Receive::Blocks(blocks)) => blocks.expire(losing, clock),
            _ => false,
        }
    }

    /// `packet_poll`, of the rings.
    pub fn readiness(&self) -> Poll {
        let readable = match &self.receive {
            Some(Receive::Frames(frames)) => frames.is_readable(),
            Some(Receive::Blocks(blocks)) => blocks.is_readable(),
            None => false,
        };
        let writable = self.transmit.as_ref().is_some_and(Transmit::is_writable);
        let mut mask = Poll::NONE;
        mask |= if readable { Poll::READABLE } else { Poll::NONE };
        mask |= if writable { Poll::WRITABLE } else { Poll::NONE };
        mask
    }

    /// `tp_freeze_q_cnt`, which is told once.
    pub fn take_freezes(&mut self) -> u32 {
        match &mut self.receive {
            Some(Receive::Blocks(blocks)) => std::mem::take(&mut blocks.freezes),
            _ => 0,
        }
    }

    pub fn transmit(&mut self) -> Option<&mut Transmit> {
        self.transmit.as_mut()
    }
}

/// `prb_calc_retire_blk_tmo`: how long a block takes to fill at the speed of the interface.
fn retire(block_bytes: u32, timed: bool) -> Duration {
    if !timed {
        return RETIRE_DEFAULT;
    }
    // "mbits = (blk_size_in_bytes * 8) / (1024 * 1024); if (div) mbits /= div; if (div) return mbits + 1;"
    let mbits = block_bytes.wrapping_mul(8) / (1024 * 1024);
    Duration::from_millis(u64::from(mbits / (SPEED_MBITS / 1000)) + 1)
}

#[cfg(test)]
mod tests;
