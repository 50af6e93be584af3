//! Folders that are there as long as the process that made them: whoever comes next takes away what killed ones have left.
//!
//! A lock (flock(2)) says that somebody has one. Its process's number does not: processes of another PID namespace may have the same place for such
//! folders, a container's /dev/shm or a home, and see none of each other's.

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// How often a new folder is made that somebody takes for one that was left: between two calls, so once is rare.
const TRIES_MAX: u32 = 100;

/// A folder of this process's.
#[derive(Debug)]
pub(crate) struct Held {
    path: PathBuf,
    /// None: the file system has no locks, and nobody can take the folder for one that was left.
    _lock: Option<OwnedFd>,
}

impl Held {
    /// A new one, whose name begins with [`stem`].
    pub fn new(parent: &Path, prefix: &str, mode: u32) -> io::Result<Held> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let stem = stem(prefix)?;
        for _ in 0..TRIES_MAX {
            let path = parent.join(format!("{stem}-{}", NUMBER.fetch_add(1, Ordering::Relaxed)));
            std::fs::DirBuilder::new().mode(mode).create(&path)?;
            match lock(&path) {
                Ok(lock) if path.is_dir() => return Ok(Held { path, _lock: Some(lock) }),
                // BADF: NFS, which makes a lock for writing of it (fs/nfs/file.c, nfs_flock; do_setlk).
                Err(Errno::OPNOTSUPP | Errno::NOLCK | Errno::BADF | Errno::INVAL) => return Ok(Held { path, _lock: None }),
                // Somebody has just taken it away, or does so.
                Ok(_) | Err(Errno::WOULDBLOCK | Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::Error::other(format!("somebody takes every new folder {}-* away", parent.join(stem).display())))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// What the names of this process's folders begin with, and no other's.
pub(crate) fn stem(prefix: &str) -> io::Result<String> {
    static RANDOM: OnceLock<u64> = OnceLock::new();
    let mut bytes = [0_u8; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(format!("{prefix}{}-{:016x}", std::process::id(), RANDOM.get_or_init(|| u64::from_ne_bytes(bytes))))
}

/// Takes away the folders in `parent` whose names begin so, and that nobody holds. Somebody else's cannot be removed, and is somebody else's to remove.
///
/// # Errors
/// One of this user's cannot be removed.
pub(crate) fn sweep(parent: &Path, prefix: &str) -> io::Result<()> {
    let entries = match std::fs::read_dir(parent) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries.flatten() {
        let is_one = entry.file_name().to_str().is_some_and(|name| name.starts_with(prefix));
        if is_one && let Ok(_lock) = lock(&entry.path()) {
            match std::fs::remove_dir_all(entry.path()) {
                Err(error) if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => return Err(error),
                _ => {}
            }
        }
    }
    Ok(())
}

/// A folder's lock.
fn lock(path: &Path) -> rustix::io::Result<OwnedFd> {
    let folder = rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive)?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn what_nobody_holds_is_swept_and_nothing_else() {
        let parent = std::env::temp_dir().join(format!("weft-held-{}", std::process::id()));
        std::fs::create_dir_all(&parent).unwrap();
        let held = Held::new(&parent, "kernel-", 0o700).unwrap();
        // One of a process of this number in another namespace, one of a number that lives, and others' folders.
        let strangers = [format!("kernel-{}-0123456789abcdef-0", std::process::id()), "kernel-1-0".to_owned()];
        for name in strangers.iter().map(String::as_str).chain(["kernels", "other"]) {
            std::fs::create_dir(parent.join(name)).unwrap();
            std::fs::write(parent.join(name).join("file"), "").unwrap();
        }
        let there = || -> BTreeSet<PathBuf> { std::fs::read_dir(&parent).unwrap().map(|entry| entry.unwrap().path()).collect() };
        let others = ["kernels", "other"].map(|name| parent.join(name));
        sweep(&parent, "kernel-").unwrap();
        assert_eq!(there(), others.iter().cloned().chain([held.path().to_owned()]).collect());
        drop(held);
        sweep(&parent, "kernel-").unwrap();
        assert_eq!(there(), others.into());
        std::fs::remove_dir_all(&parent).unwrap();
        sweep(&parent, "kernel-").unwrap();
    }

    #[test]
    fn whoever_sweeps_all_the_time_takes_no_folder_that_is_held() {
        let parent = std::env::temp_dir().join(format!("weft-held-race-{}", std::process::id()));
        std::fs::create_dir_all(&parent).unwrap();
        let over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    sweep(&parent, "kernel-").unwrap();
                }
            });
            let all: Vec<Held> = (0..500).map(|_| Held::new(&parent, "kernel-", 0o700).unwrap()).collect();
            over.store(true, Ordering::Relaxed);
            assert!(all.iter().all(|held| held.path().is_dir()));
            assert_eq!(all.iter().map(Held::path).collect::<BTreeSet<_>>().len(), all.len());
        });
        std::fs::remove_dir_all(&parent).unwrap();
    }
}
