//! A netlink socket: what a program has set of it, and who answers what it sends.

use crate::errno::{EINVAL, EPERM, Refusal};
use crate::message::{Message, byte, word};
use crate::packet::{NLM_F_REQUEST, NLMSG_CONTROL_MAX, Reply, Request, append, pack, requests};
use crate::{Tables, address, diag, link, neighbour, notify, qdisc, route, rule};
use std::collections::BTreeSet;
use weft_core::control::Value;

/// `struct sockaddr_nl` of the kernel: AF_NETLINK, port 0, no groups.
pub const KERNEL_NAME: [u8; 12] = [AF_NETLINK, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const AF_NETLINK: u8 = 16;
/// Protocol of rtnetlink.
pub const NETLINK_ROUTE: i32 = 0;
/// Protocol of sock_diag.
pub const NETLINK_SOCK_DIAG: i32 = 4;
const SOCK_DGRAM: i32 = 2;
const SOCK_RAW: i32 = 3;
const SOL_SOCKET: i32 = 1;
const SO_TYPE: i32 = 3;
const SO_PROTOCOL: i32 = 38;
const SO_DOMAIN: i32 = 39;
const SOL_NETLINK: i32 = 270;
const NETLINK_ADD_MEMBERSHIP: i32 = 1;
const NETLINK_DROP_MEMBERSHIP: i32 = 2;
const NETLINK_PKTINFO: i32 = 3;
const NETLINK_BROADCAST_ERROR: i32 = 4;
const NETLINK_NO_ENOBUFS: i32 = 5;
const NETLINK_LISTEN_ALL_NSID: i32 = 8;
const NETLINK_CAP_ACK: i32 = 10;
const NETLINK_EXT_ACK: i32 = 11;
const NETLINK_GET_STRICT_CHK: i32 = 12;
const ESOCKTNOSUPPORT: i32 = 94;
const EPROTONOSUPPORT: i32 = 93;
const ENOPROTOOPT: i32 = 92;
/// RTNLGRP_MAX of Linux 6.18.
const GROUPS_MAX: u32 = 39;

/// Switches of SOL_NETLINK.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Options {
    /// NETLINK_EXT_ACK: refusals come with a sentence.
    pub extended: bool,
    /// NETLINK_CAP_ACK: refusals come without the request's body.
    pub capped: bool,
    /// NETLINK_GET_STRICT_CHK: dumps are filtered here.
    pub strict: bool,
}

/// A netlink socket's own state.
#[derive(Debug)]
pub struct Session {
    /// SOCK_RAW or SOCK_DGRAM, as asked for.
    kind: i32,
    protocol: i32,
    /// nl_pid; 0 until bound, by the program or by use.
    port: u32,
    /// Numbers of multicast groups (RTNLGRP_*), from 1.
    groups: BTreeSet<u32>,
    options: Options,
}

impl Session {
    /// A fresh one.
    ///
    /// # Errors
    /// ESOCKTNOSUPPORT; EPROTONOSUPPORT for what is neither NETLINK_ROUTE nor NETLINK_SOCK_DIAG.
    pub fn new(kind: i32, protocol: i32) -> Result<Session, i32> {
        // netlink_create: "if (sock->type != SOCK_RAW && sock->type != SOCK_DGRAM) return -ESOCKTNOSUPPORT;"
        if kind != SOCK_RAW && kind != SOCK_DGRAM {
            return Err(ESOCKTNOSUPPORT);
        }
        if protocol != NETLINK_ROUTE && protocol != NETLINK_SOCK_DIAG {
            return Err(EPROTONOSUPPORT);
        }
        Ok(Session { kind, protocol, port: 0, groups: BTreeSet::new(), options: Options::default() })
    }

