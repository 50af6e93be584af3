//! Visits while the world runs: see [`crate::visit`].

use super::control::control;
use super::state::State;
use crate::actor::Next;
use crate::cell::Machine;
use crate::early::Shared;
use crate::life::ProgramState;
use crate::limits::NAMES_TOLD;
use crate::plan::{Expect, NodeKind, NodePlan, Plan, ProcessPlan, ProgramPlan, Run};
use crate::process::ProcessTree;
use crate::report::ProgramId;
use crate::visit::{News, Pacer, Telling, Visit, Visitor, Visits, Wish};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use weft_core::Instant;
use weft_core::Table;
use weft_core::command;
use weft_core::control::{ControlError, Op, Value};
use weft_node::{Shape, Wiring};

/// How long an idle world sleeps before it looks whether it was interrupted.
const IDLE: Duration = Duration::from_millis(50);

/// Who may come in from outside, and whether the world's time is tied to theirs.
#[derive(Default)]
pub(super) struct Door {
    visits: Option<Arc<Visits>>,
    pacer: Option<Arc<dyn Pacer>>,
    /// Programs from this number on are visitors'.
    first: Option<usize>,
    /// Nodes that were told something from outside, which was no question.
    told: BTreeSet<usize>,
}

impl Door {
    /// Lets people in, who come through `visits`.
    pub fn open(&mut self, visits: Arc<Visits>) {
        self.visits = Some(visits);
    }

    /// Ties the world's time to the time outside.
    pub fn pace(&mut self, pacer: Arc<dyn Pacer>) {
        self.pacer = Some(pacer);
    }

    /// Called before each window: waits for the time outside. False: somebody wants to come in.
    pub fn before(&self, window: Instant, half: Duration) -> bool {
        if let Some(pacer) = &self.pacer {
            // A window's events come at once: half of it early, half of it late.
            pacer.wait(window + half);
        }
        !self.knocks()
    }

    pub fn knocks(&self) -> bool {
        self.visits.as_ref().is_some_and(|visits| visits.pending())
    }

    /// Nobody can come in, and nobody outside looks at the time.
    pub fn is_locked(&self) -> bool {
        self.visits.is_none() && self.pacer.is_none()
    }

    /// Is time tied to the time outside?
    pub fn is_paced(&self) -> bool {
        self.pacer.is_some()
    }

    /// Nothing is due, but somebody is inside: sleeps until they do something. False: nobody is.
    pub fn wait_for_visitors(&mut self, state: &mut State) -> bool {
        let (Some(first), Some(visits), None) = (self.first, self.visits.clone(), &self.pacer) else { return false };
        let inside = |number: usize| state.program(number).is_some_and(|program| program.ended.is_none());
        if !(first..state.plan.programs.len()).any(inside) {
            return false;
        }
        visits.wait(IDLE);
        let latest = state.latest();
        self.admit(state, latest);
        true
    }

    /// Lets in everybody who waits, not after `limit`, before which nothing is due.
    pub fn admit(&mut self, state: &mut State, limit: Instant) {
        let Some(visits) = self.visits.clone() else { return };
        let outside = self.pacer.as_ref().map_or(limit, |pacer| pacer.now());
        state.now = outside.clamp(state.latest().min(limit), limit);
        for visit in visits.take() {
            match visit {
                Visit::Start(visitor) => {
                    let news = visitor.news.clone();
                    if let Err(why) = self.welcome(state, visitor) {
                        let _ = news.send(News::Refused(why));
                    }
                }
                Visit::Signal(program, signal) => state.with_actor(program, |actor, id| actor.signal(id, signal)),
                Visit::Poke(program) => state.with_actor(program, |actor, _| actor.poke()),
                Visit::Tell(Telling { node, wish, answer }) => {
                    let answered = self.hear(state, node.as_deref(), wish);
                    let _ = answer.send(answered);
                }
            }
        }
    }

    /// Carries out what somebody outside wants of a node.
    fn hear(&mut self, state: &mut State, node: Option<&str>, wish: Wish) -> Result<Value, ControlError> {
        let refused = |why: String| ControlError::World { why: why.into() };
        let names = || {
            let hosts = state.plan.nodes.iter().filter(|node| matches!(node.kind, NodeKind::Host(_)));
            let names = hosts.take(NAMES_TOLD).map(|node| node.name.as_str()).collect::<Vec<_>>().join(", ");
            if names.is_empty() { "none".to_owned() } else { names }
        };
        let why_not = |name: &str| match state.plan.nodes.iter().find(|node| node.name == name) {
            Some(node) => without_stack(node),
            None => format!("there is no node '{name}' in this world\nhelp: with a stack there are: {}", names()),
        };
        let mut hosts = (0..state.plan.nodes.len()).filter(|node| matches!(state.plan.nodes[*node].kind, NodeKind::Host(_)));
        let index = match node {
            Some(name) => hosts.find(|index| state.plan.nodes[*index].name == name).ok_or_else(|| refused(why_not(name)))?,
            None => match (hosts.next(), hosts.next()) {
                (Some(only), None) => only,
                _ => return Err(refused(format!("this is the socket of a world: which node?\nhelp: --node NAME; there are: {}", names()))),
            },
        };
        let op = match wish {
            Wish::Op(op) => op,
            Wish::Apply { shape, wiring, dry_run } => {
                check_wiring(state, index, wiring.as_ref())?;
                return self.shape(state, index, &shape, dry_run);
            }
        };
        let not_from_outside = match op {
            Op::Snapshot { .. } | Op::Restore { .. } => {
                "that cannot be asked of a node of a running world from outside\nhelp: write it into the scenario, as an event: control = [\"…\"]"
            }
            op => return self.tell(state, index, op),
        };
        Err(refused(not_from_outside.to_owned()))
    }

