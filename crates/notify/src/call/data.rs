//! sendmsg(2), recvmsg(2), recvmmsg(2), as far as the filter sends them here, and how stand-ins send and receive.
//!
//! What lies in the stand-in goes first, or native and trapped calls would change places.

use super::opening::open_for_data;
use super::trapped::{Call, Outcome};
use super::trapped_socket::TrappedSocket;
use crate::filter;
use crate::netlink::{self, Socket};
use crate::standin::stream::Phase;
use crate::standin::{Body, StandIn};
use crate::supervisor::{Supervisor, Turn};
use crate::sys::{self, Errno};
use bytes::BytesMut;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;
use weft_intercept::face::SocketId;
use weft_intercept::face::abi::{MSG_NOT_LAST, MSG_UNREADABLE};
use weft_intercept::memory::Memory as _;
use weft_intercept::socket_calls;
use weft_intercept::socket_calls::Carrier;
use weft_intercept::socket_calls::data::{DATAGRAM_BYTES_MAX, Several, gather};
use weft_intercept::socket_calls::message::{MESSAGES_MAX, Message, TCP_INQ, Taken, joined};
use weft_loader::calls;

/// Most bytes of a stream moved by one call.
const STREAM_BYTES_MAX: usize = 1024 * 1024;

/// `sendmsg(fd, header, flags)`
pub(super) fn sendmsg(s: &mut Supervisor, turn: &mut Turn<'_>, call: &Call, asked: calls::Sendmsg) -> Result<Outcome, Errno> {
    let Some(mut c) = TrappedSocket::find(s, turn, call, asked.fd)? else { return Ok(Outcome::Continue) };
    let message = Message::read(call, asked.msg.0 as u64)?;
    let flags = asked.flags.get() as i32;
    let plain = message.header.name == 0 && message.header.control_bytes == 0 && flags as u32 & filter::SEND_FLAGS == 0;
    // While connecting even nothing has to wait, and after a failure the model knows the reason.
    let native = if message.total == 0 { c.s.is_connected(c.key) } else { carries_stream(c.s, c.key) && !is_dead(c.s, c.key) };
    if plain && native { Ok(Outcome::Continue) } else { socket_calls::data::send_message(&mut c, &message, flags) }
}

/// Does the stand-in itself carry the data, as a stream does once it is connecting?
fn carries_stream(s: &Supervisor, key: usize) -> bool {
    matches!(s.phase(key), Some(Phase::Connecting { .. } | Phase::Connected | Phase::Dead))
}

/// Is it a stream whose connection has failed?
fn is_dead(s: &Supervisor, key: usize) -> bool {
    matches!(s.phase(key), Some(Phase::Dead))
}

/// Sends what the program has in memory, behind what it has written natively.
pub(super) fn send(
    c: &mut TrappedSocket<'_, '_>,
    message: &Message,
    name: Option<&[u8]>,
    control: &[u8],
    flags: i32,
) -> Result<usize, Errno> {
    let TrappedSocket { s, turn, call, key, .. } = c;
    let key = *key;
    s.refresh(key);
    s.pump(key, false, turn);
    let Some(one) = s.stand_ins.get(key) else { return Err(Errno(libc::EBADF)) };
    let Some(socket) = one.socket() else { return send_netlink(c, message, name, control, flags) };
    s.forget_told_error(key, socket, turn);
    s.error_told_natively(key, turn);
    if let Some(packets) = s.packets(key) {
        if packets.name.is_some() {
            s.look_before_sending(turn);
        }
        s.look_before_reaching(socket, name, turn);
    }
    if let Some(errno) = s.packets(key).and_then(|packets| packets.error.take()) {
        return Err(errno);
    }
    if matches!(s.phase(key), Some(Phase::Connected)) && control.is_empty() && flags as u32 & filter::SEND_FLAGS == 0 {
        return send_as_the_program(s, turn, call, key, message);
    }
    let Some(one) = s.stand_ins.get(key) else { return Err(Errno(libc::EBADF)) };
    let before = one.unsent.is_some() || one.readable && has_unread(one);
    if before && !one.write_ended {
        // What was written natively before has no room yet.
        return Err(Errno(libc::EAGAIN));
    }
    // A blocking caller that waited for a connection which this call began sends what it has now.
    let flags = if call.held.is_some() { flags & !libc::MSG_FASTOPEN } else { flags };
    let stream_room = match &one.body {
        Body::Stream(_) if flags & libc::MSG_FASTOPEN != 0 => Some(STREAM_BYTES_MAX),
        Body::Stream(_) => Some(turn.stack.send_room(socket).clamp(1, STREAM_BYTES_MAX)),
        _ => None,
    };
    let (data, readable) = gather(*call, message, stream_room)?;
    let flags = flags & !(MSG_NOT_LAST | MSG_UNREADABLE) | readable;
    let flags =
        if stream_room.is_some() && (data.len() as u64) < message.total { socket_calls::data::flags_of_piece(flags, false) } else { flags };
    let sent = turn.stack.send(socket, data, flags | libc::MSG_DONTWAIT, name, control);
    if flags & libc::MSG_FASTOPEN != 0 && matches!(sent, Ok(_) | Err(Errno(libc::EINPROGRESS))) {
        open_for_data(s, turn, key, socket)?;
    }
    sent
}

