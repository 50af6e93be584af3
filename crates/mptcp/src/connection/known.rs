//! What a connection knows of addresses.

use std::net::{IpAddr, SocketAddr};
use weft_core::Instant;

/// Of a connection that a program manages: subflows beside the first, at most: `struct mptcp_info` counts them in a byte.
pub(super) const PATHS_MAX: usize = u8::MAX as usize;

/// An address of this side that the peer is told of.
#[derive(Clone, Debug)]
pub(crate) struct Announcement {
    pub id: u8,
    pub address: IpAddr,
    pub port: Option<u16>,
    /// The peer has confirmed it.
    pub echoed: bool,
    pub times: u32,
    /// When it is said again.
    pub again_at: Option<Instant>,
}
weft_core::fields!(struct Announcement { id, address, port, echoed, times, again_at });

/// An address of the peer's that may be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub id: u8,
    pub at: SocketAddr,
}
weft_core::fields!(struct Known { id, at });
