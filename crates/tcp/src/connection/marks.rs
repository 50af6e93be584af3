//! What programs have marked in what they write: ends of records (MSG_EOR), behind which a segment begins, and bytes of whose moments they want to
//! hear (SO_TIMESTAMPING).
//!
//! Both are bounded. A record's end beyond [`RECORDS_MAX`] is none, and a mark beyond [`MARKS_MAX`] is not told of; both are counted.

use std::collections::VecDeque;
use std::ops::Range;
use weft_core::Stamps;

/// Most ends of records that are not acknowledged.
const RECORDS_MAX: usize = 1024;
/// Most bytes that are waited for.
const MARKS_MAX: usize = 1024;

/// A byte of whose moments the sockets want to hear.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    /// Its position.
    pub at: u64,
    pub stamps: Stamps,
    /// Where the frame began in which it was sent last.
    pub from: u64,
}
weft_core::fields!(struct Mark { at, stamps, from });

/// An end of a record: what follows begins a segment of its own.
#[derive(Debug, Clone, Copy)]
struct RecordEnd {
    /// The position behind it.
    end: u64,
    /// More was said to follow (MSG_MORE), so that it is no end of a write.
    more: bool,
}
weft_core::fields!(struct RecordEnd { end, more });

/// Marks of one connection, in order.
#[derive(Debug, Default)]
pub(super) struct Marks {
    records: VecDeque<RecordEnd>,
    pub stamps: VecDeque<Mark>,
    /// Time to live of the segment that is being dealt with.
    pub hops: u8,
}
weft_core::fields!(struct Marks { records, stamps, hops });

impl Marks {
    /// How many of the `length` bytes from `position` on are before the next end of a record.
    pub(super) fn within_record(&self, position: u64, length: u32) -> u32 {
        let next = self.records.get(self.records.partition_point(|record| record.end <= position));
        next.map_or(length, |record| u64::from(length).min(record.end - position) as u32)
    }

    /// Does a record end here, as a write does (tcp_mark_push)?
    pub(super) fn is_written_end(&self, end: u64) -> bool {
        let at = self.records.partition_point(|record| record.end < end);
        self.records.get(at).is_some_and(|record| record.end == end && !record.more)
    }

    /// Does the last record end here?
    pub(super) fn ends_at(&self, end: u64) -> bool {
        self.records.back().is_some_and(|record| record.end == end)
    }

    /// Is nothing marked?
    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty() && self.stamps.is_empty()
    }

    /// A record ends here. False: there are as many already.
    pub(super) fn end_record(&mut self, end: u64, more: bool) -> bool {
        let room = self.records.len() < RECORDS_MAX;
        if room {
            self.records.push_back(RecordEnd { end, more });
        }
        room
    }

    /// The byte at `at` is to be told of. In one buffer, which begins at `buffer`, that is the last one that was asked about, for all of them:
    /// "shinfo->tskey = TCP_SKB_CB(skb)->seq + skb->len - 1;". False: there are as many already.
    pub(super) fn stamp(&mut self, at: u64, buffer: u64, new: Stamps) -> bool {
        let full = self.stamps.len() >= MARKS_MAX;
        match self.stamps.back_mut().filter(|mark| mark.at >= buffer) {
            Some(mark) => {
                let old = mark.stamps;
                mark.at = at;
                mark.stamps = Stamps {
                    scheduled: old.scheduled || new.scheduled,
                    left: old.left || new.left,
                    acknowledged: old.acknowledged || new.acknowledged,
                    quoted: new.quoted,
                };
            }
            None if full => return false,
            None => self.stamps.push_back(Mark { at, stamps: new, from: at }),
        }
        true
    }

    /// Where those are among the stamps whose bytes are in `bytes`.
    pub(super) fn stamps_in(&self, bytes: &Range<u64>) -> Range<usize> {
        let before = |position: u64| self.stamps.partition_point(|mark| mark.at < position);
        before(bytes.start)..before(bytes.end)
    }

    /// What is before this has been acknowledged.
    pub(super) fn forget_before(&mut self, una: u64) {
        while self.records.front().is_some_and(|record| record.end <= una) {
            self.records.pop_front();
        }
        while self.stamps.front().is_some_and(|mark| mark.at < una) {
            self.stamps.pop_front();
        }
    }

    /// For state: the highest position that is in here.
    pub(super) fn highest(&self) -> u64 {
        let ends = self.records.iter().map(|record| record.end);
        ends.chain(self.stamps.iter().map(|mark| mark.at.max(mark.from))).max().unwrap_or(0)
    }

    /// For state: are they as many as there may be, and in order?
    pub(super) fn is_sound(&self) -> bool {
        let (records, stamps) = (&self.records, &self.stamps);
        let bounded = records.len() <= RECORDS_MAX && stamps.len() <= MARKS_MAX;
        bounded && records.iter().is_sorted_by_key(|record| record.end) && stamps.iter().is_sorted_by_key(|mark| mark.at)
    }
}
