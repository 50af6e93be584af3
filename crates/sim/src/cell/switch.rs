//! A learning switch (IEEE 802.1D without spanning tree), and a segment that everybody hears.
//!
//! It forwards a whole frame as soon as it has arrived, and adds no time of its own: what waits, waits in the queue of the wire it goes out by.
//! A topology with a loop is refused by nobody and floods for ever, as real ones do.

use super::core::Core;
use crate::item::Item;
use crate::plan::SwitchPlan;
use std::collections::BTreeMap;
use weft_core::Instant;

/// What it knows.
#[derive(Debug)]
pub(crate) struct Switch {
    plan: SwitchPlan,
    /// Where a station was heard last, and when.
    stations: BTreeMap<[u8; 6], (usize, Instant)>,
    /// Stations that found no room.
    pub refused: u64,
    /// Frames that went out through every other port.
    pub flooded: u64,
}

impl Switch {
    pub fn new(plan: SwitchPlan) -> Switch {
        Switch { plan, stations: BTreeMap::new(), refused: 0, flooded: 0 }
    }

    /// A frame came in through `port`.
    pub fn forward(&mut self, core: &mut Core, port: usize, item: Item) {
        let head = item.frame.head();
        let (Some(to), Some(from)) = (head.first_chunk::<6>().copied(), head.get(6..).and_then(|rest| rest.first_chunk::<6>()).copied())
        else {
            return;
        };
        if self.plan.learns && from[0] & 1 == 0 {
            self.learn(from, port, core.now);
        }
        let known = self.stations.get(&to).filter(|(_, seen)| core.now.since(*seen) <= self.plan.age).map(|(port, _)| *port);
        match known.filter(|_| to[0] & 1 == 0) {
            Some(out) if out == port => {}
            Some(out) => core.send_item(out, item),
            None => {
                self.flooded += 1;
                (0..core.ports.len()).filter(|out| *out != port).for_each(|out| core.send_item(out, item.clone()));
            }
        }
    }

    fn learn(&mut self, station: [u8; 6], port: usize, now: Instant) {
        if !self.stations.contains_key(&station) && self.stations.len() >= self.plan.stations_max {
            let age = self.plan.age;
            self.stations.retain(|_, (_, seen)| now.since(*seen) <= age);
            if self.stations.len() >= self.plan.stations_max {
                self.refused += 1;
                return;
            }
        }
        self.stations.insert(station, (port, now));
    }
}
