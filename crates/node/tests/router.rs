//! Hosts with routers between them, in memory: what crosses, what does not, and who says so.
//!
//! ```text
//! host 10.0.0.1 ─ 10.0.0.254 router 10.1.0.254 ─ (MTU 1400) ─ 10.1.0.1 second 10.2.0.254 ─ 10.2.0.1 far
//! ```

use std::time::Duration;
use weft_core::context::Context;
use weft_core::control::{Message, Op, Show};
use weft_core::{Bytes, Frame, Instant, InterfaceIndex, Value};
use weft_node::{Node, Stack};
use weft_socket::{Errno, SocketId, Sockets};

const AF_INET: i32 = 2;
const SOCK_STREAM: i32 = 1;
const SOCK_DGRAM: i32 = 2;
const SOL_IP: i32 = 0;
const IP_TTL: i32 = 2;
const IP_MTU_DISCOVER: i32 = 10;
const IP_PMTUDISC_DO: i32 = 2;
const IP_RECVERR: i32 = 11;
const IP_MTU: i32 = 14;
const MSG_ERRQUEUE: i32 = 0x2000;

/// A node and one of its interfaces.
type End = (usize, u32);

/// Which ends are joined.
const LINKS: &[(End, End)] = &[((0, 2), (1, 2)), ((1, 3), (2, 2)), ((2, 3), (3, 2))];

struct Net {
    nodes: Vec<Node>,
    now: Instant,
}

