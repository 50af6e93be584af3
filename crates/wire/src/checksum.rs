//! The Internet checksum (RFC 1071) and its incremental update (RFC 1624).
//!
//! A [`Sum`] is an unfinished checksum: parts are added to it in the order of the
//! packet, with odd lengths allowed in between, and [`Sum::finish`] turns it into
//! what a header carries. Verifying is summing everything, the checksum field
//! included: [`Sum::fold`] is then `0xffff`.
//!
//! The sum is a ones' complement sum, so it is also the one of the bytes taken as
//! wider words in the machine's own order (RFC 1071 §2, parts B and C); that is
//! how [`Sum::add_bytes`] reads eight bytes at a time.

use core::net::{Ipv4Addr, Ipv6Addr};

/// An unfinished checksum.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sum {
    /// Sum of big-endian 16-bit words. Every addition is below 2^17, so 2^47
    /// additions fit.
    words: u64,
    /// An odd number of bytes has been added: the next byte is a low one.
    odd: bool,
}

/// Bytes summed per round of the inner loop.
const BLOCK: usize = 64;
const LANES: usize = BLOCK / 8;

impl Sum {
    /// The sum of nothing.
    pub const fn new() -> Sum {
        Sum { words: 0, odd: false }
    }

    /// Continues from a folded sum ([`Sum::fold`]): what a field under
    /// CHECKSUM_PARTIAL holds.
    pub const fn from_folded(folded: u16) -> Sum {
        Sum { words: folded as u64, odd: false }
    }

    /// Adds bytes that follow those added before.
    #[inline]
    #[must_use]
    pub fn add_bytes(self, bytes: &[u8]) -> Sum {
        // RFC 1071 §2 (B): "the sum of 16-bit integers can be computed in either
        // byte order"; swapping the result once gives the big-endian sum.
        let sum = fold_u64(native_sum(bytes)).to_be();
        let sum = if self.odd { sum.swap_bytes() } else { sum };
        Sum { words: self.words + u64::from(sum), odd: self.odd ^ (bytes.len() % 2 == 1) }
    }

    /// Adds a 16-bit field, as its two bytes in network order.
    #[inline]
    #[must_use]
    pub const fn add_u16(self, value: u16) -> Sum {
        let value = if self.odd { value.swap_bytes() } else { value };
        Sum { words: self.words + value as u64, odd: self.odd }
    }

    /// Adds a 32-bit field, as its four bytes in network order.
    #[inline]
    #[must_use]
    pub const fn add_u32(self, value: u32) -> Sum {
        self.add_u16((value >> 16) as u16).add_u16(value as u16)
    }

    /// The ones' complement sum, not complemented: what Linux puts into the field
    /// of a CHECKSUM_PARTIAL packet, and `0xffff` for a packet that verifies.
    #[inline]
    pub const fn fold(self) -> u16 {
        fold_u64(self.words)
    }

    /// The checksum: folded and complemented.
    #[inline]
    pub const fn finish(self) -> u16 {
        !self.fold()
    }

    /// The checksum of UDP over IPv6 or IPv4, where zero means "none":
    /// RFC 768: "If the computed checksum is zero, it is transmitted as all ones".
    #[inline]
    pub const fn finish_udp(self) -> u16 {
        match self.finish() {
            0 => 0xffff,
            checksum => checksum,
        }
    }
}

/// Folds a sum of words of any width to 16 bits, with end-around carry.
#[inline]
const fn fold_u64(sum: u64) -> u16 {
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    // Now below 2^17 + 2^16: two more carries at most.
    let sum = (sum >> 16) + (sum & 0xffff);
    ((sum >> 16) + (sum & 0xffff)) as u16
}

/// Ones' complement sum of the bytes as native-endian words, folded to 32 bits
/// and some carries. An odd last byte is followed by a zero.
#[inline]
fn native_sum(bytes: &[u8]) -> u64 {
    let (blocks, rest) = bytes.as_chunks::<BLOCK>();
    let mut sum = if blocks.is_empty() { 0 } else { sum_blocks(blocks) };
    let (words, tail) = rest.as_chunks::<8>();
    for word in words {
        let word = u64::from_ne_bytes(*word);
        sum += (word & 0xffff_ffff) + (word >> 32);
    }
    // Headers end here: no copy of a variable length, which would be a call.
    let (words, tail) = tail.as_chunks::<4>();
    for word in words {
        sum += u64::from(u32::from_ne_bytes(*word));
    }
    let (words, tail) = tail.as_chunks::<2>();
    for word in words {
        sum += u64::from(u16::from_ne_bytes(*word));
    }
    if let [last] = tail {
        sum += u64::from(u16::from_ne_bytes([*last, 0]));
    }
    sum
}

