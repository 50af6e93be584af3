//! What is known of a node's processes and threads, and what they wait for.

use super::cpu_timers::{CpuClock, Key as CpuKey};
use super::futexes::Key as FutexKey;
use super::ids::{ProcessId, ThreadId};
use super::outside::Status;
use super::own_files::OwnFiles;
use super::pending::PendingSignals;
use super::timers::{Deadline, ProcessTimers};
use smallvec::SmallVec;
use std::os::fd::OwnedFd;
use weft_core::Instant;
use weft_intercept::face::SocketId;

/// What a thread does.
#[derive(Debug)]
pub(super) enum State {
    /// Its first post has not been seen.
    Starting,
    /// In the queue, or having its turn.
    Runnable,
    /// Until something happens.
    Waiting(Wait),
    /// Its process is stopped; what it did before.
    Stopped(Box<State>),
}

impl State {
    /// Does it wait, stopped or not?
    pub fn waits(&self) -> bool {
        match self {
            State::Stopped(inner) => inner.waits(),
            state => matches!(state, State::Waiting(_)),
        }
    }

    /// For people.
    pub fn describe(&self) -> String {
        match self {
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
}

/// What a thread waits for.
#[derive(Debug, Default)]
pub(super) struct Wait {
    /// Order among those that wait.
    pub since: u64,
    /// Sockets whose change is a reason to look again.
    pub sockets: Vec<SocketId>,
    /// Epolls, timers and signalfds, by inode.
    pub objects: Vec<u64>,
    /// The last of these has no room for what the thread sends. It is another one's, and may be closed meanwhile.
    pub for_room: bool,
    /// Descriptors of the kernel's are among what it waits for.
    pub native: bool,
    /// A child's change.
    pub children: bool,
    /// Pending signals, for rt_sigtimedwait and signalfd.
    pub signals: u64,
    /// Futexes: mostly one.
    pub futexes: SmallVec<[FutexKey; 1]>,
    /// A value of a CPU clock.
    pub cpu: Option<CpuKey>,
    /// The child of vfork.
    pub vfork: Option<ProcessId>,
    /// When it ends anyway.
    pub deadline: Option<Deadline>,
    /// The timer for that: the second half of its key, whose first is the deadline's.
    pub timer: Option<u64>,
    /// Signals do not interrupt it.
    pub uninterruptible: bool,
    /// What a signal makes of it: [`RESTART`](weft_loader::abi::RESTART), [`RESTART_NO_HANDLER`](weft_loader::abi::RESTART_NO_HANDLER) or -EINTR.
    pub interrupted: i64,
}

impl Wait {
    /// The objects that the call keeps open.
    pub fn kept_open(&self) -> &[u64] {
        let others = usize::from(self.for_room);
        self.objects.get(..self.objects.len().saturating_sub(others)).unwrap_or_default()
    }

    /// Where it waits for room.
    pub fn room_at(&self) -> Option<u64> {
        self.objects.last().copied().filter(|_| self.for_room)
    }

    /// It has been taken out of the queue of this word.
    pub fn no_longer_at(&mut self, key: FutexKey) {
        if let Some(place) = self.futexes.iter().position(|one| *one == key) {
            self.futexes.remove(place);
        }
    }
}

/// A thread.
#[derive(Debug)]
pub(super) struct Thread {
    pub process: ProcessId,
    pub tid: u32,
    pub state: State,
    pub queue: PendingSignals,
    /// Deadline of the call that it is in, kept while the call is tried again.
    pub deadline: Option<Deadline>,
    /// The deadline has passed.
    pub expired: bool,
    /// It has waited in this call already.
    pub held: bool,
    /// When this call began to wait for the first time, by CLOCK_MONOTONIC in nanoseconds.
    pub began: Option<u64>,
    /// Another thread has dissolved the connection meanwhile (`sk_disconnects`).
    pub dissolved: bool,
    /// So often it was interrupted since its last call.
    pub spins: u32,
    /// Messages that this call has done already, if it has several.
    pub messages: u64,
    /// Bytes that it has moved already, behind those.
    pub moved: u64,
    /// CPU time in nanoseconds.
    pub cpu: u64,
    /// Until which value of which CPU clock this call sleeps.
    pub cpu_until: Option<(CpuClock, u64)>,
    /// It was interrupted without having made a call, and rests since then.
    pub rests: Option<Instant>,
    /// The descriptor that its call returns, until it is let go.
    pub handed: Option<OwnedFd>,
}

impl Thread {
    /// One that has made no call.
    pub fn new(process: ProcessId, tid: u32, state: State) -> Thread {
        Thread {
            process,
            tid,
            state,
            queue: PendingSignals::default(),
            deadline: None,
            expired: false,
            held: false,
            began: None,
            dissolved: false,
            spins: 0,
            messages: 0,
            moved: 0,
            cpu: 0,
            cpu_until: None,
            rests: None,
            handed: None,
        }
    }

    /// What a call begins with.
    pub fn begin_call(&mut self) {
        self.deadline = None;
        self.expired = false;
        self.held = false;
        self.began = None;
        self.dissolved = false;
        self.messages = 0;
        self.moved = 0;
        self.cpu_until = None;
    }
}

/// A process.
#[derive(Debug)]
pub(super) struct Process {
    pub pid: u32,
    /// The process that was started from outside and that this one descends from.
    pub program: u32,
    pub parent: Option<ProcessId>,
    pub group: u32,
    pub session: u32,
    /// Its number outside, to read its memory.
    pub outer: u32,
    pub pidfd: Option<OwnedFd>,
    pub threads: Vec<ThreadId>,
    pub queue: PendingSignals,
    pub status: Option<Status>,
    /// Stopped by this signal, and whether the parent has been told; then continued.
    pub stopped: Option<(i32, bool)>,
    pub continued: bool,
    /// Signal to the parent at the end.
    pub exit_signal: i32,
    /// Signal to this process when its parent ends; 0: none.
    pub death_signal: i32,
    /// The thread that waits until this process executes or ends.
    pub vfork_of: Option<ThreadId>,
    /// Locks at each of which one is woken when threads of it have ended, which were asked before. None: they could not be.
    pub locks: Option<Vec<FutexKey>>,
    /// Threads of it end because it executes; the kernel has marked their locks when the new image is there.
    pub ended_threads: bool,
    pub timers: ProcessTimers,
    pub cpu: u64,
    /// What CLOCK_BOOTTIME showed when it was made, in nanoseconds.
    pub began_up_ns: u64,
    pub name: String,
    pub own_files: OwnFiles,
}

impl Process {
    /// One without threads and relatives. `pid` is its number in the node, `outer` that outside; 0: not known yet.
    pub fn new(pid: u32, outer: u32, began_up_ns: u64) -> Process {
        Process {
            pid,
            program: 0,
            parent: None,
            group: 0,
            session: 0,
            outer,
            pidfd: None,
            threads: Vec::new(),
            queue: PendingSignals::default(),
            status: None,
            stopped: None,
            continued: false,
            exit_signal: 0,
            death_signal: 0,
            vfork_of: None,
            ended_threads: false,
            locks: None,
            timers: ProcessTimers::default(),
            cpu: 0,
            began_up_ns,
            name: String::new(),
            own_files: OwnFiles::default(),
        }
    }
}

/// A program on its way to its first post.
#[derive(Clone, Copy, Debug)]
pub(super) struct Early {
    pub thread: ThreadId,
    /// When it starts.
    pub began: Instant,
    pub until: Instant,
    /// When it posts; none: nobody has waited for that yet.
    pub posts: Option<Instant>,
    /// It may run on all processors.
    pub roams: bool,
}
