//! The loader: a program inside which another program runs, unmodified, in virtual time.
//!
//! [`IMAGE`] is a freestanding static executable (sources in `guest/`, built by `build.rs` with the compiler that builds everything else).
//! It maps the program's ELF image itself, gives it a stack, an auxiliary vector and a vDSO of its own, and sends every system call that
//! the program makes to its own handler (Syscall User Dispatch). What the handler cannot answer in the process goes through memory that
//! both sides map ([`abi`]) to a controller, which is in `weft-intercept`.
//!
//! This crate does nothing with the image: it holds it, and the layout of the shared memory.

pub mod abi;

/// The loader as an ELF file, to be executed from a memfd.
pub static IMAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/weft-loader"));
