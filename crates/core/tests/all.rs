//! All tests of this crate, in one program: each program more would be built and linked by itself.

#[allow(dead_code, unused_imports)]
mod common;
mod engine;
mod messages;
mod orders;
mod schedulers;
mod transactions;
