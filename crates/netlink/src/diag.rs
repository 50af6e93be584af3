//! NETLINK_SOCK_DIAG: the dump of INET sockets that `ss` asks for (sock_diag(7)), from the table of sockets.
//!
//! What it tells besides ends and queues is what `ss -i`, `-m`, `-o` and `--tos` ask for: tcp_info, the congestion control and its own figures, memory,
//! the timer, type of service. Of `ss -e` there is no cgroup, and inode and cookie are one number.
//!
//! Sockets of other families (AF_UNIX, AF_PACKET, AF_NETLINK) are the host's, not the node's: ENOENT, which the kernel says where it has no
//! handler for a family.

use crate::Tables;
use crate::errno::{EINVAL, ENOENT, EOPNOTSUPP, Refusal};
use crate::message::{Attributes, INET, INET6, Message, put};
use crate::packet::{Reply, Request};
use serde_json::Value;
use std::net::{IpAddr, SocketAddr};
use weft_core::table::{Answer, FlowTimer, Query, Table};
use weft_core::tcp_info::{self, TCP_INFO_BYTES};
use weft_core::{FlowId, MultipathInfo, StreamInfo, SubflowInfo};

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
const ULP_INFO: u16 = 19;
/// INET_DIAG_REQ_PROTOCOL.
const REQUEST_PROTOCOL: u16 = 3;
/// INET_ULP_INFO_NAME and INET_ULP_INFO_MPTCP.
const ULP_NAME: u16 = 1;
const ULP_MPTCP: u16 = 3;
/// TCP_TIME_WAIT.
pub const TIME_WAIT: u8 = 6;
const CLOSE: u8 = 7;
const LISTEN: u8 = 10;
const IPPROTO_ICMP: u8 = 1;
const IPPROTO_TCP: u8 = 6;
const IPPROTO_UDP: u8 = 17;
const IPPROTO_UDPLITE: u8 = 136;
const IPPROTO_RAW: u8 = 255;
const IPPROTO_MPTCP: u32 = 262;

/// One that is told: a row of the table of sockets, or a subflow of its connection.
struct Shown<'a> {
    socket: Socket,
    flow: Option<FlowId>,
    row: &'a Value,
    /// The connection over several flows that it is, or that it belongs to.
    connection: Option<&'a MultipathInfo>,
    /// It is asked for as one, and not as TCP's.
    multipath: bool,
    /// Which subflow of that one it is.
    subflow: Option<&'a SubflowInfo>,
}

/// Answers a request. `manages`: the program has CAP_NET_ADMIN.
pub(crate) fn answer(request: &Request<'_>, manages: bool, tables: &mut dyn Tables) -> Result<Reply, Refusal> {
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
    // "if (nlh … INET_DIAG_REQ_PROTOCOL) protocol = nla_get_u32(…)": the byte has no room for IPPROTO_MPTCP.
    let protocol = Attributes::of(request.body, REQUEST_BYTES).u32(REQUEST_PROTOCOL).unwrap_or(u32::from(*protocol));
    let rows = match tables.ask(Table::Sockets, &Query::SocketDetails) {
        Answer::List(rows) => rows,
        _ => Vec::new(),
    };
    let mut messages = Vec::new();
    for row in &rows {
        let connection = flow_of(row).and_then(|flow| match tables.ask(Table::Multipath, &Query::Connection(flow)) {
            Answer::Connection(info) => Some(info),
            _ => None,
        });
        for mut shown in shown(row, connection.as_deref(), protocol) {
            if shown.socket.family == *family {
                messages.extend(shown.message(*extensions, states, manages, tables));
            }
        }
    }
    Ok(Reply::Dump(messages, false))
}

fn flow_of(row: &Value) -> Option<FlowId> {
    row.get("flow").and_then(Value::as_u64).map(FlowId)
}

