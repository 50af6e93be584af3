//! The tcp block: a node's connections, listeners, half-open connections and TIME-WAITs, behind the ports of `docs/architecture/graph.md`.
//!
//! A segment is looked up by its addresses and ports in one map; a listener by its port, the most specific address first. Connections
//! keep their own deadlines; the engine has one timer a connection, which is only ever moved earlier: when it fires too early it is set
//! again, so that the common move of the retransmission timer to a later time costs nothing.

mod cookies;
mod error;
mod fast_open;
mod foresee;
mod ingress;
mod initial;
mod kept;
mod keyed;
mod listen;
mod listener;
mod parameters;
mod record;
mod servers;
mod state;
mod tables;
mod time_wait;
mod upper;

use crate::config::Config as Settings;
use crate::connection::{Connection, Finished, Path};
use crate::counters;
use crate::extension::ExtensionRow;
use crate::outbox::{Env, Outbox, RateLimit};
use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use tables::{Kind as Token, Tuple, token, untoken};
use weft_core::control::{ControlError, Value};
use weft_core::map::{KeyedHasher, Map};
use weft_core::scope::interface_of;
use weft_core::table::{Family, RouteKind, Traffic};
use weft_core::{
    Answer, Block, BlockRow, Carries, Change, Config, Context, Duration, FlowId, Frame, InPort, Instant, InterfaceIndex, Kind, Named,
    OutPort, Port, Query, Reason, Rng, Room, Slab, State, StateError, StreamError, StreamEvent, StreamMessage, StreamOptions, Table,
    Vector,
};

/// How often a connection confirms its neighbour at most: progress comes with every acknowledgment, a neighbour is reachable for 15 s and more.
pub const CONFIRM_INTERVAL: Duration = Duration::from_secs(1);

const LOWER: InPort = InPort(0);
const ERROR: InPort = InPort(1);
const IP4: OutPort = OutPort(0);
const IP6: OutPort = OutPort(1);
const UPPER: OutPort = OutPort(2);
/// Flows of which it remembers that they were released.
const RELEASED_MAX: usize = 64;

/// The kind `tcp`.
pub static KIND: Kind = Kind {
    name: "tcp",
    summary: "TCP: connections, listeners, TIME-WAIT",
    doc: "RFC 9293 with 7323 (scaling, timestamps, PAWS), 6298, 2018, 2883, 6675, 8985 (RACK-TLP), 5681, 6582, 6928, 6937 (PRR), 9438 (CUBIC), \
9406 (HyStart++), 5682 (F-RTO), 7413 (Fast Open), 3168 (ECN), 5961, 6093, 6528, 6191 as Linux has them.\n\
`lower` takes segments with their addresses in the metadata, `error` quoted packets that an ICMP error is about. `upper` speaks \
stream messages with the sockets. Checksums leave as partial ones, large frames leave whole (gso) where the route allows; both are the \
edge's to complete.\n\
SYN cookies answer where a listener has no room for half-open connections (RFC 4987). Controls: cubic, reno, bbr.\n\
It refuses: fragments (the IP block's). It owns the table of flows. Its state is all of this: a successor goes on in the middle of it, \
and a connection whose socket chose no congestion control goes on with the successor's.\n\
Example: [block.tcp] congestion = \"reno\", mss = 536",
    inputs: &[
        Port::required("lower", Carries::Transport, "segments from IP"),
        Port::optional("error", Carries::Error, "packets of ours that an ICMP error quotes"),
        Port::required("upper", Carries::Stream, "calls, data and credit from the sockets"),
    ],
    outputs: &[
        Port::optional("ip4", Carries::Transport, "segments to IPv4"),
        Port::optional("ip6", Carries::Transport, "segments to IPv6"),
        Port::required("upper", Carries::Stream, "replies, data, credit and events to the sockets"),
    ],
    parameters: parameters::ROWS,
    procedures: &[Named { name: "control", doc: "{flow}: name and internal values of a connection's congestion control" }],
    alerts: &[Named { name: "reset-flood", doc: "{dropped}: segments to nowhere whose reset the rate limit held back, in this second" }],
    counters: counters::ROWS,
    owns: &[Table::Flows],
    asks: &[Table::Addresses(Family::V4), Table::Addresses(Family::V6), Table::Routes(Family::V4), Table::Routes(Family::V6)],
    state_version: 8,
    ..Kind::EMPTY
};

