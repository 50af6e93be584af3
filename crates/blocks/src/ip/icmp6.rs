//! ICMPv6: echo, errors about packets in both directions, rate limits, and the way to neighbour discovery and multicast listeners.
//!
//! `lower` takes received messages: echo requests are answered in place (the payload stays where it is), errors become the quoted packet
//! with `meta.error` at the transport that sent it, neighbour discovery goes to `nd`, multicast listener discovery to `mld`, what is left to
//! `sockets`. `error` takes packets that begin with their IP header and `meta.error`: a received one (direction ingress) is answered with an
//! ICMPv6 error to its source; one that this node wanted to send (direction egress) is handed to the local transport as if a router had
//! complained. Checksums have been verified when a message leaves here.
//!
//! Meanings and numbers, both ways, grouped as Linux's `icmpv6_err_convert` (net/ipv6/icmp.c) groups them by errno:
//!
//! | meaning | sent as | received as | errno |
//! |---|---|---|---|
//! | NetUnreachable | 1/0 | 1/0 | ENETUNREACH |
//! | Prohibited | 1/1 | 1/1, 1/5, 1/6 | EACCES |
//! | HostUnreachable | 1/3; 1/2 when a router was to send a link-local source elsewhere | 1/2, 1/3 | EHOSTUNREACH |
//! | PortUnreachable | 1/4 | 1/4 | ECONNREFUSED |
//! | TooBig | 2/0 | 2/any | EMSGSIZE |
//! | TtlExceeded | 3/0 | 3/0 | EHOSTUNREACH |
//! | ReassemblyTimeout | 3/1 | 3/1 | EHOSTUNREACH |
//! | ParameterProblem | 4/0; 4/2 when the pointer is at an option; 4/3 about a first fragment, with the pointer 0 | 4/any | EPROTO |
//! | ProtocolUnreachable | 4/1, with the pointer at the next header that nobody knows | – | – |
//! | SourceRouteFailed | 4/0 | – | – |
//!
//! It refuses to follow redirects (nd does), to send any error that RFC 4443 §2.4 (e) forbids, and to answer node information queries.
//!
//! Standards: RFC 4443; RFC 8201 (path MTU); RFC 8200 §4 (parameter problems).

mod counts;
mod quote;

use super::limit::{Limit, Limited};
use counts::count;
use quote::{make_error, read_quote};
use std::any::Any;
use std::net::{IpAddr, Ipv6Addr};
use weft_core::table::{AddressKind, Family};
use weft_core::*;
use weft_wire::Protocol;
use weft_wire::checksum::{self, Sum};
use weft_wire::icmpv6::{self, kind};
use weft_wire::ipv6::Chain;

const IN_LOWER: InPort = InPort(0);
const OUT_LOWER: OutPort = OutPort(0);
const OUT_TCP: OutPort = OutPort(1);
const OUT_UDP: OutPort = OutPort(2);
const OUT_OTHER: OutPort = OutPort(3);
const OUT_SOCKETS: OutPort = OutPort(4);
const OUT_ND: OutPort = OutPort(5);
const OUT_MLD: OutPort = OutPort(6);
const OUTPUTS: usize = 7;

/// What this kind declares.
pub static KIND: Kind = Kind {
    name: "icmp6",
    summary: "ICMPv6: echo, errors in both directions, rate limits; neighbour discovery and multicast listeners pass through",
    doc: "Verifies checksums, answers echo requests to this node's addresses and groups; turns received errors into the quoted packet for the \
          transport that sent it and tells path MTUs to the owner of routes; makes errors about received packets (from `error`, direction \
          ingress) under RFC 4443's rules and Linux's rate limits, and hands packets that could not be sent (direction egress) to their local \
          transport. Messages of neighbour discovery go to nd, those of multicast listener discovery to mld.\n\
          Standards: RFC 4443, RFC 8201, RFC 8200 4.\n\
          Example: bind ip6:error icmp6:error",
    inputs: &[
        Port::required("lower", Carries::Transport, "received ICMPv6 messages"),
        Port::optional("error", Carries::Error, "packets whose sender is to be told what went wrong"),
    ],
    outputs: &[
        Port::required("lower", Carries::Transport, "ICMPv6 messages to send"),
        Port::optional("tcp", Carries::Error, "segments of this node that an error is about"),
        Port::optional("udp", Carries::Error, "datagrams of this node that an error is about"),
        Port::optional("other", Carries::Error, "other packets of this node that an error is about"),
        Port::optional("sockets", Carries::Transport, "messages for ping sockets: echo replies, errors, and what nobody here knows"),
        Port::optional("nd", Carries::Transport, "neighbour discovery: types 133 to 137"),
        Port::optional("mld", Carries::Transport, "multicast listener discovery: types 130 to 132, and 143"),
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
            doc: "time between two errors to one address after 6 in a row, 0ns: no limit (Linux net.ipv6.icmp.ratelimit)",
        },
        Parameter {
            name: "echo",
            value: ParameterType::Bool,
            default: "true",
            live: true,
            doc: "answer echo requests (Linux net.ipv6.icmp.echo_ignore_all is the opposite)",
        },
        Parameter {
            name: "echo_multicast",
            value: ParameterType::Bool,
            default: "true",
            live: true,
            doc: "answer those to groups too (Linux net.ipv6.icmp.echo_ignore_multicast is the opposite)",
        },
    ],
    counters: counts::COUNTERS,
    asks: &[Table::Addresses(Family::V6)],
    state_version: 1,
    ..Kind::EMPTY
};

