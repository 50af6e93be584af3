//! One published connection: a client's socket on the host, and the node's socket that it leads to.

use super::{CHUNK_BYTES, Counts, connect, domain};
use crate::reactor::{Interest, Reactor};
use rustix::net::sockopt;
use std::collections::VecDeque;
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;
use weft_core::Bytes;
use weft_intercept::{Errno, SocketId, SocketState, Stack};
use weft_socket::abi;

/// Rounds of one pump before others get their turn.
const ROUNDS_MAX: usize = 16;

/// How a connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// Both directions were closed in order.
    Finished,
    /// The node's connection could not be made.
    Failed,
    /// The node reset it.
    NodeReset,
    /// The client reset it.
    ClientReset,
}

pub(super) struct Connection {
    client: TcpStream,
    socket: SocketId,
    rule: usize,
    /// Further addresses of the node to try.
    targets: VecDeque<SocketAddr>,
    connected: bool,
    /// Read from the client, not taken by the node yet.
    to_node: Bytes,
    /// Taken from the node, not by the client yet.
    to_host: VecDeque<Bytes>,
    /// The node has no room for what the client sends.
    starved: bool,
    /// The client has finished; the node knows it.
    client_ended: bool,
    node_told: bool,
    /// The node has finished; the client knows it.
    node_ended: bool,
    client_told: bool,
    /// There may be more to move at once: others got their turn.
    unfinished: bool,
    /// What the reactor waits for; none: the client's descriptor is not in it any more.
    watched: Option<Interest>,
}

impl Connection {
    /// Leads a client to the first address that a connection can be begun to.
    pub(super) fn open(client: TcpStream, rule: usize, targets: Vec<SocketAddr>, stack: &mut dyn Stack) -> Option<Connection> {
        client.set_nonblocking(true).ok()?;
        // Chunks are passed on as they come.
        let _ = client.set_nodelay(true);
        let mut targets = VecDeque::from(targets);
        let socket = begin(&mut targets, stack)?;
        Some(Connection {
            client,
            socket,
            rule,
            targets,
            connected: false,
            to_node: Bytes::new(),
            to_host: VecDeque::new(),
            starved: false,
            client_ended: false,
            node_told: false,
            node_ended: false,
            client_told: false,
            unfinished: false,
            watched: Some(Interest::READ),
        })
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.client
    }
    pub(super) fn socket(&self) -> SocketId {
        self.socket
    }
    pub(super) fn rule(&self) -> usize {
        self.rule
    }

    /// Has the client reset the connection? Asked when its descriptor reports an error or a hang-up, which a socket that is not read does not
    /// tell otherwise.
    pub(super) fn client_has_failed(&self) -> bool {
        matches!(self.client.take_error(), Ok(Some(_)) | Err(_))
    }

    /// Must it be pumped again without waiting for anything?
    pub(super) fn is_unfinished(&self) -> bool {
        self.unfinished
    }

    /// Moves what can move.
    pub(super) fn pump(&mut self, counts: &mut Counts, stack: &mut dyn Stack) -> Option<End> {
        if !self.connected
            && let Some(end) = self.finish_connecting(stack)
        {
            return end;
        }
        self.unfinished = true;
        for _ in 0..ROUNDS_MAX {
            let moved = match self.client_to_node(counts, stack) {
                Ok(moved) => moved,
                Err(end) => return Some(end),
            };
            match self.node_to_client(counts, stack) {
                Ok(more) if !moved && !more => {
                    self.unfinished = false;
                    break;
                }
                Ok(_) => {}
                Err(end) => return Some(end),
            }
        }
        (self.node_told && self.client_told).then_some(End::Finished)
    }

    /// None: connected. Otherwise how it ended, or that it has not ended yet.
    fn finish_connecting(&mut self, stack: &mut dyn Stack) -> Option<Option<End>> {
        match stack.state(self.socket) {
            Some(SocketState::Connecting) => return Some(None),
            Some(SocketState::Connected | SocketState::PeerClosed) => {
                let no_delay = 1i32.to_ne_bytes();
                let _ = stack.set_option(self.socket, abi::IPPROTO_TCP, abi::TCP_NODELAY, &no_delay);
                self.connected = true;
                return None;
            }
            _ => {}
        }
        // Refused there: perhaps the program listens on another address.
        stack.close(self.socket);
        match begin(&mut self.targets, stack) {
            Some(socket) => {
                self.socket = socket;
                Some(None)
            }
            None => Some(Some(End::Failed)),
        }
    }

