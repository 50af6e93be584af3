//! The files that a node's programs see: the host's (or a folder's) below a layer of the node's own, and what differs from node to node.
//!
//! An overlay over `/` as a whole is refused to users without privilege (mounts below it are locked), so each folder of the top level gets
//! one. `/dev`, `/proc`, `/run`, `/sys`, `/tmp` and `/root` are the node's own from the beginning; nothing of the host's that is alive (sockets of
//! its services, devices) is there. All is gone with process 1.
//!
//! The steps are prepared here and performed by the process that becomes process 1 (`guest/steps.rs` of the loader).

mod layers;
mod tree;

use self::layers::{Layer, Mounts};
pub(super) use self::layers::{Next, Unlaid};
use self::tree::Top;
use super::disk::DiskUse;
use super::error::{StartError, Undone};
use super::launch::NOBODY;
use super::skeleton;
use crate::sys::{Errno, is_root};
use std::collections::BTreeSet;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::{Mutex, PoisonError};
use weft_loader::abi;

/// What a node's programs see as files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// The folder that is `/`; none: the host's files. It is never changed.
    pub root: Option<PathBuf>,
    /// The node's own.
    pub own: Vec<OwnFile>,
    /// Those that other nodes have, too: each node has them for itself, but they are written once. Its own go before.
    pub common: Arc<[OwnFile]>,
    /// Folders of the host, to be read only.
    pub mounts: Vec<Mount>,
}

/// A folder of the host's in a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Absolute, on the host.
    pub from: PathBuf,
    /// Absolute, inside the node.
    pub to: PathBuf,
}

/// A file of a node's own, over what is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnFile {
    /// Absolute, inside the node.
    pub path: PathBuf,
    /// What is in it.
    pub contents: Arc<[u8]>,
    /// May it be executed?
    pub executable: bool,
}

/// What stands in a list for the namespaces before anybody has done it.
const NOT_BEGUN: i32 = libc::EINPROGRESS;
/// Of the top level: not the host's.
const NEW: [(&str, libc::mode_t); 6] = [("dev", 0o755), ("proc", 0o555), ("root", 0o700), ("run", 0o755), ("sys", 0o555), ("tmp", 0o1777)];
/// Those of them in which people keep files on the host: of them nothing is in a node, unless it is shown.
pub const OWN_FOLDERS: [&str; 3] = ["/tmp", "/root", "/run"];
/// Where the nursery has the host's files while it prepares, what nodes need of them, and where a node's are built.
const HOST: &str = "/host";
const LOW: &str = "/low";
const NODE: &str = "/node";
/// Where it has folders that nodes are given, by number, the layer of [`skeleton`], and files that all nodes have.
const SHARED: &str = "/shared";
const SKELETON: &str = "/skeleton";
const COMMON: &str = "/common";
/// What is `/` of every node until a program wants to write there, with what is the same for all of them.
const TREE: &str = "/tree";
/// A folder of that in which nothing is, and where the node's own is built.
const BARE: &str = "/sys";
/// What is empty whenever a node begins, of what it has for itself: the rest of it is its disk.
const FRESH: [(&str, &CStr); 3] = [("dev", c"mode=755"), ("run", c"mode=755"), ("tmp", c"mode=1777")];
/// Folders in which the nursery's own root is built; the first that is there is taken.
const STAGES: [&str; 4] = ["/tmp", "/mnt", "/srv", "/var/tmp"];
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
const DEVICE_LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];
/// Folders that programs of the node can write to though they are another user's on the host: they exist in the node's layer, too.
const WRITABLE: [&str; 11] = ["etc", "home", "opt", "srv", "var", "var/cache", "var/lib", "var/log", "var/mail", "var/spool", "var/tmp"];
/// Something to do.
#[derive(Debug)]
enum Act {
    Folder {
        path: CString,
        mode: libc::mode_t,
    },
    File {
        path: CString,
        contents: Arc<[u8]>,
        mode: libc::mode_t,
    },
    Link {
        to: CString,
        path: CString,
    },
    Mount {
        from: CString,
        to: CString,
        kind: &'static CStr,
        flags: libc::c_ulong,
        data: CString,
    },
    /// Only to be read from now on.
    ReadOnly {
        path: CString,
    },
    /// This folder becomes `/`.
    Enter {
        path: CString,
    },
    Unmount {
        path: CString,
    },
    /// This mount goes over `/`.
    Cover {
        path: CString,
    },
    /// The mount that came with the order.
    Attach {
        path: CString,
    },
    /// What lower layers have in this folder does not show.
    Opaque {
        path: CString,
    },
    /// A copy of this mount is sent to the controller.
    Keep {
        path: CString,
    },
}

