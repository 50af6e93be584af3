//! How a node's clock is set and disciplined, beside what stands in the arena.

use super::ntp::Ntp;
use super::timers::Key;
use std::collections::VecDeque;
use weft_loader::abi::Line;

/// So many changes of a clock are remembered, for packets that came before them and were not looked at.
const BEFORE_MAX: usize = 16;

/// How a node's clock is set and disciplined.
#[derive(Debug, Default)]
pub(super) struct Discipline {
    pub ntp: Ntp,
    /// The last second of CLOCK_REALTIME of which `ntp` knows. None: nobody has asked yet.
    pub second: Option<i64>,
    /// When the next is to begin.
    pub next: Option<Key>,
    /// The date was set, or a rate changed.
    pub touched: bool,
    /// settimeofday(2) was told a zone.
    pub has_zone: bool,
    /// How CLOCK_REALTIME ran before: until when, its line, and [`weft_loader::abi::Clocks::epoch`]. The latest is the last.
    pub before: VecDeque<(u64, Line, u64)>,
}

impl Discipline {
    /// CLOCK_REALTIME has run so until then: its line, and [`weft_loader::abi::Clocks::epoch`].
    pub fn remember(&mut self, until: u64, line: Line, epoch: u64) {
        if self.before.len() >= BEFORE_MAX {
            self.before.pop_front();
        }
        self.before.push_back((until, line, epoch));
    }
}
