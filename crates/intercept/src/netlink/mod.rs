//! AF_NETLINK: the questions that libc, Go's net package and iproute ask of NETLINK_ROUTE and NETLINK_SOCK_DIAG, answered from the node's
//! tables.
//!
//! A netlink socket is a SOCK_SEQPACKET stand-in. Dumps: links, addresses, routes, neighbours; single answers: a link by index or name, the
//! route to an address; of NETLINK_SOCK_DIAG: the dump of INET sockets (`ss`). Changing anything is EPERM, other questions EOPNOTSUPP, each with a row in `weft show calls`. Multicast groups
//! may be joined; nothing is announced in them yet.

pub(crate) mod diag;
mod rows;

use crate::calls::Calls;
use crate::face::{Errno, Stack};
use crate::standin::{Body, StandIn};
use crate::sys::{self, Packet};
use crate::tables::{self, InterfaceRow};
use bytes::BytesMut;
use netlink_packet_core::NetlinkSerializable;
use netlink_packet_route::RouteNetlinkMessage;
use rows::{address, link, neighbour, route};
use std::net::IpAddr;
use std::os::fd::AsFd;
use weft_core::table::Family;

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
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const RTM_GETLINK: u16 = 18;
const RTM_GETADDR: u16 = 22;
const RTM_GETROUTE: u16 = 26;
const RTM_GETNEIGH: u16 = 30;

/// A netlink socket's own state.
#[derive(Debug)]
pub struct Netlink {
    /// SOCK_RAW or SOCK_DGRAM, as asked for.
    kind: i32,
    /// NETLINK_ROUTE or NETLINK_SOCK_DIAG.
    protocol: i32,
    /// nl_pid; 0 until bound, by the program or by use.
    port: u32,
    /// nl_groups.
    groups: u32,
}

