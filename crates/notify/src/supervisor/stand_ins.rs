//! The table of stand-ins: made, found, borrowed, watched, closed.

use super::state::Supervisor;
use super::token::{KIND_STAND_IN, token};
use super::turn::Turn;
use crate::call::Call;
use crate::netlink;
use crate::reactor::Interest;
use crate::standin::stream::{self, Phase, Stream};
use crate::standin::{self, Body, StandIn, liveness, packet};
use crate::sys::{self, Errno};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};
use weft_intercept::face::SocketId;

/// Most stand-ins of a supervisor.
const STAND_INS_MAX: usize = 1 << 20;
/// How long a look at what is closed serves those that send.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// With more stand-ins than this, looking is too dear for that.
const LOOK_STAND_INS_MAX: usize = 1024;

impl Supervisor {
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
        match socket {
            Some(socket) => drop(self.by_socket.insert(socket, key)),
            None => drop(self.links.insert(key)),
        }
        Ok(key)
    }

    /// Gives a stand-in its end on our side.
    pub(crate) fn attach(&mut self, key: usize, ours: OwnedFd, turn: &mut Turn<'_>) -> Result<(), Errno> {
        let Some(one) = self.stand_ins.get_mut(key) else { return Err(Errno(libc::EBADF)) };
        let send_buffer = match &one.body {
            Body::Stream(_) => standin::send_buffer_bytes(one.unread_max),
            Body::Packet(_) => packet::SEND_BUFFER_BYTES,
            Body::Netlink(_) => netlink::SEND_BUFFER_BYTES,
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
    pub(crate) fn watch_room(&mut self, key: usize, turn: &mut Turn<'_>) {
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
        if let Body::Netlink(link) = &one.body {
            self.links.remove(&key);
            // netlink_release: "wake_up_interruptible_all(&nlk->wait);", and whoever sent there finds nobody.
            self.changed.extend(link.senders.keys());
        }
        self.refuse_held(&one.held);
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

    /// Where in its life a stream's stand-in is.
    pub(crate) fn phase(&self, key: usize) -> Option<&Phase> {
        match &self.stand_ins.get(key)?.body {
            Body::Stream(stream) => Some(&stream.phase),
            _ => None,
        }
    }

    /// Is it a stream that is neither connected nor listening?
    pub(crate) fn is_fresh(&self, key: usize) -> bool {
        matches!(self.phase(key), Some(Phase::Fresh))
    }

    /// Is it a stream that listens?
    pub(crate) fn is_listening(&self, key: usize) -> bool {
        matches!(self.phase(key), Some(Phase::Listening { .. }))
    }

    /// Is it a stream through which data flows?
    pub(crate) fn is_connected(&self, key: usize) -> bool {
        matches!(self.phase(key), Some(Phase::Connected))
    }

    /// Our end may have something that epoll has not told yet.
    pub(crate) fn refresh(&mut self, key: usize) {
        if let Some(one) = self.stand_ins.get_mut(key) {
            one.readable |= one.ours.is_some();
        }
    }

    /// A stand-in is changed for others than the call that is answered: those that wait there are tried before the answer goes out.
    pub(crate) fn changed_for_others(&mut self, key: usize) {
        self.changed.insert(key);
    }

    /// The stand-in behind a program's descriptor; none when it is something else.
    ///
    /// # Errors
    /// EBADF: no such descriptor.
    /// EPERM: a socket of the host's network, or one that may not be looked at.
    pub(crate) fn find(&mut self, call: &Call, fd: i32) -> Result<Option<usize>, Errno> {
        if let Some(key) = call.held {
            // It holds its file, whatever the number means by now.
            return Ok(Some(key));
        }
        if let Some((key, generation)) = call.file.get() {
            let same = self.stand_ins.get(key).is_some_and(|one| one.generation == generation);
            return if same { Ok(Some(key)) } else { Err(Errno(libc::EBADF)) };
        }
        let inode = match call.remote.socket_inode(fd) {
            Ok(Some(inode)) => inode,
            Ok(None) => return Ok(None),
            Err(Errno(libc::EPERM)) => {
                // A process that may not be looked into: the descriptor may be a socket of the host's network.
                self.calls.not_permitted += 1;
                return Err(Errno(libc::EPERM));
            }
            Err(errno) => return Err(errno),
        };
        let Some(&key) = self.by_inode.get(&inode) else {
            self.foreign.check(call, fd, inode, &mut self.pidfds, &mut self.calls)?;
            return Ok(None);
        };
        if let Some(one) = self.stand_ins.get_mut(key) {
            one.place = (call.tid, fd);
            call.file.set(Some((key, one.generation)));
        }
        self.error_waits_anew(key, call.tid);
        Ok(Some(key))
    }

    /// Borrows the program's end of a stand-in.
    ///
    /// # Errors
    /// ENFILE: this process has no descriptor left to hold it.
    /// EBADF: nobody has that end.
    pub(crate) fn borrow(&mut self, key: usize) -> Result<OwnedFd, Errno> {
        let Some(one) = self.stand_ins.get(key) else { return Err(Errno(libc::EBADF)) };
        let ((tid, fd), inode) = (one.place, one.inode);
        match self.pidfds.borrow(tid, fd) {
            Ok(end) if sys::inode(end.as_fd())? == inode => return Ok(end),
            // Looking elsewhere needs descriptors too: the program hears what is missing, not that its own descriptor is bad.
            Err(Errno(libc::EMFILE | libc::ENFILE)) => {
                self.calls.out_of_descriptors += 1;
                return Err(Errno(libc::ENFILE));
            }
            _ => {}
        }
        match self.end_of_held(key) {
            Some(end) => Ok(end),
            None => self.search.find(inode, &self.stand_ins, &mut self.pidfds),
        }
    }

    /// Sends a signal to a thread, as a native call would have.
    pub(crate) fn signal(&mut self, tid: u32, signal: i32) {
        if let Ok(pidfd) = sys::pidfd_open(tid) {
            let _ = sys::pidfd_signal(pidfd.as_fd(), signal);
        }
    }

    /// From now on looks for the last close of a stand-in that will not report it.
    pub(crate) fn watch(&mut self, key: usize) {
        if let Some(one) = self.stand_ins.get_mut(key) {
            one.watched = true;
            self.look_at.get_or_insert_with(|| Instant::now() + liveness::PERIOD);
        }
    }

    /// Looks as soon as may be: there is a stand-in that has probably been closed.
    pub(crate) fn look_soon(&mut self) {
        self.look_at = Some(self.next_look.max(Instant::now()));
    }

    /// Closes the stand-ins whose last close nobody reported.
    pub(crate) fn look_for_closed(&mut self, turn: &mut Turn<'_>) {
        self.looked_at = Some(Instant::now());
        // What counts is the look's own work: one that had to wait for a processor is no reason to look less often.
        let spent = sys::thread_time();
        let held = self.forget_cancelled() | self.forget_gone_parked(turn);
        let watched: Vec<(usize, u64)> = self.stand_ins.iter().filter(|(_, one)| one.watched).map(|(key, one)| (key, one.inode)).collect();
        let living = if watched.is_empty() { None } else { liveness::living().ok() };
        let (ended, took) = (Instant::now(), sys::thread_time().saturating_sub(spent));
        self.look_at = (held || !watched.is_empty()).then(|| ended + liveness::period_after(took));
        self.next_look = ended + took * liveness::PAUSE;
        let Some(living) = living else { return };
        for (key, inode) in watched {
            if !living.contains(&inode) {
                self.close_stand_in(key, false, turn);
            }
        }
    }

    /// Lets go of all that is closed, where somebody is in the way perhaps that is not there any more: those that have told so, which is only read after
    /// the call under way, and those that do not. `but`: the stand-in of that call.
    pub(crate) fn let_go_of_closed(&mut self, but: usize, turn: &mut Turn<'_>) {
        let others = self.stand_ins.iter().filter(|(key, _)| *key != but);
        let (keys, ends): (Vec<usize>, Vec<_>) = others.filter_map(|(key, one)| Some((key, one.ours.as_ref()?.as_fd()))).unzip();
        let events = sys::poll_all(&ends, 0);
        for (key, _) in keys.into_iter().zip(events).filter(|(_, events)| events & libc::POLLHUP != 0) {
            self.refresh(key);
            self.pump(key, true, turn);
            self.changed_for_others(key);
        }
        self.look_for_closed(turn);
    }

    /// Does what takes descriptors of this process. Linux frees one within close(2); here those of sockets that the program has closed are freed beside it,
    /// so where none is left (ENFILE) they are looked for, and it is done again. It has no effect where it fails so.
    pub(crate) fn with_descriptors<T>(
        &mut self,
        turn: &mut Turn<'_>,
        mut make: impl FnMut(&mut Supervisor, &mut Turn<'_>) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        match make(self, turn) {
            Err(Errno(libc::ENFILE)) => {
                self.let_go_of_closed(usize::MAX, turn);
                make(self, turn)
            }
            made => made,
        }
    }

    /// Linux ends a listener within close(2), and whoever connects from then on is refused. Here nobody tells of it: a listener with this port is looked
    /// for in the program that used it last.
    pub(crate) fn look_before_connecting(&mut self, address: &[u8], turn: &mut Turn<'_>) {
        let listener = |body: &Body| match body {
            Body::Stream(Stream { socket, phase: Phase::Listening { .. } }) => Some(*socket),
            _ => None,
        };
        self.look_at_port(address, listener, turn);
    }

    /// The same of a datagram socket that shows errors, whose close nobody tells either, before something is sent to its port.
    pub(crate) fn look_before_reaching(&mut self, socket: SocketId, name: Option<&[u8]>, turn: &mut Turn<'_>) {
        // Nothing is looked for: there is none.
        if self.look_at.is_none() {
            return;
        }
        let to = match name.filter(|name| !name.is_empty()) {
            Some(name) => Ok(name.to_vec()),
            None => turn.stack.peer_address(socket),
        };
        let shows_errors = |body: &Body| match body {
            Body::Packet(packets) => packets.name.as_ref().map(|_| packets.socket),
            _ => None,
        };
        if let Ok(to) = to {
            self.look_at_port(&to, shows_errors, turn);
        }
    }

    fn look_at_port(&mut self, address: &[u8], socket_of: impl Fn(&Body) -> Option<SocketId>, turn: &mut Turn<'_>) {
        let Some(port) = address.get(2..4).filter(|_| self.stand_ins.len() <= LOOK_STAND_INS_MAX) else { return };
        let mut found = Vec::new();
        for one in self.stand_ins.iter().map(|(_, one)| one) {
            let Some(socket) = socket_of(&one.body) else { continue };
            if turn.stack.local_address(socket).is_ok_and(|own| own.get(2..4) == Some(port)) {
                found.push((one.place, one.inode));
            }
        }
        let mut is_there = |(tid, fd), inode| self.pidfds.borrow(tid, fd).is_ok_and(|end| sys::inode(end.as_fd()) == Ok(inode));
        if !found.into_iter().all(|(place, inode)| is_there(place, inode)) {
            self.look_for_closed(turn);
        }
    }

    /// A raw socket that is closed must not go on wanting its protocol when another one sends: looks if that is cheap and was not just done.
    pub(crate) fn look_before_sending(&mut self, turn: &mut Turn<'_>) {
        let recent = self.looked_at.is_some_and(|at| at.elapsed() < LOOK_AGAIN);
        if !recent && self.stand_ins.len() <= LOOK_STAND_INS_MAX {
            self.look_for_closed(turn);
        }
    }

    /// Connects a fresh stand-in to us and fills it up, so that it looks like a socket that is connecting.
    pub(crate) fn open_door(&mut self, key: usize, turn: &mut Turn<'_>) -> Result<(), Errno> {
        let end = self.borrow(key)?;
        let ours = self.door.pass(end.as_fd())?;
        let filling = stream::fill(end.as_fd());
        if let Some(one) = self.stand_ins.get_mut(key) {
            one.watched = false;
            if let Body::Stream(stream) = &mut one.body {
                stream.phase = Phase::Connecting { filling };
            }
        }
        self.attach(key, ours, turn)
    }
}
