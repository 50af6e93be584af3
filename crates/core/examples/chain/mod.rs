//! A chain of blocks that each read and write a byte of the header: what benchmarks of engines compare.

mod touch;

use weft_core::control::End;
use weft_core::*;

/// How many blocks the two chains have whose difference is measured.
pub const CHAINS: [usize; 2] = [10, 30];
/// Frames in a vector.
pub const VECTOR: usize = 64;

pub fn frames() -> Vec<Frame> {
    (0..VECTOR).map(|n| Frame::ingress(&[n as u8; 64])).collect()
}

/// An engine with such a chain, and its first block.
pub fn chain(mode: Mode, blocks: usize) -> (Engine, BlockId) {
    let table = BlockTable::new([touch::ROW]);
    let mut engine = Engine::new(mode, table, Rng::for_name(1, "bench"));
    let name = |n: usize| format!("touch{n}");
    let add = |n| Op::Add { name: name(n), kind: "touch".to_owned(), parameters: Default::default() };
    let end = |n: usize, port: &str| End { block: name(n), port: Some(port.to_owned()) };
    let bind = |n: usize| Op::Bind { from: end(n, "out"), to: end(n + 1, "in") };
    let ops = (0..blocks).map(add).chain((0..blocks - 1).map(bind)).collect();
    engine.control(Instant::ZERO, &Message { serial: 1, op: Op::All(ops) }).result.expect("the chain is a graph");
    let first = engine.graph().find("touch0").expect("it was just made");
    (engine, first)
}
