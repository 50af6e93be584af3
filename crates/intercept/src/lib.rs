//! What a program's calls mean to weft's socket model, whoever brings them here.
//!
//! Two adapters stand on this crate: `weft-notify`, whose supervisor answers a seccomp filter's notifications in real time, and
//! `weft-process`, the controller of processes that run inside the loader, in virtual time and with `--strict`. What both need is here:
//!
//! - [`face`]: the socket model as an adapter sees it, [`Stack`].
//! - [`socket_calls`]: every call on a socket, once, over a [`Carrier`](socket_calls::Carrier).
//! - [`memory`]: a program's memory. [`tables`], [`netlink`], [`proc_net`]: what it asks about interfaces, routes and sockets.
//! - [`replace`]: a program that the loader is to run.
//! - [`calls`], [`rows`]: counters and names of calls. [`arch`], [`sys`]: numbers and layouts, and system calls of weft's own.

pub mod arch;
pub mod calls;
pub mod face;
pub mod memory;
pub mod netlink;
pub mod proc_net;
pub mod replace;
pub mod rows;
pub mod socket_calls;
pub mod sys;
pub mod sys_net;
pub mod tables;

pub use face::{Errno, Lend, Poll, Received, SocketId, SocketState, Sockets, Stack};
pub use rows::{CALLS, CallRow};
