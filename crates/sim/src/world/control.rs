//! What nodes are told, and their snapshots.

use super::state::State;
use crate::cell::{Cell, Machine};
use weft_core::{Instant, Message, Op, Snapshot, TimeKind, command, snapshot};

/// Sends a control message to a node: [`crate::World::control`].
///
/// # Errors
/// The node refuses, or there is none.
pub(super) fn control(state: &mut State, node: usize, op: Op) -> Result<serde_json::Value, String> {
    match op {
        Op::Snapshot { file } => save(state, node, &file),
        Op::Restore { file } => restore(state, node, &file),
        op => tell(state, node, op),
    }
}

fn tell(state: &mut State, node: usize, op: Op) -> Result<serde_json::Value, String> {
    let now = state.now;
    let cell = state.cells.get_mut(node).ok_or("there is no such node")?;
    cell.core.now = cell.core.now.max(now);
    let Machine::Host(host) = &mut cell.machine else { return Err(format!("'{}' has no stack, or is off", cell.core.name)) };
    let told = (!op.is_question()).then(|| command::write(&op).unwrap_or_else(|| format!("{op:?}")));
    let result = host.control(now, &Message { serial: 0, op }).result.map_err(|error| error.to_string());
    if let Some(told) = told {
        let (Ok(answer) | Err(answer)) = result.as_ref().map(serde_json::Value::to_string).map_err(Clone::clone);
        cell.core.told(result.is_err(), &format!("{told}\n{answer}"));
    }
    cell.carry_on();
    result
}

fn save(state: &mut State, node: usize, file: &str) -> Result<serde_json::Value, String> {
    let cell = state.cells.get_mut(node).ok_or("there is no such node")?;
    let now = cell.core.now.max(state.now);
    let Machine::Host(host) = &mut cell.machine else { return Err(format!("'{}' has no stack, or is off", cell.core.name)) };
    let snapshot = host.snapshot(now, TimeKind::Virtual).map_err(|error| error.to_string())?;
    let bytes = snapshot.to_bytes().map_err(|error| error.to_string())?;
    let answer = format!("snapshot {file}: {} blocks, {} bytes", snapshot.blocks.len(), bytes.len());
    let digest = snapshot::digest(&bytes);
    state.kept.write(file, bytes)?;
    cell.taken.add(digest);
    Ok(vec![answer].into())
}

fn restore(state: &mut State, node: usize, file: &str) -> Result<serde_json::Value, String> {
    // What lies beside the scenario was read when that was.
    let bytes = match state.plan.snapshots.get(file) {
        Some(bytes) => bytes.to_vec(),
        None => state.kept.read(file)?,
    };
    let snapshot = Snapshot::from_bytes(&bytes).map_err(|error| error.to_string())?;
    let cell = state.cells.get_mut(node).ok_or("there is no such node")?;
    take_over(cell, state.now, &snapshot, snapshot::digest(&bytes))
}

fn take_over(cell: &mut Cell, now: Instant, snapshot: &Snapshot, digest: u128) -> Result<serde_json::Value, String> {
    cell.core.now = cell.core.now.max(now);
    let Machine::Host(host) = &mut cell.machine else { return Err(format!("'{}' has no stack, or is off", cell.core.name)) };
    let own = cell.taken.has(digest);
    let result = host.restore(cell.core.now, snapshot, own).map_err(|error| error.to_string());
    // Wires are not in it: the node finds them as they are now, and the other ends its interfaces.
    for (name, carrier) in cell.core.lines_now() {
        let _ = host.set_carrier(cell.core.now, &name, carrier);
    }
    cell.carry_on();
    result.map(Into::into)
}
