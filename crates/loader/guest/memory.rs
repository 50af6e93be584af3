//! The program's break, and keeping its mappings off ours.

use crate::abi;
use crate::arena::header;
use crate::block;
use crate::calls::number as nr;
use crate::sys;
use crate::x86_64::{entry, gate};
use core::cmp::Ordering;
use core::sync::atomic::Ordering::Relaxed;

const PAGE: usize = 4096;
/// MAP_PRIVATE|MAP_ANONYMOUS|MAP_FIXED_NOREPLACE
const NEW_PLACE: usize = 0x10_0022;
/// MAP_NORESERVE beside it, for what nobody touches.
const RESERVED_PLACE: usize = NEW_PLACE | 0x4000;

/// The program's break: where it begins, and what brk(2) told last.
static mut BREAK: [usize; 2] = [0; 2];

/// From here to the end of the loader's image nothing is the program's; 0: only the image is not.
static mut RESERVED: usize = 0;

/// Takes the addresses below the loader's image, down to a place that does not depend on how large it is: what the kernel finds room for lies below, and programs
/// that tell addresses tell the same with every build of weft. The few pages by which kernels place the image differently make no difference either.
pub fn reserve() {
    let (start, end) = (entry::text().0 & !(PAGE - 1), entry::image_end().next_multiple_of(PAGE));
    let from = (end - abi::IMAGE_BYTES_MAX) & !(abi::RESERVED_BYTES - 1);
    if end - start > abi::IMAGE_BYTES_MAX {
        sys::die("the loader is larger than what is kept for it, bytes", end - start);
    }
    let take = |from: usize, bytes: usize| sys::call(nr::MMAP, &[from, bytes, 0, RESERVED_PLACE, usize::MAX, 0]) == from as isize;
    if !take(from, start - from) {
        // Something lies there: around it.
        for page in (from..start).step_by(PAGE) {
            take(page, PAGE);
        }
    }
    // SAFETY: the process has one thread.
    unsafe { RESERVED = from };
}

/// Takes the pages between the segments of the loader's image, which the linker may leave: calls from there are not looked at, since they lie between those of
/// the loader's own text, and the kernel would give them to the program.
pub fn fill_gaps() {
    const PT_LOAD: u64 = 1;
    let start = entry::text().0;
    // SAFETY: the image begins with its header, and the kernel has mapped what that names.
    let word = |at: usize| unsafe { core::ptr::read_unaligned((start + at) as *const u64) };
    // Elf64_Ehdr: e_phoff, e_phentsize and e_phnum. Elf64_Phdr: p_type, p_vaddr, p_memsz.
    let (table, sizes) = (word(32) as usize, word(54));
    let (entry_bytes, entries) = ((sizes & 0xffff) as usize, (sizes >> 16 & 0xffff) as usize);
    let mut last = start & !(PAGE - 1);
    for at in (0..entries).map(|index| table + index * entry_bytes) {
        if word(at) & 0xffff_ffff == PT_LOAD {
            let from = start + word(at + 16) as usize;
            let first = from & !(PAGE - 1);
            if last < first {
                sys::call(nr::MMAP, &[last, first - last, 0, RESERVED_PLACE, usize::MAX, 0]);
            }
            last = (from + word(at + 40) as usize).next_multiple_of(PAGE);
        }
    }
}

/// The break begins behind the program. Nothing is kept for it: what lies in its way ends it, as on Linux, and MAP_32BIT finds room behind programs at fixed
/// addresses.
pub fn set_break(end: usize) {
    let start = end.next_multiple_of(PAGE) + PAGE;
    // SAFETY: the process has one thread.
    unsafe { BREAK = [start; 2] };
}

/// brk(2)
pub fn set(wanted: usize) -> isize {
    // SAFETY: one thread runs at a time.
    let [start, now] = unsafe { BREAK };
    if wanted < start || wanted > usize::MAX - PAGE {
        return now as isize;
    }
    let (old, new) = (now.next_multiple_of(PAGE), wanted.next_multiple_of(PAGE));
    let readable_and_writable = 3;
    let result = match new.cmp(&old) {
        Ordering::Greater => sys::call(nr::MMAP, &[old, new - old, readable_and_writable, NEW_PLACE, usize::MAX, 0]),
        Ordering::Less => sys::call(nr::MUNMAP, &[new, old - new]),
        Ordering::Equal => 0,
    };
    if result < 0 {
        return now as isize;
    }
    // SAFETY: as above.
    unsafe { BREAK[1] = wanted };
    wanted as isize
}

