//! Calls that programs answer by themselves, ahead of the controller (`guest/ahead.rs`). Here is what they need for it, and how the calls are made
//! good.
//!
//! A program may run ahead while it is the node's only thread that could run, nothing from outside can reach the node, and no timer of the
//! node is due. What its sockets would answer until then follows from their state alone, which mirrors show. What it did stands in its channel's
//! log, and is done here through the very code that would have answered, at the same virtual time. A result that differs is a fault of ours, and
//! ends what the run says about itself: it is reported as not reproducible.

use super::answer::Outcome;
use super::arena::Arena;
use super::guest::{Guest, Posted};
use super::ids::ThreadId;
use super::object::Body;
use super::outside::{Outside, ToCome};
use super::{State, Thread, Tree};
use crate::face::{SocketId, Stack};
use crate::memory::Memory as _;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use weft_core::Instant;
use weft_loader::abi::{self, ADDRESS_BYTES, Logged, MIRROR_BYTES, MIRROR_MESSAGES, MIRRORS, Mirror};

/// With more threads than this nobody runs ahead: looking at all of them would cost more.
const THREADS_MAX: usize = 8;

/// With more doubts than this no more are told.
const DOUBTS_MAX: usize = 16;

/// Bytes of a stream that a mirror shows, at most: whoever reads larger pieces comes with one trip for more.
const STREAM_BYTES_SHOWN: usize = 4096;

/// A socket with a mirror.
#[derive(Debug)]
struct Shown {
    inode: u64,
    socket: SocketId,
    /// Not as its mirror shows it.
    stale: bool,
    /// Longest datagram that was taken.
    longest: usize,
    /// A `sockaddr` to which a datagram was taken, and which is not this node's own.
    peer: Vec<u8>,
    /// The same of the peer that it is connected to, to which it sends, or from which it receives.
    elsewhere: bool,
    /// Whoever read it last had to wait: it is worth while to tell what is still to come.
    awaited: bool,
}

/// The sockets with mirrors.
#[derive(Debug, Default)]
pub(super) struct Shows {
    slots: [Option<Shown>; MIRRORS],
    /// Who gives way next.
    next: usize,
    /// The trace when the call that is made good was made.
    pub trace: Option<u64>,
    /// Where the poll set of the call that is made good lies in the log of its channel.
    pub entries: Option<usize>,
    /// Calls that were made good.
    pub calls: u64,
    /// As in the header, for the thread that runs: see [`abi::Header`].
    pub quiet: Instant,
    pub arrival: Instant,
    pub far: Instant,
    /// So far it may go by itself in any way.
    pub limit: Instant,
}

impl Shows {
    fn of(&mut self, inode: u64) -> Option<&mut Shown> {
        self.slots.iter_mut().flatten().find(|shown| shown.inode == inode)
    }
    /// The socket is not what it was.
    pub fn changed(&mut self, socket: SocketId) {
        self.slots.iter_mut().flatten().filter(|shown| shown.socket == socket).for_each(|shown| shown.stale = true);
    }
    /// The node is not what it was: who is elsewhere has to be asked anew.
    pub fn disturbed(&mut self) {
        for shown in self.slots.iter_mut().flatten() {
            (shown.stale, shown.longest, shown.elsewhere) = (true, 0, false);
            shown.peer.clear();
        }
    }
    /// The object is gone.
    pub fn forget(&mut self, inode: u64, arena: &Arena) {
        for (index, slot) in self.slots.iter_mut().enumerate() {
            if slot.as_ref().is_some_and(|shown| shown.inode == inode) {
                *slot = None;
                arena.header().mirrors[index].store(0, Relaxed);
            }
        }
    }
}

