//! All tests of this crate, in one program: each program more would be built and linked by itself.

mod common;
mod native;
mod python;
mod scheduler;
mod wasm;
