//! IP and what belongs to it: address resolution, neighbour discovery, IPv4, IPv6, ICMP, fragments.

pub mod arp;
pub mod icmp4;
pub mod icmp6;
pub mod ip4;
pub mod ip6;
mod limit;
pub mod nd;
mod neighbour;
pub mod reassembly;
