//! IP and what belongs to it: address resolution, IPv4, ICMP.

pub mod arp;
pub mod icmp4;
pub mod igmp;
pub mod ip4;
mod membership;
pub mod mld;
pub mod nd;
mod neighbour;
pub mod reassembly;
