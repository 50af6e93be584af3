//! A node with a table of descriptors and a clock that its owner moves: everything of libweft but the C.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use weft_core::offload::{self, CutChecksums};
use weft_core::table::{Interface, LinkType};
use weft_core::{Frame, Instant, InterfaceIndex, Message, Op};
use weft_node::{Node, Stack};
use weft_socket::{Errno, Poll, SocketId};

/// Most descriptors of a node.
const DESCRIPTORS_MAX: usize = 1 << 20;
/// Frames that wait to be taken; beyond it the oldest are lost and counted.
const OUTPUT_FRAMES_MAX: usize = 1 << 16;

/// What a call came to when it cannot be answered with an errno.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Linux's errno.
    Errno(Errno),
    /// A native call would have blocked: repeat it when the descriptor is named by [`Embedded::take_changed`] or its time is over.
    Pending,
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Refusal {
        Refusal::Errno(errno)
    }
}

/// Calls of one descriptor that may be pending, one of each kind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Waiting {
    /// recv and accept (SO_RCVTIMEO).
    Receive,
    /// send and connect (SO_SNDTIMEO).
    Send,
}

/// A descriptor.
#[derive(Clone, Debug)]
struct Descriptor {
    socket: SocketId,
    nonblocking: bool,
    /// A blocking connect was begun and its outcome not told yet.
    connecting: bool,
}

/// A node in somebody else's program.
#[derive(Debug)]
pub struct Embedded {
    node: Node,
    now: Instant,
    descriptors: Vec<Option<Descriptor>>,
    by_socket: BTreeMap<SocketId, i32>,
    /// Pending calls, and when they give up.
    pending: BTreeMap<(i32, Waiting), Option<Instant>>,
    changed: BTreeSet<i32>,
    interfaces: Vec<(InterfaceIndex, String, LinkType, u32)>,
    output: VecDeque<Frame>,
    output_lost: u64,
    serial: u64,
}

impl Embedded {
    /// Builds a node from a stack file's text, at time zero. Interfaces of the file must be `memory:`; frames come and go through
    /// [`Embedded::input`] and [`Embedded::output`].
    ///
    /// # Errors
    /// What is wrong with the file, where, and what to do.
    pub fn new(file: &str, text: &str, seed: u64) -> Result<Embedded, String> {
        let mut stack = Stack::parse(file, text).map_err(|error| error.to_string())?;
        stack.set_loader(std::sync::Arc::new(weft_plugin::Files::beside(std::path::Path::new(file))));
        let mut node = Node::new(&stack, seed).map_err(|error| error.to_string())?;
        let mut interfaces = Vec::new();
        for (at, section) in stack.interfaces().enumerate() {
            if !section.backend.starts_with("memory:") {
                let what = format!("backend \"{}\" is a device, and a node in a library has none", section.backend);
                let help = "write backend = \"memory:NAME\": frames come and go through weft_input and weft_output";
                return Err(stack.interface_error(at, "backend", &what, help).to_string());
            }
            let interface = Interface { checksum_offload: true, ..node.describe(&stack, at, section).map_err(|error| error.to_string())? };
            let index = node
                .add_interface(Instant::ZERO, &interface)
                .map_err(|error| stack.interface_error(at, "name", &error.to_string(), "see `weft help stack`").to_string())?;
            interfaces.push((index, interface.name, interface.link, interface.mtu));
        }
        node.configure(Instant::ZERO, &stack).map_err(|error| error.to_string())?;
        Ok(Embedded {
            node,
            now: Instant::ZERO,
            descriptors: Vec::new(),
            by_socket: BTreeMap::new(),
            pending: BTreeMap::new(),
            changed: BTreeSet::new(),
            interfaces,
            output: VecDeque::new(),
            output_lost: 0,
            serial: 0,
        })
    }

    // ---- time ----

    /// The node's time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// When something is due next: a timer of the stack, or the time limit of a pending call.
    pub fn next(&self) -> Option<Instant> {
        let limits = self.pending.values().flatten().copied();
        self.node.next_timer().into_iter().chain(limits).min().map(|at| at.max(self.now))
    }

    /// Moves the clock and does what is due on the way, each at its time.
    ///
    /// # Errors
    /// EINVAL: time does not run backwards.
    pub fn advance(&mut self, to: Instant) -> Result<(), Errno> {
        if to < self.now {
            return Err(Errno::EINVAL);
        }
        while let Some(at) = self.node.next_timer().filter(|at| *at <= to) {
            self.now = self.now.max(at);
            self.node.run(self.now);
            self.collect();
        }
        self.now = to;
        let over = self.pending.iter().filter(|(_, limit)| limit.is_some_and(|limit| limit <= to)).map(|((fd, _), _)| *fd);
        self.changed.extend(over);
        Ok(())
    }

    // ---- frames ----

    /// The number of an interface of the stack file.
    pub fn interface(&self, name: &str) -> Option<u32> {
        self.interfaces.iter().find(|(_, of, _, _)| of == name).map(|(index, ..)| index.0)
    }

