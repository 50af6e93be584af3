//! What is looked at now and then: wires and connections.

use super::{FlowSample, WireSample, World};
use crate::cell::Machine;
use weft_core::{Message, Op};

impl World {
    pub(super) fn take_samples(&mut self) {
        let now = self.now;
        for node in 0..self.plan.nodes.len() {
            let Some(cell) = self.cell_mut(node) else { continue };
            let mut wires = Vec::new();
            for port in &cell.core.ports {
                let counters = port.out.counters();
                let lost = counters.lost + counters.queue_full + counters.queue_early + counters.cut;
                wires.push((port.wire, counters.bytes, port.out.backlog(), lost));
            }
            let mut rows = Vec::new();
            if let Machine::Host(host) = &mut cell.machine {
                let reply = host.control(now, &Message { serial: 0, op: Op::List(weft_core::Table::Flows) });
                if let Ok(serde_json::Value::Array(found)) = reply.result {
                    rows = found;
                }
            }
            for (wire, bytes, queue, lost) in wires {
                let direction = u8::from(self.plan.wires[wire as usize].ends[0].0 != node);
                self.wire_samples.push(WireSample { at: now, wire: (wire, direction), bytes, queue, lost });
            }
            self.flow_samples.extend(rows.into_iter().map(|row| FlowSample { at: now, node, row }));
        }
    }

    /// What guests have said of their connections, each at its time among the others.
    pub(super) fn gather_samples(&mut self) {
        for node in 0..self.plan.nodes.len() {
            let told = self.cell_mut(node).map(|cell| std::mem::take(&mut cell.core.samples)).unwrap_or_default();
            self.flow_samples.extend(told.into_iter().map(|(at, row)| FlowSample { at, node, row }));
        }
        self.flow_samples.sort_by_key(|sample| (sample.at, sample.node));
    }
}
