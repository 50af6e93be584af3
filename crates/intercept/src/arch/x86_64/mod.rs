//! x86-64: call numbers, the audit architecture, foreign call tables that the processor can also enter, and struct layouts.

mod cpuid;
mod layout;
mod numbers;

pub use cpuid::tell_processor;
pub use layout::*;
pub use numbers::*;

/// Was a signal handler called because of RDTSC or RDTSCP?
///
/// # Safety
/// The context is one that the kernel has made for a handler, of a fault of an instruction that could be fetched.
pub unsafe fn is_rdtsc(context: *mut libc::c_void) -> bool {
    // SAFETY: the caller's word; the second and third byte are looked at only where the first belongs to a longer instruction.
    unsafe {
        let at = (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_RIP as usize] as *const u8;
        at.read() == 0x0f && (at.add(1).read() == 0x31 || at.add(1).read() == 0x01 && at.add(2).read() == 0xf9)
    }
}
