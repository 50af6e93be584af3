//! Where control sockets are, and what must be so before one is made there.
//!
//! Each user has a directory for them that is weft's own: made when it is missing, and removed by the last weft that leaves it. A directory that
//! somebody names with `--control` is theirs: it has to exist, and nothing in it is removed but a control socket on which nobody answers.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::Mode;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::fs::{DirBuilder, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The variable that names the control socket of the stack that a program is on. Commands take it where `--control` is left out.
pub const VARIABLE: &str = "WEFT_CONTROL";

/// What sockets of stacks of `weft run` are called, before the process id.
const PRIVATE_PREFIX: &str = "run-";
/// What sockets of worlds of `weft sim` are called, before the process id.
pub const WORLD_PREFIX: &str = "sim-";
/// Connections that wait to be taken, as the standard library has it.
const BACKLOG: i32 = 128;
/// So long after a socket was made somebody listens on it, or it is nobody's.
const LISTENS_AFTER: Duration = Duration::from_secs(10);

/// weft's own directory of this user: $XDG_RUNTIME_DIR/weft, or /run/weft for root, or /tmp/weft-UID.
pub fn own_directory() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(dir) if !dir.is_empty() => PathBuf::from(dir).join("weft"),
        _ if rustix::process::geteuid().is_root() => PathBuf::from("/run/weft"),
        _ => PathBuf::from(format!("/tmp/weft-{}", rustix::process::geteuid().as_raw())),
    }
}

/// Where the control socket is when nobody says otherwise: where [`VARIABLE`] says, or `control` in [`own_directory`].
pub fn default_path() -> PathBuf {
    match std::env::var_os(VARIABLE) {
        Some(path) if !path.is_empty() => PathBuf::from(path),
        _ => own_directory().join("control"),
    }
}

/// Where the control socket of a stack of `weft run` is that this process holds.
pub fn private_path() -> PathBuf {
    own_directory().join(format!("{PRIVATE_PREFIX}{}", std::process::id()))
}

/// Where the socket of a world of `weft sim` is that this process holds.
pub fn world_path() -> PathBuf {
    own_directory().join(format!("{WORLD_PREFIX}{}", std::process::id()))
}

/// A socket's file. It is removed when this is dropped, and with it weft's own directory when nothing else is in that.
#[derive(Debug)]
pub struct Seat {
    path: PathBuf,
    /// Device and inode of the file, which somebody may have replaced meanwhile.
    identity: Option<(u64, u64)>,
}

impl Seat {
    /// Where it is, from the root on.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if self.identity.is_some() && identity(&self.path) == self.identity {
            let _ = std::fs::remove_file(&self.path);
        }
        leave(&self.path);
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    path.symlink_metadata().ok().map(|found| (found.dev(), found.ino()))
}

/// Listens on a socket at `path`, with mode 0600, less what the umask takes; see [`prepare`] for what is in its place.
///
/// # Errors
/// What stands in the way, and what to do.
pub fn listen(path: &Path) -> io::Result<(UnixListener, Seat)> {
    let path = std::path::absolute(path)?;
    prepare(&path)?;
    let socket = match bind(&path) {
        // Another weft has left the directory meanwhile, and taken it along.
        Err(error) if error.kind() == io::ErrorKind::NotFound => prepare(&path).and_then(|()| bind(&path)),
        other => other,
    }?;
    Ok((socket, Seat { identity: identity(&path), path }))
}

/// A socket that listens at `path`. Its file gets the mode that the socket has before (net/unix/af_unix.c, unix_bind_bsd: "umode_t mode = S_IFSOCK |
/// (SOCK_INODE(sock)->i_mode & ~current_umask());"): the process's umask, with which other threads make files meanwhile, is left alone.
fn bind(path: &Path) -> io::Result<UnixListener> {
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    net::listen(&socket, BACKLOG)?;
    Ok(UnixListener::from(socket))
}

/// The socket that a person means: a bare name that does not stand in the current directory is one in [`own_directory`].
pub fn resolve(path: &Path) -> PathBuf {
    let bare = path.components().count() == 1 && path.file_name().is_some();
    let own = own_directory().join(path);
    if bare && !path.exists() && own.exists() { own } else { path.to_owned() }
}

fn refuse(kind: io::ErrorKind, why: String) -> io::Error {
    io::Error::new(kind, why)
}

