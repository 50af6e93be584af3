//! One socket's fields, with the kernel's names in the comments, and the store of all sockets.

use crate::errno::Errno;
use crate::link_seen::{LinkMembership, LinkSeen, VERSION_WITH_RINGS};
use crate::options::Options;
use crate::packet_ring::Rings;
use crate::packet_rollover::Rollover;
use crate::poll::Poll;
use crate::ports::HoldId;
use crate::times::Times;
use crate::unread::Unread;
use bytes::Bytes;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use weft_core::state::{Damage, Field, Reader, Writer};
use weft_core::table::Family;
use weft_core::{FlowId, Instant, Slab, StreamOptions, Tail};

/// A socket: a slot and how often the slot was used, so that an old id never names a new socket.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SocketId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl SocketId {
    /// As one number, for tables and logs.
    pub const fn number(self) -> u64 {
        (self.generation as u64) << 32 | self.slot as u64
    }

    /// The inverse of [`SocketId::number`]. A number that no socket has names none.
    pub const fn from_number(number: u64) -> SocketId {
        SocketId { slot: number as u32, generation: (number >> 32) as u32 }
    }
}

impl Field for SocketId {
    fn write(&self, out: &mut Writer) {
        out.number(self.number());
    }
    fn read(from: &mut Reader<'_>) -> Result<SocketId, Damage> {
        from.number().map(SocketId::from_number)
    }
}

/// `sk_shutdown`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Shutdown {
    /// RCV_SHUTDOWN.
    pub receive: bool,
    /// SEND_SHUTDOWN.
    pub send: bool,
}
weft_core::fields!(struct Shutdown { receive, send });

impl Shutdown {
    pub const BOTH: Shutdown = Shutdown { receive: true, send: true };
    pub fn is_both(self) -> bool {
        self == Shutdown::BOTH
    }
}

/// `sock->state`, as far as it is not derived from the protocol's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    Unconnected,
    Connecting,
    Connected,
    Disconnecting,
}
weft_core::fields!(
    enum Phase {
        Unconnected = 0,
        Connecting = 1,
        Connected = 2,
        Disconnecting = 3,
    }
);

/// `sk->sk_state`, as far as sockets see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TcpState {
    Close,
    Listen,
    SynSent,
    Established,
    /// FIN_WAIT1 or FIN_WAIT2.
    FinWait,
    CloseWait,
    /// CLOSING or LAST_ACK: both FINs were sent, ours is not acknowledged.
    Closing,
}
weft_core::fields!(
    enum TcpState {
        Close = 0,
        Listen = 1,
        SynSent = 2,
        Established = 3,
        FinWait = 4,
        CloseWait = 5,
        Closing = 6,
    }
);

impl TcpState {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            TcpState::Close => "UNCONN",
            TcpState::Listen => "LISTEN",
            TcpState::SynSent => "SYN-SENT",
            TcpState::Established => "ESTAB",
            TcpState::FinWait => "FIN-WAIT",
            TcpState::CloseWait => "CLOSE-WAIT",
            TcpState::Closing => "CLOSING",
        }
    }
}

/// The urgent byte (`tp->urg_seq`, `tp->urg_data`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Urgent {
    /// Its position in the stream of received bytes.
    pub at: u64,
    pub data: UrgentData,
}
weft_core::fields!(struct Urgent { at, data });

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum UrgentData {
    /// TCP_URG_NOTYET: announced, not here.
    NotYet,
    /// TCP_URG_VALID.
    Valid(u8),
    /// TCP_URG_READ.
    Read,
}

impl Field for UrgentData {
    fn write(&self, out: &mut Writer) {
        match self {
            UrgentData::NotYet => out.byte(0),
            UrgentData::Valid(byte) => out.put(&(1u8, *byte)),
            UrgentData::Read => out.byte(2),
        }
    }
    fn read(from: &mut Reader<'_>) -> Result<UrgentData, Damage> {
        match from.byte()? {
            0 => Ok(UrgentData::NotYet),
            1 => from.take().map(UrgentData::Valid),
            2 => Ok(UrgentData::Read),
            other => Err(Damage::new(format_args!("an urgent byte in state {other}"))),
        }
    }
}

