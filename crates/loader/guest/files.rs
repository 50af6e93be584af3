//! Numbers of files and devices: the host's are another on every host, and some in every run. A program sees the numbers 1, 2, 3 … in the order in which the node's
//! programs first asked about a file.

use crate::arena::files;
use crate::sys;

/// Device number of everything: "0:1".
pub const DEVICE: u64 = 1;
/// What statfs(2) says: 4 GiB of 4 KiB, half of it free, and as many files.
const STATFS: [(usize, u64); 8] =
    [(8, 4096), (16, 1 << 20), (24, 1 << 19), (32, 1 << 19), (40, 1 << 20), (48, 1 << 19), (56, 0), (72, 4096)];

/// The number of a file by what the host calls it. One thread of a node runs at a time, so nobody else is here.
pub fn number(inode: u64, device: u64) -> u64 {
    // All that are left share a number with nobody the program knows, but they are the host's.
    files().number(inode, device).unwrap_or(inode | 1 << 40)
}

/// Whose a file is, by its number: user and group.
pub fn owner(number: u64) -> [u32; 2] {
    files().owner(number)
}

/// It belongs to somebody else now. `u32::MAX` leaves what there was, as in chown(2).
pub fn give(number: u64, owner: [u32; 2]) {
    files().give(number, owner);
}

/// What has this number is another file of the host's now.
pub fn is_now(number: u64, inode: u64, device: u64) {
    files().is_now(number, inode, device);
}

/// The number of what a path names, or a descriptor with an empty one.
pub fn number_of(folder: usize, path: usize, flags: usize) -> Option<u64> {
    let mut stat = [0_u64; 18];
    let found = sys::call(crate::calls::number::NEWFSTATAT, &[folder, path, stat.as_mut_ptr() as usize, flags]);
    (found == 0).then(|| number(stat[1], stat[0]))
}

/// `struct stat` of x86-64 at an address: st_uid and st_gid, st_dev, st_ino, st_size of folders, st_blksize, st_blocks.
pub fn plain_stat(at: usize) -> Result<(), isize> {
    const FOLDER: u32 = 0o040_000;
    let (device, inode) = (sys::read_u64(at)?, sys::read_u64(at + 8)?);
    sys::write_u64(at, DEVICE)?;
    let number = number(inode, device);
    sys::write_u64(at + 8, number)?;
    let [user, group] = owner(number);
    sys::write_u32(at + 28, user)?;
    sys::write_u32(at + 32, group)?;
    if sys::read_u32(at + 24)? & 0o170_000 == FOLDER {
        sys::write_u64(at + 16, 1)?;
        sys::write_u64(at + 48, 4096)?;
    }
    sys::write_u64(at + 56, 4096)?;
    sys::write_u64(at + 64, sys::read_u64(at + 48)?.div_ceil(4096) * 8)
}

/// The device in `struct statx` at an address, as st_dev has it (new_encode_dev): the two calls must agree.
pub fn device_of_statx(at: usize) -> Result<u64, isize> {
    let (major, minor) = (u64::from(sys::read_u32(at + 136)?), u64::from(sys::read_u32(at + 140)?));
    Ok(minor & 0xff | major << 8 | (minor & !0xff) << 12)
}

/// `struct statx` at an address: the same.
pub fn plain_statx(at: usize) -> Result<(), isize> {
    const FOLDER: u32 = 0o040_000;
    let inode = sys::read_u64(at + 32)?;
    let number = number(inode, device_of_statx(at)?);
    sys::write_u64(at + 32, number)?;
    let [user, group] = owner(number);
    sys::write_u32(at + 20, user)?;
    sys::write_u32(at + 24, group)?;
    sys::write_u32(at + 136, 0)?;
    sys::write_u32(at + 140, DEVICE as u32)?;
    if sys::read_u32(at + 28)? & 0o170_000 == FOLDER {
        sys::write_u32(at + 16, 1)?;
        sys::write_u64(at + 40, 4096)?;
    }
    sys::write_u32(at + 4, 4096)?;
    sys::write_u64(at + 48, sys::read_u64(at + 40)?.div_ceil(4096) * 8)?;
    // stx_mnt_id
    sys::write_u64(at + 144, 1)
}

/// `struct statfs` at an address.
pub fn plain_statfs(at: usize) -> Result<(), isize> {
    const OVERLAYFS_SUPER_MAGIC: u64 = 0x794c_7630;
    const TMPFS_MAGIC: u64 = 0x0102_1994;
    const FLAGS: usize = 80;
    const ST_RDONLY: u64 = 1;
    let unlaid = crate::arena::header().closed.load(core::sync::atomic::Ordering::Relaxed) == crate::abi::UNLAID_LATE;
    let kind = sys::read_u64(at)?;
    if kind == OVERLAYFS_SUPER_MAGIC || kind == TMPFS_MAGIC && unlaid {
        // A layer that programs can write to is there, or laid as soon as one writes.
        sys::write_u64(at + FLAGS, sys::read_u64(at + FLAGS)? & !ST_RDONLY)?;
    }
    STATFS.iter().try_for_each(|(offset, value)| sys::write_u64(at + offset, *value))
}

/// Entries of a folder: d_ino of each, which is first in `struct linux_dirent64` and its elder; the length is the u16 at 16.
pub fn plain_entries(folder: usize, at: usize, bytes: usize) -> Result<(), isize> {
    let mut stat = [0_u64; 18];
    let device = if sys::call(crate::calls::number::FSTAT, &[folder, stat.as_mut_ptr() as usize]) == 0 { stat[0] } else { 0 };
    let mut offset = 0;
    while offset + 19 <= bytes {
        let inode = sys::read_u64(at + offset)?;
        sys::write_u64(at + offset, number(inode, device))?;
        let length = sys::read_u32(at + offset + 16)? as usize & 0xffff;
        if length == 0 {
            break;
        }
        offset += length;
    }
    Ok(())
}
