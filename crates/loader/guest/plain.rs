//! Answers of the kernel that would tell real time, chance or the host, made plain: they come back as they would from a machine that the node has to itself.

use crate::abi;
use crate::channel::{self, header};
use crate::descriptor;
use crate::identity;
use crate::sys;
use crate::thread::Thread;
use crate::x86_64::numbers as nr;
use core::sync::atomic::Ordering::Relaxed;

/// Are programs to see a machine of their own?
pub fn wanted() -> bool {
    header().real_start.load(Relaxed) != 0
}

/// shmctl(2): when a segment was used. Real seconds become the node's start, as times of files do.
pub fn shared_memory(a: &[usize; 6]) -> Result<isize, isize> {
    const IPC_STAT: usize = 2;
    const SHM_STAT: usize = 13;
    const SHM_STAT_ANY: usize = 15;
    let result = sys::call(nr::SHMCTL, a);
    // IPC_64 is a flag.
    if result >= 0 && wanted() && matches!(a[1] & 0xff, IPC_STAT | SHM_STAT | SHM_STAT_ANY) {
        // struct shmid64_ds: shm_atime, shm_dtime, shm_ctime behind 48 bytes of permissions and the size. 0: never.
        for at in [56, 64, 72].map(|offset| a[2] + offset) {
            if sys::read_u64(at)? != 0 {
                sys::write_u64(at, header().epoch.load(Relaxed) / 1_000_000_000)?;
            }
        }
    }
    Ok(result)
}

/// getrlimit(2), setrlimit(2), prlimit(2): limits belong to the node (`abi::LIMITS`).
pub fn limit(t: &Thread, number: usize, a: &[usize; 6]) -> Result<isize, isize> {
    let (who, resource, new, old) = match number {
        nr::GETRLIMIT => (0, a[0], 0, a[1]),
        nr::SETRLIMIT => (0, a[0], a[1], 0),
        _ => (a[0], a[1], a[2], a[3]),
    };
    // One's own number is 0 for the kernel, too; others are whoever they are in the node.
    let own = who as u32 == 0 || who as u32 == t.process.pid.load(Relaxed);
    if !wanted() {
        return sys_limit(if own { 0 } else { who }, resource, new, old);
    }
    let process = if own { t.process } else { identity::process_of(t, who as u32).ok_or(sys::ESRCH)? };
    if !own && !identity::may_limit(t, process) {
        return Err(sys::EPERM);
    }
    let limits = process.limits.get(resource).ok_or(sys::EINVAL)?;
    let was = [limits[0].load(Relaxed), limits[1].load(Relaxed)];
    if new != 0 {
        let [soft, hard] = [sys::read_u64(new)?, sys::read_u64(new + 8)?];
        if soft > hard {
            return Err(sys::EINVAL);
        }
        // What the node's descriptors and memory are is not the programs' to say.
        let bounded = matches!(resource, abi::LIMIT_DATA | abi::LIMIT_DESCRIPTORS);
        if hard > was[1] && (bounded || !identity::manages_resources(t)) {
            return Err(sys::EPERM);
        }
        limits[0].store(soft, Relaxed);
        limits[1].store(hard, Relaxed);
        let who = if own { 0 } else { who };
        follow(who, resource, soft);
    }
    if old != 0 {
        sys::write_u64(old, was[0])?;
        sys::write_u64(old + 8, was[1])?;
    }
    Ok(0)
}

/// What a program has set its limit to becomes the kernel's, as far as the host allows. The hard one stays: the program's own is kept here.
fn follow(who: usize, resource: usize, soft: u64) {
    const FSIZE: usize = 1;
    const STACK: usize = 3;
    const AS: usize = 9;
    // CPU time is virtual, core files are not made, and the others count what the user has elsewhere.
    if !matches!(resource, FSIZE | abi::LIMIT_DATA | STACK | abi::LIMIT_DESCRIPTORS | AS) {
        return;
    }
    let share = abi::own_share(resource);
    let mut real = [0_u64; 2];
    if sys::call(nr::PRLIMIT64, &[who, resource, 0, real.as_mut_ptr() as usize]) == 0 {
        // RLIM_INFINITY stays.
        real[0] = soft.saturating_add(share).min(real[1]);
        sys::call(nr::PRLIMIT64, &[who, resource, real.as_ptr() as usize, 0]);
    }
}

