//! What programs read below /proc/net, /proc/sys/net and /sys/class/net: files of the stack's, and not of the host's kernel.
//!
//! Each program that is started has a file system of weft's mounted there ([`weft_notify::mounts`]). A thread for each answers the kernel (fuse(4), by the crate
//! fuser) and asks the world for what a file says ([`NetworkFiles`]); the world looks at its node in its own turn. A thread ends with the last process that sees
//! its file system.

use fuser::{
    AccessFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, IoctlFlags, LockOwner, OpenAccMode,
    OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyOpen, ReplyWrite,
    ReplyXattr, Request, Session, SessionACL, TimeOrNow, WriteFlags,
};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use weft_notify::mounts::NETWORK;
use weft_notify::spawn;
use weft_process::Outside;
use weft_process::network_files::{self, DEVICES, Kind, NetworkFiles, PROC_NET, SETTINGS};

/// Most file systems at a time: each is a thread, and a program has two. Who comes while there are so many finds theirs dead (ENOTCONN).
const FILE_SYSTEMS_MAX: usize = 1024;
/// The kernel keeps nothing: each look is a new one.
const KEPT: Duration = Duration::ZERO;
/// Stack of a thread; its buffer lies elsewhere.
const STACK_BYTES: usize = 256 << 10;

/// What a thread wants to know, of an absolute path.
enum Ask {
    Look(String),
    List(String),
    Read(String),
    Write(String, Vec<u8>),
}

enum Answer {
    Kind(Option<Kind>),
    Names(BTreeMap<String, Kind>),
    Text(Result<Vec<u8>, weft_intercept::Errno>),
    Written(Result<usize, weft_intercept::Errno>),
}

struct Asked {
    ask: Ask,
    answer: SyncSender<Answer>,
}

/// The world's side.
pub(crate) struct Files {
    files: NetworkFiles,
    asked: Receiver<Asked>,
    /// Kept for threads to come.
    asks: Sender<Asked>,
    /// Readable when something is asked.
    event: Arc<OwnedFd>,
    /// One for each thread that is there.
    threads: Arc<()>,
    /// File systems that were too many.
    refused: u64,
}

impl Files {
    pub fn new() -> io::Result<Files> {
        weft_notify::mounts::keep_large_memory_apart();
        let (asks, asked) = channel();
        let event = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        Ok(Files { files: NetworkFiles::default(), asked, asks, event, threads: Arc::new(()), refused: 0 })
    }

    /// Readable when [`Files::answer`] has something to do.
    pub fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Answers for the file system behind this descriptor from now on.
    pub fn serve(&mut self, spawn::Files { place, fuse }: spawn::Files) -> io::Result<()> {
        if Arc::strong_count(&self.threads) > FILE_SYSTEMS_MAX {
            self.refused += 1;
            let advice = "end programs, or start them from one that runs";
            tracing::warn!("{} programs have files of this stack already: one more sees no /proc/net; {advice}", FILE_SYSTEMS_MAX / 2);
            return Ok(());
        }
        let root = if place == spawn::Place::Devices { DEVICES } else { SETTINGS };
        let served = Served { root, asks: Mutex::new(self.asks.clone()), event: Arc::clone(&self.event), nodes: Mutex::default() };
        let here = Arc::clone(&self.threads);
        std::thread::Builder::new().name("weft-files".to_owned()).stack_size(STACK_BYTES).spawn(move || {
            let mut config = fuser::Config::default();
            config.acl = SessionACL::All;
            // Its end is that of the last program, or weft's.
            let ended = Session::from_fd(served, fuse, SessionACL::All, config).and_then(Session::run);
            if let Err(error) = ended {
                tracing::debug!("files of a program have ended: {error}");
            }
            drop(here);
        })?;
        Ok(())
    }

    /// Answers what is asked.
    pub fn answer(&mut self, outside: &mut dyn Outside) {
        let mut count = [0_u8; 8];
        let _ = rustix::io::read(&*self.event, &mut count);
        while let Ok(Asked { ask, answer }) = self.asked.try_recv() {
            let said = match ask {
                Ask::Look(path) => Answer::Kind(self.files.look(&path, outside)),
                Ask::List(path) => Answer::Names(self.files.list(&path, outside)),
                Ask::Read(path) => Answer::Text(self.files.read(&path, outside)),
                Ask::Write(path, line) => {
                    let written = self.files.write(&path, &line, outside);
                    if let Err(errno) = &written {
                        let line = String::from_utf8_lossy(&line).trim().escape_debug().to_string();
                        tracing::info!("a program could not set {path} = {line}: {errno:?}");
                    }
                    Answer::Written(written)
                }
            };
            // Who has ended does not want it any more.
            let _ = answer.try_send(said);
        }
    }
}

