//! The real world of one node: wall clock, real interfaces, real programs, and the loop that carries things between them.
//!
//! One thread. A turn: wait for descriptors or the next timer; take in frames, program data, calls and commands; run the node; give out frames
//! and answers. The alternative, a thread an interface or a program, was rejected: a hand-over between cores costs more than the work.

use crate::clock::Clock;
use crate::control::{CLIENTS_MAX, Connection, Listener, REQUESTS_MAX, Subscription};
pub use crate::error::WorldError;
use crate::ground;
use crate::loading::{self, Loading, Read};
use crate::place;
use crate::port::Port;
use crate::programs::{Lent, Programs, TOKEN_FILES, TOKEN_PROGRAM_SPACE, TOKEN_STRICT_SPACE};
use crate::protocol::{Ask, Line, Request};
use crate::publish::{Publish, Publisher};
use crate::reactor::{Interest, Reactor};
use crate::spin::Spin;
use crate::threaded::Threaded;
use crate::tidy::Tidy;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use weft_backend::nat::Nat;
use weft_backend::pcapng::CaptureFile;
use weft_core::control::{ControlError, Message, Op, Show, Value};
use weft_core::engine::Alert;
use weft_core::{Frame, Instant, InterfaceIndex, command};
use weft_node::{EngineKind, Node, Stack, StackError};
use weft_notify::caretaker::Caretaker;
use weft_notify::spawn::{Files, Place};
use weft_process::Parts;

/// Kinds of token; the lower bits say which one.
const TOKEN_KIND_SHIFT: u32 = 56;
pub(crate) const TOKEN_PORT: u64 = 1 << TOKEN_KIND_SHIFT;
const TOKEN_LISTENER: u64 = 2 << TOKEN_KIND_SHIFT;
const TOKEN_CLIENT: u64 = 3 << TOKEN_KIND_SHIFT;
const TOKEN_WAKE: u64 = 4 << TOKEN_KIND_SHIFT;
const TOKEN_PROGRAM: u64 = (TOKEN_PROGRAM_SPACE as u64) << TOKEN_KIND_SHIFT;
const TOKEN_PUBLISH: u64 = 6 << TOKEN_KIND_SHIFT;
const TOKEN_ENGINE: u64 = 7 << TOKEN_KIND_SHIFT;
const TOKEN_STRICT: u64 = TOKEN_STRICT_SPACE << TOKEN_KIND_SHIFT;
const TOKEN_LOADED: u64 = 9 << TOKEN_KIND_SHIFT;
const TOKEN_INDEX: u64 = (1 << TOKEN_KIND_SHIFT) - 1;

/// How often published ports are looked over for senders that are silent, and for clients that found no room.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);

/// Most frames taken from one interface before the others get their turn.
const RECEIVE_FRAMES_MAX: usize = 256;

/// Most control clients taken in before the others get their turn.
const ACCEPTS_MAX: usize = 64;

/// Where a world listens for commands.
#[derive(Clone, Debug, Default)]
pub enum Control {
    /// Nowhere.
    #[default]
    None,
    /// There; if that is not possible it does not come up.
    At(PathBuf),
    /// At [`place::private_path`], if that is possible.
    Private,
}

/// How a world is to be brought up.
#[derive(Debug, Default)]
pub struct Options {
    /// Seed of the node's randomness.
    pub seed: u64,
    /// Where to listen for commands.
    pub control: Control,
    /// Write all frames to this file.
    pub capture: Option<PathBuf>,
    /// Masquerade the node's network to where the host's routes lead.
    pub nat: bool,
    /// Ports of the host that lead to the node.
    pub publish: Vec<Publish>,
    /// Does what is left to do if this process is killed ([`crate::outside::caretaker`]).
    pub caretaker: Option<Arc<Caretaker>>,
}

