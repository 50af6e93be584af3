//! Processes and threads coming and going: clone, execve, exit, wait.

use super::caller::Posted;
use super::cpu_timers::CpuClock;
use super::ids::{ProcessId, ThreadId};
use super::outcome::{Asked, Outcome};
use super::outside::{Exit, Outside, Status};
use super::pending;
use super::state::{Process, State, Thread, Wait};
use super::tree::Tree;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use weft_intercept::memory::Memory as _;
use weft_intercept::sys::{self, Errno};
use weft_loader::abi::{self, Clock};
use weft_loader::calls;

const CLONE_VFORK: u64 = 0x4000;
const CLONE_PARENT: u64 = 0x8000;
const CLONE_THREAD: u64 = 0x1_0000;
const CLONE_SIGNAL: u64 = 0xff;
const CLD_EXITED: i32 = 1;
const CLD_KILLED: i32 = 2;
const SA_NOCLDWAIT: u64 = 2;
/// A process that is told to end does so within this wall time, or the machine is in trouble.
const DEATH_LIMIT: Duration = Duration::from_secs(60);

/// Where what wait4(2) and waitid(2) tell is to be written; 0: nowhere. `info`: of waitid only.
struct Places {
    status: u64,
    info: Option<u64>,
    usage: u64,
}

/// The lowest number that is not among these, which come in their order; none: there are `most`.
pub(super) fn first_free<'a>(taken: impl Iterator<Item = &'a usize>, most: usize) -> Option<usize> {
    let free = taken.zip(0..).take_while(|(one, index)| *one == index).count();
    (free < most).then_some(free)
}

impl Tree {
    /// A slot, a channel, and what belongs to them.
    pub(super) fn new_process(&mut self, parent: Option<ProcessId>) -> Option<(ProcessId, ThreadId)> {
        let process = first_free(self.tasks.processes.keys(), abi::PROCESSES_MAX)?;
        let key = [self.rng.u64(), self.rng.u64(), self.rng.u64(), self.rng.u64()];
        self.arena.clear_process(process, key, &super::limits::first_limits(self.config.limits));
        let (program, group, session, name, own_files) = parent
            .and_then(|id| self.tasks.processes.get(&id))
            .map(|one| (one.program, one.group, one.session, one.name.clone(), one.own_files.clone()))
            .unwrap_or_default();
        let began_up_ns = self.shows(Clock::Monotonic);
        let exit_signal = libc::SIGCHLD;
        let one = Process { program, parent, group, session, exit_signal, name, own_files, ..Process::new(0, 0, began_up_ns) };
        self.tasks.processes.insert(process, one);
        let thread = self.new_thread(process);
        if thread.is_none() {
            self.tasks.processes.remove(&process);
        }
        Some((process, thread?))
    }

    fn new_thread(&mut self, process: ProcessId) -> Option<ThreadId> {
        let thread = first_free(self.tasks.threads.keys(), abi::CHANNELS_MAX)?;
        self.arena.clear_channel(thread, process);
        self.tasks.threads.insert(thread, Thread::new(process, 0, State::Starting));
        self.tasks.processes.get_mut(&process)?.threads.push(thread);
        Some(thread)
    }

    /// The number of a process outside is known now.
    pub(super) fn meet(&mut self, process: ProcessId, outer: u32) {
        if let Some(one) = self.tasks.processes.get_mut(&process) {
            one.outer = outer;
            one.pidfd = sys::pidfd_open_process(outer).ok();
        }
    }

    /// The numbers of a process and thread inside are known now: (pid, tid) in the arguments.
    pub(super) fn introduce(&mut self, process: ProcessId, thread: ThreadId, posted: &Posted) {
        let (pid, tid) = (posted.arguments[0] as u32, posted.arguments[1] as u32);
        self.arena.process(process).pid.store(pid, Relaxed);
        self.arena.channel(thread).tid.store(tid, Relaxed);
        if let Some(one) = self.tasks.processes.get_mut(&process) {
            one.pid = pid;
        }
        if let Some(one) = self.tasks.threads.get_mut(&thread) {
            one.tid = tid;
        }
    }

