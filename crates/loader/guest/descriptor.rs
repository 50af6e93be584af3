//! What a descriptor is: the kernel's or the controller's, and whether it can block. Remembered per number until it is closed.

pub use crate::terminals::kind_of;

use crate::abi::{self, kind};
use crate::arena::{header, is_own_machine, touched};
use crate::block::{self, FILES, Thread};
use crate::calls;
use crate::calls::number as nr;
use crate::channel::{post, real};
use crate::hidden::is_hidden;
use crate::sys;
use crate::terminals;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

const S_IFMT: u32 = 0o170_000;
const S_IFSOCK: u32 = 0o140_000;
const S_IFREG: u32 = 0o100_000;
const S_IFDIR: u32 = 0o040_000;
const S_IFBLK: u32 = 0o060_000;
const S_IFCHR: u32 = 0o020_000;
const O_NONBLOCK: isize = 0o4000;
/// `st_rdev` of /dev/null, /dev/zero, /dev/full; /dev/random, /dev/urandom.
const QUICK_DEVICES: [u64; 3] = [0x103, 0x105, 0x107];
const RANDOM_DEVICES: [u64; 2] = [0x108, 0x109];

/// `struct stat`.
#[repr(C)]
#[derive(Default)]
struct Stat {
    device: u64,
    inode: u64,
    links: u64,
    mode: u32,
    rest: [u32; 3],
    node: u64,
    more: [u64; 12],
}

/// Another process has this one's descriptors, and not its memory (CLONE_FILES without CLONE_VM): what it does with them is not seen here, so nothing is
/// remembered.
static SHARED: AtomicBool = AtomicBool::new(false);

/// A process is about to be made that has these descriptors.
pub fn share() {
    SHARED.store(true, Relaxed);
}

pub fn are_shared() -> bool {
    SHARED.load(Relaxed)
}

/// The thread has descriptors of its own from now on (CLONE_FILES of unshare(2)); others may use its table.
pub fn separate(t: &mut Thread) -> Result<(), isize> {
    let (own, old) = (core::ptr::from_ref(t), t.files);
    if !block::all().any(|other| !core::ptr::eq(other, own) && other.files == old) {
        return Ok(());
    }
    if old == &raw mut t.own_files {
        let at = sys::map(size_of::<[u64; FILES]>()).ok_or(sys::ENOMEM)?;
        t.files = at as *mut [u64; FILES];
    } else {
        t.files = &raw mut t.own_files;
    }
    // SAFETY: both are tables; words are written whole.
    unsafe { *t.files = *old };
    Ok(())
}

/// Kind in bits 56 to 62, inode number below. 0 when there is no such descriptor.
pub fn word(t: &mut Thread, fd: usize) -> u64 {
    let fd = fd as u32 as usize;
    // SAFETY: the table belongs to this thread's process; one thread runs at a time.
    let known = if are_shared() { 0 } else { unsafe { (*t.files).get(fd).copied().unwrap_or(0) } };
    if known != 0 {
        return known;
    }
    if is_ours(fd as i32) {
        return 0;
    }
    let mut stat = Stat::default();
    if sys::call(nr::FSTAT, &[fd, &raw mut stat as usize]) != 0 {
        return 0;
    }
    let inode = stat.inode & abi::INODE;
    let what = match stat.mode & S_IFMT {
        S_IFREG if is_queue(fd) => kind::NATIVE,
        S_IFREG | S_IFDIR | S_IFBLK => kind::FILE,
        S_IFSOCK if post(t, abi::WHOSE, &[inode]) == 1 => kind::VIRTUAL,
        S_IFCHR if QUICK_DEVICES.contains(&stat.node) => kind::FILE,
        S_IFCHR if RANDOM_DEVICES.contains(&stat.node) => kind::RANDOM,
        _ => kind::NATIVE,
    };
    let terminal = if what == kind::NATIVE && stat.mode & S_IFMT == S_IFCHR { terminals::of_device(fd, stat.node) } else { 0 };
    let inotify = stat.mode & S_IFMT == 0 && is_own_machine() && is_inotify(fd);
    let word = what << 56
        | match () {
            () if inotify => abi::INOTIFY,
            () if terminal != 0 => terminal,
            () if what == kind::NATIVE => inode & !(abi::MASTER | abi::SLAVE),
            () => inode,
        };
    remember(t, fd, word);
    word
}

