//! What can be computed by hand comes out of a world to the nanosecond.

use crate::support;

use std::time::Duration;
use support::*;
use weft_core::Instant;
use weft_sim::plan::{DirectionPlan, Loss, NodePlan, Plan};
use weft_sim::program::Builtin;
use weft_sim::{Reason, Status, WireSample, World};

const TCP_PORT: u16 = 5001;

fn ping(count: u64) -> Builtin {
    Builtin::Ping { to: "10.0.0.2".parse().unwrap(), count, interval: Duration::from_secs(1), bytes: 56 }
}

#[test]
fn ping_takes_twice_delay_and_serialisation() {
    for delay in [Duration::from_micros(50), Duration::from_millis(1), Duration::from_millis(10)] {
        let (world, end) = run(pair(gigabit(delay), vec![program("ping", 0, 100, ping(3))], 20_000), 1);
        assert_eq!(end.reason, Reason::Programs);
        // 56 bytes of data, 8 of ICMP, 20 of IP, 14 of Ethernet at 8 bits in 8 ns each.
        let one_way = delay.as_nanos() as u64 + 98 * 8;
        assert_eq!(figure(&world, 0, "rtt_min_ns"), 2 * one_way, "{}", output(&world, 0));
        // The first had to ask for the address: a request and a reply of 42 bytes, which take as long as 60.
        assert_eq!(figure(&world, 0, "rtt_max_ns"), 2 * one_way + 2 * (delay.as_nanos() as u64 + 60 * 8), "{}", output(&world, 0));
        assert_eq!(world.program(0).unwrap().ended.unwrap().1, Status::Exited(0));
    }
}

#[test]
fn sequence_numbers_begin_anew() {
    let many = Builtin::Ping { to: "10.0.0.2".parse().unwrap(), count: 140_000, interval: Duration::from_micros(50), bytes: 8 };
    let (world, _) = run(pair(gigabit(Duration::from_micros(400)), vec![program("ping", 0, 100, many)], 20_000), 1);
    assert_eq!((figure(&world, 0, "requests"), figure(&world, 0, "replies")), (140_000, 140_000));
    assert!(!output(&world, 0).contains("copy"));
}

#[test]
fn a_panic_of_one_thread_ends_all() {
    let mut world = World::new(pair(gigabit(Duration::from_millis(1)), vec![program("ping", 0, 100, ping(3))], 20_000), 2).unwrap();
    assert_eq!(world.threads(), 2);
    // Whoever watches does so on the first of the two threads; the other waits for it.
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.run(&mut |_| panic!("watched enough"))));
    assert_eq!(panicked.unwrap_err().downcast_ref::<&str>(), Some(&"watched enough"));
}

#[test]
fn ping_through_two_routers_adds_up() {
    let delay = Duration::from_micros(300);
    let nodes = vec![
        host("a", &["10.0.1.1/24"], &[("default", "10.0.1.2")], false),
        host("r1", &["10.0.1.2/24", "10.0.2.1/24"], &[("10.0.3.0/24", "10.0.2.2")], true),
        host("r2", &["10.0.2.2/24", "10.0.3.1/24"], &[("10.0.1.0/24", "10.0.2.1")], true),
        host("b", &["10.0.3.2/24"], &[("default", "10.0.3.1")], false),
    ];
    let wires = vec![
        wire("1", (0, "eth0"), (1, "eth0"), gigabit(delay)),
        wire("2", (1, "eth1"), (2, "eth0"), gigabit(delay)),
        wire("3", (2, "eth1"), (3, "eth0"), gigabit(delay)),
    ];
    let ping = Builtin::Ping { to: "10.0.3.2".parse().unwrap(), count: 2, interval: Duration::from_secs(1), bytes: 56 };
    let plan = Plan { nodes, wires, programs: vec![program("ping", 0, 0, ping)], ..Plan::default() };
    let (world, _) = run(plan, 2);
    assert_eq!(figure(&world, 0, "rtt_min_ns"), 6 * (300_000 + 784), "{}", output(&world, 0));
}

#[test]
fn a_wire_without_any_look_ahead_delivers_at_once() {
    let (world, end) = run(pair(DirectionPlan::default(), vec![program("ping", 0, 100, ping(3))], 20_000), 2);
    assert_eq!((end.reason, figure(&world, 0, "rtt_max_ns")), (Reason::Programs, 0), "{}", output(&world, 0));
}

