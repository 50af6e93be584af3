//! connect(2), listen(2), accept(2), accept4(2), shutdown(2).

use super::opening::{is_opening, open_for_data};
use super::trapped::{Call, Outcome, wait};
use crate::face::{SocketId, SocketState};
use crate::memory::Memory as _;
use crate::standin::stream::{self, Phase, Stream};
use crate::standin::{Body, StandIn};
use crate::supervisor::{Supervisor, Turn};
use crate::sys::{self, Errno};
use std::collections::VecDeque;
use std::os::fd::AsFd;
use weft_loader::calls::{self, Flags};

/// Connections that may lie in the queue of a listening stand-in. There is one token at a time; the rest is for strangers who find the name.
const STAND_IN_BACKLOG: i32 = 16;

/// `connect(fd, address, length)`
pub(super) fn connect(s: &mut Supervisor, turn: &mut Turn<'_>, call: &Call, asked: calls::Connect) -> Result<Outcome, Errno> {
    let Some(key) = s.find(call, asked.fd.get())? else { return Ok(Outcome::Continue) };
    let address = call.read_address(asked.addr.0 as u64, asked.addrlen.get())?;
    let Some(one) = s.stand_ins.get(key) else { return Err(Errno(libc::EBADF)) };
    match &one.body {
        Body::Netlink(_) => Ok(Outcome::Done(0)),
        Body::Packet(packets) => turn.stack.connect(packets.socket, &address).map(|()| Outcome::DoneWithEffect(0)),
        Body::Stream(stream) => {
            let socket = stream.socket;
            connect_stream(s, turn, call, Connecting { fd: asked.fd.get(), key, socket }, &address)
        }
    }
}

/// A stream that connect(2) is about: the program's descriptor, its stand-in, and the model's socket.
struct Connecting {
    fd: i32,
    key: usize,
    socket: SocketId,
}

fn connect_stream(
    s: &mut Supervisor,
    turn: &mut Turn<'_>,
    call: &Call,
    Connecting { fd, key, socket }: Connecting,
    address: &[u8],
) -> Result<Outcome, Errno> {
    if call.held.is_none() {
        revive_if_used(s, turn, call, fd, key, socket)?;
    }
    let result = turn.stack.connect(socket, address);
    if matches!(result, Ok(()) | Err(Errno(libc::EINPROGRESS))) {
        open_for_data(s, turn, key, socket)?;
    }
    if result.is_ok() && s.is_listening(key) && !is_opening(turn, socket) {
        // connect(AF_UNSPEC) has ended the listener: a unix socket cannot become unconnected again, but whoever waits there wakes.
        let end = s.borrow(key)?;
        let _ = sys::shutdown(end.as_fd(), libc::SHUT_RDWR);
    }
    match result {
        Ok(()) => Ok(Outcome::DoneWithEffect(0)),
        Err(errno @ Errno(libc::EINPROGRESS | libc::EALREADY)) => {
            let end = s.borrow(key)?;
            // inet_stream_connect: a second connect of a blocking socket waits too; the limit is SO_SNDTIMEO, and then EINPROGRESS.
            let otherwise = if call.held.is_some() { libc::EINPROGRESS } else { errno.0 };
            wait(call, key, &end, 0, libc::SO_SNDTIMEO, otherwise)
        }
        Err(errno) => {
            // The failure has been told now.
            s.forget_native_error(key);
            Err(errno)
        }
    }
}

/// The model's socket is as good as new (a failed attempt was told, a connection or listener was dissolved), but its stand-in is not.
fn revive_if_used(s: &mut Supervisor, turn: &mut Turn<'_>, call: &Call, fd: i32, key: usize, socket: SocketId) -> Result<(), Errno> {
    let unused = matches!(turn.stack.state(socket), Some(SocketState::Fresh | SocketState::Bound));
    let used = matches!(s.phase(key), Some(Phase::Dead | Phase::Connected | Phase::Listening { .. }));
    if unused && used { revive(s, turn, call, fd, key) } else { Ok(()) }
}

