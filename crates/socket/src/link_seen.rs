//! What a packet socket tells of a frame, and what it asked its interfaces for.

use weft_core::state::{Damage, Field, Reader, Writer};
use weft_core::vnet;

/// What packet sockets have of rings, groups and headers is in the block's state since this version.
pub(crate) const VERSION_WITH_RINGS: u32 = 9;

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

/// `struct packet_mreq`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LinkMembership {
    pub interface: u32,
    /// PACKET_MR_*.
    pub kind: u16,
    pub address: Vec<u8>,
}
weft_core::fields!(struct LinkMembership { interface, kind, address });
