//! connect(2), listen(2), accept(2), accept4(2), shutdown(2).

use super::opening::{is_opening, open_for_data};
use super::socket::give;
use super::trapped::{Call, Outcome};
use super::trapped_socket::TrappedSocket;
use crate::standin::stream::{self, Phase, Stream};
use crate::standin::{Body, StandIn};
use crate::supervisor::{Exchanged, Supervisor, Turn};
use crate::sys::{self, Errno};
use std::collections::VecDeque;
use std::os::fd::AsFd;
use weft_intercept::face::{SocketId, SocketState};
use weft_intercept::socket_calls::Carrier as _;
use weft_intercept::socket_calls::message::TCP_INQ;

/// Connections that may lie in the queue of a listening stand-in. There is one token at a time; the rest is for strangers who find the name.
const STAND_IN_BACKLOG: i32 = 16;

/// Begins to connect; EINPROGRESS and EALREADY while it lasts.
pub(super) fn connect(c: &mut TrappedSocket<'_, '_>, address: &[u8]) -> Result<(), Errno> {
    let Some(one) = c.s.stand_ins.get_mut(c.key) else { return Err(Errno(libc::EBADF)) };
    match &mut one.body {
        Body::Netlink(_) => {
            let process = c.s.process_number(c.key, c.call.tid, c.turn);
            c.s.session(c.key)?.connect(address, process, true).map_err(Errno)
        }
        Body::Packet(packets) => c.turn.stack.connect(packets.socket, address),
        Body::Stream(stream) => {
            let socket = stream.socket;
            connect_stream(c, socket, address)
        }
    }
}

fn connect_stream(c: &mut TrappedSocket<'_, '_>, socket: SocketId, address: &[u8]) -> Result<(), Errno> {
    if c.has_waited() {
        if matches!(c.turn.stack.state(socket), Some(SocketState::Fresh | SocketState::Bound)) {
            // __inet_stream_connect: "Connection was closed by RST, timeout, ICMP error or another process disconnected us." It does not begin anew.
            let told = c.turn.stack.get_option(socket, libc::SOL_SOCKET, libc::SO_ERROR, 4)?;
            let errno = told.try_into().map_or(0, i32::from_ne_bytes);
            return Err(Errno(if errno == 0 { libc::ECONNABORTED } else { errno }));
        }
        return begin_connecting(c, socket, address);
    }
    let exchanged = revive_if_used(c, socket)?;
    let result = begin_connecting(c, socket, address);
    if let Some(exchanged) = exchanged {
        c.s.move_in_epolls(exchanged);
    }
    result
}

fn begin_connecting(c: &mut TrappedSocket<'_, '_>, socket: SocketId, address: &[u8]) -> Result<(), Errno> {
    if !c.has_waited() {
        c.s.look_before_connecting(address, c.turn);
    }
    let result = c.turn.stack.connect(socket, address);
    if matches!(result, Ok(()) | Err(Errno(libc::EINPROGRESS))) {
        open_for_data(c.s, c.turn, c.key, socket)?;
    }
    if result.is_ok() && c.s.is_listening(c.key) && !is_opening(c.turn, socket) {
        // connect(AF_UNSPEC) has ended the listener: a unix socket cannot become unconnected again, but whoever waits there wakes.
        let end = c.s.borrow(c.key)?;
        let _ = sys::shutdown(end.as_fd(), libc::SHUT_RDWR);
    }
    if !matches!(result, Ok(()) | Err(Errno(libc::EINPROGRESS | libc::EALREADY))) {
        // The failure has been told now.
        c.s.forget_native_error(c.key);
    }
    result
}

/// The model's socket is as good as new (a failed attempt was told, a connection or listener was dissolved), but its stand-in is not.
fn revive_if_used(c: &mut TrappedSocket<'_, '_>, socket: SocketId) -> Result<Option<Exchanged>, Errno> {
    let unused = matches!(c.turn.stack.state(socket), Some(SocketState::Fresh | SocketState::Bound));
    let used = matches!(c.s.phase(c.key), Some(Phase::Dead | Phase::Connected | Phase::Listening { .. }));
    if unused && used { revive(c.s, c.turn, c.call, c.fd, c.key).map(Some) } else { Ok(None) }
}

/// A failed connect may be tried again on the same descriptor, but a unix socket that was reset cannot be connected again: puts a new one in
/// its place, as [`Supervisor::exchange`] does.
fn revive(s: &mut Supervisor, turn: &mut Turn<'_>, call: &Call, fd: i32, key: usize) -> Result<Exchanged, Errno> {
    let old = s.borrow(key)?;
    let theirs = sys::unix_socket(libc::SOCK_STREAM)?;
    if sys::status_flags(old.as_fd())? & libc::O_NONBLOCK != 0 {
        sys::set_nonblocking(theirs.as_fd())?;
    }
    let exchanged = s.exchange(call, fd, old, theirs)?;
    let Some(mut one) = s.remove_stand_in(key, turn) else { return Err(Errno(libc::EBADF)) };
    let Body::Stream(stream) = &mut one.body else { return Err(Errno(libc::EBADF)) };
    let body = Body::Stream(Stream { socket: stream.socket, phase: Phase::Fresh });
    let new = s.add_stand_in(exchanged.new.as_fd(), None, body, turn)?;
    debug_assert_eq!(new, key, "a slab gives the last removed slot out first");
    s.watch(new);
    if let Some(one) = s.stand_ins.get_mut(new) {
        one.place = (call.tid, fd);
    }
    Ok(exchanged)
}

