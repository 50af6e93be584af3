//! How many segments a second one core takes: two tcp blocks back to back, no wire, no copy.
//!
//! `cargo bench -p weft-tcp`: prints nanoseconds a segment (both ends together) and Gbit/s, with large frames on and off.

#[path = "../tests/common/mod.rs"]
mod common;

use common::Node;
use weft_core::*;
use weft_tcp::counters::Counter as Count;

/// Frames go over as they are: what came out of one node goes into the other with its direction turned.
fn hand_over(from: &mut Node, to: &mut Node) -> usize {
    let mut frames = from.take_frames();
    for frame in &mut frames {
        let meta = frame.meta_mut();
        meta.direction = Direction::Ingress;
        meta.checksum = Checksum::Valid;
        meta.interface = InterfaceIndex(2);
    }
    let count = frames.len();
    if count > 0 {
        to.inject_frames(frames);
    }
    count
}

fn measure(name: &str, gso: u64, loss_every: u64, bytes: u64) {
    let bytes = bytes >> 16 << 16;
    let mut nodes = [Node::new("a", &[]), Node::new("b", &[])];
    for node in &mut nodes {
        node.exec_below("gso", gso);
    }
    let [a, b] = &mut nodes;
    b.listen(1, "10.0.0.2:80", 16, StreamOptions::default());
    a.connect(1, "10.0.0.1:1234", "10.0.0.2:80", StreamOptions::default());
    b.app(|app, _| app.discards = true);
    let chunk = common::pattern(1 << 16);
    for _ in 0..bytes >> 16 {
        a.app(|app, _| app.flow(FlowId(1)).unsent.push_back(chunk.clone()));
    }
    let started = std::time::Instant::now();
    let mut turns = 0u64;
    let mut lost = 0u64;
    loop {
        let mut moved = 0;
        for (from, to) in [(0, 1), (1, 0)] {
            let [a, b] = &mut nodes;
            let (from_node, to_node) = if from == 0 { (a, b) } else { (b, a) };
            let _ = to;
            if loss_every > 0 && from == 0 {
                let mut frames = from_node.take_frames();
                lost += frames.len() as u64 / loss_every;
                let mut kept = Vec::new();
                for (index, mut frame) in frames.drain(..).enumerate() {
                    if loss_every > 0 && index as u64 % loss_every == loss_every - 1 {
                        continue;
                    }
                    let meta = frame.meta_mut();
                    meta.direction = Direction::Ingress;
                    meta.checksum = Checksum::Valid;
                    kept.push(frame);
                }
                moved += kept.len();
                if !kept.is_empty() {
                    to_node.inject_frames(kept);
                }
            } else {
                moved += hand_over(from_node, to_node);
            }
        }
        turns += 1;
        let now = nodes[0].now + Duration::from_micros(if moved == 0 { 1000 } else { 50 });
        for node in &mut nodes {
            node.advance(now);
        }
        let [_, b] = &mut nodes;
        let got = b.app(|app, _| app.discarded);
        if got >= bytes || turns > 1_000_000 {
            break;
        }
    }
    let took = started.elapsed();
    let segments = nodes[0].counter(Count::OutSegs) + nodes[1].counter(Count::OutSegs);
    println!(
        "{name:<28} {:>6.1} ns a segment, {:>6.2} M segments/s, {:>6.1} Gbit/s, {} lost",
        took.as_nanos() as f64 / segments as f64,
        segments as f64 / took.as_secs_f64() / 1e6,
        bytes as f64 * 8.0 / took.as_secs_f64() / 1e9,
        lost
    );
}

fn main() {
    measure("1448 bytes a frame", 0, 0, 2_000_000_000);
    if std::env::args().any(|word| word == "--small") {
        return;
    }
    measure("large frames, 64 KiB", 65_536, 0, 20_000_000_000);
    measure("1448 bytes, 1 of 500 lost", 0, 500, 1_000_000_000);
}