/// The row for block tables.
pub static ROW: BlockRow = BlockRow { kind: &KIND, make: |config| Ok(Box::new(TcpBlock::new(config)?)) };

/// Where a segment of a four-tuple goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Connection(u64),
    Request(u64),
    TimeWait(u64),
}

/// What a flow is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FlowOwner {
    Connection(u64),
    Listener(u64),
    TimeWait(u64),
}

#[derive(Debug)]
struct Slot {
    connection: Connection,
    /// What the engine's timer is set to.
    timer: Instant,
    /// Until then the neighbour counts as confirmed by this connection.
    confirmed_until: Instant,
    /// What it holds of the node's memory, as counted last.
    memory: u64,
    /// The listener in whose Fast Open queue it counts.
    early_of: Option<u64>,
    /// How it does, as told last to whoever gave it its extension.
    room: Option<Room>,
}

impl Slot {
    fn new(connection: Connection) -> Slot {
        Slot { connection, timer: Instant::FAR_FUTURE, confirmed_until: Instant::ZERO, memory: 0, early_of: None, room: None }
    }

    fn tuple(&self) -> Tuple {
        Tuple { local: self.connection.local(), remote: self.connection.remote() }
    }

    /// RFC 4861 §7.3.1: "thus, "forward progress" is a confirmation that the next-hop neighbor is reachable."
    fn confirm(&mut self, cx: &mut Context<'_>) {
        if self.connection.take_progress()
            && cx.now >= self.confirmed_until
            && let Some((interface, neighbour)) = self.connection.path().neighbour
        {
            self.confirmed_until = cx.now + CONFIRM_INTERVAL;
            cx.tell(Table::Neighbours(Family::of(neighbour)), Change::Confirm { interface, neighbour });
        }
    }
}

/// What is to be done once the block that state was imported into runs.
#[derive(Debug)]
struct Resumed {
    /// The settings are not those of the block before.
    renewed: bool,
}

/// The block.
#[derive(Debug)]
pub struct TcpBlock {
    name: String,
    settings: Settings,
    /// Those that connections may have.
    extensions: &'static [ExtensionRow],
    out: Outbox,
    secrets: initial::Secrets,
    rng: Rng,
    servers: servers::Cache,
    fast_open_key: (u64, u64),
    tuples: Map<Tuple, Owner>,
    flows: Map<FlowId, FlowOwner>,
    /// Bytes of released flows that sockets still hold for their programs.
    left_behind: Map<FlowId, u64>,
    /// The last that were released: data for them has crossed with that on its way.
    released: VecDeque<FlowId>,
    connections: Slab<Box<Slot>>,
    requests: Slab<listener::Request>,
    listeners: Slab<listener::Listener>,
    listening: BTreeMap<u16, Vec<u64>>,
    time_waits: Slab<record::Record>,
    /// TIME-WAITs in the order in which they end; a record that was prolonged goes to the end again.
    ending: VecDeque<(Instant, u64)>,
    resets: RateLimit,
    resets_held: u64,
    next_flow: u64,
    /// Counts changes of the tables that paths come from.
    epoch: u64,
    /// It has taken over another's state, and has not run since.
    resumed: Option<Resumed>,
}