/// Does a range touch what is ours? Programs may not unmap or replace it.
pub fn is_ours(start: usize, bytes: usize) -> bool {
    let end = start.saturating_add(bytes);
    let overlaps = |low: usize, high: usize| start < high && low < end;
    // SAFETY: one thread runs at a time; in real time it stays 0.
    let reserved = unsafe { RESERVED };
    let image = if reserved > 0 { reserved } else { entry::text().0 & !(PAGE - 1) };
    overlaps(abi::ARENA_ADDRESS, abi::ARENA_ADDRESS + abi::ARENA_BYTES)
        || overlaps(image, entry::image_end().next_multiple_of(PAGE))
        || gate::is_ours(start, end)
        || start < end && (block::is_ours(start) || block::is_ours(end - 1))
}

/// How long a segment of shared memory is.
pub fn shared_bytes(segment: usize) -> usize {
    const IPC_STAT: usize = 2;
    // struct shmid64_ds: shm_segsz behind 48 bytes of permissions.
    let mut state = [0_usize; 14];
    if sys::call(nr::SHMCTL, &[segment, IPC_STAT, state.as_mut_ptr() as usize]) == 0 { state[6] } else { 4096 }
}

/// Takes the kernel's vDSO and the pages that it reads out of the process: they tell the host's time and processor to whoever finds them.
pub fn unmap_kernels(vdso: usize) {
    let (before, bytes) = (header().vdso_before.load(Relaxed) as usize, header().vdso_bytes.load(Relaxed) as usize);
    if bytes != 0 && vdso != 0 {
        sys::unmap(vdso - before, bytes);
        return;
    }
    let found = find_kernels();
    found.iter().filter(|[start, end]| start < end).for_each(|[start, end]| sys::unmap(*start, end - start));
}

/// What [`unmap_kernels`] needs to know, of a process like all others: `vdso_before` and `vdso_bytes` of the header. None: they lie otherwise.
pub fn kernels(vdso: usize) -> Option<[usize; 2]> {
    let found = find_kernels();
    let there = || found.iter().filter(|[start, end]| start < end);
    let (start, end) = (there().map(|range| range[0]).min()?, there().map(|range| range[1]).max()?);
    let bytes: usize = there().map(|[start, end]| end - start).sum();
    (bytes == end - start && (start..end).contains(&vdso)).then_some([vdso - start, bytes])
}

/// Where /proc/self/maps names them; what is empty is none.
fn find_kernels() -> [[usize; 2]; 8] {
    // Nothing is unmapped while the list is read.
    let mut found = [[0_usize; 2]; 8];
    let mut places = found.iter_mut();
    each_mapping(|line, range| {
        if is_kernels(line)
            && let Some(place) = places.next()
        {
            *place = range;
        }
    });
    found
}

/// Each mapping of the process: its line of /proc/self/maps, and from where to where it goes.
pub fn each_mapping(mut visit: impl FnMut(&[u8], [usize; 2])) {
    let fd = sys::call(nr::OPEN, &[c"/proc/self/maps".as_ptr() as usize, 0x8_0000, 0]);
    if fd < 0 {
        return;
    }
    let mut line = [0_u8; 512];
    let mut used = 0;
    let mut text = [0_u8; 4096];
    loop {
        let bytes = sys::call(nr::READ, &[fd as usize, text.as_mut_ptr() as usize, text.len()]);
        if bytes <= 0 {
            break;
        }
        for byte in &text[..bytes as usize] {
            if *byte != b'\n' {
                if used < line.len() {
                    line[used] = *byte;
                    used += 1;
                }
                continue;
            }
            if let Some(range) = range_of(&line[..used]) {
                visit(&line[..used], range);
            }
            used = 0;
        }
    }
    sys::call(nr::CLOSE, &[fd as usize]);
}

/// Is a line of /proc/PID/maps about [vdso], [vvar] or [vvar_vclock]?
fn is_kernels(line: &[u8]) -> bool {
    let name = line.iter().rposition(|byte| *byte == b' ').map_or(line, |at| &line[at + 1..]);
    name.starts_with(b"[vdso") || name.starts_with(b"[vvar")
}

/// The addresses in a line of /proc/PID/maps.
fn range_of(line: &[u8]) -> Option<[usize; 2]> {
    let mut range = [0_usize; 2];
    let mut which = 0;
    for byte in line {
        match byte {
            b'-' => which = 1,
            b' ' => break,
            digit => range[which] = range[which] << 4 | (*digit as char).to_digit(16)? as usize,
        }
    }
    (which == 1 && range[1] > range[0]).then_some(range)
}
