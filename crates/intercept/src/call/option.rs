//! getsockopt(2), setsockopt(2), ioctl(2).

use super::interface;
use super::message::TCP_INQ;
use super::trapped::{Call, Outcome};
use crate::filter;
use crate::memory::Memory;
use crate::standin::{Body, StandIn};
use crate::supervisor::{Supervisor, Turn};
use crate::sys::{self, Errno};
use std::os::fd::AsFd;
use weft_loader::calls;

/// Longest option value.
const OPTION_BYTES_MAX: i32 = 4096;
/// BPF_MAXINSNS.
const FILTER_INSTRUCTIONS_MAX: usize = 4096;
/// sizeof(struct sock_filter)
const INSTRUCTION_BYTES: usize = 8;
/// SO_RCVTIMEO and SO_SNDTIMEO in their 64-bit forms.
const SO_RCVTIMEO_NEW: i32 = 66;
const SO_SNDTIMEO_NEW: i32 = 67;
const SO_TIMESTAMPING_NEW: i32 = 65;
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

/// `getsockopt(fd, level, name, value, length pointer)`
pub(super) fn getsockopt(s: &mut Supervisor, turn: &mut Turn<'_>, call: &Call, asked: calls::Getsockopt) -> Result<Outcome, Errno> {
    let Some(key) = s.find(call, asked.fd.get())? else { return Ok(Outcome::Continue) };
    let (level, name) = (asked.level.get(), asked.optname.get());
    let room = Room::read(call, level, name, asked.optlen.0 as u64)?;
    let Some(one) = s.stand_ins.get(key) else { return Err(Errno(libc::EBADF)) };
    if level == libc::SOL_SOCKET && name == libc::SO_PEEK_OFF && one.ours.is_some() {
        // Raw sockets have none. Otherwise it moves with native reads, so the stand-in knows it.
        if let Some(socket) = one.socket() {
            turn.stack.get_option(socket, level, name, room.bytes)?;
        }
        return Ok(Outcome::Continue);
    }
    let value = match (&one.body, one.socket()) {
        (Body::Netlink(state), _) => match state.option(level, name) {
            Some(value) => Ok(value),
            // Buffer sizes and time limits are the stand-in's own.
            None if level == libc::SOL_SOCKET => return Ok(Outcome::Continue),
            None => Err(Errno(libc::ENOPROTOOPT)),
        },
        // Peeking moves it, and that happens in the stand-in.
        (_, Some(_)) if level == libc::SOL_SOCKET && name == libc::SO_PEEK_OFF => {
            let end = s.borrow(key)?;
            sys::get_option(end.as_fd(), level, name).map(|(value, length)| value[..length.min(room.bytes)].to_vec())
        }
        (_, Some(socket)) => {
            if level == libc::SOL_SOCKET && name == libc::SO_ERROR {
                s.forget_told_error(key, socket, turn);
                s.error_told_natively(key, turn);
            }
            let mut value = turn.stack.get_option(socket, level, name, room.bytes);
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
            value
        }
        _ => Err(Errno(libc::EBADF)),
    };
    let value = value.inspect_err(|errno| count(s, "getsockopt", level, name, *errno))?;
    room.fill(call, &value, asked.optval.0 as u64, asked.optlen.0 as u64)?;
    Ok(Outcome::DoneWithEffect(0))
}

fn count(s: &mut Supervisor, call: &str, level: i32, name: i32, errno: Errno) {
    if matches!(errno.0, libc::ENOPROTOOPT | libc::EOPNOTSUPP) {
        s.calls.unsupported(format!("{call} level {level} name {name}"), errno);
    }
}

/// The instructions that a `struct sock_fprog` points to. copy_bpf_fprog_from_user: "if (len != sizeof(*dst)) return -EINVAL;"
fn filter_program(call: &impl Memory, value: &[u8]) -> Result<Vec<u8>, Errno> {
    let &[l0, l1, _, _, _, _, _, _, ref at @ ..] = value else { return Err(Errno(libc::EINVAL)) };
    let at = u64::from_ne_bytes(at.try_into().map_err(|_| Errno(libc::EINVAL))?);
    let count = usize::from(u16::from_ne_bytes([l0, l1]));
    if at == 0 || !(1..=FILTER_INSTRUCTIONS_MAX).contains(&count) {
        return Err(Errno(libc::EINVAL));
    }
    let mut program = vec![0; count * INSTRUCTION_BYTES];
    call.read(at, &mut program)?;
    Ok(program)
}

