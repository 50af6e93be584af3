//! Files under /proc that are served otherwise than by the kernel: they tell of the host, or are never the same twice.

use crate::abi;
use crate::arena::header;
use crate::block::Thread;
use crate::calls::number as nr;
use crate::channel::{Copies, exchange};
use crate::random;
use crate::sys;
use core::ffi::CStr;
use core::sync::atomic::Ordering::Relaxed;

const EXECUTABLE: &[u8] = b"/proc/self/exe";
/// Longest path that is looked at.
const PATH_BYTES: usize = 96;
const O_CLOEXEC: usize = 0o2_000_000;
const O_ACCMODE: usize = 3;
/// What the node has of System V's, and in which columns times stand: ipc/shm.c, sem.c, msg.c, sysvipc_*_proc_show.
const LISTS: [(&[u8], core::ops::Range<usize>); 3] =
    [(b"/proc/sysvipc/shm", 11..14), (b"/proc/sysvipc/sem", 8..10), (b"/proc/sysvipc/msg", 11..14)];
const UUID: &[u8] = b"/proc/sys/kernel/random/uuid";
/// A path, and what is opened instead: what `weft_process::files` has put there.
const BOOT_ID: (&[u8], &CStr) = (b"/proc/sys/kernel/random/boot_id", c"/run/weft/boot_id");

/// The beginning of a path of the program's, as much as is needed here; None: it cannot be read, or is longer.
fn with_path<R>(at: usize, look: impl FnOnce(&[u8]) -> R) -> Option<R> {
    let mut start = [0_u8; 6];
    // Nearly all paths are none of these: look at a few bytes first.
    if sys::copy_in(at, &mut start).is_err() || start != *b"/proc/" {
        return None;
    }
    let mut path = [0_u8; PATH_BYTES];
    sys::copy_string(at, &mut path).ok().map(look)
}

/// The process whose executable a path is: of all of them the kernel says that they have the loader's.
pub fn whose_executable(t: &Thread, at: usize) -> Option<&'static abi::Process> {
    const LOADER: &[u8] = b"/memfd:weft-loader";
    with_path(at, |path| {
        if path == EXECUTABLE {
            return Some(t.process);
        }
        let number = sys::number(path.strip_prefix(b"/proc/")?.strip_suffix(b"/exe")?)?;
        let mut there = [0_u8; LOADER.len()];
        let found = sys::call(nr::READLINK, &[at, there.as_mut_ptr() as usize, there.len()]);
        (found == LOADER.len() as isize && there == *LOADER).then(|| crate::identity::process_of(t, number as u32))?
    })?
}

/// Where what is to be opened instead of a path is named; None: the path itself.
pub fn instead(t: &Thread, at: usize) -> Option<usize> {
    if let Some(process) = whose_executable(t, at) {
        return Some(process.executable.pointer() as usize);
    }
    let own_files = header().real_start.load(Relaxed) != 0;
    with_path(at, |path| (own_files && path == BOOT_ID.0).then(|| BOOT_ID.1.as_ptr() as usize))?
}

/// Opens what the controller says instead of the kernel; None: it says nothing about this path.
pub fn said(t: &mut Thread, at: usize, flags: usize) -> Option<isize> {
    if header().real_start.load(Relaxed) == 0 {
        return None;
    }
    let (path, length) = with_path(at, |path| {
        let mut copy = [0_u8; PATH_BYTES];
        copy[..path.len()].copy_from_slice(path);
        (copy, path.len())
    })?;
    ask(t, &path[..length], flags, false)
}

/// A descriptor or an errno; None: it is the kernel's. `there`: the kernel has such a file.
fn ask(t: &mut Thread, path: &[u8], flags: usize, there: bool) -> Option<isize> {
    let from = path.as_ptr() as usize;
    let mut copies = Copies::new(t.channel);
    copies.add(from, path.len());
    let [close_on_exec, there] = [flags & O_CLOEXEC != 0, there].map(u64::from);
    let result = exchange(t, abi::SAID, &[from as u64, path.len() as u64, close_on_exec, there, (flags & O_ACCMODE) as u64]);
    match t.channel.answer.load(Relaxed) {
        abi::DESCRIPTOR => Some(crate::forward::receive_descriptor(t, result)),
        _ => (result < 0).then_some(result as isize),
    }
}

