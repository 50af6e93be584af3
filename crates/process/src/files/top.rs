//! What is `/` of a node: a file system in memory with the folders of the top level, on which everything else is mounted.
//!
//! Hardly a program writes to it. So the nursery makes one for all nodes, to be read only, with all that is the same for them mounted already: process 1 of a node
//! has to add what is the node's. A node whose own files are to be there has its own from the beginning; the others get one when a program wants to write there.

use super::super::error::StartError;
use super::layout::{Kind, Layout};
use super::places::{BARE, DEVICE_LINKS, DEVICES, FRESH, NEW, OF_SYS, OWN, SYS_LINKS, TREE, is_new, text};
use super::steps::{Act, Otherwise, Steps};
use super::unlaid::Top;
use super::wanted::OwnDisk;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

impl Steps {
    /// The folders and links of the top level. `again`: they are there, or programs have taken them away; what is mounted needs a place.
    pub(super) fn at_top(&mut self, root: &Path, top: &Top, again: bool) -> Result<(), StartError> {
        for (name, mode) in NEW {
            self.folder(&root.join(name), mode)?;
        }
        for (name, to) in top.links.iter().filter(|_| !again) {
            self.add("make a link", Act::Link { to: text(to)?, path: text(root.join(name))? }, Otherwise::Fail);
        }
        for name in SYS_LINKS.iter().filter(|_| !again) {
            let to = Path::new(OF_SYS).join(name);
            self.add("make a link", Act::Link { to: text(to)?, path: text(root.join("sys").join(name))? }, Otherwise::Fail);
        }
        let folders = if again { &top.mounted } else { &top.folders };
        folders.iter().try_for_each(|name| self.folder(&root.join(name), 0o755))
    }

    /// What all nodes see until they have their own.
    pub(super) fn tree(&mut self, layout: &Layout) -> Result<(), StartError> {
        let tree = Path::new(TREE);
        self.folder(tree, 0o755)?;
        self.memory(tree, c"mode=755")?;
        self.at_top(tree, &layout.top, false)?;
        self.device_files(&tree.join("dev"))?;
        self.add("protect what all nodes see", Act::ReadOnly { path: text(tree)? }, Otherwise::Fail);
        Ok(())
    }

    /// `/dev`, without devices.
    pub(super) fn device_files(&mut self, dev: &Path) -> Result<(), StartError> {
        for name in DEVICES {
            self.file(&dev.join(name), Arc::from(&b""[..]), 0o666)?;
        }
        for (name, to) in DEVICE_LINKS {
            self.add("make a link", Act::Link { to: text(to)?, path: text(dev.join(name))? }, Otherwise::Fail);
        }
        self.folder(&dev.join("shm"), 0o1777)?;
        self.folder(&dev.join("pts"), 0o755)
    }

    /// `/dev` of the node's own, with the devices of another.
    pub(super) fn devices(&mut self, from: &Path, dev: &Path) -> Result<(), StartError> {
        self.device_files(dev)?;
        DEVICES.iter().try_for_each(|name| self.shift(&from.join(name), &dev.join(name), Otherwise::GoOn))
    }

    /// A mount gets another place.
    pub(super) fn shift(&mut self, from: &Path, to: &Path, otherwise: Otherwise) -> Result<(), StartError> {
        self.mount("move a mount", from, to, c"", libc::MS_MOVE, b"", otherwise)
    }

    /// What every node has for itself, where it is seen.
    pub(super) fn own_folders(&mut self, stage: &Path, root: &Path) -> Result<(), StartError> {
        for (name, to, mode) in OWN {
            let from = stage.join(name);
            self.folder(&from, mode)?;
            self.mount("give a folder to the node", &from, root.join(to), c"", libc::MS_BIND, b"", Otherwise::Fail)?;
        }
        Ok(())
    }

    /// A `/` of the node's own, on its disk; `deep`: folders that must be there, too.
    pub(super) fn own_top(
        &mut self,
        stage: &Path,
        deep: &BTreeSet<&OsStr>,
        layout: &Layout,
        disk: OwnDisk<'_>,
    ) -> Result<PathBuf, StartError> {
        let root = stage.join("root");
        self.folder(&root, 0o755)?;
        // A mount of its own, that it can become `/`.
        self.mount("make a root for the node", &root, &root, c"", libc::MS_BIND, b"", Otherwise::Fail)?;
        let again = disk.before.is_some();
        self.at_top(&root, &layout.top, again)?;
        if disk.kept {
            FRESH.iter().try_for_each(|(name, mode)| self.memory(&root.join(name), mode))?;
        }
        for name in deep.iter().filter(|name| !again && !name.to_str().is_some_and(is_new)) {
            self.folder(&root.join(name), 0o755)?;
        }
        self.devices(&Path::new(TREE).join("dev"), &root.join("dev"))?;
        for folder in layout.folders.iter().filter(|folder| matches!(folder.kind, Kind::Closed | Kind::Late)) {
            self.shift(&Path::new(TREE).join(&folder.name), &root.join(&folder.name), Otherwise::Fail)?;
        }
        Ok(root)
    }

    pub(super) fn terminals(&mut self, root: &Path) -> Result<(), StartError> {
        let data = b"newinstance,ptmxmode=0666,mode=620";
        let flags = libc::MS_NOSUID | libc::MS_NOEXEC;
        self.mount("mount terminals", "devpts", root.join("dev/pts"), c"devpts", flags, data, Otherwise::GoOn)
    }

    /// What gives a node that has begun a `/` of its own, as its process 1 sees that. Whoever has the one before as root or working directory is led to this one.
    pub fn whole(top: &Top) -> Result<Steps, StartError> {
        let (old, new) = (Path::new("/"), Path::new(BARE));
        let mut steps = Steps::default();
        steps.memory(new, c"mode=755")?;
        steps.at_top(new, top, false)?;
        steps.devices(&old.join("dev"), &new.join("dev"))?;
        steps.shift(&old.join("dev/pts"), &new.join("dev/pts"), Otherwise::GoOn)?;
        let own = OWN.iter().map(|(_, to, _)| Path::new(to));
        for name in top.mounted.iter().map(Path::new).chain(own).chain([Path::new("proc")]) {
            steps.shift(&old.join(name), &new.join(name), Otherwise::Fail)?;
        }
        steps.add("enter the node's files", Act::Enter { path: text(new)? }, Otherwise::Fail);
        Ok(steps)
    }
}
