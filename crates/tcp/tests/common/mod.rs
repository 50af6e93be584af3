//! What the tests of this crate drive a [`TcpBlock`](weft_tcp::TcpBlock) with: a node of three blocks (a program above, tcp, a route
//! table below that lets frames out), frames turned into the segments that a wire would carry, and back.
#![allow(dead_code)] // each test file uses its own part

mod by_bytes;
pub mod numbered;
pub mod pair;
pub mod script;

use indexmap::IndexMap;
use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use weft_core::table::{Address, AddressKind, Family, Interface, InterfaceRow, LinkType, RouteAnswer, RouteKind};
use weft_core::*;
use weft_tcp::counters::{Counter as Count, Counters};
use weft_wire::tcp::{CHECKSUM_OFFSET, Flags, Segment};
use weft_wire::{Protocol, checksum};

/// What a flow has seen and still has to do.
#[derive(Debug, Default)]
pub struct Flow {
    pub credit: u64,
    pub unsent: VecDeque<Bytes>,
    pub shutdown_after: bool,
    pub received: Vec<u8>,
    /// Bytes delivered for which no credit was returned (with `holds`).
    pub unread: u32,
    pub events: Vec<String>,
    pub replies: Vec<Result<(), StreamError>>,
    pub pointers: Vec<usize>,
    pub released: bool,
    pub peak_credit: u64,
}

/// The program: writes what it was told to as credit allows, and reads at once unless it holds back.
#[derive(Debug, Default)]
pub struct App {
    pub flows: BTreeMap<FlowId, Flow>,
    pub accepted: Vec<FlowId>,
    /// Do not return credit.
    pub holds: bool,
    /// Do not tell listeners that connections were taken.
    pub leaves_in_queue: bool,
    /// What an accepted connection gets to send.
    pub reply: Option<Bytes>,
    pub echo: bool,
    /// Count what arrives and throw it away.
    pub discards: bool,
    pub discarded: u64,
    /// Connections whose extension nobody knows any more.
    pub left_behind: Vec<FlowId>,
    /// Memory is short, as told last.
    pub short: bool,
}

impl App {
    pub fn flow(&mut self, flow: FlowId) -> &mut Flow {
        self.flows.entry(flow).or_default()
    }
    pub fn pump(&mut self, flow: FlowId, cx: &mut Context<'_>) {
        let entry = self.flows.entry(flow).or_default();
        while let Some(mut bytes) = entry.unsent.pop_front() {
            if (bytes.len() as u64) > entry.credit {
                let rest = bytes.split_off(entry.credit as usize);
                entry.unsent.push_front(rest);
            }
            if bytes.is_empty() {
                return;
            }
            entry.credit -= bytes.len() as u64;
            cx.send(OutPort(0), StreamMessage::Data { flow, bytes, flags: DataFlags::default(), mapping: 0 });
        }
        if entry.shutdown_after {
            entry.shutdown_after = false;
            cx.send(OutPort(0), StreamMessage::Call { id: CallId(9), flow, op: Box::new(StreamCall::ShutdownWrite) });
        }
    }
}

static APP: Kind = Kind {
    name: "app",
    inputs: &[Port::required("tcp", Carries::Stream, "")],
    outputs: &[Port::required("tcp", Carries::Stream, "")],
    ..Kind::EMPTY
};

