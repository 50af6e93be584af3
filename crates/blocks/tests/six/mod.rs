//! Neighbour discovery or multicast membership alone: a block that stands in for ip6 owns addresses and routes, records what it is told, and
//! is both ends of the wire.
#![allow(dead_code, reason = "each test file uses its part")]

use std::net::{IpAddr, Ipv6Addr};
use weft_core::control::End;
use weft_core::table::{Address, AddressKind, AddressState, Family, RouteAnswer, RouteKind};
use weft_core::*;
use weft_wire::ethernet::Mac;
use weft_wire::icmpv6::{self, nd};
use weft_wire::{Protocol, ipv6};

pub const ETH0: InterfaceIndex = InterfaceIndex(2);
pub const OUR_MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
pub const PEER_MAC: Mac = Mac([2, 0, 0, 0, 0, 2]);
pub const OTHER_MAC: Mac = Mac([2, 0, 0, 0, 0, 3]);

pub fn ip(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

/// Stands in for ip6.
static STUB: Kind = Kind {
    name: "stub",
    inputs: &[
        Port::optional("sink", Carries::Link, "what leaves for the wire"),
        Port::optional("failed", Carries::Error, "what could not be sent"),
        Port::optional("send", Carries::Link, "packets to send"),
        Port::optional("message", Carries::Transport, "messages that came in"),
    ],
    outputs: &[
        Port::outside("seen", Carries::Link, "the wire"),
        Port::outside("errors", Carries::Error, "errors"),
        Port::optional("lower", Carries::Link, "packets to send"),
        Port::optional("messages", Carries::Transport, "messages that came in"),
    ],
    owns: &[Table::Addresses(Family::V6), Table::Routes(Family::V6), Table::Routes(Family::V4)],
    asks: Table::ALL,
    ..Kind::EMPTY
};

/// What was told: every change but those of addresses, in order; and the addresses.
pub struct Stub {
    pub told: Vec<Change>,
    pub addresses: Vec<Address>,
    pub gateway: Option<Ipv6Addr>,
}

impl Stub {
    pub fn put(&mut self, address: Address, cx: &mut Context<'_>) {
        self.addresses.retain(|other| (other.interface, other.address) != (address.interface, address.address));
        self.addresses.push(address);
        cx.table_changed(Table::Addresses(Family::V6));
    }
}

impl Block for Stub {
    fn kind(&self) -> &'static Kind {
        &STUB
    }
    fn process(&mut self, port: InPort, vector: &mut Vector, _cx: &mut Context<'_>) {
        vector.forward_all(OutPort(port.0));
    }
    fn change(&mut self, _table: Table, change: Change, cx: &mut Context<'_>) {
        match change {
            Change::AddAddress(address) => self.put(address, cx),
            Change::DeleteAddress { interface, address } => {
                self.addresses.retain(|other| (other.interface, other.address) != (interface, address));
                cx.table_changed(Table::Addresses(Family::V6));
            }
            other => self.told.push(other),
        }
    }
    fn query(&self, query: &Query, _now: Instant) -> Answer {
        match query {
            Query::Addresses => Answer::Addresses(self.addresses.clone()),
            Query::AddressKind(address) => Answer::AddressKind(
                self.addresses
                    .iter()
                    .find(|own| own.address == *address)
                    .map_or(AddressKind::Other, |own| AddressKind::Local(own.interface)),
            ),
            Query::Route { destination: IpAddr::V4(destination), .. } => Answer::Route(RouteAnswer {
                kind: RouteKind::Multicast,
                interface: ETH0,
                source: std::net::Ipv4Addr::new(10, 0, 0, 1).into(),
                next_hop: (*destination).into(),
                mtu: 1500,
                gso_max_bytes: 0,
                several: false,
                generation: 0,
            }),
            Query::Route { destination, .. } => Answer::Route(RouteAnswer {
                kind: RouteKind::Unicast,
                interface: ETH0,
                source: Ipv6Addr::UNSPECIFIED.into(),
                next_hop: self.gateway.map_or(*destination, IpAddr::V6),
                mtu: 1500,
                gso_max_bytes: 0,
                several: false,
                generation: 0,
            }),
            _ => Answer::None,
        }
    }
    fn as_any_mut(&mut self) -> &mut dyn std::any::Any {
        self
    }
}

