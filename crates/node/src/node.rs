//! A node: an engine with the graph of a stack file, and the few calls through which a world drives it.

use crate::default_graph::{BLOCKS, EDGES};
use crate::dhcp;
use crate::error::StackError;
use crate::kinds::block_table;
use crate::stack::{AddressSection, Base, Framing, InterfaceSection, NextHop, RouteSection, Stack};
use indexmap::IndexMap;
use std::ops::Range;
use weft_blocks::link::interfaces::Interfaces;
use weft_core::context::Context;
use weft_core::control::Value;
use weft_core::engine::{Alert, Engine};
use weft_core::table::{Interface, LinkType};
use weft_core::{
    Answer, Block, BlockId, Completion, ControlError, End, Execute, Frame, InPort, Instant, InterfaceIndex, Message, Mode, Obeyed, Op,
    Query, Reply, Rng, Selector, Snapshot, SnapshotError, State, StateError, TimeKind, transaction,
};
use weft_socket::Sockets;

/// What runs the graph: an engine of `weft_core`, or one that a world brings.
#[derive(Debug)]
enum Runner {
    /// Called without a detour: every frame of the inline engine comes through here.
    Core(Box<Engine>),
    Other(Box<dyn Execute>),
}

impl Runner {
    fn engine(&self) -> &Engine {
        match self {
            Runner::Core(engine) => engine,
            Runner::Other(other) => other.engine(),
        }
    }
    fn control(&mut self, now: Instant, message: &Message) -> Reply {
        match self {
            Runner::Core(engine) => engine.control(now, message),
            Runner::Other(other) => other.control(now, message),
        }
    }
    fn at_rest(&mut self, now: Instant, f: &mut dyn FnMut(&mut Engine) -> bool) {
        match self {
            Runner::Core(engine) => drop(f(engine)),
            Runner::Other(other) => other.at_rest(now, f),
        }
    }
}

/// Parameters that worlds set, not people.
pub(crate) const SET_BY_WORLDS: &[&str] = &["boot_time"];

/// A machine in a world.
#[derive(Debug)]
pub struct Node {
    name: String,
    engine: Runner,
    /// Where frames from the world enter, and through which port they leave.
    interfaces: Option<(BlockId, InPort)>,
    sockets: Option<BlockId>,
    /// Which sockets those are, and how often they have become others.
    sockets_birth: Option<u64>,
    sockets_changes: u64,
    /// How often the graph had become another when it was looked at last ([`Engine::changes`]).
    changes: u64,
    /// When it booted, for blocks that are made later.
    boot_time: Option<u64>,
}

impl Node {
    /// Builds the graph of a stack file. Interfaces, addresses and routes follow with [`Node::add_interface`] and [`Node::configure`].
    /// A file that asks for an engine that only some worlds have is refused.
    pub fn new(stack: &Stack, seed: u64) -> Result<Node, StackError> {
        match stack.node().engine.mode() {
            Some(mode) => Node::assemble(stack, seed, mode, |engine| Ok(Runner::Core(Box::new(engine)))),
            None => Err(stack.engine_error("the threaded engine is there in real time only", "write engine = \"inline\" or \"queued\"")),
        }
    }

    /// As [`Node::new`], on an engine that the world brings: `bring` gets one with the graph of the file. An error is one of the system's.
    pub fn on(
        stack: &Stack,
        seed: u64,
        bring: impl FnOnce(Engine) -> Result<Box<dyn Execute>, std::io::Error>,
    ) -> Result<Node, StackError> {
        Node::assemble(stack, seed, Mode::Queued, |engine| {
            let failed = |error| stack.engine_error(&format!("the engine does not start: {error}"), "try engine = \"inline\"");
            bring(engine).map(Runner::Other).map_err(failed)
        })
    }

    fn assemble(stack: &Stack, seed: u64, mode: Mode, run: impl FnOnce(Engine) -> Result<Runner, StackError>) -> Result<Node, StackError> {
        let section = stack.node();
        let mut table = block_table();
        table.set_loader(stack.loader());
        let mut engine = Engine::new(mode, table, Rng::for_name(seed, &section.name));
        build(&mut engine, stack)?;
        let mut node = Node {
            name: section.name.clone(),
            engine: run(engine)?,
            interfaces: None,
            sockets: None,
            sockets_birth: None,
            sockets_changes: 0,
            changes: 0,
            boot_time: None,
        };
        node.find_ends(Instant::ZERO);
        Ok(node)
    }