/// A failed connect may be tried again on the same descriptor, but a unix socket that was reset cannot be connected again: put a new one in
/// its place. Duplicates of the descriptor keep the old one (docs/compatibility.md).
fn revive(s: &mut Supervisor, turn: &mut Turn<'_>, call: &Call, fd: i32, key: usize) -> Result<(), Errno> {
    let old = s.borrow(key)?;
    let theirs = sys::unix_socket(libc::SOCK_STREAM)?;
    if sys::status_flags(old.as_fd())? & libc::O_NONBLOCK != 0 {
        sys::set_nonblocking(theirs.as_fd())?;
    }
    drop(old);
    let tree = s.trees.get(call.tree).ok_or(Errno(libc::ENOENT))?;
    let close_on_exec = sys::is_close_on_exec(call.tid, fd);
    tree.replace(call.id, theirs.as_fd(), fd, close_on_exec)?;
    let Some(mut one) = s.remove_stand_in(key, turn) else { return Err(Errno(libc::EBADF)) };
    let Body::Stream(stream) = &mut one.body else { return Err(Errno(libc::EBADF)) };
    let body = Body::Stream(Stream { socket: stream.socket, phase: Phase::Fresh });
    let new = s.add_stand_in(theirs.as_fd(), None, body, turn)?;
    debug_assert_eq!(new, key, "a slab gives the last removed slot out first");
    s.watch(new);
    if let Some(one) = s.stand_ins.get_mut(new) {
        one.place = (call.tid, fd);
    }
    Ok(())
}

/// `listen(fd, backlog)`
pub(super) fn listen(s: &mut Supervisor, turn: &mut Turn<'_>, call: &Call, asked: calls::Listen) -> Result<Outcome, Errno> {
    let Some(key) = s.find(call, asked.fd.get())? else { return Ok(Outcome::Continue) };
    let socket = s.stand_ins.get(key).and_then(StandIn::socket).ok_or(Errno(libc::EOPNOTSUPP))?;
    revive_if_used(s, turn, call, asked.fd.get(), key, socket)?;
    let mut result = turn.stack.listen(socket, asked.backlog.get());
    if result == Err(Errno(libc::EADDRINUSE)) {
        s.look_for_closed(turn);
        result = turn.stack.listen(socket, asked.backlog.get());
    }
    result?;
    if s.is_fresh(key) {
        let end = s.borrow(key)?;
        // With a name, and not yet a listener of weft's, it would look like one of the program's own if weft ended here.
        let _noted = s.note(call);
        let name = sys::autobind(end.as_fd())?;
        sys::listen(end.as_fd(), STAND_IN_BACKLOG)?;
        if let Some(StandIn { body: Body::Stream(stream), .. }) = s.stand_ins.get_mut(key) {
            stream.phase = Phase::Listening { name, token: false, returned: VecDeque::new() };
        }
        s.update_token(key, Some(end.as_fd()), turn);
    }
    Ok(Outcome::DoneWithEffect(0))
}

/// `accept(fd, address, length pointer)`
pub(super) fn accept(s: &mut Supervisor, turn: &mut Turn<'_>, call: &Call, asked: calls::Accept) -> Result<Outcome, Errno> {
    let calls::Accept { fd, addr, addrlen } = asked;
    accept4(s, turn, call, calls::Accept4 { fd, addr, addrlen, flags: Flags(0) })
}

/// `accept4(fd, address, length pointer, flags)`
pub(super) fn accept4(s: &mut Supervisor, turn: &mut Turn<'_>, call: &Call, asked: calls::Accept4) -> Result<Outcome, Errno> {
    let flags = asked.flags.get() as i32;
    let Some(key) = s.find(call, asked.fd.get())? else { return Ok(Outcome::Continue) };
    if flags & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) != 0 {
        return Err(Errno(libc::EINVAL));
    }
    let socket = s.stand_ins.get(key).and_then(StandIn::socket).ok_or(Errno(libc::EOPNOTSUPP))?;
    if asked.addr.0 != 0 {
        call.remote.read_ahead(asked.addrlen.0 as u64)?;
    }
    let end = s.borrow(key)?;
    let child = match s.take_returned(key) {
        Some(child) => child,
        None => match turn.stack.accept(socket) {
            Ok(child) => child,
            Err(Errno(libc::EAGAIN)) => {
                s.update_token(key, Some(end.as_fd()), turn);
                return wait(call, key, &end, 0, libc::SO_RCVTIMEO, libc::EAGAIN);
            }
            Err(errno) => return Err(errno),
        },
    };
    let told = tell_peer(turn, call, asked, child);
    if told.is_err() {
        turn.stack.close(child);
    }
    s.update_token(key, Some(end.as_fd()), turn);
    told.map(|()| Outcome::HandOver { listener: key, child, flags })
}

/// Writes the address of whoever is at the other end of an accepted connection. Where that cannot be, the connection is closed (do_accept: "goto out_fd").
fn tell_peer(turn: &mut Turn<'_>, call: &Call, asked: calls::Accept4, child: SocketId) -> Result<(), Errno> {
    if asked.addr.0 == 0 {
        return Ok(());
    }
    let address = turn.stack.accepted_address(child)?;
    call.write_address(&address, asked.addr.0 as u64, asked.addrlen.0 as u64)
}

