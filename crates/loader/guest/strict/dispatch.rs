//! The handler of system calls in real time: most are the kernel's.

use super::signal;
use crate::block;
use crate::block::Thread;
use crate::calls::number as nr;
use crate::calls::{self, Call as _};
use crate::descriptor;
use crate::forward::{Answer, Answered as _, refused, unsupported};
use crate::sys;
use crate::x86_64::context::*;
use crate::x86_64::entry;

const SYS_USER_DISPATCH: i32 = 2;

/// Handler of SIGSYS.
pub unsafe extern "C" fn on_call(_: i32, info: *const Info, context: *mut Context) {
    crate::x86_64::entry::unaligned_again();
    // SAFETY: the kernel has built both on the thread's block.
    let (info, context) = unsafe { (&*info, &mut *context) };
    let t = block::current();
    if info.code != SYS_USER_DISPATCH {
        signal::on_sent(t, info, context);
        return;
    }
    signal::begin_handler(t, context.mask);
    let r = &context.registers;
    let a = calls::words_of([r[RDI], r[RSI], r[RDX], r[R10], r[R8], r[R9]]);
    let number = info.number as usize;
    t.strict.mask = context.mask | t.strict.pretended;
    if info.arch != ARCH {
        crate::channel::post(t, crate::abi::UNSUPPORTED, &[number as u64 | 1 << 32, 0, -sys::ENOSYS as u64]);
        context.registers[RAX] = sys::ENOSYS as u64;
        return;
    }
    let after = context.registers[RIP];
    if number == nr::RT_SIGRETURN {
        signal::sigreturn(t, context);
        return;
    }
    let answered = answer(t, context, number, &a).or_else(|| signal::before_native(t, number, &a).map(Err));
    match answered {
        None => {
            t.head.native_return = after;
            context.registers[RIP] = entry::native().0;
            context.registers[RAX] = number as u64;
        }
        Some(answer) => signal::finish(t, context, number, after, answer.word() as i64),
    }
}

/// Handlers return what the call comes to, or none: then the kernel is to answer.
trait Answers {
    fn answer(self) -> Option<Answer>;
}
impl Answers for isize {
    fn answer(self) -> Option<Answer> {
        Some(Ok(self))
    }
}
impl Answers for Answer {
    fn answer(self) -> Option<Answer> {
        Some(self)
    }
}
impl Answers for Option<Answer> {
    fn answer(self) -> Option<Answer> {
        self
    }
}

macro_rules! answers {
    (
        $($number:literal $constant:ident $name:ident($($argument:ident: $kind:ty),*):
            $by:ident $(($($what:tt)*))? $(-> $method:ident)? $(, strict $strict:ident $(($($strictly:tt)*))?)?
            $(, notify $($notify:ident)::+ $sentence:literal)? $(, note $($note:literal)+)?;)*
    ) => {
        /// Answers a call as its row says. None: the kernel is to answer.
        fn answer(t: &mut Thread, context: &mut Context, number: usize, words: &[usize; 6]) -> Option<Answer> {
            if descriptor::names_ours(number, words) {
                return Some(Err(sys::EBADF));
            }
            match number {
                $($number => answered!(t, context, number, words, calls::$name, [$($strict $(($($strictly)*))?)?], $by $(($($what)*))?),)*
                _ => None,
            }
        }
    };
}

/// What a row says.
macro_rules! answered {
    ($t:ident, $context:ident, $number:ident, $words:ident, $call:ty, [program($($handler:tt)*)], $($other:tt)*) => {
        crate::strict::$($handler)*($t, <$call>::of($words)).answer()
    };
    ($t:ident, $context:ident, $number:ident, $words:ident, $call:ty, [frame($($handler:tt)*)], $($other:tt)*) => {
        crate::strict::$($handler)*($t, $context, <$call>::of($words)).answer()
    };
    ($t:ident, $context:ident, $number:ident, $words:ident, $call:ty, [refused($errno:ident)], $($other:tt)*) => {
        Some(refused($t, &<$call>::of($words), sys::$errno))
    };
    ($t:ident, $context:ident, $number:ident, $words:ident, $call:ty, [refused($errno:ident, 0)], $($other:tt)*) => {
        Some(unsupported($t, $number, 0, sys::$errno))
    };
    ($t:ident, $context:ident, $number:ident, $words:ident, $call:ty, [same], program($($handler:tt)*)) => {
        crate::call::$($handler)*($t, <$call>::of($words)).answer()
    };
    ($t:ident, $context:ident, $number:ident, $words:ident, $call:ty, [same], frame($($handler:tt)*)) => {
        crate::call::$($handler)*($t, $context, <$call>::of($words)).answer()
    };
    ($t:ident, $context:ident, $number:ident, $words:ident, $call:ty, [], $($other:tt)*) => {
        None
    };
    // Served before, by whoever has the registers.
    ($t:ident, $context:ident, $number:ident, $words:ident, $call:ty, [entry], $($other:tt)*) => {
        None
    };
}

for_each_call!(answers);