    /// A thread is about to make another: grants it a channel and, for a process, a slot.
    pub(super) fn clone(&mut self, asked: &Asked<'_>, call: calls::Clone, _: &mut dyn Outside) -> Result<Outcome, Errno> {
        let flags = call.flags.0 as u64;
        let process = self.tasks.process_of(asked.thread)?;
        let granted = if flags & CLONE_THREAD != 0 {
            self.new_thread(process)
        } else {
            let maker = self.tasks.processes.get(&process).map(|one| (one.parent, one.exit_signal));
            let made = self.new_process(Some(process));
            if let Some((child, _)) = made
                && let Some(one) = self.tasks.processes.get_mut(&child)
            {
                one.exit_signal = (flags & CLONE_SIGNAL) as i32;
                // kernel/fork.c, copy_process: "CLONE_PARENT re-uses the old parent", and its exit signal.
                if let Some((parent, signal)) = maker.filter(|_| flags & CLONE_PARENT != 0) {
                    (one.parent, one.exit_signal) = (parent, signal);
                }
            }
            made.map(|(_, thread)| thread)
        };
        granted.map(|thread| Outcome::Done(thread as i64)).ok_or(Errno(libc::EAGAIN))
    }

    /// What became of it: (result, channel, flags).
    pub(super) fn cloned(&mut self, thread: ThreadId, posted: &Posted) -> Result<Outcome, Errno> {
        let (result, child, flags) = (posted.arguments[0] as i64, posted.arguments[1] as ThreadId, posted.arguments[2]);
        let Some(process) = self.tasks.threads.get(&child).filter(|one| matches!(one.state, State::Starting)).map(|one| one.process) else {
            return Err(Errno(libc::EINVAL));
        };
        if result == -i64::from(libc::EAGAIN) {
            self.host_limit(abi::HOST_LIMIT_FORK);
        }
        let is_thread = flags & CLONE_THREAD != 0;
        let outer = if result < 0 || is_thread { Ok(0) } else { self.init.announced(DEATH_LIMIT).map(|(pid, _)| pid) };
        let there = result >= 0 && outer.is_ok() && {
            if let (Ok(outer), false) = (outer, is_thread) {
                self.meet(process, outer);
            }
            self.wait_for_post(child)
        };
        if !there {
            self.tasks.threads.remove(&child);
            if let Some(one) = self.tasks.processes.get_mut(&process) {
                one.threads.retain(|other| *other != child);
            }
            if !is_thread {
                self.tasks.processes.remove(&process);
            }
            return Ok(Outcome::Done(0));
        }
        let posted = Posted::read(self.arena.channel(child));
        self.introduce(process, child, &posted);
        self.last_pid = posted.arguments[1] as u32;
        self.answer(child, 0);
        self.make_runnable(child);
        if flags & CLONE_VFORK != 0 && !is_thread {
            if let Some(one) = self.tasks.processes.get_mut(&process) {
                one.vfork_of = Some(thread);
            }
            return Ok(Outcome::Wait(Wait { vfork: Some(process), uninterruptible: true, ..Wait::default() }));
        }
        Ok(Outcome::Done(0))
    }

    /// A thread is about to execute another image: the other threads of its process end, and its channel goes on.
    pub(super) fn exec(&mut self, thread: ThreadId) -> Result<Outcome, Errno> {
        let process = self.tasks.process_of(thread)?;
        if self.tasks.processes.get(&process).is_some_and(|one| one.threads.len() > 1) {
            self.look_at_locks(process);
        }
        let Some(one) = self.tasks.processes.get_mut(&process) else { return Err(Errno(libc::ESRCH)) };
        let others: Vec<ThreadId> = one.threads.iter().copied().filter(|other| *other != thread).collect();
        one.threads = vec![thread];
        one.ended_threads = !others.is_empty();
        for other in others {
            self.forget_thread(other);
        }
        Ok(Outcome::Done(0))
    }

    /// The new image is there.
    pub(super) fn executed(&mut self, thread: ThreadId, posted: &Posted) -> Result<Outcome, Errno> {
        let process = self.tasks.process_of(thread)?;
        let old = self.tasks.threads.get(&thread).map_or(0, |one| one.tid);
        self.introduce(process, thread, posted);
        self.drop_posix_timers(process);
        // futex_exec_release: what the old image had. The number may be another one now, and locks with the old one have nobody's.
        self.owner_died(old);
        if self.tasks.processes.get_mut(&process).is_some_and(|one| std::mem::take(&mut one.ended_threads)) {
            self.wake_for_locks(process);
        }
        let mut path = [0; abi::PATH_BYTES];
        self.arena.process(process).executable.get(0, &mut path);
        let end = path.iter().position(|byte| *byte == 0).unwrap_or(0);
        let name = String::from_utf8_lossy(path[..end].rsplit(|byte| *byte == b'/').next().unwrap_or_default()).into_owned();
        let waiter = self.tasks.processes.get_mut(&process).and_then(|one| {
            one.name = name;
            one.vfork_of.take()
        });
        if let Some(waiter) = waiter {
            self.answer(waiter, 0);
            self.make_runnable(waiter);
        }
        // Descriptors with O_CLOEXEC are gone: whoever waits at the other end of a pipe, or for a lock, looks again.
        self.arena.header().activity.fetch_add(1, Relaxed);
        self.look_for_closed();
        Ok(Outcome::Done(0))
    }

