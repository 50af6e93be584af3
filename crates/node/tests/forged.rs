//! State that was changed on purpose, under a good checksum: every block of a node refuses it or takes it, and neither does harm.

use crate::common;

use common::{AF_INET, AF_INET6, Fate, Pair, SOCK_DGRAM, address, address6, is_last_fragment};
use std::net::Ipv6Addr;
use std::time::Duration;
use weft_core::control::{Message, Op};
use weft_core::{Block, Bytes, Instant, Rng, Selector, State, Value, parameter};
use weft_node::block_table;
use weft_socket::Sockets;
use xxhash_rust::xxh3::xxh3_64;

const ROUNDS: usize = 4000;
/// With a checksum at the end of their bytes; the others are refused by what they are alone.
const SUMMED: &[&str] = &["sockets", "ip4", "ip6", "icmp4", "icmp6", "udp", "ether", "arp", "nd", "igmp", "mld"];
const OTHERS: &[&str] = &["interfaces"];

/// A node with connections, data in queues, datagrams, fragments that wait, an error, a group, raw sockets and neighbours.
fn busy() -> Pair {
    let mut pair = Pair::new(0, "").with_wire(Duration::ZERO, |_, frame| if is_last_fragment(frame) { Fate::Lose } else { Fate::Pass });
    pair.pass(Duration::from_secs(3));
    let (client, server) = pair.connect();
    for side in [client, server] {
        let on = usize::from(side == server);
        let _ = pair.call(on, |sockets, cx| sockets.send(side, Bytes::from(vec![7; 50_000]), 0, None, &[], cx));
    }
    for host in [1u8, 2] {
        let to = address(3 - host, 5000);
        pair.call(usize::from(host - 1), |sockets, cx| {
            let datagrams = sockets.socket(AF_INET, SOCK_DGRAM, 0, cx).unwrap();
            sockets.bind(datagrams, &address(host, 5000), cx).unwrap();
            sockets.set_option(datagrams, 0, 11, &1i32.to_ne_bytes(), cx).unwrap();
            sockets.set_option(datagrams, 0, 35, &[224, 0, 0, 99, 10, 0, 0, host], cx).unwrap();
            let six = sockets.socket(AF_INET6, SOCK_DGRAM, 0, cx).unwrap();
            sockets.bind(six, &address6(Ipv6Addr::UNSPECIFIED, 5001, 0), cx).unwrap();
            sockets.socket(AF_INET, 3, 1, cx).unwrap();
            let to_six = address6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, u16::from(3 - host)), 5001, 0);
            sockets.send(six, Bytes::from(vec![3; 4000]), 0, Some(&to_six), &[], cx).unwrap();
            for (port, size) in [(5000, 9), (5000, 1400), (7777, 20), (5000, 4000)] {
                let mut to = to.clone();
                to[2..4].copy_from_slice(&u16::to_be_bytes(port));
                let _ = sockets.send(datagrams, Bytes::from(vec![3; size]), 0, Some(&to), &[], cx);
            }
        });
    }
    pair.pass(Duration::from_millis(5));
    for kind in ["ip4", "ip6"] {
        let arguments = serde_json::json!({"fwmark": 7, "iif": "eth9", "sport": "1-9", "action": "goto", "target": 32_766});
        let op = Op::Exec { target: Selector::parse(kind), procedure: "rule_add".to_owned(), arguments };
        pair.nodes[0].control(pair.now, &Message { serial: 1, op }).result.unwrap();
        let op = Op::Exec { target: Selector::parse(kind), procedure: "memory".to_owned(), arguments: Value::Null };
        let held = pair.nodes[0].control(pair.now, &Message { serial: 1, op }).result.unwrap();
        assert_eq!(held[kind]["fragment_packets"], 1, "fragments wait at {kind}");
    }
    pair
}

fn made(kind: &str) -> Box<dyn Block> {
    let table = block_table();
    let row = table.get(kind).unwrap();
    let mut config = parameter::complete(kind, row.kind, &Default::default(), Rng::for_name(3, kind)).unwrap();
    (row.make)(&mut config).unwrap()
}

/// Some bytes are others, gone or twice; the checksum is right again.
fn forged(state: &State, summed: bool, rng: &mut Rng) -> State {
    let mut bytes = state.bytes.clone();
    if summed {
        bytes.truncate(bytes.len() - 8);
    }
    for _ in 0..1 + rng.below(3) {
        let at = rng.below(bytes.len().max(1) as u64) as usize;
        match rng.below(4) {
            0 if at < bytes.len() => bytes[at] ^= 1 << rng.below(8),
            1 if at < bytes.len() => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][rng.below(5) as usize],
            2 => drop(bytes.drain(at..(at + 1 + rng.below(4) as usize).min(bytes.len()))),
            _ => bytes.insert(at.min(bytes.len()), rng.u32() as u8),
        }
    }
    if summed {
        let sum = xxh3_64(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
    }
    State { bytes, ..state.clone() }
}

#[test]
fn forged_state_does_no_harm() {
    let mut pair = busy();
    let now = pair.now;
    for (kinds, summed) in [(SUMMED, true), (OTHERS, false)] {
        for kind in kinds {
            let mut rng = Rng::for_name(5, kind);
            let states = [0, 1].map(|side| pair.nodes[side].export(now, kind).unwrap().unwrap());
            let mut taken = 0;
            for round in 0..ROUNDS {
                let mut block = made(kind);
                let before = block.export(now);
                match block.import(&forged(&states[round % 2], summed, &mut rng), now) {
                    Ok(()) => {
                        taken += 1;
                        let _ = block.export(now + Duration::from_secs(1));
                        look(&mut *block);
                    }
                    Err(error) => {
                        assert!(error.to_string().contains(kind), "{error}");
                        assert!(block.export(now) == before, "{kind}: refused ({error}), and not as before");
                    }
                }
            }
            assert!(taken < ROUNDS, "{kind}: everything was believed");
            let mut whole = made(kind);
            whole.import(&states[0], now).unwrap();
            let garbage = State { bytes: (0..200).map(|n: u32| (n * 37) as u8).collect(), ..states[0].clone() };
            assert!(made(kind).import(&garbage, Instant::ZERO).is_err(), "{kind} took noise");
        }
    }
}

/// What adapters ask of sockets without a context.
fn look(block: &mut dyn Block) {
    let Some(sockets) = block.as_any_mut().downcast_mut::<Sockets>() else { return };
    for socket in sockets.take_changed() {
        let _ = (sockets.state(socket), sockets.readiness(socket), sockets.send_room(socket), sockets.receive_ready(socket));
        let _ = (sockets.pending_error(socket), sockets.timeouts(socket), sockets.local_address(socket), sockets.peer_address(socket));
    }
}
