//! IP and what belongs to it: address resolution, IPv4, IPv6, ICMP.

pub mod arp;
pub mod icmp4;
pub mod icmp6;
pub mod ip4;
pub mod ip6;
mod limit;
pub mod reassembly;
