//! The supervisor: trees, stand-ins and held calls, and the order in which they are served.

use crate::call::{self, Call, Outcome};
use crate::calls::Calls;
use crate::face::{SocketId, SocketState, Stack};
use crate::netlink;
use crate::notify::{Listener, Notification};
use crate::reactor::{Interest, Reactor, Readiness};
use crate::standin::buffer::ReadBuffer;
use crate::standin::stream::{self, Phase};
use crate::standin::{self, Body, StandIn, liveness, packet};
use crate::sys::{self, Errno};
use slab::Slab;
use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Most stand-ins of a supervisor.
pub const STAND_INS_MAX: usize = 1 << 20;
/// Most calls held at once (one a thread).
pub const HELD_MAX: usize = 1 << 16;
/// Notifications taken from one listener before others get a turn.
const NOTIFICATIONS_MAX: usize = 64;
/// Rounds of "the stack changed, so stand-ins move, so the stack changes" in one turn.
const ROUNDS_MAX: usize = 32;
/// pidfds kept open.
const PIDFDS_MAX: usize = 256;

/// A process tree under one filter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TreeId(pub(crate) usize);

/// What is borrowed for one turn.
pub(crate) struct Turn<'a> {
    pub stack: &'a mut dyn Stack,
    pub reactor: &'a mut dyn Reactor,
}

/// A call that waits.
#[derive(Debug)]
struct Held {
    call: Call,
    stand_in: usize,
    deadline: Option<Instant>,
}

/// An answer whose effect has happened, while the notification was cancelled before it could be sent.
#[derive(Debug)]
struct Replay {
    number: i32,
    arguments: [u64; 6],
    instruction: u64,
    value: i64,
}

/// Serves the programs of one node. See the crate's text.
#[derive(Debug)]
pub struct Supervisor {
    space: u64,
    pub(crate) trees: Slab<Listener>,
    pub(crate) stand_ins: Slab<StandIn>,
    generation: u16,
    by_inode: HashMap<u64, usize>,
    by_socket: HashMap<SocketId, usize>,
    held: BTreeMap<u64, Held>,
    next_held: u64,
    replays: HashMap<u32, Replay>,
    pub(crate) calls: Calls,
    /// Where fresh stand-ins are connected to: an abstract name in our network namespace. Only connections of this process count.
    door: OwnedFd,
    door_name: Vec<u8>,
    timer: OwnedFd,
    timer_at: Option<Instant>,
    look_at: Option<Instant>,
    pidfds: HashMap<u32, OwnedFd>,
    pub(crate) buffer: ReadBuffer,
}

const KIND_TREE: u64 = 1;
const KIND_STAND_IN: u64 = 2;
const KIND_TIMER: u64 = 3;

/// Token: the host's space (8 bits), kind (8), generation (16), index (32).
fn token(space: u64, kind: u64, generation: u16, index: usize) -> u64 {
    space << 56 | kind << 48 | u64::from(generation) << 32 | index as u64 & 0xffff_ffff
}

impl Supervisor {
    /// A supervisor without programs. All its tokens have `space` in their top byte, so that the host can tell them from its own.
    /// Raises the process's descriptor limit: there is a descriptor for each connected stand-in.
    ///
    /// # Errors
    /// When descriptors cannot be made or registered.
    pub fn new(space: u8, reactor: &mut dyn Reactor) -> Result<Supervisor, Errno> {
        if let Err(errno) = sys::raise_descriptor_limit() {
            tracing::warn!(errno = errno.0, "the descriptor limit stays as it is");
        }
        let door = sys::unix_socket(libc::SOCK_STREAM | libc::SOCK_NONBLOCK)?;
        let door_name = sys::autobind(door.as_fd())?;
        sys::listen(door.as_fd(), 64)?;
        let timer = sys::timer()?;
        let space = u64::from(space);
        reactor.add(timer.as_fd(), token(space, KIND_TIMER, 0, 0), Interest { readable: true, writable: false, edge: false })?;
        Ok(Supervisor {
            space,
            trees: Slab::new(),
            stand_ins: Slab::new(),
            generation: 0,
            by_inode: HashMap::new(),
            by_socket: HashMap::new(),
            held: BTreeMap::new(),
            next_held: 0,
            replays: HashMap::new(),
            calls: Calls::default(),
            door,
            door_name,
            timer,
            timer_at: None,
            look_at: None,
            pidfds: HashMap::new(),
            buffer: ReadBuffer::default(),
        })
    }

