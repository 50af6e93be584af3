//! The supervisor: trees, stand-ins and held calls, and the order in which they are served.

mod door;
mod errors;
mod foreign;
mod held;
mod parked;
mod pump;
mod replay;
mod search;
mod stand_ins;
mod waiting;

pub(crate) use search::is_filtered;

use crate::call::{self, Call, Outcome};
use crate::calls::Calls;
use crate::caretaker::ledger::Ledger;
use crate::face::{SocketId, Stack};
use crate::notify::{HELD_MAX, Listener, Notification};
use crate::reactor::{Interest, Reactor, Readiness};
use crate::remote::{LATER, Remote, Stored, Window};
use crate::standin::buffer::ReadBuffer;
use crate::standin::{Body, StandIn};
use crate::sys::{self, Errno};
use crate::workers::Workers;
use slab::Slab;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;
use weft_core::engine::Alert;

/// Most stand-ins of a supervisor.
pub const STAND_INS_MAX: usize = 1 << 20;
/// Notifications taken from one listener before others get a turn.
const NOTIFICATIONS_MAX: usize = 64;
/// Rounds of "the stack changed, so stand-ins move, so the stack changes" in one turn.
const ROUNDS_MAX: usize = 32;
/// pidfds kept open.
const PIDFDS_MAX: usize = 256;
/// Windows kept open: two descriptors each.
const WINDOWS_MAX: usize = 256;

/// A process tree under one filter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TreeId(pub(crate) usize);

/// What is borrowed for one turn.
pub(crate) struct Turn<'a> {
    pub stack: &'a mut dyn Stack,
    pub reactor: &'a mut dyn Reactor,
}

/// Serves the programs of one node. See the crate's text.
#[derive(Debug)]
pub struct Supervisor {
    space: u64,
    pub(crate) trees: Slab<Arc<Listener>>,
    /// Trees that have a userfaultfd.
    by_workers: BTreeSet<usize>,
    windows: HashMap<u32, Arc<Window>>,
    workers: Workers,
    parked: held::ParkedCalls,
    pub(crate) stand_ins: Slab<StandIn>,
    generation: u16,
    pub(crate) by_inode: HashMap<u64, usize>,
    by_socket: HashMap<SocketId, usize>,
    pub(crate) held: held::HeldCalls,
    replays: replay::Replays,
    foreign: foreign::Foreign,
    search: search::Search,
    /// Errors of datagram sockets that wait to be shown, since when; and when they are looked at.
    errors_waiting: BTreeMap<usize, waiting::Waiting>,
    errors_at: Option<Instant>,
    pub(crate) calls: Calls,
    door: door::Door,
    timer: OwnedFd,
    timer_at: Option<Instant>,
    look_at: Option<Instant>,
    /// Not to look before this, however much there is to look for.
    next_look: Instant,
    looked_at: Option<Instant>,
    pidfds: HashMap<u32, OwnedFd>,
    pub(crate) buffer: ReadBuffer,
}

