//! Calls that programs answer by themselves, ahead of the controller (`guest/ahead.rs`). Here is what they need for it, and how the calls are made
//! good.
//!
//! A program may run ahead while it is the node's only thread that could run, nothing from outside can reach the node, and no timer of the
//! node is due. What its sockets would answer until then follows from their state alone, which mirrors show. What it did stands in its channel's
//! log, and is done here through the very code that would have answered, at the same virtual time. A result that differs is a fault of ours, and
//! ends what the run says about itself: it is reported as not reproducible.

use super::caller::{Caller, Posted};
use super::ids::ThreadId;
use super::mirrors::{Shown, publish, put_coming};
use super::object::Body;
use super::outcome::Outcome;
use super::outside::{Outside, ToCome};
use super::state::State;
use super::tree::Tree;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use weft_core::Instant;
use weft_intercept::face::SocketId;
use weft_intercept::memory::Memory as _;
use weft_loader::abi::{self, ADDRESS_BYTES, Logged, MIRRORS};

/// With more threads than this nobody runs ahead: looking at all of them would cost more.
const THREADS_MAX: usize = 8;

/// With more doubts than this no more are told.
const DOUBTS_MAX: usize = 16;

impl Tree {
    /// A call on an object was answered: what its mirror shows is old, and what moved data earns one.
    pub(super) fn note_call(&mut self, thread: ThreadId, posted: &Posted, result: i64, caller: &Caller<'_>, outside: &mut dyn Outside) {
        let number = posted.number as i64;
        let sends = matches!(number, libc::SYS_sendto | libc::SYS_write);
        let receives = matches!(number, libc::SYS_recvfrom | libc::SYS_read);
        let inode = posted.inode();
        if !sends && !receives {
            if let Some(shown) = self.shows.of(inode) {
                shown.stale = true;
                if matches!(number, libc::SYS_setsockopt | libc::SYS_connect | libc::SYS_bind | libc::SYS_shutdown) {
                    (shown.longest, shown.elsewhere) = (0, false);
                    shown.peer.clear();
                }
            }
            return;
        }
        let Some(Body::Socket(socket)) = self.objects.body(inode) else { return };
        let socket = *socket;
        if self.shows.of(inode).is_none() {
            self.show(inode, socket);
        }
        let waited = self.tasks.threads.get(&thread).is_some_and(|one| one.held);
        let Some(shown) = self.shows.of(inode) else { return };
        shown.stale = true;
        if receives {
            shown.awaited = waited;
        } else if result <= 0 {
            return;
        }
        if sends {
            shown.longest = shown.longest.max(result as usize);
        }
        if number == libc::SYS_sendto && posted.arguments[4] != 0 {
            let Ok(name) = caller.read_address(posted.arguments[4], posted.int(5)) else { return };
            if name != shown.peer && name.len() <= ADDRESS_BYTES {
                let elsewhere = outside.stack().is_elsewhere(socket, Some(&name));
                if let Some(shown) = self.shows.of(inode) {
                    shown.peer = if elsewhere { name } else { Vec::new() };
                }
            }
        } else if !shown.elsewhere {
            let elsewhere = outside.stack().is_elsewhere(socket, None);
            if let Some(shown) = self.shows.of(inode) {
                shown.elsewhere = elsewhere;
            }
        }
    }

    fn show(&mut self, inode: u64, socket: SocketId) {
        let free = self.shows.slots.iter().position(Option::is_none);
        let index = free.unwrap_or(self.shows.next % MIRRORS);
        self.shows.next = index + 1;
        let shown = Shown { inode, socket, stale: true, longest: 0, peer: Vec::new(), elsewhere: false, awaited: false };
        self.shows.slots[index] = Some(shown);
        self.arena.header().mirrors[index].store(inode, Relaxed);
    }

