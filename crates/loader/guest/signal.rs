//! Signals as the program sees them. The kernel delivers none of them: dispositions are in the process's slot, the mask is in the thread's
//! channel, what is pending is the controller's; frames are built here by hand.

use crate::abi;
use crate::calls::number as nr;
use crate::channel::post;
use crate::fault;
use crate::sys;
use crate::thread::{self, BLOCK, BLOCKS_ADDRESS, Thread};
use crate::x86_64::context::*;
use crate::x86_64::{entry, gate};
use core::sync::atomic::Ordering::Relaxed;

pub const SIGKILL: usize = 9;
pub const SIGSTOP: usize = 19;
pub const SIGSYS: usize = 31;
const SIGPIPE: usize = 13;
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

/// Our handlers; everything else at its default, SIGPIPE ignored (a program's own comes from the controller).
pub fn install_handlers() {
    let flags = SA_SIGINFO | SA_ONSTACK | SA_RESTORER;
    // Faults stay unblocked: one in our copying of the program's memory is expected.
    let faults = FAULTS.iter().fold(0_u64, |mask, signal| mask | 1 << (signal - 1));
    let action = |handler: usize| KernelAction { handler: handler as u64, flags, restorer: entry::restorer(), mask: !faults };
    // SA_RESTART: the controller's may come while a call of ours is in the kernel, by way of a gate.
    native(SIGSYS, &KernelAction { flags: flags | SA_RESTART, ..action(crate::dispatch::on_call as *const () as usize) });
    for signal in FAULTS {
        native(signal, &KernelAction { flags: flags | SA_NODEFER, ..action(fault::on_fault as *const () as usize) });
    }
    native(SIGPIPE, &KernelAction { handler: 1, ..KernelAction::default() });
    crate::terminal::ignore_the_kernels();
}

pub fn native(signal: usize, action: &KernelAction) {
    sys::call(nr::RT_SIGACTION, &[signal, &raw const *action as usize, 0, 8]);
}

