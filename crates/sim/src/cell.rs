//! A machine in its place in the world: ports on wires, a stack or a switch between them, and actors. Knows nothing of other machines.
//!
//! Within one instant the order is: ends of serialisation (by port), frames (by port, then in order of arrival), timers, actors. What a machine
//! sends is put on its own wires; what reaches others is left in [`Core::out`] for the group to hand over.

mod guest;
mod turn;

use self::turn::Turn;
use crate::actor::{Actor, Next};
use crate::calls::CallLog;
use crate::debug::Teller;
use crate::guest::Guest;
use crate::hash::{self, NodeHash, Way};
use crate::item::Item;
use crate::life::ProgramState;
use crate::limits::OUTPUT_BYTES_MAX;
use crate::record::Recorder;
use crate::report::{ProgramId, Status, Stream};
use crate::said::Notes;
use crate::snapshots::Taken;
use crate::switch::Switch;
use crate::wire::Direction;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weft_core::offload::{self, CutChecksums};
use weft_core::{Completion, Frame, Instant, InterfaceIndex, Message, Meta, Op, Table};
use weft_node::Node;
use weft_socket::{SocketId, Sockets};

/// With more ports than this, those that have something to do are kept in order.
const PORTS_SCANNED: usize = 4;
/// Frames that a node may send in consequence of one event: more is a loop.
const FRAMES_PER_EVENT_MAX: u32 = 1 << 20;

/// Where a machine is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Place {
    pub group: u32,
    pub cell: u32,
}

/// A frame on its way to another machine.
#[derive(Debug)]
pub(crate) struct Handover {
    pub to: Place,
    pub port: u32,
    pub arrival: Arrival,
}

/// A frame that will arrive.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub at: Instant,
    /// Order among those of one wire that arrive together.
    pub sequence: u64,
    pub item: Item,
}

/// Gets every frame that passes an interface (a capture).
pub trait FrameSink: Send {
    /// A frame passed: going out, at the beginning of its serialisation.
    fn frame(&mut self, at: Instant, way: Way, frame: &Frame);
}

/// An interface on a wire.
pub(crate) struct Port {
    pub interface: InterfaceIndex,
    pub name: String,
    pub wire: u32,
    pub out: Direction,
    pub to: Place,
    pub to_port: u32,
    sequence: u64,
    inbox: VecDeque<Arrival>,
    /// As it is in [`Core::due`].
    due: Option<Instant>,
    /// Who sees what passes.
    pub sinks: Vec<Box<dyn FrameSink>>,
}

impl Port {
    pub fn new(interface: InterfaceIndex, name: String, wire: u32, out: Direction, to: Place, to_port: u32) -> Port {
        Port { interface, name, wire, out, to, to_port, sequence: 0, inbox: VecDeque::new(), due: None, sinks: Vec::new() }
    }

    fn next(&self) -> Instant {
        let arrival = self.inbox.front().map_or(Instant::FAR_FUTURE, |arrival| arrival.at);
        arrival.min(self.out.next().unwrap_or(Instant::FAR_FUTURE))
    }

    /// Most arrive in order: looked for from the end.
    fn deliver(&mut self, arrival: Arrival) {
        let key = (arrival.at, arrival.sequence);
        let mut at = self.inbox.len();
        while at > 0 && self.inbox.get(at - 1).is_some_and(|before| (before.at, before.sequence) > key) {
            at -= 1;
        }
        self.inbox.insert(at, arrival);
    }
}

/// Told the name of a node and its time.
pub type Ring = Arc<dyn Fn(&str, Instant) + Send + Sync>;

/// When the sender of a frame that was cut is told that it has left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Told {
    /// When the last piece has.
    Once,
    /// Of each piece, its part: what has left makes room below for more, as where Linux cuts (skb_segment shares the bytes out among the pieces).
    Each,
}

/// Called when a time is reached, once for the whole world.
#[derive(Clone)]
pub(crate) struct Alarm {
    pub at: Instant,
    pub rung: Arc<AtomicBool>,
    pub ring: Ring,
}

