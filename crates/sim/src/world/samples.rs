//! What is looked at now and then: wires and connections.

use super::cells::Cells;
use super::state::State;
use crate::cell::Machine;
use weft_core::{Instant, Message, Op, Table};

/// A sample of one direction of a wire.
#[derive(Clone, Copy, Debug)]
pub struct WireSample {
    /// When.
    pub at: Instant,
    /// Which wire, which direction.
    pub wire: (u32, u8),
    /// Bytes whose serialisation had begun.
    pub bytes: u64,
    /// Frames and bytes that waited.
    pub queue: (usize, u64),
    /// Frames lost so far: on the way and in the queue.
    pub lost: u64,
}

/// A sample of one TCP connection, or of one of Multipath TCP.
#[derive(Clone, Debug)]
pub struct FlowSample {
    /// When.
    pub at: Instant,
    /// Place of the node in the plan.
    pub node: usize,
    /// Row of the node's table of flows, or of its connections of Multipath TCP.
    pub row: serde_json::Value,
}

/// Looks at every wire and every connection of a host.
pub(super) fn take(state: &mut State, of_wires: &mut Vec<WireSample>, of_flows: &mut Vec<FlowSample>, of_multipath: &mut Vec<FlowSample>) {
    let State { plan, now, cells, .. } = state;
    let now = *now;
    for node in 0..plan.nodes.len() {
        let Some(cell) = cells.get_mut(node) else { continue };
        for port in &cell.core.ports {
            let counters = port.out.counters();
            let lost = counters.lost + counters.queue_full + counters.queue_early + counters.cut;
            let direction = u8::from(plan.wires[port.wire as usize].ends[0].0 != node);
            of_wires.push(WireSample { at: now, wire: (port.wire, direction), bytes: counters.bytes, queue: port.out.backlog(), lost });
        }
        if let Machine::Host(host) = &mut cell.machine {
            for (table, samples) in [(Table::Flows, &mut *of_flows), (Table::Multipath, &mut *of_multipath)] {
                // A node without such a block has none.
                if let Ok(serde_json::Value::Array(rows)) = host.control(now, &Message { serial: 0, op: Op::List(table) }).result {
                    samples.extend(rows.into_iter().map(|row| FlowSample { at: now, node, row }));
                }
            }
        }
    }
}

/// What guests have said of their connections, each at its time among the others.
pub(super) fn gather(cells: &mut Cells, nodes: usize, of_flows: &mut Vec<FlowSample>) {
    for node in 0..nodes {
        let told = cells.get_mut(node).map(|cell| std::mem::take(&mut cell.core.samples)).unwrap_or_default();
        of_flows.extend(told.into_iter().map(|(at, row)| FlowSample { at, node, row }));
    }
    of_flows.sort_by_key(|sample| (sample.at, sample.node));
}
