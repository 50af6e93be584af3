//! The threaded engine beside the others, on all cores it may have: what a packet and block costs, as the slope between a chain of 10 and one of
//! 30 blocks, in time that passes and in processor time; and how many frames of 64 bytes end in a second in ether → forward → forward → drop.
//!
//! `--json` prints rows for `make bench`.

#[path = "../../core/examples/chain/mod.rs"]
mod chain;
mod drops;

use chain::{CHAINS, VECTOR, chain, frames};
use drops::{bytes, dropped, node, stack};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::{ClockId, clock_gettime};
use std::collections::VecDeque;
use std::time::{Duration, Instant as Wall};
use weft_backend::{Backend, OpenOptions, memory};
use weft_core::{Execute, Frame, InPort, Mode};
use weft_host::clock::Clock;
use weft_host::threaded::Threaded;
use weft_node::Node;

const REPEATS: usize = 5;
/// Vectors that go through a chain in one run, and of these under way at a time: enough for a thread to find something whenever it looks.
const VECTORS: usize = 10_000;
const UNDER_WAY: usize = 32;
/// How long frames are offered to the graph that drops them.
const OFFERED: Duration = Duration::from_secs(1);

/// Processor time of the whole process, ns.
fn processor() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Nanoseconds for each packet through a chain: that pass, and of processors.
fn through(blocks: usize) -> [f64; 2] {
    let (engine, first) = chain(Mode::Queued, blocks);
    let clock = Clock::default();
    let mut threaded = Threaded::start(engine, clock, None).expect("threads start");
    let mut pass = |vectors: usize| {
        let (mut sent, mut back) = (0, 0);
        while back < vectors * VECTOR {
            while sent < vectors && sent * VECTOR - back < UNDER_WAY * VECTOR {
                threaded.inject(clock.now(), first, InPort(0), &mut frames().into_iter());
                sent += 1;
            }
            poll(&mut [PollFd::new(&threaded.descriptor(), PollFlags::IN)], None).expect("poll");
            threaded.run(clock.now());
            back += threaded.take_outgoing().len();
        }
    };
    pass(VECTORS / 10);
    let (start, spent) = (Wall::now(), processor());
    pass(VECTORS);
    let packets = (VECTORS * VECTOR) as f64;
    [start.elapsed().as_nanos() as f64 / packets, (processor() - spent) / packets]
}

/// Millions of frames a second that are offered, and that end in the drop block; the others find a queue full.
fn run() -> [f64; 2] {
    let clock = Clock::default();
    let built = Node::on(&stack("threaded"), 1, |engine| Ok(Box::new(Threaded::start(engine, clock, None)?)));
    let (mut node, interface) = node(built.expect("the node is built"));
    let (mut sending, mut receiving) = memory::pair(&OpenOptions { interface, ..OpenOptions::default() });
    let (bytes, mut offered) = (bytes(), 0);
    let (mut queue, mut frames, mut done) = (VecDeque::new(), Vec::new(), Vec::new());
    let start = Wall::now();
    while start.elapsed() < OFFERED {
        queue.extend((0..VECTOR).map(|_| Frame::ingress(&bytes)));
        let now = clock.now();
        sending.transmit(now, &mut queue, &mut done).expect("memory does not fail");
        offered += receiving.receive(now, &mut frames, VECTOR).expect("memory does not fail");
        node.receive(now, frames.drain(..));
    }
    let seconds = start.elapsed().as_secs_f64();
    [offered as f64 / seconds / 1e6, dropped(&mut node) as f64 / seconds / 1e6]
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let json = std::env::args().any(|argument| argument == "--json");
    let (mut slopes, mut rates) = (Vec::new(), Vec::new());
    for _ in 0..REPEATS {
        let [short, long] = CHAINS.map(through);
        slopes.push([0, 1].map(|at| (long[at] - short[at]) / (CHAINS[1] - CHAINS[0]) as f64));
        rates.push(run());
    }
    let of = |values: &[[f64; 2]], at: usize| median(values.iter().map(|value| value[at]).collect());
    let rows = [
        ("graph, threaded, per packet and block", of(&slopes, 0), "ns"),
        ("graph, threaded, processor time per packet and block", of(&slopes, 1), "ns"),
        ("64-byte frames dropped, weft, memory, threaded, all cores", of(&rates, 1), "M/s"),
        ("  of so many offered", of(&rates, 0), "M/s"),
    ];
    if json {
        let row = |(name, value, unit): &(&str, f64, &str)| serde_json::json!({"name": name, "value": value, "unit": unit});
        println!("{}", serde_json::Value::from(rows.iter().map(row).collect::<Vec<_>>()));
    } else {
        rows.iter().for_each(|(name, value, unit)| println!("{name:<60} {value:8.2} {unit}"));
    }
}
