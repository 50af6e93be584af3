//! What every adapter needs of a node: the socket face without its context, and the tables that answer questions about interfaces.
//!
//! [`Stack`] exists so that the machinery can be tested against a model that misbehaves on purpose; the host lends it a node's sockets
//! through [`Lend`], for which `Stack` is implemented once and for all.

use bytes::Bytes;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use weft_core::engine::Alert;
use weft_core::{Answer, Block as _, Context, ControlError, Instant, Op, Query, Refused, Table};

pub use weft_socket::abi;
pub use weft_socket::{Buffers, Errno, Poll, Preview, Received, RingMemory, SocketId, SocketState, Sockets};

/// Makes memory of so many bytes for rings.
pub type MakeRing<'a> = dyn FnMut(u64) -> Result<Arc<dyn RingMemory>, Errno> + 'a;

/// Lends a node's sockets for one call. The host implements it; afterwards it runs the node (frames that the call produced leave) and
/// tells the supervisor with `after_stack_ran`.
pub trait Lend {
    /// Calls `f` with the sockets of the node and the context of their block, at the present time. None: the node has no sockets (any more).
    fn sockets<R>(&mut self, f: impl FnOnce(&mut Sockets, &mut Context<'_>) -> R) -> Option<R>;

    /// The same for what needs no context: nothing can follow from it.
    fn look<R>(&mut self, f: impl FnOnce(&mut Sockets) -> R) -> Option<R> {
        self.sockets(|sockets, _| f(sockets))
    }

    /// Answers a control message, as programs send them by netlink.
    ///
    /// # Errors
    /// The block's refusal; that of a node that takes none from programs.
    fn control(&mut self, op: Op) -> Result<Value, ControlError> {
        let _ = op;
        Err(ControlError::World { why: Refused::unsupported("this node takes no changes from its programs") })
    }

    /// What blocks have alerted of since the last call, where nobody else hands it on.
    fn take_alerts(&mut self) -> Vec<Alert> {
        Vec::new()
    }

    /// A socket has changed that belongs to no program: somebody else on this node waits for it, perhaps.
    fn not_a_programs(&mut self, s: SocketId) {
        let _ = s;
    }

    /// Runs the node: what a call has sent to the node itself arrives, and so does what that is answered with.
    fn run(&mut self) {}
}

/// A node's sockets, as [`Sockets`] offers them (its documentation says what each returns), and its tables.
#[allow(missing_docs, clippy::missing_errors_doc)] // one method for each of `Sockets`, documented there
pub trait Stack {
    fn socket(&mut self, domain: i32, kind: i32, protocol: i32) -> Result<SocketId, Errno>;
    fn bind(&mut self, s: SocketId, address: &[u8]) -> Result<(), Errno>;
    fn connect(&mut self, s: SocketId, address: &[u8]) -> Result<(), Errno>;
    fn listen(&mut self, s: SocketId, backlog: i32) -> Result<(), Errno>;
    fn accept(&mut self, s: SocketId) -> Result<SocketId, Errno>;
    fn accepted_address(&mut self, s: SocketId) -> Result<Vec<u8>, Errno>;
    fn shutdown(&mut self, s: SocketId, how: i32) -> Result<(), Errno>;
    fn local_address(&mut self, s: SocketId) -> Result<Vec<u8>, Errno>;
    fn peer_address(&mut self, s: SocketId) -> Result<Vec<u8>, Errno>;
    fn get_option(&mut self, s: SocketId, level: i32, name: i32, length: i32) -> Result<Vec<u8>, Errno> {
        self.get_option_asked(s, level, name, &[], length)
    }
    /// See [`Sockets::get_option_asked`].
    ///
    /// # Errors
    /// Those of the model.
    fn get_option_asked(&mut self, s: SocketId, level: i32, name: i32, asked: &[u8], length: i32) -> Result<Vec<u8>, Errno>;
    fn set_option(&mut self, s: SocketId, level: i32, name: i32, value: &[u8]) -> Result<(), Errno>;
    fn option_bytes(&mut self, s: SocketId, level: i32, name: i32, length: usize) -> usize;
    fn send(&mut self, s: SocketId, data: Bytes, flags: i32, to: Option<&[u8]>, control: &[u8]) -> Result<usize, Errno>;
    fn receive(&mut self, s: SocketId, length: usize, flags: i32) -> Result<Received, Errno>;
    fn ioctl(&mut self, s: SocketId, request: u64, argument: &[u8]) -> Result<Vec<u8>, Errno>;
    /// See [`Sockets::map_ring`].
    ///
    /// # Errors
    /// Those of the model.
    fn map_ring(&mut self, s: SocketId, bytes: u64, make: &mut MakeRing<'_>) -> Result<Arc<dyn RingMemory>, Errno> {
        let _ = (s, bytes, make);
        Err(Errno::ENODEV)
    }
    /// See [`Sockets::ring_memory`].
    fn ring_memory(&mut self, s: SocketId) -> Option<Arc<dyn RingMemory>> {
        let _ = s;
        None
    }
    fn close(&mut self, s: SocketId);
    fn readiness(&mut self, s: SocketId) -> Poll;
    fn take_changed(&mut self) -> Vec<SocketId>;
    /// See [`weft_socket::Sockets::take_wakes`].
    fn take_wakes(&mut self, s: SocketId) -> Poll;
    /// See [`weft_socket::Sockets::tell_room`].
    fn tell_room(&mut self, s: SocketId);
    /// See [`weft_socket::Sockets::set_owner`].
    fn set_owner(&mut self, s: SocketId, user: u32);
    fn state(&mut self, s: SocketId) -> Option<SocketState>;
    fn send_room(&mut self, s: SocketId) -> usize;
    fn write_room(&mut self, s: SocketId) -> usize;
    fn receive_ready(&mut self, s: SocketId) -> usize;
    /// See [`weft_socket::Sockets::receive_low_water`].
    fn receive_low_water(&mut self, s: SocketId) -> u64;
    fn pending_error(&mut self, s: SocketId) -> Option<Errno>;
    fn is_stream(&mut self, s: SocketId) -> bool;
    fn timeouts(&mut self, s: SocketId) -> (Option<Duration>, Option<Duration>);
    /// What is sure about a socket; see [`weft_socket::Preview`].
    fn preview(&mut self, s: SocketId, look: &mut dyn FnMut(Option<Preview<'_>>));
    /// Does what is sent to this address, or to the peer, leave the node for one other?
    fn is_elsewhere(&mut self, s: SocketId, to: Option<&[u8]>) -> bool;
    /// See [`weft_socket::Sockets::buffers`].
    fn buffers(&mut self) -> Buffers;
    /// The rows of a table, one JSON object each; empty when the node has no such table.
    fn table(&mut self, table: Table) -> Vec<Value>;
    /// Asks the owner of a table.
    fn ask(&mut self, table: Table, query: &Query) -> Answer;
    /// The node's time.
    fn now(&mut self) -> Instant;
    /// See [`Lend::control`].
    fn control(&mut self, op: Op) -> Result<Value, ControlError> {
        let _ = op;
        Err(ControlError::World { why: Refused::unsupported("this node takes no changes from its programs") })
    }
    /// See [`Lend::take_alerts`].
    fn take_alerts(&mut self) -> Vec<Alert> {
        Vec::new()
    }
    /// See [`Lend::not_a_programs`].
    fn not_a_programs(&mut self, s: SocketId) {
        let _ = s;
    }
    /// See [`Lend::run`].
    fn run(&mut self) {}
}

impl<L: Lend> Stack for L {
    fn socket(&mut self, domain: i32, kind: i32, protocol: i32) -> Result<SocketId, Errno> {
        self.sockets(|sockets, cx| sockets.socket(domain, kind, protocol, cx)).unwrap_or(Err(Errno::ENETDOWN))
    }
    fn bind(&mut self, s: SocketId, address: &[u8]) -> Result<(), Errno> {
        self.sockets(|sockets, cx| sockets.bind(s, address, cx)).unwrap_or(Err(Errno::ENETDOWN))
    }
    fn connect(&mut self, s: SocketId, address: &[u8]) -> Result<(), Errno> {
        self.sockets(|sockets, cx| sockets.connect(s, address, cx)).unwrap_or(Err(Errno::ENETDOWN))
    }
    fn listen(&mut self, s: SocketId, backlog: i32) -> Result<(), Errno> {
        self.sockets(|sockets, cx| sockets.listen(s, backlog, cx)).unwrap_or(Err(Errno::ENETDOWN))
    }
    fn accept(&mut self, s: SocketId) -> Result<SocketId, Errno> {
        self.sockets(|sockets, cx| sockets.accept(s, cx)).unwrap_or(Err(Errno::ENETDOWN))
    }
    fn accepted_address(&mut self, s: SocketId) -> Result<Vec<u8>, Errno> {
        self.look(|sockets| sockets.accepted_address(s)).unwrap_or(Err(Errno::ENETDOWN))
    }
    fn shutdown(&mut self, s: SocketId, how: i32) -> Result<(), Errno> {
        self.sockets(|sockets, cx| sockets.shutdown(s, how, cx)).unwrap_or(Err(Errno::ENETDOWN))
    }
    fn local_address(&mut self, s: SocketId) -> Result<Vec<u8>, Errno> {
        self.look(|sockets| sockets.local_address(s)).unwrap_or(Err(Errno::ENETDOWN))
    }
    fn peer_address(&mut self, s: SocketId) -> Result<Vec<u8>, Errno> {
        self.look(|sockets| sockets.peer_address(s)).unwrap_or(Err(Errno::ENETDOWN))
    }
    fn get_option_asked(&mut self, s: SocketId, level: i32, name: i32, asked: &[u8], length: i32) -> Result<Vec<u8>, Errno> {
        self.sockets(|sockets, cx| sockets.get_option_asked(s, level, name, asked, length, cx)).unwrap_or(Err(Errno::ENETDOWN))
    }
    fn option_bytes(&mut self, s: SocketId, level: i32, name: i32, length: usize) -> usize {
        self.look(|sockets| sockets.option_bytes(s, level, name, length)).unwrap_or(0)
    }
    fn set_option(&mut self, s: SocketId, level: i32, name: i32, value: &[u8]) -> Result<(), Errno> {
        self.sockets(|sockets, cx| sockets.set_option(s, level, name, value, cx)).unwrap_or(Err(Errno::ENETDOWN))
    }
    fn send(&mut self, s: SocketId, data: Bytes, flags: i32, to: Option<&[u8]>, control: &[u8]) -> Result<usize, Errno> {
        self.sockets(|sockets, cx| sockets.send(s, data, flags, to, control, cx)).unwrap_or(Err(Errno::ENETDOWN))
    }
    fn receive(&mut self, s: SocketId, length: usize, flags: i32) -> Result<Received, Errno> {
        self.sockets(|sockets, cx| sockets.receive(s, length, flags, cx)).unwrap_or(Err(Errno::ENETDOWN))
    }
    fn ioctl(&mut self, s: SocketId, request: u64, argument: &[u8]) -> Result<Vec<u8>, Errno> {
        self.sockets(|sockets, cx| sockets.ioctl(s, request, argument, cx)).unwrap_or(Err(Errno::ENETDOWN))
    }
    fn map_ring(&mut self, s: SocketId, bytes: u64, make: &mut MakeRing<'_>) -> Result<Arc<dyn RingMemory>, Errno> {
        self.sockets(|sockets, cx| sockets.map_ring(s, bytes, make, cx)).unwrap_or(Err(Errno::ENETDOWN))
    }
    fn ring_memory(&mut self, s: SocketId) -> Option<Arc<dyn RingMemory>> {
        self.look(|sockets| sockets.ring_memory(s)).flatten()
    }
    fn close(&mut self, s: SocketId) {
        self.sockets(|sockets, cx| sockets.close(s, cx));
    }
    fn readiness(&mut self, s: SocketId) -> Poll {
        self.look(|sockets| sockets.readiness(s)).unwrap_or(Poll::ERR)
    }
    fn take_changed(&mut self) -> Vec<SocketId> {
        self.look(|sockets| sockets.take_changed()).unwrap_or_default()
    }
    fn take_wakes(&mut self, s: SocketId) -> Poll {
        self.look(|sockets| sockets.take_wakes(s)).unwrap_or(Poll::ALL)
    }
    fn tell_room(&mut self, s: SocketId) {
        self.look(|sockets| sockets.tell_room(s));
    }
    fn set_owner(&mut self, s: SocketId, user: u32) {
        self.look(|sockets| sockets.set_owner(s, user));
    }
    fn state(&mut self, s: SocketId) -> Option<SocketState> {
        self.look(|sockets| sockets.state(s)).flatten()
    }
    fn send_room(&mut self, s: SocketId) -> usize {
        self.look(|sockets| sockets.send_room(s)).unwrap_or_default()
    }
    fn write_room(&mut self, s: SocketId) -> usize {
        self.sockets(|sockets, cx| sockets.write_room(s, cx)).unwrap_or_default()
    }
    fn receive_low_water(&mut self, s: SocketId) -> u64 {
        self.look(|sockets| sockets.receive_low_water(s)).unwrap_or_default()
    }
    fn receive_ready(&mut self, s: SocketId) -> usize {
        self.look(|sockets| sockets.receive_ready(s)).unwrap_or_default()
    }
    fn pending_error(&mut self, s: SocketId) -> Option<Errno> {
        self.look(|sockets| sockets.pending_error(s)).flatten()
    }
    fn is_stream(&mut self, s: SocketId) -> bool {
        self.look(|sockets| sockets.is_stream(s)).unwrap_or_default()
    }
    fn timeouts(&mut self, s: SocketId) -> (Option<Duration>, Option<Duration>) {
        self.look(|sockets| sockets.timeouts(s)).unwrap_or_default()
    }
    fn preview(&mut self, s: SocketId, look: &mut dyn FnMut(Option<Preview<'_>>)) {
        self.look(|sockets| look(sockets.preview(s)));
    }
    fn buffers(&mut self) -> Buffers {
        self.look(|sockets| sockets.buffers()).unwrap_or_default()
    }
    fn is_elsewhere(&mut self, s: SocketId, to: Option<&[u8]>) -> bool {
        self.sockets(|sockets, cx| sockets.is_elsewhere(s, to, cx)).unwrap_or_default()
    }
    fn not_a_programs(&mut self, s: SocketId) {
        Lend::not_a_programs(self, s);
    }
    fn table(&mut self, table: Table) -> Vec<Value> {
        match self.ask(table, &Query::List(table)) {
            Answer::List(rows) => rows,
            _ => Vec::new(),
        }
    }
    fn ask(&mut self, table: Table, query: &Query) -> Answer {
        let ask = |sockets: &mut Sockets, cx: &mut Context<'_>| match table {
            // The block that is asked is the one that asks.
            Table::Sockets => sockets.query(query, cx.now),
            _ => cx.ask(table, query),
        };
        self.sockets(ask).unwrap_or(Answer::None)
    }
    fn now(&mut self) -> Instant {
        self.sockets(|_, cx| cx.now).unwrap_or(Instant::ZERO)
    }
    fn control(&mut self, op: Op) -> Result<Value, ControlError> {
        Lend::control(self, op)
    }
    fn take_alerts(&mut self) -> Vec<Alert> {
        Lend::take_alerts(self)
    }
    fn run(&mut self) {
        Lend::run(self);
    }
}
