//! What a program's descriptor can be that the kernel knows nothing of: a socket, an epoll, a timer, a set of signals.
//!
//! The program holds one end of a socket pair, whose inode number tells which object it is, however often it is duplicated, inherited or
//! passed on. The controller holds the other end; it hangs up when the last of the program's is closed.

use super::ids::ThreadId;
use super::interests::Interests;
use super::link::Link;
use super::own_files::OwnFile;
use super::timers::Timer;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd as _, OwnedFd};
use weft_intercept::face::{Poll, SocketId};
use weft_intercept::netlink::Ports;
use weft_intercept::sys;

/// Most objects of a node; more are ENFILE.
pub(super) const OBJECTS_MAX: usize = 65_536;

/// An object.
#[derive(Debug)]
pub(super) struct Object {
    /// Our end.
    ours: OwnedFd,
    pub body: Body,
    /// Epolls that watch it.
    pub watchers: Vec<u64>,
}

impl Object {
    /// The last descriptor of it that a program had is closed.
    pub fn has_hung_up(&self) -> bool {
        sys::poll_now(self.ours.as_fd(), libc::POLLIN) & (libc::POLLHUP | libc::POLLRDHUP) != 0
    }
    pub fn new(ours: OwnedFd, body: Body) -> Object {
        Object { ours, body, watchers: Vec::new() }
    }
}

/// The objects that a node's programs have descriptors of, by inode.
#[derive(Debug, Default)]
pub(super) struct Objects {
    all: BTreeMap<u64, Object>,
    by_socket: BTreeMap<SocketId, u64>,
    /// The netlink sockets.
    links: BTreeSet<u64>,
    /// Who waits for these looks again.
    changed: BTreeMap<u64, Poll>,
    /// Netlink sockets that have room again, or are gone: who waits to send there looks again.
    roomier: BTreeSet<u64>,
    /// Epolls in which there is another thing to look at for who waits there.
    looked_for: BTreeSet<u64>,
    /// Some descriptor may have been closed for good.
    closing: bool,
    /// Those that have hung up while calls wait at them.
    kept: BTreeSet<u64>,
    /// Perhaps no call waits any more at some of these.
    look_at_kept: bool,
    /// Those that a call has closed which is about to be served, with its thread: it decides whether they linger.
    closed_by_calls: BTreeSet<(u64, ThreadId)>,
    /// The numbers of its netlink sockets.
    pub link_ports: Ports,
}

impl Objects {
    pub fn len(&self) -> usize {
        self.all.len()
    }
    pub fn has(&self, inode: u64) -> bool {
        self.all.contains_key(&inode)
    }
    pub fn get(&self, inode: u64) -> Option<&Object> {
        self.all.get(&inode)
    }
    pub fn get_mut(&mut self, inode: u64) -> Option<&mut Object> {
        self.all.get_mut(&inode)
    }
    /// What an object is.
    pub fn body(&self, inode: u64) -> Option<&Body> {
        self.get(inode).map(|object| &object.body)
    }
    pub fn body_mut(&mut self, inode: u64) -> Option<&mut Body> {
        self.get_mut(inode).map(|object| &mut object.body)
    }
    /// The object that is this socket.
    pub fn of_socket(&self, socket: SocketId) -> Option<u64> {
        self.by_socket.get(&socket).copied()
    }
    /// Their inodes, which are numbers of the host's.
    pub fn inodes(&self) -> Vec<u64> {
        self.all.keys().copied().collect()
    }
    /// Those of which no program has a descriptor.
    fn hung_up(&self) -> Vec<u64> {
        self.all.iter().filter(|(_, object)| object.has_hung_up()).map(|(inode, _)| *inode).collect()
    }
    pub fn insert(&mut self, inode: u64, object: Object) {
        match &object.body {
            Body::Socket(socket) => drop(self.by_socket.insert(*socket, inode)),
            Body::Link(_) => drop(self.links.insert(inode)),
            _ => {}
        }
        self.all.insert(inode, object);
    }
    pub fn remove(&mut self, inode: u64) -> Option<Object> {
        let object = self.all.remove(&inode)?;
        if let Body::Socket(socket) = &object.body {
            self.by_socket.remove(socket);
        }
        self.links.remove(&inode);
        self.kept.remove(&inode);
        Some(object)
    }