/// Stands in for mld.
static GROUPS: Kind = Kind { name: "groups", owns: &[Table::Groups(Family::V6)], ..Kind::EMPTY };

#[derive(Default)]
pub struct Groups {
    pub joined: Vec<(Ipv6Addr, bool)>,
}

impl Block for Groups {
    fn kind(&self) -> &'static Kind {
        &GROUPS
    }
    fn change(&mut self, _table: Table, change: Change, _cx: &mut Context<'_>) {
        if let Change::Group { group: IpAddr::V6(group), filter, .. } = change {
            self.joined.push((group, filter.is_some()));
        }
    }
    fn as_any_mut(&mut self) -> &mut dyn std::any::Any {
        self
    }
}

pub struct Node {
    pub engine: Engine,
    pub now: Instant,
    left: Vec<engine::Outgoing>,
}

impl Node {
    /// The stub and one block of this kind, joined by these edges; eth0 (2) with [`OUR_MAC`].
    pub fn around(kind: &str, edges: &[(&str, &str)], parameters: &[(&str, Value)], groups: bool) -> Node {
        let mut rows = weft_blocks::table::rows();
        rows.push(BlockRow { kind: &STUB, make: |_| Ok(Box::new(Stub { told: Vec::new(), addresses: Vec::new(), gateway: None })) });
        rows.push(BlockRow { kind: &GROUPS, make: |_| Ok(Box::new(Groups::default())) });
        let engine = Engine::new(Mode::Inline, BlockTable::new(rows), Rng::for_name(7, "six"));
        let mut node = Node { engine, now: Instant::from_millis(1000), left: Vec::new() };
        let parameters = parameters.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let mut ops = vec![Op::Add { name: kind.to_owned(), kind: kind.to_owned(), parameters }];
        for name in ["interfaces", "stub"].into_iter().chain(groups.then_some("groups")) {
            ops.push(Op::Add { name: name.to_owned(), kind: name.to_owned(), parameters: Default::default() });
        }
        ops.extend(edges.iter().map(|(from, to)| Op::Bind { from: End::parse(from), to: End::parse(to) }));
        node.control(Op::All(ops)).unwrap();
        node.exec("interfaces", "add", serde_json::json!({"name": "eth0", "mac": OUR_MAC.to_string()})).unwrap();
        node.engine.take_alerts();
        node
    }

    /// Neighbour discovery.
    pub fn nd(parameters: &[(&str, Value)]) -> Node {
        let edges = [("stub:lower", "nd:upper"), ("nd:lower", "stub:sink"), ("nd:failed", "stub:failed"), ("stub:messages", "nd:icmp")];
        Node::around("nd", &edges, parameters, true)
    }

    /// Neighbour discovery, and fd00::1 to talk from.
    pub fn quiet() -> Node {
        let mut node = Node::nd(&[]);
        node.address("fd00::1", AddressState::Preferred);
        node
    }

    pub fn control(&mut self, op: Op) -> Result<Value, ControlError> {
        self.engine.control(self.now, &Message { serial: 1, op }).result
    }

    pub fn exec(&mut self, block: &str, procedure: &str, arguments: Value) -> Result<Value, ControlError> {
        let op = Op::Exec { target: Selector::parse(block), procedure: procedure.to_owned(), arguments };
        self.control(op).map(|value| value[block].clone())
    }

    pub fn id(&self, block: &str) -> BlockId {
        self.engine.graph().find(block).unwrap()
    }

