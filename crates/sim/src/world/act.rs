//! What happens from outside: events of the plan, at their time.

use super::control::control;
use super::power::{crash, restart};
use super::state::State;
use crate::cell::{Cell, Machine};
use crate::plan::{Action, Run};
use crate::report::ProgramId;
use std::iter::Peekable;
use weft_core::{Instant, Op, Selector, command};

/// What came of an event that was taken.
enum Acted {
    /// The world is another.
    Done,
    /// There was nothing to do, and why: somebody should know.
    Nothing(String),
}

/// Everything that is due now; what was refused, and what changed nothing, is noted.
pub(super) fn act_due(
    state: &mut State,
    events: &mut Peekable<impl Iterator<Item = (Instant, Action)>>,
    refused: &mut Vec<String>,
    idle: &mut Vec<String>,
) {
    while let Some((at, action)) = events.next_if(|(at, _)| *at <= state.now) {
        let ended = state.all_have_ended();
        match act(state, &action) {
            Ok(Acted::Done) => idle.extend(
                ended
                    .filter(|_| state.all_have_ended().is_some())
                    .map(|ended| format!("event at {at}: the last program that was waited for had ended at {ended}")),
            ),
            Ok(Acted::Nothing(why)) => idle.push(format!("event at {at}: {why}")),
            Err(why) => refused.push(format!("event at {at}: {why}")),
        }
    }
}

fn act(state: &mut State, action: &Action) -> Result<Acted, String> {
    match action {
        Action::Control { node, op } => control(state, *node, op.clone()).map(|_| Acted::Done).map_err(|why| {
            let words = command::write(op).unwrap_or_else(|| format!("{op:?}")).replace('\n', "; ");
            let name = state.plan.nodes.get(*node).map_or("?", |node| node.name.as_str());
            format!("'{name}' is told {words}: {why}")
        }),
        Action::Wire { wire, directions } => {
            state.wires.change(&mut state.cells, state.now, *wire, directions);
            Ok(Acted::Done)
        }
        Action::Carrier { wire, up } => {
            let is_so = state.wires.is_up(&state.cells, *wire) == Some(*up);
            state.wires.set_carrier(&mut state.cells, state.now, *wire, *up);
            let name = state.plan.wires.get(*wire).filter(|_| is_so).map(|wire| &wire.name);
            let word = if *up { "up" } else { "down" };
            Ok(name.map_or(Acted::Done, |name| Acted::Nothing(format!("wire '{name}' goes {word}, and was {word} already"))))
        }
        Action::Interface { node, interface, up } => {
            let exec = |block: &str, procedure: &str, arguments| Op::Exec {
                target: Selector::Name(block.to_owned()),
                procedure: procedure.to_owned(),
                arguments,
            };
            control(state, *node, exec("interfaces", "set", serde_json::json!({"name": interface, "up": up})))?;
            for block in ["ip4", "ip6"] {
                // As `ip link set` does: what is down has no routes. A graph without the block has none anyway.
                let _ = control(state, *node, exec(block, "interface_set", serde_json::json!({"interface": interface, "up": up})));
            }
            Ok(Acted::Done)
        }
        Action::Crash { node } => match state.cells.get(*node).map(|cell| (cell.core.off, &cell.core.name)) {
            Some((true, name)) => Ok(Acted::Nothing(format!("'{name}' crashes, and was off already"))),
            _ => {
                crash(state, *node);
                Ok(Acted::Done)
            }
        },
        Action::Restart { node, fresh } => restart(state, *node, *fresh).map(|()| Acted::Done),
        Action::Start { program } => start(state, *program),
        Action::Signal { program, signal } => told(state, *program, "gets a signal", |state| {
            state.with_actor(*program, |actor, id| actor.signal(id, *signal));
        }),
        // That was its purpose.
        Action::Stop { program } if prevent(state, *program) => Ok(Acted::Done),
        Action::Stop { program } => told(state, *program, "is stopped", |state| {
            let node = state.plan.programs.get(*program).map_or(usize::MAX, |program| program.node);
            if let Some(cell) = state.cells.get_mut(node) {
                cell.stop(ProgramId(*program as u32));
            }
        }),
    }
}

/// Is a program to start later, on a node that runs, and has not yet? Then it does not.
fn prevent(state: &mut State, program: usize) -> bool {
    let (now, id) = (state.now, ProgramId(program as u32));
    let later = state.plan.programs.get(program).filter(|plan| plan.start.is_some_and(|at| at > now)).map(|plan| plan.node);
    let Some(cell) = later.and_then(|node| state.cells.get_mut(node)).filter(|cell| !cell.core.off) else { return false };
    let never = cell.is_early(id) || cell.core.programs.get(&id).is_none_or(|program| program.started.is_none());
    if never {
        cell.core.now = cell.core.now.max(now);
        cell.stop(id);
    }
    never
}

/// Something for a program; who is not there is told nothing.
fn told(state: &mut State, program: usize, what: &str, tell: impl FnOnce(&mut State)) -> Result<Acted, String> {
    let (now, id) = (state.now, ProgramId(program as u32));
    let Some(plan) = state.plan.programs.get(program) else { return Ok(Acted::Done) };
    let (name, node) = (plan.name.clone(), plan.node);
    let Some(cell) = state.cells.get_mut(node) else { return Ok(Acted::Done) };
    let program = cell.core.programs.get(&id);
    let why = match program.and_then(|program| program.started.map(|_| program.ended)) {
        None => Some("it has not started".to_owned()),
        Some(Some((at, status))) => Some(format!("it ended at {at} ({status})")),
        Some(None) => None,
    };
    cell.core.now = cell.core.now.max(now);
    // Those that it has started may be there still.
    tell(state);
    Ok(why.map_or(Acted::Done, |why| Acted::Nothing(format!("{name} {what}: {why}"))))
}

fn start(state: &mut State, program: usize) -> Result<Acted, String> {
    let now = state.now;
    let Some(plan) = state.plan.programs.get(program) else { return Ok(Acted::Done) };
    let (id, run, name) = (ProgramId(program as u32), plan.run.clone(), plan.name.clone());
    let Some(cell) = state.cells.get_mut(plan.node) else { return Ok(Acted::Done) };
    cell.core.now = cell.core.now.max(now);
    if let Some(why) = cannot_start(cell, id) {
        return Err(format!("{name} cannot start: {why}"));
    }
    match run {
        Run::Builtin(_) if cell.is_early(id) => cell.start(id),
        Run::Builtin(builtin) => cell.add_actor(builtin.actor(id), now, vec![id]),
        Run::Process(_) => cell.start(id),
    }
    Ok(Acted::Done)
}

/// What a run that was cut short did not come to.
pub(super) fn not_reached(mut events: impl ExactSizeIterator<Item = (Instant, Action)>) -> Option<String> {
    let (at, _) = events.next()?;
    let more = if events.len() == 0 { String::new() } else { format!(" and {} later", events.len()) };
    Some(format!("event at {at}{more}: the run ended before"))
}

fn cannot_start(cell: &Cell, program: ProgramId) -> Option<String> {
    if matches!(cell.machine, Machine::Off) {
        return Some(format!("its node '{}' has crashed (restart = \"{}\" boots it)", cell.core.name, cell.core.name));
    }
    let state = cell.core.programs.get(&program);
    let runs = state.is_some_and(|state| state.started.is_some() && state.ended.is_none());
    runs.then(|| "it is running already".to_owned())
}
