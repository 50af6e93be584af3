//! What lies beside the scenario.
//!
//! A command that names it as people do there (`python3 server.py`, `venv/bin/gunicorn`, `--config=conf/x.yml`) starts in the node's folder [`FOLDER`], which
//! is the scenario's: the same path on every machine. What is written there goes into the node's own layer.
//!
//! A command may also name it by its whole path. /tmp, /root and /run of a node are its own, so a script in a checkout there would not be found: the node gets
//! that folder at its path, to be read only; and so it gets a virtual environment of Python that a command names, wherever it is.

use super::draft::NodeDraft;
use super::files::{covers, hidden};
use super::source::Source;
use crate::plan::{NodePlan, Plan, Run};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weft_node::StackError;
use weft_process::{Mount, OWN_FOLDERS, OwnFile};

/// The scenario's folder in nodes.
pub(super) const FOLDER: &str = "/scenario";
/// Largest file that is copied into nodes, where the scenario lies in /tmp itself. A larger one is not shown, as if nothing named it.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// What is in a file, and whether it can be executed.
type Copied = (Arc<[u8]>, bool);
/// What ends a name in the midst of a word: a word may be a command line of a shell.
const ENDS: &str = "/ \t\n;:&|<>()'\"`,";

/// Is this in a folder of the node's own, and if so, not that folder itself?
fn is_below_hidden(folder: &Path) -> bool {
    OWN_FOLDERS.iter().any(|hidden| folder.starts_with(hidden) && folder != Path::new(hidden))
}

/// Does a word name this folder, or something in it?
fn names(word: &str, folder: &str) -> bool {
    word.match_indices(folder).any(|(at, _)| word[at + folder.len()..].chars().next().is_none_or(|next| ENDS.contains(next)))
}

/// Does a command name something beside the scenario, but by its whole path? Its first word does by a `/` in it: otherwise it is looked for in PATH.
pub(super) fn names_beside(source: &Source<'_>, command: &[String]) -> bool {
    let is_there = |name: &str| {
        let found = source.beside(name);
        // A folder may be called as any word is.
        found.is_file() || found.is_dir() && name.contains('/')
    };
    let pieces =
        |word: &String| word.split(|letter| letter != '/' && ENDS.contains(letter) || letter == '=').map(str::to_owned).collect::<Vec<_>>();
    let may_be =
        |name: &str| !name.is_empty() && !name.starts_with(['/', '-']) && !name.split('/').all(|part| matches!(part, "" | "." | ".."));
    let first = command.first().filter(|word| word.contains('/')).cloned();
    first.into_iter().chain(command.iter().skip(1).flat_map(pieces)).any(|name| may_be(&name) && is_there(&name))
}

/// The folder of the virtual environment that a program is of, if it is of one (PEP 405).
fn environment_of(program: &Path) -> Option<&Path> {
    program.ancestors().skip(1).find(|folder| folder.join("pyvenv.cfg").is_file())
}

/// None: nothing that could be copied (a device, a FIFO), or too large.
fn copied(path: &Path) -> Option<Copied> {
    let found = path.metadata().ok().filter(|found| found.is_file() && found.len() <= FILE_BYTES_MAX)?;
    Some((std::fs::read(path).ok()?.into(), found.permissions().mode() & 0o100 != 0))
}

/// Gives the nodes what their programs' commands name.
pub(super) fn show(source: &Source<'_>, plan: &mut Plan, drafts: &[NodeDraft]) -> Result<(), StackError> {
    show_by_name(source, plan, drafts)?;
    show_environments(plan);
    show_by_path(source, plan, drafts)
}

/// The scenario's folder, to those whose programs start there.
fn show_by_name(source: &Source<'_>, plan: &mut Plan, drafts: &[NodeDraft]) -> Result<(), StackError> {
    let Ok(real) = source.beside("").join(".").canonicalize() else { return Ok(()) };
    let Plan { nodes, programs, .. } = plan;
    for program in programs {
        let (Run::Process(process), Some(node)) = (&program.run, nodes.get_mut(program.node)) else { continue };
        if process.directory.starts_with(FOLDER) && node.files.mounts.iter().all(|mount| mount.to != Path::new(FOLDER)) {
            let mount = Mount { from: real.clone(), to: FOLDER.into(), writable: true };
            give(source, drafts.get(program.node), node, mount)?;
        }
    }
    Ok(())
}