/// What getsockopt(2) is given: room for a value, and of which option.
pub(crate) struct Room {
    /// What the program says, not below zero.
    told: usize,
    /// How many bytes the model may tell.
    pub(crate) bytes: usize,
    /// The value is the instructions of a filter.
    filter: bool,
}

impl Room {
    /// Reads the length of the room.
    ///
    /// # Errors
    /// EINVAL when it is negative; EFAULT, or [`crate::remote::LATER`].
    pub(crate) fn read(memory: &impl Memory, level: i32, name: i32, length_at: u64) -> Result<Room, Errno> {
        let told = usize::try_from(memory.read_int(length_at)?).map_err(|_| Errno(libc::EINVAL))?;
        let filter = (level, name) == (libc::SOL_SOCKET, libc::SO_GET_FILTER);
        // sk_get_filter: "Instead of bytes, the API requests to return the number of filter blocks."
        let bytes = if filter { FILTER_INSTRUCTIONS_MAX * INSTRUCTION_BYTES } else { told.min(OPTION_BYTES_MAX as usize) };
        Ok(Room { told, bytes, filter })
    }

    /// Writes a value and its length.
    ///
    /// # Errors
    /// EINVAL when a filter has no room; EFAULT.
    pub(crate) fn fill(&self, memory: &impl Memory, value: &[u8], at: u64, length_at: u64) -> Result<(), Errno> {
        let mut length = value.len().min(self.bytes);
        if self.filter {
            length = value.len() / INSTRUCTION_BYTES;
            // "User space only enquires number of filter blocks".
            let asks = self.told == 0;
            if !asks && self.told < length {
                return Err(Errno(libc::EINVAL));
            }
            memory.write(at, if asks { &[] } else { value })?;
        } else {
            memory.write(at, value.get(..length).unwrap_or(value))?;
        }
        memory.write(length_at, &(length as u32).to_ne_bytes())
    }
}

/// The value that setsockopt(2) is given; of SO_ATTACH_FILTER, the instructions.
///
/// # Errors
/// EINVAL for a length below zero, above any option's, or that a filter cannot have; EFAULT, or [`crate::remote::LATER`].
pub(crate) fn given(memory: &impl Memory, level: i32, name: i32, at: u64, length: i32) -> Result<Vec<u8>, Errno> {
    // do_sock_setsockopt: "if (optlen < 0) return -EINVAL;"
    let bytes = usize::try_from(length).ok().filter(|_| length <= OPTION_BYTES_MAX).ok_or(Errno(libc::EINVAL))?;
    let mut value = vec![0; bytes];
    memory.read(at, &mut value)?;
    if (level, name) == (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER) { filter_program(memory, &value) } else { Ok(value) }
}

/// `setsockopt(fd, level, name, value, length)`
pub(super) fn setsockopt(s: &mut Supervisor, turn: &mut Turn<'_>, call: &Call, asked: calls::Setsockopt) -> Result<Outcome, Errno> {
    let Some(key) = s.find(call, asked.fd.get())? else { return Ok(Outcome::Continue) };
    let (level, name) = (asked.level.get(), asked.optname.get());
    let value = given(call, level, name, asked.optval.0 as u64, asked.optlen.get())?;
    let Some(one) = s.stand_ins.get_mut(key) else { return Err(Errno(libc::EBADF)) };
    if let Body::Netlink(session) = &mut one.body {
        if level == libc::SOL_SOCKET {
            return Ok(Outcome::Continue);
        }
        let set = session.set_option(level, name, &value).map_err(Errno);
        return set.map(|()| Outcome::DoneWithEffect(0)).inspect_err(|errno| count(s, "setsockopt", level, name, *errno));
    }
    let Some(socket) = one.socket() else { return Err(Errno(libc::EBADF)) };
    // What was written before goes by the old value: traceroute sets the TTL between two native sends.
    s.refresh(key);
    s.pump(key, false, turn);
    if !s.stand_ins.contains(key) {
        return Err(Errno(libc::EBADF));
    }
    turn.stack.set_option(socket, level, name, &value).inspect_err(|errno| count(s, "setsockopt", level, name, *errno))?;
    if level == libc::IPPROTO_TCP
        && name == TCP_INQ
        && let Some(one) = s.stand_ins.get_mut(key)
    {
        one.inquiry = value.iter().any(|byte| *byte != 0);
    }
    if ERROR_QUEUES.contains(&(level, name)) && value.iter().any(|byte| *byte != 0) {
        // Where it cannot be exchanged, an error shows as an empty datagram.
        match s.let_errors_show(key, call, asked.fd.get(), turn) {
            Err(errno @ Errno(libc::ENOENT)) => return Err(errno),
            Err(_) => s.calls.out_of_descriptors += 1,
            Ok(()) => {}
        }
    }
    if level == libc::SOL_SOCKET && MIRRORED.contains(&name) {
        let end = s.borrow(key)?;
        // The model has accepted the value; where the stand-in's kind has no such option, only trapped calls follow it.
        let _ = sys::set_option(end.as_fd(), level, name, &value);
    }
    Ok(Outcome::DoneWithEffect(0))
}

