//! Pages that are to stay in memory: mlock(2) and its kind (mm/mlock.c).
//!
//! mlockall(2) means what is the program's, and not the gigabytes of addresses that are kept for weft: the kernel would count these against
//! RLIMIT_MEMLOCK, and give each a page. In virtual time nothing that a program can see depends on whether a page stays, and what the host allows whoever
//! started weft must not show.

use crate::block::Thread;
use crate::calls::number as nr;
use crate::forward::Answer;
use crate::identity;
use crate::memory;
use crate::sys;
use core::sync::atomic::Ordering::Relaxed;

const CURRENT: usize = 1;
const FUTURE: usize = 2;
const ON_FAULT: usize = 4;
/// mlock2(2)
const MLOCK_ONFAULT: usize = 1;
const PAGE: usize = 4096;

/// can_do_mlock, and whether so many bytes are within the limit, of a process of a node.
fn may_lock(t: &Thread, bytes: impl FnOnce() -> usize) -> Result<(), isize> {
    const CAP_IPC_LOCK: u32 = 14;
    const RLIMIT_MEMLOCK: usize = 8;
    if identity::may(t.process, CAP_IPC_LOCK) {
        return Ok(());
    }
    match t.process.limits[RLIMIT_MEMLOCK][0].load(Relaxed) {
        0 => Err(sys::EPERM),
        limit if bytes() as u64 > limit & !(PAGE as u64 - 1) => Err(sys::ENOMEM),
        _ => Ok(()),
    }
}

/// mlock(2) and mlock2(2) of a range, in a node. `by_kernel` asks the kernel.
pub fn range(t: &Thread, start: usize, len: usize, flags: usize, by_kernel: impl FnOnce() -> isize) -> Answer {
    const MADV_POPULATE_READ: usize = 22;
    const MS_ASYNC: usize = 1;
    if flags & !MLOCK_ONFAULT != 0 {
        return Err(sys::EINVAL);
    }
    let from = start & !(PAGE - 1);
    // "len = PAGE_ALIGN(len + (offset_in_page(start)));" wraps.
    let bytes = len.wrapping_add(start - from + PAGE - 1) & !(PAGE - 1);
    may_lock(t, || bytes)?;
    let result = by_kernel();
    if !matches!(result, sys::ENOMEM | sys::EPERM | sys::EAGAIN) {
        return Ok(result);
    }
    // It is too much for whoever started weft; or nothing is there, or nothing that can be read.
    let is_there = match flags {
        MLOCK_ONFAULT => sys::call(nr::MSYNC, &[from, bytes, MS_ASYNC]),
        _ => sys::call(nr::MADVISE, &[from, bytes, MADV_POPULATE_READ]),
    };
    if is_there == 0 { Ok(0) } else { Err(sys::ENOMEM) }
}

fn known(flags: usize) -> Result<(), isize> {
    let flags = flags as u32 as usize;
    let wrong = flags & !(CURRENT | FUTURE | ON_FAULT) != 0 || flags & (CURRENT | FUTURE) == 0;
    if wrong { Err(sys::EINVAL) } else { Ok(()) }
}

/// mlockall(2) in a node.
pub fn all(t: &Thread, flags: usize) -> Answer {
    known(flags)?;
    may_lock(t, || {
        let mut bytes = 0;
        if flags & CURRENT != 0 {
            each_of_programs(|[start, end]| bytes += end - start);
        }
        bytes
    })?;
    Ok(0)
}

/// Each mapping of the program's, from where to where it goes. The vsyscall page is beyond what a process has.
fn each_of_programs(mut visit: impl FnMut([usize; 2])) {
    memory::each_mapping(|_, [start, end]| {
        if (start as isize) > 0 && !memory::is_ours(start, end - start) {
            visit([start, end]);
        }
    });
}

/// mlockall(2) in real time.
pub fn all_of_programs(flags: usize) -> Answer {
    known(flags)?;
    // "current->mm->def_flags &= ~VM_LOCKED": what is mapped later is locked by this call alone or not at all.
    let later = if flags & FUTURE != 0 { sys::call(nr::MLOCKALL, &[flags & !CURRENT]) } else { sys::call(nr::MUNLOCKALL, &[]) };
    if later != 0 || flags & CURRENT == 0 {
        return Ok(later);
    }
    let mut result = 0;
    each_of_programs(|[start, end]| {
        if result == 0 {
            // Without a page yet: that fails only for what is too much.
            result = sys::call(nr::MLOCK2, &[start, end - start, MLOCK_ONFAULT]);
            if result == 0 && flags & ON_FAULT == 0 {
                // "mm_populate(0, TASK_SIZE)": what cannot have pages is passed over.
                sys::call(nr::MLOCK, &[start, end - start]);
            }
        }
    });
    if result != 0 {
        sys::call(nr::MUNLOCKALL, &[]);
    }
    Ok(result)
}
