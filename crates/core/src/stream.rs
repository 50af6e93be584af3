//! What sockets and a stream transport say to each other: Call and Reply, Data, Credit, Event.
//!
//! Sockets own buffers, options and readiness; the transport (tcp, later mptcp between the two) owns sequence space.
//!
//! **Credit, downward** (transport → sockets): bytes of send buffer that are free. It starts with [`StreamEvent::Established`] (the
//! first `Credit` follows at once), is returned as bytes are acknowledged, and grows when the transport auto-tunes the send buffer.
//! Sockets never send more `Data` than their credit.
//! **Credit, upward** (sockets → transport): bytes that the program has taken. The transport's receive window is the receive buffer less
//! what it delivered and has no credit for.
//!
//! **Life of a flow.** `Connect` or `Listen` (id chosen by sockets) or `Accepted` (id chosen by tcp, top bit set) opens it. Sockets end it by
//! `Close` or `Abort`, after which they send nothing more for it; the transport ends it by `Released`, after which the id and the local
//! port may be used again. `Released` is the last message of every flow that was opened, on every path. Between `Close` and `Released` the
//! flow may live on in FIN-WAIT, LAST-ACK or TIME-WAIT; [`StreamEvent::TimeWait`] tells when only TIME-WAIT is left. Sockets that keep a
//! released flow's data for a program that may still read it go on giving credit for it, and for all of it when they let go: the transport
//! counts that memory.
//!
//! **Between the two** another block may stand (Multipath TCP). It gives a connection an *extension* as the connection is opened
//! ([`StreamCall::Connect`], [`StreamCall::Listen`]): code of its own inside the transport, which reads and writes options of segments. The two
//! talk by [`StreamMessage::Word`], which nobody else reads; [`StreamMessage::Data`] has a number for each byte, both ways; and
//! [`StreamMessage::Room`] tells how the connection does. Sockets send none of these, and give no extension.

use crate::state::State;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::time::Duration;

/// A flow between sockets and a transport: a connection or a listener.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct FlowId(pub u64);

impl FlowId {
    /// Set in ids that the transport chose (accepted connections).
    pub const ACCEPTED: u64 = 1 << 63;
}

/// Ties a [`StreamMessage::Reply`] to its call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct CallId(pub u64);

/// One message on a stream port.
#[derive(Clone, Debug)]
pub enum StreamMessage {
    /// Sockets ask.
    Call {
        /// Comes back in the reply.
        id: CallId,
        /// Which flow.
        flow: FlowId,
        /// What is asked. Boxed: calls are rare, and data should not travel in their size.
        op: Box<StreamCall>,
    },
    /// The transport answers: accepted or refused. Connecting itself is reported by events.
    Reply {
        /// The call's.
        id: CallId,
        /// Which flow.
        flow: FlowId,
        /// Accepted, or why not.
        result: Result<(), StreamError>,
    },
    /// Bytes of the stream, in order, in either direction. Passed by reference.
    Data {
        /// Which flow.
        flow: FlowId,
        /// The bytes.
        bytes: Bytes,
        /// How they are to be treated.
        flags: DataFlags,
        /// Of a connection with an extension: added (modulo 2^64) to a byte's distance from the first of the flow's stream, it gives the number that the byte
        /// has above. Downward it is kept in the retransmission queue, so that what is sent again has the same numbers. Without an extension: 0.
        mapping: u64,
    },
    /// See the module's text.
    Credit {
        /// Which flow.
        flow: FlowId,
        /// Bytes.
        bytes: u32,
        /// Downward: with so many bytes of credit at most a program may be told that it can write (half of TCP_NOTSENT_LOWAT). Upward: 0.
        enough: u32,
    },
    /// Between an extension and whoever gave it to the flow, in either direction; the transport does not look at it.
    Word {
        /// Which flow.
        flow: FlowId,
        /// In their own format.
        bytes: Bytes,
    },
    /// Upward, of a connection whose extension asks for it: something of this has changed.
    Room {
        /// Which flow.
        flow: FlowId,
        /// How the connection does.
        room: Box<Room>,
    },
    /// Something happened to a flow.
    Event {
        /// Which flow.
        flow: FlowId,
        /// What. Boxed as calls are.
        event: Box<StreamEvent>,
    },
    /// Whoever is above → transport: advice for a flow's congestion control.
    Advice {
        /// Which flow.
        flow: FlowId,
        /// It.
        advice: Box<Advice>,
    },
    /// Transport → sockets, about no flow: all connections together hold as much memory as they may, or no longer do. As long as they do, a
    /// flow whose send queue holds [`SHORT_QUEUE_BYTES_MAX`] or more takes no data, whatever its credit; acknowledged bytes are credit at once.
    Short(bool),
}