/// What all machines have.
pub(crate) struct Core {
    pub name: String,
    pub now: Instant,
    pub ports: Vec<Port>,
    due: BTreeSet<(Instant, u32)>,
    pub hash: NodeHash,
    /// Everything that the hash stands for, where that is wanted.
    pub record: Option<Box<Recorder>>,
    /// Where calls are written down, where that is wanted.
    pub calls: Option<Box<CallLog>>,
    /// When programs wrote what.
    pub notes: Notes,
    /// For a debugger.
    pub teller: Teller,
    pub alarm: Option<Box<Alarm>>,
    pub out: Vec<Handover>,
    pub programs: BTreeMap<ProgramId, ProgramState>,
    /// Programs whose end is waited for.
    pub left: usize,
    pub awaited: BTreeSet<ProgramId>,
    /// Those of them that have ended.
    seen_off: BTreeSet<ProgramId>,
    pub last_end: Instant,
    pub events: u64,
    /// Frames for interfaces without a wire.
    pub unwired: u64,
    room: Vec<u8>,
    cut: Vec<Frame>,
    /// Empty: room for frames that arrive.
    arrived: Vec<Frame>,
    dropped: Vec<Item>,
    done: VecDeque<Completion>,
    /// Nothing leaves and nothing arrives: the machine is off.
    pub off: bool,
    /// Large frames come as far as their wire; otherwise the interface cuts them, and leaves their checksums to the wire.
    large_frames: bool,
    /// Why the machine cannot go on: the run ends.
    pub failed: Option<String>,
    /// What a guest said of its connections, and when: rows of [`crate::FlowSample`].
    pub samples: Vec<(Instant, serde_json::Value)>,
    /// Files that a guest has left for people, and how often it has ended.
    pub left_files: Vec<(PathBuf, Vec<u8>)>,
    lives: u32,
}

impl Core {
    pub fn new(name: &str, large_frames: bool) -> Core {
        Core {
            name: name.to_owned(),
            now: Instant::ZERO,
            ports: Vec::new(),
            due: BTreeSet::new(),
            hash: NodeHash::default(),
            record: None,
            calls: None,
            notes: Notes::default(),
            teller: Teller::default(),
            alarm: None,
            out: Vec::new(),
            programs: BTreeMap::new(),
            left: 0,
            awaited: BTreeSet::new(),
            seen_off: BTreeSet::new(),
            last_end: Instant::ZERO,
            events: 0,
            unwired: 0,
            room: Vec::new(),
            cut: Vec::new(),
            arrived: Vec::new(),
            dropped: Vec::new(),
            done: VecDeque::new(),
            off: false,
            large_frames,
            failed: None,
            samples: Vec::new(),
            left_files: Vec::new(),
            lives: 0,
        }
    }

    /// The machine's present becomes `to`.
    fn pass(&mut self, to: Instant) {
        self.now = self.now.max(to);
        self.teller.tell(&self.name, self.now);
        if let Some(alarm) = self.alarm.take_if(|alarm| alarm.at <= to)
            && !alarm.rung.swap(true, Ordering::AcqRel)
        {
            (alarm.ring)(&self.name, self.now);
        }
    }

    /// The port's next event may have become another.
    fn touch(&mut self, index: usize) {
        if self.ports.len() <= PORTS_SCANNED {
            return;
        }
        let Some(port) = self.ports.get_mut(index) else { return };
        let next = Some(port.next()).filter(|at| *at != Instant::FAR_FUTURE);
        if next == port.due {
            return;
        }
        if let Some(old) = port.due.take() {
            self.due.remove(&(old, index as u32));
        }
        if let Some(at) = next {
            self.due.insert((at, index as u32));
        }
        port.due = next;
    }

