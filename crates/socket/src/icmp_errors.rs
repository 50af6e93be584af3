//! ICMP errors about what sockets sent (`ip_icmp_error` and its IPv6 kin).
//!
//! A frame of an error port begins with the IP header of the packet that went wrong, as this node sent it. Raw sockets of its protocol hear
//! of it, and the UDP or ICMP socket that sent it. With IP_RECVERR the error is queued and pending, without it only pending, and only where the
//! socket is connected and the error *hard*.

use crate::abi::*;
use crate::address;
use crate::datagrams::Datagrams;
use crate::errno;
use crate::error_queue::{self, QUOTED_BYTES_MAX};
use crate::messages::Messages;
use crate::ping_socket::{Pings, end, supported};
use crate::poll::Poll;
use crate::raw_socket::RawSockets;
use crate::registry::Registry;
use crate::socket::{QueuedError, Seen, Socket, SocketId};
use bytes::Bytes;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use weft_core::table::Family;
use weft_core::{Context, Frame, IcmpError, IcmpErrorKind, Instant, Meta, Reason};
use weft_wire::Protocol;

/// Most extension headers that are passed over in a quoted packet.
const EXTENSIONS_MAX: usize = 8;

/// A quoted packet; everything in it may be damaged.
struct Quoted {
    source: IpAddr,
    destination: IpAddr,
    protocol: Protocol,
    /// From the IP header on, cut.
    packet: Bytes,
    /// Where the transport header lies in it.
    transport_at: usize,
}

impl Quoted {
    fn read(frame: &Frame) -> Option<Quoted> {
        let packet = Bytes::from(frame.slices(0, QUOTED_BYTES_MAX).concat());
        match packet.first()? >> 4 {
            4 => {
                let header = usize::from(packet.first()? & 0x0f) * 4;
                let source: [u8; 4] = packet.get(12..16)?.try_into().ok()?;
                let destination: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
                let protocol = Protocol(*packet.get(9)?);
                (header >= 20 && packet.len() >= header).then_some(Quoted {
                    source: Ipv4Addr::from(source).into(),
                    destination: Ipv4Addr::from(destination).into(),
                    protocol,
                    transport_at: header,
                    packet,
                })
            }
            6 => {
                let source: [u8; 16] = packet.get(8..24)?.try_into().ok()?;
                let destination: [u8; 16] = packet.get(24..40)?.try_into().ok()?;
                let (protocol, transport_at) = past_extensions(&packet)?;
                let (source, destination) = (Ipv6Addr::from(source).into(), Ipv6Addr::from(destination).into());
                Some(Quoted { source, destination, protocol, transport_at, packet })
            }
            _ => None,
        }
    }

    fn family(&self) -> Family {
        Family::of(self.source)
    }

    fn transport(&self) -> &[u8] {
        self.packet.get(self.transport_at..).unwrap_or_default()
    }

    /// What follows the first bytes of the transport header.
    fn payload(&self, after: usize) -> Bytes {
        let from = (self.transport_at + after).min(self.packet.len());
        self.packet.slice(from..)
    }

    fn ports(&self) -> Option<(u16, u16)> {
        let &[p0, p1, q0, q1, ..] = self.transport() else { return None };
        Some((u16::from_be_bytes([p0, p1]), u16::from_be_bytes([q0, q1])))
    }
}

/// `ipv6_skip_exthdr`: the transport's protocol and place; none when a header is cut off or it is not the first fragment.
fn past_extensions(packet: &[u8]) -> Option<(Protocol, usize)> {
    let (mut next, mut at) = (*packet.get(6)?, 40);
    for _ in 0..EXTENSIONS_MAX {
        let length = match next {
            // Hop-by-hop, routing, destination options.
            0 | 43 | 60 => (usize::from(*packet.get(at + 1)?) + 1) * 8,
            44 if u16::from_be_bytes([*packet.get(at + 2)?, *packet.get(at + 3)?]) >> 3 == 0 => 8,
            44 => return None,
            51 => (usize::from(*packet.get(at + 1)?) + 2) * 4,
            _ => return Some((Protocol(next), at)),
        };
        next = *packet.get(at)?;
        at += length;
    }
    None
}

/// An error about a packet that this node sent.
pub(crate) fn input(messages: &Messages, sockets: &mut Registry, mut frame: Frame, cx: &mut Context<'_>) {
    let Some((error, quoted)) = frame.meta().error.zip(Quoted::read(&frame)) else { return cx.drop(frame, Reason::NoPort) };
    frame.meta_mut().interface = weft_core::scope::link_of(frame.meta().interface, quoted.source, cx);
    let raw = raw_error(&messages.raw, sockets, frame.meta(), error, &quoted, cx.now);
    let own = match quoted.protocol {
        Protocol::UDP => datagram_error(&messages.datagrams, sockets, frame.meta(), error, &quoted, cx.now),
        Protocol::UDPLITE => datagram_error(&messages.lite, sockets, frame.meta(), error, &quoted, cx.now),
        Protocol(protocol) if matches!(i32::from(protocol), IPPROTO_ICMP | IPPROTO_ICMPV6) => {
            ping_error(&messages.pings, sockets, frame.meta(), error, &quoted, cx.now)
        }
        // A copy for raw sockets: TCP has the error itself.
        Protocol::TCP => true,
        _ => false,
    };
    if raw || own { end(frame, cx) } else { cx.drop(frame, Reason::NoPort) }
}

