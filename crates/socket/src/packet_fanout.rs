//! Groups of packet sockets (PACKET_FANOUT): of each frame, one socket of a group hears.
//!
//! PACKET_FANOUT_FLAG_DEFRAG is taken, and pieces of a packet go to one socket by its addresses: nothing puts them together here.

use crate::errno::Errno;
use crate::memory::truesize;
use crate::packet_ring::{Room, flow_number};
use crate::packet_rollover::Rollover;
use crate::registry::Registry;
use crate::socket::Packet;
use crate::socket::{Socket, SocketId};
use weft_core::bpf::{About, Shared};
use weft_core::{Frame, Rng};

/// Bytes of `struct fanout_args`, and of those that say nothing of a bound.
pub(crate) const ARGUMENT_BYTES: usize = 8;
pub(crate) const SHORT_ARGUMENT_BYTES: usize = 4;
/// PACKET_FANOUT_MAX, and what is meant where nothing is said.
const MEMBERS_MAX: u32 = 1 << 16;
const MEMBERS_DEFAULT: u32 = 256;
/// PACKET_FANOUT_FLAG_ROLLOVER, _UNIQUEID and _IGNORE_OUTGOING, as a group keeps them.
const FLAG_ROLLOVER: u8 = 0x10;
const FLAG_UNIQUE_ID: u8 = 0x20;
const FLAG_IGNORES_OUTGOING: u8 = 0x40;
/// PACKET_FANOUT_*: by whom a frame is heard.
const BY_FLOW: u8 = 0;
const IN_TURN: u8 = 1;
const BY_PROCESSOR: u8 = 2;
const BY_ROOM: u8 = 3;
const BY_CHANCE: u8 = 4;
const BY_QUEUE: u8 = 5;
const BY_PROGRAM: u8 = 6;
const BY_EBPF: u8 = 7;

/// A group.
#[derive(Debug)]
pub(crate) struct Fanout {
    id: u16,
    kind: u8,
    flags: u8,
    /// What it hears: that of the socket that made it.
    pub protocol: u16,
    pub interface: u32,
    members_max: u32,
    /// Sockets that belong to it.
    sockets: u32,
    /// Those of them that hear.
    members: Vec<SocketId>,
    turn: u32,
    program: Option<Shared>,
}
weft_core::fields!(struct Fanout { id, kind, flags, protocol, interface, members_max, sockets, members, turn, program });

/// All groups of a node.
#[derive(Debug, Default)]
pub(crate) struct Fanouts {
    groups: Vec<Fanout>,
    /// Where a number of its own is looked for.
    next_id: u16,
}
weft_core::fields!(struct Fanouts { groups, next_id });

/// A frame on its way to a group, as its program would see it.
pub(crate) struct Passing<'a> {
    pub frame: &'a Frame,
    pub about: &'a About,
    /// Bytes of its link header.
    pub header: usize,
}

impl Fanout {
    pub fn ignores_outgoing(&self) -> bool {
        self.flags & FLAG_IGNORES_OUTGOING != 0
    }

    /// `packet_rcv_fanout`: who hears this frame.
    pub fn choose(&mut self, passing: &Passing<'_>, sockets: &mut Registry, rng: &mut Rng) -> Option<SocketId> {
        let count = u32::try_from(self.members.len()).ok().filter(|count| *count > 0)?;
        let flow = || flow_number(passing.frame, passing.header, passing.about.protocol);
        let index = match self.kind {
            // "return reciprocal_scale(__skb_get_hash_symmetric(skb), num);"
            BY_FLOW => ((u64::from(flow()) * u64::from(count)) >> 32) as u32,
            IN_TURN => {
                self.turn = self.turn.wrapping_add(1);
                self.turn % count
            }
            BY_CHANCE => rng.below(count.into()) as u32,
            BY_PROGRAM => self.program.as_ref().map_or(0, |program| program.run_about(passing.frame, passing.about)) % count,
            BY_ROOM => self.with_room(0, false, passing, sockets, rng),
            // There is one processor and one queue; nobody has a program of eBPF.
            _ => 0,
        };
        let index = if self.flags & FLAG_ROLLOVER != 0 { self.with_room(index, true, passing, sockets, rng) } else { index };
        self.members.get(index as usize).copied()
    }

