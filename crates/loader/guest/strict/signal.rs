//! Signals in real time: the kernel's, with frames that are built here. What the program blocks is blocked, but for SIGSYS, by which calls come: one that
//! somebody sends while the program has it blocked is held here.

use crate::abi;
use crate::block;
use crate::block::Thread;
use crate::call::signals::tell_pending;
use crate::calls::{RtSigaction, RtSigpending, RtSigprocmask, RtSigtimedwait, number as nr};
use crate::forward::Answer;
use crate::frames::*;
use crate::lock::{ACTIONS, Lock};
use crate::signal::{SIGSET_BYTES, own_mask, packed_mask};
use crate::sys;
use crate::waits::timespec;
use crate::x86_64::context::*;
use crate::x86_64::entry;
use core::sync::atomic::Ordering::Relaxed;

const SA_NOCLDSTOP: u64 = 1;
/// SIGCHLD, SIGCONT, SIGURG, SIGWINCH: what is not handled has no effect.
const WITHOUT_EFFECT: [usize; 4] = [17, 18, 23, 28];

fn faults() -> u64 {
    FAULTS.iter().fold(0, |mask, signal| mask | 1 << (signal - 1))
}

const OF_SIGSYS: u64 = 1 << (SIGSYS - 1);

/// What is never blocked.
pub fn kept_open() -> u64 {
    NEVER_BLOCKED | OF_SIGSYS
}

/// A handler of ours begins, with the program's signals blocked as they were. Some of faults may be, or are ignored: then nothing here may fault.
pub fn begin_handler(t: &mut Thread, blocked: u64) {
    let ignored = || FAULTS.iter().any(|signal| t.process.actions[*signal].handler.load(Relaxed) == 1);
    t.head.careful = blocked & faults() != 0 || ignored();
    t.strict.opens = false;
}

/// Sets what the program has blocked.
pub fn block(t: &mut Thread, context: &mut Context, mask: u64) {
    context.mask = mask & !kept_open();
    t.strict.pretended = mask & OF_SIGSYS;
    if t.strict.pretended == 0
        && let Some(info) = take_held(t)
    {
        queue(t.strict.tid, &info);
    }
}

/// A SIGSYS that somebody sent to this process, while all threads had it blocked.
static HELD: Lock = Lock::new();
static mut OF_PROCESS: Option<Info> = None;

/// Sends a SIGSYS to the calling thread, again: it is as it came.
fn queue(tid: usize, info: &Info) {
    let pid = sys::call(nr::GETPID, &[]) as usize;
    sys::call(nr::RT_TGSIGQUEUEINFO, &[pid, tid, SIGSYS, core::ptr::from_ref(info) as usize]);
}

/// Keeps a SIGSYS until it is unblocked, or gives it to a thread that has it open. One that is there already is enough.
fn hold(t: &mut Thread, info: &Info) {
    const SI_TKILL: i32 = -6;
    if info.code == SI_TKILL || t.strict.borrowed {
        t.strict.held.get_or_insert(*info);
        return;
    }
    // SAFETY: under the lock.
    HELD.with(|| unsafe { (*(&raw mut OF_PROCESS)).get_or_insert(*info) });
    if let Some(other) = block::all().find(|one| !one.strict.borrowed && one.strict.tid != 0 && one.strict.pretended == 0) {
        // It takes what is held. Nobody may send another thread what the kernel has told.
        let pid = sys::call(nr::GETPID, &[]) as usize;
        sys::call(nr::TGKILL, &[pid, other.strict.tid, SIGSYS]);
    }
}

/// What is held for the thread or its process.
fn take_held(t: &mut Thread) -> Option<Info> {
    // SAFETY: under the lock.
    t.strict.held.take().or_else(|| if t.strict.borrowed { None } else { HELD.with(|| unsafe { (*(&raw mut OF_PROCESS)).take() }) })
}

fn is_held(t: &Thread) -> bool {
    // SAFETY: under the lock.
    t.strict.held.is_some() || !t.strict.borrowed && HELD.with(|| unsafe { (*(&raw const OF_PROCESS)).is_some() })
}

