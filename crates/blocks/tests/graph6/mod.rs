//! The IPv6 half of a node's graph. A resolver that knows everyone stands in for nd, ends for sockets and tcp. Frames go in and out as bytes.
#![allow(dead_code, reason = "each test file uses its part")]

use std::net::{IpAddr, Ipv6Addr};
use weft_core::control::End;
use weft_core::*;
use weft_wire::ethernet::{self, EtherType, Mac};
use weft_wire::ipv6::{self, Header};
use weft_wire::{Protocol, checksum, icmpv6, udp};

pub const OUR_MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
pub const PEER_MAC: Mac = Mac([2, 0, 0, 0, 0, 2]);
/// fd77::1 and fe80::ff:fe00:1 of eth0; fd77::2 is the peer, fd77::fe the router.
pub const OUR_IP: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1);
pub const OUR_LINK_IP: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0xff, 0xfe00, 1);
pub const PEER_IP: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 2);
pub const PEER_LINK_IP: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0xff, 0xfe00, 2);
pub const FAR_IP: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 9);
pub const ETH0: InterfaceIndex = InterfaceIndex(2);
pub const ETH1: InterfaceIndex = InterfaceIndex(3);

pub fn ip(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

/// Knows the link-layer address of everyone: 02:00:00 and the last bytes of the IP address.
static RESOLVER: Kind = Kind {
    name: "resolver",
    inputs: &[Port::required("upper", Carries::Link, "packets")],
    outputs: &[Port::required("lower", Carries::Link, "packets")],
    ..Kind::EMPTY
};

struct Resolver;

impl Block for Resolver {
    fn kind(&self) -> &'static Kind {
        &RESOLVER
    }
    fn process(&mut self, _port: InPort, vector: &mut Vector, _cx: &mut Context<'_>) {
        vector.each(|frame| {
            let Some(IpAddr::V6(next_hop)) = frame.meta().next_hop else { return Verdict::Drop(Reason::NeighbourFailed) };
            let [.., a, b, c, d] = next_hop.octets();
            frame.meta_mut().dst_mac = if next_hop.is_multicast() { Mac([0x33, 0x33, a, b, c, d]) } else { Mac([2, 0, 0, 0, 0, d]) };
            Verdict::Forward(OutPort(0))
        });
    }
    fn as_any_mut(&mut self) -> &mut dyn std::any::Any {
        self
    }
}

/// Where things end: what comes in leaves the graph, what is injected goes down.
static ENDS: Kind = Kind {
    name: "ends",
    inputs: &[
        Port::optional("transport", Carries::Transport, "segments"),
        Port::optional("datagram", Carries::Datagram, "payload"),
        Port::optional("error", Carries::Error, "errors"),
        Port::optional("send", Carries::Datagram, "payload to send"),
        Port::optional("send_transport", Carries::Transport, "segments to send"),
        Port::optional("send_packet", Carries::Link, "packets to send"),
        Port::optional("refuse", Carries::Error, "received packets to complain about"),
    ],
    outputs: &[
        Port::outside("transports", Carries::Transport, "what came in"),
        Port::outside("datagrams", Carries::Datagram, "what came in"),
        Port::outside("errors", Carries::Error, "errors that came in"),
        Port::optional("send", Carries::Datagram, "payload to send"),
        Port::optional("send_transport", Carries::Transport, "segments to send"),
        Port::optional("send_packet", Carries::Link, "packets to send"),
        Port::optional("refuse", Carries::Error, "received packets to complain about"),
    ],
    ..Kind::EMPTY
};

struct Ends;

impl Block for Ends {
    fn kind(&self) -> &'static Kind {
        &ENDS
    }
    fn process(&mut self, port: InPort, vector: &mut Vector, _cx: &mut Context<'_>) {
        vector.forward_all(OutPort(port.0));
    }
    fn as_any_mut(&mut self) -> &mut dyn std::any::Any {
        self
    }
}

/// Stands for the owners of neighbours and groups where a test wants one.
static OWNERS: Kind =
    Kind { name: "owners", owns: &[Table::Neighbours(table::Family::V6), Table::Groups(table::Family::V6)], ..Kind::EMPTY };

/// The group that somebody wants.
pub const WANTED_GROUP: Ipv6Addr = Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 0, 0x77);

struct Owners;

