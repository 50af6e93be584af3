//! NETLINK_SOCK_DIAG: the dump of INET sockets that `ss` asks for (sock_diag(7)), from the table of sockets.
//!
//! What it tells besides ends and queues is what `ss -i`, `-m`, `-o` and `--tos` ask for: tcp_info, the congestion control and its own figures, memory,
//! the timer, type of service. Of `ss -e` there is no cgroup, and inode and cookie are one number.
//!
//! Sockets of other families (AF_UNIX, AF_PACKET, AF_NETLINK) are the host's, not the node's: ENOENT, which the kernel says where it has no
//! handler for a family.

use crate::Tables;
use crate::errno::{EINVAL, ENOENT, EOPNOTSUPP, Refusal};
use crate::message::{INET, INET6, Message};
use crate::packet::{Reply, Request};
use serde_json::Value;
use std::net::{IpAddr, SocketAddr};
use weft_core::table::{Answer, FlowTimer, Query, Table};
use weft_core::tcp_info::{self, TCP_INFO_BYTES};
use weft_core::{FlowId, StreamInfo};

/// SOCK_DIAG_BY_FAMILY, request and answer.
pub(crate) const BY_FAMILY: u16 = 20;
/// Bytes of `struct inet_diag_req_v2`.
const REQUEST_BYTES: usize = 56;
/// INET_DIAG_*.
const MEMINFO: u16 = 1;
const INFO: u16 = 2;
const VEGASINFO: u16 = 3;
const CONG: u16 = 4;
const TOS: u16 = 5;
const TCLASS: u16 = 6;
const SKMEMINFO: u16 = 7;
const SHUTDOWN: u16 = 8;
const DCTCPINFO: u16 = 9;
const SKV6ONLY: u16 = 11;
const MARK: u16 = 15;
const BBRINFO: u16 = 16;
const CLASS_ID: u16 = 17;
/// TCP_TIME_WAIT.
pub const TIME_WAIT: u8 = 6;
const CLOSE: u8 = 7;
const LISTEN: u8 = 10;
const IPPROTO_ICMP: u8 = 1;
const IPPROTO_TCP: u8 = 6;
const IPPROTO_UDP: u8 = 17;
const IPPROTO_UDPLITE: u8 = 136;
const IPPROTO_RAW: u8 = 255;

/// Answers a request.
pub(crate) fn answer(request: &Request<'_>, tables: &mut dyn Tables) -> Result<Reply, Refusal> {
    let [family, protocol, extensions, _, states @ ..] = request.body else { return Err(Refusal::plain(EINVAL)) };
    let states = states.get(..4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_ne_bytes);
    let inet = [INET, INET6].contains(family);
    if request.kind != BY_FAMILY || !inet || !request.is_dump() {
        let errno = if request.kind == BY_FAMILY && !inet { ENOENT } else { EOPNOTSUPP };
        tables.unsupported(format!("sock_diag message {}, family {family}", request.kind), errno);
        return Err(Refusal::plain(errno));
    }
    if request.body.len() < REQUEST_BYTES {
        return Err(Refusal::plain(EINVAL));
    }
    let rows = match tables.ask(Table::Sockets, &Query::SocketDetails) {
        Answer::List(rows) => rows,
        _ => Vec::new(),
    };
    let mut messages = Vec::new();
    for row in &rows {
        let Some(mut socket) = Socket::read(row).filter(|socket| socket.family == *family && socket.protocol == *protocol) else {
            continue;
        };
        let flow = row.get("flow").and_then(Value::as_u64).map(FlowId);
        let info = flow.and_then(|flow| match tables.ask(Table::Flows, &Query::FlowInfo(flow)) {
            Answer::FlowInfo(info) => Some(info),
            _ => None,
        });
        if let Some(info) = info.as_ref().filter(|info| info.state != LISTEN) {
            socket.state = info.state;
            socket.queues[1] = info.send_queue_bytes;
        }
        if states & 1 << socket.state != 0 {
            let timer = flow.map_or(FlowTimer::default(), |flow| match tables.ask(Table::Flows, &Query::FlowTimer(flow)) {
                Answer::FlowTimer(timer) => timer,
                _ => FlowTimer::default(),
            });
            let asked = |attribute: u16| attribute <= 8 && extensions & 1 << (attribute - 1) != 0;
            let details = row.get("details").unwrap_or(&Value::Null);
            let mut message = Message::new(BY_FAMILY, &socket.encode(timer, figure(details, "interface"), figure(details, "uid")));
            if socket.state != TIME_WAIT {
                socket.attributes(&mut message, details, info.as_deref(), asked);
            }
            messages.push(message);
        }
    }
    Ok(Reply::Dump(messages, false))
}

/// A number of a row; 0: it has none.
fn figure(row: &Value, field: &str) -> u32 {
    row.get(field).and_then(Value::as_i64).map_or(0, |number| u32::try_from(number).unwrap_or(if number < 0 { 0 } else { u32::MAX }))
}

