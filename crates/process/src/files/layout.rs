//! What nodes have of a folder that is their `/`: which folders of it get a layer of the node's own, and when.

use super::super::error::StartError;
use super::super::users::NOBODY;
use super::mounts::Mounts;
use super::places::{LOW, OWN, TREE, WRITABLE, first_of, is_empty, is_new, text};
use super::skeleton;
use super::unlaid::Top;
use super::wanted::OwnFile;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use weft_intercept::sys::{Errno, is_root};

/// What nodes have of a folder of the host's that is their `/`: looked at once for all of them.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(super) base: PathBuf,
    /// Folders of the top level that are not new.
    pub(super) folders: Vec<Folder>,
    pub(super) links: Vec<(OsString, PathBuf)>,
    /// What there is at the top.
    pub(super) top: Arc<Top>,
    /// Those of [`WRITABLE`] that are there.
    pub(super) writable: Vec<&'static str>,
    /// Folders over which this kernel mounts no overlay. Asking again for each node would cost time, and a line in the kernel's log.
    pub(super) refused: Mutex<BTreeSet<OsString>>,
    /// Where something is mounted.
    pub(super) mounted: Mounts,
    /// The files of all nodes that lie below their layers.
    pub(super) common: Vec<OwnFile>,
}

#[derive(Debug)]
pub(super) struct Folder {
    pub(super) name: OsString,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Nothing of the host's is in it.
    Empty,
    /// Programs may well write there: the node's own files are laid over it from the beginning.
    Open,
    /// Programs may write there, but most of them never do: what all nodes see of it is made once, and the node's own files are laid over it when one does.
    Late,
    /// As far as one can see, nobody could write there but at its top: shown as it is, until somebody does.
    Closed,
}

/// Folders below a closed one are looked at so far down, and so many of them.
const LOOK_DEPTH: usize = 3;
const LOOK_FOLDERS: usize = 6000;

/// Is there no folder in which programs of a node might write? They are the user who runs weft, or nobody where that is root.
fn is_closed(folder: &Path) -> bool {
    // SAFETY: takes no pointers.
    let user = unsafe { libc::geteuid() };
    let may_write = |path: &Path, found: &std::fs::Metadata| match user {
        0 => {
            let (owner, group, others) = (found.uid() == NOBODY, found.gid() == NOBODY, true);
            [(owner, 0o200), (group, 0o020), (others, 0o002)].into_iter().any(|(theirs, bit)| theirs && found.mode() & bit != 0)
        }
        // SAFETY: a C string.
        _ => found.uid() == user || text(path).is_ok_and(|path| unsafe { libc::access(path.as_ptr(), libc::W_OK) } == 0),
    };
    let mut stack = vec![(folder.to_path_buf(), 0)];
    let mut looked_at = 0;
    while let Some((path, depth)) = stack.pop() {
        looked_at += 1;
        let Ok(found) = path.symlink_metadata() else { continue };
        if looked_at > LOOK_FOLDERS || may_write(&path, &found) {
            return false;
        }
        if depth < LOOK_DEPTH
            && let Ok(entries) = std::fs::read_dir(&path)
        {
            let folders = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            stack.extend(folders.map(|entry| (entry.path(), depth + 1)));
        }
    }
    true
}

/// Whoever root starts programs as is nobody outside (`users::Users`), so everybody must be let into the folder and those above it.
fn may_be_entered(folder: &Path) -> bool {
    let open = |folder: &Path| {
        folder.metadata().is_ok_and(|found| found.mode() & 0o001 != 0 || found.uid() == NOBODY && found.mode() & 0o100 != 0)
    };
    !is_root() || folder.ancestors().all(open)
}

const NOT_FOR_OTHERS: &str = "show the folder that is to be the node's root, whose programs run as nobody where root runs weft (allow others to enter it and every folder above: chmod o+x)";

/// Overlays may lie two deep (FILESYSTEM_MAX_STACK_DEPTH of include/linux/fs.h).
fn is_overlay(folder: &Path) -> bool {
    rustix::fs::statfs(folder).is_ok_and(|found| found.f_type == libc::OVERLAYFS_SUPER_MAGIC)
}