/// What a row of the table of sockets has to tell of a protocol: it, or the subflows of its connection.
fn shown<'a>(row: &'a Value, connection: Option<&'a MultipathInfo>, protocol: u32) -> Vec<Shown<'a>> {
    let Some(socket) = Socket::read(row) else { return Vec::new() };
    let itself =
        |socket: Socket| Shown { socket, flow: flow_of(row), row, connection, multipath: protocol == IPPROTO_MPTCP, subflow: None };
    match connection {
        // mptcp_diag_dump goes through the tokens: one that is over and that no program has is not there any more.
        Some(info) if protocol == IPPROTO_MPTCP && (info.state != CLOSE || socket.inode != 0) => vec![itself(socket)],
        Some(info) if protocol == u32::from(IPPROTO_TCP) && !info.listens => {
            let subflows = socket.subflows(info);
            subflows
                .into_iter()
                .map(|(socket, subflow)| Shown { flow: Some(FlowId(subflow.flow)), subflow: Some(subflow), ..itself(socket) })
                .collect()
        }
        _ if u32::from(socket.protocol) == protocol => vec![itself(socket)],
        _ => Vec::new(),
    }
}

impl Shown<'_> {
    /// inet_sk_diag_fill; None: it is in none of the states that were asked for.
    fn message(&mut self, extensions: u8, states: u32, manages: bool, tables: &mut dyn Tables) -> Option<Message> {
        let socket = &mut self.socket;
        let mut info = self.flow.and_then(|flow| match tables.ask(Table::Flows, &Query::FlowInfo(flow)) {
            Answer::FlowInfo(info) => Some(info),
            _ => None,
        });
        let whole = self.connection.filter(|connection| self.multipath && !connection.listens);
        if let Some(connection) = whole {
            // mptcp_diag_get_info: "r->idiag_wqueue = sk_wmem_alloc_get(sk);", which data that waits for subflows does not count in.
            socket.queues[1] = 0;
            socket.state = connection.state;
        } else if let Some(info) = info.as_ref().filter(|info| info.state != LISTEN) {
            socket.state = info.state;
            socket.queues[1] = info.send_queue_bytes;
        }
        if states & 1 << socket.state == 0 {
            return None;
        }
        let timer = self.flow.filter(|_| whole.is_none()).map_or(FlowTimer::default(), |flow| {
            match tables.ask(Table::Flows, &Query::FlowTimer(flow)) {
                Answer::FlowTimer(timer) => timer,
                _ => FlowTimer::default(),
            }
        });
        let asked = |attribute: u16| attribute <= 8 && extensions & 1 << (attribute - 1) != 0;
        let details = self.row.get("details").unwrap_or(&Value::Null);
        // inet_twsk_diag_fill: "r->idiag_uid = 0;"
        let uid = if socket.state == TIME_WAIT { 0 } else { figure(details, "uid") };
        let mut message = Message::new(BY_FAMILY, &socket.encode(timer, figure(details, "interface"), uid));
        if socket.state == TIME_WAIT {
            return Some(message);
        }
        if self.multipath {
            info = None;
        }
        socket.attributes(&mut message, details, info.as_deref(), asked);
        if asked(INFO) {
            match (self.multipath, self.connection) {
                (true, Some(connection)) => message.bytes(INFO, &connection.to_bytes(last_ms(connection, tables))),
                (false, Some(connection)) if manages => message.bytes(ULP_INFO, &ulp_info(connection, self.subflow)),
                _ => {}
            }
        }
        Some(message)
    }
}

/// How long ago data was sent, data came, and an acknowledgment came, on any subflow.
fn last_ms(connection: &MultipathInfo, tables: &mut dyn Tables) -> [u32; 3] {
    let mut last = [u32::MAX; 3];
    for subflow in &connection.subflows {
        if let Answer::FlowInfo(info) = tables.ask(Table::Flows, &Query::FlowInfo(FlowId(subflow.flow))) {
            let of = [info.last_data_sent_ms, info.last_data_recv_ms, info.last_ack_recv_ms];
            last = [0, 1, 2].map(|at| last[at].min(of[at]));
        }
    }
    last.map(|ms| if ms == u32::MAX { 0 } else { ms })
}

