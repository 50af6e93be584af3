//! Changes of a graph: `prepare(operations) → plan | error`, then `commit(plan)`, which cannot fail.
//!
//! Preparation works on a `Shape`, a copy of names and edges without the blocks, so it can stop anywhere without a trace. New blocks
//! are made, states exported and imported, values checked there. The engine commits between two vectors: all or nothing.

mod between;
mod schedulers;

use crate::block::{Block, BlockId, Carries, InPort, Kind, OutPort, Parameter, ParameterType};
use crate::control::{ControlError, End, Op, Value};
use crate::frame::{Frame, InterfaceIndex};
use crate::graph::{BLOCKS_MAX, BlockTable, Edge, Found, Slots};
use crate::nearest::hint;
use crate::parameter;
use crate::rng::Rng;
use crate::snapshot::{self, SnapshotError};
use crate::state::State;
use crate::table::{Answer, Query, Table, Which};
use crate::time::Instant;
use indexmap::IndexMap;
use std::collections::{BTreeMap, BTreeSet};

/// Where an edge begins.
type Output = (BlockId, OutPort);

/// Names and edges, without the blocks.
#[derive(Clone, Debug)]
struct Shape {
    blocks: BTreeMap<BlockId, (String, &'static Kind)>,
    names: BTreeMap<String, BlockId>,
    edges: BTreeMap<Output, Edge>,
    next: u32,
}

/// A change that has been checked and cannot fail any more.
#[derive(Debug)]
pub struct Plan {
    shape: Shape,
    /// New blocks, and blocks that take an old one's place.
    made: BTreeMap<BlockId, Box<dyn Block>>,
    sets: Vec<(BlockId, String, Value)>,
    /// Parameters that name a block which schedules.
    scheduled: schedulers::Schedulers,
    owners: BTreeMap<Table, BlockId>,
    edges_changed: bool,
    /// The kinds that there are from then on, if others.
    kinds: Option<BlockTable>,
    /// Places whose new block has taken over what the old one held: its frames are the new one's.
    handed_over: BTreeSet<BlockId>,
    /// Those of them that take it over when they take their place, as it is.
    moved: BTreeSet<BlockId>,
    /// Blocks go back to what they held: the frames that the old ones hold are those of another course of events, of which nobody waits for the end.
    restores: bool,
    /// Blocks that are to go as soon as nothing needs them.
    retired: Vec<BlockId>,
    summary: Vec<String>,
}

impl Plan {
    /// What will change, a line each.
    pub fn summary(&self) -> &[String] {
        &self.summary
    }
    /// Will blocks or edges be others?
    pub fn rebuilds(&self) -> bool {
        self.edges_changed || !self.made.is_empty()
    }
    /// The block that will stand at a place, where it is a new one.
    pub fn made(&mut self, id: BlockId) -> Option<&mut dyn Block> {
        self.made.get_mut(&id).map(|block| &mut **block as &mut dyn Block)
    }
}

/// What an engine must do after a commit.
#[derive(Debug, Default)]
pub(crate) struct Committed {
    /// Blocks that are gone or replaced: their timers and queued frames go too.
    pub replaced: Vec<BlockId>,
    /// Frames that those held back.
    pub given_up: Vec<Frame>,
    /// Tables whose owners took with them what they knew, or came without knowing what another knew.
    pub lost: Vec<Table>,
    /// Blocks whose edges may have changed, or that are new.
    pub started: Vec<BlockId>,
    /// Parameters to set.
    pub sets: Vec<(BlockId, String, Value)>,
    /// The kinds that there are from now on, if others.
    pub kinds: Option<BlockTable>,
    /// What changed.
    pub summary: Vec<String>,
}

/// Checks operations against the running graph and makes everything that they need.
///
/// `successors` is what blocks that replace others draw their randomness from: with `rng` the others would draw differently from then on.
pub fn prepare(
    slots: &Slots,
    table: &BlockTable,
    ops: &[Op],
    now: Instant,
    rng: &mut Rng,
    successors: &mut Rng,
) -> Result<Plan, ControlError> {
    let mut plan = Planner { slots, table, now, rng, successors, plan: Plan::of(slots) };
    for op in ops {
        plan.op(op)?;
    }
    plan.plan.check_types()?;
    plan.plan.assign_owners()?;
    plan.plan.check_schedulers()?;
    Ok(plan.plan)
}

/// Checks that a snapshot's states fit the running graph, and makes a block for each, which takes its state over. Parameters stay what they are.
///
/// # Errors
/// What does not fit, with the block. Nothing has changed.
pub fn prepare_restore(
    slots: &Slots,
    table: &BlockTable,
    blocks: &[(String, State)],
    now: Instant,
    rng: &mut Rng,
    successors: &mut Rng,
) -> Result<Plan, SnapshotError> {
    snapshot::check_shape(slots, blocks)?;
    let mut planner = Planner { slots, table, now, rng, successors, plan: Plan::of(slots) };
    for (name, state) in blocks {
        planner.restore(name, state)?;
    }
    let mut plan = planner.plan;
    plan.assign_owners().map_err(|error| SnapshotError::NotMade { block: "?".to_owned(), why: error.to_string() })?;
    plan.restores = true;
    // As many as the snapshot said when it was taken: one that keeps no state is as it was.
    plan.summary.push(format!("restore: {} blocks", blocks.len()));
    Ok(plan)
}

/// Are all ports bound that must be? Asked when a whole stack is loaded; a live graph may have open ends.
pub fn check_complete(slots: &Slots) -> Result<(), ControlError> {
    let entered: BTreeSet<Edge> = slots.edges().map(|(_, _, to, port)| (to, port)).collect();
    for id in slots.ids() {
        let Some(kind) = slots.kind(id) else { continue };
        for (index, port) in kind.outputs.iter().enumerate() {
            if port.required && slots.edge(id, OutPort(index as u8)).is_none() {
                return Err(unbound(slots.name(id), port.name, port.doc));
            }
        }
        for (index, port) in kind.inputs.iter().enumerate() {
            if port.required && !entered.contains(&(id, InPort(index as u8))) {
                return Err(unbound(slots.name(id), port.name, port.doc));
            }
        }
    }
    Ok(())
}

fn unbound(block: &str, port: &str, doc: &str) -> ControlError {
    ControlError::Unbound { end: format!("{block}:{port}"), doc: doc.to_owned() }
}

/// Carries out a plan. Cannot fail.
pub(crate) fn commit(slots: &mut Slots, plan: Plan, now: Instant) -> Committed {
    let lost = lost(slots, &plan);
    let mut done = Committed { lost, sets: plan.sets, kinds: plan.kinds, summary: plan.summary, ..Committed::default() };
    let gone: Vec<BlockId> = slots.ids().filter(|id| !plan.shape.blocks.contains_key(id)).collect();
    for id in gone {
        done.given_up.extend(slots.give_up(id));
        slots.end(id, None, now);
        done.replaced.push(id);
    }
    for (id, mut block) in plan.made {
        let index = id.0 as usize;
        if plan.moved.contains(&id)
            && let Some(old) = slots.slot_mut(id).and_then(|slot| slot.block.as_mut())
        {
            block.take_over(&mut **old);
        }
        if slots.slots.len() <= index {
            slots.slots.resize_with(index + 1, || None);
        }
        if slots.slots[index].is_some() {
            if !plan.restores && !plan.handed_over.contains(&id) {
                done.given_up.extend(slots.give_up(id));
            }
            slots.end(id, Some(block), now);
            done.replaced.push(id);
        } else {
            let name = plan.shape.blocks.get(&id).map(|(name, _)| name.clone()).unwrap_or_default();
            slots.slots[index] = Some(crate::graph::Slot::new(name, block, now));
        }
        if !plan.edges_changed {
            done.started.push(id);
        }
    }
    slots.names = plan.shape.names;
    slots.owners = plan.owners;
    for slot in slots.slots.iter_mut().flatten() {
        slot.edges.clear();
        slot.edges.resize(slot.kind.outputs.len(), None);
    }
    for ((from, port), edge) in plan.shape.edges {
        if let Some(slot) = slots.slot_mut(from)
            && let Some(place) = slot.edges.get_mut(usize::from(port.0))
        {
            *place = Some(edge);
        }
    }
    for id in plan.retired {
        if let Some(block) = slots.slot_mut(id).and_then(|slot| slot.block.as_mut()) {
            block.retire();
            done.started.push(id);
        }
    }
    if plan.edges_changed {
        done.started = slots.ids().collect();
    }
    done
}

/// The tables whose owner is another block afterwards, or one that has not taken over what the one before it held.
fn lost(slots: &Slots, plan: &Plan) -> Vec<Table> {
    let anew = |id: &BlockId| !plan.restores && plan.made.contains_key(id) && !plan.handed_over.contains(id);
    let tables: BTreeSet<Table> = slots.owners.keys().chain(plan.owners.keys()).copied().collect();
    let is_lost = |table: &Table| {
        let owner = plan.owners.get(table);
        slots.owners.get(table) != owner || owner.is_some_and(anew)
    };
    tables.into_iter().filter(is_lost).collect()
}

impl Plan {
    fn of(slots: &Slots) -> Plan {
        let blocks = slots.ids().filter_map(|id| Some((id, (slots.name(id).to_owned(), slots.kind(id)?)))).collect();
        let edges = slots.edges().map(|(from, port, to, input)| ((from, port), (to, input))).collect();
        let shape = Shape { blocks, names: slots.names.clone(), edges, next: slots.slots.len() as u32 };
        let (made, owners) = (BTreeMap::new(), BTreeMap::new());
        Plan {
            shape,
            made,
            sets: Vec::new(),
            scheduled: schedulers::Schedulers::default(),
            owners,
            edges_changed: false,
            kinds: None,
            handed_over: BTreeSet::new(),
            moved: BTreeSet::new(),
            restores: false,
            retired: Vec::new(),
            summary: Vec::new(),
        }
    }