/// Something to do, what it is for, and what to do when it fails.
#[derive(Debug)]
struct Step {
    what: &'static str,
    act: Act,
    otherwise: Otherwise,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Otherwise {
    Fail,
    GoOn,
    /// Do the next steps, so many, which are left out when this one succeeds.
    Instead(usize),
}

/// What makes a node's files.
#[derive(Debug, Default)]
pub(super) struct Steps {
    steps: Vec<Step>,
    /// The folders that get an overlay, and in which step.
    layers: Vec<(usize, OsString)>,
    unlaid: Unlaid,
}

/// What nodes have of a folder of the host's that is their `/`: looked at once for all of them.
#[derive(Debug)]
pub(super) struct Layout {
    base: PathBuf,
    /// Folders of the top level that are not new.
    folders: Vec<Folder>,
    links: Vec<(OsString, PathBuf)>,
    /// What there is at the top.
    top: Arc<Top>,
    /// Those of [`WRITABLE`] that are there.
    writable: Vec<&'static str>,
    /// Folders over which this kernel mounts no overlay. Asking again for each node would cost time, and a line in the kernel's log.
    refused: Mutex<BTreeSet<OsString>>,
    /// Where something is mounted.
    mounted: Mounts,
    /// The files of all nodes that lie below their layers.
    common: Vec<OwnFile>,
}

#[derive(Debug)]
struct Folder {
    name: OsString,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
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

fn text(path: impl AsRef<Path>) -> Result<CString, StartError> {
    CString::new(path.as_ref().as_os_str().as_bytes())
        .map_err(|_| StartError::Step { step: "use a path with a zero byte", errno: Errno(libc::EINVAL) })
}

/// Is there certainly nothing in a folder, for whoever looks?
fn is_empty(folder: &Path) -> bool {
    const EVERYBODY: u32 = 0o005;
    let open = folder.metadata().is_ok_and(|found| found.mode() & EVERYBODY == EVERYBODY);
    open && std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}

/// Whoever root starts programs as is nobody outside (`launch::Users`), so everybody must be let into the folder and those above it.
fn may_be_entered(folder: &Path) -> bool {
    let open = |folder: &Path| {
        folder.metadata().is_ok_and(|found| found.mode() & 0o001 != 0 || found.uid() == NOBODY && found.mode() & 0o100 != 0)
    };
    !is_root() || folder.ancestors().all(open)
}

const NOT_FOR_OTHERS: &str = "show the folder that is to be the node's root, whose programs run as nobody where root runs weft (allow others to enter it and every folder above: chmod o+x)";

/// Where the nursery has what is at this path on the host.
fn on_host(path: &Path) -> PathBuf {
    Path::new(HOST).join(path.strip_prefix("/").unwrap_or(path))
}

/// Is this name of the top level a folder that every node has for itself?
pub(super) fn is_new(name: &str) -> bool {
    NEW.iter().any(|(new, _)| name == *new)
}

/// The name at the top that a path begins with.
fn first_of(path: &Path) -> Option<&OsStr> {
    path.components().nth(1).and_then(|first| if let Component::Normal(first) = first { Some(first) } else { None })
}

/// Where the nursery has a folder that nodes get.
fn shared(number: usize) -> PathBuf {
    Path::new(SHARED).join(number.to_string())
}

/// A path in the options of an overlay.
fn escaped(path: &Path) -> Vec<u8> {
    let special = |byte: &u8| matches!(byte, b'\\' | b',' | b':');
    path.as_os_str().as_bytes().iter().flat_map(|byte| special(byte).then_some(b'\\').into_iter().chain([*byte])).collect()
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
    fn has_skeleton(&self, folder: &str) -> bool {
        self.base == Path::new("/") && skeleton::TOPS.contains(&folder.split('/').next().unwrap_or_default())
    }

    /// Is what all nodes see of this folder of the top level where they see it?
    fn is_shown(&self, name: &OsStr) -> bool {
        self.folders.iter().any(|folder| folder.name == name && matches!(folder.kind, Kind::Closed | Kind::Late))
    }

    /// Where the nursery has what it shows of a folder of the top level.
    fn place(&self, folder: &Folder) -> &'static Path {
        Path::new(if matches!(folder.kind, Kind::Closed | Kind::Late) { TREE } else { LOW })
    }

