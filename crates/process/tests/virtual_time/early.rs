//! A program that is let go before its time does what it would have done, when it would have done it.

use crate::world::{Ran, World, alone};
use std::time::Duration;
use weft_core::Instant;
use weft_process::Status;

const AT: Instant = Instant::from_millis(500);

/// How a program is started.
#[derive(Clone, Copy, Debug)]
enum Start {
    InTime,
    Early { until: Instant, roams: bool },
}

fn start(world: &mut World, how: Start, words: &[&str]) -> u32 {
    match how {
        Start::InTime => world.start(0, AT, words),
        Start::Early { until, roams } => world.start_early(0, AT, words, until, roams),
    }
}

fn run(how: Start, words: &[&str]) -> (Ran, u64, Vec<String>) {
    let mut world = World::new(1, 1);
    let pid = start(&mut world, how, words);
    let host = &mut world.hosts[0];
    // However far it has come: its time has not.
    host.tree.finish(&mut host.outer);
    assert!(host.outer.record.is_empty());
    world.run(&[(0, pid)], Duration::from_secs(100));
    let ran = world.ran(0, pid);
    let host = &mut world.hosts[0];
    assert!(host.tree.preempted().is_empty(), "{:?}", host.tree.preempted());
    assert_eq!(ran.status, Status::Exited(0), "{}", ran.error);
    (ran, host.tree.trace(), std::mem::take(&mut host.outer.record))
}

/// The same, however it is started.
fn alike(until: Instant, words: &[&str]) -> Ran {
    let in_time = run(Start::InTime, words);
    for roams in [true, false] {
        assert_eq!(run(Start::Early { until, roams }, words), in_time, "roams: {roams}");
    }
    in_time.0
}

/// Threads, children and pipes come after the first call that concerns others.
const PROGRAM: &str = "
import os, subprocess, threading, time
print(time.monotonic_ns(), os.getpid(), flush=True)
time.sleep(0.01)
print(subprocess.run(['cat'], input=b'through a pipe', capture_output=True).stdout)
one = threading.Thread(target=lambda: print('a thread', time.monotonic_ns()))
one.start()
one.join()
print(time.process_time_ns() < 500_000_000)
";

#[test]
fn before_its_time_as_in_time() {
    let words = ["python3", "-c", PROGRAM];
    alone(|| {
        let ran = alike(AT + Duration::from_millis(20), &words);
        let began: u64 = ran.output.split(' ').next().unwrap().parse().unwrap();
        // The clock began at a second.
        let began = Duration::from_nanos(began) - Duration::from_secs(1);
        assert!(began > AT.since(Instant::ZERO) && began < Duration::from_millis(510), "{began:?}");
        assert!(ran.output.contains("b'through a pipe'") && ran.output.ends_with("True\n"), "{}", ran.output);
        assert!(ran.at > AT + Duration::from_millis(10));
    });
}

#[test]
fn nobody_runs_further_than_it_may() {
    // Looks at the clock for as long as it takes, and needs nobody for that.
    let words = ["python3", "-c", "import time\nend = time.monotonic() + 0.1\nwhile time.monotonic() < end: pass\nprint('over')"];
    alone(|| {
        let until = AT + Duration::from_millis(5);
        // Where a grant ends, looking at the clock is a call, which the trace tells: the grants are others than in time.
        let in_time = run(Start::InTime, &words).0;
        let early = [true, false].map(|roams| run(Start::Early { until, roams }, &words));
        assert_eq!(early[0], early[1]);
        assert_eq!((&early[0].0, in_time.output.as_str()), (&in_time, "over\n"));
        for roams in [true, false] {
            let mut world = World::new(1, 1);
            let pid = start(&mut world, Start::Early { until, roams }, &words);
            // It has been waited for by then, and writes to a file without asking.
            world.run_to(until + Duration::from_millis(1));
            assert_eq!(world.output(0, pid), "", "it ran on beyond the time that it was given");
        }
    });
}

#[test]
fn who_ends_without_asking_anybody() {
    alone(|| {
        let until = AT + Duration::from_millis(20);
        let ran = alike(until, &["true"]);
        assert!(ran.at > AT && ran.at < until);
    });
}
