//! AF_NETLINK: the questions that libc, Go's net package and iproute ask of NETLINK_ROUTE, answered from the node's tables.
//!
//! A netlink socket is a SOCK_SEQPACKET stand-in. Dumps: links, addresses, routes, neighbours; single answers: a link by index or name, the
//! route to an address. Changing anything is EPERM, other questions EOPNOTSUPP, each with a row in `weft show calls`. Multicast groups
//! may be joined; nothing is announced in them yet.

use crate::call::interface;
use crate::calls::Calls;
use crate::face::{Errno, Stack};
use crate::standin::{Body, StandIn};
use crate::sys::{self, Packet};
use crate::tables::{self, InterfaceRow, NeighbourRow, RouteRow};
use bytes::BytesMut;
use netlink_packet_core::{DoneMessage, ErrorMessage, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage, AddressScope};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkLayerType, LinkMessage, State};
use netlink_packet_route::neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteProtocol, RouteScope, RouteType};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroI32;
use std::os::fd::AsFd;
use weft_core::table::{Address, LinkType, RouteKind};

/// `struct sockaddr_nl` of the kernel: port 0, no groups.
pub const KERNEL_NAME: [u8; 12] = [libc::AF_NETLINK as u8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// Most bytes of answer in one packet: Go and old libcs read into one page.
const PACKET_BYTES_MAX: usize = 3800;
/// Bytes of `struct nlmsghdr`.
const HEADER_BYTES: usize = 16;
/// Most requests in one packet.
const REQUESTS_MAX: usize = 64;

const NLM_F_ACK: u16 = 4;
const NLM_F_MULTI: u16 = 2;
const NLM_F_DUMP: u16 = 0x300;
const NLMSG_CONTROL_MAX: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_GETADDR: u16 = 22;
const RTM_GETROUTE: u16 = 26;
const RTM_GETNEIGH: u16 = 30;

/// A netlink socket's own state.
#[derive(Debug)]
pub struct Netlink {
    /// SOCK_RAW or SOCK_DGRAM, as asked for.
    kind: i32,
    /// nl_pid; 0 until bound, by the program or by use.
    port: u32,
    /// nl_groups.
    groups: u32,
}

impl Netlink {
    /// A fresh one.
    pub fn new(kind: i32) -> Netlink {
        Netlink { kind, port: 0, groups: 0 }
    }

    /// bind(2).
    ///
    /// # Errors
    /// EINVAL for what is no `sockaddr_nl`.
    pub fn bind(&mut self, address: &[u8]) -> Result<(), Errno> {
        let word = |at: usize| address.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_ne_bytes);
        let family = address.get(..2).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes);
        let (Some(family), Some(port), Some(groups)) = (family, word(4), word(8)) else { return Err(Errno::EINVAL) };
        if i32::from(family) != libc::AF_NETLINK {
            return Err(Errno::EINVAL);
        }
        // netlink_bind: "if (nlk->bound) { if (nladdr->nl_pid != nlk->portid) return -EINVAL; }"
        if port != 0 {
            if self.port != 0 && self.port != port {
                return Err(Errno::EINVAL);
            }
            self.port = port;
        }
        self.groups = groups;
        Ok(())
    }

    fn port(&mut self, tid: u32) -> u32 {
        // netlink_autobind: the process's number is the first choice; the thread's is as good, since it is unique too.
        if self.port == 0 {
            self.port = tid;
        }
        self.port
    }

    /// getsockname(2).
    pub fn name(&mut self, tid: u32) -> Vec<u8> {
        let mut name = KERNEL_NAME.to_vec();
        name[4..8].copy_from_slice(&self.port(tid).to_ne_bytes());
        name[8..12].copy_from_slice(&self.groups.to_ne_bytes());
        name
    }

    /// getsockopt(2) of what the stand-in would answer wrongly.
    pub fn option(&self, level: i32, name: i32) -> Option<Vec<u8>> {
        let value = match (level, name) {
            (libc::SOL_SOCKET, libc::SO_DOMAIN) => libc::AF_NETLINK,
            (libc::SOL_SOCKET, libc::SO_TYPE) => self.kind,
            (libc::SOL_SOCKET, libc::SO_PROTOCOL) => libc::NETLINK_ROUTE,
            _ => return None,
        };
        Some(value.to_ne_bytes().to_vec())
    }
}

