//! The controller of a node's processes in virtual time.
//!
//! A [`Tree`] owns process 1 of a node (its own pid, mount, host name and network namespaces) and every process below it. They run inside
//! the loader (`weft-loader`): calls that need the node, another process or the clock arrive here through the arena, one at a time. One
//! thread of a node runs at a time, in the order in which they became runnable; everything else is asleep on its channel, so that memory,
//! pipes and files see one order only, and the same seed gives the same run.
//!
//! The world calls [`Tree::run`] with a grant and is asked through [`Outside`]. Nothing here reads a clock; wall time only bounds how long a
//! program may run without a call before it is interrupted (the run says then that it is not reproducible).
//!
//! What is not there is an errno, a warning and a row of [`Tree::calls`].

mod ahead;
mod answer;
mod arena;
mod brought;
mod child;
mod clone;
mod config;
mod cpu_time;
mod disk;
mod early;
mod error;
mod files;
mod futex;
mod futex_pi;
mod guest;
mod ids;
mod launch;
mod limits;
mod machine;
mod mib;
mod netlink;
mod nursery;
mod object;
mod outside;
mod poll;
mod posted;
pub mod processor;
mod real;
mod rights;
mod run;
mod said;
pub mod settings;
mod sheet;
mod signal;
mod socket;
mod strace;
mod time;
mod traffic;
mod usage;
mod users;

use crate::calls::Calls;
use crate::face::SocketId;
use crate::sys::Errno;
use arena::Arena;
use ids::{ProcessId, ThreadId};
use launch::Init;
use limits::MEMORY_BYTES;
use object::Object;
use signal::Queue;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use weft_core::{Instant, Rng};
use weft_loader::abi;

pub use config::{Attach, Config, Held, Spawn};
pub use disk::{Disk, DiskUse};
pub use error::StartError;
pub use files::{Files, Mount, OWN_FOLDERS, OwnFile};
pub use limits::Limits;
pub use outside::{Called, Exit, INSIDE, Next, Outside, Record, Status, ToCome};
pub use real::{Loading, Parts};
pub use sheet::{Sheet, input};
pub use strace::{name as call_name, returned as call_result};
pub use usage::{Traffic, Usage};

/// What a thread does.
#[derive(Debug)]
enum State {
    /// Its first post has not been seen.
    Starting,
    /// In the queue, or having its turn.
    Runnable,
    /// Until something happens.
    Waiting(Wait),
    /// Its process is stopped; what it did before.
    Stopped(Box<State>),
}

/// What a thread waits for.
#[derive(Debug, Default)]
struct Wait {
    /// Order among those that wait.
    since: u64,
    /// Sockets whose change is a reason to look again.
    sockets: Vec<SocketId>,
    /// Epolls, timers and signalfds, by inode.
    objects: Vec<u64>,
    /// Descriptors of the kernel's are among what it waits for.
    native: bool,
    /// A child's change.
    children: bool,
    /// Pending signals, for rt_sigtimedwait and signalfd.
    signals: u64,
    /// Futexes: mostly one.
    futexes: SmallVec<[futex::Key; 1]>,
    /// A value of a CPU clock.
    cpu: Option<cpu_time::Key>,
    /// The child of vfork.
    vfork: Option<ProcessId>,
    /// When it ends anyway.
    deadline: Option<Instant>,
    /// The timer for that.
    timer: Option<time::Key>,
    /// Signals do not interrupt it.
    uninterruptible: bool,
    /// What a signal makes of it: [`abi::RESTART`], [`abi::RESTART_NO_HANDLER`] or -EINTR.
    interrupted: i64,
}

#[derive(Debug)]
struct Thread {
    process: ProcessId,
    tid: u32,
    state: State,
    queue: Queue,
    /// Deadline of the call that it is in, kept while the call is tried again.
    deadline: Option<Instant>,
    /// The deadline has passed.
    expired: bool,
    /// It has waited in this call already.
    held: bool,
    /// So often it was interrupted since its last call.
    spins: u32,
    /// Bytes that this call has moved already.
    moved: u64,
    /// CPU time in nanoseconds.
    cpu: u64,
    /// Until which value of which CPU clock this call sleeps.
    cpu_until: Option<(cpu_time::CpuClock, u64)>,
    /// It was interrupted without having made a call, and rests since then.
    rests: Option<Instant>,
}

