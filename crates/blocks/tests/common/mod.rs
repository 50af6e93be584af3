//! A node's default graph without tcp and sockets: two ends stand in for them. Frames go in and out as bytes.
#![allow(dead_code, reason = "each test file uses its part")]

use std::net::Ipv4Addr;
use weft_core::control::End;
use weft_core::*;
use weft_wire::ethernet::{self, EtherType, Mac};
use weft_wire::{Protocol, arp, checksum, icmpv4, ipv4, udp};

pub const OUR_MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
pub const PEER_MAC: Mac = Mac([2, 0, 0, 0, 0, 2]);
pub const OUR_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub const PEER_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
pub const BROADCAST_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 255);
pub const ETH0: InterfaceIndex = InterfaceIndex(2);

/// Stands in for the sockets block: what comes in leaves the graph, what is injected goes down.
static SOCKETS: Kind = Kind {
    name: "sockets",
    inputs: &[
        Port::optional("udp", Carries::Datagram, "received payload"),
        Port::optional("error", Carries::Error, "errors"),
        Port::optional("send", Carries::Datagram, "payload to send"),
        Port::optional("refuse", Carries::Error, "datagrams without a socket"),
    ],
    outputs: &[
        Port::optional("udp", Carries::Datagram, "payload to send"),
        Port::optional("unreachable", Carries::Error, "datagrams without a socket"),
        Port::outside("seen", Carries::Datagram, "what came in"),
        Port::outside("errors", Carries::Error, "errors that came in"),
    ],
    parameters: &[Parameter {
        name: "listening",
        value: ParameterType::Bool,
        default: "true",
        live: true,
        doc: "there is a socket on every port",
    }],
    counters: &[Counter { name: "Completed", text: "bytes reported as sent" }],
    asks: Table::ALL,
    ..Kind::EMPTY
};

struct Sockets {
    listening: bool,
    counters: [u64; 1],
}

impl Block for Sockets {
    fn kind(&self) -> &'static Kind {
        &SOCKETS
    }
    fn process(&mut self, port: InPort, vector: &mut Vector, _cx: &mut Context<'_>) {
        let listening = self.listening;
        match port.0 {
            0 if listening => vector.forward_all(OutPort(2)),
            0 => vector.each(|frame| {
                let at = frame.meta().network_at;
                frame.rewind(at);
                let from = frame.meta().dst;
                frame.meta_mut().error = Some(IcmpError { kind: IcmpErrorKind::PortUnreachable, from });
                Verdict::Forward(OutPort(1))
            }),
            1 => vector.forward_all(OutPort(3)),
            2 => vector.forward_all(OutPort(0)),
            _ => vector.forward_all(OutPort(1)),
        }
    }
    fn completed(&mut self, _token: u64, bytes: u32, _cx: &mut Context<'_>) {
        self.counters[0] += u64::from(bytes);
    }
    fn set(&mut self, _name: &str, value: Value, _cx: &mut Context<'_>) {
        self.listening = value.as_bool().unwrap();
    }
    fn get(&self, name: &str, _now: Instant) -> Option<Value> {
        (name == "listening").then(|| self.listening.into())
    }
    fn counters(&self) -> &[u64] {
        &self.counters
    }
    fn as_any_mut(&mut self) -> &mut dyn std::any::Any {
        self
    }
}

/// Stands in for tcp: what comes in leaves the graph.
static TCP: Kind = Kind {
    name: "tcp",
    inputs: &[Port::optional("lower", Carries::Transport, "segments"), Port::optional("error", Carries::Error, "errors")],
    outputs: &[
        Port::optional("ip4", Carries::Transport, "segments to send"),
        Port::outside("seen", Carries::Transport, "what came in"),
        Port::outside("errors", Carries::Error, "errors that came in"),
    ],
    ..Kind::EMPTY
};

struct Tcp;

impl Block for Tcp {
    fn kind(&self) -> &'static Kind {
        &TCP
    }
    fn process(&mut self, port: InPort, vector: &mut Vector, _cx: &mut Context<'_>) {
        vector.forward_all(OutPort(1 + port.0));
    }
    fn as_any_mut(&mut self) -> &mut dyn std::any::Any {
        self
    }
}