    /// When a port has something to do.
    fn next_of_ports(&self) -> Instant {
        match self.ports.len() <= PORTS_SCANNED {
            true => self.ports.iter().map(Port::next).min().unwrap_or(Instant::FAR_FUTURE),
            false => self.due.first().map_or(Instant::FAR_FUTURE, |(at, _)| *at),
        }
    }

    /// When a serialisation ends next.
    fn next_departure(&self) -> Instant {
        self.ports.iter().filter_map(|port| port.out.next()).min().unwrap_or(Instant::FAR_FUTURE)
    }

    /// The ports that have something to do by now, in their order.
    fn due_ports(&self, due: &mut Vec<usize>) {
        due.clear();
        if self.ports.len() <= PORTS_SCANNED {
            due.extend(self.ports.iter().enumerate().filter(|(_, port)| port.next() <= self.now).map(|(index, _)| index));
        } else {
            due.extend(self.due.range(..=(self.now, u32::MAX)).map(|(_, index)| *index as usize));
            due.sort_unstable();
        }
    }

    pub fn deliver(&mut self, port: u32, arrival: Arrival) {
        let index = port as usize;
        if let Some(port) = self.ports.get_mut(index) {
            port.deliver(arrival);
        }
        self.touch(index);
    }

    /// A frame of the stack enters the wire of its interface.
    fn send(&mut self, mut frame: Frame) {
        let interface = frame.meta().interface;
        let Some(index) = self.ports.iter().position(|port| port.interface == interface).filter(|_| !self.off) else {
            self.unwired += 1;
            self.done.extend(frame.take_completion());
            return;
        };
        self.send_cut(index, frame, Told::Each);
    }

    /// A frame enters the wire of a port: cut, with complete checksums.
    fn send_cut(&mut self, index: usize, mut frame: Frame, told: Told) {
        if frame.meta().gso.is_none() {
            offload::complete_checksum(&mut frame);
            return self.send_whole(index, frame);
        }
        let mut cut = std::mem::take(&mut self.cut);
        let checksums = if self.large_frames { CutChecksums::Complete } else { CutChecksums::Partial };
        let mut whole = if told == Told::Each { frame.take_completion() } else { None };
        offload::cut(frame, checksums, &mut cut);
        let count = cut.len();
        for (number, mut frame) in cut.drain(..).enumerate() {
            if let Some(left) = &mut whole {
                let bytes = left.bytes / (count - number) as u32;
                left.bytes -= bytes;
                frame.meta_mut().completion = Some(Completion { bytes, ..*left });
            }
            offload::complete_checksum(&mut frame);
            self.send_whole(index, frame);
        }
        self.cut = cut;
    }

    fn send_whole(&mut self, index: usize, frame: Frame) {
        let digest = hash::of_frame(&frame, &mut self.room);
        let bytes = frame.len() as u32;
        self.send_item(index, Item { frame, digest, bytes });
    }

    /// A frame that is as wires carry it enters the wire of a port.
    pub fn send_item(&mut self, index: usize, item: Item) {
        let Some(port) = self.ports.get_mut(index) else { return };
        if let Some(item) = port.out.offer(self.now, item, &mut self.dropped) {
            self.begin(index, item);
        }
        self.drop_all();
        self.touch(index);
    }

    /// The senders of dropped frames learn that they have left.
    pub fn drop_all(&mut self) {
        for mut item in self.dropped.drain(..) {
            self.done.extend(item.frame.take_completion());
        }
    }

    /// A serialisation begins.
    fn begin(&mut self, index: usize, item: Item) {
        let Some(port) = self.ports.get_mut(index) else { return };
        for sink in &mut port.sinks {
            sink.frame(self.now, Way::Out, &item.frame);
        }
        if let Some(record) = &mut self.record {
            record.frame(self.now, port.interface, Way::Out, &item.frame);
        }
        let departure = port.out.begin(self.now, item, &mut self.room);
        self.hash.frame(self.now, port.interface, Way::Out, departure.bytes, departure.digest);
        for (at, item) in [departure.first, departure.second].into_iter().flatten() {
            port.sequence += 1;
            let arrival = Arrival { at, sequence: port.sequence, item };
            self.out.push(Handover { to: port.to, port: port.to_port, arrival });
        }
    }