    /// Calls the stand-in for ip6.
    pub fn stub<R>(&mut self, f: impl FnOnce(&mut Stub, &mut Context<'_>) -> R) -> R {
        let id = self.id("stub");
        self.engine.with(self.now, id, |block, cx| f(block.as_any_mut().downcast_mut::<Stub>().unwrap(), cx)).unwrap()
    }

    /// What the owner of groups was told.
    pub fn joined(&mut self) -> Vec<(Ipv6Addr, bool)> {
        let id = self.id("groups");
        let take = |block: &mut dyn Block| std::mem::take(&mut block.as_any_mut().downcast_mut::<Groups>().unwrap().joined);
        self.engine.with(self.now, id, |block, _| take(block)).unwrap()
    }

    /// Tells the owner of a table something, as another block would.
    pub fn tell(&mut self, table: Table, change: Change) {
        self.stub(|_, cx| cx.tell(table, change));
    }

    pub fn address(&mut self, address: &str, state: AddressState) {
        let address = Address { state, ..Address::permanent(ETH0, ip(address).into(), 64) };
        self.stub(|stub, cx| stub.put(address, cx));
    }

    pub fn state(&mut self, address: &str) -> Option<AddressState> {
        let wanted = IpAddr::V6(ip(address));
        self.stub(|stub, _| stub.addresses.iter().find(|own| own.address == wanted).map(|own| own.state))
    }

    pub fn told(&mut self) -> Vec<Change> {
        self.stub(|stub, _| std::mem::take(&mut stub.told))
    }

    /// Membership: reports leave for the wire, messages come in with [`Node::message`].
    pub fn membership(kind: &str, parameters: &[(&str, Value)]) -> Node {
        let (lower, input) = (format!("{kind}:lower"), format!("{kind}:lower"));
        Node::around(kind, &[(&lower, "stub:sink"), ("stub:messages", &input)], parameters, false)
    }

    /// A holder wants something of a group on eth0.
    pub fn wish(&mut self, group: &str, holder: u64, filter: Option<SourceFilter>) -> Vec<Frame> {
        let group: IpAddr = group.parse().unwrap();
        self.tell(Table::Groups(Family::of(group)), Change::Group { interface: ETH0, group, holder, filter });
        self.wire()
    }

    /// Is a packet let in?
    pub fn wanted(&mut self, group: &str, source: &str) -> bool {
        let (group, source): (IpAddr, IpAddr) = (group.parse().unwrap(), source.parse().unwrap());
        let query = Query::Wanted { interface: ETH0, group, source };
        self.stub(|_, cx| matches!(cx.ask(Table::Groups(Family::of(group)), &query), Answer::Wanted(true)))
    }

    /// A transport message comes in.
    pub fn message(&mut self, from: &str, to: &str, ttl: u8, bytes: &[u8]) -> Vec<Frame> {
        let mut frame = Frame::ingress(bytes);
        let meta = frame.meta_mut();
        meta.interface = ETH0;
        (meta.src, meta.dst, meta.ttl) = (from.parse().unwrap(), to.parse().unwrap(), ttl);
        self.inject(3, frame)
    }

    fn inject(&mut self, port: u8, frame: Frame) -> Vec<Frame> {
        let id = self.id("stub");
        self.engine.inject(self.now, id, InPort(port), [frame]);
        self.wire()
    }

    /// A message comes in.
    pub fn receive(&mut self, message: &Incoming) -> Vec<Frame> {
        self.inject(3, message.frame())
    }

    /// A packet is to be sent to a neighbour.
    pub fn send(&mut self, from: &str, next_hop: &str, payload: &[u8]) -> Vec<Frame> {
        let mut frame = Frame::egress();
        frame.extend(payload);
        let meta = frame.meta_mut();
        meta.interface = ETH0;
        (meta.src, meta.dst, meta.next_hop) = (ip(from).into(), ip(next_hop).into(), Some(ip(next_hop).into()));
        self.inject(2, frame)
    }

    /// What has left for the wire.
    pub fn wire(&mut self) -> Vec<Frame> {
        self.take(0)
    }

    /// What could not be sent.
    pub fn errors(&mut self) -> Vec<Frame> {
        self.take(1)
    }

    fn take(&mut self, port: u8) -> Vec<Frame> {
        self.left.extend(self.engine.take_outgoing());
        let (wanted, others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.left).into_iter().partition(|outgoing| outgoing.port.0 == port);
        self.left = others;
        wanted.into_iter().map(|outgoing| outgoing.frame).collect()
    }

    /// Lets time pass, timer by timer; what left, and when.
    pub fn advance(&mut self, by: Duration) -> Vec<(Instant, Frame)> {
        let end = self.now + by;
        let mut out = Vec::new();
        while let Some(at) = self.engine.next_timer().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.engine.run(self.now);
            let now = self.now;
            out.extend(self.wire().into_iter().map(|frame| (now, frame)));
        }
        self.now = end;
        out
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

    /// Link-layer address and state of a neighbour.
    pub fn neighbour(&mut self, address: &str) -> Option<(Option<String>, String, bool)> {
        let rows = self.list(Table::Neighbours(Family::V6));
        let row = rows.iter().find(|row| row["address"] == address)?;
        let mac = row["mac"].as_str().map(str::to_owned);
        Some((mac, row["state"].as_str().unwrap().to_owned(), row["router"] == true))
    }
}

/// A message of neighbour discovery that comes in.
pub struct Incoming {
    pub from: Ipv6Addr,
    pub to: Ipv6Addr,
    pub from_mac: Mac,
    pub hop_limit: u8,
    pub message: nd::Message,
    pub options: Vec<u8>,
}

impl Incoming {
    pub fn new(from: &str, to: &str, message: nd::Message) -> Incoming {
        Incoming { from: ip(from), to: ip(to), from_mac: PEER_MAC, hop_limit: 255, message, options: Vec::new() }
    }

