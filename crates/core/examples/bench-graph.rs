//! What the graph costs: nanoseconds for each packet and block, as the slope between a chain of 10 and one of 30 blocks that each read and
//! write a byte of the header. What injecting and taking out cost is the same for both chains, and drops out.
//!
//! `--json` prints rows for `make bench`, otherwise a table. `--scale F` multiplies what is needed (2: a machine half as fast).
//! The comparison is the same work without an engine: each block called in turn on the same vectors.

mod chain;

use chain::{CHAINS, VECTOR, chain, frames};
use std::time::Instant as Clock;
use weft_core::*;

const ROUNDS: usize = 20_000;
const REPEATS: usize = 5;
const INLINE_NS_MAX: f64 = 1.0;

/// Nanoseconds for each packet through a chain in an engine.
fn engine(mode: Mode, blocks: usize) -> f64 {
    let (mut engine, first) = chain(mode, blocks);
    let mut frames = frames();
    let mut pass = |rounds: usize| {
        for _ in 0..rounds {
            engine.inject(Instant::ZERO, first, InPort(0), frames.drain(..));
            frames.extend(engine.take_outgoing().into_iter().map(|outgoing| outgoing.frame));
            assert_eq!(frames.len(), VECTOR);
        }
    };
    pass(ROUNDS / 10);
    let start = Clock::now();
    pass(ROUNDS);
    start.elapsed().as_nanos() as f64 / (ROUNDS * VECTOR) as f64
}

/// The same without an engine: a loop over the same frames for each block.
fn bare(blocks: usize) -> f64 {
    let mut frames = frames();
    let mut pass = |rounds: usize| {
        for _ in 0..rounds {
            for _ in 0..blocks {
                for frame in &mut frames {
                    if let Some(byte) = frame.head_mut().get_mut(8) {
                        *byte = byte.wrapping_add(1);
                    }
                }
                std::hint::black_box(&mut frames);
            }
        }
    };
    pass(ROUNDS / 10);
    let start = Clock::now();
    pass(ROUNDS);
    start.elapsed().as_nanos() as f64 / (ROUNDS * VECTOR) as f64
}

/// The medians of the slopes of several things, measured in turn, so that a slow moment of the machine meets all of them.
fn median_slopes<const N: usize>(measures: [&dyn Fn(usize) -> f64; N]) -> [f64; N] {
    let [short, long] = CHAINS;
    let mut slopes = [const { Vec::new() }; N];
    for _ in 0..REPEATS {
        for (slopes, measure) in slopes.iter_mut().zip(measures) {
            slopes.push((measure(long) - measure(short)) / (long - short) as f64);
        }
    }
    slopes.map(|mut slopes| {
        slopes.sort_by(f64::total_cmp);
        slopes[REPEATS / 2]
    })
}

struct Row {
    name: &'static str,
    value: f64,
    versus: f64,
    needed: Option<f64>,
}

impl Row {
    fn met(&self) -> Option<bool> {
        self.needed.map(|needed| self.value <= needed)
    }
    fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "name": self.name, "value": self.value, "unit": "ns", "versus": self.versus, "ratio": self.value / self.versus,
            "needed": self.needed, "met": self.met(),
        })
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let scale = arguments
        .iter()
        .position(|argument| argument == "--scale")
        .map_or(1.0, |at| arguments.get(at + 1).and_then(|text| text.parse().ok()).expect("--scale takes a number"));
    let [versus, inline, queued] = median_slopes([&bare, &|blocks| engine(Mode::Inline, blocks), &|blocks| engine(Mode::Queued, blocks)]);
    let rows = [
        Row { name: "graph, inline, per packet and block", value: inline, versus, needed: Some(INLINE_NS_MAX * scale) },
        Row { name: "graph, queued, per packet and block", value: queued, versus, needed: None },
    ];
    if arguments.iter().any(|argument| argument == "--json") {
        let rows: Vec<_> = rows.iter().map(Row::json).collect();
        println!("{}", serde_json::to_string_pretty(&rows).expect("rows are JSON"));
        return;
    }
    println!("{:<38} {:>8}  {:>10} {:>6}  {:>7}  met", "", "ns", "bare loop", "ratio", "needed");
    for row in &rows {
        let needed = row.needed.map_or(String::new(), |needed| format!("{needed:.2}"));
        let met = row.met().map_or("", |met| if met { "yes" } else { "NO" });
        println!("{:<38} {:>8.3}  {:>10.3} {:>6.2}  {needed:>7}  {met}", row.name, row.value, row.versus, row.value / row.versus);
    }
}