const BLOCKS: &[&str] = &["interfaces", "ether", "loopback", "arp", "ip4", "icmp4", "udp", "sockets", "tcp"];

/// The edges of docs/architecture/graph.md, less those of streams.
const EDGES: &[&str] = &[
    "interfaces:upper ether:lower",
    "ether:lower interfaces:upper",
    "ether:ip4 ip4:lower",
    "ether:arp arp:lower",
    "arp:lower ether:upper",
    "ip4:lower arp:upper",
    "ip4:loopback loopback:in",
    "loopback:out ip4:lower",
    "ip4:tcp tcp:lower",
    "ip4:udp udp:lower",
    "ip4:icmp icmp4:lower",
    "tcp:ip4 ip4:upper",
    "udp:ip4 ip4:upper",
    "icmp4:lower ip4:upper",
    "ip4:error icmp4:error",
    "arp:failed icmp4:error",
    "sockets:unreachable icmp4:error",
    "icmp4:tcp tcp:error",
    "icmp4:udp udp:error",
    "udp:upper sockets:udp",
    "udp:error sockets:error",
    "sockets:udp udp:upper",
];

pub struct Node {
    pub engine: Engine,
    pub now: Instant,
    serial: u64,
    left: Vec<engine::Outgoing>,
}

impl Node {
    /// The default graph with nothing configured.
    pub fn bare(mode: Mode) -> Node {
        let mut rows = weft_blocks::table::rows();
        rows.push(BlockRow { kind: &SOCKETS, make: |_| Ok(Box::new(Sockets { listening: true, counters: [0] })) });
        rows.push(BlockRow { kind: &TCP, make: |_| Ok(Box::new(Tcp)) });
        let mut node = Node {
            engine: Engine::new(mode, BlockTable::new(rows), Rng::for_name(1, "node")),
            now: Instant::ZERO,
            serial: 0,
            left: Vec::new(),
        };
        let add = |name: &&str| Op::Add { name: (*name).to_owned(), kind: (*name).to_owned(), parameters: Default::default() };
        let bind = |edge: &&str| {
            let (from, to) = edge.split_once(' ').unwrap();
            Op::Bind { from: End::parse(from), to: End::parse(to) }
        };
        node.control(Op::All(BLOCKS.iter().map(add).chain(EDGES.iter().map(bind)).collect())).unwrap();
        transaction::check_complete(node.engine.graph()).unwrap();
        node
    }

    /// eth0 (2) with 10.0.0.1/24, and a default route to 10.0.0.254.
    pub fn new() -> Node {
        Node::with_mode(Mode::Inline)
    }

    pub fn with_mode(mode: Mode) -> Node {
        let mut node = Node::bare(mode);
        let mac = OUR_MAC.to_string();
        node.exec("interfaces", "add", serde_json::json!({"name": "eth0", "mac": mac})).unwrap();
        node.exec("ip4", "address_add", serde_json::json!({"interface": "eth0", "address": "10.0.0.1/24"})).unwrap();
        node.exec("ip4", "route_add", serde_json::json!({"destination": "default", "gateway": "10.0.0.254"})).unwrap();
        node.engine.take_alerts();
        node
    }

    /// As [`Node::new`], and the peer's address is known for good.
    pub fn with_peer() -> Node {
        let mut node = Node::new();
        let arguments = serde_json::json!({"interface": "eth0", "address": PEER_IP.to_string(), "mac": PEER_MAC.to_string()});
        node.exec("arp", "add", arguments).unwrap();
        node
    }

    pub fn control(&mut self, op: Op) -> Result<Value, ControlError> {
        self.serial += 1;
        let reply = self.engine.control(self.now, &Message { serial: self.serial, op });
        assert_eq!(reply.serial, self.serial);
        reply.result
    }

    /// Runs a procedure and returns that block's own answer.
    pub fn exec(&mut self, block: &str, procedure: &str, arguments: Value) -> Result<Value, ControlError> {
        let op = Op::Exec { target: Selector::parse(block), procedure: procedure.to_owned(), arguments };
        self.control(op).map(|value| value[block].clone())
    }

    pub fn set(&mut self, block: &str, name: &str, value: Value) {
        self.control(Op::Set { target: Selector::parse(block), name: name.to_owned(), value }).unwrap();
    }

