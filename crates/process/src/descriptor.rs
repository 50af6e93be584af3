//! Calls that make, read and close descriptors of which the kernel knows nothing.

use super::brought::Brought;
use super::caller::{Caller, Posted};
use super::ids::ThreadId;
use super::interests::Interests;
use super::object::{Body, OBJECTS_MAX, Object, TimerFile};
use super::outcome::{Asked, Outcome};
use super::outside::Outside;
use super::pending;
use super::state::{State, Wait};
use super::timers::Timer;
use super::tree::Tree;
use super::users::NOBODY;
use std::collections::BTreeSet;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use weft_intercept::face::{Poll, SocketId, Stack};
use weft_intercept::memory::Memory as _;
use weft_intercept::sys::{self, Errno};
use weft_loader::abi::{self, kind};
use weft_loader::calls;

/// include/net/tcp_states.h
const TCP_ESTABLISHED: u8 = 1;
const TCP_FIN_WAIT1: u8 = 4;
const TCP_CLOSE_WAIT: u8 = 8;
const TCP_LAST_ACK: u8 = 9;
const TCP_CLOSING: u8 = 11;
/// Bytes of `struct signalfd_siginfo`.
const SIGNALFD_BYTES: usize = 128;

impl Tree {
    /// Makes an object, whose descriptor is the call's result.
    pub(super) fn new_object(&mut self, thread: ThreadId, body: Body, nonblocking: bool, close_on_exec: bool) -> Result<Outcome, Errno> {
        if self.objects.len() >= OBJECTS_MAX {
            return Err(Errno(libc::ENFILE));
        }
        if let Some(real) = &mut self.real {
            // The program's side makes its descriptor.
            real.is_made(thread, body);
            return Ok(Outcome::Done(0));
        }
        let (ours, theirs) = match sys::unix_pair(libc::SOCK_STREAM) {
            Err(Errno(libc::EMFILE | libc::ENFILE)) => {
                self.host_limit(abi::HOST_LIMIT_OBJECTS);
                return Err(Errno(libc::ENFILE));
            }
            other => other?,
        };
        if sys::is_root() {
            // Programs are nobody outside then (nursery.rs), and what a program makes is its own: fchmod(2), O_NOATIME.
            let _ = sys::change_owner(theirs.as_fd(), NOBODY);
        }
        if nonblocking {
            sys::set_nonblocking(theirs.as_fd())?;
        }
        let inode = sys::inode(theirs.as_fd())? & abi::INODE;
        // Another object may have had the number.
        self.arena.header().nonblocking[inode as usize % abi::NONBLOCKING_KNOWN].store(0, Relaxed);
        self.objects.insert(inode, Object::new(ours, body));
        Ok(Outcome::Descriptor { file: theirs, word: kind::VIRTUAL << 56 | inode, close_on_exec })
    }

    /// The call returns a descriptor of this file, which is sent when the thread goes on ([`Tree::hand_descriptor`]).
    pub(super) fn answer_with_descriptor(&mut self, thread: ThreadId, file: OwnedFd, word: u64, close_on_exec: bool) {
        self.descriptors_handed += 1;
        self.answer(thread, (self.descriptors_handed << 1) as i64 | i64::from(close_on_exec));
        let channel = self.arena.channel(thread);
        channel.descriptor.store(word, Relaxed);
        channel.answer.store(abi::DESCRIPTOR, Relaxed);
        if let Some(one) = self.tasks.threads.get_mut(&thread) {
            one.handed = Some(file);
        }
    }

    /// Sends the descriptor that a thread's call returns, just before the thread goes on. All programs of a node take theirs from one socket: only the
    /// one that runs may have one there. The number that goes along tells it from one that nobody took (its program was killed at that moment).
    pub(super) fn hand_descriptor(&mut self, thread: ThreadId) {
        let Some(file) = self.tasks.threads.get_mut(&thread).and_then(|one| one.handed.take()) else { return };
        let channel = self.arena.channel(thread);
        if channel.answer.load(Relaxed) != abi::DESCRIPTOR {
            return;
        }
        let number = channel.result.load(Relaxed) >> 1;
        if let Err(errno) = super::rights::send(self.init.control.as_fd(), &number.to_ne_bytes(), &[file.as_fd()]) {
            self.answer(thread, -i64::from(errno.0));
            self.look_for_closed();
        }
    }

    /// Is this inode an object of ours?
    pub(super) fn whose(&self, inode: u64) -> i64 {
        i64::from(self.objects.has(inode))
    }