/// Sends on a connection what names an address (which a stream ignores) as the program would without: into the stand-in, behind what it has written, with
/// the room that poll shows.
fn send_as_the_program(s: &mut Supervisor, turn: &mut Turn<'_>, call: &Call, key: usize, message: &Message) -> Result<usize, Errno> {
    let (data, _) = gather(call, message, Some(STREAM_BYTES_MAX))?;
    let end = s.borrow(key)?;
    let sent = sys::send_vectors(end.as_fd(), &[&data[..]], libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL)?;
    s.refresh(key);
    s.pump(key, false, turn);
    Ok(sent)
}

/// Has the program written something that we have not taken? A side that is shut down looks readable without.
fn has_unread(one: &StandIn) -> bool {
    match &one.ours {
        Some(ours) if !one.shut_write => sys::poll_now(ours.as_fd(), libc::POLLIN) & libc::POLLIN != 0,
        _ => one.unread_bytes() > 0,
    }
}

fn send_netlink(c: &mut TrappedSocket<'_, '_>, message: &Message, name: Option<&[u8]>, control: &[u8], flags: i32) -> Result<usize, Errno> {
    let TrappedSocket { s, turn, call, key, again, .. } = c;
    let (key, again) = (*key, std::mem::take(again));
    let process = s.process_number(key, call.tid, turn);
    let to = s.session(key)?.destination(name, flags, message.total, process, true).map_err(Errno)?;
    let data = s.link(key)?.socket.gather(*call, message, netlink::PACKET_BYTES_MAX)?;
    let (to, group) = to;
    let mut sender = s.sender(key, (to, group), call.tid)?;
    if !control.is_empty() {
        // Whoever runs programs on a stack of his own manages it.
        sender.credentials = Socket::credentials(control, sender.credentials, |_| true)?;
    }
    if !again {
        s.send_to_group(key, to, sender, &data, turn)?;
    }
    if s.stand_ins.get(key).is_some_and(|one| one.unsent.is_some()) {
        // What was written natively before has no room yet.
        return Err(Errno(libc::EAGAIN));
    }
    s.send_link(key, to, sender, data, turn)
}

/// `recvmsg(fd, header, flags)`
pub(super) fn recvmsg(s: &mut Supervisor, turn: &mut Turn<'_>, call: &Call, asked: calls::Recvmsg) -> Result<Outcome, Errno> {
    let Some(mut c) = TrappedSocket::find(s, turn, call, asked.fd)? else { return Ok(Outcome::Continue) };
    let message = Message::read(call, asked.msg.0 as u64)?;
    let flags = asked.flags.get() as i32;
    let both = libc::MSG_PEEK | libc::MSG_WAITALL;
    let plain = message.header.name == 0 && flags as u32 & filter::RECEIVE_FLAGS == 0 && flags & both != both;
    let told = c.s.stand_ins.get(c.key).is_some_and(|one| one.inquiry || one.timed);
    let native = plain && !told && carries_stream(c.s, c.key);
    if native { Ok(Outcome::Continue) } else { socket_calls::data::receive(&mut c, &message, flags, None) }
}