    /// Is what begins with this name below a folder that is not everybody's?
    fn is_below(&self, first: &OsStr) -> bool {
        let laid = self.folders.iter().any(|folder| folder.name == first && folder.kind != Kind::Empty);
        laid || tree::OWN.iter().any(|(_, to, _)| first == *to)
    }

    /// Where a path leads whose first name is a link at the top (/bin of a merged /usr).
    fn led(&self, path: &Path) -> PathBuf {
        let link = self.links.iter().find(|(name, _)| first_of(path) == Some(name));
        let rest = path.components().skip(2);
        link.filter(|_| path.components().count() > 2)
            .map_or_else(|| path.to_owned(), |(_, to)| Path::new("/").join(to).join(rest.collect::<PathBuf>()))
    }

    /// Does a node find this file below its own layer?
    fn has_common(&self, file: &OwnFile) -> bool {
        self.common.contains(file) && first_of(&file.path).is_some_and(|first| !self.is_refused(first))
    }

    fn is_refused(&self, name: &OsStr) -> bool {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).contains(name)
    }
}

impl Steps {
    /// Prepares what makes these files.
    ///
    /// # Errors
    /// A file's path is not absolute.
    pub fn new(files: &Files, layout: &Layout, disk: &DiskUse) -> Result<Steps, StartError> {
        let stage = PathBuf::from(NODE);
        let mut steps = Steps::default();
        let (upper, work) = (stage.join("upper"), stage.join("work"));
        let again = disk.before().is_some();
        if again {
            steps.add("put a node's disk in its place", Act::Attach { path: text(&stage)? }, Otherwise::Fail);
        } else {
            steps.memory(&stage, c"mode=755")?;
        }
        if disk.is_kept() {
            steps.add("keep a node's disk", Act::Keep { path: text(&stage)? }, Otherwise::Fail);
        }
        let own = files.common.iter().filter(|file| !layout.has_common(file)).chain(&files.own);
        let own: Vec<OwnFile> = own.map(|file| OwnFile { path: layout.led(&file.path), ..file.clone() }).collect();
        let mounts: Vec<PathBuf> = files.mounts.iter().map(|mount| layout.led(&mount.to)).collect();
        let places = || own.iter().map(|file| &*file.path).chain(mounts.iter().map(PathBuf::as_path));
        let firsts: BTreeSet<&OsStr> = places().filter_map(first_of).collect();
        // Those of them that are folders.
        let deep = places().filter(|path| path.components().count() > 2).chain(mounts.iter().map(PathBuf::as_path));
        let deep: BTreeSet<&OsStr> = deep.filter_map(first_of).collect();
        // A layer that is laid later is not on the disk.
        let kind = |folder: &Folder| match folder.kind {
            Kind::Closed | Kind::Late if disk.is_kept() || firsts.contains(&*folder.name) => Kind::Open,
            Kind::Late if layout.is_refused(&folder.name) => Kind::Open,
            kind => kind,
        };
        let layered: Vec<(&OsStr, Kind)> = layout.folders.iter().map(|folder| (&*folder.name, kind(folder))).collect();
        [&upper, &work].iter().try_for_each(|path| steps.folder(path, 0o755))?;
        let whole = disk.is_kept() || firsts.iter().any(|first| !layout.is_below(first));
        let root = if whole { steps.own_top(&stage, &deep, layout, disk)? } else { PathBuf::from(TREE) };
        if !whole {
            steps.own_folders(&stage, &root)?;
            steps.unlaid.whole = Some(Arc::clone(&layout.top));
        }
        for (name, _) in layered.iter().filter(|(_, kind)| *kind == Kind::Open) {
            steps.folder(&upper.join(name), 0o755)?;
            steps.folder(&work.join(name), 0o755)?;
        }
        for (folder, mode) in layout.writable_below(false) {
            steps.folder(&upper.join(folder), mode)?;
        }
        let at = |first: &OsStr| if layered.iter().any(|(name, kind)| first == *name && *kind != Kind::Empty) { &upper } else { &root };
        steps.own_files(&own, &mounts, &at, &root, again)?;
        let own = own.iter().filter_map(|file| Some(upper.join(file.path.strip_prefix("/").ok()?))).collect();
        steps.lay(layout, layered, [&upper, &work, &root], &own)?;
        steps.terminals(&root)?;
        steps.folder(&root.join("run/lock"), 0o1777)?;
        steps.proc(&root)?;
        steps.mounts(&mounts, &root)?;
        // What is left of the host's lies below, where nobody comes: taking it away would take the kernel longer than all the rest.
        steps.add("enter the node's files", Act::Cover { path: text(&root)? }, Otherwise::Fail);
        Ok(steps)
    }