/// Makes sure that a socket can be made at `path` without harm to anybody: makes weft's own directory, refuses what is there and is no dead socket,
/// removes a dead one.
///
/// # Errors
/// What stands in the way, and what to do.
pub fn prepare(path: &Path) -> io::Result<()> {
    let parent = directory_of(path);
    if parent == own_directory() {
        make_own(&parent)?;
        sweep(&parent);
    } else if !parent.is_dir() {
        let why = format!("there is no directory {}: make it, or name another place with --control", parent.display());
        return Err(refuse(io::ErrorKind::NotFound, why));
    }
    let Ok(found) = path.symlink_metadata() else { return Ok(()) };
    if !found.file_type().is_socket() {
        return Err(refuse(io::ErrorKind::AlreadyExists, "exists and is no socket: name another place with --control".to_owned()));
    }
    match UnixStream::connect(path).and_then(|peer| if hangs_up(&peer) { UnixStream::connect(path) } else { Ok(peer) }) {
        Ok(_) => {
            let why = format!("a weft is running already at {}; `weft down` ends it, --control names another place", path.display());
            Err(refuse(io::ErrorKind::AddrInUse, why))
        }
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => match std::fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        },
        // Whose it was has taken it away meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(refuse(error.kind(), format!("a socket is there already ({error}): name another place with --control"))),
    }
}

/// How long a weft that was killed may need to let go of its socket: the kernel takes its network devices down meanwhile.
const LETTING_GO: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };

/// Does whoever took this connection end? One that lives leaves it open.
fn hangs_up(peer: &UnixStream) -> bool {
    poll(&mut [PollFd::new(peer, PollFlags::RDHUP)], Some(&LETTING_GO)).is_ok_and(|ready| ready > 0)
}

/// Removes weft's own directory if `path` was in it and nothing else is.
fn leave(path: &Path) {
    let parent = directory_of(path);
    if parent == own_directory() {
        // Others may still be in it: the last one removes it.
        let _ = std::fs::remove_dir(parent);
    }
}

fn directory_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn make_own(directory: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(refuse(
            error.kind(),
            format!("the directory {} cannot be made: {error}; name another place with --control", directory.display()),
        )),
        _ => check_own(directory, &directory.symlink_metadata()?, rustix::process::geteuid().as_raw()),
    }
}

/// Whoever may write to the directory could put a socket of theirs in the place of ours, and /tmp is everybody's.
fn check_own(directory: &Path, found: &Metadata, user: u32) -> io::Result<()> {
    let wrong = match () {
        () if !found.is_dir() => "is no directory".to_owned(),
        () if found.uid() != user => format!("belongs to the user with number {}", found.uid()),
        () if found.mode() & 0o022 != 0 => format!("may be written to by others (mode {:o})", found.mode() & 0o7777),
        () => return Ok(()),
    };
    let what = format!("the directory {} {wrong}: remove it or mend its owner and mode (0700)", directory.display());
    Err(refuse(io::ErrorKind::PermissionDenied, format!("{what}, or name another place with --control")))
}

