//! Gains are parts of a unit.

/// One, as a gain.
pub(super) const UNIT: u64 = 256;
