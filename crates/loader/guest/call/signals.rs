//! Signals: dispositions, masks, alternate stacks, and waiting for one.

use crate::abi;
use crate::block::Thread;
use crate::calls::*;
use crate::channel::post;
use crate::forward::{Answer, forward_words};
use crate::frames::{NEVER_BLOCKED, SA_NOCLDWAIT, SIGKILL, SIGSTOP, SS_AUTODISARM, SS_DISABLE, native};
use crate::signal::{SIGSET_BYTES, swap_mask};
use crate::sys;
use crate::x86_64::context::{Context, KernelAction, RSP, Stack};
use core::sync::atomic::Ordering::Relaxed;

const SIGCHLD: usize = 17;
const SS_ONSTACK: i32 = 1;

/// rt_sigaction(2)
pub fn rt_sigaction(t: &mut Thread, call: RtSigaction) -> Answer {
    let (signal, act, oact) = (call.sig.0, call.act.0, call.oact.0);
    if call.sigsetsize.0 != SIGSET_BYTES || !(1..=64).contains(&signal) {
        return Err(sys::EINVAL);
    }
    let slot = &t.process.actions[signal];
    let old = [slot.handler.load(Relaxed), slot.flags.load(Relaxed), slot.restorer.load(Relaxed), slot.mask.load(Relaxed)];
    if act != 0 {
        if signal == SIGKILL || signal == SIGSTOP {
            return Err(sys::EINVAL);
        }
        let (handler, flags) = (sys::read_u64(act)?, sys::read_u64(act + 8)?);
        let (restorer, mask) = (sys::read_u64(act + 16)?, sys::read_u64(act + 24)?);
        slot.handler.store(handler, Relaxed);
        slot.flags.store(flags, Relaxed);
        slot.restorer.store(restorer, Relaxed);
        slot.mask.store(mask & !NEVER_BLOCKED, Relaxed);
        if signal == SIGCHLD {
            // The kernel reaps by itself where the program will not: it is the kernel's zombie, too.
            let ignored = u64::from(handler == 1 || flags & SA_NOCLDWAIT != 0);
            native(signal, &KernelAction { handler: ignored, ..KernelAction::default() });
        }
        if handler <= 1 && t.channel.pending.load(Relaxed) & 1 << (signal - 1) != 0 {
            // "Setting a signal action to SIG_IGN for a signal that is pending shall cause the pending signal to be discarded."
            post(t, abi::SIGNALS, &[signal as u64]);
        }
    }
    if oact != 0 {
        for (index, word) in old.into_iter().enumerate() {
            sys::write_u64(oact + 8 * index, word)?;
        }
    }
    Ok(0)
}

/// rt_sigprocmask(2)
pub fn rt_sigprocmask(t: &mut Thread, call: RtSigprocmask) -> Answer {
    if call.sigsetsize.0 != SIGSET_BYTES {
        return Err(sys::EINVAL);
    }
    let old = t.channel.mask.load(Relaxed);
    if call.nset.0 != 0 {
        let set = sys::read_u64(call.nset.0)?;
        let new = match call.how.0 {
            0 => old | set,
            1 => old & !set,
            2 => set,
            _ => return Err(sys::EINVAL),
        };
        t.channel.mask.store(new & !NEVER_BLOCKED, Relaxed);
    }
    if call.oset.0 != 0 {
        sys::write_u64(call.oset.0, old)?;
    }
    Ok(0)
}

/// sigaltstack(2)
pub fn sigaltstack(t: &mut Thread, context: &mut Context, call: Sigaltstack) -> Answer {
    let (new_at, old_at) = (call.uss.0, call.uoss.0);
    let old = t.alternate;
    let stack_pointer = context.registers[RSP];
    let on_it = old.bytes > 0 && stack_pointer > old.start && stack_pointer <= old.start + old.bytes;
    if new_at != 0 {
        let new = [sys::read_u64(new_at)?, sys::read_u64(new_at + 8)?, sys::read_u64(new_at + 16)?];
        let flags = new[1] as i32;
        if on_it {
            return Err(sys::EPERM);
        }
        match flags & !(SS_AUTODISARM as i32) {
            SS_DISABLE => t.alternate = Stack { start: 0, flags, padding: 0, bytes: 0 },
            0 | SS_ONSTACK if new[2] < 2048 => return Err(sys::ENOMEM),
            0 | SS_ONSTACK => t.alternate = Stack { start: new[0], flags: flags & SS_AUTODISARM as i32, padding: 0, bytes: new[2] },
            _ => return Err(sys::EINVAL),
        }
    }
    if old_at != 0 {
        let state = if old.bytes == 0 {
            SS_DISABLE
        } else if on_it {
            SS_ONSTACK
        } else {
            0
        };
        sys::write_u64(old_at, old.start)?;
        sys::write_u64(old_at + 8, u64::from((state | old.flags & SS_AUTODISARM as i32) as u32))?;
        sys::write_u64(old_at + 16, old.bytes)?;
    }
    Ok(0)
}

/// rt_sigpending(2)
pub fn rt_sigpending(t: &mut Thread, call: RtSigpending) -> Answer {
    tell_pending(&call, t.channel.pending.load(Relaxed) & t.channel.mask.load(Relaxed))
}

/// kernel/signal.c, rt_sigpending: "if (sigsetsize > sizeof(*uset)) return -EINVAL; … copy_to_user(uset, &set, sigsetsize)".
pub fn tell_pending(call: &RtSigpending, pending: u64) -> Answer {
    let bytes = pending.to_ne_bytes();
    let bytes = bytes.get(..call.sigsetsize.0).ok_or(sys::EINVAL)?;
    sys::copy_out(call.uset.0, bytes).map(|()| 0)
}

/// rt_sigsuspend(2)
pub fn rt_sigsuspend(t: &mut Thread, call: RtSigsuspend) -> Answer {
    if call.sigsetsize.0 != SIGSET_BYTES {
        return Err(sys::EINVAL);
    }
    swap_mask(t, Some(sys::read_u64(call.unewset.0)?));
    Ok(forward_words(t, Pause::NUMBER, &call.words(), 0))
}