impl Block for App {
    fn kind(&self) -> &'static Kind {
        &APP
    }
    fn stream(&mut self, _port: InPort, message: StreamMessage, cx: &mut Context<'_>) {
        match message {
            StreamMessage::Data { flow, bytes, .. } => {
                let length = bytes.len() as u32;
                if self.discards {
                    self.discarded += u64::from(length);
                    return cx.send(OutPort(0), StreamMessage::Credit { flow, bytes: length, enough: 0 });
                }
                assert!(!self.flow(flow).released, "data after Released");
                self.flow(flow).pointers.push(bytes.as_ptr() as usize);
                self.flow(flow).received.extend_from_slice(&bytes);
                if self.echo {
                    self.flow(flow).unsent.push_back(bytes);
                    self.pump(flow, cx);
                }
                if self.holds {
                    self.flow(flow).unread += length;
                } else {
                    cx.send(OutPort(0), StreamMessage::Credit { flow, bytes: length, enough: 0 });
                }
            }
            StreamMessage::Credit { flow, bytes, .. } => {
                let entry = self.flow(flow);
                assert!(!entry.released, "credit after Released");
                entry.credit += u64::from(bytes);
                entry.peak_credit = entry.peak_credit.max(entry.credit);
                self.pump(flow, cx);
            }
            StreamMessage::Reply { flow, result, .. } => self.flow(flow).replies.push(result),
            StreamMessage::Event { flow, event } => {
                assert!(!self.flow(flow).released, "{event:?} after Released");
                if let StreamEvent::Accepted { child, extended, .. } = *event {
                    self.accepted.push(child);
                    if extended {
                        // As sockets do: who gave the listener its extension is gone.
                        self.left_behind.push(child);
                        cx.send(OutPort(0), StreamMessage::Call { id: CallId(0), flow: child, op: Box::new(StreamCall::Plain) });
                    }
                    if !self.leaves_in_queue {
                        cx.send(OutPort(0), StreamMessage::Call { id: CallId(0), flow, op: Box::new(StreamCall::Took { connections: 1 }) });
                    }
                    if let Some(reply) = self.reply.clone() {
                        self.flow(child).unsent.push_back(reply);
                        self.flow(child).shutdown_after = true;
                    }
                }
                self.flow(flow).released |= matches!(*event, StreamEvent::Released);
                let text = match *event {
                    StreamEvent::Established { .. } => "established".to_owned(),
                    StreamEvent::Accepted { .. } => "accepted".to_owned(),
                    StreamEvent::Failed(error) => format!("failed {error:?}").to_lowercase(),
                    StreamEvent::Soft(error) => format!("soft {error:?}").to_lowercase(),
                    StreamEvent::Urgent { ahead } => format!("urgent {ahead}"),
                    StreamEvent::Stamped { at, moment, bytes } => format!("stamped {at} {moment:?} {}", bytes.len()).to_lowercase(),
                    other => format!("{other:?}").to_lowercase(),
                };
                self.flow(flow).events.push(text);
            }
            StreamMessage::Short(short) => self.short = short,
            StreamMessage::Word { flow, .. } | StreamMessage::Room { flow, .. } if self.left_behind.contains(&flow) => {}
            StreamMessage::Call { .. } | StreamMessage::Word { .. } | StreamMessage::Room { .. } | StreamMessage::Advice { .. } => {
                unreachable!("tcp does not call, nor say this of plain connections")
            }
        }
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// The network below: every destination is reachable.
#[derive(Debug)]
pub struct Below {
    pub mtu: u32,
    pub gso: u32,
    /// Neighbours that were confirmed.
    pub confirmed: Vec<(InterfaceIndex, IpAddr)>,
    /// The node's addresses, as far as somebody asks for them.
    pub addresses: Vec<IpAddr>,
}

static BELOW: Kind = Kind {
    name: "below",
    inputs: &[Port::required("upper", Carries::Transport, "")],
    outputs: &[Port::outside("lower", Carries::Transport, "")],
    owns: &[
        Table::Interfaces,
        Table::Routes(Family::V4),
        Table::Routes(Family::V6),
        Table::Addresses(Family::V4),
        Table::Addresses(Family::V6),
        Table::Neighbours(Family::V4),
        Table::Neighbours(Family::V6),
    ],
    ..Kind::EMPTY
};

impl Block for Below {
    fn kind(&self) -> &'static Kind {
        &BELOW
    }
    fn process(&mut self, _port: InPort, vector: &mut Vector, _cx: &mut Context<'_>) {
        vector.forward_all(OutPort(0));
    }
    fn query(&self, query: &Query, _now: Instant) -> Answer {
        match query {
            // There is one interface.
            // There is one interface, or two for a test that has told of addresses.
            Query::Route { interface: Some(interface), .. }
                if *interface != InterfaceIndex(2) && (self.addresses.is_empty() || *interface != InterfaceIndex(3)) =>
            {
                Answer::None
            }
            Query::Route { destination, source, .. } => Answer::Route(RouteAnswer {
                kind: RouteKind::Unicast,
                interface: InterfaceIndex(2),
                source: source.unwrap_or(*destination),
                next_hop: *destination,
                mtu: self.mtu,
                gso_max_bytes: self.gso,
                several: false,
                generation: 1,
            }),
            Query::Addresses => {
                let interface = |at: &IpAddr| InterfaceIndex(if at.to_string().starts_with("10.0.1.") { 3 } else { 2 });
                Answer::Addresses(self.addresses.iter().map(|at| Address::permanent(interface(at), *at, 24)).collect())
            }
            Query::Interfaces(_) => Answer::Interfaces(vec![interface(2, "wlan0", 0), interface(3, "wwan0", 7)]),
            Query::AddressKind(address) if *address == IpAddr::from([10, 0, 0, 255]) => Answer::AddressKind(AddressKind::Broadcast),
            Query::AddressKind(_) => Answer::AddressKind(AddressKind::Local(InterfaceIndex(2))),
            _ => Answer::None,
        }
    }
    fn change(&mut self, _table: Table, change: Change, _cx: &mut Context<'_>) {
        if let Change::Confirm { interface, neighbour } = change {
            self.confirmed.push((interface, neighbour));
        }
    }
    fn exec(&mut self, procedure: &str, arguments: &Value, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        match procedure {
            "addresses" => {
                self.addresses = arguments.as_array().unwrap().iter().map(|text| text.as_str().unwrap().parse().unwrap()).collect();
                cx.table_changed(Table::Addresses(Family::V4));
            }
            "mtu" => self.mtu = arguments.as_u64().unwrap() as u32,
            _ => self.gso = arguments.as_u64().unwrap() as u32,
        }
        cx.table_changed(Table::Routes(Family::V4));
        Ok(Value::Null)
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// An interface that is up.
fn interface(index: u32, name: &str, group: u32) -> InterfaceRow {
    InterfaceRow {
        interface: Interface {
            index: InterfaceIndex(index),
            name: name.to_owned(),
            mac: [2, 0, 0, 0, 0, index as u8],
            mtu: 1500,
            up: true,
            carrier: true,
            link: LinkType::Ethernet,
            group,
            gso_max_bytes: 0,
            checksum_offload: false,
            backend: String::new(),
        },
        settings: Default::default(),
        counts: Default::default(),
    }
}

/// A segment on a wire.
#[derive(Clone, Debug)]
pub struct OnWire {
    pub segment: Segment,
    pub payload: Vec<u8>,
    pub tos: u8,
    pub src: SocketAddr,
    pub dst: SocketAddr,
    pub bytes: Vec<u8>,
}

/// A node: program, tcp, network.
pub struct Node {
    pub engine: Engine,
    pub app: BlockId,
    pub tcp: BlockId,
    pub below: BlockId,
    pub now: Instant,
    /// Frames are completed (have left) only when the test says so.
    pub holds_completions: bool,
    pub held: Vec<Completion>,
    /// Completed bytes below at most, seen.
    pub below_bytes_max: u64,
}

impl Node {
    pub fn new(name: &str, parameters: &[(&str, Value)]) -> Node {
        Node::with_rows(name, parameters, &[])
    }
    /// A node that knows more kinds of blocks.
    pub fn with_rows(name: &str, parameters: &[(&str, Value)], rows: &[BlockRow]) -> Node {
        let known = [
            // As the block's own, whose connections may have an extension.
            BlockRow {
                kind: weft_tcp::ROW.kind,
                make: |config| Ok(Box::new(weft_tcp::TcpBlock::with_extensions(config, numbered::ROWS)?)),
            },
            by_bytes::row(),
            numbered::ROW,
            BlockRow { kind: &APP, make: |_| Ok(Box::new(App::default())) },
            BlockRow { kind: &BELOW, make: |_| Ok(Box::new(Below { mtu: 1500, gso: 0, confirmed: Vec::new(), addresses: Vec::new() })) },
        ];
        // Of two rows of a kind the test's counts.
        let known = known.into_iter().filter(|row| rows.iter().all(|other| other.kind.name != row.kind.name));
        let table = BlockTable::new(known.chain(rows.iter().copied()));
        let mut engine = Engine::new(Mode::Inline, table, Rng::for_name(7, name));
        let end = End::parse;
        let given: IndexMap<String, Value> = parameters.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let add = |name: &str, parameters| Op::Add { name: name.to_owned(), kind: name.to_owned(), parameters };
        let bind = |from, to| Op::Bind { from: end(from), to: end(to) };
        let op = Op::All(vec![
            add("tcp", given),
            add("app", IndexMap::new()),
            add("below", IndexMap::new()),
            bind("app:tcp", "tcp:upper"),
            bind("tcp:upper", "app:tcp"),
            bind("tcp:ip4", "below:upper"),
            bind("tcp:ip6", "below:upper"),
        ]);
        engine.control(Instant::ZERO, &Message { serial: 1, op }).result.unwrap();
        let find = |engine: &Engine, name| engine.graph().find(name).unwrap();
        let (app, tcp, below) = (find(&engine, "app"), find(&engine, "tcp"), find(&engine, "below"));
        let now = Instant::from_millis(1000);
        Node { engine, app, tcp, below, now, holds_completions: false, held: Vec::new(), below_bytes_max: 0 }
    }
    /// Puts the block `between` between program and tcp.
    pub fn insert_between(&mut self) {
        self.insert("between");
    }
    /// Puts a block of this kind between program and tcp.
    pub fn insert(&mut self, kind: &str) {
        let op = Op::All(vec![
            Op::Add { name: kind.to_owned(), kind: kind.to_owned(), parameters: IndexMap::new() },
            Op::Insert { block: End::parse(kind), from: End::parse("app:tcp"), to: End::parse("tcp:upper") },
        ]);
        self.engine.control(self.now, &Message { serial: 7, op }).result.unwrap();
    }
    /// What the block `between` knows.
    pub fn between(&mut self) -> numbered::Between {
        let id = self.engine.graph().find("between").unwrap();
        self.engine.with(self.now, id, |block, _| block.as_any_mut().downcast_mut::<numbered::Between>().unwrap().clone()).unwrap()
    }
    pub fn app<R>(&mut self, f: impl FnOnce(&mut App, &mut Context<'_>) -> R) -> R {
        self.engine.with(self.now, self.app, |block, cx| f(block.as_any_mut().downcast_mut().unwrap(), cx)).unwrap()
    }
    pub fn call(&mut self, flow: u64, op: StreamCall) {
        let flow = FlowId(flow);
        self.app(|_, cx| cx.send(OutPort(0), StreamMessage::Call { id: CallId(1), flow, op: Box::new(op) }));
    }
    pub fn listen(&mut self, flow: u64, local: &str, backlog: u32, options: StreamOptions) {
        let local = local.parse().unwrap();
        self.call(flow, StreamCall::Listen { local, dual_stack: false, backlog, options: Box::new(options), extension: None });
    }
    pub fn connect(&mut self, flow: u64, local: &str, remote: &str, options: StreamOptions) {
        let (local, remote) = (local.parse().unwrap(), remote.parse().unwrap());
        self.call(flow, StreamCall::Connect { local, remote, options: Box::new(options), extension: None });
    }
    /// Sends through the app's queue, as credit allows.
    pub fn write(&mut self, flow: u64, bytes: Bytes) {
        self.app(|app, cx| {
            app.flow(FlowId(flow)).unsent.push_back(bytes);
            app.pump(FlowId(flow), cx);
        });
    }
    /// Sends past the app's queue.
    pub fn write_flags(&mut self, flow: u64, bytes: Bytes, flags: DataFlags) {
        self.app(|app, cx| {
            app.flow(FlowId(flow)).credit -= bytes.len() as u64;
            cx.send(OutPort(0), StreamMessage::Data { flow: FlowId(flow), bytes, flags, mapping: 0 });
        });
    }
    pub fn read(&mut self, flow: u64, bytes: u32) {
        self.app(|app, cx| {
            let entry = app.flow(FlowId(flow));
            entry.unread -= bytes;
            cx.send(OutPort(0), StreamMessage::Credit { flow: FlowId(flow), bytes, enough: 0 });
        });
    }
    pub fn events(&mut self, flow: u64) -> Vec<String> {
        self.app(|app, _| app.flow(FlowId(flow)).events.clone())
    }
    /// Neighbours that tcp has confirmed since the last call.
    pub fn take_confirmed(&mut self) -> Vec<(InterfaceIndex, IpAddr)> {
        let (now, below) = (self.now, self.below);
        let take = |block: &mut dyn Block| std::mem::take(&mut block.as_any_mut().downcast_mut::<Below>().unwrap().confirmed);
        self.engine.with(now, below, |block, _| take(block)).unwrap()
    }
    pub fn exec_below(&mut self, procedure: &str, value: impl Into<Value>) {
        let op = Op::Exec { target: Selector::Name("below".to_owned()), procedure: procedure.to_owned(), arguments: value.into() };
        self.engine.control(self.now, &Message { serial: 2, op }).result.unwrap();
    }
    pub fn set(&mut self, name: &str, value: Value) -> Result<Value, ControlError> {
        self.tell("tcp", name, value)
    }
    /// Sets a parameter of a block.
    pub fn tell(&mut self, block: &str, name: &str, value: Value) -> Result<Value, ControlError> {
        let op = Op::Set { target: Selector::Name(block.to_owned()), name: name.to_owned(), value };
        self.engine.control(self.now, &Message { serial: 3, op }).result
    }
    pub fn counter(&mut self, counter: Count) -> u64 {
        let values = self.engine.graph().block(self.tcp).unwrap().counters();
        let mut counters = Counters::default();
        counters.0.copy_from_slice(values);
        counters.get(counter)
    }
    pub fn info(&self, flow: u64) -> StreamInfo {
        match self.engine.graph().block(self.tcp).unwrap().query(&Query::FlowInfo(FlowId(flow)), self.now) {
            Answer::FlowInfo(info) => *info,
            other => panic!("{other:?}"),
        }
    }
    pub fn population(&mut self) -> (usize, usize, usize) {
        let tcp = self.tcp;
        self.engine.with(self.now, tcp, |block, _| block.as_any_mut().downcast_mut::<weft_tcp::TcpBlock>().unwrap().population()).unwrap()
    }
    pub fn advance(&mut self, to: Instant) {
        self.now = to;
        self.engine.run(to);
    }
    /// Large frames as they leave tcp.
    pub fn take_frames(&mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        loop {
            let out = self.engine.take_outgoing();
            if out.is_empty() {
                let held: u64 = self.held.iter().map(|completion| u64::from(completion.bytes)).sum();
                self.below_bytes_max = self.below_bytes_max.max(held);
                return frames;
            }
            for mut outgoing in out {
                let completion = outgoing.frame.take_completion();
                frames.push(outgoing.frame);
                match completion {
                    Some(completion) if self.holds_completions => self.held.push(completion),
                    Some(completion) => self.engine.completed(self.now, completion),
                    None => {}
                }
            }
        }
    }
    /// What a wire gets: cut, and with complete checksums.
    pub fn take_segments(&mut self) -> Vec<OnWire> {
        self.take_frames().iter().flat_map(cut).collect()
    }
    pub fn complete_all(&mut self) {
        for completion in std::mem::take(&mut self.held) {
            self.engine.completed(self.now, completion);
        }
    }
    /// Puts a segment in from below.
    pub fn inject(&mut self, on_wire: &OnWire) {
        let mut frame = Frame::ingress(&on_wire.bytes);
        let meta = frame.meta_mut();
        (meta.src, meta.dst) = (on_wire.src.ip(), on_wire.dst.ip());
        (meta.tos, meta.ttl) = (on_wire.tos, 61);
        meta.protocol = Protocol::TCP;
        meta.interface = InterfaceIndex(2);
        self.engine.inject(self.now, self.tcp, InPort(0), [frame]);
    }
    pub fn inject_frames(&mut self, frames: Vec<Frame>) {
        self.engine.inject(self.now, self.tcp, InPort(0), frames);
    }
    pub fn drops(&self) -> Vec<(Reason, u64)> {
        self.engine.graph().drops(self.tcp).collect()
    }
}

/// The bytes of a segment with its checksum.
pub fn encode(segment: &Segment, payload: &[u8], src: SocketAddr, dst: SocketAddr) -> Vec<u8> {
    let header = segment.header_len();
    let mut bytes = vec![0; header];
    segment.emit(&mut bytes);
    bytes.extend_from_slice(payload);
    let length = bytes.len() as u32;
    let sum = match (src.ip(), dst.ip()) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => checksum::pseudo_v4(src, dst, 6, length),
        (IpAddr::V6(src), IpAddr::V6(dst)) => checksum::pseudo_v6(src, dst, 6, length),
        _ => panic!("mixed families"),
    };
    let sum = sum.add_bytes(&bytes).finish();
    bytes[CHECKSUM_OFFSET..CHECKSUM_OFFSET + 2].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// Cuts a frame into what a wire carries (the edge's work; here so that the tests stand alone).
pub fn cut(frame: &Frame) -> Vec<OnWire> {
    let bytes = frame.to_vec();
    let meta = frame.meta();
    let (segment, header) = Segment::parse(&bytes).unwrap();
    // The partial checksum must be the pseudo-header's.
    let folded = u16::from_be_bytes([bytes[CHECKSUM_OFFSET], bytes[CHECKSUM_OFFSET + 1]]);
    let expected = match (meta.src, meta.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => checksum::pseudo_v4(src, dst, 6, bytes.len() as u32),
        (IpAddr::V6(src), IpAddr::V6(dst)) => checksum::pseudo_v6(src, dst, 6, bytes.len() as u32),
        _ => panic!("mixed families"),
    };
    assert_eq!(folded, expected.fold());
    assert_eq!(meta.checksum, Checksum::Partial { offset: CHECKSUM_OFFSET as u16 });
    let payload = &bytes[header..];
    let each = meta.gso.map_or(usize::MAX, |gso| usize::from(gso.segment_bytes));
    let (src, dst) = (SocketAddr::new(meta.src, segment.src_port), SocketAddr::new(meta.dst, segment.dst_port));
    let mut out = Vec::new();
    let mut at = 0usize;
    loop {
        let end = payload.len().min(at.saturating_add(each));
        let mut part = segment.clone();
        part.seq = segment.seq + at as u32;
        if end < payload.len() {
            part.flags -= Flags::FIN | Flags::PSH;
        }
        if at > 0 {
            part.flags -= Flags::CWR;
        }
        let bytes = encode(&part, &payload[at..end], src, dst);
        out.push(OnWire { segment: part, payload: payload[at..end].to_vec(), tos: meta.tos, src, dst, bytes });
        at = end;
        if at >= payload.len() {
            return out;
        }
    }
}

/// Bytes that no two positions within reach share.
pub fn pattern(length: usize) -> Bytes {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut out = Vec::with_capacity(length + 8);
    while out.len() < length {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        out.extend_from_slice(&(state >> 16).to_le_bytes()[..6]);
    }
    out.truncate(length);
    Bytes::from(out)
}
