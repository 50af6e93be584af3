//! The handler of system calls: who answers which.

use crate::abi;
use crate::arena::header;
use crate::arena::is_own_machine;
use crate::block;
use crate::block::Thread;
use crate::calls::number as nr;
use crate::calls::{self, Call as _};
use crate::channel::post;
use crate::clocks;
use crate::descriptor;
use crate::elf;
use crate::forward::{Answered as _, forward, refused, unsupported};
use crate::frames;
use crate::layer;
use crate::limits;
use crate::signal;
use crate::sys;
use crate::trace;
use crate::x86_64::context::*;
use crate::x86_64::{entry, gate};
use core::sync::atomic::Ordering::Relaxed;

const SYS_SECCOMP: i32 = 1;
const SYS_USER_DISPATCH: i32 = 2;
const EFBIG: i64 = -27;
const SIGXFSZ: u64 = 25;

/// Handler of SIGSYS: a call of the program (Syscall User Dispatch), one through the vsyscall page (seccomp), or the controller's impatience.
pub unsafe extern "C" fn on_call(_: i32, info: *const Info, context: *mut Context) {
    crate::x86_64::entry::unaligned_again();
    // SAFETY: the kernel has built both on the thread's block.
    let (info, context) = unsafe { (&*info, &mut *context) };
    let t = block::current();
    if info.code != SYS_USER_DISPATCH && info.code != SYS_SECCOMP {
        preempted(t, context);
        return;
    }
    let number = info.number as usize;
    if info.arch != ARCH {
        post(t, abi::UNSUPPORTED, &[number as u64 | 1 << 32, 0, -sys::ENOSYS as u64]);
        context.registers[RAX] = sys::ENOSYS as u64;
        return;
    }
    let after = context.registers[RIP];
    if number == gate::FINISH
        && let Some((number, after, result)) = t.finishing.take()
    {
        context.registers[RIP] = after;
        signal::finish(t, context, Some((number, after, result)));
        return;
    }
    if info.code == SYS_USER_DISPATCH {
        gate::seen(number, after);
        trapped(t, context, number, after);
        return;
    }
    let r = &context.registers;
    let a = calls::words_of([r[RDI], r[RSI], r[RDX], r[R10], r[R8], r[R9]]);
    clocks::tick(t);
    context.registers[RAX] = made(t, None, number, &a) as u64;
}

/// The controller has sent a signal: this thread has run without a call for too long.
fn preempted(t: &mut Thread, context: &mut Context) {
    let running = gate::running();
    if running != t.index {
        // The kernel has chosen one of those that sleep at a gate.
        let tid = block::by_index(running).channel.tid.load(Relaxed) as usize;
        sys::call(nr::TGKILL, &[sys::call(nr::GETPID, &[]) as usize, tid, frames::SIGSYS]);
        return;
    }
    let (text, bytes) = entry::text();
    if (context.registers[RIP] as usize).wrapping_sub(text) < bytes {
        // It makes a call right now.
        return;
    }
    post(t, abi::PREEMPTED, &[]);
    signal::finish(t, context, None);
}

/// A call of the program with the kernel's frame.
pub fn trapped(t: &mut Thread, context: &mut Context, number: usize, after: u64) {
    let r = &context.registers;
    let a = calls::words_of([r[RDI], r[RSI], r[RDX], r[R10], r[R8], r[R9]]);
    clocks::tick(t);
    if number == nr::RT_SIGRETURN {
        signal::sigreturn(t, context);
        signal::finish(t, context, None);
        return;
    }
    // The clock that the vDSO would have told, had it not come to the grant here: how far that reaches is nothing that a program does, so it is no call.
    let result = if elf::is_of_vdso(after as usize) && clocks::is_shown(number, &a) {
        answer(t, Some(context), number, &a)
    } else {
        made(t, Some(context), number, &a)
    };
    signal::finish(t, context, Some((number, after, result)));
}

/// A call that came through a gate: its result. None: there is more to be done, which needs the kernel's frame; see [`gate::FINISH`].
pub fn through_gate(registers: &gate::Registers) -> Option<i64> {
    let t = block::current();
    let number = registers.number as usize;
    let a = calls::words_of(registers.arguments);
    clocks::tick(t);
    let result = made(t, None, number, &a);
    let again = signal::restarts(result) || t.saved_mask.is_some();
    if again || t.is_signalled() {
        t.finishing = Some((number, registers.after, result));
        return None;
    }
    Some(result)
}

