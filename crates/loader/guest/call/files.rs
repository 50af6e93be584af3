//! Calls on files, by path and by descriptor: who answers for what is not as the kernel has it.

use crate::abi::{self, kind};
use crate::arena::{self, is_own_machine};
use crate::arena::touched;
use crate::block::Thread;
use crate::calls::number as nr;
use crate::calls::*;
use crate::channel::post;
use crate::copy_up;
use crate::descriptor;
use crate::files;
use crate::forward::{Answer, forward, kernel as by_kernel, unsupported};
use crate::identity::{self, SAME};
use crate::layer;
use crate::limits;
use crate::listing;
use crate::output_file;
use crate::proc;
use crate::sys;
use crate::terminals;
use crate::times::{self, Places};
use core::sync::atomic::Ordering::Relaxed;

const AT_SYMLINK_NOFOLLOW: usize = 0x100;
const AT_EMPTY_PATH: usize = 0x1000;
const ESPIPE: isize = -29;

/// Where a path argument is, or where what it names really is.
pub fn path_of(t: &Thread, path: Path) -> Path {
    proc::instead(t, path.0).map_or(path, Path)
}

/// open(2)
pub fn open(t: &mut Thread, call: Open) -> Answer {
    let open = |path, flags| by_kernel(&Open { filename: Path(path), flags: OpenFlags(flags), ..call });
    opening(t, Open::NUMBER, sys::AT_FDCWD, call.filename, call.flags.0, &open)
}

/// creat(2): of a named pipe it waits as open(2) does.
pub fn creat(t: &mut Thread, call: Creat) -> Answer {
    const O_WRONLY_CREAT_TRUNC: usize = 0o1101;
    open(t, Open { filename: call.pathname, flags: OpenFlags(O_WRONLY_CREAT_TRUNC), mode: call.mode })
}

/// openat(2)
pub fn openat(t: &mut Thread, call: Openat) -> Answer {
    let open = |path, flags| by_kernel(&Openat { filename: Path(path), flags: OpenFlags(flags), ..call });
    opening(t, Openat::NUMBER, call.dfd.0, call.filename, call.flags.0, &open)
}

/// openat2(2). Where it says how a path is to be followed, the kernel follows it, and nothing else is opened instead.
pub fn openat2(t: &mut Thread, call: Openat2) -> Answer {
    let how = how(&call)?;
    let open = |path: usize, flags: usize| {
        let how = [flags as u64, how[1], how[2]];
        by_kernel(&Openat2 { filename: Path(path), how: In::of(how.as_ptr() as usize), usize: Size(size_of_val(&how)), ..call })
    };
    // build_open_flags comes before getname.
    if open(c"".as_ptr() as usize, how[0] as usize) == sys::EINVAL {
        return Err(sys::EINVAL);
    }
    if how[2] == 0 {
        return opening(t, Openat2::NUMBER, call.dfd.0, call.filename, how[0] as usize, &open);
    }
    Ok(opening_path(t, Openat2::NUMBER, call.dfd.0, call.filename.0, how[0] as usize, &open))
}

/// The program's struct open_how: flags, mode, resolve. RESOLVE_CACHED asks what the kernel knows by heart, which is chance: all is known.
fn how(call: &Openat2) -> Result<[u64; 3], isize> {
    const RESOLVE_CACHED: u64 = 0x20;
    const KNOWN_BYTES: usize = 24;
    const PAGE_BYTES: usize = 4096;
    let (at, bytes) = (call.how.0, call.usize.0);
    // fs/open.c, SYSCALL_DEFINE4(openat2), and copy_struct_from_user: what is not known must be zero.
    if bytes < KNOWN_BYTES {
        return Err(sys::EINVAL);
    }
    if bytes > PAGE_BYTES {
        return Err(sys::E2BIG);
    }
    for offset in KNOWN_BYTES..bytes {
        let mut byte = [0_u8];
        sys::copy_in(at + offset, &mut byte)?;
        if byte[0] != 0 {
            return Err(sys::E2BIG);
        }
    }
    Ok([sys::read_u64(at)?, sys::read_u64(at + 8)?, sys::read_u64(at + 16)? & !RESOLVE_CACHED])
}