/// FIONREAD, also called SIOCINQ.
const FIONREAD: u32 = 0x541b;
/// TIOCOUTQ, also called SIOCOUTQ.
const SIOCOUTQ: u32 = 0x5411;
const SIOCOUTQNSD: u32 = 0x894b;
const SIOCATMARK: u32 = 0x8905;

/// `ioctl(fd, request, argument)`
pub(super) fn ioctl(s: &mut Supervisor, turn: &mut Turn<'_>, call: &Call, asked: calls::Ioctl) -> Result<Outcome, Errno> {
    let request = asked.cmd.get() as u32;
    if filter::makes_interfaces(request) {
        // What comes through the device would go through the host's stack.
        s.calls.unsupported(format!("ioctl {request:#x}"), Errno(libc::EPERM));
        return Err(Errno(libc::EPERM));
    }
    if request == filter::USERFAULTFD_NEW {
        s.leave_to_workers(call.tree);
        return Ok(Outcome::Continue);
    }
    let about_interfaces = filter::is_about_interfaces(request);
    let found = match s.find(call, asked.fd.get()) {
        // What cannot be looked at: the kernel tells how much there is to read, and nothing that reaches further.
        Err(Errno(libc::EPERM)) if !about_interfaces && call.remote.socket_inode(asked.fd.get()) == Err(Errno(libc::EPERM)) => {
            return Ok(Outcome::Continue);
        }
        other => other?,
    };
    if about_interfaces && request != SIOCOUTQNSD {
        // Through whatever socket: libc uses AF_UNIX ones. Nothing but a socket, or a device whose interface the program cannot have made,
        // knows these numbers.
        let is_socket = found.is_some() || call.remote.socket_inode(asked.fd.get())?.is_some();
        return if is_socket { interface::answer(s, turn, call, asked) } else { Err(Errno(libc::ENOTTY)) };
    }
    // By now the descriptor may mean another file, whose interfaces the kernel would look at.
    let otherwise = if about_interfaces { Err(Errno(libc::ENOTTY)) } else { Ok(Outcome::Continue) };
    let Some(key) = found else { return otherwise };
    let Some(socket) = s.stand_ins.get(key).and_then(StandIn::socket) else { return otherwise };
    if request == SIOCATMARK && s.is_connected(key) {
        // The mark has gone into the stand-in.
        return Ok(Outcome::Continue);
    }
    s.refresh(key);
    s.pump(key, false, turn);
    if request == FIONREAD
        && let Some(bytes) = before_mark(s, key)?
    {
        call.write(asked.arg.0 as u64, &(bytes as u32).to_ne_bytes())?;
        return Ok(Outcome::Done(0));
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
        let next = packets.beside.front().map_or(0, |beside| beside.bytes);
        call.write(asked.arg.0 as u64, &(next as u32).to_ne_bytes())?;
        return Ok(Outcome::Done(0));
    }
    let value = turn
        .stack
        .ioctl(socket, u64::from(request), &[])
        .inspect_err(|errno| s.calls.unsupported(format!("ioctl {request:#x}"), *errno))?;
    let in_model = value.get(..4).and_then(|bytes| bytes.try_into().ok()).map_or(0, i32::from_ne_bytes);
    let value =
        if waiting > 0 { in_model.saturating_add(i32::try_from(waiting).unwrap_or(i32::MAX)).to_ne_bytes().to_vec() } else { value };
    call.write(asked.arg.0 as u64, &value)?;
    Ok(Outcome::Done(0))
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