/// fork(2): what waits for the maker does not wait for the child.
pub fn start_anew(t: &mut Thread) {
    HELD.reset();
    // SAFETY: the only thread of the process.
    unsafe { OF_PROCESS = None };
    t.strict.held = None;
    t.strict.tid = sys::call(nr::GETTID, &[]) as usize;
}

/// execve(2): what waits goes on waiting, in the kernel, which has everything blocked by then.
pub fn before_exec(t: &mut Thread) {
    if let Some(info) = take_held(t) {
        queue(sys::call(nr::GETTID, &[]) as usize, &info);
    }
}

/// Somebody has sent SIGSYS.
pub fn on_sent(t: &mut Thread, info: &Info, context: &mut Context) {
    let at = context.registers[RIP];
    let in_call = at == entry::native().0 || in_loader(at);
    if t.strict.pretended != 0 && !(t.strict.opens && in_call) {
        hold(t, info);
        return;
    }
    let info = &take_held(t).unwrap_or(*info);
    if t.process.actions[SIGSYS].handler.load(Relaxed) == 1 {
        return;
    }
    if !leave_call(t, context) {
        // It waits in a call of ours.
        if t.strict.deferred == 0 {
            t.strict.deferred = SIGSYS;
            t.strict.info = *info;
        }
        return;
    }
    begin_handler(t, context.mask);
    let blocked = context.mask;
    deliver(t, SIGSYS, info, context, blocked, true);
}

/// Where the program was interrupted: a call of the kernel's looks like its own. False: a handler of ours was.
fn leave_call(t: &Thread, context: &mut Context) -> bool {
    let at = context.registers[RIP];
    let (call, done) = entry::native();
    if at == call {
        // Before the call, or to be made again: as if the program had come to it just now.
        context.registers[RIP] = t.head.native_return.wrapping_sub(2);
    } else if at == done {
        context.registers[RIP] = t.head.native_return;
    } else {
        return !in_loader(at);
    }
    true
}

/// A call waits with a mask of its own. True: that opens SIGSYS, and one is held, which ends the call.
pub fn opens(t: &mut Thread, mask: u64) -> bool {
    t.strict.opens = t.strict.pretended != 0 && mask & OF_SIGSYS == 0;
    let held = if t.strict.opens { take_held(t) } else { None };
    let Some(info) = held else { return false };
    t.strict.deferred = SIGSYS;
    t.strict.info = info;
    t.strict.mask = mask & !NEVER_BLOCKED;
    true
}

/// Before a call of the kernel's: has it a mask of its own, and does that end it? Then its errno.
pub fn before_native(t: &mut Thread, number: usize, a: &[usize; 6]) -> Option<isize> {
    if t.strict.pretended == 0 {
        return None;
    }
    let (at, bytes) = match number {
        nr::RT_SIGSUSPEND => (a[0], a[1]),
        nr::PPOLL => (a[3], a[4]),
        nr::EPOLL_PWAIT | nr::EPOLL_PWAIT2 => (a[4], a[5]),
        nr::PSELECT6 => packed_mask(a[5]).ok()?,
        _ => return None,
    };
    // What is wrong with it the kernel says.
    let mask = own_mask(at, bytes).ok().flatten()?;
    opens(t, mask).then_some(sys::EINTR)
}

/// rt_sigpending(2)
pub fn rt_sigpending(t: &mut Thread, call: RtSigpending) -> Answer {
    let mut pending = 0_u64;
    let result = sys::call(nr::RT_SIGPENDING, &[&raw mut pending as usize, call.sigsetsize.0]);
    if result < 0 {
        return Err(result);
    }
    if is_held(t) {
        pending |= OF_SIGSYS;
    }
    tell_pending(&call, pending)
}