/// Listens, with the model's socket and the stand-in.
pub(super) fn listen(c: &mut TrappedSocket<'_, '_>, backlog: i32) -> Result<(), Errno> {
    let socket = c.socket().ok_or(Errno(libc::EOPNOTSUPP))?;
    let exchanged = revive_if_used(c, socket)?;
    let result = begin_listening(c, socket, backlog);
    if let Some(exchanged) = exchanged {
        c.s.move_in_epolls(exchanged);
    }
    result
}

fn begin_listening(c: &mut TrappedSocket<'_, '_>, socket: SocketId, backlog: i32) -> Result<(), Errno> {
    let mut result = c.turn.stack.listen(socket, backlog);
    if result == Err(Errno(libc::EADDRINUSE)) {
        c.s.let_go_of_closed(c.key, c.turn);
        result = c.turn.stack.listen(socket, backlog);
    }
    result?;
    if c.s.is_fresh(c.key) {
        let end = c.s.borrow(c.key)?;
        // With a name, and not yet a listener of weft's, it would look like one of the program's own if weft ended here.
        let _noted = c.s.note(c.call);
        let name = sys::autobind(end.as_fd())?;
        sys::listen(end.as_fd(), STAND_IN_BACKLOG)?;
        if let Some(StandIn { body: Body::Stream(stream), .. }) = c.s.stand_ins.get_mut(c.key) {
            stream.phase = Phase::Listening { name, tokens: 0, returned: VecDeque::new() };
        }
        c.s.update_token(c.key, Some(end.as_fd()), c.turn);
    }
    Ok(())
}

/// Takes a connection out of the queue.
pub(super) fn accept(c: &mut TrappedSocket<'_, '_>) -> Result<SocketId, Errno> {
    let socket = c.socket().ok_or(Errno(libc::EOPNOTSUPP))?;
    let end = c.s.borrow(c.key)?;
    let child = match c.s.take_returned(c.key) {
        Some(child) => Ok(child),
        None => c.turn.stack.accept(socket),
    };
    if child == Err(Errno(libc::EAGAIN)) {
        c.s.update_token(c.key, Some(end.as_fd()), c.turn);
    }
    c.end = Some(end);
    child
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
    let outcome = hand_child(s, turn, call, listener, child, flags);
    if !matches!(outcome, Ok(Outcome::Sent)) {
        s.give_back(listener, child, turn);
    }
    outcome
}

/// Makes a stand-in for an accepted connection and gives it to the program, in one step with the answer.
fn hand_child(
    s: &mut Supervisor,
    turn: &mut Turn<'_>,
    call: &Call,
    listener: usize,
    child: SocketId,
    flags: i32,
) -> Result<Outcome, Errno> {
    let made = s.with_descriptors(turn, |s, turn| {
        let pair = sys::unix_pair(libc::SOCK_STREAM).and_then(|(theirs, ours)| {
            let key = s.add_stand_in(theirs.as_fd(), Some(ours), Body::Stream(Stream { socket: child, phase: Phase::Connected }), turn)?;
            inherit(s, turn, listener, key, child);
            Ok((theirs, key))
        });
        pair.map_err(|errno| {
            s.calls.out_of_descriptors += 1;
            if errno.0 == libc::EMFILE { Errno(libc::ENFILE) } else { errno }
        })
    });
    let (theirs, key) = made?;
    let handed = give(s, call, key, theirs.as_fd(), flags);
    drop(theirs);
    match handed {
        Ok(Outcome::Sent) => s.pump(key, false, turn),
        _ => drop(s.remove_stand_in(key, turn)),
    }
    handed
}

/// What a connection is to tell with each read is an option that it has from its listener, as that was when it began: what the listener never had, it has
/// not.
fn inherit(s: &mut Supervisor, turn: &mut Turn<'_>, listener: usize, key: usize, child: SocketId) {
    let Some((timed, inquired)) = s.stand_ins.get(listener).map(|one| (one.timed, one.inquired)) else { return };
    let inquiry =
        inquired && turn.stack.get_option(child, libc::IPPROTO_TCP, TCP_INQ, 4).is_ok_and(|value| value.iter().any(|byte| *byte != 0));
    if let Some(one) = s.stand_ins.get_mut(key) {
        (one.timed, one.inquiry, one.inquired) = (timed, inquiry, inquired);
    }
}

/// Ends one direction or both, of the model's socket and of the stand-in.
pub(super) fn shutdown(c: &mut TrappedSocket<'_, '_>, how: i32) -> Result<(), Errno> {
    let TrappedSocket { s, turn, key, .. } = c;
    let key = *key;
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
        return result;
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
    result
}
