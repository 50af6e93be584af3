//! The scheduler: one thread at a time, first come, first served.

use super::caller::Posted;
use super::config::Spawn;
use super::error::StartError;
use super::ids::ThreadId;
use super::outcome::Outcome;
use super::outside::{Next, Outside, Record};
use super::state::{State, Thread, Wait};
use super::timers::Deadline;
use super::tree::Tree;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use weft_core::Instant;
use weft_intercept::face::SocketId;
use weft_intercept::sys::Errno;
use weft_loader::abi::{self, Clock};

/// How long the controller sleeps before it looks whether the program that it waits for is still alive.
const LOOK_AFTER: Duration = Duration::from_millis(200);
/// Patience with a thread that had to be interrupted and has made no call since.
const PATIENCE_THEN: Duration = Duration::from_millis(20);
/// So long such a thread rests before it goes on: at first, and at most, when it does nothing else again and again.
const REST_FIRST: Duration = Duration::from_millis(1);
const REST_DOUBLINGS_MAX: u32 = 7;

/// Patience with a thread when the world is to end.
const PATIENCE_AT_THE_END: Duration = Duration::from_millis(2);
/// A thread that does not come back so long after that, though it was called, is stuck in the kernel: its process is killed.
const STUCK_AT_THE_END: Duration = Duration::from_secs(3);
/// The same while the world goes on, in times of [`super::Config::patience`].
const STUCK_PATIENCES: u32 = 6;

/// How a thread's turn ended.
enum TurnEnd {
    /// It waits, has ended, or has been put at the end of the queue.
    Over,
    /// Its call was answered: it goes on.
    GoesOn,
}

impl Tree {
    /// Starts a program; returns its number. It runs with the next [`Tree::run`].
    ///
    /// # Errors
    /// See [`StartError`]; no process is left behind.
    pub fn spawn(&mut self, at: Instant, spec: &Spawn) -> Result<u32, StartError> {
        self.clock = self.clock.max(at);
        self.arena.header().now.store(self.clock.as_nanos(), Relaxed);
        let (process, thread) = self.new_process(None).ok_or(StartError::Full)?;
        let result = self.init.spawn(&self.arena, spec, thread).and_then(|()| self.follow_spawn(process, thread, spec));
        if result.is_err() {
            self.tasks.threads.remove(&thread);
            self.tasks.processes.remove(&process);
        }
        result
    }

    fn follow_spawn(&mut self, process: usize, thread: usize, spec: &Spawn) -> Result<u32, StartError> {
        let gone = |errno| StartError::Step { step: "start a program", errno };
        let outer = self.init.announced(Duration::from_secs(30)).map_err(gone)?.0;
        self.meet(process, outer);
        let name = spec.arguments.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        loop {
            if !self.wait_for_post(thread) {
                return Err(gone(Errno(libc::ESRCH)));
            }
            let posted = Posted::read(self.arena.channel(thread));
            match posted.number {
                abi::HELLO => {
                    self.introduce(process, thread, &posted);
                    self.last_pid = posted.arguments[1] as u32;
                    if let Some(process) = self.tasks.processes.get_mut(&process) {
                        process.program = process.pid;
                        process.group = process.pid;
                        process.session = process.pid;
                        process.name = name.rsplit('/').next().unwrap_or_default().to_owned();
                    }
                    if let Some(attach) = &spec.attach {
                        // Whom it starts is to have a clock.
                        let held = self.held(process, outer);
                        super::processor::with_all(|| (attach.0)(&held));
                    }
                    self.answer(thread, 0);
                    self.make_runnable(thread);
                    return Ok(posted.arguments[0] as u32);
                }
                abi::EXEC_FAILED if posted.arguments[1] == 1 => {
                    self.answer(thread, 0);
                    self.arena.release(thread);
                    self.wait_for_death(process);
                    return Err(StartError::Execute { program: name, errno: Errno(posted.arguments[0] as i32) });
                }
                _ => {
                    self.answer(thread, 0);
                    self.arena.release(thread);
                }
            }
        }
    }