    /// Does a frame of this interface begin with an Ethernet header? Otherwise with an IP header.
    pub fn is_ethernet(&self, index: u32) -> Option<bool> {
        self.find(index).map(|(_, _, link, _)| *link == LinkType::Ethernet)
    }

    fn find(&self, index: u32) -> Option<&(InterfaceIndex, String, LinkType, u32)> {
        self.interfaces.iter().find(|(of, ..)| of.0 == index)
    }

    /// A frame arrives. What it causes happens at once.
    ///
    /// # Errors
    /// ENODEV: no such interface.
    pub fn input(&mut self, index: u32, bytes: &[u8]) -> Result<(), Errno> {
        let (of, ..) = self.find(index).ok_or(Errno::ENODEV)?;
        let mut frame = Frame::ingress(bytes);
        frame.meta_mut().interface = *of;
        frame.meta_mut().received = self.now;
        self.node.receive(self.now, [frame]);
        self.collect();
        Ok(())
    }

    /// The next frame that is to leave, to look at: its interface and bytes. It stays until [`Embedded::output_taken`].
    pub fn output(&self) -> Option<(u32, &Frame)> {
        self.output.front().map(|frame| (frame.meta().interface.0, frame))
    }

    /// The frame was taken.
    pub fn output_taken(&mut self) {
        if let Some(mut frame) = self.output.pop_front()
            && let Some(completion) = frame.take_completion()
        {
            self.node.transmitted(self.now, completion);
            self.collect();
        }
    }

    /// Frames that were lost because nobody took them.
    pub fn output_lost(&self) -> u64 {
        self.output_lost
    }

    /// Takes what the node gave out since the last call: frames, and which sockets changed.
    fn collect(&mut self) {
        while self.node.has_transmit() {
            for frame in self.node.take_transmit() {
                let mut cut = Vec::new();
                offload::cut(frame, CutChecksums::Complete, &mut cut);
                for mut frame in cut {
                    offload::complete_checksum(&mut frame);
                    self.output.push_back(frame);
                }
            }
            while self.output.len() > OUTPUT_FRAMES_MAX {
                self.output_lost += 1;
                self.output_taken_quietly();
            }
        }
        let changed = self.node.sockets(self.now, |sockets, _| sockets.take_changed()).unwrap_or_default();
        self.changed.extend(changed.iter().filter_map(|socket| self.by_socket.get(socket)));
    }

    fn output_taken_quietly(&mut self) {
        if let Some(mut frame) = self.output.pop_front()
            && let Some(completion) = frame.take_completion()
        {
            self.node.transmitted(self.now, completion);
        }
    }

    // ---- descriptors ----

    fn get(&mut self, fd: i32) -> Result<&mut Descriptor, Errno> {
        usize::try_from(fd).ok().and_then(|fd| self.descriptors.get_mut(fd)).and_then(Option::as_mut).ok_or(Errno::EBADF)
    }

    /// The socket behind a descriptor.
    pub fn socket_of(&mut self, fd: i32) -> Result<SocketId, Errno> {
        self.get(fd).map(|one| one.socket)
    }

    fn insert(&mut self, socket: SocketId, nonblocking: bool) -> Result<i32, Errno> {
        let free = self.descriptors.iter().position(Option::is_none).unwrap_or(self.descriptors.len());
        if free >= DESCRIPTORS_MAX {
            self.call(|sockets, cx| sockets.close(socket, cx));
            return Err(Errno::ENFILE);
        }
        let one = Descriptor { socket, nonblocking, connecting: false };
        self.by_socket.insert(socket, free as i32);
        match self.descriptors.get_mut(free) {
            Some(place) => *place = Some(one),
            None => self.descriptors.push(Some(one)),
        }
        Ok(free as i32)
    }