    /// The graph may have become another, by what blocks have ordered too: what the node remembers of it is looked up again, and new blocks learn what
    /// worlds tell.
    fn keep_up(&mut self, now: Instant) {
        let changes = self.engine.engine().changes();
        if changes == self.changes {
            return;
        }
        self.changes = changes;
        self.find_ends(now);
        if let Some(epoch_nanos) = self.boot_time {
            self.set_boot_time(now, epoch_nanos);
        }
    }

    /// Looks up the blocks through which worlds and programs reach the graph: it may have been rebuilt.
    fn find_ends(&mut self, now: Instant) {
        let graph = self.engine.engine().graph();
        self.interfaces = graph.find("interfaces").and_then(|id| graph.kind(id).and_then(|kind| kind.input("wire")).map(|port| (id, port)));
        self.sockets = graph.ids().find(|id| graph.kind(*id).is_some_and(|kind| kind.name == "sockets"));
        let birth = self.sockets(now, |sockets, _| sockets.birth());
        if birth != self.sockets_birth {
            self.sockets_birth = birth;
            self.sockets_changes += 1;
        }
    }

    /// Builds a node as [`Node::new`] does and configures it over interfaces that lead nowhere: everything in the file is checked that can be
    /// checked without opening a device.
    pub fn check(stack: &Stack) -> Result<Node, StackError> {
        let mode = stack.node().engine.mode().unwrap_or_default();
        let mut node = Node::assemble(stack, 0, mode, |engine| Ok(Runner::Core(Box::new(engine))))?;
        for (index, section) in stack.interfaces().enumerate() {
            let interface = node.describe(stack, index, section)?;
            node.add_interface(Instant::ZERO, &interface)
                .map_err(|error| stack.interface_error(index, field_of(&error, "name"), &plainly(&error), "see `weft help stack`"))?;
        }
        node.configure(Instant::ZERO, stack)?;
        Ok(node)
    }

    /// What the file says about an interface, with defaults for what it does not say. The world corrects it by what the backend can do.
    pub fn describe(&self, stack: &Stack, index: usize, section: &InterfaceSection) -> Result<Interface, StackError> {
        self.described(section).map_err(|(what, help)| stack.interface_error(index, "mac", &what, help))
    }

    /// As [`Node::describe`], of a section that stands in no file. What is wrong with its address, and what to do.
    pub(crate) fn described(&self, section: &InterfaceSection) -> Result<Interface, (String, &'static str)> {
        let mac = match &section.mac {
            None => default_mac(&self.name, &section.name),
            Some(text) => text.parse().map_err(|_| (format!("'{text}' is no MAC address"), "write it as mac = \"02:00:00:00:00:01\""))?,
        };
        if mac.is_multicast() {
            let help = "the first byte of an interface's address must be even, for example 02";
            return Err((format!("{mac} is a multicast address"), help));
        }
        Ok(Interface {
            index: InterfaceIndex::NONE,
            name: section.name.clone(),
            mac: mac.0,
            mtu: section.mtu.unwrap_or(1500),
            up: true,
            carrier: true,
            link: match section.link {
                Some(Framing::Raw) => LinkType::Raw,
                None | Some(Framing::Ethernet) => LinkType::Ethernet,
            },
            group: section.group,
            gso_max_bytes: 0,
            checksum_offload: false,
            backend: section.backend.clone(),
        })
    }

    /// The node's name.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// The engine, to look at.
    pub fn engine(&self) -> &Engine {
        self.engine.engine()
    }

    /// Tells the node of an interface whose backend the world has opened. Its index is chosen by the node unless given.
    pub fn add_interface(&mut self, now: Instant, interface: &Interface) -> Result<InterfaceIndex, ControlError> {
        let mac = weft_wire::ethernet::Mac(interface.mac).to_string();
        let link = match interface.link {
            LinkType::Ethernet => "ethernet",
            LinkType::Raw => "raw",
            LinkType::Loopback => "loopback",
        };
        let mut arguments = serde_json::json!({
            "name": interface.name, "mac": mac, "mtu": interface.mtu, "link": link, "group": interface.group,
            "backend": interface.backend, "gso_max_bytes": interface.gso_max_bytes, "checksum_offload": interface.checksum_offload,
            "carrier": interface.carrier,
        });
        if interface.index != InterfaceIndex::NONE {
            arguments["index"] = interface.index.0.into();
        }
        let reply = self
            .with_interfaces(now, |interfaces, cx| interfaces.attach(&arguments, cx))
            .ok_or_else(|| ControlError::World { why: "this graph has no block 'interfaces', so it takes no interface".into() })??;
        reply["index"]
            .as_u64()
            .and_then(|index| u32::try_from(index).ok())
            .map(InterfaceIndex)
            .ok_or_else(|| ControlError::BadRequest { why: format!("interfaces add answered {reply} instead of an index") })
    }