impl Tree {
    /// A call on an object was answered: what its mirror shows is old, and what moved data earns one.
    pub(super) fn note_call(&mut self, thread: ThreadId, posted: &Posted, result: i64, guest: &Guest<'_>, outside: &mut dyn Outside) {
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
        let Some(Body::Socket(socket)) = self.objects.get(&inode).map(|object| &object.body) else { return };
        let socket = *socket;
        if self.shows.of(inode).is_none() {
            self.show(inode, socket);
        }
        let waited = self.threads.get(&thread).is_some_and(|one| one.held);
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
            let Ok(name) = guest.read_address(posted.arguments[4], posted.int(5)) else { return };
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
        let Some(quiet) = outside.quiet_until().filter(|_| self.config.ahead && !self.config.tell_calls) else { return Instant::ZERO };
        // How far it may go by its own clocks is told for one that does not sleep on the way.
        let timed = self.cpu_left(thread).is_some();
        if timed || !self.queue.is_empty() || self.closing || self.threads.len() > THREADS_MAX || !self.is_alone(thread) {
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
        self.threads.iter().filter(|(id, _)| **id != thread).all(|(_, other)| match &other.state {
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
        if let Some(thread) = self.threads.get_mut(&thread) {
            thread.begin_call();
        }
        let arena = Arc::clone(&self.arena);
        let posted = Posted { number: one.number, arguments: one.arguments, descriptor: one.descriptor };
        let guest = Guest::logged(&arena.channel(thread).log, at, one.copies);
        self.shows.calls += 1;
        self.shows.trace = Some(one.trace);
        self.shows.entries = (posted.number == abi::POLL).then(|| at.saturating_add(one.copies[0][2] as usize));
        let outcome = match posted.number as i64 {
            libc::SYS_nanosleep | libc::SYS_clock_nanosleep => {
                let deadline = self.deadline_of_sleep(&posted, &guest).map(|deadline| deadline.max(self.clock));
                self.clock = ended;
                outside.advance(ended.min(outside.grant()));
                deadline.map(|deadline| Outcome::Done(if deadline == ended { 0 } else { i64::MIN }))
            }
            _ => {
                if ended > self.clock {
                    self.come_to(thread, ended, outside);
                }
                self.dispatch(thread, &posted, &guest, outside)
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
        self.note_call(thread, &posted, result, &guest, outside);
        let output = guest.output();
        self.tell(thread, &posted, result, if result < 0 { &[] } else { &output }, outside);
        self.shows.trace = None;
    }

    /// A thread that waits goes on at this time, as what it waits for comes then.
    fn come_to(&mut self, thread: ThreadId, at: Instant, outside: &mut dyn Outside) {
        self.clock = at;
        outside.advance(at.min(outside.grant()));
        self.changed.extend(outside.take_changed());
        self.wake_for_sockets(outside);
        if let Some(one) = self.threads.get_mut(&thread) {
            one.held = true;
        }
    }

    /// A program was told something that was not so.
    fn missed(&mut self, thread: ThreadId, what: &str) {
        let process = self.threads.get(&thread).and_then(|thread| self.processes.get(&thread.process));
        let name = process.map_or_else(String::new, |process| format!("{} (process {})", process.name, process.pid));
        tracing::error!(node = %self.config.name, "{name} was told something wrong, which is a bug in weft: {what}");
        let line = format!("{name} was told something wrong: {what}");
        if self.doubts.len() < DOUBTS_MAX && !self.doubts.contains(&line) {
            self.doubts.push(line);
        }
    }
}

impl Thread {
    /// What a call begins with.
    pub(super) fn begin_call(&mut self) {
        self.deadline = None;
        self.expired = false;
        self.held = false;
        self.moved = 0;
        self.cpu_until = None;
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

/// Appends to a mirror what will come to its stream. False: there is no room.
fn put_coming(mirror: &Mirror, at: Instant, pieces: &mut dyn Iterator<Item = &[u8]>) -> bool {
    let index = mirror.coming_count.load(Relaxed) as usize;
    let Some(told) = mirror.coming.get(index) else { return false };
    let from =
        mirror.count.load(Relaxed) as usize + mirror.coming[..index].iter().map(|piece| piece.bytes.load(Relaxed) as usize).sum::<usize>();
    let mut bytes = 0;
    for piece in pieces {
        let put = mirror.data.put(from + bytes, piece);
        bytes += put;
        if put < piece.len() {
            return false;
        }
    }
    told.at.store(at.as_nanos(), Relaxed);
    told.bytes.store(bytes as u32, Relaxed);
    mirror.coming_count.store(index as u32 + 1, Relaxed);
    true
}

/// Writes into a mirror what its socket shows.
fn publish(mirror: &Mirror, shown: &Shown, stack: &mut dyn Stack) {
    for word in [&mirror.flags, &mirror.count, &mirror.taken, &mirror.sends, &mirror.peer_bytes, &mirror.coming_count, &mirror.come] {
        word.store(0, Relaxed);
    }
    mirror.sent.store(0, Relaxed);
    stack.preview(shown.socket, &mut |preview| {
        let Some(preview) = preview else { return };
        let connected = preview.connected && shown.elsewhere;
        let mut flags = abi::MIRROR_SHOWS;
        let mut set = |is: bool, flag: u32| flags |= if is { flag } else { 0 };
        set(preview.stream, abi::MIRROR_STREAM);
        set(connected, abi::MIRROR_CONNECTED);
        set(preview.sends && (connected || !shown.peer.is_empty()), abi::MIRROR_SEND);
        // Reading opens the window of a peer: one on this node may send more, or its end, at once.
        if preview.receives && (!preview.stream || shown.elsewhere) {
            set(true, abi::MIRROR_RECEIVE);
            let whole = if preview.stream { put_bytes(mirror, &preview) } else { put_messages(mirror, &preview) };
            set(whole, abi::MIRROR_WHOLE);
        }
        mirror.readiness.store(preview.readiness.0, Relaxed);
        mirror.room.store(preview.room as u64, Relaxed);
        mirror.longest.store(shown.longest as u64, Relaxed);
        mirror.peer.put(0, &shown.peer);
        mirror.peer_bytes.store(shown.peer.len() as u32, Relaxed);
        mirror.flags.store(flags, Relaxed);
    });
}

/// The first bytes of a stream that nobody has read. True: those are all.
fn put_bytes(mirror: &Mirror, preview: &weft_socket::Preview<'_>) -> bool {
    let mut at = 0;
    for piece in preview.waiting.pieces() {
        let part = &piece[..piece.len().min(STREAM_BYTES_SHOWN - at)];
        at += mirror.data.put(at, part);
        if part.len() < piece.len() {
            mirror.count.store(at as u32, Relaxed);
            return false;
        }
    }
    mirror.count.store(at as u32, Relaxed);
    true
}

/// The datagrams that were received, as many as there is room for. True: those are all.
fn put_messages(mirror: &Mirror, preview: &weft_socket::Preview<'_>) -> bool {
    let (mut at, mut count) = (0, 0);
    for (from, data, bytes) in preview.waiting.iter() {
        let end = at + ADDRESS_BYTES + bytes.next_multiple_of(8);
        if count == MIRROR_MESSAGES || end > MIRROR_BYTES || from.len() > ADDRESS_BYTES {
            mirror.count.store(count as u32, Relaxed);
            return false;
        }
        mirror.data.put(at, &from);
        let mut into = at + ADDRESS_BYTES;
        for piece in data {
            into += mirror.data.put(into, piece);
        }
        let piece = &mirror.messages[count];
        piece.at.store(at as u32, Relaxed);
        piece.bytes.store(bytes as u32, Relaxed);
        piece.from_bytes.store(from.len() as u32, Relaxed);
        (at, count) = (end, count + 1);
    }
    mirror.count.store(count as u32, Relaxed);
    true
}