/// What only a stream socket has.
#[derive(Debug)]
pub(crate) struct Stream {
    pub phase: Phase,
    pub state: TcpState,
    pub flow: Option<FlowId>,
    /// SOCK_DONE: the peer's FIN was seen.
    pub done: bool,
    /// Received bytes that nobody has read.
    pub queue: Unread,
    /// The flow that they came by, once it was released: credit for them goes on.
    pub left: Option<FlowId>,
    /// Bytes that ever arrived (`rcv_nxt`).
    pub arrived: u64,
    /// Bytes that were ever taken (`copied_seq`).
    pub copied: u64,
    /// The peer may send no more than a segment behind what arrived: what is there is to be read, however little SO_RCVLOWAT calls it.
    pub window_is_small: bool,
    pub urgent: Option<Urgent>,
    /// Bytes that may be sent down.
    pub credit: usize,
    /// A send found memory short; nothing was acknowledged since.
    pub refused: bool,
    /// The most credit there ever was: the size of the send buffer.
    pub capacity: usize,
    /// So much credit is enough to write (TCP_NOTSENT_LOWAT of the node), as the transport said last.
    pub enough: usize,
    /// Established connections that wait for accept.
    pub accept_queue: VecDeque<SocketId>,
    /// `sk_max_ack_backlog`.
    pub backlog: u32,
    /// The listener in whose accept queue this socket waits.
    pub parent: Option<SocketId>,
    /// What the transport acts on.
    pub transport: Box<StreamOptions>,
    /// An error that did not end the connection (`sk_err_soft`).
    pub soft_error: Option<Errno>,
    /// TCP_SAVED_SYN, until it is read.
    pub saved_syn: Option<Bytes>,
    /// TCP_FASTOPEN_CONNECT.
    pub fast_open_connect: bool,
    /// The SYN waits for the first write (`defer_connect`); there is no flow yet.
    pub deferred: bool,
    /// When what is unread came.
    pub times: Times,
    /// Bytes that the transport was ever given (`write_seq`).
    pub written: u64,
    /// Transmit times and completions (`sk_error_queue`).
    pub errors: VecDeque<QueuedError>,
}
weft_core::fields!(struct Stream {
    phase, state, flow, done, queue, left, arrived, copied, window_is_small, urgent, credit, refused, capacity, enough, accept_queue, backlog, parent, transport, soft_error,
    saved_syn, fast_open_connect, deferred, times, written, errors,
});

impl Stream {
    pub(crate) fn new() -> Stream {
        Stream {
            phase: Phase::Unconnected,
            state: TcpState::Close,
            flow: None,
            done: false,
            queue: Unread::default(),
            left: None,
            arrived: 0,
            copied: 0,
            window_is_small: false,
            urgent: None,
            credit: 0,
            refused: false,
            capacity: 0,
            enough: usize::MAX,
            accept_queue: VecDeque::new(),
            backlog: 0,
            parent: None,
            transport: Box::default(),
            soft_error: None,
            saved_syn: None,
            fast_open_connect: false,
            deferred: false,
            times: Times::default(),
            written: 0,
            errors: VecDeque::new(),
        }
    }
    /// Bytes between what arrived and what was taken.
    pub(crate) fn unread(&self) -> usize {
        usize::try_from(self.arrived - self.copied).unwrap_or(usize::MAX)
    }
}

/// A datagram that waits to be read.
#[derive(Debug, Clone)]
pub(crate) struct Waiting {
    pub data: Tail,
    pub bytes: usize,
    /// What it counts against the receive buffer.
    pub truesize: usize,
    pub from: SocketAddr,
    pub seen: Seen,
    pub received: Instant,
    pub joined: Joined,
    /// How many were lost before it came, if the program wanted to know that then (`sock_skb_set_dropcount`).
    pub dropped: u32,
    /// What a packet socket tells of it.
    pub link: Option<Box<LinkSeen>>,
}

/// Since this version of the block's state messages have what packet sockets tell of them.
pub(crate) const VERSION_WITH_LINKS: u32 = 8;

