//! A machine in its place in the world: ports on wires, a stack or a switch between them, and actors. Knows nothing of other machines.
//!
//! Within one instant the order is: ends of serialisation (by port), frames (by port, then in order of arrival), timers, actors. What a machine
//! sends is put on its own wires; what reaches others is left in [`Core::out`] for the group to hand over.

mod alarm;
mod core;
mod guest;
mod port;
mod switch;
mod turn;

pub(crate) use self::alarm::Alarm;
pub use self::alarm::Ring;
pub use self::port::FrameSink;
pub(crate) use self::port::{Handover, Place, Port};
pub(crate) use self::switch::Switch;

use self::core::{Core, carry_on};
use self::turn::ActorTurn;
use crate::actor::{Actor, Next};
use crate::guest::Guest;
use crate::report::{ProgramId, Status};
use crate::snapshots::Taken;
use weft_core::{Instant, Message, Op, Table};
use weft_node::Node;
use weft_socket::{SocketId, Sockets};

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
    pub disk: Option<weft_process::Disk>,
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
                // Each of them is looked at.
                let lines = due.iter().filter(|index| tell_carrier(&mut self.core, node, **index)).count() > 0;
                if lines {
                    disturb(&mut self.actors, self.core.now);
                }
                let mut frames = std::mem::take(&mut self.core.arrived);
                due.iter().for_each(|index| self.core.receive_frames(*index, &mut frames));
                let now = self.core.now;
                // Most ends of serialisation concern nobody but the wire.
                let mut touched = lines || !frames.is_empty() || !self.core.done.is_empty();
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
                    self.core.see_lines(*index, |_, _| ());
                    let mut items = Vec::new();
                    self.core.receive(*index, |item| items.push(item));
                    items.into_iter().for_each(|item| switch.forward(&mut self.core, *index, item));
                }
            }
            Machine::Guest(guest) => {
                due.iter().for_each(|index| self.core.see_lines(*index, |_, _| ()));
                guest::wake(&mut self.core, guest.as_mut(), &due, end);
            }
            Machine::Off => {
                for index in &due {
                    self.core.depart(*index);
                    self.core.see_lines(*index, |_, _| ());
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
            let mut cx = ActorTurn { core, node, changed, grant, end: limit, foresaw: false, alone, taken: 0 };
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
            slot.actor.finish(&mut ActorTurn { core, node, changed, grant, end: grant, foresaw: false, alone: true, taken: 0 });
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

    /// A port's wire was cut or joined, or the machine at its other end lost its power or got it: who is concerned is told, at once or when it is noticed.
    pub fn look_at_line(&mut self, port: usize) {
        let told = match &mut self.machine {
            Machine::Host(node) => tell_carrier(&mut self.core, node, port),
            _ => {
                self.core.see_lines(port, |_, _| ());
                false
            }
        };
        if told {
            self.carry_on();
        }
    }

    /// Carries on what the node gave out after a change from outside. Actors look whether it concerns them at the same instant.
    pub fn carry_on(&mut self) {
        if let Machine::Host(node) = &mut self.machine {
            carry_on(&mut self.core, node);
        }
        disturb(&mut self.actors, self.core.now);
    }
}

/// Actors look whether what happened to their node concerns them.
fn disturb(actors: &mut [Slot], now: Instant) {
    for slot in actors.iter_mut().filter(|slot| slot.begun && !slot.next.ended) {
        slot.next.at = slot.next.at.min(now);
        slot.actor.disturbed();
    }
}

/// Tells a node of carriers that came or went at a port; false: none has.
fn tell_carrier(core: &mut Core, node: &mut Node, port: usize) -> bool {
    let mut news = Vec::new();
    core.see_lines(port, |name, carrier| news.push((name.to_owned(), carrier)));
    for (name, carrier) in &news {
        // An interface that a program has taken away hears nothing.
        let refused = node.set_carrier(core.now, name, *carrier).is_err();
        core.told(refused, &format!("carrier {name} {}", if *carrier { "up" } else { "down" }));
        carry_on(core, node);
    }
    !news.is_empty()
}