fn stack(name: &str, interfaces: &[(&str, u32)], gateway: &str, forward: bool) -> String {
    let mut text = format!("[node]\nname = \"{name}\"\n");
    for (index, (address, mtu)) in interfaces.iter().enumerate() {
        text += &format!("[[interface]]\nname = \"eth{index}\"\nbackend = \"memory:{name}{index}\"\nmtu = {mtu}\n");
        text += &format!("[[address]]\ninterface = \"eth{index}\"\naddress = \"{address}\"\n");
    }
    text + &format!("[[route]]\ndestination = \"default\"\ngateway = \"{gateway}\"\n[block.ip4]\nforward = {forward}\n")
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

fn net(gso_max_bytes: u32) -> Net {
    let texts = [
        stack("host", &[("10.0.0.1/24", 1500)], "10.0.0.254", false),
        include_str!("../../../docs/examples/router.toml").to_owned(),
        stack("second", &[("10.1.0.1/24", 1400), ("10.2.0.254/24", 1500)], "10.1.0.254", true),
        stack("far", &[("10.2.0.1/24", 1500)], "10.2.0.254", false),
    ];
    let nodes = texts.iter().enumerate().map(|(seed, text)| node(text, seed as u64, gso_max_bytes)).collect();
    Net { nodes, now: Instant::from_millis(1) }
}

impl Net {
    fn call<R>(&mut self, at: usize, f: impl FnOnce(&mut Sockets, &mut Context<'_>) -> R) -> R {
        let result = self.nodes[at].sockets(self.now, f).expect("the node has sockets");
        self.settle();
        result
    }

    fn settle(&mut self) {
        loop {
            let mut arrived: Vec<(usize, Frame)> = Vec::new();
            for at in 0..self.nodes.len() {
                for mut frame in self.nodes[at].take_transmit().collect::<Vec<_>>() {
                    if let Some(completion) = frame.take_completion() {
                        self.nodes[at].transmitted(self.now, completion);
                    }
                    let from = (at, frame.meta().interface.0);
                    let to = LINKS.iter().find_map(|(a, b)| if *a == from { Some(*b) } else { (*b == from).then_some(*a) });
                    let (node, interface) = to.expect("every interface leads somewhere");
                    frame.meta_mut().interface = InterfaceIndex(interface);
                    arrived.push((node, frame));
                }
            }
            if arrived.is_empty() && self.nodes.iter().all(|node| !node.has_transmit()) {
                return;
            }
            for (node, frame) in arrived {
                self.nodes[node].receive(self.now, [frame]);
            }
        }
    }

    /// Lets a span of time pass, timer by timer.
    fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        while let Some(next) = self.nodes.iter().filter_map(Node::next_timer).min().filter(|next| *next <= end) {
            self.now = self.now.max(next);
            let now = self.now;
            self.nodes.iter_mut().for_each(|node| node.run(now));
            self.settle();
        }
        self.now = end;
    }

    fn socket(&mut self, at: usize, kind: i32, port: u16) -> SocketId {
        self.call(at, |sockets, cx| {
            let socket = sockets.socket(AF_INET, kind, 0, cx).unwrap();
            sockets.bind(socket, &address([0; 4], port), cx).unwrap();
            socket
        })
    }

    fn option(&mut self, at: usize, socket: SocketId, name: i32, value: i32) {
        self.call(at, |sockets, cx| sockets.set_option(socket, SOL_IP, name, &value.to_ne_bytes(), cx)).unwrap();
    }

    fn send(&mut self, at: usize, socket: SocketId, data: &[u8], to: &[u8]) -> Result<usize, Errno> {
        let sent = self.call(at, |sockets, cx| sockets.send(socket, Bytes::copy_from_slice(data), 0, Some(to), &[], cx));
        self.pass(Duration::from_millis(10));
        sent
    }

    fn received(&mut self, at: usize, socket: SocketId) -> Option<(Vec<u8>, Vec<u8>)> {
        self.pass(Duration::from_millis(10));
        let got = self.call(at, |sockets, cx| sockets.receive(socket, 70_000, 0, cx)).ok()?;
        Some((got.data.concat(), got.from))
    }

    /// The oldest entry of the error queue: ICMP type, code, and who says so.
    fn error(&mut self, at: usize, socket: SocketId) -> Option<(u8, u8, [u8; 4])> {
        let control = self.call(at, |sockets, cx| sockets.receive(socket, 2000, MSG_ERRQUEUE, cx)).ok()?.control;
        // struct cmsghdr, struct sock_extended_err, struct sockaddr_in
        Some((control[21], control[22], control[36..40].try_into().unwrap()))
    }

    fn mtu(&mut self, at: usize, to: [u8; 4]) -> i32 {
        let socket = self.socket(at, SOCK_DGRAM, 0);
        let read = self.call(at, |sockets, cx| {
            sockets.connect(socket, &address(to, 9), cx).unwrap();
            let value = sockets.get_option(socket, SOL_IP, IP_MTU, 4, cx).unwrap();
            sockets.close(socket, cx);
            value
        });
        i32::from_ne_bytes(read.try_into().unwrap())
    }

    fn counter(&mut self, at: usize, name: &str) -> u64 {
        let op = Op::Show(Show::Counters);
        let rows: Value = self.nodes[at].control(self.now, &Message { serial: 1, op }).result.unwrap();
        let row = rows.as_array().unwrap().iter().find(|row| row["block"] == "ip4").expect("the node has ip4");
        row["counters"][name].as_u64().unwrap_or_else(|| panic!("no counter ip4.{name}"))
    }
}

fn address(host: [u8; 4], port: u16) -> Vec<u8> {
    let mut bytes = (AF_INET as u16).to_ne_bytes().to_vec();
    bytes.extend_from_slice(&port.to_be_bytes());
    bytes.extend_from_slice(&host);
    bytes.extend_from_slice(&[0; 8]);
    bytes
}

const FAR: [u8; 4] = [10, 2, 0, 1];

#[test]
fn probes_with_growing_ttl_are_answered_by_each_hop() {
    let mut net = net(0);
    let socket = net.socket(0, SOCK_DGRAM, 0);
    net.option(0, socket, IP_RECVERR, 1);
    for (ttl, expected) in [(1, (11, 0, [10, 0, 0, 254])), (2, (11, 0, [10, 1, 0, 1])), (3, (3, 3, FAR))] {
        net.option(0, socket, IP_TTL, ttl);
        net.send(0, socket, b"probe", &address(FAR, 33_434 + ttl as u16)).unwrap();
        assert_eq!(net.error(0, socket), Some(expected), "with {ttl} hops");
    }
    assert_eq!((net.counter(1, "ForwDatagrams"), net.counter(1, "InHdrErrors")), (4, 1), "two probes, and two answers from behind");
    // Where there is no way, the router says so.
    let nowhere = [192, 0, 2, 1];
    net.option(0, socket, IP_TTL, 64);
    net.send(0, socket, b"probe", &address(nowhere, 9)).unwrap();
    assert_eq!(net.error(0, socket), Some((3, 0, [10, 0, 0, 254])));
}

#[test]
fn the_largest_datagram_crosses_a_smaller_link_and_comes_back() {
    let mut net = net(0);
    let (client, server) = (net.socket(0, SOCK_DGRAM, 0), net.socket(3, SOCK_DGRAM, 7));
    let payload: Vec<u8> = (0..65_507u32).map(|at| (at * 7 / 3) as u8).collect();
    // 45 fragments of 1480 bytes each become two on the smaller link: all but the last.
    assert_eq!(net.send(0, client, &payload, &address(FAR, 7)), Ok(65_507));
    let (data, from) = net.received(3, server).expect("it arrives");
    assert!(data == payload);
    net.send(3, server, &data, &from).unwrap();
    assert!(net.received(0, client).expect("it comes back").0 == payload);
    assert_eq!((net.counter(1, "FragCreates"), net.counter(0, "ReasmOKs"), net.counter(3, "ReasmOKs")), (2 * 44, 1, 1));
    assert_eq!((net.counter(1, "ReasmReqds"), net.counter(2, "ReasmReqds")), (0, 0), "routers put nothing together");
}

#[test]
fn the_path_mtu_is_learnt_by_udp_and_used_for_what_follows() {
    let mut net = net(0);
    let (client, server) = (net.socket(0, SOCK_DGRAM, 0), net.socket(3, SOCK_DGRAM, 7));
    net.option(0, client, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
    net.option(0, client, IP_RECVERR, 1);
    assert_eq!(net.mtu(0, FAR), 1500);
    net.send(0, client, &[1; 1472], &address(FAR, 7)).unwrap();
    assert_eq!(net.error(0, client), Some((3, 4, [10, 0, 0, 254])));
    assert_eq!((net.mtu(0, FAR), net.received(3, server)), (1400, None));
    net.send(0, client, &[1; 1372], &address(FAR, 7)).unwrap();
    assert_eq!(net.received(3, server).unwrap().0.len(), 1372);
    net.pass(Duration::from_secs(601));
    assert_eq!(net.mtu(0, FAR), 1500, "after ten minutes it may have grown");
}

#[test]
fn tcp_crosses_the_smaller_link_with_large_frames_and_without() {
    for gso_max_bytes in [0, 65_536] {
        let mut net = net(gso_max_bytes);
        let listener = net.socket(3, SOCK_STREAM, 80);
        net.call(3, |sockets, cx| sockets.listen(listener, 8, cx)).unwrap();
        let client = net.socket(0, SOCK_STREAM, 0);
        let _ = net.call(0, |sockets, cx| sockets.connect(client, &address(FAR, 80), cx));
        net.pass(Duration::from_millis(10));
        let server = net.call(3, |sockets, cx| sockets.accept(listener, cx)).expect("connected");
        let data: Vec<u8> = (0..3_000_000u32).map(|at| (at * 7 / 3) as u8).collect();
        let (mut sent, mut received) = (0, Vec::new());
        for _ in 0..100_000 {
            if let Ok(bytes) = net.call(0, |sockets, cx| sockets.send(client, Bytes::copy_from_slice(&data[sent..]), 0, None, &[], cx)) {
                sent += bytes;
            }
            if let Ok(got) = net.call(3, |sockets, cx| sockets.receive(server, 1 << 20, 0, cx)) {
                received.extend(got.data.concat());
            }
            if received.len() == data.len() {
                break;
            }
            net.pass(Duration::from_millis(1));
        }
        assert!(received == data, "{} of {} bytes", received.len(), data.len());
        assert_eq!(net.mtu(0, FAR), 1400, "the first segments were too large, and the router said so");
        assert_eq!(net.counter(1, "FragCreates"), 0);
    }
}
