//! A ring of frames, TPACKET_V1 and V2: each frame has a place with a status of its own.

use super::arrival::{Arrival, Place, Put, status, tell_address};
use super::memory::Area;
use super::request::{Layout, Version};
use crate::abi::*;

/// A receive ring of frames.
#[derive(Debug)]
pub(crate) struct Frames {
    pub area: Area,
    pub layout: Layout,
    version: Version,
    /// Where the next frame is put.
    head: u32,
}

impl Frames {
    pub fn new(layout: Layout, version: Version) -> Frames {
        Frames { area: Area::new(layout.bytes()), layout, version, head: 0 }
    }

    fn is_free(&self, position: u32) -> bool {
        status(&self.area, self.layout.frame_at(position), self.version) == TP_STATUS_KERNEL
    }

    /// `packet_poll`: "if (!packet_previous_rx_frame(po, &po->rx_ring, TP_STATUS_KERNEL)) mask |= EPOLLIN | EPOLLRDNORM;"
    pub fn is_readable(&self) -> bool {
        !self.is_free(self.layout.before(self.head))
    }

    /// `__tpacket_has_room`: is the place free that is so far behind the next one?
    pub fn has_room(&self, behind: u32) -> bool {
        let at = self.head.saturating_add(behind);
        self.is_free(if at >= self.layout.frames { at - self.layout.frames } else { at })
    }

    /// `tpacket_rcv`. `copies`: the socket's queue would take a copy of what does not fit.
    pub fn put(&mut self, arrival: &Arrival<'_>, copies: bool) -> Put {
        // "If we are flooded, just give up": it wakes nobody.
        if !self.has_room(self.layout.frames >> 2) && !self.has_room(0) {
            return Put::Lost { wakes: false };
        }
        let Some(Place { mac, net }) = arrival.place(self.version.head_bytes()) else { return Put::Lost { wakes: false } };
        let (fits, room) =
            (u64::from(mac) + u64::from(arrival.kept) <= u64::from(self.layout.frame_bytes), self.layout.frame_bytes.saturating_sub(mac));
        let copied = !fits && copies;
        let kept = arrival.kept.min(room);
        if !self.has_room(0) {
            return Put::Lost { wakes: true };
        }
        let at = self.layout.frame_at(self.head);
        self.head = self.layout.behind(self.head);
        let mut told = arrival.link.status | TP_STATUS_USER;
        // "LOSING will be reported till you read the stats, because it's COR - Clear On Read."
        told |= if arrival.losing { TP_STATUS_LOSING } else { 0 } | if copied { TP_STATUS_COPY } else { 0 };
        arrival.write_data(&mut self.area, at + u64::from(mac), kept, mac <= self.layout.frame_bytes);
        let (seconds, nanos) = arrival.date(&self.area);
        let mut head = Vec::with_capacity(28);
        head.extend(arrival.link.whole_bytes.to_ne_bytes());
        head.extend(kept.to_ne_bytes());
        head.extend((mac as u16).to_ne_bytes());
        head.extend((net as u16).to_ne_bytes());
        head.extend(seconds.to_ne_bytes());
        if self.version == Version::V1 {
            head.extend((nanos / 1000).to_ne_bytes());
            self.area.write(at + 8, &head);
        } else {
            head.extend(nanos.to_ne_bytes());
            let (tag, of) = arrival.link.tag.unwrap_or_default();
            told |= if arrival.link.tag.is_some() { TP_STATUS_VLAN_VALID | TP_STATUS_VLAN_TPID_VALID } else { 0 };
            head.extend(tag.to_ne_bytes());
            head.extend(of.to_ne_bytes());
            head.extend([0; 4]);
            self.area.write(at + 4, &head);
        }
        tell_address(&mut self.area, at + u64::from(self.version.header_bytes()), arrival.link);
        self.set_status(at, told);
        Put::Kept { wakes: true, copied }
    }

    fn set_status(&mut self, at: u64, status: u32) {
        if self.version == Version::V1 {
            // `unsigned long tp_status`
            self.area.write(at + 4, &[0; 4]);
        }
        self.area.publish(at, status);
    }
}