const KIND_TREE: u64 = 1;
const KIND_STAND_IN: u64 = 2;
const KIND_TIMER: u64 = 3;
const KIND_WORKERS: u64 = 4;

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
        let door = door::Door::new()?;
        let timer = sys::timer()?;
        let space = u64::from(space);
        reactor.add(timer.as_fd(), token(space, KIND_TIMER, 0, 0), Interest { readable: true, writable: false, edge: false })?;
        let workers = Workers::new()?;
        reactor.add(workers.event(), token(space, KIND_WORKERS, 0, 0), Interest { readable: true, writable: false, edge: false })?;
        Ok(Supervisor {
            space,
            trees: Slab::new(),
            by_workers: BTreeSet::new(),
            windows: HashMap::new(),
            workers,
            parked: held::ParkedCalls::default(),
            stand_ins: Slab::new(),
            generation: 0,
            by_inode: HashMap::new(),
            by_socket: HashMap::new(),
            held: held::HeldCalls::default(),
            replays: replay::Replays::default(),
            foreign: foreign::Foreign::default(),
            search: search::Search::default(),
            errors_waiting: BTreeMap::new(),
            errors_at: None,
            calls: Calls::default(),
            door,
            timer,
            timer_at: None,
            look_at: None,
            next_look: Instant::now(),
            looked_at: None,
            pidfds: HashMap::new(),
            buffer: ReadBuffer::default(),
        })
    }

    /// Held calls are written there from now on, so that they fail in order after this process's end, too. Before any program is taken over.
    pub fn keep_ledger(&mut self, ledger: Arc<Ledger>) {
        self.held.ledger = Some(ledger);
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
        entry.insert(Arc::new(Listener::new(listener)));
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

    /// Gives back to the system what a burst of traffic needed, all of the process's free memory: for quiet times, as it takes milliseconds.
    pub fn give_back_memory(&mut self) {
        self.buffer = ReadBuffer::default();
        self.trees.shrink_to_fit();
        self.stand_ins.shrink_to_fit();
        self.by_inode.shrink_to_fit();
        self.by_socket.shrink_to_fit();
        self.pidfds.shrink_to_fit();
        self.windows.shrink_to_fit();
        self.replays.give_back_memory();
        sys::trim_memory();
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
            KIND_WORKERS => self.workers_are_back(turn),
            _ => {}
        }
        self.settle(turn);
    }

    /// The node has run: frames came in, timers fired. Moves what the sockets that changed have for their programs.
    pub fn after_stack_ran(&mut self, stack: &mut dyn Stack, reactor: &mut dyn Reactor) {
        self.settle(&mut Turn { stack, reactor });
    }

    /// These sockets have changed; somebody else has taken the news.
    pub fn sockets_changed(&mut self, changed: &[SocketId], stack: &mut dyn Stack, reactor: &mut dyn Reactor) {
        let turn = &mut Turn { stack, reactor };
        for socket in changed {
            match self.by_socket.get(socket) {
                Some(&key) => self.move_and_retry(key, false, turn),
                None => turn.stack.not_a_programs(*socket),
            }
        }
        self.settle(turn);
    }

    /// Blocks have alerted of something: programs that listen to netlink's groups hear of it.
    pub fn alerted(&mut self, alerts: &[Alert], stack: &mut dyn Stack, reactor: &mut dyn Reactor) {
        let listens = |one: &StandIn| matches!(&one.body, Body::Netlink(session) if session.listens());
        let keys: Vec<usize> = self.stand_ins.iter().filter(|(_, one)| listens(one)).map(|(key, _)| key).collect();
        let turn = &mut Turn { stack, reactor };
        for key in keys {
            let Supervisor { stand_ins, calls, .. } = self;
            if let Some(one) = stand_ins.get_mut(key) {
                crate::netlink::tell(one, alerts, turn.stack, calls);
            }
            self.move_and_retry(key, false, turn);
        }
    }

    fn settle(&mut self, turn: &mut Turn<'_>) {
        for _ in 0..ROUNDS_MAX {
            let changed = turn.stack.take_changed();
            if changed.is_empty() {
                break;
            }
            for socket in changed {
                match self.by_socket.get(&socket) {
                    Some(&key) => self.move_and_retry(key, false, turn),
                    None => turn.stack.not_a_programs(socket),
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
        for id in self.held.of_tree(tree) {
            self.forget_held(id);
        }
        self.forget_parked_of(tree, turn);
        self.by_workers.remove(&tree);
        if let Some(listener) = self.trees.try_remove(tree) {
            let _ = turn.reactor.remove(listener.as_fd());
        }
        if self.trees.is_empty() {
            self.pidfds.clear();
            self.windows.clear();
            self.replays.clear();
            self.foreign = foreign::Foreign::default();
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
            since: Instant::now(),
            held: None,
            expired: false,
            remote: self.remote(tree, notification.tid),
            file: Cell::new(None),
            messages: Cell::new(0),
        };
        if let Some(call) = self.take_up_parked(call, turn) {
            self.begin(call, turn);
        }
    }

    /// The memory of a thread's program.
    fn remote(&mut self, tree: usize, tid: u32) -> Remote {
        if self.windows.len() >= WINDOWS_MAX && !self.windows.contains_key(&tid) {
            self.windows.clear();
        }
        let window = self.windows.entry(tid).or_insert_with(|| Arc::new(Window::new(tid)));
        Remote::new(Arc::clone(window), self.by_workers.contains(&tree))
    }

    /// A process of this tree makes a userfaultfd: from now on nobody but workers touches the memory of the tree's processes.
    pub(crate) fn leave_to_workers(&mut self, tree: usize) {
        self.by_workers.insert(tree);
        self.held.calls_of_tree(tree).for_each(|call| call.remote.leave_to_workers());
        self.parked.calls_of_tree(tree).for_each(|call| call.remote.leave_to_workers());
    }

    /// Answers a call, from the beginning.
    fn begin(&mut self, call: Call, turn: &mut Turn<'_>) {
        drop((call.remote.take_stores(), call.remote.take_wanted()));
        if call.held.is_none() && call.messages.get() == 0 {
            match self.replays.take(&call) {
                Ok(Some(replay)) => return self.send_missed(&call, replay),
                Ok(None) => {}
                Err(_) => return self.park(call, held::Stage::Answer(Err(LATER)), turn),
            }
        }
        let outcome = (call.row.answer)(self, turn, &call);
        self.finish(call, outcome, turn);
    }

    /// Writes what the call writes, then sends its answer or keeps it.
    fn finish(&mut self, call: Call, outcome: Result<Outcome, Errno>, turn: &mut Turn<'_>) {
        let outcome = match outcome {
            Err(LATER) => return self.park(call, held::Stage::Answer(outcome), turn),
            Ok(Outcome::Done(_) | Outcome::DoneWithEffect(_) | Outcome::HandOver { .. }) => match call.remote.store() {
                Stored::All => outcome,
                Stored::Failed(otherwise) => self.instead(outcome, otherwise, turn),
                Stored::Later => return self.park(call, held::Stage::Answer(outcome), turn),
            },
            _ => outcome,
        };
        self.settle_call(call, outcome, turn);
    }

    /// What the call writes could not be written.
    fn instead(&mut self, outcome: Result<Outcome, Errno>, otherwise: Result<i64, Errno>, turn: &mut Turn<'_>) -> Result<Outcome, Errno> {
        match (outcome, otherwise) {
            // What cannot be told its address is closed, as by the kernel.
            (Ok(Outcome::HandOver { child, .. }), Err(Errno(libc::EFAULT))) => turn.stack.close(child),
            (Ok(Outcome::HandOver { listener, child, .. }), _) => call::give_back(self, turn, listener, child),
            _ => {}
        }
        otherwise.map(Outcome::DoneWithEffect)
    }

    /// Sends the answer, or keeps the call.
    fn settle_call(&mut self, call: Call, outcome: Result<Outcome, Errno>, turn: &mut Turn<'_>) {
        let outcome = match outcome {
            Ok(Outcome::HandOver { listener, child, flags }) => call::hand_over(self, turn, &call, listener, child, flags),
            other => other,
        };
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
            Ok(Outcome::Cancelled | Outcome::HandOver { .. }) => Err(Errno(libc::ENOENT)),
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
                // Those say "later" and not "no".
                let later = errno == Errno(libc::EINPROGRESS) || errno == Errno(libc::EAGAIN);
                *(if later { &mut counts.answered } else { &mut counts.refused }) += 1;
                listener.refuse(call.id, errno)
            }
        };
        if sent.is_err() {
            counts.cancelled += 1;
            self.replays.cancelled(call.tid);
        }
        let answer = match outcome {
            Ok(Outcome::DoneWithEffect(value)) => Ok(value),
            // An errno may have been the only word of an error, or of a connection that has begun. That there is nothing now is no news.
            Err(errno) if errno.0 != libc::EAGAIN => Err(errno),
            _ => return,
        };
        match sent {
            Ok(()) => self.replays.sent(&call, answer),
            Err(_) => self.keep_missed(call, answer, turn),
        }
    }

    /// Keeps an answer that could not be sent.
    fn keep_missed(&mut self, call: Call, answer: Result<i64, Errno>, turn: &mut Turn<'_>) {
        match replay::Replay::of(&call, answer) {
            Ok(replay) => self.replays.keep(call.tid, replay),
            Err(_) => self.park(call, held::Stage::Missed(answer), turn),
        }
    }

    /// The call comes again, and what came of it was not told: tells it.
    fn send_missed(&mut self, call: &Call, replay: replay::Replay) {
        let Some(listener) = self.trees.get(call.tree) else { return };
        let counts = self.calls.of(call.row.name);
        let sent = match replay.answer {
            Ok(value) => {
                counts.answered += 1;
                listener.answer(call.id, value)
            }
            Err(errno) => {
                counts.refused += 1;
                listener.refuse(call.id, errno)
            }
        };
        match sent {
            Ok(()) => self.replays.sent_again(call, replay),
            Err(_) => {
                counts.cancelled += 1;
                self.replays.cancelled(call.tid);
                self.replays.keep(call.tid, replay);
            }
        }
    }
}