/// Answers a call, and notes what it came to.
fn made(t: &mut Thread, mut context: Option<&mut Context>, number: usize, a: &[usize; 6]) -> i64 {
    layer::look(t);
    let mut result = answer(t, context.as_deref_mut(), number, a);
    while result < 0 && layer::was_missing(t, number, a, result) {
        result = answer(t, context.as_deref_mut(), number, a);
    }
    if result as isize == sys::EROFS && is_own_machine() {
        // Whose files they are is what forbids it: that they cannot be written at all is the host's affair.
        result = sys::EACCES as i64;
    }
    if result as isize == sys::EMFILE && is_own_machine() {
        limits::no_number_left(t);
    }
    if result == EFBIG && limits::has_file_limit() {
        post(t, abi::RAISED, &[SIGXFSZ]);
    }
    if !signal::restarts(result) {
        trace::fold(t, number, result);
        let wanted = header().flags.load(Relaxed) & (abi::TELL_CALLS | abi::TELL_WRITES);
        if wanted != 0
            && (wanted & abi::TELL_CALLS != 0 || (matches!(number, nr::WRITE | nr::WRITEV) && matches!(a[0], 1 | 2) && result > 0))
        {
            t.channel.descriptor.store(a[4] as u64, Relaxed);
            post(t, abi::TELL, &[number as u64, a[0] as u64, a[1] as u64, a[2] as u64, result as u64, a[3] as u64]);
        }
    }
    result
}

macro_rules! answers {
    (
        $($number:literal $constant:ident $name:ident($($argument:ident: $kind:ty),*):
            $by:ident $(($($what:tt)*))? $(-> $method:ident)? $(, strict $strict:ident $(($($strictly:tt)*))?)?
            $(, notify $($notify:ident)::+ $sentence:literal)? $(, note $($note:literal)+)?;)*
    ) => {
        /// Answers a call as its row says. `context`: the registers with which it was made, where the kernel has saved them.
        fn answer(t: &mut Thread, context: Option<&mut Context>, number: usize, words: &[usize; 6]) -> i64 {
            if descriptor::names_ours(number, words) {
                return sys::EBADF as i64;
            }
            let result = match number {
                $($number => answered!(t, context, number, words, calls::$name, $by $(($($what)*))?),)*
                _ => unsupported(t, number, words[0], sys::ENOSYS).word(),
            };
            result as i64
        }
    };
}

/// What a row says.
macro_rules! answered {
    ($t:ident, $context:ident, $number:ident, $words:ident, $call:ty, kernel) => {
        sys::call($number, $words)
    };
    ($t:ident, $context:ident, $number:ident, $words:ident, $call:ty, forward) => {
        forward($t, &<$call>::of($words), 0)
    };
    ($t:ident, $context:ident, $number:ident, $words:ident, $call:ty, program($($handler:tt)*)) => {
        crate::call::$($handler)*($t, <$call>::of($words)).word()
    };
    ($t:ident, $context:ident, $number:ident, $words:ident, $call:ty, frame($($handler:tt)*)) => {
        match $context {
            Some(context) => crate::call::$($handler)*($t, context, <$call>::of($words)).word(),
            None => sys::ENOSYS,
        }
    };
    ($t:ident, $context:ident, $number:ident, $words:ident, $call:ty, refused($errno:ident)) => {
        refused($t, &<$call>::of($words), sys::$errno).word()
    };
    ($t:ident, $context:ident, $number:ident, $words:ident, $call:ty, refused($errno:ident, 0)) => {
        unsupported($t, $number, 0, sys::$errno).word()
    };
    ($t:ident, $context:ident, $number:ident, $words:ident, $call:ty, absent($errno:ident)) => {
        sys::$errno
    };
    // Served before, by whoever has the registers.
    ($t:ident, $context:ident, $number:ident, $words:ident, $call:ty, entry) => {
        sys::ENOSYS
    };
}

for_each_call!(answers);
