//! CPU clocks, and who waits for them: ITIMER_VIRTUAL and ITIMER_PROF, POSIX timers and sleeps (kernel/time/posix-cpu-timers.c).
//!
//! Such a clock goes on while its thread, or a thread of its process, has the processor: by what calls and looking at the clock cost, and by the time that a
//! thread rests which runs without a call ([`Tree::rest`]). All of it is the user's, so CPUCLOCK_PROF, VIRT and SCHED show the same. When one of
//! these clocks comes to a value is not known before, so nothing of this is among [`super::timers::Timers`]. Instead a thread is let go no further than to the
//! first value of its own two clocks for which somebody waits ([`Tree::cpu_left`]), and they are looked at when it has come back ([`Tree::fire_cpu`]).

use super::cpu_timers::{CpuClock, CpuTimer, Due, Key};
use super::ids::{ProcessId, ThreadId};
use super::outcome::{Asked, Outcome};
use super::outside::Outside;
use super::pending;
use super::state::Wait;
use super::tasks::Tasks;
use super::tree::Tree;
use std::time::Duration;
use weft_intercept::memory::Memory as _;
use weft_intercept::sys::Errno;
use weft_loader::abi;
use weft_loader::calls;

const TIMER_ABSTIME: i32 = 1;
/// A tick of the kernel's (250 Hz): what is left of a timer that has expired and not been looked at, and what setitimer(2) adds.
const TICK: u64 = 4_000_000;
/// Process 1 of a node computes nothing.
const INIT: u32 = 1;

fn nanos(value: Duration) -> u64 {
    // KTIME_MAX
    u64::try_from(value.as_nanos()).unwrap_or(u64::MAX).min(i64::MAX as u64)
}

/// clockid_to_kclock: is this the number of a CPU clock?
pub(super) fn is_cpu_clock(id: i32) -> bool {
    const CLOCKFD: i32 = 3;
    matches!(id, libc::CLOCK_PROCESS_CPUTIME_ID | libc::CLOCK_THREAD_CPUTIME_ID) || id < 0 && id & 7 != CLOCKFD
}

impl Tasks {
    /// pid_for_clock: whose clock a number means. `reads`: it is only asked for the time.
    pub(super) fn cpu_clock(&self, thread: ThreadId, id: i32, reads: bool) -> Result<CpuClock, Errno> {
        let one = self.threads.get(&thread).ok_or(Errno(libc::ESRCH))?;
        let own = self.processes.get(&one.process).map_or(0, |process| process.pid);
        let (of_thread, number) = match id {
            libc::CLOCK_PROCESS_CPUTIME_ID => (false, 0),
            libc::CLOCK_THREAD_CPUTIME_ID => (true, 0),
            // "if (CPUCLOCK_WHICH(clock) >= CPUCLOCK_MAX) return NULL;"
            id if id < 0 && id & 3 < 3 => (id & 4 != 0, !(id >> 3) as u32),
            _ => return Err(Errno(libc::EINVAL)),
        };
        match (of_thread, number) {
            (true, 0) => Ok(CpuClock::Thread(one.tid)),
            (false, 0) => Ok(CpuClock::Process(own)),
            (true, tid) => {
                let there = self.threads.values().any(|other| other.process == one.process && other.tid == tid);
                there.then_some(CpuClock::Thread(tid)).ok_or(Errno(libc::EINVAL))
            }
            // "For clock_gettime(PROCESS) allow finding the process by with the pid of the current task."
            (false, tid) if reads && tid == one.tid => Ok(CpuClock::Process(own)),
            (false, pid) => {
                let there = pid == INIT || self.processes.values().any(|process| process.pid == pid);
                there.then_some(CpuClock::Process(pid)).ok_or(Errno(libc::EINVAL))
            }
        }
    }

    /// What a CPU clock shows, in nanoseconds. None: its thread or process is no more.
    fn cpu_now(&self, clock: CpuClock) -> Option<u64> {
        match clock {
            CpuClock::Thread(tid) => self.threads.values().find(|one| one.tid == tid).map(|one| one.cpu),
            CpuClock::Process(INIT) => Some(0),
            CpuClock::Gone => None,
            CpuClock::Process(pid) => self.processes.values().find(|one| one.pid == pid).map(|one| one.cpu),
        }
    }