/// A running node in the real world.
pub struct World {
    pub(crate) clock: Clock,
    pub(crate) node: Node,
    pub(crate) reactor: Reactor,
    /// Interfaces with something behind them.
    pub(crate) ports: BTreeMap<InterfaceIndex, Port>,
    /// How many more were refused because there were too many.
    pub(crate) interfaces_refused: u64,
    /// Where frames are written, those of interfaces that come later too.
    pub(crate) capture: Option<CaptureFile>,
    listener: Option<Listener>,
    clients: BTreeMap<u64, Connection>,
    /// Requests and arrivals of clients, counted.
    hearings: u64,
    /// What the node was told in this turn, for subscribers.
    news: Vec<(Op, Value)>,
    clients_dismissed: u64,
    next_client: u64,
    /// Clients with requests that are read and not answered yet.
    unserved: Vec<u64>,
    /// Files that are being read.
    loading: Loading,
    pub(crate) programs: Programs,
    stop: bool,
    publisher: Publisher,
    /// When the published ports were looked over last.
    swept: Instant,
    /// Kept for its end.
    _nat: Option<Nat>,
    notices: Vec<String>,
    /// What programs find in /etc/resolv.conf where no lease says otherwise.
    resolv_conf: String,
    /// Leases may say otherwise.
    names_by_lease: bool,
    spin: Spin,
    ready: Vec<(u64, u32)>,
    frames: Vec<Frame>,
    tidy: Tidy,
    /// Dismissed last: everything else has ended by then.
    caretaker: Option<Arc<Caretaker>>,
}

/// An orderly end: programs learn of it before their sockets are closed.
impl Drop for World {
    fn drop(&mut self) {
        self.programs.end();
        self.publisher.close();
        self.node.release_leases(self.clock.now());
        self.transmit();
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("node", &self.node.name()).field("clients", &self.clients.len()).finish_non_exhaustive()
    }
}

impl World {
    /// Brings a stack up: opens its interfaces, builds its graph, listens for commands.
    pub fn new(mut stack: Stack, options: Options) -> Result<World, WorldError> {
        let system = |what| move |why: io::Error| WorldError::System { what, why };
        let loading =
            Loading::new(stack.loader().unwrap_or_else(|| Arc::new(weft_plugin::Files::in_folder("/")))).map_err(system("eventfd"))?;
        stack.set_loader(loading.loader());
        // Everything that needs no device is checked before anything is opened.
        ground::check(&stack)?;
        Node::check(&stack)?;
        crate::outside::check_networks(stack.interfaces(), std::iter::empty())?;
        let reactor = Reactor::new().map_err(system("epoll"))?;
        reactor.add(loading.event(), TOKEN_LOADED, Interest::READ).map_err(system("epoll"))?;
        let listener = listen(&options.control, &reactor)?;
        let opened = ground::open(&stack)?;
        let mut notices: Vec<String> = opened.iter().filter_map(|opened| opened.notice.clone()).collect();
        let outer = opened.first().map(|opened| opened.backend.name().to_owned());
        let kept = opened.iter().any(|opened| opened.keeper.is_some());
        let caretaker = options.caretaker.as_deref();
        let masquerade = || crate::outside::masquerade(&stack, outer.as_deref(), kept, caretaker, &mut notices);
        let nat = options.nat.then(masquerade).transpose()?;
        let clock = Clock::default();
        let node = node(&stack, options.seed, clock, &reactor)?;
        let capture = options.capture.as_deref().map(|path| crate::port::capture_file(path, clock.epoch_nanos())).transpose()?;
        let mut programs = Programs::new(&reactor).map_err(system("programs"))?;
        if let Some(caretaker) = &options.caretaker {
            programs.keep_ledger(caretaker.ledger());
        }
        let publisher = Publisher::new(&options.publish, &reactor, TOKEN_PUBLISH)?;
        let nameservers = crate::outside::nameservers(&stack, options.nat);
        let mut world = World {
            clock,
            node,
            reactor,
            ports: BTreeMap::new(),
            interfaces_refused: 0,
            capture,
            listener,
            clients: BTreeMap::new(),
            hearings: 0,
            news: Vec::new(),
            clients_dismissed: 0,
            next_client: 0,
            unserved: Vec::new(),
            loading,
            programs,
            stop: false,
            publisher,
            swept: Instant::ZERO,
            _nat: nat,
            notices,
            resolv_conf: nameservers.iter().map(|server| format!("nameserver {server}\n")).collect(),
            names_by_lease: stack.node().nameservers.is_empty() && !crate::outside::is_through_passt(&stack),
            spin: Spin::new(stack.node().spin),
            ready: Vec::new(),
            frames: Vec::new(),
            tidy: Tidy::default(),
            caretaker: options.caretaker,
        };
        world.plug_all(&stack, opened)?;
        world.node.configure(clock.now(), &stack)?;
        world.node.set_boot_time(clock.now(), clock.epoch_nanos());
        world.set_guards();
        Ok(world)
    }

