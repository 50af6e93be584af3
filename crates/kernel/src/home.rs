//! The folder that a kernel runs in: its sockets, its plan, what its programs read and write. In memory, and gone with the kernel.

use crate::held::{Held, stem, sweep};
use rustix::fs::{AtFlags, Mode, OFlags, Timespec, Timestamps};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{PermissionsExt as _, lchown, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;
use weft_process::OwnFile;

/// Where memory is a folder.
const MEMORY: &str = "/dev/shm";
const PREFIX: &str = "weft-kernel-";
/// The plan of its process 1, and what that answers.
const PLAN: &str = "plan";
const STATUS: &str = "status";
/// What it and its process 1 say.
const CONSOLE: &str = "console";

/// Links that a path may lead through, as in the kernel.
const LINKS_MAX: usize = 40;
/// The size of a file that somebody else writes and weft reads as a whole.
pub(crate) const FILE_BYTES_MAX: u64 = 64 << 20;

/// Where a kernel that counts writes its counts (gcov), below its own folder.
pub(crate) const COVERAGE: &str = "coverage";

/// A kernel's folder. The guest's root can write there, and put links and fifos where weft looks for files: all that a guest may have changed is opened by
/// the folders as they were in the beginning, and as a regular file or not at all.
#[derive(Debug)]
pub(crate) struct Home {
    held: Held,
    node: OwnedFd,
    coverage: OwnedFd,
    status: File,
}

impl Home {
    /// A new one. What runs left that were killed is taken away.
    pub fn new() -> io::Result<Home> {
        let shared = Path::new(MEMORY);
        let parent = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
        // What cannot be taken away is in nobody's way.
        let _ = sweep(&parent, PREFIX);
        let held = Held::new(&parent, PREFIX, 0o700).map_err(about(&parent))?;
        let path = held.path().to_owned();
        watch_over(&parent)?;
        ["node", "own", COVERAGE].into_iter().try_for_each(|name| folder(&path.join(name)))?;
        let open = |name: &str| rustix::fs::open(path.join(name), OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let (node, coverage) = (open("node")?, open(COVERAGE)?);
        let status = path.join("node").join(STATUS);
        let status = File::options().read(true).write(true).create_new(true).open(&status).map_err(about(&status))?;
        Ok(Home { held, node, coverage, status })
    }

    pub fn path(&self) -> &Path {
        self.held.path()
    }
    /// A file that its process 1 sees as well.
    pub fn of_node(&self, name: &str) -> PathBuf {
        self.path().join("node").join(name)
    }
    /// What its process 1 says: looked at whenever the kernel has run, so it is open all the time.
    pub fn status(&self) -> &File {
        &self.status
    }
    /// What its process 1 has seen of connections.
    pub fn samples(&self) -> io::Result<Option<File>> {
        self.open("samples")
    }
    /// A file of the node's that somebody in it has written; none: there is none.
    pub fn open(&self, name: &str) -> io::Result<Option<File>> {
        match regular(&self.node, name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => match rustix::fs::fstat(&self.node)?.st_nlink {
                0 => Err(io::Error::other(format!("somebody has removed {} while its kernel ran", self.path().display()))),
                _ => Ok(None),
            },
            other => other.map(Some),
        }
    }
    /// What it says goes there, and is read from there.
    pub fn make_console(&self) -> io::Result<File> {
        let path = self.path().join(CONSOLE);
        File::options().read(true).write(true).create_new(true).open(&path).map_err(about(&path))
    }
    /// What it counted: names of files, and their contents, in the order of their names. Nobody of the guest's is there any more.
    pub fn counted(&self) -> io::Result<BTreeMap<PathBuf, Vec<u8>>> {
        fn gather(top: &Path, below: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) -> io::Result<()> {
            for entry in std::fs::read_dir(top.join(below))? {
                let (entry, name) = entry.map(|entry| (entry.file_type(), below.join(entry.file_name())))?;
                if entry?.is_dir() {
                    gather(top, &name, found)?;
                    continue;
                }
                let mut bytes = Vec::new();
                regular(rustix::fs::CWD, top.join(&name))?.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
                found.insert(name, bytes);
            }
            Ok(())
        }
        let mut found = BTreeMap::new();
        gather(Path::new(&format!("/proc/self/fd/{}", self.coverage.as_raw_fd())), Path::new(""), &mut found)?;
        Ok(found)
    }
    pub fn write_plan(&self, plan: &[u8]) -> io::Result<()> {
        std::fs::write(self.of_node(PLAN), plan)
    }

    /// A folder of the host's, by a name that is the same in every run.
    pub fn lead(&self, name: &str, to: &Path) -> io::Result<()> {
        symlink(to, self.path().join(name))
    }

    /// A file that lies over those of the host. `root`: where those are.
    pub fn lay(&self, file: &OwnFile, root: &Path) -> io::Result<()> {
        let place = resolved(root, &file.path);
        let path = self.path().join("own").join(&place);
        place.parent().map_or(Ok(()), |parent| self.make(parent))?;
        std::fs::write(&path, &file.contents).map_err(about(&file.path))?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(if file.executable { 0o755 } else { 0o644 }))
    }

    /// Folders below `own`, whatever the umask is.
    fn make(&self, place: &Path) -> io::Result<()> {
        let mut path = self.path().join("own");
        for part in place {
            path.push(part);
            if !path.is_dir() {
                folder(&path)?;
            }
        }
        Ok(())
    }

    /// What lies over the host's files was made when the node booted: the time of the host's would be another in every run. `at`: since 1970.
    pub fn date(&self, at: Duration) -> io::Result<()> {
        fn date(path: &Path, times: &Timestamps) -> io::Result<()> {
            if path.symlink_metadata()?.is_dir() {
                std::fs::read_dir(path)?.try_for_each(|entry| date(&entry?.path(), times))?;
            }
            Ok(rustix::fs::utimensat(rustix::fs::CWD, path, times, AtFlags::SYMLINK_NOFOLLOW)?)
        }
        let time = Timespec { tv_sec: i64::try_from(at.as_secs()).unwrap_or(i64::MAX), tv_nsec: at.subsec_nanos().into() };
        date(&self.path().join("own"), &Timestamps { last_access: time, last_modification: time })
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
        give(self.path(), user)
    }

    /// A folder that lies over the host's, or where it has none.
    pub fn lay_folder(&self, path: &Path, root: &Path) -> io::Result<()> {
        self.make(&resolved(root, path))
    }
}

/// The file that an error is about.
fn about(path: &Path) -> impl FnOnce(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// A folder that everybody may look into, whatever the umask is.
fn folder(path: &Path) -> io::Result<()> {
    std::fs::create_dir(path).and_then(|()| std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))).map_err(about(path))
}