/// What `struct inet_diag_msg` says of a socket.
pub struct Socket {
    /// AF_INET or AF_INET6.
    pub family: u8,
    /// IPPROTO_*.
    pub protocol: u8,
    /// TCP_ESTABLISHED and so on; UDP's are 1 (connected) and 7.
    pub state: u8,
    /// Its own end.
    pub local: SocketAddr,
    /// The other end; none: unconnected.
    pub peer: Option<SocketAddr>,
    /// Bytes to receive and to send.
    pub queues: [u32; 2],
    /// Inode number.
    pub inode: u32,
}

impl Socket {
    /// From a row of the table.
    pub fn read(row: &Value) -> Option<Socket> {
        let text = |field: &str| row.get(field)?.as_str();
        let number = |field: &str| row.get(field).and_then(Value::as_u64).map_or(0, |number| u32::try_from(number).unwrap_or(u32::MAX));
        let protocol = match text("proto")? {
            "tcp" => IPPROTO_TCP,
            "udp" => IPPROTO_UDP,
            "udplite" => IPPROTO_UDPLITE,
            "raw" => IPPROTO_RAW,
            "icmp" => IPPROTO_ICMP,
            _ => return None,
        };
        let local = endpoint(text("local")?)?;
        Some(Socket {
            family: if local.is_ipv6() { INET6 } else { INET },
            protocol,
            state: state(text("state")?)?,
            local,
            peer: text("peer").and_then(endpoint),
            queues: [number("recv_q"), number("send_q")],
            inode: number("inode"),
        })
    }

    /// `struct inet_diag_msg`: four bytes, `struct inet_diag_sockid` (ports big endian), five words.
    fn encode(&self, timer: FlowTimer, interface: u32, uid: u32) -> Vec<u8> {
        let mut bytes = vec![self.family, self.state, timer.kind, timer.retransmits];
        bytes.extend(self.local.port().to_be_bytes());
        bytes.extend(self.peer.map_or(0, |peer| peer.port()).to_be_bytes());
        bytes.extend(address(Some(self.local.ip())));
        bytes.extend(address(self.peer.map(|peer| peer.ip())));
        let cookie = self.inode;
        for word in [interface, cookie, 0, timer.expires_ms, self.queues[0], self.queues[1], uid, self.inode] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes
    }

    /// inet_diag_msg_attrs_fill, inet_sk_diag_fill.
    fn attributes(&self, message: &mut Message, details: &Value, info: Option<&StreamInfo>, asked: impl Fn(u16) -> bool) {
        let figure = |field: &str| figure(details, field);
        message.u8(SHUTDOWN, figure("shutdown") as u8);
        if asked(TOS) {
            message.u8(TOS, figure("tos") as u8);
        }
        if self.family == INET6 {
            if asked(TCLASS) {
                message.u8(TCLASS, figure("tclass") as u8);
            }
            if [LISTEN, CLOSE].contains(&self.state) {
                message.u8(SKV6ONLY, details.get("v6_only").and_then(Value::as_bool).unwrap_or(false).into());
            }
        }
        message.u32(MARK, figure("mark"));
        // "Fallback to socket priority if class id isn't set."
        if asked(TCLASS) {
            message.u32(CLASS_ID, figure("priority"));
        }
        let received = figure("received_bytes").max(if self.protocol == IPPROTO_TCP && self.state != LISTEN { self.queues[0] } else { 0 });
        let sending = if self.state == LISTEN { 0 } else { self.queues[1] };
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
        if asked(MEMINFO) {
            // rmem, wmem, fmem, tmem
            message.bytes(MEMINFO, &words(&[received, sending, 0, 0]));
        }
        if asked(SKMEMINFO) {
            // SK_MEMINFO_*: rmem_alloc, rcvbuf, wmem_alloc, sndbuf, fwd_alloc, wmem_queued, optmem, backlog, drops
            let (receive, send, dropped) = (figure("receive_buffer"), figure("send_buffer"), figure("dropped"));
            // What TCP tuned: "tcp_rcvbuf_grow: … WRITE_ONCE(sk->sk_rcvbuf, rcvbuf);"
            let receive = receive.max(info.map_or(0, |info| info.receive_buffer_bytes));
            let queued = if self.protocol == IPPROTO_TCP { sending } else { 0 };
            message.bytes(SKMEMINFO, &words(&[received, receive, sending - queued, send, 0, queued, 0, 0, dropped]));
        }
        let Some(info) = info else { return };
        if asked(INFO) {
            message.bytes(INFO, &tcp_info::to_bytes(info, TCP_INFO_BYTES));
        }
        if asked(CONG) {
            message.text(CONG, &info.congestion);
        }
        let kind = match info.congestion.as_str() {
            "bbr" => BBRINFO,
            "dctcp" => DCTCPINFO,
            _ => VEGASINFO,
        };
        if asked(VEGASINFO) && !info.cc_info.is_empty() && self.state != LISTEN {
            message.bytes(kind, &words(&info.cc_info));
        }
    }
}