impl Field for Waiting {
    fn write(&self, out: &mut Writer) {
        let Waiting { data, bytes, truesize, from, seen, received, joined, dropped, link } = self;
        out.put(data);
        out.put(bytes);
        out.put(truesize);
        out.put(from);
        out.put(seen);
        out.put(received);
        out.put(joined);
        out.put(dropped);
        out.put(link);
    }
    fn read(from: &mut Reader<'_>) -> Result<Waiting, Damage> {
        Ok(Waiting {
            data: from.take()?,
            bytes: from.take()?,
            truesize: from.take()?,
            from: from.take()?,
            seen: from.take()?,
            received: from.take()?,
            joined: from.take()?,
            dropped: from.take()?,
            link: if from.version() >= VERSION_WITH_LINKS { from.take()? } else { None },
        })
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

/// An entry of the error queue: an ICMP error, a local one, a transmit time or a completion.
#[derive(Debug, Clone)]
pub(crate) struct QueuedError {
    pub errno: Errno,
    /// `ee_origin`: SO_EE_ORIGIN_*.
    pub origin: u8,
    /// `ee_type` and `ee_code`.
    pub kind: u8,
    pub code: u8,
    /// `ee_info` and `ee_data`.
    pub info: u32,
    pub value: u32,
    /// Who reported it.
    pub offender: Option<IpAddr>,
    /// Where the offending packet was going.
    pub to: Option<SocketAddr>,
    /// Its payload, as far as quoted.
    pub data: Bytes,
    /// The header of the ICMP message, for the control messages that the program asked for.
    pub seen: Option<Seen>,
    /// When it was made.
    pub at: Instant,
    /// Its data are what a stream's transport knew (SOF_TIMESTAMPING_OPT_STATS).
    pub statistics: bool,
}
weft_core::fields!(struct QueuedError { errno, origin, kind, code, info, value, offender, to, data, seen, at, statistics });

/// What control messages tell of a received packet.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub to: IpAddr,
    /// The own address that stands for `to` where that is a group or broadcast (`ipi_spec_dst`).
    pub own: IpAddr,
    /// The third and fourth byte of the transport header, if there are four.
    pub to_port: Option<u16>,
    pub interface: u32,
    pub ttl: u8,
    pub tos: u8,
    /// IPv4 options of the header, if it has any; of IPv6 the number of the first extension header and what follows the fixed header.
    pub headers: Option<Box<[u8]>>,
    /// Traffic class and flow label of an IPv6 header; 0: none.
    pub flow_info: u32,
    /// SO_MARK of who sent it, if that was this node.
    pub mark: u32,
}
weft_core::fields!(struct Seen { to, own, to_port, interface, ttl, tos, headers, flow_info, mark });

/// Most segments of one UDP_SEGMENT send, and most datagrams that are read as one (UDP_MAX_SEGMENTS).
pub(crate) const SEGMENTS_MAX: usize = 128;

/// What of a datagram was joined to it (UDP_GRO).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Joined {
    /// Several datagrams of this size, the last perhaps shorter; 0: one.
    pub each_bytes: u16,
    /// How many they are.
    pub datagrams: u16,
    /// With which vector it came in.
    pub vector: u64,
}
weft_core::fields!(struct Joined { each_bytes, datagrams, vector });

/// A datagram in the making (MSG_MORE, UDP_CORK).
#[derive(Debug)]
pub(crate) struct Corked {
    pub to: SocketAddr,
    pub source: Option<IpAddr>,
    pub data: Vec<u8>,
}
weft_core::fields!(struct Corked { to, source, data });

/// What only a datagram socket has.
#[derive(Debug, Default)]
pub(crate) struct Datagram {
    pub queue: VecDeque<Waiting>,
    /// `sk_rmem_alloc`.
    pub queued_truesize: usize,
    /// `sk_wmem_alloc`: sent and not yet gone.
    pub sending: usize,
    pub errors: VecDeque<QueuedError>,
    pub corked: Option<Corked>,
    /// Datagrams lost to a full receive buffer (SO_RXQ_OVFL).
    pub dropped: u32,
    /// Somebody wants to be woken by each datagram that has left.
    pub tells_room: bool,
}
weft_core::fields!(struct Datagram { queue, queued_truesize, sending, errors, corked, dropped, tells_room });

