//! Acknowledgments of out-of-order data that wait to leave as one.

/// Duplicates that are not compressed (TCP_FASTRETRANS_THRESH).
const DUPLICATES_AT_ONCE: u32 = 3;
/// Blocks that every acknowledgment is expected to have room for (TCP_SACK_BLOCKS_EXPECTED): before a further one is reported, what waits
/// leaves, or the sender might never hear of it.
pub(super) const BLOCKS_EXPECTED: usize = 2;
/// Acknowledgments that wait to leave as one.
#[derive(Debug, Default)]
pub(super) struct Compression {
    /// How many.
    waiting: u32,
    /// Duplicates sent at once while RCV.NXT was this.
    at_once: u32,
    next: u64,
}
weft_core::fields!(struct Compression { waiting, at_once, next });

impl Compression {
    /// A duplicate is to be acknowledged while RCV.NXT is `next`. True: it waits, as at most `waiting_max` do.
    pub(super) fn takes(&mut self, next: u64, waiting_max: u32) -> bool {
        if self.waiting >= waiting_max {
            return false;
        }
        if self.next != next {
            self.next = next;
            self.at_once = 0;
        }
        if self.at_once < DUPLICATES_AT_ONCE {
            self.at_once += 1;
            return false;
        }
        self.waiting += 1;
        true
    }

    /// One is sent after all. False: none waits.
    pub(super) fn let_one_go(&mut self) -> bool {
        let waits = self.waiting > 0;
        self.waiting -= u32::from(waits);
        waits
    }

    /// Whatever waited is acknowledged by what leaves now. Returns how many.
    pub(super) fn let_all_go(&mut self) -> u32 {
        std::mem::take(&mut self.waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_duplicates_leave_and_the_next_ones_wait_until_the_gap_is_filled() {
        let mut compression = Compression::default();
        let takes: Vec<bool> = (0..6).map(|_| compression.takes(10, 2)).collect();
        assert_eq!(takes, [false, false, false, true, true, false], "two may wait, and no more");
        assert!(compression.let_one_go());
        assert_eq!(compression.let_all_go(), 1);
        assert!(!compression.let_one_go());
        assert!(!compression.takes(20, 2), "RCV.NXT has moved: three leave at once again");
    }
}