    /// Tells the blocks that want to know when the node booted, in nanoseconds since 1970 (for SO_TIMESTAMP, and timestamps on the wire).
    pub fn set_boot_time(&mut self, now: Instant, epoch_nanos: u64) {
        self.boot_time = Some(epoch_nanos);
        let graph = self.engine.engine().graph();
        let knows = |id: BlockId| graph.block(id).is_some_and(|block| block.get("boot_time", now) == Some(epoch_nanos.into()));
        let wants = |id: &BlockId| graph.kind(*id).is_some_and(|kind| kind.parameter("boot_time").is_some()) && !knows(*id);
        let set = |id: BlockId| {
            let target = Selector::Name(graph.name(id).to_owned());
            Op::Set { target, name: "boot_time".to_owned(), value: epoch_nanos.into() }
        };
        // One change: each is checked against the whole graph.
        let ops: Vec<Op> = graph.ids().filter(wants).map(set).collect();
        if !ops.is_empty() {
            let _ = self.engine.control(now, &Message { serial: 0, op: Op::All(ops) });
        }
    }

    /// The world lost what is behind an interface: it is down from now on.
    pub fn set_interface_down(&mut self, now: Instant, index: InterfaceIndex) {
        // It cannot fail for an interface of ours; if the program of control messages removed it meanwhile, it is down all the more.
        let _ = self.exec(now, "interfaces", "set", serde_json::json!({"index": index.0, "up": false}));
    }

