//! What a graph is, without what it holds: blocks with kinds and parameters, and edges. From one shape to another leads a list of operations, the
//! shortest that leaves every block alone which is in both.
//!
//! A shape is of the graph only. Interfaces, addresses, routes and the engine are no part of it, and neither is what a world tells its blocks.
//! Kinds that come from files are named with their builds, so that what a node has already is not loaded again; those that it has besides stay.

use crate::error::StackError;
use crate::node::{Node, SET_BY_WORLDS};
use crate::stack::Stack;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use weft_core::control::Value;
use weft_core::{BlockTable, ControlError, End, Instant, Message, Op, Rng, Selector, Show, parameter};

/// Blocks and edges.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Shape {
    /// By name.
    pub blocks: BTreeMap<String, BlockShape>,
    /// Each from an output to an input.
    pub edges: BTreeSet<EdgeShape>,
    /// Kinds that come from files, by name. Empty in what a node tells of itself: it does not keep the names of files.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub loads: BTreeMap<String, LoadShape>,
}

/// Where a kind comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadShape {
    /// The file, as the node's world finds it.
    pub file: String,
    /// The kind's version, which is another for each build.
    pub version: String,
}

/// A block's kind and parameters, as people write them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BlockShape {
    /// Its kind.
    pub kind: String,
    /// The version, where its kind was loaded from a file. `None`, in what a node is to become: whichever build it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<String>,
    /// All of them.
    pub parameters: IndexMap<String, Value>,
}

/// An edge by names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EdgeShape {
    /// The block that it leaves.
    pub from: String,
    /// By which port.
    pub output: String,
    /// The block that it enters.
    pub to: String,
    /// By which port.
    pub input: String,
}

impl EdgeShape {
    fn ends(&self) -> (End, End) {
        let end = |block: &String, port: &String| End { block: block.clone(), port: Some(port.clone()) };
        (end(&self.from, &self.output), end(&self.to, &self.input))
    }
}

impl Shape {
    /// The files that may have to be loaded for it.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.loads.values().map(|load| load.file.as_str())
    }

    /// The shape that a node has which comes up with this stack file. Everything in the file is checked that needs no device.
    ///
    /// # Errors
    /// What is wrong with the file, where, and what to do.
    pub fn of(stack: &Stack) -> Result<Shape, StackError> {
        let mut node = Node::check(stack)?;
        let failed = |error: ControlError| stack.engine_error(&error.to_string(), "see `weft help stack`");
        let mut shape = node.shape(Instant::ZERO).map_err(failed)?;
        let mut kinds = node.engine().kinds().clone();
        for (file, span) in stack.load_files() {
            let kind = kinds.load(file).map_err(|error| stack.error(span, &error.to_string(), "did it change just now? try again"))?;
            shape.loads.insert(kind.name.to_owned(), LoadShape { file: file.to_owned(), version: kind.version.to_owned() });
        }
        Ok(shape)
    }

    /// What leads from this shape to another: what is in the way first, then what is new, then what becomes another. `kinds`: what there is by then.
    pub fn to(&self, then: &Shape, kinds: &BlockTable) -> Vec<Op> {
        let stays =
            |name: &String| matches!((self.blocks.get(name), then.blocks.get(name)), (Some(now), Some(then)) if now.kind == then.kind);
        let (kept, cut): (Vec<_>, Vec<_>) =
            self.edges.iter().filter(|edge| stays(&edge.from) && stays(&edge.to)).partition(|edge| then.edges.contains(*edge));
        let mut ops: Vec<Op> = Vec::new();
        ops.extend(cut.into_iter().map(EdgeShape::ends).map(|(from, to)| Op::Unbind { from, to: Some(to) }));
        ops.extend(self.blocks.keys().filter(|name| !stays(name)).map(|name| Op::Delete { name: name.clone() }));
        for (name, block) in then.blocks.iter().filter(|(name, _)| !stays(name)) {
            ops.push(Op::Add { name: name.clone(), kind: block.kind.clone(), parameters: block.given(name, kinds) });
        }
        for (name, block) in &then.blocks {
            ops.extend(self.blocks.get(name).filter(|now| now.kind == block.kind).and_then(|now| now.remade(name, block, kinds)));
        }
        let kept: BTreeSet<&EdgeShape> = kept.into_iter().collect();
        let new = then.edges.iter().filter(|edge| !kept.contains(edge));
        ops.extend(new.map(EdgeShape::ends).map(|(from, to)| Op::Bind { from, to }));
        for (name, block) in &then.blocks {
            let now = self.blocks.get(name).filter(|now| now.kind == block.kind);
            ops.extend(now.into_iter().flat_map(|now| now.set(name, block, kinds)));
        }
        ops
    }
}

