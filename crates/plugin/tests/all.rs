//! All tests of this crate, in one program: each program more would be built and linked by itself.

#[allow(dead_code, unused_imports)]
mod common;
mod native;
mod python;
mod scheduler;
mod wasm;
