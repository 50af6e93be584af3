//! The block: which flows are connections of Multipath TCP, and which pass through.

mod addresses;
mod answers;
mod listeners;
mod managed;
mod parameters;
mod procedures;
mod state;

use crate::connection::{Connection, Left, Manager, Path};
use crate::counters::{Counter, Counters};
use crate::endpoint::Locals;
use crate::key::Key;
use crate::kind::{ALERT, DOWN, FROM_ABOVE, KIND, Settings, UP};
use crate::listener::Listener;
use crate::out::{OWN_CALL, Out};
use crate::own::{Own, Scheduled};
use crate::scheduler::{self, Chosen};
use crate::subflow::Subflow;
use crate::word::{self, Down, Up, Why};
use std::any::Any;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use weft_core::{
    Answer, Block, BlockRow, Bytes, CallId, Config, Context, ControlError, FlowId, InPort, Instant, KeyedHasher, Kind, Map, Op, Query, Rng,
    Slab, State, StateError, StreamCall, StreamEvent, StreamMessage, StreamOptions, Table, Value,
};
use weft_wire::tcp::mptcp::reset_reason;

/// How to make one.
pub const ROW: BlockRow = BlockRow { kind: &KIND, make: |config| Ok(Box::new(MptcpBlock::new(config)?)) };

/// Tries to find a key whose token is not taken.
const KEYS_TRIED: usize = 4;
/// The serial number of the only order that it gives.
const EXTRACTION: u64 = 1;

/// What a flow below is.
#[derive(Clone, Copy, Debug)]
enum Owner {
    /// A subflow of this connection.
    Connection(u64),
    /// A subflow that was refused.
    Nobody,
    /// Accepted, with an extension whose first word has not come: by this listener, between these two.
    Accepted { listener: FlowId, local: SocketAddr, remote: SocketAddr },
}

/// The block.
#[derive(Debug)]
pub struct MptcpBlock {
    name: String,
    settings: Settings,
    counters: Counters,
    rng: Rng,
    connections: Slab<Box<Connection>>,
    flows: Map<FlowId, Owner>,
    tokens: Map<u32, u64>,
    listeners: BTreeMap<FlowId, Listener>,
    locals: Locals,
    /// What has gone over the interfaces of each quota, bytes.
    used: Vec<u64>,
    /// The loadable scheduler.
    own: Own,
    /// Identifiers of addresses that nobody has given one.
    ids: BTreeMap<IpAddr, u8>,
    /// It is to be extracted, when its last connection has ended.
    retired: bool,
    /// That has been ordered.
    leaves: bool,
    next_call: u64,
    next_flow: u64,
    /// From here on the next endpoint without an identifier looks for one.
    next_id: u8,
}

impl MptcpBlock {
    fn new(config: &mut Config) -> Result<MptcpBlock, ControlError> {
        let hasher = KeyedHasher::new(&mut config.rng);
        let mut block = MptcpBlock {
            name: config.name.clone(),
            settings: Settings::default(),
            counters: Counters::default(),
            rng: config.rng.fork("keys"),
            connections: Slab::default(),
            flows: Map::with_hasher(hasher),
            tokens: Map::with_hasher(hasher),
            listeners: BTreeMap::new(),
            locals: Locals::default(),
            used: Vec::new(),
            own: Own::default(),
            ids: BTreeMap::new(),
            retired: false,
            leaves: false,
            next_call: 0,
            next_flow: 0,
            next_id: 1,
        };
        for parameter in KIND.parameters {
            let value = config.value(parameter.name);
            block.check(parameter.name, &value)?;
            block.settings.set(parameter.name, &value);
        }
        block.used = vec![0; block.settings.quotas.len()];
        Ok(block)
    }