    /// The ends of serialisation of a port that are due.
    fn depart(&mut self, index: usize) {
        while let Some(port) = self.ports.get_mut(index)
            && port.out.next().is_some_and(|at| at <= self.now)
        {
            let (completion, next) = port.out.depart(self.now, &mut self.dropped);
            self.done.extend(completion);
            if let Some(item) = next {
                self.begin(index, item);
            }
            self.drop_all();
        }
        self.touch(index);
    }

    /// The frames that a port receives now; `take` gets each.
    fn receive(&mut self, index: usize, mut take: impl FnMut(Item)) {
        let (now, off) = (self.now, self.off);
        let Some(port) = self.ports.get_mut(index) else { return };
        while port.inbox.front().is_some_and(|arrival| arrival.at <= now) {
            let Some(arrival) = port.inbox.pop_front() else { break };
            if off {
                continue;
            }
            for sink in &mut port.sinks {
                sink.frame(now, Way::In, &arrival.item.frame);
            }
            if let Some(record) = &mut self.record {
                record.frame(now, port.interface, Way::In, &arrival.item.frame);
            }
            self.hash.frame(now, port.interface, Way::In, arrival.item.bytes, arrival.item.digest);
            take(arrival.item);
        }
        self.touch(index);
    }

    /// The same, as the stack sees them.
    fn receive_frames(&mut self, index: usize, frames: &mut Vec<Frame>) {
        let interface = self.ports.get(index).map_or(InterfaceIndex::NONE, |port| port.interface);
        let received = self.now;
        self.receive(index, |item| frames.push(incoming(item.frame, interface, received)));
    }

    /// What is on the wire to this port is lost. Returns how many frames.
    pub fn lose_inbox(&mut self, index: usize) -> u64 {
        let lost = self.ports.get_mut(index).map_or(0, |port| port.inbox.drain(..).len());
        self.touch(index);
        lost as u64
    }

    /// Changes a port's wire.
    pub fn with_wire(&mut self, index: usize, f: impl FnOnce(&mut Direction, &mut Vec<Item>)) {
        if let Some(port) = self.ports.get_mut(index) {
            f(&mut port.out, &mut self.dropped);
        }
        self.drop_all();
        self.touch(index);
    }

    /// Nobody is there any more to be told of frames that leave.
    pub fn forget_completions(&mut self) {
        self.done.clear();
    }

    /// The node was told something from outside: in what words, and what it answered.
    pub fn told(&mut self, refused: bool, text: &str) {
        self.hash.control(self.now, refused, text.as_bytes());
        if let Some(record) = &mut self.record {
            record.control(self.now, refused, text.as_bytes());
        }
    }

    /// A program wrote something.
    fn output(&mut self, program: ProgramId, stream: Stream, bytes: &[u8]) {
        self.hash.output(self.now, program, stream, bytes);
        if let Some(record) = &mut self.record {
            record.output(self.now, program, stream, bytes);
        }
        self.notes.came(self.now, program, stream, bytes);
        let state = self.programs.entry(program).or_default();
        let kept = if stream == Stream::Output { &mut state.output } else { &mut state.error };
        let take = bytes.len().min(OUTPUT_BYTES_MAX.saturating_sub(kept.len()));
        kept.extend_from_slice(bytes.get(..take).unwrap_or_default());
        state.output_lost += (bytes.len() - take) as u64;
    }

    /// A program has ended.
    pub fn end_program(&mut self, program: ProgramId, at: Instant, status: Status) {
        let state = self.programs.entry(program).or_default();
        if state.ended.is_some() {
            return;
        }
        state.ended = Some((at, status));
        self.hash.end(at, program, status);
        if let Some(record) = &mut self.record {
            record.end(at, program, status);
        }
        self.last_end = self.last_end.max(at);
        if self.awaited.remove(&program) {
            self.left = self.left.saturating_sub(1);
            self.seen_off.insert(program);
        }
    }

