//! Sequence numbers without wrap: a 64-bit position per direction of a connection.
//!
//! On the wire there is only [`Seq`]; inside, a position is ordered and can be a key. Both are tied together here and nowhere else.

use weft_wire::tcp::Seq;

/// The position of the SYN. A multiple of 2^32, so that the lower half of a position is its distance from the initial sequence number,
/// and far enough from zero that older numbers have positions too.
pub const START: u64 = 1 << 32;

/// One direction's sequence space.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Space {
    /// The number of the SYN.
    pub initial: Seq,
}
weft_core::fields!(struct Space { initial });

impl Space {
    /// The number at a position.
    #[inline]
    pub fn seq(self, position: u64) -> Seq {
        self.initial + position as u32
    }
    /// The position of a number, taking the one that is less than 2^31 away from `near`.
    #[inline]
    pub fn position(self, near: u64, seq: Seq) -> u64 {
        near.wrapping_add_signed(i64::from(seq - self.seq(near)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_follow_numbers_across_the_wrap_in_both_directions() {
        let space = Space { initial: Seq(u32::MAX - 5) };
        assert_eq!(space.seq(START), Seq(u32::MAX - 5));
        assert_eq!(space.seq(START + 10), Seq(4));
        assert_eq!(space.position(START + 3, Seq(4)), START + 10);
        assert_eq!(space.position(START + 3, Seq(u32::MAX - 9)), START - 4);
        let far = START + 7 * (1 << 32) + 99;
        assert_eq!(space.position(far, space.seq(far) + 1000), far + 1000);
        assert_eq!(space.position(far, space.seq(far) - 1000_u32), far - 1000);
    }
}