/// The kernel's own limits, less what the loader takes.
fn sys_limit(who: usize, resource: usize, new: usize, old: usize) -> Result<isize, isize> {
    let share = abi::own_share(resource);
    let mut wanted_limits = [0_u64; 2];
    if new != 0 {
        for (index, word) in wanted_limits.iter_mut().enumerate() {
            // RLIM_INFINITY stays.
            *word = sys::read_u64(new + 8 * index)?.saturating_add(share);
        }
    }
    let mut found = [0_u64; 2];
    let given = if new == 0 { 0 } else { wanted_limits.as_ptr() as usize };
    let result = sys::call(nr::PRLIMIT64, &[who, resource, given, found.as_mut_ptr() as usize]);
    if result == 0 && old != 0 {
        for (index, word) in found.into_iter().enumerate() {
            sys::write_u64(old + 8 * index, if word == u64::MAX { word } else { word.saturating_sub(share) })?;
        }
    }
    Ok(result)
}

/// The kernel counts some things by user, and all nodes are one. A program that was answered otherwise than it would have been alone is told to the controller.
pub fn shared_limit(t: &mut Thread, number: usize, result: isize) {
    const EMFILE: isize = -24;
    const ENOSPC: isize = -28;
    const ETOOMANYREFS: isize = -109;
    // EMFILE of one's own: there is no number left.
    let has_room = || {
        let fd = sys::call(nr::EVENTFD2, &[0, 0]);
        if fd >= 0 {
            sys::call(nr::CLOSE, &[fd as usize]);
        }
        fd >= 0
    };
    let which = match (number, result) {
        (nr::INOTIFY_INIT | nr::INOTIFY_INIT1, EMFILE) if has_room() => abi::HOST_LIMIT_INOTIFY,
        (nr::INOTIFY_ADD_WATCH, ENOSPC) => abi::HOST_LIMIT_WATCH,
        (nr::SENDMSG, ETOOMANYREFS) => abi::HOST_LIMIT_SENDMSG,
        _ => return,
    };
    if wanted() {
        channel::post(t, abi::HOST_LIMIT, &[which]);
    }
}

/// Is the size of files limited (RLIMIT_FSIZE)?
pub fn has_file_limit() -> bool {
    const FILE_SIZE: usize = 1;
    let mut limit = [u64::MAX; 2];
    sys::call(nr::PRLIMIT64, &[0, FILE_SIZE, 0, limit.as_mut_ptr() as usize]);
    limit[0] != u64::MAX
}

/// pipe(2): the kernel gives less room, or none, when the user whom all nodes are has many pipes on the host (pipe(7), pipe-user-pages-soft and -hard), which
/// is told.
pub fn pipe(t: &mut Thread, number: usize, a: &[usize; 6]) -> isize {
    const F_SETPIPE_SZ: usize = 1031;
    const F_GETPIPE_SZ: usize = 1032;
    const BYTES: isize = 65_536;
    const ENFILE: isize = -23;
    let result = sys::call(number, a);
    let is_short = || {
        let fd = sys::read_u32(a[0]).unwrap_or(0) as usize;
        sys::call(nr::FCNTL, &[fd, F_GETPIPE_SZ]) < BYTES && sys::call(nr::FCNTL, &[fd, F_SETPIPE_SZ, BYTES as usize]) < BYTES
    };
    if wanted() && (result == ENFILE || result == 0 && is_short()) {
        channel::post(t, abi::HOST_LIMIT, &[abi::HOST_LIMIT_PIPE]);
    }
    result
}