    pub fn id(&self, block: &str) -> BlockId {
        self.engine.graph().find(block).unwrap()
    }

    /// A frame comes in on eth0; everything that follows at once happens; what leaves eth0 is returned.
    pub fn receive(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        self.receive_frame(Frame::ingress(bytes))
    }

    pub fn receive_frame(&mut self, mut frame: Frame) -> Vec<Vec<u8>> {
        if frame.meta().interface == InterfaceIndex::NONE {
            frame.meta_mut().interface = ETH0;
        }
        let interfaces = self.id("interfaces");
        self.engine.inject(self.now, interfaces, InPort(0), [frame]);
        self.settle();
        self.wire()
    }

    /// Runs the timers that are due now (the loopback's).
    pub fn settle(&mut self) {
        while self.engine.next_timer().is_some_and(|at| at <= self.now) {
            self.engine.run(self.now);
        }
    }

    /// Lets time pass, timer by timer.
    pub fn advance(&mut self, by: Duration) -> Vec<Vec<u8>> {
        let end = self.now + by;
        let mut out = Vec::new();
        while let Some(at) = self.engine.next_timer().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.engine.run(self.now);
            out.extend(self.wire());
        }
        self.now = end;
        out
    }

    /// What left through eth0 so far, as bytes with checksums completed.
    pub fn wire(&mut self) -> Vec<Vec<u8>> {
        let id = self.id("interfaces");
        self.take(id).into_iter().map(|frame| completed(&frame)).collect()
    }

    /// What left the graph through a block, in order.
    pub fn take(&mut self, block: BlockId) -> Vec<Frame> {
        self.left.extend(self.engine.take_outgoing());
        let (wanted, others) = std::mem::take(&mut self.left).into_iter().partition(|outgoing| outgoing.block == block);
        self.left = others;
        let wanted: Vec<engine::Outgoing> = wanted;
        wanted.into_iter().map(|outgoing| outgoing.frame).collect()
    }

    /// What reached the sockets (payload, and errors), or tcp.
    pub fn seen(&mut self, block: &str) -> Vec<Frame> {
        let id = self.id(block);
        self.take(id)
    }

    /// A program sends a datagram.
    pub fn send(&mut self, payload: &[u8], src: Ipv4Addr, src_port: u16, dst: Ipv4Addr, dst_port: u16) -> Vec<Vec<u8>> {
        self.send_frame(datagram(payload, src, src_port, dst, dst_port))
    }

    pub fn send_frame(&mut self, frame: Frame) -> Vec<Vec<u8>> {
        let sockets = self.id("sockets");
        self.engine.inject(self.now, sockets, InPort(2), [frame]);
        self.settle();
        self.wire()
    }

    pub fn counter(&self, block: &str, name: &str) -> u64 {
        let id = self.id(block);
        let at = self.engine.graph().kind(id).unwrap().counters.iter().position(|row| row.name == name).unwrap();
        self.engine.graph().block(id).unwrap().counters()[at]
    }

    pub fn drops(&self, block: &str, reason: Reason) -> u64 {
        self.engine.graph().drops(self.id(block)).find(|(of, _)| *of == reason).map_or(0, |(_, count)| count)
    }

    /// Drops of every block, as "block reason count".
    pub fn all_drops(&self) -> Vec<String> {
        let graph = self.engine.graph();
        let rows = graph.ids().flat_map(|id| graph.drops(id).map(move |(reason, count)| (id, reason, count)));
        rows.map(|(id, reason, count)| format!("{} {} {count}", graph.name(id), reason.name())).collect()
    }

    pub fn list(&mut self, table: Table) -> Vec<Value> {
        self.control(Op::List(table)).unwrap().as_array().unwrap().clone()
    }
}

pub fn datagram(payload: &[u8], src: Ipv4Addr, src_port: u16, dst: Ipv4Addr, dst_port: u16) -> Frame {
    let mut frame = Frame::egress();
    frame.append(Bytes::copy_from_slice(payload));
    let meta = frame.meta_mut();
    (meta.src, meta.dst, meta.src_port, meta.dst_port) = (src.into(), dst.into(), src_port, dst_port);
    frame
}

/// The bytes as a wire would have them.
pub fn completed(frame: &Frame) -> Vec<u8> {
    let mut frame = frame.clone();
    offload::complete_checksum(&mut frame);
    frame.to_vec()
}

