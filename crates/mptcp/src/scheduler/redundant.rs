//! Everything goes by every subflow, each as fast as its congestion window lets it: the first copy to arrive counts. For little data whose delay matters.
//! A subflow that is behind goes on with what the peer does not have yet.

use super::interface::{Asked, Choice, Memory, Scheduler};
use super::lowest_rtt::LowestRtt;

/// It.
#[derive(Debug)]
pub struct Redundant;

impl Scheduler for Redundant {
    fn choose(&self, asked: &Asked<'_>, memory: &mut Memory) -> Option<Choice> {
        if asked.again {
            return LowestRtt.choose(asked, memory);
        }
        let most = asked.end.min(asked.edge);
        let next = |path: &super::View| path.next.clamp(asked.una, asked.next);
        let behind = asked.usable().filter(|(_, path)| path.room_bytes() > 0 && next(path) < most);
        // New data first: who is ahead goes on.
        let (index, path) = behind.min_by(|(_, a), (_, b)| next(b).cmp(&next(a)).then(a.rtt_s().total_cmp(&b.rtt_s())))?;
        Some(Choice { index: *index, from: next(path), bytes: path.room_bytes() })
    }
    fn repeats(&self) -> bool {
        true
    }
    fn lends(&self) -> bool {
        false
    }
}
