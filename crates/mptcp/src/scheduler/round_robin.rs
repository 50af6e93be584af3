//! One segment to each subflow in turn, of those whose congestion window has room. For comparison: it knows nothing of how fast they are.

use super::interface::{Asked, Choice, Memory, Scheduler};

/// It. Its memory: the index after the subflow that had the last segment.
#[derive(Debug)]
pub struct RoundRobin;

impl Scheduler for RoundRobin {
    fn choose(&self, asked: &Asked<'_>, Memory([turn, ..]): &mut Memory) -> Option<Choice> {
        let free = asked.usable().filter(|(_, path)| path.room_bytes() > 0);
        let later = free.clone().find(|(index, _)| *index as u64 >= *turn);
        let (index, path) = later.or_else(|| free.clone().next())?;
        *turn = *index as u64 + 1;
        asked.give(*index, path.bytes_of(1))
    }
}
