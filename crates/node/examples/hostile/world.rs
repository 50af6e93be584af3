//! Two nodes on one wire in virtual time, programs that talk over it all the time, and the service that must go on.
//!
//! The first node is a host that believes routers; the second forwards between the wire and a network behind it, and its raw sockets hear everything.

use super::packet::MACS;
use super::stranger::Tape;
use serde_json::{Value, json};
use std::collections::VecDeque;
use weft_core::context::Context;
use weft_core::offload::complete_checksum;
use weft_core::table::{Family, Interface, LinkType};
use weft_core::{Bytes, Duration, Frame, Instant, InterfaceIndex, Message, Op, Selector, Show, Table};
use weft_node::{Node, Stack};
use weft_socket::{SocketId, SocketState, Sockets};

pub const AF_INET: i32 = 2;
pub const AF_INET6: i32 = 10;
pub const STREAM: i32 = 1;
pub const DGRAM: i32 = 2;
const RAW: i32 = 3;

/// A frame for the second node's other network leaves through this.
const BEHIND: InterfaceIndex = InterfaceIndex(3);
const WIRE_DELAY: Duration = Duration::from_micros(500);

const HOST: &str = r#"
[node]
name = "host"
[[interface]]
name = "eth0"
backend = "memory:a"
dhcp = true
[[address]]
interface = "eth0"
address = "10.0.0.1/24"
[[address]]
interface = "eth0"
address = "fd77::1/64"
[[route]]
destination = "default"
gateway = "10.0.0.2"
[[route]]
destination = "default"
gateway = "fd77::2"
[block.arp]
announcements = 2
[block.nd]
route_information_bits_max = 64
[block.tcp]
fastopen = 1
ecn = 1
"#;

const ROUTER: &str = r#"
[node]
name = "router"
[[interface]]
name = "eth0"
backend = "memory:b"
[[interface]]
name = "eth1"
backend = "memory:c"
mtu = 1400
[[address]]
interface = "eth0"
address = "10.0.0.2/24"
[[address]]
interface = "eth0"
address = "fd77::2/64"
[[address]]
interface = "eth1"
address = "10.0.1.2/24"
[[address]]
interface = "eth1"
address = "fd78::2/64"
[block.ip4]
forward = true
[block.ip6]
forward = true
[block.tcp]
fastopen = 3
"#;

pub struct World {
    pub nodes: [Node; 2],
    pub now: Instant,
    pub tape: Tape,
    /// Packets that the second node sent on.
    pub forwarded: u64,
    in_flight: VecDeque<(Instant, usize, Frame)>,
    /// Frames that passed: of each few dozen one is lost and one is late.
    passed: u64,
}

fn node(text: &str, seed: u64, side: usize) -> Node {
    let stack = Stack::parse("hostile", text).unwrap_or_else(|error| panic!("{error}"));
    let mut node = Node::new(&stack, seed).unwrap_or_else(|error| panic!("{error}"));
    for (index, section) in stack.interfaces().enumerate() {
        let interface = Interface {
            index: InterfaceIndex::NONE,
            name: section.name.clone(),
            mac: if index == 0 { MACS[side] } else { [2, 0, 0, 0, 1, 2] },
            mtu: if index == 0 { 1500 } else { 1400 },
            up: true,
            carrier: true,
            link: LinkType::Ethernet,
            group: 0,
            gso_max_bytes: 0,
            checksum_offload: false,
            backend: section.backend.clone(),
        };
        node.add_interface(Instant::ZERO, &interface).expect("the interface is added");
    }
    node.configure(Instant::ZERO, &stack).unwrap_or_else(|error| panic!("{error}"));
    node
}

