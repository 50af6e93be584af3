//! What is kept of the packet that a connection began with: its headers (TCP_SAVE_SYN), and the IP options to answer it with.

use std::net::IpAddr;
use weft_core::{Bytes, Frame};
use weft_wire::ipv4::{self, Prepared};

/// `tcp_v4_save_options` and `tcp_reqsk_record_syn`.
#[derive(Debug, Clone, Default)]
pub(super) struct Kept {
    /// Link-layer, IP and TCP header, or the latter two; empty: not asked for.
    pub syn: Bytes,
    /// The answer to its IPv4 options, as IP_OPTIONS would give it.
    pub ip_options: Vec<u8>,
}
weft_core::fields!(struct Kept { syn, ip_options });

impl Kept {
    /// Of a frame that begins with the payload. `save_syn` is TCP_SAVE_SYN.
    pub(super) fn of(frame: &Frame, save_syn: u8) -> Kept {
        let (network_at, end) = (frame.meta().network_at, frame.position());
        if network_at == 0 || network_at >= end {
            return Kept::default();
        }
        let header = frame.pulled(network_at);
        let ip_options = match (header.first().map(|first| usize::from(first & 0xf) * 4), frame.meta().src) {
            (Some(length), IpAddr::V4(from)) if length > ipv4::HEADER_LEN => header
                .get(ipv4::HEADER_LEN..length)
                .and_then(|options| Prepared::answer(options, from, |_| false))
                .map_or_else(Vec::new, |answer| answer.given().to_vec()),
            _ => Vec::new(),
        };
        if save_syn == 0 {
            return Kept { syn: Bytes::new(), ip_options };
        }
        // skb_mac_header_len(skb): 14 bytes on Ethernet and on the loopback interface, whose Ethernet header is empty but for the type.
        let mut syn = if save_syn == 2 { link_header(frame) } else { Vec::new() };
        syn.extend_from_slice(header);
        Kept { syn: syn.into(), ip_options }
    }

    pub(super) fn prepared(&self) -> Option<Prepared> {
        if self.ip_options.is_empty() { None } else { Prepared::new(&self.ip_options, |_| false) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.syn.is_empty() && self.ip_options.is_empty()
    }
}

fn link_header(frame: &Frame) -> Vec<u8> {
    let meta = frame.meta();
    [&meta.dst_mac.0[..], &meta.src_mac.0, &meta.ether_type.0.to_be_bytes()].concat()
}