/// Gives an accepted connection to the program, in one step with the answer. It leaves the queue only when the program has it.
pub(crate) fn hand_over(
    s: &mut Supervisor,
    turn: &mut Turn<'_>,
    call: &Call,
    listener: usize,
    child: SocketId,
    flags: i32,
) -> Result<Outcome, Errno> {
    let outcome = hand_child(s, turn, call, child, flags);
    if !matches!(outcome, Ok(Outcome::Sent)) {
        s.give_back(listener, child, turn);
    }
    outcome
}

/// Makes a stand-in for an accepted connection and gives it to the program, in one step with the answer.
fn hand_child(s: &mut Supervisor, turn: &mut Turn<'_>, call: &Call, child: SocketId, flags: i32) -> Result<Outcome, Errno> {
    let made = sys::unix_pair(libc::SOCK_STREAM).and_then(|(theirs, ours)| {
        let key = s.add_stand_in(theirs.as_fd(), Some(ours), Body::Stream(Stream { socket: child, phase: Phase::Connected }), turn)?;
        Ok((theirs, key))
    });
    let (theirs, key) = made.map_err(|errno| {
        s.calls.out_of_descriptors += 1;
        if errno.0 == libc::EMFILE { Errno(libc::ENFILE) } else { errno }
    })?;
    if flags & libc::SOCK_NONBLOCK != 0 {
        sys::set_nonblocking(theirs.as_fd())?;
    }
    let handed = s
        .trees
        .get(call.tree)
        .ok_or(Errno(libc::ENOENT))
        .and_then(|tree| tree.hand_over(call.id, theirs.as_fd(), flags & libc::SOCK_CLOEXEC != 0));
    match handed {
        Ok(fd) => {
            if let Some(one) = s.stand_ins.get_mut(key) {
                one.place = (call.tid, fd);
            }
            drop(theirs);
            s.pump(key, false, turn);
            Ok(Outcome::Sent)
        }
        Err(errno) => {
            s.remove_stand_in(key, turn);
            if errno.0 == libc::ENOENT { Ok(Outcome::Cancelled) } else { Err(errno) }
        }
    }
}

/// `shutdown(fd, how)`
pub(super) fn shutdown(s: &mut Supervisor, turn: &mut Turn<'_>, call: &Call, asked: calls::Shutdown) -> Result<Outcome, Errno> {
    let Some(key) = s.find(call, asked.fd.get())? else { return Ok(Outcome::Continue) };
    let how = asked.how.get();
    let (read, write) = match how {
        libc::SHUT_RD => (true, false),
        libc::SHUT_WR => (false, true),
        libc::SHUT_RDWR => (true, true),
        _ => return Err(Errno(libc::EINVAL)),
    };
    let socket = s.stand_ins.get(key).and_then(StandIn::socket).ok_or(Errno(libc::EOPNOTSUPP))?;
    let flowing = matches!(s.phase(key), Some(Phase::Connected));
    // What was written before comes before the FIN.
    s.refresh(key);
    s.pump(key, false, turn);
    if !s.stand_ins.contains(key) {
        return Err(Errno(libc::EBADF));
    }
    let result = match (flowing, read, write) {
        (true, true, _) => turn.stack.shutdown(socket, libc::SHUT_RD),
        // The pump passes the end on when it comes to it; here only: is there a connection?
        (true, false, _) => turn.stack.peer_address(socket).map(drop),
        (false, ..) => turn.stack.shutdown(socket, how),
    };
    // inet_shutdown: "case TCP_CLOSE: err = -ENOTCONN; /* Hack to wake up other listeners, who can poll for EPOLLHUP, even on eg.
    // unconnected UDP sockets -- RR */ fallthrough; default: sk->sk_shutdown |= how;"
    if result.is_err() && result != Err(Errno(libc::ENOTCONN)) {
        return result.map(|()| Outcome::DoneWithEffect(0));
    }
    let end = s.borrow(key)?;
    // A listener ends as a whole, and whoever waits there wakes.
    let how = if read && s.is_listening(key) { libc::SHUT_RDWR } else { how };
    if let Some(one) = s.stand_ins.get_mut(key) {
        match &one.ours {
            Some(ours) if flowing && write && !one.shut_write => one.last = stream::end_writing(end.as_fd(), ours.as_fd(), how),
            _ => {
                let _ = sys::shutdown(end.as_fd(), how);
            }
        }
        one.shut_read |= read;
        one.shut_write |= write;
    }
    drop(end);
    s.refresh(key);
    s.pump(key, false, turn);
    s.changed_for_others(key);
    result.map(|()| Outcome::DoneWithEffect(0))
}