    /// Nobody waits for a process any more: its number is free.
    fn forget_process(&mut self, process: ProcessId) {
        if let Some(one) = self.tasks.processes.remove(&process) {
            self.forget_cpu_clock(CpuClock::Process(one.pid));
        }
    }

    fn forget_thread(&mut self, thread: ThreadId) {
        self.leave_wait(thread);
        let tid = self.tasks.threads.remove(&thread).map(|one| one.tid);
        self.tasks.queue.retain(|other| *other != thread);
        self.signal_waits.retain(|other| *other != thread);
        if let Some(tid) = tid {
            self.forget_cpu_clock(CpuClock::Thread(tid));
            self.owner_died(tid);
        }
    }

    /// exit(2). `cleared`: the word that was cleared, 0: none.
    pub(super) fn thread_exits(&mut self, thread: ThreadId, status: i32, cleared: u64) {
        let Ok(process) = self.tasks.process_of(thread) else { return };
        if cleared != 0
            && self.arena.header().futex_waiters.load(Relaxed) > 0
            && let Ok(key) = self.futex_key(thread, cleared, false)
        {
            self.futex_wake(key, 1, u32::MAX);
        }
        let last = self.tasks.processes.get(&process).is_some_and(|one| one.threads.len() == 1);
        self.answer(thread, 0);
        self.arena.release(thread);
        if last {
            self.wait_for_death(process);
            self.ended(process, Status::Exited(status & 0xff));
            return;
        }
        let mut waited = Duration::ZERO;
        while !self.arena.wait_gone(thread, Duration::from_millis(100)) && waited < DEATH_LIMIT {
            waited += Duration::from_millis(100);
        }
        self.forget_thread(thread);
        if let Some(one) = self.tasks.processes.get_mut(&process) {
            one.threads.retain(|other| *other != thread);
        }
    }

    /// exit_group(2)
    pub(super) fn process_exits(&mut self, thread: ThreadId, status: i32) {
        let Ok(process) = self.tasks.process_of(thread) else { return };
        // Its own list the thread has walked.
        if self.tasks.processes.get(&process).is_some_and(|one| one.threads.len() > 1) {
            self.look_at_locks(process);
        }
        self.answer(thread, 0);
        self.arena.release(thread);
        self.wait_for_death(process);
        self.ended(process, Status::Exited(status & 0xff));
    }

    /// Waits until the kernel has taken a process apart: its descriptors are closed then.
    pub(super) fn wait_for_death(&mut self, process: ProcessId) {
        let Some(pidfd) = self.tasks.processes.get(&process).and_then(|one| one.pidfd.as_ref()) else { return };
        if sys::wait_readable(pidfd.as_fd(), Some(DEATH_LIMIT)).is_err() {
            tracing::warn!("a process that was told to end does not: the kernel is stuck in one of its descriptors");
            let _ = sys::pidfd_signal(pidfd.as_fd(), libc::SIGKILL);
        }
    }

    /// A thread's process is gone without a word: killed from outside.
    pub(super) fn vanished(&mut self, thread: ThreadId) {
        let Ok(process) = self.tasks.process_of(thread) else { return };
        let name = self.tasks.processes.get(&process).map(|one| format!("{} (process {})", one.name, one.pid)).unwrap_or_default();
        self.doubt(format!("{name} was killed from outside"));
        self.ended(process, Status::Killed(libc::SIGKILL));
    }

    /// A process has ended.
    pub(super) fn ended(&mut self, process: ProcessId, status: Status) {
        let Some(one) = self.tasks.processes.get_mut(&process).filter(|one| one.status.is_none()) else { return };
        one.status = Some(status);
        one.pidfd = None;
        let unasked = matches!(status, Status::Killed(_)) || one.threads.len() > 1;
        let (threads, waiter, pid) = (std::mem::take(&mut one.threads), one.vfork_of.take(), one.pid);
        self.stop_cpu_clock(CpuClock::Process(pid));
        for thread in threads {
            self.forget_thread(thread);
        }
        if unasked {
            self.wake_for_locks(process);
        }
        self.drop_timers(process);
        self.ledger.ended(Exit { pid, at: self.clock, status });
        self.arena.header().activity.fetch_add(1, Relaxed);
        self.look_for_closed();
        // Orphans are process 1's, which reaps without being told.
        let orphans: Vec<ProcessId> =
            self.tasks.processes.iter().filter(|(_, one)| one.parent == Some(process)).map(|(id, _)| *id).collect();
        for orphan in orphans {
            if self.tasks.processes.get(&orphan).is_some_and(|one| one.status.is_some()) {
                self.forget_process(orphan);
            } else if let Some(one) = self.tasks.processes.get_mut(&orphan) {
                one.parent = None;
                if one.death_signal != 0 {
                    let signal = one.death_signal;
                    self.signal_process(orphan, signal, pending::info_from_kernel(signal));
                }
            }
        }
        if let Some(waiter) = waiter {
            self.answer(waiter, 0);
            self.make_runnable(waiter);
        }
        let (code, value) = match status {
            Status::Exited(value) => (CLD_EXITED, value),
            Status::Killed(value) => (CLD_KILLED, value),
        };
        if !self.tell_parent(process, code, value) {
            self.forget_process(process);
        }
    }

