//! What root may do with files that are the host's root's: on the host whoever runs weft may not change them, and the kernel copies nobody's file into the node's layer
//! (EOVERFLOW). So the file is copied here, under its name, and belongs to the node from then on; then the call is made again.
//!
//! What is refused: files that nobody may read (their contents are not known; under /var, where they are logs and states, the copy is empty), and files in folders that are not the
//! node's (`weft_process::files` says which are).

use crate::block::Thread;
use crate::calls::number as nr;
use crate::files;
use crate::sys;

const AT_SYMLINK_NOFOLLOW: usize = 0x100;
const O_CLOEXEC: usize = 0o2_000_000;
const EOVERFLOW: isize = -75;
const S_IFMT: u32 = 0o170_000;
const S_IFREG: u32 = 0o100_000;
const S_IFLNK: u32 = 0o120_000;
/// Longest path of a file that is copied.
const PATH_BYTES: usize = 1024;
const COPY: &[u8] = b".weft-copy\0";

/// Makes a call that changes what a path names; when the host forbids it, once more with a copy of the file.
pub fn changing(t: &Thread, folder: usize, path: usize, follow: bool, call: &dyn Fn() -> isize) -> isize {
    let result = call();
    if !matches!(result, sys::EACCES | sys::EPERM | EOVERFLOW) || !crate::arena::is_own_machine() {
        return result;
    }
    if crate::identity::overrides_rights(t) && copy(folder, path, follow) {
        return call();
    }
    // The layers may be missing: who asks again is led to them.
    if result == EOVERFLOW { sys::EROFS } else { result }
}

/// The same for a descriptor: what it leads to is found by /proc.
pub fn changing_open(t: &Thread, fd: usize, call: &dyn Fn() -> isize, by_path: &dyn Fn(usize) -> isize) -> isize {
    let result = call();
    if !matches!(result, sys::EACCES | sys::EPERM | EOVERFLOW) || !crate::arena::is_own_machine() {
        return result;
    }
    let mut path = [0_u8; PATH_BYTES];
    if crate::identity::overrides_rights(t) && path_of(fd, &mut path).is_some() && copy(sys::AT_FDCWD, path.as_ptr() as usize, false) {
        return by_path(path.as_ptr() as usize);
    }
    if result == EOVERFLOW { sys::EROFS } else { result }
}

/// What a descriptor leads to, with a zero at the end; its length without.
fn path_of(fd: usize, path: &mut [u8; PATH_BYTES]) -> Option<usize> {
    let length = usize::try_from(crate::descriptor::target(fd, &mut path[..PATH_BYTES - COPY.len() - 1]))
        .ok()
        .filter(|length| *length > 1 && *length < PATH_BYTES - COPY.len() - 1 && path[0] == b'/')?;
    path[length] = 0;
    Some(length)
}

/// Makes a file of the host's one of the node's. False: it is none, or it cannot be done.
fn copy(folder: usize, path: usize, follow: bool) -> bool {
    const O_PATH: usize = 0o10_000_000;
    const O_NOFOLLOW: usize = 0o400_000;
    let fd = sys::call(nr::OPENAT, &[folder, path, O_PATH | O_CLOEXEC | if follow { 0 } else { O_NOFOLLOW }, 0]);
    if fd < 0 {
        return false;
    }
    let mut name = [0_u8; PATH_BYTES];
    let mut stat = [0_u64; 18];
    let found = sys::call(nr::FSTAT, &[fd as usize, stat.as_mut_ptr() as usize]) == 0;
    let length = path_of(fd as usize, &mut name);
    sys::call(nr::CLOSE, &[fd as usize]);
    let Some(length) = length.filter(|_| found) else { return false };
    // st_mode, st_uid and st_size: ours are root's, and of an empty file everything is known.
    let (mode, user) = (stat[3] as u32, (stat[3] >> 32) as u32);
    let mut beside = [0_u8; PATH_BYTES];
    let cut = name[..length].iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    beside[..cut].copy_from_slice(&name[..cut]);
    beside[cut..cut + COPY.len()].copy_from_slice(COPY);
    let (from, to) = (name.as_ptr() as usize, beside.as_ptr() as usize);
    let made = user != 0
        && match mode & S_IFMT {
            S_IFREG => copy_contents(from, to, mode & 0o7777, stat[6] == 0 || name.starts_with(b"/var/")),
            S_IFLNK => copy_link(from, to),
            _ => false,
        };
    if !made {
        return false;
    }
    // st_atime, st_mtime with their nanoseconds.
    sys::call(nr::UTIMENSAT, &[sys::AT_FDCWD, to, (&raw const stat[9]) as usize, AT_SYMLINK_NOFOLLOW]);
    let number = files::number(stat[1], stat[0]);
    let mut new = [0_u64; 18];
    let known = sys::call(nr::LSTAT, &[to, new.as_mut_ptr() as usize]) == 0;
    if !known || sys::call(nr::RENAME, &[to, from]) != 0 {
        sys::call(nr::UNLINK, &[to]);
        return false;
    }
    // It is the same file to programs.
    files::is_now(number, new[1], new[0]);
    true
}

fn copy_contents(from: usize, to: usize, mode: u32, may_be_empty: bool) -> bool {
    let source = sys::call(nr::OPEN, &[from, O_CLOEXEC, 0]);
    if source < 0 && !may_be_empty {
        return false;
    }
    // O_WRONLY|O_CREAT|O_EXCL
    let copy = sys::call(nr::OPEN, &[to, 0o301 | O_CLOEXEC, 0o600]);
    let mut good = copy >= 0;
    let mut piece = [0_u8; 4096];
    while good && source >= 0 {
        let bytes = sys::call(nr::READ, &[source as usize, piece.as_mut_ptr() as usize, piece.len()]);
        if bytes <= 0 {
            good = bytes == 0;
            break;
        }
        good = sys::call(nr::WRITE, &[copy as usize, piece.as_ptr() as usize, bytes as usize]) == bytes;
    }
    if copy >= 0 {
        sys::call(nr::FCHMOD, &[copy as usize, mode as usize]);
        sys::call(nr::CLOSE, &[copy as usize]);
    }
    if source >= 0 {
        sys::call(nr::CLOSE, &[source as usize]);
    }
    if copy >= 0 && !good {
        sys::call(nr::UNLINK, &[to]);
    }
    good
}

fn copy_link(from: usize, to: usize) -> bool {
    let mut target = [0_u8; PATH_BYTES];
    let length = sys::call(nr::READLINK, &[from, target.as_mut_ptr() as usize, PATH_BYTES - 1]);
    length > 0 && (length as usize) < PATH_BYTES - 1 && sys::call(nr::SYMLINK, &[target.as_ptr() as usize, to]) == 0
}
