//! A program that is let go before its time does what it would have done, when it would have done it.

use crate::world::{Ran, World, alone};
use std::time::Duration;
use weft_core::Instant;
use weft_intercept::process::Status;

const AT: Instant = Instant::from_millis(500);

fn run(until: Instant, roams: bool, words: &[&str]) -> (Ran, u64, Vec<String>) {
    let mut world = World::new(1, 1);
    let pid = world.start_early(0, AT, words, until, roams);
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
        let early = run(AT + Duration::from_millis(20), true, &words);
        assert_eq!(early, run(AT + Duration::from_millis(20), false, &words));
        let began: u64 = early.0.output.split(' ').next().unwrap().parse().unwrap();
        // The clock began at a second.
        let began = Duration::from_nanos(began) - Duration::from_secs(1);
        assert!(began > AT.since(Instant::ZERO) && began < Duration::from_millis(510), "{began:?}");
        assert!(early.0.output.contains("b'through a pipe'") && early.0.output.ends_with("True\n"), "{}", early.0.output);
        assert!(early.0.at > AT + Duration::from_millis(10));
    });
}

#[test]
fn nobody_runs_further_than_it_may() {
    // Looks at the clock for as long as it takes, and needs nobody for that.
    let words = ["python3", "-c", "import time\nend = time.monotonic() + 0.1\nwhile time.monotonic() < end: pass\nprint('over')"];
    alone(|| {
        let until = AT + Duration::from_millis(5);
        let early = run(until, true, &words);
        assert_eq!(early, run(until, false, &words));
        assert_eq!(early.0.output, "over\n");
    });
}

#[test]
fn who_ends_without_asking_anybody() {
    alone(|| {
        let until = AT + Duration::from_millis(20);
        let early = run(until, true, &["true"]);
        assert_eq!(early, run(until, false, &["true"]));
        assert!(early.0.at > AT && early.0.at < until);
    });
}
