//! Call sites that are used often become jumps past the kernel: nothing else changes by it.

use crate::native::folder;
use crate::world::{World, alone};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use weft_core::Instant;
use weft_process::Status;

const SEEN: &str = "registers lost: 0, wrong results: 0
by another way: 1 1
bad pointers: 0
short: 4950, 0 wrong, interrupted: -1004, restarted: 1 x, 2 signals, by another way: 1
signals: 100
blocked: 100
unblocked: 101
with a mask: -4 102
blocked again: 102
interrupted: -4, 800 ms left, 104
restarted: 8 1 105
between threads: 100
child: 7
vfork's: 8, parent: 1
own code: 0 wrong, as it was
";

fn built(folder: &Path) -> PathBuf {
    let (source, program) = (concat!(env!("CARGO_MANIFEST_DIR"), "/tests/virtual_time/gates.c"), folder.join("gates"));
    let built = Command::new("cc").args(["-O1", "-w", "-pthread", "-o"]).arg(&program).arg(source).status().unwrap();
    assert!(built.success());
    program
}

#[test]
fn gates_change_nothing_but_what_it_costs() {
    let folder = folder("gates");
    let program = built(&folder);
    let run = |gates: bool, words: &[&str]| {
        let mut world = World::tuned(1, 1, |config| config.gates = gates);
        let pid = world.start(0, Instant::ZERO, &[&[program.to_str().unwrap()], words].concat());
        world.run(&[(0, pid)], Duration::from_secs(1000));
        let ran = world.ran(0, pid);
        let host = &mut world.hosts[0];
        assert!(host.tree.preempted().is_empty(), "{:?}", host.tree.preempted());
        assert_eq!(ran.status, Status::Exited(0));
        (ran, host.tree.trace(), std::mem::take(&mut host.outer.record))
    };
    alone(|| {
        for gates in [true, false] {
            let (ran, ..) = run(gates, &[]);
            let there = format!("gates: {0} {0}\nshort gate: {0}\n", i32::from(gates));
            assert_eq!((ran.output, ran.error), (format!("{SEEN}in the way: 1\n"), there));
        }
        let (with, without) = (run(true, &["quiet"]), run(false, &["quiet"]));
        assert_eq!((with.0.output.as_str(), with.0.error.as_str()), (SEEN, ""));
        // All calls of the program, those that never left it included, and when they were made.
        assert_eq!(with, without);
    });
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_thread_that_spins_is_interrupted_while_another_sleeps_at_a_gate() {
    let folder = folder("gates-spin");
    let program = built(&folder);
    alone(|| {
        let mut world = World::tuned(1, 1, |config| config.patience = Duration::from_millis(300));
        let pid = world.start(0, Instant::ZERO, &[program.to_str().unwrap(), "spin"]);
        world.run(&[(0, pid)], Duration::from_secs(1000));
        let ran = world.ran(0, pid);
        assert_eq!((ran.output.as_str(), ran.error.as_str(), ran.status), ("over\n", "", Status::Exited(0)));
        assert_eq!(world.hosts[0].tree.preempted().len(), 1);
    });
    std::fs::remove_dir_all(&folder).unwrap();
}