    /// A program starts again: who waited for its end waits for the next one.
    pub fn await_again(&mut self, program: ProgramId) {
        if self.seen_off.remove(&program) {
            self.awaited.insert(program);
            self.left += 1;
        }
    }
}

/// An actor and when it wants its turn.
pub(crate) struct Slot {
    pub actor: Box<dyn Actor>,
    pub next: Next,
    /// Its programs.
    pub programs: Vec<ProgramId>,
    ready: bool,
    /// It has had a turn: what happens around it concerns it from then on.
    begun: bool,
    /// A built-in program whose time has not come: its life begins with its first turn.
    early: bool,
}

/// What a machine is.
pub(crate) enum Machine {
    Host(Box<Node>),
    Switch(Switch),
    /// Somebody else's software, with a clock that the world owns.
    Guest(Box<dyn Guest>),
    /// A host without power.
    Off,
}

/// A machine with its ports and actors.
pub(crate) struct Cell {
    pub core: Core,
    pub machine: Machine,
    pub actors: Vec<Slot>,
    /// What its programs had written when it crashed.
    pub disk: Option<weft_intercept::process::Disk>,
    /// The snapshots that were taken of it since it booted.
    pub taken: Taken,
    changed: Vec<SocketId>,
    due: Vec<usize>,
}

impl Cell {
    pub fn new(name: &str, machine: Machine, large_frames: bool) -> Cell {
        Cell {
            core: Core::new(name, large_frames),
            machine,
            actors: Vec::new(),
            disk: None,
            taken: Default::default(),
            changed: Vec::new(),
            due: Vec::new(),
        }
    }

    /// Adds an actor, which has its first turn at `at`.
    pub fn add_actor(&mut self, actor: Box<dyn Actor>, at: Instant, programs: Vec<ProgramId>) {
        let early = !actor.starts_programs() && at > self.core.now;
        for program in &programs {
            let state = self.core.programs.entry(*program).or_default();
            if !actor.starts_programs() {
                if !early {
                    state.begin(at);
                }
                self.core.await_again(*program);
            }
        }
        self.actors.push(Slot { actor, next: Next::at(at), programs, ready: false, begun: false, early });
        self.actors.sort_by_key(|slot| slot.programs.first().copied());
    }

    /// When it has something to do.
    pub fn next(&self) -> Instant {
        let timer = match &self.machine {
            Machine::Host(node) => node.next_timer().unwrap_or(Instant::FAR_FUTURE),
            Machine::Guest(guest) => guest.next(),
            Machine::Switch(_) | Machine::Off => Instant::FAR_FUTURE,
        };
        let actors = self.actors.iter().map(|slot| slot.next.at).min().unwrap_or(Instant::FAR_FUTURE);
        self.core.next_of_ports().min(timer).min(actors).max(self.core.now)
    }

    /// Does what is due at `at`; actors may run ahead up to `end`, nothing can reach the machine before.
    pub fn wake(&mut self, at: Instant, end: Instant) {
        self.core.pass(at);
        self.core.events += 1;
        if self.core.teller.is_listed() {
            self.list();
        }
        let mut due = std::mem::take(&mut self.due);
        self.core.due_ports(&mut due);
        match &mut self.machine {
            Machine::Host(node) => {
                due.iter().for_each(|index| self.core.depart(*index));
                let mut frames = std::mem::take(&mut self.core.arrived);
                due.iter().for_each(|index| self.core.receive_frames(*index, &mut frames));
                let now = self.core.now;
                // Most ends of serialisation concern nobody but the wire.
                let mut touched = !frames.is_empty() || !self.core.done.is_empty();
                if !frames.is_empty() {
                    node.receive(now, frames.drain(..));
                }
                self.core.arrived = frames;
                carry_on(&mut self.core, node);
                if node.next_timer().is_some_and(|timer| timer <= now) {
                    touched = true;
                    node.run(now);
                    carry_on(&mut self.core, node);
                }
                if self.actors.iter().any(|slot| touched || slot.ready || slot.next.at <= now) {
                    self.turn(end);
                }
            }
            Machine::Switch(switch) => {
                due.iter().for_each(|index| self.core.depart(*index));
                for index in &due {
                    let mut items = Vec::new();
                    self.core.receive(*index, |item| items.push(item));
                    items.into_iter().for_each(|item| switch.forward(&mut self.core, *index, item));
                }
            }
            Machine::Guest(guest) => guest::wake(&mut self.core, guest.as_mut(), &due, end),
            Machine::Off => {
                for index in &due {
                    self.core.depart(*index);
                    self.core.receive(*index, |_| ());
                }
            }
        }
        self.due = due;
    }

