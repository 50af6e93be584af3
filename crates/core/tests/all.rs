//! All tests of this crate, in one program: each program more would be built and linked by itself.

mod common;
mod engine;
mod messages;
mod orders;
mod schedulers;
mod transactions;