impl World {
    pub fn new(seed: u64) -> World {
        let mut world = World {
            nodes: [node(HOST, seed, 0), node(ROUTER, seed ^ 1, 1)],
            now: Instant::from_millis(1),
            tape: Tape::default(),
            forwarded: 0,
            in_flight: VecDeque::new(),
            passed: 0,
        };
        for (block, address) in [("arp", "10.0.1.9"), ("nd", "fd78::9")] {
            world.exec(1, block, "add", json!({"interface": "eth1", "address": address, "mac": "02:00:00:00:01:09"})).expect("a neighbour");
        }
        // Link-local addresses are tentative until nobody has claimed them.
        world.pass(Duration::from_secs(4));
        world
    }

    pub fn control(&mut self, side: usize, op: Op) -> Result<Value, String> {
        let now = self.now;
        let reply = self.nodes[side].control(now, &Message { serial: 1, op });
        self.settle();
        reply.result.map_err(|error| error.to_string())
    }
    pub fn exec(&mut self, side: usize, block: &str, procedure: &str, arguments: Value) -> Result<Value, String> {
        let op = Op::Exec { target: Selector::Name(block.to_owned()), procedure: procedure.to_owned(), arguments };
        self.control(side, op).map(|value| value.get(block).cloned().unwrap_or(Value::Null))
    }
    pub fn rows(&mut self, side: usize, table: Table) -> Vec<Value> {
        self.control(side, Op::List(table)).ok().and_then(|value| value.as_array().cloned()).unwrap_or_default()
    }
    /// A counter of a block.
    pub fn counter(&mut self, side: usize, block: &str, name: &str) -> u64 {
        let rows = self.control(side, Op::Show(Show::Counters)).unwrap_or_default();
        let row = rows.as_array().into_iter().flatten().find(|row| row["block"] == block);
        row.and_then(|row| row["counters"][name].as_u64()).unwrap_or_else(|| panic!("no counter {block}.{name}"))
    }