    /// prctl(2): PR_SET_PDEATHSIG and PR_GET_PDEATHSIG.
    pub(super) fn prctl(&mut self, asked: &Asked<'_>, call: calls::Prctl, _: &mut dyn Outside) -> Result<Outcome, Errno> {
        let process = self.tasks.process_of(asked.thread)?;
        let one = self.tasks.processes.get_mut(&process).ok_or(Errno(libc::ESRCH))?;
        if call.option.get() == libc::PR_GET_PDEATHSIG {
            asked.caller.write(call.arg2.0 as u64, &one.death_signal.to_ne_bytes())?;
        } else {
            // "if (!valid_signal(arg2)) error = -EINVAL".
            one.death_signal = i32::try_from(call.arg2.0).ok().filter(|signal| (0..=64).contains(signal)).ok_or(Errno(libc::EINVAL))?;
        }
        Ok(Outcome::Done(0))
    }

    /// SIGCHLD and wait(2). False: nobody wants to know.
    pub(super) fn tell_parent(&mut self, process: ProcessId, code: i32, value: i32) -> bool {
        let Some(one) = self.tasks.processes.get(&process) else { return false };
        let (Some(parent), pid, number) = (one.parent, one.pid, one.exit_signal) else { return false };
        let action = &self.arena.process(parent).actions[libc::SIGCHLD as usize];
        let (handler, flags) = (action.handler.load(Relaxed), action.flags.load(Relaxed));
        let unwanted = number == libc::SIGCHLD && (handler == 1 || flags & SA_NOCLDWAIT != 0);
        if number != 0 {
            self.signal_process(parent, number, pending::info_of_child(number, code, pid, value));
        }
        self.child_changes.push(parent);
        !unwanted || !matches!(code, CLD_EXITED | CLD_KILLED)
    }

    /// Parents that wait for children look again.
    pub(super) fn finish_child_waits(&mut self, outside: &mut dyn super::outside::Outside) {
        for parent in std::mem::take(&mut self.child_changes) {
            let threads = self.tasks.processes.get(&parent).map(|one| one.threads.clone()).unwrap_or_default();
            for thread in threads {
                if matches!(self.tasks.threads.get(&thread), Some(Thread { state: State::Waiting(wait), .. }) if wait.children) {
                    self.attempt_again(thread, outside);
                }
            }
        }
    }

    /// wait4(2)
    pub(super) fn wait4(&mut self, asked: &Asked<'_>, call: calls::Wait4, _: &mut dyn Outside) -> Result<Outcome, Errno> {
        let own = self.tasks.process_of(asked.thread)?;
        let group = self.tasks.processes.get(&own).map_or(0, |one| one.group);
        let (kind, id) = match call.upid.get() {
            -1 => (libc::P_ALL, 0),
            0 => (libc::P_PGID, group as i32),
            pid if pid < 0 => (libc::P_PGID, -pid),
            pid => (libc::P_PID, pid),
        };
        let places = Places { status: call.stat_addr.0 as u64, info: None, usage: call.ru.0 as u64 };
        self.wait_child(asked, own, (kind, id), call.options.0 as i32 | libc::WEXITED, &places)
    }

    /// waitid(2)
    pub(super) fn waitid(&mut self, asked: &Asked<'_>, call: calls::Waitid, _: &mut dyn Outside) -> Result<Outcome, Errno> {
        let own = self.tasks.process_of(asked.thread)?;
        let places = Places { status: 0, info: Some(call.infop.0 as u64), usage: call.ru.0 as u64 };
        self.wait_child(asked, own, (call.which.get() as u32, call.upid.get()), call.options.0 as i32, &places)
    }

