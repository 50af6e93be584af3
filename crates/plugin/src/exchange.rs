//! A frame as a loadable block sees it: the record of include/weft-block.h, filled from a frame and read back into it.

use crate::manifest::Manifest;
use std::net::IpAddr;
use weft_core::{Direction, Frame, InterfaceIndex, OutPort, Reason, Verdict};
use weft_wire::ethernet::{EtherType, Mac};

/// `WEFT_CONSUMED`
pub const CONSUMED: u32 = 0x100;
/// `WEFT_DROP(reason)` is this and the reason's place among those of the manifest.
pub const DROP: u32 = 0x200;
/// `WEFT_EDITED_BYTES`
pub const EDITED_BYTES: u8 = 1;
/// `WEFT_EDITED_META`
pub const EDITED_META: u8 = 2;
/// What a record has before the block says anything: no verdict.
const UNDECIDED: u32 = 0xffff_ffff;

/// `weft_frame` of the header, without the pointer in front. Everything in it is any number at all when it comes back.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Bytes at the pointer.
    pub length: u32,
    /// Bytes that fit there.
    pub room: u32,
    /// Bytes of the whole frame.
    pub total: u32,
    /// What becomes of it.
    pub verdict: u32,
    /// Interface.
    pub interface: u32,
    /// Firewall mark.
    pub mark: u32,
    /// EtherType.
    pub ether_type: u16,
    /// Source port of the transport, where known.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Nothing.
    pub reserved: u16,
    /// 1: from programs to interfaces.
    pub egress: u8,
    /// Which parts the block has changed.
    pub edited: u8,
    /// IP protocol.
    pub protocol: u8,
    /// Time to live.
    pub ttl: u8,
    /// DSCP and ECN.
    pub tos: u8,
    /// 4, 6, or 0 when the addresses are not known.
    pub family: u8,
    /// 4, 6, or 0: none yet.
    pub next_hop_family: u8,
    /// Nothing.
    pub reserved_too: u8,
    /// Link-layer source.
    pub src_mac: [u8; 6],
    /// Link-layer destination.
    pub dst_mac: [u8; 6],
    /// Source address, 4 or 16 bytes.
    pub src: [u8; 16],
    /// Destination address.
    pub dst: [u8; 16],
    /// The neighbour that it goes to.
    pub next_hop: [u8; 16],
}

/// Bytes of a [`Record`].
pub const RECORD_BYTES: usize = size_of::<Record>();
const _: () = assert!(RECORD_BYTES == 100 && align_of::<Record>() == 4);

/// An address in 16 bytes, and its family.
pub fn address(of: IpAddr) -> ([u8; 16], u8) {
    let mut bytes = [0; 16];
    match of {
        IpAddr::V4(v4) => bytes[..4].copy_from_slice(&v4.octets()),
        IpAddr::V6(v6) => bytes = v6.octets(),
    }
    (bytes, if of.is_ipv4() { 4 } else { 6 })
}

fn address_from(family: u8, bytes: [u8; 16]) -> Result<Option<IpAddr>, String> {
    match family {
        0 => Ok(None),
        4 => Ok(Some(IpAddr::from([bytes[0], bytes[1], bytes[2], bytes[3]]))),
        6 => Ok(Some(IpAddr::from(bytes))),
        other => Err(format!("next_hop_family is {other}: use 0, 4 or 6")),
    }
}

impl Record {
    /// About a frame of which the block sees `visible` bytes, with `room` for so many.
    pub fn of(frame: &Frame, visible: usize, room: usize) -> Record {
        let meta = frame.meta();
        let (src, family) = address(meta.src);
        let (dst, _) = address(meta.dst);
        let (next_hop, next_hop_family) = meta.next_hop.map_or(([0; 16], 0), address);
        Record {
            length: visible as u32,
            room: room as u32,
            total: u32::try_from(frame.len()).unwrap_or(u32::MAX),
            verdict: UNDECIDED,
            interface: meta.interface.0,
            mark: meta.mark,
            ether_type: meta.ether_type.0,
            src_port: meta.src_port,
            dst_port: meta.dst_port,
            egress: u8::from(meta.direction == Direction::Egress),
            protocol: meta.protocol.0,
            ttl: meta.ttl,
            tos: meta.tos,
            family: if meta.src.is_unspecified() && meta.dst.is_unspecified() { 0 } else { family },
            next_hop_family,
            src_mac: meta.src_mac.0,
            dst_mac: meta.dst_mac.0,
            src,
            dst,
            next_hop,
            ..Record::default()
        }
    }

