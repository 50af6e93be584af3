//! Programs in real time (`weft run --strict`): the loader as in virtual time, and nearly everything else the kernel's.
//!
//! All threads run when they like. A thread that makes a call about a socket takes a channel, posts the call and rings; [`Tree::serve`] answers at once
//! or parks it, and wakes it by its eventfd when the answer is there. Sockets, and what waits for them, are the same code as in virtual time; the
//! clock is the caller's. Processes, signals, time, files, pipes and epolls are the kernel's: an epoll learns by an eventfd of ours that some of its
//! sockets are ready ([`poller`]).

mod epoll;
mod launch;
mod poller;
mod state;
mod told;

use super::brought::Brought;
use super::caller::{self, Caller, Posted};
use super::child::first_free;
use super::config::Config;
use super::error::StartError;
use super::ids::{ProcessId, ThreadId};
use super::object::{Body, Object};
use super::outcome::Outcome;
use super::outside::Outside;
use super::state::{Process, State, Thread};
use super::tree::Tree;
use poller::Poller;
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use weft_core::Instant;
use weft_intercept::arch;
use weft_intercept::face::SocketId;
use weft_intercept::memory::LATER;
use weft_intercept::sys::{self, Errno};
use weft_loader::abi::{self, Channel, Clock, strict};

pub use launch::{Loading, Parts};
pub(super) use state::Real;

/// Rounds of "threads were answered, so they call again" in one turn.
const ROUNDS_MAX: usize = 16;
/// Events of [`Real::watch`] taken at a time.
const EVENTS_MAX: usize = 128;
/// Tokens in [`Real::watch`]: inodes of objects have none of these bits.
const TOKEN_BELL: u64 = 1 << 62;
const TOKEN_CONTROL: u64 = 2 << 61 | 1;
const TOKEN_PROCESS: u64 = 1 << 63;

impl Tree {
    /// A tree for a program in real time, of which [`Loading::new`] gave the parts.
    ///
    /// # Errors
    /// They are no such parts; no memory, or no descriptors.
    pub fn real(name: &str, parts: Parts) -> Result<Tree, StartError> {
        let failed = |step| move |errno| StartError::Step { step, errno };
        let Parts { arena, control, bell } = parts;
        let arena = super::arena::Arena::map(&arena).map_err(failed("map the memory that is shared with programs"))?;
        let init = super::launch::Init::none(control).map_err(failed("use a socket pair"))?;
        let header = arena.header();
        header.flags.store(abi::STRICT, Relaxed);
        header.controller_pid.store(std::process::id(), Relaxed);
        let config = Config { name: name.to_owned(), ahead: false, ..Config::default() };
        let watch = sys::epoll().map_err(failed("make an epoll"))?;
        let real = Real {
            watch,
            bell,
            wakes: BTreeMap::new(),
            made: BTreeMap::new(),
            passages: BTreeMap::new(),
            brought: BTreeMap::new(),
            pollers: BTreeMap::new(),
            orphans: VecDeque::new(),
            watchers: BTreeMap::new(),
            ready: true,
            processes: 0,
            ended: false,
        };
        real.watch(real.bell.as_fd(), TOKEN_BELL, libc::EPOLLIN).map_err(failed("watch an eventfd"))?;
        real.watch(init.control.as_fd(), TOKEN_CONTROL, libc::EPOLLIN).map_err(failed("watch a socket"))?;
        Ok(Tree { real: Some(real), ..Tree::with(arena, init, config) })
    }

