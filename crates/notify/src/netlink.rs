//! AF_NETLINK sockets over a stand-in.
//!
//! A netlink socket is a SOCK_SEQPACKET stand-in; packets that do not fit wait here. Any program of the node may change its tables, as it may have raw
//! sockets: whoever runs programs on a stack of his own manages it. (In virtual worlds the program's identity decides.)

use crate::standin::{Body, StandIn};
use crate::sys::{self, Packet};
use bytes::{Bytes, BytesMut};
use std::os::fd::AsFd;
use weft_core::engine::Alert;
use weft_intercept::calls::Calls;
use weft_intercept::face::{Errno, Stack};
use weft_intercept::netlink::{Node, PACKETS_MAX};

pub use weft_intercept::netlink::{KERNEL_NAME, Ports, Session};

/// Serves what programs wrote natively, and hands out what waits. True: the program's end is closed.
pub fn serve(one: &mut StandIn, stack: &mut dyn Stack, calls: &mut Calls) -> bool {
    let mut buffer = BytesMut::with_capacity(64 * 1024);
    while one.readable {
        let Some(ours) = &one.ours else { return false };
        buffer.clear();
        match sys::receive_packet(ours.as_fd(), &mut buffer) {
            Ok(Packet::Bytes(..)) => {
                let tid = one.place.0;
                request(one, &buffer, tid, stack, calls);
            }
            Ok(Packet::End) => return true,
            Err(Errno::EAGAIN) => one.readable = false,
            Err(_) => return true,
        }
    }
    flush(one);
    false
}

/// Answers the requests of one packet, over the stand-in.
pub fn request(one: &mut StandIn, packet: &[u8], tid: u32, stack: &mut dyn Stack, calls: &mut Calls) {
    let Body::Netlink(session) = &mut one.body else { return };
    let packets = session.answers(packet, tid, true, &mut Node { stack, calls });
    let room = PACKETS_MAX.saturating_sub(one.leftover.len());
    one.leftover.extend(packets.into_iter().take(room).map(Bytes::from));
    flush(one);
}

/// Hands a program what another one has sent to it.
pub fn hand_on(one: &mut StandIn, packet: Bytes) {
    if one.leftover.len() < PACKETS_MAX {
        one.leftover.push_back(packet);
    }
    flush(one);
}

/// Tells a program of changes that it wants to know of.
pub fn tell(one: &mut StandIn, alerts: &[Alert], stack: &mut dyn Stack, calls: &mut Calls) {
    let Body::Netlink(session) = &one.body else { return };
    for alert in alerts {
        let packet = session.notification(alert.name, &alert.value, &mut Node { stack, calls });
        if let Some(packet) = packet.filter(|_| one.leftover.len() < PACKETS_MAX) {
            one.leftover.push_back(packet.into());
        }
    }
    flush(one);
}

/// Puts what waits into the stand-in, as far as it has room.
pub fn flush(one: &mut StandIn) {
    let Some(ours) = &one.ours else { return };
    while let Some(packet) = one.leftover.front() {
        match sys::send_vectors(ours.as_fd(), &[packet], 0) {
            Err(Errno::EAGAIN) => {
                one.writable = false;
                break;
            }
            // Its end is closed, which its reading side tells.
            Err(_) => one.leftover.clear(),
            Ok(_) => drop(one.leftover.pop_front()),
        }
    }
    one.wants_room = !one.leftover.is_empty();
}
