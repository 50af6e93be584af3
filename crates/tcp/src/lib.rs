//! TCP (RFC 9293 and what was added to it) as a pure state machine, and the block that puts it into a node's graph.
//!
//! A [`Connection`] takes time, segments and calls as arguments and gives out frames and messages through an [`outbox::Outbox`]; it owns no
//! clock, no timer and no randomness. [`TcpBlock`] holds a node's connections, listeners and TIME-WAITs, finds the one that a segment
//! belongs to, and speaks the ports of `docs/architecture/graph.md`.
//!
//! The parts: [`connection`] (sender, receiver, recovery, control, opening, and what drives them), [`congestion`] (one file a control), [`rtt`],
//! [`prr`], [`pacing`], [`extension`] (what MPTCP builds on; plain TCP is its first user), `block/`.
//!
//! Inside, sequence numbers are 64-bit positions ([`position`]): ordered, usable as keys, without wrap. Payload is never copied: frames
//! share the slices that were handed in, and what arrives is handed on in the memory that it arrived in.
#![forbid(unsafe_code)]

pub mod block;
pub mod config;
pub mod congestion;
pub mod connection;
pub mod counters;
pub mod extension;
pub mod memory;
pub mod outbox;
pub mod pacing;
pub mod position;
pub mod prr;
pub mod rtt;

pub use block::{ROW, TcpBlock};
pub use config::Config;
pub use connection::{Connection, Foresight, Path, State};
pub use extension::{Extension, ExtensionRow, Plain};
pub use outbox::{Env, Outbox};
