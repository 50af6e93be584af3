//! An interface on a wire, and what passes it.

use crate::hash::Way;
use crate::item::Item;
use crate::wire::Direction;
use std::collections::VecDeque;
use std::time::Duration;
use weft_core::{Frame, Instant, InterfaceIndex};

/// Where a machine is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Place {
    pub group: u32,
    pub cell: u32,
}

/// Something on its way to another machine.
#[derive(Debug)]
pub(crate) struct Handover {
    pub to: Place,
    pub port: u32,
    pub load: Load,
}

/// What that is.
#[derive(Debug)]
pub(crate) enum Load {
    Frame(Arrival),
    /// The interface at the other end went up or down.
    Signal(Signal),
}

/// Light that goes on or off, when it is seen at the other end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Signal {
    pub at: Instant,
    /// Order among those of one wire.
    pub sequence: u64,
    pub up: bool,
}

/// A frame that will arrive.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub at: Instant,
    /// Order among those of one wire that arrive together.
    pub sequence: u64,
    pub item: Item,
}

/// What a port knows of the other end of its wire, and what its machine was told.
#[derive(Debug)]
pub(crate) struct Line {
    /// How long it takes until a change is noticed; none: for ever.
    noticed: Option<Duration>,
    /// The interface here is up, as the other end will know.
    pub told_up: bool,
    /// The interface there is up, and its machine has power.
    pub peer_up: bool,
    /// What the machine knows.
    pub carrier: bool,
    /// When it is told of a change.
    notice: Option<Instant>,
    signals: VecDeque<Signal>,
}

impl Line {
    fn new(noticed: Option<Duration>) -> Line {
        Line { noticed, told_up: true, peer_up: true, carrier: true, notice: None, signals: VecDeque::new() }
    }

    /// From now on it takes this long.
    pub fn set_noticed(&mut self, noticed: Option<Duration>) {
        self.noticed = noticed;
        self.notice = None;
    }

    /// When something is to be seen, or told.
    pub fn next(&self) -> Instant {
        let signal = self.signals.front().map_or(Instant::FAR_FUTURE, |signal| signal.at);
        signal.min(self.notice.unwrap_or(Instant::FAR_FUTURE))
    }

    pub fn deliver(&mut self, signal: Signal) {
        let at = self.signals.partition_point(|other| (other.at, other.sequence) <= (signal.at, signal.sequence));
        self.signals.insert(at, signal);
    }

    /// The machine at the other end has lost its power, or has booted: what was under way is no more.
    pub fn set_power(&mut self, on: bool) {
        self.signals.clear();
        self.peer_up = on;
    }

    /// Takes a signal that is there by now.
    pub fn see(&mut self, now: Instant) -> bool {
        let signal = if self.signals.front().is_some_and(|signal| signal.at <= now) { self.signals.pop_front() } else { None };
        self.peer_up = signal.map_or(self.peer_up, |signal| signal.up);
        signal.is_some()
    }

    /// What the machine is told now, if anything; `joined`: the wire is not cut.
    pub fn settle(&mut self, now: Instant, joined: bool) -> Option<bool> {
        let (carrier, delay) = (joined && self.peer_up, self.noticed?);
        if carrier == self.carrier {
            self.notice = None;
            return None;
        }
        let at = *self.notice.get_or_insert(now + delay);
        if at > now {
            return None;
        }
        (self.carrier, self.notice) = (carrier, None);
        Some(carrier)
    }

    /// The machine boots: what it finds.
    pub fn boot(&mut self, joined: bool) {
        (self.told_up, self.notice) = (true, None);
        self.carrier = self.noticed.is_none() || joined && self.peer_up;
    }
}

/// Gets every frame that passes an interface (a capture).
pub trait FrameSink: Send {
    /// A frame passed: going out, at the beginning of its serialisation.
    fn frame(&mut self, at: Instant, way: Way, frame: &Frame);
}

/// An interface on a wire.
pub(crate) struct Port {
    pub interface: InterfaceIndex,
    pub name: String,
    pub wire: u32,
    pub out: Direction,
    pub to: Place,
    pub to_port: u32,
    pub(super) sequence: u64,
    pub(super) inbox: VecDeque<Arrival>,
    pub(super) line: Line,
    /// As it is in [`Core::due`](super::core::Core).
    pub(super) due: Option<Instant>,
    /// Who sees what passes.
    pub sinks: Vec<Box<dyn FrameSink>>,
}

impl Port {
    pub fn new(
        interface: InterfaceIndex,
        name: String,
        (wire, noticed): (u32, Option<Duration>),
        out: Direction,
        to: (Place, u32),
    ) -> Port {
        let (inbox, line, (to, to_port)) = (VecDeque::new(), Line::new(noticed), to);
        Port { interface, name, wire, out, to, to_port, sequence: 0, inbox, line, due: None, sinks: Vec::new() }
    }

    pub(super) fn next(&self) -> Instant {
        self.next_incoming().min(self.out.next().unwrap_or(Instant::FAR_FUTURE))
    }

    /// When something reaches the machine here.
    pub(super) fn next_incoming(&self) -> Instant {
        let arrival = self.inbox.front().map_or(Instant::FAR_FUTURE, |arrival| arrival.at);
        arrival.min(self.line.next())
    }

    /// Most arrive in order: looked for from the end.
    pub(super) fn deliver(&mut self, arrival: Arrival) {
        let key = (arrival.at, arrival.sequence);
        let mut at = self.inbox.len();
        while at > 0 && self.inbox.get(at - 1).is_some_and(|before| (before.at, before.sequence) > key) {
            at -= 1;
        }
        self.inbox.insert(at, arrival);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Instant = Instant::from_millis;

    #[test]
    fn a_line_is_noticed_when_its_delay_is_over_and_not_at_all_when_it_is_back_before() {
        let mut line = Line::new(Some(Duration::from_millis(50)));
        assert_eq!((line.settle(MS(100), false), line.next()), (None, MS(150)));
        assert_eq!((line.settle(MS(120), true), line.next()), (None, Instant::FAR_FUTURE), "back before anybody noticed");
        assert_eq!(line.settle(MS(200), false), None);
        assert_eq!((line.settle(MS(250), false), line.settle(MS(260), false)), (Some(false), None));
        assert_eq!((line.settle(MS(300), true), line.settle(MS(350), true)), (None, Some(true)));
    }

    #[test]
    fn what_the_other_end_says_is_seen_in_its_order_and_not_after_its_power_went() {
        let mut line = Line::new(Some(Duration::ZERO));
        for (at, sequence, up) in [(9, 2, true), (9, 1, false), (5, 3, false)] {
            line.deliver(Signal { at: MS(at), sequence, up });
        }
        assert_eq!(line.next(), MS(5));
        assert!(!line.see(MS(4)));
        assert!(line.see(MS(5)) && line.settle(MS(5), true) == Some(false));
        assert!(line.see(MS(9)) && line.settle(MS(9), true).is_none());
        assert!(line.see(MS(9)) && line.settle(MS(9), true) == Some(true) && !line.see(MS(9)));
        line.deliver(Signal { at: MS(12), sequence: 4, up: true });
        line.set_power(false);
        assert_eq!((line.settle(MS(12), true), line.see(MS(20))), (Some(false), false));
        // Who boots beside it finds that.
        line.boot(true);
        assert!(!line.carrier);
    }

    #[test]
    fn a_silent_line_is_never_noticed() {
        let mut line = Line::new(None);
        line.set_power(false);
        assert_eq!(line.settle(MS(1), false), None);
        line.boot(false);
        assert!(line.carrier);
    }
}