    /// The socket behind a call's descriptor. ENOTSOCK for other objects.
    pub(super) fn socket_of(&self, posted: &Posted) -> Result<SocketId, Errno> {
        match self.objects.body(posted.inode()) {
            Some(Body::Socket(socket)) => Ok(*socket),
            Some(_) => Err(Errno(libc::ENOTSOCK)),
            None => Err(Errno(libc::EBADF)),
        }
    }

    /// A program has closed a descriptor of this object; if it was the last, the object goes. Some: the call waits for that.
    pub(super) fn closed(&mut self, thread: ThreadId, inode: u64, outside: &mut dyn Outside) -> Option<Wait> {
        self.objects.close_is_served(inode, thread);
        if inode == 0 {
            self.look_for_closed();
            self.drop_closed(outside);
        } else if self.objects.get(inode).is_some_and(Object::has_hung_up) {
            if self.is_waited_at(inode, Some(thread)) {
                // Its file stays open until that call is over; another close that lingers is one, too.
                self.objects.keep(inode);
                return None;
            }
            // __fput: "eventpoll_release(file); … if (file->f_op->release) file->f_op->release(inode, file);"
            self.leave_epolls(inode);
            let wait = self.lingers(thread, inode, outside);
            if wait.is_some() {
                self.objects.keep(inode);
                return wait;
            }
            self.drop_object(inode, outside);
        }
        None
    }

    /// No epoll watches an object any more.
    fn leave_epolls(&mut self, inode: u64) {
        self.forget_in_pollers(inode);
        let watchers = self.objects.get_mut(inode).map(|object| std::mem::take(&mut object.watchers));
        for watcher in watchers.unwrap_or_default() {
            if let Some(Body::Epoll(interests)) = self.objects.body_mut(watcher) {
                interests.forget(inode);
            }
        }
    }

    /// inet_release: "If linger is set, we don't return until the close is complete." `tcp_close` sends the FIN behind what is queued, and
    /// `sk_stream_wait_close` waits until all is acknowledged, the time is over or a signal comes; the connection goes on in any case.
    fn lingers(&mut self, thread: ThreadId, inode: u64, outside: &mut dyn Outside) -> Option<Wait> {
        let Some(Body::Socket(socket)) = self.objects.body(inode) else { return None };
        let (socket, stack) = (*socket, outside.stack());
        let one = self.tasks.threads.get(&thread).filter(|one| !one.expired)?;
        if !stack.is_stream(socket) {
            return None;
        }
        let option = stack.get_option(socket, libc::SOL_SOCKET, libc::SO_LINGER, 8).ok()?;
        let [on, seconds] = [0, 4].map(|at| option.get(at..at + 4).and_then(|word| word.try_into().ok()).map_or(0, i32::from_ne_bytes));
        if on == 0 || seconds == 0 {
            return None;
        }
        let state = |stack: &mut dyn Stack| {
            let info = stack.get_option(socket, libc::IPPROTO_TCP, libc::TCP_INFO, 1);
            info.ok().and_then(|info| info.first().copied())
        };
        if !one.held && stack.receive_ready(socket) > 0 {
            // "else if (data_was_unread) { /* Unread data was tossed, zap the connection. */", whatever was shut down before.
            return None;
        }
        if !one.held && matches!(state(stack), Some(TCP_ESTABLISHED | TCP_CLOSE_WAIT)) {
            stack.shutdown(socket, libc::SHUT_RDWR).ok()?;
            // TCP may run on another thread: its state is the one behind that.
            stack.run();
        }
        // sk_stream_closing
        let closing = matches!(state(stack), Some(TCP_FIN_WAIT1 | TCP_LAST_ACK | TCP_CLOSING));
        // A negative time is the longest there is.
        let deadline = u64::try_from(seconds).ok().map(|seconds| self.after(Duration::from_secs(seconds)));
        closing.then(|| Wait { sockets: vec![socket], deadline, interrupted: -i64::from(libc::EINTR), ..Wait::default() })
    }

    /// A process is gone, or has executed another image: look at every object, at the next opportunity.
    pub(super) fn look_for_closed(&mut self) {
        self.objects.look_for_closed();
    }

    /// Does what [`Tree::look_for_closed`] asked for.
    pub(super) fn drop_closed(&mut self, outside: &mut dyn Outside) {
        let gone = self.objects.take_closing();
        // Inode numbers are the host's: sockets go in the order of their making, which the model's ids tell.
        let mut sockets = Vec::new();
        for inode in gone {
            match self.objects.body(inode) {
                Some(Body::Socket(socket)) => sockets.push((*socket, inode)),
                _ => self.drop_object(inode, outside),
            }
        }
        sockets.sort_unstable();
        for (_, inode) in sockets {
            self.drop_object(inode, outside);
        }
    }