#[derive(Debug)]
struct Process {
    pid: u32,
    /// The process that was started from outside and that this one descends from.
    program: u32,
    parent: Option<ProcessId>,
    group: u32,
    session: u32,
    /// Its number outside, to read its memory.
    outer: u32,
    pidfd: Option<OwnedFd>,
    threads: Vec<ThreadId>,
    queue: Queue,
    status: Option<Status>,
    /// Stopped by this signal, and whether the parent has been told; then continued.
    stopped: Option<(i32, bool)>,
    continued: bool,
    /// Signal to the parent at the end.
    exit_signal: i32,
    /// Signal to this process when its parent ends; 0: none.
    death_signal: i32,
    /// The thread that waits until this process executes or ends.
    vfork_of: Option<ThreadId>,
    /// Threads of it end because it executes; the kernel has marked their locks when the new image is there.
    ended_threads: bool,
    timers: time::ProcessTimers,
    cpu: u64,
    /// When it was made.
    began: Instant,
    name: String,
}

/// A node's processes.
#[derive(Debug)]
pub struct Tree {
    arena: Arc<Arena>,
    init: Init,
    config: Config,
    clock: Instant,
    threads: BTreeMap<ThreadId, Thread>,
    processes: BTreeMap<ProcessId, Process>,
    queue: VecDeque<ThreadId>,
    timers: time::Timers,
    cpu_timers: cpu_time::CpuTimers,
    objects: BTreeMap<u64, Object>,
    by_socket: BTreeMap<SocketId, u64>,
    futexes: BTreeMap<futex::Key, VecDeque<futex::Waiter>>,
    /// Who has a lock for which somebody waits (PI), by the number of the thread.
    lock_owners: BTreeMap<futex::Key, u32>,
    changed: BTreeSet<SocketId>,
    /// Threads that wait for a signal which has come.
    signal_waits: Vec<ThreadId>,
    /// Processes with a child that has changed.
    child_changes: Vec<ProcessId>,
    /// Timers and signalfds that have changed.
    changed_objects: BTreeSet<u64>,
    /// Some descriptor may have been closed for good.
    closing: bool,
    waits: u64,
    activity: u64,
    calls: Calls,
    rng: Rng,
    exits: Vec<Exit>,
    /// Of so many of them [`Outside::ended`] has been told.
    ends_told: usize,
    round_trips: u64,
    shows: ahead::Shows,
    /// The trace that was last told.
    told: u64,
    /// Programs that had to be interrupted: the run is not reproducible.
    preempted: Vec<String>,
    /// What else makes the run not reproducible.
    doubts: Vec<String>,
    /// The number that a process or thread was given last.
    last_pid: u32,
    /// In real time.
    real: Option<real::Real>,
    /// By the number of the program.
    usage: BTreeMap<u32, Usage>,
    /// `Header::calls` at the end of the last turn.
    counted: u64,
    /// The first program, on its way to its first post.
    early: Option<early::Early>,
}

impl Tree {
    /// Starts process 1 of a node.
    ///
    /// # Errors
    /// [`StartError::Step`]: mostly that user namespaces are forbidden.
    pub fn new(config: Config) -> Result<Tree, StartError> {
        let (arena, memory) = Arena::new()?;
        let header = arena.header();
        header.epoch.store(config.epoch_ns, Relaxed);
        // Small, never zero, and not the epoch: loops that add fractions of seconds to a huge number stand still.
        header.boot.store(1_000_000_000, Relaxed);
        header.memory.store(config.limits.memory.unwrap_or(MEMORY_BYTES), Relaxed);
        header.per_call.store(config.per_call.as_nanos() as u64, Relaxed);
        header.slice.store(config.slice.as_nanos() as u64, Relaxed);
        let init = Init::start(&arena, &memory, &config)?;
        let failed = arena.header().init_failed.load(Relaxed);
        if failed & abi::INIT_VSYSCALL != 0 {
            let errno = Errno(arena.header().init_errno.load(Relaxed) as i32);
            return Err(StartError::Step { step: "prepare process 1 of a node", errno });
        }
        if failed != 0 {
            tracing::warn!(node = %config.name, "a node's programs see the host's /proc or name: the kernel refused a mount or sethostname");
        }
        Ok(Tree::with(arena, init, config))
    }

