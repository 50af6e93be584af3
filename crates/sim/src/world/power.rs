//! Machines lose power, and boot anew.

use super::state::State;
use crate::boot::boot;
use crate::cell::Machine;
use crate::launch::start_programs;

/// The machine loses power: programs, connections and what its wires' queues hold are gone.
pub(super) fn crash(state: &mut State, node: usize) {
    let now = state.now;
    // What its programs have written by now is on its disk; /tmp is not, and in memory it is gone.
    state.collect(node);
    let Some(cell) = state.cells.get_mut(node) else { return };
    cell.core.now = cell.core.now.max(now);
    cell.end_programs(now);
    if matches!(cell.machine, Machine::Host(_) | Machine::Guest(_)) {
        cell.machine = Machine::Off;
    }
    cell.core.off = true;
    for port in 0..cell.core.ports.len() {
        cell.core.lose_inbox(port);
        cell.core.with_wire(port, |wire, dropped| {
            // One that is cut stays so.
            let up = wire.is_up();
            wire.set_up(false, dropped);
            wire.set_up(up, dropped);
        });
    }
    cell.core.forget_completions();
    cell.core.forget_signals();
    state.wires.set_power(&mut state.cells, now, node, false);
}

/// It boots anew, on a fresh disk or on that which it had. Programs that start by time start again.
pub(super) fn restart(state: &mut State, node: usize, fresh: bool) -> Result<(), String> {
    crash(state, node);
    let State { plan, now, cells, wires, programs, common, boots, processors, collection, .. } = state;
    if let (true, Some(cell)) = (fresh, cells.get_mut(node)) {
        cell.disk = None;
        if let Some(collection) = collection {
            collection.keep(&cell.core.name);
        }
    }
    let cpu = processors.as_ref().and_then(|claim| claim.of(cells.lane_of(node)));
    // Its ports are in their places already.
    let Some(cell) = cells.get_mut(node) else { return Ok(()) };
    let dark = cell.core.boot_lines();
    let (machine, _) = boot(plan, node, None, &dark, &mut boots[node], *now, cpu).map_err(|error| error.to_string())?;
    cell.machine = machine;
    cell.taken = Default::default();
    cell.core.off = false;
    cell.core.booted = *now;
    let programs = programs.get(node).map_or(&[][..], Vec::as_slice);
    let result = start_programs(plan, node, programs, common, cell, *now, cpu);
    cell.begin();
    wires.set_power(cells, *now, node, true);
    result.map_err(|error| error.to_string())
}
