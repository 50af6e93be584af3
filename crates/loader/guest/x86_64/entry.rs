//! The instructions that no compiler writes: entry, system call, the copy that may fault, the child's first steps, the seccomp program.

use core::arch::{asm, global_asm};

global_asm!(
    ".globl _start",
    "_start:",
    "xor ebp, ebp",
    "mov rdi, rsp",
    "lea rsp, [rip + {stack} + {stack_bytes}]",
    "call weft_start",
    "ud2",
    // The end of every handler of ours.
    ".globl weft_restorer",
    ".hidden weft_restorer",
    "weft_restorer:",
    "mov eax, 15",
    "syscall",
    // weft_copy(into, from, bytes) -> bytes that could not be copied
    ".globl weft_copy",
    ".hidden weft_copy",
    "weft_copy:",
    "mov rcx, rdx",
    ".globl weft_copy_instruction",
    ".hidden weft_copy_instruction",
    "weft_copy_instruction:",
    "rep movsb",
    ".globl weft_copy_end",
    ".hidden weft_copy_end",
    "weft_copy_end:",
    "mov rax, rcx",
    "ret",
    // weft_clone3(arguments, bytes): as weft_clone.
    ".globl weft_clone3",
    ".hidden weft_clone3",
    "weft_clone3:",
    "mov eax, 435",
    "syscall",
    "test rax, rax",
    "jz 2f",
    "ret",
    // weft_clone(flags, stack, parent tid, child tid, tls): the child goes on in `child` on its own stack.
    ".globl weft_clone",
    ".hidden weft_clone",
    "weft_clone:",
    "mov r10, rcx",
    "mov eax, 56",
    "syscall",
    "test rax, rax",
    "jz 2f",
    "ret",
    "2: xor ebp, ebp",
    "and rsp, -16",
    "call weft_child_starts",
    "ud2",
    // A call of the program's own, made for it (real time): registers are the program's; where it goes on is the first word of the thread's block.
    ".globl weft_native",
    ".hidden weft_native",
    "weft_native:",
    "syscall",
    ".globl weft_native_after",
    ".hidden weft_native_after",
    "weft_native_after:",
    "jmp qword ptr gs:[0]",
    // weft_leave(word, bit, status): gives a thread's block back, and ends the thread without touching its stack again.
    ".globl weft_leave",
    ".hidden weft_leave",
    "weft_leave:",
    "lock btr qword ptr [rdi], rsi",
    "mov edi, edx",
    "mov eax, 60",
    "syscall",
    "ud2",
    stack = sym FIRST_STACK,
    stack_bytes = const crate::abi::FIRST_STACK_BYTES,
);

/// What the loader runs on until the program begins, which may have room for a few pages only (RLIMIT_STACK).
#[repr(C, align(4096))]
struct FirstStack([u8; crate::abi::FIRST_STACK_BYTES]);
const MADV_DONTNEED: usize = 4;
static mut FIRST_STACK: FirstStack = FirstStack([0; crate::abi::FIRST_STACK_BYTES]);

unsafe extern "C" {
    fn weft_restorer();
    fn weft_copy(into: usize, from: usize, bytes: usize) -> usize;
    fn weft_copy_instruction();
    fn weft_copy_end();
    fn weft_native();
    fn weft_native_after();
    fn weft_leave(word: *const core::sync::atomic::AtomicU64, bit: usize, status: usize) -> !;
    pub fn weft_clone3(arguments: usize, bytes: usize) -> isize;
    pub fn weft_clone(flags: usize, stack: usize, parent_tid: usize, child_tid: usize, tls: usize) -> isize;
}

macro_rules! address {
    ($name:ident) => {{
        let address: usize;
        // SAFETY: computes an address.
        unsafe { asm!(concat!("lea {}, [rip + ", stringify!($name), "]"), out(reg) address, options(nomem, nostack, pure)) };
        address
    }};
}

