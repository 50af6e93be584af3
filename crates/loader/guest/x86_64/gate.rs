//! Gates: call sites that are used often no longer go through the kernel.
//!
//! A trap costs a signal: the kernel saves every register, and restores it. What C libraries compile for a call, `mov eax, NUMBER; syscall`, has
//! room for a jump to the loader. So the site of a call that was trapped [`OFTEN`] times becomes `jmp [slot]`, by way of a stub of its own that
//! knows number and place. The slots lie so low that the jump's last two bytes, where the syscall instruction was, are no instruction: who
//! jumps there by another way faults, and the fault is served as the call (`guest/fault.rs`). Only text that was mapped from a file, privately and
//! not to be written, is changed; whatever is unusual goes on being trapped. The program notices nothing but the time: the same code answers, at
//! the same virtual time.
//!
//! The number of read(2) is 0, for which compilers write `xor eax, eax`: two bytes, room for a short jump. It leads to the padding behind the function's
//! return, where C libraries have as much as the long one needs; the syscall instruction stays where it is.
//!
//! Everything that needs the registers of the kernel's frame (signals above all) goes back to it: the gate then ends in a trap of its
//! own ([`FINISH`]), with the call's result kept in the thread.

use crate::abi;
use crate::arena::header;
use crate::block::{BLOCK, BLOCKS_ADDRESS, Thread};
use crate::calls::number as nr;
use crate::sys;
use core::arch::global_asm;
use core::sync::atomic::Ordering::Relaxed;

/// Traps at one site before it becomes a gate: short programs do not pay for it.
const OFTEN: u64 = 8;
/// Sites that are counted at a time.
const COUNTED: usize = 64;
/// Pieces of text that are known to be a file's.
const TEXTS: usize = 32;
/// Most gates of a process.
const GATES: usize = 512;
/// The slots: pointers to the stubs. 0x06 is no instruction in 64-bit mode.
const SLOTS: usize = 0x6_0000;
/// The stubs. The first is the trap.
const STUBS: usize = 0x7eb9_0000_0000;
const STUB_BYTES: usize = 32;
const SITE_BYTES: usize = 7;
/// A site of read(2), to the padding behind it: `xor eax, eax; syscall; cmp rax, -4096; ja FAR; ret`. The two bytes of `ja` are known by the first.
const SHORT_SITE: [u8; 13] = [0x31, 0xc0, 0x0f, 0x05, 0x48, 0x3d, 0x00, 0xf0, 0xff, 0xff, 0x77, 0, 0xc3];
const SHORT_SITE_FAR: usize = 11;
/// Instructions that do nothing, of seven bytes and more, as compilers pad with.
const PADDINGS: [&[u8]; 4] = [
    &[0x0f, 0x1f, 0x80, 0, 0, 0, 0],
    &[0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0],
    &[0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0],
    &[0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0],
];
const PAGE: usize = 4096;
/// The number with which a gate traps when its call is answered but something is left to be done.
pub const FINISH: usize = 0x7765_6674;

/// What the program had in its registers.
#[repr(C)]
pub struct Registers {
    /// The arguments.
    pub arguments: [u64; 6],
    /// The call's number.
    pub number: u64,
    /// Where the program goes on.
    pub after: u64,
    flags: u64,
    stack: u64,
}

impl Registers {
    /// The call is answered, but there is more to be done, which needs the kernel's frame: the program goes on with the trap.
    pub fn finish(&mut self) -> i64 {
        self.after = STUBS as u64;
        FINISH as i64
    }
}

/// Where the handler stack of the running thread begins.
static mut TOP: u64 = 0;
/// Sites by number: address behind it, and times in the low eight bits.
static mut SEEN: [u64; COUNTED] = [0; COUNTED];
/// Text of files: start and end.
static mut FILES: [(usize, usize); TEXTS] = [(0, 0); TEXTS];
/// Gates so far, with the trap.
static mut USED: usize = 0;
/// The pages of slots and stubs are there.
static mut MAPPED: bool = false;