/// `recvmmsg(fd, headers, count, flags, timeout)`. A call that is cancelled must not have taken anything, so datagrams stay where they are until
/// there are as many as are wanted, the time is up, or no more fit.
pub(super) fn recvmmsg(s: &mut Supervisor, turn: &mut Turn<'_>, call: &Call, asked: calls::Recvmmsg) -> Result<Outcome, Errno> {
    let Some(mut c) = TrappedSocket::find(s, turn, call, asked.fd)? else { return Ok(Outcome::Continue) };
    let flags = asked.flags.get() as i32;
    let count = u64::from(asked.vlen.get()).min(MESSAGES_MAX);
    let timeout = if asked.timeout.0 == 0 { None } else { Some(call.read_timespec(asked.timeout.0 as u64)?) };
    if call.messages.get() == 0
        && let Some(outcome) = wait_for_all(c.s, c.turn, call, c.key, flags, count, timeout)?
    {
        return Ok(outcome);
    }
    let limit = timeout.filter(|_| c.waits_between());
    let taken = match socket_calls::data::receive_several(&mut c, asked, limit)? {
        Several::Messages(taken) => taken,
        Several::Ended(outcome) => return Ok(outcome),
    };
    call.remote.otherwise(Err(Errno(libc::EFAULT)));
    if let Some(timeout) = timeout {
        // "*timeout = timespec64_sub(end_time, timeout64)": what is left of it.
        call.write_timespec(asked.timeout.0 as u64, timeout.saturating_sub(call.since.elapsed()))?;
    }
    Ok(Outcome::DoneWithEffect(taken as i64))
}

/// Does recvmmsg have to wait although there is something?
fn wait_for_all(
    s: &mut Supervisor,
    turn: &mut Turn<'_>,
    call: &Call,
    key: usize,
    flags: i32,
    count: u64,
    timeout: Option<Duration>,
) -> Result<Option<Outcome>, Errno> {
    s.refresh(key);
    s.pump(key, false, turn);
    let end = s.borrow(key)?;
    let at_once = libc::MSG_WAITFORONE | libc::MSG_DONTWAIT | libc::MSG_ERRQUEUE;
    if flags & at_once != 0 || sys::status_flags(end.as_fd())? & libc::O_NONBLOCK != 0 || error_waits(s, turn, key) {
        return Ok(None);
    }
    let Some(StandIn { body: Body::Packet(packets), shut_read: false, wants_room, ours, .. }) = s.stand_ins.get_mut(key) else {
        return Ok(None);
    };
    packets.forget_read(end.as_fd(), ours.as_ref().map(AsFd::as_fd));
    let here = packets.beside.iter().filter(|beside| !beside.wakes_for_error).count() as u64;
    // Linux looks at the time only when a datagram has come.
    let time_is_up = timeout.is_some_and(|timeout| call.since.elapsed() >= timeout);
    if here == 0 || here >= count || *wants_room || time_is_up || call.expired {
        return Ok(None);
    }
    let option = sys::timeout_option(end.as_fd(), libc::SO_RCVTIMEO);
    let limits = [timeout.map(|timeout| timeout.saturating_sub(call.since.elapsed())), option];
    Ok(Some(Outcome::Hold { stand_in: key, limit: limits.into_iter().flatten().min(), restarts: option.is_none() }))
}

/// Is there an error that the next receive would be told?
pub(super) fn error_waits(s: &mut Supervisor, turn: &mut Turn<'_>, key: usize) -> bool {
    let Some(packets) = s.packets(key) else { return false };
    packets.error.is_some() || turn.stack.pending_error(packets.socket).is_some()
}

