//! Everything about x86-64: the kernel's structs, entry points.

pub mod context;
pub mod entry;
pub mod gate;
pub mod place;