/// What only a raw socket has (`struct raw_sock`, `struct raw6_sock`).
#[derive(Debug, Default)]
pub(crate) struct Raw {
    pub queue: Datagram,
    /// IP_HDRINCL, IPV6_HDRINCL: the program writes the IP header.
    pub header_included: bool,
    /// IP_NODEFRAG.
    pub no_defragmentation: bool,
    /// ICMP_FILTER (the first word) and ICMP6_FILTER: a bit keeps messages of this type away.
    pub filter: [u32; 8],
    /// IPV6_CHECKSUM: where to put a checksum, from the transport header on.
    pub checksum_at: Option<u32>,
}
weft_core::fields!(struct Raw { queue, header_included, no_defragmentation, filter, checksum_at });

#[derive(Debug)]
pub(crate) enum Body {
    Stream(Stream),
    /// UDP.
    Datagram(Datagram),
    /// SOCK_RAW.
    Raw(Box<Raw>),
    /// SOCK_DGRAM over ICMP.
    Ping(Datagram),
    /// AF_PACKET.
    Packet(Box<Packet>),
}

impl Field for Body {
    fn write(&self, out: &mut Writer) {
        match self {
            Body::Stream(stream) => {
                out.byte(0);
                out.put(stream);
            }
            Body::Datagram(datagram) => {
                out.byte(1);
                out.put(datagram);
            }
            Body::Raw(raw) => {
                out.byte(2);
                out.put(raw);
            }
            Body::Ping(datagram) => {
                out.byte(3);
                out.put(datagram);
            }
            Body::Packet(packet) => {
                out.byte(4);
                out.put(packet);
            }
        }
    }
    fn read(from: &mut Reader<'_>) -> Result<Body, Damage> {
        match from.byte()? {
            0 => from.take().map(Body::Stream),
            1 => from.take().map(Body::Datagram),
            2 => from.take().map(Body::Raw),
            3 => from.take().map(Body::Ping),
            4 => from.take().map(Body::Packet),
            other => Err(Damage::new(format_args!("there is no kind of socket {other}"))),
        }
    }
}

/// One socket.
#[derive(Debug)]
pub(crate) struct Socket {
    pub cookie: u64,
    pub domain: i32,
    /// `sk_uid`.
    pub owner: u32,
    pub kind: i32,
    pub protocol: i32,
    pub options: Options,
    /// `sk_err`.
    pub error: Option<Errno>,
    pub shutdown: Shutdown,
    /// `inet_rcv_saddr` (or `sk_v6_rcv_saddr`) and `inet_sport`; an IPv4 address on an AF_INET6 socket that talks IPv4.
    pub local: SocketAddr,
    /// `inet_daddr` and `inet_dport`; port 0 counts as none.
    pub remote: Option<SocketAddr>,
    /// `inet_num`: the port that is really held.
    pub number: u16,
    pub hold: Option<HoldId>,
    /// SOCK_BINDADDR_LOCK.
    pub address_locked: bool,
    /// SOCK_BINDPORT_LOCK.
    pub port_locked: bool,
    /// In `Sockets::changed` already.
    pub changed: bool,
    /// Who has been woken at it since an adapter asked last: the keys of wake-ups (`key_to_poll`).
    pub wakes: Poll,
    pub body: Body,
}
weft_core::fields!(struct Socket {
    cookie, domain, owner, kind, protocol, options, error, shutdown, local, remote, number, hold, address_locked, port_locked, changed, wakes, body,
});

