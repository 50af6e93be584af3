//! The supervisor's parts: trees, stand-ins, calls that wait, and what is kept for them.

use super::door::Door;
use super::foreign::Foreign;
use super::held::HeldCalls;
use super::limited::LimitedWaits;
use super::parked::ParkedCalls;
use super::pidfds::Pidfds;
use super::replay::Replays;
use super::search::Search;
use super::token::{KIND_TIMER, KIND_TREE, KIND_WORKERS, token};
use super::waiting::Waiting;
use crate::caretaker::ledger::Ledger;
use crate::listener::Listener;
use crate::netlink::Ports;
use crate::reactor::{Interest, Reactor};
use crate::remote::Window;
use crate::standin::StandIn;
use crate::standin::buffer::ReadBuffer;
use crate::sys::{self, Errno};
use crate::workers::Workers;
use slab::Slab;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;
use weft_intercept::calls::Calls;
use weft_intercept::face::SocketId;

/// A process tree under one filter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TreeId(pub(crate) usize);

/// Serves the programs of one node. See the crate's text.
#[derive(Debug)]
pub struct Supervisor {
    pub(super) space: u64,
    pub(crate) trees: Slab<Arc<Listener>>,
    /// Trees that have a userfaultfd.
    pub(super) by_workers: BTreeSet<usize>,
    pub(super) windows: HashMap<u32, Arc<Window>>,
    pub(super) workers: Workers,
    pub(super) parked: ParkedCalls,
    pub(crate) stand_ins: Slab<StandIn>,
    /// The netlink sockets among them.
    pub(super) links: BTreeSet<usize>,
    /// The numbers of netlink sockets.
    pub(crate) netlink_ports: Ports,
    pub(super) generation: u16,
    pub(crate) by_inode: HashMap<u64, usize>,
    pub(super) by_socket: HashMap<SocketId, usize>,
    pub(crate) held: HeldCalls,
    pub(super) replays: Replays,
    pub(super) limited: LimitedWaits,
    pub(super) foreign: Foreign,
    pub(super) search: Search,
    /// Errors of datagram sockets that wait to be shown, since when; and when they are looked at.
    pub(super) errors_waiting: BTreeMap<usize, Waiting>,
    pub(super) errors_at: Option<Instant>,
    pub(crate) calls: Calls,
    pub(super) door: Door,
    pub(super) timer: OwnedFd,
    pub(super) timer_at: Option<Instant>,
    pub(super) look_at: Option<Instant>,
    /// Not to look before this, however much there is to look for.
    pub(super) next_look: Instant,
    pub(super) looked_at: Option<Instant>,
    pub(super) pidfds: Pidfds,
    /// See [`Supervisor::changed_for_others`].
    pub(super) changed: BTreeSet<usize>,
    /// They are being tried again.
    pub(super) retries: bool,
    pub(crate) buffer: ReadBuffer,
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
        let door = Door::new()?;
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
            parked: ParkedCalls::default(),
            stand_ins: Slab::new(),
            links: BTreeSet::new(),
            netlink_ports: Ports::default(),
            generation: 0,
            by_inode: HashMap::new(),
            by_socket: HashMap::new(),
            held: HeldCalls::default(),
            replays: Replays::default(),
            limited: LimitedWaits::default(),
            foreign: Foreign::default(),
            search: Search::default(),
            errors_waiting: BTreeMap::new(),
            errors_at: None,
            calls: Calls::default(),
            door,
            timer,
            timer_at: None,
            look_at: None,
            next_look: Instant::now(),
            looked_at: None,
            pidfds: Pidfds::default(),
            changed: BTreeSet::new(),
            retries: false,
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
        self.pidfds.give_back_memory();
        self.windows.shrink_to_fit();
        self.replays.give_back_memory();
        self.limited.give_back_memory();
        sys::trim_memory();
    }
}
