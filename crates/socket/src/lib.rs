//! Linux socket semantics, once, without I/O: SOCK_STREAM and SOCK_DGRAM over IPv4 and IPv6 as the kernel has them, and the sockets block.
//!
//! [`Sockets`] is both the *face* that adapters call (one method a system call; none ever blocks) and the block that speaks to the
//! transports. Adapters pass what programs pass: raw `sockaddr` bytes, option values and flags; they get what programs get.
//!
//! The model is Linux's own: a socket has a *phase* (`SS_UNCONNECTED` …), a protocol state (`TCP_CLOSE` …), a pending error, shutdown bits and
//! locks on its address and port, and each call looks at them in the kernel's order. That is why errno and poll masks come out right in
//! corners that nobody listed. The alternative, a clean state machine with exceptions for Linux, was rejected: the exceptions are the work.
//! What was measured, and how, is in docs/linux-notes/sockets.md; `tests/twins` runs the same bodies on the host kernel and here.
//!
//! Addresses inside are those on the wire: an AF_INET6 socket that talks IPv4 has IPv4 addresses here, and tells them mapped ([`address`]).
#![forbid(unsafe_code)]

pub mod abi;
pub mod address;
mod address_kinds;
mod block;
mod cmsg;
mod coalesce;
mod connection;
mod counters;
mod datagram_input;
mod datagram_socket;
mod datagrams;
pub mod errno;
mod error_queue;
mod face;
mod fast_open;
mod filter;
mod holds;
mod icmp_errors;
mod inet6;
mod kind;
mod limits;
mod listener;
mod listing;
mod membership;
mod memory;
mod messages;
mod multicast;
pub mod options;
mod outgoing;
mod outputs;
mod ping_socket;
pub mod poll;
mod ports;
mod preview;
mod raw_address;
mod raw_socket;
mod readiness;
mod receive_queue;
mod received;
mod registry;
mod routes;
mod sending;
mod socket;
mod socket_state;
mod state;
mod stream_events;
mod stream_receive;
mod stream_send;
mod stream_socket;
mod streams;
mod transport;
mod unread;

pub use block::ROW;
pub use errno::Errno;
pub use face::Sockets;
pub use kind::KIND;
pub use poll::Poll;
pub use ports::{EPHEMERAL_FIRST, EPHEMERAL_LAST};
pub use preview::{Preview, Waiting};
pub use received::Received;
pub use socket::SocketId;
pub use socket_state::SocketState;
