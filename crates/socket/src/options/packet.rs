//! SOL_PACKET (linux/net/packet/af_packet.c: packet_setsockopt, packet_getsockopt).

use super::row::{Access, Applies::Packet, Get, OptionRow, Set, flag, row};
use crate::abi::*;
use crate::errno::Errno;
use crate::link_seen::LinkMembership;
use crate::packet_fanout::{ARGUMENT_BYTES, SHORT_ARGUMENT_BYTES};
use crate::packet_ring::{Request, Rings, Version};
use crate::packet_socket;
use crate::receive_queue;
use crate::socket;
use weft_core::bpf::Program;
use weft_core::table::LinkType;
use weft_core::vnet;
use weft_core::{Answer, InterfaceIndex, Query, Table};

/// Bytes of `struct packet_mreq`, and of what stands before its address.
const MREQ_BYTES: usize = 16;
const MREQ_HEAD_BYTES: usize = 8;
/// Memberships of one socket; Linux has no bound but its memory (ENOBUFS).
const MEMBERSHIPS_MAX: usize = 1024;
const NO_SUCH: Set = Set::Never(Errno::ENOPROTOOPT);

fn packet<'a>(a: &'a mut Access<'_, '_>) -> Result<&'a mut socket::Packet, Errno> {
    a.socket()?.packet_mut().ok_or(Errno::ENOPROTOOPT)
}

