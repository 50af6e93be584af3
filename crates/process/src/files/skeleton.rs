//! Folders of the host's that programs of a node can change: a layer between the host's files and the node's own, with the same folders, empty, that belong to the nodes. An overlay
//! says of a folder what its uppermost layer says, so whoever runs weft, root of a node may make, rename and remove files there; files themselves are copied when that is asked for
//! (`guest/copy_up.rs` of the loader).
//!
//! Folders that others may not read on the host are empty: what is in them would depend on who runs weft.

use super::super::users::NOBODY;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Of the top level. /home is what people work in, /usr is large and nobody's to change.
pub(super) const TOPS: [&str; 4] = ["etc", "opt", "srv", "var"];
/// What is below these is the business of whoever put it there.
const LEFT_OUT: [&str; 2] = ["/var/tmp", "/var/cache/apt"];
/// A bound: more are the host's, as they are.
const FOLDERS_MAX: usize = 4096;
const DEPTH_MAX: usize = 8;
/// Users of the system, as adduser(8) gives numbers.
const SYSTEM_USERS: std::ops::Range<u32> = 0..1000;

/// A folder of the layer.
#[derive(Debug)]
pub(super) struct Folder {
    pub path: PathBuf,
    pub mode: u32,
    /// What the host has in it does not show.
    pub empty: bool,
}

/// All of them, each after the one that it is in.
pub(super) fn folders() -> Vec<Folder> {
    let mut found = Vec::new();
    for top in TOPS {
        add(&Path::new("/").join(top), 0, &mut found);
    }
    found
}

fn add(path: &Path, depth: usize, found: &mut Vec<Folder>) {
    let Ok(about) = path.symlink_metadata() else { return };
    if !about.is_dir() || found.len() >= FOLDERS_MAX {
        return;
    }
    let open = about.mode() & 0o5 == 0o5;
    let system = SYSTEM_USERS.contains(&about.uid()) || about.uid() == NOBODY;
    if !open && !system {
        return;
    }
    found.push(Folder { path: path.to_owned(), mode: about.mode() & 0o7777, empty: !open });
    if !open || depth == DEPTH_MAX || LEFT_OUT.iter().any(|left_out| path == Path::new(left_out)) {
        return;
    }
    let Ok(entries) = std::fs::read_dir(path) else { return };
    let folders = entries.filter_map(Result::ok).filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut names: Vec<_> = folders.map(|entry| entry.file_name()).collect();
    names.sort();
    for name in names {
        add(&path.join(name), depth + 1, found);
    }
}

/// Files that nodes have instead of the host's secrets, each with the one before, which useradd(8) writes: path, contents and mode.
pub(crate) fn secrets() -> impl Iterator<Item = (PathBuf, Arc<[u8]>, u32)> {
    let files = [("shadow", "/etc/passwd", "*:19000:0:99999:7:::"), ("gshadow", "/etc/group", "*::")];
    files.into_iter().flat_map(|(file, names, rest)| {
        let text: Arc<[u8]> = without_passwords(names, rest).into_bytes().into();
        [("", 0o640), ("-", 0o600)].map(|(end, mode)| (format!("/etc/{file}{end}").into(), Arc::clone(&text), mode))
    })
}

/// /etc/shadow or /etc/gshadow, which nobody but root may read: nobody has a password. `names`: /etc/passwd or /etc/group; `rest`: what follows each name.
fn without_passwords(names: &str, rest: &str) -> String {
    let names = std::fs::read_to_string(names).unwrap_or_default();
    names.lines().filter_map(|line| line.split(':').next()).map(|name| format!("{name}:{rest}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_come_after_those_that_they_are_in() {
        let found = folders();
        assert!(found.iter().any(|folder| folder.path == Path::new("/etc")));
        for (index, folder) in found.iter().enumerate() {
            let parent = folder.path.parent().unwrap();
            assert!(parent == Path::new("/") || found[..index].iter().any(|before| before.path == parent && !before.empty));
        }
        assert!(found.iter().all(|folder| !folder.path.starts_with("/var/tmp") || folder.path == Path::new("/var/tmp")));
    }
}
