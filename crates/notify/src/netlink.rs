//! AF_NETLINK sockets over a stand-in.
//!
//! A netlink socket is a SOCK_SEQPACKET stand-in; packets that do not fit wait here. Any program of the node may change its tables, as it may have raw
//! sockets: whoever runs programs on a stack of his own manages it. (In virtual worlds the program's identity decides.)

use crate::standin::link::Link;
use crate::standin::{Body, StandIn};
use crate::sys::{self, Packet};
use bytes::{Bytes, BytesMut};
use std::os::fd::AsFd;
use weft_core::engine::Alert;
use weft_intercept::calls::Calls;
use weft_intercept::face::{Errno, Stack};
use weft_intercept::netlink::{Node, PACKETS_BYTES_MAX, PACKETS_MAX, memory_of};

pub use weft_intercept::netlink::{Ports, Sender, Session, Socket};

/// Longest packet of a program; Linux knows SO_SNDBUF alone, which may be some MiB.
pub const PACKET_BYTES_MAX: usize = 1024 * 1024;
/// SO_SNDBUF of our end, which the kernel doubles: the longest packet of a program has room. While less than a quarter is taken, as SO_RCVBUF mostly
/// has it, each read of the program's tells that there is room (unix_writable).
pub const SEND_BUFFER_BYTES: i32 = PACKET_BYTES_MAX as i32;
/// Largest send buffer of the program's end.
pub const NATIVE_BUFFER_BYTES_MAX: usize = PACKET_BYTES_MAX + SEND_OVERHEAD_BYTES;
/// unix_dgram_sendmsg: "if (len > READ_ONCE(sk->sk_sndbuf) - 32) goto out;", EMSGSIZE.
const SEND_OVERHEAD_BYTES: usize = 32;

/// What a program has written natively.
pub enum Written {
    /// A packet, and the process that has written it; 0: nobody knows.
    Packet(Bytes, u32),
    /// Nothing more for now.
    Nothing,
    /// Nothing more: the program's end is closed.
    End,
}

/// Takes the next packet that the program wrote natively.
pub fn take_written(one: &mut StandIn) -> Written {
    if let Some(packet) = one.unsent.take() {
        return Written::Packet(packet, 0);
    }
    let Some(ours) = one.ours.as_ref().filter(|_| one.readable) else { return Written::Nothing };
    let mut buffer = BytesMut::new();
    // Nobody else reads here, so the next one is still the next one then.
    let received = sys::written_packet_bytes(ours.as_fd()).and_then(|bytes| {
        buffer.reserve(bytes.max(1));
        sys::receive_packet(ours.as_fd(), &mut buffer)
    });
    match received {
        Ok(Packet::Bytes(_, writer)) => Written::Packet(buffer.freeze(), writer),
        Err(Errno::EAGAIN) => {
            one.readable = false;
            Written::Nothing
        }
        Ok(Packet::End) | Err(_) => Written::End,
    }
}

/// Answers the requests of one packet, over the stand-in. The socket has its number.
pub fn request(one: &mut StandIn, packet: &[u8], stack: &mut dyn Stack, calls: &mut Calls) {
    let Body::Netlink(link) = &mut one.body else { return };
    let session = &mut link.socket.session;
    let mut packets = session.answers(packet, 0, true, &mut Node { stack, calls });
    // A stand-in is read natively, so nobody knows when the next one would come.
    packets.extend(std::iter::from_fn(|| session.next_part()));
    say(one, Sender::default(), packets);
}

/// Tells a program of changes that it wants to know of.
pub fn tell(one: &mut StandIn, alerts: &[Alert], stack: &mut dyn Stack, calls: &mut Calls) {
    for alert in alerts {
        let Body::Netlink(link) = &one.body else { return };
        if let Some((sender, packet)) = link.socket.session.notification(alert.name, &alert.value, &mut Node { stack, calls }) {
            say(one, sender, vec![packet]);
        }
    }
}