/// "/proc/self/fd/" and its number, with a zero at the end.
pub fn link(fd: usize) -> [u8; 32] {
    const FOLDER: &[u8] = b"/proc/self/fd/";
    let mut link = [0_u8; 32];
    link[..FOLDER.len()].copy_from_slice(FOLDER);
    sys::decimal(fd as u32 as u64, &mut link[FOLDER.len()..31]);
    link
}
/// What a descriptor leads to, as much as there is room for, without a zero at the end: how many bytes, or an errno.
pub fn target(fd: usize, into: &mut [u8]) -> isize {
    sys::call(nr::READLINK, &[link(fd).as_ptr() as usize, into.as_mut_ptr() as usize, into.len()])
}

/// Inode number; 0 when there is no such descriptor.
pub fn inode(fd: usize) -> u64 {
    let mut stat = Stat::default();
    if sys::call(nr::FSTAT, &[fd, &raw mut stat as usize]) != 0 { 0 } else { stat.inode & abi::INODE }
}
/// Is it a pipe, with a name or without?
pub fn is_pipe(fd: usize) -> bool {
    let mut stat = Stat::default();
    sys::call(nr::FSTAT, &[fd, &raw mut stat as usize]) == 0 && stat.mode & S_IFMT == 0o010_000
}
/// Is it a socket of any kind?
pub fn is_socket(fd: usize) -> bool {
    let mut stat = Stat::default();
    sys::call(nr::FSTAT, &[fd, &raw mut stat as usize]) == 0 && stat.mode & S_IFMT == S_IFSOCK
}

pub fn remember(t: &mut Thread, fd: usize, word: u64) {
    if fd < FILES {
        // SAFETY: as above.
        unsafe { (*t.files)[fd] = word };
    }
}
pub fn forget(t: &mut Thread, fd: usize) {
    remember(t, fd, 0);
}
/// Forgets a range, ends included.
pub fn forget_range(t: &mut Thread, first: usize, last: usize) {
    for fd in first..=last.min(FILES - 1) {
        forget(t, fd);
    }
}

/// Descriptors of the loader, which do not exist for the program.
pub fn is_ours(fd: i32) -> bool {
    (abi::DESCRIPTOR_LOADER..=abi::DESCRIPTOR_CONTROL).contains(&fd) || is_hidden(fd)
}

/// Does a call name a descriptor of ours? It is none for the program. The one place where all calls are checked.
pub fn names_ours(number: usize, a: &[usize; 6]) -> bool {
    let mut named = calls::DESCRIPTORS.get(number).copied().unwrap_or(0);
    while named != 0 {
        if is_ours(a[named.trailing_zeros() as usize % 6] as i32) {
            return true;
        }
        named &= named - 1;
    }
    false
}

/// Do the control messages of a message that is to be sent hand on a descriptor of ours?
pub fn hands_on_ours(message: usize) -> bool {
    const SOL_SOCKET: u64 = 1;
    const SCM_RIGHTS: u64 = 1;
    // struct msghdr: msg_control at 32, msg_controllen at 40; struct cmsghdr: length, level, type.
    let [Ok(at), Ok(left)] = [32, 40].map(|offset| sys::read_u64(message.wrapping_add(offset))) else { return false };
    let (mut at, mut left) = (at as usize, left as usize);
    while at != 0 && left >= 16 {
        let (Ok(length), Ok(kind)) = (sys::read_u64(at), sys::read_u64(at + 8)) else { return false };
        let length = (length as usize).min(left);
        if kind == SOL_SOCKET | SCM_RIGHTS << 32
            && (16..length).step_by(4).any(|offset| sys::read_u32(at + offset).is_ok_and(|fd| is_ours(fd as i32)))
        {
            return true;
        }
        let step = length.next_multiple_of(8);
        if step < 16 || step > left {
            break;
        }
        (at, left) = (at + step, left - step);
    }
    false
}

/// Is O_NONBLOCK set? `word`: what the descriptor is, one of the controller's.
pub fn is_nonblocking(fd: usize, word: u64) -> bool {
    let inode = word & abi::INODE;
    let slot = &header().nonblocking[inode as usize % abi::NONBLOCKING_KNOWN];
    let known = slot.load(Relaxed);
    // In real time others may change it at any time.
    if known >> 1 == inode && header().flags.load(Relaxed) & abi::STRICT == 0 {
        return known & 1 != 0;
    }
    let is = flags(fd) & O_NONBLOCK != 0;
    slot.store(inode << 1 | u64::from(is), Relaxed);
    is
}
/// The flags of the controller's object were changed, perhaps.
pub fn flags_changed(word: u64) {
    header().nonblocking[(word & abi::INODE) as usize % abi::NONBLOCKING_KNOWN].store(0, Relaxed);
}
/// F_GETFL; 0 when there is no such descriptor.
pub fn flags(fd: usize) -> isize {
    sys::call(nr::FCNTL, &[fd, 3]).max(0)
}
pub fn set_flags(fd: usize, flags: isize) {
    sys::call(nr::FCNTL, &[fd, 4, flags as usize]);
}
pub const NONBLOCK: isize = O_NONBLOCK;