    fn with(arena: Arena, init: Init, config: Config) -> Tree {
        let rng = Rng::for_name(config.seed, &format!("programs/{}", config.name));
        Tree {
            arena: Arc::new(arena),
            init,
            config,
            clock: Instant::ZERO,
            threads: BTreeMap::new(),
            processes: BTreeMap::new(),
            queue: VecDeque::new(),
            timers: time::Timers::default(),
            cpu_timers: cpu_time::CpuTimers::default(),
            objects: BTreeMap::new(),
            by_socket: BTreeMap::new(),
            futexes: BTreeMap::new(),
            lock_owners: BTreeMap::new(),
            changed: BTreeSet::new(),
            signal_waits: Vec::new(),
            child_changes: Vec::new(),
            changed_objects: BTreeSet::new(),
            closing: false,
            waits: 0,
            activity: 0,
            calls: Calls::default(),
            rng,
            exits: Vec::new(),
            ends_told: 0,
            round_trips: 0,
            shows: ahead::Shows::default(),
            told: 0,
            preempted: Vec::new(),
            doubts: Vec::new(),
            last_pid: 1,
            real: None,
            usage: BTreeMap::new(),
            counted: 0,
            early: None,
        }
    }

    /// Processes that have ended since the last call, in order.
    pub fn take_exits(&mut self) -> Vec<Exit> {
        self.ends_told = 0;
        std::mem::take(&mut self.exits)
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
        self.usage.get(&program).copied().unwrap_or_default()
    }
    /// How many of them came to the controller.
    pub fn round_trips(&self) -> u64 {
        self.round_trips
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
        &self.preempted
    }
    /// What else makes the run not reproducible: limits of the host that were met, processes that were killed from outside, programs that were told
    /// something wrong.
    pub fn doubts(&self) -> &[String] {
        &self.doubts
    }
    /// Is any process left?
    pub fn is_empty(&self) -> bool {
        self.processes.values().all(|process| process.status.is_some())
    }
    /// Kills the whole node, and waits for nothing: the last that is done with it.
    pub fn give_up(&mut self) {
        self.init.kill();
    }
    /// What programs have written, for the node's next life. None: it was not to be kept, or has been taken.
    pub fn take_disk(&mut self) -> Option<Disk> {
        self.init.take_disk(&self.arena)
    }
    /// Sends a signal to a process from outside; false: there is none.
    pub fn signal(&mut self, pid: u32, signal: i32) -> bool {
        let Some(process) = self.process_by_pid(pid) else { return false };
        self.signal_process(process, signal, signal::info_from_kernel(signal));
        true
    }
    /// Who waits for what, for people; with the program (the number that [`Tree::spawn`] returned) that each belongs to.
    pub fn waiting(&self) -> Vec<(u32, String)> {
        let line = |thread: &Thread| {
            let process = self.processes.get(&thread.process)?;
            let who = if thread.tid == process.pid {
                format!("process {}", process.pid)
            } else {
                format!("process {}, thread {}", process.pid, thread.tid)
            };
            Some((process.program, format!("{} ({who}) {}", process.name, describe(&thread.state))))
        };
        self.threads.values().filter_map(line).collect()
    }

    /// Sends a signal from outside to a program that [`Tree::spawn`] has started, and to all that it has started.
    pub fn signal_all(&mut self, program: u32, signal: i32) {
        let all: Vec<ProcessId> = self
            .processes
            .iter()
            .filter(|(_, process)| process.program == program && process.status.is_none())
            .map(|(id, _)| *id)
            .collect();
        for process in all {
            self.signal_process(process, signal, signal::info_from_kernel(signal));
        }
    }

    /// Something outside of the node may have made a descriptor of a program's readable or writable: who waits for one looks again.
    pub fn poke(&mut self) {
        self.arena.header().activity.fetch_add(1, Relaxed);
    }

    fn process_by_pid(&self, pid: u32) -> Option<ProcessId> {
        self.processes.iter().find(|(_, process)| process.pid == pid && process.status.is_none()).map(|(id, _)| *id)
    }
    fn grow_waits(&mut self) -> u64 {
        self.waits += 1;
        self.waits
    }
}

fn describe(state: &State) -> String {
    match state {
        State::Starting | State::Runnable => "is running".to_owned(),
        State::Stopped(_) => "is stopped".to_owned(),
        State::Waiting(wait) => {
            let mut what = Vec::new();
            let reasons = [
                (!wait.sockets.is_empty() || !wait.objects.is_empty(), "sockets"),
                (wait.native, "a pipe, terminal or lock"),
                (wait.children, "a child"),
                (!wait.futexes.is_empty(), "another thread (futex)"),
                (wait.vfork.is_some(), "its vfork child"),
                (wait.signals != 0, "a signal"),
                (wait.deadline.is_some(), "time"),
                (wait.cpu.is_some(), "CPU time"),
            ];
            what.extend(reasons.into_iter().filter(|(is, _)| *is).map(|(_, text)| text));
            if what.is_empty() { "waits for a signal".to_owned() } else { format!("waits for {}", what.join(" or ")) }
        }
    }
}
