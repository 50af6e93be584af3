//! A world: machines, wires and what happens to them, built from a [`Plan`] and run to its end.

use crate::arrange::{Arranged, arrange, grouping, lane_of};
use crate::boot::boot;
use crate::calls::CallLog;
use crate::cell::{Cell, FrameSink, Machine, Place, Port};
use crate::debug::Teller;
use crate::early::{self, Starters};
use crate::error::{WorldError, unsound};
use crate::group::{self, Epoch, Group, Lane};
use crate::hash;
use crate::launch::{add_tree, boot_all, launch_all, planned, processes, programs_of, start_builtins, start_programs};
use crate::life::ProgramState;
use crate::limits::{LINGER, RATE_MAX};
use crate::plan::{Action, DirectionPlan, Expect, NodeKind, Plan, Run};
use crate::process::{Common, ProcessTree};
use crate::record::{self, Recorder};
use crate::report::ProgramId;
use crate::said::{self, Notes};
use crate::snapshots::Kept;
use crate::wire::{Direction, WireCounters};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weft_core::{Instant, InterfaceIndex, Rng};
use weft_intercept::process::processor::Claim;

mod act;
mod control;
mod samples;
mod visit;
mod windows;

/// Why a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// Its time was over.
    Duration,
    /// Every program that was waited for has ended.
    Programs,
    /// Nothing was due any more.
    Idle,
    /// Somebody interrupted it.
    Interrupted,
    /// Time did not go on: something sends at one instant without end.
    Stuck,
    /// A machine cannot go on ([`RunEnd::broken`]).
    Broken,
}

/// How a run ended.
#[derive(Clone, Debug)]
pub struct RunEnd {
    /// When.
    pub at: Instant,
    /// Why.
    pub reason: Reason,
    /// Events that were refused.
    pub failures: Vec<String>,
    /// Events that changed nothing, and why.
    pub idle: Vec<String>,
    /// Which machine cannot go on, and why.
    pub broken: Option<String>,
}

/// A sample of one direction of a wire.
#[derive(Clone, Copy, Debug)]
pub struct WireSample {
    /// When.
    pub at: Instant,
    /// Which wire, which direction.
    pub wire: (u32, u8),
    /// Bytes whose serialisation had begun.
    pub bytes: u64,
    /// Frames and bytes that waited.
    pub queue: (usize, u64),
    /// Frames lost so far: on the way and in the queue.
    pub lost: u64,
}

/// A sample of one TCP connection.
#[derive(Clone, Debug)]
pub struct FlowSample {
    /// When.
    pub at: Instant,
    /// Place of the node in the plan.
    pub node: usize,
    /// Row of the node's table of flows.
    pub row: serde_json::Value,
}

/// A world.
pub struct World {
    plan: Plan,
    kept: Kept,
    lanes: Vec<Lane>,
    places: Vec<Place>,
    /// The cluster of each group.
    clusters: Vec<u32>,
    /// Port at both ends of each wire.
    ports: Vec<[u32; 2]>,
    /// The programs of each node.
    programs: Vec<Vec<ProgramId>>,
    /// What is the same for the trees of processes of all nodes.
    common: Arc<Common>,
    boots: Vec<Rng>,
    /// Which processor each thread is pinned to, where there are unmodified programs.
    processors: Option<Claim>,
    now: Instant,
    end: Option<RunEnd>,
    door: visit::Door,
    starters: Starters,
    /// Its process ends with it.
    last: bool,
    /// Samples of wires.
    pub wire_samples: Vec<WireSample>,
    /// Samples of connections.
    pub flow_samples: Vec<FlowSample>,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "World({} nodes, {} wires, now {})", self.plan.nodes.len(), self.plan.wires.len(), self.now)
    }
}

