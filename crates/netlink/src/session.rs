//! A netlink socket: what a program has set of it, and who answers what it sends.

use crate::errno::{EBUSY, EINVAL, EPERM, Refusal};
use crate::message::{Message, word};
use crate::packet::{NLM_F_REQUEST, NLMSG_CONTROL_MAX, Options, Reply, Request, append, pack, requests};
use crate::ports::Ports;
use crate::sender::{AF_NETLINK, KERNEL_NAME, Sender, named};
use crate::{Tables, address, diag, generic, link, neighbour, notify, qdisc, route, rule};
use std::collections::{BTreeSet, VecDeque};
use weft_core::control::Value;

/// Protocol of rtnetlink.
pub const NETLINK_ROUTE: i32 = 0;
/// Protocol of sock_diag.
pub const NETLINK_SOCK_DIAG: i32 = 4;
/// Protocol of generic netlink.
pub const NETLINK_GENERIC: i32 = 16;
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
const NETLINK_LIST_MEMBERSHIPS: i32 = 9;
const NETLINK_CAP_ACK: i32 = 10;
const NETLINK_EXT_ACK: i32 = 11;
const NETLINK_GET_STRICT_CHK: i32 = 12;
const ESOCKTNOSUPPORT: i32 = 94;
const EPROTONOSUPPORT: i32 = 93;
const ENOPROTOOPT: i32 = 92;
const EADDRINUSE: i32 = 98;
const EOPNOTSUPP: i32 = 95;
const ENODATA: i32 = 61;
const ECONNREFUSED: i32 = 111;
const MSG_OOB: i32 = 1;
/// RTNLGRP_MAX of Linux 6.18; sock_diag has as many as a table has at least.
const GROUPS_MAX: u32 = 39;
const GROUPS_MAX_DIAG: u32 = 32;

/// Where [`kept`] has NETLINK_PKTINFO.
const PKTINFO_AT: usize = 0;

/// A netlink socket's own state.
#[derive(Debug)]
pub struct Session {
    /// SOCK_RAW or SOCK_DGRAM, as asked for.
    kind: i32,
    protocol: i32,
    /// nl_pid: 0 until bound, by the program or by use; and what a bind that failed has left.
    port: u32,
    bound: bool,
    ports: Ports,
    /// Where it is connected to: nl_pid and a group. None: nowhere (NETLINK_UNCONNECTED).
    peer: Option<(u32, u32)>,
    /// Has it ever had groups? Before, it lists none.
    had_groups: bool,
    /// Numbers of multicast groups (RTNLGRP_*), from 1.
    groups: BTreeSet<u32>,
    options: Options,
    /// What has not come yet of the dump that is under way (`cb_running`).
    running: VecDeque<Vec<u8>>,
}

impl Session {
    /// A fresh one among the others of a node.
    ///
    /// # Errors
    /// ESOCKTNOSUPPORT; EPROTONOSUPPORT for what is none of NETLINK_ROUTE, NETLINK_SOCK_DIAG and NETLINK_GENERIC.
    pub fn among(kind: i32, protocol: i32, ports: &Ports) -> Result<Session, i32> {
        // netlink_create: "if (sock->type != SOCK_RAW && sock->type != SOCK_DGRAM) return -ESOCKTNOSUPPORT;"
        if kind != SOCK_RAW && kind != SOCK_DGRAM {
            return Err(ESOCKTNOSUPPORT);
        }
        if ![NETLINK_ROUTE, NETLINK_SOCK_DIAG, NETLINK_GENERIC].contains(&protocol) {
            return Err(EPROTONOSUPPORT);
        }
        Ok(Session {
            kind,
            protocol,
            port: 0,
            bound: false,
            ports: ports.clone(),
            peer: None,
            had_groups: false,
            groups: BTreeSet::new(),
            options: Options::default(),
            running: VecDeque::new(),
        })
    }

    /// bind(2), of this process.
    ///
    /// # Errors
    /// EINVAL for what is no `sockaddr_nl`, and for another number than it has; EADDRINUSE.
    pub fn bind(&mut self, address: &[u8], pid: u32) -> Result<(), i32> {
        let (port, groups) = parts(address)?;
        // netlink_bind: "if (bound) { if (nladdr->nl_pid != nlk->portid) return -EINVAL; }"
        if self.bound && port != self.port {
            return Err(EINVAL);
        }
        if port == 0 {
            self.port(pid);
        } else if !self.bound {
            // netlink_insert: "nlk_sk(sk)->portid = portid;" stands before "err = __netlink_insert(table, sk);", and stays.
            self.port = port;
            self.bound = self.ports.take(self.protocol, port);
            if !self.bound {
                return Err(EADDRINUSE);
            }
        }
        self.had_groups |= groups != 0;
        self.groups.retain(|group| *group > 32);
        self.groups.extend((1..=32).filter(|group| groups & 1 << (group - 1) != 0));
        Ok(())
    }