    /// What is behind an interface says whether its other end answers.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn set_carrier(&mut self, now: Instant, interface: &str, carrier: bool) -> Result<(), ControlError> {
        self.exec(now, "interfaces", "carrier", serde_json::json!({"name": interface, "carrier": carrier})).map(drop)
    }

    /// Is the interface of this number up, whatever answers behind it? False: it is down, or there is none.
    pub fn is_interface_up(&self, index: InterfaceIndex) -> bool {
        let engine = self.engine.engine();
        let block = self.interfaces.and_then(|(id, _)| engine.graph().block(id));
        let answer = block.map(|block| block.query(&Query::Interface(index), engine.now()));
        matches!(answer, Some(Answer::Interface(interface)) if interface.up)
    }

    /// Takes an interface away, with its addresses and routes.
    ///
    /// # Errors
    /// There is none of this number, or it is `lo`.
    pub fn remove_interface(&mut self, now: Instant, index: InterfaceIndex) -> Result<(), ControlError> {
        self.exec(now, "interfaces", "remove", serde_json::json!({"index": index.0})).map(drop)
    }

    /// Is there an interface of this number? `None`: the graph has nobody who knows.
    pub fn has_interface(&mut self, now: Instant, index: InterfaceIndex) -> Option<bool> {
        let answer = self.with_interfaces(now, |interfaces, _| interfaces.query(&Query::Interface(index), now))?;
        Some(matches!(answer, Answer::Interface(_)))
    }

    /// What is known of a new interface before its backend says more, as [`Node::describe`] does for one in a file.
    ///
    /// # Errors
    /// Its address is none.
    pub fn describe_new(&self, section: &InterfaceSection) -> Result<Interface, ControlError> {
        let wrong =
            |(what, help)| ControlError::NotAttached { interface: section.name.clone(), why: format!("mac: {what}; {help}").into() };
        self.described(section).map_err(wrong)
    }

    /// `None`: the graph has no block of that name and kind.
    fn with_interfaces<R>(&mut self, now: Instant, f: impl FnOnce(&mut Interfaces, &mut Context<'_>) -> R) -> Option<R> {
        let id = self.engine.engine().graph().find("interfaces")?;
        self.with_block(now, id, f)
    }

    /// Calls into a block. `None`: it is of another kind, or gone.
    fn with_block<B: 'static, R, F: FnOnce(&mut B, &mut Context<'_>) -> R>(&mut self, now: Instant, id: BlockId, f: F) -> Option<R> {
        let call = |block: &mut dyn Block, cx: &mut Context<'_>, f: &mut Option<F>| {
            let f: F = f.take()?;
            block.as_any_mut().downcast_mut::<B>().map(|block| f(block, cx))
        };
        let mut f = Some(f);
        let result = match &mut self.engine {
            Runner::Core(engine) => engine.with(now, id, |block, cx| call(block, cx, &mut f)).flatten(),
            Runner::Other(other) => {
                let mut result = None;
                other.with(now, id, &mut |block, cx| result = call(block, cx, &mut f));
                result
            }
        };
        self.keep_up(now);
        result
    }

    /// Sets the stack file's addresses and routes.
    pub fn configure(&mut self, now: Instant, stack: &Stack) -> Result<(), StackError> {
        for (index, address) in stack.addresses().enumerate() {
            if let Ok(alone) = address.address.parse::<std::net::IpAddr>() {
                let (width, usual) = if alone.is_ipv4() { (32, 24) } else { (128, 64) };
                let what = format!("'{alone}' has no prefix length");
                let help =
                    format!("write that of its network, for example \"{alone}/{usual}\"; \"{alone}/{width}\" if it has no neighbours");
                return Err(stack.address_error(index, "address", &what, &help));
            }
            if address.dad && !is_v6(&address.address) {
                let what = format!("'{}': duplicates are detected of IPv6 addresses only", address.address);
                return Err(stack.address_error(index, "dad", &what, "take dad = true away"));
            }
            self.add_address(now, address).map_err(|error| {
                let help = match plainly(&error) {
                    text if text.contains("already") => "take one of the two away",
                    _ => "write it as address = \"10.77.0.2/24\" or address = \"fd77::2/64\"",
                };
                stack.address_error(index, field_of(&error, "address"), &plainly(&error), help)
            })?;
        }
        for (index, route) in stack.routes().enumerate() {
            self.add_route(now, route).map_err(|error| {
                let blamed = match () {
                    () if plainly(&error).contains("bits set") => "destination",
                    () if !route.nexthops.is_empty() => "nexthops",
                    () if route.gateway.is_some() => "gateway",
                    () => "destination",
                };
                let field = match field_of(&error, blamed) {
                    "gateway" | "interface" if !route.nexthops.is_empty() => "nexthops",
                    field => field,
                };
                stack.route_error(
                    index,
                    field,
                    &plainly(&error),
                    "a route needs destination = \"default\" or a prefix, and a gateway on a connected network, an interface, or nexthops",
                )
            })?;
        }
        Ok(())
    }

    /// Gives an interface an address of a stack file.
    pub(crate) fn add_address(&mut self, now: Instant, address: &AddressSection) -> Result<(), ControlError> {
        let mut arguments = serde_json::json!({"interface": address.interface, "address": address.address});
        let block = if is_v6(&address.address) { "ip6" } else { "ip4" };
        if block == "ip6" {
            arguments["dad"] = address.dad.into();
        }
        self.exec(now, block, "address_add", arguments).map(drop)
    }

    /// Adds a route of a stack file.
    pub(crate) fn add_route(&mut self, now: Instant, route: &RouteSection) -> Result<(), ControlError> {
        let mut arguments = serde_json::json!({"destination": route.destination, "metric": route.metric});
        if let Some(gateway) = &route.gateway {
            arguments["gateway"] = gateway.as_str().into();
        }
        if let Some(interface) = &route.interface {
            arguments["interface"] = interface.as_str().into();
        }
        if let Some(mtu) = route.mtu {
            arguments["mtu"] = mtu.into();
        }
        if !route.nexthops.is_empty() {
            arguments["nexthops"] = route.nexthops.iter().map(next_hop).collect();
        }
        self.exec(now, if of_v6(route) { "ip6" } else { "ip4" }, "route_add", arguments).map(drop)
    }

    fn exec(&mut self, now: Instant, block: &str, procedure: &str, arguments: Value) -> Result<Value, ControlError> {
        let op = Op::Exec { target: Selector::Name(block.to_owned()), procedure: procedure.to_owned(), arguments };
        let value = self.engine.control(now, &Message { serial: 0, op }).result?;
        Ok(value.get(block).cloned().unwrap_or(Value::Null))
    }

    /// Frames came in on an interface. Their metadata carry which.
    pub fn receive(&mut self, now: Instant, frames: impl IntoIterator<Item = Frame>) {
        if let Some((block, port)) = self.interfaces {
            match &mut self.engine {
                Runner::Core(engine) => engine.inject(now, block, port, frames),
                Runner::Other(other) => other.inject(now, block, port, &mut frames.into_iter()),
            }
            self.keep_up(now);
        }
    }
    /// Fires due timers and runs what follows.
    pub fn run(&mut self, now: Instant) {
        match &mut self.engine {
            Runner::Core(engine) => engine.run(now),
            Runner::Other(other) => other.run(now),
        }
        self.keep_up(now);
    }
    /// As [`Node::run`], after a call of a program: whatever the engine, what follows from it inside the node has happened when this returns.
    pub fn settle(&mut self, now: Instant) {
        match &mut self.engine {
            Runner::Core(engine) => engine.run(now),
            Runner::Other(other) => other.settle(now),
        }
        self.keep_up(now);
    }
    /// When [`Node::run`] should be called next.
    pub fn next_timer(&self) -> Option<Instant> {
        match &self.engine {
            Runner::Core(engine) => engine.next_timer(),
            Runner::Other(other) => other.next_timer(),
        }
    }
    /// Frames that are to leave, with the interface in their metadata.
    pub fn take_transmit(&mut self) -> impl Iterator<Item = Frame> + use<> {
        let outgoing = match &mut self.engine {
            Runner::Core(engine) => engine.take_outgoing(),
            Runner::Other(other) => other.take_outgoing(),
        };
        outgoing.into_iter().map(|outgoing| outgoing.frame)
    }
    /// Is there anything to transmit?
    pub fn has_transmit(&self) -> bool {
        match &self.engine {
            Runner::Core(engine) => engine.has_outgoing(),
            Runner::Other(other) => other.has_outgoing(),
        }
    }
    /// A transmitted frame has left.
    pub fn transmitted(&mut self, now: Instant, completion: Completion) {
        match &mut self.engine {
            Runner::Core(engine) => engine.completed(now, completion),
            Runner::Other(other) => other.completed(now, completion),
        }
        self.keep_up(now);
    }
    /// Calls into the socket layer. `None`: the graph has no sockets.
    pub fn sockets<R, F: FnOnce(&mut Sockets, &mut Context<'_>) -> R>(&mut self, now: Instant, f: F) -> Option<R> {
        self.with_block(now, self.sockets?, f)
    }
    /// What can be asked of the sockets without a context. Cheaper than [`Node::sockets`]: nothing can follow from it.
    pub fn look<R>(&mut self, now: Instant, f: impl FnOnce(&mut Sockets) -> R) -> Option<R> {
        match (&mut self.engine, self.sockets) {
            (Runner::Core(engine), Some(id)) => engine.block(id)?.as_any_mut().downcast_mut::<Sockets>().map(f),
            _ => self.sockets(now, |sockets, _| f(sockets)),
        }
    }
    /// How often the node has got other sockets than before (none, too): all ids from before mean nothing then.
    pub fn sockets_changes(&self) -> u64 {
        self.sockets_changes
    }
    /// Answers a control message.
    pub fn control(&mut self, now: Instant, message: &Message) -> Reply {
        let reply = self.engine.control(now, message);
        self.keep_up(now);
        reply
    }
    /// Checks a change without making it: which of the operations cannot be, and why. On an engine that the world brings nothing is checked before.
    ///
    /// # Errors
    /// The place of the first operation that cannot be, after those before it.
    pub fn prepare(&mut self, ops: &[Op]) -> Result<(), (usize, ControlError)> {
        let Runner::Core(engine) = &mut self.engine else { return Ok(()) };
        let Err(whole) = engine.prepare(ops) else { return Ok(()) };
        Err(culprit(engine, ops).unwrap_or((0, whole)))
    }
    /// The state of a block by its name, as its successor would get it. `None`: there is no such block.
    pub fn export(&mut self, now: Instant, block: &str) -> Option<Result<State, StateError>> {
        let id = self.engine.engine().graph().find(block)?;
        match &mut self.engine {
            Runner::Core(engine) => engine.block(id).map(|block| block.export(now)),
            Runner::Other(other) => {
                let mut state = None;
                other.with(now, id, &mut |block, _| state = Some(block.export(now)));
                state
            }
        }
    }
    /// The state of all blocks, as it stands at this frame boundary. Frames that a paused graph holds, and those that have left the node, are none of it.
    ///
    /// # Errors
    /// A block that cannot export what it holds.
    pub fn snapshot(&mut self, now: Instant, time: TimeKind) -> Result<Snapshot, SnapshotError> {
        let mut blocks = Ok(Vec::new());
        self.engine.at_rest(now, &mut |engine| {
            blocks = Snapshot::states(engine.graph(), now);
            false
        });
        let (weft, boot_epoch_ns) = (env!("CARGO_PKG_VERSION").to_owned(), self.boot_time.unwrap_or(0));
        Ok(Snapshot { weft, node: self.name.clone(), time, at: now, boot_epoch_ns, blocks: blocks? })
    }
    /// Puts the state of a snapshot into all blocks at this frame boundary; parameters and edges stay. `own`: this world took it of this node, since it
    /// booted last. Sockets that programs hold stay theirs, so they must be those of the snapshot; of another world's, there may be none. Returns what changed.
    ///
    /// # Errors
    /// What does not fit. Nothing has changed then.
    pub fn restore(&mut self, now: Instant, snapshot: &Snapshot, own: bool) -> Result<Vec<String>, SnapshotError> {
        let mut result = Ok(Vec::new());
        let sockets = self.sockets;
        self.engine.at_rest(now, &mut |engine| {
            result = crate::restore::restore(engine, now, sockets, snapshot, own);
            result.is_ok()
        });
        self.find_ends(now);
        result
    }
    /// Gives back memory that a burst of traffic needed and a quiet node does not. Nothing that can be observed changes.
    pub fn give_back_memory(&mut self, now: Instant) {
        match &mut self.engine {
            Runner::Core(engine) => engine.give_back_memory(),
            Runner::Other(other) => {
                let blocks: Vec<BlockId> = other.engine().graph().ids().collect();
                blocks.into_iter().for_each(|id| other.with(now, id, &mut |block, _| block.give_back_memory()));
            }
        }
    }
    /// Alerts since the last call.
    pub fn take_alerts(&mut self) -> Vec<Alert> {
        match &mut self.engine {
            Runner::Core(engine) => engine.take_alerts(),
            Runner::Other(other) => other.take_alerts(),
        }
    }
    /// What blocks have ordered, and what they were answered, since the last call.
    pub fn take_obeyed(&mut self) -> Vec<Obeyed> {
        match &mut self.engine {
            Runner::Core(engine) => engine.take_obeyed(),
            Runner::Other(other) => other.take_obeyed(),
        }
    }
    /// Why the node cannot go on as it should (a block of a threaded engine has panicked).
    pub fn failure(&self) -> Option<String> {
        match &self.engine {
            Runner::Core(_) => None,
            Runner::Other(other) => other.failure(),
        }
    }
}

