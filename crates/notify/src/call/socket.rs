//! socket(2), and what is refused whole.

use super::trapped::{Call, Outcome};
use crate::filter;
use crate::netlink::Socket;
use crate::standin::Body;
use crate::standin::link::Link;
use crate::standin::packet::{self, Packets};
use crate::standin::stream::{Phase, Stream};
use crate::supervisor::{Supervisor, Turn};
use crate::sys::{self, Errno};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use weft_intercept::arch;
use weft_intercept::face::SocketId;
use weft_intercept::socket_calls::Kind;
use weft_loader::calls::{self, Call as _};

/// `socket(domain, type, protocol)`
pub(super) fn socket(s: &mut Supervisor, turn: &mut Turn<'_>, call: &Call, asked: calls::Socket) -> Result<Outcome, Errno> {
    let wanted = Kind::asked(asked)?;
    let Kind { domain, kind, protocol, flags } = wanted;
    let made = match domain {
        libc::AF_INET | libc::AF_INET6 => inet(s, turn, domain, kind, protocol),
        libc::AF_NETLINK => netlink(s, turn, kind, protocol),
        _ => Err(wanted.no_such_family()),
    };
    let (theirs, key) = match made {
        Ok(made) => made,
        Err(errno) => {
            count(s, domain, kind, protocol, errno);
            return Err(errno);
        }
    };
    let handed = give(s, call, key, theirs.as_fd(), flags);
    if !matches!(handed, Ok(Outcome::Sent)) {
        s.close_stand_in(key, false, turn);
    }
    handed
}

/// Gives the program its end of a stand-in as a descriptor, in one step with the answer: [`Outcome::Sent`], or [`Outcome::Cancelled`] where the
/// call has ended meanwhile. `flags` are those of socket(2).
pub(super) fn give(s: &mut Supervisor, call: &Call, key: usize, theirs: BorrowedFd<'_>, flags: i32) -> Result<Outcome, Errno> {
    if flags & libc::SOCK_NONBLOCK != 0 {
        sys::set_nonblocking(theirs)?;
    }
    let tree = s.trees.get(call.tree).ok_or(Errno(libc::ENOENT));
    match tree.and_then(|tree| tree.hand_over(call.id, theirs, flags & libc::SOCK_CLOEXEC != 0)) {
        Ok(fd) => {
            if let Some(one) = s.stand_ins.get_mut(key) {
                one.place = (call.tid, fd);
            }
            Ok(Outcome::Sent)
        }
        Err(Errno(libc::ENOENT)) => Ok(Outcome::Cancelled),
        Err(errno) => Err(errno),
    }
}

fn count(s: &mut Supervisor, domain: i32, kind: i32, protocol: i32, errno: Errno) {
    if matches!(errno.0, libc::EMFILE | libc::ENFILE | libc::ENOMEM) {
        s.calls.out_of_descriptors += 1;
        return;
    }
    let family = match domain {
        libc::AF_INET => "AF_INET".to_owned(),
        libc::AF_INET6 => "AF_INET6".to_owned(),
        libc::AF_NETLINK => "AF_NETLINK".to_owned(),
        libc::AF_PACKET => "AF_PACKET".to_owned(),
        other => format!("family {other}"),
    };
    s.calls.unsupported(format!("socket({family}, type {kind}, protocol {protocol})"), errno);
}

fn inet(s: &mut Supervisor, turn: &mut Turn<'_>, domain: i32, kind: i32, protocol: i32) -> Result<(OwnedFd, usize), Errno> {
    let socket = turn.stack.socket(domain, kind, protocol)?;
    let made = if kind == libc::SOCK_STREAM {
        sys::unix_socket(libc::SOCK_STREAM).and_then(|theirs| {
            let key = s.add_stand_in(theirs.as_fd(), None, Body::Stream(Stream { socket, phase: Phase::Fresh }), turn)?;
            s.watch(key);
            Ok((theirs, key))
        })
    } else {
        // Raw and ICMP sockets are what ping and traceroute wait at for errors.
        let shows_errors = kind == libc::SOCK_RAW || matches!(protocol, libc::IPPROTO_ICMP | libc::IPPROTO_ICMPV6);
        if shows_errors { pair_with_errors(s, turn, socket) } else { packet_pair(s, turn, Body::Packet(Packets::new(socket, None))) }
    };
    made.map_err(|errno| {
        turn.stack.close(socket);
        // The supervisor's table being full is the whole system's to the program.
        if errno.0 == libc::EMFILE { Errno(libc::ENFILE) } else { errno }
    })
}

