//! The files in memory that are standard output and error of the programs that a scenario starts (`process::OutputFile`). To programs they are files to which
//! somebody appends; but what was written is kept, as if a pipe had carried it away: it cannot be cut off (the kernel's seal), nor written over.
//!
//! Refused as at a pipe: ftruncate(2), fallocate(2), mapping them shared. O_TRUNC has no effect, and O_APPEND cannot be taken away.

use crate::abi;
use crate::calls::number as nr;
use crate::descriptor;
use crate::sys;

const F_SETFL: usize = 4;
const F_GET_SEALS: usize = 1034;
const O_WRONLY: usize = 1;
const O_ACCMODE: usize = 3;
pub const O_TRUNC: usize = 0o1000;
const O_APPEND: usize = 0o2000;
const O_NONBLOCK: usize = 0o4000;
const O_CLOEXEC: usize = 0o2_000_000;
/// What /proc says of them.
const TARGETS: [&[u8]; 2] = [b"/memfd:stdout (deleted)", b"/memfd:stderr (deleted)"];

/// The device of files in memory, which the arena is, too; 0: not looked up yet.
static mut DEVICE: u64 = 0;

/// Can a file on this device be one?
pub fn may_be_on(device: u64) -> bool {
    // SAFETY: one thread runs at a time.
    let mut known = unsafe { DEVICE };
    if known == 0 {
        let mut stat = [0_u64; 18];
        sys::call(nr::FSTAT, &[abi::DESCRIPTOR_ARENA as usize, stat.as_mut_ptr() as usize]);
        known = stat[0];
        // SAFETY: as above.
        unsafe { DEVICE = known };
    }
    device == known && device != 0
}

/// Is it one? No program has such seals and such a name by accident.
pub fn is(fd: usize) -> bool {
    if sys::call(nr::FCNTL, &[fd, F_GET_SEALS]) != abi::OUTPUT_FILE_SEALS as isize {
        return false;
    }
    let mut text = [0_u8; 32];
    let length = usize::try_from(descriptor::target(fd, &mut text)).unwrap_or(0);
    TARGETS.iter().any(|target| text[..length] == **target)
}

/// Does a path lead to one?
pub fn is_at(folder: usize, path: usize) -> bool {
    let mut stat = [0_u64; 18];
    if sys::call(nr::NEWFSTATAT, &[folder, path, stat.as_mut_ptr() as usize, 0]) != 0 || !may_be_on(stat[0]) {
        return false;
    }
    let fd = sys::call(nr::OPENAT, &[folder, path, O_WRONLY | O_NONBLOCK | O_CLOEXEC, 0]);
    let is = fd >= 0 && is(fd as usize);
    if fd >= 0 {
        sys::call(nr::CLOSE, &[fd as usize]);
    }
    is
}

/// What opens a path that leads to a file in memory, with other flags; None: it is not one of these, or would not be changed.
pub fn open(flags: usize, open: &dyn Fn(usize) -> isize) -> Option<isize> {
    if flags & (O_ACCMODE | O_TRUNC) == 0 {
        return None;
    }
    let fd = open(flags & !O_TRUNC);
    if fd < 0 {
        return None;
    }
    if !is(fd as usize) {
        sys::call(nr::CLOSE, &[fd as usize]);
        return None;
    }
    set_flags(fd as usize, flags);
    Some(fd)
}

/// F_SETFL
pub fn set_flags(fd: usize, flags: usize) -> isize {
    sys::call(nr::FCNTL, &[fd, F_SETFL, flags | O_APPEND])
}
