//! All tests of this crate, in one program: each program more would be built and linked by itself.

mod boxes;
mod compliance;
mod controls;
mod endpoints;
mod fast_open;
mod graph;
mod hostile;
mod managed;
mod one_path;
mod own_scheduler;
mod policy;
mod schedulers;
mod support;
mod two_paths;
