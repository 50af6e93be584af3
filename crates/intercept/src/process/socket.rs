//! Socket calls, as weft-socket means them. Each takes effect at the caller's own time; one that would block is tried again when its
//! socket changes.

use super::caller::{Caller, Posted};
use super::ids::ThreadId;
use super::link::Link;
use super::object::Body;
use super::outcome::{Asked, Outcome};
use super::outside::Outside;
use super::pending;
use super::state::Wait;
use super::tree::Tree;
use crate::arch;
use crate::call::message::{Message, Taken, joined};
use crate::call::option::{self, Room};
use crate::face::{SocketId, Stack};
use crate::memory::Memory as _;
use crate::remote::LATER;
use crate::sys::Errno;
use std::time::Duration;
use weft_loader::calls;

/// Most bytes of a stream moved by one call.
const STREAM_BYTES_MAX: usize = 256 * 1024;
/// One more than UDP can carry, so that the model says EMSGSIZE.
const DATAGRAM_BYTES_MAX: usize = 65_536;
const MESSAGES_MAX: u64 = 1024;
const TYPE_MASK: i32 = 0xf;

impl Tree {
    /// All calls on sockets but those that make them.
    pub(super) fn socket_call(
        &mut self,
        thread: ThreadId,
        posted: &Posted,
        caller: &Caller<'_>,
        outside: &mut dyn Outside,
    ) -> Result<Outcome, Errno> {
        let a = &posted.arguments;
        let number = posted.number as i64;
        if let Some(Body::Setting { name, position }) = self.objects.body(posted.inode()) {
            let (name, position) = (name.clone(), *position);
            return self.setting_call(&name, position, posted, caller, outside);
        }
        if matches!(number, libc::SYS_lseek | libc::SYS_pread64 | libc::SYS_pwrite64) {
            // fs/read_write.c, ksys_lseek: "if (whence <= SEEK_MAX)", or else EINVAL.
            let unknown = number == libc::SYS_lseek && !(libc::SEEK_SET..=libc::SEEK_HOLE).contains(&posted.int(2));
            return Err(Errno(if unknown { libc::EINVAL } else { libc::ESPIPE }));
        }
        if matches!(self.objects.body(posted.inode()), Some(Body::Link(_))) {
            return self.link_call(thread, posted, caller, outside);
        }
        if matches!(number, libc::SYS_read | libc::SYS_readv) && !matches!(self.objects.body(posted.inode()), Some(Body::Socket(_))) {
            return self.read_object(thread, posted, caller);
        }
        let s = self.socket_of(posted)?;
        let stack = outside.stack();
        let done = |()| Outcome::Done(0);
        match number {
            libc::SYS_bind => stack.bind(s, &caller.read_address(a[1], posted.int(2))?).map(done),
            libc::SYS_listen => stack.listen(s, posted.int(1)).map(done),
            libc::SYS_shutdown => stack.shutdown(s, posted.int(1)).map(done),
            libc::SYS_getsockname => caller.write_address(&stack.local_address(s)?, a[1], a[2]).map(done),
            libc::SYS_getpeername => caller.write_address(&stack.peer_address(s)?, a[1], a[2]).map(done),
            libc::SYS_connect => self.connect(thread, s, posted, caller, outside),
            libc::SYS_accept | libc::SYS_accept4 => self.accept(thread, s, posted, caller, outside),
            libc::SYS_getsockopt => self.get_option(s, posted, caller, stack),
            libc::SYS_setsockopt => self.set_option(s, posted, caller, stack),
            libc::SYS_ioctl => self.socket_ioctl(thread, s, posted, caller, stack),
            // net/socket.c, sock_read_iter: "if (!iov_iter_count(to)) /* Match SYS5 behaviour */ return 0;"
            libc::SYS_read if a[2] == 0 => Ok(Outcome::Done(0)),
            libc::SYS_read => self.receive_one(thread, s, posted, caller, stack, &Message::flat(a[1], a[2]), 0),
            libc::SYS_write => self.send_one(thread, s, posted, caller, stack, &Message::flat(a[1], a[2]), 0),
            libc::SYS_readv | libc::SYS_writev => {
                let message = vectors(caller, a[1], a[2])?;
                if number == libc::SYS_readv && message.total == 0 {
                    Ok(Outcome::Done(0))
                } else if number == libc::SYS_readv {
                    self.receive_one(thread, s, posted, caller, stack, &message, 0)
                } else {
                    self.send_one(thread, s, posted, caller, stack, &message, 0)
                }
            }
            libc::SYS_recvfrom => self.receive_one(thread, s, posted, caller, stack, &Message::flat(a[1], a[2]), posted.int(3)),
            libc::SYS_sendto => self.send_one(thread, s, posted, caller, stack, &Message::flat(a[1], a[2]), posted.int(3)),
            libc::SYS_recvmsg => self.receive_one(thread, s, posted, caller, stack, &Message::read(caller, a[1])?, posted.int(2)),
            libc::SYS_sendmsg => self.send_one(thread, s, posted, caller, stack, &Message::read(caller, a[1])?, posted.int(2)),
            libc::SYS_sendmmsg => self.send_several(thread, s, posted, caller, stack),
            libc::SYS_recvmmsg => self.receive_several(thread, s, posted, caller, stack),
            _ => Err(Errno(libc::ENOSYS)),
        }
    }