    /// netlink_autobind: the process's number is the first choice.
    fn port(&mut self, pid: u32) -> u32 {
        if !self.bound {
            self.port = self.ports.take_any(self.protocol, pid);
            self.bound = true;
        }
        self.port
    }

    /// connect(2), of this process: where requests without an address go.
    ///
    /// # Errors
    /// EINVAL for what is no `sockaddr_nl`. `manages`: or else EPERM for anybody but the kernel.
    pub fn connect(&mut self, address: &[u8], pid: u32, manages: bool) -> Result<(), i32> {
        // netlink_connect: "if (addr->sa_family == AF_UNSPEC) { … nlk->dst_portid = 0; nlk->dst_group = 0; return 0; }"
        if address.len() >= 2 && address[..2] == [0, 0] {
            self.peer = None;
            return Ok(());
        }
        let (port, groups) = parts(address)?;
        may_send_to(port, groups, manages)?;
        self.port(pid);
        // "nlk->dst_group = ffs(nladdr->nl_groups);"
        self.peer = Some((port, groups & groups.wrapping_neg()));
        Ok(())
    }

    /// getsockname(2).
    pub fn name(&self) -> Vec<u8> {
        let bits = self.groups.iter().filter(|group| **group <= 32).fold(0_u32, |bits, group| bits | 1 << (group - 1));
        named(self.port, bits)
    }

    /// getpeername(2).
    pub fn peer_name(&self) -> Vec<u8> {
        let (port, groups) = self.peer.unwrap_or_default();
        named(port, groups)
    }

    /// nl_pid; 0: it has none yet.
    pub fn number(&self) -> u32 {
        self.port
    }

    /// Has it a number that nobody else has?
    pub fn is_bound(&self) -> bool {
        self.bound
    }

    /// Whom a send of so many bytes is for: another socket of this number, or (0) the kernel; and before that the members of this group (0: none).
    ///
    /// # Errors
    /// EOPNOTSUPP of MSG_OOB; ENODATA of nothing; EINVAL of what is no `sockaddr_nl`. `manages`: or else EPERM for anybody but the kernel.
    pub fn destination(&mut self, name: Option<&[u8]>, flags: i32, bytes: u64, pid: u32, manages: bool) -> Result<(u32, u32), i32> {
        // netlink_sendmsg: "if (msg->msg_flags & MSG_OOB) return -EOPNOTSUPP; if (len == 0) { …; return -ENODATA; }"
        if flags & MSG_OOB != 0 {
            return Err(EOPNOTSUPP);
        }
        if bytes == 0 {
            return Err(ENODATA);
        }
        // "if (msg->msg_namelen) { … } else { dst_portid = READ_ONCE(nlk->dst_portid); …": a pointer to a name without length is none.
        let (to, groups) = match name.filter(|name| !name.is_empty()) {
            Some(name) => {
                let (to, groups) = parts(name)?;
                may_send_to(to, groups, manages)?;
                (to, groups)
            }
            None => self.peer.unwrap_or_default(),
        };
        self.port(pid);
        // "dst_group = ffs(addr->nl_groups);"
        Ok((to, if groups == 0 { 0 } else { groups.trailing_zeros() + 1 }))
    }

    /// Does it get what is sent to this group of this protocol, by a socket that sends it to that number, too? do_one_broadcast: "if (nlk->portid ==
    /// p->portid || … !test_bit(p->group - 1, nlk->groups)) return;"
    pub fn is_member(&self, protocol: i32, group: u32, to: u32) -> bool {
        self.protocol == protocol && self.port != to && self.groups.contains(&group)
    }

    /// Does it take a packet for this number of this protocol, from that number (0: the kernel)? Who is taken by nobody is told [`Session::NOBODY`].
    pub fn takes(&self, protocol: i32, port: u32, from: u32) -> bool {
        self.bound && (self.protocol, self.port) == (protocol, port) && self.hears(from)
    }

    /// netlink_getsockbyportid: "if (sock->sk_state == NETLINK_CONNECTED && READ_ONCE(nlk->dst_portid) != nlk_sk(ssk)->portid) … -ECONNREFUSED".
    fn hears(&self, from: u32) -> bool {
        self.peer.is_none_or(|(peer, _)| peer == from)
    }