fn netlink(s: &mut Supervisor, turn: &mut Turn<'_>, kind: i32, protocol: i32) -> Result<(OwnedFd, usize), Errno> {
    let socket = Socket::new(kind, protocol, &s.netlink_ports, turn.stack)?;
    packet_pair(s, turn, Body::Netlink(Box::new(Link::new(socket))))
}

fn packet_pair(s: &mut Supervisor, turn: &mut Turn<'_>, body: Body) -> Result<(OwnedFd, usize), Errno> {
    let (theirs, ours) = sys::unix_pair(libc::SOCK_SEQPACKET)?;
    // Tells an empty packet from the end: see sys::receive_packet.
    sys::set_option(ours.as_fd(), libc::SOL_SOCKET, libc::SO_PASSCRED, &1_i32.to_ne_bytes())?;
    let key = s.add_stand_in(theirs.as_fd(), Some(ours), body, turn)?;
    Ok((theirs, key))
}

/// A stand-in that can show errors. Its last close is not reported.
fn pair_with_errors(s: &mut Supervisor, turn: &mut Turn<'_>, socket: SocketId) -> Result<(OwnedFd, usize), Errno> {
    // A raw socket whose last close nobody has reported yet would go on wanting its protocol.
    s.look_for_closed(turn);
    let (theirs, ours, name) = packet::pair_with_errors()?;
    sys::set_option(ours.as_fd(), libc::SOL_SOCKET, libc::SO_PASSCRED, &1_i32.to_ne_bytes())?;
    let key = s.add_stand_in(theirs.as_fd(), Some(ours), Body::Packet(Packets::new(socket, Some(name))), turn)?;
    s.watch(key);
    Ok((theirs, key))
}

/// io_uring: its requests are made by the kernel, past the filter.
pub(super) fn refuse_ring(s: &mut Supervisor, _: &mut Turn<'_>, call: &Call, _: impl calls::Call) -> Result<Outcome, Errno> {
    s.calls.unsupported(call.row.name.to_owned(), Errno(libc::ENOSYS));
    Err(Errno(libc::ENOSYS))
}

/// `socketpair(domain, type, protocol, pair)` for families other than AF_UNIX: AF_TIPC, for example, would be the host's.
pub(super) fn refuse_pair(s: &mut Supervisor, _: &mut Turn<'_>, _: &Call, asked: calls::Socketpair) -> Result<Outcome, Errno> {
    let family = asked.family.get();
    // sock_no_socketpair: "return -EOPNOTSUPP;", for the families that there are.
    let known = matches!(family, libc::AF_INET | libc::AF_INET6 | libc::AF_NETLINK | libc::AF_PACKET);
    let errno = Errno(if known { libc::EOPNOTSUPP } else { libc::EAFNOSUPPORT });
    s.calls.unsupported(format!("socketpair(family {family})"), errno);
    Err(errno)
}

/// `userfaultfd(flags)`: the kernel makes it, and a page of this program may wait for whoever answers there.
pub(super) fn userfaultfd(s: &mut Supervisor, _: &mut Turn<'_>, call: &Call, _: calls::Userfaultfd) -> Result<Outcome, Errno> {
    s.leave_to_workers(call.tree);
    Ok(Outcome::Continue)
}

/// Calls of the i386 table that make or use sockets, or reach interfaces. Refused by number alone.
pub(super) fn refuse_compat(s: &mut Supervisor, call: &Call) -> Result<Outcome, Errno> {
    // ioctl has the same arguments there.
    let request = calls::Ioctl::of(&call.words()).cmd.get() as u32;
    let is = |number: u32| i64::from(call.number) == i64::from(number);
    if is(arch::COMPAT_USERFAULTFD) || is(arch::COMPAT_IOCTL) && request == filter::USERFAULTFD_NEW {
        s.leave_to_workers(call.tree);
        return Ok(Outcome::Continue);
    }
    if is(arch::COMPAT_IOCTL) {
        s.calls.unsupported(format!("ioctl {request:#x} (i386)"), Errno(libc::EPERM));
        return Err(Errno(libc::EPERM));
    }
    let name = arch::COMPAT_REFUSED
        .iter()
        .find(|(number, _)| i64::from(*number) == i64::from(call.number))
        .map_or("call (i386)", |(_, name)| name);
    s.calls.unsupported(name.to_owned(), Errno(libc::ENOSYS));
    Err(Errno(libc::ENOSYS))
}