    /// Is this one of the supervisor's tokens?
    pub fn owns(&self, token: u64) -> bool {
        token >> 56 == self.space
    }

    /// Takes over a process tree: `listener` is what [`crate::filter::install`] returned in it.
    ///
    /// # Errors
    /// EINVAL: it is no listener. Others when the descriptor cannot be registered.
    pub fn add_tree(&mut self, listener: OwnedFd, reactor: &mut dyn Reactor) -> Result<TreeId, Errno> {
        if !Listener::is_one(listener.as_fd()) {
            return Err(Errno(libc::EINVAL));
        }
        let entry = self.trees.vacant_entry();
        let key = entry.key();
        reactor.add(listener.as_fd(), token(self.space, KIND_TREE, 0, key), Interest { readable: true, writable: false, edge: false })?;
        entry.insert(Listener::new(listener));
        Ok(TreeId(key))
    }

    /// Does the tree still have a process?
    pub fn has_tree(&self, tree: TreeId) -> bool {
        self.trees.contains(tree.0)
    }

    /// How many trees there are.
    pub fn trees(&self) -> usize {
        self.trees.len()
    }

    /// How many stand-ins there are: sockets that a program still holds.
    pub fn stand_ins(&self) -> usize {
        self.stand_ins.len()
    }

    /// The counters behind `weft show calls`.
    pub fn calls(&self) -> &Calls {
        &self.calls
    }

    /// A descriptor of the supervisor's is ready.
    pub fn on_event(&mut self, event: u64, readiness: Readiness, stack: &mut dyn Stack, reactor: &mut dyn Reactor) {
        let index = (event & 0xffff_ffff) as usize;
        let turn = &mut Turn { stack, reactor };
        match event >> 48 & 0xff {
            KIND_TREE => self.serve_tree(index, readiness, turn),
            KIND_STAND_IN => {
                let generation = (event >> 32) as u16;
                if let Some(one) = self.stand_ins.get_mut(index).filter(|one| one.generation == generation) {
                    one.readable |= readiness.readable || readiness.hang_up || readiness.error;
                    one.ends |= readiness.ended || readiness.hang_up || readiness.error;
                    one.writable |= readiness.writable;
                    self.move_and_retry(index, readiness.hang_up || readiness.error, turn);
                }
            }
            KIND_TIMER => {
                sys::clear_timer(self.timer.as_fd());
                self.timer_at = None;
                self.expire(turn);
            }
            _ => {}
        }
        self.settle(turn);
    }

    /// The node has run: frames came in, timers fired. Moves what the sockets that changed have for their programs.
    pub fn after_stack_ran(&mut self, stack: &mut dyn Stack, reactor: &mut dyn Reactor) {
        self.settle(&mut Turn { stack, reactor });
    }

    fn settle(&mut self, turn: &mut Turn<'_>) {
        for _ in 0..ROUNDS_MAX {
            let changed = turn.stack.take_changed();
            if changed.is_empty() {
                break;
            }
            for socket in changed {
                if let Some(&key) = self.by_socket.get(&socket) {
                    self.move_and_retry(key, false, turn);
                }
            }
        }
        self.arm();
    }

    // ---- notifications ----

    fn serve_tree(&mut self, tree: usize, readiness: Readiness, turn: &mut Turn<'_>) {
        for _ in 0..NOTIFICATIONS_MAX {
            let Some(listener) = self.trees.get(tree) else { return };
            match listener.receive() {
                Ok(Some(notification)) => self.serve(tree, &notification, turn),
                Ok(None) => break,
                Err(errno) => {
                    tracing::warn!(errno = errno.0, "a seccomp listener failed; its program's network calls will fail");
                    self.end_tree(tree, turn);
                    return;
                }
            }
        }
        if readiness.hang_up || readiness.error {
            self.end_tree(tree, turn);
        }
    }

