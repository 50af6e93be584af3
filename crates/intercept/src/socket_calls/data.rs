//! read(2), write(2), readv(2), writev(2), sendto(2), recvfrom(2), sendmsg(2), recvmsg(2), sendmmsg(2), recvmmsg(2).

use super::carrier::{Carrier, Limit};
use super::message::{MESSAGES_MAX, Message, Taken, joined};
use crate::arch;
use crate::face::abi::{MSG_NOT_LAST, MSG_UNREADABLE};
use crate::face::{SocketId, Stack};
use crate::memory::{LATER, Memory};
use crate::sys::Errno;
use bytes::Bytes;
use std::time::Duration;
use weft_loader::calls;

/// Most bytes of a datagram that are read from a program: one more than UDP can carry, so that the model says EMSGSIZE.
pub const DATAGRAM_BYTES_MAX: usize = 65_536;

/// Of a stream so much is copied at a time.
const STREAM_PIECE_BYTES: usize = 32_768;

/// read(2)
pub fn read<C: Carrier>(c: &mut C, asked: calls::Read) -> Result<C::Outcome, Errno> {
    read_into(c, &Message::of_file(asked.buf.0 as u64, asked.count.get() as u64)?)
}

/// readv(2)
pub fn readv<C: Carrier>(c: &mut C, asked: calls::Readv) -> Result<C::Outcome, Errno> {
    let message = Message::vectors(c.memory(), asked.vec.0 as u64, asked.vlen.get() as u64)?;
    read_into(c, &message)
}

fn read_into<C: Carrier>(c: &mut C, message: &Message) -> Result<C::Outcome, Errno> {
    // net/socket.c, sock_read_iter: "if (!iov_iter_count(to)) /* Match SYS5 behaviour */ return 0;"
    if message.total == 0 { Ok(c.told(0)) } else { receive(c, message, 0, None) }
}

/// write(2)
pub fn write<C: Carrier>(c: &mut C, asked: calls::Write) -> Result<C::Outcome, Errno> {
    send(c, &Message::of_file(asked.buf.0 as u64, asked.count.get() as u64)?, None, &[], 0)
}

/// writev(2)
pub fn writev<C: Carrier>(c: &mut C, asked: calls::Writev) -> Result<C::Outcome, Errno> {
    let message = Message::vectors(c.memory(), asked.vec.0 as u64, asked.vlen.get() as u64)?;
    // vfs_writev: "tot_len = iov_iter_count(&iter); if (!tot_len) goto out;" before the socket is asked. vfs_write has no such line: write(2) of nothing
    // sends a datagram of nothing.
    if message.total == 0 { Ok(c.told(0)) } else { send(c, &message, None, &[], 0) }
}

/// sendto(2)
pub fn sendto<C: Carrier>(c: &mut C, asked: calls::Sendto) -> Result<C::Outcome, Errno> {
    let message = Message::flat(asked.buf.0 as u64, asked.len.get() as u64)?;
    let name = if asked.addr.0 == 0 { None } else { Some(c.memory().read_address(asked.addr.0 as u64, asked.addrlen.get())?) };
    send(c, &message, name.as_deref(), &[], asked.flags.get() as i32)
}

/// sendmsg(2)
pub fn sendmsg<C: Carrier>(c: &mut C, asked: calls::Sendmsg) -> Result<C::Outcome, Errno> {
    let message = Message::read(c.memory(), asked.msg.0 as u64)?;
    send_message(c, &message, asked.flags.get() as i32)
}

/// sendmsg(2), of a header that was read.
pub fn send_message<C: Carrier>(c: &mut C, message: &Message, flags: i32) -> Result<C::Outcome, Errno> {
    let (name, control) = (message.name(c.memory())?, message.control(c.memory())?);
    send(c, message, name.as_deref(), &control, flags)
}

