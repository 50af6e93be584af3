//! What a fuzzer runs, and `cargo test` with the corpus (`fuzz/corpus`): a whole node that takes whatever comes. Not part of the interface.

use crate::{Node, Stack};
use std::sync::LazyLock;
use weft_core::table::{Interface, LinkType};
use weft_core::{Bytes, Duration, Frame, Instant, InterfaceIndex, Message, Op, Table};
use weft_wire::{checksum, ipv4};

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// Bytes of Ethernet header.
const LINK: usize = 14;

static STACK: LazyLock<Stack> = LazyLock::new(|| {
    let text = "[[interface]]\nname = \"eth0\"\nbackend = \"memory:a\"\n[[address]]\ninterface = \"eth0\"\naddress = \"10.0.0.1/24\"\n\
                [[address]]\ninterface = \"eth0\"\naddress = \"fd77::1/64\"\n[block.ip4]\nforward = true\n[block.tcp]\nfastopen = 1027\n";
    Stack::parse("fuzzing", text).unwrap_or_else(|error| unreachable!("the built-in stack file is sound: {error}"))
});

/// Frames, each after two bytes that say what to do with it: the first how long it is (in fours) or, with its top bit, that time passes; the second
/// what is made right (bit 0: the link header, bit 1: checksums, bit 2: IP's length), and how much of it lies in the head. A listener, a datagram
/// socket and a raw socket of each family are open.
///
/// # Panics
/// When the node does, or holds more than it may.
pub fn node(bytes: &[u8]) {
    let mut now = Instant::from_millis(1);
    let Some(mut node) = open(now) else { return };
    let mut rest = bytes;
    while let [what, how, tail @ ..] = rest {
        if what & 0x80 != 0 {
            now += Duration::from_millis(1 << (what & 15));
            node.run(now);
            rest = &rest[1..];
        } else {
            let length = (usize::from(*what) * 4).min(tail.len());
            let mut frame = tail[..length].to_vec();
            repair(&mut frame, *how);
            let at = (usize::from(how >> 3) * 8).min(frame.len());
            let mut ingress = Frame::ingress_parts(&frame[..at], Bytes::copy_from_slice(&frame[at..]));
            ingress.meta_mut().interface = InterfaceIndex(2);
            node.receive(now, [ingress]);
            rest = &tail[length..];
        }
        for mut frame in node.take_transmit().collect::<Vec<_>>() {
            if let Some(completion) = frame.take_completion() {
                node.transmitted(now, completion);
            }
        }
    }
    for table in [Table::Flows, Table::Sockets] {
        let reply = node.control(now, &Message { serial: 1, op: Op::List(table) });
        let rows = reply.result.unwrap_or_default();
        assert!(rows.as_array().is_some_and(|rows| rows.len() <= 2048 + 16), "too many rows in {table:?}");
    }
    // Whatever was begun has its timeout.
    now += Duration::from_secs(600);
    node.run(now);
}

fn open(now: Instant) -> Option<Node> {
    let mut node = Node::new(&STACK, 1).ok()?;
    let interface = Interface {
        index: InterfaceIndex::NONE,
        name: "eth0".to_owned(),
        mac: MAC,
        mtu: 1500,
        up: true,
        carrier: true,
        link: LinkType::Ethernet,
        group: 0,
        gso_max_bytes: 0,
        checksum_offload: false,
        backend: "memory:a".to_owned(),
    };
    node.add_interface(now, &interface).ok()?;
    node.configure(now, &STACK).ok()?;
    node.sockets(now, |sockets, cx| {
        for family in [2_i32, 10] {
            let mut name = (family as u16).to_ne_bytes().to_vec();
            name.extend_from_slice(&80_u16.to_be_bytes());
            name.resize(if family == 2 { 16 } else { 28 }, 0);
            for (kind, protocol) in [(1, 0), (2, 0), (3, 17)] {
                let Ok(socket) = sockets.socket(family, kind, protocol, cx) else { continue };
                // IPV6_V6ONLY: both families have the port.
                let _ = sockets.set_option(socket, 41, 26, &1_i32.to_ne_bytes(), cx);
                let _ = sockets.bind(socket, &name, cx);
                let _ = sockets.listen(socket, 8, cx);
            }
        }
    })?;
    Some(node)
}

/// Makes right what the input says, so that a fuzzer need not guess sums.
fn repair(frame: &mut [u8], how: u8) {
    if how & 1 != 0 && frame.len() >= LINK {
        frame[..6].copy_from_slice(&MAC);
        let version = frame.get(LINK).map_or(0, |first| first >> 4);
        frame[12..LINK].copy_from_slice(if version == 6 { &[0x86, 0xdd] } else { &[8, 0] });
    }
    let Some(packet) = frame.get_mut(LINK..) else { return };
    let length = packet.len();
    match packet.first().map(|first| first >> 4) {
        Some(4) if length >= 20 => repair_v4(packet, how),
        Some(6) if length >= 40 => {
            if how & 4 != 0 {
                packet[4..6].copy_from_slice(&((length - 40) as u16).to_be_bytes());
            }
            let (addresses, body) = packet.split_at_mut(40);
            if how & 2 != 0 {
                let protocol = addresses[6];
                transport(&addresses[8..40], protocol, body);
            }
        }
        _ => {}
    }
}

fn repair_v4(packet: &mut [u8], how: u8) {
    let length = packet.len();
    if how & 4 != 0 {
        packet[2..4].copy_from_slice(&(length as u16).to_be_bytes());
    }
    let header = (usize::from(packet[0] & 15) * 4).clamp(ipv4::HEADER_LEN, length);
    if how & 2 != 0 {
        packet[10..12].fill(0);
        let sum = checksum::of(&packet[..header]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        let protocol = packet[9];
        let total = usize::from(u16::from_be_bytes([packet[2], packet[3]])).clamp(header, length);
        let (head, body) = packet[..total].split_at_mut(header);
        transport(&head[12..20], protocol, body);
    }
}

fn transport(addresses: &[u8], protocol: u8, body: &mut [u8]) {
    let (at, pseudo) = match protocol {
        6 => (16, true),
        17 => (6, true),
        58 => (2, true),
        1 | 2 => (2, false),
        _ => return,
    };
    if body.len() < at + 2 {
        return;
    }
    body[at..at + 2].fill(0);
    let mut sum = checksum::Sum::new().add_bytes(body);
    if pseudo {
        sum = sum.add_bytes(addresses).add_u16(u16::from(protocol)).add_u16(body.len() as u16);
    }
    body[at..at + 2].copy_from_slice(&sum.finish().to_be_bytes());
}