    pub fn call<R>(&mut self, side: usize, f: impl FnOnce(&mut Sockets, &mut Context<'_>) -> R) -> R {
        let now = self.now;
        let result = self.nodes[side].sockets(now, f).expect("the node has sockets");
        self.settle();
        result
    }

    pub fn inject(&mut self, to: usize, bytes: &[u8], split: usize) {
        let at = split.min(bytes.len());
        let mut frame = Frame::ingress_parts(&bytes[..at], Bytes::copy_from_slice(&bytes[at..]));
        frame.meta_mut().interface = InterfaceIndex(2);
        let now = self.now;
        self.nodes[to].receive(now, [frame]);
    }

    pub fn settle(&mut self) {
        let mut late = Vec::new();
        loop {
            // Behind what the other blocks sent meanwhile.
            self.in_flight.extend(late.drain(..).map(|(side, frame)| (self.now + WIRE_DELAY, side, frame)));
            for side in 0..2 {
                for mut frame in self.nodes[side].take_transmit().collect::<Vec<_>>() {
                    if let Some(completion) = frame.take_completion() {
                        self.nodes[side].transmitted(self.now, completion);
                    }
                    if side == 1 && frame.meta().interface == BEHIND {
                        self.forwarded += 1;
                        continue;
                    }
                    let mut copy = frame.clone();
                    complete_checksum(&mut copy);
                    self.tape.push(side, copy.to_vec());
                    self.passed += 1;
                    match self.passed % 97 {
                        41 => {}
                        83 => late.push((side, frame)),
                        _ => self.in_flight.push_back((self.now + WIRE_DELAY, side, frame)),
                    }
                }
            }
            let mut arrived: [Vec<Frame>; 2] = Default::default();
            while self.in_flight.front().is_some_and(|(at, _, _)| *at <= self.now) {
                let Some((_, side, mut frame)) = self.in_flight.pop_front() else { break };
                frame.meta_mut().interface = InterfaceIndex(2);
                // As a wire has it: only one of the nodes' addresses, or a group, is heard.
                arrived[1 - side].push(frame);
            }
            if arrived.iter().all(Vec::is_empty) && late.is_empty() && self.nodes.iter().all(|node| !node.has_transmit()) {
                return;
            }
            for (side, frames) in arrived.into_iter().enumerate() {
                self.nodes[side].receive(self.now, frames);
            }
        }
    }

    /// Lets a span of time pass, timer by timer.
    pub fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            let timers = self.nodes.iter().filter_map(Node::next_timer);
            let next = timers.chain(self.in_flight.front().map(|(at, _, _)| *at)).min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
            let now = self.now;
            self.nodes.iter_mut().for_each(|node| node.run(now));
            self.settle();
        }
        self.now = self.now.max(end);
    }

    pub fn socket(&mut self, side: usize, family: i32, kind: i32, protocol: i32) -> SocketId {
        self.call(side, |sockets, cx| sockets.socket(family, kind, protocol, cx)).expect("a socket")
    }
    pub fn bound(&mut self, side: usize, family: i32, kind: i32, port: u16) -> SocketId {
        let socket = self.socket(side, family, kind, 0);
        if family == AF_INET6 {
            self.option(side, socket, 41, 26, &1_i32.to_ne_bytes());
        }
        self.option(side, socket, 1, 2, &1_i32.to_ne_bytes());
        self.call(side, |sockets, cx| sockets.bind(socket, &any(family, port), cx)).expect("bound");
        socket
    }
    pub fn option(&mut self, side: usize, socket: SocketId, level: i32, name: i32, value: &[u8]) {
        self.call(side, |sockets, cx| sockets.set_option(socket, level, name, value, cx)).expect("an option");
    }
    pub fn send(&mut self, side: usize, socket: SocketId, data: &Bytes, to: Option<&[u8]>) -> Option<usize> {
        self.call(side, |sockets, cx| sockets.send(socket, data.clone(), 0, to, &[], cx)).ok()
    }
    /// What waits: the bytes and who sent them; none when there is nothing or an error.
    pub fn receive(&mut self, side: usize, socket: SocketId) -> Option<(Vec<u8>, Vec<u8>)> {
        let got = self.call(side, |sockets, cx| sockets.receive(socket, 1 << 16, 0, cx)).ok()?;
        Some((got.data.concat(), got.from))
    }
    /// A datagram, and a packet with its header, for one of the networks that the operator adds routes to.
    pub fn talk(&mut self, side: usize, six: bool, network: u8) {
        let mut to = address(if six { AF_INET6 } else { AF_INET }, 1, 7000);
        match six {
            true => to[8..24].copy_from_slice(&[0x20, 1, 0xd, 0xb8, 0, network, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
            false => to[4..8].copy_from_slice(&[198, 51, network, 1]),
        }
        let family = if six { AF_INET6 } else { AF_INET };
        let (plain, whole) = (self.socket(side, family, DGRAM, 0), self.socket(side, family, RAW, 255));
        let mut packet = match six {
            true => [&[0x60, 0, 0, 0, 5, 0x50, 253, 64][..], &address(AF_INET6, side as u8 + 1, 0)[8..24], &to[8..24]].concat(),
            false => [&[0x45, 0, 0, 0, 0, 0, 0, 0, 64, 253, 0, 0, 0, 0, 0, 0][..], &to[4..8]].concat(),
        };
        packet.resize(packet.len() + 0x550, 1);
        self.send(side, plain, &Bytes::from_static(b"is there anybody?"), Some(&to));
        self.send(side, plain, &Bytes::from(vec![1; 1400]), Some(&to));
        self.send(side, whole, &Bytes::from(packet), Some(&to));
        self.close(side, plain);
        self.close(side, whole);
    }
    pub fn close(&mut self, side: usize, socket: SocketId) {
        self.call(side, |sockets, cx| sockets.close(socket, cx));
    }
}

/// A sockaddr of a node or of the network behind the second (host 9), by family.
pub fn address(family: i32, host: u8, port: u16) -> Vec<u8> {
    let mut out = (family as u16).to_ne_bytes().to_vec();
    out.extend_from_slice(&port.to_be_bytes());
    if family == AF_INET {
        out.extend_from_slice(&[10, 0, u8::from(host == 9), host, 0, 0, 0, 0, 0, 0, 0, 0]);
        return out;
    }
    let mut ip = [0; 16];
    ip[..2].copy_from_slice(&[0xfd, if host == 9 { 0x78 } else { 0x77 }]);
    ip[15] = host;
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&ip);
    out.extend_from_slice(&[0; 4]);
    out
}