    fn wait_child(
        &mut self,
        asked: &Asked<'_>,
        own: ProcessId,
        (kind, id): (u32, i32),
        options: i32,
        places: &Places,
    ) -> Result<Outcome, Errno> {
        let Asked { thread, caller, .. } = *asked;
        // 1 tells the program's side to reap what argument 0 names; the program's own registers must not.
        self.arena.channel(thread).arguments[5].store(0, Relaxed);
        let group = self.tasks.processes.get(&own).map_or(0, |one| one.group);
        let wanted = |one: &Process| match kind {
            libc::P_PID => one.pid == id as u32,
            libc::P_PGID => one.group == if id == 0 { group } else { id as u32 },
            _ => kind == libc::P_ALL,
        };
        let children = || self.tasks.processes.iter().filter(|(_, one)| one.parent == Some(own) && wanted(one));
        if children().next().is_none() {
            return Err(Errno(libc::ECHILD));
        }
        let found = children().find_map(|(id, one)| {
            let (code, value, word) = match (one.status, one.stopped) {
                (Some(status @ Status::Exited(value)), _) if options & libc::WEXITED != 0 => (CLD_EXITED, value, status.word()),
                (Some(status @ Status::Killed(value)), _) if options & libc::WEXITED != 0 => (CLD_KILLED, value, status.word()),
                (None, Some((signal, false))) if options & libc::WUNTRACED != 0 => (5, signal, signal << 8 | 0x7f),
                (None, None) if one.continued && options & libc::WCONTINUED != 0 => (6, libc::SIGCONT, 0xffff),
                _ => return None,
            };
            Some((*id, one.pid, one.cpu, code, value, word))
        });
        let Some((found, pid, cpu, code, value, word)) = found else {
            if options & libc::WNOHANG != 0 {
                if let Some(at) = places.info.filter(|at| *at != 0) {
                    caller.write(at, &[0; 128])?;
                }
                return Ok(Outcome::Done(0));
            }
            return Ok(Outcome::Wait(Wait { children: true, ..Wait::default() }));
        };
        let usage = {
            let words = [cpu / 1_000_000_000, cpu % 1_000_000_000 / 1000];
            words.into_iter().chain([0; 16]).flat_map(u64::to_ne_bytes).collect::<Vec<u8>>()
        };
        if places.status != 0 {
            caller.write(places.status, &word.to_ne_bytes())?;
        }
        if places.usage != 0 {
            caller.write(places.usage, &usage)?;
        }
        if let Some(at) = places.info.filter(|at| *at != 0) {
            caller.write(at, &pending::info_of_child(libc::SIGCHLD, code, pid, value))?;
        }
        self.reap(thread, found, pid, code, options);
        Ok(Outcome::Done(if places.info.is_some() { 0 } else { i64::from(pid) }))
    }

    fn reap(&mut self, thread: ThreadId, id: ProcessId, pid: u32, code: i32, options: i32) {
        if options & libc::WNOWAIT != 0 {
            return;
        }
        match code {
            CLD_EXITED | CLD_KILLED => {
                self.forget_process(id);
                let channel = self.arena.channel(thread);
                channel.arguments[0].store(u64::from(pid), Relaxed);
                channel.arguments[5].store(1, Relaxed);
            }
            5 => {
                if let Some(one) = self.tasks.processes.get_mut(&id)
                    && let Some(stopped) = &mut one.stopped
                {
                    stopped.1 = true;
                }
            }
            _ => {
                if let Some(one) = self.tasks.processes.get_mut(&id) {
                    one.continued = false;
                }
            }
        }
    }

    /// setsid(2), after the kernel has done it.
    pub(super) fn setsid(&mut self, asked: &Asked<'_>, _: calls::Setsid, _: &mut dyn Outside) -> Result<Outcome, Errno> {
        let own = self.tasks.process_of(asked.thread)?;
        if let Some(one) = self.tasks.processes.get_mut(&own) {
            one.session = one.pid;
            one.group = one.pid;
        }
        Ok(Outcome::Done(0))
    }

    /// setpgid(2), after the kernel has done it.
    pub(super) fn setpgid(&mut self, asked: &Asked<'_>, call: calls::Setpgid, _: &mut dyn Outside) -> Result<Outcome, Errno> {
        let own = self.tasks.process_of(asked.thread)?;
        let (pid, group) = (call.pid.get() as u32, call.pgid.get() as u32);
        let target = if pid == 0 { Some(own) } else { self.tasks.process_by_pid(pid) };
        if let Some(one) = target.and_then(|id| self.tasks.processes.get_mut(&id)) {
            one.group = if group == 0 { one.pid } else { group };
        }
        Ok(Outcome::Done(0))
    }
}
