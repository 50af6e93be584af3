//! Sequence numbers: arithmetic modulo 2^32.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// A sequence number. It has no order (no `Ord`): "before" is only meant between
/// numbers less than 2^31 apart, and is not transitive.
///
/// RFC 9293 §3.4: "all arithmetic dealing with sequence numbers must be performed
/// modulo 2^32".
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Seq(pub u32);

impl Seq {
    /// Before `other`.
    #[inline]
    pub const fn lt(self, other: Seq) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }

    /// Before `other`, or equal.
    #[inline]
    pub const fn le(self, other: Seq) -> bool {
        self.0 == other.0 || self.lt(other)
    }

    /// After `other`.
    #[inline]
    pub const fn gt(self, other: Seq) -> bool {
        other.lt(self)
    }

    /// After `other`, or equal.
    #[inline]
    pub const fn ge(self, other: Seq) -> bool {
        other.le(self)
    }

    /// The later one.
    #[inline]
    #[must_use]
    pub const fn max(self, other: Seq) -> Seq {
        if self.lt(other) { other } else { self }
    }

    /// The earlier one.
    #[inline]
    #[must_use]
    pub const fn min(self, other: Seq) -> Seq {
        if other.lt(self) { other } else { self }
    }

    /// How many numbers it is past `earlier`, modulo 2^32.
    #[inline]
    pub const fn since(self, earlier: Seq) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }

    /// One of the `len` numbers from `start` on.
    #[inline]
    pub const fn in_window(self, start: Seq, len: u32) -> bool {
        self.since(start) < len
    }
}

impl Add<u32> for Seq {
    type Output = Seq;

    #[inline]
    fn add(self, count: u32) -> Seq {
        Seq(self.0.wrapping_add(count))
    }
}

impl AddAssign<u32> for Seq {
    #[inline]
    fn add_assign(&mut self, count: u32) {
        *self = *self + count;
    }
}

impl Sub<u32> for Seq {
    type Output = Seq;

    #[inline]
    fn sub(self, count: u32) -> Seq {
        Seq(self.0.wrapping_sub(count))
    }
}

impl Sub<Seq> for Seq {
    type Output = i32;

    /// The signed distance; positive when `self` is after `other`.
    #[inline]
    fn sub(self, other: Seq) -> i32 {
        self.0.wrapping_sub(other.0) as i32
    }
}

impl fmt::Debug for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Seq({})", self.0)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Seq;

    #[test]
    fn order_goes_around_the_wrap() {
        let before = Seq(u32::MAX - 9);
        let after = before + 20;
        assert_eq!(after, Seq(10));
        assert!(before.lt(after) && before.le(after) && !before.gt(after) && !before.ge(after));
        assert!(after.gt(before) && after.ge(before) && before.le(before) && before.ge(before));
        assert_eq!((before.max(after), before.min(after)), (after, before));
        assert_eq!((after.max(before), after.min(before)), (after, before));
        assert_eq!(after - before, 20);
        assert_eq!(before - after, -20);
        assert_eq!(after.since(before), 20);
        assert_eq!(after - 20_u32, before);
    }

    #[test]
    fn windows_wrap_and_an_empty_one_holds_nothing() {
        let start = Seq(u32::MAX - 1);
        assert!(start.in_window(start, 1));
        assert!((start + 3).in_window(start, 4));
        assert!(!(start + 4).in_window(start, 4));
        assert!(!(start - 1_u32).in_window(start, 4));
        assert!(!start.in_window(start, 0));
    }
}
