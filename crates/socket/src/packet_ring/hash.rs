//! A number for the flow of a frame (`skb_get_hash_symmetric`): the same for both directions. Linux draws a key for it at each boot, so that no
//! program can know it beforehand; here it is the same in every run.

use weft_core::Frame;
use weft_wire::ethernet::EtherType;

/// Bytes of headers that are looked at.
const LOOKED_AT: usize = 64;
const IPV4_BYTES: usize = 20;
const IPV6_BYTES: usize = 40;
/// Protocols with ports in their first four bytes: TCP, UDP, SCTP, DCCP, UDP-Lite.
const WITH_PORTS: [u8; 5] = [6, 17, 33, 132, 136];

/// Of a frame whose network header begins at `network_at`.
pub(crate) fn of(frame: &Frame, network_at: usize, protocol: u16) -> u32 {
    let mut bytes = Vec::with_capacity(network_at + LOOKED_AT);
    for chunk in frame.chunks() {
        let left = (network_at + LOOKED_AT).saturating_sub(bytes.len());
        bytes.extend_from_slice(chunk.get(..left).unwrap_or(chunk));
    }
    let packet = bytes.get(network_at..).unwrap_or_default();
    let mut parts: Vec<u8> = Vec::with_capacity(LOOKED_AT);
    let (transport, addresses, kind) = match EtherType(protocol) {
        EtherType::IPV4 if packet.len() >= IPV4_BYTES => {
            // Pieces of a packet but the first have no ports: none of them counts any.
            let whole = packet.get(6..8).is_some_and(|field| u16::from_be_bytes([field[0], field[1]]) & 0x3fff == 0);
            let header = usize::from(packet[0] & 0xf) * 4;
            (packet.get(header..).filter(|_| whole), packet.get(12..20), packet[9])
        }
        EtherType::IPV6 if packet.len() >= IPV6_BYTES => (packet.get(IPV6_BYTES..), packet.get(8..40), packet[6]),
        _ => (None, None, 0),
    };
    match addresses {
        Some(addresses) => both_ways(addresses, &mut parts),
        None => both_ways(bytes.get(..12).filter(|_| network_at >= 12).unwrap_or_default(), &mut parts),
    }
    if WITH_PORTS.contains(&kind) {
        both_ways(transport.and_then(|transport| transport.get(..4)).unwrap_or_default(), &mut parts);
    }
    parts.push(kind);
    parts.extend(protocol.to_be_bytes());
    mixed(&parts)
}

/// Two halves, the smaller one first.
fn both_ways(pair: &[u8], out: &mut Vec<u8>) {
    let (one, other) = pair.split_at(pair.len() / 2);
    let (first, second) = if one <= other { (one, other) } else { (other, one) };
    out.extend_from_slice(first);
    out.extend_from_slice(second);
}

/// FNV-1a, and its bits mixed once more, since few of them decide. Never 0, as there.
fn mixed(parts: &[u8]) -> u32 {
    let mut hash = parts.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    hash ^= hash >> 32;
    hash = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((hash >> 32) as u32).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of UDP over IPv4.
    fn frame(from: u8, to: u8, ports: [u8; 4]) -> Frame {
        let mut bytes = vec![0; 42];
        bytes[12..14].copy_from_slice(&[8, 0]);
        (bytes[14], bytes[23]) = (0x45, 17);
        bytes[26..34].copy_from_slice(&[10, 0, 0, from, 10, 0, 0, to]);
        bytes[34..38].copy_from_slice(&ports);
        Frame::ingress(&bytes)
    }

    #[test]
    fn both_directions_of_a_flow_have_one_number() {
        let one = of(&frame(1, 2, [0, 7, 0, 9]), 14, 0x800);
        assert_eq!(one, of(&frame(2, 1, [0, 9, 0, 7]), 14, 0x800));
        assert_ne!(one, of(&frame(1, 2, [0, 7, 0, 8]), 14, 0x800));
        assert_ne!(one, of(&frame(1, 3, [0, 7, 0, 9]), 14, 0x800));
        assert!(of(&Frame::ingress(&[]), 14, 4) > 0);
    }
}