/// Serves what programs wrote natively. True: the program's end is closed.
pub fn serve(one: &mut StandIn, stack: &mut dyn Stack, calls: &mut Calls) -> bool {
    let mut buffer = BytesMut::with_capacity(64 * 1024);
    while one.readable {
        let Some(ours) = &one.ours else { return false };
        buffer.clear();
        match sys::receive_packet(ours.as_fd(), &mut buffer) {
            Ok(Packet::Bytes(_)) => {
                let tid = one.place.0;
                request(one, &buffer, tid, stack, calls);
            }
            Ok(Packet::End) => return true,
            Err(Errno::EAGAIN) => one.readable = false,
            Err(_) => return true,
        }
    }
    false
}

/// A request, as far as it matters.
#[derive(Clone, Copy, Debug)]
struct Request<'a> {
    kind: u16,
    flags: u16,
    sequence: u32,
    body: &'a [u8],
    whole: &'a [u8],
}

/// Splits a packet into requests. Lengths that make no sense end it.
fn requests(packet: &[u8]) -> Vec<Request<'_>> {
    let mut found = Vec::new();
    let mut rest = packet;
    while found.len() < REQUESTS_MAX && rest.len() >= HEADER_BYTES {
        let length = u32::from_ne_bytes([rest[0], rest[1], rest[2], rest[3]]) as usize;
        if length < HEADER_BYTES || length > rest.len() {
            break;
        }
        found.push(Request {
            kind: u16::from_ne_bytes([rest[4], rest[5]]),
            flags: u16::from_ne_bytes([rest[6], rest[7]]),
            sequence: u32::from_ne_bytes([rest[8], rest[9], rest[10], rest[11]]),
            body: &rest[HEADER_BYTES..length],
            whole: &rest[..length],
        });
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    found
}

/// Answers the requests of one packet.
pub fn request(one: &mut StandIn, packet: &[u8], tid: u32, stack: &mut dyn Stack, calls: &mut Calls) {
    let (Body::Netlink(state), Some(ours)) = (&mut one.body, &one.ours) else { return };
    let port = state.port(tid);
    for request in requests(packet) {
        if request.kind < NLMSG_CONTROL_MAX {
            continue;
        }
        for packet in pack(answer(&request, stack, calls), &request, port) {
            if sys::send_vectors(ours.as_fd(), &[&packet], 0).is_err() {
                // The program does not read its answers; the kernel too drops what does not fit (ENOBUFS).
                return;
            }
        }
    }
}

type Answers = Result<Vec<RouteNetlinkMessage>, Errno>;

fn answer(request: &Request<'_>, stack: &mut dyn Stack, calls: &mut Calls) -> Answers {
    let family = i32::from(request.body.first().copied().unwrap_or(0));
    let inet = family == libc::AF_UNSPEC || family == libc::AF_INET;
    let dump = request.flags & NLM_F_DUMP == NLM_F_DUMP;
    match (request.kind, dump) {
        (RTM_GETLINK, true) => Ok(tables::interfaces(stack).iter().map(link).collect()),
        (RTM_GETLINK, false) => one_link(request.body, stack),
        (RTM_GETADDR, true) if !inet => Ok(Vec::new()),
        (RTM_GETADDR, true) => {
            let interfaces = tables::interfaces(stack);
            Ok(tables::addresses(stack).iter().filter_map(|one| address(one, &interfaces)).collect())
        }
        (RTM_GETROUTE, true) if !inet => Ok(Vec::new()),
        (RTM_GETROUTE, true) => Ok(tables::routes(stack).iter().map(|one| route(one, None)).collect()),
        (RTM_GETROUTE, false) => one_route(request.body, stack),
        (RTM_GETNEIGH, true) => Ok(tables::neighbours(stack).iter().map(neighbour).collect()),
        // rtnetlink_rcv_msg: kind of a message is its number's low two bits; anything but GET needs CAP_NET_ADMIN.
        (kind, _) if kind & 3 != 2 => {
            calls.unsupported(format!("rtnetlink message {kind}"), Errno::EPERM);
            Err(Errno::EPERM)
        }
        (kind, _) => {
            calls.unsupported(format!("rtnetlink message {kind}"), Errno::EOPNOTSUPP);
            Err(Errno::EOPNOTSUPP)
        }
    }
}

