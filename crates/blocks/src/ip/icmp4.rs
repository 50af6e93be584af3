//! ICMP for IPv4: echo, errors about packets in both directions, rate limits.
//!
//! `lower` takes received messages: echo requests are answered in place (the payload stays where it is), errors become the quoted packet
//! with `meta.error` at the transport that sent it, other messages go to `sockets`. `error` takes packets that begin with their IP header
//! and `meta.error`: a received one (direction ingress) is answered with an ICMP error to its source; one that this node wanted to send
//! (direction egress) is handed to the local transport as if a router had complained.
//!
//! Meanings and numbers, both ways, grouped as Linux's `icmp_err_convert` (net/ipv4/icmp.c) groups them by errno:
//!
//! | meaning | sent as | received as | errno |
//! |---|---|---|---|
//! | NetUnreachable | 3/0 | 3/0, 3/6, 3/9, 3/11 | ENETUNREACH |
//! | HostUnreachable | 3/1 | 3/1, 3/7, 3/8, 3/12 | EHOSTUNREACH |
//! | ProtocolUnreachable | 3/2 | 3/2 | ENOPROTOOPT |
//! | PortUnreachable | 3/3 | 3/3 | ECONNREFUSED |
//! | TooBig | 3/4 | 3/4 | EMSGSIZE |
//! | SourceRouteFailed | 3/5 | 3/5 | EOPNOTSUPP |
//! | Prohibited | 3/13 | 3/10, 3/13, 3/14, 3/15 | EHOSTUNREACH |
//! | TtlExceeded | 11/0 | 11/0 | EHOSTUNREACH |
//! | ReassemblyTimeout | 11/1 | 11/1 | EHOSTUNREACH |
//! | ParameterProblem | 12/0 | 12/any | EPROTO |
//!
//! (Linux has EHOSTDOWN for 3/7, ENONET for 3/8 and ENETUNREACH for 3/9: those three are lost in the shared meanings.)
//!
//! What routers tell of a destination is told to the owner of the routes: a smaller path MTU (of TCP's packets TCP does, once it knows that the
//! quoted segment is its own), a better gateway.
//!
//! It refuses to answer echo and timestamp requests to broadcast and multicast addresses (Linux `icmp_echo_ignore_broadcasts`), and to send any
//! error that RFC 1122 §3.2.2 forbids.
//!
//! Standards: RFC 792; RFC 1122 §3.2.2; RFC 1812 §4.3.2 (quoting, precedence, rate limits); RFC 1191 (next-hop MTU).

use super::limit::{Limit, Limited};
use std::any::Any;
use std::net::{IpAddr, Ipv4Addr};
use weft_core::table::{AddressKind, Family};
use weft_core::*;
use weft_wire::Protocol;
use weft_wire::checksum::{self, Sum};
use weft_wire::icmpv4::{self, Message, unreachable};
use weft_wire::ipv4::{self, Header, Prepared};

const IN_LOWER: InPort = InPort(0);
const OUT_LOWER: OutPort = OutPort(0);
const OUT_TCP: OutPort = OutPort(1);
const OUT_UDP: OutPort = OutPort(2);
const OUT_OTHER: OutPort = OutPort(3);
const OUT_SOCKETS: OutPort = OutPort(4);
const OUTPUTS: usize = 5;

/// RFC 1191 §7, table 7-1: the sizes that links have.
const PLATEAUS: [u32; 11] = [65_535, 32_000, 17_914, 8166, 4352, 2002, 1492, 1006, 508, 296, 68];
/// A day, milliseconds.
const DAY_MILLIS: u64 = 86_400_000;
/// RFC 792: "If the time is not available in miliseconds or cannot be provided with respect to midnight UT then any time can be inserted in a
/// timestamp provided the high order bit of the timestamp is also set to indicate this non-standard value."
const NON_STANDARD_TIME: u32 = 0x8000_0000;

/// RFC 1812 §4.3.2.3: "the ICMP datagram SHOULD contain as much of the original datagram as possible without the length of the ICMP
/// datagram exceeding 576 bytes": less IP and ICMP header.
const QUOTE_BYTES_MAX: usize = 576 - ipv4::HEADER_LEN - icmpv4::HEADER_LEN;