/// Takes a message, or a piece of a stream, for a program. EAGAIN when there is none.
pub(super) fn take(s: &mut Supervisor, turn: &mut Turn<'_>, key: usize, total: u64, flags: i32) -> Result<Taken, Errno> {
    s.refresh(key);
    s.pump(key, false, turn);
    let Some(one) = s.stand_ins.get(key) else { return Err(Errno(libc::EBADF)) };
    let total = usize::try_from(total).unwrap_or(usize::MAX);
    match (&one.body, one.socket()) {
        (Body::Netlink(_), _) | (_, None) => {
            let taken = take_netlink(s, key, total, flags);
            // What waits gets the room.
            s.pump(key, false, turn);
            taken
        }
        (_, Some(socket)) if flags & libc::MSG_ERRQUEUE != 0 => {
            let taken = take_from_model(turn, socket, total, flags);
            if !turn.stack.readiness(socket).contains(weft_intercept::Poll::ERR)
                && let Some(packets) = s.packets(key)
            {
                // sock_dequeue_err_skb: "if (icmp && !icmp_next) sk->sk_err = 0;"
                packets.error = None;
            }
            s.error_was_told(key, turn);
            taken
        }
        (Body::Stream(stream), Some(socket)) => {
            if matches!(stream.phase, Phase::Connected | Phase::Dead) {
                take_stream(s, turn, key, socket, total, flags)
            } else {
                take_from_model(turn, socket, total, flags)
            }
        }
        (Body::Packet(_), Some(socket)) => take_datagram(s, turn, key, socket, total, flags),
    }
}

fn take_from_model(turn: &mut Turn<'_>, socket: SocketId, total: usize, flags: i32) -> Result<Taken, Errno> {
    socket_calls::data::take(turn.stack, socket, total as u64, STREAM_BYTES_MAX, flags)
}

fn take_stream(s: &mut Supervisor, turn: &mut Turn<'_>, key: usize, socket: SocketId, total: usize, flags: i32) -> Result<Taken, Errno> {
    s.forget_told_error(key, socket, turn);
    // mptcp_recvmsg does not look at it.
    let flags = if flags & libc::MSG_OOB != 0 && super::option::is_multipath(socket, turn) { flags & !libc::MSG_OOB } else { flags };
    let end = s.borrow(key)?;
    if flags & libc::MSG_OOB != 0 {
        return take_urgent(end.as_fd(), total, flags);
    }
    let mut data = BytesMut::with_capacity(total.min(STREAM_BYTES_MAX));
    match sys::receive_into(end.as_fd(), &mut data, total.min(STREAM_BYTES_MAX), flags & libc::MSG_PEEK) {
        Ok(0) if total > 0 || is_dead(s, key) => take_rest(s, turn, key, socket, total, flags),
        Ok(length) => {
            if flags & libc::MSG_TRUNC != 0 {
                // tcp(7): "this flag causes the received bytes of data to be discarded, rather than passed back".
                data.clear();
            }
            let mut control = times(s, key, end.as_fd(), if flags & libc::MSG_PEEK != 0 { length } else { 0 });
            control.extend(inquiry(s, turn, key, socket, end.as_fd()));
            Ok(Taken { data: data.freeze(), length, control, stream: true, ..Taken::default() })
        }
        Err(Errno(libc::ECONNRESET)) => {
            // It was we who read it, and the model tells.
            if let Some(one) = s.stand_ins.get_mut(key) {
                one.reset_shown = false;
            }
            take_rest(s, turn, key, socket, total, flags)
        }
        Err(errno) => Err(errno),
    }
}

/// The stand-in has nothing more. The model knows whether that is the end, which error it is, and what came after shutdown(SHUT_RD).
fn take_rest(s: &mut Supervisor, turn: &mut Turn<'_>, key: usize, socket: SocketId, total: usize, flags: i32) -> Result<Taken, Errno> {
    if let Some(one) = s.stand_ins.get_mut(key)
        && let Some(bytes) = one.leftover.front_mut()
        && flags & libc::MSG_PEEK == 0
    {
        let data = bytes.split_to(total.min(bytes.len()));
        if bytes.is_empty() {
            one.leftover.pop_front();
        }
        return Ok(Taken { length: data.len(), data, stream: true, ..Taken::default() });
    }
    match take_from_model(turn, socket, total, flags) {
        Ok(taken) => Ok(Taken { stream: true, ..taken }),
        // The stand-in has ended, so waiting would not.
        Err(Errno(libc::EAGAIN)) => Ok(Taken { stream: true, ..Taken::default() }),
        Err(errno) => Err(errno),
    }
}

