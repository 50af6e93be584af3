//! rtnetlink(7), sock_diag(7) and generic netlink as control messages: what iproute2, libc and Go's net package ask of a node, and what they change.
//!
//! A [`Session`] is one netlink socket: its port, its groups, its options. [`Session::answers`] takes what a program sent and returns the packets
//! that it gets. Questions are put to the owners of the node's tables, changes are procedures of those owners ([`Tables`]): the same that a
//! person runs at the console, one for each message, so that each is done as a whole or not at all. What the node's tables cannot hold is refused with the
//! kernel's errno and a sentence (NETLINK_EXT_ACK) that begins with "weft" and names what is not there; where the kernel refuses, errno and
//! sentence are the kernel's.
//!
//! Messages are encoded here, byte by byte: the crates that know rtnetlink's attributes by name lack some that iproute2 prints and keep an order of their own.
//! They are the judges instead: the tests parse with netlink-packet-route what this crate writes.
//!
//! No I/O: adapters carry the packets. No clock: [`Tables::now`] is the node's.
#![forbid(unsafe_code)]

mod address;
pub mod diag;
mod errno;
mod generic;
mod hops;
mod link;
mod local;
mod message;
mod neighbour;
mod notify;
mod packet;
mod plain_route;
mod ports;
mod qdisc;
mod route;
mod rule;
mod sender;
mod session;

pub use errno::Refusal;
pub use plain_route::PlainRoute;
pub use ports::Ports;
pub use sender::{Sender, named};
pub use session::{NETLINK_GENERIC, NETLINK_ROUTE, NETLINK_SOCK_DIAG, Session};

use weft_core::control::Value;
use weft_core::table::{Answer, InterfaceRow, Query, Table, Which};
use weft_core::{ControlError, Instant, Show};

/// A node, as far as netlink needs it.
pub trait Tables {
    /// Asks the owner of a table.
    fn ask(&mut self, table: Table, query: &Query) -> Answer;
    /// Runs a procedure of a block.
    ///
    /// # Errors
    /// The block's refusal, of a kind where Linux has an errno.
    fn exec(&mut self, block: &str, procedure: &str, arguments: Value) -> Result<Value, ControlError>;
    /// What the node is.
    fn show(&mut self, what: Show) -> Value;
    /// The node's time.
    fn now(&mut self) -> Instant;
    /// Somebody asked for what is not there: for `weft show calls`.
    fn unsupported(&mut self, what: String, errno: i32);
}

/// The interfaces that are asked for.
pub(crate) fn interfaces(tables: &mut dyn Tables, which: Which) -> Vec<InterfaceRow> {
    match tables.ask(Table::Interfaces, &Query::Interfaces(which)) {
        Answer::Interfaces(rows) => rows,
        _ => Vec::new(),
    }
}
