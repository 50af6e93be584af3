//! Variable-length numbers, eight bytes at a time: where each has its own length, a loop over its bytes costs a mispredicted branch a number.

/// Numbers of at most so many bytes are handled here: the low 56 bits.
pub(super) const MOST: u32 = 8;
/// Of each byte: another one follows.
const MORE: u64 = 0x8080_8080_8080_8080;

/// Seven bits a byte, the lowest first, all bytes but the last with the highest bit set; and how many bytes those are. `number` is below 2^56.
#[inline]
pub(super) fn spread(number: u64) -> (u64, usize) {
    let bits = 64 - (number | 1).leading_zeros();
    let length = bits.div_ceil(7);
    let by_28 = number & 0x0fff_ffff | (number & 0x00ff_ffff_f000_0000) << 4;
    let by_14 = by_28 & 0x0000_3fff_0000_3fff | (by_28 & 0x0fff_c000_0fff_c000) << 2;
    let by_7 = by_14 & 0x007f_007f_007f_007f | (by_14 & 0x3f80_3f80_3f80_3f80) << 1;
    (by_7 | MORE & ((1 << (8 * (length - 1))) - 1), length as usize)
}

/// The number that begins in these bytes, and how many of them it takes. None: it does not end in them.
#[inline]
pub(super) fn gather(bytes: u64) -> Option<(u64, usize)> {
    let last = !bytes & MORE;
    if last == 0 {
        return None;
    }
    // The bits up to the lowest set one, which is the highest of the number's last byte.
    let own = bytes & (last ^ (last - 1)) & !MORE;
    let by_14 = own & 0x007f_007f_007f_007f | (own & 0x7f00_7f00_7f00_7f00) >> 1;
    let by_28 = by_14 & 0x0000_3fff_0000_3fff | (by_14 & 0x3fff_0000_3fff_0000) >> 2;
    let number = by_28 & 0x0fff_ffff | (by_28 & 0x0fff_ffff_0000_0000) >> 4;
    Some((number, last.trailing_zeros() as usize / 8 + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn as_one_byte_after_the_other(number in any::<u64>(), cut in 8u32..64, behind in any::<u64>()) {
            let number = number >> cut;
            let (mut expected, mut rest) = (Vec::new(), number);
            while rest >= 0x80 {
                expected.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            expected.push(rest as u8);
            let (bytes, length) = spread(number);
            prop_assert_eq!(&bytes.to_le_bytes()[..length], &expected[..]);
            // Whatever follows.
            let followed = if length == 8 { bytes } else { bytes & ((1 << (8 * length)) - 1) | behind << (8 * length) };
            prop_assert_eq!(gather(followed), Some((number, length)));
        }
    }

    #[test]
    fn what_does_not_end_is_told() {
        assert_eq!(gather(u64::MAX), None);
        assert_eq!(gather(MORE), None);
        assert_eq!(gather(0x7fff_ffff_ffff_ffff), Some(((1 << 56) - 1, 8)));
    }
}