    fn client_to_node(&mut self, counts: &mut Counts, stack: &mut dyn Stack) -> Result<bool, End> {
        if self.to_node.is_empty() && !self.client_ended {
            let room = stack.send_room(self.socket).min(CHUNK_BYTES);
            self.starved = room == 0;
            if self.starved {
                return Ok(false);
            }
            let mut buffer = vec![0; room];
            match self.client.read(&mut buffer) {
                Ok(0) => self.client_ended = true,
                Ok(bytes) => {
                    buffer.truncate(bytes);
                    self.to_node = Bytes::from(buffer);
                }
                Err(error) if again(&error) => return Ok(false),
                Err(_) => return Err(End::ClientReset),
            }
        }
        if !self.to_node.is_empty() {
            match stack.send(self.socket, self.to_node.clone(), abi::MSG_DONTWAIT, None, &[]) {
                Ok(taken) => {
                    counts.to_node_bytes += taken as u64;
                    self.to_node = self.to_node.slice(taken.min(self.to_node.len())..);
                    return Ok(taken > 0);
                }
                Err(Errno::EAGAIN) => return Ok(false),
                // The node does not read any more: what it still has for the client comes first, then the reset.
                Err(_) => return Err(End::NodeReset),
            }
        }
        if self.client_ended && !self.node_told {
            self.node_told = true;
            let _ = stack.shutdown(self.socket, abi::SHUT_WR);
        }
        Ok(false)
    }

    fn node_to_client(&mut self, counts: &mut Counts, stack: &mut dyn Stack) -> Result<bool, End> {
        if self.to_host.is_empty() && !self.node_ended {
            match stack.receive(self.socket, CHUNK_BYTES, abi::MSG_DONTWAIT) {
                Ok(received) if received.data.iter().all(Bytes::is_empty) => self.node_ended = true,
                Ok(received) => self.to_host.extend(received.data.into_iter().filter(|chunk| !chunk.is_empty())),
                Err(Errno::EAGAIN) => return Ok(false),
                Err(_) => return Err(End::NodeReset),
            }
        }
        let mut moved = false;
        while !self.to_host.is_empty() {
            let parts: Vec<IoSlice<'_>> = self.to_host.iter().map(|chunk| IoSlice::new(chunk)).collect();
            match self.client.write_vectored(&parts) {
                Ok(bytes) => {
                    counts.to_host_bytes += bytes as u64;
                    moved = true;
                    self.written(bytes);
                }
                Err(error) if again(&error) => return Ok(moved),
                Err(_) => return Err(End::ClientReset),
            }
        }
        if self.node_ended && !self.client_told {
            self.client_told = true;
            let _ = self.client.shutdown(Shutdown::Write);
        }
        Ok(moved)
    }

    fn written(&mut self, mut bytes: usize) {
        while let Some(first) = self.to_host.front_mut() {
            if bytes < first.len() {
                *first = first.slice(bytes..);
                return;
            }
            bytes -= first.len();
            self.to_host.pop_front();
        }
    }

    /// Waits for what the client is needed for, and for nothing else: a descriptor that is ready for what nobody wants would keep us awake.
    pub(super) fn watch(&mut self, reactor: &Reactor, token: u64) {
        let read = !self.client_ended && !self.starved && self.to_node.is_empty();
        let wanted = Interest { read, write: !self.to_host.is_empty() };
        // Once both sides of it are shut down its hang-up would be reported for ever, and while the node connects nothing helps.
        let wanted = (self.connected && !(self.client_ended && self.client_told)).then_some(wanted);
        if wanted == self.watched {
            return;
        }
        let done = match (self.watched, wanted) {
            (Some(_), Some(interest)) => reactor.modify(&self.client, token, interest),
            (None, Some(interest)) => reactor.add(&self.client, token, interest),
            (_, None) => reactor.remove(&self.client),
        };
        if done.is_ok() {
            self.watched = wanted;
        }
    }

    /// Both directions have ended in order.
    pub(super) fn close_both(self, reactor: &Reactor, stack: &mut dyn Stack) {
        if self.watched.is_some() {
            let _ = reactor.remove(&self.client);
        }
        stack.close(self.socket);
    }

    /// Gives up the node's side.
    pub(super) fn close(&self, stack: &mut dyn Stack) {
        stack.close(self.socket);
    }

    /// The node ends: its data has not come to its end, so the client gets a reset, unless it was told an end that was true.
    pub(super) fn end(&self) {
        if !self.client_told {
            let _ = sockopt::set_socket_linger(&self.client, Some(Duration::ZERO));
        }
    }

    /// Gives up the node's side with a reset.
    pub(super) fn reset_node(&self, stack: &mut dyn Stack) {
        // struct linger: on, no time.
        let linger = [1i32.to_ne_bytes(), 0i32.to_ne_bytes()].concat();
        let _ = stack.set_option(self.socket, abi::SOL_SOCKET, abi::SO_LINGER, &linger);
        stack.close(self.socket);
    }

    /// Gives the client what came before, then a reset.
    pub(super) fn reset_client(mut self, reactor: &Reactor) {
        if self.watched.is_some() {
            let _ = reactor.remove(&self.client);
        }
        let left: Vec<u8> = self.to_host.drain(..).flatten().collect();
        let _ = self.client.write(&left);
        let _ = sockopt::set_socket_linger(&self.client, Some(Duration::ZERO));
    }
}

/// Begins a connection to the next address that takes one.
fn begin(targets: &mut VecDeque<SocketAddr>, stack: &mut dyn Stack) -> Option<SocketId> {
    while let Some(target) = targets.pop_front() {
        // A node without IPv6 says so here.
        let Ok(socket) = stack.socket(domain(&target), abi::SOCK_STREAM, 0) else { continue };
        if connect(socket, target, stack) {
            return Some(socket);
        }
        stack.close(socket);
    }
    None
}

fn again(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