impl TcpBlock {
    /// A block with these parameters.
    ///
    /// # Errors
    /// [`ControlError::BadValue`] when settings contradict each other.
    pub fn new(config: &mut Config) -> Result<TcpBlock, ControlError> {
        let mut settings = Settings::default();
        for row in parameters::ROWS {
            parameters::write(&mut settings, row.name, &config.value(row.name));
        }
        parameters::check(&settings, "mss", &settings.mss.into())?;
        let hasher = KeyedHasher::new(&mut config.rng);
        Ok(TcpBlock {
            name: config.name.clone(),
            settings,
            extensions: &[],
            out: Outbox::default(),
            secrets: initial::Secrets::new(&mut config.rng),
            rng: config.rng.fork("connections"),
            servers: servers::Cache::new(hasher),
            fast_open_key: (config.rng.u64(), config.rng.u64()),
            tuples: Map::with_hasher(hasher),
            flows: Map::with_hasher(hasher),
            left_behind: Map::with_hasher(hasher),
            released: VecDeque::new(),
            connections: Slab::default(),
            requests: Slab::default(),
            listeners: Slab::default(),
            listening: BTreeMap::new(),
            time_waits: Slab::default(),
            ending: VecDeque::new(),
            resets: RateLimit::default(),
            resets_held: 0,
            next_flow: 0,
            epoch: 1,
            resumed: None,
        })
    }

    /// The same, whose connections may have these extensions.
    pub fn with_extensions(config: &mut Config, extensions: &'static [ExtensionRow]) -> Result<TcpBlock, ControlError> {
        Ok(TcpBlock { extensions, ..TcpBlock::new(config)? })
    }

    /// Its name in the graph.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The settings as they stand.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// How many connections there are, half-open ones and those in TIME-WAIT.
    pub fn population(&self) -> (usize, usize, usize) {
        (self.connections.len(), self.requests.len(), self.time_waits.len())
    }

