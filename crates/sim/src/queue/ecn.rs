//! Marking a packet in a frame with congestion experienced (RFC 3168), and telling flows apart.

use crate::hash;
use crate::item::Item;
use weft_core::offload;
use xxhash_rust::xxh3::xxh3_64;

const ECN: u8 = 0b11;
const ETHERNET_BYTES: usize = 14;

/// Where the IP header of an untagged frame is, and its version.
fn ip(head: &[u8]) -> Option<u8> {
    match (head.get(12)?, head.get(13)?, head.get(ETHERNET_BYTES)? >> 4) {
        (0x08, 0x00, 4) => Some(4),
        (0x86, 0xdd, 6) => Some(6),
        _ => None,
    }
}

/// Marks a packet. False: it is not ECN-capable, and has to be dropped.
pub(super) fn mark(item: &mut Item) -> bool {
    // What was cut has its headers in the head; the rest is not looked at.
    let head = item.frame.head_mut();
    match ip(head) {
        Some(4) if head.len() >= ETHERNET_BYTES + 20 => {
            let tos = head[ETHERNET_BYTES + 1];
            if tos & ECN == 0 {
                return false;
            }
            let header = ETHERNET_BYTES + usize::from(head[ETHERNET_BYTES] & 0x0f) * 4;
            let Some(bytes) = head.get_mut(ETHERNET_BYTES..header) else { return false };
            bytes[1] |= ECN;
            bytes[10..12].fill(0);
            let sum = weft_wire::checksum::of(bytes);
            bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        Some(6) if head.len() >= ETHERNET_BYTES + 40 => {
            // Version, then eight bits of traffic class, of which ECN is the last two.
            if head[ETHERNET_BYTES + 1] & (ECN << 4) == 0 {
                return false;
            }
            head[ETHERNET_BYTES + 1] |= ECN << 4;
        }
        _ => return false,
    }
    item.digest = hash::of_frame(&item.frame, &mut Vec::new());
    true
}

/// Frames of one flow have one hash: addresses, protocol and ports of IP packets, else the Ethernet addresses.
pub(super) fn flow_hash(item: &Item) -> u64 {
    let head = item.frame.head();
    let Some(found) = offload::headers(&item.frame) else { return xxh3_64(head.get(..12).unwrap_or(head)) };
    let mut key = Vec::with_capacity(40);
    let (from, to) = if found.ipv6 { (8, 40) } else { (12, 20) };
    key.extend_from_slice(head.get(found.network + from..found.network + to).unwrap_or_default());
    key.push(found.protocol.0);
    key.extend_from_slice(head.get(found.transport..found.transport + 4).unwrap_or_default());
    xxh3_64(&key)
}
