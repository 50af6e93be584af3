//! A frame on its way into a ring, and what all kinds of rings write of it.

use super::hash;
use super::memory::Area;
use super::request::Version;
use crate::abi::AF_PACKET;
use crate::link_seen::LinkSeen;
use weft_core::{Frame, Instant};

const NANOS: u64 = 1_000_000_000;
/// TPACKET_ALIGNMENT
const ALIGNMENT: u32 = 16;

/// The present, and the date of its beginning.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    pub now: Instant,
    /// Nanoseconds since 1970 at the start of the node's clock.
    pub boot_nanos: u64,
}

impl Clock {
    pub(super) fn date(&self, area: &Area) -> u64 {
        self.date_of(self.now, area)
    }
    fn date_of(&self, at: Instant, area: &Area) -> u64 {
        let date = self.boot_nanos.saturating_add(at.as_nanos());
        area.memory().map_or(date, |memory| memory.date(date))
    }
}

/// Seconds and nanoseconds, in 32 bits each as rings have them.
pub(super) fn split(nanos: u64) -> (u32, u32) {
    ((nanos / NANOS) as u32, (nanos % NANOS) as u32)
}

/// A frame for a ring.
#[derive(Debug)]
pub(crate) struct Arrival<'a> {
    /// From where this kind of socket begins, as much as its filter wants.
    pub frame: &'a Frame,
    pub link: &'a LinkSeen,
    /// Bytes of it.
    pub kept: u32,
    /// SOCK_DGRAM.
    pub cooked: bool,
    /// PACKET_RESERVE.
    pub reserve: u32,
    /// Bytes of PACKET_VNET_HDR.
    pub offload_bytes: u32,
    /// Something was lost since the statistics were asked for.
    pub losing: bool,
    pub received: Instant,
    pub clock: Clock,
}

/// `tp_mac` and `tp_net`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub mac: u32,
    pub net: u32,
}

impl Arrival<'_> {
    /// Where it goes behind the header. None: "if (netoff > USHRT_MAX)", and it is lost.
    pub(super) fn place(&self, head_bytes: u32) -> Option<Place> {
        let link_bytes = if self.cooked { 0 } else { u32::from(self.link.network_at) };
        let net = if self.cooked {
            head_bytes.next_multiple_of(ALIGNMENT) + 16
        } else {
            (head_bytes + link_bytes.max(16)).next_multiple_of(ALIGNMENT)
        };
        let net = net
            .checked_add(self.reserve)?
            .checked_add(if self.cooked { 0 } else { self.offload_bytes })
            .filter(|net| *net <= u32::from(u16::MAX))?;
        Some(Place { mac: net - link_bytes, net })
    }

    /// Writes the frame, and before it what PACKET_VNET_HDR says of it. `whole`: there is room for it.
    pub(super) fn write_data(&self, area: &mut Area, mut at: u64, mut bytes: u32, whole: bool) {
        if let (Some(header), true, false) = (self.link.offload, whole, self.cooked) {
            let mut header = header.to_vec();
            header.resize(self.offload_bytes as usize, 0);
            area.write(at.saturating_sub(header.len() as u64), &header);
        }
        for chunk in self.frame.chunks() {
            let part = chunk.get(..bytes as usize).unwrap_or(chunk);
            area.write(at, part);
            at += part.len() as u64;
            bytes -= part.len() as u32;
        }
    }

    pub(super) fn date(&self, area: &Area) -> (u32, u32) {
        split(self.clock.date_of(self.received, area))
    }

    pub(super) fn hash(&self) -> u32 {
        hash::of(self.frame, usize::from(self.link.network_at), self.link.protocol)
    }
}

/// `struct sockaddr_ll` behind a header.
pub(super) fn tell_address(area: &mut Area, at: u64, link: &LinkSeen) {
    let mut out = Vec::with_capacity(20);
    out.extend((AF_PACKET as u16).to_ne_bytes());
    out.extend(link.protocol.to_be_bytes());
    out.extend(link.interface.to_ne_bytes());
    out.extend(link.hardware.to_ne_bytes());
    out.push(link.kind);
    out.push(link.source.map_or(0, |address| address.len() as u8));
    out.extend(link.source.into_iter().flatten());
    area.write(at, &out);
}

/// `__packet_get_status`
pub(super) fn status(area: &Area, at: u64, version: Version) -> u32 {
    match version {
        // An `int` of an `unsigned long`: its lower half.
        Version::V1 | Version::V2 => area.word(at),
        Version::V3 => area.word(at + 20),
    }
}

/// What became of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Put {
    Lost {
        wakes: bool,
    },
    Kept {
        wakes: bool,
        /// The socket's queue gets all of it, too (TP_STATUS_COPY).
        copied: bool,
    },
}
