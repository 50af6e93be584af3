//! See [`crate::connection::Foresight`].

use super::tables::Tuple;
use super::{Owner, TcpBlock};
use crate::connection::Foresight;
use std::net::SocketAddr;

impl TcpBlock {
    /// What the connection between these addresses will do with what comes next. None: there is none, or nothing is sure about it.
    pub fn foresight(&self, local: SocketAddr, remote: SocketAddr) -> Option<Foresight> {
        match self.tuples.get(&Tuple { local, remote })? {
            Owner::Connection(key) if !self.out.memory.is_under_pressure() => self.connections.get(*key)?.connection.foresight(),
            _ => None,
        }
    }
}
