//! A world: machines, wires and what happens to them, built from a [`Plan`] and run to its end.

mod act;
mod cells;
mod check;
mod control;
mod end;
mod power;
mod samples;
mod state;
mod visit;
mod wires;

pub use end::{Reason, RunEnd};
pub use samples::{FlowSample, WireSample};

use self::cells::Cells;
use self::check::check;
use self::state::State;
use self::visit::Door;
use self::wires::Wires;
use crate::arrange::{Arranged, arrange, grouping, lane_of};
use crate::calls::CallLog;
use crate::cell::{Alarm, Cell, FrameSink, Machine, Place, Ring};
use crate::collected::{Collection, Leavings};
use crate::debug::{self, Teller};
use crate::early::{self, Starters};
use crate::error::WorldError;
use crate::group::{self, Epoch, Group, Lane};
use crate::hash;
use crate::launch::{self, add_tree, boot_all, launch_all, planned, processes, programs_of, start_builtins};
use crate::life::ProgramState;
use crate::limits::LINGER;
use crate::output_log::{self, Notes};
use crate::plan::{Action, Expect, NodeKind, Plan, Run};
use crate::process::ProcessTree;
use crate::record::{self, Recorder};
use crate::report::ProgramId;
use crate::snapshots::Kept;
use crate::visit::{Pacer, Visits};
use crate::wire::WireCounters;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weft_core::{Instant, InterfaceIndex, Op, Rng};
use weft_process::processor::Claim;

/// A world.
pub struct World {
    state: State,
    end: Option<RunEnd>,
    door: Door,
    starters: Starters,
    /// Its process ends with it.
    last: bool,
    /// Samples of wires.
    pub wire_samples: Vec<WireSample>,
    /// Samples of connections.
    pub flow_samples: Vec<FlowSample>,
    /// Samples of connections of Multipath TCP, with their subflows.
    pub multipath_samples: Vec<FlowSample>,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let State { plan, now, .. } = &self.state;
        write!(f, "World({} nodes, {} wires, now {now})", plan.nodes.len(), plan.wires.len())
    }
}