    /// Shows a debugger the machine's sockets.
    fn list(&mut self) {
        let Machine::Host(host) = &mut self.machine else { return };
        let reply = host.control(self.core.now, &Message { serial: 0, op: Op::List(Table::Sockets) });
        let rows = reply.result.ok().and_then(|rows| rows.as_array().cloned()).unwrap_or_default();
        self.core.teller.list(self.core.now, self.core.events, &rows);
    }

    /// Gives every actor that wants it its turn.
    fn turn(&mut self, end: Instant) {
        let Cell { core, machine: Machine::Host(node), actors, changed, .. } = self else { return };
        loop {
            changed.extend(node.look(core.now, Sockets::take_changed).unwrap_or_default());
            if !changed.is_empty() {
                for slot in actors.iter_mut().filter(|slot| slot.begun && !slot.next.ended) {
                    slot.actor.sockets_changed(changed);
                    slot.ready = true;
                }
                changed.clear();
            }
            let Some(index) = actors.iter().position(|slot| !slot.next.ended && (slot.ready || slot.next.at <= core.now)) else { return };
            let (before, rest) = actors.split_at_mut(index);
            let Some((slot, after)) = rest.split_first_mut() else { return };
            let others = before.iter().chain(after.iter());
            let next_of_others = others.map(|other| if other.ready { core.now } else { other.next.at }).min();
            let grant = end.min(core.next_arrival()).min(next_of_others.unwrap_or(end));
            let alone = before.is_empty() && after.is_empty();
            (slot.ready, slot.begun) = (false, true);
            if std::mem::take(&mut slot.early) {
                slot.programs.iter().for_each(|program| core.programs.entry(*program).or_default().begin(core.now));
            }
            let grant = grant.max(core.now + std::time::Duration::from_nanos(1));
            let limit = end.min(next_of_others.unwrap_or(end)).max(grant);
            let mut cx = Turn { core, node, changed, grant, end: limit, foresaw: false, alone, taken: 0 };
            slot.next = slot.actor.run(&mut cx, grant);
            core.events += 1;
        }
    }

    /// The world ends: actors may write their reports.
    pub fn finish(&mut self, at: Instant) {
        self.core.now = self.core.now.max(at);
        if let Machine::Guest(guest) = &mut self.machine {
            return guest::finish(&mut self.core, guest.as_mut());
        }
        let Cell { core, machine: Machine::Host(node), actors, changed, .. } = self else { return };
        for slot in actors.iter_mut().filter(|slot| !slot.next.ended && !slot.early) {
            let grant = core.now + std::time::Duration::from_nanos(1);
            slot.actor.finish(&mut Turn { core, node, changed, grant, end: grant, foresaw: false, alone: true, taken: 0 });
        }
    }