    /// The clocks that go on with a thread, and what they show.
    fn clocks_of(&self, thread: ThreadId) -> [(CpuClock, u64); 2] {
        let one = self.threads.get(&thread);
        let process = one.and_then(|one| self.processes.get(&one.process));
        [
            (CpuClock::Thread(one.map_or(0, |one| one.tid)), one.map_or(0, |one| one.cpu)),
            (CpuClock::Process(process.map_or(0, |process| process.pid)), process.map_or(0, |process| process.cpu)),
        ]
    }

    /// ITIMER_VIRTUAL (0) or ITIMER_PROF (1), as getitimer(2) shows it: interval, and what is left.
    pub(super) fn cpu_interval(&self, process: ProcessId, which: usize) -> [Duration; 2] {
        let one = self.processes.get(&process);
        let timer = one.and_then(|one| one.timers.cpu_intervals.get(which).copied()).unwrap_or_default();
        let now = one.map_or(0, |one| one.cpu);
        let left = match timer.expires {
            0 => 0,
            // "val = TICK_NSEC" for one that "is about to fire".
            expires if expires <= now => TICK,
            expires => expires - now,
        };
        [timer.interval, left].map(Duration::from_nanos)
    }
}

impl Tree {
    /// clock_gettime(2) of CPU clocks of others; one's own the program's side knows.
    pub(super) fn clock_gettime(&self, asked: &Asked<'_>, call: calls::ClockGettime, _: &mut dyn Outside) -> Result<Outcome, Errno> {
        let clock = self.tasks.cpu_clock(asked.thread, call.which_clock.get(), true)?;
        let value = self.tasks.cpu_now(clock).ok_or(Errno(libc::EINVAL))?;
        asked.caller.write_timespec(call.tp.0 as u64, Duration::from_nanos(value)).map(|()| Outcome::Done(0))
    }

    /// clock_getres(2), likewise.
    pub(super) fn clock_getres(&self, asked: &Asked<'_>, call: calls::ClockGetres, _: &mut dyn Outside) -> Result<Outcome, Errno> {
        let id = call.which_clock.get();
        self.tasks.cpu_clock(asked.thread, id, false)?;
        let value = if id & 3 == 2 { 1 } else { TICK };
        if call.tp.0 != 0 {
            asked.caller.write_timespec(call.tp.0 as u64, Duration::from_nanos(value))?;
        }
        Ok(Outcome::Done(0))
    }

    /// A thread has had the processor for so long.
    pub(super) fn add_cpu(&mut self, thread: ThreadId, used: u64) {
        use std::sync::atomic::Ordering::Relaxed;
        let Some(one) = self.tasks.threads.get_mut(&thread) else { return };
        one.cpu += used;
        self.arena.channel(thread).cpu.store(one.cpu, Relaxed);
        if let Some(process) = self.tasks.processes.get_mut(&one.process) {
            process.cpu += used;
            self.ledger.usage_mut(process.program).cpu += Duration::from_nanos(used);
            self.arena.process(one.process).cpu.store(process.cpu, Relaxed);
        }
    }

    /// How long a thread may have the processor until something is due at one of its clocks. None: nothing is.
    pub(super) fn cpu_left(&self, thread: ThreadId) -> Option<Duration> {
        if self.cpu_timers.is_empty() {
            return None;
        }
        let left = |(clock, now)| self.cpu_timers.first(clock).map(|((_, at, _), _): (Key, Due)| at.saturating_sub(now));
        self.tasks.clocks_of(thread).into_iter().filter_map(left).min().map(Duration::from_nanos)
    }

    /// A thread has had the processor: what is due at its clocks by now happens.
    pub(super) fn fire_cpu(&mut self, thread: ThreadId, outside: &mut dyn Outside) {
        if self.cpu_timers.is_empty() {
            return;
        }
        for (clock, now) in self.tasks.clocks_of(thread) {
            while let Some((key, due)) = self.cpu_timers.first(clock).filter(|((_, at, _), _)| *at <= now) {
                self.cpu_timers.remove(key);
                match due {
                    Due::Interval(process, which) => self.fire_cpu_interval(process, which, now, thread),
                    Due::Posix(process, id) => self.fire_cpu_posix(process, id, now, Some(thread)),
                    Due::Sleeper(sleeper) => {
                        if let Some(one) = self.tasks.threads.get_mut(&sleeper) {
                            one.expired = true;
                        }
                        self.attempt_again(sleeper, outside);
                    }
                }
            }
        }
    }

