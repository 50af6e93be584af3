//! Where things are while a node's files are made, and in a node: folders that it has for itself, and names of paths.

use super::super::error::StartError;
use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};
use weft_intercept::sys::Errno;

/// Of the top level: not the host's.
pub(super) const NEW: [(&str, libc::mode_t); 6] =
    [("dev", 0o755), ("proc", 0o555), ("root", 0o700), ("run", 0o755), ("sys", 0o555), ("tmp", 0o1777)];
/// Those of them in which people keep files on the host: of them nothing is in a node, unless it is shown.
pub const OWN_FOLDERS: [&str; 3] = ["/tmp", "/root", "/run"];
/// Where the nursery has the host's files while it prepares, what nodes need of them, and where a node's are built.
pub(super) const HOST: &str = "/host";
pub(super) const LOW: &str = "/low";
pub(super) const NODE: &str = "/node";
/// Where it has folders that nodes are given, by number, the layer of [`super::skeleton`], and files that all nodes have.
pub(super) const SHARED: &str = "/shared";
pub(super) const SKELETON: &str = "/skeleton";
pub(super) const COMMON: &str = "/common";
/// What is `/` of every node until a program wants to write there, with what is the same for all of them.
pub(super) const TREE: &str = "/tree";
/// Where what is below /sys is kept, which is made when somebody asks for it ([`crate::sys_files`]), and the folders of /sys that lead there.
pub(crate) const OF_SYS: &str = "/run/weft/sys";
pub(super) const SYS_LINKS: [&str; 2] = ["class", "devices"];
/// A folder of that in which nothing is mounted, and where the node's own is built.
pub(super) const BARE: &str = "/sys";
/// What is empty whenever a node begins, of what it has for itself: the rest of it is its disk.
pub(super) const FRESH: [(&str, &CStr); 3] = [("dev", c"mode=755"), ("run", c"mode=755"), ("tmp", c"mode=1777")];
pub(super) const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

pub(super) const DEVICE_LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

/// Folders that programs of the node can write to though they are another user's on the host: they exist in the node's layer, too.
pub(super) const WRITABLE: [&str; 11] =
    ["etc", "home", "opt", "srv", "var", "var/cache", "var/lib", "var/log", "var/mail", "var/spool", "var/tmp"];
/// What every node has for itself: the folder of its layer, where it is seen, and the mode.
pub(super) const OWN: [(&str, &str, libc::mode_t); 4] =
    [("home", "root", 0o700), ("run", "run", 0o755), ("tmp", "tmp", 0o1777), ("shm", "dev/shm", 0o1777)];

pub(super) fn text(path: impl AsRef<Path>) -> Result<CString, StartError> {
    CString::new(path.as_ref().as_os_str().as_bytes())
        .map_err(|_| StartError::Step { step: "use a path with a zero byte", errno: Errno(libc::EINVAL) })
}

/// Where the nursery has what is at this path on the host.
pub(super) fn on_host(path: &Path) -> PathBuf {
    Path::new(HOST).join(path.strip_prefix("/").unwrap_or(path))
}

/// Is this name of the top level a folder that every node has for itself?
pub(crate) fn is_new(name: &str) -> bool {
    NEW.iter().any(|(new, _)| name == *new)
}

/// The name at the top that a path begins with.
pub(super) fn first_of(path: &Path) -> Option<&OsStr> {
    path.components().nth(1).and_then(|first| if let Component::Normal(first) = first { Some(first) } else { None })
}

/// Where the nursery has a folder that nodes get.
pub(super) fn shared(number: usize) -> PathBuf {
    Path::new(SHARED).join(number.to_string())
}

/// A path in the options of an overlay.
pub(super) fn escaped(path: &Path) -> Vec<u8> {
    let special = |byte: &u8| matches!(byte, b'\\' | b',' | b':');
    path.as_os_str().as_bytes().iter().flat_map(|byte| special(byte).then_some(b'\\').into_iter().chain([*byte])).collect()
}

/// Is there certainly nothing in a folder, for whoever looks?
pub(super) fn is_empty(folder: &Path) -> bool {
    const EVERYBODY: u32 = 0o005;
    let open = folder.metadata().is_ok_and(|found| found.mode() & EVERYBODY == EVERYBODY);
    open && std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}