/// What this kind declares.
pub static KIND: Kind = Kind {
    name: "icmp4",
    summary: "ICMP for IPv4: echo, errors in both directions, rate limits",
    doc: "Answers echo requests to this node's own addresses; turns received errors into the quoted packet for the transport that sent it; \
          makes errors about received packets (from `error`, direction ingress) under RFC 1122's rules and Linux's rate limits, and hands \
          packets that could not be sent (direction egress) to their local transport. Path MTUs and redirects are told to the owner of \
          Routes. Timestamp requests are answered, source quench is ignored (RFC 6633).\n\
          Standards: RFC 792, RFC 1122 3.2.2, RFC 1812 4.3.2, RFC 1191.\n\
          Example: bind ip4:error icmp4:error",
    inputs: &[
        Port::required("lower", Carries::Transport, "received ICMP messages"),
        Port::optional("error", Carries::Error, "packets whose sender is to be told what went wrong"),
    ],
    outputs: &[
        Port::required("lower", Carries::Transport, "ICMP messages to send"),
        Port::optional("tcp", Carries::Error, "segments of this node that an error is about"),
        Port::optional("udp", Carries::Error, "datagrams of this node that an error is about"),
        Port::optional("other", Carries::Error, "packets of this node's raw and ping sockets that an error is about"),
        Port::optional(
            "sockets",
            Carries::Transport,
            "messages for ping sockets: echo replies, and others that are neither errors nor requests",
        ),
    ],
    parameters: &[
        Parameter {
            name: "messages_per_second",
            value: ParameterType::Unsigned { min: 0, max: 1_000_000 },
            default: "1000",
            live: true,
            doc: "errors sent in a second, 0: no limit (Linux icmp_msgs_per_sec)",
        },
        Parameter {
            name: "messages_burst",
            value: ParameterType::Unsigned { min: 1, max: 1_000_000 },
            default: "50",
            live: true,
            doc: "errors sent in a row (Linux icmp_msgs_burst)",
        },
        Parameter {
            name: "target_interval",
            value: ParameterType::Duration,
            default: "\"1s\"",
            live: true,
            doc: "time between two errors to one address after 6 in a row, 0ns: no limit (Linux icmp_ratelimit)",
        },
        Parameter {
            name: "echo",
            value: ParameterType::Bool,
            default: "true",
            live: true,
            doc: "answer echo requests (Linux icmp_echo_ignore_all is the opposite)",
        },
        Parameter {
            name: "boot_time",
            value: ParameterType::Unsigned { min: 0, max: u64::MAX },
            default: "0",
            live: true,
            doc: "when the node's time was zero, nanoseconds since 1970, for timestamp replies; 0: not known, times count from then",
        },
    ],
    counters: &[
        Counter { name: "InMsgs", text: "messages received" },
        Counter { name: "InErrors", text: "messages received with errors of their own" },
        Counter { name: "InCsumErrors", text: "messages received with a wrong checksum" },
        Counter { name: "InDestUnreachs", text: "destination unreachable received" },
        Counter { name: "InTimeExcds", text: "time exceeded received" },
        Counter { name: "InParmProbs", text: "parameter problem received" },
        Counter { name: "InRedirects", text: "redirects received" },
        Counter { name: "InEchos", text: "echo requests received" },
        Counter { name: "InEchoReps", text: "echo replies received" },
        Counter { name: "InTimestamps", text: "timestamp requests received" },
        Counter { name: "InIgnored", text: "echo and timestamp requests to broadcast or multicast addresses, or while echo is off" },
        Counter { name: "OutMsgs", text: "messages sent" },
        Counter { name: "OutDestUnreachs", text: "destination unreachable sent" },
        Counter { name: "OutTimeExcds", text: "time exceeded sent" },
        Counter { name: "OutParmProbs", text: "parameter problem sent" },
        Counter { name: "OutEchoReps", text: "echo replies sent" },
        Counter { name: "OutRateLimitGlobal", text: "errors not sent because of messages_per_second" },
        Counter { name: "OutRateLimitHost", text: "errors not sent because of target_interval" },
        Counter { name: "OutForbidden", text: "errors not sent because RFC 1122 forbids them" },
        Counter { name: "OutTimestampReps", text: "timestamp replies sent" },
        Counter { name: "LocalErrors", text: "packets of this node that could not be sent, handed to their transport" },
        Counter { name: "OutRedirects", text: "redirects sent" },
    ],
    asks: &[Table::Addresses(Family::V4)],
    state_version: 1,
    ..Kind::EMPTY
};