fn any(family: i32, port: u16) -> Vec<u8> {
    let mut out = (family as u16).to_ne_bytes().to_vec();
    out.extend_from_slice(&port.to_be_bytes());
    out.resize(if family == AF_INET { 16 } else { 28 }, 0);
    out
}

/// A connection that is made anew whenever it is gone.
struct Stream {
    family: i32,
    port: u16,
    fast_open: bool,
    client: Option<SocketId>,
    made: Instant,
}

/// Programs that talk over the wire all the time; what they hear may be anything.
pub struct Programs {
    streams: Vec<Stream>,
    listeners: Vec<SocketId>,
    servers: VecDeque<SocketId>,
    /// Sockets that are read and forgotten.
    ears: Vec<(usize, SocketId)>,
    talkers: Vec<(i32, SocketId)>,
    echoes: Vec<SocketId>,
    pings: Vec<(i32, SocketId)>,
    raw: SocketId,
    groups: [SocketId; 2],
    rounds: u64,
    /// Connections made.
    pub connections: u64,
}

/// Connections of one listener that programs keep at most.
const SERVERS_MAX: usize = 24;

impl Programs {
    pub fn new(world: &mut World) -> Programs {
        let mut listeners = Vec::new();
        let mut streams = Vec::new();
        for (family, port, fast_open) in
            [(AF_INET, 80, false), (AF_INET6, 80, false), (AF_INET, 81, true), (AF_INET6, 81, true), (AF_INET, 82, false)]
        {
            let listener = world.bound(1, family, STREAM, port);
            if fast_open {
                world.option(1, listener, 6, 23, &16_i32.to_ne_bytes());
            }
            world.call(1, |sockets, cx| sockets.listen(listener, if fast_open { 16 } else { 3 }, cx)).expect("listening");
            listeners.push(listener);
            streams.push(Stream { family, port, fast_open, client: None, made: Instant::ZERO });
        }
        let mut ears = Vec::new();
        for (family, protocols) in [(AF_INET, &[1, 2, 6, 17, 253][..]), (AF_INET6, &[58, 6, 17, 253][..])] {
            for protocol in protocols {
                ears.push((1, world.socket(1, family, RAW, *protocol)));
            }
            ears.push((0, world.socket(0, family, RAW, 253)));
            ears.push((1, world.bound(1, family, DGRAM, 91)));
        }
        let families = [AF_INET, AF_INET6];
        let groups = families.map(|family| world.bound(1, family, DGRAM, 92));
        Programs {
            streams,
            listeners,
            servers: VecDeque::new(),
            ears,
            talkers: families.map(|family| (family, world.bound(0, family, DGRAM, 7001))).to_vec(),
            echoes: families.map(|family| world.bound(1, family, DGRAM, 7000)).to_vec(),
            pings: [(AF_INET, 1), (AF_INET6, 58)].map(|(family, protocol)| (family, world.socket(0, family, DGRAM, protocol))).to_vec(),
            raw: world.socket(0, AF_INET, RAW, 253),
            groups,
            rounds: 0,
            connections: 0,
        }
    }

