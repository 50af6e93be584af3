//! A published UDP port: each sender gets a socket of the node's of its own, so that answers find their way back.

use super::{CHUNK_BYTES, Counts, DATAGRAM_FLOWS_MAX, DATAGRAM_IDLE_MAX, connect, domain, targets};
use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use weft_core::{Bytes, Instant};
use weft_intercept::{Errno, SocketId, Stack};
use weft_socket::abi;

/// Datagrams taken before others get their turn.
const DATAGRAMS_MAX: usize = 256;

pub(super) struct Datagrams {
    socket: UdpSocket,
    by_client: BTreeMap<SocketAddr, Flow>,
    by_socket: BTreeMap<SocketId, SocketAddr>,
    buffer: Vec<u8>,
}

struct Flow {
    socket: SocketId,
    used: Instant,
    /// Where it leads, and where next when nobody is there.
    targets: Vec<SocketAddr>,
    /// The first datagram, to be sent again to the next address when the first refuses.
    first: Option<Bytes>,
}

impl Datagrams {
    pub(super) fn new(socket: UdpSocket) -> Datagrams {
        Datagrams { socket, by_client: BTreeMap::new(), by_socket: BTreeMap::new(), buffer: vec![0; CHUNK_BYTES] }
    }

    pub(super) fn flows(&self) -> usize {
        self.by_client.len()
    }

    /// Takes in what clients sent.
    pub(super) fn receive(&mut self, now: Instant, port: u16, counts: &mut Counts, stack: &mut dyn Stack) {
        for _ in 0..DATAGRAMS_MAX {
            // An error here belongs to an answer that could not be delivered.
            let (bytes, client) = match self.socket.recv_from(&mut self.buffer) {
                Ok(received) => received,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(_) => continue,
            };
            let data = Bytes::copy_from_slice(&self.buffer[..bytes]);
            if !self.by_client.contains_key(&client) && !self.open(now, client, port, counts, stack) {
                counts.failed += 1;
                continue;
            }
            let Some(flow) = self.by_client.get_mut(&client) else { continue };
            flow.used = now;
            let socket = flow.socket;
            if flow.first.is_none() && flow.targets.len() > 1 {
                flow.first = Some(data.clone());
            }
            match stack.send(socket, data, abi::MSG_DONTWAIT, None, &[]) {
                Ok(taken) => counts.to_node_bytes += taken as u64,
                Err(Errno::EAGAIN) => {}
                Err(_) => self.try_next(client, counts, stack),
            }
        }
    }

    fn open(&mut self, now: Instant, client: SocketAddr, port: u16, counts: &mut Counts, stack: &mut dyn Stack) -> bool {
        if self.by_client.len() >= DATAGRAM_FLOWS_MAX {
            counts.full += 1;
            let oldest = self.by_client.iter().min_by_key(|(_, flow)| flow.used).map(|(client, _)| *client);
            oldest.into_iter().for_each(|client| self.close(client, stack));
        }
        let mut targets = targets(port, client.ip(), stack);
        let Some(socket) = begin(&mut targets, stack) else { return false };
        counts.opened += 1;
        self.by_socket.insert(socket, client);
        self.by_client.insert(client, Flow { socket, used: now, targets, first: None });
        true
    }

    /// Nobody is there: the next address of the node gets the first datagram; without one the sender is forgotten.
    fn try_next(&mut self, client: SocketAddr, counts: &mut Counts, stack: &mut dyn Stack) {
        let Some(flow) = self.by_client.get_mut(&client) else { return };
        stack.close(flow.socket);
        self.by_socket.remove(&flow.socket);
        flow.targets.remove(0);
        let next = begin(&mut flow.targets, stack);
        match (next, &flow.first) {
            (Some(socket), Some(first)) => {
                flow.socket = socket;
                self.by_socket.insert(socket, client);
                let _ = stack.send(socket, first.clone(), abi::MSG_DONTWAIT, None, &[]);
            }
            (next, _) => {
                next.into_iter().for_each(|socket| stack.close(socket));
                counts.failed += 1;
                self.by_client.remove(&client);
            }
        }
    }