/// A regular file, to read: no link is followed at its end, and no fifo waited for.
fn regular(folder: impl std::os::fd::AsFd, name: impl AsRef<Path>) -> io::Result<File> {
    let name = name.as_ref();
    let strange =
        || io::Error::other(format!("'{}' in its kernel's folder is no file: somebody in it has put something else there", name.display()));
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(folder, name, flags, Mode::empty()).map_err(|error| match error {
        rustix::io::Errno::LOOP => strange(),
        other => other.into(),
    })?);
    if file.metadata()?.is_file() { Ok(file) } else { Err(strange()) }
}

/// Where a path leads below a root whose folders may be links (/bin is one to usr/bin): what lies over a link would hide all that it leads to. Relative to
/// the root; the last part is taken as it is.
fn resolved(root: &Path, path: &Path) -> PathBuf {
    let mut left: Vec<PathBuf> = vec![path.parent().unwrap_or(path).to_owned()];
    let (mut place, mut links) = (PathBuf::new(), 0);
    while let Some(path) = left.pop() {
        let mut parts = path.components();
        let Some(part) = parts.next() else { continue };
        left.push(parts.as_path().to_owned());
        match part {
            std::path::Component::RootDir => place = PathBuf::new(),
            std::path::Component::ParentDir => drop(place.pop()),
            std::path::Component::Normal(name) => match std::fs::read_link(root.join(&place).join(name)) {
                Ok(to) if links < LINKS_MAX => {
                    links += 1;
                    left.push(to);
                }
                _ => place.push(name),
            },
            std::path::Component::CurDir | std::path::Component::Prefix(_) => {}
        }
    }
    path.file_name().into_iter().for_each(|name| place.push(name));
    place
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
        command.arg(parent.join(stem(PREFIX)?)).env_clear().env("PATH", "/usr/bin:/bin").current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        *keeper = Some(command.spawn()?);
    }
    Ok(())
}

impl Drop for Home {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(self.path()) {
            tracing::warn!("cannot remove {}: {error}", self.path().display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_below_a_link_lies_where_it_leads() {
        let root = std::env::temp_dir().join(format!("weft-home-{}", std::process::id()));
        std::fs::create_dir_all(root.join("usr/bin")).unwrap();
        symlink("usr/bin", root.join("bin")).unwrap();
        symlink("/run", root.join("var")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        for (path, place) in [
            ("/bin/x", "usr/bin/x"),
            ("/var/a/b", "run/a/b"),
            ("/srv/x", "srv/x"),
            ("/loop/x", "loop/x"),
            ("/bin", "bin"),
            ("/bin/../x", "usr/x"),
        ] {
            assert_eq!(resolved(&root, Path::new(path)), Path::new(place), "{path}");
        }
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_folder_that_somebody_has_removed_is_told() {
        let home = Home::new().unwrap();
        std::fs::remove_dir_all(home.path()).unwrap();
        assert!(home.open("output.0").unwrap_err().to_string().contains("somebody has removed"));
    }

    #[test]
    fn what_a_guest_has_put_there_in_place_of_a_file_is_not_followed() {
        let home = Home::new().unwrap();
        assert!(home.open("output.0").unwrap().is_none());
        symlink("/etc/passwd", home.of_node("output.0")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, home.of_node("output.1"), rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
        std::fs::create_dir(home.of_node("output.2")).unwrap();
        for number in 0..3 {
            assert!(home.open(&format!("output.{number}")).is_err(), "{number}");
        }
        // The folder itself is another's now.
        std::fs::write(home.of_node("samples"), "its own").unwrap();
        std::fs::rename(home.path().join("node"), home.path().join("away")).unwrap();
        symlink("/etc", home.path().join("node")).unwrap();
        assert!(home.open("passwd").unwrap().is_none());
        assert!(home.samples().unwrap().is_some());
    }
}