/// Where our own calls come from: (start, bytes).
pub fn text() -> (usize, usize) {
    let start = address!(__executable_start);
    (start, address!(etext) - start)
}
/// The end of everything that the kernel has mapped for the loader.
pub fn image_end() -> usize {
    address!(_end)
}
pub fn restorer() -> u64 {
    weft_restorer as *const () as u64
}
/// Copies; false when an address is bad.
pub fn copy(into: usize, from: usize, bytes: usize) -> bool {
    if super::place::is_careful() {
        return copy_by_kernel(into, from, bytes);
    }
    // SAFETY: a fault in this one instruction is caught by our handler, which goes on at its end.
    unsafe { weft_copy(into, from, bytes) == 0 }
}
/// Copies where a fault would end the process, since the program has blocked its signal: the kernel looks at the addresses.
fn copy_by_kernel(into: usize, from: usize, bytes: usize) -> bool {
    use crate::calls::number as nr;
    const EFAULT: isize = -14;
    let pid = system_call(nr::GETPID, [0; 6]) as usize;
    let mut done = 0;
    while done < bytes {
        let (local, remote) = ([into + done, bytes - done], [from + done, bytes - done]);
        let copied = system_call(nr::PROCESS_VM_READV, [pid, local.as_ptr() as usize, 1, remote.as_ptr() as usize, 1, 0]);
        match copied {
            0 | EFAULT => return false,
            // A kernel without the call, or a filter that forbids it: good addresses can be copied all the same.
            // SAFETY: as in `copy`, but for the handler.
            ..0 => return unsafe { weft_copy(into + done, from + done, bytes - done) == 0 },
            count => done += count as usize,
        }
    }
    true
}

/// If a fault happened in [`copy`]: where to go on.
pub fn after_copy(instruction: u64) -> Option<u64> {
    (instruction == weft_copy_instruction as *const () as u64).then_some(weft_copy_end as *const () as u64)
}

/// Where a call of the program's own is made for it, and where that is done.
pub fn native() -> (u64, u64) {
    (weft_native as *const () as u64, weft_native_after as *const () as u64)
}

/// Clears a bit and ends the thread: its stack may be somebody else's from then on.
pub fn leave(word: &core::sync::atomic::AtomicU64, bit: usize, status: usize) -> ! {
    // SAFETY: the word lives as long as the process.
    unsafe { weft_leave(word, bit, status) }
}

/// A handler of ours begins: the kernel leaves EFLAGS.AC as the program had it, and nothing of ours is aligned for it. The frame has the program's flags.
#[inline(always)]
pub fn unaligned_again() {
    const AC: u64 = 1 << 18;
    let flags: u64;
    // SAFETY: the flag decides about nothing but faults.
    unsafe {
        asm!("pushfq", "pop {}", out(reg) flags, options(preserves_flags));
        if flags & AC != 0 {
            asm!("push {}", "popfq", in(reg) flags & !AC);
        }
    }
}

/// Applies the image's own relocations. Nothing with a pointer in a static may be touched before.
#[inline(always)]
pub unsafe fn relocate() {
    let base = address!(__executable_start);
    let mut dynamic = address!(_DYNAMIC) as *const [u64; 2];
    let (mut table, mut bytes) = (0, 0);
    // SAFETY: the linker has made the dynamic section and the table; both are mapped, the targets are writable (no RELRO).
    unsafe {
        while (*dynamic)[0] != 0 {
            match (*dynamic)[0] {
                7 => table = base + (*dynamic)[1] as usize,
                8 => bytes = (*dynamic)[1] as usize,
                _ => {}
            }
            dynamic = dynamic.add(1);
        }
        let mut entry = table as *const [u64; 3];
        let end = (table + bytes) as *const [u64; 3];
        while entry < end {
            // R_X86_64_RELATIVE
            if (*entry)[1] as u32 == 8 {
                ((base as u64 + (*entry)[0]) as *mut u64).write((base as u64).wrapping_add((*entry)[2]));
            }
            entry = entry.add(1);
        }
    }
}

/// A system call.
#[inline(always)]
pub fn system_call(number: usize, a: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the callers pass what the call wants; what a program passes is checked by the kernel.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") a[0], in("rsi") a[1], in("rdx") a[2], in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _,
        );
    }
    result
}

