//! Two hosts, and a router with a middlebox between them, in memory: whatever the box does to segments, the bytes arrive.
//!
//! ```text
//! client 10.0.0.1, fd00::1 ─ 10.0.0.254, fd00::254 router 10.1.0.254, fd01::254 ─ server 10.1.0.1, fd01::1
//! ```

use std::net::Ipv6Addr;
use std::time::Duration;
use weft_core::context::Context;
use weft_core::control::{Message, Op, Show};
use weft_core::{Bytes, Frame, Instant, InterfaceIndex, Rng, Value, command, offload};
use weft_node::{Node, Stack};
use weft_socket::{Errno, SocketId, Sockets};
use weft_wire::tcp::Segment;

const AF_INET: i32 = 2;
const AF_INET6: i32 = 10;
const SOCK_STREAM: i32 = 1;
const SOCK_DGRAM: i32 = 2;
const CLIENT: usize = 0;
const ROUTER: usize = 1;
const SERVER: usize = 2;
const HALF_WAY: Duration = Duration::from_millis(2);
const TRANSFER_BYTES: usize = 600_000;
/// Both directions pass here.
const FORWARDED: &str = "interfaces:upper ether:lower";

/// A node and one of its interfaces.
type End = (usize, u32);

/// Which ends are joined.
const LINKS: &[(End, End)] = &[((CLIENT, 2), (ROUTER, 2)), ((ROUTER, 3), (SERVER, 2))];

struct Net {
    nodes: Vec<Node>,
    now: Instant,
    flying: Vec<(Instant, usize, Frame)>,
    rng: Rng,
    loss: f64,
    /// Segments that arrived at an end.
    seen: Vec<(usize, Segment)>,
}

fn stack(name: &str, networks: &[(&str, &str)], gateways: Option<(&str, &str)>) -> String {
    let mut text = format!("[node]\nname = \"{name}\"\n");
    for (index, (four, six)) in networks.iter().enumerate() {
        text += &format!("[[interface]]\nname = \"eth{index}\"\nbackend = \"memory:{name}{index}\"\n");
        for address in [format!("{four}/24"), format!("{six}/64")] {
            text += &format!("[[address]]\ninterface = \"eth{index}\"\naddress = \"{address}\"\n");
        }
    }
    match gateways {
        Some((four, six)) => {
            for (to, gateway) in [("0.0.0.0/0", four), ("::/0", six)] {
                text += &format!("[[route]]\ndestination = \"{to}\"\ngateway = \"{gateway}\"\n");
            }
            text
        }
        None => text + "[block.ip4]\nforward = true\n[block.ip6]\nforward = true\n",
    }
}

fn node(text: &str, seed: u64, gso_max_bytes: u32) -> Node {
    let stack = Stack::parse("test", text).expect("the stack is sound");
    let mut node = Node::new(&stack, seed).expect("the node is built");
    for (index, section) in stack.interfaces().enumerate() {
        let mut interface = node.describe(&stack, index, section).expect("the interface is sound");
        interface.gso_max_bytes = gso_max_bytes;
        node.add_interface(Instant::ZERO, &interface).expect("the interface is added");
    }
    node.configure(Instant::ZERO, &stack).expect("addresses and routes are set");
    node
}

/// With these commands carried out at the router, in one step.
fn net(gso_max_bytes: u32, loss: f64, commands: &[&str]) -> Net {
    let texts = [
        stack("client", &[("10.0.0.1", "fd00::1")], Some(("10.0.0.254", "fd00::254"))),
        stack("router", &[("10.0.0.254", "fd00::254"), ("10.1.0.254", "fd01::254")], None),
        stack("server", &[("10.1.0.1", "fd01::1")], Some(("10.1.0.254", "fd01::254"))),
    ];
    let nodes = texts.iter().enumerate().map(|(seed, text)| node(text, seed as u64, gso_max_bytes)).collect();
    let mut net =
        Net { nodes, now: Instant::from_millis(1), flying: Vec::new(), rng: Rng::for_name(9, "wires"), loss: 0.0, seen: Vec::new() };
    let ops = commands.iter().map(|line| command::parse(line).unwrap().unwrap()).collect();
    net.nodes[ROUTER].control(net.now, &Message { serial: 1, op: Op::All(ops) }).result.unwrap();
    // Addresses of IPv6 are tentative first.
    net.pass(Duration::from_secs(3));
    net.loss = loss;
    net
}