/// How to make one.
pub const ROW: BlockRow = BlockRow { kind: &KIND, make: |config| Ok(Box::new(Icmp6::new(config))) };

/// The block.
#[derive(Debug)]
pub struct Icmp6 {
    echo: bool,
    echo_multicast: bool,
    limit: Limit,
    bound: [bool; OUTPUTS],
    counters: [u64; count::ALL],
}

impl Icmp6 {
    /// A block with full buckets.
    pub fn new(config: &mut Config) -> Icmp6 {
        let (per_second, burst) = (config.u64("messages_per_second") as u32, config.u64("messages_burst") as u32);
        let limit = Limit::new(per_second, burst, config.duration("target_interval"), KeyedHasher::new(&mut config.rng));
        let (echo, echo_multicast) = (config.bool("echo"), config.bool("echo_multicast"));
        Icmp6 { echo, echo_multicast, limit, bound: [false; OUTPUTS], counters: [0; count::ALL] }
    }

    fn receive(&mut self, frame: &mut Frame, cx: &mut Context<'_>) -> Verdict {
        self.counters[count::IN_MSGS] += 1;
        let _ = frame.pull_up(frame.len().min(icmpv6::HEADER_LEN));
        if !checksum_matches(frame) {
            self.counters[count::IN_CSUM_ERRORS] += 1;
            self.counters[count::IN_ERRORS] += 1;
            return Verdict::Drop(Reason::BadChecksum);
        }
        let Some(&[message, code, _, _, a, b, c, d]) = frame.head().first_chunk::<{ icmpv6::HEADER_LEN }>() else {
            self.counters[count::IN_ERRORS] += 1;
            return Verdict::Drop(Reason::Truncated);
        };
        counts::count_received(&mut self.counters, message);
        match message {
            kind::ECHO_REQUEST => return self.answer_echo(frame, cx),
            kind::ROUTER_SOLICITATION..=kind::REDIRECT => return self.pass(OUT_ND),
            kind::LISTENER_QUERY..=kind::LISTENER_DONE | kind::LISTENER_REPORT_V2 => return self.pass(OUT_MLD),
            _ => {}
        }
        // RFC 4443 §2.4 (a): "If an ICMPv6 error message of unknown type is received at its destination, it MUST be passed to the upper-layer
        // process that originated the packet that caused the error, where this can be identified"; (b): informational ones of unknown type
        // "MUST be silently discarded". Ping sockets may see both.
        if message >= 128 {
            return self.pass(OUT_SOCKETS);
        }
        if self.is_bound(OUT_SOCKETS) {
            let copy = frame.clone();
            cx.emit(OUT_SOCKETS, copy);
        }
        match quote::meaning(message, code, u32::from_be_bytes([a, b, c, d])) {
            Some(kind) => self.receive_error(frame, kind, cx),
            None => Verdict::Consumed,
        }
    }

    /// Hands a message on, if there is somebody.
    fn pass(&self, port: OutPort) -> Verdict {
        if self.is_bound(port) { Verdict::Forward(port) } else { Verdict::Consumed }
    }

