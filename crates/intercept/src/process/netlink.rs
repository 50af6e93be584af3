//! AF_NETLINK sockets in virtual time: the personality of `crate::netlink`, with the answers kept here until the program takes them.

use super::answer::Outcome;
use super::guest::{Guest, Posted};
use super::object::Body;
use super::{Outside, ThreadId, Tree, Wait};
use crate::call::message::{Message, Taken};
use crate::memory::Memory as _;
use crate::netlink::{self, Netlink};
use crate::sys::Errno;
use bytes::BytesMut;
use std::collections::VecDeque;

/// Most packets that wait for a program; what comes then is lost, as the kernel's is (ENOBUFS).
const PACKETS_MAX: usize = 256;
/// Longest packet of a program.
const REQUEST_BYTES_MAX: usize = 64 * 1024;
/// SO_SNDBUF and SO_RCVBUF: net.core.rmem_default.
const BUFFER_BYTES: i32 = 212_992;

/// A netlink socket of a program.
#[derive(Debug)]
pub(super) struct Link {
    state: Netlink,
    packets: VecDeque<Vec<u8>>,
    /// Packets had to be dropped, which the program has not heard of.
    lost: bool,
}

impl Link {
    pub fn new(kind: i32, protocol: i32) -> Result<Link, Errno> {
        Ok(Link { state: Netlink::new(kind, protocol)?, packets: VecDeque::new(), lost: false })
    }
    /// POLLIN, POLLOUT, POLLERR.
    pub fn readiness(&self) -> u32 {
        4 | u32::from(!self.packets.is_empty()) | if self.lost { 8 } else { 0 }
    }
}

impl Tree {
    /// Calls on netlink sockets.
    pub(super) fn link_call(
        &mut self,
        thread: ThreadId,
        posted: &Posted,
        guest: &Guest<'_>,
        outside: &mut dyn Outside,
    ) -> Result<Outcome, Errno> {
        let a = &posted.arguments;
        let process = self.process_of(thread)?;
        let pid = self.processes.get(&process).map_or(0, |one| one.pid);
        let inode = posted.inode();
        let done = |()| Outcome::Done(0);
        let number = posted.number as i64;
        match number {
            libc::SYS_write => self.ask(inode, pid, &Message::flat(a[1], a[2]), guest, outside),
            libc::SYS_sendto => self.ask(inode, pid, &Message::flat(a[1], a[2]), guest, outside),
            libc::SYS_sendmsg => self.ask(inode, pid, &Message::read(guest, a[1])?, guest, outside),
            libc::SYS_writev => self.ask(inode, pid, &super::socket::vectors(guest, a[1], a[2])?, guest, outside),
            libc::SYS_read if a[2] == 0 => Ok(Outcome::Done(0)),
            libc::SYS_read => self.take_answer(posted, &Message::flat(a[1], a[2]), 0, guest),
            libc::SYS_recvfrom => self.take_answer(posted, &Message::flat(a[1], a[2]), posted.int(3), guest),
            libc::SYS_recvmsg => self.take_answer(posted, &Message::read(guest, a[1])?, posted.int(2), guest),
            libc::SYS_readv => self.take_answer(posted, &super::socket::vectors(guest, a[1], a[2])?, 0, guest),
            libc::SYS_ioctl => self.interface_ioctl(posted, guest, outside.stack()),
            _ => {
                let Some(Body::Link(link)) = self.objects.get_mut(&inode).map(|object| &mut object.body) else {
                    return Err(Errno(libc::EBADF));
                };
                match number {
                    libc::SYS_bind => link.state.bind(&guest.read_address(a[1], posted.int(2))?).map(done),
                    // Its only peer is the kernel, which is who one talks to anyway.
                    libc::SYS_connect => guest.read_address(a[1], posted.int(2)).map(|_| Outcome::Done(0)),
                    libc::SYS_getsockname => guest.write_address(&link.state.name(pid), a[1], a[2]).map(done),
                    libc::SYS_getpeername => guest.write_address(&netlink::KERNEL_NAME, a[1], a[2]).map(done),
                    libc::SYS_getsockopt => link_option(link, posted, guest),
                    libc::SYS_setsockopt => {
                        let level = posted.int(1);
                        if level == libc::SOL_SOCKET {
                            return Ok(Outcome::Done(0));
                        }
                        // libraries go on without (strict checking, extended acknowledgements)
                        self.calls.unsupported(
                            format!("setsockopt level {level} name {} of a netlink socket", posted.int(2)),
                            Errno(libc::ENOPROTOOPT),
                        );
                        Err(Errno(libc::ENOPROTOOPT))
                    }
                    _ => Err(Errno(libc::EOPNOTSUPP)),
                }
            }
        }
    }

    /// A program asks: the answers wait for it.
    fn ask(&mut self, inode: u64, pid: u32, message: &Message, guest: &Guest<'_>, outside: &mut dyn Outside) -> Result<Outcome, Errno> {
        let data = message.gather(guest, REQUEST_BYTES_MAX)?;
        let Tree { objects, calls, .. } = self;
        let Some(Body::Link(link)) = objects.get_mut(&inode).map(|object| &mut object.body) else { return Err(Errno(libc::EBADF)) };
        for packet in netlink::answers(&mut link.state, &data, pid, outside.stack(), calls) {
            if link.packets.len() < PACKETS_MAX {
                link.packets.push_back(packet);
            } else {
                link.lost = true;
            }
        }
        self.changed_objects.insert(inode);
        Ok(Outcome::Done(data.len() as i64))
    }

    fn take_answer(&mut self, posted: &Posted, message: &Message, flags: i32, guest: &Guest<'_>) -> Result<Outcome, Errno> {
        let inode = posted.inode();
        let Some(Body::Link(link)) = self.objects.get_mut(&inode).map(|object| &mut object.body) else { return Err(Errno(libc::EBADF)) };
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
        let data = BytesMut::from(&packet[..room]);
        let taken = Taken { data, length: packet.len(), from: netlink::KERNEL_NAME.to_vec(), ..Taken::default() };
        if posted.number as i64 == libc::SYS_recvfrom && posted.arguments[4] != 0 {
            guest.write_address(&taken.from, posted.arguments[4], posted.arguments[5])?;
        }
        message.deliver(guest, &taken, flags).map(Outcome::Done)
    }
}

fn link_option(link: &Link, posted: &Posted, guest: &Guest<'_>) -> Result<Outcome, Errno> {
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
    let room = usize::try_from(guest.read_int(posted.arguments[4])?).map_err(|_| Errno(libc::EINVAL))?;
    guest.write(posted.arguments[3], value.get(..room).unwrap_or(&value))?;
    guest.write(posted.arguments[4], &(value.len().min(room) as u32).to_ne_bytes())?;
    Ok(Outcome::Done(0))
}