    /// Drops an object of which no program has a descriptor; one that a call waits at when that is over (fdget holds the file).
    pub(super) fn drop_object(&mut self, inode: u64, outside: &mut dyn Outside) {
        if self.is_waited_at(inode, None) || self.objects.is_closed_by_call(inode) || self.is_mapped(inode, outside) {
            self.objects.keep(inode);
            return;
        }
        self.leave_epolls(inode);
        let Some(object) = self.objects.remove(inode) else { return };
        self.shows.forget(inode, &self.arena);
        match object.body {
            Body::Socket(socket) => {
                outside.stack().close(socket);
            }
            Body::Timer(file) => {
                if let Some(key) = file.timer.key {
                    self.timers.remove(key);
                }
            }
            // netlink_release: "wake_up_interruptible_all(&nlk->wait);", and whoever sent there finds nobody.
            Body::Link(_) => self.objects.note_room(inode),
            Body::Epoll(_) | Body::Signals(_) | Body::Setting { .. } => {}
        }
    }

    /// Does a thread beside this one wait in a call on this object, or in poll or select? Who waits at an epoll holds the epoll, and no member.
    fn is_waited_at(&self, inode: u64, beside: Option<ThreadId>) -> bool {
        let body = self.objects.body(inode);
        let waits = |wait: &Wait| match body {
            Some(Body::Socket(socket)) => wait.sockets.contains(socket),
            Some(_) => wait.kept_open().contains(&inode),
            None => false,
        };
        // A thread that brings more for its call is in that call as well. One that waits has brought what it needs, and is among those below: the word in
        // its channel may be of another call, since one that waits for a set has none.
        let brings = |thread: &ThreadId| self.arena.channel(*thread).descriptor.load(Relaxed) & abi::INODE == inode;
        let is_asked = |(thread, brought): (&ThreadId, &Brought)| Some(*thread) != beside && brought.is_asked() && brings(thread);
        if self.real.as_ref().is_some_and(|real| real.brought.iter().any(is_asked)) {
            return true;
        }
        self.tasks.threads.iter().any(|(thread, one)| {
            let state = if let State::Stopped(inner) = &one.state { inner } else { &one.state };
            let channel = self.arena.channel(*thread);
            let at_an_epoll = channel.number.load(Relaxed) == libc::SYS_epoll_wait as u64;
            let is_another = Some(*thread) != beside;
            is_another
                && matches!(state, State::Waiting(wait) if waits(wait))
                && (!at_an_epoll || channel.descriptor.load(Relaxed) & abi::INODE == inode)
        })
    }

    /// A timer or a set of signals may be readable now.
    pub(super) fn object_changed(&mut self, inode: u64, _: &mut dyn Outside) {
        self.objects.note_change(inode, Poll::ALL);
    }

    /// Those who wait for them look again.
    pub(super) fn finish_object_changes(&mut self, outside: &mut dyn Outside) {
        let (changed, roomier, looked_for) = self.objects.take_changes();
        if !roomier.is_empty() {
            self.again_where(&|wait| wait.room_at().is_some_and(|inode| roomier.contains(&inode)), outside);
        }
        let mut all: BTreeSet<u64> = changed.keys().chain(&looked_for).copied().collect();
        for (inode, wakes) in changed {
            self.note_edges(inode, wakes, &mut all);
            self.raise_pollers(inode, wakes, outside);
        }
        if !all.is_empty() {
            self.again_where(&|wait| wait.objects.iter().any(|inode| all.contains(inode)), outside);
        }
    }

    /// epoll_create(2)
    pub(super) fn epoll_create(&mut self, asked: &Asked<'_>, call: calls::EpollCreate, _: &mut dyn Outside) -> Result<Outcome, Errno> {
        if call.size.get() <= 0 {
            return Err(Errno(libc::EINVAL));
        }
        self.made(asked.thread, Body::Epoll(Interests::default()), 0, 0)
    }

    /// epoll_create1(2)
    pub(super) fn epoll_create1(&mut self, asked: &Asked<'_>, call: calls::EpollCreate1, _: &mut dyn Outside) -> Result<Outcome, Errno> {
        self.made(asked.thread, Body::Epoll(Interests::default()), call.flags.0 as i32, libc::O_CLOEXEC)
    }

    /// timerfd_create(2)
    pub(super) fn timerfd_create(&mut self, asked: &Asked<'_>, call: calls::TimerfdCreate, _: &mut dyn Outside) -> Result<Outcome, Errno> {
        let clock = call.clockid.get();
        if !matches!(clock, 0 | 1 | 7 | 8 | 9) {
            return Err(Errno(libc::EINVAL));
        }
        let body = Body::Timer(TimerFile {
            clock,
            timer: Timer::default(),
            expirations: 0,
            offset: self.date_offset(),
            cancels: false,
            cancelled: false,
        });
        self.made(asked.thread, body, call.flags.0 as i32, libc::O_CLOEXEC | libc::O_NONBLOCK)
    }

