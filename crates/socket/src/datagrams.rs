//! The datagram transport's side: who holds which UDP port, and which sockets receive there.

use crate::errno::Errno;
use crate::holds;
use crate::inet6;
use crate::ports::{Ports, Rules};
use crate::registry::Registry;
use crate::socket::SocketId;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use weft_core::{Context, KeyedHasher, Rng};

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

    /// bind(2) of a socket that receives there from now on.
    pub(crate) fn bind(&mut self, sockets: &mut Registry, s: SocketId, address: &[u8], cx: &mut Context<'_>) -> Result<(), Errno> {
        inet6::bind(sockets, &mut self.ports, s, address, cx)?;
        let number = sockets.get(s)?.number;
        self.receivers.entry(number).or_default().push(s);
        Ok(())
    }

    /// `inet_autobind`: a port for a socket that sends without one. EAGAIN when there is none.
    pub(crate) fn autobind(&mut self, sockets: &mut Registry, s: SocketId, cx: &mut Context<'_>) -> Result<(), Errno> {
        let ephemeral = sockets.limits.ephemeral;
        let socket = sockets.get_mut(s)?;
        if socket.number != 0 {
            return Ok(());
        }
        let address = SocketAddr::new(socket.local.ip(), 0);
        holds::take(socket, &mut self.ports, address, ephemeral, cx.rng).map_err(|_| Errno::EAGAIN)?;
        socket.local.set_port(socket.number);
        self.receivers.entry(socket.number).or_default().push(s);
        Ok(())
    }
}