    /// No process of the tree is left.
    fn end_tree(&mut self, tree: usize, turn: &mut Turn<'_>) {
        let held: Vec<u64> = self.held.iter().filter(|(_, held)| held.call.tree == tree).map(|(id, _)| *id).collect();
        for id in held {
            self.forget_held(id);
        }
        if let Some(listener) = self.trees.try_remove(tree) {
            let _ = turn.reactor.remove(listener.as_fd());
        }
        if self.trees.is_empty() {
            self.pidfds.clear();
            self.replays.clear();
        }
        self.look_for_closed(turn);
    }

    fn serve(&mut self, tree: usize, notification: &Notification, turn: &mut Turn<'_>) {
        let row = call::row_of(notification.architecture, notification.number);
        self.calls.of(row.name).seen += 1;
        let call = Call {
            tree,
            id: notification.id,
            tid: notification.tid,
            number: notification.number,
            arguments: notification.arguments,
            instruction: notification.instruction,
            row,
            held: false,
            expired: false,
        };
        if let Some(replay) = self.replays.remove(&call.tid)
            && (replay.number, replay.arguments, replay.instruction) == (call.number, call.arguments, call.instruction)
        {
            self.finish(call, Ok(Outcome::Done(replay.value)));
            return;
        }
        let outcome = (row.answer)(self, turn, &call);
        self.finish(call, outcome);
    }

    /// Sends the answer, or keeps the call. Returns false when it stays held.
    fn finish(&mut self, call: Call, outcome: Result<Outcome, Errno>) {
        let Some(listener) = self.trees.get(call.tree) else { return };
        let counts = self.calls.of(call.row.name);
        let sent = match outcome {
            Ok(Outcome::Done(value) | Outcome::DoneWithEffect(value)) => {
                counts.answered += 1;
                listener.answer(call.id, value)
            }
            Ok(Outcome::Sent) => {
                counts.answered += 1;
                Ok(())
            }
            Ok(Outcome::Cancelled) => Err(Errno(libc::ENOENT)),
            Ok(Outcome::Continue) => {
                counts.continued += 1;
                listener.proceed(call.id)
            }
            Ok(Outcome::Hold { stand_in, limit }) => {
                if self.held.len() >= HELD_MAX {
                    let _ = listener.refuse(call.id, Errno(libc::ENOBUFS));
                    return;
                }
                counts.held += 1;
                self.hold(call, stand_in, limit);
                return;
            }
            Err(errno) => {
                counts.refused += 1;
                listener.refuse(call.id, errno)
            }
        };
        if sent.is_err() {
            counts.cancelled += 1;
            if let Ok(Outcome::DoneWithEffect(value)) = outcome {
                let replay = Replay { number: call.number, arguments: call.arguments, instruction: call.instruction, value };
                if self.replays.len() < HELD_MAX {
                    self.replays.insert(call.tid, replay);
                }
            }
        }
    }

    // ---- held calls ----

    fn hold(&mut self, mut call: Call, stand_in: usize, limit: Option<Duration>) {
        call.held = true;
        let id = self.next_held;
        self.next_held += 1;
        if let Some(one) = self.stand_ins.get_mut(stand_in) {
            one.held.push(id);
        }
        self.held.insert(id, Held { call, stand_in, deadline: limit.map(|limit| Instant::now() + limit) });
    }

    fn forget_held(&mut self, id: u64) -> Option<Held> {
        let held = self.held.remove(&id)?;
        if let Some(one) = self.stand_ins.get_mut(held.stand_in) {
            one.held.retain(|other| *other != id);
        }
        Some(held)
    }

    /// Tries the calls that wait at a stand-in again, oldest first.
    pub(crate) fn retry(&mut self, key: usize, turn: &mut Turn<'_>) {
        let Some(one) = self.stand_ins.get(key) else { return };
        if one.held.is_empty() {
            return;
        }
        for id in one.held.clone() {
            self.retry_one(id, turn);
        }
    }

