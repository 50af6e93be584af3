//! x86-64: call numbers, the audit architecture, foreign call tables that the processor can also enter, and struct layouts.

mod cpuid;
mod frame;
mod layout;
mod numbers;
mod range;

pub use cpuid::{ask_processor, tell_processor};
pub use frame::{frame_range, makes_again};
pub use layout::*;
pub use numbers::*;
pub use range::may_be_a_programs;

/// An instruction that a thread can be forbidden: it faults then. Each is a bit of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Forbidden {
    /// RDTSC and RDTSCP.
    Clock = 1,
    /// CPUID, where the processor can.
    Processor = 2,
}

/// Was a signal handler called because of one of those?
///
/// # Safety
/// The context is one that the kernel has made for a handler, of a fault of an instruction that could be fetched.
pub unsafe fn forbidden(context: *mut libc::c_void) -> Option<Forbidden> {
    // SAFETY: the caller's word; the second and third byte are looked at only where the first belongs to a longer instruction.
    unsafe {
        let at = (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_RIP as usize] as *const u8;
        if at.read() != 0x0f {
            return None;
        }
        match at.add(1).read() {
            0x31 => Some(Forbidden::Clock),
            0x01 if at.add(2).read() == 0xf9 => Some(Forbidden::Clock),
            0xa2 => Some(Forbidden::Processor),
            _ => None,
        }
    }
}

/// Forbids the calling thread an instruction, or allows it again. What this processor cannot forbid stays allowed.
pub fn forbid(what: Forbidden, forbid: bool) {
    /// arch/x86/include/uapi/asm/prctl.h
    const ARCH_SET_CPUID: libc::c_int = 0x1012;
    let how = if forbid { libc::PR_TSC_SIGSEGV } else { libc::PR_TSC_ENABLE };
    // SAFETY: take no pointers.
    unsafe {
        match what {
            Forbidden::Clock => libc::c_long::from(libc::prctl(libc::PR_SET_TSC, how, 0, 0, 0)),
            Forbidden::Processor => libc::syscall(libc::SYS_arch_prctl, ARCH_SET_CPUID, libc::c_ulong::from(!forbid)),
        };
    }
}