    /// socket(2)
    pub(super) fn socket(&mut self, asked: &Asked<'_>, call: calls::Socket, outside: &mut dyn Outside) -> Result<Outcome, Errno> {
        let thread = asked.thread;
        let (domain, kind, protocol) = (call.family.get(), call.kind.get(), call.protocol.get());
        let flags = kind & !TYPE_MASK;
        if flags & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) != 0 {
            return Err(Errno(libc::EINVAL));
        }
        let made = match domain {
            libc::AF_INET | libc::AF_INET6 => outside.stack().socket(domain, kind & TYPE_MASK, protocol),
            libc::AF_NETLINK => {
                let link = Link::new(kind & TYPE_MASK, protocol)?;
                let (nonblocking, close_on_exec) = (flags & libc::SOCK_NONBLOCK != 0, flags & libc::SOCK_CLOEXEC != 0);
                return self.new_object(thread, Body::Link(link), nonblocking, close_on_exec);
            }
            libc::AF_PACKET => Err(Errno(libc::EPERM)),
            _ => Err(Errno(libc::EAFNOSUPPORT)),
        };
        let socket = made.inspect_err(|errno| {
            self.calls.unsupported(format!("socket(family {domain}, type {}, protocol {protocol})", kind & TYPE_MASK), *errno);
        })?;
        self.hand_socket(thread, socket, flags, outside)
    }

    fn hand_socket(&mut self, thread: ThreadId, socket: SocketId, flags: i32, outside: &mut dyn Outside) -> Result<Outcome, Errno> {
        let (nonblocking, close_on_exec) = (flags & libc::SOCK_NONBLOCK != 0, flags & libc::SOCK_CLOEXEC != 0);
        // What it has made before and asked no descriptor for is nobody's.
        self.drop_made(thread, outside);
        let made = self.new_object(thread, Body::Socket(socket), nonblocking, close_on_exec);
        match made.is_err() {
            true => outside.stack().close(socket),
            false => self.count_traffic(thread),
        }
        made
    }

    /// Waits for a socket, unless the call or descriptor says not to, or the time is up.
    fn wait_for(
        &mut self,
        thread: ThreadId,
        s: SocketId,
        posted: &Posted,
        flags: i32,
        limit: Option<Duration>,
        otherwise: i32,
    ) -> Result<Outcome, Errno> {
        let expired = self.tasks.threads.get(&thread).is_some_and(|one| one.expired);
        if posted.nonblocking() || flags & libc::MSG_DONTWAIT != 0 || expired || limit.is_some_and(|limit| limit.is_zero()) {
            return Err(Errno(otherwise));
        }
        let deadline = limit.map(|limit| self.clock + limit);
        // sock_intr_errno: "timeo == MAX_SCHEDULE_TIMEOUT ? -ERESTARTSYS : -EINTR".
        let interrupted = if limit.is_none() { weft_loader::abi::RESTART } else { -i64::from(libc::EINTR) };
        Ok(Outcome::Wait(Wait { sockets: vec![s], deadline, interrupted, ..Wait::default() }))
    }

    fn connect(
        &mut self,
        thread: ThreadId,
        s: SocketId,
        posted: &Posted,
        caller: &Caller<'_>,
        outside: &mut dyn Outside,
    ) -> Result<Outcome, Errno> {
        let address = caller.read_address(posted.arguments[1], posted.int(2))?;
        let held = self.tasks.threads.get(&thread).is_some_and(|one| one.held);
        match outside.stack().connect(s, &address) {
            Ok(()) => Ok(Outcome::Done(0)),
            Err(errno @ Errno(libc::EINPROGRESS | libc::EALREADY)) => {
                let limit = send_limit(outside.stack(), s);
                let otherwise = if held { libc::EINPROGRESS } else { errno.0 };
                self.wait_for(thread, s, posted, 0, limit, otherwise)
            }
            // A call that waited hears the outcome once: connected.
            Err(Errno(libc::EISCONN)) if held => Ok(Outcome::Done(0)),
            Err(errno) => Err(errno),
        }
    }

    fn accept(
        &mut self,
        thread: ThreadId,
        s: SocketId,
        posted: &Posted,
        caller: &Caller<'_>,
        outside: &mut dyn Outside,
    ) -> Result<Outcome, Errno> {
        let flags = if posted.number as i64 == libc::SYS_accept4 { posted.int(3) } else { 0 };
        if flags & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) != 0 {
            return Err(Errno(libc::EINVAL));
        }
        if posted.arguments[1] != 0 {
            caller.read_ahead(posted.arguments[2])?;
        }
        let child = match outside.stack().accept(s) {
            Ok(child) => child,
            Err(Errno(libc::EAGAIN)) => {
                let limit = receive_limit(outside.stack(), s);
                return self.wait_for(thread, s, posted, 0, limit, libc::EAGAIN);
            }
            Err(errno) => return Err(errno),
        };
        if posted.arguments[1] != 0 {
            let written = outside
                .stack()
                .accepted_address(child)
                .and_then(|address| caller.write_address(&address, posted.arguments[1], posted.arguments[2]));
            if let Err(errno) = written {
                outside.stack().close(child);
                return Err(errno);
            }
        }
        self.hand_socket(thread, child, flags, outside)
    }

    fn get_option(&mut self, s: SocketId, posted: &Posted, caller: &Caller<'_>, stack: &mut dyn Stack) -> Result<Outcome, Errno> {
        let (level, name) = (posted.int(1), posted.int(2));
        let room = Room::read(caller, level, name, posted.arguments[4])?;
        let value = stack.get_option(s, level, name, room.bytes).inspect_err(|errno| self.count_option("getsockopt", posted, *errno))?;
        room.fill(caller, &value, posted.arguments[3], posted.arguments[4])?;
        Ok(Outcome::Done(0))
    }

    fn set_option(&mut self, s: SocketId, posted: &Posted, caller: &Caller<'_>, stack: &mut dyn Stack) -> Result<Outcome, Errno> {
        let value = option::given(caller, posted.int(1), posted.int(2), posted.arguments[3], posted.int(4))?;
        stack
            .set_option(s, posted.int(1), posted.int(2), &value)
            .inspect_err(|errno| self.count_option("setsockopt", posted, *errno))
            .map(|()| Outcome::Done(0))
    }

    fn count_option(&mut self, call: &str, posted: &Posted, errno: Errno) {
        if matches!(errno.0, libc::ENOPROTOOPT | libc::EOPNOTSUPP) {
            self.calls.unsupported(format!("{call} level {} name {}", posted.int(1), posted.int(2)), errno);
        }
    }

    fn socket_ioctl(
        &mut self,
        thread: ThreadId,
        s: SocketId,
        posted: &Posted,
        caller: &Caller<'_>,
        stack: &mut dyn Stack,
    ) -> Result<Outcome, Errno> {
        let request = posted.arguments[1] as u32;
        if (0x8910..0x8a00).contains(&request) && request != 0x894b {
            return self.interface_ioctl(thread, posted, caller, stack);
        }
        let value =
            stack.ioctl(s, u64::from(request), &[]).inspect_err(|errno| self.calls.unsupported(format!("ioctl {request:#x}"), *errno))?;
        caller.write(posted.arguments[2], &value)?;
        Ok(Outcome::Done(0))
    }

    /// SIOCGIF* and so on, through whatever socket.
    pub(super) fn interface_ioctl(
        &mut self,
        thread: ThreadId,
        posted: &Posted,
        caller: &Caller<'_>,
        stack: &mut dyn Stack,
    ) -> Result<Outcome, Errno> {
        let request = posted.arguments[1] as u32;
        let manages = self.real.is_some() || self.manages_network(thread);
        crate::call::interface::answer_in(caller, stack, request, posted.arguments[2], manages)
            .inspect_err(|errno| {
                if !matches!(errno.0, libc::ENODEV | libc::EFAULT | libc::EADDRNOTAVAIL) {
                    self.calls.unsupported(format!("ioctl {request:#x}"), *errno);
                }
            })
            .map(|()| Outcome::Done(0))
    }

    #[allow(clippy::too_many_arguments)] // those of the call
    fn send_one(
        &mut self,
        thread: ThreadId,
        s: SocketId,
        posted: &Posted,
        caller: &Caller<'_>,
        stack: &mut dyn Stack,
        message: &Message,
        flags: i32,
    ) -> Result<Outcome, Errno> {
        let (name, control) = if posted.number as i64 == libc::SYS_sendto && posted.arguments[4] != 0 {
            (Some(caller.read_address(posted.arguments[4], posted.int(5))?), Vec::new())
        } else {
            (message.name(caller)?, message.control(caller)?)
        };
        let stream = stack.is_stream(s);
        let waits = stream && !posted.nonblocking() && flags & libc::MSG_DONTWAIT == 0;
        loop {
            let moved = self.tasks.threads.get(&thread).map_or(0, |one| one.moved);
            let rest = skip(&message.vectors, moved);
            match transmit(s, caller, stack, &rest, name.as_deref(), &control, flags) {
                Ok(sent) => {
                    self.count_sent(thread, sent);
                    let moved = moved + sent as u64;
                    // A blocking send of a stream returns when everything is taken.
                    if !waits || moved >= message.total {
                        return Ok(Outcome::Done(moved as i64));
                    }
                    if let Some(one) = self.tasks.threads.get_mut(&thread) {
                        one.moved = moved;
                    }
                }
                Err(Errno(errno @ (libc::EAGAIN | libc::EINPROGRESS))) => {
                    let limit = send_limit(stack, s);
                    let outcome = self.wait_for(thread, s, posted, flags, limit, errno);
                    return match outcome {
                        Ok(Outcome::Wait(wait)) if moved > 0 => Ok(Outcome::Wait(Wait { interrupted: moved as i64, ..wait })),
                        Err(_) if moved > 0 => Ok(Outcome::Done(moved as i64)),
                        other => other,
                    };
                }
                Err(LATER) => return Err(LATER),
                Err(_) if moved > 0 => return Ok(Outcome::Done(moved as i64)),
                Err(errno) => {
                    if errno.0 == libc::EPIPE && flags & libc::MSG_NOSIGNAL == 0 && stream {
                        self.signal_thread(thread, libc::SIGPIPE, pending::info_from_kernel(libc::SIGPIPE));
                    }
                    return Err(errno);
                }
            }
        }
    }

    #[allow(clippy::too_many_arguments)] // those of the call
    fn receive_one(
        &mut self,
        thread: ThreadId,
        s: SocketId,
        posted: &Posted,
        caller: &Caller<'_>,
        stack: &mut dyn Stack,
        message: &Message,
        flags: i32,
    ) -> Result<Outcome, Errno> {
        if flags & libc::MSG_WAITALL != 0
            && flags & (libc::MSG_DONTWAIT | libc::MSG_PEEK) == 0
            && !posted.nonblocking()
            && stack.is_stream(s)
        {
            let expired = self.tasks.threads.get(&thread).is_some_and(|one| one.expired);
            let readiness = stack.readiness(s);
            let over = readiness.contains(crate::Poll::RDHUP) || readiness.contains(crate::Poll::ERR) || expired;
            let most = (STREAM_BYTES_MAX as u64 / 4).min(message.total) as usize;
            if stack.receive_ready(s) < most && !over {
                let limit = receive_limit(stack, s);
                return self.wait_for(thread, s, posted, 0, limit, libc::EAGAIN);
            }
        }
        if posted.number as i64 == libc::SYS_recvfrom && posted.arguments[4] != 0 {
            caller.read_ahead(posted.arguments[5])?;
        }
        match take(s, stack, message.total, flags) {
            Ok(taken) => {
                if posted.number as i64 == libc::SYS_recvfrom && posted.arguments[4] != 0 {
                    caller.write_address(&taken.from, posted.arguments[4], posted.arguments[5])?;
                }
                let delivered = message.deliver(caller, &taken, flags)?;
                self.count_received(thread, &taken, flags);
                Ok(Outcome::Done(delivered))
            }
            Err(Errno(libc::EAGAIN)) if flags & libc::MSG_ERRQUEUE == 0 => {
                let limit = receive_limit(stack, s);
                self.wait_for(thread, s, posted, flags, limit, libc::EAGAIN)
            }
            Err(errno) => Err(errno),
        }
    }

    fn send_several(
        &mut self,
        thread: ThreadId,
        s: SocketId,
        posted: &Posted,
        caller: &Caller<'_>,
        stack: &mut dyn Stack,
    ) -> Result<Outcome, Errno> {
        let flags = posted.int(3);
        let count = u64::from(posted.arguments[2] as u32).min(MESSAGES_MAX);
        for index in self.messages_done(thread)..count {
            let at = posted.arguments[1].wrapping_add(index * arch::MMSGHDR_BYTES as u64);
            let sent = Message::read(caller, at).and_then(|message| transmit_message(s, caller, stack, &message, flags));
            let sent = sent.inspect(|sent| self.count_sent(thread, *sent));
            let sent = sent.and_then(|sent| caller.write(at.wrapping_add(arch::MMSGHDR_LENGTH as u64), &(sent as u32).to_ne_bytes()));
            match sent {
                Ok(()) => self.message_is_done(thread, index),
                Err(LATER) => return Err(LATER),
                Err(_) if index > 0 => return Ok(Outcome::Done(index as i64)),
                Err(Errno(libc::EAGAIN)) => {
                    let limit = send_limit(stack, s);
                    return self.wait_for(thread, s, posted, flags, limit, libc::EAGAIN);
                }
                Err(errno) => return Err(errno),
            }
        }
        Ok(Outcome::Done(count as i64))
    }

    /// Messages of a call with several that are done: it goes on behind them.
    fn messages_done(&self, thread: ThreadId) -> u64 {
        self.tasks.threads.get(&thread).map_or(0, |one| one.moved)
    }
    fn message_is_done(&mut self, thread: ThreadId, index: u64) {
        if let Some(one) = self.tasks.threads.get_mut(&thread) {
            one.moved = index + 1;
        }
    }

    fn receive_several(
        &mut self,
        thread: ThreadId,
        s: SocketId,
        posted: &Posted,
        caller: &Caller<'_>,
        stack: &mut dyn Stack,
    ) -> Result<Outcome, Errno> {
        let flags = posted.int(3);
        let count = u64::from(posted.arguments[2] as u32).min(MESSAGES_MAX);
        let mut got = self.messages_done(thread);
        while got < count {
            let at = posted.arguments[1].wrapping_add(got * arch::MMSGHDR_BYTES as u64);
            let one = Message::read(caller, at).and_then(|message| {
                let taken = take(s, stack, message.total, flags & !libc::MSG_WAITFORONE)?;
                let delivered = message.deliver(caller, &taken, flags)?;
                self.count_received(thread, &taken, flags);
                Ok(delivered)
            });
            match one.and_then(|bytes| caller.write(at.wrapping_add(arch::MMSGHDR_LENGTH as u64), &(bytes as u32).to_ne_bytes())) {
                Ok(()) => {
                    self.message_is_done(thread, got);
                    got += 1;
                }
                Err(LATER) => return Err(LATER),
                Err(_) if got > 0 => break,
                Err(Errno(libc::EAGAIN)) => {
                    let limit = receive_limit(stack, s);
                    return self.wait_for(thread, s, posted, flags, limit, libc::EAGAIN);
                }
                Err(errno) => return Err(errno),
            }
        }
        Ok(Outcome::Done(got as i64))
    }
}