/// Positions in [`KIND`]'s counters.
mod count {
    pub const IN_MSGS: usize = 0;
    pub const IN_ERRORS: usize = 1;
    pub const IN_CSUM_ERRORS: usize = 2;
    pub const IN_DEST_UNREACHS: usize = 3;
    pub const IN_TIME_EXCDS: usize = 4;
    pub const IN_PARM_PROBS: usize = 5;
    pub const IN_REDIRECTS: usize = 6;
    pub const IN_ECHOS: usize = 7;
    pub const IN_ECHO_REPS: usize = 8;
    pub const IN_TIMESTAMPS: usize = 9;
    pub const IN_IGNORED: usize = 10;
    pub const OUT_MSGS: usize = 11;
    pub const OUT_DEST_UNREACHS: usize = 12;
    pub const OUT_TIME_EXCDS: usize = 13;
    pub const OUT_PARM_PROBS: usize = 14;
    pub const OUT_ECHO_REPS: usize = 15;
    pub const OUT_LIMIT_GLOBAL: usize = 16;
    pub const OUT_LIMIT_HOST: usize = 17;
    pub const OUT_FORBIDDEN: usize = 18;
    pub const OUT_TIMESTAMP_REPS: usize = 19;
    pub const LOCAL_ERRORS: usize = 20;
    pub const OUT_REDIRECTS: usize = 21;
    pub const ALL: usize = 22;
}

/// How to make one.
pub const ROW: BlockRow = BlockRow { kind: &KIND, make: |config| Ok(Box::new(Icmp4::new(config))) };

/// The block.
#[derive(Debug)]
pub struct Icmp4 {
    echo: bool,
    limit: Limit,
    /// Nanoseconds since 1970; 0: not known.
    boot_time: u64,
    bound: [bool; OUTPUTS],
    counters: [u64; count::ALL],
}

impl Icmp4 {
    /// A block with full buckets.
    pub fn new(config: &mut Config) -> Icmp4 {
        let (per_second, burst) = (config.u64("messages_per_second") as u32, config.u64("messages_burst") as u32);
        let limit = Limit::new(per_second, burst, config.duration("target_interval"), KeyedHasher::new(&mut config.rng));
        Icmp4 { echo: config.bool("echo"), limit, boot_time: config.u64("boot_time"), bound: [false; OUTPUTS], counters: [0; count::ALL] }
    }

    fn receive(&mut self, frame: &mut Frame, cx: &mut Context<'_>) -> Verdict {
        self.counters[count::IN_MSGS] += 1;
        let _ = frame.pull_up(frame.len().min(icmpv4::TIMESTAMP_LEN));
        let trusted = frame.meta().checksum == Checksum::Valid;
        if !trusted && frame.chunks().fold(Sum::new(), Sum::add_bytes).fold() != 0xffff {
            self.counters[count::IN_CSUM_ERRORS] += 1;
            self.counters[count::IN_ERRORS] += 1;
            return Verdict::Drop(Reason::BadChecksum);
        }
        let Ok((message, header_len)) = Message::parse(frame.head()) else {
            self.counters[count::IN_ERRORS] += 1;
            return Verdict::Drop(Reason::Truncated);
        };
        match message {
            Message::EchoRequest { .. } => return self.answer_echo(frame, cx),
            // Linux looks at the type only, and answers with the code of the request.
            Message::Other { kind: icmpv4::kind::ECHO_REQUEST, .. } => return self.answer_echo(frame, cx),
            Message::TimestampRequest(_) => return self.answer_timestamp(frame, cx),
            Message::EchoReply { .. } => self.counters[count::IN_ECHO_REPS] += 1,
            Message::Redirect { code, gateway } => {
                self.counters[count::IN_REDIRECTS] += 1;
                return self.receive_redirect(frame, code, gateway, header_len, cx);
            }
            Message::DestinationUnreachable { .. } => self.counters[count::IN_DEST_UNREACHS] += 1,
            Message::TimeExceeded { .. } => self.counters[count::IN_TIME_EXCDS] += 1,
            Message::ParameterProblem { .. } => self.counters[count::IN_PARM_PROBS] += 1,
            // RFC 1122 §3.2.2: "If an ICMP message of unknown type is received, it MUST be silently discarded."
            Message::TimestampReply(_) | Message::Other { .. } => {}
        }
        match meaning(&message) {
            Some(kind) => self.receive_error(frame, kind, header_len, cx),
            None if message.is_error() || !self.is_bound(OUT_SOCKETS) => Verdict::Consumed,
            None => Verdict::Forward(OUT_SOCKETS),
        }
    }