    /// Until when a thread that now gets the processor may answer for the controller, which is not beyond `limit`. Brings the mirrors up to date for it.
    /// `due`: when something of the programs' own is, at which none of them goes on by itself.
    pub(super) fn look_ahead(&mut self, thread: ThreadId, limit: Instant, due: Instant, outside: &mut dyn Outside) -> Instant {
        let Some(quiet) = outside.quiet_until().filter(|_| self.config.ahead && !self.config.tell_calls && !self.maps_rings) else {
            return Instant::ZERO;
        };
        // How far it may go by its own clocks is told for one that does not sleep on the way.
        let timed = self.cpu_left(thread).is_some();
        if timed
            || !self.tasks.queue.is_empty()
            || self.objects.may_be_closed()
            || self.tasks.threads.len() > THREADS_MAX
            || !self.is_alone(thread)
        {
            return Instant::ZERO;
        }
        for (index, slot) in self.shows.slots.iter_mut().enumerate() {
            let Some(shown) = slot.as_mut().filter(|shown| shown.stale) else { continue };
            shown.stale = false;
            publish(self.arena.mirror(index), shown, outside.stack());
        }
        self.shows.arrival = due.min(outside.grant());
        self.tell_what_comes(due.min(quiet), outside);
        (self.shows.quiet, self.shows.far) = (quiet, due.min(outside.grant()));
        limit.min(quiet)
    }

    /// Tells a program that waits for bytes of a stream again and again what will come before `end`.
    fn tell_what_comes(&mut self, end: Instant, outside: &mut dyn Outside) {
        let (slots, arena) = (&mut self.shows.slots, &self.arena);
        if !slots.iter().flatten().any(|shown| shown.awaited) {
            return;
        }
        let wanted = abi::MIRROR_STREAM | abi::MIRROR_RECEIVE | abi::MIRROR_WHOLE;
        outside.foresee(&mut |ToCome { socket, at, pieces }| {
            let Some(index) = slots.iter().position(|slot| slot.as_ref().is_some_and(|shown| shown.socket == socket && shown.awaited))
            else {
                return false;
            };
            let mirror = arena.mirror(index);
            if mirror.flags.load(Relaxed) & wanted != wanted || at >= end {
                return false;
            }
            // Not shown any more as it is here.
            slots[index].iter_mut().for_each(|shown| shown.stale = true);
            put_coming(mirror, at, pieces)
        });
    }

    /// Nothing that this thread does ahead can make another one run.
    fn is_alone(&self, thread: ThreadId) -> bool {
        self.tasks.threads.iter().filter(|(id, _)| **id != thread).all(|(_, other)| match &other.state {
            State::Waiting(wait) => wait.sockets.is_empty() && wait.objects.is_empty() && !wait.native,
            State::Starting | State::Runnable | State::Stopped(_) => false,
        })
    }

    /// Makes good what a thread has answered ahead. How long of this time it has waited, and when it went on after that the last time.
    pub(super) fn make_good(&mut self, thread: ThreadId, outside: &mut dyn Outside) -> (Duration, Option<Instant>) {
        let arena = Arc::clone(&self.arena);
        let channel = arena.channel(thread);
        let count = channel.logged.swap(0, Relaxed);
        let used = (channel.log_bytes.swap(0, Relaxed) as usize).min(abi::LOG_BYTES);
        let limit = Instant::from_nanos(arena.header().ahead.load(Relaxed)).min(self.shows.limit);
        let (mut at, mut waited, mut went_on) = (0, Duration::ZERO, None);
        for _ in 0..count {
            let mut words = [0_u8; size_of::<Logged>()];
            if at + words.len() > used || channel.log.get(at, &mut words) < words.len() {
                self.missed(thread, "a log that ends too early");
                break;
            }
            let one = parse(&words);
            self.clock = Instant::from_nanos(one.at).clamp(self.clock, limit.max(self.clock));
            outside.advance(self.clock.min(outside.grant()));
            self.changed.extend(outside.take_changed());
            self.wake_for_sockets(outside);
            let ended = Instant::from_nanos(one.ended).clamp(self.clock, limit.max(self.clock));
            if ended > self.clock {
                (waited, went_on) = (waited + (ended - self.clock), Some(ended));
            }
            self.make_one_good(thread, at, &one, ended, outside);
            self.changed.extend(outside.take_changed());
            self.wake_for_sockets(outside);
            self.settle(outside);
            at += (one.bytes as usize).max(words.len());
        }
        outside.forget_foreseen();
        (waited, went_on)
    }