/// Settings of the node's, many of which the kernel has no file for here: it has those of one empty network.
const SETTINGS: &[u8] = b"/proc/sys/net/";
/// What is as these are: a file that root may write, and a folder.
const LIKE_A_SETTING: &CStr = c"/proc/sys/net/core/somaxconn";
const LIKE_A_FOLDER: &CStr = c"/proc/sys/net/ipv4/conf/lo";

/// The whole path of what may be a setting, and its length; None: it is none, or longer than any.
fn setting(folder: usize, at: usize) -> Option<([u8; PATH_BYTES], usize)> {
    below(SETTINGS, folder, at)
}

/// The whole path of what is below a folder, which is named with a slash at its end, and its length; None: it is not there, or longer than any.
fn below(top: &[u8], folder: usize, at: usize) -> Option<([u8; PATH_BYTES], usize)> {
    let mut text = [0_u8; PATH_BYTES];
    let path = sys::copy_string(at, &mut text).ok().filter(|path| !path.is_empty())?;
    let mut whole = [0_u8; PATH_BYTES];
    let mut length = 0;
    if path[0] != b'/' {
        length = if folder as i32 == sys::AT_FDCWD as i32 {
            // With the zero at its end.
            sys::call(nr::GETCWD, &[whole.as_mut_ptr() as usize, PATH_BYTES]) - 1
        } else {
            crate::descriptor::target(folder, &mut whole)
        };
        let there = usize::try_from(length).ok().filter(|length| *length < PATH_BYTES)?;
        // The folder itself has no slash at its end.
        if !whole[..there].starts_with(&top[..top.len() - 1]) {
            return None;
        }
        whole[there] = b'/';
        length += 1;
    }
    let mut length = length as usize;
    let mut path = path;
    loop {
        if let Some(rest) = path.strip_prefix(b"./") {
            path = rest;
        } else if let Some(rest) = path.strip_prefix(b"../") {
            path = rest;
            length = whole[..length.saturating_sub(1)].iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
        } else {
            break;
        }
    }
    whole.get_mut(length..length + path.len())?.copy_from_slice(path);
    let whole_length = length + path.len();
    whole[..whole_length].starts_with(top).then_some((whole, whole_length))
}

/// What st_nlink says of the folder that a path or, where that is empty, a descriptor names: 2 and each folder in it (fs/proc/base.c, proc_task_getattr). None:
/// it is not that of the threads of a process. The caller knows that it is below /proc.
pub fn links(t: &mut Thread, folder: usize, path: usize) -> Option<u64> {
    let mut first = [0_u8; 1];
    let (whole, length) = if path == 0 || sys::copy_in(path, &mut first).is_ok() && first[0] == 0 {
        let mut whole = [0_u8; PATH_BYTES];
        let length = usize::try_from(crate::descriptor::target(folder, &mut whole)).ok().filter(|length| *length < PATH_BYTES)?;
        (whole, length)
    } else {
        below(b"/proc/", folder, path)?
    };
    if !whole[..length].strip_suffix(b"/").unwrap_or(&whole[..length]).ends_with(b"/task") {
        return None;
    }
    let from = whole.as_ptr() as usize;
    let mut copies = Copies::new(t.channel);
    copies.add(from, length);
    let answer = exchange(t, abi::SAID, &[from as u64, length as u64, 0, 0, abi::ASKS]);
    u64::try_from(answer.checked_sub(abi::HAS_THREADS)?).ok().map(|threads| threads + 2)
}

