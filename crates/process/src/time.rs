//! Sleeping and timers: nanosleep, setitimer, alarm, POSIX timers, timerfd. All in virtual time; the kernel times nothing. What waits for CPU clocks is in
//! [`super::cpu_time`].

use super::caller::{Caller, Posted};
use super::cpu_time::is_cpu_clock;
use super::cpu_timers::{CpuClock, CpuTimer};
use super::ids::{ProcessId, ThreadId};
use super::object::Body;
use super::outcome::{Asked, Outcome};
use super::outside::Outside;
use super::pending;
use super::state::{State, Thread, Wait};
use super::timers::{Deadline, Due, Key, Posix, Timer};
use super::tree::Tree;
use std::time::Duration;
use weft_intercept::face::Poll;
use weft_intercept::memory::Memory as _;
use weft_intercept::sys::Errno;
use weft_loader::abi::{self, Clock};
use weft_loader::calls::{self, Call as _};

/// Nobody sleeps by these: k_clock without nsleep. But for the first, which is a thread's own, they have no timers, either.
const READ_ONLY_IDS: [i32; 4] = [libc::CLOCK_THREAD_CPUTIME_ID, 4, 5, 6];
const TIMER_ABSTIME: i32 = 1;
const SIGEV_THREAD_ID: i32 = 4;
const TFD_TIMER_ABSTIME: i32 = 1;
const TFD_TIMER_CANCEL_ON_SET: i32 = 2;

/// nanosleep(2) as clock_nanosleep(2).
fn as_clock_nanosleep(call: &calls::Nanosleep) -> calls::ClockNanosleep {
    let which_clock = calls::Int(libc::CLOCK_MONOTONIC as usize);
    calls::ClockNanosleep { which_clock, flags: calls::TimerFlags(0), rqtp: call.rqtp, rmtp: call.rmtp }
}

impl Tree {
    /// Until when nanosleep(2) or clock_nanosleep(2) would sleep.
    pub(super) fn deadline_of_sleep(&self, posted: &Posted, caller: &Caller<'_>) -> Result<Deadline, Errno> {
        let words = calls::words_of(posted.arguments);
        let call = match posted.number as usize {
            calls::Nanosleep::NUMBER => as_clock_nanosleep(&calls::Nanosleep::of(&words)),
            _ => calls::ClockNanosleep::of(&words),
        };
        self.end_of_sleep(&call, caller)
    }

    fn end_of_sleep(&self, call: &calls::ClockNanosleep, caller: &Caller<'_>) -> Result<Deadline, Errno> {
        let wanted = caller.read_timespec(call.rqtp.0 as u64)?;
        self.deadline(call.which_clock.get(), wanted, call.flags.0 as i32 & TIMER_ABSTIME != 0)
    }

    /// nanosleep(2)
    pub(super) fn nanosleep(&mut self, asked: &Asked<'_>, call: calls::Nanosleep, _: &mut dyn Outside) -> Result<Outcome, Errno> {
        self.sleep(asked, &as_clock_nanosleep(&call))
    }