    fn tell(&mut self, state: &mut State, node: usize, op: Op) -> Result<Value, ControlError> {
        let changes = !op.is_question();
        let result = control(state, node, op).map_err(|why| ControlError::World { why: why.into() });
        if changes {
            self.told.insert(node);
        }
        result
    }

    /// Brings a node's graph to a shape, as the daemon of a single stack does.
    fn shape(&mut self, state: &mut State, node: usize, shape: &Shape, dry_run: bool) -> Result<Value, ControlError> {
        let now = state.now;
        let (operations, checked) = match state.cells.get_mut(node).map(|cell| (cell.core.now.max(now), &mut cell.machine)) {
            Some((now, Machine::Host(host))) => host.apply(now, shape, true)?,
            _ => return Err(ControlError::World { why: format!("'{}' is off", state.plan.nodes[node].name).into() }),
        };
        let words: Vec<Option<String>> = operations.iter().map(command::write).collect();
        let changes = match dry_run || operations.is_empty() {
            true => checked,
            false => self.tell(state, node, Op::All(operations))?,
        };
        Ok(serde_json::json!({"operations": words, "changes": changes}))
    }

    /// Nodes that were told something from outside: their names.
    pub fn told<'a>(&'a self, plan: &'a Plan) -> impl Iterator<Item = &'a str> {
        self.told.iter().map(|node| plan.nodes[*node].name.as_str())
    }

    /// Starts a visitor's program.
    fn welcome(&mut self, state: &mut State, visitor: Visitor) -> Result<(), String> {
        let State { plan: world, now, cells, programs, common, .. } = state;
        let now = *now;
        let names = || world.nodes.iter().take(NAMES_TOLD).map(|node| node.name.as_str()).collect::<Vec<_>>().join(", ");
        let node = world.nodes.iter().position(|node| node.name == visitor.node);
        let node = node.ok_or_else(|| format!("there is no node '{}'; there are: {}", visitor.node, names()))?;
        let number = world.programs.len();
        let mut run = ProcessPlan::new([]);
        (run.command, run.environment) = (visitor.command.clone(), visitor.environment.clone());
        let name = format!("exec{number}@{}", visitor.node);
        let plan = ProgramPlan { name, node, run: Run::Process(run.clone()), start: None, expect: Expect::Any };
        let id = ProgramId(number as u32);
        let welcomed = match cells.get_mut(node) {
            Some(cell) if matches!(cell.machine, Machine::Host(_)) => {
                cell.core.now = cell.core.now.max(now);
                let there = cell.actors.iter().any(|slot| slot.actor.starts_programs());
                let made = if there {
                    Ok(())
                } else {
                    ProcessTree::launch(world, node, &[], common, None, cell.disk.take(), cell.core.booted)
                        .map(|tree| cell.add_actor(Box::new(Shared::new(tree)), now, Vec::new()))
                };
                made.map(|()| {
                    if let Some(slot) = cell.actors.iter_mut().find(|slot| slot.actor.starts_programs()) {
                        slot.programs.push(id);
                        slot.actor.welcome(id, run, visitor);
                        slot.next = Next::at(now);
                    }
                    cell.core.programs.insert(id, ProgramState::default());
                    cell.core.awaited.insert(id);
                    cell.core.left += 1;
                })
            }
            _ => Err(without_stack(&world.nodes[node])),
        };
        welcomed?;
        world.programs.push(plan);
        programs[node].push(id);
        self.first = self.first.or(Some(number));
        Ok(())
    }
}

/// Why nothing of weft's is in a node.
fn without_stack(node: &NodePlan) -> String {
    let name = &node.name;
    match node.kind {
        NodeKind::Host(_) => format!("'{name}' is off"),
        NodeKind::Switch(_) => format!("'{name}' is a switch: it has no stack, and runs no program"),
        NodeKind::Guest(_) => format!(
            "'{name}' is a Linux kernel: its stack is its own, and nothing comes in from outside\nhelp: the scenario can start a program in it that \
             says what it sees ([programs.look] node = \"{name}\", command = [\"ip\", \"addr\"])"
        ),
    }
}

/// Interfaces are ends of wires, which are the scenario's: a file that names others is refused.
fn check_wiring(state: &mut State, node: usize, wiring: Option<&Wiring>) -> Result<(), ControlError> {
    let Some(wiring) = wiring else { return Ok(()) };
    let rows = control(state, node, Op::List(Table::Interfaces)).map_err(|why| ControlError::World { why: why.into() })?;
    let there = rows.as_array().into_iter().flatten().filter(|row| row["backend"].as_str().is_some_and(|backend| !backend.is_empty()));
    let there: Vec<&str> = there.filter_map(|row| row["name"].as_str()).collect();
    let named = |name: &str| wiring.interfaces.iter().any(|section| section.name == name);
    let new = wiring.interfaces.iter().map(|section| section.name.as_str()).find(|name| !there.contains(name));
    let gone = there.iter().copied().find(|name| !named(name));
    let Some((name, what)) = new.map(|name| (name, "is not there")).or(gone.map(|name| (name, "is there, and not in the file"))) else {
        return Ok(());
    };
    let why = format!(
        "it {what}, and in virtual time interfaces are ends of the scenario's wires, which stay\n\
         help: change the scenario, or write a file without [[interface]]"
    );
    Err(ControlError::NotAttached { interface: name.to_owned(), why: why.into() })
}