    fn held(&self, process: usize, outer: u32) -> super::config::Held {
        let mut path = [0; abi::PATH_BYTES];
        self.arena.process(process).executable.get(0, &mut path);
        let path = path.split(|byte| *byte == 0).next().unwrap_or_default();
        let executable = std::path::PathBuf::from(std::ffi::OsStr::from_bytes(path));
        super::config::Held { pid: outer, executable, base: abi::PROGRAM_ADDRESS as u64 }
    }

    /// Sockets of this node have changed.
    pub fn sockets_changed(&mut self, changed: &[SocketId]) {
        self.changed.extend(changed);
    }

    /// Runs whoever is runnable from `now` on, until the grant at most.
    pub fn run(&mut self, now: Instant, outside: &mut dyn Outside) -> Next {
        self.clock = self.clock.max(now);
        super::processor::without_clock();
        loop {
            let grant = outside.grant();
            if self.clock >= grant {
                break;
            }
            outside.advance(self.clock);
            self.changed.extend(outside.take_changed());
            self.wake_for_sockets(outside);
            self.take_alerts(outside);
            self.fire_timers(outside);
            self.settle(outside);
            self.probe_native();
            let Some(thread) = self.tasks.queue.pop_front() else {
                match self.timers.next() {
                    Some(at) if at < grant && at <= outside.next_event() => {
                        self.clock = self.clock.max(at);
                        continue;
                    }
                    _ => break,
                }
            };
            if self.posts_later(thread, outside).is_some() {
                self.tasks.queue.push_front(thread);
                break;
            }
            self.turn(thread, outside);
            self.ledger.tell_ends(outside);
        }
        self.ledger.tell_ends(outside);
        let posts = self.early.and_then(|early| early.posts);
        let at = match (self.tasks.queue.is_empty(), self.timers.next()) {
            (false, _) => posts.map_or(self.clock, |posts| posts.max(self.clock)),
            (true, Some(at)) => at.max(self.clock),
            (true, None) => Instant::FAR_FUTURE,
        };
        Next { at, ended: self.is_empty() }
    }

    /// The world ends: what programs have done since their last call that was told goes into the hash.
    pub fn finish(&mut self, outside: &mut dyn Outside) {
        self.report(outside);
    }

    /// What calls have left to be done for others: signals that a call takes, children that somebody waits for.
    pub(super) fn settle(&mut self, outside: &mut dyn Outside) {
        self.ledger.tell_ends(outside);
        self.drop_closed(outside);
        while !self.signal_waits.is_empty() || !self.child_changes.is_empty() || self.objects.has_changes() {
            self.finish_signal_waits(outside);
            self.finish_child_waits(outside);
            self.finish_object_changes(outside);
        }
    }

    /// What was answered inside programs goes into the world's hash as one number, before every call that is told.
    pub(super) fn report(&mut self, outside: &mut dyn Outside) {
        if self.is_before_its_time() {
            return;
        }
        let (program, process, thread) = (0, 0, 0);
        let trace = self.shows.trace.unwrap_or_else(|| self.trace());
        if trace == self.ledger.told {
            return;
        }
        self.ledger.told = trace;
        let result = trace as i64;
        outside.record(&Record {
            at: self.clock,
            program,
            process,
            thread,
            number: super::outside::INSIDE,
            arguments: [0; 3],
            result,
            output: &[],
        });
    }

