//! A segment from below: checksum, header, and whose it is.

use super::tables::Tuple;
use super::{Owner, TcpBlock, emit};
use crate::connection::{Headers, write_header};
use crate::counters::Counter;
use std::net::IpAddr;
use weft_core::scope::{link_of, scoped};
use weft_core::{Checksum, Context, Frame, InterfaceIndex, Reason, StreamOptions, Value};
use weft_wire::tcp::{Flags, HEADER_LEN, Options, Segment, Seq};
use weft_wire::{Protocol, checksum};

/// RFC 9293 §3.1: "The checksum field is the 16-bit ones' complement … of all 16-bit words in the header and text", with a pseudo-header.
fn checksum_matches(frame: &Frame) -> bool {
    let meta = frame.meta();
    let length = frame.len() as u32;
    let sum = match (meta.src, meta.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => checksum::pseudo_v4(src, dst, Protocol::TCP.0, length),
        (IpAddr::V6(src), IpAddr::V6(dst)) => checksum::pseudo_v6(src, dst, Protocol::TCP.0, length),
        _ => return false,
    };
    frame.chunks().fold(sum, |sum, chunk| sum.add_bytes(chunk)).fold() == 0xffff
}

/// Makes the header contiguous, and not a byte more: payload that was pulled into the head would have to be copied out of it again.
fn gather_header(frame: &mut Frame) {
    for _ in 0..2 {
        let wanted = frame.head().get(12).map_or(HEADER_LEN, |offset| usize::from(offset >> 4) * 4);
        if frame.head().len() >= wanted || frame.pull_up(wanted).is_err() {
            return;
        }
    }
}

/// Can nobody be a peer by this address?
fn is_no_peer(address: IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(ip) if ip.is_broadcast());
    address.is_multicast() || address.is_unspecified() || broadcast
}

/// Linux tcp_v4_rcv, tcp_v6_rcv: "if (unlikely(iph->ttl < READ_ONCE(inet_sk(sk)->min_ttl)))", "hdr->hop_limit < … min_hopcount" (RFC 5082).
fn comes_from_too_far(options: &StreamOptions, frame: &Frame) -> bool {
    let meta = frame.meta();
    meta.ttl < if meta.dst.is_ipv4() { options.min_ttl } else { options.min_hop_count }
}

/// Linux tcp_filter: "return sk_filter_trim_cap(sk, skb, th->doff * 4)", of every segment for a listener, what it accepts, and a connection.
fn is_filtered(options: &StreamOptions, frame: &mut Frame) -> bool {
    let Some(filter) = &options.filter else { return false };
    let payload_at = frame.position();
    frame.rewind(frame.meta().transport_at);
    let wanted = filter.run(frame);
    frame.rewind(payload_at);
    wanted == 0
}

/// The way of a segment about which nothing else is known.
pub(super) fn bare(tuple: &Tuple) -> Headers {
    let (local, remote) = (tuple.local, tuple.remote);
    Headers {
        local,
        remote,
        tos: 0,
        ttl: 0,
        mark: 0,
        interface: InterfaceIndex::NONE,
        dont_fragment: true,
        ip_options: None,
        attached: None,
    }
}

impl TcpBlock {
    pub(super) fn segment_in(&mut self, mut frame: Frame, cx: &mut Context<'_>) {
        let counters = &mut self.out.counters;
        let each = frame.meta().gso.map_or(u32::MAX, |gso| u32::from(gso.segment_bytes).max(1));
        let header_bytes = frame.head().get(12).map_or(0, |offset| u32::from(offset >> 4) * 4);
        counters.add(Counter::InSegs, u64::from((frame.len() as u32).saturating_sub(header_bytes).div_ceil(each).max(1)));
        if frame.meta().checksum == Checksum::Unknown && !checksum_matches(&frame) {
            counters.add(Counter::InErrs, 1);
            counters.add(Counter::InCsumErrors, 1);
            return cx.drop(frame, Reason::BadChecksum);
        }
        gather_header(&mut frame);
        let (segment, header_bytes) = match Segment::parse(frame.head()) {
            Ok(parsed) => parsed,
            Err(_) => {
                counters.add(Counter::InErrs, 1);
                let reason = if frame.len() < HEADER_LEN { Reason::Truncated } else { Reason::BadHeaderLength };
                return cx.drop(frame, reason);
            }
        };
        frame.meta_mut().transport_at = frame.position();
        // Cannot fail: the header was there.
        let _ = frame.pull(header_bytes);
        frame.meta_mut().interface = link_of(frame.meta().interface, frame.meta().dst, cx);
        let (meta, interface) = (frame.meta(), frame.meta().interface);
        let (local, remote) = (scoped(meta.dst, segment.dst_port, interface), scoped(meta.src, segment.src_port, interface));
        // RFC 9293 §3.9.2.3: "A TCP implementation MUST silently discard an incoming SYN segment that is addressed to a broadcast or multicast
        // address", and §3.10.7.2's "invalid source address".
        if is_no_peer(remote.ip()) || is_no_peer(local.ip()) {
            return cx.drop(frame, Reason::MartianSource);
        }
        self.dispatch(Tuple { local, remote }, &segment, frame, cx);
    }

