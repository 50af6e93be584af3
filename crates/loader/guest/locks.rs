//! Locks of files: flock(2), and those of fcntl(2) that wait.

use crate::abi;
use crate::arena::header;
use crate::arena::touched;
use crate::block::Thread;
use crate::calls::number as nr;
use crate::channel::post;
use crate::layer;
use crate::sys;
use core::sync::atomic::Ordering::Relaxed;

const F_RDLCK: u16 = 0;
const F_WRLCK: u16 = 1;
const F_UNLCK: u16 = 2;
const LOCK_SH: usize = 1;
const LOCK_EX: usize = 2;
const LOCK_NB: usize = 4;
const LOCK_UN: usize = 8;

/// flock(2). What is the host's is everybody's, and the kernel's locks of it would be; a node has its own.
pub fn flock(t: &mut Thread, fd: usize, operation: usize) -> isize {
    let attempt = || match is_hosts(fd) {
        true => marked(fd, operation & !LOCK_NB),
        false => sys::call(nr::FLOCK, &[fd, operation | LOCK_NB]),
    };
    if operation & (LOCK_NB | LOCK_UN) == 0 {
        return lock(t, fd, 0, attempt);
    }
    let result = attempt();
    touched();
    result
}

/// Does an open file lead to locks that other nodes have as well? A terminal is the node's own, other devices are not.
fn is_hosts(fd: usize) -> bool {
    if header().locks.load(Relaxed) == 0 {
        return false;
    }
    /// Majors of what devpts has (UNIX98_PTY_SLAVE_MAJOR and the seven after it).
    const TERMINALS: core::ops::Range<u64> = 136..144;
    let mut stat = [0_u64; 18];
    let found = sys::call(nr::FSTAT, &[fd, stat.as_mut_ptr() as usize]) == 0;
    let is_device = found && stat[3] as u32 & 0o170_000 == 0o020_000;
    is_device && !TERMINALS.contains(&(stat[5] >> 8 & 0xfff)) || layer::is_hosts(nr::FSTATFS, fd)
}

/// flock(2) by locks of bytes far behind the end of the file, which belong to the open file as those of flock(2) do (F_OFD_SETLK, fcntl(2)), at a place that
/// no other node has. A reader cannot lock for writing: who has the file for itself marks the first byte, who shares it one of the others, and whoever finds a
/// mark of others there has not got it. (Only one thread of a node runs at a time.)
fn marked(fd: usize, operation: usize) -> isize {
    const PLACE: u64 = abi::LOCKS_PLACE;
    const F_GETFL: usize = 3;
    const O_ACCMODE: usize = 3;
    const O_PATH: usize = 0o10_000_000;
    let flags = sys::call(nr::FCNTL, &[fd, F_GETFL]) as usize;
    if flags & O_PATH != 0 {
        return sys::EBADF;
    }
    let whole = header().locks.load(Relaxed);
    let kind = if flags & O_ACCMODE == 1 { F_WRLCK } else { F_RDLCK };
    // A lock of the other kind is gone, whether there is a new one or not (flock_lock_inode of fs/locks.c).
    let others = match operation {
        LOCK_UN => return record(fd, F_UNLCK, whole, PLACE),
        LOCK_EX => record(fd, F_UNLCK, whole + 1, PLACE - 1).min(asked(fd, whole, PLACE)),
        LOCK_SH => record(fd, F_UNLCK, whole, 1).min(asked(fd, whole, 1)),
        _ => return sys::EINVAL,
    };
    if others < 0 {
        return others;
    }
    let mut places = if operation == LOCK_EX { whole..whole + 1 } else { whole + 1..whole + PLACE };
    // Who can only write has a byte for itself.
    places.find_map(|place| Some(record(fd, kind, place, 1)).filter(|result| *result != sys::EAGAIN)).unwrap_or(sys::ENOLCK)
}

/// F_GETLK and F_OFD_GETLK. On a file of the host's nothing is seen of whom the program cannot see.
pub fn look(fd: usize, command: usize, of: usize) -> isize {
    let result = sys::call(nr::FCNTL, &[fd, command, of]);
    if result != 0 || !is_hosts(fd) {
        return result;
    }
    match (sys::read_u64(of), sys::read_u32(of + 24)) {
        (Ok(word), Ok(pid)) if word as u16 != F_UNLCK && pid as i32 <= 0 => {
            sys::write_u32(of, word as u32 & !0xffff | u32::from(F_UNLCK)).map_or_else(|error| error, |()| 0)
        }
        _ => result,
    }
}

/// `struct flock`: l_type, l_whence, l_start, l_len, l_pid.
fn bytes(kind: u16, start: u64, length: u64) -> [u64; 4] {
    [u64::from(kind), start, length, 0]
}

/// Locks bytes of an open file, or lets go of them.
fn record(fd: usize, kind: u16, start: u64, length: u64) -> isize {
    const F_OFD_SETLK: usize = 37;
    let mut lock = bytes(kind, start, length);
    sys::call(nr::FCNTL, &[fd, F_OFD_SETLK, lock.as_mut_ptr() as usize])
}

/// EAGAIN: somebody else has locked some of these bytes.
fn asked(fd: usize, start: u64, length: u64) -> isize {
    const F_OFD_GETLK: usize = 36;
    let mut lock = bytes(F_WRLCK, start, length);
    let result = sys::call(nr::FCNTL, &[fd, F_OFD_GETLK, lock.as_mut_ptr() as usize]);
    if result == 0 && lock[0] as u16 != F_UNLCK { sys::EAGAIN } else { result }
}

/// What waits for a lock: tried, and tried again when something has changed. `record`: the `struct flock` of a process's lock; 0: it is of another kind.
pub fn lock(t: &mut Thread, fd: usize, record: usize, attempt: impl Fn() -> isize) -> isize {
    const EDEADLK: isize = -35;
    loop {
        let result = attempt();
        if result != sys::EAGAIN && result != sys::EACCES {
            touched();
            return result;
        }
        let holder = if record == 0 { 0 } else { holder(fd, record) };
        if holder != 0 && waits_for(t, holder) {
            return EDEADLK;
        }
        t.process.lock_of.store(holder, Relaxed);
        let answer = post(t, abi::BLOCKED, &[u64::MAX, 0, nr::FLOCK as u64]);
        t.process.lock_of.store(0, Relaxed);
        if answer < 0 {
            return abi::RESTART as isize;
        }
    }
}

/// The number of the process whose lock is in the way; 0: nobody's.
fn holder(fd: usize, record: usize) -> u32 {
    const F_GETLK: usize = 5;
    // struct flock: l_type (2 is "not locked"), l_whence, l_start, l_len, l_pid.
    let mut lock = [0_u64; 4];
    for (index, word) in lock.iter_mut().enumerate() {
        let Ok(given) = sys::read_u64(record + 8 * index) else { return 0 };
        *word = given;
    }
    let asked = sys::call(nr::FCNTL, &[fd, F_GETLK, lock.as_mut_ptr() as usize]);
    if asked == 0 && lock[0] & 0xffff != 2 { lock[3] as u32 } else { 0 }
}

/// fs/locks.c, posix_locks_deadlock: does a process wait, over others, for a lock of the caller's?
fn waits_for(t: &Thread, mut whose: u32) -> bool {
    let own = t.process.pid.load(Relaxed);
    for _ in 0..abi::PROCESSES_MAX {
        let next = crate::identity::process_of(t, whose).map_or(0, |one| one.lock_of.load(Relaxed));
        if next == 0 || next == own {
            return next == own;
        }
        whose = next;
    }
    false
}