    /// Tells the node of the interfaces that it comes up with: the n-th gets the number 2 + n.
    fn plug_all(&mut self, stack: &Stack, opened: Vec<ground::Opened>) -> Result<(), WorldError> {
        for (index, (section, opened)) in stack.interfaces().zip(opened).enumerate() {
            let mut described = self.node.describe(stack, index, section)?;
            described.index = InterfaceIndex(2 + index as u32);
            let mut notices = Vec::new();
            self.plug(section, described, opened, &mut notices)
                .map_err(|error| WorldError::Interface { interface: section.name.clone(), why: error.to_string() })?;
            self.notices.append(&mut notices);
        }
        Ok(())
    }

    /// What the user should know about how the stack came up (for example that it runs in a namespace of its own).
    pub fn notices(&self) -> &[String] {
        &self.notices
    }
    /// Something more for [`World::notices`].
    pub(crate) fn note_for_user(&mut self, notice: String) {
        self.notices.push(notice);
    }
    /// Where it listens for commands, from the root on.
    pub fn control(&self) -> Option<&Path> {
        self.listener.as_ref().map(Listener::path)
    }
    /// The node, to look at.
    pub fn node(&self) -> &Node {
        &self.node
    }
    /// How many control connections were closed, the idlest first, because others came.
    pub fn clients_dismissed(&self) -> u64 {
        self.clients_dismissed
    }
    /// How many interfaces were not added because there were [`crate::PORTS_MAX`].
    pub fn interfaces_refused(&self) -> u64 {
        self.interfaces_refused
    }
    /// The process of its caretaker.
    pub(crate) fn caretaker(&self) -> Option<u32> {
        self.caretaker.as_ref().map(|caretaker| caretaker.pid())
    }
    /// Has somebody asked for the end?
    pub fn is_stopping(&self) -> bool {
        self.stop
    }
    /// Ends the world at the end of the turn.
    pub fn stop(&mut self) {
        self.stop = true;
    }
    /// What programs on this node find in /etc/resolv.conf.
    pub fn resolv_conf(&mut self) -> String {
        let of_leases = if self.names_by_lease { self.resolv_conf_of_leases(self.clock.now()) } else { None };
        of_leases.unwrap_or_else(|| self.resolv_conf.clone())
    }
    /// A descriptor whose becoming readable ends a turn (a signal pipe, a pidfd).
    pub fn wake_on(&self, fd: impl rustix::fd::AsFd) -> io::Result<()> {
        self.reactor.add(fd, TOKEN_WAKE, Interest::READ)
    }

    /// Takes back [`World::wake_on`].
    pub fn unwake(&self, fd: impl rustix::fd::AsFd) {
        let _ = self.reactor.remove(fd);
    }
    /// Takes over a program: `listener` is that of its filter.
    pub fn adopt(&mut self, listener: rustix::fd::OwnedFd) -> io::Result<()> {
        self.programs.adopt(listener, &self.reactor)
    }

    /// Answers what a program reads of its network's files ([`weft_notify::spawn::Program::take_files`]).
    pub fn serve_files(&mut self, files: Files) -> io::Result<()> {
        self.programs.serve_files(files)
    }

