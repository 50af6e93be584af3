//! Congestion controls of the subflows: which one, what a coupled one hears of the others, and what becomes of one that holds up the others.

use super::{Connection, Path, Stage};
use crate::counters::Counter;
use crate::out::Out;
use weft_core::{Advice, Duration, FlowId, Sibling, StreamCall, StreamMessage, StreamOption};

/// A sibling is told of anew when something of it has changed by this part.
const CHANGED_PARTS: u64 = 32;

/// Has it changed so much that it matters?
fn differs(a: u64, b: u64) -> bool {
    a.abs_diff(b) > a.min(b) / CHANGED_PARTS
}

impl Path {
    fn sibling(&self) -> Sibling {
        let room = &self.room;
        Sibling { cwnd_bytes: room.cwnd_bytes, rtt: room.rtt.unwrap_or_default(), interval_bytes: room.interval_bytes }
    }
}

impl Connection {
    /// A subflow that others have opened has the control of this node, if the program has chosen none.
    pub(crate) fn choose_control(&self, flow: FlowId, out: &mut Out<'_, '_>) {
        if let (None, Some(name)) = (&self.options.congestion, &out.settings.congestion) {
            let name = name.clone();
            out.call(flow, StreamCall::Set(StreamOption::Congestion(Some(name))));
        }
    }

    /// The node's control is another now.
    pub(crate) fn control_changed(&mut self, out: &mut Out<'_, '_>) {
        let flows: Vec<FlowId> = self.paths.iter().filter(|path| !path.released).map(|path| path.flow).collect();
        flows.into_iter().for_each(|flow| self.choose_control(flow, out));
        self.forget_told();
    }

    /// What controls were told of the others is forgotten: a new one has heard nothing.
    pub(super) fn forget_told(&mut self) {
        self.paths.iter_mut().for_each(|path| path.told.clear());
    }

    /// Coupled controls hear how the other subflows do.
    pub(super) fn tell_siblings(&mut self, out: &mut Out<'_, '_>) {
        if !self.paths.iter().any(|path| path.room.coupled) {
            return;
        }
        let all: Vec<(FlowId, Sibling)> =
            self.paths.iter().filter(|path| path.may_send()).map(|path| (path.flow, path.sibling())).collect();
        for path in self.paths.iter_mut().filter(|path| path.room.coupled && path.may_send()) {
            let others: Vec<Sibling> = all.iter().filter(|(flow, _)| *flow != path.flow).map(|(_, sibling)| *sibling).collect();
            let same = path.told.len() == others.len() && path.told.iter().zip(&others).all(|(told, now)| !has_changed(told, now));
            if !same {
                path.told.clone_from(&others);
                out.down(StreamMessage::Advice { flow: path.flow, advice: Box::new(Advice::Siblings(others)) });
            }
        }
    }

    /// Opportunistic retransmission and penalisation (Raiciu et al., "How Hard Can It Be?", NSDI'12, §4.2): the peer's window, or this side's buffer, is used
    /// up, and the data that would free it is on a slow subflow. A faster one that is idle sends it too, and the slow one's window is halved, once in a
    /// round trip of it.
    pub(super) fn help_the_slow(&mut self, out: &mut Out<'_, '_>) {
        let send = &self.send;
        if self.paths.len() < 2
            || !out.settings.opportunistic
            || !out.scheduler().lends()
            || self.stage != Stage::Open
            || send.una >= send.next
        {
            return;
        }
        if send.unsent() == 0 && (send.end < send.granted || send.end_wanted) {
            return self.help_at_the_end(out);
        }
        let used_up = if send.unsent() > 0 { send.edge <= send.next } else { send.end >= send.granted };
        if !used_up || send.una < send.helped {
            return;
        }
        let una = send.una;
        let holds = |path: &Path| path.maps.iter().find(|(start, end)| (*start..*end).contains(&una)).copied();
        let Some((slow, (_, end))) = self.paths.iter().enumerate().find_map(|(index, path)| Some((index, holds(path)?))) else { return };
        let rtt_of = |path: &Path| path.room.rtt.unwrap_or(Duration::MAX);
        let slow_rtt = rtt_of(&self.paths[slow]);
        let faster = self.paths.iter().enumerate().filter(|(_, path)| {
            let idle = path.view(self.checksum).room_bytes() > 0 && path.room.unsent_bytes == 0;
            path.may_send() && !path.suspect && !path.is_backup() && idle && rtt_of(path) < slow_rtt && holds(path).is_none()
        });
        let Some((index, path)) = faster.min_by_key(|(_, path)| rtt_of(path)) else { return };
        let bytes = (end - una).min(path.view(self.checksum).room_bytes()).min(path.view(self.checksum).bytes_of(1));
        self.send.helped = una + bytes;
        out.count(Counter::OpportunisticTx);
        self.hand_down(index, una, bytes, out);
        let slow = &mut self.paths[slow];
        if slow.may_send() && slow.halved_at.is_none_or(|at| out.now() - at >= slow_rtt) {
            slow.halved_at = Some(out.now());
            out.count(Counter::Penalised);
            out.down(StreamMessage::Advice { flow: slow.flow, advice: Box::new(Advice::Halve) });
        }
    }
}

/// Is it to be told anew?
fn has_changed(told: &Sibling, now: &Sibling) -> bool {
    differs(told.cwnd_bytes.into(), now.cwnd_bytes.into())
        || differs(told.rtt.as_nanos() as u64, now.rtt.as_nanos() as u64)
        || differs(told.interval_bytes, now.interval_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_changes_are_not_told() {
        let told = Sibling { cwnd_bytes: 64_000, rtt: Duration::from_millis(64), interval_bytes: 1_000_000 };
        assert!(!has_changed(&told, &Sibling { cwnd_bytes: 66_000, ..told }));
        assert!(has_changed(&told, &Sibling { cwnd_bytes: 66_001, ..told }));
        assert!(has_changed(&told, &Sibling { rtt: Duration::from_millis(61), ..told }));
        assert!(has_changed(&told, &Sibling { interval_bytes: 0, ..told }));
        assert!(!has_changed(&Sibling::default(), &Sibling::default()));
    }
}
