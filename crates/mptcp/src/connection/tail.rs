//! The last data that a program has written: what a slow subflow would be long about goes by a faster one that has nothing left to do, too.
//!
//! From the end backward, so that both are done at the same time; what the slow one delivers meanwhile is not repeated. The idea is XLINK's (Zheng et al.,
//! SIGCOMM 2021, "re-injection"), there for video.

use super::{Connection, Path};
use crate::counters::Counter;
use crate::out::Out;
use crate::scheduler::View;
use weft_core::Duration;

/// A repetition has to be so much sooner, as a part of the faster round trip: estimates are not better.
const GAIN: f64 = 0.25;
/// A program that has written nothing for so long, with room to write, writes nothing soon: at least this, or a part of the faster round trip.
const QUIET_MIN: Duration = Duration::from_millis(1);
const QUIET_PARTS: u32 = 8;

/// Data that a subflow has and that its tcp has not delivered, at its end: from, to, and how long until it has arrived, seconds.
fn last_of(path: &Path, view: &View) -> Option<(u64, u64, f64)> {
    let mut behind = 0;
    for (start, end) in path.maps.iter().rev().copied() {
        let until = end.min(path.lent);
        if start < until {
            let queued = view.queued_bytes.checked_sub(behind + (end - until)).filter(|bytes| *bytes > 0)?;
            // An acknowledgment comes half a round trip after the data.
            return Some((start, until, queued as f64 / view.rate() - view.rtt_s() / 2.0));
        }
        behind += end - start;
    }
    None
}

impl Connection {
    /// Nothing is left to be handed down, and the program may write more: what comes next comes later than this.
    pub(super) fn help_at_the_end(&mut self, out: &mut Out<'_, '_>) {
        let since = *self.send.quiet_since.get_or_insert(out.now());
        loop {
            let views: Vec<(usize, View)> = self.paths.iter().enumerate().map(|(at, path)| (at, path.view(self.checksum))).collect();
            let idle = views.iter().filter(|(at, view)| {
                let path = &self.paths[*at];
                path.may_send()
                    && !path.suspect
                    && !path.is_backup()
                    && path.room.unsent_bytes == 0
                    && view.room_bytes() > 0
                    && view.rtt.is_some()
            });
            let Some((fast, view)) = idle.min_by(|(_, a), (_, b)| a.rtt_s().total_cmp(&b.rtt_s())).copied() else { return };
            let quiet = QUIET_MIN.max(view.rtt.unwrap_or_default() / QUIET_PARTS);
            if !self.send.end_wanted && out.now() - since < quiet {
                return;
            }
            let slower = views.iter().filter(|(at, slow)| *at != fast && self.paths[*at].may_send() && slow.rtt_s() > view.rtt_s());
            let last = slower.filter_map(|(at, slow)| Some((*at, last_of(&self.paths[*at], slow)?)));
            let Some((slow, (start, end, arrives_s))) = last.max_by(|(_, a), (_, b)| a.2.total_cmp(&b.2)) else { return };
            if arrives_s <= view.rtt_s() * (0.5 + GAIN) {
                return;
            }
            let from = end.saturating_sub(view.bytes_of(1).min(view.room_bytes())).max(start).max(self.send.una);
            self.paths[slow].lent = from;
            if from >= end {
                return;
            }
            out.count(Counter::OpportunisticTx);
            self.hand_down(fast, from, end - from, out);
        }
    }
}