/// close(2)
pub fn close(t: &mut Thread, fd: usize) -> isize {
    let fd = fd as u32 as usize;
    if is_ours(fd as i32) {
        return sys::EBADF;
    }
    let was = word(t, fd);
    forget(t, fd);
    let going = closing(t, fd, was);
    let result = sys::call(nr::CLOSE, &[fd]);
    gone(t, going);
    result
}

/// Is it a socket of the kernel's in which descriptors of the node's objects may wait (SCM_RIGHTS)?
fn may_hold_objects(fd: usize, word: u64) -> bool {
    header().sends_objects.load(Relaxed) != 0 && kind_of(word) == kind::NATIVE && is_socket(fd)
}

/// A read (`result`) of a socket throws away the descriptors that came with what it took.
pub fn taken(t: &mut Thread, fd: usize, word: u64, result: isize) {
    if result >= 0 && may_hold_objects(fd, word) {
        look_for_closed(t);
    }
}

/// Descriptors may be gone that were on their way: the controller looks at all objects.
pub fn look_for_closed(t: &mut Thread) {
    t.channel.descriptor.store(kind::VIRTUAL << 56, Relaxed);
    post(t, abi::CLOSED, &[]);
    touched();
}

/// A descriptor that is about to go.
pub struct Going {
    was: u64,
    may_hold_objects: bool,
}

/// A descriptor is about to go. A socket that lingers keeps the call that closes it waiting, so the controller must know of that call before it sees
/// the socket hang up.
pub fn closing(t: &mut Thread, fd: usize, was: u64) -> Going {
    let lingers = t.strict.on && kind_of(was) == kind::VIRTUAL && header().lingers.load(Relaxed) != 0;
    // It may be the first call of this thread that is about a socket.
    if lingers && real::join(t, false).is_ok() {
        t.channel.descriptor.store(was, Relaxed);
        post(t, abi::strict::CLOSING, &[]);
    }
    Going { was, may_hold_objects: may_hold_objects(fd, was) }
}

/// It has gone, with what was on its way in it.
pub fn gone(t: &mut Thread, going: Going) {
    closed(t, going.was);
    if going.may_hold_objects {
        look_for_closed(t);
    }
}

/// It has not gone after all.
pub fn stays(t: &mut Thread, going: Going) {
    if t.strict.joined && kind_of(going.was) == kind::VIRTUAL && header().lingers.load(Relaxed) != 0 {
        closed(t, going.was);
    }
}

/// Are there numbers for so many descriptors? Asked before a connection is taken, as Linux does: it waits for a call that has one.
pub fn has_room<const MANY: usize>() -> Result<(), isize> {
    const F_DUPFD_CLOEXEC: usize = 1030;
    let made: [isize; MANY] = core::array::from_fn(|_| sys::call(nr::FCNTL, &[abi::DESCRIPTOR_CONTROL as usize, F_DUPFD_CLOEXEC, 0]));
    for fd in made.into_iter().filter(|fd| *fd >= 0) {
        sys::call(nr::CLOSE, &[fd as usize]);
    }
    made.into_iter().find(|fd| *fd < 0).map_or(Ok(()), Err)
}

/// A descriptor is gone: perhaps the last of its object.
pub fn closed(t: &mut Thread, was: u64) {
    if t.strict.on {
        return closed_in_real_time(t, was);
    }
    match kind_of(was) {
        kind::VIRTUAL => {
            t.channel.descriptor.store(was, Relaxed);
            post(t, abi::CLOSED, &[]);
        }
        kind::NATIVE => touched(),
        _ => {}
    }
}

/// A descriptor is gone. What follows is done when close(2) returns, where the thread has a channel; else a moment later.
fn closed_in_real_time(t: &mut Thread, was: u64) {
    if !t.strict.joined {
        return;
    }
    match kind_of(was) {
        kind::VIRTUAL => {
            t.channel.descriptor.store(was, Relaxed);
            post(t, abi::CLOSED, &[]);
        }
        kind::EPOLL => {
            // SAFETY: the table is this process's; words are written whole.
            let another = are_shared() || unsafe { (*t.files).contains(&was) };
            if !another {
                t.channel.descriptor.store(was, Relaxed);
                post(t, abi::strict::FORGET, &[]);
            }
        }
        _ => {}
    }
}

