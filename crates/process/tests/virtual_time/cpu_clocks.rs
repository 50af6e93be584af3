//! CPU clocks and who waits for them: at which nanosecond, and what of a program that makes no call. What Linux does is compared in tests/virtual/cpu_clocks.c.

use crate::native::folder;
use crate::world::{World, alone, run_traced};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use weft_core::Instant;
use weft_process::Status;

/// A call costs 1 µs. Between a look at the clock and the signal: the call that sets the timer, and as many as it takes (10,000; 5000, each with a tick of 4 ms more, and 2000 for each
/// more, of which the handler's own two, looking and returning, are some); then the handler's look. Before the threads
/// the timer is set first.
const SEEN: &str = "once: 14002000
again: 9002000 11002000 13002000 15002000
three threads: 14000000
asleep: 2000
";

fn built(folder: &Path) -> PathBuf {
    let (source, program) = (concat!(env!("CARGO_MANIFEST_DIR"), "/tests/virtual_time/cpu_clocks.c"), folder.join("cpu_clocks"));
    let built = Command::new("cc").args(["-O1", "-w", "-pthread", "-o"]).arg(&program).arg(source).status().unwrap();
    assert!(built.success());
    program
}

#[test]
fn cpu_timers_expire_to_the_nanosecond() {
    let folder = folder("cpu-clocks");
    let program = built(&folder);
    let run = || run_traced(1, &[program.to_str().unwrap()]);
    let (first, second) = (run(), run());
    assert_eq!((first.0.output.as_str(), first.0.error.as_str(), first.0.status), (SEEN, "", Status::Exited(0)));
    assert_eq!(first, second);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_loop_without_a_call_is_ended_by_a_cpu_timer_and_told() {
    let folder = folder("cpu-clocks-spin");
    let program = built(&folder);
    alone(|| {
        let mut world = World::tuned(1, 1, |config| config.patience = Duration::from_millis(300));
        let pid = world.start(0, Instant::ZERO, &[program.to_str().unwrap(), "spin"]);
        world.run(&[(0, pid)], Duration::from_secs(1000));
        let ran = world.ran(0, pid);
        assert_eq!((ran.output.as_str(), ran.status), ("interrupted\n", Status::Exited(0)));
        assert!(ran.at < Instant::ZERO + Duration::from_millis(16), "it has computed 14 ms, and made a few calls: {}", ran.at);
        assert_eq!(world.hosts[0].tree.preempted().len(), 1);
    });
    std::fs::remove_dir_all(&folder).unwrap();
}