impl Layout {
    /// Looks at the folder that is to be `/`; none: the host's.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn of(root: Option<&Path>, common: &[OwnFile]) -> Result<Layout, StartError> {
        let failed = |step| move |error: std::io::Error| StartError::Step { step, errno: Errno(error.raw_os_error().unwrap_or(libc::EIO)) };
        let base = match root {
            Some(root) => {
                let root = root.canonicalize().map_err(failed("find the folder that is to be the node's root"))?;
                if !may_be_entered(&root) {
                    return Err(StartError::Step { step: NOT_FOR_OTHERS, errno: Errno(libc::EACCES) });
                }
                root
            }
            None => PathBuf::from("/"),
        };
        let mut entries: Vec<_> = std::fs::read_dir(&base)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(failed("read the folder that is to be the node's root"))?;
        entries.sort_by_key(std::fs::DirEntry::file_name);
        let mut layout = Layout {
            base,
            folders: Vec::new(),
            links: Vec::new(),
            top: Arc::default(),
            writable: Vec::new(),
            refused: Mutex::new(BTreeSet::new()),
            mounted: Mounts::read(),
            common: Vec::new(),
        };
        for entry in entries {
            let name = entry.file_name();
            let Ok(kind) = entry.file_type() else { continue };
            if name.to_str().is_some_and(is_new) {
                continue;
            }
            if kind.is_symlink() {
                layout.links.push((name, std::fs::read_link(entry.path()).map_err(failed("read a link in the node's root"))?));
            } else if kind.is_dir() {
                let path = entry.path();
                let expected = WRITABLE.iter().any(|folder| name == *folder);
                let kind = match () {
                    () if is_empty(&path) => Kind::Empty,
                    () if !expected && is_closed(&path) => Kind::Closed,
                    () if layout.may_be_late(&name, &path) => Kind::Late,
                    () => Kind::Open,
                };
                layout.folders.push(Folder { name, kind });
            }
        }
        // A link (/var/mail often is one) must not be hidden by a folder.
        let there = |folder: &&str| layout.base.join(folder).symlink_metadata().is_ok_and(|found| found.is_dir());
        layout.writable = WRITABLE.into_iter().filter(there).collect();
        layout.top = Arc::new(layout.top());
        let whole = |first: &OsStr| {
            layout.folders.iter().any(|folder| folder.name == first && folder.kind == Kind::Open)
                && !layout.mounted.below(&layout.base.join(first))
        };
        layout.common = common.iter().filter(|file| first_of(&file.path).is_some_and(whole)).cloned().collect();
        Ok(layout)
    }

    /// Is there a layer of folders that nodes may change between the host's files and theirs, in this folder of the top level or below it?
    pub(super) fn has_skeleton(&self, folder: &str) -> bool {
        self.base == Path::new("/") && skeleton::TOPS.contains(&folder.split('/').next().unwrap_or_default())
    }

    /// Is what all nodes see of this folder of the top level where they see it?
    pub(super) fn is_shown(&self, name: &OsStr) -> bool {
        self.folders.iter().any(|folder| folder.name == name && matches!(folder.kind, Kind::Closed | Kind::Late))
    }

    /// Where the nursery has what it shows of a folder of the top level.
    pub(super) fn place(&self, folder: &Folder) -> &'static Path {
        Path::new(if matches!(folder.kind, Kind::Closed | Kind::Late) { TREE } else { LOW })
    }

    /// Is what begins with this name below a folder that is not everybody's?
    pub(super) fn is_below(&self, first: &OsStr) -> bool {
        let laid = self.folders.iter().any(|folder| folder.name == first && folder.kind != Kind::Empty);
        laid || OWN.iter().any(|(_, to, _)| first == *to)
    }

    /// Where a path leads whose first name is a link at the top (/bin of a merged /usr).
    pub(super) fn led(&self, path: &Path) -> PathBuf {
        let link = self.links.iter().find(|(name, _)| first_of(path) == Some(name));
        let rest = path.components().skip(2);
        link.filter(|_| path.components().count() > 2)
            .map_or_else(|| path.to_owned(), |(_, to)| Path::new("/").join(to).join(rest.collect::<PathBuf>()))
    }

    /// Does a node find this file below its own layer?
    pub(super) fn has_common(&self, file: &OwnFile) -> bool {
        self.common.contains(file) && first_of(&file.path).is_some_and(|first| !self.is_refused(first))
    }

    pub(super) fn is_refused(&self, name: &OsStr) -> bool {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).contains(name)
    }

    /// Can what all nodes see of a folder be an overlay, and another be laid over that? In /etc every node has files of its own.
    fn may_be_late(&self, name: &OsStr, path: &Path) -> bool {
        let plain = path.metadata().is_ok_and(|found| found.mode() & 0o7777 == 0o755);
        name != "etc" && plain && !is_overlay(path) && !self.mounted.below(path)
    }

    /// Has the nursery laid an overlay over this folder of the top level?
    pub(super) fn is_late(&self, name: &OsStr) -> bool {
        self.folders.iter().any(|folder| folder.kind == Kind::Late && folder.name == name) && !self.is_refused(name)
    }

    /// Folders below the top level that nodes may change where there is no such layer, and their modes; those of folders that the nursery lays an overlay over, or
    /// the others.
    pub(super) fn writable_below(&self, late: bool) -> impl Iterator<Item = (&'static str, libc::mode_t)> {
        let those = self.writable.iter().filter_map(|folder| Some((*folder, folder.split_once('/')?.0)));
        let those = those.filter(move |(folder, top)| !self.has_skeleton(folder) && self.is_late(OsStr::new(top)) == late);
        those.map(|(folder, _)| (folder, if folder == "var/tmp" { 0o1777 } else { 0o755 }))
    }

    fn top(&self) -> Top {
        let names =
            |which: fn(Kind) -> bool| self.folders.iter().filter(move |folder| which(folder.kind)).map(|folder| folder.name.clone());
        Top { folders: names(|_| true).collect(), mounted: names(|kind| kind != Kind::Empty).collect(), links: self.links.clone() }
    }
}