/// kcmp(2): which of two things lies first in the kernel's memory is chance; that they differ is not.
pub fn compare(a: &[usize; 6]) -> Result<isize, isize> {
    let result = sys::call(nr::KCMP, a);
    // "3: v1 is not equal to v2, but ordering information is unavailable."
    Ok(if wanted() && (result == 1 || result == 2) { 3 } else { result })
}

/// getpriority(2), setpriority(2): of the calling process, known here. How the host runs it is the host's affair.
pub fn priority(t: &Thread, number: usize, a: &[usize; 6]) -> Result<isize, isize> {
    const PROCESS: usize = 0;
    let own = a[0] == PROCESS && (a[1] == 0 || a[1] as u32 == t.process.pid.load(Relaxed) || a[1] as u32 == t.channel.tid.load(Relaxed));
    if !wanted() {
        return Ok(sys::call(number, a));
    }
    if a[0] > 2 {
        return Err(sys::EINVAL);
    }
    if number == nr::SETPRIORITY {
        if own {
            t.process.nice.store((a[2] as i32).clamp(-20, 19), Relaxed);
        }
        return Ok(0);
    }
    // "The getpriority system call returns nice values translated to the range 40..1".
    Ok(20 - if own { t.process.nice.load(Relaxed) as isize } else { 0 })
}

/// sched_getscheduler(2), sched_getparam(2), sched_getattr(2): SCHED_OTHER, whatever weft itself was started with.
pub fn scheduler(t: &Thread, number: usize, a: &[usize; 6]) -> Result<isize, isize> {
    let result = sys::call(number, a);
    if result < 0 || !wanted() {
        return Ok(result);
    }
    match number {
        nr::SCHED_GETPARAM => sys::write_u32(a[1], 0)?,
        nr::SCHED_GETATTR => {
            // struct sched_attr: policy, flags, nice, priority, runtime, deadline, period behind its size.
            sys::write_u32(a[1] + 4, 0)?;
            sys::write_u64(a[1] + 8, 0)?;
            sys::write_u32(a[1] + 16, t.process.nice.load(Relaxed) as u32)?;
            sys::write_u32(a[1] + 20, 0)?;
            for offset in [24, 32, 40] {
                sys::write_u64(a[1] + offset, 0)?;
            }
        }
        _ => return Ok(0),
    }
    Ok(result)
}

/// The kernel counts renames for all of the host (fsnotify_get_cookie); a program sees 1, 2, 3 … Last number of the kernel's, and of ours.
static mut COOKIES: [u32; 2] = [0; 2];

/// What was read from an inotify descriptor.
pub fn inotify(at: usize, bytes: usize) -> Result<(), isize> {
    // struct inotify_event: wd, mask, cookie, len, then the name.
    let mut offset = 0;
    while offset + 16 <= bytes {
        let cookie = sys::read_u32(at + offset + 8)?;
        if cookie != 0 {
            // SAFETY: one thread runs at a time.
            let [last, ours] = unsafe { &mut *(&raw mut COOKIES) };
            if cookie != *last {
                (*last, *ours) = (cookie, ours.wrapping_add(1));
            }
            sys::write_u32(at + offset + 8, *ours)?;
        }
        offset += 16 + sys::read_u32(at + offset + 12)? as usize;
    }
    Ok(())
}

const SOL_SOCKET: u32 = 1;
/// SCM_TIMESTAMP, SCM_TIMESTAMPNS, and those of 64 bits on machines of 32.
const MICROSECONDS: [u32; 2] = [29, 63];
const NANOSECONDS: [u32; 2] = [35, 64];

/// SCM_CREDENTIALS.
const CREDENTIALS: u32 = 2;

