//! Everything about x86-64: call numbers, the kernel's structs, entry points.

pub mod context;
pub mod entry;
pub mod gate;
pub mod numbers;