// As the syscall instruction does, everything but rax, rcx and r11 is kept, the vector registers too: nothing in the loader uses more than their
// lower halves. The program's stack is not touched (it may have a red zone).
global_asm!(
    ".globl weft_gate",
    ".hidden weft_gate",
    "weft_gate:",
    "mov r11, rsp",
    "mov rsp, [rip + {top}]",
    "push r11",
    "pushfq",
    "push rcx",
    "push rax",
    "push r9",
    "push r8",
    "push r10",
    "push rdx",
    "push rsi",
    "push rdi",
    "cld",
    // EFLAGS.AC: nothing here is aligned for it. The program's flags come back at the end.
    "test byte ptr [rsp + 66], 4",
    "jnz 3f",
    "2: mov rdi, rsp",
    "sub rsp, 256",
    "movaps [rsp], xmm0",
    "movaps [rsp + 16], xmm1",
    "movaps [rsp + 32], xmm2",
    "movaps [rsp + 48], xmm3",
    "movaps [rsp + 64], xmm4",
    "movaps [rsp + 80], xmm5",
    "movaps [rsp + 96], xmm6",
    "movaps [rsp + 112], xmm7",
    "movaps [rsp + 128], xmm8",
    "movaps [rsp + 144], xmm9",
    "movaps [rsp + 160], xmm10",
    "movaps [rsp + 176], xmm11",
    "movaps [rsp + 192], xmm12",
    "movaps [rsp + 208], xmm13",
    "movaps [rsp + 224], xmm14",
    "movaps [rsp + 240], xmm15",
    "call weft_through_gate",
    "movaps xmm0, [rsp]",
    "movaps xmm1, [rsp + 16]",
    "movaps xmm2, [rsp + 32]",
    "movaps xmm3, [rsp + 48]",
    "movaps xmm4, [rsp + 64]",
    "movaps xmm5, [rsp + 80]",
    "movaps xmm6, [rsp + 96]",
    "movaps xmm7, [rsp + 112]",
    "movaps xmm8, [rsp + 128]",
    "movaps xmm9, [rsp + 144]",
    "movaps xmm10, [rsp + 160]",
    "movaps xmm11, [rsp + 176]",
    "movaps xmm12, [rsp + 192]",
    "movaps xmm13, [rsp + 208]",
    "movaps xmm14, [rsp + 224]",
    "movaps xmm15, [rsp + 240]",
    "add rsp, 256",
    "pop rdi",
    "pop rsi",
    "pop rdx",
    "pop r10",
    "pop r8",
    "pop r9",
    "pop rcx",
    "pop rcx",
    "popfq",
    "pop rsp",
    "jmp rcx",
    "3: pushfq",
    "and dword ptr [rsp], 0xfffbffff",
    "popfq",
    "jmp 2b",
    top = sym TOP,
);

unsafe extern "C" {
    fn weft_gate();
}

/// This thread runs from now on, and no other.
pub fn runs(t: &Thread) {
    // SAFETY: one thread of a node runs at a time.
    unsafe { TOP = top_of(t.index) };
}
/// Which thread runs, by the index of its block.
pub fn running() -> usize {
    // SAFETY: as above.
    ((unsafe { TOP } as usize).saturating_sub(BLOCKS_ADDRESS) / BLOCK).saturating_sub(1)
}
fn top_of(index: usize) -> u64 {
    (BLOCKS_ADDRESS + (index + 1) * BLOCK) as u64
}

/// Not in real time, where several threads run.
fn wanted() -> bool {
    header().flags.load(Relaxed) & abi::GATES != 0
}

/// Text of a file was mapped, privately, and not to be written.
pub fn note(start: usize, bytes: usize) {
    if !wanted() {
        return;
    }
    // SAFETY: as above.
    let files = unsafe { &mut *(&raw mut FILES) };
    if let Some(free) = files.iter_mut().find(|(_, end)| *end == 0) {
        *free = (start, start + bytes);
    }
}
/// Something else is there now, or may be.
pub fn forget(start: usize, bytes: usize) {
    if !wanted() {
        return;
    }
    // SAFETY: as above.
    let files = unsafe { &mut *(&raw mut FILES) };
    let end = start.saturating_add(bytes);
    for one in files.iter_mut().filter(|one| one.0 < end && start < one.1) {
        *one = (0, 0);
    }
}

