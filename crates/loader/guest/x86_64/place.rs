//! Where the blocks of threads are, and whose block the stack is.

use crate::abi;
use core::arch::asm;

/// Bytes of a thread's block: what belongs to it at the lower end, the stack of its handler at the upper.
pub const BLOCK: usize = 128 * 1024;
/// Most threads of a process.
pub const BLOCKS: usize = abi::CHANNELS_MAX;
/// Where the blocks of a process are.
pub const BLOCKS_ADDRESS: usize = 0x7ea0_0000_0000;
const _: () = assert!(BLOCK * BLOCKS == abi::BLOCKS_BYTES as usize);

/// What a block begins with.
#[repr(C)]
pub struct Head {
    /// In real time: where the program goes on after a call that the kernel answers. First, where GS points.
    pub native_return: u64,
    /// In real time: the kernel has a signal of faults blocked or ignores it, so our copying must not fault.
    pub careful: bool,
}

/// Is it in a block of some thread?
pub const fn is_ours(address: usize) -> bool {
    address >= BLOCKS_ADDRESS && address < BLOCKS_ADDRESS + BLOCKS * BLOCK
}

pub fn stack_pointer() -> usize {
    let value: usize;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, rsp", out(reg) value, options(nomem, nostack)) };
    value
}

/// Where the block is whose stack is in use.
pub fn block() -> usize {
    stack_pointer() & !(BLOCK - 1)
}

/// Is this a handler of a thread that must not fault in copying?
pub fn is_careful() -> bool {
    // SAFETY: every block begins with it.
    is_ours(stack_pointer()) && unsafe { (*(block() as *const Head)).careful }
}