    /// One thread runs until it waits, ends, or has had its share.
    fn turn(&mut self, thread: ThreadId, outside: &mut dyn Outside) {
        let mut share_ends = self.clock + self.config.slice;
        loop {
            if !matches!(self.tasks.threads.get(&thread), Some(Thread { state: State::Runnable, .. })) {
                return;
            }
            self.charge_rest(thread, outside);
            if self.early.is_none() {
                self.attach_signal(thread);
            }
            if !matches!(self.tasks.threads.get(&thread), Some(Thread { state: State::Runnable, .. })) {
                // A signal has stopped it.
                return;
            }
            let Some(began) = self.next_post(thread, share_ends, outside) else { return outside.forget_foreseen() };
            let (waited, went_on) = self.make_good(thread, outside);
            // Who has waited begins a share, by itself as well.
            share_ends = went_on.map_or(share_ends, |at| at + self.config.slice);
            self.take_time(thread, began + waited);
            outside.advance(self.clock.min(outside.grant()));
            // Epolls have to hear what came before the call is answered.
            self.changed.extend(outside.take_changed());
            self.wake_for_sockets(outside);
            self.fire_cpu(thread, outside);
            let process = self.tasks.process_of(thread).ok();
            let over = matches!(self.handle(thread, outside), TurnEnd::Over);
            self.changed.extend(outside.take_changed());
            self.wake_for_sockets(outside);
            if let Some(process) = process
                && self.arena.process(process).limits[libc::RLIMIT_CPU as usize].iter().any(|word| word.load(Relaxed) != u64::MAX)
            {
                self.limit_cpu(process);
            }
            self.settle(outside);
            if over {
                return;
            }
            if self.clock >= share_ends || self.clock >= outside.grant() {
                self.tasks.queue.push_back(thread);
                return;
            }
        }
    }

    /// Lets a thread run until it posts a call. When it began; none: it is no more.
    fn next_post(&mut self, thread: ThreadId, share_ends: Instant, outside: &mut dyn Outside) -> Option<Instant> {
        if let Some(early) = self.early.take_if(|early| early.thread == thread) {
            let posts = early.posts.unwrap_or(early.began);
            self.arena.header().now.store(posts.as_nanos(), Relaxed);
            return Some(early.began);
        }
        let due = self.cpu_left(thread).map(|left| self.clock + left);
        let due = self.timers.next().into_iter().chain(due).min().unwrap_or(Instant::FAR_FUTURE);
        let limit = share_ends.min(due).min(outside.grant());
        let ahead = self.look_ahead(thread, limit, due, outside);
        let dying = self.arena.channel(thread).answer.load(Relaxed) == abi::DIE;
        let began = self.clock;
        if dying && let Some(process) = self.tasks.threads.get(&thread).map(|one| one.process) {
            self.look_at_locks(process);
        }
        self.let_go(thread, limit, ahead);
        if dying {
            self.died_of_signal(thread);
            return None;
        }
        if !self.wait_for_call(thread, outside) {
            self.vanished(thread);
            return None;
        }
        Some(began)
    }

    /// The program's clock is the node's. It may not go back, nor leap.
    fn take_time(&mut self, thread: ThreadId, began: Instant) {
        let said = Instant::from_nanos(self.arena.header().now.load(Relaxed));
        let limit = Instant::from_nanos(self.arena.header().grant.load(Relaxed)).min(self.shows.limit) + self.config.per_call;
        self.clock = said.clamp(self.clock, limit.max(self.clock));
        let used = self.clock.since(began).as_nanos() as u64;
        self.add_cpu(thread, used);
        if let Some(process) = self.tasks.threads.get(&thread).and_then(|one| self.tasks.processes.get(&one.process)) {
            let calls = self.arena.header().calls.load(Relaxed);
            self.ledger.count_calls(process.program, calls);
        }
    }

