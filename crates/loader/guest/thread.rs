//! Threads and processes: a thread's own block, clone and its relatives, exit.

use crate::abi::{self, Channel, Process};
use crate::arena;
use crate::block::{BLOCK, BLOCKS_ADDRESS, Thread, allocate, alternate_stack, map_blocks, only, put, release, used};
use crate::calls::number as nr;
use crate::channel::post;
use crate::descriptor;
use crate::frames;
use crate::sys;
use crate::turns::SPLICES;
use crate::x86_64::context::{Context, RAX, RSP, Stack};
use crate::x86_64::entry;
use core::sync::atomic::Ordering::{AcqRel, Relaxed};

pub const CLONE_VM: usize = 0x100;
/// Flags of fork(2) and vfork(2) as clone(2): SIGCHLD.
pub const FORK: usize = 17;
pub const VFORK: usize = FORK | CLONE_VM | CLONE_VFORK;
pub const CLONE_FILES: usize = 0x400;
pub const CLONE_PIDFD: usize = 0x1000;
pub const CLONE_VFORK: usize = 0x4000;
const CLONE_PARENT: usize = 0x8000;
const CLONE_THREAD: usize = 0x1_0000;
const CLONE_PARENT_SETTID: usize = 0x10_0000;
const CLONE_CHILD_CLEARTID: usize = 0x20_0000;
const CLONE_CHILD_SETTID: usize = 0x100_0000;
const CLONE_DETACHED: usize = 0x40_0000;
/// Where clone(2) has the signal that the child's end sends.
pub const CSIGNAL: usize = 0xff;
/// clone3(2)'s, which has another place for the signal; among the flags of clone(2) it is [`NEW_TIME`].
pub const CLONE_NEWTIME: usize = 0x80;
pub const NEW_TIME: usize = 1 << 40;
/// Namespaces, and what else makes no sense in a node: CLONE_PTRACE, CLONE_NEW*, CLONE_IO.
const CLONE_REFUSED: usize = 0x2000 | 0x2_0000 | 0x7e00_0000 | 0x8000_0000 | NEW_TIME;

/// The thread of a new image.
pub unsafe fn first(index: usize) -> &'static mut Thread {
    map_blocks();
    let channel = arena::channel(index);
    channel.alive.store(1, Relaxed);
    let process = arena::process(channel.process.load(Relaxed) as usize);
    // SAFETY: the first thread of an image.
    unsafe { put(allocate().unwrap_or(0), channel, process) }
}

/// Kernel settings of the calling thread: its handler stack and the word that the kernel clears when it is gone.
pub unsafe fn set_up(t: &mut Thread) {
    alternate_stack(t);
    sys::call(nr::SET_TID_ADDRESS, &[t.channel.alive.as_ptr() as usize]);
}

/// From now on every call of this thread from outside the loader's text comes to our handler, and so does RDTSC.
pub fn arm() {
    let (start, bytes) = entry::text();
    // PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON; no selector byte.
    let armed = sys::call(nr::PRCTL, &[59, 1, start, bytes, 0]);
    if armed != 0 {
        sys::die("this kernel has no Syscall User Dispatch (Linux 5.11, CONFIG_GENERIC_ENTRY)", -armed as usize);
    }
    if arena::header().flags.load(Relaxed) & abi::TRAP_TSC != 0 {
        // PR_SET_TSC, PR_TSC_SIGSEGV
        sys::call(nr::PRCTL, &[26, 2]);
    }
    if arena::header().flags.load(Relaxed) & abi::STRICT == 0 {
        forbid_cpuid();
    }
}

/// CPUID faults from now on, in threads and processes that are begun as well, and ends with execve(2). Many processors under a hypervisor refuse.
pub fn forbid_cpuid() {
    // ARCH_SET_CPUID
    sys::call(nr::ARCH_PRCTL, &[0x1012, 0]);
}

