//! Folders of the host's over which nothing was laid when the node began, because programs hardly ever write there. When one wants to, process 1 lays
//! the node's own files over them; whatever leads to what lies below then (working directory, open folders) is led to what lies above.

use crate::abi;
use crate::arena::header;
use crate::block::Thread;
use crate::calls::number as nr;
use crate::channel::post;
use crate::descriptor;
use crate::sys;
use core::sync::atomic::Ordering::Relaxed;

const O_DIRECTORY: usize = 0o200_000;
const O_CLOEXEC: usize = 0o2_000_000;

/// The process that this one was when it looked last (a child of vfork(2) has this memory, and a working directory of its own), and `Header::layers` then.
static mut SEEN: (u32, u32) = (0, 0);

/// Before each call: has anybody of the node had layers laid?
pub fn look(t: &mut Thread) {
    let layers = header().layers.load(Relaxed);
    if layers == 0 {
        return;
    }
    let now = (t.process.pid.load(Relaxed), layers);
    // SAFETY: one thread runs at a time.
    if unsafe { SEEN } != now {
        // SAFETY: as above.
        unsafe { SEEN = now };
        follow(t);
    }
}

/// Before a folder is watched, locked or becomes a program's root, it is what it will be: what changes in a layer is seen only there.
pub fn lay_late(t: &mut Thread) {
    while header().closed.load(Relaxed) == abi::UNLAID_LATE && post(t, abi::LAYERS, &[]) >= 0 {
        look(t);
    }
}

/// Before something is locked: only folders have layers.
pub fn before_lock(t: &mut Thread, fd: usize) {
    if folder(nr::FSTAT, fd).is_some() {
        lay_late(t);
    }
}

/// Before something is watched: what is watched in a folder of the host's is seen by everybody who opens it.
pub fn before_watch(t: &mut Thread, path: usize) {
    lay_late(t);
    while header().closed.load(Relaxed) != 0 && is_hosts(nr::STATFS, path) && post(t, abi::LAYERS, &[]) >= 0 {
        look(t);
    }
}

/// Does a path name a device of the host's?
pub fn is_device(path: usize) -> bool {
    let mut stat = [0_u64; 18];
    sys::call(nr::STAT, &[path, stat.as_mut_ptr() as usize]) == 0 && stat[3] as u32 & 0o170_000 == 0o020_000
}

/// Is it as it is on the host, for everybody? Those are mounted read-only. `number`: statfs(2) of a path, or fstatfs(2) of an open file.
pub fn is_hosts(number: usize, of: usize) -> bool {
    const ST_RDONLY: u64 = 1;
    // struct statfs: f_flags.
    let mut about = [0_u64; 15];
    sys::call(number, &[of, about.as_mut_ptr() as usize]) == 0 && about[10] & ST_RDONLY != 0
}

/// A call has failed. True: perhaps for want of a layer that is there now; it is to be made again.
pub fn was_missing(t: &mut Thread, number: usize, a: &[usize; 6], result: i64) -> bool {
    const W_OK: usize = 2;
    let asks = match number {
        nr::ACCESS => a[1],
        nr::FACCESSAT | nr::FACCESSAT2 => a[2],
        _ => 0,
    };
    let unwritable = result as isize == sys::EROFS || result as isize == sys::EACCES && asks & W_OK != 0;
    if !unwritable || header().closed.load(Relaxed) == 0 || post(t, abi::LAYERS, &[]) < 0 {
        return false;
    }
    look(t);
    true
}

/// Device and inode of a folder; None: it is none.
fn folder(number: usize, of: usize) -> Option<[u64; 2]> {
    let mut stat = [0_u64; 18];
    let found = sys::call(number, &[of, stat.as_mut_ptr() as usize]) == 0;
    (found && stat[3] as u32 & 0o170_000 == 0o040_000).then_some([stat[0], stat[1]])
}

fn follow(t: &mut Thread) {
    // Who has another root finds other folders under these names.
    let root = [header().root[0].load(Relaxed), header().root[1].load(Relaxed)];
    if folder(nr::STAT, c"/".as_ptr() as usize) != Some(root) {
        return;
    }
    // What getcwd(2) says before the name of a folder below what was `/` before there was another.
    const UNREACHABLE: &[u8] = b"(unreachable)";
    let mut path = [0_u8; abi::PATH_BYTES];
    let at = path.as_mut_ptr() as usize;
    if sys::call(nr::GETCWD, &[at, path.len()]) > 0 {
        let at = at + if path.starts_with(UNREACHABLE) { UNREACHABLE.len() } else { 0 };
        if sys::read_u32(at).is_ok_and(|word| word as u8 == b'/') && folder(nr::STAT, at) != folder(nr::STAT, c".".as_ptr() as usize) {
            sys::call(nr::CHDIR, &[at]);
        }
    }
    let list = sys::call(nr::OPEN, &[c"/proc/self/fd".as_ptr() as usize, O_DIRECTORY | O_CLOEXEC, 0]);
    if list < 0 {
        return;
    }
    let mut entries = [0_u64; 64];
    loop {
        let bytes = sys::call(nr::GETDENTS64, &[list as usize, entries.as_mut_ptr() as usize, size_of_val(&entries)]);
        if bytes <= 0 {
            break;
        }
        // struct linux_dirent64: its length at 16, the name at 19.
        let mut entry = entries.as_ptr() as usize;
        let end = entry + bytes as usize;
        while entry < end {
            let mut name = [0_u8; 12];
            let digits = sys::copy_string(entry + 19, &mut name).unwrap_or(b"");
            if let Some(fd) = sys::number(digits).map(|fd| fd as usize)
                && fd != list as usize
                && !descriptor::is_ours(fd as i32)
            {
                open_again(t, fd, &mut path);
            }
            entry += (sys::read_u32(entry + 16).unwrap_or(0) as usize & 0xffff).max(24);
        }
    }
    sys::call(nr::CLOSE, &[list as usize]);
}

fn open_again(t: &mut Thread, fd: usize, path: &mut [u8; abi::PATH_BYTES]) {
    const F_GETFD: usize = 1;
    const F_GETFL: usize = 3;
    const SEEK_SET: usize = 0;
    const SEEK_CUR: usize = 1;
    let Some(here) = folder(nr::FSTAT, fd) else { return };
    let at = path.as_mut_ptr() as usize;
    let length = descriptor::target(fd, &mut path[..abi::PATH_BYTES - 1]);
    if length <= 0 {
        return;
    }
    path[length as usize] = 0;
    if folder(nr::STAT, at).is_none_or(|there| there == here) {
        return;
    }
    let flags = sys::call(nr::FCNTL, &[fd, F_GETFL]) as usize;
    let other = sys::call(nr::OPEN, &[at, O_CLOEXEC | flags, 0]);
    if other >= 0 {
        // Who reads it goes on where that was.
        let position = sys::call(nr::LSEEK, &[fd, 0, SEEK_CUR]);
        if position > 0 {
            sys::call(nr::LSEEK, &[other as usize, position as usize, SEEK_SET]);
        }
        let close_on_exec = sys::call(nr::FCNTL, &[fd, F_GETFD]) & 1 != 0;
        descriptor::replace(t, fd, other as usize, close_on_exec);
    }
}
