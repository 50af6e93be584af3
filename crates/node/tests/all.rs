//! All tests of this crate, in one program: each program more would be built and linked by itself.

mod accounts;
mod buffers;
mod common;
mod edges;
mod foresee;
mod forged;
mod fuzz_corpus;
mod gigabyte;
mod hand_over;
mod help_examples;
mod hostile;
mod interface_names;
mod ipv6;
mod leases;
mod messages;
mod middleboxes;
mod neighbours;
mod queues;
mod rebuilt;
mod redirects;
mod router;
mod shape;
mod snapshot;
mod stack_files;
mod state_lost;
mod states;
