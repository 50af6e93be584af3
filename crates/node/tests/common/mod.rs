//! Two nodes joined in memory, with time as a number: what the whole-stack tests and the in-memory benchmark stand on.
#![allow(dead_code)] // each test uses a part of it

use std::time::Duration;
use weft_core::context::Context;
use weft_core::table::{Interface, LinkType};
use weft_core::{Bytes, Frame, Instant, InterfaceIndex};
use weft_node::{Node, Stack};
use weft_socket::{Errno, SocketId, Sockets};

/// AF_INET, SOCK_STREAM, SOCK_DGRAM.
pub const AF_INET: i32 = 2;
pub const SOCK_STREAM: i32 = 1;
pub const SOCK_DGRAM: i32 = 2;

/// What happens to a frame between the nodes.
pub type Wire = Box<dyn FnMut(usize, &Frame) -> Fate>;

/// See [`Wire`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    Pass,
    Lose,
}

/// The last fragment of a packet of either family: lost, the others wait.
pub fn is_last_fragment(frame: &Frame) -> bool {
    let bytes = frame.to_vec();
    let field = |at: usize| bytes.get(at..at + 2).map_or(0, |bytes| u16::from_be_bytes([bytes[0], bytes[1]]));
    match field(12) {
        0x0800 => field(20) & 0x1fff != 0 && field(20) & 0x2000 == 0,
        0x86dd => bytes.get(20) == Some(&44) && field(56) & 0xfff8 != 0 && field(56) & 1 == 0,
        _ => false,
    }
}

/// Two nodes, 10.0.0.1 and 10.0.0.2, fd77::1 and fd77::2, on one wire.
pub struct Pair {
    pub nodes: [Node; 2],
    pub now: Instant,
    /// Frames that crossed the wire.
    pub frames: u64,
    /// One-way delay.
    pub delay: Duration,
    in_flight: std::collections::VecDeque<(Instant, usize, Frame)>,
    wire: Wire,
}

/// A sockaddr_in of a node.
pub fn address(host: u8, port: u16) -> Vec<u8> {
    let mut bytes = (AF_INET as u16).to_ne_bytes().to_vec();
    bytes.extend_from_slice(&port.to_be_bytes());
    bytes.extend_from_slice(&[10, 0, 0, host, 0, 0, 0, 0, 0, 0, 0, 0]);
    bytes
}

/// AF_INET6.
pub const AF_INET6: i32 = 10;

/// A sockaddr_in6; `interface` is the scope of a link-local address.
pub fn address6(ip: std::net::Ipv6Addr, port: u16, interface: u32) -> Vec<u8> {
    let mut bytes = (AF_INET6 as u16).to_ne_bytes().to_vec();
    bytes.extend_from_slice(&port.to_be_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&ip.octets());
    bytes.extend_from_slice(&interface.to_ne_bytes());
    bytes
}

fn node(host: u8, gso_max_bytes: u32, engine: &str, blocks: &str) -> Node {
    let text = format!(
        "[node]\nname = \"host{host}\"\nengine = \"{engine}\"\n[[interface]]\nname = \"eth0\"\nbackend = \"memory:eth0\"\n\
         [[address]]\ninterface = \"eth0\"\naddress = \"10.0.0.{host}/24\"\n\
         [[address]]\ninterface = \"eth0\"\naddress = \"fd77::{host}/64\"\n{blocks}"
    );
    let stack = Stack::parse("test", &text).expect("the stack is sound");
    let mut node = Node::new(&stack, u64::from(host)).expect("the node is built");
    let interface = Interface {
        index: InterfaceIndex::NONE,
        name: "eth0".to_owned(),
        mac: [2, 0, 0, 0, 0, host],
        mtu: 1500,
        up: true,
        carrier: true,
        link: LinkType::Ethernet,
        group: 0,
        gso_max_bytes,
        checksum_offload: true,
        backend: "memory:eth0".to_owned(),
    };
    assert_eq!(node.add_interface(Instant::ZERO, &interface).expect("the interface is added"), InterfaceIndex(2));
    node.configure(Instant::ZERO, &stack).expect("the address is set");
    node
}

impl Pair {
    /// Two default stacks; `blocks` are further lines of both stack files.
    pub fn new(gso_max_bytes: u32, blocks: &str) -> Pair {
        Pair::on_engine("inline", gso_max_bytes, blocks)
    }
    /// The same on another engine.
    pub fn on_engine(engine: &str, gso_max_bytes: u32, blocks: &str) -> Pair {
        Pair {
            nodes: [1, 2].map(|host| node(host, gso_max_bytes, engine, blocks)),
            now: Instant::from_millis(1),
            frames: 0,
            delay: Duration::ZERO,
            in_flight: Default::default(),
            wire: Box::new(|_, _| Fate::Pass),
        }
    }
    /// With a wire that delays and may lose.
    pub fn with_wire(mut self, delay: Duration, wire: impl FnMut(usize, &Frame) -> Fate + 'static) -> Pair {
        self.delay = delay;
        self.wire = Box::new(wire);
        self
    }