    /// Carries the node's answers back. False: the socket is not one of these.
    pub(super) fn answer(&mut self, now: Instant, socket: SocketId, counts: &mut Counts, stack: &mut dyn Stack) -> bool {
        let Some(client) = self.by_socket.get(&socket).copied() else { return false };
        loop {
            match stack.receive(socket, CHUNK_BYTES, abi::MSG_DONTWAIT) {
                Ok(received) => {
                    let bytes: Vec<u8> = received.data.iter().flatten().copied().collect();
                    counts.to_host_bytes += bytes.len() as u64;
                    // Lost as any datagram is when the host has no room.
                    let _ = self.socket.send_to(&bytes, client);
                    if let Some(flow) = self.by_client.get_mut(&client) {
                        flow.used = now;
                        // Somebody is there.
                        flow.targets.truncate(1);
                        flow.first = None;
                    }
                }
                Err(Errno::EAGAIN) => return true,
                Err(_) => {
                    self.try_next(client, counts, stack);
                    return true;
                }
            }
        }
    }

    /// Forgets who is silent.
    pub(super) fn sweep(&mut self, now: Instant, stack: &mut dyn Stack) {
        let silent: Vec<SocketAddr> =
            self.by_client.iter().filter(|(_, flow)| now.since(flow.used) >= DATAGRAM_IDLE_MAX).map(|(client, _)| *client).collect();
        silent.into_iter().for_each(|client| self.close(client, stack));
    }

    /// Forgets all; the node's sockets are gone already.
    pub(super) fn forget(&mut self) {
        self.by_client.clear();
        self.by_socket.clear();
    }

    fn close(&mut self, client: SocketAddr, stack: &mut dyn Stack) {
        if let Some(flow) = self.by_client.remove(&client) {
            self.by_socket.remove(&flow.socket);
            stack.close(flow.socket);
        }
    }
}

/// A socket of the node that is connected to the first address it takes; those before it are removed.
fn begin(targets: &mut Vec<SocketAddr>, stack: &mut dyn Stack) -> Option<SocketId> {
    while let Some(target) = targets.first().copied() {
        if let Ok(socket) = stack.socket(domain(&target), abi::SOCK_DGRAM, 0) {
            if connect(socket, target, stack) {
                return Some(socket);
            }
            stack.close(socket);
        }
        targets.remove(0);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::programs::Lent;

    #[test]
    fn senders_are_bounded_and_the_one_that_is_silent_longest_goes_first() {
        let (mut node, clock) = (super::super::tests::node(), Clock::default());
        let mut stack = Lent { node: &mut node, clock: &clock, others: None };
        let mut datagrams = Datagrams::new(UdpSocket::bind("127.0.0.1:0").unwrap());
        let mut counts = Counts::default();
        let client = |number: usize| SocketAddr::from(([127, 0, 0, 1], 1000 + number as u16));
        for number in 0..DATAGRAM_FLOWS_MAX + 5 {
            let now = Instant::from_millis(number as u64);
            assert!(datagrams.open(now, client(number), 53, &mut counts, &mut stack));
        }
        assert_eq!((datagrams.flows(), counts.full, counts.opened), (DATAGRAM_FLOWS_MAX, 5, DATAGRAM_FLOWS_MAX as u64 + 5));
        assert!(!datagrams.by_client.contains_key(&client(4)) && datagrams.by_client.contains_key(&client(5)));
        assert_eq!(datagrams.by_socket.len(), DATAGRAM_FLOWS_MAX);
        // Exactly those that have been silent for so long.
        datagrams.sweep(Instant::from_millis(60_000 + 14), &mut stack);
        assert_eq!(datagrams.flows(), DATAGRAM_FLOWS_MAX - 10);
    }
}
