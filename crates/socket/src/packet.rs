//! What only a packet socket has (`struct packet_sock`), and what it tells of a frame.

use crate::packet_fanout::Rollover;
use crate::packet_ring::{Rings, VERSION_WITH_RINGS};
use crate::socket::Datagram;
use weft_core::state::{Damage, Field, Reader, Writer};
use weft_core::vnet;

/// What a packet socket tells of a frame: `struct sockaddr_ll`, and what `struct tpacket_auxdata` has beside it.
#[derive(Debug, Clone)]
pub(crate) struct LinkSeen {
    /// EtherType.
    pub protocol: u16,
    pub interface: u32,
    /// ARPHRD_*.
    pub hardware: u16,
    /// PACKET_HOST, PACKET_BROADCAST, ….
    pub kind: u8,
    /// Link-layer source; empty where the link has no addresses.
    pub source: Option<[u8; 6]>,
    /// Bytes of the whole frame, before a filter cut it, from where this kind of socket begins.
    pub whole_bytes: u32,
    /// Where the network header begins in what is read.
    pub network_at: u16,
    /// TP_STATUS_*.
    pub status: u32,
    /// The tag of a VLAN that it came with, and the tag's EtherType: the frame is without it.
    pub tag: Option<(u16, u16)>,
    /// What PACKET_VNET_HDR says of it, where the socket wants that.
    pub offload: Option<vnet::Header>,
}

impl Field for LinkSeen {
    fn write(&self, out: &mut Writer) {
        let LinkSeen { protocol, interface, hardware, kind, source, whole_bytes, network_at, status, tag, offload } = self;
        out.put(protocol);
        out.put(interface);
        out.put(hardware);
        out.put(kind);
        out.put(source);
        out.put(whole_bytes);
        out.put(network_at);
        out.put(status);
        out.put(tag);
        out.put(offload);
    }
    fn read(from: &mut Reader<'_>) -> Result<LinkSeen, Damage> {
        let mut seen = LinkSeen {
            protocol: from.take()?,
            interface: from.take()?,
            hardware: from.take()?,
            kind: from.take()?,
            source: from.take()?,
            whole_bytes: from.take()?,
            network_at: from.take()?,
            status: from.take()?,
            tag: None,
            offload: None,
        };
        if from.version() >= VERSION_WITH_RINGS {
            (seen.tag, seen.offload) = (from.take()?, from.take()?);
        }
        Ok(seen)
    }
}

/// What only a packet socket has (`struct packet_sock`).
#[derive(Debug, Default)]
pub(crate) struct Packet {
    pub queue: Datagram,
    /// `po->num`: which EtherType it hears; ETH_P_ALL: all, also what goes out; 0: none.
    pub protocol: u16,
    /// `po->ifindex`; 0: all.
    pub interface: u32,
    /// ARPHRD_* of that interface, and its address; 0: it is bound to none.
    pub hardware: u16,
    pub address: Option<[u8; 6]>,
    /// PACKET_AUXDATA.
    pub auxiliary: bool,
    /// PACKET_ORIGDEV.
    pub original_device: bool,
    /// PACKET_IGNORE_OUTGOING.
    pub ignores_outgoing: bool,
    /// PACKET_STATISTICS since they were asked for: frames, and those of them that were lost.
    pub frames: u32,
    pub lost: u32,
    /// PACKET_ADD_MEMBERSHIP: which, how often each.
    pub memberships: Vec<(LinkMembership, u32)>,
    /// It is bound to an interface that is down: it hears nothing until that is up.
    pub waits_for_interface: bool,
    pub rings: Rings,
    /// PACKET_FANOUT: the number of its group.
    pub fanout: Option<u16>,
    pub rollover: Option<Box<Rollover>>,
    /// PACKET_TIMESTAMP, and PACKET_QDISC_BYPASS: kept.
    pub timestamp: i32,
    pub bypasses: bool,
    /// PACKET_VNET_HDR_SZ: bytes of a header before each frame; 0: none.
    pub offload_bytes: u8,
}

impl Field for Packet {
    fn write(&self, out: &mut Writer) {
        let Packet { queue, protocol, interface, hardware, address, auxiliary, original_device, .. } = self;
        let Packet { ignores_outgoing, frames, lost, memberships, waits_for_interface, rings, fanout, rollover, .. } = self;
        let Packet { timestamp, bypasses, offload_bytes, .. } = self;
        out.put(queue);
        out.put(protocol);
        out.put(interface);
        out.put(hardware);
        out.put(address);
        out.put(auxiliary);
        out.put(original_device);
        out.put(ignores_outgoing);
        out.put(frames);
        out.put(lost);
        out.put(memberships);
        out.put(waits_for_interface);
        out.put(rings);
        out.put(fanout);
        out.put(rollover);
        out.put(timestamp);
        out.put(bypasses);
        out.put(offload_bytes);
    }
    fn read(from: &mut Reader<'_>) -> Result<Packet, Damage> {
        let mut packet = Packet {
            queue: from.take()?,
            protocol: from.take()?,
            interface: from.take()?,
            hardware: from.take()?,
            address: from.take()?,
            auxiliary: from.take()?,
            original_device: from.take()?,
            ignores_outgoing: from.take()?,
            frames: from.take()?,
            lost: from.take()?,
            memberships: from.take()?,
            waits_for_interface: from.take()?,
            ..Packet::default()
        };
        if from.version() >= VERSION_WITH_RINGS {
            (packet.rings, packet.fanout, packet.rollover) = (from.take()?, from.take()?, from.take()?);
            (packet.timestamp, packet.bypasses, packet.offload_bytes) = (from.take()?, from.take()?, from.take()?);
        }
        Ok(packet)
    }
}

/// `struct packet_mreq`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LinkMembership {
    pub interface: u32,
    /// PACKET_MR_*.
    pub kind: u16,
    pub address: Vec<u8>,
}
weft_core::fields!(struct LinkMembership { interface, kind, address });