pub(super) const ROWS: &[OptionRow] = &[
    row(SOL_PACKET, PACKET_ADD_MEMBERSHIP, "PACKET_ADD_MEMBERSHIP", Packet, Set::Bytes(add), Get::Never(Errno::ENOPROTOOPT)),
    row(SOL_PACKET, PACKET_DROP_MEMBERSHIP, "PACKET_DROP_MEMBERSHIP", Packet, Set::Bytes(drop), Get::Never(Errno::ENOPROTOOPT)),
    row(SOL_PACKET, PACKET_STATISTICS, "PACKET_STATISTICS", Packet, NO_SUCH, Get::Bytes(|a, _| statistics(a))),
    row(
        SOL_PACKET,
        PACKET_AUXDATA,
        "PACKET_AUXDATA",
        Packet,
        Set::Int(|a, v| Ok(packet(a)?.auxiliary = v != 0)),
        Get::Int(|a| flag(packet(a)?.auxiliary)),
    ),
    // Kept: no interface is below another one.
    row(
        SOL_PACKET,
        PACKET_ORIGDEV,
        "PACKET_ORIGDEV",
        Packet,
        Set::Int(|a, v| Ok(packet(a)?.original_device = v != 0)),
        Get::Int(|a| flag(packet(a)?.original_device)),
    ),
    row(
        SOL_PACKET,
        PACKET_IGNORE_OUTGOING,
        "PACKET_IGNORE_OUTGOING",
        Packet,
        // "if (val < 0 || val > 1) return -EINVAL;"
        Set::OneInt(|a, v| match v {
            0 | 1 => Ok(packet(a)?.ignores_outgoing = v == 1),
            _ => Err(Errno::EINVAL),
        }),
        Get::Int(|a| flag(packet(a)?.ignores_outgoing)),
    ),
    row(
        SOL_PACKET,
        PACKET_VERSION,
        "PACKET_VERSION",
        Packet,
        Set::OneInt(|a, v| {
            let version = Version::named(v).ok_or(Errno::EINVAL)?;
            Ok(unset(a)?.version = version)
        }),
        Get::Int(|a| Ok(packet(a)?.rings.version.number())),
    ),
    row(SOL_PACKET, PACKET_HDRLEN, "PACKET_HDRLEN", Packet, NO_SUCH, Get::Asked(|_, asked, length| header_bytes(asked, length))),
    row(
        SOL_PACKET,
        PACKET_RESERVE,
        "PACKET_RESERVE",
        Packet,
        // "if (val > INT_MAX) return -EINVAL;"
        Set::OneInt(|a, v| {
            let reserve = u32::try_from(v).map_err(|_| Errno::EINVAL)?;
            Ok(unset(a)?.reserve = reserve)
        }),
        Get::Int(|a| Ok(packet(a)?.rings.reserve as i32)),
    ),
    row(
        SOL_PACKET,
        PACKET_LOSS,
        "PACKET_LOSS",
        Packet,
        Set::OneInt(|a, v| Ok(unset(a)?.leaves_out = v != 0)),
        Get::Int(|a| flag(packet(a)?.rings.leaves_out)),
    ),
    row(
        SOL_PACKET,
        PACKET_COPY_THRESH,
        "PACKET_COPY_THRESH",
        Packet,
        Set::OneInt(|a, v| Ok(packet(a)?.rings.copy_threshold = v)),
        // Linux 6.12 does not read it, later ones do.
        Get::Int(|a| Ok(packet(a)?.rings.copy_threshold)),
    ),
    row(
        SOL_PACKET,
        PACKET_TX_HAS_OFF,
        "PACKET_TX_HAS_OFF",
        Packet,
        // "if (!po->rx_ring.pg_vec && !po->tx_ring.pg_vec) po->tp_tx_has_off = !!val;", and success in any case.
        Set::OneInt(|a, v| Ok(unset(a).map_or((), |rings| rings.has_offsets = v != 0))),
        Get::Int(|a| flag(packet(a)?.rings.has_offsets)),
    ),
    // No interface has times of its own.
    row(
        SOL_PACKET,
        PACKET_TIMESTAMP,
        "PACKET_TIMESTAMP",
        Packet,
        Set::OneInt(|a, v| Ok(packet(a)?.timestamp = v)),
        Get::Int(|a| Ok(packet(a)?.timestamp)),
    ),
    // Kept: what is sent goes by the queue of its interface.
    row(
        SOL_PACKET,
        PACKET_QDISC_BYPASS,
        "PACKET_QDISC_BYPASS",
        Packet,
        Set::OneInt(|a, v| Ok(packet(a)?.bypasses = v != 0)),
        Get::Int(|a| flag(packet(a)?.bypasses)),
    ),
    row(
        SOL_PACKET,
        PACKET_VNET_HDR,
        "PACKET_VNET_HDR",
        Packet,
        Set::Int(|a, v| offload(a, if v == 0 { 0 } else { vnet::HEADER_BYTES as i32 })),
        Get::Int(|a| flag(packet(a)?.offload_bytes != 0)),
    ),
    row(SOL_PACKET, PACKET_VNET_HDR_SZ, "PACKET_VNET_HDR_SZ", Packet, Set::Int(offload), Get::Int(|a| Ok(packet(a)?.offload_bytes.into()))),
    row(SOL_PACKET, PACKET_FANOUT, "PACKET_FANOUT", Packet, Set::Bytes(fan_out), Get::Int(fanout)),
    row(SOL_PACKET, PACKET_FANOUT_DATA, "PACKET_FANOUT_DATA", Packet, Set::Bytes(fanout_data), Get::Never(Errno::ENOPROTOOPT)),
    row(SOL_PACKET, PACKET_ROLLOVER_STATS, "PACKET_ROLLOVER_STATS", Packet, NO_SUCH, Get::Bytes(|a, _| rollover(a))),
    row(SOL_PACKET, PACKET_RX_RING, "PACKET_RX_RING", Packet, Set::Bytes(|a, v| ring(a, v, false)), Get::Never(Errno::ENOPROTOOPT)),
    row(SOL_PACKET, PACKET_TX_RING, "PACKET_TX_RING", Packet, Set::Bytes(|a, v| ring(a, v, true)), Get::Never(Errno::ENOPROTOOPT)),
];