/// What opens a file. `open`: the call with another path and other flags.
fn opening(t: &mut Thread, number: usize, folder: usize, path: Path, flags: usize, open: &dyn Fn(usize, usize) -> isize) -> Answer {
    if proc::is_uuid(path.0) {
        return proc::uuid(t);
    }
    if let Some(fd) = proc::said(t, path.0, flags) {
        return Ok(fd);
    }
    proc::before_sys(t, path.0);
    let path = path_of(t, path).0;
    let fd = opening_path(t, number, folder, path, flags, open);
    if fd == sys::ENOENT { Ok(proc::opened_from(t, folder, path, flags).unwrap_or(fd)) } else { Ok(fd) }
}

/// The same, of this very path.
fn opening_path(t: &mut Thread, number: usize, folder: usize, path: usize, flags: usize, open: &dyn Fn(usize, usize) -> isize) -> isize {
    const O_ACCMODE: usize = 3;
    const O_CREAT: usize = 0o100;
    const O_NONBLOCK: usize = 0o4000;
    const O_PATH: usize = 0o10_000_000;
    const S_IFMT: u32 = 0o170_000;
    const S_IFIFO: u32 = 0o010_000;
    let mut stat = [0_u32; 36];
    let found = flags & O_PATH == 0 && sys::call(nr::NEWFSTATAT, &[folder, path, stat.as_mut_ptr() as usize, 0]) == 0;
    if found
        && output_file::may_be_on(u64::from(stat[1]) << 32 | u64::from(stat[0]))
        && let Some(fd) = output_file::open(flags, &|flags| open(path, flags))
    {
        return fd;
    }
    // Opening a named pipe waits for the other side.
    if found && flags & O_NONBLOCK == 0 && stat[6] & S_IFMT == S_IFIFO {
        return open_pipe(t, number, flags & O_ACCMODE == 0, &|| open(path, flags | O_NONBLOCK));
    }
    let fd = if flags & (O_CREAT | O_ACCMODE) == 0 {
        open(path, flags)
    } else {
        let make = || identity::creating(t, folder, path, &|| open(path, flags));
        copy_up::changing(t, folder, path, true, &make)
    };
    let whole = fd >= 0 && flags & O_PATH == 0;
    if whole && found && flags & O_ACCMODE == 0 {
        note(fd as usize, &stat);
    }
    if whole {
        terminals::opened(fd as usize);
    }
    if whole { proc::opened(t, fd as usize, flags) } else { fd }
}

/// A program is begun from a file that may be the host's, or from a script.
pub fn note_executed(fd: usize) {
    let mut stat = [0_u32; 36];
    if sys::call(nr::FSTAT, &[fd, stat.as_mut_ptr() as usize]) == 0 {
        note(fd, &stat);
    }
}

/// A file was opened that may be the host's: its path is kept once. `stat`: what newfstatat(2) says of it.
fn note(fd: usize, stat: &[u32; 36]) {
    if !is_own_machine() {
        return;
    }
    let seen = arena::seen();
    let (device, inode) = (u64::from(stat[0]) | u64::from(stat[1]) << 32, u64::from(stat[2]) | u64::from(stat[3]) << 32);
    let bit = abi::seen_bit(inode, device);
    if seen.known[bit / 64].fetch_or(1 << (bit % 64), Relaxed) & 1 << (bit % 64) != 0 {
        return;
    }
    let mut path = [0_u8; 256];
    let length = descriptor::target(fd, &mut path);
    if length <= 0 || length as usize >= path.len() || path[0] != b'/' {
        return;
    }
    let bytes = length as usize + 1;
    let at = seen.used.load(Relaxed) as usize;
    seen.used.store((at + bytes).min(u32::MAX as usize) as u32, Relaxed);
    if at + bytes <= abi::SEEN_BYTES {
        seen.names[at..at + bytes].iter().zip(path).for_each(|(place, byte)| place.store(byte, Relaxed));
    }
}

/// A named pipe, whose other side is waited for.
fn open_pipe(t: &mut Thread, number: usize, reads: bool, open: &dyn Fn() -> isize) -> isize {
    const ENXIO: isize = -6;
    touched();
    loop {
        let fd = open();
        if fd >= 0 {
            while reads && !has_writer(fd as usize) {
                if post(t, abi::BLOCKED, &[u64::MAX, 0, number as u64]) < 0 {
                    sys::call(nr::CLOSE, &[fd as usize]);
                    return abi::RESTART as isize;
                }
            }
            descriptor::set_flags(fd as usize, descriptor::flags(fd as usize) & !descriptor::NONBLOCK);
        }
        if fd != ENXIO {
            return fd;
        }
        if post(t, abi::BLOCKED, &[u64::MAX, 0, number as u64]) < 0 {
            return abi::RESTART as isize;
        }
    }
}

