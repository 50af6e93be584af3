//! IP and what belongs to it: address resolution, IPv4, ICMP.

pub mod arp;
pub mod icmp4;
pub mod ip4;
pub mod nd;
mod neighbour;
pub mod reassembly;
