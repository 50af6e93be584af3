//! An interface on a wire, and what passes it.

use crate::hash::Way;
use crate::item::Item;
use crate::wire::Direction;
use std::collections::VecDeque;
use weft_core::{Frame, Instant, InterfaceIndex};

/// Where a machine is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Place {
    pub group: u32,
    pub cell: u32,
}

/// A frame on its way to another machine.
#[derive(Debug)]
pub(crate) struct Handover {
    pub to: Place,
    pub port: u32,
    pub arrival: Arrival,
}

/// A frame that will arrive.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub at: Instant,
    /// Order among those of one wire that arrive together.
    pub sequence: u64,
    pub item: Item,
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
    /// As it is in [`Core::due`](super::core::Core).
    pub(super) due: Option<Instant>,
    /// Who sees what passes.
    pub sinks: Vec<Box<dyn FrameSink>>,
}

impl Port {
    pub fn new(interface: InterfaceIndex, name: String, wire: u32, out: Direction, to: Place, to_port: u32) -> Port {
        Port { interface, name, wire, out, to, to_port, sequence: 0, inbox: VecDeque::new(), due: None, sinks: Vec::new() }
    }

    pub(super) fn next(&self) -> Instant {
        let arrival = self.inbox.front().map_or(Instant::FAR_FUTURE, |arrival| arrival.at);
        arrival.min(self.out.next().unwrap_or(Instant::FAR_FUTURE))
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