/// `__udp4_lib_err`, `udpv6_err`.
fn datagram_error(datagrams: &Datagrams, sockets: &mut Registry, meta: &Meta, error: IcmpError, quoted: &Quoted, now: Instant) -> bool {
    let Some((from, to)) = quoted.ports() else { return false };
    let interface = meta.interface.0;
    let (local, remote) = (address::scoped(quoted.source, from, interface), address::scoped(quoted.destination, to, interface));
    // The packet's sender is looked up as if it were to receive an answer.
    let candidates = datagrams.receivers.get(&from);
    let found = candidates.and_then(|candidates| datagrams.find(candidates, sockets, local, remote, interface));
    let Some(s) = found else { return false };
    report(sockets, s, meta, error, quoted, remote, quoted.payload(8), now)
}

/// `ping_err`.
fn ping_error(pings: &Pings, sockets: &mut Registry, meta: &Meta, error: IcmpError, quoted: &Quoted, now: Instant) -> bool {
    let &[kind, code, _, _, high, low, ..] = quoted.transport() else { return false };
    if !supported(quoted.family(), kind, code) {
        return false;
    }
    let ident = u16::from_be_bytes([high, low]);
    let Some(s) = pings.find(sockets, quoted.family(), ident, quoted.source, meta.interface.0) else { return false };
    report(sockets, s, meta, error, quoted, SocketAddr::new(quoted.destination, 0), quoted.payload(0), now)
}

/// `raw_icmp_error`, `raw6_icmp_error`: every raw socket of the protocol whose addresses fit.
fn raw_error(raw: &RawSockets, sockets: &mut Registry, meta: &Meta, error: IcmpError, quoted: &Quoted, now: Instant) -> bool {
    let Some(all) = raw.by_protocol.get(&(quoted.family(), u16::from(quoted.protocol.0))) else { return false };
    let interface = meta.interface.0;
    let fits = |s: &SocketId| {
        let Some(socket) = sockets.store.get(*s) else { return false };
        let peer = socket.remote.is_none_or(|remote| remote.ip() == quoted.destination);
        let here = socket.local.ip().is_unspecified() || socket.local.ip() == quoted.source;
        peer && here && (socket.options.interface == 0 || interface == 0 || socket.options.interface == interface)
    };
    let fitting: Vec<SocketId> = all.iter().copied().filter(fits).collect();
    let to = SocketAddr::new(quoted.destination, 0);
    let mut told = false;
    for s in fitting {
        // "payload = skb->data + (iph->ihl << 2); if (inet_test_bit(HDRINCL, sk)) payload = skb->data;"
        let whole = sockets.store.get(s).and_then(Socket::raw).is_some_and(|raw| raw.header_included);
        let data = if whole { quoted.packet.clone() } else { quoted.payload(0) };
        told |= report(sockets, s, meta, error, quoted, to, data, now);
    }
    told
}

/// What all of them do with the socket they found. True: the socket heard of it.
#[allow(clippy::too_many_arguments)] // the kernel's own list: ip_icmp_error(sk, skb, err, port, info, payload)
fn report(
    sockets: &mut Registry,
    s: SocketId,
    meta: &Meta,
    error: IcmpError,
    quoted: &Quoted,
    to: SocketAddr,
    data: Bytes,
    now: Instant,
) -> bool {
    let Some(socket) = sockets.store.get(s) else { return false };
    let v6 = quoted.family() == Family::V6;
    let (number, hard) = if v6 { errno::of_icmp6(error.kind) } else { errno::of_icmp(error.kind) };
    let hard = match error.kind {
        // "if (code == ICMP_FRAG_NEEDED) { ipv4_sk_update_pmtu(skb, sk, info); if (inet->pmtudisc != IP_PMTUDISC_DONT) { err = EMSGSIZE; harderr = 1;"
        IcmpErrorKind::TooBig { .. } => i32::from(socket.options.discover(v6)) != IP_PMTUDISC_DONT,
        _ => hard,
    };
    if socket.options.wants_errors(v6) {
        // ip_recv_error: the message was not prepared for IP_PKTINFO, ipi_spec_dst stays empty.
        let unspecified = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let seen = Seen {
            to: quoted.source,
            own: unspecified,
            to_port: None,
            interface: meta.interface.0,
            ttl: meta.ttl,
            tos: meta.tos,
            headers: None,
            flow_info: 0,
            mark: 0,
        };
        let (kind, code) = if v6 { errno::icmp6_type_and_code(error.kind) } else { errno::icmp_type_and_code(error.kind) };
        let entry = QueuedError {
            errno: number,
            origin: if v6 { SO_EE_ORIGIN_ICMP6 } else { SO_EE_ORIGIN_ICMP },
            kind,
            code,
            info: information(error.kind),
            value: 0,
            offender: Some(error.from),
            to: Some(to),
            data,
            seen: Some(seen),
            at: now,
            statistics: false,
        };
        error_queue::queue(sockets, s, entry);
    } else if !hard || socket.remote.is_none() {
        return false;
    }
    if let Some(socket) = sockets.store.get_mut(s) {
        socket.error = Some(number);
    }
    sockets.touch(s, Poll::ERR);
    true
}

/// `ee_info`: the next hop's MTU, or where the header has its error.
fn information(kind: IcmpErrorKind) -> u32 {
    match kind {
        IcmpErrorKind::TooBig { mtu } => mtu,
        IcmpErrorKind::ParameterProblem { pointer } => pointer,
        _ => 0,
    }
}
