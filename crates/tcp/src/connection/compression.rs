//! Acknowledgments of out-of-order data that wait to leave as one.

/// Blocks that every acknowledgment is expected to have room for (TCP_SACK_BLOCKS_EXPECTED): before a further one is reported, what waits
/// leaves, or the sender might never hear of it.
pub(super) const BLOCKS_EXPECTED: usize = 2;
/// Acknowledgments that wait to leave as one.
#[derive(Debug, Default)]
pub(super) struct Compression {
    /// How many.
    pub waiting: u32,
    /// Duplicates sent at once while RCV.NXT was this.
    pub at_once: u32,
    pub next: u64,
}
weft_core::fields!(struct Compression { waiting, at_once, next });