    /// Calls into a connection, then carries on what it gave out, and looks whether anything is left of it.
    fn with_connection<R>(&mut self, key: u64, cx: &mut Context<'_>, f: impl FnOnce(&mut Connection, &mut Env<'_>) -> R) -> Option<R> {
        self.out.memory.connections = self.connections.len() as u64;
        let slot = self.connections.get_mut(key)?;
        let mut env = Env { now: cx.now, config: &self.settings, out: &mut self.out };
        env.out.block = cx.me();
        if slot.connection.path().epoch != self.epoch {
            let tuple = Tuple { local: slot.connection.local(), remote: slot.connection.remote() };
            let old = *slot.connection.path();
            let path = ask_path(
                &tuple,
                first_hop(slot.connection.options(), tuple.remote.is_ipv6()),
                old.interface,
                slot.connection.options(),
                self.epoch,
                cx,
            )
            .unwrap_or(Path { epoch: self.epoch, ..old });
            // offload::cut looks for headers in the first 256 bytes of a frame.
            let whole = slot.connection.options().attached.is_none();
            slot.connection.set_path(&mut env, Path { gso_max_bytes: if whole { path.gso_max_bytes } else { 0 }, ..path });
        }
        let result = f(&mut slot.connection, &mut env);
        self.settle(key, cx);
        Some(result)
    }

    /// Carries on what a connection gave out.
    fn settle(&mut self, key: u64, cx: &mut Context<'_>) {
        self.tell_of_extension(key, cx.now);
        self.count_memory(key, cx.now);
        self.flush(cx);
        self.settle_fast_open(key, cx.now);
        let Some(slot) = self.connections.get_mut(key) else { return };
        slot.confirm(cx);
        match *slot.connection.finished() {
            Finished::No => {
                let next = slot.connection.next_deadline();
                if next < slot.timer {
                    slot.timer = next;
                    cx.set_timer(token(Token::Connection, key), next);
                }
            }
            Finished::Closed => self.release(key, cx),
            Finished::TimeWait(record) => self.begin_time_wait(key, record, cx),
        }
    }

    /// What a connection with an extension has to say to whoever gave it that.
    fn tell_of_extension(&mut self, key: u64, now: Instant) {
        let Some(slot) = self.connections.get_mut(key) else { return };
        slot.connection.pass_words_up(&mut Env { now, config: &self.settings, out: &mut self.out });
        let room = slot.connection.wanted_room(&self.settings, slot.room.as_ref());
        if let Some(room) = room.filter(|_| slot.room != room) {
            slot.room = Some(room);
            self.out.messages.push(StreamMessage::Room { flow: slot.connection.flow(), room: Box::new(room) });
        }
    }

    /// What a connection has learned for others, and whether it counts as early no more.
    fn settle_fast_open(&mut self, key: u64, now: Instant) {
        let Some(slot) = self.connections.get_mut(key) else { return };
        if let Some(listener) = slot.early_of.filter(|_| !slot.connection.is_early()) {
            slot.early_of = None;
            let reset = slot.connection.was_reset_early();
            if let Some(listener) = self.listeners.get_mut(listener) {
                listener.early_ended(reset, now);
            }
        } else if let Some(learned) = slot.connection.take_learned() {
            let tuple = Tuple { local: slot.connection.local(), remote: slot.connection.remote() };
            self.fast_open_learned(&tuple, learned, now);
        }
    }

    fn flush(&mut self, cx: &mut Context<'_>) {
        for frame in self.out.frames.drain(..) {
            let port = if frame.meta().dst.is_ipv4() { IP4 } else { IP6 };
            cx.emit(port, frame);
        }
        for message in self.out.messages.drain(..) {
            cx.send(UPPER, message);
        }
        for reason in self.out.drops.drain(..) {
            cx.count_drop(reason);
        }
    }

    /// Brings the node's account up to date with one connection.
    fn count_memory(&mut self, key: u64, now: Instant) {
        let Some(slot) = self.connections.get_mut(key) else { return };
        let new = slot.connection.memory();
        if new != slot.memory {
            let old = std::mem::replace(&mut slot.memory, new);
            let told = self.out.memory.update(now, old, new, &self.settings, &mut self.out.counters);
            self.out.messages.extend(told);
        }
    }

    /// A connection is removed: what the program has not read stays in the node's account until sockets give credit for it.
    fn forget_memory(&mut self, slot: &Slot, cx: &mut Context<'_>) {
        let left = slot.connection.unread();
        if left > 0 {
            self.left_behind.insert(slot.connection.flow(), left);
        }
        let told = self.out.memory.update(cx.now, slot.memory, left, &self.settings, &mut self.out.counters);
        told.into_iter().for_each(|message| cx.send(UPPER, message));
    }

    /// Credit for a flow that has been released.
    fn credit_left_behind(&mut self, flow: FlowId, bytes: u32, cx: &mut Context<'_>) {
        let Some(left) = self.left_behind.get_mut(&flow) else { return };
        let old = *left;
        *left = old.saturating_sub(u64::from(bytes));
        let new = *left;
        if new == 0 {
            self.left_behind.swap_remove(&flow);
        }
        let told = self.out.memory.update(cx.now, old, new, &self.settings, &mut self.out.counters);
        told.into_iter().for_each(|message| cx.send(UPPER, message));
    }

    /// Removes a connection of which nothing is left. `Released` is the last message of its flow.
    fn release(&mut self, key: u64, cx: &mut Context<'_>) {
        let Some(slot) = self.connections.remove(key) else { return };
        self.forget_memory(&slot, cx);
        let tuple = Tuple { local: slot.connection.local(), remote: slot.connection.remote() };
        if self.tuples.get(&tuple) == Some(&Owner::Connection(key)) {
            self.tuples.swap_remove(&tuple);
        }
        self.flows.swap_remove(&slot.connection.flow());
        if slot.timer != Instant::FAR_FUTURE {
            cx.cancel_timer(token(Token::Connection, key));
        }
        self.tell_released(slot.connection.flow(), cx);
    }

    fn tell_released(&mut self, flow: FlowId, cx: &mut Context<'_>) {
        if self.released.len() == RELEASED_MAX {
            self.released.pop_front();
        }
        self.released.push_back(flow);
        cx.send(UPPER, StreamMessage::Event { flow, event: Box::new(StreamEvent::Released) });
    }

    fn on_connection_timer(&mut self, key: u64, cx: &mut Context<'_>) {
        let Some(slot) = self.connections.get_mut(key) else { return };
        slot.timer = Instant::FAR_FUTURE;
        self.with_connection(key, cx, Connection::on_timer);
    }
}

/// The first hop of a source route, which is where segments go.
fn first_hop(options: &StreamOptions, v6: bool) -> Option<IpAddr> {
    match v6 {
        false => crate::connection::prepared(options)?.first_hop().map(IpAddr::V4),
        true => options.attached.as_ref()?.first_hop().map(IpAddr::V6),
    }
}