/// The inner loop, written so that it compiles to vector instructions: per lane
/// the 64-bit words are added modulo 2^64 (`all`) and their upper halves apart
/// (`high`). `high` cannot overflow below 2^32 blocks, and the sum of the lower
/// halves is `all - (high << 32)`, modulo 2^64, hence exact.
fn sum_blocks(blocks: &[[u8; BLOCK]]) -> u64 {
    let mut all = [0_u64; LANES];
    let mut high = [0_u64; LANES];
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        for lane in 0..LANES {
            let word = u64::from_ne_bytes(words[lane]);
            all[lane] = all[lane].wrapping_add(word);
            high[lane] += word >> 32;
        }
    }
    let mut sum = 0;
    for lane in 0..LANES {
        let low = all[lane].wrapping_sub(high[lane] << 32);
        sum += (low & 0xffff_ffff) + (low >> 32);
        sum += (high[lane] & 0xffff_ffff) + (high[lane] >> 32);
    }
    sum
}

/// The checksum of bytes that stand alone (IPv4 header, ICMPv4, IGMP).
#[inline]
pub fn of(bytes: &[u8]) -> u16 {
    Sum::new().add_bytes(bytes).finish()
}

/// The sum of IPv4's pseudo-header (RFC 9293 §3.1, RFC 768). `length` is that of
/// the transport header and its payload, in bytes.
#[inline]
pub fn pseudo_v4(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, length: u32) -> Sum {
    Sum::new().add_u32(src.to_bits()).add_u32(dst.to_bits()).add_u16(u16::from(protocol)).add_u32(length)
}

/// The sum of IPv6's pseudo-header (RFC 8200 §8.1). `length` is that of the
/// upper-layer header and its payload, in bytes.
#[inline]
pub fn pseudo_v6(src: Ipv6Addr, dst: Ipv6Addr, protocol: u8, length: u32) -> Sum {
    Sum::new().add_bytes(&src.octets()).add_bytes(&dst.octets()).add_u32(length).add_u16(u16::from(protocol))
}

/// The checksum after a 16-bit field changed from `old` to `new`.
///
/// A UDP checksum of zero means "none" and must not be updated.
#[inline]
pub const fn update_u16(old_checksum: u16, old: u16, new: u16) -> u16 {
    // RFC 1624 §3, eqn 3: "HC' = ~(~HC + ~m + m')"
    Sum::from_folded(!old_checksum).add_u16(!old).add_u16(new).finish()
}

/// The checksum after an aligned 32-bit field changed from `old` to `new`.
#[inline]
pub const fn update_u32(old_checksum: u16, old: u32, new: u32) -> u16 {
    Sum::from_folded(!old_checksum).add_u32(!old).add_u32(new).finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_1071() {
        // §3: 00 01 f2 03 f4 f5 f6 f7 sum to ddf2.
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::new().add_bytes(&bytes).fold(), 0xddf2);
        assert_eq!(of(&bytes), 0x220d);
    }

    #[test]
    fn nothing_and_extremes() {
        assert_eq!(of(&[]), 0xffff);
        assert_eq!(of(&[0; 1000]), 0xffff);
        assert_eq!(of(&[0xff; 1000]), 0);
        assert_eq!(of(&[0xff; 65_535]), !Sum::new().add_bytes(&[0xff]).fold());
        assert_eq!(of(&[0x12]), !0x1200);
        assert_eq!(Sum::new().add_bytes(&[0xff; 64]).finish_udp(), 0xffff);
    }

    #[test]
    fn the_example_of_rfc_1624() {
        // §4: a field changes from 5555 to 3285, the old checksum is dd2f. Equation
        // 2 would give ffff there, which no header can have.
        assert_eq!(update_u16(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn pseudo_headers_are_the_bytes_of_the_rfcs() {
        let (src, dst) = (Ipv4Addr::new(10, 0, 1, 10), Ipv4Addr::new(10, 0, 2, 10));
        let bytes = [10, 0, 1, 10, 10, 0, 2, 10, 0, 6, 0x12, 0x34];
        assert_eq!(pseudo_v4(src, dst, 6, 0x1234).finish(), of(&bytes));
        let (src, dst) = (Ipv6Addr::LOCALHOST, Ipv6Addr::new(0xfd00, 1, 2, 3, 4, 5, 6, 7));
        let mut bytes = [0; 40];
        bytes[..16].copy_from_slice(&src.octets());
        bytes[16..32].copy_from_slice(&dst.octets());
        bytes[32..].copy_from_slice(&[0, 1, 0x12, 0x34, 0, 0, 0, 58]);
        assert_eq!(pseudo_v6(src, dst, 58, 0x11234).finish(), of(&bytes));
    }

    #[test]
    fn a_partial_checksum_is_finished_by_adding_the_packet() {
        // What a device does with CHECKSUM_PARTIAL: the field holds the folded
        // pseudo-header and is summed with the rest.
        let (src, dst) = (Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST);
        let mut packet = [1, 2, 3, 4, 0, 0, 7, 8, 9];
        let pseudo = pseudo_v4(src, dst, 17, packet.len() as u32);
        let full = pseudo.add_bytes(&packet).finish();
        packet[4..6].copy_from_slice(&pseudo.fold().to_be_bytes());
        assert_eq!(of(&packet), full);
        packet[4..6].copy_from_slice(&full.to_be_bytes());
        assert_eq!(pseudo.add_bytes(&packet).fold(), 0xffff);
    }
}