fn send<C: Carrier>(c: &mut C, message: &Message, name: Option<&[u8]>, control: &[u8], flags: i32) -> Result<C::Outcome, Errno> {
    match send_on(c, message, name, control, flags) {
        Ok(sent) => Ok(c.done(sent as i64)),
        Err(LATER) => Err(LATER),
        Err(errno) => {
            let before = c.moved_before();
            match not_sent(c, flags, errno) {
                Err(_) if before > 0 => Ok(c.done(before as i64)),
                other => other,
            }
        }
    }
}

/// Sends a message, or goes on with it: how many bytes of it are sent now, with those from before the call waited. A blocking stream sends until
/// everything is taken. Who waits keeps what is sent in [`Carrier::moved_before`].
fn send_on<C: Carrier>(c: &mut C, message: &Message, name: Option<&[u8]>, control: &[u8], flags: i32) -> Result<u64, Errno> {
    let sends_all = c.sends_all(flags);
    loop {
        let before = c.moved_before();
        let sent = if before == 0 { c.send(message, name, control, flags) } else { c.send(&message.behind(before), name, control, flags) };
        match sent {
            Ok(sent) => {
                let sent = before + sent as u64;
                if !sends_all || sent >= message.total {
                    return Ok(sent);
                }
                c.has_moved(sent);
            }
            // tcp_sendmsg_locked: "do_error: … if (copied) goto out;"
            Err(errno) if before > 0 && errno != LATER && !says_wait(errno) => return Ok(before),
            Err(errno) => return Err(errno),
        }
    }
}

/// The flags of a piece of a message, if it is not the last one. What they say of the message's end is the last one's; and a call that goes on until
/// everything is sent is one send, whose end alone has a time and a completion.
pub fn flags_of_piece(flags: i32, goes_on: bool) -> i32 {
    let flags = flags & !(libc::MSG_EOR | libc::MSG_OOB);
    if goes_on { flags | MSG_NOT_LAST } else { flags }
}

/// Is there no room yet, or no connection?
fn says_wait(errno: Errno) -> bool {
    matches!(errno.0, libc::EAGAIN | libc::EINPROGRESS)
}

/// Waits for room or a connection, or fails.
fn not_sent<C: Carrier>(c: &mut C, flags: i32, errno: Errno) -> Result<C::Outcome, Errno> {
    match errno.0 {
        _ if says_wait(errno) => return c.wait(Limit::Send, flags, errno.0),
        // sk_stream_error: "if (err == -EPIPE && !(flags & MSG_NOSIGNAL)) send_sig(SIGPIPE, current, 0);"
        libc::EPIPE if flags & libc::MSG_NOSIGNAL == 0 && c.is_stream() => c.broken_pipe(),
        _ => {}
    }
    c.send_failed(errno);
    Err(errno)
}

/// sendmmsg(2)
pub fn sendmmsg<C: Carrier>(c: &mut C, asked: calls::Sendmmsg) -> Result<C::Outcome, Errno> {
    let flags = asked.flags.get() as i32;
    let count = u64::from(asked.vlen.get()).min(MESSAGES_MAX);
    // Of the message that the call goes on with.
    let mut told = c.moved_before();
    for index in c.messages_done()..count {
        let at = (asked.mmsg.0 as u64).wrapping_add(index * arch::MMSGHDR_BYTES as u64);
        let mut partial = false;
        let sent = send_one(c, at, flags).and_then(|(sent, total)| {
            partial = c.is_stream() && sent < total;
            tell_length(c, at, sent as u32)
        });
        match sent {
            // __sys_sendmmsg: "if (msg_data_left(&msg_sys)) break;": the next message does not go before the rest of this one. So it is the answer,
            // and no call that goes on behind it, whether its length can be written now or later.
            Ok(()) if partial => return Ok(c.done(index as i64 + 1)),
            Ok(()) => {}
            Err(errno) => {
                let sent = c.moved_before();
                if sent > told {
                    // Whatever ends the wait, a signal or a time limit, so much of it is sent.
                    tell_length(c, at, sent as u32)?;
                }
                if errno == LATER {
                    return Err(LATER);
                }
                return not_all_sent(c, flags, errno, index, sent);
            }
        }
        if let Err(otherwise) = c.message_is_done(index) {
            return otherwise.map(|value| c.done(value));
        }
        told = 0;
    }
    Ok(c.done(count as i64))
}