/// The folders of /sys whose contents the controller makes.
const SYS: [&[u8]; 2] = [b"/sys/class", b"/sys/devices/virtual"];

/// Before something below /sys is looked for: the interfaces of the node have their files there.
pub fn before_sys(t: &mut Thread, at: usize) {
    let mut start = [0_u8; 7];
    if header().real_start.load(Relaxed) == 0 || sys::copy_in(at, &mut start).is_err() || !matches!(&start, b"/sys/cl" | b"/sys/de") {
        return;
    }
    let mut text = [0_u8; PATH_BYTES];
    let Ok(path) = sys::copy_string(at, &mut text) else { return };
    if SYS.iter().any(|folder| path.starts_with(folder)) || path.strip_suffix(b"/").unwrap_or(path) == b"/sys/devices" {
        let from = SYS[0].as_ptr() as usize;
        let mut copies = Copies::new(t.channel);
        copies.add(from, SYS[0].len());
        exchange(t, abi::SAID, &[from as u64, SYS[0].len() as u64, 0, 0, abi::ASKS]);
    }
}

/// Asks about a path. What is a setting of the node's is as LIKE_A_SETTING: the kernel has no such file, or lets nobody write to it. `ask`: the call, of a folder
/// and a path; `is_of_proc`: what it has found is below /proc.
pub fn asked(t: &mut Thread, folder: usize, path: usize, ask: &dyn Fn(usize, usize) -> isize, is_of_proc: &dyn Fn() -> bool) -> isize {
    if header().real_start.load(Relaxed) == 0 {
        return ask(folder, path);
    }
    before_sys(t, path);
    let result = ask(folder, path);
    let looks = matches!(result, sys::ENOENT | sys::EACCES) || result == 0 && is_of_proc();
    let whole = if looks { setting(folder, path) } else { None };
    let Some((whole, length)) = whole else { return result };
    let from = whole.as_ptr() as usize;
    let mut copies = Copies::new(t.channel);
    copies.add(from, length);
    match exchange(t, abi::SAID, &[from as u64, length as u64, 0, 0, abi::ASKS]) {
        abi::IS_FILE => ask(sys::AT_FDCWD, LIKE_A_SETTING.as_ptr() as usize),
        abi::IS_FOLDER => ask(sys::AT_FDCWD, LIKE_A_FOLDER.as_ptr() as usize),
        _ => result,
    }
}

/// Opens a setting by a path from a folder, where the kernel has none; None: it is none.
pub fn opened_from(t: &mut Thread, folder: usize, path: usize, flags: usize) -> Option<isize> {
    let (whole, length) = setting(folder, path).filter(|_| header().real_start.load(Relaxed) != 0)?;
    ask(t, &whole[..length], flags, false)
}

/// The device number of /proc; 0: not looked up yet.
static mut DEVICE: u64 = 0;

/// Where it is in a structure that a call has filled.
pub fn is_device(read: impl FnOnce() -> Result<u64, isize>) -> bool {
    read().is_ok_and(|found| found == device())
}

fn device() -> u64 {
    // SAFETY: one thread runs at a time.
    let known = unsafe { DEVICE };
    if known != 0 {
        return known;
    }
    let mut stat = [0_u64; 18];
    let found = sys::call(nr::STAT, &[c"/proc".as_ptr() as usize, stat.as_mut_ptr() as usize]) == 0;
    // SAFETY: as above.
    unsafe { DEVICE = if found { stat[0] } else { u64::MAX } };
    stat[0]
}