    /// Takes over a program that the loader runs, and its children.
    pub fn adopt_strict(&mut self, parts: weft_process::Parts) -> io::Result<()> {
        self.programs.adopt_strict(self.node.name(), parts, &self.reactor)
    }

    /// One turn. Returns true when a descriptor of [`World::wake_on`] is ready.
    pub fn turn(&mut self, wait_max: Duration) -> io::Result<bool> {
        let now = self.clock.now();
        let timers = self
            .ports
            .values()
            .filter_map(Port::next_timer)
            .chain(self.node.next_timer())
            .chain(self.tidy.next_timer())
            .chain(self.programs.next_timer());
        let due = timers.min().map(|at| at.since(now));
        let wait_max = if self.publisher.needs_sweep() { wait_max.min(SWEEP_INTERVAL) } else { wait_max };
        let wait = match self.node.has_transmit() || !self.unserved.is_empty() || self.publisher.is_unfinished() {
            true => Duration::ZERO,
            false => due.map_or(wait_max, |due| due.min(wait_max)),
        };
        let mut ready = std::mem::take(&mut self.ready);
        ready.clear();
        self.reactor.wait_spinning(wait, &mut self.spin, &mut ready)?;
        let mut woken = false;
        for (token, flags) in &ready {
            let index = token & TOKEN_INDEX;
            match token & !TOKEN_INDEX {
                TOKEN_PORT => self.receive(InterfaceIndex(index as u32)),
                TOKEN_LISTENER => self.accept(),
                TOKEN_CLIENT => self.serve(index),
                TOKEN_LOADED => self.answer_loaded(),
                TOKEN_WAKE => woken = true,
                TOKEN_PUBLISH => {
                    let mut lent = Lent { node: &mut self.node, clock: &self.clock, others: None };
                    self.publisher.ready(index, *flags, self.clock.now(), &mut lent, &self.reactor);
                }
                TOKEN_STRICT => self.programs.ready_strict(index),
                TOKEN_FILES => self.programs.answer_files(&mut self.node, &self.clock),
                TOKEN_PROGRAM => self.programs.ready(*token, *flags, &mut self.node, &self.clock, &self.reactor),
                _ => {}
            }
        }
        self.ready = ready;
        self.receive_what_is_due();
        self.publisher.go_on(&mut Lent { node: &mut self.node, clock: &self.clock, others: None }, &self.reactor);
        for id in std::mem::take(&mut self.unserved) {
            self.serve(id);
        }
        self.settle();
        for obeyed in self.node.take_obeyed() {
            let answer = obeyed.result.unwrap_or_else(|error| error.to_string().into());
            self.note(obeyed.op, &answer, Some(obeyed.block));
        }
        let alerts = self.node.take_alerts();
        if alerts.iter().any(|alert| alert.name == "address") {
            self.set_guards();
        }
        if alerts.iter().any(|alert| alert.value["event"] == "removed") {
            self.unplug_removed();
        }
        self.programs.alerted(&alerts, &mut self.node, &self.clock, &self.reactor);
        self.tell_subscribers(&alerts);
        let now = self.clock.now();
        if self.publisher.needs_sweep() && now.since(self.swept) >= SWEEP_INTERVAL {
            self.swept = now;
            let mut lent = Lent { node: &mut self.node, clock: &self.clock, others: None };
            self.publisher.sweep(now, &mut lent, &self.reactor);
        }
        self.tend_streams();
        if let Some(why) = self.node.failure() {
            return Err(io::Error::other(why));
        }
        if self.tidy.is_due(now) {
            self.give_back_memory();
        }
        Ok(woken)
    }

    /// Gives back what a burst of traffic needed, the allocator's free memory last.
    fn give_back_memory(&mut self) {
        self.node.give_back_memory(self.clock.now());
        self.ports.values_mut().for_each(Port::give_back_memory);
        (self.frames, self.ready) = Default::default();
        self.programs.give_back_memory();
    }

