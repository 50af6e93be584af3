//! The subflow with the shortest round trip of those whose congestion window has room (minRTT: Raiciu et al., NSDI'12; "default" of the Linux
//! implementation outside the tree).

use super::interface::{Asked, Choice, Memory, Scheduler};

/// It.
#[derive(Debug)]
pub struct LowestRtt;

impl Scheduler for LowestRtt {
    fn choose(&self, asked: &Asked<'_>, _memory: &mut Memory) -> Option<Choice> {
        let free = asked.usable().filter(|(_, path)| path.room_bytes() > 0);
        let (index, path) = free.min_by(|(_, a), (_, b)| a.rtt_s().total_cmp(&b.rtt_s()))?;
        asked.give(*index, path.room_bytes())
    }
}