/// rt_sigtimedwait(2): what is held is there already.
pub fn rt_sigtimedwait(t: &mut Thread, call: RtSigtimedwait) -> Option<Answer> {
    let wanted = call.sigsetsize.0 == SIGSET_BYTES && sys::read_u64(call.uthese.0).is_ok_and(|set| set & OF_SIGSYS != 0);
    // What is wrong with it the kernel says, and nothing is taken.
    if !wanted || timespec(call.uts.0).is_err() {
        return None;
    }
    let info = take_held(t)?;
    let at = call.uinfo.0;
    // SAFETY: an Info is bytes.
    let bytes = unsafe { core::slice::from_raw_parts((&raw const info).cast::<u8>(), size_of::<Info>()) };
    Some(if at == 0 { Ok(SIGSYS as isize) } else { sys::copy_out(at, bytes).map(|()| SIGSYS as isize) })
}

/// Ours for a signal; some flags are as the program wants them.
fn install(signal: usize, flags: u64) {
    install_handler(signal, flags, on_signal as *const () as u64);
}

fn install_handler(signal: usize, flags: u64, handler: u64) {
    let kept = flags & (SA_RESTART | SA_NOCLDSTOP | SA_NOCLDWAIT);
    let flags = SA_SIGINFO | SA_ONSTACK | SA_RESTORER | kept;
    native(signal, &KernelAction { handler, flags, restorer: entry::restorer(), mask: !faults() });
}

/// The handler of calls lets signals pass that are not handled and have no effect. The kernel keeps one that is blocked (sig_ignored: "Blocked signals are
/// never ignored"), and gives it to another thread, whose epoll_wait it then ends: EINTR, and nothing was delivered.
fn open_what_has_no_effect(t: &Thread) {
    let mut action = KernelAction::default();
    sys::call(nr::RT_SIGACTION, &[SIGSYS, 0, &raw mut action as usize, 8]);
    action.mask = !faults();
    // What somebody sends is as the program wants it; calls that come by it are not interrupted.
    let slot = &t.process.actions[SIGSYS];
    let restarts = slot.handler.load(Relaxed) <= 1 || slot.flags.load(Relaxed) & SA_RESTART != 0;
    action.flags = action.flags & !SA_RESTART | if restarts { SA_RESTART } else { 0 };
    for signal in WITHOUT_EFFECT {
        if t.process.actions[signal].handler.load(Relaxed) <= 1 {
            action.mask &= !(1 << (signal - 1));
        }
    }
    native(SIGSYS, &action);
}

/// At the beginning of an image: learns what is ignored, and takes calls and faults. `on_call`: the handler of calls.
pub fn begin(t: &Thread, on_call: unsafe extern "C" fn(i32, *const Info, *mut Context)) {
    for signal in 1..=64 {
        let mut old = KernelAction::default();
        sys::call(nr::RT_SIGACTION, &[signal, 0, &raw mut old as usize, 8]);
        let action = &t.process.actions[signal];
        action.handler.store(u64::from(old.handler == 1), Relaxed);
        for word in [&action.flags, &action.mask, &action.restorer] {
            word.store(0, Relaxed);
        }
    }
    install_handler(SIGSYS, 0, on_call as *const () as u64);
    open_what_has_no_effect(t);
    for signal in FAULTS {
        if t.process.actions[signal].handler.load(Relaxed) == 0 {
            install(signal, 0);
        }
    }
}

/// rt_sigaction(2)
pub fn rt_sigaction(t: &mut Thread, call: RtSigaction) -> Answer {
    let (signal, act, oact) = (call.sig.0, call.act.0, call.oact.0);
    if call.sigsetsize.0 != SIGSET_BYTES || !(1..=64).contains(&signal) {
        return Err(sys::EINVAL);
    }
    let slot = &t.process.actions[signal];
    let words = [&slot.handler, &slot.flags, &slot.restorer, &slot.mask];
    let mut new = [0_u64; 4];
    if act != 0 {
        if signal == SIGKILL || signal == SIGSTOP {
            return Err(sys::EINVAL);
        }
        for (index, word) in new.iter_mut().enumerate() {
            *word = sys::read_u64(act + 8 * index)?;
        }
        new[3] &= !NEVER_BLOCKED;
    }
    let old = ACTIONS.with(|| {
        let old = words.map(|word| word.load(Relaxed));
        if act != 0 {
            let handled = new[0] > 1;
            // Whoever may come meanwhile finds a handler.
            if handled {
                words.iter().zip(new).for_each(|(word, value)| word.store(value, Relaxed));
            }
            if signal == SIGSYS {
                // `open_what_has_no_effect` does it.
            } else if handled || FAULTS.contains(&signal) && new[0] == 0 {
                install(signal, new[1]);
            } else {
                native(signal, &KernelAction { handler: new[0], flags: new[1] & (SA_NOCLDSTOP | SA_NOCLDWAIT), ..KernelAction::default() });
            }
            if !handled {
                words.iter().zip(new).for_each(|(word, value)| word.store(value, Relaxed));
            }
            if signal == SIGSYS || WITHOUT_EFFECT.contains(&signal) {
                open_what_has_no_effect(t);
            }
        }
        old
    });
    if oact != 0 {
        for (index, word) in old.into_iter().enumerate() {
            sys::write_u64(oact + 8 * index, word)?;
        }
    }
    Ok(0)
}

