//! What lies beside the scenario: /tmp, /root and /run of a node are its own, so a script in a checkout there would not be found. If a command names something below the
//! scenario's folder, and the node would hide it, the node gets that folder, to be read only.

use super::Source;
use crate::plan::{Plan, Run};
use std::path::{Path, PathBuf};
use weft_intercept::process::{Mount, OwnFile};

/// Folders that every node has for itself, and that people keep files in.
const HIDDEN: [&str; 3] = ["/root", "/run", "/tmp"];

/// Is this in a folder of the node's own, and if so, not that folder itself?
fn is_below_hidden(folder: &Path) -> bool {
    HIDDEN.iter().any(|hidden| folder.starts_with(hidden) && folder != Path::new(hidden))
}

/// Gives the nodes what their programs' commands name.
pub(super) fn show(source: &Source<'_>, plan: &mut Plan) {
    let parent = Path::new(source.file).parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (Ok(folder), Ok(real)) = (std::path::absolute(parent), parent.canonicalize()) else { return };
    let Some(text) = folder.to_str().filter(|_| HIDDEN.iter().any(|hidden| folder.starts_with(hidden))) else { return };
    let Plan { nodes, programs, .. } = plan;
    for program in programs {
        let (Run::Process(process), Some(node)) = (&program.run, nodes.get_mut(program.node)) else { continue };
        let directory = process.directory.to_string_lossy();
        let words = process.command.iter().map(String::as_str).chain([&*directory]);
        let named: Vec<&str> = words.filter(|word| word.contains(text)).collect();
        if named.is_empty() {
            continue;
        }
        if is_below_hidden(&folder) {
            if node.files.mounts.iter().all(|mount| mount.to != folder) {
                node.files.mounts.push(Mount { from: real.clone(), to: folder.clone() });
            }
            continue;
        }
        // The scenario lies in /tmp itself, which the node must be able to write to: only what is named.
        for path in named.iter().map(PathBuf::from).filter(|path| path.parent() == Some(&folder)) {
            if let (Ok(contents), true) = (std::fs::read(&path), node.files.own.iter().all(|own| own.path != path)) {
                use std::os::unix::fs::PermissionsExt as _;
                let executable = path.metadata().is_ok_and(|found| found.permissions().mode() & 0o100 != 0);
                node.files.own.push(OwnFile { path, contents: contents.into(), executable });
            }
        }
    }
}