/// A box where both directions pass.
fn through(gso_max_bytes: u32, loss: f64, kind: &str, parameters: &str) -> Net {
    net(gso_max_bytes, loss, &[&format!("add box {kind} {parameters}"), &format!("insert box {FORWARDED}")])
}

impl Net {
    fn call<R>(&mut self, at: usize, f: impl FnOnce(&mut Sockets, &mut Context<'_>) -> R) -> R {
        let result = self.nodes[at].sockets(self.now, f).expect("the node has sockets");
        self.settle();
        result
    }

    fn settle(&mut self) {
        loop {
            for at in 0..self.nodes.len() {
                for mut frame in self.nodes[at].take_transmit().collect::<Vec<_>>() {
                    if let Some(completion) = frame.take_completion() {
                        self.nodes[at].transmitted(self.now, completion);
                    }
                    let from = (at, frame.meta().interface.0);
                    let to = LINKS.iter().find_map(|(a, b)| if *a == from { Some(*b) } else { (*b == from).then_some(*a) });
                    let (node, interface) = to.expect("every interface leads somewhere");
                    frame.meta_mut().interface = InterfaceIndex(interface);
                    if !self.rng.chance(self.loss) {
                        self.flying.push((self.now + HALF_WAY, node, frame));
                    }
                }
            }
            let now = self.now;
            let arrived: Vec<_> = self.flying.extract_if(.., |(at, ..)| *at <= now).collect();
            if arrived.is_empty() && self.nodes.iter().all(|node| !node.has_transmit()) {
                return;
            }
            for (_, node, frame) in arrived {
                self.see(node, &frame);
                self.nodes[node].receive(self.now, [frame]);
            }
        }
    }

    fn see(&mut self, node: usize, frame: &Frame) {
        let mut frame = frame.clone();
        offload::complete_checksum(&mut frame);
        assert!(offload::verify(&frame), "a checksum is wrong: {frame:?}");
        let Some(headers) = offload::headers(&frame).filter(|headers| headers.protocol.0 == 6) else { return };
        frame.pull_up(frame.len()).unwrap();
        let (segment, _) = Segment::parse(&frame.head()[headers.transport..]).unwrap();
        if node != ROUTER {
            self.seen.push((node, segment));
        }
    }

    /// Moves on to what happens next, within a span of time.
    fn step(&mut self, limit: Duration) {
        let end = self.now + limit;
        let timers = self.nodes.iter().filter_map(Node::next_timer).chain(self.flying.iter().map(|(at, ..)| *at));
        self.now = timers.min().unwrap_or(end).clamp(self.now, end);
        let now = self.now;
        self.nodes.iter_mut().for_each(|node| node.run(now));
        self.settle();
    }

    fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        while self.now < end {
            let left = end.since(self.now);
            self.step(left);
        }
    }

    fn socket(&mut self, at: usize, family: i32, kind: i32, port: u16) -> SocketId {
        self.call(at, |sockets, cx| {
            let socket = sockets.socket(family, kind, 0, cx).unwrap();
            sockets.bind(socket, &any(family, port), cx).unwrap();
            socket
        })
    }

    /// A connection from the client to a port of the server: client, server.
    fn connect(&mut self, family: i32) -> Result<(SocketId, SocketId), Errno> {
        let listener = self.socket(SERVER, family, SOCK_STREAM, 80);
        self.call(SERVER, |sockets, cx| sockets.listen(listener, 8, cx)).unwrap();
        let client = self.socket(CLIENT, family, SOCK_STREAM, 0);
        let _ = self.call(CLIENT, |sockets, cx| sockets.connect(client, &server(family, 80), cx));
        for _ in 0..10_000 {
            if let Ok(server) = self.call(SERVER, |sockets, cx| sockets.accept(listener, cx)) {
                return Ok((client, server));
            }
            if let Some(error) = self.call(CLIENT, |sockets, _| sockets.pending_error(client)) {
                return Err(error);
            }
            self.step(Duration::from_secs(10));
        }
        panic!("no connection after {}", self.now.seconds());
    }