/// The way to the peer.
fn ask_path(
    tuple: &Tuple,
    hop: Option<IpAddr>,
    interface: InterfaceIndex,
    options: &StreamOptions,
    epoch: u64,
    cx: &Context<'_>,
) -> Result<Path, StreamError> {
    let destination = hop.unwrap_or(tuple.remote.ip());
    // A link-local peer is on the interface that its address names.
    let interface = if interface == InterfaceIndex::NONE { interface_of(tuple.remote) } else { interface };
    let bound = (interface != InterfaceIndex::NONE).then_some(interface);
    let source = (!tuple.local.ip().is_unspecified()).then_some(tuple.local.ip());
    let (protocol, ports) = (weft_wire::Protocol::TCP.0, (tuple.local.port(), tuple.remote.port()));
    let traffic = Traffic { input: InterfaceIndex::NONE, mark: options.mark, tos: options.tos, protocol, ports, ..Traffic::default() };
    let answer = cx
        .route(&Query::Route { destination, source, interface: bound, traffic }, Family::of(destination))
        .ok_or(StreamError::NetUnreachable)?;
    match answer.kind {
        RouteKind::Blackhole => return Err(StreamError::Invalid),
        RouteKind::Unreachable => return Err(StreamError::HostUnreachable),
        RouteKind::Prohibit => return Err(StreamError::Prohibited),
        // RFC 9293 §3.9.2.3: "A TCP implementation MUST reject as an error a local OPEN call for an invalid remote IP address".
        RouteKind::Broadcast | RouteKind::Multicast | RouteKind::Throw => return Err(StreamError::NetUnreachable),
        RouteKind::Unicast | RouteKind::Local => {}
    }
    // RFC 791's total length field; the loopback interface has an MTU of 65536.
    let mtu = if destination.is_ipv4() { answer.mtu.min(u32::from(u16::MAX)) } else { answer.mtu };
    let neighbour = (answer.kind == RouteKind::Unicast).then_some((answer.interface, answer.next_hop));
    Ok(Path { mtu, gso_max_bytes: answer.gso_max_bytes, interface, neighbour, epoch })
}

/// An IPv4-mapped address as the IPv4 address that goes on the wire.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V6(ip) => ip.to_ipv4_mapped().map_or(address, |ip| SocketAddr::new(ip.into(), address.port())),
        IpAddr::V4(_) => address,
    }
}

impl Block for TcpBlock {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn process(&mut self, port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        for index in 0..vector.len() {
            let Some(frame) = vector.take(index) else { continue };
            match port {
                LOWER => self.segment_in(frame, cx),
                ERROR => self.error_in(frame, cx),
                _ => cx.drop(frame, Reason::Refused),
            }
        }
    }

    fn give_back_memory(&mut self) {
        self.tuples.shrink_to_fit();
        self.flows.shrink_to_fit();
        self.left_behind.shrink_to_fit();
        self.connections.shrink_to_fit();
        self.requests.shrink_to_fit();
        self.time_waits.shrink_to_fit();
        self.ending.shrink_to_fit();
        self.out.frames.shrink_to_fit();
        self.out.messages.shrink_to_fit();
    }

    fn started(&mut self, cx: &mut Context<'_>) {
        self.resume(cx);
    }

    fn export(&self, now: Instant) -> Result<State, StateError> {
        self.export_state(now)
    }

    fn import(&mut self, state: &State, now: Instant) -> Result<(), StateError> {
        self.import_state(state, now)
    }

    fn takes_over(&self, old: &dyn Block) -> bool {
        (old as &dyn Any).is::<TcpBlock>()
    }

    fn take_over(&mut self, old: &mut dyn Block) {
        if let Some(old) = (old as &mut dyn Any).downcast_mut() {
            self.move_state(old);
        }
    }

    fn stream(&mut self, _port: InPort, message: StreamMessage, cx: &mut Context<'_>) {
        self.message_in(message, cx);
    }

