//! How fast worlds run: wall time of bulk TCP, a datagram flow and round trips; a JSON list for the benchmarks.

use std::time::Duration;
use weft_core::Instant;
use weft_node::Stack;
use weft_sim::World;
use weft_sim::plan::{DirectionPlan, Expect, NodePlan, Plan, ProgramPlan, Run, WirePlan};
use weft_sim::program::Builtin;

fn host(name: &str, address: &str) -> NodePlan {
    let text = format!(
        "[node]\nname = \"{name}\"\n[[interface]]\nname = \"eth0\"\nbackend = \"wire:w\"\n[[address]]\ninterface = \"eth0\"\naddress = \"{address}/24\"\n"
    );
    NodePlan::host(Stack::parse(name, &text).unwrap_or_else(|error| panic!("{error}")))
}

fn pairs(count: usize, direction: &DirectionPlan, programs: impl Fn(usize) -> Vec<ProgramPlan>, end: Duration) -> Plan {
    let mut plan = Plan { end: Instant::ZERO + end, ..Plan::default() };
    for pair in 0..count {
        plan.nodes.push(host(&format!("a{pair}"), "10.0.0.1"));
        plan.nodes.push(host(&format!("b{pair}"), "10.0.0.2"));
        let ends = [(2 * pair, "eth0".to_owned()), (2 * pair + 1, "eth0".to_owned())];
        plan.wires.push(WirePlan { name: format!("w{pair}"), ends, directions: [direction.clone(), direction.clone()] });
        plan.programs.extend(programs(pair));
    }
    plan
}

fn program(name: String, node: usize, start_ms: u64, builtin: Builtin) -> ProgramPlan {
    let expect = if builtin.is_server() { Expect::Running } else { Expect::Status(0) };
    ProgramPlan { name, node, run: Run::Builtin(builtin), start: Some(Instant::from_millis(start_ms)), expect }
}

fn bulk(pair: usize, seconds: u64) -> Vec<ProgramPlan> {
    let send = Builtin::TcpSend { to: ([10, 0, 0, 2], 5001).into(), bytes: None, duration: Some(Duration::from_secs(seconds)) };
    vec![
        program(format!("sink{pair}"), 2 * pair + 1, 0, Builtin::TcpSink { port: 5001 }),
        program(format!("send{pair}"), 2 * pair, 1, send),
    ]
}

fn measure(name: &str, plan: Plan, threads: usize) {
    let mut world = World::new(plan, threads).unwrap_or_else(|error| panic!("{error}"));
    let begun = std::time::Instant::now();
    let end = world.run(&mut |_| true);
    let wall = begun.elapsed();
    let frames: u64 = (0..world.plan().wires.len()).filter_map(|wire| world.wire(wire)).flatten().map(|wire| wire.frames).sum();
    let data: u64 = (0..world.plan().wires.len()).filter_map(|wire| world.wire(wire)).map(|wire| wire[0].frames).sum();
    println!(
        "{name}: {:.3} s wall, {} virtual, {} frames ({:.0} a second, {:.0} in the first direction), {} events, hash {:032x}",
        wall.as_secs_f64(),
        end.at,
        frames,
        frames as f64 / wall.as_secs_f64(),
        data as f64 / wall.as_secs_f64(),
        world.events(),
        world.hash()
    );
}

fn main() {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let gigabit = DirectionPlan { rate: Some(1_000_000_000), delay: Duration::from_millis(1), ..DirectionPlan::default() };
    let wants = |name: &str| wanted.is_empty() || wanted == name;
    if wants("tcp") {
        measure("tcp bulk, 1 gbit, 1 ms, 10 s", pairs(1, &gigabit, |pair| bulk(pair, 10), Duration::from_secs(20)), 1);
    }
    if wants("tcp2") {
        measure("tcp bulk, two threads", pairs(1, &gigabit, |pair| bulk(pair, 10), Duration::from_secs(20)), 2);
    }
    if wants("udp") {
        let programs = |pair: usize| {
            let cbr = Builtin::UdpCbr { to: ([10, 0, 0, 2], 9000).into(), rate: 100_000_000, bytes: 1470, count: 85_000 };
            vec![program(format!("s{pair}"), 1, 0, Builtin::UdpSink { port: 9000 }), program(format!("c{pair}"), 0, 1, cbr)]
        };
        measure("udp 100 mbit, 10 s", pairs(1, &gigabit, programs, Duration::from_secs(20)), 1);
    }
    if wants("pairs") {
        for threads in [1, 2] {
            let plan = pairs(100, &gigabit, |pair| bulk(pair, 1), Duration::from_secs(5));
            measure(&format!("100 pairs of tcp, 1 s, {threads} threads"), plan, threads);
        }
    }
}
