//! For how long machines have been up, and from which number on their processes are counted.

use crate::support;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use support::run;
use weft_sim::{Scenario, World};

fn scenario(text: &str) -> Result<Scenario, String> {
    Scenario::parse("boots.toml", text, &[], &|_| Err("no files here".to_owned())).map_err(|error| error.to_string())
}

/// What a program has written in all its lives.
fn output(world: &World, name: &str) -> String {
    let number = world.plan().programs.iter().position(|program| program.name == name).expect("a program");
    support::output(world, number)
}

/// What `echo $$; cat /proc/uptime` says on each node: process number, and hundredths of a second since its boot.
fn ages(head: &str, names: &[&str]) -> Vec<(u32, u64)> {
    let (mut text, mut programs) = (head.to_owned(), String::new());
    for name in names {
        if !head.contains(&format!("[nodes.{name}]")) {
            let _ = writeln!(text, "[nodes.{name}]");
        }
        let _ = writeln!(programs, "[programs.{name}]\nnode = \"{name}\"\ncommand = [\"sh\", \"-c\", \"echo $$; cat /proc/uptime\"]");
    }
    let (world, end) = run(scenario(&(text + &programs)).expect("a scenario").plan, 1);
    assert_eq!(end.failures, Vec::<String>::new());
    let age = |name: &&str| {
        let said = output(&world, name).replace('.', "");
        let mut words = said.split_whitespace();
        let pid = words.next().and_then(|word| word.parse().ok()).expect("a number");
        (pid, words.next().and_then(|word| word.parse().ok()).expect("a time"))
    };
    names.iter().map(age).collect()
}

#[test]
fn the_seed_says_for_how_long_machines_have_been_up() {
    let names = ["a", "b", "c", "d"];
    let drawn = ages("seed = 7\n", &names);
    let ups: BTreeSet<u64> = drawn.iter().map(|(_, up)| *up).collect();
    let pids: BTreeSet<u32> = drawn.iter().map(|(pid, _)| *pid).collect();
    assert_eq!((ups.len(), pids.len()), (4, 4), "{drawn:?}");
    assert!(drawn.iter().all(|(pid, up)| *pid >= 300 && (6_000..360_000).contains(up)), "{drawn:?}");
    assert_eq!(ages("seed = 7\n", &names), drawn);
    assert_ne!(ages("seed = 8\n", &names), drawn);
    // Those who come later change nobody.
    assert_eq!(ages("seed = 7\n", &names[..2]), drawn[..2]);
    assert_eq!(ages("boot = \"0s\"\n", &names), [(2, 100); 4]);
    let some = ages("boot = \"2h\"\n[nodes.b]\nboot = \"0s\"\n", &names);
    assert_eq!(some.iter().map(|(_, up)| *up).collect::<Vec<_>>(), [720_100, 100, 720_100, 720_100]);
}

/// Seconds since its boot, how long it sleeps for two seconds, and the date in tens of seconds.
const SLEEPS: &str = "import time; print(int(time.clock_gettime(time.CLOCK_BOOTTIME)), flush=True); before = time.monotonic(); time.sleep(2); \
                      print(round(time.monotonic() - before, 2), time.time() // 10, flush=True)";

#[test]
fn who_boots_again_has_not_been_up_for_long() {
    for (boot, least, most) in [("", 61, 3602), ("boot = \"0s\"\n", 2, 2), ("boot = \"100s\"\n", 102, 102)] {
        let text = format!(
            "{boot}duration = \"60s\"\n[nodes.a]\n[programs.p]\nnode = \"a\"\nstart = \"1s\"\nexpect = \"any\"\n\
             command = [\"python3\", \"-c\", \"{SLEEPS}\"]\n\
             [[events]]\nat = \"50s\"\ncrash = \"a\"\n[[events]]\nat = \"51s\"\nrestart = \"a\"\n"
        );
        let (world, end) = run(scenario(&text).expect("a scenario").plan, 1);
        assert_eq!(end.failures, Vec::<String>::new());
        let said = output(&world, "p");
        let [first, slept, again, slept_again] = said.lines().collect::<Vec<_>>()[..] else { panic!("{said}") };
        assert!((least..=most).contains(&first.parse::<u64>().expect("seconds")), "{said}");
        assert!(["1", "2"].contains(&again), "{said}");
        assert_eq!((slept, slept_again), ("2.0 189345600.0", "2.0 189345605.0"), "{said}");
    }
}

#[test]
fn no_machine_is_up_for_longer_than_machines_are() {
    let error = |text: &str| scenario(&format!("[nodes.a]\n{text}\n[programs.p]\nnode = \"a\"\ncommand = [\"true\"]\n")).err();
    assert_eq!(error("boot = \"87600h\""), None);
    for (text, says) in [
        ("boot = \"87601h\"", "no machine is up for 87601h"),
        ("boot = \"-1s\"", "out of range"),
        ("boot = \"yesterday\"", "yesterday"),
        ("boot = 5", "boot"),
        ("kind = \"linux\"\nboot = \"1s\"", "takes no boot"),
    ] {
        let said = error(text).expect("an error");
        assert!(said.contains(says), "{text}: {said}");
    }
}