/// rt_sigprocmask(2): what is blocked when the handler returns.
pub fn rt_sigprocmask(t: &mut Thread, context: &mut Context, call: RtSigprocmask) -> Answer {
    if call.sigsetsize.0 != SIGSET_BYTES {
        return Err(sys::EINVAL);
    }
    let old = context.mask | t.strict.pretended;
    if call.nset.0 != 0 {
        let set = sys::read_u64(call.nset.0)?;
        let new = match call.how.0 {
            0 => old | set,
            1 => old & !set,
            2 => set,
            _ => return Err(sys::EINVAL),
        };
        block(t, context, new);
    }
    if call.oset.0 != 0 {
        sys::write_u64(call.oset.0, old)?;
    }
    Ok(0)
}

/// rt_sigreturn(2)
pub fn sigreturn(t: &mut Thread, context: &mut Context) {
    let mut saved = *context;
    let at = context.registers[RSP].wrapping_sub(8) as usize + core::mem::offset_of!(Frame, context);
    if !entry::copy(&raw mut saved as usize, at, size_of::<Context>()) {
        die_of(11);
    }
    let kept = context.registers;
    context.registers = saved.registers;
    context.registers[18..].copy_from_slice(&kept[18..]);
    block(t, context, saved.mask);
    if saved.stack.flags as u32 & SS_AUTODISARM != 0 {
        t.alternate = saved.stack;
    }
    if saved.floating == 0 || context.floating == 0 {
        return;
    }
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

fn in_loader(at: u64) -> bool {
    let (start, bytes) = entry::text();
    (at as usize) >= start && (at as usize) < start + bytes
}

/// Handler of everything that the program handles, and of faults.
pub unsafe extern "C" fn on_signal(number: i32, info: *const Info, context: *mut Context) {
    crate::x86_64::entry::unaligned_again();
    // SAFETY: the kernel has built both on the thread's block.
    let (info, context) = unsafe { (&*info, &mut *context) };
    let t = block::current();
    let signal = number as usize & 127;
    let at = context.registers[RIP];
    // Sent by somebody, and not raised by an instruction.
    let sent = info.code <= 0 || !FAULTS.contains(&signal);
    if !sent && let Some(after) = entry::after_copy(at) {
        context.registers[RIP] = after;
        return;
    }
    if !leave_call(t, context) {
        if !sent {
            let (start, _) = entry::text();
            sys::say("a fault in the loader (a bug in weft), address", info.address as usize);
            sys::die("  at offset", at as usize - start);
        }
        // SAFETY: changed by this thread alone, around a call.
        let waits = unsafe { (&raw const t.strict.waits).read_volatile() };
        if !waits || t.strict.deferred != 0 {
            // A signal of faults that somebody sent, while we answer a call: it waits until that is done.
            t.head.careful = true;
            context.mask |= 1 << (signal - 1);
            let pid = sys::call(nr::GETPID, &[]) as usize;
            sys::call(nr::RT_TGSIGQUEUEINFO, &[pid, t.strict.tid, signal, core::ptr::from_ref(info) as usize]);
            return;
        }
        t.strict.deferred = signal;
        t.strict.info = *info;
        return;
    }
    begin_handler(t, context.mask | 1 << (signal - 1));
    let blocked = context.mask;
    deliver(t, signal, info, context, blocked, sent);
}

/// Makes the context go on in the program's handler, or does what the kernel would. `blocked`: while the handler runs, beside what it says itself;
/// the context's own mask holds again afterwards.
pub fn deliver(t: &mut Thread, signal: usize, info: &Info, context: &mut Context, blocked: u64, sent: bool) {
    let action = &t.process.actions[signal];
    let (handler, flags, restorer, also) = ACTIONS.with(|| {
        let words = [&action.handler, &action.flags, &action.restorer, &action.mask].map(|word| word.load(Relaxed));
        if words[0] > 1 && words[1] & SA_RESETHAND != 0 {
            action.handler.store(0, Relaxed);
            if !FAULTS.contains(&signal) && signal != SIGSYS {
                native(signal, &KernelAction::default());
            }
        }
        (words[0], words[1], words[2], words[3])
    });
    if handler <= 1 {
        if sent && handler == 1 {
            return;
        }
        // The instruction faults again, and then ends the process as it would have.
        native(signal, &KernelAction::default());
        if sent {
            let (pid, tid) = (sys::call(nr::GETPID, &[]) as usize, sys::call(nr::GETTID, &[]) as usize);
            sys::call(nr::TGKILL, &[pid, tid, signal]);
        }
        return;
    }
    let stack_pointer = context.registers[RSP];
    let alternate = t.alternate;
    let on_it = alternate.bytes > 0 && stack_pointer > alternate.start && stack_pointer <= alternate.start + alternate.bytes;
    // The red zone of the ABI.
    let other = flags & SA_ONSTACK != 0 && alternate.bytes > 0 && !on_it;
    let top = if other { alternate.start + alternate.bytes } else { stack_pointer.wrapping_sub(128) };
    let mut saved = *context;
    saved.stack = alternate;
    saved.link = 0;
    saved.mask |= t.strict.pretended;
    let frame = make_frame(top, &saved, Some(info)).and_then(|frame| sys::write_u64(frame as usize, restorer).map(|()| frame));
    let Ok(frame) = frame else {
        // setup_rt_frame: "force_sigsegv(ksig->sig)".
        die_of(11);
    };
    if alternate.flags as u32 & SS_AUTODISARM != 0 {
        t.alternate = Stack { start: 0, flags: SS_DISABLE, padding: 0, bytes: 0 };
    }
    let own = if flags & SA_NODEFER == 0 { 1 << (signal - 1) } else { 0 };
    block(t, context, blocked | also | own | saved.mask & OF_SIGSYS);
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

/// The end of a call that was answered here: where the program goes on, and in which handler.
pub fn finish(t: &mut Thread, context: &mut Context, number: usize, after: u64, result: i64) {
    context.registers[RAX] = result as u64;
    let again = |context: &mut Context| {
        context.registers[RIP] = after.wrapping_sub(2);
        context.registers[RAX] = number as u64;
    };
    let interrupted = result == abi::RESTART || result == abi::RESTART_NO_HANDLER;
    let signal = core::mem::take(&mut t.strict.deferred);
    if signal == 0 {
        if interrupted {
            again(context);
        }
        return;
    }
    if interrupted {
        let restart = t.process.actions[signal].flags.load(Relaxed) & SA_RESTART != 0;
        if result == abi::RESTART && restart {
            again(context);
        } else {
            context.registers[RAX] = sys::EINTR as u64;
        }
    }
    let info = t.strict.info;
    let blocked = t.strict.mask;
    deliver(t, signal, &info, context, blocked, true);
}

/// The process ends by a signal.
pub fn die_of(signal: usize) -> ! {
    native(signal, &KernelAction::default());
    let mask = !(1_u64 << (signal - 1));
    let (pid, tid) = (sys::call(nr::GETPID, &[]) as usize, sys::call(nr::GETTID, &[]) as usize);
    sys::call(nr::TGKILL, &[pid, tid, signal]);
    sys::call(nr::RT_SIGPROCMASK, &[2, &raw const mask as usize, 0, 8]);
    sys::call(nr::EXIT_GROUP, &[128 + signal]);
    loop {}
}