    /// Sends from one end what the other is to get.
    fn send(&mut self, from: usize, sender: SocketId, to: usize, receiver: SocketId, data: &[u8], expected: &[u8]) {
        let (mut sent, mut received) = (0, Vec::new());
        for _ in 0..200_000 {
            if sent < data.len() {
                let piece = Bytes::copy_from_slice(&data[sent..data.len().min(sent + 3001)]);
                sent += self.call(from, |sockets, cx| sockets.send(sender, piece, 0, None, &[], cx)).unwrap_or(0);
            }
            if let Ok(got) = self.call(to, |sockets, cx| sockets.receive(receiver, 1 << 20, 0, cx)) {
                received.extend(got.data.concat());
            }
            if received.len() >= expected.len() {
                break;
            }
            self.step(Duration::from_secs(10));
        }
        assert!(received == expected, "{} of {} bytes, and not the same", received.len(), expected.len());
    }

    /// Both directions, in both families' turn.
    fn transfer(&mut self, family: i32, expected: impl Fn(&[u8]) -> Vec<u8>) {
        let (client, server) = self.connect(family).expect("connected");
        let data: Vec<u8> = (0..TRANSFER_BYTES as u32).map(|at| (at * 7 / 3) as u8).collect();
        let there = expected(&data);
        self.send(CLIENT, client, SERVER, server, &data, &there);
        self.send(SERVER, server, CLIENT, client, &data, &there);
    }

    fn counter(&mut self, name: &str) -> u64 {
        let op = Op::Show(Show::Counters);
        let rows: Value = self.nodes[ROUTER].control(self.now, &Message { serial: 1, op }).result.unwrap();
        let row = rows.as_array().unwrap().iter().find(|row| row["block"] == "box").expect("the router has the box");
        row["counters"][name].as_u64().unwrap_or_else(|| panic!("no counter box.{name}"))
    }

    /// Puts another of its kind in its place.
    fn replace(&mut self, kind: &str) {
        let op = command::parse(&format!("replace box {kind}")).unwrap().unwrap();
        self.nodes[ROUTER].control(self.now, &Message { serial: 1, op }).result.unwrap();
    }
}

fn address(family: i32, v4: [u8; 4], v6: Ipv6Addr, port: u16) -> Vec<u8> {
    let mut bytes = (family as u16).to_ne_bytes().to_vec();
    bytes.extend_from_slice(&port.to_be_bytes());
    if family == AF_INET {
        bytes.extend_from_slice(&v4);
        bytes.extend_from_slice(&[0; 8]);
    } else {
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&v6.octets());
        bytes.extend_from_slice(&[0; 4]);
    }
    bytes
}

fn any(family: i32, port: u16) -> Vec<u8> {
    address(family, [0; 4], Ipv6Addr::UNSPECIFIED, port)
}

fn server(family: i32, port: u16) -> Vec<u8> {
    address(family, [10, 1, 0, 1], Ipv6Addr::new(0xfd01, 0, 0, 0, 0, 0, 0, 1), port)
}

/// Every family, with large frames and without, on good wires and on bad ones.
fn everywhere(test: impl Fn(u32, f64, i32)) {
    for family in [AF_INET, AF_INET6] {
        for gso_max_bytes in [0, 65_536] {
            for loss in [0.0, 0.02] {
                test(gso_max_bytes, loss, family);
            }
        }
    }
}

fn same(data: &[u8]) -> Vec<u8> {
    data.to_vec()
}

#[test]
fn bytes_arrive_without_options() {
    everywhere(|gso, loss, family| {
        let mut net = through(gso, loss, "strip_options", "options=timestamps,sack_permitted,window_scale syn_ack=false others=false");
        net.transfer(family, same);
        let to_server = net.seen.iter().filter(|(node, _)| *node == SERVER);
        assert!(to_server.clone().count() > 10);
        assert!(to_server.clone().all(|(_, segment)| segment.options.timestamps.is_none() && segment.options.window_scale.is_none()));
        assert!(net.counter("Stripped") >= 1);
    });
}