    /// clock_nanosleep(2)
    pub(super) fn clock_nanosleep(
        &mut self,
        asked: &Asked<'_>,
        call: calls::ClockNanosleep,
        _: &mut dyn Outside,
    ) -> Result<Outcome, Errno> {
        let clock = call.which_clock.get();
        if READ_ONLY_IDS.contains(&clock) {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        if is_cpu_clock(clock) { self.sleep_cpu(asked, &call) } else { self.sleep(asked, &call) }
    }

    fn sleep(&mut self, asked: &Asked<'_>, call: &calls::ClockNanosleep) -> Result<Outcome, Errno> {
        let Asked { thread, caller, .. } = *asked;
        let (absolute, rest) = (call.flags.0 as i32 & TIMER_ABSTIME != 0, call.rmtp.0 as u64);
        let one = self.tasks.threads.get(&thread).ok_or(Errno(libc::ESRCH))?;
        if let (true, Some(deadline)) = (one.held, one.deadline) {
            if one.expired || self.clock >= deadline.at {
                return Ok(Outcome::Done(0));
            }
            // A signal.
            if !absolute && rest != 0 {
                caller.write_timespec(rest, self.left_until(deadline))?;
            }
            return Ok(Outcome::Done(-i64::from(libc::EINTR)));
        }
        let deadline = self.end_of_sleep(call, caller)?;
        if deadline.at <= self.clock {
            return Ok(Outcome::Done(0));
        }
        let interrupted = if absolute { abi::RESTART_NO_HANDLER } else { pending::TRY_AGAIN };
        Ok(Outcome::Wait(Wait { deadline: Some(deadline), interrupted, ..Wait::default() }))
    }

    /// Everything that is due by now happens, in order.
    pub(super) fn fire_timers(&mut self, outside: &mut dyn Outside) {
        while let Some((due, deadline)) = self.timers.pop(self.clock) {
            match due {
                Due::Thread { thread, since } => {
                    let is_it = |one: &&mut Thread| matches!(&one.state, State::Waiting(wait) if wait.since == since);
                    if let Some(one) = self.tasks.threads.get_mut(&thread).filter(is_it) {
                        one.expired = true;
                        self.attempt_again(thread, outside);
                    }
                }
                Due::Interval(process) => {
                    let Some(one) = self.tasks.processes.get_mut(&process) else { continue };
                    let interval = one.timers.interval.interval;
                    one.timers.interval.key = None;
                    if !interval.is_zero() {
                        let (_, next) = self.again(deadline, interval);
                        let next = next.map(|next| (self.timers.add(next, due), next));
                        if let Some(one) = self.tasks.processes.get_mut(&process) {
                            one.timers.interval.set(next);
                        }
                    }
                    self.signal_process(process, libc::SIGALRM, pending::info_from_kernel(libc::SIGALRM));
                }
                Due::Posix(process, id) => self.fire_posix(process, id, deadline),
                Due::Second => self.second_begins(),
                Due::File(inode) => {
                    // timerfd_tmrproc does not start the timer again: what comes before a read is counted there, and wakes nobody.
                    let first = matches!(self.objects.body(inode), Some(Body::Timer(file)) if file.expirations == 0);
                    let interval = self.timer_file(inode).map_or(Duration::ZERO, |(timer, _)| timer.interval);
                    let (times, next) = if interval.is_zero() { (1, None) } else { self.again(deadline, interval) };
                    if let Some(Body::Timer(file)) = self.objects.body_mut(inode) {
                        file.expirations = file.expirations.saturating_add(times);
                        file.timer.set(next.map(|next| (self.timers.add(next, due), next)));
                    }
                    if first {
                        self.objects.note_change(inode, Poll::IN);
                    }
                }
            }
        }
    }

    fn fire_posix(&mut self, process: ProcessId, id: i32, deadline: Deadline) {
        let Ok(interval) = self.posix(process, calls::Int(id as usize)).map(|posix| posix.timer.interval) else { return };
        let (times, next) = if interval.is_zero() { (1, None) } else { self.again(deadline, interval) };
        let next = next.map(|next| (self.timers.add(next, Due::Posix(process, id)), next));
        if let Ok(posix) = self.posix(process, calls::Int(id as usize)) {
            posix.timer.set(next);
        }
        self.signal_posix(process, id, times, None);
    }

    /// A POSIX timer has expired so often since it was looked at last. `running`: who has the processor, and gets the signal if he may.
    pub(super) fn signal_posix(&mut self, process: ProcessId, id: i32, times: u64, running: Option<ThreadId>) {
        let Some(one) = self.tasks.processes.get_mut(&process) else { return };
        let Some(posix) = one.timers.posix.get(&id) else { return };
        let (notify, number, value, tid) = (posix.notify, posix.signal, posix.value, posix.tid);
        if notify == libc::SIGEV_NONE {
            return;
        }
        let overrun = i32::try_from(times - 1).unwrap_or(i32::MAX);
        let info = pending::info_of_timer(number, id, overrun, value);
        let target = self.tasks.threads.iter().find(|(_, thread)| thread.process == process && thread.tid == tid).map(|(id, _)| *id);
        let target = target.filter(|_| notify == SIGEV_THREAD_ID);
        if one.queue.overrun(number, id, times) {
            return;
        }
        let threads = one.threads.clone();
        if threads.iter().any(|thread| self.tasks.threads.get_mut(thread).is_some_and(|one| one.queue.overrun(number, id, times))) {
            return;
        }
        match target.or_else(|| self.takes_signal(process, number, running?)) {
            Some(thread) => self.signal_thread(thread, number, info),
            _ => self.signal_process(process, number, info),
        }
    }

    /// The signal of a POSIX timer has been delivered.
    pub(super) fn posix_delivered(&mut self, process: ProcessId, id: i32, overrun: i32) {
        if let Some(posix) = self.tasks.processes.get_mut(&process).and_then(|one| one.timers.posix.get_mut(&id)) {
            posix.overrun = overrun;
        }
    }

    /// alarm(2)
    pub(super) fn alarm(&mut self, asked: &Asked<'_>, call: calls::Alarm, _: &mut dyn Outside) -> Result<Outcome, Errno> {
        let process = self.tasks.process_of(asked.thread)?;
        let old = self.tasks.processes.get(&process).map(|one| one.timers.interval).unwrap_or_default();
        self.set_interval(process, Duration::from_secs(u64::from(call.seconds.get())), Duration::ZERO);
        // "rounded up to the next second if there is a fraction of at least half", alarm_setitimer.
        let left = self.left(&old);
        let rounded = left.as_secs() + u64::from(left.subsec_micros() >= 500_000 || left.as_secs() == 0 && !left.is_zero());
        Ok(Outcome::Done(rounded as i64))
    }

    /// What an interval timer shows, as a struct itimerval; and which of a process's clocks it goes by, none for the wall's.
    fn interval(&self, process: ProcessId, which: calls::Int) -> Result<(Vec<u8>, Option<usize>), Errno> {
        let cpu = match which.get() {
            libc::ITIMER_REAL => None,
            libc::ITIMER_VIRTUAL => Some(0),
            libc::ITIMER_PROF => Some(1),
            _ => return Err(Errno(libc::EINVAL)),
        };
        let old = self.tasks.processes.get(&process).map(|one| one.timers.interval).unwrap_or_default();
        let shown = cpu.map_or([old.interval, self.left(&old)], |which| self.tasks.cpu_interval(process, which));
        let words = shown.map(|value| [value.as_secs(), u64::from(value.subsec_micros())]);
        Ok((words.concat().into_iter().flat_map(u64::to_ne_bytes).collect(), cpu))
    }

    /// getitimer(2)
    pub(super) fn getitimer(&mut self, asked: &Asked<'_>, call: calls::Getitimer, _: &mut dyn Outside) -> Result<Outcome, Errno> {
        let process = self.tasks.process_of(asked.thread)?;
        let (shown, _) = self.interval(process, call.which)?;
        asked.caller.write(call.value.0 as u64, &shown).map(|()| Outcome::Done(0))
    }

    /// setitimer(2)
    pub(super) fn setitimer(&mut self, asked: &Asked<'_>, call: calls::Setitimer, _: &mut dyn Outside) -> Result<Outcome, Errno> {
        let process = self.tasks.process_of(asked.thread)?;
        let (shown, cpu) = self.interval(process, call.which)?;
        let mut bytes = [0; 32];
        if call.value.0 != 0 {
            asked.caller.read(call.value.0 as u64, &mut bytes)?;
        }
        let value = |at: usize| {
            let word = |at: usize| bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(-1, i64::from_ne_bytes);
            let micros = u32::try_from(word(at + 8)).ok().filter(|micros| *micros < 1_000_000);
            match (u64::try_from(word(at)), micros) {
                (Ok(seconds), Some(micros)) => Ok(Duration::new(seconds, micros * 1000)),
                _ => Err(Errno(libc::EINVAL)),
            }
        };
        let (interval, first) = (value(0)?, value(16)?);
        if call.ovalue.0 != 0 {
            asked.caller.write(call.ovalue.0 as u64, &shown)?;
        }
        match cpu {
            Some(which) => self.set_cpu_interval(process, which, first, interval),
            None => self.set_interval(process, first, interval),
        }
        Ok(Outcome::Done(0))
    }

    fn set_interval(&mut self, process: ProcessId, first: Duration, interval: Duration) {
        let Some(one) = self.tasks.processes.get_mut(&process) else { return };
        if let Some(key) = one.timers.interval.key.take() {
            self.timers.remove(key);
        }
        one.timers.interval = Timer { interval, ..Timer::default() };
        if !first.is_zero() {
            let deadline = self.after(first);
            let armed = (self.timers.add(deadline, Due::Interval(process)), deadline);
            if let Some(one) = self.tasks.processes.get_mut(&process) {
                one.timers.interval.set(Some(armed));
            }
        }
    }

    /// A POSIX timer of the calling process.
    fn posix(&mut self, process: ProcessId, id: calls::Int) -> Result<&mut Posix, Errno> {
        let one = self.tasks.processes.get_mut(&process).ok_or(Errno(libc::ESRCH))?;
        one.timers.posix.get_mut(&id.get()).ok_or(Errno(libc::EINVAL))
    }

    /// timer_getoverrun(2)
    pub(super) fn timer_getoverrun(
        &mut self,
        asked: &Asked<'_>,
        call: calls::TimerGetoverrun,
        _: &mut dyn Outside,
    ) -> Result<Outcome, Errno> {
        let process = self.tasks.process_of(asked.thread)?;
        Ok(Outcome::Done(i64::from(self.posix(process, call.timer_id)?.overrun)))
    }

    /// timer_delete(2)
    pub(super) fn timer_delete(&mut self, asked: &Asked<'_>, call: calls::TimerDelete, _: &mut dyn Outside) -> Result<Outcome, Errno> {
        let process = self.tasks.process_of(asked.thread)?;
        let posix = self.posix(process, call.timer_id)?;
        let (key, cpu) = (posix.timer.key, posix.cpu);
        if let Some(one) = self.tasks.processes.get_mut(&process) {
            one.timers.posix.remove(&call.timer_id.get());
        }
        self.disarm(key, cpu);
        Ok(Outcome::Done(0))
    }

    /// timer_gettime(2)
    pub(super) fn timer_gettime(&mut self, asked: &Asked<'_>, call: calls::TimerGettime, _: &mut dyn Outside) -> Result<Outcome, Errno> {
        let process = self.tasks.process_of(asked.thread)?;
        let posix = self.posix(process, call.timer_id)?;
        let (old, on_cpu) = (posix.timer, posix.cpu.is_some());
        let shown = if on_cpu { self.cpu_posix(process, call.timer_id.get())? } else { [old.interval, self.left(&old)] };
        write_timer(asked.caller, call.setting.0 as u64, shown).map(|()| Outcome::Done(0))
    }

    /// timer_settime(2)
    pub(super) fn timer_settime(&mut self, asked: &Asked<'_>, call: calls::TimerSettime, _: &mut dyn Outside) -> Result<Outcome, Errno> {
        let process = self.tasks.process_of(asked.thread)?;
        let (id, old_at) = (call.timer_id.get(), call.old_setting.0 as u64);
        let absolute = call.flags.0 as i32 & TIMER_ABSTIME != 0;
        let posix = self.posix(process, call.timer_id)?;
        let (old, clock, on_cpu) = (posix.timer, posix.clock, posix.cpu.is_some());
        let set @ [interval, first] = read_timer(asked.caller, call.new_setting.0 as u64)?;
        if on_cpu {
            let old = self.cpu_posix(process, id)?;
            self.set_cpu_posix(process, id, set, absolute)?;
            if old_at != 0 {
                write_timer(asked.caller, old_at, old)?;
            }
            return Ok(Outcome::Done(0));
        }
        if old_at != 0 {
            write_timer(asked.caller, old_at, [old.interval, self.left(&old)])?;
        }
        let deadline = self.deadline(clock, first, absolute)?;
        if let Some(key) = old.key {
            self.timers.remove(key);
        }
        let armed = (!first.is_zero()).then(|| (self.timers.add(deadline, Due::Posix(process, id)), deadline));
        let posix = self.posix(process, call.timer_id)?;
        posix.timer = Timer { interval, ..Timer::default() };
        posix.timer.set(armed);
        posix.overrun = 0;
        Ok(Outcome::Done(0))
    }

    /// timer_create(2)
    pub(super) fn timer_create(&mut self, asked: &Asked<'_>, call: calls::TimerCreate, _: &mut dyn Outside) -> Result<Outcome, Errno> {
        let Asked { thread, caller, .. } = *asked;
        let process = self.tasks.process_of(thread)?;
        let clock = call.which_clock.get();
        if !is_cpu_clock(clock) {
            if READ_ONLY_IDS.contains(&clock) {
                return Err(Errno(libc::EOPNOTSUPP));
            }
            Clock::of(clock).ok_or(Errno(libc::EINVAL))?;
        }
        // Each timer keeps a place for its signal, and those are counted (RLIMIT_SIGPENDING), of all that the node's user runs.
        let timers: usize = self.tasks.processes.values().map(|one| one.timers.posix.len()).sum();
        let most = self.arena.process(process).limits[libc::RLIMIT_SIGPENDING as usize][0].load(std::sync::atomic::Ordering::Relaxed);
        if timers as u64 >= most.min(abi::LIMITS[libc::RLIMIT_SIGPENDING as usize][1]) {
            return Err(Errno(libc::EAGAIN));
        }
        // What is wrong after this has used a number up.
        let id = self.tasks.processes.get_mut(&process).ok_or(Errno(libc::ESRCH))?.timers.take_number();
        // struct sigevent { sigval; int signo; int notify; int tid; }
        let (mut value, mut number, mut notify, mut tid) = (id as u64, libc::SIGALRM, libc::SIGEV_SIGNAL, 0);
        if call.timer_event_spec.0 != 0 {
            let mut event = [0; 64];
            caller.read(call.timer_event_spec.0 as u64, &mut event)?;
            let int = |at: usize| event.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, i32::from_ne_bytes);
            value = u64::from(int(0) as u32) | (int(4) as u64) << 32;
            (number, notify, tid) = (int(8), int(12), int(16) as u32);
            // good_sigevent
            let known = match notify {
                SIGEV_THREAD_ID => self.tasks.threads.values().any(|other| other.process == process && other.tid == tid),
                _ => matches!(notify, libc::SIGEV_SIGNAL | libc::SIGEV_NONE | libc::SIGEV_THREAD),
            };
            if !known || notify != libc::SIGEV_NONE && !(1..=64).contains(&number) {
                return Err(Errno(libc::EINVAL));
            }
        }
        caller.write(call.created_timer_id.0 as u64, &id.to_ne_bytes())?;
        let cpu = if is_cpu_clock(clock) { Some((self.tasks.cpu_clock(thread, clock, false)?, CpuTimer::default())) } else { None };
        let one = self.tasks.processes.get_mut(&process).ok_or(Errno(libc::ESRCH))?;
        one.timers.posix.insert(id, Posix { clock, notify, signal: number, value, tid, timer: Timer::default(), cpu, overrun: 0 });
        Ok(Outcome::Done(0))
    }

