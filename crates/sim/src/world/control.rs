//! What nodes are told, and their snapshots.

use super::World;
use crate::cell::{Cell, Machine};
use std::path::Path;
use weft_core::{Instant, Message, Op, Snapshot, TimeKind, command, snapshot};

impl World {
    /// Keeps snapshots of nodes below this folder of results, instead of in memory: to be called before the run.
    pub fn keep_snapshots(&mut self, dir: &Path) {
        self.kept.keep_below(dir);
    }

    /// Sends a control message to a node. What is not only a question is part of the hash; so are snapshots not: taking one changes nothing, and what
    /// restoring one changes is seen in what the node does from then on.
    ///
    /// # Errors
    /// The node refuses, or there is none.
    pub fn control(&mut self, node: usize, op: Op) -> Result<serde_json::Value, String> {
        match op {
            Op::Snapshot { file } => self.save(node, &file),
            Op::Restore { file } => self.restore(node, &file),
            op => self.tell(node, op),
        }
    }

    fn tell(&mut self, node: usize, op: Op) -> Result<serde_json::Value, String> {
        let now = self.now;
        let cell = self.cell_mut(node).ok_or("there is no such node")?;
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

    fn save(&mut self, node: usize, file: &str) -> Result<serde_json::Value, String> {
        let now = self.now;
        let cell = self.cell_mut(node).ok_or("there is no such node")?;
        let now = cell.core.now.max(now);
        let Machine::Host(host) = &mut cell.machine else { return Err(format!("'{}' has no stack, or is off", cell.core.name)) };
        let snapshot = host.snapshot(now, TimeKind::Virtual).map_err(|error| error.to_string())?;
        let bytes = snapshot.to_bytes().map_err(|error| error.to_string())?;
        let answer = format!("snapshot {file}: {} blocks, {} bytes", snapshot.blocks.len(), bytes.len());
        let digest = snapshot::digest(&bytes);
        self.kept.write(file, bytes)?;
        if let Some(cell) = self.cell_mut(node) {
            cell.taken.add(digest);
        }
        Ok(vec![answer].into())
    }

    fn restore(&mut self, node: usize, file: &str) -> Result<serde_json::Value, String> {
        // What lies beside the scenario was read when that was.
        let bytes = match self.plan.snapshots.get(file) {
            Some(bytes) => bytes.to_vec(),
            None => self.kept.read(file)?,
        };
        let snapshot = Snapshot::from_bytes(&bytes).map_err(|error| error.to_string())?;
        let now = self.now;
        let cell = self.cell_mut(node).ok_or("there is no such node")?;
        cell.restore(now, &snapshot, snapshot::digest(&bytes))
    }
}

impl Cell {
    fn restore(&mut self, now: Instant, snapshot: &Snapshot, digest: u128) -> Result<serde_json::Value, String> {
        self.core.now = self.core.now.max(now);
        let Machine::Host(host) = &mut self.machine else { return Err(format!("'{}' has no stack, or is off", self.core.name)) };
        let own = self.taken.has(digest);
        let result = host.restore(self.core.now, snapshot, own).map_err(|error| error.to_string());
        self.carry_on();
        result.map(Into::into)
    }
}