impl std::fmt::Debug for Files {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Files")
            .field("threads", &(Arc::strong_count(&self.threads) - 1))
            .field("refused", &self.refused)
            .finish_non_exhaustive()
    }
}

/// What the kernel knows of a file system: its nodes by number, and open files with what they showed last.
#[derive(Debug, Default)]
struct Nodes {
    paths: HashMap<u64, Node>,
    numbers: HashMap<String, u64>,
    made: u64,
    open: BTreeMap<u64, Vec<u8>>,
    opened: u64,
}

#[derive(Debug)]
struct Node {
    path: String,
    /// How often the kernel has looked it up and has not forgotten it.
    looks: u64,
}

impl Nodes {
    fn path(&self, node: INodeNo) -> Option<String> {
        self.paths.get(&node.0).map(|one| one.path.clone())
    }

    /// The number of a path that the kernel looks up.
    fn look_up(&mut self, path: String) -> u64 {
        let made = &mut self.made;
        let number = *self.numbers.entry(path.clone()).or_insert_with(|| {
            *made += 1;
            // The root is 1.
            *made + 1
        });
        self.paths.entry(number).or_insert(Node { path, looks: 0 }).looks += 1;
        number
    }

    fn forget(&mut self, node: u64, looks: u64) {
        let Some(one) = self.paths.get_mut(&node) else { return };
        one.looks = one.looks.saturating_sub(looks);
        if one.looks == 0
            && let Some(one) = self.paths.remove(&node)
        {
            self.numbers.remove(&one.path);
        }
    }
}

/// The kernel's side of a file system.
struct Served {
    /// Where it lies.
    root: &'static str,
    asks: Mutex<Sender<Asked>>,
    event: Arc<OwnedFd>,
    nodes: Mutex<Nodes>,
}

impl Served {
    /// Asks the world. EIO: it has ended.
    fn ask(&self, ask: Ask) -> Result<Answer, Errno> {
        let (answer, answered) = sync_channel(1);
        self.asks.lock().unwrap_or_else(PoisonError::into_inner).send(Asked { ask, answer }).map_err(|_| Errno::EIO)?;
        rustix::io::write(&*self.event, &1_u64.to_ne_bytes()).map_err(|_| Errno::EIO)?;
        answered.recv().map_err(|_| Errno::EIO)
    }

    fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, node: INodeNo) -> Result<String, Errno> {
        if node == INodeNo::ROOT { Ok(self.root.to_owned()) } else { self.nodes().path(node).ok_or(Errno::ESTALE) }
    }

    fn kind(&self, path: &str) -> Result<Kind, Errno> {
        match self.ask(Ask::Look(path.to_owned()))? {
            Answer::Kind(kind) => kind.ok_or(Errno::ENOENT),
            _ => Err(Errno::EIO),
        }
    }

    fn attributes(&self, node: INodeNo) -> Result<FileAttr, Errno> {
        Ok(attributes(node, self.kind(&self.path(node)?)?))
    }

    fn look_up(&self, parent: INodeNo, name: &OsStr) -> Result<FileAttr, Errno> {
        let name = name.to_str().ok_or(Errno::ENOENT)?;
        let path = match (parent, name) {
            (INodeNo::ROOT, NETWORK) if self.root == SETTINGS => PROC_NET.to_owned(),
            _ => format!("{}/{name}", self.path(parent)?),
        };
        let kind = self.kind(&path)?;
        Ok(attributes(INodeNo(self.nodes().look_up(path)), kind))
    }

    fn open_file(&self, request: &Request, node: INodeNo, flags: OpenFlags) -> Result<u64, Errno> {
        let path = self.path(node)?;
        let writes = flags.acc_mode() != OpenAccMode::O_RDONLY;
        match self.kind(&path)? {
            Kind::Folder => return Err(Errno::EISDIR),
            Kind::File { writable } if writes && !writable => return Err(Errno::EACCES),
            Kind::File { .. } => {}
        }
        // A stack is of who has started it; another user's programs may look.
        if writes && ![0, rustix::process::geteuid().as_raw()].contains(&request.uid()) {
            return Err(Errno::EACCES);
        }
        let mut nodes = self.nodes();
        nodes.opened += 1;
        let handle = nodes.opened;
        nodes.open.insert(handle, Vec::new());
        Ok(handle)
    }

    /// As of files that the kernel makes when they are read: from the beginning anew, and on from what was shown there.
    fn read_file(&self, node: INodeNo, handle: u64, at: u64, bytes: usize) -> Result<Vec<u8>, Errno> {
        let path = self.path(node)?;
        let text = if at == 0 {
            match self.ask(Ask::Read(path.clone()))? {
                Answer::Text(text) => text.map_err(|errno| Errno::from_i32(errno.0))?,
                _ => return Err(Errno::EIO),
            }
        } else {
            self.nodes().open.remove(&handle).ok_or(Errno::EBADF)?
        };
        let rest = network_files::rest(&path, &text, usize::try_from(at).unwrap_or(usize::MAX));
        let piece = rest[..bytes.min(rest.len())].to_vec();
        self.nodes().open.insert(handle, text);
        Ok(piece)
    }

    fn write_file(&self, node: INodeNo, at: u64, line: &[u8]) -> Result<u32, Errno> {
        // "sysctl_writes_strict": what is written anywhere but at the beginning is ignored.
        if at != 0 || line.is_empty() {
            return Ok(line.len() as u32);
        }
        match self.ask(Ask::Write(self.path(node)?, line.to_vec()))? {
            Answer::Written(written) => written.map(|bytes| bytes as u32).map_err(|errno| Errno::from_i32(errno.0)),
            _ => Err(Errno::EIO),
        }
    }

    fn names(&self, node: INodeNo) -> Result<BTreeMap<String, Kind>, Errno> {
        match self.ask(Ask::List(self.path(node)?))? {
            Answer::Names(names) => Ok(names),
            _ => Err(Errno::EIO),
        }
    }
}

fn attributes(node: INodeNo, kind: Kind) -> FileAttr {
    let (kind, perm, nlink) = match kind {
        Kind::Folder => (FileType::Directory, 0o555, 2),
        Kind::File { writable: true } => (FileType::RegularFile, 0o644, 1),
        Kind::File { writable: false } => (FileType::RegularFile, 0o444, 1),
    };
    let now = SystemTime::now();
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let (atime, mtime, ctime, crtime) = (now, now, now, now);
    FileAttr { ino: node, size: 0, blocks: 0, atime, mtime, ctime, crtime, kind, perm, nlink, uid, gid, rdev: 0, blksize: 1024, flags: 0 }
}

