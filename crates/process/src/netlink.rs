//! AF_NETLINK sockets in virtual time: the personality of `weft_intercept::netlink`, with the answers kept here until the program takes them.

use super::caller::{Caller, Posted};
use super::ids::ThreadId;
use super::link::Link;
use super::object::Body;
use super::outcome::Outcome;
use super::outside::Outside;
use super::state::Wait;
use super::tree::Tree;
use bytes::Bytes;
use std::time::Duration;
use weft_core::engine::Alert;
use weft_intercept::face::SocketId;
use weft_intercept::memory::Memory;
use weft_intercept::netlink::{self, Node, Session};
use weft_intercept::socket_calls::{Carrier, Limit, Message, Taken};
use weft_intercept::sys::Errno;

/// Longest packet of a program.
const REQUEST_BYTES_MAX: usize = 64 * 1024;

impl Tree {
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
                    link.queue(0, packet);
                    hears = true;
                }
            }
            hears
        });
    }
}

/// A netlink socket, while a posted call on it is answered.
pub(super) struct PostedLink<'a> {
    pub tree: &'a mut Tree,
    pub outside: &'a mut dyn Outside,
    pub thread: ThreadId,
    pub posted: &'a Posted,
    pub caller: &'a Caller<'a>,
}

impl PostedLink<'_> {
    fn link(&mut self) -> Result<&mut Link, Errno> {
        match self.tree.objects.body_mut(self.posted.inode()) {
            Some(Body::Link(link)) => Ok(link),
            _ => Err(Errno(libc::EBADF)),
        }
    }

    /// netlink_unicast to a program's socket: "ssk = netlink_getsockbyportid(ssk, portid); … -ECONNREFUSED".
    fn send_to(&mut self, protocol: i32, from: u32, to: u32, data: &[u8]) -> Result<usize, Errno> {
        let mut found = false;
        self.tree.objects.change_links(|link| {
            let it = link.state.is_called(protocol, to);
            if it {
                link.queue(from, data.to_vec());
            }
            found |= it;
            it
        });
        if found { Ok(data.len()) } else { Err(Errno(Session::NOBODY)) }
    }

    /// The process number of whoever asks.
    fn pid(&self) -> Result<u32, Errno> {
        let process = self.tree.tasks.process_of(self.thread)?;
        Ok(self.tree.tasks.processes.get(&process).map_or(0, |one| one.pid))
    }
}