    fn retry_one(&mut self, id: u64, turn: &mut Turn<'_>) {
        let Some(held) = self.held.get(&id) else { return };
        let call = held.call;
        let valid = self.trees.get(call.tree).is_some_and(|listener| listener.is_valid(call.id));
        if !valid {
            self.forget_held(id);
            self.calls.of(call.row.name).cancelled += 1;
            return;
        }
        let outcome = (call.row.answer)(self, turn, &call);
        if !matches!(outcome, Ok(Outcome::Hold { .. })) {
            self.forget_held(id);
            self.finish(call, outcome);
        }
    }

    fn expire(&mut self, turn: &mut Turn<'_>) {
        let now = Instant::now();
        let due: Vec<u64> = self.held.iter().filter(|(_, held)| held.deadline.is_some_and(|at| at <= now)).map(|(id, _)| *id).collect();
        for id in due {
            if let Some(held) = self.held.get_mut(&id) {
                held.call.expired = true;
                held.deadline = None;
            }
            self.retry_one(id, turn);
        }
        if self.look_at.is_some_and(|at| at <= now) {
            self.look_for_closed(turn);
        }
    }

    /// Sets the timer to the next thing that time brings.
    pub(crate) fn arm(&mut self) {
        let next = self.held.values().filter_map(|held| held.deadline).chain(self.look_at).min();
        if next != self.timer_at {
            self.timer_at = next;
            let _ = sys::set_timer(self.timer.as_fd(), next.map(|at| at.saturating_duration_since(Instant::now())));
        }
    }

    // ---- stand-ins ----

    /// Makes a stand-in known. `theirs` is the end that the program will hold.
    pub(crate) fn add_stand_in(
        &mut self,
        theirs: BorrowedFd<'_>,
        ours: Option<OwnedFd>,
        body: Body,
        turn: &mut Turn<'_>,
    ) -> Result<usize, Errno> {
        if self.stand_ins.len() >= STAND_INS_MAX {
            return Err(Errno(libc::ENFILE));
        }
        let inode = sys::inode(theirs)?;
        self.generation = self.generation.wrapping_add(1);
        let mut one = StandIn::new(inode, body, None);
        one.generation = self.generation;
        let socket = one.socket();
        let key = self.stand_ins.insert(one);
        if let Some(ours) = ours
            && let Err(errno) = self.attach(key, ours, turn)
        {
            self.stand_ins.remove(key);
            return Err(errno);
        }
        self.by_inode.insert(inode, key);
        if let Some(socket) = socket {
            self.by_socket.insert(socket, key);
        }
        Ok(key)
    }

    /// Gives a stand-in its end on our side.
    pub(crate) fn attach(&mut self, key: usize, ours: OwnedFd, turn: &mut Turn<'_>) -> Result<(), Errno> {
        let Some(one) = self.stand_ins.get_mut(key) else { return Err(Errno(libc::EBADF)) };
        let send_buffer = match &one.body {
            Body::Stream(_) => standin::send_buffer_bytes(one.unread_max),
            Body::Packet(_) | Body::Netlink(_) => packet::SEND_BUFFER_BYTES,
        };
        sys::set_send_buffer(ours.as_fd(), send_buffer);
        let token = token(self.space, KIND_STAND_IN, one.generation, key);
        turn.reactor.add(ours.as_fd(), token, Interest { readable: true, writable: false, edge: true })?;
        one.watches_room = false;
        one.ours = Some(ours);
        one.readable = true;
        one.writable = true;
        Ok(())
    }

    /// Waits for room in a stand-in while there is something to put in, and only then.
    fn watch_room(&mut self, key: usize, turn: &mut Turn<'_>) {
        let Some(one) = self.stand_ins.get_mut(key).filter(|one| one.wants_room != one.watches_room) else { return };
        let Some(ours) = &one.ours else { return };
        let token = token(self.space, KIND_STAND_IN, one.generation, key);
        let interest = Interest { readable: true, writable: one.wants_room, edge: true };
        // Registering again reports at once what is ready now, so that nothing is missed in between.
        if turn.reactor.modify(ours.as_fd(), token, interest).is_ok() {
            one.watches_room = one.wants_room;
        }
    }

