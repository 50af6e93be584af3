//! The built-in lowest-rtt, once more, in Rust.

mod weft;

use weft::{Block, Question, Subflow};

weft::block!(Lowest, "name = \"lowest\"\nversion = \"1\"\nsummary = \"the shortest round trip\"\n[scheduler]\n");

#[derive(Default)]
struct Lowest;

impl Block for Lowest {
    fn schedule(&self, question: &mut Question, subflows: &[Subflow]) -> Option<usize> {
        let backup = subflows.iter().map(|subflow| subflow.backup).min()?;
        let free = subflows.iter().enumerate().filter(|(_, subflow)| subflow.backup == backup && subflow.room_bytes > 0);
        let (place, subflow) = free.min_by_key(|(_, subflow)| subflow.rtt_ns)?;
        question.bytes = subflow.room_bytes;
        Some(place)
    }
}
