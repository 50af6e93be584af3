//! The program's break, and keeping its mappings off ours.

use crate::abi;
use crate::signal;
use crate::sys;
use crate::x86_64::{entry, numbers as nr};

const PAGE: usize = 4096;
/// Room for the break: 4 GiB of addresses.
const BREAK_BYTES: usize = abi::BREAK_BYTES as usize;

/// Start, present end, limit.
static mut BREAK: [usize; 3] = [0; 3];

/// Reserves room behind the program.
pub fn set_break(end: usize) {
    let start = end.next_multiple_of(PAGE) + PAGE;
    let mut bytes = BREAK_BYTES;
    while sys::call(nr::MMAP, &[start, bytes, 0, 0x10_4022, usize::MAX, 0]) != start as isize && bytes > PAGE {
        bytes /= 2;
    }
    // SAFETY: the process has one thread.
    unsafe { BREAK = [start, start, start + bytes] };
}

/// brk(2)
pub fn set(wanted: usize) -> isize {
    // SAFETY: one thread runs at a time.
    let [start, now, limit] = unsafe { BREAK };
    if wanted < start || wanted > limit {
        return now as isize;
    }
    let (old, new) = (now.next_multiple_of(PAGE), wanted.next_multiple_of(PAGE));
    if new > old && sys::call(nr::MPROTECT, &[old, new - old, 3]) != 0 {
        return now as isize;
    }
    if new < old {
        // Fresh pages that nobody may touch, in place of the old.
        sys::call(nr::MMAP, &[new, old - new, 0, 0x4032, usize::MAX, 0]);
    }
    // SAFETY: as above.
    unsafe { BREAK[1] = wanted };
    wanted as isize
}

/// Does a range touch what is ours? Programs may not unmap or replace it.
pub fn is_ours(start: usize, bytes: usize) -> bool {
    let end = start.saturating_add(bytes);
    let overlaps = |low: usize, high: usize| start < high && low < end;
    let (text, _) = entry::text();
    overlaps(abi::ARENA_ADDRESS, abi::ARENA_ADDRESS + abi::ARENA_BYTES)
        || overlaps(text & !(PAGE - 1), entry::image_end().next_multiple_of(PAGE))
        || start < end && (signal::is_ours(start) || signal::is_ours(end - 1))
}
