//! Call numbers. Those of x86-64 itself are `libc::SYS_*`; here is what libc does not say about the other two tables.

/// `AUDIT_ARCH_X86_64` of linux/audit.h: EM_X86_64, 64 bit, little endian.
pub const AUDIT_ARCH: u32 = 0xc000_003e;

/// `AUDIT_ARCH_I386`: entered by 32-bit programs and by `int $0x80`.
pub const AUDIT_ARCH_COMPAT: u32 = 0x4000_0003;

/// Set in the number of an x32 call (`__X32_SYSCALL_BIT`).
pub const X32_BIT: u32 = 0x4000_0000;

/// The calls of the i386 table that could make an INET socket or a ring; everything else there passes.
/// `socketcall` cannot be told apart (its arguments are in memory), so it is refused whole.
pub const COMPAT_REFUSED: [(u32, &str); 3] = [(102, "socketcall (i386)"), (359, "socket (i386)"), (425, "io_uring_setup (i386)")];