    /// Calls into a connection, then looks what is left of it.
    fn with<R>(&mut self, key: u64, cx: &mut Context<'_>, f: impl FnOnce(&mut Connection, &mut Out<'_, '_>) -> R) -> Option<R> {
        let connection = self.connections.get_mut(key)?;
        let mut out = Out {
            cx,
            settings: &self.settings,
            counters: &mut self.counters,
            next_call: &mut self.next_call,
            next_flow: &mut self.next_flow,
            rng: &mut self.rng,
            locals: &self.locals,
            listeners: &self.listeners,
            used: &mut self.used,
            own: &mut self.own,
            spent: false,
            opened: Vec::new(),
        };
        let result = f(connection, &mut out);
        let spent = out.spent;
        for flow in out.opened {
            self.flows.insert(flow, Owner::Connection(key));
        }
        // The first one's flow is the connection's.
        for path in connection.paths.iter().skip(1).filter(|path| path.released) {
            self.flows.swap_remove(&path.flow);
        }
        let first = connection.flow;
        connection.paths.retain(|path| !path.released || path.flow == first);
        let (left, deadline) = (connection.left(), connection.deadline(&self.settings));
        let wanted = deadline.filter(|_| left == Left::All);
        // Each acknowledgment puts it off: it goes off then all the same, and looks again.
        match (wanted, connection.armed) {
            (Some(at), armed) if armed.is_none_or(|armed| at < armed) => {
                connection.armed = wanted;
                cx.set_timer(key, at);
            }
            (None, Some(_)) => {
                connection.armed = None;
                cx.cancel_timer(key);
            }
            _ => {}
        }
        if left != Left::All {
            self.forget(key, cx);
            self.leave_if_retired(cx);
        }
        if spent {
            self.counters.count(Counter::QuotasUsedUp);
            self.look_at_addresses(cx);
        }
        Some(result)
    }

    /// Orders its extraction, if that was wanted and nothing is left.
    fn leave_if_retired(&mut self, cx: &mut Context<'_>) {
        if self.retired
            && !self.leaves
            && self.connections.is_empty()
            && cx.order(EXTRACTION, Op::Extract { block: self.name.clone() }).is_ok()
        {
            self.leaves = true;
        }
    }

    /// A connection is no longer one of Multipath TCP.
    fn forget(&mut self, key: u64, cx: &mut Context<'_>) {
        let Some(connection) = self.connections.remove(key) else { return };
        for flow in self.listeners.keys().filter(|_| connection.offered.is_some()) {
            let bytes = word::write(&Down::Withdraw(connection.local.token()));
            cx.send(DOWN, StreamMessage::Word { flow: *flow, bytes });
        }
        for path in &connection.paths {
            self.flows.swap_remove(&path.flow);
            // A subflow that outlives it by its reset.
            if path.flow != connection.flow && !path.released {
                self.flows.insert(path.flow, Owner::Nobody);
            }
        }
        let token = connection.local.token();
        if self.tokens.get(&token) == Some(&key) {
            self.tokens.swap_remove(&token);
        }
    }

    /// The connection that sockets mean by a flow.
    fn of_sockets(&self, flow: FlowId) -> Option<u64> {
        match self.flows.get(&flow) {
            Some(Owner::Connection(key)) => self.connections.get(*key).filter(|connection| connection.flow == flow).map(|_| *key),
            _ => None,
        }
    }

    /// The connection that has a flow below as its subflow, and which one that is.
    fn of_subflow(&self, flow: FlowId) -> Option<(u64, usize)> {
        match self.flows.get(&flow) {
            Some(Owner::Connection(key)) => Some((*key, self.connections.get(*key)?.path(flow)?)),
            _ => None,
        }
    }

    fn going_down(&mut self, message: StreamMessage, cx: &mut Context<'_>) {
        match message {
            StreamMessage::Call { id, flow, op } => self.call(id, flow, op, cx),
            StreamMessage::Data { flow, bytes, flags, mapping } => match self.of_sockets(flow) {
                Some(key) => drop(self.with(key, cx, |connection, out| connection.data_down(bytes, flags, out))),
                None => cx.send(DOWN, StreamMessage::Data { flow, bytes, flags, mapping }),
            },
            StreamMessage::Credit { flow, bytes, enough } => match self.of_sockets(flow) {
                Some(key) => drop(self.with(key, cx, |connection, out| connection.taken(bytes, out))),
                None => cx.send(DOWN, StreamMessage::Credit { flow, bytes, enough }),
            },
            other => cx.send(DOWN, other),
        }
    }