    /// [`Tree::wait_for_post`], but calls that are only told do not count: nothing happens at them, so that who tells and who does not are alike.
    pub(super) fn wait_for_call(&mut self, thread: ThreadId, outside: &mut dyn Outside) -> bool {
        while self.wait_for_post(thread) {
            let posted = Posted::read(self.arena.channel(thread));
            if !matches!(posted.number, abi::TELL | abi::GREW) {
                return true;
            }
            if posted.number == abi::GREW {
                outside.output_grew();
                self.answer(thread, 0);
                self.arena.release(thread);
                continue;
            }
            let [number, a, b, c, result, d] = posted.arguments;
            if self.config.tell_calls {
                self.called(thread, number, [a, b, c, d, posted.descriptor], Some(result as i64), outside);
            }
            if self.config.tell_writes && matches!(number as i64, libc::SYS_write | libc::SYS_writev) {
                self.wrote(thread, outside);
            }
            self.answer(thread, 0);
            self.arena.release(thread);
        }
        false
    }

    /// Waits for a thread's next post. False: its process is gone.
    pub(super) fn wait_for_post(&mut self, thread: ThreadId) -> bool {
        let mut waited = Duration::ZERO;
        let (mut stuck, mut ending) = (Duration::ZERO, Duration::ZERO);
        let mut killed = false;
        // Who did so a moment ago goes on doing it.
        let spins = self.tasks.threads.get(&thread).is_some_and(|one| one.spins > 0);
        let patience = if spins { self.config.patience.min(PATIENCE_THEN) } else { self.config.patience };
        let clock = |tree: &Tree| tree.arena.header().now.load(Relaxed);
        let mut seen = clock(self);
        // Looked up when it has not posted for a while.
        let (mut worked, mut had) = (None, Duration::ZERO);
        loop {
            let interrupted = self.is_interrupted() && self.runs_a_program(thread);
            let look_after = if interrupted { PATIENCE_AT_THE_END } else { LOOK_AFTER.min(patience) };
            if self.arena.wait_posted(thread, look_after) {
                return true;
            }
            if self.is_dead(thread) {
                return self.arena.has_posted(thread);
            }
            if self.is_interrupted() {
                ending += look_after;
            }
            stuck += look_after;
            if !killed && (ending >= STUCK_AT_THE_END || stuck >= self.config.patience.saturating_mul(STUCK_PATIENCES)) {
                killed = true;
                self.end_stuck(thread);
            }
            if interrupted {
                self.call_back(thread);
                continue;
            }
            // Calls that it answers by itself move the clock on: it is only slow.
            let now = clock(self);
            if std::mem::replace(&mut seen, now) != now {
                (waited, stuck, worked, had) = (Duration::ZERO, Duration::ZERO, None, Duration::ZERO);
                continue;
            }
            // A futex wait may end early; this only makes patience a little shorter than it says.
            waited += look_after;
            if worked.is_none() && !spins {
                worked = self.processor_time(thread);
            }
            if waited >= patience {
                // On a machine that is busy with other things it has had the processor for a part of that time only.
                let now = self.processor_time(thread);
                let more = worked.and_then(|before| now?.checked_sub(before)).unwrap_or_default();
                had += more;
                if !more.is_zero() && had < patience / 2 {
                    (waited, stuck, worked) = (patience * 3 / 4, Duration::ZERO, now);
                    continue;
                }
                (waited, worked, had) = (Duration::ZERO, None, Duration::ZERO);
                self.preempt(thread);
            }
        }
    }

    /// What a thread's process has had of the processor; one thread of a node runs at a time.
    fn processor_time(&self, thread: ThreadId) -> Option<Duration> {
        let process = self.tasks.threads.get(&thread).and_then(|thread| self.tasks.processes.get(&thread.process))?;
        weft_intercept::sys::process_time(i32::try_from(process.outer).ok()?)
    }

    fn is_dead(&self, thread: ThreadId) -> bool {
        let process = self.tasks.threads.get(&thread).and_then(|thread| self.tasks.processes.get(&thread.process));
        let pidfd = process.and_then(|process| process.pidfd.as_ref());
        pidfd.is_some_and(|pidfd| weft_intercept::sys::poll_now(pidfd.as_fd(), libc::POLLIN) & libc::POLLIN != 0)
    }

