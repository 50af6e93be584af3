//! Goodput over loss, reordering and duplication, as a committed table: `tests/goodput.txt`.
//!
//! Everything is virtual time from fixed seeds, so the table is exact. A change of the stack that moves a figure shows in the difference of
//! that file; run with `WEFT_SNAPSHOT=write` to accept it. Rows with much loss are means: a single run of them says little.

use crate::common;

use common::pair::{Pair, Wire};
use common::pattern;
use std::fmt::Write as _;
use weft_core::*;
use weft_tcp::counters::Counter as Count;

const BYTES: usize = 10_000_000;
/// Runs of a path that loses a hundredth or more, reorders or duplicates.
const SEEDS: u64 = 8;

#[derive(Default)]
struct Row {
    kbit: u64,
    retransmitted: u64,
    timeouts: u64,
    spurious: u64,
}

/// 100 Mbit/s, 20 ms round trip, a queue of one bandwidth-delay product.
fn wire() -> Wire {
    Wire { delay: Duration::from_millis(10), rate: 100_000_000, queue: 250_000, ..Wire::default() }
}

fn mean(control: &str, wire: &Wire) -> Row {
    let by_chance = wire.loss >= 0.01 || wire.reorder > 0.0 || wire.duplicate > 0.0;
    let seeds = if by_chance { SEEDS } else { 1 };
    let mut sum = Row::default();
    for seed in 11..11 + seeds {
        let row = measure(seed, control, wire.clone());
        sum.kbit += row.kbit;
        sum.retransmitted += row.retransmitted;
        sum.timeouts += row.timeouts;
        sum.spurious += row.spurious;
    }
    Row { kbit: sum.kbit / seeds, retransmitted: sum.retransmitted / seeds, timeouts: sum.timeouts / seeds, spurious: sum.spurious / seeds }
}

fn measure(seed: u64, control: &str, wire: Wire) -> Row {
    let mut pair = Pair::new(seed, wire.clone(), &[("congestion", control.into())]);
    // Acknowledgments come back unharmed but for their share of loss.
    pair.wires[1].reorder = 0.0;
    let data = pattern(BYTES);
    pair.connect(StreamOptions::default());
    pair.app(0, |app, _| {
        app.flow(FlowId(1)).unsent.push_back(data.clone());
        app.flow(FlowId(1)).shutdown_after = true;
    });
    let (start, until) = (pair.now, pair.now + Duration::from_secs(100_000));
    let done = pair.run(until, |pair| pair.accepted().is_some_and(|child| pair.app(1, |app, _| app.flow(child).received.len() == BYTES)));
    let child = pair.accepted().unwrap();
    assert!(done, "{control}: {:?}", pair.nodes[0].info(1));
    assert!(pair.app(1, |app, _| app.flow(child).received == data), "the stream was changed");
    let millis = (pair.now - start).as_millis() as u64;
    let node = &mut pair.nodes[0];
    Row {
        kbit: BYTES as u64 * 8 / millis,
        retransmitted: node.counter(Count::RetransSegs),
        timeouts: node.counter(Count::TCPTimeouts),
        spurious: pair.nodes[1].counter(Count::TCPDSACKOldSent),
    }
}

#[test]
fn goodput_is_as_recorded() {
    let mut table = String::from(
        "10 MB over 100 Mbit/s, 20 ms round trip, queue of one bandwidth-delay product. `duplicates`: segments the receiver had already.\n\
         With 1 % loss and more, reordering or duplication: means of 8 runs.\n\n\
         control  path                      kbit/s  retransmitted  timeouts  duplicates\n",
    );
    let late = |millis| Duration::from_millis(millis);
    let paths: [(&str, Wire); 7] = [
        ("clean", wire()),
        ("loss 0.1 %", Wire { loss: 0.001, ..wire() }),
        ("loss 1 %", Wire { loss: 0.01, ..wire() }),
        ("loss 5 %", Wire { loss: 0.05, ..wire() }),
        ("loss 20 %", Wire { loss: 0.2, ..wire() }),
        ("reordering 5 %, 4 ms", Wire { reorder: 0.05, late: late(4), ..wire() }),
        ("duplication 5 %", Wire { duplicate: 0.05, ..wire() }),
    ];
    for control in ["cubic", "reno", "bbr"] {
        for (name, wire) in &paths {
            let row = mean(control, wire);
            let Row { kbit, retransmitted, timeouts, spurious } = row;
            writeln!(table, "{control:<8} {name:<24} {kbit:>7}  {retransmitted:>13}  {timeouts:>8}  {spurious:>10}").unwrap();
        }
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/goodput.txt");
    if std::env::var("WEFT_SNAPSHOT").is_ok_and(|value| value == "write") {
        std::fs::write(path, &table).unwrap();
    }
    let recorded = std::fs::read_to_string(path).unwrap_or_default();
    assert!(table == recorded, "goodput changed; recorded:\n{recorded}\nnow:\n{table}");
}
