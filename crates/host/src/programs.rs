//! The programs of the node: the notify supervisor on this world's event loop.

use crate::clock::Clock;
use crate::reactor::Reactor;
use crate::world::TOKEN_PROGRAM_SPACE;
use rustix::fd::OwnedFd;
use std::io;
use weft_core::control::{Message, Op, Value};
use weft_core::{Bytes, Table};
use weft_intercept::{Epoll, Errno, Poll, Readiness, Received, SocketId, SocketState, Stack, Supervisor};
use weft_node::Node;
use weft_socket::Sockets;

/// The supervisor, and what it needs of the world.
#[derive(Debug)]
pub struct Programs {
    supervisor: Supervisor,
}

/// A node's sockets and tables, lent to the supervisor for one turn.
struct Lent<'a> {
    node: &'a mut Node,
    clock: &'a Clock,
}

impl Lent<'_> {
    fn with<R>(&mut self, f: impl FnOnce(&mut Sockets, &mut weft_core::Context<'_>) -> R) -> Option<R> {
        self.node.sockets(self.clock.now(), f)
    }
    fn result<R>(&mut self, f: impl FnOnce(&mut Sockets, &mut weft_core::Context<'_>) -> Result<R, Errno>) -> Result<R, Errno> {
        // A graph without sockets block: the network subsystem is down.
        self.with(f).unwrap_or(Err(Errno::ENETDOWN))
    }
}

impl Stack for Lent<'_> {
    fn socket(&mut self, domain: i32, kind: i32, protocol: i32) -> Result<SocketId, Errno> {
        self.result(|sockets, cx| sockets.socket(domain, kind, protocol, cx))
    }
    fn bind(&mut self, s: SocketId, address: &[u8]) -> Result<(), Errno> {
        self.result(|sockets, cx| sockets.bind(s, address, cx))
    }
    fn connect(&mut self, s: SocketId, address: &[u8]) -> Result<(), Errno> {
        self.result(|sockets, cx| sockets.connect(s, address, cx))
    }
    fn listen(&mut self, s: SocketId, backlog: i32) -> Result<(), Errno> {
        self.result(|sockets, cx| sockets.listen(s, backlog, cx))
    }
    fn accept(&mut self, s: SocketId) -> Result<SocketId, Errno> {
        self.result(|sockets, cx| sockets.accept(s, cx))
    }
    fn accepted_address(&mut self, s: SocketId) -> Result<Vec<u8>, Errno> {
        self.result(|sockets, _| sockets.accepted_address(s))
    }
    fn shutdown(&mut self, s: SocketId, how: i32) -> Result<(), Errno> {
        self.result(|sockets, cx| sockets.shutdown(s, how, cx))
    }
    fn local_address(&mut self, s: SocketId) -> Result<Vec<u8>, Errno> {
        self.result(|sockets, _| sockets.local_address(s))
    }
    fn peer_address(&mut self, s: SocketId) -> Result<Vec<u8>, Errno> {
        self.result(|sockets, _| sockets.peer_address(s))
    }
    fn get_option(&mut self, s: SocketId, level: i32, name: i32, length: usize) -> Result<Vec<u8>, Errno> {
        self.result(|sockets, cx| sockets.get_option(s, level, name, length, cx))
    }
    fn set_option(&mut self, s: SocketId, level: i32, name: i32, value: &[u8]) -> Result<(), Errno> {
        self.result(|sockets, cx| sockets.set_option(s, level, name, value, cx))
    }
    fn send(&mut self, s: SocketId, data: Bytes, flags: i32, to: Option<&[u8]>, control: &[u8]) -> Result<usize, Errno> {
        self.result(|sockets, cx| sockets.send(s, data, flags, to, control, cx))
    }
    fn receive(&mut self, s: SocketId, length: usize, flags: i32) -> Result<Received, Errno> {
        self.result(|sockets, cx| sockets.receive(s, length, flags, cx))
    }
    fn ioctl(&mut self, s: SocketId, request: u64, argument: &[u8]) -> Result<Vec<u8>, Errno> {
        self.result(|sockets, cx| sockets.ioctl(s, request, argument, cx))
    }
    fn close(&mut self, s: SocketId) {
        self.with(|sockets, cx| sockets.close(s, cx));
    }
    fn readiness(&mut self, s: SocketId) -> Poll {
        self.with(|sockets, _| sockets.readiness(s)).unwrap_or(Poll::ERR)
    }
    fn take_changed(&mut self) -> Vec<SocketId> {
        self.with(|sockets, _| sockets.take_changed()).unwrap_or_default()
    }
    fn state(&mut self, s: SocketId) -> Option<SocketState> {
        self.with(|sockets, _| sockets.state(s)).flatten()
    }
    fn send_room(&mut self, s: SocketId) -> usize {
        self.with(|sockets, _| sockets.send_room(s)).unwrap_or(0)
    }
    fn receive_ready(&mut self, s: SocketId) -> usize {
        self.with(|sockets, _| sockets.receive_ready(s)).unwrap_or(0)
    }
    fn pending_error(&mut self, s: SocketId) -> Option<Errno> {
        self.with(|sockets, _| sockets.pending_error(s)).flatten()
    }
    fn table(&mut self, table: Table) -> Vec<Value> {
        match self.node.control(self.clock.now(), &Message { serial: 0, op: Op::List(table) }).result {
            Ok(Value::Array(rows)) => rows,
            _ => Vec::new(),
        }
    }
}

impl Programs {
    /// No programs yet.
    pub fn new(reactor: &Reactor) -> io::Result<Programs> {
        let supervisor = Supervisor::new(TOKEN_PROGRAM_SPACE, &mut Epoll(reactor.descriptor())).map_err(system)?;
        Ok(Programs { supervisor })
    }

    /// Takes over a program and its children.
    pub fn adopt(&mut self, listener: OwnedFd, reactor: &Reactor) -> io::Result<()> {
        self.supervisor.add_tree(listener, &mut Epoll(reactor.descriptor())).map(|_| ()).map_err(system)
    }

    /// A descriptor of a program's is ready.
    pub fn ready(&mut self, token: u64, flags: u32, node: &mut Node, clock: &Clock, reactor: &Reactor) {
        self.supervisor.on_event(token, Readiness::from_epoll(flags), &mut Lent { node, clock }, &mut Epoll(reactor.descriptor()));
    }

    /// Moves what the node has for its programs.
    pub fn pump(&mut self, node: &mut Node, clock: &Clock, reactor: &Reactor) {
        self.supervisor.after_stack_ran(&mut Lent { node, clock }, &mut Epoll(reactor.descriptor()));
    }

    /// Sockets that programs still hold.
    pub fn stand_ins(&self) -> usize {
        self.supervisor.stand_ins()
    }

    /// The table of intercepted calls, and what was asked for in vain.
    pub fn calls(&self) -> Value {
        let calls = self.supervisor.calls();
        let mut rows: Vec<Value> = calls.rows().iter().filter_map(|row| serde_json::to_value(row).ok()).collect();
        rows.extend(calls.unsupported_rows().iter().map(|row| serde_json::json!({"call": format!("unsupported: {}", row.request), "seen": row.count, "refused": row.count, "errno": row.errno})));
        rows.into()
    }
}

fn system(errno: Errno) -> io::Error {
    io::Error::from_raw_os_error(errno.0)
}
