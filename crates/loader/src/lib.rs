//! The loader: a program inside which another program runs, unmodified, in virtual time.
//!
//! [`IMAGE`] is a freestanding static executable (sources in `guest/`, built by `build.rs` with the compiler that builds everything else).
//! It maps the program's ELF image itself, gives it a stack, an auxiliary vector and a vDSO of its own, and sends every system call that
//! the program makes to its own handler (Syscall User Dispatch). What the handler cannot answer in the process goes through memory that
//! both sides map ([`abi`]) to a controller, which is in `weft-process`.
//!
//! This crate does nothing with the image: it holds it, and the layout of the shared memory.

pub mod abi;
#[macro_use]
pub mod calls;

/// The loader as an ELF file, to be executed from a memfd.
pub static IMAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/weft-loader"));

#[cfg(test)]
mod tests {
    use super::{IMAGE, abi};

    #[test]
    fn the_image_fits_where_it_is_kept() {
        let number = |at: usize, bytes: usize| IMAGE[at..at + bytes].iter().rev().fold(0_usize, |sum, byte| sum << 8 | usize::from(*byte));
        // Elf64_Ehdr: e_phoff, e_phnum; Elf64_Phdr: p_type 1 is PT_LOAD, p_vaddr at 16, p_memsz at 40.
        let headers = (0..number(56, 2)).map(|index| number(32, 8) + 56 * index).filter(|at| number(*at, 4) == 1);
        let end = headers.map(|at| number(at + 16, 8) + number(at + 40, 8)).max().expect("segments");
        assert!((100_000..=abi::IMAGE_BYTES_MAX).contains(&end), "{end}");
        const { assert!(abi::IMAGE_BYTES_MAX < abi::RESERVED_BYTES) };
    }
}
