//! What stays of a node's files when it is restarted: the layer that its programs wrote, whose the files in it are, and what time the node's files are counted from.
//!
//! The layer is a file system in memory. It outlives the node's mount namespace by a mount of it that nobody sees (open_tree(2)), which process 1 sends when it is
//! made, and which the next process 1 puts in its place. Everything that was written is kept, synchronised or not.

use super::arena::Arena;
use super::files::{OwnDisk, is_new};
use super::nursery::Nursery;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Folders within folders that are looked at.
const DEPTH_MAX: usize = 64;

/// What a node has of its own on its disk.
#[derive(Clone, Debug)]
pub struct Disk(pub(super) Arc<Kept>);

#[derive(Debug)]
pub(super) struct Kept {
    /// The layer.
    pub tree: OwnedFd,
    /// `Header::real_start` of the node's first life.
    pub real_start: u64,
    /// Files that are not root's, by their paths in the node: user and group.
    owners: Vec<(PathBuf, [u32; 2])>,
    /// Its users are those of the layer: the next life begins there.
    _nursery: Option<Arc<Nursery>>,
}

/// What becomes of a node's disk when the node ends.
#[derive(Clone, Debug, Default)]
pub enum DiskUse {
    /// It is gone.
    #[default]
    Once,
    /// [`super::Tree::take_disk`] keeps it.
    Keep,
    /// The same, and it is there already.
    Again(Disk),
}

impl DiskUse {
    pub(super) fn is_kept(&self) -> bool {
        !matches!(self, DiskUse::Once)
    }
    /// What a node's files are to be made from.
    pub(super) fn own(&self) -> OwnDisk<'_> {
        OwnDisk { kept: self.is_kept(), before: self.before().map(|disk| disk.tree.as_fd()) }
    }
    pub(super) fn before(&self) -> Option<&Kept> {
        if let DiskUse::Again(disk) = self { Some(&disk.0) } else { None }
    }
}

/// Looks at what programs of the node have made or been given.
pub(super) fn take(tree: OwnedFd, arena: &Arena, node: &Path, nursery: Option<Arc<Nursery>>) -> Disk {
    let stage = PathBuf::from(format!("/proc/self/fd/{}", tree.as_raw_fd()));
    let mut owners = Vec::new();
    for (layer, skip) in [("upper", false), ("root", true)] {
        let own = |name: &str| skip && is_new(name);
        walk(&stage.join(layer), Path::new(""), 0, &own, &mut |path| {
            if let Ok(found) = node.join(path).symlink_metadata() {
                let owner = arena.owner_of(found.ino(), found.dev());
                if owner != [0, 0] {
                    owners.push((path.to_owned(), owner));
                }
            }
        });
    }
    Disk(Arc::new(Kept { tree, real_start: arena.header().real_start.load(Relaxed), owners, _nursery: nursery }))
}

impl Kept {
    /// Whose files are is known by their numbers, which are others now. Before the first program runs.
    pub fn tell_owners(&self, arena: &Arena, node: &Path) {
        for (path, owner) in &self.owners {
            if let Ok(found) = node.join(path).symlink_metadata() {
                arena.give_file(found.ino(), found.dev(), *owner);
            }
        }
    }
}

/// Everything below a folder, in the order of names.
fn walk(layer: &Path, below: &Path, depth: usize, leave_out: &dyn Fn(&str) -> bool, see: &mut dyn FnMut(&Path)) {
    let Ok(entries) = std::fs::read_dir(layer.join(below)) else { return };
    let mut names: Vec<_> =
        entries.filter_map(|entry| Some((entry.as_ref().ok()?.file_name(), entry.ok()?.file_type().ok()?.is_dir()))).collect();
    names.sort();
    for (name, folder) in names {
        if depth == 0 && leave_out(&name.to_string_lossy()) {
            continue;
        }
        let path = below.join(&name);
        see(&path);
        if folder && depth < DEPTH_MAX {
            walk(layer, &path, depth + 1, leave_out, see);
        }
    }
}
