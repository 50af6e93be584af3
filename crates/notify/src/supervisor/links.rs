//! Netlink sockets among stand-ins: what programs have written to them natively, what one sends to another, and those that are closed.
//!
//! Linux does what a program asks within its send. A native send is noticed a moment later; so whatever is asked by a call that is answered here is
//! answered behind it ([`Supervisor::serve_links`]).

use super::state::Supervisor;
use super::turn::Turn;
use crate::netlink::{self, Sender, Session, Written};
use crate::standin::Body;
use crate::standin::link::Link;
use crate::sys::{self, Errno};
use bytes::Bytes;
use std::os::fd::AsFd;

impl Supervisor {
    /// Serves what programs have written natively so far, and lets go of sockets that no program has any more: those first, as the others may want
    /// their numbers.
    pub(super) fn serve_links(&mut self, turn: &mut Turn<'_>) {
        if self.links.is_empty() {
            return;
        }
        let (gone, others): (Vec<_>, Vec<_>) = self.ready_links().into_iter().partition(|(_, events)| events & libc::POLLHUP != 0);
        for (key, _) in gone.into_iter().chain(others) {
            self.refresh(key);
            self.pump(key, false, turn);
            self.changed_for_others(key);
        }
    }

    /// The netlink sockets at whose end there is something.
    fn ready_links(&self) -> Vec<(usize, i16)> {
        let ends = |key: &usize| Some((*key, self.stand_ins.get(*key)?.ours.as_ref()?.as_fd()));
        let (keys, ends): (Vec<_>, Vec<_>) = self.links.iter().filter_map(ends).unzip();
        let events = sys::poll_all(&ends, libc::POLLIN);
        keys.into_iter().zip(events).filter(|(_, events)| *events != 0).collect()
    }

    /// Serves what the program wrote natively, and hands out what waits.
    pub(super) fn pump_link(&mut self, key: usize, turn: &mut Turn<'_>) {
        loop {
            let Some(one) = self.stand_ins.get_mut(key) else { return };
            let again = one.unsent.is_some();
            match netlink::take_written(one) {
                Written::Packet(packet, writer) => {
                    let writer = if again { self.link(key).map_or(0, |link| link.unsent_writer) } else { writer };
                    if self.send_written(key, packet.clone(), writer, again, turn) == Err(Errno(libc::EAGAIN)) {
                        // It goes on when there is room, and what is behind it waits in the stand-in.
                        if let Some(one) = self.stand_ins.get_mut(key) {
                            one.unsent = Some(packet);
                        }
                        if let Ok(link) = self.link(key) {
                            link.unsent_writer = writer;
                        }
                        break;
                    }
                    // Calls that wait here have not seen it.
                    self.changed_for_others(key);
                }
                Written::Nothing => break,
                Written::End => return self.over(key, turn),
            }
        }
        let Some(one) = self.stand_ins.get_mut(key) else { return };
        netlink::flush(one);
        let senders = netlink::take_senders(one);
        senders.into_iter().for_each(|sender| self.changed_for_others(sender));
        self.watch_room(key, turn);
    }

    /// Sends what a program has written natively. It hears of no refusal. `again`: it has waited for room before.
    fn send_written(&mut self, key: usize, packet: Bytes, writer: u32, again: bool, turn: &mut Turn<'_>) -> Result<usize, Errno> {
        let Some(one) = self.stand_ins.get(key) else { return Err(Errno(libc::EBADF)) };
        let writer = if writer == 0 { one.place.0 } else { writer };
        let process = self.process_number(key, writer, turn);
        let (to, group) = self.session(key)?.destination(None, 0, packet.len() as u64, process, true).map_err(Errno)?;
        let sender = self.sender(key, (to, group), writer)?;
        if !again {
            self.send_to_group(key, to, sender, &packet, turn)?;
        }
        self.send_link(key, to, sender, packet, turn).inspect_err(|errno| {
            if errno.0 == Session::NOBODY {
                self.calls.late_refusals += 1;
            }
        })
    }

    /// Sends a packet to another socket of a program's, or (0) asks the node, after the group that it is for has it.
    ///
    /// # Errors
    /// ECONNREFUSED: nobody takes it. EAGAIN: there is no room, and what waits at `key` is tried again when there is. EMSGSIZE: there never is.
    pub(crate) fn send_link(&mut self, key: usize, to: u32, from: Sender, packet: Bytes, turn: &mut Turn<'_>) -> Result<usize, Errno> {
        let bytes = packet.len();
        let sent = if to == 0 { self.ask(key, &packet, turn) } else { self.send_to(key, to, from, packet, turn) };
        sent.map(|()| bytes)
    }

    fn ask(&mut self, key: usize, packet: &[u8], turn: &mut Turn<'_>) -> Result<(), Errno> {
        let Supervisor { stand_ins, calls, .. } = self;
        let one = stand_ins.get_mut(key).ok_or(Errno(libc::EBADF))?;
        netlink::request(one, packet, turn.stack, calls);
        self.watch_room(key, turn);
        self.changed_for_others(key);
        Ok(())
    }

