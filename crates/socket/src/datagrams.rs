//! The datagram transport's side: who holds which UDP port, and which sockets receive there.

use crate::errno::Errno;
use crate::holds;
use crate::inet6;
use crate::ports::{Ports, Rules};
use crate::registry::Registry;
use crate::socket::{Socket, SocketId};
use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::net::{IpAddr, SocketAddr};
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

    /// What another protocol has: ports of its own, and the same key.
    pub(crate) fn of_another_protocol(&self) -> Datagrams {
        Datagrams { ports: Ports::new(Rules::Datagram), receivers: BTreeMap::new(), hasher: self.hasher, vector: 0, vector_goes_on: false }
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

    /// `udp_lib_rehash`: a socket whose address changed is the newest of those that share it.
    pub(crate) fn rehash(&mut self, sockets: &Registry, s: SocketId, before: IpAddr, now: IpAddr) {
        let number = sockets.store.get(s).map_or(0, |socket| socket.number);
        if before != now
            && let Some(receivers) = self.receivers.get_mut(&number)
        {
            receivers.retain(|other| *other != s);
            receivers.push(s);
        }
    }

    /// Gives the port up.
    pub(crate) fn release(&mut self, sockets: &mut Registry, s: SocketId) {
        let Some(socket) = sockets.store.get_mut(s) else { return };
        let (hold, number) = (socket.hold.take(), std::mem::take(&mut socket.number));
        if let Some(hold) = hold {
            self.ports.release(hold);
        }
        if let Some(receivers) = self.receivers.get_mut(&number) {
            receivers.retain(|other| *other != s);
            if receivers.is_empty() {
                self.receivers.remove(&number);
            }
        }
    }

    /// `__udp4_lib_lookup` and `__udp6_lib_lookup`: sockets of exactly this address before those of the wildcard, among them the best score,
    /// among equals the newest — or, where they share with SO_REUSEPORT, one chosen by the four-tuple.
    pub(crate) fn find(
        &self,
        candidates: &[SocketId],
        sockets: &Registry,
        to: SocketAddr,
        from: SocketAddr,
        interface: u32,
    ) -> Option<SocketId> {
        let mut best: Option<((bool, u32), SocketId)> = None;
        let mut equals: Vec<SocketId> = Vec::new();
        for s in candidates.iter().rev() {
            let Some(socket) = sockets.store.get(*s).filter(|socket| takes(socket, to, from, interface)) else { continue };
            let score = (!socket.local.ip().is_unspecified(), score(socket, to.ip()));
            if best.is_none_or(|(most, _)| score > most) {
                best = Some((score, *s));
                equals.clear();
            }
            if best.is_some_and(|(most, _)| score == most) && socket.options.reuse_port && socket.remote.is_none() {
                equals.push(*s);
            }
        }
        if equals.len() > 1 {
            let chosen = (self.hasher.hash_one((to, from)) % equals.len() as u64) as usize;
            return equals.get(chosen).copied();
        }
        best.map(|(_, s)| s)
    }

    /// A vector of datagrams begins, unless it goes on with a large frame that filled the one before.
    pub(crate) fn begin_vector(&mut self, full: bool) {
        if !std::mem::replace(&mut self.vector_goes_on, full) {
            self.vector += 1;
        }
    }
}

/// Would this socket take a datagram with these addresses?
pub(crate) fn takes(socket: &Socket, to: SocketAddr, from: SocketAddr, interface: u32) -> bool {
    let here = match (socket.local.ip(), to.ip()) {
        // "sk->sk_family != PF_INET6" for IPv6; "ipv6_only_sock(sk)" keeps IPv4 away from `::`.
        (IpAddr::V6(own), IpAddr::V4(_)) => own.is_unspecified() && !socket.options.v6_only,
        (own @ IpAddr::V4(_), IpAddr::V4(to)) => own.is_unspecified() || own == to,
        (own @ IpAddr::V6(_), IpAddr::V6(to)) => own.is_unspecified() || own == to,
        (IpAddr::V4(_), IpAddr::V6(_)) => false,
    };
    let bound = socket.options.interface == 0 || interface == 0 || socket.options.interface == interface;
    // compute_score: "if (inet->inet_dport) …": connected to port 0 means any port of that host.
    let peer = |remote: SocketAddr| remote.ip() == from.ip() && (remote.port() == 0 || remote.port() == from.port());
    here && bound && socket.number == to.port() && socket.remote.is_none_or(peer)
}

/// `compute_score` of linux/net/ipv4/udp.c and linux/net/ipv6/udp.c.
fn score(socket: &Socket, to: IpAddr) -> u32 {
    let (peer, port) = (socket.remote.is_some(), socket.remote.is_some_and(|remote| remote.port() != 0));
    let bound = socket.options.interface != 0;
    match to {
        // "score = (sk->sk_family == PF_INET) ? 2 : 1;" and 4 for each of the others
        IpAddr::V4(_) => u32::from(!socket.is_v6()) + 1 + 4 * (u32::from(peer) + u32::from(port) + u32::from(bound)),
        IpAddr::V6(_) => u32::from(peer) + u32::from(port) + u32::from(bound),
    }
}