    /// bind(2).
    ///
    /// # Errors
    /// EINVAL for what is no `sockaddr_nl`.
    pub fn bind(&mut self, address: &[u8]) -> Result<(), i32> {
        if address.len() < KERNEL_NAME.len() || byte(address, 0) != AF_NETLINK {
            return Err(EINVAL);
        }
        let (port, groups) = (word(address, 4), word(address, 8));
        // netlink_bind: "if (nlk->bound) { if (nladdr->nl_pid != nlk->portid) return -EINVAL; }"
        if port != 0 {
            if self.port != 0 && self.port != port {
                return Err(EINVAL);
            }
            self.port = port;
        }
        self.groups.retain(|group| *group > 32);
        self.groups.extend((1..=32).filter(|group| groups & 1 << (group - 1) != 0));
        Ok(())
    }

    fn port(&mut self, pid: u32) -> u32 {
        // netlink_autobind: the process's number is the first choice.
        if self.port == 0 {
            self.port = pid;
        }
        self.port
    }

    /// getsockname(2).
    pub fn name(&mut self, pid: u32) -> Vec<u8> {
        let mut name = KERNEL_NAME.to_vec();
        let bits = self.groups.iter().filter(|group| **group <= 32).fold(0_u32, |bits, group| bits | 1 << (group - 1));
        name[4..8].copy_from_slice(&self.port(pid).to_ne_bytes());
        name[8..12].copy_from_slice(&bits.to_ne_bytes());
        name
    }

    /// getsockopt(2) of what a stand-in would answer wrongly. None: it would answer rightly, or nobody knows the option.
    pub fn option(&self, level: i32, name: i32) -> Option<Vec<u8>> {
        let value = match (level, name) {
            (SOL_SOCKET, SO_DOMAIN) => i32::from(AF_NETLINK),
            (SOL_SOCKET, SO_TYPE) => self.kind,
            (SOL_SOCKET, SO_PROTOCOL) => self.protocol,
            (SOL_NETLINK, NETLINK_CAP_ACK) => self.options.capped.into(),
            (SOL_NETLINK, NETLINK_EXT_ACK) => self.options.extended.into(),
            (SOL_NETLINK, NETLINK_GET_STRICT_CHK) => self.options.strict.into(),
            (SOL_NETLINK, NETLINK_PKTINFO | NETLINK_BROADCAST_ERROR | NETLINK_NO_ENOBUFS | NETLINK_LISTEN_ALL_NSID) => 0,
            _ => return None,
        };
        Some(value.to_ne_bytes().to_vec())
    }

    /// setsockopt(2) of SOL_NETLINK.
    ///
    /// # Errors
    /// EINVAL for a group that makes no sense; ENOPROTOOPT.
    pub fn set_option(&mut self, level: i32, name: i32, value: &[u8]) -> Result<(), i32> {
        if level != SOL_NETLINK {
            return Err(ENOPROTOOPT);
        }
        // netlink_setsockopt: "if (optlen >= sizeof(int) && copy_from_sockptr(&val, optval, sizeof(int))) return -EFAULT;", of a val that is 0.
        let number = value.get(..4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_ne_bytes);
        let known_group = (1..=GROUPS_MAX).contains(&number);
        match name {
            NETLINK_EXT_ACK => self.options.extended = number != 0,
            NETLINK_CAP_ACK => self.options.capped = number != 0,
            NETLINK_GET_STRICT_CHK => self.options.strict = number != 0,
            // netlink_setsockopt: "if (!val || val - 1 >= nlk->ngroups) return -EINVAL;"
            NETLINK_ADD_MEMBERSHIP | NETLINK_DROP_MEMBERSHIP if !known_group => return Err(EINVAL),
            NETLINK_ADD_MEMBERSHIP => drop(self.groups.insert(number)),
            NETLINK_DROP_MEMBERSHIP => drop(self.groups.remove(&number)),
            // There is one namespace, and losses are told.
            NETLINK_PKTINFO | NETLINK_BROADCAST_ERROR | NETLINK_NO_ENOBUFS | NETLINK_LISTEN_ALL_NSID => {}
            _ => return Err(ENOPROTOOPT),
        }
        Ok(())
    }

