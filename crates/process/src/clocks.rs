//! The node's own clocks: when something is due by them, and who sets and disciplines them (kernel/time/timekeeping.c and time.c of Linux 6.12).
//!
//! What they show stands in the arena's header ([`weft_loader::abi::Clocks`]), which programs read. Only here is it changed, and with it the time at which
//! everything is due that goes by these clocks.

use super::ntp::{self, Refused, Timex};
use super::object::Body;
use super::outcome::{Asked, Outcome};
use super::outside::Outside;
use super::state::State;
use super::timers::{Deadline, Due, Key, Timer};
use super::tree::Tree;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use weft_core::Instant;
use weft_intercept::face::Poll;
use weft_intercept::memory::Memory as _;
use weft_intercept::sys::Errno;
use weft_loader::abi::{Clock, RATE_ONE};
use weft_loader::calls;

const NANOS: i64 = 1_000_000_000;
/// The number of CAP_SYS_TIME.
const CAP_SYS_TIME: u32 = 25;
/// KTIME_SEC_MAX without TIME_UPTIME_SEC_MAX (thirty years): no date may be set from here on.
const SECONDS_MAX: i64 = i64::MAX / NANOS - 30 * 365 * 86_400;
/// Furthest east and west of a zone, in minutes.
const ZONE_MAX: i32 = 15 * 60;
/// CLOCKFD: the clock is a descriptor.
const CLOCKFD: i32 = 3;

/// A clock as a call names it.
enum Named {
    /// CLOCK_REALTIME, the one that is set.
    Realtime,
    /// There is one, but nobody sets it.
    Other,
    /// A CPU clock by the number of its process or thread.
    Cpu,
    /// A descriptor, which is none: no file of a node is a clock.
    File,
    Unknown,
}

impl Named {
    /// clockid_to_kclock
    fn of(id: i32) -> Named {
        match id {
            0 => Named::Realtime,
            1..=9 | 11 => Named::Other,
            id if id < 0 => {
                if id & 7 == CLOCKFD {
                    Named::File
                } else {
                    Named::Cpu
                }
            }
            _ => Named::Unknown,
        }
    }
}

impl Tree {
    /// What a clock shows now, in nanoseconds.
    pub(super) fn shows(&self, clock: Clock) -> u64 {
        self.arena.header().clocks.shows(clock, self.clock.as_nanos())
    }

    /// So long from now on, by CLOCK_MONOTONIC.
    pub(super) fn after(&self, time: Duration) -> Deadline {
        self.after_by(Clock::Monotonic, time)
    }

    fn after_by(&self, clock: Clock, time: Duration) -> Deadline {
        let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.at_value(clock, self.shows(clock).saturating_add(time))
    }

    /// When a clock shows this.
    pub(super) fn at_value(&self, clock: Clock, value: u64) -> Deadline {
        Deadline { at: Instant::from_nanos(self.arena.header().clocks.when(clock, value)), by: Some((clock, value)) }
    }

    /// When a time of a clock is that is named by its number.
    pub(super) fn deadline(&self, clock: i32, value: Duration, absolute: bool) -> Result<Deadline, Errno> {
        let by = Clock::of(clock).ok_or(Errno(libc::EINVAL))?;
        if absolute {
            return Ok(self.at_value(by, u64::try_from(value.as_nanos()).unwrap_or(u64::MAX)));
        }
        // __hrtimer_init: "POSIX magic: Relative CLOCK_REALTIME timers are not affected by clock modifications".
        Ok(self.after_by(if clock == libc::CLOCK_REALTIME { Clock::Monotonic } else { by }, value))
    }

    /// How long it is until then, by the clock that it goes by.
    pub(super) fn left_until(&self, deadline: Deadline) -> Duration {
        match deadline.by {
            Some((clock, value)) => Duration::from_nanos(value.saturating_sub(self.shows(clock))),
            None => deadline.at.since(self.clock),
        }
    }

    /// How long it is until a timer expires; at least a nanosecond, if it runs.
    pub(super) fn left(&self, timer: &Timer) -> Duration {
        let left = timer.key.map(|(at, _)| self.left_until(Deadline { at, by: timer.by }));
        left.map_or(Duration::ZERO, |left| left.max(Duration::from_nanos(1)))
    }

