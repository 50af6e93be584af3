//! The entries of a folder, in an order that their names alone decide. The kernel's is the file system's, and another on every host: ext4 has a seed of its own,
//! tmpfs begins with what was made last. So are the positions that it tells.
//!
//! A position is a number that a name comes to, as in ext4: who has read a part goes on behind it, whatever was made and removed meanwhile. It is the position of
//! the kernel's descriptor, too, which processes may share.

use crate::calls::number as nr;
use crate::sys;
use core::mem::size_of;

const SEEK_SET: usize = 0;
const SEEK_CUR: usize = 1;
const PROC_SUPER_MAGIC: u64 = 0x9fa0;
/// Where everything has been read. No larger: tmpfs has had positions of 31 bits (simple_offset, fs/libfs.c).
const END: u32 = i32::MAX as u32;
/// Of `.` and `..`, which come first.
const OWN: u32 = 1;
const PARENT: u32 = 2;
/// What the kernel is asked for at a time at least. An entry has 280 bytes at most.
const ROOM_BYTES: usize = 16 << 10;
/// A folder with more than this is told as the kernel has it: two million names.
const LIST_BYTES_MAX: usize = 64 << 20;
/// `struct linux_dirent64` and `struct linux_dirent`: d_ino, d_off, d_reclen. The names stand at 19 and 18.
const POSITION: usize = 8;
const LENGTH: usize = 16;

/// Memory for a while.
struct Scratch {
    at: usize,
    bytes: usize,
}

impl Scratch {
    fn of(bytes: usize) -> Result<Scratch, isize> {
        sys::map(bytes).map(|at| Scratch { at, bytes }).ok_or(sys::ENOMEM)
    }

    /// Of it as much as is in use.
    fn filled(&mut self, bytes: usize) -> &mut [u8] {
        // SAFETY: it is mapped, nobody else knows it, and zeros are bytes.
        unsafe { core::slice::from_raw_parts_mut(self.at as *mut u8, bytes.min(self.bytes)) }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        sys::unmap(self.at, self.bytes);
    }
}

/// getdents(2) and getdents64(2), by their `number` and where a name stands in an entry.
pub fn entries(number: usize, folder: usize, into: usize, room: usize, name_at: usize) -> isize {
    let as_it_is = || sys::call(number, &[folder, into, room]);
    let before = sys::call(nr::LSEEK, &[folder, 0, SEEK_CUR]);
    if before < 0 || !is_ordered(folder) {
        return as_it_is();
    }
    let before = before as usize;
    if before >= END as usize {
        return 0;
    }
    sys::call(nr::LSEEK, &[folder, 0, SEEK_SET]);
    let found = all(number, folder).and_then(|(list, bytes)| part(list, bytes, before as u32, into, room, name_at));
    let (result, then) = match found {
        Ok((told, then)) => (told as isize, then as usize),
        Err(errno) => (errno, before),
    };
    sys::call(nr::LSEEK, &[folder, then, SEEK_SET]);
    // Such a folder is told so from its beginning to its end.
    if result == sys::ENOMEM { as_it_is() } else { result }
}

/// Is it a folder? That of processes has an order, which programs rely on.
fn is_ordered(folder: usize) -> bool {
    let (mut stat, mut system) = ([0_u64; 18], [0_u64; 15]);
    sys::call(nr::FSTAT, &[folder, stat.as_mut_ptr() as usize]) == 0
        && stat[3] as u32 & 0o170_000 == 0o040_000
        && sys::call(nr::FSTATFS, &[folder, system.as_mut_ptr() as usize]) == 0
        && system[0] != PROC_SUPER_MAGIC
}

/// All that the kernel has from here on, and how many bytes.
fn all(number: usize, folder: usize) -> Result<(Scratch, usize), isize> {
    let mut list = Scratch::of(4 * ROOM_BYTES)?;
    let mut used = 0;
    loop {
        if list.bytes - used < ROOM_BYTES {
            if list.bytes >= LIST_BYTES_MAX {
                return Err(sys::ENOMEM);
            }
            let mut larger = Scratch::of(2 * list.bytes)?;
            larger.filled(used).copy_from_slice(list.filled(used));
            list = larger;
        }
        match sys::call(number, &[folder, list.at + used, list.bytes - used]) {
            0 => return Ok((list, used)),
            errno if errno < 0 => return Err(errno),
            bytes => used += bytes as usize,
        }
    }
}

fn length(list: &[u8], entry: usize) -> usize {
    list.get(entry + LENGTH..entry + LENGTH + 2).map_or(0, |two| usize::from(u16::from_ne_bytes([two[0], two[1]])))
}

/// Where the entry with this name stands among all: 31 bits of FNV-1a.
fn place(name: &[u8]) -> u32 {
    match name {
        b"." => OWN,
        b".." => PARENT,
        _ => {
            let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
            let hash = name.iter().fold(0xcbf2_9ce4_8422_2325, mix);
            PARENT + 1 + (hash ^ hash >> 32) as u32 % (END - PARENT - 1)
        }
    }
}

/// Writes what comes behind a position, as much as there is room for; how many bytes that are, and which position is next.
fn part(mut list: Scratch, bytes: usize, before: u32, into: usize, room: usize, name_at: usize) -> Result<(usize, u32), isize> {
    let list = list.filled(bytes);
    let starts = || {
        let next = |entry: &usize| Some(entry + length(list, *entry)).filter(|next| next > entry && next + LENGTH < list.len());
        core::iter::successors((list.len() > LENGTH).then_some(0), next)
    };
    let mut order = Scratch::of((starts().count().max(1)) * size_of::<[u32; 2]>())?;
    let count = starts().count();
    // SAFETY: it is mapped and large enough, pages are aligned, and zeros are numbers.
    let order = unsafe { core::slice::from_raw_parts_mut(order.filled(usize::MAX).as_mut_ptr().cast::<[u32; 2]>(), count) };
    for (slot, entry) in order.iter_mut().zip(starts()) {
        let name = list.get(entry + name_at..entry + length(list, entry)).unwrap_or_default();
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        *slot = [place(&name[..end]), entry as u32];
    }
    order.sort_unstable();
    let left = &order[order.partition_point(|[place, _]| *place <= before)..];
    let (mut told, mut then, mut number) = (0, before, 0);
    // Names that come to the same number are told together: behind one of them nobody could go on with the others.
    for alike in left.chunk_by(|[one, _], [other, _]| one == other) {
        let bytes: usize = alike.iter().map(|[_, entry]| length(list, *entry as usize)).sum();
        if told + bytes > room {
            return if told == 0 { Err(sys::EINVAL) } else { Ok((told, then)) };
        }
        for (at, [place, entry]) in alike.iter().enumerate() {
            let entry = *entry as usize;
            let position = if at + 1 == alike.len() { *place } else { then };
            sys::copy_out(into + told, &list[entry..entry + length(list, entry)])?;
            sys::write_u64(into + told + POSITION, position.into())?;
            told += length(list, entry);
        }
        then = alike[0][0];
        number += alike.len();
    }
    Ok((told, if number == left.len() { END } else { then }))
}
