//! `struct sockaddr_ll` as bytes, and back; what a packet socket tells of a frame beside its bytes.

use crate::abi::*;
use crate::cmsg::message;
use crate::link_seen::LinkSeen;
use crate::socket::Packet;

/// Bytes of `struct sockaddr_ll`, and of what stands before its address.
const SOCKADDR_LL_BYTES: usize = 20;
pub(crate) const SOCKADDR_LL_HEAD_BYTES: usize = 12;

/// `struct sockaddr_ll` of a call.
pub(crate) struct LinkAddress {
    pub protocol: u16,
    pub interface: i32,
    /// `sll_halen`
    pub address_bytes: usize,
    pub address: [u8; 8],
}

/// The fields of an address that is long enough to have all of them.
pub(crate) fn fields(bytes: &[u8]) -> Option<(u16, LinkAddress)> {
    let &[f0, f1, p0, p1, i0, i1, i2, i3, _, _, _, length, ref address @ ..] = bytes.get(..SOCKADDR_LL_BYTES)? else { return None };
    let of = LinkAddress {
        protocol: u16::from_be_bytes([p0, p1]),
        interface: i32::from_ne_bytes([i0, i1, i2, i3]),
        address_bytes: usize::from(length),
        address: address.first_chunk::<8>().copied()?,
    };
    Some((u16::from_ne_bytes([f0, f1]), of))
}

/// `struct sockaddr_ll`, with room for an address of eight bytes.
fn told(seen: &LinkSeen) -> Vec<u8> {
    let mut out = Vec::with_capacity(SOCKADDR_LL_BYTES);
    out.extend((AF_PACKET as u16).to_ne_bytes());
    out.extend(seen.protocol.to_be_bytes());
    out.extend(seen.interface.to_ne_bytes());
    out.extend(seen.hardware.to_ne_bytes());
    out.push(seen.kind);
    out.push(seen.source.map_or(0, |address| address.len() as u8));
    out.extend(seen.source.into_iter().flatten());
    out.resize(SOCKADDR_LL_BYTES, 0);
    out
}

/// The sender's address, and what PACKET_AUXDATA adds to the control messages.
pub(crate) fn received(packet: &Packet, link: &LinkSeen, bytes: usize) -> (Vec<u8>, Vec<u8>) {
    let control = if packet.auxiliary {
        // struct tpacket_auxdata: status, length, captured length, where link and network headers are, VLAN tag and its protocol.
        let mut data = Vec::with_capacity(20);
        let tagged = if link.tag.is_some() { TP_STATUS_VLAN_VALID | TP_STATUS_VLAN_TPID_VALID } else { 0 };
        data.extend((link.status | tagged).to_ne_bytes());
        data.extend(link.whole_bytes.to_ne_bytes());
        data.extend((bytes as u32).to_ne_bytes());
        data.extend(0_u16.to_ne_bytes());
        data.extend(link.network_at.to_ne_bytes());
        let (tag, of) = link.tag.unwrap_or_default();
        data.extend(tag.to_ne_bytes());
        data.extend(of.to_ne_bytes());
        message(SOL_PACKET, PACKET_AUXDATA, &data)
    } else {
        Vec::new()
    };
    (told(link), control)
}

/// getsockname(2): `packet_getname`.
pub(crate) fn local_address(packet: &Packet) -> Vec<u8> {
    let seen = LinkSeen {
        protocol: packet.protocol,
        interface: packet.interface,
        hardware: packet.hardware,
        kind: 0,
        source: packet.address,
        whole_bytes: 0,
        network_at: 0,
        status: 0,
        tag: None,
        offload: None,
    };
    let mut out = told(&seen);
    out.truncate(SOCKADDR_LL_HEAD_BYTES + packet.address.map_or(0, |address| address.len()));
    out
}