    /// netlink_unicast: "sk = netlink_getsockbyportid(ssk, portid);"
    fn send_to(&mut self, key: usize, to: u32, from: Sender, packet: Bytes, turn: &mut Turn<'_>) -> Result<(), Errno> {
        let protocol = self.session(key)?.protocol();
        let takes = |session: &Session| session.takes(protocol, to, from.number);
        let receiver = self.links_where(takes).next().filter(|key| !self.has_hung_up(*key)).ok_or(Errno(Session::NOBODY))?;
        let one = self.stand_ins.get_mut(receiver).ok_or(Errno(Session::NOBODY))?;
        let handed_on = netlink::hand_on(one, packet, from, Some(key));
        self.watch_room(receiver, turn);
        handed_on?;
        self.changed_for_others(receiver);
        Ok(())
    }

    /// Who sends at `key`, of a thread of the host's, to whom and to which group: scm_set_cred has the process, and its real user and group. The node does not
    /// look at them.
    ///
    /// # Errors
    /// EBADF: it is no netlink socket.
    pub(crate) fn sender(&mut self, key: usize, (to, group): (u32, u32), tid: u32) -> Result<Sender, Errno> {
        let credentials = match (to, group) {
            (0, 0) => [0; 3],
            _ => {
                let [user, of_user] = sys::owner_of(tid).unwrap_or_default();
                [sys::process_number(tid).unwrap_or(tid), user, of_user]
            }
        };
        Ok(Sender { number: self.session(key)?.number(), group, credentials })
    }

    /// netlink_broadcast: everybody else of a group (0: none). Who has no room is told so (netlink_overrun). netlink_sendmsg: "if (dst_group) { …;
    /// netlink_broadcast(sk, skb, dst_portid, dst_group, GFP_KERNEL); } err = netlink_unicast(…);", once, however often a send is tried.
    ///
    /// # Errors
    /// EBADF: it is no netlink socket.
    pub(crate) fn send_to_group(&mut self, key: usize, to: u32, from: Sender, packet: &Bytes, turn: &mut Turn<'_>) -> Result<(), Errno> {
        if from.group == 0 {
            return Ok(());
        }
        let protocol = self.session(key)?.protocol();
        let members: Vec<usize> =
            self.links_where(|session| session.is_member(protocol, from.group, to)).filter(|other| *other != key).collect();
        for other in members {
            let Some(one) = self.stand_ins.get_mut(other) else { continue };
            if netlink::hand_on(one, packet.clone(), from, None).is_err() {
                self.link(other)?.lost = true;
            }
            self.watch_room(other, turn);
            self.changed_for_others(other);
        }
        Ok(())
    }

    /// The netlink sockets of which this holds.
    fn links_where(&self, is: impl Fn(&Session) -> bool) -> impl Iterator<Item = usize> {
        let holds = move |key: &usize| matches!(self.stand_ins.get(*key).map(|one| &one.body), Some(Body::Netlink(link)) if is(&link.socket.session));
        self.links.iter().copied().filter(holds)
    }

    /// A netlink socket's state.
    ///
    /// # Errors
    /// EBADF: it is none.
    pub(crate) fn session(&mut self, key: usize) -> Result<&mut Session, Errno> {
        self.link(key).map(|link| &mut link.socket.session)
    }

    /// A netlink socket.
    ///
    /// # Errors
    /// EBADF: it is none.
    pub(crate) fn link(&mut self, key: usize) -> Result<&mut Link, Errno> {
        match self.stand_ins.get_mut(key).map(|one| &mut one.body) {
            Some(Body::Netlink(link)) => Ok(link),
            _ => Err(Errno(libc::EBADF)),
        }
    }

    fn has_hung_up(&self, key: usize) -> bool {
        let ours = self.stand_ins.get(key).and_then(|one| one.ours.as_ref());
        ours.is_none_or(|ours| sys::poll_now(ours.as_fd(), 0) & libc::POLLHUP != 0)
    }

    /// The first choice for a socket without a number: netlink_autobind takes that of the calling thread's process, "task_tgid_vnr(current)". A closed
    /// socket must not have it any more.
    pub(crate) fn process_number(&mut self, key: usize, tid: u32, turn: &mut Turn<'_>) -> u32 {
        let Ok(session) = self.session(key) else { return tid };
        if session.is_bound() {
            return session.number();
        }
        let protocol = session.protocol();
        let process = sys::process_number(tid).unwrap_or(tid);
        if self.netlink_ports.has(protocol, process) {
            let gone: Vec<usize> = self.links.iter().copied().filter(|other| *other != key && self.has_hung_up(*other)).collect();
            for other in gone {
                // Only those hold a number, and need none to be served.
                if self.session(other).is_ok_and(|session| session.is_bound()) {
                    self.refresh(other);
                    self.pump(other, false, turn);
                }
            }
        }
        process
    }
}