/// Begins the program: its stack, its first instruction, all else zero as Linux has it (ELF_PLAT_INIT). Nobody needs the loader's own stack after.
pub unsafe fn enter(stack: usize, at: usize) -> ! {
    // SAFETY: the caller has mapped both. What lies on the loader's stack is not used any more: nothing here returns.
    unsafe {
        asm!(
            "mov rsp, r12",
            "mov [rsp - 8], r13",
            "syscall",
            "xor eax, eax", "xor ecx, ecx", "xor edx, edx", "xor ebx, ebx", "xor ebp, ebp", "xor esi, esi", "xor edi, edi", "xor r8d, r8d",
            "xor r9d, r9d", "xor r10d, r10d", "xor r11d, r11d", "xor r12d, r12d", "xor r13d, r13d", "xor r14d, r14d", "xor r15d, r15d",
            "jmp qword ptr [rsp - 8]",
            in("rax") crate::calls::number::MADVISE, in("rdi") &raw mut FIRST_STACK, in("rsi") crate::abi::FIRST_STACK_BYTES, in("rdx") MADV_DONTNEED,
            in("r12") stack, in("r13") at,
            options(noreturn)
        )
    }
}

/// Goes on with the context at this address as if a handler returned.
pub unsafe fn resume(context: usize) -> ! {
    // SAFETY: the caller has put a context there.
    unsafe { asm!("mov rsp, {0}", "mov eax, 15", "syscall", "ud2", in(reg) context, options(noreturn)) }
}

/// A seccomp program that traps the three calls of the vsyscall page, which Syscall User Dispatch does not see. It would tell real time.
/// `struct sock_filter { code, jt, jf, k }`.
pub static VSYSCALL_FILTER: [(u16, u8, u8, u32); 8] = [
    (0x20, 0, 0, 0),           // number
    (0x15, 2, 0, 96),          // gettimeofday
    (0x15, 1, 0, 201),         // time
    (0x15, 0, 3, 309),         // getcpu
    (0x20, 0, 0, 12),          // upper half of the instruction pointer
    (0x15, 0, 1, 0xffff_ffff), // only the vsyscall page is up there
    (0x06, 0, 0, 0x0003_0000), // SECCOMP_RET_TRAP
    (0x06, 0, 0, 0x7fff_0000), // SECCOMP_RET_ALLOW
];

#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(into: *mut u8, from: *const u8, bytes: usize) -> *mut u8 {
    // SAFETY: the caller's contract.
    unsafe { asm!("rep movsb", inout("rdi") into => _, inout("rsi") from => _, inout("rcx") bytes => _, options(nostack)) };
    into
}
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(into: *mut u8, from: *const u8, bytes: usize) -> *mut u8 {
    if (into as usize).wrapping_sub(from as usize) >= bytes {
        // SAFETY: the caller's contract; copying upwards does not overtake itself.
        return unsafe { memcpy(into, from, bytes) };
    }
    let mut at = bytes;
    while at > 0 {
        at -= 1;
        // SAFETY: the caller's contract. Volatile, or the compiler would make a call of memmove out of it.
        unsafe { into.add(at).write_volatile(from.add(at).read()) };
    }
    into
}
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(into: *mut u8, value: i32, bytes: usize) -> *mut u8 {
    // SAFETY: the caller's contract.
    unsafe { asm!("rep stosb", inout("rdi") into => _, in("al") value as u8, inout("rcx") bytes => _, options(nostack)) };
    into
}
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, bytes: usize) -> i32 {
    let mut at = 0;
    while at < bytes {
        // SAFETY: the caller's contract.
        let (one, other) = unsafe { (a.add(at).read_volatile(), b.add(at).read_volatile()) };
        if one != other {
            return i32::from(one) - i32::from(other);
        }
        at += 1;
    }
    0
}
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, bytes: usize) -> i32 {
    // SAFETY: the caller's contract.
    unsafe { memcmp(a, b, bytes) }
}
#[unsafe(no_mangle)]
unsafe extern "C" fn strlen(text: *const u8) -> usize {
    let mut length = 0;
    // SAFETY: the caller's contract.
    while unsafe { text.add(length).read_volatile() } != 0 {
        length += 1;
    }
    length
}
/// Asked for by `core`, which was compiled to unwind; nothing here does.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}