impl Netlink {
    /// A fresh one.
    ///
    /// # Errors
    /// ESOCKTNOSUPPORT; EPROTONOSUPPORT for what is neither NETLINK_ROUTE nor NETLINK_SOCK_DIAG.
    pub fn new(kind: i32, protocol: i32) -> Result<Netlink, Errno> {
        // netlink_create: "if (sock->type != SOCK_RAW && sock->type != SOCK_DGRAM) return -ESOCKTNOSUPPORT;"
        if kind != libc::SOCK_RAW && kind != libc::SOCK_DGRAM {
            return Err(Errno(libc::ESOCKTNOSUPPORT));
        }
        if protocol != libc::NETLINK_ROUTE && protocol != libc::NETLINK_SOCK_DIAG {
            return Err(Errno(libc::EPROTONOSUPPORT));
        }
        Ok(Netlink { kind, protocol, port: 0, groups: 0 })
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
            (libc::SOL_SOCKET, libc::SO_PROTOCOL) => self.protocol,
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

/// Answers the requests of one packet, over the stand-in.
pub fn request(one: &mut StandIn, packet: &[u8], tid: u32, stack: &mut dyn Stack, calls: &mut Calls) {
    let (Body::Netlink(state), Some(ours)) = (&mut one.body, &one.ours) else { return };
    for packet in answers(state, packet, tid, stack, calls) {
        if sys::send_vectors(ours.as_fd(), &[&packet], 0).is_err() {
            // The program does not read its answers; the kernel too drops what does not fit (ENOBUFS).
            return;
        }
    }
}

/// The packets that answer the requests of one packet.
pub fn answers(state: &mut Netlink, packet: &[u8], tid: u32, stack: &mut dyn Stack, calls: &mut Calls) -> Vec<Vec<u8>> {
    let port = state.port(tid);
    let protocol = state.protocol;
    let mut packets = Vec::new();
    for request in requests(packet) {
        if request.kind < NLMSG_CONTROL_MAX {
            continue;
        }
        packets.extend(match protocol {
            libc::NETLINK_SOCK_DIAG => pack(diag::answer(&request, stack, calls), &request, port),
            _ => pack(answer(&request, stack, calls), &request, port),
        });
    }
    packets
}

type Answers = Result<Vec<RouteNetlinkMessage>, Errno>;

fn answer(request: &Request<'_>, stack: &mut dyn Stack, calls: &mut Calls) -> Answers {
    let families = families(request.body);
    let dump = request.flags & NLM_F_DUMP == NLM_F_DUMP;
    match (request.kind, dump) {
        (RTM_GETLINK, true) => Ok(tables::interfaces(stack).iter().map(link).collect()),
        (RTM_GETLINK, false) => one_link(request.body, stack),
        (RTM_GETADDR, true) => {
            let interfaces = tables::interfaces(stack);
            let rows = families.iter().flat_map(|family| tables::addresses(stack, *family));
            Ok(rows.filter_map(|one| address(&one, &interfaces)).collect())
        }
        (RTM_GETROUTE, true) => {
            let rows = families.iter().flat_map(|family| tables::routes(stack, *family));
            Ok(rows.map(|one| route(&one, None)).collect())
        }
        (RTM_GETROUTE, false) => one_route(request.body, stack),
        (RTM_GETNEIGH, true) => {
            let rows = families.iter().flat_map(|family| tables::neighbours(stack, *family));
            Ok(rows.map(|one| neighbour(&one)).collect())
        }
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

/// The families that a dump asks for by its first byte; AF_UNSPEC is all.
fn families(body: &[u8]) -> &'static [Family] {
    match i32::from(body.first().copied().unwrap_or(0)) {
        libc::AF_UNSPEC => &[Family::V4, Family::V6],
        libc::AF_INET => &[Family::V4],
        libc::AF_INET6 => &[Family::V6],
        _ => &[],
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
    let destination = attributes(body, RTMSG_BYTES).into_iter().find(|(kind, _)| *kind == RTA_DST).map(|(_, value)| value);
    let v4 = destination.and_then(|value| <[u8; 4]>::try_from(value).ok()).map(IpAddr::from);
    let v6 = destination.and_then(|value| <[u8; 16]>::try_from(value).ok()).map(IpAddr::from);
    let destination = v4.or(v6).ok_or(Errno::EINVAL)?;
    let family = if destination.is_ipv6() { Family::V6 } else { Family::V4 };
    let routes = tables::routes(stack, family);
    let found = tables::lookup(&routes, destination).ok_or(Errno::ENETUNREACH)?;
    let mut found = found.clone();
    if found.source.is_none() {
        let address = tables::addresses(stack, family).into_iter().find(|address| address.interface.0 == found.interface);
        found.source = address.map(|address| address.address);
    }
    Ok(vec![route(&found, Some(destination))])
}

/// A message that answers, as it is packed.
trait Answer {
    /// Its nlmsg_type and its bytes behind the header.
    fn encode(self) -> (u16, Vec<u8>);
}

impl Answer for RouteNetlinkMessage {
    fn encode(self) -> (u16, Vec<u8>) {
        let mut bytes = vec![0; self.buffer_len()];
        self.serialize(&mut bytes);
        (self.message_type(), bytes)
    }
}

impl Answer for (u16, Vec<u8>) {
    fn encode(self) -> (u16, Vec<u8>) {
        self
    }
}

/// Puts answers into packets, with what belongs at the end.
fn pack<A: Answer>(answers: Result<Vec<A>, Errno>, request: &Request<'_>, port: u32) -> Vec<Vec<u8>> {
    let dump = request.flags & NLM_F_DUMP == NLM_F_DUMP;
    let flags = if dump && answers.is_ok() { NLM_F_MULTI } else { 0 };
    let mut messages: Vec<(u16, Vec<u8>)> = Vec::new();
    match answers {
        Ok(found) => {
            messages.extend(found.into_iter().map(Answer::encode));
            if dump {
                messages.push((NLMSG_DONE, 0_i32.to_ne_bytes().to_vec()));
            } else if request.flags & NLM_F_ACK != 0 {
                messages.push(error(0, request));
            }
        }
        Err(errno) => messages.push(error(-errno.0, request)),
    }
    let mut packets: Vec<Vec<u8>> = Vec::new();
    for (kind, body) in messages {
        let mut bytes = ((HEADER_BYTES + body.len()) as u32).to_ne_bytes().to_vec();
        [kind, flags].iter().for_each(|half| bytes.extend(half.to_ne_bytes()));
        [request.sequence, port].iter().for_each(|word| bytes.extend(word.to_ne_bytes()));
        bytes.extend(body);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        match packets.last_mut() {
            Some(last) if last.len() + bytes.len() <= PACKET_BYTES_MAX => last.extend(bytes),
            _ => packets.push(bytes),
        }
    }
    packets
}

/// `struct nlmsgerr`: an errno, negative, or 0 for an acknowledgement, and the request.
fn error(code: i32, request: &Request<'_>) -> (u16, Vec<u8>) {
    (NLMSG_ERROR, [&code.to_ne_bytes(), request.whole].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::{NeighbourRow, RouteRow};
    use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
    use weft_core::InterfaceIndex;
    use weft_core::table::{Address, AddressState, LinkType, RouteKind};

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
        let packets = pack::<RouteNetlinkMessage>(Err(Errno::EPERM), &requests(&bytes)[0], 5);
        assert_eq!(&packets[0][16..20], &(-libc::EPERM).to_ne_bytes());
        assert_eq!(&packets[0][20..], &bytes[..]);
    }

    fn bytes_of(message: RouteNetlinkMessage) -> Vec<u8> {
        message.encode().1
    }

    #[test]
    fn ipv6_rows_are_what_the_kernel_writes() {
        let interfaces =
            [InterfaceRow { index: 2, name: "weft0".to_owned(), mac: [2; 6], mtu: 1500, up: true, link: LinkType::Ethernet, group: 0 }];
        let ip: std::net::Ipv6Addr = "fe80::1".parse().unwrap();
        let row = Address { state: AddressState::Tentative, dynamic: true, ..Address::permanent(InterfaceIndex(2), ip.into(), 64) };
        let bytes = bytes_of(address(&row, &interfaces).unwrap());
        // struct ifaddrmsg: AF_INET6, 64 bits, IFA_F_TENTATIVE, RT_SCOPE_LINK, index 2; one attribute, IFA_ADDRESS.
        assert_eq!(bytes[..8], [10, 64, 0x40, 253, 2, 0, 0, 0]);
        assert_eq!(attributes(&bytes, 8), [(1, ip.octets().as_slice())]);

        let row = RouteRow {
            local_table: false,
            kind: RouteKind::Unicast,
            destination: ("fd77::".parse().unwrap(), 64),
            gateway: None,
            interface: 2,
            source: None,
            metric: 256,
        };
        let bytes = bytes_of(route(&row, None));
        assert_eq!(bytes[..8], [10, 64, 0, 0, 254, 4, 0, 1], "struct rtmsg: main, static, universe, unicast");
        let found = attributes(&bytes, 12);
        assert!(found.contains(&(6, &256_u32.to_ne_bytes())), "{found:?}");

        let row = NeighbourRow { interface: 2, address: ip.into(), mac: Some([2; 6]), state: "REACHABLE".to_owned(), router: true };
        let bytes = bytes_of(neighbour(&row));
        assert_eq!(bytes[..12], [10, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0x80, 1], "struct ndmsg: NUD_REACHABLE, NTF_ROUTER");
    }
}