/// Sends one of several, or goes on with it: how many bytes of it are sent, of how many.
fn send_one<C: Carrier>(c: &mut C, at: u64, flags: i32) -> Result<(u64, u64), Errno> {
    let message = Message::read(c.memory(), at)?;
    let (name, control) = (message.name(c.memory())?, message.control(c.memory())?);
    let sent = send_on(c, &message, name.as_deref(), &control, flags)?;
    Ok((sent, message.total))
}

/// A message of several waits or fails, with so many done before it and so many bytes of it sent.
fn not_all_sent<C: Carrier>(c: &mut C, flags: i32, errno: Errno, index: u64, sent: u64) -> Result<C::Outcome, Errno> {
    let done = index as i64 + i64::from(sent > 0);
    // Linux waits for room for every message. Where a wait that a signal cancels would lose what is done, only the first waits.
    if done > 0 && says_wait(errno) && !c.sends_all(flags) {
        return Ok(c.done(done));
    }
    match not_sent(c, flags, errno) {
        // sendmmsg(2): "If an error occurs after at least one message has been sent, the call succeeds … The error code is lost."
        Err(_) if done > 0 => Ok(c.done(done)),
        other => other,
    }
}

/// msg_len of a `struct mmsghdr`.
fn tell_length<C: Carrier>(c: &C, at: u64, bytes: u32) -> Result<(), Errno> {
    c.memory().write(at.wrapping_add(arch::MMSGHDR_LENGTH as u64), &bytes.to_ne_bytes())
}

/// recvfrom(2)
pub fn recvfrom<C: Carrier>(c: &mut C, asked: calls::Recvfrom) -> Result<C::Outcome, Errno> {
    let message = Message::flat(asked.buf.0 as u64, asked.len.get() as u64)?;
    let from = (asked.addr.0 != 0).then_some((asked.addr.0 as u64, asked.addrlen.0 as u64));
    receive(c, &message, asked.flags.get() as i32, from)
}

/// recvmsg(2)
pub fn recvmsg<C: Carrier>(c: &mut C, asked: calls::Recvmsg) -> Result<C::Outcome, Errno> {
    let message = Message::read(c.memory(), asked.msg.0 as u64)?;
    receive(c, &message, asked.flags.get() as i32, None)
}

/// Receives. `from`: where the sender's address goes, and where the length of that.
pub fn receive<C: Carrier>(c: &mut C, message: &Message, flags: i32, from: Option<(u64, u64)>) -> Result<C::Outcome, Errno> {
    if let Some((_, length_at)) = from {
        c.memory().read_ahead(length_at)?;
    }
    match receive_on(c, message, flags, from) {
        Ok(received) => Ok(c.done(received)),
        Err(errno) => {
            let before = c.moved_before();
            match not_received(c, flags, errno) {
                Err(_) if before > 0 && errno != LATER => Ok(c.done(before as i64)),
                other => other,
            }
        }
    }
}