/// Makes the blocks and edges of the file.
fn build(engine: &mut Engine, stack: &Stack) -> Result<(), StackError> {
    let mut ops: Vec<(Op, Range<usize>)> = Vec::new();
    load(engine, stack)?;
    let mut entries: IndexMap<String, _> = stack.blocks().map(|entry| (entry.name.clone(), entry)).collect();
    let none = usize::MAX..usize::MAX;
    let base: &[(&str, &str)] = if stack.node().graph == Base::Default { BLOCKS } else { &[] };
    for (name, default_kind) in base {
        let entry = entries.shift_remove(*name);
        let span = entry.as_ref().map_or(none.clone(), |entry| entry.span.clone());
        let kind = entry.as_ref().and_then(|entry| entry.kind.clone()).unwrap_or_else(|| (*default_kind).to_owned());
        let parameters = entry.as_ref().map(|entry| entry.parameters.clone()).unwrap_or_default();
        check_parameters(engine, stack, &kind, entry.as_ref())?;
        ops.push((Op::Add { name: (*name).to_owned(), kind, parameters }, span));
    }
    let leased = dhcp::put_in(stack, &mut entries)?;
    let multipath = stack.node().mptcp && stack.node().graph == Base::Default;
    if multipath && !entries.contains_key(weft_mptcp::NAME) {
        let name = weft_mptcp::NAME.to_owned();
        ops.push((Op::Add { kind: name.clone(), name, parameters: IndexMap::new() }, none.clone()));
    }
    for (name, entry) in entries {
        let kind = entry.kind.clone().unwrap_or_else(|| name.clone());
        check_parameters(engine, stack, &kind, Some(&entry))?;
        ops.push((Op::Add { name, kind, parameters: entry.parameters.clone() }, entry.span.clone()));
    }
    if stack.node().graph == Base::Default {
        let asks = !leased.is_empty();
        let stays = |edge: &&(&str, &str)| !asks || **edge != dhcp::INSIDE;
        let bind = |(from, to): &(&str, &str)| Op::Bind { from: End::parse(from), to: End::parse(to) };
        ops.extend(EDGES.iter().filter(stays).map(bind).chain(leased).map(|op| (op, none.clone())));
    }
    if multipath {
        let (block, from, to) = (End::parse(weft_mptcp::NAME), End::parse("sockets:tcp"), End::parse("tcp:upper"));
        ops.push((Op::Insert { block, from, to }, none.clone()));
    }
    ops.extend(stack.edges()?.into_iter().map(|(from, to, span)| (Op::Bind { from, to }, span)));
    ops.extend(stack.inserts()?.into_iter().map(|(block, from, to, span)| (Op::Insert { block, from, to }, span)));
    commit(engine, stack, ops)
}