/// clone(2) and what comes to it: fork, vfork.
pub fn clone(t: &mut Thread, context: &mut Context, a: [usize; 5]) -> isize {
    let [flags, stack, parent_tid, child_tid, tls] = a;
    let (shares_memory, thread) = (flags & CLONE_VM != 0, flags & CLONE_THREAD != 0);
    if flags & CLONE_REFUSED != 0 {
        post(t, abi::UNSUPPORTED, &[nr::CLONE as u64, flags as u64, -sys::EINVAL as u64]);
        return sys::EINVAL;
    }
    let granted = post(t, nr::CLONE as u64, &[flags as u64]);
    if granted < 0 {
        return granted as isize;
    }
    let child = arena::channel(granted as usize & 0xffff);
    child.mask.store(t.channel.mask.load(Relaxed), Relaxed);
    if !shares_memory && flags & CLONE_FILES != 0 {
        descriptor::share();
    }
    if !thread {
        copy_process(t.process, arena::process(child.process.load(Relaxed) as usize));
    }
    // The signal of its end is the controller's to send: that of the kernel would end who has a handler for it.
    let signal = if thread { flags & CSIGNAL } else { FORK };
    let kept = flags & !(CSIGNAL | CLONE_VFORK | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID) | signal;
    let pid = if shares_memory {
        // SAFETY: the new thread's block is free; its channel was granted.
        unsafe { share(t, context, child, [flags, kept, stack, parent_tid, child_tid, tls]) }
    } else {
        let pid = sys::call(nr::CLONE, &[kept | flags & CLONE_CHILD_SETTID, 0, parent_tid, child_tid, tls]);
        if pid == 0 {
            // SAFETY: the only thread of the new process, on its copy of the block.
            unsafe { forked(t, context, child, stack, if flags & CLONE_CHILD_CLEARTID != 0 { child_tid } else { 0 }) };
            return 0;
        }
        pid
    };
    post(t, abi::CLONED, &[pid as u64, granted as u64, flags as u64]);
    pid
}

fn copy_process(from: &Process, to: &Process) {
    for (old, new) in from.actions.iter().zip(&to.actions) {
        new.handler.store(old.handler.load(Relaxed), Relaxed);
        new.flags.store(old.flags.load(Relaxed), Relaxed);
        new.restorer.store(old.restorer.load(Relaxed), Relaxed);
        new.mask.store(old.mask.load(Relaxed), Relaxed);
    }
    crate::identity::copy(from, to);
    // SAFETY: both areas are in the arena; the new slot is nobody's yet.
    unsafe { core::ptr::copy_nonoverlapping(from.executable.pointer(), to.executable.pointer(), abi::PATH_BYTES) };
}

unsafe fn forked(t: &mut Thread, context: &mut Context, child: &'static Channel, stack: usize, clear_tid: usize) {
    only(t.index);
    SPLICES.reset();
    // SAFETY: nothing else runs in this process.
    t.own_files = unsafe { *t.files };
    t.files = &raw mut t.own_files;
    t.is_thread = false;
    t.channel = child;
    t.process = arena::process(child.process.load(Relaxed) as usize);
    t.clear_tid = clear_tid;
    t.robust = 0;
    child.alive.store(1, Relaxed);
    sys::call(nr::SET_TID_ADDRESS, &[child.alive.as_ptr() as usize]);
    if stack != 0 {
        context.registers[RSP] = stack as u64;
    }
    arm();
    started(t);
}