    /// Closes our end.
    pub(crate) fn detach(&mut self, key: usize, turn: &mut Turn<'_>) {
        if let Some(ours) = self.stand_ins.get_mut(key).and_then(|one| one.ours.take()) {
            let _ = turn.reactor.remove(ours.as_fd());
        }
    }

    /// Forgets a stand-in; the model's socket is left alone.
    pub(crate) fn remove_stand_in(&mut self, key: usize, turn: &mut Turn<'_>) -> Option<StandIn> {
        self.detach(key, turn);
        let one = self.stand_ins.try_remove(key)?;
        if self.by_inode.get(&one.inode) == Some(&key) {
            self.by_inode.remove(&one.inode);
        }
        if let Some(socket) = one.socket() {
            self.by_socket.remove(&socket);
        }
        for id in &one.held {
            if let Some(held) = self.held.remove(id)
                && let Some(listener) = self.trees.get(held.call.tree)
            {
                let _ = listener.refuse(held.call.id, Errno(libc::EBADF));
            }
        }
        Some(one)
    }

    /// The program's last descriptor is closed. With `unread` it left data behind in the stand-in.
    pub(crate) fn close_stand_in(&mut self, key: usize, unread: bool, turn: &mut Turn<'_>) {
        let Some(one) = self.remove_stand_in(key, turn) else { return };
        if let Body::Stream(stream) = one.body {
            if let Phase::Listening { returned, .. } = stream.phase {
                returned.into_iter().for_each(|child| turn.stack.close(child));
            }
            if unread {
                // RFC 2525 §2.17: closing with unread data resets. The model does that for what lies in its own queue; what lay in the
                // stand-in is gone already, so ask for the reset: struct linger { l_onoff = 1, l_linger = 0 }.
                let linger = [1_i32.to_ne_bytes(), 0_i32.to_ne_bytes()].concat();
                let _ = turn.stack.set_option(stream.socket, libc::SOL_SOCKET, libc::SO_LINGER, &linger);
            }
            turn.stack.close(stream.socket);
        } else if let Some(socket) = one.socket() {
            turn.stack.close(socket);
        }
    }

    /// The stand-in behind a program's descriptor; none when it is something else.
    ///
    /// # Errors
    /// EBADF: no such descriptor.
    pub(crate) fn find(&mut self, call: &Call, fd: u64) -> Result<Option<usize>, Errno> {
        let fd = fd as i32;
        let inode = match sys::socket_inode(call.tid, fd) {
            Ok(Some(inode)) => inode,
            Ok(None) => return Ok(None),
            Err(Errno(libc::EPERM)) => {
                // A process that may not be looked into. The kernel does the call: no socket of the program is an INET one.
                self.calls.not_permitted += 1;
                return Ok(None);
            }
            Err(errno) => return Err(errno),
        };
        let Some(&key) = self.by_inode.get(&inode) else { return Ok(None) };
        if let Some(one) = self.stand_ins.get_mut(key) {
            one.place = (call.tid, fd);
        }
        Ok(Some(key))
    }

    /// Borrows the program's end of a stand-in.
    pub(crate) fn borrow(&mut self, key: usize) -> Result<OwnedFd, Errno> {
        let Some(one) = self.stand_ins.get(key) else { return Err(Errno(libc::EBADF)) };
        let ((tid, fd), inode) = (one.place, one.inode);
        let end = self.borrow_at(tid, fd).or_else(|_| self.search(inode))?;
        if sys::inode(end.as_fd())? == inode { Ok(end) } else { self.search(inode) }
    }

