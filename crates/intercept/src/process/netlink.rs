//! AF_NETLINK sockets in virtual time: the personality of `crate::netlink`, with the answers kept here until the program takes them.

use super::caller::{Caller, Posted};
use super::ids::ThreadId;
use super::link::Link;
use super::object::Body;
use super::outcome::Outcome;
use super::outside::Outside;
use super::state::Wait;
use super::tree::Tree;
use crate::call::message::{Message, Taken};
use crate::memory::Memory as _;
use crate::netlink::{self, Node};
use crate::sys::Errno;
use bytes::Bytes;
use weft_core::engine::Alert;

/// Longest packet of a program.
const REQUEST_BYTES_MAX: usize = 64 * 1024;
/// SO_SNDBUF and SO_RCVBUF: net.core.rmem_default.
const BUFFER_BYTES: i32 = 212_992;

impl Tree {
    /// Calls on netlink sockets.
    pub(super) fn link_call(
        &mut self,
        thread: ThreadId,
        posted: &Posted,
        caller: &Caller<'_>,
        outside: &mut dyn Outside,
    ) -> Result<Outcome, Errno> {
        let a = &posted.arguments;
        let process = self.tasks.process_of(thread)?;
        let pid = self.tasks.processes.get(&process).map_or(0, |one| one.pid);
        let inode = posted.inode();
        let done = |()| Outcome::Done(0);
        let number = posted.number as i64;
        match number {
            libc::SYS_write | libc::SYS_sendto => self.ask(thread, inode, pid, &Message::flat(a[1], a[2]), caller, outside),
            libc::SYS_sendmsg => self.ask(thread, inode, pid, &Message::read(caller, a[1])?, caller, outside),
            libc::SYS_writev => self.ask(thread, inode, pid, &super::socket::vectors(caller, a[1], a[2])?, caller, outside),
            libc::SYS_read if a[2] == 0 => Ok(Outcome::Done(0)),
            libc::SYS_read => self.take_answer(posted, &Message::flat(a[1], a[2]), 0, caller),
            libc::SYS_recvfrom => self.take_answer(posted, &Message::flat(a[1], a[2]), posted.int(3), caller),
            libc::SYS_recvmsg => self.take_answer(posted, &Message::read(caller, a[1])?, posted.int(2), caller),
            libc::SYS_readv => self.take_answer(posted, &super::socket::vectors(caller, a[1], a[2])?, 0, caller),
            libc::SYS_ioctl => self.interface_ioctl(thread, posted, caller, outside.stack()),
            _ => {
                let Some(Body::Link(link)) = self.objects.body_mut(inode) else {
                    return Err(Errno(libc::EBADF));
                };
                match number {
                    libc::SYS_bind => {
                        let bound = link.state.bind(&caller.read_address(a[1], posted.int(2))?).map(done).map_err(Errno);
                        self.forget_alerts(outside);
                        bound
                    }
                    // Its only peer is the kernel, which is who one talks to anyway.
                    libc::SYS_connect => caller.read_address(a[1], posted.int(2)).map(|_| Outcome::Done(0)),
                    libc::SYS_getsockname => caller.write_address(&link.state.name(pid), a[1], a[2]).map(done),
                    libc::SYS_getpeername => caller.write_address(&netlink::KERNEL_NAME, a[1], a[2]).map(done),
                    libc::SYS_getsockopt => link_option(link, posted, caller),
                    libc::SYS_setsockopt => {
                        let level = posted.int(1);
                        if level == libc::SOL_SOCKET {
                            return Ok(Outcome::Done(0));
                        }
                        let mut value = [0; 4];
                        caller.read(a[3], &mut value)?;
                        let set = link.state.set_option(level, posted.int(2), &value).map(done).map_err(Errno);
                        if let Err(errno) = &set {
                            self.calls.unsupported(format!("setsockopt level {level} name {} of a netlink socket", posted.int(2)), *errno);
                        }
                        self.forget_alerts(outside);
                        set
                    }
                    _ => Err(Errno(libc::EOPNOTSUPP)),
                }
            }
        }
    }

