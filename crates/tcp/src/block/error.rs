//! ICMP errors about segments of ours: the quoted packet says which.

use super::tables::Tuple;
use super::{Owner, TcpBlock};
use std::net::IpAddr;
use weft_core::scope::{link_of, scoped};
use weft_core::table::Family;
use weft_core::{Change, Context, Direction, Frame, IcmpErrorKind, Reason, Table};
use weft_wire::tcp::Seq;
use weft_wire::{Protocol, ipv4, ipv6::Chain};

/// Bytes of TCP header that every error quotes (RFC 792): ports and sequence number.
const QUOTED_BYTES: usize = 8;

/// Addresses of the quoted packet, and where its transport header begins.
fn quoted_addresses(bytes: &[u8]) -> Option<(IpAddr, IpAddr, usize)> {
    match bytes.first()? >> 4 {
        4 => {
            let (header, length) = ipv4::Header::parse(bytes).ok()?;
            (header.protocol == Protocol::TCP && header.fragment_offset == 0).then_some((header.src.into(), header.dst.into(), length))
        }
        6 => {
            let chain = Chain::parse(bytes).ok()?;
            let ours = chain.protocol == Protocol::TCP && chain.has_upper_layer();
            ours.then_some((chain.header.src.into(), chain.header.dst.into(), chain.offset))
        }
        _ => None,
    }
}

impl TcpBlock {
    pub(super) fn error_in(&mut self, mut frame: Frame, cx: &mut Context<'_>) {
        // What this node's own IP refused is the segment itself: it has come to its end here.
        if let Some(completion) = frame.take_completion() {
            cx.complete(completion);
        }
        let Some(kind) = frame.meta().error.map(|error| error.kind) else { return cx.drop(frame, Reason::BadPacket) };
        // No router says that: this node has no route any more.
        let routeless =
            frame.meta().direction == Direction::Egress && matches!(kind, IcmpErrorKind::NetUnreachable | IcmpErrorKind::Prohibited);
        let wanted = frame.len().min(60 + QUOTED_BYTES);
        // Cannot fail: not more than there is.
        let _ = frame.pull_up(wanted);
        let head = frame.head();
        let quoted = quoted_addresses(head).and_then(|(src, dst, at)| Some((src, dst, *head.get(at..)?.first_chunk::<QUOTED_BYTES>()?)));
        let Some((src, dst, [a, b, c, d, seq @ ..])) = quoted else { return cx.drop(frame, Reason::Truncated) };
        let (interface, ports) = (link_of(frame.meta().interface, src, cx), (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])));
        let tuple = Tuple { local: scoped(src, ports.0, interface), remote: scoped(dst, ports.1, interface) };
        let seq = Seq(u32::from_be_bytes(seq));
        match self.tuples.get(&tuple).copied() {
            Some(Owner::Connection(key)) => {
                let narrower = self.with_connection(key, cx, |connection, env| {
                    let before = connection.learned_mtu();
                    connection.on_icmp(env, kind, seq, routeless);
                    connection.learned_mtu() != before
                });
                // Whoever made the error knew a segment on its way: other connections may believe it too (Linux tcp_v4_mtu_reduced).
                if let (IcmpErrorKind::TooBig { mtu }, Some(true)) = (kind, narrower) {
                    cx.tell(Table::Routes(Family::of(dst)), Change::PathMtu { destination: dst, mtu });
                }
            }
            Some(Owner::Request(key)) if !matches!(kind, IcmpErrorKind::TooBig { .. } | IcmpErrorKind::TtlExceeded) => {
                self.on_request_error(key, seq, cx)
            }
            Some(_) => {}
            None => cx.drop(frame, Reason::NoConnection),
        }
    }
}
