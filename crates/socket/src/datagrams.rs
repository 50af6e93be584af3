//! The datagram transport's side: who holds which UDP port, and which sockets receive there.

use crate::ports::{Ports, Rules};
use crate::socket::SocketId;
use std::collections::BTreeMap;
use weft_core::{KeyedHasher, Rng};

/// What is known of UDP beside the sockets themselves.
#[derive(Debug)]
pub(crate) struct Datagrams {
    pub ports: Ports,
    /// Datagram sockets by the port they hold, oldest first.
    pub receivers: BTreeMap<u16, Vec<SocketId>>,
    /// Key for choosing among SO_REUSEPORT sockets.
    pub hasher: KeyedHasher,
    /// Counts vectors of datagrams.
    pub vector: u64,
    /// The last one was full: what comes next may belong to it.
    pub vector_goes_on: bool,
}

impl Datagrams {
    pub(crate) fn new(rng: &mut Rng) -> Datagrams {
        Datagrams {
            ports: Ports::new(Rules::Datagram),
            receivers: BTreeMap::new(),
            hasher: KeyedHasher::new(rng),
            vector: 0,
            vector_goes_on: false,
        }
    }
}