/// A file has been opened. If it is one of /proc, by whatever way (a link, relative to a folder), what the controller says takes its place.
pub fn opened(t: &mut Thread, fd: usize, flags: usize) -> isize {
    const S_IFMT: u32 = 0o170_000;
    const S_IFREG: u32 = 0o100_000;
    let close_on_exec = flags & O_CLOEXEC != 0;
    let mut stat = [0_u64; 18];
    let regular = |stat: &[u64; 18]| stat[3] as u32 & S_IFMT == S_IFREG;
    if header().real_start.load(Relaxed) == 0
        || sys::call(nr::FSTAT, &[fd, stat.as_mut_ptr() as usize]) != 0
        || !regular(&stat)
        || stat[0] != device() && stat[0] != header().sys_device.load(Relaxed)
    {
        return fd as isize;
    }
    let mut path = [0_u8; PATH_BYTES];
    let length = crate::descriptor::target(fd, &mut path[..PATH_BYTES - 1]);
    if length <= 0 || length as usize >= PATH_BYTES - 1 {
        return fd as isize;
    }
    let length = length as usize;
    let other = match instead(t, path.as_ptr() as usize) {
        Some(name) => sys::call(nr::OPEN, &[name, if close_on_exec { O_CLOEXEC } else { 0 }, 0]),
        None if path[..length] == *UUID => uuid(t).unwrap_or(fd as isize),
        None => match LISTS.iter().find(|(list, _)| path[..length] == **list) {
            Some((_, times)) => plain_list(fd, times),
            None => match ask(t, &path[..length], flags, true) {
                Some(other) => other,
                None => return fd as isize,
            },
        },
    };
    if other < 0 {
        sys::call(nr::CLOSE, &[fd]);
        return other;
    }
    crate::descriptor::replace(t, fd, other as usize, close_on_exec)
}

/// What the kernel lists of System V's: when it was used is the node's start, as in shmctl(2), and what stands behind that (how much of a segment is in memory)
/// is the host's affair.
fn plain_list(fd: usize, times: &core::ops::Range<usize>) -> isize {
    let copy = sys::call(nr::MEMFD_CREATE, &[c"sysvipc".as_ptr() as usize, 0]);
    if copy < 0 {
        return copy;
    }
    let mut digits = [0_u8; 24];
    let epoch = sys::decimal(header().clocks.began.load(Relaxed) / 1_000_000_000, &mut digits);
    let mut line = [0_u8; 256];
    let (mut read, mut written, mut first) = (0, 0, true);
    loop {
        let bytes = sys::call(nr::PREAD64, &[fd, line.as_mut_ptr() as usize, line.len(), read]).max(0) as usize;
        let Some(length) = line[..bytes].iter().position(|byte| *byte == b'\n').map(|at| at + 1) else { return copy };
        let (mut field, mut at) = (0, 0);
        while !first && at < length - 1 {
            let from = at;
            at += line[at..length - 1].iter().take_while(|byte| **byte == b' ').count();
            let begin = at;
            at += line[at..length - 1].iter().take_while(|byte| **byte != b' ').count();
            let never = line[begin..at] == *b"0";
            if field >= times.start && !never && begin < at {
                let value = if field < times.end { &digits[..epoch] } else { b"0" };
                let value = &value[value.len().saturating_sub(at - from)..];
                line[from..at].fill(b' ');
                line[at - value.len()..at].copy_from_slice(value);
            }
            field += 1;
        }
        first = false;
        sys::call(nr::PWRITE64, &[copy as usize, line.as_ptr() as usize, length, written]);
        (read, written) = (read + length, written + length);
    }
}

/// Kinds of links under /proc whose text says the host's number of a file, and a file of that kind, whose device is the kind's.
const NUMBERED: [(&[u8], &CStr); 10] = [
    (b"pipe:[", c""),
    (b"socket:[", c""),
    (b"net:[", c"/proc/self/ns/net"),
    (b"pid:[", c"/proc/self/ns/net"),
    (b"user:[", c"/proc/self/ns/net"),
    (b"mnt:[", c"/proc/self/ns/net"),
    (b"uts:[", c"/proc/self/ns/net"),
    (b"ipc:[", c"/proc/self/ns/net"),
    (b"cgroup:[", c"/proc/self/ns/net"),
    (b"time:[", c"/proc/self/ns/net"),
];