    fn end_name(&self, id: BlockId, port: &str) -> String {
        format!("{}:{port}", self.shape.blocks.get(&id).map_or("?", |(name, _)| name))
    }

    /// Every group of `Any` ports that hang together must carry one type, and no edge may join two types.
    fn check_types(&self) -> Result<(), ControlError> {
        let mut known: BTreeMap<BlockId, (Carries, String)> = BTreeMap::new();
        let mut settled = false;
        while !settled {
            settled = true;
            for ((from, out), (to, input)) in &self.shape.edges {
                let (Some((_, from_kind)), Some((_, to_kind))) = (self.shape.blocks.get(from), self.shape.blocks.get(to)) else { continue };
                let (a, b) = (&from_kind.outputs[usize::from(out.0)], &to_kind.inputs[usize::from(input.0)]);
                let a_type = if a.carries == Carries::Any { known.get(from).map(|(carries, _)| *carries) } else { Some(a.carries) };
                let b_type = if b.carries == Carries::Any { known.get(to).map(|(carries, _)| *carries) } else { Some(b.carries) };
                let mismatch = |x: Carries, y: Carries| ControlError::TypeMismatch {
                    from: self.end_name(*from, a.name),
                    to: self.end_name(*to, b.name),
                    carries_from: format!("{x:?}"),
                    carries_to: format!("{y:?}"),
                };
                match (a_type, b_type) {
                    (Some(x), Some(y)) if x != y => return Err(mismatch(x, y)),
                    (Some(Carries::Stream), None) | (None, Some(Carries::Stream)) => return Err(mismatch(Carries::Stream, Carries::Any)),
                    (Some(x), None) => {
                        known.insert(*to, (x, self.end_name(*from, a.name)));
                        settled = false;
                    }
                    (None, Some(y)) => {
                        known.insert(*from, (y, self.end_name(*to, b.name)));
                        settled = false;
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn assign_owners(&mut self) -> Result<(), ControlError> {
        for (id, (name, kind)) in &self.shape.blocks {
            for table in kind.owns {
                if let Some(other) = self.owners.insert(*table, *id) {
                    let first = self.shape.blocks.get(&other).map_or(String::new(), |(name, _)| name.clone());
                    return Err(ControlError::TwoOwners { first, second: name.clone(), table: format!("{table:?}") });
                }
            }
        }
        Ok(())
    }

    fn note_schedulers(&mut self, name: &str, kind: &'static Kind, given: &IndexMap<String, Value>) {
        for (parameter, value) in given {
            self.scheduled.note(name, parameter, kind.parameter(parameter).and_then(|row| row.scheduler(value)));
        }
    }

    fn check_schedulers(&self) -> Result<(), ControlError> {
        let owner = self.owners.get(&Table::Schedulers).and_then(|id| self.shape.blocks.get(id)).map(|(name, _)| name.as_str());
        let wrong = self.scheduled.wrong(|name| self.shape.names.contains_key(name), owner);
        wrong.map_or(Ok(()), |(wanted, why)| {
            Err(ControlError::BadValue { block: wanted.block.clone(), parameter: wanted.parameter.clone(), why })
        })
    }
}

struct Planner<'a> {
    slots: &'a Slots,
    table: &'a BlockTable,
    now: Instant,
    rng: &'a mut Rng,
    successors: &'a mut Rng,
    plan: Plan,
}

impl Planner<'_> {
    fn op(&mut self, op: &Op) -> Result<(), ControlError> {
        match op {
            Op::All(ops) => ops.iter().try_for_each(|op| self.op(op)),
            Op::Add { name, kind, parameters } => self.add(name, kind, parameters),
            Op::Delete { name } => self.delete(name),
            Op::Bind { from, to } => self.bind(from, to),
            Op::Unbind { from, to } => self.unbind(from, to.as_ref()),
            Op::Insert { block, from, to } => self.insert(block, from, to),
            Op::Extract { block } => self.extract(block),
            Op::Replace { name, kind, parameters, drop_state } => self.replace(name, kind, parameters, *drop_state),
            Op::Set { target, name, value } => self.set(target, name, value),
            Op::Load { file } => self.load(file),
            Op::Unload { kind } => self.unload(kind),
            other => Err(ControlError::BadRequest { why: format!("{other:?} does not change the graph") }),
        }
    }

    fn find(&self, name: &str) -> Result<(BlockId, &'static Kind), ControlError> {
        let shape = &self.plan.shape;
        shape.names.get(name).and_then(|id| shape.blocks.get(id).map(|(_, kind)| (*id, *kind))).ok_or_else(|| ControlError::NoBlock {
            name: name.to_owned(),
            known: shape.names.keys().cloned().collect::<Vec<_>>().join(", "),
        })
    }

    /// The kinds that there are after what was planned so far.
    fn kinds(&self) -> &BlockTable {
        self.plan.kinds.as_ref().unwrap_or(self.table)
    }

    fn row(&self, kind: &str) -> Result<Found<'_>, ControlError> {
        self.kinds().get(kind).ok_or_else(|| ControlError::NoKind { kind: kind.to_owned(), known: self.kinds().names() })
    }

    fn load(&mut self, file: &str) -> Result<(), ControlError> {
        let table = self.table;
        let kind = self.plan.kinds.get_or_insert_with(|| table.clone()).load(file)?;
        self.plan.summary.push(format!("load {} {}", kind.name, kind.version));
        Ok(())
    }

    fn unload(&mut self, kind: &str) -> Result<(), ControlError> {
        let of_it = self.plan.shape.blocks.values().filter(|(_, of)| of.name == kind).map(|(name, _)| name.as_str());
        let users = of_it.collect::<Vec<_>>().join(", ");
        let table = self.table;
        let kinds = self.plan.kinds.get_or_insert_with(|| table.clone());
        kinds.unload(kind)?;
        if !users.is_empty() {
            let why = format!("'{users}' of the graph would be without it: delete or replace what is of this kind first");
            return Err(ControlError::NotUnloaded { kind: kind.to_owned(), why });
        }
        self.plan.summary.push(format!("unload {kind}"));
        Ok(())
    }

    fn make(&self, name: &str, kind: &str, given: &IndexMap<String, Value>, rng: Rng) -> Result<Box<dyn Block>, ControlError> {
        let row = self.row(kind)?;
        let mut config = parameter::complete(name, row.kind, given, rng)?;
        (row.make)(&mut config)
    }

    fn add(&mut self, name: &str, kind: &str, given: &IndexMap<String, Value>) -> Result<(), ControlError> {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || name.len() > 64 || !name.chars().all(fits) {
            return Err(ControlError::BadName { name: name.to_owned() });
        }
        if self.plan.shape.names.contains_key(name) {
            return Err(ControlError::NameTaken { name: name.to_owned() });
        }
        if self.plan.shape.blocks.len() >= BLOCKS_MAX {
            return Err(ControlError::Limit { what: "blocks in one graph".to_owned(), max: BLOCKS_MAX as u64 });
        }
        let rng = self.rng.fork(name);
        let block = self.make(name, kind, given, rng)?;
        self.check_interfaces(name, block.kind(), given)?;
        self.plan.note_schedulers(name, block.kind(), given);
        let id = BlockId(self.plan.shape.next);
        self.plan.shape.next += 1;
        self.plan.shape.names.insert(name.to_owned(), id);
        self.plan.shape.blocks.insert(id, (name.to_owned(), block.kind()));
        self.plan.made.insert(id, block);
        self.plan.edges_changed = true;
        self.plan.summary.push(format!("add {name} {kind}"));
        Ok(())
    }

    fn delete(&mut self, name: &str) -> Result<(), ControlError> {
        let (id, _) = self.find(name)?;
        let of_it = self.plan.shape.edges.iter().filter(|((from, _), (to, _))| *from == id || *to == id);
        let cut: Vec<String> = of_it.map(|(key, edge)| self.edge_name(*key, *edge)).collect();
        let cut = if cut.is_empty() { String::new() } else { format!(", which ends {}", cut.join(", ")) };
        let shape = &mut self.plan.shape;
        shape.names.remove(name);
        shape.blocks.remove(&id);
        shape.edges.retain(|(from, _), (to, _)| *from != id && *to != id);
        self.plan.made.remove(&id);
        self.plan.moved.remove(&id);
        self.plan.sets.retain(|(block, _, _)| *block != id);
        self.plan.edges_changed = true;
        self.plan.summary.push(format!("delete {name}{cut}"));
        Ok(())
    }

    fn bind(&mut self, from: &End, to: &End) -> Result<(), ControlError> {
        let (a, b) = (self.find(&from.block)?, self.find(&to.block)?);
        let (out, input) = self.ports(from, a, to, b)?;
        if let Some((taken, port)) = self.plan.shape.edges.get(&(a.0, out)) {
            let kind = self.plan.shape.blocks.get(taken).map(|(_, kind)| *kind);
            let port_name = kind.map_or("?", |kind| kind.inputs[usize::from(port.0)].name);
            let from = format!("{}:{}", from.block, a.1.outputs[usize::from(out.0)].name);
            return Err(ControlError::PortTaken { from, to: self.plan.end_name(*taken, port_name) });
        }
        self.plan.shape.edges.insert((a.0, out), (b.0, input));
        self.plan.edges_changed = true;
        let (out_name, in_name) = (a.1.outputs[usize::from(out.0)].name, b.1.inputs[usize::from(input.0)].name);
        self.plan.summary.push(format!("bind {}:{out_name} {}:{in_name}", from.block, to.block));
        Ok(())
    }

    /// The pair of ports that is meant. Left-out ports are found by type; of several, the one named like the other block wins.
    fn ports(
        &self,
        from: &End,
        a: (BlockId, &'static Kind),
        to: &End,
        b: (BlockId, &'static Kind),
    ) -> Result<(OutPort, InPort), ControlError> {
        let outs = candidates(&from.block, "output", from.port.as_deref(), a.1.outputs)?;
        let ins = candidates(&to.block, "input", to.port.as_deref(), b.1.inputs)?;
        if let ([out], [input]) = (&outs[..], &ins[..])
            && from.port.is_some()
            && to.port.is_some()
        {
            return Ok((OutPort(*out), InPort(*input)));
        }
        let fits =
            |x: Carries, y: Carries| x == y || (x == Carries::Any && y != Carries::Stream) || (y == Carries::Any && x != Carries::Stream);
        let mut best: Vec<(u8, u8)> = Vec::new();
        let mut best_score = -1i32;
        for &out in &outs {
            for &input in &ins {
                let (x, y) = (&a.1.outputs[usize::from(out)], &b.1.inputs[usize::from(input)]);
                if !fits(x.carries, y.carries) || x.outside {
                    continue;
                }
                let named = |port: &str, block: &str, kind: &str| i32::from(port == block || port == kind) * 4;
                let free = i32::from(!self.plan.shape.edges.contains_key(&(a.0, OutPort(out))));
                let score = free * 2
                    + named(x.name, &to.block, b.1.name)
                    + named(y.name, &from.block, a.1.name)
                    + i32::from(x.required)
                    + i32::from(y.required);
                match score.cmp(&best_score) {
                    std::cmp::Ordering::Greater => (best_score, best) = (score, vec![(out, input)]),
                    std::cmp::Ordering::Equal => best.push((out, input)),
                    std::cmp::Ordering::Less => {}
                }
            }
        }
        match best[..] {
            [(out, input)] => Ok((OutPort(out), InPort(input))),
            _ => Err(ControlError::AmbiguousPort {
                from: from.to_string(),
                to: to.to_string(),
                candidates: match best.len() {
                    0 => "none, no two of their ports carry the same".to_owned(),
                    _ => best
                        .iter()
                        .map(|(o, i)| format!("{}->{}", a.1.outputs[usize::from(*o)].name, b.1.inputs[usize::from(*i)].name))
                        .collect::<Vec<_>>()
                        .join(", "),
                },
            }),
        }
    }

    /// The edges from one end to another, or to anywhere; ends without a port mean all of the block's ports.
    fn matching(&self, from: &End, to: Option<&End>) -> Result<Vec<(Output, Edge)>, ControlError> {
        let a = self.find(&from.block)?;
        let outs = candidates(&from.block, "output", from.port.as_deref(), a.1.outputs)?;
        let into = match to {
            Some(to) => {
                let b = self.find(&to.block)?;
                Some((b.0, candidates(&to.block, "input", to.port.as_deref(), b.1.inputs)?))
            }
            None => None,
        };
        let leads_there = |to: &BlockId, input: &InPort| into.as_ref().is_none_or(|(block, ins)| block == to && ins.contains(&input.0));
        let edges = self.plan.shape.edges.iter();
        let hits: Vec<_> = edges
            .filter(|((f, out), (t, input))| *f == a.0 && outs.contains(&out.0) && leads_there(t, input))
            .map(|(key, edge)| (*key, *edge))
            .collect();
        match hits.is_empty() {
            true => Err(ControlError::NoEdge { from: from.to_string(), to: to.map_or("anywhere".to_owned(), End::to_string) }),
            false => Ok(hits),
        }
    }

    /// An edge as people read it.
    fn edge_name(&self, key: Output, edge: Edge) -> String {
        let (out, input) = self.edge_ends(key, edge);
        format!("{out} -> {input}")
    }

    fn edge_ends(&self, (from, out): Output, (to, input): Edge) -> (String, String) {
        let blocks = &self.plan.shape.blocks;
        let output = blocks.get(&from).and_then(|(_, kind)| kind.outputs.get(usize::from(out.0))).map_or("?", |port| port.name);
        let input = blocks.get(&to).and_then(|(_, kind)| kind.inputs.get(usize::from(input.0))).map_or("?", |port| port.name);
        (self.plan.end_name(from, output), self.plan.end_name(to, input))
    }

    fn unbind(&mut self, from: &End, to: Option<&End>) -> Result<(), ControlError> {
        for (key, edge) in self.matching(from, to)? {
            let (out, input) = self.edge_ends(key, edge);
            self.plan.summary.push(format!("unbind {out} {input}"));
            self.plan.shape.edges.remove(&key);
        }
        self.plan.edges_changed = true;
        Ok(())
    }

    fn insert(&mut self, block: &End, from: &End, to: &End) -> Result<(), ControlError> {
        let (id, kind) = self.find(&block.block)?;
        let [(key, edge)] = self.matching(from, Some(to))?[..] else {
            return Err(ControlError::AmbiguousPort {
                from: from.to_string(),
                to: to.to_string(),
                candidates: "several edges; name the ports".to_owned(),
            });
        };
        if self.carries(key) == Some(Carries::Stream) {
            return self.insert_between(block, (key, edge), kind);
        }
        let first_any = |ports: &[crate::block::Port]| ports.iter().position(|port| port.carries == Carries::Any).map(|at| at as u8);
        let input = match &block.port {
            Some(_) => candidates(&block.block, "input", block.port.as_deref(), kind.inputs)?.first().copied(),
            // One that stands in several edges has a way through for each.
            None if kind.in_pairs => None,
            None => first_any(kind.inputs).or((kind.inputs.len() == 1).then_some(0)),
        };
        let output = match kind.in_pairs {
            true => input,
            false => first_any(kind.outputs).or((kind.outputs.len() == 1).then_some(0)),
        };
        let (Some(input), Some(output)) = (input, output) else {
            let candidates = if kind.in_pairs { port_names(kind.inputs) } else { "bind its ports one by one".to_owned() };
            return Err(ControlError::AmbiguousPort { from: block.to_string(), to: block.to_string(), candidates });
        };
        if let Some((taken, _)) = self.plan.shape.edges.get(&(id, OutPort(output))) {
            return Err(ControlError::PortTaken { from: block.to_string(), to: self.plan.end_name(*taken, "") });
        }
        self.plan.shape.edges.insert(key, (id, InPort(input)));
        self.plan.shape.edges.insert((id, OutPort(output)), edge);
        self.plan.edges_changed = true;
        let made = [(key, (id, InPort(input))), ((id, OutPort(output)), edge)].map(|(key, edge)| self.edge_name(key, edge));
        self.plan.summary.push(format!("insert {block} {from} {to}: {}", made.join(", ")));
        Ok(())
    }

    fn extract(&mut self, name: &str) -> Result<(), ControlError> {
        let (id, kind) = self.find(name)?;
        if kind.outputs.iter().any(|port| port.carries == Carries::Stream) && self.extract_between(id, name, kind).is_some() {
            return Ok(());
        }
        let edges = &self.plan.shape.edges;
        let out: Vec<_> = edges.iter().filter(|((from, _), _)| *from == id).map(|(key, edge)| (*key, *edge)).collect();
        if out.is_empty() || out.len() > 1 && !kind.in_pairs {
            return Err(ControlError::NotExtractable { block: name.to_owned(), outputs: out.len() as u64 });
        }
        let mut made = Vec::new();
        for ((_, OutPort(at)), next) in &out {
            let leads = |(to, InPort(input)): &(BlockId, InPort)| *to == id && (!kind.in_pairs || input == at);
            let before: Vec<_> = self.plan.shape.edges.iter().filter(|(_, edge)| leads(edge)).map(|(key, _)| *key).collect();
            self.plan.shape.edges.remove(&(id, OutPort(*at)));
            for key in before {
                self.plan.shape.edges.insert(key, *next);
                made.push(self.edge_name(key, *next));
            }
        }
        self.plan.edges_changed = true;
        self.plan
            .summary
            .push(format!("extract {name}: {}", if made.is_empty() { "nothing led to it".to_owned() } else { made.join(", ") }));
        Ok(())
    }

    fn replace(&mut self, name: &str, kind: &str, given: &IndexMap<String, Value>, drop_state: bool) -> Result<(), ControlError> {
        let (id, old_kind) = self.find(name)?;
        let new_kind = self.row(kind)?.kind;
        self.check_interfaces(name, new_kind, given)?;
        self.plan.note_schedulers(name, new_kind, given);
        let refused = |why: String| ControlError::StateRefused { block: name.to_owned(), why };
        let Some(old) = self.slots.block(id) else {
            return Err(refused("it was made in the same transaction".to_owned()));
        };
        let mut block = self.successor(name, old, new_kind, given)?;
        let mut handed_over = false;
        if !drop_state && block.takes_over(old) {
            self.plan.moved.insert(id);
            handed_over = true;
        } else if !drop_state {
            let state = old.export(self.now).map_err(|error| refused(error.to_string()))?;
            if state.version > 0 {
                block.import(&state, self.now).map_err(|error| refused(error.to_string()))?;
                handed_over = true;
            }
        }
        if handed_over {
            self.plan.handed_over.insert(id);
        } else {
            self.plan.handed_over.remove(&id);
        }
        self.move_edges(id, name, old_kind, block.kind())?;
        self.plan.shape.blocks.insert(id, (name.to_owned(), block.kind()));
        self.plan.made.insert(id, block);
        let (then, now) = (old_kind.version, new_kind.version);
        let version =
            if then == now || old_kind.name != new_kind.name { String::new() } else { format!(": version {now} in place of {then}") };
        self.plan.summary.push(format!("replace {name} {kind}{version}"));
        Ok(())
    }

    /// A block of this kind that is to stand in another one's place, with the parameters of that where no others are given.
    fn successor(
        &mut self,
        name: &str,
        old: &dyn Block,
        kind: &'static Kind,
        given: &IndexMap<String, Value>,
    ) -> Result<Box<dyn Block>, ControlError> {
        let mut parameters = given.clone();
        for parameter in kind.parameters {
            if let Some(value) = old.get(parameter.name, self.now).filter(|_| old.kind().parameter(parameter.name).is_some()) {
                parameters.entry(parameter.name.to_owned()).or_insert(value);
            }
        }
        let rng = self.successors.fork(name);
        self.make(name, kind.name, &parameters, rng)
    }

    /// A block of the graph goes back to what a snapshot holds of it. One that keeps no state stays as it is.
    fn restore(&mut self, name: &str, state: &State) -> Result<(), SnapshotError> {
        let found = self.slots.find(name).and_then(|id| Some((id, self.slots.kind(id)?, self.slots.block(id)?)));
        let Some((id, kind, old)) = found.filter(|(_, kind, _)| kind.state_version > 0 || state.version > 0) else { return Ok(()) };
        let not_made = |error: ControlError| SnapshotError::NotMade { block: name.to_owned(), why: error.to_string() };
        let mut block = self.successor(name, old, kind, &IndexMap::new()).map_err(not_made)?;
        block.import(state, self.now).map_err(|error| SnapshotError::State { block: name.to_owned(), error })?;
        self.plan.made.insert(id, block);
        Ok(())
    }

    /// Edges of a replaced block stay at the ports of the same name.
    fn move_edges(&mut self, id: BlockId, name: &str, old: &'static Kind, new: &'static Kind) -> Result<(), ControlError> {
        let no_port = |direction: &str, port: &str, ports: &[crate::block::Port]| ControlError::NoPort {
            block: name.to_owned(),
            direction: direction.to_owned(),
            port: port.to_owned(),
            known: port_names(ports),
        };
        let mut moved = BTreeMap::new();
        for (&(from, out), &(to, input)) in &self.plan.shape.edges {
            let mut key = (from, out);
            let mut edge = (to, input);
            if from == id {
                let port = old.outputs[usize::from(out.0)].name;
                key.1 = new.output(port).ok_or_else(|| no_port("output", port, new.outputs))?;
            }
            if to == id {
                let port = old.inputs[usize::from(input.0)].name;
                edge.1 = new.input(port).ok_or_else(|| no_port("input", port, new.inputs))?;
            }
            moved.insert(key, edge);
        }
        self.plan.shape.edges = moved;
        Ok(())
    }

    fn check_interfaces(&self, block: &str, kind: &'static Kind, given: &IndexMap<String, Value>) -> Result<(), ControlError> {
        let rows = given.iter().filter_map(|(name, value)| Some((kind.parameter(name)?, value)));
        rows.into_iter().try_for_each(|(row, value)| self.check_interface(block, row, value))
    }

    /// What names an interface names one that there is. A node that has none yet gets them later: whoever makes its graph names them
    /// before.
    fn check_interface(&self, block: &str, row: &Parameter, value: &Value) -> Result<(), ControlError> {
        let Some(name) = value.as_str().filter(|name| matches!(row.value, ParameterType::Interface) && !name.is_empty()) else {
            return Ok(());
        };
        let owner = self.slots.owner(Table::Interfaces).and_then(|id| self.slots.block(id));
        let Some(Answer::Interfaces(rows)) = owner.map(|owner| owner.query(&Query::Interfaces(Which::All), self.now)) else {
            return Ok(());
        };
        let there = rows.iter().map(|row| &row.interface);
        if there.clone().all(|of| of.index == InterfaceIndex::LOOPBACK) || there.clone().any(|of| of.name == name) {
            return Ok(());
        }
        let known = there.map(|of| of.name.as_str()).collect::<Vec<_>>().join(", ");
        let why = format!("there is no interface '{name}'; {}there are: {known}", hint(name, &known));
        Err(ControlError::BadValue { block: block.to_owned(), parameter: row.name.to_owned(), why })
    }

    fn set(&mut self, target: &crate::selector::Selector, parameter: &str, value: &Value) -> Result<(), ControlError> {
        let shape = &self.plan.shape;
        let matching: Vec<BlockId> = shape.names.iter().filter(|(name, _)| target.matches(name, None)).map(|(_, id)| *id).collect();
        if matching.is_empty() {
            return Err(match target {
                crate::selector::Selector::Name(name) => self.find(name).err().unwrap_or(ControlError::NoMatch { selector: name.clone() }),
                other => ControlError::NoMatch { selector: other.to_string() },
            });
        }
        for id in matching {
            let Some((name, kind)) = self.plan.shape.blocks.get(&id).cloned() else { continue };
            let row = kind.parameter(parameter).ok_or_else(|| parameter::no_parameter(&name, kind, parameter))?;
            if !row.live {
                return Err(ControlError::NotLive { block: name, parameter: parameter.to_owned() });
            }
            let value = parameter::normalise(&name, row, value)?;
            self.check_interface(&name, row, &value)?;
            self.plan.scheduled.note(&name, parameter, row.scheduler(&value));
            let made = self.plan.made.get(&id).map(|block| &**block);
            if let Some(block) = made.or_else(|| self.slots.block(id)) {
                block.check(parameter, &value)?;
            }
            self.plan.summary.push(format!("set {name}.{parameter} {}", parameter::show(row, value.clone())));
            self.plan.sets.push((id, parameter.to_owned(), value));
        }
        Ok(())
    }
}

fn port_names(ports: &[crate::block::Port]) -> String {
    ports.iter().map(|port| port.name).collect::<Vec<_>>().join(", ")
}

fn candidates(block: &str, direction: &str, port: Option<&str>, ports: &[crate::block::Port]) -> Result<Vec<u8>, ControlError> {
    match port {
        None => Ok((0..ports.len() as u8).collect()),
        Some(name) => match ports.iter().position(|port| port.name == name) {
            Some(at) => Ok(vec![at as u8]),
            None => Err(ControlError::NoPort {
                block: block.to_owned(),
                direction: direction.to_owned(),
                port: name.to_owned(),
                known: port_names(ports),
            }),
        },
    }
}
