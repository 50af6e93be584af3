//! A node's processes: everything that is known of them.

use super::arena::Arena;
use super::config::Config;
use super::cpu_timers::CpuTimers;
use super::discipline::Discipline;
use super::disk::Disk;
use super::error::StartError;
use super::futexes::Futexes;
use super::ids::{ProcessId, ThreadId};
use super::launch::Init;
use super::ledger::Ledger;
use super::limits::MEMORY_BYTES;
use super::mirrors::Shows;
use super::object::Objects;
use super::outside::Exit;
use super::pending;
use super::real::Real;
use super::state::{Early, Thread};
use super::tasks::Tasks;
use super::timers::Timers;
use super::usage::Usage;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use weft_core::{Instant, Rng};
use weft_intercept::calls::Calls;
use weft_intercept::face::SocketId;
use weft_intercept::sys::Errno;
use weft_loader::abi::{self, Line};

/// A node's processes.
#[derive(Debug)]
pub struct Tree {
    pub(super) arena: Arc<Arena>,
    pub(super) init: Init,
    pub(super) config: Config,
    pub(super) clock: Instant,
    pub(super) tasks: Tasks,
    pub(super) timers: Timers,
    pub(super) cpu_timers: CpuTimers,
    pub(super) discipline: Discipline,
    pub(super) objects: Objects,
    pub(super) futexes: Futexes,
    pub(super) changed: BTreeSet<SocketId>,
    /// Threads that wait for a signal which has come.
    pub(super) signal_waits: Vec<ThreadId>,
    /// Processes with a child that has changed.
    pub(super) child_changes: Vec<ProcessId>,
    pub(super) activity: u64,
    pub(super) calls: Calls,
    pub(super) rng: Rng,
    pub(super) ledger: Ledger,
    pub(super) shows: Shows,
    /// The interfaces of which files are below /sys, once somebody has asked.
    pub(super) sys_names: Option<Vec<String>>,
    /// What programs wrote to settings that change nothing, by their names.
    pub(super) settings_written: std::collections::BTreeMap<&'static str, String>,
    /// The number that a process or thread was given last.
    pub(super) last_pid: u32,
    /// A program has mapped a ring: what it has sent is to be there when it looks.
    pub(super) maps_rings: bool,
    /// So many descriptors have been handed to programs.
    pub(super) descriptors_handed: u64,
    /// In real time.
    pub(super) real: Option<Real>,
    /// The first program, on its way to its first post.
    pub(super) early: Option<Early>,
}

impl Tree {
    /// Starts process 1 of a node.
    ///
    /// # Errors
    /// [`StartError::Step`]: mostly that user namespaces are forbidden.
    pub fn new(config: Config) -> Result<Tree, StartError> {
        let (arena, memory) = Arena::new()?;
        let header = arena.header();
        header.clocks.epoch.store(config.epoch_ns, Relaxed);
        header.clocks.boot.store(config.boot_ns, Relaxed);
        header.clocks.began.store(config.epoch_ns, Relaxed);
        let line = Line { from: config.drifts_from_ns, rate: config.drift, ..Line::default() };
        if !line.is_plain() {
            header.clocks.set_line(line);
            header.clocks.raw_from.store(line.from, Relaxed);
            header.clocks.raw_rate.store(line.rate as u64, Relaxed);
        }
        header.first_pid.store(config.first_pid, Relaxed);
        header.memory.store(config.limits.memory.unwrap_or(MEMORY_BYTES), Relaxed);
        header.per_call.store(config.per_call.as_nanos() as u64, Relaxed);
        header.slice.store(config.slice.as_nanos() as u64, Relaxed);
        let init = Init::start(&arena, &memory, &config)?;
        let failed = arena.header().init_failed.load(Relaxed);
        // Without these programs would see what others do not.
        for (step, bit) in [("prepare process 1 of a node", abi::INIT_VSYSCALL), ("number a node's processes", abi::INIT_PID)] {
            if failed & bit != 0 {
                return Err(StartError::Step { step, errno: Errno(arena.header().init_errno.load(Relaxed) as i32) });
            }
        }
        if failed != 0 {
            tracing::warn!(node = %config.name, "a node's programs see the host's /proc or name: the kernel refused a mount or sethostname");
        }
        Ok(Tree::with(arena, init, config))
    }

    pub(super) fn with(arena: Arena, init: Init, config: Config) -> Tree {
        let rng = Rng::for_name(config.seed, &format!("programs/{}", config.name));
        let last_pid = config.first_pid.saturating_sub(1);
        Tree {
            arena: Arc::new(arena),
            init,
            config,
            clock: Instant::ZERO,
            tasks: Tasks::default(),
            timers: Timers::default(),
            cpu_timers: CpuTimers::default(),
            discipline: Discipline::default(),
            objects: Objects::default(),
            futexes: Futexes::default(),
            changed: BTreeSet::new(),
            signal_waits: Vec::new(),
            child_changes: Vec::new(),
            activity: 0,
            calls: Calls::default(),
            rng,
            ledger: Ledger::default(),
            shows: Shows::default(),
            sys_names: None,
            settings_written: Default::default(),
            last_pid,
            descriptors_handed: 0,
            maps_rings: false,
            real: None,
            early: None,
        }
    }