/// Receives a message, or goes on with it: how many bytes of it are there now, with those from before the call waited. A blocking stream receives
/// until everything is there with MSG_WAITALL, and until SO_RCVLOWAT is without (tcp_recvmsg_locked: "target = sock_rcvlowat(sk, flags & MSG_WAITALL,
/// len)"). Who waits keeps what has come in [`Carrier::moved_before`].
fn receive_on<C: Carrier>(c: &mut C, message: &Message, flags: i32, from: Option<(u64, u64)>) -> Result<i64, Errno> {
    loop {
        let before = c.moved_before();
        // "if (copied) { if (!timeo || sk->sk_err || sk->sk_state == TCP_CLOSE || (sk->sk_shutdown & RCV_SHUTDOWN) || signal_pending(current)) break; }"
        if before > 0 && c.ends_here() {
            return Ok(before as i64);
        }
        let behind = (before > 0).then(|| message.behind(before));
        let rest = behind.as_ref().unwrap_or(message);
        let taken = match c.take(rest.total, flags) {
            Err(errno) if before > 0 && errno != LATER && !says_wait(errno) => return Ok(before as i64),
            taken => taken?,
        };
        if let Some((at, length_at)) = from {
            c.memory().write_address(&taken.from, at, length_at)?;
        }
        let delivered = rest.deliver(c.memory(), &taken, flags)?;
        c.has_received(&taken, flags);
        let moved = before + delivered as u64;
        if delivered == 0 || moved >= message.total || moved >= c.receives_at_least(message.total, flags) {
            return Ok(moved as i64);
        }
        c.has_moved(moved);
    }
}

/// Waits for data, or fails.
fn not_received<C: Carrier>(c: &mut C, flags: i32, errno: Errno) -> Result<C::Outcome, Errno> {
    if errno.0 != libc::EAGAIN || flags & libc::MSG_ERRQUEUE != 0 {
        return Err(errno);
    }
    c.wait(Limit::Receive, flags, libc::EAGAIN)
}

/// recvmmsg(2)
pub fn recvmmsg<C: Carrier>(c: &mut C, asked: calls::Recvmmsg) -> Result<C::Outcome, Errno> {
    let at = asked.timeout.0 as u64;
    let limit = if at == 0 { None } else { Some(c.memory().read_timespec(at)?) };
    match receive_several(c, asked, limit)? {
        Several::Messages(count) => {
            if let Some(limit) = limit {
                // "*timeout = timespec64_sub(end_time, timeout64)": what is left of it.
                c.memory().write_timespec(at, limit.saturating_sub(c.waited()))?;
            }
            Ok(c.done(count as i64))
        }
        Several::Ended(outcome) => Ok(outcome),
    }
}

/// What a call that receives several has come to.
pub enum Several<O> {
    /// So many messages.
    Messages(u64),
    /// It waits.
    Ended(O),
}

/// Receives messages, and waits for the first; for each, if [`Carrier::waits_between`] says so. do_recvmmsg looks at the `limit` of time only when one has
/// come.
pub fn receive_several<C: Carrier>(c: &mut C, asked: calls::Recvmmsg, limit: Option<Duration>) -> Result<Several<C::Outcome>, Errno> {
    let mut flags = asked.flags.get() as i32;
    // "MSG_WAITFORONE turns on MSG_DONTWAIT after one packet"
    let one = flags & libc::MSG_WAITFORONE != 0 || !c.waits_between();
    flags &= !libc::MSG_WAITFORONE;
    if one && c.messages_done() > 0 {
        flags |= libc::MSG_DONTWAIT;
    }
    let count = u64::from(asked.vlen.get()).min(MESSAGES_MAX);
    for index in c.messages_done()..count {
        // do_recvmmsg: "… or if recvmsg returns an error after we received some datagrams, where we record the error to return on the next call".
        if index > 0 && c.error_waits() {
            return Ok(Several::Messages(index));
        }
        let at = (asked.mmsg.0 as u64).wrapping_add(index * arch::MMSGHDR_BYTES as u64);
        match receive_one(c, at, flags).and_then(|bytes| tell_length(c, at, bytes as u32)) {
            Ok(()) => {}
            Err(LATER) => return Err(LATER),
            Err(errno) => {
                let moved = c.moved_before();
                if moved > 0 {
                    // Whatever ends the wait, a signal or a time limit, so much of it is there.
                    tell_length(c, at, moved as u32)?;
                }
                let there = index + u64::from(moved > 0);
                return match not_received(c, flags, errno) {
                    Ok(outcome) => Ok(Several::Ended(outcome)),
                    Err(_) if there > 0 => Ok(Several::Messages(there)),
                    Err(errno) => Err(errno),
                };
            }
        }
        match c.message_is_done(index) {
            Ok(()) => {}
            Err(Err(errno)) => return Err(errno),
            Err(Ok(_)) => return Ok(Several::Messages(index)),
        }
        if limit.is_some_and(|limit| c.waited() >= limit) {
            return Ok(Several::Messages(index + 1));
        }
        if one {
            flags |= libc::MSG_DONTWAIT;
        }
    }
    Ok(Several::Messages(count))
}