    fn call(&mut self, id: CallId, flow: FlowId, mut op: Box<StreamCall>, cx: &mut Context<'_>) {
        if let Some(key) = self.of_sockets(flow) {
            self.with(key, cx, |connection, out| connection.call(id, *op, out));
            return;
        }
        match &mut *op {
            StreamCall::Connect { local, remote, options, extension: extension @ None } => {
                self.begin(Path::new(flow, *local, *remote), options, extension);
            }
            StreamCall::ConnectWith { local, remote, options, data, extension: extension @ None } => {
                let key = self.begin(Path::new(flow, *local, *remote), options, extension);
                if let Some(key) = key.filter(|_| !data.is_empty()) {
                    let data = data.clone();
                    self.with(key, cx, |connection, out| connection.goes_early(data, out));
                }
            }
            StreamCall::Listen { extension: None, .. } if !self.retired => return self.listen(id, flow, op, cx),
            StreamCall::Set(option) => {
                if let Some(listener) = self.listeners.get_mut(&flow) {
                    listener.options.apply(option.clone());
                }
            }
            _ => {}
        }
        cx.send(DOWN, StreamMessage::Call { id, flow, op });
    }

    /// Sockets open a connection: it gets an extension, if there is room for it.
    fn begin(&mut self, first: Path, options: &mut StreamOptions, extension: &mut Option<Box<State>>) -> Option<u64> {
        let key = if self.has_room() { self.new_key()? } else { return None };
        *extension = Some(Box::new(Subflow::opener(key, self.settings.asks()).state()));
        let chosen = options.clone();
        if options.congestion.is_none() {
            options.congestion.clone_from(&self.settings.congestion);
        }
        let mut connection = Connection::new(first.flow, true, key, chosen, first);
        connection.manager = self.settings.by_program.then(Manager::default);
        Some(self.insert(connection))
    }

    /// May there be one more connection?
    fn has_room(&mut self) -> bool {
        let wanted = self.settings.enabled && !self.retired;
        let room = self.connections.len() < self.settings.connections_max;
        if wanted && !room {
            self.counters.count(Counter::TablesFull);
        }
        wanted && room
    }

    /// A key whose token nobody has.
    fn new_key(&mut self) -> Option<Key> {
        let found = (0..KEYS_TRIED).map(|_| Key(self.rng.u64())).find(|key| !self.tokens.contains_key(&key.token()));
        if found.is_none() {
            self.counters.count(Counter::MPFallbackTokenInit);
        }
        found
    }

    fn insert(&mut self, connection: Connection) -> u64 {
        let (flow, token) = (connection.flow, connection.local.token());
        let key = self.connections.insert(Box::new(connection));
        self.flows.insert(flow, Owner::Connection(key));
        // Whoever has the token keeps it: the new connection is one that nobody can join.
        self.tokens.entry(token).or_insert(key);
        key
    }

    fn coming_up(&mut self, message: StreamMessage, cx: &mut Context<'_>) {
        match message {
            StreamMessage::Data { flow, bytes, flags, mapping } => match self.of_subflow(flow) {
                Some((key, index)) => drop(self.with(key, cx, |connection, out| connection.data_up(index, bytes, flags, mapping, out))),
                None if self.is_nobody(flow) => {}
                None => cx.send(UP, StreamMessage::Data { flow, bytes, flags, mapping }),
            },
            StreamMessage::Credit { flow, bytes, enough } => match self.of_subflow(flow) {
                Some((key, index)) => drop(self.with(key, cx, |connection, out| connection.on_credit(index, bytes, enough, out))),
                None if self.is_nobody(flow) => {}
                None => cx.send(UP, StreamMessage::Credit { flow, bytes, enough }),
            },
            StreamMessage::Word { flow, bytes } => self.word(flow, &bytes, cx),
            StreamMessage::Room { flow, room } => {
                if let Some((key, index)) = self.of_subflow(flow) {
                    self.with(key, cx, |connection, out| connection.on_room(index, *room, out));
                }
            }
            StreamMessage::Event { flow, event } => self.event(flow, event, cx),
            // Nobody waits for the answers to the block's own calls: what becomes of a flow is told by events.
            StreamMessage::Reply { id, .. } if id.0 & OWN_CALL != 0 => {}
            other => cx.send(UP, other),
        }
    }

    fn is_nobody(&self, flow: FlowId) -> bool {
        matches!(self.flows.get(&flow), Some(Owner::Nobody))
    }

    fn event(&mut self, flow: FlowId, event: Box<StreamEvent>, cx: &mut Context<'_>) {
        match &*event {
            StreamEvent::Accepted { child, local, remote, extended: true } => {
                // Whose it is, its first word tells.
                let owner = Owner::Accepted { listener: flow, local: *local, remote: *remote };
                self.flows.insert(*child, owner);
                return;
            }
            _ if self.is_nobody(flow) => {
                if matches!(*event, StreamEvent::Released) {
                    self.flows.swap_remove(&flow);
                }
                return;
            }
            StreamEvent::Released if self.listeners.contains_key(&flow) => return self.listener_gone(flow, cx),
            _ => {}
        }
        match self.of_subflow(flow) {
            Some((key, index)) => drop(self.with(key, cx, |connection, out| connection.on_event(index, *event, out))),
            None => cx.send(UP, StreamMessage::Event { flow, event }),
        }
    }

