//! What the kernel is told about signals, and the frames in which handlers begin, which are built here by hand.

use crate::calls::number as nr;
use crate::sys;
use crate::x86_64::context::*;
use crate::x86_64::entry;

pub const SIGKILL: usize = 9;
pub const SIGSTOP: usize = 19;
pub const SIGSYS: usize = 31;
pub const SIGPIPE: usize = 13;
pub const SA_NOCLDWAIT: u64 = 2;
pub const SA_SIGINFO: u64 = 4;
pub const SA_RESTORER: u64 = 0x0400_0000;
pub const SA_ONSTACK: u64 = 0x0800_0000;
pub const SA_RESTART: u64 = 0x1000_0000;
pub const SA_NODEFER: u64 = 0x4000_0000;
pub const SA_RESETHAND: u64 = 0x8000_0000;
pub const SS_DISABLE: i32 = 2;
pub const SS_AUTODISARM: u32 = 1 << 31;
/// Faults of the program's own instructions: SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV.
pub const FAULTS: [usize; 5] = [4, 5, 7, 8, 11];

/// SIGKILL and SIGSTOP cannot be blocked.
pub const NEVER_BLOCKED: u64 = 1 << (SIGKILL - 1) | 1 << (SIGSTOP - 1);

pub fn native(signal: usize, action: &KernelAction) {
    sys::call(nr::RT_SIGACTION, &[signal, &raw const *action as usize, 0, 8]);
}

/// Builds a frame below `top` with this context. EFAULT when the program's stack is no memory.
pub fn make_frame(top: u64, context: &Context, info: Option<&Info>) -> Result<u64, isize> {
    // SAFETY: the context is one that the kernel has made, or a copy of one.
    let bytes = if context.floating == 0 { 0 } else { unsafe { floating_bytes(context.floating) } };
    let floating = top.wrapping_sub(bytes as u64) & !63;
    // As at a function's entry: 8 below a multiple of 16.
    let frame = (floating.wrapping_sub(size_of::<Frame>() as u64) & !15).wrapping_sub(8);
    if bytes > 0 && !entry::copy(floating as usize, context.floating as usize, bytes) {
        return Err(sys::EFAULT);
    }
    let mut copy = *context;
    copy.floating = if bytes > 0 { floating } else { 0 };
    let at = frame as usize + core::mem::offset_of!(Frame, context);
    if !entry::copy(at, &raw const copy as usize, size_of::<Context>()) {
        return Err(sys::EFAULT);
    }
    if let Some(info) = info {
        let at = frame as usize + core::mem::offset_of!(Frame, info);
        if !entry::copy(at, &raw const *info as usize, size_of::<Info>()) {
            return Err(sys::EFAULT);
        }
    }
    Ok(frame)
}

/// The process ends by a signal, for the kernel too, so that its parent sees it.
pub fn die_of(signal: usize) -> ! {
    native(signal, &KernelAction::default());
    let mask = !(1_u64 << (signal - 1));
    // A core file would be the host's business.
    let none = [0_u64; 2];
    sys::call(nr::PRLIMIT64, &[0, 4, none.as_ptr() as usize, 0]);
    let (pid, tid) = (sys::call(nr::GETPID, &[]) as usize, sys::call(nr::GETTID, &[]) as usize);
    sys::call(nr::TGKILL, &[pid, tid, signal]);
    sys::call(nr::RT_SIGPROCMASK, &[2, &raw const mask as usize, 0, 8]);
    sys::call(nr::EXIT_GROUP, &[128 + signal]);
    loop {}
}