fn receive_one<C: Carrier>(c: &mut C, at: u64, flags: i32) -> Result<i64, Errno> {
    let message = Message::read(c.memory(), at)?;
    receive_on(c, &message, flags, None)
}

/// Reads from a program what is sent next: a datagram whole or not at all, of a stream at most as much as there is room for. And a flag for the socket
/// model, [`MSG_UNREADABLE`]: what else is wrong with a datagram comes before its bytes are looked at.
///
/// # Errors
/// EFAULT: the first piece of a stream cannot be read. [`LATER`].
pub fn gather(memory: &impl Memory, message: &Message, stream_room: Option<usize>) -> Result<(Bytes, i32), Errno> {
    let Some(most) = stream_room else {
        return match gather_whole(memory, message, DATAGRAM_BYTES_MAX) {
            Err(Errno(libc::EFAULT)) => {
                let bytes = usize::try_from(message.total).unwrap_or(usize::MAX).min(DATAGRAM_BYTES_MAX);
                Ok((Bytes::from(vec![0; bytes]), MSG_UNREADABLE))
            }
            data => Ok((data?, 0)),
        };
    };
    let data = message.gather(memory, most)?;
    // tcp_sendmsg_locked copies pieces of pages (skb_page_frag_refill: 32 KiB) whole or not at all, and sends those before the one that fails.
    if (data.len() as u64) < message.total.min(most as u64) && data.len() < STREAM_PIECE_BYTES {
        return Err(Errno(libc::EFAULT));
    }
    Ok((data.freeze(), 0))
}

/// Reads from a program all that it sends, which is no more than so many bytes.
///
/// # Errors
/// EFAULT: a part cannot be read. [`LATER`].
pub fn gather_whole(memory: &impl Memory, message: &Message, most: usize) -> Result<Bytes, Errno> {
    let wanted = message.total.min(most as u64);
    let mut data = message.gather(memory, most)?;
    // A program's memory may come in portions.
    while (data.len() as u64) < wanted {
        let more = message.behind(data.len() as u64).gather(memory, most - data.len())?;
        if more.is_empty() {
            return Err(Errno(libc::EFAULT));
        }
        data.extend_from_slice(&more);
    }
    Ok(data.freeze())
}

/// Takes from the socket model, at most so many bytes.
///
/// # Errors
/// Those of the socket; EAGAIN when there is nothing.
pub fn take(stack: &mut dyn Stack, s: SocketId, bytes: u64, most: usize, flags: i32) -> Result<Taken, Errno> {
    let room = usize::try_from(bytes).unwrap_or(usize::MAX).min(most);
    // Waiting for all of it is the caller's; packet sockets refuse the flag.
    let waits_for_all = if flags & libc::MSG_WAITALL != 0 && stack.is_stream(s) { libc::MSG_WAITALL } else { 0 };
    let received = stack.receive(s, room, flags & !waits_for_all | libc::MSG_DONTWAIT)?;
    let data = joined(received.data);
    // tcp_recv_urg: "msg->msg_flags |= MSG_OOB; if (len > 0) … else msg->msg_flags |= MSG_TRUNC;"
    let cut = received.datagram_bytes > data.len();
    let stream = cut && stack.is_stream(s) && !(flags & libc::MSG_OOB != 0 && room == 0);
    Ok(Taken { data, length: received.datagram_bytes, from: received.from, control: received.control, flags: received.flags, stream })
}