    /// A program asks: the answers wait for it.
    fn ask(
        &mut self,
        thread: ThreadId,
        inode: u64,
        pid: u32,
        message: &Message,
        caller: &Caller<'_>,
        outside: &mut dyn Outside,
    ) -> Result<Outcome, Errno> {
        // In real time whoever runs programs on a stack of his own manages it.
        let manages = self.real.is_some() || self.manages_network(thread);
        let data = message.gather(caller, REQUEST_BYTES_MAX)?;
        let Tree { objects, calls, .. } = self;
        let Some(Body::Link(link)) = objects.body_mut(inode) else { return Err(Errno(libc::EBADF)) };
        let packets = link.state.answers(&data, pid, manages, &mut Node { stack: outside.stack(), calls });
        packets.into_iter().for_each(|packet| link.queue(packet));
        self.objects.note_change(inode);
        let alerts = outside.stack().take_alerts();
        self.tell_alerts(&alerts, outside);
        Ok(Outcome::Done(data.len() as i64))
    }

    /// Whoever listens from now on hears nothing of what was before.
    fn forget_alerts(&self, outside: &mut dyn Outside) {
        if self.objects.links().filter(|link| link.state.listens()).count() <= 1 {
            outside.stack().take_alerts();
        }
    }

    /// Blocks may have alerted of something since the last turn.
    pub(super) fn take_alerts(&mut self, outside: &mut dyn Outside) {
        if self.objects.links().any(|link| link.state.listens()) {
            let alerts = outside.stack().take_alerts();
            self.tell_alerts(&alerts, outside);
        }
    }

    /// Blocks have alerted of something: programs that listen to netlink's groups hear of it.
    pub fn tell_alerts(&mut self, alerts: &[Alert], outside: &mut dyn Outside) {
        if alerts.is_empty() {
            return;
        }
        let Tree { objects, calls, .. } = self;
        objects.change_links(|link| {
            let mut hears = false;
            for alert in alerts {
                let node = &mut Node { stack: outside.stack(), calls };
                if let Some(packet) = link.state.notification(alert.name, &alert.value, node) {
                    link.queue(packet);
                    hears = true;
                }
            }
            hears
        });
    }

    fn take_answer(&mut self, posted: &Posted, message: &Message, flags: i32, caller: &Caller<'_>) -> Result<Outcome, Errno> {
        let inode = posted.inode();
        if posted.number as i64 == libc::SYS_recvfrom && posted.arguments[4] != 0 {
            caller.read_ahead(posted.arguments[5])?;
        }
        let Some(Body::Link(link)) = self.objects.body_mut(inode) else { return Err(Errno(libc::EBADF)) };
        if std::mem::take(&mut link.lost) {
            return Err(Errno(libc::ENOBUFS));
        }
        let packet = if flags & libc::MSG_PEEK != 0 { link.packets.front().cloned() } else { link.packets.pop_front() };
        let Some(packet) = packet else {
            if posted.nonblocking() || flags & libc::MSG_DONTWAIT != 0 {
                return Err(Errno(libc::EAGAIN));
            }
            return Ok(Outcome::Wait(Wait { objects: vec![inode], ..Wait::default() }));
        };
        let room = usize::try_from(message.total).unwrap_or(usize::MAX).min(packet.len());
        let data = Bytes::copy_from_slice(&packet[..room]);
        let taken = Taken { data, length: packet.len(), from: netlink::KERNEL_NAME.to_vec(), ..Taken::default() };
        if posted.number as i64 == libc::SYS_recvfrom && posted.arguments[4] != 0 {
            caller.write_address(&taken.from, posted.arguments[4], posted.arguments[5])?;
        }
        message.deliver(caller, &taken, flags).map(Outcome::Done)
    }
}

fn link_option(link: &Link, posted: &Posted, caller: &Caller<'_>) -> Result<Outcome, Errno> {
    let (level, name) = (posted.int(1), posted.int(2));
    let value = match link.state.option(level, name) {
        Some(value) => value,
        None if level != libc::SOL_SOCKET => return Err(Errno(libc::ENOPROTOOPT)),
        None => match name {
            libc::SO_RCVBUF | libc::SO_SNDBUF => BUFFER_BYTES,
            _ => 0,
        }
        .to_ne_bytes()
        .to_vec(),
    };
    let room = usize::try_from(caller.read_int(posted.arguments[4])?).map_err(|_| Errno(libc::EINVAL))?;
    caller.write(posted.arguments[3], value.get(..room).unwrap_or(&value))?;
    caller.write(posted.arguments[4], &(value.len().min(room) as u32).to_ne_bytes())?;
    Ok(Outcome::Done(0))
}