    pub fn option(mut self, option: nd::Opt<'_>) -> Incoming {
        let at = self.options.len();
        self.options.resize(at + option.len(), 0);
        option.emit(&mut self.options[at..]).unwrap();
        self
    }

    fn frame(&self) -> Frame {
        let message = icmpv6::Message::Nd(self.message);
        let mut bytes = vec![0; message.header_len()];
        bytes.extend_from_slice(&self.options);
        message.emit(self.from, self.to, &mut bytes);
        let mut frame = Frame::ingress(&bytes);
        let meta = frame.meta_mut();
        meta.interface = ETH0;
        (meta.src, meta.dst, meta.src_mac) = (self.from.into(), self.to.into(), self.from_mac);
        (meta.protocol, meta.ttl, meta.checksum) = (Protocol::ICMPV6, self.hop_limit, Checksum::Valid);
        frame
    }
}

/// A packet of neighbour discovery on the wire, taken apart and checked.
pub struct Sent {
    pub dst_mac: Mac,
    pub ip: ipv6::Header,
    pub message: nd::Message,
    pub source: Option<Mac>,
    pub target: Option<Mac>,
    pub nonce: Option<Vec<u8>>,
}

pub fn sent(frame: &Frame) -> Sent {
    let bytes = frame.to_vec();
    let (ip, at) = ipv6::Header::parse(&bytes).unwrap();
    assert_eq!((ip.hop_limit, ip.next_header, usize::from(ip.payload_len)), (255, Protocol::ICMPV6, bytes.len() - at));
    assert!(icmpv6::verify_checksum(ip.src, ip.dst, &bytes[at..]));
    let Ok((icmpv6::Message::Nd(message), header_len)) = icmpv6::Message::parse(&bytes[at..]) else { panic!("no message of nd") };
    let (mut source, mut target, mut nonce) = (None, None, None);
    for option in nd::options(&bytes[at + header_len..]) {
        match option.unwrap() {
            nd::Opt::SourceAddress(mac) => source = Some(mac),
            nd::Opt::TargetAddress(mac) => target = Some(mac),
            nd::Opt::Nonce(bytes) => nonce = Some(bytes.to_vec()),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(frame.meta().ether_type, weft_wire::ethernet::EtherType::IPV6);
    Sent { dst_mac: frame.meta().dst_mac, ip, message, source, target, nonce }
}