    /// The timer that a descriptor is, and its clock.
    fn timer_file(&self, inode: u64) -> Result<(Timer, i32), Errno> {
        match self.objects.body(inode) {
            Some(Body::Timer(file)) => Ok((file.timer, file.clock)),
            _ => Err(Errno(libc::EINVAL)),
        }
    }

    /// timerfd_gettime(2)
    pub(super) fn timerfd_gettime(
        &mut self,
        asked: &Asked<'_>,
        call: calls::TimerfdGettime,
        _: &mut dyn Outside,
    ) -> Result<Outcome, Errno> {
        let (old, _) = self.timer_file(asked.posted.inode())?;
        write_timer(asked.caller, call.otmr.0 as u64, [old.interval, self.left(&old)]).map(|()| Outcome::Done(0))
    }

    /// timerfd_settime(2)
    pub(super) fn timerfd_settime(
        &mut self,
        asked: &Asked<'_>,
        call: calls::TimerfdSettime,
        outside: &mut dyn Outside,
    ) -> Result<Outcome, Errno> {
        let Asked { posted, caller, .. } = *asked;
        let (inode, flags) = (posted.inode(), call.flags.0 as i32);
        let (old, clock) = self.timer_file(inode)?;
        let [interval, first] = read_timer(caller, call.utmr.0 as u64)?;
        if call.otmr.0 != 0 {
            write_timer(caller, call.otmr.0 as u64, [old.interval, self.left(&old)])?;
        }
        let absolute = flags & TFD_TIMER_ABSTIME != 0;
        let deadline = self.deadline(clock, first, absolute)?;
        if let Some(key) = old.key {
            self.timers.remove(key);
        }
        let armed = (!first.is_zero()).then(|| (self.timers.add(deadline, Due::File(inode)), deadline));
        let offset = self.date_offset();
        let mut was_cancelled = false;
        if let Some(Body::Timer(file)) = self.objects.body_mut(inode) {
            // timerfd_setup_cancel, and timerfd_setup: "if (timerfd_canceled(ctx)) return -ECANCELED;" where a time is set.
            file.cancels = absolute && flags & TFD_TIMER_CANCEL_ON_SET != 0 && Clock::of(clock) == Some(Clock::Realtime);
            (file.timer, file.expirations) = (Timer { interval, ..Timer::default() }, 0);
            file.timer.set(armed);
            was_cancelled = file.cancels && file.cancelled && !first.is_zero();
            if was_cancelled || !file.cancels {
                file.cancelled = false;
            }
            if was_cancelled {
                file.offset = offset;
            }
        }
        self.object_changed(inode, outside);
        if was_cancelled { Err(Errno(libc::ECANCELED)) } else { Ok(Outcome::Done(0)) }
    }