    /// Is it told of changes?
    pub fn listens(&self) -> bool {
        self.protocol == NETLINK_ROUTE && !self.groups.is_empty()
    }

    /// The packets that answer the requests of one packet. `manages`: the program has CAP_NET_ADMIN.
    pub fn answers(&mut self, packet: &[u8], pid: u32, manages: bool, tables: &mut dyn Tables) -> Vec<Vec<u8>> {
        let port = self.port(pid);
        let mut packets = Vec::new();
        for request in requests(packet) {
            // netlink_rcv_skb: "Only requests are handled by the kernel", "Skip control messages": both are acknowledged on demand.
            let reply = if !request.has(NLM_F_REQUEST) || request.kind < NLMSG_CONTROL_MAX {
                Ok(Reply::Done)
            } else if self.protocol == NETLINK_SOCK_DIAG {
                diag::answer(&request, tables)
            } else {
                answer(&request, &self.options, manages, tables)
            };
            packets.extend(pack(reply, &request, port, &self.options));
        }
        packets
    }

    /// What an alert of a block (`subscribe`) means to this socket: one packet with all the messages that its groups get of it.
    pub fn notification(&self, name: &str, value: &Value, tables: &mut dyn Tables) -> Option<Vec<u8>> {
        if !self.listens() {
            return None;
        }
        let mut packet = Vec::new();
        for (group, message) in notify::messages(name, value, tables) {
            if self.groups.contains(&group) {
                append(&mut packet, message.kind, 0, 0, 0, &message.body);
            }
        }
        Some(packet).filter(|packet| !packet.is_empty())
    }
}

/// RTM_GETNSID: `ip monitor` asks for the number of every namespace that has a name.
const GETNSID: u16 = 90;

/// rtnl_net_fill: NETNSA_NSID_NOT_ASSIGNED, since no other namespace has anything to do with the node.
fn no_number() -> Message {
    let mut message = Message::new(GETNSID - 2, &[0; 4]);
    message.u32(1, u32::MAX);
    message
}

/// rtnetlink_rcv_msg.
fn answer(request: &Request<'_>, options: &Options, manages: bool, tables: &mut dyn Tables) -> Result<Reply, Refusal> {
    // The kind of a message is its number's low two bits: new, delete, get, set. "if (kind != RTNL_KIND_GET && !netlink_net_capable(skb,
    // CAP_NET_ADMIN)) return -EPERM;"
    if request.kind & 3 != 2 && !manages {
        tables.unsupported(format!("rtnetlink message {} without CAP_NET_ADMIN", request.kind), EPERM);
        return Err(Refusal::plain(EPERM));
    }
    let reply = match request.kind {
        16..=19 => link::answer(request, options, tables),
        20..=22 => address::answer(request, options, tables),
        24..=26 => route::answer(request, options, tables),
        28..=30 => neighbour::answer(request, options, tables),
        32..=34 => rule::answer(request, tables),
        36..=38 => qdisc::answer(request, tables),
        // Nothing is below a queue: there is nothing to list.
        42 | 46 | 102 if request.is_dump() => Ok(Reply::Dump(Vec::new(), false)),
        40..=42 => Err(Refusal::lacking("has queues without classes: each interface has one, at its root")),
        44..=46 | 100..=102 => Err(Refusal::lacking("has no filters of queues: see the blocks `filter` and `classify`")),
        GETNSID => Ok(Reply::One(no_number())),
        kind => Err(Refusal::lacking(&format!("knows no rtnetlink message {kind}"))),
    };
    if let Err(Refusal { errno: errno @ crate::errno::EOPNOTSUPP, text: Some(text) }) = &reply {
        tables.unsupported(format!("rtnetlink message {}: {text}", request.kind), *errno);
    }
    reply
}