/// The name of an option that packet sockets of Linux's have, and these do not.
pub fn refused(level: i32, name: i32) -> Option<&'static str> {
    match (level, name) {
        (SOL_SOCKET, SO_ATTACH_BPF) => Some("SO_ATTACH_BPF"),
        _ => None,
    }
}

/// Bytes of a header before each frame: `struct virtio_net_hdr`, `struct virtio_net_hdr_mrg_rxbuf`, or none.
fn offload(a: &mut Access<'_, '_>, bytes: i32) -> Result<(), Errno> {
    let socket = a.socket()?;
    if socket.kind != SOCK_RAW || !matches!(bytes, 0 | 10 | 12) {
        return Err(Errno::EINVAL);
    }
    let packet = packet(a)?;
    packet.rings.check_unset()?;
    packet.offload_bytes = bytes as u8;
    Ok(())
}

/// PACKET_FANOUT: `struct fanout_args`, or the first four bytes of it.
fn fan_out(a: &mut Access<'_, '_>, value: &[u8]) -> Result<(), Errno> {
    // "if (optlen != sizeof(int) && optlen != sizeof(args)) return -EINVAL;"
    if !matches!(value.len(), SHORT_ARGUMENT_BYTES | ARGUMENT_BYTES) {
        return Err(Errno::EINVAL);
    }
    let hears = a.packets.hearing.contains(&a.id);
    let packet = a.sockets.get_mut(a.id)?.packet_mut().ok_or(Errno::ENOPROTOOPT)?;
    a.packets.groups.add(packet, a.id, hears, value)
}

fn fanout(a: &mut Access<'_, '_>) -> Result<i32, Errno> {
    let packet = a.sockets.get(a.id)?.packet().ok_or(Errno::ENOPROTOOPT)?;
    Ok(a.packets.groups.told(packet))
}

/// `fanout_set_data`. `program`: the instructions that a `struct sock_fprog` leads to.
fn fanout_data(a: &mut Access<'_, '_>, program: &[u8]) -> Result<(), Errno> {
    let socket = a.sockets.get(a.id)?;
    let packet = socket.packet().ok_or(Errno::ENOPROTOOPT)?;
    if !a.packets.groups.takes_program(packet) {
        return Err(Errno::EINVAL);
    }
    if socket.options.filter_locked {
        return Err(Errno::EPERM);
    }
    let program = Program::from_bytes(program).map_err(|_| Errno::EINVAL)?;
    a.packets.groups.set_program(packet, program.into())
}

/// `struct tpacket_rollover_stats`. "if (!po->rollover) return -EINVAL;"
fn rollover(a: &mut Access<'_, '_>) -> Result<Vec<u8>, Errno> {
    let rollover = packet(a)?.rollover.as_ref().ok_or(Errno::EINVAL)?;
    Ok(rollover.counts.iter().flat_map(|count| count.to_ne_bytes()).collect())
}

/// The options of rings, while there is none.
fn unset<'a>(a: &'a mut Access<'_, '_>) -> Result<&'a mut Rings, Errno> {
    let rings = &mut packet(a)?.rings;
    rings.check_unset().map(|()| rings)
}

/// Bytes of a frame's header in a ring of the version that the program has in the place for the value.
fn header_bytes(asked: &[u8], length: usize) -> Result<Vec<u8>, Errno> {
    if length < 4 {
        return Err(Errno::EINVAL);
    }
    let version = asked.first_chunk::<4>().map(|version| i32::from_ne_bytes(*version)).ok_or(Errno::EFAULT)?;
    let version = Version::named(version).ok_or(Errno::EINVAL)?;
    Ok(version.header_bytes().to_ne_bytes().to_vec())
}