impl Block for Owners {
    fn kind(&self) -> &'static Kind {
        &OWNERS
    }
    fn query(&self, query: &Query, _now: Instant) -> Answer {
        match query {
            Query::List(_) => Answer::List(Vec::new()),
            Query::Wanted { group, interface, .. } => Answer::Wanted(*group == IpAddr::V6(WANTED_GROUP) && *interface == ETH0),
            _ => Answer::None,
        }
    }
    fn as_any_mut(&mut self) -> &mut dyn std::any::Any {
        self
    }
}

const BLOCKS: &[(&str, &str)] = &[
    ("interfaces", "interfaces"),
    ("ether", "ether"),
    ("loopback6", "loopback"),
    ("resolver", "resolver"),
    ("ip6", "ip6"),
    ("icmp6", "icmp6"),
    ("udp", "udp"),
    ("tcp", "ends"),
    ("sockets", "ends"),
    ("ping", "ends"),
    ("raw", "ends"),
    ("nd", "ends"),
    ("mld", "ends"),
];

const EDGES: &[&str] = &[
    "interfaces:upper ether:lower",
    "ether:lower interfaces:upper",
    "ether:ip6 ip6:lower",
    "ip6:lower resolver:upper",
    "resolver:lower ether:upper",
    "ip6:loopback loopback6:in",
    "loopback6:out ip6:lower",
    "ip6:tcp tcp:transport",
    "ip6:udp udp:lower",
    "ip6:icmp icmp6:lower",
    "ip6:raw raw:transport",
    "ip6:error icmp6:error",
    "icmp6:lower ip6:upper",
    "icmp6:tcp tcp:error",
    "icmp6:udp udp:error",
    "icmp6:other raw:error",
    "icmp6:sockets ping:transport",
    "icmp6:nd nd:transport",
    "icmp6:mld mld:transport",
    "udp:ip6 ip6:upper",
    "udp:ip4 tcp:transport",
    "udp:upper sockets:datagram",
    "udp:error sockets:error",
    "sockets:send udp:upper",
    "sockets:refuse icmp6:error",
    "raw:send_packet ip6:packet",
    "raw:send_transport ip6:upper",
];

pub struct Node {
    pub engine: Engine,
    pub now: Instant,
    serial: u64,
    left: Vec<engine::Outgoing>,
}

impl Node {
    /// The graph with nothing configured.
    pub fn bare(with_owners: bool) -> Node {
        let mut rows = weft_blocks::table::rows();
        rows.push(BlockRow { kind: &RESOLVER, make: |_| Ok(Box::new(Resolver)) });
        rows.push(BlockRow { kind: &ENDS, make: |_| Ok(Box::new(Ends)) });
        rows.push(BlockRow { kind: &OWNERS, make: |_| Ok(Box::new(Owners)) });
        let engine = Engine::new(Mode::Inline, BlockTable::new(rows), Rng::for_name(1, "node"));
        let mut node = Node { engine, now: Instant::ZERO, serial: 0, left: Vec::new() };
        let add = |(name, kind): &(&str, &str)| Op::Add { name: (*name).into(), kind: (*kind).into(), parameters: Default::default() };
        let bind = |edge: &&str| {
            let (from, to) = edge.split_once(' ').unwrap();
            Op::Bind { from: End::parse(from), to: End::parse(to) }
        };
        let owners = with_owners.then_some(("owners", "owners"));
        node.control(Op::All(BLOCKS.iter().chain(owners.iter()).map(add).chain(EDGES.iter().map(bind)).collect())).unwrap();
        transaction::check_complete(node.engine.graph()).unwrap();
        node
    }

    /// eth0 (2) with fd77::1/64 and its link-local address, and a default route to fd77::fe.
    pub fn new() -> Node {
        Node::configured(Node::bare(false))
    }

    pub fn configured(mut node: Node) -> Node {
        node.exec("interfaces", "add", serde_json::json!({"name": "eth0", "mac": OUR_MAC.to_string()})).unwrap();
        node.exec("ip6", "address_add", serde_json::json!({"interface": "eth0", "address": "fd77::1/64"})).unwrap();
        node.exec("ip6", "route_add", serde_json::json!({"destination": "default", "gateway": "fd77::fe"})).unwrap();
        node.engine.take_alerts();
        node
    }