/// The urgent byte, from the stand-in.
fn take_urgent(end: BorrowedFd<'_>, total: usize, flags: i32) -> Result<Taken, Errno> {
    let mut data = BytesMut::with_capacity(1);
    let length = sys::receive_into(end, &mut data, 1, flags & (libc::MSG_PEEK | libc::MSG_OOB))?;
    // tcp_recv_urg: "msg->msg_flags |= MSG_OOB; if (len > 0) … else msg->msg_flags |= MSG_TRUNC;"
    data.truncate(total);
    Ok(Taken { stream: total > 0, length, data: data.freeze(), flags: libc::MSG_OOB, ..Taken::default() })
}

/// The control messages of SO_TIMESTAMP and its kind, after a read, or after one that leaves the last `stays` bytes where they are.
fn times(s: &mut Supervisor, key: usize, end: BorrowedFd<'_>, stays: usize) -> Vec<u8> {
    let Some(one) = s.stand_ins.get_mut(key).filter(|one| one.timed) else { return Vec::new() };
    let held: usize = one.leftover.iter().map(|bytes| bytes.len()).sum();
    let left = (sys::readable_bytes(end) + held).saturating_sub(stays);
    one.moments.of_read(left, stays)
}

/// The control message of TCP_INQ: how much is left to read.
fn inquiry(s: &Supervisor, turn: &mut Turn<'_>, key: usize, socket: SocketId, end: BorrowedFd<'_>) -> Vec<u8> {
    let Some(one) = s.stand_ins.get(key).filter(|one| one.inquiry) else { return Vec::new() };
    let held: usize = one.leftover.iter().map(|bytes| bytes.len()).sum();
    let left = sys::readable_bytes(end) + held + turn.stack.receive_ready(socket);
    // tcp_inq_hint: "After receiving a FIN, tell the user-space to continue reading by returning a non-zero inq."
    let left = if left == 0 && one.read_ended { 1 } else { i32::try_from(left).unwrap_or(i32::MAX) };
    // struct cmsghdr { size_t cmsg_len; int cmsg_level; int cmsg_type; }, four bytes, padding.
    let mut control = 20_u64.to_ne_bytes().to_vec();
    [libc::IPPROTO_TCP, TCP_INQ, left, 0].iter().for_each(|int| control.extend(int.to_ne_bytes()));
    control
}

fn take_datagram(s: &mut Supervisor, turn: &mut Turn<'_>, key: usize, socket: SocketId, total: usize, flags: i32) -> Result<Taken, Errno> {
    s.error_told_natively(key, turn);
    let kept = s.packets(key).and_then(|packets| packets.error.take());
    if let Some(errno) = kept.or_else(|| turn.take_error(socket)) {
        s.error_was_told(key, turn);
        return Err(errno);
    }
    let is_refused = |received| matches!(received, Err(Errno(libc::EOPNOTSUPP)));
    if flags & libc::MSG_OOB != 0 && is_refused(turn.stack.receive(socket, 0, flags | libc::MSG_PEEK | libc::MSG_DONTWAIT)) {
        // raw_recvmsg, ping_recvmsg: "if (flags & MSG_OOB) goto out;" with EOPNOTSUPP. UDP does not look at it.
        return Err(Errno(libc::EOPNOTSUPP));
    }
    let end = s.borrow(key)?;
    // The stand-in's own error is only a sign.
    s.hush(key, end.as_fd());
    let taken = take_packet(s, turn, key, socket, end.as_fd(), total, flags);
    s.mirror_error(key, turn);
    match taken {
        // ping_recvmsg looks at MSG_TRUNC nowhere: "if (copied > len) { msg->msg_flags |= MSG_TRUNC; copied = len; } … err = copied;"
        Ok(taken) if flags & libc::MSG_TRUNC != 0 && taken.length > total && is_ping(turn, socket) => {
            Ok(Taken { length: total, flags: taken.flags | libc::MSG_TRUNC, ..taken })
        }
        taken => taken,
    }
}