#[test]
fn datagrams_at_a_constant_rate_leave_exact_gaps_and_all_arrive() {
    let cbr = Builtin::UdpCbr { to: "10.0.0.2:9000".parse().unwrap(), rate: 100_000_000, bytes: 1470, count: 5000 };
    let programs = vec![program("sink", 1, 0, Builtin::UdpSink { port: 9000 }), program("cbr", 0, 100, cbr)];
    let mut plan = pair(gigabit(Duration::from_micros(5)), programs, 20_000);
    // Resolved before, so that the first does not wait.
    plan.programs.push(program("ping", 0, 0, ping(1)));
    let (world, _) = run(plan, 1);
    assert_eq!((figure(&world, 0, "received"), figure(&world, 0, "missing"), figure(&world, 1, "sent")), (5000, 0, 5000));
    // Every one took the same time: none waited for another.
    let one_way = 5_000 + (1470 + 42) * 8;
    assert_eq!((figure(&world, 0, "delay_min_ns"), figure(&world, 0, "delay_max_ns")), (one_way, one_way));
    // The sender began when it was to, though its neighbour's sockets changed before; and the last came when it was due.
    assert_eq!(figure(&world, 0, "first_ns"), 100_000_000 + one_way);
    assert_eq!(figure(&world, 0, "last_ns"), 100_000_000 + one_way + 4999 * 117_600);
}

fn transfer(bytes: u64, direction: DirectionPlan) -> Plan {
    let send = Builtin::TcpSend { to: ([10, 0, 0, 2], TCP_PORT).into(), bytes: Some(bytes), duration: None };
    pair(direction, vec![program("sink", 1, 0, Builtin::TcpSink { port: TCP_PORT }), program("send", 0, 10, send)], 60_000)
}

#[test]
fn tcp_reaches_line_rate_less_headers() {
    let mut plan = transfer(0, gigabit(Duration::from_millis(10)));
    let duration = Some(Duration::from_millis(1500));
    plan.programs[1] = program("send", 0, 10, Builtin::TcpSend { to: ([10, 0, 0, 2], TCP_PORT).into(), bytes: None, duration });
    let period = Duration::from_millis(100);
    plan.sample = Some(period);
    let (world, end) = run(plan, 1);
    assert_eq!(end.reason, Reason::Programs);
    assert_eq!(figure(&world, 0, "received_bytes"), figure(&world, 1, "sent_bytes"), "{}", output(&world, 0));
    // Once it has started, the wire is never idle: each tenth of a second carries 12,500,000 bytes, to within the frame at either end.
    let forth: Vec<_> = world.wire_samples.iter().filter(|sample| sample.wire == (0, 0)).collect();
    let late = |pair: &&[&WireSample]| pair[0].at >= Instant::from_millis(700) && pair[1].at <= Instant::from_millis(1500);
    let carried: Vec<u64> = forth.windows(2).filter(late).map(|pair| pair[1].bytes - pair[0].bytes).collect();
    assert!(carried.len() >= 7 && carried.iter().all(|bytes| bytes.abs_diff(12_500_000) <= 2 * 1514), "{carried:?}");
    // 1448 bytes of each frame of 1514 are payload (timestamps take 12).
    let [wire, _] = world.wire(0).unwrap();
    let payload = figure(&world, 0, "received_bytes");
    assert!(wire.bytes.abs_diff(payload * 1514 / 1448) < wire.bytes / 10_000, "{} for {payload}", wire.bytes);
}

#[test]
fn large_frames_change_no_result() {
    let with = |large_frames: bool| {
        let mut plan = transfer(20_000_000, gigabit(Duration::from_millis(2)));
        plan.wires[0].directions[0].loss = Loss::Bernoulli(0.001);
        plan.nodes = plan.nodes.into_iter().map(|node| NodePlan { large_frames, ..node }).collect();
        let (world, _) = run(plan, 1);
        assert_eq!(figure(&world, 0, "received_bytes"), 20_000_000);
        (output(&world, 0), output(&world, 1), world.wire(0), format!("{:x}", world.hash()))
    };
    assert_eq!(with(true), with(false));
}

#[test]
fn the_hash_is_one_for_any_number_of_threads_and_honest() {
    let hash = |change: &dyn Fn(&mut Plan), threads: usize| {
        let lossy = DirectionPlan { loss: Loss::Bernoulli(0.01), ..gigabit(Duration::from_millis(1)) };
        let mut plan = transfer(600_000, lossy);
        plan.nodes.push(host("c", &["10.0.1.1/24"], &[], false));
        plan.nodes.push(host("d", &["10.0.1.2/24"], &[], false));
        plan.wires.push(wire("cd", (2, "eth0"), (3, "eth0"), gigabit(Duration::from_micros(70))));
        let to = "10.0.1.2:9000".parse().unwrap();
        plan.programs.push(program("cbr", 2, 0, Builtin::UdpCbr { to, rate: 50_000_000, bytes: 700, count: 300 }));
        change(&mut plan);
        let (world, _) = run(plan, threads);
        world.hash()
    };
    let base = hash(&|_| (), 1);
    for threads in [1, 2, 4] {
        assert_eq!(hash(&|_| (), threads), base, "{threads} threads");
    }
    let changes: [&dyn Fn(&mut Plan); 5] = [
        &|plan| plan.seed = 2,
        // 1 ns of one delay.
        &|plan| plan.wires[1].directions[1].delay += Duration::from_nanos(1),
        // One draw more.
        &|plan| plan.wires[1].directions[0].duplicate = 1e-300,
        // One bit of one payload: its number.
        &|plan| plan.programs[2].start = Some(Instant::from_nanos(1)),
        &|plan| plan.nodes[3].name = "e".to_owned(),
    ];
    for (number, change) in changes.iter().enumerate().filter(|(number, _)| *number != 2) {
        assert_ne!(hash(change, 1), base, "change {number}");
    }
    // Looking at the world does not change it, though it cuts windows short.
    assert_eq!(hash(&|plan| plan.sample = Some(Duration::from_micros(700)), 2), base);
    // A draw that has no consequence is none of the hash's business.
    assert_eq!(hash(changes[2], 1), base);
}

