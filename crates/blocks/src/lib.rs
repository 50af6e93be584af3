//! The blocks of a node: one file a block, `<family>/<block>.rs`, and one row each in [`table::rows`].
//!
//! A block's file opens with its contract: what it does, its parameters, ports and counters, what it refuses, the RFCs, and an example
//! graph line. What the graph looks like as a whole is in `docs/architecture/graph.md`.
//!
//! Blocks meet only through ports and table queries. Nothing here reads a clock or draws randomness of its own: time and the random
//! stream come in through the `Context`. TCP and the sockets are blocks too, in crates of their own.
#![forbid(unsafe_code)]

mod arguments;
mod counted;
mod facts;

pub mod fuzzing;
pub mod ip;
pub mod link;
pub mod middlebox;
pub mod qdisc;
pub mod table;
pub mod tool;
pub mod transport;