/// How a connection does, for a choice between several.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Room {
    /// Bytes that would leave at once: both windows have room for them.
    pub free_bytes: u32,
    /// Congestion window, bytes.
    pub cwnd_bytes: u32,
    /// Sent, neither acknowledged nor taken for lost, bytes.
    pub in_flight_bytes: u32,
    /// Taken for lost, and not sent again, bytes.
    pub lost_bytes: u32,
    /// Handed down and never sent, bytes.
    pub unsent_bytes: u64,
    /// Acknowledged, bytes since the first of the stream.
    pub acknowledged_bytes: u64,
    /// The window that its own receive buffer would allow if it were empty, bytes.
    pub receive_bytes: u32,
    /// The largest that this may become, bytes.
    pub receive_bytes_max: u32,
    /// Round-trip time as a receiver sees it; none: not measured.
    pub receive_rtt: Option<Duration>,
    /// The largest that its send buffer may become, bytes.
    pub send_bytes_max: u32,
    /// Segment size, bytes.
    pub mss_bytes: u32,
    /// Smoothed round-trip time; none: not measured.
    pub rtt: Option<Duration>,
    /// How much that varies: its mean deviation, smoothed (tcpi_rttvar); zero: not measured.
    pub rtt_variation: Duration,
    /// What paces it or sizes its frames, bytes per second (tcpi_pacing_rate).
    pub pacing_rate_bytes_per_s: u64,
    /// Retransmission timeouts in a row, without an acknowledgment of anything new.
    pub timeouts: u32,
    /// Handshakes are over, and it may send.
    pub may_send: bool,
    /// Its congestion control asks for [`Advice::Siblings`].
    pub coupled: bool,
    /// Bytes acknowledged since the last loss, or between the last two, whichever is more: what some coupled controls ask for of all; 0 of others.
    pub interval_bytes: u64,
}
crate::fields!(struct Room { free_bytes, cwnd_bytes, in_flight_bytes, lost_bytes, unsent_bytes, acknowledged_bytes, receive_bytes, receive_bytes_max, receive_rtt, send_bytes_max, mss_bytes, rtt, rtt_variation, pacing_rate_bytes_per_s, timeouts, may_send, coupled, interval_bytes });

/// A connection of the same group, as a coupled congestion control sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Sibling {
    /// Congestion window, bytes.
    pub cwnd_bytes: u32,
    /// Smoothed round-trip time; zero: not measured.
    pub rtt: Duration,
    /// [`Room::interval_bytes`].
    pub interval_bytes: u64,
}
crate::fields!(struct Sibling { cwnd_bytes, rtt, interval_bytes });

/// What whoever has several flows to one peer knows, and one of them does not.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Advice {
    /// These are the others. At most [`SIBLINGS_MAX`] are looked at.
    Siblings(Vec<Sibling>),
    /// The window that the receive buffers of all of them allow together, bytes: it has as much room.
    ReceiveWindow(u32),
    /// Whoever writes has filled the buffer of all of them, and waits for room (SOCK_NOSPACE of the connection's socket).
    WriterWaits(bool),
    /// It holds up the others: half the window (Raiciu et al., "How Hard Can It Be?", NSDI'12, §4.2).
    Halve,
}

/// Most siblings that a congestion control looks at.
pub const SIBLINGS_MAX: usize = 32;

/// What a flow may queue while memory is short, bytes (Linux's SOCK_MIN_SNDBUF, and `tcp_wmem[0]`).
pub const SHORT_QUEUE_BYTES_MAX: u32 = 4096;

/// Most bytes that go with the news of a moment.
pub const QUOTED_BYTES_MAX: usize = 1232;