    /// Runs the node and carries what comes of it, until nothing more does.
    fn settle(&mut self) {
        let now = self.clock.now();
        if self.node.next_timer().is_some_and(|at| at <= now) {
            // TIME-WAITs end long after the last frame.
            self.tidy.moved(now);
        }
        self.node.run(now);
        // Programs and wires feed each other (a freed send buffer, a completed frame); each pass carries one step of it.
        for _ in 0..16 {
            self.programs.pump(&mut self.node, &self.clock, &self.reactor);
            self.pump_published();
            if !self.transmit() {
                break;
            }
        }
    }

    fn pump_published(&mut self) {
        if self.programs.take_lost() {
            self.publisher.sockets_lost(&self.reactor);
        }
        let others = self.programs.take_others();
        if !others.is_empty() {
            let mut lent = Lent { node: &mut self.node, clock: &self.clock, others: None };
            self.publisher.changed(self.clock.now(), &others, &mut lent, &self.reactor);
        }
    }

    fn receive(&mut self, index: InterfaceIndex) {
        let Some(port) = self.ports.get_mut(&index) else { return };
        let mut frames = std::mem::take(&mut self.frames);
        let now = self.clock.now();
        if port.receive(now, &mut frames, RECEIVE_FRAMES_MAX) && !frames.is_empty() {
            if self.clients.values().any(|client| client.traces) {
                frames.iter().for_each(|frame| self.trace("in", frame));
            }
            self.tidy.moved(now);
            self.node.receive(now, frames.drain(..));
        }
        frames.clear();
        self.frames = frames;
        self.take_down(index);
        self.transmit();
    }

    /// Backends that hold frames back are asked for them when it is time.
    fn receive_what_is_due(&mut self) {
        let now = self.clock.now();
        let due = self.ports.iter().filter(|(_, port)| port.next_timer().is_some_and(|at| at <= now)).map(|(index, _)| *index);
        for index in due.collect::<Vec<_>>() {
            self.receive(index);
        }
    }

    /// An interface whose device is gone is not waited for any more, and down in the node's table.
    fn take_down(&mut self, index: InterfaceIndex) {
        let Some(port) = self.ports.get(&index).filter(|port| port.has_failed()) else { return };
        if let Some(fd) = port.descriptor()
            && self.reactor.remove(fd).is_ok()
        {
            self.node.set_interface_down(self.clock.now(), index);
        }
    }

    /// Hands frames to their interfaces. True when any left, as completions may have made room above.
    fn transmit(&mut self) -> bool {
        let tracing = self.clients.values().any(|client| client.traces);
        let mut done = Vec::new();
        for mut frame in self.node.take_transmit() {
            if tracing {
                self.trace("out", &frame);
            }
            match self.ports.get_mut(&frame.meta().interface) {
                Some(port) => port.enqueue(frame),
                // Nothing is behind it, as behind Linux's dummy: what is sent has left.
                None => done.extend(frame.take_completion()),
            }
        }
        let mut any = !done.is_empty();
        for (index, port) in &mut self.ports {
            any |= port.flush(self.clock.now(), &mut done);
            port.watch(&self.reactor, TOKEN_PORT | u64::from(index.0));
        }
        let now = self.clock.now();
        for completion in done {
            self.node.transmitted(now, completion);
        }
        // Who is told that an interface is gone finds it down.
        for index in self.ports.iter().filter(|(_, port)| port.has_failed()).map(|(index, _)| *index).collect::<Vec<_>>() {
            self.take_down(index);
        }
        any
    }

    fn trace(&mut self, direction: &str, frame: &Frame) {
        let Some(port) = self.ports.get(&frame.meta().interface) else { return };
        let text = weft_backend::trace::describe(frame, port.link());
        let event =
            serde_json::json!({"time": self.clock.now().to_string(), "interface": port.name(), "direction": direction, "frame": text});
        let line = Line::Event(event);
        self.clients.values_mut().filter(|client| client.traces).for_each(|client| client.send(&line));
    }

