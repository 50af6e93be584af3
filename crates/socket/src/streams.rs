//! The stream transport's side: who holds which TCP port, and every flow with the socket that it belongs to.

use crate::ports::{HoldId, Ports, Rules};
use crate::socket::SocketId;
use std::net::SocketAddr;
use weft_core::{FlowId, Instant, KeyedHasher, Map, Rng};

/// A flow that some socket opened, or whose socket is gone.
#[derive(Debug)]
pub(crate) struct Flow {
    pub owner: Option<SocketId>,
    /// The port, when the socket is gone.
    pub hold: Option<HoldId>,
    pub local: SocketAddr,
    pub remote: Option<SocketAddr>,
    /// Only TIME-WAIT is left, since then.
    pub time_wait: Option<Instant>,
}
weft_core::fields!(struct Flow { owner, hold, local, remote, time_wait });

/// What is known of streams beside the sockets themselves.
#[derive(Debug)]
pub(crate) struct Streams {
    pub ports: Ports,
    pub flows: Map<FlowId, Flow>,
    pub next_flow: u64,
    pub next_call: u64,
    /// TCP's connections hold as much memory as they may.
    pub short_of_memory: bool,
    /// There may be a listener that the transport has not heard of, or has forgotten.
    pub unheard: bool,
}

impl Streams {
    pub(crate) fn new(rng: &mut Rng) -> Streams {
        Streams {
            ports: Ports::new(Rules::Stream),
            flows: Map::with_hasher(KeyedHasher::new(rng)),
            // Flows of an earlier block of this kind are not taken for ours.
            next_flow: (u64::from(rng.u32()) & 0xf_ffff) << 32 | 1,
            next_call: 1,
            short_of_memory: false,
            unheard: false,
        }
    }
}