    /// Everybody says something and hears what there is.
    pub fn live(&mut self, world: &mut World) {
        self.rounds += 1;
        for at in 0..self.streams.len() {
            self.stream(world, at);
        }
        self.serve(world);
        let data = Bytes::from(vec![self.rounds as u8; if self.rounds.is_multiple_of(8) { 4000 } else { 300 }]);
        for (family, socket) in self.talkers.clone() {
            for (host, port) in [(2, 7000), (9, 7000), (2, 4444)] {
                world.send(0, socket, &data, Some(&address(family, host, port)));
            }
            while world.receive(0, socket).is_some() {}
        }
        for socket in self.echoes.clone() {
            for _ in 0..100 {
                let Some((data, from)) = world.receive(1, socket) else { break };
                world.send(1, socket, &Bytes::from(data), Some(&from));
            }
        }
        for (family, socket) in self.pings.clone() {
            let kind = if family == AF_INET { 8 } else { 128 };
            let echo = Bytes::from([&[kind, 0, 0, 0, 0, 0, 0, self.rounds as u8][..], &[7; 100]].concat());
            world.send(0, socket, &echo, Some(&address(family, 2, 0)));
            (0..100).take_while(|_| world.receive(0, socket).is_some()).count();
        }
        world.send(0, self.raw, &Bytes::from_static(b"raw"), Some(&address(AF_INET, 2, 0)));
        for (side, socket) in self.ears.clone().into_iter().chain([(0, self.raw)]).chain(self.groups.map(|socket| (1, socket))) {
            (0..1000).take_while(|_| world.receive(side, socket).is_some()).count();
        }
        if self.rounds.is_multiple_of(16) {
            self.membership(world);
            self.errands(world);
        }
    }

    /// What programs do now and then: groups, broadcasts, themselves, whole packets, datagrams that are too large.
    fn errands(&mut self, world: &mut World) {
        let data = Bytes::from_static(b"errand");
        for side in 0..2 {
            let talker = world.bound(side, AF_INET, DGRAM, 0);
            world.option(side, talker, 1, 6, &1_i32.to_ne_bytes());
            world.call(side, |sockets, cx| sockets.set_option(talker, 0, 35, &[239, 7, 7, 7, 10, 0, 0, side as u8 + 1], cx).ok());
            let own = [10, 0, 0, side as u8 + 1];
            let others = [
                [239, 7, 7, 7],
                [10, 0, 0, 255],
                [255; 4],
                own,
                [127, 0, 0, 1],
                [198, 51, 3, 1],
                [198, 51, 4, 1],
                [198, 51, 5, 1],
                [240, 0, 0, 1],
            ];
            for ip in others {
                let mut to = address(AF_INET, 2, 7000);
                to[4..8].copy_from_slice(&ip);
                world.send(side, talker, &data, Some(&to));
            }
            // IP_MTU_DISCOVER: larger than the link is refused.
            world.option(side, talker, 0, 10, &2_i32.to_ne_bytes());
            world.send(side, talker, &Bytes::from(vec![1; 1400 + self.rounds as usize % 200]), Some(&address(AF_INET, 2, 7000)));
            world.send(side, talker, &Bytes::from(vec![1; 9000]), Some(&address(AF_INET, 2, 7000)));
            world.close(side, talker);
            self.errands6(world, side);
            // IPPROTO_RAW: the packet as it is.
            let whole = world.socket(side, AF_INET, RAW, 255);
            world.option(side, whole, 1, 6, &1_i32.to_ne_bytes());
            for to in [[10, 0, 0, 2 - side as u8], own, [239, 7, 7, 7], [10, 0, 0, 255], [198, 51, 3, 1], [203, 0, 113, 1]] {
                let mut packet = vec![0x45, 0, 0, 24, 0, 0, 0, 0, 64, 253, 0, 0, 0, 0, 0, 0];
                packet.extend_from_slice(&to);
                packet.extend_from_slice(b"data");
                let mut name = address(AF_INET, 2, 0);
                name[4..8].copy_from_slice(&to);
                world.send(side, whole, &Bytes::from(packet), Some(&name));
            }
            world.close(side, whole);
        }
    }