    fn borrow_at(&mut self, tid: u32, fd: i32) -> Result<OwnedFd, Errno> {
        for fresh in [false, true] {
            if fresh || !self.pidfds.contains_key(&tid) {
                if self.pidfds.len() >= PIDFDS_MAX {
                    self.pidfds.clear();
                }
                self.pidfds.insert(tid, sys::pidfd_open(tid)?);
            }
            match self.pidfds.get(&tid).map(|pidfd| sys::pidfd_getfd(pidfd.as_fd(), fd)) {
                // A pidfd means one thread for ever, so a number that was given out again is noticed here.
                Some(Err(Errno(libc::ESRCH))) => {
                    self.pidfds.remove(&tid);
                }
                Some(other) => return other,
                None => {}
            }
        }
        Err(Errno(libc::ESRCH))
    }

    /// Sends a signal to a thread, as a native call would have.
    pub(crate) fn signal(&mut self, tid: u32, signal: i32) {
        if let Ok(pidfd) = sys::pidfd_open(tid) {
            let _ = sys::pidfd_signal(pidfd.as_fd(), signal);
        }
    }

    /// Looks for a stand-in in every process that made calls lately and all their relatives: the descriptor was passed on or renumbered.
    fn search(&mut self, inode: u64) -> Result<OwnedFd, Errno> {
        let wanted = format!("socket:[{inode}]");
        for process in std::fs::read_dir("/proc").map_err(|_| Errno(libc::EBADF))?.flatten() {
            let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
            if pid == std::process::id() {
                continue;
            }
            let Ok(descriptors) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { continue };
            for descriptor in descriptors.flatten() {
                let matches = std::fs::read_link(descriptor.path()).is_ok_and(|target| target.as_os_str() == wanted.as_str());
                if let (true, Some(fd)) = (matches, descriptor.file_name().to_str().and_then(|name| name.parse().ok()))
                    && let Ok(end) = self.borrow_at(pid, fd)
                    && sys::inode(end.as_fd()) == Ok(inode)
                {
                    return Ok(end);
                }
            }
        }
        Err(Errno(libc::EBADF))
    }

    /// From now on looks for the last close of a stand-in that will not report it.
    pub(crate) fn watch(&mut self, key: usize) {
        if let Some(one) = self.stand_ins.get_mut(key) {
            one.watched = true;
            self.look_at.get_or_insert_with(|| Instant::now() + liveness::PERIOD);
        }
    }

    /// Closes the stand-ins whose last close nobody reported.
    pub(crate) fn look_for_closed(&mut self, turn: &mut Turn<'_>) {
        self.look_at = None;
        let watched: Vec<(usize, u64)> = self.stand_ins.iter().filter(|(_, one)| one.watched).map(|(key, one)| (key, one.inode)).collect();
        if watched.is_empty() {
            return;
        }
        self.look_at = Some(Instant::now() + liveness::PERIOD);
        let Ok(living) = liveness::living() else { return };
        for (key, inode) in watched {
            if !living.contains(&inode) {
                self.close_stand_in(key, false, turn);
            }
        }
    }

    /// Connects a fresh stand-in to us and fills it up, so that it looks like a socket that is connecting.
    pub(crate) fn open_door(&mut self, key: usize, turn: &mut Turn<'_>) -> Result<(), Errno> {
        let end = self.borrow(key)?;
        sys::connect(end.as_fd(), &self.door_name)?;
        let ours = loop {
            let ours = sys::accept(self.door.as_fd())?;
            // Anybody in our network namespace can connect to the door; whoever is not this process is turned away.
            if sys::peer_process(ours.as_fd()) == i32::try_from(std::process::id()).ok() {
                break ours;
            }
        };
        let filling = stream::fill(end.as_fd());
        if let Some(one) = self.stand_ins.get_mut(key) {
            one.watched = false;
            if let Body::Stream(stream) = &mut one.body {
                stream.phase = Phase::Connecting { filling };
            }
        }
        self.attach(key, ours, turn)
    }

    // ---- moving data ----

    /// Moves what can move at a stand-in, mirrors its socket's state, and tries the calls that wait there again.
    pub(crate) fn move_and_retry(&mut self, key: usize, hung_up: bool, turn: &mut Turn<'_>) {
        self.pump(key, hung_up, turn);
        self.retry(key, turn);
    }