    /// Calls into the sockets and carries on what follows. A graph without sockets has no protocol to offer.
    pub fn call<R>(&mut self, f: impl FnOnce(&mut weft_socket::Sockets, &mut weft_core::Context<'_>) -> R) -> Option<R> {
        let result = self.node.sockets(self.now, f);
        self.collect();
        result
    }

    /// As [`Embedded::call`], for a call on one descriptor.
    pub fn on<R>(
        &mut self,
        fd: i32,
        f: impl FnOnce(&mut weft_socket::Sockets, SocketId, &mut weft_core::Context<'_>) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let socket = self.socket_of(fd)?;
        self.call(|sockets, cx| f(sockets, socket, cx)).unwrap_or(Err(Errno::EBADF))
    }

    /// socket(2). SOCK_NONBLOCK in `kind` counts, SOCK_CLOEXEC means nothing here.
    pub fn socket(&mut self, domain: i32, kind: i32, protocol: i32) -> Result<i32, Errno> {
        let bare = kind & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC);
        let socket = self.call(|sockets, cx| sockets.socket(domain, bare, protocol, cx)).unwrap_or(Err(Errno::EAFNOSUPPORT))?;
        self.insert(socket, kind & libc::SOCK_NONBLOCK != 0)
    }

    /// close(2).
    pub fn close(&mut self, fd: i32) -> Result<(), Errno> {
        let socket = self.socket_of(fd)?;
        if let Some(place) = usize::try_from(fd).ok().and_then(|fd| self.descriptors.get_mut(fd)) {
            *place = None;
        }
        self.changed.remove(&fd);
        self.by_socket.remove(&socket);
        self.pending.retain(|(of, _), _| *of != fd);
        self.call(|sockets, cx| sockets.close(socket, cx));
        Ok(())
    }

    /// Is O_NONBLOCK set?
    pub fn nonblocking(&mut self, fd: i32) -> Result<bool, Errno> {
        self.get(fd).map(|one| one.nonblocking)
    }

    /// Sets or clears O_NONBLOCK.
    pub fn set_nonblocking(&mut self, fd: i32, nonblocking: bool) -> Result<(), Errno> {
        self.get(fd).map(|one| one.nonblocking = nonblocking)
    }

    /// Turns "would block" into pending where a native call would have waited: not on non-blocking descriptors, not with MSG_DONTWAIT, and
    /// no longer than SO_RCVTIMEO or SO_SNDTIMEO.
    pub fn waits<R>(&mut self, fd: i32, what: Waiting, flags: i32, result: Result<R, Errno>) -> Result<R, Refusal> {
        let (now, socket) = (self.now, self.socket_of(fd)?);
        let limits = self.node.sockets(now, |sockets, _| sockets.timeouts(socket)).unwrap_or((None, None));
        let limit: Option<Duration> = if what == Waiting::Receive { limits.0 } else { limits.1 };
        let nonblocking = self.get(fd)?.nonblocking;
        if matches!(result, Err(Errno::EAGAIN)) && !nonblocking && flags & libc::MSG_DONTWAIT == 0 {
            let until = *self.pending.entry((fd, what)).or_insert_with(|| limit.map(|limit| now + limit));
            if until.is_none_or(|until| until > now) {
                return Err(Refusal::Pending);
            }
        }
        self.pending.remove(&(fd, what));
        result.map_err(Refusal::from)
    }

    /// connect(2).
    pub fn connect(&mut self, fd: i32, address: &[u8]) -> Result<(), Refusal> {
        let connecting = self.get(fd)?.connecting;
        let result = match self.on(fd, |sockets, socket, cx| sockets.connect(socket, address, cx)) {
            // Ours was the call that is still going on.
            Err(Errno::EISCONN) if connecting => Ok(()),
            other => other,
        };
        let one = self.get(fd)?;
        let under_way = matches!(result, Err(Errno::EINPROGRESS)) || (connecting && matches!(result, Err(Errno::EALREADY)));
        one.connecting = under_way && !one.nonblocking;
        if one.connecting {
            // SO_SNDTIMEO over: Linux answers EINPROGRESS and goes on connecting.
            return self.waits(fd, Waiting::Send, 0, Err(Errno::EAGAIN)).map_err(|refusal| match refusal {
                Refusal::Errno(Errno::EAGAIN) => Refusal::Errno(Errno::EINPROGRESS),
                other => other,
            });
        }
        self.waits(fd, Waiting::Send, 0, result)
    }

    /// accept4(2): the new descriptor and the peer's address.
    pub fn accept(&mut self, fd: i32, flags: i32) -> Result<(i32, Vec<u8>), Refusal> {
        if flags & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) != 0 {
            return Err(Errno::EINVAL.into());
        }
        let accepted = self.on(fd, |sockets, socket, cx| {
            let child = sockets.accept(socket, cx)?;
            Ok((child, sockets.accepted_address(child).unwrap_or_default()))
        });
        let (child, address) = self.waits(fd, Waiting::Receive, 0, accepted)?;
        Ok((self.insert(child, flags & libc::SOCK_NONBLOCK != 0)?, address))
    }

    /// What poll(2) would report now.
    pub fn readiness(&mut self, fd: i32) -> Option<Poll> {
        let socket = self.socket_of(fd).ok()?;
        self.node.sockets(self.now, |sockets, _| sockets.readiness(socket))
    }

    /// A descriptor whose socket changed, or whose pending call ran out of time, since it was last named here; lowest first.
    pub fn take_changed(&mut self) -> Option<i32> {
        self.changed.pop_first()
    }

    /// Answers a control message, as JSON.
    ///
    /// # Errors
    /// Why it could not be read or done.
    pub fn control(&mut self, request: &str) -> Result<String, String> {
        let op: Op = serde_json::from_str(request).map_err(|error| format!("no control message: {error}"))?;
        self.serial += 1;
        let reply = self.node.control(self.now, &Message { serial: self.serial, op });
        self.collect();
        reply.result.map(|value| value.to_string()).map_err(|error| error.to_string())
    }
}
