//! Snapshots of nodes: what they may be called, and where those of a world are. That is the folder of results, or memory
//! where there is none, for as long as the world.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};

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
    pub fn add(&mut self, digest: u128) {
        if self.0.len() == OWN_MAX {
            self.0.pop_front();
        }
        self.0.push_back(digest);
    }

    /// Is this one of them?
    pub fn has(&self, digest: u128) -> bool {
        self.0.contains(&digest)
    }
}

/// Where a world's snapshots are.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    folder: Option<PathBuf>,
    memory: BTreeMap<String, Vec<u8>>,
}

impl Kept {
    /// From now on they are kept below this folder of results, instead of in memory.
    pub fn keep_below(&mut self, dir: &Path) {
        self.folder = Some(dir.join(SNAPSHOTS_FOLDER));
    }

    pub fn write(&mut self, file: &str, bytes: Vec<u8>) -> Result<(), String> {
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
    pub fn read(&self, file: &str) -> Result<Vec<u8>, String> {
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