/// Has a named pipe that was opened with O_NONBLOCK for reading a writer, or had it one since?
fn has_writer(fd: usize) -> bool {
    // struct pollfd: events POLLIN. A pipe whose writer has gone again says POLLHUP, one that never had one says nothing.
    let mut set = [fd as u32, 1];
    if sys::call(nr::POLL, &[set.as_mut_ptr() as usize, 1, 0]) > 0 {
        return true;
    }
    // Without a writer it is at its end; with one there is nothing to read yet.
    let mut byte = [0_u8];
    sys::call(nr::READ, &[fd, byte.as_mut_ptr() as usize, 1]) == sys::EAGAIN
}

/// readlink(2)
pub fn readlink(t: &mut Thread, call: Readlink) -> Answer {
    let read = |_, path, buf, bufsiz| by_kernel(&Readlink { path: Path(path), buf: Address(buf), bufsiz: Int(bufsiz) });
    link(t, sys::AT_FDCWD, call.path, call.buf, call.bufsiz, &read)
}

/// readlinkat(2)
pub fn readlinkat(t: &mut Thread, call: Readlinkat) -> Answer {
    let read = |folder, path, buf, bufsiz| by_kernel(&Readlinkat { dfd: Dir(folder), pathname: Path(path), buf: Address(buf), bufsiz: Int(bufsiz) });
    link(t, call.dfd.0, call.pathname, call.buf, call.bufsiz, &read)
}

/// `read`: the call of a folder and a path, with room and its length.
fn link(t: &mut Thread, folder: usize, path: Path, buf: Address, bufsiz: Int, read: &dyn Fn(usize, usize, usize, usize) -> isize) -> Answer {
    let Some(process) = proc::whose_executable(t, path.0) else {
        let result = proc::asked(t, folder, path.0, &|folder, path| read(folder, path, buf.0, bufsiz.0), &|| false);
        let read = &|buf, bufsiz| read(folder, path.0, buf, bufsiz);
        return if result > 0 {
            proc::plain_link(folder, path.0, [buf.0, bufsiz.0], result as usize, read).map(|length| length as isize)
        } else {
            Ok(result)
        };
    };
    let mut name = [0_u8; abi::PATH_BYTES];
    process.executable.get(0, &mut name);
    let length = name.iter().position(|byte| *byte == 0).unwrap_or(0).min(bufsiz.0);
    sys::copy_out(buf.0, &name[..length])?;
    Ok(length as isize)
}

/// Of what a process executes, where a path names that.
fn or_executable(t: &Thread, path: Path) -> Path {
    proc::whose_executable(t, path.0).map_or(path, |process| Path(process.executable.pointer() as usize))
}

/// stat(2)
pub fn stat(t: &mut Thread, call: Stat) -> Answer {
    let path = or_executable(t, call.filename).0;
    let ask = |_, path| by_kernel(&Stat { filename: Path(path), ..call });
    let result = proc::asked(t, sys::AT_FDCWD, path, &ask, &|| is_of_proc(call.statbuf.0));
    told(t, result, call.statbuf.0, (sys::AT_FDCWD, path))
}

/// fstat(2)
pub fn fstat(t: &mut Thread, call: Fstat) -> Answer {
    told(t, by_kernel(&call), call.statbuf.0, (call.fd.0, 0))
}

/// lstat(2)
pub fn lstat(t: &mut Thread, call: Lstat) -> Answer {
    let ask = |_, path| by_kernel(&Lstat { filename: Path(path), ..call });
    let result = proc::asked(t, sys::AT_FDCWD, call.filename.0, &ask, &|| is_of_proc(call.statbuf.0));
    told(t, result, call.statbuf.0, (sys::AT_FDCWD, call.filename.0))
}

/// newfstatat(2)
pub fn newfstatat(t: &mut Thread, call: Newfstatat) -> Answer {
    let filename = if call.flag.0 & AT_SYMLINK_NOFOLLOW == 0 { or_executable(t, call.filename) } else { call.filename };
    let ask = |folder, path| by_kernel(&Newfstatat { dfd: Dir(folder), filename: Path(path), ..call });
    let result = proc::asked(t, call.dfd.0, filename.0, &ask, &|| is_of_proc(call.statbuf.0));
    told(t, result, call.statbuf.0, (call.dfd.0, filename.0))
}

