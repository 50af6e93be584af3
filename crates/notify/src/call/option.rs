//! getsockopt(2), setsockopt(2), ioctl(2).

use super::trapped::{Call, Outcome};
use super::trapped_socket::TrappedSocket;
use crate::filter;
use crate::netlink;
use crate::standin::moments::TIMES;
use crate::standin::{Body, StandIn};
use crate::supervisor::{Supervisor, Turn};
use crate::sys::{self, Errno};
use std::os::fd::AsFd;
use weft_intercept::SocketId;
use weft_intercept::face::abi::{SO_RCVTIMEO_NEW, SO_SNDTIMEO_NEW, SO_TIMESTAMPING_NEW};
use weft_intercept::socket_calls;
use weft_intercept::socket_calls::interface;
use weft_intercept::socket_calls::message::TCP_INQ;
use weft_loader::calls;
use weft_loader::calls::requests::{self, SIOCOUTQNSD};

/// Options of SOL_SOCKET that act on native reads and writes, so the stand-in gets them too.
const MIRRORED: [i32; 7] =
    [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO, SO_RCVTIMEO_NEW, SO_SNDTIMEO_NEW, libc::SO_RCVLOWAT, libc::SO_PEEK_OFF, libc::SO_OOBINLINE];

/// Options by which a program says that it looks for errors in poll and reads them with MSG_ERRQUEUE.
const ERROR_QUEUES: [(i32, i32); 5] = [
    (libc::IPPROTO_IP, libc::IP_RECVERR),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVERR),
    (libc::SOL_SOCKET, libc::SO_TIMESTAMPING),
    (libc::SOL_SOCKET, SO_TIMESTAMPING_NEW),
    (libc::SOL_SOCKET, libc::SO_ZEROCOPY),
];

/// The value of an option. None: the stand-in's own.
pub(super) fn get(c: &mut TrappedSocket<'_, '_>, level: i32, name: i32, asked: &[u8], length: i32) -> Result<Option<Vec<u8>>, Errno> {
    let TrappedSocket { s, turn, key, .. } = c;
    let key = *key;
    let Some(one) = s.stand_ins.get(key) else { return Err(Errno(libc::EBADF)) };
    if level == libc::SOL_SOCKET && name == libc::SO_PEEK_OFF && length < 0 {
        return Err(Errno(libc::EINVAL));
    }
    if level == libc::SOL_SOCKET && name == libc::SO_PEEK_OFF && one.ours.is_some() && !matches!(one.body, Body::Netlink(_)) {
        // Raw sockets have none. Otherwise it moves with native reads, so the stand-in knows it.
        if let Some(socket) = one.socket() {
            turn.stack.get_option(socket, level, name, length)?;
        }
        return Ok(None);
    }
    match (&one.body, one.socket()) {
        (Body::Netlink(_), _) => get_of_link(s, turn, key, level, name, length),
        // Peeking moves it, and that happens in the stand-in.
        (_, Some(socket)) if level == libc::SOL_SOCKET && name == libc::SO_PEEK_OFF => {
            turn.stack.get_option(socket, level, name, length)?;
            let end = s.borrow(key)?;
            sys::get_option(end.as_fd(), level, name)
                .map(|(value, told)| Some(value[..told.min(usize::try_from(length).unwrap_or(0))].to_vec()))
        }
        (_, Some(socket)) => {
            if level == libc::SOL_SOCKET && name == libc::SO_ERROR {
                s.forget_told_error(key, socket, turn);
                s.error_told_natively(key, turn);
            }
            let mut value = turn.stack.get_option_asked(socket, level, name, asked, length);
            if level == libc::SOL_SOCKET
                && name == libc::SO_ERROR
                && let Some(errno) = s.packets(key).and_then(|packets| packets.error.take())
            {
                value = Ok(errno.0.to_ne_bytes().to_vec());
            }
            if level == libc::SOL_SOCKET && name == libc::SO_ERROR {
                s.forget_native_error(key);
                s.error_was_told(key, turn);
            }
            value.map(Some)
        }
        _ => Err(Errno(libc::EBADF)),
    }
}

/// Options of netlink sockets that their stand-ins have and act on: limits of time, and filters.
fn is_of_stand_in(level: i32, name: i32) -> bool {
    let limits = [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO, SO_RCVTIMEO_NEW, SO_SNDTIMEO_NEW];
    let filters = [libc::SO_ATTACH_FILTER, libc::SO_DETACH_FILTER, libc::SO_LOCK_FILTER];
    level == libc::SOL_SOCKET && (limits.contains(&name) || filters.contains(&name))
}

fn get_of_link(s: &mut Supervisor, turn: &mut Turn<'_>, key: usize, level: i32, name: i32, length: i32) -> Result<Option<Vec<u8>>, Errno> {
    if is_of_stand_in(level, name) {
        return Ok(None);
    }
    let queued = s.stand_ins.get(key).map_or(0, netlink::queued);
    let link = s.link(key)?;
    // sock_error: it is told once.
    if (level, name) == (libc::SOL_SOCKET, libc::SO_ERROR) && length >= 0 && std::mem::take(&mut link.lost) {
        return Ok(Some(libc::ENOBUFS.to_ne_bytes().to_vec()));
    }
    link.socket.option(level, name, length, queued, turn.stack).map(Some)
}