    /// Each folder of the top level in its place.
    fn lay(
        &mut self,
        layout: &Layout,
        layered: Vec<(&OsStr, Kind)>,
        [upper, work, root]: [&Path; 3],
        own: &BTreeSet<PathBuf>,
    ) -> Result<(), StartError> {
        // Where nothing of the host's is, only the node's own files are: in a folder of its root.
        for (name, kind) in layered.into_iter().filter(|(_, kind)| *kind != Kind::Empty) {
            let to = root.join(name);
            let low = Path::new(LOW).join(name);
            if kind == Kind::Closed || kind == Kind::Late {
                if kind == Kind::Late { &mut self.unlaid.late } else { &mut self.unlaid.closed }.push(name.to_owned());
                continue;
            }
            if layout.is_shown(name) {
                self.shift(&to, &low, Otherwise::Fail)?;
            }
            let layer = Layer { rest: name.into(), lower: layout.base.join(name), low, upper: upper.join(name), work: work.join(name), to };
            if layout.mounted.below(&layer.lower) && self.lay_pieces_of(&layer, layout, own)? {
                continue;
            }
            let Layer { low, to, .. } = layer;
            if !layout.is_refused(name) {
                self.layers.push((self.steps.len(), name.to_owned()));
                let skeleton = name.to_str().is_some_and(|name| layout.has_skeleton(name)) && !layout.is_late(name);
                let common = layout.common.iter().any(|file| first_of(&file.path) == Some(name));
                let between = [(COMMON, common), (SKELETON, skeleton)].into_iter().filter(|(_, is_there)| *is_there);
                let lower: Vec<PathBuf> = between.map(|(place, _)| Path::new(place).join(name)).chain([low.clone()]).collect();
                self.overlay(&lower, &upper.join(name), &work.join(name), &to, Otherwise::Instead(2))?;
            }
            // Some file systems cannot be below an overlay: then there is no layer, and nothing can be written.
            self.add("protect a folder of the host's", Act::ReadOnly { path: text(&low)? }, Otherwise::GoOn);
            self.shift(&low, &to, Otherwise::GoOn)?;
        }
        Ok(())
    }

    /// Folders of the host's that this node gets.
    fn mounts(&mut self, mounts: &[PathBuf], root: &Path) -> Result<(), StartError> {
        for (number, to) in mounts.iter().enumerate() {
            let to = root.join(to.strip_prefix("/").unwrap_or(to));
            let how = libc::MS_BIND | libc::MS_REC;
            self.mount("show a folder of the host's", shared(number), &to, c"", how, b"", Otherwise::Fail)?;
            self.add("protect a folder of the host's", Act::ReadOnly { path: text(&to)? }, Otherwise::GoOn);
        }
        Ok(())
    }