    /// What a send to a number comes to that nobody has, or whose socket is connected to somebody else.
    pub const NOBODY: i32 = ECONNREFUSED;

    /// NETLINK_ROUTE, NETLINK_SOCK_DIAG or NETLINK_GENERIC.
    pub fn protocol(&self) -> i32 {
        self.protocol
    }

    fn groups_max(&self) -> u32 {
        if self.protocol == NETLINK_ROUTE { GROUPS_MAX } else { GROUPS_MAX_DIAG }
    }

    /// NETLINK_LIST_MEMBERSHIPS: a bit for each group there can be, in whole words. Whoever writes it writes the words that fit, and tells the length of
    /// all.
    fn memberships(&self) -> Vec<u8> {
        if !self.had_groups {
            return Vec::new();
        }
        let mut bits = vec![0; self.groups_max().div_ceil(32) as usize * 4];
        for group in &self.groups {
            let at = group - 1;
            if let Some(byte) = bits.get_mut(at as usize / 8) {
                *byte |= 1 << (at % 8);
            }
        }
        bits
    }

    /// getsockopt(2), with the length that the program says, of what a stand-in would answer wrongly. None: it would answer rightly.
    ///
    /// # Errors
    /// EINVAL for too little room; ENOPROTOOPT.
    pub fn option(&self, level: i32, name: i32, length: i32) -> Result<Option<Vec<u8>>, i32> {
        let value = match (level, name) {
            // sk_getsockopt, and netlink_getsockopt behind "if (level != SOL_NETLINK) return -ENOPROTOOPT;": "if (len < 0) return -EINVAL;"
            (SOL_SOCKET | SOL_NETLINK, _) if length < 0 => return Err(EINVAL),
            (SOL_SOCKET, SO_DOMAIN) => i32::from(AF_NETLINK),
            (SOL_SOCKET, SO_TYPE) => self.kind,
            (SOL_SOCKET, SO_PROTOCOL) => self.protocol,
            (SOL_SOCKET, _) => return Ok(None),
            (SOL_NETLINK, NETLINK_LIST_MEMBERSHIPS) => return Ok(Some(self.memberships())),
            (SOL_NETLINK, NETLINK_CAP_ACK) => self.options.capped.into(),
            (SOL_NETLINK, NETLINK_EXT_ACK) => self.options.extended.into(),
            (SOL_NETLINK, NETLINK_GET_STRICT_CHK) => self.options.strict.into(),
            (SOL_NETLINK, name) => match kept(name) {
                Some(at) => self.options.kept[at].into(),
                None => return Err(ENOPROTOOPT),
            },
            _ => return Err(ENOPROTOOPT),
        };
        // "if (len < sizeof(int)) return -EINVAL;"
        if level == SOL_NETLINK && length < 4 { Err(EINVAL) } else { Ok(Some(value.to_ne_bytes().to_vec())) }
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
        let known_group = (1..=self.groups_max()).contains(&number);
        match name {
            NETLINK_EXT_ACK => self.options.extended = number != 0,
            NETLINK_CAP_ACK => self.options.capped = number != 0,
            NETLINK_GET_STRICT_CHK => self.options.strict = number != 0,
            // netlink_setsockopt: "if (!val || val - 1 >= nlk->ngroups) return -EINVAL;"
            NETLINK_ADD_MEMBERSHIP | NETLINK_DROP_MEMBERSHIP if !known_group => return Err(EINVAL),
            NETLINK_ADD_MEMBERSHIP => {
                self.had_groups = true;
                self.groups.insert(number);
            }
            NETLINK_DROP_MEMBERSHIP => {
                self.had_groups = true;
                self.groups.remove(&number);
            }
            _ => self.options.kept[kept(name).ok_or(ENOPROTOOPT)?] = number != 0,
        }
        Ok(())
    }

    /// Is it told of changes?
    pub fn listens(&self) -> bool {
        matches!(self.protocol, NETLINK_ROUTE | NETLINK_GENERIC) && !self.groups.is_empty()
    }