/// `__be32[4]`.
fn address(address: Option<IpAddr>) -> [u8; 16] {
    let mut bytes = [0; 16];
    match address {
        Some(IpAddr::V4(address)) => bytes[..4].copy_from_slice(&address.octets()),
        Some(IpAddr::V6(address)) => bytes = address.octets(),
        None => {}
    }
    bytes
}

/// `10.0.0.1:80`, `[::]:*`; an interface name after % is left out.
fn endpoint(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.rsplit_once(':')?;
    let ip = ip.trim_start_matches('[').trim_end_matches(']');
    let ip = match ip.split('%').next()? {
        "*" => "0.0.0.0",
        ip => ip,
    };
    Some(SocketAddr::new(ip.parse().ok()?, if port == "*" { 0 } else { port.parse().ok()? }))
}

/// net/tcp_states.h, by the names that `ss` gives them.
fn state(name: &str) -> Option<u8> {
    const NAMES: [(&str, u8); 15] = [
        ("ESTAB", 1),
        ("ESTABLISHED", 1),
        ("SYN-SENT", 2),
        ("SYN-RECV", 3),
        ("SYN-RECEIVED", 3),
        // The transport knows which.
        ("FIN-WAIT", 5),
        ("FIN-WAIT-1", 4),
        ("FIN-WAIT-2", 5),
        ("TIME-WAIT", 6),
        ("UNCONN", 7),
        ("CLOSED", 7),
        ("CLOSE-WAIT", 8),
        ("LAST-ACK", 9),
        ("LISTEN", 10),
        ("CLOSING", 11),
    ];
    NAMES.iter().find(|(one, _)| *one == name).map(|(_, number)| *number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_what_ss_reads() {
        let row = serde_json::json!({"proto": "tcp", "state": "LISTEN", "recv_q": 1, "send_q": 128, "local": "[fd77::2]:8080", "peer": "[::]:*", "inode": 77});
        let bytes = Socket::read(&row).unwrap().encode(FlowTimer::default(), 0, 0);
        assert_eq!(bytes.len(), 72, "sizeof(struct inet_diag_msg)");
        assert_eq!(bytes[..8], [10, 10, 0, 0, 0x1f, 0x90, 0, 0]);
        assert_eq!(bytes[8..10], [0xfd, 0x77]);
        assert_eq!(bytes[56..64], [1_u32.to_ne_bytes(), 128_u32.to_ne_bytes()].concat());
        assert_eq!(bytes[68..], 77_u32.to_ne_bytes());
        let row = serde_json::json!({"proto": "udp", "state": "ESTAB", "local": "10.0.0.1:5", "peer": "10.0.0.2:6"});
        let bytes = Socket::read(&row).unwrap().encode(FlowTimer::default(), 0, 0);
        assert_eq!((bytes[0], bytes[1], &bytes[8..12], &bytes[24..28]), (2, 1, [10, 0, 0, 1].as_slice(), [10, 0, 0, 2].as_slice()));
        assert!(Socket::read(&serde_json::json!({"proto": "tcp", "state": "?", "local": "x"})).is_none());
    }

    #[test]
    fn a_receive_buffer_that_grew_is_shown() {
        let row =
            serde_json::json!({"proto": "tcp", "state": "ESTAB", "recv_q": 0, "send_q": 0, "local": "10.0.0.1:5", "peer": "10.0.0.2:6"});
        let details = serde_json::json!({"receive_buffer": 131_072, "send_buffer": 87_040});
        let info = StreamInfo { receive_buffer_bytes: 6 << 20, ..StreamInfo::default() };
        let shown = |info: Option<&StreamInfo>, rcvbuf: u32| {
            let mut message = Message::new(BY_FAMILY, &[]);
            Socket::read(&row).unwrap().attributes(&mut message, &details, info, |attribute| attribute == SKMEMINFO);
            let words: Vec<u8> = [0, rcvbuf, 0, 87_040].iter().flat_map(|word: &u32| word.to_ne_bytes()).collect();
            message.body.windows(words.len()).any(|at| at == words)
        };
        assert!(shown(Some(&info), 6 << 20) && shown(None, 131_072));
    }

    #[test]
    fn endpoints_are_read_in_every_form() {
        for (text, ip, port) in
            [("*:*", "0.0.0.0", 0), ("0.0.0.0:22", "0.0.0.0", 22), ("[::1]:5", "::1", 5), ("[fe80::1%weft0]:*", "fe80::1", 0)]
        {
            assert_eq!(endpoint(text), Some(SocketAddr::new(ip.parse().unwrap(), port)), "{text}");
        }
        assert_eq!(endpoint("nonsense"), None);
    }
}