/// How a piece of data is to be treated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DataFlags {
    /// More follows at once: do not send a partial segment yet (MSG_MORE).
    pub more: bool,
    /// The last byte is urgent (MSG_OOB; RFC 6093: the urgent pointer names the byte after it).
    pub urgent: bool,
    /// A record ends here: what follows begins a segment of its own (MSG_EOR).
    pub record_end: bool,
    /// Of which moments of the last byte sockets want to hear ([`StreamEvent::Stamped`]).
    pub stamps: Stamps,
    /// Upward: the peer may send no more than a segment behind it, so that who waits for more has to read now (`tcp_epollin_ready`).
    pub window_is_small: bool,
}

/// Moments of a byte that is sent (SO_TIMESTAMPING).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stamps {
    /// It is handed down (SOF_TIMESTAMPING_TX_SCHED).
    pub scheduled: bool,
    /// It leaves (SOF_TIMESTAMPING_TX_SOFTWARE).
    pub left: bool,
    /// The peer has acknowledged it and all before it (SOF_TIMESTAMPING_TX_ACK).
    pub acknowledged: bool,
    /// With the bytes that it went with.
    pub quoted: bool,
}
crate::fields!(struct Stamps { scheduled, left, acknowledged, quoted });

impl Stamps {
    /// Is any moment asked for?
    pub const fn any(self) -> bool {
        self.scheduled || self.left || self.acknowledged
    }
}

/// Which of its moments a byte has come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moment {
    /// See [`Stamps::scheduled`].
    Scheduled,
    /// See [`Stamps::left`].
    Left,
    /// See [`Stamps::acknowledged`].
    Acknowledged {
        /// Time to live, or hop limit, of the segment that said so.
        hops: u8,
    },
}

/// What sockets ask of a transport.
#[derive(Clone, Debug)]
pub enum StreamCall {
    /// Open a connection. Outcome: `Established` or `Failed`.
    Connect {
        /// Address and port to use; both already chosen by sockets.
        local: SocketAddr,
        /// Whom to connect to.
        remote: SocketAddr,
        /// All options as they stand.
        options: Box<StreamOptions>,
        /// An extension for it, as state of its kind, which the transport knows by that name.
        extension: Option<Box<State>>,
    },
    /// The same with Fast Open (RFC 7413): `data` are the first bytes of the stream, and go with SYN as far as a cookie allows; with none it is
    /// asked for one. [`crate::Query::FastOpen`] tells before. The data counts against the send buffer, so the first credit is smaller by it.
    ConnectWith {
        /// As in `Connect`.
        local: SocketAddr,
        /// As in `Connect`.
        remote: SocketAddr,
        /// As in `Connect`.
        options: Box<StreamOptions>,
        /// May be empty.
        data: Bytes,
        /// As in `Connect`.
        extension: Option<Box<State>>,
    },
    /// Accept connections from now on. Outcome: the reply; then `Accepted` per connection.
    Listen {
        /// Address (may be unspecified) and port.
        local: SocketAddr,
        /// Serves IPv4-mapped peers too (IPv6 sockets without IPV6_V6ONLY).
        dual_stack: bool,
        /// listen(2)'s bound, as the kernel counts: one more than this may wait to be accepted.
        backlog: u32,
        /// Options that accepted connections inherit.
        options: Box<StreamOptions>,
        /// An extension that answers SYNs: it may give one to each connection that comes.
        extension: Option<Box<State>>,
    },
    /// The program took (or sockets closed) this many accepted connections of a listener: there is room again.
    Took {
        /// How many.
        connections: u32,
    },
    /// No more data will follow: send FIN after what is queued (shutdown(SHUT_WR)).
    ShutdownWrite,
    /// The program will not read any more (shutdown(SHUT_RD)): keep acknowledging, discard.
    ShutdownRead,
    /// The program let go of the socket. Unread data was left behind or not: with it, RST instead of FIN (RFC 2525 §2.17).
    Close {
        /// Unread data was thrown away.
        unread: bool,
        /// SO_LINGER on: how long the caller waits, which is his affair; zero: reset at once.
        linger: Option<Duration>,
    },
    /// Nobody is there who gave the connection its extension: go on as plain TCP.
    Plain,
    /// Reset now (connect(AF_UNSPEC), crash of the program's world).
    Abort,
    /// Change one option.
    Set(StreamOption),
}

