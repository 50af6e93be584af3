//! Below IP: the node's interfaces, Ethernet framing, and the loopback.

pub mod ether;
pub mod interfaces;
pub mod loopback;