pub fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

pub fn ethernet(dst: Mac, src: Mac, ether_type: EtherType, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; ethernet::HEADER_LEN];
    ethernet::Header { dst, src, vlan: None, ether_type }.emit(&mut bytes);
    bytes.extend_from_slice(payload);
    bytes
}

pub fn arp_packet(operation: arp::Operation, sender: (Mac, Ipv4Addr), target: (Mac, Ipv4Addr)) -> Vec<u8> {
    let mut bytes = vec![0; arp::LEN];
    arp::Packet { operation, sender_mac: sender.0, sender_ip: sender.1, target_mac: target.0, target_ip: target.1 }.emit(&mut bytes);
    bytes
}

pub fn arp_request(dst: Mac, sender: (Mac, Ipv4Addr), target: Ipv4Addr) -> Vec<u8> {
    ethernet(dst, sender.0, EtherType::ARP, &arp_packet(arp::Operation::Request, sender, (Mac::ZERO, target)))
}

pub fn arp_reply(sender: (Mac, Ipv4Addr), target: (Mac, Ipv4Addr)) -> Vec<u8> {
    ethernet(target.0, sender.0, EtherType::ARP, &arp_packet(arp::Operation::Reply, sender, target))
}

pub fn ip_packet(header: ipv4::Header, payload: &[u8]) -> Vec<u8> {
    let header = ipv4::Header { total_len: (header.header_len() + payload.len()) as u16, ..header };
    let mut bytes = vec![0; header.header_len()];
    header.emit(&mut bytes);
    bytes.extend_from_slice(payload);
    bytes
}

pub fn header(src: Ipv4Addr, dst: Ipv4Addr, protocol: Protocol) -> ipv4::Header {
    ipv4::Header { src, dst, protocol, ..ipv4::Header::default() }
}

/// An IP packet in a frame from the peer to us.
pub fn from_peer(header: ipv4::Header, payload: &[u8]) -> Vec<u8> {
    ethernet(OUR_MAC, PEER_MAC, EtherType::IPV4, &ip_packet(header, payload))
}

pub fn icmp(message: icmpv4::Message, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; message.header_len()];
    bytes.extend_from_slice(payload);
    message.emit(&mut bytes);
    bytes
}

pub fn udp_segment(src: Ipv4Addr, src_port: u16, dst: Ipv4Addr, dst_port: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; udp::LEN];
    let length = (udp::LEN + payload.len()) as u16;
    udp::Header { src_port, dst_port, length, checksum: 0 }.emit(&mut bytes);
    bytes.extend_from_slice(payload);
    let sum = checksum::pseudo_v4(src, dst, Protocol::UDP.0, u32::from(length)).add_bytes(&bytes).finish_udp();
    bytes[udp::CHECKSUM_OFFSET..udp::CHECKSUM_OFFSET + 2].copy_from_slice(&sum.to_be_bytes());
    bytes
}

pub fn ping(src: Ipv4Addr, dst: Ipv4Addr, payload: &[u8]) -> Vec<u8> {
    let message = icmpv4::Message::EchoRequest { identifier: 0x1234, sequence: 7 };
    ip_packet(header(src, dst, Protocol::ICMP), &icmp(message, payload))
}

/// Takes a frame apart: Ethernet header, IP header, payload of IP.
pub fn parse_ip(bytes: &[u8]) -> (ethernet::Header, ipv4::Header, Vec<u8>) {
    let (ether, at) = ethernet::Header::parse(bytes).unwrap();
    assert_eq!(ether.ether_type, EtherType::IPV4);
    let (ip, header_len) = ipv4::Header::parse(&bytes[at..]).unwrap();
    assert!(ipv4::verify_checksum(&bytes[at..]));
    assert_eq!(usize::from(ip.total_len), bytes.len() - at);
    (ether, ip, bytes[at + header_len..].to_vec())
}

pub fn parse_arp(bytes: &[u8]) -> (ethernet::Header, arp::Packet) {
    let (ether, at) = ethernet::Header::parse(bytes).unwrap();
    assert_eq!(ether.ether_type, EtherType::ARP);
    (ether, arp::Packet::parse(&bytes[at..]).unwrap())
}
