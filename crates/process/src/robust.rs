//! Robust lists (set_robust_list(2)) of threads that end without a word of theirs. The kernel walks the lists when it takes the threads apart, and marks the
//! locks; who waits for these waits here.

use super::futexes::{Key, TID, WAITERS};
use super::ids::ProcessId;
use super::tree::Tree;
use weft_intercept::sys::{self, Errno};

/// ROBUST_LIST_LIMIT
const LOCKS_MAX: usize = 2048;

/// get_robust_list(2): where a thread's list is, by its number outside; 0: it has none.
fn list_of(thread: u32) -> Result<u64, Errno> {
    let (mut head, mut length) = (0_u64, 0_usize);
    // SAFETY: the kernel writes a pointer and a length.
    let result = unsafe { libc::syscall(libc::SYS_get_robust_list, thread as libc::pid_t, &raw mut head, &raw mut length) };
    if result == 0 { Ok(head) } else { Err(sys::last()) }
}

/// The locks in a list for each of which the kernel wakes somebody once the threads `ending` are gone (handle_futex_death of kernel/futex/core.c).
fn woken(outer: u32, head: u64, ending: &[u32], found: &mut Vec<u64>) -> Option<()> {
    let long = |at: u64| {
        let mut bytes = [0; 8];
        sys::read_memory(outer, at, &mut bytes).ok().map(|()| u64::from_ne_bytes(bytes))
    };
    let word = |at: u64| {
        let mut bytes = [0; 4];
        sys::read_memory(outer, at, &mut bytes).ok().map(|()| u32::from_ne_bytes(bytes))
    };
    // struct robust_list_head { list, futex_offset, list_op_pending }; bit 0 of an entry says that the lock is handed over (PI).
    let (mut entry, offset, pending) = (long(head)?, long(head.wrapping_add(8))?, long(head.wrapping_add(16))?);
    let mut died = |entry: u64, pending: bool| {
        let at = (entry & !1).wrapping_add(offset);
        let (plain, Some(word)) = (entry & 1 == 0, word(at)) else { return };
        // "if (pending_op && !pi && !owner) { futex_wake(uaddr, FLAGS_SIZE_32 | FLAGS_SHARED, 1, …"
        let wakes = if word & TID == 0 { pending } else { ending.contains(&(word & TID)) && word & WAITERS != 0 };
        if plain && wakes {
            found.push(at);
        }
    };
    let mut rest = LOCKS_MAX;
    while entry & !1 != head && rest > 0 {
        let next = long(entry & !1);
        if entry & !1 != pending & !1 {
            died(entry, false);
        }
        match next {
            Some(next) => entry = next,
            None => break,
        }
        rest -= 1;
    }
    if pending & !1 != 0 {
        died(pending, true);
    }
    Some(())
}

impl Tree {
    /// Threads of a process are about to end, those that are still in its list of threads but for the one that ends them: whom that wakes.
    pub(super) fn look_at_locks(&mut self, process: ProcessId) {
        let Some(one) = self.tasks.processes.get(&process) else { return };
        let outer = one.outer;
        let ending: Vec<u32> = one.threads.iter().filter_map(|thread| self.tasks.threads.get(thread)).map(|thread| thread.tid).collect();
        let Ok(threads) = std::fs::read_dir(format!("/proc/{outer}/task")) else { return };
        let mut threads: Vec<u32> = threads.filter_map(|one| one.ok()?.file_name().to_str()?.parse().ok()).collect();
        threads.sort_unstable();
        let mut addresses = Vec::new();
        for thread in threads {
            match list_of(thread) {
                Ok(0) => {}
                Ok(head) => {
                    woken(outer, head, &ending, &mut addresses);
                }
                Err(_) => return,
            }
        }
        let keys = addresses.into_iter().filter_map(|address| self.key_of(outer, address, false).ok()).collect();
        if let Some(one) = self.tasks.processes.get_mut(&process) {
            one.locks = Some(keys);
        }
    }

    /// They have ended, and the kernel has marked their locks.
    pub(super) fn wake_for_locks(&mut self, process: ProcessId) {
        let locks: Option<Vec<Key>> = self.tasks.processes.get_mut(&process).and_then(|one| one.locks.take());
        match locks {
            Some(locks) => locks.into_iter().for_each(|key| {
                self.futex_wake(key, 1, u32::MAX);
            }),
            None => self.wake_for_the_dead(),
        }
    }
}