/// tcp_diag_put_ulp, and subflow_get_info behind it: without what the extension inside tcp alone knows of its latest mapping.
fn ulp_info(connection: &MultipathInfo, subflow: Option<&SubflowInfo>) -> Vec<u8> {
    const TOKEN_REMOTE: u16 = 1;
    const TOKEN_LOCAL: u16 = 2;
    const FLAGS: u16 = 8;
    const ID_REMOTE: u16 = 9;
    const ID_LOCAL: u16 = 10;
    let mut out = Vec::new();
    put(&mut out, ULP_NAME, b"mptcp\0");
    if let Some(subflow) = subflow {
        let joined_here = subflow.joined && subflow.opened;
        // MPTCP_SUBFLOW_FLAG_*, in their order.
        let flags = [
            !subflow.joined && connection.remote_key_known,
            !subflow.joined && subflow.opened,
            subflow.joined,
            joined_here,
            subflow.backup_by_peer,
            subflow.backup,
            subflow.confirmed,
            subflow.up,
        ];
        let flags = flags.iter().enumerate().filter(|(_, set)| **set).fold(0_u32, |bits, (bit, _)| bits | 1 << bit);
        let mut inside = Vec::new();
        put(&mut inside, TOKEN_REMOTE, &(if joined_here { connection.remote_token } else { 0 }).to_ne_bytes());
        put(&mut inside, TOKEN_LOCAL, &connection.token.to_ne_bytes());
        put(&mut inside, FLAGS, &flags.to_ne_bytes());
        put(&mut inside, ID_REMOTE, &[subflow.remote_id]);
        put(&mut inside, ID_LOCAL, &[subflow.local_id]);
        put(&mut out, ULP_MPTCP, &inside);
    }
    out
}

/// A number of a row; 0: it has none.
fn figure(row: &Value, field: &str) -> u32 {
    row.get(field).and_then(Value::as_i64).map_or(0, |number| u32::try_from(number).unwrap_or(if number < 0 { 0 } else { u32::MAX }))
}

/// What `struct inet_diag_msg` says of a socket.
#[derive(Clone, Copy, Debug)]
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

    /// Its connection's subflows as sockets of their own, which have its inode (mptcp_sock_graft) until they end.
    pub fn subflows<'a>(&self, connection: &'a MultipathInfo) -> Vec<(Socket, &'a SubflowInfo)> {
        let subflow = |subflow: &'a SubflowInfo| {
            // The first has the connection's addresses, and so its family.
            let ends = if subflow.joined { (subflow.local, Some(subflow.remote)) } else { (self.local, self.peer) };
            let family = if ends.0.is_ipv6() { INET6 } else { INET };
            // What has come on it is the connection's already.
            let queues = [0, 0];
            let inode = if subflow.waits || !subflow.listed { 0 } else { self.inode };
            let state = if subflow.waits { TIME_WAIT } else { self.state };
            (Socket { family, protocol: IPPROTO_TCP, state, local: ends.0, peer: ends.1, queues, inode }, subflow)
        };
        connection.subflows.iter().filter(|subflow| !subflow.gone).map(subflow).collect()
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
            // What TCP tuned: tcp_rcvbuf_grow has "WRITE_ONCE(sk->sk_rcvbuf, rcvbuf);", tcp_sndbuf_expand "WRITE_ONCE(sk->sk_sndbuf, min(sndmem, …));"
            let receive = receive.max(info.map_or(0, |info| info.receive_buffer_bytes));
            let send = send.max(info.map_or(0, |info| info.send_buffer_bytes));
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
    fn buffers_that_grew_are_shown() {
        let row =
            serde_json::json!({"proto": "tcp", "state": "ESTAB", "recv_q": 0, "send_q": 0, "local": "10.0.0.1:5", "peer": "10.0.0.2:6"});
        let details = serde_json::json!({"receive_buffer": 131_072, "send_buffer": 87_040});
        let info = StreamInfo { receive_buffer_bytes: 6 << 20, send_buffer_bytes: 4 << 20, ..StreamInfo::default() };
        let shown = |info: Option<&StreamInfo>, rcvbuf: u32, sndbuf: u32| {
            let mut message = Message::new(BY_FAMILY, &[]);
            Socket::read(&row).unwrap().attributes(&mut message, &details, info, |attribute| attribute == SKMEMINFO);
            let words: Vec<u8> = [0, rcvbuf, 0, sndbuf].iter().flat_map(|word: &u32| word.to_ne_bytes()).collect();
            message.body.windows(words.len()).any(|at| at == words)
        };
        assert!(shown(Some(&info), 6 << 20, 4 << 20) && shown(None, 131_072, 87_040));
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