/// The kinds of block that the file wants from other files: known before parameters of blocks are checked.
fn load(engine: &mut Engine, stack: &Stack) -> Result<(), StackError> {
    for (file, span) in stack.load_files() {
        let op = Op::Load { file: file.to_owned() };
        let plan = engine
            .prepare(std::slice::from_ref(&op))
            .map_err(|error| stack.error(span, &error.to_string(), &help_for(&error, &op, &[])))?;
        engine.commit(plan);
    }
    Ok(())
}

/// Prepared together; when that fails, prepared prefix by prefix to find the line that is to blame.
fn commit(engine: &mut Engine, stack: &Stack, ops: Vec<(Op, Range<usize>)>) -> Result<(), StackError> {
    let (all, spans): (Vec<Op>, Vec<Range<usize>>) = ops.into_iter().unzip();
    match engine.prepare(&all) {
        Ok(plan) => {
            engine.commit(plan);
            transaction::check_complete(engine.graph()).map_err(|error| incomplete(stack, &error))
        }
        Err(whole) => {
            let Some((at, error)) = culprit(engine, &all) else {
                return Err(stack.error(0..0, &whole.to_string(), "see `weft help stack`"));
            };
            Err(stack.error(spans[at].clone(), &error.to_string(), &help_for(&error, &all[at], &all[..at])))
        }
    }
}