#[test]
fn a_connection_without_the_option_goes_on_where_syns_with_it_are_dropped() {
    let mut net = through(0, 0.0, "drop_options", "options=timestamps others=false");
    let listener = net.socket(SERVER, AF_INET, SOCK_STREAM, 80);
    net.call(SERVER, |sockets, cx| sockets.listen(listener, 8, cx)).unwrap();
    let client = net.socket(CLIENT, AF_INET, SOCK_STREAM, 0);
    let _ = net.call(CLIENT, |sockets, cx| sockets.connect(client, &server(AF_INET, 80), cx));
    net.pass(Duration::from_secs(10));
    assert!(net.call(SERVER, |sockets, cx| sockets.accept(listener, cx)).is_err());
    assert!(net.counter("Dropped") >= 3 && net.seen.is_empty(), "it tries again");
    everywhere(|gso, loss, family| {
        let mut net = through(gso, loss, "drop_options", "options=mptcp unknown=true");
        net.transfer(family, same);
        assert_eq!(net.counter("Dropped"), 0);
    });
}

#[test]
fn bytes_arrive_under_other_numbers() {
    everywhere(|gso, loss, family| {
        let mut net = through(gso, loss, "shift_sequence", "");
        net.transfer(family, same);
        net.replace("shift_sequence");
        assert!(net.counter("Shifted") > 100 && net.counter("Connections") == 1);
    });
}

#[test]
fn bytes_arrive_in_smaller_segments_and_in_larger_ones() {
    everywhere(|gso, loss, family| {
        let mut net = through(gso, loss, "split", "segment_bytes=333");
        net.transfer(family, same);
        assert!(net.counter("Pieces") > 3 * net.counter("Cut"));
        let mut net = net_of_two_boxes(gso, loss);
        net.transfer(family, same);
        assert!(net.counter("Joined") > 1000);
    });
}

/// What the first has split the second joins.
fn net_of_two_boxes(gso: u32, loss: f64) -> Net {
    let second = "insert box split ether:lower";
    net(gso, loss, &["add split split segment_bytes=333", &format!("insert split {FORWARDED}"), "add box coalesce", second])
}

#[test]
fn other_bytes_arrive_when_a_box_replaces_some() {
    for replace in ["\\x00", "\\x10\\x20\\x30\\x40", "two"] {
        everywhere(|gso, loss, family| {
            let mut net = through(gso, loss, "alter_payload", &format!("'find=\\xaa\\xad\\xaf' 'replace={replace}'"));
            let (client, server) = net.connect(family).expect("connected");
            // Lines that are written whole are segments that are found whole.
            let find = [0xaa, 0xad, 0xaf];
            let line: Vec<u8> = [&[1; 400][..], &find, &[2; 300]].concat();
            let new = match replace {
                "two" => b"two".to_vec(),
                "\\x00" => vec![0],
                _ => vec![0x10, 0x20, 0x30, 0x40],
            };
            let changed: Vec<u8> = [&[1; 400][..], &new, &[2; 300]].concat();
            for _ in 0..20 {
                net.send(CLIENT, client, SERVER, server, &line, &changed);
                net.send(SERVER, server, CLIENT, client, &line, &changed);
            }
            assert_eq!(net.counter("Replaced"), 40);
            // And what goes on without a line in it is renumbered only.
            let data: Vec<u8> = (0..TRANSFER_BYTES).map(|at| (at % 100) as u8).collect();
            net.send(CLIENT, client, SERVER, server, &data, &data);
        });
    }
}

