//! Headers of what leaves.

use std::net::{IpAddr, SocketAddr};
use weft_core::{Attached, Checksum, Frame, InterfaceIndex, StreamOptions};
use weft_wire::ipv4::Prepared;
use weft_wire::tcp::{CHECKSUM_OFFSET, Segment};
use weft_wire::{Protocol, checksum};

/// Where a segment goes, beside its TCP header.
#[derive(Clone, Debug)]
pub(crate) struct Headers {
    pub local: SocketAddr,
    pub remote: SocketAddr,
    pub tos: u8,
    pub ttl: u8,
    pub mark: u32,
    pub interface: InterfaceIndex,
    pub dont_fragment: bool,
    /// Over IPv4 only.
    pub ip_options: Option<Prepared>,
    /// Over IPv6 only.
    pub attached: Option<Box<Attached>>,
}

/// Puts the TCP header in front of a frame that holds the payload, and fills in what IP is to know. The checksum is left to the edge.
pub(crate) fn write_header(frame: &mut Frame, segment: &Segment, to: &Headers) {
    let header_bytes = segment.header_len();
    let length = (header_bytes + frame.len()) as u32;
    let header = frame.push(header_bytes);
    segment.emit(header);
    let sum = match (to.local.ip(), to.remote.ip()) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => checksum::pseudo_v4(src, dst, Protocol::TCP.0, length),
        (IpAddr::V6(src), IpAddr::V6(dst)) => checksum::pseudo_v6(src, dst, Protocol::TCP.0, length),
        // Mixed families cannot be a connection.
        _ => checksum::Sum::new(),
    };
    header[CHECKSUM_OFFSET..CHECKSUM_OFFSET + 2].copy_from_slice(&sum.fold().to_be_bytes());
    let position = frame.position();
    let meta = frame.meta_mut();
    meta.checksum = Checksum::Partial { offset: CHECKSUM_OFFSET as u16 };
    meta.src = to.local.ip();
    meta.dst = to.remote.ip();
    meta.src_port = to.local.port();
    meta.dst_port = to.remote.port();
    meta.protocol = Protocol::TCP;
    meta.tos = to.tos;
    meta.ttl = to.ttl;
    meta.mark = to.mark;
    meta.interface = to.interface;
    meta.dont_fragment = to.dont_fragment;
    meta.transport_at = position;
    meta.attached = to.attached.clone().filter(|_| to.remote.is_ipv6());
    meta.ip_options = to.ip_options.filter(|_| to.remote.is_ipv4()).map(Box::new);
}

/// IP_OPTIONS of a connection, ready for headers.
pub(crate) fn prepared(options: &StreamOptions) -> Option<Prepared> {
    match options.ip_options.as_slice() {
        [] => None,
        given => Prepared::new(given, |_| false),
    }
}