    fn make_one_good(&mut self, thread: ThreadId, at: usize, one: &Logged, ended: Instant, outside: &mut dyn Outside) {
        if let Some(thread) = self.tasks.threads.get_mut(&thread) {
            thread.begin_call();
        }
        let arena = Arc::clone(&self.arena);
        let posted = Posted { number: one.number, arguments: one.arguments, descriptor: one.descriptor };
        let caller = Caller::logged(&arena.channel(thread).log, at, one.copies);
        self.shows.calls += 1;
        self.shows.trace = Some(one.trace);
        self.shows.entries = (posted.number == abi::POLL).then(|| at.saturating_add(one.copies[0][2] as usize));
        let outcome = match posted.number as i64 {
            libc::SYS_nanosleep | libc::SYS_clock_nanosleep => {
                let deadline = self.deadline_of_sleep(&posted, &caller).map(|deadline| deadline.at.max(self.clock));
                self.clock = ended;
                outside.advance(ended.min(outside.grant()));
                deadline.map(|deadline| Outcome::Done(if deadline == ended { 0 } else { i64::MIN }))
            }
            _ => {
                if ended > self.clock {
                    self.come_to(thread, ended, outside);
                }
                self.dispatch(thread, &posted, &caller, outside)
            }
        };
        self.shows.entries = None;
        let result = match outcome {
            Ok(Outcome::Done(result)) => result,
            Err(errno) => -i64::from(errno.0),
            Ok(_) => i64::MIN,
        };
        if result != one.result {
            self.missed(thread, &format!("call {} answered {} and came to {result}", one.number, one.result));
        }
        self.note_call(thread, &posted, result, &caller, outside);
        let output = caller.output();
        self.tell(thread, &posted, result, if result < 0 { &[] } else { &output }, outside);
        self.shows.trace = None;
    }

    /// A thread that waits goes on at this time, as what it waits for comes then.
    fn come_to(&mut self, thread: ThreadId, at: Instant, outside: &mut dyn Outside) {
        self.clock = at;
        outside.advance(at.min(outside.grant()));
        self.changed.extend(outside.take_changed());
        self.wake_for_sockets(outside);
        if let Some(one) = self.tasks.threads.get_mut(&thread) {
            one.held = true;
        }
    }

    /// A program was told something that was not so.
    fn missed(&mut self, thread: ThreadId, what: &str) {
        let process = self.tasks.threads.get(&thread).and_then(|thread| self.tasks.processes.get(&thread.process));
        let name = process.map_or_else(String::new, |process| format!("{} (process {})", process.name, process.pid));
        tracing::error!(node = %self.config.name, "{name} was told something wrong, which is a bug in weft: {what}");
        let line = format!("{name} was told something wrong: {what}");
        if self.ledger.doubts().len() < DOUBTS_MAX && !self.ledger.has_doubt(&line) {
            self.ledger.add_doubt(line);
        }
    }
}

fn parse(bytes: &[u8; size_of::<Logged>()]) -> Logged {
    let word = |index: usize| bytes.get(8 * index..8 * index + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_ne_bytes);
    Logged {
        at: word(0),
        ended: word(1),
        trace: word(2),
        number: word(3),
        arguments: std::array::from_fn(|index| word(4 + index)),
        descriptor: word(10),
        result: word(11) as i64,
        copies: std::array::from_fn(|copy| std::array::from_fn(|index| word(12 + 3 * copy + index))),
        bytes: word(18),
    }
}
