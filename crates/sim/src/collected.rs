//! Files that programs have written, taken out of their nodes: when a node crashes, and when the world ends.

use crate::cell::Cell;
use crate::plan::{NodePlan, Plan};
use crate::process::files_of;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path, PathBuf};
use weft_process::{CollectFrom, Taken, TakenFile, Wanted, collect};

/// Folder of these files below that of results, with a folder for each node, and the list of all of them.
pub const FILES_FOLDER: &str = "files";
/// That list, beside the folder.
pub const FILES_INDEX: &str = "files.json";

/// What came of taking files out of nodes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Leavings {
    /// Files and folders that are not there because they were too many, too large or too deep.
    pub left_out: u64,
    /// Patterns of the scenario, with the nodes that have left nothing that they stand for.
    pub unmet: BTreeMap<String, Vec<String>>,
}

/// What was taken so far.
#[derive(Debug)]
pub(crate) struct Collection {
    dir: PathBuf,
    /// All that programs have written, and not only what the scenario names.
    everything: bool,
    of_nodes: BTreeMap<String, Taken>,
    /// What the scenario names.
    patterns: BTreeMap<String, Vec<String>>,
    /// What was on disks that nodes have no more.
    of_old_disks: BTreeMap<String, Taken>,
    failed: Option<io::Error>,
}

impl Collection {
    pub fn below(dir: &Path, everything: bool) -> Collection {
        let (of_nodes, patterns, of_old_disks) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Collection { dir: dir.to_owned(), everything, of_nodes, patterns, of_old_disks, failed: None }
    }

    /// What a node leaves, in place of what it has left before.
    pub fn take(&mut self, plan: &Plan, node: &NodePlan, cell: &Cell) {
        let patterns = if self.everything { vec!["/**".to_owned()] } else { node.collect.clone() };
        let (Ok(wanted), Some(root)) = (Wanted::new(&patterns), cell.actors.iter().find_map(|slot| slot.actor.root())) else { return };
        if patterns.is_empty() {
            return;
        }
        self.patterns.insert(node.name.clone(), node.collect.clone());
        let into = self.dir.join(FILES_FOLDER).join(&node.name);
        let base = node.files.root.as_deref().unwrap_or(Path::new("/"));
        let gone = self.of_nodes.remove(&node.name).map_or(Ok(()), |before| remove(&into, &before.files));
        let given = files_of(plan, node);
        let from = CollectFrom { root: &root, base, mounts: &node.files.mounts, given: &given };
        match gone.and_then(|()| collect(from, &wanted, &into)) {
            Ok(taken) => drop(self.of_nodes.insert(node.name.clone(), taken)),
            Err(error) => drop(self.failed.get_or_insert(error)),
        }
    }

    /// The node has another disk now: what was taken stays, but for files that are taken at the same paths.
    pub fn keep(&mut self, node: &str) {
        let Some(taken) = self.of_nodes.remove(node) else { return };
        let kept = self.of_old_disks.entry(node.to_owned()).or_default();
        kept.left_out += taken.left_out;
        add(&mut kept.files, taken.files);
    }

    /// Writes the list, and says what is not in it.
    pub fn finish(mut self) -> io::Result<Leavings> {
        for (node, kept) in std::mem::take(&mut self.of_old_disks) {
            let taken = self.of_nodes.entry(node).or_default();
            taken.left_out += kept.left_out;
            let last = std::mem::replace(&mut taken.files, kept.files);
            add(&mut taken.files, last);
        }
        let of_file = |file: &TakenFile| match &file.link {
            Some(to) => json!({"path": file.path.to_string_lossy(), "link": to.to_string_lossy()}),
            None => json!({"path": file.path.to_string_lossy(), "bytes": file.bytes}),
        };
        let of_node = |(name, taken): (&String, &Taken)| {
            let files: Vec<Value> = taken.files.iter().map(of_file).collect();
            (name.clone(), json!({"files": files, "left_out": taken.left_out}))
        };
        if !self.of_nodes.is_empty() {
            let index: serde_json::Map<String, Value> = self.of_nodes.iter().map(of_node).collect();
            std::fs::write(self.dir.join(FILES_INDEX), format!("{:#}\n", Value::from(index)))?;
        }
        // Not before: the next run takes away what the list names.
        self.failed.map_or(Ok(()), Err)?;
        let mut unmet: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (node, patterns) in &self.patterns {
            let (Ok(wanted), Some(taken)) = (Wanted::new(patterns), self.of_nodes.get(node)) else { continue };
            for pattern in wanted.unmet(&taken.files).into_iter().filter_map(|place| patterns.get(place)) {
                unmet.entry(pattern.clone()).or_default().push(node.clone());
            }
        }
        Ok(Leavings { left_out: self.of_nodes.values().map(|taken| taken.left_out).sum(), unmet })
    }
}

/// Files that came later go before others of their paths.
fn add(files: &mut Vec<TakenFile>, later: Vec<TakenFile>) {
    files.retain(|file| later.iter().all(|other| other.path != file.path));
    files.extend(later);
    files.sort_by(|one, other| one.path.cmp(&other.path));
}

/// Takes away files that were taken, and folders in which nothing is left.
fn remove(into: &Path, files: &[TakenFile]) -> io::Result<()> {
    for file in files.iter().filter(|file| file.link.is_none()) {
        forget(into, &file.path)?;
    }
    Ok(())
}

fn forget(into: &Path, file: &Path) -> io::Result<()> {
    let path = into.join(file.strip_prefix("/").unwrap_or(file));
    match std::fs::remove_file(&path) {
        Err(error) if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory) => {
            return Err(error);
        }
        _ => {}
    }
    let within = |folder: &&Path| folder.starts_with(into);
    for folder in path.ancestors().skip(1).take_while(within) {
        if std::fs::remove_dir(folder).is_err() {
            break;
        }
    }
    Ok(())
}

/// Is it an absolute path without `..`?
fn is_below(path: &Path) -> bool {
    let mut parts = path.components();
    parts.next() == Some(Component::RootDir) && parts.all(|part| matches!(part, Component::Normal(_)))
}

/// Takes away what an earlier run has left in this folder of results: what its list names, and nothing else.
///
/// # Errors
/// A file cannot be removed.
pub fn clear_files(dir: &Path) -> io::Result<()> {
    let Ok(text) = std::fs::read_to_string(dir.join(FILES_INDEX)) else { return Ok(()) };
    let index: Value = serde_json::from_str(&text).unwrap_or_default();
    for (node, taken) in
        index.as_object().into_iter().flatten().filter(|(node, _)| !node.contains('/') && is_below(&Path::new("/").join(node)))
    {
        let folder = dir.join(FILES_FOLDER).join(node);
        let paths = taken["files"].as_array().into_iter().flatten().filter_map(|file| file["path"].as_str());
        let inside = |path: &&str| is_below(Path::new(path));
        paths.filter(inside).try_for_each(|path| forget(&folder, Path::new(path)))?;
    }
    let _ = std::fs::remove_dir(dir.join(FILES_FOLDER));
    std::fs::remove_file(dir.join(FILES_INDEX))
}
