//! Whether a node will have a file, as far as one can tell from outside.

use super::{Mount, NodePlan};
use std::path::Path;
use weft_process::OWN_FOLDERS;

/// Will the node have this file or folder? What its programs make themselves nobody knows.
pub fn is_there(node: &NodePlan, path: &Path) -> bool {
    if node.files.own.iter().any(|file| file.path.starts_with(path)) || node.files.mounts.iter().any(|mount| mount.to.starts_with(path)) {
        return true;
    }
    let shown = |mount: &&Mount| path.starts_with(&mount.to);
    // Of mounts within each other, the innermost.
    if let Some(mount) = node.files.mounts.iter().filter(shown).max_by_key(|mount| mount.to.components().count()) {
        return path.strip_prefix(&mount.to).is_ok_and(|below| mount.from.join(below).exists());
    }
    // Whatever is its root.
    if let Some(folder) = OWN_FOLDERS.iter().find(|folder| path.starts_with(folder)) {
        return path == Path::new(folder);
    }
    match &node.files.root {
        Some(root) => path.strip_prefix("/").is_ok_and(|below| root.join(below).exists()),
        None => path.exists(),
    }
}