    fn answer_echo(&mut self, frame: &mut Frame, cx: &Context<'_>) -> Verdict {
        let (IpAddr::V6(src), IpAddr::V6(dst)) = (frame.meta().src, frame.meta().dst) else { return Verdict::Drop(Reason::BadPacket) };
        let to_group = dst.is_multicast();
        // RFC 4443 §4.2: "the Source Address of the Echo Reply … MUST be the same as the Destination Address of the invoking Echo Request"
        // for a unicast one; to a group, "a unicast address belonging to the interface on which the Echo Request message was received".
        if !self.echo || (to_group && !self.echo_multicast) || src.is_unspecified() {
            self.counters[count::IN_IGNORED] += 1;
            return Verdict::Consumed;
        }
        let own = matches!(kind_of(dst.into(), cx), AddressKind::Local(_));
        let source = if own { dst } else { Ipv6Addr::UNSPECIFIED };
        let length = frame.len() as u32;
        let Some(header) = frame.head().first_chunk::<4>() else { return Verdict::Drop(Reason::Truncated) };
        let before = u16::from_be_bytes([header[2], header[3]]);
        let partial = matches!(frame.meta().checksum, Checksum::Partial { .. });
        let Some(header) = frame.head_mut().first_chunk_mut::<4>() else { return Verdict::Drop(Reason::Truncated) };
        // The code of the request stays, as in Linux's answers.
        header[0] = kind::ECHO_REPLY;
        let pseudo = checksum::pseudo_v6(source, src, Protocol::ICMPV6.0, length).fold();
        let checksum = if own && !partial {
            // The addresses change places, which the sum does not see.
            let sum = checksum::update_u16(before, u16::from(kind::ECHO_REQUEST) << 8, u16::from(kind::ECHO_REPLY) << 8);
            header[2..].copy_from_slice(&sum.to_be_bytes());
            Checksum::Unknown
        } else {
            header[2..].copy_from_slice(&pseudo.to_be_bytes());
            Checksum::Partial { offset: icmpv6::CHECKSUM_OFFSET as u16 }
        };
        let meta = frame.meta_mut();
        *meta = Meta {
            direction: Direction::Egress,
            src: source.into(),
            dst: src.into(),
            protocol: Protocol::ICMPV6,
            // The link of a group or a link-local address is the one where the request came in.
            interface: answer_interface(meta.interface, src, dst),
            // Linux icmpv6_echo_reply: "ipc6.tclass = ipv6_get_dsfield(ipv6_hdr(skb))".
            tos: meta.tos,
            mark: meta.mark,
            checksum,
            completion: meta.completion.take(),
            ..Meta::default()
        };
        self.counters[count::OUT_ECHO_REPLIES] += 1;
        self.counters[count::OUT_MSGS] += 1;
        Verdict::Forward(OUT_LOWER)
    }

    /// A received error: its payload is the beginning of a packet that this node sent.
    fn receive_error(&mut self, frame: &mut Frame, kind: IcmpErrorKind, cx: &mut Context<'_>) -> Verdict {
        let from = frame.meta().src;
        if frame.pull(icmpv6::HEADER_LEN).is_err() {
            return Verdict::Drop(Reason::Truncated);
        }
        frame.meta_mut().error = Some(IcmpError { kind, from });
        // RFC 4443 §2.4 (d): where the upper layer's type cannot be told, "the ICMPv6 message is silently dropped after any IPv6-layer
        // processing".
        let Some(chain) = read_quote(frame) else {
            self.counters[count::IN_ERRORS] += 1;
            return Verdict::Drop(Reason::BadPacket);
        };
        // Only what this node sent is its business.
        if !matches!(kind_of(chain.header.src.into(), cx), AddressKind::Local(_)) {
            self.counters[count::IN_ERRORS] += 1;
            return Verdict::Drop(Reason::NotForUs);
        }
        // Anybody can make such a message: TCP tells itself, when the quoted segment is on its way (Linux tcp_v6_err).
        if let IcmpErrorKind::TooBig { mtu } = kind
            && !(chain.protocol == Protocol::TCP && chain.has_upper_layer() && self.is_bound(OUT_TCP))
        {
            cx.tell(Table::Routes(Family::V6), Change::PathMtu { destination: chain.header.dst.into(), mtu });
        }
        if chain.protocol == Protocol::TCP && chain.has_upper_layer() && self.is_bound(OUT_OTHER) {
            // Linux icmpv6_notify: the protocol's own handler, then raw6_icmp_error. udp passes on what it gets; TCP's errors end in tcp.
            cx.emit(OUT_OTHER, frame.clone());
        }
        self.to_transport(&chain).map_or(Verdict::Consumed, Verdict::Forward)
    }