fn used() -> usize {
    // SAFETY: as above.
    unsafe { USED }
}

fn is_mapped() -> bool {
    // SAFETY: as above.
    unsafe { MAPPED }
}

/// Are these pages ours?
pub fn is_ours(start: usize, end: usize) -> bool {
    let overlaps = |low: usize, high: usize| start < high && low < end;
    is_mapped() && (overlaps(SLOTS, SLOTS + slots_bytes()) || overlaps(STUBS, STUBS + GATES * STUB_BYTES))
}
const fn slots_bytes() -> usize {
    (GATES * 8).next_multiple_of(PAGE)
}

/// A call was trapped; `after` is where its program goes on. Sites that are used often become gates.
pub fn seen(number: usize, after: u64) {
    if !wanted() {
        return;
    }
    // SAFETY: as above.
    let slot = unsafe { &mut (*(&raw mut SEEN))[(after >> 1) as usize % COUNTED] };
    if *slot >> 8 != after {
        *slot = after << 8 | 1;
    } else if *slot & 0xff < 0xff {
        *slot += 1;
        if *slot & 0xff == OFTEN && may(number) {
            build(number, after as usize);
        }
    }
}

/// Calls that need no frame of the kernel's, but for what [`FINISH`] does.
fn may(number: usize) -> bool {
    use nr::*;
    let needs = [SIGALTSTACK, FORK, VFORK, CLONE, CLONE3, EXECVE, EXECVEAT, EXIT, EXIT_GROUP, RT_SIGRETURN, RT_SIGSUSPEND, PAUSE];
    number < 1024 && !needs.contains(&number)
}

fn build(number: usize, after: usize) {
    let site = after.wrapping_sub(SITE_BYTES);
    // SAFETY: as above.
    let files = unsafe { &*(&raw const FILES) };
    let mut code = [0; SITE_BYTES];
    if !files.iter().any(|(start, end)| *start <= site && after <= *end) || sys::copy_in(site, &mut code).is_err() {
        return;
    }
    let [opcode, a, b, c, d, syscall @ ..] = code;
    if opcode != 0xb8 || u32::from_le_bytes([a, b, c, d]) as usize != number || syscall != [0x0f, 0x05] {
        return build_short(number, after);
    }
    let Some(gate) = stub(number, after) else { return };
    poke(site, &jump(gate));
}

/// A gate for read(2), by way of the padding behind its function. See [`SHORT_SITE`].
fn build_short(number: usize, after: usize) {
    let site = after.wrapping_sub(4);
    let padding = site.wrapping_add(SHORT_SITE.len());
    // SAFETY: as above.
    let files = unsafe { &*(&raw const FILES) };
    let end = padding.wrapping_add(PADDINGS[3].len());
    let mut code = [0; SHORT_SITE.len() + PADDINGS[3].len()];
    if number != nr::READ || !files.iter().any(|(from, to)| *from <= site && end <= *to) || sys::copy_in(site, &mut code).is_err() {
        return;
    }
    code[SHORT_SITE_FAR] = 0;
    let (function, behind) = code.split_at(SHORT_SITE.len());
    if function != SHORT_SITE || !PADDINGS.iter().any(|padding| behind.starts_with(padding)) {
        return;
    }
    let Some(gate) = stub(number, after) else { return };
    // jmp PADDING
    let short = [0xeb, (SHORT_SITE.len() - 2) as u8];
    let _ = poke(padding, &jump(gate)) && poke(site, &short);
}