/// Is what `struct stat` at an address tells of below /proc?
fn is_of_proc(at: usize) -> bool {
    proc::is_device(|| sys::read_u64(at))
}

/// What `struct stat` at an address says that depends on the host: whose a file is, and when it was written (see `times`).
/// `named`: by which folder or descriptor, and path.
fn told(t: &mut Thread, result: isize, at: usize, named: (usize, usize)) -> Answer {
    if result < 0 || !is_own_machine() {
        return Ok(result);
    }
    let links = if is_of_proc(at) { proc::links(t, named.0, named.1) } else { None };
    files::plain_stat(at)?;
    if let Some(links) = links {
        sys::write_u64(at + 16, links)?;
    }
    // atime, mtime, ctime
    let places = Places { accessed: at + 72, written: at + 88, changed: at + 104, made: 0 };
    times::show(&places, sys::read_u32(at + 24)?).map(|()| result)
}

/// statx(2)
pub fn statx(t: &mut Thread, call: Statx) -> Answer {
    let filename = if call.flags.0 & AT_SYMLINK_NOFOLLOW == 0 { or_executable(t, call.filename) } else { call.filename };
    let ask = |folder, path| by_kernel(&Statx { dfd: Dir(folder), filename: Path(path), ..call });
    let result = proc::asked(t, call.dfd.0, filename.0, &ask, &|| proc::is_device(|| files::device_of_statx(call.buffer.0)));
    if result < 0 || !is_own_machine() {
        return Ok(result);
    }
    let at = call.buffer.0;
    let of_proc = proc::is_device(|| files::device_of_statx(at));
    let links = if of_proc { proc::links(t, call.dfd.0, filename.0) } else { None };
    files::plain_statx(at)?;
    if let Some(links) = links {
        sys::write_u32(at + 16, links as u32)?;
    }
    times::show(&Places::of_statx(at), sys::read_u32(at + 28)?).map(|()| result)
}

/// access(2)
pub fn access(t: &mut Thread, call: Access) -> isize {
    proc::asked(t, sys::AT_FDCWD, call.filename.0, &|_, path| by_kernel(&Access { filename: Path(path), ..call }), &|| false)
}

/// faccessat(2)
pub fn faccessat(t: &mut Thread, call: Faccessat) -> isize {
    let ask = |folder, path| by_kernel(&Faccessat { dfd: Dir(folder), filename: Path(path), ..call });
    proc::asked(t, call.dfd.0, call.filename.0, &ask, &|| false)
}

/// faccessat2(2)
pub fn faccessat2(t: &mut Thread, call: Faccessat2) -> isize {
    let ask = |folder, path| by_kernel(&Faccessat2 { dfd: Dir(folder), filename: Path(path), ..call });
    proc::asked(t, call.dfd.0, call.filename.0, &ask, &|| false)
}

/// statfs(2)
pub fn statfs(_: &mut Thread, call: Statfs) -> Answer {
    told_of_system(by_kernel(&call), call.buf.0)
}

/// fstatfs(2)
pub fn fstatfs(_: &mut Thread, call: Fstatfs) -> Answer {
    told_of_system(by_kernel(&call), call.buf.0)
}

fn told_of_system(result: isize, at: usize) -> Answer {
    if result >= 0 && is_own_machine() {
        files::plain_statfs(at)?;
    }
    Ok(result)
}

/// getdents(2)
pub fn getdents(_: &mut Thread, call: Getdents) -> Answer {
    told_entries(&call, call.fd, call.dirent, call.count, 18)
}

/// getdents64(2)
pub fn getdents64(_: &mut Thread, call: Getdents64) -> Answer {
    told_entries(&call, call.fd, call.dirent, call.count, 19)
}

/// `name_at`: where a name stands in an entry.
fn told_entries<C: Call>(call: &C, fd: Fd, at: Address, count: Uint, name_at: usize) -> Answer {
    if !is_own_machine() {
        return Ok(by_kernel(call));
    }
    let result = listing::entries(C::NUMBER, fd.0, at.0, count.0, name_at);
    if result > 0 {
        files::plain_entries(fd.0, at.0, result as usize)?;
    }
    Ok(result)
}

macro_rules! making {
    ($($name:ident $call:ident $page:literal $([$folder:ident])? $path:ident;)*) => { $(
        #[doc = $page]
        pub fn $name(t: &mut Thread, call: $call) -> isize {
            let folder = [$(call.$folder.0,)? sys::AT_FDCWD][0];
            identity::creating(t, folder, call.$path.0, &|| by_kernel(&call))
        }
    )* };
}