    /// A timer that repeats was due then, and is now: how often it has expired, and when it does again.
    pub(super) fn again(&self, deadline: Deadline, interval: Duration) -> (u64, Option<Deadline>) {
        let Some((clock, value)) = deadline.by else { return (1, Some(Deadline { at: self.clock + interval, by: None })) };
        let header = self.arena.header();
        if !self.discipline.touched && header.clocks.line(clock).is_plain() {
            return (1, Some(self.after_by(clock, interval)));
        }
        // hrtimer_forward
        let interval = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX).max(1);
        let missed = self.shows(clock).saturating_sub(value) / interval;
        let next = value.saturating_add(missed.saturating_add(1).saturating_mul(interval));
        (missed.saturating_add(1), Some(self.at_value(clock, next)))
    }

    /// What CLOCK_REALTIME shows beyond CLOCK_MONOTONIC, in two's complement: ktime_mono_to_real(0).
    pub(super) fn date_offset(&self) -> u64 {
        let header = self.arena.header();
        header.clocks.epoch.load(Relaxed).wrapping_sub(header.clocks.boot.load(Relaxed))
    }

    /// CLOCK_REALTIME runs otherwise from now on.
    fn remember(&mut self) {
        let header = self.arena.header();
        let (line, epoch) = (header.clocks.line(Clock::Realtime), header.clocks.epoch.load(Relaxed));
        self.discipline.remember(self.clock.as_nanos(), line, epoch);
    }

    /// The date that a clock told at a time, of which the stack says that it is `date`: it knows a clock that runs as the world does.
    pub(super) fn date_of(&self, date: u64) -> u64 {
        let at = date.wrapping_sub(self.config.epoch_ns);
        match self.discipline.before.iter().find(|(until, ..)| at <= *until) {
            Some((_, line, epoch)) => line.value(*epoch, at),
            None => self.arena.header().clocks.shows(Clock::Realtime, at),
        }
    }

    /// Is [`Tree::date_of`] another date?
    pub(super) fn has_dates_of_its_own(&self) -> bool {
        self.discipline.touched || !self.arena.header().clocks.line(Clock::Realtime).is_plain()
    }

    /// Times in control messages of the stack's ([`Tree::date_of`]): SCM_TIMESTAMP and its kin.
    pub(super) fn date_control(&self, control: &mut [u8]) {
        // struct cmsghdr: the whole length (8 bytes), level, type.
        const HEADER: usize = 16;
        let mut at = 0;
        while let Some(head) = control.get(at..at + HEADER) {
            let long = |at: usize| head.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_ne_bytes);
            let (length, level, kind) = (long(0) as usize, long(8) as u32 as i32, (long(8) >> 32) as i32);
            // How many times there are, and nanoseconds of their second word.
            let (times, unit) = match kind {
                29 | 63 => (1, 1000),
                35 | 64 => (1, 1),
                37 | 65 => (3, 1),
                _ => (0, 1),
            };
            if level == libc::SOL_SOCKET {
                for time in 0..times {
                    if let Some(place) = control.get_mut(at + HEADER + 16 * time..at + HEADER + 16 * time + 16) {
                        self.date_time(place, unit);
                    }
                }
            }
            if length < HEADER {
                return;
            }
            at = at.saturating_add(length.next_multiple_of(8));
        }
    }

    /// A time of seconds and parts of `unit` nanoseconds; zero is none.
    pub(super) fn date_time(&self, place: &mut [u8], unit: u64) {
        let word = |at: usize| place.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_ne_bytes);
        let (seconds, parts) = (word(0), word(8));
        if (seconds, parts) == (0, 0) {
            return;
        }
        let date = self.date_of(seconds.wrapping_mul(NANOS as u64).wrapping_add(parts.wrapping_mul(unit)));
        let (seconds, parts) = (date / NANOS as u64, date % NANOS as u64 / unit);
        for (place, word) in place.chunks_exact_mut(8).zip([seconds, parts]) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
    }

    /// The clocks run otherwise from now on: whatever is due by them is due at another time.
    fn retime(&mut self) {
        let arena = std::sync::Arc::clone(&self.arena);
        let when = |clock: Clock, value: u64| Instant::from_nanos(arena.header().clocks.when(clock, value));
        for thread in self.tasks.threads.values_mut() {
            let state = match &mut thread.state {
                State::Stopped(inner) => inner.as_mut(),
                state => state,
            };
            let waits = if let State::Waiting(wait) = state { wait.deadline.as_mut() } else { None };
            for deadline in waits.into_iter().chain(thread.deadline.as_mut()) {
                deadline.at = deadline.by.map_or(deadline.at, |(clock, value)| when(clock, value));
            }
        }
        for (due, old, new) in self.timers.retime(when) {
            self.rekey(due, old, new);
        }
    }

    /// What is due has another key.
    fn rekey(&mut self, due: Due, old: Key, new: Key) {
        let place = match due {
            // Its deadline has been changed with it.
            Due::Thread { .. } => None,
            Due::Interval(process) => self.tasks.processes.get_mut(&process).map(|one| &mut one.timers.interval.key),
            Due::Posix(process, id) => {
                let process = self.tasks.processes.get_mut(&process);
                process.and_then(|one| one.timers.posix.get_mut(&id)).map(|posix| &mut posix.timer.key)
            }
            Due::File(inode) => match self.objects.body_mut(inode) {
                Some(Body::Timer(file)) => Some(&mut file.timer.key),
                _ => None,
            },
            Due::Second => Some(&mut self.discipline.next),
        };
        if let Some(key) = place.filter(|key| **key == Some(old)) {
            *key = Some(new);
        }
    }

    /// Tells `ntp` of the seconds that have begun since it was asked last.
    fn catch_up(&mut self) {
        let present = (self.shows(Clock::Realtime) / NANOS as u64) as i64;
        let before = self.discipline.second.replace(present).unwrap_or(present);
        if self.discipline.ntp.rests() {
            self.discipline.ntp.pass(present.saturating_sub(before).max(0) as u64);
        } else if before < present {
            self.discipline.second = Some(before);
        }
    }

    /// The rate is what `ntp` and the crystal say from now on; and the seconds are looked at, as long as anything happens in them.
    fn follow(&mut self, retime: bool) {
        let header = self.arena.header();
        let line = header.clocks.line(Clock::Monotonic);
        let (drift, rate) = (i128::from(header.clocks.line(Clock::Raw).rate), i128::from(self.discipline.ntp.rate()));
        let rate = drift + rate + drift * rate / i128::from(RATE_ONE);
        let turned = line.turned(self.clock.as_nanos(), rate as i64);
        if turned != line {
            self.remember();
            self.discipline.touched = true;
            self.arena.header().clocks.set_line(turned);
        }
        if turned != line || retime {
            self.retime();
        }
        if let Some(key) = self.discipline.next.take() {
            self.timers.remove(key);
        }
        if let Some(second) = self.discipline.second.filter(|_| !self.discipline.ntp.rests()) {
            let next = self.at_value(Clock::Realtime, (second.saturating_add(1)).saturating_mul(NANOS).max(0) as u64);
            self.discipline.next = Some(self.timers.add(next, Due::Second));
        }
    }

    /// A second of CLOCK_REALTIME begins.
    pub(super) fn second_begins(&mut self) {
        self.discipline.next = None;
        let Some(second) = self.discipline.second else { return };
        // The next one; or the present one, if a program has written over the words of its clocks.
        let present = (self.shows(Clock::Realtime) / NANOS as u64) as i64;
        let second = second.saturating_add(1).max(present);
        let leap = self.discipline.ntp.second(second);
        self.discipline.second = Some(second + leap);
        if leap != 0 {
            let header = self.arena.header();
            header.clocks.tai.fetch_sub(leap as u64, Relaxed);
            self.step(i128::from(leap) * i128::from(NANOS));
        }
        self.follow(leap != 0);
        if leap != 0 {
            self.clock_was_set();
        }
    }

    /// Sets CLOCK_REALTIME on.
    fn step(&mut self, by: i128) {
        self.remember();
        let header = self.arena.header();
        header.clocks.epoch.store(header.clocks.epoch.load(Relaxed).wrapping_add(by as u64), Relaxed);
        self.discipline.touched = true;
    }

    /// Sets CLOCK_REALTIME on, as do_settimeofday64 and timekeeping_inject_offset do. Refused or not, the discipline begins anew:
    /// "timekeeping_update(tk, TK_CLEAR_NTP | TK_MIRROR | TK_CLOCK_WAS_SET);" stands behind the label of errors, too.
    fn set_date(&mut self, by: i128) -> Result<(), Errno> {
        self.catch_up();
        let date = i128::from(self.shows(Clock::Realtime) as i64) + by;
        // "if (timespec64_compare(&tk->wall_to_monotonic, &ts_delta) > 0)": it would be before the boot.
        let good = date >= i128::from(self.shows(Clock::Monotonic) as i64) && date < i128::from(SECONDS_MAX) * i128::from(NANOS);
        if good {
            self.step(by);
        }
        self.discipline.ntp.clear();
        self.discipline.second = Some((self.shows(Clock::Realtime) / NANOS as u64) as i64);
        self.follow(true);
        self.clock_was_set();
        if good { Ok(()) } else { Err(Errno(libc::EINVAL)) }
    }

    /// timerfd_clock_was_set
    fn clock_was_set(&mut self) {
        let offset = self.date_offset();
        let mut cancelled = Vec::new();
        for inode in self.objects.inodes() {
            if let Some(Body::Timer(file)) = self.objects.body_mut(inode)
                && file.cancels
                && !file.cancelled
                && file.offset != offset
            {
                file.cancelled = true;
                file.expirations = file.expirations.saturating_add(1);
                cancelled.push(inode);
            }
        }
        for inode in cancelled {
            self.objects.note_change(inode, Poll::IN);
        }
    }

    /// Has the caller CAP_SYS_TIME?
    fn may_set(&self, asked: &Asked<'_>) -> bool {
        self.tasks.process_of(asked.thread).is_ok_and(|process| self.arena.may(process, CAP_SYS_TIME))
    }

    /// do_sys_settimeofday64: a date in nanoseconds since 1970, and a zone.
    fn set_time_of_day(&mut self, asked: &Asked<'_>, date: Option<[i64; 2]>, zone: Option<[i32; 2]>) -> Result<Outcome, Errno> {
        // timespec64_valid_settod
        let is_date = |[seconds, nanos]: [i64; 2]| (0..SECONDS_MAX).contains(&seconds) && (0..NANOS).contains(&nanos);
        if date.is_some_and(|date| !is_date(date)) {
            return Err(Errno(libc::EINVAL));
        }
        if !self.may_set(asked) {
            return Err(Errno(libc::EPERM));
        }
        if let Some([west, summer]) = zone {
            if !(-ZONE_MAX..=ZONE_MAX).contains(&west) {
                return Err(Errno(libc::EINVAL));
            }
            let words = u64::from(west as u32) | u64::from(summer as u32) << 32;
            self.arena.header().clocks.zone.store(words, Relaxed);
            // timekeeping_warp_clock: the clock of the machine is thought to be a local one.
            if !std::mem::replace(&mut self.discipline.has_zone, true) && date.is_none() && west != 0 {
                let _ = self.set_date(i128::from(west) * 60 * i128::from(NANOS));
            }
        }
        if let Some([seconds, nanos]) = date {
            let date = i128::from(seconds) * i128::from(NANOS) + i128::from(nanos);
            self.set_date(date - i128::from(self.shows(Clock::Realtime) as i64))?;
        }
        Ok(Outcome::Done(0))
    }

    /// clock_settime(2)
    pub(super) fn clock_settime(&mut self, asked: &Asked<'_>, call: calls::ClockSettime, _: &mut dyn Outside) -> Result<Outcome, Errno> {
        let named = Named::of(call.which_clock.get());
        if matches!(named, Named::Unknown | Named::Other) {
            return Err(Errno(libc::EINVAL));
        }
        let date = words(asked, call.tp.0 as u64)?;
        match named {
            Named::File => Err(Errno(libc::EINVAL)),
            // posix_cpu_clock_set: "You can never reset a CPU clock, but we check for other errors in the call before failing with EPERM."
            Named::Cpu => self.tasks.cpu_clock(asked.thread, call.which_clock.get(), true).and(Err(Errno(libc::EPERM))),
            _ => self.set_time_of_day(asked, Some(date), None),
        }
    }

    /// settimeofday(2)
    pub(super) fn settimeofday(&mut self, asked: &Asked<'_>, call: calls::Settimeofday, _: &mut dyn Outside) -> Result<Outcome, Errno> {
        let date = match call.tv.0 {
            0 => None,
            at => {
                let [seconds, micros] = words(asked, at as u64)?;
                // "if (new_ts.tv_nsec > USEC_PER_SEC || new_ts.tv_nsec < 0)": a million is found later.
                if !(0..=1_000_000).contains(&micros) {
                    return Err(Errno(libc::EINVAL));
                }
                Some([seconds, micros * 1000])
            }
        };
        let zone = match call.tz.0 {
            0 => None,
            at => {
                let mut bytes = [0; 8];
                asked.caller.read(at as u64, &mut bytes)?;
                let word = u64::from_ne_bytes(bytes);
                Some([word as i32, (word >> 32) as i32])
            }
        };
        self.set_time_of_day(asked, date, zone)
    }

    /// adjtimex(2)
    pub(super) fn adjtimex(&mut self, asked: &Asked<'_>, call: calls::Adjtimex, _: &mut dyn Outside) -> Result<Outcome, Errno> {
        let at = call.txc.0 as u64;
        let mut bytes = [0; Timex::BYTES];
        asked.caller.read(at, &mut bytes)?;
        let done = self.adjust(asked, &mut bytes);
        // "return copy_to_user(txc_p, &txc, sizeof(struct __kernel_timex)) ? -EFAULT : ret;", whatever that is.
        asked.caller.write(at, &bytes)?;
        done
    }

    /// clock_adjtime(2)
    pub(super) fn clock_adjtime(&mut self, asked: &Asked<'_>, call: calls::ClockAdjtime, _: &mut dyn Outside) -> Result<Outcome, Errno> {
        let at = call.utx.0 as u64;
        let mut bytes = [0; Timex::BYTES];
        asked.caller.read(at, &mut bytes)?;
        match Named::of(call.which_clock.get()) {
            Named::Realtime => {}
            Named::File | Named::Unknown => return Err(Errno(libc::EINVAL)),
            Named::Other | Named::Cpu => return Err(Errno(libc::EOPNOTSUPP)),
        }
        let done = self.adjust(asked, &mut bytes)?;
        asked.caller.write(at, &bytes)?;
        Ok(done)
    }

    /// do_adjtimex
    fn adjust(&mut self, asked: &Asked<'_>, bytes: &mut [u8; Timex::BYTES]) -> Result<Outcome, Errno> {
        let mut request = Timex::of(bytes);
        request.check(self.may_set(asked)).map_err(|refused| match refused {
            Refused::Right => Errno(libc::EPERM),
            Refused::Value => Errno(libc::EINVAL),
        })?;
        if request.modes & ntp::ADJ_SETOFFSET != 0 {
            let [seconds, part] = request.time;
            let part = if request.modes & ntp::ADJ_NANO != 0 { part } else { part * 1000 };
            self.set_date(i128::from(seconds) * i128::from(NANOS) + i128::from(part))?;
        }
        self.catch_up();
        let date = self.shows(Clock::Realtime);
        let before = self.arena.header().clocks.tai.load(Relaxed) as i32;
        let mut tai = before;
        let result = self.discipline.ntp.adjust(&mut request, date, &mut tai);
        if tai != before {
            self.arena.header().clocks.tai.store(i64::from(tai) as u64, Relaxed);
        }
        self.follow(tai != before);
        if tai != before {
            self.clock_was_set();
        }
        request.put(bytes);
        Ok(Outcome::Done(i64::from(result)))
    }
}

/// Seconds, and parts of one.
fn words(asked: &Asked<'_>, at: u64) -> Result<[i64; 2], Errno> {
    let mut bytes = [0; 16];
    asked.caller.read(at, &mut bytes)?;
    let word = |at: usize| bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, i64::from_ne_bytes);
    Ok([word(0), word(8)])
}