#[test]
fn when_nothing_is_due_the_run_says_who_waits_for_what() {
    let mut plan = pair(gigabit(Duration::from_micros(5)), vec![program("sink", 1, 0, Builtin::TcpSink { port: TCP_PORT })], 1_000_000);
    plan.whole = true;
    let (world, end) = run(plan, 1);
    assert!(matches!(end.reason, Reason::Idle | Reason::Duration));
    assert_eq!(world.waits(), [(0, format!("for connections on port {TCP_PORT}"))]);
}

/// Nodes of several pairs, a program on the first of each: pairs that no wire joins.
fn pairs(delays: &[Duration], programs: &[Builtin]) -> Plan {
    let mut plan = Plan { end: Instant::from_millis(20_000), ..Plan::default() };
    for (number, (delay, builtin)) in delays.iter().zip(programs).enumerate() {
        let (a, b) = (2 * number, 2 * number + 1);
        plan.nodes
            .extend([host(&format!("a{number}"), &["10.0.0.1/24"], &[], false), host(&format!("b{number}"), &["10.0.0.2/24"], &[], false)]);
        plan.wires.push(wire(&format!("w{number}"), (a, "eth0"), (b, "eth0"), gigabit(*delay)));
        plan.programs.push(program(&format!("p{number}"), a, 100, builtin.clone()));
    }
    plan
}

#[test]
fn what_no_wire_joins_does_not_know_of_each_other() {
    let delays = [Duration::from_millis(3), Duration::from_micros(70), Duration::from_millis(1)];
    let flood = Builtin::UdpCbr { to: "10.0.0.2:9000".parse().unwrap(), rate: 1_000_000, bytes: 1000, count: 1_000_000 };
    let programs = [ping(3), ping(2), flood];
    let (alone, _) = run(pairs(&delays[..1], &programs[..1]), 1);
    let mut hashes = Vec::new();
    for threads in [1, 2, 3, 4] {
        let mut plan = pairs(&delays, &programs);
        // Goes on for ever, and nobody waits for it: it must be where the others are when the last of them ends.
        plan.programs[2].expect = weft_sim::plan::Expect::Running;
        let (world, end) = run(plan, threads);
        assert_eq!(end.reason, Reason::Programs);
        assert_eq!(world.program(0).unwrap().ended, alone.program(0).unwrap().ended);
        for node in 0..2 {
            assert_eq!(world.node_hash(node), alone.node_hash(node), "{threads} threads");
        }
        hashes.push((end.at, world.hash(), world.wire(2).map(|both| both.map(|direction| direction.frames))));
    }
    assert!(hashes.iter().all(|other| *other == hashes[0]), "{hashes:?}");
}

/// Times at which frames left or arrived.
#[derive(Clone, Default)]
struct Times(std::sync::Arc<std::sync::Mutex<Vec<(bool, u64)>>>);

impl weft_sim::FrameSink for Times {
    fn frame(&mut self, at: Instant, way: weft_sim::hash::Way, _: &weft_core::Frame) {
        self.0.lock().unwrap().push((way == weft_sim::hash::Way::Out, at.as_nanos()));
    }
}

#[test]
fn what_machines_send_as_they_boot_arrives_in_time() {
    // No serialisation: the sender has nothing to do by itself until long after its frames have arrived.
    let text = "duration = \"9s\"\nipv6 = true\n[nodes.a]\n[nodes.b]\n[wires.ab]\nbetween = [\"a\", \"b\"]\ndelay = \"5ms\"\n";
    let scenario = weft_sim::Scenario::parse("w.toml", text, &[], &|_| Err(String::new())).unwrap();
    for threads in [1, 2] {
        let mut world = World::new(scenario.plan.clone(), threads).unwrap();
        let sinks = [Times::default(), Times::default()];
        for (node, sink) in sinks.iter().enumerate() {
            assert!(world.capture(node, "eth0", Box::new(sink.clone())));
        }
        world.run(&mut |_| true);
        let of = |node: usize, out: bool| -> Vec<u64> {
            sinks[node].0.lock().unwrap().iter().filter(|(way, _)| *way == out).map(|(_, at)| *at).collect()
        };
        for (from, to) in [(0, 1), (1, 0)] {
            let sent: Vec<u64> = of(from, true).into_iter().map(|at| at + 5_000_000).collect();
            assert!(sent.first().is_some_and(|at| *at < 6_000_000), "{sent:?}");
            assert_eq!(of(to, false), sent);
        }
    }
}