    /// All programs are gone at once; what they have written by now is theirs, and the disk stays.
    pub fn end_programs(&mut self, at: Instant) {
        self.finish(at);
        for mut slot in std::mem::take(&mut self.actors) {
            self.disk = slot.actor.take_disk().or(self.disk.take());
            // SIGKILL: nobody was asked.
            slot.programs.iter().for_each(|program| self.core.end_program(*program, at, Status::Killed(9)));
        }
        if matches!(self.machine, Machine::Guest(_)) {
            let running = self.core.programs.iter().filter(|(_, state)| state.started.is_some() && state.ended.is_none());
            let running: Vec<ProgramId> = running.map(|(program, _)| *program).collect();
            running.into_iter().for_each(|program| self.core.end_program(program, at, Status::Killed(9)));
        }
    }

    /// Is this a built-in program whose time has not come?
    pub fn is_early(&self, program: ProgramId) -> bool {
        self.actors.iter().any(|slot| slot.early && slot.programs.contains(&program))
    }

    /// Starts a program of an actor that is there already.
    pub fn start(&mut self, program: ProgramId) {
        let now = self.core.now;
        self.core.await_again(program);
        if let Some(slot) = self.actors.iter_mut().find(|slot| !slot.next.ended && slot.programs.contains(&program)) {
            slot.actor.start(program);
            slot.next.at = slot.next.at.min(now);
        }
    }

    /// Tells a program to stop. Who has not begun never does.
    pub fn stop(&mut self, program: ProgramId) {
        let now = self.core.now;
        self.actors.retain(|slot| !(slot.early && slot.programs.contains(&program)));
        if let Some(slot) = self.actors.iter_mut().find(|slot| !slot.next.ended && slot.programs.contains(&program)) {
            slot.actor.stop(program);
            slot.next.at = slot.next.at.min(now);
        }
    }

    /// The node has booted: its hash has every build of a block that came from a file, and what it sends goes its way.
    pub fn begin(&mut self) {
        let kinds = match &self.machine {
            Machine::Host(node) => node.engine().kinds().loaded().map(|kind| format!("load {} {}", kind.name, kind.version)).collect(),
            _ => Vec::new(),
        };
        kinds.iter().for_each(|kind| self.core.told(false, kind));
        self.carry_on();
    }

    /// Carries on what the node gave out after a change from outside. Actors look whether it concerns them at the same instant.
    pub fn carry_on(&mut self) {
        if let Machine::Host(node) = &mut self.machine {
            carry_on(&mut self.core, node);
        }
        let now = self.core.now;
        for slot in self.actors.iter_mut().filter(|slot| slot.begun && !slot.next.ended) {
            slot.next.at = slot.next.at.min(now);
            slot.actor.disturbed();
        }
    }
}

impl Core {
    fn next_arrival(&self) -> Instant {
        match self.ports.len() <= PORTS_SCANNED {
            true => self.ports.iter().filter_map(|port| Some(port.inbox.front()?.at)).min().unwrap_or(Instant::FAR_FUTURE),
            // Ends of serialisation among them make it earlier than need be.
            false => self.next_of_ports(),
        }
    }
}

/// A frame as the receiving stack sees it: nothing that the sender knew goes along but the state of the checksum.
fn incoming(mut frame: Frame, interface: InterfaceIndex, received: Instant) -> Frame {
    let checksum = frame.meta().checksum;
    *frame.meta_mut() = Meta { interface, received, checksum, ..Meta::default() };
    frame
}

/// Puts what the node gave out on its wires, and tells it of frames that have left, until neither makes anything new.
fn carry_on(core: &mut Core, node: &mut Node) {
    let mut frames = 0u32;
    loop {
        // What blocks have ordered is told like an event, in its place among the frames.
        for obeyed in node.take_obeyed().iter().filter(|obeyed| !obeyed.op.is_question()) {
            core.told(obeyed.result.is_err(), &obeyed.words());
        }
        while node.has_transmit() {
            for frame in node.take_transmit() {
                frames += 1;
                core.send(frame);
            }
        }
        let Some(completion) = core.done.pop_front() else { return };
        // A loop that never ends would otherwise hang the world; the frames are counted as unwired.
        if frames < FRAMES_PER_EVENT_MAX {
            node.transmitted(core.now, completion);
        }
    }
}
