//! Blocks that act on the segments of large frames, put into every edge that frames take.

use crate::common::{AF_INET, AF_INET6, Pair, address, address6};
use std::time::Duration;
use weft_core::control::Value;
use weft_core::{Bytes, ControlError, Instant, Message, command};
use weft_node::{EDGES, Node};

/// Each acts on the segments of large frames one by one.
const CUTTING: [&str; 6] = ["loss", "duplicate", "reorder", "corrupt", "gilbert", "delay"];
const BYTES: u64 = 400_000;
const GSO_BYTES_MAX: u32 = 65_536;

pub fn told(node: &mut Node, now: Instant, line: &str) -> Result<Value, ControlError> {
    let op = command::parse(line).unwrap().unwrap();
    node.control(now, &Message { serial: 1, op }).result
}

fn counter(node: &Node, block: &str, name: &str) -> u64 {
    let graph = node.engine().graph();
    let id = graph.find(block).unwrap();
    let at = graph.kind(id).unwrap().counters.iter().position(|row| row.name == name).unwrap();
    graph.block(id).unwrap().counters()[at]
}

/// A transfer arrives as it was sent, and nothing of it goes twice.
fn transfers(pair: &mut Pair, family: i32, what: &str) {
    let to = if family == AF_INET { address(2, 80) } else { address6("fd77::2".parse().unwrap(), 80, 0) };
    let ends = pair.connect_to(family, &to);
    let pattern: Bytes = (0..=255u8).cycle().take(10_007).collect::<Vec<u8>>().into();
    let (mut at, mut right) = (0usize, true);
    pair.transfer(ends, &pattern, BYTES, |slice| {
        right &= slice.iter().enumerate().all(|(index, byte)| *byte == pattern[(at + index) % pattern.len()]);
        at += slice.len();
    });
    assert!(right && at as u64 == BYTES, "{what}: {at} bytes, or others");
    for node in &pair.nodes {
        let again = counter(node, "tcp", "RetransSegs");
        let failed = ["ip4", "ip6"].map(|ip| counter(node, ip, "FragFails"));
        assert_eq!((again, failed), (0, [0, 0]), "{what}");
    }
}

#[test]
fn blocks_that_cut_large_frames_harm_nothing_on_any_edge() {
    let mut inserted = 0;
    for kind in CUTTING {
        for (from, to) in EDGES {
            for gso in [0, GSO_BYTES_MAX] {
                let mut pair = Pair::new(gso, "").with_wire(Duration::from_millis(1), |_, _| crate::common::Fate::Pass);
                // Addresses of IPv6 are tentative first.
                pair.pass(Duration::from_secs(3));
                let now = pair.now;
                let more = if kind == "delay" { "jitter=10us delay=1ms" } else { "" };
                let put_in = |node: &mut Node| {
                    told(node, now, &format!("add box {kind} {more}")).unwrap();
                    told(node, now, &format!("insert box {from} {to}"))
                };
                let done = pair.nodes.each_mut().map(put_in);
                // Streams and errors are no frames.
                if done.iter().any(Result::is_err) {
                    continue;
                }
                inserted += 1;
                for family in [AF_INET, AF_INET6] {
                    transfers(&mut pair, family, &format!("{kind} in {from} {to}, {gso}, {family}"));
                }
            }
        }
    }
    assert!(inserted >= 2 * CUTTING.len() * 20, "{inserted}");
}