    /// Calls into a node's sockets and carries what follows.
    pub fn call<R>(&mut self, side: usize, f: impl FnOnce(&mut Sockets, &mut Context<'_>) -> R) -> R {
        let now = self.now;
        let result = self.nodes[side].sockets(now, f).expect("the node has sockets");
        self.settle();
        result
    }

    /// Carries what may be carried now.
    pub fn settle(&mut self) {
        loop {
            for side in 0..2 {
                for mut frame in self.nodes[side].take_transmit().collect::<Vec<_>>() {
                    self.frames += 1;
                    if let Some(completion) = frame.take_completion() {
                        self.nodes[side].transmitted(self.now, completion);
                    }
                    if (self.wire)(side, &frame) == Fate::Pass {
                        self.in_flight.push_back((self.now + self.delay, side, frame));
                    }
                }
            }
            let mut arrived: [Vec<Frame>; 2] = Default::default();
            while self.in_flight.front().is_some_and(|(at, _, _)| *at <= self.now) {
                let Some((_, side, mut frame)) = self.in_flight.pop_front() else { break };
                frame.meta_mut().interface = InterfaceIndex(2);
                arrived[1 - side].push(frame);
            }
            if arrived.iter().all(Vec::is_empty) && self.nodes.iter().all(|node| !node.has_transmit()) {
                return;
            }
            for (side, frames) in arrived.into_iter().enumerate() {
                self.nodes[side].receive(self.now, frames);
            }
        }
    }

    /// Moves time to the next thing that happens (at most `limit` on) and lets it happen. False: nothing is due within `limit`.
    pub fn step(&mut self, limit: Duration) -> bool {
        let timers = self.nodes.iter().filter_map(Node::next_timer);
        let Some(next) = timers.chain(self.in_flight.front().map(|(at, _, _)| *at)).min() else { return false };
        if next > self.now + limit {
            self.now += limit;
            return false;
        }
        self.run_at(next.max(self.now));
        true
    }

    /// Lets a span of time pass.
    pub fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        while self.now < end && self.step(end.since(self.now)) {}
        self.run_at(end.max(self.now));
    }

    fn run_at(&mut self, at: Instant) {
        self.now = at;
        self.nodes.iter_mut().for_each(|node| node.run(at));
        self.settle();
    }

    /// A connection from the first node to port 80 of the second: client, server.
    pub fn connect(&mut self) -> (SocketId, SocketId) {
        self.connect_to(AF_INET, &address(2, 80))
    }

    /// The same by another address of the second node.
    pub fn connect_to(&mut self, family: i32, to: &[u8]) -> (SocketId, SocketId) {
        let listener = self
            .call(1, |sockets, cx| {
                let listener = sockets.socket(family, SOCK_STREAM, 0, cx)?;
                sockets.bind(listener, to, cx)?;
                sockets.listen(listener, 8, cx).map(|()| listener)
            })
            .expect("listening");
        let client = self
            .call(0, |sockets, cx| {
                let client = sockets.socket(family, SOCK_STREAM, 0, cx)?;
                match sockets.connect(client, to, cx) {
                    Err(Errno::EINPROGRESS) | Ok(()) => Ok(client),
                    Err(error) => Err(error),
                }
            })
            .expect("connecting");
        for _ in 0..10_000 {
            match self.call(1, |sockets, cx| sockets.accept(listener, cx)) {
                Ok(server) => return (client, server),
                Err(_) => {
                    self.step(Duration::from_secs(10));
                }
            }
        }
        panic!("no connection after {}", self.now);
    }

    /// Sends `total` bytes of `pattern` (repeated) from the first node to the second, whose bytes go to `sink`.
    pub fn transfer(&mut self, (client, server): (SocketId, SocketId), pattern: &Bytes, total: u64, mut sink: impl FnMut(&[u8])) {
        let (mut sent, mut received) = (0u64, 0u64);
        let mut stuck = 0;
        while received < total {
            let at = (sent % pattern.len() as u64) as usize;
            let left = (total - sent).min((pattern.len() - at) as u64) as usize;
            let wrote = match left {
                0 => 0,
                _ => self.call(0, |sockets, cx| sockets.send(client, pattern.slice(at..at + left), 0, None, &[], cx)).unwrap_or(0),
            };
            sent += wrote as u64;
            let read = match self.call(1, |sockets, cx| sockets.receive(server, 1 << 20, 0, cx)) {
                Ok(got) => got
                    .data
                    .iter()
                    .map(|slice| {
                        sink(slice);
                        slice.len()
                    })
                    .sum::<usize>(),
                Err(_) => 0,
            };
            received += read as u64;
            stuck = if wrote == 0 && read == 0 { stuck + 1 } else { 0 };
            assert!(stuck < 100_000, "stuck at {received} of {total} bytes, {}", self.now);
            if wrote == 0 && read == 0 {
                self.step(Duration::from_secs(10));
            }
        }
    }
}