    /// A router: eth1 (3) with fd88::1/64 beside eth0, and forwarding.
    pub fn router() -> Node {
        let mut node = Node::new();
        node.exec("interfaces", "add", serde_json::json!({"name": "eth1", "mac": "02:00:00:00:01:01", "mtu": 1400})).unwrap();
        node.exec("ip6", "address_add", serde_json::json!({"interface": "eth1", "address": "fd88::1/64"})).unwrap();
        node.set("ip6", "forward", true.into());
        node
    }

    pub fn control(&mut self, op: Op) -> Result<Value, ControlError> {
        self.serial += 1;
        self.engine.control(self.now, &Message { serial: self.serial, op }).result
    }

    pub fn exec(&mut self, block: &str, procedure: &str, arguments: Value) -> Result<Value, ControlError> {
        let op = Op::Exec { target: Selector::parse(block), procedure: procedure.to_owned(), arguments };
        self.control(op).map(|value| value[block].clone())
    }

    /// Why a procedure of ip6 is refused.
    pub fn refused(&mut self, procedure: &str, arguments: Value) -> Refused {
        match self.exec("ip6", procedure, arguments) {
            Err(ControlError::ExecFailed { why, .. }) => why,
            other => panic!("{procedure} gave {other:?}"),
        }
    }

    pub fn set(&mut self, block: &str, name: &str, value: Value) {
        self.control(Op::Set { target: Selector::parse(block), name: name.to_owned(), value }).unwrap();
    }

    pub fn id(&self, block: &str) -> BlockId {
        self.engine.graph().find(block).unwrap()
    }

    /// As if another block had told ip6.
    pub fn tell(&mut self, change: Change) {
        let (id, now) = (self.id("ip6"), self.now);
        let table = Table::Routes(table::Family::V6);
        self.engine.with(now, id, |block, cx| block.change(table, change, cx));
    }

    /// A frame comes in on eth0; everything that follows at once happens; what leaves is returned.
    pub fn receive(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        self.receive_frame(Frame::ingress(bytes))
    }

    pub fn receive_frame(&mut self, mut frame: Frame) -> Vec<Vec<u8>> {
        if frame.meta().interface == InterfaceIndex::NONE {
            frame.meta_mut().interface = ETH0;
        }
        self.inject("interfaces", 0, frame)
    }

    pub fn inject(&mut self, block: &str, port: u8, frame: Frame) -> Vec<Vec<u8>> {
        let id = self.id(block);
        self.engine.inject(self.now, id, InPort(port), [frame]);
        self.settle();
        self.wire()
    }

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

    /// What left through the interfaces so far, as bytes with checksums completed.
    pub fn wire(&mut self) -> Vec<Vec<u8>> {
        self.seen("interfaces").iter().map(completed).collect()
    }

    /// What left the graph through a block, in order.
    pub fn seen(&mut self, block: &str) -> Vec<Frame> {
        let id = self.id(block);
        self.left.extend(self.engine.take_outgoing());
        let (wanted, others) = std::mem::take(&mut self.left).into_iter().partition(|outgoing| outgoing.block == id);
        self.left = others;
        let wanted: Vec<engine::Outgoing> = wanted;
        wanted.into_iter().map(|outgoing| outgoing.frame).collect()
    }

    /// A program sends a datagram; an unspecified source is chosen.
    pub fn send(&mut self, payload: &[u8], src: Ipv6Addr, dst: Ipv6Addr) -> Vec<Vec<u8>> {
        self.inject("sockets", 3, datagram(payload, src, dst))
    }

    pub fn counter(&self, block: &str, name: &str) -> u64 {
        let id = self.id(block);
        let at = self.engine.graph().kind(id).unwrap().counters.iter().position(|row| row.name == name).unwrap();
        self.engine.graph().block(id).unwrap().counters()[at]
    }

    pub fn drops(&self, block: &str, reason: Reason) -> u64 {
        self.engine.graph().drops(self.id(block)).find(|(of, _)| *of == reason).map_or(0, |(_, count)| count)
    }

    pub fn list(&mut self, table: Table) -> Vec<Value> {
        self.control(Op::List(table)).unwrap().as_array().unwrap().clone()
    }

    pub fn route(&self, destination: Ipv6Addr, source: Option<Ipv6Addr>, interface: Option<u32>) -> Option<table::RouteAnswer> {
        let query = Query::Route {
            destination: destination.into(),
            source: source.map(Into::into),
            interface: interface.map(InterfaceIndex),
            traffic: weft_core::table::Traffic::default(),
        };
        match self.engine.graph().block(self.id("ip6")).unwrap().query(&query, self.now) {
            Answer::Route(answer) => Some(answer),
            _ => None,
        }
    }
}