/// PACKET_RX_RING and PACKET_TX_RING.
fn ring(a: &mut Access<'_, '_>, value: &[u8], sends: bool) -> Result<(), Errno> {
    let clock = packet_socket::clock(a.sockets, a.cx);
    let packet = packet(a)?;
    let request = Request::parse(value, packet.rings.version)?;
    let interface = InterfaceIndex(packet.interface);
    // A veth says how fast it is; `lo` does not.
    let timed =
        matches!(a.cx.ask(Table::Interfaces, &Query::Interface(interface)), Answer::Interface(device) if device.link == LinkType::Ethernet);
    self::packet(a)?.rings.set(sends, &request, timed, clock)?;
    if !sends {
        // "skb_queue_purge(rb_queue);"
        receive_queue::purge(a.sockets, a.id);
    }
    packet_socket::arm(a.sockets, a.id, a.cx);
    Ok(())
}

/// `struct packet_mreq`; an address of up to 32 bytes may follow its head.
fn membership(a: &mut Access<'_, '_>, value: &[u8]) -> Result<LinkMembership, Errno> {
    let head = value.first_chunk::<MREQ_HEAD_BYTES>().filter(|_| value.len() >= MREQ_BYTES).ok_or(Errno::EINVAL)?;
    let &[i0, i1, i2, i3, k0, k1, l0, l1] = head;
    let length = usize::from(u16::from_ne_bytes([l0, l1]));
    let address = value.get(MREQ_HEAD_BYTES..MREQ_HEAD_BYTES + length).ok_or(Errno::EINVAL)?;
    packet(a)?;
    Ok(LinkMembership { interface: u32::from_ne_bytes([i0, i1, i2, i3]), kind: u16::from_ne_bytes([k0, k1]), address: address.to_vec() })
}

/// `packet_mc_add`.
fn add(a: &mut Access<'_, '_>, value: &[u8]) -> Result<(), Errno> {
    let wanted = membership(a, value)?;
    let Answer::Interface(device) = a.cx.ask(Table::Interfaces, &Query::Interface(InterfaceIndex(wanted.interface))) else {
        return Err(Errno::ENODEV);
    };
    // "if (mreq->mr_alen > dev->addr_len) goto done;"
    let address_bytes = if device.link == LinkType::Raw { 0 } else { 6 };
    if wanted.address.len() > address_bytes {
        return Err(Errno::EINVAL);
    }
    let packet = packet(a)?;
    if let Some((_, times)) = packet.memberships.iter_mut().find(|(membership, _)| *membership == wanted) {
        *times = times.saturating_add(1);
        return Ok(());
    }
    if packet.memberships.len() >= MEMBERSHIPS_MAX {
        return Err(Errno::ENOBUFS);
    }
    // packet_dev_mc: "if (i->alen != dev->addr_len) return -EINVAL;" of addresses, not of PACKET_MR_PROMISC and PACKET_MR_ALLMULTI.
    if matches!(wanted.kind, PACKET_MR_MULTICAST | PACKET_MR_UNICAST) && wanted.address.len() != address_bytes {
        return Err(Errno::EINVAL);
    }
    packet.memberships.push((wanted, 1));
    Ok(())
}

/// `packet_mc_drop`: what was not added is no error.
fn drop(a: &mut Access<'_, '_>, value: &[u8]) -> Result<(), Errno> {
    let wanted = membership(a, value)?;
    let packet = packet(a)?;
    for (membership, times) in &mut packet.memberships {
        if *membership == wanted {
            *times -= 1;
        }
    }
    packet.memberships.retain(|(_, times)| *times > 0);
    Ok(())
}

/// `struct tpacket_stats`: frames, lost ones among them, and how many were lost, since the last question; `struct tpacket_stats_v3`: how often nothing
/// could be received, too.
fn statistics(a: &mut Access<'_, '_>) -> Result<Vec<u8>, Errno> {
    let packet = packet(a)?;
    let freezes = packet.rings.take_freezes();
    let words = [std::mem::take(&mut packet.frames), std::mem::take(&mut packet.lost), freezes];
    let told = if packet.rings.version == Version::V3 { 3 } else { 2 };
    Ok(words.into_iter().take(told).flat_map(u32::to_ne_bytes).collect())
}