/// Is it an ICMP datagram socket?
fn is_ping(turn: &mut Turn<'_>, socket: SocketId) -> bool {
    let mut option = |name: i32| {
        let value = turn.stack.get_option(socket, libc::SOL_SOCKET, name, 4).ok()?;
        value.first_chunk::<4>().map(|bytes| i32::from_ne_bytes(*bytes))
    };
    option(libc::SO_TYPE) == Some(libc::SOCK_DGRAM) && matches!(option(libc::SO_PROTOCOL), Some(libc::IPPROTO_ICMP | libc::IPPROTO_ICMPV6))
}

/// Takes the next datagram, from the stand-in or from what waits behind it.
fn take_packet(
    s: &mut Supervisor,
    turn: &mut Turn<'_>,
    key: usize,
    socket: SocketId,
    end: BorrowedFd<'_>,
    total: usize,
    flags: i32,
) -> Result<Taken, Errno> {
    let Some(StandIn { body: Body::Packet(packets), shut_read, ours, .. }) = s.stand_ins.get_mut(key) else {
        return Err(Errno(libc::EBADF));
    };
    packets.forget_read(end, ours.as_ref().map(AsFd::as_fd));
    if *shut_read && packets.beside.is_empty() {
        // The stand-in says "end"; a datagram socket has none, and what came since is in the model.
        let Some((beside, tail)) = packets.waiting.clone() else { return take_from_model(turn, socket, total, flags) };
        if flags & libc::MSG_PEEK == 0 {
            packets.waiting = None;
        }
        let mut data = joined(tail);
        data.truncate(total);
        return Ok(Taken { data, length: beside.bytes, from: beside.from, control: beside.control, flags: beside.flags, stream: false });
    }
    loop {
        let mut data = BytesMut::with_capacity(total.clamp(1, DATAGRAM_BYTES_MAX));
        let peek = flags & libc::MSG_PEEK;
        let length = sys::receive_into(end, &mut data, total.min(DATAGRAM_BYTES_MAX), libc::MSG_TRUNC | peek)?;
        let wake = length == 0 && packets.peek(0).is_some_and(|beside| beside.wakes_for_error);
        if wake && peek != 0 {
            let _ = sys::receive_into(end, &mut BytesMut::with_capacity(1), 1, 0);
        }
        let beside = if peek != 0 && !wake { packets.peek(length).cloned() } else { packets.take(length) };
        if wake {
            // It was put in for an error that another call has taken meanwhile.
            continue;
        }
        let beside = beside.unwrap_or_default();
        return Ok(Taken { data: data.freeze(), length, from: beside.from, control: beside.control, flags: beside.flags, stream: false });
    }
}

fn take_netlink(s: &mut Supervisor, key: usize, total: usize, flags: i32) -> Result<Taken, Errno> {
    // netlink_recvmsg: "if (flags & MSG_OOB) return -EOPNOTSUPP;"
    if flags & libc::MSG_OOB != 0 {
        return Err(Errno(libc::EOPNOTSUPP));
    }
    // sock_error: it is told once.
    if std::mem::take(&mut s.link(key)?.lost) {
        return Err(Errno(libc::ENOBUFS));
    }
    let end = s.borrow(key)?;
    let readable = sys::readable_bytes(end.as_fd());
    let room = total.min(readable);
    let sender = s.stand_ins.get_mut(key).map(|one| netlink::next_sender(one, readable)).unwrap_or_default();
    let mut data = BytesMut::with_capacity(room.max(1));
    let length = sys::receive_into(end.as_fd(), &mut data, room, libc::MSG_TRUNC | flags & libc::MSG_PEEK)?;
    let control = s.link(key)?.socket.control(&sender);
    Ok(Taken { data: data.freeze(), length, from: sender.name(), control, ..Taken::default() })
}
