//! clone(2) and its relatives in real time: the kernel's, with a block and a handler for whoever begins.

use crate::abi::Process;
use crate::block::{BLOCK, BLOCKS_ADDRESS, Thread, allocate, only, put, release, used};
use crate::calls::{Clone, Clone3, ExitGroup, Fork, Vfork, number as nr};
use crate::channel::real;
use crate::forward::Answer;
use crate::frames;
use crate::lock::{ACTIONS, BREAK};
use crate::sys;
use crate::thread::{CLONE_FILES, CLONE_NEWTIME, CLONE_PIDFD, CLONE_VM, CSIGNAL, FORK, NEW_TIME, VFORK};
use crate::turns::SPLICES;
use crate::x86_64::context::{Context, RAX, RSP, Stack};
use crate::x86_64::entry;

const CLONE_VFORK: usize = 0x4000;
const CLONE_THREAD: usize = 0x1_0000;

/// GS leads to the thread's block: see `entry::native`.
pub fn point(t: &Thread) {
    // ARCH_SET_GS
    sys::call(nr::ARCH_PRCTL, &[0x1001, core::ptr::from_ref(t) as usize]);
}

/// First steps of a thread that shares its maker's memory.
pub fn begins(t: &mut Thread) -> ! {
    point(t);
    t.strict.tid = sys::call(nr::GETTID, &[]) as usize;
    crate::thread::arm();
    // SAFETY: the maker has put a context there.
    unsafe { entry::resume(t.begins_at) }
}

/// clone(2)
pub fn clone_call(t: &mut Thread, context: &mut Context, call: Clone) -> isize {
    let Clone { flags, newsp, parent_tid, child_tid, tls } = call;
    clone(t, context, [flags.0, newsp.0, parent_tid.0, child_tid.0, tls.0])
}

/// clone3(2)
pub fn clone3_call(t: &mut Thread, context: &mut Context, call: Clone3) -> Answer {
    let arguments = crate::thread::clone3_arguments(call.uargs.0, call.size.0)?;
    Ok(clone(t, context, arguments))
}

/// fork(2)
pub fn fork_call(t: &mut Thread, context: &mut Context, _: Fork) -> isize {
    clone(t, context, [FORK, 0, 0, 0, 0])
}

/// vfork(2)
pub fn vfork_call(t: &mut Thread, context: &mut Context, _: Vfork) -> isize {
    clone(t, context, [VFORK, 0, 0, 0, 0])
}

fn clone(t: &mut Thread, context: &mut Context, a: [usize; 5]) -> isize {
    let [flags, stack, parent_tid, child_tid, tls] = a;
    if flags & CLONE_VM != 0 {
        return share(t, context, a);
    }
    let shares_files = flags & CLONE_FILES != 0;
    if shares_files {
        crate::descriptor::share();
    }
    let pid = if flags & NEW_TIME == 0 {
        sys::call(nr::CLONE, &[flags, 0, parent_tid, child_tid, tls])
    } else {
        let words = new_time(a, 0);
        sys::call(nr::CLONE3, &[words.as_ptr() as usize, size_of_val(&words)])
    };
    if pid == 0 {
        only(t.index);
        // SAFETY: nothing else runs in this process.
        t.own_files = unsafe { *t.files };
        t.files = &raw mut t.own_files;
        t.is_thread = false;
        t.strict.borrowed = false;
        BREAK.reset();
        ACTIONS.reset();
        SPLICES.reset();
        real::start_anew(t, shares_files);
        super::signal::start_anew(t);
        if stack != 0 {
            context.registers[RSP] = stack as u64;
        }
        crate::thread::arm();
    }
    pid
}

/// The arguments of clone3(2) for a child with a time namespace of its own, on the stack that ends there (0: on a copy of ours).
fn new_time([flags, _, parent_tid, child_tid, tls]: [usize; 5], top: usize) -> [usize; 8] {
    const STACK: usize = 4096;
    let (start, bytes) = if top == 0 { (0, 0) } else { (top - STACK, STACK) };
    let pidfd = if flags & CLONE_PIDFD == 0 { 0 } else { parent_tid };
    let signal = flags & CSIGNAL;
    [flags & !(NEW_TIME | CSIGNAL) | CLONE_NEWTIME, pidfd, child_tid, parent_tid, signal, start, bytes, tls]
}

/// A copy of what a process is to itself, for one that shares the memory but not the dispositions.
fn copy_process(from: &Process) -> Option<&'static Process> {
    let at = sys::map(size_of::<Process>())?;
    // SAFETY: new memory of that size; the other is changed under a lock that is not needed for a copy of words.
    unsafe {
        core::ptr::copy_nonoverlapping(core::ptr::from_ref(from), at as *mut Process, 1);
        Some(&*(at as *const Process))
    }
}

/// A thread, or a process that shares our memory.
fn share(t: &mut Thread, context: &Context, a: [usize; 5]) -> isize {
    let [flags, stack, parent_tid, child_tid, tls] = a;
    let thread = flags & CLONE_THREAD != 0;
    let process = if thread { Some(t.process) } else { copy_process(t.process) };
    let (Some(process), Some(index)) = (process, allocate()) else { return sys::EAGAIN };
    // SAFETY: the block is free; everything is prepared before the child exists.
    let (new, top) = unsafe { (put(index, t.channel, process), BLOCKS_ADDRESS + (index + 1) * BLOCK) };
    SPLICES.forget(index);
    new.is_thread = thread;
    new.strict.on = true;
    new.strict.borrowed = !thread;
    new.strict.pretended = t.strict.pretended;
    if flags & CLONE_FILES != 0 {
        new.files = t.files;
    } else {
        // SAFETY: words are written whole.
        new.own_files = unsafe { *t.files };
    }
    if !thread && flags & CLONE_VFORK != 0 {
        new.alternate = t.alternate;
    }
    let mut copy = *context;
    copy.registers[RAX] = 0;
    if stack != 0 {
        copy.registers[RSP] = stack as u64;
    }
    copy.stack = Stack { start: (top - BLOCK) as u64, flags: 0, padding: 0, bytes: BLOCK as u64 };
    let frame = match frames::make_frame(top as u64 - 256, &copy, None) {
        Ok(frame) => frame,
        Err(errno) => {
            release(index);
            return errno;
        }
    };
    new.begins_at = frame as usize + 8;
    let top = (frame as usize - 4096) & !63;
    let words = new_time(a, top);
    // SAFETY: the child begins on its own block.
    let pid = unsafe {
        if flags & NEW_TIME == 0 {
            entry::weft_clone(flags, top, parent_tid, child_tid, tls)
        } else {
            entry::weft_clone3(words.as_ptr() as usize, size_of_val(&words))
        }
    };
    let over = pid < 0 || flags & CLONE_VFORK != 0;
    if over {
        // It has ended or has another image.
        release(index);
        if !thread {
            sys::unmap(core::ptr::from_ref(process) as usize, size_of::<Process>());
        }
    }
    pid
}

/// exit_group(2): a process that shares its descriptors leaves none of ours behind.
pub fn exit_group(t: &mut Thread, _: ExitGroup) -> Option<Answer> {
    if crate::descriptor::are_shared() {
        real::leave(t);
    }
    None
}

/// exit(2): this thread only.
pub fn exit(t: &mut Thread, status: usize) -> ! {
    real::leave(t);
    if t.index == 0 || t.strict.borrowed {
        sys::call(nr::EXIT, &[status]);
    }
    let (word, bit) = used(t.index);
    entry::leave(word, bit, status)
}