    fn answer_echo(&mut self, frame: &mut Frame, cx: &Context<'_>) -> Verdict {
        self.counters[count::IN_ECHOS] += 1;
        let dst = frame.meta().dst;
        // RFC 1122 §3.2.2.6: "An ICMP Echo Request destined to an IP broadcast or IP multicast address MAY be silently discarded."
        if !self.echo || !matches!(kind_of(dst, cx), AddressKind::Local(_)) {
            self.counters[count::IN_IGNORED] += 1;
            return Verdict::Consumed;
        }
        let Some(header) = frame.head_mut().first_chunk_mut::<4>() else { return Verdict::Drop(Reason::Truncated) };
        // RFC 792: "To form an echo reply message, the source and destination addresses are simply reversed, the type code changed to 0,
        // and the checksum recomputed."
        let before = u16::from_be_bytes([header[2], header[3]]);
        let sum = checksum::update_u16(before, u16::from(header[0]) << 8, u16::from(icmpv4::kind::ECHO_REPLY) << 8);
        header[0] = icmpv4::kind::ECHO_REPLY;
        header[2..].copy_from_slice(&sum.to_be_bytes());
        turn_round(frame);
        self.counters[count::OUT_ECHO_REPS] += 1;
        self.counters[count::OUT_MSGS] += 1;
        Verdict::Forward(OUT_LOWER)
    }

    /// RFC 1122 §3.2.2.8: "A host MAY implement Timestamp and Timestamp Reply."
    fn answer_timestamp(&mut self, frame: &mut Frame, cx: &Context<'_>) -> Verdict {
        self.counters[count::IN_TIMESTAMPS] += 1;
        // "An ICMP Timestamp Request message to an IP broadcast or IP multicast address MAY be silently discarded."
        if !matches!(kind_of(frame.meta().dst, cx), AddressKind::Local(_)) {
            self.counters[count::IN_IGNORED] += 1;
            return Verdict::Consumed;
        }
        let Ok((Message::TimestampRequest(asked), _)) = Message::parse(frame.head()) else { return Verdict::Drop(Reason::Truncated) };
        let now = match self.boot_time {
            0 => cx.now.as_millis() as u32 | NON_STANDARD_TIME,
            boot => ((boot / 1_000_000 + cx.now.as_millis()) % DAY_MILLIS) as u32,
        };
        // What the request has beyond the three times is not returned, as in Linux.
        frame.truncate(icmpv4::TIMESTAMP_LEN);
        Message::TimestampReply(icmpv4::Timestamps { receive: now, transmit: now, ..asked }).emit(frame.head_mut());
        turn_round(frame);
        self.counters[count::OUT_TIMESTAMP_REPS] += 1;
        self.counters[count::OUT_MSGS] += 1;
        Verdict::Forward(OUT_LOWER)
    }

    /// A received error: its payload is the beginning of a packet that this node sent.
    fn receive_error(&mut self, frame: &mut Frame, kind: IcmpErrorKind, header_len: usize, cx: &mut Context<'_>) -> Verdict {
        let from = frame.meta().src;
        let header = match self.open_quote(frame, header_len, cx) {
            Ok(header) => header,
            Err(verdict) => return verdict,
        };
        let kind = match kind {
            IcmpErrorKind::TooBig { mtu: 0 } => IcmpErrorKind::TooBig { mtu: plateau_below(header.total_len) },
            kind => kind,
        };
        frame.meta_mut().error = Some(IcmpError { kind, from });
        // Anybody can make such a message: TCP tells itself, when the quoted segment is on its way (Linux tcp_v4_err).
        if let IcmpErrorKind::TooBig { mtu } = kind
            && !(header.protocol == Protocol::TCP && self.is_bound(OUT_TCP))
        {
            cx.tell(Table::Routes(Family::V4), Change::PathMtu { destination: header.dst.into(), mtu });
        }
        // Linux icmp_socket_deliver: raw sockets hear of every protocol. UDP hands its errors to the sockets anyway, TCP does not.
        if header.protocol == Protocol::TCP && self.is_bound(OUT_OTHER) {
            cx.emit(OUT_OTHER, frame.clone());
        }
        self.to_transport(header.protocol).map_or(Verdict::Consumed, Verdict::Forward)
    }

