//! What the supervisor needs of a node: the socket face without its context, and the tables that answer questions about interfaces.
//!
//! [`Stack`] exists so that the machinery can be tested against a model that misbehaves on purpose; the host lends it a node's sockets
//! through [`Lend`].

use bytes::Bytes;
use serde_json::Value;
use weft_core::Table;
use weft_core::Tail;

/// An error number, positive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Errno(pub i32);

/// A socket of the model.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SocketId(pub u64);

impl SocketId {
    /// As a number.
    pub const fn number(self) -> u64 {
        self.0
    }
    /// From a number.
    pub const fn from_number(number: u64) -> SocketId {
        SocketId(number)
    }
}

/// Poll events.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Poll(pub u32);

impl Poll {
    /// Readable.
    pub const IN: Poll = Poll(1);
    /// Urgent data.
    pub const PRI: Poll = Poll(2);
    /// Error.
    pub const ERR: Poll = Poll(8);
    /// Peer ended.
    pub const RDHUP: Poll = Poll(0x2000);
    /// Contains all of other.
    pub const fn contains(self, other: Poll) -> bool {
        self.0 & other.0 == other.0
    }
}

/// What was received.
#[derive(Debug, Default, Clone)]
pub struct Received {
    /// The bytes.
    pub data: Tail,
    /// Sender.
    pub from: Vec<u8>,
    /// msg_flags.
    pub flags: i32,
    /// Control messages.
    pub control: Vec<u8>,
    /// Whole length.
    pub datagram_bytes: usize,
}

/// State.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SocketState {
    /// Neither bound nor connected.
    Fresh,
    /// Bound, not connected.
    Bound,
    /// Listening.
    Listening,
    /// A connection attempt is under way.
    Connecting,
    /// Connected; for datagram sockets: has a peer.
    Connected,
    /// The peer has sent FIN.
    PeerClosed,
    /// The connection failed or was reset, or has ended in both directions.
    Failed,
}

/// A node's sockets, as `weft_socket::Sockets` offers them (its documentation says what each returns), and its tables.
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
    fn get_option(&mut self, s: SocketId, level: i32, name: i32, length: usize) -> Result<Vec<u8>, Errno>;
    fn set_option(&mut self, s: SocketId, level: i32, name: i32, value: &[u8]) -> Result<(), Errno>;
    fn send(&mut self, s: SocketId, data: Bytes, flags: i32, to: Option<&[u8]>, control: &[u8]) -> Result<usize, Errno>;
    fn receive(&mut self, s: SocketId, length: usize, flags: i32) -> Result<Received, Errno>;
    fn ioctl(&mut self, s: SocketId, request: u64, argument: &[u8]) -> Result<Vec<u8>, Errno>;
    fn close(&mut self, s: SocketId);
    fn readiness(&mut self, s: SocketId) -> Poll;
    fn take_changed(&mut self) -> Vec<SocketId>;
    fn state(&mut self, s: SocketId) -> Option<SocketState>;
    fn send_room(&mut self, s: SocketId) -> usize;
    fn receive_ready(&mut self, s: SocketId) -> usize;
    fn pending_error(&mut self, s: SocketId) -> Option<Errno>;
    /// The rows of a table, one JSON object each; empty when the node has no such table.
    fn table(&mut self, table: Table) -> Vec<Value>;
}