    /// `fanout_demux_rollover`: a member that has room. `tries`: the one at `index` comes first.
    fn with_room(&self, index: u32, tries: bool, passing: &Passing<'_>, sockets: &mut Registry, rng: &mut Rng) -> u32 {
        let count = self.members.len() as u32;
        let bytes = passing.frame.len();
        let member = |index: u32| self.members.get(index as usize).copied();
        let room =
            |sockets: &Registry, index: u32| member(index).and_then(|s| sockets.get(s).ok()).map_or(Room::None, |one| room(one, bytes));
        let Some(one) = member(index) else { return index };
        let mut own = Room::None;
        if tries {
            own = room(sockets, index);
            let flow = flow_number(passing.frame, passing.header, passing.about.protocol);
            if own == Room::Normal || own == Room::Low && !rollover(sockets, one).is_some_and(|rollover| rollover.is_huge(flow, rng)) {
                return index;
            }
        }
        let first = rollover(sockets, one).map_or(0, |rollover| rollover.next).min(count.saturating_sub(1));
        for step in 0..count {
            let at = (first + step) % count.max(1);
            if !(tries && at == index) && room(sockets, at) == Room::Normal {
                if let Some(rollover) = rollover(sockets, one) {
                    rollover.next = at;
                    rollover.counts[0] += 1;
                    rollover.counts[1] += u64::from(own == Room::Low);
                }
                return at;
            }
        }
        if let Some(rollover) = rollover(sockets, one) {
            rollover.counts[2] += 1;
        }
        index
    }
}

fn rollover(sockets: &mut Registry, s: SocketId) -> Option<&mut Rollover> {
    sockets.store.get_mut(s)?.packet_mut()?.rollover.as_deref_mut()
}

/// `__packet_rcv_has_room`
fn room(socket: &Socket, bytes: usize) -> Room {
    let Some(packet) = socket.packet() else { return Room::None };
    packet.rings.room().unwrap_or_else(|| {
        let most = socket.options.receive_buffer as usize;
        match most.checked_sub(packet.queue.queued_truesize + truesize(bytes)) {
            Some(left) if left > most >> 2 => Room::Normal,
            Some(left) if left > 0 => Room::Low,
            _ => Room::None,
        }
    })
}

impl Fanouts {
    fn find(&mut self, id: u16) -> Option<&mut Fanout> {
        self.groups.iter_mut().find(|group| group.id == id)
    }

    /// The group of a socket.
    pub fn of(&mut self, packet: &Packet) -> Option<&mut Fanout> {
        self.find(packet.fanout?)
    }

    /// getsockopt(2): number, kind and flags; 0: it is in none.
    pub fn told(&mut self, packet: &Packet) -> i32 {
        self.of(packet).map_or(0, |group| i32::from(group.id) | i32::from(group.kind) << 16 | (u32::from(group.flags) << 24) as i32)
    }

    fn unused(&mut self) -> Option<u16> {
        let from = self.next_id;
        let free = (0..=u16::MAX).map(|step| from.wrapping_add(step)).find(|id| self.find(*id).is_none())?;
        self.next_id = free.wrapping_add(1);
        Some(free)
    }