    /// Takes in who waits. Bounded, so that a flood of clients leaves time for the node and for the clients that are served.
    fn accept(&mut self) {
        for _ in 0..ACCEPTS_MAX {
            let Some(mut client) = self.listener.as_ref().and_then(Listener::accept) else { return };
            if self.clients.len() >= CLIENTS_MAX {
                self.dismiss_idlest();
            }
            client.heard = self.next_hearing();
            if self.reactor.add(&client, TOKEN_CLIENT | self.next_client, Interest::READ).is_ok() {
                self.clients.insert(self.next_client, client);
                self.next_client = (self.next_client + 1) & TOKEN_INDEX;
            }
        }
    }

    /// Closes the connection that has been idle for longest. One that follows the trace or has subscribed is idle by nature and goes last.
    fn dismiss_idlest(&mut self) {
        let idlest = self.clients.iter().min_by_key(|(_, client)| (client.is_stream(), client.heard)).map(|(id, _)| *id);
        if let Some(client) = idlest.and_then(|id| self.clients.remove(&id)) {
            self.clients_dismissed += 1;
            self.part(client);
        }
    }

    fn next_hearing(&mut self) -> u64 {
        self.hearings += 1;
        self.hearings
    }

    /// A client has gone.
    fn part(&mut self, client: Connection) {
        let _ = self.reactor.remove(&client);
        drop(client);
        self.unserved.retain(|id| self.clients.contains_key(id));
    }

    /// Clients that get lines by themselves are written to outside of their turn: waits for room, and cuts off who is gone.
    fn tend_streams(&mut self) {
        let streams: Vec<u64> = self.clients.iter().filter(|(_, client)| client.is_stream()).map(|(id, _)| *id).collect();
        for id in streams {
            let Some(client) = self.clients.get(&id) else { continue };
            if client.is_gone() {
                self.clients.remove(&id).into_iter().for_each(|client| self.part(client));
            } else {
                self.watch(client, id);
            }
        }
    }

    /// Hands out the alerts of a turn, and the changes that were made in it.
    fn tell_subscribers(&mut self, alerts: &[Alert]) {
        if alerts.is_empty() && self.news.is_empty() {
            return;
        }
        let news = std::mem::take(&mut self.news);
        for client in self.clients.values_mut() {
            let Some(Subscription { target, alert: wanted, .. }) = client.subscription.clone() else { continue };
            for (op, told) in &news {
                if op.concerns(&target) {
                    client.offer(told);
                }
            }
            let wants = |alert: &&Alert| target.matches(&alert.block, None) && wanted.as_ref().is_none_or(|name| name == alert.name);
            for alert in alerts.iter().filter(wants) {
                client.offer(
                    &serde_json::json!({"time": alert.at.to_string(), "block": alert.block, "alert": alert.name, "value": alert.value}),
                );
            }
        }
    }

    /// Remembers for the end of the turn what the node was told, or which of its blocks ordered it.
    pub(crate) fn note(&mut self, op: Op, answer: &Value, by: Option<String>) {
        if !op.is_question() && self.clients.values().any(|client| client.subscription.is_some()) {
            let words = command::write(&op);
            let mut told = serde_json::json!({"time": self.clock.now().to_string(), "told": words, "answer": answer});
            if let Some(block) = by {
                told["ordered_by"] = block.into();
            }
            self.news.push((op, told));
        }
    }

    fn watch(&self, client: &Connection, id: u64) {
        let interest = Interest { read: !client.wants_write(), write: client.wants_write() };
        let _ = self.reactor.modify(client, TOKEN_CLIENT | id, interest);
    }