/// execve(2): handled signals go back to their defaults, ignored ones stay ignored.
pub fn after_exec(t: &Thread) {
    for action in &t.process.actions {
        if action.handler.load(Relaxed) > 1 {
            action.handler.store(0, Relaxed);
        }
        action.flags.store(0, Relaxed);
        action.mask.store(0, Relaxed);
    }
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

/// Makes the context go on in the handler of a signal. The disposition must be a handler.
pub fn deliver(t: &mut Thread, signal: usize, info: &Info, context: &mut Context) {
    let action = &t.process.actions[signal & 63];
    let (handler, flags) = (action.handler.load(Relaxed), action.flags.load(Relaxed));
    let stack_pointer = context.registers[RSP];
    let alternate = t.alternate;
    let on_it = alternate.bytes > 0 && stack_pointer > alternate.start && stack_pointer <= alternate.start + alternate.bytes;
    let top = if flags & SA_ONSTACK != 0 && alternate.bytes > 0 && !on_it {
        alternate.start + alternate.bytes
    } else {
        // The red zone of the ABI.
        stack_pointer.wrapping_sub(128)
    };
    let mut saved = *context;
    let blocked = t.channel.mask.load(Relaxed);
    saved.mask = t.saved_mask.take().unwrap_or(blocked);
    saved.stack = alternate;
    saved.link = 0;
    let Ok(frame) = make_frame(top, &saved, Some(info)) else {
        // setup_rt_frame: "force_sigsegv(ksig->sig)".
        post(t, abi::FATAL, &[11]);
        die_of(11);
    };
    if sys::write_u64(frame as usize, action.restorer.load(Relaxed)).is_err() {
        post(t, abi::FATAL, &[11]);
        die_of(11);
    }
    if alternate.flags as u32 & SS_AUTODISARM != 0 {
        t.alternate = Stack { start: 0, flags: SS_DISABLE, padding: 0, bytes: 0 };
    }
    let own = if flags & SA_NODEFER == 0 { 1 << (signal - 1) } else { 0 };
    t.channel.mask.store((blocked | action.mask.load(Relaxed) | own) & !NEVER_BLOCKED, Relaxed);
    if flags & SA_RESETHAND != 0 {
        action.handler.store(0, Relaxed);
    }
    let registers = &mut context.registers;
    registers[RIP] = handler;
    registers[RDI] = signal as u64;
    registers[RSI] = frame + core::mem::offset_of!(Frame, info) as u64;
    registers[RDX] = frame + core::mem::offset_of!(Frame, context) as u64;
    registers[RAX] = 0;
    registers[RSP] = frame;
    // Direction, trap and resume flags.
    registers[EFLAGS] &= !0x1_0500;
}

/// The end of every call: delivers what the controller has sent along, decides about restarting.
/// `made`: the call's number, where it was made, and its result; None when the registers are complete.
pub fn finish(t: &mut Thread, context: &mut Context, made: Option<(usize, u64, i64)>) {
    let mut delivered = false;
    if let Some((_, _, result)) = made {
        context.registers[RAX] = result as u64;
    }
    loop {
        let signal = t.channel.signal.swap(0, Relaxed) as usize & 63;
        if signal != 0 {
            let action = &t.process.actions[signal];
            if action.handler.load(Relaxed) > 1 {
                if let (Some((number, after, result)), false) = (made, delivered) {
                    let again = result == abi::RESTART_ALWAYS || result == abi::RESTART && action.flags.load(Relaxed) & SA_RESTART != 0;
                    interrupted(context, number, after, result, again);
                }
                let mut info = [0_u64; 16];
                // SAFETY: 128 bytes each.
                unsafe { core::ptr::copy_nonoverlapping(t.channel.info.pointer(), (&raw mut info).cast(), 128) };
                // SAFETY: any bytes are an Info.
                let info: Info = unsafe { core::mem::transmute(info) };
                deliver(t, signal, &info, context);
                delivered = true;
            }
        }
        if t.channel.pending.load(Relaxed) & !t.channel.mask.load(Relaxed) == 0 {
            break;
        }
        post(t, abi::SIGNALS, &[]);
        if t.channel.signal.load(Relaxed) == 0 {
            break;
        }
    }
    if !delivered {
        if let Some((number, after, result)) = made {
            interrupted(context, number, after, result, true);
        }
        if let Some(mask) = t.saved_mask.take() {
            t.channel.mask.store(mask, Relaxed);
            if t.channel.pending.load(Relaxed) & !mask != 0 {
                finish(t, context, None);
            }
        }
    }
}

/// Is the call to be made again, unless a handler's flags say otherwise?
pub fn restarts(result: i64) -> bool {
    matches!(result, abi::RESTART | abi::RESTART_ALWAYS | abi::RESTART_NO_HANDLER)
}

fn interrupted(context: &mut Context, number: usize, after: u64, result: i64, again: bool) {
    if restarts(result) {
        if again {
            // Two bytes back lies the instruction.
            context.registers[RIP] = gate::site_before(after).unwrap_or(after.wrapping_sub(2));
            context.registers[RAX] = number as u64;
        } else {
            context.registers[RAX] = sys::EINTR as u64;
        }
    }
}

/// rt_sigreturn(2): the frame lies at the stack pointer, less the restorer's address that `ret` has taken.
pub fn sigreturn(t: &mut Thread, context: &mut Context) {
    let frame = context.registers[RSP].wrapping_sub(8);
    let mut saved = *context;
    let at = frame as usize + core::mem::offset_of!(Frame, context);
    if !entry::copy(&raw mut saved as usize, at, size_of::<Context>()) {
        post(t, abi::FATAL, &[11]);
        die_of(11);
    }
    let kept = context.registers;
    context.registers = saved.registers;
    // Segments and what the kernel says about faults are not the program's to change.
    context.registers[18..].copy_from_slice(&kept[18..]);
    t.channel.mask.store(saved.mask & !NEVER_BLOCKED, Relaxed);
    if saved.stack.flags as u32 & SS_AUTODISARM != 0 {
        t.alternate = saved.stack;
    }
    if saved.floating != 0 && context.floating != 0 {
        // SAFETY: ours is the kernel's; the program's is read with care below.
        let bytes = unsafe { floating_bytes(context.floating) };
        let mut magic = [0; 8];
        let same = bytes == 512
            || sys::copy_in(saved.floating as usize + 464, &mut magic).is_ok()
                && u32::from_ne_bytes([magic[4], magic[5], magic[6], magic[7]]) as usize == bytes;
        if same {
            entry::copy(context.floating as usize, saved.floating as usize, bytes);
        }
    }
}

/// A mask for the time of one call: pselect6, ppoll, epoll_pwait, rt_sigsuspend.
pub fn swap_mask(t: &mut Thread, at: usize) -> Result<(), isize> {
    if at != 0 {
        let new = sys::read_u64(at)? & !NEVER_BLOCKED;
        t.saved_mask = Some(t.channel.mask.swap(new, Relaxed));
    }
    Ok(())
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

/// The handler stack of a thread, for checks of addresses.
pub const fn is_ours(address: usize) -> bool {
    address >= BLOCKS_ADDRESS && address < BLOCKS_ADDRESS + thread::BLOCKS * BLOCK
}