    /// A gateway names a better one.
    fn receive_redirect(&mut self, frame: &mut Frame, code: u8, gateway: Ipv4Addr, header_len: usize, cx: &mut Context<'_>) -> Verdict {
        let (from, interface) = (frame.meta().src, frame.meta().interface);
        match self.open_quote(frame, header_len, cx) {
            // RFC 1122 §3.2.2.2: "Since the subnet mask appropriate to the destination address is generally not known, a Network Redirect
            // message SHOULD be treated identically to a Host Redirect message".
            Ok(header) if code <= 3 => {
                let change = Change::Redirect { destination: header.dst.into(), gateway: gateway.into(), interface, from };
                cx.tell(Table::Routes(Family::V4), change);
                Verdict::Consumed
            }
            Ok(_) => Verdict::Consumed,
            Err(verdict) => verdict,
        }
    }

    /// Makes a frame that begins with an ICMP error one that begins with the quoted packet, if that is one that this node sent.
    fn open_quote(&mut self, frame: &mut Frame, header_len: usize, cx: &Context<'_>) -> Result<Header, Verdict> {
        if frame.pull(header_len).is_err() {
            return Err(Verdict::Drop(Reason::Truncated));
        }
        let Some(header) = read_quote(frame) else {
            self.counters[count::IN_ERRORS] += 1;
            return Err(Verdict::Drop(Reason::BadPacket));
        };
        // Linux icmp_unreach: errors about broadcasts are bogus. And only what this node sent is its business.
        if !matches!(kind_of(header.src.into(), cx), AddressKind::Local(_)) || kind_of(header.dst.into(), cx) == AddressKind::Broadcast {
            self.counters[count::IN_ERRORS] += 1;
            return Err(Verdict::Drop(Reason::NotForUs));
        }
        Ok(header)
    }

    fn to_transport(&self, protocol: Protocol) -> Option<OutPort> {
        let port = match protocol {
            Protocol::TCP => OUT_TCP,
            Protocol::UDP | Protocol::UDPLITE => OUT_UDP,
            _ => OUT_OTHER,
        };
        self.is_bound(port).then_some(port)
    }

    /// A packet about which something went wrong in this node.
    fn complain(&mut self, frame: &mut Frame, cx: &mut Context<'_>) -> Verdict {
        let Some(error) = frame.meta().error else { return Verdict::Drop(Reason::BadPacket) };
        let reason = reason_of(error.kind);
        let Some(header) = read_quote(frame) else { return Verdict::Drop(Reason::BadPacket) };
        if frame.meta().direction == Direction::Egress {
            self.counters[count::LOCAL_ERRORS] += 1;
            return self.to_transport(header.protocol).map_or(Verdict::Drop(reason), Verdict::Forward);
        }
        let message = message_for(error.kind);
        if forbidden(frame, &header, cx) {
            self.counters[count::OUT_FORBIDDEN] += 1;
            return Verdict::Drop(reason);
        }
        // Linux icmpv4_mask_allow: "Don't limit PMTU discovery"; icmpv4_xrlim_allow: no limit on loopback.
        // Redirects have limits of their own (icmp_ratemask 0x1818 leaves them out).
        let redirect = matches!(error.kind, IcmpErrorKind::Redirect { .. });
        let exempt = redirect || matches!(error.kind, IcmpErrorKind::TooBig { .. }) || frame.meta().interface == InterfaceIndex::LOOPBACK;
        if !exempt && let Err(limited) = self.limit.take(header.src.into(), cx.now) {
            let counter = if limited == Limited::Global { count::OUT_LIMIT_GLOBAL } else { count::OUT_LIMIT_HOST };
            self.counters[counter] += 1;
            return Verdict::Drop(Reason::RateLimited);
        }
        self.counters[count::OUT_MSGS] += 1;
        self.counters[match message {
            Message::TimeExceeded { .. } => count::OUT_TIME_EXCDS,
            Message::ParameterProblem { .. } => count::OUT_PARM_PROBS,
            Message::Redirect { .. } => count::OUT_REDIRECTS,
            _ => count::OUT_DEST_UNREACHS,
        }] += 1;
        let error = make_error(frame, &header, &message, cx);
        cx.emit(OUT_LOWER, error);
        // What a redirect is about is a copy: the packet itself went on.
        if redirect { Verdict::Consumed } else { Verdict::Drop(reason) }
    }