    /// Moves what can move, without touching held calls.
    pub(crate) fn pump(&mut self, key: usize, hung_up: bool, turn: &mut Turn<'_>) {
        let Some(one) = self.stand_ins.get_mut(key) else { return };
        match &one.body {
            Body::Stream(stream) => match stream.phase {
                Phase::Fresh | Phase::Dead => {}
                Phase::Listening { .. } => self.update_token(key, None, turn),
                Phase::Connecting { .. } | Phase::Connected => self.pump_stream(key, hung_up, turn),
            },
            Body::Packet(_) => self.pump_packets(key, hung_up, turn),
            Body::Netlink(_) => {
                if netlink::serve(one, turn.stack, &mut self.calls) {
                    self.over(key, turn);
                }
            }
        }
    }

    fn pump_stream(&mut self, key: usize, hung_up: bool, turn: &mut Turn<'_>) {
        let Supervisor { stand_ins, buffer, .. } = self;
        let Some(one) = stand_ins.get_mut(key) else { return };
        let Body::Stream(stream) = &mut one.body else { return };
        let socket = stream.socket;
        let mut filling = 0;
        if let Phase::Connecting { filling: bytes } = stream.phase {
            match turn.stack.state(socket) {
                Some(SocketState::Connected | SocketState::PeerClosed) => {
                    filling = bytes;
                    stream.phase = Phase::Connected;
                }
                Some(SocketState::Connecting) if !hung_up => return,
                Some(SocketState::Connecting) => {
                    // Closed while connecting.
                    self.over(key, turn);
                    return;
                }
                // What fills it is unread, so closing resets: IN, OUT, ERR and HUP, and ECONNRESET to reads.
                _ => {
                    self.die(key, turn);
                    return;
                }
            }
        }
        if matches!(turn.stack.state(socket), Some(SocketState::Fresh | SocketState::Bound)) {
            // connect(AF_UNSPEC) has dissolved the connection: ECONNRESET, as in TCP.
            self.reset(key, turn);
            return;
        }
        let was_ended = one.write_ended;
        let out = stream::pump_out(one, socket, &mut filling, buffer, turn.stack);
        match out {
            stream::Out::Open => {}
            stream::Out::End if was_ended && !hung_up => {}
            stream::Out::End => {
                if self.end_of_writing(key, socket, turn) {
                    return;
                }
            }
            stream::Out::Reset => {
                self.close_stand_in(key, true, turn);
                return;
            }
        }
        self.widen_bulk(key);
        let Some(one) = self.stand_ins.get_mut(key) else { return };
        match stream::pump_in(one, socket, turn.stack) {
            stream::In::Open => self.watch_room(key, turn),
            stream::In::Failed => self.reset(key, turn),
            stream::In::Gone => self.close_stand_in(key, true, turn),
        }
    }

    /// A program in bulk transfer may write further ahead of us. Once for a stand-in.
    fn widen_bulk(&mut self, key: usize) {
        let Some(one) = self.stand_ins.get_mut(key).filter(|one| !one.bulk && one.written >= standin::BULK_BYTES) else { return };
        one.bulk = true;
        // Where its end cannot be borrowed it is only slower.
        if let Ok(end) = self.borrow(key) {
            sys::set_send_buffer(end.as_fd(), standin::BULK_SEND_BUFFER_BYTES);
        }
    }

    /// All that the program wrote has been read. Has it shut down its side, or gone? True: gone.
    fn end_of_writing(&mut self, key: usize, socket: SocketId, turn: &mut Turn<'_>) -> bool {
        let Some(one) = self.stand_ins.get_mut(key) else { return true };
        let hung_up = one.ours.as_ref().is_some_and(|ours| sys::poll_now(ours.as_fd(), 0) & libc::POLLHUP != 0);
        if hung_up && !one.hang_up_is_ambiguous() {
            let unread = one.unread > 0 && one.ours.as_ref().is_some_and(|ours| sys::poll_now(ours.as_fd(), 0) & libc::POLLERR != 0);
            self.close_stand_in(key, unread, turn);
            return true;
        }
        if !one.write_ended {
            one.write_ended = true;
            let _ = turn.stack.shutdown(socket, libc::SHUT_WR);
        }
        if hung_up {
            self.watch(key);
            self.look_at = Some(Instant::now());
        }
        false
    }

