//! What a process has mapped at an address, as the kernel says it: of a word in shared memory the file and the place in it.

use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use std::io::{BufRead, BufReader};

/// A place in a file, or in memory that several processes share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// Major and minor number, 32 bits each.
    pub device: u64,
    pub inode: u64,
    /// Bytes from the file's start.
    pub offset: u64,
}

/// The place behind an address of the process `outer`, if it is mapped shared. None: it is private, or nothing is there.
pub(super) fn shared(outer: u32, address: u64) -> Option<Place> {
    let maps = std::fs::File::open(format!("/proc/{outer}/maps")).ok()?;
    // A list of a thousand threads has two thousand lines, and each of them asks when it ends. Before Linux 6.11 there is only the list.
    asked(&maps, address).unwrap_or_else(|| read(BufReader::new(maps), address))
}

/// struct procmap_query of include/uapi/linux/fs.h
#[repr(C)]
#[derive(Default)]
struct Query {
    size: u64,
    query_flags: u64,
    query_addr: u64,
    vma_start: u64,
    vma_end: u64,
    vma_flags: u64,
    vma_page_size: u64,
    vma_offset: u64,
    inode: u64,
    dev_major: u32,
    dev_minor: u32,
    vma_name_size: u32,
    build_id_size: u32,
    vma_name_addr: u64,
    build_id_addr: u64,
}

/// PROCMAP_QUERY
const QUERY: Opcode = opcode::read_write::<Query>(b'f', 17);
/// PROCMAP_QUERY_VMA_SHARED
const SHARED: u64 = 8;

/// What the kernel answers when it is asked for one address; None: it knows no such question.
fn asked(maps: &std::fs::File, address: u64) -> Option<Option<Place>> {
    let mut query = Query { size: size_of::<Query>() as u64, query_addr: address, ..Query::default() };
    // SAFETY: the structure is that of the opcode, and has no names for the kernel to write.
    match unsafe { ioctl(maps, Updater::<QUERY, Query>::new(&mut query)) } {
        Ok(()) if query.vma_flags & SHARED != 0 => Some(Some(Place {
            device: u64::from(query.dev_major) << 32 | u64::from(query.dev_minor),
            inode: query.inode,
            offset: query.vma_offset + address - query.vma_start,
        })),
        Ok(()) | Err(rustix::io::Errno::NOENT) => Some(None),
        Err(_) => None,
    }
}

/// The same out of the list, for example `7f00aa000000-7f00aa001000 rw-s 00000000 00:01 2050 /dev/zero (deleted)`.
fn read(maps: impl BufRead, address: u64) -> Option<Place> {
    for line in maps.lines() {
        let line = line.ok()?;
        let mut words = line.split_ascii_whitespace();
        let (range, rights) = (words.next()?, words.next()?);
        let (start, end) = range.split_once('-')?;
        let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
        if !(start..end).contains(&address) {
            continue;
        }
        if !rights.ends_with('s') {
            return None;
        }
        let offset = u64::from_str_radix(words.next()?, 16).ok()?;
        let (major, minor) = words.next()?.split_once(':')?;
        let device = u64::from_str_radix(major, 16).ok()? << 32 | u64::from_str_radix(minor, 16).ok()?;
        return Some(Place { device, inode: words.next()?.parse().ok()?, offset: offset + address - start });
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null_mut;

    fn both(address: u64) -> (Option<Option<Place>>, Option<Place>) {
        let maps = std::fs::File::open("/proc/self/maps").unwrap();
        (asked(&maps, address), read(BufReader::new(maps), address))
    }

    #[test]
    fn the_question_and_the_list_say_the_same() {
        const BYTES: usize = 0x3000;
        let map = |flags| {
            // SAFETY: new memory at a place that the kernel chooses.
            let at = unsafe { libc::mmap(null_mut(), BYTES, libc::PROT_READ, libc::MAP_ANONYMOUS | flags, -1, 0) };
            assert_ne!(at, libc::MAP_FAILED);
            at
        };
        let (of_all, own, gone) = (map(libc::MAP_SHARED), map(libc::MAP_PRIVATE), map(libc::MAP_SHARED));
        // SAFETY: it was mapped above, and nothing refers to it.
        unsafe { libc::munmap(gone, BYTES) };
        let (at, list) = both(of_all as u64 + 0x1004);
        assert_eq!(list.map(|place| place.offset), Some(0x1004));
        // None: a kernel before 6.11.
        assert!(at.is_none_or(|at| at == list), "{at:?} {list:?}");
        for address in [own as u64, gone as u64, 0, u64::MAX - 3] {
            let (at, list) = both(address);
            assert!(list.is_none() && at.is_none_or(|at| at.is_none()), "{address:#x}: {at:?} {list:?}");
        }
        assert_eq!(shared(std::process::id(), of_all as u64 + 8).map(|place| place.offset), Some(8));
        // SAFETY: as above.
        unsafe { libc::munmap(of_all, BYTES) };
        // SAFETY: as above.
        unsafe { libc::munmap(own, BYTES) };
    }

    #[test]
    fn a_line_that_is_no_line_is_nothing() {
        for text in
            ["", "x", "1-2", "zz-3 rw-s 0 0:0 1", "1000-2000 rw-s 0 00 1", "1000-2000 rw-s 0 0:0", "1000-2000 rw-p 0 0:0 1", "\u{ff}"]
        {
            assert_eq!(read(text.as_bytes(), 0x1004), None, "{text}");
        }
        let place = Place { device: 0x1_0000_0002, inode: 7, offset: 0x5004 };
        assert_eq!(read("0-1000 r--p 0 0:0 0\n1000-2000 rw-s 5000 01:02 7 /dev/zero (deleted)\n".as_bytes(), 0x1004), Some(place));
    }
}
