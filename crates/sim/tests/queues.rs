//! Unmodified `tc` in virtual time: what queues do to traffic, to the nanosecond, and that nothing is lost when they come and go.

use crate::support;

use std::time::Duration;
use support::{figure, gigabit, host, output, pair, process, program, run};
use weft_core::{Instant, Op, Show};
use weft_sim::plan::{DirectionPlan, Expect, Plan, ProgramPlan};
use weft_sim::program::Builtin;
use weft_sim::{Reason, World};

/// tc on node 0, at a time.
fn tc(at_ms: u64, words: &str) -> ProgramPlan {
    let command: Vec<&str> = ["tc"].into_iter().chain(words.split_whitespace()).collect();
    process(&format!("tc{at_ms}"), 0, at_ms, &command, Expect::Status(0))
}

fn ping(name: &str, at_ms: u64, count: u64, interval_ms: u64) -> ProgramPlan {
    let to = "10.0.0.2".parse().unwrap();
    program(name, 0, at_ms, Builtin::Ping { to, count, interval: Duration::from_millis(interval_ms), bytes: 56 })
}

/// A wire without a rate: its delay is all that it takes.
fn world(programs: Vec<ProgramPlan>, threads: usize) -> World {
    let direction = DirectionPlan { delay: Duration::from_millis(1), ..DirectionPlan::default() };
    let mut plan = pair(direction, programs, 40_000);
    // Somebody else, for another thread.
    plan.nodes.extend([host("c", &["10.0.1.1/24"], &[], false), host("d", &["10.0.1.2/24"], &[], false)]);
    plan.wires.push(support::wire("cd", (2, "eth0"), (3, "eth0"), gigabit(Duration::from_millis(3))));
    let (world, end) = run(plan, threads);
    assert_ne!(end.reason, Reason::Stuck);
    world
}

/// Smallest and largest round trip, microseconds.
fn trips(world: &World, program: usize) -> (u64, u64) {
    (figure(world, program, "rtt_min_ns") / 1000, figure(world, program, "rtt_max_ns") / 1000)
}

#[test]
fn netem_adds_its_delay_and_nothing_is_left_of_it_afterwards() {
    let programs = || {
        vec![
            ping("first", 100, 3, 100),
            tc(500, "qdisc add dev eth0 root netem delay 50ms"),
            ping("second", 1000, 3, 100),
            tc(1500, "qdisc change dev eth0 root netem delay 20ms"),
            ping("third", 2000, 3, 100),
            tc(2500, "qdisc del dev eth0 root"),
            ping("fourth", 3000, 3, 100),
            tc(3500, "-s qdisc show dev eth0"),
        ]
    };
    let one = world(programs(), 1);
    assert_eq!([2, 4, 6].map(|at| trips(&one, at)), [(52_000, 52_000), (22_000, 22_000), (2000, 2000)], "{}", output(&one, 1));
    assert_eq!(trips(&one, 0).0, 2000);
    assert!(output(&one, 7).starts_with("qdisc noqueue 0: root refcnt 2"), "{}", output(&one, 7));
    let two = world(programs(), 2);
    assert_eq!(one.hash(), two.hash());
    let mut less = programs();
    less.remove(3);
    assert_ne!(world(less, 1).hash(), one.hash());
}

#[test]
fn the_token_bucket_lets_frames_go_at_its_rate() {
    // A request has 14 + 20 + 8 + 56 bytes: 10 ms at 78,400 bit/s, and the bucket holds one. Of five, a millisecond apart, each waits 9 ms longer than the one before.
    let programs = vec![
        ping("first", 100, 1, 100),
        tc(500, "qdisc add dev eth0 root tbf rate 78400bit burst 98 limit 392"),
        ping("second", 20_300, 5, 1),
        tc(20_303, "-s qdisc show dev eth0"),
        // Four of 98 bytes have room behind the one that goes.
        ping("third", 22_300, 12, 0),
        tc(25_000, "-s qdisc show dev eth0"),
    ];
    let world = world(programs, 1);
    assert_eq!(trips(&world, 2), (2000, 2000 + 4 * 9000));
    assert_eq!((figure(&world, 2, "replies"), figure(&world, 4, "replies")), (5, 5));
    assert!(output(&world, 3).contains(" backlog 196b 2p") || output(&world, 3).contains(" backlog 294b 3p"), "{}", output(&world, 3));
    let told = output(&world, 5);
    assert!(told.contains("dropped 7,") && told.contains(" backlog 0b 0p"), "{told}");
}

#[test]
fn losses_of_a_queue_are_the_nodes_own_randomness_and_come_again() {
    let programs = || {
        vec![
            tc(100, "qdisc add dev eth0 root netem loss 30% duplicate 10% delay 5ms 2ms"),
            ping("ping", 500, 100, 10),
            tc(9000, "-s qdisc show dev eth0"),
        ]
    };
    let one = world(programs(), 1);
    let replies = figure(&one, 1, "replies");
    assert!((50..110).contains(&replies), "{replies}");
    let two = world(programs(), 2);
    assert_eq!((output(&one, 2), one.hash()), (output(&two, 2), two.hash()));
}

#[test]
fn a_connection_lives_on_while_queues_come_and_go() {
    for engine in ["inline", "queued"] {
        let server = program("server", 1, 0, Builtin::TcpSink { port: 5001 });
        let sender = program(
            "client",
            0,
            100,
            Builtin::TcpSend { to: "10.0.0.2:5001".parse().unwrap(), bytes: None, duration: Some(Duration::from_millis(2500)) },
        );
        let queues = [
            "qdisc add dev eth0 root netem delay 50ms",
            "qdisc change dev eth0 root netem delay 10ms 2ms",
            "qdisc replace dev eth0 root tbf rate 200mbit burst 20kb latency 20ms",
            "qdisc replace dev eth0 root pfifo",
            "qdisc del dev eth0 root",
            "qdisc add dev eth0 root netem loss 0.1% reorder 10% gap 3 delay 1ms",
            "qdisc del dev eth0 root",
        ];
        let mut programs = vec![server, sender];
        programs.extend(queues.iter().enumerate().map(|(at, words)| tc(150 + 300 * at as u64, words)));
        let mut plan: Plan = pair(gigabit(Duration::from_millis(1)), programs, 60_000);
        let text = format!(
            "[node]\nname = \"a\"\nengine = \"{engine}\"\n[[interface]]\nname = \"eth0\"\nbackend = \"wire:x\"\n[[address]]\ninterface = \"eth0\"\naddress = \"10.0.0.1/24\"\n"
        );
        plan.nodes[0] = weft_sim::plan::NodePlan::host(weft_node::Stack::parse("a", &text).unwrap());
        let (mut world, end) = run(plan, 1);
        assert_ne!(end.reason, Reason::Stuck);
        for at in 1..9 {
            let ended = world.program(at).unwrap().ended;
            assert!(ended.is_some_and(|(_, status)| status == weft_sim::Status::Exited(0)), "{at}: {ended:?} {}", output(&world, at));
        }
        assert!(world.program(1).unwrap().ended.unwrap().0 > Instant::from_millis(150 + 300 * 6), "the flow was there all the time");
        let (sent, received) = (figure(&world, 1, "sent_bytes"), figure(&world, 0, "received_bytes"));
        assert!(sent > 20_000_000 && sent == received, "{sent} {received}");
        let blocks = world.control(0, Op::Show(Show::Blocks)).unwrap();
        assert!(!blocks.as_array().unwrap().iter().any(|row| row["name"] == "qdisc.2"), "{blocks}");
    }
}