    /// `fanout_add`. `hears`: the socket does.
    pub fn add(&mut self, packet: &mut Packet, s: SocketId, hears: bool, arguments: &[u8]) -> Result<(), Errno> {
        let &[i0, i1, kind, flags, ref more @ ..] = arguments else { return Err(Errno::EINVAL) };
        let mut id = u16::from_ne_bytes([i0, i1]);
        let most = more.first_chunk::<4>().map_or(0, |most| u32::from_ne_bytes(*most));
        let known = matches!(kind, BY_FLOW | IN_TURN | BY_PROCESSOR | BY_ROOM | BY_CHANCE | BY_QUEUE | BY_PROGRAM | BY_EBPF);
        if !known || kind == BY_ROOM && flags & FLAG_ROLLOVER != 0 {
            return Err(Errno::EINVAL);
        }
        if packet.fanout.is_some() {
            return Err(Errno::EALREADY);
        }
        if flags & FLAG_UNIQUE_ID != 0 {
            if id != 0 {
                return Err(Errno::EINVAL);
            }
            id = self.unused().ok_or(Errno::ENOMEM)?;
        }
        // "ephemeral flag for the first socket in the group: drop it"
        let flags = flags & !FLAG_UNIQUE_ID;
        let at = self.groups.iter().position(|group| group.id == id);
        let known = at.and_then(|at| self.groups.get(at));
        let bad = match known {
            Some(group) => group.flags != flags || most != 0 && most != group.members_max,
            None => most > MEMBERS_MAX,
        };
        // "if (po->running && match->type == type && match->prot_hook.type == po->prot_hook.type && match->prot_hook.dev == po->prot_hook.dev)"
        let wanted = (kind, packet.protocol, packet.interface);
        if bad || !hears || known.is_some_and(|group| (group.kind, group.protocol, group.interface) != wanted) {
            return Err(Errno::EINVAL);
        }
        if known.is_some_and(|group| group.sockets >= group.members_max) {
            return Err(Errno::ENOSPC);
        }
        if known.is_none() {
            self.groups.push(Fanout {
                id,
                kind,
                flags,
                protocol: packet.protocol,
                interface: packet.interface,
                members_max: if most == 0 { MEMBERS_DEFAULT } else { most },
                sockets: 0,
                members: Vec::new(),
                turn: 0,
                program: None,
            });
        }
        packet.fanout = Some(id);
        packet.rollover = (kind == BY_ROOM || flags & FLAG_ROLLOVER != 0).then(Box::default);
        if let Some(group) = self.find(id) {
            group.sockets += 1;
            group.members.push(s);
        }
        Ok(())
    }

    /// `fanout_set_data`: "default: return -EINVAL;". Nobody has a program of eBPF.
    pub fn takes_program(&mut self, packet: &Packet) -> bool {
        self.of(packet).is_some_and(|group| group.kind == BY_PROGRAM)
    }

    /// PACKET_FANOUT_DATA: a program that chooses.
    pub fn set_program(&mut self, packet: &Packet, program: Shared) -> Result<(), Errno> {
        match self.of(packet) {
            Some(group) if group.kind == BY_PROGRAM => {
                group.program = Some(program);
                Ok(())
            }
            _ => Err(Errno::EINVAL),
        }
    }

    /// `__fanout_link`: a socket hears from now on.
    pub fn link(&mut self, packet: &Packet, s: SocketId) {
        if let Some(group) = self.of(packet)
            && !group.members.contains(&s)
        {
            group.members.push(s);
        }
    }

    /// `__fanout_unlink`: it does not any more; the last one takes its place.
    pub fn unlink(&mut self, s: SocketId) {
        for group in &mut self.groups {
            if let Some(at) = group.members.iter().position(|one| *one == s) {
                group.members.swap_remove(at);
            }
        }
    }

    /// `fanout_release`: a socket is closed.
    pub fn release(&mut self, packet: &Packet) {
        let Some(group) = self.of(packet) else { return };
        group.sockets = group.sockets.saturating_sub(1);
        self.groups.retain(|group| group.sockets > 0);
    }

    pub fn members(&self) -> impl Iterator<Item = &SocketId> {
        self.groups.iter().flat_map(|group| &group.members)
    }
}