    /// Readable when [`Tree::serve`] has something to do.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.real.as_ref().map(|real| real.watch.as_fd())
    }

    /// When [`Tree::serve`] wants to be called at the latest.
    pub fn next_timer(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// No process of it is left.
    pub fn has_ended(&self) -> bool {
        self.real.as_ref().is_none_or(|real| real.ended)
    }

    /// [`Tree::descriptor`] is readable.
    pub fn ready(&mut self) {
        if let Some(real) = &mut self.real {
            real.ready = true;
        }
    }

    /// Is it a socket of its programs?
    pub fn has(&self, socket: SocketId) -> bool {
        self.objects.of_socket(socket).is_some()
    }

    /// Closes what programs have left behind: nobody of the tree is there any more.
    pub fn close_all(&mut self, outside: &mut dyn Outside) {
        let threads: Vec<ThreadId> = self.tasks.threads.keys().copied().collect();
        threads.into_iter().for_each(|thread| self.remove_thread(thread, outside));
        let objects: Vec<u64> = self.objects.inodes();
        objects.into_iter().for_each(|inode| self.drop_object(inode, outside));
    }

    /// How many sockets programs hold.
    pub fn objects(&self) -> usize {
        self.objects.len()
    }

    /// Answers what was asked, and who waits for sockets that have changed since.
    pub fn serve(&mut self, now: Instant, outside: &mut dyn Outside) {
        if self.real.is_none() {
            return;
        }
        self.clock = self.clock.max(now);
        let arena = std::sync::Arc::clone(&self.arena);
        let header = arena.header();
        header.asleep.store(0, SeqCst);
        for round in 0.. {
            let rung = self.take_rung();
            if !rung.is_empty() || self.real.as_mut().is_some_and(|real| std::mem::take(&mut real.ready)) {
                // Whoever rang has told before what it rang about; whoever closed something before that has hung up.
                self.listen(outside);
                self.look_around(outside);
            }
            for thread in rung {
                // A limit of time counts from when the call came, and this may be long after `now`.
                self.clock = self.clock.max(outside.stack().now());
                self.serve_thread(thread, outside);
                // Over the loopback a packet and its answer arrive within the call that sends it, so the thread goes on when they have.
                outside.stack().run();
                self.carry_changes(outside);
                self.release_answered();
            }
            self.carry_changes(outside);
            self.fire_timers(outside);
            self.settle(outside);
            self.release_answered();
            if !self.is_rung() {
                header.asleep.store(1, SeqCst);
                if !self.is_rung() {
                    return;
                }
                header.asleep.store(0, SeqCst);
            }
            if round == ROUNDS_MAX {
                // Others want their turn, too.
                header.asleep.store(1, SeqCst);
                if let Some(real) = &self.real {
                    sys::raise_event(real.bell.as_fd());
                }
                return;
            }
        }
    }

    /// What sockets show that have changed, and who waits for that.
    fn carry_changes(&mut self, outside: &mut dyn Outside) {
        self.changed.extend(outside.take_changed());
        if !self.changed.is_empty() {
            self.wake_for_sockets(outside);
            self.settle(outside);
        }
    }

    fn is_rung(&self) -> bool {
        self.arena.header().rung.iter().any(|word| word.load(SeqCst) != 0)
    }

    /// The channels that want to be looked at.
    fn take_rung(&self) -> Vec<ThreadId> {
        let mut rung = Vec::new();
        for (index, word) in self.arena.header().rung.iter().enumerate() {
            let mut bits = if word.load(Relaxed) == 0 { 0 } else { word.swap(0, SeqCst) };
            while bits != 0 {
                rung.push(64 * index + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
        rung
    }

    /// Descriptors that were closed for good, processes that have ended.
    fn look_around(&mut self, outside: &mut dyn Outside) {
        loop {
            let Some(real) = &self.real else { return };
            let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS_MAX];
            // SAFETY: room for so many events.
            let count = unsafe { libc::epoll_wait(real.watch.as_raw_fd(), events.as_mut_ptr(), EVENTS_MAX as i32, 0) };
            let count = usize::try_from(count).unwrap_or(0);
            let (mut sockets, mut others, mut news) = (Vec::new(), Vec::new(), false);
            for event in &events[..count] {
                let token = event.u64;
                match token {
                    TOKEN_BELL => sys::clear_event(real.bell.as_fd()),
                    TOKEN_CONTROL => {}
                    token if token & TOKEN_PROCESS != 0 => {
                        others.push((token & !TOKEN_PROCESS) as ProcessId);
                        news = true;
                    }
                    inode => {
                        sockets.push(inode);
                        news = true;
                    }
                }
            }
            for inode in sockets {
                self.drop_object(inode, outside);
            }
            for process in others {
                self.process_is_gone(process, outside);
            }
            if !news || count < EVENTS_MAX {
                return;
            }
        }
    }

    /// What threads tell over the control socket.
    fn listen(&mut self, outside: &mut dyn Outside) {
        loop {
            let (told, fd, pid) = match told::receive(self.init.control.as_fd()) {
                Ok(Some(told)) => told,
                Ok(None) => return,
                Err(()) => {
                    let Some(real) = &mut self.real else { return };
                    if !real.ended {
                        real.ended = true;
                        // SAFETY: a descriptor of ours that the epoll watches; it would go on saying so.
                        unsafe {
                            libc::epoll_ctl(
                                real.watch.as_raw_fd(),
                                libc::EPOLL_CTL_DEL,
                                self.init.control.as_raw_fd(),
                                std::ptr::null_mut(),
                            )
                        };
                    }
                    return;
                }
            };
            let Some(fd) = fd else { continue };
            let thread = told.channel as ThreadId;
            match told.what {
                strict::JOIN => {
                    let given = self.joins(told.tid as u32, pid, told.number != 0, outside);
                    let answer = given.map_or(strict::NO_CHANNEL, |thread| thread as u64 + 1);
                    sys::add_to_event(fd.as_fd(), answer);
                    if let (Some(thread), Some(real)) = (given, &mut self.real) {
                        real.wakes.insert(thread, fd);
                    }
                }
                _ if thread >= abi::CHANNELS_MAX => {}
                strict::OBJECT => self.has_descriptor(thread, told.number & abi::INODE, fd, outside),
                strict::PASSAGE => {
                    if let Some(real) = &mut self.real {
                        real.passages.insert(thread, fd);
                    }
                }
                strict::EPOLL => {
                    if let Some(real) = &mut self.real {
                        real.pollers.insert(told.number, Poller::new(fd, pid));
                    }
                }
                _ => {}
            }
        }
    }

    /// Gives a thread a channel. None: there is none, or its process is gone.
    fn joins(&mut self, tid: u32, pid: u32, new: bool, outside: &mut dyn Outside) -> Option<ThreadId> {
        let known = self.tasks.processes.iter().find(|(_, process)| process.outer == pid).map(|(id, _)| *id);
        let process = match known {
            Some(process) => process,
            None => self.meet_process(pid)?,
        };
        if new {
            // Who waited in the old image is gone.
            let old = self.tasks.processes.get(&process).map(|one| one.threads.clone()).unwrap_or_default();
            old.into_iter().for_each(|old| self.remove_thread(old, outside));
        }
        let thread = first_free(self.tasks.threads.keys(), abi::CHANNELS_MAX)?;
        // Who had it before may have been killed with a call posted.
        self.arena.channel(thread).word.store(abi::RUNNING, Release);
        self.tasks.threads.insert(thread, Thread::new(process, tid, State::Runnable));
        if let Some(one) = self.tasks.processes.get_mut(&process) {
            one.threads.push(thread);
        }
        Some(thread)
    }

    fn meet_process(&mut self, pid: u32) -> Option<ProcessId> {
        let real = self.real.as_mut()?;
        real.processes += 1;
        let id = real.processes;
        let pidfd = sys::pidfd_open_process(pid).ok()?;
        real.watch(pidfd.as_fd(), TOKEN_PROCESS | id as u64, libc::EPOLLIN).ok()?;
        let one = Process { program: pid, pidfd: Some(pidfd), ..Process::new(pid, pid, self.shows(Clock::Monotonic)) };
        self.tasks.processes.insert(id, one);
        Some(id)
    }

    fn process_is_gone(&mut self, process: ProcessId, outside: &mut dyn Outside) {
        let Some(one) = self.tasks.processes.remove(&process) else { return };
        self.forget_pollers_of(one.outer);
        for thread in one.threads {
            self.remove_thread(thread, outside);
        }
        if self.maps_rings {
            // What it had mapped kept sockets open.
            self.look_for_closed();
            self.drop_closed(outside);
        }
    }

    /// Forgets a thread: its channel is free.
    fn remove_thread(&mut self, thread: ThreadId, outside: &mut dyn Outside) {
        self.objects.thread_is_gone(thread);
        self.leave_wait(thread);
        let Some(one) = self.tasks.threads.remove(&thread) else { return };
        if let Some(process) = self.tasks.processes.get_mut(&one.process) {
            process.threads.retain(|other| *other != thread);
        }
        self.tasks.queue.retain(|other| *other != thread);
        self.drop_made(thread, outside);
        if let Some(real) = &mut self.real {
            real.wakes.remove(&thread);
            real.passages.remove(&thread);
            real.brought.remove(&thread);
        }
    }

    /// What the thread has made gets no descriptor.
    pub(super) fn drop_made(&mut self, thread: ThreadId, outside: &mut dyn Outside) {
        if let Some(Body::Socket(socket)) = self.real.as_mut().and_then(|real| real.made.remove(&thread)) {
            outside.stack().close(socket);
        }
    }

    /// What the thread has made has a descriptor now; `ours` is the other end of it.
    fn has_descriptor(&mut self, thread: ThreadId, inode: u64, ours: OwnedFd, outside: &mut dyn Outside) {
        let Some(real) = &mut self.real else { return };
        let Some(body) = real.made.remove(&thread) else { return };
        // Once: what a call holds when it hangs up is looked at again when that call is over.
        let watched = real.watch(ours.as_fd(), inode, libc::EPOLLRDHUP | libc::EPOLLONESHOT);
        if let Body::Socket(socket) = &body
            && (watched.is_err() || self.objects.has(inode))
        {
            return outside.stack().close(*socket);
        }
        self.objects.insert(inode, Object::new(ours, body));
    }

    fn serve_thread(&mut self, thread: ThreadId, outside: &mut dyn Outside) {
        let arena = std::sync::Arc::clone(&self.arena);
        let channel = arena.channel(thread);
        match channel.word.load(Acquire) {
            abi::POSTED if self.tasks.threads.contains_key(&thread) => self.serve_call(thread, outside),
            abi::PARKED if channel.cancel.load(SeqCst) != 0 => {
                let Some(State::Waiting(wait)) = self.tasks.threads.get(&thread).map(|one| &one.state) else { return };
                let result = wait.interrupted;
                self.answer(thread, result);
                self.make_runnable(thread);
            }
            _ => {}
        }
    }

    fn serve_call(&mut self, thread: ThreadId, outside: &mut dyn Outside) {
        let arena = std::sync::Arc::clone(&self.arena);
        let channel = arena.channel(thread);
        let posted = Posted::read(channel);
        if let Some(one) = self.tasks.threads.get_mut(&thread) {
            one.state = State::Runnable;
        }
        if !self.goes_on(thread, &posted, channel) {
            return self.park_or_queue(thread);
        }
        let outer = self.tasks.process_of(thread).ok().and_then(|id| self.tasks.processes.get(&id)).map_or(0, |one| one.outer);
        let epoll = posted.descriptor & strict::EPOLL_NUMBER;
        let caller = Caller::real(channel, Brought::default());
        let result = match posted.number {
            strict::LEAVE => {
                self.remove_thread(thread, outside);
                self.arena.say(thread, abi::ANSWERED);
                return;
            }
            strict::DROPPED => {
                self.drop_made(thread, outside);
                Ok(0)
            }
            strict::CLOSING => {
                self.objects.is_closed_soon(posted.inode(), thread);
                Ok(0)
            }
            strict::FORGET => {
                self.forget_poller(epoll, outer);
                Ok(0)
            }
            strict::COLLECT => self.collect(epoll, outer, thread, &posted, &caller, outside),
            number if number == libc::SYS_epoll_ctl as u64 => {
                self.calls.of("epoll_ctl").seen += 1;
                self.control_poller(epoll, outer, thread, &posted, &caller, outside)
            }
            _ => {
                self.attempt(thread, &posted, outside);
                self.count(thread, &posted);
                return self.park_or_queue(thread);
            }
        };
        // What these name came with the call, if it could be read.
        let errno = |errno: Errno| if errno == LATER { libc::EFAULT } else { errno.0 };
        self.answer(thread, result.unwrap_or_else(|error| -i64::from(errno(error))));
        caller.commit();
        self.park_or_queue(thread);
    }

    /// A call is posted: a new one, or one whose thread has brought what it was asked for. False: its answer is in the channel.
    fn goes_on(&mut self, thread: ThreadId, posted: &Posted, channel: &Channel) -> bool {
        let brought = self.real.as_mut().and_then(|real| real.brought.remove(&thread));
        if brought.is_some() {
            self.objects.wait_is_over();
        }
        let brought = brought.and_then(|mut brought| brought.is_back(posted, channel).then_some(brought));
        let Some(one) = self.tasks.threads.get_mut(&thread) else { return false };
        let Some(mut brought) = brought else {
            one.begin_call();
            return true;
        };
        if channel.writes.swap(0, Relaxed) != 0 {
            // Of several messages those are done that were written before; this was the last one's, or that of the next, which is sent in part.
            let done = if one.moved > 0 { one.messages } else { one.messages.saturating_sub(1) } as i64;
            self.answer(thread, if done > 0 { done } else { -i64::from(libc::EFAULT) });
            return false;
        }
        match brought.take_rest() {
            Some((rest, result)) if result.is_some() || !rest.is_empty() => {
                self.write_on(thread, posted, channel, brought, &rest, result);
                false
            }
            _ => {
                self.keep_brought(thread, brought);
                true
            }
        }
    }

    fn keep_brought(&mut self, thread: ThreadId, brought: Brought) {
        if let Some(real) = &mut self.real {
            real.brought.insert(thread, brought);
        }
    }

    /// Has written what fits the channel; the rest when the thread is back. Then the call returns this, or goes on.
    fn write_on(&mut self, thread: ThreadId, posted: &Posted, channel: &Channel, mut brought: Brought, writes: &[u8], result: Option<i64>) {
        if let Some(result) = result {
            self.answer(thread, result);
        }
        let rest = caller::commit(channel, writes);
        if result.is_none() || !rest.is_empty() {
            brought.write_rest(rest.to_vec(), result, posted, channel);
            self.keep_brought(thread, brought);
        }
    }

    /// As [`Tree::attempt`].
    pub(super) fn attempt_real(&mut self, thread: ThreadId, posted: &Posted, channel: &Channel, outside: &mut dyn Outside) {
        let brought = self.real.as_mut().and_then(|real| real.brought.remove(&thread)).unwrap_or_default();
        self.objects.wait_is_over();
        let caller = Caller::real(channel, brought);
        let outcome = self.dispatch(thread, posted, &caller, outside);
        let (mut brought, writes) = caller.into_parts();
        match outcome {
            Ok(Outcome::Done(result)) => {
                let writes = if matches!(posted.number, abi::POLL) { Vec::new() } else { writes };
                self.write_on(thread, posted, channel, brought, &writes, Some(result));
            }
            Ok(Outcome::Descriptor { file, .. }) => self.pass(thread, &file),
            Ok(Outcome::Wait(wait)) if writes.is_empty() => {
                self.keep_brought(thread, brought);
                self.park(thread, wait);
            }
            Ok(Outcome::Prepared | Outcome::Gone) => {}
            // One that waits with something written (what is done of several messages) has the thread write it first.
            Ok(Outcome::Wait(_)) | Err(LATER) => {
                brought.keep_copies(channel);
                match caller::commit(channel, &writes) {
                    [] => brought.ask(posted, channel),
                    rest => brought.write_rest(rest.to_vec(), None, posted, channel),
                }
                self.keep_brought(thread, brought);
            }
            Err(errno) => self.answer(thread, -i64::from(errno.0)),
        }
    }

    /// Hands over a file by the way that the thread has made for it. Its other descriptors the program's side makes itself.
    fn pass(&mut self, thread: ThreadId, file: &OwnedFd) {
        self.descriptors_handed += 1;
        let number = self.descriptors_handed as i64;
        let passage = self.real.as_mut().and_then(|real| real.passages.remove(&thread)).ok_or(Errno(libc::EOPNOTSUPP));
        let sent = passage.and_then(|passage| super::rights::send(passage.as_fd(), &number.to_ne_bytes(), &[file.as_fd()]));
        // Closed on exec: it is mapped at once, and closed.
        self.answer(thread, sent.map_or_else(|errno| -i64::from(errno.0), |()| number << 1 | 1));
    }

    fn park_or_queue(&mut self, thread: ThreadId) {
        match self.tasks.threads.get(&thread).map(|one| &one.state) {
            Some(State::Runnable) => self.tasks.queue.push_back(thread),
            Some(State::Waiting(_)) => self.arena.say(thread, abi::PARKED),
            _ => {}
        }
    }

    fn count(&mut self, thread: ThreadId, posted: &Posted) {
        // One that is posted again is counted then.
        if self.real.as_ref().and_then(|real| real.brought.get(&thread)).is_some_and(Brought::is_asked) {
            return;
        }
        let number = if posted.number == abi::POLL { libc::SYS_poll as u64 } else { posted.number };
        if number >= abi::HELLO {
            return;
        }
        let name = match number as i64 {
            libc::SYS_poll => "poll",
            libc::SYS_read => "read",
            libc::SYS_write => "write",
            libc::SYS_readv => "readv",
            libc::SYS_writev => "writev",
            _ => weft_intercept::rows::row_of(arch::AUDIT_ARCH, number as i32).name,
        };
        let waits = matches!(self.tasks.threads.get(&thread).map(|one| &one.state), Some(State::Waiting(_)));
        let result = self.arena.channel(thread).result.load(Relaxed);
        let later = [libc::EAGAIN, libc::EINPROGRESS].iter().any(|errno| result == -i64::from(*errno));
        let counts = self.calls.of(name);
        counts.seen += 1;
        match () {
            () if waits => counts.held += 1,
            () if result >= 0 || later => counts.answered += 1,
            () => counts.refused += 1,
        }
    }

    /// Threads whose answers are in their channels go on.
    fn release_answered(&mut self) {
        for thread in std::mem::take::<VecDeque<ThreadId>>(&mut self.tasks.queue) {
            let parked = self.arena.channel(thread).word.load(Acquire) == abi::PARKED;
            self.arena.say(thread, abi::ANSWERED);
            if parked && let Some(wake) = self.real.as_ref().and_then(|real| real.wakes.get(&thread)) {
                sys::raise_event(wake.as_fd());
            }
        }
    }
}