    pub(super) fn dispatch(&mut self, tuple: Tuple, segment: &Segment, mut frame: Frame, cx: &mut Context<'_>) {
        match self.tuples.get(&tuple).copied() {
            Some(Owner::Connection(key)) => {
                self.with_connection(key, cx, |connection, env| match comes_from_too_far(connection.options(), &frame) {
                    false if is_filtered(connection.options(), &mut frame) => env.refuse(Reason::Filtered),
                    false => connection.on_segment(env, segment, frame),
                    true => env.out.counters.add(Counter::TCPMinTTLDrop, 1),
                });
            }
            Some(Owner::Request(key)) if self.options_of_request(key).is_some_and(|options| is_filtered(options, &mut frame)) => {
                cx.drop(frame, Reason::Filtered);
            }
            Some(Owner::Request(key)) => self.on_request_segment(key, segment, frame, cx),
            Some(Owner::TimeWait(key)) => self.on_time_wait_segment(key, segment, frame, cx),
            None => match self.find_listener(&tuple, frame.meta().interface) {
                Some(listener) if self.listeners.get(listener).is_some_and(|found| comes_from_too_far(&found.options, &frame)) => {
                    self.out.counters.add(Counter::TCPMinTTLDrop, 1);
                    cx.drop(frame, Reason::TtlExceeded);
                }
                Some(listener) if self.listeners.get(listener).is_some_and(|found| is_filtered(&found.options, &mut frame)) => {
                    cx.drop(frame, Reason::Filtered);
                }
                Some(listener) => self.on_listener_segment(listener, &tuple, segment, frame, None, cx),
                None => {
                    self.reset_in_answer(&tuple, segment, frame.len() as u32, cx);
                    cx.drop(frame, Reason::NoPort);
                }
            },
        }
    }

    /// RFC 9293 §3.10.7.1: "If the state is CLOSED … An incoming segment not containing a RST causes a RST to be sent in response."
    pub(super) fn reset_in_answer(&mut self, tuple: &Tuple, segment: &Segment, length: u32, cx: &mut Context<'_>) {
        self.reset_with(tuple, segment, length, Options::default(), cx);
    }

    /// The same with options that say why.
    pub(super) fn reset_with(&mut self, tuple: &Tuple, segment: &Segment, length: u32, options: Options, cx: &mut Context<'_>) {
        if segment.flags.contains(Flags::RST) {
            return;
        }
        if !self.resets.take(cx.now, self.settings.reset_limit) {
            self.resets_held += 1;
            cx.count_drop(Reason::RateLimited);
            if self.resets_held == 1 {
                cx.alert("reset-flood", serde_json::json!({"dropped": self.resets_held}));
            }
            return;
        }
        self.resets_held = 0;
        let mut reset =
            Segment { src_port: tuple.local.port(), dst_port: tuple.remote.port(), flags: Flags::RST, options, ..Segment::default() };
        if segment.flags.contains(Flags::ACK) {
            // "<SEQ=SEG.ACK><CTL=RST>"
            reset.seq = segment.ack;
        } else {
            // "<SEQ=0><ACK=SEG.SEQ+SEG.LEN><CTL=RST,ACK>"
            reset.seq = Seq(0);
            reset.ack = segment.seq + segment.sequence_len(length);
            reset.flags |= Flags::ACK;
        }
        self.out.counters.add(Counter::OutRsts, 1);
        self.emit_bare(&reset, &bare(tuple));
        self.flush(cx);
    }

    /// A segment without payload that belongs to no connection.
    pub(super) fn emit_bare(&mut self, segment: &Segment, to: &Headers) {
        let mut frame = Frame::egress();
        write_header(&mut frame, segment, to);
        emit(&mut self.out, frame);
    }

    /// Rows of the table of flows.
    pub(super) fn rows(&self, now: weft_core::Instant) -> Vec<Value> {
        let listening = self.listeners.iter().map(|(_, listener)| listener.row());
        let connections = self.connections.iter().map(|(_, slot)| {
            let connection = &slot.connection;
            let mut row = serde_json::to_value(connection.info(&self.settings, now)).unwrap_or(Value::Null);
            if let Some(fields) = row.as_object_mut() {
                fields.insert("flow".to_owned(), connection.flow().0.into());
                fields.insert("local".to_owned(), connection.local().to_string().into());
                fields.insert("remote".to_owned(), connection.remote().to_string().into());
                fields.insert("state".to_owned(), connection.state().name().into());
            }
            row
        });
        let half_open = self.requests.iter().map(|(_, request)| request.row());
        let waiting = self.time_waits.iter().map(|(_, record)| record.row(now));
        listening.chain(connections).chain(half_open).chain(waiting).collect()
    }
}