/// Forgets who has sent what the program has read natively, and tells who has sent what comes next.
pub fn next_sender(one: &mut StandIn, readable: usize) -> Sender {
    let waiting = one.leftover.len();
    match &mut one.body {
        Body::Netlink(link) => link.next_sender(readable, waiting),
        _ => Sender::default(),
    }
}

/// What the node says, all of it or nothing: the packets of a dump are one answer.
fn say(one: &mut StandIn, sender: Sender, packets: Vec<Vec<u8>>) {
    let Body::Netlink(link) = &mut one.body else { return };
    if one.leftover.len() + packets.len() > PACKETS_MAX || link.held_back > PACKETS_BYTES_MAX {
        link.lost = true;
        return;
    }
    for packet in packets {
        link.held_back += memory_of(packet.len());
        link.comes(sender, packet.len(), one.leftover.len());
        one.leftover.push_back(packet.into());
    }
    flush(one);
}

/// Hands a program what another one has sent to it.
///
/// # Errors
/// EAGAIN: there is no room, and `sender` waits for it, if there is one. EMSGSIZE: there never is, as net.core.wmem_max of the host is too small.
pub fn hand_on(one: &mut StandIn, packet: Bytes, from: Sender, sender: Option<usize>) -> Result<(), Errno> {
    let queued = queued(one);
    let (Some(ours), Body::Netlink(link)) = (&one.ours, &mut one.body) else { return Err(Errno(Session::NOBODY)) };
    let most = sys::int_option(ours.as_fd(), libc::SO_SNDBUF).and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0);
    if packet.len() > most.saturating_sub(SEND_OVERHEAD_BYTES) {
        return Err(Errno(libc::EMSGSIZE));
    }
    let has_room = link.socket.has_room(packet.len(), queued) && one.leftover.len() < PACKETS_MAX;
    if has_room {
        link.held_back += memory_of(packet.len());
        link.comes(from, packet.len(), one.leftover.len());
        one.leftover.push_back(packet);
    } else if let Some(sender) = sender {
        link.senders.insert(sender, packet.len());
    }
    flush(one);
    if has_room { Ok(()) } else { Err(Errno::EAGAIN) }
}

/// Those whose packets have room now, of the ones that wait to send here.
pub fn take_senders(one: &mut StandIn) -> Vec<usize> {
    let queued = queued(one);
    let Body::Netlink(link) = &mut one.body else { return Vec::new() };
    let Link { socket, senders, .. } = &mut **link;
    let fit: Vec<usize> = senders.iter().filter(|(_, bytes)| socket.has_room(**bytes, queued)).map(|(key, _)| *key).collect();
    senders.retain(|key, _| !fit.contains(key));
    one.wants_room = !one.leftover.is_empty() || !senders.is_empty();
    fit
}

/// The memory that unread packets take, in the stand-in and here.
pub fn queued(one: &StandIn) -> usize {
    let in_stand_in = one.ours.as_ref().map_or(0, |ours| sys::unread_memory(ours.as_fd()));
    match &one.body {
        Body::Netlink(link) => in_stand_in + link.held_back,
        _ => in_stand_in,
    }
}

/// Puts what waits into the stand-in, as far as it has room.
pub fn flush(one: &mut StandIn) {
    let (Some(ours), Body::Netlink(link)) = (&one.ours, &mut one.body) else { return };
    while let Some(packet) = one.leftover.front() {
        match sys::send_vectors(ours.as_fd(), &[packet], 0) {
            Err(Errno::EAGAIN) => {
                one.writable = false;
                break;
            }
            // Its end is closed, which its reading side tells.
            Err(_) => {
                one.leftover.clear();
                link.beside.clear();
                link.held_back = 0;
            }
            Ok(_) => {
                link.held_back -= memory_of(packet.len());
                one.leftover.pop_front();
            }
        }
    }
    one.wants_room = !one.leftover.is_empty() || !link.senders.is_empty();
}