    fn word(&mut self, flow: FlowId, bytes: &Bytes, cx: &mut Context<'_>) {
        let Some(word) = word::read::<Up>(bytes) else { return self.counters.count(Counter::WordsUnread) };
        match (self.flows.get(&flow).copied(), word) {
            (Some(Owner::Accepted { listener, local, remote }), Up::Begun { local: key, early }) => {
                self.accept(key, listener, Path { early, ..Path::new(flow, local, remote) }, cx);
            }
            (Some(Owner::Accepted { listener, local, remote }), Up::Joined { token, remote_id, local_id, backup }) => {
                let path = Path { local_id, remote_id, backup_by_peer: backup, joined: true, up: true, ..Path::new(flow, local, remote) };
                self.join(token, listener, path, cx);
            }
            (_, Up::Count(counter)) => self.counters.count(counter),
            (Some(Owner::Connection(key)), word) => {
                let index = self.connections.get(key).and_then(|connection| connection.path(flow));
                if let Some(index) = index {
                    self.with(key, cx, |connection, out| connection.on_word(index, word, out));
                }
            }
            _ => {}
        }
    }

    /// A listener has a new connection.
    fn accept(&mut self, key: Key, listener: FlowId, first: Path, cx: &mut Context<'_>) {
        let Path { flow: child, local, remote, .. } = first;
        let options = self.listeners.get(&listener).map(|listener| listener.options.clone()).unwrap_or_default();
        let mut connection = Connection::new(child, false, key, options, first);
        connection.manager = self.settings.by_program.then(Manager::default);
        let key = self.insert(connection);
        self.with(key, cx, |connection, out| {
            connection.choose_control(child, out);
            connection.opened(out);
        });
        let event = StreamEvent::Accepted { child, local, remote, extended: false };
        cx.send(UP, StreamMessage::Event { flow: listener, event: Box::new(event) });
    }

    /// A connection that a listener has accepted joins another: sockets do not hear of it.
    fn join(&mut self, token: u32, listener: FlowId, path: Path, cx: &mut Context<'_>) {
        let flow = path.flow;
        let took = StreamMessage::Call { id: CallId(OWN_CALL), flow: listener, op: Box::new(StreamCall::Took { connections: 1 }) };
        cx.send(DOWN, took);
        let joined = match self.tokens.get(&token).copied() {
            Some(key) => {
                self.flows.insert(flow, Owner::Connection(key));
                self.with(key, cx, |connection, out| connection.joined(path, out)) == Some(true)
            }
            None => false,
        };
        if !joined {
            self.counters.count(Counter::MPJoinRejected);
            self.flows.swap_remove(&flow);
            let why = Why::Reason { transient: false, reason: reset_reason::PROHIBITED };
            cx.send(DOWN, StreamMessage::Word { flow, bytes: word::write(&Down::Reset(why)) });
            cx.send(DOWN, StreamMessage::Call { id: CallId(OWN_CALL), flow, op: Box::new(StreamCall::Abort) });
            // Nothing of it concerns anybody.
            self.flows.insert(flow, Owner::Nobody);
        }
    }

    /// Looks which addresses there are, and brings all connections in line.
    fn look_at_addresses(&mut self, cx: &mut Context<'_>) {
        let locals = addresses::look(&self.settings, &self.used, &mut self.ids, &self.locals, cx);
        if locals == self.locals {
            return;
        }
        self.locals = locals;
        let keys = self.keys();
        for key in keys {
            self.with(key, cx, |connection, out| {
                let locals = out.locals;
                connection.reconcile(locals, out);
            });
        }
        self.locals.lost.clear();
        self.locals.removed.clear();
        self.listen_at_announced(cx);
    }

    fn keys(&self) -> Vec<u64> {
        self.connections.iter().map(|(key, _)| key).collect()
    }

    fn rows(&self) -> Vec<Value> {
        let scheduler = self.own.name(&self.settings);
        self.connections.iter().map(|(_, connection)| connection.row(&scheduler)).collect()
    }
}