    /// Processes that have ended since the last call, in order.
    pub fn take_exits(&mut self) -> Vec<Exit> {
        self.ledger.take_exits()
    }
    /// All calls of all programs so far, folded into a number: (time, thread, call, result), and the bytes written to files and pipes.
    pub fn trace(&self) -> u64 {
        self.arena.header().trace.load(Relaxed)
    }
    /// How many calls programs have made.
    pub fn call_count(&self) -> u64 {
        self.arena.header().calls.load(Relaxed)
    }
    /// What a program (the number that [`Tree::spawn`] returned) and all that it has started have used so far.
    pub fn usage(&self, program: u32) -> Usage {
        self.ledger.usage(program)
    }
    /// How many of them came to the controller.
    pub fn round_trips(&self) -> u64 {
        self.ledger.round_trips
    }
    /// How many of them programs answered for the controller.
    pub fn answered_ahead(&self) -> u64 {
        self.shows.calls
    }
    /// The node was changed from outside.
    pub fn disturbed(&mut self) {
        self.shows.disturbed();
    }
    /// Counters, among them what is not supported.
    pub fn calls(&self) -> &Calls {
        &self.calls
    }
    /// Programs that were interrupted because they made no call for [`Config::patience`]. Not empty: the run is not reproducible.
    pub fn preempted(&self) -> &[String] {
        self.ledger.preempted()
    }
    /// What else makes the run not reproducible: limits of the host that were met, processes that were killed from outside, programs that were told
    /// something wrong.
    pub fn doubts(&self) -> &[String] {
        self.ledger.doubts()
    }
    /// Is any process left?
    pub fn is_empty(&self) -> bool {
        self.tasks.processes.values().all(|process| process.status.is_some())
    }
    /// Kills the whole node, and waits for nothing: the last that is done with it.
    pub fn give_up(&mut self) {
        self.init.kill();
    }
    /// The node's files, as they are found from outside for as long as its process 1 is there.
    pub fn root(&self) -> std::path::PathBuf {
        self.init.root()
    }
    /// Files and folders that programs have opened and that the host has changed since the node was made; `base`: the folder of the host's below the node's
    /// files, `mounts`: those that it has beside.
    pub fn changed_meanwhile(&self, base: &std::path::Path, mounts: &[crate::Mount]) -> Vec<std::path::PathBuf> {
        let born = self.arena.header().real_start.load(std::sync::atomic::Ordering::Relaxed);
        let mut found = self.arena.seen();
        found.retain(|path| {
            crate::collect::original(path, base, mounts).is_some_and(|original| crate::collect::has_changed(&original, born))
        });
        found
    }
    /// What programs have written, for the node's next life. None: it was not to be kept, or has been taken.
    pub fn take_disk(&mut self) -> Option<Disk> {
        self.init.take_disk(&self.arena)
    }
    /// Sends a signal to a process from outside; false: there is none.
    pub fn signal(&mut self, pid: u32, signal: i32) -> bool {
        let Some(process) = self.tasks.process_by_pid(pid) else { return false };
        self.signal_process(process, signal, pending::info_from_kernel(signal));
        true
    }
    /// Who waits for what, for people; with the program (the number that [`Tree::spawn`] returned) that each belongs to.
    pub fn waiting(&self) -> Vec<(u32, String)> {
        let line = |thread: &Thread| {
            let process = self.tasks.processes.get(&thread.process)?;
            let who = if thread.tid == process.pid {
                format!("process {}", process.pid)
            } else {
                format!("process {}, thread {}", process.pid, thread.tid)
            };
            Some((process.program, format!("{} ({who}) {}", process.name, thread.state.describe())))
        };
        self.tasks.threads.values().filter_map(line).collect()
    }

    /// Sends a signal from outside to a program that [`Tree::spawn`] has started, and to all that it has started.
    pub fn signal_all(&mut self, program: u32, signal: i32) {
        let all: Vec<ProcessId> = self
            .tasks
            .processes
            .iter()
            .filter(|(_, process)| process.program == program && process.status.is_none())
            .map(|(id, _)| *id)
            .collect();
        for process in all {
            self.signal_process(process, signal, pending::info_from_kernel(signal));
        }
    }

    /// Something outside of the node may have made a descriptor of a program's readable or writable: who waits for one looks again.
    pub fn poke(&mut self) {
        self.arena.header().activity.fetch_add(1, Relaxed);
    }
}