    fn serve(&mut self, id: u64) {
        // One that waits for files may be in line with requests that were read before.
        if self.clients.get(&id).is_none_or(|client| client.waits) {
            return;
        }
        let Some(mut client) = self.clients.remove(&id) else { return };
        client.flush();
        for _ in 0..REQUESTS_MAX {
            // Who does not read what it asked for is not heard until it does.
            if client.wants_write() {
                break;
            }
            let Some(request) = client.read() else { break };
            client.heard = self.next_hearing();
            let (serial, result) = match request {
                Ok(request) => match (request.serial, loading::files(&request.ask)) {
                    (serial, files) if files.is_empty() => (serial, self.answer(&mut client, request)),
                    (serial, files) => match self.loading.start(id, request, files) {
                        Ok(()) => return self.set_aside(client, id),
                        Err(error) => (serial, Err(error)),
                    },
                },
                Err(why) => (0, Err(ControlError::BadRequest { why })),
            };
            client.send(&Line::Answer { serial, result });
        }
        if client.is_gone() {
            return self.part(client);
        }
        self.watch(&client, id);
        if client.has_requests() && !client.wants_write() && !self.unserved.contains(&id) {
            self.unserved.push(id);
        }
        self.clients.insert(id, client);
    }

    /// It is not heard before the files that it asked for are read.
    fn set_aside(&mut self, mut client: Connection, id: u64) {
        client.waits = true;
        let _ = self.reactor.remove(&client);
        self.clients.insert(id, client);
    }

    /// Answers requests whose files have been read.
    fn answer_loaded(&mut self) {
        for Read { client: id, request, results } in self.loading.take_done() {
            // Who is gone, or had to go, does not want it any more.
            let Some(mut client) = self.clients.remove(&id) else { continue };
            client.waits = false;
            let serial = request.serial;
            self.loading.have(results);
            let result = self.answer(&mut client, request);
            self.loading.have(BTreeMap::new());
            client.send(&Line::Answer { serial, result });
            if self.reactor.add(&client, TOKEN_CLIENT | id, Interest::READ).is_ok() {
                self.clients.insert(id, client);
                self.serve(id);
            }
        }
    }

    fn answer(&mut self, client: &mut Connection, request: Request) -> Result<Value, ControlError> {
        let now = self.clock.now();
        let world = |why: String| ControlError::World { why: why.into() };
        if let Some(other) = request.node.filter(|name| *name != self.node.name()) {
            let why = format!(
                "this is the stack of '{}', and no world with a node '{other}'\nhelp: without --node it is this stack that is meant",
                self.node.name()
            );
            return Err(world(why));
        }
        match request.ask {
            Ask::Hello => {
                let resolv_conf = self.resolv_conf();
                let (version, pid) = (env!("CARGO_PKG_VERSION"), std::process::id());
                Ok(serde_json::json!({"node": self.node.name(), "version": version, "pid": pid, "resolv_conf": resolv_conf}))
            }
            Ask::Node(Op::Snapshot { file }) => {
                let answer = crate::snapshot::save(&mut self.node, now, &file)?;
                self.note(Op::Snapshot { file }, &answer, None);
                Ok(answer)
            }
            Ask::Node(Op::Restore { file }) => {
                let attached = self.attached();
                let answer = crate::snapshot::restore(&mut self.node, now, &file, attached)?;
                self.unplug_removed();
                self.put_down_closed();
                self.note(Op::Restore { file }, &answer, None);
                Ok(answer)
            }
            Ask::Node(op) if Self::backend_wish(&op).is_some() => {
                let answer = self.attach(Self::backend_wish(&op).unwrap_or(&Value::Null))?;
                self.note(op, &answer, None);
                Ok(answer)
            }
            Ask::Node(op) => {
                let drops = matches!(op, Op::Show(Show::Drops));
                let message = Message { serial: request.serial, op };
                let mut result = self.node.control(now, &message).result;
                match (&result, message.op) {
                    (Ok(_), Op::Subscribe { target, alert, on }) => {
                        client.subscription = on.then_some(Subscription { target, alert, lost: 0 })
                    }
                    (Ok(answer), op) => {
                        if !op.is_question() {
                            self.unplug_removed();
                        }
                        self.note(op, answer, None);
                    }
                    (Err(_), _) => {}
                }
                if let (true, Ok(Value::Array(rows))) = (drops, &mut result) {
                    rows.extend(self.ports.values_mut().flat_map(Port::drop_rows));
                }
                result
            }
            Ask::Apply { shape, wiring, dry_run } => self.apply(&shape, wiring.as_ref(), dry_run),
            Ask::Calls => Ok(self.programs.calls()),
            Ask::Published => Ok(self.publisher.rows()),
            Ask::Join { program } => {
                let listener = client.take_descriptor().ok_or_else(|| world("join came without the program's listener".to_owned()))?;
                self.programs
                    .adopt(listener, &self.reactor)
                    .map(|()| Value::Null)
                    .map_err(|error| world(format!("cannot take over {program}: {error}")))
            }
            Ask::JoinStrict { program } => {
                let mut next =
                    || client.take_descriptor().ok_or_else(|| world("join-strict came without its three descriptors".to_owned()));
                let parts = Parts::from_descriptors([next()?, next()?, next()?]);
                self.adopt_strict(parts).map(|()| Value::Null).map_err(|error| world(format!("cannot take over {program}: {error}")))
            }
            Ask::Files { devices } => {
                let place = if devices { Place::Devices } else { Place::Settings };
                let fuse =
                    client.take_descriptor().ok_or_else(|| world("files came without the descriptor of their file system".to_owned()))?;
                self.serve_files(Files { place, fuse })
                    .map(|()| Value::Null)
                    .map_err(|error| world(format!("cannot answer for files: {error}")))
            }
            Ask::Trace => {
                client.traces = true;
                Ok(Value::Null)
            }
            Ask::Down => {
                self.stop = true;
                Ok(serde_json::json!({"programs": self.programs.trees()}))
            }
        }
    }

