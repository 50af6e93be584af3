//! The program's break, and keeping its mappings off ours.

use crate::abi;
use crate::signal;
use crate::sys;
use crate::x86_64::{entry, gate, numbers as nr};

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
        || gate::is_ours(start, end)
        || start < end && (signal::is_ours(start) || signal::is_ours(end - 1))
}

/// Takes the kernel's vDSO and the pages that it reads out of the process: they tell the host's time and processor to whoever finds them.
pub fn unmap_kernels() {
    let fd = sys::call(nr::OPEN, &[c"/proc/self/maps".as_ptr() as usize, 0x8_0000, 0]);
    if fd < 0 {
        return;
    }
    let mut line = [0_u8; 512];
    let mut used = 0;
    let mut text = [0_u8; 4096];
    // Nothing is unmapped while the list is read.
    let mut found = [[0_usize; 2]; 8];
    let mut count = 0;
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
            if count < found.len()
                && let Some(range) = kernels_range(&line[..used])
            {
                found[count] = range;
                count += 1;
            }
            used = 0;
        }
    }
    sys::call(nr::CLOSE, &[fd as usize]);
    for [start, end] in &found[..count] {
        sys::call(nr::MUNMAP, &[*start, end - start]);
    }
}

/// The addresses in a line of /proc/PID/maps, if it is about [vdso], [vvar] or [vvar_vclock].
fn kernels_range(line: &[u8]) -> Option<[usize; 2]> {
    let name = line.iter().rposition(|byte| *byte == b' ').map(|at| &line[at + 1..])?;
    if !name.starts_with(b"[vdso") && !name.starts_with(b"[vvar") {
        return None;
    }
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
