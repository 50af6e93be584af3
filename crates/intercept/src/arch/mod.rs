//! What differs between processor architectures, one folder each.

#[cfg(target_arch = "x86_64")]
#[path = "x86_64/mod.rs"]
mod current;

#[cfg(not(target_arch = "x86_64"))]
compile_error!("weft-intercept has no folder under src/arch for this architecture yet");

pub use current::*;
