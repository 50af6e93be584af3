//! IP and what belongs to it: address resolution, neighbour discovery, IPv4, IPv6, ICMP, fragments.

pub mod arp;
pub mod dhcp;
mod hops;
pub mod icmp4;
pub mod icmp6;
pub mod igmp;
pub mod ip4;
pub mod ip6;
mod limit;
mod membership;
pub mod mld;
pub mod nd;
mod neighbour;
pub mod reassembly;
mod redirects;
mod request;
mod routes;
mod rules;
