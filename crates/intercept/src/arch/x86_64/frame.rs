//! What a handler of a signal leaves below the stack of its thread: the frame with the registers as they are restored.

/// Below its stack's end a function may keep data (the ABI's red zone): the kernel begins a frame below that.
const RED_ZONE_BYTES: u64 = 128;
/// Of a system call's instruction.
const CALL_BYTES: u64 = 2;
/// Where no kernel tells: frames of Linux 5.13, AVX-512 included.
const FRAME_BYTES: u64 = 4096;
/// getauxval(3).
const AT_MINSIGSTKSZ: libc::c_ulong = 51;

/// Where a frame of a thread that has this end of its stack lies: from there to there.
#[must_use]
pub fn frame_range(stack: u64) -> (u64, u64) {
    // SAFETY: takes no pointers.
    let bytes = unsafe { libc::getauxval(AT_MINSIGSTKSZ) };
    let end = stack.saturating_sub(RED_ZONE_BYTES) & !7;
    (end.saturating_sub(if bytes == 0 { FRAME_BYTES } else { bytes }) & !7, end)
}

/// Is there a frame among these words that makes a call again when its handler returns: these arguments, this end of the stack, and the address
/// behind the call's instruction?
///
/// handle_signal: "case -ERESTARTSYS: if (!(ksig->ka.sa.sa_flags & SA_RESTART)) { regs->ax = -EINTR; break; } fallthrough; case
/// -ERESTARTNOINTR: regs->ax = regs->orig_ax; regs->ip -= 2;", and only then is the frame made. Who is told EINTR has another one.
#[must_use]
pub fn makes_again(words: &[u64], number: u64, arguments: [u64; 6], stack: u64, behind: u64) -> bool {
    let [first, second, third, fourth, fifth, sixth] = arguments;
    words.windows(REGISTERS).any(|words| {
        // struct sigcontext_64: r8 to r15, di, si, bp, bx, dx, ax, cx, sp, ip.
        let [r8, r9, r10, _, _, _, _, _, di, si, _, _, dx, ax, _, sp, ip] = *words else { return false };
        (ip, sp, ax) == (behind.wrapping_sub(CALL_BYTES), stack, number)
            && [di, si, dx, r10, r8, r9] == [first, second, third, fourth, fifth, sixth]
    })
}

/// From `r8` to `ip`.
const REGISTERS: usize = 17;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// A handler's own frame: what its context says lies where it is looked for.
    #[test]
    fn a_frame_lies_where_it_is_looked_for() {
        static FOUND: AtomicBool = AtomicBool::new(false);
        extern "C" fn handler(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
            // SAFETY: the kernel's context.
            let registers = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
            let of = |register: i32| registers[register as usize] as u64;
            let (stack, behind) = (of(libc::REG_RSP), of(libc::REG_RIP) + CALL_BYTES);
            let arguments = [libc::REG_RDI, libc::REG_RSI, libc::REG_RDX, libc::REG_R10, libc::REG_R8, libc::REG_R9].map(of);
            let (from, to) = frame_range(stack);
            let at = registers.as_ptr() as u64;
            let within = from <= at && at + 8 * REGISTERS as u64 <= to;
            // SAFETY: the frame, which is this thread's.
            let words = unsafe { std::slice::from_raw_parts(registers.as_ptr().cast::<u64>(), REGISTERS) };
            let again = |behind| makes_again(words, of(libc::REG_RAX), arguments, stack, behind);
            FOUND.store(within && again(behind) && !again(behind - CALL_BYTES), Ordering::SeqCst);
        }
        // SAFETY: the handler touches its own frame and an atomic. A thread that the test's harness made has a stack of its own, and no other.
        let result = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut());
            libc::raise(libc::SIGUSR1)
        };
        assert!(result == 0 && FOUND.load(Ordering::SeqCst));
    }
}
