//! What the kernel puts on the stack for a signal handler (arch/x86/include/uapi/asm/{sigcontext,ucontext}.h), and what a program expects there.

/// `stack_t`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Stack {
    pub start: u64,
    pub flags: i32,
    pub padding: i32,
    pub bytes: u64,
}

pub const R8: usize = 0;
pub const R9: usize = 1;
pub const R10: usize = 2;
pub const RDI: usize = 8;
pub const RSI: usize = 9;
pub const RDX: usize = 12;
pub const RBX: usize = 11;
pub const RAX: usize = 13;
pub const RCX: usize = 14;
pub const RSP: usize = 15;
pub const RIP: usize = 16;
pub const EFLAGS: usize = 17;

/// `struct ucontext` with its `sigcontext`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Context {
    pub flags: u64,
    pub link: u64,
    pub stack: Stack,
    pub registers: [u64; 23],
    pub floating: u64,
    pub reserved: [u64; 8],
    pub mask: u64,
}

/// `siginfo_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Info {
    pub signal: i32,
    pub errno: i32,
    pub code: i32,
    pub padding: i32,
    /// `_call_addr` or `si_addr`.
    pub address: u64,
    pub number: i32,
    pub arch: u32,
    pub rest: [u64; 12],
}

/// `struct rt_sigframe`.
#[repr(C)]
pub struct Frame {
    pub restorer: u64,
    pub context: Context,
    pub info: Info,
}

const _: () = assert!(size_of::<Context>() == 304 && size_of::<Info>() == 128);

/// `struct kernel_sigaction` as rt_sigaction takes it.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct KernelAction {
    pub handler: u64,
    pub flags: u64,
    pub restorer: u64,
    pub mask: u64,
}

/// AUDIT_ARCH_X86_64.
pub const ARCH: u32 = 0xc000_003e;

/// Bytes of the floating-point state at an address: `_fpx_sw_bytes.extended_size` behind its magic number, or FXSAVE's 512.
pub unsafe fn floating_bytes(at: u64) -> usize {
    const MAGIC1: u32 = 0x4650_5853;
    // SAFETY: the kernel, or this loader, has put a state of at least 512 bytes there.
    unsafe {
        let words = (at + 464) as *const u32;
        if words.read() == MAGIC1 { words.add(1).read() as usize } else { 512 }
    }
}