    /// The program's end of a socketpair is closed or shut down both ways.
    fn over(&mut self, key: usize, turn: &mut Turn<'_>) {
        let Some(one) = self.stand_ins.get_mut(key) else { return };
        if one.shut_write || one.shut_read {
            self.watch(key);
            self.look_for_closed(turn);
        } else {
            self.close_stand_in(key, false, turn);
        }
    }

    fn pump_packets(&mut self, key: usize, hung_up: bool, turn: &mut Turn<'_>) {
        let Supervisor { stand_ins, buffer, calls, .. } = self;
        let Some(one) = stand_ins.get_mut(key) else { return };
        let Some(socket) = one.socket() else { return };
        let ended = packet::pump_out(one, socket, buffer, &mut calls.late_refusals, turn.stack);
        packet::pump_in(one, turn.stack);
        if ended || hung_up && one.unsent.is_none() && !one.readable {
            self.over(key, turn);
        }
        self.watch_room(key, turn);
    }

    /// The connection is gone by an error: the program's end gets ECONNRESET after what is queued there.
    pub(crate) fn reset(&mut self, key: usize, turn: &mut Turn<'_>) {
        let unread = self.stand_ins.get(key).and_then(|one| one.ours.as_ref()).is_some_and(|ours| sys::readable_bytes(ours.as_fd()) > 0);
        if !unread {
            // A unix socket is reset when its peer closes with unread data. There is none: put one byte in from the program's side.
            match self.borrow(key) {
                Ok(end) => {
                    let _ = sys::send_vectors(end.as_fd(), &[b"\0"], 0);
                }
                Err(errno) => tracing::debug!(errno = errno.0, "a reset shows as an end of stream"),
            }
        }
        self.die(key, turn);
    }

    pub(crate) fn die(&mut self, key: usize, turn: &mut Turn<'_>) {
        let shown = self.stand_ins.get(key).and_then(|one| one.ours.as_ref()).is_some_and(|ours| sys::readable_bytes(ours.as_fd()) > 0);
        self.detach(key, turn);
        self.watch(key);
        if let Some(one) = self.stand_ins.get_mut(key) {
            one.reset_shown = shown;
            one.leftover.clear();
            one.unsent = None;
            if let Body::Stream(stream) = &mut one.body {
                stream.phase = Phase::Dead;
            }
        }
    }

    /// Makes a listening stand-in readable exactly while the model has a connection to accept. Taking the token out needs the program's
    /// end, which is at hand in accept(2), where it becomes necessary.
    pub(crate) fn update_token(&mut self, key: usize, end: Option<BorrowedFd<'_>>, turn: &mut Turn<'_>) {
        let Some(one) = self.stand_ins.get_mut(key) else { return };
        let Body::Stream(stream) = &mut one.body else { return };
        let Phase::Listening { name, token, returned } = &mut stream.phase else { return };
        let waiting = !returned.is_empty() || turn.stack.readiness(stream.socket).contains(crate::Poll::IN);
        if waiting && !*token {
            let knock = sys::unix_socket(libc::SOCK_STREAM | libc::SOCK_NONBLOCK).and_then(|knock| sys::connect(knock.as_fd(), name));
            match knock {
                // The token stays in the queue though its maker is closed.
                Ok(()) => *token = true,
                // It is gone, or was shut down.
                Err(Errno(libc::ECONNREFUSED)) => self.look_for_closed(turn),
                Err(_) => self.calls.out_of_descriptors += 1,
            }
        } else if !waiting
            && *token
            && let Some(end) = end
        {
            while sys::poll_now(end, libc::POLLIN) & libc::POLLIN != 0 && sys::accept(end).is_ok() {}
            *token = false;
        }
    }
}