/// Attributes after a fixed part: (type, value).
fn attributes(body: &[u8], fixed: usize) -> Vec<(u16, &[u8])> {
    let mut found = Vec::new();
    let mut rest = body.get(fixed..).unwrap_or_default();
    while rest.len() >= 4 && found.len() < 64 {
        let length = usize::from(u16::from_ne_bytes([rest[0], rest[1]]));
        if length < 4 || length > rest.len() {
            break;
        }
        found.push((u16::from_ne_bytes([rest[2], rest[3]]) & 0x3fff, &rest[4..length]));
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    found
}

fn one_link(body: &[u8], stack: &mut dyn Stack) -> Answers {
    const IFINFOMSG_BYTES: usize = 16;
    const IFLA_IFNAME: u16 = 3;
    let index = body.get(4..8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_ne_bytes);
    let name = attributes(body, IFINFOMSG_BYTES).into_iter().find(|(kind, _)| *kind == IFLA_IFNAME).map(|(_, value)| value);
    let name = name.map(|name| name.split(|byte| *byte == 0).next().unwrap_or_default());
    let wanted = |row: &InterfaceRow| if index != 0 { row.index == index } else { Some(row.name.as_bytes()) == name };
    tables::interfaces(stack).iter().find(|row| wanted(row)).map(|row| vec![link(row)]).ok_or(Errno::ENODEV)
}

fn one_route(body: &[u8], stack: &mut dyn Stack) -> Answers {
    const RTMSG_BYTES: usize = 12;
    const RTA_DST: u16 = 1;
    let destination = attributes(body, RTMSG_BYTES).into_iter().find(|(kind, _)| *kind == RTA_DST);
    let destination: [u8; 4] = destination.and_then(|(_, value)| value.try_into().ok()).ok_or(Errno::EINVAL)?;
    let destination = Ipv4Addr::from(destination);
    let routes = tables::routes(stack);
    let found = tables::lookup(&routes, destination).ok_or(Errno::ENETUNREACH)?;
    let mut found = found.clone();
    if found.source.is_none() {
        let address = tables::addresses(stack).into_iter().find(|address| address.interface.0 == found.interface);
        found.source = address.and_then(|address| if let IpAddr::V4(address) = address.address { Some(address) } else { None });
    }
    Ok(vec![route(&found, Some(destination))])
}

fn link(row: &InterfaceRow) -> RouteNetlinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = row.index;
    message.header.link_layer_type = LinkLayerType::from(interface::hardware_type(row.link));
    message.header.flags = LinkFlags::from_bits_retain(interface::flags(row));
    message.attributes = vec![
        LinkAttribute::IfName(row.name.clone()),
        LinkAttribute::TxQueueLen(1000),
        LinkAttribute::OperState(match (row.up, row.link) {
            (true, LinkType::Loopback) => State::Unknown,
            (true, _) => State::Up,
            (false, _) => State::Down,
        }),
        LinkAttribute::Mtu(row.mtu),
        LinkAttribute::Group(row.group),
        LinkAttribute::Qdisc("noqueue".to_owned()),
        LinkAttribute::Address(row.mac.to_vec()),
        LinkAttribute::Broadcast(if row.link == LinkType::Loopback { vec![0; 6] } else { vec![0xff; 6] }),
    ];
    RouteNetlinkMessage::NewLink(message)
}

