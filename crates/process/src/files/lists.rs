//! The lists of steps: what is done once for all nodes, what makes the files of one, and what lays those of its own that come later.

use super::super::error::StartError;
use super::layers::Layer;
use super::layout::{Folder, Kind, Layout};
use super::places::{COMMON, DEVICES, FRESH, HOST, LOW, NEW, NODE, SHARED, SKELETON, TREE, first_of, on_host, shared, text};
use super::skeleton;
use super::steps::{Act, Otherwise, Steps};
use super::wanted::{Files, OwnDisk, OwnFile};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use weft_intercept::sys::Errno;

/// Folders in which the nursery's own root is built; the first that is there is taken.
const STAGES: [&str; 4] = ["/tmp", "/mnt", "/srv", "/var/tmp"];

impl Steps {
    /// Prepares what makes these files.
    ///
    /// # Errors
    /// A file's path is not absolute.
    pub fn new(files: &Files, layout: &Layout, disk: OwnDisk<'_>) -> Result<Steps, StartError> {
        let stage = PathBuf::from(NODE);
        let mut steps = Steps::default();
        let (upper, work) = (stage.join("upper"), stage.join("work"));
        let again = disk.before.is_some();
        if again {
            steps.add("put a node's disk in its place", Act::Attach { path: text(&stage)? }, Otherwise::Fail);
        } else {
            steps.memory(&stage, c"mode=755")?;
        }
        if disk.kept {
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
            Kind::Closed | Kind::Late if disk.kept || firsts.contains(&*folder.name) => Kind::Open,
            Kind::Late if layout.is_refused(&folder.name) => Kind::Open,
            kind => kind,
        };
        let layered: Vec<(&OsStr, Kind)> = layout.folders.iter().map(|folder| (&*folder.name, kind(folder))).collect();
        [&upper, &work].iter().try_for_each(|path| steps.folder(path, 0o755))?;
        let whole = disk.kept || firsts.iter().any(|first| !layout.is_below(first));
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
        let writable: Vec<bool> = files.mounts.iter().map(|mount| mount.writable).collect();
        steps.mounts(&mounts, &writable, [&upper, &work, &root])?;
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

    /// Folders of the host's that this node gets; over those that are writable it has a layer of its own, where the kernel lays one.
    fn mounts(&mut self, mounts: &[PathBuf], writable: &[bool], [upper, work, root]: [&Path; 3]) -> Result<(), StartError> {
        for (number, (to, writable)) in mounts.iter().zip(writable).enumerate() {
            let below = to.strip_prefix("/").unwrap_or(to);
            let [to, upper, work] = [root, upper, work].map(|folder| folder.join(below));
            if *writable {
                [&upper, &work].iter().try_for_each(|path| self.folder(path, 0o755))?;
                self.overlay(&[shared(number)], &upper, &work, &to, Otherwise::Instead(2))?;
            }
            let how = libc::MS_BIND | libc::MS_REC;
            self.mount("show a folder of the host's", shared(number), &to, c"", how, b"", Otherwise::Fail)?;
            self.add("protect a folder of the host's", Act::ReadOnly { path: text(&to)? }, Otherwise::Fail);
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
        for (path, contents, mode) in skeleton::secrets() {
            self.file(&at(&path), contents, mode)?;
        }
        Ok(())
    }

    /// Files of all nodes, below their layers.
    fn common(&mut self, layout: &Layout) -> Result<(), StartError> {
        self.folder(Path::new(COMMON), 0o755)?;
        let place = PathBuf::from(COMMON);
        self.own_files(&layout.common, &[], &|_| &place, Path::new("/"), false)
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
}
