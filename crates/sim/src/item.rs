//! What wires carry.

use weft_core::Frame;

/// A frame as wires carry it: complete checksums, at most the MTU.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub frame: Frame,
    /// xxh3-128 of its bytes.
    pub digest: u128,
    pub bytes: u32,
}
