//! When the bytes of a stream came that nobody has read: SO_TIMESTAMP and its kind tell of the last byte that a read has taken.
//!
//! Bytes that came at one moment share an entry. There are [`TIMES_MAX`] at most: then what comes shares the last one, whose time becomes its own, as
//! in `tcp_try_coalesce` ("to->tstamp = from->tstamp").

use std::collections::VecDeque;
use weft_core::Instant;

/// Most moments that are kept apart.
const TIMES_MAX: usize = 256;

/// The moments, in order.
#[derive(Debug, Default)]
pub(crate) struct Times {
    /// Position behind the last byte of each, counted from the first byte of the stream.
    moments: VecDeque<(u64, Instant)>,
}
weft_core::fields!(struct Times { moments });

impl Times {
    /// What ends at `end` has come.
    pub(crate) fn came(&mut self, end: u64, now: Instant) {
        let full = self.moments.len() >= TIMES_MAX;
        match self.moments.back_mut().filter(|(_, at)| full || *at == now) {
            Some(last) => *last = (end, now),
            None => self.moments.push_back((end, now)),
        }
    }

    /// When the byte came that ends at `end`.
    pub(crate) fn of(&self, end: u64) -> Option<Instant> {
        let index = self.moments.partition_point(|(last, _)| *last < end);
        self.moments.get(index).map(|(_, at)| *at)
    }

    /// What is before this has been read.
    pub(crate) fn forget_before(&mut self, position: u64) {
        while self.moments.front().is_some_and(|(end, _)| *end <= position) {
            self.moments.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_has_the_time_at_which_it_came_and_there_is_a_bound() {
        let at = Instant::from_nanos;
        let mut times = Times::default();
        times.came(3, at(10));
        times.came(5, at(10));
        times.came(6, at(11));
        assert_eq!(times.moments.len(), 2);
        assert_eq!([1, 3, 5, 6, 7].map(|end| times.of(end)), [Some(at(10)), Some(at(10)), Some(at(10)), Some(at(11)), None]);
        times.forget_before(5);
        assert_eq!((times.of(5), times.of(6)), (Some(at(11)), Some(at(11))));
        (0..1000).for_each(|more| times.came(7 + more, at(20 + more)));
        assert_eq!((times.moments.len(), times.of(1006)), (TIMES_MAX, Some(at(1019))));
        times.forget_before(1006);
        assert_eq!((times.moments.len(), times.of(1006)), (0, None));
    }
}