making! {
    mkdir Mkdir "mkdir(2)" pathname;
    mkdirat Mkdirat "mkdirat(2)" [dfd] pathname;
    mknod Mknod "mknod(2)" filename;
    mknodat Mknodat "mknodat(2)" [dfd] filename;
    symlink Symlink "symlink(2)" newname;
    symlinkat Symlinkat "symlinkat(2)" [newdfd] newname;
}

macro_rules! changing {
    ($($name:ident $call:ident $page:literal $([$folder:ident])? $path:ident $follow:literal;)*) => { $(
        #[doc = $page]
        pub fn $name(t: &mut Thread, call: $call) -> isize {
            let folder = [$(call.$folder.0,)? sys::AT_FDCWD][0];
            copy_up::changing(t, folder, call.$path.0, $follow, &|| by_kernel(&call))
        }
    )* };
}

// Calls that change what a path names; whether a link at its end is followed.
changing! {
    chmod Chmod "chmod(2)" filename true;
    fchmodat Fchmodat "fchmodat(2)" [dfd] filename true;
    fchmodat2 Fchmodat2 "fchmodat2(2)" [dfd] filename true;
    hard_link Link "link(2)" oldname false;
    linkat Linkat "linkat(2)" [olddfd] oldname false;
    rename Rename "rename(2)" oldname false;
    renameat Renameat "renameat(2)" [olddfd] oldname false;
    renameat2 Renameat2 "renameat2(2)" [olddfd] oldname false;
}

/// truncate(2)
pub fn truncate(t: &mut Thread, call: Truncate) -> Answer {
    if output_file::is_at(sys::AT_FDCWD, call.path.0) {
        return Err(sys::EINVAL);
    }
    Ok(copy_up::changing(t, sys::AT_FDCWD, call.path.0, true, &|| by_kernel(&call)))
}

/// ftruncate(2)
pub fn ftruncate(_: &mut Thread, call: Ftruncate) -> isize {
    if output_file::is(call.fd.0) { sys::EINVAL } else { by_kernel(&call) }
}

/// fallocate(2)
pub fn fallocate(_: &mut Thread, call: Fallocate) -> isize {
    if output_file::is(call.fd.0) { ESPIPE } else { by_kernel(&call) }
}

/// lseek(2): the node's settings are files, too.
pub fn lseek(t: &mut Thread, call: Lseek) -> isize {
    let word = descriptor::word(t, call.fd.0);
    if descriptor::kind_of(word) == kind::VIRTUAL { forward(t, &call, word) } else { by_kernel(&call) }
}

/// fchmod(2)
pub fn fchmod(t: &mut Thread, call: Fchmod) -> isize {
    let by_path = |path| by_kernel(&Chmod { filename: Path(path), mode: call.mode });
    copy_up::changing_open(t, call.fd.0, &|| by_kernel(&call), &by_path)
}

const NOBODY: Id = Id(SAME as usize);

/// chown(2): checked as far as the kernel does without anything becoming somebody else's; whose it is now is our own knowledge. The next three do the same.
pub fn chown(t: &mut Thread, call: Chown) -> isize {
    let checked = Chown { user: NOBODY, group: NOBODY, ..call };
    given_away(t, sys::AT_FDCWD, call.filename, 0, [call.user, call.group], &|| by_kernel(&checked))
}

/// lchown(2)
pub fn lchown(t: &mut Thread, call: Lchown) -> isize {
    let checked = Lchown { user: NOBODY, group: NOBODY, ..call };
    given_away(t, sys::AT_FDCWD, call.filename, AT_SYMLINK_NOFOLLOW, [call.user, call.group], &|| by_kernel(&checked))
}

/// fchown(2)
pub fn fchown(t: &mut Thread, call: Fchown) -> isize {
    let checked = Fchown { user: NOBODY, group: NOBODY, ..call };
    let empty = Path(c"".as_ptr() as usize);
    given_away(t, call.fd.0, empty, AT_EMPTY_PATH, [call.user, call.group], &|| by_kernel(&checked))
}

/// fchownat(2)
pub fn fchownat(t: &mut Thread, call: Fchownat) -> isize {
    let checked = Fchownat { user: NOBODY, group: NOBODY, ..call };
    given_away(t, call.dfd.0, call.filename, call.flag.0, [call.user, call.group], &|| by_kernel(&checked))
}

