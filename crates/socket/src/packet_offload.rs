//! What a program says of a frame that it sends: PACKET_VNET_HDR (`virtio_net_hdr_to_skb`).

use crate::errno::Errno;
use weft_core::Frame;
use weft_core::offload;
use weft_core::vnet::{self, GSO_ECN, GSO_TCPV4, GSO_TCPV6, GSO_UDP_L4, Header, NEEDS_CSUM};

/// Bytes of headers without options: of IPv4 and IPv6, TCP and UDP. Those of a checksum.
const IPV4_BYTES: usize = 20;
const IPV6_BYTES: usize = 40;
const TCP_BYTES: usize = 20;
const UDP_BYTES: usize = 8;
const CHECKSUM_BYTES: usize = 2;
/// Where TCP and UDP have their checksum.
const TCP_CHECKSUM_AT: usize = 16;
const UDP_CHECKSUM_AT: usize = 6;
/// UDP_MAX_SEGMENTS
const UDP_SEGMENTS_MAX: usize = 128;
/// GSO_BY_FRAGS
const BY_FRAGMENTS: usize = 0xffff;

fn word(header: &Header, at: usize) -> usize {
    usize::from(u16::from_ne_bytes([header[at], header[at + 1]]))
}

/// Is it larger than a wire takes?
pub(crate) fn is_cut(header: &Header) -> bool {
    header[1] != 0
}

/// `__packet_snd_vnet_parse`: headers reach as far as the checksum's field, and not beyond the frame.
pub(crate) fn settle(header: &mut Header, bytes: usize) -> Result<(), Errno> {
    let needed = word(header, 6) + word(header, 8) + CHECKSUM_BYTES;
    if header[0] & NEEDS_CSUM != 0 && needed > word(header, 2) {
        header[2..4].copy_from_slice(&(needed as u16).to_ne_bytes());
    }
    if word(header, 2) > bytes { Err(Errno::EINVAL) } else { Ok(()) }
}

/// Gives a frame what is said of it; `link_bytes`: its link header. EINVAL: that cannot be.
pub(crate) fn apply(header: &Header, frame: &mut Frame, link_bytes: usize) -> Result<(), Errno> {
    let kind = header[1] & !GSO_ECN;
    let (transport_bytes, network_bytes, checksum_at) = match kind {
        _ if header[1] == 0 => (0, IPV4_BYTES, None),
        GSO_TCPV4 => (TCP_BYTES, IPV4_BYTES, Some(TCP_CHECKSUM_AT)),
        GSO_TCPV6 => (TCP_BYTES, IPV6_BYTES, Some(TCP_CHECKSUM_AT)),
        GSO_UDP_L4 => (UDP_BYTES, IPV4_BYTES, Some(UDP_CHECKSUM_AT)),
        _ => return Err(Errno::EINVAL),
    };
    let (segment_bytes, partial) = (word(header, 4), header[0] & NEEDS_CSUM != 0);
    if header[1] != 0 && (segment_bytes == 0 || segment_bytes == BY_FRAGMENTS) {
        return Err(Errno::EINVAL);
    }
    let mut headers = link_bytes + network_bytes + transport_bytes;
    if partial {
        let (start, offset) = (word(header, 6), word(header, 8));
        // "if (skb_transport_offset(skb) < nh_min_len) return -EINVAL;"
        let needed = start + transport_bytes.max(offset + CHECKSUM_BYTES);
        if needed > frame.len() || start < network_bytes || checksum_at.is_some_and(|at| at != offset) {
            return Err(Errno::EINVAL);
        }
        headers = start + transport_bytes;
    } else if header[1] != 0 {
        // "gso packets without NEEDS_CSUM do not set transport_offset. probe and drop if does not match one of the above types."
        let found = offload::headers(frame).ok_or(Errno::EINVAL)?;
        let of_kind = found.ipv6 == (kind == GSO_TCPV6) || kind == GSO_UDP_L4;
        // "if (!(hdr->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM)) return -EINVAL", of UDP.
        if !of_kind || kind == GSO_UDP_L4 {
            return Err(Errno::EINVAL);
        }
        headers = found.transport + transport_bytes;
    }
    let payload = frame.len().checked_sub(headers);
    if header[1] != 0 && payload.is_none_or(|bytes| kind == GSO_UDP_L4 && bytes > segment_bytes * UDP_SEGMENTS_MAX) {
        return Err(Errno::EINVAL);
    }
    vnet::decode(header, 0, frame);
    // "Too small packets are not really GSO ones."
    if payload.is_some_and(|bytes| bytes <= segment_bytes) {
        frame.meta_mut().gso = None;
    }
    // What cannot be cut is lost: validate_xmit_skb, "segs = skb_gso_segment(skb, features); if (IS_ERR(segs)) { goto out_kfree_skb;", and
    // __dev_queue_xmit comes to -ENOMEM.
    match frame.meta().gso {
        Some(_) if offload::headers(frame).is_none() => Err(Errno::ENOMEM),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_core::{Checksum, GsoKind};

    fn header(flags: u8, kind: u8, words: [u16; 4]) -> Header {
        let mut out = [flags, kind, 0, 0, 0, 0, 0, 0, 0, 0];
        for (place, word) in out[2..].chunks_exact_mut(2).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        out
    }

    /// TCP over IPv4 with so much payload.
    fn frame(payload: usize) -> Frame {
        let mut bytes = vec![0; 54 + payload];
        bytes[12..14].copy_from_slice(&[8, 0]);
        (bytes[14], bytes[23], bytes[46]) = (0x45, 6, 0x50);
        bytes[16..18].copy_from_slice(&(40 + payload as u16).to_be_bytes());
        Frame::ingress(&bytes)
    }

    #[test]
    fn a_large_frame_is_to_be_cut() {
        let mut large = frame(5000);
        apply(&header(NEEDS_CSUM, GSO_TCPV4, [54, 1400, 34, 16]), &mut large, 14).unwrap();
        assert_eq!(large.meta().gso.map(|gso| (gso.segment_bytes, gso.kind)), Some((1400, GsoKind::Tcp)));
        assert_eq!(large.meta().checksum, Checksum::Partial { offset: 16 });
        let mut small = frame(1400);
        apply(&header(NEEDS_CSUM, GSO_TCPV4, [54, 1400, 34, 16]), &mut small, 14).unwrap();
        assert_eq!(small.meta().gso, None);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for wrong in [
            header(0, 9, [54, 1400, 34, 16]),
            header(0, 3, [54, 1400, 34, 16]),
            header(NEEDS_CSUM, GSO_TCPV4, [54, 0, 34, 16]),
            header(NEEDS_CSUM, GSO_TCPV4, [54, 1400, 34, 6]),
            header(NEEDS_CSUM, 0, [0, 0, 60_000, 16]),
            header(0, GSO_TCPV6, [54, 1400, 0, 0]),
            header(0, GSO_UDP_L4, [54, 1400, 0, 0]),
            header(NEEDS_CSUM, GSO_UDP_L4, [42, 10, 34, 6]),
        ] {
            assert_eq!(apply(&wrong, &mut frame(5000), 14), Err(Errno::EINVAL), "{wrong:?}");
        }
        let mut reaches = header(NEEDS_CSUM, 0, [0, 0, 34, 16]);
        assert_eq!((settle(&mut reaches, 60), word(&reaches, 2)), (Ok(()), 52));
        assert_eq!(settle(&mut reaches, 51), Err(Errno::EINVAL));
    }
}
