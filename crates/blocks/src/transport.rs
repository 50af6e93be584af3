//! Transports without streams.

pub mod udp;
