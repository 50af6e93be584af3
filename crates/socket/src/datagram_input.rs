//! Datagrams that come in from the transport, on their way into the receive queues of sockets.

use crate::abi::THE_PROCESSOR;
use crate::address::scoped;
use crate::coalesce;
use crate::counters;
use crate::datagrams::{Datagrams, takes};
use crate::filter;
use crate::memory::truesize;
use crate::messages::Messages;
use crate::multicast::Groups;
use crate::options::Options;
use crate::outputs::{UNREACHABLE, UNREACHABLE6};
use crate::poll::Poll;
use crate::receive_queue;
use crate::registry::Registry;
use crate::socket::{Joined, SocketId, Waiting};
use std::net::{IpAddr, SocketAddr};
use weft_core::scope::link_of;
use weft_core::table::AddressKind;
use weft_core::{Checksum, Context, Frame, IcmpError, IcmpErrorKind, Instant, Reason};
use weft_wire::Protocol;

/// A datagram came in. Nobody wants it: it goes back as unreachable, with its IP header in front.
pub(crate) fn input(messages: &Messages, groups: &Groups, sockets: &mut Registry, mut frame: Frame, cx: &mut Context<'_>) {
    let lite = frame.meta().protocol == Protocol::UDPLITE;
    let datagrams: &Datagrams = if lite { &messages.lite } else { &messages.datagrams };
    sockets.count(if lite { counters::LITE_IN } else { counters::DATAGRAMS_IN });
    frame.meta_mut().interface = link_of(frame.meta().interface, frame.meta().dst, cx);
    let meta = frame.meta();
    let (to, from) = (SocketAddr::new(meta.dst, meta.dst_port), SocketAddr::new(meta.src, meta.src_port));
    let interface = meta.interface.0;
    let group = matches!(sockets.kinds.of(to.ip(), cx), AddressKind::Broadcast | AddressKind::Multicast);
    if group && !groups.has_member(to.ip(), interface) {
        return cx.drop(frame, Reason::NotForUs);
    }
    let Some(candidates) = datagrams.receivers.get(&to.port()) else { return unwanted(sockets, frame, group, cx) };
    if group {
        let wanting: Vec<SocketId> = candidates
            .iter()
            .copied()
            .filter(|s| {
                sockets
                    .store
                    .get(*s)
                    .is_some_and(|socket| takes(socket, to, from, interface) && socket.options.hears(to.ip(), from.ip(), interface))
            })
            .collect();
        let own = receive_queue::own_address(&mut sockets.kinds, to.ip(), from.ip(), interface, cx);
        if wanting.is_empty() {
            return cx.drop(frame, Reason::NoPort);
        }
        for s in wanting {
            enqueue(sockets, s, datagrams.vector, frame.clone(), own, cx);
        }
        return;
    }
    match datagrams.find(candidates, sockets, to, from, interface) {
        Some(s) => enqueue(sockets, s, datagrams.vector, frame, to.ip(), cx),
        None => unwanted(sockets, frame, false, cx),
    }
}

fn unwanted(sockets: &mut Registry, mut frame: Frame, group: bool, cx: &mut Context<'_>) {
    // __udp6_lib_rcv: "if (!uh->check) goto report_csum_error;", before its sender hears that nobody wants it.
    if frame.meta().checksum == Checksum::Absent {
        sockets.count(counters::UNCHECKED);
        return cx.drop(frame, Reason::BadChecksum);
    }
    let lite = frame.meta().protocol == Protocol::UDPLITE;
    sockets.count(if lite { counters::LITE_NO_PORTS } else { counters::NO_PORTS });
    let (at, from) = (frame.meta().network_at, frame.meta().dst);
    let out = if from.is_ipv6() { UNREACHABLE6 } else { UNREACHABLE };
    // RFC 1122 §3.2.2: "An ICMP error message MUST NOT be sent as the result of receiving … a datagram destined to an IP broadcast or
    // IP multicast address". RFC 4443 §2.4 (e.3) likewise.
    if group || at == 0 || !cx.is_bound(out) {
        return cx.drop(frame, Reason::NoPort);
    }
    frame.rewind(at);
    frame.meta_mut().error = Some(IcmpError { kind: IcmpErrorKind::PortUnreachable, from });
    cx.emit(out, frame);
}