/// What happens to a flow, as told by the transport.
#[derive(Clone, Debug)]
pub enum StreamEvent {
    /// The connection is established (active side).
    Established {
        /// Local address.
        local: SocketAddr,
        /// Remote address.
        remote: SocketAddr,
    },
    /// A listener has a new established connection. Counted against the backlog until `Took`.
    Accepted {
        /// The new flow.
        child: FlowId,
        /// Its local address.
        local: SocketAddr,
        /// Its remote address.
        remote: SocketAddr,
        /// The listener's extension has given it one: a word of it follows at once. Who stands between takes this back; sockets that see it make the
        /// connection plain ([`StreamCall::Plain`]).
        extended: bool,
    },
    /// What the SYN of a connection just accepted left, when it left anything: its headers (with `save_syn`) and the IP options that the
    /// connection answers it with.
    Began {
        /// The SYN's headers; empty: not saved.
        syn: Bytes,
        /// As IP_OPTIONS would give them.
        ip_options: Vec<u8>,
    },
    /// The peer has sent FIN; all data before it was delivered.
    HalfClosed,
    /// Connecting failed, or the connection is gone by reset or timeout. The program gets the error once.
    Failed(StreamError),
    /// An error that does not end the connection (ICMP): reported where the program asked for it (IP_RECVERR), or as SO_ERROR on failure.
    Soft(StreamError),
    /// The peer sent urgent data: the urgent byte is `ahead` bytes after what was delivered so far.
    Urgent {
        /// Bytes until the urgent byte; 0: the next one.
        ahead: u32,
    },
    /// A byte for which stamps were asked has come to one of its moments.
    Stamped {
        /// Which one: the first byte of the stream is 0.
        at: u64,
        /// Which moment.
        moment: Moment,
        /// What it went with, up to [`QUOTED_BYTES_MAX`] of it; empty unless that was asked for.
        bytes: Bytes,
    },
    /// All data and the FIN were acknowledged (lingering close ends).
    SendQueueEmpty,
    /// Only TIME-WAIT is left of the flow.
    TimeWait,
    /// Nothing is left of the flow; its id and port are free.
    Released,
}

/// Why a stream failed. Turned into errno in one place: `weft_socket::errno`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, thiserror::Error, Serialize, Deserialize)]
pub enum StreamError {
    /// RST in answer to our SYN.
    #[error("connection refused")]
    Refused,
    /// RST on an established connection.
    #[error("connection reset by peer")]
    Reset,
    /// RST after our FIN, or writing after RST.
    #[error("broken pipe")]
    BrokenPipe,
    /// Retransmissions, keepalive or user timeout ran out.
    #[error("timed out")]
    TimedOut,
    /// No route.
    #[error("network unreachable")]
    NetUnreachable,
    /// The host does not answer address resolution, or a router says so.
    #[error("host unreachable")]
    HostUnreachable,
    /// Protocol unreachable.
    #[error("protocol unreachable")]
    ProtocolUnreachable,
    /// Administratively prohibited.
    #[error("prohibited")]
    Prohibited,
    /// The packet was too big for the path.
    #[error("message too long")]
    MessageSize,
    /// The four-tuple is in use.
    #[error("address in use")]
    AddressInUse,
    /// The local address is not ours.
    #[error("address not available")]
    AddressNotAvailable,
    /// A table is full.
    #[error("no buffer space")]
    NoBuffers,
    /// The flow does not exist (any more) or is not in a state for this.
    #[error("not connected")]
    NotConnected,
    /// The option's value is out of range.
    #[error("invalid argument")]
    Invalid,
    /// No such congestion control or other named thing.
    #[error("no such entry")]
    NoEntry,
    /// The stack is going down.
    #[error("network down")]
    NetworkDown,
}