    fn errands6(&mut self, world: &mut World, side: usize) {
        let talker = world.bound(side, AF_INET6, DGRAM, 0);
        let data = Bytes::from_static(b"errand");
        let mut group = address(AF_INET6, 2, 7000);
        group[8..24].copy_from_slice(&[0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        group[24] = 2;
        let mut loopback = address(AF_INET6, 0, 7000);
        loopback[8..24].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        let mut nowhere = address(AF_INET6, 1, 7000);
        nowhere[8..14].copy_from_slice(&[0x20, 1, 0xd, 0xb8, 0, 3 + (self.rounds / 16 % 3) as u8]);
        for to in [&group, &loopback, &nowhere, &address(AF_INET6, side as u8 + 1, 7000)] {
            world.send(side, talker, &data, Some(to));
        }
        world.option(side, talker, 41, 23, &2_i32.to_ne_bytes());
        world.send(side, talker, &Bytes::from(vec![1; 9000]), Some(&address(AF_INET6, 2, 7000)));
        world.close(side, talker);
        // IPV6_HDRINCL: packets as they are, one too long, one cut short.
        let whole = world.socket(side, AF_INET6, RAW, 255);
        world.option(side, whole, 41, 36, &1_i32.to_ne_bytes());
        let peer = address(AF_INET6, 2 - side as u8, 0);
        for (to, length) in [(&group, 8), (&loopback, 8), (&nowhere, 8), (&peer, 8), (&nowhere, 1600)] {
            let mut packet = vec![0x60, 0, 0, 0, 0, 0, 253, 64];
            packet.extend_from_slice(&address(AF_INET6, side as u8 + 1, 0)[8..24]);
            packet.extend_from_slice(&to[8..24]);
            packet.resize(40 + length, 7);
            packet[4..6].copy_from_slice(&(length as u16).to_be_bytes());
            world.send(side, whole, &Bytes::copy_from_slice(&packet[..30]), Some(to));
            world.send(side, whole, &Bytes::from(packet), Some(to));
        }
        world.close(side, whole);
    }

    fn stream(&mut self, world: &mut World, at: usize) {
        let Stream { family, port, fast_open, client, made } = self.streams[at];
        let data = Bytes::from(vec![7; 3000]);
        let Some(client) = client else {
            let client = world.socket(0, family, STREAM, 0);
            let to = address(family, 2, port);
            world
                .call(0, |sockets, cx| match fast_open {
                    true => sockets.send(client, data.slice(..500), 0x2000_0000, Some(&to), &[], cx).map(|_| ()),
                    false => sockets.connect(client, &to, cx),
                })
                .ok();
            self.connections += 1;
            self.streams[at] = Stream { client: Some(client), made: world.now, ..self.streams[at] };
            return;
        };
        world.send(0, client, &data, None);
        let alive = world.call(0, |sockets, cx| match sockets.receive(client, 1 << 16, 0, cx) {
            Ok(got) => got.data.iter().any(|slice| !slice.is_empty()),
            Err(error) => error.0 == 11,
        });
        if !alive || world.now.since(made) > Duration::from_millis(300) {
            world.close(0, client);
            self.streams[at].client = None;
        }
    }

    fn serve(&mut self, world: &mut World) {
        // Now and then a server is busy with other things, and who knocks has to wait.
        let busy = self.rounds / 128 % 4 == 3;
        for listener in self.listeners.clone().into_iter().filter(|_| !busy) {
            // TCP_INFO.
            let _ = world.call(1, |sockets, cx| sockets.get_option(listener, 6, 11, 232, cx));
            while let Ok(server) = world.call(1, |sockets, cx| sockets.accept(listener, cx)) {
                self.servers.push_back(server);
            }
        }
        while self.servers.len() > SERVERS_MAX {
            let oldest = self.servers.pop_front();
            oldest.into_iter().for_each(|server| world.close(1, server));
        }
        let answer = Bytes::from_static(&[9; 700]);
        self.servers.retain(|server| {
            world.send(1, *server, &answer, None);
            let open = world.call(1, |sockets, cx| match sockets.receive(*server, 1 << 16, 0, cx) {
                Ok(got) => got.data.iter().any(|slice| !slice.is_empty()),
                Err(error) => error.0 == 11,
            });
            if !open {
                world.close(1, *server);
            }
            open
        });
    }

    /// Groups are joined and left, with sources and without.
    fn membership(&mut self, world: &mut World) {
        let turn = self.rounds / 16 % 4;
        let [four, six] = self.groups;
        let request4 = [[239, 1, 2, 3], [10, 0, 0, 2]].concat();
        let source4 = [[239, 1, 2, 3], [10, 0, 0, 2], [192, 0, 2, self.rounds as u8 % 4]].concat();
        let mut request6 = address(AF_INET6, 0, 0)[8..24].to_vec();
        request6[..2].copy_from_slice(&[0xff, 5]);
        request6[13..16].copy_from_slice(&[1, 0, 3]);
        request6.extend_from_slice(&2_i32.to_ne_bytes());
        let (name4, value4) = [(35, &request4), (36, &request4), (39, &source4), (40, &source4)][turn as usize];
        let name6 = if turn.is_multiple_of(2) { 20 } else { 21 };
        world.call(1, |sockets, cx| {
            let _ = sockets.set_option(four, 0, name4, value4, cx);
            let _ = sockets.set_option(six, 41, name6, &request6, cx);
        });
    }

    pub fn close(mut self, world: &mut World) {
        let clients = self.streams.iter_mut().filter_map(|stream| stream.client.take()).map(|socket| (0, socket));
        let all: Vec<_> = clients.chain(self.servers.drain(..).map(|socket| (1, socket))).collect();
        all.into_iter().for_each(|(side, socket)| world.close(side, socket));
        let zero = self.talkers.iter().chain(&self.pings).map(|(_, socket)| (0, *socket)).chain([(0, self.raw)]);
        let one = self.listeners.iter().chain(&self.echoes).chain(&self.groups).map(|socket| (1, *socket));
        let all: Vec<_> = zero.chain(one).chain(self.ears.iter().copied()).collect();
        all.into_iter().for_each(|(side, socket)| world.close(side, socket));
    }
}

/// Bytes of a transfer.
const TRANSFER_BYTES: usize = 100_000;
/// How long the service may need after an attack: neighbours that a liar has spoiled are probed, paths are searched anew.
const SERVICE_SECONDS_MAX: u64 = 300;

/// A real transfer both ways and a datagram's echo, of a family. The error says what did not come.
pub fn serve(world: &mut World, family: i32, seed: u8) -> Result<(), String> {
    let deadline = world.now + Duration::from_secs(SERVICE_SECONDS_MAX);
    let listener = world.bound(1, family, STREAM, 90);
    world.call(1, |sockets, cx| sockets.listen(listener, 8, cx)).map_err(|error| format!("listen: {error:?}"))?;
    let mut client = connect(world, family);
    let data = Bytes::from((0..TRANSFER_BYTES).map(|at| (at / 7) as u8 ^ seed).collect::<Vec<u8>>());
    let (mut server, mut sent, mut there, mut echoed, mut back) = (None, 0, Vec::new(), 0, Vec::new());
    while back.len() < TRANSFER_BYTES {
        if world.now > deadline {
            return Err(format!(
                "TCP of family {family}: {} bytes there, {} back, accepted: {}",
                there.len(),
                back.len(),
                server.is_some()
            ));
        }
        sent += world.send(0, client, &data.slice(sent..), None).unwrap_or(0);
        if server.is_none() {
            server = world.call(1, |sockets, cx| sockets.accept(listener, cx)).ok();
            // A false address of a neighbour may outlive an attempt to connect; who wants something tries again.
            if world.call(0, |sockets, _| sockets.state(client)) == Some(SocketState::Failed) {
                world.close(0, client);
                client = connect(world, family);
            }
        }
        if let Some(server) = server {
            there.extend(world.receive(1, server).unwrap_or_default().0);
            echoed += world.send(1, server, &data.slice(echoed..there.len().min(TRANSFER_BYTES)), None).unwrap_or(0);
        }
        back.extend(world.receive(0, client).unwrap_or_default().0);
        world.pass(Duration::from_millis(5));
    }
    if there != data || back != data {
        return Err(format!("TCP of family {family}: other bytes came than were sent"));
    }
    server.into_iter().chain([listener]).for_each(|socket| world.close(1, socket));
    world.close(0, client);
    echo(world, family, deadline)
}

fn connect(world: &mut World, family: i32) -> SocketId {
    let client = world.socket(0, family, STREAM, 0);
    let _ = world.call(0, |sockets, cx| sockets.connect(client, &address(family, 2, 90), cx));
    client
}

fn echo(world: &mut World, family: i32, deadline: Instant) -> Result<(), String> {
    let (client, server) = (world.bound(0, family, DGRAM, 0), world.bound(1, family, DGRAM, 93));
    let question = Bytes::from_static(b"still there?");
    loop {
        if world.now > deadline {
            return Err(format!("UDP of family {family}: no echo"));
        }
        world.send(0, client, &question, Some(&address(family, 2, 93)));
        world.pass(Duration::from_millis(100));
        if let Some((data, from)) = world.receive(1, server) {
            world.send(1, server, &Bytes::from(data), Some(&from));
        }
        world.pass(Duration::from_millis(100));
        if world.receive(0, client).is_some_and(|(data, _)| data == question) {
            break;
        }
    }
    world.close(0, client);
    world.close(1, server);
    Ok(())
}

/// Prints what decides whether the nodes reach each other.
pub fn explain(world: &mut World, family: i32) {
    let family = if family == AF_INET { Family::V4 } else { Family::V6 };
    for side in 0..2 {
        println!("node {side} at {:?}, next timer {:?}", world.now, world.nodes[side].next_timer());
        for table in [Table::Interfaces, Table::Addresses(family), Table::Routes(family), Table::Neighbours(family), Table::Flows] {
            println!("node {side}: {table:?}");
            world.rows(side, table).iter().for_each(|row| println!("    {row}"));
        }
    }
}

/// The tables of a node and how much they may hold.
pub fn tables(world: &mut World, side: usize) -> Vec<(&'static str, u64, u64)> {
    let mut out = Vec::new();
    // Listeners with their SYN backlogs, connections that programs keep, and what is left of them in TIME-WAIT.
    let flows = world.rows(side, Table::Flows).len() as u64;
    out.push(("connections", flows, 7 * 2048 + 3000));
    for (name4, name6, table, max) in [
        ("neighbours", "neighbours6", Table::Neighbours as fn(Family) -> Table, 1024),
        ("routes", "routes6", Table::Routes, 256 + 64 + 100),
        ("addresses", "addresses6", Table::Addresses, 40),
        ("groups", "groups6", Table::Groups, 64),
    ] {
        out.push((name4, world.rows(side, table(Family::V4)).len() as u64, max));
        out.push((name6, world.rows(side, table(Family::V6)).len() as u64, max));
    }
    out.push(("sockets", world.rows(side, Table::Sockets).len() as u64, 200));
    for (block, names) in [("ip4", ["fragment bytes", "paths"]), ("ip6", ["fragment bytes6", "paths6"])] {
        let held = world.exec(side, block, "memory", json!({})).unwrap_or_default();
        out.push((names[0], held["fragment_bytes"].as_u64().unwrap_or(u64::MAX), (4 << 20) + (64 << 10)));
        out.push((names[1], held["paths"].as_u64().unwrap_or(u64::MAX), 2 * 4096));
    }
    let neighbours = out[1].1 + out[2].1;
    out.push(("timers", world.nodes[side].engine().timers() as u64, 3 * flows + neighbours + 300));
    out
}