fn given_away(t: &Thread, folder: usize, path: Path, flags: usize, to: [Id; 2], check: &dyn Fn() -> isize) -> isize {
    let result = if flags & AT_EMPTY_PATH != 0 {
        copy_up::changing_open(t, folder, check, &|path| by_kernel(&Lchown { filename: Path(path), user: NOBODY, group: NOBODY }))
    } else {
        copy_up::changing(t, folder, path.0, flags & AT_SYMLINK_NOFOLLOW == 0, check)
    };
    if result < 0 {
        return result;
    }
    if let Some(number) = files::number_of(folder, path.0, flags) {
        files::give(number, to.map(Id::get));
    }
    result
}

/// utime(2): seconds.
pub fn utime(t: &mut Thread, call: Utime) -> isize {
    let times = || {
        let [accessed, written] = [0, 8].map(|offset| sys::read_u64(call.times.0 + offset).map(|word| word as i64));
        Ok([accessed?, 0, written?, 0])
    };
    copy_up::changing(t, sys::AT_FDCWD, call.filename.0, true, &|| dated(&call, sys::AT_FDCWD, call.filename, call.times, 0, &times))
}

/// utimes(2): microseconds.
pub fn utimes(t: &mut Thread, call: Utimes) -> isize {
    let times = || times::micros(call.utimes.0);
    copy_up::changing(t, sys::AT_FDCWD, call.filename.0, true, &|| dated(&call, sys::AT_FDCWD, call.filename, call.utimes, 0, &times))
}

/// futimesat(2): microseconds.
pub fn futimesat(t: &mut Thread, call: Futimesat) -> isize {
    let times = || times::micros(call.utimes.0);
    copy_up::changing(t, call.dfd.0, call.filename.0, true, &|| dated(&call, call.dfd.0, call.filename, call.utimes, 0, &times))
}

/// utimensat(2): nanoseconds.
pub fn utimensat(t: &mut Thread, call: Utimensat) -> isize {
    let times = || times::words(call.utimes.0);
    let set = |call: &Utimensat| dated(call, call.dfd.0, call.filename, call.utimes, call.flags.0, &times);
    if call.filename.0 == 0 {
        let by_path = |path| set(&Utimensat { dfd: Dir(sys::AT_FDCWD), filename: Path(path), flags: AtFlags(0), ..call });
        return copy_up::changing_open(t, call.dfd.0, &|| set(&call), &by_path);
    }
    copy_up::changing(t, call.dfd.0, call.filename.0, call.flags.0 & AT_SYMLINK_NOFOLLOW == 0, &|| set(&call))
}

/// Sets the times of a file. `times`: seconds and nanoseconds of each.
fn dated<C: Call>(call: &C, folder: usize, path: Path, from: Address, flags: usize, times: &dyn Fn() -> Result<[i64; 4], isize>) -> isize {
    if from.0 == 0 || !is_own_machine() {
        return by_kernel(call);
    }
    times().map_or_else(|errno| errno, |times| times::set(folder, path.0, times, flags))
}

/// name_to_handle_at(2): handles hold the host's numbers.
pub fn name_to_handle_at(t: &mut Thread, call: NameToHandleAt) -> Answer {
    if is_own_machine() { unsupported(t, NameToHandleAt::NUMBER, 0, sys::EOPNOTSUPP) } else { Ok(by_kernel(&call)) }
}

/// inotify_init(2)
pub fn inotify_init(t: &mut Thread, call: InotifyInit) -> isize {
    watching(t, &call)
}

/// inotify_init1(2)
pub fn inotify_init1(t: &mut Thread, call: InotifyInit1) -> isize {
    watching(t, &call)
}

/// inotify_add_watch(2)
pub fn inotify_add_watch(t: &mut Thread, mut call: InotifyAddWatch) -> isize {
    layer::before_watch(t, call.pathname.0);
    if is_own_machine() && layer::is_device(call.pathname.0) {
        // Who opens the host's devices is not the node's business. The kernel's own of this file is opened by nobody (see `proc::said`).
        call.pathname = Path(c"/proc/version".as_ptr() as usize);
    }
    watching(t, &call)
}

fn watching<C: Call>(t: &mut Thread, call: &C) -> isize {
    let result = by_kernel(call);
    limits::shared_limit(t, C::NUMBER, result);
    result
}