#[test]
fn both_ends_hear_of_a_reset_that_neither_has_sent() {
    for (gso, family) in [(0, AF_INET), (65_536, AF_INET), (0, AF_INET6), (65_536, AF_INET6)] {
        for (to, reset) in [("both", [true, true]), ("opener", [true, false]), ("listener", [false, true])] {
            let mut net = through(gso, 0.0, "inject_reset", &format!("after_bytes=100000 to={to} drop_original=true"));
            let (client, server) = net.connect(family).expect("connected");
            for _ in 0..100 {
                let data = Bytes::from(vec![3; 5000]);
                let _ = net.call(CLIENT, |sockets, cx| sockets.send(client, data, 0, None, &[], cx));
                let _ = net.call(SERVER, |sockets, cx| sockets.receive(server, 1 << 20, 0, cx));
                if net.counter("Connections") == 1 {
                    break;
                }
                net.step(Duration::from_millis(1));
            }
            net.pass(Duration::from_millis(HALF_WAY.as_millis() as u64));
            let errors = [(CLIENT, client), (SERVER, server)].map(|(at, socket)| net.call(at, |sockets, _| sockets.pending_error(socket)));
            assert_eq!(errors, reset.map(|reset| reset.then_some(Errno::ECONNRESET)), "{to}");
        }
    }
}

fn get(name: &str) -> Message {
    Message { serial: 1, op: command::parse(&format!("get box.{name}")).unwrap().unwrap() }
}

const NAT: &[&str] = &[
    "add box nat outside=eth1 address=10.1.0.254",
    "insert box:from_wire interfaces:upper ether:lower",
    "insert box:from_node ether:lower interfaces:upper",
];

#[test]
fn a_server_sees_the_router_s_address_and_the_client_gets_its_answers() {
    for (gso, loss) in [(0, 0.0), (0, 0.02), (65_536, 0.0), (65_536, 0.02)] {
        let mut net = net(gso, loss, NAT);
        net.transfer(AF_INET, same);
        assert_eq!(net.counter("Mappings"), 1);
        net.replace("nat");
        assert_eq!(net.nodes[ROUTER].control(net.now, &get("mappings")).result.unwrap()["box"], 1);
    }
    let mut net = net(0, 0.0, NAT);
    net.transfer(AF_INET6, same);
    let (client, other) = (net.socket(CLIENT, AF_INET, SOCK_DGRAM, 5000), net.socket(SERVER, AF_INET, SOCK_DGRAM, 53));
    let send = |net: &mut Net, at: usize, from, to: &[u8]| {
        net.call(at, |sockets, cx| sockets.send(from, Bytes::from_static(b"datagram"), 0, Some(to), &[], cx)).unwrap();
        net.pass(Duration::from_millis(20));
    };
    send(&mut net, CLIENT, client, &server(AF_INET, 53));
    let got = net.call(SERVER, |sockets, cx| sockets.receive(other, 100, 0, cx)).unwrap();
    assert_eq!(got.from[..8], address(AF_INET, [10, 1, 0, 254], Ipv6Addr::UNSPECIFIED, 5000)[..8]);
    send(&mut net, SERVER, other, &got.from);
    let answer = net.call(CLIENT, |sockets, cx| sockets.receive(client, 100, 0, cx)).unwrap();
    assert_eq!(answer.from[..8], server(AF_INET, 53)[..8]);
    // Nobody comes in that nobody asked for.
    send(&mut net, SERVER, other, &address(AF_INET, [10, 0, 0, 1], Ipv6Addr::UNSPECIFIED, 5000));
    assert!(net.call(CLIENT, |sockets, cx| sockets.receive(client, 100, 0, cx)).is_err());
    assert_eq!(net.counter("Refused"), 1);
    // An error from beyond reaches whoever it is about: there is no socket on that port.
    net.call(CLIENT, |sockets, cx| sockets.connect(client, &server(AF_INET, 54), cx)).unwrap();
    send(&mut net, CLIENT, client, &server(AF_INET, 54));
    assert_eq!(net.call(CLIENT, |sockets, cx| sockets.receive(client, 100, 0, cx)).err(), Some(Errno::ECONNREFUSED));
    assert_eq!(net.counter("Errors"), 1);
    // The node itself shares the address.
    let own = net.socket(ROUTER, AF_INET, SOCK_DGRAM, 5000);
    send(&mut net, ROUTER, own, &server(AF_INET, 53));
    let got = net.call(SERVER, |sockets, cx| sockets.receive(other, 100, 0, cx)).unwrap();
    send(&mut net, SERVER, other, &got.from);
    assert!(net.call(ROUTER, |sockets, cx| sockets.receive(own, 100, 0, cx)).is_ok());
}