/// The device of such files.
fn device_of(kind: &[u8], example: &CStr) -> u64 {
    let mut stat = [0_u64; 18];
    if !example.is_empty() {
        sys::call(nr::STAT, &[example.as_ptr() as usize, stat.as_mut_ptr() as usize]);
        return stat[0];
    }
    let mut ends = [0_u32; 2];
    let at = ends.as_mut_ptr() as usize;
    let made = if kind == b"pipe:[" { sys::call(nr::PIPE, &[at]) } else { sys::call(nr::SOCKETPAIR, &[1, 1, 0, at]) };
    if made == 0 {
        sys::call(nr::FSTAT, &[ends[0] as usize, stat.as_mut_ptr() as usize]);
        ends.iter().for_each(|fd| {
            sys::call(nr::CLOSE, &[*fd as usize]);
        });
    }
    stat[0]
}

/// readlink(2) has found something, by whatever path: "pipe:[4711]" and "socket:[4711]" under /proc say the host's numbers. Returns the length that it has now.
/// `[buf, bufsiz]`: where it was written; `read`: the call with others of these.
pub fn plain_link(
    folder: usize,
    path: usize,
    [buf, bufsiz]: [usize; 2],
    length: usize,
    read: &dyn Fn(usize, usize) -> isize,
) -> Result<usize, isize> {
    const NOFOLLOW_EMPTY_PATH: usize = 0x1100;
    let mut start = [0_u8; 8];
    if header().real_start.load(Relaxed) == 0 || length < 2 {
        return Ok(length);
    }
    sys::copy_in(buf, &mut start[..length.min(8)])?;
    // Nearly all links are paths.
    if start[0] == b'/' || !start[0].is_ascii_lowercase() {
        return Ok(length);
    }
    // All of it, however little the program asked for.
    let mut text = [0_u8; 64];
    let bytes = read(text.as_mut_ptr() as usize, 40).max(0) as usize;
    let Some((kind, example)) = NUMBERED.iter().find(|(kind, _)| text[..bytes].starts_with(kind)) else { return Ok(length) };
    let mut stat = [0_u64; 18];
    let found = sys::call(nr::NEWFSTATAT, &[folder, path, stat.as_mut_ptr() as usize, NOFOLLOW_EMPTY_PATH]);
    let digits = &text[kind.len()..bytes];
    let Some((b']', digits)) = digits.split_last() else { return Ok(length) };
    let Some(inode) = sys::number(digits).filter(|_| found == 0 && stat[0] == device()) else { return Ok(length) };
    let digits = sys::decimal(crate::files::number(inode, device_of(kind, example)), &mut text[kind.len()..]);
    let end = kind.len() + digits;
    text[end] = b']';
    let length = (end + 1).min(bufsiz);
    sys::copy_out(buf, &text[..length]).map(|()| length)
}

pub fn is_uuid(at: usize) -> bool {
    header().real_start.load(Relaxed) != 0 && with_path(at, |path| path == UUID) == Some(true)
}

/// A file with a new UUID (RFC 9562, version 4) of the program's own randomness.
pub fn uuid(t: &mut Thread) -> Result<isize, isize> {
    let mut random = [0_u8; 16];
    random::bytes(t, &mut random);
    random[6] = random[6] & 0x0f | 0x40;
    random[8] = random[8] & 0x3f | 0x80;
    let mut text = [b'-'; 37];
    let mut at = 0;
    for (index, byte) in random.into_iter().enumerate() {
        at += usize::from(matches!(index, 4 | 6 | 8 | 10));
        for digit in [byte >> 4, byte & 15] {
            text[at] = b"0123456789abcdef"[usize::from(digit)];
            at += 1;
        }
    }
    text[36] = b'\n';
    let fd = sys::call(nr::MEMFD_CREATE, &[c"uuid".as_ptr() as usize, 0]);
    if fd >= 0 {
        sys::call(nr::PWRITE64, &[fd as usize, text.as_ptr() as usize, text.len(), 0]);
    }
    Ok(fd)
}