/// Sets an option. False: the stand-in's own.
pub(super) fn set(c: &mut TrappedSocket<'_, '_>, level: i32, name: i32, value: &[u8]) -> Result<bool, Errno> {
    let TrappedSocket { s, turn, call, fd, key, .. } = c;
    let key = *key;
    let Some(one) = s.stand_ins.get_mut(key) else { return Err(Errno(libc::EBADF)) };
    if let Body::Netlink(link) = &mut one.body {
        if is_of_stand_in(level, name) {
            return Ok(false);
        }
        link.socket.set_option(level, name, value, turn.stack)?;
        if level == libc::SOL_SOCKET && matches!(name, libc::SO_SNDBUF | libc::SO_SNDBUFFORCE) {
            // What is sent natively is as long at most, EMSGSIZE. The kernel doubles the value.
            let half = link.socket.options.send_buffer().min(netlink::NATIVE_BUFFER_BYTES_MAX) / 2;
            sys::set_send_buffer(s.borrow(key)?.as_fd(), half as i32);
        }
        return Ok(true);
    }
    let Some(socket) = one.socket() else { return Err(Errno(libc::EBADF)) };
    // What was written before goes by the old value: traceroute sets the TTL between two native sends.
    s.refresh(key);
    s.pump(key, false, turn);
    if !s.stand_ins.contains(key) {
        return Err(Errno(libc::EBADF));
    }
    turn.stack.set_option(socket, level, name, value)?;
    if (level, name) == (libc::SOL_SOCKET, libc::SO_REUSEPORT)
        && let Some(user) = sys::file_user_of(call.tid)
    {
        turn.stack.set_owner(socket, user);
    }
    if level == libc::IPPROTO_TCP
        && name == TCP_INQ
        && let Some(one) = s.stand_ins.get_mut(key)
    {
        one.inquiry = value.iter().any(|byte| *byte != 0);
        one.inquired |= one.inquiry;
    }
    if level == libc::SOL_SOCKET
        && TIMES.contains(&name)
        && value.iter().any(|byte| *byte != 0)
        && let Some(one) = s.stand_ins.get_mut(key)
    {
        one.timed = true;
    }
    if ERROR_QUEUES.contains(&(level, name)) && value.iter().any(|byte| *byte != 0) {
        // Where it cannot be exchanged, an error shows as an empty datagram.
        match s.let_errors_show(key, call, *fd, turn) {
            Err(errno @ Errno(libc::ENOENT)) => return Err(errno),
            Err(_) => s.calls.out_of_descriptors += 1,
            Ok(()) => {}
        }
    }
    if level == libc::SOL_SOCKET && MIRRORED.contains(&name) {
        let end = s.borrow(key)?;
        // The model has accepted the value; where the stand-in's kind has no such option, only trapped calls follow it.
        let _ = sys::set_option(end.as_fd(), level, name, value);
    }
    Ok(true)
}

/// FIONREAD, also called SIOCINQ.
const FIONREAD: u32 = 0x541b;
/// TIOCOUTQ, also called SIOCOUTQ.
const SIOCOUTQ: u32 = 0x5411;
const SIOCATMARK: u32 = 0x8905;

/// `ioctl(fd, request, argument)`
pub(super) fn ioctl(s: &mut Supervisor, turn: &mut Turn<'_>, call: &Call, asked: calls::Ioctl) -> Result<Outcome, Errno> {
    let request = asked.cmd.get() as u32;
    if requests::makes_interfaces(request) {
        // What comes through the device would go through the host's stack.
        s.calls.unsupported(format!("ioctl {request:#x}"), Errno(libc::EPERM));
        return Err(Errno(libc::EPERM));
    }
    if request == filter::USERFAULTFD_NEW {
        s.leave_to_workers(call.tree);
        return Ok(Outcome::Continue);
    }
    let interfaces = requests::is_about_interfaces(request);
    let found = match s.find(call, asked.fd.get()) {
        // What cannot be looked at: the kernel tells how much there is to read, and nothing that reaches further.
        Err(Errno(libc::EPERM)) if !interfaces && call.remote.socket_inode(asked.fd.get()) == Err(Errno(libc::EPERM)) => {
            return Ok(Outcome::Continue);
        }
        other => other?,
    };
    if let Some(key) = found {
        return socket_calls::option::ioctl(&mut TrappedSocket { s, turn, call, fd: asked.fd.get(), key, end: None, again: false }, asked);
    }
    if !interfaces {
        return Ok(Outcome::Continue);
    }
    // Through whatever socket: libc uses AF_UNIX ones. Nothing but a socket, or a device whose interface the program cannot have made, knows these
    // numbers. The kernel does not answer: by now the descriptor may mean another file, whose interfaces it would look at.
    if call.remote.socket_inode(asked.fd.get())?.is_none() {
        return Err(Errno(libc::ENOTTY));
    }
    about_interfaces(s, turn, call, None, request, asked.arg.0 as u64).map(|()| Outcome::Done(0))
}