impl Filesystem for Served {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.look_up(parent, name) {
            Ok(attributes) => reply.entry(&KEPT, &attributes, Generation(0)),
            Err(errno) => reply.error(errno),
        }
    }

    fn forget(&self, _: &Request, node: INodeNo, looks: u64) {
        self.nodes().forget(node.0, looks);
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(node) {
            Ok(attributes) => reply.attr(&KEPT, &attributes),
            Err(errno) => reply.error(errno),
        }
    }

    /// Who opens a file with O_TRUNC asks for no bytes; of owners and modes nothing is changed.
    fn setattr(
        &self,
        request: &Request,
        node: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        _: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        if mode.is_some() || uid.is_some() || gid.is_some() {
            return reply.error(Errno::EPERM);
        }
        self.getattr(request, node, None, reply);
    }

    fn open(&self, request: &Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self.open_file(request, node, flags) {
            // Their size is 0, as the kernel says of its own: each read comes here.
            Ok(handle) => reply.opened(FileHandle(handle), FopenFlags::FOPEN_DIRECT_IO),
            Err(errno) => reply.error(errno),
        }
    }

    fn read(
        &self,
        _: &Request,
        node: INodeNo,
        handle: FileHandle,
        at: u64,
        bytes: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.read_file(node, handle.0, at, bytes as usize) {
            Ok(text) => reply.data(&text),
            Err(errno) => reply.error(errno),
        }
    }

    fn write(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        at: u64,
        line: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.write_file(node, at, line) {
            Ok(bytes) => reply.written(bytes),
            Err(errno) => reply.error(errno),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, _: Option<LockOwner>, _: bool, reply: ReplyEmpty) {
        self.nodes().open.remove(&handle.0);
        reply.ok();
    }

    /// Nobody's rights are other than what the modes say; writing is looked at when a file is opened.
    fn access(&self, _: &Request, _: INodeNo, _: AccessFlags, reply: ReplyEmpty) {
        reply.ok();
    }

    fn getxattr(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, reply: ReplyXattr) {
        reply.error(Errno::EOPNOTSUPP);
    }

    /// isatty(3) asks, of whatever it has opened.
    fn ioctl(&self, _: &Request, _: INodeNo, _: FileHandle, _: IoctlFlags, _: u32, _: &[u8], _: u32, reply: ReplyIoctl) {
        reply.error(Errno::ENOTTY);
    }

    fn listxattr(&self, _: &Request, _: INodeNo, _: u32, reply: ReplyXattr) {
        reply.error(Errno::EOPNOTSUPP);
    }

    // What follows is what the kernel says of its own folders.
    fn create(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, _: i32, reply: ReplyCreate) {
        reply.error(Errno::ENOENT);
    }

    fn mknod(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, _: u32, reply: ReplyEntry) {
        reply.error(Errno::ENOENT);
    }

    fn mkdir(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        reply.error(Errno::ENOENT);
    }

    fn symlink(&self, _: &Request, _: INodeNo, _: &OsStr, _: &Path, reply: ReplyEntry) {
        reply.error(Errno::ENOENT);
    }

    fn link(&self, _: &Request, _: INodeNo, _: INodeNo, _: &OsStr, reply: ReplyEntry) {
        reply.error(Errno::ENOENT);
    }

    fn unlink(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EACCES);
    }

    fn rmdir(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EACCES);
    }

    fn rename(&self, _: &Request, _: INodeNo, _: &OsStr, _: INodeNo, _: &OsStr, _: RenameFlags, reply: ReplyEmpty) {
        reply.error(Errno::ENOENT);
    }

    fn readdir(&self, _: &Request, node: INodeNo, _: FileHandle, at: u64, mut reply: ReplyDirectory) {
        let names = match self.names(node) {
            Ok(names) => names,
            Err(errno) => return reply.error(errno),
        };
        let own = [(".", node), ("..", node)].map(|(name, node)| (name.to_owned(), FileType::Directory, node));
        let rest = names.into_iter().map(|(name, kind)| {
            let kind = if kind == Kind::Folder { FileType::Directory } else { FileType::RegularFile };
            // Nobody asks by this number: a look-up gives it one.
            (name, kind, INodeNo(u64::from(u32::MAX)))
        });
        for (index, (name, kind, node)) in own.into_iter().chain(rest).enumerate().skip(usize::try_from(at).unwrap_or(usize::MAX)) {
            if reply.add(node, index as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_systems_beyond_the_bound_are_refused_and_counted() {
        let mut files = Files::new().unwrap();
        // Nothing comes from these, so that the threads stay.
        let mut ends = Vec::new();
        let mut serve = |files: &mut Files| {
            let (reads, writes) = rustix::pipe::pipe().unwrap();
            ends.push(writes);
            files.serve(spawn::Files { place: spawn::Place::Settings, fuse: reads }).unwrap();
        };
        (0..FILE_SYSTEMS_MAX).for_each(|_| serve(&mut files));
        assert_eq!((files.refused, Arc::strong_count(&files.threads)), (0, FILE_SYSTEMS_MAX + 1));
        serve(&mut files);
        assert_eq!((files.refused, Arc::strong_count(&files.threads)), (1, FILE_SYSTEMS_MAX + 1));
        // They end, and there is room again.
        drop(ends);
        while Arc::strong_count(&files.threads) > 1 {
            std::thread::yield_now();
        }
        let (reads, _writes) = rustix::pipe::pipe().unwrap();
        files.serve(spawn::Files { place: spawn::Place::Devices, fuse: reads }).unwrap();
        assert_eq!(files.refused, 1);
    }

    #[test]
    fn nodes_are_forgotten_with_the_last_look() {
        let mut nodes = Nodes::default();
        let dev = nodes.look_up("/proc/net/dev".to_owned());
        assert_eq!(nodes.look_up("/proc/net/dev".to_owned()), dev);
        let arp = nodes.look_up("/proc/net/arp".to_owned());
        assert_ne!(arp, dev);
        nodes.forget(dev, 1);
        assert_eq!(nodes.path(INodeNo(dev)).as_deref(), Some("/proc/net/dev"));
        nodes.forget(dev, 1);
        assert_eq!((nodes.path(INodeNo(dev)), nodes.paths.len(), nodes.numbers.len()), (None, 1, 1));
        nodes.forget(77, 1);
    }
}