/// Changes text as a debugger does: the mapping stays as it is, in /proc/self/maps too. False: there is no /proc, or the kernel does not allow it.
fn poke(at: usize, code: &[u8]) -> bool {
    const OPEN_BOTH_CLOEXEC: usize = 0o2_000_002;
    let fd = sys::call(nr::OPEN, &[c"/proc/self/mem".as_ptr() as usize, OPEN_BOTH_CLOEXEC, 0]);
    if fd < 0 {
        return false;
    }
    let done = sys::call(nr::PWRITE64, &[fd as usize, code.as_ptr() as usize, code.len(), at]);
    sys::call(nr::CLOSE, &[fd as usize]);
    done == code.len() as isize
}

/// What a gate's site looks like.
fn jump(gate: usize) -> [u8; SITE_BYTES] {
    let [a, b, c, d] = ((SLOTS + 8 * gate) as u32).to_le_bytes();
    // jmp [slot]
    [0xff, 0x24, 0x25, a, b, c, d]
}

/// The stub of a site: a new one, or what was made for the same call at the same place before.
fn stub(number: usize, after: usize) -> Option<usize> {
    // syscall; ud2
    if !is_mapped() || used() == 0 && !poke(STUBS, &[0x0f, 0x05, 0x0f, 0x0b]) {
        return None;
    }
    let mut code = [0x90; STUB_BYTES];
    // mov eax, NUMBER; mov rcx, AFTER; mov r11, GATE; jmp r11
    code[0] = 0xb8;
    code[1..5].copy_from_slice(&(number as u32).to_le_bytes());
    code[5..7].copy_from_slice(&[0x48, 0xb9]);
    code[7..15].copy_from_slice(&after.to_le_bytes());
    code[15..17].copy_from_slice(&[0x49, 0xbb]);
    code[17..25].copy_from_slice(&(weft_gate as *const () as usize).to_le_bytes());
    code[25..28].copy_from_slice(&[0x41, 0xff, 0xe3]);
    let used = used().max(1);
    let mut other = [0; STUB_BYTES];
    for gate in 1..used {
        if sys::copy_in(STUBS + gate * STUB_BYTES, &mut other).is_ok() && other == code {
            return Some(gate);
        }
    }
    if used == GATES || !poke(STUBS + used * STUB_BYTES, &code) {
        return None;
    }
    sys::write_u64(SLOTS + 8 * used, (STUBS + used * STUB_BYTES) as u64).ok()?;
    // SAFETY: as above.
    unsafe { USED = used + 1 };
    Some(used)
}

/// Maps slots and stubs, whether there will be gates or not: programs that read /proc/self/maps see the same.
pub fn prepare() {
    // MAP_PRIVATE|MAP_ANONYMOUS|MAP_FIXED_NOREPLACE
    let slots = sys::call(nr::MMAP, &[SLOTS, slots_bytes(), 3, 0x10_0022, usize::MAX, 0]);
    let stubs = sys::call(nr::MMAP, &[STUBS, GATES * STUB_BYTES, 5, 0x10_0022, usize::MAX, 0]);
    let good = slots == SLOTS as isize && stubs == STUBS as isize;
    if !good {
        // The kernel allows no such low addresses (vm.mmap_min_addr), or the program itself lies there.
        for (at, bytes) in [(slots, slots_bytes()), (stubs, GATES * STUB_BYTES)] {
            if at > 0 {
                sys::unmap(at as usize, bytes);
            }
        }
    }
    // SAFETY: the only thread of a new image.
    unsafe { MAPPED = good };
}

/// Is the site of a gate behind this address? Then that is where it begins.
pub fn site_before(after: u64) -> Option<u64> {
    let site = after.wrapping_sub(SITE_BYTES as u64);
    let mut code = [0; SITE_BYTES];
    sys::copy_in(site as usize, &mut code).ok()?;
    let slot = u32::from_le_bytes([code[3], code[4], code[5], code[6]]) as usize;
    let gate = slot.wrapping_sub(SLOTS) / 8;
    let made = (1..used()).contains(&gate) && code == jump(gate);
    let knows = sys::read_u64(STUBS + gate * STUB_BYTES + 7);
    (made && knows == Ok(after)).then_some(site)
}
