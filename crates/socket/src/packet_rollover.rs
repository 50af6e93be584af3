//! What a packet socket has of frames for which it had no room, and which went to others of its group.

use weft_core::Rng;

/// ROLLOVER_HLEN
const HISTORY: usize = 16;

/// What a member has of frames that went to others because it had no room (`struct packet_rollover`).
#[derive(Debug, Default)]
pub(crate) struct Rollover {
    /// Where it found room last.
    pub next: u32,
    /// PACKET_ROLLOVER_STATS: how many, those of large flows among them, and those for which there was no room anywhere.
    pub counts: [u64; 3],
    /// Flows of the last frames.
    history: [u32; HISTORY],
}
weft_core::fields!(struct Rollover { next, counts, history });

impl Rollover {
    /// `fanout_flow_is_huge`
    pub fn is_huge(&mut self, flow: u32, rng: &mut Rng) -> bool {
        let count = self.history.iter().filter(|one| **one == flow).count();
        if let Some(victim) = self.history.get_mut(rng.below(HISTORY as u64) as usize) {
            *victim = flow;
        }
        count > HISTORY / 2
    }
}
