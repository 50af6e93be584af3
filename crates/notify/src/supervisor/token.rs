//! Tokens of the supervisor's descriptors, as its reactor knows them.

pub(super) const KIND_TREE: u64 = 1;
pub(super) const KIND_STAND_IN: u64 = 2;
pub(super) const KIND_TIMER: u64 = 3;
pub(super) const KIND_WORKERS: u64 = 4;

/// Token: the host's space (8 bits), kind (8), generation (16), index (32).
pub(super) fn token(space: u64, kind: u64, generation: u16, index: usize) -> u64 {
    space << 56 | kind << 48 | u64::from(generation) << 32 | index as u64 & 0xffff_ffff
}