    /// What is done once for all nodes: what they need of the host's files goes below an empty root.
    /// `mounts`: folders that they get.
    pub fn base(layout: &Layout, mounts: &[PathBuf]) -> Result<Steps, StartError> {
        let nowhere = StartError::Step { step: "find a folder to build the nodes' files in (/tmp)", errno: Errno(libc::ENOENT) };
        let stage = STAGES.iter().map(Path::new).find(|stage| stage.is_dir()).ok_or(nowhere)?;
        let [host, low, node] = [HOST, LOW, NODE].map(|path| stage.join(&path[1..]));
        let mut steps = Steps::default();
        // MS_REC|MS_PRIVATE: nothing that is mounted is seen outside.
        steps.mount("keep the nodes' mounts to themselves", "", "/", c"", libc::MS_REC | libc::MS_PRIVATE, b"", Otherwise::Fail)?;
        steps.memory(stage, c"mode=755")?;
        for path in [&host, &low, &node] {
            steps.folder(path, 0o755)?;
        }
        let all = libc::MS_BIND | libc::MS_REC;
        steps.mount("show the host's files", "/", &host, c"", all, b"", Otherwise::Fail)?;
        // There, too, is what has just been mounted.
        let covered = stage.strip_prefix("/").unwrap_or(stage);
        steps.add("uncover the host's files", Act::Unmount { path: text(host.join(covered))? }, Otherwise::Fail);
        steps.add("enter the nodes' files", Act::Enter { path: text(stage)? }, Otherwise::Fail);
        let low = Path::new(LOW);
        steps.tree(layout)?;
        for folder in layout.folders.iter().filter(|folder| folder.kind != Kind::Empty) {
            steps.folder(&low.join(&folder.name), 0o755)?;
            let to = layout.place(folder).join(&folder.name);
            steps.mount("show a folder of the host's", on_host(&layout.base.join(&folder.name)), &to, c"", all, b"", Otherwise::Fail)?;
            // Whatever a link in a node leads to, nothing is written here.
            steps.add("protect a folder of the host's", Act::ReadOnly { path: text(&to)? }, Otherwise::Fail);
        }
        for name in DEVICES {
            let path = Path::new(TREE).join("dev").join(name);
            steps.mount("show a device", on_host(Path::new("/dev")).join(name), &path, c"", libc::MS_BIND, b"", Otherwise::GoOn)?;
        }
        // A new one can be mounted only where one is.
        steps.folder(&low.join("proc"), 0o755)?;
        steps.mount("show the host's /proc", on_host(Path::new("/proc")), low.join("proc"), c"", all, b"", Otherwise::Fail)?;
        steps.folder(Path::new(SHARED), 0o755)?;
        for (number, folder) in mounts.iter().enumerate() {
            steps.folder(&shared(number), 0o755)?;
            steps.mount("show a folder of the host's", on_host(folder), shared(number), c"", all, b"", Otherwise::Fail)?;
            steps.add("protect a folder of the host's", Act::ReadOnly { path: text(shared(number))? }, Otherwise::Fail);
        }
        steps.folder(Path::new(SKELETON), 0o755)?;
        if layout.has_skeleton("etc") {
            steps.skeleton(Path::new(SKELETON))?;
        }
        steps.common(layout)?;
        steps.late(layout)?;
        steps.add("leave the host's files", Act::Unmount { path: text(HOST)? }, Otherwise::Fail);
        Ok(steps)
    }

    /// What is done for a folder that nodes get: the mount that comes along goes where they find it.
    pub fn attached(number: usize) -> Result<Steps, StartError> {
        let mut steps = Steps::default();
        steps.folder(&shared(number), 0o755)?;
        steps.add("mount a folder of the host's", Act::Attach { path: text(shared(number))? }, Otherwise::Fail);
        steps.add("protect a folder of the host's", Act::ReadOnly { path: text(shared(number))? }, Otherwise::Fail);
        Ok(steps)
    }

    /// What lays the node's own files over closed folders, as process 1 of the node sees them.
    pub fn layers(closed: &[OsString]) -> Result<Steps, StartError> {
        // Programs cannot take this folder away; it is covered for as long as nobody looks.
        let stage = Path::new("/proc");
        let mut steps = Steps::default();
        steps.memory(stage, c"mode=755")?;
        steps.folder(&stage.join("upper"), 0o755)?;
        steps.folder(&stage.join("work"), 0o755)?;
        for name in closed {
            let [low, upper, work] = [Path::new("/"), &stage.join("upper"), &stage.join("work")].map(|folder| folder.join(name));
            steps.folder(&upper, 0o755)?;
            steps.folder(&work, 0o755)?;
            steps.layers.push((steps.steps.len(), name.clone()));
            steps.overlay(std::slice::from_ref(&low), &upper, &work, &low, Otherwise::GoOn)?;
        }
        steps.add("hide the layers", Act::Unmount { path: text(stage)? }, Otherwise::Fail);
        Ok(steps)
    }

