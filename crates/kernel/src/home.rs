//! The folder that a kernel runs in: its sockets, its plan, what its programs read and write. In memory, and gone with the kernel.

use std::io;
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use weft_intercept::process::OwnFile;

/// Where memory is a folder.
const MEMORY: &str = "/dev/shm";
const PREFIX: &str = "weft-kernel-";
/// The plan of its process 1, and what that answers.
const PLAN: &str = "plan";
const STATUS: &str = "status";
/// What it and its process 1 say.
const CONSOLE: &str = "console";

/// A kernel's folder.
#[derive(Debug)]
pub(crate) struct Home {
    path: PathBuf,
}

static NUMBER: AtomicU64 = AtomicU64::new(0);

impl Home {
    /// A new one. What runs left that were killed is taken away.
    pub fn new() -> io::Result<Home> {
        let shared = Path::new(MEMORY);
        let parent = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
        sweep(&parent);
        let path = parent.join(format!("{PREFIX}{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed)));
        std::fs::DirBuilder::new().mode(0o700).create(&path)?;
        let home = Home { path };
        ["node", "own"].into_iter().try_for_each(|name| std::fs::create_dir(home.path.join(name)))?;
        Ok(home)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
    /// A file that its process 1 sees as well.
    pub fn of_node(&self, name: &str) -> PathBuf {
        self.path.join("node").join(name)
    }
    pub fn status(&self) -> PathBuf {
        self.of_node(STATUS)
    }
    pub fn console(&self) -> PathBuf {
        self.path.join(CONSOLE)
    }
    pub fn write_plan(&self, plan: &[u8]) -> io::Result<()> {
        std::fs::write(self.of_node(PLAN), plan)
    }

    /// A folder of the host's, by a name that is the same in every run.
    pub fn lead(&self, name: &str, to: &Path) -> io::Result<()> {
        symlink(to, self.path.join(name))
    }

    /// A file that lies over those of the host.
    pub fn lay(&self, file: &OwnFile) -> io::Result<()> {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.path.join("own").join(file.path.strip_prefix("/").unwrap_or(&file.path));
        path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        std::fs::write(&path, &file.contents)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(if file.executable { 0o755 } else { 0o644 }))
    }

    /// A folder that lies over the host's, or where it has none.
    pub fn lay_folder(&self, path: &Path) -> io::Result<()> {
        std::fs::create_dir_all(self.path.join("own").join(path.strip_prefix("/").unwrap_or(path)))
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            tracing::warn!("cannot remove {}: {error}", self.path.display());
        }
    }
}

/// Takes away the folders of processes that are no more.
fn sweep(parent: &Path) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next()?.parse::<u32>().ok());
        if owner.is_some_and(|owner| !Path::new(&format!("/proc/{owner}")).exists()) {
            // Somebody else's cannot be removed, and is somebody else's to remove.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}
