//! `struct virtio_net_hdr`: what TAP devices, packet sockets (the host's and the node's own) and the devices of Linux nodes say about a frame's checksum and segments
//! (include/uapi/linux/virtio_net.h; virtio 1.2 §5.1.6).
//!
//! ```text
//! 0       1          2         4          6            8             10
//! | flags | gso type | hdr len | gso size | csum start | csum offset |
//! ```
//!
//! Fields are in the machine's byte order, which is what both devices use unless told otherwise (TUNSETVNETLE). The header of 10 bytes is
//! used, not the one of 12: the field it adds (`num_buffers`) means nothing here, and packet sockets know only 10 before Linux 6.6.

use crate::offload::{self, Headers};
use crate::{Checksum, Frame, Gso, GsoKind};

/// Length of the header, bytes.
pub const HEADER_BYTES: usize = 10;
/// The header as it lies before a frame.
pub type Header = [u8; HEADER_BYTES];

/// Flags: the checksum's field has that of the pseudo-header alone; the checksum was looked at.
pub const NEEDS_CSUM: u8 = 1;
/// See there.
pub const DATA_VALID: u8 = 2;
/// Kinds of large frames.
pub const GSO_TCPV4: u8 = 1;
/// Of TCP over IPv6.
pub const GSO_TCPV6: u8 = 4;
/// USO, since Linux 6.2.
pub const GSO_UDP_L4: u8 = 5;
/// The frame has CWR set, which only its first segment may keep.
pub const GSO_ECN: u8 = 0x80;

const CHECKSUM_BYTES: usize = 2;
const TCP_FLAGS_AT: usize = 13;
const TCP_CWR: u8 = 0x80;
const UDP_HEADER_BYTES: usize = 8;

/// Fills a received frame's metadata. The frame begins with what the device calls its first byte; `inserted` bytes of VLAN tag have been put
/// in since.
///
/// However the frame was read, it means the same: headers as far as the checksum's field become a part of its head. A field that does not lie in
/// the frame is not believed.
pub fn decode(header: &Header, inserted: u16, frame: &mut Frame) {
    let word = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
    let (gso_size, start, offset) = (word(4), word(6), word(8));
    let field = usize::from(start) + usize::from(inserted) + usize::from(offset);
    // A place beyond 64 KiB of head has no name; no frame has headers of that length.
    let transport_at = frame.position().checked_add(start).and_then(|at| at.checked_add(inserted));
    let partial = header[0] & NEEDS_CSUM != 0 && transport_at.is_some() && frame.pull_up(field + CHECKSUM_BYTES).is_ok();
    let meta = frame.meta_mut();
    if let (true, Some(transport_at)) = (partial, transport_at) {
        meta.checksum = Checksum::Partial { offset };
        meta.transport_at = transport_at;
    } else if header[0] & DATA_VALID != 0 {
        meta.checksum = Checksum::Valid;
    }
    let kind = match header[1] & !GSO_ECN {
        GSO_TCPV4 | GSO_TCPV6 => GsoKind::Tcp,
        GSO_UDP_L4 => GsoKind::Udp,
        _ => return,
    };
    if gso_size != 0 {
        meta.gso = Some(Gso { segment_bytes: gso_size, kind });
    }
}

/// The header for a frame to be sent. Only for frames that are sent as they are: those whose checksum and segments the other side takes as they are.
pub fn encode(frame: &Frame) -> Header {
    let mut header = [0; HEADER_BYTES];
    let meta = frame.meta();
    let partial = match meta.checksum {
        Checksum::Partial { offset } => Some(offset),
        _ => None,
    };
    if partial.is_none() && meta.gso.is_none() {
        return header;
    }
    let mut put = |at: usize, value: u16| header[at..at + 2].copy_from_slice(&value.to_ne_bytes());
    let position = frame.position();
    let known = (meta.gso.is_none() && meta.transport_at >= position && meta.transport_at != 0).then(|| meta.transport_at - position);
    let found = if known.is_some() { None } else { offload::headers(frame) };
    let transport = known.or_else(|| found.map(|headers| headers.transport as u16));
    if let (Some(offset), Some(transport)) = (partial, transport) {
        put(6, transport);
        put(8, offset);
    }
    let mut gso_type = 0;
    if let (Some(gso), Some(headers)) = (meta.gso, found) {
        let (kind, transport_bytes) = segments(frame, gso.kind, headers);
        gso_type = kind;
        put(2, (headers.transport + transport_bytes) as u16);
        put(4, gso.segment_bytes);
    }
    header[0] = if partial.is_some() && transport.is_some() { NEEDS_CSUM } else { 0 };
    header[1] = gso_type;
    header
}