impl Socket {
    pub(crate) fn stream(&self) -> Option<&Stream> {
        match &self.body {
            Body::Stream(stream) => Some(stream),
            Body::Datagram(_) | Body::Raw(_) | Body::Ping(_) | Body::Packet(_) => None,
        }
    }
    pub(crate) fn stream_mut(&mut self) -> Option<&mut Stream> {
        match &mut self.body {
            Body::Stream(stream) => Some(stream),
            Body::Datagram(_) | Body::Raw(_) | Body::Ping(_) | Body::Packet(_) => None,
        }
    }
    /// The queues of a socket whose messages have boundaries.
    pub(crate) fn datagram(&self) -> Option<&Datagram> {
        match &self.body {
            Body::Datagram(datagram) | Body::Ping(datagram) => Some(datagram),
            Body::Raw(raw) => Some(&raw.queue),
            Body::Packet(packet) => Some(&packet.queue),
            Body::Stream(_) => None,
        }
    }
    pub(crate) fn datagram_mut(&mut self) -> Option<&mut Datagram> {
        match &mut self.body {
            Body::Datagram(datagram) | Body::Ping(datagram) => Some(datagram),
            Body::Raw(raw) => Some(&mut raw.queue),
            Body::Packet(packet) => Some(&mut packet.queue),
            Body::Stream(_) => None,
        }
    }
    /// `sk_error_queue`.
    pub(crate) fn errors_mut(&mut self) -> &mut VecDeque<QueuedError> {
        match &mut self.body {
            Body::Stream(stream) => &mut stream.errors,
            Body::Datagram(datagram) | Body::Ping(datagram) => &mut datagram.errors,
            Body::Raw(raw) => &mut raw.queue.errors,
            Body::Packet(packet) => &mut packet.queue.errors,
        }
    }
    /// `sk_rmem_alloc`, without the error queue.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.stream().map_or_else(|| self.datagram().map_or(0, |datagram| datagram.queued_truesize), Stream::unread)
    }
    pub(crate) fn raw(&self) -> Option<&Raw> {
        match &self.body {
            Body::Raw(raw) => Some(raw),
            _ => None,
        }
    }
    pub(crate) fn raw_mut(&mut self) -> Option<&mut Raw> {
        match &mut self.body {
            Body::Raw(raw) => Some(raw),
            _ => None,
        }
    }
    pub(crate) fn packet(&self) -> Option<&Packet> {
        match &self.body {
            Body::Packet(packet) => Some(packet),
            _ => None,
        }
    }
    pub(crate) fn packet_mut(&mut self) -> Option<&mut Packet> {
        match &mut self.body {
            Body::Packet(packet) => Some(packet),
            _ => None,
        }
    }
    /// `sock_error`: the pending error, taken.
    pub(crate) fn take_error(&mut self) -> Option<Errno> {
        self.error.take()
    }
    /// AF_INET6.
    pub(crate) fn is_v6(&self) -> bool {
        self.domain == crate::address::AF_INET6
    }
    /// The family of its packets where it has no IPv4-mapped addresses, as raw and ICMP sockets.
    pub(crate) fn family(&self) -> Family {
        if self.is_v6() { Family::V6 } else { Family::V4 }
    }
    /// No address: the port stays.
    pub(crate) fn reset_address(&mut self) {
        let port = self.local.port();
        self.local = crate::address::unspecified(self.domain);
        self.local.set_port(port);
    }
    /// inet6_getname: "if (inet6_test_bit(SNDFLOW, sk)) sin->sin6_flowinfo = np->flow_label;"
    fn told_with_label(&self, remote: SocketAddr) -> Vec<u8> {
        match crate::address::of_domain(self.domain, remote) {
            SocketAddr::V6(mut v6) if self.options.flow_info_send => {
                v6.set_flowinfo(self.options.flow_label);
                crate::address::to_bytes(v6.into())
            }
            told => crate::address::to_bytes(told),
        }
    }
    /// getpeername(2): `sockaddr` bytes; ENOTCONN.
    pub(crate) fn peer_address(&self) -> Result<Vec<u8>, Errno> {
        // inet_getname: "(((1 << sk->sk_state) & (TCPF_CLOSE | TCPF_SYN_SENT)) && peer == 1)"
        let in_state = self.stream().is_none_or(|stream| !matches!(stream.state, TcpState::Close | TcpState::SynSent));
        match self.remote {
            Some(remote) if in_state && remote.port() != 0 => Ok(self.told_with_label(remote)),
            _ => Err(Errno::ENOTCONN),
        }
    }
    /// Through which interface packets to this address leave, as far as the socket says; 0: wherever the route goes.
    /// udp_sendmsg: "if (ipv4_is_multicast(daddr)) { if (!ipc.oif …) ipc.oif = READ_ONCE(inet->mc_index); … } else if (!ipc.oif) ipc.oif =
    /// READ_ONCE(inet->uc_index);" and the same in udpv6_sendmsg.
    pub(crate) fn way_out(&self, to: IpAddr) -> u32 {
        // "if (!fl6->flowi6_oif) fl6->flowi6_oif = np->sticky_pktinfo.ipi6_ifindex;" before both, and not in tcp_v6_connect.
        match (self.options.interface, self.options.sticky6_index, to) {
            (0, sticky @ 1.., IpAddr::V6(_)) if self.stream().is_none() => sticky,
            _ => self.way_out_of_raw(to),
        }
    }
    /// The same without IPV6_PKTINFO.
    pub(crate) fn way_out_of_raw(&self, to: IpAddr) -> u32 {
        let options = &self.options;
        match (options.interface, to) {
            (bound @ 1.., _) => bound,
            (0, IpAddr::V4(to)) if to.is_multicast() => options.multicast_index,
            (0, IpAddr::V4(_)) => options.unicast_index,
            (0, IpAddr::V6(to)) if to.is_multicast() => options.multicast6_index,
            (0, IpAddr::V6(_)) => options.unicast6_index,
        }
    }
    /// IP_TTL or IPV6_UNICAST_HOPS, IP_TOS or IPV6_TCLASS …: what a stream's transport is told depends on whom it talks to.
    pub(crate) fn match_family(&mut self, peer: IpAddr) {
        let options = &self.options;
        let v6 = peer.is_ipv6();
        let (ttl, tos) = if v6 { (options.hop_limit.max(0) as u8, options.traffic_class) } else { (options.ttl, options.tos) };
        let discover = if v6 { options.mtu_discover6 } else { options.mtu_discover };
        let ip_options = options.ip_options.filter(|_| !v6).map_or_else(Vec::new, |options| options.given().to_vec());
        let attached = options.attached.clone().filter(|_| v6);
        if let Some(stream) = self.stream_mut() {
            stream.transport.ip_options = ip_options;
            stream.transport.attached = attached;
            (stream.transport.ttl, stream.transport.tos, stream.transport.mtu_discover) = (ttl, tos, discover);
        }
    }
    /// Is it a listening socket?
    pub(crate) fn is_listening(&self) -> bool {
        self.stream().is_some_and(|stream| stream.state == TcpState::Listen)
    }
}