/// The first operation that cannot be, after those before it.
fn culprit(engine: &mut Engine, ops: &[Op]) -> Option<(usize, ControlError)> {
    (0..ops.len()).find_map(|at| engine.prepare(&ops[..=at]).err().map(|error| (at, error)))
}

/// Checks a block's parameters one by one, so that the message can point at the line.
fn check_parameters(engine: &Engine, stack: &Stack, kind: &str, entry: Option<&crate::stack::BlockEntry>) -> Result<(), StackError> {
    let (Some(entry), Some(row)) = (entry, engine.kinds().get(kind)) else { return Ok(()) };
    for (name, value) in &entry.parameters {
        let one = IndexMap::from([(name.clone(), value.clone())]);
        let unit = row.kind.parameter(name).map_or(Ok(()), |row| weft_core::parameter::check_unit(&entry.name, row, value));
        let checked =
            unit.and_then(|()| weft_core::parameter::complete(&entry.name, row.kind, &one, Rng::for_name(0, "check")).map(|_| ()));
        if let Err(error) = checked {
            let span = entry.spans.get(name).cloned().unwrap_or_else(|| entry.span.clone());
            return Err(stack.error(span, &error.to_string(), &format!("`weft help block {kind}` lists its parameters")));
        }
    }
    Ok(())
}

/// A next hop of a stack file, as an argument of `route_add`.
fn next_hop(hop: &NextHop) -> Value {
    let mut one = serde_json::json!({"onlink": hop.onlink});
    for (name, value) in [("gateway", &hop.gateway), ("interface", &hop.interface)] {
        if let Some(text) = value {
            one[name] = text.as_str().into();
        }
    }
    if let Some(weight) = hop.weight {
        one["weight"] = weight.into();
    }
    one
}

/// Is it a route of IPv6? "default" is of its gateway's family.
pub(crate) fn of_v6(route: &RouteSection) -> bool {
    is_v6(&route.destination) || (route.destination == "default" && route.first_gateway().is_some_and(is_v6))
}