    /// Interrupts a thread that runs without a call.
    fn preempt(&mut self, thread: ThreadId) {
        let Some(process) = self.tasks.threads.get(&thread).and_then(|thread| self.tasks.processes.get(&thread.process)) else { return };
        let name = format!("{} (process {})", process.name, process.pid);
        self.call_back(thread);
        if !self.ledger.is_preempted(&name) {
            tracing::warn!(node = %self.config.name, "{name} ran {:?} without a call and was interrupted: this run is not reproducible", self.config.patience);
            self.ledger.add_preempted(name);
        }
    }

    /// Ends a process whose thread waits in the kernel, where nothing but SIGKILL reaches it: in a call that blocks, or stopped from outside.
    fn end_stuck(&mut self, thread: ThreadId) {
        let Some(process) = self.tasks.threads.get(&thread).and_then(|thread| self.tasks.processes.get(&thread.process)) else { return };
        let what = format!("{} (process {}) is stuck in the kernel and was killed", process.name, process.pid);
        if let Some(pidfd) = process.pidfd.as_ref() {
            let _ = weft_intercept::sys::pidfd_signal(pidfd.as_fd(), libc::SIGKILL);
        }
        self.doubt(what);
    }

    /// Something has happened that makes this run not reproducible.
    pub(super) fn doubt(&mut self, what: String) {
        if !self.ledger.has_doubt(&what) {
            tracing::warn!(node = %self.config.name, "{what}: this run is not reproducible");
            self.ledger.add_doubt(what);
        }
    }

    /// A call met a limit that all nodes share; `which`: an index into [`abi::HOST_LIMITS`].
    pub(super) fn host_limit(&mut self, which: u64) {
        let (call, limit) = abi::HOST_LIMITS.get(which as usize).copied().unwrap_or(("a call", "a limit"));
        self.doubt(format!("{call} met a limit of the host that all nodes share, {limit}: raise it, or run fewer nodes at a time"));
    }

    /// A thread that had to be interrupted waits for something that happens later, perhaps. It rests, so that time goes on however short the
    /// grants are.
    pub(super) fn rest(&mut self, thread: ThreadId) -> Outcome {
        let left = self.cpu_left(thread);
        match self.tasks.threads.get_mut(&thread).filter(|one| !one.expired) {
            Some(one) => {
                one.rests = Some(self.clock);
                let pause = REST_FIRST * (1 << one.spins.saturating_sub(1).min(REST_DOUBLINGS_MAX));
                let pause = left.map_or(pause, |left| left.min(pause));
                let deadline = Deadline { at: self.clock + pause, by: None };
                Outcome::Wait(Wait { deadline: Some(deadline), ..Wait::default() })
            }
            None => Outcome::Done(0),
        }
    }

    /// The world is to end.
    fn is_interrupted(&self) -> bool {
        self.config.interrupt.as_ref().is_some_and(|flag| flag.load(Relaxed))
    }

    /// Not the loader, which is putting a new image in a program's place.
    fn runs_a_program(&self, thread: ThreadId) -> bool {
        let runnable = matches!(self.tasks.threads.get(&thread), Some(Thread { state: State::Runnable, .. }));
        runnable && self.arena.channel(thread).number.load(Relaxed) != abi::EXEC
    }

    /// Lets a thread that runs post [`abi::PREEMPTED`].
    fn call_back(&self, thread: ThreadId) {
        let process = self.tasks.threads.get(&thread).and_then(|thread| self.tasks.processes.get(&thread.process));
        if let Some(pidfd) = process.and_then(|process| process.pidfd.as_ref()) {
            // Every other thread sleeps in a handler that blocks it.
            let _ = weft_intercept::sys::pidfd_signal(pidfd.as_fd(), libc::SIGSYS);
        }
    }