    /// What a block said about a frame of which it saw `visible` bytes, with `room` for so many: sense, or what is none.
    ///
    /// # Errors
    /// What makes no sense.
    pub fn verdict(&self, manifest: &Manifest, visible: usize, room: usize, total: usize) -> Result<Said, String> {
        let outputs = manifest.kind.outputs.len() as u32;
        let verdict = match self.verdict {
            UNDECIDED => return Err("gave no verdict".to_owned()),
            CONSUMED => Said::Verdict(Verdict::Consumed),
            port if port < outputs => Said::Verdict(Verdict::Forward(OutPort(port as u8))),
            port if port < CONSUMED => return Err(format!("gave the verdict 'through port {port}', and it has {outputs} outputs")),
            drop if (DROP..DROP + manifest.drops as u32).contains(&drop) => Said::Drop((drop - DROP) as usize),
            drop if (DROP..DROP + 0x100).contains(&drop) => {
                return Err(format!("gave the verdict 'dropped for reason {}', and it has {} reasons", drop - DROP, manifest.drops));
            }
            other => return Err(format!("gave the verdict {other:#x}, which is none")),
        };
        if self.edited & !(EDITED_BYTES | EDITED_META) != 0 {
            return Err(format!("says that it edited parts {:#x}, which there are not", self.edited));
        }
        address_from(self.next_hop_family, self.next_hop)?;
        let length = self.length as usize;
        match length == visible || self.edited & EDITED_BYTES == 0 {
            true => Ok(verdict),
            false if visible < total => Err(format!("changed the length of a frame of which it sees {visible} of {total} bytes")),
            false if length > room => Err(format!("wrote {length} bytes where {room} fit")),
            false => Ok(verdict),
        }
    }

    /// Carries out what [`Record::verdict`] found sound. `bytes`: those that the block left, `length` of them.
    pub fn apply(&self, frame: &mut Frame, visible: usize, bytes: Option<&[u8]>) {
        if self.edited & EDITED_BYTES != 0
            && let Some(bytes) = bytes
        {
            edit(frame, visible, bytes);
        }
        if self.edited & EDITED_META != 0 {
            let meta = frame.meta_mut();
            meta.interface = InterfaceIndex(self.interface);
            meta.mark = self.mark;
            meta.tos = self.tos;
            meta.dst_mac = Mac(self.dst_mac);
            meta.next_hop = address_from(self.next_hop_family, self.next_hop).ok().flatten();
        }
    }

    /// A frame that the block made.
    ///
    /// # Errors
    /// What makes no sense.
    pub fn made(&self, bytes: &[u8]) -> Result<Frame, String> {
        let mut frame = if self.egress == 0 { Frame::ingress(bytes) } else { Frame::egress() };
        if self.egress != 0 {
            frame.extend(bytes);
        }
        let meta = frame.meta_mut();
        meta.interface = InterfaceIndex(self.interface);
        meta.mark = self.mark;
        meta.ether_type = EtherType(self.ether_type);
        (meta.src_port, meta.dst_port) = (self.src_port, self.dst_port);
        meta.protocol = weft_wire::Protocol(self.protocol);
        (meta.ttl, meta.tos) = (self.ttl, self.tos);
        (meta.src_mac, meta.dst_mac) = (Mac(self.src_mac), Mac(self.dst_mac));
        meta.next_hop = address_from(self.next_hop_family, self.next_hop)?;
        if let (Some(src), Some(dst)) = (address_from(self.family, self.src)?, address_from(self.family, self.dst)?) {
            (meta.src, meta.dst) = (src, dst);
        }
        Ok(frame)
    }

    /// As bytes, as they lie in the memory of a little-endian machine: WebAssembly is one.
    pub fn to_bytes(self) -> [u8; RECORD_BYTES] {
        const { assert!(cfg!(target_endian = "little")) };
        // SAFETY: both are 100 bytes, and the fields leave no padding between them (checked above: their sizes sum up to it).
        unsafe { std::mem::transmute(self) }
    }

    /// From such bytes.
    pub fn from_bytes(bytes: &[u8; RECORD_BYTES]) -> Record {
        // SAFETY: every pattern of bits is a value of every field.
        unsafe { std::mem::transmute(*bytes) }
    }
}

/// What a verdict of a block says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Said {
    /// One of the engine's.
    Verdict(Verdict),
    /// Dropped for one of its own reasons.
    Drop(usize),
}

impl Said {
    /// For the engine.
    pub fn verdict(self) -> Verdict {
        match self {
            Said::Verdict(verdict) => verdict,
            Said::Drop(_) => Verdict::Drop(Reason::BlockDropped),
        }
    }
}

/// How many bytes of a frame a block sees.
pub fn visible(frame: &Frame, bytes_max: usize) -> usize {
    frame.len().min(bytes_max)
}

/// Copies the first bytes of a frame.
pub fn copy_out(frame: &Frame, into: &mut [u8]) {
    let mut at = 0;
    for chunk in frame.chunks() {
        let take = chunk.len().min(into.len() - at);
        into[at..at + take].copy_from_slice(&chunk[..take]);
        at += take;
        if at == into.len() {
            return;
        }
    }
}

/// Puts other bytes in place of the first `visible` ones.
fn edit(frame: &mut Frame, visible: usize, bytes: &[u8]) {
    if frame.pull_up(visible).is_err() {
        return;
    }
    let same = visible.min(bytes.len());
    frame.head_mut()[..same].copy_from_slice(&bytes[..same]);
    if bytes.len() < visible {
        frame.truncate(bytes.len());
    } else if bytes.len() > visible {
        frame.extend(&bytes[visible..]);
    }
}
