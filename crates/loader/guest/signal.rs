//! Signals as the program sees them. The kernel delivers none of them: dispositions are in the process's slot, the mask is in the thread's
//! channel, what is pending is the controller's; frames are built here by hand.

use crate::abi;
use crate::block::Thread;
use crate::channel::post;
use crate::frames::*;
use crate::sys;
use crate::x86_64::context::*;
use crate::x86_64::{entry, gate};
use core::sync::atomic::Ordering::Relaxed;

/// sizeof(sigset_t) in the kernel.
pub const SIGSET_BYTES: usize = 8;

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

/// The mask that a call has for its own time: pselect6, ppoll, epoll_pwait. kernel/signal.c, set_user_sigmask: "if (!umask) return 0; if (sigsetsize !=
/// sizeof(sigset_t)) return -EINVAL;"
pub fn own_mask(at: usize, bytes: usize) -> Result<Option<u64>, isize> {
    match at {
        0 => Ok(None),
        _ if bytes != SIGSET_BYTES => Err(sys::EINVAL),
        _ => sys::read_u64(at).map(Some),
    }
}

/// Where pselect6(2) has it, and of how many bytes it is said to be (fs/select.c, get_sigset_argpack).
pub fn packed_mask(at: usize) -> Result<(usize, usize), isize> {
    if at == 0 { Ok((0, 0)) } else { Ok((sys::read_u64(at)? as usize, sys::read_u64(at.wrapping_add(8))? as usize)) }
}

/// Sets the mask for the time of one call.
pub fn swap_mask(t: &mut Thread, mask: Option<u64>) {
    if let Some(mask) = mask {
        t.saved_mask = Some(t.channel.mask.swap(mask & !NEVER_BLOCKED, Relaxed));
    }
}
