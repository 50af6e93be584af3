//! Takes out of a node what its programs have written.
//!
//! A node sees the host's files below its own, so what is not the host's is told by comparing: the same number, size and time are the same file. Nothing is
//! followed on the way: a link in the node leads nowhere outside, and in the results there are none.

use super::files::{Mount, OwnFile, is_new, secrets};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, openat, readlinkat, statat};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Most that is taken of one node.
const BYTES_MAX: u64 = 4 << 30;
const FILES_MAX: u64 = 100_000;
/// So often one looks again.
const LOOKS: usize = 3;
/// Folders within folders that are looked at.
const DEPTH_MAX: usize = 64;
/// Nothing in them is a file that somebody has written.
const LEFT_OUT: [&str; 4] = ["/dev/pts", "/proc", "/sys", "/run/weft"];

/// Which files are wanted.
#[derive(Clone, Debug)]
pub struct Wanted {
    set: GlobSet,
    /// What each pattern begins with, up to its first folder with a wildcard in it.
    heads: Vec<PathBuf>,
}

impl Wanted {
    /// Absolute paths in a node, in which `*` stands for any text within a name and `**` for any folders.
    ///
    /// # Errors
    /// The pattern that is none, and why.
    pub fn new(patterns: &[String]) -> Result<Wanted, (String, String)> {
        let mut set = GlobSetBuilder::new();
        let mut heads = Vec::new();
        for pattern in patterns {
            let wrong = |why: String| (pattern.clone(), why);
            if !pattern.starts_with('/') {
                return Err(wrong("it does not begin with /".to_owned()));
            }
            set.add(GlobBuilder::new(pattern).literal_separator(true).build().map_err(|error| wrong(error.kind().to_string()))?);
            let fixed = Path::new(pattern).iter().take_while(|part| !part.as_bytes().iter().any(|byte| b"*?[{\\".contains(byte)));
            heads.push(fixed.collect());
        }
        let set = set.build().map_err(|error| (patterns.join(" "), error.kind().to_string()))?;
        Ok(Wanted { set, heads })
    }

    /// Places of the patterns that stand for none of these files.
    pub fn unmet(&self, files: &[TakenFile]) -> Vec<usize> {
        let met: BTreeSet<usize> = files.iter().flat_map(|file| self.set.matches(&file.path)).collect();
        (0..self.set.len()).filter(|place| !met.contains(place)).collect()
    }

    /// May something in this folder, or below it, be wanted?
    fn may_be_in(&self, folder: &Path) -> bool {
        self.heads.iter().any(|head| head.starts_with(folder) || folder.starts_with(head))
    }
}

/// A file that was taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TakenFile {
    /// In the node.
    pub path: PathBuf,
    /// Its size, bytes.
    pub bytes: u64,
    /// Where a symbolic link leads, which is told and not made.
    pub link: Option<PathBuf>,
}

/// What was taken.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Taken {
    /// In the order of their paths, folder by folder.
    pub files: Vec<TakenFile>,
    /// Files that were too many or too large, and folders that were too deep.
    pub left_out: u64,
}

/// A node, as it is found from outside.
#[derive(Clone, Copy, Debug)]
pub struct From<'a> {
    /// Its root.
    pub root: &'a Path,
    /// The folder of the host's that is below it.
    pub base: &'a Path,
    /// Folders of the host's in it.
    pub mounts: &'a [Mount],
    /// Files that it was given: they are taken only if they are others now.
    pub given: &'a [OwnFile],
}

/// Copies what is wanted into this folder, each file at its path.
///
/// # Errors
/// Something cannot be written. What cannot be read, because a program has taken it away from everybody, is left out.
pub fn collect(from: From<'_>, wanted: &Wanted, into: &Path) -> io::Result<Taken> {
    let top = rustix::fs::open(from.root, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut given: BTreeMap<PathBuf, Arc<[u8]>> =
        if from.base == Path::new("/") { secrets().map(|(path, contents, _)| (path, contents)).collect() } else { BTreeMap::new() };
    given.extend(from.given.iter().map(|file| (file.path.clone(), Arc::clone(&file.contents))));
    let mut walk = Walk { from, given, wanted, into, taken: Taken::default(), bytes: 0 };
    walk.folder(top, Path::new("/"), 0)?;
    Ok(walk.taken)
}

struct Walk<'a> {
    from: From<'a>,
    given: BTreeMap<PathBuf, Arc<[u8]>>,
    wanted: &'a Wanted,
    into: &'a Path,
    taken: Taken,
    bytes: u64,
}