fn address(row: &Address, interfaces: &[InterfaceRow]) -> Option<RouteNetlinkMessage> {
    let IpAddr::V4(ip) = row.address else { return None };
    let interface = interfaces.iter().find(|interface| interface.index == row.interface.0)?;
    let loopback = interface.link == LinkType::Loopback;
    let mut message = AddressMessage::default();
    message.header.family = AddressFamily::Inet;
    message.header.prefix_len = row.prefix_bits;
    message.header.flags = AddressHeaderFlags::Permanent;
    message.header.scope = if loopback { AddressScope::Host } else { AddressScope::Universe };
    message.header.index = row.interface.0;
    message.attributes = vec![AddressAttribute::Address(ip.into()), AddressAttribute::Local(ip.into())];
    if !loopback && row.prefix_bits < 31 {
        let host = u32::MAX.checked_shr(u32::from(row.prefix_bits)).unwrap_or(0);
        message.attributes.push(AddressAttribute::Broadcast(Ipv4Addr::from(u32::from(ip) | host)));
    }
    message.attributes.push(AddressAttribute::Label(interface.name.clone()));
    Some(RouteNetlinkMessage::NewAddress(message))
}

/// A row of a dump, or the answer to "how to reach `destination`".
fn route(row: &RouteRow, destination: Option<Ipv4Addr>) -> RouteNetlinkMessage {
    let mut message = RouteMessage::default();
    let table = if row.local_table { libc::RT_TABLE_LOCAL } else { libc::RT_TABLE_MAIN };
    message.header.address_family = AddressFamily::Inet;
    message.header.table = table;
    message.header.protocol = if row.local_table { RouteProtocol::Kernel } else { RouteProtocol::Static };
    message.header.scope = match (row.local_table, row.gateway) {
        (true, _) => RouteScope::Host,
        (false, Some(_)) => RouteScope::Universe,
        (false, None) => RouteScope::Link,
    };
    message.header.kind = match row.kind {
        RouteKind::Unicast => RouteType::Unicast,
        RouteKind::Local => RouteType::Local,
        RouteKind::Broadcast => RouteType::Broadcast,
        RouteKind::Multicast => RouteType::Multicast,
        RouteKind::Blackhole => RouteType::BlackHole,
        RouteKind::Unreachable => RouteType::Unreachable,
        RouteKind::Prohibit => RouteType::Prohibit,
    };
    let (prefix, bits) = destination.map_or(row.destination, |destination| (destination, 32));
    message.header.destination_prefix_length = bits;
    let attributes = &mut message.attributes;
    attributes.push(RouteAttribute::Table(u32::from(table)));
    if bits > 0 {
        attributes.push(RouteAttribute::Destination(RouteAddress::Inet(prefix)));
    }
    if row.metric > 0 {
        attributes.push(RouteAttribute::Priority(row.metric));
    }
    if let Some(source) = row.source {
        attributes.push(RouteAttribute::PrefSource(RouteAddress::Inet(source)));
    }
    if let Some(gateway) = row.gateway {
        attributes.push(RouteAttribute::Gateway(RouteAddress::Inet(gateway)));
    }
    attributes.push(RouteAttribute::Oif(row.interface));
    RouteNetlinkMessage::NewRoute(message)
}

fn neighbour(row: &NeighbourRow) -> RouteNetlinkMessage {
    let mut message = NeighbourMessage::default();
    message.header.family = AddressFamily::Inet;
    message.header.ifindex = row.interface;
    message.header.kind = RouteType::Unicast;
    message.header.state = match row.state.as_str() {
        "INCOMPLETE" => NeighbourState::Incomplete,
        "REACHABLE" => NeighbourState::Reachable,
        "STALE" => NeighbourState::Stale,
        "DELAY" => NeighbourState::Delay,
        "PROBE" => NeighbourState::Probe,
        "FAILED" => NeighbourState::Failed,
        "PERMANENT" => NeighbourState::Permanent,
        _ => NeighbourState::None,
    };
    if let IpAddr::V4(ip) = row.address {
        message.attributes.push(NeighbourAttribute::Destination(NeighbourAddress::Inet(ip)));
    }
    if let Some(mac) = row.mac {
        message.attributes.push(NeighbourAttribute::LinkLayerAddress(mac.to_vec()));
    }
    RouteNetlinkMessage::NewNeighbour(message)
}