    fn is_bound(&self, port: OutPort) -> bool {
        self.bound[usize::from(port.0)]
    }
}

/// Makes a received message one to send, to where it came from.
fn turn_round(frame: &mut Frame) {
    // RFC 1122 §3.2.2.6: "If a Record Route and/or Time Stamp option is received in an ICMP Echo Request, this option (these options) SHOULD be
    // updated to include the current host and included in the IP header of the Echo Reply message, without 'truncation'."
    let options = match (frame.pulled(frame.meta().network_at), frame.meta().src) {
        (header @ [first, ..], IpAddr::V4(from)) if first & 0xf > 5 => {
            let received = header.get(ipv4::HEADER_LEN..usize::from(first & 0xf) * 4).unwrap_or_default();
            Prepared::answer(received, from, |_| false).map(Box::new)
        }
        _ => None,
    };
    let meta = frame.meta_mut();
    *meta = Meta {
        direction: Direction::Egress,
        src: meta.dst,
        dst: meta.src,
        protocol: Protocol::ICMP,
        // RFC 1122 §3.2.2.6 leaves it open; Linux answers with the request's.
        tos: meta.tos,
        mark: meta.mark,
        completion: meta.completion.take(),
        ip_options: options,
        ..Meta::default()
    };
}

/// RFC 1191 §5 and §7: an old router does not say what fits; the next estimate is the largest common size below that of the packet.
fn plateau_below(total_len: u16) -> u32 {
    PLATEAUS.into_iter().find(|plateau| *plateau < u32::from(total_len)).unwrap_or(68)
}

fn kind_of(address: IpAddr, cx: &Context<'_>) -> AddressKind {
    match cx.ask(Table::Addresses(Family::V4), &Query::AddressKind(address)) {
        Answer::AddressKind(kind) => kind,
        _ => AddressKind::Other,
    }
}

/// Reads the IP header that the frame begins with and fills the metadata from it.
fn read_quote(frame: &mut Frame) -> Option<Header> {
    let _ = frame.pull_up(frame.len().min(ipv4::HEADER_LEN_MAX));
    let (header, header_len) = Header::parse(frame.head()).ok()?;
    let network_at = frame.position();
    let meta = frame.meta_mut();
    meta.network_at = network_at;
    meta.transport_at = network_at + header_len as u16;
    meta.src = header.src.into();
    meta.dst = header.dst.into();
    meta.protocol = header.protocol;
    Some(header)
}

/// RFC 1122 §3.2.2: "An ICMP error message MUST NOT be sent as the result of receiving: an ICMP error message, or a datagram destined to an
/// IP broadcast or IP multicast address, or a datagram sent as a link-layer broadcast, or a non-initial fragment, or a datagram whose source
/// address does not define a single host".
fn forbidden(frame: &Frame, header: &Header, cx: &Context<'_>) -> bool {
    let icmp_error = header.protocol == Protocol::ICMP && {
        let kind = frame.slices(header.header_len(), 1).first().and_then(|bytes| bytes.first().copied());
        // Linux: also when the type cannot be read, or is none that it knows (above NR_ICMP_TYPES, 18).
        kind.is_none_or(|kind| kind > 18 || Message::Other { kind, code: 0, rest: [0; 4] }.is_error())
    };
    let many = matches!(kind_of(header.dst.into(), cx), AddressKind::Broadcast | AddressKind::Multicast | AddressKind::Unspecified);
    let inside = frame.meta().interface == InterfaceIndex::LOOPBACK;
    let source = header.src;
    let no_host = source.is_unspecified()
        || source.octets()[0] == 0
        || source.is_multicast()
        || source.is_broadcast()
        || (source.is_loopback() && !inside)
        || kind_of(source.into(), cx) == AddressKind::Broadcast;
    icmp_error || many || frame.meta().dst_mac.is_multicast() || header.fragment_offset != 0 || no_host
}