    fn to_transport(&self, chain: &Chain) -> Option<OutPort> {
        let port = match chain.protocol {
            _ if !chain.has_upper_layer() => return None,
            Protocol::TCP => OUT_TCP,
            Protocol::UDP | Protocol::UDPLITE => OUT_UDP,
            _ => OUT_OTHER,
        };
        self.is_bound(port).then_some(port)
    }

    /// A packet about which something went wrong in this node.
    fn complain(&mut self, frame: &mut Frame, cx: &mut Context<'_>) -> Verdict {
        let Some(error) = frame.meta().error else { return Verdict::Drop(Reason::BadPacket) };
        let reason = quote::reason_of(error.kind);
        let Some(chain) = read_quote(frame) else { return Verdict::Drop(Reason::BadPacket) };
        if frame.meta().direction == Direction::Egress {
            self.counters[count::LOCAL_ERRORS] += 1;
            return self.to_transport(&chain).map_or(Verdict::Drop(reason), Verdict::Forward);
        }
        let message = quote::message_for(error.kind, frame, &chain);
        if quote::forbidden(frame, &chain, &message) {
            self.counters[count::OUT_FORBIDDEN] += 1;
            return Verdict::Drop(reason);
        }
        // Linux: the rate mask spares packet too big ("net.ipv6.icmp.ratemask = 0-1,3-127"), and there is no limit on loopback.
        let exempt = matches!(error.kind, IcmpErrorKind::TooBig { .. }) || frame.meta().interface == InterfaceIndex::LOOPBACK;
        if !exempt && let Err(limited) = self.limit.take(chain.header.src.into(), cx.now) {
            let counter = if limited == Limited::Global { count::OUT_LIMIT_GLOBAL } else { count::OUT_LIMIT_HOST };
            self.counters[counter] += 1;
            return Verdict::Drop(Reason::RateLimited);
        }
        counts::count_sent(&mut self.counters, message.kind());
        let own = matches!(kind_of(chain.header.dst.into(), cx), AddressKind::Local(_));
        let error = make_error(frame, &chain, &message, own);
        cx.emit(OUT_LOWER, error);
        Verdict::Drop(reason)
    }

    #[inline]
    fn is_bound(&self, port: OutPort) -> bool {
        self.bound[usize::from(port.0)]
    }
}

fn kind_of(address: IpAddr, cx: &Context<'_>) -> AddressKind {
    match cx.ask(Table::Addresses(Family::V6), &Query::AddressKind(address)) {
        Answer::AddressKind(kind) => kind,
        _ => AddressKind::Other,
    }
}

/// Through which interface the answer to a packet has to go: the one it came in through, when an address means something on its link only.
/// What came back from the loopback finds its way without.
fn answer_interface(came_in: InterfaceIndex, src: Ipv6Addr, dst: Ipv6Addr) -> InterfaceIndex {
    let of_link = src.segments()[0] & 0xffc0 == 0xfe80 || dst.is_multicast();
    if of_link && came_in != InterfaceIndex::LOOPBACK { came_in } else { InterfaceIndex::NONE }
}

/// RFC 4443 §2.3: the checksum covers the message and a pseudo-header.
fn checksum_matches(frame: &Frame) -> bool {
    let meta = frame.meta();
    match (meta.checksum, meta.src, meta.dst) {
        (Checksum::Valid | Checksum::Partial { .. }, _, _) => true,
        (Checksum::Unknown, IpAddr::V6(src), IpAddr::V6(dst)) => {
            let pseudo = checksum::pseudo_v6(src, dst, Protocol::ICMPV6.0, frame.len() as u32);
            frame.chunks().fold(pseudo, Sum::add_bytes).fold() == 0xffff
        }
        _ => false,
    }
}

impl Block for Icmp6 {
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
            "echo_multicast" => Some(self.echo_multicast.into()),
            _ => None,
        }
    }

    fn set(&mut self, name: &str, value: Value, _cx: &mut Context<'_>) {
        match (name, value.as_u64(), value.as_bool()) {
            ("messages_per_second", Some(number), _) => self.limit.per_second = number as u32,
            ("messages_burst", Some(number), _) => self.limit.burst = number as u32,
            ("target_interval", Some(nanos), _) => self.limit.target_interval = Duration::from_nanos(nanos),
            ("echo", _, Some(echo)) => self.echo = echo,
            ("echo_multicast", _, Some(echo)) => self.echo_multicast = echo,
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