impl World {
    /// Says what does not fit together of a plan, without building its world.
    ///
    /// # Errors
    /// What does not, and what to do.
    pub fn check(plan: &Plan) -> Result<(), WorldError> {
        check(plan)
    }

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
        let wires = Wires::lay(&plan, &places, &mut cells, &interfaces)?;
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
        debug::register(plan.nodes.iter().map(|node| node.name.as_str()));
        for (lane, group) in lanes.iter_mut().enumerate().flat_map(|(lane, (groups, _))| groups.iter_mut().map(move |group| (lane, group)))
        {
            group.cells.iter_mut().for_each(|cell| cell.core.teller = Teller::new(lane, &cell.core.name));
        }
        let mut lanes: Vec<Lane> = lanes.into_iter().map(|(groups, clusters)| Lane::new(groups, &clusters, threads as u32)).collect();
        group::share(&mut lanes, count);
        let state = State {
            plan,
            now: Instant::ZERO,
            cells: Cells::new(lanes, places, clusters),
            wires,
            programs,
            common: Arc::new(common),
            boots,
            processors,
            kept: Kept::default(),
            collection: None,
        };
        let (wire_samples, flow_samples, multipath_samples) = Default::default();
        Ok(World { state, end: None, door: Door::default(), starters, last: false, wire_samples, flow_samples, multipath_samples })
    }

    /// What it was built from.
    pub fn plan(&self) -> &Plan {
        &self.state.plan
    }
    /// Threads that it runs on.
    pub fn threads(&self) -> usize {
        self.state.cells.lanes.len()
    }

    /// Gives every frame that passes an interface on a wire to `sink`. False: there is no such interface.
    pub fn capture(&mut self, node: usize, interface: &str, sink: Box<dyn FrameSink>) -> bool {
        let port = self.state.cells.get_mut(node).and_then(|cell| cell.core.ports.iter_mut().find(|port| port.name == interface));
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
        for node in 0..self.state.plan.nodes.len() {
            let recorder = Recorder::create(&folder, &self.state.plan.nodes[node].name)?;
            if let Some(cell) = self.state.cells.get_mut(node) {
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
        for node in 0..self.state.plan.nodes.len() {
            let processes = processes(&self.state.plan, &self.state.programs[node]).into_iter();
            let log = CallLog::create(processes.map(|(id, program)| (id, dir.join("programs").join(&program.name))))?;
            if let Some(cell) = self.state.cells.get_mut(node) {
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
        for node in 0..self.state.plan.nodes.len() {
            if let Some(log) = self.state.cells.get_mut(node).and_then(|cell| cell.core.calls.take()) {
                log.finish()?;
            }
        }
        Ok(())
    }

    /// What the machines of kernels have left for people: node, name of a file, contents.
    pub fn left_files(&self) -> impl Iterator<Item = (usize, &Path, &[u8])> {
        let of = |node: usize| self.state.cells.get(node).into_iter().flat_map(|cell| &cell.core.left_files);
        (0..self.state.plan.nodes.len())
            .flat_map(move |node| of(node).map(move |(name, contents)| (node, name.as_path(), contents.as_slice())))
    }

    /// What programs asked for in vain, by node.
    pub fn unsupported(&self) -> Vec<(usize, weft_intercept::calls::Unsupported)> {
        let of =
            |node: usize| self.state.cells.get(node).into_iter().flat_map(|cell| &cell.actors).flat_map(|slot| slot.actor.unsupported());
        (0..self.state.plan.nodes.len()).flat_map(|node| of(node).map(move |row| (node, row))).collect()
    }

    /// Ends the record that [`World::record`] began, and makes it complete.
    ///
    /// # Errors
    /// Some of it could not be written.
    pub fn finish_record(&mut self, dir: &Path) -> io::Result<()> {
        let mut nodes = Vec::new();
        for node in 0..self.state.plan.nodes.len() {
            let interfaces = self.interfaces(node).into_iter().map(|(name, index, _)| (index.0, name)).collect();
            nodes.push(record::NodeIndex { name: self.state.plan.nodes[node].name.clone(), interfaces });
            if let Some(mut recorder) = self.state.cells.get_mut(node).and_then(|cell| cell.core.record.take()) {
                recorder.finish()?;
            }
        }
        let programs = self.state.plan.programs.iter().map(|program| program.name.clone()).collect();
        let text = serde_json::to_string_pretty(&record::Index { nodes, programs })?;
        std::fs::write(dir.join(record::FOLDER).join(record::INDEX), text + "\n")
    }

    /// Names and numbers of a node's interfaces on wires, with the wire of each.
    pub fn interfaces(&self, node: usize) -> Vec<(String, InterfaceIndex, usize)> {
        let ports = self.state.cells.get(node).map(|cell| &cell.core.ports);
        ports.into_iter().flatten().map(|port| (port.name.clone(), port.interface, port.wire as usize)).collect()
    }

    /// Keeps snapshots of nodes below this folder of results, instead of in memory: to be called before the run.
    pub fn keep_snapshots(&mut self, dir: &Path) {
        self.state.kept.keep_below(dir);
    }

    /// Takes files out of nodes into this folder of results, when they crash and at the end: those that the scenario names, or `everything` that programs
    /// have written. To be called before the run.
    pub fn keep_files(&mut self, dir: &Path, everything: bool) {
        self.state.collection = Some(Collection::below(dir, everything));
    }

    /// At the end: takes them out of nodes that have not crashed, and says what is not there.
    ///
    /// # Errors
    /// Some of it could not be written.
    pub fn take_files(&mut self) -> io::Result<Leavings> {
        for node in 0..self.state.plan.nodes.len() {
            self.state.collect(node);
        }
        self.state.collection.take().map_or(Ok(Leavings::default()), Collection::finish)
    }

    /// Sends a control message to a node. What is not only a question is part of the hash; so are snapshots not: taking one changes nothing, and what
    /// restoring one changes is seen in what the node does from then on.
    ///
    /// # Errors
    /// The node refuses, or there is none.
    pub fn control(&mut self, node: usize, op: Op) -> Result<serde_json::Value, String> {
        control::control(&mut self.state, node, op)
    }

    /// Calls `ring` with the name of a node when the first node reaches this time, before it does anything then: for debuggers.
    pub fn alarm(&mut self, at: Instant, ring: Ring) {
        let alarm = Alarm { at, rung: Arc::default(), ring };
        self.state.cells.all_mut().for_each(|cell| cell.core.alarm = Some(Box::new(alarm.clone())));
    }

    /// Lets people in while it runs, who come through `visits`.
    pub fn open(&mut self, visits: Arc<Visits>) {
        self.door.open(visits);
    }

    /// Ties the world's time to the time outside. Changes no result; the world should run on one thread.
    pub fn pace(&mut self, pacer: Arc<dyn Pacer>) {
        self.door.pace(pacer);
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
        self.state.cells.all_mut().for_each(Cell::begin);
        let mut events: Vec<(Instant, Action)> = self.state.plan.events.iter().map(|event| (event.at, event.action.clone())).collect();
        events.sort_by_key(|(at, _)| *at);
        let mut events = events.into_iter().peekable();
        let (mut failures, mut idle, mut broken) = (Vec::new(), Vec::new(), None);
        let mut sample = self.state.plan.sample.map(|_| Instant::ZERO);
        let interrupt = self.state.plan.interrupt.clone();
        let last_event = self.state.plan.events.iter().map(|event| event.at).max().unwrap_or(Instant::ZERO);
        let reason = loop {
            let event = events.peek().map_or(Instant::FAR_FUTURE, |(at, _)| *at);
            let next = event.min(sample.unwrap_or(Instant::FAR_FUTURE));
            let linger = (!self.state.plan.whole && event == Instant::FAR_FUTURE).then_some(LINGER);
            let windows: Vec<Duration> = self.state.wires.look_aheads(&self.state.cells).into_iter().map(group::window).collect();
            let epoch = Epoch {
                until: self.state.plan.end.min(next),
                windows: &windows,
                linger,
                last_event,
                eager: self.door.is_paced(),
                interrupt: interrupt.as_deref(),
            };
            let (State { cells, processors, .. }, door) = (&mut self.state, &self.door);
            let half = epoch.window() / 2;
            let ended = group::run(&mut cells.lanes, epoch, &mut |now| door.before(now, half) && watch(now), processors.as_ref());
            if let Some(at) = cells.lanes.iter().find_map(|lane| lane.stuck) {
                self.state.now = at;
                broken = self.state.cells.broken();
                break if broken.is_some() { Reason::Broken } else { Reason::Stuck };
            }
            if ended.stopped && self.door.knocks() {
                self.door.admit(&mut self.state, ended.until.min(epoch.until));
                continue;
            }
            if ended.idle && event == Instant::FAR_FUTURE && self.door.wait_for_visitors(&mut self.state) && watch(self.state.now) {
                continue;
            }
            if ended.stopped {
                // What is due next has not come.
                let reached = self.state.cells.latest().unwrap_or(ended.until).min(ended.until).min(epoch.until);
                self.state.now = self.state.now.max(reached);
                break Reason::Interrupted;
            }
            self.state.now = ended.until;
            if ended.until < epoch.until {
                break Reason::Programs;
            }
            // A world that is tied to the wall clock goes on: somebody may come in.
            if ended.idle && event == Instant::FAR_FUTURE && !self.door.is_paced() {
                self.state.now = self.state.cells.latest().unwrap_or(self.state.now);
                break Reason::Idle;
            }
            if ended.until >= self.state.plan.end {
                break Reason::Duration;
            }
            act::act_due(&mut self.state, &mut events, &mut failures, &mut idle);
            if let (Some(at), Some(period)) = (sample, self.state.plan.sample)
                && at <= self.state.now
            {
                samples::take(&mut self.state, &mut self.wire_samples, &mut self.flow_samples, &mut self.multipath_samples);
                sample = Some(at + period.max(Duration::from_micros(1)));
            }
        };
        let now = self.state.now;
        idle.extend(act::not_reached(events));
        for node in 0..self.state.plan.nodes.len() {
            if let Some(cell) = self.state.cells.get_mut(node) {
                cell.finish(now);
            }
        }
        // What a machine leaves may be nothing that anybody can read.
        broken = broken.or_else(|| self.state.cells.broken());
        samples::gather(&mut self.state.cells, self.state.plan.nodes.len(), &mut self.flow_samples);
        let end = RunEnd { at: self.state.now, reason, failures, idle, broken };
        self.end = Some(end.clone());
        end
    }

    /// Kills all processes of a world that has run and will not run again: what it has found stays, and the kernel takes them away meanwhile.
    pub fn let_go(&mut self) {
        for cell in self.state.cells.all_mut() {
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

    /// A node's graph, to look at. None: it has no stack, or is off.
    pub fn graph(&self, node: usize) -> Option<&weft_core::graph::Slots> {
        match &self.state.cells.get(node)?.machine {
            Machine::Host(host) => Some(host.engine().graph()),
            Machine::Guest(_) | Machine::Switch(_) | Machine::Off => None,
        }
    }

    /// The world's hash so far.
    pub fn hash(&self) -> u128 {
        hash::fold(self.state.cells.in_order().map(|cell| (cell.core.name.as_str(), cell.core.hash.digest())))
    }

    /// A node's hash so far.
    pub fn node_hash(&self, node: usize) -> u128 {
        self.state.cells.get(node).map_or(0, |cell| cell.core.hash.digest())
    }

    /// Events executed so far.
    pub fn events(&self) -> u64 {
        self.state.cells.in_order().map(|cell| cell.core.events).sum()
    }

    /// What came of a program so far.
    pub fn program(&self, program: usize) -> Option<&ProgramState> {
        self.state.program(program)
    }

    /// Writes what programs wrote, line by line, with the virtual time: [`crate::output_log`] has the format. Empty unless the plan says [`Plan::log`].
    ///
    /// # Errors
    /// Of `out`.
    pub fn output_log(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let mut cells: Vec<&Cell> = self.state.cells.in_order().collect();
        cells.sort_by(|a, b| a.core.name.cmp(&b.core.name));
        output_log::write(out, &self.state.plan, cells.into_iter().map(|cell| (&cell.core.notes, &cell.core.programs)))
    }

    /// Who waits for what: programs that have not ended, in order.
    pub fn waits(&self) -> Vec<(usize, String)> {
        let actors = self.state.cells.in_order().flat_map(|cell| &cell.actors).filter(|slot| !slot.next.ended);
        let mut waits: Vec<(usize, String)> =
            actors.flat_map(|slot| slot.actor.waits()).map(|(program, what)| (program.0 as usize, what)).collect();
        let guests = self
            .state
            .cells
            .in_order()
            .filter_map(|cell| if let Machine::Guest(guest) = &cell.machine { Some(guest.waits()) } else { None });
        waits.extend(guests.flatten().map(|(program, what)| (program.0 as usize, what)));
        waits.sort();
        waits
    }

    /// Why this run may not repeat, for people; empty: it does.
    pub fn not_reproducible(&self) -> Vec<String> {
        let lines = |cell: &Cell| -> Vec<String> {
            let lines = cell.actors.iter().flat_map(|slot| slot.actor.not_reproducible());
            lines.map(|line| format!("node '{}': {line}", cell.core.name)).collect()
        };
        let told = self.door.told(&self.state.plan);
        let told = told.map(|name| format!("node '{name}': somebody told it something from outside (weft set, add, …)"));
        self.state.cells.in_order().flat_map(lines).chain(told).collect()
    }

    /// What happened on a wire, from its first end to its second and back.
    pub fn wire(&self, wire: usize) -> Option<[WireCounters; 2]> {
        self.state.wires.counters(&self.state.cells, wire)
    }

    /// Now, or when it ended.
    pub fn now(&self) -> Instant {
        self.state.now
    }
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
        self.state.cells.all_mut().for_each(|cell| cell.actors.clear());
        let left_to_the_kernel = self.last && self.state.cells.are_mere_memory();
        let mut groups: Vec<_> = self.state.cells.lanes.iter_mut().flat_map(|lane| std::mem::take(&mut lane.groups)).collect();
        if left_to_the_kernel {
            ENDED.lock().unwrap_or_else(std::sync::PoisonError::into_inner).append(&mut groups);
            return;
        }
        let share = groups.len().div_ceil(launch::threads()).max(launch::NODES_PER_THREAD_MIN);
        std::thread::scope(|scope| {
            while groups.len() > share {
                let some = groups.split_off(groups.len() - share);
                scope.spawn(|| drop(some));
            }
            drop(groups);
        });
    }
}
