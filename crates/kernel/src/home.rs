//! The folder that a kernel runs in: its sockets, its plan, what its programs read and write. In memory, and gone with the kernel.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, lchown, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use weft_intercept::process::OwnFile;

/// Where memory is a folder.
const MEMORY: &str = "/dev/shm";
const PREFIX: &str = "weft-kernel-";
/// The plan of its process 1, and what that answers.
const PLAN: &str = "plan";
const STATUS: &str = "status";
/// What it and its process 1 say.
const CONSOLE: &str = "console";

/// Where a kernel that counts writes its counts (gcov), below its own folder.
pub(crate) const COVERAGE: &str = "coverage";

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
        watch_over(&parent)?;
        let home = Home { path };
        ["node", "own", COVERAGE].into_iter().try_for_each(|name| std::fs::create_dir(home.path.join(name)))?;
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
    pub fn samples(&self) -> PathBuf {
        self.of_node("samples")
    }
    pub fn console(&self) -> PathBuf {
        self.path.join(CONSOLE)
    }
    /// What it counted: names of files, and their contents, in the order of their names.
    pub fn counted(&self) -> io::Result<BTreeMap<PathBuf, Vec<u8>>> {
        fn gather(top: &Path, below: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) -> io::Result<()> {
            for entry in std::fs::read_dir(top.join(below))? {
                let (entry, name) = entry.map(|entry| (entry.file_type(), below.join(entry.file_name())))?;
                match entry?.is_dir() {
                    true => gather(top, &name, found)?,
                    false => drop(found.insert(name.clone(), std::fs::read(top.join(&name))?)),
                }
            }
            Ok(())
        }
        let mut found = BTreeMap::new();
        gather(&self.path.join(COVERAGE), Path::new(""), &mut found)?;
        Ok(found)
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

    /// All that is in it by now, and it itself, belongs to this user.
    pub fn give_to(&self, user: u32) -> io::Result<()> {
        fn give(path: &Path, user: u32) -> io::Result<()> {
            lchown(path, Some(user), Some(user))?;
            match path.symlink_metadata()?.is_dir() {
                true => std::fs::read_dir(path)?.try_for_each(|entry| give(&entry?.path(), user)),
                false => Ok(()),
            }
        }
        give(&self.path, user)
    }

    /// A folder that lies over the host's, or where it has none.
    pub fn lay_folder(&self, path: &Path) -> io::Result<()> {
        std::fs::create_dir_all(self.path.join("own").join(path.strip_prefix("/").unwrap_or(path)))
    }
}

/// What this process leaves when it is killed is taken away by one that it starts, and that ends when its standard input does.
fn watch_over(parent: &Path) -> io::Result<()> {
    static KEEPER: OnceLock<Mutex<Option<Child>>> = OnceLock::new();
    let mut keeper = KEEPER.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    if keeper.is_none() {
        let mut command = Command::new("/bin/sh");
        // Kernels that die meanwhile may write a last word.
        command
            .args(["-c", "cat; for n in 1 2 3 4 5 6 7 8 9; do rm -rf \"$0\"-*; set -- \"$0\"-*; [ -e \"$1\" ] || break; sleep 0.1; done"]);
        command.arg(parent.join(format!("{PREFIX}{}", std::process::id()))).env_clear().env("PATH", "/usr/bin:/bin").current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        *keeper = Some(command.spawn()?);
    }
    Ok(())
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