    /// signalfd(2)
    pub(super) fn signalfd(&mut self, asked: &Asked<'_>, call: calls::Signalfd, outside: &mut dyn Outside) -> Result<Outcome, Errno> {
        let calls::Signalfd { ufd, user_mask, sizemask } = call;
        self.signalfd4(asked, calls::Signalfd4 { ufd, user_mask, sizemask, flags: calls::NewFlags(0) }, outside)
    }

    /// signalfd4(2)
    pub(super) fn signalfd4(&mut self, asked: &Asked<'_>, call: calls::Signalfd4, _: &mut dyn Outside) -> Result<Outcome, Errno> {
        // fs/signalfd.c, signalfd4: the mask comes first.
        let mask = asked.caller.read_mask(call.user_mask.0, call.sizemask.0)?;
        let (flags, allowed) = (call.flags.0 as i32, libc::O_CLOEXEC | libc::O_NONBLOCK);
        if flags & !allowed != 0 {
            return Err(Errno(libc::EINVAL));
        }
        if call.ufd.get() == -1 {
            return self.made(asked.thread, Body::Signals(mask), flags, allowed);
        }
        match self.objects.body_mut(asked.posted.inode()) {
            Some(Body::Signals(old)) => {
                *old = mask;
                Ok(Outcome::Done(i64::from(call.ufd.get())))
            }
            _ => Err(Errno(libc::EINVAL)),
        }
    }

    /// A new object, with flags of its call: TFD_, SFD_ and EPOLL_ ones are O_CLOEXEC and O_NONBLOCK.
    fn made(&mut self, thread: ThreadId, body: Body, flags: i32, allowed: i32) -> Result<Outcome, Errno> {
        if flags & !allowed != 0 {
            return Err(Errno(libc::EINVAL));
        }
        self.new_object(thread, body, flags & libc::O_NONBLOCK != 0, flags & libc::O_CLOEXEC != 0)
    }

    /// read(2) of a timer or a set of signals.
    pub(super) fn read_object(&mut self, thread: ThreadId, posted: &Posted, caller: &Caller<'_>) -> Result<Outcome, Errno> {
        let inode = posted.inode();
        let room = posted.arguments[2] as usize;
        let (nonblocking, offset) = (posted.nonblocking(), self.date_offset());
        match self.objects.body_mut(inode) {
            Some(Body::Timer(file)) => {
                if room < 8 {
                    return Err(Errno(libc::EINVAL));
                }
                if file.cancelled {
                    // timerfd_read_iter: "If clock has changed, we do not care about the ticks".
                    (file.cancelled, file.expirations, file.offset) = (false, 0, offset);
                    return Err(Errno(libc::ECANCELED));
                }
                if file.expirations > 0 {
                    caller.write(posted.arguments[1], &std::mem::take(&mut file.expirations).to_ne_bytes())?;
                    return Ok(Outcome::Done(8));
                }
                if nonblocking {
                    return Err(Errno(libc::EAGAIN));
                }
                Ok(Outcome::Wait(Wait { objects: vec![inode], ..Wait::default() }))
            }
            Some(Body::Signals(mask)) => {
                let mask = *mask;
                let mut bytes = Vec::new();
                while bytes.len() + SIGNALFD_BYTES <= room {
                    let Some((_, info)) = self.take_signal(thread, mask) else { break };
                    bytes.extend(signalfd_info(&info));
                }
                if !bytes.is_empty() {
                    caller.write(posted.arguments[1], &bytes)?;
                    return Ok(Outcome::Done(bytes.len() as i64));
                }
                if room < SIGNALFD_BYTES {
                    return Err(Errno(libc::EINVAL));
                }
                if nonblocking {
                    return Err(Errno(libc::EAGAIN));
                }
                Ok(Outcome::Wait(Wait { signals: mask, ..Wait::default() }))
            }
            _ => Err(Errno(libc::EINVAL)),
        }
    }
}

/// `struct signalfd_siginfo` of a siginfo_t.
fn signalfd_info(info: &pending::Info) -> [u8; SIGNALFD_BYTES] {
    let mut out = [0; SIGNALFD_BYTES];
    // ssi_signo, ssi_errno, ssi_code, ssi_pid, ssi_uid; from si_signo, si_errno, si_code, si_pid, si_uid; status at 40.
    for (to, from) in [(0, 0), (4, 4), (8, 8), (12, 16), (16, 20), (40, 24)] {
        out[to..to + 4].copy_from_slice(&info[from..from + 4]);
    }
    out
}