impl Walk<'_> {
    fn folder(&mut self, folder: OwnedFd, path: &Path, depth: usize) -> io::Result<()> {
        for name in names(&folder) {
            let below = path.join(std::ffi::OsStr::from_bytes(name.as_bytes()));
            let Ok(found) = statat(&folder, &name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            match FileType::from_raw_mode(found.st_mode) {
                FileType::Directory => {
                    let skipped = LEFT_OUT.iter().any(|name| below == Path::new(name));
                    if skipped || !self.wanted.may_be_in(&below) || self.is_the_hosts(&below, &found) {
                        continue;
                    }
                    if depth >= DEPTH_MAX {
                        self.taken.left_out += 1;
                        continue;
                    }
                    if let Ok(next) = open(&folder, &name, OFlags::DIRECTORY) {
                        self.folder(next, &below, depth + 1)?;
                    }
                }
                kind @ (FileType::RegularFile | FileType::Symlink) if self.is_wanted(&folder, &name, &below, &found) => {
                    self.file(&folder, &name, below, &found, kind)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn file(&mut self, folder: &OwnedFd, name: &CString, path: PathBuf, found: &Stat, kind: FileType) -> io::Result<()> {
        let bytes = found.st_size.unsigned_abs();
        if self.taken.files.len() as u64 >= FILES_MAX || bytes > BYTES_MAX - self.bytes {
            self.taken.left_out += 1;
            return Ok(());
        }
        if kind == FileType::Symlink {
            let link = readlinkat(folder, name, Vec::new()).ok().map(|to| std::ffi::OsStr::from_bytes(to.as_bytes()).into());
            self.taken.files.push(TakenFile { path, bytes: 0, link });
            return Ok(());
        }
        let Ok(from) = open(folder, name, OFlags::NONBLOCK) else { return Ok(()) };
        let to = self.into.join(path.strip_prefix("/").unwrap_or(&path));
        let made = std::fs::create_dir_all(to.parent().unwrap_or(self.into)).and_then(|()| File::create(&to));
        // Its path is longer here than in its node, or something else is there that was taken before.
        if made.as_ref().is_err_and(is_about_the_path) {
            self.taken.left_out += 1;
            return Ok(());
        }
        let copied = io::copy(&mut File::from(from).take(bytes), &mut made?)?;
        self.bytes += copied;
        self.taken.files.push(TakenFile { path, bytes: copied, link: None });
        Ok(())
    }

    fn is_wanted(&self, folder: &OwnedFd, name: &CString, path: &Path, found: &Stat) -> bool {
        // A file into which the host writes meanwhile may be another between the two looks at it.
        let look = || statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
        let is_the_hosts =
            || self.is_the_hosts(path, found) || (0..LOOKS).any(|_| look().is_ok_and(|again| self.is_the_hosts(path, &again)));
        self.wanted.set.is_match(path) && !is_the_hosts() && !self.is_given(folder, name, path)
    }

    /// Is this what the node was given?
    fn is_given(&self, folder: &OwnedFd, name: &CString, path: &Path) -> bool {
        let Some(contents) = self.given.get(path) else { return false };
        let Ok(file) = open(folder, name, OFlags::NONBLOCK) else { return false };
        let mut found = Vec::new();
        File::from(file).take(contents.len() as u64 + 1).read_to_end(&mut found).is_ok() && found[..] == contents[..]
    }

    /// Is this what the host has there? A folder only if nothing of the node's is in it: an overlay says that a folder in which something was written has one
    /// link, and the others have at least two; it gives folders numbers of its own (ovl_getattr of fs/overlayfs/inode.c).
    fn is_the_hosts(&self, path: &Path, found: &Stat) -> bool {
        let Some(original) = original(path, self.from.base, self.from.mounts) else { return false };
        let Ok(host) = rustix::fs::lstat(&original) else { return false };
        let alike = (host.st_size, host.st_mtime, host.st_mtime_nsec) == (found.st_size, found.st_mtime, found.st_mtime_nsec);
        let same_number = host.st_ino == found.st_ino;
        match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory => {
                let untouched = found.st_nlink > 1 && found.st_nlink == host.st_nlink;
                alike && (untouched || same_number && host.st_dev == found.st_dev)
            }
            _ => alike && same_number,
        }
    }
}

/// Where the host has what is below this path of a node; none: nowhere, it is in a folder that nodes have for themselves.
pub(crate) fn original(path: &Path, base: &Path, mounts: &[Mount]) -> Option<PathBuf> {
    let innermost = mounts.iter().filter(|mount| path.starts_with(&mount.to)).max_by_key(|mount| mount.to.components().count());
    if let Some(mount) = innermost {
        return Some(mount.from.join(path.strip_prefix(&mount.to).ok()?));
    }
    let below = path.strip_prefix("/").ok()?;
    let own = below.iter().next()?.to_str().is_some_and(is_new);
    (!own).then(|| base.join(below))
}

/// Has the host changed this since then, in nanoseconds since 1970?
pub(crate) fn has_changed(original: &Path, since: u64) -> bool {
    let Ok(found) = rustix::fs::lstat(original) else { return false };
    i128::from(found.st_ctime) * 1_000_000_000 + i128::from(found.st_ctime_nsec) > i128::from(since)
}

fn is_about_the_path(error: &io::Error) -> bool {
    use io::ErrorKind::{AlreadyExists, InvalidFilename, IsADirectory, NotADirectory};
    matches!(error.kind(), AlreadyExists | InvalidFilename | IsADirectory | NotADirectory)
}

fn open(folder: impl AsFd, name: &CString, more: OFlags) -> rustix::io::Result<OwnedFd> {
    openat(folder, name, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | more, Mode::empty())
}

/// The names in a folder, in order.
fn names(folder: &OwnedFd) -> Vec<CString> {
    let entries = Dir::read_from(folder).into_iter().flatten().flatten();
    let mut names: Vec<CString> =
        entries.map(|entry| entry.file_name().to_owned()).filter(|name| !matches!(name.as_bytes(), b"." | b"..")).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn write(path: &Path, text: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn taken(node: &Path, base: &Path, patterns: &[&str], into: &Path) -> Vec<String> {
        let wanted = Wanted::new(&patterns.iter().map(|pattern| (*pattern).to_owned()).collect::<Vec<_>>()).unwrap();
        let given = [OwnFile { path: "/etc/given".into(), contents: Arc::from(&b"given"[..]), executable: false }];
        let taken = collect(From { root: node, base, mounts: &[], given: &given }, &wanted, into).unwrap();
        taken.files.iter().map(|file| file.path.display().to_string()).collect()
    }

    #[test]
    fn what_the_host_has_stays_and_what_was_written_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let [node, base, into] = ["node", "base", "into"].map(|name| folder.path().join(name));
        write(&base.join("var/log/boot.log"), "host");
        write(&base.join("var/log/app.log"), "host");
        std::fs::create_dir_all(node.join("var/log")).unwrap();
        // The same file, as an overlay shows it, and one that a program has changed.
        std::fs::hard_link(base.join("var/log/boot.log"), node.join("var/log/boot.log")).unwrap();
        write(&node.join("var/log/app.log"), "node's own");
        write(&node.join("var/log/deep/x.log"), "x");
        write(&node.join("tmp/junit.xml"), "<x/>");
        assert_eq!(
            taken(&node, &base, &["/var/log/**", "/tmp/*.xml"], &into),
            ["/tmp/junit.xml", "/var/log/app.log", "/var/log/deep/x.log"]
        );
        assert_eq!(std::fs::read_to_string(into.join("var/log/app.log")).unwrap(), "node's own");
        assert_eq!(taken(&node, &base, &["/var/log/*.log"], &into), ["/var/log/app.log"]);
        assert!(!into.join("var/log/boot.log").exists());
    }

    #[test]
    fn what_a_node_was_given_is_taken_when_it_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let [node, base, into] = ["node", "base", "into"].map(|name| folder.path().join(name));
        write(&node.join("etc/given"), "given");
        assert_eq!(taken(&node, &base, &["/etc/*"], &into), [""; 0]);
        write(&node.join("etc/given"), "given more");
        assert_eq!(taken(&node, &base, &["/etc/*"], &into), ["/etc/given"]);
    }

    #[test]
    fn links_lead_nowhere_and_what_is_no_file_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let [node, base, into, secret] = ["node", "base", "into", "secret"].map(|name| folder.path().join(name));
        write(&secret.join("key"), "secret");
        std::fs::create_dir_all(node.join("out")).unwrap();
        symlink(&secret, node.join("out/folder")).unwrap();
        symlink(secret.join("key"), node.join("out/file")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, node.join("out/fifo"), FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
        assert_eq!(taken(&node, &base, &["/out/**"], &into), ["/out/file", "/out/folder"]);
        assert!(!into.exists(), "a link was followed, or made");
    }

    #[test]
    fn a_pattern_is_an_absolute_path() {
        for (pattern, why) in [("var/log", "begin with /"), ("/a/[", "unclosed"), ("/a/{b", "")] {
            let (of, what) = Wanted::new(&[pattern.to_owned()]).unwrap_err();
            assert!(of == pattern && what.contains(why), "{what}");
        }
    }
}
