//! Packet formats: what is on the wire and what it means.
//!
//! One protocol, one file, one shape: the RFC's picture as a table of field
//! offsets (`mod field`), a struct that holds the meaning, `parse` from bytes,
//! `emit` to bytes, tests. Who knows one file knows all of them.
//!
//! # Contract
//!
//! * `parse(bytes)` never panics, whatever the bytes are. It returns the meaning
//!   and, where a payload follows, the length of the header.
//! * `emit(&mut bytes)` writes a header whose length is `header_len()` (or the
//!   module's `LEN`). **It panics if the buffer is shorter**: that is a mistake of
//!   the caller, not of a peer.
//! * `parse(emit(x)) == x` for every `x` that can be written; a file says where
//!   a field's type can hold more than the wire (`fragment_offset`).
//! * Nothing here allocates in parsing or emitting.
//!
//! # What this crate refuses to do
//!
//! It has no state and takes no decision: whether a checksum is verified, whether
//! an option is acceptable on a SYN, or whether a packet is answered belongs to
//! the protocol. `parse` only refuses bytes that have no meaning.

#![forbid(unsafe_code)]

pub mod arp;
mod bytes;
pub mod checksum;
pub mod dhcp;
mod error;
pub mod ethernet;
#[doc(hidden)]
pub mod fuzzing;
pub mod icmpv4;
pub mod icmpv6;
pub mod igmp;
pub mod ipv4;
pub mod ipv6;
mod protocol;
pub mod tcp;
pub mod udp;

pub use error::Error;
pub use protocol::Protocol;