    /// Those of the host's folders over which these steps lay nothing, though that could be done.
    pub fn unlaid(&self) -> &Unlaid {
        &self.unlaid
    }

    /// `lower`: the uppermost first.
    fn overlay(&mut self, lower: &[PathBuf], upper: &Path, work: &Path, to: &Path, otherwise: Otherwise) -> Result<(), StartError> {
        let lower = lower.iter().map(|folder| escaped(folder)).collect::<Vec<_>>().join(&b':');
        let options = [&b"lowerdir="[..], &lower, b",upperdir=", &escaped(upper), b",workdir=", &escaped(work), b",userxattr"].concat();
        self.mount("lay the node's files over the host's", "weft", to, c"overlay", libc::MS_NOSUID, &options, otherwise)
    }

    /// Folders that nodes can change, and files that they have instead of the host's secrets.
    fn skeleton(&mut self, place: &Path) -> Result<(), StartError> {
        self.folder(place, 0o755)?;
        let at = |path: &Path| place.join(path.strip_prefix("/").unwrap_or(path));
        for folder in skeleton::folders() {
            self.folder(&at(&folder.path), folder.mode)?;
            if folder.empty {
                // Where a file system in memory knows no such thing, what others may not read is seen not to be readable.
                self.add("hide what is in a folder", Act::Opaque { path: text(at(&folder.path))? }, Otherwise::GoOn);
            }
        }
        for (file, names, rest) in [("shadow", "/etc/passwd", "*:19000:0:99999:7:::"), ("gshadow", "/etc/group", "*::")] {
            let text: Arc<[u8]> = skeleton::without_passwords(names, rest).into_bytes().into();
            self.file(&place.join("etc").join(file), Arc::clone(&text), 0o640)?;
            // The one before, which useradd(8) writes.
            self.file(&place.join("etc").join(format!("{file}-")), text, 0o600)?;
        }
        Ok(())
    }

    /// Files of all nodes, below their layers.
    fn common(&mut self, layout: &Layout) -> Result<(), StartError> {
        self.folder(Path::new(COMMON), 0o755)?;
        let place = PathBuf::from(COMMON);
        self.own_files(&layout.common, &[], &|_| &place, Path::new("/"), false)
    }

    fn add(&mut self, what: &'static str, act: Act, otherwise: Otherwise) {
        self.steps.push(Step { what, act, otherwise });
    }

    #[allow(clippy::too_many_arguments)] // those of mount(2)
    fn mount(
        &mut self,
        what: &'static str,
        from: impl AsRef<Path>,
        to: impl AsRef<Path>,
        kind: &'static CStr,
        flags: libc::c_ulong,
        data: &[u8],
        otherwise: Otherwise,
    ) -> Result<(), StartError> {
        let data = CString::new(data).map_err(|_| StartError::Step { step: what, errno: Errno(libc::EINVAL) })?;
        self.add(what, Act::Mount { from: text(from)?, to: text(to)?, kind, flags, data }, otherwise);
        Ok(())
    }

    /// A file system in memory.
    fn memory(&mut self, path: &Path, options: &CStr) -> Result<(), StartError> {
        let flags = libc::MS_NOSUID | libc::MS_NODEV;
        self.mount("mount a file system in memory", "weft", path, c"tmpfs", flags, options.to_bytes(), Otherwise::Fail)
    }

    fn folder(&mut self, path: &Path, mode: libc::mode_t) -> Result<(), StartError> {
        self.add("make a folder", Act::Folder { path: text(path)?, mode }, Otherwise::Fail);
        Ok(())
    }

    fn file(&mut self, path: &Path, contents: Arc<[u8]>, mode: libc::mode_t) -> Result<(), StartError> {
        self.add("write a file of the node's", Act::File { path: text(path)?, contents, mode }, Otherwise::Fail);
        Ok(())
    }