impl BlockShape {
    /// Parameters that are not what they are by default.
    fn given(&self, name: &str, kinds: &BlockTable) -> IndexMap<String, Value> {
        let kind = kinds.get(&self.kind).map(|row| row.kind);
        let defaults = kind.and_then(|kind| parameter::complete(name, kind, &IndexMap::new(), Rng::for_name(0, "shape")).ok());
        let usual = |key: &str| {
            let row = kind.and_then(|kind| kind.parameter(key))?;
            Some(parameter::show(row, defaults.as_ref()?.value(key)))
        };
        let given = self.parameters.iter().filter(|(key, value)| usual(key).as_ref() != Some(*value));
        given.map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// Parameters that become others.
    fn changed<'a>(&'a self, then: &'a BlockShape) -> impl Iterator<Item = (&'a String, &'a Value)> {
        then.parameters.iter().filter(move |(key, value)| self.parameters.get(*key) != Some(*value))
    }

    fn must_be_remade(&self, then: &BlockShape, kinds: &BlockTable) -> bool {
        let live = |key: &str| kinds.get(&then.kind).and_then(|row| row.kind.parameter(key)).is_none_or(|row| row.live);
        let other_build = then.build.is_some() && self.build != then.build;
        other_build || self.changed(then).any(|(key, _)| !live(key))
    }

    /// A parameter that can only be said to a new block takes a new one, and so does another build; it has the old one's state.
    fn remade(&self, name: &str, then: &BlockShape, kinds: &BlockTable) -> Option<Op> {
        let given = then.given(name, kinds);
        // What only the new build knows need not be said to be as it is anyway.
        let said = |key: &str| self.parameters.contains_key(key) || given.contains_key(key);
        let parameters = self.changed(then).filter(|(key, _)| said(key)).map(|(key, value)| (key.clone(), value.clone())).collect();
        let replace = || Op::Replace { name: name.to_owned(), kind: then.kind.clone(), parameters, drop_state: false };
        self.must_be_remade(then, kinds).then(replace)
    }

    fn set<'a>(&'a self, name: &'a str, then: &'a BlockShape, kinds: &BlockTable) -> impl Iterator<Item = Op> + use<'a> {
        let remade = self.must_be_remade(then, kinds);
        let changed = self.changed(then).filter(move |_| !remade);
        changed.map(move |(key, value)| Op::Set { target: Selector::Name(name.to_owned()), name: key.clone(), value: value.clone() })
    }
}

impl Node {
    /// What its graph is now.
    ///
    /// # Errors
    /// An engine that the world brought has failed.
    pub fn shape(&mut self, now: Instant) -> Result<Shape, ControlError> {
        let mut rows = |what| match self.control(now, &Message { serial: 0, op: Op::Show(what) }).result? {
            Value::Array(rows) => Ok(rows),
            other => Err(ControlError::BadRequest { why: format!("the graph was told as {other}") }),
        };
        let (blocks, edges) = (rows(Show::Blocks)?, rows(Show::Edges)?);
        let loaded: BTreeSet<&str> = self.engine().kinds().loaded().map(|kind| kind.name).collect();
        let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
        let block = |row: &Value| {
            let of = row["parameters"].as_object().into_iter().flatten();
            let parameters = of.filter(|(key, _)| !SET_BY_WORLDS.contains(&key.as_str())).map(|(key, value)| (key.clone(), value.clone()));
            let kind = text(row, "kind");
            let build = loaded.contains(kind.as_str()).then(|| text(row, "version"));
            (text(row, "name"), BlockShape { kind, build, parameters: parameters.collect() })
        };
        let edge = |row: &Value| EdgeShape {
            from: text(row, "from"),
            output: text(row, "output"),
            to: text(row, "to"),
            input: text(row, "input"),
        };
        Ok(Shape { blocks: blocks.iter().map(block).collect(), edges: edges.iter().map(edge).collect(), loads: BTreeMap::new() })
    }

    /// What must be loaded for a shape, and the kinds that there are then.
    fn loads(&self, then: &Shape) -> Result<(Vec<Op>, BlockTable), ControlError> {
        let (mut ops, mut kinds) = (Vec::new(), self.engine().kinds().clone());
        for (name, LoadShape { file, version }) in &then.loads {
            if kinds.get(name).is_some_and(|found| found.kind.version == version) {
                continue;
            }
            let kind = kinds.load(file)?;
            if (kind.name, kind.version) != (name, version) {
                let why =
                    format!("it was {name} {version} when the change was worked out, and is {} {} now: try again", kind.name, kind.version);
                return Err(ControlError::NotLoaded { file: file.clone(), why });
            }
            ops.push(Op::Load { file: file.clone() });
        }
        Ok((ops, kinds))
    }

    /// Brings the graph to a shape, in one step or not at all. Returns the operations and, unless it was only to be checked, what changed.
    ///
    /// # Errors
    /// Why it cannot be; then nothing has changed.
    pub fn apply(&mut self, now: Instant, then: &Shape, only_check: bool) -> Result<(Vec<Op>, Value), ControlError> {
        let (mut ops, kinds) = self.loads(then)?;
        ops.extend(self.shape(now)?.to(then, &kinds));
        if only_check || ops.is_empty() {
            self.prepare(&ops).map_err(|(_, error)| error)?;
            return Ok((ops, Value::Array(Vec::new())));
        }
        let changed = self.control(now, &Message { serial: 0, op: Op::All(ops.clone()) }).result?;
        Ok((ops, changed))
    }
}