/// Control messages of an AF_UNIX socket: when something was sent is the present; who sent it is who that is in the node.
pub fn control(message: usize) -> Result<(), isize> {
    // struct msghdr: msg_control at 32, msg_controllen at 40.
    let (mut at, mut left) = (sys::read_u64(message + 32)? as usize, sys::read_u64(message + 40)? as usize);
    let now = header().epoch.load(Relaxed) + header().now.load(Relaxed);
    while at != 0 && left >= 16 {
        let length = sys::read_u64(at)? as usize;
        let (level, kind) = (sys::read_u32(at + 8)?, sys::read_u32(at + 12)?);
        let micro = MICROSECONDS.contains(&kind);
        if level == SOL_SOCKET && length >= 32 && (micro || NANOSECONDS.contains(&kind)) {
            sys::write_u64(at + 16, now / 1_000_000_000)?;
            sys::write_u64(at + 24, now % 1_000_000_000 / if micro { 1000 } else { 1 })?;
        }
        if level == SOL_SOCKET && kind == CREDENTIALS && length >= 28 {
            // struct ucred: pid, uid, gid.
            if let Some([user, group]) = identity::real_of(crate::thread::current(), sys::read_u32(at + 16)?) {
                sys::write_u32(at + 20, user)?;
                sys::write_u32(at + 24, group)?;
            }
        }
        let step = length.next_multiple_of(8);
        if step < 16 || step > left {
            break;
        }
        (at, left) = (at + step, left - step);
    }
    Ok(())
}

/// Is a descriptor without a type of file (struct stat's mode says 0) one of inotify?
pub fn is_inotify(fd: usize) -> bool {
    let mut name = [0_u8; 32];
    descriptor::target(fd, &mut name) > 0 && name.starts_with(b"anon_inode:inotify")
}

/// The number of the process that a pidfd names (/proc/self/fdinfo, "Pid:"). EBADF: it is none; ESRCH: it has ended and been waited for.
pub fn process_of(fd: usize) -> Result<usize, isize> {
    const INFO: &[u8] = b"/proc/self/fdinfo/";
    let mut path = [0_u8; 40];
    path[..INFO.len()].copy_from_slice(INFO);
    sys::decimal(fd as u32 as u64, &mut path[INFO.len()..39]);
    let file = sys::call(nr::OPEN, &[path.as_ptr() as usize, 0, 0]);
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

/// A read(2) has returned.
pub fn after_read(word: u64, number: usize, a: &[usize; 6], result: isize) -> Result<(), isize> {
    if word & abi::INOTIFY == 0 || result <= 0 || !wanted() {
        return Ok(());
    }
    match number {
        nr::READ => inotify(a[1], result as usize),
        // Of a gathered one, the first buffer that holds it all.
        nr::READV => inotify(sys::read_u64(a[1])? as usize, (result as usize).min(sys::read_u64(a[1] + 8)? as usize)),
        _ => Ok(()),
    }
}

/// Asked about by number of the ioctl: what a file system knows of a file (generation, blocks on the disk) is chance or the host's.
pub fn hides(request: usize) -> bool {
    // FS_IOC_GETVERSION, FS_IOC_FIEMAP, FIBMAP; and what came after Linux 6.1 with numbers of the host's: FS_IOC_GETFSUUID, FS_IOC_GETFSSYSFSPATH, NS_GET_MNTNS_ID,
    // NS_MNT_GET_INFO and its two neighbours, NS_GET_ID; PIDFD_GET_INFO of any size.
    let of_host = [0x8008_7601, 0xc020_660b, 1, 0x8011_1500, 0x8081_1501, 0x8008_b705, 0x8010_b70a, 0x8010_b70b, 0x8010_b70c, 0x8008_b70d];
    (of_host.contains(&request) || request & 0xffff == 0xff0b) && wanted()
}

/// Puts a descriptor in another's place; returns that one.
pub fn replace(t: &mut Thread, fd: usize, by: usize, close_on_exec: bool) -> isize {
    const O_CLOEXEC: usize = 0o2_000_000;
    let word = descriptor::word(t, by);
    let result = sys::call(nr::DUP3, &[by, fd, if close_on_exec { O_CLOEXEC } else { 0 }]);
    sys::call(nr::CLOSE, &[by]);
    descriptor::forget(t, by);
    descriptor::remember(t, fd, word);
    result
}