impl World {
    /// Builds a world that will run on so many threads.
    ///
    /// # Errors
    /// What does not fit together, and what to do.
    pub fn new(plan: Plan, threads: usize) -> Result<World, WorldError> {
        check(&plan)?;
        let groups = grouping(&plan);
        let threads = threads.clamp(1, groups.len().max(1));
        let Arranged { groups, clusters, count } = arrange(&plan, groups, threads);
        let mut places = vec![Place { group: 0, cell: 0 }; plan.nodes.len()];
        for (number, members) in groups.iter().enumerate() {
            for (cell, node) in members.iter().enumerate() {
                places[*node] = Place { group: number as u32, cell: cell as u32 };
            }
        }
        let mut boots: Vec<Rng> = plan.nodes.iter().map(|node| Rng::for_name(plan.seed, &format!("node/{}", node.name))).collect();
        let unmodified = plan.programs.iter().any(|program| matches!(program.run, Run::Process(_)));
        let guests = plan.nodes.iter().any(|node| matches!(node.kind, NodeKind::Guest(_)));
        let processors = (unmodified || guests).then(|| Claim::new(threads));
        let cpu_of = |node: usize| processors.as_ref().and_then(|claim| claim.of(lane_of(&places, node, threads)));
        let programs = programs_of(&plan);
        let common = ProcessTree::common(&plan);
        // Who makes processes waits for the kernel half of the time.
        let (booted, launched) = std::thread::scope(|scope| {
            let launched = scope.spawn(|| launch_all(&plan, &programs, &common, &cpu_of));
            let booted = boot_all(&plan, &mut boots, &cpu_of);
            (booted, launched.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        let mut cells: Vec<Option<Cell>> = Vec::new();
        let mut interfaces: Vec<BTreeMap<String, InterfaceIndex>> = Vec::new();
        for (node, booted) in plan.nodes.iter().zip(booted) {
            let (machine, known) = booted?;
            let mut cell = Cell::new(&node.name, machine, node.large_frames);
            cell.core.notes = Notes::new(&plan);
            cells.push(Some(cell));
            interfaces.push(known);
        }
        let ports = lay_wires(&plan, &places, &mut cells, &interfaces)?;
        let anybody = plan.programs.iter().any(|program| matches!(program.expect, Expect::Status(_)));
        for (cell, programs) in cells.iter_mut().flatten().zip(&programs) {
            await_programs(&plan, programs, anybody, cell);
            start_builtins(&plan, programs, cell, Instant::ZERO);
        }
        let mut starters = Starters::default();
        for (node, tree) in launched? {
            if let Some(Some(cell)) = cells.get_mut(node) {
                starters.add(add_tree(&processes(&plan, &programs[node]), cell, Instant::ZERO, tree));
            }
        }
        let mut lanes: Vec<(Vec<Group>, Vec<u32>)> = (0..threads).map(|_| Default::default()).collect();
        for (number, (members, cluster)) in groups.iter().zip(&clusters).enumerate() {
            let members = members.iter().filter_map(|node| cells.get_mut(*node)?.take()).collect();
            let (groups, clusters_of) = &mut lanes[number % threads];
            groups.push(Group::new(number as u32, members));
            clusters_of.push(*cluster);
        }
        crate::debug::register(plan.nodes.iter().map(|node| node.name.as_str()));
        for (lane, group) in lanes.iter_mut().enumerate().flat_map(|(lane, (groups, _))| groups.iter_mut().map(move |group| (lane, group)))
        {
            group.cells.iter_mut().for_each(|cell| cell.core.teller = Teller::new(lane, &cell.core.name));
        }
        let mut lanes: Vec<Lane> = lanes.into_iter().map(|(groups, clusters)| Lane::new(groups, &clusters, threads as u32)).collect();
        group::share(&mut lanes, count);
        let (door, wire_samples, flow_samples) = (visit::Door::default(), Vec::new(), Vec::new());
        Ok(World {
            plan,
            kept: Kept::default(),
            lanes,
            places,
            clusters,
            ports,
            programs,
            common: Arc::new(common),
            boots,
            processors,
            now: Instant::ZERO,
            end: None,
            door,
            starters,
            last: false,
            wire_samples,
            flow_samples,
        })
    }

    /// What it was built from.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }
    /// Threads that it runs on.
    pub fn threads(&self) -> usize {
        self.lanes.len()
    }

    fn cell(&self, node: usize) -> Option<&Cell> {
        let place = self.places.get(node)?;
        let lanes = self.lanes.len() as u32;
        self.lanes.get((place.group % lanes) as usize)?.groups.get((place.group / lanes) as usize)?.cells.get(place.cell as usize)
    }

    fn cell_mut(&mut self, node: usize) -> Option<&mut Cell> {
        let place = self.places.get(node)?;
        let lanes = self.lanes.len() as u32;
        let lane = self.lanes.get_mut((place.group % lanes) as usize)?;
        lane.groups.get_mut((place.group / lanes) as usize)?.cells.get_mut(place.cell as usize)
    }

    /// Gives every frame that passes an interface on a wire to `sink`. False: there is no such interface.
    pub fn capture(&mut self, node: usize, interface: &str, sink: Box<dyn FrameSink>) -> bool {
        let port = self.cell_mut(node).and_then(|cell| cell.core.ports.iter_mut().find(|port| port.name == interface));
        port.map(|port| port.sinks.push(sink)).is_some()
    }

    /// Records everything that the hash stands for below this folder of results, from now on: to be called before the run.
    ///
    /// # Errors
    /// A file cannot be made.
    pub fn record(&mut self, dir: &Path) -> io::Result<()> {
        let folder = dir.join(record::FOLDER);
        std::fs::create_dir_all(&folder)?;
        // Of an earlier run: until this one is complete, there is none.
        match std::fs::remove_file(folder.join(record::INDEX)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        for node in 0..self.plan.nodes.len() {
            let recorder = Recorder::create(&folder, &self.plan.nodes[node].name)?;
            if let Some(cell) = self.cell_mut(node) {
                cell.core.record = Some(Box::new(recorder));
            }
        }
        Ok(())
    }

    /// Writes every call of every unmodified program below this folder of results, where the plan says so ([`Plan::calls`]): to be called before the run.
    ///
    /// # Errors
    /// A file cannot be made.
    pub fn log_calls(&mut self, dir: &Path) -> io::Result<()> {
        for node in 0..self.plan.nodes.len() {
            let processes = processes(&self.plan, &self.programs[node]).into_iter();
            let log = CallLog::create(processes.map(|(id, program)| (id, dir.join("programs").join(&program.name))))?;
            if let Some(cell) = self.cell_mut(node) {
                cell.core.calls = Some(Box::new(log));
            }
        }
        Ok(())
    }

    /// Ends the logs that [`World::log_calls`] began.
    ///
    /// # Errors
    /// Something could not be written.
    pub fn finish_calls(&mut self) -> io::Result<()> {
        for node in 0..self.plan.nodes.len() {
            if let Some(log) = self.cell_mut(node).and_then(|cell| cell.core.calls.take()) {
                log.finish()?;
            }
        }
        Ok(())
    }

    /// What the machines of kernels have left for people: node, name of a file, contents.
    pub fn left_files(&self) -> impl Iterator<Item = (usize, &Path, &[u8])> {
        let of = |node: usize| self.cell(node).into_iter().flat_map(|cell| &cell.core.left_files);
        (0..self.plan.nodes.len()).flat_map(move |node| of(node).map(move |(name, contents)| (node, name.as_path(), contents.as_slice())))
    }

    /// What programs asked for in vain, by node.
    pub fn unsupported(&self) -> Vec<(usize, weft_intercept::calls::Unsupported)> {
        let of = |node: usize| self.cell(node).into_iter().flat_map(|cell| &cell.actors).flat_map(|slot| slot.actor.unsupported());
        (0..self.plan.nodes.len()).flat_map(|node| of(node).map(move |row| (node, row))).collect()
    }

    /// Ends the record that [`World::record`] began, and makes it complete.
    ///
    /// # Errors
    /// Some of it could not be written.
    pub fn finish_record(&mut self, dir: &Path) -> io::Result<()> {
        let mut nodes = Vec::new();
        for node in 0..self.plan.nodes.len() {
            let interfaces = self.interfaces(node).into_iter().map(|(name, index, _)| (index.0, name)).collect();
            nodes.push(record::NodeIndex { name: self.plan.nodes[node].name.clone(), interfaces });
            if let Some(mut recorder) = self.cell_mut(node).and_then(|cell| cell.core.record.take()) {
                recorder.finish()?;
            }
        }
        let programs = self.plan.programs.iter().map(|program| program.name.clone()).collect();
        let text = serde_json::to_string_pretty(&record::Index { nodes, programs })?;
        std::fs::write(dir.join(record::FOLDER).join(record::INDEX), text + "\n")
    }

    /// Names and numbers of a node's interfaces on wires, with the wire of each.
    pub fn interfaces(&self, node: usize) -> Vec<(String, InterfaceIndex, usize)> {
        let ports = self.cell(node).map(|cell| &cell.core.ports);
        ports.into_iter().flatten().map(|port| (port.name.clone(), port.interface, port.wire as usize)).collect()
    }

    /// Runs to the end. `watch` is called now and then with the virtual time; when it says false, the run ends there.
    pub fn run(&mut self, watch: &mut (dyn FnMut(Instant) -> bool + Send)) -> RunEnd {
        if let Some(end) = &self.end {
            return end.clone();
        }
        // Not where somebody may come in at any time: they would meet programs whose time has not come.
        let (threads, processors) = if self.door.is_locked() { early::threads() } else { (0, 0) };
        std::mem::take(&mut self.starters).during(threads, processors, || self.run_to_end(watch))
    }

    fn run_to_end(&mut self, watch: &mut (dyn FnMut(Instant) -> bool + Send)) -> RunEnd {
        // What nodes send as they boot. Not before: captures and records see it, too.
        self.lanes.iter_mut().flat_map(|lane| &mut lane.groups).flat_map(|group| &mut group.cells).for_each(Cell::begin);
        let mut events: Vec<(Instant, Action)> = self.plan.events.iter().map(|event| (event.at, event.action.clone())).collect();
        events.sort_by_key(|(at, _)| *at);
        let mut events = events.into_iter().peekable();
        let (mut failures, mut idle, mut broken) = (Vec::new(), Vec::new(), None);
        let mut sample = self.plan.sample.map(|_| Instant::ZERO);
        let interrupt = self.plan.interrupt.clone();
        let reason = loop {
            let event = events.peek().map_or(Instant::FAR_FUTURE, |(at, _)| *at);
            let next = event.min(sample.unwrap_or(Instant::FAR_FUTURE));
            let linger = (!self.plan.whole && event == Instant::FAR_FUTURE).then_some(LINGER);
            let windows: Vec<Duration> = self.look_aheads().into_iter().map(group::window).collect();
            let epoch = Epoch {
                until: self.plan.end.min(next),
                windows: &windows,
                linger,
                eager: self.door.is_paced(),
                interrupt: interrupt.as_deref(),
            };
            let (lanes, door) = (&mut self.lanes, &self.door);
            let half = epoch.window() / 2;
            let ended = group::run(lanes, epoch, &mut |now| door.before(now, half) && watch(now), self.processors.as_ref());
            if let Some(at) = self.lanes.iter().find_map(|lane| lane.stuck) {
                self.now = at;
                broken = self.broken();
                break if broken.is_some() { Reason::Broken } else { Reason::Stuck };
            }
            if ended.stopped && self.door.knocks() {
                self.admit(ended.until.min(epoch.until));
                continue;
            }
            if ended.idle && event == Instant::FAR_FUTURE && self.wait_for_visitors() && watch(self.now) {
                continue;
            }
            if ended.stopped {
                self.now = ended.until.min(epoch.until);
                break Reason::Interrupted;
            }
            self.now = ended.until;
            if ended.until < epoch.until {
                break Reason::Programs;
            }
            if ended.idle && event == Instant::FAR_FUTURE {
                let cells = self.lanes.iter().flat_map(|lane| &lane.groups).flat_map(|group| &group.cells);
                self.now = cells.map(|cell| cell.core.now).max().unwrap_or(self.now);
                break Reason::Idle;
            }
            if ended.until >= self.plan.end {
                break Reason::Duration;
            }
            self.act_due(&mut events, &mut failures, &mut idle);
            if let (Some(at), Some(period)) = (sample, self.plan.sample)
                && at <= self.now
            {
                self.take_samples();
                sample = Some(at + period.max(Duration::from_micros(1)));
            }
        };
        let now = self.now;
        idle.extend(act::not_reached(events));
        for node in 0..self.plan.nodes.len() {
            if let Some(cell) = self.cell_mut(node) {
                cell.finish(now);
            }
        }
        // What a machine leaves may be nothing that anybody can read.
        broken = broken.or_else(|| self.broken());
        self.gather_samples();
        let end = RunEnd { at: self.now, reason, failures, idle, broken };
        self.end = Some(end.clone());
        end
    }

    /// Kills all processes of a world that has run and will not run again: what it has found stays, and the kernel takes them away meanwhile.
    pub fn let_go(&mut self) {
        let cells = self.lanes.iter_mut().flat_map(|lane| &mut lane.groups).flat_map(|group| &mut group.cells);
        for cell in cells {
            cell.actors.iter_mut().for_each(|slot| slot.actor.kill());
            if let Machine::Guest(guest) = &mut cell.machine {
                guest.kill();
            }
        }
    }

    /// Ends a world whose process is about to end: no process of a node is left, and what is nothing but memory is left to the kernel, which takes it at
    /// once. Giving back that of a thousand nodes piece by piece takes as long as fifty of them take to start.
    pub fn end_with_process(mut self) {
        self.last = true;
    }

    /// Has no node blocks that came from files, which may hold more than memory?
    fn is_mere_memory(&self) -> bool {
        let cells = self.lanes.iter().flat_map(|lane| &lane.groups).flat_map(|group| &group.cells);
        cells.into_iter().all(|cell| match &cell.machine {
            Machine::Host(node) => node.engine().kinds().loaded().next().is_none(),
            Machine::Guest(_) => false,
            Machine::Switch(_) | Machine::Off => true,
        })
    }

    /// A node's graph, to look at. None: it has no stack, or is off.
    pub fn graph(&self, node: usize) -> Option<&weft_core::graph::Slots> {
        match &self.cell(node)?.machine {
            Machine::Host(host) => Some(host.engine().graph()),
            Machine::Guest(_) | Machine::Switch(_) | Machine::Off => None,
        }
    }

    fn ends_of(&self, wire: usize) -> Option<[(usize, u32); 2]> {
        let (plan, ports) = (self.plan.wires.get(wire)?, self.ports.get(wire)?);
        Some([(plan.ends[0].0, ports[0]), (plan.ends[1].0, ports[1])])
    }

    fn change_wire(&mut self, wire: usize, directions: &[Option<Box<DirectionPlan>>; 2]) {
        let now = self.now;
        for ((node, port), plan) in self.ends_of(wire).into_iter().flatten().zip(directions) {
            let (Some(cell), Some(plan)) = (self.cell_mut(node), plan) else { continue };
            cell.core.now = cell.core.now.max(now);
            cell.core.with_wire(port as usize, |wire, dropped| wire.become_other(now, (**plan).clone(), dropped));
            cell.carry_on();
        }
    }

    fn set_carrier(&mut self, wire: usize, up: bool) {
        let now = self.now;
        let Some(ends) = self.ends_of(wire) else { return };
        for (this, other) in [(0, 1), (1, 0)] {
            let (node, port) = ends[other];
            let lost = match self.cell_mut(node) {
                Some(cell) if !up => cell.core.lose_inbox(port as usize),
                _ => 0,
            };
            let (node, port) = ends[this];
            let Some(cell) = self.cell_mut(node) else { continue };
            cell.core.now = cell.core.now.max(now);
            cell.core.with_wire(port as usize, |wire, dropped| {
                wire.count_cut(lost);
                wire.set_up(up, dropped);
            });
            cell.carry_on();
        }
    }

    fn crash(&mut self, node: usize) {
        let now = self.now;
        let Some(cell) = self.cell_mut(node) else { return };
        cell.core.now = cell.core.now.max(now);
        cell.end_programs(now);
        if matches!(cell.machine, Machine::Host(_) | Machine::Guest(_)) {
            cell.machine = Machine::Off;
        }
        cell.core.off = true;
        for port in 0..cell.core.ports.len() {
            cell.core.lose_inbox(port);
            cell.core.with_wire(port, |wire, dropped| {
                wire.set_up(false, dropped);
                wire.set_up(true, dropped);
            });
        }
        cell.core.forget_completions();
    }

    fn restart(&mut self, node: usize, fresh: bool) -> Result<(), String> {
        self.crash(node);
        if let (true, Some(cell)) = (fresh, self.cell_mut(node)) {
            cell.disk = None;
        }
        let (now, plan) = (self.now, &self.plan);
        let cpu = self.processors.as_ref().and_then(|claim| claim.of(lane_of(&self.places, node, self.lanes.len())));
        // Its ports are in their places already.
        let (machine, _) = boot(plan, node, None, &mut self.boots[node], now, cpu).map_err(|error| error.to_string())?;
        let plan = std::mem::take(&mut self.plan);
        let programs = self.programs.get(node).cloned().unwrap_or_default();
        let common = Arc::clone(&self.common);
        let result = match self.cell_mut(node) {
            Some(cell) => {
                cell.machine = machine;
                cell.taken = Default::default();
                cell.core.off = false;
                let result = start_programs(&plan, node, &programs, &common, cell, now, cpu);
                cell.begin();
                result.map_err(|error| error.to_string())
            }
            None => Ok(()),
        };
        self.plan = plan;
        result
    }

    /// A machine that cannot go on, and why: the first by name.
    fn broken(&self) -> Option<String> {
        let cells = (0..self.plan.nodes.len()).filter_map(|node| self.cell(node));
        let failed = cells.filter_map(|cell| Some((cell.core.now, &cell.core.name, cell.core.failed.as_ref()?)));
        failed.min().map(|(at, name, why)| format!("node '{name}' at {at}: {why}"))
    }

    /// The world's hash so far.
    pub fn hash(&self) -> u128 {
        hash::fold(
            (0..self.plan.nodes.len()).filter_map(|node| self.cell(node)).map(|cell| (cell.core.name.as_str(), cell.core.hash.digest())),
        )
    }

    /// A node's hash so far.
    pub fn node_hash(&self, node: usize) -> u128 {
        self.cell(node).map_or(0, |cell| cell.core.hash.digest())
    }

    /// Events executed so far.
    pub fn events(&self) -> u64 {
        (0..self.plan.nodes.len()).filter_map(|node| self.cell(node)).map(|cell| cell.core.events).sum()
    }

    /// What came of a program so far.
    pub fn program(&self, program: usize) -> Option<&ProgramState> {
        let node = self.plan.programs.get(program)?.node;
        self.cell(node)?.core.programs.get(&ProgramId(program as u32))
    }

    /// Writes what programs wrote, line by line, with the virtual time: [`said`] has the format. Empty unless the plan says [`Plan::log`].
    ///
    /// # Errors
    /// Of `out`.
    pub fn output_log(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let mut cells: Vec<&Cell> = (0..self.plan.nodes.len()).filter_map(|node| self.cell(node)).collect();
        cells.sort_by(|a, b| a.core.name.cmp(&b.core.name));
        said::write(out, &self.plan, cells.into_iter().map(|cell| (&cell.core.notes, &cell.core.programs)))
    }

    /// Who waits for what: programs that have not ended, in order.
    pub fn waits(&self) -> Vec<(usize, String)> {
        let cells = (0..self.plan.nodes.len()).filter_map(|node| self.cell(node));
        let actors = cells.flat_map(|cell| &cell.actors).filter(|slot| !slot.next.ended);
        let mut waits: Vec<(usize, String)> =
            actors.flat_map(|slot| slot.actor.waits()).map(|(program, what)| (program.0 as usize, what)).collect();
        let cells = (0..self.plan.nodes.len()).filter_map(|node| self.cell(node));
        let guests = cells.filter_map(|cell| if let Machine::Guest(guest) = &cell.machine { Some(guest.waits()) } else { None });
        waits.extend(guests.flatten().map(|(program, what)| (program.0 as usize, what)));
        waits.sort();
        waits
    }

    /// Why this run may not repeat, for people; empty: it does.
    pub fn not_reproducible(&self) -> Vec<String> {
        let cells = (0..self.plan.nodes.len()).filter_map(|node| self.cell(node));
        let lines = |cell: &Cell| -> Vec<String> {
            let lines = cell.actors.iter().flat_map(|slot| slot.actor.not_reproducible());
            lines.map(|line| format!("node '{}': {line}", cell.core.name)).collect()
        };
        let told =
            self.told_from_outside().map(|name| format!("node '{name}': somebody told it something from outside (weft set, add, …)"));
        cells.flat_map(lines).chain(told).collect()
    }

    /// What happened on a wire, from its first end to its second and back.
    pub fn wire(&self, wire: usize) -> Option<[WireCounters; 2]> {
        let ends = self.ends_of(wire)?;
        let of = |(node, port): (usize, u32)| Some(self.cell(node)?.core.ports.get(port as usize)?.out.counters());
        Some([of(ends[0])?, of(ends[1])?])
    }

    /// Now, or when it ended.
    pub fn now(&self) -> Instant {
        self.now
    }
}

/// Names are unique and indices lead somewhere.
fn check(plan: &Plan) -> Result<(), WorldError> {
    let mut seen = BTreeSet::new();
    for node in &plan.nodes {
        if !seen.insert(node.name.as_str()) {
            return unsound(format!("there are two nodes '{}'", node.name), "give each node a name of its own");
        }
    }
    seen.clear();
    for wire in &plan.wires {
        if !seen.insert(wire.name.as_str()) {
            return unsound(format!("there are two wires '{}'", wire.name), "give each wire a name of its own");
        }
        if let Some((end, _)) = wire.ends.iter().find(|(end, _)| *end >= plan.nodes.len()) {
            return unsound(format!("wire '{}' ends at node number {end}, which is not there", wire.name), "name an existing node");
        }
        if let Some(bad) = wire.directions.iter().find(|direction| direction.rate.is_some_and(|rate| rate == 0 || rate > RATE_MAX)) {
            return unsound(
                format!("wire '{}' has a rate of {} bit/s", wire.name, bad.rate.unwrap_or(0)),
                "use a rate from 1bit to 1000tbit",
            );
        }
    }
    seen.clear();
    for program in &plan.programs {
        if !seen.insert(program.name.as_str()) {
            return unsound(format!("there are two programs '{}'", program.name), "give each program a name of its own");
        }
        if program.node >= plan.nodes.len() {
            return unsound(format!("program '{}' runs on a node that is not there", program.name), "name an existing node");
        }
        if matches!(plan.nodes[program.node].kind, NodeKind::Switch(_)) {
            return unsound(format!("program '{}' runs on a switch", program.name), "programs run on hosts");
        }
        if matches!((&plan.nodes[program.node].kind, &program.run), (NodeKind::Guest(_), Run::Builtin(_))) {
            let what =
                format!("program '{}' is built in, and its node '{}' is a Linux kernel", program.name, plan.nodes[program.node].name);
            return unsound(what, "let an unmodified program do it: command = [\"iperf3\", …]");
        }
    }
    Ok(())
}

/// Puts the wires between the ports.
fn lay_wires(
    plan: &Plan,
    places: &[Place],
    cells: &mut [Option<Cell>],
    interfaces: &[BTreeMap<String, InterfaceIndex>],
) -> Result<Vec<[u32; 2]>, WorldError> {
    let mut taken: BTreeSet<(usize, &str)> = BTreeSet::new();
    let mut counts = vec![0u32; plan.nodes.len()];
    let mut ports = Vec::new();
    for wire in &plan.wires {
        let mut both = [0; 2];
        for (side, (node, interface)) in wire.ends.iter().enumerate() {
            let name = &plan.nodes[*node].name;
            if !interfaces[*node].contains_key(interface) {
                let known: Vec<&str> = interfaces[*node].keys().map(String::as_str).collect();
                let what = format!("wire '{}' ends at interface '{interface}', which node '{name}' does not have", wire.name);
                return unsound(what, &format!("the node has: {}", known.join(", ")));
            }
            if !taken.insert((*node, interface)) {
                let what = format!("two wires end at interface '{interface}' of node '{name}'");
                return unsound(what, "put a switch between, or give the node another interface");
            }
            both[side] = counts[*node];
            counts[*node] += 1;
        }
        ports.push(both);
    }
    for (number, (wire, both)) in plan.wires.iter().zip(&ports).enumerate() {
        for (this, other) in [(0, 1), (1, 0)] {
            let (node, interface) = &wire.ends[this];
            let rng = Rng::for_name(plan.seed, &format!("wire/{}/{this}", wire.name));
            let out = Direction::new(wire.directions[this].clone(), rng);
            let index = interfaces[*node][interface];
            let port = Port::new(index, interface.clone(), number as u32, out, places[wire.ends[other].0], both[other]);
            if let Some(Some(cell)) = cells.get_mut(*node) {
                cell.core.ports.push(port);
            }
        }
    }
    Ok(ports)
}

/// Which of a node's programs' ends the run waits for, and whether it waits for anybody's.
fn await_programs(plan: &Plan, programs: &[ProgramId], anybody: bool, cell: &mut Cell) {
    for (id, _) in planned(plan, programs).filter(|(_, program)| matches!(program.expect, Expect::Status(_))) {
        cell.core.awaited.insert(id);
        cell.core.left += 1;
    }
    // A world without anybody to wait for runs to its end.
    if !anybody {
        cell.core.left = 1;
    }
}

/// The nodes of a world that ended with its process: who looks for memory that was lost finds them here.
static ENDED: Mutex<Vec<Group>> = Mutex::new(Vec::new());

impl Drop for World {
    /// All nodes' processes are killed before the first of them is waited for. What was mapped for them is unmapped while no other thread runs, whose
    /// processor would have to be told of each; then several threads take what many nodes had apart.
    fn drop(&mut self) {
        self.let_go();
        let cells = self.lanes.iter_mut().flat_map(|lane| &mut lane.groups).flat_map(|group| &mut group.cells);
        cells.for_each(|cell| cell.actors.clear());
        let left_to_the_kernel = self.last && self.is_mere_memory();
        let mut groups: Vec<_> = self.lanes.iter_mut().flat_map(|lane| std::mem::take(&mut lane.groups)).collect();
        if left_to_the_kernel {
            ENDED.lock().unwrap_or_else(std::sync::PoisonError::into_inner).append(&mut groups);
            return;
        }
        let share = groups.len().div_ceil(crate::launch::threads()).max(crate::launch::NODES_PER_THREAD_MIN);
        std::thread::scope(|scope| {
            while groups.len() > share {
                let some = groups.split_off(groups.len() - share);
                scope.spawn(|| drop(some));
            }
            drop(groups);
        });
    }
}