/// A thread, or a process that shares our memory.
unsafe fn share(t: &mut Thread, context: &Context, child: &'static Channel, a: [usize; 6]) -> isize {
    let [flags, kept, stack, parent_tid, child_tid, tls] = a;
    // SAFETY: see `allocate`; everything is prepared before the child exists.
    unsafe {
        let Some(index) = allocate() else { return sys::EAGAIN };
        let new = put(index, child, arena::process(child.process.load(Relaxed) as usize));
        SPLICES.forget(index);
        new.is_thread = flags & CLONE_THREAD != 0;
        if flags & CLONE_FILES != 0 {
            new.files = t.files;
        }
        if flags & CLONE_THREAD == 0 && flags & CLONE_VFORK != 0 {
            // do_fork: sigaltstack is inherited by vfork's child only ("sas_ss_reset" when CLONE_VM without CLONE_VFORK).
            new.alternate = t.alternate;
        }
        if flags & CLONE_CHILD_CLEARTID != 0 {
            new.clear_tid = child_tid;
        }
        if flags & CLONE_CHILD_SETTID != 0 {
            new.set_tid = child_tid;
        }
        let mut copy = *context;
        copy.registers[RAX] = 0;
        if stack != 0 {
            copy.registers[RSP] = stack as u64;
        }
        let top = BLOCKS_ADDRESS + (index + 1) * BLOCK;
        copy.stack = Stack { start: (top - BLOCK) as u64, flags: 0, padding: 0, bytes: BLOCK as u64 };
        let Ok(frame) = frames::make_frame(top as u64 - 256, &copy, None) else { return sys::EFAULT };
        new.begins_at = frame as usize + 8;
        child.alive.store(1, Relaxed);
        let pid =
            entry::weft_clone(kept | CLONE_CHILD_CLEARTID, (frame as usize - 4096) & !63, parent_tid, child.alive.as_ptr() as usize, tls);
        if pid < 0 {
            release(index);
        }
        pid
    }
}

/// The first thing that a new thread tells.
pub fn started(t: &mut Thread) {
    t.saved_mask = None;
    if !t.is_thread {
        crate::channel::announce();
    }
    post(t, abi::CHILD, &[sys::call(nr::GETPID, &[]) as u64, sys::call(nr::GETTID, &[]) as u64]);
}

/// What clone(2) would be called with, of the arguments of clone3(2) in memory.
pub fn clone3_arguments(at: usize, bytes: usize) -> Result<[usize; 5], isize> {
    let mut words = [0_u8; 88];
    if bytes < 64 || bytes > 88 {
        return Err(sys::ENOSYS);
    }
    sys::copy_in(at, &mut words[..bytes])?;
    let word = |index: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&words[index * 8..index * 8 + 8]);
        usize::from_ne_bytes(word)
    };
    let [flags, pidfd, child_tid, parent_tid, signal, stack, stack_bytes, tls] = [0, 1, 2, 3, 4, 5, 6, 7].map(word);
    // clone3_args_valid: "We ignore legacy CLONE_DETACHED", "(…) CSIGNAL & (~CLONE_NEWTIME)"; clone3_stack_valid; valid_signal.
    const SIGNALS: usize = 64;
    if flags & (CLONE_DETACHED | CSIGNAL & !CLONE_NEWTIME) != 0
        || signal > SIGNALS
        || flags & (CLONE_THREAD | CLONE_PARENT) != 0 && signal != 0
        || (stack == 0) != (stack_bytes == 0)
    {
        return Err(sys::EINVAL);
    }
    let flags = if flags & CLONE_NEWTIME == 0 { flags } else { flags & !CLONE_NEWTIME | NEW_TIME };
    // set_tid, cgroup, CLONE_CLEAR_SIGHAND and CLONE_INTO_CGROUP: libc goes on with clone.
    if word(9) != 0 || word(10) != 0 || (flags & !NEW_TIME) >> 32 != 0 || flags & CLONE_PIDFD != 0 && flags & CLONE_PARENT_SETTID != 0 {
        return Err(sys::ENOSYS);
    }
    let parent_tid = if flags & CLONE_PIDFD != 0 { pidfd } else { parent_tid };
    let stack = if stack == 0 { 0 } else { stack.wrapping_add(stack_bytes) };
    Ok([flags | signal, stack, parent_tid, child_tid, tls])
}