    fn timer(&mut self, timer: u64, cx: &mut Context<'_>) {
        match untoken(timer) {
            (Token::Connection, key) => self.on_connection_timer(key, cx),
            (Token::Request, key) => self.on_request_timer(key, cx),
            (Token::TimeWaits, _) => self.on_time_wait_timer(cx),
        }
    }

    fn completed(&mut self, token: u64, bytes: u32, cx: &mut Context<'_>) {
        self.with_connection(token, cx, |connection, env| connection.on_completed(env, bytes));
    }

    fn went_back(&mut self, cx: &mut Context<'_>) {
        let keys: Vec<u64> = self.connections.iter().map(|(key, _)| key).collect();
        for key in keys {
            self.with_connection(key, cx, |connection, env| connection.on_completed(env, u32::MAX));
        }
    }

    fn table_changed(&mut self, table: Table, _cx: &mut Context<'_>) {
        if matches!(table, Table::Interfaces | Table::Addresses(_) | Table::Routes(_)) {
            self.epoch += 1;
        }
    }

    fn query(&self, query: &Query, now: Instant) -> Answer {
        match query {
            Query::FlowInfo(flow) => match self.flows.get(flow) {
                Some(FlowOwner::Connection(key)) => self
                    .connections
                    .get(*key)
                    .map_or(Answer::None, |slot| Answer::FlowInfo(Box::new(slot.connection.info(&self.settings, now)))),
                Some(FlowOwner::Listener(key)) => self.listener_info(*key),
                Some(FlowOwner::TimeWait(_)) | None => Answer::None,
            },
            Query::FlowTimer(flow) => self.flow_timer(*flow, now),
            Query::CongestionControls => {
                let default = &self.settings.congestion;
                let others = crate::congestion::NAMES.iter().filter(|name| **name != default).map(|name| (*name).to_owned());
                Answer::CongestionControls(std::iter::once(default.clone()).chain(others).collect())
            }
            Query::FastOpen { local, remote, no_cookie, mtu } => {
                let tuple = Tuple { local: canonical(SocketAddr::new(*local, 0)), remote: canonical(SocketAddr::new(*remote, 0)) };
                Answer::FastOpen(self.fast_open_room(&tuple, *no_cookie, *mtu, now))
            }
            Query::List(Table::Flows) => Answer::List(self.rows(now)),
            _ => Answer::None,
        }
    }

    fn get(&self, name: &str, _now: Instant) -> Option<Value> {
        match name {
            "memory_bytes" => Some(self.out.memory.used().into()),
            _ => parameters::read(&self.settings, name),
        }
    }

    fn check(&self, name: &str, value: &Value) -> Result<(), ControlError> {
        parameters::check(&self.settings, name, value)
    }

    fn set(&mut self, name: &str, value: Value, cx: &mut Context<'_>) {
        parameters::write(&mut self.settings, name, &value);
        self.out.block = cx.me();
        for slot in self.connections.values_mut() {
            let mut env = Env { now: cx.now, config: &self.settings, out: &mut self.out };
            slot.connection.on_config(&mut env);
        }
        let told = self.out.memory.update(cx.now, 0, 0, &self.settings, &mut self.out.counters);
        self.out.messages.extend(told);
        self.flush(cx);
    }

    fn exec(&mut self, procedure: &str, arguments: &Value, _cx: &mut Context<'_>) -> Result<Value, ControlError> {
        if procedure != "control" {
            return Err(self.kind().no_procedure(&self.name, procedure));
        }
        let flow = arguments.get("flow").and_then(Value::as_u64).map(FlowId);
        let found = flow.and_then(|flow| self.flows.get(&flow)).and_then(|owner| match owner {
            FlowOwner::Connection(key) => self.connections.get(*key),
            _ => None,
        });
        Ok(found.map_or(Value::Null, |slot| slot.connection.control_info()))
    }

    fn counters(&self) -> &[u64] {
        &self.out.counters.0
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// Gives out a frame that no connection made.
fn emit(out: &mut Outbox, frame: Frame) {
    out.counters.add(crate::counters::Counter::OutSegs, 1);
    out.frames.push(frame);
}