/// Virtual environments in folders that nodes have for themselves.
fn show_environments(plan: &mut Plan) {
    let Plan { nodes, programs, .. } = plan;
    for program in programs {
        let (Run::Process(process), Some(node)) = (&program.run, nodes.get_mut(program.node)) else { continue };
        let word = process.command.first().map(Path::new).filter(|word| OWN_FOLDERS.iter().any(|hidden| word.starts_with(hidden)));
        let Some(folder) = word.and_then(environment_of).filter(|folder| is_below_hidden(folder)) else { continue };
        let is_shown = node.files.mounts.iter().any(|mount| folder.starts_with(&mount.to));
        if let (false, Ok(from)) = (is_shown, folder.canonicalize()) {
            node.files.mounts.push(Mount { from, to: folder.to_owned(), writable: false });
        }
    }
}

/// A mount, unless it would hide a file that the node is given.
fn give(source: &Source<'_>, draft: Option<&NodeDraft>, node: &mut NodePlan, mount: Mount) -> Result<(), StackError> {
    let own = draft.into_iter().flat_map(|draft| draft.section.files.keys());
    if let Some(path) = own.into_iter().find(|path| covers(&mount, Path::new(path.get_ref()))) {
        return Err(hidden(source, path, &mount));
    }
    node.files.mounts.push(mount);
    Ok(())
}

fn show_by_path(source: &Source<'_>, plan: &mut Plan, drafts: &[NodeDraft]) -> Result<(), StackError> {
    let parent = if source.folder.as_os_str().is_empty() { Path::new(".") } else { source.folder };
    let (Ok(folder), Ok(real)) = (std::path::absolute(parent), parent.canonicalize()) else { return Ok(()) };
    let Some(text) = folder.to_str().filter(|_| OWN_FOLDERS.iter().any(|hidden| folder.starts_with(hidden))) else { return Ok(()) };
    let Plan { nodes, programs, .. } = plan;
    let mut files: BTreeMap<PathBuf, Option<Copied>> = BTreeMap::new();
    for program in programs {
        let (Run::Process(process), Some(node)) = (&program.run, nodes.get_mut(program.node)) else { continue };
        let directory = process.directory.to_string_lossy();
        let words = process.command.iter().map(String::as_str).chain([&*directory]);
        let named: Vec<&str> = words.filter(|word| names(word, text)).collect();
        if named.is_empty() {
            continue;
        }
        if is_below_hidden(&folder) {
            if node.files.mounts.iter().all(|mount| mount.to != folder) {
                give(source, drafts.get(program.node), node, Mount { from: real.clone(), to: folder.clone(), writable: false })?;
            }
            continue;
        }
        // The scenario lies in /tmp itself, which the node must be able to write to: only what is named.
        for path in named.iter().map(PathBuf::from).filter(|path| path.parent() == Some(&folder)) {
            if node.files.own.iter().any(|own| own.path == path) {
                continue;
            }
            if let Some((contents, executable)) = files.entry(path.clone()).or_insert_with(|| copied(&path)).clone() {
                node.files.own.push(OwnFile { path, contents, executable });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_named_as_a_whole() {
        for word in ["/tmp/x", "/tmp/x/run.py", "--config=/tmp/x/conf", "cd /tmp/x; ./run", "cd /tmp/x && ls", "/tmp/xy:/tmp/x"] {
            assert!(names(word, "/tmp/x"), "{word}");
        }
        for word in ["/tmp/xy", "/tmp/x-1/run.py", "/tmp/x.d", "/tmp", "x"] {
            assert!(!names(word, "/tmp/x"), "{word}");
        }
    }
}