/// Opens /proc/self/fdinfo/FD; or an errno.
fn open_info(fd: usize) -> isize {
    const INFO: &[u8] = b"/proc/self/fdinfo/";
    const O_CLOEXEC: usize = 0o2_000_000;
    let mut path = [0_u8; 40];
    path[..INFO.len()].copy_from_slice(INFO);
    sys::decimal(fd as u32 as u64, &mut path[INFO.len()..39]);
    sys::call(nr::OPEN, &[path.as_ptr() as usize, O_CLOEXEC, 0])
}

/// The first of the numbers that an epoll has for its members (`data` of struct epoll_event) which is wanted. None: it has no such member, is no epoll, or
/// there is no /proc. Its lines: `tfd: … events: … data: … pos:… ino:… sdev:…`, in hexadecimal.
pub fn member_of(epoll: usize, wanted: impl Fn(u64) -> bool) -> Option<u64> {
    const MARK: &[u8] = b"data:";
    let file = open_info(epoll);
    if file < 0 {
        return None;
    }
    let (mut matched, mut digits, mut value, mut found) = (0, 0, 0_u64, None);
    let mut text = [0_u8; 512];
    'all: loop {
        let bytes = sys::call(nr::READ, &[file as usize, text.as_mut_ptr() as usize, text.len()]);
        if bytes <= 0 {
            break;
        }
        for byte in &text[..bytes as usize] {
            let digit = (*byte as char).to_digit(16);
            match (matched == MARK.len(), digit) {
                (true, Some(digit)) => (value, digits) = (value << 4 | u64::from(digit), digits + 1),
                (true, None) if digits > 0 => {
                    if wanted(value) {
                        found = Some(value);
                        break 'all;
                    }
                    (matched, digits, value) = (0, 0, 0);
                }
                (true, None) => {}
                (false, _) if *byte == MARK[matched] => matched += 1,
                (false, _) => matched = usize::from(*byte == MARK[0]),
            }
        }
    }
    sys::call(nr::CLOSE, &[file as usize]);
    found
}

/// Is a regular file a message queue of POSIX?
fn is_queue(fd: usize) -> bool {
    let mut about = [0_u64; 8];
    header().queues.load(Relaxed) != 0 && sys::call(nr::MQ_GETSETATTR, &[fd, 0, about.as_mut_ptr() as usize]) == 0
}

/// Is it an epoll of the kernel's?
pub fn is_epoll(fd: usize) -> bool {
    let (mut stat, mut name) = (Stat::default(), [0_u8; 32]);
    let typeless = sys::call(nr::FSTAT, &[fd, &raw mut stat as usize]) == 0 && stat.mode & S_IFMT == 0;
    typeless && target(fd, &mut name) > 0 && name.starts_with(b"anon_inode:[eventpoll]")
}

/// Is a descriptor without a type of file (struct stat's mode says 0) one of inotify?
fn is_inotify(fd: usize) -> bool {
    let mut name = [0_u8; 32];
    target(fd, &mut name) > 0 && name.starts_with(b"anon_inode:inotify")
}

/// The number of the process that a pidfd names (/proc/self/fdinfo, "Pid:"). EBADF: it is none; ESRCH: it has ended and been waited for.
pub fn process_of(fd: usize) -> Result<usize, isize> {
    let file = open_info(fd);
    if file < 0 {
        return Err(sys::EBADF);
    }
    let mut text = [0_u8; 512];
    let bytes = sys::call(nr::PREAD64, &[file as usize, text.as_mut_ptr() as usize, text.len(), 0]);
    sys::call(nr::CLOSE, &[file as usize]);
    let line =
        text[..bytes.max(0) as usize].split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"Pid:\t")).ok_or(sys::EBADF)?;
    sys::number(line).map(|pid| pid as usize).ok_or(sys::ESRCH)
}

/// Puts a descriptor in another's place; returns that one.
pub fn replace(t: &mut Thread, fd: usize, by: usize, close_on_exec: bool) -> isize {
    const O_CLOEXEC: usize = 0o2_000_000;
    let word = word(t, by);
    let result = sys::call(nr::DUP3, &[by, fd, if close_on_exec { O_CLOEXEC } else { 0 }]);
    sys::call(nr::CLOSE, &[by]);
    forget(t, by);
    remember(t, fd, word);
    result
}