    fn handle(&mut self, thread: ThreadId, outside: &mut dyn Outside) -> TurnEnd {
        let posted = Posted::read(self.arena.channel(thread));
        if let Some(thread) = self.tasks.threads.get_mut(&thread) {
            // A poll set that is posted again belongs to the same call.
            let again = matches!(posted.number, abi::POLL) && posted.arguments[3] == 0
                || posted.number == libc::SYS_epoll_wait as u64 && posted.arguments[4] == 0;
            thread.spins = if posted.number == abi::PREEMPTED { thread.spins.saturating_add(1) } else { 0 };
            if !again {
                thread.begin_call();
            }
        }
        if matches!(posted.number, abi::FATAL) || matches!(posted.number as i64, libc::SYS_exit | libc::SYS_exit_group) {
            self.report(outside);
        }
        match posted.number {
            // It has no turn any more: it is still running when the world ends.
            abi::PREEMPTED if self.is_interrupted() => return TurnEnd::Over,
            // Only its own CPU clock has come to something: its turn goes on.
            abi::YIELD if posted.arguments[0] == 0 && self.timers.next().is_none_or(|at| at > self.clock) => {
                self.answer(thread, 0);
                return TurnEnd::GoesOn;
            }
            abi::YIELD => {
                self.answer(thread, 0);
                if posted.arguments[0] == abi::YIELD_TO_WAITERS {
                    let others = std::mem::take(&mut self.tasks.queue);
                    self.arena.header().queue_waits.store(0, Relaxed);
                    self.probe_native();
                    self.tasks.queue.extend(others);
                }
                self.tasks.queue.push_back(thread);
                return TurnEnd::Over;
            }
            _ => self.attempt(thread, &posted, outside),
        }
        match self.tasks.threads.get(&thread).map(|thread| &thread.state) {
            Some(State::Runnable) => TurnEnd::GoesOn,
            _ => TurnEnd::Over,
        }
    }

    /// The call of a waiting thread is tried again; it becomes runnable when it is answered.
    pub(super) fn attempt_again(&mut self, thread: ThreadId, outside: &mut dyn Outside) {
        if !matches!(self.tasks.threads.get(&thread), Some(Thread { state: State::Waiting(_), .. })) {
            return;
        }
        let posted = Posted::read(self.arena.channel(thread));
        self.leave_wait(thread);
        if let Some(one) = self.tasks.threads.get_mut(&thread) {
            one.held = true;
            one.state = State::Runnable;
        }
        self.attempt(thread, &posted, outside);
        if matches!(self.tasks.threads.get(&thread), Some(Thread { state: State::Runnable, .. })) {
            self.tasks.queue.push_back(thread);
        }
    }

    /// Takes a thread out of its wait with an answer that is in its channel.
    pub(super) fn make_runnable(&mut self, thread: ThreadId) {
        self.leave_wait(thread);
        let Some(one) = self.tasks.threads.get_mut(&thread) else { return };
        match &mut one.state {
            State::Runnable => {}
            State::Stopped(inner) => **inner = State::Runnable,
            state => {
                *state = State::Runnable;
                self.tasks.queue.push_back(thread);
            }
        }
    }

    /// Lets a thread wait. `wait.deadline` counts from the first time this call waited.
    pub(super) fn park(&mut self, thread: ThreadId, mut wait: Wait) {
        wait.since = self.tasks.grow_waits();
        let now = self.shows(Clock::Monotonic);
        let Some(one) = self.tasks.threads.get_mut(&thread) else { return };
        wait.deadline = match one.deadline {
            Some(deadline) => Some(deadline),
            None => wait.deadline,
        };
        one.deadline = wait.deadline;
        one.began.get_or_insert(now);
        if let Some(deadline) = wait.deadline {
            wait.timer = Some(self.timers.add(deadline, super::timers::Due::Thread { thread, since: wait.since }).1);
        }
        if wait.interrupted == 0 {
            wait.interrupted = abi::RESTART;
        }
        one.state = State::Waiting(wait);
        self.interrupt_if_signalled(thread);
    }

