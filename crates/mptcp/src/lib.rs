//! Multipath TCP, version 1 (RFC 8684): one connection over several paths, for programs that know nothing of it.
//!
//! ```text
//!  sockets ── mptcp ─────────────── one connection: data sequence numbers, DATA_ACK, scheduler
//!               │ │ │
//!              tcp tcp tcp ──────── subflows, each with an extension that reads and writes its options
//! ```
//!
//! The block stands between sockets and tcp and speaks [`weft_core::stream`] on both sides. It owns no TCP: each subflow is a connection of the tcp
//! block, in which an extension ([`subflow`], [`listening`]) has its place. The two talk by words ([`word`]).
//!
//! A connection keeps the flow that sockets know it by, which is its first subflow's as well. So whatever the block does not know passes through
//! it as it is: it can be inserted under connections that run.
//!
//! The parts: [`key`] (tokens, HMACs), [`subflow`] and [`listening`] (inside tcp), [`connection`] (the data of one connection), [`block`].

#![forbid(unsafe_code)]

pub mod block;
pub mod connection;
pub mod counters;
pub mod endpoint;
pub mod key;
mod kind;
mod listener;
pub mod listening;
mod out;
mod own;
pub mod policy;
pub mod scheduler;
pub mod subflow;
pub mod word;

pub use block::{MptcpBlock, ROW};

/// The kind's name, and its block's in a node that has one.
pub const NAME: &str = "mptcp";

/// The extensions that tcp has to know ([`weft_tcp::TcpBlock::with_extensions`]).
pub static EXTENSIONS: &[weft_tcp::ExtensionRow] = &[subflow::ROW, listening::ROW];