/// Removes what `weft run` and `weft sim` left behind that were killed: sockets that nobody listens on. Between making a socket and listening on it there is
/// a moment, in which its process is there; its number may be somebody else's later.
fn sweep(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let numbers = name.to_str().and_then(|name| [PRIVATE_PREFIX, WORLD_PREFIX].iter().find_map(|prefix| name.strip_prefix(prefix)));
        let Some(pid) = numbers.and_then(|pid| pid.parse::<u32>().ok()) else { continue };
        let Some(found) = entry.metadata().ok().filter(|found| found.file_type().is_socket()) else { continue };
        let old = found.modified().ok().and_then(|made| made.elapsed().ok()).is_some_and(|age| age > LISTENS_AFTER);
        let lives = Path::new(&format!("/proc/{pid}")).exists();
        let refused = || UnixStream::connect(entry.path()).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
        if (old || !lives) && refused() {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::{UnixDatagram, UnixListener};

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("weft-place-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn only_a_dead_socket_is_replaced() {
        let folder = Folder::new("replace");
        let path = folder.0.join("control");
        std::fs::write(&path, "mine").unwrap();
        let said = |path: &Path| prepare(path).unwrap_err().to_string();
        assert_eq!(said(&path), "exists and is no socket: name another place with --control");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
        std::fs::remove_file(&path).unwrap();
        let listener = UnixListener::bind(folder.0.join("other")).unwrap();
        std::os::unix::fs::symlink("other", &path).unwrap();
        assert!(said(&path).contains("is no socket"), "a link is not followed");
        std::fs::remove_file(&path).unwrap();
        let _datagrams = UnixDatagram::bind(&path).unwrap();
        assert!(said(&path).contains("a socket is there already"), "of another kind");
        assert!(said(&folder.0.join("other")).contains("a weft is running already"));
        // One that is about to end, after the other has connected.
        let dying = std::thread::spawn(move || {
            let (_before, last) = (listener.accept().unwrap(), listener.accept().unwrap());
            drop(listener);
            drop(last);
        });
        prepare(&folder.0.join("other")).unwrap();
        dying.join().unwrap();
        assert!(!folder.0.join("other").exists());
        assert!(said(&folder.0.join("missing/control")).contains("missing: make it, or name another place"));
    }

    #[test]
    fn a_socket_is_its_owners_and_files_that_others_make_meanwhile_are_as_they_want() {
        let folder = Folder::new("mode");
        let umask = || {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            status.lines().find_map(|line| line.strip_prefix("Umask:")).map(|mask| mask.trim().to_owned()).expect("a umask")
        };
        let before = umask();
        std::thread::scope(|scope| {
            let work = scope.spawn(|| {
                for round in 0..1000 {
                    let path = folder.0.join(format!("socket-{round}"));
                    let (listener, seat) = listen(&path).unwrap();
                    assert_eq!(path.symlink_metadata().unwrap().mode() & 0o777, 0o600);
                    let peer = UnixStream::connect(&path).unwrap();
                    drop((listener.accept().unwrap(), peer, seat));
                    assert!(!path.exists());
                }
            });
            let mut seen = vec![before.clone()];
            while !work.is_finished() {
                seen.push(umask());
                seen.dedup();
            }
            work.join().unwrap();
            assert_eq!(seen, [before], "the umask is that of the whole process");
        });
    }

    #[test]
    fn a_directory_of_others_is_refused() {
        let folder = Folder::new("others");
        let me = rustix::process::geteuid().as_raw();
        let check = |user| check_own(&folder.0, &folder.0.symlink_metadata().unwrap(), user).map_err(|error| error.to_string());
        std::fs::set_permissions(&folder.0, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(check(me), Ok(()));
        assert!(check(me + 1).unwrap_err().contains("belongs to the user with number"));
        std::fs::set_permissions(&folder.0, std::fs::Permissions::from_mode(0o1777)).unwrap();
        assert!(check(me).unwrap_err().contains("may be written to by others (mode 1777)"));
        std::os::unix::fs::symlink(&folder.0, folder.0.join("link")).unwrap();
        let link = folder.0.join("link");
        assert!(check_own(&link, &link.symlink_metadata().unwrap(), me).unwrap_err().to_string().contains("is no directory"));
    }

    #[test]
    fn what_killed_stacks_left_is_swept_and_nothing_else() {
        let folder = Folder::new("sweep");
        // Made a moment ago by a process that lives: it may be about to listen.
        let own = format!("run-{}", std::process::id());
        // Larger than any process id may be.
        for name in ["run-4194305", "sim-4194305", "control", "run-x", "simple", &own, "sim-1"] {
            drop(UnixListener::bind(folder.0.join(name)).unwrap());
        }
        // Its process has gone, and another one has its number now.
        let long_ago = rustix::fs::Timespec { tv_sec: 1_000_000_000, tv_nsec: 0 };
        let times = rustix::fs::Timestamps { last_access: long_ago, last_modification: long_ago };
        rustix::fs::utimensat(rustix::fs::CWD, folder.0.join("sim-1"), &times, rustix::fs::AtFlags::empty()).unwrap();
        std::fs::write(folder.0.join("run-4194306"), "").unwrap();
        let _living = UnixListener::bind(folder.0.join("run-4194307")).unwrap();
        let _world = UnixListener::bind(folder.0.join("sim-4194307")).unwrap();
        sweep(&folder.0);
        let mut left: Vec<String> =
            std::fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        left.sort();
        let mut kept = vec!["control", "run-4194306", "run-4194307", "run-x", "sim-4194307", "simple", &own];
        kept.sort_unstable();
        assert_eq!(left, kept);
    }
}