    /// How long a thread's call has waited so far.
    pub(super) fn waited(&self, thread: ThreadId) -> Duration {
        self.tasks
            .threads
            .get(&thread)
            .and_then(|one| one.began)
            .map_or(Duration::ZERO, |began| Duration::from_nanos(self.shows(Clock::Monotonic).saturating_sub(began)))
    }

    /// Takes back what a wait has left elsewhere.
    pub(super) fn leave_wait(&mut self, thread: ThreadId) {
        let Some(one) = self.tasks.threads.get_mut(&thread) else { return };
        let state = match &mut one.state {
            State::Stopped(inner) => inner.as_mut(),
            state => state,
        };
        let State::Waiting(wait) = state else { return };
        self.objects.wait_is_over();
        let timer = wait.timer.take().zip(wait.deadline).map(|(sequence, deadline)| (deadline.at, sequence));
        let (futexes, cpu) = (std::mem::take(&mut wait.futexes), wait.cpu.take());
        if let Some(timer) = timer {
            self.timers.remove(timer);
        }
        if let Some(key) = cpu {
            self.cpu_timers.remove(key);
        }
        for key in futexes {
            self.leave_futex(thread, key);
        }
    }

    /// Threads whose sockets have changed look again, in the order in which they began to wait.
    pub(super) fn wake_for_sockets(&mut self, outside: &mut dyn Outside) {
        while !self.changed.is_empty() {
            let changed = std::mem::take(&mut self.changed);
            let mut objects = std::collections::BTreeSet::new();
            for socket in &changed {
                self.shows.changed(*socket);
                let Some(inode) = self.objects.of_socket(*socket) else {
                    outside.stack().not_a_programs(*socket);
                    continue;
                };
                if self.is_watched(inode) {
                    let wakes = outside.stack().take_wakes(*socket);
                    self.note_edges(inode, wakes, &mut objects);
                    self.raise_pollers(inode, wakes, outside);
                }
            }
            let looks = |wait: &Wait| wait.sockets.iter().any(|s| changed.contains(s)) || wait.objects.iter().any(|o| objects.contains(o));
            self.again_where(&looks, outside);
            self.changed.extend(outside.take_changed());
        }
    }

    /// Tries the calls of all waiting threads that `looks` chooses, in the order in which they began to wait.
    pub(super) fn again_where(&mut self, looks: &dyn Fn(&Wait) -> bool, outside: &mut dyn Outside) {
        let mut chosen: Vec<(u64, ThreadId)> = Vec::new();
        for (id, thread) in &self.tasks.threads {
            if let State::Waiting(wait) = &thread.state
                && looks(wait)
            {
                chosen.push((wait.since, *id));
            }
        }
        chosen.sort_unstable();
        for (_, thread) in chosen {
            self.attempt_again(thread, outside);
        }
    }

    /// Threads that wait at descriptors of the kernel's look again when anything may have changed.
    fn probe_native(&mut self) {
        let activity = self.arena.header().activity.load(Relaxed);
        if activity == self.activity {
            return;
        }
        self.activity = activity;
        let waits = |thread: &Thread| match &thread.state {
            State::Waiting(wait) if wait.native => Some(wait.since),
            _ => None,
        };
        let mut chosen: Vec<_> = self.tasks.threads.iter().filter_map(|(id, thread)| Some((waits(thread)?, *id))).collect();
        chosen.sort_unstable();
        for (_, thread) in chosen {
            self.arena.channel(thread).answer.store(abi::AGAIN, Relaxed);
            self.arena.channel(thread).result.store(0, Relaxed);
            if self.arena.channel(thread).number.load(Relaxed) == libc::SYS_epoll_wait as u64 {
                // It has to be told which descriptors to look at; the call itself does that.
                self.arena.channel(thread).answer.store(abi::RETURN, Relaxed);
                self.prepare_probe(thread);
            }
            self.make_runnable(thread);
        }
    }
}
