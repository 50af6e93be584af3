//! Frames of 64 bytes from a `memory:` backend through ether → forward → forward → drop, on one core: frames a second in each engine.
//!
//! Measured is everything behind the generator: the queue between both ends, the graph, and freeing the frames. `--json` prints rows for
//! `make bench`.

mod drops;

use drops::{bytes, dropped, node, stack};
use std::collections::VecDeque;
use std::time::{Duration, Instant as Wall};
use weft_backend::{Backend, OpenOptions, memory};
use weft_core::{Frame, Instant};
use weft_node::Node;

const RUNS: usize = 5;
const BATCHES: usize = 20_000;
const BATCH_FRAMES: usize = 64;

/// Millions of frames a second.
fn run(engine: &str) -> f64 {
    let (mut node, interface) = node(Node::new(&stack(engine), 1).expect("the node is built"));
    let (mut sending, mut receiving) = memory::pair(&OpenOptions { interface, ..OpenOptions::default() });
    let bytes = bytes();
    let (mut queue, mut frames, mut done) = (VecDeque::new(), Vec::new(), Vec::new());
    let mut spent = Duration::ZERO;
    for batch in 0..BATCHES {
        queue.extend((0..BATCH_FRAMES).map(|_| Frame::ingress(&bytes)));
        let now = Instant::from_micros(batch as u64);
        let start = Wall::now();
        sending.transmit(now, &mut queue, &mut done).expect("memory does not fail");
        receiving.receive(now, &mut frames, BATCH_FRAMES).expect("memory does not fail");
        node.receive(now, frames.drain(..));
        spent += start.elapsed();
    }
    assert_eq!(dropped(&mut node), (BATCHES * BATCH_FRAMES) as u64, "every frame ended in the drop block");
    (BATCHES * BATCH_FRAMES) as f64 / spent.as_secs_f64() / 1e6
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let json = std::env::args().any(|argument| argument == "--json");
    let runs: Vec<[f64; 2]> = (0..RUNS).map(|_| ["inline", "queued"].map(run)).collect();
    let rows = ["inline", "queued"].into_iter().enumerate().map(|(at, engine)| {
        (format!("64-byte frames dropped, weft, memory, {engine}, one core"), median(runs.iter().map(|run| run[at]).collect()))
    });
    if json {
        let row = |(name, value): (String, f64)| serde_json::json!({"name": name, "value": value, "unit": "M/s"});
        println!("{}", serde_json::Value::from(rows.map(row).collect::<Vec<_>>()));
    } else {
        rows.for_each(|(name, value)| println!("{name:<60} {value:8.2} M/s"));
    }
}