/// The message that says so. MTUs above 65,535 cannot be said.
fn message_for(kind: IcmpErrorKind) -> Message {
    let code = |code| Message::DestinationUnreachable { code, mtu: 0 };
    match kind {
        IcmpErrorKind::NetUnreachable => code(unreachable::NETWORK),
        IcmpErrorKind::HostUnreachable => code(unreachable::HOST),
        IcmpErrorKind::ProtocolUnreachable => code(unreachable::PROTOCOL),
        IcmpErrorKind::PortUnreachable => code(unreachable::PORT),
        IcmpErrorKind::TooBig { mtu } => {
            Message::DestinationUnreachable { code: unreachable::FRAGMENTATION_NEEDED, mtu: mtu.min(65_535) as u16 }
        }
        IcmpErrorKind::SourceRouteFailed => code(unreachable::SOURCE_ROUTE_FAILED),
        IcmpErrorKind::Prohibited => code(unreachable::ADMINISTRATIVELY_PROHIBITED),
        IcmpErrorKind::TtlExceeded => Message::TimeExceeded { code: 0 },
        IcmpErrorKind::ReassemblyTimeout => Message::TimeExceeded { code: 1 },
        IcmpErrorKind::ParameterProblem { pointer } => Message::ParameterProblem { code: 0, pointer: pointer.min(255) as u8 },
        // RFC 1812 §5.2.7.2: "Routers MUST NOT generate the Redirect for Network or Redirect for Network and Type of Service messages".
        IcmpErrorKind::Redirect { gateway: IpAddr::V4(gateway) } => Message::Redirect { code: 1, gateway },
        IcmpErrorKind::Redirect { gateway: IpAddr::V6(_) } => code(unreachable::HOST),
    }
}

/// What a received message says about the packet it quotes, if it is an error: the table at the top of the file.
fn meaning(message: &Message) -> Option<IcmpErrorKind> {
    Some(match *message {
        Message::DestinationUnreachable { code, mtu } => match code {
            unreachable::NETWORK | unreachable::NETWORK_UNKNOWN | unreachable::NETWORK_PROHIBITED | unreachable::NETWORK_TOS => {
                IcmpErrorKind::NetUnreachable
            }
            unreachable::HOST | unreachable::HOST_UNKNOWN | unreachable::HOST_ISOLATED | unreachable::HOST_TOS => {
                IcmpErrorKind::HostUnreachable
            }
            unreachable::PROTOCOL => IcmpErrorKind::ProtocolUnreachable,
            unreachable::PORT => IcmpErrorKind::PortUnreachable,
            unreachable::FRAGMENTATION_NEEDED => IcmpErrorKind::TooBig { mtu: mtu.into() },
            unreachable::SOURCE_ROUTE_FAILED => IcmpErrorKind::SourceRouteFailed,
            unreachable::HOST_PROHIBITED | unreachable::ADMINISTRATIVELY_PROHIBITED | 14 | 15 => IcmpErrorKind::Prohibited,
            // Linux icmp_unreach: "if (icmph->code > NR_ICMP_UNREACH) goto out".
            _ => return None,
        },
        Message::TimeExceeded { code: 0 } => IcmpErrorKind::TtlExceeded,
        Message::TimeExceeded { code: 1 } => IcmpErrorKind::ReassemblyTimeout,
        Message::ParameterProblem { pointer, .. } => IcmpErrorKind::ParameterProblem { pointer: pointer.into() },
        _ => return None,
    })
}