/// Is it the text of an IPv6 address or prefix?
fn is_v6(text: &str) -> bool {
    text.contains(':')
}

/// A locally administered address that is the same whenever node and interface have the same names.
pub fn default_mac(node: &str, interface: &str) -> weft_wire::ethernet::Mac {
    let mut rng = Rng::for_name(0x77_65_66_74, &format!("{node}/{interface}"));
    let mut mac = [0u8; 6];
    rng.fill(&mut mac);
    mac[0] = 0x02;
    weft_wire::ethernet::Mac(mac)
}

/// An error of a procedure as the reader of a stack file wants it: without the errno and the names of block, procedure and argument, which the
/// line that it points at tells.
fn plainly(error: &ControlError) -> String {
    let ControlError::ExecFailed { why, .. } = error else { return error.to_string() };
    let mut why = why.text.as_str();
    while let Some((word, rest)) = why.split_once(": ")
        && ARGUMENTS.contains(&word)
    {
        why = rest;
    }
    why.to_owned()
}

/// Arguments of procedures that are fields of the stack file's sections under the same name.
const ARGUMENTS: &[&str] = &["name", "mac", "mtu", "group", "backend", "interface", "address", "destination", "gateway", "metric"];

/// Which field of a section a procedure complains about.
fn field_of<'a>(error: &ControlError, otherwise: &'a str) -> &'a str {
    let ControlError::ExecFailed { why, .. } = error else { return otherwise };
    ARGUMENTS.iter().find(|name| why.text.strip_prefix(**name).is_some_and(|rest| rest.starts_with(": "))).copied().unwrap_or(otherwise)
}

/// A port that must be bound is not: what to do depends on whose block it is.
fn incomplete(stack: &Stack, error: &ControlError) -> StackError {
    let ControlError::Unbound { end, .. } = error else { return stack.error(0..0, &error.to_string(), "see `weft help stack`") };
    let name = End::parse(end).block;
    let entry = stack.blocks().find(|entry| entry.name == name);
    let span = entry.map_or(0..0, |entry| entry.span);
    let of_base = stack.node().graph == Base::Default && BLOCKS.iter().any(|(of_base, _)| *of_base == name);
    let help = match stack.node().graph {
        Base::Default if name == "mptcp" => {
            "Multipath TCP is off, and has no parameters then: `mptcp = true` under [node], or --mptcp, gives it to every program"
                .to_owned()
        }
        Base::Default if !of_base => format!("put it into an edge: [graph] insert = [\"{name} ether:lower interfaces:upper\"]"),
        _ => "bind it under [graph] edges, or start from graph = \"default\"".to_owned(),
    };
    stack.error(span, &error.to_string(), &help)
}

/// What to do about an error of `op`, which comes after those `before` it.
fn help_for(error: &ControlError, op: &Op, before: &[Op]) -> String {
    let help = match (error, op) {
        (ControlError::NoBlock { name, .. }, _) => {
            return format!("declare it under [block.{name}] with kind = \"…\"; `weft help blocks` lists the kinds");
        }
        (ControlError::NoEdge { .. }, Op::Insert { block, from, to }) => {
            let split = before.iter().find_map(|earlier| match earlier {
                Op::Insert { block: first, from: f, to: t } if (f, t) == (from, to) => Some(&first.block),
                _ => None,
            });
            return match split {
                Some(first) => {
                    let second = &block.block;
                    format!(
                        "'{first}' stands in that edge already: write \"{second} {from} {first}\" (before it) or \"{second} {first} {to}\" (after it)"
                    )
                }
                None => "`weft show edges` lists the edges of a running node".to_owned(),
            };
        }
        (ControlError::NoKind { .. }, _) => "`weft help blocks` lists the kinds; a block whose name is not its kind needs kind = \"…\"",
        (ControlError::NoParameter { .. } | ControlError::BadValue { .. }, _) => "`weft help block KIND` lists the parameters",
        (ControlError::NoPort { .. } | ControlError::TypeMismatch { .. } | ControlError::AmbiguousPort { .. }, _) => {
            "`weft help block KIND` lists the ports and what they carry"
        }
        (ControlError::PortTaken { .. }, _) => "use [graph] insert to put a block into an existing edge",
        (ControlError::NotLoaded { .. }, _) => "name a block beside this file; `weft new block NAME` begins one and says how it is built",
        _ => "see `weft help stack`",
    };
    help.to_owned()
}