/// All sockets, by slot.
#[derive(Debug, Default)]
pub(crate) struct Store {
    /// Its slots begin with a generation of its own: another store's ids mean nothing here.
    slab: Slab<Box<Socket>>,
}
weft_core::fields!(struct Store { slab });

impl Store {
    pub(crate) fn beginning_with(first: u32) -> Store {
        Store { slab: Slab::beginning_with(first) }
    }
    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }
    pub(crate) fn insert(&mut self, socket: Socket) -> SocketId {
        SocketId::from_number(self.slab.insert(Box::new(socket)))
    }
    pub(crate) fn remove(&mut self, id: SocketId) -> Option<Box<Socket>> {
        self.slab.remove(id.number())
    }
    pub(crate) fn get(&self, id: SocketId) -> Option<&Socket> {
        self.slab.get(id.number()).map(|socket| &**socket)
    }
    pub(crate) fn get_mut(&mut self, id: SocketId) -> Option<&mut Socket> {
        self.slab.get_mut(id.number()).map(|socket| &mut **socket)
    }
    pub(crate) fn iter(&self) -> impl Iterator<Item = (SocketId, &Socket)> {
        self.slab.iter().map(|(number, socket)| (SocketId::from_number(number), &**socket))
    }
    pub(crate) fn give_back_memory(&mut self) {
        self.slab.shrink_to_fit();
    }
}

#[cfg(test)]
impl Socket {
    /// A socket of AF_INET as it is made.
    pub(crate) fn for_test(body: Body) -> Socket {
        Socket {
            cookie: 1,
            domain: 2,
            owner: 0,
            kind: 1,
            protocol: 6,
            options: Options::default(),
            error: None,
            shutdown: Shutdown::default(),
            local: crate::address::unspecified(2),
            remote: None,
            number: 0,
            hold: None,
            address_locked: false,
            port_locked: false,
            changed: false,
            wakes: Poll::NONE,
            body,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_id_never_names_a_new_socket() {
        let make = || Socket::for_test(Body::Stream(Stream::new()));
        let mut store = Store::default();
        let first = store.insert(make());
        assert!(store.remove(first).is_some());
        let second = store.insert(make());
        assert_eq!(first.slot, second.slot);
        assert!(store.get(first).is_none() && store.get(second).is_some() && store.remove(first).is_none());
        assert_eq!(store.len(), 1);
    }
}