    /// Files of the node's own, and where folders are mounted. `again`: what is on its disk is there already, and perhaps changed.
    /// `at`: where what begins with a name is written.
    fn own_files<'p>(
        &mut self,
        own: &[OwnFile],
        mounts: &[PathBuf],
        at: &dyn Fn(&OsStr) -> &'p PathBuf,
        root: &Path,
        again: bool,
    ) -> Result<(), StartError> {
        let mut made = BTreeSet::new();
        for file in own {
            let fresh = !again || FRESH.iter().any(|(name, _)| first_of(&file.path).is_some_and(|first| first == *name));
            let path = self.place(&file.path, at, root, fresh.then_some(&mut made))?;
            if fresh {
                self.file(&path, Arc::clone(&file.contents), if file.executable { 0o755 } else { 0o644 })?;
            }
        }
        for to in mounts {
            let path = self.place(to, at, root, Some(&mut made))?;
            self.folder(&path, 0o755)?;
        }
        Ok(())
    }

    /// Makes the folders above a path of the node's that are not among `made` (none: they are there, or programs have taken them away); says where that is now.
    fn place<'p>(
        &mut self,
        path: &Path,
        at: &dyn Fn(&OsStr) -> &'p PathBuf,
        root: &Path,
        mut made: Option<&mut BTreeSet<PathBuf>>,
    ) -> Result<PathBuf, StartError> {
        let mut parts = path.components();
        let absolute = parts.next() == Some(Component::RootDir);
        let parts: Vec<_> = parts.collect();
        if !absolute || parts.is_empty() || parts.iter().any(|part| !matches!(part, Component::Normal(_))) {
            return Err(StartError::Step {
                step: "write a file of the node's whose path is not absolute, or has '..' in it",
                errno: Errno(libc::EINVAL),
            });
        }
        let first = parts[0].as_os_str();
        let mut place = at(first).clone();
        for part in &parts[..parts.len() - 1] {
            place.push(part);
            if !NEW.iter().any(|(new, _)| place == root.join(new)) && made.as_mut().is_some_and(|made| made.insert(place.clone())) {
                self.folder(&place, 0o755)?;
            }
        }
        place.push(parts[parts.len() - 1]);
        Ok(place)
    }

    fn proc(&mut self, root: &Path) -> Result<(), StartError> {
        let proc = root.join("proc");
        let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
        self.mount("mount /proc", "proc", &proc, c"proc", flags, b"", Otherwise::Instead(1))?;
        // In some containers no new one may be mounted.
        self.mount("show the host's /proc", Path::new(LOW).join("proc"), &proc, c"", libc::MS_BIND | libc::MS_REC, b"", Otherwise::Fail)?;
        // Where layers are laid later.
        self.folder(&root.join("run/weft"), 0o555)
    }

    /// The list as the process that performs it reads it ([`abi::Step`]).
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; abi::steps_at(self.steps.len())];
        bytes[..4].copy_from_slice(&(self.steps.len() as u32).to_ne_bytes());
        bytes[4..8].copy_from_slice(&NOT_BEGUN.to_ne_bytes());
        self.steps.iter().for_each(|step| step.encode(&mut bytes));
        bytes
    }

    /// The results that a list has got: the number of steps, that of the namespaces, then one for each step.
    fn results(&self, list: &OwnedFd) -> Result<Vec<i32>, Undone> {
        let mut bytes = vec![0; 4 * (self.steps.len() + 2)];
        // SAFETY: a buffer of ours.
        let read = unsafe { libc::pread(list.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        if read != bytes.len() as isize {
            return Err(("read what became of a node's files".to_owned(), libc::EIO));
        }
        Ok(bytes.chunks_exact(4).map(|word| i32::from_ne_bytes([word[0], word[1], word[2], word[3]])).collect())
    }

    /// The folders over which the kernel has laid nothing, with why.
    fn refused(&self, results: &[i32]) -> Vec<(OsString, Errno)> {
        let of = |step: &usize| results.get(2 + step).copied().unwrap_or(libc::EIO);
        self.layers.iter().filter(|(step, _)| of(step) != 0).map(|(step, name)| (name.clone(), Errno(of(step)))).collect()
    }

    /// Looks at the results that a list has got: remembers what the kernel has refused, for the nodes that follow. On failure: the step and errno.
    pub fn learn(&self, list: &OwnedFd, layout: &Layout) -> Result<(), Undone> {
        let results = self.results(list)?;
        let refused = self.refused(&results);
        if !refused.is_empty() {
            layout.refused.lock().unwrap_or_else(PoisonError::into_inner).extend(refused.into_iter().map(|(name, _)| name));
        }
        // Why nobody has begun, whoever asked is told.
        if results[1] == NOT_BEGUN { Ok(()) } else { self.judged(&results) }
    }

    fn judged(&self, results: &[i32]) -> Result<(), Undone> {
        if results[1] != 0 {
            return Err(("make the namespaces of a node".to_owned(), results[1]));
        }
        let failed = self.steps.iter().zip(&results[2..]).find(|(step, result)| step.otherwise == Otherwise::Fail && **result != 0);
        failed.map_or(Ok(()), |(step, errno)| Err((step.tried(), *errno)))
    }

    /// What became of [`Steps::layers`]: the folders that have none, with why. On failure: the step and errno.
    pub fn laid(&self, list: &OwnedFd) -> Result<Vec<(OsString, Errno)>, Undone> {
        let results = self.results(list)?;
        self.judged(&results).map(|()| self.refused(&results))
    }
}

impl Step {
    /// What it is for, with the path in the node where that is somebody's own.
    fn tried(&self) -> String {
        let (Act::File { path, .. } | Act::Folder { path, .. } | Act::Link { path, .. }) = &self.act else { return self.what.to_owned() };
        let path = path.to_string_lossy();
        let places = [format!("{NODE}/upper"), format!("{NODE}/root"), TREE.to_owned(), COMMON.to_owned()];
        let own = places.iter().find_map(|place| path.strip_prefix(place.as_str())).unwrap_or(&path);
        format!("{} ({own})", self.what)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let (kind, number, texts): (u32, u64, [&[u8]; 4]) = match &self.act {
            Act::Folder { path, mode } => (abi::STEP_FOLDER, (*mode).into(), [path.as_bytes_with_nul(), b"", b"", b""]),
            Act::File { path, contents, mode } => (abi::STEP_FILE, (*mode).into(), [path.as_bytes_with_nul(), contents, b"", b""]),
            Act::Link { to, path } => (abi::STEP_LINK, 0, [to.as_bytes_with_nul(), path.as_bytes_with_nul(), b"", b""]),
            Act::Mount { from, to, kind, flags, data } => (
                abi::STEP_MOUNT,
                *flags,
                [from.as_bytes_with_nul(), to.as_bytes_with_nul(), kind.to_bytes_with_nul(), data.as_bytes_with_nul()],
            ),
            Act::ReadOnly { path } => (abi::STEP_READ_ONLY, 0, [path.as_bytes_with_nul(), b"", b"", b""]),
            Act::Enter { path } => (abi::STEP_ENTER, 0, [path.as_bytes_with_nul(), b"", b"", b""]),
            Act::Unmount { path } => (abi::STEP_UNMOUNT, 0, [path.as_bytes_with_nul(), b"", b"", b""]),
            Act::Cover { path } => (abi::STEP_COVER, 0, [path.as_bytes_with_nul(), b"", b"", b""]),
            Act::Attach { path } => (abi::STEP_ATTACH, 0, [path.as_bytes_with_nul(), b"", b"", b""]),
            Act::Opaque { path } => (abi::STEP_OPAQUE, 0, [path.as_bytes_with_nul(), b"", b"", b""]),
            Act::Keep { path } => (abi::STEP_KEEP, 0, [path.as_bytes_with_nul(), b"", b"", b""]),
        };
        let otherwise = match self.otherwise {
            Otherwise::Fail => abi::OTHERWISE_FAIL,
            Otherwise::GoOn => abi::OTHERWISE_GO_ON,
            Otherwise::Instead(steps) => abi::OTHERWISE_INSTEAD + steps as u32,
        };
        let bytes = (size_of::<abi::Step>() + texts.iter().map(|text| text.len()).sum::<usize>()).next_multiple_of(8);
        let end = out.len() + bytes;
        for word in [bytes as u32, kind, otherwise, 0] {
            out.extend_from_slice(&word.to_ne_bytes());
        }
        out.extend_from_slice(&number.to_ne_bytes());
        texts.iter().for_each(|text| out.extend_from_slice(&(text.len() as u32).to_ne_bytes()));
        texts.iter().for_each(|text| out.extend_from_slice(text));
        out.resize(end, 0);
    }
}
