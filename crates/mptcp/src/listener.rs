//! What listens: a program, by way of the sockets, or the block itself.

use std::net::{IpAddr, SocketAddr};
use weft_core::StreamOptions;

/// A listener of the sockets', or the block's own.
#[derive(Clone, Debug)]
pub(crate) struct Listener {
    pub local: SocketAddr,
    /// It takes peers of IPv4, too, though its address is of IPv6.
    pub dual_stack: bool,
    pub options: StreamOptions,
    /// It is the block's own, for a port that is announced.
    pub own: bool,
}
weft_core::fields!(struct Listener { local, dual_stack, options, own });

impl Listener {
    /// Would it be asked about a SYN to this address?
    pub fn holds(&self, at: SocketAddr) -> bool {
        let any_of_family = match self.local.ip() {
            IpAddr::V4(any) => any.is_unspecified() && at.is_ipv4(),
            IpAddr::V6(any) => any.is_unspecified() && (at.is_ipv6() || self.dual_stack),
        };
        self.local.port() == at.port() && (self.local.ip() == at.ip() || any_of_family)
    }
}