    /// The netlink sockets among them.
    pub fn links(&self) -> impl Iterator<Item = &Link> {
        self.links.iter().filter_map(|inode| if let Some(Body::Link(link)) = self.body(*inode) { Some(link) } else { None })
    }
    /// The first netlink socket of which this holds, with its inode.
    pub fn find_link(&mut self, is: impl Fn(&Link) -> bool) -> Option<(u64, &mut Link)> {
        let holds = |inode: &&u64| matches!(self.body(**inode), Some(Body::Link(link)) if is(link));
        let inode = *self.links.iter().find(holds)?;
        match self.body_mut(inode)? {
            Body::Link(link) => Some((inode, link)),
            _ => None,
        }
    }
    /// Does something with each netlink socket; true: it has changed.
    pub fn change_links(&mut self, mut change: impl FnMut(&mut Link) -> bool) {
        for inode in &self.links {
            if let Some(Object { body: Body::Link(link), .. }) = self.all.get_mut(inode)
                && change(link)
            {
                // netlink_overrun: "sk_error_report(sk);"
                let error = if link.readiness() & Poll::ERR.0 != 0 { Poll::ERR } else { Poll::NONE };
                *self.changed.entry(*inode).or_default() |= Poll::WAKES_READERS | error;
            }
        }
    }

    /// Something has happened to an object. `wakes`: the key with which Linux wakes who waits for it.
    pub fn note_change(&mut self, inode: u64, wakes: Poll) {
        *self.changed.entry(inode).or_default() |= wakes;
    }
    /// Nothing has happened to an epoll, but who waits there has another thing to look at.
    pub fn note_look(&mut self, inode: u64) {
        self.looked_for.insert(inode);
    }
    /// A netlink socket has room again, or is gone.
    pub fn note_room(&mut self, inode: u64) {
        self.roomier.insert(inode);
    }
    pub fn has_changes(&self) -> bool {
        !(self.changed.is_empty() && self.roomier.is_empty() && self.looked_for.is_empty())
    }
    /// Those that have changed since the last call, those that have room, and those at which one has to look again.
    pub fn take_changes(&mut self) -> (BTreeMap<u64, Poll>, BTreeSet<u64>, BTreeSet<u64>) {
        (std::mem::take(&mut self.changed), std::mem::take(&mut self.roomier), std::mem::take(&mut self.looked_for))
    }

    /// One that has hung up stays until the calls that wait at it are over.
    pub fn keep(&mut self, inode: u64) {
        self.kept.insert(inode);
    }
    /// This thread is about to close a descriptor of it.
    pub fn is_closed_soon(&mut self, inode: u64, thread: ThreadId) {
        self.closed_by_calls.insert((inode, thread));
    }
    pub fn is_closed_by_call(&self, inode: u64) -> bool {
        self.closed_by_calls.range((inode, 0)..=(inode, ThreadId::MAX)).next().is_some()
    }
    /// It has.
    pub fn close_is_served(&mut self, inode: u64, thread: ThreadId) {
        if self.closed_by_calls.remove(&(inode, thread)) {
            self.wait_is_over();
        }
    }
    /// It will not any more.
    pub fn thread_is_gone(&mut self, thread: ThreadId) {
        self.closed_by_calls.retain(|(_, closes)| *closes != thread);
        self.wait_is_over();
    }
    /// A call that has waited is over.
    pub fn wait_is_over(&mut self) {
        self.look_at_kept |= !self.kept.is_empty();
    }
    /// Some may have hung up.
    pub fn look_for_closed(&mut self) {
        self.closing = true;
    }
    pub fn may_be_closed(&self) -> bool {
        self.closing || self.look_at_kept
    }
    /// Those of which no program has a descriptor and perhaps no call holds any more: what [`Objects::may_be_closed`] says, once.
    pub fn take_closing(&mut self) -> Vec<u64> {
        match (std::mem::take(&mut self.closing), std::mem::take(&mut self.look_at_kept)) {
            (true, _) => self.hung_up(),
            (false, true) => self.kept.iter().copied().collect(),
            (false, false) => Vec::new(),
        }
    }
}

/// What it is.
#[derive(Debug)]
pub(super) enum Body {
    Socket(SocketId),
    Epoll(Interests),
    Timer(TimerFile),
    /// The signals that it reads.
    Signals(u64),
    /// AF_NETLINK.
    Link(Link),
    /// A file below /proc that was opened for writing.
    Setting {
        /// Which one.
        of: Written,
        /// Bytes that were read or written already.
        position: usize,
        /// It may be read, too.
        reads: bool,
    },
}

/// A file below /proc that programs write.
#[derive(Clone, Debug)]
pub(super) enum Written {
    /// The node's: its path below /proc/sys/net.
    Node(String),
    /// An interface's: its name, and the path below its folder in /sys/class/net.
    Interface(String, String),
    /// A process's, by its number: its place in the table may be another's by now.
    Process(u32, OwnFile),
}

/// A timerfd.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimerFile {
    pub clock: i32,
    pub timer: Timer,
    pub expirations: u64,
    /// What CLOCK_REALTIME showed beyond CLOCK_MONOTONIC when the timer was made, or its cancellation was told (timerfd_ctx::moffs).
    pub offset: u64,
    /// TFD_TIMER_CANCEL_ON_SET
    pub cancels: bool,
    /// The date was set, and nobody was told.
    pub cancelled: bool,
}
