//! The model in memory as a [`Host`]: the sockets block in an engine, on some loopback.

use super::language::{Done, Got, Host};
use std::time::Duration;
use weft_core::{BlockId, BlockTable, Context, Engine, Instant, Mode, Op, Rng};
use weft_socket::{Errno, Poll, SocketId, Sockets, abi};

/// An engine with a sockets block, and the sockets that a body has opened.
pub struct Model {
    pub engine: Engine,
    block: BlockId,
    now: Instant,
    sockets: Vec<SocketId>,
}

impl Model {
    /// A graph that these operations make; it has a block named `sockets`.
    pub fn with(mode: Mode, table: BlockTable, ops: &[Op]) -> Model {
        let mut engine = Engine::new(mode, table, Rng::for_name(7, "twins"));
        let plan = engine.prepare(ops).unwrap_or_else(|error| panic!("{error}"));
        engine.commit(plan);
        let block = engine.graph().find("sockets").expect("the graph has sockets");
        Model { engine, block, now: Instant::from_millis(1000), sockets: Vec::new() }
    }

    /// Calls the face.
    pub fn face<R>(&mut self, f: impl FnOnce(&mut Sockets, &mut Context<'_>) -> R) -> R {
        let call = |block: &mut dyn weft_core::Block, cx: &mut Context<'_>| {
            f(block.as_any_mut().downcast_mut::<Sockets>().expect("a sockets block"), cx)
        };
        let result = self.engine.with(self.now, self.block, call).expect("the block is there");
        // What is due at this instant happens within the call, as in a kernel's loopback.
        self.engine.run(self.now);
        result
    }

    /// Lets time pass.
    pub fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(next) = self.engine.next_timer().filter(|next| *next <= end) {
            self.now = self.now.max(next);
            self.engine.run(self.now);
        }
        self.now = end;
        self.engine.run(end);
    }

    /// The id of a socket of a body.
    pub fn id(&self, s: usize) -> SocketId {
        self.sockets[s]
    }
}

impl Host for Model {
    fn socket(&mut self, domain: i32, kind: i32, protocol: i32) -> Done<usize> {
        let id = self.face(|sockets, cx| sockets.socket(domain, kind, protocol, cx))?;
        self.sockets.push(id);
        Ok(self.sockets.len() - 1)
    }
    fn bind(&mut self, s: usize, address: &[u8]) -> Done<()> {
        let id = self.id(s);
        self.face(|sockets, cx| sockets.bind(id, address, cx))
    }
    fn connect(&mut self, s: usize, address: &[u8]) -> Done<()> {
        let id = self.id(s);
        self.face(|sockets, cx| sockets.connect(id, address, cx))
    }
    fn listen(&mut self, s: usize, backlog: i32) -> Done<()> {
        let id = self.id(s);
        self.face(|sockets, cx| sockets.listen(id, backlog, cx))
    }
    fn accept(&mut self, s: usize) -> Done<(usize, Vec<u8>)> {
        let id = self.id(s);
        let (child, from) = self.face(|sockets, cx| {
            let child = sockets.accept(id, cx)?;
            Ok::<_, Errno>((child, sockets.accepted_address(child)?))
        })?;
        self.sockets.push(child);
        Ok((self.sockets.len() - 1, from))
    }
    fn shutdown(&mut self, s: usize, how: i32) -> Done<()> {
        let id = self.id(s);
        self.face(|sockets, cx| sockets.shutdown(id, how, cx))
    }
    fn local(&mut self, s: usize) -> Done<Vec<u8>> {
        let id = self.id(s);
        self.face(|sockets, _| sockets.local_address(id))
    }
    fn peer(&mut self, s: usize) -> Done<Vec<u8>> {
        let id = self.id(s);
        self.face(|sockets, _| sockets.peer_address(id))
    }
    fn get(&mut self, s: usize, level: i32, name: i32, length: usize) -> Done<Vec<u8>> {
        let id = self.id(s);
        self.face(|sockets, cx| sockets.get_option(id, level, name, i32::try_from(length).expect("a length"), cx))
    }
    fn set(&mut self, s: usize, level: i32, name: i32, value: &[u8]) -> Done<()> {
        let id = self.id(s);
        self.face(|sockets, cx| sockets.set_option(id, level, name, value, cx))
    }
    fn send(&mut self, s: usize, data: &[u8], flags: i32, to: Option<&[u8]>, control: &[u8]) -> Done<usize> {
        let id = self.id(s);
        let data = bytes::Bytes::copy_from_slice(data);
        self.face(|sockets, cx| sockets.send(id, data, flags | abi::MSG_DONTWAIT, to, control, cx))
    }
    fn receive(&mut self, s: usize, length: usize, flags: i32) -> Done<Got> {
        let id = self.id(s);
        let got = self.face(|sockets, cx| sockets.receive(id, length, flags | abi::MSG_DONTWAIT, cx))?;
        let data = got.data.concat();
        let count = if flags & abi::MSG_TRUNC != 0 { got.datagram_bytes } else { data.len() };
        Ok(Got { count, data, from: got.from, flags: got.flags, control: got.control })
    }
    fn ioctl(&mut self, s: usize, request: u64) -> Done<i32> {
        let id = self.id(s);
        let bytes = self.face(|sockets, cx| sockets.ioctl(id, request, &[], cx))?;
        Ok(i32::from_ne_bytes(bytes.try_into().expect("an int")))
    }
    fn poll(&mut self, s: usize) -> Poll {
        let id = self.id(s);
        self.face(|sockets, _| sockets.readiness(id))
    }
    fn close(&mut self, s: usize) {
        let id = self.id(s);
        self.face(|sockets, cx| sockets.close(id, cx));
    }
    fn settle(&mut self) {
        self.pass(Duration::from_millis(5));
    }
}
