//! TCP in memory: two nodes in one thread, joined by passing frames. Goodput with large frames, and segments per second with frames of
//! one MTU. `--json` prints rows for `make bench`; `--bytes N` sets the amount.

#[path = "../../node/tests/common/mod.rs"]
mod common;

use common::Pair;
use std::time::Instant as Wall;
use weft_core::Bytes;

const RUNS: usize = 5;

/// Sends `bytes` from the first node to the second. Returns wall seconds and frames moved.
fn transfer(gso_max_bytes: u32, bytes: u64) -> (f64, u64) {
    let mut pair = Pair::new(gso_max_bytes, "");
    let ends = pair.connect();
    let chunk = Bytes::from(vec![0x5a; 256 * 1024]);
    let before = pair.frames;
    let start = Wall::now();
    pair.transfer(ends, &chunk, bytes, |_| {});
    (start.elapsed().as_secs_f64(), pair.frames - before)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let json = arguments.iter().any(|argument| argument == "--json");
    let wanted = arguments.iter().position(|argument| argument == "--bytes").and_then(|at| arguments.get(at + 1));
    let bytes: u64 = wanted.and_then(|text| text.parse().ok()).unwrap_or(1_000_000_000);
    let large: Vec<f64> = (0..RUNS).map(|_| bytes as f64 * 8e-9 / transfer(65_160, bytes).0).collect();
    let small_bytes = bytes / 4;
    let small: Vec<(f64, u64)> = (0..RUNS).map(|_| transfer(0, small_bytes)).collect();
    let rows = [
        ("TCP in memory, large frames", median(large), "Gbit/s"),
        (
            "TCP in memory, frames of 1500 bytes",
            median(small.iter().map(|(seconds, _)| small_bytes as f64 * 8e-9 / seconds).collect()),
            "Gbit/s",
        ),
        ("TCP in memory, segments and ACKs", median(small.iter().map(|(seconds, frames)| *frames as f64 / seconds / 1e6).collect()), "M/s"),
    ];
    if json {
        let row = |(name, value, unit): &(&str, f64, &str)| serde_json::json!({"name": name, "value": value, "unit": unit, "versus": null, "ratio": null, "needed": null, "met": null});
        println!("{}", serde_json::Value::from(rows.iter().map(row).collect::<Vec<_>>()));
    } else {
        rows.iter().for_each(|(name, value, unit)| println!("{name:<40} {value:8.2} {unit}"));
    }
}
