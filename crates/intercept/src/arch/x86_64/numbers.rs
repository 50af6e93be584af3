//! Call numbers. Those of x86-64 itself are `libc::SYS_*`; here is what libc does not say about the other two tables.

/// `AUDIT_ARCH_X86_64` of linux/audit.h: EM_X86_64, 64 bit, little endian.
pub const AUDIT_ARCH: u32 = 0xc000_003e;

/// `AUDIT_ARCH_I386`: entered by 32-bit programs and by `int $0x80`.
pub const AUDIT_ARCH_COMPAT: u32 = 0x4000_0003;

/// Set in the number of an x32 call (`__X32_SYSCALL_BIT`).
pub const X32_BIT: u32 = 0x4000_0000;

/// The calls of the i386 table that make or use sockets and rings (arch/x86/entry/syscalls/syscall_32.tbl); everything else there passes,
/// ioctl by its request. Any program can make them, a 64-bit one by `int $0x80`, and they act on the same descriptors.
/// None is answered: the structs that they take have layouts of their own.
pub const COMPAT_REFUSED: [(u32, &str); 22] = [
    (102, "socketcall (i386)"),
    (337, "recvmmsg (i386)"),
    (345, "sendmmsg (i386)"),
    (359, "socket (i386)"),
    (360, "socketpair (i386)"),
    (361, "bind (i386)"),
    (362, "connect (i386)"),
    (363, "listen (i386)"),
    (364, "accept4 (i386)"),
    (365, "getsockopt (i386)"),
    (366, "setsockopt (i386)"),
    (367, "getsockname (i386)"),
    (368, "getpeername (i386)"),
    (369, "sendto (i386)"),
    (370, "sendmsg (i386)"),
    (371, "recvfrom (i386)"),
    (372, "recvmsg (i386)"),
    (373, "shutdown (i386)"),
    (417, "recvmmsg_time64 (i386)"),
    (425, "io_uring_setup (i386)"),
    (426, "io_uring_enter (i386)"),
    (427, "io_uring_register (i386)"),
];
/// userfaultfd of the i386 table.
pub const COMPAT_USERFAULTFD: u32 = 374;
/// ioctl of the i386 table.
pub const COMPAT_IOCTL: u32 = 54;
