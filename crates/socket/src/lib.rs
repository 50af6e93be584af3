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
//!
//! [`Sockets`] owns four parts: all sockets by their ids (`registry`), TCP's ports and flows (`streams`), what finds a socket for a datagram or a
//! raw packet (`messages`), and the groups (`multicast`). What calls and packets do are functions of the parts that they need; the face only picks
//! them by a socket's kind. The modules below stand in layers: a file needs files of its own layer and of those before it, none in a circle.
#![forbid(unsafe_code)]

// What everything below speaks of: numbers, addresses, errors, bounds, what a call takes and gives.
pub mod abi;
pub mod address;
mod counters;
pub mod errno;
mod kind;
mod limits;
mod membership;
mod memory;
mod outputs;
pub mod poll;
mod raw_address;
mod received;
mod sending;
mod times;
mod transport_statistics;
mod unread;

// One socket: its fields, and what is worked out from them alone.
mod cmsg;
mod coalesce;
mod filter;
mod holds;
mod packet_offload;
mod packet_ring;
mod packet_rollover;
mod ports;
mod readiness;
mod routes;
mod socket;
mod socket_state;

// All sockets by their ids, with the books over them; their addresses and queues.
mod address_kinds;
mod error_queue;
mod inet6;
mod link_address;
mod link_seen;
mod outgoing;
mod receive_queue;
mod registry;

// Streams: what finds a socket for a connection, and what calls and the transport do with it.
mod connection;
mod fast_open;
mod listener;
mod stream_events;
mod stream_receive;
mod stream_send;
mod stream_socket;
mod streams;
mod transport;

// Messages (UDP, raw, ICMP) and groups: what finds a socket for a packet, and what calls and packets do with it.
mod datagram_input;
mod datagram_socket;
mod datagrams;
mod icmp_errors;
mod messages;
mod multicast;
mod packet_fanout;
mod packet_socket;
mod ping_socket;
mod raw_socket;

// Options, and what programs and the engine call.
mod block;
mod face;
mod listing;
pub mod options;
mod preview;
mod state;

pub use block::ROW;
pub use cmsg::{each as each_control, message as control_message};
pub use errno::Errno;
pub use face::Sockets;
pub use kind::KIND;
pub use limits::{Buffer, Buffers};
pub use packet_ring::RingMemory;
pub use poll::Poll;
pub use ports::{EPHEMERAL_FIRST, EPHEMERAL_LAST};
pub use preview::{Preview, Waiting};
pub use received::Received;
pub use socket::SocketId;
pub use socket_state::SocketState;