    /// Who uses the node's sockets, for people.
    fn attached(&self) -> Option<String> {
        let count = |number: usize, what: &str| match number {
            0 => None,
            1 => Some(format!("1 {what}")),
            _ => Some(format!("{number} {what}s")),
        };
        let programs = count(self.programs.trees(), "program").map(|programs| {
            let sockets = count(self.programs.stand_ins(), "socket").unwrap_or_else(|| "no socket".to_owned());
            format!("{programs} attached ({sockets} of theirs)")
        });
        let rows = self.publisher.rows();
        let published = rows.as_array().into_iter().flatten().filter_map(|row| {
            let open = count(usize::try_from(row["open"].as_u64()?).ok()?, "connection")?;
            Some(format!("{open} through the published port {}", row["published"].as_str().unwrap_or("?")))
        });
        let all: Vec<String> = programs.into_iter().chain(published).collect();
        (!all.is_empty()).then(|| all.join(", "))
    }

    /// The number of an interface, by its name.
    pub fn interface(&self, name: &str) -> Option<InterfaceIndex> {
        self.ports.values().find(|port| port.name() == name).map(Port::index)
    }
}

/// Builds the node, on the engine that the stack file asks for.
fn node(stack: &Stack, seed: u64, clock: Clock, reactor: &Reactor) -> Result<Node, StackError> {
    match stack.node().engine {
        EngineKind::Inline | EngineKind::Queued => Node::new(stack, seed),
        EngineKind::Threaded => Node::on(stack, seed, |engine| {
            // The sockets are looked at after each turn, which has to come when they have changed.
            let threaded = Threaded::start(engine, clock, Some("sockets"))?;
            reactor.add(threaded.descriptor(), TOKEN_ENGINE, Interest::READ)?;
            Ok(Box::new(threaded))
        }),
    }
}

fn listen(control: &Control, reactor: &Reactor) -> Result<Option<Listener>, WorldError> {
    let bind = |path: &Path| {
        let listener = Listener::bind(path)?;
        reactor.add(&listener, TOKEN_LISTENER, Interest::READ)?;
        Ok(Some(listener))
    };
    match control {
        Control::None => Ok(None),
        Control::At(path) => bind(path).map_err(|why| WorldError::Control { path: path.display().to_string(), why }),
        Control::Private => Ok(bind(&place::private_path()).unwrap_or_else(|why: io::Error| {
            tracing::info!("this stack has no control socket: {}: {why}", place::private_path().display());
            None
        })),
    }
}