/// Puts answers into packets, with what belongs at the end.
fn pack(answers: Answers, request: &Request<'_>, port: u32) -> Vec<Vec<u8>> {
    let dump = request.flags & NLM_F_DUMP == NLM_F_DUMP;
    let mut payloads: Vec<NetlinkPayload<RouteNetlinkMessage>> = Vec::new();
    let failed = answers.is_err();
    match answers {
        Ok(messages) => {
            payloads.extend(messages.into_iter().map(NetlinkPayload::InnerMessage));
            if dump {
                payloads.push(NetlinkPayload::Done(DoneMessage::default()));
            } else if request.flags & NLM_F_ACK != 0 {
                payloads.push(error(None, request));
            }
        }
        Err(errno) => payloads.push(error(NonZeroI32::new(-errno.0), request)),
    }
    let mut packets: Vec<Vec<u8>> = Vec::new();
    for payload in payloads {
        let mut header = NetlinkHeader::default();
        header.sequence_number = request.sequence;
        header.port_number = port;
        header.flags = if dump && !failed { NLM_F_MULTI } else { 0 };
        let flags = header.flags;
        let mut message = NetlinkMessage::new(header, payload);
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        // finalize() sets only length and type; the flags are ours.
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        match packets.last_mut() {
            Some(last) if last.len() + bytes.len() <= PACKET_BYTES_MAX => last.extend(bytes),
            _ => packets.push(bytes),
        }
    }
    packets
}

fn error(code: Option<NonZeroI32>, request: &Request<'_>) -> NetlinkPayload<RouteNetlinkMessage> {
    let mut message = ErrorMessage::default();
    message.code = code;
    message.header = request.whole.to_vec();
    NetlinkPayload::Error(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request_bytes(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = ((HEADER_BYTES + body.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend(7_u32.to_ne_bytes());
        bytes.extend(0_u32.to_ne_bytes());
        bytes.extend(body);
        bytes
    }

    #[test]
    fn requests_are_split_and_nonsense_ends_them() {
        let mut packet = request_bytes(RTM_GETLINK, NLM_F_DUMP, &[0; 5]);
        packet.resize(packet.len().next_multiple_of(4), 0);
        packet.extend(request_bytes(RTM_GETADDR, NLM_F_DUMP, &[2, 0, 0, 0]));
        packet.extend(1_000_000_u32.to_ne_bytes());
        packet.extend([0; 12]);
        let kinds: Vec<u16> = requests(&packet).iter().map(|request| request.kind).collect();
        assert_eq!(kinds, [RTM_GETLINK, RTM_GETADDR]);
        for cut in 0..packet.len() {
            requests(&packet[..cut]);
            attributes(&packet[..cut], 0);
        }
    }

    #[test]
    fn a_dump_is_multi_part_ends_with_done_and_fits_pages() {
        let row = InterfaceRow { index: 2, name: "weft0".to_owned(), mac: [2; 6], mtu: 1500, up: true, link: LinkType::Ethernet, group: 0 };
        let bytes = request_bytes(RTM_GETLINK, NLM_F_DUMP | 1, &[0]);
        let request = requests(&bytes)[0];
        let packets = pack(Ok(vec![link(&row); 100]), &request, 99);
        assert!(packets.len() > 1 && packets.iter().all(|packet| packet.len() <= PACKET_BYTES_MAX));
        let messages: Vec<(u16, u16)> =
            packets.iter().flat_map(|packet| requests(packet)).map(|message| (message.kind, message.flags)).collect();
        assert_eq!(messages.len(), 101);
        assert!(messages[..100].iter().all(|message| *message == (16, NLM_F_MULTI)));
        assert_eq!(messages[100], (3, NLM_F_MULTI));
        let parsed = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&packets[0]).unwrap();
        assert_eq!((parsed.header.sequence_number, parsed.header.port_number), (7, 99));
        assert_eq!(parsed.payload, NetlinkPayload::InnerMessage(link(&row)));
    }

    #[test]
    fn errors_carry_the_request() {
        let bytes = request_bytes(16, 1, &[1, 2, 3, 4]);
        let packets = pack(Err(Errno::EPERM), &requests(&bytes)[0], 5);
        assert_eq!(&packets[0][16..20], &(-libc::EPERM).to_ne_bytes());
        assert_eq!(&packets[0][20..], &bytes[..]);
    }
}