impl Block for MptcpBlock {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn stream(&mut self, port: InPort, message: StreamMessage, cx: &mut Context<'_>) {
        if port == FROM_ABOVE { self.going_down(message, cx) } else { self.coming_up(message, cx) }
    }

    fn timer(&mut self, token: u64, cx: &mut Context<'_>) {
        if let Some(connection) = self.connections.get_mut(token) {
            connection.armed = None;
        }
        self.with(token, cx, |connection, out| connection.on_timer(out));
    }

    fn counters(&self) -> &[u64] {
        &self.counters.0
    }

    fn get(&self, name: &str, _now: Instant) -> Option<Value> {
        match name {
            "connections" => Some(Value::Array(self.rows())),
            "available_schedulers" => Some(scheduler::NAMES.join(" ").into()),
            _ => self.settings.get(name),
        }
    }

    fn check(&self, name: &str, value: &Value) -> Result<(), ControlError> {
        Settings::check(name, value).map_err(|why| ControlError::BadValue { block: self.name.clone(), parameter: name.to_owned(), why })
    }

    fn set(&mut self, name: &str, value: Value, cx: &mut Context<'_>) {
        self.settings.set(name, &value);
        if name == "scheduler" {
            self.own = Own::default();
        }
        if name == "quota" {
            self.used = vec![0; self.settings.quotas.len()];
        }
        self.look_at_addresses(cx);
        if name == "enabled" && !self.retired {
            self.tell_enabled(cx);
        }
        if matches!(name, "standby" | "idle_after") {
            for key in self.keys() {
                self.with(key, cx, Connection::follow_policy);
            }
        }
        if matches!(name, "checksum" | "allow_join_initial_address") {
            self.tell_listeners(&Down::Asks(self.settings.asks()), cx);
        }
        if name == "congestion" {
            for key in self.keys() {
                self.with(key, cx, Connection::control_changed);
            }
        }
    }

    fn exec(&mut self, procedure: &str, arguments: &Value, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        self.run(procedure, arguments, cx)
    }

    fn table_changed(&mut self, table: Table, cx: &mut Context<'_>) {
        if matches!(table, Table::Addresses(_) | Table::Interfaces) {
            self.look_at_addresses(cx);
        }
    }

    fn owner_lost(&mut self, table: Table, cx: &mut Context<'_>) {
        if table == Table::Schedulers && matches!(self.settings.scheduler, Chosen::Block(_)) {
            // Another one, or none: it knows nothing of what the one before it had connections remember.
            self.own = Own::default();
            for key in self.keys() {
                self.connections.get_mut(key).into_iter().for_each(|connection| connection.scheduled = Scheduled::default());
            }
            self.own.in_use(&self.settings, &mut self.counters, cx);
        }
    }

    fn query(&self, query: &Query, _now: Instant) -> Answer {
        self.answer(query)
    }

    fn export(&self, now: Instant) -> Result<State, StateError> {
        Ok(self.export_state(now))
    }

    fn import(&mut self, state: &State, now: Instant) -> Result<(), StateError> {
        self.import_state(state, now)
    }

    fn takes_over(&self, old: &dyn Block) -> bool {
        (old as &dyn Any).is::<MptcpBlock>()
    }

    fn take_over(&mut self, old: &mut dyn Block) {
        if let Some(old) = (old as &mut dyn Any).downcast_mut::<MptcpBlock>() {
            std::mem::swap(self, old);
            std::mem::swap(&mut self.settings, &mut old.settings);
            std::mem::swap(&mut self.name, &mut old.name);
            old.counters = self.counters.clone();
        }
    }

    fn lingers(&self) -> bool {
        // Listeners have to hear of it, too.
        !self.connections.is_empty() || !self.retired && !self.listeners.is_empty()
    }

    fn retire(&mut self) {
        self.retired = true;
    }

    fn started(&mut self, cx: &mut Context<'_>) {
        self.look_at_addresses(cx);
        if self.retired {
            self.retire_listeners(cx);
            self.leave_if_retired(cx);
        }
        // Timers do not pass from one block to its successor.
        let keys = self.keys();
        for key in keys {
            if let Some(connection) = self.connections.get_mut(key) {
                connection.armed = connection.deadline(&self.settings);
                connection.armed.into_iter().for_each(|at| cx.set_timer(key, at));
            }
        }
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