    /// execve(2): "POSIX timers are not preserved (timer_create(2))"; alarms are.
    pub(super) fn drop_posix_timers(&mut self, process: ProcessId) {
        let Some(one) = self.tasks.processes.get_mut(&process) else { return };
        let gone = std::mem::take(&mut one.timers.posix);
        for posix in gone.values() {
            self.disarm(posix.timer.key, posix.cpu);
        }
    }

    /// A process ends: nothing of it is due any more.
    pub(super) fn drop_timers(&mut self, process: ProcessId) {
        let Some(one) = self.tasks.processes.get_mut(&process) else { return };
        let timers = std::mem::take(&mut one.timers);
        for posix in timers.posix.values() {
            self.disarm(posix.timer.key, posix.cpu);
        }
        self.disarm(timers.interval.key, None);
        for key in timers.cpu_intervals.iter().filter_map(|timer| timer.key) {
            self.cpu_timers.remove(key);
        }
    }

    fn disarm(&mut self, key: Option<Key>, cpu: Option<(CpuClock, CpuTimer)>) {
        if let Some(key) = key {
            self.timers.remove(key);
        }
        if let Some(key) = cpu.and_then(|(_, timer)| timer.key) {
            self.cpu_timers.remove(key);
        }
    }
}

/// Interval, and when it expires.
fn read_timer(caller: &Caller<'_>, at: u64) -> Result<[Duration; 2], Errno> {
    Ok([caller.read_timespec(at)?, caller.read_timespec(at.wrapping_add(16))?])
}

/// Interval, and what is left.
fn write_timer(caller: &Caller<'_>, at: u64, [interval, left]: [Duration; 2]) -> Result<(), Errno> {
    caller.write_timespec(at, interval)?;
    caller.write_timespec(at.wrapping_add(16), left)
}
