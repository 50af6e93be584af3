//! Two nodes in one process exchange a gigabyte; the bytes that arrive are the bytes that were sent.

use crate::common;

use common::{Fate, Pair};
use std::time::Duration;
use weft_core::{Bytes, Rng};

/// Bytes whose every position is telling: a shifted, lost or doubled piece shows.
fn pattern(bytes: usize) -> Bytes {
    let mut out = vec![0u8; bytes];
    Rng::for_name(1, "pattern").fill(&mut out);
    out.into()
}

/// Compares what arrives with the pattern, without keeping it.
struct Check {
    pattern: Bytes,
    at: u64,
}

impl Check {
    fn take(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let at = (self.at % self.pattern.len() as u64) as usize;
            let take = bytes.len().min(self.pattern.len() - at);
            assert!(bytes[..take] == self.pattern[at..at + take], "difference near byte {}", self.at);
            bytes = &bytes[take..];
            self.at += take as u64;
        }
    }
}

fn run(mut pair: Pair, total: u64) -> Pair {
    let pattern = pattern(257 * 1021);
    let ends = pair.connect();
    let mut check = Check { pattern: pattern.clone(), at: 0 };
    pair.transfer(ends, &pattern, total, |bytes| check.take(bytes));
    assert_eq!(check.at, total);
    pair
}

#[test]
fn a_gigabyte_in_large_frames() {
    run(Pair::new(65_160, ""), 1_000_000_000);
}

#[test]
fn frames_of_one_mtu() {
    let pair = run(Pair::new(0, ""), 20_000_000);
    assert!(pair.frames > 20_000_000 / 1460, "{} frames", pair.frames);
}

#[test]
fn with_loss_and_delay() {
    for congestion in ["reno", "cubic"] {
        let mut rng = Rng::for_name(3, congestion);
        let pair = Pair::new(0, &format!("[block.tcp]\ncongestion = \"{congestion}\"\n"));
        let pair = pair.with_wire(Duration::from_millis(5), move |_, _| if rng.chance(0.02) { Fate::Lose } else { Fate::Pass });
        run(pair, 4_000_000);
    }
}

#[test]
fn the_queued_engine_carries_the_same() {
    let pair = Pair::on_engine("queued", 0, "").with_wire(Duration::from_millis(1), |_, _| Fate::Pass);
    run(pair, 2_000_000);
}
