//! What nodes are told, and their snapshots: kept in the folder of results, or in memory where there is none, for as long as the world.

use super::World;
use crate::cell::{Cell, Machine};
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use weft_core::{Instant, Message, Op, Snapshot, TimeKind, command, snapshot};

/// Folder of snapshots below that of results.
pub const SNAPSHOTS_FOLDER: &str = "snapshots";
/// How names of snapshots end, so that those of an earlier run can be told from other files.
pub const SNAPSHOT_SUFFIX: &str = ".snapshot";
/// Longest name of a snapshot, bytes.
const NAME_BYTES_MAX: usize = 100;
/// Bytes of the snapshots that a world without a folder keeps.
const MEMORY_BYTES_MAX: usize = 1 << 30;
/// Snapshots by which a node knows that they are its own; of more, the oldest are taken for another's.
const OWN_MAX: usize = 4096;

/// The snapshots of a node's life, by their digests.
#[derive(Debug, Default)]
pub(crate) struct Taken(VecDeque<u128>);

impl Taken {
    fn add(&mut self, digest: u128) {
        if self.0.len() == OWN_MAX {
            self.0.pop_front();
        }
        self.0.push_back(digest);
    }
}

/// Where a world's snapshots are.
#[derive(Debug, Default)]
pub(super) struct Kept {
    folder: Option<PathBuf>,
    memory: BTreeMap<String, Vec<u8>>,
}

impl Kept {
    fn write(&mut self, file: &str, bytes: Vec<u8>) -> Result<(), String> {
        check_name(file)?;
        if let Some(folder) = &self.folder {
            std::fs::create_dir_all(folder).map_err(|error| format!("cannot make the folder {}: {error}", folder.display()))?;
            return weft_backend::snapshot::write(&folder.join(file), &bytes);
        }
        let others: usize = self.memory.iter().filter(|(name, _)| *name != file).map(|(_, bytes)| bytes.len()).sum();
        if others + bytes.len() > MEMORY_BYTES_MAX {
            return Err(format!("the snapshots of this world would have more than {MEMORY_BYTES_MAX} bytes: say --out DIR"));
        }
        self.memory.insert(file.to_owned(), bytes);
        Ok(())
    }

    /// One that was written in this run.
    fn read(&self, file: &str) -> Result<Vec<u8>, String> {
        check_name(file)?;
        match &self.folder {
            Some(folder) => weft_backend::snapshot::read(&folder.join(file)),
            None => self.memory.get(file).cloned().ok_or_else(|| "there is no such snapshot".to_owned()),
        }
    }
}

/// May a snapshot of a scenario be called that?
///
/// # Errors
/// What is wrong, and what would be right.
pub(crate) fn check_name(file: &str) -> Result<(), String> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let sound =
        file.strip_suffix(SNAPSHOT_SUFFIX).is_some_and(|stem| !stem.is_empty() && !stem.starts_with('.') && stem.chars().all(plain));
    match sound && file.len() <= NAME_BYTES_MAX {
        true => Ok(()),
        false => Err(format!(
            "a snapshot lies in the folder of results: name it NAME{SNAPSHOT_SUFFIX}, of letters, digits, '-', '_' and '.', without a folder"
        )),
    }
}

impl World {
    /// Keeps snapshots of nodes below this folder of results, instead of in memory: to be called before the run.
    pub fn keep_snapshots(&mut self, dir: &Path) {
        self.kept.folder = Some(dir.join(SNAPSHOTS_FOLDER));
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
        let own = self.taken.0.contains(&digest);
        let result = host.restore(self.core.now, snapshot, own).map_err(|error| error.to_string());
        self.carry_on();
        result.map(Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::check_name;

    #[test]
    fn a_snapshot_of_a_scenario_stays_in_its_folder() {
        for good in ["a.snapshot", "n1-2030_01.01.snapshot"] {
            assert_eq!(check_name(good), Ok(()));
        }
        for bad in [
            "",
            "a",
            ".snapshot",
            "..snapshot",
            "../a.snapshot",
            "/tmp/a.snapshot",
            "a/b.snapshot",
            "ä.snapshot",
            "a b.snapshot",
            "a.snapshot.gz",
        ] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
        assert!(check_name(&format!("{}.snapshot", "a".repeat(100))).is_err());
    }
}