pub(super) fn vectors(caller: &Caller<'_>, at: u64, count: u64) -> Result<Message, Errno> {
    if count > MESSAGES_MAX {
        return Err(Errno(libc::EINVAL));
    }
    let mut array = vec![0; count as usize * arch::IOVEC_BYTES];
    caller.read(at, &mut array)?;
    let vectors: Vec<(u64, u64)> = arch::vectors(&array).collect();
    let total = vectors.iter().fold(0_u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
    Ok(Message { vectors, total, ..Message::default() })
}

/// SO_RCVTIMEO and SO_SNDTIMEO.
fn receive_limit(stack: &mut dyn Stack, s: SocketId) -> Option<Duration> {
    stack.timeouts(s).0
}
fn send_limit(stack: &mut dyn Stack, s: SocketId) -> Option<Duration> {
    stack.timeouts(s).1
}

/// What is left of pieces after so many bytes.
fn skip(vectors: &[(u64, u64)], bytes: u64) -> Vec<(u64, u64)> {
    let mut left = bytes;
    let mut rest = Vec::with_capacity(vectors.len());
    for (address, bytes) in vectors {
        let cut = left.min(*bytes);
        left -= cut;
        if cut < *bytes || *bytes == 0 {
            rest.push((address + cut, bytes - cut));
        }
    }
    rest
}

fn transmit_message(s: SocketId, caller: &Caller<'_>, stack: &mut dyn Stack, message: &Message, flags: i32) -> Result<usize, Errno> {
    let name = message.name(caller)?;
    let control = message.control(caller)?;
    transmit(s, caller, stack, &message.vectors, name.as_deref(), &control, flags)
}

fn transmit(
    s: SocketId,
    caller: &Caller<'_>,
    stack: &mut dyn Stack,
    vectors: &[(u64, u64)],
    name: Option<&[u8]>,
    control: &[u8],
    flags: i32,
) -> Result<usize, Errno> {
    let stream = stack.is_stream(s);
    let most = if stream { stack.send_room(s).clamp(1, STREAM_BYTES_MAX) } else { DATAGRAM_BYTES_MAX };
    let data = caller.gather(vectors, most)?;
    let total = vectors.iter().fold(0_u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
    if !stream && (data.len() as u64) < total.min(most as u64) {
        // A datagram is sent as it is or not at all.
        return Err(Errno(libc::EFAULT));
    }
    stack.send(s, data.freeze(), flags | libc::MSG_DONTWAIT, name, control)
}

fn take(s: SocketId, stack: &mut dyn Stack, total: u64, flags: i32) -> Result<Taken, Errno> {
    let total = usize::try_from(total).unwrap_or(usize::MAX).min(STREAM_BYTES_MAX);
    let received = stack.receive(s, total, flags & !libc::MSG_WAITALL | libc::MSG_DONTWAIT)?;
    let data = joined(received.data);
    // tcp_recv_urg: "msg->msg_flags |= MSG_OOB; if (len > 0) … else msg->msg_flags |= MSG_TRUNC;"
    let cut = received.datagram_bytes > data.len();
    let stream = cut && stack.is_stream(s) && !(flags & libc::MSG_OOB != 0 && total == 0);
    Ok(Taken { data, length: received.datagram_bytes, from: received.from, control: received.control, flags: received.flags, stream })
}