    /// What a thread that was interrupted has rested is its CPU time: a loop without a call has the processor.
    pub(super) fn charge_rest(&mut self, thread: ThreadId, outside: &mut dyn Outside) {
        if let Some(since) = self.tasks.threads.get_mut(&thread).and_then(|one| one.rests.take()) {
            self.add_cpu(thread, self.clock.since(since).as_nanos() as u64);
            self.fire_cpu(thread, outside);
        }
    }

    /// The clock of a process that has ended goes on no more; it can still be looked at.
    pub(super) fn stop_cpu_clock(&mut self, clock: CpuClock) {
        self.cpu_timers.forget(clock);
    }

    /// The clock of a thread that is gone, or of a process for which its parent has waited, is no more, even when its number is given again. Who waits for it
    /// does so for ever.
    pub(super) fn forget_cpu_clock(&mut self, clock: CpuClock) {
        self.cpu_timers.forget(clock);
        for process in self.tasks.processes.values_mut() {
            process.timers.forget_cpu_clock(clock);
        }
        for thread in self.tasks.threads.values_mut() {
            if let Some((of, _)) = thread.cpu_until.as_mut().filter(|(of, _)| *of == clock) {
                *of = CpuClock::Gone;
            }
        }
    }

    /// check_cpu_itimer
    fn fire_cpu_interval(&mut self, process: ProcessId, which: usize, now: u64, running: ThreadId) {
        let Some(one) = self.tasks.processes.get_mut(&process) else { return };
        let clock = CpuClock::Process(one.pid);
        let Some(timer) = one.timers.cpu_intervals.get_mut(which) else { return };
        timer.key = None;
        if timer.bump(now) > 0 {
            timer.key = Some(self.cpu_timers.add_timer(clock, now, timer.expires, Due::Interval(process, which)));
        } else {
            timer.expires = 0;
        }
        let number = if which == 0 { libc::SIGVTALRM } else { libc::SIGPROF };
        match self.takes_signal(process, number, running) {
            Some(thread) => self.signal_thread(thread, number, pending::info_from_kernel(number)),
            None => self.signal_process(process, number, pending::info_from_kernel(number)),
        }
    }

    /// set_cpu_itimer
    pub(super) fn set_cpu_interval(&mut self, process: ProcessId, which: usize, first: Duration, interval: Duration) {
        let Some(one) = self.tasks.processes.get_mut(&process) else { return };
        let (clock, now) = (CpuClock::Process(one.pid), one.cpu);
        let Some(timer) = one.timers.cpu_intervals.get_mut(which) else { return };
        if let Some(key) = timer.key.take() {
            self.cpu_timers.remove(key);
        }
        *timer = CpuTimer { key: None, expires: 0, interval: nanos(interval) };
        if !first.is_zero() {
            // "if (nval > 0) nval += TICK_NSEC;"
            timer.expires = now.saturating_add(nanos(first)).saturating_add(TICK);
            timer.key = Some(self.cpu_timers.add_timer(clock, now, timer.expires, Due::Interval(process, which)));
        }
    }

    fn fire_cpu_posix(&mut self, process: ProcessId, id: i32, now: u64, running: Option<ThreadId>) {
        let Some(posix) = self.tasks.processes.get_mut(&process).and_then(|one| one.timers.posix.get_mut(&id)) else { return };
        let Some((clock, timer)) = &mut posix.cpu else { return };
        timer.key = None;
        let times = timer.bump(now);
        if times > 0 {
            timer.key = Some(self.cpu_timers.add_timer(*clock, now, timer.expires, Due::Posix(process, id)));
        } else {
            timer.expires = 0;
        }
        self.signal_posix(process, id, times.max(1), running);
    }