/// Declares the options once: as a struct of all (for Connect and Listen) and as an enum of one (for Set).
macro_rules! stream_options {
    ($($(#[$doc:meta])+ $field:ident $variant:ident : $type:ty = $default:expr),+ $(,)?) => {
        /// Options of a stream socket that its transport acts on.
        #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
        pub struct StreamOptions { $($(#[$doc])+ pub $field: $type),+ }
        /// One option.
        #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
        pub enum StreamOption { $($(#[$doc])+ $variant($type)),+ }
        impl Default for StreamOptions {
            fn default() -> StreamOptions { StreamOptions { $($field: $default),+ } }
        }
        impl StreamOptions {
            /// Applies one option.
            pub fn apply(&mut self, option: StreamOption) {
                match option { $(StreamOption::$variant(value) => self.$field = value),+ }
            }
        }
    };
}

stream_options! {
    /// TCP_NODELAY.
    nodelay Nodelay: bool = false,
    /// TCP_CORK.
    cork Cork: bool = false,
    /// TCP_QUICKACK: Some(true) now, Some(false) leaves quick-ack mode; None: the transport decides.
    quickack Quickack: Option<bool> = None,
    /// SO_KEEPALIVE.
    keepalive Keepalive: bool = false,
    /// TCP_KEEPIDLE.
    keepalive_idle KeepaliveIdle: Option<Duration> = None,
    /// TCP_KEEPINTVL.
    keepalive_interval KeepaliveInterval: Option<Duration> = None,
    /// TCP_KEEPCNT.
    keepalive_probes KeepaliveProbes: Option<u32> = None,
    /// TCP_USER_TIMEOUT.
    user_timeout UserTimeout: Option<Duration> = None,
    /// TCP_SYNCNT.
    syn_retries SynRetries: Option<u32> = None,
    /// TCP_MAXSEG, bytes; 0: none.
    mss_max MssMax: u32 = 0,
    /// TCP_WINDOW_CLAMP, bytes; 0: none.
    window_clamp WindowClamp: u32 = 0,
    /// TCP_CONGESTION; none: the node's default.
    congestion Congestion: Option<String> = None,
    /// TCP_LINGER2: time in FIN-WAIT-2 without a program; None: the node's default.
    fin_wait_2 FinWait2: Option<Duration> = None,
    /// TCP_DEFER_ACCEPT: wait this long for data before a connection counts as accepted; zero: off.
    defer_accept DeferAccept: Duration = Duration::ZERO,
    /// TCP_NOTSENT_LOWAT, bytes; u32::MAX: off.
    unsent_low_water UnsentLowWater: u32 = u32::MAX,
    /// SO_SNDBUF as set (Linux's doubled value), bytes; None: auto-tuned.
    send_buffer SendBuffer: Option<u32> = None,
    /// SO_RCVBUF as set (Linux's doubled value), bytes; None: auto-tuned.
    receive_buffer ReceiveBuffer: Option<u32> = None,
    /// SO_RCVLOWAT, bytes: a buffer that is auto-tuned has room for so many.
    receive_low_water ReceiveLowWater: u32 = 1,
    /// SO_MAX_PACING_RATE, bytes per second; u64::MAX: none.
    pacing_rate_max PacingRateMax: u64 = u64::MAX,
    /// IP_TOS or IPV6_TCLASS.
    tos Tos: u8 = 0,
    /// IP_TTL or IPV6_UNICAST_HOPS; 0: the node's default.
    ttl Ttl: u8 = 0,
    /// IP_MINTTL: segments over IPv4 with a lower TTL are dropped (RFC 5082).
    min_ttl MinTtl: u8 = 0,
    /// IPV6_MINHOPCOUNT: the same over IPv6.
    min_hop_count MinHopCount: u8 = 0,
    /// SO_MARK.
    mark Mark: u32 = 0,
    /// SO_BINDTODEVICE; 0: none.
    interface Interface: u32 = 0,
    /// SO_OOBINLINE: urgent data stays in the stream.
    urgent_inline UrgentInline: bool = false,
    /// TCP_FASTOPEN of a listener: connections that may have begun without the end of their handshake; 0: Fast Open is off. `Accepted` comes
    /// before the handshake has ended then, and data flows both ways.
    fast_open_queue FastOpenQueue: u32 = 0,
    /// TCP_FASTOPEN_KEY of a listener: 16 bytes, or 32 with the older key behind; empty: the node's.
    fast_open_key FastOpenKey: Vec<u8> = Vec::new(),
    /// TCP_FASTOPEN_NO_COOKIE.
    fast_open_no_cookie FastOpenNoCookie: bool = false,
    /// SO_ATTACH_FILTER: runs over each segment from its TCP header on; what it rejects never came.
    filter Filter: Option<crate::bpf::Shared> = None,
    /// IP_OPTIONS as given, for segments over IPv4. Of an accepted connection: the answer to those of its SYN.
    ip_options IpOptions: Vec<u8> = Vec::new(),
    /// IPV6_HOPOPTS, IPV6_RTHDRDSTOPTS, IPV6_RTHDR, IPV6_DSTOPTS, for segments over IPv6.
    attached Attached: Option<Box<crate::Attached>> = None,
    /// TCP_SAVE_SYN of a listener: 1: what connections begin with is told from the IP header on; 2: from the link-layer header on.
    save_syn SaveSyn: u8 = 0,
    /// TCP_RTO_MAX_MS, TCP_RTO_MIN_US: bounds of the retransmission timeout; None: the node's.
    rto_max RtoMax: Option<Duration> = None,
    /// See `rto_max`.
    rto_min RtoMin: Option<Duration> = None,
    /// TCP_DELACK_MAX_US: the longest delay of an acknowledgment; None: the node's.
    delayed_ack_max DelayedAckMax: Option<Duration> = None,
    /// IP_MTU_DISCOVER (IP_PMTUDISC_*): 1 = WANT, 0 = DONT, 2 = DO, 3 = PROBE.
    mtu_discover MtuDiscover: u8 = 1,
}

/// What TCP_INFO and `ss -i` report (fields and units of Linux's `struct tcp_info`; cwnd in segments).
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[allow(missing_docs)] // the field names are those of linux/tcp.h without the tcpi_ prefix
pub struct StreamInfo {
    pub state: u8,
    pub ca_state: u8,
    pub retransmits: u8,
    pub probes: u8,
    pub backoff: u8,
    pub options: u8,
    pub snd_wscale: u8,
    pub rcv_wscale: u8,
    pub delivery_rate_app_limited: bool,
    pub rto_us: u32,
    pub ato_us: u32,
    pub snd_mss: u32,
    pub rcv_mss: u32,
    pub unacked: u32,
    pub sacked: u32,
    pub lost: u32,
    pub retrans: u32,
    pub last_data_sent_ms: u32,
    pub last_data_recv_ms: u32,
    pub last_ack_recv_ms: u32,
    pub pmtu: u32,
    pub rcv_ssthresh: u32,
    pub rtt_us: u32,
    pub rttvar_us: u32,
    pub snd_ssthresh: u32,
    pub snd_cwnd: u32,
    pub advmss: u32,
    pub reordering: u32,
    pub rcv_rtt_us: u32,
    pub rcv_space: u32,
    pub total_retrans: u32,
    pub pacing_rate: u64,
    pub max_pacing_rate: u64,
    pub bytes_acked: u64,
    pub bytes_received: u64,
    pub segs_out: u32,
    pub segs_in: u32,
    pub notsent_bytes: u32,
    pub min_rtt_us: u32,
    pub data_segs_in: u32,
    pub data_segs_out: u32,
    pub delivery_rate: u64,
    pub busy_time_us: u64,
    pub rwnd_limited_us: u64,
    pub sndbuf_limited_us: u64,
    pub delivered: u32,
    pub delivered_ce: u32,
    pub bytes_sent: u64,
    pub bytes_retrans: u64,
    pub dsack_dups: u32,
    pub reord_seen: u32,
    pub rcv_ooopack: u32,
    pub snd_wnd: u32,
    pub rcv_wnd: u32,
    pub total_rto: u32,
    pub total_rto_recoveries: u32,
    pub total_rto_time_ms: u32,
    /// Unread bytes held for the program plus those held out of order (SIOCINQ's side).
    pub receive_queue_bytes: u32,
    /// Bytes sent and not acknowledged, plus unsent (SIOCOUTQ).
    pub send_queue_bytes: u32,
    /// Bytes that one more write may add, however full the buffer is (tcp_sendmsg): more than what is free, since a buffer that was begun is filled.
    pub write_room_bytes: u64,
    /// TCP_WINDOW_CLAMP as it stands.
    pub window_clamp: u32,
    /// Receive buffer as it stands, tuned or set (sk_rcvbuf).
    pub receive_buffer_bytes: u32,
    /// Send buffer as it stands, grown or set (sk_sndbuf).
    pub send_buffer_bytes: u32,
    /// Congestion control's name.
    pub congestion: String,
    /// TCP_CC_INFO: words of the control's part of `union tcp_cc_info`; empty: it has none.
    pub cc_info: Vec<u32>,
    /// MSS that the peer announced in its SYN.
    pub user_mss: u32,
}