/// The GSO type, and the transport header's length in bytes.
fn segments(frame: &Frame, kind: GsoKind, headers: Headers) -> (u8, usize) {
    match kind {
        GsoKind::Udp => (GSO_UDP_L4, UDP_HEADER_BYTES),
        GsoKind::Tcp => {
            let transport = frame.head().get(headers.transport..).unwrap_or_default();
            let cwr = transport.get(TCP_FLAGS_AT).is_some_and(|flags| flags & TCP_CWR != 0);
            let bytes = transport.get(TCP_FLAGS_AT - 1).map_or(20, |offset| usize::from(offset >> 4) * 4);
            ((if headers.ipv6 { GSO_TCPV6 } else { GSO_TCPV4 }) | (if cwr { GSO_ECN } else { 0 }), bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    fn frame(ipv6: bool, kind: GsoKind, cwr: bool) -> Frame {
        let mut bytes = Vec::new();
        let link = PacketBuilder::ethernet2([2; 6], [4; 6]);
        let net = if ipv6 { link.ipv6([1; 16], [2; 16], 9) } else { link.ipv4([1, 2, 3, 4], [5, 6, 7, 8], 9) };
        match kind {
            GsoKind::Udp => net.udp(1, 2).write(&mut bytes, &[0; 4000]).unwrap(),
            GsoKind::Tcp => {
                let tcp = net.tcp(1, 2, 3, 4).options_raw(&[1; 12]).unwrap();
                if cwr { tcp.cwr() } else { tcp }.write(&mut bytes, &[0; 4000]).unwrap();
            }
        }
        let mut frame = Frame::ingress(&bytes);
        frame.meta_mut().checksum = Checksum::Partial { offset: if kind == GsoKind::Tcp { 16 } else { 6 } };
        frame.meta_mut().gso = Some(Gso { segment_bytes: 1400, kind });
        frame
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        for (ipv6, kind, cwr, gso_type, header_bytes, start) in [
            (false, GsoKind::Tcp, false, 1, 14 + 20 + 32, 34),
            (false, GsoKind::Tcp, true, 0x81, 14 + 20 + 32, 34),
            (true, GsoKind::Tcp, false, 4, 14 + 40 + 32, 54),
            (false, GsoKind::Udp, false, 5, 14 + 20 + 8, 34),
            (true, GsoKind::Udp, false, 5, 14 + 40 + 8, 54),
        ] {
            let sent = frame(ipv6, kind, cwr);
            let header = encode(&sent);
            assert_eq!((header[0], header[1]), (NEEDS_CSUM, gso_type));
            assert_eq!(u16::from_ne_bytes([header[2], header[3]]), header_bytes);
            let mut received = Frame::ingress(&sent.to_vec());
            decode(&header, 0, &mut received);
            assert_eq!((received.meta().gso, received.meta().checksum), (sent.meta().gso, sent.meta().checksum));
            assert_eq!(received.meta().transport_at, received.position() + start);
        }
    }

    #[test]
    fn a_plain_frame_says_nothing_and_a_position_beyond_the_frame_is_not_believed() {
        let mut plain = frame(false, GsoKind::Tcp, false);
        plain.meta_mut().gso = None;
        plain.meta_mut().checksum = Checksum::Unknown;
        assert_eq!(encode(&plain), [0; HEADER_BYTES]);
        let mut header = [0; HEADER_BYTES];
        header[0] = NEEDS_CSUM;
        header[6..8].copy_from_slice(&60_000u16.to_ne_bytes());
        let mut short = Frame::ingress(&[0; 60]);
        decode(&header, 0, &mut short);
        assert_eq!((short.meta().checksum, short.meta().transport_at), (Checksum::Unknown, 0));
    }

    #[test]
    fn a_tag_that_was_put_in_moves_the_transport_header() {
        let mut header = [0; HEADER_BYTES];
        header[0] = NEEDS_CSUM;
        header[6..8].copy_from_slice(&34u16.to_ne_bytes());
        let mut frame = Frame::ingress(&[0; 100]);
        decode(&header, 4, &mut frame);
        assert_eq!(frame.meta().transport_at, frame.position() + 38);
    }
}
