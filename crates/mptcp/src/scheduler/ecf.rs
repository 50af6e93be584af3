//! Earliest completion first (Lim, Nahum, Towsley, Gibbens, "An MPTCP Path Scheduler to Manage Heterogeneous Paths", CoNEXT 2017): when the fast
//! subflow is full, what is left waits for it if it would still be done sooner than the slow one.

use super::interface::{Asked, Choice, Memory, Scheduler, View};

/// Whoever waits goes on waiting until the other is so much better (β of the paper).
const BETA: f64 = 0.25;

/// It. Its memory: 1 while it waits.
#[derive(Debug)]
pub struct Ecf;

impl Scheduler for Ecf {
    fn choose(&self, asked: &Asked<'_>, Memory([waiting, ..]): &mut Memory) -> Option<Choice> {
        let by_rtt = |(_, a): &&(usize, View), (_, b): &&(usize, View)| a.rtt_s().total_cmp(&b.rtt_s());
        let (fast_index, fast) = asked.usable().min_by(by_rtt)?;
        let free = asked.usable().filter(|(_, path)| path.room_bytes() > 0);
        let (index, slow) = free.min_by(by_rtt)?;
        // "k", what is left, is not known of a program that waits to write: its buffer would say too little, and an idle path would stay idle.
        if index == fast_index || asked.again || asked.more {
            return asked.give(*index, slow.room_bytes());
        }
        let left = asked.end.saturating_sub(asked.next) as f64;
        let windows = |path: &View| left / f64::from(path.cwnd_bytes.max(1));
        let margin = fast.rtt_variation.max(slow.rtt_variation).as_secs_f64();
        let by_fast = (1.0 + windows(fast)) * fast.rtt_s();
        let hesitation = if *waiting == 1 { 1.0 + BETA } else { 1.0 };
        if by_fast < hesitation * (slow.rtt_s() + margin) {
            // The paper waits if the slow one would be as long about all of it as two round trips of the fast one. A last part of a window takes the slow
            // one a round trip all the same (so does the authors' own mptcp_ecf.c); and the fast one is often done sooner than after two of its own.
            let by_slow = windows(slow).max(1.0) * slow.rtt_s();
            if by_slow >= by_fast.min(2.0 * fast.rtt_s()) + margin {
                *waiting = 1;
                return None;
            }
        } else {
            *waiting = 0;
        }
        asked.give(*index, slow.bytes_of(1))
    }
}