    /// posix_cpu_timer_get: interval, and what is left.
    pub(super) fn cpu_posix(&mut self, process: ProcessId, id: i32) -> Result<[Duration; 2], Errno> {
        let posix = self.tasks.processes.get(&process).and_then(|one| one.timers.posix.get(&id)).ok_or(Errno(libc::EINVAL))?;
        let (clock, mut timer) = posix.cpu.ok_or(Errno(libc::EINVAL))?;
        let silent = posix.notify == libc::SIGEV_NONE;
        // "if (p && cpu_timer_getexpires(&timr->it.cpu)) __posix_cpu_timer_get(timr, itp, ...);"
        let Some(now) = self.tasks.cpu_now(clock) else { return Ok([Duration::ZERO; 2]) };
        let left = if timer.expires == 0 {
            0
        } else {
            if timer.key.is_none() {
                timer.bump(now);
            }
            // "Timers which have a real signal delivery mode must return a remaining time greater than 0".
            if now < timer.expires { timer.expires - now } else { u64::from(!silent) }
        };
        if let Some(posix) = self.tasks.processes.get_mut(&process).and_then(|one| one.timers.posix.get_mut(&id)) {
            posix.cpu = Some((clock, timer));
        }
        Ok([timer.interval, left].map(Duration::from_nanos))
    }

    /// posix_cpu_timer_set
    pub(super) fn set_cpu_posix(&mut self, process: ProcessId, id: i32, set: [Duration; 2], absolute: bool) -> Result<(), Errno> {
        let [interval, first] = set.map(nanos);
        let posix = self.tasks.processes.get(&process).and_then(|one| one.timers.posix.get(&id)).ok_or(Errno(libc::EINVAL))?;
        let (clock, old) = posix.cpu.ok_or(Errno(libc::EINVAL))?;
        let silent = posix.notify == libc::SIGEV_NONE;
        let now = self.tasks.cpu_now(clock).ok_or(Errno(libc::ESRCH))?;
        if let Some(key) = old.key {
            self.cpu_timers.remove(key);
        }
        let expires = if first != 0 && !absolute { now.saturating_add(first) } else { first };
        let mut timer = CpuTimer { key: None, expires, interval };
        if !silent && expires > now {
            timer.key = Some(self.cpu_timers.add_timer(clock, now, expires, Due::Posix(process, id)));
        }
        if let Some(posix) = self.tasks.processes.get_mut(&process).and_then(|one| one.timers.posix.get_mut(&id)) {
            posix.cpu = Some((clock, timer));
            posix.overrun = 0;
        }
        if !silent && expires != 0 && expires <= now {
            // "Fire it immediately even if the thread never runs to accumulate more time on this clock."
            self.fire_cpu_posix(process, id, now, None);
        }
        Ok(())
    }

    /// clock_nanosleep(2) on a CPU clock: posix_cpu_nsleep.
    pub(super) fn sleep_cpu(&mut self, asked: &Asked<'_>, call: &calls::ClockNanosleep) -> Result<Outcome, Errno> {
        let Asked { thread, caller, .. } = *asked;
        let (absolute, rest) = (call.flags.0 as i32 & TIMER_ABSTIME != 0, call.rmtp.0 as u64);
        let one = self.tasks.threads.get(&thread).ok_or(Errno(libc::ESRCH))?;
        if let (true, Some((clock, until))) = (one.held, one.cpu_until) {
            let left = until.saturating_sub(self.tasks.cpu_now(clock).unwrap_or(0));
            if one.expired || left == 0 {
                return Ok(Outcome::Done(0));
            }
            if !absolute && rest != 0 {
                caller.write_timespec(rest, Duration::from_nanos(left))?;
            }
            return Ok(Outcome::Done(-i64::from(libc::EINTR)));
        }
        let own = one.tid;
        let wanted = nanos(caller.read_timespec(call.rqtp.0 as u64)?);
        let clock = self.tasks.cpu_clock(thread, call.which_clock.get(), false)?;
        if clock == CpuClock::Thread(own) {
            return Err(Errno(libc::EINVAL));
        }
        let now = self.tasks.cpu_now(clock).ok_or(Errno(libc::EINVAL))?;
        let until = if wanted != 0 && !absolute { now.saturating_add(wanted) } else { wanted };
        if until <= now {
            return Ok(Outcome::Done(0));
        }
        let key = self.cpu_timers.add(clock, until, Due::Sleeper(thread));
        if let Some(one) = self.tasks.threads.get_mut(&thread) {
            one.cpu_until = Some((clock, until));
        }
        let interrupted = if absolute { abi::RESTART_NO_HANDLER } else { pending::TRY_AGAIN };
        Ok(Outcome::Wait(Wait { cpu: Some(key), interrupted, ..Wait::default() }))
    }
}