/// Under which reason a packet is counted that ends in an error.
const fn reason_of(kind: IcmpErrorKind) -> Reason {
    match kind {
        IcmpErrorKind::NetUnreachable => Reason::NoRoute,
        IcmpErrorKind::HostUnreachable => Reason::NeighbourFailed,
        IcmpErrorKind::ProtocolUnreachable => Reason::UnknownProtocol,
        IcmpErrorKind::PortUnreachable => Reason::NoPort,
        IcmpErrorKind::TooBig { .. } => Reason::TooBig,
        IcmpErrorKind::SourceRouteFailed | IcmpErrorKind::ParameterProblem { .. } => Reason::BadOption,
        IcmpErrorKind::Prohibited => Reason::Filtered,
        IcmpErrorKind::TtlExceeded => Reason::TtlExceeded,
        IcmpErrorKind::ReassemblyTimeout => Reason::ReassemblyTimeout,
        IcmpErrorKind::Redirect { .. } => Reason::NotForUs,
    }
}

/// The error message, with as much of the packet as may be quoted; the quoted payload is shared, not copied.
fn make_error(offender: &Frame, header: &Header, message: &Message, cx: &Context<'_>) -> Frame {
    let mut frame = Frame::egress();
    for slice in offender.slices(0, QUOTE_BYTES_MAX) {
        frame.append(slice);
    }
    message.emit_header(frame.push(icmpv4::HEADER_LEN));
    let sum = frame.chunks().fold(Sum::new(), Sum::add_bytes).finish();
    if let Some(field) = frame.head_mut().get_mut(icmpv4::CHECKSUM_OFFSET..icmpv4::CHECKSUM_OFFSET + 2) {
        field.copy_from_slice(&sum.to_be_bytes());
    }
    // RFC 1812 §4.3.2.4: "the source address … MUST be one of the IP addresses associated with the physical interface", or the address that
    // the packet was sent to; IP chooses the former.
    let own = matches!(kind_of(header.dst.into(), cx), AddressKind::Local(_));
    let meta = frame.meta_mut();
    meta.src = if own { header.dst } else { Ipv4Addr::UNSPECIFIED }.into();
    meta.dst = header.src.into();
    meta.protocol = Protocol::ICMP;
    // RFC 1812 §4.3.2.5: errors have "their IP Precedence field set to … 6 (INTERNETWORK CONTROL) or 7"; Linux keeps the packet's TOS bits.
    meta.tos = header.tos & 0x1e | 0xc0;
    frame
}

impl Block for Icmp4 {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn process(&mut self, port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        match port {
            IN_LOWER => vector.each(|frame| self.receive(frame, cx)),
            _ => vector.each(|frame| self.complain(frame, cx)),
        }
    }

    fn started(&mut self, cx: &mut Context<'_>) {
        for (port, bound) in self.bound.iter_mut().enumerate() {
            *bound = cx.is_bound(OutPort(port as u8));
        }
    }

    fn get(&self, name: &str, _now: Instant) -> Option<Value> {
        match name {
            "messages_per_second" => Some(self.limit.per_second.into()),
            "messages_burst" => Some(self.limit.burst.into()),
            "target_interval" => Some((self.limit.target_interval.as_nanos() as u64).into()),
            "echo" => Some(self.echo.into()),
            "boot_time" => Some(self.boot_time.into()),
            _ => None,
        }
    }

    fn set(&mut self, name: &str, value: Value, _cx: &mut Context<'_>) {
        match (name, value.as_u64(), value.as_bool()) {
            ("messages_per_second", Some(number), _) => self.limit.per_second = number as u32,
            ("messages_burst", Some(number), _) => self.limit.burst = number as u32,
            ("target_interval", Some(nanos), _) => self.limit.target_interval = Duration::from_nanos(nanos),
            ("echo", _, Some(echo)) => self.echo = echo,
            ("boot_time", Some(nanos), _) => self.boot_time = nanos,
            _ => {}
        }
    }

    fn counters(&self) -> &[u64] {
        &self.counters
    }

    fn export(&self, now: Instant) -> Result<State, StateError> {
        Ok(crate::counted::export_with(&KIND, &self.counters, now, |out| self.limit.write(out)))
    }

    fn import(&mut self, state: &State, now: Instant) -> Result<(), StateError> {
        let (taken, counters) = crate::counted::import_with(&KIND, state, now, |from| from.take())?;
        self.limit.resume(taken);
        self.counters = counters;
        Ok(())
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
