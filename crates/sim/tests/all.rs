//! All tests of this crate, in one program: each program more would be built and linked by itself.

mod boots;
mod clocks;
mod corners;
mod exact;
mod goodput;
mod help;
mod hops;
mod made;
mod orders;
mod processes;
mod queues;
mod record;
mod replaced;
mod scenario;
mod support;