/// Does the checksum of a UDP-Lite datagram cover as much as the socket wants? udp_queue_rcv_one_skb: "if (pcrlen == 0) { /* full coverage was set */ …
/// goto drop; } if (UDP_SKB_CB(skb)->cscov < pcrlen) { … goto drop; }"
fn is_covered(options: &Options, frame: &Frame) -> bool {
    match (frame.meta().checksum, options.coverage_received) {
        (Checksum::Covers(_), Some(0)) => false,
        (Checksum::Covers(bytes), Some(least)) => bytes >= least,
        _ => true,
    }
}

/// `__udp_enqueue_schedule_skb`: bounded by SO_RCVBUF in truesize.
fn enqueue(sockets: &mut Registry, s: SocketId, vector: u64, mut frame: Frame, own: IpAddr, cx: &mut Context<'_>) {
    let Some(socket) = sockets.store.get_mut(s) else { return cx.drop(frame, Reason::NoPort) };
    // __udp6_lib_rcv: "if (!uh->check && !udp_get_no_check6_rx(sk)) goto report_csum_error;": it never was the socket's, whose sk_drops does not count it.
    if frame.meta().checksum == Checksum::Absent && !socket.options.no_check6_received {
        sockets.count(counters::UNCHECKED);
        return cx.drop(frame, Reason::BadChecksum);
    }
    // udp_queue_rcv_one_skb: "if (sk_filter_trim_cap(sk, skb, sizeof(struct udphdr))) goto drop;", which counts in sk_drops.
    if !filter::passes(socket.options.filter.as_ref(), &mut frame, 8, 8) {
        if let Some(datagram) = socket.datagram_mut() {
            datagram.dropped = datagram.dropped.saturating_add(1);
        }
        return cx.drop(frame, Reason::Filtered);
    }
    let lite = frame.meta().protocol == Protocol::UDPLITE;
    if !is_covered(&socket.options, &frame) {
        if let Some(datagram) = socket.datagram_mut() {
            datagram.dropped = datagram.dropped.saturating_add(1);
        }
        sockets.count(counters::LITE_UNCOVERED);
        return cx.drop(frame, Reason::BadChecksum);
    }
    let room = socket.options.receive_buffer as usize;
    let coalesces = socket.options.udp_gro && !lite;
    let tells_dropped = socket.options.receive_overflow;
    let Some(datagram) = socket.datagram_mut() else { return cx.drop(frame, Reason::NoPort) };
    if coalesces && coalesce::joins_last(datagram, &frame, vector, room) {
        frame.take_completion().into_iter().for_each(|completion| cx.complete(completion));
        let before = datagram.queued_truesize;
        coalesce::join_last(datagram, frame);
        sockets.waiting_bytes += datagram.queued_truesize.saturating_sub(before);
        return sockets.touch(s, Poll::WAKES_READERS);
    }
    let bytes = frame.len();
    let truesize = truesize(bytes);
    if datagram.queued_truesize + truesize > room {
        datagram.dropped = datagram.dropped.saturating_add(1);
        sockets.count(if lite { counters::LITE_BUFFER_ERRORS } else { counters::RECEIVE_BUFFER_ERRORS });
        return cx.drop(frame, Reason::SocketBufferFull);
    }
    // __udp_enqueue_schedule_skb: "if (!__sk_mem_raise_allocated(…)) …", by udp_mem; counted as UdpMemErrors.
    if sockets.waiting_bytes + truesize > sockets.limits.datagram_bytes_max {
        datagram.dropped = datagram.dropped.saturating_add(1);
        sockets.count(counters::MEMORY_ERRORS);
        return cx.drop(frame, Reason::SocketBufferFull);
    }
    if let Some(completion) = frame.take_completion() {
        cx.complete(completion);
    }
    let meta = frame.meta();
    let received = if meta.received == Instant::ZERO { cx.now } else { meta.received };
    let waiting = Waiting {
        bytes,
        truesize,
        from: scoped(meta.src, meta.src_port, meta.interface.0),
        seen: receive_queue::seen(&frame, own, Some(meta.dst_port)),
        received,
        joined: Joined { each_bytes: 0, datagrams: 1, vector },
        dropped: if tells_dropped { datagram.dropped } else { 0 },
        data: frame.into_payload(),
        link: None,
    };
    datagram.queued_truesize += truesize;
    datagram.queue.push_back(waiting);
    sockets.waiting_bytes += truesize;
    if let Some(socket) = sockets.store.get_mut(s).filter(|socket| socket.remote.is_some()) {
        // __udp_queue_rcv_skb: "if (inet_sk(sk)->inet_daddr) { …; sk_incoming_cpu_update(sk);"
        socket.options.incoming_cpu = THE_PROCESSOR;
    }
    sockets.touch(s, Poll::WAKES_READERS);
}