    /// The packets that answer the requests of one packet. `manages`: the program has CAP_NET_ADMIN. Of a dump it is the first one: see
    /// [`Session::next_part`].
    pub fn answers(&mut self, packet: &[u8], pid: u32, manages: bool, tables: &mut dyn Tables) -> Vec<Vec<u8>> {
        let port = self.port(pid);
        let mut packets = Vec::new();
        for request in requests(packet) {
            // netlink_rcv_skb: "Only requests are handled by the kernel", "Skip control messages": both are acknowledged on demand.
            let reply = if !request.has(NLM_F_REQUEST) || request.kind < NLMSG_CONTROL_MAX {
                Ok(Reply::Done)
            } else if self.protocol == NETLINK_SOCK_DIAG {
                diag::answer(&request, manages, tables)
            } else if self.protocol == NETLINK_GENERIC {
                generic::answer(&request, manages, tables)
            } else {
                answer(&request, &self.options, manages, tables)
            };
            // __netlink_dump_start: "if (nlk->cb_running) { ret = -EBUSY; goto error_unlock; }"
            let dumps = matches!(reply, Ok(Reply::Dump(..) | Reply::DumpFailed(_)));
            let (reply, dumps) = if dumps && !self.running.is_empty() { (Err(Refusal::plain(EBUSY)), false) } else { (reply, dumps) };
            // nlmsg_unicast goes by netlink_getsockbyportid, as a program's packet does; netlink_dump does not.
            if !dumps && !self.hears(0) {
                continue;
            }
            let mut answer = pack(reply, &request, port, &self.options).into_iter();
            if dumps {
                packets.extend(answer.next());
                self.running = answer.collect();
            } else {
                packets.extend(answer);
            }
        }
        packets
    }

    /// The next packet of the dump that is under way; None: there is none. It comes when one before it was received or looked at, if what waits then takes no
    /// more than half of SO_RCVBUF (netlink_recvmsg).
    pub fn next_part(&mut self) -> Option<Vec<u8>> {
        self.running.pop_front()
    }

    /// What an alert of a block (`subscribe`) means to this socket: one packet with all the messages that one of its groups gets of it (an alert is for
    /// one), and the group.
    pub fn notification(&self, name: &str, value: &Value, tables: &mut dyn Tables) -> Option<(Sender, Vec<u8>)> {
        if !self.listens() {
            return None;
        }
        let mut packet = Vec::new();
        let mut told = None;
        let messages = match self.protocol {
            NETLINK_GENERIC => generic::event(name, value).into_iter().collect(),
            _ => notify::messages(name, value, tables),
        };
        for (group, message) in messages {
            if self.groups.contains(&group) && *told.get_or_insert(group) == group {
                append(&mut packet, message.kind, 0, 0, 0, &message.body);
            }
        }
        told.map(|group| (Sender::kernel_to(group), packet))
    }

    /// NETLINK_PKTINFO.
    pub fn tells_group(&self) -> bool {
        self.options.kept[PKTINFO_AT]
    }
}

/// Its number is another's from now on.
impl Drop for Session {
    fn drop(&mut self) {
        if self.bound {
            self.ports.release(self.protocol, self.port);
        }
    }
}

/// Which of the options that are kept as they are.
fn kept(name: i32) -> Option<usize> {
    [NETLINK_PKTINFO, NETLINK_BROADCAST_ERROR, NETLINK_NO_ENOBUFS, NETLINK_LISTEN_ALL_NSID].iter().position(|one| *one == name)
}

/// nl_pid and nl_groups of a `struct sockaddr_nl`.
fn parts(address: &[u8]) -> Result<(u32, u32), i32> {
    if address.len() < KERNEL_NAME.len() || address[..2] != [AF_NETLINK, 0] {
        return Err(EINVAL);
    }
    Ok((word(address, 4), word(address, 8)))
}

/// netlink_sendmsg, netlink_connect: "if ((dst_group || dst_portid) && !netlink_allowed(sock, NL_CFG_F_NONROOT_SEND))", -EPERM.
fn may_send_to(port: u32, groups: u32, manages: bool) -> Result<(), i32> {
    if (port != 0 || groups != 0) && !manages { Err(EPERM) } else { Ok(()) }
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
    // "All the messages must have at least 1 byte length": "if (nlmsg_len(nlh) < sizeof(struct rtgenmsg)) return 0;"
    if request.body.is_empty() {
        return Ok(Reply::Done);
    }
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
        GETNSID if request.is_dump() => Ok(Reply::Dump(Vec::new(), false)),
        GETNSID => Ok(Reply::One(no_number())),
        kind => Err(Refusal::lacking(&format!("knows no rtnetlink message {kind}"))),
    };
    if let Err(Refusal { errno: errno @ crate::errno::EOPNOTSUPP, text: Some(text), .. }) = &reply {
        tables.unsupported(format!("rtnetlink message {}: {text}", request.kind), *errno);
    }
    reply
}