pub fn datagram(payload: &[u8], src: Ipv6Addr, dst: Ipv6Addr) -> Frame {
    let mut frame = Frame::egress();
    frame.append(Bytes::copy_from_slice(payload));
    let meta = frame.meta_mut();
    (meta.src, meta.dst, meta.src_port, meta.dst_port) = (src.into(), dst.into(), 1000, 2000);
    frame
}

/// The bytes as a wire would have them.
pub fn completed(frame: &Frame) -> Vec<u8> {
    let mut frame = frame.clone();
    offload::complete_checksum(&mut frame);
    frame.to_vec()
}

pub fn ethernet(dst: Mac, src: Mac, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; ethernet::HEADER_LEN];
    ethernet::Header { dst, src, vlan: None, ether_type: EtherType::IPV6 }.emit(&mut bytes);
    bytes.extend_from_slice(payload);
    bytes
}

pub fn header(src: Ipv6Addr, dst: Ipv6Addr, next_header: Protocol) -> Header {
    Header { src, dst, next_header, ..Header::default() }
}

pub fn packet(header: Header, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; ipv6::HEADER_LEN];
    Header { payload_len: payload.len() as u16, ..header }.emit(&mut bytes);
    bytes.extend_from_slice(payload);
    bytes
}

/// An IPv6 packet in a frame from the peer to us, or to the group it is for.
pub fn from_peer(header: Header, payload: &[u8]) -> Vec<u8> {
    let [.., a, b, c, d] = header.dst.octets();
    let dst = if header.dst.is_multicast() { Mac([0x33, 0x33, a, b, c, d]) } else { OUR_MAC };
    ethernet(dst, PEER_MAC, &packet(header, payload))
}

pub fn udp_segment(src: Ipv6Addr, dst: Ipv6Addr, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; udp::LEN];
    let length = (udp::LEN + payload.len()) as u16;
    udp::Header { src_port: 2000, dst_port: 1000, length, checksum: 0 }.emit(&mut bytes);
    bytes.extend_from_slice(payload);
    let sum = checksum::pseudo_v6(src, dst, Protocol::UDP.0, u32::from(length)).add_bytes(&bytes).finish_udp();
    bytes[udp::CHECKSUM_OFFSET..udp::CHECKSUM_OFFSET + 2].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// A datagram from the peer in a frame, behind extension headers (`next` is the number of the first).
pub fn behind(src: Ipv6Addr, dst: Ipv6Addr, next: Protocol, extensions: &[u8]) -> Vec<u8> {
    from_peer(header(src, dst, next), &[extensions, &udp_segment(src, dst, b"hello")].concat())
}

pub fn icmp(src: Ipv6Addr, dst: Ipv6Addr, message: icmpv6::Message, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; message.header_len()];
    bytes.extend_from_slice(payload);
    message.emit(src, dst, &mut bytes);
    bytes
}

pub fn ping(src: Ipv6Addr, dst: Ipv6Addr, payload: &[u8]) -> Vec<u8> {
    let message = icmpv6::Message::EchoRequest { identifier: 0x1234, sequence: 7 };
    from_peer(header(src, dst, Protocol::ICMPV6), &icmp(src, dst, message, payload))
}

/// Takes a frame apart: Ethernet header, IPv6 header, payload of IPv6.
pub fn parse(bytes: &[u8]) -> (ethernet::Header, Header, Vec<u8>) {
    let (ether, at) = ethernet::Header::parse(bytes).unwrap();
    assert_eq!(ether.ether_type, EtherType::IPV6);
    let (ip, header_len) = Header::parse(&bytes[at..]).unwrap();
    assert_eq!(usize::from(ip.payload_len), bytes.len() - at - header_len);
    (ether, ip, bytes[at + header_len..].to_vec())
}

/// The same, of an ICMPv6 message whose checksum must be right.
pub fn parse_icmp(bytes: &[u8]) -> (Header, icmpv6::Message, Vec<u8>) {
    let (_, ip, payload) = parse(bytes);
    assert_eq!(ip.next_header, Protocol::ICMPV6);
    assert!(icmpv6::verify_checksum(ip.src, ip.dst, &payload), "the checksum of {payload:x?}");
    let (message, len) = icmpv6::Message::parse(&payload).unwrap();
    (ip, message, payload[len..].to_vec())
}
