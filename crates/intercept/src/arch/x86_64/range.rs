//! Which addresses a program may have.

use std::sync::OnceLock;

/// Of a page.
const PAGE_BYTES: u64 = 4096;
/// Bits of a program's addresses, with four and with five levels of page tables.
const BITS: [u32; 2] = [47, 56];

/// access_ok: may a program have so many bytes at this address, whatever lies there? The kernel asks that of a buffer before it asks for anything else. It
/// adds both. Here that is not done: addresses are not randomised below `--strict` and in a node, so that a long buffer on the stack would often reach
/// behind the end, which on Linux it seldom does.
#[must_use]
pub fn may_be_a_programs(address: u64, bytes: u64) -> bool {
    static END: OnceLock<u64> = OnceLock::new();
    let end = *END.get_or_init(|| end_of(if has_five_levels() { BITS[1] } else { BITS[0] }));
    address <= end && bytes <= end
}

/// TASK_SIZE_MAX: the last page is nobody's.
const fn end_of(bits: u32) -> u64 {
    (1 << bits) - PAGE_BYTES
}

/// A mapping behind the addresses of four levels is made only where it is asked for, and only with five.
fn has_five_levels() -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    let at = 1_usize << (BITS[0] + 1);
    // SAFETY: a page that nobody has and nobody may use, and it goes again.
    unsafe {
        let made = libc::mmap(at as *mut libc::c_void, PAGE_BYTES as usize, libc::PROT_NONE, flags, -1, 0);
        if made == libc::MAP_FAILED {
            return false;
        }
        libc::munmap(made, PAGE_BYTES as usize);
        made as usize == at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_the_kernels_or_goes_round_is_no_programs() {
        let one = 0_u64;
        let here = &raw const one as u64;
        assert!(may_be_a_programs(here, 8) && may_be_a_programs(0, 0) && may_be_a_programs(0, end_of(BITS[0])));
        for (address, bytes) in [(0xffff_8000_0000_0000, 0), (here, u64::MAX), (here, i64::MAX as u64), (1 << 62, 1), (u64::MAX, 1)] {
            assert!(!may_be_a_programs(address, bytes), "{address:#x} {bytes}");
        }
    }
}
