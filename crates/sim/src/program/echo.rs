//! `echo`: sends back what comes, over TCP and UDP on one port (RFC 862).

use super::open::{Failure, fail, open_on};
use crate::actor::{Actor, ActorContext, Next};
use crate::report::{ProgramId, Status};
use bytes::Bytes;
use std::collections::BTreeMap;
use weft_core::Instant;
use weft_socket::abi::{SOCK_DGRAM, SOCK_STREAM};
use weft_socket::{Errno, SocketId};

const CHUNK_BYTES: usize = 64 << 10;
const BACKLOG: i32 = 128;
/// Datagrams that are given up rather than kept when there is no room to send.
const DATAGRAM_BYTES: usize = 65_536;

pub(super) struct Echo {
    id: ProgramId,
    port: u16,
    sockets: Option<(SocketId, SocketId)>,
    /// What could not be sent back yet; at most [`CHUNK_BYTES`] a connection, because no more is read before.
    connections: BTreeMap<SocketId, Bytes>,
    changed: Vec<SocketId>,
    echoed: u64,
    stop: bool,
}

impl Echo {
    pub fn new(id: ProgramId, port: u16) -> Echo {
        Echo { id, port, sockets: None, connections: BTreeMap::new(), changed: Vec::new(), echoed: 0, stop: false }
    }

    fn open(&mut self, cx: &mut dyn ActorContext) -> Result<(SocketId, SocketId), Failure> {
        if let Some(sockets) = self.sockets {
            return Ok(sockets);
        }
        let (listener, datagrams) = (open_on(cx, self.port, SOCK_STREAM)?, open_on(cx, self.port, SOCK_DGRAM)?);
        let result = cx.call(|sockets, cx| sockets.listen(listener, BACKLOG, cx)).unwrap_or(Err(Errno::ENETDOWN));
        result.map_err(|errno| ("listen", errno))?;
        Ok(*self.sockets.insert((listener, datagrams)))
    }

    fn datagrams(&mut self, socket: SocketId, cx: &mut dyn ActorContext) {
        while let Some(Ok(received)) = cx.call(|sockets, cx| sockets.receive(socket, DATAGRAM_BYTES, 0, cx)) {
            let data = Bytes::from(received.data.concat());
            self.echoed += data.len() as u64;
            cx.call(|sockets, cx| sockets.send(socket, data, 0, Some(&received.from), &[], cx));
        }
    }

    fn connection(&mut self, socket: SocketId, cx: &mut dyn ActorContext) {
        loop {
            let Some(rest) = self.connections.get_mut(&socket) else { return };
            if !rest.is_empty() {
                let data = rest.clone();
                match cx.call(|sockets, cx| sockets.send(socket, data, 0, None, &[], cx)).unwrap_or(Err(Errno::ENETDOWN)) {
                    Ok(taken) => {
                        self.echoed += taken as u64;
                        *rest = rest.slice(taken.min(rest.len())..);
                        continue;
                    }
                    Err(Errno::EAGAIN) => return,
                    Err(_) => break,
                }
            }
            match cx.call(|sockets, cx| sockets.receive(socket, CHUNK_BYTES, 0, cx)).unwrap_or(Err(Errno::ENETDOWN)) {
                Ok(received) if !received.is_empty() => *rest = Bytes::from(received.data.concat()),
                Err(Errno::EAGAIN) => return,
                Ok(_) | Err(_) => break,
            }
        }
        self.connections.remove(&socket);
        cx.call(|sockets, cx| sockets.close(socket, cx));
    }
}

impl Actor for Echo {
    fn run(&mut self, cx: &mut dyn ActorContext, _grant: Instant) -> Next {
        let (listener, datagrams) = match self.open(cx) {
            Ok(sockets) => sockets,
            Err(failure) => {
                fail(cx, self.id, failure);
                return Next::ENDED;
            }
        };
        for socket in std::mem::take(&mut self.changed) {
            if socket == listener {
                while let Some(Ok(accepted)) = cx.call(|sockets, cx| sockets.accept(listener, cx)) {
                    self.connections.insert(accepted, Bytes::new());
                    self.connection(accepted, cx);
                }
            } else if socket == datagrams {
                self.datagrams(socket, cx);
            } else {
                self.connection(socket, cx);
            }
        }
        if !self.stop {
            return Next::WAIT;
        }
        let open: Vec<SocketId> = self.connections.keys().copied().chain([listener, datagrams]).collect();
        for socket in open {
            cx.call(|sockets, cx| sockets.close(socket, cx));
        }
        cx.ended(self.id, Status::Exited(0));
        Next::ENDED
    }

    fn sockets_changed(&mut self, changed: &[SocketId]) {
        self.changed.extend_from_slice(changed);
    }

    fn stop(&mut self, _program: ProgramId) {
        self.stop = true;
    }

    fn finish(&mut self, cx: &mut dyn ActorContext) {
        cx.figure(self.id, "echoed_bytes", self.echoed);
    }

    fn waits(&self) -> Vec<(ProgramId, String)> {
        vec![(self.id, format!("for data on port {} ({} connections)", self.port, self.connections.len()))]
    }
}