/// exit(2): this thread only.
pub fn exit(t: &mut Thread, status: usize) -> ! {
    robust_list(t, sys::call(nr::GETTID, &[]) as u32);
    let cleared = if t.clear_tid != 0 && sys::write_u32(t.clear_tid, 0).is_ok() { t.clear_tid } else { 0 };
    post(t, nr::EXIT as u64, &[status as u64, cleared as u64]);
    if t.index != 0 {
        release(t.index);
    }
    sys::call(nr::EXIT, &[status]);
    loop {}
}

/// exit_group(2)
pub fn exit_group(t: &mut Thread, status: usize) -> ! {
    robust_list(t, sys::call(nr::GETTID, &[]) as u32);
    post(t, nr::EXIT_GROUP as u64, &[status as u64]);
    leave_block(t);
    sys::call(nr::EXIT_GROUP, &[status]);
    loop {}
}

/// vfork's child gives its block back to the memory that it shares.
pub fn leave_block(t: &Thread) {
    if t.index != 0 {
        release(t.index);
    }
}
/// Nobody has run since `leave_block`.
pub fn take_block_again(t: &Thread) {
    let (word, bit) = used(t.index);
    word.fetch_or(1 << bit, AcqRel);
}

/// execve(2) leaves the memory: exec_mm_release. A thread that is not the leader has the leader's number by then, so that locks with its own stay as they are.
pub fn leave_memory(t: &mut Thread) {
    robust_list(t, sys::call(nr::GETPID, &[]) as u32);
    // mm_release: "We don't check the error code - if userspace has not set up a proper pointer then tough luck." Only where somebody else has the memory.
    let shares = !t.is_thread && t.index != 0;
    let cleared = core::mem::take(&mut t.clear_tid);
    if shares && cleared != 0 && sys::write_u32(cleared, 0).is_ok() {
        // FUTEX_WAKE
        post(t, nr::FUTEX as u64, &[cleared as u64, 1, 1]);
    }
}

/// Locks that a thread holds when it ends get FUTEX_OWNER_DIED (kernel/futex/core.c, exit_robust_list), if they have this number.
fn robust_list(t: &mut Thread, tid: u32) {
    const LOCKS_MAX: usize = 2048;
    const OWNER_DIED: u32 = 0x4000_0000;
    const TID: u32 = 0x3fff_ffff;
    const WAITERS: u32 = 0x8000_0000;
    let head = core::mem::take(&mut t.robust);
    if head == 0 {
        return;
    }
    // The kernel and the controller need not walk it again.
    sys::call(nr::SET_ROBUST_LIST, &[0, 24]);
    let (Ok(mut entry), Ok(offset), Ok(pending)) = (sys::read_u64(head), sys::read_u64(head + 8), sys::read_u64(head + 16)) else { return };
    let mut died = |entry: u64, is_pending: bool| {
        let at = (entry & !1).wrapping_add(offset) as usize;
        let Ok(word) = sys::read_u32(at) else { return };
        // Bit 0 says that the lock is one of those that are handed over (PI), which the controller does when the thread is gone.
        let wakes = match word & TID {
            // "if (pending_op && !pi && !owner)": it was given back already, and nobody woken.
            0 => is_pending,
            owner => owner == tid && sys::write_u32(at, word & WAITERS | OWNER_DIED).is_ok() && word & WAITERS != 0,
        };
        if wakes && entry & 1 == 0 {
            // FUTEX_WAKE
            post(t, nr::FUTEX as u64, &[at as u64, 1, 1]);
        }
    };
    for _ in 0..LOCKS_MAX {
        if entry & !1 == head as u64 {
            break;
        }
        let next = sys::read_u64(entry as usize & !1);
        if entry & !1 != pending & !1 {
            died(entry, false);
        }
        match next {
            Ok(next) => entry = next,
            Err(_) => break,
        }
    }
    if pending & !1 != 0 {
        died(pending, true);
    }
}