/// Answers a request about interfaces, which may come through any socket.
pub(super) fn about_interfaces(
    s: &mut Supervisor,
    turn: &mut Turn<'_>,
    call: &Call,
    key: Option<usize>,
    request: u32,
    pointer: u64,
) -> Result<(), Errno> {
    let socket = key.and_then(|key| s.stand_ins.get(key)).and_then(StandIn::socket);
    interface::answer(call, turn.stack, request, pointer, interface::Asker { manages: true, socket }).inspect_err(|errno| {
        if matches!(errno.0, libc::EPERM | libc::EOPNOTSUPP) {
            s.calls.unsupported(format!("ioctl {request:#x}"), *errno);
        }
    })
}

/// SO_PROTOCOL is IPPROTO_MPTCP: such a socket has no urgent data.
pub(super) fn is_multipath(socket: SocketId, turn: &mut Turn<'_>) -> bool {
    let protocol = turn.stack.get_option(socket, libc::SOL_SOCKET, libc::SO_PROTOCOL, 4);
    protocol.is_ok_and(|protocol| protocol == libc::IPPROTO_MPTCP.to_ne_bytes())
}

/// The value of a request about a socket. None: the stand-in's own.
pub(super) fn request(c: &mut TrappedSocket<'_, '_>, request: u32) -> Result<Option<Vec<u8>>, Errno> {
    let TrappedSocket { s, turn, key, .. } = c;
    let key = *key;
    let one = s.stand_ins.get(key).ok_or(Errno(libc::EBADF))?;
    // netlink_ioctl: "try to hand this ioctl down to the NIC drivers. return -ENOIOCTLCMD;", of which dev_ioctl makes this.
    let Some(socket) = one.socket() else { return Err(Errno(libc::ENOTTY)) };
    // The mark has gone into the stand-in.
    if request == SIOCATMARK && s.is_connected(key) && !is_multipath(socket, turn) {
        return Ok(None);
    }
    s.refresh(key);
    s.pump(key, false, turn);
    let int = |value: i32| Ok(Some(value.to_ne_bytes().to_vec()));
    if request == FIONREAD
        && let Some(bytes) = before_mark(s, key)?
    {
        return int(bytes as i32);
    }
    let waiting = match request {
        FIONREAD => in_stand_in(s, key)?,
        SIOCOUTQ | SIOCOUTQNSD => s.stand_ins.get(key).map_or(0, StandIn::unread_bytes),
        _ => 0,
    };
    if let Some(StandIn { body: Body::Packet(packets), .. }) = s.stand_ins.get(key)
        && request == FIONREAD
        && waiting > 0
    {
        // FIONREAD of a datagram socket is the next datagram; the kernel gives the sum of all in the stand-in.
        return int(packets.beside.front().map_or(0, |beside| beside.bytes) as i32);
    }
    let value = turn.stack.ioctl(socket, u64::from(request), &[]).inspect_err(|errno| {
        if errno.0 == libc::ENOTTY {
            s.calls.unsupported(format!("ioctl {request:#x}"), *errno);
        }
    })?;
    // mptcp_inq_hint tells an end where nothing is to be read, and here there is something.
    if request == FIONREAD && waiting > 0 && is_multipath(socket, turn) {
        return int(i32::try_from(turn.stack.receive_ready(socket) + waiting).unwrap_or(i32::MAX));
    }
    let in_model = value.get(..4).and_then(|bytes| bytes.try_into().ok()).map_or(0, i32::from_ne_bytes);
    if waiting > 0 { int(in_model.saturating_add(i32::try_from(waiting).unwrap_or(i32::MAX))) } else { Ok(Some(value)) }
}

/// Bytes before the urgent byte, if that lies unread in the program's end and out of band: so many can be read at once.
fn before_mark(s: &mut Supervisor, key: usize) -> Result<Option<usize>, Errno> {
    if !s.is_connected(key) {
        return Ok(None);
    }
    let end = s.borrow(key)?;
    let inline = sys::get_option(end.as_fd(), libc::SOL_SOCKET, libc::SO_OOBINLINE).is_ok_and(|(value, _)| value[0] != 0);
    if inline || sys::poll_now(end.as_fd(), libc::POLLPRI) & libc::POLLPRI == 0 {
        return Ok(None);
    }
    let after = s.stand_ins.get(key).map_or(0, |one| one.after_mark);
    Ok(Some(sys::readable_bytes(end.as_fd()).saturating_sub(1 + after)))
}

/// Bytes that lie unread in the program's end.
fn in_stand_in(s: &mut Supervisor, key: usize) -> Result<usize, Errno> {
    let end = s.borrow(key)?;
    if let Some(StandIn { body: Body::Packet(packets), ours, .. }) = s.stand_ins.get_mut(key) {
        packets.forget_read(end.as_fd(), ours.as_ref().map(AsFd::as_fd));
    }
    Ok(sys::readable_bytes(end.as_fd()))
}