impl Carrier for PostedLink<'_> {
    type Outcome = Outcome;

    fn memory(&self) -> &impl Memory {
        self.caller
    }
    fn told(&self, value: i64) -> Outcome {
        Outcome::Done(value)
    }
    fn done(&self, value: i64) -> Outcome {
        Outcome::Done(value)
    }
    fn wait(&mut self, limit: Limit, flags: i32, otherwise: i32) -> Result<Outcome, Errno> {
        let thread = self.tree.tasks.threads.get(&self.thread);
        let (expired, began) = thread.map_or((false, None), |one| (one.expired, one.held.then_some(one.deadline)));
        if self.posted.nonblocking() || flags & libc::MSG_DONTWAIT != 0 || expired {
            return Err(Errno(otherwise));
        }
        let clock = self.tree.clock;
        let link = self.link()?;
        let time = if limit == Limit::Send { link.send_limit } else { link.receive_limit };
        // The limit is that of the call's beginning.
        let deadline = match (began, time) {
            (Some(deadline), _) => deadline,
            (None, Some(time)) if time.is_zero() => return Err(Errno(otherwise)),
            (None, time) => time.map(|time| clock + time),
        };
        // sock_intr_errno: "timeo == MAX_SCHEDULE_TIMEOUT ? -ERESTARTSYS : -EINTR".
        let interrupted = if deadline.is_none() { weft_loader::abi::RESTART } else { -i64::from(libc::EINTR) };
        Ok(Outcome::Wait(Wait { objects: vec![self.posted.inode()], deadline, interrupted, ..Wait::default() }))
    }
    fn has_waited(&self) -> bool {
        self.tree.tasks.threads.get(&self.thread).is_some_and(|one| one.held)
    }

    fn bind(&mut self, address: &[u8]) -> Result<(), Errno> {
        let pid = self.pid()?;
        let bound = self.link()?.state.bind(address, pid).map_err(Errno);
        self.tree.forget_alerts(self.outside);
        bound
    }
    fn listen(&mut self, _: i32) -> Result<(), Errno> {
        Err(Errno(libc::EOPNOTSUPP))
    }
    fn shutdown(&mut self, _: i32) -> Result<(), Errno> {
        Err(Errno(libc::EOPNOTSUPP))
    }
    fn local_address(&mut self) -> Result<Vec<u8>, Errno> {
        Ok(self.link()?.state.name())
    }
    fn peer_address(&mut self) -> Result<Vec<u8>, Errno> {
        Ok(self.link()?.state.peer_name())
    }
    fn connect(&mut self, address: &[u8]) -> Result<(), Errno> {
        let pid = self.pid()?;
        self.link()?.state.connect(address, pid).map_err(Errno)
    }

    fn accept(&mut self) -> Result<SocketId, Errno> {
        Err(Errno(libc::EOPNOTSUPP))
    }
    fn accepted_address(&mut self, _: SocketId) -> Result<Vec<u8>, Errno> {
        Err(Errno(libc::EOPNOTSUPP))
    }
    fn give_up(&mut self, _: SocketId) {}
    fn hand_over(&mut self, _: SocketId, _: i32) -> Result<Outcome, Errno> {
        Err(Errno(libc::EOPNOTSUPP))
    }

    fn get_option(&mut self, level: i32, name: i32, length: i32) -> Result<Option<Vec<u8>>, Errno> {
        let link = self.link()?;
        let value = link.state.option(level, name, length).map_err(Errno)?;
        Ok(Some(value.unwrap_or_else(|| link.option(name))))
    }
    fn option_bytes(&mut self, _: i32, _: i32, length: usize) -> usize {
        length
    }
    fn set_option(&mut self, level: i32, name: i32, value: &[u8]) -> Result<bool, Errno> {
        if level == libc::SOL_SOCKET {
            return self.link()?.set_option(name, value).map(|()| true);
        }
        let set = self.link()?.state.set_option(level, name, value).map_err(Errno);
        self.tree.forget_alerts(self.outside);
        set.map(|()| true)
    }
    fn ioctl(&mut self, request: u32) -> Result<Option<Vec<u8>>, Errno> {
        // sock_ioctl: FIOSETOWN, SIOCSPGRP, FIOGETOWN, SIOCGPGRP are about the file.
        if matches!(request, 0x8901..=0x8904) {
            return Ok(Some(Vec::new()));
        }
        // netlink_ioctl: "try to hand this ioctl down to the NIC drivers. return -ENOIOCTLCMD;", of which dev_ioctl makes this.
        self.tree.calls.unsupported(format!("ioctl {request:#x}"), Errno(libc::ENOTTY));
        Err(Errno(libc::ENOTTY))
    }
    fn about_interfaces(&mut self, request: u32, pointer: u64) -> Result<(), Errno> {
        self.tree.about_interfaces(self.thread, request, pointer, self.caller, None, self.outside)
    }

    /// A program asks: the answers wait for it. Or it sends to another of its kind.
    fn send(&mut self, message: &Message, name: Option<&[u8]>, _: &[u8], flags: i32) -> Result<usize, Errno> {
        let pid = self.pid()?;
        // In real time whoever runs programs on a stack of his own manages it.
        let manages = self.tree.real.is_some() || self.tree.manages_network(self.thread);
        let data = message.gather(self.caller, REQUEST_BYTES_MAX)?;
        let state = &mut self.link()?.state;
        let to = state.destination(name, flags, data.len(), pid, manages).map_err(Errno)?;
        let protocol = state.protocol();
        if to != 0 {
            let from = netlink::number(&state.name());
            return self.send_to(protocol, from, to, &data);
        }
        let inode = self.posted.inode();
        let Tree { objects, calls, .. } = &mut *self.tree;
        let Some(Body::Link(link)) = objects.body_mut(inode) else { return Err(Errno(libc::EBADF)) };
        let packets = link.state.answers(&data, pid, manages, &mut Node { stack: self.outside.stack(), calls });
        packets.into_iter().for_each(|packet| link.queue(0, packet));
        self.tree.objects.note_change(inode);
        let alerts = self.outside.stack().take_alerts();
        self.tree.tell_alerts(&alerts, self.outside);
        Ok(data.len())
    }
    fn take(&mut self, bytes: u64, flags: i32) -> Result<Taken, Errno> {
        let link = self.link()?;
        // netlink_recvmsg: "if (flags & MSG_OOB) return -EOPNOTSUPP;"
        if flags & libc::MSG_OOB != 0 {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        if std::mem::take(&mut link.lost) {
            return Err(Errno(libc::ENOBUFS));
        }
        let packet = if flags & libc::MSG_PEEK != 0 { link.packets.front().cloned() } else { link.packets.pop_front() };
        let (from, packet) = packet.ok_or(Errno(libc::EAGAIN))?;
        let room = usize::try_from(bytes).unwrap_or(usize::MAX).min(packet.len());
        let data = Bytes::copy_from_slice(&packet[..room]);
        Ok(Taken { data, length: packet.len(), from: netlink::named(from), ..Taken::default() })
    }
    fn is_stream(&mut self) -> bool {
        false
    }
    fn broken_pipe(&mut self) {}

    fn waits_between(&self) -> bool {
        true
    }
    fn waited(&self) -> Duration {
        self.tree.waited(self.thread)
    }
    fn messages_done(&self) -> u64 {
        self.tree.tasks.messages_done(self.thread)
    }
    fn message_is_done(&mut self, index: u64) -> Result<(), Result<i64, Errno>> {
        self.tree.tasks.message_is_done(self.thread, index);
        Ok(())
    }
    fn error_waits(&mut self) -> bool {
        self.link().is_ok_and(|link| link.lost)
    }

    fn unsupported(&mut self, request: String, errno: Errno) {
        self.tree.calls.unsupported(format!("{request} of a netlink socket"), errno);
    }
}
