//! Stand-ins: the AF_UNIX sockets that programs hold for the model's sockets.
//!
//! A stand-in lives the same life as its socket, so that data, poll, epoll, fork, dup and descriptor passing run in the kernel, without us:
//!
//! | socket | program holds | we hold |
//! |---|---|---|
//! | stream, fresh or bound | an unconnected stream socket | nothing |
//! | stream, connecting | the same, connected to our door, its way to us filled up: nothing is ready | the accepted end, unread |
//! | stream, connected | the same, emptied; or (accepted) one end of a pair | the other end |
//! | stream, listening | the same, listening under an abstract name in our network namespace | the name; while the model has connections to accept, token connections lie in its queue, one for each that came |
//! | datagram, netlink | one end of a SOCK_SEQPACKET pair | the other end |
//!
//! Never keep a duplicate of the program's end: its last close is what ends the socket. It is borrowed with pidfd_getfd(2) and given back
//! within one turn. Ends are known by the inode number of the program's socket, which dup, fork and SCM_RIGHTS do not change.
//!
//! Sockets that have no other end (fresh, listening, failed) do not report their last close; see [`liveness`].
//!
//! Shapes ([`stream`], [`packet`]) are below one stand-in ([`stand_in`]), and what flows through it (the pumps) is above.

pub mod buffer;
pub mod link;
pub mod liveness;
pub mod moments;
pub mod packet;
pub mod packet_pump;
pub mod stand_in;
pub mod stream;
pub mod stream_pump;

pub use stand_in::{
    BULK_BYTES, BULK_SEND_BUFFER_BYTES, Body, StandIn, UNREAD_BYTES_FIRST, UNREAD_BYTES_MAX, UNREAD_GROWS_AFTER, send_buffer_bytes,
};
