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
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use weft_core::engine::Alert;
use weft_intercept::face::{Poll, SocketId};
use weft_intercept::memory::Memory;
use weft_intercept::netlink::{Node, PACKETS_BYTES_MAX, Sender, Session, Socket};
use weft_intercept::socket_calls::{Carrier, Limit, Message, Taken};
use weft_intercept::sys::{self, Errno};
use weft_loader::calls::requests;

impl Tree {
    /// Whoever listens from now on hears nothing of what was before.
    fn forget_alerts(&self, outside: &mut dyn Outside) {
        if self.objects.links().filter(|link| link.socket.session.listens()).count() <= 1 {
            outside.stack().take_alerts();
        }
    }

    /// Blocks may have alerted of something since the last turn.
    pub(super) fn take_alerts(&mut self, outside: &mut dyn Outside) {
        if self.objects.links().any(|link| link.socket.session.listens()) {
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
                if let Some((sender, packet)) = link.socket.session.notification(alert.name, &alert.value, node) {
                    link.queue(sender, vec![packet]);
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
    /// The socket that has no room for what is sent.
    pub full: Option<u64>,
    /// The next message has waited for room before: the group that it is for has it.
    pub again: bool,
}

impl PostedLink<'_> {
    fn link(&mut self) -> Result<&mut Link, Errno> {
        match self.tree.objects.body_mut(self.posted.inode()) {
            Some(Body::Link(link)) => Ok(link),
            _ => Err(Errno(libc::EBADF)),
        }
    }

    /// netlink_broadcast: everybody else of the group. Who has no room is told so (netlink_overrun).
    fn send_to_group(&mut self, protocol: i32, from: Sender, to: u32, data: &[u8]) {
        self.tree.objects.change_links(|link| {
            let session = &link.socket.session;
            let hears = session.number() != from.number && session.is_member(protocol, from.group, to);
            if hears && !link.queue_of_program(from, data) {
                link.lost = true;
            }
            hears
        });
    }

    /// netlink_unicast to a program's socket: "ssk = netlink_getsockbyportid(ssk, portid); … -ECONNREFUSED". Without room there the sender waits.
    fn send_to(&mut self, protocol: i32, from: Sender, to: u32, data: &[u8]) -> Result<usize, Errno> {
        let found = self.tree.objects.find_link(|link| link.socket.session.takes(protocol, to, from.number));
        let (inode, link) = found.ok_or(Errno(Session::NOBODY))?;
        if !link.queue_of_program(from, data) {
            self.full = Some(inode);
            return Err(Errno(libc::EAGAIN));
        }
        self.tree.objects.note_change(inode, Poll::WAKES_READERS);
        Ok(data.len())
    }

    /// May the program change the node's tables, and send to others? In real time whoever runs programs on a stack of his own manages it.
    fn manages(&self) -> bool {
        self.tree.real.is_some() || self.tree.manages_network(self.thread)
    }

    /// The node's answers to a program's requests wait for it.
    fn ask(&mut self, data: &[u8], pid: u32, manages: bool) -> Result<usize, Errno> {
        let inode = self.posted.inode();
        let Tree { objects, calls, .. } = &mut *self.tree;
        let Some(Body::Link(link)) = objects.body_mut(inode) else { return Err(Errno(libc::EBADF)) };
        let packets = link.socket.session.answers(data, pid, manages, &mut Node { stack: self.outside.stack(), calls });
        link.queue(Sender::default(), packets);
        self.tree.objects.note_change(inode, Poll::WAKES_READERS);
        let alerts = self.outside.stack().take_alerts();
        self.tree.tell_alerts(&alerts, self.outside);
        Ok(data.len())
    }

    /// scm_set_cred: "scm_set_cred(scm, task_tgid(current), current_uid(), current_gid())", real ones.
    fn credentials(&self, pid: u32) -> Result<[u32; 3], Errno> {
        let [user, group] = match self.tree.real {
            Some(_) => sys::owner_of(pid).unwrap_or_default(),
            None => {
                let slot = self.tree.arena.process(self.tree.tasks.process_of(self.thread)?);
                [slot.users[0].load(Relaxed), slot.groups[0].load(Relaxed)]
            }
        };
        Ok([pid, user, group])
    }

    /// net/core/scm.c, scm_check_creds: may a program say that it is process, user and group `said`? In real time whoever has a stack of his own manages it.
    fn may_be(&self, own: [u32; 3], said: [u32; 3]) -> bool {
        const CAP_SETGID: u32 = 6;
        const CAP_SETUID: u32 = 7;
        const CAP_SYS_ADMIN: u32 = 21;
        if self.tree.real.is_some() {
            return true;
        }
        let Ok(process) = self.tree.tasks.process_of(self.thread) else { return false };
        let slot = self.tree.arena.process(process);
        let has = |capability| self.tree.arena.may(process, capability);
        // Real, effective and saved ones.
        let among = |ids: &[AtomicU32; 4], id: u32| ids[..3].iter().any(|own| own.load(Relaxed) == id);
        (said[0] == own[0] || has(CAP_SYS_ADMIN))
            && (among(&slot.users, said[1]) || has(CAP_SETUID))
            && (among(&slot.groups, said[2]) || has(CAP_SETGID))
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
        let link = self.link()?;
        let options = &link.socket.options;
        let time = if limit == Limit::Send { options.send_limit } else { options.receive_limit };
        // The limit is that of the call's beginning.
        let deadline = match (began, time) {
            (Some(deadline), _) => deadline,
            (None, Some(time)) if time.is_zero() => return Err(Errno(otherwise)),
            (None, time) => time.map(|time| self.tree.after(time)),
        };
        // sock_intr_errno: "timeo == MAX_SCHEDULE_TIMEOUT ? -ERESTARTSYS : -EINTR".
        let interrupted = if deadline.is_none() { weft_loader::abi::RESTART } else { -i64::from(libc::EINTR) };
        // Who sends holds his own socket, and waits at the other one, which may be closed meanwhile.
        let full = self.full.filter(|_| limit == Limit::Send);
        let objects = [self.posted.inode()].into_iter().chain(full).collect();
        Ok(Outcome::Wait(Wait { objects, for_room: full.is_some(), deadline, interrupted, ..Wait::default() }))
    }
    fn has_waited(&self) -> bool {
        self.tree.tasks.threads.get(&self.thread).is_some_and(|one| one.held)
    }

    fn bind(&mut self, address: &[u8]) -> Result<(), Errno> {
        let pid = self.pid()?;
        let bound = self.link()?.socket.session.bind(address, pid).map_err(Errno);
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
        Ok(self.link()?.socket.session.name())
    }
    fn peer_address(&mut self) -> Result<Vec<u8>, Errno> {
        Ok(self.link()?.socket.session.peer_name())
    }
    fn connect(&mut self, address: &[u8]) -> Result<(), Errno> {
        let (pid, manages) = (self.pid()?, self.manages());
        self.link()?.socket.session.connect(address, pid, manages).map_err(Errno)
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

    fn get_option(&mut self, level: i32, name: i32, _asked: &[u8], length: i32) -> Result<Option<Vec<u8>>, Errno> {
        let Some(Body::Link(link)) = self.tree.objects.body_mut(self.posted.inode()) else { return Err(Errno(libc::EBADF)) };
        // sock_error: it is told once.
        if (level, name) == (libc::SOL_SOCKET, libc::SO_ERROR) && length >= 0 && std::mem::take(&mut link.lost) {
            return Ok(Some(libc::ENOBUFS.to_ne_bytes().to_vec()));
        }
        link.socket.option(level, name, length, link.queued(), self.outside.stack()).map(Some)
    }
    fn option_bytes(&mut self, _: i32, _: i32, length: usize) -> usize {
        length
    }
    fn set_option(&mut self, level: i32, name: i32, value: &[u8]) -> Result<bool, Errno> {
        let Some(Body::Link(link)) = self.tree.objects.body_mut(self.posted.inode()) else { return Err(Errno(libc::EBADF)) };
        let set = link.socket.set_option(level, name, value, self.outside.stack());
        if level != libc::SOL_SOCKET {
            self.tree.forget_alerts(self.outside);
        }
        set.map(|()| true)
    }
    fn ioctl(&mut self, request: u32) -> Result<Option<Vec<u8>>, Errno> {
        if requests::is_about_owner(request) {
            return Ok(Some(Vec::new()));
        }
        // netlink_ioctl: "try to hand this ioctl down to the NIC drivers. return -ENOIOCTLCMD;", of which dev_ioctl makes this.
        self.tree.calls.unsupported(format!("ioctl {request:#x}"), Errno(libc::ENOTTY));
        Err(Errno(libc::ENOTTY))
    }
    fn about_interfaces(&mut self, request: u32, pointer: u64) -> Result<(), Errno> {
        self.tree.about_interfaces(self.thread, request, pointer, self.caller, None, self.outside)
    }

    /// A program asks, or sends to others of its kind.
    fn send(&mut self, message: &Message, name: Option<&[u8]>, control: &[u8], flags: i32) -> Result<usize, Errno> {
        let (pid, manages) = (self.pid()?, self.manages());
        let Some(Body::Link(link)) = self.tree.objects.body_mut(self.posted.inode()) else { return Err(Errno(libc::EBADF)) };
        let session = &mut link.socket.session;
        let (to, group) = session.destination(name, flags, message.total, pid, manages).map_err(Errno)?;
        let (protocol, number) = (session.protocol(), session.number());
        let data = link.socket.gather(self.caller, message, PACKETS_BYTES_MAX)?;
        // The node itself does not look at them.
        let own = if (to, group) == (0, 0) && control.is_empty() { [0; 3] } else { self.credentials(pid)? };
        let from = Sender { number, group, credentials: Socket::credentials(control, own, |said| self.may_be(own, said))? };
        // netlink_sendmsg: "if (dst_group) { …; netlink_broadcast(sk, skb, dst_portid, dst_group, GFP_KERNEL); } err = netlink_unicast(…);"
        let again = std::mem::take(&mut self.again);
        if group != 0 && !again {
            self.send_to_group(protocol, from, to, &data);
        }
        if to == 0 { self.ask(&data, pid, manages) } else { self.send_to(protocol, from, to, &data) }
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
        let (from, packet) = link.peek().ok_or(Errno(libc::EAGAIN))?;
        let room = usize::try_from(bytes).unwrap_or(usize::MAX).min(packet.len());
        let (data, length) = (Bytes::copy_from_slice(&packet[..room]), packet.len());
        let (from, control) = (from.name(), link.socket.control(from));
        if flags & libc::MSG_PEEK == 0 {
            link.drop_first();
            // netlink_rcv_wake: "if (!test_bit(NETLINK_S_CONGESTED, &nlk->state)) wake_up_interruptible(&nlk->wait);"
            self.tree.objects.note_room(self.posted.inode());
        }
        // netlink_recvmsg: "if (READ_ONCE(nlk->cb_running) && atomic_read(&sk->sk_rmem_alloc) <= sk->sk_rcvbuf / 2) { ret = netlink_dump(sk, false); …"
        if self.link()?.goes_on() {
            self.tree.objects.note_change(self.posted.inode(), Poll::WAKES_READERS);
        }
        Ok(Taken { data, length, from, control, ..Taken::default() })
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
